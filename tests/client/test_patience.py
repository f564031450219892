from __future__ import annotations

from itertools import pairwise
from typing import Final

import pytest
from fake_clock import FakeClock

from bot.client.failures import Failure, Kind
from bot.client.patience import JITTER_S, persist
from bot.errors import Stopped, TryLater

GIVE_UP_S: Final = 900.0


class Attempts:
    """Fails in these ways, one after the other, then succeeds."""

    def __init__(self, *failures: BaseException) -> None:
        self.failures = list(failures)
        self.reports: list[tuple[int, Kind, float]] = []

    def __call__(self) -> str:
        if self.failures:
            raise self.failures.pop(0)
        return "done"

    def report(self, attempt: int, failure: Failure, wait_s: float) -> None:
        self.reports.append((attempt, failure.kind, wait_s))

    def persist(self, clock: FakeClock, give_up_s: float = GIVE_UP_S) -> str:
        first = self.failures.pop(0)
        assert isinstance(first, Failure)
        return persist(
            self,
            first,
            clock=clock,
            sleep=clock.sleep,
            give_up_at=clock.monotonic() + give_up_s,
            report=self.report,
        )


def transient(retry_after_s: float | None = None) -> Failure:
    return Failure(Kind.TRANSIENT, "HTTP 503", retry_after_s=retry_after_s)


def test_waits_grow_from_half_a_second_to_a_minute_with_jitter(clock: FakeClock) -> None:
    attempts = Attempts(*(transient() for _ in range(1000)))
    with pytest.raises(Failure):
        attempts.persist(clock)
    for number, wait_s in enumerate(clock.waits):
        least = min(0.5 * 2**number, 60)
        assert least <= wait_s <= least + 0.5
    assert GIVE_UP_S - 60.5 < sum(clock.waits) <= GIVE_UP_S
    assert 15 <= len(clock.waits) <= 25


def test_a_refused_token_waits_for_its_own_time_whatever_came_before(clock: FakeClock) -> None:
    attempts = Attempts(*(transient() for _ in range(6)), Failure(Kind.TOKEN, "HTTP 401"))
    assert attempts.persist(clock) == "done"
    assert clock.waits[-1] == 5


def test_no_two_calls_wait_alike() -> None:
    waits = set()
    for _ in range(10):
        clock = FakeClock()
        Attempts(transient()).persist(clock)
        waits.update(clock.waits)
    assert len(waits) > 1


def test_each_failed_attempt_is_told_with_its_wait(clock: FakeClock) -> None:
    attempts = Attempts(transient(), transient(), transient())
    assert attempts.persist(clock) == "done"
    assert [(attempt, kind) for attempt, kind, _ in attempts.reports] == [
        (1, Kind.TRANSIENT),
        (2, Kind.TRANSIENT),
        (3, Kind.TRANSIENT),
    ]
    assert [wait_s for *_, wait_s in attempts.reports] == pytest.approx(clock.waits, abs=0.001)


@pytest.mark.parametrize(
    ("kind", "tries"),
    [
        (Kind.BROWSER_CHECK, 4),
        (Kind.DIFFERS, 2),
        (Kind.REFUSED, 4),
        (Kind.TOKEN, 2),
        (Kind.MOVED, 5),
        (Kind.FINAL, 1),
    ],
    ids=lambda value: value.name if isinstance(value, Kind) else "",
)
def test_each_kind_of_failure_has_its_number_of_tries(
    kind: Kind, tries: int, clock: FakeClock
) -> None:
    attempts = Attempts(*(Failure(kind, str(number)) for number in range(1, 9)))
    with pytest.raises(Failure, match=f"^{tries}$"):
        attempts.persist(clock)
    assert [attempt for attempt, *_ in attempts.reports] == list(range(1, tries + 1))
    assert attempts.reports[-1][2] == 0
    assert len(clock.waits) == tries - 1


