"""Settings of what can be watched: metrics and spans.

No I/O and no validation here: values are checked once, where the configuration comes in.
"""

from dataclasses import dataclass
from typing import Annotated

from resilient_ov.settings.knob import Knob, Section


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MetricsSettings(Section):
    """Prometheus metrics."""

    enabled: Annotated[bool, Knob("Record metrics.")] = True
    port: Annotated[
        int | None, Knob("Port of our own exporter, bound at first use; null = none.", 1, 65_535)
    ] = None
    host: Annotated[str, Knob("Address of our own exporter.", accepts="a host name or address")] = (
        "127.0.0.1"
    )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TracingSettings(Section):
    """OpenTelemetry spans; they join whatever provider the host has set."""

    enabled: Annotated[bool, Knob("One span per manager call.")] = True
    http_spans: Annotated[bool, Knob("One client span per attempt.")] = False
