from hypothesis import given
from hypothesis import strategies as st

from resilient_ov.policy.window import SampleWindow

_samples = st.lists(
    st.tuples(st.floats(0, 20), st.booleans(), st.booleans()), min_size=1, max_size=40
)


@given(_samples, st.floats(0, 1e6))
def test_totals_are_those_of_the_last_ten_slices(
    samples: list[tuple[float, bool, bool]], start_s: float
) -> None:
    window = SampleWindow(30.0)
    now_s = start_s
    seen: list[tuple[int, bool, bool]] = []
    for gap_s, failed, slow in samples:
        now_s += gap_s
        window.add(now_s, failed=failed, slow=slow)
        seen.append((int(now_s // 3.0), failed, slow))
    kept = [sample for sample in seen if sample[0] > seen[-1][0] - 10]
    assert window.calls == len(kept)
    assert window.failures == sum(failed for _, failed, _ in kept)
    assert window.slow == sum(slow for _, _, slow in kept)


def test_time_that_runs_back_counts_as_now() -> None:
    window = SampleWindow(30.0)
    window.add(100.0, failed=True, slow=False)
    window.add(80.0, failed=True, slow=False)
    window.add(129.0, failed=False, slow=False)
    assert (window.calls, window.failures) == (1, 0)


def test_clear_forgets_everything() -> None:
    window = SampleWindow(30.0)
    window.add(100.0, failed=True, slow=True)
    window.clear()
    assert (window.calls, window.failures, window.slow) == (0, 0, 0)
    window.add(100.0, failed=True, slow=True)
    assert (window.calls, window.failures, window.slow) == (1, 1, 1)
