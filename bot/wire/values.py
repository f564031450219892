"""JSON values of answers: reading and comparing them, finding them by their place, showing them."""

from __future__ import annotations

import json
import re
from typing import Final, NoReturn, TypeAlias

from bot.errors import BrokenAnswer, Unreadable
from bot.garland import MAX_WHOLE, as_integer

MAX_ANSWER: Final = 2**20
"""Bytes of the longest body that is taken for an answer."""
MAX_DEPTH: Final = 100
"""Levels of lists and objects in an answer; it is to be shown and written down, too."""
MAX_EXCERPT: Final = 200
"""Characters of an answer that are shown or written down."""


def parse_json(body: bytes) -> object:
    """Parse an answer's body as JSON in UTF-8, with or without a byte order mark.

    Raises:
        BrokenAnswer: the body is no JSON.
        Unreadable: it is longer than `MAX_ANSWER`, or nested more than `MAX_DEPTH` deep.
    """
    if len(body) > MAX_ANSWER:
        raise Unreadable(f"the answer is longer than {MAX_ANSWER} bytes")
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


# Places in an answer


Path: TypeAlias = tuple[str, ...]
"""Keys from the top of an answer down to a value."""

MISSING: Final = object()
"""Stands for a value that is not in an answer."""

MAX_KEY: Final = 100
"""Characters of the longest name that a field is looked for under."""
MAX_PATH: Final = 500
"""Characters of all the names on the way to a field: paths are shown and written down."""


def parse_path(text: object) -> Path:
    r"""Read a dotted path such as `state.sunRow`; within a key `\.` is a dot, `\\` a backslash.

    Raises:
        ValueError: it is no text, or a key in it is empty.
    """
    if not isinstance(text, str):
        raise ValueError(f"a path is a text such as state.garland, not {text!r:.80}")  # noqa: TRY004 - a value of the journal
    if not _PATH.fullmatch(text):
        raise ValueError(
            f"a path is keys with dots between them, such as state.garland: {text!r:.80}"
        )
    return tuple(_ESCAPE.sub(r"\1", key) for key in _KEY.findall(text))


def format_path(path: Path) -> str:
    """Write a path as `parse_path` reads it."""
    return ".".join(_SPECIAL.sub(r"\\\g<0>", key) for key in path)


_KEY: Final = re.compile(r"(?:[^.\\]|\\.)+", re.DOTALL)
_PATH: Final = re.compile(rf"{_KEY.pattern}(?:\.{_KEY.pattern})*", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_SPECIAL: Final = re.compile(r"[.\\]")


def fold_name(name: str) -> str:
    """Fold the spellings of a name: `moveBudget`, `move_budget` and `MoveBudget` are one."""
    return name.replace("_", "").replace("-", "").lower()


def look_up(answer: object, path: Path) -> object:
    """Return the value at `path`, or MISSING; a number is a place in a list."""
    for key in path:
        if isinstance(answer, dict):
            answer = answer.get(key, MISSING)
        elif isinstance(answer, list) and re.fullmatch("0|[1-9][0-9]{0,6}", key):
            answer = answer[int(key)] if int(key) < len(answer) else MISSING
        else:
            return MISSING
    return answer


def is_above(holder: Path, path: Path) -> bool:
    """Tell whether the object at `holder` is the one that holds `path`, or stands above it."""
    return len(holder) < len(path) and path[: len(holder)] == holder
