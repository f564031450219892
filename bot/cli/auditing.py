"""What `replay --against` needs: a client that asks a service about the moves of a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace as changed
from pathlib import Path

from bot.cli.config import is_file
from bot.cli.settings import Talk
from bot.cli.signals import heeding
from bot.cli.wiring import new_client, new_clock, open_transport
from bot.client.client import Client, Failed
from bot.client.clock import StopRequest
from bot.client.limits import INIT_GIVE_UP_S
from bot.console import streams
from bot.errors import BotError, TokenRefused, UsageError
from bot.replay.audit import Findings, choose
from bot.replay.audit import audit as send_again
from bot.replay.watch import Move
from bot.run import Run
from bot.service import KEY_FILE, Service, load_key
from bot.verify import Verification
from bot.wire.layout import layout_from_json
from bot.words import duration, one_line, shorten


def towards(talk: Talk, path: Path) -> Talk:
    """Return how to ask about the run at `path`, which has the key of its tokens beside it.

    Raises:
        UsageError: the built-in service is to be asked, and that key is not there.
    """
    folders = [folder for folder in (path.parent, talk.runs_dir) if is_file(folder / KEY_FILE)]
    if talk.is_local and not folders:
        raise UsageError(
            f"--against local: there is no key of the local service beside {path}, "
            f"and no other one can have signed its tokens"
        )
    return changed(
        talk,
        runs_dir=folders[0] if folders else talk.runs_dir,
        limits=changed(
            talk.limits, give_up_after_s=min(talk.limits.give_up_after_s, INIT_GIVE_UP_S)
        ),
    )


def audit(
    verification: Verification, talk: Talk, size: int | None
) -> tuple[Findings, BotError | None]:
    """Ask a service about a sample of the moves of a run.

    Args:
        verification: of the journal, which was read and is in order.
        talk: how to talk to the service.
        size: moves to ask about; None for all of them.

    Returns:
        What it said, and what kept it from being asked to the end, if anything.
    """
    findings = Findings()
    try:
        with _client_of(verification.run, talk) as client:
            send_again(choose(verification, size), client, findings, _tell_failed)
    except BotError as exc:
        return findings, exc
    if not findings.refused:
        return findings, None
    return findings, TokenRefused(
        f"{findings.refused} of {findings.asked} old ones, which is no fault of the run: "
        f"{findings.refusal}"
    )


def _tell_failed(move: Move, failed: Failed) -> None:
    """Say what went wrong, and when it is tried again."""
    again = f"again in {duration(failed.wait_s)}" if failed.wait_s else f"attempt {failed.attempt}"
    streams.say(one_line(f"{move.action}: {shorten(failed.failure.cause)}; {again}"))


@contextmanager
def _client_of(run: Run, talk: Talk) -> Iterator[Client]:
    """Give a client that reads answers as the run did, and that a signal stops."""
    stop = StopRequest()
    key = load_key(talk.runs_dir) if talk.is_local else None
    service = Service(key) if key else None
    client = new_client(talk, open_transport(talk, service, stop, streams.say), new_clock(stop))
    client.resume(layout_from_json(run.wire), is_under_way=True)
    with heeding(stop):
        yield client
