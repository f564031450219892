from __future__ import annotations

import re

import pytest

from bot import errors
from bot.errors import BotError, Diverged, Stopped

EXIT_CODES: dict[str, int] = {
    "BotError": 70,
    "UsageError": 2,
    "GarlandError": 2,
    "NotAJournal": 2,
    "ActionError": 70,
    "ServiceUnavailable": 69,
    "BrokenAnswer": 69,
    "OutputError": 74,
    "JournalError": 74,
    "JournalDamaged": 74,
    "TryLater": 75,
    "Contradiction": 76,
    "Diverged": 76,
    "Unreadable": 76,
    "TokenRefused": 77,
    "ConfigError": 78,
}
"""Every class whose exit code is fixed."""

DRAWN = re.compile(r"^(?P<branch>[│├└─ ]*)(?P<name>[A-Z]\w+) {2,}(?P<codes>\d+(?:/\d+)*)  \S")


def real_classes() -> dict[str, type[BotError]]:
    return {
        name: value
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, BotError)
    }


def drawn_tree() -> dict[str, tuple[str, set[int]]]:
    """Read the docstring's tree: each class to the name of its parent and its exit codes."""
    tree: dict[str, tuple[str, set[int]]] = {}
    ancestors: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        if drawn := DRAWN.match(line):
            depth = len(drawn["branch"]) // 4
            ancestors = [*ancestors[:depth], drawn["name"]]
            parent = ancestors[depth - 1] if depth else "Exception"
            tree[drawn["name"]] = (parent, set(map(int, drawn["codes"].split("/"))))
    return tree


def real_codes(kind: type[BotError]) -> set[int]:
    return {Stopped(2).exit_code, Stopped(15).exit_code} if kind is Stopped else {kind.exit_code}


@pytest.mark.parametrize(("name", "code"), EXIT_CODES.items(), ids=EXIT_CODES)
def test_each_error_has_its_exit_code(name: str, code: int) -> None:
    assert real_classes()[name].exit_code == code


def test_no_error_is_without_an_exit_code_in_this_table() -> None:
    assert set(real_classes()) == {*EXIT_CODES, "Stopped"}


def test_the_ends_of_a_run_have_their_exit_codes() -> None:
    assert (errors.AS_ASKED, errors.OTHERWISE) == (0, 1)


@pytest.mark.parametrize(
    ("signal_number", "code", "message"),
    [
        (2, 130, "stopped by SIGINT"),
        (15, 143, "stopped by SIGTERM"),
        (1, 129, "stopped by SIGHUP"),
    ],
    ids=["SIGINT", "SIGTERM", "SIGHUP"],
)
def test_a_signal_ends_the_bot_with_128_and_its_number(
    signal_number: int, code: int, message: str
) -> None:
    stopped = Stopped(signal_number)
    assert (stopped.exit_code, str(stopped)) == (code, message)


def test_the_code_of_one_signal_does_not_change_the_code_of_another() -> None:
    first = Stopped(2)
    Stopped(15)
    assert first.exit_code == 130


def test_the_tree_in_the_docstring_is_the_tree_of_the_classes() -> None:
    assert drawn_tree() == {
        name: (kind.__bases__[0].__name__, real_codes(kind))
        for name, kind in real_classes().items()
    }


def test_a_refused_token_keeps_what_the_service_says() -> None:
    refused = errors.TokenRefused("it is too old")
    assert (str(refused), refused.cause) == (
        "the service refuses the token: it is too old",
        "it is too old",
    )


def test_a_divergence_keeps_the_fields_that_differ() -> None:
    fields = {"score": {"predicted": 215, "observed": 216}}
    diverged = Diverged("score differs", fields)
    assert (str(diverged), diverged.fields) == ("score differs", fields)


def test_an_answer_that_cannot_be_understood_says_whether_a_token_was_in_it() -> None:
    assert errors.Unreadable("no garland", has_token=True).has_token
    assert not errors.Unreadable("nothing at all").has_token
