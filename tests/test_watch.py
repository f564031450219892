"""Watching a run: what is drawn, what the keys do, and that the terminal is left as it was."""

from __future__ import annotations

import errno
import fcntl
import io
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from eventful import eventful, plain
from harness import BOT, PATIENCE_S, environment, plan_game, run_events, write_journal
from rich.console import Console

from bot import rules
from bot.cli import process
from bot.cli import replay as verb
from bot.replay import film as films
from bot.replay.drawing import (
    ASCII,
    BOXES,
    MOON,
    SUN,
    Scene,
    choose_style,
    describe,
    describe_move,
    draw,
)
from bot.replay.film import EVERY, Film, Move
from bot.replay.keyboard import Keyboard
from bot.replay.projector import MAX_DIGITS, SPEEDS, Projector
from bot.replay.verify import Verification
from bot.replay.watch import TICK_S, _render, watch
from bot.strategy import Goal

pytestmark = pytest.mark.usefixtures("alone")

RUN: Final = "20261130T024107Z-seed7-00ff"
FRESH: Final = rules.fresh()


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """Return the journal of a run of eight boards, 42 moves."""
    path = tmp_path / "j.jsonl"
    path.write_bytes(plain())
    return path


def film_of(path: Path) -> Film:
    film = Film()
    for move in films.moves(Verification(path)):
        film.add(move)
    return film


# The film


@pytest.mark.slow
@pytest.mark.parametrize("bank_at", [1970, 21_050])
def test_every_state_of_a_film_is_the_one_of_the_run(bank_at: int, tmp_path: Path) -> None:
    film = film_of(write_journal(tmp_path, RUN, run_events(RUN, bank_at=bank_at)))
    played = list(plan_game(Goal(bank_at)))
    assert len(film) == len(played)
    assert [film.action(number) for number in range(len(film))] == [move[1] for move in played]
    assert [film.state(number) for number in range(len(film))] == [move[0] for move in played]
    assert film.state(len(film)) == played[-1][2]
    assert film.action(len(film)) is None


def test_a_film_keeps_few_states(tmp_path: Path) -> None:
    film = film_of(write_journal(tmp_path, RUN, run_events(RUN, bank_at=21_050)))
    assert len(film._states) == 1 + len(film) // EVERY


