"""The journal as a file: its lines, how they are written, read back, and gone on with."""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
import random
import re
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from pathlib import Path
from typing import Any, Final, Self

import pytest
from calls import told
from harness import Disk, plan_game, run_events, started, taken, write_journal
from hypothesis import given, settings
from hypothesis import strategies as st

from bot import rules
from bot.errors import JournalError, NotAJournal, UsageError
from bot.journal import events, folder, reader, writer
from bot.journal.events import EVENT_NAMES, Event
from bot.journal.folder import journal_path, journals, new_run_id, newest, parse_run_id
from bot.journal.reader import (
    Entry,
    LineError,
    RawLine,
    is_compressed,
    is_of_a_journal,
    is_time,
    parse_line,
    parse_time,
    read_lines,
)
from bot.journal.writer import format_time
from bot.strategy import Goal

NOON: Final = datetime(2026, 11, 30, 12, 0, 0, 7000, tzinfo=UTC)
RUN: Final = "20261130T024107Z-seed7-00ff"
LATER_RUN: Final = "20261130T024108Z-seed7-0000"

EXAMPLES: Final[dict[str, Event]] = {
    "run.started": events.RunStarted(
        1, RUN, "1.0.0", "http://local", 7, 3030, "at-least", "t0", {"score": 0}, {}, [1.5], "ab"
    ),
    "action": events.ActionTaken(
        1, {"type": "flip", "count": 2}, "t1", 215, 215, "cleared", 1, 1, [1, 2, 3], 1, 5, 3, 1, 0.5
    ),
    "retry": events.Retried({"type": "next"}, 1, "HTTP 503", 503, "<html>", 0.75),
    "refused": events.Refused({"type": "flip", "count": 2}, "not now"),
    "layout": events.LayoutChanged({"token": "next"}),
    "diverged": events.FieldsDiverged({"score": {"predicted": 215, "observed": "215"}}),
    "run.resumed": events.RunResumed(5, 3030, "at-least", "1.0.0", 17),
    "run.suspended": events.RunSuspended("stopped by SIGTERM", 143),
    "run.abandoned": events.RunAbandoned("the service refuses the token"),
    "run.ended": events.RunEnded("banked", 3030, 12, 58, 71, 0, 0.5),
}

FIELDS: Final = {
    "run.started": "journal_version run_id bot_version base_url seed bank_at bank_rule token "
    "state wire spec spec_sha256",
    "action": "turn action token award score phase board template garland moves_used "
    "move_budget leaves attempts elapsed_ms",
    "retry": "what attempt cause status excerpt wait_s",
    "refused": "action reason",
    "layout": "wire",
    "diverged": "fields",
    "run.resumed": "from_seq bank_at bank_rule bot_version cut_bytes",
    "run.suspended": "reason exit_code",
    "run.abandoned": "reason",
    "run.ended": "end_reason score boards flips requests retries seconds",
}
"""The fields of each line after its own three, as the design page has them."""

HOSTILE_TEXTS: Final = {
    "line ends": "a\nb\r\nc\x0bd\x0ce\x85f\u2028g\u2029h",
    "a terminal's commands": "\x1b[2J\x1b]0;title\x07\x9b31m\x7f\x08",
    "a lone surrogate": "\ud800 and \udfff",
    "NUL": "\x00",
    "other scripts": "日本語 é 🎏",
    "a forged line": '"}\n{"seq":1,"event":"run.ended"}',
    "a very long text": "é" * 300_000,
}

hostile = pytest.mark.parametrize(
    "text", [pytest.param(text, id=name) for name, text in HOSTILE_TEXTS.items()]
)


def write_lines(path: Path, lines: Iterable[Event], moment: datetime = NOON) -> bytes:
    """Write a journal and return its bytes."""
    path.unlink(missing_ok=True)
    journal = writer.create(path, lambda: moment)
    for line in lines:
        journal.write(line)
    journal.close()
    return path.read_bytes()


def read_events(path: Path) -> list[Event]:
    return [parse_line(line).event for line in read_lines(path)]


# The format


def test_the_examples_are_of_every_event() -> None:
    assert EXAMPLES.keys() == FIELDS.keys() == set(EVENT_NAMES.values())


@pytest.mark.parametrize("event", list(EXAMPLES))
def test_a_line_holds_its_number_time_and_event_and_then_the_fields_of_the_event(
    event: str, tmp_path: Path
) -> None:
    line = json.loads(write_lines(tmp_path / "j", [EXAMPLES[event]]))
    assert list(line) == ["seq", "ts", "event", *FIELDS[event].split()]
    assert line["event"] == event
    assert tuple(list(line.values())[3:]) == tuple(EXAMPLES[event])


def test_lines_are_numbered_from_zero_and_without_gaps(tmp_path: Path) -> None:
    written = write_lines(tmp_path / "j", EXAMPLES.values())
    assert [json.loads(line)["seq"] for line in written.splitlines()] == list(range(len(EXAMPLES)))


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        pytest.param(NOON, "2026-11-30T12:00:00.007Z", id="milliseconds"),
        pytest.param(NOON.replace(microsecond=0), "2026-11-30T12:00:00.000Z", id="none of them"),
        pytest.param(NOON.replace(microsecond=999_999), "2026-11-30T12:00:00.999Z", id="cut off"),
        pytest.param(
            NOON.astimezone(timezone(timedelta(hours=5, minutes=45))),
            "2026-11-30T12:00:00.007Z",
            id="of another zone",
        ),
    ],
)
def test_times_are_utc_with_milliseconds(moment: datetime, expected: str, tmp_path: Path) -> None:
    line = json.loads(write_lines(tmp_path / "j", [EXAMPLES["refused"]], moment))
    assert line["ts"] == expected


@hostile
def test_whatever_a_text_holds_its_line_is_printable_ascii_and_reads_back(
    text: str, tmp_path: Path
) -> None:
    path = tmp_path / "j"
    lines: list[Event] = [
        events.Refused({"type": "next"}, text),
        events.FieldsDiverged({text: {"predicted": 1, "observed": [text, {text: text}]}}),
    ]
    written = write_lines(path, lines)
    assert written.count(b"\n") == 2
    assert re.fullmatch(rb"[ -~\n]*", written)
    assert read_events(path) == lines


@pytest.mark.parametrize("word", ["event", "level", "timestamp", "exc_info", "seq", "ts", "msg"])
def test_no_word_of_the_service_stands_beside_our_own_or_in_their_place(
    word: str, tmp_path: Path
) -> None:
    path = tmp_path / "j"
    lines: list[Event] = [
        events.FieldsDiverged({word: {"predicted": 1, "observed": {word: True}}}),
        started(RUN, spec={word: word}, spec_sha256="0"),
    ]
    first, second = map(json.loads, write_lines(path, lines).splitlines())
    assert list(first) == ["seq", "ts", "event", "fields"]
    assert (first["seq"], first["ts"], first["event"]) == (
        0,
        "2026-11-30T12:00:00.007Z",
        "diverged",
    )
    assert list(second)[3:] == FIELDS["run.started"].split()
    assert read_events(path) == lines


def test_a_number_that_json_cannot_hold_is_written_as_a_text(tmp_path: Path) -> None:
    observed = json.loads('[1e999, -1e999, {"deep": [1e999]}, 1e300]')
    event = events.FieldsDiverged({"score": {"predicted": 1, "observed": observed}})
    line = json.loads(write_lines(tmp_path / "j", [event]))
    assert line["fields"]["score"]["observed"] == ["inf", "-inf", {"deep": ["inf"]}, 1e300]


