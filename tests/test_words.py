from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from bot.words import clock_time, count_of, duration, one_line, printable, shorten, visible


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("plain, é and 日", "plain, é and 日", id="plain"),
        pytest.param("\x1b[2J", r"\x1b[2J", id="clear the screen"),
        pytest.param("\x07\x08\x7f", r"\x07\x08\x7f", id="bell, backspace, delete"),
        pytest.param("\x9b1m", r"\x9b1m", id="an eight-bit command"),
        pytest.param("a\rb", r"a\rb", id="back to the start of the line"),
        pytest.param("a\u2028b", r"a\u2028b", id="a line separator"),
        pytest.param("\u202egnp", r"\u202egnp", id="right to left"),
        pytest.param("\ud800", r"\ud800", id="a lone surrogate"),
        pytest.param("\U000e0001", r"\U000e0001", id="a tag"),
    ],
)
def test_what_could_move_a_terminal_or_deceive_the_eye_is_escaped(text: str, expected: str) -> None:
    assert printable(text) == expected


def test_line_ends_stay_in_a_printable_text_and_not_in_one_line() -> None:
    assert printable("one\ntwo") == "one\ntwo"
    assert one_line("one\ntwo\r") == r"one\ntwo\r"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", ""), ("abcd", "abcd"), ("abcde", "abc…")],
)
def test_a_long_text_is_cut_to_the_limit(text: str, expected: str) -> None:
    assert shorten(text, 4) == expected


def test_five_hundred_characters_are_shown_at_most() -> None:
    assert len(shorten("x" * 10_000)) == 500


def test_what_cannot_be_seen_is_escaped_and_what_can_is_kept() -> None:
    assert visible("a\x00b\x1b[1m\u2028\u202e\ud800\n ☀é<&>") == (
        "a\\x00b\\x1b[1m\\u2028\\u202e\\ud800\\n ☀é<&>"
    )


def test_a_long_text_is_cut_and_says_so() -> None:
    assert visible("x" * 501) == "x" * 499 + "…"
    assert visible("x" * 500) == "x" * 500


@pytest.mark.parametrize(
    ("number", "expected"),
    [(0, "0 boards"), (1, "1 board"), (2, "2 boards"), (3775, "3,775 boards")],
)
def test_things_are_counted(number: int, expected: str) -> None:
    assert count_of(number, "board") == expected


def test_things_are_counted_that_have_a_plural_of_their_own() -> None:
    assert [count_of(number, "leaf", "leaves") for number in (1, 3)] == ["1 leaf", "3 leaves"]


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, "0 ms"),
        (0.0996, "100 ms"),
        (0.1, "0.1 s"),
        (4.21, "4.2 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min 00 s"),
        (200, "3 min 20 s"),
        (3599.4, "59 min 59 s"),
        (3599.6, "1 h 00 min"),
        (3720, "1 h 02 min"),
        (90_000, "25 h 00 min"),
        (3600 * 47.99, "47 h 59 min"),
        (86400 * 2 + 3 * 3600, "2 d 3 h"),
        (86400 * 12345, "12,345 d 0 h"),
    ],
)
def test_a_duration_reads_as_people_say_it(seconds: float, expected: str) -> None:
    assert duration(seconds) == expected


def test_a_moment_is_written_in_utc_with_its_day_or_without() -> None:
    moment = datetime(2026, 11, 30, 3, 41, 7, tzinfo=timezone(timedelta(hours=1)))
    assert clock_time(moment) == "2026-11-30 02:41:07"
    assert clock_time(moment.astimezone(UTC), is_dated=False) == "02:41:07"
