"""A requests session whose every attempt ends at a deadline, or when the bot has to stop.

The timeouts of requests bound each read of a socket, and a server that sends a byte in time,
over and over, never meets them. Here the socket itself knows the deadline of the attempt: it
waits in short slices and looks at the time, and at the wish to stop, between them. Names are
resolved and connections opened in a thread of their own, since neither can be interrupted.
"""

from __future__ import annotations

import io
import socket
import threading
import time
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any, Final

import requests
from requests.adapters import HTTPAdapter
from requests.cookies import RequestsCookieJar
from requests.structures import CaseInsensitiveDict
from requests.utils import DEFAULT_ACCEPT_ENCODING
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import HTTPError

from bot import __version__
from bot.client.clock import SLICE_S, StopRequest
from bot.client.environment import Surroundings
from bot.client.limits import LONGEST_TIMEOUT_S

USER_AGENT: Final = f"sunpleat-bot/{__version__} (unattended player of Sunpleat)"

MAX_ANSWER: Final = 2**20
"""Bytes of the longest body that is taken for an answer."""
STOP_GRACE_S: Final = 1.5
"""How long an answer on its way is waited for once the bot has to stop, in seconds."""


class Deadline:
    """The end of the attempt under way."""

    def __init__(self, stop: StopRequest) -> None:
        """Take the request that brings the end forward."""
        self.expires_at = 0.0
        self._stop = stop

    def start(self, seconds: float) -> None:
        """Begin an attempt of at most `seconds`."""
        self.expires_at = time.monotonic() + seconds

    def next_slice(self) -> float:
        """Return how long to wait before asking again, in seconds.

        Raises:
            TimeoutError: the attempt has had its time.
            Stopped: the bot has to stop, and the answer has had its grace.
        """
        now = time.monotonic()
        if self._stop.signal_number is not None and now >= self._stop.asked_at + STOP_GRACE_S:
            self._stop.check()
        if now >= self.expires_at:
            raise TimeoutError("no whole answer in time")
        return min(self.expires_at - now, SLICE_S)

    def keep_trying(self, operation: Callable[[], int]) -> int:
        """Repeat a socket operation that times out after each slice until it returns."""
        while True:
            self.next_slice()
            try:
                return operation()
            except TimeoutError:
                continue

    def run(self, operation: Callable[[], None]) -> None:
        """Run an operation that cannot be interrupted; leave it behind at the deadline."""
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
        while not done.wait(self.next_slice()):
            pass
        if failure:
            raise failure[0]


class _Reader(io.RawIOBase):
    """The reading side of a `_Socket`."""

    def __init__(self, raw: socket.SocketIO, sock: socket.socket, deadline: Deadline) -> None:
        self._raw = raw  # holds the socket open until this is closed
        self._sock = sock
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._deadline.keep_trying(lambda: self._sock.recv_into(buffer))

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
        super().close()


class _Socket:
    """A connected socket under a deadline; all but sending and reading is the socket's own."""

    def __init__(self, sock: socket.socket, deadline: Deadline) -> None:
        sock.settimeout(SLICE_S)
        self._sock = sock
        self._deadline = deadline
        self._unsent = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)

    def settimeout(self, value: float | None) -> None:
        """Keep the slice; the deadline is what bounds an attempt."""

    def sendall(self, data: bytes) -> None:
        """Hold `data` back until an answer is awaited: head and body then leave in one segment."""
        self._unsent += data

    def makefile(self, *_: object, **__: object) -> io.BufferedReader:
        while self._unsent:
            sent = self._deadline.keep_trying(partial(self._sock.send, self._unsent))
            self._unsent = self._unsent[sent:]
        raw = self._sock.makefile("rb", buffering=0)
        return io.BufferedReader(_Reader(raw, self._sock, self._deadline))


