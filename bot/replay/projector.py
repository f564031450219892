"""What the keys and the time do to a film that is shown. Nothing is read or printed here."""

from __future__ import annotations

from typing import Final

from bot.replay.drawing import Scene
from bot.replay.film import Film

SPEEDS: Final = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0)
"""Moves a second."""
FIRST_SPEED: Final = 2
"""Which of them it begins with."""
MAX_DIGITS: Final = 9


class Projector:
    """Where a film stands, and how it goes on."""

    def __init__(self, film: Film, run_id: str, bank_at: int) -> None:
        """Begin at the beginning, running."""
        self.number = 0
        self.is_paused = False
        self.is_over = False
        """Whether it is to be shown no longer."""
        self._film = film
        self._run_id = run_id
        self._bank_at = bank_at
        self._speed = FIRST_SPEED
        self._due = 0.0
        """Moves that the time has brought and that were not shown yet."""
        self._typed: str | None = None
        """Digits of the board to go to; None while nobody asks for one."""

    @property
    def speed(self) -> float:
        """Moves a second."""
        return SPEEDS[self._speed]

    def scene(self) -> Scene:
        """Return what is to be seen now."""
        is_at_end = self.number == len(self._film)
        pace = "paused" if self.is_paused else f"{self.speed:g} moves a second"
        return Scene(
            run_id=self._run_id,
            number=self.number,
            length=len(self._film),
            state=self._film.state(self.number),
            action=self._film.action(self.number),
            bank_at=self._bank_at,
            pace="at the end" if is_at_end else pace,
            prompt="" if self._typed is None else f"go to board: {self._typed}",
        )

    def pass_time(self, seconds: float) -> None:
        """Go on as far as the speed has it."""
        if self.is_paused or self._typed is not None:
            self._due = 0.0
            return
        self._due += seconds * self.speed
        moves = int(self._due)
        self._due -= moves
        self._go_to(self.number + moves)

    def press(self, key: str) -> None:
        """Do what a key asks for; a key that means nothing does nothing."""
        if key == "q":
            self.is_over = True
        elif self._typed is not None:
            self._type(key)
        elif key == " ":
            self.is_paused = not self.is_paused
        elif key in ("right", "l"):
            self._step(+1)
        elif key in ("left", "h"):
            self._step(-1)
        elif key in ("+", "="):
            self._speed = min(self._speed + 1, len(SPEEDS) - 1)
        elif key in ("-", "_"):
            self._speed = max(self._speed - 1, 0)
        elif key == "j":
            self._typed = ""

    def _step(self, moves: int) -> None:
        self.is_paused = True
        self._go_to(self.number + moves)

    def _go_to(self, number: int) -> None:
        self.number = min(max(number, 0), len(self._film))

    def _type(self, key: str) -> None:
        """Take a key while a board is asked for."""
        typed = self._typed or ""
        if key == "enter":
            if typed:
                self._go_to(self._film.start_of(int(typed)))
            self._typed = None
        elif key == "escape":
            self._typed = None
        elif key == "backspace":
            self._typed = typed[:-1]
        elif key in "0123456789":
            self._typed = (typed + key)[:MAX_DIGITS]
