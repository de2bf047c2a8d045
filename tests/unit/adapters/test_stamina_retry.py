import asyncio
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest
import stamina
from stamina import instrumentation

from resilient_ov.adapters.stamina_retry import StaminaAttempts


@pytest.fixture(autouse=True)
def waited_s(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What stamina slept on a thread; unit tests do not sleep, not even 0.0 s."""
    waits_s: list[float] = []
    monkeypatch.setattr("tenacity.nap.time", SimpleNamespace(sleep=waits_s.append))
    return waits_s


@pytest.fixture(autouse=True)
def hooks() -> Iterator[list[str]]:
    """Names of what a host's hook hears; stamina as a host left it, and put back afterwards."""
    heard: list[str] = []
    instrumentation.set_on_retry_hooks([lambda details: heard.append(details.name)])
    yield heard
    stamina.set_active(True)
    stamina.set_testing(False)
    instrumentation.set_on_retry_hooks(None)


def series(max_attempts: int) -> list[bool]:
    attempts = StaminaAttempts(max_attempts)
    return [attempts.again() for _ in range(max_attempts + 1)]


async def on_a_loop(max_attempts: int) -> list[bool]:
    return series(max_attempts)


COLOURS: dict[str, Callable[[int], list[bool]]] = {
    "thread": series,
    "loop": lambda max_attempts: asyncio.run(on_a_loop(max_attempts)),
}


@pytest.fixture(params=COLOURS)
def again(request: pytest.FixtureRequest) -> Callable[[int], list[bool]]:
    """Both ways a flow is driven; the guard of these tests forbids any blocking on the loop."""
    return COLOURS[request.param]


@pytest.mark.parametrize("max_attempts", [1, 2, 3, 5])
def test_first_attempt_counts(again: Callable[[int], list[bool]], max_attempts: int) -> None:
    retries = max_attempts - 1
    assert again(max_attempts) == [True] * retries + [False] * 2


def test_the_wait_is_left_to_the_caller(waited_s: list[float]) -> None:
    series(4)
    assert waited_s == [0.0, 0.0, 0.0]


def test_inactive_stamina_allows_one_attempt(again: Callable[[int], list[bool]]) -> None:
    stamina.set_active(False)
    assert again(3) == [False] * 4


def test_test_mode_lowers_the_number_of_attempts(again: Callable[[int], list[bool]]) -> None:
    with stamina.set_testing(True, attempts=2):
        assert again(4) == [True, False, False, False, False]


def test_test_mode_does_not_raise_it(again: Callable[[int], list[bool]]) -> None:
    with stamina.set_testing(True, attempts=9):
        assert again(2) == [True, False, False]


def test_our_attempts_are_kept_out_of_a_hosts_hooks(
    again: Callable[[int], list[bool]], hooks: list[str]
) -> None:
    again(3)
    assert hooks == []


def fail_once_as_a_host() -> None:
    attempts: list[None] = []

    @stamina.retry(on=ValueError, attempts=2, wait_initial=0, wait_jitter=0)
    def of_the_host() -> None:
        attempts.append(None)
        if len(attempts) == 1:
            raise ValueError("the host's own")

    of_the_host()


def test_a_hosts_own_retries_reach_its_hooks(hooks: list[str]) -> None:
    series(2)
    fail_once_as_a_host()
    assert len(hooks) == 1
    assert "of_the_host" in hooks[0]


def test_hooks_are_wrapped_once() -> None:
    series(2)
    wrapped = instrumentation.get_on_retry_hooks()
    series(2)
    assert instrumentation.get_on_retry_hooks() == wrapped


def test_hooks_set_later_are_kept_out_too() -> None:
    series(2)
    heard: list[str] = []
    old = instrumentation.get_on_retry_hooks()
    instrumentation.set_on_retry_hooks([*old, lambda details: heard.append(details.name)])
    series(2)
    assert heard == []
    fail_once_as_a_host()
    assert len(heard) == 1


def test_hook_that_returns_a_context_still_may() -> None:
    entered: list[str] = []

    class Context:
        def __enter__(self) -> None:
            entered.append("in")

        def __exit__(self, *_: object) -> None:
            entered.append("out")

    def hook(details: instrumentation.RetryDetails) -> Context:
        return Context()

    instrumentation.set_on_retry_hooks([hook])
    series(2)
    assert entered == []
    fail_once_as_a_host()
    assert entered == ["in", "out"]


def test_stamina_whose_hooks_cannot_start_costs_a_retry_and_no_more(
    again: Callable[[int], list[bool]],
) -> None:
    def broken() -> instrumentation.RetryHook:
        raise RuntimeError("a broken metrics library")

    instrumentation.set_on_retry_hooks([instrumentation.RetryHookFactory(broken)])
    assert again(3) == [False] * 4


def test_series_are_independent() -> None:
    one, other = StaminaAttempts(2), StaminaAttempts(2)
    assert one.again()
    assert other.again()
    assert not one.again()
    assert not other.again()
