"""The command line: options, configuration, wiring, exit codes.

`process` is the process around a call, and finds the verb that is meant; `signals` is what stops
it. No other module ends it. Each verb is one function in the module of its name; `status` is in
`runs`. `forms` is what the text of a setting may be, `sources` where its value comes from,
`settings` which there are and what they come to. `wiring` makes a client; `monitoring` pings, and
writes figures.
"""

from bot.cli.process import main

__all__ = ["main"]
