"""What signals do while a command is at work."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType
from typing import Any, Final, TypeAlias

from bot.client.clock import StopRequest

STOPS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The signals that ask the bot to stop; the last one comes when its terminal is closed."""

Handler: TypeAlias = Callable[[int, FrameType | None], object]


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


def heed_signals(stop: StopRequest) -> AbstractContextManager[None]:
    """Let each of `STOPS` ask to stop; a second SIGINT ends the process at once."""

    def ask(number: int, _: FrameType | None) -> None:
        if stop.signal_number is None:
            stop.ask(number)
        elif number == signal.SIGINT:
            os._exit(128 + number)

    return handling(ask, *STOPS)


def leave_at_signals(exit_code: int) -> AbstractContextManager[None]:
    """Let each of `STOPS` end the process at once, with what the sitting has earned."""
    return handling(lambda *_: os._exit(exit_code), *STOPS)
