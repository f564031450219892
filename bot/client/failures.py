"""What can go wrong with one attempt, by the kind of patience that it deserves."""

from __future__ import annotations

import re
from collections.abc import Mapping
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
    Unreadable,
)
from bot.wire.reading import Reading, observed_in
from bot.wire.sayings import About, Saying, is_about_limit, saying_of_error
from bot.wire.values import brief, excerpt, parse_json

MAX_CAUSE: Final = 500
"""Characters of a cause that are shown and written down."""
LOOKED_AT: Final = 100_000
"""Bytes of a body that is no answer."""
FIRST_WORDS: Final = 2000
"""Characters of such a body, where it is no JSON object, that may speak of a limit."""
LONGEST_RETRY_AFTER: Final = 100
"""Characters of a `Retry-After` that are read: digits that are a finite number of seconds."""


class Kind(Enum):
    """The kinds of failure; the values are words for people."""

    TROUBLE = "trouble"
    """Lost, cut, overloaded, not itself: the next attempt may well succeed."""
    LIMIT = "too fast"
    """Too many requests for the service."""
    BROWSER_CHECK = "browser check"
    """A page that asks for a browser. No attempt is made to get round it."""
    DIFFERS = "differs"
    """A whole answer that is not the predicted one."""
    UNREADABLE = "not understood"
    """JSON in which there is nothing to go by."""
    REFUSED = "refused"
    """`ok: false` for a legal action."""
    TOKEN = "token refused"  # noqa: S105 - the name of a kind
    """The token is not taken."""
    MOVED = "moved"
    """A redirect that is followed."""
    FINAL = "final"
    """Asking again would bring the same."""


class Failure(Exception):
    """One attempt that brought no accepted answer."""

    def __init__(
        self,
        kind: Kind,
        cause: str,
        *,
        status: int | None = None,
        shown: object = "",
        reading: Reading | None = None,
        error: BotError | None = None,
    ) -> None:
        """Say what went wrong in `cause`, for people; `shown` is the answer, text or JSON."""
        super().__init__(cause)
        self.kind = kind
        self.cause = cause[:MAX_CAUSE]
        self.status = status
        self.excerpt = excerpt(shown)
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
        if self.error is not None and not self.is_late:
            return self.error
        times = "once" if tries == 1 else f"{tries} times"
        if self.kind is Kind.BROWSER_CHECK:
            return ServiceUnavailable(
                f"the service asks for a browser: {self.cause}; {what} was sent {times}"
            )
        if self.is_late:
            asked = f"the service asks to wait until {self.asked_until} before {what}"
            gave_up = f"gave up on {what}, sent {times}"
            return ServiceUnavailable(f"{asked if self.asked_until else gave_up}: {self.cause}")
        if self.reading is not None:
            wrong = "; ".join(observed_in(self.reading))
            message = f"the answer to {what} contradicts the rules: {wrong}"
            return Diverged(message, self.reading.differences)
        if self.kind is Kind.UNREADABLE:
            return Unreadable(
                f"the answer to {what} cannot be understood: {self.cause}. It begins: "
                f"{self.excerpt}"
            )
        if self.kind is Kind.REFUSED:
            return Contradiction(
                f"the service refused {what}, a legal action, {times}: {self.cause}"
            )
        if self.kind is Kind.TOKEN:
            return TokenRefused(self.cause)
        return ServiceUnavailable(f"{what} was sent {times}, and not again: {self.cause}")


_FINAL_STATUSES: Final[Mapping[int, str]] = {
    402: "the service asks to be paid",
    404: "there is no such game at this address; look at --base-url",
    405: "this address does not take the request; look at --base-url",
    406: "this address does not answer in JSON; look at --base-url",
    411: "this address does not take the request; look at --base-url",
    413: "the service finds the request too large",
    414: "this address does not take the request; look at --base-url",
    415: "the service does not take JSON",
}
"""Statuses that mean a wrong address or way where nothing was ever accepted there."""
_CHECKING_STATUSES: Final = {403, 429, 503}
_CHECKING_HEADERS: Final = ("cf-mitigated", "x-vercel-mitigated")
_BROWSER_CHECK: Final = re.compile(
    r"challenge|captcha|just a moment|checking your browser|verif(y|ying) (that )?you"
    r"|security check|enable javascript|attention required|are you (a )?(human|robot)"
    r"|not a robot|ddos|cf-mitigated",
    re.IGNORECASE,
)


