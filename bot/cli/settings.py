"""The settings of one call: small values that travel on to whoever needs them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource

from bot import strategy
from bot.cli.config import PREFIX, ConfigFile, refuse_unknown, wire_settings
from bot.cli.options import SETTINGS
from bot.client.limits import POLITE_RPS, Limits
from bot.errors import ConfigError
from bot.strategy import Goal
from bot.wire.layout import WireSettings

BUILT_IN: Final = "built-in"
"""The source of a setting that nobody has set."""
LOCAL: Final = "local"
"""What the journal has for the base URL of the built-in service."""
SEED_MARK: Final = "{seed}"
"""What stands for the seed in `metrics_file` and `notify_url`."""


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
class Settings(Talk):
    """What one call is to do."""

    seed: int
    goal: Goal
    is_resuming_only: bool
    is_quiet: bool
    log_format: str
    notify_url: str
    """Empty for none."""
    metrics_file: Path | None
    sources: Mapping[str, str]
    """Where the value of each setting came from, for people."""
    values: Mapping[str, object]
    """Each setting as it was given, or as it is where nothing was."""


def resolve(ctx: click.Context) -> Settings:
    """Put the parsed options of `ctx` together, which has every setting.

    Raises:
        ConfigError: a name is no setting, or two values cannot go together.
    """
    config: ConfigFile = ctx.obj or ConfigFile()
    names = [str(setting.name) for setting in SETTINGS]
    refuse_unknown(config, names)
    values = {name: ctx.params[name] for name in names}
    is_local = _is_local(ctx, values, config)
    base_url = LOCAL if is_local else values["base_url"]
    seed = values["seed"]
    metrics_file = str(values["metrics_file"]).replace(SEED_MARK, str(seed))
    talk = talk_of(ctx.params, config, base_url)
    if values["max_rps"] is None:
        values["max_rps"] = talk.limits.max_rps
    return Settings(
        base_url=base_url,
        runs_dir=values["runs_dir"],
        limits=talk.limits,
        use_environment_proxies=talk.use_environment_proxies,
        contact=talk.contact,
        wire=talk.wire,
        seed=seed,
        goal=Goal(values["bank_at"], values["bank_rule"]),
        is_resuming_only=values["resume_only"],
        is_quiet=values["quiet"],
        log_format=values["log_format"],
        notify_url=values["notify_url"].replace(SEED_MARK, str(seed)),
        metrics_file=Path(metrics_file) if metrics_file else None,
        sources={name: _source(ctx, name, config) for name in names},
        values=values,
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


def _is_local(ctx: click.Context, values: Mapping[str, Any], config: ConfigFile) -> bool:
    """Tell which of `local` and `base_url` holds: the one from the stronger source."""
    if not values["local"]:
        return False
    local, base_url = (ctx.get_parameter_source(name) for name in ("local", "base_url"))
    if local is None or base_url is None:
        raise TypeError("both settings have been parsed")
    if local != base_url:
        return local < base_url  # click's sources are in the order of their strength
    advice = "cannot go together; leave one of them out"
    if local is ParameterSource.COMMANDLINE:
        raise ConfigError(f"--local and --base-url {advice}")
    if local is ParameterSource.ENVIRONMENT:
        raise ConfigError(f"{PREFIX}LOCAL and {PREFIX}BASE_URL {advice}")
    raise ConfigError(f"{config.path}: local and base_url {advice}")


def _source(ctx: click.Context, name: str, config: ConfigFile) -> str:
    match ctx.get_parameter_source(name):
        case ParameterSource.COMMANDLINE:
            return "command line"
        case ParameterSource.ENVIRONMENT:
            return PREFIX + name.upper()
        case ParameterSource.DEFAULT_MAP:
            return str(config.path)
        case _:
            return BUILT_IN
