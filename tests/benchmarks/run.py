"""Every speed and size that the bot promises, measured against something to hold it to.

    python tests/benchmarks/run.py [--pairs N] [--quick]

Machines differ and drift, so only ratios count: the two sides of each are run in turn, A B B A,
and the median of the pairs is printed with the goal beside it. Nothing here passes or fails.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple
from urllib.parse import urlsplit

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
LOOPS = str(HERE / "loops.py")
BOT = [sys.executable, "-m", "bot"]
DISTANCE_S = 0.04
"""Time between the bot and a service that is far away, there and back."""


class Usage(NamedTuple):
    """What one process took."""

    seconds: float
    peak_mib: float
    output: str


def run(command: list[str], folder: str | None = None) -> Usage:
    """Run a process to its end; `folder` is where it makes what it throws away."""
    environment = os.environ if folder is None else {**os.environ, "TMPDIR": folder}
    began_at = time.perf_counter()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.DEVNULL,
        )
        _, _, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began_at
        process.returncode = 0  # it has been waited for
        output.seek(0)
        return Usage(seconds, usage.ru_maxrss / 1024, output.read().decode())


def loop_seconds(*arguments: str, folder: str | None = None) -> float:
    """Run a mode of `loops.py`, which takes its own time."""
    return float(run([sys.executable, LOOPS, *arguments], folder).output)


def median_ratio(pairs: int, one: Callable[[], float], other: Callable[[], float]) -> str:
    """Measure both sides in turn; return the median and the spread of their ratios."""
    ratios = []
    for pair in range(pairs):
        if pair % 2:
            below, above = other(), one()
        else:
            above, below = one(), other()
        ratios.append(above / below)
    ratios.sort()
    return f"{statistics.median(ratios):.2f}  ({ratios[0]:.2f} to {ratios[-1]:.2f})"


def row(what: str, measured: str, goal: str) -> None:
    """Print one line of the result."""
    print(f"{what:58} {measured:26} {goal}", flush=True)


@contextmanager
def served() -> Iterator[str]:
    """Serve the game in another process; yield its base URL."""
    command = [*BOT, "serve", "--port", "0"]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        try:
            yield server.stdout.readline().strip() if server.stdout else ""
        finally:
            server.terminate()


def play(runs_dir: str, bank_at: int, *more: str) -> Usage:
    """Play on the built-in service."""
    command = [*BOT, "--local", "--bank-at", str(bank_at), "--runs-dir", runs_dir, "--json", *more]
    return run(command)


FOLDERS = {"on disk": None, "in memory": "/dev/shm"}
"""Where journals are: every award waits for the disk; in memory, what is left without that."""


@contextmanager
def far_away(base_url: str) -> Iterator[str]:
    """Put `DISTANCE_S` between the bot and a service: a relay that holds each answer back."""
    url = urlsplit(base_url)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def carry(here: socket.socket, there: socket.socket, delay_s: float) -> None:
            on_its_way: SimpleQueue[tuple[float, bytes]] = SimpleQueue()

            def deliver() -> None:
                with suppress(OSError):
                    while True:
                        due, data = on_its_way.get()
                        time.sleep(max(0.0, due - time.monotonic()))
                        there.sendall(data)

            threading.Thread(target=deliver, daemon=True).start()
            with suppress(OSError):
                while data := here.recv(65536):
                    on_its_way.put((time.monotonic() + delay_s, data))

        def accept() -> None:
            with suppress(OSError):
                while True:
                    near, _ = listener.accept()
                    far = socket.create_connection((url.hostname, url.port))
                    for sock in (near, far):
                        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    for ends in ((near, far, 0.0), (far, near, DISTANCE_S)):
                        threading.Thread(target=carry, args=ends, daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def speed_far_away(pairs: int, actions: int) -> None:
    """Compare a run on a service that is far away with requests that are written by hand."""
    with served() as url, far_away(url) as there:
        bot = ["--base-url", there, "--max-rps", "0", "--max-requests", str(actions + 1)]
        ratio = median_ratio(
            pairs,
            lambda: loop_seconds("bot", *bot),
            lambda: loop_seconds("raw", there, str(actions)),
        )
        row(f"HTTP, 40 ms away, {actions:,} actions: bot / raw socket", ratio, "at most 1.035")


def speed_over_http(pairs: int, actions: int) -> None:
    """Compare a run over loopback with the shortest program that does the same."""
    with served() as url:
        bot = ["--base-url", url, "--max-rps", "0", "--max-requests", str(actions + 1)]
        for where, folder in FOLDERS.items():
            ratio = median_ratio(
                pairs,
                partial(loop_seconds, "bot", *bot, folder=folder),
                lambda: loop_seconds("bare", url, str(actions)),
            )
            what = f"HTTP, {actions:,} actions, {where}: bot / bare loop"
            row(what, ratio, "at most 0.85")


def speed_in_process(pairs: int, bank_at: int) -> None:
    """Compare a local run with the answers and the JSON of it alone."""
    for where, folder in FOLDERS.items():
        ratio = median_ratio(
            pairs,
            partial(loop_seconds, "bot", "--local", "--bank-at", str(bank_at), folder=folder),
            lambda: loop_seconds("pure", str(bank_at)),
        )
        row(f"--local to {bank_at:,} {where}: bot / answers alone", ratio, "at most 4")
    ratio = median_ratio(
        pairs,
        lambda: loop_seconds("kept", str(bank_at)),
        lambda: loop_seconds("pure", str(bank_at)),
    )
    row("answers alone, written and synced at awards / answers alone", ratio, "")


def replay_and_memory(pairs: int, bank_at: int) -> None:
    """Measure the memory of playing, and replay against reading the lines."""
    with tempfile.TemporaryDirectory() as folder:
        small = play(folder, 21_050)
        large = play(folder, bank_at)
        row("memory at 21,050 points", f"{small.peak_mib:.1f} MiB", "")
        row(f"memory at {bank_at:,} points", f"{large.peak_mib:.1f} MiB", "at most 50 MB")
        grown = large.peak_mib - small.peak_mib
        row("memory between the two", f"{grown:+.1f} MiB", "at most 5 MB")
        journal = json.loads(large.output)["journal"]
        replay = [*BOT, "replay", journal]
        ratio = median_ratio(
            pairs,
            lambda: run(replay).seconds,
            lambda: run([sys.executable, LOOPS, "read", journal]).seconds,
        )
        row("replay / json.loads of every line, both with their start", ratio, "at most 2.5")
        ratio = median_ratio(
            pairs,
            lambda: loop_seconds("verify", journal),
            lambda: loop_seconds("read", journal),
        )
        row("the same without start: verifying / json.loads", ratio, "")
        row("memory of replay", f"{run(replay).peak_mib:.1f} MiB", "below 50 MB")


def start(pairs: int) -> None:
    """Compare the help with importing what draws it."""
    ratio = median_ratio(
        max(pairs, 5),
        lambda: run([*BOT, "--help"]).seconds,
        lambda: run([sys.executable, "-c", "import click, rich.console"]).seconds,
    )
    row("--help / importing click and rich.console", ratio, "at most 2")


def requests_taken(bank_at: int) -> None:
    """Count the requests of each bank rule; the least possible are known from the rules."""
    least = {"at-least": 26_411, "at-most": 26_403, "exactly": 26_468}
    for rule, number in least.items():
        with tempfile.TemporaryDirectory() as folder:
            result = json.loads(play(folder, bank_at, "--bank-rule", rule).output)
        shown = f"{result['requests']:,} for {result['score']:,}"
        goal = f"{number:,}" if bank_at == 1_000_000 else ""
        row(f"requests to {bank_at:,}, {rule}", shown, goal)


def growth(largest: int) -> None:
    """Show time and memory for runs of every size."""
    bank_at = 10_000
    while bank_at <= largest:
        with tempfile.TemporaryDirectory() as folder:
            usage = play(folder, bank_at)
        result = json.loads(usage.output)
        each = 1000 * result["seconds"] / result["requests"]
        row(f"--local to {bank_at:,}", f"{each:.3f} ms, {usage.peak_mib:.1f} MiB", "flat")
        bank_at *= 10


def main() -> None:
    """Measure everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5, help="pairs of each ratio (5)")
    parser.add_argument("--quick", action="store_true", help="shorter runs, rougher figures")
    options = parser.parse_args()
    bank_at = 100_000 if options.quick else 1_000_000
    row("what", "measured (spread)", "goal")
    speed_far_away(options.pairs, 100 if options.quick else 500)
    speed_over_http(options.pairs, 1_000 if options.quick else 5_000)
    speed_in_process(options.pairs, bank_at)
    replay_and_memory(options.pairs, bank_at)
    start(options.pairs)
    requests_taken(bank_at)
    growth(bank_at if options.quick else 10_000_000)


main()
