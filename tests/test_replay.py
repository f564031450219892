"""Verifying a journal: what is true verifies, and whatever is changed in it is caught."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from eventful import abandoned, eventful, plain, stopped
from harness import BOT, ROOT, environment, plan_game, run_events, started, write_journal
from hypothesis import given, settings
from hypothesis import strategies as st

from bot import rules, strategy
from bot.cli import process
from bot.errors import JournalDamaged, NotAJournal
from bot.journal.events import FORMAT
from bot.journal.reader import _HEAD
from bot.strategy import Goal
from bot.verify import MAX_PROBLEMS, Problem, Verification, recover

pytestmark = pytest.mark.usefixtures("alone")

RUN: Final = "20261130T024107Z-seed7-00ff"
JOURNALS: Final[dict[str, Callable[[], bytes]]] = {
    "eventful": eventful,
    "abandoned": abandoned,
    "stopped": stopped,
    "plain": plain,
}


def verify(path: Path) -> Verification:
    verification = Verification(path)
    verification.read_all()
    return verification


def first_fault(path: Path, journal: bytes) -> Problem | None:
    """Write a journal and return the first problem that is found in it."""
    path.write_bytes(journal)
    verification = Verification(path)
    for _ in verification.steps():
        if verification.problems:
            break
    return verification.problems[0] if verification.problems else None


def replay(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Run the verb in this process; return exit code, stdout and stderr."""
    code = process.run(["replay", *map(str, arguments)])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


# What is true verifies


@pytest.mark.parametrize("name", JOURNALS)
def test_a_journal_that_the_bot_wrote_verifies(name: str, tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    path.write_bytes(JOURNALS[name]())
    verification = verify(path)
    assert verification.problems == []
    assert verification.lines == len(path.read_bytes().splitlines())
    assert verification.torn_bytes == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "goal",
    [
        Goal(0),
        Goal(1),
        Goal(3030),
        Goal(3030, strategy.AT_MOST),
        Goal(3100, strategy.AT_MOST),
        Goal(100, strategy.AT_MOST),
        Goal(2225, strategy.EXACTLY),
        Goal(3000, strategy.EXACTLY),
        Goal(21_050),
    ],
    ids=str,
)
def test_a_run_of_each_bank_rule_verifies(goal: Goal, tmp_path: Path) -> None:
    actions = [action for _, action, _ in plan_game(goal)]
    lines = run_events(RUN, actions, goal.bank_at)
    path = write_journal(
        tmp_path, RUN, [started(RUN, goal.bank_at, bank_rule=goal.rule), *lines[1:]]
    )
    assert verify(path).problems == []


def test_every_kind_of_line_is_in_these_journals() -> None:
    seen = {json.loads(line)["event"] for make in JOURNALS.values() for line in lines_of(make())}
    assert seen == FORMAT.keys()


@pytest.mark.parametrize("bank_at", [3030, 1_000_000], ids=["near", "far"])
def test_a_run_of_a_worse_player_verifies(bank_at: int, tmp_path: Path) -> None:
    flip = rules.FLIPS[0]
    wasted = [flip] * 5  # out of moves
    actions = [*wasted, rules.RETRY_BOARD, flip, rules.RESTART, rules.FLIPS[1], rules.NEXT_BOARD]
    path = write_journal(tmp_path, RUN, run_events(RUN, [*actions, *[flip] * 6], bank_at))
    verification = verify(path)
    assert verification.problems == []
    assert verification.run.state.end_reason == rules.OUT_OF_LIVES


