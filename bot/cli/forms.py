"""The forms that the text of a setting can have: names of files, addresses, numbers.

Each is a type of click, which turns the text into a value or says what would do instead.
"""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import click

from bot.garland import MAX_WHOLE

DEFAULT_URL: Final = "https://gameboard.gg"
MAX_CONTACT: Final = 100
"""Characters of a contact."""


class Text(click.ParamType[Any]):
    """A text that has to be of a form; the kinds of it say which."""

    name = "text"
    expected = "a text"
    """What would do, for people."""
    is_secret = False
    """Whether a value is never shown."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value that the text stands for."""
        try:
            return self.read(str(value))
        except ValueError as exc:
            self.fail(str(exc), param, ctx)

    def read(self, text: str) -> Any:
        """Return the value that `text` stands for.

        Raises:
            ValueError: it is not of the form; says why.
        """
        if "\0" in text:
            raise ValueError("it has a null character")
        return text


_QUOTES: Final = "\"'`\u2018\u2019\u201a\u201c\u201d\u201e\u00ab\u00bb"


class FileName(Text):
    """The name of a file or folder, or nothing."""

    expected = "the name of a file, or nothing"

    def read(self, text: str) -> Any:
        """Return it with the home folder in place of a `~` at its beginning.

        A name that a copied blank, a quote or a missing home has changed names another place,
        where a run would begin anew.
        """
        name = super().read(text)
        if name.strip(f"{_QUOTES} \t") != name:
            raise ValueError("it begins or ends with a blank or a quote")
        as_utf_8 = os.fsencode(name).decode("utf-8", "surrogateescape")
        if not as_utf_8.isprintable():
            raise ValueError("it has characters that cannot be seen")
        return _with_home(name)


def _with_home(name: str) -> str:
    if not name.startswith("~"):
        return name
    user = name[1:].partition("/")[0]
    if not user and not os.environ.get("HOME", "").startswith("/"):
        raise ValueError("~ stands for no folder, since HOME does not name one")
    path = os.path.expanduser(name)  # noqa: PTH111 - no name is no path
    if path == name:
        raise ValueError(f"~{user} stands for no folder: there is no user {user}")
    return path


class Folder(FileName):
    """The name of a folder."""

    expected = "the name of a folder"

    def read(self, text: str) -> Path:
        """Return it as a path; an empty name is not the folder that the bot is started in."""
        if not text:
            raise ValueError("it is empty")
        return Path(super().read(text))


class Contact(Text):
    """Whom to reach, as the service reads it in the User-Agent."""

    expected = "whom to reach, in plain ASCII without brackets, at most 100 characters"

    def read(self, text: str) -> str:
        """Return it as it is."""
        if len(text) > MAX_CONTACT:
            raise ValueError(f"it has {len(text)} characters")
        if not (text.isascii() and text.isprintable()) or set(text) & set("()\\"):
            raise ValueError("it has characters that a header does not take")
        return text


class BaseUrl(Text):
    """Scheme and host, and a path prefix if any."""

    expected = f"scheme, host, and a path prefix if any, such as {DEFAULT_URL}"

    def read(self, text: str) -> str:
        """Return the address in one spelling, so that the same service is one service."""
        url = urlsplit(super().read(text))
        if url.scheme not in ("http", "https") or not url.hostname:
            raise ValueError("it does not begin with http:// or https:// and a host")
        if url.query or url.fragment or url.username is not None:
            raise ValueError("it has more than scheme, host and path")
        if not text.isprintable():
            raise ValueError("it has characters that cannot be printed")
        if url.port == 0:
            raise ValueError("there is no port 0")
        host = f"[{url.hostname}]" if ":" in url.hostname else url.hostname
        default_port = {"http": 80, "https": 443}[url.scheme]
        netloc = host if url.port in (None, default_port) else f"{host}:{url.port}"
        address = f"{url.scheme}://{netloc}{url.path.rstrip('/')}"
        if not _PLAIN_HOST.fullmatch(url.hostname):
            from requests import Request  # noqa: PLC0415 - few addresses need it

            Request("GET", address).prepare()  # which raises a ValueError of its own
        return address


_LABEL: Final = "[a-z0-9_-]{1,63}"
_PLAIN_HOST: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*\.?")


class PingUrl(Text):
    """An http or https address, or nothing. It is a secret, and never shown."""

    expected = "an http or https address, or nothing"
    is_secret = True

    def read(self, text: str) -> str:
        """Return the address as it is."""
        try:
            url = urlsplit(super().read(text))
            is_address = url.scheme in ("http", "https") and url.hostname
        except ValueError:
            is_address = None
        if text and not (is_address and text.isprintable()):
            raise ValueError("it is no address that begins with http:// or https:// and a host")
        return text


class Number(click.FloatRange):
    """A finite number in a range."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number."""
        try:
            number: float = super().convert(value, param, ctx)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return number


def toml_types(kind: click.ParamType[Any]) -> tuple[type, ...]:
    """Return the types that a value of this kind may have in a TOML file."""
    if isinstance(kind, click.types.BoolParamType):
        return (bool,)
    if isinstance(kind, click.types.IntParamType):
        return (int,)
    return (int, float) if isinstance(kind, click.types.FloatParamType) else (str,)


def describe(kind: click.ParamType[Any]) -> str:
    """Say which values a type has."""
    if isinstance(kind, click.types.BoolParamType):
        return "true or false"
    if isinstance(kind, click.Choice):
        return f"one of {', '.join(kind.choices)}"
    if isinstance(kind, click.IntRange):
        return f"a whole number {_range(kind)}"
    if isinstance(kind, click.FloatRange):
        return f"a number {_range(kind)}"
    return kind.expected if isinstance(kind, Text) else Text.expected


def _range(kind: click.IntRange | click.FloatRange) -> str:
    least = f"above {kind.min}" if kind.min_open else f"of at least {kind.min}"
    if kind.max is None:
        return least
    return f"{least} and at most {'2^53 - 1' if kind.max == MAX_WHOLE else kind.max}"
