"""The settings of one call: the configuration file, and the values that travel on."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource

from bot import strategy
from bot.cli.options import PREFIX, SETTINGS
from bot.client.limits import POLITE_RPS, Limits
from bot.errors import ConfigError, UsageError
from bot.strategy import Goal
from bot.wire.fields import LOCATABLE
from bot.wire.layout import WireSettings
from bot.wire.paths import parse_path

CONFIG_VARIABLE: Final = f"{PREFIX}CONFIG"
BUILT_IN: Final = "built-in"
"""The source of a setting that nobody has set."""
DEFAULT_CONFIG: Final = Path("configs", "default.toml")
LOCAL: Final = "local"
"""What the journal has for the base URL of the built-in service."""
FILE_NAMES: Final = ("runs_dir", "metrics_file")
"""Settings that name a file or folder; a relative one follows the configuration file."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What one call is to do."""

    base_url: str
    """`local` for the built-in service."""
    seed: int
    goal: Goal
    runs_dir: Path
    limits: Limits
    is_following: bool
    use_environment_proxies: bool
    is_quiet: bool
    log_format: str
    notify_url: str
    """Empty for none."""
    metrics_file: Path | None
    wire: WireSettings
    sources: Mapping[str, str]
    """Where the value of each setting came from, for people."""
    values: Mapping[str, object]
    """Each setting as it was given, or as it is where nothing was."""

    @property
    def is_local(self) -> bool:
        """Whether to play on the built-in service."""
        return self.base_url == LOCAL


