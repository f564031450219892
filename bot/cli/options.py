"""The settings as options of click: flag over environment over TOML file over built-in."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import click
from click.core import ParameterSource

from bot import strategy
from bot.client.limits import LONGEST_TIMEOUT_S
from bot.errors import ConfigError
from bot.garland import MAX_WHOLE

PREFIX: Final = "SUNPLEAT_"
DEFAULT_URL: Final = "https://gameboard.gg"


class Text(click.ParamType[Any]):
    """A text that has to be of a form; the kinds of it say which."""

    name = "text"
    expected = "a text"
    """What would do, for people."""

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


class FileName(Text):
    """The name of a file, or nothing."""

    expected = "the name of a file, or nothing"

    def read(self, text: str) -> Any:
        """Return it with the home folder in place of a `~` at its beginning."""
        return os.path.expanduser(super().read(text))  # noqa: PTH111 - no name is no path


class Folder(FileName):
    """The name of a folder."""

    expected = "the name of a folder"

    def read(self, text: str) -> Path:
        """Return it as a path; an empty name is not the folder that the bot is started in."""
        if not text:
            raise ValueError("it is empty")
        return Path(super().read(text))


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
            _look_whether_it_can_be_asked(address)
        return address


_LABEL: Final = "[a-z0-9_-]{1,63}"
_PLAIN_HOST: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*\.?")


def _look_whether_it_can_be_asked(url: str) -> None:
    """Try what requests makes of an address.

    Raises:
        ValueError: it is none.
    """
    from requests import Request  # noqa: PLC0415 - few addresses need it

    try:
        Request("GET", url).prepare()
    except ValueError as exc:
        raise ValueError(str(exc)) from exc


class PingUrl(Text):
    """An http or https address, or nothing."""

    expected = "an http or https address, or nothing"

    def read(self, text: str) -> str:
        """Return the address as it is."""
        url = urlsplit(super().read(text))
        if text and (url.scheme not in ("http", "https") or not url.hostname):
            raise ValueError("it does not begin with http:// or https:// and a host")
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


class Setting(click.Option):
    """An option that the environment and the configuration file can set too.

    A bad value is a usage error on the command line and a configuration error elsewhere.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Add the variable of the option's name."""
        super().__init__(*args, **kwargs)
        self.envvar = PREFIX + str(self.name).upper()

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        """Return the variable's value; one that is set to nothing says nothing, not default."""
        del ctx
        return os.environ.get(str(self.envvar))

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        """Take the value; say what would do, and name the variable where that is wrong.

        Raises:
            ConfigError: the environment holds a bad value.
        """
        try:
            return super().handle_parse_result(ctx, opts, args)
        except click.BadParameter as exc:
            if ctx.get_parameter_source(str(self.name)) is ParameterSource.ENVIRONMENT:
                why = self._explain(os.environ.get(str(self.envvar)), exc)
                raise ConfigError(f"environment variable {self.envvar}: {why}") from exc
            why = self._explain(opts.get(str(self.name)), exc)
            raise click.BadParameter(why, ctx, self) from exc

    def read_file_value(self, value: object) -> object:
        """Return a value of a TOML file as the option's type has it.

        Raises:
            ValueError: it is not of that type or not in range; says what would do.
        """
        expected = _toml_types(self.type)
        if not isinstance(value, expected) or (isinstance(value, bool) and bool not in expected):
            raise ValueError(f"expected {_describe(self.type)}, got {value!r}")
        try:
            return self.type.convert(value, self, None)
        except click.BadParameter as exc:
            raise ValueError(self._explain(value, exc)) from exc

    def _explain(self, value: object, exc: click.BadParameter) -> str:
        """Say what would do instead of a value, and why where the form is not all of it."""
        reason = f": {exc.message}" if isinstance(self.type, Text) else ""
        return f"expected {_describe(self.type)}, got {value!r}{reason}"


def _toml_types(kind: click.ParamType[Any]) -> tuple[type, ...]:
    if isinstance(kind, click.types.BoolParamType):
        return (bool,)
    if isinstance(kind, click.types.IntParamType):
        return (int,)
    return (int, float) if isinstance(kind, click.types.FloatParamType) else (str,)


