from __future__ import annotations

import json
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest
import responses
from fake_clock import FakeClock
from standins import (
    KEY,
    Call,
    StandIn,
    Talk,
    Watcher,
    always,
    in_order,
    journal_lines,
    play,
    reply,
)

from bot.client.limits import INIT_GIVE_UP_S, Limits
from bot.client.redirects import ACTION_PATH
from bot.client.transport import Transport
from bot.errors import (
    ConfigError,
    Contradiction,
    Diverged,
    ServiceUnavailable,
    Stopped,
    TokenRefused,
    TryLater,
)
from bot.journal.recover import recover
from bot.service import Answer, Service

URL: Final = "http://sunpleat.test"
AFTER: Final[dict[str, Any]] = json.loads(
    Service(KEY)
    .answer(
        "POST",
        ACTION_PATH,
        json.dumps({"stateToken": Talk.TOKEN, "action": Talk.ACTION.to_json()}).encode(),
    )
    .body
)
"""The true answer to the first move."""
PAGE: Final = b"<!doctype html><h1>A page of the platform</h1>" + b"<p>x</p>" * 100
CHECK: Final = b"<html><title>Just a moment...</title>"
HTML: Final = ("Content-Type", "text/html; charset=utf-8")


def answers(*bodies: object, status: int = 200, **headers: str) -> responses.RequestsMock:
    """Answer actions with these bodies, the last of them from then on."""
    mock = responses.RequestsMock(assert_all_requests_are_fired=False)
    for body in bodies:
        data = body if isinstance(body, bytes | str) else json.dumps(body)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        mock.post(f"{URL}{ACTION_PATH}", status=status, body=data, headers=named)
    return mock


def assert_waits_grow(waits: list[float], first_s: float = 0.5) -> None:
    for number, wait_s in enumerate(waits):
        least = min(first_s * 2**number, 60)
        assert least <= wait_s <= least + 0.5


# Non-answers

NON_ANSWERS: Final[dict[str, tuple[bytes, str]]] = {
    "HTML": (PAGE, "the answer is no JSON"),
    "nothing": (b"", "the answer is no JSON"),
    "half of it": (json.dumps(AFTER).encode()[:-40], "the answer is no JSON"),
    "UTF-16": (json.dumps(AFTER).encode("utf-16"), "the answer is no JSON"),
    "nested too deeply": (b"[" * 50_000, "nested too deeply"),
    "null": (b"null", "the answer is null, not an object"),
    "a list": (b"[]", "the answer is a list, not an object"),
    "a number": (b"7", "the answer is an integer, not an object"),
    "an empty object": (b"{}", "the answer has no token at stateToken"),
    "an error object": (b'{"error": {"code": 500}}', "the answer has no token at stateToken"),
    "no token": (json.dumps({**AFTER, "stateToken": None}).encode(), "no token at stateToken"),
    "an empty token": (json.dumps({**AFTER, "stateToken": ""}).encode(), "no token at stateToken"),
    "no garland": (json.dumps({**AFTER, "state": {}}).encode(), "no garland at state.garland"),
    "no state": (json.dumps({**AFTER, "state": None}).encode(), "no garland at state.garland"),
    "ok null": (b'{"ok": null, "reason": "x"}', "no token"),
}


@pytest.mark.parametrize(("body", "cause"), NON_ANSWERS.values(), ids=NON_ANSWERS)
def test_a_non_answer_is_asked_for_again(body: bytes, cause: str, clock: FakeClock) -> None:
    with answers(body, body, AFTER) as mock:
        talk = Talk(URL, clock)
        step = talk.act()
        assert len({call.request.body for call in mock.calls}) == 1
        assert len(mock.calls) == 3
    assert (step.attempts, step.token, step.state) == (3, AFTER["stateToken"], Talk.PREDICTED)
    assert all(cause in text for text in talk.causes)
    assert [failure.status for failure in talk.failures] == [200, 200]
    assert talk.attempts == [1, 2]
    assert_waits_grow(clock.waits)


