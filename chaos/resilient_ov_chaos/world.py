"""What a fault may break: the network, the server, the product's processes, its key, its disk.

Rule: everything that is broken here is mended here, also when the run is interrupted.
"""

import os
import resource
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from resilient_ov.testing.script import Rule
from resilient_ov.testing.scripted_server import ScriptedServer
from resilient_ov_chaos.client_process import ClientProcess
from resilient_ov_chaos.history import Mended, Record, Trouble
from resilient_ov_chaos.knobs import Knobs
from resilient_ov_chaos.marks import ANSWER_CANARY
from resilient_ov_chaos.stray import swallowing_port
from resilient_ov_chaos.targets.target import Ability, Target
from resilient_ov_chaos.toxiproxy.link import Link


class World:
    """The surroundings of one scenario.

    Attributes:
        target: the server.
        link: the network in front of it.
        knobs: the pace.
        key_file: where the product reads its key.
        clients: processes of the product that are alive, the gateway first.

    """

    def __init__(
        self,
        *,
        target: Target,
        link: Link,
        knobs: Knobs,
        key_file: Path,
        clients: list[ClientProcess],
        take: Callable[[Record], None],
        restart_gateway: Callable[[], None],
    ) -> None:
        self.target = target
        self.link = link
        self.knobs = knobs
        self.key_file = key_file
        self.clients = clients
        self._take = take
        self._restart_gateway = restart_gateway
        self._on_begin: Callable[[], None] = lambda: None
        self._before_end: Callable[[], None] = lambda: None

    @property
    def gateway(self) -> ClientProcess:
        """The process whose traffic goes on."""
        return self.clients[0]

    def at_begin(self, then: Callable[[], None]) -> None:
        """Have something done as soon as the trouble begins."""
        self._on_begin = then

    def before_end(self, wait: Callable[[], None]) -> None:
        """Let the trouble last until something has happened, however long the machine takes."""
        self._before_end = wait

    @contextmanager
    def trouble(self, *broken: AbstractContextManager[object]) -> Generator[None]:
        """Have trouble for the time of a block, with these things broken."""
        with ExitStack() as held:
            for each in broken:
                held.enter_context(each)
            self._take(Trouble(at_s=time.monotonic(), on=True))
            self._on_begin()
            yield
            self._before_end()
            self._take(Trouble(at_s=time.monotonic(), on=False))
        self._take(Mended(at_s=time.monotonic()))

    def broken(self, *things: AbstractContextManager[object]) -> None:
        """Have trouble for the whole fault window, with these things broken."""
        with self.trouble(*things):
            self.wait(self.knobs.fault_s)

    def wait(self, seconds: float) -> None:
        """Let time go by."""
        time.sleep(seconds)

    # -- what can be broken -----------------------------------------------------------------

    @contextmanager
    def server(self, ability: Ability) -> Generator[None]:
        """Do something to the server for the time of a block."""
        self.target.do(ability, on=True)
        try:
            yield
        finally:
            self.target.do(ability, on=False)

    @contextmanager
    def page(self, status: int, body: bytes, **headers: str) -> Generator[None]:
        """Have a gateway before the server answer everything itself."""
        told = {name.replace("_", "-"): value for name, value in headers.items()}
        told["X-Gateway"] = ANSWER_CANARY
        body = b"%s\n%s\n" % (body, ANSWER_CANARY.encode())
        answer = Rule(on="any", do="raw", code=status, body=body, headers=told)
        with (
            ScriptedServer(answer) as gateway,
            self.link.pointed_to(f"127.0.0.1:{gateway.port}"),
        ):
            yield

    @contextmanager
    def blackhole(self) -> Generator[None]:
        """Let connection attempts vanish without an answer."""
        with self.link.down(), swallowing_port(self.link.port):
            yield

    @contextmanager
    def wrong_key(self) -> Generator[None]:
        """Give the product a key that the server does not know."""
        right = self.key_file.read_text(encoding="utf-8")
        _replace(self.key_file, "not-the-right-key-0000")
        try:
            yield
        finally:
            _replace(self.key_file, right)

    @contextmanager
    def full_disk(self) -> Generator[None]:
        """Let every write that makes a file longer fail in the product's processes.

        As on a full disk, creating an empty file and renaming still work. The limit is set from
        outside (RLIMIT_FSIZE), so the machine's disk is not touched.
        """
        limited = list(self.clients)
        before = [resource.prlimit(each.pid, resource.RLIMIT_FSIZE) for each in limited]
        for each, (_, hard) in zip(limited, before, strict=True):
            resource.prlimit(each.pid, resource.RLIMIT_FSIZE, (0, hard))
        try:
            yield
        finally:
            for each, was in zip(limited, before, strict=True):
                if each.alive:
                    resource.prlimit(each.pid, resource.RLIMIT_FSIZE, was)

    @contextmanager
    def stopped_gateway(self) -> Generator[None]:
        """Freeze the product itself."""
        self.gateway.stop()
        try:
            yield
        finally:
            self.gateway.go_on()

    def kill_gateway(self) -> None:
        """Kill the product with SIGKILL and start it again, as its supervisor does."""
        self.gateway.kill()
        self._restart_gateway()

    def step_wall_clock(self, by_s: float) -> None:
        """Set the wall clock of the product's process."""
        self.gateway.tell(f"clock {by_s}", 10.0)


def _replace(path: Path, text: str) -> None:
    """Replace a file as key managers do: a new file under the old name."""
    fresh = path.with_suffix(".new")
    fresh.write_text(text, encoding="utf-8")
    fresh.chmod(0o600)
    os.replace(fresh, path)
