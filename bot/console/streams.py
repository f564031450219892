"""Lines to stderr and results to stdout, whatever has become of either."""

from __future__ import annotations

import select
import sys
from typing import Final, TextIO

from bot.errors import OutputError
from bot.words import printable

PATIENCE_S: Final = 0.1
"""Seconds that a stderr which takes nothing is waited for before a line is dropped."""


def write(stream: TextIO | None, text: str) -> None:
    """Write a line to a stream that may be closed, full, or gone."""
    if stream is None:
        return
    try:
        stream.write(text + "\n")
        stream.flush()
    except (OSError, ValueError):
        return


def say(text: str) -> None:
    """Tell people something, on stderr."""
    if takes(sys.stderr, PATIENCE_S):
        write(sys.stderr, printable(text))


def takes(stream: TextIO | None, patience_s: float = 0.0) -> bool:
    """Tell whether a stream takes text, or soon: no reader, or Ctrl-S, would keep us waiting."""
    try:
        return stream is None or stream in select.select([], [stream], [], patience_s)[1]
    except (OSError, ValueError):  # no file; whether it takes anything is seen when it is written
        return True


def answer(text: str) -> None:
    """Give a result, on stdout; one that nobody waits for any more is dropped.

    Raises:
        OutputError: stdout does not take it.
    """
    if sys.stdout is None:
        return
    try:
        sys.stdout.write(printable(text) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        return
    except OSError as exc:
        raise OutputError(f"cannot write the result: {exc.strerror}") from exc
