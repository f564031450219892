"""Signals: the first asks to stop, the second does not ask, and three seconds are all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pytest
from harness import PATIENCE_S, environment
from stopwatch import Stopwatch

from bot.cli import signals
from bot.cli.signals import STOPS, StopSignals, heeding
from bot.client.clock import StopRequest

NUMBERS: Final = pytest.mark.parametrize("number", STOPS, ids=lambda number: number.name)

DEAF: Final = """
import ctypes, signal
from bot.cli.signals import STOPS, heeding
from bot.client.clock import StopRequest

stop = StopRequest()
with heeding(stop, lambda code: print("asked by", stop.signal_number, "ends", code, flush=True)):
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    print("ready", flush=True)
    while True:
        ctypes.CDLL(None).sleep(60)
"""
"""A program whose main thread hears of no signal: the system brings them to another one."""


class Left(Exception):
    """The process would have ended with this code."""


@pytest.fixture
def _leaving(monkeypatch: pytest.MonkeyPatch) -> None:
    def leave(code: int) -> None:
        raise Left(code)

    monkeypatch.setattr(os, "_exit", leave)


@NUMBERS
@pytest.mark.usefixtures("_leaving")
def test_the_first_signal_asks_and_the_second_leaves_with_last_words(number: int) -> None:
    stop, said = StopRequest(), list[int]()
    met = StopSignals(stop, said.append)
    met.meet(signal.SIGTERM)
    assert (stop.signal_number, said) == (signal.SIGTERM, [])
    with pytest.raises(Left) as left:
        met.meet(number)
    assert (left.value.args, said) == ((128 + number,), [128 + number])


@NUMBERS
@pytest.mark.usefixtures("_leaving")
def test_once_all_is_done_a_signal_leaves_with_what_was_earned(number: int) -> None:
    said = list[int]()
    met = StopSignals(StopRequest(), said.append)
    met.earn(1)
    with pytest.raises(Left) as left:
        met.meet(number)
    assert (left.value.args, said) == ((1,), [])


@pytest.mark.usefixtures("_leaving")
def test_last_words_that_fail_keep_nobody_here() -> None:
    def fail(_: int) -> None:
        raise OSError("full")

    met = StopSignals(StopRequest(), fail)
    met.meet(signal.SIGINT)
    with pytest.raises(Left):
        met.meet(signal.SIGINT)


def test_where_no_thread_can_be_made_signals_are_heeded_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("threading.Thread.start", refuse)
    stop = StopRequest()
    with heeding(stop):
        signal.raise_signal(signal.SIGTERM)
        assert stop.signal_number == signal.SIGTERM


def test_nothing_is_left_behind() -> None:
    before = set(os.listdir("/proc/self/fd"))  # noqa: PTH208 - its own descriptor is the same twice
    with heeding(StopRequest()):
        pass
    assert set(os.listdir("/proc/self/fd")) == before  # noqa: PTH208 - likewise
    assert signal.set_wakeup_fd(-1) == -1


@pytest.fixture
def deaf(tmp_path: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", DEAF],
        cwd=tmp_path,
        env=environment(PYTHONPATH=str(Path(signals.__file__).parents[2])),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.slow
@NUMBERS
def test_a_main_thread_that_hears_nothing_is_ended_within_three_seconds(
    number: int, deaf: subprocess.Popen[str]
) -> None:
    began_at = time.monotonic()
    with deaf, Stopwatch() as stopwatch:
        deaf.send_signal(number)
        out, _ = deaf.communicate(timeout=PATIENCE_S)
    assert time.monotonic() - began_at > 2
    assert stopwatch.seconds < 3
    assert out == f"asked by {number:d} ends {128 + number}\n"
    assert deaf.returncode == 128 + number


@pytest.mark.slow
def test_a_main_thread_that_hears_nothing_is_ended_at_once_by_a_second_signal(
    deaf: subprocess.Popen[str],
) -> None:
    with deaf, Stopwatch() as stopwatch:
        deaf.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            deaf.wait(0.2)
        deaf.send_signal(signal.SIGINT)
        deaf.communicate(timeout=PATIENCE_S)
    assert stopwatch.seconds < 1
    assert deaf.returncode == 130
