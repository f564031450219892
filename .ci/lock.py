"""Pin anew what the project installs: `play` and each extra, a file each in `.ci/requirements`.

    .venv/bin/pip install -q uv && .venv/bin/python .ci/lock.py [--upgrade]

A file begins with those of the extras that its own includes, and adds what they lack. It holds the
hashes of every file of a release, and says what only some Pythons need, so that it serves all.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".ci" / "requirements"
OPTIONS = (
    *("--universal", "--python-version=3.11"),  # this one and all later ones
    *("--generate-hashes", "--no-annotate", "--no-header", "--quiet"),
)
ELSEWHERE = re.compile(r"== '(?:win32|nt)'")
"""In the marker of what only Windows needs."""


def resolve(wanted: list[str], output: Path, *more: str) -> dict[str, str]:
    """Return by its name the lines that pin each package; what `output` holds is preferred."""
    subprocess.run(
        [
            sys.executable,
            "-m",
            "uv",
            "pip",
            "compile",
            "-",
            "--output-file",
            output,
            *OPTIONS,
            *more,
        ],
        input="\n".join(wanted),
        cwd=output.parent,
        text=True,
        check=True,
    )
    blocks = re.findall(r"(?m)^\w.*\n(?: .*\n)*", output.read_text(encoding="utf-8"))
    return {block.partition("==")[0]: block for block in blocks if not ELSEWHERE.search(block)}


def read_layers() -> dict[str, tuple[list[str], list[str]]]:
    """Return for each file the files that it begins with, and what its own packages are."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project = pyproject["project"]
    layers = {"play": ([], [*project["dependencies"], *pyproject["build-system"]["requires"]])}
    for extra, wanted in project["optional-dependencies"].items():
        inner = [re.fullmatch(rf"{project['name']}\[(.*)\]", one) for one in wanted]
        own = [one for one, match in zip(wanted, inner, strict=True) if not match]
        bases = [base for match in inner if match for base in match[1].split(",")]
        layers[extra] = (bases or ["play"], own)
    return layers


def main(*options: str) -> None:
    """Write the files."""
    layers = read_layers()
    FOLDER.mkdir(exist_ok=True)
    with TemporaryDirectory() as folder:
        everything = Path(folder, "everything.txt")
        old = [path.read_text(encoding="utf-8") for path in FOLDER.glob("*.txt")]
        everything.write_text("".join(re.sub(r"(?m)^-r .*\n", "", text) for text in old))
        resolve([one for _, own in layers.values() for one in own], everything, *options)
        held: dict[str, set[str]] = {}
        for layer, (bases, own) in layers.items():
            pins = resolve(own, Path(folder, f"{layer}.txt"), "--constraint", str(everything))
            below = {name for base in bases for name in held[base]}
            held[layer] = below | pins.keys()
            lines = [f"-r {base}.txt\n" for base in bases]
            lines += [block for name, block in pins.items() if name not in below]
            text = "# Written by `.ci/lock.py`.\n" + "".join(lines)
            (FOLDER / f"{layer}.txt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
