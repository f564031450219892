"""Reading a journal back, line by line, in bounded memory."""

from __future__ import annotations

import json
import re
import stat
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from io import BufferedReader
from operator import call
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bot.errors import NotAJournal
from bot.journal.events import FORMAT, Event, Kind
from bot.wire.values import brief, refuse_constant

if TYPE_CHECKING:
    from gzip import GzipFile

MAX_LINE: Final = 8 * 2**20
"""Bytes of the longest line; an answer of the service is far smaller when it is journaled."""

GZIP: Final = b"\x1f\x8b\x08"
"""What every member of a gzipped file begins with (RFC 1952, 2.3.1)."""

_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", re.ASCII)
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class RawLine(NamedTuple):
    """One line as it stands in the file."""

    number: int
    """From 1."""
    text: bytes
    end: int
    """Offset of the byte after the line."""
    is_whole: bool
    """Whether it ends with a line end and is not too long to be a line of ours."""

    @property
    def is_torn(self) -> bool:
        """Whether the file ends in the middle of it, as a crash can leave it."""
        return not self.is_whole and len(self.text) <= MAX_LINE


class Entry(NamedTuple):
    """A line that was understood."""

    number: int
    seq: int
    ts: str
    event: Event


class LineError(Exception):
    """A line is not one of a journal; says in which field, and why."""

    def __init__(self, field: str, logged: object, expected: str) -> None:
        """Name the `field`, what it holds and what it should hold."""
        super().__init__(f"{brief(field)[1:-1]} is {brief(logged)}, expected {expected}")
        self.field = field
        self.logged = logged
        self.expected = expected


def read_lines(path: Path) -> Iterator[RawLine]:
    """Yield the lines of the file at `path`, gzipped or not.

    Raises:
        NotAJournal: there is no such file, it cannot be read, it is no regular file, or it
            begins with a line that no journal can have.
    """
    try:
        with open_journal(path) as stream:
            end = 0
            number = 0
            while text := stream.readline(MAX_LINE + 1):
                number += 1
                end += len(text)
                is_whole = text.endswith(b"\n")
                if not is_whole and len(text) > MAX_LINE:
                    if number == 1:
                        raise NotAJournal(f"{path} is no journal: a line is over {MAX_LINE} bytes")
                    end += _skip_line(stream)
                if number == 1:
                    text = text.removeprefix(_BYTE_ORDER_MARK)
                yield RawLine(number, text, end, is_whole)
    except (OSError, EOFError, zlib.error) as exc:
        raise NotAJournal(f"cannot read {path}: {getattr(exc, 'strerror', None) or exc}") from exc


def _skip_line(stream: BufferedReader | GzipFile) -> int:
    """Read to the end of a line; return the bytes that were skipped."""
    skipped = 0
    while text := stream.readline(MAX_LINE):
        skipped += len(text)
        if text.endswith(b"\n"):
            break
    return skipped


def open_journal(path: Path) -> BufferedReader | GzipFile:
    """Open the file at `path` for reading, unpacked where it is gzipped.

    A pipe or a device is never opened, since that could wait forever.

    Raises:
        NotAJournal: it is no regular file.
        OSError: it cannot be opened.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise NotAJournal(f"{path} is no journal: not a file")
    stream = path.open("rb")
    if not stream.peek(len(GZIP)).startswith(GZIP):
        return stream
    stream.close()
    import gzip  # noqa: PLC0415 - few journals need it

    return gzip.open(path)


def is_compressed(path: Path) -> bool:
    """Tell whether the file at `path` is gzipped, whatever its name says.

    Raises:
        NotAJournal: it is no regular file.
        OSError: it cannot be opened.
    """
    with open_journal(path) as stream:
        return not isinstance(stream, BufferedReader)


@dataclass(frozen=True, slots=True)
class _Form:
    """What a line of one event looks like when the writer has written it."""

    kind: type[Event]
    checks: Mapping[str, Kind]
    """By field; the line's own three are not among them."""
    fields: tuple[str, ...]
    """All of them, in their order."""
    tests: tuple[Any, ...]
    """For each field, what its value has to pass once its type is right."""
    signatures: set[tuple[type, ...]] = field(default_factory=set)
    """The types of values, in the order of the fields, that have been found right."""

    def has_types(self, values: tuple[object, ...]) -> bool:
        """Tell whether each value is of a type that its field may have."""
        signature = tuple(map(type, values))
        if signature not in self.signatures:
            kinds = (*_HEAD.values(), *self.checks.values())
            if not all(kind in check.types for kind, check in zip(signature, kinds, strict=True)):
                return False
            self.signatures.add(signature)
        return True


