from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot import solver
from bot.garland import Garland

DATA = Path(__file__).parent / "data"
COUNTS: dict[str, list[int]] = json.loads((DATA / "distance_counts.json").read_text())
WORST: list[int] = json.loads((DATA / "worst_cases.json").read_text())["terms"]
TEMPLATES = json.loads((DATA / "templates.json").read_text())
STARTS: list[Garland] = [tuple(template["start"]) for template in TEMPLATES]
EXTRA_FLIPS = [{2, 4}, {2, 4}, *[{2, 3, 4}] * 3, *[{1, 2, 3, 4}] * 3]
NUMBERS = [f"template {number}" for number in range(1, 9)]

property_based = settings(deadline=None, max_examples=30)


def turn(garland: Garland, count: int) -> Garland:
    """Flip as the page says, in other words than the bot's."""
    turned = list(garland)
    turned[:count] = [-garland[place] for place in range(count - 1, -1, -1)]
    return tuple(turned)


@cache
def layers(n: int) -> tuple[frozenset[Garland], ...]:
    """Return the garlands of n pennants by their distance: whole layers, no queue."""
    found = [frozenset({tuple(range(1, n + 1))})]
    seen = set(found[0])
    while found[-1]:
        near = {turn(garland, count) for garland in found[-1] for count in range(1, n + 1)}
        found.append(frozenset(near - seen))
        seen |= near
    return tuple(found[:-1])


def all_garlands(n: int) -> list[Garland]:
    return [garland for layer in layers(n) for garland in layer]


def meetings(garland: Garland, longest: int) -> set[int]:
    """Enumerate every sequence, and return the lengths at which one first meets the target."""
    if garland == tuple(range(1, len(garland) + 1)):
        return {0}
    if longest == 0:
        return set()
    return {
        1 + length
        for count in range(1, len(garland) + 1)
        for length in meetings(turn(garland, count), longest - 1)
    }


@pytest.mark.parametrize("n", range(1, 7), ids=str)
def test_the_tests_own_search_finds_the_known_distance_counts(n: int) -> None:
    assert [len(layer) for layer in layers(n)] == COUNTS[str(n)]


@pytest.mark.parametrize("n", range(1, 6), ids=str)
def test_the_solver_finds_the_known_distance_counts(n: int) -> None:
    counts = Counter(hint.distance for hint in solver.distances(n).values())
    assert [counts[distance] for distance in sorted(counts)] == COUNTS[str(n)]


def test_the_worst_garlands_are_as_far_as_the_literature_says() -> None:
    worst = [max(hint.distance for hint in solver.distances(n).values()) for n in range(1, 6)]
    assert worst == WORST[:5] == [1, 4, 6, 8, 10]
    assert [len(COUNTS[str(n)]) - 1 for n in range(1, 7)] == WORST


@pytest.mark.parametrize("n", range(1, 6), ids=str)
def test_every_garland_has_the_distance_that_the_tests_own_search_finds(n: int) -> None:
    distances = {garland: steps for steps, layer in enumerate(layers(n)) for garland in layer}
    assert {garland: solver.distance(garland) for garland in distances} == distances


@pytest.mark.parametrize("n", range(1, 6), ids=str)
def test_every_solution_solves_and_none_is_shorter(n: int) -> None:
    for steps, layer in enumerate(layers(n)):
        for start in layer:
            garland = start
            counts = solver.solve(start)
            for count in counts:
                garland = turn(garland, count)
            assert (garland, len(counts)) == (tuple(range(1, n + 1)), steps), start


@pytest.mark.parametrize("n", range(1, 6), ids=str)
def test_the_next_flip_is_the_first_of_the_solution_and_nothing_at_the_target(n: int) -> None:
    for garland in all_garlands(n):
        assert (solver.next_flip(garland),) == (solver.solve(garland) or (0,))[:1]


@pytest.mark.parametrize(
    ("start", "par"),
    [(start, template["par"]) for start, template in zip(STARTS, TEMPLATES, strict=True)],
    ids=NUMBERS,
)
def test_the_templates_have_their_pars(start: Garland, par: int) -> None:
    assert solver.distance(start) == len(solver.solve(start)) == par


@pytest.mark.parametrize(
    ("start", "extra"), list(zip(STARTS, EXTRA_FLIPS, strict=True)), ids=NUMBERS
)
def test_the_templates_allow_their_extra_flips(start: Garland, extra: set[int]) -> None:
    par = solver.distance(start)
    assert {length - par for length in solver.lengths(start, par + 4)} == {0, *extra}


@pytest.mark.parametrize(
    ("n", "longest"), [(1, 6), (2, 6), (3, 5), (4, 2)], ids=["1", "2", "3", "4"]
)
def test_the_lengths_of_all_garlands_are_those_of_every_sequence(n: int, longest: int) -> None:
    for garland in all_garlands(n):
        for most in range(longest + 1):
            assert solver.lengths(garland, most) == meetings(garland, most), (garland, most)


@given(st.sampled_from(all_garlands(4) + all_garlands(5)), st.integers(0, 5))
@property_based
def test_the_lengths_of_long_garlands_are_those_of_every_sequence(
    garland: Garland, longest: int
) -> None:
    assert solver.lengths(garland, longest) == meetings(garland, longest)


@given(st.sampled_from(STARTS + all_garlands(3) + all_garlands(5)), st.integers(0, 11))
@settings(deadline=None, max_examples=150)
def test_a_sequence_of_any_possible_length_first_meets_the_target_at_its_last_flip(
    start: Garland, longest: int
) -> None:
    goal = tuple(range(1, len(start) + 1))
    for length in solver.lengths(start, longest):
        garland = start
        for left in range(length, 0, -1):
            assert garland != goal
            count = solver.flip_towards(garland, left)
            assert 1 <= count <= len(start)
            garland = turn(garland, count)
        assert garland == goal


@pytest.mark.parametrize("n", range(1, 4), ids=str)
def test_a_length_that_no_sequence_has_is_refused(n: int) -> None:
    for garland in all_garlands(n)[1:]:
        possible = meetings(garland, 5)
        for length in {*range(1, 6)} - possible:
            with pytest.raises(ValueError, match=f"no {length} flips restore"):
                solver.flip_towards(garland, length)


@pytest.mark.parametrize(
    ("garland", "length"),
    [((-2, -1, 3), 0), ((-2, -1, 3), -1), *(((1, 2, 3), length) for length in range(-1, 9))],
)
def test_no_first_flip_exists_of_a_sequence_without_flips_or_from_the_target(
    garland: Garland, length: int
) -> None:
    with pytest.raises(ValueError, match=f"no {length} flips restore"):
        solver.flip_towards(garland, length)
