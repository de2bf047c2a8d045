"""From HTTP to failure kinds and evidence, without a socket."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resilient_ov.adapters import replies
from resilient_ov.adapters.transport_errors import TlsFailure, TlsTimedOut
from resilient_ov.adapters.wire_attempt import WireAttempt
from resilient_ov.domain.exchange import (
    AddMessages,
    Answer,
    BatchReceipt,
    Command,
    Evidence,
    Failure,
    FailureKind,
    Identity,
    ReadMessages,
    Search,
    Success,
    WireMessage,
)

ME = Identity(user="df_me")
FIND = Search(
    identity=ME, query="q", targets=("viking://~/memories",), limit=8, score_threshold=0.5
)
ADD = AddMessages(
    identity=ME,
    session_id="s",
    messages=tuple(WireMessage(role="user", content=str(i), source_ids=()) for i in range(3)),
)
RECEIPT = {"status": "ok", "result": {"message_count": 3, "added": 3}}
DATE = "Wed, 21 Oct 2026 07:28:00 GMT"


class Wire:
    """An attempt on a clock that stands at 100 s."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def attempt(self, *, deadline_s: float = 110.0, sent: bool = True) -> WireAttempt:
        attempt = WireAttempt(deadline_s, lambda: self.now_s)
        if sent:
            attempt.note_write()
            self.now_s += 0.5
        return attempt


def answer(
    status: int,
    content: Any,
    *,
    command: Command = ADD,
    headers: dict[str, str] | list[tuple[str, str]] | None = None,
) -> Answer:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    found = httpx.Headers(headers or {})
    if "content-length" not in found:
        found["content-length"] = str(len(body))
    attempt = Wire().attempt()
    attempt.note_read(body or b"x")
    return replies.answered(command, status, found, body, attempt)


def failure(status: int, content: Any, **rest: Any) -> Failure:
    found = answer(status, content, **rest)
    assert isinstance(found, Failure)
    return found


def error(code: str = "INTERNAL", **details: Any) -> dict[str, Any]:
    told = {"code": code, "message": "secret text", "details": details or None}
    return {"status": "error", "result": None, "error": told}


def test_clean_success() -> None:
    assert answer(200, RECEIPT) == Success(value=BatchReceipt(live_messages=3, added=3), status=200)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, FailureKind.CLIENT_ERROR),
        (401, FailureKind.AUTH),
        (403, FailureKind.AUTH),
        (404, FailureKind.CLIENT_ERROR),
        (405, FailureKind.PROTOCOL),
        (409, FailureKind.CLIENT_ERROR),
        (410, FailureKind.PROTOCOL),
        (412, FailureKind.CLIENT_ERROR),
        (413, FailureKind.CLIENT_ERROR),
        (429, FailureKind.RATE_LIMITED),
        (500, FailureKind.SERVER_ERROR),
        (501, FailureKind.PROTOCOL),
        (502, FailureKind.SERVER_ERROR),
        (503, FailureKind.SERVER_ERROR),
        (504, FailureKind.SERVER_ERROR),
        (101, FailureKind.PROTOCOL),
        (302, FailureKind.PROTOCOL),
        (307, FailureKind.PROTOCOL),
        (600, FailureKind.PROTOCOL),
    ],
)
@pytest.mark.parametrize("content", [error("SOME_CODE"), b"<html>no</html>", b""])
def test_status_decides_the_kind_whatever_the_body(
    status: int, kind: FailureKind, content: Any
) -> None:
    found = failure(status, content)
    assert (found.kind, found.evidence, found.status) == (kind, Evidence.ANSWERED, status)
    assert found.enveloped == isinstance(content, dict)
    assert found.code == ("SOME_CODE" if found.enveloped else None)


def test_every_status_has_a_kind() -> None:
    for status in range(100, 1000):
        if not 200 <= status < 300:
            assert failure(status, error()).kind in FailureKind


def test_error_envelope_under_200_is_a_server_error() -> None:
    found = failure(200, error("NO_VECTOR_DB"))
    assert found.kind is FailureKind.SERVER_ERROR
    assert (found.status, found.code, found.enveloped) == (200, "NO_VECTOR_DB", True)


@pytest.mark.parametrize("status", [401, 403])
def test_provider_auth_error_is_not_our_auth(status: int) -> None:
    found = failure(status, error("UNAUTHENTICATED", upstream_status_code=401))
    assert (found.kind, found.provider_fault) == (FailureKind.SERVER_ERROR, True)


@pytest.mark.parametrize(
    "details", [{"upstream_error_type": "ConnectError"}, {"upstream_message": "x"}]
)
def test_any_upstream_detail_names_the_provider(details: dict[str, Any]) -> None:
    assert failure(503, error("UNAVAILABLE", **details)).provider_fault


def test_provider_rate_limit_stays_a_rate_limit() -> None:
    found = failure(429, error("RESOURCE_EXHAUSTED", upstream_status_code=429))
    assert (found.kind, found.provider_fault) == (FailureKind.RATE_LIMITED, True)


