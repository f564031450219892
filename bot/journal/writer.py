"""Writing a journal: append-only, whole lines, on their way to the disk before we go on."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from os.path import samestat
from pathlib import Path
from typing import Final

import structlog
from structlog.typing import EventDict, WrappedLogger

from bot.errors import JournalError, TryLater
from bot.journal.events import EVENT_NAMES, Event
from bot.journal.files import MODE, open_plain, why
from bot.journal.lock import hold, lacks_locks, no_locks
from bot.journal.reader import MAX_DEPTH, MAX_LINE
from bot.wire.values import is_too_deep

_ENCODE: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


class JournalFile:
    """The append-only file below the log: a line is written whole or not at all."""

    def __init__(self, path: Path, descriptor: int, size: int) -> None:
        """Take an open `descriptor` whose first `size` bytes are whole lines."""
        self.path = path
        self._descriptor = descriptor
        self._size = size

    def write(self, line: bytes) -> None:
        """Append `line`; cut the file back to whole lines where that fails.

        Raises:
            JournalError: the line could not be written, or read back, and is not in the file.
        """
        if len(line.rstrip()) > MAX_LINE or is_too_deep(line, MAX_DEPTH):
            self._drop_if_empty()
            raise JournalError(
                f"cannot write the journal {self.path}: a line of {len(line)} bytes has more than "
                f"{MAX_LINE}, or more than {MAX_DEPTH} levels"
            )
        rest = line
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError as exc:
            with suppress(OSError):  # a disk that went read-only; the next start cuts then
                os.ftruncate(self._descriptor, self._size)
            self._drop_if_empty()
            raise JournalError(f"cannot write the journal {self.path}: {exc.strerror}") from exc
        self._size += len(line)

    def flush(self) -> None:
        """Do nothing: no byte is ever held back here."""

    def sync(self) -> None:
        """Wait until all that was written is on the disk, in the file that people see.

        Raises:
            JournalError: the system cannot say that it is, or somebody else was at the file.
        """
        self.check()
        try:
            sync_data(self._descriptor)
        except OSError as exc:
            raise JournalError(f"cannot sync the journal {self.path}: {exc.strerror}") from exc

    def check(self) -> None:
        """Look whether the file at the journal's path is this one, and as long as it has to be.

        Raises:
            JournalError: it is not, and what happened to it.
        """
        try:
            ours, there = os.fstat(self._descriptor), self.path.lstat()
        except FileNotFoundError:
            what = "was removed"
        except OSError as exc:
            what = f"cannot be looked at ({exc.strerror})"
        else:
            if not samestat(ours, there):
                what = "was replaced by another file"
            elif ours.st_size < self._size:
                what = f"was cut from {self._size} to {ours.st_size} bytes"
            elif ours.st_size > self._size:
                what = f"has {ours.st_size - self._size} bytes that something else wrote"
            else:
                return
        raise JournalError(
            f"the journal {self.path} {what} while it was in use; see that nothing else writes, "
            f"moves or cleans up in the runs folder"
        )

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def discard(self) -> None:
        """Close the file, and remove it where it holds nothing."""
        self._drop_if_empty()
        self.close()

    def _drop_if_empty(self) -> None:
        """Remove a journal in which nothing could be written, unless it is another's by now."""
        if self._size == 0:
            with suppress(JournalError, OSError):
                self.check()
                self.path.unlink()


class _LineLogger(structlog.BoundLoggerBase):
    """A logger of events whose fields stay apart from the line's own until it is numbered."""

    def line(self, event: Event) -> None:
        self._proxy_to_logger("msg", EVENT_NAMES[type(event)], fields=event._asdict())


class Journal:
    """The log of one run, open for writing."""

    def __init__(self, file: JournalFile, next_seq: int, now: Callable[[], datetime]) -> None:
        """Go on at line `next_seq` of `file`; `now` gives the time of each line."""
        self._file = file
        self._now = now
        self.next_seq = next_seq
        self.last_ts = ""
        self._log: _LineLogger = structlog.wrap_logger(
            structlog.BytesLogger(file),  # type: ignore[arg-type]  # it writes and flushes, no more
            processors=[self._number, structlog.processors.JSONRenderer(serializer=_serialize)],
            wrapper_class=_LineLogger,
        ).bind()

    @property
    def path(self) -> Path:
        """Where the journal is."""
        return self._file.path

    def write(self, event: Event) -> None:
        """Append the line of `event`.

        Raises:
            JournalError: it could not be written, and is not in the file.
        """
        self._log.line(event)
        self.next_seq += 1

    def sync(self) -> None:
        """Wait until every line is on the disk."""
        self._file.sync()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _number(self, _: WrappedLogger, __: str, event_dict: EventDict) -> EventDict:
        """Give a line its place and time; what an event holds cannot stand in for either."""
        self.last_ts = format_time(self._now())
        return {
            "seq": self.next_seq,
            "ts": self.last_ts,
            "event": event_dict["event"],
            **event_dict["fields"],
        }


