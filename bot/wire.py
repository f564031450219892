"""The service's JSON, to and from the values of `rules`.

Nobody knows beforehand how the real service names and nests what it sends. The answer to
`init` is known in full from the rules, so `discover` looks for those values in it and keeps
where they stand as a `Layout`; `Layout.read` then holds every later answer against the
prediction, field by field, in value and in type. The module is pure: bytes and parsed JSON
in, values out. Sending and asking again belong to `client`.
"""

from __future__ import annotations

import json
import marshal
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from operator import itemgetter
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias, TypeGuard

from bot import rules
from bot.errors import ActionError, BrokenAnswer, Contradiction, GarlandError
from bot.garland import MAX_WHOLE, as_integer, parse_garland
from bot.rules import State

Path: TypeAlias = tuple[str, ...]
"""Keys from the top of an answer down to a value."""

Fields: TypeAlias = dict[str, object]
"""The public fields of a state by the page's names, as JSON values."""

Differences: TypeAlias = dict[str, dict[str, object]]
"""The service's name of a field to its `predicted` and `observed` value."""

MISSING: Final = object()
"""Stands for a value that is not in an answer."""

TOKEN: Final = "token"  # noqa: S105 - the name of a field
GARLAND: Final = "garland"
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
    "target": ("target", "exactTarget"),
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

MAX_DEPTH: Final = 100
"""Levels of lists and objects in an answer; it is to be shown and written down, too."""

MAX_KEY: Final = 100
"""Characters of the longest name that a field is looked for under."""
MAX_REASON: Final = 200
"""Characters that are kept of why the service refuses an action."""

LOCATABLE: Final = tuple(SPELLINGS)
"""The fields whose path a user can name."""

_CLOSED: Final = frozenset({"spec", "legalactions"})
"""Subtrees that say what could be, not what is; nothing is looked for in them."""


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
        "target": list(state.target),
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


def parse_json(body: bytes) -> object:
    """Parse an answer's body as JSON in UTF-8, with or without a byte order mark.

    Raises:
        BrokenAnswer: the body is no JSON, or is nested more than `MAX_DEPTH` deep.
    """
    try:
        value = _DECODER.decode(body.decode().removeprefix("\ufeff"))
    except RecursionError:
        raise BrokenAnswer(_TOO_DEEP) from None
    except ValueError as exc:
        raise BrokenAnswer(f"the answer is no JSON ({exc})") from exc
    if body.count(b"{") + body.count(b"[") > MAX_DEPTH and _is_deep(value):
        raise BrokenAnswer(_TOO_DEEP)
    return value


_TOO_DEEP: Final = "the answer is JSON nested too deeply to read"


