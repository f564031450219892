"""A clock that nobody waits for."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from bot.client.clock import Clock, StopRequest


class FakeClock(Clock):
    """A clock on which every wait is over at once, and remembered."""

    def __init__(self) -> None:
        super().__init__(StopRequest())
        self.waits: list[float] = []
        """Every sleep, in seconds."""
        self.when_asleep: Callable[[float], object] = lambda _: None
        """Called in each sleep with its length, before the time is over."""
        self._elapsed_s = 0.0

    def now(self) -> datetime:
        return datetime(2026, 11, 30, 2, 41, 7, tzinfo=UTC) + timedelta(seconds=self._elapsed_s)

    def wall(self) -> datetime:
        return self.now()

    def monotonic(self) -> float:
        return 1000.0 + self._elapsed_s

    def sleep(self, seconds: float) -> None:
        self.stop.check()
        self.waits.append(seconds)
        self.when_asleep(seconds)
        self.stop.check()
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Let time pass while nobody sleeps."""
        self._elapsed_s += seconds
