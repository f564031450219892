"""Action lines that need no reading: to the byte what the writer makes of the rules' word.

Nearly every line of a run is an action that was answered at once, and the same few boards
come round again and again. `Walk` remembers what each action does to each of them, and
compares the text of a line with the text that it has to be. A line that differs in anything is
not wrong for that: it is read and checked field by field, by `reader` and `ledger`.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Final, NamedTuple

from bot import rules
from bot.errors import ActionError
from bot.rules import State

MAX_PLACES: Final = 10_000
"""Places that are remembered; a run of best play knows some forty."""

_LINE: Final = re.compile(
    rb'\{"seq":(\d+),"ts":"(\d{4}-\d\d-\d\d)(T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{3}Z)",'
    rb'"event":"action","turn":(\d+),"action":(\{[^{}]+\}),"token":"([ !#-\[\]-~]+)",'
    rb'(.+),"attempts":1,"elapsed_ms":(?:0|[1-9]\d{0,11})\.\d{1,6}\}\r?\n'
)
"""Seq, day, time of day, turn, action, token, and the fields that the rules fix."""


class Place:
    """A state without what only adds up: no turns, no points, boards counted within the cycle."""

    __slots__ = ("state", "steps")

    def __init__(self, state: State) -> None:
        """Begin with nothing known of what leads on."""
        self.state = state
        self.steps: dict[bytes, Step] = {}
        """By the text of the action."""


class Step(NamedTuple):
    """What an action does at a place."""

    place: Place
    """Where it leads."""
    award: int
    boards: int
    """Boards that it goes forward."""
    clears: int
    is_flip: bool
    text: bytes
    """The fields of its line that the rules fix, but for the score and the board."""


class Plain(NamedTuple):
    """A line that was as it had to be."""

    ts: str
    token: str
    is_flip: bool
    clears: int


class Walk:
    """A state on the move: what repeats is looked up, what adds up is counted."""

    def __init__(self, state: State) -> None:
        """Begin at `state`."""
        self._places: dict[State, Place] = {}
        self._place = self._find(state)
        self._board = state.board_number
        self._turn = state.turn
        self._cleared = state.cleared_boards
        self.score = state.score

    @property
    def state(self) -> State:
        """Where it is."""
        return replace(
            self._place.state,
            board_number=self._board,
            score=self.score,
            cleared_boards=self._cleared,
            turn=self._turn,
        )

    def stand(self, state: State) -> None:
        """Go to `state`, from wherever it was."""
        self._place = self._find(state)
        self._board = state.board_number
        self._turn = state.turn
        self._cleared = state.cleared_boards
        self.score = state.score

    def take(self, line: bytes, seq: int, day: bytes) -> Plain | None:
        """Follow an action line numbered `seq` if it is plain and of this day, else stay."""
        match = _LINE.fullmatch(line)
        if match is None:
            return None
        logged_seq, logged_day, time, turn, action, token, rest = match.groups()
        step = self._place.steps.get(action) or self._explore(action)
        if (
            step is None
            or rest != step.text % (self.score + step.award, self._board + step.boards)
            or turn != b"%d" % (self._turn + 1)
            or logged_seq != b"%d" % seq
            or logged_day != day
        ):
            return None
        self._place = step.place
        self._board += step.boards
        self._turn += 1
        self._cleared += step.clears
        self.score += step.award
        return Plain((day + time).decode(), token.decode(), step.is_flip, step.clears)

    def _find(self, state: State) -> Place:
        """Return the place of a state, as new where it was not known."""
        board = rules.template_index(state.board_number)  # the first one with the same to come
        folded = replace(state, board_number=board, score=0, cleared_boards=0, turn=0)
        if len(self._places) > MAX_PLACES:
            self._places.clear()
        return self._places.setdefault(folded, Place(folded))

    def _explore(self, text: bytes) -> Step | None:
        """Find out what an action does here; None where it is not legal, or ends the run."""
        before = self._place.state
        try:
            action = rules.parse_action(json.loads(text))
            after = rules.apply(before, action)
        except (ValueError, RecursionError, ActionError):
            return None
        if after.phase == rules.ENDED or text != _encode(action.to_json()):
            return None
        garland = ",".join(map(str, after.garland))
        step = Step(
            place=self._find(after),
            award=after.score,
            boards=after.board_number - before.board_number,
            clears=after.cleared_boards,
            is_flip=action.count is not None,
            text=(
                f'"award":{after.score},"score":%d,"phase":"{after.phase}","board":%d,'
                f'"template":{after.template_index},"garland":[{garland}],'
                f'"moves_used":{after.moves_used},"move_budget":{after.move_budget},'
                f'"leaves":{after.leaves}'
            ).encode(),
        )
        self._place.steps[text] = step
        return step


def _encode(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
