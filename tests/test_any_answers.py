"""Whatever a service answers for ten minutes, in any order: the run ends with its points.

Calls are made again as cron would, on a clock that nobody waits for.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

from fake_clock import FakeClock
from harness import actions_of, unbroken_actions
from hypothesis import example, given, settings
from hypothesis import strategies as st
from standins import KEY, Call, journal_lines, play

from bot.errors import BotError
from bot.player import KEPT_FOR
from bot.service import Answer, Service
from bot.verify import Verification

LASTS_S: Final = 600.0
"""How long the service is not itself."""
CRON_S: Final = 60.0
"""Between one call and the next."""
PAGE: Final = b"<!DOCTYPE html><title>Bad Gateway</title>"
CHALLENGE: Final = b"<html><title>Just a moment...</title></html>"

Fault: TypeAlias = Callable[[dict[str, Any]], Answer]
"""Makes an answer of the true one."""


def says(status: int, body: object) -> Fault:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return lambda _: Answer(status, data)


def changed(**changes: object) -> Fault:
    """Answer with another value beside the garland."""
    return lambda true: Answer(
        200, json.dumps({**true, "state": {**true["state"], **changes}}).encode()
    )


def whole(change: Callable[[dict[str, Any]], dict[str, Any]], status: int = 200) -> Fault:
    """Answer truly, but in another way."""
    return lambda true: Answer(status, json.dumps(change(true)).encode())


REFUSED_TOKEN: Final = "a refused token"
FAULTS: Final[Mapping[str, Fault]] = {
    "nothing": says(200, b""),
    "half an answer": lambda true: Answer(200, json.dumps(true).encode()[:-9]),
    "a page": says(200, PAGE),
    "500": says(500, {"error": "internal"}),
    "502": says(502, PAGE),
    "503": says(503, b""),
    "an unheard-of status": says(599, {}),
    "400 of another layer": says(400, {"error": "Unexpected token < in JSON"}),
    "401 of another layer": says(401, {"message": "access token expired"}),
    "403 of a firewall": says(403, PAGE),
    "404": says(404, {"error": "no such deployment"}),
    "405": says(405, b""),
    "409": says(409, {"error": "conflict"}),
    "413": says(413, PAGE),
    "422": says(422, {"detail": "not now"}),
    "a limit": says(429, {"error": "Too many requests"}),
    "a limit in a 200": says(200, {"ok": False, "reason": "rate limit exceeded"}),
    "a browser check": says(403, CHALLENGE),
    "an excuse": says(200, {"ok": False, "reason": "internal error, try again later"}),
    "an error object": says(200, {"error": {"message": "upstream timed out"}}),
    "a refusal": says(200, {"ok": False, "reason": "not now", "legalActions": []}),
    "a few words": says(200, {"message": "back soon"}),
    "an empty object": says(200, {}),
    "a list": says(200, b"[]"),
    "no token": whole(lambda true: {**true, "stateToken": None}),
    "a wrong leaf": changed(leaves=7),
    "a score in words": changed(score="many"),
    "true for a number": changed(turn=True),
    "a wrong garland": changed(garland=[5, 4, 3, 2, 1]),
    REFUSED_TOKEN: says(400, {"ok": False, "reason": "the state token is invalid"}),
    "a refused token in a 200": says(200, {"ok": False, "reason": "stateToken has expired"}),
    "201": whole(dict, 201),
    "another layout": whole(lambda true: {**true["state"], **true, "state": None}),
    "other names": whole(
        lambda true: {"nextStateToken": true["stateToken"], "observation": true["state"]}
    ),
    "an error beside it": whole(lambda true: {**true, "error": "so it is"}),
    "the truth": whole(dict),
}
"""An answer of each row of what a failed request means, and some that are none."""
NAMES: Final = sorted(FAULTS)


class Moody(Service):
    """The local service, that answers by a list, over and over, until a time of the clock."""

    def __init__(self, moods: list[str], clock: FakeClock, lasts_s: float) -> None:
        super().__init__(KEY)
        self._moods = moods
        self._clock = clock
        self._ends_at = clock.monotonic() + lasts_s
        self._number = 0

    def answer(self, method: str, target: str, body: bytes) -> Answer:
        true = super().answer(method, target, body)
        self._clock.advance(0.05)
        if self._clock.monotonic() >= self._ends_at:
            return true
        mood = self._moods[self._number % len(self._moods)]
        self._number += 1
        return FAULTS[mood](json.loads(true.body))


def play_as_cron_would(service: Service, runs_dir: Path, clock: FakeClock) -> None:
    """Call the bot until its run is over."""
    while True:
        try:
            outcome = play(service, runs_dir, clock, Call(max_rps=10))
        except BotError as exc:
            assert exc.exit_code in (69, 76, 78)  # noqa: PT017 - the calls that begin no run
        else:
            if outcome.error is None:
                assert outcome.exit_code == 0
                return
            assert outcome.exit_code in (69, 76, 77)
        clock.advance(CRON_S)


def check(moods: list[str], lasts_s: float = LASTS_S) -> list[Path]:
    """Play a run through these moods; return nothing but what was left behind."""
    clock = FakeClock()
    random.seed(0)
    with tempfile.TemporaryDirectory() as folder:
        runs_dir = Path(folder)
        play_as_cron_would(Moody(moods, clock, lasts_s), runs_dir, clock)
        paths = sorted(runs_dir.glob("*.jsonl"))
        for path in paths:
            found = Verification(path)
            found.read_all()
            assert found.problems == []
        assert actions_of(paths[-1]) == unbroken_actions()
        lines = list(journal_lines(paths[-1]))
        assert lines[-1]["event"] == "run.ended"
        assert lines[-1]["score"] == 3030
        for path in paths[:-1]:
            check_abandoned([*journal_lines(path)])
    return paths


def check_abandoned(lines: list[dict[str, Any]]) -> None:
    """Look whether a run was given up for nothing but a token refused for over an hour."""
    assert lines[-1]["event"] == "run.abandoned"
    first = next(line["ts"] for line in lines if line.get("exit_code") == 77)
    passed = datetime.fromisoformat(lines[-1]["ts"]) - datetime.fromisoformat(first)
    assert passed > KEPT_FOR


@settings(deadline=None, max_examples=60)
@given(moods=st.lists(st.sampled_from(NAMES), min_size=1, max_size=12))
@example(moods=[REFUSED_TOKEN])
@example(moods=["the truth", "the truth", "the truth", "a refused token in a 200"])
@example(moods=["the truth", *["a wrong leaf"] * 11])
@example(moods=["the truth", *[REFUSED_TOKEN] * 50])
@example(moods=["the truth", "the truth", *["404"] * 50])
@example(moods=NAMES)
def test_after_ten_minutes_of_any_answers_a_run_ends_with_its_points(moods: list[str]) -> None:
    assert len(check(moods)) == 1


@settings(deadline=None, max_examples=10)
@given(moods=st.lists(st.sampled_from(NAMES), min_size=1, max_size=6))
def test_after_two_hours_of_them_too_though_a_token_that_is_refused_as_long_ends_a_run(
    moods: list[str],
) -> None:
    check(moods, lasts_s=7200)


def test_a_token_that_is_refused_in_plain_words_for_two_hours_ends_one_run_and_begins_another() -> (
    None
):
    assert len(check(["the truth", *[REFUSED_TOKEN] * 300], lasts_s=7200)) == 2
