"""A run that is told line by line, and what is said of each line."""

from __future__ import annotations

from typing import Any, Final

from harness import started, taken
from sample_runs import WIRE

from bot import rules, strategy
from bot.journal import events
from bot.journal.events import Event
from bot.journal.reader import Entry
from bot.rules import Action, State
from bot.run import Run
from bot.verify import take
from bot.wire.fields import expectation

RUN: Final = "20261130T024107Z-seed7-00ff"
FAR: Final = 1_000_000
"""A threshold that no run here comes near to."""
FLIP: Final = rules.FLIPS
CLEARING: Final = FLIP[1]
"""The one flip that clears the first board, for 215 points."""


def moment(second: float) -> str:
    """Return a time of the night, as a line has it."""
    return f"2026-11-30T02:{41 + int(second) // 60:02}:{second % 60:06.3f}Z"


class Telling:
    """A run that is told line by line."""

    def __init__(
        self, bank_at: int = FAR, bank_rule: str = strategy.AT_LEAST, **first: Any
    ) -> None:
        """Tell the first line."""
        self.run = Run()
        self.failed: Action | None = None
        """The action whose request brought no answer last."""
        event = started(RUN, bank_at, **{"bank_rule": bank_rule, "wire": WIRE, **first})
        self.told_first = self.tell(event)

    @property
    def state(self) -> State:
        return self.run.state

    def tell(self, event: Event, second: float = 0, *, seq: int | None = None) -> list[str]:
        """Tell a line; return what is said of it."""
        seq = self.run.next_seq if seq is None else seq
        problems = take(self.run, Entry(seq + 1, seq, moment(second), event))
        return [str(problem) for problem in problems]

    def act(self, *actions: Action, **changes: Any) -> list[str]:
        """Tell actions, the last one with some fields changed; return what is said of it."""
        for action in actions[:-1]:
            assert self.tell(self.line_of(action)) == []
        return self.tell(self.line_of(actions[-1])._replace(**changes))

    def line_of(self, action: Action) -> events.ActionTaken:
        attempts = self.run.failures + 1
        return taken(self.state, action)._replace(attempts=attempts)

    def fail(self, action: Action | None = None, **changes: Any) -> list[str]:
        """Tell that a request brought no answer, of `init` where no action is named."""
        self.failed = action
        attempt = self.run.failures + 1 if action else self.run.next_seq
        what = action.to_json() if action else events.INIT
        event = events.Retried(what, attempt, "HTTP 503", 503, "", 0.5)
        return self.tell(event._replace(**changes))

    def diverge(self, **observed: Any) -> list[str]:
        """Tell what the service says of fields after the action that failed last."""
        assert self.failed is not None
        expected = expectation(rules.apply(self.state, self.failed))
        return self.tell(
            events.FieldsDiverged(
                {
                    name: {"predicted": expected[name], "observed": value}
                    for name, value in observed.items()
                }
            )
        )
