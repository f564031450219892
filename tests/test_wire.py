from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from bot import rules
from bot.errors import BrokenAnswer, Contradiction
from bot.journal import divergence
from bot.journal.events import FieldsDiverged
from bot.service import Service
from bot.wire.discovery import discover, find_spec
from bot.wire.fields import LOCATABLE, SPELLINGS, legal_actions, public_fields
from bot.wire.layout import Layout, WireSettings, layout_from_json
from bot.wire.paths import MISSING, Path, format_path, parse_path
from bot.wire.refusals import is_about_trouble, refusal
from bot.wire.values import brief, is_same, parse_json

SERVICE: Final = Service(b"a key of the tests")
INIT: Final[dict[str, Any]] = json.loads(
    SERVICE.answer("GET", "/api/games/sunpleat/init?seed=7", b"").body
)
PREDICTED: Final = rules.apply(rules.fresh(), rules.FLIPS[1])
LAYOUT: Final = discover(INIT, WireSettings())
AFTER: Final[dict[str, Any]] = {
    "ok": True,
    "stateToken": "the next",
    "state": public_fields(PREDICTED),
    "legalActions": legal_actions(PREDICTED),
    "score": 215,
    "gameOver": False,
}
"""The answer to `flip 2`, the first move."""

NAMES: Final = sorted(
    {spelling for spellings in SPELLINGS.values() for spelling in spellings}
    | {"state", "observation", "spec", "ok", "reason", "", ".", "a.b", "\\", "0", "\ud800", "ключ"}
)
SCALARS: Final = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-6, 6),
    st.integers(),
    st.floats(),
    st.sampled_from(["", "playing", "banked", "-2 -1 3", "token", "\ud800", "\x1b[2J"]),
    st.just((-2, -1, 3)).map(list),
    st.just((1, 2, 3)).map(list),
    st.just((("type", "flip"), ("count", 2))).map(dict),
)
JSON: Final = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.sampled_from(NAMES), inner, max_size=6)
    ),
    max_leaves=25,
)
BIG: Final = settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)


def places(value: object, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """List where each value of a JSON value stands."""
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    return [path, *(place for key, inner in items for place in places(inner, (*path, key)))]


@st.composite
def mutants(draw: st.DrawFn, answer: dict[str, Any]) -> object:
    """Draw an answer with a few of its values replaced, renamed or removed."""
    changed: Any = copy.deepcopy(answer)
    for _ in range(draw(st.integers(1, 3))):
        *above, key = draw(st.sampled_from(places(changed)[1:] or [("ok",)]))
        holder = changed
        for step in above:
            holder = holder[step]
        if draw(st.booleans()):
            holder[key] = draw(JSON)
        else:
            holder.pop(key)
        if not changed:
            break
    return changed


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
        b"[" * 101 + b"]" * 101,
        b'{"a":' * 400 + b"1" + b"}" * 400,
        b"[" * 100_000,
        b"\0" * 100,
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
        "101 deep",
        "400 deep",
        "100,000 deep",
        "NUL",
    ],
)
def test_what_is_no_json_is_a_broken_answer(body: bytes) -> None:
    with pytest.raises(BrokenAnswer, match=r"^the answer is (no JSON|JSON nested too deeply)"):
        parse_json(body)


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
    except BrokenAnswer:
        return


@BIG
@given(JSON)
def test_json_that_is_read_is_what_was_written(value: object) -> None:
    text = json.dumps(value)
    if "NaN" in text or "Infinity" in text:
        with pytest.raises(BrokenAnswer):
            parse_json(text.encode())
    else:
        assert parse_json(text.encode()) == value


# Paths


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


# Values


@pytest.mark.parametrize(
    ("observed", "expected"),
    [
        (1, 1),
        (1.0, 1),
        (-0.0, 0),
        (1e15, 10**15),
        ("playing", "playing"),
        (None, None),
        (False, False),
        ([-2.0, -1, 3.0], [-2, -1, 3]),
        ([], []),
        ([{"type": "flip", "count": 1.0}], [{"count": 1, "type": "flip"}]),
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
        ({"count": True}, {"count": 1}),
        ({"a": 1, "b": 2}, {"a": 1}),
        ({}, {"a": 1}),
    ],
    ids=repr,
)
def test_a_value_of_another_type_or_worth_is_not_the_expected_one(
    observed: object, expected: object
) -> None:
    assert not is_same(observed, expected)


