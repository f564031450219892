from __future__ import annotations

from typing import Any, Final

import pytest

from bot import rules
from bot.wire.fields import expectation, legal_actions, public_fields
from bot.wire.layout import Layout, WireSettings
from bot.wire.places import MAX_TOKEN, Place, Places, TokenPlace, choose_token, collect

FRESH: Final = rules.fresh()
START: Final = [-2, -1, 3]
BANKED: Final = rules.apply(FRESH, rules.BANK)


def found_in(answer: dict[str, Any], state: rules.State = FRESH) -> Places:
    """Collect what a first answer has."""
    return collect(answer, expectation(state), Layout(), WireSettings())


def test_the_garland_is_what_has_its_value_or_its_name() -> None:
    found = found_in({"list": START, "garland": START, "pennants": "none", "target": START})
    assert found.garlands == [
        Place("garland", ("list",), START, is_right=True),
        Place("garland", ("garland",), START, is_right=True),
        Place("garland", ("pennants",), "none", is_right=False),
    ]


@pytest.mark.parametrize(
    ("actions", "is_right"),
    [(legal_actions(FRESH)[::-1], True), (legal_actions(FRESH)[1:], False)],
    ids=["all, in another order", "all but one"],
)
def test_a_field_is_right_where_it_is_the_expected_one(actions: object, is_right: bool) -> None:
    found = found_in({"legalActions": actions, "data": {"leaves": 2}})
    assert found.fields == [
        Place("legalActions", ("legalActions",), actions, is_right),
        Place("leaves", ("data", "leaves"), 2, is_right=False),
    ]


@pytest.mark.parametrize("score", [0, 215])
def test_a_final_score_is_the_score_of_a_run_that_is_over(score: int) -> None:
    answer = {"finalScore": score}
    assert found_in(answer).fields == []
    assert found_in(answer, BANKED).fields == [Place("score", ("finalScore",), score, score == 0)]


@pytest.mark.parametrize("length", [31, 32])
def test_a_text_of_32_characters_under_any_name_may_be_the_token(length: int) -> None:
    text = "x" * length
    unnamed = [TokenPlace(7, ("thing",), text)] if length == 32 else []
    assert found_in({"thing": text, "token": text}).tokens == [
        *unnamed,
        TokenPlace(2, ("token",), text),
    ]


@pytest.mark.parametrize("name", ["", "x" * 101], ids=["empty", "too long"])
def test_what_follows_a_value_that_is_left_out_is_found(name: str) -> None:
    found = found_in({name: START, "state": public_fields(FRESH)})
    assert [place.path for place in found.garlands] == [("state", "garland")]


@pytest.mark.parametrize(
    ("name", "length", "is_taken"),
    [
        ("token", 1, True),
        ("gameToken", 1, True),
        ("state", 15, False),
        ("state", 16, True),
        ("next", 15, False),
        ("next", 16, True),
        ("token", MAX_TOKEN, True),
        ("token", MAX_TOKEN + 1, False),
    ],
)
def test_a_name_that_may_be_of_something_else_has_a_token_of_16_characters(
    name: str, length: int, is_taken: bool
) -> None:
    tokens = found_in({name: "x" * length}).tokens
    assert (choose_token(tokens, Layout(), "") is not None) is is_taken


def test_of_several_tokens_the_one_is_taken_that_stands_where_the_last_one_did() -> None:
    tokens = found_in({"stateToken": "1", "data": {"token": "2"}}).tokens
    for place in (("stateToken",), ("data", "token")):
        token = choose_token(tokens, Layout(token=place), "")
        assert token is not None
        assert token.path == place
