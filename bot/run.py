"""Where a run stands after each of its events: state, token, goal, counts, time.

The player keeps a `Run` while it plays, and `verify` folds a journal into one. Nothing is checked
here: what is told is believed.
"""

from __future__ import annotations

import hashlib
import json
import math

from bot import rules, strategy
from bot.errors import TokenRefused
from bot.journal.events import (
    ActionTaken,
    Event,
    FieldsDiverged,
    LayoutChanged,
    Refused,
    Retried,
    RunAbandoned,
    RunEnded,
    RunResumed,
    RunStarted,
    RunSuspended,
)
from bot.journal.reader import parse_time
from bot.rules import Action, State
from bot.strategy import Goal


class Run:
    """The standing of one run, over all its sittings."""

    def __init__(self) -> None:
        """Begin before the first line."""
        self.started: RunStarted | None = None
        self.state = rules.fresh()
        self.token = ""
        self.goal = Goal(0)
        self.wire: dict[str, object] = {}
        """Where each field was found in the last answer."""
        self.actions = 0
        self.flips = 0
        self.boards = 0
        """Cleared."""
        self.retries = 0
        self.refusals = 0
        self.is_over = False
        """Whether `run.ended` or `run.abandoned` was written."""
        self.suspended: RunSuspended | None = None
        """The last line, if it is one that ends a sitting."""
        self.is_as_asked = False
        """Whether the run ended banked, as its goal asks."""
        self.next_seq = 0
        self.failures = 0
        """Requests of the move at hand that failed in this sitting."""
        self.pending: dict[str, object] | None = None
        """The action at hand, once a request of it has failed."""
        self.diverged: FieldsDiverged | None = None
        """The last line, if it is one of a divergence."""
        self.refused_ts = ""
        """When a sitting was first ended by a refused token, with nothing accepted since."""
        self.started_ts = self.last_ts = ""
        self.last_action_ts = ""
        """Of the last line of an action, or of the first line."""
        self.has_gone_back = False
        """Whether the clock was set back in the middle of a sitting."""
        self._past_s = 0.0
        """Time played before the stretch at hand."""
        self._stretch_ts = ""

    @property
    def score(self) -> int:
        """Points of all cleared boards."""
        return self.state.score

    @property
    def requests(self) -> int:
        """Requests sent: `init`, and one for each line of an answer or of the lack of one."""
        return 1 + self.actions + self.retries + self.refusals

    @property
    def seconds(self) -> float:
        """Time played over all sittings, up to the last line."""
        if not self._stretch_ts:
            return 0.0
        stretch = parse_time(self.last_ts) - parse_time(self._stretch_ts)
        return round(self._past_s + stretch.total_seconds(), 3)

    def advance(self, event: Event, ts: str, after: State | None = None) -> None:
        """Take note of an event at `ts`; `after` is the state that an action led to."""
        if isinstance(event, RunStarted | RunResumed):
            self._begin_sitting(event, ts)
        self._note_time(ts)
        self.next_seq += 1
        self.diverged = None
        self.suspended = event if isinstance(event, RunSuspended) else None
        match event:
            case ActionTaken():
                self._take_action(event, ts, after or self.state)
            case Retried(what=what):
                self.retries += 1
                if isinstance(what, dict):
                    self._take_failure(what)
            case Refused(action=action):
                self.refusals += 1
                self._take_failure(action)
            case LayoutChanged(wire=wire):
                self.wire = wire
            case FieldsDiverged():
                self.diverged = event
            case RunSuspended(exit_code=code) if code == TokenRefused.exit_code:
                self.refused_ts = self.refused_ts or ts
            case RunAbandoned() | RunEnded():
                self.is_over = True

    def _begin_sitting(self, event: RunStarted | RunResumed, ts: str) -> None:
        self._begin_stretch(ts)
        self.goal = Goal(event.bank_at, event.bank_rule)
        self.failures = 0
        self.pending = None
        if isinstance(event, RunStarted):
            self.started = event
            self.token = event.token
            self.wire = event.wire
            self.started_ts = self.last_action_ts = ts

    def _note_time(self, ts: str) -> None:
        """Take note of the time of a line; where the clock was set back, count on from there."""
        if ts < self.last_ts:
            self.has_gone_back = True
            self._begin_stretch(ts)
        self.last_ts = ts

    def _begin_stretch(self, ts: str) -> None:
        """Keep the time played so far, and count on from `ts`."""
        self._past_s = self.seconds
        self._stretch_ts = self.last_ts = ts

    def _take_action(self, event: ActionTaken, ts: str, after: State) -> None:
        self.actions += 1
        self.flips += "count" in event.action
        self.boards += after.phase == rules.CLEARED
        is_banked = after.end_reason == rules.BANKED
        self.is_as_asked = is_banked and strategy.is_met(self.state, self.goal)
        self.state = after
        self.token = event.token
        self.last_action_ts = ts
        self.failures = 0
        self.pending = None
        self.refused_ts = ""

    def _take_failure(self, action: dict[str, object]) -> None:
        self.failures += 1
        self.pending = action

    def totals(self) -> RunEnded:
        """Return the last line of a run whose last action has been taken."""
        return RunEnded(
            end_reason=self.state.end_reason or "",
            score=self.state.score,
            boards=self.boards,
            flips=self.flips,
            requests=self.requests,
            retries=self.retries,
            seconds=self.seconds,
        )


def action_taken(
    before: State, after: State, action: Action, token: str, attempts: int, elapsed_ms: float
) -> ActionTaken:
    """Return the event of an action that led from state `before` to state `after`."""
    return ActionTaken(
        turn=after.turn,
        action=action.to_json(),
        token=token,
        award=after.score - before.score,
        score=after.score,
        phase=after.phase,
        board=after.board_number,
        template=after.template_index,
        garland=list(after.garland),
        moves_used=after.moves_used,
        move_budget=after.move_budget,
        leaves=after.leaves,
        attempts=attempts,
        elapsed_ms=elapsed_ms,
    )


def points_an_hour(points: float, seconds: float) -> float | None:
    """Return the pace of `points` earned in `seconds`; None while there is no time to tell by."""
    return _ratio(points, seconds, 3600)


def time_to_go(points_left: float, points: float, seconds: float) -> float | None:
    """Return the seconds that `points_left` take at the pace of `points` earned in `seconds`.

    None while nothing was earned; 0 where nothing is left.
    """
    return _ratio(max(0, points_left), points, seconds)


def _ratio(part: float, whole: float, times: float) -> float | None:
    """Return so many times `part` / `whole`; None beyond all numbers, which a journal may hold."""
    if whole <= 0:
        return None
    try:
        value = part / whole * times
    except OverflowError:
        return None
    return round(value, 1) if math.isfinite(value) else None


def spec_digest(spec: object) -> str | None:
    """Return the SHA-256 of a service's description of the game, None where there is none."""
    if spec is None:
        return None
    text = json.dumps(spec, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
