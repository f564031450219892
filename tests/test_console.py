"""What a person sees: lines for a log, a bar on a real terminal, and nothing when all is well."""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest
from fake_clock import FakeClock
from harness import (
    BOT,
    PATIENCE_S,
    Mortal,
    environment,
    flags,
    instead,
    last_event,
    only_journal,
    run_bot,
)
from standins import Call, StandIn, in_order, play, reply

from bot.client.limits import Limits
from bot.console import displays, streams, terminal
from bot.console.displays import Display, Figures, Lines, Quiet, Several, choose_display
from bot.console.terminal import Live, Progress
from bot.errors import OutputError
from bot.run import Run
from bot.verify import recover

EVIL: Final = "\x1b[2J\x1b]0;owned\x07 \u2028\x9b1m\r\nbanked \x00\ud800 [red]é日[/red]"
HARMLESS: Final = r"\x1b[2J\x1b]0;owned\x07 \u2028\x9b1m\r\nbanked \x00\ud800 [red]é日[/red]"
EVIL_402: Final = reply(402, {"reason": f"pay {EVIL}"})


# Streams


@pytest.mark.parametrize("error", [OSError(28, "full"), ValueError("closed"), BrokenPipeError()])
def test_a_stream_that_takes_nothing_is_passed_over(error: Exception) -> None:
    class Broken(io.StringIO):
        def write(self, _: str) -> int:
            raise error

    streams.write(Broken(), "hello")
    streams.write(None, "hello")


# Lines


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., tuple[int, Run, Path]]:
    """Return what plays a run under a display."""

    def play_under(
        display: Display, bank_at: int = 3030, service: Mortal | None = None
    ) -> tuple[int, Run, Path]:
        call = Call(bank_at=bank_at, limits=Limits(give_up_after_s=10))
        outcome = play(service or Mortal(), tmp_path, FakeClock(), call, display)  # type: ignore[arg-type]  # it is a watcher, too
        display.ended(outcome.run, outcome.path, "")
        display.close()
        return outcome.exit_code, outcome.run, outcome.path

    return play_under


def parse_logfmt(line: str) -> dict[str, str]:
    """Read `key=value key="quoted value"`, and fail at anything else."""
    pair = r'(\w+)=("(?:[^"\\]|\\.)*"|[^\s"=]*)'
    assert re.fullmatch(rf"{pair}(?: {pair})*", line), line
    return {key: value.strip('"') for key, value in re.findall(pair, line)}


def test_a_log_says_which_run_it_is_and_how_it_ended(
    run: Callable[..., tuple[int, Run, Path]], capsys: pytest.CaptureFixture[str]
) -> None:
    _, _, path = run(Lines(as_json=False))
    said = capsys.readouterr()
    assert said.out == ""
    first, this_call, last = map(parse_logfmt, said.err.splitlines())
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", first["timestamp"])
    assert {**first, "timestamp": ""} == {
        "timestamp": "",
        "level": "info",
        "event": "playing",
        "journal": str(path),
        "score": "0",
        "bank_at": "3030",
        "bank_rule": "at-least",
    }
    assert (last["event"], last["score"], last["boards"], last["leaves"]) == (
        "ended",
        "3030",
        "12",
        "3",
    )
    assert (last["requests"], last["retries"]) == ("71", "0")
    assert (this_call["actions"], this_call["failed"], this_call["causes"]) == ("70", "0", "")


def test_a_log_in_json_has_the_same_on_each_line(
    run: Callable[..., tuple[int, Run, Path]], capsys: pytest.CaptureFixture[str]
) -> None:
    service = Mortal({3: instead(503, b"")})
    _, _, path = run(Lines(as_json=True), service=service)
    first, failed, this_call, last = map(json.loads, capsys.readouterr().err.splitlines())
    assert (first["event"], first["level"], first["journal"]) == ("playing", "info", str(path))
    assert (failed["event"], failed["level"]) == ("request failed", "warning")
    assert failed["what"] == "next"
    assert failed["cause"].startswith("HTTP 503")
    assert 0.5 <= failed["wait_s"] <= 1
    assert (last["event"], last["score"], last["requests"], last["retries"]) == (
        "ended",
        3030,
        72,
        1,
    )
    assert (this_call["failed"], this_call["causes"]) == (1, "1 trouble")


