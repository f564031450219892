"""Where answers have their fields: what the last one showed, and what a user says of it.

This is the record alone: `places` finds, `reading` makes a new one. In the journal it is `wire`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bot.wire.fields import GARLAND, LOCATABLE, TOKEN
from bot.wire.values import Path, format_path, parse_path


@dataclass(frozen=True, slots=True)
class WireSettings:
    """What a user says of the service's answers."""

    paths: Mapping[str, Path] = field(default_factory=dict)
    """The path of a field, by the page's name of it (one of `LOCATABLE`)."""
    ignore: frozenset[str] = frozenset()
    """Fields to pass over, by the service's name of them or by dotted path."""

    def ignores(self, path: Path) -> bool:
        """Tell whether the field at `path` is to be passed over."""
        return bool(self.ignore) and (path[-1] in self.ignore or format_path(path) in self.ignore)


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the last answer had what it said, and what is known of all that came before it."""

    token: Path = ()
    """Empty before the first answer."""
    garlands: tuple[Path, ...] = ()
    """Each place that held the garland, the one that counts first; empty where none could be
    read."""
    fields: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)
    """The places of each further field that is compared, by the page's name, where they were
    last."""
    passed_over: Mapping[str, str] = field(default_factory=dict)
    """Dotted path of each field that cannot be compared, and why."""

    def to_json(self) -> dict[str, object]:
        """Return where each field was found, as the journal and `check` show it."""
        places = {TOKEN: (self.token,), GARLAND: self.garlands, **self.fields}
        shown = {name: [*map(format_path, paths)] for name, paths in places.items() if paths}
        return {
            **{name: found[0] if len(found) == 1 else found for name, found in shown.items()},
            "passed_over": dict(self.passed_over),
        }

    def has_news_for(self, other: Layout) -> bool:
        """Tell whether `other`, the layout of a later answer, says more than what was left out."""
        return (self.token, self.garlands, self.passed_over) != (
            other.token,
            other.garlands,
            other.passed_over,
        ) or any(
            not set(paths) <= set(self.fields.get(name, ())) for name, paths in other.fields.items()
        )


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
    if not places.get(TOKEN) or not isinstance(passed_over, dict):
        raise ValueError("it does not say where the token was found")
    return Layout(
        token=places.pop(TOKEN)[0],
        garlands=places.pop(GARLAND, ()),
        fields=places,
        passed_over=passed_over,
    )


def _as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]
