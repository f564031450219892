"""What a run tells the world: pings, figures for Prometheus, and the lines of a log."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, Self

import pytest
import requests
from calls import Call
from fake_clock import FakeClock
from harness import ROOT, environment, flags, only_journal, run_bot
from prometheus_client.parser import text_string_to_metric_families
from standins import (
    Plan,
    Reply,
    Request,
    StandIn,
    always,
    drip,
    hang,
    journal_lines,
    message,
    raw,
    reply,
)
from stopwatch import Stopwatch

from bot.cli import monitoring
from bot.cli.monitoring import METRICS_EVERY_S, Notifier
from bot.console import streams
from bot.journal.lock import lock

INIT: Final = "/api/games/sunpleat/init?seed=7"
OK: Final = reply(200, b"OK", ("Content-Type", "text/plain"))
BUSY: Final = reply(503, b"")


@pytest.fixture(autouse=True)
def _on_a_clock_that_nobody_waits_for(
    fake_clock_of_calls: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("bot.console.displays", "bot.cli.monitoring"):
        clock = SimpleNamespace(monotonic=fake_clock_of_calls.monotonic)
        monkeypatch.setattr(f"{module}.time", clock)


# Pings


@pytest.fixture(autouse=True)
def _no_ping_is_left_behind() -> Iterator[None]:
    """Wait for pings that were left to themselves: their server is closed by now."""
    yield
    for thread in threading.enumerate():
        if thread.name == "ping":
            thread.join()


@pytest.fixture
def pinged() -> Iterator[StandIn]:
    with StandIn(always(OK)) as server:
        yield server


def targets(server: StandIn) -> list[str]:
    return [request.target for request in server.requests]


ENDINGS: Final = {
    0: "",
    75: "",
    1: "/1",
    2: "/2",
    69: "/69",
    70: "/70",
    74: "/74",
    76: "/76",
    77: "/77",
    78: "/78",
    130: "/130",
    143: "/143",
}


@pytest.mark.slow
@pytest.mark.parametrize(("code", "suffix"), ENDINGS.items(), ids=map(str, ENDINGS))
def test_a_call_is_pinged_at_its_start_and_with_how_it_ended(
    code: int, suffix: str, pinged: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    notifier = Notifier(f"{pinged.url}/a-b-c", streams.say)
    notifier.start()
    notifier.end(code)
    assert targets(pinged) == ["/a-b-c/start", f"/a-b-c{suffix}"]
    assert {(request.method, request.body) for request in pinged.requests} == {("GET", b"")}
    assert all("sunpleat-bot" in request.headers["user-agent"] for request in pinged.requests)
    assert capsys.readouterr() == ("", "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("", ["/start", "/", "/1"]),
        ("/", ["/start", "/", "/1"]),
        ("/a/", ["/a/start", "/a/", "/a/1"]),
        ("/a?create=1", ["/a/start?create=1", "/a?create=1", "/a/1?create=1"]),
        ("/a/?b=/c", ["/a/start?b=/c", "/a/?b=/c", "/a/1?b=/c"]),
    ],
    ids=["no path", "root", "slash at the end", "query", "slash and query"],
)
def test_what_is_pinged_stands_at_the_end_of_the_path_and_before_a_query(
    path: str, expected: list[str], pinged: StandIn
) -> None:
    notifier = Notifier(pinged.url + path, streams.say)
    notifier.start()
    notifier.end(0)
    notifier.end(1)
    assert targets(pinged) == expected


def test_without_an_address_nobody_is_pinged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitoring, "_get", lambda *_: pytest.fail("pinged"))
    Notifier("", streams.say).start()
    Notifier("", streams.say).end(1)


class Service:
    """A game and a ping address on one server, so that the order of all requests shows."""

    def __init__(self, plan: Plan) -> None:
        self.server = StandIn(self._plan)
        self._game = plan
        self._games = 0

    def _plan(self, request: Request, _: int) -> Reply | None:
        if request.target.startswith("/ping"):
            return OK
        self._games += 1
        return self._game(request, self._games)

    def flags(self, **settings: object) -> list[str]:
        url = self.server.url
        settings = {"max_rps": 0, "bank_at": 215, **settings}
        return list(flags(base_url=url, notify_url=f"{url}/ping", **settings))


def stop_by(number: signal.Signals) -> Plan:
    """Send this process a signal before the answer to its third request."""

    def plan(_: Request, count: int) -> Reply | None:
        if count == 3:
            os.kill(os.getpid(), number)
        return None

    return plan


def always_after(first: int, answer: Reply) -> Plan:
    return lambda _, number: answer if number > first else None


CALLS: Final[dict[str, tuple[int, Plan, dict[str, object]]]] = {
    "banked": (0, always_after(99, OK), {}),
    "budget used up": (75, always_after(99, OK), {"max_requests": 2}),
    "out of reach": (69, always_after(0, BUSY), {}),
    "out of reach later": (69, always_after(2, BUSY), {}),
    "not the game": (76, always_after(0, reply(200, {"stateToken": "x"})), {}),
    "token refused": (77, always_after(1, reply(401, {"reason": "invalid stateToken"})), {}),
    "redirected": (78, always_after(0, reply(307, b"", ("Location", "http://o.test"))), {}),
    "SIGINT": (130, stop_by(signal.SIGINT), {"bank_at": 3030}),
    "SIGTERM": (143, stop_by(signal.SIGTERM), {"bank_at": 3030}),
}


@pytest.mark.parametrize(("code", "plan", "settings"), CALLS.values(), ids=CALLS)
def test_every_call_is_pinged_before_its_first_and_after_its_last_request(
    code: int, plan: Plan, settings: dict[str, object], call: Call
) -> None:
    service = Service(plan)
    with service.server:
        said = call(*service.flags(**settings))
    first, *game, last = targets(service.server)
    assert said.code == code
    assert (first, last) == ("/ping/start", f"/ping{ENDINGS[code]}")
    assert not [target for target in game if target.startswith("/ping")]
    assert game[0] == INIT
    assert "notify" not in said.err


def test_a_run_that_ends_short_of_its_threshold_is_pinged_as_a_failure(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.player.Outcome.exit_code", 1)
    service = Service(always_after(99, OK))
    with service.server:
        said = call(*service.flags(bank_at=215))
    assert said.code == 1
    assert "the run ended banked with 215 points, not as asked: at-least 215" in said.err
    assert targets(service.server)[-1] == "/ping/1"


def test_a_fault_of_the_bot_is_pinged_as_one(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a fault of the tests")

    monkeypatch.setattr("bot.player.play", fail)
    service = Service(always_after(99, OK))
    with service.server:
        assert call(*service.flags()).code == 70
    assert targets(service.server) == ["/ping/70"]


def test_a_call_without_a_place_to_write_is_pinged_as_a_failure_alone(call: Call) -> None:
    service = Service(always_after(99, OK))
    with service.server:
        assert call(*service.flags(runs_dir="/proc/none")).code == 74
    assert targets(service.server) == ["/ping/74"]


def test_a_threshold_that_no_play_reaches_is_pinged_as_a_failure_alone(call: Call) -> None:
    service = Service(always_after(99, OK))
    with service.server:
        assert call(*service.flags(bank_at=1_001, bank_rule="exactly")).code == 78
    assert targets(service.server) == ["/ping/78"]


@pytest.mark.slow
def test_a_call_that_finds_another_bot_at_its_run_pings_nothing(call: Call, tmp_path: Path) -> None:
    service = Service(always_after(99, OK))
    with service.server, lock(tmp_path, service.server.url, 7):
        assert call(*service.flags(runs_dir=tmp_path)).code == 75
    assert targets(service.server) == []


TOO_LATE: Final = "no answer within 0.1 s"
BAD_PINGS: Final[dict[str, tuple[Reply, str]]] = {
    "silent": (hang(), TOO_LATE),
    "half a head": (hang(b"HTTP/1.1 200 OK\r\n"), TOO_LATE),
    "dripping": (drip(message(200, b"OK"), every_s=0.01), TOO_LATE),
    "reset": (raw(b"", is_reset=True), "ConnectionResetError: [Errno 104] "),
    "no HTTP": (raw(b"\x15\x03\x01\0\2\2"), "BadStatusLine: "),
    "an error": (reply(500), "HTTP 500"),
    "unknown": (reply(404), "HTTP 404"),
    "in a circle": (reply(302, b"", ("Location", "/")), "TooManyRedirects: "),
    "moved nowhere": (reply(302, b"", ("Location", "http://[")), "ValueError: Invalid IPv6 URL"),
    "moved to no HTTP": (reply(302, b"", ("Location", "file:///etc/passwd")), "InvalidSchema: "),
    "says the secret": (reply(302, b"", ("Location", "file:///key/w")), "it cannot be reached"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "problem"), BAD_PINGS.values(), ids=BAD_PINGS)
def test_a_ping_that_fails_is_said_once_each_and_changes_nothing(
    answer: Reply, problem: str, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitoring, "PING_S", 0.1 if problem == TOO_LATE else 5)
    with StandIn() as service, StandIn(always(answer)) as pinged:
        url = f"{pinged.url}/key"
        call_flags = flags(base_url=service.url, max_rps=0, bank_at=3030, notify_url=url)
        with Stopwatch() as stopwatch:
            said = call(*call_flags, "--json", "--quiet")
        assert stopwatch.seconds < 30
    assert (said.code, json.loads(said.out)["score"]) == (0, 3030)
    assert len(service.requests) == 71
    for line in said.err.splitlines():
        assert line.startswith(f"sunpleat-bot: could not notify: {problem}")
        assert "key" not in line
        assert str(pinged.port) not in line
    assert said.err.count("\n") == 2


@pytest.mark.parametrize("error", [requests.ConnectTimeout, requests.ReadTimeout])
def test_a_ping_whose_time_is_up_before_anybody_looks_is_as_late(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def give_up(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(requests.Session, "get", give_up)
    told = list[str]()
    Notifier("http://127.0.0.1/key", told.append).start()
    assert told == ["could not notify: no answer within 5 s"]


def test_a_ping_that_nobody_answers_is_said_and_changes_nothing(call: Call) -> None:
    with StandIn() as gone:
        url = gone.url
    secret = url.replace("//", "//me:secret@") + "/secret"
    said = call("--local", "--bank-at=215", "--quiet", f"--notify-url={secret}")
    refused = "ConnectionRefusedError: [Errno 111] Connection refused"
    assert said == (0, "", f"sunpleat-bot: could not notify: {refused}\n" * 2)
    shown = call("check", "--local", f"--notify-url={secret}").out
    assert re.search(r"notify_url +set, not shown +command line\n", shown)
    assert "secret" not in shown


def test_a_ping_to_no_host_at_all_is_said_and_changes_nothing(call: Call) -> None:
    said = call("--local", "--bank-at=215", "--quiet", "--notify-url=http://no.invalid/x")
    assert said.code == 0
    assert said.err.count("could not notify: ") == 2
    assert said.err.count("\n") == 2


def test_no_more_than_the_head_of_an_answer_to_a_ping_is_waited_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 9999999999\r\n\r\nOK"
    with StandIn(always(hang(head))) as pinged:
        Notifier(pinged.url, streams.say).start()
    assert capsys.readouterr() == ("", "")


def test_a_ping_trusts_the_certificates_that_the_machine_trusts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    certificate = Path(__file__).parent / "client" / "service.pem"
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    with StandIn(always(OK), tls=tls) as pinged:
        notifier = Notifier(f"{pinged.url}/key", streams.say)
        notifier.end(0)
        assert "certificate verify failed" in capsys.readouterr().err
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
        notifier.end(0)
        assert capsys.readouterr() == ("", "")
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", __file__)
        notifier.end(0)
        assert "could not notify" in capsys.readouterr().err
    assert targets(pinged) == ["/key"]


def test_a_ping_is_followed_to_where_its_address_has_moved(
    pinged: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    moved = reply(301, b"", ("Location", f"{pinged.url}/new/start"))
    with StandIn(always(moved)) as old:
        Notifier(f"{old.url}/old", streams.say).start()
    assert targets(pinged) == ["/new/start"]
    assert capsys.readouterr() == ("", "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "seconds"), [(0, 0.2), (69, 0.2), (130, 0.1), (143, 0.1)], ids=str
)
def test_a_signal_leaves_a_ping_less_time(
    code: int, seconds: float, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(monitoring, "PING_S", 0.2)
    monkeypatch.setattr(monitoring, "HASTY_PING_S", 0.1)
    with StandIn(always(hang())) as pinged:
        url = pinged.url
        Notifier(url, streams.say).end(code)
    assert capsys.readouterr().err.endswith(f": no answer within {seconds} s\n")


def test_the_seconds_of_a_ping_are_few() -> None:
    assert (monitoring.PING_S, monitoring.HASTY_PING_S) == (5, 1)


@pytest.mark.slow
def test_a_process_that_leaves_a_ping_behind_ends_in_silence(tmp_path: Path) -> None:
    script = tmp_path / "hurry.py"
    script.write_text(
        "from bot.cli import main, monitoring\nmonitoring.PING_S = 0.1\nmain()\n",
        encoding="utf-8",
    )
    with StandIn(always(drip(message(200, b"OK")))) as pinged:
        url = pinged.url
        ended = subprocess.run(
            [sys.executable, "-W", "error", "-X", "dev", script, "--local", "--quiet"],
            cwd=tmp_path,
            env=environment(SUNPLEAT_BANK_AT="215", SUNPLEAT_NOTIFY_URL=url),
            capture_output=True,
            text=True,
            check=False,
        )
    late = "no answer within 0.1 s"
    assert (ended.returncode, ended.stdout) == (0, "")
    assert ended.stderr == f"sunpleat-bot: could not notify: {late}\n" * 2


# Figures for Prometheus


FIGURES: Final = Path("figures.prom")
METRIC: Final = "sunpleat_"


def read_figures() -> dict[str, float]:
    """Return each figure by its name, all of them of one service and seed."""
    text = FIGURES.read_text(encoding="utf-8")
    families = list(text_string_to_metric_families(text))
    assert {family.type for family in families} == {"gauge"}
    assert all(family.documentation for family in families)
    samples = [sample for family in families for sample in family.samples]
    assert len({tuple(sorted(sample.labels.items())) for sample in samples}) == 1
    return {sample.name.removeprefix(METRIC): sample.value for sample in samples}


def read_labels() -> dict[str, str]:
    families = text_string_to_metric_families(FIGURES.read_text(encoding="utf-8"))
    labels: dict[str, str] = next(iter(families)).samples[0].labels
    return labels


def moment(text: object) -> float:
    return datetime.fromisoformat(str(text)).timestamp()


def at_begin(bank_at: int, clock: FakeClock) -> dict[str, float]:
    """Return the figures of a run that has just begun."""
    return {
        "score_points": 0,
        "bank_at_points": bank_at,
        "boards": 0,
        "leaves": 3,
        "requests": 1,
        "retries": 0,
        "run_over": 0,
        "last_success_timestamp_seconds": clock.now().timestamp(),
    }


class Observed:
    """A service that reads the figures before each answer, and lets time pass meanwhile."""

    def __init__(self, clock: FakeClock, seconds: float, *failing: int) -> None:
        self.server = StandIn(self._plan)
        self.seen: dict[int, dict[str, float]] = {}
        """What the file said at each request, from 1, where there was one."""
        self._clock = clock
        self._seconds = seconds
        self._failing = failing

    def _plan(self, _: Request, number: int) -> Reply | None:
        if FIGURES.exists():
            self.seen[number] = read_figures()
        self._clock.advance(self._seconds)
        return BUSY if number in self._failing else None

    def flags(self, **settings: object) -> list[str]:
        settings = {"bank_at": 3030, "max_rps": 0, "metrics_file": FIGURES, **settings}
        return [*flags(base_url=self.server.url, **settings), "--quiet"]


def test_figures_are_written_at_the_begin_from_time_to_time_and_at_the_end(
    call: Call, clock: FakeClock
) -> None:
    service = Observed(clock, METRICS_EVERY_S / 10)
    with service.server:
        url = service.server.url
        began = at_begin(3030, clock)
        assert call(*service.flags()) == (0, "", "")
        assert read_labels() == {"service": url, "seed": "7"}
    actions = list(journal_lines(only_journal(Path("runs")), "action"))
    began["last_success_timestamp_seconds"] += METRICS_EVERY_S / 10
    assert service.seen.keys() == set(range(2, 72))
    for number, figures in service.seen.items():
        last = (number - 2) // 10 * 10
        if last == 0:
            assert figures == began
            continue
        written = actions[last - 1]
        assert figures == {
            **began,
            "score_points": written["score"],
            "boards": sum(action["phase"] == "cleared" for action in actions[:last]),
            "requests": 1 + last,
            "last_success_timestamp_seconds": moment(written["ts"]),
        }
    assert read_figures() == {
        **began,
        "score_points": 3030,
        "boards": 12,
        "requests": 71,
        "run_over": 1,
        "last_success_timestamp_seconds": moment(actions[-1]["ts"]),
    }


def test_figures_of_a_run_that_goes_on_are_those_of_the_whole_run(
    call: Call, clock: FakeClock
) -> None:
    service = Observed(clock, 1, 3, 4)
    with service.server:
        assert call(*service.flags(max_requests=6, seed=8)).code == 75
        actions = list(journal_lines(only_journal(Path("runs")), "action"))
        suspended = read_figures()
        assert suspended == {
            "score_points": actions[-1]["score"],
            "bank_at_points": 3030,
            "boards": 1,
            "leaves": 3,
            "requests": 6,
            "retries": 2,
            "run_over": 0,
            "last_success_timestamp_seconds": moment(actions[-1]["ts"]),
        }
        clock.advance(3600)
        assert call(*service.flags(bank_at=21050, max_requests=1, seed=8)).code == 75
        assert read_labels()["seed"] == "8"
    assert service.seen[7] == {**suspended, "bank_at_points": 21050}


def test_figures_of_a_local_run_are_labelled_so(call: Call) -> None:
    said = call("--local", "--bank-at=0", "--quiet", f"--metrics-file={FIGURES}")
    assert said == (0, "", "")
    assert read_labels() == {"service": "local", "seed": "7"}
    assert read_figures()["run_over"] == 1


def test_figures_of_an_abandoned_run_say_that_it_is_over(call: Call, clock: FakeClock) -> None:
    service = Observed(clock, 1)
    service.server.plan = always_after(3, reply(401, {"reason": "invalid stateToken"}))
    with service.server:
        assert call(*service.flags()).code == 77
        assert read_figures()["run_over"] == 0
        clock.advance(3700)
        assert call(*service.flags()).code == 77
    assert (read_figures()["run_over"], read_figures()["score_points"]) == (1, 215)


@pytest.fixture
def always_writing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the figures after every action."""
    monkeypatch.setattr(monitoring, "METRICS_EVERY_S", 0)


