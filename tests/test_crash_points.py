"""The process dies at every point of a run at which it can, and the next start finishes it.

The points are all of them: before each request, after each request that was applied but
whose answer never came, and after each byte of a line of each kind.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
from fake_clock import FakeClock
from harness import (
    Died,
    Disk,
    Mortal,
    Spoil,
    edited,
    instead,
    only_journal,
    unbroken_actions,
)
from standins import Call, journal_lines, play

from bot.client.limits import Limits
from bot.journal import writer
from bot.journal.events import EVENT_NAMES
from bot.service import Answer
from bot.verify import recover

pytestmark = pytest.mark.slow

SHOWS: Final = ("garland", "score")
"""The fields that the service sends here: the fewer, the shorter is `run.started`."""
REQUESTS: Final = 71
"""Of an unbroken run to 3,030 points: `init`, 58 flips, 11 times `next`, and `bank`."""


@dataclass(frozen=True)
class Scene:
    """What the service and the caller do so that a line is written."""

    event: str
    """Of the line to die in."""
    spoils: Mapping[int, Spoil] = field(default_factory=dict)
    """Number of a request to what becomes of its answer."""
    budget: int | None = None
    """Requests of the first call; another call follows."""
    pause_s: float = 0
    """Seconds between a first call that ends by itself and the second one; 0: there is none."""
    skipped: int = 0
    """Lines of the event before the one to die in."""


LOST: Final = instead(503, {"error": "busy"})
NO: Final = instead(200, {"ok": False, "reason": "no", "legalActions": []})
NO_TOKEN: Final = instead(401, {"reason": "the token has expired"})
WRONG: Final = edited(score=1)


def _laid_out_anew(answer: Answer) -> Answer:
    body = json.loads(answer.body)
    return Answer(200, json.dumps({**body.pop("state"), **body}).encode())


SCENES: Final[dict[str, Scene]] = {
    "run.started": Scene("run.started"),
    "action": Scene("action", skipped=68),
    "retry": Scene("retry", {70: LOST}),
    "retry of init": Scene("retry", {1: LOST, 2: LOST}),
    "refused": Scene("refused", {70: NO}),
    "diverged": Scene("diverged", {70: WRONG, 71: WRONG}),
    "run.resumed": Scene("run.resumed", budget=70),
    "run.suspended": Scene("run.suspended", budget=70),
    "layout": Scene("layout", {70: _laid_out_anew}),
    "run.suspended by a refused token": Scene("run.suspended", {70: NO_TOKEN, 71: NO_TOKEN}),
    "run.abandoned": Scene("run.abandoned", dict.fromkeys(range(70, 74), NO_TOKEN), pause_s=3700),
    "run.ended": Scene("run.ended"),
}
"""How a line of each kind comes about."""


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    """Put a disk under the writer that can lose its power."""
    fake = Disk()
    monkeypatch.setattr(writer, "os", fake)
    return fake


def play_in(scene: Scene, service: Mortal, runs_dir: Path) -> None:
    """Play as the scene has it, until the process dies."""
    random.seed(0)  # the jitter of waits, and so the length of their lines
    clock = FakeClock()
    if scene.budget is not None:
        play(service, runs_dir, clock, Call(limits=Limits(max_requests=scene.budget)))
        clock.advance(1)
    elif scene.pause_s:
        play(service, runs_dir, clock)
        clock.advance(scene.pause_s)
    play(service, runs_dir, clock)


def finish(runs_dir: Path) -> int:
    """Start anew, as cron would, and check how it ends; return the requests it took."""
    service = Mortal(shows=SHOWS)
    clock = FakeClock()
    clock.advance(60)
    outcome = play(service, runs_dir, clock)
    assert outcome.exit_code == 0
    assert outcome.run.score == 3030
    lines = list(journal_lines(outcome.path, "action"))
    assert [json.dumps(line["action"]) for line in lines] == [*unbroken_actions()]
    assert sum(int(str(line["award"])) for line in lines) == 3030
    recovered = recover(outcome.path)
    assert recovered.cut_bytes == 0
    assert recovered.run.is_over
    assert recovered.run.requests <= 1 + 70 + 4
    return len(service.requests)


@pytest.mark.usefixtures("disk")
@pytest.mark.parametrize("moment", ["before", "after"])
def test_death_at_any_request_costs_no_point_and_no_action(moment: str, tmp_path: Path) -> None:
    for number in range(1, REQUESTS + 1):
        runs_dir = tmp_path / str(number)
        service = Mortal(shows=SHOWS)
        setattr(service, f"dies_{moment}", number)
        with pytest.raises(Died):
            play_in(SCENES["action"], service, runs_dir)
        assert len(service.requests) == number - (moment == "before")
        assert finish(runs_dir) == REQUESTS - (number - 1)


def test_there_is_a_scene_for_every_event() -> None:
    assert {scene.event for scene in SCENES.values()} == set(EVENT_NAMES.values())


every_scene = pytest.mark.parametrize(
    "scene", [pytest.param(scene, id=name) for name, scene in SCENES.items()]
)


def die_in(scene: Scene, size: int, disk: Disk, runs_dir: Path) -> tuple[Path, bytes]:
    """Die after `size` bytes of the scene's line; return the journal and the whole line."""
    disk.dying = (scene.event, scene.skipped, size)
    with pytest.raises(Died):
        play_in(scene, Mortal(scene.spoils, shows=SHOWS), runs_dir)
    disk.dying = None
    return only_journal(runs_dir), disk.last_line


@every_scene
def test_death_in_a_line_leaves_the_lines_before_it_and_its_first_bytes(
    scene: Scene, disk: Disk, tmp_path: Path
) -> None:
    for size in (0, 1, 50, 80):
        path, line = die_in(scene, size, disk, tmp_path / str(size))
        before = path.read_bytes()
        assert before.endswith(line[:size])
        assert before[: len(before) - size][-1:] in (b"", b"\n")


@every_scene
@pytest.mark.parametrize("first", [0, 1], ids=["even", "odd"])
def test_death_at_any_byte_of_a_line_costs_no_point_and_no_action(
    first: int, scene: Scene, disk: Disk, tmp_path: Path
) -> None:
    dead, line = die_in(scene, 0, disk, tmp_path / "dead")
    before = dead.read_bytes()
    for size in range(first, len(line) + 1, 2):
        runs_dir = tmp_path / str(size)
        runs_dir.mkdir()
        (runs_dir / dead.name).write_bytes(before + line[:size])  # as the death there leaves it
        finish(runs_dir)
