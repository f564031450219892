"""Auditing a journal with a service: some of its moves are sent again with their tokens.

A service without memory gives the same answer to the same token and action, so the state that
it answers has to be the one that stands in the journal.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
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


def choose(path: Path, size: int | None) -> Sequence[int]:
    """Return which actions of a verified journal to ask about, by their numbers from 0.

    The first, the last and the first of each award are always among them. The rest is drawn
    by a generator that is seeded with the run's name, so that it is the same each time.

    Args:
        path: the journal.
        size: how many; None for all of them.

    Raises:
        NotAJournal: the file cannot be read, or is no journal.
    """
    verification = Verification(path)
    first_of_award: dict[int, int] = {}
    count = 0
    for move in moves(verification):
        first_of_award.setdefault(move.after.score - move.before.score, count)
        count += 1
    if size is None or size >= count:
        return range(count)
    drawn = {count - 1, *first_of_award.values()}
    generator = random.Random(verification.run_id)  # noqa: S311 - a sample, no secret
    for number in generator.sample(range(count), size):
        if len(drawn) < size:
            drawn.add(number)
    return sorted(drawn)


def chosen(path: Path, numbers: Sequence[int]) -> Iterator[Move]:
    """Yield the moves of a verified journal that have these numbers, which are in order.

    Raises:
        NotAJournal: the file cannot be read, or is no journal.
    """
    wanted = iter(numbers)
    number = next(wanted, None)
    for place, move in enumerate(moves(Verification(path))):
        if number is None:
            return
        if place == number:
            yield move
            number = next(wanted, None)


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
