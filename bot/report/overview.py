"""The page of a runs folder: a row for each run."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from pathlib import Path

from bot.journal.folder import run_name
from bot.replay.summary import Summary
from bot.report import headline
from bot.report.incidents import visible
from bot.report.page import render
from bot.words import count_of, duration


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
        folder=visible(str(folder)),
        lead=f"{count_of(len(runs), 'run')}, the newest first."
        if runs
        else "There are no runs in this folder.",
        runs=[_row(run, pages) for run in reversed(runs)],
    )


def _row(run: Summary, pages: Collection[str]) -> dict[str, str]:
    label, tone = headline.label(run)
    name = run_name(run.journal)
    page = f"{name}.html"
    to_go = "" if run.eta_s is None else f"{duration(run.eta_s)} to go"
    return {
        "run_id": visible(name),
        "page": page if page in pages else "",
        "where": "" if run.base_url is None else f"{visible(run.base_url, 80)}, seed {run.seed}",
        "label": label,
        "tone": tone,
        "fault": visible(run.fault, 200),
        "score": f"{run.score:,}",
        "bank_at": "" if run.bank_at is None else f"{run.bank_at:,}",
        "rate": "" if run.rate is None else f"{run.rate:,.0f}",
        "boards": f"{run.boards:,}",
        "time": duration(run.seconds),
        "to_go": to_go,
        "retries": f"{run.retries:,}",
    }
