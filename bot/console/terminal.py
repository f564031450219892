"""What a person sees on a terminal while it plays: a bar, and what happens above it."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TextIO, cast

from rich import live
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from bot.console.displays import Display, Figures
from bot.console.streams import say, takes
from bot.replay.summary import quantile, state_of
from bot.words import clock_time, count_of, duration, one_line, shorten

if TYPE_CHECKING:
    from bot.client.failures import Failure
    from bot.run import Run

REFRESH_EVERY_S: Final = 0.2
"""Seconds between two changes of the bar."""
LONGEST_BAR: Final = 40
SHORTEST_BAR: Final = 8


class Progress(NamedTuple):
    """What one line shows of a run."""

    score: int
    goal: int
    boards: int
    pace: float
    """Actions a second."""
    to_go_s: float | None
    """None where it is not known, or nothing is left."""

    def line(self, columns: int, done: str = "━", left: str = " ") -> str:
        """Return the line for a terminal of so many columns.

        The bar gives way first, and pace and boards before it; points, percent and time to go
        are always there.
        """
        share = min(self.score / self.goal, 1.0) if self.goal else 1.0
        points, percent = f"{self.score:,}", f"{int(100 * share)}%"
        of_goal = f"{points} of {self.goal:,}"
        boards, pace = count_of(self.boards, "board"), f"{self.pace:.0f} actions a second"
        is_worth_a_word = self.to_go_s is not None and self.to_go_s >= 1
        to_go = [f"{duration(self.to_go_s or 0)} to go"] if is_worth_a_word else []
        tails = [", ".join(part) for part in ([boards, pace, *to_go], [boards, *to_go], [*to_go])]
        for tail in tails:
            room = columns - len(f"{of_goal} {percent} {tail}") - 1
            if room >= SHORTEST_BAR:
                length = min(room, LONGEST_BAR)
                bar = (done * int(share * length)).ljust(length, left)
                return f"{of_goal} {bar} {percent} {tail}".rstrip()
        for front in (of_goal, points):
            line = f"{front} {percent} {tails[-1]}".rstrip()
            if len(line) <= columns:
                return line
        return line

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the line; rich asks for it at each refresh."""
        done = "#" if options.ascii_only else "━"
        yield Text(self.line(options.max_width - 1, done), no_wrap=True, overflow="crop")


class Live(Display):
    """A progress bar on a terminal."""

    def __init__(self) -> None:
        """Begin without a bar; it comes with the run."""
        self._figures = Figures()
        self._live: live.Live | None = None
        self._next_refresh_at = 0.0

    def began(self, run: Run, path: Path) -> None:
        """Show the bar."""
        self._figures.first_score = run.score
        say(f"journal {path}")
        self._live = live.Live(
            self._progress(run),
            console=_Console(file=cast("TextIO", _Surviving(sys.stderr)), highlight=False),
            auto_refresh=False,
        )
        self._live.start(refresh=True)

    def moved(self, run: Run, elapsed_ms: float) -> None:
        """Move the bar, a few times a second."""
        self._figures.add(elapsed_ms)
        now = time.monotonic()
        if now >= self._next_refresh_at:
            self._next_refresh_at = now + REFRESH_EVERY_S
            self._refresh(run)

    def failed(self, what: str, failure: Failure, wait_s: float) -> None:
        """Say above the bar what went wrong, and when it is tried again."""
        self._figures.failures[failure.kind.value] += 1
        again = f"; again in {duration(wait_s)}" if wait_s else ""
        now = clock_time(datetime.now(UTC), is_dated=False)
        self.notice(f"{now}Z {what}: {shorten(failure.cause)}{again}")

    def info(self, text: str) -> None:
        """Say it above the bar."""
        self.notice(text)

    def notice(self, text: str) -> None:
        """Say it above the bar."""
        if self._live is None:
            say(one_line(text))
        else:
            self._live.console.print(one_line(text), markup=False, emoji=False)

    def ended(self, run: Run, path: Path, why: str) -> None:
        """Take the bar to where it ends, and sum up."""
        self._refresh(run)
        self.close()
        word = run.state.end_reason if run.is_over else None
        say(one_line(f"{word or state_of(run)}{f': {why}' if why else ''}"))
        say(sum_up(run, self._figures, path))

    def close(self) -> None:
        """Leave the bar where it is."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _refresh(self, run: Run) -> None:
        if self._live is not None:
            self._live.update(self._progress(run), refresh=True)

    def _progress(self, run: Run) -> Progress:
        return Progress(
            score=run.score,
            goal=run.goal.bank_at,
            boards=run.boards,
            pace=self._figures.pace,
            to_go_s=self._figures.seconds_to_go(run),
        )


def sum_up(run: Run, figures: Figures, path: Path) -> str:
    """Return the few lines that end a sitting; each is of this call, or of the whole run."""
    median, slow = (quantile(figures.answers_ms, share) for share in (0.5, 0.99))
    actions = count_of(figures.actions, "action")
    failures = figures.failures.total()
    failed = f", {failures:,} failed: {figures.causes}" if failures else ""
    requests = (
        count_of(run.requests, "request"),
        count_of(run.retries, "retry", "retries"),
        *([count_of(run.refusals, "refusal")] if run.refusals else []),
    )
    return "\n".join(
        (
            f"  points    {run.score:,} of {run.goal.bank_at:,}",
            f"  boards    {run.boards:,}, {count_of(run.state.leaves, 'leaf', 'leaves')} left",
            f"  run       {duration(run.seconds)}, {', '.join(requests)}",
            f"  this call {duration(figures.seconds)}, {actions}{failed}",
            f"  answers   {median:.1f} ms median, {slow:.1f} ms 99th percentile",
            f"  journal   {path}",
        )
    )


class _Console(Console):
    """A console that leaves the cursor alone.

    One that is hidden would stay so after a kill, and while the bot is stopped by Ctrl-Z.
    """

    def show_cursor(self, show: bool = True) -> bool:
        """Do nothing."""
        del show
        return False


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
