"""A short life of the product with everything around it: faults, Prometheus, Alertmanager.

Rule: loopback only; what is started here ends with the block, by its own handle.
"""

import json
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx

from resilient_ov_chaos.processes import Child, Tied, free_port
from resilient_ov_chaos.toxiproxy.link import Link
from resilient_ov_chaos.toxiproxy.server import toxiproxy
from resilient_ov_chaos.toxiproxy.toxics import ResetPeer, Timeout
from resilient_ov_grafana.generate import files, in_yaml, write
from resilient_ov_grafana.provisioning import alertmanager
from resilient_ov_grafana.targets import Targets

HERE = Path(__file__).parent
KEY, WRONG_KEY = "live-root-key-1b77", "not-the-right-key"
JOB, RENAMED = "resilient-ov", "renamed"
RENAMED_METRIC = "openviking_breaker_state"
FASTER = 60
UP_S = 60.0
CALM, OUTAGE, HEALED, RESETS, NO_KEY, FULL_DISK, SWITCHED = (
    "calm",
    "outage",
    "healed",
    "resets",
    "wrong key",
    "full disk",
    "switched",
)
LENGTHS = {
    CALM: 15.0,
    OUTAGE: 16.0,
    HEALED: 18.0,
    RESETS: 8.0,
    NO_KEY: 8.0,
    FULL_DISK: 8.0,
    SWITCHED: 6.0,
}
REST_S = 5.0
# The age of what waits is told by the sweeper, which begins within this time.
SWEEPER_S = 32.0


@dataclass
class Notice:
    """One notification of Alertmanager: when it arrived, in Unix time, and its alerts."""

    at_s: float
    alerts: list[dict[str, Any]]

    def tells(self, name: str, status: str) -> bool:
        return any(
            alert["status"] == status
            and alert["labels"]["alertname"] == name
            and alert["labels"]["job"] == JOB
            for alert in self.alerts
        )


@dataclass
class Run:
    """What there is after the last fault: the phases, what was notified, a Prometheus to ask.

    `starved_s` is by how much a thread that only sleeps was late in the outage: what the machine
    took from everybody.
    """

    prometheus: str
    began_s: float
    phases: dict[str, tuple[float, float]] = field(default_factory=dict)
    notices: list[Notice] = field(default_factory=list)
    ended_s: float = 0.0
    starved_s: float = 0.0
    kept: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    client: httpx.Client = field(
        default_factory=lambda: httpx.Client(timeout=30.0, trust_env=False)
    )

    def ask(self, path: str, **params: Any) -> Any:
        answer = self.client.get(f"{self.prometheus}/api/v1/{path}", params=params)
        body = answer.json()
        if body["status"] != "success":
            raise AssertionError(f"{params}: {body.get('error')}")
        return body["data"]

    def over_time(self, expr: str) -> list[dict[str, Any]]:
        """A query over the whole run, a value a second."""
        if expr not in self.kept:
            asked = {"query": expr, "start": self.began_s, "end": self.ended_s, "step": 1}
            self.kept[expr] = self.ask("query_range", **asked)["result"]
        return self.kept[expr]

    def first(self, name: str, status: str, after_s: float) -> float | None:
        """Seconds from a moment to the first notice of an alert."""
        found = [
            notice.at_s - after_s
            for notice in list(self.notices)
            if notice.at_s >= after_s and notice.tells(name, status)
        ]
        return min(found, default=None)


@contextmanager
def stage(folder: Path, say: Callable[[str], None] = print) -> Iterator[Run]:
    """Live through everything once; then Prometheus is there to be asked."""
    ports = {name: free_port() for name in ("server", "metrics", "prometheus", "alertmanager")}
    key_file = folder / "key"
    key_file.write_text(KEY)
    with ExitStack() as held:
        run = Run(f"http://127.0.0.1:{ports['prometheus']}", time.time())
        hook = held.enter_context(webhook(run))
        server = held.enter_context(
            child("server", folder, str(ports["server"]), str(folder / "server"), KEY)
        )
        wait_for(f"http://127.0.0.1:{ports['server']}/health", server)
        held.enter_context(watchers(folder, ports, hook))
        proxy = held.enter_context(toxiproxy(say=say))
        link = proxy.link("live", upstream=f"127.0.0.1:{ports['server']}")
        held.callback(link.remove)
        config = folder / "agent.json"
        config.write_text(json.dumps(settings(link, folder, key_file, ports["metrics"])))
        agent = held.enter_context(child("agent", folder, str(config)))
        if agent.process.stdout is None or agent.process.stdout.readline() != b"ready\n":
            raise RuntimeError((folder / "agent.log").read_text()[-2000:])
        live(run, link, agent, key_file, folder / "storage", say)
        held.callback(run.client.close)
        yield run


def live(
    run: Run, link: Link, agent: Child, key_file: Path, storage: Path, say: Callable[[str], None]
) -> None:
    def phase(name: str, *broken: AbstractContextManager[object]) -> None:
        say(f"{time.time() - run.began_s:5.1f} s: {name}")
        with ExitStack() as held:
            for each in broken:
                held.enter_context(each)
            began_s = time.time()
            time.sleep(LENGTHS[name])
        run.phases[name] = (began_s, time.time())

    time.sleep(SWEEPER_S - LENGTHS[CALM])
    phase(CALM)
    with lateness() as late:
        phase(OUTAGE, link.toxic(Timeout()))
    run.starved_s = late()
    phase(HEALED)
    phase(RESETS, flapping(link))
    time.sleep(REST_S)
    phase(NO_KEY, replaced(key_file, WRONG_KEY))
    time.sleep(REST_S)
    phase(FULL_DISK, full_disk(agent.pid))
    time.sleep(REST_S)
    phase(SWITCHED, switched(storage))
    time.sleep(REST_S)
    run.ended_s = time.time()


