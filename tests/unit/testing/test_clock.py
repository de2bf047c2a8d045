import pytest

from resilient_ov.testing.clock import ManualClock, ScriptedDice


def test_time_passes_only_by_hand() -> None:
    clock = ManualClock(now_s=5.0)
    assert clock.monotonic_s() == 5.0
    assert clock.utc_iso() == "2030-01-01T00:00:00.000Z"
    clock.advance(1.5)
    assert clock.monotonic_s() == 6.5
    assert clock.utc_iso() == "2030-01-01T00:00:01.500Z"


def test_a_step_of_the_wall_clock_lets_no_time_pass() -> None:
    clock = ManualClock()
    clock.step_wall(-3600)
    assert clock.monotonic_s() == 1000.0
    assert clock.utc_iso() == "2029-12-31T23:00:00.000Z"


def test_monotonic_time_does_not_go_back() -> None:
    clock = ManualClock()
    with pytest.raises(ValueError, match="does not go back"):
        clock.advance(-0.1)


def test_dice_fall_as_scripted_and_then_alike() -> None:
    dice = ScriptedDice([0.0, 0.9], otherwise=0.25)
    assert [dice.fraction() for _ in range(4)] == [0.0, 0.9, 0.25, 0.25]


def test_scripted_tokens_differ_and_have_the_real_shape() -> None:
    dice = ScriptedDice()
    assert [dice.token(), dice.token()] == [f"{1:032x}", f"{2:032x}"]
