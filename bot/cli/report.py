"""The verb `report`: reads journals, writes one HTML file."""

from __future__ import annotations

import importlib.util
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click

from bot.cli.forms import FileName
from bot.cli.settings import RUNS_DIR, SEED
from bot.cli.sources import CONFIG
from bot.console import streams
from bot.errors import ConfigError, UsageError
from bot.journal.files import put_in_place
from bot.journal.folder import SUFFIXES, find
from bot.replay.summary import summarise_all

PARTS: Final = ("jinja2", "vl_convert")
"""Packages that only the report needs."""


@click.command(params=[RUNS_DIR, CONFIG, SEED])
@click.argument("run", required=False, metavar="RUN")
@click.option("--all", "is_all", is_flag=True, help="One page of all runs in the runs folder.")
@click.option(
    "--output",
    type=FileName(),
    metavar="FILE",
    help="File to write.  [default: RUN_ID.html, or runs.html, in this folder]",
)
def report(
    run: str | None, runs_dir: Path, seed: int | None, *, is_all: bool, output: str | None
) -> int:
    """Write one HTML file that shows a run: charts, incidents, every board.

    RUN is a path, a run id or latest. The file needs no network; its path is printed.
    """
    if is_all == (run is not None):
        raise click.UsageError("name a RUN (a path, a run id or latest), or say --all")
    if is_all and seed is not None:
        raise click.UsageError("--seed goes with latest, not with --all")
    _check_parts()
    from bot.report.page import overview_page, run_page  # noqa: PLC0415 - they need these parts
    from bot.report.story import read_story  # noqa: PLC0415

    now = datetime.now(UTC)
    if run is not None:
        story = read_story(find(runs_dir, run, seed=seed))
        write_page(Path(output or f"{story.run_id}.html"), run_page(story, now))
        return 0
    summaries = summarise_all(runs_dir)
    if not summaries and not runs_dir.exists():
        raise UsageError(f"there is no runs folder {runs_dir}")
    target = Path(output or "runs.html")
    write_page(target, overview_page(runs_dir, summaries, now, _names_in(target.parent)))
    return 0


def _check_parts() -> None:
    """Make sure that the packages of the report are there.

    Raises:
        ConfigError: they are not; says how to get them.
    """
    missing = [name for name in PARTS if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"the report needs {' and '.join(missing)}; in the project's folder, "
            ".venv/bin/pip install -r .ci/requirements/report.txt brings it"
        )


def write_page(output: Path, page: str) -> None:
    """Write a page, whole or not at all, and print its path.

    Raises:
        UsageError: it cannot be written there, or a journal or a device would be overwritten.
    """
    if output.name.endswith(SUFFIXES):
        raise UsageError(f"--output {output}: a journal is never written over; name an .html file")
    try:
        put_in_place(Path(os.path.realpath(output)), page.encode())
    except OSError as exc:
        raise UsageError(f"cannot write the report {output}: {exc.strerror}") from exc
    streams.answer(str(output))


def _names_in(folder: Path) -> frozenset[str]:
    """Return the names of the files in a folder; none where it cannot be read."""
    try:
        return frozenset(path.name for path in folder.iterdir())
    except OSError:
        return frozenset()
