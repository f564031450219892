# the tests are loaded by path and are no package
"""The loop: what is written when, how a sitting ends, and how the next one goes on."""

from __future__ import annotations

import errno
import gzip
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from fake_clock import FakeClock
from harness import (
    Died,
    Disk,
    Mortal,
    Spoil,
    actions_of,
    edited,
    instead,
    last_event,
    only_journal,
    run_events,
    unbroken_actions,
    write_journal,
)
from standins import Call, Watcher, journal_lines, play

from bot import rules, solver, strategy
from bot.client.limits import Limits
from bot.errors import (
    ConfigError,
    Diverged,
    JournalDamaged,
    JournalError,
    ServiceUnavailable,
    TokenRefused,
    TryLater,
)
from bot.journal import writer
from bot.journal.folder import journal_path
from bot.journal.lock import lock
from bot.player import Mode, Outcome
from bot.rules import Action
from bot.service import Answer
from bot.strategy import Goal
from bot.verify import recover

RUN: Final = "20261129T120000Z-seed7-00ff"
"""A run that began on the day before every run of the fake clock."""
LATER_RUN: Final = "20261129T120001Z-seed7-0000"

LOST: Final = instead(503, b"")
NO: Final = instead(200, {"ok": False, "reason": "no", "legalActions": []})
NO_TOKEN: Final = instead(401, {"ok": False, "reason": "the state token has expired"})
WRONG: Final = edited(score=1)
FRESH: Final = Call(mode=Mode.FRESH)


