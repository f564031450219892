from __future__ import annotations

import gzip
import json
import math
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_runs import BEGAN, HOSTILE, RUN_ID, SampleRun, a_night, hostile_run

from bot import rules, strategy
from bot.cli import report as reporting
from bot.cli.process import run
from bot.errors import NotAJournal, UsageError
from bot.journal import events, writer
from bot.journal.events import ActionTaken, Retried
from bot.journal.reader import parse_line, read_lines
from bot.report import boards, headline, incidents, page
from bot.report.axes import TimeAxis
from bot.report.boards import BoardLog
from bot.report.draw import draw
from bot.report.in_all import histogram
from bot.report.incidents import Incidents, Moment
from bot.report.overview import overview_page, summarize
from bot.report.page import for_script, run_page
from bot.report.story import Story, read_story
from bot.report.text import count_of, visible, visible_lines
from bot.report.timeline import Timeline, bin_width, quantile
from bot.report.vega import log_axis
from bot.rules import FLIPS, RESTART
from bot.strategy import Goal

pytestmark = pytest.mark.slow

NOW: Final = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)


class Elements(HTMLParser):
    """Every element of a page with its attributes, and the text that a person can read."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._hidden = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self._hidden += tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in ("script", "style")

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def named(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.found if tag == name]


def page_of(path: Path, *, is_running: bool = False) -> str:
    return run_page(read_story(path), NOW, is_running=is_running)


def data_of(text: str) -> dict[str, Any]:
    match = re.search(r'id="run-data">(.*?)</script>', text)
    assert match is not None
    data: dict[str, Any] = json.loads(match[1])
    return data


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The journal of a run with something of everything."""
    return a_night(tmp_path_factory.mktemp("night"), 21_050)


@pytest.fixture(scope="module")
def night_page(night: Path) -> str:
    return page_of(night)


@pytest.fixture
def sample(tmp_path: Path) -> Iterator[SampleRun]:
    with SampleRun(tmp_path, Goal(21_050)) as made:
        yield made


# -- words and numbers ----------------------------------------------------------------------


def test_what_cannot_be_seen_is_escaped_and_what_can_is_kept() -> None:
    assert visible("a\x00b\x1b[1m\u2028\u202e\ud800\n ☀é<&>") == (
        "a\\x00b\\x1b[1m\\u2028\\u202e\\ud800\\n ☀é<&>"
    )


def test_a_long_text_is_cut_and_says_so() -> None:
    assert visible("x" * 501) == "x" * 499 + "…"
    assert visible("x" * 500) == "x" * 500
    assert visible_lines("ab\ncd\tef", 7) == "ab\ncd\\t…"


def test_one_thing_is_not_many() -> None:
    assert [count_of(1, "board"), count_of(0, "board"), count_of(4000, "retry", "retries")] == [
        "1 board",
        "0 boards",
        "4,000 retries",
    ]


@given(st.recursive(st.text() | st.integers() | st.none(), st.lists))
def test_any_value_stands_in_a_script_and_comes_back(value: object) -> None:
    text = str(for_script(value))
    assert not set("<>&\u2028\u2029") & set(text)
    assert text.isascii()
    assert json.loads(text) == value


# -- time ------------------------------------------------------------------------------------


def stamp(seconds: float) -> str:
    moment = datetime(2026, 11, 30, 3, tzinfo=UTC) + timedelta(seconds=seconds)
    return f"{moment.isoformat(timespec='milliseconds')[:-6]}Z"


def timeline_of(times: list[float], resumed: tuple[int, ...] = ()) -> Timeline:
    timeline = Timeline()
    for place, time in enumerate(times):
        timeline.tick(stamp(time), is_sitting=place in resumed)
        timeline.answer(place, float(place))
    return timeline


def test_a_break_between_sittings_is_cut_out_of_the_time() -> None:
    timeline = timeline_of([0, 1, 2, 7202, 7203.5], resumed=(3,))
    assert timeline.played == 3.5
    assert [sitting.gap_s for sitting in timeline.sittings] == [0, 7200]
    assert timeline.wall(1.5) == datetime(2026, 11, 30, 3, 0, 1, 500_000, UTC)
    assert timeline.wall(2.5) == datetime(2026, 11, 30, 5, 0, 2, 500_000, UTC)


def test_a_clock_that_was_set_back_takes_no_time_away() -> None:
    assert timeline_of([10, 12, 5, 6]).played == 3


def test_the_time_played_is_the_ledgers(night: Path) -> None:
    story = read_story(night)
    assert story.timeline.played == story.ledger.seconds


