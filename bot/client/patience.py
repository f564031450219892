"""How long a failed request is waited for, and how often it is sent, by the kind of failure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from tenacity import (
    RetryCallState,
    Retrying,
    stop_after_attempt,
    stop_never,
    wait_exponential,
    wait_fixed,
    wait_none,
    wait_random,
)
from tenacity.stop import stop_base
from tenacity.wait import wait_base

from bot.client.clock import Clock
from bot.client.failures import Failure, Kind
from bot.words import clock_time

LONGEST_WAIT_S: Final = 60.0
"""Seconds between two attempts at most, unless the service asks for more."""
JITTER_S: Final = 0.5
"""Seconds by which a wait varies, so that bots that failed together do not ask together."""


class Policy(NamedTuple):
    """How often one move may fail in one way, and what is waited for after each time."""

    stop: stop_base
    wait: wait_base


_GROWING: Final = wait_exponential(multiplier=0.5, max=LONGEST_WAIT_S) + wait_random(0, JITTER_S)
_DOUBLING: Final = wait_exponential(multiplier=1, max=LONGEST_WAIT_S)
_FAR_APART: Final = wait_exponential(multiplier=15, max=LONGEST_WAIT_S) + wait_random(0, JITTER_S)

POLICIES: Final[Mapping[Kind, Policy]] = {
    Kind.TROUBLE: Policy(stop_never, _GROWING),
    Kind.LIMIT: Policy(stop_never, _GROWING),
    Kind.BROWSER_CHECK: Policy(stop_after_attempt(4), _FAR_APART),
    Kind.DIFFERS: Policy(stop_after_attempt(2), _GROWING),
    Kind.UNREADABLE: Policy(stop_after_attempt(3), _DOUBLING),
    Kind.REFUSED: Policy(stop_after_attempt(7), _DOUBLING),
    Kind.TOKEN: Policy(stop_after_attempt(2), wait_fixed(5)),
    Kind.MOVED: Policy(stop_never, wait_none()),
    Kind.FINAL: Policy(stop_after_attempt(1), wait_none()),
}


class Patience:
    """What is left of it for one move."""

    def __init__(self, clock: Clock, give_up_at: float) -> None:
        """Have patience until `give_up_at`, on the clock's monotonic time."""
        self._clock = clock
        self._give_up_at = give_up_at
        self._seen: Counter[Kind] = Counter()

    @property
    def left_s(self) -> float:
        """Seconds until it is time to give up."""
        return self._give_up_at - self._clock.monotonic()

    def forgive(self, seconds: float) -> None:
        """Leave out of account a time in which the machine was asleep."""
        self._give_up_at += seconds

    def wait_after(self, failure: Failure, asked_s: float | None = None) -> float | None:
        """Return the seconds to wait before the next attempt; None: it is not made again.

        Waits are never shorter than the service asks for in `Retry-After`, `asked_s`; where that
        is longer than patience lasts, no attempt is made.
        """
        self._seen[failure.kind] += 1
        state = RetryCallState(Retrying(), None, (), {})
        state.attempt_number = self._seen[failure.kind]
        policy = POLICIES[failure.kind]
        wait_s = policy.wait(state)
        if failure.kind is Kind.TOKEN:  # a run is not left in doubt for want of time
            wait_s = min(wait_s, max(self.left_s / 2, JITTER_S))
        wait_s = max(wait_s, asked_s or 0.0)
        if policy.stop(state):
            return None
        if wait_s > self.left_s:
            failure.is_late = True
            if asked_s == wait_s:
                failure.asked_until = _describe_moment(self._clock.now(), wait_s)
            return None
        return math.ceil(1000 * wait_s) / 1000  # milliseconds, and never sooner than asked


def _describe_moment(now: datetime, seconds: float) -> str:
    try:
        moment = now + timedelta(seconds=seconds)
    except OverflowError:
        return "the end of time"
    return f"{clock_time(moment)} UTC"
