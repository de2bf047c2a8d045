import re
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resilient_ov.domain.errors import OpenVikingScopeError
from resilient_ov.domain.identity import (
    MAX_THREAD_ID_CHARS,
    MAX_USER_ID_CHARS,
    Scope,
    escape_join,
    namespace_user,
    openviking_user,
    scope,
    server_id,
    session_hash,
    session_id,
    user_hash,
)

NASTY = st.text(
    st.sampled_from(["\0", "\x01", "\x02", "a", "\ud83d", "\ude00", "é", "\u0301", "/", " "]),
    max_size=6,
)
IDS = NASTY.filter(lambda text: bool(text.strip()))


@pytest.mark.parametrize(
    ("user_id", "agent", "user", "session"),
    [
        (
            "alice",
            None,
            "df_1dda69000a9a7414133f19c3ca5f167397825b4e",
            "df_wovwqkh2gvt44sudi5nsaq7aafzlspbg5bayug6bkkso3hdqa2fa",
        ),
        (
            "alice",
            "researcher",
            "df_23a14cca9168155c1ac426d7ccb1b32c800dad10",
            "df_pymrxlqkoboxrnoykflen2uloq46kny42ur22at7x3qijrydb67q",
        ),
        (
            "alicere",
            "searcher",
            "df_dd0469e98378aedabf079d328bb1ada71041d895",
            "df_i3kevh2bjnylbxay6kklia6swmmg25g45kra2vuxsqigurl2mf6q",
        ),
    ],
)
def test_golden_vectors_of_users_and_sessions(user_id, agent, user, session):
    owner = scope("deerflow", user_id, agent)
    assert openviking_user(owner) == user
    assert session_id(owner, "thread-1") == session


def test_golden_vectors_of_namespace_users():
    assert namespace_user("deerflow", "alice") == "df_3d74e0081e9be3777ce0e498619bf014e950184a"
    assert namespace_user("deerflow", "bob") == "df_1637647c1b78335a7a57511c2a4fa98235afb810"


def test_frozen_bytes_of_escaping():
    assert escape_join("a\0b", "\x01", "\ud83d") == b"a\x01\x02b\0\x01\x01\0\xed\xa0\xbd"


@given(st.lists(NASTY, min_size=1, max_size=5), st.lists(NASTY, min_size=1, max_size=5))
def test_different_fields_never_give_the_same_bytes(left, right):
    assert (escape_join(*left) == escape_join(*right)) == (left == right)


@given(st.lists(NASTY, min_size=2, max_size=5), st.data())
def test_moving_a_border_between_fields_changes_the_bytes(fields, data):
    at = data.draw(st.integers(1, len(fields) - 1))
    joined = [*fields[: at - 1], fields[at - 1] + "\0" + fields[at], *fields[at + 1 :]]
    assert escape_join(*joined) != escape_join(*fields)


@given(IDS, IDS)
def test_same_scope_same_id_and_the_id_hides_it(user_id, thread_id):
    first, second = scope("acme", user_id, "Coder"), scope("acme", user_id, "coder")
    assert first == second
    assert openviking_user(first) == openviking_user(second)
    assert session_id(first, thread_id) == session_id(second, thread_id)
    assert re.fullmatch(r"df_[0-9a-f]{40}", openviking_user(first))
    assert re.fullmatch(r"df_[a-z2-7]{52}", session_id(first, thread_id))


def test_every_field_of_a_scope_counts():
    users = [
        openviking_user(Scope("a", "u", "x")),
        openviking_user(Scope("b", "u", "x")),
        openviking_user(Scope("a", "v", "x")),
        openviking_user(Scope("a", "u", "y")),
        namespace_user("a", "u"),
        namespace_user("b", "u"),
    ]
    assert len(set(users)) == len(users)


