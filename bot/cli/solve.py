"""The verb `solve`."""

from __future__ import annotations

import re
from typing import Final

import click

from bot import solver
from bot.cli.process import AS_JSON
from bot.console import streams
from bot.garland import flip, format_garland, parse_garland

PENNANT: Final = re.compile("[-+]?[0-9]{1,9}")
"""A number; of any other text, or a greater number, no garland is made."""


@click.command(params=[AS_JSON], context_settings={"ignore_unknown_options": True})
@click.argument("pennants", nargs=-1, required=True, metavar="PENNANTS...")
def solve(pennants: tuple[str, ...], *, as_json: bool) -> int:
    """Print the fewest flips that restore a garland, such as: solve -- -2 -1 3."""
    garland = parse_garland([int(one) if PENNANT.fullmatch(one) else one for one in pennants])
    flips = solver.solve(garland)
    if as_json:
        streams.answer_json({"flips": flips, "par": len(flips)})
        return 0
    streams.answer(f"        {format_garland(garland)}")
    for count in flips:
        garland = flip(garland, count)
        streams.answer(f"flip {count}  {format_garland(garland)}")
    streams.answer(f"par {len(flips)}")
    return 0
