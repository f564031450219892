"""Auditing a journal with a service: which moves are asked about, and what answers are worth."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from eventful import BUSY, NO_TOKEN, Troubled, laid_out_anew, more_points, plain
from fake_clock import FakeClock
from harness import plan_game, run_events, write_journal
from standins import KEY, StandIn, journal_lines, transport_to

from bot.cli import process, wiring
from bot.client.client import Client, Failed
from bot.client.clock import Clock
from bot.client.limits import Limits
from bot.client.pace import Pace
from bot.errors import ServiceUnavailable
from bot.replay.audit import MAX_REFUSALS, Findings, audit, choose
from bot.replay.watch import Move
from bot.service import KEY_FILE, LOCAL_URL, Answer, Service
from bot.strategy import Goal
from bot.verify import Problem, Verification
from bot.wire.layout import WireSettings, layout_from_json

RUN: Final = "20261130T024107Z-seed7-00ff"
AWARDS: Final = (215, 240, 265)


@pytest.fixture(autouse=True)
def _alone_and_never_asleep(alone: None, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001 - the folder
    monkeypatch.setattr(Clock, "sleep", lambda *_: None)


class Counting(Service):
    """The local service, which remembers what it was asked."""

    def __init__(self) -> None:
        super().__init__(KEY)
        self.asked: list[dict[str, Any]] = []

    def answer(self, method: str, target: str, body: bytes) -> Answer:
        self.asked.append(json.loads(body))
        return super().answer(method, target, body)


def read(journal: Path) -> Verification:
    """Return a verification that has read the journal."""
    verification = Verification(journal)
    verification.read_all()
    return verification


def numbers_of(journal: Path, size: int | None) -> list[int]:
    """Return which actions of a run without trouble are asked about, by their numbers from 0."""
    return [move.seq - 1 for move in choose(read(journal), size)]


def client_to(service: Service, journal: Path) -> Client:
    """Return a client to a service in this process, which reads answers as the run's last ones."""
    clock = FakeClock()
    client = Client(
        transport_to(service, clock),
        LOCAL_URL,
        Limits(give_up_after_s=120),
        clock=clock,
        pace=Pace(None, clock),
        wire_settings=WireSettings(),
    )
    client.resume(layout_from_json(read(journal).run.wire), is_under_way=True)
    return client


def ask(path: Path, service: Service, size: int | None = None) -> Findings:
    """Audit the journal at `path` with a service in this process."""
    findings = Findings()
    audit(choose(read(path), size), client_to(service, path), findings, lambda *_: None)
    return findings


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """Return the journal of a run of eight boards."""
    path = tmp_path / "j.jsonl"
    path.write_bytes(plain())
    return path


# The sample


@pytest.mark.parametrize("size", [1, 5, 6, 20, 41])
def test_first_last_and_one_of_each_award_are_always_asked_about(size: int, journal: Path) -> None:
    actions = list(journal_lines(journal, "action"))
    chosen = numbers_of(journal, size)
    awards = [actions[number]["award"] for number in chosen]
    assert (chosen[0], chosen[-1]) == (0, 41)
    assert set(awards) == {0, *AWARDS}
    for award in (0, *AWARDS):
        first = next(number for number, line in enumerate(actions) if line["award"] == award)
        assert first in chosen
    assert len(chosen) == max(size, 5)
    assert chosen == sorted(set(chosen))


def test_the_sample_is_the_same_each_time_and_another_for_another_run(tmp_path: Path) -> None:
    other = RUN.replace("00ff", "00fe")
    paths = [write_journal(tmp_path, run, run_events(run)) for run in (RUN, other)]
    first, second = (numbers_of(path, 20) for path in paths)
    assert first == numbers_of(paths[0], 20)
    assert first != second


@pytest.mark.parametrize("size", [None, 42, 1000])
def test_all_moves_can_be_asked_about(size: int | None, journal: Path) -> None:
    assert numbers_of(journal, size) == list(range(42))


def test_each_move_is_sent_with_the_token_and_action_that_stand_in_the_journal(
    journal: Path,
) -> None:
    service = Counting()
    findings = ask(journal, service)
    lines = list(journal_lines(journal))
    tokens = [line["token"] for line in lines if "token" in line]
    actions = [line["action"] for line in lines if line["event"] == "action"]
    assert service.asked == [
        {"stateToken": token, "action": action}
        for token, action in zip(tokens, actions, strict=False)
    ]
    assert (findings.asked, findings.agreed, findings.problems) == (42, 42, [])


