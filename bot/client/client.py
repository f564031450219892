"""The conversation with the service: each call asks until there is an accepted answer.

`begin` and `act` are iterators: they yield a `Failed` for each attempt that brought nothing,
before they wait for the next one, and at last the answer. So whoever asks can write down what
happens when it happens, and nothing here calls back.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import requests

from bot import rules
from bot.client.clock import Clock
from bot.client.failures import (
    Failure,
    Kind,
    from_answer,
    from_saying,
    from_unreadable,
    parse_retry_after,
)
from bot.client.limits import INIT_GIVE_UP_S, LEAST_TIMEOUT_S, Limits
from bot.client.pace import Pace
from bot.client.patience import Patience
from bot.client.redirects import ACTION_PATH, INIT_PATH, STATUSES, moved_along, redirected
from bot.client.transport import Transport, describe_error
from bot.errors import (
    BrokenAnswer,
    ConfigError,
    Contradiction,
    Stopped,
    TryLater,
    Unreadable,
)
from bot.rules import Action, State
from bot.wire.layout import Layout, WireSettings
from bot.wire.places import find_spec
from bot.wire.reading import Reading, is_proof, read
from bot.wire.sayings import saying_in
from bot.wire.values import brief, parse_json
from bot.words import count_of

_ENCODE: Final = json.JSONEncoder(separators=(",", ":")).encode
MAX_HOPS: Final = 5
"""Redirects in a row that are followed."""
SLACK_S: Final = 1.0
"""By how much a wait may be late before the machine was asleep meanwhile."""
LEAST_LEFT_S: Final = 0.01
"""The time-out of an attempt for which the minutes of this call leave less."""


class Failed(NamedTuple):
    """One attempt that brought no accepted answer."""

    attempt: int
    """From 1."""
    failure: Failure
    wait_s: float
    """Seconds until the next attempt; 0 where it is made at once, or not at all."""
    notice: str
    """What people should read beside it; empty for nothing."""


class Answered(NamedTuple):
    """An accepted answer."""

    token: str
    layout: Layout
    """Where everything was found in it."""
    is_laid_out_anew: bool
    """Whether that is elsewhere than in the answer before."""
    notices: tuple[str, ...]
    """What people should read of it."""
    spec: object
    """The service's description of the game, of an answer to `init`."""
    attempts: int
    elapsed_ms: float


