"""Where a run stands after each of its lines, and whether the rules agree with them.

The player keeps a `Ledger` while it plays. Resuming and replaying fold a journal into one
and are told of every line that contradicts the rules or the lines before it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from bot import rules, strategy, wire
from bot.errors import ActionError, GarlandError
from bot.garland import parse_garland
from bot.journal.events import (
    ActionTaken,
    Event,
    FieldsDiverged,
    Refused,
    Retried,
    RunAbandoned,
    RunEnded,
    RunResumed,
    RunStarted,
    RunSuspended,
    action_taken,
)
from bot.journal.folder import parse_run_id
from bot.journal.reader import Entry, LineError, parse_time
from bot.rules import State
from bot.strategy import Goal

INIT: Final = "init"
"""What a `retry` line names before the first action."""


@dataclass(slots=True)
class Tally:
    """What a run has taken so far, over all its sittings."""

    actions: int = 0
    flips: int = 0
    boards: int = 0
    retries: int = 0
    refusals: int = 0
    seconds: float = 0.0
    """Played in earlier sittings."""

    @property
    def requests(self) -> int:
        """Requests sent: `init`, and one for each line of an answer or of the lack of one."""
        return 1 + self.actions + self.retries + self.refusals


class Ledger:
    """The standing of one run."""

    def __init__(self) -> None:
        """Begin before the first line."""
        self.started: RunStarted | None = None
        self.state = rules.fresh()
        self.before = self.state
        """The state before the last action."""
        self.token = ""
        self.goal = Goal(0)
        self.tally = Tally()
        self.is_over = False
        """Whether `run.ended` or `run.abandoned` was written."""
        self.next_seq = 0
        self.failures = 0
        """Requests of the move at hand that failed in this sitting."""
        self.last_ts = ""
        self._sitting_ts = ""
        self._pending: object = INIT
        self._is_suspended = False
        self._has_diverged = False

    @property
    def seconds(self) -> float:
        """Time played over all sittings, up to the last line."""
        if not self._sitting_ts:
            return 0.0
        sitting = parse_time(self.last_ts) - parse_time(self._sitting_ts)
        return round(self.tally.seconds + max(sitting, timedelta()).total_seconds(), 3)

    @property
    def earned(self) -> bool:
        """Whether the run ended banked, as its goal asks."""
        return self.state.end_reason == rules.BANKED and strategy.is_met(self.before, self.goal)

    def totals(self) -> RunEnded:
        """Return the last line of a run whose last action has been taken."""
        return RunEnded(
            end_reason=self.state.end_reason or "",
            score=self.state.score,
            boards=self.tally.boards,
            flips=self.tally.flips,
            requests=self.tally.requests,
            retries=self.tally.retries,
            seconds=self.seconds,
        )

    def advance(self, event: Event, ts: str, after: State | None = None) -> None:
        """Take note of a line; `after` is the state that an action led to."""
        if isinstance(event, RunResumed):
            self.tally.seconds = self.seconds
            self._sitting_ts = ts
            self.goal = Goal(event.bank_at, event.bank_rule)
            self._is_suspended = self._has_diverged = False
            self.failures = 0
            self._pending = None
        self.last_ts = ts
        self.next_seq += 1
        match event:
            case ActionTaken():
                self._take_action(event, after or self.state)
            case RunStarted():
                self.started = event
                self.token = event.token
                self.goal = Goal(event.bank_at, event.bank_rule)
                self._sitting_ts = ts
            case Retried():
                self.tally.retries += 1
                self.failures += 1
                self._pending = event.what
            case Refused():
                self.tally.refusals += 1
                self.failures += 1
                self._pending = event.action
            case FieldsDiverged():
                self._has_diverged = True
            case RunSuspended():
                self._is_suspended = True
            case RunAbandoned() | RunEnded():
                self.is_over = True

    def _take_action(self, event: ActionTaken, after: State) -> None:
        self.tally.actions += 1
        self.tally.flips += "count" in event.action
        self.tally.boards += after.phase == rules.CLEARED
        self.before, self.state = self.state, after
        self.token = event.token
        self.failures = 0
        self._pending = None
        self._has_diverged = False

    def take(self, entry: Entry) -> list[LineError]:
        """Take note of a line that was read back; return in what it is wrong, if anything."""
        event = entry.event
        if entry.seq != self.next_seq:
            problems = [LineError("seq", entry.seq, str(self.next_seq))]
            self.next_seq = entry.seq
        else:
            problems = list(self._out_of_order(event))
        after = None
        if not problems:
            if isinstance(event, ActionTaken):
                after, problems = self._check_action(event)
            else:
                problems = list(self._check(event))
        self.advance(event, entry.ts, after)
        return problems

    def _out_of_order(self, event: Event) -> Iterator[LineError]:
        """Yield a problem where `event` cannot follow the lines before it."""
        expected = None
        if self.started is None and not isinstance(event, RunStarted):
            expected = "run.started first"
        elif self.started is not None and isinstance(event, RunStarted):
            expected = "run.started on the first line alone"
        elif self.is_over:
            expected = "nothing after the end"
        elif self.state.phase == rules.ENDED and isinstance(event, ActionTaken | Retried | Refused):
            expected = "run.ended after the last action"
        elif self._is_suspended and not isinstance(event, RunResumed | RunEnded):
            expected = "run.resumed after run.suspended"
        if expected is not None:
            yield LineError("event", type(event).__name__, expected)

    def _check_action(self, event: ActionTaken) -> tuple[State | None, list[LineError]]:
        """Return the state after an action line, and in what the line is wrong."""
        action = rules.parse_action(event.action)
        try:
            after = rules.apply(self.state, action)
        except ActionError as exc:
            return None, [LineError("action", event.action, f"a legal action: {exc}")]
        if self._has_diverged:
            return self._follow(event, after)
        expected = action_taken(
            self.state, after, action, event.token, self.failures + 1, event.elapsed_ms
        )
        problems = []
        if not _is_like(event, expected):
            problems = [
                LineError(name, logged, repr(right))
                for name, logged, right in zip(event._fields, event, expected, strict=True)
                if logged != right or type(logged) is not type(right)
            ]
        if self._pending is not None and event.action != self._pending and self.failures:
            problems.append(LineError("action", event.action, f"{self._pending} again"))
        problems += self._check_banking(action)
        return after, problems

    def _check_banking(self, action: rules.Action) -> Iterator[LineError]:
        """Yield a problem where the bank rule is not kept."""
        met = strategy.is_met(self.state, self.goal)
        if met and action != rules.BANK:
            yield LineError("action", action.to_json(), f"bank: {self.goal.bank_at} is reached")
        elif (
            not met
            and action == rules.BANK
            and strategy.decide(self.state, self.goal) != rules.BANK
        ):
            yield LineError("action", action.to_json(), "play on: the bank rule is not met")

    def _follow(self, event: ActionTaken, after: State) -> tuple[State, list[LineError]]:
        """Take the service's word in a line after `diverged`."""
        try:
            garland = parse_garland(event.garland)
        except GarlandError as exc:
            return after, [LineError("garland", event.garland, str(exc))]
        if not 1 <= event.template <= len(rules.STARTS):
            return after, [LineError("template", event.template, "1 to 8")]
        followed = replace(
            after,
            phase=event.phase,
            board_number=event.board,
            template_index=event.template,
            garland=garland,
            moves_used=event.moves_used,
            move_budget=event.move_budget,
            leaves=event.leaves,
            score=event.score,
            turn=event.turn,
        )
        if followed.phase == rules.ENDED and followed.end_reason is None:
            followed = replace(followed, end_reason=rules.OUT_OF_LIVES)
        return followed, []

    def _check(self, event: Event) -> Iterator[LineError]:
        """Yield in what any line but an action's is wrong."""
        match event:
            case RunStarted():
                yield from _check_start(event)
            case Retried():
                yield from self._check_failure(event.what, event.attempt)
            case Refused():
                yield from self._check_failure(event.action, self.failures + 1)
            case FieldsDiverged():
                yield from self._check_divergence(event)
            case RunResumed():
                if event.from_seq != self.next_seq - 1:
                    yield LineError("from_seq", event.from_seq, str(self.next_seq - 1))
            case RunEnded():
                yield from self._check_totals(event)

    def _check_failure(self, what: object, attempt: int) -> Iterator[LineError]:
        if self.failures and what != self._pending:
            yield LineError("what", what, f"{self._pending} again")
        elif what == INIT and self.tally.actions:
            yield LineError("what", what, "an action")
        elif what != INIT and rules.parse_action(what) not in rules.legal_actions(self.state):
            yield LineError("what", what, "a legal action")
        if attempt != self.failures + 1:
            yield LineError("attempt", attempt, str(self.failures + 1))

    def _check_divergence(self, event: FieldsDiverged) -> Iterator[LineError]:
        if not self.failures:
            yield LineError("event", "diverged", "a retry line before it")
            return
        predicted = wire.expectation(rules.apply(self.state, rules.parse_action(self._pending)))
        for label, pair in event.fields.items():
            name = wire.page_name(label)
            if not isinstance(pair, dict) or pair.keys() != {"predicted", "observed"}:
                yield LineError("fields", pair, f"predicted and observed of {label}")
            elif name is not None and not wire.is_same(pair["predicted"], predicted[name]):
                yield LineError(f"fields.{label}", pair["predicted"], repr(predicted[name]))
        if not event.fields:
            yield LineError("fields", event.fields, "at least one field")

    def _check_totals(self, event: RunEnded) -> Iterator[LineError]:
        if self.state.phase != rules.ENDED:
            yield LineError("event", "run.ended", f"more actions in phase {self.state.phase}")
            return
        for name, logged, right in zip(event._fields, event, self.totals(), strict=True):
            if logged != right:
                yield LineError(name, logged, repr(right))


