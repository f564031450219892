"""What signals do while a command is at work."""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Final, TypeAlias

from bot.client.clock import StopRequest

STOPS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The signals that ask the bot to stop; the last one comes when its terminal is closed."""
GRACE_S: Final = 2.8
"""Seconds that a sitting has to end after it was asked to; it is promised three."""

Handler: TypeAlias = Callable[[int, FrameType | None], object] | signal.Handlers


def meet(handler: Handler, *numbers: int) -> dict[int, Any]:
    """Let `handler` meet the signals of these numbers; return what met each before.

    A SIGHUP that is ignored stays so: that is what nohup is for.
    """
    ignored = {signal.SIGHUP} if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else set()
    return {number: signal.signal(number, handler) for number in numbers if number not in ignored}


@contextmanager
def handling(handler: Handler, *numbers: int) -> Iterator[None]:
    """Let `handler` meet the signals of these numbers, for a `with` to hold."""
    before = meet(handler, *numbers)
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


class StopSignals:
    """What has come of the signals that ask to stop."""

    def __init__(self, stop: StopRequest, last_words: Callable[[int], object]) -> None:
        """Begin with none; `last_words` is called with the exit code of an end at once."""
        self._stop = stop
        self._last_words = last_words
        self._earned: int | None = None

    def earn(self, exit_code: int) -> None:
        """Take note that the sitting has ended so: a signal now ends the process with this."""
        self._earned = exit_code

    def meet(self, number: int, _: FrameType | None = None) -> None:
        """Ask to stop; at the second signal, and when all is done, end the process at once."""
        if self._earned is None and self._stop.signal_number is None:
            self._stop.ask(number)
        else:
            self._leave(number)

    def watch(self, wakeups: int) -> None:
        """Meet the signals whose numbers come from `wakeups`; end the process in time.

        The system writes them there whatever the main thread is at, be it deaf in a read, in a
        look-up of a name or in a write to a disk that hangs.
        """
        while True:
            asked = self._stop.signal_number
            if asked is not None:
                left_s = max(0.0, self._stop.asked_at + GRACE_S - time.monotonic())
                if not select.select([wakeups], [], [], left_s)[0]:
                    self._leave(asked)
            numbers = os.read(wakeups, 64)
            if not numbers:
                return
            for number in numbers:
                if number in STOPS:
                    self.meet(number)

    def _leave(self, number: int) -> None:
        """End the process at once."""
        if self._earned is not None:
            os._exit(self._earned)
        with suppress(Exception):
            self._last_words(128 + number)
        os._exit(128 + number)


@contextmanager
def heeding(
    stop: StopRequest, last_words: Callable[[int], object] = lambda _: None
) -> Iterator[StopSignals]:
    """Let each of `STOPS` ask to stop, for a `with` to hold; within 3 s the process has ended.

    A second one ends it at once.
    """
    signals = StopSignals(stop, last_words)
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    watcher = threading.Thread(target=signals.watch, args=(reading,), daemon=True, name="stop")
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    handler: Handler = _leave_to_watcher
    try:
        try:
            watcher.start()
        except RuntimeError:  # no thread can be made: the main one is all there is
            handler = signals.meet
        with handling(handler, *STOPS):
            yield signals
    finally:
        signal.set_wakeup_fd(before)
        os.close(writing)
        if watcher.ident is not None:
            watcher.join(1.0)
        os.close(reading)


def _leave_to_watcher(*_: object) -> None:
    """Do nothing in the main thread, which may hear of a signal late."""
