"""What a person sees while it plays: lines in a log, or nothing; `terminal` has the bar."""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import structlog

from bot.console.streams import is_terminal, say
from bot.replay.summary import quantile, state_of
from bot.run import Run, time_to_go
from bot.words import one_line, shorten

if TYPE_CHECKING:
    from bot.client.failures import Failure

LINE_EVERY_S: Final = 60.0
"""Seconds between two lines when nothing is wrong and there is no terminal."""
MAX_LINE: Final = 2000
"""Characters of what is said in one line: an error may name several texts of others."""


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

    def info(self, text: str) -> None:
        """Nothing is wrong, and there is something to say."""

    def notice(self, text: str) -> None:
        """Something happened that people should read."""

    def ended(self, run: Run, path: Path, why: str) -> None:
        """The sitting is over; `why` says what ended it where nothing was wrong, if anything."""

    def error(self, text: str) -> None:
        """Say why the sitting did not end as asked; even a quiet display does."""
        say(one_line(f"sunpleat-bot: {shorten(text, MAX_LINE)}"))

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

    def info(self, text: str) -> None:
        """Tell it."""
        for display in self._displays:
            display.info(text)

    def notice(self, text: str) -> None:
        """Tell it."""
        for display in self._displays:
            display.notice(text)

    def ended(self, run: Run, path: Path, why: str) -> None:
        """Tell it."""
        for display in self._displays:
            display.ended(run, path, why)

    def error(self, text: str) -> None:
        """Tell the first, since it is said once."""
        self._displays[0].error(text)

    def close(self) -> None:
        """Tell it."""
        for display in self._displays:
            display.close()


class Quiet(Display):
    """Errors only, in the form of a log where it is to be JSON."""

    def __init__(self, *, as_json: bool) -> None:
        """Write an error as JSON where `as_json`."""
        self._log = _new_log(as_json=True) if as_json else None

    def error(self, text: str) -> None:
        """Say it."""
        if self._log is None:
            super().error(text)
        else:
            self._log.error(shorten(text, MAX_LINE))


class Figures:
    """What a sitting has taken so far: pace, causes of failures, answer times."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.began_at = time.monotonic()
        self.first_score = 0
        self.failures: Counter[str] = Counter()
        """Requests of this sitting that brought nothing, by their kind."""
        self.actions = 0
        """Actions of this sitting."""
        self.answers_ms: Counter[float] = Counter()
        """Answer times, to three digits, so that memory stays flat."""

    def add(self, elapsed_ms: float) -> None:
        """Count an answer."""
        self.actions += 1
        self.answers_ms[float(f"{elapsed_ms:.3g}")] += 1

    @property
    def seconds(self) -> float:
        """Length of this sitting so far."""
        return time.monotonic() - self.began_at

    @property
    def pace(self) -> float:
        """Actions a second."""
        return self.actions / max(self.seconds, 0.001)

    def seconds_to_go(self, run: Run) -> float | None:
        """Return the time to the threshold at the pace of this sitting.

        None while that is unknown, and once there is nothing left to go.
        """
        left = run.goal.bank_at - run.score
        return time_to_go(left, run.score - self.first_score, self.seconds) if left > 0 else None

    @property
    def causes(self) -> str:
        """The kinds of failure with their counts, such as `9 trouble, 2 refused`."""
        return ", ".join(f"{count:,} {kind}" for kind, count in self.failures.most_common())


class Lines(Display):
    """Lines with a time, for a log: text or JSON."""

    def __init__(self, *, as_json: bool) -> None:
        """Write each line as JSON where `as_json`, as key=value otherwise."""
        self._log = _new_log(as_json=as_json)
        self._figures = Figures()
        self._next_line_at = time.monotonic() + LINE_EVERY_S

    def began(self, run: Run, path: Path) -> None:
        """Say which run this is and where it stands."""
        self._figures.first_score = run.score
        self._log.info(
            "playing",
            journal=str(path),
            score=run.score,
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
            score=run.score,
            bank_at=run.goal.bank_at,
            boards=run.boards,
            actions_per_s=round(self._figures.pace, 1),
            eta_s=None if to_go is None else round(to_go),
        )

    def failed(self, what: str, failure: Failure, wait_s: float) -> None:
        """Say what went wrong, and when it is tried again."""
        self._figures.failures[failure.kind.value] += 1
        cause = shorten(failure.cause)
        self._log.warning("request failed", what=what, cause=cause, wait_s=wait_s)

    def info(self, text: str) -> None:
        """Say it."""
        self._log.info(shorten(text, MAX_LINE))

    def notice(self, text: str) -> None:
        """Say it."""
        self._log.warning(shorten(text, MAX_LINE))

    def ended(self, run: Run, path: Path, why: str) -> None:
        """Sum up: a line for this call, and one for the whole run."""
        figures = self._figures
        self._log.info(
            "this call",
            actions=figures.actions,
            failed=figures.failures.total(),
            causes=figures.causes,
            median_ms=round(quantile(figures.answers_ms, 0.5), 1),
            p99_ms=round(quantile(figures.answers_ms, 0.99), 1),
        )
        reason = {"reason": why} if why else {}
        self._log.info(
            state_of(run),
            **reason,
            score=run.score,
            end_reason=run.state.end_reason,
            boards=run.boards,
            leaves=run.state.leaves,
            seconds=run.seconds,
            requests=run.requests,
            retries=run.retries,
            refusals=run.refusals,
            journal=str(path),
        )

    def error(self, text: str) -> None:
        """Say it."""
        self._log.error(shorten(text, MAX_LINE))


def _new_log(*, as_json: bool) -> Any:
    """Return a logger to stderr."""
    renderer = (
        structlog.processors.JSONRenderer()
        if as_json
        else structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"])
    )
    return structlog.wrap_logger(
        structlog.PrintLogger(_Stderr()),  # type: ignore[arg-type]  # it writes and flushes, no more
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="%Y-%m-%dT%H:%M:%SZ", utc=True),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(0),
    ).bind()


class _Stderr:
    """Stderr for a logger, with nothing in it that moves a terminal."""

    def write(self, text: str) -> None:
        if text.strip("\n"):
            say(text.rstrip("\n"))

    def flush(self) -> None:
        """Do nothing: `say` flushes."""


def choose_display(*, is_quiet: bool, log_format: str) -> Display:
    """Return the display that fits where stderr goes."""
    as_json = log_format == "json"
    if is_quiet:
        return Quiet(as_json=as_json)
    if not as_json and is_terminal(sys.stderr):
        from bot.console.terminal import Live  # noqa: PLC0415 - a log does not need it

        return Live()
    return Lines(as_json=as_json)
