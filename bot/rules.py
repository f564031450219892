"""The rules of Sunpleat: states, actions, and what an action does to a state.

Values are immutable and every transition is a pure function. A rejected action raises and
changes nothing. Pars are computed by `solver`, never typed in.

Source: the game's page; the headings named below are those of its "Rules" part.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from bot import solver
from bot.errors import ActionError
from bot.garland import MAX_PENNANTS, Garland, as_integer, flip, target

PLAYING: Final = "playing"
CLEARED: Final = "cleared"
RETRY: Final = "retry"
ENDED: Final = "ended"
PHASES: Final = (PLAYING, CLEARED, RETRY, ENDED)

BANKED: Final = "banked"
OUT_OF_LIVES: Final = "out-of-lives"
END_REASONS: Final = (BANKED, OUT_OF_LIVES)

VERSION: Final = 1
LEAVES: Final = 3
SPARE_MOVES: Final = 4
"""Moves of a budget above the par ("Goal": exact par plus four)."""
INTRODUCTION: Final = 8
"""Boards that are played once, before templates 5 to 8 repeat ("NEXT")."""

STARTS: Final[tuple[Garland, ...]] = (
    (-2, -1, 3),
    (3, -2, -1),
    (-4, 1, -3, -2),
    (-1, 3, -4, 2),
    (5, -3, 2, -4, -1),
    (-3, 4, 5, 1, -2),
    (-4, 3, -1, 2, -5),
    (1, 4, 3, -2, -5),
)
"""The start of each template, template 1 first ("FIXTURES")."""


@dataclass(frozen=True, slots=True)
class Template:
    """An authored garland: where a board starts, and what that implies."""

    start: Garland
    par: int
    """Flips of a shortest solution."""

    @property
    def budget(self) -> int:
        """Moves that a board of this template allows."""
        return self.par + SPARE_MOVES


@cache
def template(index: int) -> Template:
    """Return template `index`, 1 to 8."""
    start = STARTS[index - 1]
    return Template(start, solver.distance(start))


def template_index(board_number: int) -> int:
    """Return the template, 1 to 8, that board `board_number` (from 1) is made of ("NEXT")."""
    if board_number <= INTRODUCTION:
        return board_number
    return 5 + (board_number - 9) % 4


def award(n: int, remaining_moves: int) -> int:
    """Return the points for clearing `n` pennants with moves remaining ("Scoring")."""
    return 100 + 25 * n + 10 * remaining_moves


@dataclass(frozen=True, slots=True)
class Action:
    """One action of the grammar."""

    type: str
    """`flip`, `next`, `retry`, `restart` or `bank`."""
    count: int | None = None
    """Pennants to flip, 1 to 5; None for every other type."""

    def to_json(self) -> dict[str, object]:
        """Return the action as the JSON object that the service takes."""
        if self.count is None:
            return {"type": self.type}
        return {"type": self.type, "count": self.count}

    def __str__(self) -> str:
        """Name the action as a person would: `flip 3`, `next`."""
        return self.type if self.count is None else f"{self.type} {self.count}"


FLIPS: Final = tuple(Action("flip", count) for count in range(1, MAX_PENNANTS + 1))
NEXT_BOARD: Final = Action("next")
RETRY_BOARD: Final = Action("retry")
RESTART: Final = Action("restart")
BANK: Final = Action("bank")

PLAIN_ACTIONS: Final = {action.type: action for action in (NEXT_BOARD, RETRY_BOARD, RESTART, BANK)}


def parse_action(value: object) -> Action:
    """Read an action from parsed JSON, as strictly as the page's grammar.

    Raises:
        ActionError: `value` is outside the grammar; the message says in what.
    """
    if not isinstance(value, dict):
        raise ActionError("an action is a JSON object")
    kind = value.get("type")
    if kind == "flip":
        if value.keys() != {"type", "count"}:
            raise ActionError('a flip has "type" and "count", nothing else')
        count = as_integer(value["count"])
        if count is None or not 1 <= count <= MAX_PENNANTS:
            raise ActionError(f'"count" is an integer from 1 to {MAX_PENNANTS}')
        return FLIPS[count - 1]
    if not isinstance(kind, str) or kind not in PLAIN_ACTIONS:
        raise ActionError('"type" is one of flip, next, retry, restart, bank')
    if len(value) != 1:
        raise ActionError(f'{kind} has "type", nothing else')
    return PLAIN_ACTIONS[kind]


@dataclass(frozen=True, slots=True)
class State:
    """All that decides a run: the public state of the page, with nothing derived in it."""

    phase: str
    """One of `PHASES`."""
    board_number: int
    """From 1."""
    template_index: int
    """From 1 to 8."""
    garland: Garland
    moves_used: int
    move_budget: int
    leaves: int
    """3 at the start, 0 when out of lives."""
    score: int
    """Points of all cleared boards."""
    cleared_boards: int
    last_award: int
    """Points of the board just cleared, 0 once the next one begins."""
    end_reason: str | None
    """One of `END_REASONS` in phase `ended`, else None."""
    turn: int
    """Accepted actions."""

    @property
    def n(self) -> int:
        """Pennants of this garland."""
        return len(self.garland)

    @property
    def par(self) -> int:
        """Flips of a shortest solution from the start of this board."""
        return template(self.template_index).par

    @property
    def remaining_moves(self) -> int:
        """Moves left of the budget."""
        return self.move_budget - self.moves_used

    @property
    def target(self) -> Garland:
        """The garland to reach."""
        return target(self.n)


def fresh() -> State:
    """Return the state that every run starts from."""
    first = template(1)
    return State(
        phase=PLAYING,
        board_number=1,
        template_index=1,
        garland=first.start,
        moves_used=0,
        move_budget=first.budget,
        leaves=LEAVES,
        score=0,
        cleared_boards=0,
        last_award=0,
        end_reason=None,
        turn=0,
    )


def legal_actions(state: State) -> tuple[Action, ...]:
    """Return every action that is legal in `state`."""
    return actions_in(state.phase, state.n)


@cache
def actions_in(phase: str, n: int) -> tuple[Action, ...]:
    """Return every action that is legal in a phase, with `n` pennants ("PHASES")."""
    return {
        PLAYING: (*FLIPS[:n], RESTART, BANK),
        CLEARED: (NEXT_BOARD, BANK),
        RETRY: (RETRY_BOARD, BANK),
        ENDED: (),
    }[phase]


def apply(state: State, action: Action) -> State:
    """Return the state after `action`.

    Raises:
        ActionError: the action is not legal in `state`.
    """
    if action not in legal_actions(state):
        raise ActionError(_why_illegal(state, action))
    if action.count is not None:
        return _flip(state, action.count)
    return _TRANSITIONS[action.type](state)


def _why_illegal(state: State, action: Action) -> str:
    if action.count is not None and state.phase == PLAYING:
        return f"flip {action.count} is more than the {state.n} pennants of this garland"
    return f"{action} is not legal in phase {state.phase}"


def _flip(state: State, count: int) -> State:
    """Transform and use one move, then test the target before exhaustion ("CLEAR AND FAILURE")."""
    flipped = flip(state.garland, count)
    used = state.moves_used + 1
    points = 0
    phase = PLAYING
    if flipped == state.target:
        phase = CLEARED
        points = award(state.n, state.move_budget - used)
    elif used >= state.move_budget:
        phase = RETRY
    after = State(
        phase=phase,
        board_number=state.board_number,
        template_index=state.template_index,
        garland=flipped,
        moves_used=used,
        move_budget=state.move_budget,
        leaves=state.leaves,
        score=state.score + points,
        cleared_boards=state.cleared_boards + (phase == CLEARED),
        last_award=points,
        end_reason=None,
        turn=state.turn + 1,
    )
    return _spend_leaf(after) if phase == RETRY else after


def _spend_leaf(state: State) -> State:
    """Take one leaf; the last one ends the run, with its points kept."""
    leaves = state.leaves - 1
    if leaves > 0:
        return replace(state, leaves=leaves)
    return replace(state, leaves=leaves, phase=ENDED, end_reason=OUT_OF_LIVES)


def _begin_board(state: State, board_number: int, index: int) -> State:
    start = template(index)
    return replace(
        state,
        phase=PLAYING,
        board_number=board_number,
        template_index=index,
        garland=start.start,
        moves_used=0,
        move_budget=start.budget,
        last_award=0,
        turn=state.turn + 1,
    )


def _next(state: State) -> State:
    number = state.board_number + 1
    return _begin_board(state, number, template_index(number))


def _retry(state: State) -> State:
    return _begin_board(state, state.board_number, state.template_index)


def _restart(state: State) -> State:
    spent = _spend_leaf(state)
    return _retry(spent) if spent.phase == PLAYING else replace(spent, turn=state.turn + 1)


def _bank(state: State) -> State:
    return replace(state, phase=ENDED, end_reason=BANKED, turn=state.turn + 1)


_TRANSITIONS: Final = {
    NEXT_BOARD.type: _next,
    RETRY_BOARD.type: _retry,
    RESTART.type: _restart,
    BANK.type: _bank,
}
