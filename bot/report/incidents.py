"""What did not go as planned: retries, refusals, divergences, stops, in rows for a table.

Alike incidents that follow closely are one row; the rows of a run that failed all night stay few.
"""

from __future__ import annotations

import json
import re
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from bot import rules
from bot.errors import ActionError
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
from bot.words import count_of, duration, shorten, visible

MAX_ROWS: Final = 200
"""Rows of the table; of more, the first and the last half."""
MAX_KINDS: Final = 1000
"""Kinds of incident that are told apart."""
MAX_MARKS: Final = 2000
"""Incidents that are kept one by one for the charts and the player."""
ALIKE_WITHIN_S: Final = 900.0
"""Seconds played between two alike incidents of one row."""
MAX_WAIT_S: Final = 2.0**53
"""A wait longer than this counts as this long; a journal may say anything."""

RETRY: Final = "retry"
REFUSAL: Final = "refusal"
DIVERGENCE: Final = "divergence"
STOP: Final = "stop"
RESUMED: Final = "resumed"
KINDS: Final = (RETRY, REFUSAL, DIVERGENCE, STOP, RESUMED)
_PLURALS: Final = {RETRY: "retries", RESUMED: "resumed"}

_NUMBER: Final = re.compile(r"\d+")
_PARTICULARS: Final = re.compile(r"[:(].*", re.DOTALL)
"""The service's part of a cause that begins in words of ours."""


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


class Told(NamedTuple):
    """One incident in words, every one of them shown as it is, and short."""

    kind: str
    text: str
    alike: str
    """The same for all incidents of its kind that are counted together."""
    detail: str = ""
    """More of it, in the words of the service."""
    what: str = ""
    """The request that failed."""
    wait_s: float = 0.0
    """Waited before it was sent again."""


@dataclass(slots=True)
class Row:
    """One incident, or several that are alike; the words are those of the first."""

    number: int
    """From 0, in the order in which they begin."""
    told: Told
    first: Moment
    last: Moment
    count: int = 0
    wait_s: float = 0.0

    def take(self, told: Told, moment: Moment) -> None:
        """Take one more."""
        self.count += 1
        self.last = moment
        self.wait_s += told.wait_s


class Mark(NamedTuple):
    """One incident on a chart or in the player."""

    kind: str
    at: float
    score: int
    """Points at that moment."""
    place: Place
    row: int
    """Its row."""


@dataclass(slots=True)
class Incidents:
    """The incidents of a run, gathered line by line."""

    counts: Counter[str] = field(default_factory=Counter)
    """By kind."""
    causes: dict[tuple[str, str], Row] = field(default_factory=dict)
    """All that are alike in one row, however far apart."""
    marks: list[Mark] = field(default_factory=list)
    rows_made: int = 0
    _first: list[Row] = field(default_factory=list)
    _last: deque[Row] = field(default_factory=lambda: deque(maxlen=MAX_ROWS // 2))
    _open: dict[tuple[str, str], Row] = field(default_factory=dict)

    def take(self, event: Event, moment: Moment, score: int) -> None:
        """Take note of a line, if it is an incident."""
        told = tell(event, moment.gap_s)
        if told is None:
            return
        self.counts[told.kind] += 1
        key = told.kind, told.alike
        row = self._row(key, told, moment)
        row.take(told, moment)
        if key in self.causes or len(self.causes) < MAX_KINDS:
            first = Row(row.number, told, moment, moment)
            self.causes.setdefault(key, first).take(told, moment)
        if len(self.marks) < MAX_MARKS:
            self.marks.append(Mark(told.kind, moment.at, score, moment.place, row.number))

    def _row(self, key: tuple[str, str], told: Told, moment: Moment) -> Row:
        known = self._open.get(key)
        if known is not None and moment.at - known.last.at <= ALIKE_WITHIN_S:
            return known
        if len(self._open) >= MAX_KINDS:
            self._open.clear()
        row = self._open[key] = Row(self.rows_made, told, moment, moment)
        (self._first if row.number < MAX_ROWS // 2 else self._last).append(row)
        self.rows_made += 1
        return row

    @property
    def left_out(self) -> int:
        """Rows between the first and the last ones."""
        return self.rows_made - len(self._first) - len(self._last)

    def rows(self) -> list[Row]:
        """Return the rows of the table."""
        return [*self._first, *self._last]


def tell(event: Event, gap_s: float) -> Told | None:
    """Return an incident in words; None for any other line.

    Retries are alike by their status and the gist of their cause, without its numbers; refusals
    all are. So an answer that was cut at another byte is no other cause.
    """
    match event:
        case Retried(cause=cause, status=status):
            gist = _NUMBER.sub("", cause if status is None else _PARTICULARS.sub("", cause))
            known = status is None or str(status) in cause
            text = visible(cause if known else f"{cause} (HTTP {status})")
            wait_s = min(event.wait_s, MAX_WAIT_S)
            alike = f"{status} {shorten(gist, 80)}"
            return Told(RETRY, text, alike, visible(event.excerpt), name_of(event.what), wait_s)
        case Refused():
            return Told(REFUSAL, visible(event.reason), "", what=name_of(event.action))
        case FieldsDiverged():
            return _alike(DIVERGENCE, _fields(event))
        case RunSuspended():
            return _alike(STOP, f"{visible(event.reason)} (exit {event.exit_code})")
        case RunAbandoned():
            return _alike(STOP, f"abandoned: {visible(event.reason)}")
        case RunResumed():
            cut = f"{count_of(event.cut_bytes, 'byte')} of a torn last line were cut off"
            more = f"; {cut}" if event.cut_bytes else ""
            return _alike(RESUMED, f"went on after {duration(gap_s)}{more}")
    return None


def _alike(kind: str, text: str) -> Told:
    """Return an incident that is like those of the same words."""
    return Told(kind, text, text)


def count_of_kind(number: int, kind: str) -> str:
    """Write a number of incidents of a kind."""
    return count_of(number, kind, _PLURALS.get(kind, ""))


def name_of(what: str | dict[str, object]) -> str:
    """Name an action, or another request; a journal may hold what is neither."""
    if isinstance(what, str):
        return visible(what, 80)
    try:
        return str(rules.parse_action(what))
    except ActionError:
        return visible(json.dumps(what), 80)


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
    return visible(value if isinstance(value, str) else json.dumps(value), 80)
