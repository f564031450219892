"""Journals in which everything happened that a journal can tell, played by the bot itself."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from fake_clock import FakeClock
from harness import ask, only_journal
from standins import KEY, Call, play

from bot.rules import State
from bot.service import Answer, Service

BUSY: Final = Answer(503, b"<html>busy</html>")
NOT_NOW: Final = Answer(200, b'{"ok": false, "reason": "not now", "legalActions": []}')
NO_TOKEN: Final = Answer(400, b'{"ok": false, "reason": "stateToken has expired"}')
Change = Callable[[dict[str, Any]], dict[str, Any]]
"""Of an answer of the service."""


class Troubled(Service):
    """The local service; some answers are taken from a list first."""

    def __init__(self, troubles: dict[int, list[Answer | Change]]) -> None:
        """Take troubles by the turn of the true answer, 0 for `init`.

        A trouble is another answer, or a change of the true one.
        """
        super().__init__(KEY)
        self._troubles = troubles

    def answer(self, method: str, target: str, body: bytes) -> Answer:
        true = super().answer(method, target, body)
        state = json.loads(true.body).get("state")
        if state is None or not (left := self._troubles.get(state["turn"])):
            return true
        trouble = left.pop(0)
        if isinstance(trouble, Answer):
            return trouble
        return Answer(200, json.dumps(trouble(json.loads(true.body))).encode())


def state_of(public: dict[str, Any]) -> State:
    """Read a whole public state."""
    return State(
        phase=public["phase"],
        board_number=public["boardNumber"],
        template_index=public["templateIndex"],
        garland=tuple(public["garland"]),
        moves_used=public["movesUsed"],
        move_budget=public["moveBudget"],
        leaves=public["leaves"],
        score=public["score"],
        cleared_boards=public["clearedBoards"],
        last_award=public["lastAward"],
        end_reason=public["endReason"],
        turn=public["turn"],
    )


def give_and_take(answer: dict[str, Any]) -> dict[str, Any]:
    """Answer from another state: a leaf less, some points more, a pennant turned."""
    state = state_of(answer["state"])
    turned = (-state.garland[0], *state.garland[1:])
    changed = replace(state, garland=turned, leaves=2, score=state.score + 5)
    return ask(Service(KEY), changed)


def more_points(answer: dict[str, Any]) -> dict[str, Any]:
    """Answer from a state with a point that the rules do not give."""
    state = state_of(answer["state"])
    return ask(Service(KEY), replace(state, score=state.score + 1))


def play_troubled(troubles: dict[int, list[Any]], *calls: Call, pause_s: float = 0) -> bytes:
    """Play sittings on a troubled service, with a pause between them; return the journal."""
    clock = FakeClock()
    service = Troubled(troubles)
    with tempfile.TemporaryDirectory() as folder:
        for call in calls:
            play(service, Path(folder), clock, call)
            clock.advance(pause_s)
        return only_journal(Path(folder)).read_bytes()


def laid_out_anew(answer: dict[str, Any]) -> dict[str, Any]:
    """Answer with the state under another name."""
    return {**answer, "state": None, "observation": answer["state"]}


@cache
def eventful() -> bytes:
    """Return the journal of a run with every event but `run.abandoned`, banked in the end.

    Its first sitting ends when the service contradicts the rules, in line 20.
    """
    troubles: dict[int, list[Any]] = {
        0: [BUSY, BUSY],
        5: [BUSY, NOT_NOW, BUSY],
        11: [give_and_take, give_and_take],
        20: [NOT_NOW],
        42: [laid_out_anew],
    }
    return play_troubled(troubles, Call(bank_at=1_000_000), Call(bank_at=1970))


@cache
def abandoned() -> bytes:
    """Return the journal of a run whose token was refused, again more than an hour later."""
    return play_troubled({4: [NO_TOKEN] * 4}, Call(), Call(), pause_s=3601)


@cache
def stopped() -> bytes:
    """Return the journal of a run that is suspended, since the service contradicts the rules."""
    return play_troubled({9: [more_points, more_points]}, Call(bank_at=1_000_000))


@cache
def plain() -> bytes:
    """Return the journal of a run of eight boards that nothing disturbed."""
    return play_troubled({}, Call(bank_at=1970))
