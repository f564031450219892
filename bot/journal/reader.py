"""Reading a journal back: line by line in bounded memory, or its last lines alone."""

from __future__ import annotations

import io
import json
import os
import re
import zlib
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from bot.errors import NotAJournal
from bot.garland import MAX_WHOLE
from bot.journal.events import FORMAT, JOURNAL_VERSION, Event, FieldKind, RunAbandoned, RunEnded
from bot.journal.files import NotPlain, open_plain, why
from bot.wire.values import is_too_deep, refuse_constant

MAX_LINE: Final = 8 * 2**20
"""Bytes of the longest line, without its end; no longer one is written."""
MAX_DEPTH: Final = 120
"""Levels of lists and objects in a line: the 100 of an answer, and what a line puts around it."""
TAIL: Final = 2**16
"""Bytes at the end of a file that `last_entries` looks at."""

GZIP: Final = b"\x1f\x8b\x08"
"""What every member of a gzipped file begins with (RFC 1952, 2.3.1)."""

_BLOCK: Final = 2**16
_MEMBER: Final = re.compile(re.escape(GZIP))
_TIME: Final = re.compile(
    r"\d{4}-\d\d-\d\dT(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{3}Z",  # 24:00 is new in Python 3.14
    re.ASCII,
)
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
    is_torn: bool = False
    """Whether the file ends in the middle of it, as a crash can leave it."""


class Entry(NamedTuple):
    """A line that was understood."""

    number: int
    seq: int
    ts: str
    event: Event


class LineError(Exception):
    """A line is not one of a journal; says in which field, and why, in a few words."""

    def __init__(self, field: str, logged: object, expected: str) -> None:
        """Name the `field`, what it holds and what it should hold."""
        super().__init__(
            f"{_brief(repr(field))[1:-1]} is {_brief(repr(logged))}, "
            f"expected {_brief(expected, _MAX_EXPECTED)}"
        )
        self.field = field
        self.logged = logged
        self.expected = expected


class NewerFormat(LineError):
    """The first line of a run that a newer version of the bot wrote."""

    def __str__(self) -> str:
        """Say so; nothing is damaged."""
        return (
            f"it was written by a newer version of the bot (journal_version {self.logged}, this "
            f"one reads {self.expected}); update the bot"
        )


_MAX_EXPECTED: Final = 320


def _brief(text: str, limit: int = 80) -> str:
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def read_lines(path: Path) -> Iterator[RawLine]:
    """Yield the lines of the file at `path`, gzipped or not.

    Where a gzipped file is cut, broken or followed by something else, the lines that are whole
    are followed by one that is not: the rest, as far as it could be unpacked, or as it is.

    Raises:
        NotAJournal: there is no such file, it cannot be read, it is no plain file, or it
            begins with a line that no journal can have.
    """
    try:
        with open_journal(path) as stream:
            end = 0
            number = 0
            is_whole = True
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
                is_torn = not is_whole and len(text) <= MAX_LINE and _rest_of(stream) is None
                yield RawLine(number, text, end, is_whole, is_torn)
            rest = _rest_of(stream)
            if rest is not None and number == 0:
                raise NotAJournal(f"cannot read {path}: it cannot be unpacked")
            if rest is not None and is_whole:
                yield RawLine(number + 1, rest, end + len(rest), is_whole=False)
    except OSError as exc:
        raise _unreadable(path, exc) from exc


def _unreadable(path: Path, error: OSError) -> NotAJournal:
    what = f"{path} is no journal" if isinstance(error, NotPlain) else f"cannot read {path}"
    return NotAJournal(f"{what}: {why(error, path)}")


def _rest_of(stream: io.BufferedReader) -> bytes | None:
    """Return what brought nothing at the end of a gzipped file; None where all of it is whole."""
    raw = stream.raw
    return raw.rest if isinstance(raw, _Unpacked) and not raw.is_whole else None


