"""All settings of one backend, frozen; the only configuration the rest of the code sees.

No I/O and no validation here: values are checked once, where the configuration comes in.
"""

from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Annotated, cast

from resilient_ov.settings.knob import Knob, KnobField, Section, section_fields
from resilient_ov.settings.memory import (
    InjectionSettings,
    MessageSettings,
    OutboxSettings,
    RetrievalSettings,
    SessionSettings,
    StateSettings,
    WatermarkSettings,
)
from resilient_ov.settings.resilience import (
    BreakerSettings,
    BudgetSettings,
    FailurePolicySettings,
    LimitSettings,
    RetrySettings,
    ShutdownSettings,
    StartupPolicy,
)
from resilient_ov.settings.server import (
    AuthSettings,
    NamespaceSettings,
    ServerProfile,
    TimeoutSettings,
    TlsSettings,
)
from resilient_ov.settings.watching import (
    MetricsSettings,
    TracingSettings,
)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Settings(Section):
    """Every knob of the backend. Hashable and safe to share between threads and loops."""

    base_url: Annotated[
        str,
        Knob(
            "Address of the OpenViking server.",
            accepts="absolute http(s) URL without user-info, query or fragment; plain http only"
            " for localhost unless allow_insecure_http",
            private=True,
        ),
    ]
    allow_insecure_http: Annotated[
        bool, Knob("Allow plain http to a host other than localhost.")
    ] = False
    auth: AuthSettings = field(default_factory=AuthSettings)
    server_profile: Annotated[ServerProfile, Knob("Server contract that is spoken.")] = (
        ServerProfile.V0_5
    )
    namespace: NamespaceSettings = field(default_factory=NamespaceSettings)
    tls: TlsSettings = field(default_factory=TlsSettings)
    timeouts: TimeoutSettings = field(default_factory=TimeoutSettings)
    budgets: BudgetSettings = field(default_factory=BudgetSettings)
    shutdown: ShutdownSettings = field(default_factory=ShutdownSettings)
    startup_policy: Annotated[
        StartupPolicy, Knob("Whether `warm` raises or returns False when the server is away.")
    ] = StartupPolicy.FAIL_FAST
    failure_policy: FailurePolicySettings = field(default_factory=FailurePolicySettings)
    stale_read_s: Annotated[
        float, Knob("Age up to which a last good answer may stand in; 0 = off.", 0, 86_400)
    ] = 0.0
    retrieval: RetrievalSettings = field(default_factory=RetrievalSettings)
    session: SessionSettings = field(default_factory=SessionSettings)
    retry: RetrySettings = field(default_factory=RetrySettings)
    breaker: BreakerSettings = field(default_factory=BreakerSettings)
    limits: LimitSettings = field(default_factory=LimitSettings)
    messages: MessageSettings = field(default_factory=MessageSettings)
    watermark: WatermarkSettings = field(default_factory=WatermarkSettings)
    state: StateSettings = field(default_factory=StateSettings)
    outbox: OutboxSettings = field(default_factory=OutboxSettings)
    injection: InjectionSettings = field(default_factory=InjectionSettings)
    metrics: MetricsSettings = field(default_factory=MetricsSettings)
    tracing: TracingSettings = field(default_factory=TracingSettings)
    storage_path: Annotated[
        Path,
        Knob(
            "Folder of the state, below `openviking/`; DeerFlow injects it.",
            accepts="a folder; a relative one starts at DeerFlow's runtime home",
            private=True,
        ),
    ]

    def redacted_summary(self, *, api_key_set: bool) -> dict[str, bool | int | float | str | None]:
        """Flat view for logs and evidence archives: dotted configuration key -> value.

        Private settings (addresses, paths, identities, names of secrets, texts) are told as
        "set" or "unset" only; `api_key` and `account_alias` are added.
        """
        summary: dict[str, bool | int | float | str | None] = {}
        for found in knob_fields():
            holder: object = self if found.section is None else getattr(self, found.section)
            value = getattr(holder, found.attribute)
            if found.knob.private:
                summary[found.key] = "unset" if value is None else "set"
            elif isinstance(value, StrEnum):
                summary[found.key] = value.value
            elif isinstance(value, tuple):
                summary[found.key] = ",".join(cast("tuple[str, ...]", value))
            else:
                summary[found.key] = value
        summary["account_alias"] = self.auth.alias
        summary["api_key"] = "set" if api_key_set else "unset"
        return summary


@cache
def section_types() -> dict[str, type[Section]]:
    """Attribute of `Settings` -> class, for each group."""
    default = Settings(base_url="", storage_path=Path())
    values = {item.name: getattr(default, item.name) for item in fields(default)}
    return {name: type(value) for name, value in values.items() if isinstance(value, Section)}


@cache
def knob_fields() -> tuple[KnobField, ...]:
    """Every setting with its dotted configuration key, in the order of `Settings`."""
    plain = {found.attribute: found for found in section_fields(Settings)}
    groups = section_types()
    found: list[KnobField] = []
    for item in fields(Settings):
        if item.name in groups:
            found.extend(section_fields(groups[item.name], item.name))
        else:
            found.append(plain[item.name])
    return tuple(found)
