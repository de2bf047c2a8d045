"""Short scenes after a story, on its healed world: what chance meets too seldom to be judged by.

Rule: a scene makes one situation with certainty, lets time pass, and says what is wrong, or None.
"""

from types import SimpleNamespace
from typing import Any

from resilient_ov.domain.exchange import Search
from resilient_ov.domain.identity import openviking_user, scope, session_id
from resilient_ov.memory import Who
from tests.simulation.model_server import CALM, Faults, ModelServer
from tests.simulation.process import Process
from tests.simulation.world import World

_SETTLED_S = 180.0


def prompt_hand_over(world: World, server: ModelServer, process: Process, name: str) -> str | None:
    """What a healthy, idle process is handed goes out at once: no wake-up may get lost."""
    who, key = _fresh(f"prompt-{name}")
    process.add_nowait(who, [_message(name)])
    if world.run(lambda: key in server.sessions and server.sessions[key].total > 0, limit_s=1.0):
        return None
    return "a hand-over to an idle, healthy process waited for 1 s"


def cancelled_probe(world: World, server: ModelServer, process: Process, name: str) -> str | None:
    """A probe whose caller goes away leaves its place to the next one."""
    who, _ = _fresh(f"probe-{name}")
    server.crash()
    for _ in range(12):
        process.start(process.assembly.memory.get_context(who, "tea"), _ignore)
        world.run(lambda: False, limit_s=0.5)
    server.restart()
    server.faults = Faults(slow=1.0)
    probes = server.count(Search)
    for _ in range(100):
        call = process.start(process.assembly.memory.get_context(who, "tea"), _ignore)
        world.run(lambda: False, limit_s=0.05)
        if server.count(Search) > probes:
            call.cancel()
            break
        world.run(lambda: False, limit_s=1.0)
    else:
        return "no probe was let through to a healed server"
    server.faults = CALM
    world.run(lambda: False, limit_s=60.0)
    probes = server.count(Search)
    process.start(process.assembly.memory.get_context(who, "coffee"), _ignore)
    world.run(lambda: False, limit_s=5.0)
    return None if server.count(Search) > probes else "a cancelled probe kept its place for 60 s"


def stopped_between_looks(
    world: World, server: ModelServer, process: Process, name: str
) -> str | None:
    """A server that was stopped after the first look still holds the original."""
    who, key = _fresh(f"stopped-{name}")
    landing = server.hold_next(key[1])
    process.add_nowait(who, [_message(name)])
    if not world.run(lambda: bool(landing), limit_s=10.0):
        return "a hand-over to an idle, healthy process was not sent within 10 s"
    world.run(lambda: False, limit_s=1.5)
    server.stop()
    world.run(lambda: False, limit_s=7.5)
    server.resume()
    world.after(4.5, landing[0])
    world.run(lambda: False, limit_s=_SETTLED_S)
    stored = len(server.sessions[key].digests())
    return None if stored == 1 else f"a late original and its batch: stored {stored} times"


SCENES = (prompt_hand_over, cancelled_probe, stopped_between_looks)


def _fresh(thread_id: str) -> tuple[Who, tuple[str, str]]:
    owner = scope("default", "scene", None)
    who = Who(user_id="scene", thread_id=thread_id)
    return who, (openviking_user(owner), session_id(owner, thread_id))


def _message(name: str) -> Any:
    return SimpleNamespace(
        type="human", id=f"scene-{name}", content="words", additional_kwargs={}, tool_calls=[]
    )


def _ignore(_: Any, __: BaseException | None) -> None:
    """Reads fail open; how one ended is not what a scene judges."""
