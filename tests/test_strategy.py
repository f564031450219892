"""The strategy, held against exhaustive searches of the tests' own."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from bot import rules
from bot.garland import Garland, flip
from bot.rules import BANK, FLIPS, NEXT_BOARD, RESTART, RETRY_BOARD, Action, State
from bot.strategy import (
    AT_LEAST,
    AT_MOST,
    BANK_RULES,
    EXACTLY,
    Goal,
    decide,
    is_met,
    is_out_of_reach,
    is_reachable,
    nearest_reachable,
)

DATA = Path(__file__).parent / "data"
TEMPLATES = json.loads((DATA / "templates.json").read_text())
TOTALS: dict[str, int] = json.loads((DATA / "totals.json").read_text())
LEAST_AWARD = 175
"""Points of the poorest clear of the game: three pennants with the last move."""

property_based = settings(deadline=None, max_examples=100)


# The tests' own knowledge of the game


@cache
def distances(n: int) -> dict[Garland, int]:
    found = {tuple(range(1, n + 1)): 0}
    queue = deque(found)
    while queue:
        garland = queue.popleft()
        for count in range(1, n + 1):
            near = flip(garland, count)
            if near not in found:
                found[near] = found[garland] + 1
                queue.append(near)
    return found


def is_clearable(state: State) -> bool:
    """Tell whether the board at hand can be cleared without spending a leaf."""
    return state.phase != rules.PLAYING or distances(state.n)[state.garland] <= (
        state.remaining_moves
    )


def best_scores(boards: int) -> list[int]:
    """Return the scores of best play: 0, then that after each board."""
    scores = [0]
    for board in range(1, boards + 1):
        n = TEMPLATES[rules.template_index(board) - 1]["n"]
        scores.append(scores[-1] + 100 + 25 * n + 40)
    return scores


BEST_SCORES = best_scores(4000)


@cache
def clearing_lengths(template: int) -> list[int]:
    """Return each number of flips that can clear a template, by whole layers of garlands."""
    budget: int = TEMPLATES[template - 1]["budget"]
    layer = {tuple(TEMPLATES[template - 1]["start"])}
    lengths = []
    for length in range(1, budget + 1):
        layer = {flip(g, count) for g in layer for count in range(1, len(g) + 1)}
        solved = {garland for garland in layer if garland == tuple(range(1, len(garland) + 1))}
        layer -= solved
        lengths += [length] if solved else []
    return lengths


@cache
def fewest_actions(limit: int) -> dict[int, int]:
    """Return the fewest actions to bank each score up to a limit, board after board."""
    fewest = {0: 1}
    ways = {0: 0}
    board = 0
    while ways:
        board += 1
        template = rules.template_index(board)
        n, budget = TEMPLATES[template - 1]["n"], TEMPLATES[template - 1]["budget"]
        further: dict[int, int] = {}
        for score, actions in ways.items():
            for length in clearing_lengths(template):
                total = score + 100 + 25 * n + 10 * (budget - length)
                if total <= limit:
                    taken = actions + length + (board > 1)
                    further[total] = min(further.get(total, taken), taken)
        for score, actions in further.items():
            fewest[score] = min(fewest.get(score, actions + 1), actions + 1)
        ways = further
    return fewest


class Search(NamedTuple):
    """Every state of all play up to a number of points."""

    turns: dict[State, int]
    """The fewest actions to each live state; its own `turn` is set to 0."""
    sources: dict[State, list[State]]
    """The states that lead to each by one action."""


@cache
def explore(limit: int) -> Search:
    """Search all play, good and bad, that can still bank at most `limit` points."""
    turns = {rules.fresh(): 0}
    sources: dict[State, list[State]] = defaultdict(list)
    queue = deque(turns)
    while queue:
        state = queue.popleft()
        for action in rules.legal_actions(state):
            if action == NEXT_BOARD and state.score + LEAST_AWARD > limit:
                continue
            after = replace(rules.apply(state, action), turn=0)
            if after.phase == rules.ENDED or after.score > limit:
                continue
            sources[after].append(state)
            if after not in turns:
                turns[after] = turns[state] + 1
                queue.append(after)
    return Search(turns, sources)


def actions_to_bank(search: Search, score: int) -> dict[State, int]:
    """Return the fewest actions to a bank of exactly `score`, for each state that can."""
    fewest = {state: 1 for state in search.turns if state.score == score}
    queue = deque(fewest)
    while queue:
        state = queue.popleft()
        for source in search.sources[state]:
            if source not in fewest:
                fewest[source] = fewest[state] + 1
                queue.append(source)
    return fewest


def play(state: State, actions: Iterable[Action]) -> State:
    for action in actions:
        state = rules.apply(state, action)
    return state


class Course(NamedTuple):
    """What came of following the strategy."""

    end: State
    last: State
    """The state in which the run was banked."""
    actions: int


def follow(state: State, goal: Goal, most: int = 30_000) -> Course:
    """Take the strategy's actions to the end of the run, which has to come."""
    for actions in range(1, most + 1):
        after = rules.apply(state, decide(state, goal))
        if after.phase == rules.ENDED:
            return Course(after, state, actions)
        state = after
    raise AssertionError(f"{goal} is not banked after {most} actions, at {state}")


