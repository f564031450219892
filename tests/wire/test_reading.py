from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from types import FrameType
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bot import rules
from bot.errors import Unreadable
from bot.rules import State
from bot.service import Service
from bot.wire.fields import (
    GARLAND,
    LOCATABLE,
    SCORE,
    SPELLINGS,
    VERDICTS,
    legal_actions,
    public_fields,
)
from bot.wire.layout import Layout, WireSettings, layout_from_json
from bot.wire.places import MAX_FIELDS, MAX_GARLANDS, MAX_TOKEN, find_spec
from bot.wire.reading import MAX_OBSERVED, Reading, is_proof, observed_in, read
from bot.wire.sayings import saying_in
from bot.wire.values import MISSING, Path, excerpt, is_same, look_up, parse_json, parse_path

INIT: Final[dict[str, Any]] = json.loads(
    Service(b"a key of the tests").answer("GET", "/api/games/sunpleat/init?seed=7", b"").body
)
FRESH: Final = rules.fresh()
PREDICTED: Final = rules.apply(FRESH, rules.FLIPS[1])
START: Final = [-2, -1, 3]
PLAINLY: Final = WireSettings()
AFTER: Final[dict[str, Any]] = {
    "ok": True,
    "stateToken": "the next",
    "state": public_fields(PREDICTED),
    "legalActions": legal_actions(PREDICTED),
    "score": 215,
    "gameOver": False,
}
"""The answer to `flip 2`, the first move."""
LATER: Final = rules.apply(PREDICTED, rules.NEXT_BOARD)
"""The state after the second move."""


def first(answer: object, wire: WireSettings = PLAINLY) -> Reading:
    """Read an answer to `init`."""
    return read(answer, FRESH, None, Layout(), sent="", settings=wire)


LAYOUT: Final = first(INIT).layout


def then(answer: object, last: Layout = LAYOUT, wire: WireSettings = PLAINLY) -> Reading:
    """Read an answer to the first move."""
    return read(answer, PREDICTED, FRESH, last, sent="the first", settings=wire)


def without_garland(state: State) -> dict[str, object]:
    """Return the public fields of `state` but its garland."""
    return {name: value for name, value in public_fields(state).items() if name != GARLAND}


def answer_with(state: State) -> dict[str, Any]:
    """Return the answer that holds `state`."""
    return {
        "ok": True,
        "stateToken": "another",
        "state": public_fields(state),
        "legalActions": legal_actions(state),
        "score": state.score,
        "gameOver": state.phase == rules.ENDED,
    }


# The first answer


def test_all_that_the_local_service_sends_is_found_and_compared() -> None:
    places = LAYOUT.to_json()
    assert places.pop("token") == "stateToken"
    assert places.pop("garland") == "state.garland"
    assert places.pop("passed_over") == {}
    assert sorted(places.pop("score")) == ["score", "state.score"]  # type: ignore[call-overload]  # a list
    assert places.pop("gameOver") == "gameOver"
    assert places.pop("legalActions") == "legalActions"
    assert places == {name: f"state.{name}" for name in places}
    assert places.keys() == public_fields(FRESH).keys() - {"garland", "score"}


def test_the_likeliest_garland_comes_first() -> None:
    names = ["start", "arrangement", "pennants", "garland", "signed_pennants"]
    answer = {"stateToken": "x", **dict.fromkeys(names, START)}
    assert first(answer).layout.garlands == (
        ("garland",),
        ("pennants",),
        ("signed_pennants",),
        ("arrangement",),
        ("start",),
    )


def test_what_stands_under_an_empty_key_is_not_found() -> None:
    with pytest.raises(Unreadable, match="neither the garland nor the score"):
        first({"stateToken": "x", "": INIT["state"]})
    assert first({**INIT, "": INIT["state"]}).layout == LAYOUT


@pytest.mark.parametrize("length", [100, 101], ids=str)
def test_what_stands_under_a_name_of_more_than_100_characters_is_not_found(length: int) -> None:
    answer = {"stateToken": "x", "x" * length: INIT["state"]}
    if length > 100:
        with pytest.raises(Unreadable, match="neither the garland nor the score"):
            first(answer)
    else:
        assert first(answer).layout.garlands == (("x" * length, "garland"),)


def test_a_name_may_be_written_with_hyphens_and_underscores() -> None:
    state = {"garland": START, "moves-used": 0, "cleared_boards": 0, "END-REASON": None}
    layout = first({"state-token": "x", **state}).layout
    assert layout.token == ("state-token",)
    assert [*layout.fields] == ["movesUsed", "clearedBoards", "endReason"]


def test_a_target_that_looks_like_the_garland_is_none() -> None:
    assert first({**INIT, "puzzle": {"target": START}}).layout.garlands == LAYOUT.garlands


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
        ({"observation": "Restore the garland."}, "observation", "a text"),
    ],
)
def test_a_field_in_another_encoding_is_passed_over_in_words(
    changed: dict[str, object], place: str, why: str
) -> None:
    layout = first({"stateToken": "x", "garland": START, **changed}).layout
    assert (dict(layout.fields), layout.passed_over) == ({}, {place: why})


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({"moveBudget": 6}, "moveBudget"),
        ({"score": "0"}, "score"),
        ({"score": None}, "score"),
        ({"legalActions": [{"type": "bank"}]}, "legalActions"),
        ({"gameOver": True}, "gameOver"),
        ({"garland": [3, -1, -2]}, "garland"),
    ],
    ids=str,
)
def test_a_field_of_the_right_kind_that_is_wrong_from_the_start_contradicts(
    changed: dict[str, object], name: str
) -> None:
    (wrong,) = first({"stateToken": "x", "garland": START, "leaves": 3, **changed}).wrongs
    assert (wrong.name, wrong.observed) == (name, changed[name])


