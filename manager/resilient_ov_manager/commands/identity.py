"""`resilient-ov identity`: the hashed names of a user and a conversation.

No server is asked. Prints hashes and labels only, so the output may go into a ticket.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from resilient_ov_manager.terminal import CommandError, out

if TYPE_CHECKING:
    from resilient_ov.settings import Settings


def identity(
    user: Annotated[str, typer.Option(help="User id, exactly as DeerFlow passes it.")],
    agent: Annotated[
        str | None, typer.Option(help="Name of a custom agent; without it the lead agent.")
    ] = None,
    thread: Annotated[str | None, typer.Option(help="Thread id, to name its session too.")] = None,
    account: Annotated[
        str | None, typer.Option(help="OpenViking account, as in the configuration.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="DeerFlow's config.yaml or a bare backend_config: account from it."
        ),
    ] = None,
) -> None:
    """Print the hashed ids of a user, and the short labels that logs and status show.

    The ids are what the server sees and what the files below storage_path are called; the labels
    are what you search for in logs. No server is asked.

    Exit codes:

    - 0: printed
    - 2: a wrong id or configuration
    """
    from rich.text import Text

    from resilient_ov.domain.errors import OpenVikingScopeError
    from resilient_ov.domain.identity import scope, session_hash, session_id, user_hash
    from resilient_ov.settings import AuthMode
    from resilient_ov.usecases.addressing import identity_of

    settings = _settings(account, config)
    auth = settings.auth
    try:
        owner = scope(auth.scope_account, user, agent)
        told = identity_of(settings, owner)
        session = None if thread is None else session_id(owner, thread)
    except OpenVikingScopeError as error:
        raise CommandError(error.problem) from None

    hashed = told.user or ""
    rows = [("OpenViking user", hashed), ("OpenViking agent", told.agent), ("session", session)]
    rows += [
        ("user in logs", user_hash(hashed)),
        ("session in logs", None if session is None else session_hash(session)),
        ("account in logs", auth.alias),
    ]
    console = out()
    for name, value in rows:
        if value is not None:
            # A hash that is cut or wrapped cannot be copied.
            console.print(Text.assemble((f"{name:<18}", "dim"), value), soft_wrap=True)
    if account is None and config is None:
        console.print(
            "\nFor OpenViking's account 'default'. The account is part of every id:"
            " name yours with --account or --config.",
            style="yellow",
        )
    if auth.mode is AuthMode.API_KEY:
        console.print(
            "\nauth_mode is api_key: the server takes its user from the key, not from us."
            " Sessions and log labels are as above.",
            style="yellow",
        )


def _settings(account: str | None, config: Path | None) -> "Settings":
    from resilient_ov_manager.config_file import load_config_file
    from resilient_ov_manager.host_config import ConfigError, parse_config

    if account is not None and config is not None:
        raise CommandError("--account and --config: give one of them; the file names the account")
    if config is None:
        # An address is required, but nothing is asked there.
        raw = {"base_url": "http://localhost", "auth_mode": "dev", "account": account}
        try:
            return parse_config(raw)
        except ConfigError:
            raise CommandError(
                "--account: must be 1..255 of A-Z a-z 0-9 _ . @ - and must not begin with _."
                " Write it as in the configuration"
            ) from None
    try:
        return parse_config(load_config_file(config))
    except ConfigError as error:
        raise CommandError(f"{config}: {error}") from None
    except ValueError as error:
        raise CommandError(str(error)) from None
