import asyncio
import sqlite3
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from resilient_ov.domain.namespace import NamespacePolicy
from resilient_ov.embedded import EmbeddedSettings, accounts, create_app
from resilient_ov.embedded.admission import admit
from resilient_ov.embedded.auth import Caller, Identity, Role
from resilient_ov.embedded.context import Services
from resilient_ov.embedded.errors import ApiError
from resilient_ov.settings.server import AuthMode, ServerProfile

POLICY = NamespacePolicy(isolate_user_scope_by_agent=True, isolate_agent_scope_by_user=True)


def serving(
    folder: Path,
    work: Callable[[Services], Coroutine[Any, Any, Any]],
    *,
    auth: AuthMode = AuthMode.TRUSTED,
    profile: ServerProfile = ServerProfile.NAMESPACE,
) -> Any:
    """Run ``work`` on the services of a server that hears no request."""

    async def run() -> Any:
        settings = EmbeddedSettings(data_dir=folder, profile=profile, auth=auth, root_key="key")
        app = create_app(settings)
        async with app.router.lifespan_context(app):
            return await work(app.state.services)

    return asyncio.run(run())


def identity(account: str | None = "acme", user: str = "ua", agent: str = "aa") -> Identity:
    return Identity(Role.USER, account, user, agent=agent)


async def made(services: Services, user: str = "boss") -> None:
    await services.database.call(
        lambda db: accounts.create_account(db, "acme", user, with_key=False, policy=POLICY)
    )


async def files_of(services: Services, account: str) -> int:
    def count(db: sqlite3.Connection) -> int:
        sql = "SELECT count(*) FROM files WHERE account = ? AND path LIKE '%/profile.md'"
        number: int = db.execute(sql, (account,)).fetchone()[0]
        return number

    return await services.database.call(count)


def test_the_accounts_policy_comes_with_the_caller(tmp_path: Path) -> None:
    async def work(services: Services) -> Caller:
        await made(services)
        return await admit(services, identity())

    assert serving(tmp_path, work).policy == POLICY


def test_an_account_that_a_trusted_upstream_brings_has_the_default_policy(tmp_path: Path) -> None:
    async def work(services: Services) -> tuple[Caller, NamespacePolicy | None]:
        caller = await admit(services, identity("other"))
        kept = await services.database.call(lambda db: accounts.policy_of(db, "other"))
        return caller, kept

    caller, kept = serving(tmp_path, work)
    assert caller.policy == kept == NamespacePolicy()


def test_the_scopes_of_whoever_comes_in_are_furnished_once(tmp_path: Path) -> None:
    async def work(services: Services) -> list[int]:
        counts: list[int] = []
        for user in ("ua", "ua", "ub"):
            await admit(services, identity("other", user))
            counts.append(await files_of(services, "other"))
        return counts

    assert serving(tmp_path, work) == [1, 1, 2]


@pytest.mark.parametrize("bad", [identity(user="memories"), identity(agent="skills")])
def test_an_id_that_no_scope_can_have_is_400_and_leaves_no_trace(
    tmp_path: Path, bad: Identity
) -> None:
    async def work(services: Services) -> Any:
        with pytest.raises(ApiError) as caught:
            await admit(services, bad)
        known = await services.database.call(accounts.list_accounts)
        return caught.value.status, [account["account_id"] for account in known]

    assert serving(tmp_path, work) == (400, [accounts.DEFAULT_ACCOUNT])


def test_without_an_account_it_is_400(tmp_path: Path) -> None:
    async def work(services: Services) -> int:
        with pytest.raises(ApiError) as caught:
            await admit(services, identity(None))
        return caught.value.status

    assert serving(tmp_path, work) == 400


def test_where_there_are_keys_a_user_nobody_made_is_404(tmp_path: Path) -> None:
    async def work(services: Services) -> int:
        await made(services)
        await admit(services, identity(user="boss"))
        with pytest.raises(ApiError) as caught:
            await admit(services, identity(user="nobody"))
        return caught.value.status

    assert serving(tmp_path, work, auth=AuthMode.API_KEY) == 404


def test_a_user_that_is_being_deleted_is_412(tmp_path: Path) -> None:
    async def work(services: Services) -> int:
        await admit(services, identity())
        await services.database.call(lambda db: accounts.mark_deleting(db, "acme", "ua", "task-1"))
        with pytest.raises(ApiError) as caught:
            await admit(services, identity())
        return caught.value.status

    assert serving(tmp_path, work) == 412


def test_profile_0_5_knows_neither_policies_nor_scopes(tmp_path: Path) -> None:
    async def work(services: Services) -> tuple[Caller, int]:
        caller = await admit(services, identity(user="memories"))
        return caller, await files_of(services, "acme")

    caller, count = serving(tmp_path, work, profile=ServerProfile.V0_5)
    assert (caller.user, caller.policy, count) == ("memories", NamespacePolicy(), 0)
