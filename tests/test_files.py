from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from bot.journal.files import open_plain


def put_fifo(path: Path) -> None:
    os.mkfifo(path)


def put_device(path: Path) -> None:
    path.symlink_to("/dev/null")


def put_folder(path: Path) -> None:
    path.mkdir()


def put_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(path))


FLAGS = [os.O_RDONLY, os.O_RDWR, os.O_RDWR | os.O_CREAT, os.O_WRONLY | os.O_APPEND]


@pytest.mark.parametrize("flags", FLAGS, ids=["read", "both", "make", "append"])
@pytest.mark.parametrize(
    ("put", "kind"),
    [
        (put_fifo, "a FIFO"),
        (put_device, "a device"),
        (put_folder, "a folder"),
        (put_socket, "a socket"),
    ],
    ids=["fifo", "device", "folder", "socket"],
)
def test_what_is_no_plain_file_is_refused_by_its_kind_at_once(
    put: object, kind: str, flags: int, tmp_path: Path
) -> None:
    path = tmp_path / "odd"
    assert callable(put)
    put(path)
    with pytest.raises(OSError, match=f"{kind}, not a plain file"):
        open_plain(path, flags, follows_links=True)


@pytest.mark.parametrize("flags", FLAGS, ids=["read", "both", "make", "append"])
def test_a_link_is_followed_only_where_that_is_asked_for(flags: int, tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"plain")
    link = tmp_path / "link"
    link.symlink_to("target")
    with pytest.raises(OSError, match="a link, not a plain file"):
        open_plain(link, flags)
    os.close(open_plain(link, flags, follows_links=True))


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
        patch.setattr(Path, "stat", lambda *_, **__: plain)
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
        patch.setattr(Path, "stat", lambda *_, **__: plain)
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
@pytest.mark.parametrize("follows_links", [False, True])
def test_a_name_that_no_file_has_is_an_error_of_the_system(
    name: str, follows_links: bool, tmp_path: Path
) -> None:
    with pytest.raises(OSError):  # noqa: PT011 - each has its own text
        open_plain(tmp_path / name, follows_links=follows_links)
