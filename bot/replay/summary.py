"""Where a run stands, in a few figures, for lists and for a look in between.

A run that has ended says so in its last line, so its first and last lines are enough. Any
other one is read whole, and verified on the way.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from bot import rules
from bot.errors import NotAJournal
from bot.journal.events import ActionTaken, RunEnded, RunResumed, RunStarted
from bot.journal.folder import first_entry, journals, run_name
from bot.journal.lock import is_played
from bot.journal.reader import LineError, last_entries, parse_line, read_lines
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
    base_url: str | None
    seed: int | None
    state: str
    """`running`, `suspended`, `ended`, `abandoned` or `damaged`."""
    score: int
    bank_at: int | None
    """The threshold of the last sitting."""
    boards: int
    """Cleared."""
    requests: int
    retries: int
    started: str | None
    """Time of the first line, as it stands there."""
    last_success: str | None
    """Time of the last accepted answer, `init` included."""
    seconds: float
    """Time played, without the time between sittings."""

    @property
    def rate(self) -> float | None:
        """Points an hour of play; None while there is no time to divide by."""
        return _ratio(self.score, self.seconds, 3600) if self.seconds > 0 else None

    @property
    def eta_s(self) -> float | None:
        """Seconds of play to the threshold at this rate; None where it is over or unknown."""
        if self.state not in (RUNNING, SUSPENDED) or not self.score or self.bank_at is None:
            return None
        return _ratio(max(0, self.bank_at - self.score), self.score, self.seconds)

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


def _ratio(part: float, whole: float, times: float) -> float | None:
    """Return so many times `part` / `whole`; None beyond all numbers, which a journal may hold."""
    try:
        value = part / whole * times
    except OverflowError:
        return None
    return round(value, 1) if math.isfinite(value) else None


def summarise(path: Path) -> Summary:
    """Return the figures of the run whose journal is at `path`.

    Raises:
        NotAJournal: the file cannot be read, or is no journal.
    """
    return _look_at_lock(_read(path))


def summarise_all(runs_dir: Path) -> list[Summary]:
    """Return the figures of every run in a folder, in the order of their starts.

    A file whose first line never was whole holds no run and is passed by.

    Raises:
        JournalError: the folder cannot be read.
    """
    return sorted(map(_look_at_lock, _read_all(runs_dir)), key=_start)


def _start(run: Summary) -> tuple[str, str, str]:
    return run_name(run.journal).partition("-")[0], run.started or "", run.run_id


def _read_all(runs_dir: Path) -> Iterator[Summary]:
    for _, path in journals(runs_dir):
        try:
            with suppress(LineError):  # a first line that is broken is one all the same
                if first_entry(path) is None:
                    continue
            yield _read(path)
        except NotAJournal:
            yield Summary(
                run_name(path), path, None, None, DAMAGED, 0, None, 0, 0, 0, None, None, 0
            )


def _look_at_lock(run: Summary) -> Summary:
    """Return the figures of a run with its state as it is now: somebody may play it."""
    if run.state != SUSPENDED or run.base_url is None or run.seed is None:
        return run
    is_running = is_played(run.journal)
    return replace(run, state=RUNNING) if is_running else run


def _read(path: Path) -> Summary:
    """Read a journal, as little of it as will do; what is not over counts as suspended."""
    return _read_ends(path) or _read_whole(path)


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
        is_undisturbed = last.seq == ended.requests  # no line but those of requests
        bank_at = started.bank_at if is_undisturbed else _last_bank_at(path, started, last.seq + 1)
    except (LineError, NotAJournal):
        return None
    return Summary(
        run_id=started.run_id,
        journal=path,
        base_url=started.base_url,
        seed=started.seed,
        state=ENDED,
        score=ended.score,
        bank_at=bank_at,
        boards=ended.boards,
        requests=ended.requests,
        retries=ended.retries,
        started=first.ts,
        last_success=success.ts,
        seconds=ended.seconds,
    )


def _last_bank_at(path: Path, started: RunStarted, lines: int) -> int:
    """Return the threshold of the last sitting of a run of so many lines.

    Raises:
        LineError: a line that begins a sitting is broken, or there is no reading on to the end.
        NotAJournal: the file cannot be read to its end.
    """
    bank_at = started.bank_at
    for line in read_lines(path):
        is_lost = not line.is_whole and line.number <= lines
        if is_lost or _RESUMED.search(line.text):
            event = parse_line(line).event
            if isinstance(event, RunResumed):
                bank_at = event.bank_at
    return bank_at


def _read_whole(path: Path) -> Summary:
    verification = Verification(path)
    verification.read_all()
    run = verification.run
    started = run.started
    state = SUSPENDED
    if run.is_over:
        state = ENDED if run.state.phase == rules.ENDED else ABANDONED
    return Summary(
        run_id=started.run_id if started else run_name(path),
        journal=path,
        base_url=started.base_url if started else None,
        seed=started.seed if started else None,
        state=state if verification.is_verified else DAMAGED,
        score=run.state.score,
        bank_at=run.goal.bank_at if started else None,
        boards=run.boards,
        requests=run.requests,
        retries=run.retries,
        started=run.started_ts or None,
        last_success=run.last_action_ts or None,
        seconds=run.seconds,
    )
