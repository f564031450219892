"""Finding where the service puts each field, by the answer to `init`.

That answer is known in full from the rules, so its values tell what the service's names do not.
"""

from __future__ import annotations

from collections.abc import Iterator

from bot import rules
from bot.errors import BrokenAnswer, Contradiction
from bot.wire.fields import (
    GARLAND,
    LEGAL_ACTIONS,
    SPELLINGS,
    TOKEN,
    are_legal,
    expectation,
    field_spelled,
    whole_actions,
)
from bot.wire.layout import Layout, WireSettings, is_token
from bot.wire.paths import MISSING, Path, fold_name, format_path, look_up, objects_above, walk
from bot.wire.values import brief, is_same, kind_of


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
        raise BrokenAnswer(f"the answer is {kind_of(answer)}, not an object")
    entries = list(walk(answer))
    token = _find_token(answer, entries, settings)
    garlands = _find_garlands(answer, entries, settings)
    lineage = objects_above(garlands)
    expected = expectation(rules.fresh())
    compared: list[tuple[str, Path]] = []
    elsewhere: list[tuple[str, Path]] = []
    passed_over: dict[str, str] = {}
    for name, path in _places(entries, settings):
        is_near = path[:-1] in lineage or name in settings.paths
        observed = look_up(answer, path)
        if observed is MISSING:
            raise Contradiction(
                f"the answer to init has nothing at {format_path(path)}, "
                f"where the setting wire.{name} points"
            )
        why = _why_incomparable(name, observed, expected[name], strict=is_near)
        if why is not None:
            passed_over[format_path(path)] = why
        else:
            (compared if is_near else elsewhere).append((name, path))
    near_each_garland = set.intersection(
        *(
            {name for name, path in compared if path[:-1] in objects_above([garland])}
            for garland in garlands
        )
    )
    compared += [item for item in elsewhere if item[0] not in near_each_garland]
    if isinstance(answer.get("observation"), str):
        passed_over["observation"] = "a text"
    return Layout(token, garlands, tuple(compared), passed_over)


def _places(
    entries: list[tuple[Path, object]], settings: WireSettings
) -> Iterator[tuple[str, Path]]:
    """Yield each place of a field, with the page's name of it, but for token and garland.

    That is where the settings say, or else every place whose key is one of the page's names.
    """
    for name, path in settings.paths.items():
        if name not in (TOKEN, GARLAND) and not settings.ignores(path):
            yield name, path
    for path, value in entries:
        field = field_spelled(path[-1])
        if field is None or field in (TOKEN, GARLAND, *settings.paths):
            continue
        if not isinstance(value, dict) and not settings.ignores(path):
            yield field, path


def find_spec(answer: object) -> object:
    """Return the service's description of the game from the answer to `init`, or None."""
    return next((value for path, value in walk(answer) if path[-1].lower() == "spec"), None)


def _find_token(answer: object, entries: list[tuple[Path, object]], settings: WireSettings) -> Path:
    if TOKEN in settings.paths:
        paths = [settings.paths[TOKEN]]
    else:
        spellings = [*map(fold_name, SPELLINGS[TOKEN]), "state"]
        named = [path for path, _ in entries if fold_name(path[-1]) in spellings]
        paths = sorted(named, key=lambda path: (spellings.index(fold_name(path[-1])), len(path)))
    for path in paths:
        if is_token(look_up(answer, path)):
            return path
    if TOKEN in settings.paths:
        place = format_path(settings.paths[TOKEN])
        raise BrokenAnswer(
            f"the answer has no token at {place}, where the setting wire.token points"
        )
    is_fresh = any(is_same(value, list(rules.fresh().garland)) for _, value in entries)
    hint = "; the setting wire.token names its path" if is_fresh else ""
    raise BrokenAnswer(f"the answer has no token{hint}")


def _find_garlands(
    answer: object, entries: list[tuple[Path, object]], settings: WireSettings
) -> tuple[Path, ...]:
    start = list(rules.fresh().garland)
    named = settings.paths.get(GARLAND)
    if named is not None:
        if is_same(look_up(answer, named), start):
            return (named,)
        raise Contradiction(
            f"the answer to init does not have the garland {start} at {format_path(named)}, "
            f"where the setting wire.garland points"
        )
    spellings = [*map(fold_name, SPELLINGS[GARLAND])]
    found = [
        path
        for path, value in entries
        if field_spelled(path[-1]) != "target"
        and not settings.ignores(path)
        and is_same(value, start)
    ]
    if not found:
        raise Contradiction(
            f"no garland {start} in the answer to init; the setting wire.garland names its path"
        )

    def unlikeliness(path: Path) -> int:
        name = fold_name(path[-1])
        return spellings.index(name) if name in spellings else len(spellings)

    return tuple(sorted(found, key=unlikeliness))


def _why_incomparable(name: str, observed: object, expected: object, *, strict: bool) -> str | None:
    """Return None where a field of a fresh run is as expected, else why it is passed over.

    Raises:
        Contradiction: it is in the rules' own encoding, and wrong.
    """
    if name == LEGAL_ACTIONS:
        actions = whole_actions(observed)
        if actions is None:
            return "not whole actions"
        equal, comparable = are_legal(observed, rules.fresh()), True
    else:
        equal = is_same(observed, expected)
        comparable = kind_of(observed) == kind_of(expected) or observed in rules.END_REASONS
    if equal:
        return None
    if strict and (comparable or name == "score"):
        raise Contradiction(
            f"the answer to init has {name} {brief(observed)} where a fresh run has "
            f"{brief(expected)}; the setting wire.ignore lists fields to pass over"
        )
    return (
        f"{kind_of(observed)} where {kind_of(expected)} was expected" if not comparable else "other"
    )
