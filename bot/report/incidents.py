"""What did not go as planned: retries, refusals, divergences, stops, in rows for a table.

Alike incidents that follow closely are one row; the rows of a run that failed all night stay few.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from bot import rules
from bot.journal.events import (
    Event,
    FieldsDiverged,
    Refused,
    Retried,
    RunAbandoned,
    RunResumed,
    RunSuspended,
)
from bot.report.boards import Place
from bot.report.text import clamp, count_of, duration, visible, visible_json

MAX_ROWS: Final = 200
"""Rows of the table; of more, the first and the last half."""
MAX_CAUSES: Final = 1000
"""Causes that are told apart when they are counted."""
MAX_MARKS: Final = 2000
"""Incidents that are kept one by one for the charts and the player."""
ALIKE_WITHIN_S: Final = 900.0
"""Seconds played between two alike incidents of one row."""

RETRY: Final = "retry"
REFUSAL: Final = "refusal"
DIVERGENCE: Final = "divergence"
STOP: Final = "stop"
RESUMED: Final = "resumed"
KINDS: Final = (RETRY, REFUSAL, DIVERGENCE, STOP, RESUMED)


class Moment(NamedTuple):
    """When and where something happened."""

    line: int
    """Of the journal, from 1."""
    ts: str
    at: float
    """Seconds played."""
    gap_s: float
    """Seconds since the line before, where a sitting began here."""
    place: Place


class Cause(NamedTuple):
    """What makes two incidents alike."""

    kind: str
    text: str
    detail: str = ""
    """More of it, in the words of the service."""


@dataclass(slots=True)
class Row:
    """One incident, or several that are alike."""

    cause: Cause
    first: Moment
    last: Moment
    what: str
    """The request that failed, of the first of them."""
    count: int = 1
    wait_s: float = 0.0
    """Waited before the requests were sent again."""


class Mark(NamedTuple):
    """One incident on a chart or in the player."""

    kind: str
    at: float
    place: Place
    row: int
    """Its row."""


@dataclass(slots=True)
class Incidents:
    """The incidents of a run, gathered line by line."""

    counts: Counter[str] = field(default_factory=Counter)
    """By kind."""
    causes: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By kind and text."""
    marks: list[Mark] = field(default_factory=list)
    rows_made: int = 0
    _first: list[Row] = field(default_factory=list)
    _last: deque[tuple[int, Row]] = field(default_factory=lambda: deque(maxlen=MAX_ROWS // 2))
    _open: dict[Cause, tuple[int, Row]] = field(default_factory=dict)

    def take(self, event: Event, moment: Moment) -> None:
        """Take note of a line, if it is an incident."""
        told = tell(event, moment.gap_s)
        if told is None:
            return
        cause, what, wait_s = told
        self.counts[cause.kind] += 1
        key = cause.kind, cause.text
        if key in self.causes or len(self.causes) < MAX_CAUSES:
            self.causes[key] += 1
        number, row = self._row(cause, moment, what)
        row.wait_s += wait_s
        if len(self.marks) < MAX_MARKS:
            self.marks.append(Mark(cause.kind, moment.at, moment.place, number))

    def _row(self, cause: Cause, moment: Moment, what: str) -> tuple[int, Row]:
        known = self._open.get(cause)
        if known is not None and moment.at - known[1].last.at <= ALIKE_WITHIN_S:
            known[1].last = moment
            known[1].count += 1
            return known
        if len(self._open) >= MAX_CAUSES:
            self._open.clear()
        row = Row(cause, moment, moment, what)
        number = self.rows_made
        self.rows_made += 1
        self._open[cause] = number, row
        if number < MAX_ROWS // 2:
            self._first.append(row)
        else:
            self._last.append((number, row))
        return number, row

    @property
    def total(self) -> int:
        """Incidents of every kind."""
        return self.counts.total()

    @property
    def left_out(self) -> int:
        """Rows between the first and the last ones."""
        return self.rows_made - len(self._first) - len(self._last)

    def rows(self) -> Iterator[tuple[int, Row]]:
        """Yield the rows of the table, each with its number from 0."""
        yield from enumerate(self._first)
        yield from self._last


def tell(event: Event, gap_s: float) -> tuple[Cause, str, float] | None:
    """Return the cause of an incident, the request and the wait; None for any other line."""
    match event:
        case Retried():
            status = f" (HTTP {event.status})" if event.status is not None else ""
            text = event.cause if str(event.status) in event.cause else event.cause + status
            cause = Cause(RETRY, visible(text), visible(event.excerpt))
            return cause, _request(event.what), float(clamp(event.wait_s))
        case Refused():
            return Cause(REFUSAL, visible(event.reason)), _request(event.action), 0.0
        case FieldsDiverged():
            return Cause(DIVERGENCE, _fields(event)), "", 0.0
        case RunSuspended():
            return Cause(STOP, f"{visible(event.reason)} (exit {_code(event.exit_code)})"), "", 0.0
        case RunAbandoned():
            return Cause(STOP, f"abandoned: {visible(event.reason)}"), "", 0.0
        case RunResumed():
            torn = (
                f"; {count_of(event.cut_bytes, 'byte')} of a torn last line were cut off"
                if event.cut_bytes
                else ""
            )
            return Cause(RESUMED, f"went on after {duration(gap_s)}{torn}"), "", 0.0
        case _:
            return None


def _request(what: str | dict[str, object]) -> str:
    return what if isinstance(what, str) else str(rules.parse_action(what))


def _code(number: int) -> int:
    return int(clamp(number))


def _fields(event: FieldsDiverged) -> str:
    """Name the fields that differ, the first few of them with their values."""
    shown = [
        f"{visible(name, 80)} is {_side(pair, 'observed')}, predicted {_side(pair, 'predicted')}"
        for name, pair in list(event.fields.items())[:5]
    ]
    more = len(event.fields) - len(shown)
    return "; ".join(shown + ([f"and {count_of(more, 'more field')}"] if more else []))


def _side(pair: object, name: str) -> str:
    value = pair.get(name, "missing") if isinstance(pair, dict) else pair
    return visible_json(value, 80)
