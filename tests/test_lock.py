"""One writer: the lock file, the journal's own lock, and who only looks."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NoReturn

import pytest
from calls import told
from filelock import FileLock
from harness import (
    PATIENCE_S,
    bot_process,
    environment,
    only_journal,
    run_bot,
    started,
    wait_for_line,
    write_journal,
)
from test_journal import EXAMPLES, NOON

from bot.errors import JournalError, TryLater
from bot.journal import files, writer
from bot.journal import lock as locks
from bot.journal.lock import is_played, lock, lock_path

RUN: Final = "20261130T024107Z-seed7-00ff"


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask for a lock just once."""
    monkeypatch.setattr(locks, "PATIENCE_S", 0)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# The lock file


@pytest.mark.usefixtures("_impatient")
def test_a_lock_keeps_a_second_one_out_and_is_dropped_at_its_end(tmp_path: Path) -> None:
    with lock(tmp_path, "http://a", 7):
        with pytest.raises(TryLater) as caught:
            lock(tmp_path, "http://a", 7)
        assert str(caught.value) == (
            f"another bot plays seed 7 on http://a in {tmp_path}; nothing was sent"
        )
    with lock(tmp_path, "http://a", 7):
        pass


@pytest.mark.usefixtures("_impatient")
@pytest.mark.parametrize(
    ("base_url", "seed"),
    [pytest.param("http://b", 7, id="service"), pytest.param("http://a", 8, id="seed")],
)
def test_another_service_or_seed_has_a_lock_of_its_own(
    base_url: str, seed: int, tmp_path: Path
) -> None:
    with lock(tmp_path, "http://a", 7), lock(tmp_path, base_url, seed):
        pass


def test_a_lock_file_is_named_by_the_seed_and_the_service_and_is_hidden(tmp_path: Path) -> None:
    assert lock_path(tmp_path, "http://a", 7) == tmp_path / ".seed7-54df484b.lock"


def test_a_lock_that_is_looked_at_for_a_moment_is_had_all_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    descriptor = os.open(lock_path(tmp_path, "http://a", 7), os.O_CREAT | os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    monkeypatch.setattr(time, "sleep", lambda _: os.close(descriptor))
    with lock(tmp_path, "http://a", 7):
        pass


def test_a_lock_makes_the_folder_for_its_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        with lock(tmp_path / "a" / "b", "http://a", 7):
            assert mode_of(lock_path(tmp_path / "a" / "b", "http://a", 7)) == 0o600
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "a" / "b") == 0o700


def test_a_folder_that_is_there_keeps_its_mode_and_an_old_lock_file_gets_its_own(
    tmp_path: Path,
) -> None:
    tmp_path.chmod(0o755)
    path = lock_path(tmp_path, "http://a", 7)
    path.touch()
    path.chmod(0o644)
    with lock(tmp_path, "http://a", 7):
        pass
    assert (mode_of(tmp_path), mode_of(path)) == (0o755, 0o600)


def test_a_lock_file_that_is_removed_at_once_is_made_again_for_its_owner_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(locks, "_make_private", lambda _: None)
    before = os.umask(0)
    try:
        with lock(tmp_path, "http://a", 7):
            assert mode_of(lock_path(tmp_path, "http://a", 7)) == 0o600
    finally:
        os.umask(before)


