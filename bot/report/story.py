"""A run as the page tells it: one pass over its journal, in the order of its lines."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from bot import rules
from bot.errors import NotAJournal
from bot.journal.events import (
    ActionTaken,
    Event,
    FieldsDiverged,
    Refused,
    Retried,
    RunResumed,
    RunStarted,
)
from bot.journal.folder import parse_run_id, run_name
from bot.journal.reader import Entry, read_lines
from bot.report.boards import Board, BoardLog
from bot.report.incidents import Incidents, Moment
from bot.report.text import clamp
from bot.report.timeline import Timeline
from bot.run import Run
from bot.verify import MAX_PROBLEMS, Problem, Verification


@dataclass(slots=True)
class TemplateTally:
    """What the boards of one template took and brought."""

    boards: int = 0
    """Cleared."""
    flips: int = 0
    award: int = 0
    seconds: float = 0.0
    """Played on its boards; retries and waits included."""


@dataclass
class Story:
    """All that there is to tell of one run."""

    proof: Verification
    """The pass that verifies it."""
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
    followed: int = 0
    """Actions in which the service's word was taken against the rules."""
    last_event: Event | None = None
    is_begun: bool = True
    """Whether the first line was ever written whole."""

    @property
    def path(self) -> Path:
        """Its journal."""
        return self.proof.path

    @property
    def run(self) -> Run:
        """Where the run stands by the rules."""
        return self.proof.run

    @property
    def problems(self) -> list[Problem]:
        """Lines that cannot be read, or that contradict the rules or the lines before them."""
        return self.proof.problems if self.is_begun else []

    @property
    def is_cut_short(self) -> bool:
        """Whether there were too many problems to read on."""
        return len(self.problems) >= MAX_PROBLEMS

    @property
    def run_id(self) -> str:
        """The run's name, by its file."""
        return run_name(self.path)

    @property
    def started(self) -> RunStarted | None:
        """The first line, None where it never was whole."""
        return self.run.started

    @property
    def is_verified(self) -> bool:
        """Whether every whole line is as the rules and the lines before it have it."""
        return not self.problems

    @property
    def cleared(self) -> int:
        """Boards cleared."""
        return sum(tally.boards for tally in self.templates.values())

    @property
    def flips(self) -> int:
        """Flips accepted."""
        return sum(tally.flips for tally in self.templates.values())

    @property
    def requests(self) -> int:
        """Requests sent, `init` included."""
        return self.timeline.requests

    @cached_property
    def board_list(self) -> list[Board]:
        """Every board that the page lists; asked for once the journal is read."""
        return self.boards.boards()

    def take(self, entry: Entry) -> None:
        """Take note of a line."""
        event = entry.event
        self.lines += 1
        self.followed += isinstance(event, ActionTaken) and isinstance(
            self.last_event, FieldsDiverged
        )
        self.last_event = event
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
    """Read the journal at `path`, and verify it on the way.

    Lines that cannot be read are passed over and told of.

    Raises:
        NotAJournal: there is no such file, or it is none of a run.
    """
    story = Story(Verification(path))
    try:
        for entry in story.proof.steps():
            story.take(entry)
    except NotAJournal:
        if not _is_run(story):
            raise
    return story


def _is_run(story: Story) -> bool:
    """Tell whether a file without one line of a journal is a run all the same, by its name.

    It is where a bot was stopped before its first line was whole, or where that line broke.
    """
    first = next(read_lines(story.path), None)
    story.is_begun = first is not None and not first.is_torn
    return parse_run_id(story.run_id) is not None
