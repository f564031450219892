"""Watching a run: what is drawn, what keys do, and that the terminal is left as it was."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from eventful import eventful, plain
from harness import BOT, PATIENCE_S, environment, plan_game, run_events, write_journal

from bot import rules
from bot.cli import process
from bot.replay.watch import FASTEST, SLOWEST, Film, Move, describe, moves, show
from bot.strategy import Goal
from bot.verify import Verification

pytestmark = pytest.mark.usefixtures("alone")

RUN: Final = "20261130T024107Z-seed7-00ff"
FRESH: Final = rules.fresh()


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """Return the journal of a run of eight boards, 42 moves."""
    path = tmp_path / "j.jsonl"
    path.write_bytes(plain())
    return path


@pytest.fixture
def film(journal: Path) -> Film:
    return Film(Verification(journal))


# The moves


Step = tuple[rules.State, rules.Action, rules.State]


def steps_of(path: Path) -> list[Step]:
    return [(move.before, move.action, move.after) for move in moves(Verification(path))]


def move_of(before: rules.State, action: rules.Action, after: rules.State) -> Move:
    return Move(1, 0, "token", action, before, after)


@pytest.mark.parametrize("bank_at", [0, 1970, 21_050])
def test_the_moves_are_those_of_the_run(bank_at: int, tmp_path: Path) -> None:
    path = write_journal(tmp_path, RUN, run_events(RUN, bank_at=bank_at))
    assert steps_of(path) == list(plan_game(Goal(bank_at)))


def test_lines_of_other_events_are_no_moves(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    path.write_bytes(eventful())
    assert steps_of(path) == list(plan_game(Goal(1970)))


def test_the_moves_end_before_the_first_problem(journal: Path) -> None:
    journal.write_bytes(plain().replace(b'"score":430', b'"score":431'))
    assert len(steps_of(journal)) == 3


def played(*names: str) -> tuple[rules.State, rules.Action, rules.State]:
    """Play these actions from the start; return the last one between its two states."""
    actions = {str(action): action for action in (*rules.FLIPS, *rules.PLAIN_ACTIONS.values())}
    before = after = FRESH
    for name in names:
        before, after = after, rules.apply(after, actions[name])
    return before, actions[names[-1]], after


def test_a_move_is_told_in_one_line_of_ascii() -> None:
    cleared = rules.apply(FRESH, rules.FLIPS[1])
    nearly = rules.apply(FRESH, rules.FLIPS[0])
    second = played("flip 2", "next", "flip 1", "flip 3")
    wasted = played("flip 1", "flip 1", "flip 1", "flip 1", "flip 1")
    assert [
        describe(1, move_of(FRESH, rules.FLIPS[1], cleared)),
        describe(2, move_of(cleared, rules.BANK, rules.apply(cleared, rules.BANK))),
        describe(3, move_of(FRESH, rules.FLIPS[0], nearly)),
        describe(4, move_of(FRESH, rules.FLIPS[2], rules.apply(FRESH, rules.FLIPS[2]))),
        describe(5, move_of(*second)),
        describe(6, move_of(*wasted)),
    ] == [
        (
            "1  board 1  flip 2  [-2 -1] +3 -> +1 +2 +3  cleared, 215 points  moves left 4  "
            "leaves 3  score 215"
        ),
        "2  board 1  bank  +1 +2 +3 -> +1 +2 +3  ended, banked  moves left 4  leaves 3  score 215",
        "3  board 1  flip 1  [-2] -1 +3 -> +2 -1 +3  moves left 4  leaves 3  score 0",
        "4  board 1  flip 3  [-2 -1 +3] -> -3 +1 +2  moves left 4  leaves 3  score 0",
        (
            "5  board 2  flip 3  [-3 -2 -1] -> +1 +2 +3  cleared, 215 points  moves left 4  "
            "leaves 3  score 430"
        ),
        (
            "6  board 1  flip 1  [-2] -1 +3 -> +2 -1 +3  out of moves, a leaf is spent  "
            "moves left 0  leaves 2  score 0"
        ),
    ]


# The film


def number_of(film: Film) -> str:
    return film.picture()[-2]


def press(film: Film, *keys: str) -> Film:
    for key in keys:
        film.press(key)
    return film


def test_a_moment_shows_the_garland_what_happened_and_what_is_next(film: Film) -> None:
    assert film.picture() == [
        *(RUN[:-4] + film.picture()[0][-4:], film.picture()[1]),
        "",
        "<moon> <moon> (sun) ",
        "  2      1      3   ",
        "=============",
        "next: flip 2",
        "",
        "move 0   2 moves a second",
        "space pause   + - speed   q quit",
    ]
    assert film.picture()[1] == (
        "board 1 (template 1)   moves left 5 of 5   leaves 3   score 0 of 1,970"
    )
    film.pass_time(0.5)
    assert film.picture()[3:7] == [
        "(sun)  (sun)  (sun) ",
        "  1      2      3   ",
        "",
        "cleared, 215 points; next: next",
    ]
    assert film.picture()[1].endswith("score 215 of 1,970")


def test_a_picture_is_ascii_whatever_the_journal_calls_itself(journal: Path) -> None:
    run_id = plain().split(b'"run_id":"')[1].split(b'"')[0]
    journal.write_bytes(plain().replace(run_id, b"\\u001b[2J\\n", 1))
    assert Film(Verification(journal)).picture()[0] == "\\x1b[2J\\n"


def test_a_run_whose_first_line_is_lost_has_no_name(journal: Path) -> None:
    journal.write_bytes(b"lost\n" + plain()[plain().index(b"\n") + 1 :])
    assert Film(Verification(journal)).picture()[0] == "a run of no name"


def test_time_brings_moves_and_the_end_stops_them(film: Film) -> None:
    film.pass_time(0.4)
    assert number_of(film) == "move 0   2 moves a second"
    film.pass_time(0.2)
    assert number_of(film) == "move 1   2 moves a second"
    film.pass_time(2.5)
    assert number_of(film) == "move 6   2 moves a second"
    film.pass_time(1000)
    assert number_of(film) == "move 42   at the end"
    assert film.picture()[6] == "ended, banked"
    film.pass_time(1000)
    assert number_of(film) == "move 42   at the end"


def test_space_pauses_and_goes_on(film: Film) -> None:
    press(film, " ").pass_time(100)
    assert number_of(film) == "move 0   paused"
    press(film, " ").pass_time(1)
    assert number_of(film) == "move 2   2 moves a second"


def test_plus_and_minus_change_the_speed_within_bounds(film: Film) -> None:
    assert number_of(press(film, "+")) == "move 0   4 moves a second"
    assert number_of(press(film, "-", "-")) == "move 0   1 moves a second"
    assert number_of(press(film, *"-" * 20)) == f"move 0   {SLOWEST:g} moves a second"
    assert number_of(press(film, *"+" * 20)) == f"move 0   {FASTEST:g} moves a second"


def test_q_ends_it_and_no_other_key_does(film: Film) -> None:
    before = film.picture()
    assert press(film, "", "x", "\x1b", "\xff").is_over is False
    assert film.picture() == before
    assert press(film, "q").is_over


def test_what_was_not_shown_is_verified_all_the_same(journal: Path) -> None:
    journal.write_bytes(plain().replace(b'"score":1970', b'"score":1971'))
    verification = Verification(journal)
    film = Film(verification)
    assert verification.is_verified
    film.finish()
    assert not verification.is_verified


# The terminal


@contextmanager
def pseudo_terminal() -> Iterator[tuple[int, int]]:
    """Give both ends of a pseudo terminal of 100 columns and 30 lines."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    try:
        yield ours, theirs
    finally:
        os.close(ours)
        os.close(theirs)


