"""Making room, the last lines of a journal, and finding the latest one: files as they lie there."""

from __future__ import annotations

import errno
import fcntl
import gzip
import io
import os
import random
import secrets
import tempfile
import tracemalloc
import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Final

import pytest
from calls import told
from eventful import plain, stopped
from harness import run_events, started, write_journal

from bot.errors import JournalError, NotAJournal, UsageError
from bot.journal import housekeeping, lock, reader, writer
from bot.journal.events import RunAbandoned, RunStarted
from bot.journal.folder import LATEST, find, journal_path, latest
from bot.journal.housekeeping import Chore, carry_out, plan
from bot.journal.reader import is_finished, last_entries, read_lines
from bot.verify import recover

RUN: Final = "20261130T024107Z-seed7-00ff"
KIB: Final = 2**10


@cache
def a_long_journal() -> bytes:
    """Return the journal of a run of more than 128 KiB."""
    with tempfile.TemporaryDirectory() as folder:
        content = write_journal(Path(folder), RUN, run_events(RUN, bank_at=30_000)).read_bytes()
    assert len(content) > 128 * KIB
    return content


def members(packed: bytes) -> list[bytes]:
    """Return what each member of a gzipped file holds."""
    held = []
    while packed:
        unpacker = zlib.decompressobj(wbits=31)
        held.append(unpacker.decompress(packed))
        packed = unpacker.unused_data
    return held


def compress(path: Path) -> bytes:
    """Compress a journal; return the bytes of the file that stands in its place."""
    assert carry_out(Chore(path, 0, is_compressing=True)) is None
    assert [there.name for there in path.parent.iterdir()] == [f"{path.name}.gz"]
    return path.with_name(f"{path.name}.gz").read_bytes()


def peak(call: Callable[[], object]) -> int:
    """Return the most bytes that a call holds at a time."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# Compressing


def test_the_last_lines_of_a_compressed_journal_are_a_member_of_their_own(tmp_path: Path) -> None:
    content = a_long_journal()
    path = tmp_path / "j.jsonl"
    path.write_bytes(content)
    first, last = members(compress(path))
    assert first + last == content
    assert len(last) <= 16 * KIB < len(first.splitlines(keepends=True)[-1] + last)
    assert first.endswith(b"\n")


def test_a_short_journal_is_compressed_in_one(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    path.write_bytes(stopped())
    assert members(compress(path)) == [stopped()]


def test_a_journal_of_any_length_is_compressed_whole(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    content = random.Random(7).randbytes(1100 * KIB)
    path.write_bytes(content)
    assert gzip.decompress(compress(path)) == content


def test_a_compressed_journal_tells_no_other_name_and_no_other_time(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    path.write_bytes(plain())
    head = compress(path)[:8]
    assert head == bytes((0x1F, 0x8B, 8, 0, 0, 0, 0, 0))  # gzip, deflated, no name; no time


def test_a_compressed_journal_is_as_old_as_it_was_and_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    path.write_bytes(plain())
    os.utime(path, (1_000_000_000, 1_000_000_000))
    path.chmod(0o640)
    compress(path)
    status = path.with_name("j.jsonl.gz").stat()
    assert (status.st_mtime, status.st_mode & 0o777) == (1_000_000_000, 0o600)


def test_a_copy_that_is_not_what_was_written_is_thrown_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "j.jsonl"
    path.write_bytes(plain())
    monkeypatch.setattr(os, "fdatasync", lambda descriptor: os.ftruncate(descriptor, 0))
    monkeypatch.setattr(secrets, "token_hex", lambda: "00ff")
    part = tmp_path / ".j.jsonl.gz.00ff.part"
    with told(JournalError, f"cannot compress {path}: the copy {part} is not what was written"):
        carry_out(Chore(path, 0, is_compressing=True))
    assert list(tmp_path.iterdir()) == [path]


def test_a_journal_that_cannot_be_compressed_stays_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "j.jsonl"
    path.write_bytes(plain())

    def fdatasync(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    with told(JournalError, f"cannot compress {path}: No space left on device"):
        carry_out(Chore(path, 0, is_compressing=True))
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == plain()


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask for a lock just once."""
    monkeypatch.setattr(lock, "PATIENCE_S", 0)