def play_well(state: State) -> State:
    """Take one action towards the next award."""
    if state.phase == rules.CLEARED:
        return rules.apply(state, NEXT_BOARD)
    if state.phase == rules.RETRY:
        return rules.apply(state, RETRY_BOARD)
    far = distances(state.n)
    return rules.apply(
        state, min(FLIPS[: state.n], key=lambda action: far[flip(state.garland, action.count or 0)])
    )


def reach_board(number: int) -> State:
    """Return the start of a board after best play."""
    state = rules.fresh()
    while state.board_number < number:
        state = play_well(state)
    return state


def cleared_boards(number: int) -> State:
    """Return the state right after best play has cleared so many boards."""
    state = reach_board(number)
    while state.phase != rules.CLEARED:
        state = play_well(state)
    return state


def beyond_clearing(leaves: int) -> State:
    """Return board 2 with one move left, two flips or more from its target."""
    state = play(reach_board(2), [RESTART] * (3 - leaves))
    state = play(state, [*[FLIPS[0]] * 4, FLIPS[1]])
    assert not is_clearable(state)
    return state


def failed_board() -> State:
    """Return board 2 in phase retry."""
    return play(beyond_clearing(3), [FLIPS[0]])


# From a fresh run


@pytest.mark.slow
@pytest.mark.parametrize(
    ("goal", "score", "actions"),
    [
        (Goal(1_000_000), 1_000_225, 26_410),
        (Goal(1_000_000, EXACTLY), 1_000_000, 26_467),
        (Goal(1_000_000, AT_MOST), 999_960, 26_402),
        (Goal(21_050, AT_LEAST), 21_050, 546),
        (Goal(21_050, AT_MOST), 21_050, 546),
        (Goal(21_050, EXACTLY), 21_050, 546),
        (Goal(0, AT_LEAST), 0, 1),
        (Goal(0, AT_MOST), 0, 1),
        (Goal(0, EXACTLY), 0, 1),
        (Goal(1, AT_LEAST), 215, 2),
        (Goal(214, AT_MOST), 0, 1),
        (Goal(215, EXACTLY), 215, 2),
    ],
    ids=lambda value: f"{value.rule} {value.bank_at}" if isinstance(value, Goal) else str(value),
)
def test_a_fresh_run_ends_on_its_figures_with_every_leaf(
    goal: Goal, score: int, actions: int
) -> None:
    course = follow(rules.fresh(), goal)
    assert (course.end.score, course.actions) == (score, actions)
    assert (course.end.end_reason, course.end.leaves) == ("banked", 3)
    assert is_met(course.last, goal)


@pytest.mark.parametrize("bank_at", [215, 2_225, 3_000, 20_000], ids=str)
def test_exactly_lands_on_the_number_itself(bank_at: int) -> None:
    course = follow(rules.fresh(), Goal(bank_at, EXACTLY))
    assert (course.end.score, course.end.leaves) == (bank_at, 3)
    assert course.actions == fewest_actions(20_000)[bank_at]


@pytest.mark.parametrize(
    ("boards", "total"), [(int(boards), total) for boards, total in TOTALS.items()], ids=TOTALS
)
def test_each_total_of_the_page_is_reached_with_its_boards(boards: int, total: int) -> None:
    course = follow(rules.fresh(), Goal(total), most=28_000)
    assert (course.end.score, course.end.cleared_boards) == (total, boards)


@given(st.integers(0, 30_000))
@example(215)
@example(214)
@property_based
def test_at_least_banks_at_the_first_score_of_best_play_that_reaches(bank_at: int) -> None:
    course = follow(rules.fresh(), Goal(bank_at, AT_LEAST))
    assert course.end.score == min(score for score in BEST_SCORES if score >= bank_at)


@given(st.integers(0, 30_000))
@example(215)
@example(214)
@property_based
def test_at_most_banks_at_the_last_score_of_best_play_that_does_not_pass(bank_at: int) -> None:
    course = follow(rules.fresh(), Goal(bank_at, AT_MOST))
    assert course.end.score == max(score for score in BEST_SCORES if score <= bank_at)
    assert is_met(course.last, Goal(bank_at, AT_MOST))


