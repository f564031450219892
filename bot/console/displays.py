"""What a person sees while it plays: a bar on a terminal, lines in a log, or nothing."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO, cast

from bot.console.figures import Figures
from bot.console.streams import say, takes
from bot.words import duration, one_line

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from bot.client.failures import Failure
    from bot.run import Run

LINE_EVERY_S: Final = 60.0
"""Seconds between two lines when nothing is wrong and there is no terminal."""
REFRESH_EVERY_S: Final = 0.2
"""Seconds between two changes of the progress bar."""


class Display:
    """Is told what happens, and shows nothing of it; the other displays do.

    It is what `player.Watcher` asks for.
    """

    def began(self, run: Run, path: Path) -> None:
        """A sitting begins; its journal is at `path`."""

    def moved(self, run: Run, elapsed_ms: float) -> None:
        """An action was accepted, `elapsed_ms` after it was sent."""

    def failed(self, what: str, failure: Failure, wait_s: float) -> None:
        """A request failed; `wait_s` is 0 where it is sent again at once, or not again."""

    def notice(self, text: str) -> None:
        """Something happened that people should read."""

    def ended(self, run: Run, path: Path) -> None:
        """The sitting is over."""

    def error(self, text: str) -> None:
        """Say why the sitting did not end as asked; even a quiet display does."""
        say(one_line(f"sunpleat-bot: {text}"))

    def close(self) -> None:
        """Nothing more is shown."""


class Several(Display):
    """Several displays that are all told."""

    def __init__(self, *displays: Display) -> None:
        """Tell each of `displays`, in this order."""
        self._displays = displays

    def began(self, run: Run, path: Path) -> None:
        """Tell it."""
        for display in self._displays:
            display.began(run, path)

    def moved(self, run: Run, elapsed_ms: float) -> None:
        """Tell it."""
        for display in self._displays:
            display.moved(run, elapsed_ms)

    def failed(self, what: str, failure: Failure, wait_s: float) -> None:
        """Tell it."""
        for display in self._displays:
            display.failed(what, failure, wait_s)

    def notice(self, text: str) -> None:
        """Tell it."""
        for display in self._displays:
            display.notice(text)

    def ended(self, run: Run, path: Path) -> None:
        """Tell it."""
        for display in self._displays:
            display.ended(run, path)

    def error(self, text: str) -> None:
        """Tell the first, since it is said once."""
        self._displays[0].error(text)

    def close(self) -> None:
        """Tell it."""
        for display in self._displays:
            display.close()


class Lines(Display):
    """Lines with a time, for a log: text or JSON."""

    def __init__(self, *, as_json: bool) -> None:
        """Write each line as JSON where `as_json`, as key=value otherwise."""
        import structlog  # noqa: PLC0415 - a terminal does not need it

        renderer = (
            structlog.processors.JSONRenderer()
            if as_json
            else structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"])
        )
        self._log = structlog.wrap_logger(
            structlog.PrintLogger(_Stderr()),  # type: ignore[arg-type]  # it writes and flushes, no more
            processors=[
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="%Y-%m-%dT%H:%M:%SZ", utc=True),
                renderer,
            ],
            wrapper_class=structlog.make_filtering_bound_logger(0),
        ).bind()
        self._figures = Figures()
        self._next_line_at = time.monotonic() + LINE_EVERY_S

    def began(self, run: Run, path: Path) -> None:
        """Say which run this is and where it stands."""
        self._figures.first_score = run.state.score
        self._log.info(
            "playing",
            journal=str(path),
            score=run.state.score,
            bank_at=run.goal.bank_at,
            bank_rule=run.goal.rule,
        )

    def moved(self, run: Run, elapsed_ms: float) -> None:
        """Say once a minute how far it is."""
        self._figures.add(elapsed_ms)
        if time.monotonic() < self._next_line_at:
            return
        self._next_line_at = time.monotonic() + LINE_EVERY_S
        to_go = self._figures.seconds_to_go(run)
        self._log.info(
            "progress",
            score=run.state.score,
            bank_at=run.goal.bank_at,
            boards=run.boards,
            actions_per_s=round(self._figures.actions / self._figures.seconds, 1),
            eta_s=None if to_go is None else round(to_go),
        )

    def failed(self, what: str, failure: Failure, wait_s: float) -> None:
        """Say what went wrong, and when it is tried again."""
        self._figures.causes[failure.cause] += 1
        self._log.warning("request failed", what=what, cause=failure.cause, wait_s=wait_s)

    def notice(self, text: str) -> None:
        """Say it."""
        self._log.warning(text)

    def ended(self, run: Run, path: Path) -> None:
        """Sum up."""
        figures = self._figures
        self._log.info(
            ("ended" if run.state.end_reason else "abandoned")
            if run.is_over
            else "suspended",
            score=run.state.score,
            end_reason=run.state.end_reason,
            boards=run.boards,
            leaves=run.state.leaves,
            seconds=run.seconds,
            requests=run.requests,
            retries=run.retries,
            causes=dict(figures.causes.most_common(5)),
            median_ms=round(figures.percentile_ms(0.5), 1),
            p99_ms=round(figures.percentile_ms(0.99), 1),
            journal=str(path),
        )

    def error(self, text: str) -> None:
        """Say it."""
        self._log.error(text)


class _Stderr:
    """Stderr for a logger, with nothing in it that moves a terminal."""

    def write(self, text: str) -> None:
        if text.strip("\n"):
            say(text.rstrip("\n"))

    def flush(self) -> None:
        """Do nothing: `say` flushes."""


class _Surviving:
    """A terminal that may go away or be stopped; rich would fail or wait, the game goes on."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> None:
        with suppress(OSError, ValueError):
            if takes(self._stream):
                self._stream.write(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._stream.flush()


class Live(Display):
    """A progress bar on a terminal."""

    def __init__(self) -> None:
        """Begin without a bar; it comes with the run."""
        self._figures = Figures()
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._next_refresh_at = 0.0

    def began(self, run: Run, path: Path) -> None:
        """Show the bar."""
        from rich.console import Console  # noqa: PLC0415 - only a terminal needs it
        from rich.progress import (  # noqa: PLC0415
            BarColumn,
            Progress,
            TaskProgressColumn,
            TextColumn,
        )

        self._figures.first_score = run.state.score
        say(f"journal {path}")
        self._progress = Progress(
            TextColumn("{task.fields[score]} of {task.fields[goal]}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[boards]} boards, {task.fields[pace]}"),
            console=Console(file=cast("TextIO", _Surviving(sys.stderr))),
        )
        self._task = self._progress.add_task(
            "", total=max(1, run.goal.bank_at), **self._fields(run)
        )
        self._progress.start()

    def _fields(self, run: Run) -> dict[str, Any]:
        to_go = self._figures.seconds_to_go(run)
        rate = self._figures.actions / max(self._figures.seconds, 0.001)
        time_to_go = "" if to_go is None else f", {duration(to_go)} to go"
        return {
            "score": f"{run.state.score:,}",
            "goal": f"{run.goal.bank_at:,}",
            "boards": f"{run.boards:,}",
            "pace": f"{rate:.0f} actions a second{time_to_go}",
        }

    def moved(self, run: Run, elapsed_ms: float) -> None:
        """Move the bar, a few times a second."""
        self._figures.add(elapsed_ms)
        now = time.monotonic()
        if now >= self._next_refresh_at:
            self._next_refresh_at = now + REFRESH_EVERY_S
            self._refresh(run)

    def _refresh(self, run: Run) -> None:
        if self._progress is not None and self._task is not None:
            completed = min(run.state.score, max(1, run.goal.bank_at))
            self._progress.update(self._task, completed=completed, **self._fields(run))

    def failed(self, what: str, failure: Failure, wait_s: float) -> None:
        """Say above the bar what went wrong."""
        self._figures.causes[failure.cause] += 1
        again = f"; again in {duration(wait_s)}" if wait_s else ""
        self.notice(f"{what}: {failure.cause}{again}")

    def notice(self, text: str) -> None:
        """Say it above the bar."""
        if self._progress is None:
            say(one_line(text))
        else:
            self._progress.console.print(one_line(text), markup=False, highlight=False)

    def ended(self, run: Run, path: Path) -> None:
        """Take the bar to where it ends, and sum up."""
        self._refresh(run)
        self.close()
        say((run.state.end_reason or "abandoned") if run.is_over else "suspended")
        say(self._figures.summary(run, path))

    def close(self) -> None:
        """Leave the bar where it is."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None


def choose_display(*, is_quiet: bool, log_format: str) -> Display:
    """Return the display that fits where stderr goes."""
    if is_quiet:
        return Display()
    if log_format == "text" and sys.stderr is not None and _is_terminal(sys.stderr):
        return Live()
    return Lines(as_json=log_format == "json")


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:
        return False
