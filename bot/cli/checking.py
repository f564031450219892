"""The verb `check`: every setting with its source, and one look at the service."""

from __future__ import annotations

import difflib
import json
from contextlib import suppress
from typing import Final

import requests

from bot.cli.monitoring import masked
from bot.cli.playing import new_client, open_transport
from bot.cli.settings import Settings, check_goal
from bot.client.client import Beginning
from bot.client.clock import Clock, StopRequest
from bot.client.failures import Failure, Kind
from bot.client.transport import Transport
from bot.console import streams
from bot.errors import BotError
from bot.journal.events import RunStarted
from bot.journal.folder import last_start
from bot.run import spec_digest
from bot.journal.writer import finite
from bot.rules import Action
from bot.wire.paths import format_path
from bot.words import one_line

SHOWN: Final = 4000
"""Characters that are shown of an answer that nothing was found in."""


class _Witness(Transport):
    """A way to the service that keeps the last answer, to show it."""

    def __init__(self, transport: Transport) -> None:
        """Send by `transport`."""
        self._transport = transport
        self.body = b""

    def prepare(self, method: str, url: str) -> requests.PreparedRequest:
        """Return a request that can be sent any number of times."""
        return self._transport.prepare(method, url)

    def send(
        self, request: requests.PreparedRequest, timeout_s: float
    ) -> tuple[requests.Response, bytes]:
        """Send `request`; keep the body of its answer."""
        self.body = b""
        response, self.body = self._transport.send(request, timeout_s)
        return response, self.body


class _Once:
    """A listener that does not wait for a second attempt, but to follow a redirect."""

    def failed(self, action: Action | None, attempt: int, failure: Failure, wait_s: float) -> None:
        """End at the first failure."""
        if failure.kind is not Kind.MOVED:
            raise failure.verdict("init", attempt)
        streams.answer(f"  {failure.cause}")


def check(settings: Settings) -> int:
    """Show the settings, ask for `init` once, and show what was found; play nothing."""
    streams.answer("Settings")
    for name, value in settings.values.items():
        shown = masked(settings.notify_url) if name == "notify_url" else value
        _row(name, _show(shown), settings.sources[name])
    for field, path in settings.wire.paths.items():
        _row(f"wire.{field}", format_path(path), "configuration file")
    if settings.wire.ignore:
        _row("wire.ignore", ", ".join(sorted(settings.wire.ignore)), "configuration file")
    check_goal(settings.goal)
    stop = StopRequest()
    streams.answer(f"\nAnswer of {settings.base_url} to init")
    witness = _Witness(open_transport(settings, stop))
    client = new_client(settings, witness, Clock(stop), _Once())
    try:
        beginning = client.init(settings.seed)
    except BotError:
        _show_answer(witness.body)
        raise
    _show_layout(beginning)
    _show_drift(settings, beginning)
    return 0


def _row(name: str, value: str, note: str) -> None:
    streams.answer(one_line(f"  {name:27} {value:31} {note}"))


def _show(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.15g}"
    return "-" if value in (None, "") else str(value)


def _show_answer(body: bytes) -> None:
    """Show an answer in which the bot could not find its way, as far as it is of use."""
    text = body.decode("utf-8", "replace")
    with suppress(ValueError, RecursionError):
        text = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    if text:
        streams.answer(text if len(text) <= SHOWN else f"{text[:SHOWN]}...")


def _show_layout(beginning: Beginning) -> None:
    places = beginning.layout.to_json()
    passed_over = places.pop("passed_over")
    for name, place in places.items():
        shown = ", ".join(place) if isinstance(place, list) else place
        _row(name, str(shown), "carried forward" if name == "token" else "compared")
    if isinstance(passed_over, dict):
        for place, why in passed_over.items():
            _row("-", place, f"passed over: {why}")


def _show_drift(settings: Settings, beginning: Beginning) -> None:
    spec = finite(beginning.spec)
    last = last_start(settings.runs_dir, settings.base_url)
    if last is None:
        streams.answer("\nNo run on this service yet to compare its description of the game with.")
    elif last.spec_sha256 == spec_digest(spec):
        streams.answer(f"\nThe game is described as in the run {last.run_id}.")
    else:
        streams.answer(f"\nThe game is not described as in the run {last.run_id}:")
        for line in _difference(last, spec):
            streams.answer(line)


def _difference(last: RunStarted, spec: object) -> list[str]:
    before, now = (
        json.dumps(description, indent=2, sort_keys=True, ensure_ascii=False).splitlines()
        for description in (last.spec, spec)
    )
    return list(difflib.unified_diff(before, now, last.run_id, "now", lineterm="", n=1))