def test_the_default_rule_is_at_least() -> None:
    assert Goal(5).rule == AT_LEAST == "at-least"
    assert BANK_RULES == ("at-least", "at-most", "exactly")


# The fewest actions to an exact number


@pytest.mark.slow
def test_exactly_takes_the_fewest_actions_that_any_play_up_to_700_points_can() -> None:
    fewest: dict[int, int] = {}
    for state, turns in explore(700).turns.items():
        fewest[state.score] = min(fewest.get(state.score, turns + 1), turns + 1)
    assert max(fewest) == 670
    for bank_at in range(701):
        assert is_reachable(bank_at) == (bank_at in fewest), bank_at
        if bank_at in fewest:
            course = follow(rules.fresh(), Goal(bank_at, EXACTLY))
            assert (course.end.score, course.actions) == (bank_at, fewest[bank_at])


@pytest.mark.slow
def test_the_nearest_reachable_numbers_are_those_of_any_play_up_to_700_points() -> None:
    reached = {state.score for state in explore(700).turns}
    for bank_at in range(1, max(reached)):
        assert nearest_reachable(bank_at) == (
            max(score for score in reached if score < bank_at),
            min(score for score in reached if score > bank_at),
        )


@pytest.mark.parametrize(
    "bank_at", sorted({state.score for state in explore(430).turns} - {0}), ids=str
)
def test_exactly_takes_a_shortest_way_from_every_state_of_any_play(bank_at: int) -> None:
    search = explore(430)
    fewest = actions_to_bank(search, bank_at)
    goal = Goal(bank_at, EXACTLY)
    for state in search.turns:
        action = decide(state, goal)
        is_out = state not in fewest and state.score != bank_at
        assert is_out_of_reach(state, goal) == is_out, state
        if state not in fewest or state.score == bank_at:
            assert action == BANK, state
        else:
            after = replace(rules.apply(state, action), turn=0)
            assert fewest.get(after) == fewest[state] - 1, (state, action)


def test_the_reachable_numbers_up_to_5000_are_those_of_the_tests_own_search() -> None:
    reached = fewest_actions(5_000)
    assert [n for n in range(5_001) if is_reachable(n)] == sorted(reached)


@given(st.sampled_from(sorted(fewest_actions(5_000))))
@settings(deadline=None, max_examples=40)
def test_exactly_takes_no_more_actions_than_the_tests_own_search(bank_at: int) -> None:
    course = follow(rules.fresh(), Goal(bank_at, EXACTLY))
    assert (course.end.score, course.end.leaves) == (bank_at, 3)
    assert course.actions == fewest_actions(5_000)[bank_at]


@pytest.mark.slow
@pytest.mark.parametrize("boards", [39, 41], ids=["with few boards to go", "with many"])
def test_exactly_takes_no_more_actions_than_a_restart_of_a_spoilt_board(boards: int) -> None:
    spoilt = rules.apply(reach_board(5), FLIPS[0])
    goal = Goal(spoilt.score + 265 * boards, EXACTLY)
    restarted = follow(rules.apply(spoilt, RESTART), goal)
    assert restarted.end.score == goal.bank_at
    assert follow(spoilt, goal).actions <= 1 + restarted.actions


@pytest.mark.parametrize(
    ("bank_at", "below", "above"),
    [
        (1_001, 995, 1_005),
        (300, 215, 350),
        (1, 0, 175),
        (174, 0, 175),
        (205, 195, 215),
        (1_000_001, 1_000_000, 1_000_005),
    ],
    ids=str,
)
def test_a_number_that_no_play_reaches_has_its_nearest_neighbours(
    bank_at: int, below: int, above: int
) -> None:
    assert not is_reachable(bank_at)
    assert nearest_reachable(bank_at) == (below, above)


@pytest.mark.parametrize("bank_at", [-265, -1, 1, 174, 216, 300, 21_051], ids=str)
def test_a_number_out_of_reach_is_told(bank_at: int) -> None:
    assert not is_reachable(bank_at)


@pytest.mark.parametrize("bank_at", [0, 175, 215, 350, 21_050, 1_000_000], ids=str)
def test_a_number_within_reach_is_told(bank_at: int) -> None:
    assert is_reachable(bank_at)


