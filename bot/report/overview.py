"""The page of a runs folder: a row and a small line for each run."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

from markupsafe import Markup

from bot.report import headline
from bot.report.draw import draw
from bot.report.page import render
from bot.report.story import Story
from bot.report.text import count_of, duration, visible
from bot.report.vega import Spec, values

POINTS: Final = 60
"""Points of a small line."""
SPARK_SIZE: Final = (160, 36)


class Summary(NamedTuple):
    """One run in the table."""

    run_id: str
    where: str
    """Its service and seed."""
    standing: headline.Standing
    score: int
    bank_at: int | None
    line: list[tuple[float, int]]
    """Seconds played and points then; empty where nothing was played."""
    boards: int
    seconds: float
    retries: int
    verdict: str
    fault: str


def summarize(story: Story, *, is_running: bool) -> Summary:
    """Return what the table needs of a run."""
    started, timeline = story.started, story.timeline
    points = [(b.end, b.score) for b in timeline.bins(POINTS)] if timeline.played > 0 else []
    return Summary(
        run_id=visible(story.run_id),
        where=f"{visible(started.base_url, 80)}, seed {started.seed}" if started else "",
        standing=headline.standing(story, is_running=is_running),
        score=story.score,
        bank_at=story.run.goal.bank_at if started else None,
        line=[(0.0, 0), *points] if points else [],
        boards=story.cleared,
        seconds=timeline.played,
        retries=story.incidents.counts["retry"],
        verdict=headline.verdict(story)[0],
        fault=f"line {story.problems[0].line:,}" if story.problems else "",
    )


def unreadable(run_id: str, reason: str) -> Summary:
    """Return the row of a journal that cannot be read at all."""
    standing = headline.Standing("damaged", "Unreadable", headline.BAD)
    return Summary(
        visible(run_id), "", standing, 0, None, [], 0, 0.0, 0, "Not verified", visible(reason)
    )


def overview_page(folder: Path, runs: Iterable[Summary], now: datetime) -> str:
    """Return the page of the runs in a folder, which are given in the order of the page."""
    rows = [_row(run, number) for number, run in enumerate(runs)]
    return render(
        "overview.html",
        now,
        (),
        folder=visible(str(folder)),
        lead=f"{count_of(len(rows), 'run')}, the newest first."
        if rows
        else "There are no runs in this folder.",
        runs=rows,
    )


def _row(run: Summary, number: int) -> dict[str, object]:
    return {
        "run_id": run.run_id,
        "where": run.where,
        "label": run.standing.label,
        "tone": run.standing.tone,
        "score": f"{run.score:,}",
        "bank_at": "" if run.bank_at is None else f"{run.bank_at:,}",
        "spark": Markup(draw(_spark(run), f"spark-{number}"))  # noqa: S704 - numbers only
        if run.line
        else "",
        "spark_text": f"{run.score:,} points after {duration(run.seconds)}",
        "boards": f"{run.boards:,}",
        "time": duration(run.seconds),
        "retries": f"{run.retries:,}",
        "verdict": run.verdict,
        "fault": run.fault,
    }


def _spark(run: Summary) -> Spec:
    """Return a small line: points over the time played, the height of it the threshold."""
    width, height = SPARK_SIZE
    goal = run.bank_at or 0
    scale = {"domain": [0, max(1, run.score, goal)], "nice": False}
    return {
        "width": width,
        "height": height,
        "data": values({"x": at, "y": score} for at, score in run.line),
        "mark": {"type": "area", "fill": "var(--blue)", "line": {"stroke": "var(--blue)"}}
        | {"fillOpacity": 0.25},
        "encoding": {
            "x": {"field": "x", "type": "quantitative", "axis": None, "scale": {"nice": False}},
            "y": {"field": "y", "type": "quantitative", "axis": None, "scale": scale},
        },
    }
