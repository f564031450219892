"""A pytest plugin for mutants: one lives in one process, and its death need not be beautiful."""

from __future__ import annotations

import os
import subprocess
from typing import Any, Final

import hypothesis
import pytest
from hypothesis import Phase

SUSPICIOUS: Final = 35
"""What mutmut takes for neither death nor life."""

hypothesis.settings.register_profile(
    "on a mutant",
    phases=(Phase.explicit, Phase.generate),
    database=None,
    report_multiple_bugs=False,
)
hypothesis.settings.load_profile("on a mutant")


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Let each collection in one process give the same ids to tests.

    pytest keeps the ids that it has made, and escapes their backslashes again each time; a test
    that is not found under its id would count as one that failed.
    """
    for mark in metafunc.definition.iter_markers("parametrize"):
        object.__setattr__(mark._param_ids_from or mark, "_param_ids_generated", None)


def pytest_sessionfinish(exitstatus: int) -> None:
    """Let a mutant live whose tests were not found."""
    if exitstatus == pytest.ExitCode.USAGE_ERROR:
        os._exit(SUSPICIOUS)


@pytest.fixture(autouse=True)
def _stay_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip a test when it is about to start a process."""

    def skip(*_: Any, **__: Any) -> None:
        pytest.skip("starts a process")

    monkeypatch.setattr(subprocess.Popen, "__init__", skip)