@pytest.mark.parametrize(
    "garland",
    [
        [{"id": 2, "face": "moon"}, {"id": 1, "face": "moon"}, {"id": 3, "face": "sun"}],
        ["B", "A", "c"],
        "-2 -1 3",
        {"0": -2, "1": -1, "2": 3},
        None,
    ],
    ids=str,
)
def test_a_garland_that_cannot_be_read_is_passed_over_where_the_score_is_right(
    garland: object,
) -> None:
    reading = first({**INIT, "state": {**INIT["state"], "garland": garland}})
    assert (reading.wrongs, reading.layout.garlands) == ((), ())
    assert "cannot be read" in reading.layout.passed_over["state.garland"]
    with pytest.raises(Unreadable, match="neither the garland nor the score"):
        first({"stateToken": "x", "garland": garland, "leaves": 3})


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (None, "null"),
        ([], "a list"),
        ([INIT], "a list"),
        ("x", "a text"),
        (7, "an integer"),
        (True, "a boolean"),
        (1.5, "a fraction"),
    ],
    ids=["null", "empty list", "list", "text", "integer", "boolean", "fraction"],
)
def test_an_answer_that_is_no_object_cannot_be_read(answer: object, kind: str) -> None:
    for reader in (first, then):
        with pytest.raises(Unreadable, match=rf"^the answer is {kind}, not an object$"):
            reader(answer)


def test_a_field_elsewhere_counts_where_none_of_its_name_stands_nearer() -> None:
    near = {"token": "x", "garland": START, "score": 0}
    answer = {**near, "meta": {"score": 9}, "more": {"turn": 0}, "old": {"leaves": 1, "n": 9}}
    reading = first(answer)
    assert (reading.wrongs, dict(reading.layout.fields)) == (
        (),
        {"score": (("score",),), "turn": (("more", "turn"),)},
    )


def test_a_single_wrong_field_elsewhere_is_passed_over_at_first_sight() -> None:
    reading = first({"token": "x", "garland": START, "old": {"leaves": 1}})
    assert (reading.wrongs, dict(reading.layout.fields)) == ((), {})


def test_each_object_elsewhere_is_judged_by_itself() -> None:
    more = {"a": {"turn": 0}, "b": {"leaves": 9, "n": 9}}
    reading = first({"token": "x", "garland": START, "more": more})
    assert dict(reading.layout.fields) == {"turn": (("more", "a", "turn"),)}


def test_what_was_compared_elsewhere_has_to_stay_right_there() -> None:
    layout = first({"token": "x", "garland": START, "meta": {"turn": 0, "leaves": 3}}).layout
    answer = {"token": "y", "garland": [1, 2, 3], "meta": {"turn": 9, "leaves": 9}}
    assert [wrong.name for wrong in then(answer, layout).wrongs] == ["turn", "leaves"]


# The token


@pytest.mark.parametrize("changed", [{}, {"stateToken": ""}, {"token": 7}, {"state": {}}])
def test_an_answer_without_a_token_cannot_be_read(changed: dict[str, object]) -> None:
    with pytest.raises(
        Unreadable, match=r"^the answer has no token; the setting wire\.token names its path$"
    ):
        first({"garland": START, **changed})
    with pytest.raises(Unreadable, match=r"^the answer has no token$"):
        first({"answer": 42, **changed})


@pytest.mark.parametrize(
    ("tokens", "place"),
    [
        ({"a": {"token": "1"}, "token": "2"}, ("token",)),
        ({"a": {"token": "1"}, "z": {"stateToken": "2"}}, ("z", "stateToken")),
        ({"a": {"state": "1" * 40}, "token": "2", "state": "3" * 40}, ("token",)),
        ({"state": "1" * 40}, ("state",)),
        ({"accessToken": "1" * 40, "runToken": "2"}, ("runToken",)),
        ({"auth": {"token": "1" * 40}, "z": {"token": "2"}}, ("z", "token")),
        ({"anything": "1" * 40}, ("anything",)),
        ({"anything": "some words, more than thirty-two characters", "t": "1" * 40}, ("t",)),
    ],
    ids=str,
)
def test_the_likeliest_token_is_taken(tokens: dict[str, object], place: Path) -> None:
    assert first({"garland": START, **tokens}).layout.token == place


def test_a_token_that_is_echoed_is_not_the_new_one() -> None:
    reading = then({**AFTER, "stateToken": "the first", "nextStateToken": "the next"})
    assert (reading.token, reading.layout.token) == ("the next", ("nextStateToken",))
    assert then({**AFTER, "stateToken": "the first"}).token == "the first"


@pytest.mark.parametrize("length", [MAX_TOKEN, MAX_TOKEN + 1])
def test_a_token_has_at_most_64_kib(length: int) -> None:
    answer = {**AFTER, "stateToken": "x" * length}
    if length > MAX_TOKEN:
        with pytest.raises(Unreadable, match="a token of more than 65536 characters") as caught:
            then(answer)
        assert caught.value.has_token
    else:
        assert then(answer).token == "x" * length


