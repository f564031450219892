from __future__ import annotations

import json
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest
import responses
from fake_clock import FakeClock
from requests import PreparedRequest
from requests.adapters import BaseAdapter
from standins import (
    FIRST_ANSWER,
    KEY,
    Call,
    Connection,
    StandIn,
    Talk,
    Watcher,
    always,
    in_order,
    journal_lines,
    play,
    reply,
)

from bot import rules
from bot.client.client import Failed
from bot.client.environment import Surroundings
from bot.client.failures import Kind
from bot.client.limits import INIT_GIVE_UP_S, Limits
from bot.client.redirects import ACTION_PATH
from bot.client.transport import Transport, new_session
from bot.errors import (
    ConfigError,
    Contradiction,
    Diverged,
    ServiceUnavailable,
    Stopped,
    TokenRefused,
    TryLater,
    Unreadable,
)
from bot.service import Answer, LocalAdapter, Service
from bot.verify import recover
from bot.wire.places import MAX_TOKEN

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

NO_JSON: Final[dict[str, bytes]] = {
    "HTML": PAGE,
    "nothing": b"",
    "half of it": json.dumps(AFTER).encode()[:-40],
    "UTF-16": json.dumps(AFTER).encode("utf-16"),
}
"""No JSON at all, which is trouble at any time."""
NO_ANSWERS: Final[dict[str, tuple[bytes, str]]] = {
    "nested too deeply": (b"[" * 50_000, "nested too deeply"),
    "nested 101 deep": (b"[" * 101 + b"]" * 101, "nested too deeply"),
    "null": (b"null", "the answer is null, not an object"),
    "a list": (b"[]", "the answer is a list, not an object"),
    "a number": (b"7", "the answer is an integer, not an object"),
    "an empty object": (b"{}", "the answer has no token (it is empty)"),
    "words": (b'{"message": "back soon"}', "the answer has no token (it has message text)"),
    "no token": (
        json.dumps({**AFTER, "stateToken": None}).encode(),
        "the answer has no token; the setting wire.token names its path (it has ok boolean, ",
    ),
    "an empty token": (json.dumps({**AFTER, "stateToken": ""}).encode(), "no token"),
    "ok null": (b'{"ok": null, "reason": "x"}', "no token (it has ok null, reason text)"),
}
"""JSON without a token: not to be understood at first, trouble in mid-run."""
NOTHING_TO_GO_BY: Final[dict[str, bytes]] = {
    "no state": b'{"stateToken": "another", "state": null}',
    "another shape": b'{"stateToken": "another", "hearts": "three"}',
    "a token too long": b'{"stateToken": "%b", "score": 215}' % (b"x" * (MAX_TOKEN + 1)),
}
"""JSON with a token and nothing to check it by: not to be understood at any time."""


@pytest.mark.parametrize("is_under_way", [False, True])
@pytest.mark.parametrize("body", NO_JSON.values(), ids=NO_JSON)
def test_what_is_no_json_is_asked_for_again(
    body: bytes, is_under_way: bool, clock: FakeClock
) -> None:
    with answers(*[body] * 5, AFTER) as mock:
        talk = Talk(URL, clock, is_under_way=is_under_way)
        answered = talk.act()
        assert len({call.request.body for call in mock.calls}) == 1
        assert len(mock.calls) == 6
    assert (answered.attempts, answered.token) == (6, AFTER["stateToken"])
    assert all("the answer is no JSON" in text for text in talk.causes)
    assert [failure.status for failure in talk.failures] == [200] * 5
    assert talk.attempts == [1, 2, 3, 4, 5]
    assert_waits_grow(clock.waits)


@pytest.mark.parametrize("body", NO_JSON.values(), ids=NO_JSON)
def test_a_service_that_gives_nothing_else_is_given_up_after_a_bounded_time(
    body: bytes, clock: FakeClock
) -> None:
    with answers(body), pytest.raises(ServiceUnavailable) as caught:
        Talk(URL, clock, Limits(give_up_after_s=100)).act()
    assert "the answer is no JSON" in str(caught.value)
    assert (caught.value.exit_code, "flip 2" in str(caught.value)) == (69, True)
    assert 40 < sum(clock.waits) <= 100


