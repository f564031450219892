"""Where the value of a setting comes from: flag over environment over file over built-in.

The configuration file: which one, what is in it, and what nobody knows there or in the
environment. Which settings there are is not known here.
"""

from __future__ import annotations

import copy
import difflib
import os
import stat
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource

from bot.cli.forms import FileName, Text, describe, toml_types
from bot.errors import ConfigError, UsageError
from bot.garland import MAX_WHOLE
from bot.wire.fields import LOCATABLE
from bot.wire.layout import WireSettings
from bot.wire.values import parse_path

PREFIX: Final = "SUNPLEAT_"
"""What the variable of each setting begins with."""
CONFIG_VARIABLE: Final = f"{PREFIX}CONFIG"
DEFAULT_CONFIG: Final = Path("configs", "default.toml")
MAX_DEPTH: Final = 10
"""Levels of tables and lists in a file; `wire.ignore`, the deepest setting, has three."""


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A configuration file as it was read; what a verb does not take is not looked at."""

    path: Path | None = None
    """None where there is none."""
    label: str = ""
    """What a person knows it by."""
    table: Mapping[str, Any] = field(default_factory=dict)


def find_config(given: Path | None) -> ConfigFile:
    """Read the configuration file: the one given, else the variable's, else the default's.

    A variable that is set to nothing says that there is no file.

    Raises:
        UsageError: the given file is not there, or is none.
        ConfigError: a file cannot be read, or is no TOML.
    """
    if given is not None:
        if not _is_file(given):
            is_there = os.path.lexists(given)
            what = f"{given} is not a file" if is_there else f"there is no file {given}"
            raise UsageError(f"--config: {what}")
        return _read(given, f"--config {given}")
    named = os.environ.get(CONFIG_VARIABLE)
    if named:
        return _read(Path(named), f"{CONFIG_VARIABLE}={named}")
    if named is None and _is_file(DEFAULT_CONFIG):
        return _read(DEFAULT_CONFIG, str(DEFAULT_CONFIG))
    return ConfigFile()


def _is_file(path: Path) -> bool:
    """Tell whether there is a file for us at `path`, be it that nobody lets us look."""
    try:
        return path.is_file()
    except OSError:
        return False


def _read(path: Path, label: str) -> ConfigFile:
    """Read a file as TOML; a pipe or a device is never opened, since it may never end."""
    too_deep = f"{label}: nested too deeply to read"
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise ConfigError(f"{label}: cannot be read: not a file")
        table = tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as exc:
        raise ConfigError(f"{label}: cannot be read: {exc.strerror}") from exc
    except ValueError as exc:
        raise ConfigError(f"{label}: not TOML: {exc}") from exc
    except RecursionError as exc:
        raise ConfigError(too_deep) from exc
    if _is_too_deep(table):
        raise ConfigError(too_deep)
    return ConfigFile(path, label, table)


def _is_too_deep(table: object) -> bool:
    """Tell whether tables and lists are nested more than `MAX_DEPTH` deep.

    How deep they can be read and shown is another matter in each release of Python.
    """
    level = [table]
    for _ in range(MAX_DEPTH):
        level = [inner for outer in level for inner in _inside(outer)]
    return any(isinstance(inner, dict | list) for inner in level)


def _inside(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _load(ctx: click.Context, _: click.Parameter, given: Path | None) -> None:
    """Read the file before any setting is looked up."""
    ctx.obj = find_config(given)
    settings = [param.name for param in ctx.command.params if param.envvar]
    ctx.default_map = {name: value for name, value in ctx.obj.table.items() if name in settings}


CONFIG: Final = click.Option(
    ["--config"],
    type=click.Path(path_type=Path),
    is_eager=True,
    expose_value=False,
    callback=_load,
    metavar="FILE",
    help=f"TOML file of settings.  [default: {CONFIG_VARIABLE}, else {DEFAULT_CONFIG}]",
)


def refuse_unknown(config: ConfigFile, names: Iterable[str]) -> None:
    """Look for keys and variables that are no setting; `names` are those of all settings.

    A variable of our prefix counts where it nearly has the name of one: container platforms
    make others.

    Raises:
        ConfigError: there is one; says which setting is nearest.
    """
    known = [*names, "wire"]
    for key in config.table:
        if key not in known:
            raise ConfigError(f"{config.label}: {_unknown(key, known)}")
    variables = [CONFIG_VARIABLE, *(PREFIX + name.upper() for name in names)]
    for variable in os.environ:
        if not variable.startswith(PREFIX) or variable in variables:
            continue
        if guesses := difflib.get_close_matches(variable, variables, n=1, cutoff=0.85):
            raise ConfigError(f"unknown variable {variable}; did you mean {guesses[0]}?")


def wire_settings(config: ConfigFile) -> WireSettings:
    """Return what the file says of the service's answers, in its table `wire`.

    Raises:
        ConfigError: something is wrong with it.
    """
    label, table = config.label, config.table.get("wire", {})
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


class Setting(click.Option):
    """An option that the environment and the configuration file can set too.

    A bad value is a usage error on the command line and a configuration error elsewhere.
    """

    def __init__(self, *flags: str, **kwargs: Any) -> None:
        """Add the variable of the option's name; a default that says something is shown."""
        kwargs.setdefault("show_default", kwargs["default"] not in (None, False, ""))
        super().__init__(flags, **kwargs)
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
        """Take the value from the strongest source that has one; a file has to have its type."""
        if self.needs and self.needs not in opts and self.name not in opts:
            return self.default, ParameterSource.DEFAULT
        value, source = super().consume_value(ctx, opts)
        ctx.set_parameter_source(str(self.name), source)
        if source is ParameterSource.DEFAULT_MAP and type(value) not in toml_types(self.type):
            raise click.BadParameter("")
        return value, source

    def type_cast_value(self, ctx: click.Context, value: Any) -> Any:
        """Return what the value stands for; a relative name in a file begins where that is."""
        value = super().type_cast_value(ctx, value)
        is_of_file = ctx.get_parameter_source(str(self.name)) is ParameterSource.DEFAULT_MAP
        if is_of_file and isinstance(self.type, FileName) and str(value):
            name = os.path.normpath(ctx.obj.path.parent / value)
            return name if isinstance(value, str) else Path(name)
        return value

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        """Take the value; say what would do, and where it came from, where that is wrong.

        Raises:
            ConfigError: the environment or the configuration file holds a bad value.
        """
        try:
            return super().handle_parse_result(ctx, opts, args)
        except click.BadParameter as exc:
            name = str(self.name)
            source = ctx.get_parameter_source(name)
            if source is ParameterSource.ENVIRONMENT:
                why = self._explain(os.environ.get(str(self.envvar)), exc)
                raise ConfigError(f"environment variable {self.envvar}: {why}") from exc
            if source is ParameterSource.DEFAULT_MAP:
                why = self._explain(ctx.obj.table[name], exc)
                raise ConfigError(f"{ctx.obj.label}: {name}: {why}") from exc
            raise click.BadParameter(self._explain(opts.get(name), exc), ctx, self) from exc

    def _explain(self, value: object, exc: click.BadParameter) -> str:
        """Say what would do instead of a value, and why where the form is not all of it."""
        text = self.type if isinstance(self.type, Text) else None
        got = "" if text and text.is_secret else f", got {value!r}"
        reason = f": {exc.message}" if text and exc.message else ""
        return f"expected {describe(self.type)}{got}{reason}"
