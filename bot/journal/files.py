"""Plain files: opened without following a link and without waiting for anybody, or put in place.

Others can reach the folder that journals lie in, so what stands under a name need not be what
was put there.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

MODE: Final = 0o600
"""Of a file that is made: for its owner alone."""

_KINDS: Final = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a link",
    stat.S_IFSOCK: "a socket",
}


class NotPlain(OSError):
    """What stands under a name is no plain file; `strerror` says what it is."""


def open_plain(path: Path, flags: int = os.O_RDONLY) -> int:
    """Open the plain file at `path`; return its descriptor. It is made 0600 with `O_CREAT`.

    A pipe or a device is looked at before it is opened, since that alone can wait or set
    something off, and what was opened is looked at again, since it can have been exchanged.

    Raises:
        NotPlain: it is a FIFO, a device, a folder, a socket, or a link.
        OSError: it cannot be opened.
    """
    try:
        with suppress(FileNotFoundError):  # it is to be made, or else opening it says so
            _check_kind(path, path.lstat().st_mode)
        descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW, MODE)
    except ValueError as exc:  # a NUL, or what the system's encoding does not know
        raise OSError(errno.EINVAL, "not a name that a file can have", str(path)) from exc
    try:
        _check_kind(path, os.fstat(descriptor).st_mode)
    except NotPlain:
        os.close(descriptor)
        raise
    return descriptor


def put_in_place(path: Path, content: bytes, mode: int | None = None) -> None:
    """Put a file at `path`, whole or not at all, in place of the plain one that may be there.

    Args:
        path: where; a link is not followed.
        content: of the file.
        mode: of the file; None for what the process gives new files.

    Raises:
        NotPlain: what is there is no plain file, and would be lost.
        OSError: it cannot be written.
    """
    with suppress(FileNotFoundError):
        _check_kind(path, path.lstat().st_mode)
    beside = path.with_name(f".{secrets.token_hex()}.part")
    try:
        with beside.open("xb") as file:
            file.write(content)
            if mode is not None:
                with suppress(OSError):  # a disk that knows no modes
                    os.fchmod(file.fileno(), mode)
        beside.replace(path)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise


def _check_kind(path: Path, mode: int) -> None:
    """Raise `NotPlain` unless `mode` is that of a plain file."""
    if not stat.S_ISREG(mode):
        kind = _KINDS[stat.S_IFMT(mode)]
        raise NotPlain(errno.EINVAL, f"{kind}, not a plain file", str(path))


def why(error: OSError, path: Path) -> str:
    """Say why the system refused `path`, and what to do where it is somebody else's."""
    reason = error.strerror or str(error)
    if isinstance(error, PermissionError):
        for place in (path, path.parent):
            try:
                owner = place.lstat().st_uid
            except OSError:
                continue
            if owner != os.geteuid():
                return (
                    f"{reason}. {place} belongs to another user (uid {owner}): give it back with "
                    f"chown, or choose another folder with --runs-dir"
                )
    return reason
