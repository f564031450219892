"""Verifying a journal: every line against the rules, and against the lines before it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from bot import rules
from bot.errors import NotAJournal
from bot.journal.events import ActionTaken
from bot.journal.ledger import Ledger
from bot.journal.reader import LineError, RawLine, is_of_a_journal, parse_line, read_lines
from bot.rules import Action

MAX_PROBLEMS: Final = 10
"""Problems after which nothing more is read: most of them follow from the first."""
FOREIGN_LINES: Final = 3
"""Lines after which a file without a line of a journal is none."""


class Problem(NamedTuple):
    """In what a line contradicts the rules or the lines before it."""

    line: int
    """From 1."""
    seq: int
    """The number that the line has, or should have where it cannot be read."""
    text: str

    def __str__(self) -> str:
        """Say it in one line."""
        return f"line {self.line} (seq {self.seq}): {self.text}"


class Verification:
    """One pass over a journal, and what it brought."""

    def __init__(self, path: Path) -> None:
        """Begin before the first line of the journal at `path`."""
        self.path = path
        self.ledger = Ledger()
        self.problems: list[Problem] = []
        self.lines = 0
        """Lines that were read, one that was cut off included."""
        self.torn_bytes = 0
        """Of a last line that was cut off while it was written."""

    @property
    def run_id(self) -> str | None:
        """The run's name, None where the first line cannot be read."""
        return self.ledger.started.run_id if self.ledger.started else None

    @property
    def is_verified(self) -> bool:
        """Whether every line that was read is as it has to be."""
        return not self.problems

    def run(self) -> None:
        """Read to the end, or to one problem too many.

        Raises:
            NotAJournal: the file cannot be read, or is no journal.
        """
        for _ in self.steps():
            pass

    def steps(self) -> Iterator[RawLine]:
        """Take line after line; yield each that the ledger has taken note of.

        Raises:
            NotAJournal: the file cannot be read, or is no journal.
        """
        ledger = self.ledger
        is_known = is_lost = False
        for line in self._read():
            try:
                found = ledger.take_line(line)
            except LineError as exc:
                is_known = is_known or is_of_a_journal(line)
                if is_known and line.is_torn:
                    self._take_torn(line, exc)
                    return
                self._add(line, ledger.next_seq, exc)
                if not is_known and line.number >= FOREIGN_LINES:
                    break
                is_lost = True
            else:
                is_known = True
                if found and not is_lost:  # the line after one that was lost is believed
                    for problem in found:
                        self._add(line, ledger.next_seq - 1, problem)
                is_lost = False
                yield line
            if len(self.problems) >= MAX_PROBLEMS:
                return
        if not is_known:
            why = self.problems[0].text if self.problems else "it is empty"
            raise NotAJournal(f"{self.path} is no journal: {why}")

    def _read(self) -> Iterator[RawLine]:
        """Yield the lines; a file that cannot be read any further has a problem there."""
        try:
            for line in read_lines(self.path):
                self.lines = line.number
                yield line
        except NotAJournal as exc:
            if not self.lines:
                raise
            self.problems.append(Problem(self.lines + 1, self.ledger.next_seq, str(exc)))

    def _take_torn(self, line: RawLine, error: LineError) -> None:
        """Take note of a last line without its end: a crash leaves one, but not after the end."""
        self.torn_bytes = len(line.text)
        if self.ledger.is_over:
            error = LineError(error.field, error.logged, "nothing after the end")
            self._add(line, self.ledger.next_seq, error)

    def _add(self, line: RawLine, seq: int, error: LineError) -> None:
        self.problems.append(Problem(line.number, seq, str(error)))


def action_in(line: RawLine) -> Action:
    """Return the action of a line that the ledger has counted as one."""
    event = parse_line(line).event
    if not isinstance(event, ActionTaken):
        raise TypeError(f"line {line.number} counted as an action")
    return rules.parse_action(event.action)
