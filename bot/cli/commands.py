"""The verbs of the command line. What is heavy is imported by the verb that needs it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click

from bot import __version__
from bot.cli.options import SETTINGS, BaseUrl, Folder
from bot.cli.settings import (
    CONFIG_VARIABLE,
    DEFAULT_CONFIG,
    LOCAL,
    Settings,
    find_config,
    refuse_misspelt_variables,
    resolve,
)
from bot.console import streams

CONTEXT: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
CONFIG_KEY: Final = "sunpleat.config"
"""Where the contexts of click share the configuration file."""


def _load_config(ctx: click.Context, _: click.Parameter, given: Path | None) -> None:
    """Read the configuration file before any setting is looked up."""
    refuse_misspelt_variables()
    if given is not None or CONFIG_KEY not in ctx.meta:
        ctx.meta[CONFIG_KEY] = find_config(given)
    ctx.default_map = dict(ctx.meta[CONFIG_KEY].values)


CONFIG: Final = click.Option(
    ["--config"],
    type=click.Path(path_type=Path),
    is_eager=True,
    expose_value=False,
    callback=_load_config,
    metavar="FILE",
    help=f"TOML file of settings.  [default: {CONFIG_VARIABLE}, else {DEFAULT_CONFIG}]",
)


@click.group(
    invoke_without_command=True,
    context_settings=CONTEXT,
    params=[*SETTINGS, CONFIG],
    epilog="""\b
Examples:
  python -m bot --local                    play on the built-in service
  python -m bot --seed 8 --bank-at 21050   play on the remote one, in short
  python -m bot replay latest              prove the last run
  python -m bot check                      show settings; ask the service once

\b
Every setting can also come from the environment (SUNPLEAT_BANK_AT=21050) or from a
TOML file (bank_at = 21050); a flag wins over the environment, that over the file.

\b
Exit codes: 0 banked as asked; 1 ended otherwise, or a replay found a fault; 2 usage;
69 service unavailable; 70 fault of the bot; 74 journal; 75 try later; 76 the service
contradicts the rules; 77 token refused, run abandoned; 78 configuration;
129/130/143 stopped. After 69, 75, 76 and these three the next call goes on with the run.
""",
)
@click.option("--fresh", is_flag=True, help="Begin a new run though one is unfinished.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
@click.version_option(__version__, prog_name="sunpleat-bot")
@click.pass_context
def cli(ctx: click.Context, /, *, fresh: bool, as_json: bool, **_: Any) -> int:
    """Play Sunpleat, unattended, until the bank threshold; or one of the commands below.

    Without a command it plays: it clears garland after garland in the fewest flips, writes
    every token and award into a journal, and banks at the threshold. Stop it as you like: the
    next call with the same service and seed goes on where it was.
    """
    settings = ctx.obj = resolve(ctx, ctx.meta[CONFIG_KEY])
    if ctx.invoked_subcommand is not None:
        if fresh or as_json:
            raise click.UsageError("only playing takes --fresh and --json before a verb")
        return 0
    from bot.cli.playing import play  # noqa: PLC0415

    return play(settings, is_fresh=fresh, as_json=as_json)


def _runs_dir_option(function: Any) -> Any:
    return click.option(
        "--runs-dir",
        type=Folder(),
        metavar="DIR",
        help="Folder of the journals.  [default: the setting's]",
    )(function)


@cli.command(context_settings=CONTEXT, params=[*SETTINGS, CONFIG])
@click.pass_context
def check(ctx: click.Context, /, **_: Any) -> int:
    """Show settings and where each came from; ask the service once; play nothing."""
    from bot.cli.checking import check as run  # noqa: PLC0415

    return run(resolve(ctx, ctx.meta[CONFIG_KEY]))


@cli.command(context_settings=CONTEXT)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    help="Port to listen at; 0 picks a free one.",
)
@click.option(
    "--runs-dir",
    type=Folder(),
    metavar="DIR",
    help="Take the tokens of --local runs in this folder, too.  [default: tokens of this call]",
)
def serve(host: str, port: int, runs_dir: Path | None) -> int:
    """Serve the game over HTTP; the first line printed is the base URL."""
    from bot.cli.playing import serve as run  # noqa: PLC0415

    return run(host, port, runs_dir)


@cli.command(context_settings=CONTEXT)
@click.argument("run", required=False, metavar="RUN")
@click.option("--all", "is_all", is_flag=True, help="One page of all runs in the runs folder.")
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="File to write.  [default: RUN_ID.html, or runs.html, in this folder]",
)
@_runs_dir_option
@click.pass_obj
def report(
    settings: Settings, run: str | None, *, is_all: bool, output: Path | None, runs_dir: Path | None
) -> int:
    """Write one HTML file that shows a run: charts, incidents, every board.

    RUN is a path, a run id or latest. The file needs no network; its path is printed.
    """
    from bot.cli import reporting  # noqa: PLC0415

    folder = runs_dir or settings.runs_dir
    if is_all == (run is not None):
        raise click.UsageError("name a RUN (a path, a run id or latest), or say --all")
    if run is None:
        return reporting.report_all(folder, output)
    return reporting.report(folder, run, output)


class _Service(BaseUrl):
    """A base URL, or `local` for the service that is built in."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the address in one spelling."""
        return value if value == LOCAL else super().convert(value, param, ctx)