@pytest.mark.parametrize(("body", "cause"), NON_ANSWERS.values(), ids=NON_ANSWERS)
def test_a_service_that_gives_nothing_else_is_given_up_after_a_bounded_time(
    body: bytes, cause: str, clock: FakeClock
) -> None:
    with answers(body), pytest.raises(ServiceUnavailable) as caught:
        Talk(URL, clock, Limits(give_up_after_s=100)).act()
    assert cause in str(caught.value)
    assert (caught.value.exit_code, "flip 2" in str(caught.value)) == (69, True)
    assert 40 < sum(clock.waits) <= 100


@pytest.mark.parametrize("body", [PAGE, b"", b"null", b"[]", b"{}", b'{"error": "x"}'])
def test_a_non_answer_to_init_is_asked_for_again(body: bytes, clock: FakeClock) -> None:
    with StandIn(in_order(reply(200, body))) as server:
        talk = Talk(server.url, clock)
        assert talk.client.init(7).token == Talk.TOKEN
    assert [failure.status for failure in talk.failures] == [200]


def test_an_excerpt_of_a_non_answer_is_kept(clock: FakeClock) -> None:
    with answers(PAGE, {"hint": "☀" * 500}, AFTER, Content_Type="text/html"):
        talk = Talk(URL, clock)
        talk.act()
    page, other = talk.failures
    assert page.excerpt == PAGE.decode()[:200]
    assert page.cause.endswith("(text/html)")
    assert (len(other.excerpt), other.excerpt[:10]) == (200, '{"hint": "')


def test_a_content_type_of_any_length_is_told_in_short(clock: FakeClock) -> None:
    with answers(PAGE, AFTER, Content_Type="text/" + "x" * 5000):
        talk = Talk(URL, clock)
        talk.act()
    assert len(talk.causes[0]) < 200


@pytest.mark.parametrize("depth", [99, 101, 500, 900, 980])
def test_an_answer_nested_to_any_depth_is_understood_or_asked_for_again(
    depth: int, clock: FakeClock
) -> None:
    nested = "[" * depth + "]" * depth
    with answers(f'{{"hint": {nested}}}', f'{{"ok": false, "reason": {nested}}}', AFTER):
        assert Talk(URL, clock).act().attempts == 3


# Statuses


@pytest.mark.parametrize("status", [408, 418, 425, 429, 451, 500, 502, 503, 504, 520, 522, 599])
@pytest.mark.parametrize(
    ("body", "content_type"),
    [(PAGE, "text/html"), (b"too busy", "text/plain"), (b'{"error": "x"}', "application/json")],
    ids=["page", "text", "JSON"],
)
def test_a_passing_trouble_is_waited_for_longer_each_time(
    status: int, body: bytes, content_type: str, clock: FakeClock
) -> None:
    fault = reply(status, body, ("Content-Type", content_type))
    with StandIn(in_order(*[fault] * 4)) as server:
        talk = Talk(server.url, clock)
        assert talk.act().attempts == 5
        assert len({request.body for request in server.requests}) == 1
    assert_waits_grow(clock.waits)
    for failure in talk.failures:
        assert failure.status == status
        assert f"HTTP {status}" in failure.cause
        assert f"({content_type})" in failure.cause
        assert failure.excerpt == body.decode()[:200]


@pytest.mark.parametrize("status", [201, 202, 204, 205, 206, 300, 304, 305, 306, 403, 406, 777])
def test_any_other_status_is_waited_for_too(status: int, clock: FakeClock) -> None:
    body = b"" if status in (204, 205, 304) else json.dumps(AFTER).encode()
    with StandIn(in_order(reply(status, body))) as server:
        talk = Talk(server.url, clock)
        assert talk.act().attempts == 2
    assert [failure.status for failure in talk.failures] == [status]


