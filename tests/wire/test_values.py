from __future__ import annotations

import json
import re
from typing import Final

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from bot.errors import BrokenAnswer, Unreadable
from bot.wire import values
from bot.wire.values import (
    MAX_ANSWER,
    MAX_EXCERPT,
    MISSING,
    Path,
    brief,
    excerpt,
    fold_name,
    format_path,
    is_above,
    is_same,
    is_too_deep,
    kind_of,
    look_up,
    parse_json,
    parse_path,
)

NAMES: Final = ["garland", "score", "state", "ok", "", ".", "a.b", "\\", "0", "\ud800", "ключ"]
SCALARS: Final = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.sampled_from(["", "playing", "-2 -1 3", "\ud800", "\x1b[2J"]),
)
JSON: Final = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.sampled_from(NAMES), inner, max_size=6)
    ),
    max_leaves=25,
)


# JSON


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'{"a": 1}', {"a": 1}),
        (b'\xef\xbb\xbf{"a": 1}', {"a": 1}),
        (b" [1, 2.5, 1e999] \r\n", [1, 2.5, float("inf")]),
        ('"гирлянда ☀"'.encode(), "гирлянда ☀"),
        (rb'"\ud800"', "\ud800"),
        (b'{"a": 1, "a": 2}', {"a": 2}),
        (b"null", None),
        (b"[" * 100 + b"]" * 100, ...),
        (b'[1, "x", ' + b"[], " * 100 + b"null]", [1, "x", *[[]] * 100, None]),
    ],
    ids=[
        "object",
        "byte order mark",
        "spaces",
        "UTF-8",
        "lone surrogate",
        "twice",
        "null",
        "100 deep",
        "wide",
    ],
)
def test_json_in_utf_8_is_read(body: bytes, value: object) -> None:
    read = parse_json(body)
    assert value in (..., read)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"<!doctype html>",
        b'{"a": ',
        b'{"a": 1} and more',
        b"{'a': 1}",
        b'{"a": NaN}',
        b'{"a": -Infinity}',
        b'"\xff"',
        '{"a": "ü"}'.encode("latin-1"),
        '{"a": 1}'.encode("utf-16"),
        b'"a\nb"',
        b"1" * 5000,
        b"\0" * 100,
        b"<script>" + b"{" * 1000,
    ],
    ids=[
        "nothing",
        "a space",
        "HTML",
        "cut",
        "followed",
        "quotes",
        "NaN",
        "Infinity",
        "no UTF-8",
        "latin-1",
        "UTF-16",
        "control",
        "too many digits",
        "NUL",
        "a script",
    ],
)
def test_what_is_no_json_is_a_broken_answer(body: bytes) -> None:
    with pytest.raises(BrokenAnswer, match=r"^the answer is no JSON"):
        parse_json(body)


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 101 + b"]" * 101,
        b'{"a":' * 400 + b"1" + b"}" * 400,
        b'{"a": [' * 60 + b"1" + b"]}" * 60,
        b"[" * 100_000,
        b" \n" + b"[" * 101 + b"]" * 101,
    ],
    ids=["101 deep", "400 deep", "of both kinds", "100,000 deep", "below spaces"],
)
def test_what_is_nested_more_than_100_deep_cannot_be_understood(body: bytes) -> None:
    with pytest.raises(Unreadable, match=r"^the answer is JSON nested too deeply to read$"):
        parse_json(body)


def test_brackets_in_a_text_are_no_levels() -> None:
    text = json.dumps('["\\' * 1000)
    assert parse_json(f"[{text}]".encode()) == [json.loads(text)]


@pytest.mark.parametrize("piece", [b'"', b'\\"', b'"\\', b"[", b"[]", b'{"":', b"\\"], ids=str)
def test_how_deep_json_is_takes_time_by_its_length(piece: bytes) -> None:
    text = b"[" * 101 + piece * 1000
    matches = [match[0] for match in values._BRACKETS.finditer(text)]
    assert sum(map(len, matches)) <= len(text)
    assert len(matches) <= len(text)


@pytest.mark.parametrize("name", ["NaN", "Infinity", "-Infinity"])
def test_a_number_that_json_does_not_have_is_named(name: str) -> None:
    with pytest.raises(BrokenAnswer, match=rf"^the answer is no JSON \({name} is no JSON\)$"):
        parse_json(f'{{"a": {name}}}'.encode())


