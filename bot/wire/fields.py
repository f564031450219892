"""The public fields of a state, by the page's names and as a service may spell them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final, TypeAlias

from bot import rules
from bot.errors import ActionError
from bot.rules import State
from bot.wire.values import fold_name, is_same, kind_of

Fields: TypeAlias = dict[str, object]
"""The public fields of a state by the page's names, as JSON values."""

TOKEN: Final = "token"  # noqa: S105 - the name of a field
GARLAND: Final = "garland"
TARGET: Final = "target"
LEGAL_ACTIONS: Final = "legalActions"
GAME_OVER: Final = "gameOver"

SPELLINGS: Final[Mapping[str, tuple[str, ...]]] = {
    TOKEN: ("stateToken", "token"),
    GARLAND: ("garland", "pennants", "faces", "signedFaces", "signedPennants", "arrangement"),
    LEGAL_ACTIONS: ("legalActions",),
    GAME_OVER: ("gameOver",),
    "version": ("version",),
    "phase": ("phase",),
    "boardNumber": ("boardNumber", "board"),
    "templateIndex": ("templateIndex", "template"),
    "n": ("n",),
    "par": ("par", "exactPar"),
    TARGET: ("target", "exactTarget"),
    "movesUsed": ("movesUsed",),
    "moveBudget": ("moveBudget", "budget"),
    "remainingMoves": ("remainingMoves", "movesRemaining", "movesLeft"),
    "leaves": ("leaves", "lives"),
    "score": ("score",),
    "clearedBoards": ("clearedBoards", "boardsCleared", "cleared"),
    "lastAward": ("lastAward",),
    "endReason": ("endReason",),
    "turn": ("turn",),
}
"""The page's name of each field, and the spellings under which a service may send it."""

LOCATABLE: Final = tuple(SPELLINGS)
"""The fields whose path a user can name."""
SCORE: Final = "score"
PHASE: Final = "phase"
END_REASON: Final = "endReason"
VERDICTS: Final = frozenset({GAME_OVER, END_REASON, PHASE, SCORE})
"""The fields of which a summary at the end of a run has to have one."""
FINAL_SCORE: Final = "finalScore"
"""What a summary at the end of a run may call the score."""


def field_spelled(key: str) -> str | None:
    """Return the page's name of the field that a service calls `key`, None for any other key."""
    return _BY_SPELLING.get(fold_name(key))


_BY_SPELLING: Final = {
    fold_name(spelling): name for name, spellings in SPELLINGS.items() for spelling in spellings
}


def public_fields(state: State) -> Fields:
    """Return what the page calls the public decision state, as JSON values."""
    return {
        "version": rules.VERSION,
        "phase": state.phase,
        "boardNumber": state.board_number,
        "templateIndex": state.template_index,
        "n": state.n,
        "par": state.par,
        GARLAND: list(state.garland),
        TARGET: list(state.target),
        "movesUsed": state.moves_used,
        "moveBudget": state.move_budget,
        "remainingMoves": state.remaining_moves,
        "leaves": state.leaves,
        "score": state.score,
        "clearedBoards": state.cleared_boards,
        "lastAward": state.last_award,
        "endReason": state.end_reason,
        "turn": state.turn,
    }


def legal_actions(state: State) -> list[dict[str, object]]:
    """Return the legal actions of `state` as the service lists them; not to be changed."""
    return _list_actions(state.phase, state.n)


@cache
def _list_actions(phase: str, n: int) -> list[dict[str, object]]:
    return [action.to_json() for action in rules.actions_in(phase, n)]


def expectation(state: State) -> Fields:
    """Return every field that an answer with `state` may carry, by the page's names."""
    return {
        **public_fields(state),
        GAME_OVER: state.phase == rules.ENDED,
        LEGAL_ACTIONS: legal_actions(state),
    }


def is_expected(name: str, observed: object, expected: object) -> bool:
    """Tell whether the value of a field is the expected one; legal actions come in any order."""
    if name != LEGAL_ACTIONS:
        return is_same(observed, expected)
    if observed == expected and isinstance(observed, list):
        return all(action.get("count") is not True for action in observed)  # which is equal to 1
    return _whole_actions(observed) == _whole_actions(expected)


def is_comparable(name: str, observed: object, expected: object) -> bool:
    """Tell whether a wrong value is at least of the kind that the rules have for the field.

    A number where a number belongs is; `[1, 1, 1]` for three leaves, `PLAYING` for a phase,
    ranges of flips for `legalActions` are another way to write what may well be right.
    """
    if name == LEGAL_ACTIONS:
        return _whole_actions(observed) is not None
    if isinstance(observed, str) and isinstance(expected, str):
        return fold_name(observed) != fold_name(expected)
    return kind_of(observed) == kind_of(expected) or (
        name == END_REASON and (observed is None or observed in rules.END_REASONS)
    )


def why_incomparable(name: str, observed: object, expected: object) -> str:
    """Say why a value that `is_comparable` does not take is passed over."""
    if name == LEGAL_ACTIONS:
        return "not whole actions"
    return f"{kind_of(observed)} where {kind_of(expected)} was expected"


def _whole_actions(value: object) -> set[rules.Action] | None:
    """Return a list of whole actions as a set, None for anything else."""
    if not isinstance(value, list):
        return None
    try:
        return {rules.parse_action(item) for item in value}
    except ActionError:
        return None