def test_a_trouble_that_does_not_pass_ends_the_call_in_a_bounded_number_of_tries(
    clock: FakeClock,
) -> None:
    with answers(PAGE, status=500) as mock, pytest.raises(ServiceUnavailable, match="HTTP 500"):
        Talk(URL, clock).act()
    assert len(mock.calls) < 30
    assert 840 < sum(clock.waits) <= 900


def test_time_to_give_up_begins_anew_with_each_move(clock: FakeClock) -> None:
    with StandIn() as server:
        fault = reply(503, b"", ("Retry-After", "60"))
        server.plan = lambda _, number: fault if number % 4 else None
        talk = Talk(server.url, clock, Limits(give_up_after_s=200))
        for _ in range(5):
            assert talk.act().attempts == 4
    assert sum(clock.waits) > 200


RETRY_AFTER: Final[dict[str, tuple[str, float]]] = {
    "seconds": ("7", 7),
    "more seconds than a normal wait": ("120", 120),
    "a date": ("{:%a, %d %b %Y %H:%M:%S} GMT", 30),
    "nought": ("0", 0),
    "a past date": ("Sun, 29 Nov 2026 02:41:07 GMT", 0),
    "a negative": ("-10", 0),
    "a text": ("later", 0),
    "nothing": ("", 0),
    "inf": ("inf", 0),
    "nan": ("nan", 0),
}


@pytest.mark.parametrize("status", [429, 500, 503])
@pytest.mark.parametrize(("value", "seconds"), RETRY_AFTER.values(), ids=RETRY_AFTER)
def test_retry_after_is_obeyed_where_it_makes_sense(
    value: str, seconds: float, status: int, clock: FakeClock
) -> None:
    value = value.format(clock.now() + timedelta(seconds=seconds))
    fault = reply(status, b"busy", ("Retry-After", value))
    with StandIn(in_order(fault, fault)) as server:
        talk = Talk(server.url, clock)
        assert talk.act().attempts == 3
    first, second = clock.waits
    assert max(seconds, 0.5) <= first <= max(seconds, 1)
    is_date = "GMT" in value
    least = 1 if is_date else max(seconds, 1)
    assert least <= second <= max(seconds, 1.5)
    assert talk.waits == [pytest.approx(wait_s, abs=0.001) for wait_s in clock.waits]


@pytest.mark.parametrize(
    ("value", "until"),
    [
        ("901", "2026-11-30 02:56:08 UTC"),
        ("259200", "2026-12-03 02:41:07 UTC"),
        ("Fri, 04 Dec 2026 00:00:00 GMT", "2026-12-04 00:00:00 UTC"),
        ("9" * 300, "the end of time"),
    ],
    ids=["just beyond", "days", "date", "for ever"],
)
def test_a_wait_beyond_the_time_to_give_up_suspends_the_run_at_once(
    value: str, until: str, clock: FakeClock
) -> None:
    with answers(b"", status=503, Retry_After=value) as mock:
        talk = Talk(URL, clock)
        with pytest.raises(ServiceUnavailable, match=f"asks to wait until {until}") as caught:
            talk.act()
        assert len(mock.calls) == 1
    assert caught.value.exit_code == 69
    assert (clock.waits, talk.attempts, talk.waits) == ([], [1], [0.0])


@pytest.mark.parametrize("status", [403, 429, 503])
def test_a_browser_check_is_tried_a_few_times_far_apart_and_not_got_round(
    status: int, clock: FakeClock
) -> None:
    with answers(CHECK, status=status, Content_Type="text/html") as mock:
        talk = Talk(URL, clock)
        with pytest.raises(ServiceUnavailable, match="asks for a browser") as caught:
            talk.act()
        assert len(mock.calls) == 4
        assert len({str(call.request.headers) for call in mock.calls}) == 1
    assert caught.value.exit_code == 69
    assert_waits_grow(clock.waits, 15)


