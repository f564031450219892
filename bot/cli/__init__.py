"""The command line: options, configuration, wiring, exit codes.

`options` are the settings as flags and variables, `settings` reads the file and puts the
values together. `commands` are the verbs: `playing` wires a sitting, with `monitoring` for
pings and figures, `inspecting`, `reporting` and `checking` are the others. `process` is the
process around them and `signals` what stops it; no other module ends it.
"""

from bot.cli.process import main

__all__ = ["main"]
