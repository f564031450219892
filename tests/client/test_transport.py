from __future__ import annotations

import gzip
import json
import re
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest
import requests
from fake_clock import FakeClock
from requests.adapters import BaseAdapter
from standins import (
    FIRST_ANSWER,
    KEY,
    Call,
    Connection,
    Plan,
    Reply,
    Request,
    StandIn,
    Talk,
    always,
    drip,
    hang,
    in_order,
    message,
    play,
    raw,
    reply,
)
from stopwatch import Stopwatch

from bot import __version__
from bot.client.clock import Clock, StopRequest
from bot.client.environment import Surroundings
from bot.client.failures import Kind
from bot.client.limits import Limits
from bot.client.redirects import ACTION_PATH
from bot.client.transport import (
    STOP_GRACE_S,
    Transport,
    Watchdog,
    describe_error,
    new_session,
    new_transport,
)
from bot.errors import ServiceUnavailable, Stopped, Unreadable
from bot.service import Service
from bot.wire.values import MAX_ANSWER

CERTIFICATE: Final = Path(__file__).with_name("service.pem")
SHORT: Final = Limits(timeout_s=0.3)
NEXT_TOKEN: Final[str] = json.loads(
    Service(KEY)
    .answer(
        "POST",
        ACTION_PATH,
        json.dumps({"stateToken": Talk.TOKEN, "action": Talk.ACTION.to_json()}).encode(),
    )
    .body
)["stateToken"]
"""What the first move brings."""


def request_bodies(server: StandIn) -> list[bytes]:
    return [request.body for request in server.requests]


# Lost answers

