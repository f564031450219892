"""The verb `check`: one look at the service, and what it shows of it; and drift of the game."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from calls import Call, Said
from standins import (
    KEY,
    Plan,
    Reply,
    Request,
    StandIn,
    always,
    drip,
    hang,
    in_order,
    journal_lines,
    message,
    raw,
    reply,
)

from bot.service import Answer, Service

INIT: Final = "/api/games/sunpleat/init"


class Changed(Service):
    """The local service, with its answers changed on their way out."""

    def __init__(self, change: Callable[[dict[str, Any]], object]) -> None:
        super().__init__(KEY)
        self._change = change

    def answer(self, method: str, target: str, body: bytes) -> Answer:
        status, data = super().answer(method, target, body)
        answer = json.loads(data)
        self._change(answer)
        return Answer(status, json.dumps(answer).encode())


def describing(spec: object) -> Service:
    """Return a service that describes the game so; None: not at all."""

    def change(answer: dict[str, Any]) -> None:
        if "spec" in answer:
            del answer["spec"]
            if spec is not None:
                answer["spec"] = spec

    return Changed(change)


def answer_part(said: Said) -> list[str]:
    """Return the lines of what was found in the answer."""
    return said.out.split("\n\n")[1].splitlines()


def files(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder with what it holds."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# What is found


FOUND: Final = """\
  token                   stateToken                carried forward
  garland                 state.garland             compared
  legalActions            legalActions              compared
  score                   score, state.score        compared
  gameOver                gameOver                  compared
  version                 state.version             compared
  phase                   state.phase               compared
  boardNumber             state.boardNumber         compared
  templateIndex           state.templateIndex       compared
  n                       state.n                   compared
  par                     state.par                 compared
  target                  state.target              compared
  movesUsed               state.movesUsed           compared
  moveBudget              state.moveBudget          compared
  remainingMoves          state.remainingMoves      compared
  leaves                  state.leaves              compared
  clearedBoards           state.clearedBoards       compared
  lastAward               state.lastAward           compared
  endReason               state.endReason           compared
  turn                    state.turn                compared
