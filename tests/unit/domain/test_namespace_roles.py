"""Who said a message, and when a session has more than one owner."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resilient_ov.domain.namespace import Participants, actor_of


@pytest.mark.parametrize(
    ("role", "sent", "actor"),
    [
        ("user", None, "ua"),
        ("assistant", None, "aa"),
        ("user", "ub", "ub"),
        ("assistant", "ab", "ab"),
        ("user", "any text at all/%_", "any text at all/%_"),
        ("system", None, None),
        ("tool", "ub", None),
        ("", "ub", None),
        ("User", None, None),
    ],
)
def test_an_actor_is_as_sent_or_the_effective_identity(
    role: str, sent: str | None, actor: str | None
) -> None:
    assert actor_of(role, sent, user_id="ua", agent_id="aa") == actor


@pytest.mark.parametrize("role", ["user", "assistant", "tool"])
@pytest.mark.parametrize("sent", ["", "x" * 256])
def test_an_empty_or_overlong_role_id_is_refused(role: str, sent: str) -> None:
    with pytest.raises(ValueError, match="1 to 255"):
        actor_of(role, sent, user_id="ua", agent_id="aa")
    assert actor_of("user", "x" * 255, user_id="ua", agent_id="aa") == "x" * 255


def test_participants_gather_in_order_once() -> None:
    found = Participants()
    said = [
        ("user", "ua"),
        ("assistant", "aa"),
        ("tool", None),
        ("user", "ub"),
        ("user", "ua"),
        ("assistant", "ab"),
    ]
    mixed: list[bool] = []
    for role, actor in said:
        found = found.joined_by(role, actor)
        mixed.append(found.is_mixed)
    assert found == Participants(user_ids=("ua", "ub"), agent_ids=("aa", "ab"))
    assert mixed == [False, False, False, True, True, True]


def test_two_agents_mix_a_session_too() -> None:
    one = Participants().joined_by("assistant", "aa")
    assert not one.is_mixed
    assert one.joined_by("assistant", "ab").is_mixed


@given(st.lists(st.tuples(st.sampled_from(["user", "assistant"]), st.sampled_from("abcd"))))
def test_a_session_is_mixed_when_a_role_has_two_actors(said: list[tuple[str, str]]) -> None:
    found = Participants()
    for role, actor in said:
        found = found.joined_by(role, actor)
    users = {actor for role, actor in said if role == "user"}
    agents = {actor for role, actor in said if role == "assistant"}
    assert (set(found.user_ids), set(found.agent_ids)) == (users, agents)
    assert found.is_mixed == (len(users) > 1 or len(agents) > 1)
