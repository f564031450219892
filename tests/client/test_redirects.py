from __future__ import annotations

import json
import ssl
from pathlib import Path
from typing import Final

import pytest
import responses
from fake_clock import FakeClock
from hypothesis import given, settings
from hypothesis import strategies as st
from standins import (
    FIRST_ANSWER,
    Plan,
    Reply,
    Request,
    StandIn,
    Talk,
    always,
    in_order,
    play,
    raw,
    reply,
)

from bot.client.environment import Surroundings
from bot.client.failures import Kind
from bot.client.redirects import ACTION_PATH, INIT_PATH, MAX_HOPS, MAX_LOCATION, Endpoint
from bot.client.transport import new_transport
from bot.errors import ConfigError, ServiceUnavailable
from bot.verify import recover

CODES: Final = (301, 302, 303, 307, 308)
CERTIFICATE: Final = Path(__file__).with_name("service.pem")


def moved(location: str, status: int = 307) -> Reply:
    return reply(status, b"<html>Moved</html>", ("Location", location))


def all_to(base_url: str, status: int = 307) -> Plan:
    """Redirect every request to the same path elsewhere."""
    return lambda request, _: moved(f"{base_url}{request.target}", status)


def first_to(location: str, status: int = 307) -> Plan:
    return lambda _, number: moved(location, status) if number == 1 else None


@pytest.mark.parametrize("status", CODES)
def test_a_post_stays_a_post_with_its_body_and_the_rest_of_the_run_goes_straight_there(
    status: int, tmp_path: Path, clock: FakeClock
) -> None:
    with StandIn() as there, StandIn(all_to(there.url, status)) as here:
        outcome = play(here.url, tmp_path, clock)
        assert (outcome.exit_code, outcome.run.score) == (0, 3030)
        assert [request.method for request in here.requests] == ["GET"]
        assert [request.method for request in there.requests] == ["GET", *["POST"] * 70]
        assert there.requests[0].target == f"{INIT_PATH}?seed=7"
    assert outcome.run.retries == 1
    assert clock.waits == [0.0]
    assert recover(outcome.path).run.is_over


@pytest.mark.parametrize("status", CODES)
def test_an_action_that_moves_is_sent_again_byte_for_byte(status: int, clock: FakeClock) -> None:
    with StandIn() as there, StandIn(all_to(there.url, status)) as here:
        talk = Talk(here.url, clock)
        for _ in range(3):
            assert talk.act().token != Talk.TOKEN
        (first,) = here.requests
        assert len(there.requests) == 3
        assert {(request.method, request.body) for request in there.requests} == {
            ("POST", first.body)
        }
    assert talk.causes == [
        f"HTTP {status}: moved to {there.url}{ACTION_PATH}",
    ]


@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("/v2/api/games/sunpleat/action", "/v2/api/games/sunpleat/action"),
        ("/play", "/play"),
        ("/", "/"),
        ("play", "/api/games/sunpleat/play"),
        ("?region=1", f"{ACTION_PATH}?region=1"),
        (f"{ACTION_PATH}?a=b&c=%20d", f"{ACTION_PATH}?a=b&c=%20d"),
        (f"{ACTION_PATH}/", f"{ACTION_PATH}/"),
        ("/a b/ü", "/a%20b/%C3%BC"),
        ("/here#there", "/here"),
    ],
)
def test_a_location_is_followed_whatever_its_form(
    location: str, target: str, clock: FakeClock
) -> None:
    def plan(request: Request, number: int) -> Reply | None:
        if number == 1:
            return moved(location)
        if request.target != target:
            return reply(404)
        answer = here._service.answer("POST", ACTION_PATH, request.body)
        return reply(answer.status, answer.body)

    with StandIn(plan) as here:
        talk = Talk(here.url, clock)
        for _ in range(2):
            assert talk.act().token != Talk.TOKEN
        assert [request.target for request in here.requests] == [ACTION_PATH, target, target]
        assert len({request.body for request in here.requests}) == 1


@pytest.mark.parametrize(("one", "other"), [("localhost", "127.0.0.1"), ("127.0.0.1", "localhost")])
def test_names_of_this_machine_are_one_host(one: str, other: str, clock: FakeClock) -> None:
    with StandIn() as there, StandIn(all_to(f"http://{other}:{there.port}")) as here:
        assert Talk(f"http://{one}:{here.port}", clock).act().attempts == 2


@pytest.mark.parametrize(
    ("one", "other"),
    [("sunpleat.test", "www.sunpleat.test"), ("www.sunpleat.test", "sunpleat.test")],
)
def test_a_host_and_its_www_are_one_host(one: str, other: str, clock: FakeClock) -> None:
    with StandIn() as there, StandIn(all_to(f"http://{other}:{there.port}")) as here:
        talk = Talk(f"http://{one}:{here.port}", clock)
        talk.begin()
        assert talk.act().token != Talk.TOKEN
        assert (len(here.requests), len(there.requests)) == (1, 2)


