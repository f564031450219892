"""Whole runs of the bot on a simulated service, clock and disk, all driven by one seed.

A seed is a short game in several sittings, begun one after the other as cron would: the first
ones meet faults, the last one is calm and has to finish. What has to hold is checked at each
request, after each sitting and at the end; a `Violation` is a fault of the bot.

`python tests/simulation.py --seed N` replays one seed and shows what happened in it;
`--seeds COUNT` tries the first so many.
"""

from __future__ import annotations

import argparse
import errno
import http.client
import io
import json
import math
import os
import random
import socket
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import requests
import urllib3
from harness import Died
from requests.adapters import BaseAdapter
from requests.structures import CaseInsensitiveDict
from standins import KEY, Watcher

from bot import rules, strategy
from bot.client.client import Client
from bot.client.clock import Clock, StopRequest
from bot.client.environment import Surroundings
from bot.client.limits import INIT_GIVE_UP_S, POLITE_RPS, Limits
from bot.client.pace import SLOWEST_RPS, Pace
from bot.client.redirects import MAX_HOPS
from bot.client.transport import STOP_GRACE_S, Transport, Watchdog, new_session
from bot.errors import BotError
from bot.journal import writer
from bot.journal.files import open_plain
from bot.player import KEPT_FOR, Mode, Order
from bot.player import play as play_sitting
from bot.rules import Action, State
from bot.service import Service
from bot.strategy import Goal
from bot.verify import Recovered, recover
from bot.wire.layout import WireSettings

SERVICE: Final = Service(KEY)
HOSTS: Final = ("127.0.0.1", "localhost", "127.0.0.2:8080", "[::1]:8080")
BASE_URL: Final = "http://127.0.0.1"
SLACK_S: Final = 0.2
"""Seconds by which a wait may end late: requests are paced a tenth of a second apart."""
LONGEST_WAIT_S: Final = 60.5
ROUNDING_S: Final = 0.0006
"""By how much a wait may end early: waits are of whole milliseconds, as the journal has them."""
HOSTILE: Final = "\x1b[2J\u2028\ud800\x7f" + "x" * 300


class Violation(AssertionError):
    """The bot did what it must not do."""


@lru_cache(maxsize=4096)
def true_answer(method: str, target: str, body: bytes) -> bytes:
    """Return what the service really says."""
    answer = SERVICE.answer(method, target, body)
    assert answer.status == 200
    return answer.body


@lru_cache(maxsize=4096)
def state_of(token: str) -> State:
    """Return the state that a token stands for."""
    state = SERVICE._read_token(token)
    assert state is not None
    return state


@lru_cache(maxsize=4096)
def decide(state: State, goal: Goal) -> Action:
    """Return what best play does."""
    return strategy.decide(state, goal)


# Answers


class Verdict(Enum):
    """What an answer deserves, by the table of what a failed request means."""

    GOOD = "accepted"
    LOST = "sent again until it is time to give up"
    LIMIT = "likewise, and more slowly from then on"
    LIE = "asked once more, then 76"
    UNREADABLE = "asked twice more, then 76"
    REFUSED = "asked six times more, then 76"
    TOKEN = "asked once more, then 77"
    BROWSER = "few tries"
    MOVED = "followed"
    FINAL = "not asked again"
    FOREIGN = "not followed"


