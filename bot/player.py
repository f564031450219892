"""The loop: ask `strategy`, send by `client`, check against `rules`, write to `journal`.

A sitting that ends says so in the journal where it can; the next call goes on from the last
whole line in any case.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from bot import __version__, rules, strategy
from bot.client.client import Client, Listener
from bot.client.clock import Clock
from bot.client.failures import Failure, Kind
from bot.errors import (
    AS_ASKED,
    OTHERWISE,
    BotError,
    ConfigError,
    Contradiction,
    Diverged,
    JournalError,
    NotAJournal,
    ServiceUnavailable,
    TokenRefused,
)
from bot.journal import events, writer
from bot.journal.events import INIT, Event
from bot.journal.folder import journal_path, last_start, new_run_id, newest
from bot.journal.ledger import Ledger, spec_digest
from bot.journal.lock import lock
from bot.journal.reader import is_compressed
from bot.journal.recover import recover
from bot.journal.writer import Journal
from bot.rules import Action, State
from bot.strategy import Goal
from bot.wire.fields import public_fields

MAX_FOLLOWED: Final = 50
"""Divergences in a row after which following the service's word leads nowhere."""


class Mode(Enum):
    """What to do with an unfinished run of the same service and seed."""

    GO_ON = "go on"
    """Resume it; begin a new one where there is none."""
    FRESH = "fresh"
    """Leave it, and begin a new one."""
    RESUME_ONLY = "resume only"
    """Resume it; where there is none, do nothing."""
    BANK_NOW = "bank now"
    """Bank it with the points that it has; where there is none, do nothing."""


@dataclass(frozen=True, slots=True)
class Order:
    """What to play, and where to write it down."""

    base_url: str
    seed: int
    goal: Goal
    runs_dir: Path
    mode: Mode = Mode.GO_ON


class Watcher(Protocol):
    """Is told what happens, to show it to people."""

    def began(self, ledger: Ledger, path: Path) -> None:
        """A sitting begins; its journal is at `path`."""

    def moved(self, ledger: Ledger, elapsed_ms: float) -> None:
        """An action was accepted, `elapsed_ms` after it was sent."""

    def failed(self, what: str, failure: Failure, wait_s: float) -> None:
        """A request failed; `wait_s` is 0 where it is sent again at once, or not again."""

    def notice(self, text: str) -> None:
        """Something happened that people should read."""


class Outcome(NamedTuple):
    """How a sitting ended."""

    ledger: Ledger
    path: Path
    """The journal."""
    error: BotError | None
    """Why the run is not over; None where it is."""

    @property
    def exit_code(self) -> int:
        """The exit code that this sitting earned."""
        if self.error is not None:
            return self.error.exit_code
        return AS_ASKED if self.ledger.earned else OTHERWISE


class Record:
    """The run as it is written: every event goes to the journal and into the ledger."""

    def __init__(self, watcher: Watcher) -> None:
        """Begin without a journal; failures of `init` are held back until there is one."""
        self.ledger = Ledger()
        self.journal: Journal | None = None
        self._watcher = watcher
        self._held: list[Event] = []

    def open(self, journal: Journal, first: Event, ledger: Ledger | None = None) -> None:
        """Begin a sitting in `journal` with its line `first`."""
        self.journal = journal
        self.ledger = ledger or self.ledger
        self.write(first)
        for event in self._held:
            self.write(event)
        self.sync()

    @property
    def path(self) -> Path:
        """Where the journal is, once there is one."""
        if self.journal is None:
            raise TypeError("a run was begun without a journal")
        return self.journal.path

    def write(self, event: Event, after: State | None = None) -> None:
        """Write one line; `after` is the state that an action led to."""
        if self.journal is None:
            self._held.append(event)
            return
        self.journal.write(event)
        self.ledger.advance(event, self.journal.last_ts, after)

    def sync(self) -> None:
        """Wait until every line is on the disk."""
        if self.journal is not None:
            self.journal.sync()

    def close(self) -> None:
        """Close the journal, if there is one."""
        if self.journal is not None:
            self.journal.close()

    def failed(self, action: Action | None, attempt: int, failure: Failure, wait_s: float) -> None:
        """Note a request that brought no accepted answer."""
        if failure.kind is Kind.REFUSED and action is not None:
            self.write(events.Refused(action.to_json(), failure.cause))
        else:
            what = INIT if action is None else action.to_json()
            self.write(
                events.Retried(
                    what, attempt, failure.cause, failure.status, failure.excerpt, wait_s
                )
            )
        self._watcher.failed(str(action or INIT), failure, wait_s)