""".splitlines()
NO_RUN_YET: Final = "No run on this service yet to compare its description of the game with.\n"


@pytest.mark.parametrize("flags", [(), ("--local",)], ids=["remote", "local"])
def test_check_shows_what_is_found_where_and_what_is_compared(
    flags: tuple[str, ...], call: Call
) -> None:
    with StandIn() as service:
        url = service.url
        said = call("check", *(flags or (f"--base-url={url}",)))
    assert (said.code, said.err) == (0, "")
    title, *found = answer_part(said)
    assert title == f"Answer of {'local' if flags else url} to init"
    assert found == FOUND
    assert said.out.endswith(f"\n\n{NO_RUN_YET}")


def test_check_asks_for_init_and_for_one_flip_and_for_nothing_else(call: Call) -> None:
    with StandIn() as service:
        assert call("check", f"--base-url={service.url}", "--seed=12").code == 0
    assert [(request.method, request.target) for request in service.requests] == [
        ("GET", f"{INIT}?seed=12"),
        ("POST", INIT.replace("init", "action")),
    ]
    assert service.actions == [None, {"type": "flip", "count": 2}]


def test_check_follows_and_shows_a_redirect(call: Call) -> None:
    with StandIn() as service:
        moved = f"http://localhost:{service.port}{INIT}?seed=7"
        service.plan = in_order(reply(308, b"", ("Location", moved)))
        said = call("check", f"--base-url={service.url}")
    assert (said.code, said.err) == (0, "")
    assert answer_part(said)[1:] == [f"  HTTP 308: moved to {moved}", *FOUND]
    assert len(service.requests) == 3


def test_check_shows_what_is_passed_over_and_why(call: Call) -> None:
    def change(answer: dict[str, Any]) -> None:
        answer["state"]["leaves"] = ["leaf"] * 3
        answer["state"]["target"] = "1 2 3"
        answer["legalActions"] = ["flip", "restart", "bank"]

    with StandIn(service=Changed(change)) as service:
        said = call("check", f"--base-url={service.url}")
    assert (said.code, said.err) == (0, "")
    passed_over = ("legalActions ", "target ", "leaves ")
    assert answer_part(said)[1:] == [
        *(line for line in FOUND if not line.strip().startswith(passed_over)),
        ("  -                       legalActions              passed over: not whole actions"),
        (
            "  -                       state.target              "
            "passed over: a text where a list of integers was expected"
        ),
        (
            "  -                       state.leaves              "
            "passed over: a list where an integer was expected"
        ),
    ]


def test_check_shows_what_the_configuration_says_of_the_service(call: Call) -> None:
    Path("a.toml").write_text(
        "[wire]\ngarland = 'state.row'\nscore = 'a.b\\.c'\nignore = ['version', 'state.n']"
    )

    def change(answer: dict[str, Any]) -> None:
        answer["state"]["row"] = answer["state"].pop("garland")
        answer["a"] = {"b.c": answer["score"]}

    with StandIn(service=Changed(change)) as service:
        said = call("check", f"--base-url={service.url}", "--config=a.toml")
    assert (said.code, said.err) == (0, "")
    assert said.out.partition("\n\n")[0].splitlines()[-3:] == [
        "  wire.garland            state.row                 configuration file",
        "  wire.score              a.b\\.c                    configuration file",
        "  wire.ignore             state.n, version          configuration file",
    ]
    found = [line.split()[:2] for line in answer_part(said)]
    assert ["garland", "state.row"] in found
    assert ["score", "a.b\\.c"] in found
    assert not {"version", "n"} & {name for name, _ in found}


def test_a_value_that_is_too_long_for_its_column_stays_apart_from_its_source(call: Call) -> None:
    folder = "a" * 60
    said = call("check", "--local", f"--runs-dir={folder}")
    assert f"  runs_dir                {folder} command line" in said.out.splitlines()


# What is left behind


def test_check_writes_nothing(call: Call) -> None:
    with StandIn() as service:
        flags = (f"--base-url={service.url}", "--quiet")
        assert call("check", *flags, "--metrics-file=a.prom").code == 0
        assert list(Path().iterdir()) == []
        assert call(*flags, "--bank-at=0").code == 0
        before = files(Path())
        assert call("check", *flags).code == 0
        assert without_pace(files(Path())) == without_pace(before)


def without_pace(found: dict[str, bytes]) -> dict[str, bytes]:
    """Leave out what bots share of their pace: `check` sends requests, too."""
    return {name: content for name, content in found.items() if ".pace-" not in name}


def test_check_pings_nobody(call: Call) -> None:
    with StandIn() as service, StandIn() as pinged:
        assert call("check", f"--base-url={service.url}", f"--notify-url={pinged.url}/x").code == 0
    assert pinged.requests == []


def test_check_leaves_an_unfinished_run_as_it_is(call: Call) -> None:
    with StandIn() as service:
        flags = (f"--base-url={service.url}", "--quiet", "--max-rps=0")
        assert call(*flags, "--max-requests=4").code == 75
        before = files(Path())
        assert call("check", *flags).code == 0
        assert files(Path()) == before
        assert call(*flags, "--bank-at=215").code == 0


# Failures


def lying(**fields: object) -> Service:
    return Changed(lambda answer: answer.update(fields))


def moved_to(location: str) -> Plan:
    return always(reply(301, b"", ("Location", location)))


ONCE: Final = "init at {host} was sent once, and not again: "
FAILURES: Final[dict[str, tuple[Plan | Service, int, str, str]]] = {
    "overloaded": (
        always(reply(503, {"busy": True}, ("Retry-After", "30"))),
        69,
        f"{ONCE}HTTP 503 Service Unavailable (application/json)",
        '{\n  "busy": true\n}',
    ),
    "no such game": (
        always(reply(404, b"nope", ("Content-Type", "text/plain"))),
        69,
        (
            f"{ONCE}HTTP 404 Not Found (text/plain): "
            "there is no such game at this address; look at --base-url"
        ),
        "nope",
    ),
    "a page": (
        always(reply(200, b"<html>hello", ("Content-Type", "text/html"))),
        69,
        f"{ONCE}the answer is no JSON (Expecting value: line 1 column 1 (char 0)) (text/html)",
        "<html>hello",
    ),
    "a page for browsers": (
        always(reply(403, b"<html>\x1b[2Jare you human?", ("Content-Type", "text/html"))),
        69,
        (
            "the service asks for a browser: HTTP 403 Forbidden (text/html); "
            "init at {host} was sent once"
        ),
        "<html>\\x1b[2Jare you human?",
    ),
    "refused": (
        always(reply(200, {"ok": False, "reason": "closed"})),
        69,
        f"{ONCE}closed",
        '{\n  "ok": false,\n  "reason": "closed"\n}',
    ),
    "no token": (
        always(reply(200, {})),
        76,
        "the answer to init at {host} cannot be understood: ",
        "{}",
    ),
    "reset": (
        always(raw(b"", is_reset=True)),
        69,
        f"{ONCE}ConnectionResetError: [Errno 104] Connection reset by peer",
        "",
    ),
    "cut": (
        always(raw(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{")),
        69,
        f"{ONCE}IncompleteRead: IncompleteRead(1 bytes read, 8 more expected)",
        "",
    ),
    "silent": (
        always(hang()),
        69,
        f"{ONCE}TimeoutError: ",
        "",
    ),
    "dripping": (
        always(drip(message(200, b"{}"))),
        69,
        f"{ONCE}TimeoutError: no whole answer in time",
        "",
    ),
    "no garland": (
        always(reply(200, {"stateToken": "x", "row": [3]})),
        76,
        (
            "the answer to init at {host} cannot be understood: the answer has neither the garland "
            "nor the score to check it by; the settings wire.garland and wire.score name their "
            "paths (it has stateToken text, row list)."
        ),
        '{\n  "stateToken": "x",\n  "row": [\n    3\n  ]\n}',
    ),
    "another score": (
        lying(score=5),
        76,
        (
            "the answer to init has score 5 where a fresh run has 0; "
            "the setting wire.ignore lists fields to pass over"
        ),
        '  "score": 5,',
    ),
    "moved elsewhere": (
        moved_to("http://other.test/"),
        78,
        (
            "the service at {host} redirects to another host, other.test; nothing was sent there. "
            "If it is right, set it with --base-url; a new run begins there"
        ),
        "",
    ),
}
"""How the service answers, the exit code, the line on stderr, and what is shown of the answer."""


@pytest.mark.slow
@pytest.mark.parametrize(("service", "code", "line", "excerpt"), FAILURES.values(), ids=FAILURES)
def test_check_says_in_one_line_what_is_wrong_with_the_service_and_shows_its_answer(
    service: Plan | Service, code: int, line: str, excerpt: str, call: Call
) -> None:
    stand_in = StandIn(service=service) if isinstance(service, Service) else StandIn(service)
    with stand_in:
        line = line.format(host=stand_in.url.removeprefix("http://"))
        said = call("check", f"--base-url={stand_in.url}", "--timeout=0.2")
    assert said.code == code
    assert said.err.startswith(f"sunpleat-bot: {line}")
    assert said.err.count("\n") == 1
    assert excerpt in said.out.partition(" to init\n")[2]
    assert len(stand_in.requests) == 1


def test_check_says_in_one_line_that_nobody_is_there(call: Call) -> None:
    with StandIn() as service:
        url = service.url
    said = call("check", f"--base-url={url}")
    once = ONCE.format(host=f"127.0.0.1:{service.port}")
    assert (said.code, said.err) == (
        69,
        f"sunpleat-bot: {once}ConnectionRefusedError: [Errno 111] Connection refused\n",
    )


@pytest.mark.slow
def test_check_gives_up_on_a_redirect_in_a_circle(call: Call) -> None:
    with StandIn(moved_to(INIT)) as service:
        said = call("check", f"--base-url={service.url}")
    assert (said.code, said.err.count("\n"), len(service.requests)) == (69, 1, 6)


def test_a_long_answer_is_shown_in_part(call: Call) -> None:
    with StandIn(always(reply(500, b"x" * 100_000))) as service:
        said = call("check", f"--base-url={service.url}")
    assert said.out.endswith(f" to init\n{'x' * 4000}...\n")


@pytest.mark.slow
def test_check_shows_the_settings_before_it_refuses_a_number_that_no_play_lands_on(
    call: Call,
) -> None:
    with StandIn() as service:
        said = call("check", f"--base-url={service.url}", "--bank-rule=exactly", "--bank-at=1001")
    assert (said.code, said.err) == (
        78,
        "sunpleat-bot: no play ends on exactly 1001 points; the nearest are 995 and 1005\n",
    )
    assert said.out.startswith("Settings\n  seed ")
    assert service.requests == []


# Drift


class Described:
    """A stand-in that describes the game in a way that can change, and what is asked of it."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.service = StandIn(service=Service(KEY))
        self.spec: object = {"goal": "sort", "points": 265}
        self.service.plan = self._plan

    def _plan(self, request: Request, _: int) -> Reply | None:
        if request.body:
            return None
        answer = describing(self.spec).answer(request.method, request.target, b"")
        return reply(answer.status, answer.body.replace(b"Infinity", b"1e999"))

    def play(self, *flags: str) -> Said:
        return self.call(f"--base-url={self.service.url}", "--max-rps=0", *flags)

    def check(self) -> Said:
        return self.call("check", f"--base-url={self.service.url}")


