"""The one loop that holds a journal, line by line, against the rules and the lines before it.

`check_lines` is the loop. Resuming, `replay`, `status` and `report` all use it: `recover` ends at
the first line that is wrong, `Verification` tells of each.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from bot import rules, strategy
from bot.errors import ActionError, Contradiction, GarlandError, JournalDamaged, NotAJournal
from bot.garland import parse_garland
from bot.journal import events
from bot.journal.events import (
    EVENT_NAMES,
    ActionTaken,
    Event,
    FieldsDiverged,
    LayoutChanged,
    Refused,
    Retried,
    RunAbandoned,
    RunEnded,
    RunResumed,
    RunStarted,
    RunSuspended,
)
from bot.journal.folder import parse_run_id
from bot.journal.reader import (
    Entry,
    LineError,
    NewerFormat,
    RawLine,
    is_of_a_journal,
    parse_line,
    read_lines,
)
from bot.rules import Action, State
from bot.run import Run, action_taken, spec_digest
from bot.wire.fields import FINAL_SCORE, SCORE, expectation, field_spelled, public_fields
from bot.wire.layout import Layout, layout_from_json
from bot.wire.values import MAX_EXCERPT, fold_name, parse_path

MAX_PROBLEMS: Final = 10
"""Problems after which nothing more is read: most of them follow from the first."""
FOREIGN_LINES: Final = 3
"""Lines after which a file without a line of a journal is none."""
HTTP_STATUSES: Final = range(100, 1000)


class Problem(NamedTuple):
    """In what a line contradicts the rules or the lines before it."""

    line: int
    """From 1."""
    seq: int
    """The number that the line has, or should have where it cannot be read."""
    text: str

    def __str__(self) -> str:
        """Say it in one line."""
        return f"line {self.line} (seq {self.seq}): {self.text}"


class Checked(NamedTuple):
    """A line, and what came of it."""

    line: RawLine
    entry: Entry | None
    """None where the line cannot be read."""
    problems: list[LineError]
    """In what it is wrong; the line after one that was lost is believed."""


def check_lines(path: Path, run: Run) -> Iterator[Checked]:
    """Hold line after line of the journal at `path` against `run`, which takes note of each.

    Raises:
        NotAJournal: the file cannot be read, or begins with a line that no journal can have.
    """
    is_lost = False  # whether the line before could not be read
    for line in read_lines(path):
        try:
            entry = parse_line(line)
        except LineError as exc:
            is_lost = True
            yield Checked(line, None, [exc])
        else:
            problems = take(run, entry)
            yield Checked(line, entry, [] if is_lost else problems)
            is_lost = False


class Verification:
    """One pass over a journal, and what it brought."""

    def __init__(self, path: Path) -> None:
        """Begin before the first line of the journal at `path`."""
        self.path = path
        self.run = Run()
        self.problems: list[Problem] = []
        self.lines = 0
        """Lines that were read, one that was cut off included."""
        self.torn_bytes = 0
        """Of a last line that was cut off while it was written."""

    @property
    def run_id(self) -> str | None:
        """The run's name, None where the first line cannot be read."""
        return self.run.started.run_id if self.run.started else None

    @property
    def is_verified(self) -> bool:
        """Whether every line that was read is as it has to be."""
        return not self.problems

    def read_all(self) -> None:
        """Read to the end, or to one problem too many.

        Raises:
            NotAJournal: the file cannot be read, or is no journal.
        """
        for _ in self.steps():
            pass

    def steps(self) -> Iterator[Entry]:
        """Take line after line; yield each that the run has taken note of.

        Raises:
            NotAJournal: the file cannot be read, or is no journal.
        """
        run = self.run
        is_known = False  # whether any line so far looks like one of a journal
        for line, entry, problems in self._check_lines():
            is_known = is_known or entry is not None or is_of_a_journal(line)
            if entry is not None:
                for problem in problems:
                    self._add(line, run.next_seq - 1, problem)
                yield entry
            elif is_known and line.is_torn:
                self._take_torn(line, problems[0])
                return
            else:
                self._add(line, run.next_seq, problems[0])
                if not is_known and line.number >= FOREIGN_LINES:
                    break
            if len(self.problems) >= MAX_PROBLEMS:
                return
        if not is_known:
            why = self.problems[0].text if self.problems else "it is empty"
            raise NotAJournal(f"{self.path} is no journal: {why}")

    def _check_lines(self) -> Iterator[Checked]:
        """Check the lines; a file that cannot be read any further has a problem there."""
        try:
            for checked in check_lines(self.path, self.run):
                self.lines = checked.line.number
                yield checked
        except NotAJournal as exc:
            if not self.lines:
                raise
            self.problems.append(Problem(self.lines + 1, self.run.next_seq, str(exc)))

    def _take_torn(self, line: RawLine, error: LineError) -> None:
        """Take note of a last line without its end: a crash leaves one, but not after the end."""
        self.torn_bytes = len(line.text)
        if self.run.is_over:
            error = LineError(error.field, error.logged, "nothing after the end")
            self._add(line, self.run.next_seq, error)

    def _add(self, line: RawLine, seq: int, error: LineError) -> None:
        self.problems.append(Problem(line.number, seq, str(error)))


