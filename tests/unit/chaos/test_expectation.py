from resilient_ov_chaos.expectation import ALL_GROUPS, Expectation, Limit, Reads
from resilient_ov_chaos.knobs import QUICK


def test_a_limit_is_told_in_the_products_own_terms() -> None:
    limit = Limit(budgets=1.0, writes=2.0, periods=3.0, settles=4.0, windows=5.0, plus_s=6.0)
    assert limit.seconds(QUICK) == (
        QUICK.get_context_s
        + 2.0 * QUICK.add_s
        + 3.0 * QUICK.open_s
        + 4.0 * QUICK.settle_s
        + 5.0 * QUICK.fault_s
        + 6.0
    )


def test_at_a_slow_server_only_reads_and_the_host_must_stay_closed() -> None:
    told = Expectation(told="", reads=Reads.SERVED, stays_closed=ALL_GROUPS)
    assert told.at_slow_server().stays_closed == {"recall", "host"}
    assert told.at_slow_server().told == ""
    told = Expectation(told="Quick.", told_slow="But for it.", reads=Reads.SERVED)
    assert told.at_slow_server().told == "Quick. But for it."
    assert Expectation(told="", reads=Reads.LOST).at_slow_server().stays_closed == frozenset()
