"""A pytest plugin for mutation testing: a mutant lives in one process, so no other is started."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def _stay_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip a test when it is about to start a process."""

    def skip(*_: Any, **__: Any) -> None:
        pytest.skip("starts a process")

    monkeypatch.setattr(subprocess.Popen, "__init__", skip)