def test_null_upstream_detail_is_no_provider_fault() -> None:
    assert not failure(401, error("X", upstream_status_code=None)).provider_fault


@pytest.mark.parametrize(
    "code", ["X\r\nCRITICAL fake", "lower", "A" * 65, "", None, 7, "A1", "A\n", "Ä"]
)
def test_code_is_closed_vocabulary_or_nothing(code: Any) -> None:
    assert failure(500, error(code)).code is None


@pytest.mark.parametrize(
    "body",
    [
        b"<html>captive portal</html>",
        b"",
        b"[]",
        b"null",
        b'"ok"',
        b'{"status":"ok","result":',
        b'{"status":"weird","result":{}}',
        b'{"status":"ok"}',
        b'{"status":"ok","result":{"message_count":NaN,"added":1}}',
        b'{"status":"ok","result":{"message_count":' + b"1" * 5000 + b',"added":1}}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"\xef\xbb\xbf{}",
        b'{"status":"ok","result":"caf\xe9"}',
        '{"status":"ok"}'.encode("utf-16"),
    ],
)
def test_2xx_that_is_not_understood_is_protocol_and_answered(body: bytes) -> None:
    found = failure(200, body)
    assert (found.kind, found.evidence) == (FailureKind.PROTOCOL, Evidence.ANSWERED)
    assert (found.status, found.enveloped) == (200, False)


def test_broken_body_that_ends_with_the_connection_may_be_cut() -> None:
    attempt = Wire().attempt()
    found = replies.answered(ADD, 200, httpx.Headers(), b'{"status":', attempt)
    assert isinstance(found, Failure)
    assert (found.kind, found.evidence) == (FailureKind.PROTOCOL, Evidence.UNKNOWN)


@pytest.mark.parametrize("coding", ["gzip", "br", "identity, gzip", "zstd", "x"])
def test_any_content_encoding_is_protocol(coding: str) -> None:
    found = failure(200, RECEIPT, headers={"content-encoding": coding})
    assert found.kind is FailureKind.PROTOCOL


@pytest.mark.parametrize("coding", ["", "identity", " Identity "])
def test_identity_encoding_is_read(coding: str) -> None:
    assert isinstance(answer(200, RECEIPT, headers={"content-encoding": coding}), Success)


def test_one_broken_score_does_not_hide_the_other_hits() -> None:
    body = (
        b'{"status":"ok","result":{"memories":[{"uri":"a","abstract":"A","score":NaN},'
        b'{"uri":"b","abstract":"B","score":Infinity},{"uri":"c","abstract":"C","score":0.9}]}}'
    )
    found = answer(200, body, command=FIND)
    assert isinstance(found, Success)
    assert len(found.value) == 3  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("errors", "indices"),
    [
        ([{"loc": ["body", "messages", "1"]}], (1,)),
        ([{"loc": ["body", "messages", 2, "role"]}, {"loc": ["body", "messages", "0"]}], (0, 2)),
        ([{"loc": ["body", "messages", "1"]}, {"loc": ["body", "messages", "1", "x"]}], (1,)),
        ([{"loc": ["body", "messages"]}], ()),
        ([{"loc": ["body", "messages", "3"]}], ()),
        ([{"loc": ["body", "messages", "-1"]}], ()),
        ([{"loc": ["body", "messages", "x"]}], ()),
        ([{"loc": ["body", "other", "1"]}], ()),
        ([{"loc": "body"}, None, 7, {}], ()),
        ("text", ()),
        (None, ()),
    ],
)
def test_named_messages_are_told(errors: Any, indices: tuple[int, ...]) -> None:
    assert failure(400, error("X", validation_errors=errors)).invalid_indices == indices


def test_only_a_batch_has_invalid_indices() -> None:
    told = error("X", validation_errors=[{"loc": ["body", "messages", "1"]}])
    assert failure(400, told, command=FIND).invalid_indices == ()


