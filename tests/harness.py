"""Real processes of the bot, disks that fail, and a service to die in the middle of."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

from standins import KEY, journal_lines

from bot import rules, strategy
from bot.journal import writer
from bot.journal.events import ActionTaken, Event, RunEnded, RunStarted
from bot.journal.folder import journal_path, parse_run_id
from bot.rules import Action, State
from bot.run import action_taken, spec_digest
from bot.service import Answer, Service
from bot.strategy import Goal

ROOT: Final = Path(__file__).parent.parent
BOT: Final = (sys.executable, "-m", "bot")
PATIENCE_S: Final = 120.0
"""How long a process is waited for before its test fails, on the slowest machine."""

STOPS: Final = {
    "SIGINT": (signal.SIGINT, 130),
    "SIGTERM": (signal.SIGTERM, 143),
    "SIGHUP": (signal.SIGHUP, 129),
}
"""Name of each signal that stops the bot: the signal, and the exit code it brings."""


# Games


def plan_game(goal: Goal, state: State | None = None) -> Iterator[tuple[State, Action, State]]:
    """Yield every step of best play: the state, the action, the state after it."""
    state = state or rules.fresh()
    while state.phase != rules.ENDED:
        action = strategy.decide(state, goal)
        after = rules.apply(state, action)
        yield state, action, after
        state = after


@cache
def unbroken_actions(bank_at: int = 3030) -> tuple[str, ...]:
    """Return the actions of a run that nothing disturbs, as JSON."""
    return tuple(json.dumps(action.to_json()) for _, action, _ in plan_game(Goal(bank_at)))


def actions_of(path: Path) -> tuple[str, ...]:
    """Return the actions of a journal, as JSON."""
    return tuple(json.dumps(line["action"]) for line in journal_lines(path, "action"))


def only_journal(runs_dir: Path) -> Path:
    """Return the one journal of a folder."""
    (path,) = runs_dir.glob("*.jsonl")
    return path


def started(run_id: str, bank_at: int = 3030, **changes: Any) -> RunStarted:
    """Return the first line of a run on the built-in service."""
    spec = {"goal": "as ever"}
    event = RunStarted(
        journal_version=1,
        run_id=run_id,
        bot_version="1.0.0",
        base_url="http://local",
        seed=7,
        bank_at=bank_at,
        bank_rule="at-least",
        token=token_of(rules.fresh()),
        state=_public(rules.fresh()),
        wire={"token": "stateToken", "garland": "state.garland", "passed_over": {}},
        spec=spec,
        spec_sha256=spec_digest(spec),
    )
    return event._replace(**changes)


def _public(state: State) -> dict[str, object]:
    fields: dict[str, object] = ask(Service(KEY), state)["state"]
    return fields


def ask(service: Service, state: State) -> dict[str, Any]:
    """Return the whole answer of a service that stands at `state`."""
    return service._public(state)


def token_of(state: State) -> str:
    """Return the token of `state` that the services of the tests take."""
    token: str = ask(Service(KEY), state)["stateToken"]
    return token


def taken(before: State, action: Action) -> ActionTaken:
    """Return the line of an action that was answered at once."""
    after = rules.apply(before, action)
    return action_taken(before, after, action, token_of(after), 1, 0.5)


def run_events(
    run_id: str, actions: Iterable[Action] | None = None, bank_at: int = 3030
) -> list[Event]:
    """Return every line of a run of these actions, of best play if none are given."""
    state = rules.fresh()
    lines: list[Event] = [started(run_id, bank_at)]
    if actions is None:
        actions = [action for _, action, _ in plan_game(Goal(bank_at))]
    for action in actions:
        lines.append(taken(state, action))
        state = rules.apply(state, action)
    if state.phase == rules.ENDED:
        taken_lines = [line for line in lines if isinstance(line, ActionTaken)]
        lines.append(
            RunEnded(
                end_reason=str(state.end_reason),
                score=state.score,
                boards=state.cleared_boards,
                flips=sum("count" in line.action for line in taken_lines),
                requests=1 + len(taken_lines),
                retries=0,
                seconds=0.0,
            )
        )
    return lines


def write_journal(runs_dir: Path, run_id: str, events: Iterable[Event]) -> Path:
    """Write a journal of these lines, all of them at the second that its name tells."""
    run = parse_run_id(run_id)
    assert run is not None
    moment = datetime.strptime(f"{run.started}+0000", "%Y%m%dT%H%M%SZ%z")
    runs_dir.mkdir(parents=True, exist_ok=True)
    journal = writer.create(journal_path(runs_dir, run_id), lambda: moment)
    for event in events:
        journal.write(event)
    journal.close()
    return journal.path


# Faults


class Died(BaseException):
    """The process ends here: nothing after this point happens."""


Spoil: TypeAlias = Callable[[Answer], Answer]
"""Makes another answer of the true one."""


def instead(status: int, body: object) -> Spoil:
    """Answer otherwise; anything but bytes is sent as JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return lambda _: Answer(status, data)


