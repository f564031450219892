"""What a sitting has taken so far: pace, causes of failures, answer times."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

from bot.run import Run, time_to_go
from bot.words import count_of, duration


class Figures:
    """What a sitting has taken so far, for the summary."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.began_at = time.monotonic()
        self.first_score = 0
        self.failures: Counter[str] = Counter()
        """Requests of this sitting that brought nothing, by their kind."""
        self.actions = 0
        """Actions of this sitting."""
        self._elapsed_ms: Counter[float] = Counter()

    def add(self, elapsed_ms: float) -> None:
        """Count an answer; three digits of its time are kept, so that memory stays flat."""
        self.actions += 1
        self._elapsed_ms[float(f"{elapsed_ms:.3g}")] += 1

    @property
    def seconds(self) -> float:
        """Length of this sitting so far."""
        return time.monotonic() - self.began_at

    def seconds_to_go(self, run: Run) -> float | None:
        """Return the time to the threshold at the pace of this sitting.

        None while that is unknown, and once there is nothing left to go.
        """
        left = run.goal.bank_at - run.score
        return time_to_go(left, run.score - self.first_score, self.seconds) if left > 0 else None

    @property
    def causes(self) -> str:
        """The kinds of failure with their counts, such as `9 trouble, 2 refused`."""
        return ", ".join(f"{count:,} {kind}" for kind, count in self.failures.most_common())

    def percentile_ms(self, share: float) -> float:
        """Return the answer time that this share (0 to 1) of all answers did not exceed."""
        below = 0
        for elapsed_ms, answers in sorted(self._elapsed_ms.items()):
            below += answers
            if below > share * self.actions:
                return elapsed_ms
        return 0.0

    def summary(self, run: Run, path: Path) -> str:
        """Return the few lines that end a sitting; each is of this call, or of the whole run."""
        state = run.state
        median, slow = self.percentile_ms(0.5), self.percentile_ms(0.99)
        actions = count_of(self.actions, "action")
        failed = f", {self.failures.total():,} failed: {self.causes}" if self.failures else ""
        requests = (
            count_of(run.requests, "request"),
            count_of(run.retries, "retry", "retries"),
            *([count_of(run.refusals, "refusal")] if run.refusals else []),
        )
        return "\n".join(
            (
                f"  points    {state.score:,} of {run.goal.bank_at:,}",
                f"  boards    {run.boards:,}, {count_of(state.leaves, 'leaf', 'leaves')} left",
                f"  run       {duration(run.seconds)}, {', '.join(requests)}",
                f"  this call {duration(self.seconds)}, {actions}{failed}",
                f"  answers   {median:.1f} ms median, {slow:.1f} ms 99th percentile",
                f"  journal   {path}",
            )
        )
