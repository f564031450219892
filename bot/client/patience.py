"""When to send a request again, as a policy of tenacity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    wait_exponential,
    wait_random,
)

from bot.client.clock import Clock
from bot.client.failures import FIRST_WAIT_S, PATIENCE, Failure, Kind

LONGEST_WAIT_S: Final = 60.0
JITTER_S: Final = 0.5

T = TypeVar("T")
Report = Callable[[int, Failure, float], None]
"""Told of each failed attempt: its number from 1, the failure, the seconds until the next."""


def persist(
    attempt: Callable[[], T],
    first: Failure,
    *,
    clock: Clock,
    sleep: Callable[[float], None],
    give_up_at: float,
    report: Report,
) -> T:
    """Repeat `attempt`, which has failed once with `first`, until it succeeds.

    Waits grow from half a second to a minute, with jitter, and are never shorter than the
    service asks for; they are slept by `sleep`. `give_up_at` is on the clock's monotonic time.

    Raises:
        Failure: the failure that was one too many of its kind, or where it `is_late` the
            one after which there was no time for another.
    """
    pending = [first]  # stands for the first attempt, which was made without tenacity
    seen: Counter[Kind] = Counter()

    def again() -> T:
        try:
            if pending:
                raise pending.pop()
            return attempt()
        except Failure as failure:
            seen[failure.kind] += 1
            raise

    def is_enough(state: RetryCallState) -> bool:
        failure = _failure(state)
        is_late = clock.monotonic() + state.upcoming_sleep > give_up_at
        if not is_late and seen[failure.kind] < PATIENCE[failure.kind].tries:
            return False
        report(state.attempt_number, failure, 0.0)
        failure.is_late = seen[failure.kind] < PATIENCE[failure.kind].tries
        if failure.retry_after_s == state.upcoming_sleep:
            failure.asked_until = _describe_moment(clock.now(), state.upcoming_sleep)
        return True

    retrying = Retrying(
        sleep=sleep,
        wait=lambda state: _wait(state, give_up_at - clock.monotonic()),
        stop=is_enough,
        retry=retry_if_exception_type(Failure),
        before_sleep=lambda state: report(
            state.attempt_number, _failure(state), round(state.upcoming_sleep, 3)
        ),
        reraise=True,
    )
    return retrying(again)


def _wait(state: RetryCallState, left_s: float) -> float:
    """Return the seconds to wait before the next attempt, with `left_s` to give up."""
    failure = _failure(state)
    first_wait_s = PATIENCE[failure.kind].first_wait_s
    if not first_wait_s:
        return 0.0
    if failure.kind is Kind.TOKEN:  # a run is not left in doubt for want of time
        wait_s = min(first_wait_s, max(left_s / 2, FIRST_WAIT_S))
    else:
        growing = wait_exponential(multiplier=first_wait_s, max=LONGEST_WAIT_S)
        wait_s = (growing + wait_random(0, JITTER_S))(state)
    return max(wait_s, failure.retry_after_s or 0.0)


def _failure(state: RetryCallState) -> Failure:
    failure = state.outcome.exception() if state.outcome else None
    if not isinstance(failure, Failure):
        raise TypeError(f"expected a failure, got {failure!r}")
    return failure


def _describe_moment(now: datetime, seconds: float) -> str:
    try:
        moment = now + timedelta(seconds=seconds)
    except OverflowError:
        return "the end of time"
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
