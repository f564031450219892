"""The command line: options, configuration, wiring, exit codes.

`options` are the settings as flags and variables, `settings` reads the file and puts the
values together, `commands` are the verbs, `playing` wires a sitting, `process` is the
only place that ends the process.
"""

from bot.cli.process import main

__all__ = ["main"]
