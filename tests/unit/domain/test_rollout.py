from hypothesis import given
from hypothesis import strategies as st

from resilient_ov.domain.rollout import is_in_share

PERCENTS = st.floats(0, 100)


@given(st.text(min_size=1))
def test_nobody_is_in_none_and_everybody_in_all(user: str) -> None:
    assert not is_in_share("acme", user, 0.0)
    assert is_in_share("acme", user, 100.0)


@given(st.text(min_size=1), PERCENTS, PERCENTS)
def test_a_larger_share_only_adds_users(user: str, one: float, other: float) -> None:
    small, large = sorted((one, other))
    assert is_in_share("acme", user, large) or not is_in_share("acme", user, small)


def test_the_share_is_about_what_was_asked_for() -> None:
    inside = sum(is_in_share("acme", f"user-{n}", 20.0) for n in range(5000))
    assert 900 < inside < 1100


def test_who_is_in_never_changes() -> None:
    assert [is_in_share("deerflow", user, 50.0) for user in ("alice", "bob")] == [True, True]
    assert [is_in_share("deerflow", user, 23.0) for user in ("alice", "bob")] == [False, True]
