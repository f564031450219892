"""Settings: which source wins, what each of them reaches, and what is said of a bad one."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any, Final

import click
import pytest
from calls import Call, Said
from harness import environment, run_bot
from hypothesis import example, given
from hypothesis import settings as tuned
from hypothesis import strategies as st
from standins import KEY

from bot.cli.forms import BaseUrl, Folder, PingUrl, Text
from bot.cli.settings import SETTINGS, Settings
from bot.cli.sources import ConfigFile, Setting
from bot.client.clock import StopRequest
from bot.client.environment import Surroundings
from bot.client.limits import Limits
from bot.client.transport import Transport, new_transport
from bot.errors import ConfigError
from bot.service import LocalAdapter, Service
from bot.strategy import Goal
from bot.wire.layout import WireSettings

NAMES: Final = tuple(str(setting.name) for setting in SETTINGS)
FILE: Final = "given.toml"
EVERY_SETTING: Final = pytest.mark.parametrize("setting", SETTINGS, ids=NAMES)


@pytest.fixture(autouse=True)
def sent(monkeypatch: pytest.MonkeyPatch, alone: None) -> list[str]:  # noqa: ARG001 - an empty folder
    """Answer every request truly, whatever its host; this is the address of each."""
    addresses: list[str] = []
    adapter = LocalAdapter(Service(KEY))

    def send(_: Transport, request: Any, __: float) -> tuple[Any, bytes]:
        addresses.append(request.url)
        if len(addresses) > 99:
            pytest.fail("it plays where it should not")
        response = adapter.send(request)
        return response, response.raw.read()

    monkeypatch.setattr(Transport, "send", send)
    return addresses


@pytest.fixture
def taken(call: Call, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Settings]:
    """Call the bot and return the settings that it would play with."""
    caught: list[Settings] = []

    def play(settings: Settings, *_: object, **__: object) -> int:
        caught.append(settings)
        return 0

    monkeypatch.setattr("bot.cli.play.sit", play)

    def run(*arguments: str) -> Settings:
        said = call(*arguments)
        assert said == (0, "", "")
        return caught.pop()

    return run


SECRET: Final = "secret"
"""What `rows` has for a value that is set and never shown."""


def write_file(*lines: str) -> None:
    Path(FILE).write_text("\n".join(lines), encoding="utf-8")


def as_flag(setting: Setting, value: object) -> str:
    """Write a value as a flag."""
    if isinstance(value, bool):
        return (setting.opts if value else setting.secondary_opts)[0]
    return f"{setting.opts[0]}={value}"


def as_line(name: str, value: object) -> str:
    """Write a value as a line of a TOML file."""
    return f"{name} = {json.dumps(value)}"


def shown(value: object) -> str:
    """Write a value as `check` does."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "-" if value in (None, "") else str(value).removesuffix(".0")


def rows(said: Said) -> dict[str, tuple[str, str]]:
    """Return the value and the source of each setting, as `check` shows them."""
    assert (said.code, said.err) == (0, "")
    title, *lines = said.out.partition("\n\n")[0].splitlines()
    assert title == "Settings"
    lines = [line.replace("set, not shown", SECRET) for line in lines]
    fields = (line.split(maxsplit=2) for line in lines)
    return {name: (value, source) for name, value, source in fields}


# Precedence


def samples(setting: Setting) -> dict[str, Any]:
    """Return a value for each source, unlike that of the next weaker one."""
    kind, default = setting.type, setting.default
    values: tuple[Any, ...]
    if isinstance(kind, click.types.BoolParamType):
        values = (not default, default, not default)
    elif isinstance(kind, click.Choice):
        others = [choice for choice in kind.choices if choice != default]
        values = (others[0], default, others[-1])
    elif isinstance(kind, click.IntRange):
        values = (21, 22, 23)
    elif isinstance(kind, click.FloatRange):
        values = (12.5, 25, 50)
    elif isinstance(kind, BaseUrl | PingUrl):
        values = ("http://flag.test", "https://variable.test:8443", "http://file.test")
    elif isinstance(kind, Folder | Text):
        values = ("by-flag", "by-variable", "by-file")
    else:
        pytest.fail(f"the tests know no values of {kind!r}")
    return dict(zip(("flag", "variable", "file"), values, strict=True))


SOURCES: Final = ("flag", "variable", "file")
SUBSETS: Final = [
    tuple(source for bit, source in enumerate(SOURCES) if number >> bit & 1) for number in range(8)
]
"""Every choice of sources that say something, each with the strongest first."""