def test_a_log_says_from_time_to_time_how_far_it_is(
    run: Callable[..., tuple[int, Run, Path]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(displays, "LINE_EVERY_S", 0)
    run(Lines(as_json=True), bank_at=430)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    progress = [line for line in lines if line["event"] == "progress"]
    assert [line["score"] for line in progress] == [0 + 215, 215, 215, 430, 430]
    assert [line["boards"] for line in progress] == [1, 1, 1, 2, 2]
    assert {line["bank_at"] for line in progress} == {430}
    assert all(line["actions_per_s"] > 0 for line in progress)
    assert progress[0]["eta_s"] >= 0
    assert progress[-1]["eta_s"] is None  # nothing is left to go


def test_a_log_says_nothing_between_its_minutes(
    run: Callable[..., tuple[int, Run, Path]], capsys: pytest.CaptureFixture[str]
) -> None:
    run(Lines(as_json=False), bank_at=21050)
    assert len(capsys.readouterr().err.splitlines()) == 3


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "JSON"])
def test_what_a_service_says_cannot_forge_a_line_of_a_log(
    as_json: bool,
    run: Callable[..., tuple[int, Run, Path]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    spoil = instead(401, {"reason": f"invalid token {EVIL}"})
    display = Lines(as_json=as_json)
    code, _, _ = run(display, service=Mortal({4: spoil, 5: spoil}))
    display.notice(EVIL)
    assert code == 77
    said = capsys.readouterr().err
    assert said.count("\n") == 6
    assert all(char.isprintable() for char in said.replace("\n", ""))
    parse: Callable[[str], Mapping[str, str]] = json.loads if as_json else parse_logfmt
    events = [parse(line)["event"] for line in said.splitlines()]
    assert events[:3] == ["playing", "request failed", "request failed"]
    assert events[3:5] == ["this call", "suspended"]


# A terminal


class Terminal:
    """A process of the bot on a terminal of 120 columns."""

    def __init__(self, folder: Path, *arguments: str, **changes: str | None) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        env = environment(**{"COLUMNS": None, "TERM": "xterm-256color", **changes})
        self.process = subprocess.Popen(
            [*BOT, *arguments],
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=slave,
        )
        os.close(slave)

    def pieces(self) -> Iterator[str]:
        """Yield what is written, as it comes, to the end of the process."""
        while True:
            try:
                piece = os.read(self._master, 65536)
            except OSError:  # the other side is closed
                return
            yield piece.decode("utf-8", "surrogateescape")

    def press(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def read(self) -> str:
        """Return all that the process writes, and wait for its end."""
        text = "".join(self.pieces())
        self.process.wait(PATIENCE_S)
        self.close()
        return text

    def close(self) -> None:
        if self._master >= 0:
            os.close(self._master)
            self._master = -1


def plain(text: str) -> str:
    """Return what a terminal shows of a text, without its commands."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


@pytest.mark.slow
def test_a_terminal_shows_score_boards_and_pace_and_a_summary_at_the_end(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, "--local", "--bank-at=21050")
    text = terminal.read()
    assert terminal.process.returncode == 0
    shown = plain(text)
    path = only_journal(tmp_path / "runs")
    assert f"journal runs/{path.name}" in shown
    assert re.search(r"0 of 21,050 .* 0%", shown)
    assert re.search(r"21,050 of 21,050 .*100% 80 boards, \d+ actions a second", shown)
    assert "━" in shown
    for line in (
        "banked",
        "  points    21,050 of 21,050",
        "  boards    80, 3 leaves left",
        f"  journal   runs/{path.name}",
    ):
        assert f"{line}\r\n" in shown
    assert re.search(r"  run       .*\d m?s, 547 requests, 0 retries\r\n", shown)
    assert re.search(r"  this call .*\d m?s, 546 actions\r\n", shown)
    assert " 0 ms to go" not in shown
    assert re.search(r"  answers   [\d.]+ ms median, [\d.]+ ms 99th percentile", shown)


@pytest.mark.slow
def test_a_terminal_shows_the_time_to_go_while_it_plays(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, "--local", "--bank-at=10000000")
    shown = ""
    for piece in terminal.pieces():
        shown += plain(piece)
        if re.search(r"actions a second, .* to go", shown):
            break
    terminal.process.send_signal(signal.SIGINT)
    assert "suspended" in plain(terminal.read())
    assert terminal.process.returncode == 130
    assert re.search(r"\d of 10,000,000 .*\d boards?, \d+ actions a second, [\w. ]+ to go", shown)


@pytest.mark.slow
def test_a_terminal_is_not_moved_by_what_a_service_says(tmp_path: Path) -> None:
    with StandIn(in_order(None, None, *[EVIL_402] * 9)) as server:
        limits = {"max_rps": 0, "give_up_after": 1}
        terminal = Terminal(tmp_path, *flags(base_url=server.url, **limits))
        text = terminal.read()
    assert terminal.process.returncode == 69
    assert "\x1b[2J" not in text
    assert "\x1b]0;" not in text
    assert "\x07" not in text
    assert "\x9b" not in text
    assert HARMLESS.split(" [")[0] in plain(text).replace("\r\n", "")
    assert "\r\nbanked" not in plain(text)
    assert "\r\nsuspended\r\n" in plain(text)


@pytest.mark.slow
def test_a_terminal_without_utf_8_is_shown_what_it_can(tmp_path: Path) -> None:
    terminal = Terminal(
        tmp_path,
        "--local",
        "--bank-at=3030",
        LC_ALL="POSIX",
        PYTHONIOENCODING="ascii",
        PYTHONUTF8="0",
    )
    text = terminal.read()
    assert terminal.process.returncode == 0
    assert text.isascii()
    assert "3,030 of 3,030" in plain(text)


@pytest.mark.slow
def test_a_dumb_terminal_is_shown_the_summary(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, "--local", "--bank-at=3030", TERM="dumb")
    text = terminal.read()
    assert terminal.process.returncode == 0
    assert "  points    3,030 of 3,030" in text


@pytest.mark.slow
def test_a_terminal_that_goes_away_does_not_touch_the_game(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, "--local", "--bank-at=100000")
    for piece in terminal.pieces():
        if "of 100,000" in piece:
            break
    terminal.close()
    assert terminal.process.wait(PATIENCE_S) == 0
    path = only_journal(tmp_path / "runs")
    assert last_event(path)["event"] == "run.ended"
    assert recover(path).run.state.score == 100_020


@pytest.mark.slow
def test_a_terminal_that_was_stopped_does_not_stop_the_game(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, "--local", "--bank-at=100000")
    for piece in terminal.pieces():
        if "of 100,000" in piece:
            break
    terminal.press(b"\x13")  # Ctrl-S
    assert terminal.process.wait(PATIENCE_S) == 0
    terminal.close()
    assert last_event(only_journal(tmp_path / "runs"))["event"] == "run.ended"


@pytest.mark.slow
def test_a_log_that_nobody_reads_does_not_stop_the_game(tmp_path: Path) -> None:
    reader, pipe = os.pipe()
    os.set_blocking(pipe, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(pipe, b"." * 4096)
    os.set_blocking(pipe, True)
    try:
        bot = run_bot(tmp_path, "--local", "--bank-at=3030", stdout=subprocess.PIPE, stderr=pipe)
    finally:
        os.close(pipe)
        os.close(reader)
    assert bot.returncode == 0
    assert last_event(only_journal(tmp_path / "runs"))["event"] == "run.ended"


@pytest.mark.slow
def test_failures_are_shown_above_the_bar_while_the_terminal_is_gone_or_not(
    tmp_path: Path,
) -> None:
    busy = reply(503, b"")
    with StandIn(in_order(None, busy, None, None, busy)) as server:
        terminal = Terminal(tmp_path, *flags(base_url=server.url, max_rps=0, bank_at=3030))
        for piece in terminal.pieces():
            if "HTTP 503" in plain(piece):
                break
        terminal.close()
        assert terminal.process.wait(PATIENCE_S) == 0
    assert last_event(only_journal(tmp_path / "runs"))["retries"] == 2


# Which display


class Stream(io.StringIO):
    """A stream that says what it is."""

    def __init__(self, answer: bool | Exception) -> None:
        super().__init__()
        self._answer = answer

    def isatty(self) -> bool:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


@pytest.mark.parametrize(
    ("stream", "is_quiet", "log_format", "expected"),
    [
        pytest.param(Stream(True), False, "text", Live, id="a terminal"),
        pytest.param(Stream(True), False, "json", Lines, id="a terminal that is to have JSON"),
        pytest.param(Stream(True), True, "text", Quiet, id="a terminal that is to be quiet"),
        pytest.param(Stream(False), False, "text", Lines, id="a file"),
        pytest.param(Stream(False), True, "json", Quiet, id="a file that is to be quiet"),
        pytest.param(Stream(ValueError("closed")), False, "text", Lines, id="a closed stream"),
        pytest.param(None, False, "text", Lines, id="no stream"),
    ],
)
def test_the_display_fits_where_stderr_goes(
    stream: Stream | None,
    is_quiet: bool,
    log_format: str,
    expected: type[Display],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    assert type(choose_display(is_quiet=is_quiet, log_format=log_format)) is expected


def test_a_quiet_display_says_nothing(
    run: Callable[..., tuple[int, Run, Path]], capsys: pytest.CaptureFixture[str]
) -> None:
    run(Display(), service=Mortal({3: instead(503, b"")}))
    assert capsys.readouterr() == ("", "")


def test_several_displays_are_all_told(
    run: Callable[..., tuple[int, Run, Path]], capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = Lines(as_json=False), Lines(as_json=False)
    display = Several(one, two)
    display.notice("look")
    run(display, bank_at=215, service=Mortal({3: instead(503, b"")}))
    lines = capsys.readouterr().err.splitlines()
    events = [parse_logfmt(line)["event"] for line in lines]
    calls = ["this call", "ended"] * 2
    assert events == [
        *(name for name in ("look", "playing") for _ in "12"),
        *["request failed"] * 2,
        *calls,
    ]
    assert len(lines) == 10


def test_the_bar_promises_no_further_attempt_where_there_is_none(
    run: Callable[..., tuple[int, Run, Path]], capsys: pytest.CaptureFixture[str]
) -> None:
    run(Live(), service=Mortal({2: instead(404, b"")}))
    said = plain(capsys.readouterr().err)
    assert "flip 2: HTTP 404" in said
    assert "again in" not in said


def test_the_bar_is_shown_on_any_stream_and_put_away(
    run: Callable[..., tuple[int, Run, Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(terminal, "REFRESH_EVERY_S", 0)
    display = Live()
    display.notice("before the bar")
    run(display, service=Mortal({3: instead(503, b"")}))
    said = plain(stream.getvalue())
    assert said.startswith("before the bar\n")
    assert re.search(r"\d\d:\d\d:\d\dZ next: HTTP 503 .*; again in (0\.\d|1\.0) s", said)
    assert "3,030 of 3,030" in said
    assert re.search(r"this call .*, 70 actions, 1 failed: 1 trouble", said)


# Figures


def test_answer_times_are_counted_to_three_digits() -> None:
    figures = Figures()
    for elapsed_ms in (12.34, 12.31, 0.123456):
        figures.add(elapsed_ms)
    assert figures.actions == 3
    assert figures.answers_ms == {12.3: 2, 0.123: 1}


def test_the_time_to_go_is_not_known_before_the_first_award(
    run: Callable[..., tuple[int, Run, Path]],
) -> None:
    _, played, _ = run(Display(), bank_at=215)
    figures = Figures()
    figures.first_score = 215
    assert figures.seconds_to_go(played) is None
    figures.first_score = 0
    assert figures.seconds_to_go(played) is None  # nothing is left


def test_a_result_that_cannot_be_written_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        with pytest.raises(OutputError, match="No space left on device"):
            streams.answer("verified")
        monkeypatch.undo()
        with contextlib.suppress(OSError):
            full.close()


def test_a_result_for_a_stream_that_is_closed_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(OutputError, match="stdout is closed"):
        streams.answer("verified")


def test_a_result_whose_reader_has_left_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, pipe = os.pipe()
    os.close(reader)
    with os.fdopen(pipe, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        streams.answer("verified")


def test_a_result_is_written_whole_to_a_pipe_that_takes_it_bit_by_bit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reader, pipe = os.pipe()
    os.set_blocking(pipe, False)
    text = "x" * 1_000_000
    read: list[bytes] = []

    def read_slowly() -> None:
        while piece := os.read(reader, 10_000):
            read.append(piece)

    thread = threading.Thread(target=read_slowly)
    thread.start()
    with os.fdopen(pipe, "w") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        streams.answer(text)
        monkeypatch.undo()
    thread.join()
    os.close(reader)
    assert b"".join(read) == text.encode() + b"\n"


@pytest.mark.slow
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_result_that_a_file_takes_in_part_is_lost_and_told(
    unbuffered: str, tmp_path: Path
) -> None:
    for name in ("a", "b", "c", "d", "e", "f"):
        assert run_bot(tmp_path, "--local", "--quiet", "--bank-at=0", f"--seed={ord(name)}")
    whole = run_bot(tmp_path, "runs", "--json").stdout
    ended = subprocess.run(
        ["sh", "-c", 'ulimit -f 1; exec "$@" >out', "sh", *BOT, "runs", "--json"],  # 512 bytes
        cwd=tmp_path,
        env=environment(PYTHONUNBUFFERED=unbuffered),
        capture_output=True,
        text=True,
        check=False,
    )
    assert len(whole) > 1024
    assert ended.returncode == 74
    assert "cannot write the result: File too large" in ended.stderr


# The bar


PACE: Final = "10 actions a second"
TO_GO: Final = "12 min 05 s to go"
RUN: Final = Progress(757_485, 1_000_000, 2858, 9.7, 725.0)


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (30, "757,485 75% 12 min 05 s to go"),
        (41, "757,485 75% 12 min 05 s to go"),
        (42, "757,485 of 1,000,000 75% 12 min 05 s to go"),
        (52, "757,485 of 1,000,000 ######... 75% 12 min 05 s to go"),
        (79, f"757,485 of 1,000,000 {'#' * 16}...... 75% 2,858 boards, 12 min 05 s to go"),
        (96, f"757,485 of 1,000,000 {'#' * 13}..... 75% 2,858 boards, {PACE}, 12 min 05 s to go"),
        (160, f"757,485 of 1,000,000 {'#' * 30}{'.' * 10} 75% 2,858 boards, {PACE}, {TO_GO}"),
    ],
    ids=str,
)
def test_the_bar_gives_way_before_points_percent_and_time_to_go(
    columns: int, expected: str
) -> None:
    assert RUN.line(columns, done="#", left=".") == expected
    assert len(expected) <= columns


def test_a_run_whose_threshold_is_nothing_is_all_done() -> None:
    line = Progress(0, 0, 0, 0.0, None).line(80, done="#")
    assert re.fullmatch("0 of 0 #{39} 100% 0 boards, 0 actions a second", line)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL, signal.SIGTSTP])
def test_the_cursor_is_never_hidden(number: int, tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, "--local", "--bank-at=10000000")
    seen = ""
    for piece in terminal.pieces():
        seen += piece
        if " to go" in seen:
            break
    terminal.process.send_signal(number)
    if number == signal.SIGTSTP:
        terminal.process.kill()
    seen += terminal.read()
    assert "\x1b[?25l" not in seen
