"""Where a run stands after each of its lines, and what is said of a line that cannot be so."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest
from eventful import eventful, plain
from harness import plan_game, started, taken
from sample_runs import WIRE

from bot import rules, strategy
from bot.journal import events
from bot.journal import ledger as ledgers
from bot.journal.events import Event, action_taken
from bot.journal.ledger import Ledger, Tally, spec_digest
from bot.journal.reader import Entry, RawLine, parse_line
from bot.journal.shortcut import Walk
from bot.rules import Action, State
from bot.strategy import Goal
from bot.wire.fields import expectation, legal_actions, public_fields

RUN: Final = "20261130T024107Z-seed7-00ff"
FAR: Final = 1_000_000
"""A threshold that no run here comes near to."""
FLIP: Final = rules.FLIPS
CLEARING: Final = FLIP[1]
"""The one flip that clears the first board, for 215 points."""


def moment(second: float) -> str:
    """Return a time of the night, as a line has it."""
    return f"2026-11-30T02:{41 + int(second) // 60:02}:{second % 60:06.3f}Z"


class Telling:
    """A run that is told line by line to a ledger."""

    def __init__(
        self, bank_at: int = FAR, bank_rule: str = strategy.AT_LEAST, **first: Any
    ) -> None:
        """Tell the first line."""
        self.ledger = Ledger()
        self.failed: Action | None = None
        """The action whose request brought no answer last."""
        event = started(RUN, bank_at, **{"bank_rule": bank_rule, "wire": WIRE, **first})
        self.told_first = self.tell(event)

    @property
    def state(self) -> State:
        return self.ledger.state

    def tell(self, event: Event, second: float = 0, *, seq: int | None = None) -> list[str]:
        """Tell a line; return what is said of it."""
        seq = self.ledger.next_seq if seq is None else seq
        problems = self.ledger.take(Entry(seq + 1, seq, moment(second), event))
        return [str(problem) for problem in problems]

    def act(self, *actions: Action, **changes: Any) -> list[str]:
        """Tell actions, the last one with some fields changed; return what is said of it."""
        for action in actions[:-1]:
            assert self.tell(self.line_of(action)) == []
        return self.tell(self.line_of(actions[-1])._replace(**changes))

    def line_of(self, action: Action) -> events.ActionTaken:
        attempts = self.ledger.failures + 1
        return taken(self.state, action)._replace(attempts=attempts)

    def fail(self, action: Action | None = None, **changes: Any) -> list[str]:
        """Tell that a request brought no answer, of `init` where no action is named."""
        self.failed = action
        attempt = self.ledger.failures + 1 if action else self.ledger.next_seq
        what = action.to_json() if action else events.INIT
        event = events.Retried(what, attempt, "HTTP 503", 503, "", 0.5)
        return self.tell(event._replace(**changes))

    def diverge(self, **observed: Any) -> list[str]:
        """Tell what the service says of fields after the action that failed last."""
        assert self.failed is not None
        expected = expectation(rules.apply(self.state, self.failed))
        return self.tell(
            events.FieldsDiverged(
                {
                    name: {"predicted": expected[name], "observed": value}
                    for name, value in observed.items()
                }
            )
        )


def fold(journal: bytes) -> Ledger:
    """Return where the run of a sound journal stands."""
    ledger = Ledger()
    for line in journal.splitlines(keepends=True):
        assert ledger.take_line(RawLine(1, line, 0, is_whole=True)) == []
    return ledger


# Where a run stands


def test_before_its_first_line_a_run_stands_at_the_start() -> None:
    ledger = Ledger()
    assert (ledger.state, ledger.score, ledger.next_seq) == (rules.fresh(), 0, 0)
    assert (ledger.started, ledger.token, ledger.goal) == (None, "", Goal(0))
    assert (ledger.tally, ledger.seconds, ledger.failures) == (Tally(), 0.0, 0)
    assert (ledger.is_over, ledger.earned, ledger.has_diverged) == (False, False, False)
    assert (ledger.started_ts, ledger.last_ts, ledger.last_action_ts) == ("", "", "")


def test_the_first_line_says_what_the_run_is_to_do() -> None:
    run = Telling(3030, strategy.EXACTLY, token="the first")
    assert run.ledger.started == started(
        RUN, 3030, bank_rule="exactly", wire=WIRE, token="the first"
    )
    assert (run.ledger.token, run.ledger.goal) == ("the first", Goal(3030, strategy.EXACTLY))
    assert (run.ledger.next_seq, run.ledger.tally.requests) == (1, 1)
    now = moment(0)
    assert (run.ledger.started_ts, run.ledger.last_ts, run.ledger.last_action_ts) == (now, now, now)


def test_each_line_moves_the_run_on() -> None:
    run = Telling()
    assert run.fail() == run.fail() == []
    assert run.ledger.tally == Tally(retries=2)
    assert run.ledger.failures == 0
    assert run.fail(CLEARING) == []
    assert run.tell(events.Refused(CLEARING.to_json(), "not now"), 5) == []
    assert (run.ledger.failures, run.ledger.state) == (2, rules.fresh())
    assert (run.ledger.last_ts, run.ledger.last_action_ts) == (moment(5), moment(0))
    assert run.tell(run.line_of(CLEARING)._replace(token="the next"), 7) == []
    assert run.ledger.tally == Tally(actions=1, flips=1, boards=1, retries=3, refusals=1)
    assert run.ledger.tally.requests == 6
    assert (run.ledger.failures, run.ledger.token, run.ledger.score) == (0, "the next", 215)
    assert (run.ledger.last_ts, run.ledger.last_action_ts) == (moment(7), moment(7))
    assert run.ledger.started_ts == moment(0)
    assert run.tell(run.line_of(rules.NEXT_BOARD), 7) == []
    assert run.ledger.tally == Tally(actions=2, flips=1, boards=1, retries=3, refusals=1)
    assert (run.ledger.next_seq, run.ledger.seconds) == (7, 7.0)


def test_a_run_of_every_event_comes_to_its_totals() -> None:
    ledger = fold(eventful())
    seconds = json.loads(eventful().splitlines()[-1])["seconds"]
    assert ledger.totals() == events.RunEnded("banked", 1975, 8, 34, 50, 5, seconds)
    tally = ledger.tally
    assert (tally.actions, tally.flips, tally.boards, tally.retries) == (42, 34, 8, 5)
    assert (tally.refusals, tally.requests) == (2, 50)
    assert (ledger.is_over, ledger.earned, ledger.next_seq) == (True, True, 54)
    assert ledger.goal == Goal(1975)


def test_a_run_that_is_going_on_has_totals_but_no_reason_of_its_end() -> None:
    run = Telling()
    run.act(CLEARING)
    assert run.ledger.totals() == events.RunEnded("", 215, 1, 1, 2, 0, 0.0)


def test_time_is_that_of_all_sittings_and_not_between_them() -> None:
    run = Telling()
    run.act(CLEARING)
    assert run.tell(events.RunSuspended("a budget", 75), 10.2504) == []
    assert (run.ledger.seconds, run.ledger.tally.seconds) == (10.25, 0.0)
    assert run.tell(events.RunResumed(2, 5000, "at-most", "1.0.0", 0), 600) == []
    assert (run.ledger.seconds, run.ledger.tally.seconds) == (10.25, 10.25)
    assert run.ledger.goal == Goal(5000, strategy.AT_MOST)
    assert run.tell(run.line_of(rules.NEXT_BOARD), 601.5) == []
    assert (run.ledger.seconds, run.ledger.started_ts) == (11.75, moment(0))
    assert run.tell(run.line_of(FLIP[0]), 500) == []  # a clock that was set back
    assert run.ledger.seconds == 11.75
    assert run.tell(run.line_of(FLIP[0]), 502) == []
    assert run.ledger.seconds == 13.75
    assert run.tell(events.RunResumed(6, 5000, "at-most", "1.0.0", 0), 400) == []
    assert run.ledger.seconds == 13.75
    assert run.tell(run.line_of(FLIP[1]), 401) == []
    assert run.ledger.seconds == 14.75


@pytest.mark.parametrize(("second", "said"), [(1, []), (5, ["seconds"])], ids=["back", "on"])
def test_time_on_a_clock_that_went_back_is_not_held_against_a_run(
    second: float, said: list[str]
) -> None:
    run = Telling(215)
    assert run.tell(run.line_of(CLEARING), 3) == []
    assert run.tell(run.line_of(rules.BANK), second) == []
    ended = run.ledger.totals()._replace(seconds=77.0)
    assert [text.split()[0] for text in run.tell(ended, second)] == said


def test_what_failed_before_a_break_is_not_counted_after_it() -> None:
    run = Telling()
    run.fail(CLEARING)
    assert run.ledger.failures == 1
    assert run.tell(events.RunSuspended("a budget", 75)) == []
    assert run.tell(events.RunResumed(2, FAR, "at-least", "1.0.0", 0)) == []
    assert run.ledger.failures == 0
    assert run.act(FLIP[0]) == []


@pytest.mark.parametrize(
    ("bank_at", "rule", "actions", "earned"),
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
def test_a_run_is_earned_that_banks_as_its_goal_asks(
    bank_at: int, rule: str, actions: list[Action], earned: bool
) -> None:
    run = Telling(bank_at, rule)
    for action in actions:
        run.act(action)
    assert run.ledger.earned is earned
    assert not run.ledger.is_over


def test_actions_on_the_word_of_a_service_are_counted() -> None:
    run = Telling()
    for leaves in (2, 1):
        action = strategy.decide(run.state, Goal(3030))
        run.fail(action)
        after = replace(rules.apply(run.state, action), leaves=leaves)
        assert run.diverge(leaves=leaves) == []
        assert run.tell(action_taken(run.state, after, action, "token", 2, 1.0)) == []
    assert run.act(strategy.decide(run.state, Goal(3030))) == []
    assert (run.ledger.tally.actions, run.ledger.tally.followed) == (3, 2)


def test_a_divergence_is_at_hand_until_the_next_line() -> None:
    run = Telling()
    run.fail(CLEARING)
    assert not run.ledger.has_diverged
    assert run.diverge(leaves=2) == []
    seen = [run.ledger.has_diverged]
    assert run.tell(events.RunSuspended("it contradicts", 76)) == []
    assert [*seen, run.ledger.has_diverged] == [True, False]


@pytest.mark.parametrize("journal", [eventful, plain])
def test_a_run_that_is_told_as_it_is_played_stands_where_its_journal_says(
    journal: Callable[[], bytes],
) -> None:
    played = Ledger()
    for line in journal().splitlines(keepends=True):
        entry = parse_line(RawLine(1, line, 0, is_whole=True))
        after = None
        if isinstance(entry.event, events.ActionTaken):
            before = played.state
            after = replace(
                rules.apply(before, rules.parse_action(entry.event.action)),
                score=entry.event.score,
                leaves=entry.event.leaves,
                garland=tuple(entry.event.garland),
            )
            assert (
                action_taken(
                    before,
                    after,
                    rules.parse_action(entry.event.action),
                    entry.event.token,
                    entry.event.attempts,
                    entry.event.elapsed_ms,
                )
                == entry.event
            )
        played.advance(entry.event, entry.ts, after)
    folded = fold(journal())
    assert (played.totals(), played.tally) == (folded.totals(), folded.tally)
    assert (played.earned, played.is_over, played.token) == (True, True, folded.token)


# What may follow


RESUMED: Final = events.RunResumed(0, FAR, "at-least", "1.0.0", 0)
SUSPENDED: Final = events.RunSuspended("a budget", 75)
ENDED: Final = events.RunEnded("out-of-lives", 0, 0, 0, 4, 0, 0.0)
IN_PLAY: Final = "a line of a run that is going on"
AFTER_DIVERGED: Final = "an action or run.suspended after diverged"
AFTER_LAST: Final = "run.ended after the last action"


@pytest.mark.parametrize(
    ("before", "event", "name", "expected"),
    [
        ("start", None, "run.started", IN_PLAY),
        ("start", ENDED, "run.ended", IN_PLAY),
        ("diverged", events.Refused(CLEARING.to_json(), "no"), "refused", AFTER_DIVERGED),
        ("diverged", events.RunAbandoned("gone"), "run.abandoned", AFTER_DIVERGED),
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
    run = Telling()
    if event is None:
        event = started(RUN) if name == "run.started" else run.line_of(CLEARING)
    if before == "diverged":
        run.fail(CLEARING)
        assert run.diverge(leaves=2) == []
    if before == "suspended":
        assert run.tell(SUSPENDED) == []
    if before in ("last action", "last action, suspended", "end"):
        assert run.act(rules.RESTART, rules.RESTART, rules.RESTART) == []
    if before == "last action, suspended":
        assert run.tell(SUSPENDED) == []
    if before == "end":
        assert run.tell(ENDED) == []
    if before == "abandoned":
        run.fail(CLEARING)
        assert run.tell(events.RunAbandoned("gone")) == []
    if isinstance(event, events.RunResumed):
        event = event._replace(from_seq=run.ledger.next_seq - 1)
    assert run.tell(event) == [f"event is '{name}', expected {expected}"]


@pytest.mark.parametrize("after_diverged", [SUSPENDED._replace(exit_code=76), RESUMED, None])
def test_after_a_divergence_the_run_is_suspended_killed_or_follows(
    after_diverged: Event | None,
) -> None:
    run = Telling()
    run.fail(CLEARING)
    assert run.diverge(leaves=2) == []
    if after_diverged is None:
        assert run.act(CLEARING, leaves=2) == []
        assert run.state.leaves == 2
    elif isinstance(after_diverged, events.RunResumed):
        assert run.tell(after_diverged._replace(from_seq=2)) == []
    else:
        assert run.tell(after_diverged) == []


def test_a_run_that_begins_with_another_line_is_told_so() -> None:
    problems = Ledger().take(Entry(1, 0, moment(0), events.Refused(CLEARING.to_json(), "no")))
    assert [*map(str, problems)] == ["event is 'refused', expected run.started first"]


def test_a_run_without_its_first_line_is_told_once_and_read_on() -> None:
    ledger = Ledger()
    lines: list[Event] = [
        events.Retried(rules.BANK.to_json(), 1, "HTTP 503", 503, "", 0.5),
        events.FieldsDiverged({"leaves": {"predicted": 3, "observed": 2}}),
        taken(rules.fresh(), rules.BANK)._replace(attempts=2),
    ]
    told = [ledger.take(Entry(seq, seq, moment(0), line)) for seq, line in enumerate(lines, 1)]
    assert [[*map(str, problems)] for problems in told] == [["seq is 1, expected 0"], [], []]
    assert ledger.state == rules.apply(rules.fresh(), rules.BANK)


def test_a_first_line_is_sound() -> None:
    assert Telling().told_first == []


@pytest.mark.parametrize("seq", [0, 2, 9])
def test_a_number_out_of_order_is_told_once_and_gone_on_from(seq: int) -> None:
    run = Telling()
    assert run.tell(SUSPENDED, seq=seq) == [f"seq is {seq}, expected 1"]
    assert run.tell(RESUMED._replace(from_seq=seq), seq=seq + 1) == []


# Lines that are no actions


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"what": "init"}, "what is 'init', expected an action"),
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
    run = Telling()
    assert run.act(CLEARING, rules.NEXT_BOARD) == []
    assert run.fail(FLIP[0], **changes) == ([] if text is None else [text])


@pytest.mark.parametrize("second", [3, 5, 1])
def test_the_attempts_of_init_are_counted_from_one(second: int) -> None:
    run = Telling()
    assert run.fail() == run.fail() == run.fail() == []
    assert run.fail(attempt=second) == [f"attempt is {second}, expected 4"]


def test_init_is_asked_for_before_all_actions() -> None:
    run = Telling()
    assert run.act(CLEARING) == []
    assert run.fail(attempt=1) == ["what is 'init', expected an action"]


def test_a_request_that_failed_is_sent_again_and_no_other() -> None:
    run = Telling()
    again = "{'type': 'flip', 'count': 2} again"
    assert run.fail(CLEARING) == []
    assert run.fail(FLIP[0]) == [f"what is {{'type': 'flip', 'count': 1}}, expected {again}"]
    run = Telling()
    assert run.fail(CLEARING) == []
    refused = events.Refused(rules.BANK.to_json(), "no")
    assert run.tell(refused) == [f"action is {{'type': 'bank'}}, expected {again}"]


@pytest.mark.parametrize("is_refused", [False, True], ids=["no answer", "refused"])
def test_an_action_that_failed_is_the_one_that_is_taken(is_refused: bool) -> None:
    run = Telling()
    if is_refused:
        assert run.tell(events.Refused(CLEARING.to_json(), "no")) == []
    else:
        assert run.fail(CLEARING) == []
    again = "{'type': 'flip', 'count': 2} again"
    assert run.act(FLIP[0]) == [f"action is {{'type': 'flip', 'count': 1}}, expected {again}"]


def test_only_a_legal_action_can_be_refused() -> None:
    run = Telling()
    refused = events.Refused(rules.NEXT_BOARD.to_json(), "no")
    assert run.tell(refused) == ["action is {'type': 'next'}, expected a legal action"]


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
    run = Telling()
    run.fail(CLEARING)
    run.diverge(leaves=2)
    assert run.tell(SUSPENDED) == ["exit_code is 75, expected 76 after diverged"]


@pytest.mark.parametrize("field", events.RunEnded._fields)
def test_each_total_that_is_not_the_sum_of_the_lines_is_told(field: str) -> None:
    run = Telling()
    run.act(rules.RESTART, rules.RESTART, rules.RESTART)
    right = getattr(ENDED, field)
    wrong: Any = "banked" if field == "end_reason" else right + 1
    problem = f"{field} is {wrong!r}, expected {right!r}"
    assert run.tell(ENDED._replace(**{field: wrong})) == [problem]


# The first line


FRESH: Final[dict[str, object]] = public_fields(rules.fresh())
AS_EVER: Final = "2f25f286c802324bfdd2d0844178938d2d078a0893b8ca0a10e86ee86088a1c9"
"""SHA-256 of the spec of all runs here."""
NO_PLACES: Final[dict[str, object]] = {"token": "t", "passed_over": {}}
NOT_FOUND: Final = "it does not say where the token and the garland were found"
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
        ({"run_id": "a run"}, "run_id is 'a run', expected a run id with seed 7"),
    ],
)
def test_a_first_line_that_cannot_be_is_told(changes: dict[str, Any], text: str) -> None:
    problems = Ledger().take(Entry(1, 0, moment(0), started(RUN)._replace(**changes)))
    assert [*map(str, problems)] == [text]


def test_a_spec_is_told_from_any_other_by_its_sorted_json() -> None:
    assert spec_digest(None) is None
    assert spec_digest({"b": 1, "a": "é"}) == (
        "6d9eb45284090145dc16661b06abe01185a16a7dabba07c992a131bffa6b8114"
    )
    assert spec_digest({"a": "é", "b": 1}) == spec_digest({"b": 1, "a": "é"})


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
        ({"token": "another", "elapsed_ms": 7.5}, None),
    ],
    ids=str,
)
def test_each_field_of_an_action_that_the_rules_have_otherwise_is_told(
    changes: dict[str, Any], text: str | None
) -> None:
    run = Telling()
    assert run.act(CLEARING, **changes) == ([] if text is None else [text])
    assert run.state == rules.apply(rules.fresh(), CLEARING)


def test_all_wrong_fields_of_an_action_are_told() -> None:
    assert Telling().act(CLEARING, award=0, score=0) == [
        "award is 0, expected 215",
        "score is 0, expected 215",
    ]


def test_the_attempts_of_an_action_are_those_of_this_sitting() -> None:
    run = Telling()
    assert run.fail(CLEARING) == run.fail(CLEARING) == []
    assert run.act(CLEARING, attempts=2) == ["attempts is 2, expected 3"]


def test_an_action_that_is_not_legal_is_told_with_the_reason_and_believed() -> None:
    run = Telling()
    line = taken(rules.fresh(), CLEARING)._replace(action=FLIP[4].to_json())
    reason = "flip 5 is more than the 3 pennants of this garland"
    problem = f"action is {FLIP[4].to_json()}, expected a legal action: {reason}"
    assert run.tell(line) == [problem]
    assert run.state == rules.apply(rules.fresh(), CLEARING)
    assert run.act(rules.NEXT_BOARD) == []


def test_another_action_than_the_one_that_failed_is_told_and_believed() -> None:
    run = Telling()
    run.fail(FLIP[0])
    problem = "action is {'type': 'flip', 'count': 2}, expected {'type': 'flip', 'count': 1} again"
    assert run.act(CLEARING) == [problem]
    assert run.state == rules.apply(rules.fresh(), CLEARING)
    assert run.act(rules.NEXT_BOARD) == []


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
    run = Telling()
    assert run.act(CLEARING, rules.NEXT_BOARD) == []
    assert run.tell(CLAIM._replace(**claim), seq=40) == ["seq is 40, expected 3"]
    assert run.state == replace(CLAIMED, **claimed)
    assert (run.ledger.next_seq, run.ledger.token) == (41, "later")


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


def follow(run: Telling, action: Action, **observed: Any) -> list[str]:
    """Tell of an action whose answer is another one, which is followed."""
    changes = {"moveBudget": "move_budget"}
    assert run.fail(action) == []
    assert run.diverge(**observed) == []
    line = run.line_of(action)
    score = observed.get("score", line.score)
    return run.tell(
        line._replace(
            award=score - run.state.score,
            **{changes.get(name, name): value for name, value in observed.items()},
        )
    )


def test_a_service_that_is_followed_may_lead_where_an_exact_landing_is_out_of_reach() -> None:
    run = Telling(350, strategy.EXACTLY)
    assert follow(run, CLEARING, score=220) == []
    assert run.act(rules.BANK) == []
    assert not run.ledger.earned


def test_a_run_may_bank_where_only_a_service_that_is_followed_could_have_led() -> None:
    run = Telling()
    assert follow(run, FLIP[0], moveBudget=6) == []
    assert run.act(rules.BANK) == []
    run = Telling()
    assert run.act(FLIP[0]) == []
    problem = "action is {'type': 'bank'}, expected play on: the bank rule is not met"
    assert run.act(rules.BANK) == [problem]


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
    run = Telling()
    run.fail(CLEARING)
    assert run.tell(events.FieldsDiverged(fields)) == expected


def test_the_order_of_names_in_a_value_makes_no_difference() -> None:
    run = Telling()
    run.fail(CLEARING)
    legal = [{"type": "next"}, {"type": "bank"}]
    turned = [dict(reversed({"type": "flip", "count": 1}.items()))]
    assert (
        run.tell(events.FieldsDiverged({"legalActions": {"predicted": legal, "observed": turned}}))
        == []
    )
    run = Telling()
    run.fail(FLIP[0])
    turned = [dict(reversed(action.items())) for action in legal_actions(rules.fresh())]
    (problem,) = run.tell(
        events.FieldsDiverged({"legalActions": {"predicted": turned, "observed": turned}})
    )
    assert problem.endswith("expected a value that was not predicted")


@pytest.mark.parametrize(
    ("observed", "claimed"),
    [
        ({"leaves": 2}, {"leaves": 2}),
        ({"garland": [1, 2, -3]}, {"garland": (1, 2, -3)}),
        ({"phase": "playing"}, {"phase": "playing"}),
        ({"score": "(missing)"}, {}),
        ({"leaves": "two"}, {}),
        ({"leaves": -1}, {}),
        ({"score": "many", "leaves": 2}, {"leaves": 2}),
        ({"n": 4}, {}),
        ({"endReason": "banked", "phase": "ended"}, {"phase": "ended", "end_reason": "banked"}),
    ],
    ids=str,
)
def test_the_word_of_a_service_is_followed_as_far_as_it_is_a_state(
    observed: dict[str, Any], claimed: dict[str, Any]
) -> None:
    run = Telling()
    run.fail(CLEARING)
    assert run.diverge(**observed) == []
    after = replace(rules.apply(run.state, CLEARING), **claimed)
    line = action_taken(run.state, after, CLEARING, "token", 2, 1.0)
    assert run.tell(line) == []
    assert run.state == after


@pytest.mark.parametrize(
    ("labels", "possible"),
    [
        ({"score": 220}, {215, 220}),
        ({"state.score": 220}, {215, 220}),
        ({"score": 220, "state.score": 230}, {215, 220}),
        ({"score": 220, "state.score": 220}, {215, 220}),
    ],
    ids=str,
)
def test_a_score_that_is_sent_in_two_places_is_that_of_the_first_or_as_predicted(
    labels: dict[str, int], possible: set[int]
) -> None:
    taken_as_right = set()
    for score in (210, 215, 220, 230):
        run = Telling()
        run.fail(CLEARING)
        fields: dict[str, dict[str, object]] = {
            label: {"predicted": 215, "observed": observed} for label, observed in labels.items()
        }
        assert run.tell(events.FieldsDiverged(fields)) == []
        line = run.line_of(CLEARING)._replace(score=score, award=score)
        if run.tell(line) == []:
            taken_as_right.add(score)
    assert taken_as_right == possible


def test_of_all_that_a_service_can_have_meant_the_likeliest_is_held_against_the_line() -> None:
    run = Telling()
    run.fail(CLEARING)
    assert run.diverge(score=220, leaves=2) == []
    assert run.act(CLEARING, score=220, award=220, leaves=2, board=2) == ["board is 2, expected 1"]
    assert (run.state.score, run.state.leaves, run.state.board_number) == (220, 2, 1)


def test_where_the_first_line_does_not_tell_the_places_nothing_more_is_said_of_a_divergence() -> (
    None
):
    run = Telling(wire={"token": "stateToken"})
    assert len(run.told_first) == 1
    run.fail(CLEARING)
    assert run.diverge(leaves=2) == []
    assert run.act(CLEARING) == []


def test_of_an_action_that_was_wrong_already_nothing_more_is_said() -> None:
    run = Telling()
    assert run.fail(rules.RETRY_BOARD) == ["what is {'type': 'retry'}, expected a legal action"]
    assert run.tell(events.FieldsDiverged({"moon": {}})) == []


def test_places_that_cannot_both_be_are_no_reason_to_stop() -> None:
    places = {"token": "token", "garland": "leaves.garland", "leaves": "leaves", "passed_over": {}}
    run = Telling(wire=places)
    assert run.told_first == []
    run.fail(CLEARING)
    assert run.diverge(leaves=2, garland=[3, 2, 1]) == []
    assert run.act(CLEARING, leaves=2) == []


# Lines that need no reading

DAY: Final = b"2026-11-30"
PLAIN: Final = (
    b'{"seq":4,"ts":"2026-11-30T02:41:07.000Z","event":"action","turn":1,'
    b'"action":{"type":"flip","count":2},"token":"t","award":215,"score":215,"phase":"cleared",'
    b'"board":1,"template":1,"garland":[1,2,3],"moves_used":1,"move_budget":5,"leaves":3,'
    b'"attempts":1,"elapsed_ms":0.5}\n'
)
"""The first action of a run, four lines after its first one."""


def test_a_plain_line_is_followed_without_reading_it() -> None:
    walk = Walk(rules.fresh())
    assert walk.take(PLAIN, 4, DAY) == ("2026-11-30T02:41:07.000Z", "t", True, 1)
    assert walk.state == rules.apply(rules.fresh(), CLEARING)
    line = (
        b'{"seq":5,"ts":"2026-11-30T23:59:59.999Z","event":"action","turn":2,'
        b'"action":{"type":"next"},"token":"~ !","award":0,"score":215,"phase":"playing",'
        b'"board":2,"template":2,"garland":[3,-2,-1],"moves_used":0,"move_budget":6,"leaves":3,'
        b'"attempts":1,"elapsed_ms":123456789012.123456}\r\n'
    )
    assert walk.take(line, 5, DAY) == ("2026-11-30T23:59:59.999Z", "~ !", False, 0)
    assert walk.state.board_number == 2


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"seq":4', b'"seq":5'),
        (b'"seq":4', b'"seq":04'),
        (b"2026-11-30", b"2026-12-01"),
        (b"T02:", b"T24:"),
        (b":41:", b":60:"),
        (b":07.", b":60."),
        (b".000Z", b".0000Z"),
        (b'"turn":1', b'"turn":2'),
        (b'"turn":1', b'"turn":01'),
        (b'"event":"action"', b'"event":"refused"'),
        (b'"count":2', b'"count":1'),
        (b'"count":2', b'"count":5'),
        (b'"count":2', b'"count":2.0'),
        (b'"count":2', b'"count": 2'),
        (b'{"type":"flip","count":2}', b'{"count":2,"type":"flip"}'),
        (b'{"type":"flip","count":2}', b'{"type":"flip"'),
        (b'{"type":"flip","count":2}', b'{"type":"flip",}'),
        (b'{"type":"flip","count":2}', b'{"type":"next"}'),
        (b'{"type":"flip","count":2}', b'{"type":"bank"}'),
        (b'{"type":"flip","count":2}', b'{"type":"\xff"}'),
        (b'"count":2', b'"count":' + b"[" * 100_000),
        (b'"token":"t"', b'"token":""'),
        (b'"token":"t"', b'"token":"\\u0074"'),
        (b'"token":"t"', b'"token":"\x7f"'),
        (b'"token":"t"', b'"token":"\xc3\xa9"'),
        (b'"award":215', b'"award":214'),
        (b'"score":215', b'"score":216'),
        (b'"phase":"cleared"', b'"phase":"playing"'),
        (b'"board":1', b'"board":2'),
        (b'"leaves":3', b'"leaves":2'),
        (b'"leaves":3', b'"leaves":3,"more":1'),
        (b'"attempts":1', b'"attempts":2'),
        (b'"elapsed_ms":0.5', b'"elapsed_ms":0'),
        (b'"elapsed_ms":0.5', b'"elapsed_ms":00.5'),
        (b'"elapsed_ms":0.5', b'"elapsed_ms":-0.5'),
        (b'"elapsed_ms":0.5', b'"elapsed_ms":1e5'),
        (b"}\n", b"}"),
        (b"}\n", b"} \n"),
    ],
    ids=lambda part: repr(part)[:40],
)
def test_a_line_that_differs_in_anything_is_not_followed(old: bytes, new: bytes) -> None:
    assert PLAIN.count(old) == 1
    walk = Walk(rules.fresh())
    assert walk.take(PLAIN.replace(old, new), 4, DAY) is None
    assert walk.state == rules.fresh()
    assert walk.take(PLAIN, 4, DAY) is not None


def plain_line(before: State, action: Action, seq: int) -> bytes:
    """Return the line of an action as the writer has it."""
    event = taken(before, action)
    head = {"seq": seq, "ts": moment(0), "event": "action"}
    return json.dumps({**head, **event._asdict()}, separators=(",", ":")).encode() + b"\n"


def test_a_walk_can_be_taken_anywhere_and_goes_on_from_there() -> None:
    walk = Walk(rules.fresh())
    for number, (before, action, after) in enumerate(plan_game(Goal(8000))):
        if number % 7 == 3:
            walk = Walk(before)
        if number % 11 == 5:
            walk.stand(rules.fresh())
            walk.stand(before)
        if after.phase == rules.ENDED:
            break
        plain = walk.take(plain_line(before, action, number), number, DAY)
        assert plain is not None
        assert (walk.state, walk.score) == (after, after.score)
        assert (plain.is_flip, plain.clears) == (
            action.count is not None,
            after.phase == rules.CLEARED,
        )


def test_boards_that_come_round_again_are_not_worked_out_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps = [(before, action) for before, action, _ in plan_game(Goal(15_000))][:-1]
    lines = [plain_line(before, action, seq) for seq, (before, action) in enumerate(steps)]
    asked = []

    def apply(state: State, action: Action) -> State:
        asked.append(action)
        return apply_truly(state, action)

    apply_truly = rules.apply
    monkeypatch.setattr(rules, "apply", apply)
    walk = Walk(rules.fresh())
    assert all(walk.take(line, seq, DAY) for seq, line in enumerate(lines))
    ninth = next(number for number, (before, _) in enumerate(steps) if before.board_number == 9)
    assert len(asked) == ninth
    assert len(lines) > 4 * ninth


def test_a_plain_line_is_not_read_and_comes_to_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    run, other = Telling(), Telling()
    monkeypatch.setattr(ledgers, "parse_line", None)
    for action in (FLIP[0], FLIP[0], CLEARING, rules.NEXT_BOARD):
        line = plain_line(other.state, action, other.ledger.next_seq)
        assert run.ledger.take_line(RawLine(0, line, 0, is_whole=True)) == []
        assert other.act(action) == []
        assert (run.ledger.state, run.ledger.score) == (other.state, other.ledger.score)
        assert (run.ledger.token, run.ledger.tally) == (other.ledger.token, other.ledger.tally)
        assert run.ledger.next_seq == other.ledger.next_seq
        assert run.ledger.last_action_ts == run.ledger.last_ts == other.ledger.last_ts


@pytest.mark.parametrize("before", [SUSPENDED, None], ids=["suspended", "a request that failed"])
def test_a_plain_line_that_cannot_follow_is_read(before: Event | None) -> None:
    run = Telling()
    if before is None:
        run.fail(FLIP[0])
    else:
        run.tell(before)
    line = plain_line(rules.fresh(), CLEARING, 2)
    assert len(run.ledger.take_line(RawLine(3, line, 0, is_whole=True))) > 0


@pytest.mark.parametrize("bank_at", [215, 10_700])
def test_near_the_threshold_a_plain_line_is_read(bank_at: int) -> None:
    run = Telling(bank_at)
    for seq, (before, action, _) in enumerate(plan_game(Goal(FAR)), 1):
        line = plain_line(before, action, seq)
        problems = run.ledger.take_line(RawLine(seq + 1, line, 0, is_whole=True))
        if before.score >= bank_at:
            break
        assert problems == []
    text = f"action is {{'type': 'next'}}, expected bank: {bank_at} is reached"
    assert [*map(str, problems)] == [text]
