"""The verbs `runs` and `status`, housekeeping, and what `runs/README.md` says of journals."""

from __future__ import annotations

import gzip
import json
import os
import pty
import re
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest
from eventful import BUSY, abandoned, eventful, laid_out_anew, plain, play_troubled, stopped
from harness import (
    BOT,
    ROOT,
    bot_process,
    environment,
    plan_game,
    redirected,
    run_events,
    started,
    wait_for_line,
    write_journal,
)
from standins import Call

from bot import rules
from bot.cli import process
from bot.errors import JournalError
from bot.journal import housekeeping, reader, writer
from bot.journal.events import FORMAT, Event, RunEnded, RunResumed, RunSuspended
from bot.journal.lock import lock
from bot.journal.reader import _HEAD, is_finished, last_entries
from bot.replay import summary
from bot.strategy import Goal
from bot.verify import Verification

NOW: Final = datetime(2026, 11, 30, tzinfo=UTC)

pytestmark = pytest.mark.usefixtures("alone")

README: Final = ROOT / "runs" / "README.md"
LOCAL: Final = "http://local"
"""The service of journals that are made up here."""
SHORT: Final = [
    *(rules.RESTART, rules.RESTART),
    *(rules.FLIPS[count - 1] for count in (1, 1, 1, 3)),
    rules.BANK,
]
"""Banked on the last leaf, since nothing more can be won."""
FIELDS: Final = (
    "run_id journal base_url seed state score bank_at boards requests retries started "
    "last_success rate eta_s"
)


@pytest.fixture
def runs_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    folder.mkdir()
    return folder


def run_id(number: int, seed: int = 7) -> str:
    """Return the name of a run that started that many seconds into an hour."""
    return f"20261130T02{number // 60:02}{number % 60:02}Z-seed{seed}-00ff"


def put(runs_dir: Path, journal: bytes, name: str) -> Path:
    """Write a journal under another run's name."""
    before = json.loads(journal.split(b"\n")[0])["run_id"]
    path = runs_dir / f"{name}.jsonl"
    path.write_bytes(journal.replace(before.encode(), name.encode(), 1))
    return path


def finished(runs_dir: Path, number: int, bank_at: int = 215, seed: int = 7) -> Path:
    name = run_id(number, seed)
    lines = run_events(name, bank_at=bank_at)
    return write_journal(runs_dir, name, [started(name, bank_at, seed=seed), *lines[1:]])


def unfinished(runs_dir: Path, number: int) -> Path:
    return write_journal(runs_dir, run_id(number), run_events(run_id(number))[:-2])


def read_whole(path: Path) -> summary.Summary:
    """Return the figures of a run, from all of its lines."""
    verification = Verification(path)
    verification.read_all()
    return summary.summary_of(verification)


