"""How the parts are put together: the one place that knows how a client is made."""

from __future__ import annotations

import os
from collections.abc import Callable

from bot.cli.settings import Settings, Talk
from bot.client.client import Client, Listener
from bot.client.clock import Clock, StopRequest
from bot.client.environment import KEY_LOG_VARIABLE, Surroundings, settle, without_password
from bot.client.transport import Deadline, Transport, new_session, new_transport
from bot.player import Mode, Order
from bot.service import LOCAL_URL, LocalAdapter, Service, load_key


def new_clock(stop: StopRequest) -> Clock:
    """Return the clock of a call that `stop` ends."""
    return Clock(stop)


def new_order(settings: Settings, mode: Mode) -> Order:
    """Return what to play by the settings."""
    return Order(
        base_url=settings.base_url,
        seed=settings.seed,
        goal=settings.goal,
        runs_dir=settings.runs_dir,
        mode=mode,
    )


def open_transport(talk: Talk, stop: StopRequest, notice: Callable[[str], object]) -> Transport:
    """Return the way to the service: over the network, or to the one in this process.

    Args:
        talk: how to talk to it.
        stop: ends an exchange.
        notice: is told what the environment changes.

    Raises:
        ConfigError: the environment names a file or a proxy that cannot be used.
        JournalError: the key of the local service cannot be kept in the runs folder.
    """
    if talk.is_local:
        session = new_session()
        session.mount(LOCAL_URL, LocalAdapter(Service(load_key(talk.runs_dir))))
        return Transport(session, Deadline(stop), Surroundings())
    surroundings = settle(os.environ, talk.base_url, use_proxies=talk.use_environment_proxies)
    for scheme, proxy in surroundings.proxies.items():
        notice(f"using the proxy {without_password(proxy)} for {scheme}")
    if key_log := os.environ.get(KEY_LOG_VARIABLE):
        notice(f"{KEY_LOG_VARIABLE} is set: the keys of each TLS connection go to {key_log}")
    return new_transport(stop, surroundings, talk.contact)


def new_client(talk: Talk, transport: Transport, clock: Clock, listener: Listener) -> Client:
    """Return a client of the service that the settings name."""
    return Client(
        transport,
        LOCAL_URL if talk.is_local else talk.base_url,
        talk.limits,
        clock=clock,
        listener=listener,
        wire_settings=talk.wire,
    )
