"""How a run went, in words that a person understands at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from bot import rules
from bot.journal.events import RunSuspended
from bot.replay.summary import ABANDONED, DAMAGED, ENDED, RUNNING, SUSPENDED, Summary
from bot.report.incidents import visible
from bot.report.story import Story
from bot.verify import MAX_PROBLEMS
from bot.words import count_of, duration

GOOD: Final = "good"
OPEN: Final = "open"
BAD: Final = "bad"

BANKED: Final = "Banked"
SHORT: Final = "Banked short"
OUT: Final = "Out of leaves"


class Note(NamedTuple):
    """Something about the run that one must know to read its page."""

    tone: str
    text: str


def label(run: Summary) -> tuple[str, str]:
    """Return the state of a run in two or three words, and their tone."""
    if run.state == ENDED:
        if run.end_reason != rules.BANKED:
            return OUT, BAD
        return (BANKED, GOOD) if run.is_as_asked else (SHORT, BAD)
    return {
        DAMAGED: ("Damaged", BAD),
        ABANDONED: ("Abandoned", BAD),
        RUNNING: ("Playing now", OPEN),
        SUSPENDED: ("Stopped", OPEN),
    }[run.state]


def lead(run: Summary) -> str:
    """Return the one sentence that says how it went."""
    points = count_of(run.score, "point")
    after = f"after {count_of(run.boards, 'board')} in {duration(run.seconds)} of play"
    goal = f"{run.bank_at or 0:,}"
    said = {
        BANKED: f"{points} banked, as asked ({goal}), {after}.",
        SHORT: f"{points} banked {after}, short of the {goal} that were asked for.",
        OUT: f"The last leaf was spent {after}; {points} of {goal} were earned and are kept.",
        "Abandoned": f"The run was given up {after}; {points} of {goal} were earned.",
        "Playing now": f"{points} of {goal} so far, {after}; a bot plays on as this page is made.",
        "Stopped": f"{points} of {goal} so far, {after}; the next call resumes it.",
        "Damaged": f"{points} of {goal} {after}, as far as the journal can be read.",
    }[label(run)[0]]
    return (
        said if run.eta_s is None else f"{said} At this pace it takes {duration(run.eta_s)} more."
    )


def notes(story: Story, run: Summary) -> Iterator[Note]:
    """Yield what one must know to read the page."""
    if story.proof.problems:
        yield Note(BAD, _faults(story))
    if story.proof.torn_bytes:
        written = count_of(story.proof.torn_bytes, "byte")
        yield Note(
            OPEN,
            f"The last line was never written whole ({written} of it), as a crash or a full "
            "disk leaves it. The page shows what stands before it.",
        )
    if run.state == SUSPENDED:
        yield Note(OPEN, f"This run is not over. {_why_stopped(story)}")
    if run.state == RUNNING:
        yield Note(OPEN, "This run is not over: a bot plays it now.")


def _faults(story: Story) -> str:
    problems = story.proof.problems
    is_cut_short = len(problems) >= MAX_PROBLEMS
    return (
        f"The journal is damaged, or contradicts the rules, in "
        f"{count_of(len(problems), 'place')}; the first is line {problems[0].line:,}: "
        f"{visible(problems[0].text)}. "
        + ("No more was read." if is_cut_short else "The page shows what can be read.")
    )


def _why_stopped(story: Story) -> str:
    last = story.last_event
    if story.run.state.phase == rules.ENDED:
        return "Its last move was made, and its last line is missing; the next call writes it."
    if isinstance(last, RunSuspended):
        return f"Its last sitting ended: {visible(last.reason)} (exit {last.exit_code})."
    return "Its last sitting ended without a word, as a kill or a power cut ends one."


def verdict(story: Story) -> tuple[str, str, str]:
    """Return whether the journal is proven, in a word, more about it, and the tone of that."""
    lines = count_of(story.lines, "line")
    if not story.proof.is_verified:
        faults = count_of(len(story.proof.problems), "fault")
        return "Not verified", f"{faults}, {lines} read", BAD
    word = "Verified" if story.run.is_over else "Verified so far"
    return word, f"{lines} held against the rules", GOOD
