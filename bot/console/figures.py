"""What a sitting has taken so far: pace, causes of failures, answer times."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from bot.words import duration, one_line

if TYPE_CHECKING:
    from bot.run import Run


class Figures:
    """What a sitting has taken so far, for the summary."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.began_at = time.monotonic()
        self.first_score = 0
        self.causes: Counter[str] = Counter()
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
        """Return the time to the threshold at the pace of this sitting, None while unknown."""
        gained = run.state.score - self.first_score
        if gained <= 0:
            return None
        return max(0, run.goal.bank_at - run.state.score) * self.seconds / gained

    def percentile_ms(self, share: float) -> float:
        """Return the answer time that this share (0 to 1) of all answers did not exceed."""
        below = 0
        for elapsed_ms, answers in sorted(self._elapsed_ms.items()):
            below += answers
            if below > share * self.actions:
                return elapsed_ms
        return 0.0

    def summary(self, run: Run, path: Path) -> str:
        """Return the few lines that end a sitting."""
        median, slow = self.percentile_ms(0.5), self.percentile_ms(0.99)
        causes = ", ".join(
            f"{count} x {one_line(cause)}" for cause, count in self.causes.most_common(5)
        )
        return "\n".join(
            (
                f"  points   {run.state.score:,} of {run.goal.bank_at:,}",
                f"  boards   {run.boards:,}, {run.state.leaves} leaves left",
                f"  time     {duration(self.seconds)} now, {duration(run.seconds)} in all",
                f"  requests {run.requests:,}, {run.retries:,} retries"
                + (f" ({causes})" if causes else ""),
                f"  answers  {median:.1f} ms median, {slow:.1f} ms 99th percentile",
                f"  journal  {path}",
            )
        )
