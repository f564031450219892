"""Many short runs in which anything may fail at any moment; and faults that they would notice."""

from __future__ import annotations

import errno
import math
import os
import re
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import pytest
from simulation import FAULTS, Violation, World, main, simulate
from tenacity import stop_after_attempt, wait_exponential, wait_none

from bot import player
from bot.client import client, failures, patience
from bot.client.client import Client
from bot.client.clock import StopRequest
from bot.client.failures import Failure, Kind
from bot.client.pace import Pace
from bot.client.patience import POLICIES, Patience, Policy
from bot.client.redirects import Endpoint
from bot.errors import Diverged, JournalError
from bot.journal import writer
from bot.journal.events import ActionTaken, Event, Retried
from bot.journal.writer import Journal, JournalFile
from bot.player import Record
from bot.rules import State
from bot.wire.reading import Reading

pytestmark = pytest.mark.slow

CHUNK: Final = 30
MACHINE: Final = {"death", "power loss", "stop", "short write", "clock set back"} | {"abandoned"}
CODES: Final = {0, 69, 74, 75, 76, 77, 78, 130, 143, None}


def test_short_runs_survive_every_kind_of_fault_and_earn_every_exit_code() -> None:
    summary = simulate(range(5 * CHUNK))
    assert summary.injected.keys() >= FAULTS.keys() | MACHINE
    assert summary.exits.keys() >= CODES


@pytest.mark.parametrize("chunk", range(5, 10))
def test_short_runs_survive_whatever_happens(chunk: int) -> None:
    simulate(range(chunk * CHUNK, (chunk + 1) * CHUNK))


@pytest.mark.parametrize("chunk", range(4))
def test_more_short_runs_survive_whatever_happens(chunk: int) -> None:
    simulate(range(1_000 + chunk * 250, 1_000 + (chunk + 1) * 250))


def test_a_seed_always_brings_the_same() -> None:
    told = []
    for _ in range(2):
        with tempfile.TemporaryDirectory() as folder:
            world = World(3, Path(folder))
            world.live()
        told.append(re.sub(r"seed7-[0-9a-f]{4}|/\S+\.jsonl", "", world.tell()))
    assert told[0] == told[1]
    assert len(told[0]) > 1000


