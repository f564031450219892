"""A garland: a signed permutation of the pennants 1 to n.

A garland is a tuple such as `(-2, -1, 3)`: each entry's absolute value is the pennant,
positive where its sun face shows and negative where its moon face does. This module owns
the flip, the target and the reading of a garland from data. What a game does with garlands
belongs to `rules`, how to restore one to `solver`.

Source: the game's page, heading "SIGNED PENNANTS" and "FLIP".
"""

from __future__ import annotations

from typing import TypeAlias

from bot.errors import GarlandError

Garland: TypeAlias = tuple[int, ...]

MAX_PENNANTS = 5
"""The longest garland of any template, and the largest count of a flip."""
MAX_WHOLE = 2**53 - 1
"""The largest whole number that every reader of JSON keeps as it is (RFC 8259, section 6)."""


def flip(garland: Garland, count: int) -> Garland:
    """Reverse the first `count` pennants (1 to n) and turn each of them over."""
    return (*(-pennant for pennant in reversed(garland[:count])), *garland[count:])


def target(n: int) -> Garland:
    """Return the restored garland of `n` pennants: `(1, 2, …, n)`."""
    return tuple(range(1, n + 1))


def as_integer(value: object) -> int | None:
    """Return a JSON number with an integral value as an int, and None for anything else.

    `3` and `3.0` are integers, as JSON Schema has it; `True`, `"3"`, `3.5`, infinities and
    NaN are not.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return None


def parse_garland(value: object) -> Garland:
    """Read a garland from a list or tuple of JSON numbers.

    Raises:
        GarlandError: `value` is not a signed permutation of 1 to n with n from 1 to 5.
    """
    if isinstance(value, list | tuple) and 1 <= len(value) <= MAX_PENNANTS:
        pennants = tuple(map(as_integer, value))
        garland = tuple(pennant for pennant in pennants if pennant is not None)
        if sorted(map(abs, garland)) == list(range(1, len(value) + 1)):
            return garland
    raise GarlandError(
        f"expected a signed permutation of 1 to n with n from 1 to {MAX_PENNANTS}, "
        f"such as -2 -1 3; got {_brief(value)}"
    )


def format_garland(garland: Garland) -> str:
    """Write a garland as a row of signed numbers."""
    return " ".join(f"{pennant:+d}" for pennant in garland)


def _brief(value: object) -> str:
    """Show a value of any size in a few words."""
    try:
        text = " ".join(map(str, value)) if isinstance(value, list | tuple) else repr(value)
    except ValueError:
        return "a number of thousands of digits"
    return text if len(text) <= 60 else f"{text[:57]}..."