A_NUMBER: Final = "a line number from 0 to 2^53 - 1"
COUNT: Final = "a whole number from 0 to 2^53 - 1"
NOT_EMPTY: Final = "a text that is not empty"
EVENTS: Final = (
    "run.started, action, retry, refused, layout, diverged, run.resumed, run.suspended, "
    "run.abandoned, run.ended"
)

REFUSED: Final[list[tuple[str, str, object, str]]] = [
    ("refused", "seq", -1, f"seq is -1, expected {A_NUMBER}"),
    ("refused", "seq", 2**53, f"seq is 9007199254740992, expected {A_NUMBER}"),
    ("refused", "seq", True, f"seq is True, expected {A_NUMBER}"),
    ("refused", "ts", 7, "ts is 7, expected a time such as 2026-11-30T02:41:07.123Z"),
    ("refused", "event", "tick", f"event is 'tick', expected one of {EVENTS}"),
    ("refused", "event", None, f"event is None, expected one of {EVENTS}"),
    ("refused", "action", {"type": 7}, "action is {'type': 7}, expected an action"),
    ("refused", "action", "next", "action is 'next', expected an action"),
    ("refused", "reason", None, "reason is None, expected a text"),
    ("run.started", "journal_version", True, "journal_version is True, expected 1"),
    ("run.started", "run_id", "", "run_id is '', expected a text of 1 to 500 characters"),
    ("run.started", "seed", -1, f"seed is -1, expected {COUNT}"),
    ("run.started", "bank_rule", "", f"bank_rule is '', expected {NOT_EMPTY}"),
    ("run.started", "state", [], "state is [], expected an object"),
    ("run.started", "spec_sha256", "", f"spec_sha256 is '', expected {NOT_EMPTY} or null"),
    ("run.started", "spec_sha256", False, f"spec_sha256 is False, expected {NOT_EMPTY} or null"),
    ("action", "award", 215.0, "award is 215.0, expected a whole number"),
    ("action", "score", 215.0, f"score is 215.0, expected {COUNT}"),
    ("action", "phase", "", f"phase is '', expected {NOT_EMPTY}"),
    ("action", "garland", [1, True], "garland is [1, True], expected a list of whole numbers"),
    ("action", "elapsed_ms", -0.5, "elapsed_ms is -0.5, expected a time"),
    ("retry", "what", "bank", "what is 'bank', expected init or an action"),
    ("retry", "what", {"kind": 1}, "what is {'kind': 1}, expected init or an action"),
    ("retry", "status", -1, f"status is -1, expected {COUNT} or null"),
    ("retry", "status", "503", f"status is '503', expected {COUNT} or null"),
    ("retry", "wait_s", float("inf"), "expected a time"),
    ("diverged", "fields", None, "fields is None, expected an object"),
    ("run.ended", "end_reason", "", f"end_reason is '', expected {NOT_EMPTY}"),
]
"""A line, one of its fields, a value that it cannot have, and the end of what is said of it."""


@pytest.mark.parametrize(("event", "field", "value", "text"), REFUSED)
def test_a_field_of_another_kind_is_told_with_what_it_should_be(
    event: str, field: str, value: object, text: str, tmp_path: Path
) -> None:
    record = json.loads(write_lines(tmp_path / "j", [EXAMPLES[event]]))
    line = json.dumps({**record, field: value}).replace("Infinity", "1e999").encode() + b"\n"
    with pytest.raises(LineError) as caught:
        parse_line(RawLine(1, line, len(line), is_whole=True))
    assert str(caught.value).endswith(text)
    assert caught.value.field == field


ALLOWED: Final[list[tuple[str, str, object]]] = [
    ("run.started", "seed", 0),
    ("run.started", "spec", None),
    ("run.started", "spec", [1.5]),
    ("run.started", "spec_sha256", None),
    ("action", "action", {"count": 5, "type": "flip"}),
    ("action", "award", -5),
    ("action", "garland", []),
    ("action", "leaves", -1),
    ("action", "elapsed_ms", 0),
    ("retry", "what", "init"),
    ("retry", "cause", ""),
    ("retry", "status", None),
    ("retry", "status", 0),
]


@pytest.mark.parametrize(("event", "field", "value"), ALLOWED)
def test_a_field_may_be_whatever_is_of_its_kind(
    event: str, field: str, value: object, tmp_path: Path
) -> None:
    record = json.loads(write_lines(tmp_path / "j", [EXAMPLES[event]]))
    line = json.dumps({**record, field: value}).encode() + b"\n"
    entry = parse_line(RawLine(1, line, len(line), is_whole=True))
    assert entry.event._asdict() == {**EXAMPLES[event]._asdict(), field: value}


# Format, then parse

TEXTS: Final = st.text(st.characters()).map(lambda text: json.loads(json.dumps(text)))
NAMES: Final = TEXTS.filter(bool)
COUNTS: Final = st.integers(0, 2**53 - 1)
SECONDS: Final = st.floats(0, 1e9) | st.integers(0, 10**9)
ACTIONS: Final = st.sampled_from(
    [action.to_json() for action in (*rules.FLIPS, *rules.PLAIN_ACTIONS.values())]
)
VALUES: Final = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
OBJECTS: Final = st.dictionaries(TEXTS, VALUES, max_size=3)
RULES: Final = st.sampled_from(["at-least", "at-most", "exactly"])

ANY_EVENT: Final[st.SearchStrategy[Event]] = st.one_of(
    st.builds(
        events.RunStarted,
        journal_version=st.just(1),
        run_id=NAMES,
        bot_version=NAMES,
        base_url=NAMES,
        seed=COUNTS,
        bank_at=COUNTS,
        bank_rule=RULES,
        token=NAMES,
        state=OBJECTS,
        wire=OBJECTS,
        spec=VALUES,
        spec_sha256=st.none() | NAMES,
    ),
    st.builds(
        events.ActionTaken,
        turn=COUNTS,
        action=ACTIONS,
        token=NAMES,
        award=COUNTS,
        score=COUNTS,
        phase=st.sampled_from(rules.PHASES),
        board=COUNTS,
        template=COUNTS,
        garland=st.lists(st.integers(-5, 5)),
        moves_used=COUNTS,
        move_budget=COUNTS,
        leaves=COUNTS,
        attempts=COUNTS,
        elapsed_ms=SECONDS,
    ),
    st.builds(
        events.Retried,
        what=st.just("init") | ACTIONS,
        attempt=COUNTS,
        cause=NAMES,
        status=st.none() | COUNTS,
        excerpt=TEXTS,
        wait_s=SECONDS,
    ),
    st.builds(events.Refused, action=ACTIONS, reason=TEXTS),
    st.builds(events.FieldsDiverged, fields=st.dictionaries(TEXTS, OBJECTS, max_size=3)),
    st.builds(
        events.RunResumed,
        from_seq=COUNTS,
        bank_at=COUNTS,
        bank_rule=RULES,
        bot_version=NAMES,
        cut_bytes=COUNTS,
    ),
    st.builds(events.RunSuspended, reason=NAMES, exit_code=COUNTS),
    st.builds(events.RunAbandoned, reason=NAMES),
    st.builds(
        events.RunEnded,
        end_reason=st.sampled_from(rules.END_REASONS),
        score=COUNTS,
        boards=COUNTS,
        flips=COUNTS,
        requests=COUNTS,
        retries=COUNTS,
        seconds=SECONDS,
    ),
)


