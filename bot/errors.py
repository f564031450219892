"""Every error that the bot raises on purpose, and the exit code that each one earns.

BotError                         70  a fault of the bot itself
├── UsageError                    2  flags, arguments, a file to read that is not there
│   ├── GarlandError              2  not a signed permutation of 1 to n
│   └── NotAJournal               2  a file that is no journal
├── ActionError                  70  an action outside the grammar, or illegal in its state
├── ServiceUnavailable           69  the service is out of reach, or will not serve us
│   └── BrokenAnswer             69  an answer that is none: cut, or no JSON
├── OutputError                  74  a result cannot be written to stdout
├── JournalError                 74  the journal cannot be written
│   └── JournalDamaged           74  a journal is broken before its last line
├── TryLater                     75  another bot has this run, or a budget is used up
├── Contradiction                76  an answer contradicts the rules or cannot be understood
│   ├── Diverged                 76  fields of an answer differ from the prediction
│   └── Unreadable               76  JSON in which neither token nor state is to be found
├── TokenRefused                 77  the service refuses the token; the run is kept for an hour
├── ConfigError                  78  files, environment, or values that cannot go together
└── Stopped                 130/143  SIGINT or SIGTERM, 129 SIGHUP

The numbers are those of sysexits.h, and 128 + signal as shells report it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Mapping

AS_ASKED = 0
"""Exit code of a run that was banked as asked, and of a journal that was verified."""
OTHERWISE = 1
"""Exit code of a run that ended in another way, and of a replay that found a fault."""


class BotError(Exception):
    """What a person is told in one line, and the exit code that goes with it."""

    exit_code: int = 70


class UsageError(BotError):
    """A flag, an argument or a named file is not usable."""

    exit_code = 2


class GarlandError(UsageError):
    """A value is not a signed permutation of 1 to n, n from 1 to 5."""


class NotAJournal(UsageError):
    """A file that was to be read as a journal is not one."""


class ActionError(BotError):
    """An action is outside the grammar, or not legal in the state it was applied to."""


class ServiceUnavailable(BotError):
    """The service cannot be reached, answers nothing usable, or will not serve us."""

    exit_code = 69


class BrokenAnswer(ServiceUnavailable):
    """What came back is no answer to the request; it is never counted as a move."""


class OutputError(BotError):
    """A result cannot be written to stdout: it is closed, or its disk is full."""

    exit_code = 74


class JournalError(BotError):
    """The journal cannot be written: disk full, quota, read-only, no locks."""

    exit_code = 74


class JournalDamaged(JournalError):
    """A journal is damaged before its last line, or says what the rules contradict."""


class TryLater(BotError):
    """Nothing is wrong; another bot has this run, or the budget of this call is used up."""

    exit_code = 75


class Contradiction(BotError):
    """The service's answer contradicts the rules, or cannot be understood."""

    exit_code = 76


class Diverged(Contradiction):
    """Fields of an answer differ from what the rules predict, twice in a row."""

    def __init__(self, message: str, fields: Mapping[str, Mapping[str, object]]) -> None:
        """Keep `fields`: the service's name of each to its `predicted` and `observed` value."""
        super().__init__(message)
        self.fields = fields


class Unreadable(Contradiction):
    """An answer that is JSON, and cannot be understood."""

    def __init__(self, message: str, *, has_token: bool = False) -> None:
        """Note whether there was at least a token in it."""
        super().__init__(message)
        self.has_token = has_token


class TokenRefused(BotError):
    """The service does not take the token; the run is kept until that has lasted an hour."""

    exit_code = 77

    def __init__(self, cause: str) -> None:
        """Keep what the service says as `cause`."""
        super().__init__(f"the service refuses the token: {cause}")
        self.cause = cause


class ConfigError(BotError):
    """A configuration file, an environment variable, or a combination of values is wrong."""

    exit_code = 78


class Stopped(BotError):
    """A signal asked the bot to stop."""

    NAMES: ClassVar[dict[int, str]] = {1: "SIGHUP", 2: "SIGINT", 15: "SIGTERM"}

    def __init__(self, signal_number: int) -> None:
        """Take the number of the signal, one of `NAMES`."""
        super().__init__(f"stopped by {self.NAMES[signal_number]}")
        self.exit_code = 128 + signal_number
