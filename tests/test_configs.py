"""The ready configurations: complete, at their defaults but where they say so, and in words."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Callable, Mapping
from configparser import RawConfigParser
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from harness import ROOT

from bot.cli import process
from bot.cli.settings import LOCAL, SETTINGS, Settings
from bot.client.limits import POLITE_RPS
from bot.wire.fields import LOCATABLE
from bot.wire.layout import WireSettings

CONFIGS: Final = ROOT / "configs"
NAMES: Final = [str(setting.name) for setting in SETTINGS]
DEVIATIONS: Final[Mapping[str, Mapping[str, object]]] = {
    "default.toml": {},
    "local.toml": {"local": True},
    "cron.toml": {"max_minutes": 55},
}
"""What each file sets to something else than its default."""
FILES: Final = pytest.mark.parametrize("name", DEVIATIONS)


class Line(NamedTuple):
    """One setting as it stands in a file."""

    is_in_force: bool
    name: str
    text: str
    """Of the value."""
    comment: str

    @property
    def value(self) -> object:
        value: object = tomllib.loads(f"value = {self.text}")["value"]
        return value


LINE: Final = re.compile(r"(# )?(\w+) = (\S+|\[.*\]) +# (\S.*)")


def read(name: str) -> tuple[list[Line], list[Line]]:
    """Return the settings of a file, and those of its table `wire`."""
    top, found, wire = (CONFIGS / name).read_text(encoding="utf-8").partition("# [wire]\n")
    assert found

    def lines(text: str) -> list[Line]:
        matches = map(LINE.fullmatch, text.splitlines())
        return [Line(not match[1], *match.groups()[1:]) for match in matches if match]

    return lines(top), lines(wire)


def default_of(name: str) -> object:
    """Return the value that a file writes for a setting at its default."""
    default = next(setting.default for setting in SETTINGS if setting.name == name)
    return {"runs_dir": "../runs", "max_rps": POLITE_RPS}.get(name, default)


@FILES
def test_a_file_has_every_setting_in_order_with_a_word_on_its_line(name: str) -> None:
    settings, _ = read(name)
    assert [line.name for line in settings] == NAMES
    assert all(len(line.comment) > 10 for line in settings)


@FILES
def test_every_line_is_at_its_default_or_stands_there_on_purpose(name: str) -> None:
    settings, _ = read(name)
    for line in settings:
        default = default_of(line.name)
        if line.name in DEVIATIONS[name]:
            assert (line.is_in_force, line.value) == (True, DEVIATIONS[name][line.name])
        elif default is None:
            assert not line.is_in_force
            assert "unset: no limit" in line.comment
        else:
            assert line.value == default
            assert type(line.value) in (type(default), int)


@FILES
def test_a_setting_has_the_same_word_in_every_file(name: str) -> None:
    words = {line.name: line.comment for line in read("default.toml")[0]}
    assert {line.name: line.comment for line in read(name)[0]} == words


def test_the_default_file_has_all_in_force_that_has_a_default() -> None:
    settings, _ = read("default.toml")
    without = {line.name for line in settings if not line.is_in_force}
    assert without == {"max_rps", "max_requests", "max_minutes"}


@FILES
def test_no_other_line_is_in_force(name: str) -> None:
    settings, _ = read(name)
    in_force = tomllib.loads((CONFIGS / name).read_text(encoding="utf-8"))
    assert in_force == {line.name: line.value for line in settings if line.is_in_force}


@pytest.fixture
def taken(
    alone: None,  # noqa: ARG001 - the folder
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Callable[..., Settings]:
    """Call the bot in an empty folder and return the settings that it would play with."""
    caught: list[Settings] = []

    def play(settings: Settings, *_: Any, **__: Any) -> int:
        caught.append(settings)
        return 0

    monkeypatch.setattr("bot.cli.play.sit", play)

    def run(*arguments: str) -> Settings:
        assert process.run(list(arguments)) == 0
        assert capsys.readouterr() == ("", "")
        return caught.pop()

    return run


def test_with_a_file_the_bot_plays_as_without_but_for_what_the_file_is_for(
    taken: Callable[..., Settings],
) -> None:
    settings = taken()
    plain = replace(settings.talk, runs_dir=ROOT / "runs")
    in_minutes = replace(plain, limits=replace(plain.limits, max_minutes=55.0))
    unpaced = replace(plain, base_url=LOCAL, limits=replace(plain.limits, max_rps=None))
    for name, talk in (("default", plain), ("cron", in_minutes), ("local", unpaced)):
        assert taken(f"--config={CONFIGS}/{name}.toml") == replace(settings, talk=talk)


@FILES
def test_a_file_with_every_line_in_force_is_understood(
    name: str, taken: Callable[..., Settings]
) -> None:
    text = re.sub(r"(?m)^# (?=\w+ = |\[)", "", (CONFIGS / name).read_text(encoding="utf-8"))
    Path("all.toml").write_text(text, encoding="utf-8")
    written = tomllib.loads(text)
    settings = taken("--config=all.toml", *(["--no-local"] if name == "local.toml" else []))
    assert list(written) == [*NAMES, "wire"]
    assert settings.talk.limits.max_requests == written["max_requests"]
    assert settings.talk.wire == WireSettings(
        {"garland": ("state", "sunRow")}, frozenset({"version"})
    )


@FILES
def test_the_wire_table_is_shown_as_an_example_with_a_word_on_each_line(name: str) -> None:
    _, wire = read(name)
    assert {line.name for line in wire} <= {*LOCATABLE, "ignore"}
    assert [line.is_in_force for line in wire] == [False, False]


# cron, systemd, and a cluster's cron

FOLDER: Final = "/opt/sunpleat"
NIGHT: Final = "0 1 * * *"
OTHER_HOURS: Final = "0 0,2-23 * * *"


def crontab() -> dict[str, str]:
    """Return the commands of the example by their times."""
    lines = (CONFIGS / "crontab.example").read_text(encoding="utf-8").splitlines()
    jobs = [line for line in lines if line and not line.startswith("#")]
    pattern = re.compile(r"(@reboot|(?:[\d*/,-]+ ){4}[\d*/,-]+) (.+)")
    return {match[1]: match[2] for match in map(pattern.fullmatch, jobs) if match}


def in_words(command: str) -> tuple[list[str], str]:
    """Return the words of a command of the crontab, and where its output goes."""
    call, _, output = command.removeprefix(f"cd {FOLDER} && ").partition(" >>")
    return shlex.split(call), output


def test_the_crontab_begins_a_run_a_night_and_resumes_every_other_hour_and_after_a_reboot() -> None:
    jobs = crontab()
    assert list(jobs) == [NIGHT, OTHER_HOURS, "@reboot", "30 0 * * *", "40 0 * * *"]
    begins, _ = in_words(jobs[NIGHT])
    resumes, _ = in_words(jobs[OTHER_HOURS])
    assert resumes == [*begins, "--resume-only"]
    assert jobs["@reboot"] == jobs[OTHER_HOURS]


def test_the_crontab_packs_old_runs_and_removes_older_ones() -> None:
    calls = [in_words(crontab()[when])[0] for when in ("30 0 * * *", "40 0 * * *")]
    config = f"--config {FOLDER}/configs/cron.toml"
    assert [shlex.join(call) for call in calls] == [
        f".venv/bin/python -m bot runs {config} --prune --keep 30 --compress --yes",
        f".venv/bin/python -m bot runs {config} --prune --keep 365 --yes",
    ]


def test_the_crontab_says_where_everything_is_and_has_no_sign_that_cron_changes() -> None:
    for command in crontab().values():
        assert "%" not in command
        assert command.startswith(f"cd {FOLDER} && ")
        words, output = in_words(command)
        assert words[:3] == [".venv/bin/python", "-m", "bot"]
        assert words[words.index("--config") + 1] == f"{FOLDER}/configs/cron.toml"
        assert output == f"{FOLDER}/runs/cron.log 2>&1"


def test_the_log_of_the_crontab_is_turned_over() -> None:
    rules = (CONFIGS / "logrotate.example").read_text(encoding="utf-8")
    (place,) = {in_words(command)[1] for command in crontab().values()}
    assert f"\n{place.removesuffix(' 2>&1')} {{\n" in rules


def read_unit(name: str) -> RawConfigParser:
    parser = RawConfigParser()
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # names are as they are
    parser.read_string((CONFIGS / name).read_text(encoding="utf-8"))
    return parser


@pytest.mark.parametrize(
    ("name", "when"), [("sunpleat", NIGHT), ("sunpleat-resume", OTHER_HOURS)], ids=["night", "hour"]
)
def test_a_unit_plays_the_seed_that_is_its_instance_as_the_crontab_does(
    name: str, when: str
) -> None:
    service = read_unit(f"{name}@.service")["Service"]
    words, _ = in_words(crontab()[when])
    by_cron = shlex.join(words).replace(".venv", f"{FOLDER}/.venv")
    assert service["ExecStart"] == by_cron.replace("--seed 7", "--seed %i")
    assert service["WorkingDirectory"] == FOLDER
    assert service["ReadWritePaths"] == f"{FOLDER}/runs"


def test_the_unit_that_resumes_differs_from_the_other_in_nothing_else() -> None:
    begins = {name: dict(part) for name, part in read_unit("sunpleat@.service").items()}
    resumes = {name: dict(part) for name, part in read_unit("sunpleat-resume@.service").items()}
    for unit in (begins, resumes):
        del unit["Unit"]["Description"], unit["Service"]["ExecStart"]
    assert resumes == begins


def test_the_units_take_try_later_and_our_own_stop_for_success() -> None:
    service = read_unit("sunpleat@.service")["Service"]
    assert service["SuccessExitStatus"].split() == ["75", "143"]


@pytest.mark.parametrize(
    ("name", "times"),
    [("sunpleat", "*-*-* 01:00"), ("sunpleat-resume", "*-*-* 00,02..23:00")],
    ids=["night", "hour"],
)
def test_a_timer_starts_when_the_crontab_does_and_makes_up_for_what_a_reboot_missed(
    name: str, times: str
) -> None:
    timer = read_unit(f"{name}@.timer")
    assert timer["Timer"]["OnCalendar"] == times
    assert timer["Timer"]["Persistent"] == "yes"
    assert timer["Install"]["WantedBy"] == "timers.target"


def test_the_jobs_of_a_cluster_are_those_of_the_crontab() -> None:
    _, begins, resumes = (CONFIGS / "cronjob.yaml").read_text(encoding="utf-8").split("---\n")
    for before, after in (
        ("  name: sunpleat\n", "  name: sunpleat-resume\n"),
        (f'"{NIGHT}"', f'"{OTHER_HOURS}"'),
        ('[--seed, "7"]', '[--seed, "7", --resume-only]'),
    ):
        assert begins.count(before) == 1
        begins = begins.replace(before, after)
    assert begins.splitlines()[1:] == resumes.splitlines()[1:]


def test_the_cluster_runs_the_image_as_the_user_that_it_is_for() -> None:
    image = (CONFIGS / "Containerfile").read_text(encoding="utf-8")
    jobs = (CONFIGS / "cronjob.yaml").read_text(encoding="utf-8")
    (user,) = re.findall(r"(?m)^USER (\d+):\1$", image)
    assert set(re.findall(r"(?:runAs\w+|fsGroup): (\d+)", jobs)) == {user}
    assert set(re.findall(r"mountPath: (\S+)", jobs)) == set(re.findall(r"VOLUME (\S+)", image))


def test_the_readme_s_page_for_it_names_every_ready_file() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    files = {path.name for path in CONFIGS.iterdir()} - {"local.toml"}
    assert {name for name in files if f"configs/{name}" not in readme} == set()


# What is installed

PINS: Final = ROOT / ".ci" / "requirements"
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def pins_of(extra: str) -> dict[str, str]:
    """Return by its name what the file of an extra says of each package, and those it includes."""
    text = (PINS / f"{extra}.txt").read_text(encoding="utf-8")
    blocks = re.findall(r"(?m)^([\w-]+)(==.*(?:\n .*)*)", text)
    below = [pins_of(other) for other in re.findall(r"(?m)^-r (\w+)\.txt$", text)]
    return {name: pin for pins in below for name, pin in pins.items()} | dict(blocks)


@pytest.mark.parametrize("extra", ["play", *PROJECT["project"]["optional-dependencies"]])
def test_all_that_an_extra_needs_is_pinned_with_hashes(extra: str) -> None:
    wanted = [*PROJECT["project"]["dependencies"], *PROJECT["build-system"]["requires"]]
    wanted += PROJECT["project"]["optional-dependencies"].get(extra, [])
    pins = pins_of(extra)
    assert all(" --hash=sha256:" in pin for pin in pins.values())
    names = {re.split(r"[\[><=]", one)[0].replace("_", "-") for one in wanted}
    assert names - pins.keys() <= {PROJECT["project"]["name"]}


def test_every_file_of_pins_belongs_to_playing_or_to_an_extra() -> None:
    extras = PROJECT["project"]["optional-dependencies"].keys()
    assert {path.stem for path in PINS.iterdir()} == {"play", *extras}
