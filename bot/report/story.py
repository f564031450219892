"""A run as its page tells it: one pass over its journal, in the order of its lines.

The page's time is the time played, as the run counts it: what lies between two sittings, a night
or a week, is cut out. `wall` leads back to the time of day.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

from bot import rules
from bot.journal.events import ActionTaken, Event, Refused, Retried, RunResumed, RunStarted
from bot.journal.folder import run_name
from bot.journal.reader import Entry, parse_time
from bot.replay.summary import Summary, summary_of
from bot.report.boards import BoardLog
from bot.report.incidents import Incidents, Moment, name_of
from bot.rules import State
from bot.run import Run
from bot.verify import Verification

SLOWEST_MS: Final = 1e12
"""An answer time above it, thirty years, counts as this; a journal may say anything."""
_FAILED: Final = -1.0
_UNTIMED: Final = -2.0
"""Of `init`, whose answer time no line tells."""


class Sitting(NamedTuple):
    """One sitting of a run."""

    at: float
    """Time played before it, in seconds."""
    began: datetime


class Bin(NamedTuple):
    """What happened in one stretch of the time played."""

    begin: float
    end: float
    """In seconds played; the last bin ends where the run does."""
    requests: int
    failures: int
    """Of the requests, those without an accepted answer."""
    answers_ms: Counter[float]
    score: int
    """Points at its end."""

    @property
    def rate(self) -> float:
        """Requests a second."""
        span = self.end - self.begin
        return self.requests / span if span > 0 else 0.0


@dataclass(slots=True)
class TemplateTally:
    """What the boards of one template took and brought."""

    boards: int = 0
    """Cleared."""
    flips: int = 0
    award: int = 0
    seconds: float = 0.0
    """Played on its boards; retries and waits included."""


@dataclass(slots=True)
class Story:
    """All that there is to tell of one run; what it took is the `run`'s to count."""

    proof: Verification
    """The pass that verifies it."""
    sittings: list[Sitting] = field(default_factory=list)
    boards: BoardLog = field(default_factory=BoardLog)
    incidents: Incidents = field(default_factory=Incidents)
    templates: dict[int, TemplateTally] = field(default_factory=dict)
    lines: int = 0
    """Lines that were understood."""
    last_event: Event | None = None
    _at: array[float] = field(default_factory=lambda: array("d"))
    """Seconds played at each request."""
    _elapsed_ms: array[float] = field(default_factory=lambda: array("d"))
    """Of each request; below 0 where there is none."""
    _scores: array[int] = field(default_factory=lambda: array("q"))
    """Points after each request."""
    _before: State = field(default_factory=rules.fresh)
    """State, time played and time of day of the last line."""
    _played: float = 0.0
    _last_ts: str = ""

    @property
    def run(self) -> Run:
        """Where the run stands by the rules."""
        return self.proof.run

    @property
    def run_id(self) -> str:
        """The run's name, by its file."""
        return run_name(self.proof.path)

    @property
    def summary(self) -> Summary:
        """The figures of the run, its state as it is now among them."""
        return summary_of(self.proof)

    def take(self, entry: Entry) -> None:
        """Take note of a line, of which the run has taken note already."""
        event, after, at = entry.event, self.run.state, self.run.seconds
        self.lines += 1
        self.last_event = event
        gap_s = 0.0
        if isinstance(event, RunStarted | RunResumed):
            now = parse_time(entry.ts)
            gap_s = max(0.0, (now - parse_time(self._last_ts or entry.ts)).total_seconds())
            self.sittings.append(Sitting(at, now))
        tally = self.templates.setdefault(after.template_index, TemplateTally())
        tally.seconds += at - self._played
        match event:
            case ActionTaken():
                self.boards.take(name_of(event.action), self._before, after, at)
                tally.flips += "count" in event.action
                tally.boards += after.phase == rules.CLEARED
                tally.award += after.score - self._before.score
                self._note(at, min(event.elapsed_ms, SLOWEST_MS))
            case RunStarted():
                self._note(at, _UNTIMED)
            case Retried() | Refused():
                self._note(at, _FAILED)
        moment = Moment(entry.number, entry.ts, at, gap_s, self.boards.place)
        self.incidents.take(event, moment, after.score)
        self._before, self._played, self._last_ts = after, at, entry.ts

    def _note(self, at: float, elapsed_ms: float) -> None:
        self._at.append(at)
        self._elapsed_ms.append(elapsed_ms)
        self._scores.append(self.run.score)

    def wall(self, at: float) -> datetime:
        """Return the time of day at `at` seconds played, at most the last that there is."""
        place = bisect_right(self.sittings, at, key=lambda sitting: sitting.at) - 1
        sitting = self.sittings[max(0, place)]
        try:
            return sitting.began + timedelta(seconds=at - sitting.at)
        except OverflowError:
            return datetime.max.replace(tzinfo=UTC)

    def answers_ms(self) -> Counter[float]:
        """Return every answer time."""
        return _answers(self._elapsed_ms)

    def bins(self, most: int) -> Iterator[Bin]:
        """Yield the time played in at most `most` stretches of one length.

        Of a short run they are few, with some requests in each.
        """
        count = min(most, max(8, len(self._at) // 4))
        played = self.run.seconds
        first = 0
        for number in range(1, count + 1):
            is_last = number == count
            end = played if is_last else played * number / count
            after = bisect_left(self._at, math.inf if is_last else end, lo=first)
            elapsed_ms = self._elapsed_ms[first:after]
            yield Bin(
                begin=played * (number - 1) / count,
                end=end,
                requests=after - first,
                failures=elapsed_ms.count(_FAILED),
                answers_ms=_answers(elapsed_ms),
                score=self._scores[after - 1] if after else 0,
            )
            first = after


def read_story(path: Path) -> Story:
    """Read the journal at `path`, and verify it on the way.

    Lines that cannot be read are passed over and told of.

    Raises:
        NotAJournal: there is no such file, or it is none of a run.
    """
    story = Story(Verification(path))
    for entry in story.proof.steps():
        story.take(entry)
    return story


def _answers(elapsed_ms: Iterable[float]) -> Counter[float]:
    return Counter(elapsed for elapsed in elapsed_ms if elapsed >= 0)
