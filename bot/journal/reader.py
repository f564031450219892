"""Reading a journal back, line by line, in bounded memory."""

from __future__ import annotations

import gzip
import json
import re
import stat
import zlib
from collections.abc import Iterator
from datetime import datetime
from io import BufferedReader
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from bot.errors import NotAJournal
from bot.journal.events import FORMAT, Event

MAX_LINE: Final = 8 * 2**20
"""Bytes of the longest line; an answer of the service is far smaller when it is journaled."""

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
        super().__init__(f"{field} is {_brief(logged)}, expected {expected}")
        self.field = field
        self.logged = logged
        self.expected = expected


def read_lines(path: Path) -> Iterator[RawLine]:
    """Yield the lines of the file at `path`, gzipped or not.

    Raises:
        NotAJournal: there is no such file, it cannot be read, or it is no regular file.
    """
    try:
        with _open(path) as stream:
            end = 0
            number = 0
            while text := stream.readline(MAX_LINE + 1):
                number += 1
                end += len(text)
                is_whole = text.endswith(b"\n")
                if not is_whole and len(text) > MAX_LINE:
                    while skipped := stream.readline(MAX_LINE):
                        end += len(skipped)
                        if skipped.endswith(b"\n"):
                            break
                if number == 1:
                    text = text.removeprefix(_BYTE_ORDER_MARK)
                yield RawLine(number, text, end, is_whole)
    except (OSError, EOFError, zlib.error) as exc:
        raise NotAJournal(f"cannot read {path}: {getattr(exc, 'strerror', None) or exc}") from exc


def _open(path: Path) -> BufferedReader:
    """Open a regular file; a pipe or a device is never opened, since that could wait forever."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise NotAJournal(f"{path} is no journal: not a file")
    with path.open("rb") as stream:
        is_gzipped = stream.read(2) == b"\x1f\x8b"
    return cast("BufferedReader", gzip.open(path)) if is_gzipped else path.open("rb")


def parse_line(line: RawLine) -> Entry:
    """Understand a line.

    Raises:
        LineError: it is not a line of a journal.
    """
    record = _parse_object(line)
    seq = record.pop("seq", None)
    if type(seq) is not int or seq < 0:
        raise LineError("seq", seq, "a line number from 0")
    ts = record.pop("ts", None)
    if not is_time(ts):
        raise LineError("ts", ts, "a time such as 2026-11-30T02:41:07.123Z")
    name = record.pop("event", None)
    kind, checks = FORMAT.get(name, (None, {})) if isinstance(name, str) else (None, {})
    if kind is None:
        raise LineError("event", name, "one of " + ", ".join(FORMAT))
    for field, check in checks.items():
        if field not in record:
            raise LineError(field, "missing", "a value")
        if not check(record[field]):
            raise LineError(field, record[field], "a value of its kind")
    for field in record:
        if field not in checks:
            raise LineError(field, record[field], "no such field")
    return Entry(line.number, seq, ts, kind(**record))


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


def _parse_object(line: RawLine) -> dict[str, Any]:
    if not line.is_whole:
        raise LineError("line", line.text[:40], "a whole line with its line end")
    try:
        record = json.loads(line.text)
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict):
        raise LineError("line", line.text[:40], "a JSON object")
    return record


def _brief(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
