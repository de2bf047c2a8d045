"""Finds or provides a Toxiproxy server: a given address, docker, or the binary.

Rule: only what was started here is ended here. A binary is built once, with its pinned version,
into a folder git ignores; nothing else is installed.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from resilient_ov_chaos.processes import Tied, free_port
from resilient_ov_chaos.toxiproxy.link import Toxiproxy, ToxiproxyError

VERSION = "2.12.0"
IMAGE = f"ghcr.io/shopify/toxiproxy:{VERSION}"
MODULE = f"github.com/Shopify/toxiproxy/v2/cmd/server@v{VERSION}"
BINARY = "toxiproxy-server"
URL_VARIABLE = "TOXIPROXY_URL"

_UP_S = 15.0
_BUILD_S = 600.0
_PULL_S = 300.0

Say = Callable[[str], None]


class ToolMissingError(Exception):
    """A tool that the suite needs is not to be had; the text says what would provide it."""


@contextmanager
def toxiproxy(url: str | None = None, *, say: Say = print) -> Generator[Toxiproxy]:
    """Give a Toxiproxy server that answers; one that is started here ends with the block.

    Args:
        url: its API, else the environment's ``TOXIPROXY_URL``; then nothing is started.
        say: takes one line about what is used and why.

    Raises:
        ToolMissingError: none is given and none can be started.
        ToxiproxyError: the given one does not answer.

    """
    given = url or os.environ.get(URL_VARIABLE)
    if given:
        server = Toxiproxy(given)
        say(f"Toxiproxy {server.version()} at {server.url}")
        try:
            yield server
        finally:
            server.close()
        return
    with _started(say) as server:
        try:
            yield server
        finally:
            server.close()


@contextmanager
def _started(say: Say) -> Generator[Toxiproxy]:
    port = free_port()
    if docker_engine_runs():
        say(f"Toxiproxy {VERSION} in docker ({IMAGE})")
        with _in_docker(port) as server:
            yield server
        return
    binary = find_binary() or build_binary(say)
    say(f"Toxiproxy from {binary.name} {VERSION}")
    with Tied([str(binary), "-host", "127.0.0.1", "-port", str(port)]) as process:
        yield _answering(port, process.alive)


@contextmanager
def _in_docker(port: int) -> Generator[Toxiproxy]:
    name = f"resilient-ov-toxiproxy-{os.getpid()}-{port}"
    # The host's own network: proxies listen on loopback and reach servers on loopback.
    command = ["docker", "run", "--rm", "--detach", "--network", "host", "--name", name, IMAGE]
    command += ["-host=127.0.0.1", f"-port={port}"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=_PULL_S, check=False)
    if run.returncode:
        raise ToolMissingError(f"docker could not run {IMAGE}: {run.stderr.strip()[:300]}")
    try:
        yield _answering(port, lambda: True)
    finally:
        subprocess.run(["docker", "kill", name], capture_output=True, timeout=60, check=False)


def docker_engine_runs() -> bool:
    """Tell whether there is a docker client with an engine behind it."""
    if shutil.which("docker") is None:
        return False
    with suppress(subprocess.TimeoutExpired):
        asked = subprocess.run(["docker", "info"], capture_output=True, timeout=10, check=False)
        return asked.returncode == 0
    return False


def find_binary() -> Path | None:
    """Return the server's binary from PATH or from the tools folder."""
    found = shutil.which(BINARY)
    if found:
        return Path(found)
    kept = tools_folder() / BINARY
    return kept if os.access(kept, os.X_OK) else None


def build_binary(say: Say) -> Path:
    """Build the pinned server with Go into the tools folder.

    Raises:
        ToolMissingError: Go is missing or the build failed; the text says what to do.

    """
    folder = tools_folder()
    command = f"GOBIN={folder} go install {MODULE} && mv {folder}/server {folder}/{BINARY}"
    if shutil.which("go") is None:
        raise ToolMissingError(
            f"{BINARY} is missing: the faults of the network need it. Start one yourself"
            f" (docker run --rm --network host {IMAGE}) and set {URL_VARIABLE}, or install Go"
            f" and run: {command}"
        )
    say(f"building Toxiproxy {VERSION} once into {folder.name} (it breaks the network here)")
    folder.mkdir(parents=True, exist_ok=True)
    # Two builds at once must not see each other's half-written file.
    with _scratch(folder) as scratch:
        run = subprocess.run(
            ["go", "install", MODULE],
            env={**os.environ, "GOBIN": str(scratch)},
            capture_output=True,
            text=True,
            timeout=_BUILD_S,
            check=False,
        )
        if run.returncode or not (scratch / "server").exists():
            raise ToolMissingError(
                f"{BINARY} could not be built ({run.stderr.strip()[-300:]}); it comes with:"
                f" {command}"
            )
        (scratch / "server").replace(folder / BINARY)
    return folder / BINARY


def tools_folder() -> Path:
    """Return where built tools are kept: the checkout's ``.tools``, else the user's cache."""
    checkout = Path(__file__).resolve().parents[3]
    if (checkout / "pyproject.toml").is_file():
        return checkout / ".tools"
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "resilient-ov" / "tools"


@contextmanager
def _scratch(folder: Path) -> Generator[Path]:
    made = folder / f"build-{os.getpid()}"
    made.mkdir()
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _answering(port: int, alive: Callable[[], bool]) -> Toxiproxy:
    server = Toxiproxy(f"http://127.0.0.1:{port}")
    end_s = time.monotonic() + _UP_S
    while True:
        try:
            server.version()
        except ToxiproxyError:
            if time.monotonic() > end_s or not alive():
                server.close()
                raise
            time.sleep(0.05)
        else:
            return server
