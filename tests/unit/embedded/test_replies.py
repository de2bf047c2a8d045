import json

import pytest

from resilient_ov.embedded import errors, replies
from resilient_ov.embedded.errors import ApiError


def test_both_envelopes_of_success() -> None:
    full = json.loads(replies.ok(1, has_more=True).body)
    assert full.keys() == {"status", "result", "error", "telemetry", "profile", "has_more"}
    assert json.loads(replies.ok_short(1, None).body) == {"status": "ok", "result": 1}
    watch = replies.Stopwatch("search.find")
    measured = json.loads(replies.ok_short(1, watch.telemetry()).body)["telemetry"]["summary"]
    assert measured["operation"] == "search.find"
    assert measured["duration_ms"] >= 0


@pytest.mark.parametrize(
    ("error", "is_full"),
    [
        (errors.not_found("task", "x"), True),
        (errors.not_found_short("x"), False),
        (errors.invalid_fields([{"loc": ["body"], "message": "m", "type": "t"}]), False),
        (errors.unimplemented("x"), True),
    ],
)
def test_both_envelopes_of_failure(error: ApiError, *, is_full: bool) -> None:
    body = json.loads(replies.failure(error).body)
    assert ("result" in body) is is_full
    assert body["error"]["code"] == error.code


def test_a_name_without_utf8_form_can_be_told() -> None:
    body = replies.failure(errors.not_found("user", "\ud800")).body
    assert b"ud800" in bytes(body)
