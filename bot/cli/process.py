"""The process around a command: its streams, its signals, and its exit code."""

from __future__ import annotations

import errno
import os
import sys
from typing import NoReturn

import click

from bot.cli.signals import STOPS, meet
from bot.console import streams
from bot.errors import BotError, OutputError, UsageError
from bot.words import one_line

NAME = "sunpleat-bot"


def main() -> NoReturn:
    """Run the command line of this process, and end it with the exit code that was earned."""
    _occupy_standard_streams()
    code = run(sys.argv[1:])
    meet(lambda *_: os._exit(code), *STOPS)  # what was earned is earned
    _flush(sys.stdout)
    _flush(sys.stderr)
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run a command line; return its exit code."""
    from bot.cli.commands import cli  # noqa: PLC0415 - the streams come first

    try:
        result = cli.main(arguments, prog_name=NAME, standalone_mode=False)
    except click.ClickException as exc:
        context = getattr(exc, "ctx", None)
        hint = f"; see {context.command_path} --help" if context else ""
        message = exc.format_message().removesuffix(".")
        streams.say(one_line(f"{NAME}: {message}{hint}"))
        return UsageError.exit_code
    except BotError as exc:
        streams.say(one_line(f"{NAME}: {exc}"))
        return exc.exit_code
    except (click.Abort, KeyboardInterrupt):
        return 130
    except Exception as exc:  # noqa: BLE001 - the last resort of the process
        if isinstance(exc, OSError) and exc.errno == errno.ENOSPC:  # click's own, of stdout
            streams.say(f"{NAME}: cannot write the result: {exc.strerror}")
            return OutputError.exit_code
        import traceback  # noqa: PLC0415 - nobody should ever need it

        streams.say(
            f"{NAME}: this is a fault of the bot; please report it\n{traceback.format_exc()}"
        )
        return BotError.exit_code
    return int(result or 0)


def _occupy_standard_streams() -> None:
    """Open standard streams that are closed, so that no journal gets their number.

    Text that a stream's encoding lacks is escaped.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _flush(stream: object) -> None:
    """Flush a stream; where that fails, keep the interpreter from failing at it again."""
    if stream is None or not hasattr(stream, "flush"):
        return
    try:
        stream.flush()
    except (OSError, ValueError):
        descriptor = 1 if stream is sys.stdout else 2
        os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
