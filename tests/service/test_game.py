from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bot import rules, strategy
from bot.client.transport import new_session
from bot.errors import ActionError
from bot.service import LOCAL_URL, MAX_BODY, LocalAdapter, Service
from bot.strategy import Goal
from bot.wire.fields import legal_actions, public_fields

FRESH_STATE: Final = json.loads(
    (Path(__file__).parents[1] / "data" / "fresh_state.json").read_text()
)
INIT: Final = "/api/games/sunpleat/init"
ACTION: Final = "/api/games/sunpleat/action"
SERVICE: Final = Service(b"a key of the tests")
STATUSES: Final = {200, 400, 404, 405, 413}

FLIP_2: Final = {"type": "flip", "count": 2}


def ask(method: str, target: str, body: bytes = b"") -> tuple[int, Any]:
    status, data = SERVICE.answer(method, target, body)
    return status, json.loads(data)


def act(token: object, action: object) -> tuple[int, Any]:
    return ask("POST", ACTION, json.dumps({"stateToken": token, "action": action}).encode())


def first_token() -> str:
    token: str = ask("GET", INIT + "?seed=7")[1]["stateToken"]
    return token


# Answers


def test_init_answers_with_a_fresh_run_and_a_description_of_the_game() -> None:
    status, answer = ask("GET", INIT + "?seed=7")
    assert status == 200
    assert list(answer) == [
        "ok",
        "stateToken",
        "state",
        "legalActions",
        "score",
        "gameOver",
        "spec",
    ]
    assert answer["state"] == FRESH_STATE
    assert answer["legalActions"] == [
        {"type": "flip", "count": 1},
        {"type": "flip", "count": 2},
        {"type": "flip", "count": 3},
        {"type": "restart"},
        {"type": "bank"},
    ]
    assert (answer["ok"], answer["score"], answer["gameOver"]) == (True, 0, False)
    assert answer["spec"].keys() == {"goal", "scoring", "rules", "actions"}


def test_an_action_answers_with_the_state_after_it_and_without_the_description() -> None:
    status, answer = act(first_token(), FLIP_2)
    assert status == 200
    assert list(answer) == ["ok", "stateToken", "state", "legalActions", "score", "gameOver"]
    assert answer["state"]["garland"] == [1, 2, 3]
    assert (answer["state"]["phase"], answer["score"], answer["gameOver"]) == (
        "cleared",
        215,
        False,
    )
    assert answer["legalActions"] == [{"type": "next"}, {"type": "bank"}]


def test_a_run_that_is_over_allows_nothing() -> None:
    _, over = act(first_token(), {"type": "bank"})
    assert (over["gameOver"], over["legalActions"]) == (True, [])
    assert (over["state"]["endReason"], over["state"]["phase"]) == ("banked", "ended")
    status, refused = act(over["stateToken"], {"type": "bank"})
    assert (status, refused["ok"], refused["legalActions"]) == (200, False, [])


@pytest.mark.parametrize(
    "query", ["", "?seed=0", "?seed=7", "?seed=-3", "?seed=1.5", "?a=b&seed=2"]
)
def test_the_seed_changes_nothing(query: str) -> None:
    assert SERVICE.answer("GET", INIT + query, b"") == SERVICE.answer("GET", INIT, b"")


def test_the_same_token_and_action_bring_the_same_bytes() -> None:
    body = json.dumps({"stateToken": first_token(), "action": FLIP_2}).encode()
    assert SERVICE.answer("POST", ACTION, body) == SERVICE.answer("POST", ACTION, body)
    again = Service(b"a key of the tests")
    assert again.answer("POST", ACTION, body) == SERVICE.answer("POST", ACTION, body)


def test_an_old_token_is_a_place_to_go_on_from() -> None:
    token = first_token()
    assert act(token, {"type": "bank"})[1]["gameOver"] is True
    assert act(token, FLIP_2)[1]["score"] == 215


# Refusals

