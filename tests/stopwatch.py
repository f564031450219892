"""A stopwatch that is fair on a machine that is busy, or that stands still for a while."""

from __future__ import annotations

import threading
from typing import Final, Self

TICK_S: Final = 0.01


class Stopwatch:
    """Counts its own ticks, for use in a `with`.

    What keeps a program from running keeps these ticks from coming, so only the time that the
    machine gave counts. It reads a little less than a clock.
    """

    def __init__(self) -> None:
        self._ticks = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._tick, daemon=True)

    @property
    def seconds(self) -> float:
        return self._ticks * TICK_S

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _tick(self) -> None:
        while not self._is_over.wait(TICK_S):
            self._ticks += 1
