"""One process of the product: obeys the runner's commands until its pipe ends.

Rule: records go onto its tape; everything the product says goes to the error output.
"""

import asyncio
import logging
import os
import threading
import time
from math import isfinite
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from resilient_ov_chaos.agent import mutants, probes, sinks, wall_clock
from resilient_ov_chaos.agent.job import JOB, Job
from resilient_ov_chaos.agent.messages import QUERY
from resilient_ov_chaos.agent.recorder import Recorder
from resilient_ov_chaos.agent.traffic import Traffic
from resilient_ov_chaos.history import Loop, MetricsPage
from resilient_ov_chaos.tape import TapeWriter
from resilient_ov_manager import OpenVikingMemoryManager

_PAGES: Final = logging.getLogger(sinks.PAGES)


def run(job: bytes, tape: str, commands: Connection, says: Connection) -> None:
    """Be the process; returns when the runner has closed its end of ``commands``.

    Args:
        job: what to do, as JSON.
        tape: file for the records.
        commands: where commands come from, one text each.
        says: what takes the place of output and error output.

    """
    for descriptor in (1, 2):
        os.dup2(says.fileno(), descriptor)
    says.close()
    told = JOB.validate_json(job)
    recorder = Recorder(TapeWriter(Path(tape)), told.process)
    logs = sinks.show_logs()
    sinks.show_spans()
    probes.watch_wire(recorder)
    probes.watch_breakers(recorder)
    probes.watch_connections(recorder, told.connects_to)
    mutants.apply(told.mutant)
    agent = Agent(told, recorder)
    asyncio.run(agent.live(commands))
    logs.stop()


class Agent:
    """The product, its traffic and its watchers."""

    def __init__(self, job: Job, recorder: Recorder) -> None:
        self._job = job
        self._recorder = recorder
        self._registry = CollectorRegistry()
        self._manager = OpenVikingMemoryManager.from_config(
            {
                **job.config,
                "retrieval": {"injection_query": QUERY},
                "tracing": {"http_spans": False},
            },
            metrics_registry=self._registry,
        )
        self._traffic = Traffic(job, self._manager, recorder)

    async def live(self, commands: Connection) -> None:
        """Run the traffic's event loop until the commands end."""
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()

        def listen() -> None:
            try:
                while True:
                    self._obey(commands.recv())
            except EOFError:
                loop.call_soon_threadsafe(ended.set)

        beating = loop.create_task(probes.beat(self._recorder, Loop.TRAFFIC))
        probes.start_control_loop(self._recorder)
        self._traffic.start(loop)
        threading.Thread(target=listen, daemon=True).start()
        self._recorder.done("start")
        await ended.wait()
        beating.cancel()

    def _obey(self, command: str) -> None:
        word, _, argument = command.partition(" ")
        result = ""
        match word:
            case "warm":
                self._traffic.warm()
            case "seed":
                result = str(self._traffic.seed(float(argument)))
            case "resume":
                self._traffic.resume()
            case "pause":
                self._traffic.pause()
            case "present":
                self._traffic.present()
            case "flush":
                self._traffic.flush(float(argument))
            case "close":
                self._manager.close()
            case "resources":
                self._recorder.write(
                    probes.resources(self._job.process, argument, self._job.connects_to)
                )
            case "metrics":
                self._recorder.write(self._page())
            case "clock":
                wall_clock.step(float(argument))
            case _:
                raise ValueError(f"no such command: {word}")
        self._recorder.done(f"{word} {result}")

    def _page(self) -> MetricsPage:
        at_s = time.monotonic()
        text = generate_latest(self._registry).decode()
        for line in text.splitlines():
            _PAGES.debug("%s", line)
        samples = {
            _key(sample.name, sample.labels): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            # JSON has no word for "not a number", and no checker needs one.
            if isfinite(sample.value) and not sample.name.endswith(("_bucket", "_created"))
        }
        return MetricsPage(process=self._job.process, at_s=at_s, samples=samples)


def _key(name: str, labels: dict[str, str]) -> str:
    told = ",".join(f'{label}="{value}"' for label, value in sorted(labels.items()))
    return f"{name}{{{told}}}" if told else name
