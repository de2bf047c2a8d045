"""Gate: whether a forked process ever gets an answer that belongs to another one.

Run `python -m tests.benchmarks.fork`; exits 1 unless no answer is wrong or missing. The manager is
warm, with an open connection, when the children are made; all go on at once, and every user of
every process has a memory that only he may see.
"""

import argparse
import json
import os
import tempfile
import warnings
from collections.abc import Iterable

from resilient_ov.domain.identity import openviking_user, scope
from resilient_ov.testing.scripted_server import ScriptedServer
from resilient_ov_manager import OpenVikingMemoryManager
from tests.benchmarks.frame import Figure, run
from tests.benchmarks.ground import manager_at

CALLS = 600
_CHILDREN = 2


def measure(asked: argparse.Namespace) -> Iterable[Figure]:
    calls = (60 if asked.quick else CALLS) // (_CHILDREN + 1)
    with ScriptedServer() as server, tempfile.TemporaryDirectory() as storage:
        for name in ("parent", *(f"child-{n}" for n in range(_CHILDREN))):
            user = openviking_user(scope("bench", name, None))
            server.store.remember("bench", user, f"tea of {name}", score=0.9)
        manager = manager_at(server.url, storage)
        if ask(manager, "parent", 1) != (1, 0):
            raise SystemExit("the parent was not served before the fork")
        children = [fork(manager, f"child-{n}", calls) for n in range(_CHILDREN)]
        results = [ask(manager, "parent", calls)]
        for pid, reading in children:
            with os.fdopen(reading) as pipe:
                results.append(tuple(json.loads(pipe.read() or "[0, 0]")))
            os.waitpid(pid, 0)
        manager.close()
    right, wrong = (sum(column) for column in zip(*results, strict=True))
    samples = calls * (_CHILDREN + 1)
    yield Figure(name="wrong answers", value=wrong, unit="", samples=samples, exactly=0)
    yield Figure(
        name="missing answers", value=samples - right - wrong, unit="", samples=samples, exactly=0
    )


def ask(manager: OpenVikingMemoryManager, name: str, calls: int) -> tuple[int, int]:
    """Return how many answers were this user's own, and how many held something else."""
    right = wrong = 0
    for _ in range(calls):
        found = [hit["content"] for hit in manager.search("tea", user_id=name)]
        right += found == [f"tea of {name}"]
        wrong += any(content != f"tea of {name}" for content in found)
    return right, wrong


def fork(manager: OpenVikingMemoryManager, name: str, calls: int) -> tuple[int, int]:
    """Make a child that asks for itself; return its id and where its result can be read."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # The interpreter warns of what this gate is about: threads do not survive a fork.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    try:
        with os.fdopen(writing, "w") as pipe:
            json.dump(ask(manager, name, calls), pipe)
    finally:
        os._exit(0)


if __name__ == "__main__":
    raise SystemExit(run(__doc__ or "", measure))
