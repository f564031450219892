"""What all charts are made of: pieces of Vega-Lite specifications, in two sizes.

Every chart comes in two sizes, since a picture that is only scaled down cannot be read on a
phone, and with its numbers in a table, since a picture says nothing to a screen reader.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, TypeAlias

from bot.report.text import duration

Spec: TypeAlias = dict[str, Any]
Row: TypeAlias = dict[str, Any]


class Size(NamedTuple):
    """How large a picture is, and how much fits in it."""

    name: str
    width: int
    height: int
    bins: int
    ticks: int


SIZES: Final = (Size("wide", 960, 260, 240, 8), Size("narrow", 350, 240, 110, 4))
TABLE_BINS: Final = 20
"""Rows of a table of numbers over time."""
LEAST_MS: Final = 0.01
"""The least time of a logarithmic axis; journals have hundredths."""


class Chart(NamedTuple):
    """A chart, whole but for being drawn."""

    name: str
    title: str
    summary: str
    """What it shows, in one sentence with numbers."""
    specs: dict[str, Spec]
    """By the name of the size."""
    head: tuple[str, ...]
    """The columns of its table."""
    rows: list[tuple[str, ...]]


def sized(make: Callable[[Size], list[Spec]], height: float = 1) -> dict[str, Spec]:
    """Return a specification for each size, of the layers that `make` gives."""
    return {
        size.name: {
            "width": size.width,
            "height": round(size.height * height),
            "layer": make(size),
        }
        for size in SIZES
    }


def values(rows: Iterable[Row]) -> Spec:
    """Return the data of a layer."""
    return {"values": list(rows)}


def y_channel(field: str, title: str, **more: Any) -> Spec:
    """Return a y channel whose title stands above the axis, upright."""
    axis = {"title": title, "titleAngle": 0, "titleAlign": "left", "titleAnchor": "end"}
    axis |= {"titleX": 0, "titleY": -12, "tickCount": 5} | more.pop("axis", {})
    return {"field": field, "type": "quantitative", "axis": axis, **more}


def tips(x: Spec, spans: Iterable[tuple[float, float, str]]) -> Spec:
    """Return a layer to point at: nothing to see, and the words of each stretch of `x`."""
    return {
        "data": values({"b": begin, "e": end, "tip": tip} for begin, end, tip in spans),
        "mark": {"type": "rect", "fill": "transparent", "aria": True},
        "encoding": {
            "x": {**x, "field": "b"},
            "x2": {"field": "e"},
            "y": {"value": 0},
            "y2": {"value": "height"},
            "description": {"field": "tip"},
        },
    }


def rules(x: Spec, places: Iterable[float], colour: str = "quiet") -> Spec:
    """Return a layer of dashed lines."""
    return {
        "data": values({"at": at} for at in places),
        "mark": {"type": "rule", "stroke": f"var(--{colour})", "strokeDash": [3, 3]},
        "encoding": {"x": {**x, "field": "at"}},
    }


def log_axis(lowest: float, highest: float) -> Spec:
    """Return scale and axis of times from `lowest` to `highest`, both in milliseconds."""
    low, high = positive(lowest), max(positive(highest), positive(lowest) * 1.5)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1,) if len(decades) > 4 else (1, 3) if len(decades) > 2 else (1, 2, 5)
    ticks = [step * 10.0**decade for decade in decades for step in steps]
    return {
        "scale": {"type": "log", "domain": [low, high], "nice": False},
        "axis": {"values": [tick for tick in ticks if low <= tick <= high], "format": "~g"},
    }


def positive(elapsed_ms: float) -> float:
    """Return a time that a logarithmic axis can show."""
    return max(LEAST_MS, elapsed_ms)


def milliseconds(elapsed_ms: float) -> str:
    """Write an answer time."""
    if elapsed_ms >= 10_000:
        return duration(elapsed_ms / 1000)
    return f"{elapsed_ms:,.0f} ms" if elapsed_ms >= 100 else f"{elapsed_ms:.3g} ms"
