"""Writing a journal: append-only, whole lines, on their way to the disk before we go on."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import structlog
from structlog.typing import EventDict, WrappedLogger

from bot.errors import JournalError
from bot.journal.events import EVENT_NAMES, Event

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
            JournalError: the line could not be written, and is not in the file.
        """
        rest = line
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError as exc:
            with suppress(OSError):  # a disk that went read-only; the next start cuts then
                os.ftruncate(self._descriptor, self._size)
            raise JournalError(f"cannot write the journal {self.path}: {exc.strerror}") from exc
        self._size += len(line)

    def flush(self) -> None:
        """Do nothing: no byte is ever held back here."""

    def sync(self) -> None:
        """Wait until all that was written is on the disk.

        Raises:
            JournalError: the system cannot say that it is.
        """
        try:
            os.fdatasync(self._descriptor)
        except OSError as exc:
            if exc.errno != errno.EINVAL:  # a file system that knows no syncing
                raise JournalError(f"cannot sync the journal {self.path}: {exc.strerror}") from exc

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


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
    """Begin a journal at `path`, which must not exist yet.

    Raises:
        JournalError: the file cannot be made.
    """
    try:
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND
        descriptor = os.open(path, flags, 0o644)
        _sync_folder(path.parent)
    except OSError as exc:
        raise JournalError(f"cannot make the journal {path}: {exc.strerror}") from exc
    return Journal(JournalFile(path, descriptor, 0), 0, now)


def reopen(path: Path, size: int, next_seq: int, now: Callable[[], datetime]) -> Journal:
    """Go on with the journal at `path`, whose first `size` bytes are whole lines.

    Whatever stands after them, a torn last line, is cut off.

    Raises:
        JournalError: the file cannot be opened or cut.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
        os.ftruncate(descriptor, size)
    except OSError as exc:
        raise JournalError(f"cannot go on with the journal {path}: {exc.strerror}") from exc
    return Journal(JournalFile(path, descriptor, size), next_seq, now)


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


def _sync_folder(folder: Path) -> None:
    """Put a new file's name on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as exc:
        if exc.errno != errno.EINVAL:
            raise
    finally:
        os.close(descriptor)