@pytest.fixture
def runs_dir(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    """Put a disk under the writer that the test can break."""
    fake = Disk()
    monkeypatch.setattr(writer, "os", fake)
    return fake


def names(path: Path) -> list[object]:
    """Return the event of each line."""
    return [line["event"] for line in journal_lines(path)]


def check_whole_run(outcome: Outcome) -> None:
    """Check that a run ended as if nothing had disturbed it, and that its journal says so."""
    assert outcome.error is None
    assert outcome.exit_code == 0
    assert actions_of(outcome.path) == unbroken_actions()
    assert sum(int(str(line["award"])) for line in journal_lines(outcome.path, "action")) == 3030
    recovered = recover(outcome.path)
    assert recovered.cut_bytes == 0
    assert recovered.run.is_over
    assert recovered.run.state.score == 3030


# A run that nothing disturbs


def test_a_run_to_3030_points_takes_71_requests(runs_dir: Path, clock: FakeClock) -> None:
    service = Mortal()
    outcome = play(service, runs_dir, clock)
    check_whole_run(outcome)
    assert len(service.requests) == 71
    end = last_event(outcome.path)
    assert {**end, "ts": ""} == {
        "seq": 71,
        "ts": "",
        "event": "run.ended",
        "end_reason": "banked",
        "score": 3030,
        "boards": 12,
        "flips": 58,
        "requests": 71,
        "retries": 0,
        "seconds": 0.0,
    }


def test_each_line_is_written_before_the_next_request_and_each_award_is_synced(
    runs_dir: Path, clock: FakeClock, disk: Disk
) -> None:
    service = Mortal()
    service.log = disk.log
    play(service, runs_dir, clock, Call(bank_at=430))
    award = ["request", "action", "sync"]
    assert disk.log == [
        *("request", "run.started", "sync"),
        *award,
        *("request", "action"),
        *("request", "action"),
        *award,
        *("request", "action"),
        *("run.ended", "sync"),
    ]


def test_every_award_of_a_run_is_synced_and_its_start_and_its_end(
    runs_dir: Path, clock: FakeClock, disk: Disk
) -> None:
    play(Mortal(), runs_dir, clock)
    assert disk.syncs == 1 + 12 + 1


def test_a_threshold_of_nothing_banks_at_once(runs_dir: Path, clock: FakeClock) -> None:
    service = Mortal()
    outcome = play(service, runs_dir, clock, Call(bank_at=0))
    assert outcome.exit_code == 0
    assert len(service.requests) == 2
    assert names(outcome.path) == ["run.started", "action", "run.ended"]
    assert last_event(outcome.path)["score"] == 0


# Failures on the way


def test_failures_of_init_are_written_after_the_first_line(
    runs_dir: Path, clock: FakeClock
) -> None:
    service = Mortal({1: LOST, 2: LOST})
    outcome = play(service, runs_dir, clock)
    check_whole_run(outcome)
    lines = list(journal_lines(outcome.path))[:4]
    assert [line["event"] for line in lines] == ["run.started", "retry", "retry", "action"]
    assert [(line["what"], line["attempt"], line["status"]) for line in lines[1:3]] == [
        ("init", 1, 503),
        ("init", 2, 503),
    ]
    assert last_event(outcome.path)["requests"] == len(service.requests) == 73
    assert last_event(outcome.path)["retries"] == 2


def test_an_init_that_never_succeeds_leaves_no_file_and_names_two_ways_out(
    runs_dir: Path, clock: FakeClock
) -> None:
    with pytest.raises(ServiceUnavailable, match=r"nothing was played.*`check`.*`--local`"):
        play(Mortal(dict.fromkeys(range(1, 1000), LOST)), runs_dir, clock)
    assert list(runs_dir.glob("*.jsonl")) == []


def test_a_failed_request_is_one_line_and_its_action_is_written_once(
    runs_dir: Path, clock: FakeClock
) -> None:
    service = Mortal({3: LOST, 4: instead(200, b"<html>"), 5: NO, 8: WRONG})
    outcome = play(service, runs_dir, clock)
    check_whole_run(outcome)
    assert names(outcome.path)[:8] == [
        "run.started",
        "action",
        "retry",
        "retry",
        "refused",
        "action",
        "action",
        "retry",
    ]
    attempts = [line["attempts"] for line in journal_lines(outcome.path, "action")]
    assert attempts[:4] == [1, 4, 1, 2]
    assert last_event(outcome.path)["requests"] == len(service.requests) == 75
    assert last_event(outcome.path)["retries"] == 3


def test_a_contradiction_twice_suspends_the_run_and_names_the_fields(
    runs_dir: Path, clock: FakeClock
) -> None:
    outcome = play(Mortal({3: WRONG, 4: WRONG}), runs_dir, clock)
    assert isinstance(outcome.error, Diverged)
    assert outcome.exit_code == 76
    *_, diverged, suspended = journal_lines(outcome.path)
    assert names(outcome.path)[2:] == ["retry", "retry", "diverged", "run.suspended"]
    assert diverged["fields"] == {
        "score": {"predicted": 215, "observed": 1},
        "state.score": {"predicted": 215, "observed": 1},
    }
    assert suspended["exit_code"] == 76
    check_whole_run(play(Mortal(), runs_dir, clock))


def test_a_refused_token_keeps_the_run_and_the_right_service_goes_on_with_it(
    runs_dir: Path, clock: FakeClock
) -> None:
    outcome = play(Mortal({6: NO_TOKEN, 7: NO_TOKEN}), runs_dir, clock)
    assert isinstance(outcome.error, TokenRefused)
    assert (outcome.exit_code, clock.waits) == (77, [5.0])
    end = last_event(outcome.path)
    assert (end["event"], end["exit_code"]) == ("run.suspended", 77)
    assert "the state token has expired" in str(end["reason"])
    assert str(outcome.error).count("the service refuses the token") == 1
    clock.advance(30 * 24 * 3600)
    again = play(Mortal(), runs_dir, clock)
    check_whole_run(again)
    assert again.path == outcome.path


def refusing(first: int) -> Mortal:
    """Return a service that takes no token from its request number `first` on."""
    return Mortal(dict.fromkeys(range(first, 200), NO_TOKEN))


def test_a_token_that_is_refused_for_more_than_an_hour_abandons_the_run(
    runs_dir: Path, clock: FakeClock
) -> None:
    first = play(refusing(6), runs_dir, clock)
    clock.advance(3500)
    within = play(refusing(1), runs_dir, clock)
    assert last_event(within.path)["event"] == "run.suspended"
    clock.advance(120)
    beyond = play(refusing(1), runs_dir, clock)
    assert (first.exit_code, within.exit_code, beyond.exit_code) == (77, 77, 77)
    assert last_event(beyond.path)["event"] == "run.abandoned"
    assert [str(end.error).count("the service refuses the token") for end in (within, beyond)] == [
        1,
        1,
    ]
    assert first.path == beyond.path
    anew = play(Mortal(), runs_dir, clock)
    check_whole_run(anew)
    assert anew.path != first.path


def test_a_token_that_was_taken_in_between_is_refused_anew(
    runs_dir: Path, clock: FakeClock
) -> None:
    play(refusing(6), runs_dir, clock)
    clock.advance(7200)
    play(refusing(3), runs_dir, clock)
    clock.advance(60)
    outcome = play(refusing(1), runs_dir, clock)
    assert last_event(outcome.path)["event"] == "run.suspended"
    check_whole_run(play(Mortal(), runs_dir, clock))


def test_a_threshold_that_the_unfinished_run_has_passed_is_a_clash(
    runs_dir: Path, clock: FakeClock
) -> None:
    suspended = play(Mortal(), runs_dir, clock, Call(limits=Limits(max_requests=40)))
    before = suspended.path.read_bytes()
    service = Mortal()
    for rule in ("at-least", "at-most"):
        with pytest.raises(ConfigError, match=r"1000; nothing was sent\. .*--bank-now") as caught:
            play(service, runs_dir, clock, Call(bank_at=1000, bank_rule=rule))
        assert caught.value.exit_code == 78
    assert (service.requests, suspended.path.read_bytes()) == ([], before)


def test_a_run_that_died_at_its_threshold_is_banked_all_the_same(
    runs_dir: Path, clock: FakeClock
) -> None:
    with pytest.raises(Died):
        play(dying_before(71), runs_dir, clock)
    outcome = play(Mortal(), runs_dir, clock)
    check_whole_run(outcome)


def dying_before(number: int) -> Mortal:
    service = Mortal()
    service.dies_before = number
    return service


def test_bank_now_banks_what_there_is(runs_dir: Path, clock: FakeClock) -> None:
    suspended = play(Mortal(), runs_dir, clock, Call(limits=Limits(max_requests=40)))
    service = Mortal()
    outcome = play(service, runs_dir, clock, Call(mode=Mode.BANK_NOW))
    assert (outcome.exit_code, outcome.path, len(service.requests)) == (0, suspended.path, 1)
    assert outcome.run.score == suspended.run.score > 0
    assert recover(outcome.path).run.is_over


@pytest.mark.parametrize("mode", [Mode.BANK_NOW, Mode.RESUME_ONLY])
def test_where_there_is_nothing_to_go_on_with_nothing_is_sent(
    mode: Mode, runs_dir: Path, clock: FakeClock
) -> None:
    check_whole_run(play(Mortal(), runs_dir, clock))
    service = Mortal()
    with pytest.raises(AssertionError):  # it returns no outcome
        play(service, runs_dir, clock, Call(mode=mode))
    assert service.requests == []
    assert len([*runs_dir.glob("*.jsonl")]) == 1


def test_resume_only_goes_on(runs_dir: Path, clock: FakeClock) -> None:
    suspended = play(Mortal(), runs_dir, clock, Call(limits=Limits(max_requests=40)))
    outcome = play(Mortal(), runs_dir, clock, Call(mode=Mode.RESUME_ONLY))
    check_whole_run(outcome)
    assert outcome.path == suspended.path


# Trouble that passes


PAGE: Final = b"<html><h1>Not here</h1></html>"
TROUBLES: Final[dict[str, Spoil]] = {
    **{
        f"{status} as JSON": instead(status, {"message": "Conflict"})
        for status in (400, 401, 403, 404, 405, 408, 409, 410, 413, 415, 418, 422, 425, 500, 599)
    },
    **{f"{status} as a page": instead(status, PAGE) for status in (403, 404, 405, 413, 500, 200)},
    "a bad request with a title": instead(
        400, {"statusCode": 400, "error": "Bad Request", "message": "body stream interrupted"}
    ),
    "a token of another layer": instead(401, {"error": "invalid_token", "message": "access token"}),
    "a CSRF token": instead(403, {"message": "invalid csrf token"}),
    "a parser's token": instead(200, {"ok": False, "reason": "Unexpected token '<' in JSON"}),
    "a session upstream": instead(403, {"detail": "session timed out upstream"}),
    "a limit": instead(200, {"ok": False, "reason": "rate limit exceeded"}),
    "a limit in an error object": instead(200, {"error": {"code": "TOO_MANY_REQUESTS"}}),
    "an internal error": instead(200, {"ok": False, "reason": "internal error"}),
    "an error object": instead(200, {"error": {"message": "database unavailable"}}),
    "429": instead(429, b""),
    "nothing": instead(200, {}),
    "back soon": instead(200, {"message": "back soon"}),
    "a list": instead(200, []),
    "a number": instead(200, b"7"),
    "no JSON": instead(200, b"{"),
    "too deep": instead(200, b"[" * 200 + b"]" * 200),
}


@pytest.mark.parametrize("trouble", TROUBLES.values(), ids=TROUBLES)
def test_eight_seconds_of_trouble_in_the_middle_of_a_run_pass(
    trouble: Spoil, runs_dir: Path, clock: FakeClock
) -> None:
    class Passing(Mortal):
        def answer(self, method: str, target: str, body: bytes) -> Answer:
            began_at.append(clock.monotonic())
            answer = super().answer(method, target, body)
            is_passing = len(began_at) >= 30 and clock.monotonic() - began_at[29] <= 8
            return trouble(answer) if is_passing else answer

    began_at: list[float] = []
    outcome = play(Passing(), runs_dir, clock)
    check_whole_run(outcome)


def test_a_refused_action_is_sent_seven_times_in_all(runs_dir: Path, clock: FakeClock) -> None:
    service = Mortal(dict.fromkeys(range(6, 12), NO))
    check_whole_run(play(service, runs_dir, clock))
    assert clock.waits == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]
    clock.waits.clear()
    outcome = play(Mortal(dict.fromkeys(range(6, 60), NO)), runs_dir, clock)
    assert (outcome.exit_code, len(clock.waits)) == (76, 6)


