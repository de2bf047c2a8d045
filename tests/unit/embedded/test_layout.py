import pytest

from resilient_ov.embedded.auth import Caller, Role
from resilient_ov.embedded.errors import ApiError
from resilient_ov.embedded.extraction import Memory
from resilient_ov.embedded.layout import check_session_id
from resilient_ov.embedded.layout_home import HomeLayout

ALICE = Caller(Role.USER, "acme", "alice")
LAYOUT = HomeLayout()


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("viking://~/memories", "viking://user/alice/memories"),
        ("viking://~", "viking://user/alice"),
        ("viking://session/s1", "viking://user/alice/sessions/s1"),
        ("viking://user/alice/memories/", "viking://user/alice/memories"),
        ("viking://agent/x", "viking://agent/x"),
        ("viking://", "viking://"),
        ("viking://user", "viking://user"),
    ],
)
def test_addresses_become_canonical(text: str, canonical: str) -> None:
    assert str(LAYOUT.resolve(ALICE, text)) == canonical


@pytest.mark.parametrize(
    ("text", "status", "code"),
    [
        ("/etc/passwd", 400, "INVALID_URI"),
        ("viking://user/alice%2F..", 400, "INVALID_URI"),
        ("viking://user//x", 400, "INVALID_URI"),
        ("viking://user/memories", 400, "INVALID_URI"),
        ("viking://user/bob/memories", 403, "PERMISSION_DENIED"),
        ("viking://user/alice2/memories", 403, "PERMISSION_DENIED"),
        ("viking://user/alice/../bob", 403, "PERMISSION_DENIED"),
        ("viking://~/sessions/a:b", 403, "PERMISSION_DENIED"),
    ],
)
def test_bad_and_foreign_addresses_are_refused(text: str, status: int, code: str) -> None:
    with pytest.raises(ApiError) as caught:
        LAYOUT.resolve(ALICE, text)
    assert (caught.value.status, caught.value.code) == (status, code)


def test_root_may_read_other_homes() -> None:
    root = Caller(Role.ROOT, "default", "default")
    assert LAYOUT.resolve(root, "viking://user/bob/memories").segments[1] == "bob"


def test_peers_are_a_view() -> None:
    everyone, bobs = (
        LAYOUT.search_roots(Caller(Role.USER, "acme", "alice", peer)) for peer in (None, "bob")
    )
    assert [str(root) for root in everyone] == [
        "viking://user/alice/memories",
        "viking://user/alice/peers",
    ]
    assert str(bobs[1]) == "viking://user/alice/peers/bob"
    profile = LAYOUT.memory_uri(ALICE, Memory("profile", "x", "bob"))
    assert str(profile) == "viking://user/alice/peers/bob/memories/profile.md"


@pytest.mark.parametrize("session_id", ["..", "a/../b", "c:d", "."])
def test_unsafe_session_ids_are_refused(session_id: str) -> None:
    with pytest.raises(ApiError) as caught:
        check_session_id("shown", session_id)
    assert caught.value.status == 403


@pytest.mark.parametrize("session_id", ["a b", "会话", "a.b", "df_ABC2==", "a/b", "ab:c"])
def test_odd_session_ids_pass(session_id: str) -> None:
    check_session_id("shown", session_id)
