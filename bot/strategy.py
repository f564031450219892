"""What to do next: the way to the bank threshold in the fewest requests, and out of any trouble.

The module answers one question, `decide`, for every state that the rules can reach, also
for those that only a worse player leaves behind. It is pure; sending the action is left to
`player`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, reduce
from itertools import count
from operator import itemgetter, or_
from typing import Final, NamedTuple

from bot import rules, solver
from bot.rules import Action, State

AT_LEAST: Final = "at-least"
AT_MOST: Final = "at-most"
EXACTLY: Final = "exactly"
BANK_RULES: Final = (AT_LEAST, AT_MOST, EXACTLY)

WASTE_PRICE: Final = 10
"""Points that an extra flip costs ("Scoring")."""
LONGEST: Final = 20
"""Flips of the longest way to clear a board that is thought of; no board allows as many."""
FAR: Final = 40 * 265
"""Points to go above which an exact landing needs no thought yet.

The fewest boards that can land on a number overshoot it by less than two awards, 530
points, so at most 53 flips are ever wasted; the last 14 boards have room for them all.
"""


@dataclass(frozen=True, slots=True)
class Goal:
    """When to bank."""

    bank_at: int
    """The threshold, in points."""
    rule: str = AT_LEAST
    """`at-least`: at the first score that reaches the threshold; `at-most`: at the last
    score of best play that does not pass it; `exactly`: on the number itself."""


def decide(state: State, goal: Goal) -> Action:
    """Return the action to send from `state`, which has to be live (not `ended`).

    `exactly` lands in the fewest requests that any play can: the boards' awards fix how many
    boards and how many wasted flips (10 points each) sum to the number, a further board
    always costs more requests than the flips it would save, and so the fewest boards that
    can land on the number are the shortest way there. Flips are wasted as late as possible.
    """
    if goal.rule == EXACTLY:
        return _decide_exactly(state, goal.bank_at - state.score)
    return rules.BANK if _is_due(state, goal) else _onward(state)


def is_met(state: State, goal: Goal) -> bool:
    """Tell whether banking in `state` is what the goal asks for."""
    if goal.rule == EXACTLY:
        return state.score == goal.bank_at
    if goal.rule == AT_MOST and state.score > goal.bank_at:
        return False
    return _is_due(state, goal)


def is_out_of_reach(state: State, goal: Goal) -> bool:
    """Tell whether no play from `state` lands on the points that `exactly` asks for."""
    is_over = state.phase == rules.ENDED or is_met(state, goal)
    return goal.rule == EXACTLY and not is_over and decide(state, goal) == rules.BANK


def is_reachable(bank_at: int) -> bool:
    """Tell whether some play from a fresh run ends on exactly `bank_at` points."""
    return _wasted_flips(bank_at, first_board=1) is not None


def nearest_reachable(bank_at: int) -> tuple[int, int]:
    """Return the reachable numbers of points next below and next above `bank_at`."""
    below = next(points for points in count(bank_at - 1, -1) if is_reachable(points))
    above = next(points for points in count(bank_at + 1) if is_reachable(points))
    return below, above


def _is_due(state: State, goal: Goal) -> bool:
    """Tell whether `at-least` or `at-most` says to bank; `at-most` may have been passed already."""
    if goal.rule == AT_MOST:
        return state.score + _prospect(state) > goal.bank_at
    return state.score >= goal.bank_at


def _onward(state: State) -> Action:
    """Return the action of best play that does not bank while there is more to win."""
    if state.phase == rules.CLEARED:
        return rules.NEXT_BOARD
    if state.phase == rules.RETRY:
        return rules.RETRY_BOARD
    if solver.distance(state.garland) <= state.remaining_moves and state.garland != state.target:
        return rules.FLIPS[solver.next_flip(state.garland) - 1]
    return rules.RESTART if state.leaves > 1 else rules.BANK


def _prospect(state: State) -> int:
    """Return the award that best play earns next, in points."""
    if state.phase == rules.CLEARED:
        return _best_award(rules.template_index(state.board_number + 1))
    spare = state.remaining_moves - solver.distance(state.garland)
    if state.phase == rules.PLAYING and spare >= 0:
        return rules.award(state.n, spare)
    return _best_award(state.template_index)


@cache
def _best_award(template_index: int) -> int:
    return rules.award(len(rules.template(template_index).start), rules.SPARE_MOVES)


def _is_spoilt(state: State) -> bool:
    """Tell whether flips have been wasted on the board at hand."""
    spare = state.remaining_moves - solver.distance(state.garland)
    return state.phase == rules.PLAYING and spare != rules.SPARE_MOVES


class _Finish(NamedTuple):
    """One way to clear the board at hand."""

    requests: int
    award: int
    action: Action
    """The first of its actions."""


def _decide_exactly(state: State, points: int) -> Action:
    """Return the first action of a shortest play that gains exactly `points` more."""
    if points == 0:
        return rules.BANK
    if points > FAR and not _is_spoilt(state):
        return _onward(state)
    if state.phase == rules.CLEARED:
        is_open = _wasted_flips(points, state.board_number + 1) is not None
        return rules.NEXT_BOARD if is_open else rules.BANK
    # The pars of further boards need no counting: more boards waste more flips, too.
    plans = [
        (finish.requests + wasted, finish.requests, finish.action)
        for finish in _finishes(state)
        if (wasted := _wasted_flips(points - finish.award, state.board_number + 1)) is not None
    ]
    return min(plans, key=itemgetter(0, 1))[2] if plans else rules.BANK


def _finishes(state: State) -> list[_Finish]:
    """Return every way to clear the board at hand that spends at most one leaf."""
    finishes = []
    if state.phase == rules.PLAYING:
        remaining = state.remaining_moves
        finishes = [
            _Finish(
                length,
                rules.award(state.n, remaining - length),
                rules.FLIPS[solver.flip_towards(state.garland, length) - 1],
            )
            for length in solver.lengths(state.garland, min(remaining, LONGEST))
            if length  # 0: a damaged journal claims a restored garland in play
        ]
    if state.phase == rules.RETRY or state.leaves > 1:
        again = rules.RETRY_BOARD if state.phase == rules.RETRY else rules.RESTART
        board = rules.template(state.template_index)
        finishes += [
            _Finish(1 + length, rules.award(len(board.start), board.budget - length), again)
            for length in solver.lengths(board.start, board.budget)
        ]
    return finishes


def _wasted_flips(points: int, first_board: int) -> int | None:
    """Return how many flips are wasted on the way that gains exactly `points` with fewest boards.

    The boards are those from `first_board` on; those that are far off are left out in whole
    cycles of the templates that repeat, played as best can be. None: it cannot be done.
    """
    points -= max(0, points - FAR) // _cycle() * _cycle()
    best = least = 0
    sums = 1  # bit w is set where the boards so far can waste w flips in all
    board = first_board
    while least <= points:
        wasted, odd = divmod(best - points, WASTE_PRICE)
        if wasted >= 0 and not odd and sums >> wasted & 1:
            return wasted
        index = rules.template_index(board)
        wastes = _wastes(index)
        best += _best_award(index)
        least += _best_award(index) - WASTE_PRICE * max(wastes)
        sums = reduce(or_, (sums << waste for waste in wastes))
        board += 1
    return None


@cache
def _cycle() -> int:
    """Return the points of the templates that repeat, played as best can be."""
    first = rules.INTRODUCTION + 1
    return sum(
        _best_award(index) for index in {*map(rules.template_index, range(first, 2 * first))}
    )


@cache
def _wastes(template_index: int) -> tuple[int, ...]:
    """Return the numbers of extra flips with which this template can still be cleared."""
    board = rules.template(template_index)
    return tuple(length - board.par for length in sorted(solver.lengths(board.start, board.budget)))
