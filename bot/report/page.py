"""The HTML of a report: everything put into the templates, which escape whatever is text.

Templates, style and scripts are files beside this module. The page's policy names the digest of
its one style and its one script, and nothing else: no request can leave it, and no script runs
that is not ours, wherever it came from.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from importlib import resources
from typing import Any, Final, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from bot import __version__, rules
from bot.report import charts, headline
from bot.report.boards import Board, Play, Step
from bot.report.draw import draw
from bot.report.incidents import KINDS, RESUMED, Row
from bot.report.story import Story
from bot.report.text import clock_time, count_of, duration, visible, visible_lines
from bot.report.timeline import Sitting
from bot.report.vega import Chart

MAX_SITTINGS: Final = 2000
"""Sittings of which the page's script knows the time of day."""
MAX_BLOCK: Final = 20_000
"""Characters of the service's description that are shown."""
MAX_CAUSES: Final = 100
"""Causes that are counted in the page."""
_PLURALS: Final = {"retry": "retries", "refusal": "refusals", "resumed": "resumed"}


class Card(NamedTuple):
    """One figure of the headline."""

    name: str
    value: str
    more: str
    tone: str = ""


def run_page(story: Story, now: datetime, *, is_running: bool = False) -> str:
    """Return the page of a run.

    Args:
        story: the run.
        now: when the page is made.
        is_running: whether a bot plays the run now.
    """
    standing = headline.standing(story, is_running=is_running)
    started = story.started
    return render(
        "run.html",
        now,
        ("charts.js", "garland.js", "player.js"),
        run_id=visible(story.run_id),
        lead=headline.lead(story, standing),
        notes=headline.notes(story, standing),
        cards=list(_cards(story, standing)),
        charts=[_drawn(chart) for chart in charts.build(story)],
        incident_summary=_incident_summary(story),
        incidents=[_incident(story, number, row) for number, row in story.incidents.rows()],
        causes=_causes(story),
        left_out=_left_out(story),
        facts=list(_facts(story)),
        problems=[(one.line, visible(one.text)) for one in story.problems],
        spec=_block(started.spec) if started and started.spec is not None else "",
        wire=_block(started.wire) if started else "",
        data=for_script(_data(story)),
    )


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("bot.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render(template: str, now: datetime, scripts: Sequence[str], **values: Any) -> str:
    """Return a template, filled; `scripts` are run in the page, in this order."""
    style = _file("report.css")
    script = "\n".join(map(_file, scripts))
    sources = f"script-src {_digest(script)}; " if script else ""
    page = _environment().get_template(template)
    return page.render(
        policy=f"default-src 'none'; {sources}style-src {_digest(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'",
        style=Markup(style),  # noqa: S704 - a file of this package
        script=Markup(script),  # noqa: S704 - likewise
        bot_version=__version__,
        made=clock_time(now),
        **values,
    )


@cache
def _file(name: str) -> str:
    return (resources.files("bot.report") / "static" / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """Return the source expression of an inline text (CSP level 3, 2.3.1)."""
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def for_script(value: object) -> Markup:
    """Return a value as JSON that can stand inside `<script>`, whatever texts are in it."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704 - ASCII without a character that HTML knows


def _drawn(chart: Chart) -> Mapping[str, object]:
    pictures = {
        size: Markup(draw(spec, f"{chart.name}-{size}"))  # noqa: S704 - numbers and our own words
        for size, spec in chart.specs.items()
    }
    return {**chart._asdict(), "pictures": pictures}


def _cards(story: Story, standing: headline.Standing) -> Iterator[Card]:
    goal = story.run.goal
    counts = story.incidents.counts
    sittings = len(story.timeline.sittings)
    yield Card("Points", f"{story.score:,}", f"of {goal.bank_at:,}" if story.started else "")
    yield Card("State", standing.label, _since(story), standing.tone)
    yield Card("Boards", f"{story.cleared:,}", count_of(story.flips, "flip"))
    yield Card("Time played", duration(story.timeline.played), count_of(sittings, "sitting"))
    yield Card("Retries", f"{counts['retry']:,}", f"of {count_of(story.requests, 'request')}")
    verdict, more = headline.verdict(story)
    tone = headline.BAD if not story.is_verified else headline.GOOD if story.lines else ""
    yield Card("Journal", verdict, more, tone)


def _since(story: Story) -> str:
    last = story.timeline.last
    return f"last line {last:%d %b %Y, %H:%M}" if last else ""


def _incident_summary(story: Story) -> str:
    incidents = story.incidents
    if not incidents.total:
        return "Nothing went wrong: no retries, no refusals, no divergences, no stops."
    parts = [
        count_of(incidents.counts[kind], kind, _PLURALS.get(kind, ""))
        for kind in KINDS
        if incidents.counts[kind]
    ]
    rows = "; alike ones that follow closely are one row." if incidents.total > 1 else "."
    left_out = (
        f" {count_of(incidents.left_out, 'row')} in the middle are left out here."
        if incidents.left_out
        else ""
    )
    return ", ".join(parts) + rows + left_out


def _incident(story: Story, number: int, row: Row) -> Mapping[str, object]:
    place = story.boards.listed(row.first.place)
    boards = story.board_list
    return {
        "number": number,
        "first": _clock(row.first.ts),
        "last": _clock(row.last.ts) if row.count > 1 and row.last.ts != row.first.ts else "",
        "kind": row.cause.kind,
        "cause": row.cause.text,
        "detail": row.cause.detail,
        "what": f"of {row.what}" if row.what else "",
        "count": f"{row.count:,}",
        "wait": duration(row.wait_s) if row.wait_s else "",
        "line": f"{row.first.line:,}",
        "board": place[0] if place else None,
        "step": place[1] if place else None,
        "board_name": f"board {boards[place[0]].number:,}" if place else "",
    }


def _clock(ts: str) -> str:
    """Return the time of a line as the page writes times."""
    return f"{ts[:10]} {ts[11:19]}"


def _causes(story: Story) -> list[Mapping[str, object]]:
    causes = story.incidents.causes
    counted = [(kind, text, count) for (kind, text), count in causes.most_common(MAX_CAUSES)]
    return [
        {"kind": kind, "text": text, "count": f"{count:,}"}
        for kind, text, count in counted
        if kind != RESUMED
    ]


def _left_out(story: Story) -> str:
    count = story.boards.left_out
    boards = count_of(count, "board")
    return f"{boards} in the middle of the run are left out here." if count else ""


def _facts(story: Story) -> Iterator[tuple[str, str]]:
    timeline = story.timeline
    yield "Journal", visible(story.path.name)
    if story.started is not None:
        started = story.started
        yield "Service", visible(started.base_url)
        yield "Seed", str(started.seed)
        yield "Bank rule", f"{story.run.goal.rule} {story.run.goal.bank_at:,}"
        yield "Bot", visible(started.bot_version)
    if timeline.first and timeline.last:
        yield "Began", f"{clock_time(timeline.first)} UTC"
        yield "Last line", f"{clock_time(timeline.last)} UTC"
        span = (timeline.last - timeline.first).total_seconds()
        yield "From first to last", duration(max(0.0, span))
    yield "Sittings", f"{len(timeline.sittings):,}"
    yield "Requests", f"{story.requests:,}"
    yield "Leaves left", f"{story.leaves:,}"
    yield "Lines", f"{story.lines:,}"


def _block(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, indent=2)
    return visible_lines(text, MAX_BLOCK)


def _data(story: Story) -> Mapping[str, object]:
    """Return what the player needs: tables, the names of their columns beside them."""
    boards = story.board_list if story.started else []
    marks = [(story.boards.listed(mark.place), mark) for mark in story.incidents.marks]
    return {
        "names": {
            "play": Play._fields,
            "step": Step._fields,
            "board": Board._fields,
            "incident": ("board", "step", "row"),
            "sitting": ("at", "began"),
        },
        "phases": rules.PHASES,
        "plays": list(story.boards.plays) if boards else [],
        "boards": boards,
        "incidents": [(*place, mark.row) for place, mark in marks if place],
        "sittings": [_sitting(sitting) for sitting in story.timeline.sittings[:MAX_SITTINGS]],
    }


def _sitting(sitting: Sitting) -> tuple[float, int]:
    return sitting.at, round(sitting.began.timestamp() * 1000)
