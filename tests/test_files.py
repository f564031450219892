from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from bot.errors import Stopped
from bot.journal.files import NotPlain, open_plain, put_in_place


def fifo(folder: Path) -> Path:
    path = folder / "fifo"
    os.mkfifo(path)
    return path


def device(_: Path) -> Path:
    return Path(os.devnull)


def plain_folder(folder: Path) -> Path:
    return folder


def unix_socket(folder: Path) -> Path:
    path = folder / "socket"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(path))
    return path


FLAGS = [os.O_RDONLY, os.O_RDWR, os.O_RDWR | os.O_CREAT, os.O_WRONLY | os.O_APPEND]


@pytest.mark.parametrize("flags", FLAGS, ids=["read", "both", "make", "append"])
@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (fifo, "a FIFO"),
        (device, "a device"),
        (plain_folder, "a folder"),
        (unix_socket, "a socket"),
    ],
    ids=["fifo", "device", "folder", "socket"],
)
def test_what_is_no_plain_file_is_refused_by_its_kind_at_once(
    make: Callable[[Path], Path], kind: str, flags: int, tmp_path: Path
) -> None:
    path = make(tmp_path)
    with pytest.raises(NotPlain) as caught:
        open_plain(path, flags)
    assert (caught.value.strerror, caught.value.filename) == (
        f"{kind}, not a plain file",
        str(path),
    )
    assert caught.value.errno == errno.EINVAL


def test_what_comes_while_it_is_opened_is_looked_at_once_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = fifo(tmp_path)
    monkeypatch.setattr(Path, "lstat", refuse(errno.ENOENT))
    with pytest.raises(NotPlain, match="a FIFO, not a plain file") as caught:
        open_plain(path, os.O_RDWR)
    assert caught.value.filename == str(path)


@pytest.mark.parametrize("name", ["a\0b", "\ud800"], ids=ascii)
def test_a_name_that_no_file_can_have_is_told(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    with pytest.raises(OSError, match="not a name that a file can have") as caught:
        open_plain(path)
    told = (caught.value.errno, caught.value.strerror, caught.value.filename)
    assert told == (errno.EINVAL, "not a name that a file can have", str(path))


@pytest.mark.parametrize("flags", FLAGS, ids=["read", "both", "make", "append"])
def test_a_link_is_never_followed(flags: int, tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"plain")
    link = tmp_path / "link"
    link.symlink_to("target")
    with pytest.raises(OSError, match="a link, not a plain file"):
        open_plain(link, flags)


def test_a_link_to_nothing_makes_no_file(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("target")
    with pytest.raises(OSError, match="a link, not a plain file"):
        open_plain(link, os.O_RDWR | os.O_CREAT)
    assert not (tmp_path / "target").exists()


def test_a_link_that_is_put_there_in_between_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "target").write_bytes(b"plain")
    path = tmp_path / "link"
    path.symlink_to("target")
    plain = (tmp_path / "target").stat()
    with monkeypatch.context() as patch:
        patch.setattr(Path, "lstat", lambda *_, **__: plain)
        with pytest.raises(OSError, match="symbolic link"):
            open_plain(path)


def test_a_fifo_that_is_put_there_in_between_is_refused_and_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    plain = Path(__file__).stat()
    before = set(Path("/proc/self/fd").iterdir())
    with monkeypatch.context() as patch:
        patch.setattr(Path, "lstat", lambda *_, **__: plain)
        with pytest.raises(OSError, match="a FIFO, not a plain file"):
            open_plain(path)
    assert set(Path("/proc/self/fd").iterdir()) == before


def test_a_file_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "new"
    descriptor = open_plain(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    os.close(descriptor)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "name", ["a\0b", "\ud800", "x" * 300, "missing"], ids=["nul", "surrogate", "long", "missing"]
)
def test_a_name_that_no_file_has_is_an_error_of_the_system(name: str, tmp_path: Path) -> None:
    with pytest.raises(OSError):  # noqa: PT011 - each has its own text
        open_plain(tmp_path / name)


# Put in place


def test_a_file_is_put_in_place_of_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / f"{'x' * 250}.html"
    for content in (b"old", b"new"):
        put_in_place(path, content)
        assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("mode", [0o644, 0o600])
def test_a_file_that_is_put_in_place_has_the_mode_that_is_asked_for(
    mode: int, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    before = os.umask(0o077)
    try:
        put_in_place(path, b"", mode)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.parametrize("reason", [OSError("full"), KeyboardInterrupt(), Stopped(15)], ids=repr)
def test_a_file_is_put_in_place_whole_or_not_at_all(
    reason: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"before")

    def fail(*_: object) -> None:
        raise reason

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(type(reason)):
        put_in_place(path, b"after")
    assert [(one.name, one.read_bytes()) for one in tmp_path.iterdir()] == [("file", b"before")]


@pytest.mark.parametrize("make", [fifo, device, plain_folder, unix_socket])
def test_what_is_no_plain_file_is_left_in_its_place(
    make: Callable[[Path], Path], tmp_path: Path
) -> None:
    path = make(tmp_path)
    before = path.stat()
    with pytest.raises(OSError, match="not a plain file"):
        put_in_place(path, b"content")
    assert (path.stat().st_ino, path.stat().st_mode) == (before.st_ino, before.st_mode)


def test_no_file_is_put_in_place_of_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"theirs")
    link.symlink_to(target)
    with pytest.raises(NotPlain, match="a link, not a plain file") as caught:
        put_in_place(link, b"ours")
    assert caught.value.filename == str(link)
    assert (link.is_symlink(), target.read_bytes()) == (True, b"theirs")


def refuse(number: int) -> Callable[..., None]:
    """Return what does nothing but fail with an error of the system."""

    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


def test_a_disk_without_modes_takes_a_file_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fchmod", refuse(errno.EPERM))
    put_in_place(tmp_path / "file", b"content", 0o644)
    assert (tmp_path / "file").read_bytes() == b"content"


def test_the_error_that_is_told_is_the_first_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "replace", refuse(errno.EIO))
    monkeypatch.setattr(Path, "unlink", refuse(errno.EACCES))
    with pytest.raises(OSError, match="Input/output error"):
        put_in_place(tmp_path / "file", b"content")
