from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.wire.sayings import (
    MAX_SAYING,
    About,
    Saying,
    is_about_limit,
    saying_in,
    saying_of_error,
)

TOKEN = [
    "stateToken is stale",
    "stateToken has expired",
    "stateToken was not signed by this service",
    "Invalid state token",
    "INVALID_STATE_TOKEN",
    "InvalidStateToken",
    "tokenExpired",
    "invalid-token",
    "token expired",
    "bad token signature",
    "Bad Signature",
    "the signature is wrong",
    "session expired",
    "session not found",
    "unknown session",
    "jwt malformed",
    "jwt expired",
    "Invalid JSON Web Token",
    "State token is no longer valid",
    "token has been revoked",
    "Token could not be decoded",
    "cannot verify the token",
    "your token has expired",
]
LIMIT = [
    "too many requests",
    "Too many tokens requested",
    "rate limited: token bucket empty",
    "Rate-limit of this token reached",
    "ratelimited token",
    "RATE_LIMITED",
    "RateLimitExceeded",
    "slow down",
    "You are going too fast",
    "quota exceeded",
    "request limit reached; the token is invalid until then",
    "throttled: session rejected",
]
TROUBLE = [
    "Unexpected token '<', \"<!DOCTYPE \"... is not valid JSON",
    "Unexpected end of JSON input",
    "unexpected character at 1",
    "invalid csrf token",
    "CSRF token mismatch",
    "The access token expired",
    "invalid authentication token",
    "bearer token is invalid",
    "invalid API token",
    "session timed out upstream",
    "token service is overloaded",
    "token store unavailable",
    "reading the token timed out",
    "Internal Server Error",
    "internal error",
    "try again later",
    "Service temporarily unavailable",
    "upstream connect error",
    "gateway time-out",
    "database is locked",
    "deployment in progress",
    "down for maintenance",
    "The server is busy",
    "Something went wrong",
    "Conflict",
]
NEITHER = ["who are you?", "", "no", "not now", "Illegal action", "count is out of range"]


def about(answer: object) -> About | None:
    saying = saying_in(answer)
    return None if saying is None else saying.about


@pytest.mark.parametrize("reason", TOKEN)
def test_plain_words_about_the_token_are_about_the_token(reason: str) -> None:
    assert saying_in({"ok": False, "reason": reason}) == Saying(About.TOKEN, reason)
    assert saying_of_error({"message": reason}) == Saying(About.TOKEN, reason)


@pytest.mark.parametrize("reason", LIMIT)
def test_words_of_a_limit_come_before_all_others(reason: str) -> None:
    for answer in ({"ok": False, "reason": reason}, {"error": reason}):
        assert saying_in(answer) == Saying(About.LIMIT, reason)
    assert saying_of_error({"message": reason}) == Saying(About.LIMIT, reason)
    assert is_about_limit(f"<h1>{reason}</h1>")


@pytest.mark.parametrize("reason", TROUBLE)
def test_words_of_other_layers_and_of_passing_errors_are_trouble(reason: str) -> None:
    for answer in ({"ok": False, "reason": reason}, {"error": reason}):
        assert saying_in(answer) == Saying(About.TROUBLE, reason)
    assert saying_of_error({"message": reason}) == Saying(About.TROUBLE, reason)
    assert not is_about_limit(reason)


@pytest.mark.parametrize("reason", NEITHER)
def test_ok_false_with_any_other_words_is_a_refusal_and_a_4xx_may_pass(reason: str) -> None:
    assert about({"ok": False, "reason": reason}) is About.REFUSAL
    assert about({"error": reason or "x"}) is About.TROUBLE
    error = saying_of_error({"message": reason})
    assert error is not None
    assert error.about is About.TROUBLE


@pytest.mark.parametrize("key", ["legalActions", "legal_actions", "LegalActions"])
def test_a_refusal_that_lists_legal_actions_is_not_about_the_token(key: str) -> None:
    assert about({"ok": False, "reason": "token expired", key: []}) is About.REFUSAL
    assert about({"ok": False, "reason": "too many requests", key: []}) is About.LIMIT
    assert about({"ok": False, "reason": "internal error", key: []}) is About.TROUBLE