def test_a_value_that_is_missing_is_not_null() -> None:
    assert not is_same(MISSING, None)


# Refusals


@pytest.mark.parametrize(
    ("answer", "reason", "is_about_token"),
    [
        ({"ok": False, "reason": "not now", "legalActions": []}, "not now", False),
        ({"ok": False, "reason": "token too old", "legalActions": []}, "token too old", False),
        ({"ok": False, "reason": "token too old", "legal_actions": []}, "token too old", False),
        ({"ok": False, "reason": "token too old"}, "token too old", True),
        ({"ok": False, "error": "Bad Signature"}, "Bad Signature", True),
        ({"ok": False, "reason": "session expired"}, "session expired", True),
        ({"ok": False, "reason": "busy"}, "busy", False),
        ({"ok": False}, "no reason given", False),
        ({"ok": False, "stateToken": "x"}, "no reason given", False),
        ({"ok": False, "message": "your token has expired"}, "your token has expired", True),
        ({"ok": False, "detail": "busy", "code": 7}, "busy", False),
        ({"ok": False, "reason": {"code": 7}}, '{"code": 7}', False),
        ({"ok": False, "reason": ["token"]}, '["token"]', True),
    ],
)
def test_an_answer_that_is_not_ok_is_a_refusal(
    answer: object, reason: str, is_about_token: bool
) -> None:
    assert refusal(answer) == (reason, is_about_token)


TROUBLE: Final = [
    "Unexpected token '<', \"<!DOCTYPE \"... is not valid JSON",
    "Unexpected end of JSON input",
    "unexpected character at 1",
    "the token is no json",
    "rate limited: token bucket empty",
    "Rate-limit of this token reached",
    "ratelimited token",
    "too many tokens",
    "token store unavailable",
    "token service is overloaded",
    "cannot read the token; try again later",
    "timeout while reading the token",
    "reading the token timed out",
    "token time-out",
    "Unexpected token '<' in an invalid answer: no JSON",
    "invalid request rate: token bucket rejected it, try again",
    "token could not be verified: key service unavailable",
    "Too many requests; token temporarily refused",
    "session could not be read: storage timed out",
]


@pytest.mark.parametrize("reason", TROUBLE)
def test_trouble_that_will_pass_is_not_about_the_token(reason: str) -> None:
    assert refusal({"ok": False, "reason": reason}) == (reason, False)
    assert is_about_trouble(reason)


@pytest.mark.parametrize(
    "reason",
    [
        "Invalid token: payload is not valid JSON",
        "stateToken could not be parsed as JSON",
        "state token expired, please start a new game and try again",
        "session expired (timed out)",
        "Unexpected token in JSON: the state token is malformed",
        "bad signature; try again",
    ],
)
def test_what_is_wrong_with_the_token_itself_does_not_pass(reason: str) -> None:
    assert refusal({"ok": False, "reason": reason}) == (reason, True)
    assert not is_about_trouble(reason)


@pytest.mark.parametrize("reason", ["Invalid JSON Web Token", "who are you?", "", "jwt expired"])
def test_other_reasons_are_not_of_trouble_that_will_pass(reason: str) -> None:
    assert not is_about_trouble(reason)


@pytest.mark.parametrize(
    "answer",
    [INIT, AFTER, {}, {"ok": True}, {"ok": None}, {"ok": 0}, {"ok": "false"}, None, [], "no", 7],
    ids=["init", "after", "{}", "true", "null", "0", "false", "none", "list", "text", "number"],
)
def test_every_other_answer_is_no_refusal(answer: object) -> None:
    assert refusal(answer) is None


# Discovery


def test_all_that_the_local_service_sends_is_found_and_compared() -> None:
    places = LAYOUT.to_json()
    assert places.pop("token") == "stateToken"
    assert places.pop("garland") == "state.garland"
    assert places.pop("passed_over") == {}
    assert places.pop("score") == ["score", "state.score"]
    assert places.pop("gameOver") == "gameOver"
    assert places.pop("legalActions") == "legalActions"
    assert places == {name: f"state.{name}" for name in places}
    assert places.keys() == public_fields(rules.fresh()).keys() - {"garland", "score"}


