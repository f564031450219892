"""The lines of a journal: one tuple type for each event, and how each field is read back.

`EVENTS` is the format; the writer, the reader and the tests of both go by it. Every line
also has `seq`, `ts` and `event`, which belong to the line and not to what happened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from bot import rules, strategy
from bot.errors import ActionError
from bot.rules import State

JOURNAL_VERSION: Final = 1


class RunStarted(NamedTuple):
    """`run.started`: the answer to `init`, and what the run is to do."""

    journal_version: int
    run_id: str
    bot_version: str
    base_url: str
    seed: int
    bank_at: int
    bank_rule: str
    token: str
    state: dict[str, object]
    """The fresh state as understood, by the page's names."""
    wire: dict[str, object]
    """Where each field was found in the answer."""
    spec: object
    """The service's description of the game, null where it sends none."""
    spec_sha256: str | None
    """Of `spec` as JSON with sorted keys and no spaces."""


class ActionTaken(NamedTuple):
    """`action`: one accepted action, and the state after it."""

    turn: int
    action: dict[str, object]
    token: str
    award: int
    score: int
    phase: str
    board: int
    template: int
    garland: list[int]
    moves_used: int
    move_budget: int
    leaves: int
    attempts: int
    """Times that it was sent in this sitting; 1 where the first answer was good."""
    elapsed_ms: float
    """From sending it, the last time, to the last byte of its answer."""


class Retried(NamedTuple):
    """`retry`: a request that brought no usable answer."""

    what: str | dict[str, object]
    """`init`, or the action."""
    attempt: int
    cause: str
    status: int | None
    excerpt: str
    """At most 200 characters of the answer."""
    wait_s: float
    """Seconds until it was sent again; 0 where it was not."""


class Refused(NamedTuple):
    """`refused`: an `ok: false` answer; nothing changed."""

    action: dict[str, object]
    reason: str


class FieldsDiverged(NamedTuple):
    """`diverged`: an answer that contradicts the prediction, twice."""

    fields: dict[str, dict[str, object]]


class RunResumed(NamedTuple):
    """`run.resumed`: a new sitting of the run."""

    from_seq: int
    """The last whole line before it."""
    bank_at: int
    bank_rule: str
    bot_version: str
    cut_bytes: int
    """Bytes of a torn last line that were cut off, else 0."""


class RunSuspended(NamedTuple):
    """`run.suspended`: a sitting ends, the run can go on."""

    reason: str
    exit_code: int


class RunAbandoned(NamedTuple):
    """`run.abandoned`: the run cannot go on."""

    reason: str


class RunEnded(NamedTuple):
    """`run.ended`: the run is over; its totals over all sittings."""

    end_reason: str
    score: int
    boards: int
    flips: int
    requests: int
    retries: int
    seconds: float
    """Time played, without the time between sittings."""


Event: TypeAlias = (
    RunStarted
    | ActionTaken
    | Retried
    | Refused
    | FieldsDiverged
    | RunResumed
    | RunSuspended
    | RunAbandoned
    | RunEnded
)

Check: TypeAlias = Callable[[Any], bool]


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


def _is_seconds(value: object) -> bool:
    return type(value) in (int, float) and 0 <= value < float("inf")  # type: ignore[operator]  # a number by its type


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _is_action(value: object) -> bool:
    try:
        rules.parse_action(value)
    except ActionError:
        return False
    return True


def _is_garland(value: object) -> bool:
    return isinstance(value, list) and all(type(pennant) is int for pennant in value)


def _one_of(*choices: object) -> Check:
    return lambda value: type(value) in (str, int) and value in choices


def _nullable(check: Check) -> Check:
    return lambda value: value is None or check(value)


FORMAT: Final[Mapping[str, tuple[type[Event], Mapping[str, Check]]]] = {
    "run.started": (
        RunStarted,
        {
            "journal_version": _one_of(JOURNAL_VERSION),
            "run_id": _is_name,
            "bot_version": _is_name,
            "base_url": _is_name,
            "seed": _is_count,
            "bank_at": _is_count,
            "bank_rule": _one_of(*strategy.BANK_RULES),
            "token": _is_name,
            "state": _is_object,
            "wire": _is_object,
            "spec": lambda _: True,
            "spec_sha256": _nullable(_is_name),
        },
    ),
    "action": (
        ActionTaken,
        {
            "turn": _is_count,
            "action": _is_action,
            "token": _is_name,
            "award": _is_count,
            "score": _is_count,
            "phase": _one_of(*rules.PHASES),
            "board": _is_count,
            "template": _is_count,
            "garland": _is_garland,
            "moves_used": _is_count,
            "move_budget": _is_count,
            "leaves": _is_count,
            "attempts": _is_count,
            "elapsed_ms": _is_seconds,
        },
    ),
    "retry": (
        Retried,
        {
            "what": lambda value: value == "init" or _is_action(value),
            "attempt": _is_count,
            "cause": _is_name,
            "status": _nullable(_is_count),
            "excerpt": _is_text,
            "wait_s": _is_seconds,
        },
    ),
    "refused": (Refused, {"action": _is_action, "reason": _is_text}),
    "diverged": (FieldsDiverged, {"fields": _is_object}),
    "run.resumed": (
        RunResumed,
        {
            "from_seq": _is_count,
            "bank_at": _is_count,
            "bank_rule": _one_of(*strategy.BANK_RULES),
            "bot_version": _is_name,
            "cut_bytes": _is_count,
        },
    ),
    "run.suspended": (RunSuspended, {"reason": _is_name, "exit_code": _is_count}),
    "run.abandoned": (RunAbandoned, {"reason": _is_name}),
    "run.ended": (
        RunEnded,
        {
            "end_reason": _one_of(*rules.END_REASONS),
            "score": _is_count,
            "boards": _is_count,
            "flips": _is_count,
            "requests": _is_count,
            "retries": _is_count,
            "seconds": _is_seconds,
        },
    ),
}
"""Name of each event: the tuple that holds it, and what each of its fields has to be."""

EVENT_NAMES: Final[Mapping[type, str]] = {kind: name for name, (kind, _) in FORMAT.items()}


def action_taken(
    before: State, after: State, action: rules.Action, token: str, attempts: int, elapsed_ms: float
) -> ActionTaken:
    """Return the event of an action that led from state `before` to state `after`."""
    return ActionTaken(
        turn=after.turn,
        action=action.to_json(),
        token=token,
        award=after.score - before.score,
        score=after.score,
        phase=after.phase,
        board=after.board_number,
        template=after.template_index,
        garland=list(after.garland),
        moves_used=after.moves_used,
        move_budget=after.move_budget,
        leaves=after.leaves,
        attempts=attempts,
        elapsed_ms=elapsed_ms,
    )
