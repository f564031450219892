"""Places in an answer: the keys from its top down to a value, as data and as text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

Path: TypeAlias = tuple[str, ...]
"""Keys from the top of an answer down to a value."""

MISSING: Final = object()
"""Stands for a value that is not in an answer."""

MAX_KEY: Final = 100
"""Characters of the longest name that a field is looked for under."""

_CLOSED: Final = frozenset({"spec", "legalactions"})
"""Subtrees that say what could be, not what is; nothing is looked for in them."""


def parse_path(text: object) -> Path:
    r"""Read a dotted path such as `state.sunRow`; within a key `\.` is a dot, `\\` a backslash.

    Raises:
        ValueError: it is no text, or a key in it is empty.
    """
    if not isinstance(text, str):
        raise ValueError(f"a path is a text such as state.garland, not {text!r}")  # noqa: TRY004 - a value of the journal
    if not _PATH.fullmatch(text):
        raise ValueError(f"a path is keys with dots between them, such as state.garland: {text!r}")
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
    """Return the value at `path`, or MISSING."""
    for key in path:
        if isinstance(answer, dict):
            answer = answer.get(key, MISSING)
        elif isinstance(answer, list) and key in map(str, range(len(answer))):
            answer = answer[int(key)]
        else:
            return MISSING
    return answer


def walk(answer: object) -> Iterator[tuple[Path, object]]:
    """Yield every keyed value of an answer with its path, the shallow ones first.

    What stands under an empty key is left out, since no path can be written to it, and so is
    what stands under one of more than `MAX_KEY` characters, since paths are shown and kept.
    """
    queue: list[tuple[Path, object]] = [((), answer)]
    for path, value in queue:
        if path:
            yield path, value
        if isinstance(value, dict) and not (path and fold_name(path[-1]) in _CLOSED):
            queue.extend(
                ((*path, key), inner) for key, inner in value.items() if 0 < len(key) <= MAX_KEY
            )


def objects_above(paths: Iterable[Path]) -> set[Path]:
    """Return the path of every object that one of these places is in."""
    return {path[:depth] for path in paths for depth in range(len(path))}
