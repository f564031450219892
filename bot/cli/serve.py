"""The verb `serve`: the local service over HTTP."""

from __future__ import annotations

import secrets
from contextlib import suppress
from pathlib import Path
from types import FrameType

import click

from bot.cli.forms import Folder
from bot.cli.signals import STOPS, handling
from bot.cli.wiring import local_service
from bot.client.clock import StopRequest
from bot.console import streams
from bot.service import Service
from bot.service.http import serve as serve_http


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    help="Port to listen at; 0 picks a free one.",
)
@click.option(
    "--runs-dir",
    type=Folder(),
    metavar="DIR",
    help="Take the tokens of --local runs in this folder, too.  [default: tokens of this call]",
)
def serve(host: str, port: int, runs_dir: Path | None) -> int:
    """Serve the game over HTTP until stopped; the first line printed is the base URL."""
    if runs_dir is None:
        service = Service(secrets.token_hex(32).encode())
    else:
        service = local_service(runs_dir, streams.say, is_fresh=False)
    stop = StopRequest()

    def end(number: int, _: FrameType | None) -> None:
        stop.ask(number)
        raise KeyboardInterrupt  # which ends the server in good order

    with suppress(KeyboardInterrupt), handling(end, *STOPS):
        serve_http(service, host, port, streams.answer, streams.say)
    stop.check()
    return 0