def result(capsys: pytest.CaptureFixture[str], *arguments: object) -> Any:
    """Run a verb with --json; return what it prints."""
    assert process.run([*map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


# One run


def test_status_has_every_figure_of_a_run(
    runs_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = put(runs_dir, eventful(), run_id(5))
    status = result(capsys, "status")
    assert " ".join(status) == FIELDS
    assert status == {
        "run_id": run_id(5),
        "journal": str(path.relative_to(runs_dir.parent)),
        "base_url": LOCAL,
        "seed": 7,
        "state": "ended",
        "score": 1970,
        "bank_at": 1970,
        "boards": 8,
        "requests": 51,
        "retries": 6,
        "started": json.loads(eventful().split(b"\n")[0])["ts"],
        "last_success": json.loads(eventful().split(b"\n")[54])["ts"],
        "rate": status["rate"],
        "eta_s": None,
    }
    seconds = json.loads(eventful().split(b"\n")[55])["seconds"]
    assert status["rate"] == round(1970 / seconds * 3600, 1)


def test_status_of_a_run_that_can_go_on_has_the_time_to_go(
    runs_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [json.loads(line) for line in plain().splitlines()[:23]]
    for second, line in enumerate(lines):
        line["ts"] = f"2026-11-30T02:41:{second:02}.000Z"
    path = runs_dir / f"{run_id(1)}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    status = result(capsys, "status", path)
    assert status["run_id"] == lines[0]["run_id"]  # whatever its file is called
    assert (status["state"], status["score"], status["boards"]) == ("suspended", 1175, 5)
    assert status["rate"] == round(1175 / 22 * 3600, 1)
    assert status["eta_s"] == round((1970 - 1175) / 1175 * 22, 1)
    assert status["last_success"] == "2026-11-30T02:41:22.000Z"


STATES: Final[dict[str, tuple[Callable[[], bytes], str]]] = {
    "banked": (plain, "ended"),
    "abandoned": (abandoned, "abandoned"),
    "stopped": (stopped, "suspended"),
    "killed": (lambda: plain()[:-500], "suspended"),
    "only the end is missing": (lambda: b"".join(plain().splitlines(True)[:-1]), "suspended"),
    "damaged": (lambda: stopped().replace(b'"score":430', b'"score":431', 1), "damaged"),
    "unreadable in the middle": (lambda: stopped().replace(b'"seq":5', b"seq:5"), "damaged"),
}


@pytest.mark.parametrize(("make", "state"), STATES.values(), ids=STATES)
def test_a_run_is_in_one_of_its_states(
    make: Callable[[], bytes], state: str, runs_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(runs_dir, make(), run_id(5))
    assert result(capsys, "status")["state"] == state
    assert [run["state"] for run in result(capsys, "runs")] == [state]


@pytest.mark.slow
def test_a_run_is_running_while_a_bot_writes_it(
    runs_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    earlier, later = unfinished(runs_dir, 1), unfinished(runs_dir, 2)
    with closing(writer.reopen(later, later.stat().st_size, 1, lambda: NOW)):
        assert result(capsys, "status")["state"] == "running"
        assert result(capsys, "status", earlier)["state"] == "suspended"
        assert [run["state"] for run in result(capsys, "runs")] == ["suspended", "running"]
    assert result(capsys, "status")["state"] == "suspended"


@pytest.mark.parametrize(
    ("bank_at", "state"),
    [(2**53 - 1, "suspended"), (2**53, "damaged"), (10**400, "damaged")],
    ids=["largest", "one more", "of 401 digits"],
)
def test_a_threshold_beyond_all_reason_is_the_largest_or_damage(
    bank_at: int, state: str, runs_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = plain().splitlines(keepends=True)[:30]
    journal = b"".join(lines).replace(b'"bank_at":1970', f'"bank_at":{bank_at}'.encode())
    put(runs_dir, journal, run_id(1))
    assert [run["state"] for run in result(capsys, "runs")] == [state]
    assert result(capsys, "status")["state"] == state
    assert process.run(["status"]) == 0


def test_a_time_that_passes_all_numbers_only_in_the_end_is_none_either(tmp_path: Path) -> None:
    slow = summary.Summary(
        "run", tmp_path, summary.SUSPENDED, score=1, bank_at=10**307, seconds=1e5
    )
    assert slow.eta_s is None
    assert replace(slow, score=10**307, seconds=1e-3).rate is None
    assert replace(slow, bank_at=1001).eta_s == 1e8


def test_quantiles_are_of_all_values_and_each_is_one_of_them() -> None:
    assert summary.quantile({}, 0.5) == 0
    assert summary.quantile(Counter([1, 2, 3, 4]), 0.5) == 3
    assert [summary.quantile(Counter(range(1, 101)), share) for share in (0.5, 0.99)] == [51, 100]
    assert [summary.quantile({7.5: 9, 8.5: 1}, share) for share in (0.89, 0.9)] == [7.5, 8.5]


def test_a_run_that_has_ended_is_not_running_whoever_has_the_lock(
    runs_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    finished(runs_dir, 1)
    with lock(runs_dir, LOCAL, 7):
        assert result(capsys, "status")["state"] == "ended"
        assert [run["state"] for run in result(capsys, "runs")] == ["ended"]


@pytest.mark.slow
def test_a_run_that_is_being_played_is_running_and_not_disturbed(
    runs_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    play = ("--local", "--bank-at", "1000000", "--max-rps", "200", "--runs-dir", str(runs_dir))
    with bot_process(runs_dir.parent, *play) as bot:
        wait_for_line(bot, "playing")
        seen = [result(capsys, "status") for _ in range(5)]
        assert {status["state"] for status in seen} == {"running"}
        assert seen[0]["requests"] <= seen[-1]["requests"]
        assert [run["state"] for run in result(capsys, "runs")] == ["running"]
        bot.terminate()
        assert bot.wait() == 143
    assert result(capsys, "status")["state"] == "suspended"
    assert process.run(["replay", "latest"]) == 0


def test_status_tells_people_the_same(runs_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(runs_dir, eventful(), run_id(5))
    assert process.run(["status"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[:5] == [
        f"run          {run_id(5)}, ended",
        f"service      {LOCAL}, seed 7",
        "score        1,970 of 1,970 (100.0 %)",
        "boards       8",
        "requests     51, 6 retries",
    ]


def test_a_run_without_a_threshold_or_time_has_figures_too(
    runs_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    finished(runs_dir, 1, bank_at=0)
    status = result(capsys, "status")
    assert (status["score"], status["bank_at"], status["rate"], status["eta_s"]) == (
        0,
        0,
        None,
        None,
    )
    assert process.run(["status"]) == 0
    assert "rate         -" in capsys.readouterr().out


@pytest.mark.parametrize("command", [["status"], ["status", "latest"], ["replay", "latest"]])
def test_where_there_is_no_run_that_is_said(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert process.run(command) == 2
    there = Path("runs").absolute()
    assert capsys.readouterr().err == f"sunpleat-bot: there is no run in {there}\n"


# All runs


def test_runs_are_listed_in_the_order_of_their_starts(
    runs_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in (3, 1, 2):
        finished(runs_dir, number, bank_at=215 * number)
    assert [run["run_id"] for run in result(capsys, "runs")] == [run_id(n) for n in (1, 2, 3)]
    assert process.run(["runs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len({line.index(LOCAL) for line in lines[1:]}) == 1
    assert " ".join(lines[0].split()) == "run state score of boards requests retries service"
    assert lines[1].split() == [run_id(1), "ended", "215", "215", "1", "3", "0", LOCAL]


def test_a_start_is_the_one_in_the_name_then_the_one_in_the_first_line(
    runs_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for second, seed, written in [
        (1, 10, "02:00:01.200"),
        (1, 9, "02:00:01.100"),
        (2, 8, "01:59:00.000"),  # the clock was set back, so the name is later than the clock
    ]:
        path = finished(runs_dir, second, seed=seed)
        text = path.read_text().replace(f"02:00:0{second}.000", written)
        path.write_text(text)
    (runs_dir / f"{run_id(1, seed=9000)}.jsonl").write_bytes(b"prose\n")
    assert [run["run_id"] for run in result(capsys, "runs")] == [
        run_id(1, seed=9000),
        run_id(1, seed=9),
        run_id(1, seed=10),
        run_id(2, seed=8),
    ]


def test_where_there_are_no_runs_the_list_is_empty(capsys: pytest.CaptureFixture[str]) -> None:
    assert result(capsys, "runs") == []
    assert process.run(["runs"]) == 0
    assert capsys.readouterr().err == f"there is no run in {Path('runs').absolute()}\n"


def test_what_holds_no_run_is_not_listed_and_what_cannot_be_read_is_damaged(
    runs_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (runs_dir / f"{run_id(1)}.jsonl").write_bytes(b"")
    (runs_dir / f"{run_id(2)}.jsonl").write_bytes(b'{"seq":0,"ts"')
    (runs_dir / f"{run_id(3)}.jsonl").write_bytes(b"prose\n")
    (runs_dir / f"{run_id(4)}.jsonl").mkdir()
    os.mkfifo(runs_dir / f"{run_id(5)}.jsonl")
    (runs_dir / f"{run_id(6)}.jsonl.gz").write_bytes(b"\x1f\x8b\x08broken")
    (runs_dir / "notes.txt").write_text("x")
    (runs_dir / ".seed7-00.lock").write_text("")
    finished(runs_dir, 7)
    runs = result(capsys, "runs")
    assert [(run["run_id"], run["state"]) for run in runs] == [
        *((run_id(number), "damaged") for number in (3, 4, 5, 6)),
        (run_id(7), "ended"),
    ]
    assert {" ".join(run) for run in runs} == {FIELDS}
    assert runs[0] == {
        **dict.fromkeys(FIELDS.split()),
        **dict.fromkeys(("score", "boards", "requests", "retries"), 0),
        "run_id": run_id(3),
        "journal": f"runs/{run_id(3)}.jsonl",
        "state": "damaged",
    }
    assert process.run(["runs"]) == 0


@pytest.mark.parametrize(
    "first",
    [
        b"prose",
        b"{}",
        b'{"seq":0}',
        b'{"seq":0,"ts":"2026-11-30T02:00:01.000Z","event":"run.abandoned","reason":"no"}',
    ],
    ids=["prose", "an object", "a field", "another event"],
)
def test_a_finished_run_with_a_broken_first_line_is_damaged(
    first: bytes, runs_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = finished(runs_dir, 1)
    path.write_bytes(first + path.read_bytes()[path.read_bytes().index(b"\n") :])
    status = result(capsys, "status")
    assert (status["run_id"], status["state"], status["score"]) == (run_id(1), "damaged", 215)
    assert (status["base_url"], status["seed"], status["bank_at"]) == (None, None, None)
    assert result(capsys, "runs") == [status]
    assert process.run(["status"]) == 0
    assert "service      -\n" in capsys.readouterr().out


def test_a_finished_run_is_read_from_its_ends_only(
    runs_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    finished(runs_dir, 1, bank_at=5000)
    put(runs_dir, eventful(), run_id(2))
    exact = started(run_id(3), 1970, bank_rule="exactly")
    write_journal(runs_dir, run_id(3), [exact, *run_events(run_id(3), bank_at=1970)[1:]])
    expected = [read_whole(path).to_json() for path in sorted(runs_dir.iterdir())]
    monkeypatch.setattr(summary, "Verification", None)
    monkeypatch.setattr(reader, "TAIL", 2000)
    listed = result(capsys, "runs")
    assert [{**run, "journal": ""} for run in listed] == [
        {**run, "journal": ""} for run in expected
    ]


def test_status_says_why_a_run_stopped(runs_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(runs_dir, stopped(), run_id(1))
    assert process.run(["status"]) == 0
    assert "stopped      76, " in capsys.readouterr().out
    put(runs_dir, stopped().rpartition(b"\n{")[0] + b"\n", run_id(2))
    assert process.run(["status"]) == 0
    assert "stopped" not in capsys.readouterr().out


@pytest.mark.parametrize("bank_at", [5000, 6000])
@pytest.mark.parametrize("compress", [False, True], ids=["plain", "gzipped"])
def test_the_threshold_is_the_one_of_the_last_sitting(
    bank_at: int, compress: bool, runs_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = run_id(1)
    lines = run_events(name, bank_at=bank_at)
    resumed: list[Event] = [
        RunSuspended("a budget", 75),
        RunResumed(5, 9000, "at-least", "1.0.0", 0),
        RunResumed(6, bank_at, "at-least", "1.0.0", 0),
    ]
    events = [started(name, 4000), *lines[1:5], *resumed, *lines[5:]]
    path = write_journal(runs_dir, name, events)
    assert process.run(["replay", "latest"]) == 0
    capsys.readouterr()
    if compress:
        housekeeping.carry_out(housekeeping.Chore(path, 0, is_compressing=True))
    assert [run["bank_at"] for run in result(capsys, "runs")] == [bank_at]


def test_the_bank_rule_is_the_one_of_the_last_sitting(runs_dir: Path) -> None:
    name = run_id(1)
    lines = run_events(name, [action for _, action, _ in plan_game(Goal(1975, "at-most"))], 1975)
    resumed = RunResumed(4, 1975, "at-most", "1.0.0", 0)
    path = write_journal(runs_dir, name, [started(name, 4000), *lines[1:5], resumed, *lines[5:]])
    assert summary.summarise(path) == read_whole(path)
    assert summary.summarise(path).is_as_asked


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "byte order mark"])
@pytest.mark.parametrize("trouble", [BUSY, laid_out_anew], ids=["a retry", "another layout"])
def test_the_threshold_of_a_run_of_one_sitting_is_its_first_one(
    trouble: Any, mark: bytes, runs_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = play_troubled({8: [trouble]}, Call(bank_at=1970))
    path = put(runs_dir, journal, run_id(1))
    path.write_bytes(mark + path.read_bytes())
    status = result(capsys, "status")
    assert (status["state"], status["score"], status["bank_at"]) == ("ended", 1970, 1970)


def test_what_is_between_the_sittings_of_a_finished_run_is_not_read(runs_dir: Path) -> None:
    journal = eventful().replace(b'"event":"action"', b'"event":"deed"', 5)
    path = put(runs_dir, journal, run_id(1))
    assert summary.summarise(path).state == summary.ENDED
    assert read_whole(path).state == summary.DAMAGED


def test_what_follows_a_gzipped_run_is_passed_over(runs_dir: Path) -> None:
    path = runs_dir / f"{run_id(1)}.jsonl.gz"
    path.write_bytes(gzip.compress(eventful()) + b"something else")
    found = summary.summarise(path)
    assert (found.state, found.bank_at) == (summary.ENDED, 1970)


def test_a_file_without_a_line_of_a_journal_is_damaged_and_says_so(runs_dir: Path) -> None:
    (runs_dir / f"{run_id(1)}.jsonl").write_bytes(b"prose\n")
    (found,) = summary.summarise_all(runs_dir)
    assert (found.run_id, found.state) == (run_id(1), summary.DAMAGED)
    assert "is no journal" in found.fault


def test_a_finished_run_with_a_broken_sitting_is_damaged(
    runs_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = eventful().replace(b'"run.resumed","from_seq":', b'"run.resumed","from":')
    put(runs_dir, journal, run_id(1))
    status = result(capsys, "status")
    assert (status["state"], status["bank_at"]) == ("damaged", 1_000_000)
    assert result(capsys, "runs") == [status]


def test_a_finished_run_that_cannot_be_unpacked_in_the_middle_is_damaged(
    runs_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = put(runs_dir, eventful(), run_id(1)).read_bytes().splitlines(keepends=True)
    (runs_dir / f"{run_id(1)}.jsonl").unlink()
    first, middle, last = (
        gzip.compress(b"".join(part)) for part in (lines[:10], lines[10:30], lines[30:])
    )
    broken = middle[:40] + bytes(20) + middle[60:]
    (runs_dir / f"{run_id(1)}.jsonl.gz").write_bytes(first + broken + last)
    status = result(capsys, "status")
    assert (status["state"], status["score"], status["base_url"]) == ("damaged", 430, LOCAL)
    assert result(capsys, "runs") == [status]


def test_a_run_whose_last_action_is_far_from_its_end_is_read_whole(
    runs_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reader, "TAIL", 200)
    path = finished(runs_dir, 1)
    assert [type(entry.event) for entry in last_entries(path)] == [RunEnded]
    assert result(capsys, "status")["last_success"] is not None


@pytest.mark.slow
def test_a_list_of_hundreds_of_long_runs_is_quick(
    runs_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = finished(runs_dir, 0, bank_at=50_000)
    for number in range(1, 300):
        os.link(first, runs_dir / f"{run_id(number)}.jsonl")
    began_at = time.process_time()
    assert len(result(capsys, "runs")) == 300
    whole = time.process_time()
    read_whole(first)
    assert whole - began_at < 300 * (time.process_time() - whole) / 10


@pytest.mark.parametrize(
    ("bank_at", "rule", "actions", "expected"),
    [
        (1970, "at-least", None, ("banked", True)),
        (1975, "at-most", None, ("banked", True)),
        (1970, "exactly", None, ("banked", True)),
        (9999, "at-least", [rules.RESTART] * 3, ("out-of-lives", False)),
        (9999, "at-least", SHORT, ("banked", False)),
        (9999, "at-most", SHORT, ("banked", False)),
    ],
)
def test_it_is_known_whether_a_run_ended_as_asked(
    bank_at: int,
    rule: str,
    actions: list[rules.Action] | None,
    expected: tuple[str, bool],
    runs_dir: Path,
) -> None:
    goal = Goal(bank_at, rule)
    actions = actions or [action for _, action, _ in plan_game(goal)]
    lines = run_events(run_id(1), actions, bank_at)
    path = write_journal(
        runs_dir, run_id(1), [started(run_id(1), bank_at, bank_rule=rule), *lines[1:]]
    )
    for found in (summary.summarise(path), read_whole(path)):
        assert (found.state, found.end_reason, found.is_as_asked) == ("ended", *expected)
        assert found.fault == ""


def test_a_journal_of_a_newer_format_says_so(
    runs_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    newer = stopped().replace(b'"journal_version":1', b'"journal_version":2', 1)
    put(runs_dir, newer, run_id(1))
    (found,) = summary.summarise_all(runs_dir)
    assert found.state == "damaged"
    assert "written by a newer version" in found.fault
    assert process.run(["status"]) == 0
    assert "written by a newer version" in capsys.readouterr().out


# The last lines


@pytest.mark.parametrize(
    "shape",
    [bytes, gzip.compress, lambda j: gzip.compress(j[:-99]) + gzip.compress(j[-99:])],
    ids=["plain", "gzipped", "gzipped in parts"],
)
@pytest.mark.parametrize("size", [100, 1000, 10**6])
def test_the_last_lines_come_backwards(
    shape: Callable[[bytes], bytes], size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "TAIL", size)
    path = tmp_path / "j"
    path.write_bytes(shape(plain()))
    seqs = [entry.seq for entry in last_entries(path)]
    assert seqs == list(range(43, 43 - len(seqs), -1))


@pytest.mark.parametrize(
    ("journal", "expected"),
    [
        (plain(), True),
        (abandoned(), True),
        (stopped(), False),
        (plain()[:-1], False),
        (plain() + b"x", False),
        (plain() + b"\n", False),
        (b"", False),
    ],
    ids=["banked", "abandoned", "stopped", "torn", "with more", "with a blank line", "empty"],
)
def test_only_a_run_that_cannot_go_on_is_finished(
    journal: bytes, expected: bool, tmp_path: Path
) -> None:
    path = tmp_path / "j"
    path.write_bytes(journal)
    assert is_finished(path) is expected
    path.write_bytes(gzip.compress(journal))
    assert is_finished(path) is expected


# Housekeeping


@pytest.fixture
def full_folder(runs_dir: Path) -> Path:
    """Return a folder with five finished runs, and others."""
    for number in range(1, 6):
        finished(runs_dir, number)
    put(runs_dir, abandoned(), run_id(0))
    unfinished(runs_dir, 10)
    put(runs_dir, stopped(), run_id(11))
    (runs_dir / f"{run_id(12)}.jsonl").write_bytes(b"prose\n")
    (runs_dir / "notes.txt").write_text("x")
    return runs_dir


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def prune(*arguments: str) -> int:
    return process.run(["runs", "--prune", *arguments])


def test_what_would_be_removed_is_shown_and_nothing_done_without_agreement(
    full_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = names(full_folder)
    assert prune("--keep", "3") == 0
    printed = capsys.readouterr()
    assert [line.split(" (")[0] for line in printed.out.splitlines()] == [
        f"remove runs/{run_id(number)}.jsonl" for number in (2, 1, 0)
    ]
    assert printed.err == "nothing was done; add --yes to remove 3\n"
    assert names(full_folder) == before


def test_old_finished_runs_are_removed_and_no_other_file(full_folder: Path) -> None:
    before = names(full_folder)
    assert prune("--keep", "3", "--yes") == 0
    assert before - names(full_folder) == {f"{run_id(number)}.jsonl" for number in (0, 1, 2)}
    assert prune("--keep", "0", "--yes") == 0
    assert names(full_folder) == {
        *(f"{run_id(number)}.jsonl" for number in (10, 11, 12)),
        "notes.txt",
    }


@pytest.mark.slow
def test_a_disk_that_takes_no_word_does_not_keep_old_runs(runs_dir: Path) -> None:
    finished(runs_dir, 1)
    bot = subprocess.run(
        [*redirected(">/dev/full"), *BOT, "runs", "--prune", "--keep", "0", "--yes"],
        capture_output=True,
        text=True,
        cwd=runs_dir.parent,
        env=environment(),
        check=False,
    )
    assert bot.returncode == 74
    assert "cannot write the result" in bot.stderr
    assert names(runs_dir) == set()


def test_old_finished_runs_are_compressed_and_stay_the_same(
    full_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = full_folder / f"{run_id(2)}.jsonl"
    content, moment = old.read_bytes(), old.stat().st_mtime_ns
    listed = result(capsys, "runs")
    assert prune("--keep", "3", "--compress", "--yes") == 0
    capsys.readouterr()
    packed = full_folder / f"{run_id(2)}.jsonl.gz"
    assert not old.exists()
    assert gzip.decompress(packed.read_bytes()) == content
    assert packed.stat().st_mtime_ns == moment
    assert process.run(["replay", run_id(2)]) == 0
    capsys.readouterr()
    assert [{**run, "journal": ""} for run in result(capsys, "runs")] == [
        {**run, "journal": ""} for run in listed
    ]
    assert prune("--keep", "3", "--compress", "--yes") == 0  # a second time: nothing is left
    assert capsys.readouterr().out == ("nothing to compress beyond the newest 3 finished runs\n")
    assert prune("--keep", "4", "--yes") == 0
    assert not (full_folder / f"{run_id(1)}.jsonl.gz").exists()
    assert packed.exists()


def test_a_compressed_run_is_read_from_its_ends_too(
    runs_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = finished(runs_dir, 1, bank_at=30_000)
    housekeeping.carry_out(housekeeping.Chore(path, 0, is_compressing=True))
    monkeypatch.setattr(reader, "_read_to_the_end", None)
    assert [run["score"] for run in result(capsys, "runs")] == [30_060]


def test_a_run_that_is_there_twice_counts_once_and_goes_as_a_whole(runs_dir: Path) -> None:
    for number in range(1, 4):
        finished(runs_dir, number)
    twice = runs_dir / f"{run_id(2)}.jsonl"
    (runs_dir / f"{run_id(2)}.jsonl.gz").write_bytes(gzip.compress(twice.read_bytes()))
    assert prune("--keep", "2", "--yes") == 0
    assert names(runs_dir) == {
        f"{run_id(2)}.jsonl",
        f"{run_id(2)}.jsonl.gz",
        f"{run_id(3)}.jsonl",
    }
    assert prune("--keep", "1", "--compress", "--yes") == 0
    assert names(runs_dir) == {f"{run_id(2)}.jsonl.gz", f"{run_id(3)}.jsonl"}


def test_pruning_prints_json_for_programs(
    full_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    planned = result(capsys, "runs", "--prune", "--keep", "5")
    size = (full_folder / f"{run_id(0)}.jsonl").stat().st_size
    expected = {"journal": f"runs/{run_id(0)}.jsonl", "bytes": size, "action": "remove"}
    assert planned == {"done": False, "journals": [expected]}
    done = result(capsys, "runs", "--prune", "--keep", "5", "--yes")
    assert done == {"done": True, "journals": [expected]}


@pytest.mark.slow
@pytest.mark.parametrize(("typed", "left"), [(b"y\n", 0), (b"n\n", 1), (b"\n", 1), (b"\x04", 1)])
def test_a_person_at_a_terminal_is_asked(typed: bytes, left: int, runs_dir: Path) -> None:
    finished(runs_dir, 1)
    ours, theirs = pty.openpty()
    os.write(ours, typed)
    bot = subprocess.run(
        [*BOT, "runs", "--prune", "--keep", "0"],
        stdin=theirs,
        capture_output=True,
        text=True,
        cwd=runs_dir.parent,
        env=environment(),
        check=False,
    )
    os.close(ours)
    os.close(theirs)
    assert "remove 1?" in bot.stderr
    assert len(names(runs_dir)) == left
    assert bot.returncode == (130 if typed == b"\x04" else 0)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--keep", "3"],
        ["--yes"],
        ["--compress"],
        ["--prune"],
        ["--prune", "--keep", "-1"],
        ["--prune", "--keep", "few"],
    ],
    ids=" ".join,
)
def test_flags_of_pruning_that_make_no_sense_are_usage_errors(
    arguments: list[str], full_folder: Path
) -> None:
    before = names(full_folder)
    assert process.run(["runs", *arguments]) == 2
    assert names(full_folder) == before


def test_a_copy_that_is_not_the_same_is_thrown_away_and_the_journal_kept(
    runs_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = finished(runs_dir, 1)
    digests = iter((b"one", b"another"))
    monkeypatch.setattr(housekeeping, "_digest", lambda _: next(digests))
    assert prune("--keep", "0", "--compress", "--yes") == 74
    assert "is not what was written" in capsys.readouterr().err
    assert names(runs_dir) == {path.name}


def test_a_journal_that_cannot_be_removed_is_an_error_of_the_journal(
    runs_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = finished(runs_dir, 1)

    def unlink(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "unlink", unlink)
    with pytest.raises(JournalError, match=rf"cannot remove {path}: Permission denied"):
        housekeeping.carry_out(housekeeping.Chore(path, 0, is_compressing=False))


# What the README of the folder says


def tables() -> dict[str, list[str]]:
    """Return the fields of each event, as the page lists them."""
    found: dict[str, list[str]] = {}
    text = README.read_text(encoding="utf-8")
    for section in re.split(r"^#+ ", text, flags=re.MULTILINE):
        head = section.split("\n")[0].strip("`")
        found[head] = re.findall(r"^\| `(\w+)` \|", section, flags=re.MULTILINE)
    return found


@pytest.mark.parametrize("event", FORMAT)
def test_the_page_lists_every_field_of_every_event_in_order(event: str) -> None:
    assert tables()[event] == list(FORMAT[event][1])


def test_the_page_lists_the_fields_of_every_line_and_no_other_event() -> None:
    assert tables()["Fields"] == list(_HEAD)
    assert {head for head, fields in tables().items() if fields} == {"Fields", *FORMAT}


def commands() -> dict[str, str]:
    """Return the commands of the page that answer a question, by the question."""
    text = README.read_text(encoding="utf-8").partition("## Questions")[2]
    found = re.findall(r"\n\n([^\n]+):\n\n```sh\n(.*?)\n```", text, flags=re.DOTALL)
    assert len(found) == text.count("```sh")
    return dict(found)


def slow_run(tmp_path: Path) -> Path:
    """Write a journal in which each request takes half a minute and one takes longer."""
    lines = [json.loads(line) for line in eventful().splitlines()]
    for minutes, line in enumerate(lines):
        line["ts"] = f"2026-11-30T{2 + minutes // 40:02}:{minutes % 40:02}:30.250Z"
        if line["event"] == "action":
            line["elapsed_ms"] = 1000.5 if line["seq"] == 31 else 30.25
        if line["event"] == "run.ended":
            line["seconds"] = 3940.0
    path = tmp_path / "a run with spaces.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def actions() -> Iterator[dict[str, Any]]:
    for line in map(json.loads, eventful().splitlines()):
        if line["event"] == "action":
            yield line


ANSWERS: Final[dict[str, Callable[[list[str]], object]]] = {
    "Points an hour, of a run that has ended": lambda out: out == ["1800"],
    "Points in each hour of the day": lambda out: (
        out == ["2026-11-30T02 1440", "2026-11-30T03 530"]
    ),
    "The ten slowest requests": lambda out: (
        len(out) == 10 and json.loads(out[0])[:2] == [1000.5, 31] and json.loads(out[1])[0] == 30.25
    ),
    "All retries": lambda out: (
        len(out) == 6
        and json.loads(out[2])[1:3] == [{"type": "next"}, 1]
        and json.loads(out[0])[1] == "init"
    ),
    "Retries by cause": lambda out: [line.split()[0] for line in out] == ["4", "2"],
    "The score now, of a run that is being played": lambda out: out == ["1970"],
    "Every sitting: when it began, and how the one before had ended": lambda out: (
        [json.loads(line)[1] for line in out]
        == ["run.started", "run.suspended", "run.resumed", "run.ended"]
    ),
    "What the service contradicted": lambda out: (
        len(out) == 1 and json.loads(out[0])["leaves"] == {"predicted": 3, "observed": 2}
    ),
    "Where the answers were laid out otherwise than before": lambda out: (
        [json.loads(line) for line in out]
        == [[53, "2026-11-30T03:13:30.250Z", "stateToken", "observation.garland"]]
    ),
    "The board that took the longest, and its first and last line": lambda out: (
        json.loads(out[0]) == {"board": 7, "first": 37, "last": 44}
    ),
}
"""What each command of the page has to print for `slow_run`."""


def test_every_command_of_the_page_has_an_answer_here() -> None:
    assert commands().keys() == ANSWERS.keys()


@pytest.mark.system
@pytest.mark.parametrize("question", ANSWERS)
def test_each_command_of_the_page_answers_its_question(question: str, tmp_path: Path) -> None:
    assert shutil.which("jq"), "this test needs jq: apt-get install -y jq"
    done = subprocess.run(
        ["sh", "-ec", commands()[question]],
        capture_output=True,
        text=True,
        env={**environment(), "RUN": str(slow_run(tmp_path))},
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert ANSWERS[question](done.stdout.splitlines()), done.stdout