def test_look_alike_and_hostile_ids_have_distinct_sessions():
    scopes = [
        ("a_b", "c", "t"),
        ("a", "b_c", "t"),
        ("a\0b", "c", "t"),
        ("a", "c", "b\0t"),
        ("u", "x", "../../etc/passwd"),
        ("u", "x", "%2e%2e/etc/passwd"),
        ("u", "x", "T"),
        ("u", "x", "t"),
        ("u", "x", "k" * 5000),
        ("u", "x", "k" * 5001),
        ("\u00e9", "x", "t"),
        ("e\u0301", "x", "t"),
    ]
    sessions = [session_id(scope("acme", user, agent), thread) for user, agent, thread in scopes]
    assert all(one != other for one, other in combinations(sessions, 2))


def test_no_agent_is_the_default_scope_and_names_are_lower_cased():
    assert scope("acme", "u", None).agent == "__default__"
    assert scope("acme", "u", "Re-Search_2").agent == "re-search_2"
    assert scope("", "u", "a" * 64).agent == "a" * 64


@pytest.mark.parametrize(
    "agent",
    ["", " ", "a b", "a/b", "..", "a.b", "a" * 65, "é", "\u212aelvin", "x\n", "\ud83d", 7, b"a"],
)
def test_bad_agent_name_is_refused_by_name(agent):
    with pytest.raises(OpenVikingScopeError, match=r"^agent_name must be 1 to 64"):
        scope("acme", "u", agent)


@pytest.mark.parametrize("agent", ["__default__", "__DEFAULT__"])
def test_the_default_scope_cannot_be_taken(agent):
    with pytest.raises(OpenVikingScopeError, match=r"^agent_name must not be __default__"):
        scope("acme", "u", agent)


@pytest.mark.parametrize("user_id", [None, "", " \t\n", "\u2003", 42, b"alice", ["alice"]])
def test_missing_user_is_refused(user_id):
    with pytest.raises(OpenVikingScopeError, match=r"^user_id is missing or blank"):
        scope("acme", user_id, None)


@pytest.mark.parametrize("thread_id", [None, "", "  ", 42])
def test_missing_thread_is_refused(thread_id):
    with pytest.raises(OpenVikingScopeError, match=r"^thread_id is missing or blank"):
        session_id(scope("acme", "u", None), thread_id)


def test_over_long_ids_are_refused_and_the_limit_itself_is_not():
    owner = scope("acme", "u" * MAX_USER_ID_CHARS, None)
    assert session_id(owner, "t" * MAX_THREAD_ID_CHARS)
    with pytest.raises(OpenVikingScopeError, match=r"^user_id is longer than 1024"):
        scope("acme", "u" * (MAX_USER_ID_CHARS + 1), None)
    with pytest.raises(OpenVikingScopeError, match=r"^thread_id is longer than 16384"):
        session_id(owner, "t" * (MAX_THREAD_ID_CHARS + 1))


def test_errors_and_repr_never_show_an_id():
    assert "secret" not in repr(scope("secret-account", "secret-user", "secret-agent"))
    for bad in ("secret agent", "secret/agent"):
        with pytest.raises(OpenVikingScopeError) as caught:
            scope("secret", "secret", bad)
        assert "secret" not in str(caught.value)
        assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    "same",
    [
        "http://memory.example",
        "https://memory.example/",
        "http://MEMORY.example:80",
        "https://memory.example:443//",
        "http://memory.example:/",
    ],
)
def test_server_id_ignores_scheme_case_default_port_and_trailing_slash(same):
    assert server_id(same) == server_id("https://memory.example")
    assert re.fullmatch(r"[0-9a-f]{32}", server_id(same))


def test_server_id_tells_places_apart():
    urls = [
        "http://memory.example",
        "http://memory.example:443",
        "http://memory.example:1933",
        "http://memory.example/a",
        "http://memory.example/A",
        "http://other.example",
        "http://[::1]:1933",
        "http://[::1:1933]",
    ]
    assert len({server_id(url) for url in urls}) == len(urls)


def test_labels_are_short_heads_of_hashed_ids():
    owner = scope("deerflow", "alice", None)
    assert user_hash(openviking_user(owner)) == "1dda69000a9a"
    assert session_hash(session_id(owner, "thread-1")) == "wovwqkh2gvt4"
