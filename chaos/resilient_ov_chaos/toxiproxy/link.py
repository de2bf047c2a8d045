"""The network between client and server, broken on command: ``toxiproxy-python`` made safe.

Rule: every toxic that a ``with`` sets is gone after it, and that is looked at, not believed. The
library's known faults are healed here: one address for all servers of a process, no time limits,
statuses above 409 passing as success, wrong error classes, no change of a toxic, ``down()`` that
forgets what was before.
"""

import importlib
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx

from resilient_ov_chaos.toxiproxy.toxics import Toxic

# Untyped, and its modules find each other through globals; both end in this file.
_library: Any = importlib.import_module("toxiproxy")
_api: Any = importlib.import_module("toxiproxy.api")
_BORROWED = threading.RLock()

TIMEOUT_S = 5.0


class ToxiproxyError(Exception):
    """The Toxiproxy server refused, failed or could not be reached.

    ``status`` is its HTTP status, None when it was not reached in time.
    """

    def __init__(self, problem: str, status: int | None = None) -> None:
        super().__init__(problem)
        self.status = status


class ToxicNotRemovedError(ToxiproxyError):
    """A toxic is still there although its removal was answered; the network cannot be trusted."""


class Toxiproxy:
    """One Toxiproxy server. Safe from many threads; several servers may be used side by side.

    Args:
        url: address of its API, such as ``http://127.0.0.1:8474``.
        timeout_s: how long one API request may take.

    """

    def __init__(self, url: str, *, timeout_s: float = TIMEOUT_S) -> None:
        parts = urlsplit(url if "//" in url else f"http://{url}")
        if parts.scheme != "http" or not parts.hostname:
            raise ValueError("Toxiproxy's address must look like http://127.0.0.1:8474")
        self.host = parts.hostname
        self.port = parts.port or 8474
        self._http = _CheckedHttp(timeout_s)

    @property
    def url(self) -> str:
        """The API's address."""
        return f"http://{self.host}:{self.port}"

    def version(self) -> str:
        """Return what the server says of itself; ``git`` when it was built from source.

        Raises:
            ToxiproxyError: it does not answer.

        """
        return str(self._http.get(f"{self.url}/version").json()["version"])

    def link(self, name: str, *, upstream: str, listen: str = "127.0.0.1:0") -> "Link":
        """Make a proxy, in place of one with the same name, and return the link through it.

        Args:
            name: unique on the server.
            upstream: ``host:port`` of the real server, as the Toxiproxy server reaches it.
            listen: ``host:port`` where clients connect; port 0 takes a free one.

        Raises:
            ToxiproxyError: the port is taken, for example.

        """
        return Link(self, self.made(name, upstream=upstream, listen=listen))

    def made(self, name: str, *, upstream: str, listen: str) -> Any:
        """Make a proxy, in place of one with the same name.

        Raises:
            ToxiproxyError: the port is taken, for example.

        """
        with self.borrowed() as library:
            try:
                return library.Toxiproxy().create(upstream, name, listen=listen, enabled=True)
            except _api.ProxyExists:
                library.Toxiproxy().get_proxy(name).destroy()
                return library.Toxiproxy().create(upstream, name, listen=listen, enabled=True)

    def link_names(self) -> list[str]:
        """Return the names of all proxies of the server, sorted."""
        with self.borrowed() as library:
            return sorted(library.Toxiproxy().proxies())

    def close(self) -> None:
        """Close the API connection; proxies stay."""
        self._http.close()

    @contextmanager
    def borrowed(self) -> Generator[Any]:
        """Use the library against this server, with time limits and with errors as errors."""
        with _BORROWED:
            consumer = _api.APIConsumer
            before = consumer.host, consumer.port, _api.requests
            consumer.host, consumer.port, _api.requests = self.host, self.port, self._http
            try:
                yield _library
            finally:
                consumer.host, consumer.port, _api.requests = before

    def patch(self, path: str, body: dict[str, object]) -> Any:
        """Change something; the library knows no PATCH."""
        return self._http.patch(f"{self.url}{path}", json=body).json()

    def read(self, path: str) -> Any:
        """Read something that the library would not show whole."""
        return self._http.get(f"{self.url}{path}").json()