def test_only_an_exact_number_that_is_still_to_come_can_be_out_of_reach() -> None:
    state = cleared_boards(2)
    assert state.score == 430
    assert is_out_of_reach(state, Goal(215, EXACTLY))
    assert not is_out_of_reach(state, Goal(430, EXACTLY))
    assert not is_out_of_reach(state, Goal(670, EXACTLY))
    assert not is_out_of_reach(state, Goal(215, AT_LEAST))
    assert not is_out_of_reach(state, Goal(215, AT_MOST))
    assert not is_out_of_reach(rules.apply(state, BANK), Goal(215, EXACTLY))


# From any state


@st.composite
def live_states(draw: st.DrawFn) -> State:
    """Play up to 60 actions from fresh, at random or well, and never to the end."""
    state = reach_board(draw(st.sampled_from([1, 1, 2, 3, 5, 7])))
    for choice in draw(st.lists(st.integers(0, 11), max_size=60)):
        actions = [action for action in rules.legal_actions(state) if action != BANK]
        at_random = choice < len(actions)
        after = rules.apply(state, actions[choice]) if at_random else play_well(state)
        if after.phase != rules.ENDED:
            state = after
    return state


def check_course(state: State, goal: Goal) -> Course:
    """Follow the strategy, and hold every step of it to what it promises anywhere."""
    for actions in range(1, 1_000):
        action = decide(state, goal)
        assert action in rules.legal_actions(state)
        after = rules.apply(state, action)
        assert after.score >= state.score
        if after.leaves < state.leaves:
            assert action == RESTART
            assert goal.rule == EXACTLY or not is_clearable(state)
        if after.phase == rules.ENDED:
            assert after.end_reason == rules.BANKED
            return Course(after, state, actions)
        state = after
    raise AssertionError(f"{goal} is not banked, at {state}")


def is_lost(state: State) -> bool:
    """Tell whether no more points can be won."""
    return not is_clearable(state) and state.leaves == 1


@pytest.mark.slow
@given(live_states(), st.integers(0, 2_000))
@property_based
def test_at_least_reaches_its_threshold_from_any_state(state: State, further: int) -> None:
    goal = Goal(state.score + further, AT_LEAST)
    course = check_course(state, goal)
    if is_lost(state) and further:
        assert (course.end.score, course.actions) == (state.score, 1)
        assert not is_met(course.last, goal)
    else:
        assert is_met(course.last, goal)
        assert course.end.score >= goal.bank_at
        assert course.end.score - course.last.last_award < goal.bank_at or course.actions == 1


@given(live_states(), st.integers(0, 2_000))
@property_based
def test_at_most_stops_short_of_the_award_that_passes_from_any_state(
    state: State, further: int
) -> None:
    goal = Goal(state.score + further, AT_MOST)
    course = check_course(state, goal)
    assert course.end.score <= goal.bank_at
    if not is_lost(state):
        assert is_met(course.last, goal)
        assert check_course(course.last, Goal(course.end.score + 1)).end.score > goal.bank_at


@given(live_states(), st.integers(0, 2_000) | st.integers(0, 400).map(lambda fives: 5 * fives))
@property_based
def test_exactly_lands_on_its_number_or_banks_at_once_from_any_state(
    state: State, further: int
) -> None:
    goal = Goal(state.score + further, EXACTLY)
    course = check_course(state, goal)
    assert course.end.score == goal.bank_at or course.actions == 1
    assert is_met(course.last, goal) == (course.end.score == goal.bank_at)


@pytest.mark.slow
@given(live_states(), st.integers(2_100, 2_500).map(lambda fives: 5 * fives))
@settings(deadline=None, max_examples=15)
def test_exactly_lands_on_a_far_number_from_any_state_that_is_not_lost(
    state: State, further: int
) -> None:
    goal = Goal(state.score + further, EXACTLY)
    assert (check_course(state, goal).end.score == goal.bank_at) != is_lost(state)


@pytest.mark.parametrize("rule", BANK_RULES, ids=str)
@given(state=live_states(), past=st.integers(1, 5_000))
@settings(deadline=None, max_examples=30)
def test_a_threshold_already_passed_is_banked_at_once(rule: str, state: State, past: int) -> None:
    assume(state.score > 0)
    assert decide(state, Goal(max(0, state.score - past), rule)) == BANK


@given(live_states())
@property_based
def test_a_cleared_board_is_left_by_next_and_a_failed_one_by_retry(state: State) -> None:
    action = decide(state, Goal(state.score + 1))
    if state.phase == rules.CLEARED:
        assert action == NEXT_BOARD
    elif state.phase == rules.RETRY:
        assert action == RETRY_BOARD
    elif is_clearable(state):
        nearer = distances(state.n)[rules.apply(state, action).garland]
        assert nearer == distances(state.n)[state.garland] - 1
    else:
        assert action == (RESTART if state.leaves > 1 else BANK)


# Named situations


