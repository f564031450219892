"""The command line: what it takes, what it prints, and the exit code that each call earns."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pytest
from harness import (
    actions_of,
    environment,
    flags,
    last_event,
    only_journal,
    run_bot,
    served,
    unbroken_actions,
)
from standins import Reply, Request, StandIn, always, journal_lines, reply

from bot import solver
from bot.cli import process
from bot.cli.signals import STOPS, heeding
from bot.client import client
from bot.client.clock import StopRequest
from bot.garland import flip, target

pytestmark = pytest.mark.usefixtures("alone")

PLAY_KEYS: Final = "run_id journal score boards flips requests retries leaves end_reason seconds"


def run(*arguments: str) -> int:
    """Run a command line in this process; return its exit code."""
    return process.run(list(arguments))


# Playing


def test_a_number_that_is_out_of_reach_from_where_a_run_stands_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--local", "--quiet", "--bank-rule=exactly"]
    assert run(*flags, "--bank-at=1970", "--max-requests=40") == 75
    journal = only_journal(tmp_path / "runs")
    content = journal.read_bytes()
    assert last_event(journal)["event"] == "run.suspended"
    capsys.readouterr()
    assert run(*flags, "--bank-at=1710") == 78
    assert capsys.readouterr().err == (
        "sunpleat-bot: no play gets from the 1705 points of the unfinished run "
        f"runs/{journal.name} to exactly 1710; nothing was sent. Ask for another number, or start "
        "a new run with --fresh\n"
    )
    assert journal.read_bytes() == content
    assert run(*flags, "--bank-at=1970") == 0
    assert last_event(journal)["score"] == 1970


WEIGH: Final = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:], check=False).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(code)
"""
"""Starts a process from a small one, whose memory does not count, and prints its most, in KiB."""


@pytest.mark.slow
def test_the_local_run_to_a_million_is_exactly_as_promised(tmp_path: Path) -> None:
    bot = run_bot(
        tmp_path,
        *("--local", "--seed", "7", "--bank-at", "1000000", "--json"),
        launcher=(sys.executable, "-c", WEIGH),
    )
    assert bot.returncode == 0
    answer, memory = bot.stdout.splitlines()
    result = json.loads(answer)
    assert {name: result[name] for name in ("score", "boards", "flips", "requests", "leaves")} == {
        "score": 1_000_225,
        "boards": 3775,
        "flips": 22_635,
        "requests": 26_411,
        "leaves": 3,
    }
    path = only_journal(tmp_path / "runs")
    count = score = 0
    for line in journal_lines(path, "action"):
        count += 1
        score += int(str(line["award"]))
        assert line["score"] == score
        assert line["turn"] == count
    assert (count, score) == (26_410, 1_000_225)
    assert int(memory) < 60 * 1024


@pytest.mark.slow
def test_a_run_over_http_on_the_local_service_takes_71_requests(tmp_path: Path) -> None:
    with served(tmp_path) as url:

        def forward(request: Request, _: int) -> Reply:
            there = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
            headers = {"Content-Type": "application/json"}
            there.request(request.method, request.target, request.body, headers)
            answer = there.getresponse()
            body = answer.read()
            there.close()
            return reply(answer.status, body)

        with StandIn(forward) as proxy:
            bot = run_bot(tmp_path, *flags(base_url=proxy.url, max_rps=0, bank_at=3030), "--json")
            assert len(proxy.requests) == 71
            assert proxy.connections == 1
            init, *actions = proxy.requests
    assert bot.returncode == 0
    assert (init.method, init.target) == ("GET", "/api/games/sunpleat/init?seed=7")
    assert {(action.method, action.target) for action in actions} == {
        ("POST", "/api/games/sunpleat/action")
    }
    assert json.loads(bot.stdout)["score"] == 3030
    assert actions_of(only_journal(tmp_path / "runs")) == unbroken_actions()


