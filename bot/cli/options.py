"""The settings as options of click: flag over environment over TOML file over built-in."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import click
from click.core import ParameterSource

from bot import strategy
from bot.errors import ConfigError

PREFIX: Final = "SUNPLEAT_"
MAX_SEED: Final = 2**53 - 1
"""The largest whole number that every JSON reader keeps exact."""
DEFAULT_URL: Final = "https://gameboard.gg"


class BaseUrl(click.ParamType[str]):
    """Scheme and host, and a path prefix if any."""

    name = "url"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the address in one spelling, so that the same service is one service."""
        try:
            url = urlsplit(value)
            port = url.port
        except ValueError as exc:
            self.fail(f"{value!r} is no address: {exc}", param, ctx)
        if url.scheme not in ("http", "https") or not url.hostname:
            self.fail(f"{value!r} is no base URL such as {DEFAULT_URL}", param, ctx)
        if url.query or url.fragment or url.username is not None:
            self.fail(f"{value!r} has more than scheme, host and path", param, ctx)
        host = f"[{url.hostname}]" if ":" in url.hostname else url.hostname
        default_port = {"http": 80, "https": 443}[url.scheme]
        netloc = host if port in (None, default_port) else f"{host}:{port}"
        return f"{url.scheme}://{netloc}{url.path.rstrip('/')}"


class PingUrl(click.ParamType[str]):
    """An http or https address, or nothing."""

    name = "url"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the address as it is."""
        if value and not value.startswith(("http://", "https://")):
            self.fail(f"{value!r} is no http or https address", param, ctx)
        return value


class Number(click.FloatRange):
    """A finite number in a range."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return number


class Setting(click.Option):
    """An option that the environment and the configuration file can set too.

    A bad value is a usage error on the command line and a configuration error elsewhere.
    """

    def __init__(self, *args: Any, in_file: bool = True, **kwargs: Any) -> None:
        """Add the variable of the option's name; `in_file`: whether a TOML file may set it."""
        super().__init__(*args, **kwargs)
        self.in_file = in_file
        self.envvar = PREFIX + str(self.name).upper()

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        """Return the variable's value; one that is set to nothing says nothing, not default."""
        del ctx
        return os.environ.get(str(self.envvar))

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        """Take the value; name the variable where that is what is wrong.

        Raises:
            ConfigError: the environment holds a bad value.
        """
        try:
            return super().handle_parse_result(ctx, opts, args)
        except click.BadParameter as exc:
            if ctx.get_parameter_source(str(self.name)) is ParameterSource.ENVIRONMENT:
                expected = _describe_type(self.type)
                raise ConfigError(
                    f"environment variable {self.envvar}: expected {expected}; {exc.message}"
                ) from exc
            raise

    def read_file_value(self, value: object) -> object:
        """Return a value of a TOML file as the option's type has it.

        Raises:
            ValueError: it is not of that type or not in range; says what would do.
        """
        expected = _toml_types(self.type)
        if not isinstance(value, expected) or (isinstance(value, bool) and bool not in expected):
            raise ValueError(f"expected {_describe_type(self.type)}, got {value!r}")
        try:
            return self.type.convert(value, self, None)
        except click.BadParameter as exc:
            raise ValueError(f"expected {_describe_type(self.type)}; {exc.message}") from exc


def _toml_types(kind: click.ParamType[Any]) -> tuple[type, ...]:
    if isinstance(kind, click.types.BoolParamType):
        return (bool,)
    if isinstance(kind, click.types.IntParamType):
        return (int,)
    return (int, float) if isinstance(kind, click.types.FloatParamType) else (str,)


def _describe_type(kind: click.ParamType[Any]) -> str:
    if isinstance(kind, click.types.BoolParamType):
        return "true or false"
    if isinstance(kind, click.types.IntParamType):
        return "a whole number"
    return "a number" if isinstance(kind, click.types.FloatParamType) else "a text"


def _setting(*names: str, **kwargs: Any) -> Setting:
    return Setting(names, **kwargs)


_PATH: Final = click.Path(path_type=Path)

SETTINGS: Final[tuple[Setting, ...]] = (
    _setting(
        "--seed",
        type=click.IntRange(0, MAX_SEED),
        default=7,
        show_default=True,
        help="Seed of the run. It only names the run: the garlands are the same for each.",
    ),
    _setting(
        "--bank-at",
        type=click.IntRange(0),
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
        type=_PATH,
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
        type=Number(0, min_open=True),
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
        type=str,
        default="",
        metavar="FILE",
        help="Write figures for Prometheus' textfile collector.",
    ),
)
"""Every setting, in the order of `--help`."""
