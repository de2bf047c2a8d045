import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resilient_ov.domain.exchange import Operation
from resilient_ov_observability import redaction
from resilient_ov_observability.redaction import (
    ALLOWED,
    OTHER_ERROR,
    clean,
    exemplar_trace_id,
    permit,
)
from tests.unit.observability.builders import SESSION_HASH, USER_HASH

GOOD = {
    "operation": "messages.add",
    "call": "add_nowait",
    "outcome": "degraded_auth",
    "duration_ms": 12.3456,
    "success": False,
    "status_code": 503,
    "error_type": "OpenVikingTimeoutError",
    "retry_count": 1,
    "attempts": 2,
    "breaker_state": "half_open",
    "result_count": 0,
    "account_alias": "acct_0123abcd",
    "user_hash": USER_HASH,
    "session_hash": SESSION_HASH,
    "trace_id": "00-abc:def/1",
    "request_id": "0123456789abcdef0123456789abcdef-a2",
    "task_id": "b0b1-c2",
    "group": "recall",
    "reason": "server_error",
    "pending": 3,
    "dropped": 2,
    "suppressed": 9,
    "failures": 4,
    "first_failure_at": "2026-01-01T00:00:00+00:00",
    "version": "0.1.0",
    "server_profile": "namespace",
    "settings": (("auth.mode", "trusted"), ("api_key", "set"), ("retrieval.top_k", 8)),
}

BAD = {
    "operation": "messages.add; DROP",
    "call": "a call",
    "outcome": "fine",
    "duration_ms": "12 SECRET",
    "success": "yes",
    "status_code": "200 SECRET reason phrase",
    "retry_count": True,
    "attempts": "two",
    "breaker_state": "ajar",
    "result_count": "many",
    "account_alias": "alice@example.com",
    "user_hash": "alice",
    "session_hash": "thread-1",
    "trace_id": "two words",
    "request_id": "id\nCRITICAL forged",
    "task_id": "{'key': 'SECRET'}",
    "group": "everything",
    "reason": "because SECRET",
    "pending": 1.5,
    "dropped": None,
    "suppressed": [1],
    "failures": "1",
    "first_failure_at": "yesterday",
    "version": "1.0 SECRET",
    "server_profile": "secret",
    "settings": {"api_key": "SECRET"},
}


@pytest.mark.parametrize("field", sorted(GOOD))
def test_a_value_of_the_right_shape_may_leave(field):
    assert permit(field, GOOD[field]) is not None


@pytest.mark.parametrize("field", sorted(BAD))
def test_a_value_of_another_shape_may_not_leave(field):
    assert permit(field, BAD[field]) is None


def test_every_field_has_a_good_and_a_bad_example():
    assert set(GOOD) == set(ALLOWED)
    assert set(BAD) | {"error_type"} == set(ALLOWED)


def test_an_unknown_error_type_is_told_as_other():
    assert permit("error_type", "AliceSecretError") == OTHER_ERROR
    assert permit("error_type", 7) == OTHER_ERROR
    assert permit("error_type", None) is None


def test_a_field_that_is_not_listed_does_not_leave():
    assert clean({"api_key": "SECRET", "operation": Operation.SEARCH, "url": "x"}) == {
        "operation": "search"
    }


def test_of_the_settings_only_harmless_values_leave():
    pairs = (
        ("auth.mode", "trusted"),
        ("auth.api_key", "set"),
        ("auth.account", "SECRET"),
        ("base_url", "http://SECRET"),
        ("Not A Name", 1),
        ("retry.max_seconds", 1.0),
        ("breaker.slow_call_seconds", None),
        ("metrics.enabled", True),
        ("x.nan", float("nan")),
        ("x.list", ["SECRET"]),
    )
    assert permit("settings", pairs) == {
        "auth.mode": "trusted",
        "auth.api_key": "set",
        "retry.max_seconds": 1.0,
        "breaker.slow_call_seconds": None,
        "metrics.enabled": True,
    }


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_a_duration_that_is_no_json_number_does_not_leave(number):
    assert permit("duration_ms", number) is None


@given(
    value=st.one_of(
        st.none(), st.text(), st.binary(), st.floats(), st.integers(), st.lists(st.text())
    )
)
def test_whatever_comes_nothing_raises_and_what_leaves_is_json(value):
    left = clean(dict.fromkeys([*ALLOWED, "other"], value))
    line = json.dumps(left, allow_nan=False)
    assert "\n" not in line
    assert "other" not in left


@pytest.mark.parametrize(("trace_id", "told"), [("abc", "abc"), ("a b", None), ("x" * 101, None)])
def test_an_exemplar_has_room_for_a_short_trace_id(trace_id, told):
    assert exemplar_trace_id(trace_id) == told


def test_every_closed_word_of_the_events_is_known():
    assert {"recall", "sync_on_loop", "openviking"} & redaction.WORDS == {"recall", "sync_on_loop"}