def test_an_answer_that_holds_everything_is_one_whatever_error_stands_beside_it(
    runs_dir: Path, clock: FakeClock
) -> None:
    def also_failing(answer: Answer) -> Answer:
        body = {**json.loads(answer.body), "ok": False, "reason": "internal error"}
        return Answer(200, json.dumps(body).encode())

    service = Mortal({5: also_failing, 6: also_failing})
    check_whole_run(play(service, runs_dir, clock))
    assert len(service.requests) == 71


def test_a_refusal_that_repeats_the_state_as_it_was_is_no_move(
    runs_dir: Path, clock: FakeClock
) -> None:
    def repeating(_: Answer) -> Answer:
        sent = json.loads(service.requests[-1][1])["stateToken"]
        return Answer(200, json.dumps({"ok": False, "stateToken": sent, "score": 0}).encode())

    service = Mortal({2: repeating})
    outcome = play(service, runs_dir, clock)
    check_whole_run(outcome)
    assert len([*journal_lines(outcome.path, "refused")]) == 1


def test_a_budget_suspends_the_run_and_the_next_start_goes_on(
    runs_dir: Path, clock: FakeClock
) -> None:
    outcome = play(Mortal(), runs_dir, clock, Call(limits=Limits(max_requests=20)))
    assert isinstance(outcome.error, TryLater)
    assert outcome.exit_code == 75
    assert names(outcome.path).count("action") == 19
    assert last_event(outcome.path)["event"] == "run.suspended"
    service = Mortal()
    again = play(service, runs_dir, clock)
    check_whole_run(again)
    assert again.path == outcome.path
    assert len(service.requests) == 51
    assert last_event(again.path)["requests"] == 71


