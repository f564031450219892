"""Making room in the runs folder: old finished runs are removed, or compressed.

A run that can still go on is never touched, nor a file that is no journal.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from bot.errors import JournalError
from bot.journal.files import open_plain, why
from bot.journal.folder import is_surely_finished, journals, newest, services
from bot.journal.lock import hold, lacks_locks
from bot.journal.reader import TAIL
from bot.journal.writer import sync_data, sync_folder

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


class Plan(NamedTuple):
    """What is to be done in a runs folder."""

    chores: list[Chore]
    kept: dict[Path, str]
    """Journals that stay though they are old enough, and why."""


def plan(runs_dir: Path, keep: int, *, is_compressing: bool, now: datetime | None = None) -> Plan:
    """Return what is to be done so that only the newest `keep` finished runs stay as they are.

    A journal that is compressed already is not compressed again. One with a gzipped copy
    beside it counts once, and the copy goes with it. Where a run of its seed was left
    unfinished, the newest one of its service is not removed: the next call would resume the
    older one.

    Args:
        runs_dir: the folder.
        keep: how many finished runs stay.
        is_compressing: whether the others are compressed instead of removed.
        now: the time, by which `newest` goes; the clock's if None.

    Raises:
        JournalError: the folder cannot be read.
    """
    finished = []
    unfinished: dict[int, Path] = {}
    for run, path in sorted(journals(runs_dir), reverse=True):
        if is_surely_finished(path):
            finished.append(path)
        else:
            unfinished.setdefault(run.seed, path)
    old = finished[keep:]
    kept: dict[Path, str] = {}
    if is_compressing:
        files = [path for path in old if path.suffix != ".gz"]
    else:
        for base_url, seed in services(runs_dir):
            last = newest(runs_dir, base_url, seed, now) if seed in unfinished else None
            if last in old:
                kept[last] = (
                    f"the older run {unfinished[seed]} is unfinished, and would be resumed if "
                    f"this one were gone"
                )
        files = [file for path in old if path not in kept for file in (path, _packed(path))]
    chores = []
    for path in files:
        with suppress(FileNotFoundError):  # there is no copy, or somebody else did it
            status = path.lstat()
            if stat.S_ISREG(status.st_mode):
                chores.append(Chore(path, status.st_size, is_compressing))
    return Plan(chores, kept)


def carry_out(chore: Chore) -> str | None:
    """Do it; return why it was skipped, None where it was done.

    Raises:
        JournalError: it cannot be done; the journal is as it was.
    """
    what = "compress" if chore.is_compressing else "remove"
    try:
        with _held(chore.path) as source:
            if chore.is_compressing:
                _compress(chore.path, source)
            chore.path.unlink()
    except FileNotFoundError:
        return "it is gone"
    except BlockingIOError:
        return "another process is at it"
    except OSError as exc:
        raise JournalError(f"cannot {what} {chore.path}: {why(exc, chore.path)}") from exc
    return None


@contextmanager
def _held(path: Path) -> Iterator[BinaryIO]:
    """Open a journal and keep its lock, so that nobody writes it and nobody else packs it.

    Raises:
        FileNotFoundError: it is gone, or another file is in its place.
        BlockingIOError: somebody else has its lock.
        OSError: it cannot be opened or locked.
    """
    with os.fdopen(open_plain(path, os.O_RDWR), "rb") as source:
        try:
            hold(source.fileno())
        except OSError as exc:
            if not lacks_locks(exc):  # where nothing can be locked, no bot can play
                raise
        if not os.path.samestat(path.lstat(), os.fstat(source.fileno())):
            raise FileNotFoundError
        yield source


def _packed(path: Path) -> Path:
    """Return where the gzipped copy of a journal is."""
    return path.with_name(f"{path.name}.gz")


def _compress(path: Path, source: BinaryIO) -> None:
    """Put a gzipped copy beside a journal, once the copy has been read back.

    It is made under a name that nobody can guess, so that it is never written through a link
    that was put there. Its last lines are a member of their own, which any reader of gzip takes
    for a part of the whole; so they can be read without the rest.
    """
    _remove_parts(path)
    part = path.with_name(f".{path.name}.gz.{secrets.token_hex()}.part")
    try:
        descriptor = open_plain(part, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        with os.fdopen(descriptor, "w+b") as target:
            _write_member(target, source, _start_of_tail(source))
            _write_member(target, source, None)
            target.flush()
            _copy_times(source, target)
            sync_data(target.fileno())
            source.seek(0)
            target.seek(0)
            with gzip.open(target) as copy:
                if _digest(source) != _digest(copy):
                    raise OSError(f"the copy {part} is not what was written")
        part.replace(_packed(path))
        sync_folder(path.parent)
    finally:
        part.unlink(missing_ok=True)


def _remove_parts(path: Path) -> None:
    """Remove what one left who was killed in the middle of compressing this journal."""
    for left in path.parent.iterdir():
        if left.name.startswith(f".{path.name}.gz.") and left.name.endswith(".part"):
            left.unlink(missing_ok=True)


def _copy_times(source: BinaryIO, target: BinaryIO) -> None:
    """Make a copy as old as its source, where the disk can do that."""
    status = os.fstat(source.fileno())
    with suppress(OSError):
        os.utime(target.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))


def _start_of_tail(source: BinaryIO) -> int:
    """Return where the last lines of a file begin, and go back to its beginning."""
    source.seek(max(0, os.fstat(source.fileno()).st_size - _LAST))
    if source.tell():
        source.readline()
    start = source.tell()
    source.seek(0)
    return start


def _write_member(target: BinaryIO, source: BinaryIO, size: int | None) -> None:
    """Write the next `size` bytes of `source`, or all that are left, as a member of gzip."""
    if size == 0:
        return
    with gzip.GzipFile(fileobj=target, mode="wb", mtime=0) as member:
        for block in _blocks(source, size):
            member.write(block)


def _blocks(source: BinaryIO, size: int | None) -> Iterator[bytes]:
    while block := source.read(_BLOCK if size is None else min(size, _BLOCK)):
        yield block
        size = None if size is None else size - len(block)


def _digest(stream: Any) -> bytes:
    return hashlib.file_digest(stream, hashlib.sha256).digest()
