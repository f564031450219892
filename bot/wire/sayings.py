"""What an answer without a move says: that it was too much, that the token is bad, that it failed.

Only plain words about the token are about the token; whatever else is said may pass.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from enum import Enum
from typing import Final, NamedTuple

from bot.wire.fields import LEGAL_ACTIONS
from bot.wire.values import fold_name

MAX_SAYING: Final = 500
"""Characters that are kept of what a service says."""


class About(Enum):
    """What a saying is about."""

    LIMIT = "limit"
    """Too many requests."""
    TOKEN = "token"  # noqa: S105 - the name of a kind
    """The token that was sent is not good."""
    TROUBLE = "trouble"
    """Something that passes."""
    REFUSAL = "refusal"
    """`ok: false` without any such words: no move was made."""


class Saying(NamedTuple):
    """What a service says instead of a move."""

    about: About
    text: str


def saying_in(answer: object) -> Saying | None:
    """Return what a parsed answer with a status of 2xx says of why there is no move in it.

    None: it says nothing of the kind. `error: null`, `{}` or a code of 0 is no error.
    """
    if not isinstance(answer, dict):
        return None
    is_refusal = answer.get("ok") is False
    about = _about("\n".join(_texts(answer)))
    is_error = is_refusal or any(_is_error(answer.get(key)) for key in ("error", "errors"))
    if not is_error and about is not About.LIMIT:
        return None
    lists_actions = any(fold_name(key) == fold_name(LEGAL_ACTIONS) for key in answer)
    if about is About.TOKEN and (lists_actions or not is_refusal):
        about = None
    told = _telling(answer)
    shown = "no reason given" if told is None else told
    return Saying(about or (About.REFUSAL if is_refusal else About.TROUBLE), shown)


def saying_of_error(body: object) -> Saying | None:
    """Return what the parsed body of an answer with a status of 4xx says.

    None: it is no JSON object, so that it says nothing about the token.
    """
    if not isinstance(body, dict):
        return None
    about = _about("\n".join(_texts(body)))
    return Saying(about or About.TROUBLE, _telling(body) or json.dumps(body)[:MAX_SAYING])


def is_about_limit(text: str) -> bool:
    """Tell whether a text, of a page perhaps, speaks of too many requests."""
    return _LIMIT.search(_plain(text)) is not None


def _is_error(value: object) -> bool:
    """Tell whether the value of an error field says that there is one."""
    if isinstance(value, dict):
        return value.get("code") not in (0, "0") and any(value.values())
    return bool(value)


_TELLING: Final = (
    "reason",
    "message",
    "detail",
    "details",
    "description",
    "error_description",
    "msg",
    "error",
    "errors",
    "title",
    "code",
)
"""Where a service says what went wrong, the most telling first."""
_DEEPEST: Final = 4
"""Levels of an error object that are read."""


def _texts(value: object, depth: int = 0) -> Iterator[str]:
    """Yield each text that says what went wrong, bounded in number and length."""
    if isinstance(value, str):
        yield value[:MAX_SAYING]
    elif depth < _DEEPEST and isinstance(value, dict):
        for key in _TELLING:
            if key in value:
                yield from _texts(value[key], depth + 1)
    elif depth < _DEEPEST and isinstance(value, list):
        for item in value[:3]:
            yield from _texts(item, depth + 1)


def _telling(answer: dict[str, object]) -> str | None:
    """Return the most telling text of an error object, not its title where there is more."""
    found = next(filter(None, _texts(answer)), None)
    given = [answer[key] for key in _TELLING if key in answer]
    if found is None and given:
        return given[0] if isinstance(given[0], str) else json.dumps(given[0])[:MAX_SAYING]
    return found


def _about(text: str) -> About | None:
    """Tell what words are about; of those that fit two, a limit comes before the token."""
    if not text:  # as in every answer with a move
        return None
    plain = _plain(text)
    if _LIMIT.search(plain):
        return About.LIMIT
    if _TOKEN.search(plain) and not _OTHER_LAYER.search(plain):
        return About.TOKEN
    return About.TROUBLE if _TROUBLE.search(plain) or _OTHER_LAYER.search(plain) else None


def _plain(text: str) -> str:
    """Write codes such as `INVALID_TOKEN` and `stateToken` as words."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)
    return re.sub(r"[ \t_\-'\"`]+", " ", spaced).lower()


_SUBJECT: Final = r"\b(state ?token|token|session|signature|jwt|json web token)\b(?! bucket)"
_BAD: Final = (
    r"\b(invalid|expired|malformed|corrupt(ed)?|revoked|unknown|bad|wrong|stale|unrecogni[sz]ed"
    r"|tampered|forged|rejected|refused|mismatch|no longer (valid|accepted)|unusable"
    r"|(is not|isn t|not|was not|wasn t) (valid|recogni[sz]ed|found|known|good|accepted|signed)"
    r"|(could not|cannot|can t|failed to) be (parsed|decoded|verified|read))\b"
)
_TOKEN: Final = re.compile(
    rf"{_BAD} (\w+ )?{_SUBJECT}|{_SUBJECT}[^\n.;]{{0,30}}?{_BAD}"
    r"|(could not|cannot|can t|failed to) (parse|decode|verify|read) (the |your )?"
    rf"{_SUBJECT}"
)
_OTHER_LAYER: Final = re.compile(
    r"unexpected token|\b(access|auth\w*|bearer|csrf|xsrf|id|refresh|api|o ?auth|security|device"
    r"|verification|login|user) (token|session)|upstream|timed out|time ?out|\bjson\b(?! web)"
    r"|unexpected (end|character)|authorization|log ?in\b"
)
"""Tokens and sessions that are not the game's, and parsers that speak of tokens."""
_LIMIT: Final = re.compile(
    r"rate ?limit|too many|too fast|slow down|throttl|\bquota\b|token bucket"
    r"|requests? (limit|per)\b|limit (exceeded|reached)|exceeded .{0,20}limit"
)
_TROUBLE: Final = re.compile(
    r"unexpected|\bjson\b|time ?out|timed out|unavailable|overload|try again|try later|later\b"
    r"|internal|temporar|maintenance|\bbusy\b|gateway|upstream|database|deploy|moment|retry"
    r"|capacity|server error|starting|warming|restart(ing|ed)? the s|econn|socket|network|crash"
    r"|something went wrong|failed to fetch|not ready|conflict|lock"
)