def settings(link: Link, folder: Path, key_file: Path, port: int) -> dict[str, Any]:
    return {
        "base_url": link.url,
        "account": "live",
        "api_key_file": str(key_file),
        "storage_path": str(folder / "storage"),
        "metrics": {"port": port},
        "budgets": {"get_context_seconds": 0.5, "search_seconds": 0.5, "add_seconds": 1.0},
        "breaker": {"open_seconds": 1, "max_open_seconds": 2},
        "session": {"settle_seconds": 0.5},
        "limits": {"write_queue_bytes": 1_048_576},
    }


# -- processes --------------------------------------------------------------------------------


@contextmanager
def child(name: str, folder: Path, *arguments: str) -> Iterator[Child]:
    """A program of this folder; ends with its input."""
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, str(HERE / f"{name}.py"), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    started = Child(process)
    try:
        yield started
    finally:
        started.end()


@contextmanager
def watchers(folder: Path, ports: dict[str, int], hook: str) -> Iterator[None]:
    """Prometheus and Alertmanager with the shipped rules and routes at the pace of tests."""
    targets = Targets(faster=FASTER, webhook_url=hook)
    made = files(targets)
    write({name: text for name, text in made.items() if "rules/" in name}, folder)
    scraped = [f"127.0.0.1:{ports['metrics']}"]
    renaming = {
        "source_labels": ["__name__"],
        "regex": RENAMED_METRIC,
        "target_label": "__name__",
        "replacement": "renamed",
    }
    config = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(folder / "prometheus" / "rules" / "*.yml")],
        "alerting": {
            "alertmanagers": [
                {"static_configs": [{"targets": [f"127.0.0.1:{ports['alertmanager']}"]}]}
            ]
        },
        "scrape_configs": [
            {"job_name": JOB, "static_configs": [{"targets": scraped}]},
            {
                "job_name": RENAMED,
                "static_configs": [{"targets": scraped}],
                "metric_relabel_configs": [renaming],
            },
            {
                "job_name": "openviking",
                "static_configs": [{"targets": [f"127.0.0.1:{ports['server']}"]}],
            },
        ],
    }
    write(
        {
            "prometheus.yml": in_yaml(config),
            "alertmanager.yml": in_yaml(alertmanager(targets)),
        },
        folder,
    )
    prometheus = Tied(
        [
            "prometheus",
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{ports['prometheus']}",
            "--enable-feature=exemplar-storage",
        ]
    )
    manager = Tied(
        [
            "prometheus-alertmanager",
            f"--config.file={folder / 'alertmanager.yml'}",
            f"--storage.path={folder / 'alerts'}",
            f"--web.listen-address=127.0.0.1:{ports['alertmanager']}",
            "--cluster.listen-address=",
        ]
    )
    with prometheus, manager:
        wait_for(f"http://127.0.0.1:{ports['prometheus']}/-/ready", prometheus)
        wait_for(f"http://127.0.0.1:{ports['alertmanager']}/-/ready", manager)
        yield


def wait_for(url: str, process: Any) -> None:
    end_s = time.monotonic() + UP_S
    while time.monotonic() < end_s:
        try:
            if httpx.get(url, timeout=2.0, trust_env=False).is_success:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    raise RuntimeError(f"{url} does not answer ({process})")


@contextmanager
def webhook(run: Run) -> Iterator[str]:
    """Where Alertmanager sends to."""

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            run.notices.append(Notice(time.time(), json.loads(body)["alerts"]))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    listening = HTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listening.server_port}/"
    finally:
        listening.shutdown()
        listening.server_close()


# -- what is broken ---------------------------------------------------------------------------


@contextmanager
def flapping(link: Link) -> Iterator[None]:
    """Every connection is reset for half a second, then is well for one."""
    ended = threading.Event()

    def flap() -> None:
        while not ended.is_set():
            with link.toxic(ResetPeer()):
                ended.wait(0.3)
            ended.wait(0.9)

    thread = threading.Thread(target=flap)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def replaced(path: Path, text: str) -> Iterator[None]:
    before = path.read_text()
    path.write_text(text)
    try:
        yield
    finally:
        path.write_text(before)


@contextmanager
def full_disk(pid: int) -> Iterator[None]:
    """No file of the process can grow, as on a full disk."""
    _, hard = before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


@contextmanager
def switched(storage: Path) -> Iterator[None]:
    switch(storage, "retries_off")
    try:
        yield
    finally:
        switch(storage, "normal")


def switch(storage: Path, mode: str) -> None:
    program = Path(sys.executable).with_name("resilient-ov")
    command = [str(program), "switch", "all", mode, "--storage", str(storage)]
    subprocess.run(command, check=True, capture_output=True)


@contextmanager
def lateness() -> Iterator[Callable[[], float]]:
    """Sum of how late a thread wakes that only sleeps."""
    ended = threading.Event()
    lost = [0.0]

    def sleep() -> None:
        while not ended.is_set():
            before = time.monotonic()
            time.sleep(0.1)
            lost[0] += max(0.0, time.monotonic() - before - 0.11)

    thread = threading.Thread(target=sleep)
    thread.start()
    try:
        yield lambda: lost[0]
    finally:
        ended.set()
        thread.join()
