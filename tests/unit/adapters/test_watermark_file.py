import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resilient_ov.adapters.watermark_file import UnreadableStateError, decode, encode
from resilient_ov.domain.ports import NewerStateError
from resilient_ov.domain.watermark import InDoubt, ReadBack, Watermark

WHOLE = Watermark(
    session_id="df_s",
    openviking_user="df_user",
    account="deerflow",
    server_id="0123",
    server_profile="0.5",
    revision=7,
    server_total=5,
    server_live=2,
    submitted=("1" * 32, "2" * 32),
    committed=("1" * 32,),
    prefix_count=3,
    prefix_digest="a" * 32,
    in_doubt=InDoubt(
        id="d",
        owner="0" * 32,
        digests=("3" * 32,),
        total_before=5,
        newest_archive_before=1,
        live_before=2,
        explained=("4" * 32,),
        read_back=ReadBack(
            owner="0" * 32, absent_looks=1, last_absent_end_s=12.5, unusable_looks=2
        ),
    ),
    pending_commit_since="2030-01-01T00:00:00.000Z",
    last_commit_task_id="task",
    last_archive_uri="viking://session/x/history/archive_001",
    newest_archive=1,
    extra={"of_a_later_version": [1, {"a": None}]},
)

texts = st.text(max_size=12)
counts = st.integers(0, 2**40)
digest = st.text("0123456789abcdef", min_size=32, max_size=32)
digests = st.lists(digest, max_size=4).map(tuple)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
read_backs = st.builds(
    ReadBack,
    owner=texts,
    absent_looks=counts,
    last_absent_end_s=st.floats(-1e12, 1e12),
    unusable_looks=counts,
)
doubts = st.builds(
    InDoubt,
    id=texts,
    owner=texts,
    digests=digests,
    total_before=counts,
    newest_archive_before=counts,
    live_before=st.none() | counts,
    explained=digests,
    read_back=st.none() | read_backs,
)
watermarks = st.builds(
    Watermark,
    session_id=st.just("df_s"),
    openviking_user=texts,
    account=texts,
    server_id=texts,
    server_profile=texts,
    agent=st.none() | texts,
    revision=counts,
    server_total=st.none() | counts,
    server_live=st.none() | counts,
    submitted=digests,
    committed=digests,
    prefix_count=counts,
    prefix_digest=texts,
    in_doubt=st.none() | doubts,
    pending_commit_since=st.none() | texts,
    last_commit_task_id=st.none() | texts,
    last_archive_uri=st.none() | texts,
    newest_archive=counts,
    extra=st.dictionaries(texts.map("x_{}".format), json_values, max_size=3),
)


@given(watermark=watermarks)
def test_every_state_comes_back_equal(watermark: Watermark) -> None:
    assert decode(encode(watermark), "df_s") == watermark


def test_the_agent_is_kept_where_there_is_one() -> None:
    assert "agent" not in json.loads(encode(WHOLE))
    content = json.loads(encode(WHOLE)) | {"agent": "researcher"}
    found = decode(json.dumps(content).encode(), "df_s")
    assert found.agent == "researcher"
    assert json.loads(encode(found))["agent"] == "researcher"


def test_the_keys_are_the_published_ones() -> None:
    content = json.loads(encode(WHOLE))
    assert set(content) == {
        "schema_version",
        "revision",
        "session_id",
        "openviking_user",
        "account",
        "server_id",
        "server_profile",
        "server_total",
        "server_live",
        "submitted_message_ids",
        "committed_message_ids",
        "prefix_count",
        "prefix_digest",
        "in_doubt",
        "pending_commit_since",
        "last_commit_task_id",
        "last_archive_uri",
        "newest_archive",
        "of_a_later_version",
    }
    assert content["schema_version"] == 2
    assert content["submitted_message_ids"] == ["1" * 32, "2" * 32]
    assert content["committed_message_ids"] == ["1" * 32]
    assert set(content["in_doubt"]) == set(InDoubt.__slots__)
    assert set(content["in_doubt"]["read_back"]) == set(ReadBack.__slots__)


def test_only_where_to_begin_to_look_may_be_absent() -> None:
    content = json.loads(encode(WHOLE))
    del content["newest_archive"]
    del content["in_doubt"]["live_before"]
    del content["in_doubt"]["explained"]
    doubt = WHOLE.in_doubt
    assert doubt is not None
    assert decode(json.dumps(content).encode(), "df_s") == replace(
        WHOLE, newest_archive=0, in_doubt=replace(doubt, live_before=None, explained=())
    )