@pytest.mark.slow
@EVERY_SETTING
def test_the_strongest_source_wins_and_check_names_it(
    setting: Setting, call: Call, sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name, values = str(setting.name), samples(setting)
    variable = f"SUNPLEAT_{name.upper()}"
    said_by = {
        "flag": (shown(values["flag"]), "command line"),
        "variable": (shown(values["variable"]), variable),
        "file": (shown(values["file"]), FILE),
        "none": (shown(10 if name == "max_rps" else setting.default), "built-in"),
    }
    if name == "notify_url":
        said_by = {source: (SECRET, place) for source, (_, place) in said_by.items()}
        said_by["none"] = ("-", "built-in")
    actual, expected = {}, {}
    for speaking in SUBSETS:
        flags = [f"--config={FILE}"]
        if "flag" in speaking:
            flags.append(as_flag(setting, values["flag"]))
        write_file(*([as_line(name, values["file"])] if "file" in speaking else []))
        with monkeypatch.context() as patch:
            if name != "max_rps":
                patch.setenv("SUNPLEAT_MAX_RPS", "0")
            if "variable" in speaking:
                patch.setenv(variable, str(values["variable"]))
            shown_rows = rows(call("check", *flags))
            assert list(shown_rows) == list(NAMES)
            actual[speaking] = shown_rows[name]
            expected[speaking] = said_by[speaking[0] if speaking else "none"]
    assert actual == expected
    assert len(actual) == 8
    assert len(sent) == 2 * len(actual)  # init, and a flip


REACHES: Final[dict[str, tuple[object, Callable[[Settings], object], object]]] = {
    "seed": (3, lambda settings: settings.seed, 3),
    "bank_at": (21050, lambda settings: settings.goal, Goal(21050)),
    "bank_rule": ("exactly", lambda settings: settings.goal, Goal(1_000_000, "exactly")),
    "local": (
        True,
        lambda settings: (settings.talk.base_url, settings.talk.is_local),
        ("local", True),
    ),
    "base_url": ("HTTP://A.TEST:80/x/", lambda settings: settings.talk.base_url, "http://a.test/x"),
    "runs_dir": ("elsewhere", lambda settings: settings.talk.runs_dir, Path("elsewhere")),
    "max_rps": (2.5, lambda settings: settings.talk.limits, Limits(max_rps=2.5)),
    "max_requests": (5, lambda settings: settings.talk.limits, Limits(max_rps=10, max_requests=5)),
    "max_minutes": (
        0.5,
        lambda settings: settings.talk.limits,
        Limits(max_rps=10, max_minutes=0.5),
    ),
    "timeout": (9, lambda settings: settings.talk.limits, Limits(9, max_rps=10)),
    "give_up_after": (99, lambda settings: settings.talk.limits, Limits(30, 99, max_rps=10)),
    "use_environment_proxies": (True, lambda settings: settings.talk.use_environment_proxies, True),
    "contact": ("me@a.test", lambda settings: settings.talk.contact, "me@a.test"),
    "resume_only": (True, lambda settings: settings.is_resuming_only, True),
    "quiet": (True, lambda settings: settings.is_quiet, True),
    "log_format": ("json", lambda settings: settings.log_format, "json"),
    "notify_url": ("http://a.test/x", lambda settings: settings.notify_url, "http://a.test/x"),
    "metrics_file": ("a.prom", lambda settings: settings.metrics_file, Path("a.prom")),
}
"""A value of each setting, where it goes to, and what it is there."""


@EVERY_SETTING
def test_each_setting_reaches_what_it_is_for(
    setting: Setting, taken: Callable[..., Settings]
) -> None:
    value, reached, expected = REACHES[str(setting.name)]
    assert reached(taken()) != expected
    assert reached(taken(as_flag(setting, value))) == expected


@pytest.mark.parametrize(
    ("flags", "max_rps"),
    [
        ((), 10),
        (("--base-url=http://127.0.0.1:1",), 10),
        (("--local",), None),
        (("--local", "--max-rps=3"), 3),
        (("--max-rps=0",), None),
        (("--max-rps=0.5",), 0.5),
    ],
    ids=["remote", "loopback", "local", "local, set", "no limit", "half"],
)
def test_requests_are_paced_on_any_base_url_and_not_on_the_local_service(
    flags: tuple[str, ...], max_rps: float | None, taken: Callable[..., Settings]
) -> None:
    assert taken(*flags).talk.limits.max_rps == max_rps


# The local service or a base URL


@pytest.mark.parametrize("base_url", SOURCES)
@pytest.mark.parametrize("local", SOURCES)
def test_of_local_and_base_url_the_one_from_the_stronger_source_holds(
    local: str,
    base_url: str,
    call: Call,
    sent: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines, flags = [], [f"--config={FILE}"]
    for source, name, value in ((local, "local", True), (base_url, "base_url", "http://a.test")):
        if source == "flag":
            flags.append("--local" if value is True else f"--base-url={value}")
        elif source == "variable":
            monkeypatch.setenv(f"SUNPLEAT_{name.upper()}", str(value))
        else:
            lines.append(as_line(name, value))
    write_file(*lines)
    said = call(*flags, "--bank-at=0", "--quiet")
    if local == base_url:
        both = {
            "flag": "--local and --base-url",
            "variable": "SUNPLEAT_LOCAL and SUNPLEAT_BASE_URL",
            "file": f"{FILE}: local and base_url",
        }[local]
        message = f"{both} cannot go together; leave one of them out"
        assert_refused(said, 78, message, sent)
        return
    is_local = SOURCES.index(local) < SOURCES.index(base_url)
    host = "local" if is_local else "a.test"
    assert said == (0, "", "")
    assert sent[0] == f"http://{host}/api/games/sunpleat/init?seed=7"


def test_local_that_is_off_goes_together_with_a_base_url(taken: Callable[..., Settings]) -> None:
    write_file(as_line("local", value=False), as_line("base_url", "http://a.test"))
    assert taken(f"--config={FILE}").talk.base_url == "http://a.test"


# Values that are false, empty or zero


def test_zero_is_a_seed(call: Call, sent: list[str]) -> None:
    write_file("seed = 0", "bank_at = 0", "local = true", "quiet = true")
    assert call(f"--config={FILE}") == (0, "", "")
    assert sent[0].endswith("init?seed=0")
    (journal,) = Path("runs").glob("*-seed0-*.jsonl")
    assert json.loads(journal.read_text().splitlines()[0])["seed"] == 0


@pytest.mark.parametrize("source", SOURCES)
def test_a_threshold_of_zero_banks_at_once(
    source: str, call: Call, sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_file("bank_at = 0" if source == "file" else "")
    if source == "variable":
        monkeypatch.setenv("SUNPLEAT_BANK_AT", "0")
    flags = ["--bank-at=0"] if source == "flag" else []
    said = call("--local", "--json", "--quiet", f"--config={FILE}", *flags)
    result = json.loads(said.out)
    assert (said.code, result["score"], result["end_reason"]) == (0, 0, "banked")
    assert len(sent) == 2


@pytest.mark.parametrize("text", ["false", "0", "no", "off", ""], ids=lambda text: text or "empty")
@pytest.mark.parametrize("name", ["local", "quiet", "use_environment_proxies"])
def test_a_variable_that_says_no_wins_over_a_file_that_says_yes(
    name: str, text: str, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_file(as_line(name, value=True))
    monkeypatch.setenv(f"SUNPLEAT_{name.upper()}", text)
    said = call("check", f"--config={FILE}")
    assert rows(said)[name] == ("false", f"SUNPLEAT_{name.upper()}")


@pytest.mark.parametrize("source", ["flag", "variable"])
@pytest.mark.parametrize("name", ["notify_url", "metrics_file"])
def test_an_empty_text_wins_over_a_weaker_one(
    name: str, source: str, taken: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_file(as_line(name, "http://a.test/x"))
    flags = [f"--config={FILE}"]
    if source == "flag":
        flags.append(f"--{name.replace('_', '-')}=")
    else:
        monkeypatch.setenv(f"SUNPLEAT_{name.upper()}", "")
    settings = taken(*flags)
    assert (settings.notify_url, settings.metrics_file) == ("", None)


def test_an_empty_text_of_a_file_is_none(taken: Callable[..., Settings]) -> None:
    write_file('notify_url = ""', 'metrics_file = ""')
    settings = taken(f"--config={FILE}")
    assert (settings.notify_url, settings.metrics_file) == ("", None)


# Files


def test_a_file_that_begins_with_a_byte_order_mark_is_read(taken: Callable[..., Settings]) -> None:
    Path(FILE).write_bytes("seed = 3  # grüße\r\n".encode("utf-8-sig"))
    assert taken(f"--config={FILE}").seed == 3


def test_an_empty_file_says_nothing(taken: Callable[..., Settings]) -> None:
    write_file()
    assert taken(f"--config={FILE}") == taken()


RELATIVE: Final = {
    "beside": ("journals", "conf/journals"),
    "above": ("../journals", "journals"),
    "itself": (".", "conf"),
}


@pytest.mark.parametrize(("written", "expected"), RELATIVE.values(), ids=RELATIVE)
@pytest.mark.parametrize("name", ["runs_dir", "metrics_file"])
def test_a_relative_path_of_a_file_follows_the_file(
    name: str, written: str, expected: str, taken: Callable[..., Settings], tmp_path: Path
) -> None:
    Path("conf").mkdir()
    Path("conf", "a.toml").write_text(as_line(name, written))
    near = taken("--config=conf/a.toml")
    far = taken(f"--config={tmp_path}/conf/a.toml")
    reached = REACHES[name][1]
    assert reached(near) == Path(expected)
    assert reached(far) == tmp_path / expected


@pytest.mark.parametrize("name", ["runs_dir", "metrics_file"])
@pytest.mark.parametrize("source", SOURCES)
def test_a_path_that_begins_with_a_tilde_is_in_the_home_folder(
    source: str, name: str, taken: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    flags = [f"--{name.replace('_', '-')}=~/there"] if source == "flag" else []
    if source == "variable":
        monkeypatch.setenv(f"SUNPLEAT_{name.upper()}", "~/there")
    if source == "file":
        write_file(as_line(name, "~/there"))
        flags = [f"--config={FILE}"]
    assert REACHES[name][1](taken(*flags)) == Path("/home/ada/there")


@pytest.mark.parametrize("source", SOURCES)
def test_an_absolute_path_and_one_that_is_not_of_a_file_stay_as_they_are(
    source: str, taken: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("conf").mkdir()
    Path("conf", "a.toml").write_text('runs_dir = "/journals"')
    flags = ["--runs-dir=by-flag"] if source == "flag" else []
    if source == "variable":
        monkeypatch.setenv("SUNPLEAT_RUNS_DIR", "by-variable")
    expected = {"flag": "by-flag", "variable": "by-variable", "file": "/journals"}[source]
    assert taken("--config=conf/a.toml", *flags).talk.runs_dir == Path(expected)


def test_the_file_is_the_given_one_else_the_variables_else_the_default_of_the_folder(
    taken: Callable[..., Settings], call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert taken().seed == 7
    Path("configs").mkdir()
    Path("configs", "default.toml").write_text("seed = 1")
    assert taken().seed == 1
    assert rows(call("check"))["seed"] == ("1", "configs/default.toml")
    Path("variable.toml").write_text("seed = 2")
    monkeypatch.setenv("SUNPLEAT_CONFIG", "variable.toml")
    assert taken().seed == 2
    Path("flag.toml").write_text("seed = 3")
    assert taken("--config=flag.toml").seed == 3
    monkeypatch.setenv("SUNPLEAT_CONFIG", "")
    assert taken().seed == 7


def test_what_a_file_says_of_the_service_is_taken(taken: Callable[..., Settings]) -> None:
    write_file("[wire]", 'garland = "a.b\\\\.c"', 'token = "t"', 'ignore = ["version", "a.n"]')
    assert taken(f"--config={FILE}").talk.wire == WireSettings(
        {"garland": ("a", "b.c"), "token": ("t",)}, frozenset({"version", "a.n"})
    )


# Bad settings

WOULD_DO: Final = {
    "seed": "a whole number of at least 0 and at most 2^53 - 1",
    "bank_at": "a whole number of at least 0 and at most 2^53 - 1",
    "bank_rule": "one of at-least, at-most, exactly",
    "local": "true or false",
    "base_url": "scheme, host, and a path prefix if any, such as https://gameboard.gg",
    "runs_dir": "the name of a folder",
    "max_rps": "a number of at least 0",
    "max_requests": "a whole number of at least 1",
    "max_minutes": "a number above 0",
    "timeout": "a number above 0 and at most 86400",
    "give_up_after": "a number above 0",
    "use_environment_proxies": "true or false",
    "contact": "whom to reach, in plain ASCII without brackets, at most 100 characters",
    "resume_only": "true or false",
    "quiet": "true or false",
    "log_format": "one of text, json",
    "notify_url": "an http or https address, or nothing",
    "metrics_file": "the name of a file, or nothing",
}
NO_HEADER: Final = ": it has characters that a header does not take"
NO_PING: Final = ": it is no address that begins with http:// or https:// and a host"
IN_QUOTES: Final = ": it begins or ends with a blank or a quote"
UNSEEN: Final = ": it has characters that cannot be seen"
NO_SCHEME: Final = ": it does not begin with http:// or https:// and a host"
MORE: Final = ": it has more than scheme, host and path"
BAD_TEXTS: Final[list[tuple[str, str, str]]] = [
    *(("seed", text, "") for text in ("x", "", "-1", "9007199254740992", "7.0", "nan", "true")),
    *(("bank_at", text, "") for text in ("-1", "1e6", "1,000,000", "inf", "1" + "0" * 400)),
    *(("bank_rule", text, "") for text in ("at_least", "AT-LEAST", "")),
    ("base_url", "", NO_SCHEME),
    ("base_url", "gameboard.gg", NO_SCHEME),
    ("base_url", "http://a.test/\udcff", ": it has characters that cannot be printed"),
    ("base_url", "//gameboard.gg", NO_SCHEME),
    ("base_url", "ftp://gameboard.gg", NO_SCHEME),
    ("base_url", "https://", NO_SCHEME),
    ("base_url", "https:///api", NO_SCHEME),
    ("base_url", "https://a.test?seed=7", MORE),
    ("base_url", "https://a.test#top", MORE),
    ("base_url", "https://me:secret@a.test", MORE),
    ("base_url", "http://a.test:99999", ": Port out of range 0-65535"),
    ("base_url", "http://a.test:x", ": Port could not be cast to integer value as 'x'"),
    ("base_url", "http://a.test:0", ": there is no port 0"),
    ("base_url", "http://[::1", ": Invalid IPv6 URL"),
    (
        "base_url",
        "http://a b",
        ": Failed to parse: Host 'a b' contains invalid character ' '",
    ),
    ("base_url", "http://*.test", ": URL has an invalid label."),
    ("runs_dir", "", ": it is empty"),
    *(("max_rps", text, "") for text in ("ten", "-1", "nan", "inf", "")),
    *(("max_requests", text, "") for text in ("0", "-5", "1.5", "")),
    *(("max_minutes", text, "") for text in ("0", "nan", "-inf", "55m")),
    *(("timeout", text, "") for text in ("0", "86401", "1e999", "30s")),
    *(("give_up_after", text, "") for text in ("0", "-1", "NaN")),
    ("contact", "x" * 101, ": it has 101 characters"),
    *(("contact", text, NO_HEADER) for text in ("me\n@a.test", "(me)", "m\xe9", "a\\b")),
    ("log_format", "yaml", ""),
    *(
        ("notify_url", text, NO_PING)
        for text in (
            "hc-ping.com/x",
            "ftp://hc-ping.com/x",
            "http://",
            "http://[::1",
            "http://a\u200b",
        )
    ),
    *(
        ("runs_dir", text, IN_QUOTES)
        for text in ("runs ", " runs", "'runs'", '"runs"', "\u201cruns\u201d", "\truns")
    ),
    *(
        ("runs_dir", text, UNSEEN)
        for text in ("runs\r", "ru\u200bns", "runs\xa0", "\ufeffruns", "runs\u3000", "runs\udcff")
    ),
    (
        "runs_dir",
        "~no-such-user/x",
        ": ~no-such-user stands for no folder: there is no user no-such-user",
    ),
    ("metrics_file", "a.prom ", IN_QUOTES),
]
"""A setting, a text that it does not take, and the reason where what would do is not all."""
BAD_IN_VARIABLES: Final = [
    *BAD_TEXTS,
    ("local", "maybe", ""),
    ("quiet", "2", ""),
    ("resume_only", "maybe", ""),
    ("use_environment_proxies", "http://proxy.test", ""),
]


def got(name: str, value: object) -> str:
    """Return what a message says of the bad value; an address of pings is a secret."""
    return "" if name == "notify_url" else f", got {value!r}"


def ids_of(table: list[tuple[str, str, str]]) -> list[str]:
    return [f"{name}={value}" for name, value, _ in table]


def assert_refused(said: Said, code: int, message: str, sent: list[str]) -> None:
    """Hold a refusal against its one line; nothing was sent, nothing was made.

    Where a message ends in "...", the rest of its line is the parser's.
    """
    expected = f"sunpleat-bot: {message}\n"
    if message.endswith("..."):
        beginning = expected.removesuffix("...\n")
        assert said.err.startswith(beginning)
        assert said.err.count("\n") == 1
        expected = said.err
    assert said == (code, "", expected)
    assert sent == []
    assert not Path("runs").exists()


@pytest.mark.parametrize(("name", "text", "why"), BAD_TEXTS, ids=ids_of(BAD_TEXTS))
def test_a_bad_flag_is_a_usage_error(
    name: str, text: str, why: str, call: Call, sent: list[str]
) -> None:
    flag = f"--{name.replace('_', '-')}"
    message = f"Invalid value for '{flag}': expected {WOULD_DO[name]}{got(name, text)}{why}"
    message = message.removesuffix(".")
    said = call(f"{flag}={text}")
    assert_refused(said, 2, f"{message}; see --help", sent)
    said = call("check", f"{flag}={text}")
    assert_refused(said, 2, f"{message}; see check --help", sent)


@pytest.mark.parametrize(("name", "text", "why"), BAD_IN_VARIABLES, ids=ids_of(BAD_IN_VARIABLES))
def test_a_bad_variable_is_a_configuration_error(
    name: str,
    text: str,
    why: str,
    call: Call,
    sent: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    variable = f"SUNPLEAT_{name.upper()}"
    monkeypatch.setenv(variable, text)
    expected = f"expected {WOULD_DO[name]}{got(name, text)}{why}"
    assert_refused(call(), 78, f"environment variable {variable}: {expected}", sent)


BAD_LINES: Final[list[tuple[str, str, str]]] = [
    *(("seed", text, "") for text in ("true", "7.0", '"7"', "-1", "9007199254740992", "[7]")),
    ("seed", "2026-11-30", ""),
    ("seed", "nan", ""),
    *(("bank_at", text, "") for text in ('"1000000"', "-1", "1e6", "inf", "false")),
    *(("bank_rule", text, "") for text in ('"atleast"', "1", '""')),
    *(("local", text, "") for text in ("1", '"true"', '""')),
    ("base_url", "1", ""),
    ("base_url", '""', NO_SCHEME),
    ("base_url", '"gameboard.gg"', NO_SCHEME),
    ("base_url", '"https://a.test/?a=b"', MORE),
    ("base_url", '"https://me@a.test"', MORE),
    ("base_url", '"http://a.test:65536"', ": Port out of range 0-65535"),
    ("runs_dir", '""', ": it is empty"),
    ("runs_dir", '"a\\u0000b"', ": it has a null character"),
    ("runs_dir", "false", ""),
    *(("max_rps", text, "") for text in ("nan", "inf", "-0.5", "true", '"10"')),
    *(("max_requests", text, "") for text in ("0", "1.0", "true", '"5"')),
    *(("max_minutes", text, "") for text in ("0", "-inf", "false", "[]")),
    *(("timeout", text, "") for text in ("0", "86400.5", "nan", f"1{'0' * 400}")),
    *(("give_up_after", text, "") for text in ("0.0", "inf", "{}")),
    ("contact", "1", ""),
    ("contact", '"a\\nb"', NO_HEADER),
    *(("use_environment_proxies", text, "") for text in ('"yes"', "0")),
    *(("resume_only", text, "") for text in ('"false"', "1")),
    *(("quiet", text, "") for text in ('"false"', "[]")),
    *(("log_format", text, "") for text in ('"JSON"', "0")),
    *(("notify_url", text, NO_PING) for text in ('"hc-ping.com/x"', '"mailto:me@a.test"')),
    ("notify_url", "false", ""),
    ("metrics_file", "1", ""),
    ("metrics_file", '"a\\u0000b"', ": it has a null character"),
]
"""A setting, what a file has for it, and the reason where what would do is not all."""


@pytest.mark.parametrize(
    ("name", "text", "why"),
    BAD_LINES,
    ids=[f"{name}={text.replace(chr(92), '')[:24]}" for name, text, _ in BAD_LINES],
)
def test_a_bad_line_of_a_file_is_a_configuration_error(
    name: str,
    text: str,
    why: str,
    call: Call,
    sent: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import tomllib

    write_file("# one of ours", f"{name} = {text}")
    value = tomllib.loads(f"value = {text}")["value"]
    message = f"{name}: expected {WOULD_DO[name]}{got(name, value)}{why}"
    assert_refused(call(f"--config={FILE}"), 78, f"--config {FILE}: {message}", sent)
    monkeypatch.setenv("SUNPLEAT_CONFIG", FILE)
    assert_refused(call(), 78, f"SUNPLEAT_CONFIG={FILE}: {message}", sent)


def test_the_tables_have_a_bad_value_of_every_setting() -> None:
    assert tuple(WOULD_DO) == NAMES
    assert {name for name, _, _ in BAD_LINES} == set(NAMES)
    assert {name for name, _, _ in BAD_IN_VARIABLES} == set(NAMES)


KNOWN: Final = f"there are {', '.join(NAMES)}, wire"
LOCATABLE: Final = (
    "token, garland, legalActions, gameOver, version, phase, boardNumber, templateIndex, n, par, "
    "target, movesUsed, moveBudget, remainingMoves, leaves, score, clearedBoards, lastAward, "
    "endReason, turn, ignore"
)
BAD_FILES: Final[dict[str, tuple[bytes, str]]] = {
    "a misspelt key": (b"bank_ta = 1", "unknown key 'bank_ta'; did you mean 'bank_at'?"),
    "a hyphen": (b"max-rps = 1", "unknown key 'max-rps'; did you mean 'max_rps'?"),
    "capitals": (b"Seed = 1", "unknown key 'Seed'; did you mean 'seed'?"),
    "a key like none": (b"xyz = 1", f"unknown key 'xyz'; {KNOWN}"),
    "an option that is no setting": (b"fresh = true", f"unknown key 'fresh'; {KNOWN}"),
    "a table": (b"[sunpleat]\nseed = 1", f"unknown key 'sunpleat'; {KNOWN}"),
    "a misspelt wire key": (
        b"[wire]\ngarlant = 'a'",
        "wire: unknown key 'garlant'; did you mean 'garland'?",
    ),
    "a wire key like none": (
        b"[wire]\nxyz = 'a'",
        f"wire: unknown key 'xyz'; there are {LOCATABLE}",
    ),
    "wire is no table": (b"wire = 1", "wire: expected a table such as [wire], got 1"),
    "a wire path that is no text": (
        b"[wire]\nscore = 1",
        "wire.score: a path is a text such as state.garland, not 1",
    ),
    "a wire path with an empty key": (
        b"[wire]\nscore = 'a..b'",
        "wire.score: a path is keys with dots between them, such as state.garland: 'a..b'",
    ),
    "a wire path that is empty": (
        b"[wire]\nscore = ''",
        "wire.score: a path is keys with dots between them, such as state.garland: ''",
    ),
    "wire.ignore is a text": (
        b"[wire]\nignore = 'version'",
        "wire.ignore: expected a list of names, got 'version'",
    ),
    "wire.ignore has a number": (
        b"[wire]\nignore = ['version', 1]",
        "wire.ignore: expected a list of names, got ['version', 1]",
    ),
    "not TOML": (b"seed: 7", "not TOML: Expected '=' after a key in a key/value pair..."),
    "a key twice": (b"seed = 1\nseed = 2", "not TOML: Cannot overwrite a value..."),
    "JSON": (b'{"seed": 7}', "not TOML: Invalid statement..."),
    "Latin-1": (b"seed = 7 # gr\xfc\xdfe", "not TOML: 'utf-8' codec can't decode byte 0xfc..."),
    "UTF-16": ("seed = 7".encode("utf-16"), "not TOML: 'utf-8' codec can't decode byte 0xff..."),
    "binary": (bytes(range(256)), "not TOML: ..."),
    "too deep": (b"seed = " + b"[" * 20_000, "nested too deeply to read"),
    "tables too deep": (b"seed." + b"a." * 2000 + b"a = 1", "nested too deeply to read"),
    "11 deep": (b"seed = " + b"[" * 10 + b"]" * 10, "nested too deeply to read"),
    "10 deep": (b"seed = " + b"[" * 9 + b"]" * 9, "seed: expected a whole number..."),
}
"""What a file holds, and how the message goes on after the name of the file."""


@pytest.mark.parametrize(("content", "message"), BAD_FILES.values(), ids=BAD_FILES)
def test_a_file_with_something_wrong_in_it_is_a_configuration_error(
    content: bytes, message: str, call: Call, sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    default = Path("configs", "default.toml")
    default.parent.mkdir()
    for path in (Path(FILE), default):
        path.write_bytes(content)
    assert_refused(call(f"--config={FILE}"), 78, f"--config {FILE}: {message}", sent)
    assert_refused(call(), 78, f"{default}: {message}", sent)
    monkeypatch.setenv("SUNPLEAT_CONFIG", FILE)
    assert_refused(call("check"), 78, f"SUNPLEAT_CONFIG={FILE}: {message}", sent)


def test_a_missing_file_is_wrong_usage_as_a_flag_and_wrong_configuration_as_a_variable(
    call: Call, sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_refused(call("--config=no.toml"), 2, "--config: there is no file no.toml", sent)
    monkeypatch.setenv("SUNPLEAT_CONFIG", "no.toml")
    assert_refused(
        call(), 78, "SUNPLEAT_CONFIG=no.toml: cannot be read: No such file or directory", sent
    )


def test_a_folder_in_place_of_a_file_is_refused_likewise(
    call: Call, sent: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("folder").mkdir()
    assert_refused(call("--config=folder"), 2, "--config: folder is not a file", sent)
    monkeypatch.setenv("SUNPLEAT_CONFIG", str(tmp_path))
    assert_refused(call(), 78, f"SUNPLEAT_CONFIG={tmp_path}: cannot be read: not a file", sent)


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("SUNPLEAT_BANKAT", "SUNPLEAT_BANK_AT"),
        ("SUNPLEAT_SED", "SUNPLEAT_SEED"),
        ("SUNPLEAT_bank_at", None),
        ("SUNPLEAT_CONFIGS", "SUNPLEAT_CONFIG"),
        ("SUNPLEAT_SERVICE_HOST", None),
        ("SUNPLEAT_PORT", None),
        ("SUNPLEAT_", None),
        ("SUNPLEATS_SEED", None),
    ],
)
def test_a_variable_that_nearly_is_a_setting_is_refused(
    variable: str,
    meant: str | None,
    call: Call,
    sent: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(variable, "1")
    if meant:
        assert_refused(call(), 78, f"unknown variable {variable}; did you mean {meant}?", sent)
    else:
        assert call("solve", "--", "1").code == 0


def test_a_file_with_a_name_too_long_is_refused(
    call: Call, sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "x" * 300
    assert_refused(call(f"--config={name}"), 2, f"--config: there is no file {name}", sent)
    monkeypatch.setenv("SUNPLEAT_CONFIG", name)
    message = f"SUNPLEAT_CONFIG={name}: cannot be read: File name too long"
    assert_refused(call(), 78, message, sent)


def test_a_default_file_that_nobody_may_look_for_is_none(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "is_file", refuse)
    assert call("solve", "--json", "--", "-1").result == {"flips": [1], "par": 1}


@pytest.mark.parametrize("named_by", ["--config", "SUNPLEAT_CONFIG", "default"])
def test_a_file_that_may_not_be_read_is_a_configuration_error(
    named_by: str, call: Call, sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Path) -> bytes:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    Path("configs").mkdir()
    Path("configs", "default.toml").touch()
    write_file()
    monkeypatch.setattr(Path, "read_bytes", refuse)
    flags = [f"--config={FILE}"] if named_by == "--config" else []
    label = {"--config": f"--config {FILE}", "default": "configs/default.toml"}.get(named_by)
    if named_by == "SUNPLEAT_CONFIG":
        monkeypatch.setenv(named_by, FILE)
        label = f"{named_by}={FILE}"
    assert_refused(call(*flags), 78, f"{label}: cannot be read: Permission denied", sent)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--sed=7",), "No such option '--sed'. Did you mean '--seed'? see --help"),
        (("--seed",), "Option '--seed' requires an argument"),
        (("--local=yes",), "Option '--local' does not take a value"),
        (("chekc",), "No such command 'chekc'. Did you mean 'check'? see --help"),
    ],
    ids=["misspelt", "no value", "a value too many", "misspelt verb"],
)
def test_a_flag_that_cannot_be_understood_is_a_usage_error(
    flags: tuple[str, ...], message: str, call: Call, sent: list[str]
) -> None:
    assert_refused(call(*flags), 2, message, sent)


def test_a_flag_is_not_disturbed_by_a_bad_variable_that_it_wins_over(
    taken: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUNPLEAT_SEED", "x")
    assert taken("--seed=3").seed == 3


@pytest.mark.parametrize(
    ("bank_at", "nearest"),
    [(1001, "995 and 1005"), (300, "215 and 350"), (1, "0 and 175"), (1_000_001, None)],
    ids=str,
)
@pytest.mark.parametrize("source", SOURCES)
def test_a_number_that_no_play_lands_on_is_refused_with_the_nearest(
    source: str,
    bank_at: int,
    nearest: str | None,
    call: Call,
    sent: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_file(*(["bank_rule = 'exactly'", f"bank_at = {bank_at}"] if source == "file" else []))
    if source == "variable":
        monkeypatch.setenv("SUNPLEAT_BANK_RULE", "exactly")
        monkeypatch.setenv("SUNPLEAT_BANK_AT", str(bank_at))
    flags = ["--bank-rule=exactly", f"--bank-at={bank_at}"] if source == "flag" else []
    message = (
        f"no play ends on exactly {bank_at} points; "
        f"the nearest are {nearest or '1000000 and 1000005'}"
    )
    assert_refused(call(f"--config={FILE}", *flags), 78, message, sent)


def test_a_process_says_a_bad_setting_in_one_line_and_makes_nothing(tmp_path: Path) -> None:
    ended = run_bot(tmp_path, env=environment(SUNPLEAT_BANK_AT="1e6"))
    assert (ended.returncode, ended.stdout) == (78, "")
    assert ended.stderr == (
        "sunpleat-bot: environment variable SUNPLEAT_BANK_AT: "
        "expected a whole number of at least 0 and at most 2^53 - 1, got '1e6'\n"
    )
    assert list(tmp_path.iterdir()) == []


# Laws

TOML_VALUES: Final = st.recursive(
    st.one_of(
        st.booleans(),
        st.integers(),
        st.integers(10**300, 10**400),
        st.floats(),
        st.text(),
        st.dates(),
        st.sampled_from([False, "", "http://", "https://a", date(2026, 11, 30), 10**400]),
    ),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=4,
)


@pytest.mark.slow
@EVERY_SETTING
@tuned(deadline=None, max_examples=60)
@given(value=TOML_VALUES)
def test_any_value_of_a_file_is_taken_or_refused_in_words(setting: Setting, value: object) -> None:
    name = str(setting.name)
    config = ConfigFile(Path(FILE), FILE, {name: value})
    ctx = click.Context(click.Command("play"), obj=config, default_map={name: value})
    refusal = None
    try:
        setting.handle_parse_result(ctx, {}, [])
    except ConfigError as exc:
        refusal = str(exc)
    if refusal is None:
        taken_value = ctx.params[name]
        assert setting.type.convert(taken_value, setting, None) == taken_value
    else:
        assert refusal.startswith(f"{FILE}: {name}: expected {WOULD_DO[name]}{got(name, value)}")


HOSTS: Final = st.text(st.sampled_from("ab.-_*%:@[]<> \\\0\x7fé℀1"), max_size=12)


@pytest.mark.slow
@tuned(deadline=None, max_examples=300)
@example("a b")
@example(".a")
@example("*")
@example("\udc80")
@example("xn--")
@example("bücher.example")
@given(host=HOSTS)
def test_an_address_that_is_taken_can_be_asked(host: str) -> None:
    with suppress(click.BadParameter):
        address = BaseUrl().convert(f"http://{host}/x", None, None)
        transport = new_transport(StopRequest(), Surroundings())
        assert str(transport.prepare("GET", address).url).startswith("http://")
        assert BaseUrl().convert(address, None, None) == address


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/tty"])
def test_a_device_in_place_of_a_file_is_never_opened(
    device: str, call: Call, sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUNPLEAT_CONFIG", device)
    said = call()
    assert (said.code, sent) == (78, [])
    assert said.err.startswith(f"sunpleat-bot: SUNPLEAT_CONFIG={device}: cannot be read: ")
    assert_refused(call(f"--config={device}"), 2, f"--config: {device} is not a file", sent)


def test_a_folder_without_a_name_is_refused_after_a_verb_too(call: Call, sent: list[str]) -> None:
    said = call("runs", "--prune", "--keep=0", "--yes", "--runs-dir=")
    assert (said.code, sent) == (2, [])
    assert "it is empty" in said.err


@pytest.mark.parametrize("home", [None, "", "relative"], ids=str)
def test_a_tilde_without_a_home_is_refused(
    home: str | None, call: Call, sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if home is None:
        monkeypatch.delenv("HOME", raising=False)
    else:
        monkeypatch.setenv("HOME", home)
    monkeypatch.setenv("SUNPLEAT_RUNS_DIR", "~/runs")
    why = "~ stands for no folder, since HOME does not name one"
    expected = f"expected the name of a folder, got '~/runs': {why}"
    message = f"environment variable SUNPLEAT_RUNS_DIR: {expected}"
    assert_refused(call(), 78, message, sent)


@pytest.mark.parametrize("name", ["runs", "my runs", "it's", "läufe", "a/b", ".", "-"])
def test_an_ordinary_name_of_a_folder_is_taken(name: str, taken: Callable[..., Settings]) -> None:
    assert taken(f"--runs-dir={name}").talk.runs_dir == Path(name)