def _skip_line(stream: io.BufferedReader) -> int:
    """Read to the end of a line; return the bytes that were skipped."""
    skipped = 0
    while text := stream.readline(_BLOCK):
        skipped += len(text)
        if text.endswith(b"\n"):
            break
    return skipped


def open_journal(path: Path) -> io.BufferedReader:
    """Open the plain file at `path` for reading, unpacked where it is gzipped.

    Raises:
        OSError: it cannot be opened, or is no plain file.
    """
    stream = os.fdopen(open_plain(path), "rb")
    if not stream.peek(len(GZIP)).startswith(GZIP):
        return stream
    return io.BufferedReader(_Unpacked(stream), _BLOCK)


def is_compressed(path: Path) -> bool:
    """Tell whether the file at `path` is gzipped, whatever its name says.

    Raises:
        OSError: it cannot be opened, or is no plain file.
    """
    with open_journal(path) as stream:
        return isinstance(stream.raw, _Unpacked)


def _new_unpacker() -> Any:
    """Return what unpacks one member of a gzipped file."""
    return zlib.decompressobj(wbits=31)


class _Unpacked(io.RawIOBase):
    """What a gzipped file holds, up to where it is whole; the standard library's stops there."""

    def __init__(self, packed: BinaryIO) -> None:
        """Begin at the first member of `packed`."""
        self._packed = packed
        self._unpacker = _new_unpacker()
        self._input = b""
        self.rest = b""
        """The bytes at the end of the file that brought nothing: broken, cut off, or no member."""

    @property
    def is_whole(self) -> bool:
        """Whether all that was read is whole, and nothing else follows."""
        return self._unpacker.eof and not self.rest

    def readable(self) -> bool:
        """Tell that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Unpack some bytes into `buffer`; return how many, 0 at the end."""
        while self._find_input():
            taken = self._input
            try:
                held = self._unpacker.decompress(taken, len(buffer))
            except zlib.error:
                self._unpacker = _new_unpacker()
                self._end_with(taken)
                return 0
            self._input = self._unpacker.unconsumed_tail or self._unpacker.unused_data
            self.rest = b"" if held or self._unpacker.eof else self.rest + taken
            if held:
                buffer[: len(held)] = held
                return len(held)
        return 0

    def _find_input(self) -> bool:
        """Get bytes to unpack, of the next member where one is done; tell whether there are any."""
        if self._unpacker.eof:
            self._input = self._input.lstrip(b"\0")  # as gzip has it: what pads a tape
            while len(self._input) < len(GZIP) and (block := self._packed.read(_BLOCK)):
                self._input = (self._input + block).lstrip(b"\0")
            if not self._input.startswith(GZIP):
                self._end_with(self._input)
                return False
            self._unpacker = _new_unpacker()
        self._input = self._input or self._packed.read(_BLOCK)
        return bool(self._input)

    def _end_with(self, rest: bytes) -> None:
        """Take all that is left for the rest, as far as a line may be long."""
        while len(rest) < MAX_LINE and (block := self._packed.read(_BLOCK)):
            rest += block
        self.rest, self._input = rest, b""
        self._packed.seek(0, os.SEEK_END)

    def close(self) -> None:
        """Close the file, too."""
        self._packed.close()
        super().close()


def last_entries(path: Path) -> Iterator[Entry]:
    """Yield the lines of a journal from its last one backwards, as far as they are at hand.

    Nothing is yielded where the file does not end with a whole line of a journal; what follows
    a gzipped one is passed over. The number of a line is not known here, and is 0.

    Raises:
        NotAJournal: the file cannot be read.
    """
    for text in reversed(_last_bytes(path).splitlines(keepends=True)):
        try:
            yield parse_line(RawLine(0, text, 0, text.endswith(b"\n")))
        except LineError:
            return


def is_finished(path: Path) -> bool:
    """Tell whether nothing can come after the last line of the journal at `path`.

    Raises:
        NotAJournal: the file cannot be read.
    """
    last = next(last_entries(path), None)
    return last is not None and isinstance(last.event, RunEnded | RunAbandoned)


