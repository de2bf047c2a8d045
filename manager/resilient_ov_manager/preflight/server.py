"""Whether the server is there, believes us, is a supported one, and can search.

Rule: one health check and one find of a user that is never written to, each one attempt. A green
health check alone proves nothing about the server's models.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from resilient_ov.domain.exchange import (
    Answer,
    Failure,
    Health,
    Identity,
    Search,
    ServerHealth,
)
from resilient_ov.domain.identity import scope
from resilient_ov.domain.namespace import AccountView
from resilient_ov.memory import PROBE_USER
from resilient_ov.settings import AuthMode, ServerProfile, Settings
from resilient_ov.usecases.addressing import identity_of, view_of
from resilient_ov_manager.failure_words import failure_words
from resilient_ov_manager.live_server import LiveServer
from resilient_ov_manager.preflight.step import State, Step, failed
from resilient_ov_manager.terminal import ExitCode

_PROBE_QUERY: Final = "is the memory reachable"
_FIRST_VERSION: Final = (0, 5, 2)
_VERSION: Final = re.compile(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})\S*")


def server_steps(settings: Settings, environ: Mapping[str, str]) -> Iterator[Step]:
    """Yield whether it answers and knows us, its version, and whether it can search."""
    identity = identity_of(settings, scope(settings.auth.scope_account, PROBE_USER, None))
    server = LiveServer(settings, environ)
    try:
        answer, took_s = server.ask(Health(identity=identity), settings.budgets.health_s)
        yield _identified(answer, settings, identity, took_s)
        if isinstance(answer, Failure):
            yield _skipped("version")
            if settings.server_profile is ServerProfile.NAMESPACE:
                yield _skipped("policy")
            yield _skipped("find")
            return
        told = answer.value
        yield _versioned(told.version if isinstance(told, ServerHealth) else None)
        by_key = settings.auth.mode is AuthMode.API_KEY
        user = told.user if by_key and isinstance(told, ServerHealth) else identity.user
        view = view_of(settings, identity, own_user=user)
        if isinstance(view, AccountView):
            step = _policy(server, settings, identity, replace(view, agent_scope=True))
            yield step
            if step.state is State.FAILED:
                yield _skipped("find", "not tried, because its addresses would be wrong")
                return
        find = _search(settings, identity, view.targets(None))
        answer, took_s = server.ask(find, settings.budgets.warm_s)
        yield _found(answer, settings, took_s)
    finally:
        server.close()


def _search(settings: Settings, identity: Identity, targets: tuple[str, ...]) -> Search:
    return Search(
        identity=identity,
        query=_PROBE_QUERY,
        targets=targets,
        limit=1,
        score_threshold=settings.retrieval.score_threshold,
    )


def _policy(server: LiveServer, settings: Settings, identity: Identity, view: AccountView) -> Step:
    """Ask below both scopes: on a server with another policy there is no such place."""
    user_scope, _, agent_scope = view.targets(None)
    differing: list[str] = []
    for key, target in (
        ("namespace.isolate_user_scope_by_agent", user_scope),
        ("namespace.isolate_agent_scope_by_user", agent_scope),
    ):
        answer, _ = server.ask(_search(settings, identity, (target,)), settings.budgets.warm_s)
        if isinstance(answer, Failure) and answer.status == 400 and answer.enveloped:
            differing.append(key)
        elif isinstance(answer, Failure):
            return _unusable(
                "policy", answer, settings, settings.budgets.warm_s, "budgets.warm_seconds"
            )
    if not differing:
        return Step(name="policy", state=State.OK, found="the account has the configured policy")
    return failed(
        "policy",
        f"the account has another policy than configured: {', '.join(differing)}",
        "Change these keys: an account's policy never changes after it was made",
        code=ExitCode.POLICY,
    )


def _identified(answer: Answer, settings: Settings, identity: Identity, took_s: float) -> Step:
    if isinstance(answer, Failure):
        return _unusable(
            "server", answer, settings, settings.budgets.health_s, "budgets.health_seconds"
        )
    told = answer.value
    user = told.user if isinstance(told, ServerHealth) else None
    mode = settings.auth.mode
    if mode is not AuthMode.DEV and user is None:
        return failed(
            "server",
            "answers, but does not say whose key it was given",
            f"The server does not check keys as auth_mode {mode.value} expects."
            " Compare its auth mode with auth_mode",
        )
    if mode is AuthMode.TRUSTED and user != identity.user:
        return failed(
            "server",
            "takes us for another user than the one we name",
            "It does not trust our identity headers: it is not in trusted mode, or the key is a"
            " user's own. Set auth_mode: api_key, or run the server in trusted mode",
        )
    accepted = "" if mode is AuthMode.DEV else ", accepts the key and knows the identity"
    return Step(name="server", state=State.OK, found=f"answers{accepted} ({took_s * 1000:.0f} ms)")


def _versioned(version: str | None) -> Step:
    known = None if version is None else _VERSION.fullmatch(version)
    if known is None:
        return Step(
            name="version",
            state=State.NOTE,
            found="the server does not tell its version",
            advice=("Supported are 0.5.x from 0.5.2 on. Look which one runs",),
        )
    numbers = tuple(int(part) for part in known.groups())
    shown = ".".join(known.groups())
    if numbers[:2] != _FIRST_VERSION[:2] or numbers < _FIRST_VERSION:
        return failed(
            "version",
            f"{shown} is not supported",
            "Run OpenViking 0.5.x from 0.5.2 on, or a version of resilient-ov made for yours",
        )
    return Step(name="version", state=State.OK, found=f"{shown} (supported: 0.5.x from 0.5.2 on)")


def _found(answer: Answer, settings: Settings, took_s: float) -> Step:
    if isinstance(answer, Failure):
        return _unusable("find", answer, settings, settings.budgets.warm_s, "budgets.warm_seconds")
    return Step(
        name="find",
        state=State.OK,
        found=f"a search as user {PROBE_USER} was answered ({took_s * 1000:.0f} ms)",
    )


def _unusable(
    name: str, failure: Failure, settings: Settings, budget_s: float, budget_key: str
) -> Step:
    mode = settings.auth.mode
    found, advice = failure_words(failure, mode, budget_s=budget_s, budget_key=budget_key)
    return failed(name, found, advice)


def _skipped(name: str, found: str = "not tried, because the server did not answer") -> Step:
    return Step(name=name, state=State.SKIPPED, found=found)