def create(path: Path, now: Callable[[], datetime]) -> Journal:
    """Begin a journal at `path`, which must not exist yet, and lock it.

    Raises:
        JournalError: the file cannot be made, or its disk knows no locks.
        TryLater: another process locked it at once.
    """
    try:
        descriptor = open_plain(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND)
    except OSError as exc:
        raise JournalError(f"cannot make the journal {path}: {why(exc, path)}") from exc
    file = JournalFile(path, descriptor, 0)
    _hold(file, descriptor)
    sync_folder(path.parent)
    return Journal(file, 0, now)


def reopen(
    path: Path, size: int, next_seq: int, now: Callable[[], datetime], cut_bytes: int = 0
) -> Journal:
    """Go on with the journal at `path`, whose first `size` bytes are whole lines; lock it.

    The `cut_bytes` after them, a torn last line, are cut off.

    Raises:
        JournalError: the file cannot be opened or cut, its disk knows no locks, or it is not
            as long any more as it was when it was read.
        TryLater: another bot writes it.
    """
    try:
        descriptor = open_plain(path, os.O_WRONLY | os.O_APPEND)
    except OSError as exc:
        raise JournalError(f"cannot resume the journal {path}: {why(exc, path)}") from exc
    file = JournalFile(path, descriptor, size + cut_bytes)
    _hold(file, descriptor)
    try:
        file.check()
        with suppress(OSError):  # one that an older version made for all to read; some disks know
            os.fchmod(descriptor, MODE)  # no modes
        os.ftruncate(descriptor, size)
    except OSError as exc:
        file.close()
        raise JournalError(f"cannot resume the journal {path}: {exc.strerror}") from exc
    except JournalError:
        file.close()
        raise
    return Journal(JournalFile(path, descriptor, size), next_seq, now)


def _hold(file: JournalFile, descriptor: int) -> None:
    """Lock a journal as long as it is open; close it where that cannot be done."""
    try:
        hold(descriptor)
    except OSError as exc:
        file.discard()
        if isinstance(exc, BlockingIOError):
            raise TryLater(f"another bot writes the journal {file.path}; nothing was sent") from exc
        if lacks_locks(exc):
            raise JournalError(no_locks(file.path.parent)) from exc
        raise JournalError(f"cannot lock the journal {file.path}: {exc.strerror}") from exc


def format_time(moment: datetime) -> str:
    """Write a moment as RFC 3339 in UTC with milliseconds."""
    return f"{moment.astimezone(UTC).isoformat(timespec='milliseconds')[:-6]}Z"


def _serialize(line: EventDict, **_: object) -> bytes:
    """Encode a line as ASCII, so that nothing in it can move a terminal or end the line."""
    try:
        text = _ENCODE(line)
    except ValueError:
        text = _ENCODE(finite(line))
    return text.encode()


def finite(value: object) -> object:
    """Return `value` with numbers that JSON cannot hold (`1e999`, from a service) as texts."""
    if isinstance(value, dict):
        return {key: finite(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [finite(inner) for inner in value]
    return repr(value) if isinstance(value, float) and value in (_INFINITY, -_INFINITY) else value


_INFINITY: Final = float("inf")


def sync_data(descriptor: int) -> None:
    """Put what was written to an open file on its disk; a disk that knows no syncing goes without.

    Raises:
        OSError: the disk knows how, and could not.
    """
    for sync in (os.fdatasync, os.fsync):
        try:
            return sync(descriptor)
        except OSError as exc:
            if exc.errno not in _NO_SYNCING:
                raise
    return None


_NO_SYNCING: Final = {errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP}


def sync_folder(folder: Path) -> None:
    """Put the names in a folder on the disk, where the disk can do that."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
