from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.client.failures import Failure, Kind, from_status, parse_retry_after
from bot.errors import (
    BotError,
    Contradiction,
    Diverged,
    ServiceUnavailable,
    TokenRefused,
    TryLater,
)
from bot.wire.layout import Layout, Reading

NOW: Final = datetime(2026, 11, 30, 2, 41, 7, tzinfo=UTC)


def failure(status: int, body: bytes = b"", **headers: str) -> Failure:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return from_status(status, named, body, sent_bytes=321, now=NOW)


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
        None,
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
        "9" * 400,
        "Mon, 30 Nov 2026 02:41:07 GMT",
        "Sun, 29 Nov 2026 02:41:07 GMT",
        "Thu, 01 Jan 1970 00:00:00 GMT",
        "Mon, 99 Nov 2026 02:41:37 GMT",
        "Mon, 30 Nov 99999999999 02:41:37 GMT",
        "Mon, 30 Nov 2026 02:41:37 +999999",
    ],
    ids=lambda value: repr(value)[:32],
)
def test_a_retry_after_without_sense_counts_as_not_sent(value: str | None) -> None:
    assert parse_retry_after(value, NOW) is None


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


@pytest.mark.parametrize("status", [400, 401, 409, 410, 422])
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (REASON, "stateToken is stale"),
        (b'\xef\xbb\xbf{"error": "gone"}', "gone"),
        (b'{"message": {"code": 7}}', '{"code": 7}'),
        (b'{"detail": null}', "null"),
        (b"{}", "{}"),
    ],
    ids=["reason", "error", "message", "detail", "nothing"],
)
def test_a_json_object_with_such_a_status_refuses_the_token(
    status: int, body: bytes, reason: str
) -> None:
    found = failure(status, body, Content_Type="application/json")
    assert (found.kind, found.status) == (Kind.TOKEN, status)
    assert found.cause.endswith(f"(application/json): {reason}")


@pytest.mark.parametrize("status", [400, 401, 409, 410, 422])
def test_such_a_status_with_trouble_that_will_pass_is_transient(status: int) -> None:
    found = failure(status, b'{"error": "too many concurrent requests"}')
    assert found.kind is Kind.TRANSIENT
    assert found.cause.endswith("(no content type): too many concurrent requests")


@pytest.mark.parametrize("status", [400, 401, 409, 410, 422])
@pytest.mark.parametrize(
    "body",
    [b"", PAGE, b"null", b"[]", b'"x"', b'{"a": ', b"\xff", b"[" * 5000, b'{"a":' * 99999],
    ids=["nothing", "page", "null", "list", "text", "cut", "bytes", "deep", "deep objects"],
)
def test_such_a_status_without_a_json_object_is_transient(status: int, body: bytes) -> None:
    assert failure(status, body).kind is Kind.TRANSIENT


def test_a_reason_nested_too_deeply_is_none() -> None:
    body = b'{"reason": ' + b"[" * 900 + b"]" * 900 + b"}"
    assert failure(400, body).kind is Kind.TRANSIENT


@pytest.mark.parametrize(
    ("status", "meaning"),
    [
        (402, "paid"),
        (404, "--base-url"),
        (405, "--base-url"),
        (413, "321 bytes"),
        (415, "JSON"),
    ],
)
@pytest.mark.parametrize("body", [b"", PAGE, REASON], ids=["nothing", "page", "JSON"])
def test_a_status_that_would_come_again_is_final(status: int, meaning: str, body: bytes) -> None:
    found = failure(status, body)
    assert (found.kind, found.status) == (Kind.FINAL, status)
    assert meaning in found.cause


CHECK: Final = b"<html><title>Just a moment...</title><script src=/cdn/challenge.js></script>"


@pytest.mark.parametrize(
    ("status", "body", "content_type"),
    [
        (403, CHECK, "text/html; charset=UTF-8"),
        (403, PAGE, "text/html"),
        (403, b"  <html>", ""),
        (429, CHECK, "text/html"),
        (429, b"<p>Please enable JavaScript</p>", "text/html"),
        (429, b"<p>Vercel Security Checkpoint</p>", "text/html"),
        (503, b"<p>Checking your browser before you go on</p>", "text/html"),
        (503, b"<p>Verify you are human</p>", "TEXT/HTML"),
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
    ],
)
def test_any_other_page_is_transient(status: int, body: bytes, content_type: str) -> None:
    assert failure(status, body, Content_Type=content_type).kind is Kind.TRANSIENT


@pytest.mark.parametrize(
    "status", [100, 201, 204, 206, 226, 300, 304, 305, 406, 408, 418, 421, 425, 451, 499, 500]
)
@pytest.mark.parametrize("body", [b"", REASON], ids=["nothing", "JSON"])
def test_any_other_status_is_transient(status: int, body: bytes) -> None:
    assert failure(status, body).kind is Kind.TRANSIENT


@pytest.mark.parametrize("status", [501, 502, 503, 504, 507, 511, 520, 521, 530, 599, 777, 999])
def test_every_status_above_500_is_transient(status: int) -> None:
    assert failure(status, PAGE, Content_Type="text/html").kind is Kind.TRANSIENT


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
    status: int, headers: dict[str, str], cause: str
) -> None:
    assert failure(status, PAGE, **headers).cause == cause


def test_at_most_200_characters_of_an_answer_are_kept() -> None:
    assert failure(503, PAGE).excerpt == PAGE.decode()[:200]
    assert failure(503, "☀".encode() * 500).excerpt == "☀" * 200
    assert failure(503, b"\xff\0\x1b[2J").excerpt == "\ufffd\0\x1b[2J"


def test_retry_after_is_read_by_any_spelling_of_its_name() -> None:
    assert failure(503, Retry_After="9").retry_after_s == 9
    assert failure(503, Retry_After="soon").retry_after_s is None
    assert failure(503).retry_after_s is None


@given(st.integers(100, 999), st.binary(max_size=60), st.text(max_size=20))
def test_an_answer_of_any_status_is_a_failure_with_a_cause(
    status: int, body: bytes, content_type: str
) -> None:
    found = failure(status, body, Content_Type=content_type)
    assert found.status == status
    assert found.cause.startswith(f"HTTP {status}")


# Verdicts

DIFFERENCES: Final[dict[str, dict[str, object]]] = {
    "score": {"predicted": 430, "observed": None},
    "lives": {"predicted": 3, "observed": "x" * 500},
}
READING: Final = Reading("token", DIFFERENCES, Layout(("token",), (("garland",),), ()))


@pytest.mark.parametrize(
    ("found", "kind", "exit_code", "message"),
    [
        (
            Failure(Kind.TRANSIENT, "HTTP 503"),
            ServiceUnavailable,
            69,
            "flip 2 was sent 3 times, and not again: HTTP 503",
        ),
        (Failure(Kind.FINAL, "HTTP 404"), ServiceUnavailable, 69, "HTTP 404"),
        (Failure(Kind.MOVED, "HTTP 302"), ServiceUnavailable, 69, "HTTP 302"),
        (Failure(Kind.BROWSER_CHECK, "HTTP 403"), ServiceUnavailable, 69, "asks for a browser"),
        (Failure(Kind.TOKEN, "stale"), TokenRefused, 77, "refuses the token: stale"),
        (Failure(Kind.REFUSED, "no"), Contradiction, 76, "flip 2, a legal action, 3 times: no"),
        (Failure(Kind.DIFFERS, "init has"), Contradiction, 76, "init has"),
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
    assert verdict.fields == DIFFERENCES
    assert json.dumps(verdict.fields)