@pytest.mark.parametrize("status", [400, 401, 409, 410, 422])
def test_a_token_that_is_refused_is_tried_twice_and_then_abandons_the_run(
    status: int, tmp_path: Path, clock: FakeClock
) -> None:
    fault = reply(status, {"ok": False, "reason": "stateToken is too old"})
    with StandIn(lambda _, number: fault if number > 5 else None) as server:
        outcome = play(server.url, tmp_path, clock)
        assert isinstance(outcome.error, TokenRefused)
        assert (outcome.exit_code, outcome.ledger.state.score) == (77, 430)
        assert len(server.requests) == 7
        assert server.requests[-1].body == server.requests[-2].body
        assert "stateToken is too old" in str(outcome.error)
        (abandoned,) = journal_lines(outcome.path, "run.abandoned")
        assert "stateToken is too old" in str(abandoned["reason"])
        assert recover(outcome.path).ledger.is_over
        server.plan = lambda _, __: None
        anew = play(server.url, tmp_path, clock)
    assert (anew.exit_code, anew.ledger.state.score) == (0, 3030)
    assert anew.path != outcome.path


def test_a_token_that_is_refused_for_a_few_seconds_is_taken_after_them(clock: FakeClock) -> None:
    fault = reply(401, {"message": "Unauthorized"})
    began_at = clock.monotonic()
    with StandIn(lambda *_: fault if clock.monotonic() < began_at + 4.9 else None) as server:
        assert Talk(server.url, clock).act().attempts == 2


@pytest.mark.parametrize(("give_up_after_s", "wait_s"), [(6.0, 3.0), (1.0, 0.5), (0.5, 0.5)])
def test_a_token_is_tried_twice_though_there_is_little_time(
    give_up_after_s: float, wait_s: float, clock: FakeClock
) -> None:
    with StandIn(always(reply(401, {}))) as server:
        talk = Talk(server.url, clock, Limits(give_up_after_s=give_up_after_s))
        with pytest.raises(TokenRefused):
            talk.act()
        assert len(server.requests) == 2
    assert clock.waits == [wait_s]


def test_a_token_that_there_is_no_time_to_try_twice_is_kept(clock: FakeClock) -> None:
    with StandIn(always(reply(401, {}))) as server:
        with pytest.raises(ServiceUnavailable):
            Talk(server.url, clock, Limits(give_up_after_s=0.4)).act()
        assert len(server.requests) == 1


@pytest.mark.parametrize("status", [400, 401, 409, 410, 422])
def test_a_page_with_such_a_status_does_not_refuse_the_token(status: int, clock: FakeClock) -> None:
    with StandIn(in_order(*[reply(status, PAGE, HTML)] * 3)) as server:
        assert Talk(server.url, clock).act().attempts == 4


@pytest.mark.parametrize(
    ("status", "meaning"),
    [(402, "paid"), (404, "no such game"), (405, "--base-url"), (413, "bytes"), (415, "JSON")],
)
@pytest.mark.parametrize("body", [PAGE, b'{"ok": false, "reason": "x"}'], ids=["page", "JSON"])
def test_a_status_that_would_come_again_suspends_the_run_at_once(
    status: int, meaning: str, body: bytes, clock: FakeClock
) -> None:
    with answers(body, status=status) as mock:
        talk = Talk(URL, clock)
        with pytest.raises(ServiceUnavailable, match=meaning) as caught:
            talk.act()
        assert len(mock.calls) == 1
        sent = mock.calls[0].request.body
    assert caught.value.exit_code == 69
    assert "\n" not in str(caught.value)
    assert (clock.waits, talk.attempts) == ([], [1])
    if status == 413:
        assert f"of {len(sent or '')} bytes" in str(caught.value)


# Refusals


def refusal(reason: object, **more: object) -> dict[str, object]:
    return {"ok": False, "reason": reason, **more}


LEGAL: Final = {"legalActions": [{"type": "bank"}]}


