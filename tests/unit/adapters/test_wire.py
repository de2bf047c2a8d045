"""Commands to requests and answers to values, without a socket."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resilient_ov.adapters.wire import to_http
from resilient_ov.adapters.wire_values import WrongShapeError, to_value
from resilient_ov.domain.exchange import (
    AddMessages,
    BatchReceipt,
    Command,
    CommitReceipt,
    CommitSession,
    CreateSession,
    EnsureSession,
    GetSession,
    GetTask,
    Health,
    Identity,
    ListArchives,
    ListTasks,
    ReadMessages,
    Search,
    ServerHealth,
    SessionInfo,
    StoredPage,
    TaskInfo,
    TaskStatus,
    WireMessage,
)

ME = Identity(user="df_me")
SID = "df_session"
HISTORY = "viking://user/df_me/sessions/df_session/history"


def search(*targets: str, limit: int = 8) -> Search:
    return Search(identity=ME, query="tea", targets=targets, limit=limit, score_threshold=0.55)


def add(*messages: WireMessage) -> AddMessages:
    return AddMessages(identity=ME, session_id=SID, messages=messages)


def read(*, archive: int | None) -> ReadMessages:
    return ReadMessages(identity=ME, session_id=SID, archive=archive, offset=50, limit=25)


COMMANDS: list[Command] = [
    Health(identity=ME),
    EnsureSession(identity=ME, session_id=SID),
    CreateSession(identity=ME, session_id=SID, memory_types=("profile",)),
    GetSession(identity=ME, session_id=SID),
    add(WireMessage(role="user", content="hi", source_ids=("df1-1",))),
    CommitSession(identity=ME, session_id=SID),
    search("viking://~/memories"),
    GetTask(identity=ME, task_id="t1"),
    ListTasks(identity=ME, session_id=SID),
    read(archive=None),
    ListArchives(identity=ME, session_id=SID),
]


@pytest.mark.parametrize(
    ("command", "method", "target"),
    [
        (COMMANDS[0], "GET", "/health"),
        (COMMANDS[1], "GET", "/api/v1/sessions/df_session?auto_create=true"),
        (COMMANDS[2], "POST", "/api/v1/sessions"),
        (COMMANDS[3], "GET", "/api/v1/sessions/df_session"),
        (COMMANDS[4], "POST", "/api/v1/sessions/df_session/messages/batch"),
        (COMMANDS[5], "POST", "/api/v1/sessions/df_session/commit"),
        (COMMANDS[6], "POST", "/api/v1/search/find"),
        (COMMANDS[7], "GET", "/api/v1/tasks/t1"),
        (COMMANDS[8], "GET", "/api/v1/tasks?task_type=session_commit&resource_id=df_session"),
        (
            COMMANDS[9],
            "GET",
            "/api/v1/content/read?uri=viking%3A%2F%2F~%2Fsessions%2Fdf_session%2Fmessages.jsonl"
            "&offset=50&limit=25",
        ),
        (
            COMMANDS[10],
            "GET",
            "/api/v1/fs/ls?uri=viking%3A%2F%2F~%2Fsessions%2Fdf_session%2Fhistory",
        ),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_each_command_has_its_request(command: Command, method: str, target: str) -> None:
    call = to_http(command)
    assert (call.method, call.target) == (method, target)


def test_archive_lines_are_read_from_the_archive() -> None:
    assert "%2Fhistory%2Farchive_007%2Fmessages.jsonl&" in to_http(read(archive=7)).target


def test_search_body_has_exactly_the_known_fields() -> None:
    assert json.loads(to_http(search("viking://~/memories")).content()) == {
        "query": "tea",
        "target_uri": "viking://~/memories",
        "context_type": "memory",
        "node_limit": 8,
        "level": 2,
        "score_threshold": 0.55,
    }


def test_several_targets_are_sent_as_a_list() -> None:
    call = to_http(search("viking://~/memories/profile", "viking://~/memories/events"))
    body = json.loads(call.content())
    assert body["target_uri"] == ["viking://~/memories/profile", "viking://~/memories/events"]


def test_message_carries_only_the_fields_that_are_set() -> None:
    full = WireMessage(
        role="user",
        content="hi",
        source_ids=("h1", "df1-1"),
        created_at="2026-01-01T00:00:00Z",
        role_id="df_x",
    )
    bare = WireMessage(role="assistant", content="ho", source_ids=("df1-2",))
    assert json.loads(to_http(add(full, bare)).content()) == {
        "messages": [
            {
                "role": "user",
                "content": "hi",
                "source_message_ids": ["h1", "df1-1"],
                "created_at": "2026-01-01T00:00:00Z",
                "role_id": "df_x",
            },
            {"role": "assistant", "content": "ho", "source_message_ids": ["df1-2"]},
        ]
    }


def test_bodies_of_the_other_posts() -> None:
    created = json.loads(to_http(COMMANDS[2]).content())
    assert created == {"session_id": SID, "memory_policy": {"memory_types": ["profile"]}}
    assert to_http(COMMANDS[5]).content() == b"{}"
    assert to_http(COMMANDS[1]).content() == b""


def test_text_travels_as_utf8() -> None:
    content = to_http(add(WireMessage(role="user", content="茶\0🍵", source_ids=()))).content()
    assert "茶".encode() in content
    assert json.loads(content)["messages"][0]["content"] == "茶\0🍵"


def test_lone_surrogate_does_not_stop_a_request() -> None:
    content = to_http(add(WireMessage(role="user", content="a\ud800b", source_ids=()))).content()
    assert json.loads(content)["messages"][0]["content"] == "a?b"


def test_ids_cannot_leave_their_place_in_the_path() -> None:
    call = to_http(GetSession(identity=ME, session_id="../x?y#z"))
    assert call.target == "/api/v1/sessions/..%2Fx%3Fy%23z"


# -- answers ----------------------------------------------------------------------------------


def value(command: Command, result: Any) -> Any:
    return to_value(command, {"status": "ok", "result": result})


def test_health_tells_version_and_user() -> None:
    told = {"status": "ok", "version": "0.5.2", "user_id": "df_me"}
    assert to_value(COMMANDS[0], told) == ServerHealth(version="0.5.2", user="df_me")
    assert to_value(COMMANDS[0], {"status": "ok"}) == ServerHealth(version=None, user=None)


def test_health_that_is_not_ok_is_no_health() -> None:
    with pytest.raises(WrongShapeError):
        to_value(COMMANDS[0], {"status": "not_ready"})


@pytest.mark.parametrize("command", [COMMANDS[1], COMMANDS[3]])
def test_session_counters(command: Command) -> None:
    found = {"total_message_count": 7, "message_count": 3, "commit_count": 2, "other": None}
    assert value(command, found) == SessionInfo(total_messages=7, live_messages=3, commit_count=2)


def test_session_without_its_total_has_what_is_live() -> None:
    found = {"message_count": 3, "commit_count": 1}
    assert value(COMMANDS[3], found) == SessionInfo(
        total_messages=3, live_messages=3, commit_count=1
    )


def test_created_session_has_no_value() -> None:
    assert value(COMMANDS[2], {"session_id": SID}) is None


def test_batch_receipt() -> None:
    assert value(COMMANDS[4], {"message_count": 4, "added": 2}) == BatchReceipt(
        live_messages=4, added=2
    )


def test_accepted_commit_names_its_archive() -> None:
    found = {"status": "accepted", "task_id": "t", "archive_uri": f"{HISTORY}/archive_012"}
    assert value(COMMANDS[5], found) == CommitReceipt(
        accepted=True, task_id="t", archive=12, archive_uri=f"{HISTORY}/archive_012"
    )


def test_accepted_commit_without_details_is_accepted() -> None:
    assert value(COMMANDS[5], {"status": "accepted"}) == CommitReceipt(
        accepted=True, task_id=None, archive=None, archive_uri=None
    )


def test_skipped_commit_is_a_value() -> None:
    assert value(COMMANDS[5], {"status": "skipped", "task_id": None}) == CommitReceipt(
        accepted=False, task_id=None, archive=None, archive_uri=None
    )


def test_hit_takes_the_abstract_as_its_text() -> None:
    hit = {
        "uri": "viking://user/df_me/memories/profile.md",
        "abstract": "likes tea",
        "score": 1,
        "level": 2,
        "tags": ["memory_type=profile", 3],
    }
    (found,) = value(COMMANDS[6], {"memories": [hit]})
    assert (found.text, found.score, found.level) == ("likes tea", 1.0, 2)
    assert found.tags == ("memory_type=profile",)
    assert found.created_at is None


def test_hit_prefers_content_when_the_server_sends_it() -> None:
    hit = {"uri": "u", "abstract": "short", "content": "long", "created_at": "2026", "level": True}
    (found,) = value(COMMANDS[6], {"memories": [hit]})
    assert (found.text, found.created_at, found.level) == ("long", "2026", None)


@pytest.mark.parametrize("score", [None, "0.9", True, float("nan"), 10**400])
def test_score_that_is_no_number_is_nan(score: object) -> None:
    (found,) = value(COMMANDS[6], {"memories": [{"uri": "u", "abstract": "a", "score": score}]})
    assert math.isnan(found.score)


def test_task_states() -> None:
    task = {"task_id": "t1", "status": "cancelling"}
    assert value(COMMANDS[7], task) == TaskInfo(task_id="t1", status=TaskStatus.CANCELLING)


def test_tasks_come_newest_first() -> None:
    tasks = [
        {"task_id": "old", "status": "failed", "created_at": 1.5},
        {"task_id": "new", "status": "running", "created_at": 9},
    ]
    assert [task.task_id for task in value(COMMANDS[8], tasks)] == ["new", "old"]


def test_stored_page_keeps_one_entry_a_line() -> None:
    lines = (
        json.dumps({"role": "user", "source_message_ids": ["h1", "df1-1", 5]}),
        json.dumps({"role": "user", "parts": ["\u2028 is no end of a line"]}, ensure_ascii=False),
        "not json",
        "[]",
        json.dumps({"source_message_ids": "h1"}),
    )
    assert value(COMMANDS[9], "\n".join(lines) + "\n") == StoredPage(
        lines=(("h1", "df1-1"), (), (), (), ()), unreadable_lines=2
    )


def test_page_past_the_end_is_empty() -> None:
    assert value(COMMANDS[9], "") == StoredPage(lines=())


def test_archives_come_in_order_without_other_entries() -> None:
    names = ("archive_1000", "archive_002", "note.md", "archive_002")
    listed = [{"uri": f"{HISTORY}/{name}"} for name in names]
    assert value(COMMANDS[10], listed) == (2, 1000)


def test_incomplete_list_is_refused() -> None:
    with pytest.raises(WrongShapeError):
        to_value(COMMANDS[10], {"status": "ok", "result": [], "has_more": True})


@pytest.mark.parametrize(
    ("command", "result"),
    [
        (COMMANDS[1], None),
        (COMMANDS[2], "x"),
        (COMMANDS[3], {"total_message_count": 1, "message_count": -1, "commit_count": 0}),
        (COMMANDS[3], {"total_message_count": 1, "message_count": 1}),
        (COMMANDS[3], {"total_message_count": "1", "message_count": 1, "commit_count": 0}),
        (COMMANDS[4], {"message_count": True, "added": 1}),
        (COMMANDS[4], {"message_count": 2**60, "added": 1}),
        (COMMANDS[4], {"message_count": 1.0, "added": 1}),
        (COMMANDS[5], {"status": "maybe"}),
        (COMMANDS[6], {"memories": None}),
        (COMMANDS[6], {"memories": [{"abstract": "a"}]}),
        (COMMANDS[6], {"memories": [{"uri": "u"}]}),
        (COMMANDS[7], {"task_id": "t", "status": "lost"}),
        (COMMANDS[8], {}),
        (COMMANDS[9], None),
        (COMMANDS[10], [None]),
    ],
)
def test_wrong_shape_is_refused(command: Command, result: object) -> None:
    with pytest.raises(WrongShapeError):
        value(command, result)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["status", "result", "memories", "uri", "message_count", "task_id"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@given(command=st.sampled_from(COMMANDS), result=_JSON)
def test_no_answer_breaks_the_reading(command: Command, result: object) -> None:
    try:
        value(command, result)
    except WrongShapeError:
        return


def test_sessions_of_an_account_are_read_at_their_shared_place() -> None:
    shared = Identity(user="df_me", agent="researcher")
    live = ReadMessages(identity=shared, session_id=SID, archive=None, offset=0, limit=1)
    archived = ReadMessages(identity=shared, session_id=SID, archive=2, offset=0, limit=1)
    assert to_http(live).query["uri"] == "viking://session/df_session/messages.jsonl"
    assert (
        to_http(archived).query["uri"]
        == "viking://session/df_session/history/archive_002/messages.jsonl"
    )
    listing = to_http(ListArchives(identity=shared, session_id=SID))
    assert listing.query["uri"] == "viking://session/df_session/history"
