"""Answers that say that no move was made."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from bot.wire.fields import LEGAL_ACTIONS
from bot.wire.paths import fold_name

MAX_REASON: Final = 200
"""Characters that are kept of why the service says no."""


class Refusal(NamedTuple):
    """An `ok: false` answer: no move was made."""

    reason: str
    is_about_token: bool
    """Whether it is the token that is refused: an answer to an action lists the legal ones."""


def refusal(answer: object) -> Refusal | None:
    """Return what a refusing answer says, None for any other."""
    if not isinstance(answer, dict) or answer.get("ok") is not False:
        return None
    reason = reason_in(answer)
    text = "no reason given" if reason is None else reason
    lists_actions = any(fold_name(key) == fold_name(LEGAL_ACTIONS) for key in answer)
    is_about_token = _ABOUT_TOKEN.search(text) is not None and not is_about_trouble(text)
    return Refusal(text, is_about_token and not lists_actions)


def reason_in(answer: Mapping[str, object]) -> str | None:
    """Return why a service says no, in `MAX_REASON` characters; None where it does not say."""
    for key in ("reason", "error", "message", "detail"):
        if key in answer:
            reason = answer[key]
            return (reason if isinstance(reason, str) else json.dumps(reason))[:MAX_REASON]
    return None


_ABOUT_TOKEN: Final = re.compile(r"token|signature|expired", re.IGNORECASE)


def is_about_trouble(reason: str) -> bool:
    """Tell whether a reason speaks of passing trouble, though it may have `token` in it, too.

    `Unexpected token '<'` is what JavaScript says of a page where it expected JSON. Where it is
    said what is wrong with the token itself, the trouble does not pass.
    """
    return _WRONG_TOKEN.search(reason) is None and _ABOUT_TROUBLE.search(reason) is not None


_CREDENTIAL: Final = r"(?<!unexpected )\b(\w*token|session|signature)\b(?! bucket)"
_WRONG: Final = (
    r"\b(invalid|expired|malformed|corrupt|revoked|unknown|bad|could not be (parsed|decoded))\b"
)
_WRONG_TOKEN: Final = re.compile(
    rf"{_WRONG} (\w+ )?{_CREDENTIAL}|{_CREDENTIAL}.{{0,20}}{_WRONG}", re.IGNORECASE
)
_ABOUT_TROUBLE: Final = re.compile(
    r"unexpected (token|end|character)|\bjson\b(?! web)|token bucket|rate.?limit|too many"
    r"|unavailable|overload|try again|time.?out|timed out",
    re.IGNORECASE,
)