@given(
    st.lists(st.floats(0, 500).map(lambda step: round(step, 3)), min_size=1, max_size=60),
    st.integers(1, 40),
)
def test_bins_hold_every_request_once_and_are_no_more_than_asked_for(
    steps: list[float], most: int
) -> None:
    times = [sum(steps[:count]) for count in range(len(steps))]
    timeline = timeline_of(times)
    bins = list(timeline.bins(most))
    assert len(bins) <= most
    assert sum(b.requests for b in bins) == len(times)
    assert sum(len(b.answers_ms) for b in bins) == len(times)
    assert [b.end for b in bins[:-1]] == [b.begin for b in bins[1:]]
    assert bins[0].begin == 0
    assert bins[-1].end == timeline.played
    assert bins[-1].score == len(times) - 1


def test_a_short_rest_belongs_to_the_last_bin() -> None:
    bins = list(timeline_of([0, 1, 2, 3, 4, 4.01]).bins(4))
    assert [(b.begin, b.end, b.requests) for b in bins] == [(0, 2, 2), (2, 4.01, 4)]


@given(st.floats(0, 1e10), st.integers(1, 500))
def test_bins_are_wide_enough(seconds: float, most: int) -> None:
    assert seconds <= bin_width(seconds, most) * most * (1 + 1e-9)


def test_a_run_without_a_request_has_no_bins() -> None:
    assert list(Timeline().bins(5)) == []


def test_a_run_of_thirty_years_has_bins_too() -> None:
    timeline = timeline_of([0, 1e9])
    assert len(list(timeline.bins(20))) <= 20


def test_quantiles_are_values_of_the_list() -> None:
    assert quantile([], 0.5) == 0
    assert quantile([1, 2, 3, 4], 0.5) == 3
    assert quantile(list(range(100)), 0.99) == 99


@given(st.lists(st.floats(0, 1e9), min_size=1).map(sorted))
def test_a_histogram_counts_every_answer(ordered: list[float]) -> None:
    bars = histogram(ordered)
    assert sum(count for *_, count in bars) == len(ordered)
    assert len(bars) <= 81
    assert bars[-1][1] * (1 + 1e-9) >= ordered[-1]


@given(st.floats(0, 1e9), st.floats(0, 1e9))
def test_a_logarithmic_axis_has_room(low: float, high: float) -> None:
    low, high = sorted((low, high))
    begin, end = log_axis(low, high)["scale"]["domain"]
    assert 0 < begin < end
    assert end >= high


# -- boards ----------------------------------------------------------------------------------


def actions_of(path: Path) -> Iterator[ActionTaken]:
    for line in read_lines(path):
        event = parse_line(line).event
        if isinstance(event, ActionTaken):
            yield event


def test_the_player_has_every_state_that_the_rules_have(sample: SampleRun) -> None:
    states = {(1, 0): rules.fresh()}
    place = (1, 0)
    wasted = [FLIPS[0], FLIPS[0], RESTART, *[FLIPS[1]] * 8]
    while not sample.is_over:
        state = sample.ledger.state
        action = wasted.pop() if wasted and state.phase == rules.PLAYING else None
        sample.act(action)
        after = sample.ledger.state
        place = (after.board_number, 0 if after.board_number != place[0] else place[1] + 1)
        states[place] = after
    data = data_of(page_of(sample.path))
    names = data["names"]
    shown = {}
    for row in data["boards"]:
        board = dict(zip(names["board"], row, strict=True))
        play = dict(zip(names["play"], data["plays"][board["play"]], strict=True))
        shown[board["number"], 0] = (play["garland"], 0, play["leaves"], "playing", board["score"])
        score = board["score"]
        for number, values in enumerate(play["steps"], 1):
            step = dict(zip(names["step"], values, strict=True))
            score += step["award"]
            phase = data["phases"][step["phase"]]
            shown[board["number"], number] = (
                step["garland"],
                step["moves_used"],
                step["leaves"],
                phase,
                score,
            )
    assert shown == {
        place: (list(s.garland), s.moves_used, s.leaves, s.phase, s.score)
        for place, s in states.items()
    }


def action_line(**fields: Any) -> ActionTaken:
    line = ActionTaken(
        1, {"type": "flip", "count": 1}, "t", 0, 0, "playing", 1, 1, [2, -1, 3], 1, 5, 3, 1, 1.0
    )
    return line._replace(**fields)


def test_a_board_whose_beginning_is_lost_begins_where_it_is_first_seen() -> None:
    log = BoardLog()
    log.take(action_line(), 1)
    log.take(action_line(board=7, template=7, garland=[1, 2, 3, 4, -5]), 2)
    first, second = log.boards()
    assert (first.number, second.number, second.at) == (1, 7, 2)
    assert list(log.plays)[second.play].garland == (1, 2, 3, 4, -5)


def test_what_is_no_garland_is_not_drawn() -> None:
    log = BoardLog()
    log.take(action_line(garland=[10**40, 0]), 1)
    log.boards()
    assert [step.garland for play in log.plays for step in play.steps] == [()]


