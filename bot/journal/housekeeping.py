"""Making room in the runs folder: old finished runs are removed, or compressed.

A run that can still go on is never touched, nor a file that is no journal.
"""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from bot.errors import JournalError, NotAJournal
from bot.journal.folder import journals, newest, services
from bot.journal.tail import TAIL, is_finished

_BLOCK: Final = 2**20
_LAST: Final = TAIL // 4
"""Bytes at the end of a journal of which the whole lines are compressed apart."""


class Chore(NamedTuple):
    """What is to be done with one journal."""

    path: Path
    size: int
    """In bytes."""
    is_compressing: bool
    """Whether it is compressed instead of removed."""


def plan(runs_dir: Path, keep: int, *, is_compressing: bool) -> list[Chore]:
    """Return what is to be done so that only the newest `keep` finished runs stay as they are.

    A journal that is compressed already is not compressed again. One with a gzipped copy
    beside it counts once, and the copy goes with it. Where a run of its seed was left
    unfinished, the newest one of its service is not removed: the next call would go on with
    the older one.

    Raises:
        JournalError: the folder cannot be read.
    """
    finished = []
    seeds_left = set()
    for run, path in sorted(journals(runs_dir), reverse=True):
        if _is_finished(path):
            finished.append(path)
        else:
            seeds_left.add(run.seed)
    old = finished[keep:]
    if is_compressing:
        files = [path for path in old if path.suffix != ".gz"]
    else:
        is_needed = {
            newest(runs_dir, base_url, seed)
            for base_url, seed in services(runs_dir)
            if seed in seeds_left
        }
        files = [file for path in old if path not in is_needed for file in (path, _packed(path))]
    chores = []
    for path in files:
        with suppress(FileNotFoundError):  # there is no copy, or somebody else did it
            chores.append(Chore(path, path.stat().st_size, is_compressing))
    return chores


def carry_out(chore: Chore) -> None:
    """Do it.

    Raises:
        JournalError: it cannot be done; the journal is as it was.
    """
    try:
        if chore.is_compressing:
            _compress(chore.path)
        else:
            chore.path.unlink()
    except (FileNotFoundError, BlockingIOError):
        return  # somebody else did it, or is at it
    except OSError as exc:
        what = "compress" if chore.is_compressing else "remove"
        raise JournalError(f"cannot {what} {chore.path}: {exc.strerror or exc}") from exc


def _packed(path: Path) -> Path:
    """Return where the gzipped copy of a journal is."""
    return path.with_name(f"{path.name}.gz")


def _is_finished(path: Path) -> bool:
    try:
        return is_finished(path)
    except NotAJournal:
        return False


def _compress(path: Path) -> None:
    """Put a gzipped copy in the place of a journal, once the copy has been read back.

    Its last lines are a member of their own, which any reader of gzip takes for a part of
    the whole; so they can be read without the rest.

    Raises:
        BlockingIOError: another process is at it.
    """
    part = path.with_name(f".{path.name}.gz.part")
    with path.open("rb") as source:
        fcntl.flock(source, fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            with part.open("wb") as target:
                _write_member(target, source, _start_of_tail(source))
                _write_member(target, source, None)
                target.flush()
                os.fsync(target.fileno())
            shutil.copystat(path, part)
            source.seek(0)
            with gzip.open(part) as copy:
                if _digest(source) != _digest(copy):
                    raise OSError(f"the copy {part} is not what was written")
            part.replace(_packed(path))
        finally:
            part.unlink(missing_ok=True)
        path.unlink()


def _start_of_tail(source: Any) -> int:
    """Return where the last lines of a file begin, and go back to its beginning."""
    source.seek(max(0, os.fstat(source.fileno()).st_size - _LAST))
    if source.tell():
        source.readline()
    start: int = source.tell()
    source.seek(0)
    return start


def _write_member(target: Any, source: Any, size: int | None) -> None:
    """Write the next `size` bytes of `source`, or all that are left, as a member of gzip."""
    if size == 0:
        return
    with gzip.GzipFile(fileobj=target, mode="wb", filename="", mtime=0) as member:
        for block in _blocks(source, size):
            member.write(block)


def _blocks(source: Any, size: int | None) -> Iterator[bytes]:
    while block := source.read(_BLOCK if size is None else min(size, _BLOCK)):
        yield block
        size = None if size is None else size - len(block)


def _digest(stream: Any) -> bytes:
    return hashlib.file_digest(stream, hashlib.sha256).digest()
