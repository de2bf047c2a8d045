"""All faults by name, in the order they are run.

Those that trip the hold for a refused key come last. Every scenario has processes of its own, so
no hold or open breaker reaches another one.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from resilient_ov_chaos.faults import (
    absent_at_start,
    bandwidth,
    blackhole,
    client_killed,
    client_stopped,
    clock_step,
    cut_off,
    disk_full,
    down,
    drip,
    embedder_outage,
    flapping,
    foreign_hits,
    html_page,
    jitter,
    late_effect,
    latency,
    limit_data,
    rate_limited,
    reply_lost,
    reset_peer,
    server_killed,
    server_stopped,
    silence,
    slow_close,
    unavailable,
    wrong_key,
)
from resilient_ov_chaos.faults.fault import Fault

_FILES: Final = (
    latency,
    jitter,
    slow_close,
    clock_step,
    bandwidth,
    drip,
    silence,
    cut_off,
    reset_peer,
    limit_data,
    down,
    flapping,
    blackhole,
    absent_at_start,
    reply_lost,
    late_effect,
    server_stopped,
    server_killed,
    client_stopped,
    client_killed,
    unavailable,
    rate_limited,
    html_page,
    embedder_outage,
    disk_full,
    foreign_hits,
    wrong_key,
)

FAULTS: Final[Mapping[str, Fault]] = MappingProxyType(
    {file.FAULT.name: file.FAULT for file in _FILES}
)

SHORT: Final = (
    "drip",
    "silence",
    "reset_peer",
    "down",
    "flapping",
    "reply_lost",
    "late_effect",
    "server_stopped",
    "client_killed",
    "unavailable",
    "embedder_outage",
    "disk_full",
)
"""What every commit is tried with; the others are variations of these."""
