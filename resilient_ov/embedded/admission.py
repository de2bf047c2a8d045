"""Lets a request in: an identity becomes a caller whose account, user and policy are known.

Runs one transaction before the one of the route itself.
"""

import sqlite3
from dataclasses import replace

from resilient_ov.domain.namespace import NamespacePolicy
from resilient_ov.embedded import accounts, scopes
from resilient_ov.embedded.auth import Caller, Identity, complete, require_data_access
from resilient_ov.embedded.context import Services, guard
from resilient_ov.embedded.layout_account import viewer_of
from resilient_ov.settings.server import AuthMode, ServerProfile


async def admit(services: Services, identity: Identity) -> Caller:
    """The caller of a route that touches a tenant's data.

    On profile namespace the account's policy comes with it, and its scopes are furnished.
    """
    if services.settings.profile is ServerProfile.V0_5:
        return require_data_access(identity, services.settings.auth)
    caller = complete(identity)
    viewer_of(caller)  # refuses ids that no scope can have
    return await services.database.call(lambda db: _admit(db, services, caller))


def _admit(db: sqlite3.Connection, services: Services, caller: Caller) -> Caller:
    guard(db, caller, services.settings)
    if services.settings.auth is AuthMode.API_KEY:
        accounts.require_user(db, caller.account, caller.user)
    policy = accounts.policy_of(db, caller.account) or NamespacePolicy()
    admitted = replace(caller, policy=policy)
    scopes.furnish(db, services.layout, admitted)
    return admitted