def test_a_refused_action_is_sent_three_times_more_and_then_ends_the_run(
    tmp_path: Path, clock: FakeClock
) -> None:
    fault = reply(200, refusal("not now", **LEGAL))
    with StandIn(lambda _, number: fault if number > 5 else None) as server:
        outcome = play(server.url, tmp_path, clock)
        assert isinstance(outcome.error, Contradiction)
        assert (outcome.exit_code, outcome.ledger.state.score) == (76, 430)
        assert "4 times: not now" in str(outcome.error)
        assert len(server.requests) == 9
        assert len({request.body for request in server.requests[5:]}) == 1
    refused = list(journal_lines(outcome.path, "refused"))
    assert [line["reason"] for line in refused] == ["not now"] * 4
    assert [line["action"] for line in refused] == [{"type": "next"}] * 4
    assert list(journal_lines(outcome.path, "retry")) == []
    assert_waits_grow(clock.waits)
    assert len(clock.waits) == 3
    assert recover(outcome.path).ledger.tally.refusals == 4


def test_an_action_that_is_refused_and_then_taken_is_made_once(
    tmp_path: Path, clock: FakeClock
) -> None:
    fault = reply(200, refusal("busy", **LEGAL))
    with StandIn(lambda _, number: fault if number in (2, 3, 4) else None) as server:
        outcome = play(server.url, tmp_path, clock)
    assert (outcome.exit_code, outcome.ledger.state.score) == (0, 3030)
    assert len(list(journal_lines(outcome.path, "action"))) == 70
    assert outcome.ledger.tally.requests == 74
    assert recover(outcome.path).ledger.is_over


def test_a_refusal_about_the_token_without_legal_actions_abandons_the_run(
    clock: FakeClock,
) -> None:
    with answers(refusal("bad token signature")) as mock:
        with pytest.raises(TokenRefused, match="bad token signature"):
            Talk(URL, clock).act()
        assert len(mock.calls) == 2


def test_a_refusal_about_the_token_with_legal_actions_is_one_of_the_action(
    clock: FakeClock,
) -> None:
    with answers(refusal("bad token signature", **LEGAL)) as mock:
        with pytest.raises(Contradiction):
            Talk(URL, clock).act()
        assert len(mock.calls) == 4


# Answers that differ

OTHERS: Final[dict[str, tuple[dict[str, object], str]]] = {
    "score null": ({"score": None}, "score"),
    "score a text": ({"score": "215"}, "score"),
    "score other": ({"score": 225}, "score"),
    "gameOver a text": ({"gameOver": "false"}, "gameOver"),
    "gameOver 0": ({"gameOver": 0}, "gameOver"),
    "true for 1": ({"state": {**AFTER["state"], "turn": True}}, "turn"),
    "garland of true": ({"state": {**AFTER["state"], "garland": [True, 2, 3]}}, "garland"),
}


@pytest.mark.parametrize(("change", "name"), OTHERS.values(), ids=OTHERS)
def test_an_answer_that_differs_is_asked_for_once_more(
    change: dict[str, object], name: str, clock: FakeClock
) -> None:
    with answers({**AFTER, **change}) as mock:
        talk = Talk(URL, clock)
        with pytest.raises(Diverged) as caught:
            talk.act()
        assert len(mock.calls) == 2
    assert (caught.value.exit_code, list(caught.value.fields)) == (76, [name])
    assert talk.causes == [f"the answer differs from the prediction: {name}"] * 2
    clock = FakeClock()
    with answers({**AFTER, **change}, AFTER):
        step = Talk(URL, clock).act()
    assert (step.attempts, step.differences, step.state) == (2, {}, Talk.PREDICTED)
    assert 0.5 <= clock.waits[0] <= 1


def test_other_faults_in_between_do_not_count_as_asked_once_more(clock: FakeClock) -> None:
    other = {**AFTER, "score": 0}
    with answers(b"", other, b"", b"", AFTER):
        assert Talk(URL, clock).act().attempts == 5
    with answers(b"", other, b"", other), pytest.raises(Diverged):
        Talk(URL, clock).act()


