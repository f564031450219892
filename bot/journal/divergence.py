"""What a `diverged` line says: whether it can be so, and the state it means where it is followed.

The rules predict an answer; a `diverged` line has, by the service's names, the fields in which
the answer was another one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from bot.errors import Contradiction
from bot.journal.events import FieldsDiverged
from bot.journal.reader import LineError
from bot.rules import State
from bot.wire.fields import expectation
from bot.wire.layout import UNSENT, Layout
from bot.wire.paths import Path


def check(event: FieldsDiverged, layout: Layout, predicted: State) -> Iterator[LineError]:
    """Yield in what a line is wrong whose answer should have led to the state `predicted`."""
    expected = expectation(predicted)
    if not event.fields:
        yield LineError("fields", event.fields, "at least one field")
    for label, pair in event.fields.items():
        field = f"fields.{label}"
        name = layout.name_of(label)
        if name is None:
            yield LineError(field, pair, "a field of the service's answers")
        elif not isinstance(pair, dict) or pair.keys() != {"predicted", "observed"}:
            yield LineError(field, pair, "predicted and observed")
        elif not is_equal(pair["predicted"], expected[name]):
            yield LineError(field, pair["predicted"], repr(expected[name]))
        elif is_equal(pair["observed"], expected[name]):
            yield LineError(field, pair["observed"], "a value that was not predicted")


def followed(event: FieldsDiverged, layout: Layout | None, predicted: State) -> Iterator[State]:
    """Yield each state that the service can have meant, for its word to be followed.

    A field that the service sends in two places is named alike for both, and only the first
    place counts; so a line that names it can mean either.

    Args:
        event: the line.
        layout: where the service puts each field; None where the journal does not tell.
        predicted: the state by the rules.
    """
    if layout is None:
        yield predicted
        return
    expected = expectation(predicted)
    first_places = layout.first_places
    observed = {
        name: pair["observed"]
        for label, pair in reversed(event.fields.items())
        if isinstance(pair, dict)
        and "observed" in pair
        and (name := layout.name_of(label)) in first_places
    }
    in_two_places = {
        name for name in observed if sum(other == name for other, _ in layout.compared) > 1
    }
    for as_predicted in (set(), in_two_places):
        answer: dict[str, object] = {}
        for name, path in first_places.items():
            value = expected[name] if name in as_predicted else observed.get(name, expected[name])
            if value != UNSENT:
                _put(answer, path, value)
        try:
            yield layout.observed(answer, predicted)
        except Contradiction:
            yield predicted


def is_equal(logged: object, right: object) -> bool:
    """Tell whether two JSON values are written alike: `1.0` is not 1, and `true` is not."""
    return json.dumps(logged, sort_keys=True) == json.dumps(right, sort_keys=True)


def _put(answer: dict[str, object], path: Path, value: object) -> None:
    """Put a value into an answer of the service where it would stand."""
    for key in path[:-1]:
        inner = answer.setdefault(key, {})
        if not isinstance(inner, dict):
            return
        answer = inner
    answer[path[-1]] = value