def play(
    order: Order, make_client: Callable[[Listener], Client], clock: Clock, watcher: Watcher
) -> Outcome | None:
    """Play one sitting: go on with the unfinished run, or begin a new one.

    Returns:
        How it ended; None where there is nothing to go on with, and no other was to be begun.

    Raises:
        TryLater: another bot has this run, or the budget did not reach to begin one.
        ConfigError: the unfinished run cannot end as asked.
        JournalError: the runs folder cannot be used, or a journal is damaged.
        BotError: no run could be begun; there is no journal then.
    """
    with lock(order.runs_dir, order.base_url, order.seed):
        record = Record(watcher)
        client = make_client(record)
        try:
            last = newest(order.runs_dir, order.base_url, order.seed)
            is_resumed = last is not None and _resume(last, order, record, client, clock, watcher)
            if not is_resumed and order.mode in (Mode.RESUME_ONLY, Mode.BANK_NOW):
                return None
            if not is_resumed:
                _begin(last, order, record, client, clock, watcher)
            watcher.began(record.ledger, record.path)
            error = _play_on(record, client, watcher)
        finally:
            record.close()
        return Outcome(record.ledger, record.path, error)


def _resume(
    path: Path, order: Order, record: Record, client: Client, clock: Clock, watcher: Watcher
) -> bool:
    """Open the newest run of this order, at `path`, to go on with; return whether it can be."""
    if order.mode is Mode.FRESH:
        _leave(path, clock, watcher)
        return False
    try:
        recovered = recover(path)
    except NotAJournal as exc:
        raise JournalError(f"{exc}. Nothing was sent; --fresh starts a new run") from exc
    ledger = recovered.ledger
    if ledger.is_over or ledger.started is None:
        return False
    if is_compressed(path):
        raise JournalError(
            f"the unfinished run {path} is compressed; nothing was sent. "
            f"Unpack it to go on with it, or start a new run with --fresh"
        )
    if order.mode is Mode.BANK_NOW:
        order = replace(order, goal=Goal(ledger.state.score))
    elif order.goal != ledger.goal and ledger.state.score > order.goal.bank_at:
        raise ConfigError(
            f"the unfinished run {path} has {ledger.state.score:,} points, more than the "
            f"{order.goal.bank_at:,} to bank at; nothing was sent. --bank-now banks it with what "
            f"it has, --fresh begins a new run"
        )
    elif order.goal != ledger.goal and strategy.is_out_of_reach(ledger.state, order.goal):
        raise ConfigError(
            f"no play gets from the {ledger.state.score} points of the unfinished run {path} to "
            f"exactly {order.goal.bank_at}; nothing was sent. Ask for another number, or start a "
            f"new run with --fresh"
        )
    if recovered.cut_bytes:
        watcher.notice(f"{recovered.cut_bytes} bytes of a torn last line were cut off {path}")
    journal = writer.reopen(path, recovered.size, ledger.next_seq, clock.now)
    if ledger.state.phase == rules.ENDED:
        record.journal, record.ledger = journal, ledger
        return True
    client.resume(ledger.started.wire)
    resumed = events.RunResumed(
        from_seq=ledger.next_seq - 1,
        bank_at=order.goal.bank_at,
        bank_rule=order.goal.rule,
        bot_version=__version__,
        cut_bytes=recovered.cut_bytes,
    )
    record.open(journal, resumed, ledger)
    return True


