from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, pairwise, repeat
from typing import Final

import pytest
from fake_clock import FakeClock

from bot.client.failures import Failure, Kind
from bot.client.patience import JITTER_S, Patience

GIVE_UP_S: Final = 900.0


def trouble() -> Failure:
    return Failure(Kind.TROUBLE, "HTTP 503")


def waits_of(
    clock: FakeClock,
    *failures: Failure,
    asked_s: Iterable[float | None] = (),
    give_up_s: float = GIVE_UP_S,
) -> list[float | None]:
    """Fail in these ways, one after the other; return what is waited for after each.

    The service asks for the waits `asked_s`, and for none after them.
    """
    patience = Patience(clock, clock.monotonic() + give_up_s)
    waits: list[float | None] = []
    for failure, seconds in zip(failures, chain(asked_s, repeat(None)), strict=False):
        waits.append(patience.wait_after(failure, seconds))
        if waits[-1] is None:
            break
        clock.sleep(waits[-1])
    return waits


def test_waits_grow_from_half_a_second_to_a_minute_with_jitter(clock: FakeClock) -> None:
    *waits, last = waits_of(clock, *(trouble() for _ in range(1000)))
    assert last is None
    for number, wait_s in enumerate(waits):
        least = min(0.5 * 2**number, 60)
        assert least <= (wait_s or 0) <= least + JITTER_S
    assert GIVE_UP_S - 60.5 < sum(clock.waits) <= GIVE_UP_S
    assert 15 <= len(waits) <= 25


def test_no_two_calls_wait_alike() -> None:
    assert len({waits_of(FakeClock(), trouble())[0] for _ in range(10)}) > 1


@pytest.mark.parametrize(
    ("kind", "waits"),
    [
        (Kind.DIFFERS, [0.5, None]),
        (Kind.UNREADABLE, [1, 2, None]),
        (Kind.REFUSED, [1, 2, 4, 8, 16, 32, None]),
        (Kind.TOKEN, [5, None]),
        (Kind.BROWSER_CHECK, [15, 30, 60, None]),
        (Kind.FINAL, [None]),
        (Kind.MOVED, [0] * 9),
    ],
    ids=lambda value: value.name if isinstance(value, Kind) else "",
)
def test_each_kind_of_failure_has_its_tries_and_its_waits(
    kind: Kind, waits: list[float | None], clock: FakeClock
) -> None:
    found = waits_of(clock, *(Failure(kind, "x") for _ in range(9)))
    assert len(found) == len(waits)
    for wait_s, expected_s in zip(found, waits, strict=True):
        if wait_s is None or expected_s is None:
            assert wait_s is expected_s
        else:
            assert expected_s <= wait_s <= expected_s + JITTER_S


@pytest.mark.parametrize("kind", [Kind.UNREADABLE, Kind.REFUSED, Kind.TOKEN])
def test_the_waits_that_the_contract_counts_have_no_jitter(kind: Kind, clock: FakeClock) -> None:
    found = waits_of(clock, *(Failure(kind, "x") for _ in range(9)))
    assert all(wait_s == round(wait_s) for wait_s in found if wait_s is not None)


def test_all_kinds_together_stop_when_it_is_time_to_give_up(clock: FakeClock) -> None:
    assert waits_of(clock, *(Failure(Kind.REFUSED, "x") for _ in range(9)), give_up_s=10) == [
        1,
        2,
        4,
        None,
    ]


def test_each_kind_is_counted_by_itself(clock: FakeClock) -> None:
    kinds = [Kind.TROUBLE, Kind.TOKEN, Kind.TROUBLE, Kind.DIFFERS, Kind.UNREADABLE, Kind.REFUSED]
    found = waits_of(clock, *(Failure(kind, "x") for kind in kinds), Failure(Kind.TOKEN, "x"))
    assert found[-1] is None
    for wait_s, least in zip(found, [0.5, 5, 1, 0.5, 1, 1], strict=False):
        assert least <= (wait_s or 0) <= least + JITTER_S


@pytest.mark.parametrize(("give_up_s", "wait_s"), [(6.0, 3.0), (1.0, 0.5), (0.5, 0.5), (0.4, None)])
def test_a_token_is_tried_twice_though_there_is_little_time(
    give_up_s: float, wait_s: float | None, clock: FakeClock
) -> None:
    assert waits_of(clock, Failure(Kind.TOKEN, "x"), give_up_s=give_up_s) == [wait_s]


@pytest.mark.parametrize("kind", [Kind.TROUBLE, Kind.LIMIT, Kind.BROWSER_CHECK, Kind.REFUSED])
@pytest.mark.parametrize("asked_s", [0.0, 0.1, 7.0, 61.0, 300.0, 899.0])
def test_a_wait_is_what_the_service_asks_for_and_never_less_than_the_normal_one(
    kind: Kind, asked_s: float, clock: FakeClock
) -> None:
    normal_s = {Kind.BROWSER_CHECK: 15, Kind.REFUSED: 1}.get(kind, 0.5)
    (wait_s,) = waits_of(clock, Failure(kind, "x"), asked_s=[asked_s])
    assert max(asked_s, normal_s) <= (wait_s or 0) <= max(asked_s, normal_s + JITTER_S)


def test_waits_that_the_service_asks_for_do_not_keep_the_others_from_growing(
    clock: FakeClock,
) -> None:
    waits_of(clock, *(trouble() for _ in range(5)), asked_s=[0, 0, 20, 0])
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
    failure = trouble()
    assert waits_of(clock, failure, asked_s=[asked_s]) == [None]
    verdict = failure.verdict("flip 2", 1)
    assert verdict.exit_code == 69
    assert str(verdict) == f"the service asks to wait until {until} before flip 2: HTTP 503"


def test_a_wait_of_ours_beyond_the_time_to_give_up_says_that_it_gave_up(clock: FakeClock) -> None:
    failure = trouble()
    assert waits_of(clock, failure, give_up_s=0.2) == [None]
    assert str(failure.verdict("init", 1)) == "gave up on init, sent once: HTTP 503"


def test_time_that_attempts_take_counts_too(clock: FakeClock) -> None:
    patience = Patience(clock, clock.monotonic() + GIVE_UP_S)
    tries = 0
    while patience.wait_after(trouble()) is not None:
        clock.advance(100)
        tries += 1
    assert tries in (8, 9)


def test_time_that_is_forgiven_does_not_count(clock: FakeClock) -> None:
    patience = Patience(clock, clock.monotonic() + GIVE_UP_S)
    clock.advance(8 * 3600)
    assert patience.wait_after(trouble()) is None
    patience.forgive(8 * 3600)
    assert patience.left_s == GIVE_UP_S
    assert patience.wait_after(trouble()) is not None


def test_the_longest_waits_are_even(clock: FakeClock) -> None:
    waits_of(clock, *(trouble() for _ in range(100)), give_up_s=5000)
    assert all(abs(one - other) <= JITTER_S for one, other in pairwise(clock.waits[8:]))
