from __future__ import annotations

import json
import math
from enum import IntEnum

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.errors import GarlandError
from bot.garland import (
    MAX_PENNANTS,
    Garland,
    as_integer,
    flip,
    format_garland,
    parse_garland,
    target,
)

property_based = settings(deadline=None, max_examples=100)

garlands: st.SearchStrategy[Garland] = st.integers(1, 5).flatmap(
    lambda n: st.builds(
        lambda order, signs: tuple(p * s for p, s in zip(order, signs, strict=True)),
        st.permutations(range(1, n + 1)),
        st.lists(st.sampled_from([1, -1]), min_size=n, max_size=n),
    )
)
flips = garlands.flatmap(lambda garland: st.tuples(st.just(garland), st.integers(1, len(garland))))

numbers = st.integers(-6, 6) | st.integers(-6, 6).map(float) | st.floats()
scalars = st.none() | st.booleans() | numbers | st.text(max_size=3)
junk = (
    scalars
    | st.lists(numbers | st.integers(-3, 3), max_size=6)
    | st.lists(scalars | st.lists(scalars, max_size=2), max_size=6)
    | st.dictionaries(st.text(max_size=2), scalars, max_size=2)
)


class Pennant(IntEnum):
    FIRST = 1


def shown(value: object) -> str:
    """Name a case in a few words; pytest numbers those that get the same."""
    return repr(value)[:20]


def is_garland(value: object) -> bool:
    """Say, by the words of the page alone, whether a JSON value is a signed permutation."""
    if not isinstance(value, list) or any(type(entry) not in {int, float} for entry in value):
        return False
    return 1 <= len(value) <= 5 and {abs(entry) for entry in value} == {*range(1, len(value) + 1)}


@pytest.mark.parametrize(
    ("count", "expected"),
    [(1, (-1, -2, 3)), (2, (2, -1, 3)), (3, (-3, 2, -1))],
    ids=["the first face only", "the example of the page", "the whole garland"],
)
def test_a_flip_reverses_and_turns_over_the_first_pennants(count: int, expected: Garland) -> None:
    assert flip((1, -2, 3), count) == expected


@given(flips)
@property_based
def test_flipping_the_same_prefix_twice_is_nothing(case: tuple[Garland, int]) -> None:
    garland, count = case
    assert flip(flip(garland, count), count) == garland


@given(flips)
@property_based
def test_a_flip_moves_each_selected_pennant_and_no_other(case: tuple[Garland, int]) -> None:
    garland, count = case
    flipped = flip(garland, count)
    assert [flipped[place] for place in range(count)] == [
        -garland[count - 1 - place] for place in range(count)
    ]
    assert flipped[count:] == garland[count:]


@given(flips)
@property_based
def test_a_flip_leaves_a_signed_permutation_other_than_before(case: tuple[Garland, int]) -> None:
    garland, count = case
    flipped = flip(garland, count)
    assert is_garland(list(flipped))
    assert flipped != garland


@pytest.mark.parametrize(
    ("n", "expected"), [(1, (1,)), (3, (1, 2, 3)), (5, (1, 2, 3, 4, 5))], ids=["1", "3", "5"]
)
def test_the_target_is_every_sun_face_in_number_order(n: int, expected: Garland) -> None:
    assert target(n) == expected


def test_the_longest_garland_has_five_pennants() -> None:
    assert MAX_PENNANTS == 5


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3, 3),
        (0, 0),
        (-2, -2),
        (3.0, 3),
        (-3.0, -3),
        (-0.0, 0),
        (1e2, 100),
        (10**30, 10**30),
        (Pennant.FIRST, 1),
        (3.5, None),
        (math.nan, None),
        (math.inf, None),
        (-math.inf, None),
        (True, None),
        (False, None),
        (None, None),
        ("3", None),
        ("", None),
        ([3], None),
        ({"count": 3}, None),
        (3 + 0j, None),
    ],
    ids=shown,
)
def test_only_a_number_with_an_integral_value_is_an_integer(
    value: object, expected: int | None
) -> None:
    integer = as_integer(value)
    assert integer == expected
    assert not isinstance(integer, float)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([-2, -1, 3], (-2, -1, 3)),
        ((-2, -1, 3), (-2, -1, 3)),
        ([1.0, -2.0], (1, -2)),
        ([1], (1,)),
        ([-1], (-1,)),
        ([5, -3, 2, -4, -1], (5, -3, 2, -4, -1)),
    ],
    ids=["list", "tuple", "1.0", "one sun", "one moon", "five"],
)
def test_a_signed_permutation_is_read_as_a_garland(value: object, expected: Garland) -> None:
    garland = parse_garland(value)
    assert garland == expected
    assert all(type(pennant) is int for pennant in garland)


@pytest.mark.parametrize(
    "value",
    [
        [],
        (),
        [1, 2, 3, 4, 5, 6],
        [1, 1],
        [1, -1],
        [2, 1, 2],
        [2],
        [0],
        [0, 1],
        [1, 3],
        [-4, 1, 2],
        [True],
        [True, 2],
        [1, False],
        ["1"],
        ["1", "2"],
        [3.5, 1, 2],
        [1, math.nan],
        [1, math.inf],
        [1, -math.inf],
        [1, None],
        [[1]],
        [1, [2]],
        [[1, 2]],
        [1, {"pennant": 2}],
        None,
        1,
        1.0,
        True,
        "1 2 3",
        "1",
        b"\x01",
        {},
        {1: 1},
        {1, 2},
        range(1, 4),
        [10**30],
        [1, 10**400],
    ],
    ids=shown,
)
def test_anything_but_a_signed_permutation_is_refused(value: object) -> None:
    with pytest.raises(GarlandError, match="signed permutation of 1 to n with n from 1 to 5"):
        parse_garland(value)


@pytest.mark.parametrize("value", [[10**5000], 10**5000], ids=["in a list", "alone"])
def test_a_number_too_long_to_print_is_refused_like_any_other(value: object) -> None:
    with pytest.raises(GarlandError, match=r"; got a number of thousands of digits$"):
        parse_garland(value)


@pytest.mark.parametrize(
    ("value", "ending"),
    [
        ([1, 1, "x"], "; got 1 1 x"),
        ("1 2", "; got '1 2'"),
        (None, "; got None"),
        ("x" * 58, f"; got '{'x' * 58}'"),
        ("x" * 59, f"; got '{'x' * 56}..."),
    ],
    ids=["list", "text", "null", "60 characters", "61 characters"],
)
def test_a_refusal_shows_what_came(value: object, ending: str) -> None:
    with pytest.raises(GarlandError) as caught:
        parse_garland(value)
    assert str(caught.value).endswith(ending)


@pytest.mark.parametrize("value", ["x" * 100_000, list(range(50_000))], ids=["text", "list"])
def test_a_refusal_stays_short_whatever_came(value: object) -> None:
    with pytest.raises(GarlandError) as caught:
        parse_garland(value)
    assert len(str(caught.value)) < 200
    assert str(caught.value).endswith("...")


def test_a_garland_is_written_with_every_sign() -> None:
    assert format_garland((-2, -1, 3)) == "-2 -1 +3"


@given(garlands)
@property_based
def test_a_garland_written_as_json_reads_back_the_same(garland: Garland) -> None:
    assert parse_garland(json.loads(json.dumps(garland))) == garland


@given(junk)
@property_based
def test_a_json_value_is_read_when_it_is_a_signed_permutation_and_refused_otherwise(
    value: object,
) -> None:
    if is_garland(value):
        assert list(parse_garland(value)) == value
    else:
        with pytest.raises(GarlandError):
            parse_garland(value)