def test_a_film_shows_what_the_service_said_where_it_was_followed(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    path.write_bytes(eventful())
    film = film_of(path)
    followed = film.state(8)
    assert (followed.garland, followed.leaves, followed.score) == ((-1, 2, 3, 4), 2, 675)
    assert film.state(len(film)).score == 1975


def test_a_film_ends_before_the_first_problem(journal: Path) -> None:
    journal.write_bytes(plain().replace(b'"score":430', b'"score":431'))
    assert len(film_of(journal)) == 3


@pytest.mark.parametrize(
    ("board", "number"), [(1, 0), (2, 2), (3, 5), (8, 34), (9, 34), (0, 0), (10**9, 34)]
)
def test_a_film_knows_where_a_board_begins(board: int, number: int, journal: Path) -> None:
    film = film_of(journal)
    assert film.start_of(board) == number
    assert film.state(number).board_number == min(max(board, 1), 8)


# The drawing


def text_of(scene: Scene, style: Any = ASCII) -> list[str]:
    return ["".join(piece for piece, _ in line).rstrip() for line in draw(scene, style)]


def scene_of(state: rules.State, action: rules.Action | None = None, prompt: str = "") -> Scene:
    return Scene(RUN, 3, 42, state, action, 1970, "paused", prompt)


def test_a_garland_is_a_row_of_pennants_and_the_chosen_ones_are_marked() -> None:
    assert text_of(scene_of(FRESH, rules.FLIPS[1])) == [
        RUN,
        "board 1 (template 1)   moves left 5 of 5   leaves 3 of 3   score 0 of 1,970",
        "",
        "+=====+ +=====+ +-----+",
        "|  2  | |  1  | |  3  |",
        "|  .- | |  .- | | \\|/ |",
        "| (   | | (   | | -O- |",
        "|  `- | |  `- | | /|\\ |",
        " \\   /   \\   /   \\   /",
        "  \\ /     \\ /     \\ /",
        "   V       V       V",
        "+----- 2 -----+",
        "",
        "next: flip 2",
        "",
        "move 3 of 42   paused",
        "space pause   <- -> or h l step   + - speed   j go to a board   q quit",
    ]


def test_sun_moon_and_the_chosen_ones_have_colours_of_their_own() -> None:
    turned = rules.apply(FRESH, rules.FLIPS[0])  # +2 -1 +3
    for action, marks in [
        (rules.FLIPS[1], ["chosen", "", "chosen", "", "sun", ""]),
        (None, ["sun", "", "moon", "", "sun", ""]),
    ]:
        lines = draw(scene_of(turned, action), ASCII)
        assert [[kind for _, kind in line] for line in lines[3:11]] == [marks] * 8
    assert draw(scene_of(turned), ASCII)[-1][0][1] == "faint"
    assert draw(scene_of(turned, prompt="go to board: 3"), ASCII)[-1] == [("go to board: 3", "")]


def test_the_smallest_pennant_has_a_sun_or_a_moon_as_the_others() -> None:
    cleared = rules.apply(FRESH, rules.FLIPS[1])  # +1 +2 +3
    rows = text_of(scene_of(cleared))[5:8]
    assert rows == [" ".join([f"|{part}|"] * 3) for part in SUN]


def test_a_picture_is_cut_at_the_edge_and_has_its_colours() -> None:
    picture = _render([[("one two three four", "strong")], [("sun", "sun"), ("!", "")]])
    lines = Console(width=12).render_lines(picture, pad=False)
    assert [[(piece.text, str(piece.style)) for piece in line] for line in lines] == [
        [("one two thre", "bold")],
        [("sun", "yellow"), ("!", "none")],
        [],
    ]


def test_sun_and_moon_differ_in_shape() -> None:
    assert SUN != MOON
    assert not set("".join(SUN)) & set("".join(MOON)) - set(" -")


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_the_mark_is_as_wide_as_the_chosen_pennants(count: int) -> None:
    state = list(plan_game(Goal(1970)))[24][0]
    lines = text_of(scene_of(state, rules.FLIPS[count - 1]))
    assert lines[3].count("+=====+") == count
    assert len(lines[11]) == len("+=====+ " * count) - 1


def test_nothing_is_marked_before_another_action() -> None:
    lines = text_of(scene_of(FRESH, rules.RESTART))
    assert "=" not in lines[3]
    assert lines[11] == ""


def test_ascii_is_ascii_and_boxes_are_as_wide() -> None:
    plainly, boxed = (text_of(scene_of(FRESH, rules.FLIPS[2]), style) for style in (ASCII, BOXES))
    assert "".join(plainly).isascii()
    assert [len(line) for line in plainly] == [len(line) for line in boxed]


@pytest.mark.parametrize(
    ("encoding", "style"),
    [("utf-8", BOXES), ("ascii", ASCII), ("latin-1", ASCII), ("cp437", ASCII), ("none", ASCII)],
)
def test_a_terminal_gets_what_its_encoding_has(encoding: str, style: Any) -> None:
    if encoding == "cp437":  # which has these boxes
        style = BOXES
    assert choose_style(encoding) == style


def played(*names: str) -> tuple[rules.State, rules.Action, rules.State]:
    """Play these actions from the start; return the last one between its two states."""
    actions = {str(action): action for action in (*rules.FLIPS, *rules.PLAIN_ACTIONS.values())}
    before = after = FRESH
    for name in names:
        before, after = after, rules.apply(after, actions[name])
    return before, actions[names[-1]], after


def test_it_is_said_what_has_happened_and_what_is_next() -> None:
    cleared = rules.apply(FRESH, rules.FLIPS[1])
    retry = FRESH
    for _ in range(5):
        retry = rules.apply(retry, rules.FLIPS[0])
    banked = rules.apply(cleared, rules.BANK)
    assert [
        describe(FRESH, rules.FLIPS[1]),
        describe(cleared, rules.NEXT_BOARD),
        describe(cleared, None),
        describe(retry, rules.RETRY_BOARD),
        describe(banked, None),
        describe(FRESH, None),
    ] == [
        "next: flip 2",
        "cleared, 215 points; next: next",
        "cleared, 215 points",
        "out of moves, a leaf is spent; next: retry",
        "the run has ended, banked",
        "the journal ends here",
    ]


def test_a_move_is_told_in_one_line_of_ascii() -> None:
    cleared = rules.apply(FRESH, rules.FLIPS[1])
    nearly = rules.apply(FRESH, rules.FLIPS[0])
    second = played("flip 2", "next", "flip 1", "flip 3")
    wasted = played("flip 1", "flip 1", "flip 1", "flip 1", "flip 1")
    assert [
        describe_move(1, Move(FRESH, rules.FLIPS[1], cleared)),
        describe_move(2, Move(cleared, rules.BANK, rules.apply(cleared, rules.BANK))),
        describe_move(3, Move(FRESH, rules.FLIPS[0], nearly)),
        describe_move(4, Move(FRESH, rules.FLIPS[2], rules.apply(FRESH, rules.FLIPS[2]))),
        describe_move(5, Move(*second)),
        describe_move(6, Move(*wasted)),
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
            "6  board 1  flip 1  [-2] -1 +3 -> +2 -1 +3  out of moves  moves left 0  "
            "leaves 2  score 0"
        ),
    ]


