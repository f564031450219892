"""The verb `report`: reads journals, writes one HTML file."""

from __future__ import annotations

import importlib.util
import secrets
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bot.console import streams
from bot.errors import ConfigError, JournalError, NotAJournal, UsageError
from bot.journal.folder import SUFFIXES, find, journals
from bot.journal.lock import is_played

if TYPE_CHECKING:
    from bot.report.overview import Summary
    from bot.report.story import Story

PARTS: Final = ("jinja2", "vl_convert")
"""Packages that only the report needs."""


def report(runs_dir: Path, run: str, output: Path | None) -> int:
    """Write the page of a run; print where it is.

    Args:
        runs_dir: where runs are named from.
        run: a path, a run id or `latest`.
        output: the file to write; the run's id with `.html`, here, where it is None.
    """
    check_parts()
    from bot.report.page import run_page  # noqa: PLC0415 - it needs the packages of the extra
    from bot.report.story import read_story  # noqa: PLC0415

    path = find(runs_dir, run)
    story = read_story(path)
    page = run_page(story, datetime.now(UTC), is_running=_is_running(story))
    write_page(output or Path(f"{story.run_id}.html"), page)
    return 0


def report_all(runs_dir: Path, output: Path | None) -> int:
    """Write the page of all runs in a folder, `runs.html` where no `output` is given."""
    check_parts()
    from bot.report.overview import overview_page  # noqa: PLC0415

    try:
        if not runs_dir.is_dir():
            raise UsageError(f"there is no runs folder {runs_dir}")
    except OSError as exc:
        raise JournalError(f"cannot read the runs folder {runs_dir}: {exc.strerror}") from exc
    page = overview_page(runs_dir, _summaries(runs_dir), datetime.now(UTC))
    write_page(output or Path("runs.html"), page)
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
        target = output.resolve()
        if target.exists() and not target.is_file():
            raise UsageError(f"--output {output}: it is there, and is no file")
        _write_beside(target, page)
    except (OSError, RuntimeError) as exc:  # of links that lead in a circle
        why = getattr(exc, "strerror", None) or exc
        raise UsageError(f"cannot write the report {output}: {why}") from exc
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


def _summaries(runs_dir: Path) -> Iterator[Summary]:
    """Read every run in the folder, the newest first."""
    from bot.report.overview import summarize, unreadable  # noqa: PLC0415
    from bot.report.story import read_story  # noqa: PLC0415

    newest_first = sorted(journals(runs_dir), key=lambda item: item[1].name, reverse=True)
    for _, path in newest_first:
        try:
            story = read_story(path)
            yield summarize(story, is_running=_is_running(story))
        except NotAJournal as exc:
            yield unreadable(path.name, str(exc))


def _is_running(story: Story) -> bool:
    """Tell whether a bot plays the run of this journal now."""
    started = story.started
    if started is None or story.run.is_over:
        return False
    return is_played(story.path)
