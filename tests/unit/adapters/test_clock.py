import os
import re
import time

import pytest

from resilient_ov.adapters.clock import SystemClock, SystemDice


def test_monotonic_time_ignores_the_wall_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SystemClock()
    before = clock.monotonic_s()
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: 0.0)
        after = clock.monotonic_s()
    assert before <= after < before + 5


def test_the_wall_clock_is_utc_with_milliseconds() -> None:
    pattern = r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
    assert re.fullmatch(pattern, SystemClock().utc_iso())


def test_fractions_are_spread_over_the_unit_interval() -> None:
    dice = SystemDice()
    rolled = [dice.fraction() for _ in range(2000)]
    assert all(0.0 <= value < 1.0 for value in rolled)
    assert min(rolled) < 0.05
    assert max(rolled) > 0.95


def test_tokens_are_fresh_hexadecimal() -> None:
    tokens = {SystemDice().token() for _ in range(100)}
    assert len(tokens) == 100
    assert all(re.fullmatch(r"[0-9a-f]{32}", token) for token in tokens)


def test_a_forked_child_does_not_repeat_its_parents_tokens() -> None:
    dice = SystemDice()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, dice.token().encode())
        os._exit(0)
    os.waitpid(child, 0)
    with os.fdopen(reading) as pipe:
        os.close(writing)
        assert pipe.read() != dice.token()
