"""The command line: options, configuration, wiring, exit codes.

XX
`verbs` finds the verb that is meant, each of which is one module of its name. `forms` is what the
text of a setting may be, `options` are the settings as flags and variables, `config` is the file
of them, `settings` puts them together.
`wiring` makes a client; `monitoring` pings, and writes figures.
"""

from bot.cli.process import main

__all__ = ["main"]
