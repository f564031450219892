"""Makes the pictures of the README: `docs/report.png` and `docs/terminal.png`.

    .venv/bin/pip install -q -r .ci/requirements/pictures.txt && .venv/bin/python docs/pictures.py

It needs Debian's packages `chromium` and `chromium-driver`. The report is the one of a made
night, with retries and stops; the terminal is a real one, in which the bot plays on a service
that fails now and then.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pyte
from rich.console import Console
from rich.style import Style
from rich.text import Text
from selenium.webdriver import Chrome

DOCS: Final = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent / "tests"))

from browser import chromium, look  # noqa: E402 - it is found beside the tests
from sample_runs import BEGAN, a_night  # noqa: E402
from standins import Reply, Request, StandIn, reply  # noqa: E402

from bot.report.page import run_page  # noqa: E402
from bot.report.story import read_story  # noqa: E402

COLUMNS: Final = 84
LINES: Final = 6
BANK_AT: Final = 100_000
SHOWN_AT: Final = 60
"""Per cent of the way at which, or soon after it, the terminal is pictured."""


def picture(chrome: Chrome, page: Path, to: Path, *, width: int, height: int) -> None:
    """Write the top of a page as a PNG."""
    look(chrome, width=width, height=height)
    chrome.get(page.as_uri())
    clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
    shot = chrome.execute_cdp_cmd("Page.captureScreenshot", {"clip": clip})
    to.write_bytes(base64.b64decode(shot["data"]))


def report_page(folder: Path) -> Path:
    """Write the report of a made night."""
    page = folder / "report.html"
    now = datetime(BEGAN.year, BEGAN.month, BEGAN.day, 9, tzinfo=UTC)
    page.write_text(run_page(read_story(a_night(folder)), now), encoding="utf-8")
    return page


def fail_now_and_then(_: Request, number: int) -> Reply | None:
    """Answer some requests with an error, the others truly."""
    return reply(503, b"busy", ("Retry-After", "1")) if number in (400, 1100) else None


def screen(folder: Path) -> pyte.Screen:
    """Return a terminal in which the bot is playing."""
    terminal = pyte.Screen(COLUMNS, LINES)
    stream = pyte.ByteStream(terminal)
    with StandIn(fail_now_and_then) as service, playing(folder, service.url) as output:
        while percent(terminal) < SHOWN_AT:
            stream.feed(os.read(output, 4096))
    return terminal


def percent(terminal: pyte.Screen) -> int:
    """Return how far the bar is."""
    match = re.search(r"(\d+)%", "\n".join(terminal.display))
    return int(match[1]) if match else 0


@contextlib.contextmanager
def playing(folder: Path, url: str) -> Iterator[int]:
    """Play in a terminal of its own; yield where its output is read."""
    output, inside = pty.openpty()
    fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    command = [sys.executable, "-m", "bot", "--bank-at", str(BANK_AT), "--base-url", url]
    bot = subprocess.Popen(  # noqa: S603 - our own program
        [*command, "--max-rps", "0", "--runs-dir", "runs"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(DOCS.parent), "TERM": "xterm-256color"},
        stdout=inside,
        stderr=inside,
    )
    os.close(inside)
    try:
        yield output
    finally:
        bot.terminate()
        with contextlib.suppress(OSError):  # the terminal is gone with the bot
            while os.read(output, 4096):
                pass
        bot.wait()
        os.close(output)


def drawing(terminal: pyte.Screen) -> str:
    """Return a terminal as SVG, with no font from elsewhere."""
    console = Console(record=True, width=COLUMNS, file=open(os.devnull, "w"))  # noqa: PTH123, SIM115
    console.print(Text(f"$ .venv/bin/python -m bot --bank-at {BANK_AT}"))
    for number in range(LINES - 1):
        line = Text()
        for column in range(COLUMNS):
            character = terminal.buffer[number][column]
            colour = "default" if character.fg == "default" else _colour(character.fg)
            line.append(character.data, Style(color=colour, bold=character.bold))
        console.print(line, no_wrap=True)
    svg = console.export_svg(title="sunpleat-bot")
    return re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)


def _colour(name: str) -> str:
    return f"#{name}" if re.fullmatch(r"[0-9a-f]{6}", name) else name


def main() -> None:
    """Make both pictures."""
    with TemporaryDirectory() as name, chromium(Path(name, "profile")) as chrome:
        folder = Path(name)
        picture(chrome, report_page(folder), DOCS / "report.png", width=1100, height=790)
        page = folder / "terminal.html"
        svg = drawing(screen(folder))
        page.write_text(f"<style>body {{ margin: 0 }}</style>{svg}", encoding="utf-8")
        size = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
        width, height = (round(float(side)) for side in size.groups()) if size else (1000, 300)
        picture(chrome, page, DOCS / "terminal.png", width=width, height=height)


if __name__ == "__main__":
    main()
