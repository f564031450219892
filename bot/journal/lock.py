"""One bot at a time for each runs folder, service and seed."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from bot.errors import JournalError, TryLater
from bot.journal.folder import newest

PATIENCE_S: Final = 0.25
"""How long a lock is asked for: `is_locked` of another process may hold it for a moment."""

_NO_LOCKS: Final = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP}
"""How a disk says that it knows no locks."""


def lock_path(runs_dir: Path, base_url: str, seed: int) -> Path:
    """Return the lock file of the runs of one service and seed."""
    service = hashlib.sha256(base_url.encode()).hexdigest()[:8]
    return runs_dir / f".seed{seed}-{service}.lock"


def lock(runs_dir: Path, base_url: str, seed: int) -> AbstractContextManager[object]:
    """Take the lock of this service and seed, for a `with` to hold; make the folder.

    The system drops the lock when its process ends, however it ends.

    Raises:
        TryLater: another bot has it.
        JournalError: the folder cannot be made or written, or its disk knows no locks.
    """
    path = lock_path(runs_dir, base_url, seed)
    try:
        runs_dir.mkdir(parents=True, exist_ok=True)
        held = FileLock(path, timeout=PATIENCE_S, fallback_to_soft=False)
        return held.acquire()
    except Timeout:
        raise TryLater(
            f"another bot plays seed {seed} on {base_url} in {runs_dir}; nothing was sent"
        ) from None
    except OSError as exc:
        if exc.errno in _NO_LOCKS:
            raise JournalError(
                f"the disk of the runs folder {runs_dir} has no file locks; "
                f"choose a folder on a local disk with --runs-dir"
            ) from exc
        what = (
            f"the lock file {path}" if os.path.lexists(path) else f"in the runs folder {runs_dir}"
        )
        raise JournalError(f"cannot write {what}: {exc.strerror}") from exc


def is_locked(runs_dir: Path, base_url: str, seed: int) -> bool:
    """Tell whether a bot plays this service and seed now, also where only reading is allowed."""
    try:
        descriptor = os.open(lock_path(runs_dir, base_url, seed), os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as exc:
        return isinstance(exc, BlockingIOError)
    finally:
        os.close(descriptor)
    return False


def is_played(path: Path, base_url: str, seed: int) -> bool:
    """Tell whether a bot plays the run of this service and seed whose journal is at `path`."""
    folder = path.parent
    return is_locked(folder, base_url, seed) and newest(folder, base_url, seed) == path