@settings(deadline=None, max_examples=100)
@given(lines=st.lists(ANY_EVENT, min_size=1, max_size=4))
def test_what_is_written_is_what_is_read_back(
    lines: list[Event], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "round-trip"
    written = write_lines(path, lines)
    entries = [parse_line(line) for line in read_lines(path)]
    assert [entry.event for entry in entries] == lines
    assert [repr(entry.event) for entry in entries] == [repr(line) for line in lines]
    assert [entry.seq for entry in entries] == list(range(len(lines)))
    assert written.isascii()


# Reading a line


def parse(line: bytes, *, is_whole: bool = True) -> Entry:
    return parse_line(RawLine(7, line, 0, is_whole))


A_LINE: Final = (
    b'{"seq":3,"ts":"2026-11-30T12:00:00.007Z","event":"refused",'
    b'"action":{"type":"next"},"reason":"no"}'
)


def test_a_line_is_told_from_the_file_with_its_number_place_and_time() -> None:
    event = events.Refused({"type": "next"}, "no")
    assert parse(A_LINE) == (7, 3, "2026-11-30T12:00:00.007Z", event)


@pytest.mark.parametrize(
    "line",
    [
        A_LINE + b"\r\n",
        b" \t" + A_LINE.replace(b":", b" : ").replace(b"12 : 00 : 00", b"12:00:00"),
        json.dumps(json.loads(A_LINE), sort_keys=True).encode(),
        json.dumps(dict(reversed(json.loads(A_LINE).items()))).encode(),
    ],
    ids=["with CRLF", "with spaces", "with sorted names", "backwards"],
)
def test_a_line_that_another_program_wrote_says_the_same(line: bytes) -> None:
    assert parse(line) == parse(A_LINE)


@pytest.mark.parametrize(
    ("line", "logged"),
    [
        (b"[]", "[]"),
        (b"7", "7"),
        (b"", ""),
        (b"{", "{"),
        (A_LINE + b"x", A_LINE[:40].decode()),
        (A_LINE + A_LINE, A_LINE[:40].decode()),
        (A_LINE.replace(b'"no"', b"NaN"), A_LINE[:40].decode()),
        (A_LINE.replace(b'"reason"', b'"action"'), A_LINE[:40].decode()),
        (b'{"a":{"b":1,"b":2}}', '{"a":{"b":1,"b":2}}'),
        (b"\xff" * 50, "\ufffd" * 40),
    ],
    ids=[
        "a list",
        "a number",
        "nothing",
        "half",
        "with more",
        "twice",
        "NaN",
        "a name twice",
        "a name twice, inside",
        "no UTF-8",
    ],
)
def test_a_line_that_is_no_object_is_told_by_its_first_40_bytes(line: bytes, logged: str) -> None:
    with pytest.raises(LineError) as caught:
        parse(line)
    problem = caught.value
    assert (problem.field, problem.logged, problem.expected) == ("line", logged, "a JSON object")


def test_a_line_without_its_end_is_told_by_its_first_40_bytes() -> None:
    with pytest.raises(LineError) as caught:
        parse(b"\xff" + A_LINE, is_whole=False)
    problem = caught.value
    assert (problem.field, problem.logged) == ("line", "\ufffd" + A_LINE[:39].decode())
    assert problem.expected == "a whole line with its line end"


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (b'"seq":3,', b"", f"seq is 'missing', expected {A_NUMBER}"),
        (b',"reason":"no"', b"", "reason is 'missing', expected a text"),
        (b'"no"}', b'"no","more":1}', "more is 1, expected no such field"),
        (b'"no"}', b'"no","\\u001b[2J":1}', "\\x1b[2J is 1, expected no such field"),
        (b'"no"}', b'"no","' + b"x" * 90 + b'":1}', f"{'x' * 76}.. is 1, expected no such field"),
        (b"refused", b"retry", "what is 'missing', expected init or an action"),
        (b'"refused"', b'["refused"]', f"event is ['refused'], expected one of {EVENTS}"),
    ],
)
def test_a_line_is_told_by_the_first_field_that_is_wrong(old: bytes, new: bytes, text: str) -> None:
    with pytest.raises(LineError) as caught:
        parse(A_LINE.replace(old, new))
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("time", "is_right"),
    [
        ("2026-11-30T02:41:07.123Z", True),
        ("2028-02-29T23:59:59.999Z", True),
        ("2026-02-29T02:41:07.123Z", False),
        ("2026-11-30T24:41:07.123Z", False),
        ("2026-11-30T02:41:07Z", False),
        ("2026-11-30T02:41:07.123+00:00", False),
        ("2026-11-30T02:41:07.123Z ", False),
        ("\u0662026-11-30T02:41:07.123Z", False),
    ],
)
def test_a_time_is_one_of_the_calendar_in_one_writing(time: str, is_right: bool) -> None:
    assert is_time(time) is is_right
    if is_right:
        assert format_time(parse_time(time)) == time


def test_a_value_of_another_type_is_no_time() -> None:
    assert not is_time(20261130)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (A_LINE, True),
        (b'{"seq":"x","ts":1,"event":null}', True),
        (b'{"seq":0,"journal_version":1,"event":"x"}', True),
        (b'{"seq":0,"ts":1}', False),
        (b'{"time":0,"level":1,"event":"x"}', False),
        (b"[]", False),
    ],
)
def test_a_line_looks_like_one_of_a_journal_that_has_three_of_its_marks(
    line: bytes, expected: bool
) -> None:
    assert is_of_a_journal(RawLine(1, line, 0, is_whole=True)) is expected


def test_the_place_of_a_line_is_that_of_its_last_byte_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "j"
    path.write_bytes(b"\xef\xbb\xbfone\n\xef\xbb\xbftwo\nrest")
    assert list(read_lines(path)) == [
        RawLine(1, b"one\n", 7, is_whole=True),
        RawLine(2, b"\xef\xbb\xbftwo\n", 14, is_whole=True),
        RawLine(3, b"rest", 18, is_whole=False, is_torn=True),
    ]


def test_a_first_line_that_is_too_long_is_of_no_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "MAX_LINE", 10)
    path = tmp_path / "j"
    path.write_bytes(b"x" * 10 + b"\n")
    assert list(read_lines(path)) == [RawLine(1, b"x" * 10 + b"\n", 11, is_whole=True)]
    path.write_bytes(b"x" * 10)
    assert list(read_lines(path)) == [RawLine(1, b"x" * 10, 10, is_whole=False, is_torn=True)]
    path.write_bytes(b"x" * 11 + b"\n")
    with told(NotAJournal, f"{path} is no journal: a line is over 10 bytes"):
        list(read_lines(path))


def test_what_is_no_file_is_no_journal(tmp_path: Path) -> None:
    with told(NotAJournal, f"{tmp_path} is no journal: a folder, not a plain file"):
        list(read_lines(tmp_path))


# Writing


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put the machine into another time zone."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "NPT-05:45")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("elsewhere")
def test_times_and_names_are_utc_wherever_the_machine_is(tmp_path: Path) -> None:
    assert new_run_id(7, NOON).startswith("20261130T120000Z-seed7-")
    line = json.loads(write_lines(tmp_path / "j", [EXAMPLES["refused"]]))
    assert line["ts"] == "2026-11-30T12:00:00.007Z"


