"""Wiring a sitting: transport, client, journal and display."""

from __future__ import annotations

import json
import os
import secrets
from contextlib import suppress
from pathlib import Path
from types import FrameType

from bot import player
from bot.cli.monitoring import Metrics, Notifier
from bot.cli.settings import Settings, check_goal
from bot.cli.signals import STOPS, handling, heed_signals, leave_at_signals
from bot.client.client import Client, Listener
from bot.client.clock import Clock, StopRequest
from bot.client.environment import Surroundings, settle, without_password
from bot.client.transport import Deadline, Transport, new_session, new_transport
from bot.console import streams
from bot.console.displays import Display, Several, choose_display
from bot.errors import BotError, ConfigError, OutputError
from bot.player import Order, Outcome
from bot.service import LOCAL_URL, LocalAdapter, Service, load_key, make_key


def play(settings: Settings, *, is_fresh: bool, as_json: bool) -> int:
    """Play one sitting, show it, and notify of it; return the exit code that it earned.

    Raises:
        ConfigError: no play lands on the threshold, or figures cannot be written.
    """
    display = choose_display(is_quiet=settings.is_quiet, log_format=settings.log_format)
    notifier = Notifier(settings.notify_url, display.error)
    try:
        check_goal(settings.goal)
        if settings.metrics_file is not None:
            place = (settings.metrics_file, settings.base_url, settings.seed)
            display = Several(display, Metrics(*place, display.error))
    except ConfigError as exc:
        notifier.end(exc.exit_code)
        raise
    stop = StopRequest()
    exit_code = BotError.exit_code
    with heed_signals(stop):
        try:
            outcome = _play(settings, display, notifier, stop, is_fresh=is_fresh)
            exit_code = outcome.exit_code
            with leave_at_signals(exit_code):
                _tell(outcome, display, as_json=as_json)
        except BotError as exc:
            exit_code = exc.exit_code
            display.error(str(exc))
        finally:
            with leave_at_signals(exit_code):
                notifier.end(exit_code)
    return exit_code


def _tell(outcome: Outcome, display: Display, *, as_json: bool) -> None:
    """Say what came of a sitting; where stdout does not take it, the run is what counts."""
    try:
        if as_json:
            streams.answer(json.dumps(describe(outcome)))
    except OutputError as exc:
        display.error(str(exc))
    if outcome.error is not None:
        display.error(str(outcome.error))
    elif outcome.exit_code:
        display.error(f"the run ended {outcome.run.state.end_reason}, not as asked")


def _play(
    settings: Settings,
    display: Display,
    notifier: Notifier,
    stop: StopRequest,
    *,
    is_fresh: bool,
) -> Outcome:
    order = Order(
        base_url=settings.base_url,
        seed=settings.seed,
        goal=settings.goal,
        runs_dir=settings.runs_dir,
        is_fresh=is_fresh,
    )
    clock = Clock(stop)
    transport = open_transport(settings, stop)

    def begin(listener: Listener) -> Client:
        notifier.start()  # the run is ours now; a second bot never comes as far as this
        return new_client(settings, transport, clock, listener)

    try:
        outcome = player.play(order, begin, clock, display)
        display.ended(outcome.run, outcome.path)
    finally:
        display.close()
    return outcome


def describe(outcome: Outcome) -> dict[str, object]:
    """Return the result of a sitting for programs."""
    run = outcome.run
    totals = run.totals()
    return {
        "run_id": run.started.run_id if run.started else None,
        "journal": str(outcome.path),
        "score": totals.score,
        "boards": totals.boards,
        "flips": totals.flips,
        "requests": totals.requests,
        "retries": totals.retries,
        "leaves": run.state.leaves,
        "end_reason": run.state.end_reason,
        "seconds": totals.seconds,
    }


def open_transport(settings: Settings, stop: StopRequest) -> Transport:
    """Return the way to the service: over the network, or to the one in this process.

    Raises:
        ConfigError: the environment names a file or a proxy that cannot be used.
        JournalError: the key of the local service cannot be kept in the runs folder.
    """
    if settings.is_local:
        session = new_session()
        session.mount(
            LOCAL_URL,
            LocalAdapter(Service(load_key(settings.runs_dir) or make_key(settings.runs_dir))),
        )
        return Transport(session, Deadline(stop), Surroundings())
    surroundings = settle(
        os.environ, settings.base_url, use_proxies=settings.use_environment_proxies
    )
    if not settings.is_quiet:
        for scheme, proxy in surroundings.proxies.items():
            streams.say(f"using the proxy {without_password(proxy)} for {scheme}")
    return new_transport(stop, surroundings)


def new_client(
    settings: Settings, transport: Transport, clock: Clock, listener: Listener
) -> Client:
    """Return a client of the service that the settings name."""
    return Client(
        transport,
        LOCAL_URL if settings.is_local else settings.base_url,
        settings.limits,
        clock=clock,
        listener=listener,
        wire_settings=settings.wire,
        is_following=settings.is_following,
    )


def serve(host: str, port: int, runs_dir: Path | None) -> int:
    """Serve the game until the process is stopped.

    Raises:
        Stopped: it was, by a signal.
    """
    from bot.service.http import serve as serve_http  # noqa: PLC0415 - nothing else needs waitress

    key = secrets.token_bytes(32)
    if runs_dir is not None:
        key = load_key(runs_dir) or make_key(runs_dir)
    stop = StopRequest()

    def end(number: int, _: FrameType | None) -> None:
        stop.ask(number)
        raise KeyboardInterrupt  # which ends the server in good order

    with suppress(KeyboardInterrupt), handling(end, *STOPS):
        serve_http(Service(key), host, port, streams.answer, streams.say)
    stop.check()
    return 0
