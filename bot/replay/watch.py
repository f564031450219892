"""The moves of a run: on a terminal as a film that can be paused, elsewhere one line a move."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import termios
import time
import tty
from collections.abc import Iterator
from typing import Final, NamedTuple

from bot import rules
from bot.garland import format_garland
from bot.journal.events import ActionTaken
from bot.rules import Action, State
from bot.verify import Verification
from bot.words import one_line

TICK_S: Final = 0.04
"""Seconds between two pictures."""
SLOWEST, FASTEST = 0.5, 1024.0
"""Moves a second."""


class Move(NamedTuple):
    """One action of a run, with all that is needed to show it or to send it again."""

    line: int
    """Of the journal, from 1."""
    seq: int
    token: str
    """The one that it was sent with."""
    action: Action
    before: State
    after: State


def moves(verification: Verification) -> Iterator[Move]:
    """Yield the actions of a journal that was not read yet, up to the first problem.

    Raises:
        NotAJournal: the file cannot be read, or is no journal.
    """
    run = verification.run
    token, before = run.token, run.state
    for entry in verification.steps():
        if not verification.is_verified:
            return
        if isinstance(entry.event, ActionTaken):
            action = rules.parse_action(entry.event.action)
            yield Move(entry.number, entry.seq, token, action, before, run.state)
        token, before = run.token, run.state


def describe(number: int, move: Move) -> str:
    """Tell one move in one line of ASCII, the chosen pennants in brackets."""
    action, before, after = move.action, move.before, move.after
    count = action.count or 0
    chosen, rest = format_garland(before.garland[:count]), format_garland(before.garland[count:])
    garland = f"[{chosen}] {rest}".rstrip() if count else rest
    told = [str(number), f"board {after.board_number}", str(action)]
    told += [f"{garland} -> {format_garland(after.garland)}", _outcome(after)]
    told += [f"moves left {after.remaining_moves}", f"leaves {after.leaves}"]
    return "  ".join(filter(None, [*told, f"score {after.score}"]))


def _outcome(state: State) -> str:
    """Say what came of the last move; nothing where the board is still being played."""
    return {
        rules.CLEARED: f"cleared, {state.last_award} points",
        rules.RETRY: "out of moves, a leaf is spent",
        rules.ENDED: f"ended, {state.end_reason}",
    }.get(state.phase, "")


class Film:
    """A run as it is shown: time and keys go in, pictures come out."""

    def __init__(self, verification: Verification) -> None:
        """Begin at the beginning of a journal that was not read yet, two moves a second."""
        self.is_over = False
        """Whether it is to be shown no longer."""
        self._verification = verification
        self._moves = moves(verification)
        self._next = next(self._moves, None)
        self._state = verification.run.state if self._next is None else self._next.before
        self._number = 0
        self._speed = 2.0
        self._is_paused = False
        self._due = 0.0
        """Moves that the time has brought and that were not shown yet."""

    def pass_time(self, seconds: float) -> None:
        """Go on as far as the speed has it."""
        self._due = 0.0 if self._is_paused else self._due + seconds * self._speed
        while self._next is not None and self._due >= 1:
            self._state, self._number = self._next.after, self._number + 1
            self._next = next(self._moves, None)
            self._due -= 1

    def press(self, key: str) -> None:
        """Do what a key asks for; a key that means nothing does nothing."""
        if key == "q":
            self.is_over = True
        elif key == " ":
            self._is_paused = not self._is_paused
        elif key in ("+", "-"):
            self._speed = min(max(self._speed * (2 if key == "+" else 0.5), SLOWEST), FASTEST)

    def finish(self) -> None:
        """Read what was not shown, so that the verdict is one on the whole journal."""
        for _ in self._moves:
            pass

    def picture(self) -> list[str]:
        """Draw this moment: suns and moons in words, so that any terminal can show it."""
        state, run = self._state, self._verification.run
        action = self._next.action if self._next else None
        pace = "paused" if self._is_paused else f"{self._speed:g} moves a second"
        count = (action and action.count) or 0
        left = (
            f"moves left {state.remaining_moves} of {state.move_budget}   leaves {state.leaves}   "
            f"score {state.score:,} of {run.goal.bank_at:,}"
        )
        return [
            one_line(self._verification.run_id or "a run of no name"),
            f"board {state.board_number:,} (template {state.template_index})   {left}",
            "",
            " ".join("(sun) " if pennant > 0 else "<moon>" for pennant in state.garland),
            " ".join(f"{abs(pennant):^6}" for pennant in state.garland),
            "=" * (7 * count - 1),
            "; ".join(filter(None, (_outcome(state), f"next: {action}" if action else ""))),
            "",
            f"move {self._number:,}   {pace if action else 'at the end'}",
            "space pause   + - speed   q quit",
        ]


def show(film: Film, keys: int, screen: int) -> None:
    """Show a film until it is quit; then the terminal is as it was.

    Args:
        film: what to show.
        keys: descriptor of the terminal, to read from.
        screen: likewise, to write to.
    """
    before = termios.tcgetattr(keys)
    try:
        tty.setcbreak(keys, termios.TCSANOW)  # what was typed ahead counts
        mode = termios.tcgetattr(keys)
        mode[tty.CC][termios.VSUSP] = b"\0"  # it would be stopped with its picture on the screen
        termios.tcsetattr(keys, termios.TCSANOW, mode)
        with contextlib.suppress(OSError):  # the terminal may hang up
            _roll(film, keys, screen)
    finally:
        with contextlib.suppress(OSError):
            os.write(screen, b"\x1b[?25h\x1b[?1049l")
        with contextlib.suppress(termios.error):
            termios.tcsetattr(keys, termios.TCSADRAIN, before)


def _roll(film: Film, keys: int, screen: int) -> None:
    os.write(screen, b"\x1b[?1049h\x1b[?25l")
    shown, last = "", time.monotonic()
    while not film.is_over:
        width = shutil.get_terminal_size().columns
        picture = "\n".join(f"{line[:width]}\x1b[K" for line in film.picture())
        if picture != shown:
            os.write(screen, f"\x1b[H{picture}\x1b[J".encode("ascii", "backslashreplace"))
            shown = picture
        if select.select([keys], [], [], TICK_S)[0]:
            film.press(os.read(keys, 1).decode("latin-1") or "q")
        now = time.monotonic()
        film.pass_time(now - last)
        last = now