def edited(**changes: object) -> Spoil:
    """Answer with other values in the public state, and beside it where they are there too."""

    def edit(answer: Answer) -> Answer:
        body = json.loads(answer.body)
        body["state"] |= changes
        body |= {name: value for name, value in changes.items() if name in body}
        return Answer(answer.status, json.dumps(body).encode())

    return edit


class Mortal(Service):
    """The local service, with a short `spec`; it counts, and some requests end the process."""

    def __init__(
        self, spoils: Mapping[int, Spoil] | None = None, *, shows: Sequence[str] = ()
    ) -> None:
        super().__init__(KEY)
        self.shows = tuple(shows)
        """The only fields that are sent beside the token; all of them where none are named."""
        self.spoils = spoils or {}
        """Number of a request, from 1, to what becomes of its answer."""
        self.requests: list[tuple[str, bytes]] = []
        """Target and body of every request."""
        self.log: list[str] = []
        """Shared with a `Disk`, what happened on both in order."""
        self.dies_before = self.dies_after = 0
        """Number of the request that never comes, or that is never answered."""

    def answer(self, method: str, target: str, body: bytes) -> Answer:
        number = len(self.requests) + 1
        if number == self.dies_before:
            raise Died
        self.requests.append((target, body))
        self.log.append("request")
        answer = _true_answer(method, target, body, self.shows)
        if number == self.dies_after:
            raise Died
        return self.spoils[number](answer) if number in self.spoils else answer


@cache
def _true_answer(method: str, target: str, body: bytes, shows: tuple[str, ...]) -> Answer:
    """Answer as the local service does; the same request always has the same answer."""
    answer = json.loads(Service(KEY).answer(method, target, body).body)
    if shows:
        answer = {"stateToken": answer["stateToken"], "state": answer["state"]}
        answer["state"] = {name: answer["state"][name] for name in shows}
    if not body:
        answer["spec"] = "short"
    return Answer(200, json.dumps(answer).encode())


class Disk:
    """Stands for `os` in the writer: a disk that fills up, breaks, or loses its power."""

    def __init__(self) -> None:
        self.syncs = 0
        self.log: list[str] = []
        """Every line and sync, in order: the event's name, or `sync`."""
        self.room = sys.maxsize
        """Bytes that can still be written."""
        self.dying: tuple[str, int, int] | None = None
        """An event, how many of its lines are still written, and how many bytes of the next."""
        self.last_line = b""
        """The line in which the process died."""
        self.error = errno.ENOSPC
        self.truncate_error = 0
        self.sync_error = 0
        self.longest_write = sys.maxsize

    def write(self, descriptor: int, data: bytes) -> int:
        line = bytes(data)
        if self.dying is not None and b'"event":"%s"' % self.dying[0].encode() in line:
            event, left, size = self.dying
            if left == 0:
                self.last_line = line
                os.write(descriptor, line[:size])
                raise Died
            self.dying = (event, left - 1, size)
        if self.room <= 0:
            raise OSError(self.error, os.strerror(self.error))
        written = os.write(descriptor, line[: min(self.room, self.longest_write)])
        self.room -= written
        if line.startswith(b"{") and written == len(line):
            self.log.append(json.loads(line)["event"])
        return written

    def fdatasync(self, _: int) -> None:
        self.syncs += 1
        self.log.append("sync")
        if self.sync_error:
            raise OSError(self.sync_error, os.strerror(self.sync_error))

    def fsync(self, _: int) -> None:
        if self.sync_error:
            raise OSError(self.sync_error, os.strerror(self.sync_error))

    def ftruncate(self, descriptor: int, size: int) -> None:
        if self.truncate_error:
            raise OSError(self.truncate_error, os.strerror(self.truncate_error))
        os.ftruncate(descriptor, size)

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


