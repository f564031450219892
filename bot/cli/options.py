"""The settings as options of click: flag over environment over TOML file over built-in."""

from __future__ import annotations

import copy
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
from bot.cli.config import PREFIX, ConfigFile
from bot.client.limits import LONGEST_TIMEOUT_S
from bot.errors import ConfigError
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
        """Return the value that the text stands for; one that was read before stays."""
        if isinstance(value, Path):
            return value
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

    def read(self, text: str) -> str:
        """Return it with the home folder in place of a `~` at its beginning.

        A name that a copied blank, a quote or a missing home has changed names another place,
        where a run would begin anew.
        """
        name = super().read(text)
        if name.strip(f"{_QUOTES} \t") != name:
            raise ValueError("it has a blank or a quote at an end")
        if not _as_utf_8(name).isprintable():
            raise ValueError("it has characters that cannot be seen")
        return _with_home(name)


def _as_utf_8(name: str) -> str:
    """Return a name as it reads in UTF-8, whatever encoding the machine has."""
    return os.fsencode(name).decode("utf-8", "surrogateescape")


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

    def read(self, text: str) -> str:
        """Return it; an empty name is not the folder that the bot is started in."""
        if not text:
            raise ValueError("it is empty")
        return super().read(text)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the name as a path."""
        return Path(super().convert(value, param, ctx))


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


class Setting(click.Option):
    """An option that the environment and the configuration file can set too.

    A bad value is a usage error on the command line and a configuration error elsewhere.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Add the variable of the option's name."""
        super().__init__(*args, **kwargs)
        self.envvar = PREFIX + str(self.name).upper()
        self.needs = ""
        """The option without which nothing but a flag is looked at."""

    def only_with(self, name: str) -> Setting:
        """Return the same setting for a verb that needs it only where option `name` is given."""
        twin = copy.copy(self)
        twin.needs = name
        return twin

    def get_help_extra(self, ctx: click.Context) -> Any:
        """Return what the help says in brackets, without a bound that nobody comes near."""
        extra = super().get_help_extra(ctx)
        if "range" in extra:
            extra["range"] = extra["range"].removesuffix(f"<={MAX_WHOLE}")
        return extra

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        """Return the variable's value; one that is set to nothing says nothing, not default."""
        del ctx
        return os.environ.get(str(self.envvar))

    def consume_value(
        self, ctx: click.Context, opts: Mapping[str, Any]
    ) -> tuple[Any, ParameterSource]:
        """Take the value from the strongest source that has one.

        Raises:
            ConfigError: it is the configuration file, and the value is a bad one.
        """
        if self.needs and self.needs not in opts and self.name not in opts:
            return self.default, ParameterSource.DEFAULT
        value, source = super().consume_value(ctx, opts)
        if source is not ParameterSource.DEFAULT_MAP:
            return value, source
        config: ConfigFile = ctx.obj
        try:
            value = self.read_file_value(value)
        except ValueError as exc:
            raise ConfigError(f"{config.label}: {self.name}: {exc}") from exc
        if isinstance(self.type, FileName) and config.path is not None and str(value):
            value = Path(os.path.normpath(config.path.parent / value))
        return value, source

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        """Take the value; say what would do, and name the variable where that is wrong.

        Raises:
            ConfigError: the environment or the configuration file holds a bad value.
        """
        try:
            return super().handle_parse_result(ctx, opts, args)
        except click.BadParameter as exc:
            if ctx.get_parameter_source(str(self.name)) is ParameterSource.ENVIRONMENT:
                why = self._explain(os.environ.get(str(self.envvar)), exc)
                raise ConfigError(f"environment variable {self.envvar}: {why}") from exc
            why = self._explain(opts.get(str(self.name)), exc)
            raise click.BadParameter(why, ctx, self) from exc

    def read_file_value(self, value: object) -> Any:
        """Return a value of a TOML file as the option's type has it.

        Raises:
            ValueError: it is not of that type or not in range; says what would do.
        """
        expected = _toml_types(self.type)
        if not isinstance(value, expected) or (isinstance(value, bool) and bool not in expected):
            raise ValueError(self._explain(value))
        try:
            return self.type.convert(value, self, None)
        except click.BadParameter as exc:
            raise ValueError(self._explain(value, exc)) from exc

    def _explain(self, value: object, exc: click.BadParameter | None = None) -> str:
        """Say what would do instead of a value, and why where the form is not all of it."""
        text = self.type if isinstance(self.type, Text) else None
        got = "" if text and text.is_secret else f", got {value!r}"
        reason = f": {exc.message}" if text and exc else ""
        return f"expected {_describe(self.type)}{got}{reason}"


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
    if kind.max is None:
        return least
    return f"{least} and at most {'2^53 - 1' if kind.max == MAX_WHOLE else kind.max}"


def _setting(*names: str, **kwargs: Any) -> Setting:
    return Setting(names, **kwargs)


SETTINGS: Final[tuple[Setting, ...]] = (
    _setting(
        "--seed",
        type=click.IntRange(0, MAX_WHOLE),
        default=7,
        show_default=True,
        metavar="N",
        help="Seed of the run. It only names the run: the garlands are the same for each.",
    ),
    _setting(
        "--bank-at",
        type=click.IntRange(0, MAX_WHOLE),
        default=1_000_000,
        show_default=True,
        metavar="N",
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
        default=30,
        show_default=True,
        metavar="S",
        help="Seconds for one attempt, last byte of the answer included.",
    ),
    _setting(
        "--give-up-after",
        type=Number(0, min_open=True),
        default=900,
        show_default=True,
        metavar="S",
        help="Suspend the run after this many seconds without progress.",
    ),
    _setting(
        "--use-environment-proxies/--no-use-environment-proxies",
        default=False,
        help="Use the proxies that HTTP_PROXY and its like name.",
    ),
    _setting(
        "--contact",
        type=Contact(),
        default="",
        metavar="C",
        help="Whom the service can reach about this bot, such as an e-mail address.",
    ),
    _setting(
        "--resume-only/--no-resume-only",
        default=False,
        help="Only resume an unfinished run; do nothing where there is none.",
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
        help="Ping this URL: with /start when a call begins, as it is when all went well, with "
        "/EXIT_CODE when not. {seed} in it stands for the seed.",
    ),
    _setting(
        "--metrics-file",
        type=FileName(),
        default="",
        metavar="FILE",
        help="Write figures for Prometheus' textfile collector. {seed} in it stands for the seed.",
    ),
)
"""Every setting, in the order of `--help`."""

_BY_NAME: Final = {str(setting.name): setting for setting in SETTINGS}
RUNS_DIR: Final = _BY_NAME["runs_dir"]
"""The one setting that a verb which only looks takes."""
TALKING: Final = tuple(
    _BY_NAME[name].only_with("against")
    for name in (
        "max_rps",
        "max_requests",
        "max_minutes",
        "timeout",
        "give_up_after",
        "use_environment_proxies",
        "contact",
    )
)
"""What `replay` needs to talk to a service, where one is to be asked."""
SEED: Final = click.Option(
    ["--seed"],
    type=int,
    metavar="N",
    help="With latest: the latest run of this seed.  [default: of all seeds]",
)
"""For a verb that looks at one run."""
