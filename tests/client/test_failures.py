from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from requests.structures import CaseInsensitiveDict

from bot.client.failures import (
    Failure,
    Kind,
    from_answer,
    from_reading,
    from_saying,
    from_unreadable,
    parse_retry_after,
)
from bot.errors import (
    BotError,
    Contradiction,
    Diverged,
    ServiceUnavailable,
    TokenRefused,
    TryLater,
    Unreadable,
)
from bot.wire.layout import Layout
from bot.wire.reading import Reading, Wrong
from bot.wire.sayings import About, Saying

NOW: Final = datetime(2026, 11, 30, 2, 41, 7, tzinfo=UTC)


def failure(
    status: int,
    body: bytes = b"",
    *,
    is_under_way: bool = True,
    is_action: bool = True,
    **headers: Any,
) -> Failure:
    named = CaseInsensitiveDict({name.replace("_", "-"): value for name, value in headers.items()})
    return from_answer(status, named, body, is_under_way=is_under_way, is_action=is_action)


# Retry-After


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0),
        ("7", 7),
        (" 120 ", 120),
        ("1.5", 1.5),
        ("86400", 86400),
        ("007", 7),
        ("Mon, 30 Nov 2026 02:41:37 GMT", 30),
        ("Mon, 30 Nov 2026 02:41:37 +0000", 30),
        ("Mon, 30 Nov 2026 03:41:37 +0100", 30),
        ("Monday, 30-Nov-26 02:41:37 GMT", 30),
        ("Mon Nov 30 02:41:37 2026", 30),
        ("Tue, 01 Dec 2026 02:41:07 GMT", 86400),
    ],
)
def test_a_sensible_retry_after_is_understood(value: str, seconds: float) -> None:
    assert parse_retry_after(value, NOW) == seconds


@pytest.mark.parametrize(
    "value",
    [
        "",
        " ",
        "-5",
        "+5",
        "soon",
        "inf",
        "nan",
        "Infinity",
        "1e3",
        "0x10",
        "5,5",
        "5 s",
        "٣",
        "Mon, 30 Nov 2026 02:41:07 GMT",
        "Sun, 29 Nov 2026 02:41:07 GMT",
        "Thu, 01 Jan 1970 00:00:00 GMT",
        "Mon, 99 Nov 2026 02:41:37 GMT",
        "Mon, 30 Nov 99999999999 02:41:37 GMT",
        "Mon, 30 Nov 2026 02:41:37 +999999",
    ],
    ids=lambda value: repr(value)[:32],
)
def test_a_retry_after_without_sense_counts_as_not_sent(value: str) -> None:
    assert parse_retry_after(value, NOW) is None


@pytest.mark.parametrize("digits", [100, 300, 400, 100_000])
def test_a_retry_after_of_any_number_of_digits_is_for_ever(digits: int) -> None:
    assert (parse_retry_after("9" * digits, NOW) or 0) > 1e99


@given(st.text() | st.text("0123456789.+-: ,GMTSunaNov"))
def test_a_retry_after_of_any_text_is_understood_or_not(value: str) -> None:
    seconds = parse_retry_after(value, NOW)
    assert seconds is None or 0 <= seconds < float("inf")


@given(st.timedeltas(timedelta(seconds=1), timedelta(days=9999)))
def test_an_http_date_to_come_is_understood_to_the_second(ahead: timedelta) -> None:
    moment = NOW + timedelta(seconds=int(ahead.total_seconds()))
    value = f"{moment:%a, %d %b %Y %H:%M:%S} GMT"
    assert parse_retry_after(value, NOW) == (moment - NOW).total_seconds()


# Statuses

