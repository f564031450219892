from __future__ import annotations

import gzip
import json
import re
from array import array
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_runs import BEGAN, HOSTILE, RUN_ID, SampleRun, a_night, hostile_run

from bot import rules, strategy
from bot.errors import NotAJournal
from bot.journal import events
from bot.journal.events import ActionTaken, Retried
from bot.journal.reader import parse_line, read_lines
from bot.replay.summary import summarise, summarise_all
from bot.report import boards, charts, incidents, page
from bot.report.boards import BoardLog
from bot.report.charts import draw, log_axis
from bot.report.incidents import Incidents, Moment
from bot.report.page import overview_page, run_page, standing_of
from bot.report.story import read_story
from bot.rules import FLIPS, RESTART, State
from bot.strategy import Goal
from bot.words import duration, visible

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


def page_of(path: Path) -> str:
    return run_page(read_story(path), NOW)


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


# -- data for a script ----------------------------------------------------------------------


@given(st.recursive(st.text() | st.integers() | st.none(), st.lists))
def test_any_value_stands_in_a_script_and_comes_back(value: object) -> None:
    template = page._environment().from_string("{{ value|tojson }}")
    text = template.render(value=value)
    assert not set("<>&\u2028\u2029") & set(text)
    assert text.isascii()
    assert json.loads(text) == value


# -- time ------------------------------------------------------------------------------------


def stamp(seconds: float) -> str:
    moment = BEGAN + timedelta(seconds=seconds)
    return f"{moment.isoformat(timespec='milliseconds')[:-6]}Z"


def test_a_break_between_sittings_is_cut_out_of_the_time(sample: SampleRun) -> None:
    sample.act(elapsed_ms=1000)
    sample.act(elapsed_ms=1000)
    sample.suspend("a budget", 75)
    sample.resume(7200)
    sample.act(elapsed_ms=1500)
    story = read_story(sample.path)
    assert story.run.seconds == 3.5
    assert [sitting.at for sitting in story.sittings] == [0, 2]
    assert story.wall(1.5) == BEGAN + timedelta(seconds=1.5)
    assert story.wall(2.5) == BEGAN + timedelta(seconds=7202.5)


def test_the_last_moment_that_there_is_comes_after_all_others(sample: SampleRun) -> None:
    assert read_story(sample.path).wall(1e300) == datetime.max.replace(tzinfo=UTC)


@pytest.mark.parametrize("most", [1, 7, 20, 160, 1000])
def test_bins_hold_every_request_once_and_are_no_more_than_asked_for(
    night: Path, most: int
) -> None:
    story = read_story(night)
    bins = list(story.bins(most))
    assert len(bins) <= most
    assert sum(b.requests for b in bins) == story.run.requests
    assert sum(b.failures for b in bins) == story.run.retries + story.run.refusals
    assert sum(b.answers_ms.total() for b in bins) == story.run.actions
    assert [b.end for b in bins[:-1]] == pytest.approx([b.begin for b in bins[1:]])
    assert (bins[0].begin, bins[-1].end) == (0, story.run.seconds)
    assert bins[-1].score == story.run.score


def test_a_bin_without_time_has_no_rate(sample: SampleRun) -> None:
    assert {b.rate for b in read_story(sample.path).bins(5)} == {0.0}


@given(st.floats(0, 1e9), st.floats(0, 1e9))
def test_a_logarithmic_axis_has_room(low: float, high: float) -> None:
    low, high = sorted((low, high))
    begin, end = log_axis(low, high)["scale"]["domain"]
    assert 0 < begin < end
    assert end >= high


# -- boards ----------------------------------------------------------------------------------


def test_the_player_has_every_state_that_the_rules_have(sample: SampleRun) -> None:
    states = {(1, 0): rules.fresh()}
    place = (1, 0)
    wasted = [FLIPS[0], FLIPS[0], RESTART, *[FLIPS[1]] * 8]
    while not sample.is_over:
        state = sample.run.state
        action = wasted.pop() if wasted and state.phase == rules.PLAYING else None
        sample.act(action)
        after = sample.run.state
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


def on_board(number: int, **fields: Any) -> State:
    return replace(rules.fresh(), board_number=number, **fields)


def test_a_board_whose_beginning_is_lost_begins_where_it_is_first_seen() -> None:
    log = BoardLog()
    lost = on_board(7, template_index=7, garland=(1, 2, 3, 4, -5))
    log.take("flip 1", rules.fresh(), on_board(1, moves_used=1), 1)
    log.take("flip 1", on_board(1, moves_used=1), lost, 2)
    first, second = log.boards()
    assert (first.number, second.number, second.at) == (1, 7, 2)
    assert list(log.plays)[second.play].garland == (1, 2, 3, 4, -5)