def _last_bytes(path: Path) -> bytes:
    try:
        with os.fdopen(open_plain(path), "rb") as stream:
            is_packed = stream.peek(len(GZIP)).startswith(GZIP)
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - TAIL))
            tail = stream.read()
        if not is_packed:
            return tail
        held = _last_member(tail)
        if held:
            return held
        with open_journal(path) as unpacked:
            return _read_to_the_end(unpacked)
    except OSError as exc:
        raise _unreadable(path, exc) from exc


def _last_member(tail: bytes) -> bytes:
    """Return what the last member of a gzipped file holds; empty where it is not in `tail`."""
    for member in reversed([*_MEMBER.finditer(tail)]):
        unpacker = _new_unpacker()
        try:
            held: bytes = unpacker.decompress(tail[member.start() :], TAIL)
        except zlib.error:
            continue
        if unpacker.eof:
            return held
        break  # it is cut off, or longer than this
    return b""


def _read_to_the_end(stream: io.BufferedReader) -> bytes:
    tail = b""
    while block := stream.read1(_BLOCK):
        tail = (tail + block)[-TAIL:]
    return tail


def parse_line(line: RawLine) -> Entry:
    """Understand a line.

    Raises:
        NewerFormat: it is the first line of a run that a newer version of the bot wrote.
        LineError: it is not a line of a journal.
    """
    record = _parse_object(line)
    name = record.get("event")
    kinds = _KINDS.get(name, _HEAD) if isinstance(name, str) else _HEAD
    version = record.get("journal_version")
    if type(version) is int and version > JOURNAL_VERSION:
        raise NewerFormat("journal_version", _brief(str(version)), str(JOURNAL_VERSION))
    for field, (text, types, test) in kinds.items():
        value = record.get(field, _MISSING)
        if type(value) not in types or not test(value):
            raise LineError(field, "missing" if value is _MISSING else value, text)
    if len(record) > len(kinds):
        field = next(field for field in record if field not in kinds)
        raise LineError(field, record[field], "no such field")
    event, _ = FORMAT[record.pop("event")]
    return Entry(line.number, record.pop("seq"), record.pop("ts"), event(**record))


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
    "seq": FieldKind(
        "a line number from 0 to 2^53 - 1",
        frozenset({int}),
        range(MAX_WHOLE + 1).__contains__,
    ),
    "ts": FieldKind("a time such as 2026-11-30T02:41:07.123Z", frozenset({str}), is_time),
    "event": FieldKind("one of " + ", ".join(FORMAT), frozenset({str}), FORMAT.__contains__),
}
"""The fields that every line begins with."""

_KINDS: Final = {name: {**_HEAD, **kinds} for name, (_, kinds) in FORMAT.items()}
"""By the name of an event, all fields of its line."""
_MISSING: Final = object()

_MARKS: Final = {*_HEAD, "journal_version"}


def _parse_object(line: RawLine) -> dict[str, Any]:
    if not line.is_whole:
        raise LineError("line", _shown(line.text), "a whole line with its line end")
    if is_too_deep(line.text, MAX_DEPTH):
        raise LineError("line", _shown(line.text), f"a JSON object of at most {MAX_DEPTH} levels")
    try:
        text = line.text.decode().strip()
        record, end = _decode(text)
        if end == len(text) and isinstance(record, dict):
            return record
    except ValueError:
        pass
    raise LineError("line", _shown(line.text), "a JSON object")


def _shown(text: bytes) -> str:
    return text[:40].decode(errors="replace")


def _read_object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Make a dict; a name that stands twice would show one reader this and another one that."""
    record = dict(pairs)
    if len(record) != len(pairs):
        raise ValueError
    return record


_decode: Final = json.JSONDecoder(
    object_pairs_hook=_read_object, parse_constant=refuse_constant
).raw_decode