@pytest.mark.parametrize(
    "location",
    [
        "http://elsewhere.test/api/games/sunpleat/action",
        "//elsewhere.test/",
        "http://sunpleat.test.elsewhere.test/",
        "http://ww.sunpleat.test/",
        "http://www.www.sunpleat.test/",
        "http://api.sunpleat.test/",
        "http://127.0.0.1/",
        "http://sunpleat.test@elsewhere.test/",
        "https://elsewhere.test/",
    ],
)
def test_another_host_is_not_followed_and_the_token_is_not_sent_there(
    location: str, clock: FakeClock
) -> None:
    with StandIn(always(moved(location))) as here:
        talk = Talk(f"http://sunpleat.test:{here.port}", clock)
        with pytest.raises(ConfigError, match=r"another host, .*--base-url") as caught:
            talk.act()
        assert len(here.requests) == 1
    assert caught.value.exit_code == 78
    assert f"sunpleat.test:{here.port}" in str(caught.value)
    assert clock.waits == []
    told = [(failure.status, failure.cause) for failure in talk.failures]
    assert told == [(307, str(caught.value))]


def test_a_captive_portal_in_mid_run_is_trouble_and_gets_no_token(clock: FakeClock) -> None:
    with StandIn(always(reply(200, b"<h1>Log in</h1>"))) as portal, StandIn() as here:
        location = f"http://login.test:{portal.port}/"
        here.plan = lambda _, number: moved(location, 302) if number in (2, 3) else None
        talk = Talk(f"http://sunpleat.test:{here.port}", clock)
        talk.act()
        assert talk.act().attempts == 3
        assert portal.requests == []
    kinds = [(failure.kind, failure.status) for failure in talk.failures]
    assert kinds == [(Kind.TROUBLE, 302)] * 2
    assert all("redirects to another host" in cause for cause in talk.causes)


def test_a_captive_portal_that_stays_ends_the_sitting_after_the_time_to_give_up(
    clock: FakeClock,
) -> None:
    with StandIn(always(moved("http://login.test/"))) as here:
        talk = Talk(f"http://sunpleat.test:{here.port}", clock, is_under_way=True)
        with pytest.raises(ServiceUnavailable, match=r"another host, login\.test"):
            talk.act()
    assert 840 < sum(clock.waits) <= 900


def test_a_service_is_never_followed_out_of_tls(clock: FakeClock) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(CERTIFICATE)
    transport = new_transport(clock.stop, Surroundings(ca_bundle=str(CERTIFICATE)))
    with StandIn() as plain, StandIn(all_to(plain.url), tls=tls) as secure:
        talk = Talk(secure.url, clock, transport=transport)
        with pytest.raises(ConfigError, match="not secure; not followed"):
            talk.act()
        assert plain.requests == []


def test_a_service_is_followed_into_tls(clock: FakeClock) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(CERTIFICATE)
    transport = new_transport(clock.stop, Surroundings(ca_bundle=str(CERTIFICATE)))
    with StandIn(tls=tls) as secure, StandIn(all_to(secure.url)) as plain:
        assert Talk(plain.url, clock, transport=transport).act().attempts == 2


def test_a_service_that_moves_within_tls_is_followed(clock: FakeClock) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(CERTIFICATE)
    transport = new_transport(clock.stop, Surroundings(ca_bundle=str(CERTIFICATE)))
    with StandIn(tls=tls) as there, StandIn(all_to(there.url), tls=tls) as here:
        assert Talk(here.url, clock, transport=transport).act().attempts == 2
        assert (len(here.requests), len(there.requests)) == (1, 1)


@pytest.mark.parametrize("location", ["/play", ""], ids=["somewhere", "nowhere"])
def test_a_redirect_is_followed_no_sooner_than_it_asks_for(location: str, clock: FakeClock) -> None:
    fault = reply(307, b"", ("Location", location), ("Retry-After", "60"))
    with StandIn(in_order(fault, reply(503, b""))) as here:
        talk = Talk(here.url, clock)
        assert talk.act().attempts == 3
    assert talk.waits[0] == 60
    assert talk.waits[1] < 60


@pytest.mark.parametrize("method", ["init", "act"])
def test_a_loop_ends(method: str, clock: FakeClock) -> None:
    with StandIn(lambda request, _: moved(request.target)) as here:
        talk = Talk(here.url, clock)
        with pytest.raises(ServiceUnavailable, match="redirects lead nowhere"):
            talk.act() if method == "act" else talk.begin()
    assert {failure.status for failure in talk.failures} == {307}
    rounds = [cause for cause in talk.causes if "lead nowhere" in cause]
    assert len(rounds) > 3
    assert len(talk.causes) == len(rounds) * (MAX_HOPS + 1) == len(here.requests)
    give_up_s = 900 if method == "act" else 60
    assert give_up_s - 61 < sum(clock.waits) <= give_up_s


