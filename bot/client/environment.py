"""What the machine's environment says of certificates and proxies, settled once at the start.

requests would look at these variables before each request. Here they are read once, and what
is wrong with them is said before anything is sent.
"""

from __future__ import annotations

import os
import ssl
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import certifi
from requests.utils import get_environ_proxies, select_proxy
from urllib3.exceptions import LocationParseError
from urllib3.util import parse_url

from bot.errors import ConfigError

CA_VARIABLES: Final = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")
PROXY_KEYS: Final = ("http", "https", "all")
"""What a proxy can be for; `no` lists the hosts that need none."""
KEY_LOG_VARIABLE: Final = "SSLKEYLOGFILE"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """How connections are made on this machine."""

    ca_bundle: str = field(default_factory=certifi.where)
    """File or folder of the certificates to trust."""
    proxies: Mapping[str, str] = field(default_factory=dict)
    """Proxy by scheme, as requests takes them."""


def settle(environ: Mapping[str, str], base_url: str, *, use_proxies: bool) -> Surroundings:
    """Read the environment for a service at `base_url`.

    Which proxies there are, with the hosts that need none, requests reads from the process's own.

    Raises:
        ConfigError: a variable names a file that cannot be used, or an impossible proxy.
    """
    _check_key_log(environ.get(KEY_LOG_VARIABLE))
    variable = next((name for name in CA_VARIABLES if environ.get(name)), None)
    if variable is not None:
        _check_ca_bundle(variable, environ[variable])
    named = get_environ_proxies(base_url) if use_proxies else {}
    proxies = {scheme: proxy for scheme, proxy in named.items() if scheme in PROXY_KEYS}
    if proxy := select_proxy(base_url, proxies):
        _check_proxy(proxy, environ)
    return Surroundings(environ[variable] if variable else certifi.where(), proxies)


def _check_ca_bundle(variable: str, path: str) -> None:
    try:
        mode = Path(path).stat().st_mode
        if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
            raise ConfigError(f"{variable} names {path}, no usable CA bundle: it may never end")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if stat.S_ISDIR(mode):
            context.load_verify_locations(capath=path)
        else:
            context.load_verify_locations(cafile=path)
    except OSError as exc:
        why = exc.strerror or exc
        raise ConfigError(f"{variable} names {path}, no usable CA bundle: {why}") from exc


def _check_key_log(path: str | None) -> None:
    """Look whether TLS could log its keys, as Python does where this variable is set."""
    if path and not _is_writable(Path(path)):
        raise ConfigError(f"{KEY_LOG_VARIABLE} names {path}, which cannot be written")


def _is_writable(path: Path) -> bool:
    """Tell whether the file at `path` can be written, or made where it is missing."""
    try:
        is_folder = stat.S_ISDIR(path.stat().st_mode)
    except FileNotFoundError:
        return os.access(path.parent, os.W_OK)
    except OSError:
        return False
    return not is_folder and os.access(path, os.W_OK)


def _check_proxy(proxy: str, environ: Mapping[str, str]) -> None:
    variable = next((name for name, value in environ.items() if value == proxy), "a proxy variable")
    try:
        parsed = parse_url(proxy)
    except LocationParseError:
        parsed = parse_url("")
    if parsed.scheme not in ("http", "https") or not parsed.host:
        shown = without_password(proxy)
        raise ConfigError(f"{variable} names {shown!r}, no address of an HTTP proxy")


def without_password(proxy: str) -> str:
    """Return the address of a proxy without the user and password in it."""
    scheme, separator, rest = proxy.rpartition("://")
    return scheme + separator + rest.rpartition("@")[2]