def test_where_the_service_is_followed_its_word_is_taken_the_second_time(
    clock: FakeClock,
) -> None:
    state = {**AFTER["state"], "leaves": 1}
    with answers({**AFTER, "state": state}) as mock:
        step = Talk(URL, clock, is_following=True).act()
        assert len(mock.calls) == 2
    assert step.differences == {"leaves": {"predicted": 3, "observed": 1}}
    assert (step.state.leaves, step.attempts) == (1, 2)


# Init


def test_init_is_given_up_after_a_minute(clock: FakeClock) -> None:
    with StandIn(always(reply(503))) as server, pytest.raises(ServiceUnavailable) as caught:
        Talk(server.url, clock).client.init(7)
    assert INIT_GIVE_UP_S == 60
    assert 20 < sum(clock.waits) <= 60
    assert all(word in str(caught.value) for word in (server.url, "HTTP 503"))


@pytest.mark.parametrize("status", [400, 410])
def test_init_that_is_refused_has_no_token_to_abandon(status: int, clock: FakeClock) -> None:
    with StandIn(always(reply(status, {"reason": "no such seed"}))) as server:
        with pytest.raises(ServiceUnavailable, match=r"^the service refuses init: .*no such seed"):
            Talk(server.url, clock).client.init(7)
        assert len(server.requests) == 2


def test_init_that_answers_not_ok_is_tried_again(clock: FakeClock) -> None:
    with StandIn(in_order(reply(200, refusal("warming up")))) as server:
        talk = Talk(server.url, clock)
        assert talk.client.init(7).token == Talk.TOKEN
    assert talk.causes == ["the service refused init: warming up"]


def test_a_wait_beyond_a_minute_that_init_is_asked_for_ends_it_at_once(clock: FakeClock) -> None:
    with (
        StandIn(always(reply(503, b"", ("Retry-After", "61")))) as server,
        pytest.raises(ServiceUnavailable, match="2026-11-30 02:42:08 UTC"),
    ):
        Talk(server.url, clock).client.init(7)
    assert clock.waits == []


def test_failures_of_init_are_written_right_after_the_run_started(
    tmp_path: Path, clock: FakeClock
) -> None:
    with StandIn(in_order(reply(502, PAGE, HTML), reply(200, b"null"))) as server:
        outcome = play(server.url, tmp_path, clock, Call(bank_at=0))
    lines = list(journal_lines(outcome.path))
    assert [line["event"] for line in lines] == [
        "run.started",
        "retry",
        "retry",
        "action",
        "run.ended",
    ]
    assert [line["what"] for line in lines[1:3]] == ["init", "init"]
    assert outcome.ledger.tally.requests == 4


def test_an_init_that_never_succeeds_leaves_no_journal(tmp_path: Path, clock: FakeClock) -> None:
    with StandIn(always(reply(500))) as server, pytest.raises(ServiceUnavailable):
        play(server.url, tmp_path, clock)
    assert list(tmp_path.glob("*.jsonl*")) == []


@pytest.mark.parametrize(
    "base_url",
    ["http://a b", "http://.test", "http://*.test", "http://[", "http://a:99999", "http:"],
)
def test_a_base_url_that_cannot_be_asked_is_refused(base_url: str, clock: FakeClock) -> None:
    with pytest.raises(ConfigError, match="no usable base URL") as caught:
        Talk(base_url, clock)
    assert base_url in str(caught.value)


# Pacing and budgets


class Timed(Service):
    """Notes when each request comes, and takes its time."""

    def __init__(self, clock: FakeClock, takes_s: tuple[float, ...] = (0.0,)) -> None:
        super().__init__(KEY)
        self.times: list[float] = []
        self._clock = clock
        self._takes_s = takes_s

    def answer(self, method: str, target: str, body: bytes) -> Answer:
        self.times.append(self._clock.monotonic())
        self._clock.advance(self._takes_s[len(self.times) % len(self._takes_s)])
        return super().answer(method, target, body)

    @property
    def gaps(self) -> list[float]:
        return [later - earlier for earlier, later in pairwise(self.times)]


