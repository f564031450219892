"""JSON values of answers: reading them, telling whether two are the same, showing them."""

from __future__ import annotations

import json
import re
from typing import Final, NoReturn

from bot.errors import BrokenAnswer, Unreadable
from bot.garland import MAX_WHOLE, as_integer

MAX_DEPTH: Final = 100
"""Levels of lists and objects in an answer; it is to be shown and written down, too."""
MAX_EXCERPT: Final = 200
"""Characters of an answer that are shown or written down."""


def parse_json(body: bytes) -> object:
    """Parse an answer's body as JSON in UTF-8, with or without a byte order mark.

    Raises:
        BrokenAnswer: the body is no JSON.
        Unreadable: it is nested more than `MAX_DEPTH` deep.
    """
    try:
        text = body.decode().removeprefix("\ufeff")
        if text.lstrip().startswith(("{", "[")) and is_too_deep(body, MAX_DEPTH):
            raise Unreadable("the answer is JSON nested too deeply to read")
        return _DECODER.decode(text)
    except ValueError as exc:
        raise BrokenAnswer(f"the answer is no JSON ({exc})") from exc


def is_too_deep(text: bytes, levels: int) -> bool:
    """Tell whether lists and objects are nested more than `levels` deep in JSON.

    It is asked before anything is parsed: how deep a parser gets is another matter in each
    release of Python, and so is what becomes of it there.
    """
    if text.count(b"[") + text.count(b"{") <= levels:
        return False
    depth = 0
    for match in _BRACKETS.finditer(text):
        first = text[match.start()]
        depth += first in b"[{"
        depth -= first in b"]}"
        if depth > levels:
            return True
    return False


_BRACKETS: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)
"""A text, which may hold brackets, or one bracket; each byte is looked at once."""


def refuse_constant(name: str) -> NoReturn:
    """Refuse `NaN` and the infinities, which Python reads and JSON does not have."""
    raise ValueError(f"{name} is no JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=refuse_constant)


def kind_of(value: object) -> str:
    """Name the kind of a JSON value, as far as comparing goes."""
    if as_integer(value) is not None:
        return "an integer"
    if isinstance(value, list):
        whole = all(as_integer(item) is not None for item in value)
        return "a list of integers" if value and whole else "a list"
    kinds = {bool: "a boolean", str: "a text", dict: "an object", float: "a fraction"}
    return kinds.get(type(value), "null")


def is_same(observed: object, expected: object) -> bool:
    """Tell whether a JSON value is the expected one, in value and type; `1.0` is the integer 1."""
    if type(observed) is not type(expected):
        return (
            type(expected) is int
            and type(observed) is float
            and abs(observed) <= MAX_WHOLE
            and observed == expected
        )
    if isinstance(observed, list) and isinstance(expected, list):
        return len(observed) == len(expected) and all(map(is_same, observed, expected))
    return observed == expected


def excerpt(answer: object) -> str:
    """Return the beginning of an answer, a text or any JSON, without anything like a token.

    At most `MAX_EXCERPT` characters are kept, and runs of 32 or more characters that a token
    can be made of are cut out.
    """
    text = answer if isinstance(answer, str) else json.dumps(answer)
    return _TOKEN_LIKE.sub("...", text[: 100 * MAX_EXCERPT])[:MAX_EXCERPT]


_TOKEN_LIKE: Final = re.compile(r"[\w+/=.~%|:;,!$&'()*@-]{32,}")


def brief(value: object) -> str:
    """Show a value of any size in at most 80 characters."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
