"""``python agent.py CONFIG``: the product in a process of its own, with steady traffic.

Prints ``ready`` once it remembers; then the traffic goes on until its input ends.
"""

import asyncio
import json
import os
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from resilient_ov_manager import OpenVikingMemoryManager

USER = "carol@live.example"
FACT = "I prefer concise explanations of the weather."
QUERY = "concise explanations"
READERS = 2
THINK_S = 0.15
# Longer than an outage can hold within the smallest queue there is.
LONG_TEXT = "words that fill the queue " * 700


def message(text: str, number: str) -> Any:
    return SimpleNamespace(
        type="human", content=text, id=number, name=None, additional_kwargs={}, tool_calls=[]
    )


def read(manager: OpenVikingMemoryManager) -> None:
    while True:
        manager.get_context(USER, agent_name=None)
        manager.search(QUERY, user_id=USER)
        time.sleep(THINK_S)


def write(manager: OpenVikingMemoryManager) -> None:
    number = 0
    while True:
        thread, turn = divmod(number, 5)
        said = [message(f"part {i} of talk {thread}", f"w{thread}-{i}") for i in range(turn + 1)]
        manager.add(f"talk-{thread}", said, user_id=USER)
        number += 1
        time.sleep(THINK_S)


def hand_over(manager: OpenVikingMemoryManager) -> None:
    asyncio.run(compact(manager))


async def compact(manager: OpenVikingMemoryManager) -> None:
    """What is handed over on a loop comes never again, so a full queue gives it up."""
    number = 0
    while True:
        said = [message(f"{number} {LONG_TEXT}", f"c{number}")]
        manager.add_nowait(f"compacted-{number % 4}", said, user_id=USER)
        number += 1
        await asyncio.sleep(THINK_S)


def remember(manager: OpenVikingMemoryManager) -> None:
    manager.add("first", [message(FACT, "first")], user_id=USER)
    while not manager.search(QUERY, user_id=USER):
        time.sleep(0.1)


def main() -> None:
    trace.set_tracer_provider(TracerProvider())
    config = json.loads(Path(sys.argv[1]).read_text())
    manager = OpenVikingMemoryManager.from_config(config)
    remember(manager)
    for work in [*[read] * READERS, write, hand_over]:
        threading.Thread(target=work, args=(manager,), daemon=True).start()
    print("ready", flush=True)
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
