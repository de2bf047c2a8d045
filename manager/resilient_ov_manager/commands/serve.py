"""`resilient-ov serve`: the embedded OpenViking-compatible server in the foreground.

For development and tests. What would keep it from starting is found before it starts and told in
a sentence.
"""

import errno
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Annotated, Any, Never

import typer

from resilient_ov.settings import AuthMode, ServerProfile
from resilient_ov_manager.terminal import CommandError, ExitCode, err, require_extra

_DEFAULT_KEY_VARIABLE = "OPENVIKING_ROOT_KEY"


def serve(
    host: Annotated[
        str, typer.Option(help="Address to listen on; auth dev is for loopback only.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")] = 1933,
    profile: Annotated[
        ServerProfile, typer.Option(help="Server contract to speak.")
    ] = ServerProfile.V0_5,
    auth: Annotated[
        AuthMode,
        typer.Option(
            help="trusted: one key, identity headers believed. api_key: a key for each user."
            " dev: no key at all."
        ),
    ] = AuthMode.TRUSTED,
    data: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder of the database; made when missing.")
    ] = Path("openviking-data"),
    root_key_env: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="NAME of the environment variable that holds the root key."
            rf" \[default: {_DEFAULT_KEY_VARIABLE}]",
        ),
    ] = None,
) -> None:
    """Run an OpenViking-compatible server for development. NOT FOR PRODUCTION.

    It keeps what it was told in DIR, also when it is killed. It has no TLS, keeps keys in clear
    text and extracts memories by fixed rules instead of a model.

    Exit codes:

    - 0: stopped by Ctrl-C or SIGTERM
    - 2: a wrong option, or the address is taken
    - 4: the folder cannot be used
    """
    require_extra("server", "starlette", "uvicorn")
    # From here on a SIGTERM ends the process cleanly, also before the server has its own handler
    # and when that one, having stopped the server, raises the signal again.
    signal.signal(signal.SIGTERM, _leave)

    url = _url(host, port)
    root_key, key_source = _root_key(auth, root_key_env)
    _check_address(host, port, auth)
    _check_folder(data, profile)

    from resilient_ov.embedded.serve import serve as run

    _tell_start(url, profile, f"{auth.value}, {key_source}", data)
    run(host=host, port=port, data_dir=data, profile=profile, auth=auth, root_key=root_key)


def _leave(*_: object) -> Never:
    sys.exit(ExitCode.OK)


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _root_key(auth: AuthMode, variable: str | None) -> tuple[str | None, str]:
    """Return the key and, for the user, where it is from."""
    from resilient_ov.adapters.credentials import looks_like_variable

    if auth is AuthMode.DEV:
        if variable is not None:
            raise CommandError("--root-key-env: auth dev checks no key. Remove one of the two")
        return None, "no key"
    name = variable or _DEFAULT_KEY_VARIABLE
    # Somebody may have given the key itself instead of a name.
    shown = name if looks_like_variable(name) else "named by --root-key-env (name not shown)"
    key = os.environ.get(name, "").strip()
    if not key:
        raise CommandError(
            f"the environment variable {shown} is not set, and auth {auth.value} needs a root key."
            " Set it (any text will do here), name another variable with --root-key-env, or use"
            " --auth dev"
        )
    if not all("!" <= character <= "~" for character in key):
        raise CommandError(
            f"the environment variable {shown} holds white space or characters that are not"
            " printable ASCII, which no header can carry. Put only the key there"
        )
    return key, f"root key from the environment variable {shown}"


def _check_address(host: str, port: int, auth: AuthMode) -> None:
    from resilient_ov_manager.base_url import is_localhost

    if auth is AuthMode.DEV and not is_localhost(_url(host, port)):
        raise CommandError(
            f"--host {host}: with auth dev everybody is root, so it listens on loopback only."
            " Use 127.0.0.1, or --auth trusted"
        )
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, address in found:
            _bind(family, kind, protocol, address)
    except OSError as error:
        raise CommandError(
            f"cannot listen on {host} port {port} ({error.strerror or type(error).__name__})."
            " Stop what listens there, or choose another --port or --host"
        ) from None


def _bind(family: int, kind: int, protocol: int, address: Any) -> None:
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError as error:
            # `localhost` may name an IPv6 address on a machine without IPv6; it is left out.
            if family != socket.AF_INET6 or error.errno != errno.EADDRNOTAVAIL:
                raise


def _check_folder(data: Path, profile: ServerProfile) -> None:
    """Open and close the database once, because the server itself would only log what is wrong."""
    import sqlite3

    from resilient_ov.embedded.database import Database

    try:
        Database(data, profile).close()
    except RuntimeError as error:
        problem = str(error).removeprefix("data_dir: ")
        raise CommandError(f"--data {data}: {problem}", ExitCode.STORAGE) from None
    except (OSError, sqlite3.Error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise CommandError(
            f"--data {data}: cannot be used ({reason}). Name a folder that can be written",
            ExitCode.STORAGE,
        ) from None


def _tell_start(url: str, profile: ServerProfile, auth: str, data: Path) -> None:
    from rich.text import Text

    console = err()
    console.print(f"Embedded OpenViking server, profile {profile.value}", style="bold")
    for name, value in (
        ("address", url),
        ("auth", auth),
        ("data", str(data.resolve())),
        ("stop", "Ctrl-C or SIGTERM; the data stays"),
    ):
        console.print(Text.assemble((f"  {name:<9}", "dim"), value), soft_wrap=True)