def from_answer(
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    *,
    is_under_way: bool,
    is_action: bool,
) -> Failure:
    """Return the failure that an answer is whose status is not 2xx.

    Args:
        status: of HTTP.
        headers: of the answer.
        body: of the answer.
        is_under_way: whether the service has answered well before, maybe at another address; then
            what says that there is no such thing here may pass.
        is_action: whether a token was sent.
    """
    content_type = headers.get("Content-Type", "")
    kind, cause = Kind.TROUBLE, describe_status(status, content_type)
    shown = beginning(body)
    saying = _saying(body)
    is_limit = saying.about is About.LIMIT if saying else is_about_limit(shown[:FIRST_WORDS])
    of_client = saying if 400 <= status < 500 else None
    if status in _CHECKING_STATUSES and _is_browser_check(headers, content_type, shown):
        kind = Kind.BROWSER_CHECK
    elif status == 429 or is_limit:
        kind = Kind.LIMIT
    elif of_client and of_client.about is About.TOKEN and is_action:
        kind = Kind.TOKEN
    elif status in _FINAL_STATUSES and not is_under_way:
        kind, cause = Kind.FINAL, f"{cause}: {_FINAL_STATUSES[status]}"
    if of_client and kind is not Kind.FINAL:
        cause = f"{cause}: {of_client.text}"
    return Failure(kind, cause, status=status, shown=shown)


def _is_browser_check(headers: Mapping[str, str], content_type: str, shown: str) -> bool:
    """Tell whether an answer asks for a browser: by a header, or by the words of a page."""
    if any("challenge" in headers.get(name, "") for name in _CHECKING_HEADERS):
        return True
    is_page = "html" in content_type.lower() or shown.lstrip().startswith("<")
    return is_page and _BROWSER_CHECK.search(shown) is not None


def from_saying(saying: Saying, status: int, shown: object, *, is_action: bool) -> Failure:
    """Return the failure that an answer with a status of 2xx is which says why it has no move."""
    kind = {
        About.LIMIT: Kind.LIMIT,
        About.TOKEN: Kind.TOKEN if is_action else Kind.TROUBLE,
        About.TROUBLE: Kind.TROUBLE,
        About.REFUSAL: Kind.REFUSED if is_action else Kind.TROUBLE,
    }[saying.about]
    return Failure(kind, saying.text, status=status, shown=shown)


def from_unreadable(exc: Unreadable, status: int, shown: object, *, is_under_way: bool) -> Failure:
    """Return the failure that an answer is which is JSON, and cannot be understood."""
    kind = Kind.UNREADABLE if exc.has_token or not is_under_way else Kind.TROUBLE
    what = f" ({_describe_keys(shown)})" if isinstance(shown, dict) else ""
    return Failure(kind, f"{exc}{what}", status=status, shown=shown)


def from_reading(reading: Reading, status: int, shown: object, *, is_action: bool) -> Failure:
    """Return the failure that an answer is which is whole, and does not hold what it must."""
    if is_action:
        cause = f"the answer differs from the prediction: {', '.join(reading.differences)}"
        return Failure(Kind.DIFFERS, cause, status=status, shown=shown, reading=reading)
    wrong = reading.wrongs[0]
    cause = (
        f"the answer to init has {wrong.name} {brief(wrong.observed)} where a fresh run has "
        f"{brief(wrong.predicted)}; the setting wire.ignore lists fields to pass over"
    )
    return Failure(Kind.DIFFERS, cause, status=status, shown=shown, error=Contradiction(cause))


def _describe_keys(answer: dict[str, object]) -> str:
    """Name the keys of an answer and the kinds of their values, in a few words."""
    kinds = {str: "text", dict: "object", list: "list", bool: "boolean", type(None): "null"}
    named = [f"{key:.40} {kinds.get(type(value), 'number')}" for key, value in answer.items()]
    return f"it has {', '.join(named[:12])}"[:300] if named else "it is empty"


def _saying(body: bytes) -> Saying | None:
    try:
        return saying_of_error(parse_json(body))
    except (BrokenAnswer, Unreadable):
        return None


def describe_status(status: int, content_type: str) -> str:
    """Name a status and the kind of content that came with it."""
    phrase = HTTPStatus(status).phrase if status in HTTPStatus.__members__.values() else ""
    return f"HTTP {status} {phrase}".rstrip() + f" ({content_type or 'no content type':.80})"


def beginning(body: bytes) -> str:
    """Return as much of a body, as text, as is looked at where it is no answer."""
    return body[:LOOKED_AT].decode(errors="replace")


def parse_retry_after(value: str, now: datetime) -> float | None:
    """Return the seconds that a `Retry-After` header asks for (RFC 9110, 10.2.3).

    Both forms are read, seconds and an HTTP date; what is in the past, negative or neither form
    counts as not sent.
    """
    text = value.strip()[:LONGEST_RETRY_AFTER]
    if re.fullmatch(r"\d+(\.\d+)?", text, re.ASCII):
        return float(text)
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    seconds = (moment - now).total_seconds()
    return seconds if seconds > 0 else None