def test_a_page_of_any_run_stays_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boards, "MAX_BOARDS", 20)
    monkeypatch.setattr(boards, "MAX_STEPS", 50)
    log = BoardLog()
    for number in range(1, 101):
        for step in range(3):
            log.take(action_line(board=number, garland=[number % 2 or -1], moves_used=step), 0)
            log.take(action_line(board=number, moves_used=number), 0)
        if number < 100:
            log.take(action_line(action={"type": "next"}, board=number + 1), number)
    listed = log.boards()
    assert [board.number for board in listed] == [*range(1, 11), *range(90, 101)]
    assert log.left_out == 79
    assert listed[-1].play == -1
    assert sum(len(play.steps) for play in log.plays) <= 50
    assert log.listed((3, 2)) == (3, 2)
    assert log.listed((50, 1)) is None
    assert log.listed((99, 1)) == (20, 1)


def test_the_largest_data_that_a_page_can_have_is_under_five_megabytes() -> None:
    log = BoardLog()
    for number in range(1, boards.MAX_BOARDS + 2):
        log.take(action_line(board=number, moves_used=number, garland=[-1, -2, -3, -4, -5]), 0)
        log.take(
            action_line(action={"type": "next"}, board=number + 1, template=8, score=10**7),
            number * 1.123,
        )
    assert log.left_out > 0
    size = len(for_script(log.boards())) + len(for_script(list(log.plays)))
    assert size < 5_000_000


# -- incidents -------------------------------------------------------------------------------


def moment(at: float, line: int = 1) -> Moment:
    return Moment(line, stamp(at), at, 0, (0, 0))


def retried(cause: str, wait_s: float = 1) -> Retried:
    return Retried({"type": "flip", "count": 2}, 1, cause, 503, "<busy>", wait_s)


def test_alike_incidents_that_follow_closely_are_one_row() -> None:
    log = Incidents()
    for number in range(30):
        log.take(retried("HTTP 503"), moment(number * 10))
        log.take(retried(f"other {number % 2}"), moment(number * 10))
    log.take(retried("HTTP 503"), moment(290 + 901))
    rows = [(row.cause.text, row.count, row.wait_s) for _, row in log.rows()]
    assert rows == [
        ("HTTP 503", 30, 30),
        ("other 0 (HTTP 503)", 15, 15),
        ("other 1 (HTTP 503)", 15, 15),
        ("HTTP 503", 1, 1),
    ]


def test_a_run_that_fails_in_a_thousand_ways_has_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incidents, "MAX_CAUSES", 100)
    monkeypatch.setattr(incidents, "MAX_MARKS", 50)
    log = Incidents()
    for number in range(5000):
        log.take(retried(f"cause {number}"), moment(number))
    rows = list(log.rows())
    assert [number for number, _ in rows] == [*range(100), *range(4900, 5000)]
    assert log.left_out == 4800
    assert log.total == 5000
    assert len(log.marks) == 50
    assert len(log.causes) == 100


@pytest.mark.parametrize(
    ("event", "kind", "text"),
    [
        (retried("busy"), "retry", "busy (HTTP 503)"),
        (events.Refused({"type": "next"}, "no\x07"), "refusal", "no\\x07"),
        (
            events.FieldsDiverged({"score": {"predicted": 215, "observed": "x<"}}),
            "divergence",
            "score is x<, predicted 215",
        ),
        (
            events.FieldsDiverged({f"f{n}": {"predicted": 1, "observed": None} for n in range(7)}),
            "divergence",
            "; ".join([f"f{n} is null, predicted 1" for n in range(5)] + ["and 2 more fields"]),
        ),
        (events.FieldsDiverged({"a": {}}), "divergence", "a is missing, predicted missing"),
        (events.RunSuspended("stopped by SIGINT", 130), "stop", "stopped by SIGINT (exit 130)"),
        (events.RunAbandoned("refused"), "stop", "abandoned: refused"),
        (
            events.RunResumed(1, 5, "at-least", "1.0.0", 12),
            "resumed",
            "went on after 0 ms; 12 bytes of a torn last line were cut off",
        ),
    ],
)
def test_an_incident_says_what_it_was(event: events.Event, kind: str, text: str) -> None:
    told = incidents.tell(event, 0)
    assert told is not None
    assert (told[0].kind, told[0].text) == (kind, text)


def test_an_action_is_no_incident() -> None:
    assert incidents.tell(action_line(), 0) is None


# -- the page --------------------------------------------------------------------------------


def test_the_headline_tells_how_the_run_went(night: Path, night_page: str) -> None:
    text = Elements(night_page).text
    assert "21,050 points banked, as asked (21,050), after 80 boards in" in text
    assert re.search(r"Retries 16 of \d+ requests", text)
    assert "State Banked" in text
    assert f"Journal Verified {read_story(night).lines:,} lines held against the rules" in text
    assert "3 sittings" in text