def test_a_suspension_that_does_not_fit_on_the_disk_ends_with_74(
    runs_dir: Path, clock: FakeClock, disk: Disk
) -> None:
    call = Call(limits=Limits(max_requests=3))
    whole = play(Mortal(), runs_dir, clock, call).path.read_bytes()
    disk.room = whole.index(b'{"seq":3') + 10
    outcome = play(Mortal(), runs_dir / "full", clock, call)
    assert names(outcome.path) == ["run.started", "action", "action"]
    assert outcome.exit_code == 74


def test_a_service_that_describes_the_game_otherwise_is_told_of(
    runs_dir: Path, clock: FakeClock
) -> None:
    watcher = Watcher()
    first = play(Mortal(), runs_dir, clock, watcher=watcher)
    assert watcher.notices == []

    def other_spec(answer: Answer) -> Answer:
        return answer._replace(body=answer.body.replace(b'"short"', b'"other"'))

    clock.advance(1)
    check_whole_run(play(Mortal({1: other_spec}), runs_dir, clock, watcher=watcher))
    (notice,) = watcher.notices
    assert first.path.stem in notice
    assert "does not describe the game as in the run" in notice


@pytest.mark.parametrize(("number", "code"), [(2, 130), (15, 143)], ids=["SIGINT", "SIGTERM"])
def test_a_stop_suspends_the_run_in_a_wait(
    number: int, code: int, runs_dir: Path, clock: FakeClock
) -> None:
    clock.when_asleep = lambda _: clock.stop.ask(number)
    outcome = play(Mortal({9: LOST}), runs_dir, clock)
    assert outcome.exit_code == code
    assert names(outcome.path)[-2:] == ["retry", "run.suspended"]
    assert last_event(outcome.path)["exit_code"] == code
    check_whole_run(play(Mortal(), runs_dir, FakeClock()))


