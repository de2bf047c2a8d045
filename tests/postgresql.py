"""A real PostgreSQL for tests: one server per test run, one schema per test.

Rule: started as an ordinary user (initdb refuses root) in a folder and on a port of its own, ended
by its process id. Nothing outside is touched.
"""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import psycopg

from resilient_ov.adapters.postgresql_database import Database, Dsn
from resilient_ov.adapters.postgresql_schema import grants, migrate

MISSING = "PostgreSQL's server programs are not here; `make services` installs them"
_ACCOUNTS = ("postgres", "nobody")


def programs() -> Path | None:
    """Return the folder of `initdb` and `postgres`, the newest there is."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).parent
    versions = list(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    newest = sorted(versions, key=lambda path: int(path.parts[-3]))[-1:]
    return newest[0].parent if newest else None


@dataclass
class Schema:
    """One place of state: its owner's address, and that of a gateway with the least rights."""

    name: str
    owner: str
    gateway: str


@dataclass
class Server:
    """A server of our own; `start` after `kill` recovers as after a crash."""

    folder: Path
    bin: Path
    port: int
    password: str = field(default_factory=lambda: secrets.token_hex(8))
    process: "subprocess.Popen[bytes] | None" = None

    @classmethod
    def made(cls, bin_folder: Path) -> "Server":
        server = cls(folder=Path(tempfile.mkdtemp(prefix="rov-pg-")), bin=bin_folder, port=_port())
        secret = server.folder / "password"
        secret.write_text(server.password)
        if os.geteuid() == 0:
            for path in (server.folder, secret):
                shutil.chown(path, _account(), None)
        server._run("initdb", "-D", str(server.data), "-U", "root_role", "--no-sync",
                    "-A", "scram-sha-256", f"--pwfile={secret}", "--no-instructions")  # fmt: skip
        server.start()
        server.admin("CREATE ROLE gateway LOGIN PASSWORD 'gateway-secret'")
        return server

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def start(self) -> None:
        options = (
            f"-p{self.port}", "-h127.0.0.1", "-k", str(self.folder), "-D", str(self.data),
            "-c", "fsync=on", "-c", "shared_buffers=16MB", "-c", "max_connections=60",
            "-c", "log_min_messages=fatal",
        )  # fmt: skip
        self.process = subprocess.Popen(
            [*_as_ordinary_user(), str(self.bin / "postgres"), *options],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            cwd=self.folder, start_new_session=True,
        )  # fmt: skip
        end_s = time.monotonic() + 30
        while True:
            try:
                psycopg.connect(self.dsn(), connect_timeout=2).close()
            except psycopg.OperationalError:
                if time.monotonic() > end_s or self.process.poll() is not None:
                    raise
                time.sleep(0.02)
            else:
                return

    def kill(self) -> None:
        """End it as a power cut would: every process of it at once."""
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(10)

    def freeze(self) -> None:
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGSTOP)
        for pid in self.backends():
            os.kill(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        assert self.process is not None
        for pid in self.backends():
            os.kill(pid, signal.SIGCONT)
        os.killpg(self.process.pid, signal.SIGCONT)

    def backends(self) -> list[int]:
        """Return the processes below the server's first one; each is a session of its own."""
        assert self.process is not None
        tasks = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(pid) for pid in tasks.split()]

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def dsn(self, user: str = "root_role", schema: str | None = None) -> str:
        password = self.password if user == "root_role" else "gateway-secret"
        options = "" if schema is None else f"?options={quote(f'-csearch_path={schema}')}"
        return f"postgresql://{user}:{password}@127.0.0.1:{self.port}/postgres{options}"

    def admin(self, statement: str, schema: str | None = None) -> list[tuple[object, ...]]:
        with psycopg.connect(self.dsn(schema=schema), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description is not None else []

    def schema(self, *, migrated: bool = True) -> Schema:
        """Make a place of its own; a gateway has the documented rights there and no other."""
        name = f"t_{secrets.token_hex(6)}"
        self.admin(f"CREATE SCHEMA {name}; GRANT USAGE ON SCHEMA {name} TO gateway")
        made = Schema(name, self.dsn(schema=name), self.dsn("gateway", name))
        if migrated:
            database = Database(Dsn(made.owner), limit_s=10)
            migrate(database)
            database.close()
            self.admin(grants("gateway"), schema=name)
        return made

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [*_as_ordinary_user(), str(self.bin / program), *arguments],
            check=True, cwd=self.folder, stdout=subprocess.DEVNULL,
        )  # fmt: skip


def _account() -> str:
    import pwd

    names = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in _ACCOUNTS if name in names)


def _as_ordinary_user() -> list[str]:
    if os.geteuid() != 0:
        return []
    return ["setpriv", f"--reuid={_account()}", "--clear-groups"]


def _port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
