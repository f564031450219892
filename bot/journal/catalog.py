"""Finding the journal of a run that a person names."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Final

from bot.errors import NotAJournal, UsageError
from bot.journal.folder import SUFFIXES, RunId, first_entry, journals, parse_run_id, run_name
from bot.journal.reader import LineError

LATEST: Final = "latest"


def find(runs_dir: Path, run: str, seed: int | None = None) -> Path:
    """Return the journal of `run`: a run id, `latest`, a path, or the name of a file in the folder.

    With a `seed`, `latest` is the latest run of that seed.

    Raises:
        UsageError: there is none, or a seed goes with another name than `latest`.
        JournalError: the runs folder cannot be read.
    """
    if run == LATEST:
        return latest(runs_dir, seed)
    if seed is not None:
        raise UsageError(f"--seed says which run is the latest; it does not go with {run!r}")
    paths = [Path(run)]
    if parse_run_id(run):
        paths = [*(runs_dir / f"{run}{suffix}" for suffix in SUFFIXES), *paths]
    elif parse_run_id(run_name(paths[0])):
        paths.append(runs_dir / run)
    for path in paths:
        if _is_there(path):
            return path
    raise UsageError(
        f"there is no journal {run!r}: neither a file nor a run in {runs_dir}; "
        f"the verb runs lists the runs"
    )


def latest(runs_dir: Path, seed: int | None = None) -> Path:
    """Return the journal of the run in this folder, of this seed if any, that started last.

    Raises:
        UsageError: there is none.
        JournalError: the folder cannot be read.
    """
    found = sorted(
        ((run, path) for run, path in journals(runs_dir) if seed in (None, run.seed)), reverse=True
    )
    for _, same_second in groupby(found, key=_start):
        begun = [(ts, path) for _, path in same_second if (ts := _first_time(path)) is not None]
        if begun:
            return max(begun)[1]
    of_seed = "" if seed is None else f" of seed {seed}"
    raise UsageError(f"there is no run{of_seed} in {runs_dir.absolute()}")


def _start(item: tuple[RunId, Path]) -> str:
    return item[0].started


def _first_time(path: Path) -> str | None:
    """Return the time of a run's first line: None if there is no line, empty if it is broken."""
    try:
        entry = first_entry(path)
    except (LineError, NotAJournal):
        return ""
    return entry.ts if entry else None


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False