# Processes


def environment(**changes: str | None) -> dict[str, str]:
    """Return an environment that knows the bot and says nothing else of it; None leaves out."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.upper().startswith(("SUNPLEAT_", "PYTHON", "COV_", "COVERAGE"))
        and not name.upper().endswith(("_PROXY", "_CA_BUNDLE"))
        and name not in ("SSLKEYLOGFILE", "PYTEST_CURRENT_TEST")
    }
    merged = {**kept, "PYTHONPATH": str(ROOT), "COLUMNS": "200", **changes}
    return {name: value for name, value in merged.items() if value is not None}


def run_bot(
    folder: Path,
    *arguments: str,
    env: Mapping[str, str] | None = None,
    launcher: Sequence[str] = (),
    **options: Any,
) -> subprocess.CompletedProcess[str]:
    """Run the bot in `folder`, with its runs folder there, to its end."""
    return subprocess.run(
        [*launcher, *BOT, *arguments],
        cwd=folder,
        env=env or environment(),
        capture_output=not options.keys() & {"stdout", "stderr"},
        text=True,
        errors="surrogateescape",
        timeout=PATIENCE_S,
        check=False,
        **options,
    )


@contextmanager
def bot_process(
    folder: Path, *arguments: str, launcher: Sequence[str] = (), **options: Any
) -> Iterator[subprocess.Popen[str]]:
    """Start the bot in `folder`; its stderr is a pipe. It is killed at the end if it still runs."""
    process = subprocess.Popen(
        [*launcher, *BOT, *arguments],
        cwd=folder,
        env=environment(),
        text=True,
        **{"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, **options},
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr, process.stdin):
            if stream is not None:
                stream.close()


@contextmanager
def served(folder: Path, *arguments: str) -> Iterator[str]:
    """Serve the game over HTTP in a process of its own; give its base URL."""
    with bot_process(
        folder, "serve", "--port", "0", *arguments, stdout=subprocess.PIPE, stderr=None
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()


def wait_for_line(process: subprocess.Popen[str], part: str) -> str:
    """Read what the process says until a line with `part` comes; fail if it ends before."""
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line)
        if part in line:
            return line
    raise AssertionError(f"the bot never said {part!r} but: {''.join(said)}")


def last_event(path: Path) -> dict[str, object]:
    """Return the last line of a journal, which has to be whole."""
    assert path.read_bytes().endswith(b"\n")
    return list(journal_lines(path))[-1]


def redirected(redirection: str) -> Sequence[str]:
    """Return what starts a process with its streams as a shell's `redirection` has them."""
    return ("sh", "-c", f'exec "$@" {redirection}', "sh")


def limit_file_size(size: int) -> Sequence[str]:
    """Return what starts a process that cannot write a file longer than `size` bytes."""
    assert size % 512 == 0, "the shell counts in blocks"
    return ("sh", "-c", 'ulimit -f "$0" && exec "$@"', str(size // 512))


def flags(**values: object) -> Sequence[str]:
    """Write settings as flags."""
    return [f"--{name.replace('_', '-')}={value}" for name, value in values.items()]
