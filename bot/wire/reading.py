"""Judging an answer: what it says, and what differs from the state that it must hold.

Each answer is searched anew. Its garland is found by its value, which the rules predict, and so
is everything else: by the page's names, near the garland first. Of the answers before it only the
last `Layout` counts: what was compared once has to stay right, wherever it stands now.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from bot import rules
from bot.errors import Unreadable
from bot.rules import State
from bot.wire.fields import (
    GAME_OVER,
    GARLAND,
    PHASE,
    SCORE,
    SPELLINGS,
    VERDICTS,
    Fields,
    expectation,
    field_spelled,
    is_comparable,
    is_expected,
    why_incomparable,
)
from bot.wire.layout import Layout, WireSettings
from bot.wire.places import MAX_TOKEN, Place, TokenPlace, choose_token, collect
from bot.wire.values import (
    MISSING,
    Path,
    fold_name,
    format_path,
    is_above,
    is_same,
    kind_of,
    look_up,
)

MAX_OBSERVED: Final = 500
"""Characters of a wrong value that are shown and written down."""

Differences: TypeAlias = dict[str, dict[str, object]]
"""The service's name of a field to its `predicted` and `observed` value."""


class Wrong(NamedTuple):
    """A field that is not as predicted."""

    name: str
    """The page's."""
    path: Path
    predicted: object
    observed: object


class Reading(NamedTuple):
    """What an answer says, held against the state that it must hold."""

    token: str | None
    """The one to carry forward; None where a last answer sends none."""
    wrongs: tuple[Wrong, ...]
    """Empty where everything is as predicted."""
    layout: Layout
    """Where it was found, for the next answer."""
    right: frozenset[str]
    """The fields that were as predicted, by the page's name."""
    missing: frozenset[str]
    """Fields that were compared before and were not sent this time, by the page's name."""

    @property
    def differences(self) -> Differences:
        """The wrong fields by the service's names; a name with two meanings is a dotted path."""
        places = [(wrong.name, wrong.path) for wrong in self.wrongs]
        places += [(GARLAND, path) for path in self.layout.garlands]
        places += [(name, path) for name, paths in self.layout.fields.items() for path in paths]
        found: Differences = {}
        for name, path, predicted, observed in self.wrongs:
            key = path[-1]
            is_clear = {known for known, place in places if place[-1] == key} == {name}
            label = key if is_clear and key not in found else format_path(path)
            found[label] = {"predicted": predicted, "observed": _bounded(observed)}
        return found


def _bounded(value: object) -> object:
    """Return a wrong value, or the beginning of one that is too long to be written down."""
    text = repr(value)
    return value if len(text) <= MAX_OBSERVED else f"{text[: MAX_OBSERVED - 3]}..."


def observed_in(reading: Reading) -> Iterator[str]:
    """Yield each difference as people read it."""
    for label, pair in reading.differences.items():
        yield f"{label} is {pair['observed']!r:.80}, predicted {pair['predicted']!r:.80}"


def read(
    answer: object,
    after: State,
    before: State | None,
    last: Layout,
    *,
    sent: str,
    settings: WireSettings,
) -> Reading:
    """Read an answer that must hold the state `after`.

    Args:
        answer: parsed JSON.
        after: what the rules predict; a fresh run's for `init`.
        before: the state that the action was sent from; None for `init`.
        last: the layout of the answer before; an empty one for `init`.
        sent: the token that was sent; "" for `init`.
        settings: what the user says of it.

    Raises:
        Unreadable: there is no token in it though there is more to come, or nothing to check
            it by.
    """
    if not isinstance(answer, dict):
        raise Unreadable(f"the answer is {kind_of(answer)}, not an object")
    if before is None:
        _check_settings(answer, after, settings)
    expected = expectation(after)
    found = collect(answer, expected, last, settings)
    token = choose_token(found.tokens, last, sent)
    earlier = _earlier_states(found.fields, expected, before, last)
    garlands = _Garlands(answer, found.garlands, expected[GARLAND], before, last, settings, earlier)
    fields = _Fields(found.fields, garlands, expected, last, settings)
    right_names = {place.name for place in fields.right}
    if garlands.right:
        right_names.add(GARLAND)
    wrongs = (*garlands.wrong, *fields.wrong)
    _check_needs(found.tokens, token, right_names, wrongs, is_last=after.phase == rules.ENDED)
    if isinstance(answer.get("observation"), str):  # the page's name of the state, told in prose
        fields.passed_over["observation"] = "a text"
    return Reading(
        token=token.value if token else None,
        wrongs=wrongs,
        layout=Layout(
            token=token.path if token else last.token,
            garlands=garlands.right or last.garlands,
            fields=fields.places(),
            passed_over={**last.passed_over, **garlands.passed_over, **fields.passed_over},
        ),
        right=frozenset(right_names),
        missing=frozenset(last.fields.keys() - fields.names),
    )


