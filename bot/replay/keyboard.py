"""Single keys from a terminal, which is as it was again afterwards."""

from __future__ import annotations

import contextlib
import os
import re
import select
import termios
import tty
from types import TracebackType
from typing import Any, Final, Self

ESCAPE_WAIT_S: Final = 0.05
"""How long the rest of an arrow key is waited for."""
_NAMES: Final = {
    b"\x1b[C": "right",
    b"\x1bOC": "right",
    b"\x1b[D": "left",
    b"\x1bOD": "left",
    b"\x1b": "escape",
    b"": "q",
    b"\r": "enter",
    b"\n": "enter",
    b"\x7f": "backspace",
    b"\x08": "backspace",
}

_KEY: Final = re.compile(rb"\x1b[\[O][0-9;]*[A-Za-z~]|.|", re.DOTALL)
"""What one key sends; nothing at all at the end."""


class Keyboard:
    """The keys of a terminal, for use in a `with`."""

    def __init__(self, descriptor: int) -> None:
        """Take the descriptor of the terminal."""
        self._descriptor = descriptor
        self._before: list[Any]
        self._pending = b""

    def __enter__(self) -> Self:
        """Have each key at once, unseen; those that interrupt still do, but none suspends."""
        self._before = termios.tcgetattr(self._descriptor)
        tty.setcbreak(self._descriptor, termios.TCSANOW)  # what was typed ahead counts
        mode = termios.tcgetattr(self._descriptor)
        mode[tty.CC][termios.VSUSP] = b"\0"
        termios.tcsetattr(self._descriptor, termios.TCSANOW, mode)
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        """Leave the terminal as it was found."""
        with contextlib.suppress(termios.error):  # it may be gone
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._before)

    def read(self, timeout_s: float) -> str:
        """Wait for a key and return its name or character; empty if none came, `q` at the end."""
        if not self._pending and not self._fill(timeout_s):
            return ""
        if self._pending in (b"\x1b", b"\x1b[", b"\x1bO"):
            self._fill(ESCAPE_WAIT_S)
        code = next(_KEY.finditer(self._pending))[0]
        self._pending = self._pending[len(code) :]
        return _NAMES.get(code) or code.decode("latin-1")

    def _fill(self, timeout_s: float) -> bool:
        """Take what has been typed; return whether there is anything, the end included."""
        ready, _, _ = select.select([self._descriptor], [], [], timeout_s)
        if ready:
            with contextlib.suppress(OSError):  # as a terminal that has hung up is read
                self._pending += os.read(self._descriptor, 64)
        return bool(ready)
