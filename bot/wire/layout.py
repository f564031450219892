"""Where the service puts each field, and what an answer says when it is read there."""

from __future__ import annotations

import marshal
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeAlias, TypeGuard

from bot import rules
from bot.errors import BrokenAnswer
from bot.rules import State
from bot.wire.claims import claimed_state
from bot.wire.fields import (
    GAME_OVER,
    GARLAND,
    LEGAL_ACTIONS,
    LOCATABLE,
    TOKEN,
    Fields,
    are_legal,
    expectation,
)
from bot.wire.paths import MISSING, Path, format_path, look_up, objects_above, parse_path
from bot.wire.values import is_same, kind_of

Differences: TypeAlias = dict[str, dict[str, object]]
"""The service's name of a field to its `predicted` and `observed` value."""

UNSENT: Final = "(missing)"
"""What stands for the `observed` value of a field that was not sent."""


@dataclass(frozen=True, slots=True)
class WireSettings:
    """What a user says of the service's answers."""

    paths: Mapping[str, Path] = field(default_factory=dict)
    """The path of a field, by the page's name of it (one of `LOCATABLE`)."""
    ignore: frozenset[str] = frozenset()
    """Fields to pass over, by the service's name of them or by dotted path."""

    def ignores(self, path: Path) -> bool:
        """Tell whether the field at `path` is to be passed over."""
        return path[-1] in self.ignore or format_path(path) in self.ignore


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
            BrokenAnswer: it is no object, or the garland is not in it, or the token is not
                though there is more to come.
        """
        if not isinstance(answer, dict):
            raise BrokenAnswer(f"the answer is {kind_of(answer)}, not an object")
        try:
            token: str | None = self.token_in(answer)
        except BrokenAnswer:
            if not self._is_last(answer, predicted):
                raise
            token = None
        layout = self._settle(answer, predicted)
        if look_up(answer, layout.garlands[0]) is MISSING:
            raise BrokenAnswer(f"the answer has no garland at {format_path(layout.garlands[0])}")
        return Reading(token, layout.differences(answer, predicted), layout)

    def token_in(self, answer: object) -> str:
        """Return the token of an answer.

        Raises:
            BrokenAnswer: there is none.
        """
        token = look_up(answer, self.token)
        if is_token(token):
            return token
        raise BrokenAnswer(f"the answer has no token at {format_path(self.token)}")

    def _is_last(self, answer: object, predicted: State) -> bool:
        """Tell whether the run is over, by the prediction or by the service's word."""
        if predicted.phase == rules.ENDED:
            return True
        claims = self._claims(answer)
        return claims.get(GAME_OVER) is True or claims.get("phase") == rules.ENDED

    def _settle(self, answer: object, predicted: State) -> Layout:
        """Drop the candidates that did not change as the garland did, if any did."""
        if len(self.garlands) == 1:
            return self
        expected = list(predicted.garland)
        live = tuple(path for path in self.garlands if is_same(look_up(answer, path), expected))
        if not live or live == self.garlands:
            return self
        lineage = objects_above(live)
        stale = objects_above(self.garlands) - lineage
        compared = tuple(
            (name, path) for name, path in self.compared if stale.isdisjoint(objects_above([path]))
        )
        return replace(self, garlands=live, compared=compared)

    def differences(self, answer: object, predicted: State) -> Differences:
        """Return every compared field whose value or type is not the predicted one."""
        expected = expectation(predicted)
        found: Differences = {}
        for group in self._groups:
            if group.is_as_expected(look_up(answer, group.parent), expected):
                continue
            for name, path in group.fields:
                observed = look_up(answer, path)
                right = expected[name]
                if is_same(observed, right) or (
                    name == LEGAL_ACTIONS and are_legal(observed, predicted)
                ):
                    continue
                key = path[-1]
                is_clear = key not in found and self.name_of(key) == name
                found[key if is_clear else format_path(path)] = {
                    "predicted": right,
                    "observed": UNSENT if observed is MISSING else observed,
                }
        return found

    @property
    def places(self) -> tuple[tuple[str, Path], ...]:
        """Every place that is read, with the page's name of what is there, but the token's."""
        return (*((GARLAND, path) for path in self.garlands), *self.compared)

    @property
    def first_places(self) -> dict[str, Path]:
        """By the page's name of each field, the place that counts where it has more than one."""
        return {**dict(reversed(self.compared)), GARLAND: self.garlands[0]}

    def name_of(self, label: str) -> str | None:
        """Return the page's name of the field at a dotted path, or else under a key.

        None: there is no such field, or the key is used for more than one.
        """
        at_path = {name for name, path in self.places if format_path(path) == label}
        names = at_path or {name for name, path in self.places if path[-1] == label}
        return names.pop() if len(names) == 1 else None

    def observed(self, answer: object, predicted: State) -> State:
        """Return the state that the service claims, its word before the prediction.

        Raises:
            Contradiction: what it claims is no state of the game at all.
        """
        return claimed_state(self._claims(answer), predicted)

    def _claims(self, answer: object) -> Fields:
        """Return the fields that were sent."""
        claims = {name: look_up(answer, path) for name, path in self.first_places.items()}
        return {name: value for name, value in claims.items() if value is not MISSING}

    def ignoring(self, settings: WireSettings) -> Layout:
        """Return the layout without what a user has said to ignore, since `init` perhaps."""
        garlands = tuple(path for path in self.garlands if not settings.ignores(path))
        compared = tuple(item for item in self.compared if not settings.ignores(item[1]))
        return replace(self, garlands=garlands or self.garlands, compared=compared)

    def to_json(self) -> dict[str, object]:
        """Return where each field was found, as the journal and `check` show it."""
        found: dict[str, object] = {TOKEN: format_path(self.token)}
        for name, path in self.places:
            shown = format_path(path)
            known = found.get(name)
            found[name] = shown if known is None else [*_as_list(known), shown]
        return {**found, "passed_over": dict(self.passed_over)}


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


def is_token(value: object) -> TypeGuard[str]:
    """Tell whether a value can be a token to carry forward."""
    return isinstance(value, str) and value != ""


def _as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]
