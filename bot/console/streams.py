"""Lines to stderr and results to stdout, whatever has become of either."""

from __future__ import annotations

import json
import os
import select
import shutil
import sys
from typing import Final, TextIO

from bot.errors import OutputError
from bot.words import printable

PATIENCE_S: Final = 0.1
"""Seconds that a stderr which takes nothing is waited for before a line is dropped."""
NO_WIDTH: Final = 10_000
"""Columns of what is no terminal: nothing is cut there."""


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
    """Give a result, on stdout, whole; one that nobody waits for any more is dropped.

    Raises:
        OutputError: stdout does not take it.
    """
    stream = sys.stdout
    if stream is None:
        raise OutputError("cannot write the result: stdout is closed")
    line = printable(text) + "\n"
    try:
        stream.flush()
        if (descriptor := _descriptor_of(stream)) is None:
            stream.write(line)
        else:
            _write_whole(descriptor, line.encode(stream.encoding, "backslashreplace"))
    except BrokenPipeError:
        return
    except OSError as exc:
        raise OutputError(f"cannot write the result: {exc.strerror}") from exc


def answer_json(result: object) -> None:
    """Give a result for programs.

    Raises:
        OutputError: stdout does not take it.
    """
    answer(json.dumps(result))


def failure(error: str, exit_code: int) -> dict[str, object]:
    """Return the result, for programs, of a call that has none."""
    return {"error": error, "exit_code": exit_code}


def width() -> int:
    """Return the columns that a line of the result has before a terminal wraps it."""
    if not is_terminal(sys.stdout):
        return NO_WIDTH
    return shutil.get_terminal_size().columns


def is_terminal(stream: TextIO | None) -> bool:
    """Tell whether a stream is a terminal; a closed one is none."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:
        return False


def _descriptor_of(stream: TextIO) -> int | None:
    """Return the number of the file that a stream writes to; None where it writes to none."""
    try:
        return stream.fileno()
    except (OSError, ValueError):
        return None


def _write_whole(descriptor: int, data: bytes) -> None:
    """Write all of `data`: a disk may take a part, a pipe that does not block nothing yet."""
    while data:
        try:
            data = data[os.write(descriptor, data) :]
        except BlockingIOError:
            select.select([], [descriptor], [])