def _leave(path: Path, clock: Clock, watcher: Watcher) -> None:
    """Say which unfinished run is left; one that lacks its last line alone is given it."""
    try:
        recovered = recover(path)
    except (JournalError, NotAJournal) as exc:
        watcher.notice(f"leaving a run that cannot be gone on with: {exc}")
        return
    ledger = recovered.ledger
    if ledger.is_over:
        return
    is_ours = os.access(path, os.W_OK) and not is_compressed(path)
    if ledger.state.phase != rules.ENDED or not is_ours:
        watcher.notice(f"leaving the unfinished run {path}")
        return
    with closing(writer.reopen(path, recovered.size, ledger.next_seq, clock.now)) as journal:
        journal.write(ledger.totals())
        journal.sync()


def _begin(
    newest_path: Path | None,
    order: Order,
    record: Record,
    client: Client,
    clock: Clock,
    watcher: Watcher,
) -> None:
    """Ask for a new run and open its journal, after that at `newest_path` if there is one."""
    try:
        beginning = client.init(order.seed)
    except ServiceUnavailable as exc:
        raise ServiceUnavailable(
            f"{exc}; nothing was played. The verb `check` shows what the service answers, "
            f"`--local` plays without a network"
        ) from exc
    spec = writer.finite(beginning.spec)
    for place, why in beginning.layout.passed_over.items():
        watcher.notice(f"{place} is passed over for this run: {why}")
    last = last_start(order.runs_dir, order.base_url)
    if last is not None and last.spec_sha256 != spec_digest(spec):
        watcher.notice(
            f"the service does not describe the game as in the run {last.run_id}; "
            f"the verb check shows the difference"
        )
    run_id = new_run_id(order.seed, clock.now(), newest_path)
    started = events.RunStarted(
        journal_version=events.JOURNAL_VERSION,
        run_id=run_id,
        bot_version=__version__,
        base_url=order.base_url,
        seed=order.seed,
        bank_at=order.goal.bank_at,
        bank_rule=order.goal.rule,
        token=beginning.token,
        state=public_fields(rules.fresh()),
        wire=beginning.layout.to_json(),
        spec=spec,
        spec_sha256=spec_digest(spec),
    )
    journal = writer.create(journal_path(order.runs_dir, run_id), clock.now)
    try:
        record.open(journal, started)
    except JournalError:
        if journal.next_seq == 0:
            with suppress(OSError):
                journal.path.unlink()
        raise


def _play_on(record: Record, client: Client, watcher: Watcher) -> BotError | None:
    """Play until the run is over; return the error that suspends or abandons it, if one does."""
    try:
        _play_to_the_end(record, client, watcher)
    except JournalError as exc:
        return exc
    except TokenRefused as exc:
        return _close(record, exc, [events.RunAbandoned(str(exc))])
    except Diverged as exc:
        fields = {name: dict(pair) for name, pair in exc.fields.items()}
        suspended = events.RunSuspended(str(exc), exc.exit_code)
        return _close(record, exc, [events.FieldsDiverged(fields), suspended])
    except BotError as exc:
        return _close(record, exc, [events.RunSuspended(str(exc), exc.exit_code)])
    except Exception as exc:
        reason = f"a fault of the bot: {type(exc).__name__}: {exc}"
        _close(record, BotError(reason), [events.RunSuspended(reason, BotError.exit_code)])
        raise
    return None


def _close(record: Record, error: BotError, last: list[Event]) -> BotError:
    """Write the last lines of a sitting; return the error to end with."""
    try:
        for event in last:
            record.write(event)
        record.sync()
    except JournalError as exc:
        return exc
    return error


def _play_to_the_end(record: Record, client: Client, watcher: Watcher) -> None:
    ledger = record.ledger
    followed = 0
    while ledger.state.phase != rules.ENDED:
        state = ledger.state
        action = strategy.decide(state, ledger.goal)
        step = client.act(ledger.token, action, rules.apply(state, action))
        if step.differences:
            record.write(events.FieldsDiverged(step.differences))
            followed += 1
        else:
            followed = 0
        record.write(
            events.action_taken(
                state, step.state, action, step.token, step.attempts, step.elapsed_ms
            ),
            step.state,
        )
        if step.state.score != state.score:
            record.sync()
        watcher.moved(ledger, step.elapsed_ms)
        if followed > MAX_FOLLOWED:
            raise Contradiction(f"followed the service against the rules {followed} times in a row")
    record.write(ledger.totals())
    record.sync()