def test_an_error_without_ok_false_is_not_about_the_token() -> None:
    assert about({"error": "token expired"}) is About.TROUBLE


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ({"ok": False}, "no reason given"),
        ({"ok": False, "stateToken": "x"}, "no reason given"),
        ({"ok": False, "reason": "busy", "message": "other"}, "busy"),
        ({"ok": False, "detail": "wait", "code": 7}, "wait"),
        ({"ok": False, "reason": {"code": 7}}, '{"code": 7}'),
        ({"ok": False, "error": {"code": "E1", "message": "told"}}, "told"),
        ({"ok": False, "errors": [{"title": "Bad", "detail": "told"}]}, "told"),
        ({"statusCode": 400, "ok": False, "error": "Bad Request", "message": "told"}, "told"),
    ],
    ids=str,
)
def test_the_telling_field_of_an_error_is_shown(answer: object, text: str) -> None:
    saying = saying_in(answer)
    assert saying is not None
    assert saying.text == text


def test_a_title_is_no_reason_where_there_is_a_message() -> None:
    said = saying_of_error(
        {"statusCode": 400, "error": "Bad Request", "message": "Invalid stateToken"}
    )
    assert said == Saying(About.TOKEN, "Invalid stateToken")


def test_a_code_about_the_token_counts_beside_other_words() -> None:
    error = {"code": "INVALID_STATE_TOKEN", "message": "nope"}
    assert saying_in({"ok": False, "error": error}) == Saying(About.TOKEN, "nope")


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"ok": True},
        {"ok": None},
        {"ok": 0},
        {"ok": "false"},
        {"error": None},
        {"error": {}},
        {"error": 0},
        {"error": ""},
        {"errors": []},
        {"reason": "no"},
        {"message": "hello"},
        None,
        [],
        "no",
        7,
    ],
    ids=str,
)
def test_every_other_answer_says_nothing_of_the_kind(answer: object) -> None:
    assert saying_in(answer) is None


@pytest.mark.parametrize("body", [None, [], "token expired", 7, True], ids=str)
def test_a_body_that_is_no_object_says_nothing(body: object) -> None:
    assert saying_of_error(body) is None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.just("x" * 9999),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["reason", "message", "error", "errors", "code", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(VALUES)
def test_a_saying_of_any_shape_is_a_text_of_bounded_length(value: object) -> None:
    said = saying_in({"ok": False, "reason": value})
    assert said is not None
    assert isinstance(said.text, str)
    assert len(said.text) <= MAX_SAYING
    error = saying_of_error({"error": value})
    assert error is not None
    assert len(error.text) <= MAX_SAYING


def test_each_text_of_an_error_is_read_by_itself() -> None:
    assert saying_of_error({"reason": "no", "message": "token expired"}) == (About.TOKEN, "no")


def test_an_error_without_a_telling_text_is_shown_as_it_is() -> None:
    assert saying_of_error({"a": [1]}) == (About.TROUBLE, '{"a": [1]}')
    assert saying_in({"ok": False, "reason": ""}) == (About.REFUSAL, "")
    assert saying_in({"ok": False, "code": 7}) == (About.REFUSAL, "7")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        ({"errors": ["boom"]}, "boom"),
        ({"error": {"code": 1, "message": "boom"}}, "boom"),
        ({"error": {"code": 7}}, '{"code": 7}'),
        ({"error": {"code": 0, "message": "fine"}}, None),
        ({"error": {"code": "0", "message": "fine"}}, None),
        ({"error": {"code": "", "message": ""}}, None),
        ({"error": {}, "errors": []}, None),
    ],
    ids=str,
)
def test_an_error_is_one_where_it_says_something(error: object, text: str | None) -> None:
    assert saying_in(error) == (text and (About.TROUBLE, text))


@pytest.mark.parametrize(
    ("error", "text"),
    [
        ({"error": {"error": {"error": {"message": "boom"}}}}, "boom"),
        ({"error": {"error": {"error": {"error": {"message": "boom"}}}}}, None),
        ({"error": [[["boom"]]]}, "boom"),
        ({"error": [[[["boom"]]]]}, None),
        ({"errors": ["", "", "boom"]}, "boom"),
        ({"errors": ["", "", "", "boom"]}, None),
    ],
    ids=str,
)
def test_the_first_texts_of_an_error_are_read_to_the_fourth_level(
    error: dict[str, object], text: str | None
) -> None:
    (value,) = error.values()
    assert saying_of_error(error) == (About.TROUBLE, text or json.dumps(value))