def test_redirects_in_a_circle_are_trouble_that_passes(clock: FakeClock) -> None:
    with StandIn(lambda request, number: moved(request.target) if number < 9 else None) as here:
        talk = Talk(here.url, clock)
        assert talk.act().attempts == 9
    kinds = [failure.kind for failure in talk.failures]
    assert kinds == [*[Kind.MOVED] * 5, Kind.TROUBLE, Kind.MOVED, Kind.MOVED]


def test_redirects_are_counted_anew_after_an_accepted_answer(clock: FakeClock) -> None:
    with StandIn(
        lambda request, number: moved(request.target) if 1 < number <= 1 + MAX_HOPS else None
    ) as here:
        talk = Talk(here.url, clock)
        talk.act()
        assert talk.act().attempts == 1 + MAX_HOPS
    assert {failure.kind for failure in talk.failures} == {Kind.MOVED}


def test_a_loop_between_two_hosts_ends(clock: FakeClock) -> None:
    with StandIn() as one, StandIn(all_to(one.url)) as other:
        one.plan = all_to(other.url)
        talk = Talk(one.url, clock)
        with pytest.raises(ServiceUnavailable, match="redirects lead nowhere"):
            talk.act()
        assert len(one.requests) == len(other.requests) == len(talk.causes) / 2


MAINTENANCE: Final[dict[str, Reply]] = {
    "a page that answers 503": reply(503, b"<h1>Back soon</h1>", ("Content-Type", "text/html")),
    "a page that is fine": reply(200, b"<h1>Back soon</h1>", ("Content-Type", "text/html")),
    "a page that is not there": reply(404, b"<h1>Not found</h1>", ("Content-Type", "text/html")),
    "JSON that is no answer": reply(200, {"message": "back soon"}),
    "a refusal": reply(200, {"ok": False, "reason": "down for maintenance"}),
    "nothing": raw(b""),
}


