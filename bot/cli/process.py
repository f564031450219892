"""The process around a verb: which one is meant, its streams, its last word, its exit code.

Only the module of the verb that is called is imported.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from contextlib import suppress
from importlib import import_module
from types import FrameType
from typing import Final, NamedTuple, NoReturn

import click

from bot import __version__
from bot.cli.signals import STOPS, meet
from bot.console import streams
from bot.errors import BotError, OutputError, Stopped, UsageError
from bot.words import one_line

NAME: Final = "sunpleat-bot"
CONTEXT: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
DEFAULT: Final = "play"
"""The verb that is meant where none is named."""


class Verb(NamedTuple):
    """What can be asked for."""

    module: str
    """In which it is the function of its name."""
    does: str
    """In a line."""


VERBS: Final = {
    DEFAULT: Verb("play", "Play, or resume a run; what is meant without a verb."),
    "check": Verb("check", "Show the settings, and what the service answers."),
    "status": Verb("runs", "Show where a run stands."),
    "runs": Verb("runs", "List all runs; pack or remove old ones."),
    "replay": Verb("replay", "Prove a run by the rules; watch it; ask a service again."),
    "report": Verb("report", "Write a page with charts of a run, or of all runs."),
    "solve": Verb("solve", "Print the fewest flips for a garland."),
    "serve": Verb("serve", "Serve the game over HTTP."),
}


AS_JSON: Final = click.Option(
    ["--json", "as_json"], is_flag=True, help="Print the result as one JSON object."
)
"""For each verb that has a result; without one, the error is printed so."""


class _Verbs(click.Group):
    """A group whose verbs are imported when they are called, with one that is the default."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take a command line that begins with a flag for one of the default verb."""
        ours = [name for option in self.get_params(ctx) for name in option.opts]
        if not args or (args[0].startswith("-") and args[0] not in ours):
            args = [DEFAULT, *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name every verb."""
        del ctx
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        """Import a verb.

        Raises:
            NoSuchCommand: there is no such one.
        """
        if cmd_name not in VERBS:
            raise click.NoSuchCommand(cmd_name, possibilities=VERBS, ctx=ctx)
        module = import_module(f"bot.cli.{VERBS[cmd_name].module}")
        command: click.Command = getattr(module, cmd_name)
        command.context_settings = {**command.context_settings, **CONTEXT}
        return command

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Show the flags of the default verb, which are meant without a verb, and the verbs."""
        playing = import_module("bot.cli.settings").PLAYING  # `play` itself is not needed for it
        click.Command(DEFAULT, params=[*playing, *self.params]).format_options(ctx, formatter)
        with formatter.section("Verbs"):
            formatter.write_dl([(name, verb.does) for name, verb in VERBS.items()])


@click.group(
    cls=_Verbs,
    context_settings=CONTEXT,
    options_metavar="[OPTIONS]",
    subcommand_metavar="| VERB [OPTIONS]",
    epilog="""\b
Examples:
  python -m bot --local                    play on the built-in service
  python -m bot --seed 8 --bank-at 21050   play on the remote one, in short
  python -m bot replay latest              prove the last run
  python -m bot check                      show settings; ask the service twice

\b
Every setting can also come from the environment (SUNPLEAT_BANK_AT=21050) or from a
TOML file (bank_at = 21050). A flag wins over the environment, and that over the file.

\b
Exit codes: 0 banked as asked, or nothing to resume; 1 ended otherwise, or a replay
found a fault; 2 usage; 69 service unavailable; 70 fault of the bot; 74 journal or
result not written; 75 try later; 76 the service contradicts the rules; 77 token
refused; 78 configuration; 129/130/143 stopped.
After 69, 70, 75, 76, 77 and these three the next call resumes the run.
""",
)
@click.version_option(__version__, prog_name=NAME)
def cli() -> None:
    """Play Sunpleat, unattended, until the bank threshold; or do one of the verbs below.

    Without a verb it plays: it clears garland after garland in the fewest flips, writes
    every token and award into a journal, and banks at the threshold. Stop it as you like: the
    next call with the same service and seed resumes the run.
    """


def main() -> NoReturn:
    """Run the command line of this process, and end it with the exit code that was earned."""
    _occupy_standard_streams()
    meet(_stop, signal.SIGTERM, signal.SIGHUP)  # as the interpreter does with SIGINT
    code = run(sys.argv[1:])
    meet(lambda *_: os._exit(code), *STOPS)  # what was earned is earned
    _flush(sys.stdout)
    _flush(sys.stderr)
    meet(signal.SIG_IGN, *STOPS)  # the interpreter would give up any other handler before its end
    sys.exit(code)


def _stop(number: int, _: FrameType | None) -> NoReturn:
    raise Stopped(number)


def run(arguments: list[str]) -> int:
    """Run a command line; return its exit code.

    Raises:
        ModuleNotFoundError: a package that is not ours is missing.
    """
    flags = arguments[: arguments.index("--")] if "--" in arguments else arguments
    as_json = "--json" in flags
    try:
        return int(cli.main(arguments, prog_name=NAME, standalone_mode=False) or 0)
    except click.ClickException as exc:
        text = exc.format_message().removesuffix(".") + _hint(getattr(exc, "ctx", None))
        return _fail(text.replace("?;", "?"), UsageError.exit_code, as_json=as_json)
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


def _hint(context: click.Context | None) -> str:
    """Return where to read about what was asked for."""
    if context is None:
        return ""
    verb = context.command_path.removeprefix(NAME).removesuffix(f" {DEFAULT}")
    return f"; see{verb} --help"


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
            streams.answer_json(streams.failure(text, exit_code))
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
