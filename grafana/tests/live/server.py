"""``python server.py PORT FOLDER KEY``: the embedded server, with the real server's metrics page.

The page has the names and labels of a recorded OpenViking 0.5.2, as far as dashboards ask for
them; a test compares. Ends with its input.
"""

import os
import re
import sys
import threading
import time
from pathlib import Path
from typing import Any

import uvicorn
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from resilient_ov.embedded.app import create_app
from resilient_ov.embedded.settings import EmbeddedSettings

WHO = {"account_id": "__unknown__"}
EDGES = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
IDS = (
    (re.compile(r"(/api/v1/sessions/)[^/]+"), r"\1{session_id}"),
    (re.compile(r"(/api/v1/tasks/)[^/]+"), r"\1{task_id}"),
)


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        asked = ["account_id", "method", "route", "status"]
        self.count = Counter(
            "openviking_http_requests_total", "Requests.", asked, registry=self.registry
        )
        self.took = Histogram(
            "openviking_http_request_duration_seconds",
            "Time.",
            asked,
            registry=self.registry,
            buckets=EDGES,
        )
        self.inside = Gauge(
            "openviking_http_inflight_requests",
            "Inside.",
            ["account_id", "route"],
            registry=self.registry,
        )
        ready = Gauge("openviking_service_readiness", "Ready.", ["valid"], registry=self.registry)
        ready.labels("1").set(1)
        queue = Gauge("openviking_queue_pending", "Waiting.", ["queue"], registry=self.registry)
        for name in ("SessionCommit", "Embedding"):
            queue.labels(name).set(0)


def route(path: str) -> str:
    for pattern, template in IDS:
        path = pattern.sub(template, path)
    return path


class Measured:
    def __init__(self, inner: Any, metrics: Metrics) -> None:
        self.inner = inner
        self.metrics = metrics

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.inner(scope, receive, send)
        elif scope["path"] == "/metrics":
            await self.show(send)
        else:
            await self.measure(scope, receive, send)

    async def show(self, send: Any) -> None:
        headers = [(b"content-type", b"text/plain; version=0.0.4")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": generate_latest(self.metrics.registry)})

    async def measure(self, scope: Any, receive: Any, send: Any) -> None:
        told = {"status": "500"}

        async def noting(message: Any) -> None:
            if message["type"] == "http.response.start":
                told["status"] = str(message["status"])
            await send(message)

        path = route(scope["path"])
        began_s = time.monotonic()
        with self.metrics.inside.labels(WHO["account_id"], path).track_inprogress():
            await self.inner(scope, receive, noting)
        labels = (WHO["account_id"], scope["method"], path, told["status"])
        self.metrics.count.labels(*labels).inc()
        self.metrics.took.labels(*labels).observe(time.monotonic() - began_s)


def end_with_input() -> None:
    sys.stdin.read()
    os._exit(0)


def main() -> None:
    port, folder, key = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    app = create_app(EmbeddedSettings(data_dir=folder, root_key=key))
    threading.Thread(target=end_with_input, daemon=True).start()
    uvicorn.run(
        Measured(app, Metrics()),
        host="127.0.0.1",
        port=port,
        timeout_keep_alive=5,
        ws="none",
        log_level="warning",
    )


if __name__ == "__main__":
    main()