def test_tries_for_a_browser_are_far_apart(clock: FakeClock) -> None:
    attempts = Attempts(*(Failure(Kind.BROWSER_CHECK, "HTTP 403") for _ in range(9)))
    with pytest.raises(Failure):
        attempts.persist(clock)
    assert [int(wait_s) for wait_s in clock.waits] == [15, 30, 60]


def test_a_redirect_is_followed_at_once(clock: FakeClock) -> None:
    assert Attempts(Failure(Kind.MOVED, "HTTP 307")).persist(clock) == "done"
    assert sum(clock.waits) == 0


def test_each_kind_is_counted_by_itself(clock: FakeClock) -> None:
    mixed = [Failure(kind, "x") for kind in (Kind.TOKEN, Kind.DIFFERS, Kind.REFUSED)]
    attempts = Attempts(*(transient() for _ in range(3)), *mixed, transient(), transient())
    assert attempts.persist(clock) == "done"
    assert len(clock.waits) == 8


@pytest.mark.parametrize("asked_s", [0.0, 0.1, 7.0, 61.0, 300.0, 899.0])
def test_a_wait_is_what_the_service_asks_for_and_never_less_than_the_normal_one(
    asked_s: float, clock: FakeClock
) -> None:
    Attempts(transient(asked_s)).persist(clock)
    (wait_s,) = clock.waits
    assert max(asked_s, 0.5) <= wait_s <= max(asked_s, 1.0)


def test_waits_that_the_service_asks_for_do_not_keep_the_others_from_growing(
    clock: FakeClock,
) -> None:
    attempts = Attempts(transient(0), transient(0), transient(20), transient(0), transient())
    attempts.persist(clock)
    for wait_s, least in zip(clock.waits, [0.5, 1, 20, 4, 8], strict=True):
        assert least <= wait_s <= least + JITTER_S


@pytest.mark.parametrize(
    ("asked_s", "until"),
    [
        (901.0, "2026-11-30 02:56:08 UTC"),
        (86400.0, "2026-12-01 02:41:07 UTC"),
        (1e300, "the end of time"),
    ],
)
def test_a_wait_beyond_the_time_to_give_up_ends_it_at_once_and_says_until_when(
    asked_s: float, until: str, clock: FakeClock
) -> None:
    attempts = Attempts(transient(asked_s))
    with pytest.raises(Failure) as caught:
        attempts.persist(clock)
    verdict = caught.value.verdict("flip 2", 1)
    assert verdict.exit_code == 69
    assert str(verdict) == f"the service asks to wait until {until} before flip 2: HTTP 503"
    assert clock.waits == []
    assert attempts.reports == [(1, Kind.TRANSIENT, 0.0)]


def test_time_that_attempts_take_counts_too(clock: FakeClock) -> None:
    class Slow(Attempts):
        def __call__(self) -> str:
            clock.advance(100)
            return super().__call__()

    attempts = Slow(*(transient() for _ in range(50)))
    with pytest.raises(Failure):
        attempts.persist(clock)
    assert len(attempts.reports) in (8, 9, 10)


@pytest.mark.parametrize(
    "error", [TryLater("later"), Stopped(15), KeyboardInterrupt(), TypeError()], ids=repr
)
def test_nothing_but_a_failure_is_tried_again(error: BaseException, clock: FakeClock) -> None:
    attempts = Attempts(transient(), error, transient())
    with pytest.raises(type(error)):
        attempts.persist(clock)
    assert len(attempts.failures) == 1


def test_a_stop_ends_a_wait(clock: FakeClock) -> None:
    clock.when_asleep = lambda _: clock.stop.ask(2)
    attempts = Attempts(transient(600), transient())
    with pytest.raises(Stopped) as caught:
        attempts.persist(clock)
    assert caught.value.exit_code == 130
    assert len(attempts.failures) == 1


def test_the_longest_waits_are_even(clock: FakeClock) -> None:
    attempts = Attempts(*(transient() for _ in range(100)))
    with pytest.raises(Failure):
        attempts.persist(clock, 5000)
    assert all(abs(one - other) <= JITTER_S for one, other in pairwise(clock.waits[8:]))