class Client:
    """Sends actions to one service, each until it is answered."""

    def __init__(
        self,
        transport: Transport,
        base_url: str,
        limits: Limits,
        *,
        clock: Clock,
        pace: Pace,
        wire_settings: WireSettings,
    ) -> None:
        """Talk to the service at `base_url`, at the given pace.

        Raises:
            ConfigError: nothing can be asked at that address.
        """
        self.requests = 0
        """Sent so far."""
        self.last_body = b""
        """Of the last answer, to be shown where it could not be understood."""
        self._transport = transport
        self._limits = limits
        self._clock = clock
        self._pace = pace
        self._wire_settings = wire_settings
        self._layout = Layout()
        self._noted: set[str] = set()
        """Fields of which it was told that answers do not send them."""
        self._is_under_way = False
        """Whether an action of this run was ever accepted."""
        try:
            self._init = transport.prepare("GET", base_url + INIT_PATH)
            self._action = transport.prepare("POST", base_url + ACTION_PATH)
        except ValueError as exc:
            raise ConfigError(f"{base_url} is no usable base URL: {exc}") from exc
        self._home = {id(self._init): self._init.url, id(self._action): self._action.url}
        """Where each request goes when a redirect has led nowhere."""
        self._hops = 0
        """Redirects in a row."""
        self._ends_at = clock.monotonic() + 60 * (limits.max_minutes or math.inf)
        self._elapsed_ms = 0.0
        self._retry_after_s: float | None = None
        """What the last answer asks to wait."""

    @property
    def host(self) -> str:
        """The host that is asked now, with its port."""
        return urlsplit(self._action.url or "").netloc

    def begin(self, seed: int) -> Iterator[Failed | Answered]:
        """Begin a run: ask for `init`.

        Raises:
            ServiceUnavailable: the service cannot be reached, or answers nothing usable.
            Contradiction: the answer is not one of a fresh run, or cannot be understood.
            ConfigError: the service redirects to a host that is not its own.
            TryLater: the budget of this call is used up.
            Stopped: a signal asks to stop.
        """
        bare, _, _ = str(self._home[id(self._init)]).partition("?")
        self._init.prepare_url(bare, {"seed": str(seed)})
        self._home[id(self._init)] = self._init.url

        def judge(answer: object, status: int) -> Answered:
            return self._judge(answer, status, rules.fresh(), None, "")

        give_up_s = min(self._limits.give_up_after_s, INIT_GIVE_UP_S)
        return self._exchange("init", self._init, judge, give_up_s)

    def resume(self, layout: Layout, *, is_under_way: bool) -> None:
        """Read answers as one that was laid out so; `is_under_way`: after accepted actions."""
        self._layout = layout
        self._is_under_way = is_under_way

    def act(
        self, token: str, action: Action, before: State, after: State
    ) -> Iterator[Failed | Answered]:
        """Send `action` from the state `before` of `token`, until an answer holds `after`.

        An answer that is not as predicted is asked for once more.

        Raises:
            ServiceUnavailable: the service cannot be reached, or answers nothing usable.
            Diverged: the answer differs from the prediction, twice.
            Contradiction: it refuses the action, though it is legal, or cannot be understood.
            TokenRefused: the service refuses the token.
            ConfigError: the service redirects to a host that is not its own.
            TryLater: the budget of this call is used up.
            Stopped: a signal asks to stop.
        """
        body = _ENCODE({"stateToken": token, "action": action.to_json()}).encode("ascii")
        self._action.body = body
        self._action.headers["Content-Length"] = str(len(body))

        def judge(answer: object, status: int) -> Answered:
            return self._judge(answer, status, after, before, token)

        return self._exchange(str(action), self._action, judge, self._limits.give_up_after_s)

    def _exchange(
        self,
        what: str,
        request: requests.PreparedRequest,
        judge: Callable[[object, int], Answered],
        give_up_s: float,
    ) -> Iterator[Failed | Answered]:
        """Send `request` until its answer is accepted; yield each failure before it is waited."""
        patience: Patience | None = None
        attempt = 1
        while True:
            self._wait_for_turn()
            patience = patience or Patience(self._clock, self._clock.monotonic() + give_up_s)
            try:
                answered = judge(*self._ask(request, patience))
            except Failure as failure:
                failure.retry_after_s = failure.retry_after_s or self._retry_after_s
                notice = self._note_failure(request, failure)
                wait_s = patience.wait_after(failure)
                yield Failed(attempt, failure, wait_s or 0.0, notice)
                if wait_s is None:
                    raise failure.verdict(f"{what} at {self.host}", attempt) from failure
                patience.forgive(self._sleep(wait_s))
                attempt += 1
            else:
                self._settle(request)
                yield answered if attempt == 1 else answered._replace(attempts=attempt)
                return

    def _wait_for_turn(self) -> None:
        """Wait until the next request may be sent, so that requests are evenly spaced.

        Raises:
            TryLater: this call has had its requests, or will have had its minutes by then.
            Stopped: a signal asks to stop.
        """
        self._clock.stop.check()
        limits = self._limits
        if limits.max_requests is not None and self.requests >= limits.max_requests:
            raise TryLater(f"the budget of {count_of(limits.max_requests, 'request')} is used up")
        turn = self._pace.take_turn()
        now = self._clock.monotonic()
        if max(now, turn) >= self._ends_at:
            plural = "" if limits.max_minutes == 1 else "s"
            fate = "is used up" if now >= self._ends_at else "ends before the next request is due"
            raise TryLater(f"the budget of {limits.max_minutes:g} minute{plural} {fate}")
        if now < turn:
            self._clock.sleep(turn - now)

    def _ask(self, request: requests.PreparedRequest, patience: Patience) -> tuple[object, int]:
        """Send a request once; return its answer as parsed JSON, and its status.

        Raises:
            Failure: there is no answer, or none of a status of 2xx, or it is no JSON.
        """
        self.requests += 1
        self.last_body = b""
        self._retry_after_s = None
        sent_at = self._clock.monotonic()
        timeout_s = min(
            self._limits.timeout_s,
            max(patience.left_s, LEAST_TIMEOUT_S),
            max(self._ends_at - sent_at, LEAST_LEFT_S),
        )
        is_action = request is self._action
        try:
            response, self.last_body = self._transport.send(request, timeout_s)
        except Stopped as exc:
            raise Failure(Kind.FINAL, str(exc), error=exc) from exc
        except Unreadable as exc:
            raise from_unreadable(exc, 200, None, is_under_way=self._is_under_way) from exc
        except OSError as exc:
            took_s = self._clock.monotonic() - sent_at
            if took_s > timeout_s + SLACK_S:
                patience.forgive(took_s - timeout_s)
            raise Failure(Kind.TROUBLE, _explain(exc)) from exc
        self._elapsed_ms = round((self._clock.monotonic() - sent_at) * 1000, 2)
        status = response.status_code
        if 200 <= status < 300:
            asked = response.headers.get("Retry-After")
            self._retry_after_s = parse_retry_after(asked, self._clock.wall()) if asked else None
            return self._parse(response), status
        if status in STATUSES:
            self._redirect(request, response)
        raise from_answer(
            status,
            response.headers,
            self.last_body,
            now=self._clock.wall(),
            is_under_way=self._is_under_way or request.url != self._home[id(request)],
            is_action=is_action,
        )

    def _redirect(self, request: requests.PreparedRequest, response: requests.Response) -> None:
        """Turn `request` to where it has moved; where that leads nowhere it comes back.

        Raises:
            Failure: always, so that the request is sent again, or nothing more is.
        """
        status = response.status_code
        self._hops += 1
        if self._hops > MAX_HOPS:
            raise Failure(Kind.TROUBLE, f"HTTP {status}: redirects lead nowhere", status=status)
        try:
            request.url = redirected(self._transport, request, response)
        except ConfigError as exc:
            if self._is_under_way:
                raise Failure(Kind.TROUBLE, str(exc), status=status) from exc
            raise Failure(Kind.FINAL, str(exc), status=status, error=exc) from exc
        raise Failure(Kind.MOVED, f"HTTP {status}: moved to {request.url}", status=status)

    def _parse(self, response: requests.Response) -> object:
        """Return the last body as JSON.

        Raises:
            Failure: it is none, or too deep to be understood.
        """
        try:
            return parse_json(self.last_body)
        except (Unreadable, BrokenAnswer) as exc:
            status = response.status_code
            shown = self.last_body[:100_000].decode("utf-8", "replace")
            if isinstance(exc, Unreadable):
                raise from_unreadable(exc, status, shown, is_under_way=self._is_under_way) from exc
            content = response.headers.get("Content-Type")
            cause = f"{exc} ({content:.80})" if content else str(exc)
            raise Failure(Kind.TROUBLE, cause, status=status, shown=shown) from exc

    def _judge(
        self, answer: object, status: int, after: State, before: State | None, sent: str
    ) -> Answered:
        """Return what an answer says, where it holds the state `after`.

        Raises:
            Failure: it does not.
        """
        is_action = before is not None
        saying = saying_in(answer)
        try:
            reading = read(
                answer, after, before, self._layout, sent=sent, settings=self._wire_settings
            )
        except Unreadable as exc:
            if saying is not None:
                raise from_saying(saying, status, answer, is_action=is_action) from exc
            raise from_unreadable(exc, status, answer, is_under_way=self._is_under_way) from exc
        if saying is not None and not is_proof(reading, before, after):
            raise from_saying(saying, status, answer, is_action=is_action)
        if reading.wrongs:
            raise self._differs(reading, status, answer, is_action=is_action)
        last, self._layout = self._layout, reading.layout
        self._pace.note_accepted()
        return Answered(
            token=reading.token or sent,
            layout=reading.layout,
            is_laid_out_anew=bool(last.token) and last.has_news_for(reading.layout),
            notices=self._notices(reading, last),
            spec=None if is_action else find_spec(answer),
            attempts=1,
            elapsed_ms=self._elapsed_ms,
        )

    def _differs(
        self, reading: Reading, status: int, answer: object, *, is_action: bool
    ) -> Failure:
        if is_action:
            names = ", ".join(reading.differences)
            cause = f"the answer differs from the prediction: {names}"
            return Failure(Kind.DIFFERS, cause, status=status, shown=answer, reading=reading)
        wrong = reading.wrongs[0]
        cause = (
            f"the answer to init has {wrong.name} {brief(wrong.observed)} where a fresh run has "
            f"{brief(wrong.predicted)}; the setting wire.ignore lists fields to pass over"
        )
        error = Contradiction(cause)
        return Failure(Kind.DIFFERS, cause, status=status, shown=answer, error=error)

    def _notices(self, reading: Reading, last: Layout) -> tuple[str, ...]:
        """Return what is worth a word of an answer: what cannot be compared, or was not sent."""
        missing = reading.missing - self._noted
        self._noted |= missing
        told = [
            f"{place} is passed over for this run: {why}"
            for place, why in reading.layout.passed_over.items()
            if place not in last.passed_over
        ]
        if missing:
            names = ", ".join(sorted(missing))
            told.append(f"the answer does not send {names}; what is not sent is not compared")
        return tuple(told)

    def _note_failure(self, request: requests.PreparedRequest, failure: Failure) -> str:
        """Draw the consequences of a failure for pace and address; return what to tell of it."""
        if failure.kind is not Kind.MOVED:
            request.url = self._home[id(request)]
            self._hops = 0
        if failure.kind is not Kind.LIMIT or not self._pace.slow_down():
            return ""
        return f"the service limits requests: slowing down to {self._pace.rps:.2g} a second"

    def _sleep(self, seconds: float) -> float:
        """Wait, but not beyond the minutes of this call; return for how long we overslept."""
        began_at = self._clock.monotonic()
        seconds = max(0.0, min(seconds, self._ends_at - began_at))
        self._clock.sleep(seconds)
        late_s = self._clock.monotonic() - began_at - seconds
        return late_s if late_s > SLACK_S else 0.0

    def _settle(self, request: requests.PreparedRequest) -> None:
        """Stay where an answer was accepted; what else stands at that address comes along."""
        before, self._home[id(request)] = self._home[id(request)], request.url
        self._hops = 0
        if request is self._action:
            self._is_under_way = True
        elif before != request.url:
            moved = moved_along(self._action.url or "", before or "", request.url or "")
            self._action.url = self._home[id(self._action)] = moved


def _explain(exc: OSError) -> str:
    """Say what broke an exchange, and what can be done where it is the certificate."""
    text = describe_error(exc)
    if "CERTIFICATE_VERIFY_FAILED" not in text and "certificate" not in text.lower():
        return text
    return (
        f"{text}; REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE or SSL_CERT_FILE can name the certificates "
        f"to trust"
    )
