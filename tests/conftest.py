"""What holds for every test of this project.

Two gates: a skip is never silent (and fails the run under `STRICT=1`), and no code of ours blocks
an event loop, not even where the error of the blocking call would be swallowed.
"""

import asyncio
import os
import threading
import traceback
from collections.abc import Iterator
from typing import Any

import blockbuster.blockbuster as guard
import hypothesis
import pytest

# How fast the machine is just now is no property of the code: on a fresh checkout the first draw
# alone makes a table of all characters, for seconds.
hypothesis.settings.register_profile(
    "steady", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("steady")

STRICT = os.environ.get("STRICT", "") not in {"", "0"}
NOT_RUN = pytest.StashKey[list[str]]()
GUARDED = ["resilient_ov", "resilient_ov_manager", "resilient_ov_observability"]
# The server for development works on its own loop and serves nobody else's.
NOT_GUARDED = ["resilient_ov.embedded"]


def pytest_configure(config: pytest.Config) -> None:
    config.stash[NOT_RUN] = []
    config.pluginmanager.register(SkipGate(config), "skip-gate")


class SkipGate:
    """Names every test that did not run, with its reason; under STRICT one is enough to fail."""

    def __init__(self, config: pytest.Config) -> None:
        self.not_run = config.stash[NOT_RUN]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped:
            self._note(report, getattr(report, "wasxfail", None))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self._note(report, None)

    def _note(self, report: pytest.TestReport | pytest.CollectReport, xfail: str | None) -> None:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        what = f"expected to fail: {xfail}" if xfail is not None else reason
        self.not_run.append(f"{report.nodeid}: {what}")

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if STRICT and self.not_run and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self.not_run:
            verdict = "STRICT: each of these fails the run" if STRICT else "not run, by name"
            terminalreporter.section(f"{len(self.not_run)} {verdict}")
            for line in self.not_run:
                terminalreporter.write_line(line)


class _NotedBlockingError(guard.BlockingError):
    """The guard's error, remembered: what fails open also swallows this exception."""

    seen: list[str] = []  # noqa: RUF012 - one list for the process is the point

    def __init__(self, func: str) -> None:
        super().__init__(func)
        stack = "".join(traceback.format_stack(limit=12)[:-1])
        self.seen.append(f"blocking call to {func} on an event loop:\n{stack}")


class LoopGuard:
    """Watches as long as some loop runs, and only then: watched calls are slower for everyone."""

    def __init__(self) -> None:
        self._guard = guard.BlockBuster(scanned_modules=GUARDED, excluded_modules=NOT_GUARDED)
        self._lock = threading.Lock()
        self._loops = 0

    def loop_starts(self) -> None:
        with self._lock:
            self._loops += 1
            if self._loops == 1:
                self._guard.activate()

    def loop_stops(self) -> None:
        with self._lock:
            self._loops -= 1
            if self._loops == 0:
                self._guard.deactivate()


@pytest.fixture(scope="session", autouse=True)
def _loop_guard() -> Iterator[None]:
    watch = LoopGuard()
    run_forever = asyncio.BaseEventLoop.run_forever

    def watched(loop: asyncio.BaseEventLoop) -> None:
        watch.loop_starts()
        try:
            run_forever(loop)
        finally:
            watch.loop_stops()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guard, "BlockingError", _NotedBlockingError)
        patch.setattr(asyncio.BaseEventLoop, "run_forever", watched)
        yield


@pytest.fixture(autouse=True)
def _loop_never_blocked(_loop_guard: None) -> Iterator[None]:
    _NotedBlockingError.seen.clear()
    yield
    seen, _NotedBlockingError.seen[:] = list(_NotedBlockingError.seen), []
    if seen:
        pytest.fail("\n".join(seen), pytrace=False)
