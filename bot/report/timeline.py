"""When each request of a run was, on a clock that stops between sittings.

The page's time is the time played: what lies between two sittings, a night or a week, is cut
out, so that a run of many sittings reads as one. `wall` leads back to the time of day.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from bot.journal.reader import parse_time
from bot.report.text import clamp, later

WIDTHS: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200)
"""Seconds of a bin that people count in."""
_FAILED: Final = -1.0
_UNTIMED: Final = -2.0


class Sitting(NamedTuple):
    """One sitting of a run."""

    at: float
    """Time played before it, in seconds."""
    began: datetime
    gap_s: float
    """Time between it and the last line before; 0 for the first one."""


class Bin(NamedTuple):
    """What happened in one stretch of the time played."""

    begin: float
    end: float
    """In seconds played; the last bin ends where the run does."""
    requests: int
    failures: int
    """Of the requests, those without an accepted answer."""
    answers_ms: Sequence[float]
    """Answer times, ascending."""
    score: int
    """Points at its end."""

    @property
    def rate(self) -> float:
        """Requests a second."""
        span = self.end - self.begin
        return self.requests / span if span > 0 else 0.0


class Timeline:
    """Every request of a run, in three plain arrays."""

    def __init__(self) -> None:
        """Begin before the first line."""
        self.sittings: list[Sitting] = []
        self.played = 0.0
        """Seconds played up to the last line."""
        self._last: datetime | None = None
        self._at = array("d")
        self._elapsed_ms = array("d")
        """Of each request; below 0 where there is none."""
        self._score = array("q")

    @property
    def first(self) -> datetime | None:
        """The time of the first line."""
        return self.sittings[0].began if self.sittings else None

    @property
    def last(self) -> datetime | None:
        """The time of the last line."""
        return self._last

    @property
    def requests(self) -> int:
        """How many requests there are."""
        return len(self._at)

    def tick(self, ts: str, *, is_sitting: bool = False) -> float:
        """Take note of the time of a line; return the seconds played since the line before.

        Args:
            ts: the line's time.
            is_sitting: whether a sitting begins with it.
        """
        now = parse_time(ts)
        passed = max(0.0, (now - self._last).total_seconds()) if self._last else 0.0
        self._last = now
        if is_sitting or not self.sittings:
            self.sittings.append(Sitting(self.played, now, passed))
            return 0.0
        self.played = round(self.played + passed, 3)  # the lines have milliseconds
        return passed

    def answer(self, score: int, elapsed_ms: float) -> None:
        """Note a request that was answered at the last tick, after `elapsed_ms`."""
        self._note(score, float(clamp(elapsed_ms)))

    def failure(self, score: int, *, is_init: bool = False) -> None:
        """Note a request that brought no accepted answer, or `init`, whose time is not known."""
        self._note(score, _UNTIMED if is_init else _FAILED)

    def _note(self, score: int, elapsed_ms: float) -> None:
        self._at.append(self.played)
        self._elapsed_ms.append(elapsed_ms)
        self._score.append(score)

    def wall(self, at: float) -> datetime:
        """Return the time of day at `at` seconds played."""
        place = bisect_right(self.sittings, at, key=lambda sitting: sitting.at) - 1
        sitting = self.sittings[max(0, place)]
        return later(sitting.began, at - sitting.at)

    def answers_ms(self) -> list[float]:
        """Return every answer time, ascending."""
        return sorted(elapsed for elapsed in self._elapsed_ms if elapsed >= 0)

    def score_at(self, at: float) -> int:
        """Return the points at `at` seconds played."""
        place = bisect_right(self._at, at) - 1
        return self._score[place] if place >= 0 else 0

    def bins(self, most: int) -> Iterator[Bin]:
        """Yield the time played in at most `most` bins of a width that people count in.

        A rest shorter than half a bin belongs to the last one: its rate would mean nothing.
        """
        if not self._at:
            return
        width = bin_width(self.played, most)
        count = max(1, math.floor(self.played / width + 0.5))
        first = 0
        for number in range(count):
            end = self.played if number == count - 1 else (number + 1) * width
            after = bisect_left(self._at, end, lo=first)
            if number == count - 1:
                after = len(self._at)
            elapsed_ms = self._elapsed_ms[first:after]
            yield Bin(
                begin=number * width,
                end=end,
                requests=after - first,
                failures=elapsed_ms.count(_FAILED),
                answers_ms=sorted(elapsed for elapsed in elapsed_ms if elapsed >= 0),
                score=self._score[after - 1] if after else 0,
            )
            first = after


def bin_width(seconds: float, most: int) -> float:
    """Return the least width, of those people count in, that makes at most `most` bins."""
    scale = 0.001
    while scale < 1:
        for step in (1, 2, 5):
            if seconds <= scale * step * most:
                return scale * step
        scale *= 10
    for width in WIDTHS:
        if seconds <= width * most:
            return float(width)
    days = 1
    while seconds > days * 86400 * most:
        days *= 2
    return days * 86400.0


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return the value that this share (0 to 1) of the ascending values did not exceed.

    It is the rule of the figures that are printed while it plays: one of the values itself.
    """
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