class _DeadlineMixin:
    """A urllib3 connection that opens, sends and reads under a deadline."""

    sock: Any

    def __init__(self, *args: Any, deadline: Deadline, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._deadline = deadline

    def connect(self) -> None:
        self._deadline.run(super().connect)  # type: ignore[misc]  # the connection's, by the order of bases
        self.sock = _Socket(self.sock, self._deadline)


class _HTTPConnection(_DeadlineMixin, HTTPConnection):
    """Plain."""


class _HTTPSConnection(_DeadlineMixin, HTTPSConnection):
    """With TLS."""


class Received(requests.Response):
    """A response whose jar for cookies is made when it is asked for: few ever are."""

    def __init__(
        self,
        request: requests.PreparedRequest,
        status: int,
        headers: CaseInsensitiveDict[str],
        raw: Any,
    ) -> None:
        """Take what came back for `request`; `raw` is its body, to be read."""
        vars(self).update(_BLANK)
        self.request = request
        self.url = request.url or ""
        self.status_code = status
        self.headers = headers
        self.raw = raw

    @cached_property
    def cookies(self) -> RequestsCookieJar:  # type: ignore[override]  # it can be set, too
        """Those of this answer."""
        return RequestsCookieJar()


_BLANK: Final = {
    name: value for name, value in vars(requests.Response()).items() if name != "cookies"
}


class DeadlineAdapter(HTTPAdapter):
    """A transport of requests whose connections share one deadline."""

    def __init__(self, deadline: Deadline) -> None:
        """Take the deadline that is started before each attempt."""
        self._deadline = deadline
        self._pools: dict[str, Any] = {}
        self._targets: dict[str, str] = {}
        super().__init__(pool_connections=4, pool_maxsize=1, max_retries=0)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Make the pools of requests with connections of ours."""
        super().init_poolmanager(*args, **kwargs)
        self._use_deadlines(self.poolmanager)

    def proxy_manager_for(self, *args: Any, **kwargs: Any) -> Any:
        """Make the pools of a proxy with connections of ours."""
        manager = super().proxy_manager_for(*args, **kwargs)
        self._use_deadlines(manager)
        return manager

    def get_connection_with_tls_context(
        self, request: requests.PreparedRequest, *args: Any, **kwargs: Any
    ) -> Any:
        """Return the pool for a request; the same address has the same one each time."""
        url = request.url or ""
        if url not in self._pools:
            self._pools[url] = super().get_connection_with_tls_context(request, *args, **kwargs)
        return self._pools[url]

    def request_url(
        self, request: requests.PreparedRequest, proxies: Mapping[str, str] | None
    ) -> str:
        """Return what stands in the request line; the same for the same address."""
        url = request.url or ""
        if url not in self._targets:
            self._targets[url] = super().request_url(request, proxies)
        return self._targets[url]

    def build_response(self, req: requests.PreparedRequest, resp: Any) -> requests.Response:
        """Return the status, headers and body; no answer of ours needs cookies or a charset."""
        return Received(req, resp.status, resp.headers, resp)

    def _use_deadlines(self, manager: Any) -> None:
        manager.pool_classes_by_scheme = {
            "http": _pool(HTTPConnectionPool, _HTTPConnection, self._deadline),
            "https": _pool(HTTPSConnectionPool, _HTTPSConnection, self._deadline),
        }


def _pool(pool: type, connection: type, deadline: Deadline) -> type:
    """Return a kind of pool whose connections know the deadline."""
    return type(pool.__name__, (pool,), {"ConnectionCls": partial(connection, deadline=deadline)})


class Transport:
    """Sends one request at a time, and returns the whole answer or raises an `OSError`."""

    def __init__(
        self, session: requests.Session, deadline: Deadline, surroundings: Surroundings
    ) -> None:
        """Take a `session` whose adapters keep to `deadline`."""
        self._session = session
        self._deadline = deadline
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
        """Send `request`; return the answer and its decoded body, read to the last byte.

        Raises:
            OSError: there was no whole answer within `timeout_s`.
            Stopped: the bot has to stop.
        """
        self._deadline.start(timeout_s)
        try:
            response = self._session.get_adapter(request.url or "").send(
                request,
                timeout=min(timeout_s, LONGEST_TIMEOUT_S),
                stream=True,
                verify=self._ca_bundle,
                proxies=self._proxies,
            )
            with response:  # which keeps the connection of one that was read to its end
                body: bytes = response.raw.read(MAX_ANSWER + 1, decode_content=True)
        except HTTPError as exc:
            raise OSError(describe_error(exc)) from exc
        if len(body) > MAX_ANSWER:
            raise OSError(f"the answer is longer than {MAX_ANSWER} bytes")
        return response, body


def user_agent(contact: str = "") -> str:
    """Return who asks, with whom to reach where that is known."""
    return USER_AGENT.replace(")", f"; {contact})") if contact else USER_AGENT


def new_transport(stop: StopRequest, surroundings: Surroundings, contact: str = "") -> Transport:
    """Return a transport over the network that takes nothing else from the environment."""
    session = new_session(contact)
    deadline = Deadline(stop)
    adapter = DeadlineAdapter(deadline)
    session.mount("http://", adapter)
    session.mount("https://", adapter)
    return Transport(session, deadline, surroundings)


def new_session(contact: str = "") -> requests.Session:
    """Return a session that says who it is, and looks at no variable and no `.netrc`."""
    session = requests.Session()
    session.trust_env = False
    session.headers = CaseInsensitiveDict(
        {"User-Agent": user_agent(contact), "Accept-Encoding": DEFAULT_ACCEPT_ENCODING}
    )
    return session


def describe_error(exc: BaseException) -> str:
    """Say in one line what broke an exchange: the innermost reason, which names it best."""
    while (inner := _reason(exc)) is not None:
        exc = inner
    name = "" if type(exc) is OSError else f"{type(exc).__name__}: "
    return " ".join(f"{name}{exc}".split())


def _reason(exc: BaseException) -> BaseException | None:
    reasons = (getattr(exc, "reason", None), *reversed(exc.args), exc.__cause__)
    return next((reason for reason in reasons if isinstance(reason, BaseException)), None)