class Recovered(NamedTuple):
    """A journal that can be gone on with."""

    run: Run
    size: int
    """Bytes of its whole lines."""
    cut_bytes: int
    """Bytes of a torn last line after them."""


def recover(path: Path) -> Recovered:
    """Fold the journal at `path`, up to a torn last line if there is one.

    A crash tears at most the last line, so a last line that cannot be read, with its line end or
    without, costs that line; `Verification` calls one with its end a fault. A broken line before
    it, or one that the rules contradict, is damage of another kind and is left for people to look
    at.

    Raises:
        JournalDamaged: it is damaged before its last line.
        NotAJournal: it cannot be read.
    """
    run = Run()
    size = end = 0
    broken: tuple[int, LineError] | None = None
    for line, entry, problems in check_lines(path, run):
        if broken is not None:
            raise _damaged(path, *broken)
        end = line.end
        if entry is None:
            broken = line.number, problems[0]
        elif problems:
            raise _damaged(path, line.number, problems[0])
        else:
            size = end
    if broken is not None and isinstance(broken[1], NewerFormat):
        raise _damaged(path, *broken)
    return Recovered(run, size, end - size)


def _damaged(path: Path, number: int, problem: LineError) -> JournalDamaged:
    if isinstance(problem, NewerFormat):
        return JournalDamaged(f"cannot resume the journal {path}: {problem}")
    return JournalDamaged(
        f"the journal {path} is damaged at line {number}: {problem}. It was left as it is and "
        f"nothing was sent; --fresh starts a new run"
    )


def take(run: Run, entry: Entry) -> list[LineError]:
    """Let `run` take note of a line that was read back; return in what it is wrong, if anything.

    After a line that contradicts the ones before it, what it says is believed where nothing
    else could be, so that one fault is not told over and over.
    """
    event = entry.event
    if entry.seq != run.next_seq:
        problems = [LineError("seq", entry.seq, str(run.next_seq))]
        run.next_seq = entry.seq
    else:
        problems = _check_order(run, event)
    if isinstance(event, ActionTaken):
        if problems:
            after = _at_its_word(event, run.state)
        else:
            after, problems = _check_action(run, event)
        run.advance(event, entry.ts, after)
    else:
        problems = problems or [*_check(run, event)]
        run.advance(event, entry.ts)
    return problems


# What may follow what


_IN_PLAY: Final = frozenset(
    {
        ActionTaken,
        Retried,
        Refused,
        LayoutChanged,
        FieldsDiverged,
        RunResumed,
        RunSuspended,
        RunAbandoned,
    }
)


def _check_order(run: Run, event: Event) -> list[LineError]:
    """Return in what an event does not follow the ones before it, if anything."""
    may_follow, expected = _next(run)
    if type(event) in may_follow:
        return []
    return [LineError("event", EVENT_NAMES[type(event)], expected)]


def _next(run: Run) -> tuple[frozenset[type], str]:
    if run.started is None and run.next_seq == 0:
        return frozenset({RunStarted}), "run.started first"
    if run.is_over:
        return frozenset(), "nothing after the end"
    if run.state.phase == rules.ENDED:
        return frozenset({RunSuspended, RunEnded}), "run.ended after the last action"
    if run.diverged is not None:
        return frozenset({RunSuspended, RunResumed}), "run.suspended after diverged"
    if run.suspended is not None:
        return frozenset({RunResumed}), "run.resumed after run.suspended"
    return _IN_PLAY, "a line of a run that is going on"


# Actions