TRIES: Final = {
    Verdict.LIE: 2,
    Verdict.UNREADABLE: 3,
    Verdict.REFUSED: 7,
    Verdict.TOKEN: 2,
    Verdict.BROWSER: 4,
    Verdict.FINAL: 1,
    Verdict.FOREIGN: 1,
}
"""How often a move may be answered so; without a number it is a matter of time."""
EXITS: Final = {
    Verdict.LIE: 76,
    Verdict.UNREADABLE: 76,
    Verdict.REFUSED: 76,
    Verdict.TOKEN: 77,
    Verdict.BROWSER: 69,
    Verdict.FINAL: 69,
    Verdict.FOREIGN: 78,
}
"""The exit code that the last try earns."""
LEAST_WAITS_S: Final = {Verdict.BROWSER: 15.0, Verdict.UNREADABLE: 1.0, Verdict.REFUSED: 1.0}
"""What is waited for at least after the first try; half a second after any other answer."""
TOKEN_WAIT_S: Final = 5.0
TOKEN_STATUSES: Final = (400, 401, 403, 409, 410, 422)
FINAL_STATUSES: Final = (402, 404, 405, 406, 411, 413, 414, 415)
OTHER_STATUSES: Final = (201, 202, 206, 300, 304, 401, 403, 408, 418, 421, 425, 429, 451) * 2
STATUSES: Final = (*OTHER_STATUSES, *range(500, 600))
PAGE: Final = b"<!DOCTYPE html><title>Bad Gateway</title>"
CHALLENGE: Final = b"<html><title>Just a moment...</title></html>"
BUSY: Final = b'{"error":"busy"}'
LIMITS: Final = ("rate limit exceeded", "Too many requests", "slow down")


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer, or the lack of it."""

    verdict: Verdict
    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    error: Exception | None = None
    """What comes instead of an answer, or in the middle of its body."""
    hangs: bool = False
    """Whether it takes longer than any deadline."""
    asks_s: float = 0.0
    """The sensible wait that it asks for."""


@dataclass(frozen=True, slots=True)
class Scene:
    """The request that is to be answered."""

    rng: random.Random
    truth: bytes
    url: str
    now: datetime
    is_under_way: bool
    """Whether an action of the run has ever been accepted."""
    is_at_home: bool
    """Whether it is sent to where an answer was accepted last, or to where it was sent first."""

    @property
    def unclear(self) -> Verdict:
        """What an answer deserves that has no token and nothing to check it by."""
        return Verdict.LOST if self.is_under_way else Verdict.UNREADABLE

    @property
    def answer(self) -> dict[str, Any]:
        """The true answer, to be changed."""
        answer: dict[str, Any] = json.loads(self.truth)
        return answer

    @property
    def is_init(self) -> bool:
        """Whether a run is to begin."""
        return b'"spec"' in self.truth


def _json(verdict: Verdict, value: object, **options: Any) -> Reply:
    return Reply(verdict, json.dumps(value).encode(), **options)


def _well(scene: Scene) -> Reply:
    """Answer truly, in an unusual writing."""
    answer = scene.answer
    bodies: list[Callable[[], bytes]] = [
        lambda: b"\xef\xbb\xbf" + scene.truth,
        lambda: json.dumps(_as_floats(answer), indent=1).encode(),
        lambda: json.dumps(answer | {"legalActions": answer["legalActions"][::-1]}).encode(),
        lambda: json.dumps({"event": HOSTILE, "exc_info": True, "seq": -1} | answer).encode(),
    ]
    if answer["gameOver"]:
        bodies.append(lambda: json.dumps(answer | {"stateToken": None}).encode())
    if scene.is_init:
        spec = {"event": HOSTILE, "deep": [[[]]], "far": "1e999"}
        bodies.append(
            lambda: json.dumps(answer | {"spec": spec}).encode().replace(b'"1e999"', b"1e999")
        )
    headers = {"Content-Type": "text/html; charset=utf-16"}
    return Reply(Verdict.GOOD, scene.rng.choice(bodies)(), headers=headers)


def _as_floats(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _as_floats(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_as_floats(inner) for inner in value]
    return float(value) if type(value) is int else value


LOSSES: Final[tuple[Callable[[], Exception], ...]] = (
    lambda: requests.ConnectionError("connection refused"),
    lambda: requests.exceptions.SSLError("the handshake timed out"),
    lambda: ConnectionResetError(errno.ECONNRESET, "reset"),
    lambda: BrokenPipeError(errno.EPIPE, "broken pipe"),
    lambda: http.client.RemoteDisconnected("closed without an answer"),
    lambda: socket.gaierror(socket.EAI_AGAIN, "no such name"),
    lambda: urllib3.exceptions.ProtocolError("chunk broken off"),
    lambda: urllib3.exceptions.DecodeError("not gzip"),
    lambda: urllib3.exceptions.IncompleteRead(3, 9),
)


def _lose(scene: Scene) -> Reply:
    if scene.rng.random() < 0.2:
        return Reply(Verdict.LOST, scene.truth, error=requests.ReadTimeout("hangs"), hangs=True)
    return Reply(Verdict.LOST, scene.truth, error=scene.rng.choice(LOSSES)())


def _break(scene: Scene) -> Reply:
    """Answer 200 with something that is no answer."""
    answer = scene.answer
    unclear: list[object] = [None, [], {}, "", 0, True, {"ok": True}, {"message": "back soon"}]
    if not answer["gameOver"]:
        unclear += [answer | {"stateToken": token} for token in (None, "", 7)]
    if scene.rng.random() < 0.4:
        return _json(scene.unclear, scene.rng.choice(unclear))
    if scene.rng.random() < 0.2:
        body = scene.rng.choice((b"[" * 200 + b"]" * 200, b" " * (2**20 + 1)))
        return Reply(scene.unclear, body)
    lost = [b"", PAGE, b"\xff\xfe", b"NaN", json.dumps({"error": HOSTILE}).encode()]
    lost += [scene.truth[: scene.rng.randrange(len(scene.truth))], scene.truth * 2]
    return Reply(Verdict.LOST, scene.rng.choice(lost))


def _lie(scene: Scene) -> Reply:
    """Change one field in value or type; of `init` in value only, as it is settled there."""
    answer = scene.answer
    state = answer["state"]
    place = scene.rng.choice([answer, state, state, state])
    name = scene.rng.choice(sorted(place.keys() - {"ok", "stateToken", "state", "spec"}))
    value = place[name]
    if isinstance(value, list):
        lies: list[Any] = [value[1:] or [{"type": "bank"}]]
    elif isinstance(value, bool) or value is None:
        lies = [not value] if isinstance(value, bool) else ["banked"]
    else:
        lies = [value + 1 if isinstance(value, int) else value + "x"]
    if not scene.is_init:
        lies += [None, str(value), True, 1.5, -1]
    place[name] = scene.rng.choice([lie for lie in lies if json.dumps(lie) != json.dumps(value)])
    return _json(Verdict.LIE, answer)


def _refuse(scene: Scene) -> Reply:
    reason = scene.rng.choice(["not now", HOSTILE, None, {"event": 1}, "the token is odd"])
    refusal: dict[str, object] = {"ok": False, "reason": reason}
    if scene.rng.random() < 0.5:
        refusal["legalActions"] = []
        if scene.rng.random() < 0.3:
            refusal["reason"] = "the state token is invalid"  # though it was read
    return _json(Verdict.LOST if scene.is_init else Verdict.REFUSED, refusal)


def _excuse(scene: Scene) -> Reply:
    """Answer 200 with words of something that passes."""
    word = scene.rng.choice(["internal error", "try again later", "upstream timed out", *LIMITS])
    answers: list[dict[str, object]] = [
        {"ok": False, "reason": word},
        {"error": {"message": word}},
        {"ok": False, "error": word, "legalActions": []},
    ]
    verdict = Verdict.LIMIT if word in LIMITS else Verdict.LOST
    return _json(verdict, scene.rng.choice(answers))


def _refuse_token(scene: Scene) -> Reply:
    """Refuse the token, in plain words or in such that may be about something else."""
    if not scene.is_init and scene.rng.random() < 0.3:
        return _json(Verdict.TOKEN, {"ok": False, "reason": "the signature is wrong"})
    word = scene.rng.choice(("the state token has expired", "invalid session", "who are you?"))
    is_plain = word != "who are you?" and not scene.is_init
    body = json.dumps({"detail": word}).encode()
    status = scene.rng.choice(TOKEN_STATUSES)
    return _status(scene, status, body, Verdict.TOKEN if is_plain else Verdict.LOST)


def _ask_for_browser(scene: Scene) -> Reply:
    return _status(scene, scene.rng.choice((403, 429, 503)), CHALLENGE, Verdict.BROWSER)


def _fail(scene: Scene) -> Reply:
    status = scene.rng.choice(STATUSES)
    bodies = (b"", b"upstream timed out", b"[]", BUSY, PAGE, scene.truth)
    body = scene.rng.choice(bodies)
    if status >= 300:
        return _status(scene, status, body, Verdict.LIMIT if status == 429 else Verdict.LOST)
    verdicts = {scene.truth: Verdict.GOOD, b"[]": scene.unclear}
    return Reply(verdicts.get(body, Verdict.LOST), body, status)


def _close_for_good(scene: Scene) -> Reply:
    is_final = scene.is_at_home and not scene.is_under_way
    verdict = Verdict.FINAL if is_final else Verdict.LOST
    body = scene.rng.choice((b"", b"{}", PAGE))
    return _status(scene, scene.rng.choice(FINAL_STATUSES), body, verdict)


def _status(scene: Scene, status: int, body: bytes, verdict: Verdict) -> Reply:
    """Answer with a status; many an answer asks for a wait, in any form."""
    is_page = body.startswith(b"<")
    headers = {"Content-Type": "text/html" if is_page else "application/json"}
    if scene.rng.random() < 0.5:
        return Reply(verdict, body, status, headers)
    seconds = scene.rng.choice((0, 1, 7, 75, 4000, 10**6))
    date = (scene.now + timedelta(seconds=seconds)).replace(microsecond=0)
    text, asks_s = scene.rng.choice(
        [
            (str(seconds), float(seconds)),
            (format_datetime(date, usegmt=True), (date - scene.now).total_seconds()),
            *((text, 0.0) for text in ("", "-3", "soon", "inf", "nan")),
            ("9" * 400, 1e99),
            ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
        ]
    )
    return Reply(verdict, body, status, {**headers, "Retry-After": text}, asks_s=max(asks_s, 0.0))


def _move(scene: Scene) -> Reply:
    status = scene.rng.choice((301, 302, 303, 307, 308))
    path = "/api" + scene.url.partition("/api")[2]
    base = f"http://{scene.rng.choice(HOSTS)}" + scene.rng.choice(("", "/v2"))
    places = [base + path, base + path, path, None]
    place = scene.rng.choice(places)
    if place is None:
        return Reply(Verdict.LOST, status=status)
    return Reply(Verdict.MOVED, status=status, headers={"Location": place})


def _send_away(scene: Scene) -> Reply:
    verdict = Verdict.LOST if scene.is_under_way else Verdict.FOREIGN
    return Reply(verdict, status=308, headers={"Location": "http://elsewhere.test/api/"})


FAULTS: Final[dict[str, tuple[Callable[[Scene], Reply], float]]] = {
    "unusual": (_well, 3),
    "lost": (_lose, 6),
    "broken": (_break, 5),
    "failing": (_fail, 5),
    "lie": (_lie, 3),
    "refused": (_refuse, 2),
    "excused": (_excuse, 2),
    "token refused": (_refuse_token, 4),
    "browser check": (_ask_for_browser, 1),
    "moved": (_move, 2),
    "closed": (_close_for_good, 1),
    "sent away": (_send_away, 0.7),
}
"""Each kind of answer that is not the plain true one, and how often it comes."""


@dataclass(frozen=True, slots=True)
class Weather:
    """How likely each fault is: at a request, a write, a wait."""

    answer: float = 0.0
    outage: float = 0.0
    disk: float = 0.0
    death: float = 0.0
    stop: float = 0.0


CALM: Final = Weather()
WEATHERS: Final = {
    "fair": Weather(answer=0.04, outage=0.002, disk=0.004, death=0.006, stop=0.01),
    "stormy": Weather(answer=0.3, outage=0.01, disk=0.01, death=0.01, stop=0.02),
    "dead": Weather(answer=0.5, outage=0.3, disk=0.002, death=0.002, stop=0.002),
    "bad disk": Weather(answer=0.02, disk=0.05, death=0.02),
}


class Sky(BaseAdapter):
    """The way to the service, and what happens on it."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world
        self._outage = "", 0, 0.0
        """A fault that goes on, for so many requests and at least until then."""

    def send(self, request: requests.PreparedRequest, *_: object, **opts: Any) -> requests.Response:
        """Answer a request, after a look at whether it may be sent at all."""
        world, sitting = self._world, self._world.sitting
        world.check_request(request)
        world.maybe_die()
        world.maybe_stop()
        timeout_s = max(opts["timeout"])
        if sitting.stopped_at is not None:
            timeout_s = min(timeout_s, STOP_GRACE_S)
        takes_s = min(timeout_s, world.rng.uniform(0, world.latency_s))
        world.clock.pass_time(takes_s)
        reply = self._pick(request)
        world.clock.pass_time(reply.hangs * (timeout_s - takes_s))
        world.maybe_die()
        if world.clock.stop.signal_number is not None and world.chance(0.5):
            world.clock.stop.check()
        world.note(request.url, request.body, reply)
        sitting.take(reply, world.clock.monotonic())
        response = requests.Response()
        response.status_code = reply.status
        response.url = request.url or ""
        response.request = request
        response.headers = CaseInsensitiveDict(reply.headers)
        response.raw = Body(reply.body, reply.error)
        if reply.error is not None and world.chance(0.5):
            raise reply.error
        return response

    def close(self) -> None:
        """Do nothing."""

    def _pick(self, request: requests.PreparedRequest) -> Reply:
        world = self._world
        url = request.url or ""
        target = "/api" + url.partition("/api")[2]
        body = request.body or b""
        truth = true_answer(request.method or "", target, bytes(body))  # type: ignore[arg-type]  # the bot sends bytes
        name, left, until = self._outage
        if left > 0 or world.clock.monotonic() < until:
            self._outage = name, left - 1, until
        elif world.chance(world.sitting.weather.answer):
            names = list(FAULTS)
            (name,) = world.rng.choices(names, [weight for _, weight in FAULTS.values()])
            count = world.rng.choice((0, 0, 0, 1, 2, 3, 7))
            lasts = world.chance(world.sitting.weather.outage)
            until = world.clock.monotonic() + world.rng.uniform(1, 2000) if lasts else 0.0
            self._outage = name, count, until
        else:
            return Reply(Verdict.GOOD, truth)
        world.injected[name] += 1
        sitting = world.sitting
        scene = Scene(
            world.rng,
            truth,
            url,
            world.clock.now(),
            sitting.is_under_way,
            sitting.base == sitting.home,
        )
        return FAULTS[name][0](scene)

    def keep_refusing(self) -> None:
        """Go on with refusing the token."""
        self._outage = "token refused", 6, 0.0

    def clear_up(self) -> None:
        """End what goes on."""
        self._outage = "", 0, 0.0


