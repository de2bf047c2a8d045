import copy
import dataclasses
import pickle
from enum import StrEnum
from pathlib import Path

import pytest

from resilient_ov.settings import (
    AuthSettings,
    BudgetSettings,
    KnobField,
    Settings,
    TlsSettings,
    knob_fields,
    section_types,
)

MIB = 1024 * 1024

# The public contract: key -> default, lowest, highest. Written out here a second time on purpose.
NUMBERS = {
    "connect_timeout_seconds": (2.0, 0.05, 120),
    "read_timeout_seconds": (10.0, 0.05, 120),
    "write_timeout_seconds": (10.0, 0.05, 120),
    "pool_timeout_seconds": (2.0, 0.05, 120),
    "budgets.get_context_seconds": (2.0, 0.05, 120),
    "budgets.search_seconds": (3.0, 0.05, 120),
    "budgets.add_seconds": (3.0, 0.5, 120),
    "budgets.warm_seconds": (3.0, 0.05, 120),
    "budgets.health_seconds": (1.0, 0.05, 120),
    "shutdown_flush_timeout_seconds": (20.0, 0, 300),
    "stale_read_seconds": (0.0, 0, 86400),
    "retrieval.top_k": (8, 1, 100),
    "retrieval.score_threshold": (0.55, 0, 1),
    "retrieval.max_injection_chars": (12000, 256, 100000),
    "retrieval.max_item_chars": (1000, 32, 20000),
    "session.settle_seconds": (5.0, 0.5, 300),
    "session.commit_min_messages": (1, 1, 1000),
    "session.commit_min_seconds": (0.0, 0, 3600),
    "retry.max_attempts": (2, 1, 5),
    "retry.initial_seconds": (0.05, 0, 60),
    "retry.max_seconds": (1.0, 0, 60),
    "retry.attempt_seconds": (None, 0.05, 120),
    "breaker.failure_rate": (0.5, 0.01, 1),
    "breaker.minimum_calls": (10, 1, 10000),
    "breaker.window_seconds": (30.0, 1, 3600),
    "breaker.consecutive_failures": (5, 1, 1000),
    "breaker.consecutive_timeouts": (3, 1, 1000),
    "breaker.slow_call_seconds": (None, 0.01, 120),
    "breaker.slow_call_rate": (1.0, 0.01, 1),
    "breaker.open_seconds": (5.0, 0.1, 600),
    "breaker.max_open_seconds": (30.0, 0.1, 3600),
    "breaker.min_evidence_seconds": (0.25, 0, 10),
    "limits.max_connections": (20, 1, 1000),
    "limits.max_keepalive": (10, 1, 1000),
    "limits.read_in_flight": (16, 1, 1000),
    "limits.sync_read_in_flight": (None, 1, 1000),
    "limits.write_in_flight": (8, 1, 1000),
    "limits.write_queue": (1000, 1, 100000),
    "limits.write_queue_bytes": (67108864, MIB, 1024 * MIB),
    "messages.max_message_chars": (20000, 256, 1000000),
    "messages.max_batch_bytes": (1048576, 16384, 16777216),
    "watermark.window": (512, 16, 10000),
    "state.retention_days": (0, 0, 3650),
    "outbox.max_bytes": (268435456, MIB, 102400 * MIB),
    "outbox.max_age_hours": (168, 1, 8760),
    "injection.percent": (100.0, 0, 100),
    "metrics.port": (None, 1, 65535),
}
OTHERS = {
    "allow_insecure_http": False,
    "auth_mode": "trusted",
    "account": None,
    "owner_user_id": None,
    "api_key_env": "OPENVIKING_API_KEY",
    "api_key_file": None,
    "api_key_shared_agents": False,
    "require_authenticated_user": False,
    "account_alias": None,
    "server_profile": "0.5",
    "namespace.isolate_user_scope_by_agent": False,
    "namespace.isolate_agent_scope_by_user": False,
    "namespace.search_agent_scope": False,
    "tls.ca_file": None,
    "tls.client_cert_file": None,
    "tls.client_key_file": None,
    "shutdown.atexit": True,
    "startup_policy": "fail_fast",
    "failure_policy.read": "fail_open",
    "failure_policy.write": "log_and_drop",
    "retrieval.injection_query": "user profile preferences important entities events ongoing goals"
    " constraints and prior decisions",
    "session.wait_for_extraction": False,
    "session.memory_types": None,
    "state.kind": "file",
    "state.dsn_env": None,
    "outbox.kind": "memory",
    "injection.mode": "on",
    "metrics.enabled": True,
    "metrics.host": "127.0.0.1",
    "tracing.enabled": True,
    "tracing.http_spans": False,
}
REQUIRED = {"base_url", "storage_path"}


