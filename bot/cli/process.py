"""The process around a command: its streams, its last word, and its exit code."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from typing import NoReturn

import click

from bot.cli.signals import STOPS, meet
from bot.console import streams
from bot.errors import BotError, OutputError, Stopped, UsageError
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
    """Run a command line; return its exit code.

    Raises:
        ModuleNotFoundError: a package that is not ours is missing.
    """
    from bot.cli.verbs import cli  # noqa: PLC0415 - the streams come first

    flags = arguments[: arguments.index("--")] if "--" in arguments else arguments
    as_json = "--json" in flags
    try:
        return int(cli.main(arguments, prog_name=NAME, standalone_mode=False) or 0)
    except click.ClickException as exc:
        context = getattr(exc, "ctx", None)
        hint = f"; see {context.command_path.removesuffix(' play')} --help" if context else ""
        text = exc.format_message().removesuffix(".") + hint
        return _fail(text, UsageError.exit_code, as_json=as_json)
    except BotError as exc:
        return _fail(str(exc), exc.exit_code, as_json=as_json)
    except (click.Abort, KeyboardInterrupt):
        stopped = Stopped(2)
        return _end(str(stopped), stopped.exit_code, as_json=as_json)
    except ModuleNotFoundError as exc:
        if (exc.name or "").partition(".")[0] != "bot":
            raise
        return _tell_fault(as_json=as_json)
    except Exception as exc:  # noqa: BLE001 - the last resort of the process
        if isinstance(exc, OSError) and exc.errno == errno.ENOSPC:  # click's own, of stdout
            text = f"cannot write the result: {exc.strerror}"
            return _fail(text, OutputError.exit_code, as_json=False)
        return _tell_fault(as_json=as_json)


def _tell_fault(*, as_json: bool) -> int:
    """Show the traceback of the exception at hand."""
    import traceback  # noqa: PLC0415 - nobody should ever need it

    trace = traceback.format_exc()
    streams.say(f"{NAME}: this is a fault of the bot; please report it\n{trace}")
    return _end(f"a fault of the bot\n{trace}", BotError.exit_code, as_json=as_json)


def _fail(text: str, exit_code: int, *, as_json: bool) -> int:
    """Say what was wrong, in one line."""
    streams.say(one_line(f"{NAME}: {text}"))
    return _end(text, exit_code, as_json=as_json)


def _end(text: str, exit_code: int, *, as_json: bool) -> int:
    """Say for programs what was wrong, where they are to be told."""
    if as_json:
        with suppress(OutputError):
            streams.answer_failure(text, exit_code)
    return exit_code


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