@pytest.mark.usefixtures("always_writing")
def test_the_file_is_whole_whenever_it_is_looked_at(call: Call, clock: FakeClock) -> None:
    service = Observed(clock, 0)
    with service.server:
        assert call(*service.flags()).code == 0
    counts = {number: figures["requests"] for number, figures in service.seen.items()}
    assert counts == {number: number - 1 for number in range(2, 72)}
    assert sorted(path.name for path in Path().iterdir()) == [str(FIGURES), "runs"]


class FullDisk:
    """Stands for `open` where a disk fills up in the middle of a file."""

    def __init__(self, path: object, mode: str) -> None:
        self._file = io.open(str(path), mode)  # noqa: SIM115, UP020 - it is handed on

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, data: bytes) -> int:
        self._file.write(data[:100])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.usefixtures("always_writing")
def test_a_full_disk_leaves_the_figures_before_is_said_once_and_the_game_goes_on(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(FIGURES).write_bytes(b"# of the call before\n")
    open_truly = Path.open

    def open_path(path: Path, mode: str = "r", **options: Any) -> Any:
        return FullDisk(path, mode) if path.suffix == ".part" else open_truly(path, mode, **options)

    monkeypatch.setattr(Path, "open", open_path)
    said = call("--local", "--bank-at=3030", "--quiet", f"--metrics-file={FIGURES}")
    problem = (
        "sunpleat-bot: could not write the metrics file figures.prom: No space left on device\n"
    )
    assert said == (0, "", problem)
    assert FIGURES.read_text() == "# of the call before\n"
    assert sorted(path.name for path in Path().iterdir()) == [str(FIGURES), "runs"]


@pytest.mark.usefixtures("always_writing")
@pytest.mark.parametrize(
    ("place", "problem"),
    [
        ("none/figures.prom", "No such file or directory"),
        ("folder", "a folder, not a plain file"),
        ("/dev/null", "a device, not a plain file"),
        ("fifo", "a FIFO, not a plain file"),
        ("link", "a link, not a plain file"),
        ("file/figures.prom", "Not a directory"),
        ("/proc/figures.prom", "No such file or directory"),
    ],
    ids=["no folder", "a folder", "a device", "a FIFO", "a link", "below a file", "no disk"],
)
def test_figures_that_cannot_be_written_are_said_once_and_the_game_goes_on(
    place: str, problem: str, call: Call
) -> None:
    Path("folder").mkdir()
    Path("file").touch()
    Path("link").symlink_to("file")
    os.mkfifo("fifo")
    said = call("--local", "--bank-at=3030", "--quiet", f"--metrics-file={place}")
    assert said == (0, "", f"sunpleat-bot: could not write the metrics file {place}: {problem}\n")
    there = ["fifo", "file", "folder", "link", "runs"]
    assert sorted(path.name for path in Path().iterdir()) == there
    assert list(Path("folder").iterdir()) == []
    assert Path("fifo").is_fifo()
    assert Path("link").is_symlink()
    assert Path("file").read_bytes() == b""


def test_figures_without_the_library_for_them_are_refused_with_what_to_install(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with StandIn() as service, StandIn(always(OK)) as pinged:
        call_flags = flags(
            base_url=service.url, notify_url=pinged.url, metrics_file=FIGURES, bank_at=0
        )
        assert call(*call_flags) == (
            78,
            "",
            (
                "sunpleat-bot: metrics_file needs prometheus_client; in the project's folder, "
                ".venv/bin/pip install -r .ci/requirements/metrics.txt brings it\n"
            ),
        )
        assert (service.requests, targets(pinged)) == ([], ["/78"])
    assert list(Path().iterdir()) == []
    assert call("--local", "--bank-at=0", "--quiet") == (0, "", "")


@pytest.mark.slow
def test_a_process_that_writes_no_figures_does_not_ask_for_the_library(tmp_path: Path) -> None:
    (tmp_path / "prometheus_client.py").write_text("raise ImportError('not installed')")
    env = environment(PYTHONPATH=f"{tmp_path}:{ROOT}")
    assert run_bot(tmp_path, "--local", "--bank-at=0", "--quiet", env=env).returncode == 0
    refused = run_bot(tmp_path, "--local", "--metrics-file=a.prom", env=env)
    assert (refused.returncode, refused.stderr.count("\n")) == (78, 1)


# Lines of a log


LINE: Final = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*"|[^\s"]*)(?: |$)')


