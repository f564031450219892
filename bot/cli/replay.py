"""The verb `replay`: a journal held against the rules, and a sample of it against a service."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bot.cli.forms import BaseUrl
from bot.cli.process import AS_JSON, NAME
from bot.cli.settings import LOCAL, RUNS_DIR, SEED, TALKING, Talk, talk_of
from bot.cli.signals import heeding
from bot.cli.sources import CONFIG
from bot.client.clock import Clock, StopRequest
from bot.client.limits import INIT_GIVE_UP_S
from bot.console import streams
from bot.errors import AS_ASKED, OTHERWISE, BotError, TokenRefused, UsageError
from bot.journal.folder import find
from bot.verify import MAX_PROBLEMS, Problem, Verification
from bot.wire.layout import layout_from_json
from bot.words import count_of, duration, one_line, shorten

if TYPE_CHECKING:
    from bot.client.client import Failed
    from bot.replay.audit import Findings
    from bot.replay.watch import Move
    from bot.service import Service


class _Service(BaseUrl):
    """A base URL, or `local` for the service that is built in."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> Any:
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


@click.command(
    params=[RUNS_DIR, CONFIG, SEED, AS_JSON, *TALKING],
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
@click.pass_context
def replay(
    ctx: click.Context,
    /,
    run: str,
    *,
    is_watching: bool,
    against: str | None,
    sample: int,
    as_json: bool,
    **options: Any,
) -> int:
    """Prove a run: play its journal again by the rules, and compare every line.

    RUN is a path, a run id, or latest. A run that is unfinished is verified as far as it goes.
    How to talk to a service (--max-rps and so on) matters with --against only.
    """
    if is_watching and (against is not None or as_json):
        raise click.UsageError("--watch goes neither with --against nor with --json")
    path = find(options["runs_dir"], run, seed=options["seed"])
    if is_watching:
        return _watch(path)
    service = _local_service(path, options["runs_dir"]) if against == LOCAL else None
    talk = None if against is None else talk_of(ctx.params, ctx.obj, against)
    verification = Verification(path)
    verification.read_all()
    if talk is None or not verification.is_verified:
        _tell(verification, None, as_json=as_json)
        return AS_ASKED if verification.is_verified else OTHERWISE
    findings, error = _audit(verification, talk, service, sample or None)
    _tell(verification, findings, as_json=as_json)
    if findings.problems:
        return OTHERWISE
    if error is not None:
        streams.say(one_line(f"{NAME}: {error}"))
        return error.exit_code
    return AS_ASKED


def _local_service(path: Path, runs_dir: Path) -> Service:
    """Return the built-in service with the key beside a journal, or else that of the runs folder.

    Raises:
        UsageError: there is none.
        JournalError: it is none of ours.
    """
    from bot.service import Service, load_key  # noqa: PLC0415 - few replays ask a service

    key = load_key(path.parent) or load_key(runs_dir)
    if key is None:
        raise UsageError(
            f"--against local: there is no key of the local service beside {path}, "
            f"and no other one can have signed its tokens"
        )
    return Service(key)


def _audit(
    verification: Verification, talk: Talk, service: Service | None, size: int | None
) -> tuple[Findings, BotError | None]:
    """Ask a service about a sample of the moves of a run, and read answers as the run did.

    Args:
        verification: of the journal, which was read and is in order.
        talk: how to talk to the service.
        service: the one in this process, if that is the one.
        size: moves to ask about; None for all of them.

    Returns:
        What it said, and what kept it from being asked to the end, if anything.
    """
    from bot.cli.wiring import new_client  # noqa: PLC0415 - few replays ask a service
    from bot.replay.audit import Findings, audit, choose  # noqa: PLC0415

    findings, stop = Findings(), StopRequest()
    try:
        client = new_client(_hasty(talk), service, Clock(stop), streams.say)
        client.resume(layout_from_json(verification.run.wire), is_under_way=True)
        with heeding(stop):
            audit(choose(verification, size), client, findings, _tell_failed)
    except BotError as exc:
        return findings, exc
    if not findings.refused:
        return findings, None
    return findings, TokenRefused(
        f"{findings.refused} of {findings.asked} old ones, which is no fault of the run: "
        f"{findings.refusal}"
    )


def _hasty(talk: Talk) -> Talk:
    """Return how to talk where nothing is at stake."""
    give_up_after_s = min(talk.limits.give_up_after_s, INIT_GIVE_UP_S)
    return replace(talk, limits=replace(talk.limits, give_up_after_s=give_up_after_s))


def _tell_failed(move: Move, failed: Failed) -> None:
    """Say what went wrong, and when it is tried again."""
    again = f"again in {duration(failed.wait_s)}" if failed.wait_s else f"attempt {failed.attempt}"
    streams.say(one_line(f"{move.action}: {shorten(failed.failure.cause)}; {again}"))


def _watch(path: Path) -> int:
    """Show the run at `path`: on a terminal as a film, else one line a move.

    Raises:
        NotAJournal: the file cannot be read, or is no journal.
    """
    from bot.replay import watch  # noqa: PLC0415 - few replays are watched

    verification = Verification(path)
    if _is_screen():
        film = watch.Film(verification)
        watch.show(film, sys.stdin.fileno(), sys.stdout.fileno())
        film.finish()
    else:
        for number, move in enumerate(watch.moves(verification), 1):
            streams.answer(watch.describe(number, move))
    if verification.is_verified:
        return AS_ASKED
    _tell(verification, None, as_json=False)
    return OTHERWISE


def _tell(verification: Verification, findings: Findings | None, *, as_json: bool) -> None:
    """Print the verdict on a journal, and that of a service where one was asked."""
    run = verification.run
    problems = [*verification.problems, *(findings.problems if findings else ())]
    tell = streams.answer
    if as_json:
        streams.answer_json(_for_programs(verification, problems, findings))
        tell = streams.say
    else:
        for problem in problems:
            tell(one_line(str(problem)))
    if not as_json or not run.is_over:
        tell(one_line(_verdict(verification)))
    if verification.torn_bytes:
        tell(f"ignored: a last line that was cut off after {verification.torn_bytes} bytes")
    if findings is not None and not as_json:
        tell(
            f"asked the service about {count_of(findings.asked, 'move')}: {findings.agreed:,} "
            f"answers agree, {len(findings.problems)} do not, "
            f"{count_of(findings.refused, 'token')} refused"
        )


def _for_programs(
    verification: Verification, problems: list[Problem], findings: Findings | None
) -> dict[str, object]:
    """Return the verdict for programs."""
    run = verification.run
    return {
        "run_id": verification.run_id,
        "verified": not problems,
        "score": run.state.score,
        "boards": run.boards,
        "actions": run.actions,
        "problems": [problem._asdict() for problem in problems],
        **({} if findings is None else {"audit": findings.to_json()}),
    }


def _verdict(verification: Verification) -> str:
    """Say in one line what a journal is worth."""
    run = verification.run
    figures = (
        f"{verification.run_id or 'a run of no name'}, {run.state.score:,} points, "
        f"{count_of(run.boards, 'board')}, {count_of(run.actions, 'action')}"
    )
    count = len(verification.problems)
    if count:
        more = " or more" if count >= MAX_PROBLEMS else ""
        return f"not verified: {figures}, {count}{more} problem{'s' if count > 1 else ''}"
    if not run.is_over:
        return f"verified as far as it goes, for it is unfinished: {figures}"
    return f"verified: {figures}, {run.state.end_reason or 'abandoned'}"


def _is_screen() -> bool:
    """Tell whether there is a terminal that can show pictures and send keys."""
    is_terminal = all(map(streams.is_terminal, (sys.stdin, sys.stdout)))
    return is_terminal and os.environ.get("TERM", "") not in ("", "dumb", "unknown")
