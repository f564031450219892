"""Real processes: signals, kills, locks, standard streams, and disks that are full."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from harness import (
    BOT,
    PATIENCE_S,
    STOPS,
    actions_of,
    bot_process,
    environment,
    flags,
    last_event,
    limit_file_size,
    only_journal,
    redirected,
    run_bot,
    served,
    unbroken_actions,
    wait_for_line,
)
from standins import Reply, Request, StandIn, drip, hang, journal_lines, message, reply
from stopwatch import Stopwatch

from bot.journal.lock import lock_path
from bot.verify import recover

pytestmark = pytest.mark.slow

STOP_S: Final = 3.0
"""How long the bot may take to end once it is asked to."""
UP_TO: Final = 10
"""Requests that are answered before the service goes bad."""

stops = pytest.mark.parametrize(
    ("signal_number", "exit_code"), [pytest.param(*stop, id=name) for name, stop in STOPS.items()]
)


def check_whole_run(folder: Path, bank_at: int = 3030) -> Path:
    """Check that the one run in a folder ended as if nothing had disturbed it; return it."""
    path = only_journal(folder / "runs")
    assert actions_of(path) == unbroken_actions(bank_at)
    awards = sum(int(str(line["award"])) for line in journal_lines(path, "action"))
    assert awards == bank_at
    recovered = recover(path)
    assert recovered.cut_bytes == 0
    assert recovered.run.is_over
    assert recovered.run.state.score == bank_at
    return path


class Turning:
    """A plan that answers truly until a number of requests, and from then on by a reply."""

    def __init__(self, answer: Reply, up_to: int = UP_TO) -> None:
        self.has_turned = threading.Event()
        self._answer = answer
        self._up_to = up_to

    def __call__(self, _: Request, number: int) -> Reply | None:
        if number <= self._up_to:
            return None
        self.has_turned.set()
        return self._answer


@contextmanager
def stuck_bot(
    folder: Path, answer: Reply, launcher: Sequence[str] = ()
) -> Iterator[tuple[subprocess.Popen[str], StandIn]]:
    """Start a bot on a service that goes bad, and wait until it did."""
    plan = Turning(answer)
    with (
        StandIn(plan) as server,
        bot_process(
            folder, *flags(base_url=server.url, max_rps=0, bank_at=3030), launcher=launcher
        ) as process,
    ):
        assert plan.has_turned.wait(PATIENCE_S)
        yield process, server


def end_within(process: subprocess.Popen[str], seconds: float) -> int:
    """Return the exit code of a process that ends in time."""
    with Stopwatch() as stopwatch:
        code = process.wait(PATIENCE_S)
    assert stopwatch.seconds < seconds
    return code


def check_suspended(folder: Path, exit_code: int) -> None:
    """Check that the run was suspended by a signal, and goes on on a good service."""
    path = only_journal(folder / "runs")
    end = last_event(path)
    assert (end["event"], end["exit_code"]) == ("run.suspended", exit_code)
    assert actions_of(path) == unbroken_actions()[: UP_TO - 1]


# Signals

STUCK: Final[Mapping[str, Reply]] = {
    "a wait of minutes": reply(503, b"", ("Retry-After", "200")),
    "a hanging read": hang(),
    "a read that hangs in the body": hang(message(200, b'{"ok": true}')[:-5]),
    "a dripping body": drip(message(200, b" " * 10_000), at_once=100),
}


@stops
@pytest.mark.parametrize("answer", [pytest.param(reply, id=name) for name, reply in STUCK.items()])
def test_a_signal_ends_the_bot_in_time_and_leaves_the_run_to_go_on(
    answer: Reply, signal_number: int, exit_code: int, tmp_path: Path
) -> None:
    with stuck_bot(tmp_path, answer) as (process, server):
        if answer is STUCK["a wait of minutes"]:
            wait_for_line(process, "request failed")
        process.send_signal(signal_number)
        assert end_within(process, STOP_S) == exit_code
        check_suspended(tmp_path, exit_code)
        server.plan = lambda _, __: None
        again = run_bot(tmp_path, *flags(base_url=server.url, max_rps=0, bank_at=3030))
        assert again.returncode == 0
    check_whole_run(tmp_path)


@stops
def test_a_signal_before_the_first_answer_leaves_no_run(
    signal_number: int, exit_code: int, tmp_path: Path
) -> None:
    plan = Turning(hang(), up_to=0)
    with (
        StandIn(plan) as server,
        bot_process(tmp_path, *flags(base_url=server.url)) as process,
    ):
        assert plan.has_turned.wait(PATIENCE_S)
        process.send_signal(signal_number)
        assert end_within(process, STOP_S) == exit_code
    assert list((tmp_path / "runs").glob("*.jsonl")) == []


@stops
def test_a_signal_ends_a_bot_whose_connection_never_opens(
    signal_number: int, exit_code: int, tmp_path: Path
) -> None:
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        port = listener.getsockname()[1]
        for _ in range(4):  # more than a server takes that accepts none
            sock = stack.enter_context(socket.socket())
            sock.setblocking(False)
            sock.connect_ex(("127.0.0.1", port))
        waiting = opening_connections(port)
        call = flags(base_url=f"http://127.0.0.1:{port}")
        process = stack.enter_context(bot_process(tmp_path, *call))
        began = time.monotonic()
        while opening_connections(port) <= waiting and time.monotonic() - began < PATIENCE_S:
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.02)
        process.send_signal(signal_number)
        assert end_within(process, STOP_S) == exit_code


def opening_connections(port: int) -> int:
    """Return how many connections to a port of this machine are being opened now."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()]
    return sum(row[2].endswith(f":{port:04X}") and row[3] == "02" for row in rows)


