"""The verbs `runs` and `status`: all runs of a folder, room made among them, and one of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import click

from bot.cli.process import AS_JSON
from bot.cli.settings import RUNS_DIR, SEED
from bot.cli.sources import CONFIG
from bot.console import streams
from bot.journal.folder import find
from bot.journal.housekeeping import Chore, carry_out, plan
from bot.replay.summary import Summary, summarise, summarise_all
from bot.words import count_of, duration, one_line, shorten

COLUMNS: Final[Mapping[str, Callable[[Summary], str]]] = {
    "run": lambda run: one_line(run.run_id),
    "state": lambda run: run.state,
    "score": lambda run: f"{run.score:,}",
    "of": lambda run: "-" if run.bank_at is None else f"{run.bank_at:,}",
    "boards": lambda run: f"{run.boards:,}",
    "requests": lambda run: f"{run.requests:,}",
    "retries": lambda run: f"{run.retries:,}",
    "service": lambda run: one_line(run.base_url or "-"),
}
"""What the table has of a run; what counts least comes last."""
TO_THE_LEFT: Final = ("run", "state", "service")
"""Columns of words; the others are of numbers."""


@click.command(params=[RUNS_DIR, CONFIG, AS_JSON])
@click.option(
    "--limit", type=click.IntRange(1), metavar="N", help="The newest N only, the newest first."
)
@click.option("--prune", "is_pruning", is_flag=True, help="Remove old finished runs.")
@click.option(
    "--keep",
    type=click.IntRange(0),
    metavar="N",
    help="With --prune: finished runs to leave as they are, the newest ones.",
)
@click.option("--compress", "is_compressing", is_flag=True, help="With --prune: gzip them instead.")
@click.option("--yes", "is_agreed", is_flag=True, help="With --prune: do it without asking.")
def runs(
    runs_dir: Path,
    *,
    as_json: bool,
    limit: int | None,
    is_pruning: bool,
    keep: int | None,
    is_compressing: bool,
    is_agreed: bool,
) -> int:
    """List all runs, in the order of their starts; with --prune, make room.

    --prune shows what it would do, and does it once you agree: with --yes, or at a terminal.
    An unfinished run is never touched.
    """
    if is_pruning and keep is None:
        raise click.UsageError("--prune needs --keep N, the finished runs to leave as they are")
    if is_pruning and limit is not None:
        raise click.UsageError("--limit does not go with --prune")
    if keep is not None and is_pruning:
        return _prune(runs_dir, keep, is_compressing, is_agreed, as_json=as_json)
    if keep is not None or is_compressing or is_agreed:
        raise click.UsageError("--keep, --compress and --yes go with --prune")
    summaries = summarise_all(runs_dir)
    if limit is not None:
        summaries = summaries[::-1][:limit]
    if as_json:
        streams.answer_json([run.to_json() for run in summaries])
        return 0
    for line in _table(summaries, streams.width()):
        streams.answer(line)
    if not summaries:
        streams.say(f"there is no run in {runs_dir.absolute()}")
    return 0


def _table(runs: list[Summary], columns: int) -> list[str]:
    """Return the lines of the table; columns that a terminal has no room for are left out."""
    lines = [""] * (1 + len(runs))
    for name, cell_of in COLUMNS.items():
        cells = [name, *map(cell_of, runs)]
        width = max(map(len, cells))
        gap = "  " if lines[0] else ""
        if len(lines[0]) + len(gap) + width > columns and lines[0]:
            break
        lines = [
            line + gap + (cell.ljust(width) if name in TO_THE_LEFT else cell.rjust(width))
            for line, cell in zip(lines, cells, strict=True)
        ]
    return [line.rstrip() for line in lines]


def _prune(
    runs_dir: Path, keep: int, is_compressing: bool, is_agreed: bool, *, as_json: bool
) -> int:
    """Show what is to be done with old finished runs; do it where that is agreed to.

    What is agreed to beforehand is done before a word is said: the disk that takes no more
    words may be full of what goes.
    """
    chores, kept = plan(runs_dir, keep, is_compressing=is_compressing)
    what = "compress" if is_compressing else "remove"
    skipped = _carry_out(chores) if is_agreed else set[Path]()
    tell: Any = streams.say if as_json else streams.answer
    for chore in chores:
        tell(one_line(f"{what} {chore.path} ({chore.size:,} bytes)"))
    for path, why in kept.items():
        tell(one_line(f"keep {path}: {why}"))
    if not chores:
        tell(f"nothing to {what} beyond the newest {keep} finished runs")
    elif not is_agreed and _is_confirmed(what, len(chores)):
        is_agreed, skipped = True, _carry_out(chores)
    if as_json:
        result = [
            {
                "journal": str(chore.path),
                "bytes": chore.size,
                "action": "skip" if chore.path in skipped else what,
            }
            for chore in chores
        ]
        streams.answer_json({"done": bool(chores) and is_agreed, "journals": result})
    return 0


def _carry_out(chores: list[Chore]) -> set[Path]:
    """Do what is to be done; return the journals with which it could not be, and say why."""
    skipped = set()
    for chore in chores:
        if (reason := carry_out(chore)) is not None:
            skipped.add(chore.path)
            streams.say(one_line(f"skipped {chore.path}: {reason}"))
    return skipped


def _is_confirmed(what: str, count: int) -> bool:
    """Ask a person, where there is one."""
    if not streams.is_terminal(sys.stdin):
        streams.say(f"nothing was done; add --yes to {what} {count}")
        return False
    return click.confirm(f"{what} {count}?", err=True)


@click.command(params=[RUNS_DIR, CONFIG, SEED, AS_JSON])
@click.argument("run", default="latest", metavar="[RUN]")
def status(run: str, runs_dir: Path, seed: int | None, *, as_json: bool) -> int:
    """Show where a run stands: score, rate, time to go, retries, last success.

    RUN is a path, a run id, or latest, which is the default. A bot may be playing it.
    """
    summary = summarise(find(runs_dir, run, seed=seed))
    if as_json:
        streams.answer_json(summary.to_json())
        return 0
    for name, value in _rows(summary).items():
        streams.answer(one_line(f"{name:12} {value}"))
    return 0


def _rows(run: Summary) -> dict[str, str]:
    score = f"{run.score:,}"
    if run.bank_at:
        score += f" of {run.bank_at:,} ({100 * run.score / run.bank_at:.1f} %)"
    to_go = f"; {duration(run.eta_s)} to go" if run.eta_s else ""
    return {
        "run": f"{run.run_id}, {run.state}",
        "service": "-" if run.base_url is None else f"{run.base_url}, seed {run.seed}",
        "score": score,
        "boards": f"{run.boards:,}",
        "requests": f"{run.requests:,}, {count_of(run.retries, 'retry', 'retries')}",
        "rate": "-" if run.rate is None else f"{run.rate:,.0f} points an hour{to_go}",
        "started": run.started or "-",
        "last success": run.last_success or "-",
        "journal": str(run.journal),
        **({"stopped": shorten(run.stopped)} if run.stopped else {}),
        **({"fault": shorten(run.fault)} if run.fault else {}),
    }
