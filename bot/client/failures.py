"""What can go wrong with one attempt, by the kind of patience that it deserves."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum
from http import HTTPStatus
from typing import Final

from bot.errors import (
    BotError,
    BrokenAnswer,
    Contradiction,
    Diverged,
    ServiceUnavailable,
    TokenRefused,
)
from bot.journal.events import MAX_EXCERPT
from bot.wire.layout import Reading
from bot.wire.refusals import MAX_REASON, is_about_trouble, reason_in
from bot.wire.values import parse_json

FIRST_WAIT_S: Final = 0.5
"""Seconds before a second attempt, where its kind does not say otherwise."""


class Kind(Enum):
    """The kinds of failure."""

    TRANSIENT = "transient"
    """Lost, cut, overloaded: the next attempt may well succeed."""
    BROWSER_CHECK = "browser check"
    """A page that asks for a browser. No attempt is made to get round it."""
    DIFFERS = "differs"
    """A whole answer that is not the predicted one."""
    REFUSED = "refused"
    """`ok: false` for a legal action."""
    TOKEN = "token"  # noqa: S105 - the name of a kind
    """The token is not taken."""
    MOVED = "moved"
    """A redirect that is followed."""
    FINAL = "final"
    """Asking again would bring the same."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How often to try again."""

    tries: float = math.inf
    """Attempts of one move that may fail in this way, for as long as there is time."""
    first_wait_s: float = FIRST_WAIT_S
    """Seconds before the second attempt; they double from then on. 0: no wait at all."""


PATIENCE: Final[Mapping[Kind, Patience]] = {
    Kind.TRANSIENT: Patience(),
    Kind.BROWSER_CHECK: Patience(tries=4, first_wait_s=15.0),
    Kind.DIFFERS: Patience(tries=2),
    Kind.REFUSED: Patience(tries=4),
    Kind.TOKEN: Patience(tries=2, first_wait_s=5.0),
    Kind.MOVED: Patience(tries=5, first_wait_s=0.0),
    Kind.FINAL: Patience(tries=1),
}


class Failure(Exception):
    """One attempt that brought no accepted answer."""

    def __init__(
        self,
        kind: Kind,
        cause: str,
        *,
        status: int | None = None,
        excerpt: str = "",
        retry_after_s: float | None = None,
        reading: Reading | None = None,
        error: BotError | None = None,
    ) -> None:
        """Say what went wrong in `cause`, for people."""
        super().__init__(cause)
        self.kind = kind
        self.cause = cause
        self.status = status
        self.excerpt = excerpt[:MAX_EXCERPT]
        self.retry_after_s = retry_after_s
        """Seconds that the service asks to wait, None where it does not or makes no sense."""
        self.reading = reading
        """Of an answer that differs."""
        self.is_late = False
        """Whether there was no time left for another attempt."""
        self.asked_until = ""
        """The moment that the service asked to wait for, where that was too late."""
        self.error = error
        """What to end with, where the kind does not say it."""

    def verdict(self, what: str, tries: int) -> BotError:
        """Return the error to end with when this failure was the last one allowed."""
        if self.error is not None:
            return self.error
        times = "once" if tries == 1 else f"{tries} times"
        if self.is_late:
            asked = f"the service asks to wait until {self.asked_until} before {what}"
            gave_up = f"gave up on {what}, sent {times}"
            return ServiceUnavailable(f"{asked if self.asked_until else gave_up}: {self.cause}")
        if self.kind is Kind.DIFFERS and self.reading is not None:
            differences = "; ".join(
                f"{name} is {pair['observed']!r:.80}, predicted {pair['predicted']!r:.80}"
                for name, pair in self.reading.differences.items()
            )
            message = f"the answer to {what} contradicts the rules: {differences}"
            return Diverged(message, self.reading.differences)
        if self.kind is Kind.DIFFERS:
            return Contradiction(self.cause)
        if self.kind is Kind.REFUSED:
            return Contradiction(
                f"the service refused {what}, a legal action, {times}: {self.cause}"
            )
        if self.kind is Kind.TOKEN:
            return TokenRefused(self.cause)
        if self.kind is Kind.BROWSER_CHECK:
            return ServiceUnavailable(f"the service asks for a browser: {self.cause}")
        return ServiceUnavailable(f"{what} was sent {times}, and not again: {self.cause}")


_TOKEN_STATUSES: Final = {400, 401, 409, 410, 422}
_FINAL_STATUSES: Final[Mapping[int, str]] = {
    402: "the service asks to be paid",
    404: "there is no such game at this address; look at --base-url",
    405: "this address does not take the request; look at --base-url",
    413: "the service finds the request of {size} bytes too large",
    415: "the service does not take JSON",
}
_BROWSER_CHECK: Final = re.compile(
    r"challenge|captcha|just a moment|checking your browser|verify(ing)? (that )?you are"
    r"|security checkpoint|enable javascript",
    re.IGNORECASE,
)


def from_status(
    status: int, headers: Mapping[str, str], body: bytes, *, sent_bytes: int, now: datetime
) -> Failure:
    """Return the failure that an answer with a status other than 200 is."""
    excerpt = body[: 4 * MAX_EXCERPT].decode("utf-8", "replace")
    kind = Kind.TRANSIENT
    cause = describe_status(status, headers)
    is_page = "html" in headers.get("Content-Type", "").lower() or excerpt.lstrip()[:1] == "<"
    if status in _TOKEN_STATUSES and (reason := _reason(body)) is not None:
        kind = Kind.TRANSIENT if is_about_trouble(reason) else Kind.TOKEN
        cause = f"{cause}: {reason}"
    elif status in _FINAL_STATUSES:
        kind = Kind.FINAL
        cause = f"{cause}: {_FINAL_STATUSES[status].format(size=sent_bytes)}"
    elif is_page and (status == 403 or (status in (429, 503) and _BROWSER_CHECK.search(excerpt))):
        kind = Kind.BROWSER_CHECK
    return Failure(
        kind,
        cause,
        status=status,
        excerpt=excerpt,
        retry_after_s=parse_retry_after(headers.get("Retry-After"), now),
    )


def describe_status(status: int, headers: Mapping[str, str]) -> str:
    """Name a status and the kind of content that came with it."""
    phrase = HTTPStatus(status).phrase if status in HTTPStatus.__members__.values() else ""
    content = headers.get("Content-Type") or "no content type"
    return f"HTTP {status} {phrase}".rstrip() + f" ({content:.80})"


def parse_retry_after(value: str | None, now: datetime) -> float | None:
    """Return the seconds that a `Retry-After` header asks for (RFC 9110, 10.2.3).

    Both forms are read, seconds and an HTTP date; what is in the past, negative, not finite
    or neither form counts as not sent.
    """
    text = (value or "").strip()
    if re.fullmatch(r"\d+(\.\d+)?", text, re.ASCII):
        seconds = float(text)
        return seconds if math.isfinite(seconds) else None
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    seconds = (moment - now).total_seconds()
    return seconds if seconds > 0 else None


def _reason(body: bytes) -> str | None:
    """Return what a JSON object says went wrong, None where the body is no JSON object."""
    try:
        answer = parse_json(body)
    except BrokenAnswer:
        return None
    if not isinstance(answer, dict):
        return None
    reason = reason_in(answer)
    return json.dumps(answer)[:MAX_REASON] if reason is None else reason
