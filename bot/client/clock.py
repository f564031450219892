"""Time, and the wish to stop: handed to all that waits, so that no test ever does."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Final

from bot.errors import Stopped

SLICE_S: Final = 0.1
"""How long any wait goes on before it looks whether it should end, in seconds."""


class StopRequest:
    """Whether a signal has asked the bot to stop; told by whoever hears it, read by waits."""

    def __init__(self) -> None:
        """Begin with nothing asked."""
        self.signal_number: int | None = None
        self.asked_at = 0.0
        """When, on the clock of `time.monotonic`."""

    def ask(self, signal_number: int) -> None:
        """Ask to stop, because of the signal of this number; only the first time counts."""
        if self.signal_number is not None:
            return
        self.asked_at = time.monotonic()
        self.signal_number = signal_number

    def check(self) -> None:
        """Raise where a stop was asked for.

        Raises:
            Stopped: it was.
        """
        if self.signal_number is not None:
            raise Stopped(self.signal_number)


class Clock:
    """The system's clocks, and a sleep that a signal ends."""

    def __init__(self, stop: StopRequest) -> None:
        """Take the request that ends a sleep; `now` goes on steadily from here."""
        self.stop = stop
        self._began = datetime.now(UTC) - timedelta(seconds=time.monotonic())

    def now(self) -> datetime:
        """Return the time of day, in UTC, as it was at the start and has gone on since.

        A clock that is set in the middle of a sitting does not change the time played.
        """
        return self._began + timedelta(seconds=time.monotonic())

    def wall(self) -> datetime:
        """Return the time of day as the machine has it at this moment, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait for `seconds`.

        Raises:
            Stopped: a signal asks to stop, before or meanwhile.
        """
        end = self.monotonic() + seconds
        self.stop.check()
        while (left := end - self.monotonic()) > 0:
            time.sleep(min(left, SLICE_S))
            self.stop.check()