BAD_COUNTS: Final = (0, 6, -1, 2.5, True, "2", None, [2], {"of": 2}, 10**400, 1e308)
MALFORMED: Final[dict[str, tuple[object, str]]] = {
    "null": (None, "an action is a JSON object"),
    "a text": ("flip", "an action is a JSON object"),
    "a list": ([FLIP_2], "an action is a JSON object"),
    "no type": ({}, '"type" is one of'),
    "an unknown type": ({"type": "undo"}, '"type" is one of'),
    "a type of another case": ({"type": "Flip", "count": 2}, '"type" is one of'),
    "a null type": ({"type": None}, '"type" is one of'),
    "a nested type": ({"type": {"type": "bank"}}, '"type" is one of'),
    "a list for a type": ({"type": ["bank"]}, '"type" is one of'),
    "no count": ({"type": "flip"}, 'a flip has "type" and "count", nothing else'),
    "more than a flip": ({**FLIP_2, "x": 1}, 'a flip has "type" and "count", nothing else'),
    "more than a bank": ({"type": "bank", "count": 1}, 'bank has "type", nothing else'),
    **{
        f"count {count!r:.9}": (
            {"type": "flip", "count": count},
            '"count" is an integer from 1 to 5',
        )
        for count in BAD_COUNTS
    },
    "more pennants than there are": (
        {"type": "flip", "count": 4},
        "flip 4 is more than the 3 pennants",
    ),
    "next while playing": ({"type": "next"}, "next is not legal in phase playing"),
    "retry while playing": ({"type": "retry"}, "retry is not legal in phase playing"),
}


@pytest.mark.parametrize(("action", "reason"), MALFORMED.values(), ids=MALFORMED)
def test_an_action_that_is_refused_has_a_reason_and_the_legal_ones(
    action: object, reason: str
) -> None:
    status, answer = act(first_token(), action)
    assert status == 200
    assert list(answer) == ["ok", "reason", "legalActions"]
    assert answer["ok"] is False
    assert reason in answer["reason"]
    assert answer["legalActions"] == ask("GET", INIT)[1]["legalActions"]


@pytest.mark.parametrize("count", ["1e999", "-1e999", "NaN", "2.0000000001", "1" * 5000])
def test_a_count_that_python_would_not_write_is_refused_too(count: str) -> None:
    body = f'{{"stateToken": "{first_token()}", "action": {{"type": "flip", "count": {count}}}}}'
    status, answer = ask("POST", ACTION, body.encode())
    assert (status in (200, 400), answer["ok"]) == (True, False)


def test_a_count_of_two_point_nought_is_two() -> None:
    body = f'{{"stateToken": "{first_token()}", "action": {{"type": "flip", "count": 2.0}}}}'
    assert ask("POST", ACTION, body.encode())[1]["score"] == 215


def test_a_request_without_an_action_is_refused_with_the_legal_ones() -> None:
    status, answer = ask("POST", ACTION, json.dumps({"stateToken": first_token()}).encode())
    assert (status, answer["reason"]) == (200, "an action is a JSON object")


def forged(change: str) -> str:
    token = first_token()
    match change:
        case "cut":
            return token[:-3]
        case "another score":
            return token.replace("/0/", "/9/", 1)
        case "another key":
            text: str = json.loads(Service(b"other").answer("GET", INIT, b"").body)["stateToken"]
            return text
        case "unsigned":
            return token.rpartition(".")[0]
        case _:
            return f"x{token}"


@pytest.mark.parametrize(
    "token",
    [
        None,
        "",
        7,
        True,
        ["x"],
        {},
        ".",
        "nonsense",
        "\ud800",
        "é",
        "\0",
        "a" * 60_000,
        *map(forged, ("cut", "another score", "another key", "unsigned", "longer")),
    ],
    ids=lambda token: repr(token)[:12] + ("" if len(repr(token)) < 12 else f" {len(repr(token))}"),
)
def test_a_token_that_was_not_signed_here_is_a_bad_request(token: object) -> None:
    assert act(token, FLIP_2) == (
        400,
        {"ok": False, "reason": "stateToken was not signed by this service"},
    )


