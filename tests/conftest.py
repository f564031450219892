"""What all tests share: no way out of this machine, and folders, calls and a clock of their own."""

from __future__ import annotations

import os
import socket
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

import pytest
from calls import Call, Said
from fake_clock import FakeClock
from harness import environment

from bot.cli import process
from bot.client.clock import Clock, StopRequest

OUTSIDE: Final = pytest.fail.Exception
"""What a connection to another machine ends with: no `except Exception` hides it."""


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin in an empty folder, with an environment that says nothing to the bot."""
    monkeypatch.chdir(tmp_path)
    for name in os.environ.keys() - environment().keys():
        monkeypatch.delenv(name)


@pytest.fixture
def call(alone: None, capsys: pytest.CaptureFixture[str]) -> Call:  # noqa: ARG001 - the folder
    """Call the bot in this process and an empty folder."""

    def run(*arguments: str) -> Said:
        code = process.run(list(arguments))
        return Said(code, *capsys.readouterr())

    return run


@pytest.fixture
def fake_clock_of_calls(clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    """Let every call of the bot play on a clock that nobody waits for."""

    def on_fake_clock(stop: StopRequest) -> Clock:
        clock.stop = stop
        return clock

    for verb in ("check", "play"):
        monkeypatch.setattr(f"bot.cli.{verb}.Clock", on_fake_clock)
    return clock


def _is_here(host: object) -> bool:
    """Tell whether a host is this machine; every name that ends in `.test` is."""
    if host in (None, "", b"") or str(host) == "localhost" or str(host).endswith(".test"):
        return True
    try:
        address = ip_address(str(host))
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified  # which any of its own stands for


@pytest.fixture(autouse=True)
def _stay_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail every connection to another machine; no name of another machine is ever looked up."""
    look_up = socket.getaddrinfo

    def getaddrinfo(host: Any, *args: Any, **kwargs: Any) -> Any:
        if not _is_here(host):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        is_name = isinstance(host, str) and host.endswith(".test")
        return look_up("127.0.0.1" if is_name else host, *args, **kwargs)

    def guard(method: str) -> None:
        connect = getattr(socket.socket, method)

        def guarded(sock: socket.socket, address: Any) -> Any:
            if isinstance(address, tuple) and not _is_here(address[0]):
                raise OUTSIDE(f"a test tried to reach {address}")
            return connect(sock, address)

        monkeypatch.setattr(socket.socket, method, guarded)

    guard("connect")
    guard("connect_ex")
    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the browser's tests alone where they are not asked for: they import its driver."""
    is_unwanted = "not browser" in (config.option.markexpr or "")
    return True if is_unwanted and collection_path.name == "test_report_browser.py" else None
