"""The lines of a journal: one tuple type for each event, and how each field is read back.

`FORMAT` is the format; the writer, the reader and the tests of both go by it. Every line
also has `seq`, `ts` and `event`, which belong to the line and not to what happened.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from bot import errors
from bot.garland import MAX_WHOLE
from bot.words import MAX_SHOWN

JOURNAL_VERSION: Final = 1
INIT: Final = "init"
"""What a `retry` line names before the first action."""
SUSPENDING: Final = frozenset(
    (
        errors.ServiceUnavailable.exit_code,
        errors.BotError.exit_code,
        errors.TryLater.exit_code,
        errors.Contradiction.exit_code,
        errors.TokenRefused.exit_code,
        errors.ConfigError.exit_code,
        *range(129, 193),
    )
)
"""Exit codes of a call that leaves its run suspended; 128 and more: the number of a signal."""


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
    """Points of this action."""
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
    """Seconds that were to pass before it was sent again; 0: none, or it was not sent again."""


class Refused(NamedTuple):
    """`refused`: an `ok: false` answer; nothing changed."""

    action: dict[str, object]
    reason: str


class LayoutChanged(NamedTuple):
    """`layout`: an answer that is laid out otherwise than the one before it."""

    wire: dict[str, object]
    """Where each field was found in it."""


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
    | LayoutChanged
    | FieldsDiverged
    | RunResumed
    | RunSuspended
    | RunAbandoned
    | RunEnded
)


class FieldKind(NamedTuple):
    """What a field may hold: told by its type first, since `True` is no 1 and `1.0` is none."""

    text: str
    """For people: `a count`."""
    types: frozenset[type]
    test: Callable[[Any], object]
    """Is true of a right value; asked for values of these types only."""

    def __call__(self, value: object) -> bool:
        """Tell whether `value` is of this kind."""
        return type(value) in self.types and bool(self.test(value))


def _kind(text: str, *types: type, test: Callable[[Any], object] = lambda _: True) -> FieldKind:
    return FieldKind(text, frozenset(types), test)


def _nullable(kind: FieldKind) -> FieldKind:
    return _kind(
        f"{kind.text} or null",
        *kind.types,
        type(None),
        test=lambda value: value is None or kind.test(value),
    )


_TEXT: Final = _kind("a text", str)
_NAME: Final = _kind("a text that is not empty", str, test=bool)
_SHORT: Final = _kind(
    f"a text of 1 to {MAX_SHOWN} characters", str, test=lambda text: 0 < len(text) <= MAX_SHOWN
)
_INTEGER: Final = _kind("a whole number", int, test=range(-MAX_WHOLE, MAX_WHOLE + 1).__contains__)
_COUNT: Final = _kind(
    "a whole number from 0 to 2^53 - 1", int, test=range(MAX_WHOLE + 1).__contains__
)
_DURATION: Final = _kind("a time", int, float, test=lambda value: 0 <= value < math.inf)
_OBJECT: Final = _kind("an object", dict)
_ACTION: Final = _kind("an action", dict, test=lambda value: isinstance(value.get("type"), str))
_ANYTHING: Final = _kind("anything", dict, list, str, int, float, bool, type(None))

FORMAT: Final[Mapping[str, tuple[type[Event], Mapping[str, FieldKind]]]] = {
    "run.started": (
        RunStarted,
        {
            "journal_version": _kind(str(JOURNAL_VERSION), int, test=JOURNAL_VERSION.__eq__),
            "run_id": _SHORT,
            "bot_version": _SHORT,
            "base_url": _SHORT,
            "seed": _COUNT,
            "bank_at": _COUNT,
            "bank_rule": _NAME,
            "token": _NAME,
            "state": _OBJECT,
            "wire": _OBJECT,
            "spec": _ANYTHING,
            "spec_sha256": _nullable(_NAME),
        },
    ),
    "action": (
        ActionTaken,
        {
            "turn": _COUNT,
            "action": _ACTION,
            "token": _NAME,
            "award": _INTEGER,
            "score": _COUNT,
            "phase": _NAME,
            "board": _COUNT,
            "template": _COUNT,
            "garland": _kind(
                "a list of whole numbers",
                list,
                test=lambda pennants: {*map(type, pennants)} <= {int},
            ),
            "moves_used": _COUNT,
            "move_budget": _COUNT,
            "leaves": _INTEGER,
            "attempts": _COUNT,
            "elapsed_ms": _DURATION,
        },
    ),
    "retry": (
        Retried,
        {
            "what": _kind(
                "init or an action",
                str,
                dict,
                test=lambda value: value == INIT or _ACTION(value),
            ),
            "attempt": _COUNT,
            "cause": _TEXT,
            "status": _nullable(_COUNT),
            "excerpt": _TEXT,
            "wait_s": _DURATION,
        },
    ),
    "refused": (Refused, {"action": _ACTION, "reason": _TEXT}),
    "layout": (LayoutChanged, {"wire": _OBJECT}),
    "diverged": (FieldsDiverged, {"fields": _OBJECT}),
    "run.resumed": (
        RunResumed,
        {
            "from_seq": _COUNT,
            "bank_at": _COUNT,
            "bank_rule": _NAME,
            "bot_version": _SHORT,
            "cut_bytes": _COUNT,
        },
    ),
    "run.suspended": (RunSuspended, {"reason": _NAME, "exit_code": _COUNT}),
    "run.abandoned": (RunAbandoned, {"reason": _NAME}),
    "run.ended": (
        RunEnded,
        {
            "end_reason": _NAME,
            "score": _COUNT,
            "boards": _COUNT,
            "flips": _COUNT,
            "requests": _COUNT,
            "retries": _COUNT,
            "seconds": _DURATION,
        },
    ),
}
"""Name of each event: the tuple that holds it, and what each of its fields has to be."""

EVENT_NAMES: Final[Mapping[type, str]] = {kind: name for name, (kind, _) in FORMAT.items()}
