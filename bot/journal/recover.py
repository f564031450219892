"""Going on with a journal: how far it is whole, and where the run stands there."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from bot.errors import JournalDamaged
from bot.journal.ledger import Ledger
from bot.journal.reader import LineError, NewerFormat, parse_line, read_lines


class Recovered(NamedTuple):
    """A journal that can be gone on with."""

    ledger: Ledger
    size: int
    """Bytes of its whole lines."""
    cut_bytes: int
    """Bytes of a torn last line after them."""


def recover(path: Path) -> Recovered:
    """Fold the journal at `path`, up to a torn last line if there is one.

    A crash tears at most the last line, so a last line that cannot be read costs that line. A
    broken line before it, or one that the rules contradict, is damage of another kind and is
    left for people to look at.

    Raises:
        JournalDamaged: it is damaged before its last line.
        NotAJournal: it cannot be read.
    """
    ledger = Ledger()
    size = end = 0
    torn: tuple[int, LineError] | None = None
    for line in read_lines(path):
        if torn is not None:
            raise _damaged(path, *torn)
        end = line.end
        try:
            entry = parse_line(line)
        except NewerFormat as exc:
            raise JournalDamaged(f"cannot go on with the journal {path}: {exc}") from None
        except LineError as exc:
            torn = line.number, exc
            continue
        for problem in ledger.take(entry):
            raise _damaged(path, line.number, problem)
        size = end
    return Recovered(ledger, size, end - size)


def _damaged(path: Path, number: int, problem: LineError) -> JournalDamaged:
    return JournalDamaged(
        f"the journal {path} is damaged at line {number}: {problem}. It was left as it is and "
        f"nothing was sent; --fresh starts a new run"
    )