@given(
    st.binary(max_size=40) | st.text(max_size=40).map(lambda text: text.encode("utf-8", "replace"))
)
@example(b"\xef\xbb\xbf")
def test_bytes_of_any_kind_are_read_or_broken(body: bytes) -> None:
    try:
        parse_json(body)
    except (BrokenAnswer, Unreadable):
        return


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(JSON)
def test_json_that_is_read_is_what_was_written(value: object) -> None:
    text = json.dumps(value)
    if "NaN" in text or "Infinity" in text:
        with pytest.raises(BrokenAnswer):
            parse_json(text.encode())
    else:
        assert parse_json(text.encode()) == value


# Values


@pytest.mark.parametrize(
    ("observed", "expected"),
    [
        (1, 1),
        (1.0, 1),
        (-0.0, 0),
        (1e15, 10**15),
        (2.0**53 - 1, 2**53 - 1),
        ("playing", "playing"),
        (None, None),
        (False, False),
        ([-2.0, -1, 3.0], [-2, -1, 3]),
        ([], []),
    ],
    ids=repr,
)
def test_a_value_is_the_expected_one(observed: object, expected: object) -> None:
    assert is_same(observed, expected)


@pytest.mark.parametrize(
    ("observed", "expected"),
    [
        (True, 1),
        (False, 0),
        (None, 0),
        ("1", 1),
        (1.5, 1),
        (float("inf"), 1),
        (float("nan"), 1),
        (0, False),
        (1, True),
        (1.0, True),
        (None, False),
        ("", None),
        (0, None),
        (False, None),
        ([True, 2], [1, 2]),
        ([1], [1, 2]),
        ([1, 2, 3], [1, 2]),
        ([[1], 2], [1, 2]),
        ("12", [1, 2]),
        ({}, []),
        ([], {}),
        (2.0**53, 2**53),
    ],
    ids=repr,
)
def test_a_value_of_another_type_or_worth_is_not_the_expected_one(
    observed: object, expected: object
) -> None:
    assert not is_same(observed, expected)


def test_a_value_that_is_missing_is_not_null() -> None:
    assert not is_same(MISSING, None)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (7, "an integer"),
        (7.0, "an integer"),
        (7.5, "a fraction"),
        (float("inf"), "a fraction"),
        (True, "a boolean"),
        (None, "null"),
        ("7", "a text"),
        ({}, "an object"),
        ([], "a list"),
        (["a"], "a list"),
        ([1, True], "a list"),
        ([1, 2.0], "a list of integers"),
    ],
    ids=repr,
)
def test_a_value_is_named_by_its_kind(value: object, kind: str) -> None:
    assert kind_of(value) == kind


@pytest.mark.parametrize("length", [80, 81, 200], ids=str)
def test_a_value_is_shown_in_at_most_80_characters(length: int) -> None:
    value = "x" * (length - 2)
    shown = brief(value)
    assert shown == (repr(value) if length == 80 else "'" + "x" * 76 + "...")


TOKEN: Final = "eyJzZWVkIjo3fQ.c2lnbmF0dXJl-_" + "Ab9/+=%7C~" * 30


@pytest.mark.parametrize(
    "text",
    [
        '{"stateToken": "%s", "a": 1}',
        '{"%s": 1}',
        "<p>token %s</p>",
        "?token=%s&seed=7",
        "%s",
        '{"a": "cut off in the middle %s',
        '{"echo": "{\\"stateToken\\": \\"%s\\"}"}',
    ],
)
def test_an_excerpt_holds_no_token(text: str) -> None:
    shown = excerpt(text.replace("%s", TOKEN))
    assert len(shown) <= MAX_EXCERPT == 200
    assert all(TOKEN[start : start + 32] not in shown for start in range(len(TOKEN) - 32))
    assert shown[:1] in (text[:1], ".")


@given(st.text(st.sampled_from('abAB019-_./+=%~:,{}" <>'), max_size=400))
def test_an_excerpt_has_no_run_of_32_characters_that_a_token_can_be_made_of(text: str) -> None:
    assert re.search(r"[\w+/=.~%|:,-]{32}", excerpt(text)) is None


