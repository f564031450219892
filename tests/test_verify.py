"""What is said of a line that the rules or the lines before it contradict, and of a whole file."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path as FilePath
from typing import Any, Final, TypeAlias

import pytest
from calls import told
from eventful import plain
from fake_clock import FakeClock
from harness import plan_game, run_events, started, taken, write_journal
from sample_runs import WIRE
from standins import KEY, Call, journal_lines, play
from telling import CLEARING, FAR, FLIP, RUN, Telling, moment

from bot import rules
from bot.errors import JournalDamaged, NotAJournal
from bot.journal import events
from bot.journal.events import Event
from bot.journal.reader import Entry, RawLine, read_lines
from bot.replay.summary import summarise
from bot.rules import Action, State
from bot.run import Run
from bot.service import Answer, Service
from bot.strategy import Goal
from bot.verify import FOREIGN_LINES, MAX_PROBLEMS, Problem, Verification, recover, take
from bot.wire.fields import legal_actions, public_fields
from bot.wire.layout import WireSettings
from bot.wire.values import Path

Relay: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]
"""Lays an answer out in another way."""

# What may follow


RESUMED: Final = events.RunResumed(0, FAR, "at-least", "1.0.0", 0)
SUSPENDED: Final = events.RunSuspended("a budget", 75)
ENDED: Final = events.RunEnded("out-of-lives", 0, 0, 0, 4, 0, 0.0)
IN_PLAY: Final = "a line of a run that is going on"
AFTER_DIVERGED: Final = "run.suspended after diverged"
AFTER_LAST: Final = "run.ended after the last action"


@pytest.mark.parametrize(
    ("before", "event", "name", "expected"),
    [
        ("start", None, "run.started", IN_PLAY),
        ("start", ENDED, "run.ended", IN_PLAY),
        ("diverged", events.Refused(CLEARING.to_json(), "no"), "refused", AFTER_DIVERGED),
        ("diverged", events.RunAbandoned("gone"), "run.abandoned", AFTER_DIVERGED),
        ("diverged", None, "action", AFTER_DIVERGED),
        ("diverged", events.LayoutChanged(WIRE), "layout", AFTER_DIVERGED),
        ("suspended", events.LayoutChanged(WIRE), "layout", "run.resumed after run.suspended"),
        ("last action", events.LayoutChanged(WIRE), "layout", AFTER_LAST),
        ("suspended", SUSPENDED, "run.suspended", "run.resumed after run.suspended"),
        ("suspended", None, "action", "run.resumed after run.suspended"),
        ("last action", RESUMED, "run.resumed", AFTER_LAST),
        ("last action", events.RunAbandoned("gone"), "run.abandoned", AFTER_LAST),
        ("last action, suspended", RESUMED, "run.resumed", AFTER_LAST),
        ("end", ENDED, "run.ended", "nothing after the end"),
        ("abandoned", RESUMED, "run.resumed", "nothing after the end"),
    ],
)
def test_a_line_that_cannot_follow_is_told_with_what_can(
    before: str, event: Event | None, name: str, expected: str
) -> None:
    told = Telling()
    if event is None:
        event = started(RUN) if name == "run.started" else told.line_of(CLEARING)
    if before == "diverged":
        told.fail(CLEARING)
        assert told.diverge(leaves=2) == []
    if before == "suspended":
        assert told.tell(SUSPENDED) == []
    if before in ("last action", "last action, suspended", "end"):
        assert told.act(rules.RESTART, rules.RESTART, rules.RESTART) == []
    if before == "last action, suspended":
        assert told.tell(SUSPENDED) == []
    if before == "end":
        assert told.tell(ENDED) == []
    if before == "abandoned":
        told.fail(CLEARING)
        assert told.tell(events.RunAbandoned("gone")) == []
    if isinstance(event, events.RunResumed):
        event = event._replace(from_seq=told.run.next_seq - 1)
    assert told.tell(event) == [f"event is '{name}', expected {expected}"]


@pytest.mark.parametrize("after_diverged", [SUSPENDED._replace(exit_code=76), RESUMED])
def test_after_a_divergence_the_run_is_suspended_or_killed(after_diverged: Event) -> None:
    told = Telling()
    told.fail(CLEARING)
    assert told.diverge(leaves=2) == []
    if isinstance(after_diverged, events.RunResumed):
        after_diverged = after_diverged._replace(from_seq=2)
    assert told.tell(after_diverged) == []


def test_a_run_that_begins_with_another_line_is_told_so() -> None:
    problems = take(Run(), Entry(1, 0, moment(0), events.Refused(CLEARING.to_json(), "no")))
    assert [*map(str, problems)] == ["event is 'refused', expected run.started first"]


def test_a_run_without_its_first_line_is_told_once_and_read_on() -> None:
    run = Run()
    lines: list[Event] = [
        events.Retried(rules.BANK.to_json(), 1, "HTTP 503", 503, "", 0.5),
        events.FieldsDiverged({"leaves": {"predicted": 3, "observed": 2}}),
        events.RunSuspended("it contradicts", 76),
        events.RunResumed(3, 0, "at-least", "1.0.0", 0),
        taken(rules.fresh(), rules.BANK),
    ]
    told = [take(run, Entry(seq, seq, moment(0), line)) for seq, line in enumerate(lines, 1)]
    assert [*map(str, told[0])] == ["seq is 1, expected 0"]
    assert told[1:] == [[], [], [], []]
    assert run.state == rules.apply(rules.fresh(), rules.BANK)


def test_a_first_line_is_sound() -> None:
    assert Telling().told_first == []


@pytest.mark.parametrize("seq", [0, 2, 9])
def test_a_number_out_of_order_is_told_once_and_gone_on_from(seq: int) -> None:
    told = Telling()
    assert told.tell(SUSPENDED, seq=seq) == [f"seq is {seq}, expected 1"]
    assert told.tell(RESUMED._replace(from_seq=seq), seq=seq + 1) == []


# Lines that are no actions


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"what": "init"}, "what is 'init', expected an action"),
        ({"what": {"type": "jump"}}, "what is {'type': 'jump'}, expected a legal action"),
        ({"what": {"type": "retry"}}, "what is {'type': 'retry'}, expected a legal action"),
        ({"attempt": 2}, "attempt is 2, expected 1"),
        ({"status": 99}, "status is 99, expected an HTTP status or null"),
        ({"status": 1000}, "status is 1000, expected an HTTP status or null"),
        ({"status": 100}, None),
        ({"status": 999}, None),
        ({"status": None}, None),
        ({"excerpt": "x" * 200}, None),
        (
            {"excerpt": "x" * 201},
            f"excerpt is {'x' * 76!r:.77}..., expected 200 characters at most",
        ),
    ],
    ids=str,
)
def test_a_retry_line_that_cannot_be_is_told(changes: dict[str, Any], text: str | None) -> None:
    told = Telling()
    assert told.act(CLEARING, rules.NEXT_BOARD) == []
    assert told.fail(FLIP[0], **changes) == ([] if text is None else [text])


@pytest.mark.parametrize("second", [3, 5, 1])
def test_the_attempts_of_init_are_counted_from_one(second: int) -> None:
    told = Telling()
    assert told.fail() == told.fail() == told.fail() == []
    assert told.fail(attempt=second) == [f"attempt is {second}, expected 4"]


def test_init_is_asked_for_before_all_actions() -> None:
    told = Telling()
    assert told.act(CLEARING) == []
    assert told.fail(attempt=1) == ["what is 'init', expected an action"]


def test_a_request_that_failed_is_sent_again_and_no_other() -> None:
    told = Telling()
    again = "{'type': 'flip', 'count': 2} again"
    assert told.fail(CLEARING) == []
    assert told.fail(FLIP[0]) == [f"what is {{'type': 'flip', 'count': 1}}, expected {again}"]
    told = Telling()
    assert told.fail(CLEARING) == []
    refused = events.Refused(rules.BANK.to_json(), "no")
    assert told.tell(refused) == [f"action is {{'type': 'bank'}}, expected {again}"]


@pytest.mark.parametrize("is_refused", [False, True], ids=["no answer", "refused"])
def test_an_action_that_failed_is_the_one_that_is_taken(is_refused: bool) -> None:
    told = Telling()
    if is_refused:
        assert told.tell(events.Refused(CLEARING.to_json(), "no")) == []
    else:
        assert told.fail(CLEARING) == []
    again = "{'type': 'flip', 'count': 2} again"
    assert told.act(FLIP[0]) == [f"action is {{'type': 'flip', 'count': 1}}, expected {again}"]


def test_only_a_legal_action_can_be_refused() -> None:
    told = Telling()
    refused = events.Refused(rules.NEXT_BOARD.to_json(), "no")
    assert told.tell(refused) == ["action is {'type': 'next'}, expected a legal action"]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (RESUMED._replace(from_seq=1), "from_seq is 1, expected 0"),
        (
            SUSPENDED._replace(exit_code=0),
            "exit_code is 0, expected an exit code of a suspended run",
        ),
        (SUSPENDED._replace(exit_code=128), "expected an exit code of a suspended run"),
        (SUSPENDED._replace(exit_code=193), "expected an exit code of a suspended run"),
        (events.RunAbandoned("x"), "event is 'run.abandoned', expected a retry line before it"),
        (
            events.FieldsDiverged({"score": {"predicted": 215, "observed": 0}}),
            "event is 'diverged', expected a retry line before it",
        ),
    ],
    ids=str,
)
def test_a_line_about_a_sitting_that_cannot_be_is_told(line: Event, text: str) -> None:
    (problem,) = Telling().tell(line)
    assert problem.endswith(text)


@pytest.mark.parametrize("code", [69, 70, 75, 76, 78, 129, 143, 192])
def test_a_run_is_suspended_by_any_of_these_exit_codes(code: int) -> None:
    assert Telling().tell(SUSPENDED._replace(exit_code=code)) == []


def test_after_a_divergence_there_is_one_exit_code() -> None:
    told = Telling()
    told.fail(CLEARING)
    told.diverge(leaves=2)
    assert told.tell(SUSPENDED) == ["exit_code is 75, expected 76 after diverged"]


@pytest.mark.parametrize("field", events.RunEnded._fields)
def test_each_total_that_is_not_the_sum_of_the_lines_is_told(field: str) -> None:
    told = Telling()
    told.act(rules.RESTART, rules.RESTART, rules.RESTART)
    right = getattr(ENDED, field)
    wrong: Any = "banked" if field == "end_reason" else right + 1
    problem = f"{field} is {wrong!r}, expected {right!r}"
    assert told.tell(ENDED._replace(**{field: wrong})) == [problem]


@pytest.mark.parametrize(("second", "said"), [(1, []), (5, ["seconds"])], ids=["back", "on"])
def test_time_on_a_clock_that_went_back_is_not_held_against_a_run(
    second: float, said: list[str]
) -> None:
    told = Telling(215)
    assert told.tell(told.line_of(CLEARING), 3) == []
    assert told.tell(told.line_of(rules.BANK), second) == []
    ended = told.run.totals()._replace(seconds=77.0)
    assert [text.split()[0] for text in told.tell(ended, second)] == said


@pytest.mark.parametrize("resumed", [1, 1000], ids=["set back", "set forward"])
def test_a_clock_that_is_set_between_sittings_changes_no_total(resumed: float) -> None:
    told = Telling(215)
    assert told.tell(told.line_of(CLEARING), 30) == []
    assert told.tell(RESUMED._replace(from_seq=1, bank_at=215), resumed) == []
    assert told.tell(told.line_of(rules.BANK), resumed + 4) == []
    ended = told.run.totals()
    assert ended.seconds == 34
    assert told.tell(ended._replace(seconds=35), resumed + 4) == ["seconds is 35, expected 34.0"]


def test_a_line_may_be_of_the_same_moment_as_the_one_before_or_of_an_earlier_one() -> None:
    told = Telling()
    for second, action in ((5, FLIP[0]), (5, FLIP[0]), (2, CLEARING), (5, rules.NEXT_BOARD)):
        assert told.tell(told.line_of(action), second) == []


# Layouts


MOVED: Final = {**WIRE, "token": "next.token", "leaves": "view.lives"}


@pytest.mark.parametrize("failures", [0, 1])
def test_a_layout_line_may_stand_before_any_action(failures: int) -> None:
    told = Telling()
    for _ in range(failures):
        assert told.fail(CLEARING) == []
    assert told.tell(events.LayoutChanged(MOVED)) == []
    assert told.act(CLEARING) == []
    assert told.tell(events.LayoutChanged(WIRE)) == []
    assert told.act(rules.NEXT_BOARD) == []


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        ({"garland": "g", "passed_over": {}}, "it does not say where the token was found"),
        ({"token": "t"}, "it does not say where the token was found"),
        ({"token": "t", "passed_over": {}, "moon": "m"}, "{'token': 't', 'passed_over': {}}"),
    ],
    ids=["no token", "nothing passed over", "no such field"],
)
def test_a_layout_line_that_cannot_be_is_told(wire: dict[str, Any], expected: str) -> None:
    told = Telling()
    assert told.tell(events.LayoutChanged(wire)) == [f"wire is {wire}, expected {expected}"]


@pytest.mark.parametrize(
    ("wire", "expected"),
    [(MOVED, []), (WIRE, ["fields.hearts is {'predicted': 3, 'observed': 2}, expected a field"])],
    ids=["as it says", "as it does not say"],
)
def test_a_divergence_is_named_by_the_last_layout(
    wire: dict[str, Any], expected: list[str]
) -> None:
    told = Telling()
    moved = {**wire, "leaves": "view.hearts"} if wire is MOVED else wire
    assert told.tell(events.LayoutChanged(moved)) == []
    told.fail(CLEARING)
    said = told.tell(events.FieldsDiverged({"hearts": {"predicted": 3, "observed": 2}}))
    assert [text.removesuffix(" of the service's answers") for text in said] == expected


# The first line


FRESH: Final[dict[str, object]] = public_fields(rules.fresh())
AS_EVER: Final = "2f25f286c802324bfdd2d0844178938d2d078a0893b8ca0a10e86ee86088a1c9"
"""SHA-256 of the spec of all runs here."""
NO_PLACES: Final[dict[str, object]] = {"garland": "g", "passed_over": {}}
NOT_FOUND: Final = "it does not say where the token was found"
SINGLE: Final = {"token": "t", "garland": "g", "passed_over": {}}
LISTED: Final = {"token": "t", "garland": ["g"], "passed_over": {}}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"state": {**FRESH, "score": 1}}, "state.score is 1, expected 0"),
        ({"state": {**FRESH, "score": False}}, "state.score is False, expected 0"),
        ({"state": {**FRESH, "score": 0.0}}, "state.score is 0.0, expected 0"),
        (
            {"state": {name: FRESH[name] for name in FRESH if name != "par"}},
            "state.par is 'missing', expected 1",
        ),
        ({"state": {**FRESH, "moon": "full"}}, "state.moon is 'full', expected no such field"),
        ({"wire": NO_PLACES}, f"wire is {NO_PLACES}, expected {NOT_FOUND}"),
        ({"wire": LISTED}, f"wire is {LISTED}, expected {SINGLE}"),
        ({"spec_sha256": None}, f"spec_sha256 is None, expected '{AS_EVER}'"),
        ({"spec": None, "spec_sha256": "0"}, "spec_sha256 is '0', expected None"),
        ({"seed": 8}, f"run_id is '{RUN}', expected a run id with seed 8"),
        (
            {"bank_rule": "never"},
            "bank_rule is 'never', expected 'at-least' or 'at-most' or 'exactly'",
        ),
        ({"run_id": "a run"}, "run_id is 'a run', expected a run id with seed 7"),
    ],
)
def test_a_first_line_that_cannot_be_is_told(changes: dict[str, Any], text: str) -> None:
    problems = take(Run(), Entry(1, 0, moment(0), started(RUN)._replace(**changes)))
    assert [*map(str, problems)] == [text]


# Actions


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"turn": 2}, "turn is 2, expected 1"),
        ({"award": 216}, "award is 216, expected 215"),
        ({"score": 214}, "score is 214, expected 215"),
        ({"phase": "playing"}, "phase is 'playing', expected 'cleared'"),
        ({"board": 2}, "board is 2, expected 1"),
        ({"template": 2}, "template is 2, expected 1"),
        ({"garland": [1, 2]}, "garland is [1, 2], expected [1, 2, 3]"),
        ({"moves_used": 0}, "moves_used is 0, expected 1"),
        ({"move_budget": 4}, "move_budget is 4, expected 5"),
        ({"leaves": 2}, "leaves is 2, expected 3"),
        ({"attempts": 2}, "attempts is 2, expected 1"),
        (
            {"action": {"type": "flip", "count": 2.0}},
            "action is {'type': 'flip', 'count': 2.0}, expected {'type': 'flip', 'count': 2}",
        ),
        ({"garland": [True, 2, 3]}, "garland is [True, 2, 3], expected [1, 2, 3]"),
        ({"garland": [1, 2.0, 3]}, "garland is [1, 2.0, 3], expected [1, 2, 3]"),
        ({"token": "another", "elapsed_ms": 7.5}, None),
    ],
    ids=str,
)
def test_each_field_of_an_action_that_the_rules_have_otherwise_is_told(
    changes: dict[str, Any], text: str | None
) -> None:
    told = Telling()
    assert told.act(CLEARING, **changes) == ([] if text is None else [text])
    assert told.state == rules.apply(rules.fresh(), CLEARING)


def test_all_wrong_fields_of_an_action_are_told() -> None:
    assert Telling().act(CLEARING, award=0, score=0) == [
        "award is 0, expected 215",
        "score is 0, expected 215",
    ]


def test_the_attempts_of_an_action_are_those_of_this_sitting() -> None:
    told = Telling()
    assert told.fail(CLEARING) == told.fail(CLEARING) == []
    assert told.act(CLEARING, attempts=2) == ["attempts is 2, expected 3"]


def test_an_action_that_is_not_legal_is_told_with_the_reason_and_believed() -> None:
    told = Telling()
    line = taken(rules.fresh(), CLEARING)._replace(action=FLIP[4].to_json())
    reason = "flip 5 is more than the 3 pennants of this garland"
    problem = f"action is {FLIP[4].to_json()}, expected a legal action: {reason}"
    assert told.tell(line) == [problem]
    assert told.state == rules.apply(rules.fresh(), CLEARING)
    assert told.act(rules.NEXT_BOARD) == []


def test_another_action_than_the_one_that_failed_is_told_and_believed() -> None:
    told = Telling()
    told.fail(FLIP[0])
    problem = "action is {'type': 'flip', 'count': 2}, expected {'type': 'flip', 'count': 1} again"
    assert told.act(CLEARING) == [problem]
    assert told.state == rules.apply(rules.fresh(), CLEARING)
    assert told.act(rules.NEXT_BOARD) == []


CLAIM: Final = events.ActionTaken(
    turn=31,
    action=FLIP[4].to_json(),
    token="later",
    award=265,
    score=2000,
    phase=rules.CLEARED,
    board=8,
    template=8,
    garland=[1, 2, 3, 4, 5],
    moves_used=6,
    move_budget=11,
    leaves=2,
    attempts=1,
    elapsed_ms=1.0,
)
CLAIMED: Final = State(
    phase=rules.CLEARED,
    board_number=8,
    template_index=8,
    garland=(1, 2, 3, 4, 5),
    moves_used=6,
    move_budget=11,
    leaves=2,
    score=2000,
    cleared_boards=2,
    last_award=265,
    end_reason=None,
    turn=31,
)


@pytest.mark.parametrize(
    ("claim", "claimed"),
    [
        ({}, {}),
        ({"phase": "retry", "award": 0}, {"phase": "retry", "last_award": 0, "cleared_boards": 1}),
        ({"garland": [1, 1]}, {"garland": rules.template(2).start}),
        ({"template": 0}, {"template_index": 2}),
        ({"template": 1}, {"template_index": 1}),
        ({"template": 9}, {"template_index": 2}),
        ({"phase": "dancing"}, {"phase": "playing", "cleared_boards": 1}),
        (
            {"phase": "ended", "action": rules.BANK.to_json()},
            {"phase": "ended", "end_reason": "banked", "cleared_boards": 1},
        ),
        ({"phase": "ended"}, {"phase": "ended", "end_reason": "out-of-lives", "cleared_boards": 1}),
    ],
    ids=str,
)
def test_after_a_gap_an_action_is_taken_at_its_word_as_far_as_it_can_be(
    claim: dict[str, Any], claimed: dict[str, Any]
) -> None:
    told = Telling()
    assert told.act(CLEARING, rules.NEXT_BOARD) == []
    assert told.tell(CLAIM._replace(**claim), seq=40) == ["seq is 40, expected 3"]
    assert told.state == replace(CLAIMED, **claimed)
    assert (told.run.next_seq, told.run.token) == (41, "later")


# The threshold


@pytest.mark.parametrize(
    ("bank_at", "rule", "actions", "expected"),
    [
        (215, "at-least", [CLEARING, rules.BANK], []),
        (
            215,
            "at-least",
            [CLEARING, rules.NEXT_BOARD],
            ["action is {'type': 'next'}, expected bank: 215 is reached"],
        ),
        (
            216,
            "at-least",
            [CLEARING, rules.BANK],
            ["action is {'type': 'bank'}, expected play on: the bank rule is not met"],
        ),
        (430, "at-most", [CLEARING, rules.NEXT_BOARD], []),
        (
            429,
            "at-most",
            [CLEARING, rules.NEXT_BOARD],
            ["action is {'type': 'next'}, expected bank: 429 is reached"],
        ),
        (430, "exactly", [FLIP[1]], []),
        (350, "exactly", [FLIP[1]], ["score is 215, expected a score from which 350 is in reach"]),
        (350, "exactly", [FLIP[0]], []),
        (425, "exactly", [FLIP[1]], []),
        (FAR, "exactly", [FLIP[1]], []),
        (215, "exactly", [FLIP[1], rules.BANK], []),
        (
            215,
            "exactly",
            [FLIP[1], rules.NEXT_BOARD],
            ["action is {'type': 'next'}, expected bank: 215 is reached"],
        ),
        (195, "exactly", [FLIP[0]], []),
        (195, "exactly", [FLIP[1]], ["score is 215, expected a score from which 195 is in reach"]),
        (1, "exactly", [rules.BANK], []),
        (1, "exactly", [FLIP[1]], []),
        (1, "exactly", [FLIP[1], rules.BANK], []),
    ],
)
def test_a_threshold_is_kept(
    bank_at: int, rule: str, actions: list[Action], expected: list[str]
) -> None:
    assert Telling(bank_at, rule).act(*actions) == expected


# What a service says instead

PAIR: Final = {"predicted": 3, "observed": 2}
NO_FIELD: Final = "a field of the service's answers"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, ["fields is {}, expected at least one field"]),
        ({"leaves": {"predicted": 3, "observed": 2}}, []),
        ({"state.leaves": {"predicted": 3, "observed": 2}}, []),
        ({"score": {"predicted": 215, "observed": "(missing)"}}, []),
        ({"state.score": {"predicted": 215, "observed": None}}, []),
        ({"garland": {"predicted": [1, 2, 3], "observed": [1, 2, -3]}}, []),
        ({"gameOver": {"predicted": False, "observed": 0}}, []),
        ({"turn": {"predicted": 1, "observed": 1.0}}, []),
        ({"moon": PAIR}, [f"fields.moon is {PAIR}, expected {NO_FIELD}"]),
        ({"a..b": PAIR}, [f"fields.a..b is {PAIR}, expected {NO_FIELD}"]),
        ({"stateToken": PAIR}, [f"fields.stateToken is {PAIR}, expected {NO_FIELD}"]),
        (
            {"leaves": {"predicted": 3}},
            ["fields.leaves is {'predicted': 3}, expected predicted and observed"],
        ),
        (
            {"leaves": {**PAIR, "at": 1}},
            [f"fields.leaves is { {**PAIR, 'at': 1} }, expected predicted and observed"],
        ),
        ({"leaves": 2}, ["fields.leaves is 2, expected predicted and observed"]),
        (
            {"leaves": {"predicted": 3.0, "observed": 2}},
            ["fields.leaves is 3.0, expected 3"],
        ),
        (
            {"score": {"predicted": 0, "observed": 2}, "turn": {"predicted": 1, "observed": 1}},
            [
                "fields.score is 0, expected 215",
                "fields.turn is 1, expected a value that was not predicted",
            ],
        ),
    ],
    ids=str,
)
def test_a_divergence_is_of_known_fields_that_were_predicted_otherwise(
    fields: dict[str, Any], expected: list[str]
) -> None:
    told = Telling()
    told.fail(CLEARING)
    assert told.tell(events.FieldsDiverged(fields)) == expected


def test_the_order_of_names_in_a_value_makes_no_difference() -> None:
    told = Telling()
    told.fail(CLEARING)
    legal = [{"type": "next"}, {"type": "bank"}]
    turned = [dict(reversed({"type": "flip", "count": 1}.items()))]
    assert (
        told.tell(events.FieldsDiverged({"legalActions": {"predicted": legal, "observed": turned}}))
        == []
    )
    told = Telling()
    told.fail(FLIP[0])
    turned = [dict(reversed(action.items())) for action in legal_actions(rules.fresh())]
    (problem,) = told.tell(
        events.FieldsDiverged({"legalActions": {"predicted": turned, "observed": turned}})
    )
    assert problem.endswith("expected a value that was not predicted")


def test_where_the_first_line_does_not_tell_the_places_nothing_more_is_said_of_a_divergence() -> (
    None
):
    told = Telling(wire={"token": "stateToken"})  # and nothing of what is passed over
    assert len(told.told_first) == 1
    told.fail(CLEARING)
    assert told.diverge(leaves=2) == []


def test_of_an_action_that_was_wrong_already_nothing_more_is_said() -> None:
    told = Telling()
    assert told.fail(rules.RETRY_BOARD) == ["what is {'type': 'retry'}, expected a legal action"]
    assert told.tell(events.FieldsDiverged({"moon": {}})) == []


def nested(answer: dict[str, Any]) -> dict[str, Any]:
    """Put the state below two keys, and call it otherwise."""
    state = {"lives" if key == "leaves" else key: value for key, value in answer["state"].items()}
    return {**answer, "state": None, "result": {"view.of": state}}


def of_values(answer: dict[str, Any]) -> dict[str, Any]:
    """Let one key, `value`, mean the garland here and the leaves there."""
    state = dict(answer["state"])
    row, leaves = state.pop("garland"), state.pop("leaves")
    state |= {"row": {"value": row}, "hearts": {"value": leaves}}
    return {**answer, "state": state}


def summarised(answer: dict[str, Any]) -> dict[str, Any]:
    """End with a summary."""
    if not answer["gameOver"]:
        return answer
    return {"ok": True, "gameOver": True, "finalScore": answer["score"]}


class Relaid(Service):
    """The local service in another layout, that changes one value from some answer on."""

    def __init__(self, relay: Relay, key: str, first: int) -> None:
        super().__init__(KEY)
        self._relay = relay
        self._key = key
        self._first = first
        self._answers = 0

    def answer(self, method: str, target: str, body: bytes) -> Answer:
        true = super().answer(method, target, body)
        answer = self._relay(json.loads(true.body))
        self._answers += 1
        if self._answers >= self._first:
            answer = self._change(answer)
        return Answer(true.status, json.dumps(answer).encode())

    def _change(self, value: Any) -> Any:
        """Change each value under the key."""
        if not isinstance(value, dict):
            return value
        return {
            key: _another(inner) if key == self._key else self._change(inner)
            for key, inner in value.items()
        }


def _another(value: Any) -> Any:
    if isinstance(value, list):
        return [-pennant for pennant in value]
    return value + 1 if isinstance(value, int) else value


@pytest.mark.parametrize(
    ("relay", "key", "paths", "labels"),
    [
        (nested, "lives", {}, ["lives"]),
        (nested, "garland", {}, ["garland"]),
        (nested, "score", {}, ["result.view\\.of.score", "score"]),
        (summarised, "finalScore", {}, ["finalScore"]),
        (
            of_values,
            "value",
            {"leaves": ("state", "hearts", "value")},
            ["state.hearts.value", "state.row.value"],
        ),
    ],
    ids=["another name", "deep down", "in two places", "at the end", "a key with two meanings"],
)
def test_a_divergence_that_the_bot_has_met_is_sound_in_any_layout(
    relay: Relay, key: str, paths: dict[str, Path], labels: list[str], tmp_path: FilePath
) -> None:
    first = 6 if key == "finalScore" else 4
    call = Call(bank_at=430, wire=WireSettings(paths))
    outcome = play(Relaid(relay, key, first), tmp_path, FakeClock(), call)
    assert outcome.exit_code == 76
    (diverged,) = journal_lines(outcome.path, "diverged")
    assert sorted(dict(diverged["fields"])) == labels  # type: ignore[call-overload]  # JSON
    found = Verification(outcome.path)
    found.read_all()
    assert found.problems == []
    assert recover(outcome.path).run.next_seq == outcome.run.next_seq


# Going on with a journal


def a_few_lines() -> list[Event]:
    """Return the lines of a run that was stopped on its second board."""
    actions = [action for _, action, _ in plan_game(Goal(3030))]
    return [*run_events(RUN, actions[:4]), SUSPENDED]


TAILS: Final[dict[str, bytes]] = {
    "nothing": b"",
    "partial JSON": b'{"seq":6,"ts":"2026-11-30T02:41:07.000Z","event":"run.res',
    "half a character": b'{"seq":6,"reason":"caf\xc3',
    "NUL bytes": b"\0" * 4096,
    "NUL bytes and a line end": b"\0" * 100 + b"\n",
    "one NUL byte": b"\0",
    "a brace": b"{",
    "garbage": b"\xff\xfe\n",
    "an empty line": b"\n",
    "a number": b"12\n",
    "deep nesting": b"[" * 100_000,
    "a line that is too long": b"x" * (9 * 2**20),
    "a line of an unknown event": b'{"seq":6,"ts":"2026-11-30T02:41:07.000Z","event":"x"}\n',
}


@pytest.mark.parametrize("tail", [pytest.param(tail, id=name) for name, tail in TAILS.items()])
def test_a_torn_tail_costs_that_line_alone(tail: bytes, tmp_path: FilePath) -> None:
    path = write_journal(tmp_path, RUN, a_few_lines())
    whole = path.read_bytes()
    path.write_bytes(whole + tail)
    recovered = recover(path)
    assert (recovered.size, recovered.cut_bytes) == (len(whole), len(tail))
    assert recovered.run.next_seq == 6
    assert recovered.run.state.turn == 4


def test_a_last_line_of_any_size_is_told_in_a_few_words(tmp_path: FilePath) -> None:
    path = tmp_path / "j"
    line = b'{"seq":' + b"9" * 900_000 + b"}\n"
    path.write_bytes(line * 2)
    with pytest.raises(JournalDamaged) as caught:
        recover(path)
    assert len(str(caught.value)) <= 500 + len(str(path))


@pytest.mark.parametrize("after", [b"", b'{"seq":1}\n'], ids=["alone", "with more"])
def test_a_journal_of_a_newer_format_is_not_resumed(after: bytes, tmp_path: FilePath) -> None:
    path = write_journal(tmp_path, RUN, [started(RUN)])
    line = json.dumps({**json.loads(path.read_bytes()), "journal_version": 2}).encode() + b"\n"
    path.write_bytes(line + after)
    text = (
        f"cannot resume the journal {path}: it was written by a newer version of the bot "
        f"(journal_version 2, this one reads 1); update the bot"
    )
    with told(JournalDamaged, text):
        recover(path)
    assert path.read_bytes() == line + after


def test_a_whole_record_without_its_line_end_is_cut_off(tmp_path: FilePath) -> None:
    path = write_journal(tmp_path, RUN, a_few_lines()[:-1])
    whole = path.read_bytes()
    last = whole.splitlines(keepends=True)[-1]
    path.write_bytes(whole[:-1])
    recovered = recover(path)
    assert (recovered.size, recovered.cut_bytes) == (len(whole) - len(last), len(last) - 1)
    assert recovered.run.state.turn == 3


def test_a_file_without_a_whole_line_is_gone_on_with_from_its_beginning(tmp_path: FilePath) -> None:
    path = tmp_path / "j"
    for content in (b"", b'{"seq":0'):
        path.write_bytes(content)
        recovered = recover(path)
        assert (recovered.size, recovered.cut_bytes) == (0, len(content))
        assert recovered.run.started is None


def test_every_byte_at_which_a_file_can_end_costs_at_most_one_line(tmp_path: FilePath) -> None:
    path = write_journal(tmp_path, RUN, [*a_few_lines()[:2], SUSPENDED])
    whole = path.read_bytes()
    ends = [0, *(match.end() for match in re.finditer(b"\n", whole))]
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        recovered = recover(path)
        assert recovered.size == max(end for end in ends if end <= length)
        assert recovered.cut_bytes == length - recovered.size


def _without(number: int) -> Callable[[list[bytes]], list[bytes]]:
    return lambda lines: [*lines[: number - 1], *lines[number:]]


def _twice(number: int) -> Callable[[list[bytes]], list[bytes]]:
    return lambda lines: [*lines[:number], *lines[number - 1 :]]


def _edited(number: int, **changes: object) -> Callable[[list[bytes]], list[bytes]]:
    def edit(lines: list[bytes]) -> list[bytes]:
        line = {**json.loads(lines[number - 1]), **changes}
        return [*lines[: number - 1], json.dumps(line).encode() + b"\n", *lines[number:]]

    return edit


def _replaced(number: int, line: bytes) -> Callable[[list[bytes]], list[bytes]]:
    return lambda lines: [*lines[: number - 1], line, *lines[number:]]


DAMAGES: Final[dict[str, tuple[Callable[[list[bytes]], list[bytes]], int, str]]] = {
    "a broken line": (_replaced(3, b"}{\n"), 3, "line is"),
    "a broken first line": (_replaced(1, b"?\n"), 1, "line is"),
    "an empty line": (_replaced(2, b"\n"), 2, "line is"),
    "NUL bytes": (_replaced(2, b"\0" * 100 + b"\n"), 2, "line is"),
    "a text that is no UTF-8": (_replaced(4, b'{"seq":"\xff"}\n'), 4, "line is"),
    "two lines without the end between them": (
        lambda lines: [lines[0], lines[1].rstrip(b"\n"), *lines[2:]],
        2,
        "line is",
    ),
    "a missing line": (_without(3), 3, "seq is 3, expected 2"),
    "no first line": (_without(1), 1, "seq is 1, expected 0"),
    "a line twice": (_twice(3), 4, "seq is 2, expected 3"),
    "a wrong score": (_edited(2, score=216), 2, "score is 216, expected 215"),
    "a wrong award": (_edited(2, award=0), 2, "award is 0, expected 215"),
    "true for 1": (_edited(2, turn=True), 2, "turn is True"),
    "a wrong garland": (_edited(5, garland=[3, 2, 1]), 5, "garland is"),
    "an illegal action": (_edited(5, action={"type": "retry"}), 5, "action is"),
    "another legal action": (_edited(5, action={"type": "flip", "count": 1}), 5, "is"),
    "a leaf too many": (_edited(3, leaves=4), 3, "leaves is 4, expected 3"),
    "a field too many": (_edited(3, level="info"), 3, "level is 'info'"),
    "a field too few": (_replaced(6, b'{"seq":5}\n'), 6, "is"),
    "an unknown event": (_edited(2, event="tick"), 2, "event is 'tick'"),
    "a time that is none": (_edited(2, ts="noon"), 2, "ts is 'noon'"),
}


@pytest.mark.parametrize(
    ("damage", "number", "text"), [pytest.param(*row, id=name) for name, row in DAMAGES.items()]
)
def test_damage_before_the_last_line_is_told_with_file_and_line_and_left_alone(
    damage: Callable[[list[bytes]], list[bytes]], number: int, text: str, tmp_path: FilePath
) -> None:
    path = write_journal(
        tmp_path, RUN, [*a_few_lines(), events.RunResumed(5, 1, "at-least", "1", 0)]
    )
    damaged = b"".join(damage(path.read_bytes().splitlines(keepends=True)))
    path.write_bytes(damaged)
    with pytest.raises(JournalDamaged) as caught:
        recover(path)
    assert caught.value.exit_code == 74
    said = str(caught.value)
    assert said.startswith(f"the journal {path} is damaged at line {number}: ")
    assert text in said
    assert said.endswith(". It was left as it is and nothing was sent; --fresh starts a new run")
    assert path.read_bytes() == damaged


@pytest.mark.parametrize("gzipped", [False, True], ids=["plain", "gzipped"])
def test_a_whole_run_recovers_as_over(gzipped: bool, tmp_path: FilePath) -> None:
    path = write_journal(tmp_path, RUN, run_events(RUN))
    if gzipped:
        plain, path = path, path.with_name(f"{path.name}.gz")
        path.write_bytes(gzip.compress(plain.read_bytes()))
    recovered = recover(path)
    run = recovered.run
    assert run.is_over
    assert recovered.cut_bytes == 0
    assert (run.state.score, run.boards, run.flips, run.requests) == (3030, 12, 58, 71)


def test_a_file_that_is_not_there_is_no_journal(tmp_path: FilePath) -> None:
    with told(NotAJournal, f"cannot read {tmp_path / 'missing.jsonl'}: No such file or directory"):
        recover(tmp_path / "missing.jsonl")


# A whole file


V1: Final = FilePath(__file__).parent / "data" / "journals-1.0"
"""Journals that version 1.0 wrote, and in `expected.json` what it said of each of them."""
OF_V1: Final[dict[str, dict[str, Any]]] = json.loads((V1 / "expected.json").read_text())
GOES_ON: Final = [
    name for name, said in OF_V1.items() if not said["is_over"] and "local" not in name
]


def verify(path: FilePath, content: bytes) -> Verification:
    path.write_bytes(content)
    found = Verification(path)
    found.read_all()
    return found


def test_a_problem_says_where_it_is_in_one_line(tmp_path: FilePath) -> None:
    lines = plain().splitlines(keepends=True)
    found = verify(tmp_path / "run", b"".join([*lines[:4], *lines[5:]]))
    assert str(found.problems[0]) == "line 5 (seq 5): seq is 5, expected 4"
    assert (found.is_verified, found.run_id) == (False, json.loads(lines[0])["run_id"])


def test_a_line_that_is_cut_off_is_no_problem_unless_it_comes_after_the_end(
    tmp_path: FilePath,
) -> None:
    whole = plain()
    cut = verify(tmp_path / "cut", whole[:-7])
    assert (cut.problems, cut.torn_bytes) == ([], len(whole.splitlines(keepends=True)[-1]) - 7)
    more = verify(tmp_path / "more", whole + b'{"seq":')
    lines = whole.count(b"\n")
    text = "line is '{\"seq\":', expected nothing after the end"
    assert more.problems == [Problem(lines + 1, lines, text)]


def test_a_line_that_cannot_be_read_is_a_problem_and_the_next_one_is_believed(
    tmp_path: FilePath,
) -> None:
    lines = plain().splitlines(keepends=True)[:12]
    found = verify(tmp_path / "one", b"".join([*lines[:4], b"?\n", *lines[5:]]))
    assert found.problems == [Problem(5, 4, "line is '?\\n', expected a JSON object")]
    assert found.lines == len(lines)
    found = verify(tmp_path / "two", b"".join([*lines[:4], b"?\n", b"!\n", *lines[6:]]))
    assert [(problem.line, problem.seq) for problem in found.problems] == [(5, 4), (6, 4)]
    found = verify(tmp_path / "more", b"".join([*lines[:4], b"?\n", lines[5], *lines[7:]]))
    assert [str(problem) for problem in found.problems[1:]] == [
        "line 7 (seq 7): seq is 7, expected 6"
    ]


def test_a_journal_without_its_first_line_is_one_with_a_problem(tmp_path: FilePath) -> None:
    found = verify(tmp_path / "run", b"".join(plain().splitlines(keepends=True)[1:]))
    assert found.problems == [Problem(1, 1, "seq is 1, expected 0")]
    assert found.run_id is None


def test_lines_of_a_journal_with_a_field_too_many_are_problems_of_a_journal(
    tmp_path: FilePath,
) -> None:
    lines = [json.loads(line) | {"more": 1} for line in plain().splitlines()[:5]]
    found = verify(tmp_path / "run", b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    assert [problem.text for problem in found.problems] == ["more is 1, expected no such field"] * 5


def test_a_file_that_cannot_be_read_any_further_has_a_problem_there(
    tmp_path: FilePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run"
    path.write_bytes(plain())
    lines = [*read_lines(path)][:3]

    def read_three(_: FilePath) -> Iterator[RawLine]:
        yield from lines
        raise NotAJournal("cannot read it: Input/output error")

    monkeypatch.setattr("bot.verify.read_lines", read_three)
    found = Verification(path)
    assert found.lines == 0
    found.read_all()
    assert found.problems == [Problem(4, 3, "cannot read it: Input/output error")]


def test_a_file_that_cannot_be_read_at_all_is_no_journal(tmp_path: FilePath) -> None:
    found = Verification(tmp_path / "missing")
    with pytest.raises(NotAJournal, match="No such file"):
        found.read_all()
    assert found.lines == 0


def test_nothing_more_is_read_after_ten_problems(tmp_path: FilePath) -> None:
    lines = plain().splitlines(keepends=True)
    found = verify(tmp_path / "run", lines[0] + b"".join(lines[1:40:2]))
    assert len(found.problems) == MAX_PROBLEMS
    assert found.lines < 20


def test_a_file_of_something_else_has_no_run(tmp_path: FilePath) -> None:
    path = tmp_path / "prose"
    for prose in (b"prose\n" * 5, b"prose\n", b"prose"):
        with pytest.raises(NotAJournal, match=f"{path} is no journal: line is 'prose"):
            verify(path, prose)
    with pytest.raises(NotAJournal, match=f"{path} is no journal: it is empty"):
        verify(path, b"")


@pytest.mark.parametrize("lines", [FOREIGN_LINES - 1, FOREIGN_LINES])
def test_a_file_that_begins_with_three_foreign_lines_is_no_journal(
    lines: int, tmp_path: FilePath
) -> None:
    content = b"prose\n" * lines + plain()
    if lines == FOREIGN_LINES:
        with pytest.raises(NotAJournal):
            verify(tmp_path / "run", content)
    else:
        assert len(verify(tmp_path / "run", content).problems) == lines


every_v1_journal = pytest.mark.parametrize("name", OF_V1)


@every_v1_journal
def test_a_journal_of_version_1_verifies(name: str) -> None:
    found = Verification(V1 / f"{name}.jsonl")
    found.read_all()
    assert found.problems == []
    assert found.torn_bytes == OF_V1[name]["cut_bytes"]
    assert found.run.totals()._asdict() == OF_V1[name]["totals"]


@every_v1_journal
def test_a_journal_of_version_1_is_recovered_as_it_was_then(name: str) -> None:
    run, size, cut_bytes = recover(V1 / f"{name}.jsonl")
    said = OF_V1[name]
    assert (size, cut_bytes) == (said["size"], said["cut_bytes"])
    state = {**asdict(run.state), "garland": list(run.state.garland)}
    assert {key: state[key] for key in said["state"]} == said["state"]
    assert (run.token, run.goal) == (said["token"], Goal(*said["goal"]))
    assert (run.is_over, run.is_as_asked) == (said["is_over"], said["earned"])
    assert (run.next_seq, run.refusals) == (said["next_seq"], said["refusals"])


@every_v1_journal
def test_a_journal_of_version_1_is_listed_as_it_was_then(name: str) -> None:
    figures = summarise(V1 / f"{name}.jsonl").to_json()
    listed = OF_V1[name]["listed"]
    assert {key: figures[key] for key in listed} == listed


@pytest.mark.parametrize("name", GOES_ON)
def test_a_journal_of_version_1_is_gone_on_with(name: str, tmp_path: FilePath) -> None:
    content = (V1 / f"{name}.jsonl").read_bytes()
    path = tmp_path / f"{OF_V1[name]['listed']['run_id']}.jsonl"
    path.write_bytes(content)
    clock = FakeClock()
    clock.advance(7200)
    outcome = play(Service(KEY), tmp_path, clock, Call(bank_at=3030))
    assert (outcome.path, outcome.exit_code) == (path, 0)
    assert path.read_bytes().startswith(content[: OF_V1[name]["size"]])
    assert outcome.run.score == (215 if name == "without-its-end" else 3030)
    found = Verification(path)
    found.read_all()
    assert (found.problems, found.run.is_over) == ([], True)
