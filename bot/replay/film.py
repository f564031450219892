"""A run that can be wound forward and back, kept in a few bytes a move."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final, NamedTuple

from bot import rules
from bot.journal.events import ActionTaken
from bot.rules import Action, State
from bot.verify import Verification

EVERY: Final = 256
"""Moves between two states that are kept; those between them are played again."""
_ACTIONS: Final = (*rules.FLIPS, *rules.PLAIN_ACTIONS.values())


class Move(NamedTuple):
    """One action of a run."""

    before: State
    action: Action
    after: State


def moves(verification: Verification) -> Iterator[Move]:
    """Yield the actions of a journal while it is verified, up to the first problem.

    Raises:
        NotAJournal: the file cannot be read, or is no journal.
    """
    before = verification.run.state
    for entry in verification.steps():
        if not verification.is_verified:
            return
        if isinstance(entry.event, ActionTaken):
            after = verification.run.state
            yield Move(before, rules.parse_action(entry.event.action), after)
            before = after


class Film:
    """The states of a run, by the number of actions before each."""

    def __init__(self) -> None:
        """Begin with a fresh run and no move."""
        self._actions = bytearray()
        self._states: dict[int, State] = {0: rules.fresh()}
        """Every so often, and wherever the rules do not lead."""
        self._boards = array("Q", [1])
        self._board_starts = array("Q", [0])

    def __len__(self) -> int:
        """Return the number of moves; there is one state more."""
        return len(self._actions)

    def add(self, move: Move) -> None:
        """Add the next move."""
        self._actions.append(_ACTIONS.index(move.action))
        number = len(self)
        if number % EVERY == 0 or rules.apply(move.before, move.action) != move.after:
            self._states[number] = move.after
        if move.after.board_number != self._boards[-1]:
            self._boards.append(move.after.board_number)
            self._board_starts.append(number)

    def action(self, number: int) -> Action | None:
        """Return the action that leads on from state `number`, None at the end."""
        return _ACTIONS[self._actions[number]] if number < len(self) else None

    def state(self, number: int) -> State:
        """Return the state after the first `number` moves."""
        kept = number
        while kept not in self._states:
            kept -= 1
        state = self._states[kept]
        for index in range(kept, number):
            state = rules.apply(state, _ACTIONS[self._actions[index]])
        return state

    def start_of(self, board: int) -> int:
        """Return the number of the state at which a board begins, or the nearest one before."""
        return self._board_starts[max(0, bisect_right(self._boards, board) - 1)]
