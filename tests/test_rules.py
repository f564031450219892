"""The rules, held against a second, independent writing of the game's page (`Model`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import FrozenInstanceError, astuple
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from bot import rules
from bot.errors import ActionError
from bot.rules import Action, State

DATA = Path(__file__).parent / "data"
FRESH_STATE: dict[str, Any] = json.loads((DATA / "fresh_state.json").read_text())
TEMPLATES: list[dict[str, Any]] = json.loads((DATA / "templates.json").read_text())
TOTALS: dict[str, int] = json.loads((DATA / "totals.json").read_text())
NUMBERS = [f"template {number}" for number in range(1, 9)]
TEMPLATE_OF_BOARD = [1, 2, 3, 4, 5, 6, 7, 8, *[5, 6, 7, 8] * 3]
BOARDS = [f"board {number}" for number in range(1, 21)]

FLIPS: list[dict[str, object]] = [{"type": "flip", "count": count} for count in range(1, 6)]
NEXT: dict[str, object] = {"type": "next"}
RETRY: dict[str, object] = {"type": "retry"}
RESTART: dict[str, object] = {"type": "restart"}
BANK: dict[str, object] = {"type": "bank"}
EVERY_ACTION = [*FLIPS, NEXT, RETRY, RESTART, BANK]
LEGAL_TYPES = {
    "playing": ("flip", "restart", "bank"),
    "cleared": ("next", "bank"),
    "retry": ("retry", "bank"),
    "ended": (),
}

NO_OBJECT = "an action is a JSON object"
NO_TYPE = '"type" is one of flip, next, retry, restart, bank'
NO_FLIP = 'a flip has "type" and "count", nothing else'
NO_COUNT = '"count" is an integer from 1 to 5'


class Model:
    """The game as the page tells it, in one mutable dictionary of public values."""

    def __init__(self) -> None:
        self.game: dict[str, Any] = {
            "version": 1,
            "leaves": 3,
            "score": 0,
            "clearedBoards": 0,
            "endReason": None,
            "turn": 0,
        }
        self.deal(1)

    def deal(self, board: int) -> None:
        index = board if board <= 8 else 5 + ((board - 9) % 4)
        template = TEMPLATES[index - 1]
        self.game |= {
            "phase": "playing",
            "boardNumber": board,
            "templateIndex": index,
            "n": template["n"],
            "par": template["par"],
            "garland": list(template["start"]),
            "target": list(range(1, template["n"] + 1)),
            "movesUsed": 0,
            "moveBudget": template["budget"],
            "remainingMoves": template["budget"],
            "lastAward": 0,
        }

    def legal(self) -> list[dict[str, object]]:
        return [
            action
            for action in EVERY_ACTION
            if action["type"] in LEGAL_TYPES[self.game["phase"]]
            and action.get("count", 1) in range(1, self.game["n"] + 1)
        ]

    def act(self, action: object) -> bool:
        """Do what the page says, and tell whether the action was accepted."""
        if not is_grammatical(action) or action not in self.legal():
            return False
        assert isinstance(action, dict)
        game = self.game
        game["turn"] += 1
        match action["type"]:
            case "flip":
                self.flip(int(action["count"]))
            case "next":
                self.deal(game["boardNumber"] + 1)
            case "retry":
                self.deal(game["boardNumber"])
            case "restart":
                if self.spend_leaf():
                    self.deal(game["boardNumber"])
            case "bank":
                game["phase"], game["endReason"] = "ended", "banked"
        return True

    def flip(self, count: int) -> None:
        game = self.game
        garland = game["garland"]
        garland[:count] = [-pennant for pennant in garland[:count][::-1]]
        game["movesUsed"] += 1
        game["remainingMoves"] -= 1
        if garland == game["target"]:
            game["phase"] = "cleared"
            game["lastAward"] = 100 + 25 * game["n"] + 10 * game["remainingMoves"]
            game["score"] += game["lastAward"]
            game["clearedBoards"] += 1
        elif game["remainingMoves"] == 0 and self.spend_leaf():
            game["phase"] = "retry"

    def spend_leaf(self) -> bool:
        left: int = self.game["leaves"] - 1
        self.game["leaves"] = left
        if left == 0:
            self.game["phase"], self.game["endReason"] = "ended", "out-of-lives"
        return left > 0


def is_grammatical(action: object) -> bool:
    """Say whether a JSON value is in the page's grammar; `3.0` is an integer there."""
    if not isinstance(action, dict):
        return False
    if action.get("type") in ("next", "retry", "restart", "bank"):
        return len(action) == 1
    if action.get("type") != "flip" or set(action) != {"type", "count"}:
        return False
    count: object = action["count"]
    return type(count) in {int, float} and count in {1, 2, 3, 4, 5}


