"""The settings: which there are, and what those of one call come to.

They are small values that travel on to whoever needs them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource

from bot import strategy
from bot.cli.forms import DEFAULT_URL, BaseUrl, Contact, FileName, Folder, Number, PingUrl
from bot.cli.process import AS_JSON
from bot.cli.sources import CONFIG, PREFIX, ConfigFile, Setting, refuse_unknown, wire_settings
from bot.client.limits import LONGEST_TIMEOUT_S, POLITE_RPS, Limits
from bot.errors import ConfigError
from bot.garland import MAX_WHOLE
from bot.strategy import Goal
from bot.wire.layout import WireSettings
from bot.wire.values import format_path

BUILT_IN: Final = "built-in"
"""The source of a setting that nobody has set."""
LOCAL: Final = "local"
"""What the journal has for the base URL of the built-in service."""
SEED_MARK: Final = "{seed}"
"""What stands for the seed in `metrics_file` and `notify_url`."""


SETTINGS: Final[tuple[Setting, ...]] = (
    Setting(
        "--seed",
        type=click.IntRange(0, MAX_WHOLE),
        default=7,
        metavar="N",
        help="Seed of the run. It only names the run: the garlands are the same for each.",
    ),
    Setting(
        "--bank-at",
        type=click.IntRange(0, MAX_WHOLE),
        default=1_000_000,
        metavar="N",
        help="Points at which to bank.",
    ),
    Setting(
        "--bank-rule",
        type=click.Choice(strategy.BANK_RULES),
        default=strategy.AT_LEAST,
        help="Bank at the first score that reaches the threshold, at the last one that does "
        "not pass it, or on the number itself.",
    ),
    Setting(
        "--local/--no-local",
        default=False,
        help="Play on the service that is built in; nothing leaves this machine.",
    ),
    Setting(
        "--base-url",
        type=BaseUrl(),
        default=DEFAULT_URL,
        metavar="URL",
        help="Where the service is: scheme, host, and a path prefix if any.",
    ),
    Setting(
        "--runs-dir",
        type=Folder(),
        default=Path("runs"),
        metavar="DIR",
        help="Folder of the journals.",
    ),
    Setting(
        "--max-rps",
        type=Number(0),
        default=None,
        metavar="X",
        help="Requests a second at most, evenly paced, retries included; 0 for no limit.  "
        "[default: 10, with --local no limit]",
    ),
    Setting(
        "--max-requests",
        type=click.IntRange(1),
        default=None,
        metavar="N",
        help="Suspend the run after this many requests of this call.",
    ),
    Setting(
        "--max-minutes",
        type=Number(0, min_open=True),
        default=None,
        metavar="M",
        help="Suspend the run after this many minutes of this call.",
    ),
    Setting(
        "--timeout",
        type=Number(0, LONGEST_TIMEOUT_S, min_open=True),
        default=30,
        metavar="S",
        help="Seconds for one attempt, last byte of the answer included.",
    ),
    Setting(
        "--give-up-after",
        type=Number(0, min_open=True),
        default=900,
        metavar="S",
        help="Suspend the run after this many seconds without progress.",
    ),
    Setting(
        "--use-environment-proxies/--no-use-environment-proxies",
        default=False,
        help="Use the proxies that HTTP_PROXY and its like name.",
    ),
    Setting(
        "--contact",
        type=Contact(),
        default="",
        metavar="C",
        help="Whom the service can reach about this bot, such as an e-mail address.",
    ),
    Setting(
        "--resume-only/--no-resume-only",
        default=False,
        help="Only resume an unfinished run; do nothing where there is none.",
    ),
    Setting("--quiet/--no-quiet", default=False, help="Print errors only."),
    Setting(
        "--log-format",
        type=click.Choice(["text", "json"]),
        default="text",
        help="How to print what happens where there is no terminal.",
    ),
    Setting(
        "--notify-url",
        type=PingUrl(),
        default="",
        metavar="URL",
        help="Ping this URL: with /start when a call begins, as it is when all went well, with "
        "/EXIT_CODE when not. {seed} in it stands for the seed.",
    ),
    Setting(
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
PLAYING: Final = (
    *SETTINGS,
    CONFIG,
    click.Option(["--fresh"], is_flag=True, help="Begin a new run, even where one is unfinished."),
    click.Option(
        ["--bank-now"],
        is_flag=True,
        help="Bank the unfinished run with the points that it has, whatever --bank-at says.",
    ),
    AS_JSON,
)
"""All that the verb `play` takes."""


@dataclass(frozen=True, slots=True)
class Talk:
    """How to talk to a service."""

    base_url: str
    """`local` for the built-in service."""
    runs_dir: Path
    """Where the key of the built-in service is kept."""
    limits: Limits
    use_environment_proxies: bool
    contact: str
    """Whom the service can reach; empty for nobody."""
    wire: WireSettings

    @property
    def is_local(self) -> bool:
        """Whether it is the built-in service."""
        return self.base_url == LOCAL


@dataclass(frozen=True, slots=True)
class Settings:
    """What one call is to do."""

    talk: Talk
    seed: int
    goal: Goal
    is_resuming_only: bool
    is_quiet: bool
    log_format: str
    notify_url: str
    """Empty for none."""
    metrics_file: Path | None


def resolve(ctx: click.Context) -> Settings:
    """Put the parsed options of `ctx` together, which has every setting.

    Raises:
        ConfigError: a name is no setting, or two values cannot go together.
    """
    refuse_unknown(ctx.obj, [str(setting.name) for setting in SETTINGS])
    values = ctx.params
    seed = str(values["seed"])
    metrics_file = values["metrics_file"].replace(SEED_MARK, seed)
    return Settings(
        talk=talk_of(values, ctx.obj, LOCAL if _is_local(ctx) else values["base_url"]),
        seed=values["seed"],
        goal=Goal(values["bank_at"], values["bank_rule"]),
        is_resuming_only=values["resume_only"],
        is_quiet=values["quiet"],
        log_format=values["log_format"],
        notify_url=values["notify_url"].replace(SEED_MARK, seed),
        metrics_file=Path(metrics_file) if metrics_file else None,
    )


def talk_of(params: Mapping[str, Any], config: ConfigFile, base_url: str) -> Talk:
    """Return how to talk to the service at `base_url`, by the options `params`.

    Raises:
        ConfigError: something is wrong with what the file says of its answers.
    """
    max_rps = params["max_rps"]
    if max_rps is None and base_url != LOCAL:
        max_rps = POLITE_RPS
    limits = Limits(
        timeout_s=params["timeout"],
        give_up_after_s=params["give_up_after"],
        max_rps=max_rps or None,
        max_requests=params["max_requests"],
        max_minutes=params["max_minutes"],
    )
    return Talk(
        base_url=base_url,
        runs_dir=params["runs_dir"],
        limits=limits,
        use_environment_proxies=params["use_environment_proxies"],
        contact=params["contact"],
        wire=wire_settings(config),
    )


def check_goal(goal: Goal) -> None:
    """Refuse a number of points that no play lands on.

    Raises:
        ConfigError: there is none; names the nearest numbers.
    """
    if goal.rule != strategy.EXACTLY or strategy.is_reachable(goal.bank_at):
        return
    below, above = strategy.nearest_reachable(goal.bank_at)
    raise ConfigError(
        f"no play ends on exactly {goal.bank_at} points; the nearest are {below} and {above}"
    )


def told(ctx: click.Context, settings: Settings) -> Iterator[tuple[str, str, str]]:
    """Yield name, value and source of each setting in `ctx`, for people."""
    for name in (str(setting.name) for setting in SETTINGS):
        value = ctx.params[name]
        if name == "max_rps" and value is None:
            value = settings.talk.limits.max_rps
        if name == "notify_url" and value:
            value = "set, not shown"
        yield name, _format(value), _source(ctx, name)
    wire = settings.talk.wire
    for field, path in wire.paths.items():
        yield f"wire.{field}", format_path(path), "configuration file"
    if wire.ignore:
        yield "wire.ignore", ", ".join(sorted(wire.ignore)), "configuration file"


def _format(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.15g}"
    return "-" if value in (None, "") else str(value)


def _source(ctx: click.Context, name: str) -> str:
    return {
        ParameterSource.COMMANDLINE: "command line",
        ParameterSource.ENVIRONMENT: PREFIX + name.upper(),
        ParameterSource.DEFAULT_MAP: str(ctx.obj.path),
    }.get(_parameter_source(ctx, name), BUILT_IN)


def _is_local(ctx: click.Context) -> bool:
    """Tell which of `local` and `base_url` holds: the one from the stronger source.

    Raises:
        ConfigError: both are from the same one.
    """
    if not ctx.params["local"]:
        return False
    local, base_url = (_parameter_source(ctx, name) for name in ("local", "base_url"))
    if local != base_url:
        return local < base_url  # click's sources are in the order of their strength
    both = {
        ParameterSource.COMMANDLINE: "--local and --base-url",
        ParameterSource.ENVIRONMENT: f"{PREFIX}LOCAL and {PREFIX}BASE_URL",
        ParameterSource.DEFAULT_MAP: f"{ctx.obj.path}: local and base_url",
    }[local]
    raise ConfigError(f"{both} cannot go together; leave one of them out")


def _parameter_source(ctx: click.Context, name: str) -> ParameterSource:
    """Return where a parsed option has its value from."""
    return ctx.get_parameter_source(name) or ParameterSource.DEFAULT
