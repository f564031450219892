"""What the player in the page shows: every board, step by step, as the journal has it.

The boards of a long run are played alike, so each way of playing one is kept once, and a board
is a few numbers: ten times a run to a million points stays a page that opens at once.
"""

from __future__ import annotations

from collections import deque
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from bot import rules
from bot.errors import GarlandError
from bot.garland import Garland, parse_garland
from bot.journal.events import ActionTaken
from bot.report.text import clamp

MAX_BOARDS: Final = 50_000
"""Boards in the page; of a longer run, the first and the last half of them."""
MAX_STEPS: Final = 60_000
"""Steps in the page, over all ways of playing; a board beyond them is listed, not shown."""


class Step(NamedTuple):
    """The garland after an action."""

    action: str
    """The count of a flip, or the action's name."""
    garland: Garland
    """Empty where the journal's is none."""
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
    """The boards of a run, gathered line by line."""

    def __init__(self) -> None:
        """Begin on the first board, as every run does."""
        state = rules.fresh()
        self.plays: dict[Play, int] = {}
        self.count = 1
        """Boards begun, the one at hand included."""
        self._steps_kept = 0
        self._first: list[Board] = []
        self._last: deque[Board] = deque(maxlen=MAX_BOARDS // 2)
        self._head = (state.board_number, state.template_index, 0, 0.0)
        self._start = (state.garland, state.move_budget, state.leaves)
        self._steps: list[Step] = []

    @property
    def place(self) -> Place:
        """Where the run stands."""
        return self.count - 1, len(self._steps)

    def take(self, event: ActionTaken, at: float) -> None:
        """Take note of an action, accepted at `at` seconds played.

        A board whose beginning the journal has lost begins where it is first seen.
        """
        kind = str(event.action["type"])
        if kind == rules.NEXT_BOARD.type or _whole(event.board) != self._head[0]:
            self._close()
            self.count += 1
            self._head = (_whole(event.board), _whole(event.template), _whole(event.score), at)
            self._start = (
                _garland(tuple(event.garland)),
                _whole(event.move_budget),
                _whole(event.leaves),
            )
            return
        self._steps.append(
            Step(
                str(int(str(event.action["count"]))) if "count" in event.action else kind,
                _garland(tuple(event.garland)),
                _whole(event.moves_used),
                _whole(event.leaves),
                rules.PHASES.index(event.phase),
                _whole(event.award),
            )
        )

    def _close(self) -> None:
        (self._first if len(self._first) < MAX_BOARDS // 2 else self._last).append(self._board())
        self._steps = []

    def _board(self) -> Board:
        number, template, score, at = self._head
        return Board(number, template, self._intern(), score, at)

    def _intern(self) -> int:
        play = Play(*self._start, tuple(self._steps))
        place = self.plays.get(play)
        if place is None:
            if self._steps_kept + len(play.steps) > MAX_STEPS:
                return -1
            place = self.plays[play] = len(self.plays)
            self._steps_kept += len(play.steps)
        return place

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


@lru_cache(maxsize=4096)
def _garland(pennants: tuple[int, ...]) -> Garland:
    try:
        return parse_garland(pennants)
    except GarlandError:
        return ()


def _whole(number: int) -> int:
    return int(clamp(number))