def _check_settings(answer: object, after: State, settings: WireSettings) -> None:
    """Look whether a first answer has something wherever the user says that a field is.

    Raises:
        Unreadable: it has not.
    """
    for name, path in settings.paths.items():
        observed = look_up(answer, path)
        is_there = observed is not MISSING
        if name == GARLAND:
            is_there = is_same(observed, list(after.garland))
        if not is_there:
            what = f"not the garland {list(after.garland)}" if name == GARLAND else "nothing"
            raise Unreadable(
                f"the answer to init has {what} at {format_path(path)}, where the setting "
                f"wire.{name} points",
                has_token=True,
            )


def _check_needs(
    tokens: list[TokenPlace],
    token: TokenPlace | None,
    right_names: set[str],
    wrongs: tuple[Wrong, ...],
    *,
    is_last: bool,
) -> None:
    """Look whether an answer has a token, unless it is the last, and something to check it by.

    Raises:
        Unreadable: it has not.
    """
    if token is None and not is_last and not _claims_the_end(wrongs):
        raise _no_token(tokens, is_readable=bool(right_names))
    needed = VERDICTS if token is None else {GARLAND, SCORE, *(VERDICTS if is_last else ())}
    if not wrongs and not right_names & needed:
        raise Unreadable(
            "the answer has neither the garland nor the score to check it by; the settings "
            "wire.garland and wire.score name their paths",
            has_token=token is not None,
        )


def _no_token(tokens: Iterable[TokenPlace], *, is_readable: bool) -> Unreadable:
    """Return the error that an answer has no token, or none that can be carried forward."""
    if any(len(token.value) > MAX_TOKEN for token in tokens):
        return Unreadable(
            f"the answer has a token of more than {MAX_TOKEN} characters", has_token=True
        )
    hint = "; the setting wire.token names its path" if is_readable else ""
    return Unreadable(f"the answer has no token{hint}")


def is_proof(reading: Reading, before: State | None, after: State) -> bool:
    """Tell whether an answer shows something that the action has changed, and nothing wrong."""
    if reading.wrongs or before is None:
        return not reading.wrongs
    was, now = expectation(before), expectation(after)
    return any(was[name] != now[name] for name in reading.right)


def _claims_the_end(wrongs: Iterable[Wrong]) -> bool:
    """Tell whether an answer says that the run is over, though it is not."""
    return any(
        (name == GAME_OVER and observed is True) or (name == PHASE and observed == rules.ENDED)
        for name, _, _, observed in wrongs
    )


def _earlier_states(
    places: list[Place], expected: Fields, before: State | None, last: Layout
) -> set[Path]:
    """Return the objects that repeat the state before, where what has changed is elsewhere.

    One in which anything was compared before is none: it has to be right.
    """
    if before is None or all(place.is_right for place in places):
        return set()
    was = expectation(before)
    changed = [place for place in places if was[place.name] != expected[place.name]]
    moved = {place.path[:-1] for place in changed if place.is_right}
    stayed = {
        place.path[:-1]
        for place in changed
        if is_expected(place.name, place.value, was[place.name])
    }
    known = {path[:-1] for paths in (last.garlands, *last.fields.values()) for path in paths}
    return stayed - moved - known if moved else set()


# The garland


class _Garlands:
    """The places of the garland in one answer."""

    def __init__(
        self,
        answer: object,
        places: list[Place],
        expected: object,
        before: State | None,
        last: Layout,
        settings: WireSettings,
        earlier: set[Path],
    ) -> None:
        """Tell the right places from the wrong ones, and those from what is something else."""
        self.wrong: list[Wrong] = []
        self.passed_over: dict[str, str] = {}
        self.others = [*earlier]
        """The objects that hold another garland: an earlier state, or an example."""
        places = [place for place in places if place.path[:-1] not in earlier]
        right = [place.path for place in places if place.is_right]
        self.right = tuple(path for path in last.garlands if path in right) or tuple(
            sorted(right, key=_unlikeliness)
        )
        """Each that holds the predicted garland, the likeliest first; of places that held it
        before, only those: a list of numbers may be it by chance."""
        self.anchors = list(self.right)
        """Places that show where the state is, though it be that none can be read."""
        gone = {
            path: value
            for path in last.garlands
            if path not in self.right
            and settings.paths.get(GARLAND, path) == path
            and not settings.ignores(path)
            and (value := look_up(answer, path)) is not MISSING
        }
        for path, value in gone.items():
            self._judge_gone(path, value, expected, before)
        for place in places:
            if not place.is_right and place.path not in gone:
                self._judge_stranger(place, expected, last)

    def _judge_gone(
        self, path: Path, value: object, expected: object, before: State | None
    ) -> None:
        """Judge a place that held the garland before, and holds something else now.

        Under one of the garland's names it has to be right. But a place that shows the state
        before the first move may have been right in the answer to `init` by chance.
        """
        is_named = field_spelled(path[-1]) == GARLAND
        is_copy = before is not None and before.turn == 0 and is_same(value, list(before.garland))
        if self.right and (not is_named or is_copy):
            self.others.append(path[:-1])
        else:
            self.wrong.append(Wrong(GARLAND, path, expected, value))
            self.anchors.append(path)

    def _judge_stranger(self, place: Place, expected: object, last: Layout) -> None:
        """Judge a place under one of the garland's names that holds another value."""
        dotted = format_path(place.path)
        if self.right:
            if isinstance(place.value, list):
                self.others.append(place.path[:-1])
        elif dotted in last.passed_over:
            self.anchors.append(place.path)
        elif last.garlands or kind_of(place.value) == "a list of integers":
            if not self.wrong:
                self.wrong.append(Wrong(GARLAND, place.path, expected, place.value))
            self.anchors.append(place.path)
        else:
            self.anchors.append(place.path)
            self.passed_over[dotted] = (
                f"{kind_of(place.value)} that cannot be read; the run is played by the rules' "
                f"own states and held against the score"
            )