def test_a_field_elsewhere_is_compared_where_one_garland_has_no_nearer_one() -> None:
    start = [-2, -1, 3]
    answer = {
        "token": "t",
        "a": {"garland": start},
        "b": {"garland": start, "score": 0},
        "c": {"score": 0},
    }
    places = discover(answer, WireSettings()).to_json()
    assert places["score"] == ["b.score", "c.score"]
    answer["a"]["score"] = 0  # type: ignore[index]  # the answer is a nest of objects
    places = discover(answer, WireSettings()).to_json()
    assert places["score"] == ["a.score", "b.score"]


TWICE: Final = Layout(
    token=("token",),
    garlands=(("a", "row"), ("b", "row")),
    compared=(("score", ("a", "score")), ("score", ("b", "score")), ("n", ("a", "n"))),
    passed_over={"b.n": "a text"},
)


@pytest.mark.parametrize(
    ("ignored", "expected"),
    [
        ("", TWICE),
        ("n", replace(TWICE, compared=TWICE.compared[:2])),
        ("a.score", replace(TWICE, compared=TWICE.compared[1:])),
        ("a.row", replace(TWICE, garlands=(("b", "row"),))),
        ("row", TWICE),
    ],
)
def test_what_is_ignored_is_compared_no_more_but_a_garland_remains(
    ignored: str, expected: Layout
) -> None:
    assert TWICE.ignoring(WireSettings(ignore=frozenset({ignored}))) == expected


def test_a_layout_is_written_and_read_back_alike() -> None:
    written = json.loads(json.dumps(LAYOUT.to_json()))
    assert set(layout_from_json(written).compared) == set(LAYOUT.compared)
    assert layout_from_json(written).to_json() == LAYOUT.to_json()


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"token": "a", "garland": "b"},
        {"token": "a", "passed_over": {}},
        {"garland": "b", "passed_over": {}},
        {"token": [], "garland": "b", "passed_over": {}},
        {"token": "a", "garland": [], "passed_over": {}},
        {"token": "a", "garland": 7, "passed_over": {}},
        {"token": "a", "garland": "b..c", "passed_over": {}},
        {"token": "a", "garland": "b", "passed_over": []},
        {"token": "a", "garland": "b", "passed_over": {}, "score": None},
    ],
    ids=json.dumps,
)
def test_what_is_no_layout_is_refused(value: dict[str, object]) -> None:
    with pytest.raises(
        ValueError, match=r"^a path is|^it does not say where the token and the garland were found$"
    ):
        layout_from_json(value)


@pytest.mark.parametrize("answer", [None, [], [INIT], "x", 7, True, 1.5], ids=repr)
def test_an_answer_that_is_no_object_is_broken(answer: object) -> None:
    with pytest.raises(BrokenAnswer, match="not an object"):
        discover(answer, WireSettings())
    with pytest.raises(BrokenAnswer, match="not an object"):
        LAYOUT.read(answer, PREDICTED)


def test_the_likeliest_garland_comes_first() -> None:
    names = ["start", "arrangement", "pennants", "garland", "signed_pennants"]
    answer = {"stateToken": "x", **{name: [-2, -1, 3] for name in names}}
    assert discover(answer, WireSettings()).garlands == (
        ("garland",),
        ("pennants",),
        ("signed_pennants",),
        ("arrangement",),
        ("start",),
    )


def test_what_stands_under_an_empty_key_is_not_found() -> None:
    with pytest.raises(Contradiction, match=r"wire\.garland"):
        discover({"stateToken": "x", "": INIT["state"]}, WireSettings())
    layout = discover({**INIT, "": INIT["state"]}, WireSettings())
    assert layout == LAYOUT