def test_a_fault_of_the_bot_suspends_the_run_and_is_not_hidden(
    runs_dir: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def decide(*_: object) -> Action:
        raise ZeroDivisionError("seven by nothing")

    with monkeypatch.context() as patch:
        patch.setattr(strategy, "decide", decide)
        with pytest.raises(ZeroDivisionError):
            play(Mortal(), runs_dir, clock)
    end = last_event(only_journal(runs_dir))
    assert (end["event"], end["exit_code"]) == ("run.suspended", 70)
    assert end["reason"] == "a fault of the bot: ZeroDivisionError: seven by nothing"
    check_whole_run(play(Mortal(), runs_dir, clock))


# What the service sends is data

HOSTILE: Final[Mapping[str, object]] = {
    "event": "run.ended",
    "seq": -1,
    "ts": "never",
    "level": "error",
    "timestamp": 0,
    "exc_info": True,
    "stack_info": True,
    "surrogate \ud800": "\udfff",
    "lines": "\u2028\u2029\x85\n\r\x0b",
    "terminal": "\x1b[2J\x1b]0;x\x07\x7f",
    "long": "x" * 100_000,
}


def hostile_answer(answer: Any) -> Any:
    """Put into an answer, and into its spec, whatever could do harm in a journal."""
    body = json.loads(answer.body)
    body = {**HOSTILE, **body, "state": {**HOSTILE, **body["state"]}}
    if "spec" in body:
        body["spec"] = {**HOSTILE, "huge": "HUGE", "nested": [HOSTILE]}
    text = json.dumps(body).replace('"HUGE"', "[1e999, -1e999]")
    return answer._replace(body=text.encode())


def test_no_word_of_the_service_gets_out_of_its_place_in_the_journal(
    runs_dir: Path, clock: FakeClock
) -> None:
    spoils: dict[int, Spoil] = dict.fromkeys(range(1, 1000), hostile_answer)
    first = play(Mortal(spoils), runs_dir, clock, Call(limits=Limits(max_requests=30)))
    assert first.exit_code == 75
    outcome = play(Mortal(spoils), runs_dir, clock)
    check_whole_run(outcome)
    content = outcome.path.read_bytes()
    assert content.isascii()
    assert not any(byte < 32 or byte == 127 for byte in content.replace(b"\n", b""))
    started = next(journal_lines(outcome.path))
    assert list(started)[:4] == ["seq", "ts", "event", "journal_version"]
    assert started["event"] == "run.started"
    spec: Any = started["spec"]
    assert spec["huge"] == ["inf", "-inf"]
    assert spec["event"] == "run.ended"
    assert {len(line) for line in journal_lines(outcome.path, "action")} == {17}


@pytest.mark.parametrize(
    "reason",
    ["\x1b[2J", "a\nb\u2028c", "\ud800", "x" * 200_000, "", None, {"event": [1]}],
    ids=["escape", "line ends", "surrogate", "long", "empty", "null", "object"],
)
def test_a_refusal_is_written_whatever_its_reason_holds(
    reason: object, runs_dir: Path, clock: FakeClock
) -> None:
    spoil = instead(200, {"ok": False, "reason": reason, "legalActions": [], "event": "x"})
    outcome = play(Mortal({4: spoil}), runs_dir, clock)
    check_whole_run(outcome)
    (refused,) = journal_lines(outcome.path, "refused")
    assert list(refused) == ["seq", "ts", "event", "action", "reason"]
    text = reason if isinstance(reason, str) else json.dumps(reason)
    assert refused["reason"] == text[:500]


# A disk that does not take it


@pytest.mark.slow
@pytest.mark.parametrize("line", [0, 1, 2, 30, 70, 71], ids="in line {}".format)
@pytest.mark.parametrize("fits", [0, 1, -1], ids=["nothing fits", "a byte fits", "all but the end"])
def test_a_full_disk_ends_the_run_at_once_and_the_next_start_with_room_goes_on(
    line: int, fits: int, runs_dir: Path, tmp_path: Path, disk: Disk
) -> None:
    whole = play(Mortal(), tmp_path / "whole", FakeClock()).path.read_bytes().splitlines(True)
    disk.room = sum(map(len, whole[:line])) + fits % len(whole[line])
    service = Mortal()
    if line:
        outcome = play(service, runs_dir, FakeClock())
        assert isinstance(outcome.error, JournalError)
        assert outcome.exit_code == 74
    else:
        with pytest.raises(JournalError) as caught:
            play(service, runs_dir, FakeClock())
        assert caught.value.exit_code == 74
    kept = [
        part
        for path in runs_dir.glob("*.jsonl*")
        for part in path.read_bytes().splitlines(keepends=True) or [b""]
    ]
    assert len(kept) == line
    assert all(part.endswith(b"\n") for part in kept)
    assert len(service.requests) == min(line + 1, 71)
    disk.room = 10**9
    more = Mortal()
    check_whole_run(play(more, runs_dir, FakeClock()))
    assert len(more.requests) == 71 - max(line - 0, 0) if line < 71 else not more.requests


@pytest.mark.parametrize("fits", [0, 20], ids=["nothing fits", "a part fits"])
def test_a_disk_still_full_at_the_next_start_sends_nothing_and_loses_nothing(
    fits: int, runs_dir: Path, disk: Disk
) -> None:
    path = cut_short(runs_dir)
    content = path.read_bytes()
    disk.room = fits
    service = Mortal()
    with pytest.raises(JournalError) as caught:
        play(service, runs_dir, FakeClock())
    assert caught.value.exit_code == 74
    assert service.requests == []
    assert path.read_bytes() == content
    disk.room = 10**9
    check_whole_run(play(service, runs_dir, FakeClock()))


def test_a_disk_that_cannot_sync_ends_the_run_at_once(runs_dir: Path, disk: Disk) -> None:
    service = Mortal()
    service.log = disk.log

    def fail_at_the_second(_: int) -> None:
        disk.syncs += 1
        if disk.syncs == 2:
            raise OSError(errno.EIO, "Input/output error")

    disk.fdatasync = fail_at_the_second  # type: ignore[method-assign]  # the disk of this test
    outcome = play(service, runs_dir, FakeClock())
    assert outcome.exit_code == 74
    assert len(service.requests) == 2
    check_whole_run(play(Mortal(), runs_dir, FakeClock()))


def test_a_retry_line_that_does_not_fit_ends_the_run_before_the_next_request(
    runs_dir: Path, disk: Disk
) -> None:
    service = Mortal({3: LOST})
    service.log = disk.log

    def fill(*_: object) -> Any:
        disk.room = 5
        return instead(503, b"")(*_)  # type: ignore[arg-type]  # the answer

    service.spoils = {3: fill}
    outcome = play(service, runs_dir, FakeClock())
    assert outcome.exit_code == 74
    assert len(service.requests) == 3
    assert names(outcome.path) == ["run.started", "action"]


@pytest.mark.parametrize("place", ["file", "file/runs", "/proc/runs"])
def test_a_runs_folder_that_cannot_be_written_is_told_before_any_request(
    place: str, tmp_path: Path, clock: FakeClock
) -> None:
    (tmp_path / "file").touch()
    service = Mortal()
    with pytest.raises(JournalError, match="cannot write in the runs folder"):
        play(service, tmp_path / place, clock)
    assert service.requests == []


# Going on


def cut_short(runs_dir: Path, requests: int = 21) -> Path:
    """Play until the process dies before this request; return the journal."""
    service = Mortal()
    service.dies_before = requests
    with pytest.raises(Died):
        play(service, runs_dir, FakeClock())
    return only_journal(runs_dir)


TAILS: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "nothing": lambda whole: whole,
    "partial JSON": lambda whole: whole + whole.splitlines()[-1][:100],
    "half a character": lambda whole: whole + b'{"seq":20,"reason":"caf\xc3',
    "NUL bytes": lambda whole: whole + b"\0" * 4096,
    "a whole record without its line end": lambda whole: whole[:-1],
    "garbage and a line end": lambda whole: whole + b"\xff\xfe{}\n",
}