def test_moves_know_line_and_state(journal: Path) -> None:
    played = list(plan_game(Goal(1970)))
    for number, move in enumerate(choose(read(journal), None)):
        _, action, after = played[number]
        assert (move.line, move.seq) == (number + 2, number + 1)
        assert (move.action, move.after) == (action, after)


def test_a_run_without_moves_asks_about_nothing(tmp_path: Path) -> None:
    path = write_journal(tmp_path, RUN, run_events(RUN, [], 3030))
    assert numbers_of(path, 5) == []
    assert ask(path, Counting()) == Findings()


# What answers are worth


def test_answers_that_are_laid_out_otherwise_by_now_are_read_all_the_same(journal: Path) -> None:
    findings = ask(journal, Troubled({turn: [laid_out_anew] for turn in range(1, 43)}))
    assert (findings.agreed, findings.problems) == (42, [])


def test_an_answer_that_contradicts_the_journal_is_a_problem_of_that_line(journal: Path) -> None:
    findings = ask(journal, Troubled({9: [more_points] * 2, 20: [more_points] * 2}))
    assert [(problem.line, problem.seq) for problem in findings.problems] == [(10, 9), (21, 20)]
    assert findings.problems[0].text == (
        "next: the answer to next at local contradicts the rules: score is 671, predicted 670; "
        "state.score is 671, predicted 670"
    )
    assert (findings.asked, findings.agreed, findings.refused) == (42, 40, 0)


def test_a_move_that_the_service_calls_illegal_is_a_problem(journal: Path) -> None:
    refusing = Answer(200, b'{"ok": false, "reason": "no", "legalActions": []}')
    findings = ask(journal, Troubled({1: [refusing] * 7}))
    refusal = "the service refused flip 2 at local, a legal action, 7 times: no"
    assert findings.problems == [Problem(2, 1, f"flip 2: {refusal}")]


def test_an_answer_that_was_lost_is_asked_for_again(journal: Path) -> None:
    findings = ask(journal, Troubled({turn: [BUSY] for turn in range(1, 43)}))
    assert (findings.agreed, findings.problems) == (42, [])


def test_no_more_is_asked_after_ten_problems(journal: Path) -> None:
    findings = ask(journal, Troubled({turn: [more_points] * 2 for turn in range(1, 43)}))
    assert (findings.asked, len(findings.problems)) == (10, 10)


def test_a_service_that_takes_no_old_token_is_asked_a_few_times_only(journal: Path) -> None:
    findings = ask(journal, Service(b"another key"))
    assert (findings.asked, findings.refused, findings.agreed) == (MAX_REFUSALS, MAX_REFUSALS, 0)
    assert findings.problems == []
    assert "stateToken was not signed by this service" in findings.refusal


def test_a_token_here_and_there_that_is_refused_does_not_end_the_audit(journal: Path) -> None:
    findings = ask(journal, Troubled({turn: [NO_TOKEN] * 2 for turn in (3, 4, 8, 9, 30)}))
    assert (findings.asked, findings.refused, findings.agreed) == (42, 5, 37)


def test_what_was_found_is_at_hand_when_the_service_is_lost(journal: Path) -> None:
    client = client_to(Troubled({5: [BUSY] * 1000}), journal)
    findings = Findings()
    told: list[tuple[Move, Failed]] = []
    with pytest.raises(ServiceUnavailable):
        audit(choose(read(journal), None), client, findings, lambda *failed: told.append(failed))
    assert (findings.asked, findings.agreed) == (4, 4)
    assert {str(move.action) for move, _ in told} == {"next"}
    assert [failed.attempt for _, failed in told] == [*range(1, len(told) + 1)]
    assert {failed.failure.status for _, failed in told} == {503}


# The verb