class Body(io.BytesIO):
    """A body that is read as urllib3 reads one, and may break off."""

    def __init__(self, data: bytes, error: Exception | None) -> None:
        super().__init__(data)
        self._error = error

    def read(self, amount: int | None = -1, *, decode_content: bool = False) -> bytes:
        """Return the body, or break off."""
        if self._error is not None:
            raise self._error
        return super().read(amount)


class NoWatchdog(Watchdog):
    """Watches no socket, since there is none."""

    def begin(self, seconds: float) -> None:
        """Do nothing."""

    def end(self) -> None:
        """Do nothing."""


# The machine


class SimClock(Clock):
    """A clock on which every wait is over at once, unless something happens in it."""

    def __init__(self, world: World) -> None:
        super().__init__(StopRequest())
        self.set_back_s = 0.0
        """By how much the time of day was set back."""
        self._world = world
        self._elapsed_s = 0.0

    def now(self) -> datetime:
        """Return the simulated time of day."""
        seconds = self._elapsed_s - self.set_back_s
        return datetime(2026, 11, 30, 2, 41, 7, tzinfo=UTC) + timedelta(seconds=seconds)

    def wall(self) -> datetime:
        """Return the same."""
        return self.now()

    def monotonic(self) -> float:
        """Return the simulated seconds so far."""
        return self._elapsed_s

    def sleep(self, seconds: float) -> None:
        """Let time pass; a stop or a death may come meanwhile."""
        world = self._world
        longest_s = max(LONGEST_WAIT_S, world.sitting.asked_s) + SLACK_S
        world.must(0 <= seconds <= longest_s, f"a wait of {seconds} s")
        world.maybe_die()
        self.stop.check()
        part_s = world.rng.uniform(0, seconds)
        self.pass_time(part_s)
        world.maybe_stop()
        self.stop.check()
        self.pass_time(seconds - part_s)

    def pass_time(self, seconds: float) -> None:
        """Let time pass."""
        self._elapsed_s += seconds