@pytest.mark.usefixtures("_impatient")
@pytest.mark.parametrize("is_compressing", [False, True], ids=["remove", "compress"])
def test_what_another_process_is_at_is_left_to_it_and_told(
    is_compressing: bool, tmp_path: Path
) -> None:
    path = tmp_path / "j.jsonl"
    path.write_bytes(plain())
    chore = Chore(path, 0, is_compressing)
    with path.open("rb") as theirs:
        fcntl.flock(theirs, fcntl.LOCK_SH)
        assert carry_out(chore) == "another process is at it"
        assert [*tmp_path.iterdir()] == [path]
    assert carry_out(chore) is None
    assert not path.exists()


def test_a_journal_in_the_place_of_another_one_is_not_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "j.jsonl"
    path.write_bytes(plain())

    def replace(_: int) -> None:
        path.unlink()
        path.write_bytes(stopped())

    monkeypatch.setattr(housekeeping, "hold", replace)
    assert carry_out(Chore(path, 0, is_compressing=True)) == "it is gone"
    assert [*tmp_path.iterdir()] == [path]
    assert path.read_bytes() == stopped()


def test_a_copy_is_never_written_through_a_link_that_was_put_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "j.jsonl"
    path.write_bytes(plain())
    precious = tmp_path / "precious"
    precious.write_text("as it was")
    for name in (".j.jsonl.gz.part", ".j.jsonl.gz.00ff.part", "j.jsonl.gz"):
        (tmp_path / name).symlink_to("precious")
    monkeypatch.setattr(secrets, "token_hex", lambda: "00ff")
    monkeypatch.setattr(housekeeping, "_remove_parts", lambda _: None)
    with told(JournalError, f"cannot compress {path}: a link, not a plain file"):
        carry_out(Chore(path, 0, is_compressing=True))
    monkeypatch.undo()
    assert carry_out(Chore(path, 0, is_compressing=True)) is None
    assert precious.read_text() == "as it was"
    packed = tmp_path / "j.jsonl.gz"
    assert not packed.is_symlink()
    assert gzip.decompress(packed.read_bytes()) == plain()


