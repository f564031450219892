"""Where a run stands: its state, its figures, how fast it goes and how long it has to go.

This is the one place that says so; the verbs, the metrics and the report ask it. A run that has
ended says in its last line what it took, so its first and last lines are enough. Any other one
is read whole, and verified on the way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bot import rules, strategy
from bot.errors import NotAJournal
from bot.journal.events import ActionTaken, RunEnded, RunResumed, RunStarted
from bot.journal.folder import first_entry, journals, run_name
from bot.journal.lock import is_played
from bot.journal.reader import LineError, last_entries, parse_line, read_lines
from bot.run import Run, points_an_hour, time_to_go
from bot.strategy import Goal
from bot.verify import Verification

RUNNING: Final = "running"
SUSPENDED: Final = "suspended"
"""It can go on, and nobody plays it now."""
ENDED: Final = "ended"
ABANDONED: Final = "abandoned"
DAMAGED: Final = "damaged"
"""It cannot go on, since a line contradicts the rules or cannot be read."""

_RESUMED: Final = re.compile(rb'"event":\s*"run\.resumed"')


@dataclass(frozen=True, slots=True)
class Summary:
    """The figures of one run; None where a damaged journal does not tell."""

    run_id: str
    journal: Path
    state: str
    """`running`, `suspended`, `ended`, `abandoned` or `damaged`."""
    base_url: str | None = None
    seed: int | None = None
    score: int = 0
    bank_at: int | None = None
    """The threshold of the last sitting."""
    boards: int = 0
    """Cleared."""
    requests: int = 0
    retries: int = 0
    started: str | None = None
    """Time of the first line, as it stands there."""
    last_success: str | None = None
    """Time of the last accepted answer, `init` included."""
    seconds: float = 0.0
    """Time played, without the time between sittings."""
    end_reason: str | None = None
    """Of a run that has ended: one of the rules' `END_REASONS`."""
    is_as_asked: bool = False
    """Whether it ended banked, as its goal asks."""
    stopped: str = ""
    """Why its last sitting ended, of a suspended one that tells."""
    fault: str = ""
    """What is wrong first with a damaged one."""

    @property
    def rate(self) -> float | None:
        """Points an hour of play; None while there is no time to divide by."""
        return points_an_hour(self.score, self.seconds)

    @property
    def eta_s(self) -> float | None:
        """Seconds of play to the threshold at this rate; None where it is over or unknown."""
        if self.state not in (RUNNING, SUSPENDED) or self.bank_at is None:
            return None
        return time_to_go(self.bank_at - self.score, self.score, self.seconds)

    def to_json(self) -> dict[str, object]:
        """Return the figures for programs."""
        return {
            "run_id": self.run_id,
            "journal": str(self.journal),
            "base_url": self.base_url,
            "seed": self.seed,
            "state": self.state,
            "score": self.score,
            "bank_at": self.bank_at,
            "boards": self.boards,
            "requests": self.requests,
            "retries": self.retries,
            "started": self.started,
            "last_success": self.last_success,
            "rate": self.rate,
            "eta_s": self.eta_s,
        }


def summarise(path: Path) -> Summary:
    """Return the figures of the run whose journal is at `path`.

    Raises:
        NotAJournal: the file cannot be read, or is no journal.
    """
    if (summary := _read_ends(path)) is not None:
        return summary
    verification = Verification(path)
    verification.read_all()
    return summary_of(verification)


def summarise_all(runs_dir: Path) -> list[Summary]:
    """Return the figures of every run in a folder, in the order of their starts.

    A file whose first line never was whole holds no run and is passed by.

    Raises:
        JournalError: the folder cannot be read.
    """
    return sorted(_read_all(runs_dir), key=_start)


