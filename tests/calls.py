"""Calls of the bot in this process, and what they give back."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


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