def knob(key: str) -> KnobField:
    return next(found for found in knob_fields() if found.key == key)


def settings(**changes: object) -> Settings:
    base = Settings(base_url="https://ov.example", storage_path=Path("state"))
    return dataclasses.replace(base, **changes)  # type: ignore[arg-type]


def test_every_key_of_the_contract_is_there_and_no_other() -> None:
    assert {found.key for found in knob_fields()} == {*NUMBERS, *OTHERS, *REQUIRED}
    assert {found.key for found in knob_fields() if found.required} == REQUIRED


@pytest.mark.parametrize("key", NUMBERS)
def test_number_has_its_default_and_range(key: str) -> None:
    found = knob(key)
    default, low, high = NUMBERS[key]
    assert (found.default, found.knob.low, found.knob.high) == (default, low, high)
    assert found.kind in (int, float)
    assert found.nullable is (default is None)
    assert default is None or type(default) is found.kind


@pytest.mark.parametrize("key", OTHERS)
def test_other_setting_has_its_default(key: str) -> None:
    default = knob(key).default
    assert default == OTHERS[key]
    assert knob(key).nullable is (OTHERS[key] is None)


def test_every_setting_says_what_it_means() -> None:
    for found in knob_fields():
        assert found.knob.meaning.endswith("."), found.key


def test_seconds_in_the_configuration_are_s_inside() -> None:
    assert settings(budgets=BudgetSettings(add_s=4.5)).budgets.add_s == 4.5
    for found in knob_fields():
        assert found.key.endswith("_seconds") is found.attribute.endswith("_s"), found.key


def test_settings_are_frozen_hashable_comparable_and_survive_pickle() -> None:
    one = settings()
    assert one == settings()
    assert hash(one) == hash(settings())
    assert pickle.loads(pickle.dumps(one)) == one
    assert copy.deepcopy(one) == one
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.base_url = "x"  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.budgets.add_s = 9.0  # type: ignore[misc]


def private_settings() -> Settings:
    auth = AuthSettings(
        account="SECRET-account",
        owner_user_id="SECRET-user",
        api_key_env="SECRET_VARIABLE",
        api_key_file=Path("SECRET-file"),
    )
    tls = TlsSettings(client_key_file=Path("SECRET-key.pem"))
    return settings(base_url="https://SECRET.example", auth=auth, tls=tls)


def test_repr_masks_private_values_and_shows_numbers() -> None:
    text = repr(private_settings())
    assert "SECRET" not in text
    assert "base_url=<set>" in text
    assert "owner_user_id=<set>" in text
    assert "ca_file=None" in text
    assert "add_s=3.0" in text
    assert f"{private_settings()}" == text


def test_repr_names_every_group() -> None:
    text = repr(settings())
    for name, kind in section_types().items():
        assert f"{name}={kind.__name__}(" in text


def test_redacted_summary_tells_private_keys_as_set_or_unset_only() -> None:
    summary = private_settings().redacted_summary(api_key_set=True)
    assert "SECRET" not in str(summary)
    assert summary["base_url"] == "set"
    assert summary["account"] == "set"
    assert summary["state.dsn_env"] == "unset"
    assert summary["tls.client_key_file"] == "set"
    assert summary["tls.ca_file"] == "unset"
    assert summary["storage_path"] == "set"
    assert summary["api_key"] == "set"
    assert summary["account_alias"] == private_settings().auth.alias
    assert settings().redacted_summary(api_key_set=False)["api_key"] == "unset"


def test_redacted_summary_is_flat_and_plain() -> None:
    session = dataclasses.replace(settings().session, memory_types=("profile", "events"))
    summary = settings(session=session).redacted_summary(api_key_set=True)
    assert set(summary) == {found.key for found in knob_fields()} | {"api_key"}
    assert summary["session.memory_types"] == "profile,events"
    assert summary["budgets.add_seconds"] == 3.0
    assert summary["auth_mode"] == "trusted"
    assert not any(isinstance(value, StrEnum) for value in summary.values())


def test_alias_is_the_configured_one_or_a_hash_of_the_account() -> None:
    assert AuthSettings(account="acme", account_alias="prod").alias == "prod"
    # printf acme | sha256sum
    assert AuthSettings(account="acme").alias == "acct_822b33ad"
    assert AuthSettings(account="acme2").alias != AuthSettings(account="acme").alias


def test_scope_account_falls_back_on_the_default_of_the_server() -> None:
    assert AuthSettings(account="acme").scope_account == "acme"
    assert AuthSettings().scope_account == "default"