PAGE: Final = b"<!doctype html><title>Oops</title>" + b"x" * 500
REASON: Final = b'{"ok": false, "reason": "stateToken is stale"}'


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 410, 413, 422, 499])
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (REASON, "stateToken is stale"),
        (b'\xef\xbb\xbf{"error": "token expired"}', "token expired"),
        (
            b'{"statusCode": 400, "error": "Bad Request", "message": "Invalid stateToken"}',
            "Invalid stateToken",
        ),
        (b'{"error": {"code": "INVALID_TOKEN", "message": "no"}}', "no"),
        (b'{"errors": [{"title": "Bad", "detail": "the session has expired"}]}', "the session has"),
    ],
    ids=["reason", "error", "message", "code", "list"],
)
def test_plain_words_about_the_token_with_any_4xx_refuse_it(
    status: int, body: bytes, reason: str
) -> None:
    found = failure(status, body, Content_Type="application/json")
    assert (found.kind, found.status) == (Kind.TOKEN, status)
    assert f"(application/json): {reason}" in found.cause


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 599, 300, 777])
def test_the_same_words_with_any_other_status_do_not(status: int) -> None:
    assert failure(status, REASON).kind is (
        Kind.TOKEN if status == 408 else Kind.LIMIT if status == 429 else Kind.TROUBLE
    )


def test_init_has_no_token_to_refuse() -> None:
    assert failure(400, REASON, is_action=False).kind is Kind.TROUBLE


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 410, 413, 422])
@pytest.mark.parametrize(
    "body",
    [
        b'{"message": "Conflict"}',
        b'{"message": "Unauthorized"}',
        b'{"error": "Invalid access token"}',
        b'{"error": "invalid csrf token"}',
        b'{"message": "Unexpected token < in JSON at position 0"}',
        b'{"message": "session timed out upstream"}',
        b'{"detail": null}',
        b"{}",
    ],
    ids=bytes.decode,
)
def test_anything_else_that_json_says_with_a_4xx_may_pass(status: int, body: bytes) -> None:
    assert failure(status, body).kind is Kind.TROUBLE


@pytest.mark.parametrize("status", [400, 401, 409, 422, 500, 502, 503])
def test_words_of_a_limit_in_any_status_are_about_the_pace(status: int) -> None:
    found = failure(status, b'{"error": "too many concurrent requests with this token"}')
    assert found.kind is Kind.LIMIT
    assert failure(status, b"Rate limit exceeded").kind is Kind.LIMIT


@pytest.mark.parametrize("status", [400, 404, 500, 503])
def test_what_is_said_counts_and_not_what_else_stands_in_the_answer(status: int) -> None:
    body = b'{"error": "internal error", "help": "see /docs/rate-limits, too many requests"}'
    assert failure(status, body).kind is Kind.TROUBLE


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b" " * 1980 + b"rate limit exceeded", Kind.LIMIT),
        (b" " * 2000 + b"rate limit exceeded", Kind.TROUBLE),
        (b'{"trace": "' + b"x" * 2000 + b'", "error": "rate limit exceeded"}', Kind.LIMIT),
    ],
    ids=["first words of a page", "last words of a page", "JSON"],
)
def test_words_of_a_limit_count_among_the_first_ones_of_a_page_and_anywhere_in_json(
    body: bytes, kind: Kind
) -> None:
    assert failure(500, body).kind is kind


def test_429_is_about_the_pace_whatever_it_says() -> None:
    assert failure(429, b"").kind is Kind.LIMIT
    assert failure(429, PAGE, Content_Type="text/html").kind is Kind.LIMIT


@pytest.mark.parametrize("status", [400, 401, 409, 410, 422])
@pytest.mark.parametrize(
    "body",
    [b"", PAGE, b"null", b"[]", b'"x"', b'{"a": ', b"\xff", b"[" * 5000, b'{"a":' * 99999],
    ids=["nothing", "page", "null", "list", "text", "cut", "bytes", "deep", "deep objects"],
)
def test_such_a_status_without_a_json_object_is_trouble(status: int, body: bytes) -> None:
    assert failure(status, body).kind is Kind.TROUBLE


def test_a_reason_nested_too_deeply_is_none() -> None:
    body = b'{"reason": ' + b"[" * 900 + b"]" * 900 + b"}"
    assert failure(400, body).kind is Kind.TROUBLE


@pytest.mark.parametrize(
    ("status", "meaning"),
    [
        (402, "paid"),
        (404, "--base-url"),
        (405, "--base-url"),
        (406, "--base-url"),
        (413, "too large"),
        (415, "JSON"),
    ],
)
@pytest.mark.parametrize("body", [b"", PAGE, b'{"message": "no"}'], ids=["nothing", "page", "JSON"])
def test_a_wrong_address_or_way_is_final_until_something_was_accepted_there(
    status: int, meaning: str, body: bytes
) -> None:
    found = failure(status, body, is_under_way=False)
    assert (found.kind, found.status) == (Kind.FINAL, status)
    assert meaning in found.cause
    assert failure(status, body, is_under_way=True).kind is Kind.TROUBLE