# Settings


def test_a_setting_says_where_the_token_and_the_garland_are() -> None:
    wire = WireSettings({"token": ("ticket",), "garland": ("rows", "0", "hung")})
    answer = {"ticket": "a", "rows": [{"hung": START}], "token": "b", "garland": START}
    layout = first(answer, wire).layout
    assert (layout.token, layout.garlands) == (("ticket",), (("rows", "0", "hung"),))
    reading = then({**answer, "rows": [{"hung": [1, 2, 3]}]}, layout, wire)
    assert (reading.token, reading.wrongs) == ("a", ())


@pytest.mark.parametrize(
    ("name", "path", "what"),
    [
        ("garland", "state.target", "not the garland [-2, -1, 3]"),
        ("token", "state.token", "nothing"),
        ("leaves", "state.hearts", "nothing"),
    ],
)
def test_a_setting_that_points_to_nothing_is_told_with_its_place(
    name: str, path: str, what: str
) -> None:
    with pytest.raises(Unreadable) as caught:
        first(INIT, WireSettings({name: parse_path(path)}))
    assert str(caught.value) == (
        f"the answer to init has {what} at {path}, where the setting wire.{name} points"
    )
    assert caught.value.has_token


@pytest.mark.parametrize("ignored", ["leaves", "state.leaves"])
def test_a_field_is_ignored_by_its_name_or_its_path(ignored: str) -> None:
    wire = WireSettings(ignore=frozenset({ignored}))
    reading = first({**INIT, "state": {**INIT["state"], "leaves": 5}}, wire)
    assert (reading.wrongs, LAYOUT.fields.keys() - reading.layout.fields.keys()) == (
        (),
        {"leaves"},
    )


def test_a_setting_says_where_a_field_is_and_the_others_of_its_name_do_not_count() -> None:
    state = {**INIT["state"], "leaves": 99, "hearts": {"left": 3}}
    wire = WireSettings({"leaves": ("state", "hearts", "left")})
    reading = first({**INIT, "state": state}, wire)
    assert reading.wrongs == ()
    assert reading.layout.fields["leaves"] == (("state", "hearts", "left"),)


def test_the_spec_is_found_wherever_it_is() -> None:
    assert find_spec(INIT) == INIT["spec"]
    assert find_spec({"data": {"SPEC": [1]}}) == [1]
    assert find_spec(AFTER) is None
    assert find_spec([INIT]) is None


# Later answers


def test_the_predicted_answer_has_nothing_wrong() -> None:
    reading = then(AFTER)
    assert (reading.token, reading.wrongs, reading.missing) == ("the next", (), frozenset())
    assert reading.layout.to_json() == LAYOUT.to_json()
    assert not LAYOUT.has_news_for(reading.layout)


@pytest.mark.parametrize("name", sorted(public_fields(PREDICTED)))
def test_each_field_of_the_state_is_compared(name: str) -> None:
    value = public_fields(PREDICTED)[name]
    other: object = [2, 1, 3] if isinstance(value, list) else "x" if value is None else 77
    if isinstance(value, str):
        other = "x"
    reading = then({**AFTER, "state": {**AFTER["state"], name: other}})
    assert [(wrong.name, wrong.observed) for wrong in reading.wrongs] == [(name, other)]
    assert [*reading.differences.values()] == [{"predicted": value, "observed": other}]


@pytest.mark.parametrize("value", [{}, {"value": 215}, [], [215], None, "215", True], ids=repr)
@pytest.mark.parametrize("name", ["score", "gameOver", "legalActions"])
def test_a_field_that_was_compared_has_to_stay_of_its_kind(name: str, value: object) -> None:
    (wrong,) = then({**AFTER, name: value}).wrongs
    assert (wrong.name, wrong.observed) == (name, value)


def test_an_object_under_the_name_of_a_field_is_none_where_it_was_never_compared() -> None:
    answer = {"token": "x", "board": {"garland": START, "score": 0}, "cleared": {"count": 0}}
    assert first(answer).wrongs == ()


@pytest.mark.parametrize("name", ["score", "gameOver", "legalActions"])
def test_a_field_that_is_not_sent_is_not_compared_and_named(name: str) -> None:
    answer = {key: value for key, value in AFTER.items() if key != name}
    reading = then(answer)
    assert reading.wrongs == ()
    assert reading.missing == ({name} if name != "score" else set())
    assert not LAYOUT.has_news_for(reading.layout)


@pytest.mark.parametrize(
    "shape",
    [
        lambda answer: {"result": answer},
        lambda answer: {**answer, "observation": answer["state"], "state": None},
        lambda answer: {**answer["state"], "stateToken": answer["stateToken"]},
        lambda answer: {"nextStateToken": answer["stateToken"], "state": answer["state"]},
        lambda answer: {"state": {**answer["state"], "token": answer["stateToken"]}},
    ],
    ids=["wrapped", "renamed", "flat", "token renamed", "token inside"],
)
def test_an_answer_laid_out_otherwise_is_read_and_still_compared(
    shape: Callable[[dict[str, Any]], dict[str, Any]],
) -> None:
    reading = then(shape(AFTER))
    assert (reading.token, reading.wrongs) == ("the next", ())
    assert LAYOUT.has_news_for(reading.layout)
    for name, other in (("leaves", 2), ("phase", "playing"), ("turn", 7)):
        wrong = then(shape({**AFTER, "state": {**AFTER["state"], name: other}}))
        assert [found.name for found in wrong.wrongs] == [name]
    wrong = then(shape({**AFTER, "state": {**AFTER["state"], "garland": [1, 3, 2]}}))
    assert [found.name for found in wrong.wrongs] == [GARLAND]