class SimDisk:
    """Stands for `os` in the writer: a disk that fails, fills up, or loses its power."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._open: set[int] = set()
        self.begin_sitting("", keeps_cache=False)

    def begin_sitting(self, token: str, *, keeps_cache: bool) -> None:
        """Close what the last sitting left open, and work again."""
        for descriptor in list(self._open):
            self.close(descriptor)
        self.path: Path | None = None
        """The journal of this sitting."""
        self.token = token
        """Of the last whole line that has one."""
        self.is_broken = False
        """Whether something failed in this sitting."""
        self.was_cut = False
        """Whether something was cut off the journal."""
        self.is_torn = False
        """Whether a half line could not be cut off."""
        if not keeps_cache:
            self.synced = sys.maxsize
            """Bytes of the journal that a loss of power cannot take."""
            self.unsynced_requests = 0
            """Lines of requests that it can take."""
            self.has_unsynced_award = False
        self._is_full = False
        self._line = b""

    def open_plain(self, path: Path, flags: int) -> int:
        """Open a journal."""
        self._maybe_fail(errno.EACCES, errno.ENOSPC)
        is_new = bool(flags & os.O_CREAT)
        self._world.must(not is_new or not self._world.goes_on, "an unfinished run was left")
        descriptor = open_plain(path, flags)
        self._open.add(descriptor)
        self.path = path
        self.synced = min(self.synced, os.fstat(descriptor).st_size)
        return descriptor

    def write(self, descriptor: int, data: bytes) -> int:
        """Write a line, a part of it, or none of it."""
        world = self._world
        world.must(not self.is_broken, "something was written after a write had failed")
        world.maybe_stop()
        data = bytes(data)
        if world.is_death():
            os.write(descriptor, data[: world.rng.randint(0, len(data))])
            raise Died
        if self._is_full:
            self._fail(errno.ENOSPC)
        self._maybe_fail(errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS)
        if len(data) > 1 and world.chance(world.sitting.weather.disk):
            world.injected["short write"] += 1
            data = data[: world.rng.randrange(1, len(data))]
            self._is_full = world.chance(0.5)
        os.write(descriptor, data)
        self._line += data
        if self._line.endswith(b"\n"):
            self._note(json.loads(self._line))
            self._line = b""
        return len(data)

    def _note(self, line: dict[str, Any]) -> None:
        self._world.note("journal", line)
        self._world.check_line(line)
        self.token = line.get("token", self.token)
        self.unsynced_requests += line["event"] in ("run.started", "action", "retry", "refused")
        self.has_unsynced_award |= line.get("award", 0) > 0

    def ftruncate(self, descriptor: int, size: int) -> None:
        """Cut a file, unless the disk has gone read-only."""
        if self._world.chance(0.3 if self.is_broken else self._world.sitting.weather.disk):
            self.is_torn = True
            self._fail(errno.EROFS)
        os.ftruncate(descriptor, size)
        self.was_cut = True
        self.synced = min(self.synced, size)
        self._line = b""

    def fdatasync(self, descriptor: int) -> None:
        """Put on the disk what was written; some disks know no syncing."""
        self._world.maybe_die()
        self._maybe_fail(errno.EIO, errno.ENOSPC)
        self.unsynced_requests, self.has_unsynced_award = 0, False
        self.synced = os.fstat(descriptor).st_size
        if self._world.chance(self._world.sitting.weather.disk):
            raise OSError(errno.EINVAL, "no such thing here")

    def fsync(self, _: int) -> None:
        """Put the name of a journal on the disk, or do without: some disks cannot."""
        if self._world.chance(self._world.sitting.weather.disk):
            self._world.injected["fsync refused"] += 1
            raise OSError(errno.EINVAL, "no such thing here")

    def close(self, descriptor: int) -> None:
        """Close a file."""
        self._open.discard(descriptor)
        os.close(descriptor)

    def lose_power(self) -> None:
        """Lose some of what was not synced; it may come back as NUL bytes."""
        if self.path is None or not self.path.exists():
            return
        size = self.path.stat().st_size
        kept = self._world.rng.randint(min(self.synced, size), size)
        os.truncate(self.path, kept)
        if self._world.chance(0.3):
            os.truncate(self.path, size)

    def _maybe_fail(self, *numbers: int) -> None:
        if self._world.chance(self._world.sitting.weather.disk):
            self._fail(self._world.rng.choice(numbers))

    def _fail(self, number: int) -> None:
        self._world.injected[errno.errorcode[number]] += 1
        self.is_broken = True
        raise OSError(number, os.strerror(number))

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


# The world


@dataclass(slots=True)
class Sitting:
    """One call of the bot, and where it stands with the move at hand."""

    goal: Goal
    limits: Limits
    weather: Weather
    began_at: float
    sent: int = 0
    is_under_way: bool = False
    """Whether an action of the run has ever been accepted."""
    base: str = BASE_URL
    """Where the next request is to go to."""
    home: str = BASE_URL
    """Where the last answer was accepted."""
    hops: int = 0
    """Redirects since the last answer of another kind."""
    was_limited: bool = False
    what: object = None
    """The request that is asked for until it is answered; empty for `init`."""
    first_sent_at: float = 0.0
    tries: Counter[Verdict] = field(default_factory=Counter)
    last: Reply | None = None
    not_before: float = 0.0
    stopped_at: float | None = None
    sent_at: deque[float] = field(default_factory=lambda: deque(maxlen=int(POLITE_RPS) + 2))

    @property
    def asked_s(self) -> float:
        """The wait that the last answer asks for."""
        return self.last.asks_s if self.last else 0.0

    @property
    def pause_s(self) -> float:
        """What the next request may be put off by, beside the waits: the pace is cut."""
        return 1 / SLOWEST_RPS if self.was_limited else 0.0

    @property
    def give_up_at(self) -> float:
        """When the move at hand is to be given up."""
        patience_s = self.limits.give_up_after_s
        if self.what == b"":
            patience_s = min(patience_s, INIT_GIVE_UP_S)
        return self.first_sent_at + patience_s

    @property
    def ends_at(self) -> float:
        """When the minutes of this call are over."""
        minutes = self.limits.max_minutes
        return self.began_at + 60 * minutes if minutes is not None else math.inf

    def begin_move(self, what: object, now: float) -> None:
        """Go on with another request."""
        self.what, self.first_sent_at, self.tries = what, now, Counter()

    def take(self, reply: Reply, now: float) -> None:
        """Note how a request was answered."""
        self.hops += 1
        if reply.verdict is Verdict.MOVED and self.hops > MAX_HOPS:
            reply = replace(reply, verdict=Verdict.LOST)
        self.last = reply
        self.tries[reply.verdict] += 1
        if reply.verdict is Verdict.MOVED:
            self.base = requests.compat.urljoin(self.base, reply.headers["Location"])
            self.base = self.base.partition("/api/")[0]
            return
        self.hops = 0
        self.was_limited |= reply.verdict is Verdict.LIMIT
        if reply.verdict is Verdict.GOOD:
            self.home = self.base
            self.is_under_way |= self.what != b""
        else:
            self.base = self.home
            self.not_before = now + max(self._least_wait(now), reply.asks_s)

    def _least_wait(self, now: float) -> float:
        assert self.last is not None
        if self.last.verdict is Verdict.TOKEN:
            return min(TOKEN_WAIT_S, max((self.give_up_at - now) / 2, 0.5))
        return LEAST_WAITS_S.get(self.last.verdict, 0.5)

    def longest_wait(self) -> float:
        """Return how long the bot may want to wait now."""
        verdict = self.last.verdict if self.last else Verdict.LOST
        first_s = TOKEN_WAIT_S if verdict is Verdict.TOKEN else LEAST_WAITS_S.get(verdict, 0.5)
        normal_s = min(LONGEST_WAIT_S, first_s * 2.0 ** (self.tries.total() - 1) + 0.5)
        return max(normal_s, self.asked_s) + SLACK_S

    def exits(self, now: float) -> Iterator[int]:
        """Yield each exit code that the answers and limits can have earned."""
        if self.sent == self.limits.max_requests or now + self.pause_s >= self.ends_at:
            yield 75
        if self.last is None or self.last.verdict is Verdict.GOOD:
            yield from (0, 1)
        elif self.tries[self.last.verdict] >= TRIES.get(self.last.verdict, math.inf):
            yield EXITS[self.last.verdict]
        elif now + self.longest_wait() > self.give_up_at:
            yield 69
            if self.what == b"" and self.last.verdict is Verdict.LIE:
                yield 76  # nothing is at stake yet, and this is what is known of the service


class World:
    """One seed: its chances, its machine, and the run that is played in it."""

    def __init__(self, seed: int, runs_dir: Path) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.injected: Counter[str] = Counter()
        """How often each fault was met."""
        self.exits: Counter[int | None] = Counter()
        """How often each exit code was earned; None: the process died."""
        self.sent = 0
        """Requests in all."""
        self.latency_s = self.rng.choice((0.02, 0.3))
        """How long the service takes to answer at most."""
        self.clock = SimClock(self)
        self.sitting = Sitting(Goal(0), Limits(), CALM, 0.0)
        self.disk = SimDisk(self)
        self.run: Recovered | None = None
        """The run that was begun last."""
        self.goes_on = False
        """Whether the sitting has to go on with it."""
        self._path: Path | None = None
        self._kept = b""
        """What of it nothing can take any more."""
        self._sky = Sky(self)
        self._runs_dir = runs_dir
        self._goal = self._new_goal()
        self._has_one_goal = True
        self._has_left_run = False
        """Whether `--fresh` has left an unfinished one."""
        self._is_clock_bad = self.chance(0.2)
        """Whether the time of day is set back now and then."""
        self._refused_at: datetime | None = None
        """When the token was first refused, with nothing accepted since, before this sitting."""
        self._was_accepted = False
        """Whether this sitting brought the run on."""
        self._is_dying = self._has_power_loss = False
        self._violation: Violation | None = None
        self._trail: list[tuple[object, ...]] = []

    def tell(self, last: int = 0) -> str:
        """Return what happened, all of it or the last so many things."""
        return "\n".join(" ".join(map(str, items))[:400] for items in self._trail[-last:])

    def live(self) -> None:
        """Play sittings until the run is over, and look at it all.

        Raises:
            Violation: the bot did what it must not do.
        """
        name, weather = self.rng.choice(sorted(WEATHERS.items()))
        self.note("weather", name)
        random.seed(self.seed)  # the jitter of waits
        with (
            patch.object(writer, "os", self.disk),
            patch.object(writer, "open_plain", self.disk.open_plain),
        ):
            for _ in range(self.rng.randint(0, 9)):
                code = self._sit(weather)
                if code in (0, 1):
                    break
                self.clock.pass_time(self.rng.uniform(0.1, self.rng.choice((600, 600, 5000))))
                if code == 77 and self.chance(0.8):
                    self._sky.keep_refusing()
                    self.clock.pass_time(self.rng.uniform(2000, 6000))
                if self._is_clock_bad and self.chance(0.2):
                    self.injected["clock set back"] += 1
                    self.clock.set_back_s += self.rng.uniform(0, 4000)
            else:
                self._sky.clear_up()
                code = self._sit(CALM)
                self.must(code in (0, 1), "a calm sitting did not finish the run")
            self.disk.begin_sitting("", keeps_cache=False)
        self._check_all(code)

    def _new_goal(self) -> Goal:
        rule = self.rng.choice(strategy.BANK_RULES)
        most = self.rng.choice((0, 300, 600, 1000, 3030 if rule != strategy.EXACTLY else 1000))
        bank_at = self.rng.randint(0, most)
        if rule == strategy.EXACTLY and not strategy.is_reachable(bank_at):
            bank_at = strategy.nearest_reachable(bank_at)[1]
        return Goal(bank_at, rule)

    def _is_clash(self, state: State, goal: Goal) -> bool:
        """Tell whether a run cannot come to a goal any more."""
        is_passed = goal.rule != strategy.EXACTLY and state.score > goal.bank_at
        return is_passed or strategy.is_out_of_reach(state, goal)

    def _new_limits(self, weather: Weather) -> Limits:
        choose = self.rng.choice
        if weather is CALM:
            return Limits()
        return Limits(
            give_up_after_s=choose((5.0, 60.0, 900.0)),
            max_rps=choose((None, POLITE_RPS)),
            max_requests=choose((None, None, self.rng.randint(1, 40))),
            max_minutes=choose((None, None, self.rng.uniform(0.1, 30))),
        )

    # What happens

    def note(self, *items: object) -> None:
        """Remember what happened, to tell it if need be."""
        self._trail.append((round(self.clock.monotonic(), 2), *items))

    def chance(self, rate: float) -> bool:
        """Draw whether something happens."""
        return rate > 0 and self.rng.random() < rate

    def is_death(self) -> bool:
        """Draw whether the process ends here; once it has, it always does."""
        if not self._is_dying and self.chance(self.sitting.weather.death):
            self._is_dying, self._has_power_loss = True, self.chance(0.3)
            name = "power loss" if self._has_power_loss else "death"
            self.injected[name] += 1
            self.note(name)
        return self._is_dying

    def maybe_die(self) -> None:
        """End the process here, perhaps."""
        if self.is_death():
            raise Died

    def maybe_stop(self) -> None:
        """Ask the bot to stop, perhaps."""
        if self.sitting.stopped_at is None and self.chance(self.sitting.weather.stop):
            number = self.rng.choice((2, 15))
            self.injected["stop"] += 1
            self.note("signal", number)
            self.sitting.stopped_at = self.clock.monotonic()
            self.clock.stop.ask(number)

    def _sit(self, weather: Weather) -> int | None:
        """Play one sitting; return its exit code, None for a death."""
        if self.run is not None and self.chance(0.05):
            self._has_one_goal = False
            self._goal = self._new_goal()
            while self._is_clash(self.run.run.state, self._goal):
                self._goal = self._new_goal()
        self.clock.stop = StopRequest()
        is_over = self.run is None or self.run.run.is_over
        is_fresh = not self._is_clock_bad and weather is not CALM and self.chance(0.03)
        if is_fresh and not is_over:
            self._has_left_run = True
        elif is_over:
            is_fresh = self._has_left_run  # lest it be asked which run is to be gone on with
        self.goes_on = not is_over and not is_fresh
        token = self.run.run.token if self.run and self.goes_on else ""
        self.disk.begin_sitting(token, keeps_cache=self.goes_on and not self._has_power_loss)
        self._is_dying = self._has_power_loss = False
        began_at = self.clock.monotonic()
        self.sitting = Sitting(self._goal, self._new_limits(weather), weather, began_at)
        if self.run is not None and self.goes_on:
            self.sitting.is_under_way = self.run.run.actions > 0
        self._refused_at = self._first_refusal() if self.goes_on else None
        self.note("a sitting begins", self._goal, self.sitting.limits, f"{is_fresh=}")
        watcher = Watcher()
        mode = Mode.FRESH if is_fresh else Mode.GO_ON
        order = Order(BASE_URL, 7, self._goal, self._runs_dir, mode)
        code, error = self._call(order, watcher)
        self.note("exit", code, error)
        self.exits[code] += 1
        self.sent += self.sitting.sent
        if self._violation is not None:
            raise self._violation
        if self._has_power_loss:
            self.disk.lose_power()
        self._check_sitting(code, str(error), watcher)
        return code

    def _call(self, order: Order, watcher: Watcher) -> tuple[int | None, BaseException | None]:
        """Call the bot; return its exit code, None for a death, and why it ended."""
        try:
            outcome = play_sitting(order, self._new_client, self.clock, watcher)
            assert outcome is not None
        except BotError as exc:
            return exc.exit_code, exc
        except Died:
            return None, None
        except Exception as exc:
            raise self._violation or self._fault(f"{exc!r} escaped") from exc
        return outcome.exit_code, outcome.error

    def _new_client(self) -> Client:
        session = new_session()
        session.mount("http://", self._sky)
        return Client(
            Transport(session, Surroundings(), NoWatchdog(self.clock.stop)),
            BASE_URL,
            self.sitting.limits,
            clock=self.clock,
            pace=Pace(self.sitting.limits.max_rps, self.clock),
            wire_settings=WireSettings(),
        )

    def _first_refusal(self) -> datetime | None:
        """Return when the token was first refused, with nothing accepted since."""
        assert self._path is not None
        first = None
        for line in self._path.read_bytes().splitlines(keepends=True):
            record = json.loads(line) if line.endswith(b"\n") and line.startswith(b"{") else {}
            if record.get("event") == "action":
                first = None
            elif record.get("exit_code") == 77:
                first = first or datetime.fromisoformat(record["ts"])
        return first

    # What has to hold

    def must(self, holds: object, otherwise: str) -> None:
        """Raise a violation where something does not hold; one that is swallowed counts too."""
        if not holds:
            self._violation = self._violation or self._fault(otherwise)
            raise self._violation

    def _fault(self, text: str) -> Violation:
        return Violation(f"{text}\npython tests/simulation.py --seed {self.seed}\n{self.tell(20)}")

    def check_request(self, request: requests.PreparedRequest) -> None:
        """Look whether a request may be sent, and count it."""
        sitting, now = self.sitting, self.clock.monotonic()
        limits, what = sitting.limits, request.body or b""
        self.must(not self.disk.is_broken, "a request was sent after a write had failed")
        self.must(sitting.stopped_at is None, "a request was sent though a stop was asked for")
        self.must(not self.disk.has_unsynced_award, "an award was not synced")
        self.must(now >= sitting.not_before - ROUNDING_S, "a request was sent too early")
        self.must((request.url or "").startswith(f"{sitting.base}/api/"), "sent elsewhere")
        self.must(sitting.sent != limits.max_requests, "more requests than allowed")
        self.must(now <= sitting.ends_at, "a longer sitting than allowed")
        sitting.sent_at.append(now)
        if limits.max_rps and len(sitting.sent_at) == sitting.sent_at.maxlen:
            self.must(now - sitting.sent_at[0] > 1 - 1e-6, "requests came too fast")
        if sitting.last is None or sitting.last.verdict is Verdict.GOOD:
            sitting.begin_move(what, now)
            self._check_move(request)
        self.must(what == sitting.what, "a request was not sent again")
        for verdict, count in sitting.tries.items():
            self.must(count < TRIES.get(verdict, math.inf), f"{verdict} came {count} times")
        self.must(now <= sitting.give_up_at + sitting.pause_s + SLACK_S, "it was not given up")
        sitting.sent += 1

    def _check_move(self, request: requests.PreparedRequest) -> None:
        """Look whether a new request is the one that best play makes from the last line."""
        if not request.body:
            self.must(not self.goes_on, "an unfinished run was forgotten")
            self.must(not self.disk.token, "a second run was begun")
            self.must(request.method == "GET", "init is a GET")
            return
        sent = json.loads(request.body)
        self.must(request.method == "POST", "an action is a POST")
        self.must(sent["stateToken"] == self.disk.token, "not the token of the last line")
        right = decide(state_of(sent["stateToken"]), self.sitting.goal).to_json()
        self.must(sent["action"] == right, f"{sent['action']} was sent where {right} is right")

    def check_line(self, line: dict[str, Any]) -> None:
        """Look whether a line of the journal says of a torn one before it how long it was."""
        if self.run and line["event"] == "run.resumed":
            self.must(line["cut_bytes"] == self.run.cut_bytes, f"{self.run.cut_bytes} were cut")

    def _check_sitting(self, code: int | None, error: str, watcher: Watcher) -> None:
        """Look at how a sitting ended, and at what it leaves."""
        sitting, now = self.sitting, self.clock.monotonic()
        allowed = {74} if self.disk.is_broken else {None, *sitting.exits(now)}
        if self.clock.stop.signal_number is not None and not self.disk.is_broken:
            allowed.add(128 + self.clock.stop.signal_number)
            self.must(now - (sitting.stopped_at or 0) <= 3, "a stop took too long")
        self.must(code is None or code in allowed, f"exit code {code}, not one of {allowed}")
        is_lost = sitting.last is not None and sitting.last.verdict is Verdict.LOST
        if code == 69 and is_lost and sitting.asked_s > sitting.limits.give_up_after_s:
            self.must("until" in error, "it is not said until when to wait")
        path = self.disk.path
        if path is None:
            self.must(not self.goes_on or code in (None, 74), "the run was not gone on with")
            return
        if not path.exists():
            self.must(self.disk.is_broken, "a journal is gone though its disk was sound")
            self.must(not self.disk.token, "a journal with a line in it is gone")
            return
        if path == self._path and not self.goes_on:
            self.run = self._recover(path)  # one that is left, and was given its last line
            self.must(self.run.run.is_over or self.disk.is_broken, "the last line is missing")
            return
        if self.run and self.goes_on and self.run.cut_bytes and self.disk.was_cut:
            part = f"{self.run.cut_bytes} bytes"
            self.must(any(part in text for text in watcher.notices), "a line was cut in silence")
        after = self._recover(path)
        content = path.read_bytes()
        self.must(
            not self.goes_on or content.startswith(self._kept), "the journal was not only added to"
        )
        is_whole = not after.cut_bytes or code is None or self.disk.is_torn
        self.must(is_whole, "a torn line was left")
        self._check_count(code, after)
        before = self.run.run.actions if self.run and self.goes_on else 0
        self._was_accepted = after.run.actions > before
        if after.run.started is not None:
            self.run, self._path = after, path
            self._kept = content[: min(after.size, self.disk.synced)]
            if code not in (None, 74):
                self._check_last_line(code or 0, path)
        elif path == self._path:
            self.run = None  # the power went before its first line was synced

    def _check_count(self, code: int | None, after: Recovered) -> None:
        """Look whether the journal has a line for every request that was sent."""
        is_known = after.run.started is not None
        sent, counted = self.sitting.sent, is_known * after.run.requests
        if self.run and self.goes_on:
            counted -= self.run.run.requests
        most = 0
        if code is None or self.disk.is_broken:
            most = 1 + self._has_power_loss * self.disk.unsynced_requests
            if self.sitting.what == b"":
                most = sent  # failures of `init` are held back until there is a journal
        self.must(0 <= sent - counted <= most, f"{sent} requests, {counted} are in the journal")

    def _check_last_line(self, code: int, path: Path) -> None:
        """Look whether the last line of a sitting says how it ended."""
        line = json.loads(path.read_bytes().splitlines()[-1])
        event = {0: "run.ended", 1: "run.ended"}.get(code, "run.suspended")
        has_lasted = (
            self._refused_at
            and not self._was_accepted
            and (self.clock.now() - self._refused_at > KEPT_FOR)
        )
        if code == 77 and has_lasted:
            event = "run.abandoned"
            self.injected["abandoned"] += 1
        self.must(line["event"] == event, f"{line['event']} after exit code {code}")
        self.must(line.get("exit_code", code) == code, f"{line} after exit code {code}")

    def _recover(self, path: Path) -> Recovered:
        try:
            return recover(path)
        except BotError as exc:
            raise self._fault(str(exc)) from exc

    def _check_all(self, code: int | None) -> None:
        """Look at every journal, and whether the last one holds the run that was asked for."""
        for path in self._runs_dir.glob("*.jsonl"):
            if path != self._path:  # which was just looked at
                self._recover(path)
        assert self._path is not None
        state, goal, is_met, awards = rules.fresh(), Goal(0), False, 0
        for line in map(json.loads, self._path.read_bytes().splitlines()):
            if "bank_at" in line:
                goal = Goal(line["bank_at"], line["bank_rule"])
            elif line["event"] == "action":
                action = decide(state, goal)
                self.must(line["action"] == action.to_json(), f"{line} is no best play")
                is_met = strategy.is_met(state, goal)
                state = rules.apply(state, action)
                awards += line["award"]
        self.must(state.phase == rules.ENDED, "the run is not over")
        self.must((code == 0) is is_met, f"exit code {code} for {state.score} points and {goal}")
        self.must(is_met or not self._has_one_goal, f"banked with {state.score} for {goal}")
        totals = line["event"], line["end_reason"], line["score"], line["boards"], awards
        right = "run.ended", rules.BANKED, state.score, state.cleared_boards, state.score
        self.must(totals == right, f"the run ended with {totals}, not {right}")


@dataclass(slots=True)
class Summary:
    """What many seeds met."""

    injected: Counter[str] = field(default_factory=Counter)
    exits: Counter[int | None] = field(default_factory=Counter)
    seeds: int = 0
    requests: int = 0

    def __str__(self) -> str:
        faults = ", ".join(f"{name} {count}" for name, count in self.injected.most_common())
        exits = ", ".join(f"{code} {count}" for code, count in self.exits.most_common())
        sittings = self.exits.total()
        return (
            f"{self.seeds} seeds, {sittings} sittings, {self.requests} requests\n"
            f"faults: {faults}\nexit codes (None: death): {exits}"
        )


def simulate(seeds: Iterable[int]) -> Summary:
    """Live through each seed.

    Raises:
        Violation: the bot did what it must not do in one of them.
    """
    summary = Summary()
    memory = Path("/dev/shm")
    where = memory if os.access(memory, os.W_OK) else None
    jitter = random.getstate()
    try:
        for seed in seeds:
            with tempfile.TemporaryDirectory(prefix="simulation-", dir=where) as folder:
                world = World(seed, Path(folder))
                world.live()
            summary.injected += world.injected
            summary.exits += world.exits
            summary.seeds += 1
            summary.requests += world.sent
    finally:
        random.setstate(jitter)
    return summary


def main(arguments: Sequence[str] | None = None) -> None:
    """Try seeds, or show one."""
    parser = argparse.ArgumentParser(description=__doc__)
    chosen = parser.add_mutually_exclusive_group(required=True)
    chosen.add_argument("--seed", type=int, help="replay this one and tell what happened")
    chosen.add_argument("--seeds", type=int, help="try so many")
    options = parser.parse_args(arguments)
    began_at = time.monotonic()
    if options.seed is not None:
        with tempfile.TemporaryDirectory() as folder:
            world = World(options.seed, Path(folder))
            try:
                world.live()
            finally:
                sys.stdout.write(f"{world.tell()}\n")
        return
    summary = simulate(range(options.seeds))
    rate = summary.seeds / (time.monotonic() - began_at) * 60
    sys.stdout.write(f"{summary}\n{rate:.0f} seeds a minute\n")


if __name__ == "__main__":
    main()