def test_the_award_of_an_action_is_what_it_adds_to_the_score() -> None:
    steps = list(plan_game(Goal(430)))
    assert [taken(before, action).award for before, action, _ in steps] == [215, 0, 0, 215, 0]


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    """Put a disk under the writer that the test can break."""
    fake = Disk()
    monkeypatch.setattr(writer, "os", fake)
    return fake


@pytest.mark.parametrize("room", [0, 1, 40, 87], ids="{} bytes of room".format)
def test_a_line_that_does_not_fit_is_not_in_the_file_at_all(
    room: int, disk: Disk, tmp_path: Path
) -> None:
    path = tmp_path / "j"
    journal = writer.create(path, lambda: NOON)
    journal.write(EXAMPLES["run.suspended"])
    before = path.read_bytes()
    disk.room = room
    with told(JournalError, f"cannot write the journal {path}: No space left on device"):
        journal.write(EXAMPLES["refused"])
    assert path.read_bytes() == before
    disk.room = 10_000
    journal.write(EXAMPLES["refused"])
    journal.close()
    assert [json.loads(line)["seq"] for line in path.read_bytes().splitlines()] == [0, 1]


def test_a_disk_that_takes_a_line_in_pieces_gets_all_of_it(disk: Disk, tmp_path: Path) -> None:
    whole = write_lines(tmp_path / "whole", EXAMPLES.values())
    disk.longest_write = 7
    assert write_lines(tmp_path / "pieces", EXAMPLES.values()) == whole


def test_a_line_that_fits_in_part_leaves_all_lines_before_it(disk: Disk, tmp_path: Path) -> None:
    path = tmp_path / "j"
    whole = write_lines(path, [EXAMPLES["refused"]])
    journal = writer.reopen(path, len(whole), 1, lambda: NOON)
    journal.write(EXAMPLES["run.suspended"])
    before = path.read_bytes()
    disk.room, disk.longest_write = 40, 7
    with pytest.raises(JournalError):
        journal.write(EXAMPLES["run.resumed"])
    journal.close()
    assert path.read_bytes() == before


def test_a_journal_knows_its_place_its_next_line_and_its_last_time(tmp_path: Path) -> None:
    journal = writer.create(tmp_path / "j", lambda: NOON)
    assert (journal.path, journal.next_seq, journal.last_ts) == (tmp_path / "j", 0, "")
    journal.write(EXAMPLES["refused"])
    assert (journal.next_seq, journal.last_ts) == (1, "2026-11-30T12:00:00.007Z")
    journal.close()
    with pytest.raises(JournalError):
        journal.sync()


def test_a_journal_is_for_its_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write_lines(tmp_path / "j", [EXAMPLES["refused"]])
    finally:
        os.umask(before)
    assert (tmp_path / "j").stat().st_mode & 0o777 == 0o600


def test_a_journal_that_all_could_read_is_its_owners_alone_once_it_is_gone_on_with(
    tmp_path: Path,
) -> None:
    path = tmp_path / "j"
    size = len(write_lines(path, [EXAMPLES["refused"]]))
    path.chmod(0o644)
    writer.reopen(path, size, 1, lambda: NOON).close()
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_disk_without_modes_does_not_stop_the_game(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "j"
    size = len(write_lines(path, [EXAMPLES["refused"]]))

    def fchmod(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "fchmod", fchmod)
    writer.reopen(path, size, 1, lambda: NOON).close()


def test_a_disk_that_turned_read_only_is_an_error_of_the_journal(
    disk: Disk, tmp_path: Path
) -> None:
    journal = writer.create(tmp_path / "j", lambda: NOON)
    disk.room, disk.error, disk.truncate_error = 0, errno.EROFS, errno.EROFS
    with told(JournalError, f"cannot write the journal {tmp_path / 'j'}: Read-only file system"):
        journal.write(EXAMPLES["refused"])
    journal.close()


@pytest.mark.parametrize("number", [errno.EIO, errno.EINVAL, errno.ENOSYS, errno.EACCES])
def test_a_folder_that_cannot_be_synced_is_done_without(
    number: int, disk: Disk, tmp_path: Path
) -> None:
    disk.sync_error = number
    journal = writer.create(tmp_path / "j", lambda: NOON)
    disk.sync_error = 0
    journal.write(EXAMPLES["refused"])
    journal.sync()
    journal.close()
    assert read_events(tmp_path / "j") == [EXAMPLES["refused"]]


def test_a_folder_that_cannot_be_opened_is_done_without(tmp_path: Path) -> None:
    writer.sync_folder(tmp_path / "missing")


def test_a_sync_that_fails_is_an_error_of_the_journal(disk: Disk, tmp_path: Path) -> None:
    journal = writer.create(tmp_path / "j", lambda: NOON)
    disk.sync_error = errno.EIO
    with told(JournalError, f"cannot sync the journal {tmp_path / 'j'}: Input/output error"):
        journal.sync()
    journal.close()


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOSYS, errno.ENOTSUP])
@pytest.mark.parametrize("has_fsync", [True, False], ids=["no fdatasync", "no syncing at all"])
def test_a_disk_that_knows_no_such_syncing_does_not_stop_the_game(
    has_fsync: bool, number: int, disk: Disk, tmp_path: Path
) -> None:
    journal = writer.create(tmp_path / "j", lambda: NOON)
    calls = []

    def call(name: str, *, fails: bool) -> Callable[[int], None]:
        def sync(_: int) -> None:
            calls.append(name)
            if fails:
                raise OSError(number, os.strerror(number))

        return sync

    disk.fdatasync = call("fdatasync", fails=True)  # type: ignore[assignment,method-assign]  # of this disk
    disk.fsync = call("fsync", fails=not has_fsync)  # type: ignore[assignment,method-assign]  # of this disk
    journal.write(EXAMPLES["refused"])
    journal.sync()
    journal.close()
    assert calls == ["fdatasync", "fsync"]


def test_a_disk_that_falls_back_to_another_syncing_and_fails_is_an_error_of_the_journal(
    disk: Disk, tmp_path: Path
) -> None:
    journal = writer.create(tmp_path / "j", lambda: NOON)

    def fdatasync(_: int) -> None:
        disk.sync_error = errno.EIO
        raise OSError(errno.ENOSYS, "Function not implemented")

    disk.fdatasync = fdatasync  # type: ignore[method-assign]  # the disk of this test
    with told(JournalError, f"cannot sync the journal {tmp_path / 'j'}: Input/output error"):
        journal.sync()
    journal.close()


def test_a_journal_in_which_nothing_was_written_is_removed(disk: Disk, tmp_path: Path) -> None:
    path = tmp_path / "j"
    journal = writer.create(path, lambda: NOON)
    disk.room = 0
    with pytest.raises(JournalError):
        journal.write(EXAMPLES["run.started"])
    journal.close()
    assert not path.exists()


def test_a_file_in_the_place_of_an_empty_journal_is_not_removed(disk: Disk, tmp_path: Path) -> None:
    path = tmp_path / "j"
    journal = writer.create(path, lambda: NOON)
    path.unlink()
    path.write_bytes(b"")
    disk.room = 0
    with pytest.raises(JournalError):
        journal.write(EXAMPLES["run.started"])
    journal.close()
    assert path.exists()


def removed(path: Path) -> None:
    path.unlink()


def its_folder_removed(path: Path) -> None:
    path.unlink()
    path.parent.rmdir()


def its_folder_a_file(path: Path) -> None:
    its_folder_removed(path)
    path.parent.touch()


def packed(path: Path) -> None:
    subprocess.run(["gzip", path], check=True)