def parse_line(line: RawLine) -> Entry:
    """Understand a line.

    Raises:
        LineError: it is not a line of a journal.
    """
    record = _parse_object(line)
    name = record.get("event")
    form = _FORMS.get(name) if isinstance(name, str) else None
    if form is not None and tuple(record) == form.fields:
        values = tuple(record.values())
        if form.has_types(values) and all(map(call, form.tests, values)):
            return Entry(line.number, values[0], values[1], form.kind(*values[3:]))
    return _parse_field_by_field(line.number, record)


def _parse_field_by_field(number: int, record: dict[str, Any]) -> Entry:
    """Understand a line whose fields are in another order, or say in which it is wrong."""
    head = {name: record.pop(name, None) for name in _HEAD}
    for name, check in _HEAD.items():
        if not check(head[name]):
            raise LineError(name, head[name], check.text)
    form = _FORMS[head["event"]]
    for name, check in form.checks.items():
        if name not in record:
            raise LineError(name, "missing", check.text)
        if not check(record[name]):
            raise LineError(name, record[name], check.text)
    for name, value in record.items():
        if name not in form.checks:
            raise LineError(name, value, "no such field")
    return Entry(number, head["seq"], head["ts"], form.kind(**record))


def is_of_a_journal(line: RawLine) -> bool:
    """Tell whether a line that may be broken in a field looks like one of a journal at all."""
    try:
        return len(_MARKS & _parse_object(line).keys()) >= len(_HEAD)
    except LineError:
        return False


def is_time(value: object) -> bool:
    """Tell whether a value is a time as `format_time` writes it."""
    if not isinstance(value, str) or not _TIME.fullmatch(value):
        return False
    try:
        parse_time(value)
    except ValueError:
        return False
    return True


def parse_time(text: str) -> datetime:
    """Read a time as `format_time` writes it."""
    return datetime.fromisoformat(text)


_HEAD: Final = {
    "seq": Kind("a line number from 0", frozenset({int}), (0).__le__),
    "ts": Kind("a time such as 2026-11-30T02:41:07.123Z", frozenset({str}), is_time),
    "event": Kind("one of " + ", ".join(FORMAT), frozenset({str}), FORMAT.__contains__),
}
"""The fields that every line begins with."""

_MARKS: Final = {*_HEAD, "journal_version"}

_FORMS: Final = {
    name: _Form(
        kind,
        checks,
        (*_HEAD, *checks),
        tuple(check.test for check in (*_HEAD.values(), *checks.values())),
    )
    for name, (kind, checks) in FORMAT.items()
}


def _parse_object(line: RawLine) -> dict[str, Any]:
    if not line.is_whole:
        raise LineError(
            "line", line.text[:40].decode(errors="replace"), "a whole line with its line end"
        )
    try:
        text = line.text.decode().strip()
        record, end = _decode(text)
        if end == len(text) and isinstance(record, dict):
            return record
    except (ValueError, RecursionError):
        pass
    raise LineError("line", line.text[:40].decode(errors="replace"), "a JSON object")


def _read_object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Make a dict; a name that stands twice would show one reader this and another one that."""
    record = dict(pairs)
    if len(record) != len(pairs):
        raise ValueError
    return record


_decode: Final = json.JSONDecoder(
    object_pairs_hook=_read_object, parse_constant=refuse_constant
).raw_decode