class Link:
    """The way from clients to one server, through one proxy. Not thread-safe."""

    def __init__(self, server: Toxiproxy, proxy: Any) -> None:
        self._server = server
        self._proxy = proxy
        self.name: str = proxy.name

    @property
    def port(self) -> int:
        """Port where clients connect; it stays the same for the link's life."""
        return int(str(self._proxy.listen).rpartition(":")[2])

    @property
    def url(self) -> str:
        """Base URL for clients."""
        return f"http://{self._server.host}:{self.port}"

    @property
    def enabled(self) -> bool:
        """Whether the proxy accepts connections, as the server says now."""
        return bool(self._read()["enabled"])

    @property
    def upstream(self) -> str:
        """``host:port`` of what is behind, as the server says now."""
        return str(self._read()["upstream"])

    def toxics(self) -> dict[str, dict[str, Any]]:
        """Return what is set now: name -> what the server says of it."""
        with self._server.borrowed():
            return {name: vars(found) for name, found in self._proxy.toxics().items()}

    @contextmanager
    def toxic(self, *toxics: Toxic) -> Generator[None]:
        """Set toxics for the time of a block; connections that are open are hit too.

        Those that hold data are removed with the whole proxy, all connections and all other
        toxics; a new one takes its place.

        Raises:
            ToxiproxyError: one was not accepted; those before it are removed again.
            ToxicNotRemovedError: one is still there afterwards.

        """
        added: list[Toxic] = []
        try:
            for each in toxics:
                self._add(each)
                added.append(each)
            yield
        finally:
            if any(each.holds for each in added):
                self._renew()
            else:
                self._remove(added)

    def change(self, toxic: Toxic) -> None:
        """Give the toxic of the same kind and stream other attributes, live connections included.

        Raises:
            ToxiproxyError: there is none.

        """
        said = self._server.patch(
            f"/proxies/{self.name}/toxics/{toxic.name}",
            {"toxicity": toxic.toxicity, "attributes": toxic.attributes()},
        )
        self._check(toxic, said)

    @contextmanager
    def down(self) -> Generator[None]:
        """Refuse connections, and cut those there are, for the time of a block."""
        before = self.enabled
        self.enable(on=False)
        try:
            yield
        finally:
            self.enable(on=before)

    def enable(self, *, on: bool) -> None:
        """Accept connections, or refuse them and cut those there are."""
        with self._server.borrowed():
            self._proxy.enable() if on else self._proxy.disable()
        if self.enabled is not on:
            raise ToxiproxyError(f"{self.name}: enabled is not {on} although that was answered")

    @contextmanager
    def pointed_to(self, upstream: str) -> Generator[None]:
        """Lead somewhere else for the time of a block; connections are cut at both ends."""
        before = self.upstream
        self._point(upstream)
        try:
            yield
        finally:
            self._point(before)

    def remove(self) -> None:
        """Delete the proxy; open connections are cut. Nothing happens when it is gone."""
        with self._server.borrowed():
            try:
                self._proxy.destroy()
            except _api.NotFound:
                return

    def _read(self) -> Any:
        return self._server.read(f"/proxies/{self.name}")

    def _point(self, upstream: str) -> None:
        self._server.patch(f"/proxies/{self.name}", {"upstream": upstream, "enabled": True})
        if self.upstream != upstream:
            raise ToxiproxyError(f"{self.name}: still leads elsewhere although that was answered")

    def _add(self, toxic: Toxic) -> None:
        with self._server.borrowed():
            self._proxy.add_toxic(
                type=toxic.kind,
                name=toxic.name,
                stream=toxic.stream.value,
                toxicity=toxic.toxicity,
                attributes=toxic.attributes(),
            )
        self._check(toxic, self.toxics().get(toxic.name, {}))

    def _check(self, toxic: Toxic, said: dict[str, Any]) -> None:
        attributes = said.get("attributes", {})
        if any(attributes.get(key) != value for key, value in toxic.attributes().items()):
            raise ToxiproxyError(f"{toxic.name}: the server says {said} although that was answered")

    def _renew(self) -> None:
        listen, upstream = str(self._proxy.listen), self.upstream
        self._proxy = self._server.made(self.name, upstream=upstream, listen=listen)
        if left := self.toxics():
            raise ToxicNotRemovedError(f"{self.name}: still there: {', '.join(sorted(left))}")

    def _remove(self, toxics: list[Toxic]) -> None:
        with self._server.borrowed():
            for each in toxics:
                try:
                    self._proxy.destroy_toxic(each.name)
                except _api.NotFound:
                    continue
        left = {each.name for each in toxics} & set(self.toxics())
        if left:
            raise ToxicNotRemovedError(f"{self.name}: still there: {', '.join(sorted(left))}")


class _CheckedHttp:
    """What the library takes for ``requests``: time limits, no proxies, errors raised here.

    A 404 and the 409 of an existing proxy stay the library's, because it names those rightly.
    """

    def __init__(self, timeout_s: float) -> None:
        self._client = httpx.Client(timeout=timeout_s, trust_env=False)

    def get(self, url: str, **rest: Any) -> httpx.Response:
        return self._checked("GET", url, **rest)

    def post(self, url: str, **rest: Any) -> httpx.Response:
        return self._checked("POST", url, **rest)

    def patch(self, url: str, **rest: Any) -> httpx.Response:
        return self._checked("PATCH", url, **rest)

    def delete(self, url: str, **rest: Any) -> httpx.Response:
        return self._checked("DELETE", url, **rest)

    def close(self) -> None:
        self._client.close()

    def _checked(self, method: str, url: str, **rest: Any) -> httpx.Response:
        try:
            response = self._client.request(method, url, **rest)
        except httpx.TransportError as error:
            raise ToxiproxyError(
                f"Toxiproxy does not answer {method} {urlsplit(url).path}: {type(error).__name__}"
            ) from error
        path = urlsplit(url).path
        known = response.status_code == 404 and method == "DELETE"
        known = known or (response.status_code == 409 and path == "/proxies")
        if response.is_error and not known:
            raise ToxiproxyError(
                f"Toxiproxy answered {response.status_code} to {method} {path}:"
                f" {response.text.strip()[:200]}",
                response.status_code,
            )
        return response
