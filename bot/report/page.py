"""The HTML of a report: the page of a run, and that of a folder of runs.

Everything is put into templates, which escape whatever is text.

Templates, style and scripts are files beside this module. The page's policy names the digest of
its one style and its one script, and nothing else: no request can leave it, and no script runs
that is not ours, wherever it came from.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Final, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from bot import __version__, rules
from bot.journal.events import RunSuspended
from bot.journal.folder import run_name
from bot.journal.reader import parse_time
from bot.replay.summary import ABANDONED, DAMAGED, ENDED, RUNNING, SUSPENDED, Summary
from bot.report import charts
from bot.report.boards import Board, Place, Play, Step
from bot.report.incidents import KINDS, RESUMED, Incidents, Row, count_of_kind
from bot.report.story import Story
from bot.verify import MAX_PROBLEMS
from bot.words import clock_time, count_of, duration, printable, shorten, visible

MAX_SITTINGS: Final = 2000
"""Sittings of which the page's script knows the time of day."""
MAX_BLOCK: Final = 20_000
"""Characters of the service's description that are shown."""
MAX_CAUSES: Final = 100
"""Causes that are counted in the page."""

GOOD: Final = "good"
OPEN: Final = "open"
BAD: Final = "bad"


class Standing(NamedTuple):
    """How a run stands, for people."""

    label: str
    """In two or three words."""
    tone: str
    said: str
    """The one sentence that says how it went."""


BANKED: Final = Standing("Banked", GOOD, "{points} banked, as asked ({goal}), {after}.")
SHORT: Final = Standing(
    "Banked short", BAD, "{points} banked {after}, short of the {goal} that were asked for."
)
OUT: Final = Standing(
    "Out of leaves",
    BAD,
    "The last leaf was spent {after}; {points} of {goal} were earned and are kept.",
)
STANDINGS: Final = {
    ABANDONED: Standing(
        "Abandoned", BAD, "The run was given up {after}; {points} of {goal} were earned."
    ),
    RUNNING: Standing(
        "Playing now",
        OPEN,
        "{points} of {goal} so far, {after}; a bot plays on as this page is made.",
    ),
    SUSPENDED: Standing(
        "Stopped", OPEN, "{points} of {goal} so far, {after}; the next call resumes it."
    ),
    DAMAGED: Standing(
        "Damaged", BAD, "{points} of {goal} {after}, as far as the journal can be read."
    ),
}
"""Of a run that has not ended."""


def run_page(story: Story, now: datetime) -> str:
    """Return the page of a run; `now` is when it is made."""
    run, started = story.summary, story.run.started
    return render(
        "run.html",
        now,
        ("charts.js", "garland.js", "player.js"),
        run_id=visible(story.run_id),
        lead=_lead(run),
        notes=list(_notes(story, run)),
        cards=list(_cards(story, run)),
        charts=list(charts.build(story)),
        templates=list(_templates(story)),
        incident_summary=_incident_summary(story.incidents),
        incidents=list(_incidents(story)),
        causes=_causes(story.incidents),
        left_out=story.boards.left_out,
        facts=list(_facts(story)),
        problems=story.proof.problems,
        spec=_block(started.spec) if started and started.spec is not None else "",
        wire=_block(story.run.wire) if started else "",
        data=_data(story),
    )


def overview_page(
    folder: Path, runs: Sequence[Summary], now: datetime, pages: Collection[str] = ()
) -> str:
    """Return the page of the runs in a folder.

    Args:
        folder: where they are.
        runs: in the order of their starts; the page has the newest first.
        now: when the page is made.
        pages: names of the files beside the page; a run whose own page is there is linked to it.
    """
    return render(
        "overview.html",
        now,
        (),
        folder=folder,
        runs=[(run, standing_of(run), run_name(run.journal)) for run in reversed(runs)],
        pages=pages,
    )


# How a run went


def standing_of(run: Summary) -> Standing:
    """Return how a run stands."""
    if run.state != ENDED:
        return STANDINGS[run.state]
    if run.end_reason != rules.BANKED:
        return OUT
    return BANKED if run.is_as_asked else SHORT