def test_requests_are_evenly_spaced(tmp_path: Path, clock: FakeClock) -> None:
    service = Timed(clock)
    play(service, tmp_path, clock, Call(limits=Limits(max_rps=10)))
    assert service.gaps == [pytest.approx(0.1)] * 70


def test_the_time_that_answers_take_is_part_of_the_space(tmp_path: Path, clock: FakeClock) -> None:
    service = Timed(clock, takes_s=(0.04, 0.09))
    play(service, tmp_path, clock, Call(limits=Limits(max_rps=10)))
    assert service.gaps == [pytest.approx(0.1)] * 70


def test_no_two_requests_are_closer_after_slow_answers_than_after_fast_ones(
    tmp_path: Path, clock: FakeClock
) -> None:
    service = Timed(clock, takes_s=(0.0, 0.0, 5.0, 0.35))
    play(service, tmp_path, clock, Call(limits=Limits(max_rps=10)))
    assert min(service.gaps) >= 0.1 - 1e-9
    assert max(service.gaps) == pytest.approx(5.0)


def test_requests_that_are_sent_again_are_spaced_too(clock: FakeClock) -> None:
    with StandIn(in_order(*[reply(307, b"", ("Location", ACTION_PATH))] * 4)) as server:
        talk = Talk(server.url, clock, Limits(max_rps=0.5))
        talk.act()
    assert clock.monotonic() - 1000 >= 8


def test_without_a_rate_nothing_is_waited_for(tmp_path: Path, clock: FakeClock) -> None:
    play(Service(KEY), tmp_path, clock)
    assert clock.waits == []


def test_a_rate_slower_than_the_patience_is_no_fault(clock: FakeClock) -> None:
    with StandIn(in_order(reply(503))) as server:
        talk = Talk(server.url, clock, Limits(max_rps=0.001))
        assert talk.client.init(7).token == Talk.TOKEN


def test_waiting_for_the_pace_is_no_part_of_the_time_to_give_up(clock: FakeClock) -> None:
    with StandIn(lambda _, number: reply(503) if number == 2 else None) as server:
        talk = Talk(server.url, clock, Limits(max_rps=0.01, give_up_after_s=50))
        talk.act()
        assert talk.act().attempts == 2


def test_an_attempt_on_the_last_moment_is_made_all_the_same(clock: FakeClock) -> None:
    with StandIn(in_order(reply(503))) as server:
        talk = Talk(server.url, clock, Limits(give_up_after_s=100))
        clock.when_asleep = lambda seconds: clock.advance(100 - seconds)
        assert talk.act().attempts == 2


@pytest.mark.parametrize(("late_s", "timeout_s"), [(50, 30), (90, 10), (99.5, 1), (100, 1)])
def test_an_attempt_has_no_more_than_the_time_to_give_up_and_no_less_than_a_second(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch, late_s: float, timeout_s: float
) -> None:
    timeouts = []
    send = Transport.send

    def spied(*args: Any) -> Any:
        timeouts.append(args[-1])
        return send(*args)

    monkeypatch.setattr(Transport, "send", spied)
    with StandIn(in_order(reply(503))) as server:
        talk = Talk(server.url, clock, Limits(timeout_s=30, give_up_after_s=100))
        clock.when_asleep = lambda seconds: clock.advance(late_s - seconds)
        talk.act()
    assert timeouts == [30, pytest.approx(timeout_s)]


def test_a_budget_of_requests_counts_every_one_that_is_sent(clock: FakeClock) -> None:
    with StandIn(in_order(reply(503), reply(200, b"null"))) as server:
        talk = Talk(server.url, clock, Limits(max_requests=4))
        talk.act()
        talk.act()
        with pytest.raises(TryLater, match="4 requests") as caught:
            talk.act()
        assert (len(server.requests), talk.client.requests) == (4, 4)
    assert caught.value.exit_code == 75


def test_a_budget_of_requests_ends_tries_too(clock: FakeClock) -> None:
    with StandIn(always(reply(503))) as server:
        talk = Talk(server.url, clock, Limits(max_requests=3))
        with pytest.raises(TryLater):
            talk.act()
        assert len(server.requests) == 3


