import pytest

from resilient_ov.embedded.bodies import Find, Message, check_texts, parse, parse_json
from resilient_ov.embedded.errors import ApiError


def _refusal(value: object) -> ApiError:
    with pytest.raises(ApiError) as caught:
        parse(Message, value)
    return caught.value


def test_every_mismatch_is_told_with_its_place() -> None:
    refusal = _refusal({"role": 1, "content": 2})
    assert refusal.status == 400
    assert refusal.details is not None
    places = [fault["loc"] for fault in refusal.details["validation_errors"]]
    assert places == [["body", "role"], ["body", "content"]]


@pytest.mark.parametrize("peer", ["b/b", "..", "a b", "p" * 256])
def test_a_peer_is_a_plain_id(peer: str) -> None:
    assert "peer_id" in _refusal({"role": "user", "content": "x", "peer_id": peer}).message


def test_no_peer_is_fine() -> None:
    assert parse(Message, {"role": "user", "content": "x", "peer_id": None}).peer_id is None


def test_search_refuses_unknown_fields_and_messages_do_not() -> None:
    assert parse(Message, {"role": "user", "content": "x", "bogus": 1}).content == "x"
    with pytest.raises(ApiError, match="Extra inputs"):
        parse(Find, {"query": "x", "bogus": 1})


def test_no_body_is_an_empty_object() -> None:
    assert parse_json(b"", "") == {}


def test_texts_have_limits() -> None:
    check_texts(["x" * 4 * 1024 * 1024] * 4)
    for value in ("x" * (4 * 1024 * 1024 + 1), {"a": ["x" * 4 * 1024 * 1024] * 5}):
        with pytest.raises(ApiError, match="limit exceeded"):
            check_texts(value)
    with pytest.raises(ApiError, match="surrogates not allowed"):
        check_texts({"a": [1, None, "\ud800"]})
