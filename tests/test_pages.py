"""The pages that people read: what they name is there, and what is there they name."""

from __future__ import annotations

import inspect
import re
import tomllib
from collections.abc import Iterator, Mapping
from pkgutil import resolve_name
from typing import Final

import click
import pytest
from harness import ROOT

from bot import __version__, errors
from bot.cli import process
from bot.cli.settings import SETTINGS
from bot.journal.events import FORMAT

PAGES: Final = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "BENCHMARKS.md", "runs/README.md")
VERBS: Final[Mapping[str, click.Command]] = {
    name: process.cli.get_command(click.Context(process.cli), name) for name in process.VERBS
}
OWN_PYTHON: Final = ".venv/bin/python -m bot"


def page(name: str) -> str:
    """Return the text of a page."""
    return (ROOT / name).read_text(encoding="utf-8")


def commands(text: str) -> Iterator[str]:
    """Yield the lines of a page's shell blocks; one that goes on in the next is joined to it."""
    for block in re.findall(r"(?s)```sh\n(.*?)```", text):
        yield from re.sub(r"(&&|\\)\n *", r"\1 ", block).splitlines()


def exit_codes(of: type[errors.BotError] = errors.BotError) -> set[int]:
    """Return the exit codes of an error and all below it; those of signals come with them."""
    if of is errors.Stopped:
        return {128 + number for number in errors.Stopped.NAMES}
    return {of.exit_code}.union(*map(exit_codes, of.__subclasses__()))


def test_the_readme_says_of_each_exit_code_what_to_do_and_of_no_other() -> None:
    section = page("README.md").partition("\n## Exit codes\n")[2].partition("\n## ")[0]
    rows = [int(code) for code in re.findall(r"(?m)^\| (\d+) \| [^|]+ \| [^|]+ \|$", section)]
    assert rows == sorted({errors.AS_ASKED, errors.OTHERWISE} | exit_codes())


def test_every_code_that_sends_the_reader_below_has_a_paragraph_there() -> None:
    text = page("README.md")
    sent = re.findall(r"(?m)^\| (\d+) \|.*\| see below \|$", text)
    below = text.partition("\n## When it stops\n")[2].partition("\n## ")[0]
    assert re.findall(r"(?m)^\*\*(\d+)\.\*\*", below) == sent


def test_every_setting_of_the_help_is_in_the_default_file() -> None:
    names = re.findall(r"(?m)^(?:# )?(\w+) = ", page("configs/default.toml").partition("[wire]")[0])
    assert names == [str(setting.name) for setting in SETTINGS]


def test_every_event_of_a_journal_has_a_section_on_its_page_and_no_other_has() -> None:
    assert sorted(re.findall(r"(?m)^### `(\S+)`$", page("runs/README.md"))) == sorted(FORMAT)


@pytest.mark.parametrize("name", PAGES)
def test_what_a_page_links_to_is_there(name: str) -> None:
    text = page(name)
    links = re.findall(r'\]\(([^)]+)\)|src="([^"]+)"', text)
    targets = [link or source for link, source in links if "://" not in link + source]
    folder = (ROOT / name).parent
    headings = re.findall(r"(?m)^#+ (.+)$", text)
    anchors = {"#" + heading.lower().replace(" ", "-") for heading in headings}
    missing = [one for one in targets if one not in anchors and not (folder / one).exists()]
    assert missing == []


@pytest.mark.parametrize("name", PAGES)
def test_the_files_of_the_project_that_a_page_names_are_there(name: str) -> None:
    files = re.findall(
        r"(?:configs|docs|tests|bot|\.ci)/[\w./@-]+\.(?:\w{2,})|\.ci/\w+\b", page(name)
    )
    assert [one for one in files if not (ROOT / one).exists()] == []


@pytest.mark.parametrize("name", PAGES)
def test_a_command_of_a_page_starts_the_python_that_has_the_packages(name: str) -> None:
    for command in commands(page(name)):
        assert not re.search(r"(?<!\.venv/bin/)\b(?:python|pip|pytest|mypy) ", command), command


@pytest.mark.parametrize("name", PAGES)
def test_every_flag_of_a_command_of_a_page_is_one_of_its_verb(name: str) -> None:
    for command in commands(page(name)):
        for call in command.split(OWN_PYTHON)[1:]:
            words = call.partition("#")[0].partition("&&")[0].partition(" -- ")[0].split()
            verb = words[0] if words and words[0] in VERBS else "play"
            known = {flag for option in VERBS[verb].params for flag in option.opts}
            given = {word.partition("=")[0] for word in words if word.startswith("--")}
            assert given - known - {"--help"} == set(), command


def test_every_flag_that_the_readme_speaks_of_is_one_of_some_verb() -> None:
    text = re.sub(r"(?s)```.*?```", "", page("README.md"))
    known = {
        flag
        for verb in VERBS.values()
        for option in verb.params
        for flag in (*option.opts, *option.secondary_opts)
    }
    given = {
        flag for code in re.findall(r"`([^`]+)`", text) for flag in re.findall(r"--[\w-]+", code)
    }
    assert given - known - {"--help"} == set()


def test_the_readme_names_every_verb() -> None:
    text = page("README.md")
    shown = {verb for verb in VERBS if f"{OWN_PYTHON} {verb}" in text}
    assert VERBS.keys() - shown == {"play"}


def test_the_version_is_the_newest_of_the_changelog() -> None:
    newest = re.findall(r"(?m)^## (\S+)$", page("CHANGELOG.md"))[0]
    assert __version__ == newest


def test_every_package_that_is_needed_has_its_reason() -> None:
    project = tomllib.loads(page("pyproject.toml"))["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["metrics"], *extras["report"]]
    section = page("CONTRIBUTING.md").partition("\n## Dependencies\n")[2]
    rows = "\n".join(re.findall(r"(?m)^\|(.+?)\|", section))
    names = [re.split(r"[><=]", one)[0] for one in wanted]
    assert [one for one in names if not re.search(rf"\b{one}\b", rows)] == []


def test_every_module_has_its_word_in_contributing() -> None:
    built = page("CONTRIBUTING.md").partition("\n## How the house is built\n")[2]
    modules = {
        path.stem for path in (ROOT / "bot").iterdir() if not path.stem.startswith((".", "_"))
    }
    assert {one for one in modules - {"py"} if f"`{one}`" not in built} == set()


def test_the_walks_of_contributing_name_functions_that_are_there() -> None:
    built = page("CONTRIBUTING.md").partition("\n**One move**")[2].partition("\n## ")[0]
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "bot").rglob("*.py"))
    spans = [
        span for span in re.findall(r"`([^`]+)`", built) if not span.endswith((".py", ".html"))
    ]
    named = {name for span in spans for name in re.findall(r"[a-zA-Z_]{2,}", span)}
    assert {name for name in named if not re.search(rf"\b{name}\b", code)} == set()


def test_a_mutant_that_is_explained_is_one_of_lines_that_are_there() -> None:
    explained = tomllib.loads(page("tests/mutation/equivalent.toml"))["mutant"]
    assert explained
    for mutant in explained:
        source = inspect.getsource(resolve_name(mutant["function"]))
        assert {*mutant["was"].splitlines()} <= {line.strip() for line in source.splitlines()}
