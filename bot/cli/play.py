"""The verb `play`, which is meant where none is named: one sitting of a run."""

from __future__ import annotations

import json
from typing import Any

import click
from click.core import ParameterSource

from bot import player
from bot.cli.config import CONFIG
from bot.cli.monitoring import Metrics, Notifier
from bot.cli.options import SETTINGS
from bot.cli.process import VERBS
from bot.cli.settings import Settings, check_goal, resolve
from bot.cli.signals import heeding
from bot.cli.wiring import local_service, new_client, new_clock, new_order, open_transport
from bot.client.client import Client
from bot.client.clock import StopRequest
from bot.console import streams
from bot.console.displays import Display, Several, choose_display
from bot.errors import AS_ASKED, BotError, ConfigError, OutputError, Stopped, TryLater
from bot.player import Mode, Outcome


@click.command(params=[*SETTINGS, CONFIG], context_settings={"allow_extra_args": True})
@click.option("--fresh", is_flag=True, help="Begin a new run, even where one is unfinished.")
@click.option(
    "--bank-now", is_flag=True, help="Bank the unfinished run with the points that it has."
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
@click.pass_context
def play(ctx: click.Context, /, *, fresh: bool, bank_now: bool, as_json: bool, **_: Any) -> int:
    """Play until the bank threshold; resume the unfinished run where there is one."""
    if ctx.args:
        hint = "; a verb comes first, before its flags" if ctx.args[0] in VERBS else ""
        raise click.UsageError(f"unexpected argument {ctx.args[0]!r}{hint}", ctx)
    settings = resolve(ctx)
    is_resuming_only = settings.is_resuming_only
    if ctx.get_parameter_source("resume_only") is not ParameterSource.COMMANDLINE:
        is_resuming_only = is_resuming_only and not (fresh or bank_now)
    flags = {
        Mode.FRESH: ("--fresh", fresh),
        Mode.BANK_NOW: ("--bank-now", bank_now),
        Mode.RESUME_ONLY: ("--resume-only", is_resuming_only),
    }
    given = [mode for mode, (_name, is_given) in flags.items() if is_given]
    if len(given) > 1:
        names = " and ".join(flags[mode][0] for mode in given)
        raise click.UsageError(f"{names} cannot go together; leave one out")
    return sit(settings, given[0] if given else Mode.GO_ON, as_json=as_json)


def sit(settings: Settings, mode: Mode, *, as_json: bool) -> int:
    """Play one sitting, show it, and notify of it; return the exit code that it earned.

    Raises:
        ConfigError: no play lands on the threshold, or figures cannot be written.
    """
    display = choose_display(is_quiet=settings.is_quiet, log_format=settings.log_format)
    notifier = Notifier(settings.notify_url, display.error)
    try:
        check_goal(settings.goal)
        if settings.metrics_file is not None:
            place = (settings.metrics_file, settings.base_url, settings.seed)
            display = Several(display, Metrics(*place, display.error))
    except ConfigError as exc:
        notifier.end(exc.exit_code)
        raise
    stop = StopRequest()

    def last_words(exit_code: int) -> None:
        if as_json:
            streams.answer_failure(str(Stopped(exit_code - 128)), exit_code)

    exit_code = BotError.exit_code
    with heeding(stop, last_words) as signals:
        try:
            outcome = _play(settings, mode, display, notifier, stop)
            exit_code = AS_ASKED if outcome is None else outcome.exit_code
            signals.earn(exit_code)
            if outcome is None:
                exit_code = _tell_nothing(settings, display, as_json=as_json)
            else:
                exit_code = _tell(outcome, display, as_json=as_json)
        except BotError as exc:
            exit_code = _fail(exc, display, as_json=as_json)
        finally:
            signals.earn(exit_code)
            notifier.end(exit_code)
    return exit_code


def _play(
    settings: Settings, mode: Mode, display: Display, notifier: Notifier, stop: StopRequest
) -> Outcome | None:
    """Play; show how the run stands afterwards."""
    clock = new_clock(stop)
    service = local_service(settings, mode, display.notice)
    transport = open_transport(settings, service, stop, display.notice)

    def begin() -> Client:
        notifier.start()  # the run is ours now; a second bot never comes as far as this
        return new_client(settings, transport, clock)

    try:
        order = new_order(settings, mode, service)
        outcome = player.play(order, begin, clock, display)
        if outcome is not None:
            why = str(outcome.error) if isinstance(outcome.error, TryLater) else ""
            display.ended(outcome.run, outcome.path, why)
    finally:
        display.close()
    return outcome


def _tell(outcome: Outcome, display: Display, *, as_json: bool) -> int:
    """Say what came of a sitting; return the exit code, which a lost result changes."""
    error = outcome.error
    if error is not None and not isinstance(error, TryLater):
        display.error(str(error))
    elif error is None and outcome.exit_code:
        state, goal = outcome.run.state, outcome.run.goal
        display.error(
            f"the run ended {state.end_reason} with {state.score:,} points, not as asked: "
            f"{goal.rule} {goal.bank_at:,}"
        )
    return _answer(describe(outcome), display, outcome.exit_code) if as_json else outcome.exit_code


def _tell_nothing(settings: Settings, display: Display, *, as_json: bool) -> int:
    """Say that there is no run to resume, which is no error."""
    text = (
        f"there is no unfinished run of seed {settings.seed} on {settings.base_url} in "
        f"{settings.runs_dir}; nothing was done"
    )
    display.info(text)
    result: dict[str, object] = {"error": text, "exit_code": AS_ASKED}
    return _answer(result, display, AS_ASKED) if as_json else AS_ASKED


def _fail(error: BotError, display: Display, *, as_json: bool) -> int:
    """Say why no run could be begun; another bot at work is no error."""
    tell = display.info if isinstance(error, TryLater) else display.error
    tell(str(error))
    result: dict[str, object] = {"error": str(error), "exit_code": error.exit_code}
    return _answer(result, display, error.exit_code) if as_json else error.exit_code


def _answer(result: dict[str, object], display: Display, exit_code: int) -> int:
    """Print a result; return the exit code, which is that of a lost result where it was 0."""
    try:
        streams.answer(json.dumps(result))
    except OutputError as exc:
        display.error(str(exc))
        return exit_code or exc.exit_code
    return exit_code


def describe(outcome: Outcome) -> dict[str, object]:
    """Return the result of a sitting for programs."""
    run = outcome.run
    totals = run.totals()
    return {
        "run_id": run.started.run_id if run.started else None,
        "journal": str(outcome.path),
        "score": totals.score,
        "boards": totals.boards,
        "flips": totals.flips,
        "requests": totals.requests,
        "retries": totals.retries,
        "leaves": run.state.leaves,
        "end_reason": run.state.end_reason,
        "seconds": totals.seconds,
    }