def test_the_result_for_programs_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--local", "--bank-at=3030", "--json", "--quiet") == 0
    said = capsys.readouterr()
    assert said.err == ""
    result = json.loads(said.out)
    assert list(result) == PLAY_KEYS.split()
    path = only_journal(Path("runs"))
    assert result.pop("seconds") >= 0
    assert result == {
        "run_id": path.stem,
        "journal": f"runs/{path.name}",
        "score": 3030,
        "boards": 12,
        "flips": 58,
        "requests": 71,
        "retries": 0,
        "leaves": 3,
        "end_reason": "banked",
    }


def test_a_quiet_call_without_a_wish_for_a_result_prints_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("--local", "--bank-at=3030", "--quiet") == 0
    assert capsys.readouterr() == ("", "")


def test_a_threshold_of_nothing_banks_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--local", "--bank-at=0", "--json", "--quiet") == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["score"], result["requests"], result["end_reason"]) == (0, 2, "banked")


def test_a_budget_suspends_the_run_and_the_next_call_goes_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    call = ("--local", "--bank-at=3030", "--json", "--quiet")
    assert run(*call, "--max-requests=30") == 75
    said = capsys.readouterr()
    assert said.err == ""
    first = json.loads(said.out)
    assert list(first) == PLAY_KEYS.split()
    assert (first["requests"], first["end_reason"]) == (30, None)
    assert last_event(only_journal(Path("runs")))["event"] == "run.suspended"
    assert run(*call, "--max-requests=30") == 75
    assert run(*call, "--max-requests=30") == 0
    *_, last = map(json.loads, capsys.readouterr().out.splitlines())
    assert (last["run_id"], last["score"], last["requests"]) == (first["run_id"], 3030, 71)
    assert actions_of(only_journal(Path("runs"))) == unbroken_actions()


def test_a_budget_of_minutes_suspends_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--local", "--bank-at=100000000", "--max-minutes=0.002") == 75
    assert "the budget of 0.002 minutes is used up" in capsys.readouterr().err


def test_an_unfinished_run_is_left_for_a_fresh_one_by_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("--local", "--bank-at=3030", "--max-requests=5", "--quiet") == 75
    left = only_journal(Path("runs"))
    assert run("--local", "--bank-at=3030", "--fresh") == 0
    assert f"leaving the unfinished run {left}" in capsys.readouterr().err
    assert len(list(Path("runs").glob("*.jsonl"))) == 2


