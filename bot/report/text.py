"""Words and numbers as the page shows them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Final

MAX_SHOWN: Final = 500
"""Characters of a text of the service that the page shows."""
EXACT: Final = 2**53
"""Whole numbers below it are the same in the page's script."""


def visible(text: str, limit: int = MAX_SHOWN) -> str:
    """Return `text`, cut to `limit`, with every character escaped that would not be seen.

    Control characters, line separators, marks that turn the direction of writing and halves
    of surrogate pairs are escaped; escaping for HTML is the template's.
    """
    shown = text if len(text) <= limit else f"{text[: limit - 1]}…"
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in shown
    )


def visible_lines(text: str, limit: int) -> str:
    """Return a text of many lines, cut to `limit`, each of them made visible."""
    shown = text if len(text) <= limit else f"{text[: limit - 1]}…"
    return "\n".join(visible(line, limit) for line in shown.split("\n"))


def visible_json(value: object, limit: int = MAX_SHOWN) -> str:
    """Return a JSON value as text, a text without quotes."""
    return visible(value if isinstance(value, str) else json.dumps(value), limit)


def count_of(number: int, one: str, many: str = "") -> str:
    """Write a number of things: `1 board`, `3,775 boards`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def duration(seconds: float) -> str:
    """Write seconds as people read them: `2 d 3 h`, `1 h 02 min`, `3 min 20 s`, `4.2 s`."""
    if round(seconds, 1) < 60:
        return f"{seconds:.1f} s" if seconds >= 0.1 else f"{seconds * 1000:.0f} ms"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes:02} min"
    return f"{hours // 24:,} d {hours % 24} h"


def clock_time(moment: datetime, *, is_dated: bool = True) -> str:
    """Write a moment in UTC to the second, with its day or without."""
    return f"{moment.astimezone(UTC):{'%Y-%m-%d %H:%M:%S' if is_dated else '%H:%M:%S'}}"


def clamp(number: float, highest: float = EXACT) -> float:
    """Return a number that a chart and a script can hold; a journal may say anything."""
    return min(number, highest)


def later(moment: datetime, seconds: float) -> datetime:
    """Return the moment `seconds` after another, at most the last that there is."""
    try:
        return moment + timedelta(seconds=seconds)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)
