"""The verbs that look at journals, and keep house among them: `replay`, `runs` and `status`."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from bot.cli.settings import BUILT_IN, LOCAL, Settings, is_file
from bot.cli.signals import handling, heed_signals
from bot.client.limits import INIT_GIVE_UP_S, POLITE_RPS
from bot.console import streams
from bot.errors import AS_ASKED, OTHERWISE, BotError, Stopped, TokenRefused, UsageError
from bot.replay.verify import MAX_PROBLEMS, Verification
from bot.words import duration, one_line

if TYPE_CHECKING:
    from bot.client.client import Client
    from bot.client.failures import Failure
    from bot.replay.audit import Findings
    from bot.replay.film import Film
    from bot.replay.summary import Summary
    from bot.rules import Action


def replay(path: Path, *, as_json: bool) -> int:
    """Verify the journal at `path` and tell the verdict; return the exit code for it.

    Raises:
        NotAJournal: the file cannot be read, or is no journal.
    """
    verification = Verification(path)
    verification.run()
    _tell(verification, None, as_json=as_json)
    return AS_ASKED if verification.is_verified else OTHERWISE


def audit(path: Path, settings: Settings, base_url: str, size: int | None, *, as_json: bool) -> int:
    """Verify the journal at `path`, then ask a service about a sample of its moves.

    Nothing is asked about a journal that does not verify.

    Args:
        path: the journal.
        settings: how to talk to a service.
        base_url: of the service; `local` for the one that is built in.
        size: moves to ask about; None for all of them.
        as_json: whether to print one JSON object.

    Raises:
        NotAJournal: the file cannot be read, or is no journal.
        TokenRefused: the service takes the old tokens no more; the run is as it was logged.
        BotError: the service could not be asked to the end.
    """
    from bot.replay import audit as auditing  # noqa: PLC0415 - it needs the client

    settings = _towards(settings, base_url, path)
    verification = Verification(path)
    verification.run()
    started = verification.ledger.started
    if not verification.is_verified or started is None:
        _tell(verification, None, as_json=as_json)
        return OTHERWISE
    findings = auditing.Findings()
    error: BotError | None = None
    try:
        with _client_of(started.wire, settings) as client:
            numbers = auditing.choose(path, size)
            auditing.audit(auditing.moves(path, numbers), client, findings)
    except BotError as exc:
        error = exc
    _tell(verification, findings, as_json=as_json)
    if findings.problems:
        return OTHERWISE
    if error is not None:
        raise error
    if findings.refused:
        raise TokenRefused(
            f"{findings.refused} of {findings.asked} old ones, which is no fault of the run: "
            f"{findings.refusal}"
        )
    return AS_ASKED


def watch(path: Path) -> int:
    """Show the run at `path`: on a terminal as a film, else one line a move.

    Raises:
        NotAJournal: the file cannot be read, or is no journal.
    """
    from bot.replay import film  # noqa: PLC0415 - few replays are watched

    verification = Verification(path)
    moves = film.moves(verification)
    if _is_screen():
        reel = film.Film()
        for move in moves:
            reel.add(move)
        _show(reel, verification)
    else:
        from bot.replay.drawing import describe_move  # noqa: PLC0415

        for number, move in enumerate(moves, 1):
            streams.answer(describe_move(number, move))
    if verification.is_verified:
        return AS_ASKED
    _tell(verification, None, as_json=False)
    return OTHERWISE


def status(path: Path, *, as_json: bool) -> int:
    """Print where the run at `path` stands.

    Raises:
        NotAJournal: the file cannot be read, or is no journal.
    """
    from bot.replay.summary import summarise  # noqa: PLC0415

    run = summarise(path)
    if as_json:
        streams.answer(json.dumps(run.to_json()))
        return 0
    to_go = "" if run.eta_s is None else f"; {duration(run.eta_s)} to go"
    rate = "-" if run.rate is None else f"{run.rate:,.0f} points an hour{to_go}"
    rows = {
        "run": f"{run.run_id}, {run.state}",
        "service": "-" if run.base_url is None else f"{run.base_url}, seed {run.seed}",
        "score": _describe_score(run),
        "boards": f"{run.boards:,}",
        "requests": f"{run.requests:,}, {run.retries:,} retries",
        "rate": rate,
        "started": run.started or "-",
        "last success": run.last_success or "-",
        "journal": str(run.journal),
    }
    for name, value in rows.items():
        streams.answer(one_line(f"{name:12} {value}"))
    return 0


def runs(runs_dir: Path, *, as_json: bool) -> int:
    """Print all runs of a folder, in the order of their starts.

    Raises:
        JournalError: the folder cannot be read.
    """
    from bot.replay.summary import summarise_all  # noqa: PLC0415

    summaries = summarise_all(runs_dir)
    if as_json:
        streams.answer(json.dumps([run.to_json() for run in summaries]))
        return 0
    head = ("run", "state", "score", "of", "boards", "requests", "retries", "service")
    rows = [head, *map(_row, summaries)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    for row in rows:
        cells = [
            cell.ljust(width) if column in (0, 1, 7) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        streams.answer("  ".join(cells).rstrip())
    if not summaries:
        streams.say(f"there is no run in {runs_dir.absolute()}")
    return 0


def prune(
    runs_dir: Path, keep: int, *, is_compressing: bool, is_agreed: bool, as_json: bool
) -> int:
    """Show what is to be done with old finished runs; do it where that is agreed to.

    Raises:
        JournalError: the folder cannot be read, or something cannot be done.
    """
    from bot.journal.housekeeping import carry_out, plan  # noqa: PLC0415

    chores, kept = plan(runs_dir, keep, is_compressing=is_compressing)
    what = "compress" if is_compressing else "remove"
    tell = streams.say if as_json else streams.answer
    for chore in chores:
        tell(one_line(f"{what} {chore.path} ({chore.size:,} bytes)"))
    if not chores:
        tell(f"nothing to {what} beyond the newest {keep} finished runs")
    is_agreed = bool(chores) and (is_agreed or _is_confirmed(what, len(chores)))
    for path, reason in kept.items():
        tell(streams.one_line(f"keep {path}: {reason}"))
    for chore in chores if is_agreed else ():
        skipped = carry_out(chore)
        if skipped is not None:
            tell(streams.one_line(f"skipped {chore.path}: {skipped}"))
    if as_json:
        result = [{"journal": str(c.path), "bytes": c.size, "action": what} for c in chores]
        streams.answer(json.dumps({"done": is_agreed, "journals": result}))
    return 0


def _is_confirmed(what: str, count: int) -> bool:
    """Ask a person, where there is one."""
    import click  # noqa: PLC0415

    if sys.stdin is None or not sys.stdin.isatty():
        streams.say(f"nothing was done; --yes does it: {what} {count}")
        return False
    return click.confirm(f"{what} {count}?", err=True)


def _row(run: Summary) -> tuple[str, ...]:
    return tuple(
        one_line(cell)
        for cell in (
            run.run_id,
            run.state,
            f"{run.score:,}",
            "-" if run.bank_at is None else f"{run.bank_at:,}",
            f"{run.boards:,}",
            f"{run.requests:,}",
            f"{run.retries:,}",
            run.base_url or "-",
        )
    )


def _describe_score(run: Summary) -> str:
    if not run.bank_at:
        return f"{run.score:,}"
    return f"{run.score:,} of {run.bank_at:,} ({100 * run.score / run.bank_at:.1f} %)"


def _tell(verification: Verification, findings: Findings | None, *, as_json: bool) -> None:
    """Print the verdict on a journal, and that of a service where one was asked."""
    ledger = verification.ledger
    problems = [*verification.problems, *(findings.problems if findings else ())]
    if as_json:
        result = {
            "run_id": verification.run_id,
            "verified": not problems,
            "score": ledger.state.score,
            "boards": ledger.tally.boards,
            "actions": ledger.tally.actions,
            "problems": [problem._asdict() for problem in problems],
        }
        audited = {} if findings is None else {"audit": findings.to_json()}
        streams.answer(json.dumps({**result, **audited}))
    tell = streams.say if as_json else streams.answer
    if not as_json:
        for problem in problems:
            tell(one_line(str(problem)))
    if not as_json or not ledger.is_over:
        tell(one_line(_verdict(verification)))
    if verification.torn_bytes:
        tell(f"passed over: a last line that was cut off after {verification.torn_bytes} bytes")
    if findings is not None and not as_json:
        tell(
            f"asked the service about {findings.asked} of its moves: {findings.agreed} answers "
            f"agree, {len(findings.problems)} do not, {findings.refused} tokens were refused"
        )


def _verdict(verification: Verification) -> str:
    """Say in one line what a journal is worth."""
    ledger = verification.ledger
    figures = (
        f"{verification.run_id}, {ledger.state.score:,} points, {ledger.tally.boards:,} boards, "
        f"{ledger.tally.actions:,} actions"
    )
    if ledger.tally.followed:
        figures += f" ({ledger.tally.followed:,} on the service's word, against the rules)"
    count = len(verification.problems)
    if count:
        more = " or more" if count >= MAX_PROBLEMS else ""
        return f"not verified: {figures}, {count}{more} problem{'s' if count > 1 else ''}"
    if not ledger.is_over:
        return f"verified as far as it goes, for it is unfinished: {figures}"
    return f"verified: {figures}, {ledger.state.end_reason or 'abandoned'}"


def _towards(settings: Settings, base_url: str, path: Path) -> Settings:
    """Return the settings for asking another service about the run at `path`.

    Raises:
        UsageError: it is the built-in one, and the key that signed the tokens is not there.
    """
    is_local = base_url == LOCAL
    max_rps = settings.limits.max_rps
    if settings.sources["max_rps"] == BUILT_IN:
        max_rps = None if is_local else POLITE_RPS
    folders = [folder for folder in (path.parent, settings.runs_dir) if _has_key(folder)]
    if is_local and not folders:
        raise UsageError(
            f"--against local: there is no key of the local service beside {path}, "
            f"and no other one can have signed its tokens"
        )
    return replace(
        settings,
        base_url=base_url,
        runs_dir=folders[0] if folders else settings.runs_dir,
        limits=replace(
            settings.limits,
            max_rps=max_rps,
            give_up_after_s=min(settings.limits.give_up_after_s, INIT_GIVE_UP_S),
        ),
        is_following=True,
    )


def _has_key(folder: Path) -> bool:
    from bot.service import KEY_FILE  # noqa: PLC0415

    return is_file(folder / KEY_FILE)


class _Teller:
    """A listener that tells people of failed requests."""

    def failed(self, action: Action | None, attempt: int, failure: Failure, wait_s: float) -> None:
        """Say what went wrong, and when it is tried again."""
        again = f"again in {duration(wait_s)}" if wait_s else f"attempt {attempt}"
        streams.say(one_line(f"{action}: {failure.cause}; {again}"))


@contextmanager
def _client_of(wire_of_run: dict[str, object], settings: Settings) -> Iterator[Client]:
    """Give a client that reads answers as the run did, and that a signal stops."""
    from bot.cli.playing import new_client, open_transport  # noqa: PLC0415
    from bot.client.clock import Clock, StopRequest  # noqa: PLC0415

    stop = StopRequest()
    client = new_client(settings, open_transport(settings, stop), Clock(stop), _Teller())
    client.resume(wire_of_run)
    with heed_signals(stop):
        yield client


def _is_screen() -> bool:
    """Tell whether there is a terminal that can show pictures and send keys."""
    ends = (sys.stdin, sys.stdout)
    is_terminal = all(end is not None and end.isatty() for end in ends)
    return is_terminal and os.environ.get("TERM", "") not in ("", "dumb", "unknown")


def _show(reel: Film, verification: Verification) -> None:
    """Show a film until it is quit."""
    from rich.console import Console  # noqa: PLC0415 - only a terminal needs it

    from bot.replay import watch as watching  # noqa: PLC0415
    from bot.replay.keyboard import Keyboard  # noqa: PLC0415
    from bot.replay.projector import Projector  # noqa: PLC0415

    run_id = one_line(verification.run_id or "")
    projector = Projector(reel, run_id, verification.ledger.goal.bank_at)
    with (
        handling(_end, signal.SIGTERM, signal.SIGHUP),
        Keyboard(sys.stdin.fileno()) as keyboard,
    ):
        watching.watch(projector, Console(), keyboard)


def _end(number: int, _: FrameType | None) -> NoReturn:
    raise Stopped(number)