def test_a_budget_of_minutes_ends_between_two_requests(tmp_path: Path, clock: FakeClock) -> None:
    service = Timed(clock, takes_s=(1.0,))
    outcome = play(service, tmp_path, clock, Call(limits=Limits(max_minutes=0.5)))
    assert isinstance(outcome.error, TryLater)
    assert (outcome.exit_code, len(service.times)) == (75, 30)
    assert "0.5 minutes" in str(outcome.error)
    outcome = play(service, tmp_path, clock)
    assert (outcome.exit_code, len(service.times)) == (0, 71)


def test_nothing_is_sent_out_of_pace_because_the_minutes_end(clock: FakeClock) -> None:
    with StandIn(always(reply(503))) as server:
        talk = Talk(server.url, clock, Limits(max_rps=0.01, max_minutes=1))
        with pytest.raises(TryLater, match="1 minute ends before the next request is due"):
            talk.act()
        assert len(server.requests) == 1


def test_a_budget_that_is_used_up_is_told_without_a_wait(clock: FakeClock) -> None:
    with StandIn() as server:
        talk = Talk(server.url, clock, Limits(max_rps=0.01, max_requests=1))
        talk.act()
        with pytest.raises(TryLater, match="1 request is used up"):
            talk.act()
    assert clock.waits == []


def test_a_budget_of_minutes_is_not_slept_away(clock: FakeClock) -> None:
    with StandIn(always(reply(503, b"", ("Retry-After", "600")))) as server:
        talk = Talk(server.url, clock, Limits(max_minutes=2))
        with pytest.raises(TryLater, match="2 minutes"):
            talk.act()
    assert sum(clock.waits) <= 120


# Stops


def test_a_stop_ends_the_next_request_before_it_is_sent(clock: FakeClock) -> None:
    with StandIn() as server:
        talk = Talk(server.url, clock)
        clock.stop.ask(15)
        with pytest.raises(Stopped) as caught:
            talk.act()
        assert server.requests == []
    assert caught.value.exit_code == 143


def test_a_stop_in_a_wait_suspends_the_run(tmp_path: Path, clock: FakeClock) -> None:
    with StandIn(lambda _, number: reply(503) if number > 5 else None) as server:

        def stop_in_the_third_wait(_: float) -> None:
            if len(clock.waits) == 3:
                clock.stop.ask(2)

        clock.when_asleep = stop_in_the_third_wait
        outcome = play(server.url, tmp_path, clock)
        assert len(server.requests) == 8
    assert isinstance(outcome.error, Stopped)
    (suspended,) = journal_lines(outcome.path, "run.suspended")
    assert (suspended["reason"], suspended["exit_code"]) == ("stopped by SIGINT", 130)
    assert len(list(journal_lines(outcome.path, "retry"))) == 3


# What is told


def test_what_is_told_of_a_failed_attempt_is_what_is_written(
    tmp_path: Path, clock: FakeClock
) -> None:
    watcher = Watcher()
    fault = reply(503, PAGE, HTML, ("Retry-After", "9"))
    with StandIn(lambda _, number: fault if number in (3, 4) else None) as server:
        outcome = play(server.url, tmp_path, clock, watcher=watcher)
    lines = list(journal_lines(outcome.path, "retry"))
    assert [note.what for note in watcher.notes] == ["next", "next"]
    for number, (line, note) in enumerate(zip(lines, watcher.notes, strict=True), 1):
        assert line["what"] == {"type": "next"}
        assert (line["attempt"], line["status"]) == (number, 503)
        assert line["cause"] == note.failure.cause
        assert line["excerpt"] == PAGE.decode()[:200]
        assert line["wait_s"] == note.wait_s == pytest.approx(9, abs=0.01)
    third = next(line for line in journal_lines(outcome.path, "action") if line["turn"] == 2)
    assert third["attempts"] == 3