@pytest.mark.parametrize("status", [302, 307, 308])
@pytest.mark.parametrize("page", MAINTENANCE.values(), ids=MAINTENANCE)
def test_a_redirect_that_leads_nowhere_leads_back(
    page: Reply, status: int, clock: FakeClock
) -> None:
    began_at = clock.monotonic()

    def plan(request: Request, _: int) -> Reply | None:
        if request.target == "/maintenance":
            return page
        return moved("/maintenance", status) if clock.monotonic() < began_at + 8 else None

    with StandIn(plan) as here:
        talk = Talk(here.url, clock, is_under_way=True)
        assert talk.act().token != Talk.TOKEN
        targets = [request.target for request in here.requests]
        assert targets[::2] == [ACTION_PATH] * (len(targets) // 2 + 1)
        assert targets[1::2] == ["/maintenance"] * (len(targets) // 2)
    assert clock.monotonic() < began_at + 20
    kinds = [failure.kind for failure in talk.failures]
    assert kinds == [Kind.MOVED, Kind.TROUBLE] * (len(kinds) // 2)


def test_a_redirect_to_a_page_that_is_not_there_leads_back_at_first_contact_too(
    clock: FakeClock,
) -> None:
    page = reply(404, b"<h1>Not found</h1>", ("Content-Type", "text/html"))
    with StandIn(
        lambda request, number: (
            page
            if request.target == "/maintenance"
            else moved("/maintenance")
            if number < 3
            else None
        )
    ) as here:
        assert Talk(here.url, clock).begin().token == Talk.TOKEN
        assert len(here.requests) == 3


def test_a_place_that_stops_answering_leads_back_to_itself_not_to_the_first(
    clock: FakeClock,
) -> None:
    with StandIn() as there, StandIn(all_to(there.url)) as here:
        talk = Talk(here.url, clock)
        talk.act()
        there.plan = lambda _, number: reply(503) if number == 2 else None
        assert talk.act().attempts == 2
        assert (len(here.requests), len(there.requests)) == (1, 3)


def test_the_base_url_of_a_redirect_that_was_not_accepted_is_not_taken_along(
    clock: FakeClock,
) -> None:
    with StandIn(always(reply(503))) as there, StandIn() as here:
        here.plan = lambda request, number: (
            moved(f"{there.url}{request.target}") if (number == 1) else None
        )
        talk = Talk(here.url, clock)
        talk.begin()
        talk.act()
        assert (len(here.requests), len(there.requests)) == (3, 1)


@pytest.mark.parametrize("status", CODES)
@pytest.mark.parametrize(
    "location",
    [None, "", "http://[", "ftp://127.0.0.1/", "http://127.0.0.1:99999/", "http://a b/"],
    ids=repr,
)
def test_a_redirect_to_nowhere_is_asked_for_again(
    location: str | None, status: int, clock: FakeClock
) -> None:
    headers = () if location is None else (("Location", location),)
    fault = reply(status, b"<html>Moved</html>", *headers)
    with StandIn(lambda _, number: fault if number < 3 else None) as here:
        talk = Talk(here.url, clock)
        assert talk.act().token != Talk.TOKEN
        assert len(here.requests) == 3
        assert len({(request.target, request.body) for request in here.requests}) == 1
    assert talk.causes == [f"HTTP {status} without a usable Location"] * 2
    assert [failure.status for failure in talk.failures] == [status] * 2
    assert all(wait_s >= 0.5 for wait_s in clock.waits)


def test_a_redirect_with_an_endless_body_is_cut_off(clock: FakeClock) -> None:
    with StandIn() as there:
        body = b"x" * 3_000_000
        fault = reply(307, body, ("Location", f"{there.url}{ACTION_PATH}"))
        with StandIn(lambda _, number: fault if number == 1 else None) as here:
            talk = Talk(here.url, clock)
            assert talk.act().token != Talk.TOKEN
    assert talk.causes == [f"HTTP 307: moved to {there.url}{ACTION_PATH}"]


@pytest.mark.parametrize(
    ("length", "kind"), [(MAX_LOCATION, Kind.MOVED), (MAX_LOCATION + 1, Kind.TROUBLE)]
)
def test_a_location_longer_than_2000_characters_is_not_followed(
    length: int, kind: Kind, clock: FakeClock
) -> None:
    with StandIn(first_to("/".ljust(length, "x"))) as here:
        talk = Talk(here.url, clock, is_under_way=True)
        talk.act()
    assert MAX_LOCATION == 2000
    assert talk.failures[0].kind is kind


def test_an_address_of_any_length_is_told_in_at_most_500_characters(clock: FakeClock) -> None:
    with StandIn(lambda _, number: moved("/" + "x" * 1900) if number == 1 else None) as here:
        talk = Talk(here.url, clock)
        talk.client._is_under_way = True
        talk.act()
    assert max(map(len, talk.causes)) <= 500


def test_a_second_init_is_asked_for_as_the_first(clock: FakeClock) -> None:
    with StandIn() as here:
        talk = Talk(here.url, clock)
        for _ in range(2):
            talk.begin()
        assert [request.target for request in here.requests] == [f"{INIT_PATH}?seed=7"] * 2


@responses.activate
def test_a_redirect_of_init_takes_the_address_of_actions_along(clock: FakeClock) -> None:
    responses.get(
        f"http://sunpleat.test{INIT_PATH}",
        status=308,
        headers={"Location": f"https://www.sunpleat.test/game{INIT_PATH}?seed=7"},
    )
    responses.get(f"https://www.sunpleat.test/game{INIT_PATH}", body=FIRST_ANSWER)
    responses.post(f"https://www.sunpleat.test/game{ACTION_PATH}", status=404, body="?")
    talk = Talk("http://sunpleat.test", clock)
    assert talk.begin().token == Talk.TOKEN
    with pytest.raises(ServiceUnavailable, match="HTTP 404"):
        talk.act()
    assert [call.request.method for call in responses.calls] == ["GET", "GET", "POST"]
    assert json.loads(responses.calls[2].request.body or "")["stateToken"] == Talk.TOKEN


@pytest.mark.parametrize(
    ("before", "after", "moved_to"),
    [
        (f"http://a{INIT_PATH}", f"http://b{INIT_PATH}?x=y", "http://b"),
        (f"http://a{INIT_PATH}", f"http://a/p{INIT_PATH}", "http://a/p"),
        (f"http://a{INIT_PATH}?seed=7", "http://b/other", "http://a"),
        ("http://a/other", f"http://b{INIT_PATH}", "http://a"),
    ],
)
def test_an_address_moves_along_where_the_base_alone_changed(
    before: str, after: str, moved_to: str, clock: FakeClock
) -> None:
    transport = new_transport(clock.stop, Surroundings())
    action = Endpoint(transport, "POST", f"http://a{ACTION_PATH}")
    action.move_along(before, after)
    assert (action.url, action.is_away) == (f"{moved_to}{ACTION_PATH}", False)


@pytest.mark.slow
@settings(deadline=None, max_examples=50)
@given(st.text(st.characters(min_codepoint=32, max_codepoint=255)))
@responses.activate
def test_a_location_of_any_text_ends_in_an_answer_or_an_error(location: str) -> None:
    responses.post(f"http://sunpleat.test{ACTION_PATH}", status=307, headers={"Location": location})
    talk = Talk("http://sunpleat.test", FakeClock())
    with pytest.raises((ServiceUnavailable, ConfigError)):
        talk.act()
