from resilient_ov_observability.limits import Limiter, Through


def test_the_first_line_passes_and_the_next_is_held_back():
    limiter = Limiter()
    assert limiter.admit("e", "r", 0.0, period_s=60.0) == Through(0, 0)
    assert limiter.admit("e", "r", 59.9, period_s=60.0) is None


def test_what_was_held_back_is_told_with_the_next_line_and_once():
    limiter = Limiter()
    limiter.admit("e", "r", 0.0, period_s=60.0, amount=1)
    for moment in (1.0, 2.0, 3.0):
        limiter.admit("e", "r", moment, period_s=60.0, amount=5)
    assert limiter.admit("e", "r", 60.0, period_s=60.0, amount=2) == Through(3, 17)
    assert limiter.admit("e", "r", 120.0, period_s=60.0, amount=2) == Through(0, 2)


def test_events_and_reasons_do_not_hold_each_other_back():
    limiter = Limiter()
    assert limiter.admit("e", "r", 0.0, period_s=60.0)
    assert limiter.admit("e", "other", 0.0, period_s=60.0)
    assert limiter.admit("other", "r", 0.0, period_s=60.0)


def test_an_endless_period_lets_one_line_through_for_ever():
    limiter = Limiter()
    assert limiter.admit("e", "r", 0.0, period_s=float("inf"))
    assert limiter.admit("e", "r", 1e9, period_s=float("inf")) is None
