from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from resilient_ov.events import DegradeReason, Group
from resilient_ov_observability.outages import News, Outages


def fail(outages, now_s, group=Group.RECALL, dropped=0):
    return outages.failed(
        group, DegradeReason.UNAVAILABLE, now_s, at_utc=lambda: f"at {now_s}", dropped=dropped
    )


def test_one_begin_and_one_end_however_many_failures():
    outages = Outages()
    news = [fail(outages, float(moment)) for moment in range(200)]
    assert [kind for kind, _outage in filter(None, news)] == [News.DEGRADED]
    ended = outages.succeeded(Group.RECALL)
    assert (ended.since_s, ended.failures, ended.first_failure_at) == (0.0, 200, "at 0.0")
    assert outages.succeeded(Group.RECALL) is None


def test_groups_have_outages_of_their_own():
    outages = Outages()
    assert fail(outages, 0.0, Group.RECALL)[0] is News.DEGRADED
    assert fail(outages, 0.0, Group.APPEND)[0] is News.DEGRADED
    assert outages.succeeded(Group.COMMIT) is None
    assert set(outages.current) == {Group.RECALL, Group.APPEND}


def test_flapping_tells_one_pair_and_counts_the_rest():
    outages = Outages()
    told = []
    for moment in range(0, 60, 4):
        told += [fail(outages, moment), outages.succeeded(Group.RECALL)]
    begun = [news for news in told[0::2] if news]
    ended = [outage for outage in told[1::2] if outage]
    assert (len(begun), len(ended)) == (1, 1)
    kind, outage = fail(outages, 60.0)
    assert (kind, outage.suppressed) == (News.DEGRADED, 14)


def test_an_outage_that_begins_quietly_is_told_when_it_lasts():
    outages = Outages()
    fail(outages, 0.0)
    outages.succeeded(Group.RECALL)
    assert fail(outages, 10.0) is None
    assert fail(outages, 59.0) is None
    kind, outage = fail(outages, 61.0)
    assert (kind, outage.since_s, outage.failures) == (News.DEGRADED, 10.0, 3)
    assert outages.succeeded(Group.RECALL) is outage


def test_a_lasting_outage_is_told_after_five_minutes_and_then_hourly():
    outages = Outages()
    lasting = [
        minute
        for minute in range(181)
        if (news := fail(outages, minute * 60.0)) and news[0] is News.LASTING
    ]
    assert lasting == [5, 65, 125]


@given(steps=st.lists(st.tuples(st.booleans(), st.floats(0.0, 100.0)), max_size=80))
def test_every_told_end_had_a_told_begin_and_begins_keep_their_distance(steps):
    outages, now_s, begun, is_told = Outages(), 0.0, [], False
    for failing, passed_s in steps:
        now_s += passed_s
        if failing:
            news = fail(outages, now_s)
            if news and news[0] is News.DEGRADED:
                assert not is_told
                begun.append(now_s)
                is_told = True
        else:
            assert (outages.succeeded(Group.RECALL) is not None) == is_told
            is_told = False
    assert all(later - earlier >= 60.0 for earlier, later in pairwise(begun))
