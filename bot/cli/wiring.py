"""How the parts are put together: the one place that knows how a client is made."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from bot.cli.settings import LOCAL, Talk
from bot.client.client import Client
from bot.client.clock import Clock, StopRequest
from bot.client.environment import KEY_LOG_VARIABLE, Surroundings, settle, without_password
from bot.client.pace import Pace, shared_file
from bot.client.transport import Transport, new_session, new_transport
from bot.errors import NotAJournal
from bot.journal.events import RunStarted
from bot.journal.folder import first_entry, journals, run_name
from bot.journal.reader import LineError, is_finished
from bot.service import LOCAL_URL, LocalAdapter, Service, choose_key


def new_client(
    talk: Talk, service: Service | None, clock: Clock, notice: Callable[[str], None]
) -> Client:
    """Return a client of a service, in pace with others of the runs folder.

    Args:
        talk: how to talk to it.
        service: the one in this process, if that is the one.
        clock: of the call.
        notice: is told what the environment changes.

    Raises:
        ConfigError: the environment names a file or a proxy that cannot be used.
    """
    if service is not None:
        session = new_session()
        session.mount(LOCAL_URL, LocalAdapter(service))
        transport, url, shared = Transport(session, Surroundings(), None), LOCAL_URL, None
    else:
        transport, url = _over_the_network(talk, clock.stop, notice), talk.base_url
        shared = shared_file(talk.runs_dir, url)
    pace = Pace(talk.limits.max_rps, clock, shared)
    return Client(transport, url, talk.limits, clock=clock, pace=pace, wire_settings=talk.wire)


def _over_the_network(talk: Talk, stop: StopRequest, notice: Callable[[str], None]) -> Transport:
    """Return the way to a service on the network; `stop` ends an exchange.

    Raises:
        ConfigError: the environment names a file or a proxy that cannot be used.
    """
    surroundings = settle(os.environ, talk.base_url, use_proxies=talk.use_environment_proxies)
    for scheme, proxy in surroundings.proxies.items():
        notice(f"using the proxy {without_password(proxy)} for {scheme}")
    if key_log := os.environ.get(KEY_LOG_VARIABLE):
        notice(f"{KEY_LOG_VARIABLE} is set: the keys of each TLS connection go to {key_log}")
    return new_transport(stop, surroundings, talk.contact)


def local_service(runs_dir: Path, notice: Callable[[str], None], *, is_fresh: bool) -> Service:
    """Return the built-in service with the key of a runs folder; one is made where none is missed.

    Args:
        runs_dir: the runs folder.
        notice: is told which runs are left without their key.
        is_fresh: whether they may be.

    Raises:
        JournalError: it is missing though runs wait for it, is none of ours, or cannot be made.
    """
    waiting = _unfinished_local_runs(runs_dir)
    return Service(choose_key(runs_dir, waiting, is_fresh=is_fresh, tell=notice))


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
