"""A pytest plugin for mutants: one lives in one process, and its death need not be beautiful."""

from __future__ import annotations

import subprocess
from typing import Any

import hypothesis
import pytest
from hypothesis import Phase

hypothesis.settings.register_profile(
    "on a mutant",
    phases=(Phase.explicit, Phase.generate),
    database=None,
    report_multiple_bugs=False,
)
hypothesis.settings.load_profile("on a mutant")


@pytest.fixture(autouse=True)
def _stay_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip a test when it is about to start a process."""

    def skip(*_: Any, **__: Any) -> None:
        pytest.skip("starts a process")

    monkeypatch.setattr(subprocess.Popen, "__init__", skip)