def public(state: State) -> dict[str, object]:
    """Name the values of a state as the page does."""
    return {
        "version": rules.VERSION,
        "phase": state.phase,
        "boardNumber": state.board_number,
        "templateIndex": state.template_index,
        "n": state.n,
        "par": state.par,
        "garland": list(state.garland),
        "target": list(state.target),
        "movesUsed": state.moves_used,
        "moveBudget": state.move_budget,
        "remainingMoves": state.remaining_moves,
        "leaves": state.leaves,
        "score": state.score,
        "clearedBoards": state.cleared_boards,
        "lastAward": state.last_award,
        "endReason": state.end_reason,
        "turn": state.turn,
    }


def act(state: State, action: object) -> State:
    """Take an action as it comes from JSON."""
    return rules.apply(state, rules.parse_action(action))


def play(state: State, actions: Iterable[object]) -> State:
    for action in actions:
        state = act(state, action)
    return state


def changes(before: State, after: State) -> dict[str, object]:
    """Return the public values that differ."""
    old = public(before)
    return {name: value for name, value in public(after).items() if value != old[name]}


def turned(garland: tuple[int, ...], count: int) -> tuple[int, ...]:
    return (*(-pennant for pennant in garland[:count][::-1]), *garland[count:])


@cache
def distances(n: int) -> dict[tuple[int, ...], int]:
    """Return the distance of every garland of n pennants, by the tests' own search."""
    found = {tuple(range(1, n + 1)): 0}
    queue = list(found)
    for garland in queue:
        for count in range(1, n + 1):
            near = turned(garland, count)
            if near not in found:
                found[near] = found[garland] + 1
                queue.append(near)
    return found


def clearing_flips(garland: tuple[int, ...], length: int) -> list[dict[str, object]] | None:
    """Find flips that meet the target at the last of exactly `length`, or None."""
    far = distances(len(garland))
    if far[garland] == 0 or length == 0:
        return [] if far[garland] == length else None
    for count in range(1, len(garland) + 1):
        near = turned(garland, count)
        if far[near] < length:
            rest = clearing_flips(near, length - 1)
            if rest is not None:
                return [FLIPS[count - 1], *rest]
    return None


def clear(state: State, *, extra: int = 0) -> State:
    """Clear the board with so many flips more than its par."""
    flips = clearing_flips(state.garland, state.par + extra)
    assert flips is not None
    return play(state, flips)


def reach_board(number: int) -> State:
    """Return the start of a board, after best play up to it."""
    state = rules.fresh()
    while state.board_number < number:
        state = act(clear(state), NEXT)
    return state


def exhaust(state: State) -> State:
    """Waste the whole budget of a board of three, and leave another garland than its start."""
    return play(state, [FLIPS[2], *[FLIPS[0]] * (state.remaining_moves - 1)])


def states_by_phase() -> dict[str, State]:
    fresh = rules.fresh()
    return {
        "playing": fresh,
        "playing a board of four": reach_board(3),
        "playing a board of five": reach_board(5),
        "cleared": clear(fresh),
        "retry": exhaust(fresh),
        "ended by bank": act(fresh, BANK),
        "ended by leaves": play(fresh, [RESTART] * 3),
    }


STATES = states_by_phase()


# The beginning and the templates


def test_a_fresh_run_has_every_value_of_the_page() -> None:
    assert public(rules.fresh()) == FRESH_STATE


