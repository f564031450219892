"""The verb `report`: reads journals, writes one HTML file."""

from __future__ import annotations

import importlib.util
import os
import secrets
import stat
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click

from bot.cli.config import CONFIG
from bot.cli.forms import FileName
from bot.cli.options import RUNS_DIR, SEED
from bot.console import streams
from bot.errors import ConfigError, JournalError, UsageError
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
    check_parts()
    from bot.report.page import run_page  # noqa: PLC0415 - it needs the packages of the extra
    from bot.report.story import read_story  # noqa: PLC0415

    if run is None:
        return report_all(runs_dir, Path(output) if output else None)
    path = find(runs_dir, run, seed=seed)
    story = read_story(path)
    page = run_page(story, datetime.now(UTC))
    write_page(Path(output) if output else Path(f"{story.run_id}.html"), page)
    return 0


def report_all(runs_dir: Path, output: Path | None) -> int:
    """Write the page of all runs in a folder, `runs.html` where no `output` is given."""
    from bot.report.page import overview_page  # noqa: PLC0415

    try:
        is_there = stat.S_ISDIR(runs_dir.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        is_there = False
    except OSError as exc:
        raise JournalError(f"cannot read the runs folder {runs_dir}: {exc.strerror}") from exc
    if not is_there:
        raise UsageError(f"there is no runs folder {runs_dir}")
    output = output or Path("runs.html")
    page = overview_page(
        runs_dir, summarise_all(runs_dir), datetime.now(UTC), _names_in(output.parent)
    )
    write_page(output, page)
    return 0


def check_parts() -> None:
    """Make sure that the packages of the report are there.

    Raises:
        ConfigError: they are not; says how to get them.
    """
    missing = [name for name in PARTS if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"the report needs {' and '.join(missing)}; in the project's folder, "
            "pip install '.[report]' brings it"
        )


def write_page(output: Path, page: str) -> None:
    """Write a page, whole or not at all, and print its path.

    Raises:
        UsageError: it cannot be written there, or a journal or a device would be overwritten.
    """
    if output.name.endswith(SUFFIXES):
        raise UsageError(f"--output {output}: a journal is never written over; name an .html file")
    try:
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(output.stat().st_mode):
                raise UsageError(f"--output {output}: it is there, and is no file")
        _write_beside(Path(os.path.realpath(output)), page)
    except OSError as exc:
        raise UsageError(f"cannot write the report {output}: {exc.strerror}") from exc
    streams.answer(str(output))


def _write_beside(target: Path, page: str) -> None:
    """Write a file beside `target`, then put it in its place."""
    beside = target.with_name(f".{secrets.token_hex(8)}.part")
    try:
        beside.write_text(page, encoding="utf-8")
        beside.replace(target)
    except OSError:
        with suppress(OSError):
            beside.unlink()
        raise


def _names_in(folder: Path) -> frozenset[str]:
    """Return the names of the files in a folder; none where it cannot be read."""
    try:
        return frozenset(path.name for path in folder.iterdir())
    except OSError:
        return frozenset()