def _check_action(run: Run, event: ActionTaken) -> tuple[State, list[LineError]]:
    """Return the state after an action line, and in what the line is wrong."""
    if run.pending is not None and event.action != run.pending:
        problem = LineError("action", event.action, f"{run.pending} again")
        return _at_its_word(event, run.state), [problem]
    try:
        action = rules.parse_action(event.action)
        after = rules.apply(run.state, action)
    except ActionError as exc:
        problem = LineError("action", event.action, f"a legal action: {exc}")
        return _at_its_word(event, run.state), [problem]
    expected = action_taken(
        run.state, after, action, event.token, run.failures + 1, event.elapsed_ms
    )
    problems = [
        LineError(name, getattr(event, name), repr(right))
        for name, right in expected._asdict().items()
        if not _is_equal(getattr(event, name), right)
    ]
    problems.extend(_check_bank_rule(run, action, after))
    return after, problems


def _check_bank_rule(run: Run, action: Action, after: State) -> Iterator[LineError]:
    """Yield a problem where the bank rule is not kept."""
    if run.started is None:
        return  # the goal is lost with the first line
    goal = run.goal
    if strategy.is_met(run.state, goal):
        if action != rules.BANK:
            yield LineError("action", action.to_json(), f"bank: {goal.bank_at} is reached")
    elif action == rules.BANK:
        if strategy.decide(run.state, goal) != rules.BANK:
            yield LineError("action", action.to_json(), "play on: the bank rule is not met")
    elif (
        goal.rule == strategy.EXACTLY
        and after.phase == rules.CLEARED
        and after.score != goal.bank_at
        and strategy.decide(after, goal) == rules.BANK
        and strategy.decide(run.state, goal) != rules.BANK
    ):
        yield LineError("score", after.score, f"a score from which {goal.bank_at} is in reach")


def _at_its_word(event: ActionTaken, before: State) -> State:
    """Return the state that an action line claims, whatever came before it."""
    end_reason = None
    if event.phase == rules.ENDED:
        is_banked = event.action == rules.BANK.to_json()
        end_reason = rules.BANKED if is_banked else rules.OUT_OF_LIVES
    try:
        garland = parse_garland(event.garland)
    except GarlandError:
        garland = before.garland
    is_template = 1 <= event.template <= len(rules.STARTS)
    return State(
        phase=event.phase if event.phase in rules.PHASES else before.phase,
        board_number=event.board,
        template_index=event.template if is_template else before.template_index,
        garland=garland,
        moves_used=event.moves_used,
        move_budget=event.move_budget,
        leaves=event.leaves,
        score=event.score,
        cleared_boards=before.cleared_boards + (event.phase == rules.CLEARED),
        last_award=event.award,
        end_reason=end_reason,
        turn=event.turn,
    )


# All other lines


def _check(run: Run, event: Event) -> Iterator[LineError]:
    """Yield in what any line but an action's is wrong."""
    match event:
        case RunStarted():
            yield from _check_start(event)
        case Retried():
            yield from _check_retry(run, event)
        case Refused():
            yield from _check_failure(run, "action", event.action)
        case LayoutChanged():
            yield from _check_wire(event.wire)
        case FieldsDiverged():
            yield from _check_divergence(run, event)
        case RunEnded():
            yield from _check_totals(run, event)
        case _:
            yield from _check_sitting(run, event)


def _check_start(event: RunStarted) -> Iterator[LineError]:
    fresh = public_fields(rules.fresh())
    for name, right in fresh.items():
        logged = event.state.get(name, "missing")
        if not _is_equal(logged, right):
            yield LineError(f"state.{name}", logged, repr(right))
    for name in event.state.keys() - fresh.keys():
        yield LineError(f"state.{name}", event.state[name], "no such field")
    yield from _check_wire(event.wire)
    yield from _check_rule_name(event.bank_rule)
    if spec_digest(event.spec) != event.spec_sha256:
        yield LineError("spec_sha256", event.spec_sha256, repr(spec_digest(event.spec)))
    named = parse_run_id(event.run_id)
    if named is None or named.seed != event.seed:
        yield LineError("run_id", event.run_id, f"a run id with seed {event.seed}")


def _check_wire(wire: dict[str, object]) -> Iterator[LineError]:
    try:
        places = layout_from_json(wire).to_json()
    except ValueError as exc:
        yield LineError("wire", wire, str(exc))
    else:
        if not _is_equal(places, wire):
            yield LineError("wire", wire, repr(places))


def _check_rule_name(bank_rule: str) -> Iterator[LineError]:
    if bank_rule not in strategy.BANK_RULES:
        yield LineError("bank_rule", bank_rule, " or ".join(map(repr, strategy.BANK_RULES)))