CHECK: Final = b"<html><title>Just a moment...</title><script src=/cdn/challenge.js></script>"


@pytest.mark.parametrize(
    ("status", "body", "content_type"),
    [
        (403, CHECK, "text/html; charset=UTF-8"),
        (403, b"  <html>Attention required!", ""),
        (429, CHECK, "text/html"),
        (429, b"<p>Please enable JavaScript</p>", "text/html"),
        (429, b"<p>Vercel Security Checkpoint</p>", "text/html"),
        (503, b"<p>Checking your browser before you go on</p>", "text/html"),
        (503, b"<p>Verify you are human</p>", "TEXT/HTML"),
        (403, b"\xef\xbb\xbf<title>Just a moment...</title>", "text/html"),
        (403, b"Just a moment...", "Text/HTML"),
    ],
)
def test_a_page_that_asks_for_a_browser_is_known(
    status: int, body: bytes, content_type: str
) -> None:
    assert failure(status, body, Content_Type=content_type).kind is Kind.BROWSER_CHECK


@pytest.mark.parametrize(
    ("status", "body", "content_type"),
    [
        (429, PAGE, "text/html"),
        (503, PAGE, "text/html"),
        (429, b'{"error": "challenge"}', "application/json"),
        (403, b'{"error": "forbidden"}', "application/json"),
        (500, CHECK, "text/html"),
        (403, b"Forbidden", "text/plain"),
        (403, PAGE, "text/html"),
    ],
)
def test_any_other_page_is_none(status: int, body: bytes, content_type: str) -> None:
    found = failure(status, body, Content_Type=content_type).kind
    assert found is (Kind.LIMIT if status == 429 else Kind.TROUBLE)


@pytest.mark.parametrize("name", ["cf-mitigated", "x-vercel-mitigated", "CF-Mitigated"])
def test_a_header_that_names_a_challenge_is_a_browser_check(name: str) -> None:
    headers: dict[str, Any] = {name: "challenge"}
    assert failure(403, b"", **headers).kind is Kind.BROWSER_CHECK
    assert failure(500, b"", **headers).kind is Kind.TROUBLE


@pytest.mark.parametrize(
    "status", [100, 300, 304, 305, 400, 401, 403, 408, 409, 418, 421, 425, 451, 499, 500]
)
@pytest.mark.parametrize("body", [b"", b'{"reason": "no"}'], ids=["nothing", "JSON"])
def test_any_other_status_is_trouble_from_the_first_request_on(status: int, body: bytes) -> None:
    assert failure(status, body, is_under_way=False).kind is Kind.TROUBLE


@pytest.mark.parametrize("status", [501, 502, 503, 504, 507, 511, 520, 521, 530, 599, 777, 999])
def test_every_status_above_500_is_trouble(status: int) -> None:
    assert failure(status, PAGE, Content_Type="text/html").kind is Kind.TROUBLE


@pytest.mark.parametrize(
    ("status", "headers", "cause"),
    [
        (503, {"Content_Type": "text/html"}, "HTTP 503 Service Unavailable (text/html)"),
        (500, {}, "HTTP 500 Internal Server Error (no content type)"),
        (520, {"Content_Type": ""}, "HTTP 520 (no content type)"),
        (502, {"Content_Type": "x" * 5000}, f"HTTP 502 Bad Gateway ({'x' * 80})"),
    ],
    ids=["page", "nothing", "unheard of", "long"],
)
def test_a_cause_names_the_status_and_the_kind_of_content(
    status: int, headers: dict[str, Any], cause: str
) -> None:
    assert failure(status, PAGE, **headers).cause == cause


def test_at_most_200_characters_of_an_answer_are_kept() -> None:
    page = b"<p>some words</p> " * 50
    assert failure(503, page).excerpt == page.decode()[:200]
    assert failure(503, "☀ ".encode() * 500).excerpt == "☀ " * 100
    assert failure(503, b"\xff\0\x1b[2J").excerpt == "\ufffd\0\x1b[2J"