def test_a_link_in_the_place_of_a_journal_is_not_followed(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    path.symlink_to("precious")
    (tmp_path / "precious").write_bytes(plain())
    for is_compressing, what in ((False, "remove"), (True, "compress")):
        with told(JournalError, f"cannot {what} {path}: a link, not a plain file"):
            carry_out(Chore(path, 0, is_compressing))
    assert (tmp_path / "precious").read_bytes() == plain()


def test_what_one_left_who_was_killed_in_the_middle_is_cleaned_up(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    path.write_bytes(plain())
    (tmp_path / ".j.jsonl.gz.0123456789abcdef.part").write_bytes(b"half")
    (tmp_path / ".j.jsonl.gz.part").write_bytes(b"half")
    compress(path)


@pytest.mark.parametrize("lacking", ["utime", "chmod", "fchmod", "link", "flock", "fdatasync"])
def test_a_disk_that_lacks_something_is_packed_without(
    lacking: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "j.jsonl"
    path.write_bytes(plain())

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl if lacking == "flock" else os, lacking, refuse)
    assert gzip.decompress(compress(path)) == plain()


@pytest.mark.parametrize("is_compressing", [False, True], ids=["remove", "compress"])
def test_what_cannot_be_read_is_never_touched(is_compressing: bool, tmp_path: Path) -> None:
    path = write_journal(tmp_path, RUN, run_events(RUN, bank_at=215))
    (tmp_path / "20261130T024106Z-seed7-00ff.jsonl").mkdir()
    cut_off = gzip.compress(path.read_bytes())[:-60]
    (tmp_path / "20261130T024105Z-seed7-00ff.jsonl.gz").write_bytes(cut_off)
    newer = RUN.replace("07Z", "08Z")
    write_journal(tmp_path, newer, run_events(newer, bank_at=215))
    size = path.stat().st_size
    assert plan(tmp_path, 1, is_compressing=is_compressing).chores == [
        Chore(path, size, is_compressing)
    ]


# Removing


def name_of(number: int) -> str:
    return f"20261130T02410{number}Z-seed7-00ff"


def put(runs_dir: Path, number: int, *, is_finished: bool = True) -> Chore:
    """Write a run; return what is to be done where it is removed."""
    lines = run_events(name_of(number), bank_at=215)
    path = write_journal(runs_dir, name_of(number), lines if is_finished else lines[:-1])
    return Chore(path, path.stat().st_size, is_compressing=False)


def test_all_finished_runs_but_the_newest_are_to_go_the_newest_of_them_first(
    tmp_path: Path,
) -> None:
    chores = [put(tmp_path, number) for number in (3, 1, 4, 2)]
    put(tmp_path, 5, is_finished=False)
    put(tmp_path, 0, is_finished=False)
    third, first, _, second = chores
    assert plan(tmp_path, 1, is_compressing=False).chores == [third, second, first]
    assert plan(tmp_path, 3, is_compressing=False).chores == [first]
    assert plan(tmp_path, 4, is_compressing=False).chores == []


def test_the_newest_run_of_a_seed_stays_while_an_older_one_of_it_is_left_unfinished(
    tmp_path: Path,
) -> None:
    put(tmp_path, 1, is_finished=False)
    older, newest = put(tmp_path, 2), put(tmp_path, 3)
    other = name_of(4).replace("seed7", "seed8")
    write_journal(tmp_path, other, run_events(other, bank_at=215))
    chores, kept = plan(tmp_path, 1, is_compressing=False)
    assert chores == [older]
    unfinished = journal_path(tmp_path, name_of(1))
    assert kept == {
        newest.path: f"the older run {unfinished} is unfinished, and would be resumed if this "
        f"one were gone"
    }
    assert plan(tmp_path, 1, is_compressing=True).chores == [
        chore._replace(is_compressing=True) for chore in (newest, older)
    ]


def test_the_newest_run_of_each_service_stays_while_one_of_its_seed_is_left_unfinished(
    tmp_path: Path,
) -> None:
    put(tmp_path, 1, is_finished=False)
    ours = put(tmp_path, 2)
    name = name_of(3)
    lines = run_events(name, bank_at=215)
    assert isinstance(lines[0], RunStarted)
    write_journal(tmp_path, name, [lines[0]._replace(base_url="http://elsewhere"), *lines[1:]])
    last = put(tmp_path, 4)
    journal_path(tmp_path, name_of(5)).touch()  # power was lost before its first line
    assert plan(tmp_path, 0, is_compressing=False).chores == [ours]
    last.path.unlink()
    assert plan(tmp_path, 0, is_compressing=False).chores == []


def test_a_run_that_is_there_twice_counts_once(tmp_path: Path) -> None:
    first, second, third = (put(tmp_path, number) for number in (1, 2, 3))
    packed = second.path.with_name(f"{name_of(2)}.jsonl.gz")
    packed.write_bytes(gzip.compress(second.path.read_bytes()))
    twice = Chore(packed, packed.stat().st_size, is_compressing=False)
    assert plan(tmp_path, 2, is_compressing=False).chores == [first]
    assert plan(tmp_path, 1, is_compressing=False).chores == [second, twice, first]
    assert plan(tmp_path, 0, is_compressing=True).chores == [
        chore._replace(is_compressing=True) for chore in (third, second, first)
    ]
    second.path.unlink()
    assert plan(tmp_path, 1, is_compressing=False).chores == [twice, first]
    assert plan(tmp_path, 1, is_compressing=True).chores == [first._replace(is_compressing=True)]


def test_what_goes_while_it_is_planned_is_not_in_the_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chore, gone = put(tmp_path, 2), put(tmp_path, 1)

    def look_and_remove(path: Path) -> bool:
        finished = is_finished(path)
        if path == gone.path:
            path.unlink()
        return finished

    monkeypatch.setattr(housekeeping, "is_surely_finished", look_and_remove)
    assert plan(tmp_path, 0, is_compressing=False).chores == [chore]


def test_what_is_to_go_is_removed_and_may_be_gone_already(tmp_path: Path) -> None:
    chore = put(tmp_path, 1)
    assert carry_out(chore) is None
    assert list(tmp_path.iterdir()) == []
    assert carry_out(chore) == "it is gone"
    assert carry_out(chore._replace(is_compressing=True)) == "it is gone"
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_removed_is_told_with_the_reason(tmp_path: Path) -> None:
    with told(JournalError, f"cannot remove {tmp_path}: a folder, not a plain file"):
        carry_out(Chore(tmp_path, 0, is_compressing=False))


# The last lines


def seqs(path: Path) -> list[int]:
    """Return the numbers that the last lines have in the log; where they stand is not known."""
    entries = list(last_entries(path))
    assert {entry.number for entry in entries} <= {0}
    return [entry.seq for entry in entries]


def all_seqs(journal: bytes) -> list[int]:
    """Return the numbers of the lines of a sound journal, the last one first."""
    return list(range(journal.count(b"\n") - 1, -1, -1))


def with_name(journal: bytes, name: str) -> bytes:
    """Return a gzipped journal with a file name in its head."""
    packed = io.BytesIO()
    with gzip.GzipFile(name, "wb", fileobj=packed) as member:
        member.write(journal)
    return packed.getvalue()


@pytest.mark.parametrize(
    "shape",
    [
        bytes,
        gzip.compress,
        lambda j: gzip.compress(j) + bytes(12),
        lambda j: gzip.compress(j) + gzip.compress(b""),
    ],
    ids=["plain", "gzipped", "gzipped, with NUL bytes after it", "gzipped, with nothing after it"],
)
def test_all_lines_of_a_short_journal_are_at_hand(
    shape: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    path = tmp_path / "j"
    path.write_bytes(shape(stopped()))
    assert seqs(path) == all_seqs(stopped())


@pytest.mark.parametrize(
    "shape", [bytes, gzip.compress, with_name], ids=["plain", "gzipped", "gzipped with a name"]
)
def test_the_last_64_kib_of_a_long_journal_are_at_hand(
    shape: Callable[..., bytes], tmp_path: Path
) -> None:
    content = a_long_journal()
    path = tmp_path / "j"
    path.write_bytes(shape(content, "j") if shape is with_name else shape(content))
    assert seqs(path) == all_seqs(content)[: content[-64 * KIB :].count(b"\n") - 1]


@pytest.mark.parametrize("name", ["j", "\x1f\x8b\x08"], ids=["", "as if another one began"])
def test_the_last_member_of_a_gzipped_journal_is_read_without_the_rest(
    name: str, tmp_path: Path
) -> None:
    lines = stopped().splitlines(keepends=True)
    first, last = gzip.compress(b"".join(lines[:-5])), b"".join(lines[-5:])
    broken = first[:-8] + b"checksum"
    path = tmp_path / "j"
    path.write_bytes(broken + with_name(last, name))
    assert seqs(path) == all_seqs(stopped())[:5]
    with told(NotAJournal, f"cannot read {path}: it cannot be unpacked"):
        list(read_lines(path))


def test_a_short_gzipped_journal_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "j"
    path.write_bytes(gzip.compress(plain()))
    monkeypatch.setattr(reader, "_read_to_the_end", None)
    assert seqs(path) == all_seqs(plain())


def abandoned() -> bytes:
    """Return the journal of a run that was given up."""
    with tempfile.TemporaryDirectory() as folder:
        lines = [*run_events(RUN)[:5], RunAbandoned("the service refuses the token")]
        return write_journal(Path(folder), RUN, lines).read_bytes()


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (plain, True),
        (abandoned, True),
        (stopped, False),
        (lambda: plain()[:-1], False),
        (lambda: plain() + b"x", False),
        (bytes, False),
    ],
    ids=["banked", "abandoned", "stopped", "torn", "with more", "empty"],
)
@pytest.mark.parametrize("shape", [bytes, gzip.compress], ids=["plain", "gzipped"])
def test_a_run_is_finished_whose_last_line_is_its_end(
    shape: Callable[[bytes], bytes], make: Callable[[], bytes], expected: bool, tmp_path: Path
) -> None:
    path = tmp_path / "j"
    path.write_bytes(shape(make()))
    assert is_finished(path) is expected


def test_a_journal_that_is_not_there_has_no_last_line(tmp_path: Path) -> None:
    path = tmp_path / "j"
    for read in (lambda: is_finished(path), lambda: list(read_lines(path))):
        with told(NotAJournal, f"cannot read {path}: No such file or directory"):
            read()


def read_back(path: Path) -> tuple[bytes, list[bytes]]:
    """Return what the whole lines of a file hold together, and the others."""
    lines = list(read_lines(path))
    assert [line.number for line in lines] == list(range(1, len(lines) + 1))
    assert not any(line.is_torn for line in lines)
    whole = b"".join(line.text for line in lines if line.is_whole)
    return whole, [line.text for line in lines if not line.is_whole]


@pytest.mark.parametrize("rest", [b"x", b"\0\0x", b"a trailer", bytes(500) + b"?" * 99_999])
@pytest.mark.parametrize("pieces", [1, 2])
def test_what_follows_a_packed_journal_is_told_and_the_journal_is_whole(
    rest: bytes, pieces: int, tmp_path: Path
) -> None:
    lines = plain().splitlines(keepends=True)
    at = 0 if pieces == 1 else len(lines) // 2
    members = [gzip.compress(b"".join(part)) for part in (lines[:at], lines[at:]) if part]
    path = tmp_path / "j"
    path.write_bytes(b"".join(members) + rest)
    assert read_back(path) == (plain(), [rest.lstrip(b"\0")])
    assert is_finished(path)
    recovered = recover(path)
    assert recovered.run.is_over
    assert recovered.cut_bytes == len(rest.lstrip(b"\0"))


@pytest.mark.parametrize("padding", [1, 512, 99_999])
def test_what_pads_a_tape_is_nothing(padding: int, tmp_path: Path) -> None:
    path = tmp_path / "j"
    path.write_bytes(gzip.compress(plain()) + bytes(padding) + gzip.compress(b"") + bytes(padding))
    assert read_back(path) == (plain(), [])
    assert is_finished(path)


def test_a_packed_journal_that_is_cut_off_anywhere_is_read_as_far_as_it_is_whole(
    tmp_path: Path,
) -> None:
    path = tmp_path / "j"
    packed = gzip.compress(stopped())
    seen = set()
    for length in range(len(packed) // 2, len(packed) - 9):
        path.write_bytes(packed[:length])
        whole, torn = read_back(path)
        assert stopped().startswith(whole + b"".join(torn))
        assert not is_finished(path)
        seen.add(whole.count(b"\n"))
    assert len(seen) > 2
    path.write_bytes(packed[:-1])
    assert read_back(path) == (stopped(), [b""])


def test_a_packed_journal_of_a_finished_run_without_its_last_bytes_is_finished(
    tmp_path: Path,
) -> None:
    path = tmp_path / "j"
    path.write_bytes(gzip.compress(plain())[:-8])
    assert read_back(path) == (plain(), [b""])
    assert is_finished(path)


def test_a_packed_journal_that_is_broken_in_the_middle_is_not_read_on(tmp_path: Path) -> None:
    path = tmp_path / "j"
    packed = gzip.compress(a_long_journal())
    half = len(packed) // 2
    path.write_bytes(packed[:half] + b"\xff" * 50 + packed[half:])
    whole, torn = read_back(path)
    assert whole
    assert len(torn) == 1
    assert a_long_journal().startswith(whole)


def test_a_packed_file_of_which_nothing_can_be_unpacked_is_no_journal(tmp_path: Path) -> None:
    path = tmp_path / "j"
    path.write_bytes(b"\x1f\x8b\x08" + b"\xff" * 50)
    with told(NotAJournal, f"cannot read {path}: it cannot be unpacked"):
        list(read_lines(path))


def test_the_last_lines_of_a_journal_of_any_length_take_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "j"
    end = plain()
    content = bytes(8000 * KIB) + b"\n" + end
    path.write_bytes(gzip.compress(content, 1))
    assert seqs(path) == all_seqs(end)
    assert peak(lambda: seqs(path)) < 5000 * KIB


# Lines that are too long


def test_a_line_that_is_too_long_is_passed_over_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "MAX_LINE", 10)
    path = tmp_path / "j"
    path.write_bytes(b"first\n" + b"x" * 35 + b"\nthird\n" + b"y" * 11 + b"\n" + b"z" * 40)
    assert [(line.number, line.end, line.is_whole, line.is_torn) for line in read_lines(path)] == [
        (1, 6, True, False),
        (2, 42, False, False),
        (3, 48, True, False),
        (4, 60, False, False),
        (5, 100, False, False),
    ]


def test_a_line_that_is_too_long_takes_little_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "MAX_LINE", 64 * KIB)
    path = tmp_path / "j"
    path.write_bytes(b"first\n" + bytes(8000 * KIB))
    assert peak(lambda: [line.number for line in read_lines(path)]) < 1000 * KIB