def replay(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = process.run([*map(str, arguments)])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


@pytest.fixture
def service() -> Iterator[StandIn]:
    with StandIn() as stand_in:
        yield stand_in


def test_a_run_is_audited_over_http(
    journal: Path, service: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    against = ("replay", journal, "--max-rps", "0", "--against", service.url)
    code, out, err = replay(capsys, *against, "--sample", "all")
    assert (code, err) == (0, "")
    assert out.splitlines()[1] == (
        "asked the service about 42 moves: 42 answers agree, 0 do not, 0 tokens refused"
    )
    assert len(service.requests) == 42
    code, out, _ = replay(capsys, *against, "--sample", "5", "--json")
    result = json.loads(out)
    assert (code, result["verified"]) == (0, True)
    assert result["audit"] == {"asked": 5, "agreed": 5, "refused": 0}


def test_an_answer_that_contradicts_ends_with_1_and_the_line(
    journal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with StandIn(service=Troubled({1: [more_points] * 2})) as service:
        code, out, _ = replay(capsys, "replay", journal, "--max-rps", "0", "--against", service.url)
    assert code == 1
    assert out.startswith("line 2 (seq 1): flip 2: the answer to flip 2 at ")


def test_old_tokens_that_are_refused_end_with_77_and_are_no_fault(
    journal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with StandIn(service=Service(b"another key")) as service:
        code, out, err = replay(
            capsys, "replay", journal, "--max-rps=0", "--against", service.url, "--json"
        )
    assert code == 77
    result = json.loads(out)
    assert (result["verified"], result["problems"]) == (True, [])
    assert result["audit"] == {"asked": 3, "agreed": 0, "refused": 3}
    assert "3 of 3 old ones, which is no fault of the run" in err


def test_a_run_that_does_not_verify_is_asked_about_nothing(
    journal: Path, service: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    journal.write_bytes(plain().replace(b'"score":430', b'"score":431'))
    code, out, _ = replay(capsys, "replay", journal, "--against", service.url)
    assert code == 1
    assert service.requests == []
    assert "not verified" in out


def test_a_local_run_is_audited_with_the_key_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    play = ("--local", "--bank-at", "1970", "--runs-dir", tmp_path / "there", "--quiet")
    assert replay(capsys, *play)[0] == 0
    (path,) = (tmp_path / "there").glob("*.jsonl")
    code, out, _ = replay(capsys, "replay", path, "--against", "local", "--sample", "all")
    assert code == 0
    assert "42 answers agree" in out
    moved = tmp_path / "elsewhere.jsonl"
    path.rename(moved)
    before = sorted(tmp_path.rglob("*"))
    code, out, err = replay(capsys, "replay", moved, "--against", "local")
    assert (code, out) == (2, "")
    assert "there is no key" in err
    assert sorted(tmp_path.rglob("*")) == before
    code, _, _ = replay(
        capsys, "replay", moved, "--against", "local", "--runs-dir", tmp_path / "there"
    )
    assert code == 0


@pytest.mark.parametrize(
    ("flags", "against", "expected"),
    [
        ([], "https://gameboard.gg", 10.0),
        ([], "local", None),
        (["--max-rps", "3"], "https://gameboard.gg", 3.0),
        (["--max-rps", "3"], "local", 3.0),
        (["--max-rps", "0"], "https://gameboard.gg", None),
    ],
    ids=str,
)
def test_an_audit_is_paced_like_play_on_the_same_service(
    flags: list[str],
    against: str,
    expected: float | None,
    journal: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:

    seen = []

    def new_client(settings: Any, *_: object) -> Any:
        seen.append(settings)
        raise ServiceUnavailable("enough is known")

    (journal.parent / KEY_FILE).write_text("ab" * 32)
    monkeypatch.setattr(wiring, "new_client", new_client)
    assert process.run(["replay", str(journal), *flags, "--against", against]) == 69
    assert seen[0].limits.max_rps == expected
    assert seen[0].base_url == against
    assert seen[0].limits.give_up_after_s == 60


def test_a_service_out_of_reach_ends_with_69_after_the_verdict(
    journal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with StandIn() as gone:
        url = gone.url
    code, out, err = replay(capsys, "replay", journal, "--give-up-after", "0.01", "--against", url)
    assert code == 69
    assert out.startswith("verified: ")
    assert "sunpleat-bot: " in err


@pytest.mark.parametrize(
    "arguments",
    [
        ["--against", "gameboard.gg"],
        ["--against", "ftp://x"],
        ["--sample", "0"],
        ["--sample", "some"],
        ["--watch", "--against", "local"],
        ["--watch", "--json"],
    ],
    ids=" ".join,
)
def test_arguments_that_make_no_sense_are_usage_errors(
    arguments: list[str], journal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = replay(capsys, "replay", journal, *arguments)
    assert code == 2
    assert err.startswith("sunpleat-bot: ")
    assert out == "" or json.loads(out)["exit_code"] == 2
