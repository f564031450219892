"""Where a run stands after each of its lines, and whether the rules agree with them.

The player keeps a `Ledger` while it plays. Resuming and replaying fold a journal into one
and are told of every line that contradicts the rules or the lines before it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from bot import rules, strategy
from bot.errors import ActionError, Contradiction, GarlandError
from bot.garland import parse_garland
from bot.journal import divergence, events
from bot.journal.divergence import is_equal
from bot.journal.events import (
    EVENT_NAMES,
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
from bot.journal.reader import Entry, LineError, RawLine, parse_line, parse_time
from bot.journal.shortcut import Walk
from bot.rules import Action, State
from bot.strategy import Goal
from bot.wire.fields import public_fields
from bot.wire.layout import Layout, layout_from_json

HTTP_STATUSES: Final = range(100, 1000)


class _Next(NamedTuple):
    """What may follow a line."""

    events: frozenset[type[Event]]
    expected: str
    """For people."""


_AT_FIRST: Final = _Next(frozenset({RunStarted}), "run.started first")
_IN_PLAY: Final = _Next(
    frozenset(
        {ActionTaken, Retried, Refused, FieldsDiverged, RunResumed, RunSuspended, RunAbandoned}
    ),
    "a line of a run that is going on",
)
_AFTER_DIVERGED: Final = _Next(
    frozenset({ActionTaken, RunSuspended, RunResumed}), "an action or run.suspended after diverged"
)
_AFTER_SUSPENDED: Final = _Next(frozenset({RunResumed}), "run.resumed after run.suspended")
_AFTER_LAST_ACTION: Final = _Next(
    frozenset({RunSuspended, RunEnded}), "run.ended after the last action"
)
_AFTER_ALL: Final = _Next(frozenset(), "nothing after the end")


@dataclass(slots=True)
class Tally:
    """What a run has taken so far, over all its sittings."""

    actions: int = 0
    flips: int = 0
    boards: int = 0
    retries: int = 0
    refusals: int = 0
    followed: int = 0
    """Actions whose answer was taken for true against the rules."""
    seconds: float = 0.0
    """Played before the stretch of time at hand."""

    @property
    def requests(self) -> int:
        """Requests sent: `init`, and one for each line of an answer or of the lack of one."""
        return 1 + self.actions + self.retries + self.refusals


class Ledger:
    """The standing of one run."""

    def __init__(self) -> None:
        """Begin before the first line."""
        self.started: RunStarted | None = None
        self.token = ""
        self.goal = Goal(0)
        self.tally = Tally()
        self.is_over = False
        """Whether `run.ended` or `run.abandoned` was written."""
        self.earned = False
        """Whether the run ended banked, as its goal asks."""
        self.next_seq = 0
        self.failures = 0
        """Requests of the move at hand that failed in this sitting."""
        self.started_ts = self.last_ts = ""
        self.last_action_ts = ""
        """Of the last line of an action, or of the first line."""
        self._state: State | None = None
        """None while `_walk` is ahead."""
        self._walk = Walk(rules.fresh())
        self._next = _AT_FIRST
        self._stretch_ts = ""
        """Of the line from which on time is counted: a sitting, until the clock is set back."""
        self._has_gone_back = False
        """Whether a clock was set back within a sitting."""
        self._init_failures = 0
        self._pending: Mapping[str, object] | None = None
        """The action whose requests failed."""
        self._divergence: FieldsDiverged | None = None
        """The line before, if it is one."""

    @property
    def state(self) -> State:
        """The state after the last action."""
        if self._state is None:
            self._state = self._walk.state
        return self._state

    @property
    def score(self) -> int:
        """Points after the last action; cheaper than asking `state` for them."""
        return self._walk.score if self._state is None else self._state.score

    @property
    def has_diverged(self) -> bool:
        """Whether the last line is a `diverged` one."""
        return self._divergence is not None

    @property
    def seconds(self) -> float:
        """Time played over all sittings, up to the last line."""
        if not self._stretch_ts:
            return 0.0
        stretch = parse_time(self.last_ts) - parse_time(self._stretch_ts)
        return round(self.tally.seconds + stretch.total_seconds(), 3)

    def _note_time(self, ts: str) -> None:
        """Take note of the time of a line; where the clock was set back, count on from there."""
        if ts < self.last_ts:
            self._has_gone_back = True
            self._begin_stretch(ts)
        self.last_ts = ts

    def _begin_stretch(self, ts: str) -> None:
        """Keep the time played so far, and count on from a line at `ts`."""
        self.tally.seconds = self.seconds
        self._stretch_ts = self.last_ts = ts

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
        if isinstance(event, RunStarted | RunResumed):
            self._begin_stretch(ts)
            self.goal = Goal(event.bank_at, event.bank_rule)
            self.failures = 0
            self._pending = None
        self._note_time(ts)
        self.next_seq += 1
        is_followed = self._divergence is not None
        self._divergence = None
        match event:
            case ActionTaken():
                self.tally.followed += is_followed
                self._take_action(event, ts, after or self.state)
            case RunStarted():
                self.started = event
                self.token = event.token
                self.started_ts = self.last_action_ts = ts
            case Retried(what=what):
                self.tally.retries += 1
                self._take_failure(what)
            case Refused(action=action):
                self.tally.refusals += 1
                self._take_failure(action)
            case FieldsDiverged():
                self._divergence = event
            case RunAbandoned() | RunEnded():
                self.is_over = True
        self._next = self._what_may_follow(event)

    def _take_action(self, event: ActionTaken, ts: str, after: State) -> None:
        self.tally.actions += 1
        self.tally.flips += "count" in event.action
        self.tally.boards += after.phase == rules.CLEARED
        is_banked = after.end_reason == rules.BANKED
        self.earned = is_banked and strategy.is_met(self.state, self.goal)
        self._state = after
        self.token = event.token
        self.last_action_ts = ts
        self.failures = 0
        self._pending = None

    def _take_failure(self, what: str | dict[str, object]) -> None:
        if isinstance(what, str):
            self._init_failures += 1
        else:
            self.failures += 1
            self._pending = what

    def _what_may_follow(self, event: Event) -> _Next:
        if self.is_over:
            return _AFTER_ALL
        if self.state.phase == rules.ENDED:
            return _AFTER_LAST_ACTION
        if isinstance(event, FieldsDiverged):
            return _AFTER_DIVERGED
        return _AFTER_SUSPENDED if isinstance(event, RunSuspended) else _IN_PLAY

    def take_line(self, line: RawLine) -> list[LineError]:
        """Take note of a line as it stands in the file; return in what it is wrong, if anything.

        Raises:
            LineError: it is not a line of a journal; no note was taken of it.
        """
        if self._next is _IN_PLAY and self._pending is None and self._take_plain(line.text):
            return []
        return self.take(parse_line(line))

    def _take_plain(self, line: bytes) -> bool:
        """Take note of an action line that needs no reading; return whether it is one.

        Near the threshold every line is read, since the bank rule has to be asked there.
        """
        if self.goal.bank_at - self.score <= strategy.FAR:
            return False
        if self._state is not None:
            self._walk.stand(self._state)
        plain = self._walk.take(line, self.next_seq, self.last_ts[:10].encode())
        if plain is None:
            return False
        self._state = None
        self.tally.actions += 1
        self.tally.flips += plain.is_flip
        self.tally.boards += plain.clears
        self.token = plain.token
        self._note_time(plain.ts)
        self.last_action_ts = plain.ts
        self.next_seq += 1
        return True

    def take(self, entry: Entry) -> list[LineError]:
        """Take note of a line that was read back; return in what it is wrong, if anything.

        After a line that contradicts the ones before it, what it says is believed where
        nothing else could be, so that one fault is not told over and over.
        """
        event = entry.event
        after = None
        problems: list[LineError] = []
        if entry.seq != self.next_seq:
            problems = [LineError("seq", entry.seq, str(self.next_seq))]
            self.next_seq = entry.seq
        elif type(event) not in self._next.events:
            problems = [LineError("event", EVENT_NAMES[type(event)], self._next.expected)]
        if isinstance(event, ActionTaken):
            if problems:
                after = _at_its_word(event, self.state)
            else:
                after, problems = self._check_action(event)
        elif not problems:
            problems = list(self._check(event))
        self.advance(event, entry.ts, after)
        return problems

    def _check_action(self, event: ActionTaken) -> tuple[State, list[LineError]]:
        """Return the state after an action line, and in what the line is wrong."""
        action = rules.parse_action(event.action)
        if self._pending is not None and event.action != self._pending:
            problem = LineError("action", event.action, f"{self._pending} again")
            return _at_its_word(event, self.state), [problem]
        try:
            after = rules.apply(self.state, action)
        except ActionError as exc:
            problem = LineError("action", event.action, f"a legal action: {exc}")
            return _at_its_word(event, self.state), [problem]
        candidates = [after]
        if self._divergence is not None:
            candidates = list(divergence.followed(self._divergence, self._layout(), after))
        verdicts = [(after, self._differences(event, after, action)) for after in candidates]
        after, problems = min(verdicts, key=lambda verdict: len(verdict[1]))
        return after, [*problems, *self._check_goal(action, after)]

    def _differences(self, event: ActionTaken, after: State, action: Action) -> list[LineError]:
        """Return in what a line differs from the one of an action that led to `after`."""
        attempts = self.failures + 1
        expected = action_taken(self.state, after, action, event.token, attempts, event.elapsed_ms)
        return [
            LineError(name, logged, repr(right))
            for name, logged, right in zip(event._fields, event, expected, strict=True)
            if logged != right
        ]

    def _check_goal(self, action: Action, after: State) -> Iterator[LineError]:
        """Yield a problem where the bank rule is not kept."""
        goal = self.goal
        if strategy.is_met(self.state, goal):
            if action != rules.BANK:
                yield LineError("action", action.to_json(), f"bank: {goal.bank_at} is reached")
        elif action == rules.BANK:
            if not self._would_bank(self.state):
                yield LineError("action", action.to_json(), "play on: the bank rule is not met")
        elif (
            goal.rule == strategy.EXACTLY
            and self._divergence is None
            and after.phase == rules.CLEARED
            and after.score != goal.bank_at
            and self._would_bank(after)
            and not self._would_bank(self.state)
        ):
            yield LineError("score", after.score, f"a score from which {goal.bank_at} is in reach")

    def _would_bank(self, state: State) -> bool:
        """Tell whether banking is what to do; true, too, where only a service could have led."""
        is_odd = state.move_budget != rules.template(state.template_index).budget
        return is_odd or strategy.decide(state, self.goal) == rules.BANK

    def _layout(self) -> Layout | None:
        """Return where the service puts each field; None where the first line is wrong in it."""
        try:
            return layout_from_json(self.started.wire) if self.started else None
        except ValueError:
            return None

    def _check(self, event: Event) -> Iterator[LineError]:
        """Yield in what any line but an action's is wrong."""
        match event:
            case RunStarted():
                yield from _check_start(event)
            case Retried():
                yield from self._check_retry(event)
            case Refused():
                yield from self._check_failure("action", event.action)
            case FieldsDiverged():
                yield from self._check_divergence(event)
            case RunEnded():
                yield from self._check_totals(event)
            case _:
                yield from self._check_sitting(event)

    def _check_sitting(self, event: Event) -> Iterator[LineError]:
        """Yield in what a line that begins or ends a sitting is wrong."""
        diverged = Contradiction.exit_code
        match event:
            case RunResumed(from_seq=seq) if seq != self.next_seq - 1:
                yield LineError("from_seq", seq, str(self.next_seq - 1))
            case RunSuspended(exit_code=code) if self._divergence and code != diverged:
                yield LineError("exit_code", code, f"{diverged} after diverged")
            case RunSuspended(exit_code=code) if code not in events.SUSPENDING:
                yield LineError("exit_code", code, "an exit code of a suspended run")
            case RunAbandoned() if not self.failures:
                yield LineError("event", "run.abandoned", "a retry line before it")

    def _check_retry(self, event: Retried) -> Iterator[LineError]:
        attempt = self.failures + 1
        if isinstance(event.what, dict):
            yield from self._check_failure("what", event.what)
        elif self.next_seq == self._init_failures + 1:
            attempt = self.next_seq
        else:
            yield LineError("what", event.what, "an action")
        if event.attempt != attempt:
            yield LineError("attempt", event.attempt, str(attempt))
        if event.status is not None and event.status not in HTTP_STATUSES:
            yield LineError("status", event.status, "an HTTP status or null")
        if len(event.excerpt) > events.MAX_EXCERPT:
            yield LineError("excerpt", event.excerpt, f"{events.MAX_EXCERPT} characters at most")

    def _check_failure(self, field: str, action: dict[str, object]) -> Iterator[LineError]:
        if self._pending is not None and action != self._pending:
            yield LineError(field, action, f"{self._pending} again")
        elif rules.parse_action(action) not in rules.legal_actions(self.state):
            yield LineError(field, action, "a legal action")

    def _check_divergence(self, event: FieldsDiverged) -> Iterator[LineError]:
        if self._pending is None:
            yield LineError("event", "diverged", "a retry line before it")
            return
        action = rules.parse_action(self._pending)
        layout = self._layout()
        if layout is None or action not in rules.legal_actions(self.state):
            return  # as was said of a line before
        yield from divergence.check(event, layout, rules.apply(self.state, action))

    def _check_totals(self, event: RunEnded) -> Iterator[LineError]:
        for name, logged, right in zip(event._fields, event, self.totals(), strict=True):
            is_doubtful = name == "seconds" and self._has_gone_back  # was counted otherwise before
            if logged != right and not is_doubtful:
                yield LineError(name, logged, repr(right))


