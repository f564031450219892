"""The runs folder: what journals are called, which one is the newest, or the one that is named.

A finished journal that is dated after tomorrow was made by a wrong clock, or put there: it is
passed by where the newest run is looked for. An unfinished one is resumed.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Final, NamedTuple

from bot.errors import JournalError, NotAJournal, UsageError
from bot.garland import MAX_WHOLE
from bot.journal.events import RunStarted
from bot.journal.reader import (
    Entry,
    LineError,
    is_finished,
    parse_line,
    read_lines,
)

SUFFIXES: Final = (".jsonl", ".jsonl.gz")

LATEST: Final = "latest"

_RUN_ID: Final = re.compile(
    r"(\d{8}T(?:[01]\d|2[0-3])[0-5]\d[0-5]\dZ)-seed(\d{1,16})-[0-9a-f]{4}", re.ASCII
)


class RunId(NamedTuple):
    """The parts of a run's name."""

    started: str
    """UTC, such as `20261130T024107Z`."""
    seed: int


def new_run_id(seed: int, now: datetime, last: Path | None = None) -> str:
    """Return a name for a run of `seed` that starts now.

    It sorts after the journal `last`, though the clock may have been set back since: the
    newest run has to be found by its name.

    Raises:
        JournalError: no name sorts after it; its year is 9999.
    """
    run = parse_run_id(last.name.partition(".")[0]) if last else None
    if run is not None:
        now = max(now, datetime.fromisoformat(run.started) + timedelta(seconds=1))
    run_id = f"{now.astimezone(UTC):%Y%m%dT%H%M%SZ}-seed{seed}-{secrets.token_hex(2)}"
    if parse_run_id(run_id) is None:
        raise JournalError(
            f"no run can be named after {last}: it is dated at the end of all years; nothing was "
            f"sent. Move it out of the folder"
        )
    return run_id


def parse_run_id(text: str) -> RunId | None:
    """Read the name of a run, None where it is not one."""
    match = _RUN_ID.fullmatch(text)
    if match is None:
        return None
    try:
        datetime.fromisoformat(match[1]) + timedelta(seconds=1)  # where the next name may be
    except (ValueError, OverflowError):
        return None
    seed = int(match[2])
    return RunId(match[1], seed) if seed <= MAX_WHOLE else None


def journal_path(runs_dir: Path, run_id: str) -> Path:
    """Return where the journal of a run is written."""
    return runs_dir / f"{run_id}.jsonl"


def journals(runs_dir: Path) -> Iterator[tuple[RunId, Path]]:
    """Yield every journal in the folder, in no order.

    It is known by its name; a gzipped copy beside the journal itself is passed by.
    """
    try:
        paths = list(runs_dir.iterdir())
    except FileNotFoundError:
        return
    except OSError as exc:
        raise JournalError(f"cannot read the runs folder {runs_dir}: {exc.strerror}") from exc
    names = {path.name for path in paths}
    for path in paths:
        is_copy = path.suffix == ".gz" and path.stem in names
        if path.name.endswith(SUFFIXES) and not is_copy and (run := parse_run_id(run_name(path))):
            yield run, path


def run_name(path: Path) -> str:
    """Return the name of a journal's file without its suffix: its run's id, unless renamed."""
    return path.name.removesuffix(".gz").removesuffix(".jsonl")


def first_entry(path: Path) -> Entry | None:
    """Return the first line of a journal, None where it never was whole.

    Raises:
        LineError: the first line is whole, and broken.
        NotAJournal: the file cannot be read.
    """
    for line in read_lines(path):
        return parse_line(line) if line.is_whole else None
    return None


