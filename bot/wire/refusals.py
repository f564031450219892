"""Answers that say that no move was made."""

from __future__ import annotations

import json
import re
from typing import Final, NamedTuple

from bot.wire.fields import LEGAL_ACTIONS
from bot.wire.paths import fold_name

MAX_REASON: Final = 200
"""Characters that are kept of why the service refuses an action."""


class Refusal(NamedTuple):
    """An `ok: false` answer: no move was made."""

    reason: str
    is_about_token: bool
    """Whether it is the token that is refused: an answer to an action lists the legal ones."""


def refusal(answer: object) -> Refusal | None:
    """Return what a refusing answer says, None for any other."""
    if not isinstance(answer, dict) or answer.get("ok") is not False:
        return None
    reason = answer.get("reason", answer.get("error"))
    text = reason if isinstance(reason, str) else json.dumps(reason)
    lists_actions = any(fold_name(key) == fold_name(LEGAL_ACTIONS) for key in answer)
    is_about_token = _ABOUT_TOKEN.search(text) is not None and not is_about_trouble(text)
    return Refusal(text[:MAX_REASON], is_about_token and not lists_actions)


_ABOUT_TOKEN: Final = re.compile(r"token|signature|expired", re.IGNORECASE)


def is_about_trouble(reason: str) -> bool:
    """Tell whether a reason speaks of passing trouble, though it may have `token` in it, too.

    `Unexpected token '<'` is what JavaScript says of a page where it expected JSON.
    """
    return _ABOUT_TROUBLE.search(reason) is not None


_ABOUT_TROUBLE: Final = re.compile(
    r"unexpected (token|end|character)|\bjson\b(?! web)|token bucket|rate.?limit|too many"
    r"|unavailable|overload|try again|time.?out|timed out",
    re.IGNORECASE,
)