@pytest.mark.parametrize("number", range(1, 9), ids=NUMBERS)
def test_each_template_is_the_fixture_of_the_page(number: int) -> None:
    template = rules.template(number)
    assert {
        "start": list(template.start),
        "n": len(template.start),
        "par": template.par,
        "budget": template.budget,
    } == TEMPLATES[number - 1]


@pytest.mark.parametrize(
    ("board", "template"), list(enumerate(TEMPLATE_OF_BOARD, start=1)), ids=BOARDS
)
def test_each_board_is_made_of_its_template(board: int, template: int) -> None:
    assert rules.template_index(board) == template


def test_the_boards_come_in_order_with_full_budgets() -> None:
    state = rules.fresh()
    seen = []
    for _ in range(20):
        seen.append((state.template_index, list(state.garland), state.move_budget))
        state = act(clear(state), NEXT)
    assert seen == [
        (index, TEMPLATES[index - 1]["start"], TEMPLATES[index - 1]["budget"])
        for index in TEMPLATE_OF_BOARD
    ]


# Scoring


def test_best_play_gives_the_totals_of_the_page_without_an_end() -> None:
    solutions = [clearing_flips(tuple(t["start"]), t["par"]) for t in TEMPLATES]
    state = rules.fresh()
    totals = {}
    while state.cleared_boards < 4000:
        if state.phase == "cleared":
            state = act(state, NEXT)
        state = play(state, solutions[state.template_index - 1] or [])
        if str(state.cleared_boards) in TOTALS:
            totals[str(state.cleared_boards)] = state.score
    assert totals == TOTALS
    assert (state.phase, state.leaves) == ("cleared", 3)


@pytest.mark.parametrize(
    ("board", "points"),
    [(1, 215), (2, 215), (3, 240), (4, 240), *[(board, 265) for board in range(5, 10)]],
    ids=BOARDS[:9],
)
def test_an_optimal_clear_earns_the_award_of_its_length(board: int, points: int) -> None:
    start = reach_board(board)
    state = clear(start)
    assert (state.phase, state.last_award, state.score - start.score) == ("cleared", points, points)


@pytest.mark.parametrize(
    ("board", "points"), [(1, 175), (3, 200), (5, 225)], ids=["three", "four", "five pennants"]
)
def test_a_last_move_clear_is_a_clear_and_costs_no_leaf(board: int, points: int) -> None:
    state = clear(reach_board(board), extra=4)
    assert (state.phase, state.last_award, state.leaves) == ("cleared", points, 3)
    assert (state.remaining_moves, state.moves_used) == (0, state.move_budget)


@pytest.mark.parametrize(
    ("n", "remaining", "points"),
    [(3, 4, 215), (4, 4, 240), (5, 4, 265), (3, 0, 175), (5, 0, 225), (4, 2, 220)],
    ids=str,
)
def test_an_award_follows_the_formula_of_the_page(n: int, remaining: int, points: int) -> None:
    assert rules.award(n, remaining) == points


# What each action does


def test_a_flip_costs_a_move_and_a_turn() -> None:
    assert changes(rules.fresh(), act(rules.fresh(), FLIPS[2])) == {
        "garland": [-3, 1, 2],
        "movesUsed": 1,
        "remainingMoves": 4,
        "turn": 1,
    }


def test_flipping_there_and_back_restores_the_garland_and_costs_two_moves() -> None:
    assert changes(rules.fresh(), play(rules.fresh(), [FLIPS[2]] * 2)) == {
        "movesUsed": 2,
        "remainingMoves": 3,
        "turn": 2,
    }


def test_a_clear_awards_once_and_waits_for_next() -> None:
    assert changes(rules.fresh(), act(rules.fresh(), FLIPS[1])) == {
        "phase": "cleared",
        "garland": [1, 2, 3],
        "movesUsed": 1,
        "remainingMoves": 4,
        "score": 215,
        "clearedBoards": 1,
        "lastAward": 215,
        "turn": 1,
    }


