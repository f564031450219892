"""The verbs of the command line: each is one function in the module of its name.

Only the module of the verb that is called is imported.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

import click

from bot import __version__

CONTEXT: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
DEFAULT: Final = "play"
"""The verb that is meant where none is named."""
VERBS: Final = (DEFAULT, "check", "status", "runs", "replay", "report", "solve", "serve")


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
        command: click.Command = getattr(import_module(f"bot.cli.{cmd_name}"), cmd_name)
        command.context_settings = {**command.context_settings, **CONTEXT}
        return command

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Show the flags of the default verb as well: without a verb they are meant."""
        self.get_command(ctx, DEFAULT).format_options(ctx, formatter)
        self.format_commands(ctx, formatter)


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
After 69, 75, 76, 77 and these three the next call resumes the run.
""",
)
@click.version_option(__version__, prog_name="sunpleat-bot")
def cli() -> None:
    """Play Sunpleat, unattended, until the bank threshold; or do one of the verbs below.

    Without a verb it plays: it clears garland after garland in the fewest flips, writes
    every token and award into a journal, and banks at the threshold. Stop it as you like: the
    next call with the same service and seed resumes the run.
    """