@pytest.mark.parametrize(("body", "cause"), NO_ANSWERS.values(), ids=NO_ANSWERS)
@pytest.mark.parametrize("what", ["init", "flip 2"])
def test_json_that_is_not_understood_at_first_ends_after_three_tries(
    what: str, body: bytes, cause: str, clock: FakeClock
) -> None:
    with StandIn(always(reply(200, body))) as server:
        talk = Talk(server.url, clock)
        with pytest.raises(Unreadable, match="cannot be understood") as caught:
            talk.begin() if what == "init" else talk.act()
        assert len(server.requests) == 3
    assert clock.waits == [1, 2]
    assert (caught.value.exit_code, what in str(caught.value)) == (76, True)
    assert cause in str(caught.value)
    assert len(str(caught.value)) < 700


@pytest.mark.parametrize(("body", "cause"), NO_ANSWERS.values(), ids=NO_ANSWERS)
def test_the_same_in_mid_run_is_trouble(body: bytes, cause: str, clock: FakeClock) -> None:
    with answers(*[body] * 5, AFTER):
        talk = Talk(URL, clock, is_under_way=True)
        assert talk.act().attempts == 6
    assert {failure.kind for failure in talk.failures} == {Kind.TROUBLE}
    assert all(cause in text for text in talk.causes)
    assert_waits_grow(clock.waits)


@pytest.mark.parametrize("body", NOTHING_TO_GO_BY.values(), ids=NOTHING_TO_GO_BY)
@pytest.mark.parametrize("is_under_way", [False, True])
def test_a_token_with_nothing_to_check_by_ends_after_three_tries_at_any_time(
    body: bytes, is_under_way: bool, clock: FakeClock
) -> None:
    with answers(body) as mock:
        talk = Talk(URL, clock, is_under_way=is_under_way)
        with pytest.raises(Unreadable):
            talk.act()
        assert len(mock.calls) == 3
    assert clock.waits == [1, 2]


def test_what_is_said_of_an_answer_that_is_not_understood_holds_no_token(
    clock: FakeClock,
) -> None:
    token = "eyJzZWVkIjo3fQ.c2lnbmF0dXJl-_" * 9
    answer = {"game": "sunpleat", "ticket": token, "pieces": [{"face": "sun"}], "count": 3}
    with StandIn(always(reply(200, answer))) as server:
        talk = Talk(server.url, clock)
        with pytest.raises(Unreadable) as caught:
            talk.begin()
    assert "game text, ticket text, pieces list, count number" in str(caught.value)
    assert '{"game": "sunpleat", "ticket": "..."' in str(caught.value)
    shown = [str(caught.value), *talk.causes, *(failure.excerpt for failure in talk.failures)]
    assert all(token[:32] not in text for text in shown)


@pytest.mark.parametrize("status", [200, 201, 202, 203, 206])
def test_any_2xx_with_a_whole_answer_is_an_answer(status: int, clock: FakeClock) -> None:
    with answers(AFTER, status=status):
        assert Talk(URL, clock).act().attempts == 1


@pytest.mark.parametrize(
    "error", [None, {}, "", 0, [], {"code": 500, "message": "internal error"}, "too many requests"]
)
def test_an_answer_that_holds_everything_is_one_whatever_error_it_carries(
    error: object, clock: FakeClock
) -> None:
    with answers({**AFTER, "error": error}):
        assert Talk(URL, clock).act().attempts == 1


def test_an_excerpt_of_a_non_answer_is_kept(clock: FakeClock) -> None:
    with answers(PAGE, AFTER, Content_Type="text/html"):
        talk = Talk(URL, clock)
        talk.act()
    (page,) = talk.failures
    assert page.excerpt == PAGE.decode()[:200]
    assert page.cause.endswith("(text/html)")


def test_a_content_type_of_any_length_is_told_in_short(clock: FakeClock) -> None:
    with answers(PAGE, AFTER, Content_Type="text/" + "x" * 5000):
        talk = Talk(URL, clock)
        talk.act()
    assert len(talk.causes[0]) < 200


@pytest.mark.parametrize("depth", [98, 101, 500, 900, 980])
def test_an_answer_nested_to_any_depth_is_understood_or_asked_for_again(
    depth: int, clock: FakeClock
) -> None:
    nested = "[" * depth + "]" * depth
    with answers(f'{{"hint": {nested}}}', f'{{"ok": false, "reason": {nested}}}', AFTER):
        assert Talk(URL, clock).act().attempts == 3


# Statuses


@pytest.mark.parametrize(
    "status", [401, 403, 408, 409, 418, 425, 429, 451, 500, 502, 503, 504, 520, 522, 599]
)
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