def test_next_deals_the_board_after_and_keeps_the_points() -> None:
    cleared = STATES["cleared"]
    assert changes(cleared, act(cleared, NEXT)) == {
        "phase": "playing",
        "boardNumber": 2,
        "templateIndex": 2,
        "garland": [3, -2, -1],
        "par": 2,
        "movesUsed": 0,
        "moveBudget": 6,
        "remainingMoves": 6,
        "lastAward": 0,
        "turn": 2,
    }


def test_exhaustion_spends_a_leaf_and_keeps_the_failed_garland() -> None:
    assert changes(rules.fresh(), STATES["retry"]) == {
        "phase": "retry",
        "garland": [-3, 1, 2],
        "movesUsed": 5,
        "remainingMoves": 0,
        "leaves": 2,
        "turn": 5,
    }


def test_a_retry_restores_the_same_start_for_free() -> None:
    failed = exhaust(reach_board(2))
    assert changes(failed, act(failed, RETRY)) == {
        "phase": "playing",
        "garland": [3, -2, -1],
        "movesUsed": 0,
        "remainingMoves": 6,
        "turn": failed.turn + 1,
    }


def test_a_restart_spends_a_leaf_and_restores_the_same_start() -> None:
    begun = play(reach_board(2), FLIPS[:2])
    assert changes(begun, act(begun, RESTART)) == {
        "garland": [3, -2, -1],
        "movesUsed": 0,
        "remainingMoves": 6,
        "leaves": 2,
        "turn": begun.turn + 1,
    }


def test_a_restart_of_an_untouched_board_spends_a_leaf_too() -> None:
    assert changes(rules.fresh(), act(rules.fresh(), RESTART)) == {"leaves": 2, "turn": 1}


def test_the_third_exhaustion_ends_the_run_with_its_points() -> None:
    state = reach_board(2)
    for _ in range(2):
        state = act(exhaust(state), RETRY)
    assert (state.leaves, state.phase) == (1, "playing")
    assert changes(state, exhaust(state)) == {
        "phase": "ended",
        "endReason": "out-of-lives",
        "garland": [-1, 2, -3],
        "movesUsed": 6,
        "remainingMoves": 0,
        "leaves": 0,
        "turn": state.turn + 6,
    }


def test_a_restart_on_the_last_leaf_ends_the_run_with_its_points() -> None:
    state = play(reach_board(2), [RESTART] * 2)
    ended = act(state, RESTART)
    assert (ended.phase, ended.end_reason, ended.leaves) == ("ended", "out-of-lives", 0)
    assert (ended.score, ended.cleared_boards, ended.turn) == (215, 1, state.turn + 1)


def test_a_last_move_clear_on_the_last_leaf_goes_on() -> None:
    state = clear(play(rules.fresh(), [RESTART] * 2), extra=4)
    assert (state.phase, state.leaves, state.end_reason) == ("cleared", 1, None)
    assert act(state, NEXT).leaves == 1


@pytest.mark.parametrize(
    "state",
    [*[STATES[name] for name in ("playing", "cleared", "retry")], play(reach_board(5), FLIPS)],
    ids=["playing at score 0", "cleared", "retry", "in the middle of a board"],
)
def test_a_bank_ends_the_run_in_every_live_phase_and_costs_nothing(state: State) -> None:
    assert changes(state, act(state, BANK)) == {
        "phase": "ended",
        "endReason": "banked",
        "turn": state.turn + 1,
    }


# What is legal


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("playing", [*FLIPS[:3], RESTART, BANK]),
        ("playing a board of four", [*FLIPS[:4], RESTART, BANK]),
        ("playing a board of five", [*FLIPS, RESTART, BANK]),
        ("cleared", [NEXT, BANK]),
        ("retry", [RETRY, BANK]),
        ("ended by bank", []),
        ("ended by leaves", []),
    ],
    ids=list(STATES),
)
def test_each_phase_permits_its_actions(name: str, expected: list[dict[str, object]]) -> None:
    assert [action.to_json() for action in rules.legal_actions(STATES[name])] == expected


