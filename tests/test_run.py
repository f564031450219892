"""Where a run stands after each of its lines."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from eventful import eventful, plain
from harness import started
from sample_runs import WIRE
from telling import CLEARING, FAR, FLIP, RUN, Telling, moment

from bot import rules, strategy
from bot.journal import events
from bot.journal.reader import RawLine, parse_line
from bot.rules import Action
from bot.run import Run, action_taken, points_an_hour, spec_digest, time_to_go
from bot.strategy import Goal
from bot.verify import take


def fold(journal: bytes) -> Run:
    """Return where the run of a sound journal stands."""
    run = Run()
    for line in journal.splitlines(keepends=True):
        assert take(run, parse_line(RawLine(1, line, 0, is_whole=True))) == []
    return run


def counts(run: Run) -> tuple[int, ...]:
    """Return actions, flips, boards, retries and refusals."""
    return run.actions, run.flips, run.boards, run.retries, run.refusals


def test_before_its_first_line_a_run_stands_at_the_start() -> None:
    run = Run()
    assert (run.state, run.score, run.next_seq) == (rules.fresh(), 0, 0)
    assert (run.started, run.token, run.goal, run.wire) == (None, "", Goal(0), {})
    assert (counts(run), run.seconds, run.failures) == ((0, 0, 0, 0, 0), 0.0, 0)
    assert (run.is_over, run.is_as_asked, run.suspended) == (False, False, None)
    assert (run.diverged, run.pending, run.refused_ts) == (None, None, "")
    assert (run.started_ts, run.last_ts, run.last_action_ts) == ("", "", "")


def test_the_first_line_says_what_the_run_is_to_do() -> None:
    told = Telling(3030, strategy.EXACTLY, token="the first")
    assert told.run.started == started(RUN, 3030, bank_rule="exactly", wire=WIRE, token="the first")
    assert (told.run.token, told.run.goal) == ("the first", Goal(3030, strategy.EXACTLY))
    assert told.run.wire == WIRE
    assert (told.run.next_seq, told.run.requests) == (1, 1)
    now = moment(0)
    assert (told.run.started_ts, told.run.last_ts, told.run.last_action_ts) == (now, now, now)


def test_each_line_moves_the_run_on() -> None:
    told = Telling()
    assert told.fail() == told.fail() == []
    assert counts(told.run) == (0, 0, 0, 2, 0)
    assert (told.run.failures, told.run.pending) == (0, None)
    assert told.fail(CLEARING) == []
    assert told.tell(events.Refused(CLEARING.to_json(), "not now"), 5) == []
    assert (told.run.failures, told.run.pending) == (2, CLEARING.to_json())
    assert told.state == rules.fresh()
    assert (told.run.last_ts, told.run.last_action_ts) == (moment(5), moment(0))
    assert told.tell(told.line_of(CLEARING)._replace(token="the next"), 7) == []
    assert counts(told.run) == (1, 1, 1, 3, 1)
    assert told.run.requests == 6
    assert (told.run.failures, told.run.pending) == (0, None)
    assert (told.run.token, told.run.score) == ("the next", 215)
    assert (told.run.last_ts, told.run.last_action_ts) == (moment(7), moment(7))
    assert told.run.started_ts == moment(0)
    assert told.tell(told.line_of(rules.NEXT_BOARD), 7) == []
    assert counts(told.run) == (2, 1, 1, 3, 1)
    assert (told.run.next_seq, told.run.seconds) == (7, 7.0)


def test_a_run_of_every_event_comes_to_its_totals() -> None:
    run = fold(eventful())
    seconds = json.loads(eventful().splitlines()[-1])["seconds"]
    assert run.totals() == events.RunEnded("banked", 1970, 8, 34, 51, 6, seconds)
    assert counts(run) == (42, 34, 8, 6, 2)
    assert (run.is_over, run.is_as_asked, run.next_seq) == (True, True, 56)
    assert run.goal == Goal(1970)


def test_a_run_that_is_going_on_has_totals_but_no_reason_of_its_end() -> None:
    told = Telling()
    told.act(CLEARING)
    assert told.run.totals() == events.RunEnded("", 215, 1, 1, 2, 0, 0.0)


def test_the_last_layout_is_where_an_answer_is_read_from() -> None:
    told = Telling()
    moved = {**WIRE, "token": "nextStateToken"}
    assert told.tell(events.LayoutChanged(moved)) == []
    assert told.run.wire == moved
    assert told.act(CLEARING) == []
    assert told.run.wire == moved
    assert (told.run.next_seq, told.run.requests) == (3, 2)


def test_time_is_that_of_all_sittings_and_not_between_them() -> None:
    told = Telling()
    told.act(CLEARING)
    assert told.tell(events.RunSuspended("a budget", 75), 10.2504) == []
    assert told.run.seconds == 10.25
    assert told.tell(events.RunResumed(2, 5000, "at-most", "1.0.0", 0), 600) == []
    assert told.run.seconds == 10.25
    assert told.run.goal == Goal(5000, strategy.AT_MOST)
    assert told.tell(told.line_of(rules.NEXT_BOARD), 601.5) == []
    assert (told.run.seconds, told.run.started_ts) == (11.75, moment(0))


def test_a_clock_that_is_set_takes_no_time_away_and_gives_none_between_sittings() -> None:
    told = Telling()
    assert told.tell(told.line_of(CLEARING), 10) == []
    assert told.tell(told.line_of(rules.NEXT_BOARD), 4) == []  # in the middle of a sitting
    assert (told.run.seconds, told.run.has_gone_back) == (10, True)
    assert told.tell(told.line_of(FLIP[0]), 6) == []
    assert told.run.seconds == 12
    assert told.tell(events.RunResumed(3, FAR, "at-least", "1.0.0", 0), 1) == []  # between two
    assert told.run.seconds == 12
    assert told.tell(told.line_of(FLIP[1]), 2) == []
    assert told.run.seconds == 13
    assert told.tell(events.RunResumed(5, FAR, "at-least", "1.0.0", 0), 1000) == []
    assert told.run.seconds == 13


def test_a_clock_that_is_set_back_between_sittings_has_not_gone_back_in_one() -> None:
    told = Telling()
    assert told.tell(told.line_of(CLEARING), 10) == []
    assert told.tell(events.RunResumed(1, FAR, "at-least", "1.0.0", 0), 1) == []
    assert not told.run.has_gone_back


def test_what_failed_before_a_break_is_not_counted_after_it() -> None:
    told = Telling()
    told.fail(CLEARING)
    assert told.run.failures == 1
    assert told.tell(events.RunSuspended("a budget", 75)) == []
    assert told.tell(events.RunResumed(2, FAR, "at-least", "1.0.0", 0)) == []
    assert (told.run.failures, told.run.pending) == (0, None)
    assert told.act(FLIP[0]) == []


@pytest.mark.parametrize(
    ("bank_at", "rule", "actions", "is_as_asked"),
    [
        (215, strategy.AT_LEAST, [CLEARING, rules.BANK], True),
        (200, strategy.AT_LEAST, [CLEARING, rules.BANK], True),
        (216, strategy.AT_LEAST, [CLEARING, rules.BANK], False),
        (215, strategy.EXACTLY, [CLEARING, rules.BANK], True),
        (214, strategy.EXACTLY, [CLEARING, rules.BANK], False),
        (300, strategy.AT_MOST, [CLEARING, rules.BANK], True),
        (500, strategy.AT_MOST, [CLEARING, rules.BANK], False),
        (215, strategy.AT_LEAST, [CLEARING], False),
        (0, strategy.AT_LEAST, [rules.RESTART] * 3, False),
    ],
)
def test_a_run_is_as_asked_that_banks_as_its_goal_asks(
    bank_at: int, rule: str, actions: list[Action], is_as_asked: bool
) -> None:
    told = Telling(bank_at, rule)
    for action in actions:
        told.act(action)
    assert told.run.is_as_asked is is_as_asked
    assert not told.run.is_over


def test_a_divergence_is_at_hand_until_the_next_line() -> None:
    told = Telling()
    told.fail(CLEARING)
    seen = [told.run.diverged]
    assert told.diverge(leaves=2) == []
    fields: dict[str, dict[str, object]] = {"leaves": {"predicted": 3, "observed": 2}}
    seen.append(told.run.diverged)
    assert told.tell(events.RunSuspended("it contradicts", 76)) == []
    seen.append(told.run.diverged)
    assert seen == [None, events.FieldsDiverged(fields), None]
    assert told.run.suspended is not None


def test_a_sitting_that_ended_is_suspended_until_the_next_begins() -> None:
    told = Telling()
    assert told.tell(events.RunSuspended("a budget", 75)) == []
    assert told.run.suspended is not None
    assert told.tell(events.RunResumed(1, FAR, "at-least", "1.0.0", 0)) == []
    assert told.run.suspended is None


def test_the_first_refusal_of_the_token_counts_until_an_action_is_accepted() -> None:
    told = Telling()
    refused = events.RunSuspended("the service refuses the token", 77)
    for second, event in (
        (10, refused),
        (20, events.RunResumed(1, FAR, "at-least", "1.0.0", 0)),
        (30, events.RunSuspended("a budget", 75)),
        (40, events.RunResumed(3, FAR, "at-least", "1.0.0", 0)),
        (50, refused),
        (60, events.RunResumed(5, FAR, "at-least", "1.0.0", 0)),
    ):
        assert told.tell(event, second) == []
        assert told.run.refused_ts == moment(10)
    assert told.tell(told.line_of(CLEARING), 70) == []
    assert told.run.refused_ts == ""
    assert told.tell(refused, 80) == []
    assert told.run.refused_ts == moment(80)


def test_any_other_end_of_a_sitting_is_no_refusal_of_the_token() -> None:
    told = Telling()
    assert told.tell(events.RunSuspended("out of reach", 69)) == []
    assert told.run.refused_ts == ""


@pytest.mark.parametrize("journal", [eventful, plain])
def test_a_run_that_is_told_as_it_is_played_stands_where_its_journal_says(
    journal: Callable[[], bytes],
) -> None:
    played = Run()
    for line in journal().splitlines(keepends=True):
        entry = parse_line(RawLine(1, line, 0, is_whole=True))
        after = None
        if isinstance(entry.event, events.ActionTaken):
            before = played.state
            action = rules.parse_action(entry.event.action)
            after = rules.apply(before, action)
            token, attempts, elapsed_ms = (
                entry.event.token,
                entry.event.attempts,
                entry.event.elapsed_ms,
            )
            told = action_taken(before, after, action, token, attempts, elapsed_ms)
            assert told == entry.event
        played.advance(entry.event, entry.ts, after)
    folded = fold(journal())
    assert (played.totals(), counts(played)) == (folded.totals(), counts(folded))
    assert (played.is_as_asked, played.is_over, played.token) == (True, True, folded.token)


def test_what_is_told_is_believed() -> None:
    told = Telling()
    after = replace(rules.apply(rules.fresh(), CLEARING), score=999)
    line = told.line_of(CLEARING)._replace(score=999)
    told.run.advance(line, moment(1), after)
    assert told.run.score == 999


def test_a_spec_is_told_from_any_other_by_its_sorted_json() -> None:
    assert spec_digest(None) is None
    assert spec_digest({"b": 1, "a": "é"}) == (
        "6d9eb45284090145dc16661b06abe01185a16a7dabba07c992a131bffa6b8114"
    )
    assert spec_digest({"a": "é", "b": 1}) == spec_digest({"b": 1, "a": "é"})


@pytest.mark.parametrize(
    ("points", "seconds", "rate"),
    [(1000, 1800.0, 2000.0), (7, 3.0, 8400.0), (1, 30.7, 117.3), (0, 5.0, 0.0), (5, 0.0, None)],
)
def test_points_an_hour_are_those_of_the_time_played(
    points: int, seconds: float, rate: float | None
) -> None:
    assert points_an_hour(points, seconds) == rate


@pytest.mark.parametrize(
    ("left", "points", "seconds", "to_go_s"),
    [
        (500, 1000, 60.0, 30.0),
        (1, 3, 1.0, 0.3),
        (1, 1, 1.0, 1.0),
        (0, 1000, 60.0, 0.0),
        (-5, 1000, 60.0, 0.0),
        (500, 0, 60.0, None),
        (500, -1, 60.0, None),
        (10**300, 1, 1e300, None),
        (10**400, 1, 1.0, None),
        (5, 1, math.inf, None),
    ],
)
def test_time_to_go_is_that_of_the_pace_so_far(
    left: int, points: int, seconds: float, to_go_s: float | None
) -> None:
    assert time_to_go(left, points, seconds) == to_go_s
