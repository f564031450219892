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
from bot.replay.summary import Summary
from bot.report import charts, headline
from bot.report.boards import Board, Play, Step
from bot.report.incidents import KINDS, RESUMED, Incidents, count_of_kind, visible
from bot.report.story import Story
from bot.words import clock_time, count_of, duration, printable, shorten

MAX_SITTINGS: Final = 2000
"""Sittings of which the page's script knows the time of day."""
MAX_BLOCK: Final = 20_000
"""Characters of the service's description that are shown."""
MAX_CAUSES: Final = 100
"""Causes that are counted in the page."""


class Card(NamedTuple):
    """One figure of the headline."""

    name: str
    value: str
    more: str
    tone: str = ""


def run_page(story: Story, now: datetime) -> str:
    """Return the page of a run; `now` is when it is made."""
    run, started = story.summary, story.run.started
    return render(
        "run.html",
        now,
        ("charts.js", "garland.js", "player.js"),
        run_id=visible(story.run_id),
        lead=headline.lead(run),
        notes=list(headline.notes(story, run)),
        cards=list(_cards(story, run)),
        charts=[
            {**chart._asdict(), "svg": Markup(chart.svg)}  # noqa: S704 - numbers and our own words
            for chart in charts.build(story)
        ],
        templates=list(_templates(story)),
        incident_summary=_incident_summary(story.incidents),
        incidents=list(_incidents(story)),
        causes=_causes(story.incidents),
        left_out=_left_out(story),
        facts=list(_facts(story)),
        problems=[(one.line, visible(one.text)) for one in story.proof.problems],
        spec=_block(started.spec) if started and started.spec is not None else "",
        wire=_block(story.run.wire) if started else "",
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


def _cards(story: Story, run: Summary) -> Iterator[Card]:
    label, tone = headline.label(run)
    taken = story.run
    yield Card("Points", f"{run.score:,}", f"of {taken.goal.bank_at:,}")
    yield Card("State", label, f"last line {_clock(taken.last_ts)}" if taken.last_ts else "", tone)
    yield Card("Boards", f"{run.boards:,}", count_of(taken.flips, "flip"))
    yield Card("Time played", duration(run.seconds), count_of(len(story.sittings), "sitting"))
    yield Card("Retries", f"{run.retries:,}", f"of {count_of(run.requests, 'request')}")
    yield Card("Journal", *headline.verdict(story))


def _templates(story: Story) -> Iterator[tuple[str, ...]]:
    """Yield what each template took and brought."""
    total = story.run.seconds or 1
    for index, tally in sorted(story.templates.items()):
        yield (
            str(index),
            str(rules.template(index).par),
            f"{tally.boards:,}",
            f"{tally.flips:,}",
            f"{tally.award:,}",
            duration(tally.seconds),
            f"{tally.seconds / total:.1%}",
            duration(tally.seconds / tally.boards) if tally.boards else "none cleared",
        )


def _incident_summary(incidents: Incidents) -> str:
    counts = incidents.counts
    if not counts:
        return "Nothing went wrong: no retries, no refusals, no divergences, no stops."
    parts = [count_of_kind(counts[kind], kind) for kind in KINDS if counts[kind]]
    rows = "; alike ones that follow closely are one row." if counts.total() > 1 else "."
    left_out = (
        f" {count_of(incidents.left_out, 'row')} in the middle are left out here."
        if incidents.left_out
        else ""
    )
    return ", ".join(parts) + rows + left_out


def _incidents(story: Story) -> Iterator[Mapping[str, object]]:
    boards = story.boards.boards()
    for number, row in story.incidents.rows():
        place = story.boards.listed(row.first.place)
        first, last = _clock(row.first.ts), _clock(row.last.ts)
        yield {
            "number": number,
            "first": first,
            "last": last if last != first else "",
            "kind": row.told.kind,
            "cause": row.told.text,
            "detail": row.told.detail,
            "what": f"of {row.told.what}" if row.told.what else "",
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


def _causes(incidents: Incidents) -> list[Mapping[str, object]]:
    rows = [row for row in incidents.causes.values() if row.told.kind != RESUMED]
    rows.sort(key=lambda row: -row.count)
    return [
        {"kind": row.told.kind, "text": row.told.text, "count": f"{row.count:,}"}
        for row in rows[:MAX_CAUSES]
    ]


def _left_out(story: Story) -> str:
    count = story.boards.left_out
    boards = count_of(count, "board")
    return f"{boards} in the middle of the run are left out here." if count else ""


def _facts(story: Story) -> Iterator[tuple[str, str]]:
    run = story.run
    yield "Journal", visible(story.proof.path.name)
    if run.started is not None:
        yield "Service", visible(run.started.base_url)
        yield "Seed", str(run.started.seed)
        yield "Bank rule", f"{visible(run.goal.rule)} {run.goal.bank_at:,}"
        yield "Bot", visible(run.started.bot_version)
    if run.last_ts:
        yield "Began", f"{_clock(run.started_ts or run.last_ts)} UTC"
        yield "Last line", f"{_clock(run.last_ts)} UTC"
    yield "Sittings", f"{len(story.sittings):,}"
    yield "Requests", f"{run.requests:,}"
    yield "Leaves left", f"{run.state.leaves:,}"
    yield "Lines", f"{story.lines:,}"


def _block(value: object) -> str:
    """Return a value as text; no more of it is written than is shown."""
    parts = [value] if isinstance(value, str) else json.JSONEncoder(indent=2).iterencode(value)
    text = ""
    for part in parts:
        text += part
        if len(text) > MAX_BLOCK:
            break
    return printable(shorten(text, MAX_BLOCK))


def _data(story: Story) -> Mapping[str, object]:
    """Return what the player needs: tables, the names of their columns beside them."""
    boards = story.boards.boards()
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
        "plays": list(story.boards.plays),
        "boards": boards,
        "incidents": [(*place, mark.row) for place, mark in marks if place],
        "sittings": [
            (sitting.at, round(sitting.began.timestamp() * 1000))
            for sitting in story.sittings[:MAX_SITTINGS]
        ],
    }
