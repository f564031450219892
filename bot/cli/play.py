"""The verb `play`, which is meant where none is named: one sitting of a run."""

from __future__ import annotations

from typing import Any

import click
from click.core import ParameterSource

from bot import player
from bot.cli.monitoring import Metrics, Notifier
from bot.cli.process import VERBS
from bot.cli.settings import PLAYING, Settings, check_goal, resolve
from bot.cli.signals import heeding
from bot.cli.wiring import local_service, new_client
from bot.client.client import Client
from bot.client.clock import Clock, StopRequest
from bot.console import streams
from bot.console.displays import Display, Several, choose_display
from bot.errors import AS_ASKED, BotError, ConfigError, OutputError, Stopped, TryLater
from bot.player import Mode, Order, Outcome
from bot.run import Run
from bot.service import Service, foreign_key


@click.command(params=[*PLAYING], context_settings={"allow_extra_args": True})
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
    wishes = {
        "--fresh": (fresh, Mode.FRESH),
        "--bank-now": (bank_now, Mode.BANK_NOW),
        "--resume-only": (is_resuming_only, Mode.RESUME_ONLY),
    }
    modes = {flag: mode for flag, (is_given, mode) in wishes.items() if is_given}
    if len(modes) > 1:
        raise click.UsageError(f"{' and '.join(modes)} cannot go together; leave one out")
    return sit(settings, next(iter(modes.values()), Mode.GO_ON), as_json=as_json)


def sit(settings: Settings, mode: Mode, *, as_json: bool) -> int:
    """Play one sitting, show it, and notify of it; return the exit code that it earned.

    Raises:
        ConfigError: no play lands on the threshold, or figures cannot be written.
    """
    display = choose_display(is_quiet=settings.is_quiet, log_format=settings.log_format)
    notifier = Notifier(settings.notify_url, display.error)
    try:
        if mode is not Mode.BANK_NOW:
            check_goal(settings.goal)
        if settings.metrics_file is not None:
            place = (settings.metrics_file, settings.talk.base_url, settings.seed)
            display = Several(display, Metrics(*place, display.error))
    except ConfigError as exc:
        notifier.end(exc.exit_code)
        raise
    stop = StopRequest()

    def last_words(exit_code: int) -> None:
        if as_json:
            streams.answer_json(streams.failure(str(Stopped(exit_code - 128)), exit_code))

    exit_code = BotError.exit_code
    with heeding(stop, last_words) as signals:
        try:
            end = _play(settings, mode, display, notifier, Clock(stop))
            exit_code = AS_ASKED if end is None else end.exit_code
            if isinstance(end, Outcome):
                signals.earn(exit_code)
            result = _tell(end, settings, display)
            if as_json:
                exit_code = _answer(result, display, exit_code)
        finally:
            signals.earn(exit_code)
            notifier.end(exit_code)
    return exit_code


def _play(
    settings: Settings, mode: Mode, display: Display, notifier: Notifier, clock: Clock
) -> Outcome | BotError | None:
    """Play, and show how the run stands afterwards.

    An error: why no run could be begun. None: there was nothing to resume.
    """
    talk, service = settings.talk, None
    try:
        if talk.is_local:
            is_fresh = mode is Mode.FRESH
            service = local_service(talk.runs_dir, display.notice, is_fresh=is_fresh)
        client = new_client(talk, service, clock, display.notice)

        def begin() -> Client:
            notifier.start()  # the run is ours now; a second bot never comes as far as this
            return client

        outcome = player.play(_order(settings, mode, service), begin, clock, display)
        if outcome is not None:
            why = str(outcome.error) if isinstance(outcome.error, TryLater) else ""
            display.ended(outcome.run, outcome.path, why)
    except BotError as exc:
        return exc
    finally:
        display.close()
    return outcome


def _order(settings: Settings, mode: Mode, service: Service | None) -> Order:
    """Return what to play; the built-in service, if it is that one, knows its own tokens."""
    runs_dir = settings.talk.runs_dir

    def vouch(run: Run) -> None:
        if service is not None and not service.knows(run.token):
            raise foreign_key(runs_dir, run.started.run_id if run.started else "")

    return Order(settings.talk.base_url, settings.seed, settings.goal, runs_dir, mode, vouch)


def _tell(
    end: Outcome | BotError | None, settings: Settings, display: Display
) -> dict[str, object]:
    """Say what came of a call; return it for programs."""
    if end is None:
        talk = settings.talk
        text = (
            f"there is no unfinished run of seed {settings.seed} on {talk.base_url} in "
            f"{talk.runs_dir}; nothing was done"
        )
        display.info(text)
        return streams.failure(text, AS_ASKED)
    if isinstance(end, BotError):  # another bot at work is no error
        (display.info if isinstance(end, TryLater) else display.error)(str(end))
        return streams.failure(str(end), end.exit_code)
    if end.error is not None and not isinstance(end.error, TryLater):
        display.error(str(end.error))
    elif end.error is None and end.exit_code:
        state, goal = end.run.state, end.run.goal
        display.error(
            f"the run ended {state.end_reason} with {state.score:,} points, not as asked: "
            f"{goal.rule} {goal.bank_at:,}"
        )
    return describe(end)


def _answer(result: dict[str, object], display: Display, exit_code: int) -> int:
    """Print a result; return the exit code, which is that of a lost result where it was 0."""
    try:
        streams.answer_json(result)
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
