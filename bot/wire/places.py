"""One pass over an answer: the places of what could be its token, garland and fields.

Names and values alone are looked at here. Which place counts is for `reading` to judge.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from bot.wire.fields import (
    FINAL_SCORE,
    GAME_OVER,
    GARLAND,
    SCORE,
    TARGET,
    TOKEN,
    Fields,
    field_spelled,
    is_expected,
)
from bot.wire.layout import Layout, WireSettings
from bot.wire.values import MAX_KEY, MAX_PATH, MISSING, Path, fold_name, is_same, look_up

MAX_FIELDS: Final = 100
"""Places that could be a field which are looked at, the nearest to the top."""
MAX_GARLANDS: Final = 20
"""Places that could be the garland which are looked at."""
MAX_TOKEN: Final = 64 * 2**10
"""Characters of the longest token that is carried forward."""


class Place(NamedTuple):
    """A value of an answer that could be a field."""

    name: str
    """The page's."""
    path: Path
    value: object
    is_right: bool
    """Whether it is the expected one."""


class TokenPlace(NamedTuple):
    """A text of an answer that could be the token."""

    rank: int
    """How unlikely its name is."""
    path: Path
    value: str


@dataclass(slots=True)
class Places:
    """What one pass over an answer has found."""

    tokens: list[TokenPlace]
    """What could be the token."""
    garlands: list[Place]
    """What is the predicted garland, or stands under a name that the garland may have."""
    fields: list[Place]
    """What could be a further field."""


def collect(
    answer: dict[str, object], expected: Fields, last: Layout, settings: WireSettings
) -> Places:
    """Sort what an answer holds into what could be the token, the garland and the fields."""
    found = Places([], [], [])
    garland = expected[GARLAND]
    for path, (name, token_rank, _), value in _walk(answer):
        if isinstance(value, str) and (token_rank is not None or len(value) >= _LEAST_UNNAMED):
            rank = _UNNAMED if token_rank is None else token_rank
            found.tokens.append(TokenPlace(rank, path, value))
        if name == GARLAND:
            found.garlands.append(Place(GARLAND, path, value, is_same(value, garland)))
        elif isinstance(value, list) and name != TARGET and is_same(value, garland):
            found.garlands.append(Place(GARLAND, path, value, is_right=True))
        elif (
            name in expected
            and path not in last.garlands
            and (not isinstance(value, dict) or path in last.fields.get(name, ()))
        ):
            is_right = is_expected(name, value, expected[name])
            found.fields.append(Place(name, path, value, is_right))
        elif name == FINAL_SCORE and expected[GAME_OVER] is True:
            found.fields.append(Place(SCORE, path, value, is_same(value, expected[SCORE])))
    del found.garlands[MAX_GARLANDS:], found.fields[MAX_FIELDS:]
    if settings.paths or settings.ignore:
        _heed(settings, found, answer, expected)
    return found


def _walk(answer: dict[str, object]) -> Iterator[tuple[Path, _Key, object]]:
    """Yield every value that stands in objects alone with its place, the shallow ones first.

    What has no name, or one that is too long to be written down, is left out.
    """
    seen: list[tuple[Path, int, dict[str, object]]] = [((), 0, answer)]
    for path, length, holder in seen:
        for key, value in holder.items():
            if not 0 < len(key) <= MAX_KEY:
                continue
            place, known = (*path, key), _know(key)
            if isinstance(value, dict) and not known.is_closed and length + len(key) <= MAX_PATH:
                seen.append((place, length + len(key), value))
            yield place, known, value


def _heed(
    settings: WireSettings, found: Places, answer: dict[str, object], expected: Fields
) -> None:
    """Put a field where the user says that it is, and leave out what is to be passed over."""
    named = {
        name: (path, value)
        for name, path in settings.paths.items()
        if (value := look_up(answer, path)) is not MISSING
    }
    if TOKEN in settings.paths:
        path, value = named.pop(TOKEN, ((), None))
        found.tokens = [TokenPlace(0, path, value)] if isinstance(value, str) else []
    at_will = [
        Place(name, path, value, is_expected(name, value, expected[name]))
        for name, (path, value) in named.items()
    ]
    if GARLAND in settings.paths:
        found.garlands = [place for place in at_will if place.name == GARLAND]
    others = [place for place in found.fields if place.name not in settings.paths]
    found.fields = [
        place
        for place in (*at_will, *others)
        if place.name != GARLAND and not settings.ignores(place.path)
    ]
    found.garlands = [place for place in found.garlands if not settings.ignores(place.path)]


def choose_token(tokens: list[TokenPlace], last: Layout, sent: str) -> TokenPlace | None:
    """Return the likeliest token, None where there is none.

    It is one that was not `sent`, if there is one; then the one that stands where the last answer
    had it; then the one of the likeliest name, and the one nearest to the top.
    """
    named = [token for token in tokens if token.rank < _UNNAMED] or [
        token for token in tokens if _OPAQUE.fullmatch(token.value)
    ]
    fit = [
        token
        for token in named
        if (1 if token.rank < _SHY else _LEAST_SHY) <= len(token.value) <= MAX_TOKEN
    ]
    return min(
        [token for token in fit if token.value != sent] or fit,
        key=lambda token: (token.path != last.token, token.rank, len(token.path)),
        default=None,
    )


def find_spec(answer: object) -> object:
    """Return the service's description of the game from the answer to `init`, or None."""
    objects = [answer]
    for holder in objects:
        if isinstance(holder, dict):
            for key, value in holder.items():
                if key.lower() == "spec":
                    return value
            objects.extend(holder.values())
    return None


# What a name says


class _Key(NamedTuple):
    """What the name of a value says."""

    field: str | None
    """The page's name of the field, if it is one's."""
    token_rank: int | None
    """How unlikely it is the name of the token; None: it is not."""
    is_closed: bool
    """Whether what stands below it is not about the state as it is."""


_TOKEN_NAMES: Final = (
    ("statetoken",),
    ("nextstatetoken", "newstatetoken"),
    ("token",),
    ("nexttoken", "newtoken", "gametoken", "runtoken"),
    ("state", "nextstate", "newstate"),
    ("cursor", "continuation", "ticket", "session", "sessionid", "next"),
)
"""Names that a token may have, the likeliest first."""
_OTHER_TOKENS: Final = re.compile("csrf|xsrf|access|auth|refresh|bearer|api|^idtoken")
"""Names of tokens of other layers, which are never the game's."""
_SHY: Final = 4
"""The rank from which on a name may be one of something else, which is shorter than a token."""
_LEAST_SHY: Final = 16
"""Characters of the shortest token under such a name."""
_UNNAMED: Final = len(_TOKEN_NAMES) + 1
"""The rank of a token under a name that says nothing of one."""
_LEAST_UNNAMED: Final = 32
"""Characters of the shortest token under such a name."""
_OPAQUE: Final = re.compile(r"[\w+/=.~%|:,-]+", re.ASCII)
"""What a token under such a name looks like."""


@lru_cache(maxsize=1024)
def _know(key: str) -> _Key:
    """Tell what a name says, in whatever spelling."""
    name = fold_name(key)
    rank = next((rank for rank, names in enumerate(_TOKEN_NAMES) if name in names), None)
    if rank is None and "token" in name:
        rank = len(_TOKEN_NAMES)
    if _OTHER_TOKENS.search(name):
        rank = None
    field_name = field_spelled(key)
    if field_name is None and name == fold_name(FINAL_SCORE):
        field_name = FINAL_SCORE
    is_closed = name in ("spec", "legalactions") or bool(_OTHER_TOKENS.search(name))
    return _Key(field_name, rank, is_closed)