def spec_digest(spec: object) -> str | None:
    """Return the SHA-256 of a service's description of the game, None where there is none."""
    if spec is None:
        return None
    text = json.dumps(spec, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _check_start(event: RunStarted) -> Iterator[LineError]:
    fresh = wire.public_fields(rules.fresh())
    for name in fresh.keys() | event.state.keys():
        logged = event.state.get(name, "missing")
        if name not in fresh or not wire.is_same(logged, fresh[name]):
            yield LineError(f"state.{name}", logged, repr(fresh.get(name, "no such field")))
    try:
        wire.layout_from_json(event.wire)
    except ValueError as exc:
        yield LineError("wire", event.wire, str(exc))
    if spec_digest(event.spec) != event.spec_sha256:
        yield LineError("spec_sha256", event.spec_sha256, repr(spec_digest(event.spec)))
    run = parse_run_id(event.run_id)
    if run is None or run.seed != event.seed:
        yield LineError("run_id", event.run_id, f"a run id with seed {event.seed}")


def _is_like(event: ActionTaken, expected: ActionTaken) -> bool:
    """Tell whether two lines are equal, in types too: `True` is not 1."""
    return (
        event == expected
        and type(event.action.get("count", 1)) is int
        and list(map(type, event)) == list(map(type, expected))
    )
