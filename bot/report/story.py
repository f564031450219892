"""A run as the page tells it: one pass over its journal, in the order of its lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from bot import rules
from bot.errors import NotAJournal
from bot.journal.events import ActionTaken, Event, Refused, Retried, RunResumed, RunStarted
from bot.journal.folder import SUFFIXES, parse_run_id
from bot.journal.ledger import Ledger
from bot.journal.reader import Entry, LineError, RawLine, parse_line, read_lines
from bot.report.boards import BoardLog
from bot.report.incidents import Incidents, Moment
from bot.report.text import clamp, visible
from bot.report.timeline import Timeline

MAX_PROBLEMS: Final = 20
"""Contradictions that are told one by one."""


class Problem(NamedTuple):
    """A line that is not as it should be."""

    line: int
    """From 1."""
    text: str


@dataclass(slots=True)
class TemplateTally:
    """What the boards of one template took and brought."""

    boards: int = 0
    """Cleared."""
    flips: int = 0
    award: int = 0
    seconds: float = 0.0
    """Played on its boards; retries and waits included."""


@dataclass(slots=True)
class Story:
    """All that there is to tell of one run."""

    path: Path
    ledger: Ledger = field(default_factory=Ledger)
    """Where the run stands by the rules."""
    timeline: Timeline = field(default_factory=Timeline)
    boards: BoardLog = field(default_factory=BoardLog)
    incidents: Incidents = field(default_factory=Incidents)
    templates: dict[int, TemplateTally] = field(default_factory=dict)
    lines: int = 0
    """Lines that were understood."""
    score: int = 0
    """By the last action, as are the next ones."""
    leaves: int = rules.LEAVES
    template: int = 1
    last_event: Event | None = None
    problems: list[Problem] = field(default_factory=list)
    """The first lines that contradict the rules or the lines before them."""
    problem_count: int = 0
    damage: Problem | None = None
    """A line before the last one that cannot be read; nothing after it is told."""
    torn: Problem | None = None
    """A last line that cannot be read, as a crash leaves one."""

    @property
    def run_id(self) -> str:
        """The run's name, by its file."""
        name = self.path.name
        return next((name.removesuffix(end) for end in SUFFIXES if name.endswith(end)), name)

    @property
    def started(self) -> RunStarted | None:
        """The first line, None where it never was whole."""
        return self.ledger.started

    @property
    def is_verified(self) -> bool:
        """Whether every whole line is as the rules and the lines before it have it."""
        return not self.problem_count and self.damage is None

    @property
    def cleared(self) -> int:
        """Boards cleared."""
        return sum(tally.boards for tally in self.templates.values())

    @property
    def flips(self) -> int:
        """Flips accepted."""
        return sum(tally.flips for tally in self.templates.values())

    def take(self, entry: Entry) -> None:
        """Take note of a line."""
        event = entry.event
        self.lines += 1
        self.last_event = event
        self._verify(entry)
        is_resumed = isinstance(event, RunResumed)
        passed = self.timeline.tick(entry.ts, is_sitting=is_resumed)
        at = self.timeline.played
        gap_s = self.timeline.sittings[-1].gap_s if is_resumed else 0.0
        if isinstance(event, ActionTaken):
            self.boards.take(event, at)
            self._count(event, passed)
            self.timeline.answer(self.score, event.elapsed_ms)
            return
        self._tally.seconds += passed
        if isinstance(event, RunStarted | Retried | Refused):
            self.timeline.failure(self.score, is_init=isinstance(event, RunStarted))
        self.incidents.take(event, Moment(entry.number, entry.ts, at, gap_s, self.boards.place))

    @property
    def _tally(self) -> TemplateTally:
        return self.templates.setdefault(self.template, TemplateTally())

    def _verify(self, entry: Entry) -> None:
        for problem in self.ledger.take(entry):
            self.problem_count += 1
            if len(self.problems) < MAX_PROBLEMS:
                self.problems.append(Problem(entry.number, visible(str(problem))))

    def _count(self, event: ActionTaken, passed: float) -> None:
        self.score = int(clamp(event.score))
        self.leaves = int(clamp(event.leaves))
        self.template = event.template if 1 <= event.template <= len(rules.STARTS) else 0
        tally = self._tally
        tally.seconds += passed
        tally.flips += "count" in event.action
        if event.phase == rules.CLEARED:
            tally.boards += 1
            tally.award += int(clamp(event.award))


def read_story(path: Path) -> Story:
    """Read the journal at `path` to its end, or as far as it can be read.

    Raises:
        NotAJournal: there is no such file, or it is none of a run.
    """
    story = Story(path)
    unread: Problem | None = None
    for line in _whole_file(path, story):
        if unread is not None:
            story.damage = unread
            break
        try:
            story.take(parse_line(line))
        except LineError as exc:
            unread = Problem(line.number, visible(str(exc)))
    else:
        story.torn = unread
    if not story.lines and story.damage and parse_run_id(story.run_id) is None:
        raise NotAJournal(f"{path} is no journal: line {story.damage.line}: {story.damage.text}")
    return story


def _whole_file(path: Path, story: Story) -> Iterator[RawLine]:
    """Yield the lines; a file that ends in the middle of its compression is damaged there."""
    number = 0
    try:
        for line in read_lines(path):
            number = line.number
            yield line
    except NotAJournal as exc:
        if not number:
            raise
        story.damage = Problem(number + 1, visible(str(exc)))
