"""The verb `status`: where one run stands."""

from __future__ import annotations

import json
from pathlib import Path

import click

from bot.cli.config import CONFIG
from bot.cli.options import RUNS_DIR, SEED
from bot.console import streams
from bot.journal.folder import find
from bot.replay.summary import Summary, summarise
from bot.words import count_of, duration, one_line, shorten


@click.command(params=[RUNS_DIR, CONFIG, SEED])
@click.argument("run", default="latest", metavar="[RUN]")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
def status(run: str, runs_dir: Path, seed: int | None, *, as_json: bool) -> int:
    """Show where a run stands: score, rate, time to go, retries, last success.

    RUN is a path, a run id, or latest, which is the default. A bot may be playing it.
    """
    summary = summarise(find(runs_dir, run, seed=seed))
    if as_json:
        streams.answer(json.dumps(summary.to_json()))
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
        **({"fault": shorten(run.fault)} if run.fault else {}),
    }
