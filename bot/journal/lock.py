"""One writer: a lock file for each runs folder, service and seed, and the journal's own lock."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import time
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from bot.errors import JournalError, TryLater
from bot.journal.files import MODE, open_plain, why

PATIENCE_S: Final = 0.25
"""How long a lock is asked for: who looks at a run may hold it for a moment."""
_PAUSE_S: Final = 0.05

_NO_LOCKS: Final = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP}
"""How a disk says that it knows no locks."""


def lock_path(runs_dir: Path, base_url: str, seed: int) -> Path:
    """Return the lock file of the runs of one service and seed."""
    return runs_dir / f".seed{seed}-{service_mark(base_url)}.lock"


def service_mark(base_url: str) -> str:
    """Return what stands for a service in the name of a file."""
    return hashlib.sha256(base_url.encode()).hexdigest()[:8]


def lock(runs_dir: Path, base_url: str, seed: int) -> AbstractContextManager[object]:
    """Take the lock of this service and seed, for a `with` to hold; make the folder.

    The system drops the lock when its process ends, however it ends.

    Raises:
        TryLater: another bot has it.
        JournalError: the folder cannot be made or written, its disk knows no locks, or the
            lock file is no plain file.
    """
    path = lock_path(runs_dir, base_url, seed)
    try:
        runs_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        _make_private(path)
        return FileLock(path, timeout=PATIENCE_S, mode=MODE, fallback_to_soft=False).acquire()
    except Timeout:
        raise TryLater(
            f"another bot plays seed {seed} on {base_url} in {runs_dir}; nothing was sent"
        ) from None
    except OSError as exc:
        if lacks_locks(exc):
            raise JournalError(no_locks(runs_dir)) from exc
        what = (
            f"the lock file {path}" if os.path.lexists(path) else f"in the runs folder {runs_dir}"
        )
        raise JournalError(f"cannot write {what}: {why(exc, path)}") from exc


def _make_private(path: Path) -> None:
    """Make a lock file that only its owner can open, or make one that is there so."""
    descriptor = open_plain(path, os.O_RDWR | os.O_CREAT)
    try:
        with suppress(OSError):  # a disk without modes
            os.fchmod(descriptor, MODE)
    finally:
        os.close(descriptor)


def hold(descriptor: int) -> None:
    """Lock an open file for this process alone, until it is closed.

    Raises:
        BlockingIOError: another process holds it, and goes on doing so.
        OSError: it cannot be locked; `lacks_locks` tells whether nothing can be there.
    """
    for _ in range(round(PATIENCE_S / _PAUSE_S)):
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(_PAUSE_S)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def lacks_locks(error: OSError) -> bool:
    """Tell whether an error of `hold` says that the disk knows no locks at all."""
    return error.errno in _NO_LOCKS


def no_locks(folder: Path) -> str:
    """Say that nothing in `folder` can be locked."""
    return (
        f"the disk of the runs folder {folder} has no file locks; "
        f"choose a folder on a local disk with --runs-dir"
    )


def is_played(path: Path) -> bool:
    """Tell whether a bot writes the journal at `path` now, also where only reading is allowed.

    The journal itself is asked, for a moment and together with anybody else who asks.
    """
    try:
        descriptor = open_plain(path)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as exc:
        return isinstance(exc, BlockingIOError)
    finally:
        os.close(descriptor)
    return False
