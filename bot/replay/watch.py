"""Showing a film in a terminal, with keys to wind it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.text import Text

from bot.replay.drawing import Line, choose_style, draw
from bot.replay.keyboard import Keyboard
from bot.replay.projector import Projector

TICK_S: Final = 0.04
"""Seconds between two pictures."""
STYLES: Final = {
    "sun": "yellow",
    "moon": "blue",
    "chosen": "bold reverse",
    "strong": "bold",
    "faint": "dim",
    "": "",
}


def watch(
    projector: Projector,
    console: Console,
    keyboard: Keyboard,
    monotonic: Callable[[], float] = time.monotonic,
) -> None:
    """Show what the projector has, until it is over; leave the screen as it was.

    Args:
        projector: the film and where it stands.
        console: of the terminal.
        keyboard: of the same terminal, ready to be read; it is what time passes in.
        monotonic: seconds that never go back.
    """
    style = choose_style(console.encoding)
    with Live(
        console=console,
        screen=True,
        auto_refresh=False,
        redirect_stdout=False,
        redirect_stderr=False,
    ) as live:
        shown: object = None
        last = monotonic()
        while not projector.is_over:
            picture = (projector.scene(), console.size)
            if picture != shown:
                live.update(_render(draw(picture[0], style)), refresh=True)
                shown = picture
            if key := keyboard.read(TICK_S):
                projector.press(key)
            now = monotonic()
            projector.pass_time(now - last)
            last = now


def _render(lines: list[Line]) -> Text:
    text = Text(no_wrap=True)
    for line in lines:
        for piece, kind in line:
            text.append(piece, STYLES[kind])
        text.append("\n")
    return text