@pytest.mark.parametrize(
    "goal",
    [Goal(10_000), Goal(10_000, AT_MOST), Goal(10_000, EXACTLY), Goal(20_000, EXACTLY)],
    ids=["at-least", "at-most", "exactly", "exactly and far"],
)
@pytest.mark.parametrize(
    ("leaves", "expected"), [(3, RESTART), (2, RESTART), (1, BANK)], ids=["3", "2", "1 leaf"]
)
def test_a_board_beyond_clearing_is_restarted_or_banked_on_the_last_leaf(
    goal: Goal, leaves: int, expected: Action
) -> None:
    assert decide(beyond_clearing(leaves), goal) == expected


@pytest.mark.parametrize("rule", BANK_RULES)
@pytest.mark.parametrize(("leaves", "expected"), [(3, RESTART), (1, BANK)], ids=str)
def test_a_restored_garland_that_a_followed_service_calls_in_play_is_no_way_on(
    rule: str, leaves: int, expected: Action
) -> None:
    state = replace(rules.fresh(), garland=(1, 2, 3), leaves=leaves)
    assert decide(state, Goal(1_970, rule)) == expected


@pytest.mark.parametrize(
    ("goal", "expected"),
    [
        (Goal(216), RETRY_BOARD),
        (Goal(215), BANK),
        (Goal(430, AT_MOST), RETRY_BOARD),
        (Goal(429, AT_MOST), BANK),
        (Goal(430, EXACTLY), RETRY_BOARD),
        (Goal(215, EXACTLY), BANK),
        (Goal(20_000, EXACTLY), RETRY_BOARD),
    ],
    ids=lambda value: f"{value.rule} {value.bank_at}" if isinstance(value, Goal) else value.type,
)
def test_a_failed_board_is_tried_again_unless_it_is_time_to_bank(
    goal: Goal, expected: Action
) -> None:
    state = failed_board()
    assert (state.phase, state.score) == (rules.RETRY, 215)
    assert decide(state, goal) == expected


@pytest.mark.parametrize("rule", BANK_RULES, ids=str)
def test_a_threshold_of_nothing_banks_at_once(rule: str) -> None:
    assert decide(rules.fresh(), Goal(0, rule)) == BANK
    assert is_met(rules.fresh(), Goal(0, rule))


@pytest.mark.parametrize(
    ("state", "goal", "expected"),
    [
        (rules.fresh(), Goal(1), False),
        (cleared_boards(1), Goal(215), True),
        (cleared_boards(1), Goal(1), True),
        (cleared_boards(1), Goal(216), False),
        (beyond_clearing(1), Goal(216), False),
        (beyond_clearing(1), Goal(10_000, AT_MOST), False),
        (beyond_clearing(1), Goal(430, EXACTLY), False),
        (rules.fresh(), Goal(214, AT_MOST), True),
        (rules.fresh(), Goal(215, AT_MOST), False),
        (cleared_boards(1), Goal(429, AT_MOST), True),
        (cleared_boards(1), Goal(430, AT_MOST), False),
        (cleared_boards(1), Goal(214, AT_MOST), False),
        (cleared_boards(2), Goal(669, AT_MOST), True),
        (cleared_boards(2), Goal(670, AT_MOST), False),
        (cleared_boards(8), Goal(2_234, AT_MOST), True),
        (cleared_boards(8), Goal(2_235, AT_MOST), False),
        (play(rules.fresh(), FLIPS[2:3]), Goal(194, AT_MOST), True),
        (play(rules.fresh(), FLIPS[2:3]), Goal(195, AT_MOST), False),
        (play(rules.fresh(), FLIPS[:1] * 4), Goal(174, AT_MOST), True),
        (play(rules.fresh(), FLIPS[:1] * 4), Goal(175, AT_MOST), False),
        (beyond_clearing(2), Goal(429, AT_MOST), True),
        (beyond_clearing(2), Goal(430, AT_MOST), False),
        (failed_board(), Goal(429, AT_MOST), True),
        (failed_board(), Goal(430, AT_MOST), False),
        (cleared_boards(1), Goal(215, EXACTLY), True),
        (cleared_boards(1), Goal(214, EXACTLY), False),
        (cleared_boards(1), Goal(216, EXACTLY), False),
    ],
    ids=lambda value: (
        f"{value.rule} {value.bank_at}"
        if isinstance(value, Goal)
        else f"{value.phase} at {value.score}"
        if isinstance(value, State)
        else str(value)
    ),
)
def test_a_goal_is_met_where_its_rule_says_to_bank(
    state: State, goal: Goal, expected: bool
) -> None:
    assert is_met(state, goal) is expected
