"""Words, numbers and escaping for people: the one way to write each, for a terminal or a page."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

MAX_SHOWN: Final = 500
"""Characters of a text of others that is shown or logged."""


def printable(text: str) -> str:
    """Return `text` with every character escaped that is not seen, its line ends apart.

    Control characters would move a terminal; marks that turn the direction of writing and
    halves of surrogate pairs would deceive the eye.
    """
    return "".join(
        character
        if character.isprintable() or character == "\n"
        else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def one_line(text: str) -> str:
    """Return `text` printable and without line ends: what others wrote cannot forge a line."""
    return printable(text).replace("\n", "\\n")


def shorten(text: str, limit: int = MAX_SHOWN) -> str:
    """Return `text`, cut to `limit` characters with an ellipsis as the last where it is longer."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def visible(text: str, limit: int = MAX_SHOWN) -> str:
    """Return a text of others in one line, cut to `limit`; escaping for HTML is a template's."""
    return one_line(shorten(text, limit))


def count_of(number: int, one: str, many: str = "") -> str:
    """Write a number of things: `1 board`, `3,775 boards`; `many` where an s does not do."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def duration(seconds: float) -> str:
    """Write seconds as people read them: `1 h 02 min`, `3 min 20 s`, `4.2 s`, `40 ms`."""
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
