"""Settings of the backend: frozen groups with their defaults, units and ranges."""

from resilient_ov.settings.knob import Knob, KnobField, Section
from resilient_ov.settings.memory import (
    DEFAULT_INJECTION_QUERY,
    InjectionMode,
    InjectionSettings,
    MessageSettings,
    OutboxKind,
    OutboxSettings,
    RetrievalSettings,
    SessionSettings,
    StateKind,
    StateSettings,
    WatermarkSettings,
)
from resilient_ov.settings.resilience import (
    BreakerSettings,
    BudgetSettings,
    FailurePolicySettings,
    LimitSettings,
    ReadFailurePolicy,
    RetrySettings,
    ShutdownSettings,
    StartupPolicy,
    WriteFailurePolicy,
)
from resilient_ov.settings.root import Settings, knob_fields, section_types
from resilient_ov.settings.server import (
    DEFAULT_ACCOUNT,
    AuthMode,
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

__all__ = [
    "DEFAULT_ACCOUNT",
    "DEFAULT_INJECTION_QUERY",
    "AuthMode",
    "AuthSettings",
    "BreakerSettings",
    "BudgetSettings",
    "FailurePolicySettings",
    "InjectionMode",
    "InjectionSettings",
    "Knob",
    "KnobField",
    "LimitSettings",
    "MessageSettings",
    "MetricsSettings",
    "NamespaceSettings",
    "OutboxKind",
    "OutboxSettings",
    "ReadFailurePolicy",
    "RetrievalSettings",
    "RetrySettings",
    "Section",
    "ServerProfile",
    "SessionSettings",
    "Settings",
    "ShutdownSettings",
    "StartupPolicy",
    "StateKind",
    "StateSettings",
    "TimeoutSettings",
    "TlsSettings",
    "TracingSettings",
    "WatermarkSettings",
    "WriteFailurePolicy",
    "knob_fields",
    "section_types",
]
