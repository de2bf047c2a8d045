"""The metrics page: what a scrape gets, for a mounted app or our own exporter.

I/O: in multiprocess mode each scrape reads the shared files and removes the live gauges of
processes that have ended.
"""

import asyncio
import contextlib
import os
import re
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from resilient_ov_observability.metric_set import is_multiprocess, shared_metric_set
from resilient_ov_observability.optional import optional

T = TypeVar("T")
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Asgi = Callable[[Scope, Receive, Send], Awaitable[None]]
Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

_NO_LIBRARY: Final = b"# prometheus_client is not installed or does not work\n"
_LIVE_GAUGES: Final = re.compile(r"gauge_live[a-z]+_(\d+)\.db")


class ScrapedRegistry:
    """What a scrape reads: the registry itself, or all processes put together.

    Has the two methods the client library's apps need from a registry.
    """

    def __init__(self, registry: Any = None) -> None:
        self._set = shared_metric_set(registry)
        self._registry = registry

    def collect(self) -> Iterator[Any]:
        """Yield every metric with its samples."""
        yield from self._place().collect()

    def restricted_registry(self, names: Iterable[str]) -> Any:
        """Return a registry that shows only samples of these names."""
        return self._place().restricted_registry(names)

    def _place(self) -> Any:
        library = _library()
        if not is_multiprocess():
            return library.REGISTRY if self._registry is None else self._registry
        if self._set is not None:
            self._set.store.settle()
        mark_dead_processes(multiprocess_dir())
        return _Merged(_multiprocess().MultiProcessCollector(None))


class _Merged:
    """All processes put together, as a registry."""

    def __init__(self, collector: Any, names: frozenset[str] | None = None) -> None:
        self._collector = collector
        self._names = names

    def collect(self) -> Iterator[Any]:
        for metric in self._collector.collect():
            if self._names is not None:
                # Made anew for each scrape, so it can be cut down in place.
                metric.samples = [s for s in metric.samples if s.name in self._names]
            if metric.samples:
                yield metric

    def restricted_registry(self, names: Iterable[str]) -> "_Merged":
        return _Merged(self._collector, frozenset(names))


def multiprocess_dir() -> Path:
    """Return where the processes share their values."""
    return Path(os.environ["PROMETHEUS_MULTIPROC_DIR"])


def mark_dead_processes(folder: Path) -> tuple[int, ...]:
    """Remove the live gauges of processes that have ended; return their process ids.

    A killed worker cannot do this itself, and its last "breaker open" would stand for ever. Its
    counters stay: what it counted has happened.
    """
    found = {
        int(match[1]) for entry in folder.iterdir() if (match := _LIVE_GAUGES.fullmatch(entry.name))
    }
    dead = tuple(sorted(pid for pid in found if not _lives(pid)))
    for pid in dead:
        # Another scrape may have been faster, or the files are not ours to remove.
        with contextlib.suppress(OSError):
            _multiprocess().mark_process_dead(pid, str(folder))
    return dead


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    # A killed worker whose parent has not looked yet still answers to its id.
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2][:1] not in (b"Z", b"X")
    return True


def metrics_page(registry: Any = None) -> bytes:
    """Return the page in the plain text format."""
    library = optional("prometheus_client")
    if library is None:
        return _NO_LIBRARY
    page: bytes = library.generate_latest(ScrapedRegistry(registry))
    return page


def metrics_wsgi_app(registry: Any = None) -> Wsgi:
    """Return a WSGI app with the metrics page; 503 and the reason when there is no page."""
    library = optional("prometheus_client")
    page: Wsgi | None = None
    if library is not None:
        page = library.make_wsgi_app(ScrapedRegistry(registry))

    def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        why = _NO_LIBRARY
        if page is not None:
            try:
                return page(environ, start_response)
            except Exception as error:  # noqa: BLE001 - a scrape's trouble is told to the scraper
                why = f"# the metrics cannot be read: {type(error).__name__}\n".encode()
        start_response("503 Service Unavailable", [("Content-Type", "text/plain; charset=utf-8")])
        return [why]

    return app


def metrics_asgi_app(registry: Any = None) -> Asgi:
    """Return an ASGI app with the metrics page, to be mounted by a host.

    The page is made on a thread of its own: it takes milliseconds, and in multiprocess mode it
    reads files.
    """
    app = metrics_wsgi_app(registry)

    async def scraped(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        await receive()
        status, headers, body = await _on_a_thread(lambda: _call(app, scope))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return scraped


def _call(app: Wsgi, scope: Scope) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Ask the WSGI app for what an ASGI scope asks for."""
    sent = {
        name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]
    }
    environ = {
        "REQUEST_METHOD": scope["method"],
        "PATH_INFO": scope.get("path", ""),
        "QUERY_STRING": scope.get("query_string", b"").decode("latin-1"),
        "HTTP_ACCEPT": sent.get("accept", ""),
        "HTTP_ACCEPT_ENCODING": sent.get("accept-encoding", ""),
    }
    started: list[tuple[str, list[tuple[str, str]]]] = []

    def start(status: str, headers: list[tuple[str, str]]) -> None:
        started.append((status, headers))

    body = b"".join(app(environ, start))
    status, headers = started[-1]
    encoded = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    return int(status.split(" ")[0]), encoded, body


async def _on_a_thread(work: Callable[[], T]) -> T:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if future.cancelled():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(cast("T", result))

    def run() -> None:
        result, failure = None, None
        try:
            result = work()
        except Exception as error:  # noqa: BLE001 - handed to the awaiting side
            failure = error
        # The loop may be gone when the page is ready; then nobody waits for it.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, result, failure)

    threading.Thread(target=run, name="resilient-ov-scrape", daemon=True).start()
    return await future


def _library() -> Any:
    return optional("prometheus_client")


def _multiprocess() -> Any:
    return optional("prometheus_client.multiprocess")
