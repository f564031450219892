"""The command line: what it takes, what it prints, and the exit code that each call earns."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pytest
from harness import (
    actions_of,
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
from bot.cli.verbs import cli
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

    monkeypatch.setattr(cli, "main", main)
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
        f"sunpleat-bot: Got unexpected extra argument ({verb}); see sunpleat-bot --help\n"
    )


def test_a_signal_after_the_end_takes_nothing_of_what_was_earned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = {number: signal.getsignal(number) for number in STOPS}
    left_with: list[int] = []
    monkeypatch.setattr(process, "run", lambda _: 1)
    monkeypatch.setattr(os, "_exit", left_with.append)
    try:
        with pytest.raises(SystemExit) as ended:
            process.main()
        for number in STOPS:
            signal.raise_signal(number)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert (ended.value.code, left_with) == (1, [1, 1, 1])


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