def _lead(run: Summary) -> str:
    """Return the one sentence that says how it went, and how long it has to go."""
    said = standing_of(run).said.format(
        points=count_of(run.score, "point"),
        goal=f"{run.bank_at or 0:,}",
        after=f"after {count_of(run.boards, 'board')} in {duration(run.seconds)} of play",
    )
    to_go = "" if run.eta_s is None else f" At this pace it takes {duration(run.eta_s)} more."
    return said + to_go


def _notes(story: Story, run: Summary) -> Iterator[tuple[str, str]]:
    """Yield what one must know to read the page, the tone of each before it."""
    if story.proof.problems:
        yield BAD, _faults(story)
    if story.proof.torn_bytes:
        written = count_of(story.proof.torn_bytes, "byte")
        yield (
            OPEN,
            (
                f"The last line was never written whole ({written} of it), as a crash or a full "
                "disk leaves it. The page shows what stands before it."
            ),
        )
    if run.state == SUSPENDED:
        yield OPEN, f"This run is not over. {_why_stopped(story)}"
    if run.state == RUNNING:
        yield OPEN, "This run is not over: a bot plays it now."


def _faults(story: Story) -> str:
    problems = story.proof.problems
    is_cut_short = len(problems) >= MAX_PROBLEMS
    return (
        f"The journal is damaged, or contradicts the rules, in "
        f"{count_of(len(problems), 'place')}; the first is line {problems[0].line:,}: "
        f"{visible(problems[0].text)}. "
        + ("No more was read." if is_cut_short else "The page shows what can be read.")
    )


def _why_stopped(story: Story) -> str:
    last = story.last_event
    if story.run.state.phase == rules.ENDED:
        return "Its last move was made, and its last line is missing; the next call writes it."
    if isinstance(last, RunSuspended):
        return f"Its last sitting ended: {visible(last.reason)} (exit {last.exit_code})."
    return "Its last sitting ended without a word, as a kill or a power cut ends one."


def _verdict(story: Story) -> tuple[str, str, str]:
    """Return whether the journal is proven, in a word, more about it, and the tone of that."""
    lines = count_of(story.lines, "line")
    if not story.proof.is_verified:
        faults = count_of(len(story.proof.problems), "fault")
        return "Not verified", f"{faults}, {lines} read", BAD
    word = "Verified" if story.run.is_over else "Verified so far"
    return word, f"{lines} held against the rules", GOOD


def _cards(story: Story, run: Summary) -> Iterator[tuple[str, str, str, str]]:
    """Yield the figures of the headline: a name, the figure, more about it, and its tone."""
    standing, taken = standing_of(run), story.run
    last = f"last line {_clock(taken.last_ts)}" if taken.last_ts else ""
    yield "Points", f"{run.score:,}", f"of {taken.goal.bank_at:,}", ""
    yield "State", standing.label, last, standing.tone
    yield "Boards", f"{run.boards:,}", count_of(taken.flips, "flip"), ""
    yield "Time played", duration(run.seconds), count_of(len(story.sittings), "sitting"), ""
    yield "Retries", f"{run.retries:,}", f"of {count_of(run.requests, 'request')}", ""
    yield "Journal", *_verdict(story)


# The parts of a run's page


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


def _incidents(story: Story) -> Iterator[tuple[Row, Board | None, Place | None]]:
    """Yield the rows of the table, each with the board and place of the first in the player."""
    boards = story.boards.boards()
    for row in story.incidents.rows():
        place = story.boards.listed(row.first.place)
        yield row, boards[place[0]] if place else None, place


def _clock(ts: str) -> str:
    """Return the time of a line as the page writes times."""
    return clock_time(parse_time(ts))


def _causes(incidents: Incidents) -> list[Row]:
    """Return what went wrong, however far apart, the most frequent first."""
    rows = [row for row in incidents.causes.values() if row.told.kind != RESUMED]
    return sorted(rows, key=lambda row: -row.count)[:MAX_CAUSES]


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


# Templates


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("bot.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    environment.filters |= {
        "clock": _clock,
        "count_of": count_of,
        "duration": duration,
        "number": "{:,}".format,
        "visible": visible,
    }
    return environment


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


def _block(value: object) -> str:
    """Return a value as text; no more of it is written than is shown."""
    parts = [value] if isinstance(value, str) else json.JSONEncoder(indent=2).iterencode(value)
    text = ""
    for part in parts:
        text += part
        if len(text) > MAX_BLOCK:
            break
    return printable(shorten(text, MAX_BLOCK))
