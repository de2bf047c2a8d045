"""`resilient-ov purge`: erases a person from the server and from the state of the gateways."""

from pathlib import Path
from typing import Annotated

import typer

from resilient_ov_manager.terminal import CommandError, out


def purge(
    user: Annotated[str, typer.Option(help="User id, exactly as DeerFlow passes it.")],
    config: Annotated[
        Path,
        typer.Option(metavar="FILE", help="DeerFlow's config.yaml, or a bare backend_config."),
    ],
    agent: Annotated[
        list[str] | None,
        typer.Option(
            help="A custom agent whose memory of the user is erased too; may be repeated."
            " The lead agent's always is."
        ),
    ] = None,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Really erase. There is no way back.")] = False,
    forget: Annotated[
        bool,
        typer.Option(
            "--forget",
            help="Remove the digests too. The next turn of an old thread then stores that whole"
            " thread again: only for threads that were deleted in DeerFlow.",
        ),
    ] = False,
) -> None:
    """Erase a user: memories, sessions and running extractions, and look again that they are gone.

    The server knows a user with an agent as one identity each, and cannot tell which agents there
    were: name every custom agent the user talked to. What stays is, for each session, a list of
    digests, so that the next turn of an old thread does not store the person again.

    Delete the user's threads in DeerFlow first: DeerFlow presents them again at every turn. A run
    that was interrupted is finished by the same command; a second run changes nothing.

    Gateways may run: what waits in their memory for the user they drop and count, reason purged.

    Exit codes: 0 = nothing of the user is left; 1 = the server is not usable, or a gateway has
    not dropped yet what waits in it; 2 = --yes is missing, or a wrong option or configuration;
    4 = the storage.
    """
    from resilient_ov.domain.errors import OpenVikingScopeError
    from resilient_ov.domain.identity import scope
    from resilient_ov.settings import AuthMode, ServerProfile
    from resilient_ov.usecases.addressing import identity_of
    from resilient_ov_manager.live_server import settings_of
    from resilient_ov_manager.purging.local_side import LocalSide
    from resilient_ov_manager.purging.run import erase
    from resilient_ov_manager.purging.server_side import ServerSide

    settings = settings_of(config)
    if settings.server_profile is ServerProfile.NAMESPACE:
        raise CommandError(
            "purge is not in this version for server_profile namespace, whose sessions belong to"
            " the account. Delete the user with the server's DELETE /api/v1/admin/accounts/"
            "{account}/users/{user} instead; 'resilient-ov identity' names it"
        )
    auth = settings.auth
    if auth.mode is AuthMode.API_KEY and (user != auth.owner_user_id or agent):
        raise CommandError("--user, --agent: one API key has one user, and all its agents share it")
    try:
        owners = [scope(auth.scope_account, user, name) for name in (None, *(agent or ()))]
    except OpenVikingScopeError as error:
        raise CommandError(error.problem) from None
    if not yes:
        raise CommandError(
            "nothing was erased. This deletes all memories and sessions of the user, and there is"
            " no way back: add --yes"
        )
    console = out()
    with LocalSide(settings) as local:
        for owner in dict.fromkeys(owners):
            identity = identity_of(settings, owner)
            with ServerSide(settings, identity) as server:
                erased = erase(
                    server,
                    local,
                    identity.user or "",
                    forget=forget,
                    settle_s=settings.session.settle_s,
                )
            console.print(
                f"{identity.user}: {erased.sessions} sessions, {erased.tasks} running extractions"
                f" and {erased.memories} memory folders erased; nothing is left.",
                soft_wrap=True,
            )
            if erased.held:
                console.print(f"  gateways dropped what waited for {erased.held} sessions")
            kept = "removed" if forget else "kept as digests only"
            console.print(f"  state of {erased.states} sessions {kept}")
    if forget:
        console.print(
            "The next turn of an old thread of this user stores that whole thread again.",
            style="yellow",
        )
    elif agent is None and auth.mode is not AuthMode.API_KEY:
        console.print(
            "Only the lead agent's memory was erased. Name custom agents with --agent.",
            style="yellow",
        )
