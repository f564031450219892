"""Services that misbehave on purpose.

`StandIn` is a real HTTP server on a loopback port, down to the bytes: each request is answered
by a `Reply` of a plan, or truly, by the local service. `play` plays a sitting on any
service, over HTTP or in this process.
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, Self, TypeAlias

from bot import rules
from bot.client.client import Answered, Client, Failed
from bot.client.clock import Clock
from bot.client.environment import Surroundings
from bot.client.failures import Failure
from bot.client.limits import Limits
from bot.client.pace import Pace, shared_file
from bot.client.redirects import INIT_PATH
from bot.client.transport import Transport, new_session, new_transport
from bot.player import Mode, Order, Outcome
from bot.player import play as play_sitting
from bot.run import Run
from bot.service import LOCAL_URL, LocalAdapter, Service
from bot.strategy import AT_LEAST, Goal
from bot.wire.layout import Layout, WireSettings
from bot.wire.reading import read

KEY: Final = b"a key of the tests"
FIRST_ANSWER: Final = Service(KEY).answer("GET", f"{INIT_PATH}?seed=7", b"").body
"""The local service's answer to `init`."""


class Request(NamedTuple):
    """One request as it was received."""

    method: str
    target: str
    """Path and query."""
    headers: Mapping[str, str]
    """By lower-case name."""
    body: bytes

    @property
    def what(self) -> object:
        """What was asked for: an action, or None for `init`."""
        return json.loads(self.body)["action"] if self.body else None

    @property
    def token(self) -> object:
        """The token that was sent, None for `init`."""
        return json.loads(self.body)["stateToken"] if self.body else None


class Connection:
    """The server's end of a connection, for a reply to write to."""

    def __init__(self, sock: socket.socket, is_closing: threading.Event) -> None:
        self.is_open = True
        """Whether another request may follow."""
        self._sock = sock
        self._is_closing = is_closing

    def send(self, data: bytes) -> None:
        self._sock.sendall(data)

    def wait(self, seconds: float) -> bool:
        """Wait, but no longer than the server lives; return whether it still does."""
        return not self._is_closing.wait(seconds)

    def close(self) -> None:
        self.is_open = False

    def reset(self) -> None:
        """Close with a reset instead of an end."""
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.is_open = False


Reply: TypeAlias = Callable[[Connection], None]
Plan: TypeAlias = Callable[[Request, int], Reply | None]
"""Of a request and its number, from 1: how to answer it; None: truly."""
Header: TypeAlias = tuple[str, str]


def message(status: int, body: bytes, *headers: Header) -> bytes:
    """Return a whole HTTP answer; its length and content type are added where not given."""
    names = {name.lower() for name, _ in headers}
    lines = [*headers]
    if "content-type" not in names:
        lines.append(("Content-Type", "application/json"))
    if not names & {"content-length", "transfer-encoding"}:
        lines.append(("Content-Length", str(len(body))))
    known = HTTPStatus.__members__.values()
    phrase = HTTPStatus(status).phrase if status in known else "Unheard Of"
    head = "".join(f"{name}: {value}\r\n" for name, value in lines)
    return f"HTTP/1.1 {status} {phrase}\r\n{head}\r\n".encode("latin-1") + body


def reply(status: int, body: bytes | object = b"", *headers: Header) -> Reply:
    """Answer with a status and a body; anything but bytes is sent as JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return lambda connection: connection.send(message(status, data, *headers))


def raw(data: bytes, *, is_reset: bool = False) -> Reply:
    """Send bytes as they are, then close, with a reset if asked for."""

    def send(connection: Connection) -> None:
        connection.send(data)
        (connection.reset if is_reset else connection.close)()

    return send


def drip(data: bytes, *, at_once: int = 0, every_s: float = 0.02) -> Reply:
    """Send the first bytes `at_once`, then one at a time; the last one is never sent."""

    def send(connection: Connection) -> None:
        connection.close()
        connection.send(data[:at_once])
        for byte in data[at_once:-1]:
            connection.send(bytes((byte,)))
            if not connection.wait(every_s):
                return
        connection.wait(60)

    return send


def hang(data: bytes = b"") -> Reply:
    """Send some bytes, then nothing, and keep the connection open."""

    def send(connection: Connection) -> None:
        connection.close()
        connection.send(data)
        connection.wait(60)

    return send


def truly(_: Request, __: int) -> None:
    """Answer every request as the local service does."""


def in_order(*replies: Reply | None) -> Plan:
    """Answer the first requests by these replies, in order, and all that follow truly."""
    return lambda _, number: replies[number - 1] if number <= len(replies) else None


def always(answer: Reply) -> Plan:
    """Answer every request alike."""
    return lambda _, __: answer


class StandIn:
    """A server on a loopback port, for use in a `with`; every request is answered by a plan."""

    def __init__(
        self,
        plan: Plan = truly,
        service: Service | None = None,
        *,
        port: int = 0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.requests: list[Request] = []
        """Every whole request so far."""
        self.connections = 0
        """Accepted so far."""
        self.plan = plan
        self._service = service or Service(KEY)
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port: int = self._listener.getsockname()[1]
        self._is_closing = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._open: set[socket.socket] = set()

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    @property
    def actions(self) -> list[object]:
        """Every action that was sent, in order; None for `init`."""
        return [request.what for request in self.requests]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening and end every connection."""
        self._is_closing.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for sock in self._open:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self._listener.accept()
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.connections += 1
                if self._tls is not None:
                    sock = self._tls.wrap_socket(
                        sock, server_side=True, do_handshake_on_connect=False
                    )
                thread = threading.Thread(target=self._serve, args=(sock,), daemon=True)
                with self._lock:
                    self._open.add(sock)
                self._threads.append(thread)
                thread.start()

    def _serve(self, sock: socket.socket) -> None:
        connection = Connection(sock, self._is_closing)
        with sock, sock.makefile("rb") as stream, contextlib.suppress(OSError):
            if isinstance(sock, ssl.SSLSocket):
                sock.do_handshake()
            while connection.is_open and (request := _read_request(stream)):
                with self._lock:
                    self.requests.append(request)
                    number = len(self.requests)
                (self.plan(request, number) or self._truly(request))(connection)
        with self._lock:
            self._open.discard(sock)

    def _truly(self, request: Request) -> Reply:
        answer = self._service.answer(request.method, request.target, request.body)
        return reply(answer.status, answer.body)