def table_after(text: str, title: str) -> list[list[str]]:
    """Return the rows of the table of numbers of a chart."""
    match = re.search(f"Numbers of “{title}”.*?<tbody>(.*?)</tbody>", text, re.DOTALL)
    assert match is not None
    rows = re.findall(r"<tr>(.*?)</tr>", match[1], re.DOTALL)
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in rows]


def number(cell: str) -> int:
    return int(cell.replace(",", ""))


def test_the_charts_come_with_their_numbers(night: Path, night_page: str) -> None:
    lines = [parse_line(line).event for line in read_lines(night)]
    answers = sorted(event.elapsed_ms for event in lines if isinstance(event, ActionTaken))
    failures = [event for event in lines if isinstance(event, Retried | events.Refused)]

    score = table_after(night_page, "Points over time")
    assert number(score[-1][1]) == 21_050
    assert sum(number(row[2]) for row in score) == 1 + len(answers) + len(failures)
    assert sum(number(row[3]) for row in score) == len(failures) == 17

    times = table_after(night_page, "Answer times over time")
    assert sum(number(row[3]) for row in times) == len(answers)

    spread = table_after(night_page, "Distribution of answer times")
    assert sum(number(row[1]) for row in spread) == len(answers)
    middle = answers[len(answers) // 2]
    assert f"Half of all answers came within {middle:.3g} ms" in night_page

    templates = table_after(night_page, "Time and points by template")
    assert [row[0] for row in templates] == list("12345678")
    assert [number(row[2]) for row in templates] == [1, 1, 1, 1, 19, 19, 19, 19]
    assert [number(row[3]) for row in templates] == [1, 2, 3, 4, 95, 95, 133, 133]
    assert sum(number(row[4]) for row in templates) == 21_050


def test_the_answer_times_are_quantiles_of_each_stretch(night: Path, night_page: str) -> None:
    rows = table_after(night_page, "Answer times over time")
    for row, b in zip(rows, read_story(night).timeline.bins(20), strict=True):
        if not b.answers_ms:
            assert row[1:] == ["none", "none", "0"]
            continue
        right = [b.answers_ms[int(share * len(b.answers_ms))] for share in (0.5, 0.99)]
        shown = [float(cell.removesuffix(" ms").replace(",", "")) for cell in row[1:3]]
        assert shown == pytest.approx(right, rel=0.006)


def test_the_rates_are_requests_over_time(night: Path, night_page: str) -> None:
    bins = list(read_story(night).timeline.bins(20))
    rates = [row[1] for row in table_after(night_page, "Requests a second")]
    assert rates == [f"{b.requests / (b.end - b.begin):,.1f}" for b in bins]


def test_every_chart_has_a_picture_for_a_screen_and_one_for_a_phone(night_page: str) -> None:
    plots = [a for a in Elements(night_page).named("div") if "plot" in str(a.get("class"))]
    assert [plot["class"] for plot in plots] == ["plot wide", "plot narrow"] * 5
    assert all(plot["role"] == "img" and plot["aria-label"] for plot in plots)


def test_pictures_share_no_id_and_hold_no_style(night_page: str) -> None:
    ids = [str(a["id"]) for _, a in Elements(night_page).found if "id" in a]
    assert len(ids) == len(set(ids))
    assert 'style="' not in night_page


def test_incidents_are_marked_on_the_chart_and_stand_in_the_table(night_page: str) -> None:
    text = Elements(night_page).text
    assert "16 retries, 1 refusal, 1 divergence, 2 stops, 2 resumed" in text
    for cause in (
        "HTTP 503 Service Unavailable (text/html)",
        "no answer: timed out",
        "slow down",
        "score is many, predicted",
        "the 55 minutes of this call are used up (exit 75)",
        "went on after 2 h 01 min; 112 bytes of a torn last line were cut off",
    ):
        assert cause in text
    tips = [str(a["data-tip"]) for _, a in Elements(night_page).found if "data-tip" in a]
    for mark in ("retr(y|ies)", "refusal", "divergence", "stop"):
        assert any(re.search(rf": \d+ {mark}", tip) for tip in tips)


def test_the_page_asks_for_nothing(night_page: str) -> None:
    elements = Elements(night_page)
    links = [a.get("href") for _, a in elements.found if "href" in a]
    assert set(links) == {"data:,", "#charts", "#incidents", "#boards", "#facts"}
    assert not [a for _, a in elements.found if {"src", "srcset", "action", "data"} & a.keys()]
    assert not re.search(r"@import|url\((?!#)|fetch\(|XMLHttp|import\(|WebSocket", night_page)


def test_the_policy_names_the_one_style_and_the_one_script(night_page: str) -> None:
    policy = next(
        str(a["content"])
        for a in Elements(night_page).named("meta")
        if a.get("http-equiv") == "Content-Security-Policy"
    )
    style = re.search(r"<style>(.*?)</style>", night_page, re.DOTALL)
    script = re.search(r'<script type="module">(.*?)</script>', night_page, re.DOTALL)
    assert style is not None
    assert script is not None
    assert policy == (
        f"default-src 'none'; script-src {page._digest(script[1])}; "
        f"style-src {page._digest(style[1])}; img-src data:; base-uri 'none'; form-action 'none'"
    )


def test_tokens_stay_in_the_journal(night: Path, night_page: str) -> None:
    assert "token-5" in night.read_text()
    assert "token-" not in night_page


def test_a_hostile_service_gets_no_word_in_as_markup(tmp_path: Path) -> None:
    text = page_of(hostile_run(tmp_path))
    elements = Elements(text)
    assert [a.get("type") for a in elements.named("script")] == ["application/json", "module"]
    assert not elements.named("img")
    assert not [name for _, a in elements.found for name in a if name.startswith("on")]
    assert not re.search(r"[\x00-\x09\x0b-\x1f\u2028\u2029\u202e\ud800-\udfff]", text)
    assert elements.text.count(" ".join(visible(HOSTILE).split())) >= 6
    assert data_of(text)["plays"]
    text.encode("utf-8")


def test_a_hostile_service_gets_no_word_in_the_overview(tmp_path: Path) -> None:
    story = read_story(hostile_run(tmp_path))
    text = overview_page(tmp_path / HOSTILE[:40], [summarize(story, is_running=False)], NOW)
    elements = Elements(text)
    assert not elements.named("script")
    assert not elements.named("img")
    assert "<script>alert(1)" in elements.text


# -- runs that are not over, or not whole ----------------------------------------------------


def label_of(path: Path, *, is_running: bool = False) -> str:
    return headline.standing(read_story(path), is_running=is_running).label


def test_an_unfinished_run_says_so_and_shows_what_there_is(sample: SampleRun) -> None:
    sample.play(100)
    sample.suspend("stopped by SIGTERM", 143)
    text = Elements(page_of(sample.path)).text
    assert "This run is not over. Its last sitting ended: stopped by SIGTERM (exit 143)." in text
    assert "Verified so far" in text
    assert "Points over time" in text
    assert label_of(sample.path) == "Stopped"


def test_a_run_that_was_killed_says_so(sample: SampleRun) -> None:
    sample.play(100)
    assert "ended without a word, as a kill or a power cut ends one" in page_of(sample.path)


def test_a_run_that_is_being_played_says_so(sample: SampleRun) -> None:
    sample.play(10)
    text = page_of(sample.path, is_running=True)
    assert "a bot plays it now" in text
    assert label_of(sample.path, is_running=True) == "Playing now"


def test_a_run_that_was_given_up_says_so(sample: SampleRun) -> None:
    sample.play(10)
    sample.fail("HTTP 401 Unauthorized: stale", 401, wait_s=0)
    sample.write(events.RunAbandoned("the service refuses the token"))
    text = Elements(page_of(sample.path)).text
    assert label_of(sample.path) == "Abandoned"
    assert "The run was given up after" in text
    assert "abandoned: the service refuses the token" in text


def test_a_run_out_of_leaves_says_so(sample: SampleRun) -> None:
    for _ in range(3):
        sample.act(RESTART)
    sample.end()
    assert label_of(sample.path) == "Out of leaves"
    assert "The last leaf was spent after 0 boards" in page_of(sample.path)


def test_banking_on_the_last_leaf_is_short_of_the_threshold(sample: SampleRun) -> None:
    sample.act(RESTART)
    sample.act(RESTART)
    for count in (1, 1, 1, 3):
        sample.act(FLIPS[count - 1])
    assert strategy.decide(sample.ledger.state, sample.goal) == rules.BANK
    sample.act()
    sample.end()
    assert label_of(sample.path) == "Banked short"
    assert "short of the 21,050 that were asked for" in page_of(sample.path)


def test_a_run_that_lacks_only_its_last_line_is_banked(sample: SampleRun) -> None:
    while not sample.is_over:
        sample.play(1000)
    assert label_of(sample.path) == "Banked"
    assert "Verified so far" in page_of(sample.path)


def test_a_damaged_run_says_where_and_shows_what_there_is(tmp_path: Path, night: Path) -> None:
    lines = night.read_bytes().splitlines(keepends=True)
    path = tmp_path / night.name
    path.write_bytes(b"".join([*lines[:200], b"<script>\n", *lines[200:400]]))
    text = Elements(page_of(path)).text
    assert (
        "The journal is damaged, or contradicts the rules, in 1 place; the first is line 201"
        in text
    )
    assert "State Damaged" in text
    assert "Journal Not verified" in text
    assert "Points over time" in text


def test_a_run_with_far_too_many_faults_is_read_no_further(tmp_path: Path, night: Path) -> None:
    lines = night.read_bytes().splitlines(keepends=True)
    path = tmp_path / night.name
    path.write_bytes(b"".join([*lines[:100], *[b"{}\n"] * 50, *lines[100:]]))
    story = read_story(path)
    assert story.lines == 100
    assert "No more was read." in run_page(story, NOW)


def test_a_contradiction_is_told_and_the_journal_is_shown(tmp_path: Path, night: Path) -> None:
    text = night.read_text().replace('"award":265', '"award":9265', 1)
    path = tmp_path / night.name
    path.write_text(text)
    shown = page_of(path)
    assert "award is 9265, expected 265" in Elements(shown).text
    assert "80 boards" in shown


def test_a_torn_last_line_is_no_damage(tmp_path: Path, night: Path) -> None:
    path = tmp_path / night.name
    path.write_bytes(night.read_bytes()[:50_000])
    text = Elements(page_of(path)).text
    assert "The last line was never written whole" in text
    assert "State Stopped" in text


@pytest.mark.parametrize("content", [b"", b'{"seq":0,"ts":"2026-'], ids=["no byte", "no line"])
def test_an_empty_run_says_so(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / f"{RUN_ID}.jsonl"
    path.write_bytes(content)
    text = Elements(page_of(path)).text
    assert "Nothing was played." in text
    assert "its first line was never written whole" in text
    assert "nothing to draw yet" in text
    assert data_of(page_of(path))["boards"] == []


def test_a_run_whose_only_line_is_broken_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / f"{RUN_ID}.jsonl"
    path.write_bytes(b"garbage\n")
    assert label_of(path) == "Damaged"
    assert "line 1" in page_of(path)


def test_a_run_of_one_line_has_no_charts_and_one_board(sample: SampleRun) -> None:
    text = page_of(sample.path)
    assert "nothing to draw yet" in text
    assert [board[0] for board in data_of(text)["boards"]] == [1]


def test_a_zipped_journal_has_the_same_page(tmp_path: Path, night: Path, night_page: str) -> None:
    path = tmp_path / f"{night.name}.gz"
    path.write_bytes(gzip.compress(night.read_bytes()))
    assert page_of(path).replace(f"{night.name}.gz", night.name) == night_page


def test_a_zip_that_ends_in_the_middle_is_shown_up_to_there(tmp_path: Path, night: Path) -> None:
    path = tmp_path / f"{night.name}.gz"
    zipped = gzip.compress(night.read_bytes())
    path.write_bytes(zipped[: len(zipped) // 2])
    story = read_story(path)
    assert story.lines > 10
    assert headline.standing(story).label == "Damaged"


def test_a_file_of_another_kind_is_no_run(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("one\ntwo\nthree\nfour\n")
    with pytest.raises(NotAJournal, match="no journal"):
        read_story(path)


def test_the_word_of_a_service_that_was_followed_is_told(sample: SampleRun) -> None:
    sample.play(3)
    sample.fail("the answer differs", 200)
    sample.diverge("score", 7)
    sample.act()
    assert "In 1 action the service contradicted the rules and its word was taken" in page_of(
        sample.path
    )


def numbers_of_any_size(line: dict[str, Any]) -> dict[str, Any]:
    return {
        key: 10**300 if type(value) is int and key not in ("seq", "journal_version") else value
        for key, value in line.items()
    }


@pytest.mark.parametrize(
    "spoil",
    [
        numbers_of_any_size,
        lambda line: line | {"ts": "9999-12-31T23:59:59.999Z"},
        lambda line: line | {"ts": "0001-01-01T00:00:00.000Z"},
        lambda line: line | ({"garland": []} if "garland" in line else {}),
        lambda line: line | ({"elapsed_ms": 1.7e308} if "elapsed_ms" in line else {}),
        lambda line: line | ({"board": 0, "template": 99} if "board" in line else {}),
    ],
    ids=["huge numbers", "the last year", "the first year", "no garland", "slow", "no board"],
)
@pytest.mark.parametrize("place", [0, 100, 300])
def test_any_line_that_can_be_read_can_be_shown(
    tmp_path: Path, night: Path, spoil: Callable[[dict[str, Any]], dict[str, Any]], place: int
) -> None:
    lines = night.read_text().splitlines()
    path = tmp_path / night.name
    for at in (place, place + 1):
        lines[at] = json.dumps(spoil(json.loads(lines[at])))
    path.write_text("\n".join(lines) + "\n")
    text = re.sub(r"<script.*", "", page_of(path), flags=re.DOTALL)
    assert "About the run" in text
    assert re.findall(r"NaN|Infinity|undefined", text) == []


def test_a_threshold_out_of_sight_does_not_flatten_the_line(tmp_path: Path) -> None:
    with SampleRun(tmp_path, Goal(10**9)) as made:
        made.play(50)
    assert "lies far above the chart" in page_of(made.path)


def test_a_picture_escapes_the_words_that_it_is_given() -> None:
    spec = {
        "data": {"values": [{"x": 1, "t": '<b>"&'}]},
        "mark": {"type": "point", "aria": True},
        "encoding": {
            "x": {"field": "x", "type": "quantitative"},
            "description": {"field": "t"},
            "text": {"field": "t"},
        },
    }
    svg = draw(spec, "x")
    assert 'data-tip="&lt;b&gt;&quot;&amp;"' in svg
    assert svg.startswith('<svg width="')
    assert not math.isnan(len(svg))


def test_pictures_of_one_page_keep_their_clips_apart() -> None:
    spec = {
        "data": {"values": [{"x": 1}, {"x": 2}]},
        "mark": {"type": "line", "clip": True},
        "encoding": {"x": {"field": "x", "type": "quantitative"}},
    }
    for name in ("a", "b"):
        svg = draw(spec, name)
        ids = re.findall(r' id="([^"]*)"', svg)
        assert ids
        assert all(one.startswith(f"{name}-") for one in ids)
        assert set(re.findall(r"url\(#([^)]*)\)", svg)) == set(ids)


def test_a_run_without_one_answer_has_its_requests_drawn(sample: SampleRun) -> None:
    for _ in range(5):
        sample.fail("no answer: timed out", None, wait_s=30)
    sample.suspend("no answer", 69)
    text = page_of(sample.path)
    assert "Requests a second" in text
    assert "Answer times" not in text
    assert table_after(text, "Time and points by template")[0][-1] == "none cleared"


def test_a_day_is_named_where_it_begins(sample: SampleRun) -> None:
    for _ in range(40):
        sample.wait(3600)
        sample.act()
    axis = TimeAxis(read_story(sample.path).timeline)
    assert axis.title == "time of day in UTC"
    assert axis.name(0) == "2026-11-30 01:52:07"
    labels = axis.encoding(8)["axis"]["labelExpr"]
    assert re.findall(r"\[\"(\S+)\", \"(.*?)\"\]", labels) == [
        ("06:00", "30 Nov"),
        ("00:00", "01 Dec"),
    ]


@given(
    st.lists(st.tuples(st.booleans(), st.floats(0, 90_000)), min_size=2, max_size=30),
    st.integers(1, 10),
)
def test_an_axis_has_few_ticks_and_all_of_them_on_it(
    steps: list[tuple[bool, float]], most: int
) -> None:
    timeline = Timeline()
    time = 0.0
    for is_resumed, seconds in steps:
        time += round(seconds, 3)
        timeline.tick(stamp(time), is_sitting=is_resumed)
    ticks = TimeAxis(timeline).encoding(most)["axis"]["values"]
    assert len(ticks) <= 2 * most + 1
    assert ticks == sorted(ticks)
    assert all(0 <= tick <= timeline.played for tick in ticks)


# -- the overview ----------------------------------------------------------------------------


def test_the_overview_has_a_row_and_a_line_for_each_run(tmp_path: Path, night: Path) -> None:
    (tmp_path / night.name).write_bytes(night.read_bytes())
    (tmp_path / "20261201T000000Z-seed9-0000.jsonl").write_bytes(b"")
    with SampleRun(tmp_path, Goal(1000), run_id="20261129T000000Z-seed7-0001") as made:
        made.play(30)
    code = run(["report", "--all", "--runs-dir", str(tmp_path), "--output", str(tmp_path / "o")])
    assert code == 0
    text = (tmp_path / "o").read_text(encoding="utf-8")
    rows = re.findall(r'<tr role="row">(.*?)</tr>', text, re.DOTALL)
    assert [re.findall(r"\d{8}T\d{6}Z", row)[0] for row in rows] == [
        "20261201T000000Z",
        "20261130T015207Z",
        "20261129T000000Z",
    ]
    assert [("<svg" in row, "Empty" in row) for row in rows] == [
        (False, True),
        (True, False),
        (True, False),
    ]
    assert "21,050" in rows[1]
    assert "3 runs, the newest first." in text


def test_the_overview_of_an_empty_folder_says_so(tmp_path: Path) -> None:
    assert "There are no runs in this folder." in overview_page(tmp_path, [], NOW)


def test_a_journal_that_cannot_be_opened_has_a_row_too(tmp_path: Path) -> None:
    (tmp_path / f"{RUN_ID}.jsonl").mkdir()
    rows = list(reporting._summaries(tmp_path))
    assert [(row.run_id, row.standing.label) for row in rows] == [(f"{RUN_ID}.jsonl", "Unreadable")]


# -- the verb --------------------------------------------------------------------------------


def test_the_verb_writes_the_page_and_prints_where(
    night: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["report", "latest", "--runs-dir", str(night.parent)]) == 0
    assert capsys.readouterr().out == f"{RUN_ID}.html\n"
    assert [path.name for path in tmp_path.iterdir()] == [f"{RUN_ID}.html"]
    assert "21,050 points banked" in (tmp_path / f"{RUN_ID}.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["path", "run id"])
def test_a_run_is_named_by_its_path_or_its_id(night: Path, tmp_path: Path, name: str) -> None:
    named = str(night) if name == "path" else RUN_ID
    out = tmp_path / "page.html"
    code = run(["report", named, "--runs-dir", str(night.parent), "--output", str(out)])
    assert code == 0
    assert out.is_file()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "name a RUN"),
        (["latest", "--all"], 2, "name a RUN"),
        (["nowhere.jsonl"], 2, "nowhere.jsonl"),
        (["latest", "--runs-dir", "nowhere"], 2, "nowhere"),
        (["--all", "--runs-dir", "nowhere"], 2, "there is no runs folder nowhere"),
        (["--all", "--runs-dir", "x" * 300], 74, "cannot read the runs folder xxx"),
        ([RUN_ID, "--output", "x.jsonl"], 2, "a journal is never written over"),
        ([RUN_ID, "--output", "x.jsonl.gz"], 2, "a journal is never written over"),
        ([RUN_ID, "--output", "no/such/folder/x.html"], 2, "cannot write the report"),
        ([RUN_ID, "--output", "x" * 300], 2, "x: File name too long"),
        ([RUN_ID, "--output", "/dev/null/x.html"], 2, "x.html: Not a directory"),
    ],
)
def test_what_cannot_be_done_is_told_in_one_line(
    night: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = [] if "--runs-dir" in arguments else ["--runs-dir", str(night.parent)]
    assert run(["report", *arguments, *folder]) == code
    told = capsys.readouterr()
    assert message in told.err
    assert told.err.count("\n") == 1
    assert told.out == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [[RUN_ID], ["--all"]], ids=["one", "all"])
def test_without_the_extra_it_says_how_to_get_it(
    night: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
) -> None:
    monkeypatch.setattr(reporting, "PARTS", ("jinja2", "no_such_package"))
    assert run(["report", *arguments, "--runs-dir", str(night.parent)]) == 78
    assert capsys.readouterr().err == (
        "sunpleat-bot: the report needs no_such_package; in the project's folder, "
        "pip install '.[report]' brings it\n"
    )


def test_a_page_is_written_whole_or_not_at_all(
    night: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "page.html"
    out.write_text("before")

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", fail)
    assert run(["report", str(night), "--output", str(out)]) == 2
    monkeypatch.undo()
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [
        ("page.html", "before")
    ]


def test_only_the_run_whose_journal_is_being_written_is_being_played(tmp_path: Path) -> None:
    older, newer = "20261129T000000Z-seed7-0001", "20261130T000000Z-seed7-0002"
    stories: list[Story] = []
    for run_id, began in ((older, BEGAN - timedelta(days=1)), (newer, BEGAN)):
        with SampleRun(tmp_path, Goal(1000), run_id=run_id, began=began) as made:
            made.play(3)
        stories.append(read_story(made.path))
    assert [reporting._is_running(story) for story in stories] == [False, False]
    size = stories[1].path.stat().st_size
    with closing(writer.reopen(stories[1].path, size, 1, lambda: BEGAN)):
        assert [reporting._is_running(story) for story in stories] == [False, True]


def test_a_run_to_a_million_points_has_a_page_under_six_megabytes(tmp_path: Path) -> None:
    text = page_of(a_night(tmp_path))
    assert "1,000,225 points banked" in text
    assert len(text.encode()) < 600_000


def test_a_report_never_takes_the_place_of_a_device(tmp_path: Path) -> None:
    link = tmp_path / "page.html"
    link.symlink_to("/dev/null")
    with pytest.raises(UsageError, match="no file"):
        reporting.write_page(link, "<p>")
    assert Path("/dev/null").is_char_device()


def test_a_report_with_a_long_name_is_written(tmp_path: Path) -> None:
    page = tmp_path / f"{'x' * 250}.html"
    reporting.write_page(page, "<p>")
    assert [*tmp_path.iterdir()] == [page]


def test_a_report_is_not_written_through_links_in_a_circle(tmp_path: Path) -> None:
    link = tmp_path / "page.html"
    link.symlink_to(link)
    with pytest.raises(UsageError, match=r"cannot write the report .*page\.html: .*[Ll]oop"):
        reporting.write_page(link, "<p>")


def test_a_report_is_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "there.html").write_text("old")
    link = tmp_path / "page.html"
    link.symlink_to("there.html")
    reporting.write_page(link, "<p>")
    assert link.is_symlink()
    assert (tmp_path / "there.html").read_text() == "<p>"
