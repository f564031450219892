"""Files of any bytes in place of a journal: told in words, and never the start of a wrong move."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest
from eventful import eventful, plain, stopped
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.errors import BotError
from bot.journal.folder import latest, newest
from bot.journal.reader import is_finished, parse_line, read_lines
from bot.replay.summary import summarise, summarise_all
from bot.rules import State
from bot.run import Run
from bot.verify import Recovered, Verification, recover, take

NAME: Final = "20261130T024107Z-seed7-00ff.jsonl"
JOURNALS: Final[dict[str, Callable[[], bytes]]] = {
    "eventful": eventful,
    "plain": plain,
    "stopped": stopped,
}
READERS: Final[list[Callable[[Path], object]]] = [
    lambda path: Verification(path).read_all(),
    is_finished,
    summarise,
    lambda path: newest(path.parent, "local", 7),
    lambda path: latest(path.parent),
    lambda path: summarise_all(path.parent),
]
WORDS: Final = st.sampled_from(["seq", "ts", "event", "action", "run.started", "token", "state"])
JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=10,
)
LINES: Final = st.lists(JSON.map(lambda value: json.dumps(value).encode()), max_size=5)
ANY_BYTES: Final = st.binary(max_size=200) | LINES.map(b"\n".join)


def read_every_way(path: Path) -> Recovered | None:
    """Read a file in every way that a journal is read in; return how its run would go on."""
    for read in READERS:
        with suppress(BotError):
            read(path)
    try:
        return recover(path)
    except BotError:
        return None


def states_along(path: Path) -> list[State]:
    """Return the state before the first line of a sound journal and after each."""
    run = Run()
    states = [run.state]
    for line in read_lines(path):
        assert take(run, parse_line(line)) == []
        states.append(run.state)
    return states


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile") / NAME


@settings(deadline=None)
@given(content=ANY_BYTES)
def test_no_run_is_found_in_a_file_of_any_bytes(content: bytes, path: Path) -> None:
    path.write_bytes(content)
    found = read_every_way(path)
    assert found is None or found.run.started is None


@pytest.mark.parametrize("name", JOURNALS)
@settings(deadline=None)
@given(data=st.data(), new=ANY_BYTES)
def test_a_journal_with_any_bytes_in_it_is_damaged_or_goes_on_where_its_run_once_was(
    name: str, data: st.DataObject, new: bytes, path: Path
) -> None:
    content = JOURNALS[name]()
    path.write_bytes(content)
    states = states_along(path)
    at = data.draw(st.integers(0, len(content)), label="from")
    end = data.draw(st.integers(at, min(at + 500, len(content))), label="to")
    path.write_bytes(content[:at] + new + content[end:])
    found = read_every_way(path)
    assert found is None or found.run.state in states