def test_the_state_before_and_earlier_garlands_are_passed_over() -> None:
    history = {"previous": public_fields(FRESH), "history": [START], "garlands": [START]}
    assert then({**AFTER, **history}).wrongs == ()


def test_where_one_key_has_two_meanings_a_difference_has_its_path() -> None:
    layout = first({"token": "x", "board": 1, "a": {"board": START}}).layout
    differences = then({"token": "y", "board": 7, "a": {"board": [3, 2, 1]}}, layout).differences
    assert set(differences) == {"board", "a.board"}


def test_a_wrong_value_of_any_size_is_kept_in_short() -> None:
    answer = {**AFTER, "score": "x" * 100_000}
    (pair,) = then(answer).differences.values()
    assert len(str(pair["observed"])) == MAX_OBSERVED


@pytest.mark.parametrize(("token", "carried"), [("the last", "the last"), ("", None), (7, None)])
def test_the_last_answer_needs_no_token(token: object, carried: str | None) -> None:
    banked = rules.apply(PREDICTED, rules.BANK)
    answer = {**answer_with(banked), "stateToken": token}
    reading = read(answer, banked, PREDICTED, LAYOUT, sent="sent", settings=PLAINLY)
    assert (reading.token, reading.wrongs) == (carried, ())


@pytest.mark.parametrize(
    ("summary", "is_taken"),
    [
        ({"gameOver": True}, True),
        ({"endReason": "banked"}, True),
        ({"phase": "ended"}, True),
        ({"finalScore": 215}, True),
        ({"result": {"score": 215}}, True),
        ({"ok": True}, False),
        ({"leaves": 3}, False),
        ({"garland": [1, 2, 3]}, False),
    ],
    ids=str,
)
def test_a_summary_at_the_end_says_how_it_ended(summary: dict[str, object], is_taken: bool) -> None:
    banked = rules.apply(PREDICTED, rules.BANK)
    if is_taken:
        reading = read(summary, banked, PREDICTED, LAYOUT, sent="sent", settings=PLAINLY)
        assert (reading.token, reading.wrongs) == (None, ())
        assert is_proof(reading, PREDICTED, banked) or "score" in str(summary).lower()
    else:
        with pytest.raises(Unreadable):
            read(summary, banked, PREDICTED, LAYOUT, sent="sent", settings=PLAINLY)


def test_a_last_answer_with_a_token_may_say_no_more_than_that_it_is_over() -> None:
    banked = rules.apply(PREDICTED, rules.BANK)
    answer = {"stateToken": "the last", "gameOver": True}
    reading = read(answer, banked, PREDICTED, LAYOUT, sent="sent", settings=PLAINLY)
    assert reading.token == "the last"
    assert reading.right == {"gameOver"}


def test_an_answer_needs_the_garland_or_the_score_and_the_settings_can_name_them() -> None:
    told = (
        "the answer has neither the garland nor the score to check it by; the settings "
        "wire.garland and wire.score name their paths"
    )
    with pytest.raises(Unreadable) as caught:
        then({"stateToken": "the next", "gameOver": False, "leaves": 3})
    assert (str(caught.value), caught.value.has_token) == (told, True)
    banked = rules.apply(PREDICTED, rules.BANK)
    with pytest.raises(Unreadable) as caught:
        read({"leaves": 3}, banked, PREDICTED, LAYOUT, sent="sent", settings=PLAINLY)
    assert (str(caught.value), caught.value.has_token) == (told, False)


@pytest.mark.parametrize(
    "summary",
    [
        {"gameOver": False},
        {"gameOver": True, "endReason": "out-of-lives"},
        {"gameOver": True, "finalScore": 0},
        {"phase": "playing"},
    ],
    ids=str,
)
def test_a_summary_that_contradicts_is_not_taken(summary: dict[str, object]) -> None:
    banked = rules.apply(PREDICTED, rules.BANK)
    assert read(summary, banked, PREDICTED, LAYOUT, sent="sent", settings=PLAINLY).wrongs


@pytest.mark.parametrize(
    "said",
    [{"gameOver": True}, {"state": {**AFTER["state"], "phase": "ended"}}],
    ids=["game over", "ended"],
)
def test_an_end_that_comes_too_early_contradicts_though_it_has_no_token(
    said: dict[str, object],
) -> None:
    reading = then({**AFTER, **said, "stateToken": None})
    assert (reading.token, len(reading.wrongs)) == (None, 1)


def test_an_answer_that_shows_nothing_new_is_no_proof() -> None:
    assert is_proof(then(AFTER), FRESH, PREDICTED)
    assert not is_proof(then({**AFTER, "score": 0}), FRESH, PREDICTED)
    assert is_proof(first(INIT), None, FRESH)
    assert not is_proof(first({**INIT, "score": 9}), None, FRESH)
    after = rules.apply(FRESH, rules.FLIPS[0])
    same: dict[str, object] = {"token": "x", "score": 0, "leaves": 3}
    for answer, is_one in ((same, False), ({**same, "movesUsed": 1}, True)):
        reading = read(answer, after, FRESH, LAYOUT, sent="x", settings=PLAINLY)
        assert is_proof(reading, FRESH, after) is is_one