@stops
def test_a_signal_ends_the_bot_while_it_spaces_its_requests(
    signal_number: int, exit_code: int, tmp_path: Path
) -> None:
    with (
        StandIn() as server,
        bot_process(tmp_path, *flags(base_url=server.url, max_rps=0.01)) as process,
    ):
        wait_for_line(process, "playing")
        process.send_signal(signal_number)
        assert end_within(process, STOP_S) == exit_code
        assert len(server.requests) == 1
    assert last_event(only_journal(tmp_path / "runs"))["exit_code"] == exit_code


STUBBORN: Final = (
    sys.executable,
    "-c",
    """
import sys
from bot.cli import main, signals
from bot.client import transport
transport.STOP_GRACE_S = signals.GRACE_S = 600
del sys.argv[1:4]  # python -m bot
main()
""",
)
"""Launches a bot that ends by itself long after it was asked to."""


def test_an_answer_on_its_way_when_a_signal_comes_is_recorded(tmp_path: Path) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def plan(_: Request, number: int) -> None:
        if number == UP_TO:
            asked.set()
            go_on.wait(PATIENCE_S)

    with (
        StandIn(plan) as server,
        bot_process(tmp_path, *flags(base_url=server.url, max_rps=0), launcher=STUBBORN) as process,
    ):
        assert asked.wait(PATIENCE_S)
        process.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)
        go_on.set()
        assert end_within(process, STOP_S) == 143
    check_suspended(tmp_path, 143)


def test_a_second_interrupt_ends_the_bot_at_once(tmp_path: Path) -> None:
    with stuck_bot(tmp_path, hang(), STUBBORN) as (process, _):
        process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)
        process.send_signal(signal.SIGINT)
        assert end_within(process, 0.7) == 130
    path = only_journal(tmp_path / "runs")
    assert last_event(path)["event"] == "action"
    assert actions_of(path) == unbroken_actions()[: UP_TO - 1]


@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_second_signal_ends_the_bot_at_once(second: int, tmp_path: Path) -> None:
    with stuck_bot(tmp_path, hang(), STUBBORN) as (process, _):
        process.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):  # two at once may come as one
            process.wait(0.3)
        process.send_signal(second)
        assert end_within(process, 1.0) == 128 + second


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_after_the_end_of_a_run_takes_nothing_of_what_it_earned(
    signal_number: int, tmp_path: Path
) -> None:
    has_ended = threading.Event()

    def plan(request: Request, _: int) -> Reply:
        if request.target == "/x":
            has_ended.set()
        return hang() if request.target == "/x" else reply(200)

    with StandIn(plan) as pinged:
        call = ("--local", "--bank-at=215", "--json", f"--notify-url={pinged.url}/x")
        with bot_process(tmp_path, *call) as process:
            assert has_ended.wait(PATIENCE_S)
            process.send_signal(signal_number)
            assert end_within(process, STOP_S) == 0
    assert last_event(only_journal(tmp_path / "runs"))["event"] == "run.ended"