@pytest.mark.parametrize("length", [100, 101], ids=str)
def test_what_stands_under_a_name_of_more_than_100_characters_is_not_found(length: int) -> None:
    answer = {"stateToken": "x", "x" * length: INIT["state"]}
    if length > 100:
        with pytest.raises(Contradiction, match="no garland"):
            discover(answer, WireSettings())
    else:
        layout = discover(answer, WireSettings())
        assert layout.garlands == (("x" * length, "garland"),)


def test_a_name_may_be_written_with_hyphens_and_underscores() -> None:
    state = {"garland": [-2, -1, 3], "moves-used": 0, "cleared_boards": 0, "END-REASON": None}
    layout = discover({"state-token": "x", **state}, WireSettings())
    assert layout.token == ("state-token",)
    assert [name for name, _ in layout.compared] == ["movesUsed", "clearedBoards", "endReason"]


def test_a_target_that_looks_like_the_garland_is_none() -> None:
    layout = discover({**INIT, "puzzle": {"target": [-2, -1, 3]}}, WireSettings())
    assert layout.garlands == LAYOUT.garlands


@pytest.mark.parametrize(
    ("changed", "place", "why"),
    [
        ({"leaves": ["a", "b", "c"]}, "leaves", "a list where an integer was expected"),
        ({"leaves": [1, 2, 3]}, "leaves", "a list of integers where an integer was expected"),
        ({"turn": 0.5}, "turn", "a fraction where an integer was expected"),
        ({"turn": None}, "turn", "null where an integer was expected"),
        ({"phase": True}, "phase", "a boolean where a text was expected"),
        ({"target": [[1], [2]]}, "target", "a list where a list of integers was expected"),
        ({"endReason": ""}, "endReason", "a text where null was expected"),
        ({"legalActions": ["flip 1"]}, "legalActions", "not whole actions"),
        ({"best": {"turn": 5}}, "best.turn", "other"),
    ],
)
def test_a_field_in_another_encoding_is_passed_over_in_words(
    changed: dict[str, object], place: str, why: str
) -> None:
    answer = {"stateToken": "x", "garland": [-2, -1, 3], **changed}
    layout = discover(answer, WireSettings())
    assert (layout.compared, layout.passed_over) == ((), {place: why})


def test_a_field_that_is_wrong_from_the_start_is_named_with_both_values() -> None:
    answer = {"stateToken": "x", "garland": [-2, -1, 3], "moveBudget": 6}
    with pytest.raises(Contradiction) as caught:
        discover(answer, WireSettings())
    assert str(caught.value) == (
        "the answer to init has moveBudget 6 where a fresh run has 5; "
        "the setting wire.ignore lists fields to pass over"
    )


@pytest.mark.parametrize(
    ("answer", "kind"),
    [([INIT], "a list"), ("x", "a text"), (7.0, "an integer"), (True, "a boolean"), (None, "null")],
)
def test_an_answer_that_is_no_object_is_named_for_what_it_is(answer: object, kind: str) -> None:
    with pytest.raises(BrokenAnswer, match=rf"^the answer is {kind}, not an object$"):
        discover(answer, WireSettings())
    with pytest.raises(BrokenAnswer, match=rf"^the answer is {kind}, not an object$"):
        LAYOUT.read(answer, PREDICTED)


def test_a_field_far_from_the_garland_is_compared_where_there_is_no_nearer_one() -> None:
    near = {"token": "x", "garland": [-2, -1, 3], "score": 0}
    far = {"meta": {"score": 0, "turn": 0}}
    layout = discover({**near, **far}, WireSettings())
    assert layout.compared == (("score", ("score",)), ("turn", ("meta", "turn")))


def test_a_setting_says_where_a_field_is_and_the_others_of_its_name_do_not_count() -> None:
    state = {**INIT["state"], "leaves": 99, "hearts": {"left": 3}}
    settings = WireSettings({"leaves": ("state", "hearts", "left")})
    layout = discover({**INIT, "state": state}, settings)
    places = dict(LAYOUT.compared) | {"leaves": ("state", "hearts", "left")}
    assert dict(layout.compared) == places
    assert len(layout.compared) == len(LAYOUT.compared)


def test_a_setting_may_point_to_what_cannot_be_compared() -> None:
    state = {**INIT["state"], "hearts": {"left": 3}}
    settings = WireSettings({"leaves": ("state", "hearts")})
    layout = discover({**INIT, "state": state}, settings)
    assert layout.passed_over == {"state.hearts": "an object where an integer was expected"}