def test_a_field_that_was_compared_has_to_be_right_at_a_new_place_too() -> None:
    answer = {"stateToken": "x", "garland": [1, 2, 3], "meta": {"turn": 9}}
    assert [wrong.path for wrong in then(answer).wrongs] == [("meta", "turn")]


def test_a_field_that_a_setting_places_far_away_is_compared_there_whatever_stands_beside_it() -> (
    None
):
    answer = {"token": "x", "garland": START, "far": {"leaves": 3, "n": 9}}
    wire = WireSettings({"leaves": ("far", "leaves")})
    assert first(answer, wire).layout.fields["leaves"] == (("far", "leaves"),)


@pytest.mark.parametrize(("levels", "is_found"), [(5, True), (6, False)])
def test_what_stands_below_names_of_more_than_500_characters_is_not_found(
    levels: int, is_found: bool
) -> None:
    inner: dict[str, object] = {"turn": 0}
    for _ in range(levels):
        inner = {"k" * 100: inner}
    layout = first({"token": "x", "garland": START, **inner}).layout
    assert ("turn" in layout.fields) is is_found


def test_a_wrong_yes_or_text_elsewhere_is_no_claim_of_the_end() -> None:
    for wrong in ({"leaves": True}, {"state": {**AFTER["state"], "phase": "retry"}}):
        with pytest.raises(Unreadable, match="no token"):
            then({**AFTER, **wrong, "stateToken": None})
    assert then({**AFTER, "stateToken": None, "turn": "ended", "phase": "ended"}).wrongs


@pytest.mark.parametrize("length", [MAX_TOKEN, MAX_TOKEN + 1])
def test_a_long_text_is_no_token_that_is_too_long(length: int) -> None:
    story = ("some words " * 6000)[:length]
    with pytest.raises(Unreadable) as caught:
        first({"garland": START, "story": story})
    assert ("more than 65536 characters" in str(caught.value)) is (length > MAX_TOKEN)


def test_what_stands_beside_another_garland_is_of_another_state() -> None:
    layout = first(
        {
            "token": "x",
            "now": {"garland": START},
            "data": {
                "before": {"garland": [1, -2, 3], "score": 0, "turn": 0},
                "status": {"turn": 0},
            },
            "example": {"garland": "3 1 2", "leaves": 3},
        }
    ).layout
    assert dict(layout.fields) == {
        "turn": (("data", "status", "turn"),),
        "leaves": (("example", "leaves"),),
    }


@pytest.mark.parametrize("action", [rules.FLIPS[0], rules.BANK], ids=str)
def test_a_state_before_is_told_from_one_that_leaves_out_its_garland(action: rules.Action) -> None:
    after = rules.apply(FRESH, action)
    now = without_garland(after)
    answer = {"token": "y", "view": now, "score": 0, "previous": public_fields(FRESH)}
    reading = read(answer, after, FRESH, LAYOUT, sent="x", settings=PLAINLY)
    assert reading.wrongs == ()
    assert "turn" in reading.right
    wrong = {**answer, "view": {**now, "turn": 9}}
    found = read(wrong, after, FRESH, LAYOUT, sent="x", settings=PLAINLY).wrongs
    assert ("view", "turn") in [one.path for one in found]


FLIPPED: Final = rules.apply(FRESH, rules.FLIPS[0])


def after_a_flip(answer: object, last: Layout = LAYOUT) -> Reading:
    """Read an answer to `flip 1`, after which the board is not cleared."""
    return read(answer, FLIPPED, FRESH, last, sent="x", settings=PLAINLY)


def test_a_state_before_may_stand_beside_the_state_in_an_object_of_both() -> None:
    both = {"view": without_garland(FLIPPED), "previous": public_fields(FRESH)}
    reading = after_a_flip({"token": "y", "data": both, "score": 0})
    assert reading.wrongs == ()
    assert reading.layout.fields["turn"] == (("data", "view", "turn"),)


def test_a_state_of_which_a_part_has_moved_is_no_earlier_one() -> None:
    half = {**without_garland(FLIPPED), "movesUsed": 0}
    row = {"garland": list(FLIPPED.garland)}
    reading = after_a_flip({"token": "y", "data": {"view": half}, "row": row})
    assert [wrong.path for wrong in reading.wrongs] == [("data", "view", "movesUsed")]


def test_a_state_that_was_compared_inside_another_object_is_no_earlier_one() -> None:
    def answer(state: State, shown: State) -> dict[str, object]:
        held = {"state": without_garland(state)}
        return {"token": "y", "data": held, "row": list(shown.garland)}

    last = first(answer(FRESH, FRESH)).layout
    stuck = {**answer(FRESH, FLIPPED), "view": without_garland(FLIPPED)}
    paths = {wrong.path for wrong in after_a_flip(stuck, last).wrongs}
    assert paths >= {("data", "state", "turn"), ("data", "state", "movesUsed")}


def test_a_state_before_is_known_by_its_actions_in_any_order() -> None:
    after = rules.apply(FRESH, rules.BANK)
    now = without_garland(after)
    before = {"legalActions": legal_actions(FRESH)[::-1]}
    answer = {"token": "y", "view": now, "previous": before}
    assert read(answer, after, FRESH, LAYOUT, sent="x", settings=PLAINLY).wrongs == ()