def read_text_line(line: str) -> dict[str, str]:
    """Read a line of key=value; fail where it is not one."""
    pairs = dict(LINE.findall(line))
    assert "".join(f"{key}={value} " for key, value in pairs.items()).rstrip() == line.rstrip()
    return {key: value.strip('"') for key, value in pairs.items()}


READERS: Final[dict[str, Callable[[str], dict[str, Any]]]] = {
    "text": read_text_line,
    "json": json.loads,
}


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/St_Johns"])
@pytest.mark.parametrize("log_format", READERS)
def test_the_times_of_a_log_are_utc_wherever_the_machine_is(
    log_format: str, zone: str, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        said = call("--local", "--bank-at=0", f"--log-format={log_format}")
    finally:
        monkeypatch.delenv("TZ")
        time.tzset()
    now = datetime.now(UTC)
    for line in said.err.splitlines():
        written = READERS[log_format](line)["timestamp"]
        assert written.endswith("Z")
        assert abs((now - datetime.fromisoformat(written)).total_seconds()) < 60


@pytest.mark.parametrize("log_format", READERS)
def test_a_log_has_one_line_a_minute_at_most_while_nothing_is_wrong(
    log_format: str, call: Call, clock: FakeClock
) -> None:
    def plan(_: Request, __: int) -> None:
        clock.advance(7)

    with StandIn(plan) as service:
        call_flags = flags(base_url=service.url, max_rps=0, bank_at=3030, log_format=log_format)
        said = call(*call_flags)
    lines = [READERS[log_format](line) for line in said.err.splitlines()]
    assert [line["event"] for line in lines] == [
        "playing",
        *["progress"] * 7,
        "this call",
        "ended",
    ]
    assert {line["level"] for line in lines} == {"info"}
    scores = [int(line["score"]) for line in lines if "score" in line]
    actions = list(journal_lines(only_journal(Path("runs")), "action"))
    in_time = [actions[7]["score"], *(actions[7 + 9 * minute]["score"] for minute in range(1, 7))]
    assert scores == [0, *in_time, 3030]


@pytest.mark.parametrize("log_format", READERS)
def test_the_last_line_of_a_log_sums_up(log_format: str, call: Call, clock: FakeClock) -> None:
    def plan(_: Request, number: int) -> Reply | None:
        clock.advance(0.5 if number == 20 else 0.25 if number % 2 else 0.125)
        return {3: BUSY, 5: BUSY, 7: reply(429, b"")}.get(number)

    with StandIn(plan) as service:
        call_flags = flags(base_url=service.url, max_rps=0, bank_at=3030, log_format=log_format)
        said = call(*call_flags)
    lines = [READERS[log_format](line) for line in said.err.splitlines()]
    assert [line["event"] for line in lines] == [
        "playing",
        *["request failed"] * 3,
        lines[4]["event"],  # of the pace
        "this call",
        "ended",
    ]
    call_line = {key: str(value) for key, value in lines[-2].items()}
    assert {**call_line, "timestamp": ""} == {
        "timestamp": "",
        "level": "info",
        "event": "this call",
        "actions": "70",
        "failed": "3",
        "causes": "2 trouble, 1 too fast",
        "median_ms": "125.0",
        "p99_ms": "500.0",
    }
    last = {key: str(value) for key, value in lines[-1].items()}
    assert {**last, "timestamp": "", "seconds": ""} == {
        "timestamp": "",
        "level": "info",
        "event": "ended",
        "end_reason": "banked",
        "score": "3030",
        "boards": "12",
        "leaves": "3",
        "seconds": "",
        "requests": "74",
        "retries": "3",
        "refusals": "0",
        "journal": str(only_journal(Path("runs"))),
    }
    assert float(last["seconds"]) > 71 * 0.125


class Terminal(io.StringIO):
    """A terminal that remembers all that is written to it."""

    def isatty(self) -> bool:
        return True


def test_on_a_terminal_the_summary_has_all_its_parts(
    call: Call, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def plan(_: Request, number: int) -> Reply | None:
        clock.advance(0.25 if number % 2 else 0.125)
        return {3: BUSY, 5: BUSY, 7: reply(429, b"")}.get(number)

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "dumb")
    with StandIn(plan) as service:
        assert call(*flags(base_url=service.url, max_rps=0, bank_at=3030)).code == 0
    path = only_journal(Path("runs"))
    total = list(journal_lines(path))[-1]["seconds"]
    this_call = clock.monotonic() - 1000
    assert terminal.getvalue().splitlines()[-7:] == [
        "banked",
        "  points    3,030 of 3,030",
        "  boards    12, 3 leaves left",
        f"  run       {total:.1f} s, 74 requests, 3 retries",
        f"  this call {this_call:.1f} s, 70 actions, 3 failed: 2 trouble, 1 too fast",
        "  answers   125.0 ms median, 250.0 ms 99th percentile",
        f"  journal   {path}",
    ]


@pytest.mark.parametrize(
    ("plan", "code", "word"),
    [
        (always_after(99, OK), 75, "suspended: the budget of 9 requests is used up"),
        (always_after(3, reply(401, {"reason": "invalid stateToken"})), 77, "suspended"),
    ],
    ids=["budget", "token"],
)
def test_a_terminal_is_not_told_of_a_bank_that_never_was(
    plan: Plan, code: int, word: str, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with StandIn(plan) as service:
        assert call(*flags(base_url=service.url, max_rps=0, max_requests=9)).code == code
    assert f"{word}\n  points    " in terminal.getvalue()
    assert "banked" not in terminal.getvalue()


def test_a_quiet_call_says_nothing_but_why_it_did_not_end_as_asked(call: Call) -> None:
    with StandIn(always_after(4, BUSY)) as service:
        call_flags = [*flags(base_url=service.url, max_rps=0), "--quiet"]
        assert call(*call_flags, "--max-requests=3") == (75, "", "")
        assert call(*call_flags, "--bank-now") == (0, "", "")
        said = call(*call_flags, "--give-up-after=5")
        in_json = call(*call_flags, "--give-up-after=5", "--log-format=json")
    line = json.loads(in_json.err)
    assert (in_json.code, line["level"]) == (69, "error")
    assert line["event"] in said.err
    assert (said.code, said.out, said.err.count("\n")) == (69, "", 1)