@pytest.mark.parametrize("tail", [pytest.param(tail, id=name) for name, tail in TAILS.items()])
def test_a_torn_tail_is_cut_off_and_told_and_the_run_goes_on(
    tail: Callable[[bytes], bytes], runs_dir: Path, clock: FakeClock
) -> None:
    path = cut_short(runs_dir)
    whole = path.read_bytes()
    torn = tail(whole)
    path.write_bytes(torn)
    kept = max(
        end
        for end in range(len(torn) + 1)
        if whole[:end] == torn[:end] and (end == 0 or whole[:end].endswith(b"\n"))
    )
    watcher = Watcher()
    outcome = play(Mortal(), runs_dir, clock, watcher=watcher)
    check_whole_run(outcome)
    (resumed,) = journal_lines(path, "run.resumed")
    assert resumed["cut_bytes"] == len(torn) - kept
    assert resumed["from_seq"] == whole[:kept].count(b"\n") - 1
    expected = [f"{len(torn) - kept} bytes of a torn last line were cut off {path}"]
    assert watcher.notices == (expected if len(torn) > kept else [])


@pytest.mark.parametrize("size", [0, 1, 100, -1], ids=["empty", "a byte", "a part", "no line end"])
def test_a_run_whose_first_line_never_was_whole_is_passed_by(
    size: int, runs_dir: Path, clock: FakeClock
) -> None:
    path = cut_short(runs_dir, requests=2)
    torn = path.read_bytes()[:size]
    path.write_bytes(torn)
    clock.advance(1)
    outcome = play(Mortal(), runs_dir, clock)
    check_whole_run(outcome)
    assert path.read_bytes() == torn


def _drop_line_5(lines: list[bytes]) -> list[bytes]:
    return lines[:4] + lines[5:]


def _break_line_5(lines: list[bytes]) -> list[bytes]:
    return [*lines[:4], b"\0" * len(lines[4][1:]) + b"\n", *lines[5:]]


def _double_line_4(lines: list[bytes]) -> list[bytes]:
    return [*lines[:4], *lines[3:]]


def _change_line_5(lines: list[bytes]) -> list[bytes]:
    changed = lines[4].replace(b'"leaves":3', b'"leaves":2')
    assert changed != lines[4]
    return [*lines[:4], changed, *lines[5:]]


DAMAGES: Final = {
    "a missing line": _drop_line_5,
    "a broken line": _break_line_5,
    "a doubled line": _double_line_4,
    "a value that the rules contradict": _change_line_5,
}

damaged = pytest.mark.parametrize(
    "damage", [pytest.param(damage, id=name) for name, damage in DAMAGES.items()]
)


@damaged
def test_damage_in_the_middle_is_refused_and_nothing_is_sent_or_changed(
    damage: Callable[[list[bytes]], list[bytes]], runs_dir: Path, clock: FakeClock
) -> None:
    path = cut_short(runs_dir)
    content = b"".join(damage(path.read_bytes().splitlines(keepends=True)))
    path.write_bytes(content)
    service = Mortal()
    with pytest.raises(JournalDamaged, match=f"{path} is damaged at line 5: ") as caught:
        play(service, runs_dir, clock)
    assert caught.value.exit_code == 74
    assert service.requests == []
    assert path.read_bytes() == content
    assert only_journal(runs_dir) == path


@damaged
def test_a_fresh_run_passes_damage_by_and_says_what_it_leaves(
    damage: Callable[[list[bytes]], list[bytes]], runs_dir: Path, clock: FakeClock
) -> None:
    path = cut_short(runs_dir)
    content = b"".join(damage(path.read_bytes().splitlines(keepends=True)))
    path.write_bytes(content)
    clock.advance(1)
    watcher = Watcher()
    outcome = play(Mortal(), runs_dir, clock, FRESH, watcher)
    check_whole_run(outcome)
    assert outcome.path != path
    assert path.read_bytes() == content
    (notice,) = watcher.notices
    assert "leaving a run that cannot be resumed" in notice
    assert str(path) in notice


def test_a_fresh_run_leaves_an_unfinished_one_and_names_it(
    runs_dir: Path, clock: FakeClock
) -> None:
    path = cut_short(runs_dir)
    content = path.read_bytes()
    clock.advance(1)
    watcher = Watcher()
    outcome = play(Mortal(), runs_dir, clock, FRESH, watcher)
    check_whole_run(outcome)
    assert watcher.notices == [f"leaving the unfinished run {path}"]
    assert path.read_bytes() == content