# The latest run


def begin(runs_dir: Path, run_id: str, millisecond: int) -> Path:
    """Write the first line of a run that began in the second that all of them have here."""
    path = journal_path(runs_dir, run_id)
    runs_dir.mkdir(exist_ok=True)
    journal = writer.create(
        path, lambda: datetime(2026, 11, 30, 2, 41, 7, millisecond * 1000, tzinfo=UTC)
    )
    journal.write(started(run_id))
    journal.close()
    return path


@pytest.mark.parametrize("first", ["seed7-0001", "seed9-00ff"])
def test_of_runs_that_began_in_the_same_second_the_first_line_tells_the_latest(
    first: str, tmp_path: Path
) -> None:
    begin(tmp_path, f"20261130T024107Z-{first}", 100)
    expected = begin(tmp_path, "20261130T024107Z-seed8-0000", 101)
    begin(tmp_path, "20261130T024106Z-seed9-0000", 900)
    assert latest(tmp_path) == expected
    assert find(tmp_path, LATEST) == expected


def test_a_broken_first_line_tells_no_time_and_a_whole_one_of_the_same_second_is_later(
    tmp_path: Path,
) -> None:
    broken = journal_path(tmp_path, "20261130T024107Z-seed9-0000")
    broken.write_bytes(b"garbage\n")
    assert latest(tmp_path) == broken
    assert latest(tmp_path) != begin(tmp_path, "20261130T024106Z-seed7-0000", 0)
    assert begin(tmp_path, "20261130T024107Z-seed7-0000", 0) == latest(tmp_path)


