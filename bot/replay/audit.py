"""Auditing a journal with a service: some of its moves are sent again with their tokens.

A service without memory gives the same answer to the same token and action, so the state that
it answers has to be the one that stands in the journal.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from bot.client.client import Client, Failed
from bot.errors import Contradiction, TokenRefused
from bot.replay.watch import Move, moves
from bot.verify import MAX_PROBLEMS, Problem, Verification

MAX_REFUSALS: Final = 3
"""Tokens refused in a row after which no other is tried: they are too old."""


@dataclass(slots=True)
class Findings:
    """What a service said."""

    agreed: int = 0
    """Answers that were as the journal has them."""
    refused: int = 0
    """Tokens that the service does not take any more."""
    refusal: str = ""
    """Its words for that, the last time."""
    problems: list[Problem] = field(default_factory=list)

    @property
    def asked(self) -> int:
        """Moves that were sent again and answered."""
        return self.agreed + self.refused + len(self.problems)

    def to_json(self) -> dict[str, object]:
        """Return the counts for programs."""
        return {"asked": self.asked, "agreed": self.agreed, "refused": self.refused}


def choose(verification: Verification, size: int | None) -> Iterable[Move]:
    """Return the moves to ask about, in their order.

    The first, the last and the first of each award are always among them. The rest is drawn
    by a generator that is seeded with the run's name, so that it is the same each time.

    Args:
        verification: of the journal, which was read and is in order.
        size: how many; None for all of them.

    Raises:
        NotAJournal: the file cannot be read any more.
    """
    run = verification.run
    played = moves(Verification(verification.path))
    if size is None or size >= run.actions:
        return played
    generator = random.Random(verification.run_id)  # noqa: S311 - a sample, no secret
    return _sample(played, run.actions - 1, generator.sample(range(run.actions), size))


def _sample(played: Iterable[Move], last: int, drawn: Sequence[int]) -> list[Move]:
    """Return as many moves as are drawn, by their numbers, those among them that have to be."""
    first_of_award: dict[int, int] = {}
    kept: dict[int, Move] = {}
    wanted = {last, *drawn}
    for number, move in enumerate(played):
        is_first = first_of_award.setdefault(move.after.score - move.before.score, number) == number
        if is_first or number in wanted:
            kept[number] = move
    asked = {last, *first_of_award.values()}
    for number in drawn:
        if len(asked) < len(drawn):
            asked.add(number)
    return [kept[number] for number in sorted(asked)]


def audit(
    asked: Iterable[Move], client: Client, findings: Findings, tell: Callable[[Move, Failed], None]
) -> None:
    """Send moves again and add to `findings` what the answers are worth.

    Args:
        asked: the moves.
        client: has the layout of the run.
        findings: to add to, so that they are at hand when an error ends the audit.
        tell: is told of each attempt that brought no answer.

    Raises:
        ServiceUnavailable: the service cannot be reached, or answers nothing usable.
        ConfigError: the service redirects to a host that is not its own.
        TryLater: the budget of this call is used up.
        Stopped: a signal asks to stop.
    """
    refused_in_a_row = 0
    for move in asked:
        try:
            for attempt in client.act(move.token, move.action, move.before, move.after):
                if isinstance(attempt, Failed):
                    tell(move, attempt)
        except TokenRefused as exc:
            findings.refused += 1
            findings.refusal = exc.cause
            refused_in_a_row += 1
            if refused_in_a_row == MAX_REFUSALS:
                return
            continue
        except Contradiction as exc:
            text = f"{move.action}: {exc}"
            findings.problems.append(Problem(move.line, move.seq, text))
        else:
            findings.agreed += 1
        refused_in_a_row = 0
        if len(findings.problems) >= MAX_PROBLEMS:
            return
