"""The last lines of a journal, without reading all that comes before them."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bot.errors import NotAJournal
from bot.journal.events import RunAbandoned, RunEnded
from bot.journal.reader import GZIP, Entry, LineError, RawLine, open_journal, parse_line

if TYPE_CHECKING:
    from gzip import GzipFile

TAIL: Final = 2**16
"""Bytes at the end of a file that are looked at."""
_BLOCK: Final = 2**20
_MEMBER: Final = re.compile(re.escape(GZIP))


def last_entries(path: Path) -> Iterator[Entry]:
    """Yield the lines of a journal from its last one backwards, as far as they are at hand.

    Nothing is yielded where the file does not end with a whole line of a journal. The
    number of a line is not known here, and is 0.

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
        with open_journal(path) as unpacked, path.open("rb") as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - TAIL))
            tail = stream.read()
            if isinstance(unpacked, BufferedReader):
                return tail
            return _last_member(tail) or _read_to_the_end(unpacked)
    except (OSError, EOFError, zlib.error) as exc:
        raise NotAJournal(f"cannot read {path}: {getattr(exc, 'strerror', None) or exc}") from exc


def _last_member(tail: bytes) -> bytes:
    """Return what the last member of a gzipped file holds; empty where it is not in `tail`."""
    for member in reversed([*_MEMBER.finditer(tail)]):
        unpacker = zlib.decompressobj(wbits=31)
        try:
            held = unpacker.decompress(tail[member.start() :], TAIL)
        except zlib.error:
            continue
        if unpacker.eof and not unpacker.unused_data:
            return held
    return b""


def _read_to_the_end(stream: GzipFile) -> bytes:
    tail = b""
    while block := stream.read(_BLOCK):
        tail = (tail + block)[-TAIL:]
    return tail
