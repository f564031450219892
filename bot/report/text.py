"""Words and numbers as the page shows them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Final

from bot.words import MAX_SHOWN, clock_time, count_of, duration, one_line, printable, shorten

__all__ = [
    "clamp",
    "clock_time",
    "count_of",
    "duration",
    "later",
    "visible",
    "visible_json",
    "visible_lines",
]

EXACT: Final = 2**53
"""Whole numbers below it are the same in the page's script."""


def visible(text: str, limit: int = MAX_SHOWN) -> str:
    """Return `text`, cut to `limit`, with every character escaped that would not be seen.

    Escaping for HTML is the template's.
    """
    return one_line(shorten(text, limit))


def visible_lines(text: str, limit: int) -> str:
    """Return a text of many lines, cut to `limit`, each of them made visible."""
    return printable(shorten(text, limit))


def visible_json(value: object, limit: int = MAX_SHOWN) -> str:
    """Return a JSON value as text, a text without quotes."""
    return visible(value if isinstance(value, str) else json.dumps(value), limit)


def clamp(number: float, highest: float = EXACT) -> float:
    """Return a number that a chart and a script can hold; a journal may say anything."""
    return min(number, highest)


def later(moment: datetime, seconds: float) -> datetime:
    """Return the moment `seconds` after another, at most the last that there is."""
    try:
        return moment + timedelta(seconds=seconds)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)