@pytest.mark.parametrize(
    ("arguments", "said"), [("--seeds 2", "2 seeds, "), ("--seed 1", "run.ended")]
)
def test_the_script_says_what_it_has_tried(
    arguments: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(arguments.split())
    assert said in capsys.readouterr().out


# Faults of the bot, each made on purpose


def another_action(patch: pytest.MonkeyPatch) -> None:
    """Bank after a lost answer."""
    send = Client._send
    failed: set[Client] = set()

    def broken(self: Client, request: Any, *args: Any) -> object:
        if self in failed and request.body:
            request.body = request.body.partition(b',"action"')[0] + b',"action":{"type":"bank"}}'
        try:
            return send(self, request, *args)
        except Failure:
            failed.add(self)
            raise

    patch.setattr(Client, "_send", broken)


def a_lie_that_counts(patch: pytest.MonkeyPatch) -> None:
    """Take any answer that can be read for the predicted one."""
    judge = vars(client)["read"]

    def broken(*args: Any, **options: Any) -> Reading:
        reading: Reading = judge(*args, **options)
        return reading._replace(wrongs=())

    patch.setattr(client, "read", broken)


def a_lost_move_that_counts(patch: pytest.MonkeyPatch) -> None:
    """Take a refusal for an answer."""
    judge = Client._judge

    def broken(self: Client, question: Any, answer: Any) -> client.Answered:
        try:
            return judge(self, question, answer)
        except Failure:
            return client.Answered(question.token, self._layout, False, (), None, 1, 0.0)

    patch.setattr(Client, "_judge", broken)


def playing_on_without_a_disk(patch: pytest.MonkeyPatch) -> None:
    """Go on where a line cannot be written."""
    write = JournalFile.write

    def broken(self: JournalFile, line: bytes) -> None:
        with suppress(JournalError):
            write(self, line)

    patch.setattr(JournalFile, "write", broken)


def a_sync_that_never_fails(patch: pytest.MonkeyPatch) -> None:
    """Overlook that the system cannot put a line on the disk."""
    sync = JournalFile.sync

    def broken(self: JournalFile) -> None:
        with suppress(JournalError):
            sync(self)

    patch.setattr(JournalFile, "sync", broken)


def no_sync(patch: pytest.MonkeyPatch) -> None:
    """Leave all to the system."""
    patch.setattr(Journal, "sync", lambda _: None)


def a_torn_line_that_stays(patch: pytest.MonkeyPatch) -> None:
    """Go on after a torn line."""
    reopen = writer.reopen

    def broken(path: Path, _: int, next_seq: int, now: Any, __: int) -> Journal:
        return reopen(path, path.stat().st_size, next_seq, now)

    patch.setattr(writer, "reopen", broken)


def half_a_line_that_stays(patch: pytest.MonkeyPatch) -> None:
    """Leave the part of a line that the disk had room for."""

    def broken(self: JournalFile, line: bytes) -> None:
        rest = memoryview(line)
        try:
            while rest:
                rest = rest[vars(writer)["os"].write(self._descriptor, rest) :]
        except OSError as exc:
            raise JournalError(os.strerror(exc.errno or errno.EIO)) from exc
        self._size += len(line)

    patch.setattr(JournalFile, "write", broken)


def an_action_written_twice(patch: pytest.MonkeyPatch) -> None:
    """Write the line of an action twice."""
    write = Record.write

    def broken(self: Record, event: Event, after: State | None = None) -> None:
        write(self, event, after)
        if isinstance(event, ActionTaken):
            write(self, event, after)

    patch.setattr(Record, "write", broken)


def a_retry_that_is_not_written(patch: pytest.MonkeyPatch) -> None:
    """Try again in silence."""
    write = Record.write

    def broken(self: Record, event: Event, after: State | None = None) -> None:
        if not isinstance(event, Retried):
            write(self, event, after)

    patch.setattr(Record, "write", broken)


def a_run_that_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Begin anew each time."""
    patch.setattr(player, "newest", lambda *_: None)


def no_ear_for_retry_after(patch: pytest.MonkeyPatch) -> None:
    """Come back as soon as ever."""
    patch.setattr(client, "parse_retry_after", lambda *_: None)


def no_patience(patch: pytest.MonkeyPatch) -> None:
    """Hammer at the service."""
    stop = POLICIES[Kind.TROUBLE].stop
    patch.setitem(vars(patience)["POLICIES"], Kind.TROUBLE, Policy(stop, wait_none()))


def endless_waits(patch: pytest.MonkeyPatch) -> None:
    """Let waits grow."""
    stop = POLICIES[Kind.TROUBLE].stop
    waits = wait_exponential(multiplier=0.5)
    patch.setitem(vars(patience)["POLICIES"], Kind.TROUBLE, Policy(stop, waits))


def endless_patience(patch: pytest.MonkeyPatch) -> None:
    """Never give up."""
    patch.setattr(Patience, "left_s", math.inf)


def another_number_of_tries(patch: pytest.MonkeyPatch, kind: Kind, tries: int) -> None:
    """Send a move another number of times."""
    policy = Policy(stop_after_attempt(tries), POLICIES[kind].wait)
    patch.setitem(vars(patience)["POLICIES"], kind, policy)


def a_refusal_that_is_asked_for_once_too_often(patch: pytest.MonkeyPatch) -> None:
    """Insist on an action."""
    another_number_of_tries(patch, Kind.REFUSED, 8)


def an_unclear_answer_that_is_asked_for_once(patch: pytest.MonkeyPatch) -> None:
    """End a sitting for one answer that cannot be understood."""
    another_number_of_tries(patch, Kind.UNREADABLE, 1)


def a_run_that_is_abandoned_too_soon(patch: pytest.MonkeyPatch) -> None:
    """Give a run up for a short outage of the service's tokens."""
    patch.setattr(player, "KEPT_FOR", timedelta(minutes=10))


def a_run_that_is_never_abandoned(patch: pytest.MonkeyPatch) -> None:
    """Ask for ever with a token that is not taken any more."""
    patch.setattr(player, "KEPT_FOR", timedelta.max)


def a_deployment_that_ends_a_sitting(patch: pytest.MonkeyPatch) -> None:
    """Take a 404 in the middle of a run for a wrong address."""
    judge = vars(client)["from_answer"]
    patch.setattr(
        client,
        "from_answer",
        lambda *args, **options: judge(*args, **options | {"is_under_way": False}),
    )


def a_refused_token_that_is_sent_again(patch: pytest.MonkeyPatch) -> None:
    """Ask once too often."""
    another_number_of_tries(patch, Kind.TOKEN, 3)


def a_refused_token_that_is_asked_for_once(patch: pytest.MonkeyPatch) -> None:
    """End a sitting for one bad answer."""
    another_number_of_tries(patch, Kind.TOKEN, 1)


def a_redirect_that_is_not_followed(patch: pytest.MonkeyPatch) -> None:
    """Ask at the old address again."""
    target = Endpoint._target

    def broken(self: Endpoint, response: Any) -> str:
        target(self, response)
        return self.url

    patch.setattr(Endpoint, "_target", broken)


def deaf_ears(patch: pytest.MonkeyPatch) -> None:
    """Play on after a signal."""
    patch.setattr(StopRequest, "check", lambda _: None)


def no_pace(patch: pytest.MonkeyPatch) -> None:
    """Send as fast as answers come."""
    patch.setattr(Pace, "take_turn", lambda self: self._clock.monotonic())


def no_budget(patch: pytest.MonkeyPatch) -> None:
    """Play on when the budget is used up."""
    wait = Client._wait_for_turn

    def squander(client: Client) -> None:
        client._limits = replace(client._limits, max_requests=None)
        client._ends_at = math.inf
        wait(client)

    patch.setattr(Client, "_wait_for_turn", squander)


def another_exit_code(patch: pytest.MonkeyPatch) -> None:
    """Report a contradiction as an outage."""
    patch.setattr(Diverged, "exit_code", 69)


def an_unheard_of_status(patch: pytest.MonkeyPatch) -> None:
    """Trust that every status has a name."""
    patch.setattr(failures, "describe_status", lambda status, _: HTTPStatus(status).phrase)


NOTICED: Final = [
    (another_action, "a request was not sent again"),
    (a_lie_that_counts, "sent too early|not sent again|not one of"),
    (a_lost_move_that_counts, "sent too early|not sent again|not one of"),
    (playing_on_without_a_disk, "after a write had failed"),
    (a_sync_that_never_fails, r"after a write had failed|not one of \{74\}"),
    (no_sync, "an award was not synced"),
    (a_torn_line_that_stays, "damaged"),
    (half_a_line_that_stays, "a torn line was left"),
    (an_action_written_twice, "damaged"),
    (a_retry_that_is_not_written, "are in the journal|attempts is"),
    (a_run_that_is_forgotten, "an unfinished run was forgotten"),
    (no_ear_for_retry_after, "a request was sent too early"),
    (no_patience, "a request was sent too early"),
    (endless_waits, "a wait of"),
    (endless_patience, "it was not given up"),
    (a_refused_token_that_is_sent_again, "TOKEN came 2 times|exit code"),
    (a_refused_token_that_is_asked_for_once, "exit code 77"),
    (a_refusal_that_is_asked_for_once_too_often, "REFUSED came 7 times|exit code"),
    (an_unclear_answer_that_is_asked_for_once, "exit code 76"),
    (a_run_that_is_abandoned_too_soon, "run.abandoned after exit code 77"),
    (a_run_that_is_never_abandoned, "run.suspended after exit code 77"),
    (a_deployment_that_ends_a_sitting, "exit code 69"),
    (a_redirect_that_is_not_followed, "sent elsewhere"),
    (deaf_ears, "though a stop was asked for"),
    (no_pace, "requests came too fast"),
    (no_budget, "than allowed"),
    (another_exit_code, "exit.code.*69"),
    (an_unheard_of_status, "escaped"),
]
"""Each fault, and what is said of it: one of several things, by what it meets first."""


@pytest.mark.parametrize(("fault", "said"), NOTICED, ids=[fault.__name__ for fault, _ in NOTICED])
def test_a_fault_of_the_bot_is_noticed(
    fault: Callable[[pytest.MonkeyPatch], None], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault(monkeypatch)
    with pytest.raises(Violation) as caught:
        simulate(range(500))
    what, how, *_ = str(caught.value).splitlines()
    assert re.search(said, what)
    assert re.fullmatch(r"python tests/simulation\.py --seed \d+", how)
