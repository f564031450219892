"""The verb `check`: every setting with its source, and one look at the service."""

from __future__ import annotations

import difflib
import json
import secrets
import textwrap
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import click

from bot import rules, solver
from bot.cli.config import CONFIG
from bot.cli.options import SETTINGS
from bot.cli.settings import Settings, check_goal, resolve
from bot.cli.signals import heeding
from bot.cli.wiring import new_client, new_clock, open_transport
from bot.client.client import Answered, Client, Failed
from bot.client.clock import StopRequest
from bot.client.failures import Kind
from bot.console import streams
from bot.errors import BrokenAnswer, Unreadable
from bot.journal.events import RunStarted
from bot.journal.folder import last_start
from bot.journal.writer import finite
from bot.run import spec_digest
from bot.service import Service
from bot.wire.layout import Layout
from bot.wire.values import format_path, parse_json
from bot.words import one_line

SHOWN: Final = 4000
"""Characters that are shown of an answer that nothing was found in."""


@click.command(params=[*SETTINGS, CONFIG])
@click.pass_context
def check(ctx: click.Context, /, **_: Any) -> int:
    """Show settings; ask the service for init and for one flip; keep no run."""
    settings = resolve(ctx)
    _show_settings(settings)
    check_goal(settings.goal)
    stop = StopRequest()
    with heeding(stop):
        service = _any_local_service(settings)
        client = new_client(
            settings,
            open_transport(settings, service, stop, streams.say),
            new_clock(stop),
        )
        fresh, flip = rules.fresh(), rules.FLIPS[solver.next_flip(rules.fresh().garland) - 1]
        first = _show(settings, "init", client, client.begin(settings.seed))
        attempts = client.act(first.token, flip, fresh, rules.apply(fresh, flip))
        _show(settings, str(flip), client, attempts)
    _show_drift(settings, first)
    return 0


def _any_local_service(settings: Settings) -> Service | None:
    """Return a built-in service whose key nobody keeps: no run comes of this."""
    return Service(secrets.token_hex(32).encode()) if settings.is_local else None


def _show(
    settings: Settings, what: str, client: Client, attempts: Iterator[Failed | Answered]
) -> Answered:
    """Show what was found in an answer; end at the first failure, but follow a redirect.

    Raises:
        BotError: there was no answer, or none that can be understood.
    """
    streams.answer(f"\nAnswer of {settings.base_url} to {what}")
    for attempt in attempts:
        if isinstance(attempt, Answered):
            _show_layout(attempt.layout)
            return attempt
        if attempt.failure.kind is not Kind.MOVED:
            _show_answer(client.last_body)
            raise attempt.failure.verdict(f"{what} at {client.host}", attempt.attempt)
        streams.answer(f"  {attempt.failure.cause}")
    raise TypeError("a client gives up by raising")


def _show_settings(settings: Settings) -> None:
    streams.answer("Settings")
    for name, value in settings.values.items():
        shown = "set, not shown" if name == "notify_url" and value else value
        _row(name, _format(shown), settings.sources[name])
    for field, path in settings.wire.paths.items():
        _row(f"wire.{field}", format_path(path), "configuration file")
    if settings.wire.ignore:
        _row("wire.ignore", ", ".join(sorted(settings.wire.ignore)), "configuration file")


def _row(name: str, value: str, note: str) -> None:
    """Print a row; on a terminal that is too narrow, its note has lines of its own."""
    front = one_line(f"  {name:23} {value:25}")
    row = one_line(f"{front} {note}")
    columns = streams.width()
    if len(row) <= columns:
        streams.answer(row)
        return
    indent = " " * 4
    for line in (front.rstrip(), *textwrap.wrap(one_line(note), columns, initial_indent=indent)):
        streams.answer(line)


def _format(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.15g}"
    return "-" if value in (None, "") else str(value)


def _show_answer(body: bytes) -> None:
    """Show an answer in which the bot could not find its way, as far as it is of use."""
    text = body.decode("utf-8", "replace")
    with suppress(BrokenAnswer, Unreadable):
        text = json.dumps(parse_json(body), indent=2, ensure_ascii=False)
    if text:
        streams.answer(text if len(text) <= SHOWN else f"{text[:SHOWN]}...")


def _show_layout(layout: Layout) -> None:
    places = layout.to_json()
    for name, place in places.items():
        if name != "passed_over":
            shown = ", ".join(place) if isinstance(place, list) else place
            _row(name, str(shown), "carried forward" if name == "token" else "compared")
    for place, why in layout.passed_over.items():
        _row("-", place, f"passed over: {why}")


def _show_drift(settings: Settings, first: Answered) -> None:
    spec = finite(first.spec)
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
