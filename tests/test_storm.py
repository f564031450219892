"""A run over real HTTP on a service whose every seventh answer or so is broken in some way."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

import pytest
from fake_clock import FakeClock
from harness import actions_of, last_event, unbroken_actions
from standins import (
    KEY,
    Call,
    Reply,
    Request,
    StandIn,
    drip,
    hang,
    journal_lines,
    message,
    play,
    raw,
    reply,
)

from bot import rules
from bot.client.limits import Limits
from bot.player import Outcome
from bot.service import Service
from bot.verify import recover

pytestmark = pytest.mark.slow

SHARE: Final = 0.15
"""Share of the requests that are hit."""
TIMEOUT_S: Final = 0.4
"""Of an attempt: what hangs and drips is really waited for."""

HTML: Final = ("Content-Type", "text/html")
PAGE: Final = b"<!DOCTYPE html><title>502</title><h1>Bad Gateway</h1>"
CHALLENGE: Final = b"<html><title>Just a moment...</title>Checking your browser</html>"

Fault: TypeAlias = Callable[[bytes], Reply]
"""Makes a broken answer of the body of the true one."""


def _changed(**changes: object) -> Fault:
    def answer(body: bytes) -> Reply:
        value = json.loads(body)
        value["state"] |= changes
        return reply(200, {**value, **{k: v for k, v in changes.items() if k in value}})

    return answer


def _without(key: str) -> Fault:
    return lambda body: reply(200, {k: v for k, v in json.loads(body).items() if k != key})


def _constant(answer: Reply) -> Fault:
    return lambda _: answer


def _retry_after(status: int, value: str) -> Fault:
    return _constant(reply(status, PAGE, HTML, ("Retry-After", value)))


FAULTS: Final[dict[str, Fault]] = {
    "closed without an answer": _constant(raw(b"")),
    "reset": _constant(raw(b"", is_reset=True)),
    "reset in the head": _constant(raw(b"HTTP/1.1 200 OK\r\nContent-", is_reset=True)),
    "garbage": _constant(raw(b"\x16\x03\x01\x02\x00garbage\r\n\r\n")),
    "body cut short": lambda body: raw(message(200, body)[:-20]),
    "chunked body broken off": lambda body: raw(
        message(200, b"%x\r\n%s" % (len(body) * 2, body), ("Transfer-Encoding", "chunked"))
    ),
    "wrong content encoding": lambda body: reply(200, body, ("Content-Encoding", "gzip")),
    "JSON cut in half": lambda body: reply(200, body[: len(body) // 2]),
    "another charset label": lambda body: reply(
        200, body, ("Content-Type", "application/json; charset=utf-16")
    ),
    "a byte order mark": lambda body: reply(200, b"\xef\xbb\xbf" + body),
    "body dripping": lambda body: drip(message(200, body), at_once=100),
    "hanging": _constant(hang()),
    "429 with seconds": _retry_after(429, "7"),
    "429 with a past date": _retry_after(429, "Wed, 21 Oct 2015 07:28:00 GMT"),
    "503 with nonsense": _retry_after(503, "soon"),
    "503 with nothing": _retry_after(503, ""),
    "503 with inf": _retry_after(503, "inf"),
    "503 with a negative number": _retry_after(503, "-3"),
    "429 without a word": _constant(reply(429)),
    "500": _constant(reply(500, {"error": "internal"})),
    "502 as a page": _constant(reply(502, PAGE, HTML)),
    "504": _constant(reply(504, b"upstream request timeout", ("Content-Type", "text/plain"))),
    "418": _constant(reply(418)),
    "a browser check": _constant(reply(403, CHALLENGE, HTML)),
    "200 with a page": _constant(reply(200, PAGE, HTML)),
    "200 with nothing": _constant(reply(200, b"")),
    "200 with null": _constant(reply(200, b"null")),
    "200 with a list": _constant(reply(200, b"[]")),
    "200 with an empty object": _constant(reply(200, b"{}")),
    "200 with an error": _constant(reply(200, {"error": "try again"})),
    "200 without a token": _without("stateToken"),
    "200 without a garland": _without("state"),
    "a wrong score": _changed(score=7),
    "a score that is a text": _changed(score="0"),
    "true for a number": _changed(turn=True),
    "a wrong garland": _changed(garland=[1, -2, 3]),
    "ok: false": _constant(
        reply(200, {"ok": False, "reason": "not now", "legalActions": [{"type": "bank"}]})
    ),
    "a refused token": _constant(reply(401, {"reason": "the token has expired"})),
    "a moved action": _constant(reply(307, b"", ("Location", "/api/games/sunpleat/action"))),
    "a permanently moved action": _constant(
        reply(301, b"", ("Location", "/api/games/sunpleat/action"))
    ),
    "404": _constant(reply(404, {"error": "no such deployment"})),
    "405": _constant(reply(405)),
}
"""Each kind of broken answer that a run can live through, restarts by cron included."""

ONLY_ONCE: Final = {"a refused token", "a wrong score", "a score that is a text"} | {
    "true for a number",
    "a wrong garland",
}
"""Kinds of which two in a row for one move are the end of a sitting, or of the run."""
NOT_FOR_INIT: Final = (
    ONLY_ONCE
    | {"404", "405", "ok: false"}
    | {
        "a moved action",
        "a permanently moved action",
    }
)
"""Kinds that `init` would end at, with no journal yet to count them in."""


class Storm:
    """A plan that breaks some answers, by a seed, and checks what is asked for."""

    def __init__(self, seed: int) -> None:
        self.hits: Counter[str] = Counter()
        self.illegal: list[object] = []
        self._random = random.Random(seed)
        self._service = Service(KEY)
        self._last: tuple[bytes, bool] = b"", False
        """The body of the last request, and whether it was broken in a way of `ONLY_ONCE`."""

    def __call__(self, request: Request, number: int) -> Reply | None:
        if request.body:
            self._check(request)
        body, has_been_hit = self._last
        has_been_hit = has_been_hit and body == request.body
        self._last = request.body, has_been_hit
        if self._random.random() >= SHARE:
            return None
        names = [
            name
            for name in FAULTS
            if not (name in ONLY_ONCE and has_been_hit)
            and not (name in NOT_FOR_INIT and not request.body)
        ]
        least = min(self.hits[name] for name in names)
        name = self._random.choice([name for name in names if self.hits[name] == least])
        self.hits[name] += 1
        self._last = request.body, has_been_hit or name in ONLY_ONCE
        truth = self._service.answer(request.method, request.target, request.body)
        return FAULTS[name](truth.body)

    def _check(self, request: Request) -> None:
        state = self._service._read_token(request.token)
        assert state is not None
        if rules.parse_action(request.what) not in rules.legal_actions(state):
            self.illegal.append((request.what, state))


def play_as_cron_would(url: str, runs_dir: Path) -> Outcome:
    """Call the bot until its run is over."""
    call = Call(bank_at=21050, limits=Limits(timeout_s=TIMEOUT_S))
    while True:
        outcome = play(url, runs_dir, FakeClock(), call)
        assert outcome.exit_code in (0, 69)
        if outcome.error is None:
            return outcome


@pytest.mark.parametrize("seed", [1, 2])
def test_a_run_in_a_storm_loses_no_point_and_sends_no_illegal_action(
    seed: int, tmp_path: Path
) -> None:
    storm = Storm(seed)
    with StandIn(storm) as server:
        outcome = play_as_cron_would(server.url, tmp_path)
        sent = len(server.requests)
    assert outcome.exit_code == 0
    assert storm.illegal == []
    assert actions_of(outcome.path) == unbroken_actions(21050)
    assert len(actions_of(outcome.path)) == 546
    assert sum(int(str(line["award"])) for line in journal_lines(outcome.path, "action")) == 21050
    assert storm.hits.keys() == FAULTS.keys()
    assert 0.1 < sum(storm.hits.values()) / sent < 0.2
    end = last_event(outcome.path)
    assert (end["score"], end["boards"], end["requests"]) == (21050, 80, sent)
    assert recover(outcome.path).run.is_over