def test_a_damaged_run_is_told_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    call = ("--local", "--bank-at=3030", "--quiet")
    assert run(*call, "--max-requests=9") == 75
    path = only_journal(Path("runs"))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:3] + lines[4:]))
    capsys.readouterr()
    assert run(*call) == 74
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"{path} is damaged at line 4: seq is 4, expected 3" in said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bank_at", "nearest"),
    [(1, "0 and 175"), (200, "195 and 215"), (1_000_001, "1000000 and 1000005")],
    ids=str,
)
def test_a_number_that_no_play_reaches_is_refused_before_any_request(
    bank_at: int, nearest: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--local", f"--bank-at={bank_at}", "--bank-rule=exactly") == 78
    said = capsys.readouterr().err
    assert said == (
        f"sunpleat-bot: no play ends on exactly {bank_at} points; the nearest are {nearest}\n"
    )
    assert not Path("runs").exists()


# The service is not there


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@pytest.mark.parametrize(
    "base_url",
    [
        pytest.param("http://127.0.0.1:{port}", id="nothing listens"),
        pytest.param("http://no-such-host.invalid", id="no such host"),
        pytest.param("http://localhost:{port}/a/b", id="nothing listens, with a prefix"),
    ],
)
def test_a_service_out_of_reach_is_told_in_one_line_with_what_to_do(
    base_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    url = base_url.format(port=free_port())
    assert run(f"--base-url={url}", "--give-up-after=0.1", "--quiet") == 69
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    for part in ("sunpleat-bot: ", f" at {urlsplit(url).netloc}", "`check`", "`--local`"):
        assert part in said.err
    assert list(Path("runs").glob("*.jsonl")) == []


def test_a_service_that_stays_away_is_given_up_after_the_time_that_was_set(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with StandIn(lambda _, number: None if number <= 5 else reply(503)) as server:
        call = flags(base_url=server.url, give_up_after=0.1, max_rps=0)
        assert run(*call, "--quiet", "--json") == 69
        said = capsys.readouterr()
        assert f"at 127.0.0.1:{server.port}, sent once: HTTP 503" in said.err
    assert json.loads(said.out)["end_reason"] is None
    assert last_event(only_journal(Path("runs")))["exit_code"] == 69


@pytest.mark.slow
@pytest.mark.parametrize(
    ("status", "body", "exit_code", "text"),
    [
        (404, {"error": "none"}, 69, "no such game at this address; look at --base-url"),
        (402, {}, 69, "asks to be paid"),
        (200, {"stateToken": "t", "state": {"garland": [1, 2, 3]}}, 76, "has garland [1, 2, 3]"),
    ],
    ids=["404", "402", "another game"],
)
def test_a_service_that_is_another_one_is_told(
    status: int,
    body: object,
    exit_code: int,
    text: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with StandIn(always(reply(status, body))) as server:
        assert run(*flags(base_url=server.url, max_rps=0), "--quiet") == exit_code
    said = capsys.readouterr().err
    assert text in said
    assert said.count("\n") == 1


# Bad input


BAD_URLS: Final = {
    "no scheme": "gameboard.gg",
    "another scheme": "ftp://gameboard.gg",
    "no host": "https://",
    "a query": "https://gameboard.gg?seed=7",
    "a fragment": "https://gameboard.gg#x",
    "a user": "https://me:secret@gameboard.gg",
    "a port that is none": "https://gameboard.gg:http",
    "a port out of range": "https://gameboard.gg:99999",
    "a broken address": "http://[::1",
    "nothing": "",
}


@pytest.mark.parametrize("url", [pytest.param(url, id=name) for name, url in BAD_URLS.items()])
def test_a_bad_base_url_is_a_usage_error_as_a_flag_and_a_configuration_error_elsewhere(
    url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(f"--base-url={url}") == 2
    said = capsys.readouterr().err
    assert "--base-url" in said
    assert repr(url) in said
    assert said.count("\n") == 1
    monkeypatch.setenv("SUNPLEAT_BASE_URL", url)
    assert run() == 78
    said = capsys.readouterr().err
    assert "SUNPLEAT_BASE_URL" in said
    assert said.count("\n") == 1
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--seed=x"],
        ["--seed=-1"],
        ["--bank-at=1.5"],
        ["--bank-rule=never"],
        ["--max-rps=-1"],
        ["--max-rps=nan"],
        ["--max-requests=0"],
        ["--max-minutes=0"],
        ["--timeout=0"],
        ["--timeout=inf"],
        ["--give-up-after=0"],
        ["--on-divergence=panic"],
        ["--log-format=xml"],
        ["--no-such-flag"],
        ["no-such-verb"],
        ["--config=no-such-file.toml"],
    ],
    ids=" ".join,
)
def test_a_bad_flag_is_a_usage_error_in_one_line(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("sunpleat-bot: ")
    assert said.err.count("\n") == 1
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    "variables",
    [
        {"SUNPLEAT_SEED": "x"},
        {"SUNPLEAT_BANK_AT": ""},
        {"SUNPLEAT_MAX_RPS": "fast"},
        {"SUNPLEAT_LOCAL": "perhaps"},
        {"SUNPLEAT_LOCAL": "1", "SUNPLEAT_BASE_URL": "http://127.0.0.1:1"},
        {"SUNPLEAT_CONFIG": "no-such-file.toml"},
    ],
    ids=lambda variables: " ".join(f"{name}={value}" for name, value in variables.items()),
)
def test_a_bad_variable_is_a_configuration_error_in_one_line(
    variables: Mapping[str, str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert run() == 78
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert not Path("runs").exists()


def test_a_flag_wins_over_the_environment_and_that_over_the_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = tmp_path / "conf" / "bot.toml"
    config.parent.mkdir()
    config.write_text('local = true\nbank_at = 215\nquiet = true\nruns_dir = "journals"\n')

    def score(*arguments: str) -> int:
        assert run(f"--config={config}", "--json", *arguments) == 0
        result: int = json.loads(capsys.readouterr().out)["score"]
        return result

    assert score() == 215
    monkeypatch.setenv("SUNPLEAT_BANK_AT", "430")
    assert score() == 430
    assert score("--bank-at=0") == 0
    assert len(list((tmp_path / "conf" / "journals").glob("*.jsonl"))) == 3


@pytest.mark.parametrize("place", ["file", "file/below", "/proc/runs"])
def test_a_runs_folder_that_cannot_be_written_is_told_in_one_line(
    place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("file").touch()
    with StandIn() as server:
        for where in (["--local"], [f"--base-url={server.url}"]):
            assert run(*where, f"--runs-dir={place}", "--quiet") == 74
            said = capsys.readouterr().err
            assert said.count("\n") == 1
            assert place in said
        assert server.connections == 0


def test_a_file_in_place_of_the_runs_folder_is_told_as_what_it_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("file").touch()
    assert run("--local", "--runs-dir=file", "--quiet") == 74
    assert capsys.readouterr().err == (
        "sunpleat-bot: cannot keep the local service's key file/.local-key: file is no folder; "
        "--runs-dir names another one\n"
    )


def test_a_fault_of_the_bot_is_told_as_such(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def act(*_: object) -> None:
        raise ZeroDivisionError("seven by nothing")

    monkeypatch.setattr(client.Client, "act", act)
    assert run("--local", "--quiet") == 70
    said = capsys.readouterr().err
    assert said.startswith("sunpleat-bot: this is a fault of the bot; please report it\n")
    assert "ZeroDivisionError: seven by nothing" in said
    assert last_event(only_journal(Path("runs")))["exit_code"] == 70


def test_an_interrupt_outside_of_a_sitting_ends_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def main(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(process.cli, "main", main)
    assert run("--local") == 130


def test_the_signals_are_as_they_were_after_a_call() -> None:
    before = [signal.getsignal(number) for number in STOPS]
    assert run("--local", "--bank-at=0", "--quiet") == 0
    assert [signal.getsignal(number) for number in STOPS] == before


def test_a_terminal_that_closes_stops_the_bot_unless_it_was_started_with_nohup() -> None:
    before = signal.getsignal(signal.SIGHUP)
    with heeding(StopRequest()):
        assert callable(signal.getsignal(signal.SIGHUP))
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with heeding(StopRequest()):
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("verb", ["runs", "status", "check", "replay"])
@pytest.mark.parametrize("flag", ["--json", "--fresh", "--seed=7"])
def test_a_flag_before_a_verb_is_not_passed_over(
    flag: str, verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(flag, verb) == 2
    assert capsys.readouterr().err == (
        f"sunpleat-bot: unexpected argument '{verb}'; a verb comes first, before its flags; "
        "see --help\n"
    )


def test_a_signal_after_the_end_takes_nothing_of_what_was_earned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = {number: signal.getsignal(number) for number in STOPS}
    left_with: list[int] = []

    def interrupt(_: object) -> None:
        for number in STOPS:
            signal.raise_signal(number)

    monkeypatch.setattr(process, "run", lambda _: 1)
    monkeypatch.setattr(process, "_flush", interrupt)
    monkeypatch.setattr(os, "_exit", left_with.append)
    try:
        with pytest.raises(SystemExit) as ended:
            process.main()
        interrupt(None)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert (ended.value.code, left_with) == (1, [1] * 6)


def test_help_tells_each_verb_in_a_line_that_is_whole(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--help") == 0
    told = capsys.readouterr().out.partition("Verbs:\n")[2].partition("\n\n")[0]
    assert [line.split(maxsplit=1) for line in told.splitlines()] == [
        [name, verb.does] for name, verb in process.VERBS.items()
    ]


def test_help_imports_nothing_that_only_a_verb_needs() -> None:
    asked = "from bot.cli import process; process.run(['--help'])"
    code = f"import sys; {asked}; print({{'requests', 'structlog', 'rich'}} & {{*sys.modules}})"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(PYTHONPATH=str(Path(process.__file__).parents[2])),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "set()"


def test_help_teaches_every_flag_and_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--help") == 0
    said = capsys.readouterr().out
    for word in ("--seed", "--bank-at", "--local", "--base-url", "--fresh", "--max-minutes"):
        assert word in said
    for verb in ("serve", "solve"):
        assert re.search(rf"^  {verb} ", said, re.MULTILINE)
    for code in ("0", "1", "2", "69", "70", "74", "75", "76", "77", "78"):
        assert re.search(rf"\b{code}\b", said)


def test_the_version_is_the_package_s(capsys: pytest.CaptureFixture[str]) -> None:
    from bot import __version__

    assert run("--version") == 0
    assert capsys.readouterr().out.split()[-1] == __version__


# solve


@pytest.mark.parametrize(
    ("pennants", "flips"),
    [
        (["-2", "-1", "3"], [2]),
        (["1", "2", "3"], []),
        (["-1"], [1]),
        (["5", "-3", "2", "-4", "-1"], None),
        (["-5", "-4", "-3", "-2", "-1"], [5]),
        (["+2", "01"], None),
    ],
    ids=str,
)
def test_solve_prints_the_fewest_flips_and_the_par(
    pennants: list[str], flips: list[int] | None, capsys: pytest.CaptureFixture[str]
) -> None:
    garland = tuple(map(int, pennants))
    assert run("solve", "--json", "--", *pennants) == 0
    result = json.loads(capsys.readouterr().out)
    assert list(result) == ["flips", "par"]
    assert flips is None or result["flips"] == flips
    assert result["par"] == len(result["flips"]) == solver.distance(garland)
    for count in result["flips"]:
        garland = flip(garland, count)
    assert garland == target(len(pennants))


def test_solve_takes_a_moon_face_for_no_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("solve", "-2", "-1", "3", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"flips": [2], "par": 1}
    assert run("solve", "-2", "--jason") == 2
    assert "got -2 --jason" in capsys.readouterr().err


def test_solve_shows_each_step_to_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("solve", "--", "3", "-2", "-1") == 0
    said = capsys.readouterr()
    assert said.err == ""
    first, *steps, par = said.out.splitlines()
    assert first.split() == ["+3", "-2", "-1"]
    assert [step.split()[0] for step in steps] == ["flip", "flip"]
    assert steps[-1].split()[2:] == ["+1", "+2", "+3"]
    assert par == "par 2"


@pytest.mark.parametrize(
    "pennants",
    [
        [],
        ["1", "1"],
        ["0"],
        ["1", "3"],
        ["1", "2", "3", "4", "5", "6"],
        ["a"],
        ["1.0"],
        ["\u0663", "1", "2"],
        ["2", " 1"],
        ["1", "-1"],
        ["9" * 5000],
        ["\x1b[2J"],
    ],
    ids=lambda pennants: " ".join(pennants)[:20].encode("unicode_escape").decode() or "none",
)
def test_solve_refuses_what_is_no_signed_permutation(
    pennants: Sequence[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("solve", "--", *pennants) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert said.err.startswith("sunpleat-bot: ")
    assert said.err.strip().isprintable()


# serve


@pytest.mark.slow
def test_serve_prints_its_base_url_first_and_plays_as_on_the_game_s_page(tmp_path: Path) -> None:
    with served(tmp_path) as url:
        there = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
        there.request("GET", "/api/games/sunpleat/init?seed=7")
        init = json.loads(there.getresponse().read())
        body = {"stateToken": init["stateToken"], "action": {"type": "flip", "count": 2}}
        there.request("POST", "/api/games/sunpleat/action", json.dumps(body))
        after = json.loads(there.getresponse().read())
        there.close()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", url)
    assert init["state"]["garland"] == [-2, -1, 3]
    assert (after["state"]["phase"], after["score"]) == ("cleared", 215)


@pytest.mark.slow
def test_serve_takes_the_tokens_of_local_runs_where_it_is_told_their_folder(
    tmp_path: Path,
) -> None:
    assert run("--local", "--bank-at=3030", "--max-requests=3", "--quiet") == 75
    token = list(journal_lines(only_journal(Path("runs")), "action"))[-1]["token"]
    body = json.dumps({"stateToken": token, "action": {"type": "bank"}})

    def status(*arguments: str) -> int:
        with served(tmp_path, *arguments) as url:
            there = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
            there.request("POST", "/api/games/sunpleat/action", body)
            answer = there.getresponse()
            answer.read()
            there.close()
            return answer.status

    assert status("--runs-dir", "runs") == 200
    assert status() == 400


def test_serve_tells_in_one_line_that_its_port_is_in_use(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert run("serve", f"--port={port}") == 78
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert f"cannot listen at 127.0.0.1:{port}: Address already in use" in said.err


def test_the_module_and_the_script_are_one(tmp_path: Path) -> None:
    bot = run_bot(tmp_path, "solve", "--json", "--", "-2", "-1", "3")
    assert (bot.returncode, bot.stdout) == (0, '{"flips": [2], "par": 1}\n')


# What a verb takes


@pytest.fixture
def two_seeds() -> tuple[str, str]:
    """Play a run of seed 7, then one of seed 8; return their names."""
    for seed in (7, 8):
        assert run("--local", f"--seed={seed}", "--bank-at=215", "--quiet") == 0
    names = {path.stem.split("-")[1]: path.stem for path in Path("runs").glob("*.jsonl")}
    return names["seed7"], names["seed8"]


@pytest.mark.parametrize("verb", ["status", "replay"])
def test_a_seed_says_which_run_is_the_latest(
    verb: str, two_seeds: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    for seed, name in zip((7, 8), two_seeds, strict=True):
        assert run(verb, "latest", f"--seed={seed}", "--json") == 0
        assert json.loads(capsys.readouterr().out)["run_id"] == name
    assert run(verb, "latest", "--seed=9") == 2
    assert "there is no run of seed 9 in" in capsys.readouterr().err


def test_the_seed_of_a_file_says_nothing_of_which_run_is_the_latest(
    two_seeds: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("configs").mkdir()
    Path("configs/default.toml").write_text("seed = 7\nruns_dir = '../runs'")
    assert run("status", "--json") == 0
    assert json.loads(capsys.readouterr().out)["run_id"] == two_seeds[1]


BROKEN: Final = {
    "a bad variable": ("SUNPLEAT_BANK_AT", "x"),
    "a misspelt variable": ("SUNPLEAT_BANK_ATT", "5"),
    "a bad way to talk": ("SUNPLEAT_TIMEOUT", "x"),
    "a bad way to show": ("SUNPLEAT_LOG_FORMAT", "x"),
}


@pytest.mark.parametrize(("variable", "value"), BROKEN.values(), ids=BROKEN)
def test_nothing_that_is_wrong_for_playing_stands_in_the_way_of_looking(
    variable: str, value: str, two_seeds: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    Path("bad.toml").write_text("bank_at = 'x'\nsed = 7\ntimeout = 'x'\nwire = 5")
    config = ("--config=bad.toml",)
    for call in (
        ("status", *config),
        ("runs", *config),
        ("replay", two_seeds[0], *config),
        ("solve", "--", "-1"),
    ):
        assert run(*call) == 0
    assert run("--local", "--seed=5") == 78
    assert run("--local", *config) == 78


def test_a_way_to_talk_is_looked_at_where_a_service_is_asked(
    two_seeds: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUNPLEAT_TIMEOUT", "x")
    assert run("replay", two_seeds[0], "--against=local") == 78
    assert run("replay", two_seeds[0], "--against=local", "--timeout=5") == 0


def test_the_newest_runs_are_listed_first_where_the_list_is_limited(
    two_seeds: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    def listed(*flags: str) -> list[str]:
        assert run("runs", "--json", *flags) == 0
        return [item["run_id"] for item in json.loads(capsys.readouterr().out)]

    assert listed() == sorted(two_seeds)
    assert listed("--limit=1") == [max(two_seeds)]
    assert listed("--limit=9") == sorted(two_seeds, reverse=True)


@pytest.mark.parametrize(
    ("columns", "last"), [(40, "state"), (80, "retries"), (160, "service")], ids=str
)
def test_a_table_of_runs_is_no_wider_than_the_terminal(
    columns: int,
    last: str,
    two_seeds: tuple[str, str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert two_seeds
    monkeypatch.setattr("bot.console.streams.width", lambda: columns)
    assert run("runs") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith(f" {last}")
    assert max(map(len, lines)) <= columns


@pytest.mark.parametrize("columns", [40, 80])
def test_what_check_shows_is_no_wider_than_the_terminal(
    columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.console.streams.width", lambda: columns)
    monkeypatch.setenv("SUNPLEAT_USE_ENVIRONMENT_PROXIES", "yes")
    monkeypatch.setenv("SUNPLEAT_CONTACT", "x" * 90)
    assert run("check", "--local") == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= columns
    assert "    SUNPLEAT_USE_ENVIRONMENT_PROXIES" in lines


# What to do with an unfinished run


def test_a_threshold_that_an_unfinished_run_has_passed_is_a_clash(
    capsys: pytest.CaptureFixture[str],
) -> None:
    call = ("--local", "--json", "--quiet")
    assert run(*call, "--max-requests=30") == 75
    journal = only_journal(Path("runs"))
    content = journal.read_bytes()
    score = json.loads(capsys.readouterr().out)["score"]
    assert run(*call, "--bank-at=215") == 78
    said = capsys.readouterr()
    assert f"has {score} points already, more than 215" in said.err
    assert "--bank-now" in said.err
    assert json.loads(said.out)["exit_code"] == 78
    assert journal.read_bytes() == content
    assert run(*call, "--bank-at=215", "--bank-now") == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["score"], result["end_reason"]) == (score, "banked")


@pytest.mark.parametrize(
    ("bank_at", "rule"), [(5, "at-least"), (1_000_000, "at-least"), (21_051, "exactly")]
)
def test_to_bank_now_is_to_bank_whatever_threshold_is_named(
    bank_at: int, rule: str, capsys: pytest.CaptureFixture[str]
) -> None:
    call = ("--local", "--json", "--quiet", f"--bank-at={bank_at}", f"--bank-rule={rule}")
    assert run("--local", "--quiet", "--max-requests=30") == 75
    assert run(*call, "--bank-now") == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["requests"], result["end_reason"]) == (31, "banked")
    assert run("play", "--help") == 0
    assert "whatever --bank-at says" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("flag", ["--resume-only", "--bank-now"])
def test_where_there_is_nothing_to_resume_nothing_is_done_and_that_is_said(
    flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with StandIn() as server:
        assert run(*flags(base_url=server.url), flag) == 0
        said = capsys.readouterr().err
        assert "level=info" in said
        assert "there is no unfinished run of seed 7 on" in said
        assert run(*flags(base_url=server.url), flag, "--quiet") == 0
        assert capsys.readouterr() == ("", "")
        assert run(*flags(base_url=server.url), flag, "--quiet", "--json") == 0
        assert json.loads(capsys.readouterr().out)["exit_code"] == 0
        assert server.requests == []
    assert list(Path("runs").glob("*.jsonl")) == []


def test_an_unfinished_run_is_resumed_where_nothing_else_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert run("--local", "--quiet", "--bank-at=3030", "--max-requests=5") == 75
    monkeypatch.setenv("SUNPLEAT_RESUME_ONLY", "true")
    assert run("--local", "--quiet", "--bank-at=3030") == 0
    assert last_event(only_journal(Path("runs")))["event"] == "run.ended"
    assert run("--local", "--quiet", "--bank-at=215") == 0
    assert len(list(Path("runs").glob("*.jsonl"))) == 1
    assert run("--local", "--quiet", "--bank-at=215", "--fresh") == 0
    assert len(list(Path("runs").glob("*.jsonl"))) == 2


@pytest.mark.parametrize(
    "pair",
    [("--fresh", "--bank-now"), ("--fresh", "--resume-only"), ("--bank-now", "--resume-only")],
    ids=" ".join,
)
def test_wishes_that_exclude_each_other_are_a_usage_error(
    pair: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--local", *pair) == 2
    said = capsys.readouterr().err
    assert f"{pair[0]} and {pair[1]} cannot go together" in said


# Results for programs


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (("--seed=x",), 2),
        (("--bank-rule=exactly", "--bank-at=1"), 78),
        (("--local", "--runs-dir=/proc/none"), 74),
        (("status", "nobody"), 2),
        (("replay", "latest"), 2),
        (("runs", "--keep=1"), 2),
        (("solve", "--", "7"), 2),
    ],
    ids=str,
)
def test_a_call_that_comes_to_nothing_prints_one_object_with_its_error(
    call: tuple[str, ...], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    place = call.index("--") if "--" in call else len(call)
    assert run(*call[:place], "--json", *call[place:]) == code
    said = capsys.readouterr()
    result = json.loads(said.out)
    assert list(result) == ["error", "exit_code"]
    assert result["exit_code"] == code
    assert said.err.count("\n") == 1


def test_a_fault_of_the_bot_is_an_object_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("seven by nothing")

    monkeypatch.setattr("bot.player.play", fail)
    assert run("--local", "--json", "--quiet") == 70
    assert json.loads(capsys.readouterr().out)["exit_code"] == 70


@pytest.mark.slow
def test_an_interpreter_without_the_packages_is_told_which_one_has_them(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("raise ModuleNotFoundError(name='click')")
    bot = run_bot(tmp_path, "--local", env={**os.environ, "PYTHONPATH": f"{tmp_path}:{Path.cwd()}"})
    assert (bot.returncode, bot.stdout) == (78, "")
    assert bot.stderr.count("\n") == 1
    assert "has no package click; " in bot.stderr
    assert ".venv/bin/python -m bot" in bot.stderr


# Who asks, and what the environment does


def test_the_service_is_told_whom_to_reach() -> None:
    with StandIn() as server:
        contact = ("--contact=me@a.test",)
        assert run(*flags(base_url=server.url, bank_at=0), "--quiet", *contact) == 0
        agents = {request.headers["user-agent"] for request in server.requests}
    (agent,) = agents
    assert re.fullmatch(r"sunpleat-bot/[\d.]+ \(unattended player of Sunpleat; me@a\.test\)", agent)


def test_the_keys_of_tls_that_are_written_somewhere_are_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSLKEYLOGFILE", str(tmp_path / "keys"))
    with StandIn() as server:
        assert run(*flags(base_url=server.url, bank_at=215)) == 0
        assert capsys.readouterr().err.count("SSLKEYLOGFILE is set") == 1


def test_the_seed_stands_in_the_names_of_files_and_pings() -> None:
    with StandIn(always(reply(200))) as pinged:
        for seed in (7, 8):
            places = ("--metrics-file=a-{seed}.prom", f"--notify-url={pinged.url}/{{seed}}")
            assert run("--local", "--quiet", f"--seed={seed}", "--bank-at=0", *places) == 0
        assert [request.target for request in pinged.requests] == [
            "/7/start",
            "/7",
            "/8/start",
            "/8",
        ]
    assert sorted(path.name for path in Path().glob("*.prom")) == ["a-7.prom", "a-8.prom"]


def test_the_figures_can_be_read_by_their_collector_whatever_the_umask() -> None:
    before = os.umask(0o077)
    try:
        assert run("--local", "--quiet", "--bank-at=0", "--metrics-file=a.prom") == 0
    finally:
        os.umask(before)
    assert Path("a.prom").stat().st_mode & 0o777 == 0o644