@pytest.mark.parametrize("status", [204, 205, 300, 304, 305, 306, 400, 403, 422, 777])
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


NO_TOKEN: Final = {"ok": False, "reason": "stateToken is too old: it has expired"}


@pytest.mark.parametrize("status", [200, 400, 401, 403, 404, 409, 410, 413, 422])
def test_a_token_that_is_refused_in_words_is_tried_twice_five_seconds_apart(
    status: int, clock: FakeClock
) -> None:
    with StandIn(always(reply(status, NO_TOKEN))) as server:
        talk = Talk(server.url, clock)
        with pytest.raises(TokenRefused, match="it has expired") as caught:
            talk.act()
        assert len(server.requests) == 2
    assert (caught.value.exit_code, clock.waits) == (77, [5])


def test_a_token_that_is_refused_for_a_few_seconds_is_taken_after_them(clock: FakeClock) -> None:
    began_at = clock.monotonic()
    fault = reply(401, NO_TOKEN)
    with StandIn(lambda *_: fault if clock.monotonic() < began_at + 4.9 else None) as server:
        assert Talk(server.url, clock).act().attempts == 2


def test_a_token_that_there_is_no_time_to_try_twice_is_kept(clock: FakeClock) -> None:
    with StandIn(always(reply(401, NO_TOKEN))) as server:
        with pytest.raises(ServiceUnavailable):
            Talk(server.url, clock, Limits(give_up_after_s=0.4)).act()
        assert len(server.requests) == 1


@pytest.mark.parametrize("status", [400, 401, 403, 409, 410, 422])
@pytest.mark.parametrize(
    "fault",
    [(PAGE, HTML), (b'{"message": "Conflict"}',), (b'{"error": "invalid csrf token"}',)],
    ids=["page", "other words", "another token"],
)
def test_anything_else_with_such_a_status_does_not_refuse_the_token(
    fault: tuple[Any, ...], status: int, clock: FakeClock
) -> None:
    with StandIn(in_order(*[reply(status, *fault)] * 5)) as server:
        assert Talk(server.url, clock).act().attempts == 6


@pytest.mark.parametrize(
    ("status", "meaning"),
    [(402, "paid"), (404, "no such game"), (405, "--base-url"), (413, "large"), (415, "JSON")],
)
@pytest.mark.parametrize("body", [PAGE, b'{"ok": false, "reason": "x"}'], ids=["page", "JSON"])
@pytest.mark.parametrize("what", ["init", "flip 2"])
def test_a_wrong_address_or_way_ends_at_once_before_anything_was_accepted(
    what: str, status: int, meaning: str, body: bytes, clock: FakeClock
) -> None:
    with StandIn(always(reply(status, body))) as server:
        talk = Talk(server.url, clock)
        with pytest.raises(ServiceUnavailable, match=meaning) as caught:
            talk.begin() if what == "init" else talk.act()
        assert len(server.requests) == 1
    assert caught.value.exit_code == 69
    assert "\n" not in str(caught.value)
    assert (clock.waits, talk.attempts) == ([], [1])


@pytest.mark.parametrize("status", [402, 404, 405, 413, 415])
def test_the_same_after_an_accepted_action_is_trouble(status: int, clock: FakeClock) -> None:
    fault = reply(status, PAGE, HTML)
    with StandIn(lambda _, number: fault if 1 < number < 6 else None) as server:
        talk = Talk(server.url, clock)
        talk.act()
        assert talk.act().attempts == 5
    assert {failure.kind for failure in talk.failures} == {Kind.TROUBLE}


def test_a_resumed_run_with_accepted_actions_is_under_way_from_its_first_request(
    clock: FakeClock,
) -> None:
    with StandIn(in_order(*[reply(404)] * 3)) as server:
        assert Talk(server.url, clock, is_under_way=True).act().attempts == 4


@pytest.mark.parametrize("status", [403, 429, 503])
def test_a_browser_check_before_init_says_so_within_the_minute(
    status: int, clock: FakeClock
) -> None:
    with StandIn(always(reply(status, CHECK, HTML))) as server:
        with pytest.raises(ServiceUnavailable, match="asks for a browser") as caught:
            Talk(server.url, clock).begin()
        assert 2 <= len(server.requests) <= 4
    assert caught.value.exit_code == 69
    assert sum(clock.waits) <= INIT_GIVE_UP_S


