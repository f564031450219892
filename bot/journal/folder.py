"""The runs folder: what journals are called, which one is the newest."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

from bot.errors import JournalError, NotAJournal
from bot.journal.events import RunStarted
from bot.journal.files import open_plain as open_plain  # noqa: PLC0414 - who looks here finds it
from bot.journal.reader import Entry, LineError, parse_line, read_lines

SUFFIXES: Final = (".jsonl", ".jsonl.gz")

_RUN_ID: Final = re.compile(r"(\d{8}T\d{6}Z)-seed(\d+)-[0-9a-f]{4}", re.ASCII)


class RunId(NamedTuple):
    """The parts of a run's name."""

    started: str
    """UTC, such as `20261130T024107Z`."""
    seed: int


def new_run_id(seed: int, now: datetime, last: Path | None = None) -> str:
    """Return a name for a run of `seed` that starts now.

    It sorts after the journal `last`, though the clock may have been set back since: the
    newest run has to be found by its name.
    """
    run = parse_run_id(last.name.partition(".")[0]) if last else None
    if run is not None:
        now = max(now, datetime.fromisoformat(run.started) + timedelta(seconds=1))
    return f"{now.astimezone(UTC):%Y%m%dT%H%M%SZ}-seed{seed}-{secrets.token_hex(2)}"


def parse_run_id(text: str) -> RunId | None:
    """Read the name of a run, None where it is not one."""
    match = _RUN_ID.fullmatch(text)
    if match is None:
        return None
    try:
        datetime.fromisoformat(match[1]) + timedelta(seconds=1)  # where the next name may be
    except (ValueError, OverflowError):
        return None
    return RunId(match[1], int(match[2]))


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


def newest(runs_dir: Path, base_url: str, seed: int) -> Path | None:
    """Return the journal of the run of this service and seed that started last.

    A file whose first line never was whole holds no run and is passed by. One whose first
    line is broken, or cannot be read, could be of any service, and counts.
    """
    candidates = []
    for run, path in journals(runs_dir):
        if run.seed != seed:
            continue
        try:
            entry = first_entry(path)
        except (LineError, NotAJournal) as exc:
            is_gone = isinstance(exc.__cause__, FileNotFoundError)
            if is_gone and path not in {listed for _, listed in journals(runs_dir)}:
                return newest(runs_dir, base_url, seed)  # what took its place counts
            candidates.append((run.started, "", path))
            continue
        if entry is None:
            continue
        event = entry.event
        if isinstance(event, RunStarted) and event.base_url == base_url:
            candidates.append((run.started, entry.ts, path))
    return max(candidates)[-1] if candidates else None


def services(runs_dir: Path) -> set[tuple[str, int]]:
    """Return the service and the seed of every run in the folder."""
    return {(started.base_url, started.seed) for _, _, started in _starts(runs_dir)}


def last_start(runs_dir: Path, base_url: str) -> RunStarted | None:
    """Return the first line of the run that started last on this service, of any seed."""
    found = [start for start in _starts(runs_dir) if start[-1].base_url == base_url]
    return max(found)[-1] if found else None


def _starts(runs_dir: Path) -> Iterator[tuple[str, str, RunStarted]]:
    """Yield start by its name, time and content of every first line that can be read."""
    for run, path in journals(runs_dir):
        try:
            entry = first_entry(path)
        except (LineError, NotAJournal):
            continue
        if entry and isinstance(entry.event, RunStarted):
            yield run.started, entry.ts, entry.event
