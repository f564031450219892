from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest
from browser import barriers, chromium, complaints, look, requested
from sample_runs import HOSTILE, SampleRun, a_night, hostile_run
from selenium.webdriver import ActionChains, Chrome, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select, WebDriverWait

from bot import rules
from bot.journal.events import ActionTaken
from bot.journal.reader import parse_line, read_lines
from bot.replay.summary import summarise
from bot.report.page import overview_page, run_page
from bot.report.story import read_story
from bot.rules import Action, State
from bot.strategy import Goal
from bot.words import visible

pytestmark = [pytest.mark.browser, pytest.mark.slow]

NOW: Final = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)
LOOKS: Final = [
    pytest.param(width, is_dark, id=f"{width} {'dark' if is_dark else 'light'}")
    for width in (1280, 390)
    for is_dark in (False, True)
]


@pytest.fixture(scope="module")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    with chromium(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return a_night(tmp_path_factory.mktemp("night"), 21_050)


@pytest.fixture(scope="module")
def night_page(night: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    page = tmp_path_factory.mktemp("pages") / "night.html"
    page.write_text(run_page(read_story(night), NOW), encoding="utf-8")
    return page


@pytest.fixture
def report(chrome: Chrome, night_page: Path) -> Chrome:
    return show(chrome, night_page)


def show(chrome: Chrome, page: Path, **view: Any) -> Chrome:
    """Open a page; whatever was said and asked for before is forgotten."""
    look(chrome, **view)
    complaints(chrome)
    requested(chrome)
    chrome.get(page.as_uri())
    return chrome


def write_page(path: Path, journal: Path) -> Path:
    page = path / "page.html"
    page.write_text(run_page(read_story(journal), NOW), encoding="utf-8")
    return page


def one(chrome: Chrome, selector: str) -> WebElement:
    return chrome.find_element(By.CSS_SELECTOR, selector)


def press(chrome: Chrome, *keys: str) -> None:
    """Press keys while the garland has the focus."""
    chrome.execute_script("document.getElementById('stage').focus()")
    ActionChains(chrome).send_keys(*keys).perform()


def click(chrome: Chrome, deed: str) -> None:
    chrome.execute_script("arguments[0].click()", one(chrome, f"[data-do={deed}]"))


def hanging(chrome: Chrome) -> list[int]:
    """Return the garland as it is drawn, from left to right."""
    drawn: list[int] = chrome.execute_script(
        "return [...document.querySelectorAll('#garland .pennant')]"
        ".sort((a, b) => new DOMMatrix(a.style.transform).e - new DOMMatrix(b.style.transform).e)"
        ".map((pennant) => Number(pennant.dataset.pennant))"
    )
    return drawn


def told(chrome: Chrome) -> str:
    return one(chrome, "#garland-text").text


def words(state: State) -> str:
    """Say a state as the page is to say it."""
    pennants = ", ".join(f"{'sun' if p > 0 else 'moon'} {abs(p)}" for p in state.garland)
    moves = f"{state.remaining_moves} {'move' if state.remaining_moves == 1 else 'moves'} left"
    leaves = f"{state.leaves} {'leaf' if state.leaves == 1 else 'leaves'}"
    return f"{pennants}. {moves}, {leaves}, {state.score:,} points."


def played(journal: Path) -> dict[tuple[int, int], tuple[Action | None, State]]:
    """Return, by board and step, the action and the state after it, as the rules have it."""
    state = rules.fresh()
    step = 0
    states: dict[tuple[int, int], tuple[Action | None, State]] = {(1, 0): (None, state)}
    for line in read_lines(journal):
        event = parse_line(line).event
        if isinstance(event, ActionTaken):
            action = rules.parse_action(event.action)
            after = rules.apply(state, action)
            step = 0 if after.board_number != state.board_number else step + 1
            states[after.board_number, step] = (action, after)
            state = after
    return states


# -- the page --------------------------------------------------------------------------------


@pytest.mark.parametrize(("width", "is_dark"), LOOKS)
def test_the_page_says_nothing_to_the_console_and_asks_for_nothing(
    chrome: Chrome, night_page: Path, width: int, *, is_dark: bool
) -> None:
    show(chrome, night_page, width=width, is_dark=is_dark)
    press(chrome, Keys.ARROW_RIGHT, Keys.PAGE_DOWN, "i")
    for details in chrome.find_elements(By.CSS_SELECTOR, "summary"):
        chrome.execute_script("arguments[0].click()", details)
    assert complaints(chrome) == []
    assert [url for url in requested(chrome) if not url.startswith("data:")] == [
        night_page.as_uri()
    ]


@pytest.mark.parametrize(("width", "is_dark"), LOOKS)
def test_the_page_keeps_nobody_out(
    chrome: Chrome, night_page: Path, width: int, *, is_dark: bool
) -> None:
    show(chrome, night_page, width=width, is_dark=is_dark)
    chrome.execute_script("document.querySelectorAll('details').forEach((d) => (d.open = true))")
    assert barriers(chrome) == []


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
def test_nothing_is_wider_than_the_screen(chrome: Chrome, night_page: Path, width: int) -> None:
    show(chrome, night_page, width=width)
    chrome.execute_script("document.querySelectorAll('details').forEach((d) => (d.open = true))")
    widest = chrome.execute_script(
        "return Math.max(document.documentElement.scrollWidth, ...[...document.querySelectorAll("
        "'body *:not(.scroll *, .plot *, svg *, .unseen)')]"
        ".map((e) => e.getBoundingClientRect().right))"
    )
    assert widest <= width


@pytest.mark.parametrize("width", [1280, 390])
def test_each_chart_is_drawn_with_its_numbers(chrome: Chrome, night_page: Path, width: int) -> None:
    show(chrome, night_page, width=width)
    plots = chrome.find_elements(By.CSS_SELECTOR, ".plot")
    assert len(plots) == 3
    assert all(plot.is_displayed() and plot.rect["height"] > 100 for plot in plots)
    assert "bank at 21,050" in one(chrome, "#chart-points svg").text
    chrome.execute_script("document.querySelectorAll('details').forEach((d) => (d.open = true))")
    rows = chrome.find_elements(By.CSS_SELECTOR, "#templates tbody tr")
    assert [row.text.split()[:5] for row in rows][4:6] == [
        ["5", "5", "19", "95", "5,035"],
        ["6", "5", "19", "95", "5,035"],
    ]


def test_a_chart_is_as_wide_as_its_place_or_can_be_moved_in_it(
    chrome: Chrome, night_page: Path
) -> None:
    for width, is_moved in ((1280, False), (390, True)):
        show(chrome, night_page, width=width)
        wider = chrome.execute_script(
            "return [...document.querySelectorAll('.plot')]"
            ".map((plot) => plot.scrollWidth > plot.clientWidth)"
        )
        assert wider == [is_moved] * 3


def test_no_text_of_a_chart_is_cut_off(chrome: Chrome, night_page: Path) -> None:
    for width in (1280, 390):
        show(chrome, night_page, width=width)
        cut = chrome.execute_script(
            "return [...document.querySelectorAll('.plot text')].filter((text) => {"
            "  const [box, svg] = [text, text.closest('svg')]"
            "    .map((one) => one.getBoundingClientRect());"
            "  return box.width && (box.left < svg.left - 1 || box.right > svg.right + 1);"
            "}).map((text) => text.textContent)"
        )
        assert cut == []


def test_a_chart_is_read_by_keyboard_and_by_pointing(report: Chrome) -> None:
    tip = one(report, "#chart-pace .tip")
    plot = one(report, "#chart-pace .plot")
    report.execute_script("arguments[0].focus()", plot)
    ActionChains(report).send_keys(Keys.HOME).perform()
    first = tip.text
    assert re.fullmatch(r"[\d: ]+ to [\d: ]+: [\d.]+ requests a second", first)
    ActionChains(report).send_keys(Keys.ARROW_RIGHT).perform()
    assert tip.text != first
    ActionChains(report).send_keys(Keys.ARROW_LEFT, Keys.ARROW_LEFT).perform()
    assert tip.text == first
    ActionChains(report).move_to_element_with_offset(plot, 200, 0).perform()
    assert tip.text not in ("", first)


# -- the player ------------------------------------------------------------------------------


def test_the_player_steps_through_every_board_as_the_rules_have_it(
    report: Chrome, night: Path
) -> None:
    states = played(night)
    press(report)
    for place, ((board, step), (action, state)) in enumerate(states.items()):
        if place:
            click(report, "step")
        assert one(report, "#board-title").text == (
            f"Board {board}, template {state.template_index}"
        )
        assert hanging(report) == list(state.garland)
        name = "Start" if step == 0 else str(action)
        assert re.match(rf"Step {step} of \d+, {name}: ", told(report))
        assert words(state) in told(report)
    assert one(report, "[data-do=step]").get_attribute("aria-disabled") == "true"
    assert told(report).endswith("Banked.")


def test_a_restart_and_a_failed_board_are_shown_as_the_rules_have_them(
    chrome: Chrome, tmp_path: Path
) -> None:
    with SampleRun(tmp_path, Goal(21_050)) as run:
        run.act(rules.RESTART)
        for _ in range(5):
            run.act(rules.FLIPS[0])
        run.play(10)
    show(chrome, write_page(tmp_path, run.path))
    for step in range(9):
        assert words(played(run.path)[1, step][1]) in told(chrome)
        press(chrome, Keys.ARROW_RIGHT)
        if step == 5:
            assert "No moves left: a leaf is spent." in told(chrome)


def test_faces_are_told_apart_by_shape(report: Chrome) -> None:
    shapes = report.execute_script(
        "return [...document.querySelectorAll('.pennant')].map((pennant) => ["
        "  Number(pennant.dataset.pennant), pennant.querySelector('.flag').getAttribute('d'),"
        "  Boolean(pennant.querySelector('.disc')), Boolean(pennant.querySelector('.crescent')),"
        "  pennant.querySelector('text').textContent])"
    )
    assert [(p, sun, moon, text) for p, _, sun, moon, text in shapes] == [
        (-2, False, True, "2"),
        (-1, False, True, "1"),
        (3, True, False, "3"),
    ]
    assert len({flag for _, flag, *_ in shapes}) == 2


def test_the_next_flip_is_shown_under_the_pennants_that_turn(report: Chrome) -> None:
    assert one(report, ".bracket-text").text == "next: flip 2"


def test_the_keyboard_steps_back_and_forth(report: Chrome, night: Path) -> None:
    states = played(night)
    press(report, Keys.ARROW_RIGHT)
    assert words(states[1, 1][1]) in told(report)
    press(report, Keys.ARROW_LEFT)
    assert words(states[1, 0][1]) in told(report)
    press(report, Keys.PAGE_DOWN, Keys.PAGE_DOWN, Keys.END)
    assert words(states[3, 3][1]) in told(report)
    assert "Cleared: 240 points." in told(report)
    press(report, Keys.HOME)
    assert words(states[3, 0][1]) in told(report)
    press(report, Keys.PAGE_UP)
    assert one(report, "#board-title").text.startswith("Board 2,")
    press(report, Keys.PAGE_UP, Keys.PAGE_UP, Keys.ARROW_LEFT)
    assert words(states[1, 0][1]) in told(report)
    assert one(report, "[data-do=step-back]").get_attribute("aria-disabled") == "true"


def test_every_control_is_reached_with_the_tab_key(report: Chrome) -> None:
    report.execute_script("document.getElementById('stage').focus()")
    reached = set()
    for _ in range(30):
        ActionChains(report).send_keys(Keys.TAB).perform()
        active = report.switch_to.active_element
        reached.add(active.get_attribute("data-do") or active.get_attribute("id"))
    assert reached >= {
        "board-back",
        "step-back",
        "play",
        "step",
        "board",
        "board-number",
        "speed",
        "incident",
        "incident-back",
        "board-slider",
    }


def test_it_plays_by_itself_until_a_person_stops_it(report: Chrome) -> None:
    Select(one(report, "#speed")).select_by_visible_text("very fast")
    press(report, Keys.SPACE)
    assert one(report, "#play").text == "‖ Pause"
    assert one(report, "#garland-text").get_attribute("aria-live") == "off"
    WebDriverWait(report, 20).until(lambda _: one(report, "#board-title").text > "Board 3")
    press(report, Keys.ARROW_LEFT)
    assert one(report, "#play").text == "▶ Play"
    assert one(report, "#garland-text").get_attribute("aria-live") == "polite"


def test_it_stops_by_itself_at_the_last_step(report: Chrome) -> None:
    Select(one(report, "#speed")).select_by_visible_text("very fast")
    one(report, "#board-number").send_keys(Keys.CONTROL, "a")
    one(report, "#board-number").send_keys("80", Keys.ENTER)
    click(report, "play")
    WebDriverWait(report, 20).until(lambda _: "Banked." in told(report))
    WebDriverWait(report, 20).until(lambda _: one(report, "#play").text == "▶ Play")


def test_a_board_is_reached_by_its_number_and_by_the_slider(report: Chrome, night: Path) -> None:
    states = played(night)
    one(report, "#board-number").send_keys(Keys.CONTROL, "a")
    one(report, "#board-number").send_keys("57", Keys.ENTER)
    assert words(states[57, 0][1]) in told(report)
    one(report, "#board-slider").send_keys(Keys.ARROW_RIGHT)
    assert words(states[58, 0][1]) in told(report)
    one(report, "#board-number").send_keys(Keys.CONTROL, "a")
    one(report, "#board-number").send_keys("99999", Keys.ENTER)
    assert one(report, "#board-title").text.startswith("Board 80,")


def test_a_step_is_reached_by_its_button(report: Chrome, night: Path) -> None:
    press(report, Keys.PAGE_DOWN, Keys.PAGE_DOWN)
    buttons = report.find_elements(By.CSS_SELECTOR, "#steps button")
    assert [button.text.split()[0] for button in buttons] == ["start", "flip", "flip", "flip"]
    buttons[2].click()
    assert words(played(night)[3, 2][1]) in told(report)
    current = [b.get_attribute("aria-current") for b in buttons]
    assert current == [None, None, "step", None]


def test_an_incident_is_reached_from_the_table_and_by_key(report: Chrome) -> None:
    buttons = report.find_elements(By.CSS_SELECTOR, "button.show")
    assert len(buttons) == 9
    report.execute_script("arguments[0].click()", buttons[3])
    assert buttons[3].text == one(report, "#board-title").text.split(",")[0].lower()
    assert "Here: retry: no answer: timed out" in one(report, "#step-incidents").text
    assert report.switch_to.active_element.get_attribute("id") == "stage"
    press(report, Keys.PAGE_UP, "i")
    assert "no answer: timed out" in one(report, "#step-incidents").text
    press(report, "I")
    assert "went on after 5 min 12 s" in one(report, "#step-incidents").text


def test_without_script_all_but_the_player_is_there(chrome: Chrome, night_page: Path) -> None:
    chrome.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        show(chrome, night_page)
        assert one(chrome, "#chart-points svg").is_displayed()
        assert not one(chrome, "#player").is_displayed()
        assert "needs JavaScript" in one(chrome, "#boards").text
        assert not any(b.is_displayed() for b in chrome.find_elements(By.CSS_SELECTOR, ".show"))
    finally:
        chrome.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_with_motion_unwanted_nothing_glides(chrome: Chrome, night_page: Path) -> None:
    show(chrome, night_page)
    scheme = {"name": "prefers-reduced-motion", "value": "reduce"}
    chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    assert one(chrome, ".pennant").value_of_css_property("transition-duration") in ("0s", "")


# -- what a hostile service sends, and what a run may lack ------------------------------------


def test_a_hostile_service_runs_nothing_and_is_read_as_text(chrome: Chrome, tmp_path: Path) -> None:
    page = write_page(tmp_path, hostile_run(tmp_path))
    show(chrome, page)
    press(chrome, "i", "i", "i", "i")
    assert complaints(chrome) == []
    assert [url for url in requested(chrome) if not url.startswith("data:")] == [page.as_uri()]
    causes = [cause.text for cause in chrome.find_elements(By.CSS_SELECTOR, ".cause")]
    shown = " ".join(visible(HOSTILE).split())
    assert f"{shown} (HTTP 503)" in causes
    assert shown in causes
    assert one(chrome, "#step-incidents").text != ""
    assert chrome.find_elements(By.CSS_SELECTOR, "img, main script") == []


def test_a_script_that_got_in_would_not_run(chrome: Chrome, tmp_path: Path, night: Path) -> None:
    text = run_page(read_story(night), NOW)
    page = tmp_path / "page.html"
    page.write_text(
        text.replace(
            "<main>",
            "<main><script>document.title = 'got in'</script>"
            "<img src='https://example.test/x.png'>",
        ),
        encoding="utf-8",
    )
    show(chrome, page)
    assert chrome.title == f"Sunpleat run {night.stem}"
    assert len([line for line in complaints(chrome) if "Content Security Policy" in line]) == 2


def unfinished(run: SampleRun) -> bytes:
    run.suspend("stopped by SIGTERM", 143)
    return run.path.read_bytes()


def damaged(run: SampleRun) -> bytes:
    lines = run.path.read_bytes().splitlines(keepends=True)
    return b"".join([*lines[:50], b"<script>\n", *lines[50:]])


def torn(run: SampleRun) -> bytes:
    return run.path.read_bytes()[:-20]


def just_begun(run: SampleRun) -> bytes:
    return run.path.read_bytes().splitlines(keepends=True)[0]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (unfinished, "This run is not over. Its last sitting ended: stopped by SIGTERM"),
        (damaged, "the first is line 51: line is '<script>"),
        (torn, "The last line was never written whole"),
        (just_begun, "There is nothing to draw yet"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_run_that_lacks_something_says_so_and_shows_the_rest(
    chrome: Chrome, tmp_path: Path, make: Any, says: str
) -> None:
    with SampleRun(tmp_path, Goal(21_050)) as run:
        run.play(100)
        content = make(run)
    run.path.write_bytes(content)
    page = write_page(tmp_path, run.path)
    show(chrome, page, width=390)
    assert says in one(chrome, "body").text
    assert one(chrome, "#player").is_displayed()
    assert complaints(chrome) == []
    assert barriers(chrome) == []


@pytest.mark.parametrize(("width", "is_dark"), LOOKS)
def test_the_overview_shows_each_run_and_leads_to_its_page(
    chrome: Chrome, tmp_path: Path, night: Path, width: int, *, is_dark: bool
) -> None:
    damaged = tmp_path / "20261129T000000Z-seed7-0001.jsonl"
    damaged.write_bytes(night.read_bytes().replace(b'"score":1970', b'"score":1971', 1))
    runs = [summarise(path) for path in (damaged, night, night)]
    page = tmp_path / "runs.html"
    page.write_text(overview_page(tmp_path, runs, NOW, {f"{night.stem}.html"}), encoding="utf-8")
    (tmp_path / f"{night.stem}.html").write_text("<!doctype html><title>here</title>")
    show(chrome, page, width=width, is_dark=is_dark)
    assert chrome.execute_script("return document.documentElement.scrollWidth") <= width
    assert complaints(chrome) == []
    assert barriers(chrome) == []
    links = chrome.find_elements(By.CSS_SELECTOR, "tbody a")
    assert [link.text for link in links] == [night.stem] * 2
    links[0].click()
    assert chrome.title == "here"
