"""The gates of the test suite itself: each can fail."""

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
TESTS = Path(__file__).parents[1]

NOT_RUN = """
    import pytest

    def test_runs():
        pass

    @pytest.mark.skip(reason="no such tool")
    def test_left_out():
        pass

    @pytest.mark.xfail(reason="known wrong")
    def test_known_wrong():
        raise ValueError
"""

BLOCKS_AND_SWALLOWS = """
    import asyncio
    from resilient_ov.adapters.durable_files import make_directory

    def test_swallowed(tmp_path):
        async def fail_open():
            try:
                make_directory(tmp_path / "state")
            except Exception:
                pass

        asyncio.run(fail_open())

    def test_off_the_loop(tmp_path):
        make_directory(tmp_path / "state")
"""

SLEEPS_AND_CONNECTS = """
    import asyncio
    import socket
    import time
    import pytest

    def test_sleeps():
        time.sleep(0.001)

    def test_sleeps_on_a_loop():
        asyncio.run(asyncio.sleep(0.001))

    def test_connects():
        socket.socket().connect(("127.0.0.1", 9))

    def test_yields():
        asyncio.run(asyncio.sleep(0))
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.delenv("STRICT", raising=False)
    pytester.makeconftest((TESTS / "conftest.py").read_text())
    return pytester


def run(project: pytest.Pytester) -> pytest.RunResult:
    return project.runpytest_subprocess("-p", "no:randomly", "-p", "no:cacheprovider")


def test_a_skip_is_named_and_passes(project: pytest.Pytester) -> None:
    project.makepyfile(NOT_RUN)
    result = run(project)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(
        [
            "*2 not run, by name*",
            "*test_left_out: *no such tool",
            "*test_known_wrong: expected to fail: known wrong",
            "*1 passed, 1 skipped, 1 xfailed*",
        ]
    )


@pytest.mark.parametrize(
    "body",
    [
        "import pytest; pytest.importorskip('no_such_module_anywhere')",
        "import pytest\n@pytest.mark.xfail(reason='no')\ndef test_wrong(): raise ValueError",
    ],
    ids=["skip", "xfail"],
)
def test_one_test_not_run_fails_under_strict(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    monkeypatch.setenv("STRICT", "1")
    project.makepyfile(test_runs="def test_runs(): pass", test_not_run=body)
    result = run(project)
    result.stdout.fnmatch_lines(["*1 STRICT: each of these fails the run*", "test_not_run.py*: *"])
    result.assert_outcomes(
        passed=1, skipped=body.count("importorskip"), xfailed=body.count("xfail")
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_a_swallowed_blocking_call_fails(project: pytest.Pytester) -> None:
    project.makepyfile(BLOCKS_AND_SWALLOWS)
    result = run(project)
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*blocking call to * on an event loop*"])


def test_a_unit_test_may_not_sleep_or_connect(project: pytest.Pytester) -> None:
    project.makeconftest((TESTS / "unit" / "conftest.py").read_text())
    project.makepyfile(SLEEPS_AND_CONNECTS)
    run(project).assert_outcomes(passed=1, failed=3)