@pytest.fixture
def described(call: Call) -> Any:
    stand_in = Described(call)
    with stand_in.service:
        yield stand_in


def warnings_of(said: Said) -> list[str]:
    return [line for line in said.err.splitlines() if "level=info" not in line]


def last_run() -> dict[str, object]:
    """Return the first line of the run that began last."""
    starts = [next(journal_lines(path)) for path in Path("runs").glob("*.jsonl")]
    return max(starts, key=lambda line: str(line["ts"]))


SPECS: Final[dict[str, tuple[object, object]]] = {
    "a number": ({"goal": "sort", "points": 265}, {"goal": "sort", "points": 266}),
    "a key": ({"goal": "sort"}, {"goal": "sort", "new": []}),
    "a text": ("as ever", "as never"),
    "its end": ({"goal": "sort"}, None),
    "its beginning": (None, {"goal": "sort"}),
}


@pytest.mark.parametrize(("before", "now"), SPECS.values(), ids=SPECS)
def test_a_new_description_of_the_game_is_one_warning_of_the_run_that_first_meets_it(
    before: object, now: object, described: Described
) -> None:
    described.spec = before
    assert warnings_of(described.play("--bank-at=0")) == []
    run_id = last_run()["run_id"]
    described.spec = now
    (warning,) = warnings_of(described.play("--bank-at=0", "--seed=8"))
    assert "level=warning" in warning
    assert (
        f'event="the service does not describe the game as in the run {run_id}; '
        'the verb check shows the difference"'
    ) in warning
    assert warnings_of(described.play("--bank-at=0", "--seed=9")) == []