@pytest.mark.parametrize("key", [b"a key of the tests", b"another one"])
def test_a_service_knows_the_tokens_of_its_own_key(key: bytes) -> None:
    assert Service(key).knows(first_token()) is (key == b"a key of the tests")


@pytest.mark.parametrize("token", ["", ".", "\ud800", *map(forged, ("cut", "unsigned", "longer"))])
def test_a_service_knows_no_token_that_it_never_signed(token: str) -> None:
    assert SERVICE.knows(token) is False


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "the body is no JSON"),
        (b"{", "the body is no JSON"),
        (b"stateToken=x&action=flip", "the body is no JSON"),
        (b"\xff\xfe", "the body is no JSON"),
        (b"[" * 60_000, "the body is no JSON"),
        (b"null", "the body is no JSON object"),
        (b"[]", "the body is no JSON object"),
        (b'"x"', "the body is no JSON object"),
        (b"{}", "stateToken was not signed by this service"),
    ],
    ids=["nothing", "cut", "a form", "bytes", "deep", "null", "list", "text", "no token"],
)
def test_a_body_that_is_no_request_is_a_bad_request(body: bytes, reason: str) -> None:
    assert ask("POST", ACTION, body) == (400, {"ok": False, "reason": reason})


@pytest.mark.parametrize("seed", ["seven", "1e3", "7 8", "nan", "%00", "0x7"])
def test_a_seed_that_is_no_number_is_a_bad_request(seed: str) -> None:
    assert ask("GET", f"{INIT}?seed={seed}") == (400, {"ok": False, "reason": "seed is a number"})


@pytest.mark.parametrize(
    "path",
    ["", "/", "/api/games", f"{INIT}/", f"{INIT}/..", "/api/games/other/init", "*", "\ud800"],
)
def test_a_path_that_is_unknown_is_not_found(path: str) -> None:
    status, answer = ask("GET", path)
    assert (status, answer) == (404, {"ok": False, "reason": f"no such path: {path}"})


@pytest.mark.parametrize(
    ("method", "path", "right"),
    [
        *((method, INIT, "GET") for method in ("POST", "PUT", "HEAD", "DELETE", "", "get")),
        *((method, ACTION, "POST") for method in ("GET", "PUT", "PATCH", "OPTIONS", "post")),
    ],
)
def test_a_method_that_is_wrong_is_not_allowed(method: str, path: str, right: str) -> None:
    assert ask(method, path) == (405, {"ok": False, "reason": f"{path} takes {right}"})


@pytest.mark.parametrize(("size", "status"), [(MAX_BODY, 400), (MAX_BODY + 1, 413)])
def test_a_body_over_64_kib_is_too_large(size: int, status: int) -> None:
    code, answer = ask("POST", ACTION, b" " * size)
    assert (code, answer["ok"]) == (status, False)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    method=st.sampled_from(["GET", "POST", "PUT", ""]) | st.text(max_size=5),
    target=st.sampled_from([INIT, ACTION]).flatmap(lambda path: st.text().map(path.__add__))
    | st.text(),
    body=st.binary(),
)
@example("GET", f"{INIT}?seed=1&" + "&" * 3000, b"")
@example("GET", f"{INIT}?seed=%ff;seed=٣", b"")
def test_a_request_of_any_kind_is_answered_in_json(method: str, target: str, body: bytes) -> None:
    status, answer = ask(method, target, body)
    assert status in STATUSES
    assert answer["ok"] is (status == 200)
    assert answer["ok"] or answer["reason"]


JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "count", "stateToken", "action"]), inner)
    ),
    max_leaves=8,
)
ANY_ACTION: Final = st.one_of(
    st.sampled_from([action.to_json() for action in (*rules.FLIPS, *rules.PLAIN_ACTIONS.values())]),
    st.fixed_dictionaries({"type": st.just("flip"), "count": JSON}),
    JSON,
)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(token=st.just(first_token()) | JSON, action=ANY_ACTION, more=JSON)
def test_a_body_of_any_shape_is_answered_in_json(
    token: object, action: object, more: object
) -> None:
    for request in ({"stateToken": token, "action": action}, more):
        status, answer = ask("POST", ACTION, json.dumps(request).encode())
        assert status in {200, 400}
        assert answer["ok"] is True or answer["reason"]


