from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
import requests
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bot import rules, strategy
from bot.client.transport import new_session
from bot.errors import ActionError, JournalError
from bot.service import LOCAL_URL, MAX_BODY, LocalAdapter, Service, load_key
from bot.strategy import Goal
from bot.wire.fields import legal_actions, public_fields

FRESH_STATE: Final = json.loads((Path(__file__).parent / "data" / "fresh_state.json").read_text())
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


def test_the_key_is_made_once_and_is_for_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    key = load_key(folder)
    assert load_key(folder) == key
    assert len(key) >= 32
    assert [path.name for path in folder.iterdir()] == [".local-key"]
    assert (folder / ".local-key").stat().st_mode & 0o777 == 0o600
    assert load_key(tmp_path / "c") != key


def test_a_key_that_cannot_be_kept_is_an_error_that_names_its_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(JournalError, match=r"file/\.local-key"):
        load_key(tmp_path / "file")
    (tmp_path / ".local-key").mkdir()
    with pytest.raises(JournalError, match=r"\.local-key"):
        load_key(tmp_path)


# Over HTTP


@contextlib.contextmanager
def serving(*options: str) -> Iterator[str]:
    """Run the service in a process; yield its base URL."""
    command = [sys.executable, "-m", "bot", "serve", "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    with serving() as url:
        yield url


def exchange(base_url: str, *parts: bytes) -> tuple[int, bytes]:
    """Send raw bytes, one segment a part, and return the status and body of the last answer."""
    url = urlsplit(base_url)
    with socket.create_connection((url.hostname, url.port), timeout=10) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for part in parts:
            sock.sendall(part)
        answer = http.client.HTTPResponse(sock)
        answer.begin()
        return answer.status, answer.read()


def post(body: bytes, *headers: str) -> bytes:
    lines = (f"POST {ACTION} HTTP/1.1", "Host: local", *headers, "", "")
    return "\r\n".join(lines).encode() + body


@pytest.mark.slow
def test_the_first_line_of_stdout_is_the_base_url(base_url: str) -> None:
    url = urlsplit(base_url)
    assert (url.scheme, url.hostname, url.path) == ("http", "127.0.0.1", "")
    assert url.port


def test_it_can_be_played_as_the_page_says(base_url: str) -> None:
    with requests.Session() as session:
        answer = session.get(f"{base_url}{INIT}?seed=7")
        assert answer.headers["Content-Type"] == "application/json"
        body = {"stateToken": answer.json()["stateToken"], "action": FLIP_2}
        answer = session.post(f"{base_url}{ACTION}", json=body)
        assert (answer.status_code, answer.json()["score"]) == (200, 215)


def test_a_body_is_taken_chunked_announced_or_split(base_url: str) -> None:
    token = requests.get(f"{base_url}{INIT}", timeout=10).json()["stateToken"]
    body = json.dumps({"stateToken": token, "action": FLIP_2}).encode()
    length = f"Content-Length: {len(body)}"
    half = len(body) // 2
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:half], body[half:]))
    whole = post(body, length)
    requests_in_parts = {
        "whole": [whole],
        "chunked": [post(chunks + b"0\r\n\r\n", "Transfer-Encoding: chunked")],
        "split": [whole[:17], whole[17:90], whole[90:-9], whole[-9:]],
        "byte by byte": [bytes((byte,)) for byte in whole],
        "announced": [post(b"", length, "Expect: 100-continue"), body],
    }
    for kind, parts in requests_in_parts.items():
        status, data = exchange(base_url, *parts)
        assert (kind, status, json.loads(data)["score"]) == (kind, 200, 215)


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/", b"", 404),
        ("GET", "/api/games/other/init", b"", 404),
        ("GET", f"{INIT}%3Fseed=7", b"", 404),
        ("POST", INIT, b"{}", 405),
        ("GET", ACTION, b"", 405),
        ("DELETE", ACTION, b"", 405),
        ("GET", f"{INIT}?seed=x", b"", 400),
        ("POST", ACTION, b"", 400),
        ("POST", ACTION, b"[]", 400),
        ("POST", ACTION, b" " * (MAX_BODY + 1), 413),
        ("POST", ACTION, b" " * 10**6, 413),
    ],
)
def test_what_is_wrong_with_a_request_is_said_in_json(
    method: str, path: str, body: bytes, status: int, base_url: str
) -> None:
    answer = requests.request(method, base_url + path, data=body, timeout=10)
    assert answer.status_code == status
    assert answer.json()["ok"] is False
    assert answer.json()["reason"]


GARBAGE: Final = {
    "no HTTP": b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" * 3 + b"\r\n\r\n",
    "no version": b"GET\r\n\r\n",
    "a bad length": post(b"{}", "Content-Length: two"),
    "a negative length": post(b"{}", "Content-Length: -2"),
    "two lengths": post(b"{}", "Content-Length: 2", "Content-Length: 1"),
    "a bad chunk": post(b"zz\r\n{}\r\n0\r\n\r\n", "Transfer-Encoding: chunked"),
    "a bad header": post(b"", "no colon here", "Content-Length: 0"),
    "an endless header": post(b"", "X: " + "x" * 300_000),
}


@pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE)
def test_garbage_does_not_keep_it_from_the_next_request(data: bytes, base_url: str) -> None:
    with contextlib.suppress(http.client.HTTPException, OSError):
        status, _ = exchange(base_url, data)
        assert 400 <= status < 500 or status in (501, 505)
    assert requests.get(f"{base_url}{INIT}", timeout=10).status_code == 200


def test_a_request_that_is_cut_off_does_not_keep_it_from_the_next(base_url: str) -> None:
    url = urlsplit(base_url)
    for data in (b"", b"POST ", post(b"{", "Content-Length: 999")):
        with socket.create_connection((url.hostname, url.port)) as sock:
            sock.sendall(data)
    assert requests.get(f"{base_url}{INIT}", timeout=10).status_code == 200


@pytest.mark.slow
def test_a_port_in_use_is_an_error_of_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [sys.executable, "-m", "bot", "serve", "--port", str(port)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (result.returncode, result.stdout) == (78, "")
    assert result.stderr == (
        f"sunpleat-bot: cannot listen at 127.0.0.1:{port}: Address already in use\n"
    )


@pytest.mark.slow
def test_two_services_with_one_runs_folder_take_each_others_tokens(tmp_path: Path) -> None:
    options = ("--runs-dir", str(tmp_path))
    with serving(*options) as one, serving(*options) as other, serving() as stranger:
        token = requests.get(f"{one}{INIT}", timeout=10).json()["stateToken"]
        body = {"stateToken": token, "action": FLIP_2}
        assert requests.post(f"{other}{ACTION}", json=body, timeout=10).status_code == 200
        assert requests.post(f"{stranger}{ACTION}", json=body, timeout=10).status_code == 400


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_its_exit_code_and_a_word(number: signal.Signals) -> None:
    command = [sys.executable, "-m", "bot", "serve", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    os.kill(process.pid, number)
    _, stderr = process.communicate(timeout=10)
    assert (process.returncode, stderr) == (
        128 + number,
        f"sunpleat-bot: stopped by {number.name}\n",
    )