# The keys


@pytest.fixture
def projector(journal: Path) -> Projector:
    return Projector(film_of(journal), RUN, 1970)


def press(projector: Projector, *keys: str) -> Projector:
    for key in keys:
        projector.press(key)
    return projector


def test_time_brings_moves_and_the_end_stops_them(projector: Projector) -> None:
    assert (projector.number, projector.scene().pace) == (0, "2 moves a second")
    assert (projector.is_paused, projector.is_over) == (False, False)
    assert projector.scene().action == rules.FLIPS[1]
    for _ in range(3):
        projector.pass_time(0.3)
    assert projector.number == 1
    projector.pass_time(1000)
    assert (projector.number, projector.scene().pace) == (42, "at the end")
    assert projector.scene().action is None


def test_space_pauses_and_goes_on(projector: Projector) -> None:
    press(projector, " ").pass_time(10)
    assert (projector.number, projector.scene().pace) == (0, "paused")
    press(projector, " ").pass_time(1)
    assert projector.number == 2


@pytest.mark.parametrize(("forward", "back"), [("right", "left"), ("l", "h")])
def test_steps_go_forward_and_back_and_pause(forward: str, back: str, projector: Projector) -> None:
    assert press(projector, forward, forward, forward, back).number == 2
    assert projector.is_paused
    assert press(projector, back, back, back, back).number == 0


def test_plus_and_minus_change_the_speed_within_bounds(projector: Projector) -> None:
    assert [press(projector, key).speed for key in "+=-_--+"] == [4, 8, 4, 2, 1, 0.5, 1]
    assert press(projector, *"+" * 20).speed == SPEEDS[-1]
    assert press(projector, *"-" * 20).speed == SPEEDS[0]


def test_j_asks_for_a_board_and_goes_there(projector: Projector) -> None:
    press(projector, "j", "1", "X", "9", "backspace")
    assert projector.scene().prompt == "go to board: 1"
    press(projector, "backspace", "3")
    assert projector.scene().prompt == "go to board: 3"
    projector.pass_time(100)
    assert projector.number == 0  # nothing moves meanwhile
    assert press(projector, "enter").number == 5
    assert projector.scene().prompt == ""


@pytest.mark.parametrize(
    "keys", [["j", "enter"], ["j", "5", "escape"], ["j", "x", "\u0663", "enter"]]
)
def test_no_board_is_gone_to_where_none_was_named(keys: list[str], projector: Projector) -> None:
    assert press(projector, *keys).number == 0
    assert projector.scene().prompt == ""


def test_no_more_digits_are_taken_than_make_sense(projector: Projector) -> None:
    press(projector, "j", *"9" * 50)
    assert projector.scene().prompt == f"go to board: {'9' * MAX_DIGITS}"
    assert press(projector, "enter").number == 34


@pytest.mark.parametrize("keys", [["q"], ["j", "4", "q"]])
def test_q_ends_it(keys: list[str], projector: Projector) -> None:
    assert press(projector, *keys).is_over


@pytest.mark.parametrize("key", ["", "x", "enter", "escape", "\x1b[A", "5", "\xff"])
def test_a_key_without_a_meaning_does_nothing(key: str, projector: Projector) -> None:
    before = projector.scene()
    assert press(projector, key).scene() == before


# The keyboard


def test_what_was_typed_ahead_counts() -> None:
    with pseudo_terminal() as (ours, theirs):
        os.write(ours, b"q")
        with Keyboard(theirs) as keyboard:
            assert keyboard.read(1) == "q"


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


def test_keys_are_read_one_by_one_and_unseen_and_the_terminal_is_put_back() -> None:
    with pseudo_terminal() as (ours, theirs):
        before = termios.tcgetattr(theirs)
        with Keyboard(theirs) as keyboard:
            os.write(ours, b" h\x1b[C\x1bOD\r\x7f\x1b[15~\x1b[1;5Cq\xc3")
            keys = [keyboard.read(1) for _ in range(10)]
            assert keyboard.read(0) == ""
        assert keys == [
            *(" ", "h", "right", "left", "enter", "backspace"),
            *("\x1b[15~", "\x1b[1;5C", "q", "\xc3"),
        ]
        assert termios.tcgetattr(theirs) == before
        assert select.select([ours], [], [], 0)[0] == []  # nothing was echoed


def test_escape_alone_is_a_key() -> None:
    with pseudo_terminal() as (ours, theirs), Keyboard(theirs) as keyboard:
        os.write(ours, b"\x1b")
        assert keyboard.read(1) == "escape"


