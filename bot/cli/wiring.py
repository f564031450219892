"""How the parts are put together: the one place that knows how a client is made."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from bot.cli.settings import LOCAL, Settings, Talk
from bot.client.client import Client
from bot.client.clock import Clock, StopRequest
from bot.client.environment import KEY_LOG_VARIABLE, Surroundings, settle, without_password
from bot.client.pace import Pace, shared_file
from bot.client.transport import Transport, new_session, new_transport
from bot.errors import NotAJournal
from bot.journal.events import RunStarted
from bot.journal.folder import first_entry, journals, run_name
from bot.journal.reader import LineError, is_finished
from bot.player import Mode, Order
from bot.run import Run
from bot.service import LOCAL_URL, LocalAdapter, Service, choose_key, foreign_key


def new_clock(stop: StopRequest) -> Clock:
    """Return the clock of a call that `stop` ends."""
    return Clock(stop)


def new_order(settings: Settings, mode: Mode, service: Service | None) -> Order:
    """Return what to play by the settings, on the built-in `service` or on another one."""

    def vouch(run: Run) -> None:
        if service is not None and not service.knows(run.token):
            run_id = run.started.run_id if run.started else ""
            raise foreign_key(settings.runs_dir, run_id)

    return Order(
        base_url=settings.base_url,
        seed=settings.seed,
        goal=settings.goal,
        runs_dir=settings.runs_dir,
        mode=mode,
        vouch=vouch,
    )


def local_service(talk: Talk, mode: Mode, notice: Callable[[str], None]) -> Service | None:
    """Return the built-in service with the key of the runs folder; None where another is asked.

    Raises:
        JournalError: the key is missing though runs wait for it, is none of ours, or cannot be
            made.
    """
    if not talk.is_local:
        return None
    return Service(local_key(talk.runs_dir, is_fresh=mode is Mode.FRESH, notice=notice))


def local_key(runs_dir: Path, *, is_fresh: bool, notice: Callable[[str], None]) -> bytes:
    """Return the key of the built-in service in a runs folder; make one where none is missed.

    Raises:
        JournalError: it is missing though runs wait for it, is none of ours, or cannot be made.
    """
    waiting = _unfinished_local_runs(runs_dir)
    return choose_key(runs_dir, waiting, is_fresh=is_fresh, tell=notice)


def _unfinished_local_runs(runs_dir: Path) -> Iterator[str]:
    """Yield the names of the runs on the built-in service that can still go on."""
    for _, path in journals(runs_dir):
        try:
            first = first_entry(path)
            if first is None or is_finished(path):
                continue
        except (LineError, NotAJournal):
            continue
        if isinstance(first.event, RunStarted) and first.event.base_url == LOCAL:
            yield run_name(path)


def open_transport(
    talk: Talk, service: Service | None, stop: StopRequest, notice: Callable[[str], None]
) -> Transport:
    """Return the way to the service: over the network, or to the one in this process.

    Args:
        talk: how to talk to it.
        service: the one in this process, if that is the one.
        stop: ends an exchange.
        notice: is told what the environment changes.

    Raises:
        ConfigError: the environment names a file or a proxy that cannot be used.
    """
    if service is not None:
        session = new_session()
        session.mount(LOCAL_URL, LocalAdapter(service))
        return Transport(session, Surroundings(), None)
    surroundings = settle(os.environ, talk.base_url, use_proxies=talk.use_environment_proxies)
    for scheme, proxy in surroundings.proxies.items():
        notice(f"using the proxy {without_password(proxy)} for {scheme}")
    if key_log := os.environ.get(KEY_LOG_VARIABLE):
        notice(f"{KEY_LOG_VARIABLE} is set: the keys of each TLS connection go to {key_log}")
    return new_transport(stop, surroundings, talk.contact)


def new_client(talk: Talk, transport: Transport, clock: Clock) -> Client:
    """Return a client of the service that the settings name, in pace with others of the folder."""
    shared = None if talk.is_local else shared_file(talk.runs_dir, talk.base_url)
    return Client(
        transport,
        LOCAL_URL if talk.is_local else talk.base_url,
        talk.limits,
        clock=clock,
        pace=Pace(talk.limits.max_rps, clock, shared),
        wire_settings=talk.wire,
    )
