"""The loop: decide by `strategy`, predict by `rules`, ask by `client`, write to `journal`.

A sitting that ends says so in the journal where it can; the next call goes on from the last
whole line in any case.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from bot import __version__, rules, strategy
from bot.client.client import Answered, Client, Failed
from bot.client.clock import Clock
from bot.client.failures import Failure, Kind
from bot.errors import (
    AS_ASKED,
    OTHERWISE,
    BotError,
    ConfigError,
    Diverged,
    JournalError,
    NotAJournal,
    ServiceUnavailable,
    TokenRefused,
    TryLater,
)
from bot.journal import events, writer
from bot.journal.events import INIT, Event
from bot.journal.folder import dated_ahead, journal_path, last_start, new_run_id, newest
from bot.journal.lock import is_played, lock
from bot.journal.reader import is_compressed, parse_time
from bot.journal.writer import Journal
from bot.rules import Action, State
from bot.run import Run, action_taken, spec_digest
from bot.strategy import Goal
from bot.verify import recover
from bot.wire.fields import public_fields
from bot.wire.layout import layout_from_json

KEPT_FOR: Final = timedelta(hours=1)
"""How long a service may refuse the token of a run before the run is abandoned."""


class Mode(Enum):
    """What is to become of an unfinished run."""

    GO_ON = "go on"
    """It is resumed; where there is none, a new one begins."""
    FRESH = "fresh"
    """It is left, and a new one begins."""
    RESUME_ONLY = "resume only"
    """It is resumed; where there is none, nothing happens."""
    BANK_NOW = "bank now"
    """It is banked with the points that it has; where there is none, nothing happens."""


@dataclass(frozen=True, slots=True)
class Order:
    """What to play, and where to write it down."""

    base_url: str
    seed: int
    goal: Goal
    runs_dir: Path
    mode: Mode = Mode.GO_ON
    vouch: Callable[[Run], None] = lambda _: None
    """Raises a `JournalError` where the service is known to refuse the token of a run."""


class Watcher(Protocol):
    """Is told what happens, to show it to people."""

    def began(self, run: Run, path: Path) -> None:
        """A sitting begins; its journal is at `path`."""

    def moved(self, run: Run, elapsed_ms: float) -> None:
        """An action was accepted, `elapsed_ms` after it was sent."""

    def failed(self, what: str, failure: Failure, wait_s: float) -> None:
        """A request failed; `wait_s` is 0 where it is sent again at once, or not again."""

    def notice(self, text: str) -> None:
        """Something happened that people should read."""


class Outcome(NamedTuple):
    """How a sitting ended."""

    run: Run
    path: Path
    """The journal."""
    error: BotError | None
    """Why the run is not over; None where it is."""

    @property
    def exit_code(self) -> int:
        """The exit code that this sitting earned."""
        if self.error is not None:
            return self.error.exit_code
        return AS_ASKED if self.run.is_as_asked else OTHERWISE


class Record:
    """The run as it is written: every event goes to the journal and into the `Run`."""

    def __init__(self, journal: Journal, run: Run) -> None:
        """Go on with `run` in `journal`."""
        self.journal = journal
        self.run = run

    def write(self, event: Event, after: State | None = None) -> None:
        """Write one line; `after` is the state that an action led to."""
        self.journal.write(event)
        self.run.advance(event, self.journal.last_ts, after)

    def write_move(self, action: Action, after: State, answered: Answered) -> None:
        """Write an accepted action; wait for the disk where it brought points."""
        before = self.run.state
        if answered.is_laid_out_anew:
            self.write(events.LayoutChanged(answered.layout.to_json()))
        event = action_taken(
            before, after, action, answered.token, answered.attempts, answered.elapsed_ms
        )
        self.write(event, after)
        if after.score != before.score:
            self.journal.sync()


def play(
    order: Order, make_client: Callable[[], Client], clock: Clock, watcher: Watcher
) -> Outcome | None:
    """Play one sitting: resume the unfinished run, or begin a new one.

    None: there was nothing to resume, and nothing else was asked for.

    Raises:
        TryLater: another bot has this run, or the budget did not reach to begin one.
        ConfigError: the unfinished run cannot end as asked.
        JournalError: the runs folder cannot be used, or a journal is damaged.
        BotError: no run could be begun; there is no journal then.
    """
    with lock(order.runs_dir, order.base_url, order.seed):
        for path in dated_ahead(order.runs_dir, clock.now()):
            watcher.notice(f"skipping the finished run {path}: it is dated after tomorrow")
        last = newest(order.runs_dir, order.base_url, order.seed, clock.now())
        client = make_client()
        record = None if last is None else _resume(last, order, client, clock, watcher)
        if record is None and order.mode in (Mode.RESUME_ONLY, Mode.BANK_NOW):
            return None
        record = record or _begin(last, order, client, clock, watcher)
        with closing(record.journal):
            watcher.began(record.run, record.journal.path)
            error = _play_or_stop(record, client, clock, watcher)
        return Outcome(record.run, record.journal.path, error)


# How a sitting begins


def _resume(
    path: Path, order: Order, client: Client, clock: Clock, watcher: Watcher
) -> Record | None:
    """Resume the newest run of this order, at `path`; None: it is over, or left for a new one."""
    if order.mode is Mode.FRESH:
        _leave_unfinished(path, clock, watcher)
        return None
    try:
        run, size, cut_bytes = recover(path)
    except NotAJournal as exc:
        raise JournalError(f"{exc}. Nothing was sent; --fresh starts a new run") from exc
    if run.is_over or run.started is None:
        return None
    if is_compressed(path):
        raise JournalError(
            f"the unfinished run {path} is compressed; nothing was sent. "
            f"Unpack it to resume it, or start a new run with --fresh"
        )
    goal = Goal(run.score) if order.mode is Mode.BANK_NOW else order.goal
    if run.state.phase != rules.ENDED:
        _check_goal(run, goal, path)
        order.vouch(run)
    journal = writer.reopen(path, size, run.next_seq, clock.now, cut_bytes)
    if cut_bytes:
        watcher.notice(f"{cut_bytes} bytes of a torn last line were cut off {path}")
    if run.state.phase == rules.ENDED:
        return Record(journal, run)
    client.resume(layout_from_json(run.wire), is_under_way=run.actions > 0)
    resumed = events.RunResumed(
        from_seq=run.next_seq - 1,
        bank_at=goal.bank_at,
        bank_rule=goal.rule,
        bot_version=__version__,
        cut_bytes=cut_bytes,
    )
    return _begin_sitting(journal, run, [resumed])


def _check_goal(run: Run, goal: Goal, path: Path) -> None:
    """Refuse a goal that the unfinished run cannot meet, or has passed.

    Raises:
        ConfigError: it is one.
    """
    if goal == run.goal:
        return
    if goal.rule != strategy.EXACTLY and run.score > goal.bank_at:
        raise ConfigError(
            f"the unfinished run {path} has {run.score} points already, more than "
            f"{goal.bank_at}; nothing was sent. Ask for more, bank it with --bank-now, or start a "
            f"new run with --fresh"
        )
    if strategy.is_out_of_reach(run.state, goal):
        raise ConfigError(
            f"no play gets from the {run.score} points of the unfinished run {path} to "
            f"exactly {goal.bank_at}; nothing was sent. Ask for another number, or start a "
            f"new run with --fresh"
        )


def _leave_unfinished(path: Path, clock: Clock, watcher: Watcher) -> None:
    """Say which unfinished run is left; one that lacks its last line alone is given it.

    Raises:
        TryLater: another bot writes it.
    """
    if is_played(path):
        raise TryLater(f"another bot writes the journal {path}; nothing was sent")
    try:
        run, size, cut_bytes = recover(path)
    except (JournalError, NotAJournal) as exc:
        watcher.notice(f"leaving a run that cannot be resumed: {exc}")
        return
    if run.is_over:
        return
    is_ours = os.access(path, os.W_OK) and not is_compressed(path)
    if run.state.phase != rules.ENDED or not is_ours:
        watcher.notice(f"leaving the unfinished run {path}")
        return
    with closing(writer.reopen(path, size, run.next_seq, clock.now, cut_bytes)) as journal:
        journal.write(run.totals())
        journal.sync()


def _begin(
    newest_path: Path | None, order: Order, client: Client, clock: Clock, watcher: Watcher
) -> Record:
    """Ask for a new run and open its journal, after that at `newest_path` if there is one."""
    held: list[Event] = []
    answered = _ask_for_init(client, order.seed, held, watcher)
    spec = writer.finite(answered.spec)
    for notice in answered.notices:
        watcher.notice(notice)
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
        token=answered.token,
        state=public_fields(rules.fresh()),
        wire=answered.layout.to_json(),
        spec=spec,
        spec_sha256=spec_digest(spec),
    )
    journal = writer.create(journal_path(order.runs_dir, run_id), clock.now)
    return _begin_sitting(journal, Run(), [started, *held])


def _ask_for_init(client: Client, seed: int, held: list[Event], watcher: Watcher) -> Answered:
    """Return the answer to `init`; put the lines of attempts that failed into `held`."""
    try:
        for attempt in client.begin(seed):
            if isinstance(attempt, Answered):
                return attempt
            held.append(_event_of(attempt, None))
            _tell(attempt, INIT, watcher)
    except ServiceUnavailable as exc:
        raise ServiceUnavailable(
            f"{exc}; nothing was played. The verb `check` shows what the service answers, "
            f"`--local` plays without a network"
        ) from exc
    raise TypeError("a client gives up by raising")


def _begin_sitting(journal: Journal, run: Run, first: list[Event]) -> Record:
    """Begin a sitting in `journal` with its first lines.

    Raises:
        JournalError: they could not be written; the journal is closed.
    """
    record = Record(journal, run)
    try:
        for event in first:
            record.write(event)
        journal.sync()
    except BaseException:
        journal.close()
        raise
    return record


# One move after the other


def _play_or_stop(
    record: Record, client: Client, clock: Clock, watcher: Watcher
) -> BotError | None:
    """Play until the run is over; return the error that suspends or abandons it, if one does."""
    try:
        _play_moves(record, client, watcher)
    except JournalError as exc:
        return exc
    except TokenRefused as exc:
        return _keep_or_abandon(record, exc, clock)
    except Diverged as exc:
        fields = {name: dict(pair) for name, pair in exc.fields.items()}
        suspended = events.RunSuspended(str(exc), exc.exit_code)
        return _end_sitting(record, exc, [events.FieldsDiverged(fields), suspended])
    except BotError as exc:
        return _end_sitting(record, exc, [events.RunSuspended(str(exc), exc.exit_code)])
    except Exception as exc:
        reason = f"a fault of the bot: {type(exc).__name__}: {exc!s:.500}"
        _end_sitting(record, BotError(reason), [events.RunSuspended(reason, BotError.exit_code)])
        raise
    return None


def _play_moves(record: Record, client: Client, watcher: Watcher) -> None:
    """Make move after move, each decided, predicted, asked for and written; then end the run."""
    run = record.run
    while run.state.phase != rules.ENDED:
        before = run.state
        action = strategy.decide(before, run.goal)
        after = rules.apply(before, action)
        answered = _ask(client.act(run.token, action, before, after), action, record, watcher)
        record.write_move(action, after, answered)
        watcher.moved(run, answered.elapsed_ms)
    record.write(run.totals())
    record.journal.sync()


def _ask(
    attempts: Iterator[Failed | Answered], action: Action, record: Record, watcher: Watcher
) -> Answered:
    """Return the accepted answer; write down and tell each attempt that failed before it."""
    for attempt in attempts:
        if isinstance(attempt, Answered):
            for notice in attempt.notices:
                watcher.notice(notice)
            return attempt
        record.write(_event_of(attempt, action))
        _tell(attempt, str(action), watcher)
    raise TypeError("a client gives up by raising")


def _event_of(failed: Failed, action: Action | None) -> Event:
    """Return the line of an attempt that failed; of `init` where there is no action."""
    failure = failed.failure
    if failure.kind is Kind.REFUSED and action is not None:
        return events.Refused(action.to_json(), failure.cause)
    what = INIT if action is None else action.to_json()
    return events.Retried(
        what, failed.attempt, failure.cause, failure.status, failure.excerpt, failed.wait_s
    )


def _tell(failed: Failed, what: str, watcher: Watcher) -> None:
    watcher.failed(what, failed.failure, failed.wait_s)
    if failed.notice:
        watcher.notice(failed.notice)


# How a sitting ends


def _keep_or_abandon(record: Record, refused: TokenRefused, clock: Clock) -> BotError:
    """Keep a run whose token is refused, or abandon it where that has lasted too long."""
    since = record.run.refused_ts
    if since and clock.now() - parse_time(since) > KEPT_FOR:
        lasting = TokenRefused(f"{refused.cause}, as it did at {since} already")
        return _end_sitting(record, lasting, [events.RunAbandoned(str(lasting))])
    error = TokenRefused(
        f"{refused.cause}. The run is kept, and the next call asks again; when that has lasted an "
        f"hour, the run is abandoned"
    )
    return _end_sitting(record, error, [events.RunSuspended(str(refused), refused.exit_code)])


def _end_sitting(record: Record, error: BotError, last: list[Event]) -> BotError:
    """Write the last lines of a sitting; return the error to end with."""
    try:
        for event in last:
            record.write(event)
        record.journal.sync()
    except JournalError as exc:
        return exc
    return error
