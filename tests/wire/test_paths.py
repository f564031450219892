from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.wire.paths import MISSING, Path, fold_name, format_path, is_above, look_up, parse_path


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