# Refusals


def refusal(reason: object, **more: object) -> dict[str, object]:
    return {"ok": False, "reason": reason, **more}


LEGAL: Final = {"legalActions": [{"type": "bank"}]}


def test_a_refused_action_is_sent_seven_times(clock: FakeClock) -> None:
    with answers(refusal("not now", **LEGAL)) as mock:
        talk = Talk(URL, clock)
        with pytest.raises(Contradiction, match=r"a legal action, 7 times: not now$") as caught:
            talk.act()
        assert len(mock.calls) == 7
        assert len({call.request.body for call in mock.calls}) == 1
    assert caught.value.exit_code == 76
    assert {failure.kind for failure in talk.failures} == {Kind.REFUSED}
    assert clock.waits == [1, 2, 4, 8, 16, 32]


def test_a_refused_action_is_not_tried_beyond_the_time_to_give_up(clock: FakeClock) -> None:
    with answers(refusal("not now", **LEGAL)) as mock:
        with pytest.raises(ServiceUnavailable, match="gave up"):
            Talk(URL, clock, Limits(give_up_after_s=10)).act()
        assert len(mock.calls) == 4


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (refusal("too many requests", **LEGAL), Kind.LIMIT),
        (refusal("rate limit exceeded for this token"), Kind.LIMIT),
        (refusal("internal error", **LEGAL), Kind.TROUBLE),
        (refusal("the session store timed out"), Kind.TROUBLE),
        ({"error": {"code": 500, "message": "oops"}}, Kind.TROUBLE),
        ({"error": "slow down"}, Kind.LIMIT),
        ({"ok": False}, Kind.REFUSED),
    ],
    ids=str,
)
def test_words_in_a_200_are_trouble_a_limit_or_a_refusal(
    answer: object, kind: Kind, clock: FakeClock
) -> None:
    with answers(answer, answer, AFTER):
        talk = Talk(URL, clock)
        assert talk.act().attempts == 3
    assert [failure.kind for failure in talk.failures] == [kind, kind]


def test_an_action_that_is_refused_and_then_taken_is_made_once(
    tmp_path: Path, clock: FakeClock
) -> None:
    fault = reply(200, refusal("busy", **LEGAL))
    with StandIn(lambda _, number: fault if number in (2, 3, 4) else None) as server:
        outcome = play(server.url, tmp_path, clock)
    assert (outcome.exit_code, outcome.run.score) == (0, 3030)
    assert len(list(journal_lines(outcome.path, "action"))) == 70
    assert outcome.run.requests == 74
    assert recover(outcome.path).run.is_over


