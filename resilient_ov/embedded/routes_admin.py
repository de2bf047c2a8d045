"""Routes of tasks, health and the administration of accounts and users."""

from sqlite3 import Connection

from starlette.responses import Response

from resilient_ov.domain.namespace import NamespacePolicy
from resilient_ov.embedded import accounts, bodies, tasks
from resilient_ov.embedded.auth import Role, check_id
from resilient_ov.embedded.context import Call, DataCall, owner_filter
from resilient_ov.embedded.errors import invalid_argument, permission_denied, unimplemented
from resilient_ov.embedded.replies import ok
from resilient_ov.settings.server import AuthMode, ServerProfile


async def get_task(call: Call) -> Response:
    """GET /tasks/{id}: 404 for another user's."""
    owner, task_id = owner_filter(call), call.param("task_id")
    row = await call.services.database.call(lambda db: tasks.get(db, task_id, owner))
    view = tasks.view(row)
    if call.query.get("include_events", "").lower() in {"true", "1"}:
        view = {"execution_events": tasks.history(row)} | view
    return ok(view)


async def list_tasks(call: Call) -> Response:
    """GET /tasks: the newest that match; an unknown status matches nothing."""
    owner = owner_filter(call)
    query = bodies.parse_query(bodies.TaskQuery, call.query)
    items, cursor = await call.services.database.call(lambda db: tasks.search(db, query, owner))
    if query.pagination != "cursor":
        return ok(items)
    return ok({"items": items, "has_more": cursor is not None, "next_cursor": cursor})


async def cancel_task(call: Call) -> Response:
    """POST /tasks/{id}/cancel: 412 for a task that has ended."""
    owner, task_id = owner_filter(call), call.param("task_id")
    view = await call.services.database.call(
        lambda db: tasks.cancel(db, tasks.get(db, task_id, owner))
    )
    await call.services.worker.cancel(task_id)
    return ok(view)


async def create_account(call: Call) -> Response:
    """POST /admin/accounts: the account and its first admin; a key where there are keys."""
    _require(call, Role.ROOT)
    raw = await call.json()
    policy: NamespacePolicy | None = None
    if call.services.settings.profile is ServerProfile.NAMESPACE:
        body: bodies.AccountCreate = (chosen := bodies.parse(bodies.NamespaceAccountCreate, raw))
        policy = NamespacePolicy(
            isolate_user_scope_by_agent=chosen.isolate_user_scope_by_agent,
            isolate_agent_scope_by_user=chosen.isolate_agent_scope_by_user,
        )
    else:
        body = bodies.parse(bodies.AccountCreate, raw)
    account = check_id("account_id", body.account_id)
    admin = _user_id(call, body.admin_user_id)
    with_key = _with_keys(call)
    key = await call.services.database.call(
        lambda db: accounts.create_account(db, account, admin, with_key=with_key, policy=policy)
    )
    result = {"account_id": account, "admin_user_id": admin} | accounts.policy_view(policy)
    return ok(result if key is None else result | {"user_key": key})


async def list_accounts(call: Call) -> Response:
    """GET /admin/accounts."""
    _require(call, Role.ROOT)
    return ok(await call.services.database.call(accounts.list_accounts))


async def get_account(call: Call) -> Response:
    """GET /admin/accounts/{account}."""
    account = _account(call, Role.ROOT)
    return ok(await call.services.database.call(lambda db: accounts.get_account(db, account)))


async def change_account(call: Call) -> Response:
    """PUT and PATCH /admin/accounts/{account}: an account's policy never changes."""
    account = _account(call, Role.ROOT)
    await call.services.database.call(lambda db: accounts.require_account(db, account))
    raise unimplemented("Changing the policy of an account, which rearranges all that is stored,")


async def create_user(call: Call) -> Response:
    """POST /admin/accounts/{account}/users; a key where there are keys."""
    account = _account(call, Role.ADMIN)
    body = bodies.parse(bodies.UserCreate, await call.json())
    user = _user_id(call, body.user_id)
    with_key = _with_keys(call)
    key = await call.services.database.call(
        lambda db: accounts.create_user(db, account, user, body.role, with_key=with_key)
    )
    result = {"account_id": account, "user_id": user}
    return ok(result if key is None else result | {"user_key": key})


async def list_users(call: Call) -> Response:
    """GET /admin/accounts/{account}/users."""
    account = _account(call, Role.ADMIN)
    return ok(await call.services.database.call(lambda db: accounts.list_users(db, account)))


async def delete_account(call: Call) -> Response:
    """DELETE /admin/accounts/{account}: 202, done by a task; until then 412 for its users."""
    account = _account(call, Role.ROOT)
    task_id = await _delete(call, account, None)
    return ok({"account_id": account, "status": "deleting", "task_id": task_id}, 202)


async def delete_user(call: Call) -> Response:
    """DELETE /admin/accounts/{account}/users/{user}: 202, done by a task."""
    account, user = _account(call, Role.ADMIN), call.param("user")
    task_id = await _delete(call, account, user)
    return ok(
        {"account_id": account, "user_id": user, "status": "deleting", "task_id": task_id}, 202
    )


async def system_status(call: DataCall) -> Response:
    """GET /system/status."""
    return ok({"initialized": True, "user": call.caller.user})


async def _delete(call: Call, account: str, user: str | None) -> str:
    def work(db: Connection) -> str:
        if user is None:
            accounts.require_account(db, account)
            new = tasks.NewTask(account, "", "account_delete", account)
        else:
            accounts.require_user(db, account, user)
            new = tasks.NewTask(account, user, "user_delete", user)
        task_id = tasks.create(db, new)
        accounts.mark_deleting(db, account, user, task_id)
        return task_id

    task_id = await call.services.database.call(work)
    call.services.worker.notify()
    return task_id


def _user_id(call: Call, value: str) -> str:
    call.services.layout.check_user_id(check_id("user_id", value))
    return value


def _account(call: Call, role: Role) -> str:
    """The account of the path, if the caller may administer it."""
    account = call.param("account")
    _require(call, role)
    sent = call.identity.account
    if call.services.settings.auth is AuthMode.TRUSTED and sent not in {None, account}:
        raise invalid_argument(
            "Trusted mode X-OpenViking-Account must match explicit account_id in the URL."
        )
    is_own = call.identity.role is Role.ROOT or sent == account
    if call.services.settings.auth is AuthMode.API_KEY and not is_own:
        raise permission_denied(f"Requires role: admin of account {account}")
    return account


def _require(call: Call, role: Role) -> None:
    """The root key of trusted mode may do everything here; dev mode has no administration."""
    match call.services.settings.auth:
        case AuthMode.DEV:
            raise permission_denied("The admin API needs auth mode api_key or trusted.")
        case AuthMode.API_KEY if call.identity.role < role:
            raise permission_denied(f"Requires role: {role.name.lower()}")
        case _:
            pass


def _with_keys(call: Call) -> bool:
    return call.services.settings.auth is AuthMode.API_KEY
