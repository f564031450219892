"""Where a run stands, in words that a person understands at once."""

from __future__ import annotations

from typing import Final, NamedTuple

from bot import rules
from bot.journal.events import RunAbandoned, RunEnded, RunSuspended
from bot.report.story import Story
from bot.report.text import count_of, duration, visible

GOOD: Final = "good"
OPEN: Final = "open"
BAD: Final = "bad"


class Standing(NamedTuple):
    """The state of a run."""

    state: str
    """`running`, `suspended`, `ended`, `abandoned`, `damaged` or `empty`."""
    label: str
    """In two or three words."""
    tone: str
    """`good`, `open` or `bad`."""


class Note(NamedTuple):
    """Something about the run that one must know to read its page."""

    tone: str
    text: str


def standing(story: Story, *, is_running: bool = False) -> Standing:
    """Return where a run stands.

    Args:
        story: the run.
        is_running: whether a bot plays it now, which its journal alone cannot tell.
    """
    if not story.is_verified:
        return Standing("damaged", "Damaged", BAD)
    if story.started is None:
        return Standing("empty", "Empty", OPEN)
    run = story.run
    if isinstance(story.last_event, RunAbandoned):
        return Standing("abandoned", "Abandoned", BAD)
    if isinstance(story.last_event, RunEnded) or run.state.phase == rules.ENDED:
        if run.state.end_reason != rules.BANKED:
            return Standing("ended", "Out of leaves", BAD)
        if run.is_as_asked:
            return Standing("ended", "Banked", GOOD)
        return Standing("ended", "Banked short", BAD)
    if is_running:
        return Standing("running", "Playing now", OPEN)
    return Standing("suspended", "Stopped", OPEN)


def lead(story: Story, now: Standing) -> str:
    """Return the one sentence that says how it went."""
    if now.state == "empty":
        return "Nothing was played."
    points = count_of(story.score, "point")
    after = f"after {count_of(story.cleared, 'board')} in {duration(story.timeline.played)} of play"
    goal = f"{story.run.goal.bank_at:,}"
    match now.label:
        case "Banked":
            return f"{points} banked, as asked ({goal}), {after}."
        case "Banked short":
            return f"{points} banked {after}, short of the {goal} that were asked for."
        case "Out of leaves":
            return f"The last leaf was spent {after}; {points} of {goal} were earned and are kept."
        case "Abandoned":
            return f"The run was given up {after}; {points} of {goal} were earned."
        case "Playing now":
            return f"{points} of {goal} so far, {after}; a bot plays on as this page is made."
        case "Stopped":
            return f"{points} of {goal} so far, {after}; the next call goes on with it."
        case _:
            return f"{points} of {goal} {after}, as far as the journal can be read."


def notes(story: Story, now: Standing) -> list[Note]:
    """Return what one must know to read the page."""
    told = []
    if story.problems:
        told.append(Note(BAD, _faults(story)))
    if story.proof.torn_bytes:
        written = count_of(story.proof.torn_bytes, "byte")
        told.append(
            Note(
                OPEN,
                f"The last line was never written whole ({written} of it), as a crash or a full "
                "disk leaves it. The page shows what stands before it.",
            )
        )
    if now.state == "empty":
        told.append(Note(OPEN, "The journal is empty: its first line was never written whole."))
    if now.state == "suspended":
        told.append(Note(OPEN, f"This run is not over. {_why_stopped(story)}"))
    if now.state == "running":
        told.append(Note(OPEN, "This run is not over: a bot plays it now."))
    if story.followed:
        told.append(
            Note(
                OPEN,
                f"In {count_of(story.followed, 'action')} the service contradicted the rules and "
                "its word was taken.",
            )
        )
    return told


def _faults(story: Story) -> str:
    first = story.problems[0]
    rest = "no more was read" if story.is_cut_short else "the page shows what can be read"
    return (
        f"The journal is damaged, or contradicts the rules, in "
        f"{count_of(len(story.problems), 'place')}; the first is line {first.line:,}: "
        f"{visible(first.text)}. {rest.capitalize()}."
    )


def _why_stopped(story: Story) -> str:
    last = story.last_event
    if isinstance(last, RunSuspended):
        return f"Its last sitting ended: {visible(last.reason)} (exit {last.exit_code})."
    return "Its last sitting ended without a word, as a kill or a power cut ends one."


def verdict(story: Story) -> tuple[str, str]:
    """Return whether the journal is proven, in a word, and more about it."""
    lines = count_of(story.lines, "line")
    if not story.is_verified:
        return "Not verified", f"{count_of(len(story.problems), 'fault')}, {lines} read"
    if not story.lines:
        return "Nothing to verify", "no line was read"
    follows = f"{lines} held against the rules"
    return ("Verified" if story.run.is_over else "Verified so far"), follows