def test_a_refusal_about_the_token_without_legal_actions_is_one_of_the_token(
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
        assert len(mock.calls) == 7


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
        answered = Talk(URL, clock).act()
    assert (answered.attempts, answered.token) == (2, AFTER["stateToken"])
    assert 0.5 <= clock.waits[0] <= 1


def test_other_faults_in_between_do_not_count_as_asked_once_more(clock: FakeClock) -> None:
    other = {**AFTER, "score": 0}
    with answers(b"", other, b"", b"", AFTER):
        assert Talk(URL, clock).act().attempts == 5
    with answers(b"", other, b"", other), pytest.raises(Diverged):
        Talk(URL, clock).act()


# Init


def test_init_is_given_up_after_a_minute(clock: FakeClock) -> None:
    with StandIn(always(reply(503))) as server, pytest.raises(ServiceUnavailable) as caught:
        Talk(server.url, clock).begin()
    assert INIT_GIVE_UP_S == 60
    assert 20 < sum(clock.waits) <= 60
    assert all(word in str(caught.value) for word in (f"127.0.0.1:{server.port}", "HTTP 503"))


@pytest.mark.parametrize("status", [200, 400, 410])
def test_init_that_speaks_of_a_token_has_none_to_refuse(status: int, clock: FakeClock) -> None:
    with StandIn(in_order(*[reply(status, NO_TOKEN)] * 4)) as server:
        assert Talk(server.url, clock).begin().attempts == 5


def test_init_that_answers_not_ok_is_tried_again(clock: FakeClock) -> None:
    with StandIn(in_order(reply(200, refusal("warming up")))) as server:
        talk = Talk(server.url, clock)
        assert talk.begin().token == Talk.TOKEN
    assert talk.causes == ["warming up"]


def test_init_that_is_not_of_a_fresh_run_is_asked_for_once_more_and_named(
    clock: FakeClock,
) -> None:
    wrong = {**json.loads(FIRST_ANSWER), "score": 7}
    with StandIn(always(reply(200, wrong))) as server:
        with pytest.raises(Contradiction, match=r"score 7 where a fresh run has 0.*wire\.ignore"):
            Talk(server.url, clock).begin()
        assert len(server.requests) == 2


def test_init_brings_the_spec_and_says_what_is_passed_over(clock: FakeClock) -> None:
    first = json.loads(FIRST_ANSWER)
    first["state"]["leaves"] = ["a", "b", "c"]
    with StandIn(always(reply(200, first))) as server:
        answered = Talk(server.url, clock).begin()
    assert answered.spec == first["spec"]
    assert answered.notices == (
        "state.leaves is passed over for this run: a list where an integer was expected",
    )


def test_what_is_not_sent_is_noted_once(clock: FakeClock) -> None:
    less = {key: value for key, value in AFTER.items() if key != "gameOver"}
    with answers(AFTER, less, less):
        talk = Talk(URL, clock)
        notices = [talk.act().notices for _ in range(3)]
    note = "the answer does not send gameOver; what is not sent is not compared"
    assert notices == [(), (note,), ()]


def test_an_answer_that_is_laid_out_anew_says_so_once(clock: FakeClock) -> None:
    with answers(AFTER, {"result": AFTER}, {"result": AFTER}):
        talk = Talk(URL, clock)
        assert [talk.act().is_laid_out_anew for _ in range(3)] == [False, True, False]


def test_a_wait_beyond_a_minute_that_init_is_asked_for_ends_it_at_once(clock: FakeClock) -> None:
    with (
        StandIn(always(reply(503, b"", ("Retry-After", "61")))) as server,
        pytest.raises(ServiceUnavailable, match="2026-11-30 02:42:08 UTC"),
    ):
        Talk(server.url, clock).begin()
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
    assert outcome.run.requests == 4


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


@pytest.fixture
def timeouts(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the time-out of every attempt, as it is made."""
    found: list[float] = []
    send = Transport.send

    def spied(*args: Any) -> Any:
        found.append(args[-1])
        return send(*args)

    monkeypatch.setattr(Transport, "send", spied)
    return found


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


def test_each_limit_after_an_accepted_answer_cuts_the_pace_and_is_told(clock: FakeClock) -> None:
    def notices() -> list[str]:
        attempts = talk.client.act(Talk.TOKEN, Talk.ACTION, rules.fresh(), Talk.PREDICTED)
        return [attempt.notice for attempt in attempts if isinstance(attempt, Failed)]

    with StandIn(in_order(reply(429), reply(429), None, reply(429))) as server:
        talk = Talk(server.url, clock, max_rps=10)
        first = notices()
        assert talk.pace.rps < 10
        second = notices()
    told = [*first, *second]
    assert [bool(notice) for notice in told] == [True, False, True]
    assert all(
        notice.startswith("the service limits requests: slowing down to ")
        for notice in filter(None, told)
    )


def test_requests_are_evenly_spaced(tmp_path: Path, clock: FakeClock) -> None:
    service = Timed(clock)
    play(service, tmp_path, clock, Call(max_rps=10))
    assert service.gaps == [pytest.approx(0.1)] * 70


def test_the_time_that_answers_take_is_part_of_the_space(tmp_path: Path, clock: FakeClock) -> None:
    service = Timed(clock, takes_s=(0.04, 0.09))
    play(service, tmp_path, clock, Call(max_rps=10))
    assert service.gaps == [pytest.approx(0.1)] * 70


def test_no_two_requests_are_closer_after_slow_answers_than_after_fast_ones(
    tmp_path: Path, clock: FakeClock
) -> None:
    service = Timed(clock, takes_s=(0.0, 0.0, 5.0, 0.35))
    play(service, tmp_path, clock, Call(max_rps=10))
    assert min(service.gaps) >= 0.1 - 1e-9
    assert max(service.gaps) == pytest.approx(5.0)


def test_requests_that_are_sent_again_are_spaced_too(clock: FakeClock) -> None:
    with StandIn(in_order(*[reply(503, b"")] * 4)) as server:
        talk = Talk(server.url, clock, max_rps=0.5)
        talk.act()
    assert clock.monotonic() - 1000 >= 8


def test_without_a_rate_nothing_is_waited_for(tmp_path: Path, clock: FakeClock) -> None:
    play(Service(KEY), tmp_path, clock)
    assert clock.waits == []


def test_a_rate_slower_than_the_patience_is_no_fault(clock: FakeClock) -> None:
    with StandIn(in_order(reply(503))) as server:
        talk = Talk(server.url, clock, max_rps=0.001)
        assert talk.begin().token == Talk.TOKEN


def test_waiting_for_the_pace_is_no_part_of_the_time_to_give_up(clock: FakeClock) -> None:
    with StandIn(lambda _, number: reply(503) if number == 2 else None) as server:
        talk = Talk(server.url, clock, Limits(give_up_after_s=50), max_rps=0.01)
        talk.act()
        assert talk.act().attempts == 2


@pytest.mark.parametrize(("late_s", "timeout_s"), [(50, 30), (90, 9.25), (98.9, 1)])
def test_an_attempt_has_no_more_than_the_time_to_give_up_and_no_less_than_a_second(
    clock: FakeClock, timeouts: list[float], late_s: float, timeout_s: float
) -> None:
    def late(connection: Connection) -> None:
        clock.advance(late_s)
        reply(503)(connection)

    with StandIn(in_order(late)) as server:
        Talk(server.url, clock, Limits(timeout_s=30, give_up_after_s=100)).act()
    assert timeouts == [30, pytest.approx(timeout_s, abs=0.25)]


@pytest.mark.parametrize(("gone_s", "timeout_s"), [(0, 6), (2, 4), (5.5, 0.5)])
def test_an_attempt_ends_with_the_minutes(
    clock: FakeClock, timeouts: list[float], gone_s: float, timeout_s: float
) -> None:
    with StandIn() as server:
        talk = Talk(server.url, clock, Limits(max_minutes=0.1))
        clock.advance(gone_s)
        talk.act()
    assert timeouts == [pytest.approx(timeout_s)]


class Asleep(BaseAdapter):
    """A way to a service on which the machine falls asleep in the first request."""

    def __init__(self, clock: FakeClock, seconds: float) -> None:
        super().__init__()
        self.requests = 0
        self._clock, self._seconds = clock, seconds
        self._service = LocalAdapter(Service(KEY))

    def send(self, request: PreparedRequest, *args: Any, **kwargs: Any) -> Any:
        self.requests += 1
        if self.requests == 1:
            self._clock.advance(self._seconds)
            raise OSError("connection reset")
        return self._service.send(request, *args, **kwargs)

    def close(self) -> None:
        """Have nothing to close."""


@pytest.mark.parametrize("hours", [0.5, 8, 1000])
def test_a_machine_that_was_asleep_in_a_request_asks_again_first(
    hours: float, clock: FakeClock
) -> None:
    session = new_session()
    session.mount(URL, adapter := Asleep(clock, hours * 3600))
    talk = Talk(URL, clock, transport=Transport(session, Surroundings(), None))
    assert talk.act().attempts == 2
    assert (adapter.requests, talk.causes) == (2, ["connection reset"])


def test_a_request_that_merely_took_its_time_is_no_sleep(clock: FakeClock) -> None:
    session = new_session()
    session.mount(URL, Asleep(clock, 30))
    talk = Talk(
        URL, clock, Limits(give_up_after_s=30), transport=Transport(session, Surroundings(), None)
    )
    with pytest.raises(ServiceUnavailable):
        talk.act()


def test_a_machine_that_was_asleep_in_a_wait_asks_again_first(clock: FakeClock) -> None:
    clock.when_asleep = lambda _: clock.advance(8 * 3600)
    with StandIn(in_order(reply(503), reply(503))) as server:
        assert Talk(server.url, clock).act().attempts == 3


def test_a_budget_of_requests_counts_every_one_that_is_sent(clock: FakeClock) -> None:
    with StandIn(in_order(reply(503), reply(200, b""))) as server:
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
        talk = Talk(server.url, clock, Limits(max_minutes=1), max_rps=0.01)
        with pytest.raises(TryLater, match="1 minute ends before the next request is due"):
            talk.act()
        assert len(server.requests) == 1


def test_a_budget_that_is_used_up_is_told_without_a_wait(clock: FakeClock) -> None:
    with StandIn() as server:
        talk = Talk(server.url, clock, Limits(max_requests=1), max_rps=0.01)
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