def _describe(kind: click.ParamType[Any]) -> str:
    """Say which values a type has."""
    if isinstance(kind, click.types.BoolParamType):
        return "true or false"
    if isinstance(kind, click.Choice):
        return f"one of {', '.join(kind.choices)}"
    if isinstance(kind, click.IntRange):
        return f"a whole number {_describe_range(kind)}"
    if isinstance(kind, click.FloatRange):
        return f"a number {_describe_range(kind)}"
    return kind.expected if isinstance(kind, Text) else Text.expected


def _describe_range(kind: click.IntRange | click.FloatRange) -> str:
    least = f"above {kind.min}" if kind.min_open else f"of at least {kind.min}"
    return least if kind.max is None else f"{least} and at most {kind.max}"


def _setting(*names: str, **kwargs: Any) -> Setting:
    return Setting(names, **kwargs)


SETTINGS: Final[tuple[Setting, ...]] = (
    _setting(
        "--seed",
        type=click.IntRange(0, MAX_WHOLE),
        default=7,
        show_default=True,
        help="Seed of the run. It only names the run: the garlands are the same for each.",
    ),
    _setting(
        "--bank-at",
        type=click.IntRange(0, MAX_WHOLE),
        default=1_000_000,
        show_default=True,
        help="Points at which to bank.",
    ),
    _setting(
        "--bank-rule",
        type=click.Choice(strategy.BANK_RULES),
        default=strategy.AT_LEAST,
        show_default=True,
        help="Bank at the first score that reaches the threshold, at the last one that does "
        "not pass it, or on the number itself.",
    ),
    _setting(
        "--local/--no-local",
        default=False,
        help="Play on the service that is built in; nothing leaves this machine.",
    ),
    _setting(
        "--base-url",
        type=BaseUrl(),
        default=DEFAULT_URL,
        show_default=True,
        metavar="URL",
        help="Where the service is: scheme, host, and a path prefix if any.",
    ),
    _setting(
        "--runs-dir",
        type=Folder(),
        default=Path("runs"),
        show_default=True,
        metavar="DIR",
        help="Folder of the journals.",
    ),
    _setting(
        "--max-rps",
        type=Number(0),
        default=None,
        metavar="X",
        help="Requests a second at most, evenly paced, retries included; 0 for no limit.  "
        "[default: 10, with --local no limit]",
    ),
    _setting(
        "--max-requests",
        type=click.IntRange(1),
        default=None,
        metavar="N",
        help="Suspend the run after this many requests of this call.",
    ),
    _setting(
        "--max-minutes",
        type=Number(0, min_open=True),
        default=None,
        metavar="M",
        help="Suspend the run after this many minutes of this call.",
    ),
    _setting(
        "--timeout",
        type=Number(0, LONGEST_TIMEOUT_S, min_open=True),
        default=30.0,
        show_default=True,
        metavar="S",
        help="Seconds for one attempt, last byte of the answer included.",
    ),
    _setting(
        "--give-up-after",
        type=Number(0, min_open=True),
        default=900.0,
        show_default=True,
        metavar="S",
        help="Suspend the run after this many seconds without progress.",
    ),
    _setting(
        "--on-divergence",
        type=click.Choice(["stop", "follow"]),
        default="stop",
        show_default=True,
        help="What to do when the service contradicts the rules: stop, or take its word.",
    ),
    _setting(
        "--use-environment-proxies/--no-use-environment-proxies",
        default=False,
        help="Use the proxies that HTTP_PROXY and its like name.",
    ),
    _setting("--quiet/--no-quiet", default=False, help="Print errors only."),
    _setting(
        "--log-format",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="How to print what happens where there is no terminal.",
    ),
    _setting(
        "--notify-url",
        type=PingUrl(),
        default="",
        metavar="URL",
        help="Ask this URL at start (/start), success and failure (/EXIT CODE).",
    ),
    _setting(
        "--metrics-file",
        type=FileName(),
        default="",
        metavar="FILE",
        help="Write figures for Prometheus' textfile collector.",
    ),
)
"""Every setting, in the order of `--help`."""
