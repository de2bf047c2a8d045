"""Addresses: strict parse, builders, and which hits of a reply the caller may see."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resilient_ov.domain.namespace import (
    HitRefusal,
    InvalidUriError,
    UriFault,
    VikingUri,
    VisibleHit,
    archive_messages_uri,
    archive_name,
    archive_number,
    judge_hits,
    memories_uri,
    parse_uri,
    session_history_uri,
    session_messages_uri,
    unchecked_uri,
)

ME = "df_1dda69000a9a7414133f19c3ca5f167397825b4e"
PREFERENCE = f"viking://user/{ME}/memories/preferences/user/short_answers.md"


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
        session_messages_uri("a/b")
    assert caught.value.fault is UriFault.SLASH_IN_SEGMENT
    assert unchecked_uri("user", "alice", "sessions", "a/b") == "viking://user/alice/sessions/a/b"


def test_within_compares_whole_segments() -> None:
    root = parse_uri("viking://user/alice")
    assert root.is_within(root)
    assert root.child("memories").is_within(root)
    assert not parse_uri("viking://user/alice2/memories").is_within(root)
    assert not parse_uri("viking://user").is_within(root)


def test_builders_use_the_own_home() -> None:
    assert memories_uri() == "viking://~/memories"
    assert memories_uri("preferences") == "viking://~/memories/preferences"
    assert session_messages_uri("df_x") == "viking://~/sessions/df_x/messages.jsonl"
    assert session_history_uri("df_x") == "viking://~/sessions/df_x/history"
    assert (
        archive_messages_uri("df_x", 7)
        == "viking://~/sessions/df_x/history/archive_007/messages.jsonl"
    )


@pytest.mark.parametrize("category", ["", "Preferences", "a/b", "..", "喜好", "a b"])
def test_a_category_is_one_plain_segment(category: str) -> None:
    with pytest.raises(ValueError, match="category must consist of"):
        memories_uri(category)


@given(st.integers(min_value=1, max_value=10**6))
def test_archive_names_keep_their_number(number: int) -> None:
    name = archive_name(number)
    assert archive_number(name) == number
    assert archive_number(f"viking://user/{ME}/sessions/s/history/{name}") == number


@pytest.mark.parametrize(
    "text",
    [
        "",
        "archive_",
        "archive_1",
        "archive_000",
        "archive_0001",
        "archive_001/",
        "archive_001.md",
        "archive_٠٠١",
        "viking://",
        "viking://archive_001",
        "viking://user/me/sessions/s/archive_001",
        "viking://user/me/../history/archive_001",
    ],
)
def test_other_names_are_no_archives(text: str) -> None:
    assert archive_number(text) is None


def test_archive_numbers_start_at_one() -> None:
    with pytest.raises(ValueError, match="1 or more"):
        archive_name(0)


def test_own_memory_is_visible_and_the_user_is_hidden() -> None:
    assert judge_hits([PREFERENCE], own_user=ME) == [
        VisibleHit(
            uri="viking://~/memories/preferences/user/short_answers.md", category="preferences"
        )
    ]


@pytest.mark.parametrize(
    ("below", "category"),
    [
        ("profile.md", "profile"),
        ("entities/facts/x.md", "entities"),
        ("notes.md/x.md", None),
        ("Events/x.md", None),
        ("喜好/x.md", None),
    ],
)
def test_category_is_the_first_segment_below_memories(below: str, category: str | None) -> None:
    (hit,) = judge_hits([f"viking://user/{ME}/memories/{below}"], own_user=ME)
    assert isinstance(hit, VisibleHit)
    assert hit.category == category


@pytest.mark.parametrize(
    ("uri", "refusal"),
    [
        (f"viking://user/{ME}0/memories/preferences/x.md", HitRefusal.OUTSIDE),
        (f"viking://user/{ME[:-1]}/memories/preferences/x.md", HitRefusal.OUTSIDE),
        (f"viking://user/{ME.upper()}/memories/preferences/x.md", HitRefusal.OUTSIDE),
        (f"viking://user/{ME}/peers/bob/memories/preferences/x.md", HitRefusal.OUTSIDE),
        (f"viking://user/{ME}/memories2/x.md", HitRefusal.OUTSIDE),
        (f"viking://user/{ME}/memories", HitRefusal.OUTSIDE),
        (f"viking://user/{ME}/sessions/s/messages.jsonl", HitRefusal.OUTSIDE),
        (f"viking://{ME}/memories/preferences/x.md", HitRefusal.OUTSIDE),
        ("viking://resources/x.md", HitRefusal.OUTSIDE),
        ("viking://~/memories/preferences/x.md", HitRefusal.OUTSIDE),
        ("viking://", HitRefusal.OUTSIDE),
        (f"viking://user/{ME}/memories/../../bob/memories/x.md", HitRefusal.MALFORMED),
        (f"viking://user/{ME}/memories/%2e%2e/x.md", HitRefusal.MALFORMED),
        (f"file:///user/{ME}/memories/preferences/x.md", HitRefusal.MALFORMED),
        (f"viking://user/{ME}/memories/preferences/.overview.md", HitRefusal.DIRECTORY_NOTE),
        (f"viking://user/{ME}/memories/.abstract.md", HitRefusal.DIRECTORY_NOTE),
    ],
)
def test_everything_else_is_refused(uri: str, refusal: HitRefusal) -> None:
    assert judge_hits([uri, PREFERENCE], own_user=ME)[0] is refusal


def test_an_unknown_own_user_is_one_user_per_reply() -> None:
    second = f"viking://user/{ME}/memories/profile.md"
    hits = judge_hits([PREFERENCE, "viking://resources/x", second], own_user=None)
    assert [type(hit) for hit in hits] == [VisibleHit, HitRefusal, VisibleHit]


def test_two_users_in_a_reply_hide_all_of_it_while_the_own_user_is_unknown() -> None:
    other = "viking://user/bob/memories/profile.md"
    assert judge_hits([PREFERENCE, other, "x"], own_user=None) == [
        HitRefusal.AMBIGUOUS_USER,
        HitRefusal.AMBIGUOUS_USER,
        HitRefusal.MALFORMED,
    ]


def test_an_empty_reply_has_no_verdicts() -> None:
    assert judge_hits([], own_user=None) == []