@pytest.mark.parametrize("action", EVERY_ACTION, ids=json.dumps)
@pytest.mark.parametrize("name", STATES, ids=str)
def test_an_action_is_accepted_where_it_is_legal_and_refused_elsewhere(
    name: str, action: dict[str, object]
) -> None:
    state = STATES[name]
    before = deepcopy(public(state))
    if action in [legal.to_json() for legal in rules.legal_actions(state)]:
        assert act(state, action).turn == state.turn + 1
    else:
        with pytest.raises(ActionError, match=r"^\w+( \d)? is (not legal in|more than)"):
            act(state, action)
    assert public(state) == before


@pytest.mark.parametrize(
    ("name", "action", "message"),
    [
        ("playing", FLIPS[3], "flip 4 is more than the 3 pennants of this garland"),
        (
            "playing a board of four",
            FLIPS[4],
            "flip 5 is more than the 4 pennants of this garland",
        ),
        ("playing", NEXT, "next is not legal in phase playing"),
        ("playing", RETRY, "retry is not legal in phase playing"),
        ("cleared", FLIPS[0], "flip 1 is not legal in phase cleared"),
        ("cleared", RESTART, "restart is not legal in phase cleared"),
        ("retry", FLIPS[4], "flip 5 is not legal in phase retry"),
        ("retry", RESTART, "restart is not legal in phase retry"),
        ("ended by bank", BANK, "bank is not legal in phase ended"),
        ("ended by leaves", RETRY, "retry is not legal in phase ended"),
    ],
    ids=str,
)
def test_a_refusal_says_why_the_action_is_illegal(
    name: str, action: dict[str, object], message: str
) -> None:
    with pytest.raises(ActionError) as caught:
        act(STATES[name], action)
    assert str(caught.value) == message


@pytest.mark.parametrize("state", STATES.values(), ids=list(STATES))
def test_a_state_cannot_be_changed_in_place(state: State) -> None:
    with pytest.raises(FrozenInstanceError):
        state.score = 1_000_000  # type: ignore[misc]  # that it is refused is the point
    hash(state)


# The grammar

BAD_ACTIONS: dict[str, tuple[str, str]] = {
    "null": ("null", NO_OBJECT),
    "a list": ('["flip", 3]', NO_OBJECT),
    "a list of an action": ('[{"type": "next"}]', NO_OBJECT),
    "a text": ('"next"', NO_OBJECT),
    "a number": ("3", NO_OBJECT),
    "true": ("true", NO_OBJECT),
    "nothing in it": ("{}", NO_TYPE),
    "no type": ('{"count": 3}', NO_TYPE),
    "null type": ('{"type": null}', NO_TYPE),
    "unknown type": ('{"type": "undo"}', NO_TYPE),
    "empty type": ('{"type": ""}', NO_TYPE),
    "type in capitals": ('{"type": "FLIP", "count": 3}', NO_TYPE),
    "type with a blank": ('{"type": "next "}', NO_TYPE),
    "number as type": ('{"type": 1}', NO_TYPE),
    "true as type": ('{"type": true}', NO_TYPE),
    "list as type": ('{"type": ["next"]}', NO_TYPE),
    "object as type": ('{"type": {"type": "next"}}', NO_TYPE),
    "key in capitals": ('{"Type": "next"}', NO_TYPE),
    "nested action": ('{"action": {"type": "next"}}', NO_TYPE),
    "flip without count": ('{"type": "flip"}', NO_FLIP),
    "flip with an extra field": ('{"type": "flip", "count": 3, "turn": 0}', NO_FLIP),
    "flip with another field": ('{"type": "flip", "Count": 3}', NO_FLIP),
    "fractional count": ('{"type": "flip", "count": 3.5}', NO_COUNT),
    "nearly integral count": ('{"type": "flip", "count": 3.0000000001}', NO_COUNT),
    "infinite count": ('{"type": "flip", "count": 1e999}', NO_COUNT),
    "negative infinite count": ('{"type": "flip", "count": -1e999}', NO_COUNT),
    "NaN count": ('{"type": "flip", "count": NaN}', NO_COUNT),
    "text count": ('{"type": "flip", "count": "3"}', NO_COUNT),
    "true count": ('{"type": "flip", "count": true}', NO_COUNT),
    "false count": ('{"type": "flip", "count": false}', NO_COUNT),
    "null count": ('{"type": "flip", "count": null}', NO_COUNT),
    "list count": ('{"type": "flip", "count": [3]}', NO_COUNT),
    "object count": ('{"type": "flip", "count": {"count": 3}}', NO_COUNT),
    "zero": ('{"type": "flip", "count": 0}', NO_COUNT),
    "minus zero": ('{"type": "flip", "count": -0.0}', NO_COUNT),
    "minus one": ('{"type": "flip", "count": -1}', NO_COUNT),
    "six": ('{"type": "flip", "count": 6}', NO_COUNT),
    "six point nothing": ('{"type": "flip", "count": 6.0}', NO_COUNT),
    "a huge integer": (f'{{"type": "flip", "count": 1{"0" * 4000}}}', NO_COUNT),
    "a huge number": ('{"type": "flip", "count": 1e308}', NO_COUNT),
    "next with count": ('{"type": "next", "count": 1}', 'next has "type", nothing else'),
    "retry with count": ('{"type": "retry", "count": null}', 'retry has "type", nothing else'),
    "restart and sure": (
        '{"type": "restart", "confirm": true}',
        'restart has "type", nothing else',
    ),
    "bank with score": ('{"type": "bank", "score": 5}', 'bank has "type", nothing else'),
}


