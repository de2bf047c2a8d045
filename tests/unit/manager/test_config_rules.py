from typing import Any

import pytest

from resilient_ov.settings import KnobField, knob_fields
from resilient_ov_manager.config_rules import (
    ANY_OTHER,
    FOREIGN_KEYS,
    NOT_IN_THIS_VERSION,
    RULES,
    missing_values,
)
from resilient_ov_manager.host_config import ConfigError, parse_config

KNOBS: dict[str, KnobField] = {found.key: found for found in knob_fields()}
LOCAL = "http://localhost:1933"


def problems(raw: dict[str, Any]) -> tuple[str, ...]:
    try:
        parse_config(raw, environ={"DEER_FLOW_HOME": "/srv/deer"})
    except ConfigError as error:
        return error.problems
    return ()


def minimal(**more: Any) -> dict[str, Any]:
    return {"base_url": "https://ov.example", "account": "acme", **more}


GOOD: dict[str, dict[str, Any]] = {
    "trusted with account": minimal(),
    "dev on localhost": {"base_url": LOCAL, "auth_mode": "dev"},
    "dev on loopback v6": {"base_url": "http://[::1]:1", "auth_mode": "dev"},
    "api_key with owner": {
        "base_url": LOCAL,
        "auth_mode": "api_key",
        "owner_user_id": "alice",
    },
    "http on localhost": minimal(base_url=LOCAL),
    "http allowed": minimal(base_url="http://ov", allow_insecure_http=True),
    "file beside the default variable": minimal(
        api_key_file="/run/key", api_key_env="OPENVIKING_API_KEY"
    ),
    "own variable alone": minimal(api_key_env="OV_KEY"),
    "client pair": minimal(tls={"client_cert_file": "/c", "client_key_file": "/k"}),
    "client certificate with its key inside": minimal(tls={"client_cert_file": "/c"}),
    "keepalive at the limit": minimal(limits={"max_connections": 5, "max_keepalive": 5}),
    "max_open at open": minimal(breaker={"open_seconds": 60, "max_open_seconds": 60}),
    "batch just large enough": minimal(
        messages={"max_message_chars": 100000, "max_batch_bytes": 604096}
    ),
    "waiting with time": minimal(
        session={"wait_for_extraction": True}, budgets={"add_seconds": 15}
    ),
    "not waiting without time": minimal(budgets={"add_seconds": 0.5}),
    "policy on profile namespace": minimal(
        server_profile="namespace",
        namespace={
            "isolate_user_scope_by_agent": True,
            "isolate_agent_scope_by_user": True,
            "search_agent_scope": True,
        },
    ),
    "shared policy on profile 0.5": minimal(namespace={"isolate_user_scope_by_agent": False}),
}

BAD: dict[str, tuple[dict[str, Any], str, str]] = {
    "trusted without account": (
        {"base_url": LOCAL},
        "account: required when auth_mode is trusted",
        "Set it",
    ),
    "api_key without owner": (
        {"base_url": LOCAL, "auth_mode": "api_key"},
        "owner_user_id: required when auth_mode is api_key",
        "Set it",
    ),
    "dev elsewhere": (
        {"base_url": "https://ov.example", "auth_mode": "dev"},
        "auth_mode: dev is for a base_url on localhost only",
        "Use trusted",
    ),
    "plain http elsewhere": (
        minimal(base_url="http://ov.example"),
        "base_url: plain http sends the key in the clear",
        "allow_insecure_http: true",
    ),
    "file and own variable": (
        minimal(api_key_file="/run/key", api_key_env="OV_KEY"),
        "api_key_file: a file and a variable of your own are named",
        "Remove",
    ),
    "client key without certificate": (
        minimal(tls={"client_key_file": "/k"}),
        "tls.client_key_file: needs tls.client_cert_file",
        "Set that too",
    ),
    "keepalive above connections": (
        minimal(limits={"max_connections": 5, "max_keepalive": 6}),
        "limits.max_keepalive: must be at most limits.max_connections (5), got 6",
        "Lower it",
    ),
    "default keepalive above connections": (
        minimal(limits={"max_connections": 9}),
        "limits.max_keepalive: must be at most limits.max_connections (9), got 10",
        "Lower it",
    ),
    "max_open below open": (
        minimal(breaker={"open_seconds": 31}),
        "breaker.max_open_seconds: must be at least breaker.open_seconds (31.0), got 30.0",
        "Raise it",
    ),
    "batch one byte too small": (
        minimal(messages={"max_message_chars": 100000, "max_batch_bytes": 604095}),
        "messages.max_batch_bytes: must be at least 6 x messages.max_message_chars + 4096"
        " = 604096, got 604095",
        "Raise it",
    ),
    "waiting without time": (
        minimal(session={"wait_for_extraction": True}, budgets={"add_seconds": 14.9}),
        "session.wait_for_extraction: needs budgets.add_seconds >= 15, got 14.9",
        "Raise budgets.add_seconds",
    ),
    **{
        f"{name} on profile 0.5": (
            minimal(namespace={name: True}),
            f"namespace.{name}: has an effect with server_profile namespace only",
            "Set that, or remove this key",
        )
        for name in (
            "isolate_user_scope_by_agent",
            "isolate_agent_scope_by_user",
            "search_agent_scope",
        )
    },
}


