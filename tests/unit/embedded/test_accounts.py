import sqlite3

import pytest

from resilient_ov.embedded import accounts
from resilient_ov.embedded.accounts import KeyOwner
from resilient_ov.embedded.errors import ApiError


def test_keys_are_made_where_there_are_keys(db: sqlite3.Connection) -> None:
    key = accounts.create_account(db, "acme", "boss", with_key=True)
    assert key is not None
    assert accounts.owner_of_key(db, key) == KeyOwner("acme", "boss", "admin")
    assert accounts.owner_of_key(db, "other") is None
    assert accounts.create_user(db, "acme", "alice", "user", with_key=False) is None


def test_names_are_unique(db: sqlite3.Connection) -> None:
    accounts.create_account(db, "acme", "boss", with_key=False)
    with pytest.raises(ApiError) as account:
        accounts.create_account(db, "acme", "x", with_key=False)
    with pytest.raises(ApiError) as user:
        accounts.create_user(db, "acme", "boss", "user", with_key=False)
    assert (account.value.status, user.value.status) == (409, 409)


def test_what_is_missing_is_404(db: sqlite3.Connection) -> None:
    accounts.register(db, "acme", None)
    for account, user in (("nope", "x"), ("acme", "x")):
        with pytest.raises(ApiError) as caught:
            accounts.require_user(db, account, user)
        assert caught.value.status == 404


def test_registering_again_changes_nothing(db: sqlite3.Connection) -> None:
    accounts.create_account(db, "acme", "boss", with_key=False)
    accounts.register(db, "acme", "boss")
    assert accounts.list_users(db, "acme") == [{"user_id": "boss", "role": "admin"}]


def test_an_identity_is_refused_from_the_mark_to_the_removal(db: sqlite3.Connection) -> None:
    accounts.register(db, "acme", "alice")
    assert accounts.deletion_task(db, "acme", "alice") is None
    accounts.mark_deleting(db, "acme", "alice", "task-1")
    assert accounts.deletion_task(db, "acme", "alice") == "task-1"
    assert accounts.deletion_task(db, "acme", "bob") is None
    accounts.remove(db, "acme", "alice")
    assert accounts.list_users(db, "acme") == []


def test_deleting_an_account_refuses_all_its_users(db: sqlite3.Connection) -> None:
    accounts.register(db, "acme", "alice")
    accounts.mark_deleting(db, "acme", None, "task-1")
    assert accounts.deletion_task(db, "acme", "anyone") == "task-1"
    assert accounts.get_account(db, "acme")["status"] == "deleting"
    accounts.remove(db, "acme", None)
    assert accounts.list_accounts(db) == []