class _Sample(click.ParamType[int]):
    """A number of moves; 0 stands for all of them."""

    name = "sample"

    def convert(
        self, value: str | int, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Return the number."""
        if value == "all":
            return 0
        return click.IntRange(1).convert(value, param, ctx)  # type: ignore[arg-type]  # it parses texts


@cli.command(
    context_settings=CONTEXT,
    epilog="""\b
Exit codes: 0 verified; 1 with the first problems, each on a line; 2 no journal.
With --against, too: 77 the service takes the old tokens no more, which is no
fault of the run; 69 the service is out of reach; 75 a budget is used up.
""",
)
@click.argument("run", metavar="RUN")
@click.option("--watch", "is_watching", is_flag=True, help="Show the run, move by move.")
@click.option(
    "--against",
    type=_Service(),
    metavar="URL|local",
    help="Send a sample of the moves again, and compare what the service answers.",
)
@click.option(
    "--sample",
    type=_Sample(),
    default=100,
    show_default=True,
    metavar="N|all",
    help="Moves to send again; the first, the last and one of each award are among them.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
@_runs_dir_option
@click.pass_obj
def replay(
    settings: Settings,
    /,
    run: str,
    *,
    is_watching: bool,
    against: str | None,
    sample: int,
    as_json: bool,
    runs_dir: Path | None,
) -> int:
    """Prove a run: play its journal again by the rules, and compare every line.

    RUN is a path, a run id, or latest. A run that is unfinished is verified as far as it goes.
    """
    from bot.cli import inspecting  # noqa: PLC0415
    from bot.journal.folder import find  # noqa: PLC0415

    if is_watching and (against is not None or as_json):
        raise click.UsageError("--watch goes neither with --against nor with --json")
    settings = replace(settings, runs_dir=runs_dir or settings.runs_dir)
    path = find(settings.runs_dir, run)
    if is_watching:
        return inspecting.watch(path)
    if against is not None:
        return inspecting.audit(path, settings, against, sample or None, as_json=as_json)
    return inspecting.replay(path, as_json=as_json)


@cli.command(context_settings=CONTEXT)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option("--prune", "is_pruning", is_flag=True, help="Remove old finished runs.")
@click.option(
    "--keep",
    type=click.IntRange(0),
    metavar="N",
    help="With --prune: finished runs to leave as they are, the newest ones.",
)
@click.option("--compress", "is_compressing", is_flag=True, help="With --prune: gzip them instead.")
@click.option("--yes", "is_agreed", is_flag=True, help="With --prune: do it without asking.")
@_runs_dir_option
@click.pass_obj
def runs(
    settings: Settings,
    /,
    *,
    as_json: bool,
    is_pruning: bool,
    keep: int | None,
    is_compressing: bool,
    is_agreed: bool,
    runs_dir: Path | None,
) -> int:
    """List all runs; with --prune, make room.

    --prune shows what it would do, and does it once that is agreed to: with --yes, or by a
    person at a terminal. A run that is not over is never touched.
    """
    from bot.cli import inspecting  # noqa: PLC0415

    folder = runs_dir or settings.runs_dir
    if not is_pruning:
        if keep is not None or is_compressing or is_agreed:
            raise click.UsageError("--keep, --compress and --yes go with --prune")
        return inspecting.runs(folder, as_json=as_json)
    if keep is None:
        raise click.UsageError("--prune needs --keep N, the finished runs to leave as they are")
    return inspecting.prune(
        folder, keep, is_compressing=is_compressing, is_agreed=is_agreed, as_json=as_json
    )


@cli.command(context_settings=CONTEXT)
@click.argument("run", default="latest", metavar="[RUN]")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
@_runs_dir_option
@click.pass_obj
def status(settings: Settings, /, run: str, *, as_json: bool, runs_dir: Path | None) -> int:
    """Show where a run stands: score, rate, time to go, retries, last success.

    RUN is a path, a run id, or latest, which is the default. The run may be going on.
    """
    from bot.cli import inspecting  # noqa: PLC0415
    from bot.journal.folder import find  # noqa: PLC0415

    return inspecting.status(find(runs_dir or settings.runs_dir, run), as_json=as_json)


@cli.command(context_settings={**CONTEXT, "ignore_unknown_options": True})
@click.argument("pennants", nargs=-1, required=True, metavar="PENNANTS...")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
def solve(pennants: tuple[str, ...], *, as_json: bool) -> int:
    """Print the fewest flips that restore a garland, such as: solve -- -2 -1 3."""
    from bot import solver  # noqa: PLC0415
    from bot.garland import flip, format_garland, parse_garland  # noqa: PLC0415

    try:
        numbers: list[object] = [int(pennant) for pennant in pennants]
    except ValueError:
        numbers = list(pennants)
    garland = parse_garland(numbers)
    flips = solver.solve(garland)
    if as_json:
        streams.answer(json.dumps({"flips": flips, "par": len(flips)}))
        return 0
    streams.answer(f"        {format_garland(garland)}")
    for count in flips:
        garland = flip(garland, count)
        streams.answer(f"flip {count}  {format_garland(garland)}")
    streams.answer(f"par {len(flips)}")
    return 0
