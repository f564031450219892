"""The moves of a run, one after the other, as its journal is verified."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from bot import rules
from bot.journal.events import ActionTaken
from bot.rules import Action, State
from bot.verify import Verification


class Move(NamedTuple):
    """One action of a run, with all that is needed to show it or to send it again."""

    line: int
    """Of the journal, from 1."""
    seq: int
    token: str
    """The one that it was sent with."""
    action: Action
    before: State
    after: State


def moves(verification: Verification) -> Iterator[Move]:
    """Yield the actions of a journal that was not read yet, up to the first problem.

    Raises:
        NotAJournal: the file cannot be read, or is no journal.
    """
    run = verification.run
    token, before = run.token, run.state
    for entry in verification.steps():
        if not verification.is_verified:
            return
        if isinstance(entry.event, ActionTaken):
            action = rules.parse_action(entry.event.action)
            yield Move(entry.number, entry.seq, token, action, before, run.state)
        token, before = run.token, run.state
