"""The charts of a run: points, pace and answer times over the time played.

Each is one Vega-Lite specification, made one SVG that scales, and comes with its numbers in a
table, since a picture says nothing to a screen reader. Nothing that a service sent is in a
chart: its words are numbers, times and names of ours.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import vl_convert
from markupsafe import Markup

from bot.replay.summary import quantile
from bot.report.incidents import DIVERGENCE, REFUSAL, RETRY, STOP, Mark, count_of_kind
from bot.report.story import Bin, Story
from bot.words import clock_time, count_of, duration

WIDTH: Final = 640
HEIGHT: Final = 160
"""Of every plot, without axes and legend, in units of its picture, which is scaled as a whole."""
BINS: Final = 160
"""Stretches of time that a chart tells apart."""
TABLE_BINS: Final = 20
"""Rows of a table of numbers over time."""
FAR: Final = 4
"""A threshold more than this many times the score is not drawn: the score would lie flat."""
FEW: Final = 60
"""Points of a line that are also dots: one alone would not be seen."""
SHORT_S: Final = 120.0
"""A run shorter than this reads best in seconds from its start."""
LEAST_MS: Final = 0.01
"""The least time of a logarithmic axis; journals have hundredths."""
SHARES: Final = {"median": 0.5, "99 of 100": 0.99}
MARKS: Final = {
    RETRY: ("triangle-up", "var(--orange)"),
    REFUSAL: ("diamond", "var(--purple)"),
    DIVERGENCE: ("cross", "var(--red)"),
    STOP: ("square", "var(--ink)"),
}
"""Shape and colour of each kind of incident; the shape alone tells them apart."""
UNITS: Final = (("seconds", 1, 300), ("minutes", 60, 5 * 3600), ("hours", 3600, 72 * 3600))
"""Each with its length in seconds, and the longest run that is told in it; above: days."""

Spec: TypeAlias = dict[str, Any]


class Chart(NamedTuple):
    """A chart and its words."""

    name: str
    title: str
    summary: str
    """What it shows, in one sentence with numbers."""
    svg: Markup
    head: tuple[str, ...]
    """The columns of its table."""
    rows: Sequence[tuple[str, ...]]


def build(story: Story) -> Iterator[Chart]:
    """Yield the charts of a run; one in which no time passed has none."""
    if story.run.seconds <= 0:
        return
    x = _x(story)
    yield _points(story, x)
    yield _pace(story, x)
    if answers := story.answers_ms():
        yield _answers(story, x, answers)


# The three charts


def _points(story: Story, x: TimeAxis) -> Chart:
    """Draw the points over time against the threshold, with incidents and breaks."""
    run, bins = story.run, list(story.bins(BINS))
    goal, breaks = run.goal.bank_at, len(story.sittings) - 1
    highest = run.score if goal > FAR * run.score else max(goal, run.score)
    y = _y("y", "points", scale={"domain": [0, max(1, highest) * 1.05], "nice": False})
    y["axis"] |= {"format": ",d" if highest < 1e7 else ".2s", "tickMinStep": 1}
    layers = [
        _layer(
            ({"x": x.at(one.at)} for one in story.sittings[1 : BINS + 1]),
            {"type": "rule", "stroke": "var(--quiet)", "strokeDash": [3, 3]},
            x=x.channel("x"),
        ),
        _layer(
            ({"x": 0, "y": 0}, *({"x": x.at(b.end), "y": b.score} for b in bins)),
            {"type": "line", "stroke": "var(--blue)", "strokeWidth": 2.5, "clip": True},
            x=x.channel("x"),
            y=y,
        ),
        *(_threshold(goal, y) if goal <= highest else ()),
        _tips(x, bins, _points_tip),
        *_marks(story, x, y),
    ]
    summary = (
        f"{run.score:,} points in {duration(run.seconds)} of play; the threshold is {goal:,}"
        + (" and lies far above the chart" if goal > highest else "")
        + (f"; {count_of(breaks, 'break')} (dashed)" if breaks > 0 else "")
    )
    rows = [
        (x.span(b), f"{b.score:,}", f"{b.requests:,}", f"{b.failures:,}")
        for b in story.bins(TABLE_BINS)
    ]
    head = ("time", "points", "requests", "without an answer")
    return Chart("points", "Points over time", f"{summary}.", draw(layers, "points"), head, rows)


def _points_tip(b: Bin) -> str:
    return f"{count_of(b.score, 'point')}, {count_of(b.requests, 'request')}{_failures(b)}"


def _failures(b: Bin) -> str:
    return f", {b.failures:,} without an answer" if b.failures else ""


def _threshold(goal: int, y: Spec) -> list[Spec]:
    rows = [{"y": goal, "text": f"bank at {goal:,}"}]
    words = {"type": "text", "align": "left", "dx": 8, "dy": 12}
    return [
        _layer(rows, {"type": "rule", "stroke": "var(--gold)"}, y=y),
        _layer(rows, words, text={"field": "text"}, x={"value": 0}, y=y),
    ]


def _marks(story: Story, x: TimeAxis, y: Spec) -> list[Spec]:
    """Draw the incidents at their heights, hollow, so that one shows through another."""
    rows = list(_mark_rows(story, x))
    kinds = [kind for kind in MARKS if any(row["kind"] == kind for row in rows)]
    if not kinds:
        return []
    shapes, colours = zip(*(MARKS[kind] for kind in kinds), strict=True)
    look = {"field": "kind", "type": "nominal"}
    point = {"type": "point", "size": 110, "strokeWidth": 2, "opacity": 1}
    layer = _layer(
        rows,
        {**point, "fill": "transparent", "aria": True, "clip": True},
        x=x.channel("x"),
        y=y,
        shape={**look, "scale": {"domain": kinds, "range": shapes}},
        stroke={**look, "scale": {"domain": kinds, "range": colours}},
        description={"field": "tip"},
    )
    return [layer]


def _mark_rows(story: Story, x: TimeAxis) -> Iterator[Spec]:
    """Yield a row for each mark; those that nothing could tell apart in the picture are one."""
    width = story.run.seconds / BINS
    alike: dict[tuple[str, int], list[Mark]] = {}
    for mark in story.incidents.marks:
        if mark.kind in MARKS:
            alike.setdefault((mark.kind, int(mark.at / width)), []).append(mark)
    for (kind, _), marks in alike.items():
        first = marks[0]
        tip = f"{x.name(first.at)}: {count_of_kind(len(marks), kind)}"
        yield {"x": x.at(first.at), "y": first.score, "kind": kind, "tip": tip}


def _pace(story: Story, x: TimeAxis) -> Chart:
    """Draw the requests a second, those without an accepted answer apart."""
    run, bins = story.run, list(story.bins(BINS))
    rows = [
        {
            "b": x.at(b.begin),
            "e": x.at(b.end),
            "all": b.rate,
            "failed": b.rate * b.failures / b.requests,
        }
        for b in bins
        if b.requests
    ]
    ends = {"x": x.channel("b"), "x2": {"field": "e"}, "y2": {"datum": 0}}
    layers = [
        _layer(
            (row for row in rows if row[name]),
            {"type": "rect", "fill": colour, "stroke": colour, "strokeWidth": 0.4},
            **ends,
            y=_y(name, "requests a second"),
        )
        for name, colour in (("all", "var(--blue)"), ("failed", "var(--orange)"))
    ]
    tips = _tips(x, bins, lambda b: f"{b.rate:,.1f} requests a second{_failures(b)}")
    failed = run.retries + run.refusals
    summary = (
        f"{run.requests / run.seconds:,.1f} requests a second on average, {run.requests:,} in all"
        + (f"; {failed:,} without an accepted answer, in orange" if failed else "")
    )
    return Chart(
        "pace",
        "Requests a second",
        f"{summary}.",
        draw([*layers, tips], "pace"),
        ("time", "requests a second", "without an answer"),
        [(x.span(b), f"{b.rate:,.1f}", f"{b.failures:,}") for b in story.bins(TABLE_BINS)],
    )


def _answers(story: Story, x: TimeAxis, answers: Counter[float]) -> Chart:
    """Draw the median and the 99th percentile of the answer times, over time."""
    bins = list(story.bins(BINS))
    answered = [b for b in bins if b.answers_ms]
    rows = [  # null breaks the line where no answer came
        {"x": x.at((b.begin + b.end) / 2), "y": _positive(slow) if b.answers_ms else None, "of": of}
        for of, share in SHARES.items()
        for b in bins
        for slow in (quantile(b.answers_ms, share),)
    ]
    look: Spec = {"field": "of", "type": "nominal", "legend": {"symbolType": "stroke"}}
    dots = len(answered) < FEW and {"size": 20, "filled": True}
    line = _layer(
        rows,
        {"type": "line", "strokeWidth": 2, "point": dots},
        x=x.channel("x"),
        y=_y("y", "milliseconds", **log_axis(min(answers), max(answers))),
        color={**look, "scale": {"domain": [*SHARES], "range": ["var(--blue)", "var(--purple)"]}},
        strokeDash={**look, "scale": {"domain": [*SHARES], "range": [[1, 0], [5, 2]]}},
    )
    median, slow = (milliseconds(quantile(answers, share)) for share in SHARES.values())
    return Chart(
        "answers",
        "Answer times over time",
        f"Half of all answers came within {median}, 99 of 100 within {slow}; the slowest took "
        f"{milliseconds(max(answers))}.",
        draw([line, _tips(x, answered, _answers_tip)], "answers"),
        ("time", *SHARES, "answers"),
        [(x.span(b), *_cells(b), f"{b.answers_ms.total():,}") for b in story.bins(TABLE_BINS)],
    )


def _answers_tip(b: Bin) -> str:
    return ", ".join(f"{of} {cell}" for of, cell in zip(SHARES, _cells(b), strict=True))


def _cells(b: Bin) -> list[str]:
    return [
        milliseconds(quantile(b.answers_ms, share)) if b.answers_ms else "none"
        for share in SHARES.values()
    ]


# What they are made of


class TimeAxis(NamedTuple):
    """The axis of the time played, and what its moments are called."""

    story: Story
    unit: str
    unit_s: float

    def at(self, seconds: float) -> float:
        """Return where a moment stands on the axis."""
        return seconds / self.unit_s

    def name(self, at: float) -> str:
        """Name the moment `at` seconds played, by the time of day where the run is long."""
        played = self.story.run.seconds
        if played < SHORT_S:
            return f"{at:.3f} s"
        first, last, moment = map(self.story.wall, (0, played, at))
        return clock_time(moment, is_dated=first.date() != last.date())

    def span(self, b: Bin) -> str:
        """Name a stretch of the time played."""
        return f"{self.name(b.begin)} to {self.name(b.end)}"

    def channel(self, field: str) -> Spec:
        """Return the x channel of a layer."""
        end = self.at(self.story.run.seconds)
        return {
            "field": field,
            "type": "quantitative",
            "scale": {"domain": [0, end], "nice": False},
            "axis": {"title": f"{self.unit} played", "tickCount": 8, "labelFlush": True},
        }


def _x(story: Story) -> TimeAxis:
    for unit, unit_s, longest_s in UNITS:
        if story.run.seconds <= longest_s:
            return TimeAxis(story, unit, unit_s)
    return TimeAxis(story, "days", 86400)


def _y(field: str, title: str, **more: Any) -> Spec:
    """Return a y channel whose title stands above the axis, upright."""
    axis = {"title": title, "titleAngle": 0, "titleAlign": "left", "titleAnchor": "end"}
    axis |= {"titleX": 0, "titleY": -12, "tickCount": 5} | more.pop("axis", {})
    return {"field": field, "type": "quantitative", "axis": axis, **more}


def _layer(rows: Iterable[Spec], mark: Spec, **channels: Spec) -> Spec:
    """Return a layer of a picture: what it shows, as what, and where."""
    return {"data": {"values": list(rows)}, "mark": mark, "encoding": channels}


def _tips(x: TimeAxis, bins: Iterable[Bin], tell: Callable[[Bin], str]) -> Spec:
    """Return a layer to point at: nothing to see, and the words of each stretch of time."""
    return _layer(
        ({"b": x.at(b.begin), "e": x.at(b.end), "tip": f"{x.span(b)}: {tell(b)}"} for b in bins),
        {"type": "rect", "fill": "transparent", "aria": True},
        x=x.channel("b"),
        x2={"field": "e"},
        y={"value": 0},
        y2={"value": "height"},
        description={"field": "tip"},
    )


def log_axis(lowest: float, highest: float) -> Spec:
    """Return scale and axis of times from `lowest` to `highest`, both in milliseconds."""
    low, high = _positive(lowest), max(_positive(highest), _positive(lowest) * 1.5)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1,) if len(decades) > 4 else (1, 3) if len(decades) > 2 else (1, 2, 5)
    ticks = [step * 10.0**decade for decade in decades for step in steps]
    return {
        "scale": {"type": "log", "domain": [low, high], "nice": False},
        "axis": {"values": [tick for tick in ticks if low <= tick <= high], "format": "~g"},
    }


def _positive(elapsed_ms: float) -> float:
    return max(LEAST_MS, elapsed_ms)


def milliseconds(elapsed_ms: float) -> str:
    """Write an answer time."""
    if elapsed_ms >= 10_000:
        return duration(elapsed_ms / 1000)
    return f"{elapsed_ms:,.0f} ms" if elapsed_ms >= 100 else f"{elapsed_ms:.3g} ms"


# Pictures

VEGA_LITE: Final = "5.20"
_TEXT: Final = {"labelFontSize": 14, "labelColor": "var(--quiet)"}
_CONFIG: Final[Mapping[str, Any]] = {
    "background": None,
    "font": "system-ui, sans-serif",
    "aria": False,
    "view": {"stroke": None},
    "axis": {
        **_TEXT,
        "titleColor": "var(--quiet)",
        "titleFontSize": 14,
        "titleFontWeight": "normal",
        "gridColor": "var(--line)",
        "domainColor": "var(--line)",
        "tickColor": "var(--line)",
    },
    "axisX": {"grid": False},
    "axisY": {"domain": False, "ticks": False, "labelPadding": 6, "minExtent": 80, "maxExtent": 80},
    "legend": {
        **_TEXT,
        "labelColor": "var(--ink)",
        "symbolSize": 110,
        "orient": "bottom",
        "title": None,
        "columnPadding": 22,
    },
    "text": {"fontSize": 14, "fill": "var(--ink)"},
}
_TIP: Final = re.compile(
    r'aria-label="([^"]*)" role="graphics-symbol" aria-roledescription="[^"]*"'
)
_NEEDLESS: Final = re.compile(r' (?:aria-[a-z]+|role|class|pointer-events|font-family)="[^"]*"')
_ID: Final = re.compile(r'(?:(?<= id=")|(?<=url\(#))clip\d+')
"""Vega numbers them on from picture to picture."""
_HEAD: Final = re.compile(r"<svg [^>]*?(viewBox=\"[^\"]*\")[^>]*>")


def draw(layers: list[Spec], name: str) -> Markup:
    """Return a picture as `<svg>` for a page; `name` is unlike any other's there.

    What vl-convert returns is a file of its own. In a page with others its ids must differ
    from theirs, and a `description` of a mark becomes what the page's script shows where one
    points at it.
    """
    spec = {
        "background": None,
        "autosize": "pad",
        "padding": 4,
        "width": WIDTH,
        "height": HEIGHT,
        "layer": layers,
        "config": _CONFIG,
    }
    svg = vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE, allowed_base_urls=[])
    svg = _NEEDLESS.sub("", _TIP.sub(r'data-tip="\1"', svg))
    ids = list(dict.fromkeys(_ID.findall(svg)))
    svg = _ID.sub(lambda found: f"{name}-{ids.index(found[0])}", svg)
    svg = _HEAD.sub(r'<svg \1 aria-hidden="true" focusable="false">', svg, count=1)
    return Markup(svg)  # noqa: S704 - numbers and our own words, which vl-convert has escaped