def _is_deep(value: object) -> bool:
    """Tell whether lists and objects are nested more than `MAX_DEPTH` deep."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for outer in level for inner in _inside(outer)]
    return any(isinstance(inner, dict | list) for inner in level)


def _inside(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def refuse_constant(name: str) -> NoReturn:
    """Refuse `NaN` and the infinities, which Python reads and JSON does not have."""
    raise ValueError(f"{name} is no JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=refuse_constant)


class Refusal(NamedTuple):
    """An `ok: false` answer: no move was made."""

    reason: str
    is_about_token: bool
    """Whether it is the token that is refused: an answer to an action lists the legal ones."""


def refusal(answer: object) -> Refusal | None:
    """Return what a refusing answer says, None for any other."""
    if not isinstance(answer, dict) or answer.get("ok") is not False:
        return None
    reason = answer.get("reason", answer.get("error"))
    text = reason if isinstance(reason, str) else json.dumps(reason)
    lists_actions = any(_plain(key) == "legalactions" for key in answer)
    is_about_token = _ABOUT_TOKEN.search(text) is not None and not is_about_trouble(text)
    return Refusal(text[:MAX_REASON], is_about_token and not lists_actions)


_ABOUT_TOKEN: Final = re.compile(r"token|signature|expired", re.IGNORECASE)


def is_about_trouble(reason: str) -> bool:
    """Tell whether a reason speaks of passing trouble, though it may have `token` in it, too.

    `Unexpected token '<'` is what JavaScript says of a page where it expected JSON.
    """
    return _ABOUT_TROUBLE.search(reason) is not None


_ABOUT_TROUBLE: Final = re.compile(
    r"unexpected (token|end|character)|\bjson\b(?! web)|token bucket|rate.?limit|too many"
    r"|unavailable|overload|try again|time.?out|timed out",
    re.IGNORECASE,
)


class Reading(NamedTuple):
    """What an answer says, held against the prediction."""

    token: str | None
    """The token to carry forward; None where a last answer sends none."""
    differences: Differences
    """Empty where every field is as predicted."""
    layout: Layout
    """The layout to read the next answer with."""


class _Group:
    """Compared fields that stand side by side in one object."""

    def __init__(self, parent: Path, fields: tuple[tuple[str, Path], ...]) -> None:
        """Take the fields of the object at `parent`."""
        self.parent = parent
        self.fields = fields
        self._observe = itemgetter(*(path[-1] for _, path in fields))
        self._expect = itemgetter(*(name for name, _ in fields))

    def is_as_expected(self, holder: Any, expected: Fields) -> bool:
        """Tell quickly whether all fields are to the letter as expected.

        False may also mean that they are so in another writing, `1.0` for 1 say.
        """
        try:
            observed = self._observe(holder)
        except (LookupError, TypeError):
            return False
        return _to_the_letter(observed) == _to_the_letter(self._expect(expected))


def _to_the_letter(value: Any) -> bytes:
    """Write a value so that, unlike with ==, 1 is not 1.0 and not True; faster than a text is."""
    return marshal.dumps(value, 0)


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the service puts each field; settled by the answer to `init`, kept for the run."""

    token: Path
    garlands: tuple[Path, ...]
    """Each place that can be the garland, the likeliest first. A place that stays behind when
    the garland changes is a copy of something else and is dropped then."""
    compared: tuple[tuple[str, Path], ...]
    """Each further field that is held against the prediction, by the page's name."""
    passed_over: Mapping[str, str] = field(default_factory=dict)
    """Dotted path of each field that cannot be compared, and why."""
    _groups: tuple[_Group, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Put the fields of one object together.

        The shallow ones come first: where two places have one name, it is theirs.
        """
        fields = ((GARLAND, self.garlands[0]), *self.compared)
        parents = sorted({path[:-1] for _, path in fields}, key=lambda path: (len(path), path))
        groups = (
            _Group(parent, tuple(item for item in fields if item[1][:-1] == parent))
            for parent in parents
        )
        object.__setattr__(self, "_groups", tuple(groups))

    def read(self, answer: object, predicted: State) -> Reading:
        """Read the answer to an action that should lead to the state `predicted`.

        Raises:
            BrokenAnswer: it is no object, or the token or the garland is not in it.
        """
        if not isinstance(answer, dict):
            raise BrokenAnswer(f"the answer is {_kind(answer)}, not an object")
        is_last = predicted.phase == rules.ENDED
        token = (
            None if is_last and not _is_token(_get(answer, self.token)) else self.token_in(answer)
        )
        layout = self._settle(answer, predicted)
        if _get(answer, layout.garlands[0]) is MISSING:
            raise BrokenAnswer(f"the answer has no garland at {format_path(layout.garlands[0])}")
        return Reading(token, layout.differences(answer, predicted), layout)

    def token_in(self, answer: object) -> str:
        """Return the token of an answer.

        Raises:
            BrokenAnswer: there is none.
        """
        token = _get(answer, self.token)
        if _is_token(token):
            return token
        raise BrokenAnswer(f"the answer has no token at {format_path(self.token)}")

    def _settle(self, answer: object, predicted: State) -> Layout:
        """Drop the candidates that did not change as the garland did, if any did."""
        if len(self.garlands) == 1:
            return self
        expected = list(predicted.garland)
        live = tuple(path for path in self.garlands if is_same(_get(answer, path), expected))
        if not live or live == self.garlands:
            return self
        lineage = _above(live)
        stale = _above(self.garlands) - lineage
        compared = tuple(
            (name, path) for name, path in self.compared if stale.isdisjoint(_above([path]))
        )
        return replace(self, garlands=live, compared=compared)

    def differences(self, answer: object, predicted: State) -> Differences:
        """Return every compared field whose value or type is not the predicted one."""
        expected = expectation(predicted)
        found: Differences = {}
        for group in self._groups:
            if group.is_as_expected(_get(answer, group.parent), expected):
                continue
            for name, path in group.fields:
                observed = _get(answer, path)
                right = expected[name]
                if is_same(observed, right) or (
                    name == LEGAL_ACTIONS and _are_legal(observed, predicted)
                ):
                    continue
                key = path[-1]
                found[key if key not in found else format_path(path)] = {
                    "predicted": right,
                    "observed": "(missing)" if observed is MISSING else observed,
                }
        return found

    def observed(self, answer: object, predicted: State) -> State:
        """Return the state that the service claims, its word before the prediction.

        Raises:
            Contradiction: what it claims is no state of the game at all.
        """
        claims = {name: _get(answer, path) for name, path in reversed(self.compared)}
        claims[GARLAND] = _get(answer, self.garlands[0])
        changes: dict[str, object] = {}
        for name, (attribute, read) in _CLAIMS.items():
            value = claims.get(name, MISSING)
            if value is MISSING:
                continue
            try:
                changes[attribute] = read(value)
            except ValueError as exc:
                raise Contradiction(f"cannot follow the service: {name} is {value!r:.80}") from exc
        state: State = replace(predicted, **changes)  # type: ignore[arg-type]  # read by _CLAIMS
        if state.phase == rules.ENDED or claims.get(GAME_OVER) is True:
            reason = state.end_reason or predicted.end_reason or rules.OUT_OF_LIVES
            return replace(state, phase=rules.ENDED, end_reason=reason)
        return state

    def ignoring(self, settings: WireSettings) -> Layout:
        """Return the layout without what a user has said to ignore, since `init` perhaps."""
        garlands = tuple(path for path in self.garlands if not _is_ignored(path, settings))
        compared = tuple(item for item in self.compared if not _is_ignored(item[1], settings))
        return replace(self, garlands=garlands or self.garlands, compared=compared)

    def to_json(self) -> dict[str, object]:
        """Return where each field was found, as the journal and `check` show it."""
        places: dict[str, object] = {TOKEN: format_path(self.token)}
        for name, path in (*((GARLAND, path) for path in self.garlands), *self.compared):
            shown = format_path(path)
            known = places.get(name)
            places[name] = shown if known is None else [*_as_list(known), shown]
        return {**places, "passed_over": dict(self.passed_over)}


def layout_from_json(value: Mapping[str, object]) -> Layout:
    """Read back what `Layout.to_json` wrote.

    Raises:
        ValueError: it is not of that form.
    """
    places = {
        name: tuple(parse_path(path) for path in _as_list(value[name]))
        for name in LOCATABLE
        if name in value
    }
    passed_over = value.get("passed_over")
    if not places.get(TOKEN) or not places.get(GARLAND) or not isinstance(passed_over, dict):
        raise ValueError("it does not say where the token and the garland were found")
    compared = ((name, path) for name in places for path in places[name])
    return Layout(
        token=places[TOKEN][0],
        garlands=places[GARLAND],
        compared=tuple(item for item in compared if item[0] not in (TOKEN, GARLAND)),
        passed_over=passed_over,
    )


@dataclass(frozen=True, slots=True)
class WireSettings:
    """What a user says of the service's answers."""

    paths: Mapping[str, Path] = field(default_factory=dict)
    """The path of a field, by the page's name of it (one of `LOCATABLE`)."""
    ignore: frozenset[str] = frozenset()
    """Fields to pass over, by the service's name of them or by dotted path."""


def discover(answer: object, settings: WireSettings) -> Layout:
    """Find the parts of a fresh run in the answer to `init`.

    A field that stands beside the garland or above it has to be as expected, or to be in
    another encoding than the rules' (a list of leaves, say), and is then passed over. A
    field elsewhere is compared only where a garland has no nearer one and its value fits.

    Raises:
        BrokenAnswer: it is no object, or there is no token in it.
        Contradiction: there is no garland in it, or it is not the answer of a fresh run.
    """
    if not isinstance(answer, dict):
        raise BrokenAnswer(f"the answer is {_kind(answer)}, not an object")
    entries = list(_walk(answer))
    token = _find_token(answer, entries, settings)
    garlands = _find_garlands(answer, entries, settings)
    lineage = _above(garlands)
    expected = expectation(rules.fresh())
    compared: list[tuple[str, Path]] = []
    elsewhere: list[tuple[str, Path]] = []
    passed_over: dict[str, str] = {}
    named = [(name, path) for name, path in settings.paths.items() if name != TOKEN]
    for name, path in (*named, *_named_fields(entries)):
        if name == GARLAND or (name, path) in compared or _is_ignored(path, settings):
            continue
        if name in settings.paths and path != settings.paths[name]:
            continue
        near = path[:-1] in lineage or name in settings.paths
        observed = _get(answer, path)
        if observed is MISSING:
            raise Contradiction(
                f"the answer to init has nothing at {format_path(path)}, "
                f"where the setting wire.{name} points"
            )
        why = _why_incomparable(name, observed, expected[name], strict=near)
        if why is not None:
            passed_over[format_path(path)] = why
        else:
            (compared if near else elsewhere).append((name, path))
    near_names = [
        {name for name, path in compared if path[:-1] in _above((garland,))} for garland in garlands
    ]
    compared += [item for item in elsewhere if item[0] not in set.intersection(*near_names)]
    if isinstance(answer.get("observation"), str):
        passed_over["observation"] = "a text"
    return Layout(token, garlands, tuple(compared), passed_over)


def find_spec(answer: object) -> object:
    """Return the service's description of the game from the answer to `init`, or None."""
    return next((value for path, value in _walk(answer) if path[-1].lower() == "spec"), None)


def expectation(state: State) -> Fields:
    """Return every field that an answer with `state` may carry, by the page's names."""
    return {
        **public_fields(state),
        GAME_OVER: state.phase == rules.ENDED,
        LEGAL_ACTIONS: legal_actions(state),
    }


def parse_path(text: object) -> Path:
    r"""Read a dotted path such as `state.sunRow`; within a key `\.` is a dot, `\\` a backslash.

    Raises:
        ValueError: it is no text, or a key in it is empty.
    """
    if not isinstance(text, str):
        raise ValueError(f"a path is a text such as state.garland, not {text!r}")  # noqa: TRY004 - a value of the journal
    if not _PATH.fullmatch(text):
        raise ValueError(f"a path is keys with dots between them, such as state.garland: {text!r}")
    return tuple(_ESCAPE.sub(r"\1", key) for key in _KEY.findall(text))


def format_path(path: Path) -> str:
    """Write a path as `parse_path` reads it."""
    return ".".join(_SPECIAL.sub(r"\\\g<0>", key) for key in path)


_KEY: Final = re.compile(r"(?:[^.\\]|\\.)+", re.DOTALL)
_PATH: Final = re.compile(rf"{_KEY.pattern}(?:\.{_KEY.pattern})*", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_SPECIAL: Final = re.compile(r"[.\\]")


def _plain(name: str) -> str:
    """Fold the spellings of a name: `moveBudget`, `move_budget` and `MoveBudget` are one."""
    return name.replace("_", "").replace("-", "").lower()


_BY_SPELLING: Final = {
    _plain(spelling): name for name, spellings in SPELLINGS.items() for spelling in spellings
}


def _above(paths: Iterable[Path]) -> set[Path]:
    """Return the path of every object that one of these places is in."""
    return {path[:depth] for path in paths for depth in range(len(path))}


def _as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _walk(answer: object) -> Iterator[tuple[Path, object]]:
    """Yield every keyed value of an answer with its path, the shallow ones first.

    What stands under an empty key is left out, since no path can be written to it, and so is
    what stands under one of more than `MAX_KEY` characters, since paths are shown and kept.
    """
    queue: list[tuple[Path, object]] = [((), answer)]
    for path, value in queue:
        if path:
            yield path, value
        if isinstance(value, dict) and not (path and _plain(path[-1]) in _CLOSED):
            queue.extend(
                ((*path, key), inner) for key, inner in value.items() if 0 < len(key) <= MAX_KEY
            )


def _get(answer: object, path: Path) -> object:
    """Return the value at `path`, or MISSING."""
    for key in path:
        if isinstance(answer, dict):
            answer = answer.get(key, MISSING)
        elif isinstance(answer, list) and key in map(str, range(len(answer))):
            answer = answer[int(key)]
        else:
            return MISSING
    return answer


def _is_token(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and value != ""


def _find_token(answer: object, entries: list[tuple[Path, object]], settings: WireSettings) -> Path:
    if TOKEN in settings.paths:
        paths = [settings.paths[TOKEN]]
    else:
        spellings = [*map(_plain, SPELLINGS[TOKEN]), "state"]
        named = [path for path, _ in entries if _plain(path[-1]) in spellings]
        paths = sorted(named, key=lambda path: (spellings.index(_plain(path[-1])), len(path)))
    for path in paths:
        if _is_token(_get(answer, path)):
            return path
    raise BrokenAnswer("the answer has no token")


def _find_garlands(
    answer: object, entries: list[tuple[Path, object]], settings: WireSettings
) -> tuple[Path, ...]:
    start = list(rules.fresh().garland)
    named = settings.paths.get(GARLAND)
    if named is not None:
        if is_same(_get(answer, named), start):
            return (named,)
        raise Contradiction(
            f"the answer to init does not have the garland {start} at {format_path(named)}, "
            f"where the setting wire.garland points"
        )
    spellings = [*map(_plain, SPELLINGS[GARLAND])]
    found = [
        path
        for path, value in entries
        if _BY_SPELLING.get(_plain(path[-1])) != "target"
        and not _is_ignored(path, settings)
        and is_same(value, start)
    ]
    if not found:
        raise Contradiction(
            f"no garland {start} in the answer to init; the setting wire.garland names its path"
        )

    def unlikeliness(path: Path) -> int:
        name = _plain(path[-1])
        return spellings.index(name) if name in spellings else len(spellings)

    return tuple(sorted(found, key=unlikeliness))


def _named_fields(entries: list[tuple[Path, object]]) -> Iterator[tuple[str, Path]]:
    """Yield every place whose name is one of the page's, with that name; objects are no field."""
    for path, value in entries:
        name = _BY_SPELLING.get(_plain(path[-1]), TOKEN)
        if name != TOKEN and not isinstance(value, dict):
            yield name, path


def _is_ignored(path: Path, settings: WireSettings) -> bool:
    return path[-1] in settings.ignore or format_path(path) in settings.ignore


def _why_incomparable(name: str, observed: object, expected: object, *, strict: bool) -> str | None:
    """Return None where a field of a fresh run is as expected, else why it is passed over.

    Raises:
        Contradiction: it is in the rules' own encoding, and wrong.
    """
    if name == LEGAL_ACTIONS:
        actions = _actions(observed)
        if actions is None:
            return "not whole actions"
        equal, comparable = _are_legal(observed, rules.fresh()), True
    else:
        equal = is_same(observed, expected)
        comparable = _kind(observed) == _kind(expected) or observed in rules.END_REASONS
    if equal:
        return None
    if strict and (comparable or name == "score"):
        raise Contradiction(
            f"the answer to init has {name} {brief(observed)} where a fresh run has "
            f"{brief(expected)}; the setting wire.ignore lists fields to pass over"
        )
    return f"{_kind(observed)} where {_kind(expected)} was expected" if not comparable else "other"


def _kind(value: object) -> str:
    """Name the kind of a JSON value, as far as comparing goes."""
    if as_integer(value) is not None:
        return "an integer"
    if isinstance(value, list):
        whole = all(as_integer(item) is not None for item in value)
        return "a list of integers" if value and whole else "a list"
    kinds = {bool: "a boolean", str: "a text", dict: "an object", float: "a fraction"}
    return kinds.get(type(value), "null")


def is_same(observed: object, expected: object) -> bool:
    """Tell whether a JSON value is the expected one, in value and type; `1.0` is the integer 1."""
    if isinstance(expected, list | dict):
        return _is_same_structure(observed, expected)
    if type(observed) is float and observed.is_integer():
        observed = int(observed)
    return type(observed) is type(expected) and observed == expected


def _is_same_structure(observed: object, expected: object) -> bool:
    """Tell whether a list or an object is the expected one, all the way down."""
    if isinstance(expected, list) and isinstance(observed, list):
        return len(observed) == len(expected) and all(map(is_same, observed, expected))
    if isinstance(expected, dict) and isinstance(observed, dict):
        return observed.keys() == expected.keys() and all(
            is_same(observed[key], value) for key, value in expected.items()
        )
    return False


def _are_legal(observed: object, state: State) -> bool:
    """Tell whether a list holds the legal actions of `state`, in any order."""
    return _actions(observed) == set(rules.legal_actions(state))


def _actions(value: object) -> set[rules.Action] | None:
    """Return a list of whole actions as a set, None for anything else."""
    if not isinstance(value, list):
        return None
    try:
        return {rules.parse_action(item) for item in value}
    except ActionError:
        return None


def brief(value: object) -> str:
    """Show a value of any size in at most 80 characters."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


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