@pytest.mark.parametrize(("text", "message"), list(BAD_ACTIONS.values()), ids=list(BAD_ACTIONS))
def test_a_value_outside_the_grammar_is_refused_with_the_reason(text: str, message: str) -> None:
    with pytest.raises(ActionError) as caught:
        rules.parse_action(json.loads(text))
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "value", [("flip", 3), Action("next"), {("type", "next")}, [10**5000]], ids=type
)
def test_a_value_that_is_no_json_object_is_refused_too(value: object) -> None:
    with pytest.raises(ActionError, match=NO_OBJECT):
        rules.parse_action(value)


def test_a_count_too_long_to_print_is_refused_like_any_other() -> None:
    with pytest.raises(ActionError, match=NO_COUNT):
        rules.parse_action({"type": "flip", "count": 10**5000})


@pytest.mark.parametrize("action", EVERY_ACTION, ids=json.dumps)
def test_an_action_of_the_grammar_reads_back_as_it_is_written(action: dict[str, object]) -> None:
    assert rules.parse_action(action).to_json() == action


@pytest.mark.parametrize("text", ["3.0", "3e0", "0.3e1", "30e-1"], ids=str)
def test_a_number_with_an_integral_value_is_a_count(text: str) -> None:
    action = rules.parse_action(json.loads(f'{{"count": {text}, "type": "flip"}}'))
    assert action == Action("flip", 3)
    assert json.dumps(action.to_json()) == '{"type": "flip", "count": 3}'


@pytest.mark.parametrize(
    ("action", "words"), [(FLIPS[2], "flip 3"), (NEXT, "next")], ids=["flip", "next"]
)
def test_an_action_is_named_as_a_person_would(action: dict[str, object], words: str) -> None:
    assert str(rules.parse_action(action)) == words


# Any play at all

scalars = (
    st.none() | st.booleans() | st.integers(-1, 7) | st.floats() | st.sampled_from(["3", "flip"])
)
counts = scalars | st.integers() | st.integers(0, 6).map(float) | st.lists(scalars, max_size=2)
types: st.SearchStrategy[object] = (
    st.sampled_from(["flip", "next", "retry", "restart", "bank"])
    | st.sampled_from(["undo", "Flip", "", "hint", "tick"])
    | scalars
    | st.lists(scalars, max_size=1)
)
near_actions: st.SearchStrategy[object] = (
    st.fixed_dictionaries({"type": types}, optional={"count": counts, "seed": scalars})
    | st.fixed_dictionaries({"type": st.just("flip"), "count": counts})
    | st.dictionaries(st.sampled_from(["type", "count"]), types | counts)
    | scalars
    | st.lists(st.sampled_from(EVERY_ACTION), max_size=2)
)