def test_a_run_is_found_by_its_name_gzipped_or_not_and_by_its_path(tmp_path: Path) -> None:
    path = begin(tmp_path, RUN, 0)
    assert find(tmp_path, RUN) == path
    assert find(tmp_path / "elsewhere", str(path)) == path
    assert find(tmp_path, path.name) == path
    compress(path)
    assert find(tmp_path, RUN) == path.with_name(f"{RUN}.jsonl.gz")


def test_a_run_that_a_path_names_may_be_a_link_and_one_of_the_folder_may_not(
    tmp_path: Path,
) -> None:
    path = begin(tmp_path / "elsewhere", RUN, 0)
    link = journal_path(tmp_path / "runs", RUN)
    link.parent.mkdir()
    link.symlink_to(path)
    assert find(tmp_path / "runs", str(link)) == path
    assert find(tmp_path / "runs", RUN) == link
    with told(NotAJournal, f"{link} is no journal: a link, not a plain file"):
        list(read_lines(link))


@pytest.mark.parametrize(
    "run",
    [RUN, "never", "x" * 5000, "a\0b", "circle", f"{RUN}.jsonl"],
    ids=["a name", "a path", "too long", "no name", "circle", "a file"],
)
def test_a_run_that_is_nowhere_is_said_to_be_so(
    run: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "circle").symlink_to("circle")
    with told(
        UsageError,
        (
            f"there is no journal {run[:200]!r}: neither a file nor a run in {tmp_path}; "
            "the verb runs lists the runs"
        ),
    ):
        find(tmp_path, run)