def test_a_page_of_any_run_stays_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boards, "MAX_BOARDS", 20)
    monkeypatch.setattr(boards, "MAX_STEPS", 50)
    log = BoardLog()
    for number in range(1, 101):
        state = on_board(number)
        for _ in range(6):
            log.take("flip 1", state, on_board(number, moves_used=number), 0)
        if number < 100:
            log.take("next", state, on_board(number + 1), number)
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
    garland = (-1, -2, -3, -4, -5)
    for number in range(1, boards.MAX_BOARDS + 2):
        state = on_board(number, moves_used=number, garland=garland, score=10**7)
        log.take("flip 1", state, state, 0)
        log.take("next", state, on_board(number + 1, template_index=8), number * 1.123)
    assert log.left_out > 0
    size = len(json.dumps([log.boards(), list(log.plays)], separators=(",", ":")))
    assert size < 5_000_000


# -- incidents -------------------------------------------------------------------------------


def moment(at: float, line: int = 1) -> Moment:
    return Moment(line, stamp(at), at, 0, (0, 0))


def retried(cause: str, wait_s: float = 1, *, status: int | None = 503) -> Retried:
    return Retried({"type": "flip", "count": 2}, 1, cause, status, "<busy>", wait_s)


def rows_of(log: Incidents) -> list[tuple[str, int]]:
    return [(row.told.text, row.count) for row in log.rows()]


def test_alike_incidents_that_follow_closely_are_one_row() -> None:
    log = Incidents()
    for number in range(30):
        log.take(retried("HTTP 503"), moment(number * 10), 0)
        log.take(retried("other one"), moment(number * 10), 0)
    log.take(retried("HTTP 503"), moment(290 + 901), 0)
    assert rows_of(log) == [("HTTP 503", 30), ("other one (HTTP 503)", 30), ("HTTP 503", 1)]
    assert [row.wait_s for row in log.rows()] == [30, 30, 1]
    assert [row.count for row in log.causes.values()] == [31, 30]


def test_an_answer_that_was_cut_at_another_byte_is_no_other_cause() -> None:
    log = Incidents()
    for number in range(9):
        cut = f"the answer was cut off after {number} bytes"
        log.take(retried(cut), moment(number), 0)
        log.take(retried(cut, status=None), moment(number), 0)
        log.take(events.Refused({"type": "next"}, f'{{"ok":false,"re{"a" * number}'), moment(0), 0)
    assert [count for _, count in rows_of(log)] == [9, 9, 9]
    assert [row.count for row in log.causes.values()] == [9, 9, 9]
    assert rows_of(log)[0][0] == "the answer was cut off after 0 bytes (HTTP 503)"


def test_statuses_are_told_apart_and_so_are_kinds_of_trouble_without_one() -> None:
    log = Incidents()
    for cause, status in [("HTTP 502 x", 502), ("HTTP 503 x", 503), ("slow", None), ("no", None)]:
        log.take(retried(cause, status=status), moment(0), 0)
    assert [count for _, count in rows_of(log)] == [1, 1, 1, 1]


def test_a_run_that_fails_in_a_thousand_ways_has_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incidents, "MAX_KINDS", 100)
    monkeypatch.setattr(incidents, "MAX_MARKS", 50)
    log = Incidents()
    for number in range(5000):
        log.take(retried("cause " + "x" * (number % 70), status=number), moment(number), 0)
    assert [row.number for row in log.rows()] == [*range(100), *range(4900, 5000)]
    assert log.left_out == 4800
    assert log.counts.total() == 5000
    assert len(log.marks) == 50
    assert len(log.causes) == 100


def test_what_no_one_could_wait_for_counts_as_the_longest_wait() -> None:
    log = Incidents()
    log.take(retried("x", 1.7e308), moment(0), 0)
    log.take(retried("x", 1.7e308), moment(0), 0)
    assert [row.wait_s for row in log.rows()] == [2.0**54]


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
    assert (told.kind, told.text) == (kind, text)


def test_an_action_is_no_incident() -> None:
    line = ActionTaken(1, {"type": "next"}, "t", 0, 0, "playing", 1, 1, [2, -1, 3], 1, 5, 3, 1, 1.0)
    assert incidents.tell(line, 0) is None


