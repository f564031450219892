"""Runs in pieces: thresholds through the command line, budgets, pace, cron and systemd."""

from __future__ import annotations

import getpass
import grp
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest
from calls import Call
from fake_clock import FakeClock
from harness import (
    PATIENCE_S,
    ROOT,
    actions_of,
    flags,
    last_event,
    only_journal,
    unbroken_actions,
)
from standins import Reply, Request, StandIn, in_order, journal_lines, reply

from bot.strategy import AT_LEAST, AT_MOST, BANK_RULES, EXACTLY

pytestmark = pytest.mark.slow

BUSY: Final = reply(503, b"")


@pytest.fixture
def call(call: Call, fake_clock_of_calls: FakeClock) -> Call:  # noqa: ARG001 - nobody waits
    """Call the bot for its result alone."""
    return lambda *arguments: call(*arguments, "--json", "--quiet")


# Thresholds


@pytest.mark.parametrize(
    ("bank_at", "rule", "score"),
    [
        *((21_050, rule, 21_050) for rule in BANK_RULES),
        *((bank_at, EXACTLY, bank_at) for bank_at in (20_000, 3000, 2225, 215, 995, 1005, 350, 0)),
        (1001, AT_LEAST, 1175),
        (1001, AT_MOST, 910),
        (300, AT_LEAST, 430),
        (300, AT_MOST, 215),
        (214, AT_MOST, 0),
    ],
)
def test_a_run_banks_where_its_rule_says(bank_at: int, rule: str, score: int, call: Call) -> None:
    said = call("--local", f"--bank-at={bank_at}", f"--bank-rule={rule}")
    result = said.result
    assert (said.code, said.err) == (0, "")
    assert (result["score"], result["end_reason"], result["leaves"]) == (score, "banked", 3)
    assert result["requests"] == 1 + len(actions_of(Path(result["journal"])))
    assert last_event(Path(result["journal"]))["score"] == score


def test_a_million_is_landed_on_in_26468_requests_with_all_leaves(call: Call) -> None:
    said = call("--local", "--bank-at=1000000", "--bank-rule=exactly")
    result = said.result
    assert (said.code, said.err) == (0, "")
    assert (result["score"], result["requests"], result["leaves"], result["end_reason"]) == (
        1_000_000,
        26_468,
        3,
        "banked",
    )


# Budgets


def suspensions(path: Path) -> list[tuple[object, object]]:
    return [(line["reason"], line["exit_code"]) for line in journal_lines(path, "run.suspended")]


