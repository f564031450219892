"""The service's word for a state, taken where it is to be followed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from bot import rules
from bot.errors import Contradiction, GarlandError
from bot.garland import MAX_WHOLE, as_integer, parse_garland
from bot.rules import State
from bot.wire.fields import GAME_OVER, GARLAND, Fields


def claimed_state(claims: Fields, predicted: State) -> State:
    """Return the state that the service claims, its word before the prediction.

    Raises:
        Contradiction: what it claims is no state of the game at all.
    """
    changes: dict[str, object] = {}
    for name, (attribute, read) in _CLAIMS.items():
        if name not in claims:
            continue
        try:
            changes[attribute] = read(claims[name])
        except ValueError as exc:
            raise Contradiction(
                f"cannot follow the service: {name} is {claims[name]!r:.80}"
            ) from exc
    state: State = replace(predicted, **changes)  # type: ignore[arg-type]  # read by _CLAIMS
    if state.phase == rules.ENDED or claims.get(GAME_OVER) is True:
        reason = state.end_reason or predicted.end_reason or rules.OUT_OF_LIVES
        return replace(state, phase=rules.ENDED, end_reason=reason)
    return state


def _count(value: object) -> int:
    number = as_integer(value)
    if number is None or not 0 <= number <= MAX_WHOLE:
        raise ValueError
    return number


def _member(*choices: object) -> Callable[[object], object]:
    def read(value: object) -> object:
        if value in choices and not isinstance(value, bool):
            return as_integer(value) or value
        raise ValueError

    return read


def _garland(value: object) -> object:
    try:
        return parse_garland(value)
    except GarlandError as exc:
        raise ValueError from exc


_CLAIMS: Final[Mapping[str, tuple[str, Callable[[object], object]]]] = {
    "phase": ("phase", _member(*rules.PHASES)),
    "boardNumber": ("board_number", _count),
    "templateIndex": ("template_index", _member(*range(1, len(rules.STARTS) + 1))),
    GARLAND: ("garland", _garland),
    "movesUsed": ("moves_used", _count),
    "moveBudget": ("move_budget", _count),
    "leaves": ("leaves", _count),
    "score": ("score", _count),
    "clearedBoards": ("cleared_boards", _count),
    "lastAward": ("last_award", _count),
    "endReason": ("end_reason", _member(None, *rules.END_REASONS)),
    "turn": ("turn", _count),
}
"""How to take the service's word for a field: the attribute of `State`, and how to read it."""
