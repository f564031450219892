from __future__ import annotations

import fcntl
import os
import random
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import pytest
from fake_clock import FakeClock
from standins import StandIn, Talk, in_order, reply

from bot.client.failures import Failure, Kind, from_answer, from_saying
from bot.client.pace import Pace, shared_file
from bot.client.patience import Patience
from bot.wire.sayings import saying_in

MAX_RPS: Final = 10.0
LATENCY_S: Final = 0.04


class Limit(Protocol):
    """What a service allows."""

    def take(self, now: float) -> float | None:
        """Let a request in (None), or return the seconds until one would be let in."""


class Bucket:
    """So many a second, with a burst."""

    def __init__(self, rps: float, burst: int) -> None:
        self._rps, self._burst = rps, burst
        self._left, self._at = float(burst), 0.0

    def take(self, now: float) -> float | None:
        self._left = min(self._burst, self._left + (now - self._at) * self._rps)
        self._at = now
        if self._left < 1:
            return (1 - self._left) / self._rps
        self._left -= 1
        return None


class FixedWindow:
    """So many in each window that begins at a round time."""

    def __init__(self, number: int, seconds: float) -> None:
        self._number, self._seconds = number, seconds
        self._taken: Counter[int] = Counter()

    def take(self, now: float) -> float | None:
        window = int(now // self._seconds)
        if self._taken[window] >= self._number:
            return (window + 1) * self._seconds - now
        self._taken[window] += 1
        return None


class SlidingWindow:
    """So many in any window."""

    def __init__(self, number: int, seconds: float) -> None:
        self._number, self._seconds = number, seconds
        self._taken: list[float] = []

    def take(self, now: float) -> float | None:
        self._taken = [moment for moment in self._taken if moment > now - self._seconds]
        if len(self._taken) >= self._number:
            return self._taken[0] + self._seconds - now
        self._taken.append(now)
        return None


class NoLimit:
    def take(self, _: float) -> None:
        return None


LIMITS: Final[dict[str, tuple[Callable[[], Limit], float]]] = {
    "5 a second": (lambda: Bucket(5, 5), 5),
    "5 a second, no burst": (lambda: Bucket(5, 1), 5),
    "5 in fixed windows of a second": (lambda: FixedWindow(5, 1), 5),
    "5 in any second": (lambda: SlidingWindow(5, 1), 5),
    "60 a minute, a burst of 10": (lambda: Bucket(1, 10), 1),
    "60 in any minute": (lambda: SlidingWindow(60, 60), 1),
    "10 in fixed 10 s": (lambda: FixedWindow(10, 10), 1),
    "10 in any 10 s": (lambda: SlidingWindow(10, 10), 1),
}
"""Each limit, and what it allows a second in the long run."""


Refusal = tuple[Failure, float | None]
"""A request that is turned away, and the seconds that the service asks to wait."""


def refuse_429(_: float) -> Refusal:
    return from_answer(429, {}, b"", is_under_way=True, is_action=True), None


def refuse_429_with_time(wait_s: float) -> Refusal:
    return from_answer(429, {}, b"", is_under_way=True, is_action=True), int(wait_s) + 1


def refuse_503(_: float) -> Refusal:
    body = b'{"error": "rate limit exceeded"}'
    return from_answer(503, {}, body, is_under_way=True, is_action=True), None


def refuse_in_200(_: float) -> Refusal:
    answer = {"ok": False, "reason": "slow down, please"}
    saying = saying_in(answer)
    assert saying is not None
    return from_saying(saying, 200, answer, is_action=True), None


REFUSALS: Final = {
    "429": refuse_429,
    "429 with Retry-After": refuse_429_with_time,
    "503": refuse_503,
    "ok false": refuse_in_200,
}


class Sent(NamedTuple):
    """One request."""

    after_s: float
    is_accepted: bool


def play_under(
    limit: Limit,
    refuse: Callable[[float], Refusal],
    clock: FakeClock,
    seconds: float,
    pace: Pace | None = None,
) -> list[Sent]:
    """Send requests as the client does, at its pace and with its patience."""
    pace = pace or Pace(MAX_RPS, clock)
    began_at = clock.monotonic()
    sent: list[Sent] = []
    patience: Patience | None = None
    while clock.monotonic() < began_at + seconds:
        turn = pace.take_turn()
        if turn > clock.monotonic():
            clock.sleep(turn - clock.monotonic())
        patience = patience or Patience(clock, clock.monotonic() + 900)
        clock.advance(LATENCY_S / 2)
        allowed_in_s = limit.take(clock.monotonic())
        clock.advance(LATENCY_S / 2)
        sent.append(Sent(clock.monotonic() - began_at, allowed_in_s is None))
        if allowed_in_s is None:
            pace.note_accepted()
            patience = None
        else:
            failure, asked_s = refuse(allowed_in_s)
            assert failure.kind is Kind.LIMIT
            pace.slow_down()
            wait_s = patience.wait_after(failure, asked_s)
            assert wait_s is not None
            clock.sleep(wait_s)
    return sent


@pytest.mark.parametrize("refuse", REFUSALS.values(), ids=REFUSALS)
@pytest.mark.parametrize(("limit", "allowed_rps"), LIMITS.values(), ids=LIMITS)
@pytest.mark.parametrize("minutes", [10, 30])
def test_a_steady_limit_turns_away_three_in_a_hundred_and_is_used_to_four_fifths(
    limit: Callable[[], Limit],
    allowed_rps: float,
    refuse: Callable[[float], Refusal],
    minutes: int,
    clock: FakeClock,
) -> None:
    random.seed(minutes)
    sent = play_under(limit(), refuse, clock, 60 * minutes)
    after = [request.is_accepted for request in sent if request.after_s > 60]
    turned_away = after.count(False) / len(after)
    used = after.count(True) / (60 * (minutes - 1) * allowed_rps)
    assert turned_away <= 0.03
    assert used >= 0.8


QUICK: Final = {name: limit for name, limit in LIMITS.items() if name != "60 in any minute"}
"""Limits that show themselves in less than a minute."""


@pytest.mark.parametrize("refuse", REFUSALS.values(), ids=REFUSALS)
@pytest.mark.parametrize(("limit", "allowed_rps"), QUICK.values(), ids=QUICK)
def test_in_the_first_minutes_already_four_fifths_of_a_limit_are_used(
    limit: Callable[[], Limit],
    allowed_rps: float,
    refuse: Callable[[float], Refusal],
    clock: FakeClock,
) -> None:
    random.seed(4)
    sent = play_under(limit(), refuse, clock, 60 * 4)
    accepted = [request for request in sent if request.after_s > 60 and request.is_accepted]
    assert len(accepted) / (60 * 3 * allowed_rps) >= 0.8


@pytest.mark.parametrize("refuse", REFUSALS.values(), ids=REFUSALS)
@pytest.mark.parametrize(("limit", "_"), LIMITS.values(), ids=LIMITS)
def test_ten_minutes_after_a_limit_is_lifted_the_full_rate_is_reached_again(
    limit: Callable[[], Limit],
    _: float,
    refuse: Callable[[float], Refusal],
    clock: FakeClock,
) -> None:
    pace = Pace(MAX_RPS, clock)
    play_under(limit(), refuse, clock, 1200, pace)
    assert pace.rps < MAX_RPS
    play_under(NoLimit(), refuse, clock, 600, pace)
    assert pace.rps == MAX_RPS
    last_minute = play_under(NoLimit(), refuse, clock, 60, pace)
    assert len(last_minute) == pytest.approx(600, abs=2)


def test_the_rate_grows_back_slowly_and_never_beyond_the_full_one(clock: FakeClock) -> None:
    pace = Pace(MAX_RPS, clock)
    for _ in range(100):
        clock.advance(0.1)
        pace.note_accepted()
    pace.slow_down()
    rates = [pace.rps]
    for _ in range(600):
        clock.advance(1)
        rates.append(pace.rps)
    assert all(one <= other <= MAX_RPS for one, other in pairwise(rates))
    assert max(other / one for one, other in pairwise(rates)) < 1.1
    assert rates[-1] == MAX_RPS


def test_of_several_that_are_turned_away_in_a_row_the_first_one_cuts(clock: FakeClock) -> None:
    pace = Pace(MAX_RPS, clock)
    clock.advance(1)
    assert pace.slow_down()
    rps = pace.rps
    assert [pace.slow_down() for _ in range(20)] == [False] * 20
    assert pace.rps == rps
    pace.note_accepted()
    assert pace.slow_down()


def test_the_rate_has_a_least_value(clock: FakeClock) -> None:
    pace = Pace(MAX_RPS, clock)
    for _ in range(100):
        pace.note_accepted()
        clock.advance(3600)
        pace.slow_down()
    assert pace.rps >= 0.04


def test_without_a_rate_nothing_is_waited_for_until_the_service_complains(
    clock: FakeClock,
) -> None:
    pace = Pace(None, clock)
    assert [pace.take_turn() for _ in range(9)] == [clock.monotonic()] * 9
    sent = play_under(Bucket(5, 5), refuse_429, clock, 600, pace)
    after = [request.is_accepted for request in sent if request.after_s > 60]
    assert after.count(False) / len(after) <= 0.03


def turns(paces: list[Pace], clock: FakeClock, seconds: float) -> list[float]:
    """Let each take its turns as soon as the one before was used; return all of them in order."""
    next_of = [(pace.take_turn(), number) for number, pace in enumerate(paces)]
    taken: list[float] = []
    began_at = clock.monotonic()
    while True:
        turn, number = min(next_of)
        if turn > began_at + seconds:
            return taken
        clock.advance(max(0.0, turn - clock.monotonic()))
        taken.append(turn)
        next_of[number] = (paces[number].take_turn(), number)


@pytest.mark.parametrize("bots", [1, 3, 7])
def test_all_bots_of_one_folder_together_keep_to_the_rate(
    bots: int, tmp_path: Path, clock: FakeClock
) -> None:
    paces = [Pace(MAX_RPS, clock, tmp_path / "pace") for _ in range(bots)]
    taken = turns(paces, clock, 20)
    assert len(taken) == pytest.approx(200, abs=1)
    assert all(later - earlier >= 0.1 - 1e-6 for earlier, later in pairwise(taken))


def test_a_bot_that_joins_late_takes_its_share(tmp_path: Path, clock: FakeClock) -> None:
    first = Pace(MAX_RPS, clock, tmp_path / "pace")
    turns([first], clock, 20)
    second = Pace(MAX_RPS, clock, tmp_path / "pace")
    assert len(turns([first, second], clock, 20)) == pytest.approx(200, abs=2)


def test_services_have_a_file_each_and_one_service_has_one(tmp_path: Path) -> None:
    one = shared_file(tmp_path, "http://a")
    assert one == shared_file(tmp_path, "http://a")
    assert one != shared_file(tmp_path, "http://b")
    assert one.parent == tmp_path


def test_the_shared_file_is_its_owners_alone(tmp_path: Path, clock: FakeClock) -> None:
    Pace(MAX_RPS, clock, tmp_path / "pace").take_turn()
    assert (tmp_path / "pace").stat().st_mode & 0o777 == 0o600


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def make_link(path: Path) -> None:
    (path.parent / "other").write_text("1000.25")
    path.symlink_to("other")


def make_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def make_unwritable(path: Path) -> None:
    path.mkdir()


SPOILT: Final[dict[str, Callable[[Path], object]]] = {
    "a FIFO": make_fifo,
    "a link": make_link,
    "a link to a device": make_device,
    "a folder": make_unwritable,
    "garbage": lambda path: path.write_bytes(b"\xff\0 garbage" * 1000),
    "words": lambda path: path.write_text("now"),
    "no number": lambda path: path.write_text("nan"),
    "for ever": lambda path: path.write_text("inf"),
    "a number of many digits": lambda path: path.write_text("9" * 5000),
    "nothing": lambda path: path.write_text(""),
    "before the machine was started": lambda path: path.write_text("9000000.5"),
    "long ago": lambda path: path.write_text("-5"),
}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_a_shared_file_that_is_none_neither_stops_nor_hurries_anything(
    spoil: Callable[[Path], object], tmp_path: Path, clock: FakeClock
) -> None:
    path = tmp_path / "pace"
    spoil(path)
    pace = Pace(MAX_RPS, clock, path)
    taken = turns([pace], clock, 5)
    assert len(taken) == pytest.approx(50, abs=1)
    assert all(later - earlier >= 0.1 - 1e-6 for earlier, later in pairwise(taken))
    if path.is_symlink() and path.resolve().is_file():
        assert (tmp_path / "other").read_text() == "1000.25"


def test_a_shared_file_that_somebody_holds_keeps_nobody_waiting(
    tmp_path: Path, clock: FakeClock
) -> None:
    path = tmp_path / "pace"
    with path.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        taken = turns([Pace(MAX_RPS, clock, path)], clock, 5)
    assert len(taken) == pytest.approx(50, abs=1)
    assert all(later - earlier >= 0.1 - 1e-6 for earlier, later in pairwise(taken))


def test_a_folder_that_is_not_there_is_done_without(tmp_path: Path, clock: FakeClock) -> None:
    assert len(turns([Pace(MAX_RPS, clock, tmp_path / "no" / "pace")], clock, 5)) in (50, 51)


def test_a_limit_at_the_first_request_is_no_measure_of_a_service_without_a_rate(
    clock: FakeClock,
) -> None:
    pace = Pace(None, clock)
    clock.advance(2)
    assert pace.slow_down()
    assert 6 < pace.rps < 7.1


def test_an_outage_is_no_measure_of_what_a_service_takes(clock: FakeClock) -> None:
    trouble = reply(503, b"", ("Retry-After", "60"))
    plan = in_order(*[None] * 30, *[trouble] * 5, reply(429, b"", ("Retry-After", "1")))
    with StandIn(plan) as server:
        talk = Talk(server.url, clock, max_rps=MAX_RPS)
        for _ in range(30):
            talk.act()
        talk.act()
    assert len(talk.failures) == 6
    assert talk.pace.rps > 0.8 * MAX_RPS