CUT_HEAD: Final = message(200, FIRST_ANSWER)[:60]
LOST: Final[dict[str, tuple[Reply, str]]] = {
    "closed without an answer": (raw(b""), "RemoteDisconnected"),
    "reset without an answer": (raw(b"", is_reset=True), "Connection|Remote"),
    "a head cut short": (raw(CUT_HEAD), ""),
    "a head reset": (raw(CUT_HEAD, is_reset=True), ""),
    "no HTTP at all": (raw(b"SSH-2.0-OpenSSH_9.2\r\n"), "BadStatusLine"),
    "a status that is none": (raw(b"HTTP/1.1 okay fine\r\n\r\n"), "BadStatusLine"),
    "another version": (raw(b"HTTP/9.9 200 OK\r\n\r\n"), ""),
    "an endless header": (raw(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000), "LineTooLong"),
    "too many headers": (raw(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n"), "headers"),
    "a body cut short": (raw(message(200, FIRST_ANSWER)[:-9]), "IncompleteRead"),
    "a body reset": (raw(message(200, FIRST_ANSWER)[:-9], is_reset=True), ""),
    "no body though announced": (raw(message(200, b"", ("Content-Length", "9"))), "IncompleteRead"),
    "lengths that differ": (
        raw(message(200, b"{}", ("Content-Length", "2"), ("Content-Length", "9"))),
        "Content-Length",
    ),
    "chunks broken off": (
        raw(message(200, b'5\r\n{"ok"\r\n', ("Transfer-Encoding", "chunked"))),
        "IncompleteRead",
    ),
    "a chunk broken off": (
        raw(message(200, b'50\r\n{"ok"', ("Transfer-Encoding", "chunked"))),
        "IncompleteRead",
    ),
    "a chunk of no size": (
        raw(message(200, b"zz\r\n{}\r\n0\r\n\r\n", ("Transfer-Encoding", "chunked"))),
        "",
    ),
    "a chunk of negative size": (
        raw(message(200, b"-1\r\n{}\r\n0\r\n\r\n", ("Transfer-Encoding", "chunked"))),
        "",
    ),
    "a chunk of minus five bytes": (
        raw(message(200, b"-5\r\n{}\r\n0\r\n\r\n", ("Transfer-Encoding", "chunked"))),
        "",
    ),
    "a length of minus five bytes": (raw(message(200, b"", ("Content-Length", "-5"))), ""),
    "gzip that is none": (
        reply(200, FIRST_ANSWER, ("Content-Encoding", "gzip")),
        "incorrect header check",
    ),
    "gzip within gzip": (
        reply(200, gzip.compress(FIRST_ANSWER), ("Content-Encoding", "gzip, gzip")),
        "incorrect header check",
    ),
    "deflate that is none": (reply(200, b"\xff" * 50, ("Content-Encoding", "deflate")), ""),
    "too many encodings": (reply(200, b"{}", ("Content-Encoding", ", ".join(["gzip"] * 50))), ""),
}


@pytest.mark.parametrize(("fault", "cause"), LOST.values(), ids=LOST)
def test_an_answer_that_is_lost_is_asked_for_again(
    fault: Reply, cause: str, clock: FakeClock
) -> None:
    with StandIn(in_order(fault, fault)) as server:
        talk = Talk(server.url, clock)
        step = talk.act()
    assert (step.attempts, step.token) == (3, NEXT_TOKEN)
    assert {failure.kind for failure in talk.failures} == {Kind.TROUBLE}
    assert all(cause in text or any(map(text.count, cause.split("|"))) for text in talk.causes)
    assert len(request_bodies(server)) == 3
    assert len(set(request_bodies(server))) == 1


TOO_LONG: Final[dict[str, Reply]] = {
    "as it is": reply(200, b" " * (MAX_ANSWER + 1)),
    "packed": reply(200, gzip.compress(b" " * (MAX_ANSWER + 1)), ("Content-Encoding", "gzip")),
    "without an end": lambda connection: connection.send(
        message(200, b" " * (MAX_ANSWER + 2), ("Content-Length", str(2**40)))
    ),
}


@pytest.mark.parametrize("fault", TOO_LONG.values(), ids=TOO_LONG)
def test_an_answer_of_more_than_a_mebibyte_cannot_be_understood(
    fault: Reply, clock: FakeClock
) -> None:
    with StandIn(always(fault)) as server:
        talk = Talk(server.url, clock)
        with pytest.raises(Unreadable, match="longer than 1048576 bytes"):
            talk.act()
        assert len(server.requests) == 3
    assert clock.waits == [1, 2]


def test_a_page_of_more_than_a_mebibyte_counts_by_its_status(clock: FakeClock) -> None:
    fault = reply(503, b"x" * (MAX_ANSWER + 1), ("Retry-After", "4"))
    with StandIn(in_order(fault)) as server:
        talk = Talk(server.url, clock)
        assert talk.act().attempts == 2
    (failure,) = talk.failures
    assert (failure.kind, failure.status) == (Kind.TROUBLE, 503)
    assert talk.waits == [4]


@pytest.mark.parametrize("fault", TOO_LONG.values(), ids=TOO_LONG)
def test_an_answer_of_more_than_a_mebibyte_is_trouble_in_mid_run(
    fault: Reply, clock: FakeClock
) -> None:
    with StandIn(in_order(*[fault] * 4)) as server:
        talk = Talk(server.url, clock, is_under_way=True)
        assert talk.act().attempts == 5
    assert {failure.kind for failure in talk.failures} == {Kind.TROUBLE}


# Whole answers, however they come

PLAIN: Final = json.dumps(json.loads(FIRST_ANSWER), ensure_ascii=False).encode()
assert not PLAIN.isascii()


def chunked(body: bytes, size: int = 7) -> bytes:
    parts = [body[start : start + size] for start in range(0, len(body), size)]
    return b"".join(b"%X;x=y\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


WHOLE: Final[dict[str, Reply]] = {
    "in UTF-8": reply(200, PLAIN),
    "in ASCII": reply(200, FIRST_ANSWER),
    "with a byte order mark": reply(200, b"\xef\xbb\xbf" + PLAIN),
    "labelled latin-1": reply(200, PLAIN, ("Content-Type", "application/json; charset=latin-1")),
    "labelled UTF-16": reply(200, PLAIN, ("Content-Type", "application/json; charset=utf-16")),
    "labelled with a strange charset": reply(
        200, PLAIN, ("Content-Type", "text/plain;charset=\xff")
    ),
    "labelled as a page": reply(200, PLAIN, ("Content-Type", "text/html")),
    "without a label": reply(200, PLAIN, ("Content-Type", "")),
    "gzipped": reply(200, gzip.compress(PLAIN), ("Content-Encoding", "gzip")),
    "deflated": reply(200, zlib.compress(PLAIN), ("Content-Encoding", "deflate")),
    "labelled identity": reply(200, PLAIN, ("Content-Encoding", "identity")),
    "in chunks": reply(200, chunked(PLAIN), ("Transfer-Encoding", "chunked")),
    "gzipped in chunks": reply(
        200,
        chunked(gzip.compress(PLAIN)),
        ("Transfer-Encoding", "chunked"),
        ("Content-Encoding", "gzip"),
    ),
    "until the end of the connection": raw(
        b"HTTP/1.0 200 OK\r\ncontent-type: application/json\r\n\r\n" + PLAIN
    ),
    "after 100 Continue": lambda connection: connection.send(
        b"HTTP/1.1 100 Continue\r\n\r\n" * 3 + message(200, PLAIN)
    ),
    "after other informational answers": lambda connection: connection.send(
        b"HTTP/1.1 102 Processing\r\n\r\n"
        b"HTTP/1.1 100 Continue\r\n\r\n"
        b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n" + message(200, PLAIN)
    ),
    "almost 1 MiB long": reply(200, PLAIN + b" " * (MAX_ANSWER - len(PLAIN))),
    "with a strange cookie": reply(200, PLAIN, ("Set-Cookie", "a=b; expires=never; \x01")),
}


@pytest.mark.parametrize("answer", WHOLE.values(), ids=WHOLE)
def test_a_whole_answer_is_taken_however_it_comes(answer: Reply, clock: FakeClock) -> None:
    with StandIn(always(answer)) as server:
        talk = Talk(server.url, clock)
        assert talk.begin().token == Talk.TOKEN
    assert talk.causes == []
    assert len(server.requests) == 1


# Connections


@contextmanager
def closed_port() -> Iterator[int]:
    """Keep a port on which nothing listens."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        yield sock.getsockname()[1]


def test_a_service_that_is_not_there_is_tried_until_it_is_time_to_give_up(
    clock: FakeClock,
) -> None:
    with closed_port() as port:
        talk = Talk(f"http://127.0.0.1:{port}", clock)
        with pytest.raises(ServiceUnavailable, match=r"gave up on flip 2 at .* refused"):
            talk.act()
    assert 840 < sum(clock.waits) <= 900
    assert all("ConnectionRefusedError" in cause for cause in talk.causes)


def test_a_service_that_comes_back_is_found(clock: FakeClock) -> None:
    with closed_port() as port:
        pass
    with ExitStack() as stack:
        talk = Talk(f"http://127.0.0.1:{port}", clock)

        def come_back(_: float) -> None:
            if len(clock.waits) == 3:
                stack.enter_context(StandIn(port=port))

        clock.when_asleep = come_back
        assert talk.act().attempts == 4


def test_a_name_that_is_not_known_is_tried_again(clock: FakeClock) -> None:
    talk = Talk("http://no-such-host.invalid", clock)
    with pytest.raises(ServiceUnavailable, match="Name or service not known"):
        talk.act()
    assert len(talk.failures) > 10


def test_a_connection_is_kept_for_many_requests(tmp_path: Path, clock: FakeClock) -> None:
    with StandIn() as server:
        assert play(server.url, tmp_path, clock).exit_code == 0
        assert (len(server.requests), server.connections) == (71, 1)


def test_a_connection_that_the_server_closed_is_opened_anew(clock: FakeClock) -> None:
    with StandIn(always(reply(200, FIRST_ANSWER, ("Connection", "close")))) as server:
        talk = Talk(server.url, clock)
        for _ in range(3):
            talk.begin()
        assert server.connections == 3
    assert talk.causes == []


@pytest.mark.parametrize("status", [100, 102, 103])
def test_each_move_reads_its_own_answer_though_an_informational_one_comes_long_before(
    status: int, tmp_path: Path, clock: FakeClock
) -> None:
    def hinted(connection: Connection) -> None:
        connection.send(f"HTTP/1.1 {status} Wait\r\nX: y\r\n\r\n".encode())
        connection.wait(0.02)

    with StandIn() as server:
        answer_truly = server._truly

        def plan(request: Request, _: int) -> Reply:
            def both(connection: Connection) -> None:
                hinted(connection)
                answer_truly(request)(connection)

            return both

        server.plan = plan
        outcome = play(server.url, tmp_path, clock, Call(bank_at=400))
        assert (outcome.exit_code, outcome.run.retries) == (0, 0)
        assert (server.connections, len(server.requests)) == (1, outcome.run.requests)


@pytest.mark.parametrize(
    "fault",
    [
        reply(503, b"x" * (MAX_ANSWER + 1000)),
        reply(200, b" " * (MAX_ANSWER + 1000)),
        lambda connection: connection.send(message(200, b"{", ("Content-Length", "2"))),
    ],
    ids=["long page", "long answer", "half an answer"],
)
def test_the_connection_of_an_answer_that_was_not_read_to_its_end_is_closed(
    fault: Reply, clock: FakeClock
) -> None:
    with StandIn(in_order(fault)) as server:
        talk = Talk(server.url, clock, SHORT)
        attempts = talk.act().attempts
        assert attempts >= 2
        assert server.connections == attempts


def test_the_connection_of_an_answer_that_was_read_to_its_end_is_kept(clock: FakeClock) -> None:
    with StandIn(in_order(reply(503, b"x" * 100_000))) as server:
        assert Talk(server.url, clock).act().attempts == 2
        assert server.connections == 1


def test_bytes_after_an_answer_are_not_the_next_answer(clock: FakeClock) -> None:
    other = {**json.loads(FIRST_ANSWER), "score": 999}

    def twice(connection: Connection) -> None:
        connection.send(message(503, b"") + message(200, json.dumps(other).encode()))

    with StandIn(in_order(twice)) as server:
        talk = Talk(server.url, clock)
        assert talk.act().token == NEXT_TOKEN
    assert [failure.status for failure in talk.failures] == [503]


@pytest.mark.slow
def test_an_address_that_does_not_connect_leaves_time_for_the_next(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as stack:
        deaf = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(2):  # a full queue: the next connection gets no answer at all
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(deaf.getsockname())
        server = stack.enter_context(StandIn())
        places = [deaf.getsockname(), ("127.0.0.1", server.port)]
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", place) for place in places]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        talk = Talk("http://sunpleat.test", clock, Limits(timeout_s=4))
        assert talk.act().attempts == 1


class Throwing(BaseAdapter):
    """A way to a service on which something is thrown."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    def send(self, *_: object, **__: object) -> requests.Response:
        raise self._error

    def close(self) -> None:
        """Have nothing to close."""


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (ValueError("no such chunk"), "ValueError: no such chunk"),
        (
            AttributeError("'NoneType' has no readline"),
            "AttributeError: 'NoneType' has no readline",
        ),
        (RuntimeError("can't start new thread"), "RuntimeError: can't start new thread"),
        (MemoryError("no room"), "MemoryError: no room"),
        (KeyError("x"), "KeyError: 'x'"),
        (RecursionError("too deep"), "RecursionError: too deep"),
    ],
    ids=repr,
)
def test_whatever_an_http_library_throws_is_an_attempt_that_failed(
    error: Exception, cause: str, clock: FakeClock
) -> None:
    session = new_session()
    session.mount("http://", Throwing(error))
    transport = Transport(session, Surroundings(), Watchdog(clock.stop))
    request = transport.prepare("GET", "http://sunpleat.test")
    with pytest.raises(OSError, match=re.escape(cause)):
        transport.send(request, 5)
    talk = Talk("http://sunpleat.test", clock, transport=transport)
    with pytest.raises(ServiceUnavailable):
        talk.act()
    assert {(failure.kind, failure.cause) for failure in talk.failures} == {(Kind.TROUBLE, cause)}


def test_a_machine_without_threads_is_an_attempt_that_failed(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start
    refused: list[str] = []

    def refuse(thread: threading.Thread) -> None:
        if thread.name in ("watchdog", "connect") and len(refused) < 3:
            refused.append(thread.name)
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with StandIn() as server:
        talk = Talk(server.url, clock)
        assert talk.act().attempts == 4
    assert talk.causes == ["RuntimeError: can't start new thread"] * 3


def test_every_request_says_who_sends_it(clock: FakeClock) -> None:
    with StandIn() as server:
        talk = Talk(server.url, clock)
        talk.begin()
        talk.act()
        for request in server.requests:
            agent = request.headers["user-agent"]
            assert agent.startswith(f"sunpleat-bot/{__version__} ")
            assert "python-requests" not in agent
            assert request.headers["accept"] == "application/json"
        first, second = server.requests
    assert (first.method, first.target) == ("GET", "/api/games/sunpleat/init?seed=7")
    assert (second.method, second.target) == ("POST", "/api/games/sunpleat/action")
    assert second.headers["content-type"] == "application/json"
    assert json.loads(second.body) == {
        "stateToken": Talk.TOKEN,
        "action": {"type": "flip", "count": 2},
    }


@pytest.mark.parametrize(
    ("contact", "agent"),
    [
        ("", f"sunpleat-bot/{__version__} (unattended player of Sunpleat)"),
        ("a@b.test", f"sunpleat-bot/{__version__} (unattended player of Sunpleat; a@b.test)"),
    ],
)
def test_a_request_says_whom_to_reach_where_a_setting_does(
    contact: str, agent: str, clock: FakeClock
) -> None:
    with StandIn() as server:
        transport = new_transport(clock.stop, Surroundings(), contact)
        Talk(server.url, clock, transport=transport).begin()
        assert server.requests[0].headers["user-agent"] == agent


def test_nothing_of_the_environment_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: FakeClock
) -> None:
    netrc = tmp_path / ".netrc"
    netrc.write_text("default login somebody password secret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("HOME", str(tmp_path))
    with closed_port() as port:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{port}")
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nowhere")
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        with StandIn() as server:
            talk = Talk(server.url, clock)
            talk.begin()
            talk.act()
    assert talk.causes == []
    assert {"authorization", "cookie"} & set(server.requests[0].headers) == set()


def test_cookies_are_not_carried_on(clock: FakeClock) -> None:
    with StandIn(always(reply(200, FIRST_ANSWER, ("Set-Cookie", "a=b; Path=/")))) as server:
        talk = Talk(server.url, clock)
        for _ in range(2):
            talk.begin()
        assert all("cookie" not in request.headers for request in server.requests)


def test_a_proxy_is_used_where_it_was_settled(clock: FakeClock) -> None:
    with StandIn(always(reply(200, FIRST_ANSWER))) as proxy:
        surroundings = Surroundings(proxies={"http": proxy.url})
        transport = new_transport(clock.stop, surroundings)
        talk = Talk("http://sunpleat.test", clock, transport=transport)
        talk.begin()
        (request,) = proxy.requests
    assert request.target == "http://sunpleat.test/api/games/sunpleat/init?seed=7"


# Deadlines

FOREVER: Final = b" " * 10_000
DRIPS: Final[dict[str, Reply]] = {
    "nothing": hang(),
    "a head and no body": hang(message(200, b"", ("Content-Length", "9"))),
    "a body": drip(message(200, FOREVER), at_once=90),
    "a body in bursts": drip(message(200, FIRST_ANSWER + FOREVER), at_once=2000),
    "a body of the size of chunks": drip(
        message(200, FOREVER, ("Transfer-Encoding", "chunked")), at_once=90
    ),
    "the status line": drip(b"HTTP/1.1 200 " + FOREVER),
    "a header": drip(b"HTTP/1.1 200 OK\r\nX: " + FOREVER, at_once=20),
    "headers": drip(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1000, at_once=20, every_s=0.005),
    "100 Continue": drip(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000, every_s=0.0005),
    "a body until the end of the connection": drip(
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + FIRST_ANSWER + FOREVER,
        at_once=len(FIRST_ANSWER) + 60,
    ),
    "the answer after an informational one": hang(b"HTTP/1.1 103 Early Hints\r\n\r\n"),
    "an error page": drip(message(503, FOREVER), at_once=90),
    "a redirect": drip(message(302, FOREVER, ("Location", "/elsewhere")), at_once=90),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", DRIPS.values(), ids=DRIPS)
def test_an_answer_that_drips_ends_at_the_deadline_and_is_asked_for_again(
    fault: Reply, clock: FakeClock
) -> None:
    with StandIn(in_order(fault)) as server:
        talk = Talk(server.url, clock, SHORT)
        began_at = time.monotonic()
        with Stopwatch() as stopwatch:
            step = talk.act()
    assert time.monotonic() - began_at >= 0.3
    assert stopwatch.seconds < 10
    assert talk.causes
    assert all("in time" in cause or "timed out" in cause for cause in talk.causes)
    assert (step.attempts, step.token) == (1 + len(talk.causes), NEXT_TOKEN)


def test_an_answer_that_comes_slowly_but_in_time_is_taken(clock: FakeClock) -> None:
    def slowly(connection: Connection) -> None:
        data = message(200, FIRST_ANSWER)
        for start in range(0, len(data), 200):
            connection.send(data[start : start + 200])
            connection.wait(0.02)

    with StandIn(always(slowly)) as server:
        talk = Talk(server.url, clock, Limits(timeout_s=5))
        talk.begin()
    assert talk.causes == []


def test_a_body_that_our_own_hanging_up_cuts_is_no_answer(clock: FakeClock) -> None:
    whole_but_open = b"HTTP/1.1 200 OK\r\n\r\n" + FIRST_ANSWER
    dripping = drip(whole_but_open + b" " * 10_000, at_once=len(whole_but_open))
    with StandIn(always(dripping)) as server:
        transport = new_transport(clock.stop, Surroundings())
        with pytest.raises(TimeoutError, match="no whole answer in time"):
            transport.send(transport.prepare("GET", server.url), 0.3)


def test_a_service_that_does_not_take_the_request_is_hung_up_on(clock: FakeClock) -> None:
    transport = new_transport(clock.stop, Surroundings())
    with silent_port() as port:
        request = transport.prepare("POST", f"http://127.0.0.1:{port}")
        request.body = b"x" * 50_000_000
        with Stopwatch() as stopwatch, pytest.raises(OSError, match=r"timed out|in time"):
            transport.send(request, 0.5)
        assert stopwatch.seconds < 3


@contextmanager
def silent_port() -> Iterator[int]:
    """Keep a port that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        yield sock.getsockname()[1]


@pytest.mark.slow
def test_a_tls_handshake_that_hangs_ends_at_the_deadline(clock: FakeClock) -> None:
    with silent_port() as port:
        talk = Talk(f"https://127.0.0.1:{port}", clock, Limits(timeout_s=0.2, give_up_after_s=1))
        with pytest.raises(ServiceUnavailable, match=r"(?i)time"):
            talk.act()
    assert len(talk.failures) >= 1


@pytest.mark.slow
def test_a_look_up_of_a_name_that_hangs_ends_at_the_deadline(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_over = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: is_over.wait(60) and [])
    talk = Talk("http://sunpleat.test", clock, Limits(timeout_s=0.2, give_up_after_s=1))
    with pytest.raises(ServiceUnavailable, match="no whole answer in time"):
        talk.act()
    is_over.set()


def test_time_outs_as_long_as_one_likes_are_taken(clock: FakeClock) -> None:
    with StandIn() as server:
        talk = Talk(server.url, clock, Limits(timeout_s=1e12, give_up_after_s=1e12))
        assert talk.act().token == NEXT_TOKEN


@pytest.fixture
def watchdog() -> Watchdog:
    return Watchdog(StopRequest())


def hang_until_it_is_over(watchdog: Watchdog) -> None:
    """Run what cannot be interrupted in an attempt that has little time."""
    watchdog.begin(0.1)
    hanging = threading.Event()
    with pytest.raises(TimeoutError, match="no connection in time"):
        watchdog.run(lambda: hanging.wait(60))
    hanging.set()
    with pytest.raises(TimeoutError, match="no whole answer in time"):
        watchdog.end()


def test_an_operation_that_cannot_be_interrupted_is_left_behind_at_the_deadline(
    watchdog: Watchdog,
) -> None:
    hang_until_it_is_over(watchdog)


def test_what_such_an_operation_raises_is_raised(watchdog: Watchdog) -> None:
    watchdog.begin(60)
    with pytest.raises(ZeroDivisionError):
        watchdog.run(lambda: 1 // 0)
    watchdog.end()


def test_an_attempt_that_ended_in_time_is_not_hung_up_on(watchdog: Watchdog) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        watchdog.begin(1)
        watchdog.watch(ours)
        watchdog.end()
        threading.Event().wait(1.3)
        theirs.send(b"x")
        assert ours.recv(1) == b"x"


def test_the_next_attempt_has_a_time_of_its_own(watchdog: Watchdog) -> None:
    hang_until_it_is_over(watchdog)
    watchdog.begin(60)
    watchdog.run(lambda: threading.Event().wait(0.01))
    watchdog.end()


# Stops


def stopped_in(plan: Plan, after_s: float = 0.2) -> float:
    """Ask to stop while an answer is awaited; return how long the stop took."""
    stop = StopRequest()
    with StandIn(plan) as server:
        talk = Talk(server.url, Clock(stop))
        timer = threading.Timer(after_s, stop.ask, [15])
        timer.start()
        with Stopwatch() as stopwatch, pytest.raises(Stopped, match="SIGTERM"):
            talk.act()
        timer.join()
        assert len(server.requests) == 1
        return stopwatch.seconds - after_s


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["nothing", "a body", "the status line"])
def test_a_stop_ends_an_answer_that_hangs_or_drips(kind: str) -> None:
    assert stopped_in(always(DRIPS[kind])) < 3


def test_a_stop_ends_a_handshake_that_hangs() -> None:
    stop = StopRequest()
    with silent_port() as port:
        talk = Talk(f"https://127.0.0.1:{port}", Clock(stop))
        timer = threading.Timer(0.1, stop_long_ago, [stop])
        timer.start()
        with Stopwatch() as stopwatch, pytest.raises(Stopped, match="SIGTERM"):
            talk.act()
        timer.join()
        assert stopwatch.seconds < 3


def stop_long_ago(stop: StopRequest) -> None:
    stop.ask(15)
    stop.asked_at -= STOP_GRACE_S


def test_a_stop_ends_a_request_that_is_not_taken() -> None:
    stop = StopRequest()
    transport = new_transport(stop, Surroundings())
    with silent_port() as port:
        request = transport.prepare("POST", f"http://127.0.0.1:{port}")
        request.body = b"x" * 50_000_000
        timer = threading.Timer(0.1, stop_long_ago, [stop])
        timer.start()
        with Stopwatch() as stopwatch, pytest.raises(Stopped):
            transport.send(request, 30)
        timer.join()
        assert stopwatch.seconds < 3


def test_a_stop_ends_an_answer_that_hangs_on_a_connection_kept_from_before() -> None:
    stop = StopRequest()
    with StandIn(in_order(None, hang())) as server:
        talk = Talk(server.url, Clock(stop))
        talk.act()
        timer = threading.Timer(0.1, stop_long_ago, [stop])
        timer.start()
        with Stopwatch() as stopwatch, pytest.raises(Stopped):
            talk.act()
        timer.join()
        assert stopwatch.seconds < 3
        assert server.connections == 1


def test_a_stop_ends_a_look_up_of_a_name_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    stop, is_over = StopRequest(), threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: is_over.wait(60) and [])
    timer = threading.Timer(0.1, stop_long_ago, [stop])
    timer.start()
    with Stopwatch() as stopwatch, pytest.raises(Stopped, match="SIGTERM"):
        Talk("http://sunpleat.test", Clock(stop)).act()
    timer.join()
    is_over.set()
    assert stopwatch.seconds < 3


def test_a_stop_ends_a_wait_at_once() -> None:
    assert stopped_in(always(reply(503, b"", ("Retry-After", "600")))) < 1.5


@pytest.mark.slow
def test_an_answer_that_comes_whole_after_the_stop_is_taken() -> None:
    stop = StopRequest()

    def answer_late(_: Request, __: int) -> None:
        stop.ask(15)
        threading.Event().wait(0.3)

    with StandIn(answer_late) as server:
        talk = Talk(server.url, Clock(stop))
        assert talk.act().token == NEXT_TOKEN
        with pytest.raises(Stopped):
            talk.act()
        assert len(server.requests) == 1


# TLS


@pytest.fixture
def tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    return context


def trusting(url: str, clock: Clock, limits: Limits | None = None) -> Talk:
    transport = new_transport(clock.stop, Surroundings(ca_bundle=str(CERTIFICATE)))
    return Talk(url, clock, limits, transport=transport)


def test_a_service_with_a_trusted_certificate_is_talked_to_on_one_connection(
    tls: ssl.SSLContext, clock: FakeClock
) -> None:
    with StandIn(tls=tls) as server:
        talk = trusting(f"https://sunpleat.test:{server.port}", clock)
        for _ in range(5):
            assert talk.act().token == NEXT_TOKEN
        assert server.connections == 1
    assert talk.failures == []


@pytest.mark.slow
def test_an_answer_that_drips_through_tls_ends_at_the_deadline_too(
    tls: ssl.SSLContext, clock: FakeClock
) -> None:
    with StandIn(in_order(drip(message(200, FOREVER), at_once=90)), tls=tls) as server:
        talk = trusting(f"https://sunpleat.test:{server.port}", clock, Limits(timeout_s=1))
        assert talk.act().token == NEXT_TOKEN
        assert server.connections == 1 + len(talk.failures)
    assert {failure.kind for failure in talk.failures} == {Kind.TROUBLE}


def test_a_service_with_another_certificate_is_not_talked_to(
    tls: ssl.SSLContext, clock: FakeClock
) -> None:
    with StandIn(tls=tls) as server:
        talk = Talk(server.url, clock, Limits(give_up_after_s=2))
        with pytest.raises(ServiceUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
            talk.act()
        assert server.requests == []


def test_a_service_with_the_certificate_of_another_host_is_not_talked_to(
    tls: ssl.SSLContext, clock: FakeClock
) -> None:
    with StandIn(tls=tls) as server:
        talk = trusting(f"https://other.test:{server.port}", clock)
        with pytest.raises(ServiceUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
            talk.act()
        assert server.requests == []


# Words


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (TimeoutError("no whole answer in time"), "TimeoutError: no whole answer in time"),
        (OSError("the answer is too long"), "the answer is too long"),
        (OSError(5, "Input/output error"), "[Errno 5] Input/output error"),
        (
            requests.ConnectionError(OSError("x", ConnectionResetError(104, "reset\nby peer"))),
            "ConnectionResetError: [Errno 104] reset by peer",
        ),
    ],
    ids=repr,
)
def test_an_error_is_told_in_one_line_by_its_innermost_reason(
    error: BaseException, text: str
) -> None:
    assert describe_error(error) == text


def test_a_session_looks_at_nothing_of_the_machine() -> None:
    assert new_session().trust_env is False


def test_a_test_that_reaches_for_another_machine_fails() -> None:
    with socket.socket() as sock, pytest.raises(pytest.fail.Exception, match="tried to reach"):
        sock.connect(("192.0.2.1", 80))
    with pytest.raises(socket.gaierror):
        socket.create_connection(("gameboard.gg", 443), timeout=0.1)