def test_a_setting_that_points_to_no_token_is_told_with_its_place() -> None:
    with pytest.raises(BrokenAnswer) as caught:
        discover(INIT, WireSettings({"token": ("state", "token")}))
    assert str(caught.value) == (
        "the answer has no token at state.token, where the setting wire.token points"
    )


def test_a_setting_that_points_to_nothing_is_told_with_its_place() -> None:
    with pytest.raises(Contradiction) as caught:
        discover(INIT, WireSettings({"leaves": ("state", "hearts")}))
    assert str(caught.value) == (
        "the answer to init has nothing at state.hearts, where the setting wire.leaves points"
    )


def test_an_observation_in_words_is_passed_over() -> None:
    layout = discover({**INIT, "observation": "Restore the garland."}, WireSettings())
    assert layout.passed_over == {"observation": "a text"}
    assert discover({**INIT, "observation": None}, WireSettings()).passed_over == {}


@pytest.mark.parametrize("changed", [{}, {"stateToken": ""}, {"token": 7}, {"state": {}}])
def test_an_answer_without_a_token_is_broken(changed: dict[str, object]) -> None:
    with pytest.raises(
        BrokenAnswer, match=r"^the answer has no token; the setting wire\.token names"
    ):
        discover({"garland": [-2, -1, 3], **changed}, WireSettings())
    with pytest.raises(BrokenAnswer, match=r"^the answer has no token$"):
        discover({"garland": [1, 2, 3], **changed}, WireSettings())


@pytest.mark.parametrize(
    ("tokens", "place"),
    [
        ({"a": {"token": "1"}, "token": "2"}, ("token",)),
        ({"a": {"token": "1"}, "z": {"stateToken": "2"}}, ("z", "stateToken")),
        ({"a": {"state": "1"}, "token": "2", "state": "3"}, ("token",)),
        ({"state": "1"}, ("state",)),
    ],
)
def test_the_likeliest_token_is_taken(tokens: dict[str, object], place: Path) -> None:
    layout = discover({"garland": [-2, -1, 3], **tokens}, WireSettings())
    assert layout.token == place


def test_a_setting_says_where_the_token_and_the_garland_are() -> None:
    paths = {"token": ("ticket",), "garland": ("rows", "0", "hung")}
    hung = [-2, -1, 3]
    answer = {"ticket": "a", "rows": [{"hung": hung}], "token": "b", "garland": hung}
    layout = discover(answer, WireSettings(paths))
    assert (layout.token, layout.garlands) == (("ticket",), (("rows", "0", "hung"),))
    reading = layout.read({**answer, "rows": [{"hung": [1, 2, 3]}]}, PREDICTED)
    assert (reading.token, reading.differences) == ("a", {})


def test_a_setting_that_points_to_no_garland_is_told_with_its_place() -> None:
    with pytest.raises(Contradiction) as caught:
        discover(INIT, WireSettings({"garland": ("state", "target")}))
    assert str(caught.value) == (
        "the answer to init does not have the garland [-2, -1, 3] at state.target, "
        "where the setting wire.garland points"
    )


@pytest.mark.parametrize("ignored", ["leaves", "state.leaves"])
def test_a_field_is_ignored_by_its_name_or_its_path(ignored: str) -> None:
    answer = {**INIT, "state": {**INIT["state"], "leaves": 5}}
    layout = discover(answer, WireSettings(ignore=frozenset({ignored})))
    assert set(LAYOUT.compared) - set(layout.compared) == {("leaves", ("state", "leaves"))}


@pytest.mark.parametrize(
    "changed", [{"score": "0"}, {"score": None}, {"legalActions": [{"type": "bank"}]}]
)
def test_a_score_in_any_encoding_and_legal_actions_have_to_be_right(
    changed: dict[str, object],
) -> None:
    with pytest.raises(Contradiction, match=f"has {next(iter(changed))} "):
        discover({**INIT, **changed}, WireSettings())


