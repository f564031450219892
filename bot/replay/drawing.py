"""Drawing a garland and all that stands around it, as lines of text. Nothing is printed here.

Sun and moon are told apart by their shape, and everything can be drawn in plain ASCII.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from bot import rules
from bot.garland import format_garland
from bot.replay.film import Move
from bot.rules import Action, State

SUN: Final = (r" \|/ ", r" -O- ", r" /|\ ")
MOON: Final = ("  .- ", " (   ", "  `- ")
WIDTH: Final = 7
"""Columns of a pennant."""


class Style(NamedTuple):
    """The characters of the lines around things."""

    across: str
    chosen: str
    """Across, above a pennant that is about to be flipped."""
    down: str
    top_left: str
    top_right: str
    low_left: str
    low_right: str


ASCII: Final = Style("-", "=", "|", "+", "+", "+", "+")
BOXES: Final = Style("─", "═", "│", "┌", "┐", "└", "┘")

Piece: TypeAlias = tuple[str, str]
"""A text, and what it is: `sun`, `moon`, `chosen`, `strong`, `faint` or nothing."""
Line: TypeAlias = list[Piece]


class Scene(NamedTuple):
    """What is to be seen at one moment."""

    run_id: str
    number: int
    """Moves made so far."""
    length: int
    """Moves of the whole run."""
    state: State
    action: Action | None
    """What is done next; None at the end."""
    bank_at: int
    pace: str
    """How it goes on: `paused`, `2 moves a second`."""
    prompt: str
    """What is being typed; empty for nothing."""


KEYS: Final = "space pause   <- -> or h l step   + - speed   j go to a board   q quit"


def choose_style(encoding: str) -> Style:
    """Return lines that a terminal of this encoding can show."""
    try:
        "".join(BOXES).encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return BOXES


def draw(scene: Scene, style: Style) -> list[Line]:
    """Draw a scene."""
    state = scene.state
    count = scene.action.count if scene.action and scene.action.count else 0
    return [
        [(scene.run_id, "faint")],
        [
            ("board ", ""),
            (f"{state.board_number:,}", "strong"),
            (f" (template {state.template_index})   moves left ", ""),
            (f"{state.remaining_moves} of {state.move_budget}", "strong"),
            ("   leaves ", ""),
            (f"{state.leaves} of {rules.LEAVES}", "strong"),
            ("   score ", ""),
            (f"{state.score:,}", "strong"),
            (f" of {scene.bank_at:,}", ""),
        ],
        [],
        *_draw_garland(state, count, style),
        _draw_bracket(count, style),
        [],
        [(describe(state, scene.action), "strong")],
        [],
        [(f"move {scene.number:,} of {scene.length:,}   {scene.pace}", "")],
        [(scene.prompt or KEYS, "" if scene.prompt else "faint")],
    ]


def _draw_garland(state: State, count: int, style: Style) -> list[Line]:
    """Draw the pennants side by side, of which the first `count` are chosen."""
    columns = [
        _draw_pennant(pennant, style, is_chosen=place < count)
        for place, pennant in enumerate(state.garland)
    ]
    return [
        [piece for part in row for piece in (part, (" ", ""))] for row in zip(*columns, strict=True)
    ]


def _draw_pennant(pennant: int, style: Style, *, is_chosen: bool) -> list[Piece]:
    face, kind = (SUN, "sun") if pennant > 0 else (MOON, "moon")
    edge = style.chosen if is_chosen else style.across
    inner = WIDTH - 2
    lines = [
        f"{style.top_left}{edge * inner}{style.top_right}",
        *(f"{style.down}{part}{style.down}" for part in (f"{abs(pennant):^{inner}}", *face)),
        f" \\{'':{inner - 2}}/ ",
        "  \\ /  ",
        "   V   ",
    ]
    return [(line, "chosen" if is_chosen else kind) for line in lines]


def _draw_bracket(count: int, style: Style) -> Line:
    """Draw the mark below the chosen pennants."""
    if not count:
        return []
    width = count * (WIDTH + 1) - 3
    label = f"{f' {count} ':{style.across}^{width}}"
    return [(f"{style.low_left}{label}{style.low_right}", "chosen")]


def describe(state: State, action: Action | None) -> str:
    """Say what has happened, and what is done next."""
    happened = {
        rules.PLAYING: "",
        rules.CLEARED: f"cleared, {state.last_award} points; ",
        rules.RETRY: "out of moves, a leaf is spent; ",
        rules.ENDED: f"the run has ended, {state.end_reason}",
    }[state.phase]
    if action is None:
        return happened.removesuffix("; ") or "the journal ends here"
    return f"{happened}next: {action}"


def describe_move(number: int, move: Move) -> str:
    """Tell one move in one line of ASCII, the chosen pennants in brackets."""
    before, action, after = move
    result = {
        rules.CLEARED: f"cleared, {after.score - before.score} points",
        rules.RETRY: "out of moves",
        rules.ENDED: f"ended, {after.end_reason}",
    }.get(after.phase)
    parts = (
        f"{number}",
        f"board {after.board_number}",
        f"{action}",
        f"{_bracketed(before, action.count or 0)} -> {format_garland(after.garland)}",
        *([result] if result else []),
        f"moves left {after.remaining_moves}",
        f"leaves {after.leaves}",
        f"score {after.score}",
    )
    return "  ".join(parts)


def _bracketed(state: State, count: int) -> str:
    chosen, rest = format_garland(state.garland[:count]), format_garland(state.garland[count:])
    return " ".join(part for part in (f"[{chosen}]" if count else "", rest) if part)