@stops
def test_a_verb_that_only_looks_says_that_it_was_stopped(
    signal_number: int, exit_code: int, tmp_path: Path
) -> None:
    stopped = """
import os, sys
from bot.cli import process, runs
number = int(sys.argv.pop(1))
runs.find = lambda *_, **__: os.kill(os.getpid(), number)
process.main()
"""
    call = [sys.executable, "-c", stopped, str(int(signal_number)), "status", "--json"]
    said = subprocess.run(
        call, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )
    error = f"stopped by {signal.Signals(signal_number).name}"
    assert said.returncode == exit_code
    assert json.loads(said.stdout) == {"error": error, "exit_code": exit_code}
    assert said.stderr.strip() == ("" if exit_code == 130 else f"sunpleat-bot: {error}")


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_the_interpreter_ends_takes_nothing_of_what_was_earned(
    signal_number: int, tmp_path: Path
) -> None:
    late = """
import os, sys
from bot.cli import process
class Last:
    def __del__(self, kill=os.kill, own=os.getpid(), number=int(sys.argv[1])):
        kill(own, number)
last = Last()
process.run = lambda _: 1
process.main()
"""
    call = [sys.executable, "-c", late, str(int(signal_number))]
    assert subprocess.run(call, cwd=tmp_path, env=environment(), check=False).returncode == 1


@stops
def test_a_signal_in_the_middle_of_a_fast_local_run_suspends_it(
    signal_number: int, exit_code: int, tmp_path: Path
) -> None:
    call = ("--local", *flags(bank_at=10**7))
    with bot_process(tmp_path, *call) as process:
        wait_for_line(process, "playing")
        process.send_signal(signal_number)
        assert end_within(process, STOP_S) == exit_code
    path = only_journal(tmp_path / "runs")
    assert last_event(path)["event"] == "run.suspended"
    again = run_bot(tmp_path, "--local", *flags(bank_at=21050))
    assert again.returncode == 0
    assert recover(path).run.is_over


def test_a_run_that_is_killed_25_times_ends_with_every_point(tmp_path: Path) -> None:
    dice = random.Random()
    kills = 0
    with served(tmp_path) as url:
        call = flags(base_url=url, max_rps=0, bank_at=100_020)
        while kills < 25:
            with bot_process(tmp_path, *call) as process:
                if kills % 2:
                    wait_for_line(process, "playing")
                    moment = dice.uniform(0, 0.04)
                else:
                    moment = dice.uniform(0, 0.4)
                with pytest.raises(subprocess.TimeoutExpired):
                    process.wait(moment)
                process.send_signal(signal.SIGKILL)
                assert process.wait() == -signal.SIGKILL
            kills += 1
        assert run_bot(tmp_path, *call).returncode == 0
    for path in (tmp_path / "runs").glob("*.jsonl"):
        if path.stat().st_size == 0:  # killed before its first line: it holds no run
            path.unlink()
    path = check_whole_run(tmp_path, 100_020)
    assert len(list(journal_lines(path, "run.resumed"))) >= 5


# One at a time


def test_a_second_bot_leaves_at_once_and_sends_and_touches_nothing(tmp_path: Path) -> None:
    with stuck_bot(tmp_path, hang()) as (process, server):
        path = only_journal(tmp_path / "runs")
        content = path.read_bytes()
        requests = len(server.requests)
        names = set((tmp_path / "runs").iterdir())
        call = (*BOT, *flags(base_url=server.url, max_rps=0))
        with Stopwatch() as stopwatch:
            second = subprocess.run(
                call, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
            )
        assert stopwatch.seconds < STOP_S
        assert second.returncode == 75
        assert "another bot plays seed 7" in second.stderr
        assert second.stderr.count("\n") == 1
        assert len(server.requests) == requests
        assert path.read_bytes() == content
        assert set((tmp_path / "runs").iterdir()) == names
        assert process.poll() is None