@pytest.mark.parametrize("length", [80, 81, 200], ids=str)
def test_a_value_is_shown_in_at_most_80_characters(length: int) -> None:
    value = "x" * (length - 2)
    shown = brief(value)
    assert shown == (repr(value) if length == 80 else "'" + "x" * 76 + "...")


def test_the_spec_is_found_wherever_it_is() -> None:
    assert find_spec(INIT) == INIT["spec"]
    assert find_spec({"data": {"SPEC": [1]}}) == [1]
    assert find_spec(AFTER) is None
    assert find_spec([INIT]) is None


# Reading


def test_the_predicted_answer_has_no_differences() -> None:
    reading = LAYOUT.read(AFTER, PREDICTED)
    assert reading.token == "the next"
    assert reading.differences == {}
    assert reading.layout == LAYOUT


@pytest.mark.parametrize("name", ["score", "gameOver", "legalActions"])
def test_a_field_that_went_missing_differs(name: str) -> None:
    answer = {key: value for key, value in AFTER.items() if key != name}
    (difference,) = LAYOUT.read(answer, PREDICTED).differences.values()
    assert difference["observed"] == "(missing)"


def test_of_two_fields_of_one_name_the_shallow_one_has_it() -> None:
    state = {"garland": [-2, -1, 3], "score": 0}
    layout = discover({"token": "x", "a": {"b": state}, "z": state}, WireSettings())
    wrong = {"garland": [1, 2, 3], "score": 7}
    answer = {"token": "y", "a": {"b": wrong}, "z": wrong}
    assert list(layout.read(answer, PREDICTED).differences) == ["score", "a.b.score"]


def test_where_one_key_has_two_meanings_a_difference_has_its_path() -> None:
    layout = discover({"token": "x", "board": 1, "a": {"board": [-2, -1, 3]}}, WireSettings())
    answer = {"token": "y", "board": 7, "a": {"board": [3, 2, 1]}}
    differences = layout.read(answer, PREDICTED).differences
    assert list(differences) == ["board", "a.board"]
    assert [*map(layout.name_of, differences)] == ["boardNumber", "garland"]
    deep = discover({"token": "x", "b": {"board": 1}, "a": {"board": [-2, -1, 3]}}, WireSettings())
    assert deep.name_of("board") is None
    assert [*divergence.check(FieldsDiverged(differences), layout, PREDICTED)] == []


def test_a_copy_that_stays_behind_is_dropped_with_all_that_stands_beside_and_below_it() -> None:
    state = {"garland": [-2, -1, 3], "score": 0}
    copy = {**state, "more": {"turn": 0}}
    layout = discover({"token": "x", "a": state, "z": {"y": copy}}, WireSettings())
    assert [path for _, path in layout.compared] == [
        ("a", "score"),
        ("z", "y", "score"),
        ("z", "y", "more", "turn"),
    ]
    moved = {"garland": [1, 2, 3], "score": 215}
    reading = layout.read({"token": "y", "a": moved, "z": {"y": copy}}, PREDICTED)
    assert reading.differences == {}
    assert reading.layout.garlands == (("a", "garland"),)
    assert reading.layout.compared == (("score", ("a", "score")),)


def test_copies_that_change_alike_are_all_kept() -> None:
    state = {"garland": [-2, -1, 3], "score": 0}
    layout = discover({"token": "x", "a": state, "z": state}, WireSettings())
    moved = {"garland": [1, 2, 3], "score": 215}
    reading = layout.read({"token": "y", "a": moved, "z": moved}, PREDICTED)
    assert (reading.differences, reading.layout) == ({}, layout)


def test_a_field_of_the_state_differs_though_all_above_it_is_right() -> None:
    answer = {**AFTER, "state": {**AFTER["state"], "leaves": 2}}
    assert LAYOUT.read(answer, PREDICTED).differences == {"leaves": {"predicted": 3, "observed": 2}}


@pytest.mark.parametrize(("token", "carried"), [("the last", "the last"), ("", None), (7, None)])
def test_the_last_answer_needs_no_token(token: object, carried: str | None) -> None:
    banked = rules.apply(PREDICTED, rules.BANK)
    last = {"state": public_fields(banked), "legalActions": [], "gameOver": True}
    reading = LAYOUT.read({**AFTER, **last, "stateToken": token}, banked)
    assert (reading.token, reading.differences) == (carried, {})