@pytest.mark.parametrize(
    "body", [b'{"echo": "%s"}', b"<p>%s</p>", b"%s", b'{"a": 1, "%s": ', b"token=%s&x"]
)
def test_no_token_is_ever_kept(body: bytes) -> None:
    token = "eyJzZWVkIjo3fQ.c2lnbmF0dXJl-_" + "Ab9/+=" * 40
    found = failure(400, body.replace(b"%s", token.encode()))
    assert token[:32] not in found.excerpt
    assert token[40:72] not in found.excerpt


def test_an_attempt_without_an_answer_has_its_cause_and_no_excerpt() -> None:
    found = Failure(Kind.TROUBLE, "connection reset")
    assert (str(found), found.cause, found.excerpt) == ("connection reset", "connection reset", "")


def test_a_cause_has_at_most_500_characters() -> None:
    body = json.dumps({"message": "a long word " * 5000}).encode()
    assert len(failure(409, body).cause) <= 500
    assert len(Failure(Kind.TROUBLE, "x" * 5000).cause) == 500


# Sayings, and what cannot be understood


@pytest.mark.parametrize(
    ("about", "of_action", "of_init"),
    [
        (About.LIMIT, Kind.LIMIT, Kind.LIMIT),
        (About.TOKEN, Kind.TOKEN, Kind.TROUBLE),
        (About.TROUBLE, Kind.TROUBLE, Kind.TROUBLE),
        (About.REFUSAL, Kind.REFUSED, Kind.TROUBLE),
    ],
)
def test_what_a_whole_answer_says_is_a_failure_of_its_kind(
    about: About, of_action: Kind, of_init: Kind
) -> None:
    for is_action, kind in ((True, of_action), (False, of_init)):
        found = from_saying(Saying(about, "words"), 200, {"a": 1}, is_action=is_action)
        assert (found.kind, found.cause, found.status, found.excerpt) == (
            kind,
            "words",
            200,
            '{"a": 1}',
        )


@pytest.mark.parametrize(
    ("has_token", "is_under_way", "kind"),
    [
        (False, False, Kind.UNREADABLE),
        (True, False, Kind.UNREADABLE),
        (True, True, Kind.UNREADABLE),
        (False, True, Kind.TROUBLE),
    ],
)
def test_json_that_is_not_understood_is_trouble_in_mid_run_where_it_has_no_token(
    has_token: bool, is_under_way: bool, kind: Kind
) -> None:
    exc = Unreadable("no token", has_token=has_token)
    found = from_unreadable(exc, 201, {}, is_under_way=is_under_way)
    assert (found.kind, found.status) == (kind, 201)


@pytest.mark.parametrize(
    ("shown", "cause"),
    [
        ({}, "no token (it is empty)"),
        ([], "no token"),
        ("a page", "no token"),
        (
            {"a": "x", "b": {}, "c": [], "d": True, "e": None, "f": 1, "g": 1.5},
            "no token (it has a text, b object, c list, d boolean, e null, f number, g number)",
        ),
    ],
    ids=str,
)
def test_what_came_is_told_by_its_keys_and_their_kinds(shown: object, cause: str) -> None:
    assert from_unreadable(Unreadable("no token"), 200, shown, is_under_way=False).cause == cause


def test_many_keys_are_told_by_the_first_twelve() -> None:
    shown: dict[str, object] = {f"key{number}": 1 for number in range(1, 99)}
    cause = from_unreadable(Unreadable("no"), 200, shown, is_under_way=False).cause
    named = ", ".join(f"key{number} number" for number in range(1, 13))
    assert cause == f"no (it has {named})"


def test_long_keys_are_told_by_40_characters_and_300_in_all() -> None:
    shown: dict[str, object] = {f"{number}{'x' * 999}": 1 for number in range(9)}
    cause = from_unreadable(Unreadable("no"), 200, shown, is_under_way=False).cause
    assert cause.startswith(f"no (it has 0{'x' * 39} number, 1{'x' * 39} number, ")
    assert len(cause) == len("no ()") + 300


