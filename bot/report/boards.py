"""What the player in the page shows: every board, step by step.

The boards of a long run are played alike, so each way of playing one is kept once, and a board
is a few numbers: ten times a run to a million points stays a page that opens at once.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple, TypeAlias

from bot import rules
from bot.garland import Garland
from bot.rules import State

MAX_BOARDS: Final = 50_000
"""Boards in the page; of a longer run, the first and the last half of them."""
MAX_STEPS: Final = 60_000
"""Steps in the page, over all ways of playing; a board beyond them is listed, not shown."""


class Step(NamedTuple):
    """The garland after an action."""

    action: str
    """Its name."""
    garland: Garland
    moves_used: int
    leaves: int
    phase: int
    """Its place in `rules.PHASES`."""
    award: int


class Play(NamedTuple):
    """One way of playing a board: how it lay at first, and every step."""

    garland: Garland
    move_budget: int
    leaves: int
    steps: tuple[Step, ...]


class Board(NamedTuple):
    """A board as it was played."""

    number: int
    template: int
    play: int
    """Which `Play`, -1 where the page has none."""
    score: int
    """Points before it."""
    at: float
    """Seconds played when it began."""


Place: TypeAlias = tuple[int, int]
"""A board, counted from 0 as they were played, and a step in it; 0 before the first."""


class BoardLog:
    """The boards of a run, gathered move by move."""

    def __init__(self) -> None:
        """Begin on the first board, as every run does."""
        self.plays: dict[Play, int] = {}
        self.count = 0
        """Boards begun, the one at hand included."""
        self._steps_kept = 0
        self._first: list[Board] = []
        self._last: deque[Board] = deque(maxlen=MAX_BOARDS // 2)
        self._begin(rules.fresh(), 0.0)

    @property
    def place(self) -> Place:
        """Where the run stands."""
        return self.count - 1, len(self._steps)

    def take(self, action: str, before: State, after: State, at: float) -> None:
        """Take note of an action, accepted at `at` seconds played.

        A board whose beginning the journal has lost begins where it is first seen.
        """
        if action == rules.NEXT_BOARD.type or after.board_number != self._start.board_number:
            kept = self._first if len(self._first) < MAX_BOARDS // 2 else self._last
            kept.append(self._board())
            self._begin(after, at)
            return
        phase = rules.PHASES.index(after.phase)
        award = after.score - before.score
        self._steps.append(
            Step(action, after.garland, after.moves_used, after.leaves, phase, award)
        )

    def _begin(self, start: State, at: float) -> None:
        self.count += 1
        self._start, self._at = start, at
        self._steps: list[Step] = []

    def _board(self) -> Board:
        start = self._start
        play = Play(start.garland, start.move_budget, start.leaves, tuple(self._steps))
        place = self.plays.get(play, -1)
        if place < 0 and self._steps_kept + len(play.steps) <= MAX_STEPS:
            place = self.plays[play] = len(self.plays)
            self._steps_kept += len(play.steps)
        return Board(start.board_number, start.template_index, place, start.score, self._at)

    @property
    def left_out(self) -> int:
        """Boards that the page does not list, between the first and the last ones."""
        return self.count - 1 - len(self._first) - len(self._last)

    def boards(self) -> list[Board]:
        """Return the boards of the page, the one at hand included."""
        return [*self._first, *self._last, self._board()]

    def listed(self, place: Place) -> Place | None:
        """Return a place as `boards` counts, None where that board is left out."""
        number, step = place
        if number < len(self._first):
            return place
        number -= self.left_out
        return (number, step) if number >= len(self._first) else None
