"""Where requests go, where the service may send them, and where it may not."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from typing import Final
from urllib.parse import urljoin, urlsplit

import requests

from bot.client.failures import Failure, Kind
from bot.client.transport import Transport
from bot.errors import ConfigError

INIT_PATH: Final = "/api/games/sunpleat/init"
ACTION_PATH: Final = "/api/games/sunpleat/action"
STATUSES: Final = frozenset({301, 302, 303, 307, 308})
MAX_HOPS: Final = 5
"""Redirects in a row that are followed."""
MAX_LOCATION: Final = 2000
"""Characters of the longest address that is followed."""


class Endpoint:
    """One thing to ask of the service, and the address where it is asked now."""

    def __init__(self, transport: Transport, method: str, url: str) -> None:
        """Begin at `url`.

        Raises:
            ValueError: the address is not a usable one.
        """
        self.request = transport.prepare(method, url)
        """What is sent, again and again."""
        self._home = self.url
        """Where it goes when a redirect has led nowhere."""
        self._hops = 0
        """Redirects in a row."""

    @property
    def url(self) -> str:
        """Where the next request goes."""
        return self.request.url or ""

    @property
    def is_away(self) -> bool:
        """Whether that is where nothing was accepted yet."""
        return self.url != self._home

    def set_query(self, query: Mapping[str, str]) -> None:
        """Ask with this query from now on."""
        bare, _, _ = self._home.partition("?")
        self.request.prepare_url(bare, query)
        self._home = self.url

    def follow(self, response: requests.Response, *, is_under_way: bool) -> None:
        """Turn to where the service has moved, if that is to be followed.

        Raises:
            Failure: always, so that the request is sent again, or nothing more is.
        """
        status = response.status_code
        self._hops += 1
        if self._hops > MAX_HOPS:
            raise Failure(Kind.TROUBLE, f"HTTP {status}: redirects lead nowhere", status=status)
        try:
            self.request.url = self._target(response)
        except ConfigError as exc:
            if is_under_way:
                raise Failure(Kind.TROUBLE, str(exc), status=status) from exc
            raise Failure(Kind.FINAL, str(exc), status=status, error=exc) from exc
        raise Failure(Kind.MOVED, f"HTTP {status}: moved to {self.url}", status=status)

    def _target(self, response: requests.Response) -> str:
        """Return the address that a redirect names.

        Raises:
            Failure: it names no usable one.
            ConfigError: it is another host's, or not secure where the old one was.
        """
        try:
            after = _resolve(self.url, response.headers.get("Location", ""))
        except ValueError as exc:
            status = response.status_code
            cause = f"HTTP {status} without a usable Location"
            raise Failure(Kind.TROUBLE, cause, status=status) from exc
        old, new = urlsplit(self.url), urlsplit(after)
        if old.scheme == "https" and new.scheme != "https":
            raise ConfigError(
                f"{self.url} redirects to {after:.300}, which is not secure; not followed"
            )
        if not _is_same_site(old.hostname or "", new.hostname or ""):
            raise ConfigError(
                f"the service at {old.netloc} redirects to another host, {new.netloc:.300}; "
                f"nothing was sent there. If it is right, set it with --base-url; "
                f"a new run begins there"
            )
        return after

    def turn_back(self) -> None:
        """Ask again where an answer was accepted last."""
        self.request.url = self._home
        self._hops = 0

    def settle(self) -> str:
        """Stay here, where an answer was accepted; return where one was before."""
        before, self._home = self._home, self.url
        self._hops = 0
        return before

    def move_along(self, before: str, after: str) -> None:
        """Follow `init`, which moved from one address to another, where its base changed."""
        old, new = urlsplit(before), urlsplit(after)
        is_base = old.path.endswith(INIT_PATH) and new.path.endswith(INIT_PATH)
        if before == after or not is_base:
            return
        base = f"{new.scheme}://{new.netloc}{new.path.removesuffix(INIT_PATH)}"
        self.request.url = self._home = base + ACTION_PATH


def _resolve(url: str, location: str) -> str:
    """Return the address that a `Location` names in an answer from `url`.

    Raises:
        ValueError: it is no usable one.
    """
    if not 0 < len(location) <= MAX_LOCATION:
        raise ValueError
    request = requests.PreparedRequest()
    request.prepare_url(urljoin(url, location), None)
    after = str(request.url)
    if urlsplit(after).scheme not in ("http", "https"):
        raise ValueError
    return after


def _is_same_site(old: str, new: str) -> bool:
    """Tell whether two hosts are one: the same, one with `www.` before it, or both loopback."""
    if old.removeprefix("www.") == new.removeprefix("www."):
        return True
    return _is_loopback(old) and _is_loopback(new)


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
