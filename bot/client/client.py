"""The conversation with the service: each call returns an accepted answer, or says why not."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol, TypeVar

import requests

from bot.client.clock import Clock
from bot.client.failures import Failure, Kind, from_status
from bot.client.limits import INIT_GIVE_UP_S, LEAST_TIMEOUT_S, Limits
from bot.client.redirects import ACTION_PATH, INIT_PATH, moved_along, redirected
from bot.client.transport import Transport, describe_error
from bot.errors import (
    BrokenAnswer,
    ConfigError,
    Contradiction,
    ServiceUnavailable,
    Stopped,
    TokenRefused,
    TryLater,
)
from bot.rules import Action, State
from bot.wire.discovery import discover, find_spec
from bot.wire.layout import Differences, Layout, WireSettings, layout_from_json
from bot.wire.refusals import refusal
from bot.wire.values import parse_json

_ENCODE: Final = json.JSONEncoder(separators=(",", ":")).encode
_REDIRECTS: Final = {301, 302, 303, 307, 308}

T = TypeVar("T")


class Listener(Protocol):
    """Is told of each request that brought no accepted answer."""

    def failed(self, action: Action | None, attempt: int, failure: Failure, wait_s: float) -> None:
        """Note the failed `attempt` (from 1) of an action, or of `init` where it is None."""


class Beginning(NamedTuple):
    """The answer to `init`."""

    token: str
    layout: Layout
    spec: object


class Step(NamedTuple):
    """The accepted answer to an action."""

    token: str
    state: State
    """As predicted; the service's word where `differences` says so and it is followed."""
    differences: Differences
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
        listener: Listener,
        wire_settings: WireSettings,
        is_following: bool = False,
    ) -> None:
        """Talk to the service at `base_url`; follow its word where `is_following`.

        Raises:
            ConfigError: nothing can be asked at that address.
        """
        self.requests = 0
        """Sent so far."""
        self.layout: Layout | None = None
        """Where the service puts each field; set by `init` or `resume`."""
        self._transport = transport
        self._base_url = base_url
        self._limits = limits
        self._clock = clock
        self._listener = listener
        self._wire_settings = wire_settings
        self._is_following = is_following
        try:
            self._init = transport.prepare("GET", base_url + INIT_PATH)
            self._action = transport.prepare("POST", base_url + ACTION_PATH)
        except ValueError as exc:
            raise ConfigError(f"{base_url} is no usable base URL: {exc}") from exc
        self._next_send_at = self._give_up_at = clock.monotonic()
        self._ends_at = self._next_send_at + 60 * (limits.max_minutes or math.inf)
        self._elapsed_ms = 0.0
        self._has_differed = False

    def init(self, seed: int) -> Beginning:
        """Begin a run.

        Raises:
            ServiceUnavailable: the service cannot be reached, or answers nothing usable.
            Contradiction: the answer is not one of a fresh run.
            ConfigError: the service redirects to a host that is not its own.
            TryLater: the budget of this call is used up.
            Stopped: a signal asks to stop.
        """
        self._init.prepare_url(self._init.url, {"seed": str(seed)})

        def attempt() -> Beginning:
            answer = self._ask(self._init)
            if (refused := refusal(answer)) is not None:
                raise Failure(Kind.TRANSIENT, f"the service refused init: {refused.reason}")
            try:
                layout = discover(answer, self._wire_settings)
            except BrokenAnswer as exc:
                raise _broken(exc, answer) from exc
            except Contradiction as exc:
                raise Failure(Kind.DIFFERS, str(exc), status=200) from exc
            self.layout = layout
            return Beginning(layout.token_in(answer), layout, find_spec(answer))

        give_up_s = min(self._limits.give_up_after_s, INIT_GIVE_UP_S)
        try:
            beginning, _ = self._exchange(None, attempt, give_up_s)
        except TokenRefused as exc:
            raise ServiceUnavailable(f"the service refuses init: {exc.cause}") from exc
        return beginning

    def resume(self, places: Mapping[str, object]) -> None:
        """Read answers as a run does whose journal has `places`, but for what is now ignored.

        Raises:
            ValueError: they are not what `Layout.to_json` writes.
        """
        self.layout = layout_from_json(places).ignoring(self._wire_settings)

    def act(self, token: str, action: Action, predicted: State) -> Step:
        """Send `action` from the state of `token`, until an answer is accepted.

        An answer that is not `predicted` is asked for once more.

        Raises:
            ServiceUnavailable: the service cannot be reached, or answers nothing usable.
            Diverged: the answer differs from the prediction, twice.
            Contradiction: the service refuses the action, though it is legal.
            TokenRefused: the service refuses the token.
            ConfigError: the service redirects to a host that is not its own.
            TryLater: the budget of this call is used up.
            Stopped: a signal asks to stop.
        """
        request = {"stateToken": token, "action": action.to_json()}
        body = _ENCODE(request).encode("ascii")

        def attempt() -> Step:
            self._action.body = body
            self._action.headers["Content-Length"] = str(len(body))
            return self._judge(self._ask(self._action), token, predicted)

        step, attempts = self._exchange(action, attempt, self._limits.give_up_after_s)
        if attempts == 1:
            return step
        return step._replace(attempts=attempts)

    def _judge(self, answer: object, token: str, predicted: State) -> Step:
        """Return the step that an answer makes.

        Raises:
            Failure: it makes none.
        """
        if self.layout is None:
            raise TypeError("init or resume gives the layout before any action")
        if (refused := refusal(answer)) is not None:
            kind = Kind.TOKEN if refused.is_about_token else Kind.REFUSED
            raise Failure(kind, refused.reason, status=200)
        try:
            reading = self.layout.read(answer, predicted)
        except BrokenAnswer as exc:
            raise _broken(exc, answer) from exc
        if reading.differences and not (self._is_following and self._has_differed):
            self._has_differed = True
            names = ", ".join(reading.differences)
            cause = f"the answer differs from the prediction: {names}"
            raise Failure(Kind.DIFFERS, cause, status=200, reading=reading)
        if reading.differences:
            try:
                predicted = reading.layout.observed(answer, predicted)
            except Contradiction as exc:
                raise Failure(Kind.FINAL, str(exc), status=200, error=exc) from exc
        self.layout = reading.layout
        return Step(reading.token or token, predicted, reading.differences, 1, self._elapsed_ms)

    def _exchange(
        self, action: Action | None, attempt: Callable[[], T], give_up_s: float
    ) -> tuple[T, int]:
        """Repeat `attempt` until it succeeds; return its result and the attempts it took."""
        attempts = 1

        def report(number: int, failure: Failure, wait_s: float) -> None:
            nonlocal attempts
            attempts = number + 1
            self._listener.failed(action, number, failure, wait_s)

        self._has_differed = False
        self._give_up_at = max(self._clock.monotonic(), self._next_send_at) + give_up_s
        try:
            return attempt(), 1
        except Failure as first:
            from bot.client.patience import persist  # noqa: PLC0415 - most runs never need it

            try:
                result = persist(
                    attempt,
                    first,
                    clock=self._clock,
                    sleep=self._sleep,
                    give_up_at=self._give_up_at,
                    report=report,
                )
            except Failure as last:
                raise last.verdict(
                    f"{action or 'init'} at {self._base_url}", attempts - 1
                ) from last
            return result, attempts

    def _ask(self, request: requests.PreparedRequest) -> object:
        """Send a request once and return its answer as parsed JSON.

        Raises:
            Failure: there is no answer, or it is no JSON with status 200.
        """
        self._wait_for_turn()
        self.requests += 1
        sent_at = self._clock.monotonic()
        if self._limits.max_rps is not None:
            self._next_send_at = sent_at + 1 / self._limits.max_rps
        timeout_s = min(self._limits.timeout_s, max(self._give_up_at - sent_at, LEAST_TIMEOUT_S))
        try:
            response, body = self._transport.send(request, timeout_s)
        except Stopped as exc:
            raise Failure(Kind.FINAL, str(exc), error=exc) from exc
        except OSError as exc:
            raise Failure(Kind.TRANSIENT, describe_error(exc)) from exc
        self._elapsed_ms = round((self._clock.monotonic() - sent_at) * 1000, 2)
        if response.status_code == 200:
            try:
                return parse_json(body)
            except BrokenAnswer as exc:
                content = response.headers.get("Content-Type")
                raise _broken(exc, body.decode("utf-8", "replace"), content) from exc
        if response.status_code in _REDIRECTS:
            self._redirect(request, response)
        raise from_status(
            response.status_code,
            response.headers,
            body,
            sent_bytes=len(request.body or b""),
            now=self._clock.now(),
        )

    def _redirect(self, request: requests.PreparedRequest, response: requests.Response) -> None:
        """Turn `request`, and what else stands at its address, to where it has moved.

        Raises:
            Failure: always, so that the request is sent again, or nothing more is.
        """
        before = request.url or ""
        status = response.status_code
        try:
            request.url = redirected(self._transport, request, response)
        except ConfigError as exc:
            raise Failure(Kind.FINAL, str(exc), status=status, error=exc) from exc
        if request is not self._action:
            self._action.url = moved_along(self._action.url or "", before, request.url)
        raise Failure(Kind.MOVED, f"HTTP {status}: moved to {request.url}", status=status)

    def _wait_for_turn(self) -> None:
        """Wait until the next request may be sent, so that requests are evenly spaced.

        Raises:
            TryLater: this call has had its requests, or will have had its minutes by then.
            Stopped: a signal asks to stop.
        """
        self._clock.stop.check()
        limits = self._limits
        if limits.max_requests is not None and self.requests >= limits.max_requests:
            plural = "" if limits.max_requests == 1 else "s"
            raise TryLater(f"the budget of {limits.max_requests} request{plural} is used up")
        now = self._clock.monotonic()
        if max(now, self._next_send_at) >= self._ends_at:
            plural = "" if limits.max_minutes == 1 else "s"
            fate = "is used up" if now >= self._ends_at else "ends before the next request is due"
            raise TryLater(f"the budget of {limits.max_minutes:g} minute{plural} {fate}")
        if now < self._next_send_at:
            self._clock.sleep(self._next_send_at - now)

    def _sleep(self, seconds: float) -> None:
        """Wait, but not beyond the minutes of this call."""
        self._clock.sleep(max(0.0, min(seconds, self._ends_at - self._clock.monotonic())))


def _broken(exc: BrokenAnswer, shown: object, content: str | None = None) -> Failure:
    """Return the failure that an answer with status 200 is when it is none."""
    excerpt = shown if isinstance(shown, str) else json.dumps(shown)
    cause = f"{exc} ({content:.80})" if content else str(exc)
    return Failure(Kind.TRANSIENT, cause, status=200, excerpt=excerpt)