def edited_in_place(path: Path) -> None:
    subprocess.run(["sed", "-i", "s/x/y/", path], check=True)


def linked(path: Path) -> None:
    path.rename(path.with_name("moved"))
    path.symlink_to("moved")


def cut(path: Path) -> None:
    os.truncate(path, 9)


def written_anew(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"more\n")


@pytest.mark.parametrize(
    ("happen", "what"),
    [
        (removed, "was removed"),
        (its_folder_removed, "was removed"),
        (its_folder_a_file, "cannot be looked at (Not a directory)"),
        (packed, "was removed"),
        (edited_in_place, "was replaced by another file"),
        (linked, "was replaced by another file"),
        (cut, "was cut from 114 to 9 bytes"),
        (written_anew, "has 5 bytes that something else wrote"),
    ],
)
def test_what_happens_to_a_journal_under_its_writer_is_told_at_the_next_sync(
    happen: Callable[[Path], None], what: str, tmp_path: Path
) -> None:
    path = tmp_path / "runs" / "j"
    path.parent.mkdir()
    journal = writer.create(path, lambda: NOON)
    journal.write(EXAMPLES["refused"])
    journal.sync()
    happen(path)
    with told(
        JournalError,
        f"the journal {path} {what} while it was in use; see that nothing else writes, moves or "
        f"cleans up in the runs folder",
    ):
        journal.sync()
    journal.close()


def test_a_journal_is_never_written_over(tmp_path: Path) -> None:
    (tmp_path / "j").write_text("precious")
    with told(JournalError, f"cannot make the journal {tmp_path / 'j'}: File exists"):
        writer.create(tmp_path / "j", lambda: NOON)
    assert (tmp_path / "j").read_text() == "precious"


def test_a_journal_that_is_gone_cannot_be_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "j"
    with told(JournalError, f"cannot resume the journal {path}: No such file or directory"):
        writer.reopen(path, 0, 0, lambda: NOON)


def test_going_on_cuts_the_torn_tail_and_appends(tmp_path: Path) -> None:
    path = tmp_path / "j"
    whole = write_lines(path, [EXAMPLES["run.started"]])
    torn = b'{"seq":1,"ts"'
    path.write_bytes(whole + torn)
    journal = writer.reopen(path, len(whole), 1, lambda: NOON, len(torn))
    assert journal.path == path
    journal.write(EXAMPLES["run.resumed"])
    journal.sync()
    journal.close()
    assert path.read_bytes().startswith(whole)
    assert read_events(path) == [EXAMPLES["run.started"], EXAMPLES["run.resumed"]]


def test_a_journal_that_grew_since_it_was_read_is_not_cut(tmp_path: Path) -> None:
    path = tmp_path / "j"
    whole = write_lines(path, [EXAMPLES["run.started"], EXAMPLES["refused"]])
    with pytest.raises(JournalError, match="has 7 bytes that something else wrote"):
        writer.reopen(path, len(whole) - 10, 1, lambda: NOON, 3)
    assert path.read_bytes() == whole


@pytest.mark.parametrize(
    ("put", "kind"),
    [(os.mkfifo, "a FIFO"), (Path.mkdir, "a folder"), (lambda p: p.symlink_to("j"), "a link")],
    ids=["fifo", "folder", "link"],
)
def test_what_is_no_plain_file_cannot_be_gone_on_with(
    put: Callable[[Path], None], kind: str, tmp_path: Path
) -> None:
    write_lines(tmp_path / "j", [EXAMPLES["run.started"]])
    path = tmp_path / "odd"
    put(path)
    with told(JournalError, f"cannot resume the journal {path}: {kind}, not a plain file"):
        writer.reopen(path, 0, 0, lambda: NOON)


def test_a_line_that_could_not_be_read_back_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "j"
    journal = writer.create(path, lambda: NOON)
    journal.write(EXAMPLES["refused"])
    before = path.read_bytes()
    monkeypatch.setattr(writer, "MAX_LINE", len(before) - 1)
    journal.write(EXAMPLES["refused"])
    twice = path.read_bytes()
    with pytest.raises(JournalError, match=r"a line of \d+ bytes has more than"):
        journal.write(events.Refused({"type": "next"}, "no" * 20))
    assert (path.read_bytes(), journal.next_seq) == (twice, 2)
    journal.close()


def nested(levels: int) -> object:
    """Return a list that is nested so deep."""
    return json.loads("[" * levels + "]" * levels)


def test_a_line_holds_what_an_answer_may_hold_and_no_deeper(tmp_path: Path) -> None:
    path = tmp_path / "j"
    journal = writer.create(path, lambda: NOON)
    lines: list[Event] = [
        started(RUN, spec=nested(100)),
        events.FieldsDiverged({"x": {"predicted": 1, "observed": nested(100)}}),
        started(RUN, spec=nested(reader.MAX_DEPTH - 1)),
    ]
    for line in lines:
        journal.write(line)
    with pytest.raises(JournalError, match="or more than 120 levels"):
        journal.write(started(RUN, spec=nested(reader.MAX_DEPTH)))
    journal.close()
    assert read_events(path) == lines


# The folder


def test_a_run_is_named_by_its_start_its_seed_and_four_hex_digits() -> None:
    run_id = new_run_id(7, datetime(2026, 11, 30, 4, 41, 7, tzinfo=timezone(timedelta(hours=2))))
    assert re.fullmatch(r"20261130T024107Z-seed7-[0-9a-f]{4}", run_id)
    assert parse_run_id(run_id) == ("20261130T024107Z", 7)
    assert parse_run_id("99991231T235958Z-seed7-00ff") == ("99991231T235958Z", 7)


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz"])
@pytest.mark.parametrize(
    ("now", "expected"),
    [
        pytest.param(datetime(2026, 11, 30, 2, 0, tzinfo=UTC), "024108", id="set back"),
        pytest.param(datetime(2026, 11, 30, 2, 41, 7, 9, tzinfo=UTC), "024108", id="same second"),
        pytest.param(datetime(2026, 11, 30, 2, 41, 8, 9, tzinfo=UTC), "024108", id="next second"),
        pytest.param(datetime(2026, 11, 30, 3, 0, tzinfo=UTC), "030000", id="later"),
    ],
)
def test_a_run_has_a_later_name_than_the_last_one_whatever_the_clock_says(
    now: datetime, expected: str, suffix: str
) -> None:
    run_id = new_run_id(7, now, Path("runs") / f"{RUN}{suffix}")
    assert run_id.startswith(f"20261130T{expected}Z-seed7-")


def test_a_run_after_a_file_of_another_name_is_named_by_the_clock() -> None:
    assert new_run_id(7, NOON, Path("copy.jsonl")).startswith("20261130T120000Z-seed7-")


@pytest.mark.parametrize(
    "name",
    [
        "notes.txt",
        "20261130T024107Z-seed7-00ff.jsonl.bak",
        "20269999T024107Z-seed7-00ff.jsonl",
        "99991231T235959Z-seed7-00ff.jsonl",
        "20261130T024107Z-seed-7-00ff.jsonl",
        "20261130T024107Z-seed7-00FF.jsonl",
        "\u0662\u0660261130T024107Z-seed7-00ff.jsonl",
        "x20261130T024107Z-seed7-00ff.jsonl",
    ],
)
def test_other_files_in_the_folder_are_no_journals(name: str, tmp_path: Path) -> None:
    (tmp_path / name).touch()
    assert list(journals(tmp_path)) == []


