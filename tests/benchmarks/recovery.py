"""Gate: how soon memory works again after the server was down, without a restart.

Run `python -m tests.benchmarks.recovery`; exits 1 above a bound. Every round has a server and two
managers of its own, all rounds run at once: one manager is asked all the time, the other only holds
waiting writes and makes no call. What is measured begins when the open period that was in force
ends, or when the server is back, whatever is later.
"""

import argparse
import random
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from resilient_ov.testing.script import Rule
from resilient_ov.testing.scripted_server import ScriptedServer
from resilient_ov_manager import OpenVikingMemoryManager
from tests.benchmarks.frame import Figure, percentile, run
from tests.benchmarks.ground import managed, turn

ROUNDS = 20
DOWN_S = 60.0
_LATEST_S = 60.0
_ASK_EVERY_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """Seconds after the end of the open period that was in force."""

    read_s: float
    write_s: float
    period_s: float


def recover(down_s: float) -> Recovered:
    """Take a server away for a while and bring it back."""
    with ScriptedServer() as server, managed(server) as asked, managed(server) as silent:
        asked.get_context("someone")
        silent.add("thread", turn(1), user_id="someone")
        server.script(Rule(on="any", do="refuse"))
        silent.add("thread", turn(1) + turn(2), user_id="someone")
        end_s = time.monotonic() + down_s
        while time.monotonic() < end_s:
            asked.search("tea", user_id="someone")
            time.sleep(_ASK_EVERY_S)
        server.script()
        # Asked after the server is back: a probe that failed at this moment began a new period.
        time.sleep(0.02)
        back_s = time.monotonic()
        read_from_s, write_from_s = _open_until_s(asked, back_s), _open_until_s(silent, back_s)
        with ThreadPoolExecutor(2) as pool:
            read = pool.submit(_read_again_s, asked, server)
            written = pool.submit(_written_s, server)
            return Recovered(
                read_s=read.result() - read_from_s,
                write_s=written.result() - write_from_s,
                period_s=max(read_from_s, write_from_s) - back_s,
            )


def _open_until_s(manager: OpenVikingMemoryManager, now_s: float) -> float:
    """Return when the last open period ends; now when there is none."""
    breakers = manager._process.backend().gate.snapshot(now_s).breakers.values()
    return max([now_s, *(view.open_until_s or now_s for view in breakers)])


def _read_again_s(manager: OpenVikingMemoryManager, server: ScriptedServer) -> float:
    """Ask until the server is heard of; return when."""
    heard = len(server.requests_to("find"))
    end_s = time.monotonic() + _LATEST_S
    while time.monotonic() < end_s:
        manager.search("tea", user_id="someone")
        if len(server.requests_to("find")) > heard:
            return time.monotonic()
        time.sleep(_ASK_EVERY_S / 10)
    raise SystemExit("reads never came back")


def _written_s(server: ScriptedServer) -> float:
    """Wait until what waited is stored and committed; return when."""
    end_s = time.monotonic() + _LATEST_S
    while time.monotonic() < end_s:
        stored = server.store.sessions().values()
        if sum(len(session.everything) for session in stored) == 4 and not any(
            session.live for session in stored
        ):
            return time.monotonic()
        time.sleep(_ASK_EVERY_S / 10)
    raise SystemExit("waiting writes never came back")


def measure(asked: argparse.Namespace) -> Iterable[Figure]:
    down_s = asked.down or (8.0 if asked.quick else DOWN_S)
    rng = random.Random(asked.seed)
    # Spread over the longest open period, so that the server comes back in every part of one.
    downs_s = [down_s + rng.uniform(0.0, down_s / 2) for _ in range(asked.rounds)]
    with ThreadPoolExecutor(asked.rounds) as pool:
        found = list(pool.map(recover, downs_s))
    for name, values in (
        ("reads, asked all the time", [one.read_s for one in found]),
        ("waiting writes, without a call", [one.write_s for one in found]),
    ):
        for share, which in ((1.0, "longest"), (0.5, "p50")):
            yield Figure(
                name=f"{name}: after the open period, {which}",
                value=percentile(values, share),
                unit="s",
                samples=len(values),
                most=1.0 if share == 1.0 else None,
            )
    yield Figure(
        name=f"open period that was left when the server came back (down {down_s:g} s+), longest",
        value=max(one.period_s for one in found),
        unit="s",
        samples=len(found),
        most=30.0,
    )


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--down", type=float, help=f"seconds without a server, {DOWN_S:g}")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="all at once")


if __name__ == "__main__":
    raise SystemExit(run(__doc__ or "", measure, options))