def test_a_state_that_was_compared_and_did_not_move_is_no_earlier_one() -> None:
    stuck = {**AFTER, "state": public_fields(FRESH)}
    assert {wrong.name for wrong in then(stuck).wrongs} >= {"garland", "turn", "movesUsed"}
    moved = {"token": "y", "view": public_fields(FRESH), "score": 215}
    names = {wrong.name for wrong in then({**moved, "score": 0}).wrongs}
    assert "garland" in names


TWICE: Final = {"token": "x", "garland": START, "pennants": START, "start": START}
"""An answer to `init` with the garland at three places, one of them without its name."""


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({}, []),
        ({"pennants": [3, 2, 1]}, ["pennants"]),
        ({"pennants": [1, 2, 3], "start": [3, 2, 1]}, []),
        ({"garland": START, "start": [1, 2, 3]}, []),
        ({"garland": START}, ["garland", "pennants", "start"]),
    ],
    ids=str,
)
def test_of_the_places_that_held_the_first_garland_some_may_keep_it_after_the_first_move(
    changes: dict[str, object], wrong: list[str]
) -> None:
    answer = {**TWICE, "token": "y", "garland": [1, 2, 3], **changes}
    reading = then(answer, first(TWICE).layout)
    assert [".".join(found.path) for found in reading.wrongs] == wrong


@pytest.mark.parametrize("ignored", [False, True], ids=["compared", "ignored"])
def test_a_place_of_the_name_that_was_right_has_to_stay_right(ignored: bool) -> None:
    moved = {**TWICE, "token": "y", "garland": [1, 2, 3], "pennants": [1, 2, 3]}
    layout = then(moved, first(TWICE).layout).layout
    later = {**moved, "garland": [*LATER.garland]}
    wire = WireSettings(ignore=frozenset({"pennants"} if ignored else ()))
    reading = read(later, LATER, PREDICTED, layout, sent="y", settings=wire)
    found = [wrong.path for wrong in reading.wrongs]
    assert found == ([] if ignored else [("pennants",)])


def test_where_a_setting_says_where_the_garland_is_no_other_place_counts() -> None:
    layout = first(TWICE).layout
    wire = WireSettings({"garland": ("rows", "hung")})
    answer = {"token": "y", "garland": [3, 2, 1], "rows": {"hung": [1, 2, 3]}}
    assert then(answer, layout, wire).wrongs == ()
    wrong = {**answer, "rows": {"hung": [3, 2, 1]}}
    layout = then(answer, layout, wire).layout
    (found,) = read(wrong, PREDICTED, FRESH, layout, sent="x", settings=wire).wrongs
    assert found.path == ("rows", "hung")


def test_what_stands_beside_a_garland_that_stayed_is_of_another_state() -> None:
    history = {"first": {"start": START, "turn": 0}, "now": {"leaves": 3}}
    answer = {"token": "x", "garland": START, "history": history}
    layout = first(answer).layout
    assert layout.fields["turn"] == (("history", "first", "turn"),)
    reading = then({**answer, "token": "y", "garland": [1, 2, 3]}, layout)
    assert reading.wrongs == ()
    assert reading.right == {"garland", "leaves"}


def test_however_deep_it_stands_what_is_beside_the_garland_counts() -> None:
    deep = {"state": {"garland": START, "leaves": 2}}
    (wrong,) = first({"token": "x", "data": deep}).wrongs
    assert wrong.path == ("data", "state", "leaves")
    worse = {"garland": START, "leaves": 2, "n": 9}
    (wrong,) = first({"token": "x", "data": {"a": worse, "b": deep["state"]}}).wrongs
    assert wrong.path == ("data", "b", "leaves")


def test_where_the_garland_cannot_be_read_its_place_is_where_the_state_is() -> None:
    beads = [{"face": "sun"}]
    answer = {"token": "x", "now": {"pennants": beads, "score": 0, "leaves": 3}}
    reading = first(answer)
    assert reading.layout.passed_over == {
        "now.pennants": "a list that cannot be read; the run is played by the rules' own states "
        "and held against the score"
    }
    more = {"old": {"score": 215, "turn": 1, "phase": "cleared", "leaves": 3}}
    later = {"token": "y", "now": {"pennants": beads, "score": 215, "leaves": 2}, **more}
    wrongs = then(later, reading.layout).wrongs
    assert [(wrong.path, wrong.observed) for wrong in wrongs] == [(("now", "leaves"), 2)]


@pytest.mark.parametrize("garland", [[1, 1, 2], [7], [3, -1, -2], [1.0, 2, 3]], ids=str)
def test_a_list_of_other_numbers_under_its_name_is_a_wrong_garland(garland: object) -> None:
    reading = first({"token": "x", "garland": garland, "score": 0})
    assert reading.differences == {"garland": {"predicted": START, "observed": garland}}


@pytest.mark.parametrize("names", ["ab", "ba"], ids=str)
def test_of_several_places_with_the_garland_the_one_with_all_right_is_the_state(names: str) -> None:
    wrong = {"garland": START, "score": 5, "turn": 0}
    right = {"garland": START, "score": 0, "leaves": 3}
    states = {"a": {"inner": wrong}, "b": {"inner": right}}
    answer = {"token": "x", **{name: states[name] for name in names}}
    reading = first(answer)
    assert reading.wrongs == ()
    assert reading.layout.fields["score"] == (("b", "inner", "score"),)
    above = {"token": "x", "b": {"turn": 9, "inner": right}, "a": {"turn": 0, "inner": right}}
    assert first(above).layout.fields["turn"] == (("a", "turn"),)