def summary_of(verification: Verification) -> Summary:
    """Return the figures of the run whose journal was read; somebody may play it now."""
    run, started = verification.run, verification.run.started
    fault = str(verification.problems[0]) if verification.problems else ""
    return Summary(
        run_id=started.run_id if started else run_name(verification.path),
        journal=verification.path,
        state=DAMAGED if fault else _state_now(run, verification.path),
        base_url=started.base_url if started else None,
        seed=started.seed if started else None,
        score=run.score,
        bank_at=run.goal.bank_at if started else None,
        boards=run.boards,
        requests=run.requests,
        retries=run.retries,
        started=run.started_ts or None,
        last_success=run.last_action_ts or None,
        seconds=run.seconds,
        end_reason=run.state.end_reason,
        is_as_asked=run.is_as_asked,
        stopped=f"{run.suspended.exit_code}, {run.suspended.reason}" if run.suspended else "",
        fault=fault,
    )


def state_of(run: Run) -> str:
    """Return the state of a run that nobody plays at this moment, and that has no fault."""
    if not run.is_over:
        return SUSPENDED
    return ENDED if run.state.phase == rules.ENDED else ABANDONED


def quantile(counted: Mapping[float, int], share: float) -> float:
    """Return the value that this share (0 to 1) of all did not exceed; 0 where there is none.

    Args:
        counted: how often each value is there.
        share: 0.5 for the median; below 1.
    """
    below, count = 0, sum(counted.values())
    for value, times in sorted(counted.items()):
        below += times
        if below > share * count:
            return value
    return 0.0


def _state_now(run: Run, path: Path) -> str:
    """Return the state of a run whose journal is at `path`: somebody may play it."""
    state = state_of(run)
    return RUNNING if state == SUSPENDED and is_played(path) else state


def _start(run: Summary) -> tuple[str, str, str]:
    return run_name(run.journal).partition("-")[0], run.started or "", run.run_id


def _read_all(runs_dir: Path) -> Iterator[Summary]:
    for _, path in journals(runs_dir):
        try:
            with suppress(LineError):  # a first line that is broken is one all the same
                if first_entry(path) is None:
                    continue
            yield summarise(path)
        except NotAJournal as exc:
            yield Summary(run_name(path), path, DAMAGED, fault=str(exc))


def _read_ends(path: Path) -> Summary | None:
    """Read a run that has ended from both ends; None where that does not tell everything."""
    entries = last_entries(path)
    last = next(entries, None)
    if last is None or not isinstance(last.event, RunEnded):
        return None
    success = next((e for e in entries if isinstance(e.event, ActionTaken | RunStarted)), None)
    try:
        first = first_entry(path)
        if success is None or first is None or not isinstance(first.event, RunStarted):
            return None
        started, ended = first.event, last.event
        goal = Goal(started.bank_at, started.bank_rule)
        if last.seq != ended.requests:  # there are other lines than those of requests
            goal = _last_goal(path, goal, last.seq + 1)
    except (LineError, NotAJournal):
        return None
    is_as_asked = _is_as_asked(ended, goal)
    if is_as_asked is None:
        return None
    return Summary(
        run_id=started.run_id,
        journal=path,
        state=ENDED,
        base_url=started.base_url,
        seed=started.seed,
        score=ended.score,
        bank_at=goal.bank_at,
        boards=ended.boards,
        requests=ended.requests,
        retries=ended.retries,
        started=first.ts,
        last_success=success.ts,
        seconds=ended.seconds,
        end_reason=ended.end_reason,
        is_as_asked=is_as_asked,
    )


def _is_as_asked(ended: RunEnded, goal: Goal) -> bool | None:
    """Tell whether a run ended as its goal asks; None where its moves have to be known for that."""
    if ended.end_reason != rules.BANKED:
        return False
    if goal.rule == strategy.AT_LEAST:
        return ended.score >= goal.bank_at
    return ended.score == goal.bank_at if goal.rule == strategy.EXACTLY else None


def _last_goal(path: Path, goal: Goal, lines: int) -> Goal:
    """Return the goal of the last sitting of a run of so many lines, whose first one had `goal`.

    Raises:
        LineError: a line that begins a sitting is broken, or there is no reading on to the end.
        NotAJournal: the file cannot be read to its end.
    """
    for line in read_lines(path):
        is_lost = not line.is_whole and line.number <= lines
        if is_lost or _RESUMED.search(line.text):
            event = parse_line(line).event
            if isinstance(event, RunResumed):
                goal = Goal(event.bank_at, event.bank_rule)
    return goal
