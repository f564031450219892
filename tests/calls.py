"""Calls of the bot in this process, and what they give back or say of what went wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

from bot.errors import BotError


class Said(NamedTuple):
    """What a call of the bot gave back."""

    code: int
    out: str
    err: str

    @property
    def result(self) -> Mapping[str, Any]:
        """The object that `--json` prints."""
        value: Mapping[str, Any] = json.loads(self.out)
        return value


Call = Callable[..., Said]


@contextmanager
def told(kind: type[BotError], text: str) -> Iterator[None]:
    """Expect an error that says just this."""
    with pytest.raises(kind) as caught:
        yield
    assert str(caught.value) == text
