"""The charts over time: points, requests a second, answer times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from bot.report.axes import TimeAxis
from bot.report.incidents import DIVERGENCE, REFUSAL, RETRY, STOP
from bot.report.story import Story
from bot.report.text import count_of, duration
from bot.report.timeline import Bin, Timeline, quantile
from bot.report.vega import (
    TABLE_BINS,
    Chart,
    Row,
    Size,
    Spec,
    log_axis,
    milliseconds,
    positive,
    rules,
    sized,
    tips,
    values,
    y_channel,
)

FAR: Final = 4
"""A threshold more than this many times the score is not drawn: the score would lie flat."""
FEW: Final = 60
"""Points of a line that are also dots: one alone would not be seen."""
SHARES: Final = {"median": 0.5, "99 of 100": 0.99}
MARKS: Final = {
    RETRY: ("triangle-up", "var(--orange)"),
    REFUSAL: ("diamond", "var(--purple)"),
    DIVERGENCE: ("cross", "var(--red)"),
    STOP: ("square", "var(--ink)"),
}
"""Shape and colour of each kind of incident; the shape alone tells them apart."""


def score(story: Story, axis: TimeAxis) -> Chart:
    """Return the points over time against the threshold, with incidents and breaks."""
    timeline, goal = story.timeline, story.run.goal.bank_at
    highest = story.score if goal > FAR * story.score else max(goal, story.score)

    def layers(size: Size) -> list[Spec]:
        x = axis.encoding(size.ticks)
        bins = list(timeline.bins(size.bins))
        y = y_channel("y", "points", scale={"domain": [0, max(1, highest) * 1.05], "nice": False})
        y["axis"] |= {"format": ",d" if highest < 1e7 else ".2s", "tickMinStep": 1}
        line: list[Row] = [{"at": 0, "y": 0}, *({"at": b.end, "y": b.score} for b in bins)]
        return [
            rules(x, _breaks(story, bins)),
            {
                "data": values(line),
                "mark": {"type": "line", "stroke": "var(--blue)", "strokeWidth": 2.5},
                "encoding": {"x": {**x, "field": "at"}, "y": y},
            },
            *(_threshold(goal, y) if goal <= highest else ()),
            tips(x, [(b.begin, b.end, _score_tip(b, axis)) for b in bins]),
            *_mark_layers(x, y, list(_marks(story, axis, bins)), size.ticks // 2),
        ]

    breaks = len(timeline.sittings) - 1
    return Chart(
        "score",
        "Points over time",
        f"{story.score:,} points in {duration(timeline.played)} of play; "
        f"the threshold is {story.run.goal.bank_at:,}"
        + (" and lies far above the chart" if goal > highest else "")
        + (f"; {count_of(breaks, 'break')} (dashed)" if breaks else "")
        + ".",
        sized(layers),
        ("time", "points", "requests", "without an answer"),
        [
            (axis.span(b.begin, b.end), f"{b.score:,}", f"{b.requests:,}", f"{b.failures:,}")
            for b in timeline.bins(TABLE_BINS)
        ],
    )


def _bins(timeline: Timeline, size: Size) -> list[Bin]:
    """Return bins for what is counted in them; of a short run few, with some requests in each."""
    return list(timeline.bins(min(size.bins, max(8, timeline.requests // 4))))


def _threshold(goal: int, y: Spec) -> list[Spec]:
    data = values([{"y": goal, "text": f"bank at {goal:,}"}])
    text = {"text": {"field": "text"}, "x": {"value": 0}, "y": y}
    return [
        {"data": data, "mark": {"type": "rule", "stroke": "var(--gold)"}, "encoding": {"y": y}},
        {
            "data": data,
            "mark": {"type": "text", "align": "left", "dx": 8, "dy": 12},
            "encoding": text,
        },
    ]


def _score_tip(b: Bin, axis: TimeAxis) -> str:
    return (
        f"{axis.span(b.begin, b.end)}: {count_of(b.score, 'point')}, "
        f"{count_of(b.requests, 'request')}{_failures(b)}"
    )


def _failures(b: Bin) -> str:
    return f", {b.failures:,} without an answer" if b.failures else ""


def _bin_of(at: float, bins: Sequence[Bin]) -> int:
    return int(at / bins[0].end) if bins and bins[0].end else 0


def _breaks(story: Story, bins: Sequence[Bin]) -> list[float]:
    """Return where sittings begin, at most one place for each bin."""
    return list({_bin_of(one.at, bins): one.at for one in story.timeline.sittings[1:]}.values())


def _marks(story: Story, axis: TimeAxis, bins: Sequence[Bin]) -> Iterator[Row]:
    """Yield the incidents, alike ones of one bin as one mark; unlike ones have other ranks."""
    grouped: dict[tuple[str, int], list[float]] = {}
    for mark in story.incidents.marks:
        if mark.kind in MARKS:
            grouped.setdefault((mark.kind, _bin_of(mark.at, bins)), []).append(mark.at)
    ranks: Counter[int] = Counter()
    for (kind, place), times in grouped.items():
        plural = "retries" if kind == RETRY else ""
        yield {
            "at": times[0],
            "y": story.timeline.score_at(times[0]),
            "kind": kind,
            "rank": ranks[place],
            "tip": f"{axis.name(times[0])}: {count_of(len(times), kind, plural)}",
        }
        ranks[place] += 1


def _mark_layers(x: Spec, y: Spec, marks: list[Row], columns: int) -> list[Spec]:
    """Return a layer for each rank: what happened in one bin is stacked, not hidden."""
    kinds = [kind for kind in MARKS if any(mark["kind"] == kind for mark in marks)]
    look = {"field": "kind", "type": "nominal", "legend": {"columns": columns}}
    shapes = {"domain": kinds, "range": [MARKS[kind][0] for kind in kinds]}
    colours = {"domain": kinds, "range": [MARKS[kind][1] for kind in kinds]}
    point = {"type": "point", "filled": True, "size": 90, "opacity": 1, "aria": True}
    return [
        {
            "data": values(mark for mark in marks if mark["rank"] == rank),
            "mark": {**point, "yOffset": -14 * rank},
            "encoding": {
                "x": {**x, "field": "at"},
                "y": y,
                "shape": {**look, "scale": shapes},
                "color": {**look, "scale": colours},
                "description": {"field": "tip"},
            },
        }
        for rank in sorted({mark["rank"] for mark in marks})
    ]


def rate(story: Story, axis: TimeAxis) -> Chart:
    """Return the requests a second, those without an accepted answer apart."""
    timeline = story.timeline

    def layers(size: Size) -> list[Spec]:
        x = axis.encoding(size.ticks)
        bins = [b for b in _bins(timeline, size) if b.end > b.begin]
        rows: list[Row] = [
            {"b": b.begin, "e": b.end, "y": b.rate, "f": b.failures / (b.end - b.begin)}
            for b in bins
        ]
        place = {"x": {**x, "field": "b"}, "x2": {"field": "e"}, "y2": {"datum": 0}}
        return [
            {
                "data": values(row for row in rows if row[field]),
                "mark": {"type": "rect", "fill": colour, "stroke": colour, "strokeWidth": 0.4},
                "encoding": {**place, "y": y_channel(field, "requests a second")},
            }
            for field, colour in (("y", "var(--blue)"), ("f", "var(--orange)"))
        ] + [tips(x, [(b.begin, b.end, _rate_tip(b, axis)) for b in bins])]

    failures = sum(story.incidents.counts[kind] for kind in (RETRY, REFUSAL))
    return Chart(
        "rate",
        "Requests a second",
        f"{timeline.requests / timeline.played:,.1f} requests a second on average, "
        f"{timeline.requests:,} in all"
        + (f"; {failures:,} without an accepted answer, in orange" if failures else "")
        + ".",
        sized(layers, 0.7),
        ("time", "requests a second", "without an answer"),
        [
            (axis.span(b.begin, b.end), f"{b.rate:,.1f}", f"{b.failures:,}")
            for b in timeline.bins(TABLE_BINS)
        ],
    )


def _rate_tip(b: Bin, axis: TimeAxis) -> str:
    return f"{axis.span(b.begin, b.end)}: {b.rate:,.1f} requests a second{_failures(b)}"


def answers(story: Story, axis: TimeAxis) -> Chart:
    """Return the median and the 99th percentile of the answer times, over time."""
    timeline = story.timeline
    ordered = timeline.answers_ms()

    def layers(size: Size) -> list[Spec]:
        x = axis.encoding(size.ticks)
        bins = _bins(timeline, size)
        answered = [b for b in bins if b.answers_ms]
        dots = len(answered) < FEW and {"size": 20, "filled": True}
        look: Spec = {"field": "what", "type": "nominal", "legend": {"symbolType": "stroke"}}
        colours = {"domain": list(SHARES), "range": ["var(--blue)", "var(--purple)"]}
        dashes = {"domain": list(SHARES), "range": [[1, 0], [5, 2]]}
        return [
            {
                "data": values(_answer_rows(bins)),
                "mark": {"type": "line", "strokeWidth": 2, "point": dots},
                "encoding": {
                    "x": {**x, "field": "at"},
                    "y": y_channel("y", "milliseconds", **log_axis(ordered[0], ordered[-1])),
                    "color": {**look, "scale": colours},
                    "strokeDash": {**look, "scale": dashes},
                },
            },
            tips(x, [(b.begin, b.end, _answer_tip(b, axis)) for b in answered]),
        ]

    return Chart(
        "answers",
        "Answer times over time",
        f"Half of all answers came within {milliseconds(quantile(ordered, 0.5))}, "
        f"99 of 100 within {milliseconds(quantile(ordered, 0.99))}; "
        f"the slowest took {milliseconds(ordered[-1])}.",
        sized(layers, 0.85),
        ("time", "median", "99 of 100 within", "answers"),
        [
            (
                axis.span(b.begin, b.end),
                *(
                    milliseconds(quantile(b.answers_ms, share)) if b.answers_ms else "none"
                    for share in SHARES.values()
                ),
                f"{len(b.answers_ms):,}",
            )
            for b in timeline.bins(TABLE_BINS)
        ],
    )


def _answer_rows(bins: Sequence[Bin]) -> Iterator[Row]:
    """Yield the points of both lines; a line is broken where no answer came."""
    for what, share in SHARES.items():
        for b in bins:
            slow = positive(quantile(b.answers_ms, share)) if b.answers_ms else None
            yield {"at": (b.begin + b.end) / 2, "y": slow, "what": what}


def _answer_tip(b: Bin, axis: TimeAxis) -> str:
    median, slow = (milliseconds(quantile(b.answers_ms, share)) for share in SHARES.values())
    return f"{axis.span(b.begin, b.end)}: median {median}, 99 of 100 within {slow}"