@given(st.integers(100, 999), st.binary(max_size=60), st.text(max_size=20))
def test_an_answer_of_any_status_is_a_failure_with_a_cause(
    status: int, body: bytes, content_type: str
) -> None:
    found = failure(status, body, Content_Type=content_type)
    assert (found.status, found.kind in Kind) == (status, True)
    assert found.cause.startswith(f"HTTP {status}")


# Answers that differ

READING: Final = Reading(
    "token",
    (Wrong("score", ("score",), 430, None), Wrong("leaves", ("lives",), 3, "x" * 400)),
    Layout(("token",), (("garland",),)),
    frozenset(),
    frozenset(),
)


def test_an_answer_to_an_action_that_differs_names_the_fields() -> None:
    found = from_reading(READING, 201, {"a": 1}, is_action=True)
    assert (found.kind, found.status, found.excerpt) == (Kind.DIFFERS, 201, '{"a": 1}')
    assert found.cause == "the answer differs from the prediction: score, lives"
    assert type(found.verdict("flip 2", 2)) is Diverged


def test_an_answer_to_init_that_differs_names_the_first_field_and_the_way_to_pass_over_it() -> None:
    found = from_reading(READING, 201, {"a": 1}, is_action=False)
    assert (found.kind, found.status, found.excerpt) == (Kind.DIFFERS, 201, '{"a": 1}')
    assert found.cause == (
        "the answer to init has score None where a fresh run has 430; "
        "the setting wire.ignore lists fields to pass over"
    )
    verdict = found.verdict("init", 2)
    assert (type(verdict), str(verdict)) == (Contradiction, found.cause)


# Verdicts


@pytest.mark.parametrize(
    ("found", "kind", "exit_code", "message"),
    [
        (
            Failure(Kind.TROUBLE, "HTTP 503"),
            ServiceUnavailable,
            69,
            "flip 2 was sent 3 times, and not again: HTTP 503",
        ),
        (Failure(Kind.FINAL, "HTTP 404"), ServiceUnavailable, 69, "HTTP 404"),
        (Failure(Kind.MOVED, "HTTP 302"), ServiceUnavailable, 69, "HTTP 302"),
        (Failure(Kind.BROWSER_CHECK, "HTTP 403"), ServiceUnavailable, 69, "asks for a browser"),
        (Failure(Kind.TOKEN, "stale"), TokenRefused, 77, "refuses the token: stale"),
        (Failure(Kind.REFUSED, "no"), Contradiction, 76, "flip 2, a legal action, 3 times: no"),
        (Failure(Kind.DIFFERS, "", error=Contradiction("no")), Contradiction, 76, "no"),
        (
            Failure(Kind.DIFFERS, "", reading=READING),
            Diverged,
            76,
            "flip 2 contradicts the rules: score is None, predicted 430; lives is 'xxx",
        ),
        (Failure(Kind.FINAL, "no more", error=TryLater("later")), TryLater, 75, "later"),
    ],
    ids=lambda value: value.kind.name if isinstance(value, Failure) else "",
)
def test_a_last_failure_ends_with_the_error_of_its_kind(
    found: Failure, kind: type[BotError], exit_code: int, message: str
) -> None:
    verdict = found.verdict("flip 2", 3)
    assert type(verdict) is kind
    assert verdict.exit_code == exit_code
    assert message in str(verdict)
    assert len(str(verdict)) < 400


def test_a_divergence_keeps_the_fields() -> None:
    verdict = Failure(Kind.DIFFERS, "", reading=READING).verdict("flip 2", 2)
    assert isinstance(verdict, Diverged)
    assert verdict.fields == {
        "score": {"predicted": 430, "observed": None},
        "lives": {"predicted": 3, "observed": "x" * 400},
    }


def test_an_answer_that_is_not_understood_ends_with_how_it_begins() -> None:
    found = Failure(Kind.UNREADABLE, "no token (it has a text)", shown={"a": "b"})
    verdict = found.verdict("init", 3)
    assert (type(verdict), verdict.exit_code) == (Unreadable, 76)
    assert str(verdict) == (
        'the answer to init cannot be understood: no token (it has a text). It begins: {"a": "b"}'
    )


def test_a_browser_check_that_there_is_no_time_to_try_again_says_so() -> None:
    found = Failure(Kind.BROWSER_CHECK, "HTTP 403")
    found.is_late = True
    assert "asks for a browser" in str(found.verdict("init", 2))