def _check_sitting(run: Run, event: Event) -> Iterator[LineError]:
    """Yield in what a line that begins or ends a sitting is wrong."""
    diverged = Contradiction.exit_code
    match event:
        case RunResumed(from_seq=seq, bank_rule=rule):
            if seq != run.next_seq - 1:
                yield LineError("from_seq", seq, str(run.next_seq - 1))
            yield from _check_rule_name(rule)
        case RunSuspended(exit_code=code) if run.diverged and code != diverged:
            yield LineError("exit_code", code, f"{diverged} after diverged")
        case RunSuspended(exit_code=code) if code not in events.SUSPENDING:
            yield LineError("exit_code", code, "an exit code of a suspended run")
        case RunAbandoned() if not run.failures:
            yield LineError("event", "run.abandoned", "a retry line before it")


def _check_retry(run: Run, event: Retried) -> Iterator[LineError]:
    attempt = run.failures + 1
    if isinstance(event.what, dict):
        yield from _check_failure(run, "what", event.what)
    elif run.next_seq == run.retries + 1 and run.pending is None:  # those of init come first
        attempt = run.next_seq
    else:
        yield LineError("what", event.what, "an action")
    if event.attempt != attempt:
        yield LineError("attempt", event.attempt, str(attempt))
    if event.status is not None and event.status not in HTTP_STATUSES:
        yield LineError("status", event.status, "an HTTP status or null")
    if len(event.excerpt) > MAX_EXCERPT:
        yield LineError("excerpt", event.excerpt, f"{MAX_EXCERPT} characters at most")


def _check_failure(run: Run, field: str, action: dict[str, object]) -> Iterator[LineError]:
    parsed = _parse(action)
    if run.pending is not None and not _is_equal(action, run.pending):
        yield LineError(field, action, f"{run.pending} again")
    elif (
        parsed is None
        or parsed not in rules.legal_actions(run.state)
        or not _is_equal(action, parsed.to_json())
    ):
        yield LineError(field, action, "a legal action")


def _parse(action: dict[str, object] | None) -> Action | None:
    try:
        return rules.parse_action(action)
    except ActionError:
        return None


def _check_divergence(run: Run, event: FieldsDiverged) -> Iterator[LineError]:
    """Yield in what a `diverged` line is wrong: it names fields that are not as predicted."""
    if run.pending is None:
        yield LineError("event", "diverged", "a retry line before it")
        return
    action = _parse(run.pending)
    if action not in rules.legal_actions(run.state) or action is None:
        return  # as was said of a line before
    if not event.fields:
        yield LineError("fields", event.fields, "at least one field")
    try:
        layout = layout_from_json(run.wire)
    except ValueError:
        return  # likewise
    expected = expectation(rules.apply(run.state, action))
    for label, pair in event.fields.items():
        field = f"fields.{label}"
        name = _name_of(layout, label)
        if name is None or name not in expected:
            yield LineError(field, pair, "a field of the service's answers")
        elif not isinstance(pair, dict) or pair.keys() != {"predicted", "observed"}:
            yield LineError(field, pair, "predicted and observed")
        elif not _is_equal(pair["predicted"], expected[name]):
            yield LineError(field, pair["predicted"], repr(expected[name]))
        elif _is_equal(pair["observed"], expected[name]):
            yield LineError(field, pair["observed"], "a value that was not predicted")


def _name_of(layout: Layout, label: str) -> str | None:
    """Return the page's name of the field that a `diverged` line names by key or dotted path."""
    places = [
        *((path, "garland") for path in layout.garlands),
        *((path, name) for name, paths in layout.fields.items() for path in paths),
    ]
    try:
        path = parse_path(label)
    except ValueError:
        path = (label,)
    at_path = {name for place, name in places if place == path}
    names = at_path or {name for place, name in places if place[-1] == label}
    if len(names) == 1:
        return names.pop()
    if fold_name(path[-1]) == fold_name(FINAL_SCORE):
        return SCORE
    return field_spelled(path[-1])


def _check_totals(run: Run, event: RunEnded) -> Iterator[LineError]:
    for name, right in run.totals()._asdict().items():
        logged = getattr(event, name)
        is_doubtful = name == "seconds" and run.has_gone_back  # was counted otherwise before
        if logged != right and not is_doubtful:
            yield LineError(name, logged, repr(right))


def _is_equal(logged: object, right: object) -> bool:
    """Tell whether two JSON values are written alike: `1.0` is not 1, and `true` is not."""
    if type(logged) is not type(right):
        return False
    match logged, right:
        case dict() as ours, dict() as theirs:
            return ours.keys() == theirs.keys() and all(
                _is_equal(value, theirs[name]) for name, value in ours.items()
            )
        case list() as ours, list() as theirs:
            return len(ours) == len(theirs) and all(map(_is_equal, ours, theirs))
    return logged == right