def newest(runs_dir: Path, base_url: str, seed: int, now: datetime | None = None) -> Path | None:
    """Return the journal of the run of this service and seed that started last.

    A file whose first line never was whole holds no run and is passed by. One whose first
    line is broken, or cannot be read, could be of any service, and counts.

    Args:
        runs_dir: the folder.
        base_url: the service.
        seed: of the game.
        now: the time, to tell what is `dated_ahead`, which is passed by; the clock's if None.

    Raises:
        JournalError: the folder cannot be read.
    """
    passed_by = dated_ahead(runs_dir, now)
    candidates = []
    for run, path in journals(runs_dir):
        if run.seed != seed or path in passed_by:
            continue
        try:
            entry = first_entry(path)
        except (LineError, NotAJournal) as exc:
            is_gone = isinstance(exc.__cause__, FileNotFoundError)
            if is_gone and path not in {listed for _, listed in journals(runs_dir)}:
                return newest(runs_dir, base_url, seed, now)  # what took its place counts
            candidates.append((run.started, "", path))
            continue
        if entry is None:
            continue
        event = entry.event
        if isinstance(event, RunStarted) and event.base_url == base_url:
            candidates.append((run.started, entry.ts, path))
    return max(candidates)[-1] if candidates else None


def dated_ahead(runs_dir: Path, now: datetime | None = None) -> list[Path]:
    """Return the finished journals whose names are dated after tomorrow.

    `newest` and `latest` pass them by; whoever plays has to say so.
    """
    tomorrow = f"{(now or datetime.now(UTC)) + timedelta(days=1):%Y%m%d}"
    return [
        path
        for run, path in journals(runs_dir)
        if run.started[: len(tomorrow)] > tomorrow and is_surely_finished(path)
    ]


def is_surely_finished(path: Path) -> bool:
    """Tell whether a journal is one of a finished run; one that cannot be read is not."""
    try:
        return is_finished(path)
    except NotAJournal:
        return False


def find(runs_dir: Path, run: str, *, seed: int | None = None, now: datetime | None = None) -> Path:
    """Return the journal of `run`: a run id, `latest`, a path, or the name of a file in the folder.

    A path that a person names may be a link; what it leads to is returned.

    Raises:
        UsageError: there is none, or a seed goes with another name than `latest`.
        JournalError: the runs folder cannot be read.
    """
    if run == LATEST:
        return latest(runs_dir, seed=seed, now=now)
    if seed is not None:
        raise UsageError(f"--seed says which run is the latest; it does not go with {run[:200]!r}")
    named = Path(run)
    if _is_there(named):
        real = Path(os.path.realpath(named))
        return real if named.is_symlink() and _is_there(real) else named
    if parse_run_id(run):
        inside = [runs_dir / f"{run}{suffix}" for suffix in SUFFIXES]
    else:
        inside = [runs_dir / named] if parse_run_id(run_name(named)) else []
    for path in filter(os.path.lexists, inside):
        return path
    raise UsageError(
        f"there is no journal {run[:200]!r}: neither a file nor a run in {runs_dir}; "
        f"the verb runs lists the runs"
    )


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError, RuntimeError):  # too long, no name, a circle of links
        return False


def latest(runs_dir: Path, *, seed: int | None = None, now: datetime | None = None) -> Path:
    """Return the journal of the run in this folder that started last, of `seed` if it is given.

    Raises:
        UsageError: there is none.
        JournalError: the folder cannot be read.
    """
    passed_by = dated_ahead(runs_dir, now)
    found = sorted(
        (
            (run, path)
            for run, path in journals(runs_dir)
            if seed in (None, run.seed) and path not in passed_by
        ),
        reverse=True,
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


def services(runs_dir: Path) -> set[tuple[str, int]]:
    """Return the service and the seed of every run in the folder."""
    return {(started.base_url, started.seed) for _, _, started in _starts(runs_dir)}


def last_start(runs_dir: Path, base_url: str) -> RunStarted | None:
    """Return the first line of the run that started last on this service, of any seed."""
    found = [start for start in _starts(runs_dir) if start[-1].base_url == base_url]
    return max(found, key=itemgetter(0, 1))[-1] if found else None


def _starts(runs_dir: Path) -> Iterator[tuple[str, str, RunStarted]]:
    """Yield start by its name, time and content of every first line that can be read."""
    for run, path in journals(runs_dir):
        try:
            entry = first_entry(path)
        except (LineError, NotAJournal):
            continue
        if entry and isinstance(entry.event, RunStarted):
            yield run.started, entry.ts, entry.event
