"""How fast requests follow each other: evenly, and more slowly where the service asks for it.

Every bot of one runs folder that asks the same service takes its turns from one small file, so
that the rate holds for all of them together.
"""

from __future__ import annotations

import fcntl
import math
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from bot.client.clock import Clock
from bot.client.limits import POLITE_RPS
from bot.journal.files import open_plain
from bot.journal.lock import service_mark

CUT: Final = 0.7
"""What is left of the rate where too little was accepted to measure what the service takes."""
FEW: Final = 20
"""Accepted requests since the last cut that say nothing of the rate that the service takes."""
HOPE: Final = 1.08
"""The rate that is come back to, as a share of the measured one: that had pauses in it."""
BELOW: Final = 0.92
"""Share of the measured rate with which it goes on after a cut."""
CAUTIOUS_S: Final = 60.0
"""Seconds in which it comes back to that rate."""
FULL_S: Final = 540.0
"""Seconds after a cut at which the full rate is reached again, where nothing is turned away."""
SLOWEST_RPS: Final = 0.05
STALE_S: Final = 60.0
"""A turn further ahead than this, or than ten requests, is of before the machine was started."""


class Pace:
    """When the next request may be sent."""

    def __init__(self, max_rps: float | None, clock: Clock, shared: Path | None = None) -> None:
        """Send at most `max_rps` requests a second, together with all that use the file `shared`.

        None for `max_rps` sets no limit; the service's own are found all the same.
        """
        self._max_rps = max_rps or math.inf
        self._clock = clock
        self._shared = shared
        self._next_at = clock.monotonic()
        self._measured = math.inf
        """Requests a second that the service seems to take; infinite where it never complained."""
        self._cut_at = self._next_at
        self._accepted = 0
        """Since then."""
        self._is_turned_away = False
        """Whether the last request was."""

    @property
    def rps(self) -> float:
        """The rate now, in requests a second; infinite where nothing limits it."""
        if self._measured == math.inf:
            return self._max_rps
        passed_s = self._clock.monotonic() - self._cut_at
        if passed_s <= CAUTIOUS_S:
            rps = self._measured * (BELOW + (1 - BELOW) * passed_s / CAUTIOUS_S)
        else:
            highest = self._max_rps if self._max_rps < math.inf else 100 * self._measured
            share = (passed_s - CAUTIOUS_S) / (FULL_S - CAUTIOUS_S)
            rps = self._measured * (highest / self._measured) ** min(share, 1.0)
            if share >= 1:
                self._measured = math.inf
                return self._max_rps
        return min(rps, self._max_rps)

    def take_turn(self) -> float:
        """Return the moment of the next turn, on the clock's monotonic time, and use it up."""
        now = self._clock.monotonic()
        step_s = 1 / self.rps
        if not step_s:
            return now
        with suppress(OSError, ValueError):
            return self._take_shared_turn(now, step_s)
        turn = max(now, self._next_at)
        self._next_at = turn + step_s
        return turn

    def _take_shared_turn(self, now: float, step_s: float) -> float:
        """Take a turn from the file that all bots of the folder share.

        Raises:
            OSError: there is none, or somebody else has it just now.
            ValueError: it holds no number.
        """
        if self._shared is None:
            raise FileNotFoundError
        descriptor = open_plain(self._shared, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            text = os.pread(descriptor, 40, 0)
            shared = float(text) if text.strip() else now
            if not abs(shared - now) <= max(STALE_S, 10 * step_s):
                shared = now
            turn = max(now, self._next_at, shared)
            self._next_at = turn + step_s
            os.pwrite(descriptor, b"%-39.6f\n" % self._next_at, 0)
        finally:
            os.close(descriptor)  # which lets go of the lock, too
        return turn

    def note_accepted(self) -> None:
        """Take note of a request that was not too much."""
        self._accepted += 1
        self._is_turned_away = False

    def leave_out(self, seconds: float) -> None:
        """Leave out of account a time of trouble: it says nothing of what the service takes."""
        self._cut_at += seconds

    def slow_down(self) -> bool:
        """Cut the rate, since a request was turned away; return whether it was cut.

        Of requests that are turned away one after the other, only the first one cuts.
        """
        if self._is_turned_away:
            return False
        self._is_turned_away = True
        now = self._clock.monotonic()
        passed_s = now - self._cut_at
        rps = self.rps
        if self._accepted >= FEW and passed_s > 0:
            measured = min(HOPE * self._accepted / passed_s, rps)
        else:
            measured = CUT * (POLITE_RPS if rps == math.inf else rps)
        self._measured = max(measured, SLOWEST_RPS)
        self._cut_at, self._accepted = now, 0
        return True


def shared_file(runs_dir: Path, base_url: str) -> Path:
    """Return the file from which the bots of one runs folder take their turns at a service."""
    return runs_dir / f".pace-{service_mark(base_url)}.lock"
