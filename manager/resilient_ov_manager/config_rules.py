"""What one key alone cannot tell: rules between keys, keys of other backends, keys to come.

Pure. `NOT_IN_THIS_VERSION` is the one list of what is configurable but not built yet: remove a
line when its behaviour is there.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from resilient_ov.settings import AuthMode, ServerProfile, Settings, knob_fields
from resilient_ov_manager.base_url import is_localhost, is_plain_http

ANY_OTHER: Final = "any value but the default"

NOT_IN_THIS_VERSION: Final[tuple[tuple[str, object], ...]] = (
    ("state.kind", "postgresql"),
    ("state.dsn_env", ANY_OTHER),
    ("state.retention_days", ANY_OTHER),
    ("outbox.kind", "sqlite"),
    ("outbox.kind", "postgresql"),
    ("outbox.max_bytes", ANY_OTHER),
    ("outbox.max_age_hours", ANY_OTHER),
)

_DROP = "a setting of DeerMem, DeerFlow's own backend. Remove it"
_STALENESS = f"{_DROP}: OpenViking ages and merges memories itself"
_FACTS = f"{_DROP}: OpenViking decides what is worth remembering"
_TOKENS = f"{_DROP}, and use retrieval.max_injection_chars to bound the injected text"

# DeerFlow moves these from the top level of `memory:` into backend_config when it upgrades an old
# file, so they arrive here without anybody having written them here.
FOREIGN_KEYS: Final[dict[str, str]] = {
    "storage_class": f"{_DROP}: the state of the sessions is chosen by state.kind",
    "debounce_seconds": f"{_DROP}, and use session.commit_min_seconds to commit less often",
    "max_facts": _FACTS,
    "fact_confidence_threshold": f"{_DROP}, and use retrieval.score_threshold to recall less",
    "max_injection_tokens": _TOKENS,
    "token_counting": _TOKENS,
    "guaranteed_categories": _TOKENS,
    "guaranteed_token_budget": _TOKENS,
    "staleness_review_enabled": _STALENESS,
    "staleness_age_days": _STALENESS,
    "staleness_min_candidates": _STALENESS,
    "staleness_max_removals_per_cycle": _STALENESS,
    "staleness_protected_categories": _STALENESS,
    "staleness_max_lifetime_multiplier": _STALENESS,
    "staleness_max_extension_days": _STALENESS,
    "consolidation_enabled": _STALENESS,
    "consolidation_min_facts": _STALENESS,
    "consolidation_max_groups_per_cycle": _STALENESS,
    "consolidation_max_sources": _STALENESS,
    "model": f"{_DROP}: the models belong to the OpenViking server",
    "model_name": f"{_DROP}: the models belong to the OpenViking server",
    "api_key": "the key itself does not belong here, because DeerFlow's API shows this section."
    " Put it in an environment variable and name that in api_key_env, or use api_key_file",
}


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule between keys. `problem` gives None, or a sentence to follow `keys[0]`.

    A rule is skipped when one of its keys is wrong by itself already.
    """

    keys: tuple[str, ...]
    problem: Callable[[Settings], str | None]


def rule_problems(settings: Settings, broken: set[str]) -> Iterator[tuple[str, str]]:
    """Key and sentence of every rule that does not hold; `broken` keys are left alone."""
    for rule in RULES:
        text = None if broken.intersection(rule.keys) else rule.problem(settings)
        if text is not None:
            yield rule.keys[0], text
    yield from _missing_problems(settings, broken)


def missing_values(key: str) -> tuple[object, ...] | None:
    """What of a key is not in this version: None = nothing, () = all but the default."""
    values = [value for name, value in NOT_IN_THIS_VERSION if name == key]
    if not values:
        return None
    return () if ANY_OTHER in values else tuple(values)


def _missing_problems(settings: Settings, broken: set[str]) -> Iterator[tuple[str, str]]:
    for found in knob_fields():
        missing = missing_values(found.key)
        if missing is None or found.key in broken:
            continue
        holder: object = settings if found.section is None else getattr(settings, found.section)
        value: object = getattr(holder, found.attribute)
        if value != found.default and (not missing or value in missing):
            shown = "" if found.knob.private else f" ({value})"
            yield found.key, f"not in this version{shown}. Remove it for the default"