def test_the_latest_run_of_a_seed_is_asked_for(tmp_path: Path) -> None:
    ours = begin(tmp_path, "20261130T024106Z-seed7-0000", 0)
    begin(tmp_path, "20261130T024107Z-seed8-0000", 0)
    assert find(tmp_path, LATEST, seed=7) == ours
    with told(UsageError, f"there is no run of seed 9 in {tmp_path}"):
        latest(tmp_path, seed=9)


@pytest.mark.parametrize("content", [b"", b'{"seq":0,'], ids=["empty", "half a line"])
def test_a_file_without_a_whole_line_is_not_the_latest_run(content: bytes, tmp_path: Path) -> None:
    journal_path(tmp_path, "20261130T024107Z-seed9-0000").write_bytes(content)
    with told(UsageError, f"there is no run in {tmp_path}"):
        latest(tmp_path)


# What goes wrong


def test_a_journal_that_cannot_be_removed_is_told_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "j.jsonl"
    path.write_bytes(stopped())

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "unlink", refuse)
    with told(JournalError, f"cannot remove {path}: Permission denied"):
        carry_out(Chore(path, 0, is_compressing=False))


def test_what_is_left_of_a_kill_is_removed_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    path.write_bytes(stopped())
    for name in (".j.jsonl.gz.0123.part", ".j.jsonl.gz.kept", ".other.jsonl.gz.0123.part"):
        (tmp_path / name).touch()
    assert carry_out(Chore(path, 0, is_compressing=True)) is None
    assert {left.name for left in tmp_path.iterdir()} == {
        "j.jsonl.gz",
        ".j.jsonl.gz.kept",
        ".other.jsonl.gz.0123.part",
    }


def test_what_somebody_else_removes_meanwhile_is_no_trouble(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "j.jsonl"
    path.write_bytes(stopped())
    monkeypatch.setattr(Path, "iterdir", lambda folder: iter([folder / ".j.jsonl.gz.0.part"]))
    assert carry_out(Chore(path, 0, is_compressing=True)) is None


def test_which_run_is_the_newest_goes_by_the_time_that_is_given(tmp_path: Path) -> None:
    def put(name: str, end: int | None) -> Path:
        return write_journal(tmp_path, name, run_events(name, bank_at=215)[:end])

    put("20261128T000000Z-seed7-0000", -1)
    newer = put("20261129T000000Z-seed7-0000", None)
    put("20261202T000000Z-seed7-0000", None)
    now = datetime(2026, 11, 30, tzinfo=UTC)
    assert [*plan(tmp_path, 0, is_compressing=False, now=now).kept] == [newer]