@given(st.sampled_from(list(STATES)), near_actions)
@settings(deadline=None, max_examples=200)
def test_a_rejected_action_changes_nothing(name: str, action: object) -> None:
    state = STATES[name]
    before = astuple(state)
    try:
        after = act(state, action)
    except ActionError:
        after = state
    else:
        assert is_grammatical(action)
    assert astuple(state) == before
    assert (after.turn == state.turn) == (after == state)


class Play(RuleBasedStateMachine):
    """Plays anything, on the bot's rules and on the model, and never lets them part."""

    def __init__(self) -> None:
        super().__init__()
        self.state = rules.fresh()
        self.model = Model()
        self.accepted = 0

    @initialize(boards=st.integers(0, 10))
    def start_anywhere(self, boards: int) -> None:
        for _ in range(boards):
            self.clear_the_board(extra=0)

    def send(self, action: object) -> None:
        before, kept = self.state, astuple(self.state)
        if self.model.act(action):
            self.state = act(before, action)
            self.accepted += 1
            self.compare(before, self.state)
        else:
            with pytest.raises(ActionError):
                act(before, action)
        assert astuple(before) == kept

    def compare(self, before: State, after: State) -> None:
        """Hold what one accepted action may do at all."""
        cleared = after.cleared_boards - before.cleared_boards
        assert cleared == (after.phase == "cleared")
        assert after.score == before.score + after.last_award * cleared
        assert after.score >= before.score
        assert before.leaves - after.leaves in {0, 1}
        assert after.board_number - before.board_number in {0, 1}

    @rule(action=st.sampled_from([*EVERY_ACTION[:-1], *FLIPS]))
    def any_action(self, action: object) -> None:
        self.send(action)

    @rule(action=near_actions.filter(lambda action: action != BANK))
    def any_value(self, action: object) -> None:
        self.send(action)

    @rule(extra=st.integers(0, 4))
    def clear_the_board(self, extra: int) -> None:
        if self.state.phase == "playing":
            flips = clearing_flips(self.state.garland, self.model.game["par"] + extra) or []
            for action in flips[: self.state.remaining_moves]:
                self.send(action)
        self.send(NEXT)

    @rule(counts=st.lists(st.integers(1, 5), min_size=11, max_size=11))
    def waste_the_budget(self, counts: list[int]) -> None:
        for count in counts:
            self.send(FLIPS[count - 1])
        self.send(RETRY)

    @precondition(lambda self: self.accepted > 30)
    @rule()
    def bank(self) -> None:
        self.send(BANK)

    @invariant()
    def the_public_state_is_that_of_the_model(self) -> None:
        assert public(self.state) == self.model.game

    @invariant()
    def the_legal_actions_are_those_of_the_model(self) -> None:
        assert [a.to_json() for a in rules.legal_actions(self.state)] == self.model.legal()

    @invariant()
    def the_turn_counts_accepted_actions(self) -> None:
        assert self.state.turn == self.accepted

    @invariant()
    def the_garland_is_a_signed_permutation(self) -> None:
        assert self.state.garland in distances(self.state.n)

    @invariant()
    def the_moves_are_within_the_budget(self) -> None:
        assert 0 <= self.state.remaining_moves <= self.state.move_budget == self.state.par + 4

    @invariant()
    def the_phase_and_the_end_reason_agree(self) -> None:
        state = self.state
        assert state.phase in rules.PHASES
        assert (state.phase == "ended") == (state.end_reason in rules.END_REASONS)
        assert (state.end_reason == "out-of-lives") == (state.leaves == 0)
        assert (state.garland == state.target) == (state.last_award > 0)

    def teardown(self) -> None:
        """Bank from wherever the play has led, and try everything after the end."""
        for action in [BANK, *EVERY_ACTION]:
            self.send(action)
        assert (self.state.phase, self.model.legal()) == ("ended", [])


@pytest.mark.slow
def test_any_play_of_legal_and_illegal_actions_agrees_with_the_page() -> None:
    run: Callable[..., None] = run_state_machine_as_test
    run(Play, settings=settings(deadline=None, max_examples=60, stateful_step_count=40))
