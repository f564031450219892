"""The charts over the whole run: the distribution of answer times, and the templates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from bot import rules
from bot.report.story import Story
from bot.report.text import count_of, duration
from bot.report.timeline import quantile
from bot.report.vega import (
    Chart,
    Size,
    Spec,
    log_axis,
    milliseconds,
    positive,
    sized,
    tips,
    values,
    y_channel,
)
from bot.report.vega import rules as dashed

BARS_A_DECADE: Final = 10
"""Bars of the distribution between 1 ms and 10 ms, say."""
MAX_DECADES: Final = 8


def histogram(ordered: Sequence[float]) -> list[tuple[float, float, int]]:
    """Return bars of equal width on a logarithmic axis: from, to (both in ms), and how many.

    What is shorter than the first of `MAX_DECADES` decades counts in the first bar.
    """
    highest = _bar(ordered[-1])
    lowest = max(_bar(ordered[0]), highest - MAX_DECADES * BARS_A_DECADE)
    counts = [0] * (highest - lowest + 1)
    for elapsed_ms in ordered:
        counts[max(0, _bar(elapsed_ms) - lowest)] += 1
    edges = [10 ** (number / BARS_A_DECADE) for number in range(lowest, highest + 2)]
    return list(zip(edges[:-1], edges[1:], counts, strict=True))


def _bar(elapsed_ms: float) -> int:
    return math.floor(math.log10(positive(elapsed_ms)) * BARS_A_DECADE + 1e-9)


def distribution(story: Story) -> Chart:
    """Return how many answers took how long."""
    ordered = story.timeline.answers_ms()
    bars = histogram(ordered)
    half, slow = quantile(ordered, 0.5), quantile(ordered, 0.99)

    def layers(_: Size) -> list[Spec]:
        x: Spec = {"type": "quantitative", **log_axis(bars[0][0], bars[-1][1])}
        x["axis"]["title"] = "milliseconds"
        rows = [{"b": low, "e": high, "y": count} for low, high, count in bars]
        return [
            {
                "data": values(rows),
                "mark": {"type": "rect", "fill": "var(--blue)"},
                "encoding": {
                    "x": {**x, "field": "b"},
                    "x2": {"field": "e"},
                    "y": y_channel("y", "answers", axis={"tickMinStep": 1, "format": ",d"}),
                    "y2": {"datum": 0},
                },
            },
            *_flag(x, half, "median", -6),
            *_flag(x, slow, "99 of 100", 8),
            tips(x, [(low, high, _bar_tip(low, high, count)) for low, high, count in bars]),
        ]

    return Chart(
        "distribution",
        "Distribution of answer times",
        f"{count_of(len(ordered), 'answer')}, from {milliseconds(ordered[0])} to "
        f"{milliseconds(ordered[-1])}; the axis is logarithmic.",
        sized(layers, 0.7),
        ("answer time", "answers", "of all"),
        [
            (_span(low, high), f"{count:,}", f"{count / len(ordered):.1%}")
            for low, high, count in bars
            if count
        ],
    )


def _flag(x: Spec, at: float, text: str, dy: int) -> list[Spec]:
    """Return a dashed line with its name beside it, on the side where there is room."""
    low, high = x["scale"]["domain"]
    is_left = math.log(positive(at) / low) > 0.5 * math.log(high / low)
    look = {"align": "right" if is_left else "left", "dx": -4 if is_left else 4, "dy": dy}
    return [
        dashed(x, [positive(at)], "ink"),
        {
            "data": values([{"at": positive(at), "text": text}]),
            "mark": {"type": "text", **look},
            "encoding": {
                "x": {**x, "field": "at"},
                "y": {"value": 0},
                "text": {"field": "text"},
            },
        },
    ]


def _span(low: float, high: float) -> str:
    return f"{milliseconds(low)} to {milliseconds(high)}"


def _bar_tip(low: float, high: float, count: int) -> str:
    return f"{_span(low, high)}: {count_of(count, 'answer')}"


def templates(story: Story) -> Chart:
    """Return what each template took and brought."""
    tallies = {index: tally for index, tally in sorted(story.templates.items()) if index}
    total = sum(tally.seconds for tally in tallies.values()) or 1
    unit, unit_s = ("minutes", 60) if total > 600 else ("seconds", 1)
    rows = [
        {
            "name": f"template {index}",
            "time": tally.seconds / unit_s,
            "text": duration(tally.seconds),
            "tip": f"template {index}: {duration(tally.seconds)} on "
            f"{count_of(tally.boards, 'board')} with {count_of(tally.flips, 'flip')}",
        }
        for index, tally in tallies.items()
    ]

    def layers(size: Size) -> list[Spec]:
        room = 1.12 if size.width > 500 else 1.5
        longest = max(tally.seconds for tally in tallies.values()) / unit_s or 1
        encoding: Spec = {
            "x": {
                "field": "time",
                "type": "quantitative",
                "scale": {"domain": [0, longest * room], "nice": False},
                "axis": {"title": f"{unit} played", "format": "~f", "tickCount": size.ticks},
            },
            "y": {"field": "name", "type": "nominal", "axis": {"title": None, "domain": True}},
        }
        return [
            {
                "data": values(rows),
                "mark": {"type": "bar", "fill": "var(--blue)", "aria": True},
                "encoding": {**encoding, "description": {"field": "tip"}},
            },
            {
                "data": values(rows),
                "mark": {"type": "text", "align": "left", "dx": 5},
                "encoding": {**encoding, "text": {"field": "text"}},
            },
        ]

    return Chart(
        "templates",
        "Time and points by template",
        f"{count_of(story.cleared, 'board')} cleared with {count_of(story.flips, 'flip')}.",
        sized(layers, 0.2 + 0.1 * len(tallies)),
        ("template", "par", "boards", "flips", "points", "time", "share of time", "time a board"),
        [
            (
                str(index),
                str(rules.template(index).par),
                f"{tally.boards:,}",
                f"{tally.flips:,}",
                f"{tally.award:,}",
                duration(tally.seconds),
                f"{tally.seconds / total:.1%}",
                duration(tally.seconds / tally.boards) if tally.boards else "none cleared",
            )
            for index, tally in tallies.items()
        ],
    )