def _unlikeliness(path: Path) -> tuple[int, int]:
    """Sort the names of the garland by their order, all others last; the shallow ones first."""
    name = fold_name(path[-1])
    names = [*map(fold_name, SPELLINGS[GARLAND])]
    return names.index(name) if name in names else len(names), len(path)


# The other fields


class _Fields:
    """The places of all other fields in one answer."""

    def __init__(
        self,
        places: list[Place],
        garlands: _Garlands,
        expected: Fields,
        last: Layout,
        settings: WireSettings,
    ) -> None:
        """Judge each place by where it stands: near the garland, or elsewhere."""
        self.right: list[Place] = []
        self.wrong: list[Wrong] = []
        self.passed_over: dict[str, str] = {}
        self._expected = expected
        self._last = last
        holder = _holder_of_state(places, garlands.anchors)
        near: list[Place] = []
        elsewhere: list[Place] = []
        for place in places:
            is_named = settings.paths.get(place.name) == place.path
            (near if is_named or _is_near(place, holder) else elsewhere).append(place)
        for place in near:
            self._judge(place)
        if elsewhere:
            self._judge_elsewhere(elsewhere, {place.name for place in near}, garlands.others)

    @property
    def names(self) -> set[str]:
        """The fields that were sent, right or wrong."""
        return {place.name for place in self.right} | {wrong.name for wrong in self.wrong}

    def places(self) -> Mapping[str, tuple[Path, ...]]:
        """Return where each field was right; one that was not sent is where it was."""
        found: dict[str, tuple[Path, ...]] = {}
        for name, path, _, _ in self.right:
            found[name] = (*found.get(name, ()), path)
        return {**self._last.fields, **found}

    def _judge(self, place: Place) -> None:
        """Judge a place beside the garland or above it."""
        name, path, observed, is_right = place
        if is_right:
            self.right.append(place)
            return
        expected = self._expected[name]
        dotted = format_path(path)
        if dotted in self._last.passed_over:
            return
        is_known = name in self._last.fields
        if is_known or name == SCORE or is_comparable(name, observed, expected):
            self.wrong.append(Wrong(name, path, expected, observed))
        else:
            self.passed_over[dotted] = why_incomparable(name, observed, expected)

    def _judge_elsewhere(self, places: list[Place], near: set[str], others: list[Path]) -> None:
        """Judge the places that stand neither beside the garland nor above it.

        One counts where none of its name stands nearer. An object that holds another garland is
        of another state; one in which a field is wrong that was not compared there before is
        passed over as well, unless that field has to be somewhere and is nowhere else.
        """
        known: list[Place] = []
        strangers: dict[Path, list[Place]] = {}
        for place in places:
            holder = place.path[:-1]
            if place.name in near or any(is_above(other, place.path) for other in others if other):
                continue
            if place.path in self._last.fields.get(place.name, ()):
                known.append(place)
            else:
                strangers.setdefault(holder, []).append(place)
        for place in known:
            self._judge(place)
        settled = self.names
        doubtful = []
        for strange in strangers.values():
            group = [place for place in strange if place.name not in settled]
            wrongs = sum(not place.is_right for place in group)
            if not wrongs:
                self.right.extend(group)
            elif wrongs == 1:
                doubtful.extend(group)
        names = self.names
        for place in doubtful:
            if place.name in self._last.fields and place.name not in names:
                self._judge(place)


def _holder_of_state(places: list[Place], anchors: list[Path]) -> Path:
    """Return the object that holds the state: where the garland is, else most right fields.

    Of several places with the predicted garland it is the first that has everything beside
    and above it right, else the one with the least wrong.
    """
    if len(anchors) == 1:
        return anchors[0][:-1]
    if anchors:
        return min((path[:-1] for path in anchors), key=partial(_count_wrong, places))
    counts: dict[Path, int] = {}
    for place in places:
        counts[place.path[:-1]] = counts.get(place.path[:-1], 0) + place.is_right
    return max(counts, key=lambda holder: (counts[holder], -len(holder)), default=())


def _count_wrong(places: list[Place], holder: Path) -> int:
    """Count what is wrong in the object at `holder`, or in one above it."""
    return sum(not place.is_right and _is_near(place, holder) for place in places)


def _is_near(place: Place, holder: Path) -> bool:
    """Tell whether a field stands in the object at `holder`, or in one above it."""
    above = place.path[:-1]
    return holder[: len(above)] == above
