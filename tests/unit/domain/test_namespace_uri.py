"""Addresses: the strict parse, and containment by whole segments."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resilient_ov.domain.namespace import (
    InvalidUriError,
    UriFault,
    VikingUri,
    parse_uri,
    unchecked_uri,
)


@pytest.mark.parametrize(
    ("text", "segments"),
    [
        ("viking://", ()),
        ("viking://~/memories", ("~", "memories")),
        ("viking://user/alice/memories/", ("user", "alice", "memories")),
        (
            "viking://user/alice/memories/喜欢 简洁.md",
            ("user", "alice", "memories", "喜欢 简洁.md"),
        ),
    ],
)
def test_well_formed_addresses_become_segments(text: str, segments: tuple[str, ...]) -> None:
    assert parse_uri(text).segments == segments


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", UriFault.SCHEME),
        ("http://x/y", UriFault.SCHEME),
        ("VIKING://user/alice", UriFault.SCHEME),
        (" viking://user/alice", UriFault.SCHEME),
        ("/etc/passwd", UriFault.SCHEME),
        ("viking:///user", UriFault.EMPTY_SEGMENT),
        ("viking:///", UriFault.EMPTY_SEGMENT),
        ("viking://user//memories", UriFault.EMPTY_SEGMENT),
        ("viking://user/alice//", UriFault.EMPTY_SEGMENT),
        ("viking://user/alice/../bob", UriFault.DOT_SEGMENT),
        ("viking://user/./alice", UriFault.DOT_SEGMENT),
        ("viking://user/alice/..", UriFault.DOT_SEGMENT),
        ("viking://user/%2e%2e/bob", UriFault.PERCENT_ENCODING),
        ("viking://user/alice%2Fbob", UriFault.PERCENT_ENCODING),
        ("viking://user\\alice", UriFault.BACKSLASH),
        ("viking://user/alice?x=1", UriFault.QUERY_OR_FRAGMENT),
        ("viking://user/alice#x", UriFault.QUERY_OR_FRAGMENT),
        ("viking://user/a\x00b", UriFault.CONTROL_CHARACTER),
        ("viking://user/a\nb", UriFault.CONTROL_CHARACTER),
        ("viking://user/a\x7fb", UriFault.CONTROL_CHARACTER),
        ("viking://user/a\u2028b", UriFault.CONTROL_CHARACTER),
        ("viking://user/a\ud800b", UriFault.CONTROL_CHARACTER),
    ],
)
def test_addresses_that_could_change_meaning_are_refused(text: str, fault: UriFault) -> None:
    with pytest.raises(InvalidUriError) as caught:
        parse_uri(text)
    assert caught.value.fault is fault
    if text:
        assert text not in str(caught.value)


@given(st.lists(st.text(min_size=1, max_size=8), max_size=5))
def test_what_can_be_built_parses_back_to_the_same_segments(segments: list[str]) -> None:
    try:
        uri = VikingUri(tuple(segments))
    except InvalidUriError:
        return
    assert parse_uri(str(uri)) == uri


def test_a_segment_with_a_slash_cannot_be_built() -> None:
    with pytest.raises(InvalidUriError) as caught:
        VikingUri(("a/b",))
    assert caught.value.fault is UriFault.SLASH_IN_SEGMENT
    assert unchecked_uri("user", "alice", "sessions", "a/b") == "viking://user/alice/sessions/a/b"


def test_within_compares_whole_segments() -> None:
    root = parse_uri("viking://user/alice")
    assert root.is_within(root)
    assert root.child("memories").is_within(root)
    assert not parse_uri("viking://user/alice2/memories").is_within(root)
    assert not parse_uri("viking://user").is_within(root)
