from __future__ import annotations

import ast
from pathlib import Path

import pytest

import bot

PACKAGE = Path(bot.__file__).parent
ORDER = (
    "errors",
    "words",
    "garland",
    "solver",
    "rules",
    "strategy",
    "wire",
    "journal",
    "run",
    "verify",
    "client",
    "service",
    "player",
    "replay",
    "report",
    "console",
    "cli",
)
"""Each module imports only those before it."""
CLI_FLOORS = (
    {"forms", "signals"},
    {"process", "sources"},
    {"settings"},
    {"monitoring", "wiring"},
    {"check", "play", "replay", "report", "runs", "serve", "solve"},
)
"""In `cli`, each module imports only those of the floors before its own: no verb knows another."""
ALLOWED = {
    "__init__": set[str](),
    "__main__": {"cli"},
    **{module: set(ORDER[:place]) for place, module in enumerate(ORDER)},
}
PLAIN_NAMES = {"__version__"}
"""What the package itself may be asked for, beside its modules."""
APART = {
    "replay": {"service", "player"},
    "report": {"client", "service", "player"},
    "console": {"strategy", "wire", "journal", "verify", "service", "player", "report"},
}
"""What modules leave alone though it comes before them: a report asks no service, and so on."""


def source_files() -> list[Path]:
    return sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))


def module_of(file: Path) -> str:
    """Name the module, first below `bot`, that a file of the package belongs to."""
    return file.parts[0].removesuffix(".py")


def imported_names(file: Path, source: str) -> list[str]:
    """Return the full dotted name of everything that the source imports, wherever it does."""
    package = ["bot", *file.parent.parts]
    names = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            base += node.module.split(".") if node.module else []
            names += [".".join([*base, alias.name]) for alias in node.names]
    return names


def forbidden_imports(file: Path, source: str) -> list[str]:
    """Return a complaint for each import that the table of modules does not allow."""
    module = module_of(file)
    if module not in ALLOWED:
        return [f"{file}: the module {module} has no place in the order"]
    allowed = ALLOWED[module] - APART.get(module, set()) | (
        {module} if len(file.parts) > 1 else set()
    )
    complaints = []
    for name in imported_names(file, source):
        top, *below = name.split(".")
        if top == "bot" and below and below[0] not in allowed | PLAIN_NAMES:
            complaints.append(f"{file}: {module} must not import {name}")
    return complaints


def floor_of(room: str) -> int:
    """Return the floor of a module of `cli`, from 0."""
    (floor,) = (number for number, rooms in enumerate(CLI_FLOORS) if room in rooms)
    return floor


def test_the_package_is_found() -> None:
    assert {"errors", "garland", "solver", "rules", "strategy"} <= set(
        map(module_of, source_files())
    )


@pytest.mark.parametrize("file", source_files(), ids=str)
def test_each_module_imports_only_those_above_it(file: Path) -> None:
    assert forbidden_imports(file, (PACKAGE / file).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "file", [file for file in source_files() if file.match("cli/[!_]*.py")], ids=str
)
def test_each_module_of_the_command_line_imports_only_those_of_floors_below(file: Path) -> None:
    names = imported_names(file, (PACKAGE / file).read_text(encoding="utf-8"))
    rooms = {name.split(".")[2] for name in names if name.startswith("bot.cli.")}
    assert {room for room in rooms if floor_of(room) >= floor_of(file.stem)} == set()


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("rules.py", "from bot import solver"),
        ("rules.py", "from bot.solver import distance\nimport bot.garland as g"),
        ("rules.py", "import json\nfrom botany import leaves\nimport bot"),
        ("client.py", "from bot import __version__"),
        ("client.py", "from . import __version__, wire\nfrom .journal import Journal"),
        ("service/http.py", "from bot.service import tokens\nfrom .tokens import sign"),
        ("service/http.py", "from .. import rules\nfrom ..wire import state"),
        ("service/__init__.py", "from bot import client\nfrom .http import serve"),
        ("cli.py", "from bot import console, errors, player"),
        ("__main__.py", "from bot.cli import main"),
        ("__init__.py", "from importlib import metadata"),
    ],
    ids=str,
)
def test_the_checker_accepts_an_import_from_above(file: str, source: str) -> None:
    assert forbidden_imports(Path(file), source) == []


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("solver.py", "import bot.rules"),
        ("solver.py", "import json, bot.rules as game"),
        ("solver.py", "from bot import rules"),
        ("solver.py", "from bot.rules import State"),
        ("solver.py", "from . import rules"),
        ("solver.py", "from .rules import State"),
        ("solver.py", "def late():\n    from bot.rules import State"),
        ("solver.py", "if TYPE_CHECKING:\n    from bot.rules import State"),
        ("solver.py", "from bot import garland, rules"),
        ("solver.py", "import bot.solver"),
        ("solver.py", "from bot import *"),
        ("solver.py", "from bot import helpers"),
        ("solver.py", "from bot.helpers import clamp"),
        ("errors.py", "from bot import garland"),
        ("wire/reading.py", "from ..client import Session"),
        ("wire/deep/down.py", "from ...client import Session"),
        ("wire/__init__.py", "from bot.wire_tools import x"),
        ("report/page.py", "from bot.client.failures import Failure"),
        ("console/displays.py", "from bot.report.page import run_page"),
        ("__main__.py", "from bot import cli, player"),
        ("__init__.py", "from bot import errors"),
        ("helpers.py", ""),
        ("helpers/clamp.py", "import json"),
    ],
    ids=str,
)
def test_the_checker_notices_a_forbidden_import(file: str, source: str) -> None:
    assert len(forbidden_imports(Path(file), source)) == 1
