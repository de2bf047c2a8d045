"""TLS contexts from the settings: whom to trust, and the client certificate.

Rule: verification is always on. Files are read at first use and again only after a handshake
failed, on own threads and within the caller's time.
"""

import ssl
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

from resilient_ov.adapters.forked import renew_after_fork
from resilient_ov.adapters.offload import Offload, arrival
from resilient_ov.settings import TlsSettings

_Marks = tuple[tuple[int, ...] | None, ...]


class TlsFilesError(OSError):
    """A CA bundle or client certificate cannot be used; names the setting, never the content."""


class TlsContexts:
    """Hands out the current client context; safe from any thread, loop and after ``fork``."""

    def __init__(self, settings: TlsSettings, *, now: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._now = now
        self._threads = Offload("resilient-ov-tls", slots=1)
        self._lock = threading.Lock()
        self._context: ssl.SSLContext | None = None
        self._marks: _Marks = ()
        self._suspect = False
        self._reading: Future[ssl.SSLContext] | None = None
        renew_after_fork(self)

    def renew(self) -> None:
        """Take a fresh lock; a context holds no connection and may be kept."""
        self._lock = threading.Lock()
        self._reading = None

    def context(self, until_s: float) -> ssl.SSLContext:
        """Return the context, built or re-read if need be; blocks until ``until_s``.

        Raises:
            TimeoutError: the files were not read in time.
            TlsFilesError: a file is missing or unusable, or no thread was free to read it.

        """
        ready = self._ready()
        if ready is not None:
            return ready
        reading = self._start()
        return reading.result(max(0.0, until_s - self._now()))

    async def context_async(self, until_s: float) -> ssl.SSLContext:
        """Do the same on the running loop, without blocking it."""
        ready = self._ready()
        if ready is not None:
            return ready
        reading = self._start()
        return await arrival(reading, max(0.0, until_s - self._now()))

    def handshake_failed(self) -> None:
        """Look at the files again before the next handshake: they may have been rotated."""
        self._suspect = True

    def _ready(self) -> ssl.SSLContext | None:
        return None if self._suspect else self._context

    def _start(self) -> "Future[ssl.SSLContext]":
        with self._lock:
            if self._reading is None or self._reading.done():
                self._reading = self._threads.start(self._renewed)
            if self._reading is None:
                raise TlsFilesError("no thread is free to read the TLS files")
            return self._reading

    def _renewed(self) -> ssl.SSLContext:
        marks = tuple(_marks(path) for path in self._files() if path is not None)
        context = self._context
        if context is None or marks != self._marks:
            context = self._build()
            self._context, self._marks = context, marks
        self._suspect = False
        return context

    def _files(self) -> tuple[Path | None, ...]:
        found = self._settings
        return (found.ca_file, found.client_cert_file, found.client_key_file)

    def _build(self) -> ssl.SSLContext:
        found = self._settings
        setting = "tls.ca_file"
        try:
            context = ssl.create_default_context(cafile=found.ca_file)
            context.set_alpn_protocols(["http/1.1"])
            if found.client_cert_file is not None:
                setting = "tls.client_cert_file or tls.client_key_file"
                # Without a password an encrypted key would make OpenSSL ask on the terminal.
                context.load_cert_chain(found.client_cert_file, found.client_key_file, password="")
        except (OSError, ValueError):
            raise TlsFilesError(f"{setting}: cannot be used. Mount a readable PEM file") from None
        return context


def _marks(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
