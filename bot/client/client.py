"""The conversation with the service: each call asks until there is an accepted answer.

`begin` and `act` are iterators: they yield a `Failed` for each attempt that brought nothing,
before they wait for the next one, and at last the answer. So whoever asks can write down what
happens when it happens, and nothing here calls back.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import requests

from bot import rules
from bot.client.clock import Clock
from bot.client.failures import (
    Failure,
    Kind,
    beginning,
    from_answer,
    from_reading,
    from_saying,
    from_unreadable,
    parse_retry_after,
)
from bot.client.limits import INIT_GIVE_UP_S, LEAST_TIMEOUT_S, Limits
from bot.client.pace import Pace
from bot.client.patience import Patience
from bot.client.redirects import ACTION_PATH, INIT_PATH, STATUSES, Endpoint
from bot.client.transport import Transport, describe_error
from bot.errors import (
    BrokenAnswer,
    ConfigError,
    Stopped,
    TryLater,
    Unreadable,
)
from bot.rules import Action, State
from bot.wire.layout import Layout, WireSettings
from bot.wire.places import find_spec
from bot.wire.reading import Reading, is_proof, read
from bot.wire.sayings import saying_in
from bot.wire.values import parse_json
from bot.words import count_of

_ENCODE: Final = json.JSONEncoder(separators=(",", ":")).encode
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


class _Question(NamedTuple):
    """What is asked of the service."""

    what: str
    """For people."""
    endpoint: Endpoint
    after: State
    """What the answer must hold."""
    before: State | None = None
    """What the action is made from; None for `init`."""
    token: str = ""
    """Of that state."""

    @property
    def is_action(self) -> bool:
        return self.before is not None


class _Answer(NamedTuple):
    """What came with a status of 2xx."""

    content: object
    """Parsed JSON."""
    status: int
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
            self._init = Endpoint(transport, "GET", base_url + INIT_PATH)
            self._action = Endpoint(transport, "POST", base_url + ACTION_PATH)
        except ValueError as exc:
            raise ConfigError(f"{base_url} is no usable base URL: {exc}") from exc
        self._ends_at = clock.monotonic() + 60 * (limits.max_minutes or math.inf)
        self._retry_after_s: float | None = None
        """What the last answer asks to wait, None where it does not or makes no sense."""

    @property
    def host(self) -> str:
        """The host that is asked now, with its port."""
        return urlsplit(self._action.url).netloc

    def begin(self, seed: int) -> Iterator[Failed | Answered]:
        """Begin a run: ask for `init`.

        Raises:
            ServiceUnavailable: the service cannot be reached, or answers nothing usable.
            Contradiction: the answer is not one of a fresh run, or cannot be understood.
            ConfigError: the service redirects to a host that is not its own.
            TryLater: the budget of this call is used up.
            Stopped: a signal asks to stop.
        """
        self._init.set_query({"seed": str(seed)})
        question = _Question("init", self._init, rules.fresh())
        return self._exchange(question, min(self._limits.give_up_after_s, INIT_GIVE_UP_S))

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
        self._action.request.body = body
        self._action.request.headers["Content-Length"] = str(len(body))
        question = _Question(str(action), self._action, after, before, token)
        return self._exchange(question, self._limits.give_up_after_s)

    def _exchange(self, question: _Question, give_up_s: float) -> Iterator[Failed | Answered]:
        """Ask until an answer is accepted; yield each failure before it is waited."""
        patience: Patience | None = None
        attempt = 1
        while True:
            self._wait_for_turn()  # which is no time of the service's, so it counts only then
            began_at = self._clock.monotonic()
            patience = patience or Patience(self._clock, began_at + give_up_s)
            try:
                answered = self._judge(question, self._ask(question, patience))
            except Failure as failure:
                notice = self._note_failure(question.endpoint, failure)
                wait_s = patience.wait_after(failure, self._retry_after_s)
                yield Failed(attempt, failure, wait_s or 0.0, notice)
                if wait_s is None:
                    what = f"{question.what} at {self.host}"
                    raise failure.verdict(what, attempt) from failure
                patience.forgive(self._sleep(wait_s))
                if failure.kind is not Kind.LIMIT:
                    self._pace.leave_out(self._clock.monotonic() - began_at)
                attempt += 1
            else:
                self._settle(question.endpoint)
                yield answered._replace(attempts=attempt)
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

    def _ask(self, question: _Question, patience: Patience) -> _Answer:
        """Ask once.

        Raises:
            Failure: there is no answer, or none of a status of 2xx, or it is no JSON.
        """
        self.requests += 1
        self.last_body = b""
        self._retry_after_s = None
        asked_at = self._clock.monotonic()
        response = self._send(question.endpoint.request, patience)
        elapsed_ms = round((self._clock.monotonic() - asked_at) * 1000, 2)
        status, headers = response.status_code, response.headers
        self._retry_after_s = parse_retry_after(headers.get("Retry-After", ""), self._clock.wall())
        if status in STATUSES:
            question.endpoint.follow(response, is_under_way=self._is_under_way)
        if not 200 <= status < 300:
            raise from_answer(
                status,
                headers,
                self.last_body,
                is_under_way=self._is_under_way or question.endpoint.is_away,
                is_action=question.is_action,
            )
        return _Answer(self._parse(status, headers), status, elapsed_ms)

    def _send(self, request: requests.PreparedRequest, patience: Patience) -> requests.Response:
        """Send a request; keep the body of its answer.

        Raises:
            Failure: there is no answer.
        """
        sent_at = self._clock.monotonic()
        timeout_s = min(
            self._limits.timeout_s,
            max(patience.left_s, LEAST_TIMEOUT_S),
            max(self._ends_at - sent_at, LEAST_LEFT_S),
        )
        try:
            response, self.last_body = self._transport.send(request, timeout_s)
        except Stopped as exc:
            raise Failure(Kind.FINAL, str(exc), error=exc) from exc
        except OSError as exc:
            took_s = self._clock.monotonic() - sent_at
            if took_s > timeout_s + SLACK_S:
                patience.forgive(took_s - timeout_s)
            raise Failure(Kind.TROUBLE, _explain(exc)) from exc
        return response

    def _parse(self, status: int, headers: Mapping[str, str]) -> object:
        """Return the last body as JSON.

        Raises:
            Failure: it is none, or too long or too deep to be understood.
        """
        try:
            return parse_json(self.last_body)
        except Unreadable as exc:
            shown = beginning(self.last_body)
            raise from_unreadable(exc, status, shown, is_under_way=self._is_under_way) from exc
        except BrokenAnswer as exc:
            content = headers.get("Content-Type")
            cause = f"{exc} ({content:.80})" if content else str(exc)
            shown = beginning(self.last_body)
            raise Failure(Kind.TROUBLE, cause, status=status, shown=shown) from exc

    def _judge(self, question: _Question, answer: _Answer) -> Answered:
        """Return what an answer says, where it holds what it must.

        Raises:
            Failure: it does not.
        """
        before, after, is_action = question.before, question.after, question.is_action
        content, status = answer.content, answer.status
        saying = saying_in(content)
        try:
            reading = read(
                content,
                after,
                before,
                self._layout,
                sent=question.token,
                settings=self._wire_settings,
            )
        except Unreadable as exc:
            if saying is not None:
                raise from_saying(saying, status, content, is_action=is_action) from exc
            raise from_unreadable(exc, status, content, is_under_way=self._is_under_way) from exc
        if saying is not None and not is_proof(reading, before, after):
            raise from_saying(saying, status, content, is_action=is_action)
        if reading.wrongs:
            raise from_reading(reading, status, content, is_action=is_action)
        last, self._layout = self._layout, reading.layout
        self._pace.note_accepted()
        return Answered(
            token=reading.token or question.token,
            layout=reading.layout,
            is_laid_out_anew=bool(last.token) and last.has_news_for(reading.layout),
            notices=self._notices(reading, last),
            spec=None if is_action else find_spec(content),
            attempts=1,
            elapsed_ms=answer.elapsed_ms,
        )

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

    def _note_failure(self, endpoint: Endpoint, failure: Failure) -> str:
        """Draw the consequences of a failure for pace and address; return what to tell of it."""
        if failure.kind is not Kind.MOVED:
            endpoint.turn_back()
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

    def _settle(self, endpoint: Endpoint) -> None:
        """Stay where an answer was accepted; what else stands at that address comes along."""
        before = endpoint.settle()
        if endpoint is self._action:
            self._is_under_way = True
        else:
            self._action.move_along(before, endpoint.url)


def _explain(exc: OSError) -> str:
    """Say what broke an exchange, and what can be done where it is the certificate."""
    text = describe_error(exc)
    if "CERTIFICATE_VERIFY_FAILED" not in text and "certificate" not in text.lower():
        return text
    return (
        f"{text}; REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE or SSL_CERT_FILE can name the certificates "
        f"to trust"
    )