def _account(settings: Settings) -> str | None:
    if settings.auth.mode is not AuthMode.TRUSTED or settings.auth.account is not None:
        return None
    return "required when auth_mode is trusted. Set it to the name of your OpenViking account"


def _owner(settings: Settings) -> str | None:
    if settings.auth.mode is not AuthMode.API_KEY or settings.auth.owner_user_id is not None:
        return None
    return "required when auth_mode is api_key. Set it to the DeerFlow user the key belongs to"


def _dev(settings: Settings) -> str | None:
    if settings.auth.mode is not AuthMode.DEV or is_localhost(settings.base_url):
        return None
    return "dev is for a base_url on localhost only. Use trusted or api_key"


def _plain_http(settings: Settings) -> str | None:
    if (
        settings.allow_insecure_http
        or not is_plain_http(settings.base_url)
        or is_localhost(settings.base_url)
    ):
        return None
    return (
        "plain http sends the key in the clear, so it is for localhost only. Use https, or set"
        " allow_insecure_http: true on a network you trust"
    )


def _one_key_source(settings: Settings) -> str | None:
    default = next(found.default for found in knob_fields() if found.key == "api_key_env")
    if settings.auth.api_key_file is None or settings.auth.api_key_env == default:
        return None
    return "a file and a variable of your own are named. Remove api_key_file or api_key_env"


def _client_certificate(settings: Settings) -> str | None:
    if settings.tls.client_key_file is None or settings.tls.client_cert_file is not None:
        return None
    return "needs tls.client_cert_file. Set that too, or remove this key"


def _keepalive(settings: Settings) -> str | None:
    limits = settings.limits
    if limits.max_keepalive <= limits.max_connections:
        return None
    return (
        f"must be at most limits.max_connections ({limits.max_connections}),"
        f" got {limits.max_keepalive}. Lower it, or raise limits.max_connections"
    )


def _max_open(settings: Settings) -> str | None:
    breaker = settings.breaker
    if breaker.max_open_s >= breaker.open_s:
        return None
    return (
        f"must be at least breaker.open_seconds ({breaker.open_s}),"
        f" got {breaker.max_open_s}. Raise it, or lower breaker.open_seconds"
    )


def _batch_bytes(settings: Settings) -> str | None:
    # A character takes at most 6 bytes as a JSON escape; the rest is the envelope.
    needed = 6 * settings.messages.max_message_chars + 4096
    if settings.messages.max_batch_bytes >= needed:
        return None
    return (
        f"must be at least 6 x messages.max_message_chars + 4096 = {needed},"
        f" got {settings.messages.max_batch_bytes}. Raise it, or lower messages.max_message_chars"
    )


def _waiting(settings: Settings) -> str | None:
    if not settings.session.wait_for_extraction or settings.budgets.add_s >= 15:
        return None
    return (
        f"needs budgets.add_seconds >= 15, got {settings.budgets.add_s}: an extraction takes"
        " seconds. Raise budgets.add_seconds, or do not wait"
    )


def _on_namespace_only(attribute: str) -> Callable[[Settings], str | None]:
    def problem(settings: Settings) -> str | None:
        is_set = getattr(settings.namespace, attribute)
        if not is_set or settings.server_profile is ServerProfile.NAMESPACE:
            return None
        return "has an effect with server_profile namespace only. Set that, or remove this key"

    return problem


RULES: Final[tuple[Rule, ...]] = (
    Rule(("account", "auth_mode"), _account),
    Rule(("owner_user_id", "auth_mode"), _owner),
    Rule(("auth_mode", "base_url"), _dev),
    Rule(("base_url", "allow_insecure_http"), _plain_http),
    Rule(("api_key_file", "api_key_env"), _one_key_source),
    Rule(("tls.client_key_file", "tls.client_cert_file"), _client_certificate),
    Rule(("limits.max_keepalive", "limits.max_connections"), _keepalive),
    Rule(("breaker.max_open_seconds", "breaker.open_seconds"), _max_open),
    Rule(("messages.max_batch_bytes", "messages.max_message_chars"), _batch_bytes),
    Rule(("session.wait_for_extraction", "budgets.add_seconds"), _waiting),
    *(
        Rule((f"namespace.{name}", "server_profile"), _on_namespace_only(name))
        for name in (
            "isolate_user_scope_by_agent",
            "isolate_agent_scope_by_user",
            "search_agent_scope",
        )
    ),
)
