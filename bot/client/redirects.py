"""Where the service may send us, and where it may not."""

from __future__ import annotations

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
MAX_LOCATION: Final = 2000
"""Characters of the longest address that is followed."""


def redirected(
    transport: Transport, request: requests.PreparedRequest, response: requests.Response
) -> str:
    """Return the address that `response` sends `request` to, if that is to be followed.

    Raises:
        Failure: the redirect names no usable address.
        ConfigError: the address is another host's, or not secure where the old one was.
    """
    before = request.url or ""
    location = response.headers.get("Location", "")
    try:
        usable = location and len(location) <= MAX_LOCATION
        after = transport.prepare("GET", urljoin(before, location)).url if usable else None
    except ValueError:
        after = None
    old, new = urlsplit(before), urlsplit(after or "")
    if after is None or new.scheme not in ("http", "https"):
        status = response.status_code
        raise Failure(Kind.TROUBLE, f"HTTP {status} without a usable Location", status=status)
    if old.scheme == "https" and new.scheme != "https":
        raise ConfigError(f"{before} redirects to {after:.300}, which is not secure; not followed")
    if not _is_same_site(old.hostname or "", new.hostname or ""):
        raise ConfigError(
            f"the service at {old.netloc} redirects to another host, {new.netloc:.300}; "
            f"nothing was sent there. If it is right, set it with --base-url; "
            f"a new run begins there"
        )
    return after


def moved_along(url: str, before: str, after: str) -> str:
    """Return the address of `action`, `url`, after `init` moved.

    Where `before` became `after` by a change of base alone, `url` takes the new base too.
    """
    new = urlsplit(after)
    if not (urlsplit(before).path.endswith(INIT_PATH) and new.path.endswith(INIT_PATH)):
        return url
    base = new._replace(path=new.path.removesuffix(INIT_PATH), query="", fragment="")
    return base.geturl() + ACTION_PATH


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
