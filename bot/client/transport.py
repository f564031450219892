"""A requests session whose every attempt ends at a deadline, or when the bot has to stop.

The timeouts of requests bound each read of a socket, and a server that sends a byte in time,
over and over, never meets them. So a thread looks at the time, and at the wish to stop, and hangs
up on a connection that has had its time. Names are looked up and connections opened in a thread of
their own, since neither can be interrupted.
"""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import requests
from requests.adapters import HTTPAdapter
from requests.structures import CaseInsensitiveDict
from requests.utils import DEFAULT_ACCEPT_ENCODING
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from bot import __version__
from bot.client.clock import SLICE_S, StopRequest
from bot.client.environment import Surroundings
from bot.client.limits import LONGEST_TIMEOUT_S
from bot.errors import Stopped
from bot.wire.values import MAX_ANSWER

STOP_GRACE_S: Final = 1.5
"""How long an answer on its way is waited for once the bot has to stop, in seconds."""
IDLE_S: Final = 1.0
"""How long a watchdog stays without an attempt."""
ADDRESSES: Final = 4
"""Addresses of a host that can be tried in the time of one attempt."""
LEAST_CONNECT_S: Final = 1.0
"""What each has at least, where the attempt has as much: a handshake far away takes its time."""


class Watchdog:
    """Ends the attempt under way when it has had its time."""

    def __init__(self, stop: StopRequest) -> None:
        """Take the request that brings the end forward."""
        self._stop = stop
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._ends_at: float | None = None
        self._sock: socket.socket | None = None
        self._has_hung_up = False

    def begin(self, seconds: float) -> None:
        """Begin an attempt of at most `seconds`.

        Raises:
            RuntimeError: the system has no thread for us.
        """
        with self._lock:
            if self._thread is None:
                thread = threading.Thread(target=self._watch, daemon=True, name="watchdog")
                thread.start()  # it waits for this lock before it looks
                self._thread = thread
            self._ends_at = time.monotonic() + seconds
            self._has_hung_up = False
            self._sock = None

    def end(self) -> None:
        """End the attempt.

        Raises:
            TimeoutError: it had had its time.
            Stopped: the bot has to stop.
        """
        with self._lock:
            self._ends_at = self._sock = None
        if self._has_hung_up:
            self._stop.check()
            raise TimeoutError("no whole answer in time")

    def watch(self, sock: socket.socket) -> None:
        """Hang up on this connection, should it come to that."""
        self._sock = sock

    def run(self, operation: Callable[[], object]) -> None:
        """Run an operation that cannot be interrupted; leave it behind at the end of the attempt.

        Raises:
            TimeoutError: the attempt has had its time.
            RuntimeError: the system has no thread for us.
        """
        failure: list[BaseException] = []
        done = threading.Event()

        def work() -> None:
            try:
                operation()
            except BaseException as exc:  # noqa: BLE001 - raised again in the waiting thread
                failure.append(exc)
            finally:
                done.set()

        threading.Thread(target=work, daemon=True, name="connect").start()
        while not done.wait(SLICE_S):
            if self._has_hung_up:
                raise TimeoutError("no connection in time")
        if failure:
            raise failure[0]

    def _watch(self) -> None:
        """Watch until there has been no attempt for a while."""
        watched_at = time.monotonic()
        while True:
            time.sleep(SLICE_S)
            with self._lock:
                now = time.monotonic()
                if self._ends_at is not None:
                    watched_at = now
                    if self._is_over(now):
                        self._hang_up()
                elif now > watched_at + IDLE_S:
                    self._thread = None
                    return

    def _is_over(self, now: float) -> bool:
        is_stopping = self._stop.signal_number is not None
        is_late = is_stopping and now >= self._stop.asked_at + STOP_GRACE_S
        return is_late or now >= (self._ends_at or now)

    def _hang_up(self) -> None:
        self._has_hung_up = True
        if self._sock is not None:
            inner = getattr(self._sock, "socket", self._sock)  # of TLS within TLS
            with suppress(OSError):  # it is closed already
                socket.socket.shutdown(inner, socket.SHUT_RDWR)  # below TLS, which is not asked


class _Response(http.client.HTTPResponse):
    """A response that reads past every informational one, not only past `100 Continue`."""

    def _read_status(self) -> tuple[str, int, str]:
        while True:
            line: tuple[str, int, str] = super()._read_status()  # type: ignore[misc]  # not in typeshed
            if not 100 < line[1] < 200:
                return line
            http.client.parse_headers(self.fp)


class _WatchedMixin:
    """A connection of urllib3 that opens in a thread, and that can be hung up on.

    A request is held back until its answer is awaited, so that head and body leave in one segment.
    """

    response_class = _Response
    sock: Any
    watchdog: Watchdog
    _held: bytes | None = None

    def connect(self) -> None:
        self.watchdog.run(super().connect)  # type: ignore[misc]  # the connection's, by the order of bases
        self.watchdog.watch(self.sock)

    def request(self, *args: Any, **kwargs: Any) -> None:
        if self.sock is None:
            self.connect()
        self.watchdog.watch(self.sock)
        self._held = b""
        super().request(*args, **kwargs)  # type: ignore[misc]  # likewise

    def send(self, data: bytes) -> None:
        if self._held is None:
            super().send(data)  # type: ignore[misc]  # likewise
        else:
            self._held += data

    def getresponse(self) -> Any:
        held, self._held = self._held, None
        self.send(held or b"")
        return super().getresponse()  # type: ignore[misc]  # likewise


