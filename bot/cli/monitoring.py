"""Telling other machines how a run goes: a ping URL, and figures for Prometheus.

Neither ever disturbs the game: a ping has its seconds and no more, and whatever goes wrong
is said once and forgotten.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import requests

from bot.client.environment import settle
from bot.client.transport import describe_error, user_agent
from bot.console.displays import Display
from bot.errors import ConfigError, TryLater
from bot.journal.files import put_in_place
from bot.journal.reader import parse_time
from bot.run import Run
from bot.words import shorten

PING_S: Final = 5.0
"""Seconds that a ping may take; one that is slower goes on without us."""
HASTY_PING_S: Final = 1.0
"""Likewise when a signal asks the bot to stop."""
METRICS_EVERY_S: Final = 15.0
"""Seconds between two writings of the metrics file, which is about how often it is read."""
METRICS_MODE: Final = 0o644
"""Mode of the metrics file: it is read by the collector's user."""


class Notifier:
    """Pings a URL in the way that healthchecks.io documents ("Pinging API").

    `/start` when a call begins, the URL itself when it ends well, the exit code below it when
    it does not. A call that a budget ended (75) did what it was asked for, and ended well; one
    that found another bot at the run (75, too) never began and says nothing.
    """

    def __init__(self, url: str, tell: Callable[[str], object]) -> None:
        """Ping `url`, an empty one never; `tell` people of a ping that fails."""
        self._url = url
        self._tell = tell
        self._has_begun = False

    def start(self) -> None:
        """Say that a call begins."""
        self._has_begun = True
        self._ping("/start", PING_S)

    def end(self, exit_code: int) -> None:
        """Say how a call ended."""
        if exit_code == TryLater.exit_code and not self._has_begun:
            return
        is_well = exit_code in (0, TryLater.exit_code)
        seconds = HASTY_PING_S if exit_code > 128 else PING_S
        self._ping("" if is_well else f"/{exit_code}", seconds)

    def _ping(self, suffix: str, seconds: float) -> None:
        """Ask for the address with `suffix` at the end of its path, before a query."""
        if not self._url:
            return
        url = urlsplit(self._url)
        if suffix:
            url = url._replace(path=url.path.rstrip("/") + suffix)
        problems = [f"no answer within {seconds:g} s"]

        def ask() -> None:
            with suppress(requests.Timeout):  # which is what was said before
                problems[:] = _get(url.geturl(), 2 * seconds)  # one that is left behind ends, too

        thread = threading.Thread(target=ask, daemon=True, name="ping")
        try:
            thread.start()
            thread.join(seconds)
        except RuntimeError as exc:  # no thread can be made
            problems = [str(exc)]
        for problem in problems:
            self._tell(f"could not notify: {problem}")


def _without_secret(problem: str, url: str) -> str:
    """Return what went wrong, unless it names a part of the address, all of which is secret."""
    pieces = {piece for piece in re.split(r"[/?&=#@:]+", url) if piece not in ("http", "https", "")}
    is_safe = not any(piece.lower() in problem.lower() for piece in pieces)
    return problem if is_safe else "it cannot be reached"


def _get(url: str, seconds: float) -> list[str]:
    """Ask for an address, and read the head of the answer; return what went wrong, if anything.

    Raises:
        Timeout: there was no answer in time.
    """
    try:
        with requests.Session() as session:
            session.trust_env = False
            session.headers["User-Agent"] = user_agent()
            session.verify = settle(os.environ, url, use_proxies=False).ca_bundle
            with session.get(url, timeout=seconds, stream=True) as response:
                if not response.ok:
                    return [f"HTTP {response.status_code}"]
    except requests.Timeout:
        raise
    except Exception as exc:  # noqa: BLE001 - whatever it is, it must not disturb the game
        return [_without_secret(shorten(describe_error(exc)), url)]
    return []


FIGURES: Final[Mapping[str, tuple[str, Callable[[Run], float]]]] = {
    "score_points": ("Points of the run.", lambda run: run.state.score),
    "bank_at_points": ("Threshold of the run, in points.", lambda run: run.goal.bank_at),
    "boards": ("Boards cleared in the run.", lambda run: run.boards),
    "leaves": ("Leaves left.", lambda run: run.state.leaves),
    "requests": ("Requests of the run, retries included.", lambda run: run.requests),
    "retries": (
        "Requests of the run that brought no usable answer.",
        lambda run: run.retries,
    ),
    "run_over": ("1 where the run is over, 0 while it can go on.", lambda run: run.is_over),
    "last_success_timestamp_seconds": (
        "When the last action was accepted.",
        lambda run: parse_time(run.last_action_ts).timestamp(),
    ),
}
"""What the metrics file has of a run: what each figure is, and how much."""


class Metrics(Display):
    """Writes the figures of a run for the textfile collector of node_exporter."""

    def __init__(self, path: Path, base_url: str, seed: int, tell: Callable[[str], object]) -> None:
        """Write to `path`, which should end in `.prom`; `tell` people once if it cannot be.

        Raises:
            ConfigError: the library for it is not installed.
        """
        try:
            from prometheus_client import (  # noqa: PLC0415 - optional
                CollectorRegistry,
                Gauge,
                generate_latest,
            )
        except ImportError as exc:
            raise ConfigError(
                "metrics_file needs prometheus_client; in the project's folder, "
                ".venv/bin/pip install -r .ci/requirements/metrics.txt brings it"
            ) from exc
        self._path = path
        self._tell = tell
        registry = CollectorRegistry()
        self._format = partial(generate_latest, registry)
        self._next_at = 0.0
        self._has_failed = False
        labels = {"service": base_url, "seed": str(seed)}

        self._gauges = [
            (Gauge(f"sunpleat_{name}", text, labels, registry=registry).labels(**labels), figure)
            for name, (text, figure) in FIGURES.items()
        ]

    def began(self, run: Run, path: Path) -> None:
        """Write where the run stands."""
        self._write(run)

    def moved(self, run: Run, elapsed_ms: float) -> None:
        """Write from time to time."""
        if time.monotonic() >= self._next_at:
            self._write(run)

    def ended(self, run: Run, path: Path, why: str) -> None:
        """Write how it ended."""
        self._write(run)

    def _write(self, run: Run) -> None:
        """Replace the file as a whole."""
        self._next_at = time.monotonic() + METRICS_EVERY_S
        for gauge, figure in self._gauges:
            gauge.set(figure(run))
        try:
            put_in_place(self._path, self._format(), METRICS_MODE)
        except OSError as exc:
            if not self._has_failed:
                self._tell(f"could not write the metrics file {self._path}: {exc.strerror}")
            self._has_failed = True
