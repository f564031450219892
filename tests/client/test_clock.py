from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, tzinfo
from typing import Self

import pytest
from stopwatch import Stopwatch

from bot.client.clock import SLICE_S, Clock, StopRequest
from bot.errors import Stopped


def test_nothing_is_asked_at_first() -> None:
    stop = StopRequest()
    stop.check()
    assert stop.signal_number is None


@pytest.mark.parametrize(("number", "exit_code"), [(2, 130), (15, 143)])
def test_a_stop_is_raised_with_the_exit_code_of_its_signal(number: int, exit_code: int) -> None:
    stop = StopRequest()
    before = time.monotonic()
    stop.ask(number)
    assert before <= stop.asked_at <= time.monotonic()
    with pytest.raises(Stopped) as caught:
        stop.check()
    assert caught.value.exit_code == exit_code


def test_a_sleep_takes_its_time() -> None:
    clock = Clock(StopRequest())
    before = time.monotonic()
    clock.sleep(0.15)
    assert time.monotonic() - before >= 0.15


def test_a_sleep_ends_soon_after_a_stop() -> None:
    stop = StopRequest()
    timer = threading.Timer(0.05, stop.ask, [15])
    timer.start()
    with Stopwatch() as stopwatch, pytest.raises(Stopped):
        Clock(stop).sleep(60)
    timer.join()
    assert stopwatch.seconds < 0.05 + SLICE_S + 1


def test_a_sleep_does_not_begin_after_a_stop() -> None:
    stop = StopRequest()
    stop.ask(2)
    with pytest.raises(Stopped):
        Clock(stop).sleep(0)


def test_the_time_of_day_is_in_utc() -> None:
    now = Clock(StopRequest()).now()
    assert now.tzinfo is UTC
    assert abs((datetime.now(UTC) - now).total_seconds()) < 5


def test_only_the_first_request_to_stop_counts() -> None:
    stop = StopRequest()
    stop.ask(15)
    asked_at = stop.asked_at
    stop.ask(2)
    assert (stop.signal_number, stop.asked_at) == (15, asked_at)


def test_a_clock_that_is_set_changes_the_wall_and_not_the_time_of_a_sitting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(StopRequest())
    before = clock.now()

    class Set(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return cls(1970, 1, 1, tzinfo=tz)

    monkeypatch.setattr("bot.client.clock.datetime", Set)
    assert clock.wall().year == 1970
    assert 0 <= (clock.now() - before).total_seconds() < 5