class WatchedAdapter(HTTPAdapter):
    """A transport of requests whose connections one watchdog looks after."""

    def __init__(self, watchdog: Watchdog) -> None:
        """Take the watchdog that is told of each attempt."""
        self._watchdog = watchdog
        super().__init__(pool_connections=4, pool_maxsize=1, max_retries=0)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Make the pools of requests with connections of ours."""
        super().init_poolmanager(*args, **kwargs)
        self._use_watched(self.poolmanager)

    def proxy_manager_for(self, *args: Any, **kwargs: Any) -> Any:
        """Make the pools of a proxy with connections of ours."""
        manager = super().proxy_manager_for(*args, **kwargs)
        self._use_watched(manager)
        return manager

    def _use_watched(self, manager: Any) -> None:
        manager.pool_classes_by_scheme = {
            "http": _pool(HTTPConnectionPool, HTTPConnection, self._watchdog),
            "https": _pool(HTTPSConnectionPool, HTTPSConnection, self._watchdog),
        }


def _pool(pool: type, connection: type, watchdog: Watchdog) -> type:
    """Return a kind of pool whose connections have the watchdog."""
    watched = type(connection.__name__, (_WatchedMixin, connection), {"watchdog": watchdog})
    return type(pool.__name__, (pool,), {"ConnectionCls": watched})


class Transport:
    """Sends one request at a time, and returns the whole answer or says why there is none."""

    def __init__(
        self, session: requests.Session, surroundings: Surroundings, watchdog: Watchdog | None
    ) -> None:
        """Take a `session`, and the watchdog of its connections if it has any."""
        self._session = session
        self._watchdog = watchdog
        self._ca_bundle = surroundings.ca_bundle
        self._proxies = dict(surroundings.proxies)

    def prepare(self, method: str, url: str) -> requests.PreparedRequest:
        """Return a request that can be sent any number of times.

        Raises:
            ValueError: the address is not a usable one.
        """
        request = requests.Request(method, url)
        if method == "POST":
            request.headers["Content-Type"] = "application/json"
        return self._session.prepare_request(request)

    def send(
        self, request: requests.PreparedRequest, timeout_s: float
    ) -> tuple[requests.Response, bytes]:
        """Send `request`; return the answer and its decoded body.

        The body is read to its last byte; of one that is longer than `MAX_ANSWER`, one byte more.

        Raises:
            OSError: there was no whole answer within `timeout_s`.
            Stopped: the bot has to stop.
        """
        if self._watchdog is None:
            return self._send(request, timeout_s)
        try:
            self._watchdog.begin(timeout_s)
            try:
                return self._send(request, timeout_s)
            finally:
                self._watchdog.end()
        except (OSError, Stopped):
            raise
        except Exception as exc:  # whatever an HTTP library throws is an attempt that failed
            raise OSError(describe_error(exc)) from exc

    def _send(
        self, request: requests.PreparedRequest, timeout_s: float
    ) -> tuple[requests.Response, bytes]:
        longest_s = min(timeout_s, LONGEST_TIMEOUT_S)
        response = self._session.get_adapter(request.url or "").send(
            request,
            timeout=(max(longest_s / ADDRESSES, min(longest_s, LEAST_CONNECT_S)), longest_s),
            stream=True,
            verify=self._ca_bundle,
            proxies=self._proxies,
        )
        with response:  # which keeps the connection of one that was read to its end
            body: bytes = response.raw.read(MAX_ANSWER + 1, decode_content=True)
        return response, body


def new_transport(stop: StopRequest, surroundings: Surroundings, contact: str = "") -> Transport:
    """Return a transport over the network that takes nothing else from the environment."""
    session = new_session(contact)
    watchdog = Watchdog(stop)
    adapter = WatchedAdapter(watchdog)
    session.mount("http://", adapter)
    session.mount("https://", adapter)
    return Transport(session, surroundings, watchdog)


def new_session(contact: str = "") -> requests.Session:
    """Return a session that says who it is, and looks at no variable and no `.netrc`.

    Args:
        contact: whom the service can reach about this bot; empty for nobody.
    """
    session = requests.Session()
    session.trust_env = False
    session.headers = CaseInsensitiveDict(
        {
            "User-Agent": user_agent(contact),
            "Accept": "application/json",
            "Accept-Encoding": DEFAULT_ACCEPT_ENCODING,
        }
    )
    return session


def user_agent(contact: str = "") -> str:
    """Say who asks, and whom to reach about it."""
    reach = f"; {contact}" if contact else ""
    return f"sunpleat-bot/{__version__} (unattended player of Sunpleat{reach})"


def describe_error(exc: BaseException) -> str:
    """Say in one line what broke an exchange: the innermost reason, which names it best."""
    while (inner := _reason(exc)) is not None:
        exc = inner
    name = "" if type(exc) is OSError else f"{type(exc).__name__}: "
    return " ".join(f"{name}{exc!s:.500}".split())


def _reason(exc: BaseException) -> BaseException | None:
    reasons = (getattr(exc, "reason", None), *reversed(exc.args), exc.__cause__)
    return next((reason for reason in reasons if isinstance(reason, BaseException)), None)
