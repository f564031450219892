from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
import requests
import waitress.buffers
import waitress.channel
import waitress.server
from stopwatch import Stopwatch
from waitress import wasyncore

from bot.errors import ConfigError
from bot.service import MAX_BODY, Service
from bot.service.http import CONNECTIONS, IDLE_S, LONGEST_BODY, LONGEST_HEAD, new_server, serve

INIT: Final = "/api/games/sunpleat/init"
ACTION: Final = "/api/games/sunpleat/action"
SERVICE: Final = Service(b"a key of the tests")

FLIP_2: Final = {"type": "flip", "count": 2}


@contextlib.contextmanager
def serving(*options: str) -> Iterator[str]:
    """Run the service in a process; yield its base URL."""
    command = [sys.executable, "-m", "bot", "serve", "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


@contextlib.contextmanager
def running() -> Iterator[Any]:
    """Run a server of the service in a thread; yield it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server: Any = new_server(SERVICE, listener)
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            yield server
        finally:
            server.trigger.pull_trigger(lambda: wasyncore.close_all(server._map))
            thread.join(10)
            server.task_dispatcher.shutdown()
    assert not thread.is_alive()


@contextlib.contextmanager
def serving_here() -> Iterator[str]:
    """Run the service in a thread; yield its base URL."""
    with running() as server:
        yield f"http://127.0.0.1:{server.effective_port}"


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    with serving_here() as url:
        yield url


def connect(base_url: str) -> socket.socket:
    url = urlsplit(base_url)
    sock = socket.create_connection((url.hostname, url.port), timeout=10)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def read_answer(sock: socket.socket, method: str = "POST") -> tuple[int, bytes]:
    answer = http.client.HTTPResponse(sock, method=method)
    answer.begin()
    return answer.status, answer.read()


def exchange(base_url: str, *parts: bytes) -> tuple[int, bytes]:
    """Send raw bytes, one segment a part, and return the status and body of the last answer."""
    with connect(base_url) as sock:
        for part in parts:
            sock.sendall(part)
        return read_answer(sock)


def post(body: bytes, *headers: str) -> bytes:
    lines = (f"POST {ACTION} HTTP/1.1", "Host: local", *headers, "", "")
    return "\r\n".join(lines).encode() + body


@pytest.mark.slow
def test_the_first_line_of_stdout_is_the_base_url() -> None:
    with serving() as base_url:
        url = urlsplit(base_url)
        assert (url.scheme, url.hostname, url.path) == ("http", "127.0.0.1", "")
        assert requests.get(f"{base_url}{INIT}", timeout=10).status_code == 200


def test_it_can_be_played_as_the_page_says(base_url: str) -> None:
    with requests.Session() as session:
        answer = session.get(f"{base_url}{INIT}?seed=7")
        assert answer.headers["Content-Type"] == "application/json"
        body = {"stateToken": answer.json()["stateToken"], "action": FLIP_2}
        answer = session.post(f"{base_url}{ACTION}", json=body)
        assert (answer.status_code, answer.json()["score"]) == (200, 215)


def test_a_body_is_taken_chunked_announced_or_split(base_url: str) -> None:
    token = requests.get(f"{base_url}{INIT}", timeout=10).json()["stateToken"]
    body = json.dumps({"stateToken": token, "action": FLIP_2}).encode()
    length = f"Content-Length: {len(body)}"
    half = len(body) // 2
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:half], body[half:]))
    whole = post(body, length)
    requests_in_parts = {
        "whole": [whole],
        "chunked": [post(chunks + b"0\r\n\r\n", "Transfer-Encoding: chunked")],
        "split": [whole[:17], whole[17:90], whole[90:-9], whole[-9:]],
        "byte by byte": [bytes((byte,)) for byte in whole],
        "announced": [post(b"", length, "Expect: 100-continue"), body],
    }
    for kind, parts in requests_in_parts.items():
        status, data = exchange(base_url, *parts)
        assert (kind, status, json.loads(data)["score"]) == (kind, 200, 215)


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/", b"", 404),
        ("GET", "/api/games/other/init", b"", 404),
        ("GET", f"{INIT}%3Fseed=7", b"", 404),
        ("POST", INIT, b"{}", 405),
        ("GET", ACTION, b"", 405),
        ("DELETE", ACTION, b"", 405),
        ("GET", f"{INIT}?seed=x", b"", 400),
        ("POST", ACTION, b"", 400),
        ("POST", ACTION, b"[]", 400),
        ("POST", ACTION, b" " * (MAX_BODY + 1), 413),
        ("POST", ACTION, b" " * 10**6, 413),
    ],
)
def test_what_is_wrong_with_a_request_is_said_in_json(
    method: str, path: str, body: bytes, status: int, base_url: str
) -> None:
    answer = requests.request(method, base_url + path, data=body, timeout=10)
    assert answer.status_code == status
    assert answer.json()["ok"] is False
    assert answer.json()["reason"]


TOO_LONG: Final = {"ok": False, "reason": f"a body has at most {MAX_BODY} bytes"}
BEYOND: Final = {
    "one more than it may": post(b" " * (MAX_BODY + 1), f"Content-Length: {MAX_BODY + 1}"),
    "of 900 MB, only declared": post(b"", "Content-Length: 900000000"),
    "of 900 MB, under way": post(b" " * 10**5, "Content-Length: 900000000"),
    "declared and announced": post(b"", "Content-Length: 900000000", "Expect: 100-continue"),
    "in one chunk": post(b"35a4e900\r\n" + b" " * 10**5, "Transfer-Encoding: chunked"),
    "in many chunks": post(b"2\r\n  \r\n" * 30_000, "Transfer-Encoding: chunked"),
}


@pytest.mark.parametrize("data", BEYOND.values(), ids=BEYOND)
def test_a_body_over_64_kib_is_refused_before_it_is_there(
    data: bytes, base_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waitress.buffers, "TempfileBasedBuffer", pytest.fail)  # no spooling
    status, answer = exchange(base_url, data)
    assert (status, json.loads(answer)) == (413, TOO_LONG)


@pytest.mark.parametrize("size", [1, 5, 4000])
def test_a_body_of_64_kib_is_taken_in_chunks_too(size: int, base_url: str) -> None:
    data = b" " * MAX_BODY if size > 1 else b" " * 16_000
    parts = (data[start : start + size] for start in range(0, len(data), size))
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
    request = post(chunks + b"0\r\n\r\n", "Transfer-Encoding: chunked")
    expected = 413 if len(chunks) > LONGEST_BODY else 400
    assert exchange(base_url, request)[0] == expected


def test_at_most_128_kib_of_a_request_are_read(
    base_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = 0
    recv = waitress.channel.HTTPChannel.recv

    def count(channel: Any, size: int) -> bytes:
        nonlocal taken
        data = recv(channel, size)
        taken += len(data)
        return data

    monkeypatch.setattr(waitress.channel.HTTPChannel, "recv", count)
    head = post(b"", "X: " + "x" * (LONGEST_HEAD - 200), "Transfer-Encoding: chunked")
    with connect(base_url) as sock:
        sock.settimeout(0.01)  # of a write: the server reads no more
        with contextlib.suppress(OSError):
            sock.sendall(head + b"fffffff\r\n" + b" " * 2**24)
        with contextlib.suppress(OSError):
            sock.settimeout(10)
            assert read_answer(sock)[0] == 413
    assert MAX_BODY < taken <= 128 * 2**10


GARBAGE: Final = {
    "no HTTP": (b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" * 3 + b"\r\n\r\n", 400),
    "no version": (b"GET\r\n\r\n", 400),
    "a bad length": (post(b"{}", "Content-Length: two"), 400),
    "a negative length": (post(b"{}", "Content-Length: -2"), 400),
    "a length of 5000 digits": (post(b"{}", "Content-Length: " + "1" * 5000), 400),
    "two lengths": (post(b"{}", "Content-Length: 2", "Content-Length: 1"), 400),
    "a bad chunk": (post(b"zz\r\n{}\r\n0\r\n\r\n", "Transfer-Encoding: chunked"), 400),
    "an unknown encoding": (post(b"{}", "Transfer-Encoding: gzip"), 501),
    "a bad header": (post(b"", "no colon here", "Content-Length: 0"), 400),
    "an endless header": (post(b"", "X: " + "x" * 300_000), 431),
    "an endless path": (b"GET /" + b"x" * 300_000, 431),
}


@pytest.mark.parametrize(("data", "status"), GARBAGE.values(), ids=GARBAGE)
def test_garbage_is_refused_in_json_and_does_not_keep_it_from_the_next_request(
    data: bytes, status: int, base_url: str
) -> None:
    with connect(base_url) as sock:
        with contextlib.suppress(OSError):  # it may hang up before all is sent
            sock.sendall(data)
        code, answer = read_answer(sock)
    assert (code, json.loads(answer)["ok"]) == (status, False)
    assert json.loads(answer)["reason"]
    assert requests.get(f"{base_url}{INIT}", timeout=10).status_code == 200


def test_an_answer_to_head_has_no_body(base_url: str) -> None:
    with connect(base_url) as sock:
        request = f"HEAD {INIT} HTTP/1.1\r\nHost: local\r\n\r\n".encode()
        sock.sendall(request)
        assert read_answer(sock, "HEAD") == (405, b"")
        sock.sendall(request)  # the connection still says what it means
        assert read_answer(sock, "HEAD") == (405, b"")


def test_a_request_that_is_cut_off_does_not_keep_it_from_the_next(base_url: str) -> None:
    url = urlsplit(base_url)
    for data in (b"", b"POST ", post(b"{", "Content-Length: 999")):
        with socket.create_connection((url.hostname, url.port)) as sock:
            sock.sendall(data)
    assert requests.get(f"{base_url}{INIT}", timeout=10).status_code == 200


# Idle connections


@pytest.fixture
def skip(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Let the server's clock, and only that, go ahead by so many seconds."""
    ahead = 0.0

    def go(seconds: float) -> None:
        nonlocal ahead
        ahead += seconds

    clock = SimpleNamespace(time=lambda: time.time() + ahead)
    monkeypatch.setattr(waitress.server, "time", clock)
    monkeypatch.setattr(waitress.channel, "time", clock)
    return go


def is_open(sock: socket.socket) -> bool:
    """Tell whether the other side has not hung up."""
    sock.setblocking(False)
    try:
        return sock.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionResetError:
        return False


def is_answered(base_url: str) -> bool:
    """Tell whether it answers within five seconds."""
    with Stopwatch() as stopwatch:
        response = requests.get(f"{base_url}{INIT}", timeout=60)
    return response.status_code == 200 and stopwatch.seconds < 5


STARTS: Final = {
    "silent": b"",
    "half a line": b"POST ",
    "half a body": post(b"{", "Content-Length: 9"),
}


@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
def test_an_idle_connection_goes_after_15_seconds(
    start: bytes, skip: Callable[[float], None]
) -> None:
    with serving_here() as url, connect(url) as idle:
        idle.sendall(start)
        assert is_answered(url)
        skip(IDLE_S - 1)
        assert is_answered(url)
        assert is_open(idle)
        skip(2)
        idle.setblocking(True)
        idle.settimeout(10)
        assert is_answered(url)
        assert idle.recv(1) == b""
    assert IDLE_S == 15


def test_a_connection_whose_answers_nobody_reads_goes_too(skip: Callable[[float], None]) -> None:
    asking = f"GET {INIT} HTTP/1.1\r\nHost: local\r\n\r\n".encode() * 1000
    with running() as server, connect(url := f"http://127.0.0.1:{server.effective_port}") as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.settimeout(0.1)
        with contextlib.suppress(TimeoutError):
            while sock.send(asking):
                pass
        (stalled,) = server.active_channels.values()
        for _ in range(100):  # it may have been slow for a moment, rather than stalled
            skip(IDLE_S + 1)
            assert is_answered(url)
        assert not stalled.connected


def test_a_connection_that_is_used_stays(skip: Callable[[float], None]) -> None:
    with serving_here() as url, connect(url) as used:
        for _ in range(5):
            used.sendall(f"GET {INIT} HTTP/1.1\r\nHost: local\r\n\r\n".encode())
            assert read_answer(used)[0] == 200
            skip(IDLE_S - 2)


def test_130_idle_connections_keep_nobody_from_an_answer() -> None:
    with serving_here() as url, contextlib.ExitStack() as stack:
        idle = [stack.enter_context(connect(url)) for _ in range(130)]
        assert is_answered(url)
        assert all(map(is_open, idle))


def test_more_idle_connections_than_it_takes_keep_nobody_for_longer_than_they_stay(
    skip: Callable[[float], None],
) -> None:
    with running() as server, contextlib.ExitStack() as stack:
        url = f"http://127.0.0.1:{server.effective_port}"
        for _ in range(CONNECTIONS + 20):
            stack.enter_context(connect(url))
        for _ in range(1000):  # until it has taken as many as it takes
            if not server.in_connection_overflow:
                threading.Event().wait(0.01)
        assert server.in_connection_overflow
        skip(IDLE_S + 1)
        assert is_answered(url)


def test_as_many_connections_as_it_takes_fit_into_256_descriptors() -> None:
    assert CONNECTIONS <= 256 - 40


# Where it listens


def listen(host: str, monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], list[str]]:
    """Serve for a moment; return what was announced and what was told."""
    monkeypatch.setattr(waitress.server.BaseWSGIServer, "run", lambda _: None)
    announced: list[str] = []
    told: list[str] = []
    serve(SERVICE, host, 0, announced.append, told.append)
    return announced, told


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "localhost", "::1"])
def test_on_loopback_it_announces_where_it_is_and_tells_nothing(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    announced, told = listen(host, monkeypatch)
    name = f"[{host}]" if ":" in host else host
    assert [url.rpartition(":")[0] for url in announced] == [f"http://{name}"]
    assert told == []


@pytest.mark.parametrize(
    ("host", "address"), [("0.0.0.0", "0.0.0.0"), ("", "0.0.0.0"), ("::", "::")]
)
def test_beyond_loopback_it_says_so(
    host: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    announced, told = listen(host, monkeypatch)
    assert len(announced) == 1
    where = f"listening at {address}, beyond this machine"
    assert told == [f"{where}: whoever reaches the port can ask; --host 127.0.0.1 keeps it here"]


def test_where_it_cannot_listen_is_an_error_that_names_the_place() -> None:
    with pytest.raises(ConfigError, match=r"^cannot listen at 192\.0\.2\.1:0: Cannot assign"):
        serve(SERVICE, "192.0.2.1", 0, pytest.fail, pytest.fail)


# The process


@pytest.mark.slow
def test_a_port_in_use_is_an_error_of_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [sys.executable, "-m", "bot", "serve", "--port", str(port)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (result.returncode, result.stdout) == (78, "")
    assert result.stderr == (
        f"sunpleat-bot: cannot listen at 127.0.0.1:{port}: Address already in use\n"
    )


@pytest.mark.slow
def test_a_name_that_no_host_can_have_is_an_error_of_one_line() -> None:
    command = [sys.executable, "-m", "bot", "serve", "--host", "a..b"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (result.returncode, result.stdout) == (78, "")
    assert result.stderr.startswith("sunpleat-bot: cannot listen at a..b:8000: ")
    assert result.stderr.count("\n") == 1


@pytest.mark.slow
def test_two_services_with_one_runs_folder_take_each_others_tokens(tmp_path: Path) -> None:
    options = ("--runs-dir", str(tmp_path))
    with serving(*options) as one, serving(*options) as other, serving() as stranger:
        token = requests.get(f"{one}{INIT}", timeout=10).json()["stateToken"]
        body = {"stateToken": token, "action": FLIP_2}
        assert requests.post(f"{other}{ACTION}", json=body, timeout=10).status_code == 200
        assert requests.post(f"{stranger}{ACTION}", json=body, timeout=10).status_code == 400


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_its_exit_code_and_a_word(number: signal.Signals) -> None:
    command = [sys.executable, "-m", "bot", "serve", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    os.kill(process.pid, number)
    _, stderr = process.communicate(timeout=10)
    assert (process.returncode, stderr) == (
        128 + number,
        f"sunpleat-bot: stopped by {number.name}\n",
    )