@pytest.mark.parametrize("length", [31, 32, 33, 98])
def test_a_run_of_32_characters_is_cut_from_an_excerpt(length: int) -> None:
    run = "x" * length
    assert excerpt({"a": run}) == ('{"a": "%s"}' % (run if length < 32 else "..."))


def test_an_excerpt_of_words_is_their_beginning() -> None:
    assert excerpt("some words " * 100) == ("some words " * 100)[:200]
    assert excerpt({"a": [1, None]}) == '{"a": [1, null]}'


# Places in an answer


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("garland", ("garland",)),
        ("state.sunRow", ("state", "sunRow")),
        (r"state.sun\.row", ("state", "sun.row")),
        (r"sun\\.row", ("sun\\", "row")),
        (r"sun\\\.row", ("sun\\.row",)),
        ("rows.0.hung", ("rows", "0", "hung")),
        ("a b.☀", ("a b", "☀")),
        ("a\nb.\0", ("a\nb", "\0")),
    ],
    ids=repr,
)
def test_a_path_is_read_and_written_alike(text: str, path: tuple[str, ...]) -> None:
    assert parse_path(text) == path
    assert format_path(path) == text


@pytest.mark.parametrize("text", ["", ".", "a..b", ".a", "a.", "a\\", None, 7, ["a"]], ids=repr)
def test_what_is_no_path_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match=r"a path is .* such as state\.garland"):
        parse_path(text)


@given(st.lists(st.text(st.sampled_from(".\\a\0\n"), min_size=1) | st.text(min_size=1), min_size=1))
def test_a_path_of_any_keys_is_written_and_read_back(keys: list[str]) -> None:
    assert parse_path(format_path(tuple(keys))) == tuple(keys)


@given(st.text())
def test_a_path_that_is_read_is_written_and_read_back_alike(text: str) -> None:
    try:
        path = parse_path(text)
    except ValueError:
        return
    assert parse_path(format_path(path)) == path


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ((), {"a": [{"b": 1}, None], "0": "x", "c": None}),
        (("a", "0", "b"), 1),
        (("a", "1"), None),
        (("0",), "x"),
        (("c",), None),
        (("a", "2"), MISSING),
        (("a", "-1"), MISSING),
        (("a", "00"), MISSING),
        (("a", "b"), MISSING),
        (("a", "9" * 5000), MISSING),
        (("a", "0", "b", "c"), MISSING),
        (("d",), MISSING),
    ],
    ids=lambda value: "missing" if value is MISSING else f"{value!s:.40}",
)
def test_a_value_is_looked_up_by_its_path(path: Path, value: object) -> None:
    answer = {"a": [{"b": 1}, None], "0": "x", "c": None}
    found = look_up(answer, path)
    assert found == value
    assert (found is MISSING) == (value is MISSING)


@pytest.mark.parametrize("name", ["moveBudget", "move_budget", "MoveBudget", "move-budget"])
def test_spellings_of_a_name_are_one(name: str) -> None:
    assert fold_name(name) == "movebudget"


@pytest.mark.parametrize(
    ("holder", "path", "expected"),
    [
        ((), ("a",), True),
        (("a",), ("a", "b"), True),
        (("a",), ("a", "b", "c"), True),
        (("a",), ("a",), False),
        (("a",), ("b", "a"), False),
        (("a", "b"), ("a",), False),
    ],
)
def test_an_object_is_above_what_it_holds(holder: Path, path: Path, expected: bool) -> None:
    assert is_above(holder, path) is expected


def test_levels_are_counted_from_the_top() -> None:
    for brackets in (b"[]", b"{}"):
        opened, closed = brackets[:1], brackets[1:]
        text = opened * 3 + closed * 3 + brackets
        assert not is_too_deep(text, 3)
        assert is_too_deep(text, 2)


def test_of_a_long_text_the_beginning_alone_is_looked_at() -> None:
    assert excerpt("x" * 100 * MAX_EXCERPT + " tail") == "..."


def test_an_answer_has_at_most_a_mebibyte() -> None:
    whole = b'"' + b"x" * (MAX_ANSWER - 2) + b'"'
    assert parse_json(whole) == "x" * (MAX_ANSWER - 2)
    with pytest.raises(Unreadable, match=r"^the answer is longer than 1048576 bytes$"):
        parse_json(whole + b" ")