def _read_request(stream: BinaryIO) -> Request | None:
    """Read a request to its last byte; None where there is no whole one."""
    first = stream.readline().split()
    if len(first) != 3:
        return None
    headers = {}
    while (line := stream.readline()).strip():
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.lower()] = value.strip()
    body = stream.read(int(headers.get("content-length", "0")))
    method, target, _ = (part.decode("latin-1") for part in first)
    return Request(method, target, headers, body) if line else None


class Note(NamedTuple):
    """One request that brought no accepted answer, as a watcher is told of it."""

    what: str
    failure: Failure
    wait_s: float


class Watcher:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.notes: list[Note] = []
        self.notices: list[str] = []

    def began(self, run: Run, path: Path) -> None:
        pass

    def moved(self, run: Run, elapsed_ms: float) -> None:
        pass

    def failed(self, what: str, failure: Failure, wait_s: float) -> None:
        self.notes.append(Note(what, failure, wait_s))

    def notice(self, text: str) -> None:
        self.notices.append(text)


def transport_to(service: Service | str, clock: Clock) -> Transport:
    """Return the way to a service in this process, or over HTTP to one at a base URL."""
    if isinstance(service, str):
        return new_transport(clock.stop, Surroundings())
    session = new_session()
    session.mount(LOCAL_URL, LocalAdapter(service))
    return Transport(session, Surroundings(), None)


def first_layout(settings: WireSettings = WireSettings()) -> Layout:  # noqa: B008 - it is frozen
    """Return how the local service lays out its first answer."""
    answer = json.loads(FIRST_ANSWER)
    return read(answer, rules.fresh(), None, Layout(), sent="", settings=settings).layout


class Talk:
    """A client in conversation with one service, about the first move of a run."""

    TOKEN: Final[str] = json.loads(FIRST_ANSWER)["stateToken"]
    ACTION: Final = rules.FLIPS[1]
    PREDICTED: Final = rules.apply(rules.fresh(), ACTION)

    def __init__(
        self,
        service: Service | str,
        clock: Clock,
        limits: Limits | None = None,
        *,
        transport: Transport | None = None,
        max_rps: float | None = None,
        is_under_way: bool = False,
    ) -> None:
        self.attempts: list[int] = []
        self.failures: list[Failure] = []
        """What the client said of each attempt that failed."""
        self.waits: list[float] = []
        self.pace = Pace(max_rps, clock)
        self.client = Client(
            transport or transport_to(service, clock),
            service if isinstance(service, str) else LOCAL_URL,
            limits or Limits(),
            clock=clock,
            pace=self.pace,
            wire_settings=WireSettings(),
        )
        self.client.resume(first_layout(), is_under_way=is_under_way)

    @property
    def causes(self) -> list[str]:
        return [failure.cause for failure in self.failures]

    def act(self) -> Answered:
        """Make the first move."""
        return self._take(self.client.act(self.TOKEN, self.ACTION, rules.fresh(), self.PREDICTED))

    def begin(self) -> Answered:
        """Ask for `init`."""
        self.client.resume(Layout(), is_under_way=False)
        return self._take(self.client.begin(7))

    def _take(self, attempts: Iterator[Failed | Answered]) -> Answered:
        for attempt in attempts:
            if isinstance(attempt, Answered):
                return attempt
            self.attempts.append(attempt.attempt)
            self.failures.append(attempt.failure)
            self.waits.append(attempt.wait_s)
        raise AssertionError("the client neither answered nor gave up")


@dataclass(frozen=True, slots=True)
class Call:
    """How the bot is called; the rest is as `play` says."""

    bank_at: int = 3030
    bank_rule: str = AT_LEAST
    limits: Limits = field(default_factory=Limits)
    wire: WireSettings = field(default_factory=WireSettings)
    mode: Mode = Mode.GO_ON
    max_rps: float | None = None


PLAINLY: Final = Call()


def play(
    service: Service | str,
    runs_dir: Path,
    clock: Clock,
    call: Call = PLAINLY,
    watcher: Watcher | None = None,
) -> Outcome:
    """Play one sitting, of seed 7, on a service in this process or at a base URL."""
    base_url = service if isinstance(service, str) else LOCAL_URL

    def make_client() -> Client:
        return Client(
            transport_to(service, clock),
            base_url,
            call.limits,
            clock=clock,
            pace=Pace(call.max_rps, clock, shared_file(runs_dir, base_url)),
            wire_settings=call.wire,
        )

    order = Order(base_url, 7, Goal(call.bank_at, call.bank_rule), runs_dir, mode=call.mode)
    outcome = play_sitting(order, make_client, clock, watcher or Watcher())
    assert outcome is not None
    return outcome


def journal_lines(path: Path, event: str = "") -> Iterator[dict[str, object]]:
    """Yield the lines of a journal, or those of one event."""
    lines: Iterable[str] = path.read_text(encoding="ascii").splitlines()
    for line in lines:
        record: dict[str, object] = json.loads(line)
        if event in ("", record["event"]):
            yield record
