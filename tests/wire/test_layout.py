from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.wire.fields import LOCATABLE
from bot.wire.layout import Layout, layout_from_json

KEYS: Final = st.text(st.sampled_from("ab.\\☀0\n"), min_size=1, max_size=5)
PATHS: Final = st.lists(KEYS, min_size=1, max_size=4).map(tuple)
PLACES: Final = st.lists(PATHS, min_size=1, max_size=3, unique=True).map(tuple)
LAYOUTS: Final = st.builds(
    Layout,
    token=PATHS,
    garlands=PLACES | st.just(()),
    fields=st.dictionaries(
        st.sampled_from([name for name in LOCATABLE if name not in ("token", "garland")]), PLACES
    ),
    passed_over=st.dictionaries(st.text(max_size=9), st.text(max_size=9), max_size=3),
)


@given(LAYOUTS)
def test_a_layout_of_any_places_is_written_and_read_back_alike(layout: Layout) -> None:
    assert layout_from_json(json.loads(json.dumps(layout.to_json()))) == layout


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"token": "a", "garland": "b"},
        {"garland": "b", "passed_over": {}},
        {"token": [], "garland": "b", "passed_over": {}},
        {"token": "a", "garland": 7, "passed_over": {}},
        {"token": "a", "garland": "b..c", "passed_over": {}},
        {"token": "a", "garland": "b", "passed_over": []},
        {"token": "a", "garland": "b", "passed_over": {}, "score": None},
    ],
    ids=json.dumps,
)
def test_what_is_no_layout_is_refused(value: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"^a path is|^it does not say where the token was found$"):
        layout_from_json(value)


KNOWN: Final = Layout(
    token=("token",),
    garlands=(("garland",),),
    fields={"score": (("score",), ("state", "score")), "turn": (("turn",),)},
    passed_over={"leaves": "a list"},
)


@pytest.mark.parametrize(
    ("changes", "is_news"),
    [
        ({}, False),
        ({"fields": {}}, False),
        ({"fields": {"score": (("score",),)}}, False),
        ({"fields": {"score": (("state", "score"), ("score",))}}, False),
        ({"fields": {"score": (("total",),)}}, True),
        ({"fields": {"score": (("score",), ("total",))}}, True),
        ({"fields": {"phase": (("phase",),)}}, True),
        ({"token": ("next",)}, True),
        ({"garlands": ()}, True),
        ({"passed_over": {}}, True),
    ],
    ids=str,
)
def test_a_layout_has_news_where_something_stands_at_a_new_place(
    changes: dict[str, Any], is_news: bool
) -> None:
    assert KNOWN.has_news_for(replace(KNOWN, **changes)) is is_news