@pytest.mark.parametrize(
    ("budget", "bank_at", "requests"),
    [(1, 430, 6), (2, 430, 6), (10, 3030, 71), (35, 3030, 71), (70, 3030, 71)],
    ids=["1", "2", "10", "35", "70"],
)
def test_a_budget_of_requests_is_used_to_the_last_and_the_next_call_goes_on(
    budget: int, bank_at: int, requests: int, call: Call
) -> None:
    reason = f"the budget of {budget} request{'s' * (budget > 1)} is used up"
    codes = []
    with StandIn() as service:
        call_flags = flags(base_url=service.url, bank_at=bank_at, max_requests=budget)
        while 0 not in codes:
            before = len(service.requests)
            said = call(*call_flags)
            codes.append(said.code)
            assert said.err == ""
            if said.code:
                assert len(service.requests) == before + budget
    calls = -(-requests // budget)
    assert codes == [*[75] * (calls - 1), 0]
    path = only_journal(Path("runs"))
    assert actions_of(path) == unbroken_actions(bank_at)
    assert suspensions(path) == [(reason, 75)] * (calls - 1)
    assert [line["from_seq"] for line in journal_lines(path, "run.resumed")] == [
        line["seq"] for line in journal_lines(path, "run.suspended")
    ]
    assert len(service.requests) == said.result["requests"] == requests


def test_a_budget_that_just_reaches_is_no_reason_to_suspend(call: Call) -> None:
    said = call("--local", "--bank-at=3030", "--max-requests=71")
    assert (said.code, said.result["score"]) == (0, 3030)


def test_retries_count_for_the_budget(call: Call) -> None:
    with StandIn(lambda _, number: BUSY if number % 2 else None) as service:
        call_flags = flags(base_url=service.url, bank_at=215, max_requests=4)
        assert call(*call_flags).code == 75
        assert service.actions == [None, None, *[{"type": "flip", "count": 2}] * 2]
        assert call(*call_flags).code == 0
        assert len(service.requests) == 6


def test_a_budget_that_ends_before_a_run_begins_leaves_no_journal(call: Call) -> None:
    with StandIn(in_order(BUSY, BUSY)) as service:
        call_flags = flags(base_url=service.url, bank_at=215, max_requests=2)
        said = call(*call_flags)
        result = {"error": "the budget of 2 requests is used up", "exit_code": 75}
        assert said == (75, json.dumps(result) + "\n", "")
        assert len(service.requests) == 2
        assert list(Path("runs").glob("*.jsonl")) == []
        assert call(*call_flags).code == 75
        assert call(*call_flags).code == 0


@pytest.mark.parametrize(
    ("minutes", "requests"), [("3", 9), ("0.5", 2), ("2.25", 7)], ids=["3", "half", "2.25"]
)
def test_a_budget_of_minutes_ends_the_call_and_the_next_one_goes_on(
    minutes: str, requests: int, call: Call, clock: FakeClock
) -> None:
    def plan(_: Request, __: int) -> None:
        clock.advance(20)

    reason = f"the budget of {minutes} minutes is used up"
    with StandIn(plan) as service:
        call_flags = flags(base_url=service.url, bank_at=3030, max_minutes=minutes)
        assert call(*call_flags)[0::2] == (75, "")
        assert len(service.requests) == requests
        assert call(*call_flags).code == 75
        assert len(service.requests) == 2 * requests
    path = only_journal(Path("runs"))
    assert suspensions(path) == [(reason, 75)] * 2
    assert actions_of(path) == unbroken_actions(3030)[: 2 * requests - 1]


def test_minutes_that_are_waited_for_a_retry_count_for_the_budget(
    call: Call, clock: FakeClock
) -> None:
    with StandIn(lambda _, number: None if number == 1 else BUSY) as service:
        said = call(*flags(base_url=service.url, bank_at=215, max_minutes=5))
    assert said.code == 75
    assert clock.monotonic() - 1000 == pytest.approx(300)


# Pace


class Arrivals:
    """A service that notes when each request arrives, and takes some time for each answer."""

    def __init__(self, clock: FakeClock, *seconds: float, failing: tuple[int, ...] = ()) -> None:
        self.server = StandIn(self._plan)
        self.times: list[float] = []
        self._clock = clock
        self._seconds = seconds
        self._failing = failing

    def _plan(self, _: Request, number: int) -> Reply | None:
        self.times.append(self._clock.monotonic())
        self._clock.advance(self._seconds[number % len(self._seconds)])
        return BUSY if number in self._failing else None

    @property
    def gaps(self) -> list[float]:
        """Seconds between one request and the next."""
        return [later - earlier for earlier, later in pairwise(self.times)]


@pytest.mark.parametrize(
    ("rate", "gap"),
    [({}, 0.1), ({"max_rps": 4}, 0.25), ({"max_rps": 0.5}, 2), ({"max_rps": 50}, 0.02)],
    ids=["default", "4", "0.5", "50"],
)
def test_requests_are_spaced_evenly(
    rate: dict[str, object], gap: float, call: Call, clock: FakeClock
) -> None:
    service = Arrivals(clock, 0, 0.019, 0.004)
    with service.server:
        assert call(*flags(base_url=service.server.url, bank_at=3030, **rate)).code == 0
    assert len(service.times) == 71
    assert service.gaps == pytest.approx([gap] * 70)


def test_retries_are_paced_too(call: Call, clock: FakeClock) -> None:
    service = Arrivals(clock, 0.01, failing=(1, 5, 6, 30))
    with service.server:
        said = call(*flags(base_url=service.server.url, bank_at=3030, max_rps=0.2))
    assert (said.code, len(service.times)) == (0, 75)
    assert service.gaps == pytest.approx([5] * 74)


def test_a_slow_service_is_not_asked_faster_afterwards(call: Call, clock: FakeClock) -> None:
    service = Arrivals(clock, 0.01, 0.9, 0.02, 0.03, 0.25, 0)
    with service.server:
        assert call(*flags(base_url=service.server.url, bank_at=3030)).code == 0
    assert min(service.gaps) == pytest.approx(0.1)
    assert max(service.gaps) == pytest.approx(0.9)


def test_a_new_sitting_is_paced_from_its_first_request(call: Call, clock: FakeClock) -> None:
    service = Arrivals(clock, 0)
    with service.server:
        for _ in range(3):
            assert call(*flags(base_url=service.server.url, max_requests=5)).code == 75
    assert max(service.gaps[:4] + service.gaps[5:9] + service.gaps[10:]) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("rate", "waits"),
    [([], 0), (["--max-rps=0"], 0), (["--max-rps=10"], 70), (["--max-rps=1"], 70)],
    ids=["default", "no limit", "10", "1"],
)
def test_the_local_service_is_paced_only_where_that_is_set(
    rate: list[str], waits: int, call: Call, clock: FakeClock
) -> None:
    assert call("--local", "--bank-at=3030", *rate).code == 0
    assert len(clock.waits) == waits


