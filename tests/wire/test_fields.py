from __future__ import annotations

import pytest

from bot import rules
from bot.wire.fields import (
    field_spelled,
    is_comparable,
    is_expected,
    legal_actions,
    why_incomparable,
)

PLAYING = legal_actions(rules.fresh())


@pytest.mark.parametrize(
    ("name", "observed", "expected", "is_one"),
    [
        ("phase", "PLAYING", "playing", False),
        ("phase", "play-ing", "playing", False),
        ("phase", "dancing", "playing", True),
        ("phase", "retry", "playing", True),
        ("phase", None, "playing", False),
        ("endReason", None, "banked", True),
        ("endReason", "banked", None, True),
        ("endReason", "out-of-lives", None, True),
        ("endReason", "won", None, False),
        ("leaves", None, 3, False),
        ("leaves", 2, 3, True),
        ("leaves", 2.0, 3, True),
        ("leaves", 2.5, 3, False),
        ("leaves", True, 3, False),
        ("leaves", [1, 1, 1], 3, False),
        ("target", [3, 2, 1], [1, 2, 3], True),
        ("target", "1 2 3", [1, 2, 3], False),
        ("legalActions", [{"type": "bank"}], PLAYING, True),
        ("legalActions", ["bank"], PLAYING, False),
        ("legalActions", {"flip": [1, 3]}, PLAYING, False),
    ],
    ids=str,
)
def test_a_wrong_value_counts_where_it_is_of_the_kind_of_the_right_one(
    name: str, observed: object, expected: object, is_one: bool
) -> None:
    assert is_comparable(name, observed, expected) is is_one


@pytest.mark.parametrize(
    ("observed", "is_right"),
    [
        (PLAYING, True),
        (PLAYING[::-1], True),
        ([*PLAYING, PLAYING[0]], True),
        (PLAYING[1:], False),
        ([{**PLAYING[0], "count": 1.0}, *PLAYING[1:]], True),
        ([{**PLAYING[0], "count": True}, *PLAYING[1:]], False),
        ([{**PLAYING[0], "label": "flip one"}, *PLAYING[1:]], False),
        (None, False),
        (tuple(PLAYING), False),
    ],
    ids=str,
)
def test_legal_actions_are_the_expected_ones_in_any_order(observed: object, is_right: bool) -> None:
    assert is_expected("legalActions", observed, PLAYING) is is_right


def test_what_cannot_be_compared_is_said_by_its_kind() -> None:
    assert why_incomparable("leaves", [1], 3) == (
        "a list of integers where an integer was expected"
    )
    assert why_incomparable("legalActions", [1], PLAYING) == "not whole actions"


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("moves_left", "remainingMoves"),
        ("MOVES-LEFT", "remainingMoves"),
        ("board", "boardNumber"),
        ("stateToken", "token"),
        ("finalScore", None),
        ("boards", None),
        ("", None),
    ],
)
def test_a_field_is_known_by_any_of_its_spellings(key: str, name: str | None) -> None:
    assert field_spelled(key) == name
