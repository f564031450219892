from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from bot.errors import JournalError, Stopped
from bot.service import KEY_FILE, choose_key, foreign_key, load_key, make_key

KEY: Final = b"0123456789abcdef" * 4


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def choose(runs_dir: Path, *waiting: str, is_fresh: bool = False) -> tuple[bytes, list[str]]:
    """Choose a key; return it with what was told."""
    told: list[str] = []
    return choose_key(runs_dir, waiting, is_fresh=is_fresh, tell=told.append), told


def refusing(error: int) -> Callable[..., Any]:
    """Return a call of the system that always fails."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(error, os.strerror(error))

    return refuse


# Reading


def test_where_there_is_no_key_there_is_none(tmp_path: Path) -> None:
    assert load_key(tmp_path) is None
    assert load_key(tmp_path / "no" / "folder") is None
    assert list(tmp_path.iterdir()) == []


def test_the_key_that_is_there_is_read(tmp_path: Path) -> None:
    (tmp_path / KEY_FILE).write_bytes(KEY)
    assert load_key(tmp_path) == KEY


def put_device(path: Path) -> None:
    try:
        os.mknod(path, 0o20600, os.makedev(1, 5))  # /dev/zero, which never ends
    except PermissionError:
        pytest.skip("only root makes devices")


def put_link(path: Path) -> None:
    target = path.with_name("target")
    target.write_bytes(KEY)
    path.symlink_to(target)


def put_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


def put_endless(path: Path) -> None:
    path.touch()
    os.truncate(path, 2**40)


def put_other_owner(path: Path) -> None:
    path.write_bytes(KEY)
    try:
        os.chown(path, 12345, -1)
    except PermissionError:
        pytest.skip("only root gives files away")


NO_KEYS: Final[dict[str, tuple[Callable[[Path], object], str]]] = {
    "a FIFO": (os.mkfifo, "cannot be read: a FIFO, not a plain file"),
    "a device": (put_device, "cannot be read: a device, not a plain file"),
    "a link": (put_link, "cannot be read: a link, not a plain file"),
    "a link to nothing": (
        lambda path: path.symlink_to("nothing"),
        "cannot be read: a link, not a plain file",
    ),
    "a folder": (Path.mkdir, "cannot be read: a folder, not a plain file"),
    "a socket": (put_socket, "cannot be read: a socket, not a plain file"),
    "empty": (Path.touch, "is empty"),
    "cut": (lambda path: path.write_bytes(KEY[:-1]), "is not the 64 characters of a key"),
    "longer": (lambda path: path.write_bytes(KEY + b"\n"), "is not the 64 characters of a key"),
    "endless": (put_endless, "is not the 64 characters of a key"),
    "nulls": (lambda path: path.write_bytes(bytes(64)), "is not the 64 characters of a key"),
    "another owner's": (put_other_owner, "belongs to another user (uid 12345)"),
}


@pytest.fixture(params=NO_KEYS.values(), ids=list(NO_KEYS))
def no_key(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str]:
    """Put something that is no key in its place; return the folder, and what is wrong."""
    put, why = request.param
    put(tmp_path / KEY_FILE)
    return tmp_path, why


def test_what_is_no_key_of_ours_is_refused_by_name_at_once(no_key: tuple[Path, str]) -> None:
    folder, why = no_key
    with pytest.raises(JournalError) as caught:
        load_key(folder)
    assert str(caught.value) == (
        f"the local service's key {folder / KEY_FILE} {why}; "
        f"put the right key back, or remove it and start a new run with --fresh"
    )
    assert caught.value.exit_code == 74


@pytest.mark.parametrize("is_fresh", [False, True])
def test_what_is_no_key_of_ours_is_never_replaced(
    no_key: tuple[Path, str], *, is_fresh: bool
) -> None:
    folder, why = no_key
    before = sorted(folder.iterdir())
    for act in (lambda: choose(folder, is_fresh=is_fresh), lambda: make_key(folder)):
        with pytest.raises(JournalError) as caught:
            act()
        assert why in str(caught.value)
    assert sorted(folder.iterdir()) == before


def test_a_folder_that_is_a_file_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for act in (load_key, make_key):
        with pytest.raises(JournalError, match=r"file/\.local-key"):
            act(tmp_path / "file")


def test_a_key_that_may_not_be_read_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / KEY_FILE).write_bytes(KEY)
    monkeypatch.setattr(os, "open", refusing(errno.EACCES))
    with pytest.raises(JournalError, match=r"\.local-key cannot be read: Permission denied; put"):
        load_key(tmp_path)


# Making


def test_a_key_is_made_once_and_is_for_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    key = make_key(folder)
    assert len(bytes.fromhex(key.decode())) == 32
    assert (load_key(folder), make_key(folder)) == (key, key)
    assert [path.name for path in folder.iterdir()] == [KEY_FILE]
    assert (mode(folder), mode(folder / KEY_FILE)) == (0o700, 0o600)
    assert make_key(tmp_path / "c") != key


def test_a_folder_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    make_key(tmp_path)
    assert mode(tmp_path) == 0o755


@pytest.mark.parametrize("links", ["links", "no links"])
def test_the_first_of_two_processes_wins(
    links: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if links == "no links":
        monkeypatch.setattr(os, "link", refusing(errno.ENOTSUP))
    fdatasync = os.fdatasync

    def lose_the_race(_: int) -> None:
        monkeypatch.setattr(os, "fdatasync", fdatasync)
        (tmp_path / KEY_FILE).write_bytes(KEY)

    monkeypatch.setattr(os, "fdatasync", lose_the_race)
    assert make_key(tmp_path) == KEY
    assert [path.name for path in tmp_path.iterdir()] == [KEY_FILE]


@pytest.mark.parametrize(
    "error",
    [errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EACCES, errno.EMLINK, errno.EINVAL],
    ids=errno.errorcode.get,
)
def test_a_disk_without_hard_links_is_no_obstacle(
    error: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", refusing(error))
    key = make_key(tmp_path)
    assert load_key(tmp_path) == key
    assert [path.name for path in tmp_path.iterdir()] == [KEY_FILE]
    assert mode(tmp_path / KEY_FILE) == 0o600


@pytest.mark.parametrize("error", [errno.EINVAL, errno.ENOSYS, errno.ENOTSUP])
def test_a_disk_that_knows_no_sync_or_mode_is_no_obstacle(
    error: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for call in ("fdatasync", "fsync", "chmod", "fchmod"):
        monkeypatch.setattr(os, call, refusing(error))
    assert make_key(tmp_path) == load_key(tmp_path)


def test_a_folder_that_cannot_be_synced_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync = os.fsync

    def refuse_folders(descriptor: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):  # noqa: PTH112 - a descriptor's name
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", refuse_folders)
    assert make_key(tmp_path) == load_key(tmp_path)


@pytest.mark.parametrize("links", ["links", "no links"])
def test_a_disk_that_fails_is_told_and_nothing_is_left_there(
    links: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fdatasync = os.fdatasync
    good: Iterator[bool] = iter([links == "no links"])  # there the second file is the key's own

    def fail(descriptor: int) -> None:
        if not next(good, False):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        fdatasync(descriptor)

    monkeypatch.setattr(os, "fdatasync", fail)
    if links == "no links":
        monkeypatch.setattr(os, "link", refusing(errno.EPERM))
    with pytest.raises(JournalError, match=r"cannot keep .*/\.local-key: Input/output error; --ru"):
        make_key(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_stop_leaves_no_half_of_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(_: int) -> None:
        raise Stopped(15)

    monkeypatch.setattr(os, "fdatasync", stop)
    with pytest.raises(Stopped):
        make_key(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_key_that_is_removed_at_once_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", lambda *_: None)
    with pytest.raises(JournalError, match="removed as soon as it was made"):
        make_key(tmp_path)


def test_a_planted_link_is_not_written_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", refusing(errno.EPERM))
    target = tmp_path / "target"
    (tmp_path / KEY_FILE).symlink_to(target)
    with pytest.raises(JournalError, match="a link, not a plain file"):
        make_key(tmp_path)
    assert not target.exists()


# Choosing


def test_the_key_that_is_there_is_chosen_without_a_look_at_the_runs(tmp_path: Path) -> None:
    key = make_key(tmp_path)

    looked = map(pytest.fail, ["20261130T024107Z-seed8-0a1b"])  # where it is looked at
    assert choose_key(tmp_path, looked, is_fresh=False, tell=pytest.fail) == key


def test_where_no_run_waits_a_key_is_made_without_a_word(tmp_path: Path) -> None:
    key, told = choose(tmp_path)
    assert (load_key(tmp_path), told) == (key, [])


def test_a_missing_key_that_a_run_waits_for_is_never_made(tmp_path: Path) -> None:
    with pytest.raises(JournalError) as caught:
        choose(tmp_path, "20261130T024107Z-seed7-0a1b")
    assert str(caught.value) == (
        f"the local service's key {tmp_path / KEY_FILE} is missing, and without it "
        f"20261130T024107Z-seed7-0a1b cannot be resumed: put it back, "
        f"or start a new run with --fresh"
    )
    assert (caught.value.exit_code, list(tmp_path.iterdir())) == (74, [])


@pytest.mark.parametrize(
    ("waiting", "names"),
    [("b a", "a, b"), ("c b a", "a, b, c"), ("e d c b a", "a, b, c and 2 more")],
)
def test_fresh_makes_a_missing_key_and_says_which_runs_it_leaves(
    waiting: str, names: str, tmp_path: Path
) -> None:
    key, told = choose(tmp_path, *waiting.split(), is_fresh=True)
    assert load_key(tmp_path) == key
    expected = (
        f"the local service's key was missing, so a new one was made; "
        f"{names} cannot be resumed any more"
    )
    assert told == [expected]


def test_a_key_that_another_bot_makes_meanwhile_is_taken(tmp_path: Path) -> None:
    def begin_a_run() -> Iterator[str]:
        make_key(tmp_path)
        yield "20261130T024107Z-seed8-0a1b"

    key = choose_key(tmp_path, begin_a_run(), is_fresh=False, tell=pytest.fail)
    assert key == load_key(tmp_path)


def test_a_foreign_key_is_told_by_its_file_and_the_run(tmp_path: Path) -> None:
    error = foreign_key(tmp_path, "20261130T024107Z-seed7-0a1b")
    assert str(error) == (
        f"the local service's key {tmp_path / KEY_FILE} is not the one that "
        f"20261130T024107Z-seed7-0a1b began with: put that one back, "
        f"or start a new run with --fresh"
    )
    assert error.exit_code == 74