RIGHT: Final = {"score": 0, "leaves": 3, "par": 9}
"""Two right fields and a wrong one."""


@pytest.mark.parametrize(
    ("states", "wrong"),
    [
        ({"a": {**RIGHT, "turn": 0}, "b": RIGHT}, "a"),
        ({"a": RIGHT, "b": {**RIGHT, "turn": 0}}, "b"),
        ({"a": {"par": 9, "n": 9, "score": 5}, "b": RIGHT}, "b"),
        ({"a": {"inner": RIGHT}, "b": RIGHT}, "b"),
        ({"a": RIGHT, "b": RIGHT}, "a"),
        ({"b": RIGHT, "a": RIGHT}, "b"),
    ],
    ids=str,
)
def test_without_a_garland_the_object_with_most_right_fields_is_the_state(
    states: dict[str, object], wrong: str
) -> None:
    reading = first({"token": "x", "data": states})
    assert [found.path for found in reading.wrongs] == [("data", wrong, "par")]


def test_a_difference_is_told_in_a_few_words() -> None:
    reading = then({**AFTER, "score": "x" * 200})
    assert [*observed_in(reading)] == [f"score is '{'x' * 79}, predicted 215"]


@pytest.mark.parametrize("length", [MAX_OBSERVED - 2, MAX_OBSERVED - 1], ids=str)
def test_a_wrong_value_is_kept_whole_as_far_as_it_is_short(length: int) -> None:
    reading = then({**AFTER, "score": "x" * length})
    (pair,) = reading.differences.values()
    assert (pair["observed"] == "x" * length) is (length == MAX_OBSERVED - 2)


@pytest.mark.parametrize("token", [7, None, {"a": "b"}], ids=repr)
def test_where_a_setting_points_to_no_text_there_is_no_token(token: object) -> None:
    wire = WireSettings({"token": ("ticket",)})
    answer = {"ticket": token, "stateToken": "x", "garland": START}
    with pytest.raises(Unreadable, match="the answer has no token"):
        first(answer, wire)
    with pytest.raises(Unreadable, match="the answer has no token"):
        then({key: value for key, value in AFTER.items() if key != "ticket"}, LAYOUT, wire)


def test_a_field_at_the_place_of_a_setting_is_compared_as_what_it_is() -> None:
    wire = WireSettings({"legalActions": ("moves",), "leaves": ("hearts",)})
    moves = legal_actions(FRESH)[::-1]
    reading = first({"token": "x", "garland": START, "moves": moves, "hearts": 2}, wire)
    assert [(wrong.name, wrong.observed) for wrong in reading.wrongs] == [("leaves", 2)]
    assert reading.layout.fields["legalActions"] == (("moves",),)


# Layouts


def test_a_layout_is_written_and_read_back_alike() -> None:
    written = json.loads(json.dumps(LAYOUT.to_json()))
    assert layout_from_json(written) == replace(LAYOUT, fields=layout_from_json(written).fields)
    assert dict(layout_from_json(written).fields) == dict(LAYOUT.fields)


# Answers of any shape

NAMES: Final = sorted(
    {spelling for spellings in SPELLINGS.values() for spelling in spellings}
    | {"state", "observation", "spec", "ok", "reason", "finalScore", "", ".", "a.b", "0", "\ud800"}
)
SCALARS: Final = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-6, 6),
    st.integers(),
    st.floats(),
    st.sampled_from(["", "playing", "banked", "-2 -1 3", "token", "\ud800", "x" * 40, 215, 0]),
    st.sampled_from([(-2, -1, 3), (1, 2, 3)]).map(list),
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
    """Draw an answer with a few of its values replaced or removed."""
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


def read_if_possible(
    answer: object, after: State, before: State | None, last: Layout, wire: WireSettings = PLAINLY
) -> Reading | None:
    try:
        return read(answer, after, before, last, sent="the first", settings=wire)
    except Unreadable:
        return None


def assert_sound(reading: Reading, answer: object, after: State, last: Layout) -> None:
    """Look whether a reading that has nothing wrong was checked by what is true."""
    assert json.dumps(reading.differences)
    if reading.wrongs:
        return
    if reading.layout.token:
        written = json.dumps(reading.layout.to_json())
        assert layout_from_json(json.loads(written)) == reading.layout
    if reading.token is None:
        assert after.phase == rules.ENDED
        assert reading.right & VERDICTS
    else:
        assert 0 < len(reading.token) <= MAX_TOKEN
        assert reading.right & {GARLAND, SCORE, *(VERDICTS if after.phase == rules.ENDED else ())}
    if GARLAND in reading.right:
        for path in reading.layout.garlands:
            assert is_same(look_up(answer, path), list(after.garland))
    for name, paths in reading.layout.fields.items():
        if name == SCORE and name in reading.right and paths != last.fields.get(name):
            for path in paths:
                assert is_same(look_up(answer, path), after.score)


@BIG
@given(answer=JSON | mutants(INIT), name=st.sampled_from(NAMES).filter(bool))
def test_a_first_answer_of_any_shape_is_read_or_cannot_be(answer: object, name: str) -> None:
    for wire in (
        PLAINLY,
        WireSettings({"garland": ("state", name)}),
        WireSettings({name: (name,)} if name in LOCATABLE else {}),
        WireSettings(ignore=frozenset({name})),
    ):
        reading = read_if_possible(answer, FRESH, None, Layout(), wire)
        if reading is not None:
            assert_sound(reading, answer, FRESH, Layout())


