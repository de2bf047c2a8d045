from dataclasses import replace

import pytest

from resilient_ov.adapters.watermark_file import decode, encode
from resilient_ov.domain.purge import (
    acquitted,
    dropped,
    forgotten,
    is_purged,
    must_drop,
    purged,
)
from resilient_ov.domain.watermark import Watermark

DIGESTS = tuple(f"{n:032x}" for n in range(3))
STATE = Watermark(
    session_id="s1",
    openviking_user="df_x",
    account="acme",
    server_id="abc",
    server_profile="0.5",
    server_total=7,
    server_live=1,
    submitted=DIGESTS[:2],
    committed=DIGESTS[:1],
    prefix_count=4,
    prefix_digest="f" * 32,
    pending_commit_since="2026-01-01T00:00:00+00:00",
    last_commit_task_id="task",
    last_archive_uri="viking://~/sessions/s1/history/archive_001",
    newest_archive=1,
    extra={"later": 1},
).intend(doubt_id="d", owner="o", digests=DIGESTS[2:])


def test_digests_stay_known_those_in_doubt_among_them() -> None:
    left = purged(STATE)
    assert left.known == DIGESTS
    assert left.committed == STATE.committed
    assert (left.prefix_count, left.prefix_digest) == (4, "f" * 32)


def test_nothing_is_owed_and_nothing_speaks_of_the_servers_session() -> None:
    left = purged(STATE)
    assert not left.unfinished
    assert (left.server_total, left.server_live, left.newest_archive) == (None, None, 0)
    assert (left.last_commit_task_id, left.last_archive_uri) == (None, None)


def test_it_is_marked_once_and_the_mark_survives_the_file() -> None:
    left = purged(STATE)
    assert purged(left) == left
    assert (is_purged(STATE), is_purged(left)) == (False, True)
    again = decode(encode(left), "s1")
    assert is_purged(again)
    assert again.extra == {"later": 1, "purged": True}


def test_an_order_to_drop_names_owners_survives_the_file_and_ends_one_by_one() -> None:
    ordered = decode(encode(purged(STATE, drop_by=["b", "a"])), "s1")
    assert [must_drop(ordered, owner) for owner in "abc"] == [True, True, False]
    first = acquitted(ordered, "a")
    assert [must_drop(first, owner) for owner in "ab"] == [False, True]
    assert acquitted(first, "b") == purged(STATE) == purged(ordered)
    assert acquitted(STATE, "a") == STATE


def test_what_is_no_order_is_none() -> None:
    odd = replace(STATE, extra={"purge_drop_by": "abc"})
    assert not must_drop(odd, "a")
    assert not must_drop(STATE, "a")


def test_what_was_dropped_is_known_whatever_the_window() -> None:
    left = purged(STATE)
    new = tuple(f"{n:032x}" for n in range(10, 14))
    assert dropped(left, new, window=100).submitted == DIGESTS + new
    assert dropped(left, new, window=2).submitted == new
    assert dropped(left, (), window=100) == left


def test_a_forgotten_state_knows_only_whose_it_is_and_what_it_owes() -> None:
    left = forgotten(replace(STATE, in_doubt=None))
    assert (left.known, left.committed, left.server_total, left.prefix_count) == ((), (), None, 0)
    assert left.pending_commit_since == STATE.pending_commit_since
    assert (left.openviking_user, left.account) == ("df_x", "acme")


def test_what_is_in_doubt_is_not_forgotten() -> None:
    with pytest.raises(ValueError, match="in doubt"):
        forgotten(STATE)