@pytest.mark.parametrize(
    ("said", "names"),
    [
        ({"gameOver": True}, ["gameOver"]),
        ({"state": {**AFTER["state"], "phase": "ended"}}, ["phase"]),
    ],
    ids=["game over", "ended"],
)
def test_an_end_that_comes_too_early_contradicts_though_it_has_no_token(
    said: dict[str, object], names: list[str]
) -> None:
    reading = LAYOUT.read({**AFTER, **said, "stateToken": None}, PREDICTED)
    assert (reading.token, list(reading.differences)) == (None, names)


def test_an_answer_without_the_garland_is_broken() -> None:
    with pytest.raises(BrokenAnswer, match=r"^the answer has no garland at state\.garland$"):
        LAYOUT.read({**AFTER, "state": {}}, PREDICTED)


def test_an_answer_that_lost_its_token_is_broken() -> None:
    with pytest.raises(BrokenAnswer, match=r"^the answer has no token at stateToken$"):
        LAYOUT.read({**AFTER, "stateToken": None}, PREDICTED)


def test_the_legal_actions_are_those_of_the_page() -> None:
    flips = [{"type": "flip", "count": count} for count in (1, 2, 3)]
    assert legal_actions(rules.fresh()) == [*flips, {"type": "restart"}, {"type": "bank"}]
    assert legal_actions(PREDICTED) == [{"type": "next"}, {"type": "bank"}]


def test_where_no_copy_of_the_garland_is_right_each_differs() -> None:
    state = {"garland": [-2, -1, 3]}
    layout = discover({"token": "x", "a": state, "z": state}, WireSettings())
    wrong = {"garland": [3, 2, 1]}
    reading = layout.read({"token": "y", "a": wrong, "z": wrong}, PREDICTED)
    assert reading.differences == {"garland": {"predicted": [1, 2, 3], "observed": [3, 2, 1]}}
    assert reading.layout == layout


def test_a_field_that_is_new_is_not_compared() -> None:
    assert LAYOUT.read({**AFTER, "turn": 99, "mood": None}, PREDICTED).differences == {}


def test_legal_actions_are_compared_in_any_order() -> None:
    answer = {**AFTER, "legalActions": AFTER["legalActions"][::-1]}
    assert LAYOUT.read(answer, PREDICTED).differences == {}


def test_the_word_of_the_service_is_taken_before_the_prediction() -> None:
    state = {**AFTER["state"], "garland": [1.0, -2, 3], "phase": "playing", "score": 100}
    claimed = LAYOUT.observed({**AFTER, "state": state, "score": 100.0}, PREDICTED)
    assert claimed.garland == (1, -2, 3)
    assert (claimed.phase, claimed.score, claimed.turn) == ("playing", 100, 1)


@pytest.mark.parametrize(
    ("name", "attribute", "claim", "taken"),
    [
        ("templateIndex", "template_index", 8.0, 8),
        ("endReason", "end_reason", None, None),
        ("endReason", "end_reason", "banked", "banked"),
        ("phase", "phase", "retry", "retry"),
        ("leaves", "leaves", 0, 0),
        ("leaves", "leaves", 2.0, 2),
        ("turn", "turn", 2**53 - 1, 2**53 - 1),
    ],
)
def test_a_claim_is_taken_as_the_rules_write_it(
    name: str, attribute: str, claim: object, taken: object
) -> None:
    claimed = LAYOUT.observed({**AFTER, "state": {**AFTER["state"], name: claim}}, PREDICTED)
    value = getattr(claimed, attribute)
    assert (value, type(value)) == (taken, type(taken))


@pytest.mark.parametrize(
    ("name", "claim"),
    [
        ("phase", "won"),
        ("phase", None),
        ("templateIndex", 0),
        ("templateIndex", 9),
        ("templateIndex", True),
        ("templateIndex", "1"),
        ("leaves", -1),
        ("leaves", 1.5),
        ("turn", None),
        ("endReason", "lost"),
        ("endReason", False),
        ("garland", [1, 1, 2]),
    ],
)
def test_a_claim_that_the_rules_do_not_have_cannot_be_followed(name: str, claim: object) -> None:
    answer = {**AFTER, "state": {**AFTER["state"], name: claim}}
    with pytest.raises(Contradiction, match=r"^cannot follow the service: ") as caught:
        LAYOUT.observed(answer, PREDICTED)
    assert str(caught.value).endswith(f": {name} is {claim!r}")


