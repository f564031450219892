"""The axis of time: the time of day in UTC, or the seconds played of a short run."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from bot.report.text import clock_time
from bot.report.timeline import Timeline, bin_width

SHORT_S: Final = 120.0
"""A run shorter than this reads best in seconds from its start."""
MAX_SITTINGS: Final = 500
"""Sittings whose ticks are looked for."""

_MIDNIGHT: Final = datetime(2000, 1, 1, tzinfo=UTC)


class TimeAxis:
    """Says where on the axis of time what stands, and in which words."""

    def __init__(self, timeline: Timeline) -> None:
        """Make the axis of a run."""
        self._timeline = timeline
        self.end = timeline.played
        self.is_short = self.end < SHORT_S

    @property
    def title(self) -> str:
        """What the axis is."""
        if self.is_short:
            return "seconds played"
        if len(self._timeline.sittings) > 1:
            return "time of day in UTC; breaks are cut out"
        return "time of day in UTC"

    def name(self, at: float) -> str:
        """Name the moment `at` seconds played."""
        if self.is_short:
            return f"{at:.3f} s"
        return clock_time(self._timeline.wall(at), is_dated=self._spans_days)

    def span(self, begin: float, end: float) -> str:
        """Name a stretch of the time played."""
        return f"{self.name(begin)} to {self.name(end)}"

    @property
    def _spans_days(self) -> bool:
        first, last = self._timeline.wall(0), self._timeline.wall(self.end)
        return first.date() != last.date()

    def encoding(self, most: int) -> dict[str, Any]:
        """Return the x channel of a chart with at most `most` ticks."""
        ticks = dict(self._short_ticks(most) if self.is_short else self._ticks(most))
        labels = json.dumps({f"{at:.3f}": label for at, label in ticks.items()})
        return {
            "type": "quantitative",
            "scale": {"domain": [0, max(self.end, 0.001)], "nice": False},
            "axis": {
                "title": self.title,
                "values": list(ticks),
                "labelExpr": f"({labels})[format(datum.value, '.3f')]",
                "labelFlush": True,
            },
        }

    def _short_ticks(self, most: int) -> Iterator[tuple[float, str]]:
        width = bin_width(self.end, most)
        for number in range(math.floor(self.end / width) + 1):
            yield round(number * width, 3), f"{number * width:g}"

    def _ticks(self, most: int) -> Iterator[tuple[float, str | list[str]]]:
        """Yield round times of day, each with its label; the day stands below where it is new."""
        width = bin_width(self.end, most)
        sittings = self._timeline.sittings
        day = None
        last_at = -math.inf
        for place, sitting in enumerate(sittings[:MAX_SITTINGS]):
            ends = sittings[place + 1].at if place + 1 < len(sittings) else self.end
            since = (sitting.began - _MIDNIGHT).total_seconds()
            wait = -since % width
            for number in range(math.floor(max(0.0, ends - sitting.at - wait) / width) + 1):
                at = round(sitting.at + wait + number * width, 3)
                if at > ends or at - last_at < width * 0.6:
                    continue
                last_at = at
                moment = _round(self._timeline.wall(at))
                label = f"{moment:%H:%M:%S}" if width < 60 else f"{moment:%H:%M}"
                yield at, label if moment.date() == day else [label, f"{moment:%d %b}"]
                day = moment.date()


def _round(moment: datetime) -> datetime:
    """Return the nearest whole second: the ticks are whole, the milliseconds are rounding's."""
    try:
        return (moment + timedelta(microseconds=500_000)).replace(microsecond=0)
    except OverflowError:
        return moment
