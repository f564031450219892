"""Exact solutions of the burnt pancake problem for one to five pennants.

Five pennants have 2^5 · 5! = 3,840 garlands, so a breadth-first search from the target over
all of them gives the true distance of each. It runs once for each n, when first asked
for; every answer after that is a look-up.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from bot.garland import Garland, flip, target


class Hint(NamedTuple):
    """What the search knows of one garland."""

    distance: int
    """Flips in a shortest sequence to the target."""
    first_flip: int
    """Count of the first flip of one such sequence; 0 at the target."""


def distance(garland: Garland) -> int:
    """Return the least number of flips that restores `garland` (a valid one, n ≤ 5)."""
    return distances(len(garland))[garland].distance


def next_flip(garland: Garland) -> int:
    """Return the count of the first flip of a shortest sequence; 0 at the target."""
    return distances(len(garland))[garland].first_flip


def solve(garland: Garland) -> tuple[int, ...]:
    """Return the counts of one shortest sequence of flips from `garland` to the target."""
    counts = []
    while count := next_flip(garland):
        counts.append(count)
        garland = flip(garland, count)
    return tuple(counts)


@cache
def distances(n: int) -> dict[Garland, Hint]:
    """Search every garland of `n` pennants from the target outwards.

    A flip undoes itself, so the flip that reached a garland is the first one back.
    """
    found = {target(n): Hint(0, 0)}
    frontier = [target(n)]
    for garland in frontier:
        further = found[garland].distance + 1
        for count in range(1, n + 1):
            neighbour = flip(garland, count)
            if neighbour not in found:
                found[neighbour] = Hint(further, count)
                frontier.append(neighbour)
    return found


@cache
def lengths(garland: Garland, longest: int) -> frozenset[int]:
    """Return each number of flips, up to `longest`, that can first meet the target.

    A board is cleared the moment that its target shows, so a sequence that is longer than
    the shortest must keep off the target until its last flip.
    """
    if garland == target(len(garland)):
        return frozenset({0})
    if longest <= 0:
        return frozenset()
    return frozenset(
        1 + length
        for count in range(1, len(garland) + 1)
        for length in lengths(flip(garland, count), longest - 1)
    )


def flip_towards(garland: Garland, length: int) -> int:
    """Return the first flip of a sequence that first meets the target after `length` flips.

    Raises:
        ValueError: there is no such sequence.
    """
    left = length - 1
    if garland != target(len(garland)):
        for count in range(1, len(garland) + 1):
            if left in lengths(flip(garland, count), left):
                return count
    raise ValueError(f"no {length} flips restore {garland} with the last one only")