# cron


NIGHT: Final = "0 1 * * *"
OTHER_HOURS: Final = "0 0,2-23 * * *"
EDITS: Final = {
    "# local = false  ": "local = true  ",
    "# bank_at = 1000000": "bank_at = 3030",
    "# max_requests = 5000": "max_requests = 30",
    "# max_rps = 10": "max_rps = 0",
}
"""What an owner changes in configs/cron.toml for a short run, here."""


class Clone:
    """A folder as the crontab example asks for it: a clone, its environment, and the configs."""

    def __init__(self, folder: Path, edits: Mapping[str, str]) -> None:
        self.folder = folder
        self.log = folder / "runs" / "cron.log"
        self.runs = folder / "runs"
        self.runs.mkdir(parents=True)
        (folder / "bot").symlink_to(ROOT / "bot")
        (folder / ".venv").symlink_to(sys.prefix)
        shutil.copytree(ROOT / "configs", folder / "configs")
        self.edit(edits)

    def edit(self, edits: Mapping[str, str]) -> None:
        """Replace lines of the settings."""
        config = self.folder / "configs" / "cron.toml"
        text = config.read_text(encoding="utf-8")
        for before, after in edits.items():
            assert text.count(before) == 1
            text = text.replace(before, after)
        config.write_text(text, encoding="utf-8")

    def command(self, when: str) -> str:
        """Return the command of the example's line for a time, with this folder filled in."""
        example = (self.folder / "configs" / "crontab.example").read_text(encoding="utf-8")
        (line,) = (line for line in example.splitlines() if line.startswith(when))
        assert "/opt/sunpleat" in line
        return line.removeprefix(when).strip().replace("/opt/sunpleat", str(self.folder))

    @contextmanager
    def started(self, when: str = NIGHT) -> Iterator[subprocess.Popen[str]]:
        """Start a call with nothing but what cron gives, and less: no variable at all."""
        child = subprocess.Popen(
            ["/usr/bin/env", "-i", "/bin/sh", "-c", self.command(when)],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        with child:
            yield child

    def run(self, when: str = NIGHT) -> int:
        """Make a call; whatever it prints beside its log, cron would send by mail."""
        with self.started(when) as child:
            mail, _ = child.communicate(timeout=PATIENCE_S)
        assert mail == ""
        return child.returncode

    def new_lines(self) -> list[str]:
        """Return what the log has got since the last time, and empty it."""
        lines = self.log.read_text(encoding="utf-8").splitlines()
        os.truncate(self.log, 0)
        return lines


def test_a_full_cycle_under_cron(tmp_path: Path) -> None:
    clone = Clone(tmp_path / "sunpleat", EDITS)
    used_up = 'level=info event=suspended reason="the budget of 30 requests is used up"'
    ends = []
    for when, code, ending in (
        (NIGHT, 75, used_up),
        (OTHER_HOURS, 75, used_up),
        (OTHER_HOURS, 0, "event=ended score=3030"),
    ):
        assert clone.run(when) == code
        lines = clone.new_lines()
        assert "event=playing" in lines[0]
        assert ending in lines[-1]
        ends.append(last_event(only_journal(clone.runs))["event"])
    assert ends == ["run.suspended", "run.suspended", "run.ended"]
    first = only_journal(clone.runs)
    assert actions_of(first) == unbroken_actions(3030)
    assert len(list(journal_lines(first, "run.resumed"))) == 2
    whole = first.read_bytes()
    clone.new_lines()
    assert clone.run(OTHER_HOURS) == 0
    assert only_journal(clone.runs) == first
    assert clone.run() == 75
    (second,) = set(clone.runs.glob("*.jsonl")) - {first}
    assert first.read_bytes() == whole
    assert next(journal_lines(second))["event"] == "run.started"
    assert len(actions_of(second)) == 29


def test_after_a_reboot_a_run_goes_on(tmp_path: Path) -> None:
    clone = Clone(tmp_path / "sunpleat", EDITS)
    assert (clone.run(), clone.run("@reboot")) == (75, 75)
    assert len(list(journal_lines(only_journal(clone.runs), "run.resumed"))) == 1


def test_once_a_day_the_older_runs_are_packed_and_the_oldest_removed(tmp_path: Path) -> None:
    edits = {"# local = false  ": "local = true  ", "# bank_at = 1000000": "bank_at = 0"}
    clone = Clone(tmp_path / "sunpleat", edits)
    crontab = clone.folder / "configs" / "crontab.example"
    crontab.write_text(crontab.read_text().replace("--keep 30", "--keep 1"))
    assert (clone.run(), clone.run()) == (0, 0)
    assert clone.run("30 0 * * *") == 0
    suffixes = [path.name.partition(".")[2] for path in clone.runs.glob("*.jsonl*")]
    assert sorted(suffixes) == ["jsonl", "jsonl.gz"]
    crontab.write_text(crontab.read_text().replace("--keep 365", "--keep 1"))
    assert clone.run("40 0 * * *") == 0
    assert only_journal(clone.runs).suffix == ".jsonl"


def test_a_call_that_overlaps_another_sends_nothing_touches_nothing_and_exits_75(
    tmp_path: Path,
) -> None:
    is_waiting, may_go_on = threading.Event(), threading.Event()

    def plan(_: Request, number: int) -> None:
        if number == 5:
            is_waiting.set()
            may_go_on.wait(PATIENCE_S)

    with StandIn(plan) as service:
        edits = {**EDITS, '# base_url = "https://gameboard.gg"': f'base_url = "{service.url}"'}
        del edits["# local = false  "]
        clone = Clone(tmp_path / "sunpleat", edits)
        with clone.started() as first:
            assert is_waiting.wait(PATIENCE_S)
            path = only_journal(clone.runs)
            before = path.read_bytes()
            clone.new_lines()
            assert clone.run() == 75
            (said,) = clone.new_lines()
            assert said.endswith(
                f'level=info event="another bot plays seed 7 on {service.url} in {clone.runs}; '
                'nothing was sent"'
            )
            assert (len(service.requests), path.read_bytes()) == (5, before)
            may_go_on.set()
            first.communicate(timeout=PATIENCE_S)
        assert first.returncode == 75
        assert len(service.requests) == 30
        assert only_journal(clone.runs) == path


def test_a_call_of_another_seed_plays_beside_it(tmp_path: Path) -> None:
    clone = Clone(tmp_path / "sunpleat", EDITS)
    crontab = clone.folder / "configs" / "crontab.example"
    assert clone.run() == 75
    crontab.write_text(crontab.read_text().replace("--seed 7", "--seed 8"))
    assert clone.run() == 75
    seeds = sorted(re.findall(r"seed\d+", " ".join(map(str, clone.runs.glob("*.jsonl")))))
    assert seeds == ["seed7", "seed8"]


def test_a_service_that_fails_suspends_the_run_and_the_next_call_goes_on(tmp_path: Path) -> None:
    with StandIn(lambda _, number: None if number <= 5 else BUSY) as service:
        clone = Clone(
            tmp_path / "sunpleat",
            {
                '# base_url = "https://gameboard.gg"': f'base_url = "{service.url}"',
                "# max_rps = 10": "max_rps = 0",
                "# give_up_after = 900": "give_up_after = 0.1",
                "# bank_at = 1000000": "bank_at = 3030",
            },
        )
        assert clone.run() == 69
        assert "sent once: HTTP 503" in clone.new_lines()[-1]
        service.plan = always_truly
        clone.edit({"give_up_after = 0.1": "give_up_after = 900"})
        assert clone.run() == 0
    assert actions_of(only_journal(clone.runs)) == unbroken_actions(3030)


def always_truly(_: Request, __: int) -> None:
    """Answer as the local service does."""


def test_a_bad_configuration_is_one_line_in_the_log(tmp_path: Path) -> None:
    clone = Clone(tmp_path / "sunpleat", {"# bank_at = 1000000": 'bank_at = "a million"'})
    assert clone.run() == 78
    assert clone.new_lines() == [
        (
            f"sunpleat-bot: --config {clone.folder}/configs/cron.toml: bank_at: "
            "expected a whole number of at least 0 and at most 2^53 - 1, "
            "got 'a million'"
        )
    ]
    assert list(clone.runs.iterdir()) == [clone.log]


# systemd


UNITS: Final = tuple(
    f"{name}@.{kind}" for name in ("sunpleat", "sunpleat-resume") for kind in ("service", "timer")
)


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """Fill this folder and this user into the units, and return the folder they are in."""
    clone = Clone(tmp_path / "sunpleat", {})
    folder = tmp_path / "units"
    folder.mkdir()
    for name in UNITS:
        text = (clone.folder / "configs" / name).read_text(encoding="utf-8")
        filled = text.replace("/opt/sunpleat", str(clone.folder))
        user = f"User={getpass.getuser()}"
        (folder / name).write_text(filled.replace("User=sunpleat\n", f"{user}\n"))
    return folder


def verify(folder: Path) -> subprocess.CompletedProcess[str]:
    instances = [folder / unit.replace("@", "@7") for unit in UNITS]
    for unit, instance in zip(UNITS, instances, strict=True):
        shutil.copy(folder / unit, instance)
    return subprocess.run(
        ["systemd-analyze", "verify", *instances],
        env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.mark.system
def test_systemd_accepts_the_units(units: Path) -> None:
    verified = verify(units)
    assert (verified.returncode, verified.stdout, verified.stderr) == (0, "", "")


@pytest.mark.system
@pytest.mark.parametrize(
    ("name", "before", "after", "complaint"),
    [
        ("sunpleat@.service", "/.venv/bin/python", "/none", "is not executable"),
        ("sunpleat@.service", "NoNewPrivileges=yes", "NoNewPrivilege=yes", "Unknown key"),
        ("sunpleat@.timer", "OnCalendar=*-*-* 01:00", "OnCalendar=at noon", "Failed to parse"),
    ],
    ids=["no such program", "misspelt key", "no time"],
)
def test_systemd_would_tell_if_the_units_were_wrong(
    name: str, before: str, after: str, complaint: str, units: Path
) -> None:
    unit = units / name
    text = unit.read_text(encoding="utf-8")
    assert before in text
    unit.write_text(text.replace(before, after), encoding="utf-8")
    assert complaint in verify(units).stderr


# logrotate


@pytest.mark.system
def test_logrotate_turns_the_log_over(tmp_path: Path) -> None:
    clone = Clone(tmp_path / "sunpleat", EDITS)
    clone.log.write_text("a line\n")
    text = (clone.folder / "configs" / "logrotate.example").read_text(encoding="utf-8")
    filled = text.replace("/opt/sunpleat", str(clone.folder))
    user, group = getpass.getuser(), grp.getgrgid(os.getgid()).gr_name
    rules = tmp_path / "rules"
    rules.write_text(filled.replace("su sunpleat sunpleat", f"su {user} {group}"))
    turned = subprocess.run(
        ["logrotate", "--force", "--state", tmp_path / "state", rules],
        env={"PATH": f"{os.environ['PATH']}:/usr/sbin"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (turned.returncode, turned.stdout, turned.stderr) == (0, "", "")
    assert {path.name: path.read_text() for path in clone.runs.iterdir()} == {
        "cron.log.1": "a line\n"
    }