def spec_digest(spec: object) -> str | None:
    """Return the SHA-256 of a service's description of the game, None where there is none."""
    if spec is None:
        return None
    text = json.dumps(spec, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _check_start(event: RunStarted) -> Iterator[LineError]:
    fresh = public_fields(rules.fresh())
    for name, right in fresh.items():
        logged = event.state.get(name, "missing")
        if not is_equal(logged, right):
            yield LineError(f"state.{name}", logged, repr(right))
    for name in event.state.keys() - fresh.keys():
        yield LineError(f"state.{name}", event.state[name], "no such field")
    try:
        places = layout_from_json(event.wire).to_json()
    except ValueError as exc:
        yield LineError("wire", event.wire, str(exc))
    else:
        if not is_equal(places, event.wire):
            yield LineError("wire", event.wire, repr(places))
    if spec_digest(event.spec) != event.spec_sha256:
        yield LineError("spec_sha256", event.spec_sha256, repr(spec_digest(event.spec)))
    run = parse_run_id(event.run_id)
    if run is None or run.seed != event.seed:
        yield LineError("run_id", event.run_id, f"a run id with seed {event.seed}")


def _at_its_word(event: ActionTaken, before: State) -> State:
    """Return the state that an action line claims, whatever came before it."""
    end_reason = None
    if event.phase == rules.ENDED:
        is_banked = event.action == rules.BANK.to_json()
        end_reason = rules.BANKED if is_banked else rules.OUT_OF_LIVES
    try:
        garland = parse_garland(event.garland)
    except GarlandError:
        garland = before.garland
    is_template = 1 <= event.template <= len(rules.STARTS)
    return State(
        phase=event.phase,
        board_number=event.board,
        template_index=event.template if is_template else before.template_index,
        garland=garland,
        moves_used=event.moves_used,
        move_budget=event.move_budget,
        leaves=event.leaves,
        score=event.score,
        cleared_boards=before.cleared_boards + (event.phase == rules.CLEARED),
        last_award=event.award,
        end_reason=end_reason,
        turn=event.turn,
    )
