"""Journals of runs that nobody had to wait for: written by the bot's own writer, on a made clock.

`SampleRun` is played line by line; `a_night` is one that has something of everything, and in
`hostile_run` every text that can be a service's is hostile.
"""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Self

from bot import __version__, rules, strategy
from bot.journal import events, writer
from bot.journal.folder import journal_path
from bot.player import Record
from bot.rules import Action
from bot.run import Run, action_taken, spec_digest
from bot.strategy import Goal
from bot.wire.fields import expectation, public_fields

BEGAN: Final = datetime(2026, 11, 30, 1, 52, 7, tzinfo=UTC)
RUN_ID: Final = "20261130T015207Z-seed7-ab12"
SPEC: Final = {"goal": "Restore the garland."}
HOSTILE: Final = (
    "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
    "<!-- ]]> \u2028\u2029 \"'`& \x00\x07\x1b[31m \u202e \ud800 {{ 7*7 }} ${7*7}"
)
"""What a service could send to take over the page that shows it."""
WIRE: Final[dict[str, object]] = {
    "token": "stateToken",
    **{name: f"state.{name}" for name in public_fields(rules.fresh())},
    "score": ["score", "state.score"],
    "gameOver": "gameOver",
    "legalActions": "legalActions",
    "passed_over": {},
}


class SampleRun:
    """A run that is written as it is told; use it in a `with`, or `close` it."""

    def __init__(
        self,
        runs_dir: Path,
        goal: Goal,
        *,
        run_id: str = RUN_ID,
        spec: object = SPEC,
        began: datetime = BEGAN,
        hostile: str = "",
    ) -> None:
        runs_dir.mkdir(parents=True, exist_ok=True)
        self.path = journal_path(runs_dir, run_id)
        self.now = began
        self.goal = goal
        self._is_open = True
        self._random = random.Random(7)
        self._record = Record(writer.create(self.path, lambda: self.now), Run())
        self.write(
            events.RunStarted(
                journal_version=events.JOURNAL_VERSION,
                run_id=run_id,
                bot_version=__version__ + hostile,
                base_url=f"https://gameboard.gg{hostile}",
                seed=7,
                bank_at=goal.bank_at,
                bank_rule=goal.rule,
                token="token-0",
                state=public_fields(rules.fresh()),
                wire={**WIRE, hostile: hostile} if hostile else WIRE,
                spec=spec,
                spec_sha256=spec_digest(spec),
            ),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the journal; nobody plays the run any more."""
        if self._is_open:
            self._record.journal.close()
            self._is_open = False

    @property
    def run(self) -> Run:
        return self._record.run

    @property
    def is_over(self) -> bool:
        return self.run.state.phase == rules.ENDED

    def write(self, event: events.Event) -> None:
        self._record.write(event)

    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def act(self, action: Action | None = None, *, elapsed_ms: float | None = None) -> None:
        """Take an action, the strategy's where none is given, a tenth of a second later."""
        state = self.run.state
        action = action or strategy.decide(state, self.goal)
        after = rules.apply(state, action)
        elapsed_ms = elapsed_ms or round(self._random.lognormvariate(4.2, 0.35), 2)
        self.wait(max(0.1, elapsed_ms / 1000))
        event = action_taken(
            state, after, action, f"token-{after.turn}", self.run.failures + 1, elapsed_ms
        )
        self._record.write(event, after)

    def play(self, actions: int, *, slower: float = 1) -> None:
        """Take that many actions, or as many as there are to the end."""
        for _ in range(actions):
            if self.is_over:
                return
            self.act(elapsed_ms=round(slower * self._random.lognormvariate(4.2, 0.35), 2))

    def fail(self, cause: str, status: int | None, excerpt: str = "", wait_s: float = 1) -> None:
        """Write a `retry` line of the next action, and wait."""
        self.wait(0.2)
        what = strategy.decide(self.run.state, self.goal).to_json()
        attempt = self.run.failures + 1
        self.write(events.Retried(what, attempt, cause, status, excerpt, wait_s))
        self.wait(wait_s)

    def refuse(self, reason: str) -> None:
        """Write a `refused` line of the next action."""
        self.wait(0.1)
        self.write(events.Refused(strategy.decide(self.run.state, self.goal).to_json(), reason))

    def diverge(self, name: str, observed: Any) -> None:
        """Write a `diverged` line about one field of the next action's answer."""
        predicted = expectation(
            rules.apply(self.run.state, strategy.decide(self.run.state, self.goal))
        )[name]
        self.write(events.FieldsDiverged({name: {"predicted": predicted, "observed": observed}}))

    def suspend(self, reason: str, exit_code: int) -> None:
        self.write(events.RunSuspended(reason, exit_code))

    def resume(self, after_s: float, *, cut_bytes: int = 0) -> None:
        """Begin another sitting after a break."""
        self.wait(after_s)
        self.write(
            events.RunResumed(
                self.run.next_seq - 1,
                self.goal.bank_at,
                self.goal.rule,
                __version__,
                cut_bytes,
            )
        )

    def end(self) -> None:
        """Write the last line of a run that is over."""
        self.write(self.run.totals())


def a_night(runs_dir: Path, bank_at: int = 1_000_000) -> Path:
    """Write a run of a night with retries, a storm of them, a refusal, stops and a divergence."""
    share = bank_at / 265 * 7 / 20
    with SampleRun(runs_dir, Goal(bank_at)) as run:
        run.play(round(share * 5))
        for _ in range(3):
            run.fail("HTTP 503 Service Unavailable (text/html)", 503, "<h1>Busy</h1>", 2)
            run.play(40)
        run.play(round(share * 2))
        run.suspend("the 55 minutes of this call are used up", 75)
        run.resume(312)
        run.play(round(share * 3))
        for attempt in range(12):
            run.fail("no answer: timed out", None, "", min(60, 2.0**attempt))
        run.play(round(share * 2), slower=6)
        run.refuse("slow down")
        run.play(round(share))
        run.fail("the answer differs: score", 200, '{"ok":true,"score":"many"}', 1)
        run.diverge("score", "many")
        run.suspend("the answer to flip 2 contradicts the rules: score is 'many'", 76)
        run.resume(7260, cut_bytes=112)
        while not run.is_over:
            run.play(1000)
        run.end()
        return run.path


def hostile_run(runs_dir: Path) -> Path:
    """Write a run in which every text that can be a service's is hostile."""
    spec = {HOSTILE: [HOSTILE, {"<b>": HOSTILE}]}
    with SampleRun(runs_dir, Goal(21_050), spec=spec, hostile=HOSTILE) as made:
        made.play(20)
        made.fail(HOSTILE, 503, HOSTILE)
        made.refuse(HOSTILE)
        made.fail(HOSTILE, None, HOSTILE)
        made.write(
            events.FieldsDiverged(
                {
                    "score": {"predicted": 0, "observed": HOSTILE},
                    HOSTILE: {"predicted": HOSTILE, "observed": {HOSTILE: HOSTILE}},
                }
            )
        )
        made.suspend(HOSTILE, 76)
        made.resume(60)
        made.play(5)
        made.write(events.RunAbandoned(HOSTILE))
        return made.path