def test_the_lock_of_a_process_that_is_dead_does_not_block(tmp_path: Path) -> None:
    with stuck_bot(tmp_path, hang()) as (process, server):
        process.kill()
        process.wait()
        assert lock_path(tmp_path / "runs", server.url, 7).exists()
        server.plan = lambda _, __: None
        again = run_bot(tmp_path, *flags(base_url=server.url, max_rps=0, bank_at=3030))
    assert again.returncode == 0
    check_whole_run(tmp_path)


# Its own outputs

SHELLS: Final = {
    "stdout closed": ">&-",
    "stderr closed": "2>&-",
    "stdin closed": "<&-",
    "all closed": "<&- >&- 2>&-",
    "stdout full": ">/dev/full",
    "stderr full": "2>/dev/full",
    "both full": ">/dev/full 2>/dev/full",
    "stdout read-only": "1</dev/null",
}

LOSING_THE_RESULT: Final = (
    "stdout closed",
    "all closed",
    "stdout full",
    "both full",
    "stdout read-only",
)
"""What keeps the result for programs from being written."""

ENVIRONMENTS: Final[Mapping[str, Mapping[str, str | None]]] = {
    "POSIX": {"LC_ALL": "POSIX"},
    "an ASCII encoding": {"PYTHONIOENCODING": "ascii"},
    "POSIX without coercion": {
        "LC_ALL": "POSIX",
        "PYTHONCOERCECLOCALE": "0",
        "PYTHONUTF8": "0",
    },
    "no HOME": {"HOME": None},
    "no PATH": {"PATH": None},
    "nothing at all": dict.fromkeys(os.environ),
}


@pytest.mark.parametrize("end", ["at the threshold", "at the budget"])
@pytest.mark.parametrize("redirection", list(SHELLS.values()), ids=list(SHELLS))
def test_a_stream_that_takes_nothing_does_not_touch_the_game(
    redirection: str, end: str, tmp_path: Path
) -> None:
    budget = ("--max-requests=40",) if end == "at the budget" else ()
    call = ("--local", "--json", "--bank-at=3030", *budget)
    process = subprocess.run(
        [*redirected(redirection), *BOT, *call],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    path = only_journal(tmp_path / "runs")
    assert b"seq" not in process.stdout + process.stderr
    content = path.read_bytes()
    assert content.startswith(b'{"seq":0,')
    assert b"timestamp=" not in content
    is_told = redirection == SHELLS["stdout full"]
    assert (b"cannot write the result: No space left on device" in process.stderr) == is_told
    if budget:
        assert process.returncode == 75
        assert last_event(path)["event"] == "run.suspended"
    else:
        is_lost = redirection in {SHELLS[name] for name in LOSING_THE_RESULT}
        assert process.returncode == (74 if is_lost else 0)
        check_whole_run(tmp_path)


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_that_cannot_be_written_is_told_in_one_line(option: str, tmp_path: Path) -> None:
    command = [*redirected(">/dev/full"), *BOT, option]
    process = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, check=False
    )
    assert process.returncode == 74
    assert process.stderr == b"sunpleat-bot: cannot write the result: No space left on device\n"


def test_no_file_of_the_bot_gets_the_number_of_a_stream_that_is_closed(tmp_path: Path) -> None:
    with stuck_bot(tmp_path, hang(), redirected("<&- >&- 2>&-")) as (process, _):
        places = [Path(f"/proc/{process.pid}/fd/{number}").readlink() for number in range(3)]
    assert places == [Path(os.devnull)] * 3
    assert last_event(only_journal(tmp_path / "runs"))["event"] == "action"


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_pipe_whose_reader_left_does_not_touch_the_game(stream: str, tmp_path: Path) -> None:
    reader, pipe = os.pipe()
    os.close(reader)
    try:
        process = run_bot(
            tmp_path,
            *("--local", "--json", "--bank-at=3030"),
            stdout=pipe if stream == "stdout" else subprocess.DEVNULL,
            stderr=pipe if stream == "stderr" else subprocess.DEVNULL,
        )
    finally:
        os.close(pipe)
    assert process.returncode == 0
    check_whole_run(tmp_path)