@pytest.mark.parametrize(
    ("hint", "seconds"),
    [
        ("0", 0.0),
        ("0.2", 0.2),
        ("120", 120.0),
        ("9999999999999", 9999999999999.0),
        (" 7 ", 7.0),
        ("Wed, 21 Oct 2026 07:29:00 GMT", 60.0),
        ("Wed, 21 Oct 2026 07:29:00 -0000", 60.0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
        ("-5", None),
        ("", None),
        ("soon", None),
        ("nan", None),
        ("inf", None),
        ("1e10", None),
        ("1, 2", None),
        ("٣", None),
        ("Wed, 99 Oct 2026 07:28:00 GMT", None),
    ],
)
def test_retry_after(hint: str, seconds: float | None) -> None:
    headers = httpx.Headers([(b"retry-after", hint.encode()), (b"date", DATE.encode())])
    assert replies.retry_after_s(headers) == seconds


def test_two_hints_are_no_hint() -> None:
    assert (
        replies.retry_after_s(httpx.Headers([("retry-after", "1"), ("retry-after", "2")])) is None
    )


def test_date_without_the_replys_own_date_is_no_hint() -> None:
    assert replies.retry_after_s(httpx.Headers({"retry-after": DATE})) is None


def test_hint_comes_with_the_failure() -> None:
    assert failure(503, error(), headers={"retry-after": "3"}).retry_after_s == 3.0


@given(hint=st.text(max_size=40), date=st.text(max_size=40))
def test_no_hint_breaks_the_reading(hint: str, date: str) -> None:
    raw = [(b"retry-after", hint.encode()), (b"date", date.encode())]
    found = replies.retry_after_s(httpx.Headers(raw))
    assert found is None or 0 <= found < float("inf")


@given(status=st.integers(100, 999), body=st.binary(max_size=60))
def test_no_body_breaks_the_reading(status: int, body: bytes) -> None:
    answer(status, body)


# -- no whole answer --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (httpx.PoolTimeout, FailureKind.SATURATED),
        (httpx.ConnectError, FailureKind.CONNECT),
        (httpx.ConnectTimeout, FailureKind.CONNECT),
        (TlsFailure, FailureKind.TLS),
        (TlsTimedOut, FailureKind.TLS),
        (httpx.ReadTimeout, FailureKind.TIMEOUT),
        (httpx.WriteTimeout, FailureKind.TIMEOUT),
        (httpx.ReadError, FailureKind.RESET),
        (httpx.WriteError, FailureKind.RESET),
        (httpx.CloseError, FailureKind.RESET),
        (httpx.RemoteProtocolError, FailureKind.PROTOCOL),
        (httpx.LocalProtocolError, FailureKind.PROTOCOL),
        (httpx.UnsupportedProtocol, FailureKind.PROTOCOL),
    ],
)
@pytest.mark.parametrize("sent", [True, False])
def test_error_decides_the_kind_and_the_first_write_the_evidence(
    raised: Callable[[str], httpx.TransportError], kind: FailureKind, *, sent: bool
) -> None:
    found = replies.failed(raised("x"), Wire().attempt(sent=sent))
    evidence = Evidence.UNKNOWN if sent else Evidence.NOT_SENT
    assert (found.kind, found.evidence, found.status) == (kind, evidence, None)
    assert found.wire_s == (0.5 if sent else 0.0)


@pytest.mark.parametrize("raised", [httpx.ConnectTimeout, TlsTimedOut])
def test_connecting_cut_by_the_deadline_is_a_timeout(
    raised: Callable[[str], httpx.TransportError],
) -> None:
    found = replies.failed(raised("x"), Wire().attempt(deadline_s=100.0, sent=False))
    assert (found.kind, found.evidence) == (FailureKind.TIMEOUT, Evidence.NOT_SENT)


def test_own_full_pool_stays_saturation_at_the_deadline() -> None:
    found = replies.failed(httpx.PoolTimeout("x"), Wire().attempt(deadline_s=100.0, sent=False))
    assert found.kind is FailureKind.SATURATED


def test_reply_cut_by_the_peer_is_a_reset() -> None:
    attempt = Wire().attempt()
    attempt.note_read(b"HTTP/1.1 2")
    attempt.note_read(b"")
    found = replies.failed(httpx.RemoteProtocolError("x"), attempt)
    assert (found.kind, found.evidence) == (FailureKind.RESET, Evidence.UNKNOWN)
    assert found.byte_received


def test_attempt_that_never_began_sent_nothing() -> None:
    found = replies.failed(httpx.ConnectError("x"), None)
    assert (found.evidence, found.wire_s, found.byte_received) == (Evidence.NOT_SENT, 0.0, False)


def test_page_of_several_lines_has_a_smaller_cap() -> None:
    page = ReadMessages(identity=ME, session_id="s", archive=None, offset=0, limit=2)
    assert replies.max_body_bytes(page) == 4 * 1024 * 1024
    assert replies.max_body_bytes(replace(page, limit=1)) == 8 * 1024 * 1024
    assert replies.max_body_bytes(FIND) == 8 * 1024 * 1024


def test_too_large_leaves_the_outcome_open() -> None:
    found = replies.too_large(Wire().attempt())
    assert (found.kind, found.evidence) == (FailureKind.PROTOCOL, Evidence.UNKNOWN)
    assert found.too_large


def test_answer_that_came_but_was_not_read_in_time() -> None:
    found = replies.out_of_time(200, Wire().attempt())
    assert (found.kind, found.evidence, found.status) == (
        FailureKind.TIMEOUT,
        Evidence.ANSWERED,
        200,
    )


def test_nothing_of_a_message_survives() -> None:
    assert "secret text" not in repr(
        failure(500, error("INTERNAL", upstream_message="secret text"))
    )
