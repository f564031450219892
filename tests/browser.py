"""A real Chromium without a window, and what a page did in it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

OPTIONS: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)


@contextmanager
def chromium(profile: Path) -> Iterator[Chrome]:
    """Run Chromium with a fresh profile; a machine without it fails the test."""
    from selenium.webdriver import Chrome, ChromeOptions
    from selenium.webdriver.chrome.service import Service

    programs = [shutil.which(name) for name in ("chromium", "chromedriver")]
    if None in programs:
        pytest.fail("Chromium is missing: apt-get install chromium chromium-driver")
    options = ChromeOptions()
    options.binary_location = str(programs[0])
    for option in (*OPTIONS, f"--user-data-dir={profile}"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = Chrome(options=options, service=Service(str(programs[1])))
    try:
        yield driver
    finally:
        driver.quit()


def look(driver: Chrome, *, width: int = 1280, height: int = 900, is_dark: bool = False) -> None:
    """Give the page a width and a colour scheme."""
    scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500},
    )


def requested(driver: Chrome) -> list[str]:
    """Return every address that was asked for since this was last called."""
    found = []
    for entry in _log(driver, "performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] in ("Network.requestWillBeSent", "Network.webSocketCreated"):
            params = message["params"]
            found.append(params.get("request", params)["url"])
    return found


def _log(driver: Chrome, name: str) -> list[dict[str, str]]:
    entries: list[dict[str, str]] = driver.get_log(name)  # type: ignore[no-untyped-call]  # selenium's own
    return entries


def complaints(driver: Chrome) -> list[str]:
    """Return every line of the console since this was last called."""
    return [entry["message"] for entry in _log(driver, "browser")]


def barriers(driver: Chrome) -> list[str]:
    """Return what axe finds in the page that keeps people out."""
    driver.execute_script((files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8"))
    result: dict[str, Any] = driver.execute_async_script(
        "const done = arguments[0];"
        "axe.run(document).then(done, (error) => done({violations: [String(error)]}));"
    )
    return [
        f"{one['id']}: {one['help']}: {one['nodes'][0]['html']}" for one in result["violations"]
    ]
