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
from bot.cli.settings import SETTINGS, Talk, check_goal, resolve, told
from bot.cli.signals import heeding
from bot.cli.sources import CONFIG
from bot.cli.wiring import new_client
from bot.client.client import Answered, Client, Failed
from bot.client.clock import Clock, StopRequest
from bot.client.failures import Kind
from bot.console import streams
from bot.errors import BrokenAnswer, Unreadable
from bot.journal.events import RunStarted
from bot.journal.folder import last_start
from bot.journal.writer import finite
from bot.run import spec_digest
from bot.service import Service
from bot.wire.layout import Layout
from bot.wire.values import parse_json
from bot.words import one_line

SHOWN: Final = 4000
"""Characters that are shown of an answer that nothing was found in."""


@click.command(params=[*SETTINGS, CONFIG])
@click.pass_context
def check(ctx: click.Context, /, **_: Any) -> int:
    """Show settings; ask the service for init and for one flip; keep no run."""
    settings = resolve(ctx)
    talk, stop = settings.talk, StopRequest()
    streams.answer("Settings")
    for row in told(ctx, settings):
        _row(*row)
    check_goal(settings.goal)
    with heeding(stop):
        # no run comes of this, so nobody keeps the key
        service = Service(secrets.token_hex(32).encode()) if talk.is_local else None
        client = new_client(talk, service, Clock(stop), streams.say)
        fresh, flip = rules.fresh(), rules.FLIPS[solver.next_flip(rules.fresh().garland) - 1]
        first = _show(talk, "init", client, client.begin(settings.seed))
        attempts = client.act(first.token, flip, fresh, rules.apply(fresh, flip))
        _show(talk, str(flip), client, attempts)
    _show_drift(talk, first)
    return 0


def _show(talk: Talk, what: str, client: Client, attempts: Iterator[Failed | Answered]) -> Answered:
    """Show what was found in an answer; end at the first failure, but follow a redirect.

    Raises:
        BotError: there was no answer, or none that can be understood.
    """
    streams.answer("")
    _print(f"Answer of {talk.base_url} to {what}")
    for attempt in attempts:
        if isinstance(attempt, Answered):
            _show_layout(attempt.layout)
            return attempt
        if attempt.failure.kind is not Kind.MOVED:
            _show_answer(client.last_body)
            raise attempt.failure.verdict(f"{what} at {client.host}", attempt.attempt)
        _print(attempt.failure.cause, indent=2)
    raise TypeError("a client gives up by raising")


def _row(name: str, value: str, note: str) -> None:
    """Print a row; what a terminal has no room for has lines of its own."""
    front = one_line(f"  {name:23} {value:25}")
    row = one_line(f"{front} {note}")
    if len(row) <= streams.width():
        streams.answer(row)
        return
    if len(front.rstrip()) <= streams.width():
        streams.answer(front.rstrip())
    else:
        streams.answer(f"  {name}")
        _print(value, indent=4)
    _print(note, indent=4)


def _print(text: str, indent: int = 0) -> None:
    """Print a text, in as many lines as it takes."""
    blanks = " " * indent
    for line in textwrap.wrap(
        one_line(text), streams.width(), initial_indent=blanks, subsequent_indent=blanks
    ):
        streams.answer(line)


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


def _show_drift(talk: Talk, first: Answered) -> None:
    spec = finite(first.spec)
    last = last_start(talk.runs_dir, talk.base_url)
    streams.answer("")
    if last is None:
        _print("No run on this service yet to compare its description of the game with.")
    elif last.spec_sha256 == spec_digest(spec):
        _print(f"The game is described as in the run {last.run_id}.")
    else:
        _print(f"The game is not described as in the run {last.run_id}:")
        for line in _difference(last, spec):
            streams.answer(line)


def _difference(last: RunStarted, spec: object) -> list[str]:
    before, now = (
        json.dumps(description, indent=2, sort_keys=True, ensure_ascii=False).splitlines()
        for description in (last.spec, spec)
    )
    return list(difflib.unified_diff(before, now, last.run_id, "now", lineterm="", n=1))
