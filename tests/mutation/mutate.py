"""Mutation testing: change the code in every small way, and see whether a test notices.

    python tests/mutation/mutate.py [--children N]

Prints what share of the mutants of each module the tests kill, and every mutant that lives and
is not explained in `equivalent.toml`. Takes about an hour on two cores.

Exit codes: 0 all is well, 1 a module is below the goal or a living mutant is not explained.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parent.parent
MUTMUT: Final = [sys.executable, "-m", "mutmut"]
MODULES: Final = ("rules", "solver", "strategy", "wire", "journal", "replay")
GOAL: Final = 0.95
KILLED: Final = {"killed", "timeout", "segfault"}

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
    """A copy of the project in which mutants are bred."""

    def __init__(self, folder: Path) -> None:
        """Copy what git knows of the project to `folder`."""
        self.folder = folder
        self._settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mutmut"]
        listed = self._output(["git", "ls-files", "-co", "--exclude-standard"], ROOT)
        for name in listed.splitlines():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)

    def breed(self, children: int) -> dict[str, str]:
        """Try every mutant; return what became of each."""
        log = self.folder / "mutmut.log"
        with log.open("w") as output:
            done = subprocess.run(
                [*MUTMUT, "run", "--max-children", str(children)],
                cwd=self.folder,
                env=self._environment(),
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
            )
        if done.returncode:
            sys.exit(f"mutmut did not run to its end:\n{log.read_text()[-4000:]}")
        lines = self._output([*MUTMUT, "results", "--all", "true"], self.folder).splitlines()
        fates = dict(line.strip().split(": ") for line in lines if "__mutmut_" in line)
        return {
            **fates,
            **dict(self._look_again(name for name in fates if fates[name] not in KILLED)),
        }

    def _look_again(self, survivors: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Try again, in a new process, what is called while modules are imported.

        Mutants are switched on after the modules were imported once for all.
        """
        mutants = self.folder / "mutants"
        early = self._output([sys.executable, "-c", IMPORT_ALL], mutants, "stats").split()
        tests = self._settings["pytest_add_cli_args_test_selection"]
        for name in survivors:
            if name.rpartition("__mutmut_")[0] in early:
                command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:randomly"]
                done = subprocess.run(
                    [*command, *self._settings["pytest_add_cli_args"], *tests],
                    cwd=mutants,
                    env=self._environment(name),
                    capture_output=True,
                    check=False,
                )
                if done.returncode:
                    yield name, "killed"

    def difference(self, name: str) -> tuple[str, str]:
        """Return the lines that a mutant takes away, and those that it puts in their place."""
        shown = self._output([*MUTMUT, "show", name], self.folder).splitlines()
        body = [line for line in shown if not line.startswith(("---", "+++", "#"))]
        old, new = (
            "\n".join(line[1:].strip() for line in body if line.startswith(sign)) for sign in "-+"
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


def module_of(name: str) -> str:
    """Return the module of the design that a mutant belongs to."""
    return name.split(".")[1]


def main() -> int:
    """Breed, print, and tell whether all is well."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--children", type=int, default=os.cpu_count() or 1)
    children = parser.parse_args().children
    explained = {
        (entry["function"], entry["was"], entry["became"])
        for entry in tomllib.loads((HERE / "equivalent.toml").read_text())["mutant"]
    }
    is_well = True
    with tempfile.TemporaryDirectory() as folder:
        laboratory = Laboratory(Path(folder))
        by_module: dict[str, list[str]] = defaultdict(list)
        fates = laboratory.breed(children)
        for name in fates:
            by_module[module_of(name)].append(name)
        print(f"{'module':12}{'mutants':>8}{'killed':>8}{'share':>8}  living, explained")
        for module in MODULES:
            names = by_module[module]
            living = [name for name in names if fates[name] not in KILLED]
            unexplained = [
                (name, old, new)
                for name in living
                for old, new in [laboratory.difference(name)]
                if (name.rpartition("__mutmut_")[0], old, new) not in explained
            ]
            killed = len(names) - len(living)
            share = killed / len(names)
            is_well &= share >= GOAL and not unexplained
            print(
                f"{module:12}{len(names):8}{killed:8}{share:8.1%}"
                f"  {len(living)}, {len(living) - len(unexplained)}"
            )
            for name, old, new in unexplained:
                print(f"    {name} ({fates[name]})\n      - {old}\n      + {new}")
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main())