def test_an_unknown_key_never_replaces_a_known_one() -> None:
    content = json.loads(encode(replace(WHOLE, extra={"revision": 99, "x": 1})))
    assert (content["revision"], content["x"]) == (7, 1)


@pytest.mark.parametrize("version", [3, 4, 10**6])
def test_a_newer_version_is_told_apart_whatever_else_it_holds(version: int) -> None:
    with pytest.raises(NewerStateError):
        decode(json.dumps({"schema_version": version}).encode(), "df_s")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 400,
        b"{",
        b"[]",
        b"null",
        b"2",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"schema_version": ' + b"9" * 5000 + b"}",
    ],
    ids=["empty", "zeros", "torn", "list", "null", "number", "bytes", "deep", "huge number"],
)
def test_what_is_no_state_is_unreadable(data: bytes) -> None:
    with pytest.raises(UnreadableStateError):
        decode(data, "df_s")


def test_every_torn_state_is_unreadable() -> None:
    data = encode(WHOLE)
    for length in range(len(data)):
        with pytest.raises(UnreadableStateError):
            decode(data[:length], "df_s")


def test_the_state_of_another_session_is_unreadable() -> None:
    with pytest.raises(UnreadableStateError, match="session_id"):
        decode(encode(WHOLE), "df_other")


WRONG: dict[str, list[object]] = {
    "schema_version": [1, 0, -1, True, "2", None],
    "revision": [-1, 1.5, "1", None, True],
    "session_id": [1, None, ["df_s"]],
    "openviking_user": [1, None],
    "account": [1, None],
    "server_id": [1, None],
    "server_profile": [0.5, None],
    "server_total": [-1, 1.0, "1"],
    "server_live": [-1, False],
    "submitted_message_ids": [None, {}, "1" * 32, ["1" * 31], ["G" * 32], [1], ["1" * 32, None]],
    "committed_message_ids": [None, ["1" * 16, "1" * 48]],
    "prefix_count": [-1, None],
    "prefix_digest": [None, 1],
    "in_doubt": [[], "d", 1, True],
    "pending_commit_since": [1, True],
    "last_commit_task_id": [1],
    "last_archive_uri": [[]],
    "newest_archive": [-1, None],
}
WRONG_DOUBT: dict[str, list[object]] = {
    "id": [None, 1],
    "owner": [None],
    "digests": [None, ["x"]],
    "total_before": [None, -1],
    "newest_archive_before": [True],
    "live_before": [-1, "1"],
    "explained": [None, [1]],
    "read_back": [[], 1],
}
WRONG_BACK: dict[str, list[object]] = {
    "owner": [None],
    "absent_looks": [-1, 0.5],
    "last_absent_end_s": ["1", None, True, float("nan"), float("inf")],
    "unusable_looks": [None],
}
ROOT: Callable[[Any], Any] = lambda content: content  # noqa: E731
DOUBT: Callable[[Any], Any] = lambda content: content["in_doubt"]  # noqa: E731
BACK: Callable[[Any], Any] = lambda content: content["in_doubt"]["read_back"]  # noqa: E731


@pytest.mark.parametrize(
    ("part", "key", "value"),
    [
        (part, key, value)
        for part, wrong in ((ROOT, WRONG), (DOUBT, WRONG_DOUBT), (BACK, WRONG_BACK))
        for key, values in wrong.items()
        for value in values
    ],
)
def test_a_wrong_type_under_any_key_makes_the_whole_unreadable(
    part: Callable[[Any], Any], key: str, value: object
) -> None:
    content = json.loads(encode(WHOLE))
    part(content)[key] = value
    with pytest.raises(UnreadableStateError, match=key):
        decode(json.dumps(content).encode(), "df_s")


@pytest.mark.parametrize(
    ("part", "key"),
    [
        (part, key)
        for part, wrong in ((ROOT, WRONG), (DOUBT, WRONG_DOUBT), (BACK, WRONG_BACK))
        for key in wrong
        if key not in {"newest_archive", "live_before", "explained"}
    ],
)
def test_a_missing_key_makes_the_whole_unreadable(part: Callable[[Any], Any], key: str) -> None:
    content = json.loads(encode(WHOLE))
    del part(content)[key]
    with pytest.raises(UnreadableStateError, match=key):
        decode(json.dumps(content).encode(), "df_s")