def test_a_fresh_run_gives_one_that_lacks_its_last_line_alone_that_line(
    runs_dir: Path, clock: FakeClock
) -> None:
    path = write_journal(runs_dir, RUN, run_events(RUN)[:-1])
    clock.advance(1)
    watcher = Watcher()
    outcome = play(Mortal(), runs_dir, clock, FRESH, watcher)
    check_whole_run(outcome)
    assert outcome.path != path
    assert not any("leaving" in notice for notice in watcher.notices)
    assert last_event(path)["event"] == "run.ended"
    assert recover(path).run.is_over


def test_a_fresh_run_passes_by_one_that_it_may_not_write(
    runs_dir: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_journal(runs_dir, RUN, run_events(RUN)[:-1])
    monkeypatch.setattr(os, "access", lambda *_: False)
    clock.advance(1)
    watcher = Watcher()
    outcome = play(Mortal(), runs_dir, clock, FRESH, watcher)
    check_whole_run(outcome)
    assert outcome.path != path
    assert f"leaving the unfinished run {path}" in watcher.notices


def test_a_fresh_run_writes_nothing_into_a_compressed_one(runs_dir: Path, clock: FakeClock) -> None:
    packed = gzip_journal(write_journal(runs_dir, RUN, run_events(RUN)[:-1]))
    content = packed.read_bytes()
    check_whole_run(play(Mortal(), runs_dir, clock, FRESH))
    assert packed.read_bytes() == content


def test_a_fresh_run_says_nothing_of_a_finished_one(runs_dir: Path, clock: FakeClock) -> None:
    write_journal(runs_dir, RUN, run_events(RUN))
    watcher = Watcher()
    check_whole_run(play(Mortal(), runs_dir, clock, FRESH, watcher))
    assert not any("leaving" in notice for notice in watcher.notices)


@pytest.mark.parametrize(
    ("older", "newer", "is_resumed"),
    [
        pytest.param(5, None, False, id="an unfinished run before a finished one is left alone"),
        pytest.param(None, 5, True, id="an unfinished run after a finished one goes on"),
        pytest.param(4, 5, True, id="of two unfinished runs the newer one goes on"),
    ],
)
def test_the_newest_run_decides(
    older: int | None, newer: int | None, is_resumed: bool, runs_dir: Path, clock: FakeClock
) -> None:
    paths = {
        run: write_journal(runs_dir, run, run_events(run)[:lines])
        for run, lines in ((LATER_RUN, newer), (RUN, older))
    }
    content = paths[RUN].read_bytes()
    outcome = play(Mortal(), runs_dir, clock)
    check_whole_run(outcome)
    assert (outcome.path == paths[LATER_RUN]) is is_resumed
    assert paths[RUN].read_bytes() == content


@pytest.mark.parametrize(
    ("base_url", "seed"),
    [
        pytest.param("http://other.test", 7, id="service"),
        pytest.param("http://local", 8, id="seed"),
    ],
)
def test_an_unfinished_run_of_another_service_or_seed_is_not_touched(
    base_url: str, seed: int, runs_dir: Path, clock: FakeClock
) -> None:
    run = LATER_RUN.replace("seed7", f"seed{seed}")
    first, *rest = run_events(run)[:5]
    path = write_journal(runs_dir, run, [first._replace(base_url=base_url, seed=seed), *rest])  # type: ignore[call-arg]  # it is run.started
    content = path.read_bytes()
    outcome = play(Mortal(), runs_dir, clock)
    check_whole_run(outcome)
    assert path.read_bytes() == content


def test_a_resumed_run_takes_the_threshold_of_its_call(runs_dir: Path, clock: FakeClock) -> None:
    path = cut_short(runs_dir)
    outcome = play(Mortal(), runs_dir, clock, Call(bank_at=4000))
    assert outcome.path == path
    assert outcome.exit_code == 0
    assert outcome.run.state.score == 3030 + 4 * 265
    (resumed,) = journal_lines(path, "run.resumed")
    assert (resumed["bank_at"], resumed["bank_rule"]) == (4000, "at-least")


def test_a_clock_that_was_set_back_does_not_keep_a_run_from_going_on(
    runs_dir: Path, clock: FakeClock
) -> None:
    clock.advance(3600)
    first = play(Mortal(), runs_dir, clock, Call(limits=Limits(max_requests=20)))
    clock.advance(-7200)
    outcome = play(Mortal(), runs_dir, clock)
    check_whole_run(outcome)
    assert outcome.path == first.path
    assert last_event(outcome.path)["seconds"] == 0


def out_of_leaves() -> list[Action]:
    return [rules.RESTART] * 3


def banked_on_the_last_leaf() -> list[Action]:
    """Return the actions of a run that wastes its leaves and moves, and then banks nothing."""
    actions = [rules.RESTART] * 2
    state = rules.apply(rules.apply(rules.fresh(), rules.RESTART), rules.RESTART)
    while strategy.decide(state, Goal(3030)) != rules.BANK:
        afters = {flip: rules.apply(state, flip) for flip in rules.FLIPS[: state.n]}
        worst = max(afters, key=lambda flip: solver.distance(afters[flip].garland))
        actions.append(worst)
        state = afters[worst]
    return [*actions, rules.BANK]


@pytest.mark.parametrize(
    ("actions", "exit_code", "end_reason"),
    [
        pytest.param(None, 0, "banked", id="banked as asked"),
        pytest.param(out_of_leaves(), 1, "out-of-lives", id="out of leaves"),
        pytest.param(banked_on_the_last_leaf(), 1, "banked", id="banked short of the threshold"),
    ],
)
@pytest.mark.parametrize("part", [0, 1, 60, -1], ids="{} bytes of run.ended".format)
def test_where_only_the_end_is_missing_it_is_written_and_nothing_is_sent(
    part: int,
    actions: list[Action] | None,
    exit_code: int,
    end_reason: str,
    runs_dir: Path,
    clock: FakeClock,
) -> None:
    path = write_journal(runs_dir, RUN, run_events(RUN, actions))
    whole = path.read_bytes()
    end = whole.splitlines(keepends=True)[-1]
    path.write_bytes(whole[: -len(end)] + end[:part])
    service = Mortal()
    outcome = play(service, runs_dir, clock)
    assert outcome.exit_code == exit_code
    assert service.requests == []
    assert outcome.path == path
    written = last_event(path)
    assert written["end_reason"] == end_reason
    assert {**written, "ts": 0} == {**json.loads(end), "ts": 0}
    assert path.read_bytes().startswith(whole[: -len(end)])
    assert recover(path).run.is_over


def test_where_the_end_is_missing_after_a_suspension_it_is_written_too(
    runs_dir: Path, clock: FakeClock, disk: Disk
) -> None:
    disk.dying = ("run.ended", 0, 0)
    with pytest.raises(Died):
        play(Mortal(), runs_dir, clock)
    disk.dying = None
    service = Mortal()
    outcome = play(service, runs_dir, clock, Call(bank_at=10**6))
    assert outcome.exit_code == 0
    assert service.requests == []
    assert last_event(outcome.path)["score"] == 3030


def gzip_journal(path: Path) -> Path:
    packed = path.with_name(f"{path.name}.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    return packed


def test_an_unfinished_run_that_is_compressed_is_not_written_to(
    runs_dir: Path, clock: FakeClock
) -> None:
    packed = gzip_journal(write_journal(runs_dir, RUN, run_events(RUN)[:6]))
    content = packed.read_bytes()
    service = Mortal()
    with pytest.raises(JournalError, match=f"{packed} is compressed"):
        play(service, runs_dir, clock)
    assert service.requests == []
    assert packed.read_bytes() == content
    check_whole_run(play(service, runs_dir, clock, FRESH))


def test_a_compressed_copy_beside_the_journal_is_passed_by(
    runs_dir: Path, clock: FakeClock
) -> None:
    path = write_journal(runs_dir, RUN, run_events(RUN)[:6])
    content = path.read_bytes()
    gzip_journal(path)
    path.write_bytes(content)
    outcome = play(Mortal(), runs_dir, clock)
    check_whole_run(outcome)
    assert outcome.path == path


def test_what_a_file_is_tells_whether_it_is_compressed_not_its_name(
    runs_dir: Path, clock: FakeClock
) -> None:
    packed = gzip_journal(write_journal(runs_dir, RUN, run_events(RUN)[:6]))
    content = packed.read_bytes()
    renamed = packed.rename(packed.with_suffix(""))
    with pytest.raises(JournalError, match=f"{renamed} is compressed"):
        play(Mortal(), runs_dir, clock)
    assert renamed.read_bytes() == content
    renamed.unlink()
    packed.write_bytes(gzip.decompress(content))
    check_whole_run(play(Mortal(), runs_dir, clock))
    assert packed.read_bytes().startswith(gzip.decompress(content))


def test_a_finished_run_that_is_compressed_is_followed_by_a_new_one(
    runs_dir: Path, clock: FakeClock
) -> None:
    packed = gzip_journal(write_journal(runs_dir, RUN, run_events(RUN)))
    outcome = play(Mortal(), runs_dir, clock)
    check_whole_run(outcome)
    assert outcome.path.suffix == ".jsonl"
    assert packed.exists()


def test_a_journal_that_cannot_be_read_is_refused_and_passed_by_on_wish(
    runs_dir: Path, clock: FakeClock
) -> None:
    journal_path(runs_dir, RUN).mkdir(parents=True)
    service = Mortal()
    with pytest.raises(JournalError, match=f"{RUN}.jsonl is no journal.*--fresh") as caught:
        play(service, runs_dir, clock)
    assert caught.value.exit_code == 74
    assert service.requests == []
    check_whole_run(play(service, runs_dir, clock, FRESH))


@pytest.mark.slow
def test_a_second_bot_sends_nothing_and_touches_nothing(runs_dir: Path, clock: FakeClock) -> None:
    path = cut_short(runs_dir)
    before = {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in runs_dir.iterdir()}
    service = Mortal()
    with lock(runs_dir, "http://local", 7), pytest.raises(TryLater) as caught:
        play(service, runs_dir, clock)
    assert caught.value.exit_code == 75
    assert service.requests == []
    after = {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in runs_dir.iterdir()}
    assert {file: after[file] for file in before} == before
    assert only_journal(runs_dir) == path