def test_a_disk_without_modes_does_not_stop_the_game(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fchmod(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "fchmod", fchmod)
    with lock(tmp_path, "http://a", 7):
        pass


def put_device(path: Path) -> None:
    path.symlink_to("/dev/null")


def put_circle(path: Path) -> None:
    path.symlink_to(path)


@pytest.mark.parametrize(
    ("put", "kind"),
    [
        (os.mkfifo, "a FIFO"),
        (Path.mkdir, "a folder"),
        (put_device, "a link"),
        (put_circle, "a link"),
    ],
    ids=["fifo", "folder", "device", "circle"],
)
def test_a_lock_file_that_is_no_plain_file_is_refused_by_its_kind(
    put: Callable[[Path], None], kind: str, tmp_path: Path
) -> None:
    path = lock_path(tmp_path, "http://a", 7)
    put(path)
    with told(JournalError, f"cannot write the lock file {path}: {kind}, not a plain file"):
        lock(tmp_path, "http://a", 7)


@pytest.mark.parametrize("lib", ["acquire", "open"])
def test_a_lock_file_of_somebody_else_is_named_with_the_way_out(
    lib: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with lock(tmp_path, "http://a", 7):
        pass

    def refuse(*_: object) -> NoReturn:
        raise PermissionError(errno.EACCES, "Permission denied")

    if lib == "acquire":
        monkeypatch.setattr(FileLock, "acquire", refuse)
    else:
        monkeypatch.setattr(locks, "open_plain", refuse)
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    path = lock_path(tmp_path, "http://a", 7)
    with told(
        JournalError,
        f"cannot write the lock file {path}: Permission denied. {path} belongs to another user "
        f"(uid {os.getuid()}): give it back with chown, or choose another folder with --runs-dir",
    ):
        lock(tmp_path, "http://a", 7)


def test_a_folder_of_somebody_else_is_named_where_the_file_cannot_be_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    said = files.why(PermissionError(errno.EACCES, "Permission denied"), tmp_path / "missing")
    assert said.startswith(f"Permission denied. {tmp_path} belongs to another user (uid ")


def test_what_is_ours_and_cannot_be_written_is_nobody_elses(tmp_path: Path) -> None:
    error = PermissionError(errno.EACCES, "Permission denied")
    assert files.why(error, tmp_path / "missing") == "Permission denied"


@pytest.mark.parametrize("place", ["file", "file/below", "/proc/runs", "/dev/null"])
def test_a_folder_that_cannot_be_used_is_an_error_of_the_journal(
    place: str, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(JournalError) as caught:
        lock(tmp_path / place, "http://a", 7)
    said, _, reason = str(caught.value).rpartition(": ")
    assert said == f"cannot write in the runs folder {tmp_path / place}"
    assert reason in ("File exists", "Not a directory", "No such file or directory")


NO_LOCKS: Final = pytest.mark.parametrize(
    "number",
    [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP],
    ids=["no such call", "no locks", "not supported"],
)


def refuse_locks(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def flock(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", flock)


@NO_LOCKS
@pytest.mark.filterwarnings("default")
def test_a_disk_without_locks_is_named_as_such(
    number: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    refuse_locks(monkeypatch, number)
    with told(
        JournalError,
        f"the disk of the runs folder {tmp_path} has no file locks; "
        f"choose a folder on a local disk with --runs-dir",
    ):
        lock(tmp_path, "http://a", 7)


# The journal's own lock


@pytest.mark.usefixtures("_impatient")
def test_a_journal_is_locked_as_long_as_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "j"
    created = writer.create(path, lambda: NOON)
    created.write(EXAMPLES["run.started"])
    size = path.stat().st_size
    with told(TryLater, f"another bot writes the journal {path}; nothing was sent"):
        writer.reopen(path, size, 1, lambda: NOON)
    assert is_played(path)
    created.close()
    assert not is_played(path)
    reopened = writer.reopen(path, size, 1, lambda: NOON)
    with pytest.raises(TryLater):
        writer.reopen(path, size, 1, lambda: NOON)
    assert is_played(path)
    reopened.close()
    assert path.stat().st_size == size


def test_the_lock_of_a_process_that_is_killed_is_free(tmp_path: Path) -> None:
    path = write_journal(tmp_path, RUN, [started(RUN)])
    hold = f"""
import sys, pathlib
from bot.journal import writer
journal = writer.reopen(pathlib.Path({str(path)!r}), {path.stat().st_size}, 1, None)
print("held", flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", hold],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        assert is_played(path)
        process.kill()
    assert not is_played(path)


def test_who_looks_at_a_journal_for_a_moment_does_not_keep_its_writer_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = write_journal(tmp_path, RUN, [started(RUN)])
    descriptor = os.open(path, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_SH)

    def release(after_s: float) -> None:
        assert after_s > 0
        os.close(descriptor)

    monkeypatch.setattr(time, "sleep", release)
    writer.reopen(path, path.stat().st_size, 1, lambda: NOON).close()


def test_two_who_look_at_a_journal_do_not_take_each_other_for_a_bot(tmp_path: Path) -> None:
    path = write_journal(tmp_path, RUN, [started(RUN)])
    with path.open() as other:
        fcntl.flock(other, fcntl.LOCK_SH)
        assert not is_played(path)


def test_looking_needs_no_right_to_write(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = write_journal(tmp_path, RUN, [started(RUN)])
    journal = writer.reopen(path, path.stat().st_size, 1, lambda: NOON)
    may_open = os.open

    def open_to_read(path: Path, flags: int, mode: int = 0o777) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR):
            raise PermissionError(errno.EACCES, "Permission denied")
        return may_open(path, flags, mode)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", open_to_read)
        assert is_played(path)
    journal.close()


def test_looking_makes_nothing_and_follows_nothing(tmp_path: Path) -> None:
    path = tmp_path / "j"
    assert not is_played(path)
    assert list(tmp_path.iterdir()) == []
    journal = writer.create(tmp_path / "target", lambda: NOON)
    path.symlink_to("target")
    assert not is_played(path)
    journal.close()


def test_a_journal_that_cannot_be_asked_is_written_by_nobody(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = write_journal(tmp_path, RUN, [started(RUN)])
    refuse_locks(monkeypatch, errno.EIO)
    assert not is_played(path)


@NO_LOCKS
def test_a_journal_that_cannot_be_locked_is_not_begun_and_not_gone_on_with(
    number: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = write_journal(tmp_path, RUN, [started(RUN)])
    before = path.read_bytes()
    refuse_locks(monkeypatch, number)
    text = (
        f"the disk of the runs folder {tmp_path} has no file locks; "
        f"choose a folder on a local disk with --runs-dir"
    )
    with told(JournalError, text):
        writer.create(tmp_path / "new", lambda: NOON)
    with told(JournalError, text):
        writer.reopen(path, len(before), 1, lambda: NOON)
    assert [*tmp_path.iterdir()] == [path]
    assert path.read_bytes() == before


def test_a_lock_that_fails_is_an_error_of_the_journal(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    refuse_locks(monkeypatch, errno.EIO)
    with told(JournalError, f"cannot lock the journal {tmp_path / 'j'}: Input/output error"):
        writer.create(tmp_path / "j", lambda: NOON)
    assert list(tmp_path.iterdir()) == []


# Two processes, and whatever else is at work on the machine

PLAY: Final = ("--local", "--max-rps", "500", "--bank-at", "1000000")


def test_a_bot_whose_lock_file_is_taken_away_is_not_joined_and_plays_on(tmp_path: Path) -> None:
    runs_dir = tmp_path / "runs"
    with bot_process(tmp_path, *PLAY, "--runs-dir", str(runs_dir)) as bot:
        wait_for_line(bot, "playing")
        journal = only_journal(runs_dir)
        for lock_file in runs_dir.glob(".*.lock"):
            lock_file.unlink()
            lock_file.touch()
        assert run_bot(tmp_path, *PLAY, "--runs-dir", str(runs_dir)).returncode == 75
        assert only_journal(runs_dir) == journal
        bot.terminate()
        assert bot.wait(PATIENCE_S) == 143
    assert run_bot(tmp_path, "replay", str(journal)).returncode == 0


def remove(path: Path) -> None:
    path.unlink()


def remove_the_folder(path: Path) -> None:
    path.unlink()
    for other in path.parent.iterdir():
        other.unlink()
    path.parent.rmdir()


def cut_to_nothing(path: Path) -> None:
    os.truncate(path, 0)


def pack(path: Path) -> None:
    subprocess.run(["gzip", path], check=True)


def edit(path: Path) -> None:
    subprocess.run(["sed", "-i", "s/run/walk/", path], check=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("happen", "said"),
    [
        (remove, "was removed"),
        (remove_the_folder, "was removed"),
        (cut_to_nothing, "was cut from "),
        (pack, "was removed"),
        (edit, "was replaced by another file"),
    ],
)
def test_what_happens_to_the_journal_of_a_bot_that_plays_ends_it_at_the_next_sync(
    happen: Callable[[Path], None], said: str, tmp_path: Path
) -> None:
    runs_dir = tmp_path / "runs"
    with bot_process(tmp_path, *PLAY, "--runs-dir", str(runs_dir)) as bot:
        wait_for_line(bot, "playing")
        path = only_journal(runs_dir)
        happen(path)
        wait_for_line(bot, f"the journal {path} {said}")
        assert bot.wait(PATIENCE_S) == 74