@BIG
@given(
    answer=JSON | mutants(AFTER) | mutants({"result": AFTER}),
    shape=mutants(INIT),
    state=st.sampled_from([PREDICTED, rules.apply(FRESH, rules.BANK)]),
)
def test_a_later_answer_of_any_shape_is_read_or_cannot_be(
    answer: object, shape: object, state: State
) -> None:
    before = read_if_possible(shape, FRESH, None, Layout())
    for last in (LAYOUT, before.layout if before else LAYOUT):
        reading = read_if_possible(answer, state, FRESH, last)
        if reading is not None:
            assert_sound(reading, answer, state, last)


@BIG
@given(mutants(answer_with(LATER)))
def test_an_answer_differs_where_its_values_do(answer: object) -> None:
    reading = read_if_possible(answer, LATER, PREDICTED, LAYOUT)
    assert isinstance(answer, dict)
    if reading is None:
        return
    names = {wrong.name for wrong in reading.wrongs}
    for name, path, expected in (
        ("score", ("score",), LATER.score),
        ("gameOver", ("gameOver",), False),
        ("garland", ("state", "garland"), list(LATER.garland)),
    ):
        value = look_up(answer, path)
        assert value is MISSING or is_same(value, expected) or name in names


# Bounds


def state_like(number: int) -> dict[str, Any]:
    return {**public_fields(FRESH), "turn": number % 2}


def deep(levels: int, inner: object) -> object:
    for level in range(levels):
        inner = {f"{level:03}" + "k" * 90: inner}
    return inner


def spelled(number: int) -> str:
    """Return one of many spellings of a field's name."""
    return "".join(
        letter + ("_" if number >> place & 1 else "-" if number >> (place + 9) & 1 else "")
        for place, letter in enumerate("movesUsed")
    )


SHAPES: Final[dict[str, Callable[[int], object]]] = {
    "arrays that could be the garland": lambda _: START,
    "arrays under its name": lambda number: {"garland": [number, 2, 3]},
    "objects that could be the state": state_like,
    "objects of objects": lambda number: {"a": state_like(number), "b": {"c": state_like(1)}},
    "deep long keys": lambda _: deep(60, {"garland": START, "score": 0}),
    "deep short keys": lambda _: json.loads('{"a":' * 90 + "1" + "}" * 90),
    "tokens": lambda number: f"{number:032}",
    "named tokens": lambda number: {"token": f"{number:032}", "stateToken": ""},
    "scores": lambda number: {"score": number},
    "legal actions": lambda _: {"legalActions": legal_actions(FRESH) * 5},
    "lists": lambda _: [[START, {"score": 0}]] * 5,
    "numbers": lambda number: number,
    "texts": lambda _: "invalid token limit " * 50,
    "errors": lambda _: {"error": {"message": "x" * 400}},
}


def answer_of(shape: Callable[[int], object], size: int) -> bytes:
    """Return an answer of about `size` bytes that has everything, and many values of a shape."""
    one = len(json.dumps({"x123456": shape(7)}))
    many = {f"x{number}": shape(number) for number in range(max(1, size // one))}
    return json.dumps({**many, **INIT}).encode()


def work_of(body: bytes, last: Layout) -> int:
    """Count the lines that are run to read an answer, written down and shown."""
    lines = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal lines
        if "/bot/" not in frame.f_code.co_filename:
            return None
        lines += event == "line"
        return trace

    was = sys.gettrace()
    sys.settrace(trace)
    try:
        answer = parse_json(body)
        saying_in(answer)
        excerpt(answer)
        reading = read_if_possible(answer, FRESH, None, last)
        if reading is not None:
            json.dumps(reading.layout.to_json())
            json.dumps(reading.differences)
        find_spec(answer)
    finally:
        sys.settrace(was)
    return lines


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_the_work_of_reading_grows_no_faster_than_the_answer(
    shape: Callable[[int], object],
) -> None:
    small, large = answer_of(shape, 2**15), answer_of(shape, 2**19)
    for last in (Layout(), LAYOUT):
        growth = work_of(large, last) / work_of(small, last)
        assert growth <= 1.1 * len(large) / len(small)


@pytest.mark.slow
def test_the_work_of_reading_grows_no_faster_than_the_spellings_of_a_field() -> None:
    def body(number: int) -> bytes:
        return json.dumps({**{spelled(place): 0 for place in range(number)}, **INIT}).encode()

    small, large = body(1000), body(16_000)
    assert work_of(large, LAYOUT) <= 1.1 * len(large) / len(small) * work_of(small, LAYOUT)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_what_is_written_of_an_answer_of_any_shape_is_short(
    shape: Callable[[int], object],
) -> None:
    answer = parse_json(answer_of(shape, 2**17))
    reading = read_if_possible(answer, FRESH, None, Layout())
    if reading is not None:
        assert len(json.dumps(reading.layout.to_json())) < 200_000
        assert len(json.dumps(reading.differences)) < 200_000
        assert len(reading.layout.garlands) <= MAX_GARLANDS
        assert sum(map(len, reading.layout.fields.values())) <= MAX_FIELDS
        assert len(reading.layout.passed_over) <= MAX_GARLANDS + MAX_FIELDS
