"""Settings of what happens when the server fails: budgets, retries, breakers, limits.

No I/O and no validation here: values are checked once, where the configuration comes in.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from resilient_ov.settings.knob import Knob, Section

_MIB = 1024 * 1024
_GIB = 1024 * _MIB


class StartupPolicy(StrEnum):
    """What `warm` does when the server does not answer."""

    FAIL_FAST = "fail_fast"
    WARN = "warn"


class ReadFailurePolicy(StrEnum):
    """What a failed read does to the agent. The configuration spells FAIL_FAST also fail_closed."""

    FAIL_OPEN = "fail_open"
    FAIL_FAST = "fail_fast"


class WriteFailurePolicy(StrEnum):
    """What a failed write does to the agent's call; the writer goes on delivering either way."""

    LOG_AND_DROP = "log_and_drop"
    FAIL_FAST = "fail_fast"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class BudgetSettings(Section):
    """Total deadline of one call: queueing, locks, retries and all its requests included."""

    get_context_s: Annotated[float, Knob("Deadline of `get_context`.", 0.05, 120)] = 2.0
    search_s: Annotated[float, Knob("Deadline of `search`.", 0.05, 120)] = 3.0
    add_s: Annotated[
        float, Knob("Deadline of `add`, and of each delivery of the writer.", 0.5, 120)
    ] = 3.0
    warm_s: Annotated[float, Knob("Deadline of `warm`.", 0.05, 120)] = 3.0
    health_s: Annotated[float, Knob("Deadline of a health request.", 0.05, 120)] = 1.0


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ShutdownSettings(Section):
    """How the process leaves."""

    flush_timeout_s: Annotated[
        float,
        Knob(
            "Drain at shutdown; the host's own limit wins when smaller.",
            0,
            300,
            key="shutdown_flush_timeout_seconds",
        ),
    ] = 20.0
    atexit: Annotated[
        bool, Knob("Drain up to 2 s at exit when the host never calls `shutdown_flush`.")
    ] = True


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class FailurePolicySettings(Section):
    """What the agent sees when memory fails."""

    read: Annotated[
        ReadFailurePolicy,
        Knob(
            "A failed read returns nothing, or raises.",
            accepts="fail_open, fail_fast, fail_closed (= fail_fast)",
        ),
    ] = ReadFailurePolicy.FAIL_OPEN
    write: Annotated[
        WriteFailurePolicy,
        Knob("A failed write is logged, or raises; the writer goes on delivering."),
    ] = WriteFailurePolicy.LOG_AND_DROP


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RetrySettings(Section):
    """Further attempts inside the deadline."""

    max_attempts: Annotated[int, Knob("Attempts of one request, the first included.", 1, 5)] = 2
    initial_s: Annotated[float, Knob("First back-off, before full jitter.", 0, 60)] = 0.05
    max_s: Annotated[float, Knob("Longest back-off, before full jitter.", 0, 60)] = 1.0
    attempt_s: Annotated[
        float | None,
        Knob("Cap of one attempt; null = the budget, so a hang is not retried.", 0.05, 120),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class BreakerSettings(Section):
    """When a group of operations stops calling the server, and for how long. Per process."""

    failure_rate: Annotated[float, Knob("Opens at this share of failures.", 0.01, 1)] = 0.5
    minimum_calls: Annotated[
        int, Knob("Samples in the window before a rate counts.", 1, 10_000)
    ] = 10
    window_s: Annotated[float, Knob("Length of the sample window.", 1, 3_600)] = 30.0
    consecutive_failures: Annotated[int, Knob("Opens after this many in a row.", 1, 1_000)] = 5
    consecutive_timeouts: Annotated[
        int, Knob("Opens after this many timeouts in a row.", 1, 1_000)
    ] = 3
    slow_call_s: Annotated[
        float | None, Knob("An answer this slow is a slow call; null = off.", 0.01, 120)
    ] = None
    slow_call_rate: Annotated[float, Knob("Opens at this share of slow calls.", 0.01, 1)] = 1.0
    open_s: Annotated[float, Knob("First open period; doubles while probes fail.", 0.1, 600)] = 5.0
    max_open_s: Annotated[
        float,
        Knob("Longest open period.", 0.1, 3_600, accepts="breaker.open_seconds..3600"),
    ] = 30.0
    min_evidence_s: Annotated[
        float, Knob("A deadline cut with less time than this on the wire proves nothing.", 0, 10)
    ] = 0.25


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LimitSettings(Section):
    """Bounds per process: multiply by the number of workers."""

    max_connections: Annotated[int, Knob("Connections of one pool.", 1, 1_000)] = 20
    max_keepalive: Annotated[
        int,
        Knob(
            "Idle connections kept for 4 s.",
            1,
            1_000,
            accepts="1..1000, at most limits.max_connections",
        ),
    ] = 10
    read_in_flight: Annotated[int, Knob("Reads on the wire at once.", 1, 1_000)] = 16
    sync_read_in_flight: Annotated[
        int | None,
        Knob(
            "Sync reads at once; null = min(32, cpu + 4) - 2, which leaves two threads of the"
            " host's executor free.",
            1,
            1_000,
        ),
    ] = None
    write_in_flight: Annotated[int, Knob("Other requests on the wire at once.", 1, 1_000)] = 8
    write_queue: Annotated[int, Knob("Calls waiting for the writer.", 1, 100_000)] = 1_000
    write_queue_bytes: Annotated[
        int, Knob("Text waiting for the writer, in bytes.", _MIB, _GIB)
    ] = 64 * _MIB