@pytest.mark.parametrize(
    "changes", [pytest.param(changes, id=name) for name, changes in ENVIRONMENTS.items()]
)
def test_a_poor_environment_does_not_touch_the_game(
    changes: Mapping[str, str | None], tmp_path: Path
) -> None:
    folder = tmp_path / "f\u00fcr \u65e5"
    folder.mkdir()
    runs_dir = str(folder / "runs")
    process = run_bot(
        folder,
        *("--local", "--json", "--bank-at=3030", "--runs-dir", runs_dir),
        env=environment(**changes),
    )
    assert process.returncode == 0
    assert json.loads(process.stdout)["score"] == 3030
    check_whole_run(folder)


def test_what_a_service_says_never_moves_the_terminal_of_the_log(tmp_path: Path) -> None:
    evil = "\x1b[2J\x1b]0;owned\x07\u2028\x9b1m\r\n\x00"
    answer = reply(402, {"reason": f"pay {evil}"})
    with StandIn(Turning(answer)) as server:
        process = run_bot(
            tmp_path, *flags(base_url=server.url, max_rps=0, give_up_after=1, log_format="text")
        )
    assert process.returncode == 69
    said = process.stdout + process.stderr
    assert "owned" in said
    assert not any(not c.isprintable() and c != "\n" for c in said)
    assert all(
        line.startswith(("timestamp=", "sunpleat-bot: ")) for line in process.stderr.splitlines()
    )
    end = last_event(only_journal(tmp_path / "runs"))
    assert evil in str(end["reason"])


# Disks


def test_a_file_size_limit_ends_the_run_and_the_next_start_without_it_goes_on(
    tmp_path: Path,
) -> None:
    with served(tmp_path) as url:
        call = flags(base_url=url, max_rps=0, bank_at=3030)
        full = run_bot(tmp_path, *call, launcher=limit_file_size(12_288))
        assert full.returncode == 74
        path = only_journal(tmp_path / "runs")
        assert "cannot write the journal" in full.stderr
        assert str(path.relative_to(tmp_path)) in full.stderr
        content = path.read_bytes()
        assert 11_000 < len(content) <= 12_288
        assert last_event(path)["event"] == "action"
        again = run_bot(tmp_path, *call)
        assert again.returncode == 0
    check_whole_run(tmp_path)
    assert path.read_bytes().startswith(content)


FULL_DISK: Final = """
mount -t tmpfs -o size=16k none disk 2>/dev/null || ulimit -f 16
trap "cd ..; umount disk 2>/dev/null" EXIT
cd disk
"$@"; echo "$?"
cp runs/*.jsonl ..
mount -o remount,size=1m . 2>/dev/null || exit 0
"$@"; echo "$?"
cp runs/*.jsonl ..
"""


def test_a_full_disk_ends_the_run_and_the_next_start_with_room_goes_on(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "runs").mkdir()
    call = (*BOT, "--local", "--quiet", "--bank-at=3030")
    alone = ["unshare", "--mount"] if _can_unshare() else []
    process = subprocess.run(
        [*alone, "sh", "-c", FULL_DISK, "sh", *call],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    codes = process.stdout.split()
    assert codes[0] == "74"
    (path,) = tmp_path.glob("*.jsonl")
    assert "cannot write the journal" in process.stderr
    if codes == ["74"]:  # nothing can be mounted here; it was a limit, and cannot be lifted
        assert last_event(path)["event"] == "action"
        return
    assert codes == ["74", "0"]
    path.rename(tmp_path / "runs" / path.name)
    check_whole_run(tmp_path)


def _can_unshare() -> bool:
    try:
        return subprocess.run(["unshare", "--mount", "true"], check=False).returncode == 0
    except OSError:
        return False


@pytest.mark.parametrize("runs_dir", ["file", "/proc/runs", "/dev/full/runs"])
def test_a_runs_folder_that_cannot_be_written_is_told_in_one_line_and_nothing_is_sent(
    runs_dir: str, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    with StandIn() as server:
        process = run_bot(tmp_path, *flags(base_url=server.url, runs_dir=runs_dir))
        assert server.connections == 0
    assert process.returncode == 74
    assert process.stderr.count("\n") == 1
    assert f"cannot write in the runs folder {runs_dir}" in process.stderr