def test_a_run_that_goes_on_says_nothing_of_a_new_description(described: Described) -> None:
    assert described.play("--max-requests=3").code == 75
    described.spec = "other"
    said = described.play("--bank-at=215")
    assert (said.code, warnings_of(said)) == (0, [])


def test_a_quiet_run_says_nothing_of_a_new_description(described: Described) -> None:
    assert described.play("--bank-at=0", "--quiet") == (0, "", "")
    described.spec = "other"
    assert described.play("--bank-at=0", "--quiet") == (0, "", "")


def test_another_service_has_a_description_of_its_own(described: Described) -> None:
    assert described.play("--bank-at=0").code == 0
    assert warnings_of(described.call("--local", "--bank-at=0")) == []


def test_check_shows_the_difference_to_the_description_in_the_last_run(
    described: Described,
) -> None:
    assert described.play("--bank-at=0").code == 0
    run_id = last_run()["run_id"]
    said = described.check()
    assert said.out.endswith(f"\n\nThe game is described as in the run {run_id}.\n")
    described.spec = {"goal": "sort", "points": 266}
    said = described.check()
    assert (said.code, said.err) == (0, "")
    assert said.out.partition("\n\nThe game")[2].splitlines() == [
        f" is not described as in the run {run_id}:",
        f"--- {run_id}",
        "+++ now",
        "@@ -2,3 +2,3 @@",
        '   "goal": "sort",',
        '-  "points": 265',
        '+  "points": 266',
        " }",
    ]


def test_a_number_that_no_journal_can_hold_is_no_difference(described: Described) -> None:
    described.spec = {"points": float("inf")}
    assert warnings_of(described.play("--bank-at=0")) == []
    assert "The game is described as in the run" in described.check().out
    assert warnings_of(described.play("--bank-at=0")) == []