# In step with the rules


class InStep(RuleBasedStateMachine):
    """Plays anything at all on `rules` and on the service, which have to agree."""

    def __init__(self) -> None:
        super().__init__()
        self.state = rules.fresh()
        self.answer: dict[str, Any] = {}

    @initialize()
    def begin(self) -> None:
        _, self.answer = ask("GET", INIT)

    def send(self, raw: object) -> None:
        before = self.state
        reason = None
        try:
            self.state = rules.apply(before, rules.parse_action(raw))
        except ActionError as exc:
            reason = str(exc)
        status, answer = act(self.answer["stateToken"], raw)
        assert (status, answer["ok"]) == (200, reason is None)
        if answer["ok"]:
            self.answer = answer
            assert self.state.turn == before.turn + 1
            assert self.state.score >= before.score
            assert self.state.leaves <= before.leaves
        else:
            assert answer["reason"] == reason
            assert answer["legalActions"] == self.answer["legalActions"]

    @rule(raw=ANY_ACTION)
    def try_anything(self, raw: object) -> None:
        if "NaN" not in json.dumps(raw) and "Infinity" not in json.dumps(raw):
            self.send(raw)

    @precondition(lambda self: self.state.phase != rules.ENDED)
    @rule(data=st.data())
    def play(self, data: st.DataObject) -> None:
        actions = [action for action in rules.legal_actions(self.state) if action != rules.BANK]
        self.send(data.draw(st.sampled_from(actions)).to_json())

    @precondition(lambda self: self.state.phase != rules.ENDED)
    @rule()
    def play_well(self) -> None:
        self.send(strategy.decide(self.state, Goal(10**6)).to_json())

    @precondition(lambda self: self.state.phase == rules.PLAYING)
    @rule()
    def waste_every_move(self) -> None:
        while self.state.phase == rules.PLAYING:
            self.send({"type": "flip", "count": 1})

    @invariant()
    def the_answer_is_the_state(self) -> None:
        if not self.answer:
            return
        assert self.answer["state"] == public_fields(self.state)
        assert self.answer["legalActions"] == legal_actions(self.state)
        assert self.answer["score"] == self.state.score
        assert self.answer["gameOver"] is (self.state.phase == rules.ENDED)


TestTheServicePlaysAsTheRulesDo = InStep.TestCase
TestTheServicePlaysAsTheRulesDo.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None
)


def test_the_totals_of_the_page_come_out() -> None:
    _, answer = ask("GET", INIT)
    state = rules.fresh()
    totals = {}
    while state.cleared_boards < 80:
        action = strategy.decide(state, Goal(10**6))
        _, answer = act(answer["stateToken"], action.to_json())
        state = rules.apply(state, action)
        totals[answer["state"]["clearedBoards"]] = answer["score"]
    assert {boards: totals[boards] for boards in (8, 12, 80)} == {8: 1970, 12: 3030, 80: 21050}


# In a session, without a socket


def test_a_session_reaches_the_service_in_its_own_process() -> None:
    session = new_session()
    session.mount(LOCAL_URL, LocalAdapter(SERVICE))
    answer = session.get(f"{LOCAL_URL}{INIT}", params={"seed": "7"})
    assert answer.json() == ask("GET", INIT)[1]
    assert answer.headers["content-type"] == "application/json"
    body = {"stateToken": answer.json()["stateToken"], "action": FLIP_2}
    assert session.post(f"{LOCAL_URL}{ACTION}", json=body).json()["score"] == 215
    assert session.post(f"{LOCAL_URL}{ACTION}", data="{}").status_code == 400
    assert session.get(f"{LOCAL_URL}/no/such/path").status_code == 404
