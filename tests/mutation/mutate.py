"""Mutation testing: change the code in every small way, and see whether a test notices.

    python tests/mutation/mutate.py [--children N] [MODULE ...]

Prints what share of the mutants of each module its tests kill, every mutant that lives and is not
explained in `equivalent.toml`, and every explanation there of one that does not live. All modules
take half an hour on two cores.

Exit codes: 0 all is well, 1 a module is below the goal or `equivalent.toml` is not true.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parent.parent
MUTMUT: Final = [sys.executable, "-m", "mutmut"]
GOAL: Final = 0.95
NOTICED: Final = {"killed", "segfault"}
KILLED: Final = {*NOTICED, "timeout"}
"""One that takes too long never ends, or is only slow: then it lives where nothing else runs."""

MODULES: Final[Mapping[str, tuple[str, ...]]] = {
    "garland": ("test_garland",),
    "solver": ("test_solver",),
    "rules": ("test_rules",),
    "strategy": ("test_strategy",),
    "wire": (
        "wire/test_fields",
        "wire/test_layout",
        "wire/test_places",
        "wire/test_reading",
        "wire/test_sayings",
        "wire/test_values",
    ),
    "journal": ("test_journal", "test_files", "test_lock", "test_housekeeping"),
    "run": ("test_run", "test_verify"),
    "verify": ("test_verify", "test_run"),
    "client/failures": ("client/test_failures", "client/test_patience", "client/test_client"),
    "client/patience": ("client/test_patience", "client/test_client"),
    "client/redirects": ("client/test_redirects",),
    "replay": ("test_replay", "test_audit", "test_watch", "test_runs"),
}
"""What is mutated, and the tests that should notice."""

PYTEST: Final = ("-p", "on_a_mutant", "-p", "no:xdist", "-p", "no:cacheprovider")
SHARED: Final = ("bot", "tests", "configs", "docs", "runs", "README.md", "pyproject.toml")

IMPORT_ALL: Final = """
import pkgutil, bot
from importlib import import_module
from mutmut.state import state
for module in pkgutil.walk_packages(bot.__path__, "bot."):
    if module.name != "bot.__main__":
        import_module(module.name)
print(*state()._stats)
"""


class Laboratory:
    """A copy of the project in which mutants of one module are bred."""

    def __init__(self, module: str, folder: Path) -> None:
        """Copy what git knows of the project to `folder`."""
        self._folder = folder
        self._tests = [f"tests/{name}.py" for name in MODULES[module]]
        listed = self._output(["git", "ls-files", "-co", "--exclude-standard", *SHARED], ROOT)
        for name in listed.splitlines():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
        path = Path("bot", module)
        settings = {
            "source_paths": [str(path if (ROOT / path).is_dir() else path.with_suffix(".py"))],
            "also_copy": SHARED,
            "pytest_add_cli_args": PYTEST,
            "pytest_add_cli_args_test_selection": self._tests,
            "timeout_multiplier": 3.0,
            "timeout_constant": 2.0,
        }
        with (folder / "pyproject.toml").open("a") as file:
            file.write("\n[tool.mutmut]\n")
            file.writelines(f"{key} = {json.dumps(value)}\n" for key, value in settings.items())

    def breed(self, children: int) -> dict[str, str]:
        """Try every mutant; return what became of each."""
        log = self._folder / "mutmut.log"
        with log.open("w") as output:
            done = subprocess.run(
                [*MUTMUT, "run", "--max-children", str(children)],
                cwd=self._folder,
                env=self._environment(),
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
            )
        if done.returncode:
            sys.exit(f"mutmut did not run to its end:\n{log.read_text()[-4000:]}")
        lines = self._output([*MUTMUT, "results", "--all", "true"], self._folder).splitlines()
        fates = dict(line.strip().split(": ") for line in lines if "__mutmut_" in line)
        return {**fates, **dict(self._look_again(n for n in fates if fates[n] not in KILLED))}

    def _look_again(self, survivors: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Try again, in a new process, what is called while modules are imported.

        Mutants are switched on after the modules were imported once for all.
        """
        mutants = self._folder / "mutants"
        hits = self._output([sys.executable, "-c", IMPORT_ALL], mutants, "stats").split()
        early = {*map(function_of, hits)}
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:randomly", *PYTEST]
        for name in survivors:
            if function_of(name) in early:
                done = subprocess.run(
                    [*command, *self._tests],
                    cwd=mutants,
                    env=self._environment(name),
                    capture_output=True,
                    check=False,
                )
                if done.returncode:
                    yield name, "killed"

    def difference(self, name: str) -> tuple[str, str]:
        """Return the lines that a mutant takes away, and those that it puts in their place."""
        shown = self._output([*MUTMUT, "show", name], self._folder).splitlines()
        lines = [line for line in shown if not line.startswith(("---", "+++", "#"))]
        old, new = (
            "\n".join(line[1:].strip() for line in lines if line.startswith(sign)) for sign in "-+"
        )
        return old, new

    def _output(self, command: list[str], folder: Path, mutant: str = "") -> str:
        done = subprocess.run(
            command,
            cwd=folder,
            env=self._environment(mutant),
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    def _environment(self, mutant: str = "") -> dict[str, str]:
        """Return the variables of a process; with the mutant that it switches on."""
        own = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        active = {"MUTANT_UNDER_TEST": mutant} if mutant else {}
        return {**own, **active, "PYTHONPATH": str(HERE)}


def function_of(name: str) -> str:
    """Return the function of a mutant, or of none: `bot.solver.solve`, `bot.wire.Layout.read`."""
    mangled = name.partition("__mutmut_")[0]
    return mangled.replace(".xǁ", ".").replace("ǁ", ".").replace(".x_", ".")


def report(module: str, fates: Mapping[str, str], laboratory: Laboratory) -> bool:
    """Print what became of the mutants of a module; tell whether it is good enough."""
    explained = {
        (mutant["function"], mutant["was"], mutant["became"])
        for mutant in tomllib.loads((HERE / "equivalent.toml").read_text())["mutant"]
    }
    known = {
        name: (function_of(name), *laboratory.difference(name))
        for name, fate in fates.items()
        if fate not in NOTICED
    }
    living = {name: key for name, key in known.items() if fates[name] not in KILLED}
    unexplained = {name: key for name, key in living.items() if key not in explained}
    ours = f"bot.{module.replace('/', '.')}."
    stale = [key for key in explained - {*known.values()} if key[0].startswith(ours)]
    share = 1 - len(living) / len(fates)
    print(
        f"{module}: {len(fates)} mutants, {share:.1%} killed, {len(living)} alive, "
        f"{len(living) - len(unexplained)} of them explained",
        flush=True,
    )
    for name, key in unexplained.items():
        show(f"{name} ({fates[name]})", key)
    for key in sorted(stale):
        show(f"{key[0]}: explained, and no mutant lives that is so", key)
    return share >= GOAL and not unexplained and not stale


def show(title: str, key: tuple[str, str, str]) -> None:
    """Print what a mutant takes away, and what it puts in its place."""
    _, was, became = key
    print(f"    {title}\n      - {was}\n      + {became}", flush=True)


def main() -> int:
    """Breed, print, and tell whether all is well."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--children", type=int, default=os.cpu_count() or 1)
    parser.add_argument("modules", metavar="MODULE", nargs="*", choices=[*MODULES, []])
    arguments = parser.parse_args()
    is_well = True
    for module in arguments.modules or MODULES:
        with tempfile.TemporaryDirectory() as folder:
            laboratory = Laboratory(module, Path(folder))
            is_well &= report(module, laboratory.breed(arguments.children), laboratory)
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main())
