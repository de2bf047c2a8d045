import asyncio
from pathlib import Path

import pytest

from resilient_ov.embedded.accounts import KeyOwner
from resilient_ov.embedded.auth import (
    Authenticator,
    Identity,
    Role,
    check_id,
    require_data_access,
    sent_key,
)
from resilient_ov.embedded.errors import ApiError
from resilient_ov.embedded.settings import EmbeddedSettings
from resilient_ov.settings.server import AuthMode


async def _lookup(key: str) -> KeyOwner | None:
    return KeyOwner("acme", "alice", "user") if key == "alice-key" else None


def _identify(auth: AuthMode, headers: dict[str, str]) -> Identity:
    key = None if auth is AuthMode.DEV else "root"
    settings = EmbeddedSettings(data_dir=Path("unused"), auth=auth, root_key=key)
    return asyncio.run(Authenticator(settings, _lookup).identify(headers))


@pytest.mark.parametrize(
    ("headers", "key"),
    [
        ({}, None),
        ({"x-api-key": "k"}, "k"),
        ({"authorization": "Bearer k"}, "k"),
        ({"authorization": "bearer k"}, "k"),
        ({"authorization": "Basic k"}, None),
        ({"authorization": "Bearer"}, None),
        ({"x-api-key": "", "authorization": "Bearer k"}, "k"),
        ({"x-api-key": "a", "authorization": "Bearer b"}, "a"),
    ],
)
def test_the_key_is_read_from_either_header(headers: dict[str, str], key: str | None) -> None:
    assert sent_key(headers) == key


@pytest.mark.parametrize("value", ["_x", "..", "a@b@c", "", "ä", "a/b"])
def test_account_ids_are_checked(value: str) -> None:
    with pytest.raises(ApiError) as caught:
        check_id("account_id", value)
    assert caught.value.status == 400


def test_a_user_may_begin_with_an_underscore() -> None:
    assert check_id("user_id", "_x") == "_x"


def test_trusted_headers_name_the_caller() -> None:
    headers = {"x-api-key": "root", "x-openviking-account": "a", "x-openviking-user": "u"}
    assert _identify(AuthMode.TRUSTED, headers) == Identity(Role.USER, "a", "u")


def test_a_key_beyond_ascii_is_simply_wrong() -> None:
    with pytest.raises(ApiError) as caught:
        _identify(AuthMode.TRUSTED, {"x-api-key": "röot"})
    assert caught.value.status == 401


def test_a_user_key_fixes_the_caller_whatever_the_headers_say() -> None:
    headers = {"x-api-key": "alice-key", "x-openviking-user": "bob"}
    assert _identify(AuthMode.API_KEY, headers) == Identity(Role.USER, "acme", "alice")


def test_dev_needs_no_key() -> None:
    assert _identify(AuthMode.DEV, {}) == Identity(Role.ROOT, "default", "default")


def test_the_root_key_reads_no_tenants_data_in_api_key_mode() -> None:
    root = _identify(AuthMode.API_KEY, {"x-api-key": "root"})
    with pytest.raises(ApiError) as caught:
        require_data_access(root, AuthMode.API_KEY)
    assert caught.value.status == 403