@pytest.mark.parametrize("name", GOOD)
def test_keys_that_fit_together_are_accepted(name: str) -> None:
    assert problems(GOOD[name]) == ()


@pytest.mark.parametrize("name", BAD)
def test_keys_that_do_not_fit_together_are_refused_with_advice(name: str) -> None:
    raw, start, advice = BAD[name]
    (text,) = problems(raw)
    assert text.startswith(start)
    assert advice in text


def test_every_rule_is_shown_by_a_bad_example() -> None:
    shown = {start.partition(":")[0] for _, start, _ in BAD.values()}
    assert shown == {rule.keys[0] for rule in RULES}
    assert all(key in KNOBS for rule in RULES for key in rule.keys)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule.keys[0]))
def test_rule_is_silent_when_one_of_its_keys_is_wrong_by_itself(rule: Any) -> None:
    raw = next(raw for raw, start, _ in BAD.values() if start.startswith(f"{rule.keys[0]}:"))
    for key in rule.keys:
        section, _, name = key.rpartition(".")
        wrong = (
            {**raw, section: {**raw.get(section, {}), name: []}} if section else {**raw, key: []}
        )
        mine = [text for text in problems(wrong) if text.partition(":")[0] in rule.keys]
        assert len(mine) == 1
        assert mine[0].startswith(f"{key}: must ")


VALUES: dict[str, object] = {
    "state.dsn_env": "MEMORY_DSN",
    "state.retention_days": 30,
    "outbox.max_bytes": 2 * 1024 * 1024,
    "outbox.max_age_hours": 1,
}


@pytest.mark.parametrize(("key", "value"), NOT_IN_THIS_VERSION)
def test_behaviour_to_come_is_refused_unless_default(key: str, value: object) -> None:
    if value is ANY_OTHER:
        value = VALUES[key]
    section, _, name = key.rpartition(".")
    raw = minimal(**({section: {name: value}} if section else {name: value}))
    (text,) = problems(raw)
    assert text.startswith(f"{key}: not in this version")
    assert "MEMORY_DSN" not in text
    default = KNOBS[key].default
    assert problems(minimal(**({section: {name: default}} if section else {name: default}))) == ()


def test_wrong_value_of_a_key_to_come_is_told_once() -> None:
    (text,) = problems(minimal(outbox={"max_bytes": -1}))
    assert text.startswith("outbox.max_bytes: must be a whole number")


def test_list_of_what_is_to_come_names_real_keys_and_values() -> None:
    for key, value in NOT_IN_THIS_VERSION:
        assert key in KNOBS
        assert value != KNOBS[key].default


def test_missing_values() -> None:
    assert missing_values("outbox.kind") == ("sqlite", "postgresql")
    assert missing_values("outbox.max_bytes") == ()
    assert missing_values("base_url") is None


@pytest.mark.parametrize("key", FOREIGN_KEYS)
def test_key_of_deermem_is_named_with_what_to_do(key: str) -> None:
    (text,) = problems(minimal(**{key: "SECRET"}))
    assert text.startswith(f"{key}: ")
    assert "unknown key" not in text
    assert "SECRET" not in text
    assert "Remove it" in text or "api_key_env" in text


def test_advice_names_keys_that_exist() -> None:
    for text in FOREIGN_KEYS.values():
        named = {word.strip(".,:") for word in text.split() if "." in word.strip(".,:")}
        assert named <= set(KNOBS), text
    assert not set(FOREIGN_KEYS) & set(KNOBS)