def test_what_the_service_does_not_say_is_as_predicted() -> None:
    layout = discover({"token": "x", "garland": [-2, -1, 3], "score": 0}, WireSettings())
    answer = {"token": "y", "garland": [1, 2, 3], "score": 100}
    assert layout.observed(answer, PREDICTED) == replace(PREDICTED, score=100)


def test_a_game_that_the_service_calls_over_is_over() -> None:
    claimed = LAYOUT.observed({**AFTER, "gameOver": True}, PREDICTED)
    assert (claimed.phase, claimed.end_reason) == (rules.ENDED, rules.OUT_OF_LIVES)


@pytest.mark.parametrize(
    ("predicted", "claim", "taken"),
    [(None, None, "out-of-lives"), (None, "banked", "banked"), ("banked", None, "banked")],
)
def test_a_game_that_is_over_has_a_reason(
    predicted: str | None, claim: str | None, taken: str
) -> None:
    answer = {**AFTER, "state": {**AFTER["state"], "phase": "ended", "endReason": claim}}
    claimed = LAYOUT.observed(answer, replace(PREDICTED, end_reason=predicted))
    assert (claimed.phase, claimed.end_reason) == ("ended", taken)


# Answers of any shape


def discover_if_any(answer: object, settings: WireSettings) -> Layout | None:
    try:
        return discover(answer, settings)
    except (BrokenAnswer, Contradiction):
        return None


@BIG
@given(answer=JSON | mutants(INIT), path=st.sampled_from(NAMES).filter(bool))
def test_a_first_answer_of_any_shape_is_understood_broken_or_contradicts(
    answer: object, path: str
) -> None:
    discover_if_any(answer, WireSettings({"garland": ("state", path)}))
    discover_if_any(answer, WireSettings({path: (path,)} if path in LOCATABLE else {}))
    layout = discover_if_any(answer, WireSettings(ignore=frozenset({path})))
    if layout is not None:
        assert layout_from_json(layout.to_json()).to_json() == layout.to_json()
        assert layout.ignoring(WireSettings(ignore=frozenset({path}))) == layout
        assert layout.differences(answer, rules.fresh()) == {}


@BIG
@given(answer=JSON | mutants(AFTER), shape=mutants(INIT))
def test_a_later_answer_of_any_shape_is_read_or_broken(answer: object, shape: object) -> None:
    for layout in (LAYOUT, discover_if_any(shape, WireSettings()) or LAYOUT):
        try:
            reading = layout.read(answer, PREDICTED)
        except BrokenAnswer:
            continue
        assert reading.token or {"phase", "gameOver"} & {
            *map(reading.layout.name_of, reading.differences)
        }
        assert all(
            pair.keys() == {"predicted", "observed"} for pair in reading.differences.values()
        )
        try:
            claimed = reading.layout.observed(answer, PREDICTED)
        except Contradiction:
            continue
        assert claimed.phase in rules.PHASES
        assert rules.legal_actions(claimed) or claimed.phase == rules.ENDED


@BIG
@given(mutants(AFTER))
def test_an_answer_differs_where_its_values_do(answer: object) -> None:
    try:
        differences = LAYOUT.read(answer, PREDICTED).differences
    except BrokenAnswer:
        return
    assert isinstance(answer, dict)
    for name in ("score", "gameOver"):
        is_right = is_same(answer.get(name, MISSING), AFTER[name])
        assert is_right or name in differences
    if all(is_same(answer.get(name), AFTER[name]) for name in ("state", "legalActions")):
        assert differences.keys() <= {"score", "gameOver"}


@given(JSON)
def test_a_refusal_of_any_shape_has_a_reason(value: object) -> None:
    refused = refusal({"ok": False, "reason": value})
    assert refused is not None
    assert isinstance(refused.reason, str)
