"""The verb `check`: every setting with its source, and one look at the service."""

from __future__ import annotations

import difflib
import json

from bot import console
from bot.cli.playing import new_client, open_transport
from bot.cli.settings import Settings, check_goal
from bot.client.client import Beginning
from bot.client.clock import Clock, StopRequest
from bot.client.failures import Failure, Kind
from bot.journal.events import RunStarted
from bot.journal.folder import last_start
from bot.journal.ledger import spec_digest
from bot.rules import Action


class _Once:
    """A listener that does not wait for a second attempt, but to follow a redirect."""

    def failed(self, action: Action | None, attempt: int, failure: Failure, wait_s: float) -> None:
        """End at the first failure."""
        if failure.kind is not Kind.MOVED:
            raise failure.verdict("init", attempt)
        console.answer(f"  {failure.cause}")


def check(settings: Settings) -> int:
    """Show the settings, ask for `init` once, and show what was found; play nothing."""
    console.answer("Settings")
    for name, value in settings.values.items():
        console.answer(f"  {name:28}{_show(value):32}{settings.sources[name]}")
    for field, path in settings.wire.paths.items():
        console.answer(f"  wire.{field:23}{'.'.join(path):32}configuration file")
    if settings.wire.ignore:
        console.answer(f"  wire.ignore                 {', '.join(sorted(settings.wire.ignore))}")
    check_goal(settings.goal)
    stop = StopRequest()
    console.answer(f"\nAnswer of {settings.base_url} to init")
    transport = open_transport(settings, stop)
    client = new_client(settings, transport, Clock(stop), _Once())
    beginning = client.init(settings.seed)
    _show_layout(beginning)
    _show_drift(settings, beginning)
    return 0


def _show(value: object) -> str:
    return "-" if value in (None, "") else str(value)


def _show_layout(beginning: Beginning) -> None:
    places = beginning.layout.to_json()
    passed_over = places.pop("passed_over")
    for name, place in places.items():
        shown = ", ".join(place) if isinstance(place, list) else place
        what = "carried forward" if name == "token" else "compared"
        console.answer(f"  {name:28}{shown:32}{what}")
    if isinstance(passed_over, dict):
        for place, why in passed_over.items():
            console.answer(f"  {'-':28}{place:32}passed over: {why}")


def _show_drift(settings: Settings, beginning: Beginning) -> None:
    last = last_start(settings.runs_dir, settings.base_url)
    if last is None:
        console.answer("\nNo run on this service yet to compare its description of the game with.")
    elif last.spec_sha256 == spec_digest(beginning.spec):
        console.answer(f"\nThe game is described as in the run {last.run_id}.")
    else:
        console.answer(f"\nThe game is not described as in the run {last.run_id}:")
        for line in _difference(last, beginning):
            console.answer(line)


def _difference(last: RunStarted, beginning: Beginning) -> list[str]:
    before, now = (
        json.dumps(spec, indent=2, sort_keys=True, ensure_ascii=False).splitlines()
        for spec in (last.spec, beginning.spec)
    )
    return list(difflib.unified_diff(before, now, last.run_id, "now", lineterm="", n=1))
