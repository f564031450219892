"""Places in an answer: the keys from its top down to a value, as data and as text."""

from __future__ import annotations

import re
from typing import Final, TypeAlias

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
