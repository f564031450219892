"""The settings as options of click: flag over environment over TOML file over built-in."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource

from bot import strategy
from bot.cli.config import PREFIX, ConfigFile
from bot.cli.forms import (
    DEFAULT_URL,
    BaseUrl,
    Contact,
    FileName,
    Folder,
    Number,
    PingUrl,
    Text,
    describe,
    toml_types,
)
from bot.client.limits import LONGEST_TIMEOUT_S
from bot.errors import ConfigError
from bot.garland import MAX_WHOLE


class Setting(click.Option):
    """An option that the environment and the configuration file can set too.

    A bad value is a usage error on the command line and a configuration error elsewhere.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Add the variable of the option's name."""
        super().__init__(*args, **kwargs)
        self.envvar = PREFIX + str(self.name).upper()
        self.needs = ""
        """Name of the option without which only a flag counts; empty where all sources do."""

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
        expected = toml_types(self.type)
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
        return f"expected {describe(self.type)}{got}{reason}"


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