def test_a_request_that_is_no_action_is_named_as_it_stands() -> None:
    told = incidents.tell(events.Refused({"type": "flip", "count": "<b>" * 99}, "no"), 0)
    assert told is not None
    assert told.what == '{"type": "flip", "count": "' + "<b>" * 17 + "<…"


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
    match = re.search(f"<summary>[^<]*{title}.*?<tbody>(.*?)</tbody>", text, re.DOTALL)
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

    middle = answers[len(answers) // 2]
    assert f"Half of all answers came within {middle:.3g} ms" in night_page

    templates = table_after(night_page, "Time and points by template")
    assert [row[0] for row in templates] == list("12345678")
    assert [number(row[2]) for row in templates] == [1, 1, 1, 1, 19, 19, 19, 19]
    assert [number(row[3]) for row in templates] == [1, 2, 3, 4, 95, 95, 133, 133]
    assert sum(number(row[4]) for row in templates) == 21_050


def test_the_answer_times_are_quantiles_of_each_stretch(night: Path, night_page: str) -> None:
    rows = table_after(night_page, "Answer times over time")
    for row, b in zip(rows, read_story(night).bins(20), strict=True):
        if not b.answers_ms:
            assert row[1:] == ["none", "none", "0"]
            continue
        ordered = sorted(b.answers_ms.elements())
        right = [ordered[int(share * len(ordered))] for share in (0.5, 0.99)]
        shown = [float(cell.removesuffix(" ms").replace(",", "")) for cell in row[1:3]]
        assert shown == pytest.approx(right, rel=0.006)


def test_the_rates_are_requests_over_time(night: Path, night_page: str) -> None:
    bins = list(read_story(night).bins(20))
    rates = [row[1] for row in table_after(night_page, "Requests a second")]
    assert rates == [f"{b.requests / (b.end - b.begin):,.1f}" for b in bins]


def test_every_chart_is_one_picture_that_scales(night_page: str) -> None:
    elements = Elements(night_page)
    plots = [a for a in elements.named("div") if a.get("class") == "plot"]
    assert len(plots) == 3
    assert all(plot["role"] == "img" and plot["aria-label"] for plot in plots)
    pictures = [a for a in elements.named("svg") if a.get("viewbox") and "class" not in a]
    assert len([a for a in pictures if "id" not in a]) == 3
    assert not [a for a in pictures if "width" in a]


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
    run = summarise(hostile_run(tmp_path))
    elements = Elements(overview_page(tmp_path / HOSTILE[:40], [run], NOW, {f"{RUN_ID}.html"}))
    assert not elements.named("script")
    assert not elements.named("img")
    assert "<script>alert(1)" in elements.text


def test_a_description_that_would_swell_is_cut(tmp_path: Path) -> None:
    spec: object = [1] * 1_000_000
    for _ in range(80):
        spec = [spec]
    with SampleRun(tmp_path, Goal(21_050), spec=spec) as made:
        made.play(3)
    text = page_of(made.path)
    assert "What the service says of the game" in text
    assert len(text) < 150_000


# -- runs that are not over, or not whole ----------------------------------------------------


def label_of(path: Path) -> str:
    return standing_of(read_story(path).summary).label


def test_an_unfinished_run_says_so_and_shows_what_there_is(sample: SampleRun) -> None:
    sample.play(100)
    sample.suspend("stopped by SIGTERM", 143)
    sample.close()
    text = Elements(page_of(sample.path)).text
    assert "This run is not over. Its last sitting ended: stopped by SIGTERM (exit 143)." in text
    assert "Verified so far" in text
    assert "Points over time" in text
    assert label_of(sample.path) == "Stopped"


def test_a_run_that_was_killed_says_so(sample: SampleRun) -> None:
    sample.play(100)
    sample.close()
    assert "ended without a word, as a kill or a power cut ends one" in page_of(sample.path)


def test_a_run_that_is_being_played_says_so(sample: SampleRun) -> None:
    sample.play(10)
    assert "a bot plays it now" in page_of(sample.path)
    assert label_of(sample.path) == "Playing now"


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
    assert strategy.decide(sample.run.state, sample.goal) == rules.BANK
    sample.act()
    sample.end()
    assert label_of(sample.path) == "Banked short"
    assert "short of the 21,050 that were asked for" in page_of(sample.path)


def test_a_run_that_lacks_only_its_last_line_says_so(sample: SampleRun) -> None:
    while not sample.is_over:
        sample.play(1000)
    sample.close()
    assert label_of(sample.path) == "Stopped"
    assert "its last line is missing; the next call writes it" in page_of(sample.path)
    assert "Verified so far" in page_of(sample.path)


def test_a_run_that_goes_on_says_how_long_it_takes(sample: SampleRun) -> None:
    sample.play(100)
    sample.close()
    eta_s = read_story(sample.path).summary.eta_s
    assert eta_s is not None
    assert f"At this pace it takes {duration(eta_s)} more." in page_of(sample.path)


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


@pytest.mark.parametrize("first", [b"", b"garbage\n"], ids=["lost", "broken"])
def test_a_run_without_its_first_line_is_shown_as_far_as_it_can_be(
    tmp_path: Path, night: Path, first: bytes
) -> None:
    path = tmp_path / night.name
    path.write_bytes(first + b"".join(night.read_bytes().splitlines(keepends=True)[1:]))
    text = page_of(path)
    assert "State Damaged" in Elements(text).text
    assert "the 55 minutes of this call are used up (exit 75)" in text
    assert len(data_of(text)["boards"]) > 40


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


@pytest.mark.parametrize("content", [b"", b'{"seq":0,"ts":"2026-', b"garbage\n"])
def test_a_file_without_a_line_of_a_journal_is_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / f"{RUN_ID}.jsonl"
    path.write_bytes(content)
    with pytest.raises(NotAJournal, match="is no journal"):
        read_story(path)


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
    assert standing_of(story.summary).label == "Damaged"


def test_a_file_of_another_kind_is_no_run(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("one\ntwo\nthree\nfour\n")
    with pytest.raises(NotAJournal, match="no journal"):
        read_story(path)


def numbers_of_any_size(line: dict[str, Any]) -> dict[str, Any]:
    return {
        key: 2**53 - 1 if type(value) is int and key not in ("seq", "journal_version") else value
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
        lambda line: line | ({"phase": "<b>"} if "phase" in line else {}),
        lambda line: line | ({"action": {"type": "<b>", "count": []}} if "action" in line else {}),
        lambda line: line | ({"leaves": -5, "garland": [10**40, 0]} if "leaves" in line else {}),
    ],
    ids=[
        *("huge numbers", "the last year", "the first year", "no garland", "slow", "no board"),
        *("no phase", "no action", "negative"),
    ],
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
    assert re.findall(r"NaN|Infinity|undefined|e\+\d\d", text) == []


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
    svg = draw([spec], "x")
    assert 'data-tip="&lt;b&gt;&quot;&amp;"' in svg
    assert svg.startswith('<svg viewBox="')


def test_pictures_of_one_page_keep_their_clips_apart() -> None:
    spec = {
        "data": {"values": [{"x": 1}, {"x": 2}]},
        "mark": {"type": "line", "clip": True},
        "encoding": {"x": {"field": "x", "type": "quantitative"}},
    }
    for name in ("a", "b"):
        svg = draw([spec], name)
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


def test_a_moment_is_named_by_its_day_where_a_run_has_several(sample: SampleRun) -> None:
    for _ in range(40):
        sample.wait(3600)
        sample.act()
    axis = charts.TimeAxis(read_story(sample.path), "hours", 3600)
    assert axis.name(0) == "2026-11-30 01:52:07"
    assert (axis.at(7200), axis.channel("x")["axis"]["title"]) == (2, "hours played")
    assert "hours played" in page_of(sample.path)


def picture_of(text: str, name: str) -> str:
    match = re.search(f'id="chart-{name}".*?(<svg.*?</svg>)', text, re.DOTALL)
    assert match is not None
    return match[1]


def plot_width(svg: str) -> float:
    match = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
    assert match is not None
    assert float(match[2]) < 2 * charts.HEIGHT  # axis and legend are below
    return float(match[1])


@pytest.mark.parametrize("place", [20, 300, 540])
def test_scores_that_the_rules_contradict_are_not_drawn(
    tmp_path: Path, night: Path, night_page: str, place: int
) -> None:
    lines = [json.loads(line) for line in night.read_text().splitlines()]
    for line in [line for line in lines[place:] if line["event"] == "action"][:8]:
        line["score"] = 99_999
    path = tmp_path / night.name
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    text = page_of(path)
    assert "score is 99999" in text
    assert read_story(path)._scores == read_story(night)._scores
    assert picture_of(text, "points") == picture_of(night_page, "points")


def test_a_false_score_that_has_to_be_believed_neither_hides_the_line_nor_moves_the_plot(
    tmp_path: Path, night: Path, night_page: str
) -> None:
    lines = night.read_text().splitlines()
    lines[19:21] = ["lost", json.dumps(json.loads(lines[20]) | {"score": 99_999})]
    path = tmp_path / night.name
    path.write_text("\n".join(lines) + "\n")
    svg = picture_of(page_of(path), "points")
    assert plot_width(svg) == plot_width(picture_of(night_page, "points"))
    assert len(heights_of_line(svg)) > 3


def test_scores_beyond_the_last_one_are_cut_off_at_the_edge(night: Path, night_page: str) -> None:
    story = read_story(night)
    story._scores[200:260] = array("q", [99_999] * 60)
    story.incidents.marks[:] = [mark._replace(score=99_999) for mark in story.incidents.marks]
    svg = next(charts.build(story)).svg
    assert re.findall(r'viewBox="[^"]*"', svg)[0] in picture_of(night_page, "points")


def heights_of_line(svg: str) -> set[str]:
    """Return the heights of the line of points, which has to be in the plot."""
    paths = re.findall(r'd="([^"]*)" stroke="var\(--blue\)"', svg)
    heights = re.findall(r",([-\d.]+)", "".join(paths))
    assert all(0 <= float(height) <= charts.HEIGHT for height in heights[-3:])
    return set(heights)


def test_a_run_without_an_incident_has_its_points_drawn(sample: SampleRun) -> None:
    sample.play(100)
    svg = picture_of(page_of(sample.path), "points")
    assert plot_width(svg) < 2 * charts.WIDTH
    assert len(heights_of_line(svg)) > 10


def test_incidents_that_coincide_keep_their_own_heights(sample: SampleRun) -> None:
    sample.play(60)
    sample.fail("HTTP 503", 503, wait_s=0)
    sample.refuse("slow down")
    sample.suspend("enough", 75)
    sample.resume(10)
    sample.play(60)
    svg = picture_of(page_of(sample.path), "points")
    marks = re.findall(
        r'data-tip="[^"]*(?:retry|refusal|stop)" transform="translate\(([\d.]+),([\d.]+)\)', svg
    )
    assert len(marks) == 3
    assert len({height for _, height in marks}) == 1


# -- the overview ----------------------------------------------------------------------------


def test_the_overview_has_a_row_for_each_run_and_a_link_where_its_page_is(
    tmp_path: Path, night: Path
) -> None:
    (tmp_path / night.name).write_bytes(night.read_bytes())
    (tmp_path / "20261201T000000Z-seed9-0000.jsonl").write_bytes(b"prose\n")
    with SampleRun(tmp_path, Goal(1000), run_id="20261129T000000Z-seed7-0001") as made:
        made.play(30)
    text = overview_page(tmp_path, summarise_all(tmp_path), NOW, {f"{RUN_ID}.html", "other.html"})
    rows = re.findall(r'<tr role="row">(.*?)</tr>', text, re.DOTALL)
    assert [re.findall(r"\d{8}T\d{6}Z", row)[0] for row in rows] == [
        "20261201T000000Z",
        "20261130T015207Z",
        "20261129T000000Z",
    ]
    labels = [re.findall(r'class="state (\w+)">([^<]*)', row) for row in rows]
    assert labels == [[("bad", "Damaged")], [("good", "Banked")], [("open", "Stopped")]]
    assert re.findall(r'href="([^"]*)"', "".join(rows)) == [f"{RUN_ID}.html"]
    assert "is no journal" in rows[0]
    assert "21,050" in rows[1]
    assert "to go" in rows[2]
    assert "3 runs, the newest first." in text


def test_the_overview_of_an_empty_folder_says_so(tmp_path: Path) -> None:
    assert "There are no runs in this folder." in overview_page(tmp_path, [], NOW)


@pytest.mark.parametrize(
    "line",
    [
        b'{"seq":%s,"ts":"2026-11-30T01:52:07.000Z","event":"run.abandoned"}' % (b"9" * 4000),
        b'{"seq":0,"spec":' + b"[" * 5000 + b"]" * 5000 + b"}",
        b'{"seq":0,"run_id":"' + b"x" * 900_000 + b'"}',
        b"\xff\x00" * 1000,
    ],
    ids=["a number of 4,000 digits", "deep", "long", "no text"],
)
def test_no_file_takes_down_the_overview_or_swells_it(
    tmp_path: Path, night: Path, line: bytes
) -> None:
    (tmp_path / night.name).write_bytes(night.read_bytes())
    first = night.read_bytes().splitlines()[0]
    for number, lines in enumerate([[line], [first, line], [line, first], [first, line, line]]):
        path = tmp_path / f"20261130T01520{number}Z-seed7-0000.jsonl"
        path.write_bytes(b"\n".join([*lines, b""]))
    text = overview_page(tmp_path, summarise_all(tmp_path), NOW)
    assert text.count('class="state bad">Damaged') == 4
    assert "21,050" in text
    assert len(text) < 25_000


def test_a_run_to_a_million_points_has_a_page_under_600_kilobytes(tmp_path: Path) -> None:
    text = page_of(a_night(tmp_path))
    assert "1,000,225 points banked" in text
    assert len(text.encode()) < 600_000
