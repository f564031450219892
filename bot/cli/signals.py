"""What signals do while a command is at work."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType
from typing import Final

from bot.client.clock import StopRequest

STOPS: Final = (signal.SIGINT, signal.SIGTERM)
"""The signals that ask the bot to stop."""


@contextmanager
def handling(handler: Callable[[int, FrameType | None], object], *numbers: int) -> Iterator[None]:
    """Let `handler` meet the signals of these numbers."""
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def heed_signals(stop: StopRequest) -> AbstractContextManager[None]:
    """Let SIGINT and SIGTERM ask to stop; a second SIGINT ends the process at once."""

    def ask(number: int, _: FrameType | None) -> None:
        if stop.signal_number is None:
            stop.ask(number)
        elif number == signal.SIGINT:
            os._exit(128 + number)

    return handling(ask, *STOPS)


def leave_at_signals(exit_code: int) -> AbstractContextManager[None]:
    """Let SIGINT and SIGTERM end the process at once, with what the sitting has earned."""
    return handling(lambda *_: os._exit(exit_code), *STOPS)
