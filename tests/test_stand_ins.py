"""Whole runs on services that name, nest and write what they send in other ways, or lie."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qs, urlsplit

import pytest
from fake_clock import FakeClock
from harness import plan_game, token_of
from standins import KEY, Call, StandIn, Watcher, journal_lines, play

from bot.client.limits import Limits
from bot.client.redirects import ACTION_PATH
from bot.errors import Contradiction, Diverged
from bot.player import Mode, Outcome
from bot.service import Answer, Service
from bot.strategy import Goal
from bot.verify import recover
from bot.wire.layout import WireSettings

Json: TypeAlias = dict[str, Any]
Change: TypeAlias = Callable[[Json], Json]

START: Final = [-2, -1, 3]


class Disguised(Service):
    """The local service, with every accepted answer changed on its way out."""

    def __init__(self, change: Change) -> None:
        super().__init__(KEY)
        self.requests: list[bytes] = []
        """The body of each."""
        self._change = change

    def answer(self, method: str, target: str, body: bytes) -> Answer:
        self.requests.append(body)
        status, data = super().answer(method, target, body)
        answer = json.loads(data)
        return Answer(status, json.dumps(self._change(answer) if answer["ok"] else answer).encode())


class Liar(Disguised):
    """A service that is right but for the answers to some of its requests."""

    def __init__(self, lie: Change, first: int, times: int = 1000, disguise: Change = dict) -> None:
        super().__init__(self._answer)
        self._lie = lie
        self._lying = range(first, first + times)
        self._disguise = disguise

    def _answer(self, answer: Json) -> Json:
        answer = self._disguise(answer)
        return self._lie(answer) if len(self.requests) in self._lying else answer


def without_state(answer: Json) -> Json:
    return {key: value for key, value in answer.items() if key != "state"}


def under(*keys: str) -> Change:
    """Put the state, or the whole answer where no key is named, below these keys."""

    def change(answer: Json) -> Json:
        inner = answer["state"]
        for key in reversed(keys):
            inner = {key: inner}
        return {**without_state(answer), **inner}

    return change


def wholly_under(*keys: str) -> Change:
    def change(answer: Json) -> Json:
        for key in reversed(keys):
            answer = {key: answer}
        return {"ok": True, **answer}

    return change


def renamed(**names: str) -> Change:
    """Give fields of the state other names."""

    def change(answer: Json) -> Json:
        state = {names.get(key, key): value for key, value in answer["state"].items()}
        return {**answer, "state": state}

    return change


def in_state(*, first: Json | None = None, last: Json | None = None) -> Change:
    """Put fields before and after those of the state, or in their place."""

    def change(answer: Json) -> Json:
        state = {**(first or {}), **answer["state"], **(last or {})}
        return {**answer, "state": state}

    return change


def beside(*, first: Json | None = None, last: Json | None = None) -> Change:
    """Put fields before and after those of the answer."""
    return lambda answer: copy.deepcopy({**(first or {}), **answer, **(last or {})})


def only(*names: str) -> Change:
    """Send the token and these fields of the state, flat."""
    return lambda answer: {
        "ok": True,
        "stateToken": answer["stateToken"],
        **{name: answer["state"][name] for name in names},
    }


def both(*changes: Change) -> Change:
    def change(answer: Json) -> Json:
        for each in changes:
            answer = each(answer)
        return answer

    return change


def everywhere(convert: Callable[[Any], Any]) -> Change:
    """Change every value that is no object and no list."""

    def change(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: change(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [change(inner) for inner in value]
        return convert(value)

    return change


def with_keys(convert: Callable[[str], str]) -> Change:
    def change(value: Any) -> Any:
        if isinstance(value, dict):
            return {convert(key): change(inner) for key, inner in value.items()}
        return value

    return change


def snake_case(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def as_fraction(value: Any) -> Any:
    return float(value) if type(value) is int else value


def in_other_encodings(answer: Json) -> Json:
    state = answer["state"]
    whole, flips = [], 0
    for action in answer["legalActions"]:
        if action["type"] == "flip":
            flips += 1
        else:
            whole.append(action)
    ranges = [{"type": "flip", "min": 1, "max": flips}] if flips else []
    changed = {
        "leaves": ["leaf"] * state["leaves"],
        "target": " ".join(map(str, state["target"])),
        "endReason": state["endReason"] or "",
    }
    return {
        **answer,
        "gameOver": "yes" if answer["gameOver"] else "no",
        "legalActions": [*ranges, *whole],
        "state": {**state, **changed},
    }


def split(answer: Json) -> Json:
    state = dict(answer["state"])
    board = {key: state.pop(key) for key in ("boardNumber", "templateIndex", "n", "par", "target")}
    view = {key: state.pop(key) for key in ("garland", "phase")}
    moves = {key: state.pop(key) for key in ("movesUsed", "moveBudget", "remainingMoves")}
    return {**without_state(answer), "board": board, "view": view, "moves": moves, "run": state}


def token_named_state(answer: Json) -> Json:
    return {
        **{key: value for key, value in answer.items() if key != "stateToken"},
        "observation": answer["state"],
        "state": answer["stateToken"],
    }


FROZEN: Final[Json] = {
    "garland": START,
    "phase": "playing",
    "score": 0,
    "turn": 0,
    "movesUsed": 0,
    "boardNumber": 1,
}
"""How the run began, as a service may go on sending it."""


def named(name: str) -> Change:
    return renamed(garland=name)


SHAPES: Final[dict[str, Change]] = {
    "under state": under("state"),
    "under observation": under("observation"),
    "under publicState": under("publicState"),
    "flat": under(),
    "two deep": under("data", "game"),
    "all below one key": wholly_under("data"),
    "all three deep": wholly_under("result", "data", "reply"),
    "all twice": lambda answer: {**answer, "observation": answer["state"]},
    "keys reversed": lambda answer: {
        **dict(reversed(answer.items())),
        "state": dict(reversed(answer["state"].items())),
    },
    **{
        f"array called {name}": named(name)
        for name in ("pennants", "faces", "signedFaces", "arrangement", "row", "board", "n", "ok")
    },
    "array called by a word with a dot": named("sun.row"),
    "array called by a word with a backslash": named("sun\\"),
    "array called by a word with a backslash and a dot": named("sun\\.row"),
    "array called by a word in another script": named("гирлянда ☀"),
    "array called by a control character": named("\x1b[2J\0"),
    "lives and budget": renamed(leaves="lives", moveBudget="budget"),
    "snake case": with_keys(snake_case),
    "upper case": with_keys(str.upper),
    "token, garland, phase, score": only("garland", "phase", "score"),
    "token and garland": only("garland"),
    "a text beside": beside(last={"observation": "A garland of -2, -1, 3. Flip a prefix."}),
    "a text before": both(under(), beside(first={"observation": "A garland of -2, -1, 3."})),
    "signed arrays in spec": beside(
        last={"spec": {"garland": START, "example": [1, -2, 3], "state": FROZEN, "score": 99}}
    ),
    "signed arrays in legalActions": beside(
        last={"legalActions": {"flip": {"garland": START, "n": 9}, "bank": {"score": 99}}}
    ),
    "another signed array beside": in_state(first={"faces": [1, -2, 3], "example": [2, -1, 3]}),
    "numbers as 1.0": everywhere(as_fraction),
    "other encodings": in_other_encodings,
    "split over siblings": split,
    "the token under state": token_named_state,
    "another token beside": beside(first={"token": "of another kind", "csrf": {"token": "x"}}),
    "a copy before, under a known name": both(
        named("arrangement"), in_state(first={"garland": START})
    ),
    "a copy after, under a known name": both(
        named("signedPennants"), in_state(last={"pennants": START})
    ),
    "a copy before, under an unknown name": in_state(first={"start": START}),
    "a copy after, under an unknown name": in_state(last={"start": START}),
    "copies of an unknown name by one": both(
        named("row"), in_state(first={"was": START}, last={"first": START})
    ),
    "a copy above": beside(first={"garland": START}),
    "a copy below": in_state(last={"origin": {"garland": START, "turn": 0}}),
    "a frozen sibling before": beside(first={"initial": FROZEN}),
    "a frozen sibling after": beside(last={"initial": FROZEN}),
    "a frozen sibling of a flat state": both(under(), beside(first={"initial": FROZEN})),
    "a frozen sibling, two deep": beside(
        first={"initial": {"board": {"garland": START}, "score": 0, "turn": 0}}
    ),
    "a frozen sibling in the state": in_state(first={"initial": FROZEN}),
    "a frozen sibling of a split state": both(split, beside(first={"initial": FROZEN})),
    "a frozen sibling of 1.0": both(beside(last={"initial": FROZEN}), everywhere(as_fraction)),
}


def assert_flawless(outcome: Outcome, requests: int, watcher: Watcher) -> None:
    """Hold a run to 3,030 points against all that it has to be."""
    assert outcome.error is None
    assert (outcome.exit_code, outcome.run.state.score) == (0, 3030)
    assert (requests, outcome.run.requests) == (71, 71)
    assert watcher.notes == []
    assert list(journal_lines(outcome.path, "diverged")) == []
    recovered = recover(outcome.path)
    assert (recovered.cut_bytes, recovered.run.is_over) == (0, True)
    assert recovered.run.state == outcome.run.state


def assert_plays_flawlessly(
    change: Change, runs_dir: Path, clock: FakeClock, *budgets: int
) -> None:
    """Play a run whose answers are disguised, a sitting for each budget and one to the end."""
    service, watcher = Disguised(change), Watcher()
    for budget in budgets:
        suspended = play(service, runs_dir, clock, Call(limits=Limits(max_requests=budget)))
        assert suspended.exit_code == 75
    outcome = play(service, runs_dir, clock, watcher=watcher)
    assert_flawless(outcome, len(service.requests), watcher)


@pytest.mark.parametrize("change", SHAPES.values(), ids=SHAPES)
def test_a_run_takes_71_requests_whatever_the_answers_look_like(
    change: Change, tmp_path: Path, clock: FakeClock
) -> None:
    assert_plays_flawlessly(change, tmp_path, clock)


@pytest.mark.slow
@pytest.mark.parametrize("change", SHAPES.values(), ids=SHAPES)
def test_a_run_goes_on_from_its_journal_whatever_the_answers_look_like(
    change: Change, tmp_path: Path, clock: FakeClock
) -> None:
    assert_plays_flawlessly(change, tmp_path, clock, 1, 1, 20)


# Answers to actions that are laid out otherwise than the one to `init`


def afterwards(change: Change, at_first: Change = dict) -> Change:
    """Change the answers to actions alone."""
    return lambda answer: (at_first if answer["state"]["turn"] == 0 else change)(answer)


def as_objects(answer: Json) -> Json:
    pennants = [
        {"id": abs(pennant), "face": "sun" if pennant > 0 else "moon"}
        for pennant in answer["state"]["garland"]
    ]
    return in_place("state", "garland", value=pennants)(answer)


def as_letters(answer: Json) -> Json:
    letters = ["_ABCDE"[p] if p > 0 else "_abcde"[-p] for p in answer["state"]["garland"]]
    return in_place("state", "garland", value=letters)(answer)


def as_text(answer: Json) -> Json:
    text = " ".join(map(str, answer["state"]["garland"]))
    return in_place("state", "garland", value=text)(answer)


def without_nothing(answer: Json) -> Json:
    """Leave out whatever is null, zero or false, as careless back ends do."""
    return {
        key: without_nothing(value) if isinstance(value, dict) else value
        for key, value in answer.items()
        if value or value == []
    }


def token_in_state(answer: Json) -> Json:
    state = {**answer["state"], "token": answer["stateToken"]}
    rest = {key: value for key, value in answer.items() if key != "stateToken"}
    return {**rest, "state": state}


def token_called(name: str) -> Change:
    def change(answer: Json) -> Json:
        rest = {key: value for key, value in answer.items() if key != "stateToken"}
        return {**rest, name: answer["stateToken"]}

    return change


def summary(**more: Any) -> Change:
    """End with a summary."""

    def change(answer: Json) -> Json:
        if not answer["gameOver"]:
            return answer
        score = answer["score"]
        return {"ok": True, "gameOver": True, "endReason": "banked", "finalScore": score, **more}

    return change


class Remembering(Disguised):
    """A service that repeats the state before, and a growing list of garlands."""

    def __init__(self, change: Change = dict) -> None:
        self._past: list[Json] = []
        super().__init__(lambda answer: change(self._with_past(answer)))

    def _with_past(self, answer: Json) -> Json:
        before = self._past[-1] if self._past else None
        self._past.append(answer["state"])
        history = [state["garland"] for state in self._past]
        return {"previous": before, **answer, "history": history}


class Echoing(Disguised):
    """A service that sends back the token that it was sent, and a new one beside it."""

    def __init__(self) -> None:
        super().__init__(self._echo)

    def _echo(self, answer: Json) -> Json:
        if answer["state"]["turn"] == 0:
            return answer
        sent = json.loads(self.requests[-1])["stateToken"]
        return {**answer, "stateToken": sent, "nextStateToken": answer["stateToken"]}


def without_garland(answer: Json) -> Json:
    return missing("state", "garland")(answer)


UNREADABLE: Final = (as_objects, as_letters, as_text)
"""Ways to write a garland that the bot cannot read; the run is held against its score then."""

LAYOUTS: Final[dict[str, Change]] = {
    "all in result": afterwards(wholly_under("result")),
    "state where there was an observation": afterwards(dict, under("observation")),
    "observation where there was a state": afterwards(under("observation")),
    "under result.state": afterwards(under("result", "state")),
    "flat where it was nested": afterwards(under()),
    "nested where it was flat": afterwards(dict, under()),
    "another name of the token": afterwards(token_called("nextStateToken")),
    "an unknown name of the token": token_called("blob"),
    "the token in the state": afterwards(token_in_state),
    "few fields": afterwards(only("garland", "score")),
    "the garland and the token alone": afterwards(only("garland")),
    "the score and the token alone": afterwards(only("score")),
    "null, zero and false left out": without_nothing,
    "objects": as_objects,
    "letters": as_letters,
    "a text": as_text,
    "a summary at the end": summary(),
    "a summary of all in result": both(summary(), wholly_under("result")),
    "no garland at all": without_garland,
    "an error of null": beside(last={"error": None, "errors": []}),
    "an envelope with a version and a time": beside(
        first={"meta": {"version": 9, "time": 1764470467123456789}, "n": "x"}
    ),
}


@pytest.mark.parametrize("change", LAYOUTS.values(), ids=LAYOUTS)
def test_a_run_takes_71_requests_however_answers_to_actions_are_laid_out(
    change: Change, tmp_path: Path, clock: FakeClock
) -> None:
    assert_plays_flawlessly(change, tmp_path, clock)


@pytest.mark.parametrize("change", LAYOUTS.values(), ids=LAYOUTS)
def test_such_a_run_goes_on_in_a_second_sitting(
    change: Change, tmp_path: Path, clock: FakeClock
) -> None:
    assert_plays_flawlessly(change, tmp_path, clock, 1, 1, 20)


@pytest.mark.parametrize("service", [Remembering(), Echoing()], ids=["past", "echo"])
def test_the_past_and_the_token_that_was_sent_are_not_taken_for_the_answer(
    service: Disguised, tmp_path: Path, clock: FakeClock
) -> None:
    watcher = Watcher()
    outcome = play(service, tmp_path, clock, watcher=watcher)
    assert_flawless(outcome, len(service.requests), watcher)


def test_any_status_of_success_will_do(tmp_path: Path, clock: FakeClock) -> None:
    class Creating(Disguised):
        def answer(self, method: str, target: str, body: bytes) -> Answer:
            return super().answer(method, target, body)._replace(status=201)

    service, watcher = Creating(dict), Watcher()
    outcome = play(service, tmp_path, clock, watcher=watcher)
    assert_flawless(outcome, len(service.requests), watcher)


def deep(name: str, value: object) -> Change:
    """Put a value wherever a field of that name is."""

    def change(answer: Any) -> Any:
        if not isinstance(answer, dict):
            return answer
        return {
            key: value if key == name else change(inner) if key != "spec" else inner
            for key, inner in answer.items()
        }

    return change


def sent_by(change: Change) -> set[str]:
    """Return the names that the answer to the request that is lied to has."""
    answers: list[Json] = []
    service = Service(KEY)
    for number, (before, action, _) in enumerate(plan_game(Goal(3030)), 2):
        if number == STEP:
            request = {"stateToken": token_of(before), "action": action.to_json()}
            body = json.dumps(request).encode()
            answers.append(json.loads(service.answer("POST", ACTION_PATH, body).body))
    names: set[str] = set()
    holders = [change(answers[0])]
    for holder in holders:
        names |= holder.keys()
        holders += [
            value for key, value in holder.items() if isinstance(value, dict) and key != "spec"
        ]
    return names


WRONG_VALUES: Final[dict[str, object]] = {
    "garland": [-3, -2, -1, -4],
    "score": 440,
    "leaves": 2,
    "phase": "cleared",
    "turn": 6,
    "movesUsed": 1,
    "boardNumber": 4,
    "clearedBoards": 3,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WRONG_VALUES)
@pytest.mark.parametrize("change", LAYOUTS.values(), ids=LAYOUTS)
def test_in_each_layout_a_wrong_value_is_asked_for_once_more_and_then_ends_the_sitting(
    change: Change, name: str, tmp_path: Path, clock: FakeClock
) -> None:
    lie = deep(name, WRONG_VALUES[name])
    service = Liar(lie, first=STEP, disguise=change)
    outcome = play(service, tmp_path, clock)
    if name not in sent_by(change) or (name == "garland" and change in UNREADABLE):
        assert outcome.exit_code == 0
        return
    assert (outcome.exit_code, len(service.requests)) == (76, STEP + 1)
    assert isinstance(outcome.error, Diverged)
    assert recover(outcome.path).run.state == outcome.run.state


@pytest.mark.parametrize(
    "wrong", [{"finalScore": 99}, {"endReason": "out-of-lives"}, {"gameOver": False}], ids=str
)
@pytest.mark.parametrize("wrapping", [dict, wholly_under("result")], ids=["flat", "in result"])
def test_a_summary_that_is_wrong_in_anything_is_not_taken(
    wrong: Json, wrapping: Change, tmp_path: Path, clock: FakeClock
) -> None:
    service = Disguised(both(summary(**wrong), wrapping))
    outcome = play(service, tmp_path, clock)
    assert (outcome.exit_code, len(service.requests)) == (76, 72)
    assert outcome.run.state.phase == "cleared"


# A service that shares no code with the bot


class Stranger(Service):
    """The game as its page tells it, written a second time; a token is the game, in hex.

    It computes no par: the page gives the budgets.
    """

    STARTS: Final = {
        1: ([-2, -1, 3], 5),
        2: ([3, -2, -1], 6),
        3: ([-4, 1, -3, -2], 7),
        4: ([-1, 3, -4, 2], 8),
        5: ([5, -3, 2, -4, -1], 9),
        6: ([-3, 4, 5, 1, -2], 9),
        7: ([-4, 3, -1, 2, -5], 11),
        8: ([1, 4, 3, -2, -5], 11),
    }

    def __init__(self) -> None:
        self.requests = 0

    def answer(self, method: str, target: str, body: bytes) -> Answer:
        self.requests += 1
        url = urlsplit(target)
        if (method, url.path) == ("GET", "/api/games/sunpleat/init"):
            assert parse_qs(url.query) == {"seed": ["7"]}
            game = self._hang({"points": 0, "leaves": 3, "turn": 0, "over": None}, 1)
            return self._show(game, {"spec": {"goal": "Restore [-2, -1, 3] and its like."}})
        assert (method, url.path) == ("POST", "/api/games/sunpleat/action")
        request = json.loads(body)
        assert request.keys() == {"stateToken", "action"}
        game = json.loads(bytes.fromhex(request["stateToken"]))
        assert request["action"] in game["may"]
        return self._show(self._change(game, request["action"]), {})

    def _change(self, game: Json, action: Json) -> Json:
        game["turn"] += 1
        match action["type"]:
            case "flip":
                return self._flip(game, action["count"])
            case "restart":
                return self._hang({**game, "leaves": game["leaves"] - 1}, game["board"])
            case "next":
                return self._hang(game, game["board"] + 1)
            case _:
                return {**game, "may": [], "over": "banked", "at": "ended"}

    def _hang(self, game: Json, board: int) -> Json:
        template = board if board < 9 else (5, 6, 7, 8)[(board - 9) % 4]
        row, budget = self.STARTS[template]
        return {
            **game,
            "board": board,
            "template": template,
            "row": row,
            "budget": budget,
            "left": budget,
            "award": 0,
            "at": "playing",
            "may": [
                *({"type": "flip", "count": count} for count in range(1, len(row) + 1)),
                {"type": "restart"},
                {"type": "bank"},
            ],
        }

    def _flip(self, game: Json, count: int) -> Json:
        row = game["row"]
        row = [-pennant for pennant in row[:count][::-1]] + row[count:]
        left = game["left"] - 1
        assert left, "the bot wastes no moves"
        if row != sorted(map(abs, row)):
            return {**game, "row": row, "left": left}
        award = 100 + 25 * len(row) + 10 * left
        cleared = {"at": "cleared", "may": [{"type": "next"}, {"type": "bank"}]}
        points = game["points"] + award
        return {**game, "row": row, "left": left, "award": award, "points": points, **cleared}

    def _show(self, game: Json, more: Json) -> Answer:
        answer = {
            "game": {
                "garland": game["row"],
                "lives": game["leaves"],
                "phase": game["at"],
                "budget": game["budget"],
                "moves_left": game["left"],
                "board": game["board"],
                "template": game["template"],
                "turn": game["turn"],
                "last_award": game["award"],
                "end_reason": game["over"],
            },
            "score": game["points"],
            "game_over": game["over"] is not None,
            "legal_actions": game["may"],
            "stateToken": json.dumps(game).encode().hex(),
            **more,
        }
        return Answer(200, json.dumps(answer, indent=1).encode())


def test_a_run_is_flawless_on_a_service_that_shares_no_code_with_the_bot(
    tmp_path: Path, clock: FakeClock
) -> None:
    service, watcher = Stranger(), Watcher()
    outcome = play(service, tmp_path, clock, watcher=watcher)
    assert_flawless(outcome, service.requests, watcher)


@pytest.mark.slow
def test_a_longer_run_on_that_service_earns_what_its_page_says(
    tmp_path: Path, clock: FakeClock
) -> None:
    service = Stranger()
    outcome = play(service, tmp_path, clock, Call(bank_at=21050))
    assert (outcome.exit_code, outcome.run.state.score) == (0, 21050)
    assert service.requests == 1 + 546


def test_a_run_over_http_takes_one_connection(tmp_path: Path, clock: FakeClock) -> None:
    watcher = Watcher()
    with StandIn(service=Stranger()) as server:
        outcome = play(server.url, tmp_path, clock, watcher=watcher)
        assert_flawless(outcome, len(server.requests), watcher)
        assert server.connections == 1


# Lies


def in_place(*path: str, value: Any) -> Change:
    """Put a value in the place of another."""

    def change(answer: Json) -> Json:
        answer = copy.deepcopy(answer)
        holder = answer
        for key in path[:-1]:
            holder = holder[key]
        assert path[-1] in holder
        holder[path[-1]] = value
        return answer

    return change


def missing(*path: str) -> Change:
    def change(answer: Json) -> Json:
        answer = copy.deepcopy(answer)
        holder = answer
        for key in path[:-1]:
            holder = holder[key]
        del holder[path[-1]]
        return answer

    return change


STEP: Final = 8
"""The request that is lied to: `flip 2`, the second of board 3; two boards are cleared then."""
FLIPS: Final = [{"type": "flip", "count": count} for count in range(1, 6)]
RESTART: Final = {"type": "restart"}
BANK: Final = {"type": "bank"}
LIES: Final[dict[str, tuple[Change, str]]] = {
    "score null": (in_place("score", value=None), "score"),
    "score a text": (in_place("score", value="430"), "score"),
    "score other": (in_place("score", value=440), "score"),
    "score a fraction": (in_place("score", value=430.5), "score"),
    "score of the state": (in_place("state", "score", value=0), "score"),
    "gameOver a text": (in_place("gameOver", value="false"), "gameOver"),
    "gameOver 0": (in_place("gameOver", value=0), "gameOver"),
    "gameOver null": (in_place("gameOver", value=None), "gameOver"),
    "gameOver true": (in_place("gameOver", value=True), "gameOver"),
    "legalActions of five pennants": (
        in_place("legalActions", value=[*FLIPS, RESTART, BANK]),
        "legalActions",
    ),
    "legalActions without bank": (
        in_place("legalActions", value=[*FLIPS[:4], RESTART]),
        "legalActions",
    ),
    "legalActions with true for 1": (
        in_place(
            "legalActions", value=[{"type": "flip", "count": True}, *FLIPS[1:4], RESTART, BANK]
        ),
        "legalActions",
    ),
    "legalActions as ranges": (
        in_place("legalActions", value=[{"type": "flip", "min": 1, "max": 4}, RESTART, BANK]),
        "legalActions",
    ),
    "legalActions null": (in_place("legalActions", value=None), "legalActions"),
    "legalActions empty": (in_place("legalActions", value=[]), "legalActions"),
    "garland other": (in_place("state", "garland", value=[-3, -2, -1, -4]), "garland"),
    "garland with true": (in_place("state", "garland", value=[-3, -2, True, 4]), "garland"),
    "garland of true": (in_place("state", "garland", value=[True, 2]), "garland"),
    "garland with a fraction": (in_place("state", "garland", value=[-3.5, -2, -1, 4]), "garland"),
    "garland with a text": (in_place("state", "garland", value=["-3", -2, -1, 4]), "garland"),
    "garland short": (in_place("state", "garland", value=[-3, -2, -1]), "garland"),
    "garland a text": (in_place("state", "garland", value="-3 -2 -1 4"), "garland"),
    "garland null": (in_place("state", "garland", value=None), "garland"),
    **{
        f"{name} {value!r}": (in_place("state", name, value=value), name)
        for name, values in {
            "version": (2, True, "1", None),
            "phase": ("cleared", "PLAYING", None, 1),
            "boardNumber": (4, "3", 3.5, True, None),
            "templateIndex": (4, "3", None),
            "n": (5, "4", None),
            "par": (4, "3", None),
            "target": ([1, 2, 3, 4, 5], [True, 2, 3, 4], "1 2 3 4", None),
            "movesUsed": (1, True, "2", None),
            "moveBudget": (8, "7", None),
            "remainingMoves": (6, "5", None),
            "leaves": (2, "3", [1, 1, 1], None),
            "clearedBoards": (3, "2", None),
            "lastAward": (240, False, None),
            "endReason": ("banked", "", 0, False),
            "turn": (6, "7", None),
        }.items()
        for value in values
    },
}


@pytest.mark.slow
@pytest.mark.parametrize(("lie", "name"), LIES.values(), ids=LIES)
def test_a_lie_is_asked_for_once_more_and_then_ends_the_run_as_diverged(
    lie: Change, name: str, tmp_path: Path, clock: FakeClock
) -> None:
    service, watcher = Liar(lie, first=STEP), Watcher()
    outcome = play(service, tmp_path, clock, watcher=watcher)
    assert isinstance(outcome.error, Diverged)
    assert outcome.exit_code == 76
    assert list(outcome.error.fields) == [name]
    assert name in str(outcome.error)
    assert len(service.requests) == STEP + 1
    assert service.requests[-1] == service.requests[-2]
    assert [(note.what, note.failure.status) for note in watcher.notes] == [("flip 2", 200)] * 2
    assert [line["fields"] for line in journal_lines(outcome.path, "diverged")] == [
        outcome.error.fields
    ]
    assert recover(outcome.path).run.state == outcome.run.state


@pytest.mark.slow
@pytest.mark.parametrize(("lie", "name"), LIES.values(), ids=LIES)
def test_a_lie_told_once_is_survived(
    lie: Change, name: str, tmp_path: Path, clock: FakeClock
) -> None:
    service = Liar(lie, first=STEP, times=1)
    outcome = play(service, tmp_path, clock)
    assert (outcome.exit_code, outcome.run.state.score) == (0, 3030)
    assert len(service.requests) == 72
    (retry,) = journal_lines(outcome.path, "retry")
    assert str(retry["cause"]).endswith(f": {name}")
    assert (retry["attempt"], retry["status"]) == (1, 200)
    assert list(journal_lines(outcome.path, "diverged")) == []
    assert recover(outcome.path).run.is_over


@pytest.mark.parametrize(
    ("disguise", "lie", "name"),
    [
        (renamed(leaves="lives"), in_place("state", "lives", value=2), "lives"),
        (renamed(moveBudget="budget"), in_place("state", "budget", value=2), "budget"),
        (renamed(garland="row"), in_place("state", "row", value=[1, 2, 3, 4]), "row"),
        (with_keys(snake_case), in_place("game_over", value=True), "game_over"),
        (with_keys(snake_case), in_place("state", "board_number", value=1), "board_number"),
        (split, in_place("moves", "movesUsed", value=3), "movesUsed"),
        (everywhere(as_fraction), in_place("state", "turn", value=7.5), "turn"),
        (everywhere(as_fraction), in_place("state", "turn", value=8.0), "turn"),
    ],
    ids=["lives", "budget", "row", "game_over", "board_number", "split", "7.5", "8.0"],
)
def test_a_lie_is_named_as_the_service_names_the_field(
    disguise: Change, lie: Change, name: str, tmp_path: Path, clock: FakeClock
) -> None:
    outcome = play(Liar(lie, STEP, disguise=disguise), tmp_path, clock)
    assert isinstance(outcome.error, Diverged)
    assert list(outcome.error.fields) == [name]


def test_each_lie_of_an_answer_is_named_with_its_own_values(
    tmp_path: Path, clock: FakeClock
) -> None:
    lie = both(in_place("score", value=1), in_place("state", "score", value=2))
    outcome = play(Liar(lie, STEP), tmp_path, clock)
    assert isinstance(outcome.error, Diverged)
    assert outcome.error.fields == {
        "score": {"predicted": 430, "observed": 1},
        "state.score": {"predicted": 430, "observed": 2},
    }


def test_a_frozen_copy_does_not_hide_a_lie_about_the_garland(
    tmp_path: Path, clock: FakeClock
) -> None:
    service = Liar(
        in_place("state", "garland", value=START),
        STEP,
        disguise=beside(first={"initial": FROZEN}),
    )
    outcome = play(service, tmp_path, clock)
    assert isinstance(outcome.error, Diverged)
    assert list(outcome.error.fields) == ["garland"]


def test_a_split_state_beside_a_frozen_copy_is_still_compared(
    tmp_path: Path, clock: FakeClock
) -> None:
    service = Liar(
        in_place("moves", "movesUsed", value=9),
        STEP,
        disguise=both(split, beside(first={"initial": FROZEN})),
    )
    outcome = play(service, tmp_path, clock)
    assert isinstance(outcome.error, Diverged)
    assert list(outcome.error.fields) == ["movesUsed"]


def test_a_run_stopped_by_a_lie_goes_on_once_the_service_tells_the_truth(
    tmp_path: Path, clock: FakeClock
) -> None:
    assert play(Liar(in_place("score", value=0), STEP), tmp_path, clock).exit_code == 76
    outcome = play(Service(KEY), tmp_path, clock)
    assert (outcome.exit_code, outcome.run.state.score) == (0, 3030)
    assert recover(outcome.path).run.is_over


def test_a_run_stopped_by_a_lie_goes_on_once_the_field_is_ignored(
    tmp_path: Path, clock: FakeClock
) -> None:
    liar = Liar(in_place("state", "version", value=2), STEP)
    assert play(liar, tmp_path, clock).exit_code == 76
    outcome = play(liar, tmp_path, clock, Call(wire=WireSettings(ignore=frozenset({"version"}))))
    assert (outcome.exit_code, outcome.run.state.score) == (0, 3030)
    assert [*journal_lines(outcome.path, "run.started")] == [*journal_lines(outcome.path)][:1]


@pytest.mark.parametrize("name", ["board", "sun.row", "a..b", "row"])
def test_a_run_stopped_by_a_lie_about_a_garland_of_any_name_goes_on(
    name: str, tmp_path: Path, clock: FakeClock
) -> None:
    liar = Liar(in_place("state", name, value=[1]), STEP, disguise=named(name))
    outcome = play(liar, tmp_path, clock)
    assert isinstance(outcome.error, Diverged)
    assert list(outcome.error.fields) == [name]
    outcome = play(Disguised(named(name)), tmp_path, clock)
    assert (outcome.exit_code, outcome.run.state.score) == (0, 3030)


# What a first answer may say


CONTRADICTIONS: Final[dict[str, tuple[Change, str]]] = {
    "a score that is not 0": (in_place("score", value=5), "score"),
    "a score that is null": (in_place("score", value=None), "score"),
    "a score that is a text": (in_place("score", value="0"), "score"),
    "a score that is false": (in_place("state", "score", value=False), "score"),
    "a leaf less": (in_place("state", "leaves", value=2), "leaves"),
    "another budget": (in_place("state", "moveBudget", value=9), "moveBudget"),
    "another phase": (in_place("state", "phase", value="ready"), "phase"),
    "a game that is over": (in_place("gameOver", value=True), "gameOver"),
    "an end reason": (in_place("state", "endReason", value="banked"), "endReason"),
    "another target": (in_place("state", "target", value=[3, 2, 1]), "target"),
    "another set of actions": (in_place("legalActions", value=[BANK]), "legalActions"),
    "no action at all": (in_place("legalActions", value=[]), "legalActions"),
    "another version": (in_place("state", "version", value=2), "version"),
    "a turn taken": (in_place("state", "turn", value=1.0), "turn"),
    "lives under another name": (
        both(renamed(leaves="lives"), in_place("state", "lives", value=5)),
        "leaves",
    ),
}


@pytest.mark.parametrize(("change", "name"), CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_a_first_answer_that_is_not_of_a_fresh_run_ends_with_the_setting_that_passes_it_over(
    change: Change, name: str, tmp_path: Path, clock: FakeClock
) -> None:
    service = Disguised(change)
    with pytest.raises(Contradiction, match=rf"init has {name} .*wire\.ignore") as caught:
        play(service, tmp_path, clock)
    assert caught.value.exit_code == 76
    assert len(service.requests) == 2
    assert list(tmp_path.glob("*.jsonl*")) == []


@pytest.mark.slow
@pytest.mark.parametrize(("change", "name"), CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_a_field_that_is_ignored_is_passed_over_for_the_whole_run(
    change: Change, name: str, tmp_path: Path, clock: FakeClock
) -> None:
    call = Call(wire=WireSettings(ignore=frozenset({name, "lives"})))
    outcome = play(Disguised(change), tmp_path, clock, call)
    assert (outcome.exit_code, outcome.run.requests) == (0, 71)


PASSED_OVER: Final[dict[str, tuple[Change, set[str]]]] = {
    "leaves as a list": (in_place("state", "leaves", value=[1, 1, 1]), {"state.leaves"}),
    "leaves as a text": (in_place("state", "leaves", value="3"), {"state.leaves"}),
    "leaves as null": (in_place("state", "leaves", value=None), {"state.leaves"}),
    "leaves as a boolean": (in_place("state", "leaves", value=True), {"state.leaves"}),
    "target as a text": (in_place("state", "target", value="1 2 3"), {"state.target"}),
    "target as null": (in_place("state", "target", value=None), {"state.target"}),
    "phase as a number": (in_place("state", "phase", value=0), {"state.phase"}),
    "endReason as a text": (in_place("state", "endReason", value=""), {"state.endReason"}),
    "turn as a text": (in_place("state", "turn", value="0"), {"state.turn"}),
    "gameOver as a text": (in_place("gameOver", value="false"), {"gameOver"}),
    "gameOver as a number": (in_place("gameOver", value=0), {"gameOver"}),
    "actions as words": (in_place("legalActions", value=["flip", "bank"]), {"legalActions"}),
    "actions as a text": (in_place("legalActions", value="flip, bank"), {"legalActions"}),
    "observation as a text": (beside(last={"observation": "three pennants"}), {"observation"}),
    "version as a text": (beside(last={"version": "2.7"}), {"version"}),
    "many at once": (
        in_other_encodings,
        {"state.leaves", "state.target", "state.endReason", "gameOver", "legalActions"},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("change", "places"), PASSED_OVER.values(), ids=PASSED_OVER)
def test_a_field_in_another_encoding_is_passed_over_and_noted_in_the_journal(
    change: Change, places: set[str], tmp_path: Path, clock: FakeClock
) -> None:
    outcome = play(Disguised(change), tmp_path, clock)
    assert (outcome.exit_code, outcome.run.requests) == (0, 71)
    (started,) = journal_lines(outcome.path, "run.started")
    wire = started["wire"]
    assert isinstance(wire, dict)
    assert set(wire["passed_over"]) == places


def test_a_first_answer_without_a_token_is_not_understood_and_says_what_came(
    tmp_path: Path, clock: FakeClock
) -> None:
    service = Disguised(missing("stateToken"))
    with pytest.raises(
        Contradiction, match=r"no token; the setting wire\.token .*score number"
    ) as caught:
        play(service, tmp_path, clock)
    assert (caught.value.exit_code, len(service.requests)) == (76, 3)
    assert clock.waits == [1.0, 2.0]
    assert list(tmp_path.glob("*.jsonl*")) == []


@pytest.mark.parametrize("value", [None, "", 7, ["x"]], ids=repr)
def test_no_token_in_a_later_answer_is_trouble_that_passes(
    value: object, tmp_path: Path, clock: FakeClock
) -> None:
    service, watcher = Liar(in_place("stateToken", value=value), STEP, times=3), Watcher()
    outcome = play(service, tmp_path, clock, watcher=watcher)
    assert (outcome.exit_code, len(service.requests)) == (0, 74)
    assert [note.failure.cause.partition(";")[0] for note in watcher.notes] == [
        "the answer has no token"
    ] * 3
    assert len(set(service.requests[STEP - 1 : STEP + 3])) == 1


@pytest.mark.parametrize(
    "change",
    [
        *(missing("state", name) for name in ("garland", "phase", "leaves", "endReason", "turn")),
        missing("legalActions"),
        missing("gameOver"),
        missing("score"),
    ],
)
def test_what_a_later_answer_does_not_send_is_not_compared_and_told_once(
    change: Change, tmp_path: Path, clock: FakeClock
) -> None:
    service, watcher = Liar(change, STEP, times=20), Watcher()
    outcome = play(service, tmp_path, clock, watcher=watcher)
    assert_flawless(outcome, len(service.requests), watcher)
    assert len([text for text in watcher.notices if "does not send" in text]) <= 1


def test_a_last_answer_without_a_token_keeps_the_one_before_it(
    tmp_path: Path, clock: FakeClock
) -> None:
    service = Liar(missing("stateToken"), first=71)
    outcome = play(service, tmp_path, clock)
    assert (outcome.exit_code, len(service.requests)) == (0, 71)
    *_, before, last = journal_lines(outcome.path, "action")
    assert (last["phase"], last["token"]) == ("ended", before["token"])


# Where the settings say that it is


def test_a_named_path_is_where_the_garland_is_read(tmp_path: Path, clock: FakeClock) -> None:
    change = both(named("sunRow"), in_state(first={"garland": START}))
    call = Call(wire=WireSettings({"garland": ("state", "sunRow")}))
    outcome = play(Disguised(change), tmp_path, clock, call)
    assert (outcome.exit_code, outcome.run.requests) == (0, 71)
    (started,) = journal_lines(outcome.path, "run.started")
    wire = started["wire"]
    assert isinstance(wire, dict)
    assert wire["garland"] == "state.sunRow"


def test_a_named_path_into_a_list_is_followed(tmp_path: Path, clock: FakeClock) -> None:
    def change(answer: Json) -> Json:
        return {**without_state(answer), "rows": [{"hung": answer["state"]["garland"]}]}

    call = Call(wire=WireSettings({"garland": ("rows", "0", "hung")}))
    outcome = play(Disguised(change), tmp_path, clock, call)
    assert (outcome.exit_code, outcome.run.requests) == (0, 71)


@pytest.mark.parametrize(
    "path", [("state", "row"), ("state",), ("rows", "7"), ("score", "x")], ids=".".join
)
def test_a_named_path_without_the_garland_is_refused_by_its_name(
    path: tuple[str, ...], tmp_path: Path, clock: FakeClock
) -> None:
    with pytest.raises(Contradiction, match=rf"at {'.'.join(path)}, .* wire\.garland points"):
        play(Service(KEY), tmp_path, clock, Call(wire=WireSettings({"garland": path})))


def test_a_named_field_is_compared_there_and_nowhere_else(tmp_path: Path, clock: FakeClock) -> None:
    disguise = both(renamed(leaves="hearts"), beside(last={"leaves": 99}))
    call = Call(wire=WireSettings({"leaves": ("state", "hearts")}))
    outcome = play(Disguised(disguise), tmp_path, clock, call)
    assert (outcome.exit_code, outcome.run.requests) == (0, 71)
    liar = Liar(in_place("state", "hearts", value=1), STEP, disguise=disguise)
    outcome = play(liar, tmp_path, clock, Call(wire=call.wire, mode=Mode.FRESH))
    assert isinstance(outcome.error, Diverged)
    assert outcome.error.fields == {"hearts": {"predicted": 3, "observed": 1}}


def test_a_named_field_that_is_not_there_is_refused_by_its_name(
    tmp_path: Path, clock: FakeClock
) -> None:
    call = Call(wire=WireSettings({"turn": ("state", "clock")}))
    with pytest.raises(Contradiction, match=r"nothing at state\.clock, .* wire\.turn points"):
        play(Service(KEY), tmp_path, clock, call)


def test_a_named_token_is_the_one_that_is_sent_back(tmp_path: Path, clock: FakeClock) -> None:
    change: Change = lambda answer: {  # noqa: E731 - one expression
        **answer,
        "stateToken": "worthless",
        "next": {"ticket": answer["stateToken"]},
    }
    call = Call(wire=WireSettings({"token": ("next", "ticket")}))
    outcome = play(Disguised(change), tmp_path, clock, call)
    assert (outcome.exit_code, outcome.run.requests) == (0, 71)


@pytest.mark.parametrize("label", ["startingRow", "state.startingRow"])
def test_a_copy_can_be_ignored_by_name_or_path(
    label: str, tmp_path: Path, clock: FakeClock
) -> None:
    call = Call(wire=WireSettings(ignore=frozenset({label})))
    outcome = play(Disguised(in_state(last={"startingRow": START})), tmp_path, clock, call)
    (started,) = journal_lines(outcome.path, "run.started")
    wire = started["wire"]
    assert isinstance(wire, dict)
    assert wire["garland"] == "state.garland"
