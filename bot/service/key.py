"""The key that signs the tokens of local runs. It is kept in their runs folder.

A run whose key is lost cannot go on, so a key is never made where a run waits for another one,
and never taken from a file that is not as one of ours: `choose_key` decides. Which runs wait
is for the caller to know.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from bot.errors import JournalError
from bot.journal.files import open_plain
from bot.journal.writer import sync_data, sync_folder

KEY_FILE: Final = ".local-key"
"""Name of the key in a runs folder."""
_SIZE: Final = 64
"""Characters of a key: 32 random bytes in hexadecimal."""
_FORM: Final = re.compile(rb"[0-9a-f]{%d}" % _SIZE)
_WAY_OUT: Final = "put the right key back, or remove it and start a new run with --fresh"


def choose_key(
    runs_dir: Path, waiting: Iterable[str], *, is_fresh: bool, tell: Callable[[str], None]
) -> bytes:
    """Return the key of the runs folder; make one where no run is left without its own.

    Args:
        runs_dir: the runs folder, which is made where there is none.
        waiting: names of the unfinished local runs in it; looked at only where there is no key.
        is_fresh: whether these runs may be left for good.
        tell: is told which ones are.

    Raises:
        JournalError: the key is missing and runs wait for it, is none, or cannot be made.
    """
    key = load_key(runs_dir)
    if key is not None:
        return key
    lost = sorted(waiting)
    key = load_key(runs_dir)  # again: these runs may be of a bot that has just made it
    if key is not None:
        return key
    names = ", ".join(lost[:3]) + (f" and {len(lost) - 3} more" if len(lost) > 3 else "")
    if lost and not is_fresh:
        raise JournalError(
            f"the local service's key {runs_dir / KEY_FILE} is missing, and without it "
            f"{names} cannot be resumed: put it back, or start a new run with --fresh"
        )
    if lost:
        tell(
            f"the local service's key was missing, so a new one was made; "
            f"{names} cannot be resumed any more"
        )
    return make_key(runs_dir)


def foreign_key(runs_dir: Path, run_id: str) -> JournalError:
    """Return the error that the key of the folder is not the one that signed a run's token."""
    return JournalError(
        f"the local service's key {runs_dir / KEY_FILE} is not the one that {run_id} began with: "
        f"put that one back, or start a new run with --fresh"
    )


def load_key(runs_dir: Path) -> bytes | None:
    """Return the key in the runs folder, None where there is none.

    Raises:
        JournalError: what is there under its name is no key of ours, or cannot be read.
    """
    path = runs_dir / KEY_FILE
    try:
        with os.fdopen(open_plain(path), "rb") as file:
            owner = os.fstat(file.fileno()).st_uid
            key = file.read(_SIZE + 1)
    except FileNotFoundError:
        return None
    except NotADirectoryError as exc:
        raise JournalError(
            f"cannot keep the local service's key {path}: {runs_dir} is no folder; "
            f"--runs-dir names another one"
        ) from exc
    except OSError as exc:
        why = f"cannot be read: {exc.strerror}"
        raise JournalError(f"the local service's key {path} {why}; {_WAY_OUT}") from exc
    if owner != os.geteuid():
        why = f"belongs to another user (uid {owner})"
    elif not _FORM.fullmatch(key):
        why = "is empty" if not key else f"is not the {_SIZE} characters of a key"
    else:
        return key
    raise JournalError(f"the local service's key {path} {why}; {_WAY_OUT}")


def make_key(runs_dir: Path) -> bytes:
    """Make a key in the runs folder; return it, or that of the process which was faster.

    Raises:
        JournalError: it cannot be made, or not be read back.
    """
    path = runs_dir / KEY_FILE
    fresh = path.with_name(f"{KEY_FILE}.{secrets.token_hex(16)}")
    try:
        runs_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write(fresh, secrets.token_hex(_SIZE // 2).encode())
        try:
            _name(fresh, path)
        finally:
            fresh.unlink()
        sync_folder(runs_dir)
    except OSError as exc:
        raise JournalError(
            f"cannot keep the local service's key {path}: {exc.strerror}; "
            f"--runs-dir names another folder"
        ) from exc
    key = load_key(runs_dir)
    if key is None:
        raise JournalError(f"the local service's key {path} was removed as soon as it was made")
    return key


def _write(path: Path, key: bytes) -> None:
    """Write a new file, to the disk; leave none where that fails."""
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(key)
            file.flush()
            sync_data(descriptor)
    except BaseException:
        path.unlink()
        raise


def _name(fresh: Path, path: Path) -> None:
    """Give a finished key its name, unless another one has it already."""
    with suppress(FileExistsError):  # the first of two processes wins
        try:
            os.link(fresh, path)
        except FileExistsError:
            raise
        except OSError:  # a disk without hard links, each kind with an error of its own
            _write(path, fresh.read_bytes())