def drawn_on(ours: int) -> bytes:
    """Return all that has come to our end of a terminal."""
    drawn = b""
    while select.select([ours], [], [], 0)[0]:
        drawn += os.read(ours, 65536)
    return drawn


def test_what_was_typed_ahead_counts(film: Film) -> None:
    with pseudo_terminal() as (ours, theirs):
        tty.setcbreak(theirs)
        before = termios.tcgetattr(theirs)
        os.write(ours, b" q")
        select.select([theirs], [], [])  # the keys are there
        show(film, theirs, theirs)
        assert termios.tcgetattr(theirs) == before
        told = drawn_on(ours).decode()
    assert number_of(film) == "move 0   paused"
    assert "\x1b[?1049h\x1b[?25l\x1b[H" in told
    assert told.endswith("\x1b[?25h\x1b[?1049l")


def test_a_terminal_that_hangs_up_is_a_wish_to_quit(film: Film) -> None:
    ours, theirs = pty.openpty()

    class Last(Film):
        def picture(self) -> list[str]:
            os.close(ours)
            return ["the last"]

    show(Last(film._verification), theirs, theirs)
    os.close(theirs)


def test_the_terminal_is_put_back_after_an_error(
    film: Film, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(select, "select", fail)
    with pseudo_terminal() as (ours, theirs):
        before = termios.tcgetattr(theirs)
        with pytest.raises(KeyboardInterrupt):
            show(film, theirs, theirs)
        assert termios.tcgetattr(theirs) == before
        monkeypatch.undo()
        assert drawn_on(ours).endswith(b"\x1b[?25h\x1b[?1049l")


def test_only_what_has_changed_is_drawn_again(film: Film) -> None:
    ticks = iter([False] * 5 + [True])
    drawn = []

    class Still(Film):
        def picture(self) -> list[str]:
            self.is_over = next(ticks)
            return ["the same"]

    with pseudo_terminal() as (ours, theirs):
        show(Still(film._verification), theirs, theirs)
        drawn = drawn_on(ours).split(b"the same")
    assert len(drawn) == 2


class Scene(Film):
    """A picture of two lines that is shown once; the time that passed is kept."""

    passed_s = -1.0

    def picture(self) -> list[str]:
        return ["é" * 200, "below"]

    def pass_time(self, seconds: float) -> None:
        self.passed_s = seconds
        self.is_over = True


def test_a_picture_is_ascii_and_no_wider_than_the_terminal(
    film: Film, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    scene = Scene(film._verification)
    with pseudo_terminal() as (ours, theirs):
        show(scene, theirs, theirs)
        drawn = drawn_on(ours)
    picture = b"\\xe9" * 50 + b"\x1b[K\r\nbelow\x1b[K"
    assert drawn == b"\x1b[?1049h\x1b[?25l\x1b[H" + picture + b"\x1b[J\x1b[?25h\x1b[?1049l"
    assert 0 <= scene.passed_s < PATIENCE_S


def test_keys_that_end_without_a_word_are_a_wish_to_quit(
    film: Film, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pseudo_terminal() as (ours, theirs):
        os.write(ours, b"x")
        monkeypatch.setattr(os, "read", lambda *_: b"")
        show(film, theirs, theirs)
    assert film.is_over


# On a real terminal


class Screen:
    """A bot that shows a run on a pseudo terminal."""

    def __init__(self, ours: int, bot: subprocess.Popen[bytes]) -> None:
        self.bot = bot
        self.output = ""
        self._ours = ours

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def wait_for(self, pattern: str) -> str:
        """Read until the pattern has come since the last time; return all that came with it."""
        end = time.monotonic() + PATIENCE_S
        while not (match := re.search(pattern, self.output)):
            assert time.monotonic() < end, f"{pattern!r} never came, but {self.output[-3000:]!r}"
            self._read(0.2)
        seen, self.output = self.output[: match.end()], self.output[match.end() :]
        return seen

    def wait_for_end(self) -> tuple[int, str]:
        """Read until the bot has ended; return its exit code and what came."""
        end = time.monotonic() + PATIENCE_S
        while self.bot.poll() is None:
            assert time.monotonic() < end, "it goes on and on"
            self._read(0.05)
        while self._read(0):
            pass
        return self.bot.returncode, self.output

    def _read(self, timeout_s: float) -> bool:
        if not select.select([self._ours], [], [], timeout_s)[0]:
            return False
        self.output += os.read(self._ours, 65536).decode("utf-8", "replace")
        return True


@contextmanager
def shown(path: Path, **changes: str) -> Iterator[Screen]:
    """Show a run; afterwards the terminal has to be as it was."""
    env = environment(TERM="xterm-256color", COLUMNS=None, LC_ALL=None, LANG="C.UTF-8")
    with pseudo_terminal() as (ours, theirs):
        before = termios.tcgetattr(theirs)
        bot = subprocess.Popen(
            [*BOT, "replay", str(path), "--watch"],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=path.parent,
            env={**env, **changes},
            start_new_session=True,
        )
        try:
            screen = Screen(ours, bot)
            yield screen
            screen.wait_for_end()
            assert termios.tcgetattr(theirs) == before
            assert "\x1b[?1049h" not in screen.output  # no picture after the last
            assert screen.output.rindex("\x1b[?1049l") >= 0
            assert screen.output.rindex("\x1b[?25h") >= 0
        finally:
            bot.kill()
            bot.wait()


@pytest.mark.slow
def test_a_run_is_watched_with_the_keys(journal: Path) -> None:
    with shown(journal) as screen:
        picture = screen.wait_for("q quit")
        assert picture.count("\x1b[?1049h") == 1
        assert "next: flip 2" in picture
        screen.type(" ")
        screen.wait_for("paused")
        screen.type("+++++++ ")
        screen.wait_for("move 42   at the end")
        screen.type("q")
        assert screen.wait_for_end()[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)],
    ids=lambda value: getattr(value, "name", None),
)
def test_a_signal_ends_it_and_the_terminal_is_as_it_was(
    number: signal.Signals, code: int, journal: Path
) -> None:
    with shown(journal) as screen:
        screen.wait_for("q quit")
        screen.bot.send_signal(number)
        assert screen.wait_for_end()[0] == code


def test_a_fault_is_told_after_the_film_that_ends_before_it(journal: Path) -> None:
    journal.write_bytes(plain().replace(b'"score":430', b'"score":431'))
    with shown(journal) as screen:
        screen.wait_for("move 0 ")
        screen.type("q")
        code, output = screen.wait_for_end()
        assert code == 1
        assert "line 5 (seq 4): score is 431, expected 430" in output.split("\x1b[?1049l")[1]


# Elsewhere


def test_without_a_terminal_each_move_is_a_line(
    journal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert process.run(["replay", str(journal), "--watch"]) == 0
    lines = capsys.readouterr().out.splitlines()
    steps = [move_of(*step) for step in plan_game(Goal(1970))]
    assert lines == [describe(number, move) for number, move in enumerate(steps, 1)]
    assert "".join(lines).isascii()


def test_without_a_terminal_a_fault_is_told_after_the_moves_before_it(
    journal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal.write_bytes(plain().replace(b'"score":430', b'"score":431'))
    assert process.run(["replay", str(journal), "--watch"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].startswith("3  board 2  flip 1 ")
    assert lines[3] == "line 5 (seq 4): score is 431, expected 430"
    assert lines[4].startswith("not verified: ")


@pytest.mark.slow
@pytest.mark.parametrize("terminal", ["dumb", ""])
def test_a_terminal_that_can_show_no_pictures_gets_lines(terminal: str, journal: Path) -> None:
    with pseudo_terminal() as (ours, theirs):
        bot = subprocess.Popen(
            [*BOT, "replay", str(journal), "--watch"],
            stdin=theirs,
            stdout=theirs,
            cwd=journal.parent,
            env={**environment(), "TERM": terminal},
        )
        screen = Screen(ours, bot)
        code, output = screen.wait_for_end()
        assert code == 0
        assert "\x1b" not in output
        assert output.count("\n") == 42


def test_a_reader_that_goes_away_does_no_harm(journal: Path) -> None:
    bot = subprocess.Popen(
        [*BOT, "replay", str(journal), "--watch"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=journal.parent,
        env=environment(),
    )
    assert bot.stdout is not None
    bot.stdout.close()
    _, said = bot.communicate(timeout=PATIENCE_S)
    assert (bot.returncode, said) == (0, b"")