@pytest.mark.parametrize(
    ("first", "rest"), [(b"\x1b", b"[C"), (b"\x1b[", b"C"), (b"\x1bO", b"C"), (b"\x1b", b"OC")]
)
def test_an_arrow_that_comes_in_pieces_is_one_key(first: bytes, rest: bytes) -> None:
    with pseudo_terminal() as (ours, theirs), Keyboard(theirs) as keyboard:
        os.write(ours, first)
        keyboard._fill(1)
        os.write(ours, rest)
        assert keyboard.read(1) == "right"


def test_a_terminal_that_hangs_up_is_a_wish_to_quit() -> None:
    ours, theirs = pty.openpty()
    with Keyboard(theirs) as keyboard:
        os.close(ours)
        assert keyboard.read(1) == "q"
    os.close(theirs)


def test_a_terminal_that_cannot_be_read_is_a_wish_to_quit(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    with pseudo_terminal() as (ours, theirs), Keyboard(theirs) as keyboard:
        os.write(ours, b"x")
        monkeypatch.setattr(os, "read", fail)
        assert keyboard.read(1) == "q"


def test_the_terminal_is_put_back_after_an_error() -> None:
    with pseudo_terminal() as (_, theirs):
        before = termios.tcgetattr(theirs)
        with pytest.raises(KeyboardInterrupt), Keyboard(theirs):
            raise KeyboardInterrupt
        assert termios.tcgetattr(theirs) == before


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
        assert "┌═════┐" in picture
        assert "next: flip 2" in picture
        screen.type(" ")
        screen.wait_for("paused")
        screen.type("j3\r")
        assert "board" in screen.wait_for("move 5 of 42   paused")
        screen.type("l")
        screen.wait_for("move 6 of 42")
        screen.type("\x1b[D\x1b[D")
        screen.wait_for("move 4 of 42")
        screen.type("+++++++ ")
        screen.wait_for("at the end")
        screen.type("q")
        assert screen.wait_for_end()[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("locale", "boxes"), [("C.UTF-8", True), ("ascii", False)], ids=["UTF-8", "ASCII"]
)
def test_a_terminal_without_boxes_gets_ascii(locale: str, boxes: bool, journal: Path) -> None:
    changes = {"LANG": locale} if boxes else {"PYTHONIOENCODING": "ascii"}
    with shown(journal, **changes) as screen:
        picture = screen.wait_for("q quit")
        assert ("┌" in picture, "+=====+" in picture) == (boxes, not boxes)
        screen.type("q")


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
        screen.wait_for("move 0 of 3")
        screen.type("q")
        code, output = screen.wait_for_end()
        assert code == 1
        assert "line 5 (seq 4): score is 431, expected 430" in output.split("\x1b[?1049l")[1]


def test_only_what_has_changed_is_drawn_again(journal: Path) -> None:
    """Show a film in this process, with keys that take their time."""
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, width=100, height=30)
    times = iter(range(100))
    keys = iter(["", "", " ", "", "", "l", "", "q"])

    threads = set(threading.enumerate())

    class Keys(Keyboard):
        def read(self, timeout_s: float) -> str:
            assert timeout_s == TICK_S
            assert threads.issuperset(threading.enumerate())  # nobody else draws
            return next(keys)

    projector = Projector(film_of(journal), RUN, 1970)
    watch(projector, console, Keys(0), monotonic=lambda: next(times))
    shown = re.findall(r"move (\d+) of 42   (\w+)", output.getvalue())
    assert shown == [("0", "2"), ("2", "2"), ("4", "2"), ("4", "paused"), ("5", "paused")]
    assert output.getvalue().endswith("\x1b[?25h\x1b[?1049l")


def test_whatever_else_is_printed_meanwhile_is_no_part_of_the_picture(
    journal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = io.StringIO()

    class Keys(Keyboard):
        def read(self, timeout_s: float) -> str:
            sys.stdout.write("said")
            sys.stderr.write("warned")
            return "q"

    console = Console(file=output, force_terminal=True, width=100, height=30)
    watch(Projector(film_of(journal), RUN, 1970), console, Keys(0))
    assert capsys.readouterr() == ("said", "warned")
    assert not re.search("said|warned", output.getvalue())


def test_the_handlers_of_signals_are_put_back(
    journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)]
    with pseudo_terminal() as (ours, theirs), os.fdopen(os.dup(theirs)) as stdin:
        os.write(ours, b"q")
        monkeypatch.setattr(sys, "stdin", stdin)
        monkeypatch.setattr(verb, "_is_screen", lambda: True)
        assert process.run(["replay", str(journal), "--watch"]) == 0
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)] == before


# Elsewhere


def test_without_a_terminal_each_move_is_a_line(
    journal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert process.run(["replay", str(journal), "--watch"]) == 0
    lines = capsys.readouterr().out.splitlines()
    moves = [Move(*played) for played in plan_game(Goal(1970))]
    assert lines == [describe_move(number, move) for number, move in enumerate(moves, 1)]
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
