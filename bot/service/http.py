"""The local service over real HTTP, served by waitress.

What waitress itself refuses (garbage, what is too large) is answered in JSON too. A request
is bounded: what is beyond `LONGEST_HEAD` and `LONGEST_BODY` is never read.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterable
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import quote

from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser
from waitress.server import BaseWSGIServer, create_server
from waitress.utilities import BadRequest, Error, queue_logger

from bot.errors import ConfigError
from bot.service.game import MAX_BODY, TOO_LONG, Answer, Service, refuse

LONGEST_HEAD: Final = 16 * 2**10
"""Bytes of the longest request line with its headers."""
LONGEST_BODY: Final = 96 * 2**10
"""Bytes of the longest body as it is sent: `MAX_BODY`, and what chunks add to it."""
IDLE_S: Final = 15
"""How long a connection may lie idle, in seconds."""
CONNECTIONS: Final = 200
"""Connections at one time; most systems give a process at least 256 descriptors."""


def serve(
    service: Service,
    host: str,
    port: int,
    announce: Callable[[str], None],
    tell: Callable[[str], None],
) -> None:
    """Serve over HTTP until the process is stopped.

    Args:
        service: the service.
        host: name or address to listen at.
        port: likewise; 0 picks a free one.
        announce: is told the base URL, once it can be asked.
        tell: is told whatever else a person should know.

    Raises:
        ConfigError: the address cannot be listened at.
    """
    is_ipv6 = ":" in host
    try:
        family = socket.AF_INET6 if is_ipv6 else socket.AF_INET
        listener = socket.create_server((host, port), family=family)
    except (OSError, UnicodeError) as exc:  # the latter of a name that cannot be one
        why = str(getattr(exc, "strerror", None) or exc).partition(" (while attempting")[0]
        raise ConfigError(f"cannot listen at {host}:{port}: {why}") from exc
    with listener:
        server = new_server(service, listener)
        name = f"[{host}]" if is_ipv6 else host
        address, bound_port = listener.getsockname()[:2]
        announce(f"http://{name}:{bound_port}")
        if not ip_address(address).is_loopback:
            tell(
                f"listening at {address}, beyond this machine: whoever reaches the port can ask; "
                f"--host 127.0.0.1 keeps it here"
            )
        try:
            server.run()
        finally:
            server.close()


def new_server(service: Service, listener: socket.socket) -> BaseWSGIServer:
    """Return a server of four threads on a listening socket, bounded as this module says."""
    queue_logger.setLevel(logging.ERROR)  # that a request waits for a millisecond is no news
    server = create_server(
        wsgi_app(service),
        sockets=[listener],
        threads=4,
        max_request_header_size=LONGEST_HEAD,
        max_request_body_size=LONGEST_BODY,
        connection_limit=CONNECTIONS,
        channel_timeout=IDLE_S,
        cleanup_interval=1,
    )
    assert isinstance(server, BaseWSGIServer)  # which it is on one socket
    server.channel_class = _Channel
    return server


def wsgi_app(service: Service) -> Callable[..., Iterable[bytes]]:
    """Return the service as a WSGI application (PEP 3333)."""

    def app(environ: dict[str, Any], start_response: Callable[..., object]) -> Iterable[bytes]:
        method = environ["REQUEST_METHOD"]
        target = quote(environ["PATH_INFO"], encoding="latin-1")
        if environ.get("QUERY_STRING"):
            target += "?" + environ["QUERY_STRING"]
        answer = service.answer(method, target, environ["wsgi.input"].read(MAX_BODY + 1))
        start_response(_status_line(answer), _headers(answer))
        return [answer.body] if method != "HEAD" else []

    return app


def _status_line(answer: Answer) -> str:
    return f"{answer.status} {HTTPStatus(answer.status).phrase}"


def _headers(answer: Answer) -> list[tuple[str, str]]:
    return [("Content-Type", "application/json"), ("Content-Length", str(len(answer.body)))]


class _Refused(Error):
    """What is wrong with a request that never reaches the service, said as the service does."""

    def __init__(self, error: Error) -> None:
        super().__init__(error.body)
        self.code = error.code

    def to_response(self, ident: str | None = None) -> Any:  # bytes, though the stubs say text
        answer = TOO_LONG if self.code == TOO_LONG.status else refuse(self.code, self.body)
        return _status_line(answer), _headers(answer), answer.body


class _Request(HTTPRequestParser):
    """A request on its way in."""

    def received(self, data: bytes) -> int:
        try:
            taken = super().received(data)
        except ValueError:  # a length of more digits than Python reads
            self.error = BadRequest("Content-Length is invalid")
            self.completed = True
            taken = len(data)
        if self.error is not None:
            self.error = _Refused(self.error)
            self.expect_continue = False  # or the body would be asked for
        return taken


class _Channel(HTTPChannel):
    """A connection with its requests."""

    parser_class = _Request

    def writable(self) -> bool:
        if self.will_close and not self.requests:  # a peer that reads nothing never is writable
            self.handle_close()
            return False
        return bool(super().writable())