def test_a_folder_that_is_not_there_holds_no_journals(tmp_path: Path) -> None:
    assert list(journals(tmp_path / "missing")) == []


def test_a_runs_folder_that_is_a_file_is_an_error_of_the_journal(tmp_path: Path) -> None:
    (tmp_path / "runs").touch()
    with told(JournalError, f"cannot read the runs folder {tmp_path / 'runs'}: Not a directory"):
        list(journals(tmp_path / "runs"))


def test_the_newest_run_is_the_one_that_started_last(tmp_path: Path) -> None:
    last = write_journal(tmp_path, LATER_RUN, [started(LATER_RUN)])
    write_journal(tmp_path, RUN, [started(RUN)])
    assert newest(tmp_path, "http://local", 7) == last


def test_a_run_that_is_compressed_while_the_newest_is_looked_for_is_the_newest_still(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_journal(tmp_path, RUN, [started(RUN)])
    last = write_journal(tmp_path, LATER_RUN, [started(LATER_RUN)])
    packed = last.with_name(f"{last.name}.gz")
    read = folder.first_entry

    def compress_and_read(path: Path) -> Entry | None:
        if path == last:
            packed.write_bytes(gzip.compress(last.read_bytes()))
            last.unlink()
        return read(path)

    monkeypatch.setattr(folder, "first_entry", compress_and_read)
    assert newest(tmp_path, "http://local", 7) == packed


def test_a_link_to_nowhere_could_be_any_run_and_counts(tmp_path: Path) -> None:
    write_journal(tmp_path, RUN, [started(RUN)])
    link = journal_path(tmp_path, LATER_RUN)
    link.symlink_to(tmp_path / "nowhere")
    assert newest(tmp_path, "http://local", 7) == link


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"base_url": "http://local/elsewhere"}, id="another service"),
        pytest.param({"seed": 8, "run_id": LATER_RUN.replace("seed7", "seed8")}, id="another seed"),
    ],
)
def test_a_run_of_another_service_or_seed_is_not_taken(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    ours = write_journal(tmp_path, RUN, [started(RUN)])
    name = changes.get("run_id", LATER_RUN)
    write_journal(tmp_path, name, [started(name)._replace(**changes)])
    assert newest(tmp_path, "http://local", 7) == ours


@pytest.mark.parametrize(
    "content",
    [b"", b'{"seq":0,"ts":"2026-', b"\0" * 512, None],
    ids=["empty", "half a line", "NUL bytes", "all but the line end"],
)
def test_a_file_whose_first_line_never_was_whole_holds_no_run(
    content: bytes | None, tmp_path: Path
) -> None:
    ours = write_journal(tmp_path, RUN, [started(RUN)])
    torn = folder.journal_path(tmp_path, LATER_RUN)
    torn.write_bytes(ours.read_bytes().rstrip(b"\n") if content is None else content)
    assert newest(tmp_path, "http://local", 7) == ours


def test_a_file_whose_first_line_is_broken_could_be_any_run_and_counts(tmp_path: Path) -> None:
    write_journal(tmp_path, RUN, [started(RUN)])
    broken = folder.journal_path(tmp_path, LATER_RUN)
    broken.write_bytes(b"garbage\n")
    assert newest(tmp_path, "http://local", 7) == broken


def test_a_journal_that_cannot_be_read_could_be_any_run_and_counts(tmp_path: Path) -> None:
    write_journal(tmp_path, RUN, [started(RUN)])
    folder.journal_path(tmp_path, LATER_RUN).mkdir()
    assert newest(tmp_path, "http://local", 7) == folder.journal_path(tmp_path, LATER_RUN)


def test_the_newest_run_is_found_among_all_others(tmp_path: Path) -> None:
    assert newest(tmp_path, "http://local", 7) is None
    for number, name in enumerate(["24101", "24102", "24109"]):
        of_another_seed = f"20261130T0{name}Z-seed8-000{number}"
        write_journal(tmp_path, of_another_seed, [started(of_another_seed, seed=8)])
    folder.journal_path(tmp_path, RUN.replace("024107", "024105")).touch()
    folder.journal_path(tmp_path, RUN.replace("024107", "024106")).write_bytes(b"garbage\n")
    assert newest(tmp_path, "http://local", 7) is not None
    ours = write_journal(tmp_path, RUN, [started(RUN)])
    assert newest(tmp_path, "http://local", 7) == ours
    packed = ours.with_name(f"{ours.name}.gz")
    packed.write_bytes(gzip.compress(ours.read_bytes()))
    ours.unlink()
    assert newest(tmp_path, "http://local", 7) == packed


def test_of_two_runs_of_a_second_the_one_with_a_time_in_its_first_line_is_the_newer(
    tmp_path: Path,
) -> None:
    folder.journal_path(tmp_path, RUN.replace("00ff", "ffff")).write_bytes(b"garbage\n")
    ours = write_journal(tmp_path, RUN, [started(RUN)])
    assert newest(tmp_path, "http://local", 7) == ours


def test_the_last_start_on_a_service_is_told_by_the_first_lines_of_all_seeds(
    tmp_path: Path,
) -> None:
    assert folder.last_start(tmp_path, "http://local") is None
    write_journal(tmp_path, RUN, [started(RUN)])
    of_another_seed = LATER_RUN.replace("seed7", "seed8")
    expected = started(of_another_seed, seed=8)
    write_journal(tmp_path, of_another_seed, [expected])
    latest = RUN.replace("024107", "034107")
    write_journal(tmp_path, latest, [started(latest, base_url="http://elsewhere")])
    folder.journal_path(tmp_path, RUN.replace("0241", "0001")).write_bytes(b"garbage\n")
    folder.journal_path(tmp_path, RUN.replace("0241", "0002")).mkdir()
    folder.journal_path(tmp_path, RUN.replace("0241", "0003")).touch()
    write_journal(tmp_path, RUN.replace("0241", "0004"), [EXAMPLES["refused"]])
    assert folder.last_start(tmp_path, "http://local") == expected


def test_the_last_start_has_the_latest_name_though_the_clock_was_set_back_since(
    tmp_path: Path,
) -> None:
    written_later = write_journal(tmp_path, LATER_RUN, [started(LATER_RUN)])
    written_later.rename(journal_path(tmp_path, RUN.replace("0241", "0001")))
    expected = started(RUN)
    write_journal(tmp_path, RUN, [expected])
    assert folder.last_start(tmp_path, "http://local") == expected


# What goes wrong at the beginning


def refuse(error: OSError) -> Callable[..., None]:
    """Return what does nothing but fail."""

    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


def test_a_journal_that_cannot_be_made_is_told_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = PermissionError(errno.EACCES, "Permission denied")
    monkeypatch.setattr(writer, "open_plain", refuse(error))
    path = tmp_path / "j"
    with told(JournalError, f"cannot make the journal {path}: Permission denied"):
        writer.create(path, lambda: NOON)


def test_a_journal_that_cannot_be_cut_is_told_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "j"
    whole = write_lines(path, [EXAMPLES["run.started"]])
    monkeypatch.setattr(os, "ftruncate", refuse(OSError(errno.EIO, "Input/output error")))
    with told(JournalError, f"cannot resume the journal {path}: Input/output error"):
        writer.reopen(path, len(whole), 1, lambda: NOON)


@pytest.mark.parametrize("is_removed", [False, True])
def test_of_a_first_line_that_cannot_be_written_that_alone_is_told(
    is_removed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "j"
    journal = writer.create(path, lambda: NOON)
    if is_removed:
        path.unlink()
    else:
        monkeypatch.setattr(Path, "unlink", refuse(OSError(errno.EACCES, "Permission denied")))
    with pytest.raises(JournalError, match=r"cannot write the journal .*: a line of"):
        journal.write(events.RunAbandoned("x" * (reader.MAX_LINE + 1)))
    journal.close()


# Finding journals


def test_a_file_that_is_listed_and_not_there_counts_as_it_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_journal(tmp_path, RUN, [started(RUN)])

    def lose(_: Path) -> Entry:
        raise NotAJournal("gone") from FileNotFoundError()

    monkeypatch.setattr(folder, "first_entry", lose)
    assert newest(tmp_path, "http://local", 7) == path


def test_what_takes_the_place_of_a_file_that_goes_meanwhile_goes_by_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = write_journal(tmp_path, RUN, [started(RUN)])
    ahead = "20261202T000000Z-seed7-0000"
    write_journal(tmp_path, ahead, [started(ahead), EXAMPLES["run.ended"]])
    goes = write_journal(tmp_path, LATER_RUN, [started(LATER_RUN)])
    first_entry = folder.first_entry

    def lose(path: Path) -> Entry | None:
        goes.unlink(missing_ok=True)
        if path == goes:
            raise NotAJournal("gone") from FileNotFoundError()
        return first_entry(path)

    monkeypatch.setattr(folder, "first_entry", lose)
    assert newest(tmp_path, "http://local", 7, NOON) == ours


def test_tomorrow_is_told_by_the_time_of_greenwich(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Clock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            assert tz is UTC
            return cls.fromisoformat(NOON.isoformat())

    monkeypatch.setattr(folder, "datetime", Clock)
    assert folder.dated_ahead(tmp_path) == []


def test_a_run_that_cannot_be_read_is_not_a_finished_one(tmp_path: Path) -> None:
    assert not folder.is_surely_finished(tmp_path / "missing")


def test_a_journal_is_found_as_it_was_named_but_for_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = write_journal(tmp_path, RUN, [started(RUN)])
    named = Path(path.name)
    assert folder.find(tmp_path, str(named)) == named
    Path("link").symlink_to(named)
    assert folder.find(tmp_path, "link") == path.resolve()
    with told(UsageError, "--seed says which run is the latest; it does not go with 'link'"):
        folder.find(tmp_path, "link", seed=7)
    with told(
        UsageError, f"--seed says which run is the latest; it does not go with {'x' * 200!r}"
    ):
        folder.find(tmp_path, "x" * 300, seed=7)


@pytest.mark.parametrize("numbers", [(1, 2), (2, 1)], ids=str)
def test_of_two_starts_in_a_second_the_later_line_is_the_last(
    numbers: tuple[int, int], tmp_path: Path
) -> None:
    for number, moment in zip(numbers, (NOON, NOON + timedelta(seconds=1)), strict=True):
        name = f"{RUN[:-1]}{number}"
        write_lines(journal_path(tmp_path, name), [started(name)], moment)
    found = folder.last_start(tmp_path, "http://local")
    assert found is not None
    assert found.run_id == f"{RUN[:-1]}{numbers[1]}"


# Packed files


class Sized(io.BytesIO):
    """A file of which no more may be read at a time than a block."""

    def read(self, size: int | None = -1) -> bytes:
        assert size is not None
        assert 0 < size <= 2**16
        return super().read(size)


TWO_LINES: Final = b'{"a":1}\n{"b":2}\n'


@pytest.mark.parametrize(
    "after",
    [
        b"",
        b"\0" * 600,
        b"XXX",
        b"\0" * 600 + b"XXX",
        b"\0" * 70_000 + b"XXX",
        gzip.compress(b"more\n")[:10],
    ],
    ids=["nothing", "padding", "garbage", "padded garbage", "far garbage", "a member cut off"],
)
def test_what_follows_a_gzipped_journal_is_read_as_it_is(after: bytes, tmp_path: Path) -> None:
    path = tmp_path / "j.gz"
    path.write_bytes(gzip.compress(TWO_LINES) + after)
    *whole, last = [*read_lines(path), None]
    rest = after.lstrip(b"\0")
    if rest:
        last = whole.pop()
        assert last == RawLine(3, rest, len(TWO_LINES) + len(rest), is_whole=False)
    assert b"".join(line.text for line in whole) == TWO_LINES
    assert [line.is_whole for line in whole] == [True, True]


@pytest.mark.parametrize("size", [10, 300_000])
def test_a_gzipped_file_is_read_block_by_block(size: int) -> None:
    content = random.Random(7).randbytes(size)
    packed = Sized(gzip.compress(content) + gzip.compress(content) + b"X" * 100_000)
    assert io.BufferedReader(reader._Unpacked(packed)).read() == content * 2
    alone = Sized(gzip.compress(content))
    assert io.BufferedReader(reader._Unpacked(alone)).read() == content


def test_of_a_long_rest_no_more_is_kept_than_of_a_line(tmp_path: Path) -> None:
    path = tmp_path / "j.gz"
    path.write_bytes(gzip.compress(TWO_LINES) + b"X" * (reader.MAX_LINE + 2**20))
    last = [*read_lines(path)][-1]
    assert reader.MAX_LINE <= len(last.text) <= reader.MAX_LINE + 2**16


def test_a_file_that_is_cut_off_in_its_first_bytes_is_no_journal(tmp_path: Path) -> None:
    path = tmp_path / "j.gz"
    for length in (4, 9, 10):
        path.write_bytes(gzip.compress(TWO_LINES)[:length])
        with told(NotAJournal, f"cannot read {path}: it cannot be unpacked"):
            [*read_lines(path)]


def test_the_end_of_a_line_is_known_after_one_that_is_too_long(tmp_path: Path) -> None:
    path = tmp_path / "j"
    long = b"x" * (reader.MAX_LINE + 200_000) + b"\n"
    path.write_bytes(b"{}\n" + long + b"{}\n")
    assert [line.end for line in read_lines(path)] == [3, 3 + len(long), 6 + len(long)]


@pytest.mark.parametrize("name", ["j.jsonl", "j.jsonl.gz"])
def test_a_file_is_compressed_by_what_is_in_it(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(b"{}\n")
    assert not is_compressed(path)
    path.write_bytes(gzip.compress(b"{}\n"))
    assert is_compressed(path)


# What is sent by others


def a_first_line(**changes: object) -> bytes:
    """Return the first line of a run, with other values as JSON texts."""
    line = {
        "seq": 0,
        "ts": "2026-11-30T02:41:07.000Z",
        "event": "run.started",
        **EXAMPLES["run.started"]._asdict(),
    }
    pairs = {name: json.dumps(value) for name, value in line.items()} | changes
    return ("{" + ",".join(f'"{name}":{text}' for name, text in pairs.items()) + "}\n").encode()


HOSTILE_LINES: Final[dict[str, bytes]] = {
    "a seq of 4,300 digits": a_first_line(seq="9" * 4300),
    "a seq of 5,000 digits": a_first_line(seq="9" * 5000),
    "a seed of 4,300 digits": a_first_line(seed="9" * 4300),
    "a version of 4,300 digits": a_first_line(journal_version="9" * 4300),
    "a spec nested 978 deep": a_first_line(spec="[" * 978 + "]" * 978),
    "a spec nested 50,000 deep": a_first_line(spec="[" * 50_000 + "]" * 50_000),
    "objects nested 50,000 deep": a_first_line(spec='{"":' * 50_000 + "1" + "}" * 50_000),
    "50,000 open lists": b"[" * 50_000 + b"\n",
    "a run_id of 900 KB": a_first_line(run_id=json.dumps("x" * 900_000)),
    "a service of 900 KB": a_first_line(base_url=json.dumps("x" * 900_000)),
    "a bot_version of 900 KB": a_first_line(bot_version=json.dumps("x" * 900_000)),
    "an event of a megabyte": a_first_line(event=json.dumps("x" * 2**20)),
    "a field of a megabyte": a_first_line(**{"x" * 2**20: "1"}),
}

hostile_lines = pytest.mark.parametrize(
    "line", [pytest.param(line, id=name) for name, line in HOSTILE_LINES.items()]
)


@hostile_lines
def test_a_line_of_any_size_and_depth_is_told_in_a_few_words(line: bytes) -> None:
    with pytest.raises(LineError) as caught:
        parse(line)
    assert len(str(caught.value)) <= 500


@hostile_lines
def test_a_file_of_any_size_and_depth_does_not_keep_the_others_from_being_found(
    line: bytes, tmp_path: Path
) -> None:
    hostile_path = journal_path(tmp_path, RUN)
    hostile_path.write_bytes(line * 2)
    ours = write_journal(tmp_path, LATER_RUN, [started(LATER_RUN)])
    assert newest(tmp_path, "http://local", 7) == ours
    assert folder.latest(tmp_path) == ours
    assert folder.last_start(tmp_path, "http://local") == started(LATER_RUN)


@pytest.mark.parametrize("version", ["0", "-1", "1.0", "true", '"1"'])
def test_a_journal_of_an_unheard_of_format_is_none(version: str) -> None:
    with pytest.raises(LineError, match=r"^journal_version is .*, expected 1$"):
        parse(a_first_line(journal_version=version))


def test_a_line_that_is_nested_too_deep_is_told_by_its_beginning() -> None:
    with pytest.raises(LineError) as caught:
        parse(b"[" * 121 + b"]" * 121 + b"\n")
    assert str(caught.value) == (
        f"line is '{'[' * 40}', expected a JSON object of at most 120 levels"
    )


@pytest.mark.parametrize(("length", "shown"), [(78, "x" * 78), (79, "x" * 76 + "...")])
def test_what_is_told_of_a_value_has_at_most_80_characters(length: int, shown: str) -> None:
    said = str(LineError("field", "x" * length, "less"))
    assert said == f"field is '{shown}{chr(39) if length == 78 else ''}, expected less"


def test_brackets_in_a_text_are_no_levels() -> None:
    text = json.dumps('["\\' * 1000)
    for spec in (text, "[" + "[]," * 1000 + "1]"):
        event = parse(a_first_line(spec=spec)).event
        assert isinstance(event, events.RunStarted)
        assert event.spec == json.loads(spec)


def test_two_runs_that_differ_in_their_specs_alone_are_no_fault(tmp_path: Path) -> None:
    for number, spec in enumerate([{"a": 1}, {"b": 2}]):
        name = f"{RUN[:-1]}{number}"
        write_journal(tmp_path, name, [started(RUN, spec=spec)])
    found = folder.last_start(tmp_path, "http://local")
    assert found is not None
    assert found.spec in ({"a": 1}, {"b": 2})


def test_a_journal_of_a_newer_format_is_said_to_be_one(tmp_path: Path) -> None:
    line = a_first_line(journal_version="2", more="[]")
    text = (
        "it was written by a newer version of the bot (journal_version 2, this one reads 1); "
        "update the bot"
    )
    with pytest.raises(reader.NewerFormat) as caught:
        parse(line)
    assert (str(caught.value), caught.value.field) == (text, "journal_version")
    path = journal_path(tmp_path, LATER_RUN)
    path.write_bytes(line)
    write_journal(tmp_path, RUN, [started(RUN)])
    assert newest(tmp_path, "http://local", 7) == path


# Dated ahead

AHEAD: Final = "20261202T000000Z-seed7-0000"
TOMORROW: Final = "20261201T235959Z-seed7-0000"
YEAR_9999: Final = "99991231T235958Z-seed7-0000"


@pytest.mark.parametrize("run_id", [AHEAD, YEAR_9999])
def test_a_finished_run_that_is_dated_after_tomorrow_is_passed_by(
    run_id: str, tmp_path: Path
) -> None:
    ahead = write_journal(tmp_path, run_id, run_events(run_id, bank_at=215))
    assert folder.dated_ahead(tmp_path, NOON) == [ahead]
    assert newest(tmp_path, "http://local", 7, NOON) is None
    ours = write_journal(tmp_path, RUN, [started(RUN)])
    assert newest(tmp_path, "http://local", 7, NOON) == ours
    assert folder.latest(tmp_path, now=NOON) == ours
    assert folder.find(tmp_path, "latest", now=NOON) == ours


@pytest.mark.parametrize("run_id", [AHEAD, YEAR_9999])
def test_an_unfinished_run_that_is_dated_after_tomorrow_is_gone_on_with(
    run_id: str, tmp_path: Path
) -> None:
    write_journal(tmp_path, RUN, [started(RUN)])
    ahead = write_journal(tmp_path, run_id, [started(run_id)])
    assert folder.dated_ahead(tmp_path, NOON) == []
    assert newest(tmp_path, "http://local", 7, NOON) == ahead
    assert folder.latest(tmp_path, now=NOON) == ahead


def test_a_finished_run_of_tomorrow_counts(tmp_path: Path) -> None:
    path = write_journal(tmp_path, TOMORROW, run_events(TOMORROW, bank_at=215))
    assert newest(tmp_path, "http://local", 7, NOON) == path


def test_a_name_that_could_not_be_read_back_is_never_made() -> None:
    last = Path("runs") / f"{YEAR_9999}.jsonl"
    with told(
        JournalError,
        f"no run can be named after {last}: it is dated at the end of all years; nothing was "
        f"sent. Move it out of the folder",
    ):
        new_run_id(7, NOON, last)


@pytest.mark.parametrize("number", ["9" * 16, "9" * 5000, "9007199254740992"])
def test_a_name_with_a_seed_that_is_too_large_is_none(number: str) -> None:
    assert parse_run_id(f"20261130T024107Z-seed{number}-00ff") is None
    assert parse_run_id("20261130T024107Z-seed9007199254740991-00ff") == (
        "20261130T024107Z",
        2**53 - 1,
    )


@pytest.mark.parametrize("time_of_day", ["240000", "236000", "235960"])
def test_a_time_that_some_pythons_read_is_none(time_of_day: str) -> None:
    assert parse_run_id(f"20261130T{time_of_day}Z-seed7-00ff") is None
    clock = f"{time_of_day[:2]}:{time_of_day[2:4]}:{time_of_day[4:]}"
    assert not is_time(f"2026-11-30T{clock}.000Z")


def test_a_journal_of_somebody_else_is_told_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_journal(tmp_path, RUN, [started(RUN)])

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    reason = (
        f"Permission denied. {path} belongs to another user (uid {os.getuid()}): give it back "
        f"with chown, or choose another folder with --runs-dir"
    )
    with told(NotAJournal, f"cannot read {path}: {reason}"):
        list(read_lines(path))
    with told(JournalError, f"cannot resume the journal {path}: {reason}"):
        writer.reopen(path, 0, 0, lambda: NOON)
