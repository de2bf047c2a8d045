"""Addresses of sessions on both profiles, and the names of archives."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resilient_ov.domain.namespace import (
    InvalidUriError,
    UriFault,
    archive_messages_uri,
    archive_name,
    archive_number,
    session_history_uri,
    session_messages_uri,
    tool_uri,
)

ME = "df_1dda69000a9a7414133f19c3ca5f167397825b4e"


def test_sessions_of_a_home() -> None:
    assert session_messages_uri("df_x") == "viking://~/sessions/df_x/messages.jsonl"
    assert session_history_uri("df_x") == "viking://~/sessions/df_x/history"
    assert (
        archive_messages_uri("df_x", 7)
        == "viking://~/sessions/df_x/history/archive_007/messages.jsonl"
    )


def test_sessions_of_an_account() -> None:
    assert session_messages_uri("df_x", shared=True) == "viking://session/df_x/messages.jsonl"
    assert session_history_uri("df_x", shared=True) == "viking://session/df_x/history"
    assert (
        archive_messages_uri("df_x", 7, shared=True)
        == "viking://session/df_x/history/archive_007/messages.jsonl"
    )
    assert str(tool_uri("df_x", "t1")) == "viking://session/df_x/tools/t1"


@pytest.mark.parametrize("shared", [False, True])
def test_an_id_that_no_address_holds_is_refused(shared: bool) -> None:
    with pytest.raises(InvalidUriError) as caught:
        session_messages_uri("a/b", shared=shared)
    assert caught.value.fault is UriFault.SLASH_IN_SEGMENT


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