@pytest.mark.slow
@settings(deadline=None, max_examples=50)
@given(data=st.data())
def test_any_legal_play_verifies_to_its_end(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    state = rules.fresh()
    actions: list[rules.Action] = []
    while state.phase != rules.ENDED and len(actions) < 60:
        legal = [action for action in rules.legal_actions(state) if action != rules.BANK]
        actions.append(data.draw(st.sampled_from(legal)))
        state = rules.apply(state, actions[-1])
    folder = tmp_path_factory.mktemp("play")
    path = write_journal(folder, RUN, run_events(RUN, actions, 1_000_000))
    verification = verify(path)
    assert verification.problems == []
    assert verification.run.state == state
    assert verification.run.is_over == (state.phase == rules.ENDED)


# The table of mutations, made from the format

UNKNOWABLE: Final = {
    # The service's words and measured times: nothing in a journal says what they were.
    ("run.started", "base_url"),
    ("run.started", "token"),
    ("run.started", "wire"),
    ("action", "token"),
    ("action", "elapsed_ms"),
    ("retry", "cause"),
    ("retry", "status"),
    ("retry", "excerpt"),
    ("retry", "wait_s"),
    ("refused", "reason"),
    ("layout", "wire"),
    ("run.suspended", "reason"),
    ("run.abandoned", "reason"),
    # What the bot was, and what it was told; a threshold shows where it is kept, see below.
    ("run.started", "bot_version"),
    ("run.started", "bank_at"),
    ("run.started", "bank_rule"),
    ("run.resumed", "bot_version"),
    ("run.resumed", "bank_at"),
    ("run.resumed", "bank_rule"),
    # What is gone: the bytes that were cut off, and the reason of another sitting's end.
    ("run.resumed", "cut_bytes"),
    ("run.suspended", "exit_code"),
    *((event, "ts") for event in FORMAT),
}
"""Fields whose true value nothing else in a journal tells: only their kind can be checked."""

TOLD_BY_THE_NEXT_LINE: Final = {
    # Two lines tell of the same move; where they disagree, the second one is named.
    ("retry", "what"),
    ("refused", "action"),
    ("diverged", "fields"),
}
"""Fields that the next line repeats, so that a change is found there if it is possible at all."""

CHOICES: Final = {
    "event": tuple(FORMAT),
    "phase": rules.PHASES,
    "bank_rule": strategy.BANK_RULES,
    "end_reason": rules.END_REASONS,
}
IMPOSSIBLE_TIMES: Final = (
    "",
    "2026-02-30T02:41:07.123Z",
    "2026-11-30T24:41:07.123Z",
    "2026-11-30T02:60:07.123Z",
    "2026-11-30T02:41:61.123Z",
    "2026-11-30 02:41:07.123Z",
    "2026-11-30T02:41:07Z",
    "2026-11-30T02:41:07.123+00:00",
    "2026-11-30T02:41:07.123z",
    "\u0662026-11-30T02:41:07.123Z",
)

Mutation = tuple[str, Any]
"""What was done, and the value that comes of it."""


def lines_of(journal: bytes) -> list[bytes]:
    return journal.splitlines(keepends=True)


def wrong_kinds(value: object) -> Iterator[Mutation]:
    """Yield values that are not of the kind of `value`, at any depth."""
    if isinstance(value, dict):
        yield from (("a list", []), ("a text", "x"), ("null", None), ("true", True))
        for key, inner in value.items():
            for name, wrong in wrong_kinds(inner):
                yield f"{key}: {name}", {**value, key: wrong}
    elif isinstance(value, list):
        yield from (("an object", {}), ("a text", "x"), ("null", None), ("true", True))
        for name, wrong in wrong_kinds(value[-1]) if value else ():
            yield f"last: {name}", [*value[:-1], wrong]
    elif isinstance(value, str):
        yield from (("a number", 7), ("true", True), ("null", None), ("a list", [value]))
    elif type(value) is int:
        yield from (("a boolean", bool(value)), ("true", True), ("a text", str(value)))
        yield from (("a fraction", value + 0.5), ("null", None), ("a list", [value]))
        yield "a float", float(value)
    elif isinstance(value, float):
        yield from (("true", True), ("a text", str(value)), ("null", None), ("below 0", -1.0))
        yield from (("infinite", float("inf")), ("no number", float("nan")))
    else:
        yield from (("true", True), ("a list", []), ("a fraction", 0.5))


def other_values(name: str, value: object) -> Iterator[Mutation]:
    """Yield other values of the kind of `value`, at any depth."""
    if name in CHOICES:
        yield from ((choice, choice) for choice in CHOICES[name] if choice != value)
    elif isinstance(value, dict):
        yield "one more", {**value, "zz": value}
        for key, inner in value.items():
            yield f"without {key}", {k: v for k, v in value.items() if k != key}
            for what, other in other_values(key, inner):
                yield f"{key}: {what}", {**value, key: other}
    elif isinstance(value, list):
        yield from (("one more", [*value, 6]), ("reversed", value[::-1]))
        yield "one less", value[:-1]
        for what, other in other_values(name, value[0]) if value else ():
            yield f"first: {what}", [other, *value[1:]]
    elif isinstance(value, str):
        yield "longer", f"{value}x"
    elif isinstance(value, bool):
        yield "the other", not value
    elif isinstance(value, int | float):
        yield from (("one more", value + 1), ("a thousand more", value + 1000))
        yield from [("one less", value - 1)] if value >= 1 else []


def mutations(event: str, field: str, value: object) -> Iterator[Mutation]:
    """Yield every value to which a field of a line is changed."""
    if (event, field) != ("run.started", "spec"):  # which may be anything
        yield from wrong_kinds(value)
    if field == "token":
        yield "empty", ""
    if field == "ts":
        yield from ((time, time) for time in IMPOSSIBLE_TIMES)
    if (event, field) not in UNKNOWABLE:
        yield from (item for item in other_values(field, value) if item[1] != value)


def differs_in_all(fields: Any) -> bool:
    """Tell whether no value of a `diverged` line is the one that was predicted."""
    pairs = [[json.dumps(value) for value in pair.values()] for pair in fields.values()]
    return all(len(set(pair)) == 2 for pair in pairs)


def is_still_right(field: str, what: str, value: object) -> bool:
    """Tell whether a changed value says the same, or nothing that can be known to be wrong."""
    if field == "status":
        return value is None  # where no answer came
    if field == "wire":
        return what == "score: a text"  # one place instead of two
    if field == "fields":  # the service may say anything but what was predicted
        return what.startswith("without") or ("observed: " in what and differs_in_all(value))
    return False


def sample_lines(event: str) -> list[tuple[str, int]]:
    """Return a journal and the number of a line for each line to change.

    Of the many actions there is one of each sort: far from the threshold and near it, at
    once and after failures, by its phase; the one after the divergence is among them.
    """
    found: list[tuple[str, int]] = []
    for name in ("eventful", "abandoned"):
        sorts: dict[object, tuple[str, int]] = {}
        for number, text in enumerate(lines_of(JOURNALS[name]()), 1):
            line = json.loads(text)
            if line["event"] != event:
                continue
            is_action = event == "action"
            sort = (line["attempts"] > 1, line["phase"], number < 20) if is_action else number
            sorts.setdefault(sort, (name, number))
        found += sorts.values()
        if event == "action":
            break
    return found


FIELDS: Final = [
    (event, field) for event, (_, checks) in FORMAT.items() for field in (*_HEAD, *checks)
]


def change(journal: bytes, number: int, edit: Callable[[dict[str, Any]], object]) -> bytes:
    """Return the journal with the record of one line changed."""
    lines = lines_of(journal)
    record = json.loads(lines[number - 1])
    edit(record)
    lines[number - 1] = json.dumps(record, separators=(",", ":")).encode() + b"\n"
    return b"".join(lines)


def set_field(journal: bytes, number: int, field: str, value: object) -> bytes:
    """Return the journal with one field of one line changed."""
    return change(journal, number, lambda record: record.update({field: value}))


def test_every_event_has_lines_to_change() -> None:
    assert [event for event in FORMAT if not sample_lines(event)] == []


def test_no_field_is_excused_that_is_not_in_the_format() -> None:
    assert set(FIELDS) >= UNKNOWABLE | TOLD_BY_THE_NEXT_LINE


@pytest.mark.slow
@pytest.mark.parametrize(("event", "field"), FIELDS, ids=[".".join(names) for names in FIELDS])
def test_a_changed_field_is_caught_at_its_line(event: str, field: str, tmp_path: Path) -> None:
    missed = []
    count = 0
    for name, number in sample_lines(event):
        journal = JOURNALS[name]()
        value = json.loads(lines_of(journal)[number - 1])[field]
        for what, wrong in mutations(event, field, value):
            if is_still_right(field, what, wrong):
                continue
            count += 1
            changed = set_field(journal, number, field, wrong)
            head = b"".join(lines_of(changed)[: number + 1])
            fault = first_fault(tmp_path / "j.jsonl", head)
            allowed = {number}
            if (event, field) in TOLD_BY_THE_NEXT_LINE:
                allowed.add(number + 1)
            if fault is None or fault.line not in allowed:
                missed.append((name, number, what, fault))
    assert missed == []
    assert count >= 3


@pytest.mark.slow
@pytest.mark.parametrize(("event", "field"), FIELDS, ids=[".".join(names) for names in FIELDS])
def test_a_field_that_is_left_out_is_caught_at_its_line(
    event: str, field: str, tmp_path: Path
) -> None:
    for name, number in sample_lines(event):
        changed = change(JOURNALS[name](), number, lambda record: record.pop(field))
        fault = first_fault(tmp_path / "j.jsonl", changed)
        assert fault is not None
        assert (name, fault.line) == (name, number)


@pytest.mark.parametrize("event", FORMAT)
def test_a_field_that_is_added_is_caught_at_its_line(event: str, tmp_path: Path) -> None:
    name, number = sample_lines(event)[0]
    changed = change(JOURNALS[name](), number, lambda record: record.update(more=1))
    fault = first_fault(tmp_path / "j.jsonl", changed)
    assert fault == Problem(number, number - 1, "more is 1, expected no such field")


@pytest.mark.parametrize("name", JOURNALS)
@pytest.mark.parametrize("field", ["score", "seq", "event", "count"])
def test_a_name_that_stands_twice_in_a_line_is_caught_at_its_line(
    name: str, field: str, tmp_path: Path
) -> None:
    lines = lines_of(JOURNALS[name]())
    number = next(i for i, line in enumerate(lines, 1) if b'"type":"flip"' in line)
    marker = b'"%s":' % field.encode()
    assert marker in lines[number - 1]
    lines[number - 1] = lines[number - 1].replace(marker, marker + b"1," + marker, 1)
    fault = first_fault(tmp_path / "j.jsonl", b"".join(lines))
    assert fault is not None
    assert fault.line == number


@pytest.mark.parametrize("name", JOURNALS)
def test_a_line_that_is_dropped_is_caught_where_it_is_missing(name: str, tmp_path: Path) -> None:
    lines = lines_of(JOURNALS[name]())
    for number in range(1, len(lines)):
        fault = first_fault(tmp_path / "j", b"".join([*lines[: number - 1], *lines[number:]]))
        assert fault is not None
        assert fault.line == number


@pytest.mark.parametrize("name", JOURNALS)
def test_a_run_without_its_last_line_is_unfinished(name: str, tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    path.write_bytes(b"".join(lines_of(JOURNALS[name]())[:-1]))
    verification = verify(path)
    assert (verification.problems, verification.run.is_over) == ([], False)


@pytest.mark.parametrize("name", JOURNALS)
def test_a_line_that_is_doubled_is_caught_at_the_copy(name: str, tmp_path: Path) -> None:
    lines = lines_of(JOURNALS[name]())
    for number in range(1, len(lines) + 1):
        fault = first_fault(tmp_path / "j", b"".join([*lines[:number], *lines[number - 1 :]]))
        assert fault is not None
        assert fault.line == number + 1


@pytest.mark.slow
@pytest.mark.parametrize("name", JOURNALS)
def test_two_lines_that_are_swapped_are_caught_at_the_first(name: str, tmp_path: Path) -> None:
    lines = lines_of(JOURNALS[name]())
    for number in range(1, len(lines)):
        swapped = [*lines[: number - 1], lines[number], lines[number - 1], *lines[number + 1 :]]
        fault = first_fault(tmp_path / "j", b"".join(swapped))
        assert fault is not None
        assert fault.line == number


@pytest.mark.parametrize("name", JOURNALS)
def test_a_line_that_is_moved_after_the_end_is_caught_where_it_was(
    name: str, tmp_path: Path
) -> None:
    lines = lines_of(JOURNALS[name]())
    for number in range(1, len(lines)):
        moved = [*lines[: number - 1], *lines[number:], lines[number - 1]]
        fault = first_fault(tmp_path / "j", b"".join(moved))
        assert fault is not None
        assert fault.line == number


def renumbered(lines: list[bytes]) -> bytes:
    """Return a journal whose lines are numbered as if nothing had happened to them."""
    return b"".join(
        json.dumps({**json.loads(line), "seq": seq}).encode() + b"\n"
        for seq, line in enumerate(lines)
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["eventful", "plain"])
def test_a_dropped_line_is_caught_even_where_the_others_are_renumbered(
    name: str, tmp_path: Path
) -> None:
    lines = lines_of(JOURNALS[name]())
    for number in range(1, len(lines)):
        if b'"event":"layout"' in lines[number - 1]:
            continue  # nothing else tells where the service puts its fields
        fault = first_fault(tmp_path / "j", renumbered([*lines[: number - 1], *lines[number:]]))
        assert fault is not None
        assert fault.line >= number


@pytest.mark.slow
@pytest.mark.parametrize("name", ["eventful", "plain"])
def test_a_doubled_line_is_caught_even_where_the_others_are_renumbered(
    name: str, tmp_path: Path
) -> None:
    lines = lines_of(JOURNALS[name]())
    for number in range(1, len(lines) + 1):
        if b'"event":"layout"' in lines[number - 1]:
            continue  # likewise
        fault = first_fault(tmp_path / "j", renumbered([*lines[:number], *lines[number - 1 :]]))
        assert fault is not None
        assert fault.line > number


@pytest.mark.parametrize(
    "junk",
    [b"", b"\n", b"{}\n", b"[]\n", b"null\n", b"{\n", b"\x00\x00\n", b"\xff\xfe\n", b"word\n"],
)
@pytest.mark.parametrize("number", [1, 2, 30, 54])
def test_a_line_that_is_overwritten_is_caught_at_its_number(
    number: int, junk: bytes, tmp_path: Path
) -> None:
    lines = lines_of(eventful())
    half = lines[number - 1][:20] + b"\n"
    lines[number - 1] = junk or half
    fault = first_fault(tmp_path / "j", b"".join(lines))
    assert fault is not None
    assert (fault.line, fault.seq) == (number, number - 1)


THRESHOLDS: Final = {
    # At 1970 points the run of `eventful` is banked, in line 55; line 21 is run.resumed.
    "a higher threshold was not reached": ("eventful", 21, {"bank_at": 1971}, 55),
    "a lower threshold was passed": ("eventful", 21, {"bank_at": 1705}, 46),
    "one was met long ago": ("eventful", 21, {"bank_at": 0}, 22),
    "exactly another number": ("eventful", 21, {"bank_at": 1950, "bank_rule": "exactly"}, 53),
    "at most less": ("eventful", 21, {"bank_at": 1969, "bank_rule": "at-most"}, 46),
    "at most far more": ("eventful", 21, {"bank_at": 5000, "bank_rule": "at-most"}, 55),
    # The run of `plain` is banked at 1970, in line 43.
    "from the first line on": ("plain", 1, {"bank_at": 1971}, 43),
    "passed from the first line on": ("plain", 1, {"bank_at": 1440}, 27),
    "exactly, and missed": ("plain", 1, {"bank_at": 1960, "bank_rule": "exactly"}, 42),
}


@pytest.mark.parametrize(
    ("name", "number", "goal", "expected"), THRESHOLDS.values(), ids=THRESHOLDS
)
def test_a_threshold_that_was_not_kept_is_caught_where_it_was_not(
    name: str, number: int, goal: dict[str, object], expected: int, tmp_path: Path
) -> None:
    changed = change(JOURNALS[name](), number, lambda record: record.update(goal))
    fault = first_fault(tmp_path / "j.jsonl", changed)
    assert fault is not None
    assert fault.line == expected


def test_a_divergence_that_is_not_suspended_for_is_caught(tmp_path: Path) -> None:
    for code in (75, 69, 143):
        changed = set_field(stopped(), 13, "exit_code", code)
        fault = first_fault(tmp_path / "j.jsonl", changed)
        assert fault == Problem(13, 12, f"exit_code is {code}, expected 76 after diverged")


OUT_OF_BOUNDS: Final = {
    "a status that HTTP does not have": ("eventful", 8, "status", 42),
    "an excerpt that is too long": ("eventful", 8, "excerpt", "x" * 201),
    "an exit code of a run that is over": ("eventful", 20, "exit_code", 0),
    "an exit code that no call ends with": ("eventful", 20, "exit_code", 99),
    "a divergence in nothing": ("eventful", 15, "fields", {}),
    "a wire without a token": ("plain", 1, "wire", {"garland": "g", "passed_over": {}}),
    "a wire with something else": (
        "plain",
        1,
        "wire",
        {"token": "t", "garland": "g", "passed_over": {}, "moon": "m"},
    ),
}


def test_a_run_is_not_abandoned_out_of_the_blue(tmp_path: Path) -> None:
    lines = lines_of(abandoned())
    fault = first_fault(tmp_path / "j", renumbered([*lines[:4], lines[-1]]))
    assert fault == Problem(5, 4, "event is 'run.abandoned', expected a retry line before it")


def test_a_divergence_needs_a_request_that_failed(tmp_path: Path) -> None:
    lines = lines_of(stopped())
    fault = first_fault(tmp_path / "j", renumbered([*lines[:9], *lines[11:]]))
    assert fault == Problem(10, 9, "event is 'diverged', expected a retry line before it")


def without_a_score(public: dict[str, Any]) -> dict[str, Any]:
    return {
        **{name: value for name, value in public.items() if name != "score"},
        "state": {
            **{name: value for name, value in public["state"].items() if name != "score"},
            "leaves": 2,
        },
    }


# One fault is told once


@pytest.mark.parametrize("number", [4, 11, 24, 40])
@pytest.mark.parametrize("field", ["score", "garland", "turn", "award", "leaves"])
def test_a_changed_field_of_an_action_is_the_only_problem(
    number: int, field: str, tmp_path: Path
) -> None:
    path = tmp_path / "j.jsonl"
    wrong = {"garland": [1]}.get(field, 17)
    path.write_bytes(change(eventful(), number, lambda record: record.update({field: wrong})))
    assert [problem.line for problem in verify(path).problems] == [number]


@pytest.mark.parametrize("number", [3, 4, 24, 43])
def test_a_line_that_cannot_be_read_is_the_only_problem(number: int, tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    lines = lines_of(plain())[:-1]  # which has the totals, and they include it
    path.write_bytes(b"".join([*lines[: number - 1], b"{}\n", *lines[number:]]))
    assert [problem.line for problem in verify(path).problems] == [number]


def test_a_problem_names_line_field_logged_and_expected(tmp_path: Path) -> None:
    changed = change(plain(), 5, lambda record: record.update(score=431))
    fault = first_fault(tmp_path / "j.jsonl", changed)
    assert str(fault) == "line 5 (seq 4): score is 431, expected 430"


def test_a_dropped_line_costs_a_few_problems_at_most(tmp_path: Path) -> None:
    lines = lines_of(plain())
    path = tmp_path / "j.jsonl"
    for number in range(2, len(lines)):
        path.write_bytes(b"".join([*lines[: number - 1], *lines[number:]]))
        assert len(verify(path).problems) <= 4


def test_a_lost_first_line_costs_a_few_problems_at_most(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    path.write_bytes(b"".join(lines_of(plain())[1:]))
    assert [str(problem) for problem in verify(path).problems] == [
        "line 1 (seq 1): seq is 1, expected 0"
    ]


def test_no_more_is_read_after_the_first_ten_problems(tmp_path: Path) -> None:
    lines = lines_of(plain())
    path = tmp_path / "j.jsonl"
    path.write_bytes(b"".join([*lines, *lines * 100]))
    verification = verify(path)
    assert len(verification.problems) == MAX_PROBLEMS
    assert verification.lines == len(lines) + MAX_PROBLEMS


@pytest.mark.slow
@settings(deadline=None, max_examples=50)
@given(data=st.data())
def test_whatever_is_done_to_a_journal_it_is_verified_or_not(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzzed.jsonl"
    journal = JOURNALS[data.draw(st.sampled_from(sorted(JOURNALS)))]()
    for _ in range(data.draw(st.integers(1, 4))):
        lines = lines_of(journal)
        number = data.draw(st.integers(1, len(lines)))
        record = json.loads(lines[number - 1])
        field = data.draw(st.sampled_from(sorted(record)))
        values = [value for _, value in wrong_kinds(record[field])]
        values += [value for _, value in other_values(field, record[field])]
        record[field] = data.draw(st.sampled_from(values))
        lines[number - 1] = json.dumps(record).encode() + b"\n"
        if data.draw(st.booleans()):
            lines.insert(data.draw(st.integers(0, len(lines))), lines.pop(number - 1))
        journal = b"".join(lines)
        if data.draw(st.booleans()):
            journal = renumbered([line for line in lines if line.startswith(b'{"seq"')])
        path.write_bytes(journal)
        try:
            verify(path)
        except NotAJournal:
            break
        try:
            recover(path)
        except JournalDamaged:
            continue


# What is no journal

NO_JOURNALS: Final = {
    "empty": b"",
    "blank lines": b"\n\n",
    "prose": b"Sunpleat\n\nRestore a sun-catching garland\nto number order\n",
    "one word": b"garland",
    "binary": bytes(range(256)) * 40,
    "a zipped something else": gzip.compress(b"garland\n"),
    "half a zip": gzip.compress(eventful())[:200],
    "a broken zip": b"\x1f\x8b\x08" + bytes(100),
    "UTF-16": eventful().decode().encode("utf-16"),
    "a JSON document": json.dumps({"runs": [1, 2, 3]}, indent=2).encode(),
    "another log": b'{"timestamp": "2026-11-30", "event": "started", "level": "info"}\n' * 5,
    "a list": b"[1, 2, 3]\n",
    "deep": b"[" * 100_000,
    "a long number": b"9" * 100_000 + b"\n",
    "a first line that never was whole": eventful()[:300],
    "a journal after three lines of something else": b"prose\n" * 3 + eventful(),
}


@pytest.mark.parametrize("content", NO_JOURNALS.values(), ids=NO_JOURNALS)
@pytest.mark.parametrize("verb", ["replay", "status"])
def test_what_is_no_journal_is_a_usage_error_that_names_the_file(
    verb: str, content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "something"
    path.write_bytes(content)
    code = process.run([verb, str(path)])
    printed = capsys.readouterr()
    assert (code, printed.out) == (2, "")
    assert f"{path}" in printed.err
    assert printed.err.isprintable() or printed.err.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it is empty"),
        (b"prose\nand more\n", "line is 'prose\\n', expected a JSON object"),
    ],
    ids=["empty", "prose"],
)
def test_it_is_said_why_a_file_is_no_journal(content: bytes, why: str, tmp_path: Path) -> None:
    path = tmp_path / "something"
    path.write_bytes(content)
    with pytest.raises(NotAJournal) as caught:
        verify(path)
    assert str(caught.value) == f"{path} is no journal: {why}"


def test_what_cannot_be_read_at_all_is_said_to_be_just_that(tmp_path: Path) -> None:
    path = tmp_path / "nothing"
    verification = Verification(path)
    with pytest.raises(NotAJournal) as caught:
        verification.read_all()
    assert str(caught.value) == f"cannot read {path}: No such file or directory"
    assert verification.lines == 0


def test_a_journal_after_two_lines_of_something_else_has_two_problems(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    path.write_bytes(b"prose\n" * 2 + plain())
    assert [problem.line for problem in verify(path).problems] == [1, 2]


@pytest.mark.parametrize("verb", ["replay", "status"])
def test_a_fifo_a_folder_and_a_device_are_refused_at_once(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for path in (fifo, tmp_path, Path("/dev/zero"), Path("/dev/stdin")):
        assert process.run([verb, str(path)]) == 2
        assert "not a plain file" in capsys.readouterr().err


def test_a_link_that_leads_nowhere_or_to_itself_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "gone").symlink_to(tmp_path / "nothing")
    for name in ("loop", "gone", "never", "x" * 5000, "latest", RUN):
        code, out, err = replay(capsys, name)
        assert (code, out) == (2, "")
        assert err.count("\n") == 1


MEASURE: Final = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:], capture_output=True, text=True, check=False)
print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, done.stderr)
"""


def measured(*arguments: object) -> tuple[int, float, str]:
    """Run the bot; return exit code, most memory in MB, and stderr."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, *BOT, *map(str, arguments)],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    code, kibibytes, said = done.stdout.split(" ", 2)
    return int(code), int(kibibytes) * 1024 / 1e6, said


def replay_measured(path: Path) -> tuple[int, float, str]:
    """Replay a journal; return exit code, the memory in MB that a short one needs not, stderr."""
    short = path.with_name("short.jsonl")
    short.write_bytes(plain())
    _, least, _ = measured("replay", short)
    code, most, said = measured("replay", path)
    return code, most - least, said


@pytest.mark.parametrize(
    "where",
    [
        "first",
        pytest.param("last", marks=pytest.mark.slow),
        pytest.param("in the middle", marks=pytest.mark.slow),
    ],
)
def test_a_line_of_a_gigabyte_takes_no_memory(where: str, tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    before = {"first": b"", "last": plain(), "in the middle": plain()}[where]
    with path.open("wb") as file:
        file.write(before + b'{"seq":44,"ts":"')
        file.seek(10**9)
        file.write(b'"}\n' + plain() if where == "in the middle" else b"x")
    code, megabytes, said = replay_measured(path)
    assert code == (2 if where == "first" else 1), said
    assert megabytes < 20  # twice the longest line


@pytest.mark.slow
def test_memory_does_not_grow_with_the_lines(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    retry = b'{"seq":%d,"ts":"2026-11-30T02:41:07.000Z","event":"retry","what":"init","attempt":%d,'
    rest = b'"cause":"HTTP 503","status":503,"excerpt":"","wait_s":0.5}\n'
    with path.open("wb") as file:
        file.write(lines_of(plain())[0])
        for seq in range(1, 200_001):
            file.write(retry % (seq, seq) + rest)
    code, megabytes, said = replay_measured(path)
    assert code == 0, said
    assert megabytes < 2


# What a file may look like

SHAPES: Final[dict[str, Callable[[bytes], bytes]]] = {
    "plain": bytes,
    "gzipped": gzip.compress,
    "gzipped in parts": lambda j: gzip.compress(j[:999]) + gzip.compress(j[999:]),
    "with a byte order mark": lambda j: b"\xef\xbb\xbf" + j,
    "with CRLF": lambda j: j.replace(b"\n", b"\r\n"),
    "with both, gzipped": lambda j: gzip.compress(b"\xef\xbb\xbf" + j.replace(b"\n", b"\r\n")),
    "with sorted names": lambda j: b"".join(
        json.dumps(json.loads(line), sort_keys=True).encode() + b"\n" for line in lines_of(j)
    ),
    "not escaped": lambda j: b"".join(
        json.dumps(json.loads(line), ensure_ascii=False).encode() + b"\n" for line in lines_of(j)
    ),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("name", JOURNALS)
def test_a_journal_verifies_in_any_shape(
    name: str, shape: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    path = tmp_path / "j"
    path.write_bytes(shape(JOURNALS[name]()))
    assert verify(path).problems == []


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_fault_has_the_same_line_number_in_any_shape(
    shape: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    changed = change(eventful(), 24, lambda record: record.update(score=1))
    fault = first_fault(tmp_path / "j", shape(changed))
    assert fault == Problem(24, 23, "score is 1, expected 910")


def test_a_run_with_a_byte_order_mark_is_gone_on_with_at_the_right_place(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    whole = b"\xef\xbb\xbf" + b"".join(lines_of(eventful())[:20])
    path.write_bytes(whole + b'{"seq":20,')
    recovered = recover(path)
    assert (recovered.size, recovered.cut_bytes) == (len(whole), 10)


def test_a_zip_that_is_cut_off_is_read_as_far_as_it_is_whole_and_the_rest_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "j.jsonl.gz"
    path.write_bytes(gzip.compress(b"".join(lines_of(plain())[:10])) + gzip.compress(plain())[:40])
    code, out, _ = replay(capsys, str(path))
    assert code == 1
    assert out.startswith("line 11 (seq 10): line is ")


@pytest.mark.parametrize("torn", [b"{", b'{"seq":54,"ts":"2026-1', b"\x00" * 4096, b"\xff"])
def test_a_torn_last_line_is_said_and_no_fault(
    torn: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "j.jsonl"
    path.write_bytes(b"".join(lines_of(eventful())[:-1]) + torn)
    code, out, _ = replay(capsys, str(path))
    assert code == 0
    assert f"ignored: a last line that was cut off after {len(torn)} bytes" in out


@pytest.mark.parametrize(
    ("torn", "shown"),
    [(b'{"seq":', "'{\"seq\":'"), (b"\xff" + b"x" * 50, f"'\ufffd{'x' * 39}'")],
    ids=["text", "bytes"],
)
def test_a_torn_line_after_the_end_is_a_fault(torn: bytes, shown: str, tmp_path: Path) -> None:
    fault = first_fault(tmp_path / "j", plain() + torn)
    assert fault == Problem(45, 44, f"line is {shown}, expected nothing after the end")


# The verb


def test_replay_says_what_a_run_is_worth(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "j.jsonl"
    path.write_bytes(plain())
    run_id = json.loads(lines_of(plain())[0])["run_id"]
    assert replay(capsys, str(path)) == (
        0,
        f"verified: {run_id}, 1,970 points, 8 boards, 42 actions, banked\n",
        "",
    )
    assert replay(capsys, str(path), "--json") == (
        0,
        json.dumps(
            {
                "run_id": run_id,
                "verified": True,
                "score": 1970,
                "boards": 8,
                "actions": 42,
                "problems": [],
            }
        )
        + "\n",
        "",
    )


def test_an_unfinished_run_is_verified_as_far_as_it_goes_and_said_to_be_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "j.jsonl"
    path.write_bytes(stopped())
    code, out, _ = replay(capsys, str(path))
    assert code == 0
    assert out.startswith("verified as far as it goes, for it is unfinished: ")
    code, out, err = replay(capsys, str(path), "--json")
    assert json.loads(out)["verified"] is True
    assert err.startswith("verified as far as it goes, for it is unfinished: ")


def test_an_abandoned_run_is_verified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "j.jsonl"
    path.write_bytes(abandoned())
    code, out, _ = replay(capsys, str(path))
    assert code == 0
    assert out.endswith(", 215 points, 1 board, 3 actions, abandoned\n")


def test_the_verdict_on_a_newer_journal_names_no_run_that_was_not_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "j.jsonl"
    path.write_bytes(change(plain(), 1, lambda record: record.update(journal_version=2)))
    code, out, _ = replay(capsys, str(path))
    first, last = out.splitlines()
    assert code == 1
    assert "written by a newer version" in first
    assert last.startswith("not verified: a run of no name, ")


def test_problems_stand_each_on_a_line_and_the_verdict_after_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "j.jsonl"
    changed = change(plain(), 5, lambda record: record.update(score=431, award=216))
    path.write_bytes(changed)
    code, out, _ = replay(capsys, str(path))
    assert code == 1
    assert out.splitlines()[:2] == [
        "line 5 (seq 4): award is 216, expected 215",
        "line 5 (seq 4): score is 431, expected 430",
    ]
    assert out.splitlines()[2].startswith("not verified: ")
    code, out, _ = replay(capsys, str(path), "--json")
    result = json.loads(out)
    assert (code, result["verified"]) == (1, False)
    assert result["problems"] == [
        {"line": 5, "seq": 4, "text": "award is 216, expected 215"},
        {"line": 5, "seq": 4, "text": "score is 431, expected 430"},
    ]


@pytest.mark.parametrize("hostile", ["\x1b[2J", "\r\n", "\u202e", "\ud800", "\x07\x00"])
def test_nothing_in_a_journal_moves_the_terminal_or_forges_a_line(
    hostile: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "j.jsonl"

    def edit(record: dict[str, Any]) -> None:
        record["run_id"] = record["base_url"] = hostile + record["run_id"]
        record["state"][hostile] = hostile
        record[hostile] = hostile

    for change_in in (edit, lambda record: record.update(run_id=hostile)):
        path.write_bytes(change(plain(), 1, change_in))
        for verb in (["replay"], ["replay", "--watch"], ["status"]):
            process.run([*verb, str(path)])
            printed = capsys.readouterr()
            for line in (printed.out + printed.err).split("\n"):
                assert line.isprintable()


def test_replay_finds_a_run_by_its_name_and_the_latest_by_its_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = tmp_path / "elsewhere"
    early, late = "20261130T024107Z-seed9-ffff", "20261130T024108Z-seed7-0000"
    write_journal(runs, late, run_events(late, bank_at=215))
    os.utime(write_journal(runs, early, run_events(early, bank_at=430)))  # written last
    (runs / "20271130T024108Z-seed7-0000.jsonl").write_bytes(b'{"seq":0,')  # no run
    (runs / "20281130T024108Z-seed7-0000.txt").write_bytes(b"")
    for arguments in (("--runs-dir", str(runs)), ()):
        with pytest.MonkeyPatch.context() as patch:
            if not arguments:
                patch.setenv("SUNPLEAT_RUNS_DIR", str(runs))
            assert f"{late}, 215 points" in replay(capsys, "latest", *arguments)[1]
            assert f"{early}, 430 points" in replay(capsys, early, *arguments)[1]
    assert replay(capsys, "latest")[0] == 2


def test_a_flag_names_the_runs_folder_over_the_environment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_journal(tmp_path / "there", RUN, run_events(RUN, bank_at=215))
    monkeypatch.setenv("SUNPLEAT_RUNS_DIR", str(tmp_path / "nowhere"))
    assert process.run(["replay", "latest", "--runs-dir", str(tmp_path / "there")]) == 0
    assert RUN in capsys.readouterr().out


def test_replay_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = tmp_path / "runs"
    path = write_journal(runs, RUN, run_events(RUN, bank_at=215)[:-1])
    path.write_bytes(path.read_bytes() + b"torn")
    before = (path.read_bytes(), path.stat().st_mtime_ns, sorted(tmp_path.rglob("*")))
    for more in ([], ["--json"], ["--watch"], ["--against", "local"]):
        process.run(["replay", "latest", *more])
    capsys.readouterr()
    assert (path.read_bytes(), path.stat().st_mtime_ns, sorted(tmp_path.rglob("*"))) == before


def test_plain_replay_imports_nothing_heavy(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    path.write_bytes(plain())
    program = (
        "import sys\nfrom bot.cli import process\n"
        f"code = process.run(['replay', {str(path)!r}])\n"
        "print(code, [n for n in ('rich', 'requests', 'structlog', 'filelock', 'tenacity', "
        "'gzip', 'itsdangerous') if n in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "0 []"


# Speed and memory


@pytest.mark.slow
def test_the_run_to_a_million_verifies_in_little_memory(tmp_path: Path) -> None:
    path = write_journal(tmp_path, RUN, run_events(RUN, bank_at=1_000_000))
    code, megabytes, said = replay_measured(path)
    assert code == 0, said
    assert megabytes < 2