def refuse_misspelt_variables() -> None:
    """Look for variables of the environment that nearly have the name of a setting.

    Others of our prefix are not ours to judge: container platforms make some.

    Raises:
        ConfigError: there is one.
    """
    known = [CONFIG_VARIABLE.removeprefix(PREFIX), *(str(item.name).upper() for item in SETTINGS)]
    for variable in os.environ:
        name = variable.removeprefix(PREFIX)
        if name == variable or name in known:
            continue
        if guesses := difflib.get_close_matches(name, known, n=1, cutoff=0.8):
            raise ConfigError(f"unknown variable {variable}; did you mean {PREFIX}{guesses[0]}?")


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A configuration file, read and checked."""

    path: Path | None
    """None where there is none."""
    values: Mapping[str, object]
    wire: WireSettings


def find_config(given: Path | None) -> ConfigFile:
    """Read the configuration file: the one given, else the variable's, else the default's.

    A variable that is set to nothing says that there is no file.

    Raises:
        UsageError: the given file is not there.
        ConfigError: a file cannot be read, or has something wrong in it.
    """
    if given is not None:
        if not is_file(given):
            raise UsageError(f"--config: there is no file {given}")
        return _read(given, f"--config {given}")
    named = os.environ.get(CONFIG_VARIABLE)
    if named:
        return _read(Path(named), f"{CONFIG_VARIABLE}={named}")
    if named is None and is_file(DEFAULT_CONFIG):
        return _read(DEFAULT_CONFIG, str(DEFAULT_CONFIG))
    return ConfigFile(None, {}, WireSettings())


def is_file(path: Path) -> bool:
    """Tell whether there is a file for us at `path`, be it that nobody lets us look."""
    try:
        return path.is_file()
    except OSError:
        return False


def _parse(path: Path, label: str) -> dict[str, Any]:
    """Read a file as TOML; a pipe or a device is never opened, since it may never end."""
    try:
        if path.exists() and not path.is_file():
            raise ConfigError(f"{label}: cannot be read: not a file")
        return tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as exc:
        raise ConfigError(f"{label}: cannot be read: {exc.strerror}") from exc
    except ValueError as exc:
        raise ConfigError(f"{label}: not TOML: {exc}") from exc
    except RecursionError as exc:
        raise ConfigError(f"{label}: nested too deeply to read") from exc


def _read(path: Path, label: str) -> ConfigFile:
    table = _parse(path, label)
    known = {str(setting.name): setting for setting in SETTINGS}
    values: dict[str, object] = {}
    wire_table: object = {}
    for key, value in table.items():
        if key == "wire":
            wire_table = value
        elif key in known:
            try:
                values[key] = known[key].read_file_value(value)
            except ValueError as exc:
                raise ConfigError(f"{label}: {key}: {exc}") from exc
        else:
            raise ConfigError(f"{label}: {_unknown(key, [*known, 'wire'])}")
    for name in FILE_NAMES:
        if values.get(name):
            values[name] = Path(os.path.normpath(path.parent / str(values[name])))
    return ConfigFile(path, values, _read_wire(wire_table, label))


def _read_wire(table: object, label: str) -> WireSettings:
    if not isinstance(table, dict):
        raise ConfigError(f"{label}: wire: expected a table such as [wire], got {table!r}")
    paths = {}
    ignore: object = []
    for key, value in table.items():
        if key == "ignore":
            ignore = value
        elif key in LOCATABLE:
            try:
                paths[key] = parse_path(value)
            except ValueError as exc:
                raise ConfigError(f"{label}: wire.{key}: {exc}") from exc
        else:
            raise ConfigError(f"{label}: wire: {_unknown(key, [*LOCATABLE, 'ignore'])}")
    if not isinstance(ignore, list) or not all(isinstance(name, str) for name in ignore):
        raise ConfigError(f"{label}: wire.ignore: expected a list of names, got {ignore!r}")
    return WireSettings(paths, frozenset(ignore))


def _unknown(key: str, known: Iterable[str]) -> str:
    guesses = difflib.get_close_matches(key, known, n=1)
    hint = f"did you mean {guesses[0]!r}?" if guesses else f"there are {', '.join(known)}"
    return f"unknown key {key!r}; {hint}"


def resolve(ctx: click.Context, config: ConfigFile) -> Settings:
    """Put the parsed options of `ctx` together.

    Raises:
        ConfigError: two values cannot go together.
    """
    names = [str(setting.name) for setting in SETTINGS]
    owners = {name: _owner(ctx, name) for name in names}
    values: dict[str, Any] = {name: owners[name].params[name] for name in names}
    is_local = _is_local(owners, values, config)
    if values["max_rps"] is None and not is_local:
        values["max_rps"] = POLITE_RPS
    limits = Limits(
        timeout_s=values["timeout"],
        give_up_after_s=values["give_up_after"],
        max_rps=values["max_rps"] or None,
        max_requests=values["max_requests"],
        max_minutes=values["max_minutes"],
    )
    return Settings(
        base_url=LOCAL if is_local else values["base_url"],
        seed=values["seed"],
        goal=Goal(values["bank_at"], values["bank_rule"]),
        runs_dir=values["runs_dir"],
        limits=limits,
        is_following=values["on_divergence"] == "follow",
        use_environment_proxies=values["use_environment_proxies"],
        is_quiet=values["quiet"],
        log_format=values["log_format"],
        notify_url=values["notify_url"],
        metrics_file=Path(values["metrics_file"]) if values["metrics_file"] else None,
        wire=config.wire,
        sources={name: _source(owners[name], name, config) for name in names},
        values=values,
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


def _owner(ctx: click.Context, name: str) -> click.Context:
    """Return the context that a setting is taken from: a flag before a verb counts too."""
    is_flag_here = ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
    if ctx.parent is None or is_flag_here:
        return ctx
    is_flag_above = ctx.parent.get_parameter_source(name) is ParameterSource.COMMANDLINE
    return ctx.parent if is_flag_above else ctx


def _is_local(
    owners: Mapping[str, click.Context], values: Mapping[str, Any], config: ConfigFile
) -> bool:
    """Tell which of `local` and `base_url` holds: the one from the stronger source."""
    if not values["local"]:
        return False
    local, base_url = (owners[name].get_parameter_source(name) for name in ("local", "base_url"))
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
