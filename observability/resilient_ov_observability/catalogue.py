"""Every metric there is; the sinks, `METRICS.md`, dashboards and alerts are made from this list.

No I/O here except for `python -m resilient_ov_observability.catalogue`, which prints METRICS.md.
"""

from collections.abc import Mapping
from types import MappingProxyType

from resilient_ov.domain.exchange import Operation
from resilient_ov.events import (
    AttemptOutcome,
    BreakerState,
    Call,
    CallOutcome,
    CanaryOutcome,
    CanaryStep,
    CommitStatus,
    DegradeReason,
    DropReason,
    ExtractionStatus,
    Group,
    MessageResult,
    OperationStatus,
    RebaseReason,
    ReconciliationResult,
    RefusalReason,
    RetryReason,
    SinkName,
    StateErrorReason,
    SwitchMode,
)
from resilient_ov.settings.server import ServerProfile
from resilient_ov_observability.metric import GaugeMode, Kind, Label, Metric
from resilient_ov_observability.version import VERSION

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 2.0, 3.0, 5.0, 10.0)
"""Edges on the default budgets and limits, so that a quantile at a budget is exact."""
HITS = (0.0, 1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 20.0, 50.0, 100.0)
"""Edges for numbers of hits: default and greatest top_k are among them."""
CHARACTERS = (0.0, 250.0, 500.0, 1_000.0, 2_000.0, 4_000.0, 8_000.0, 12_000.0, 50_000.0, 100_000.0)
"""Edges for injected text: default and greatest max_injection_chars are among them."""

_CALL = Label.of("call", Call)
_OPERATION = Label.of("operation", Operation)
_GROUP = Label.of("group", Group)
_GUARDED = Label.of("group", [group for group in Group if group is not Group.HOST])
_REFUSAL = Label.of("reason", RefusalReason)


def _counter(name: str, help_text: str, *labels: Label, distinct: bool = False) -> Metric:
    return Metric(name=name, kind=Kind.COUNTER, help=help_text, labels=labels, distinct=distinct)


def _histogram(name: str, help_text: str, edges: tuple[float, ...], *labels: Label) -> Metric:
    return Metric(name=name, kind=Kind.HISTOGRAM, help=help_text, labels=labels, edges=edges)


def _gauge(
    name: str,
    help_text: str,
    mode: GaugeMode,
    *labels: Label,
    initial: float | None = 0.0,
    survives_fork: bool = False,
) -> Metric:
    return Metric(
        name=name,
        kind=Kind.GAUGE,
        help=help_text,
        labels=labels,
        mode=mode,
        initial=initial,
        survives_fork=survives_fork,
    )


_ROWS = (
    # -- what the agent saw
    _counter(
        "openviking_calls_total",
        "Calls of the memory manager, by what the agent got.",
        _CALL,
        Label.of("outcome", CallOutcome),
    ),
    _histogram(
        "openviking_call_duration_seconds",
        "Time the agent waited for a call of the memory manager.",
        SECONDS,
        _CALL,
    ),
    _histogram(
        "openviking_deadline_overshoot_seconds",
        "Time by which a call returned after its deadline; 0 for a call inside its budget.",
        SECONDS,
        _CALL,
    ),
    _counter(
        "openviking_degraded_total",
        "Calls that went on without memory, by reason.",
        Label.of("reason", DegradeReason),
    ),
    # -- operations and attempts
    _counter(
        "openviking_requests_total",
        "Operation calls to the server, retries included, by how they ended.",
        _OPERATION,
        Label.of("status", OperationStatus),
    ),
    _histogram(
        "openviking_request_duration_seconds",
        "Duration of an operation call, retries and waits included.",
        SECONDS,
        _OPERATION,
    ),
    _counter(
        "openviking_attempts_total",
        "Attempts on the wire, by how they ended.",
        _OPERATION,
        Label.of("outcome", AttemptOutcome),
    ),
    _counter(
        "openviking_retries_total",
        "Further attempts that were scheduled, by why.",
        _OPERATION,
        Label.of("reason", RetryReason),
    ),
    _counter(
        "openviking_retry_budget_exhausted_total",
        "Retries that were due but found the shared budget empty.",
    ),
    _gauge(
        "openviking_last_success_timestamp_seconds",
        "When the operation last succeeded, in Unix time (to the second); 0 before the first.",
        GaugeMode.MAX,
        _OPERATION,
        survives_fork=True,
    ),
    # -- policy
    _gauge(
        "openviking_breaker_state",
        "State of the breaker: 0 closed, 1 half-open, 2 open.",
        GaugeMode.LIVEMAX,
        _GROUP,
    ),
    _counter(
        "openviking_breaker_transitions_total",
        "Changes of a breaker's state.",
        _GROUP,
        Label.of("from_state", BreakerState),
        Label.of("to_state", BreakerState),
        distinct=True,
    ),
    _counter(
        "openviking_refused_total",
        "Requests that were never sent, by why.",
        _GROUP,
        _REFUSAL,
    ),
    _counter(
        "openviking_would_refuse_total",
        "Requests sent under the switch 'shadow' that would have been refused otherwise.",
        _GROUP,
        _REFUSAL,
    ),
    _gauge(
        "openviking_in_flight",
        "Requests inside the bulkhead of their group right now.",
        GaugeMode.LIVESUM,
        _GUARDED,
    ),
    _gauge(
        "openviking_switch_state",
        "1 for the mode the group is in, 0 for the others.",
        GaugeMode.LIVEMAX,
        _GUARDED,
        Label.of("mode", SwitchMode),
        survives_fork=True,
    ),
    # -- writing
    _counter(
        "openviking_commit_total",
        "Commits of a session, by how they ended.",
        Label.of("status", CommitStatus),
    ),
    _counter(
        "openviking_messages_total",
        "Messages, by what became of them.",
        Label.of("result", [*MessageResult, "dropped"]),
    ),
    _counter(
        "openviking_messages_dropped_total",
        "Messages given up, by why.",
        Label.of("reason", DropReason),
    ),
    _counter(
        "openviking_reconciliations_total",
        "Looks at the server that judged a batch whose outcome was unknown.",
        Label.of("result", ReconciliationResult),
    ),
    _counter(
        "openviking_watermark_rebases_total",
        "Corrections of what is known to be stored, by why.",
        Label.of("reason", RebaseReason),
    ),
    _counter(
        "openviking_extraction_tasks_total",
        "Extraction tasks seen at their end.",
        Label.of("status", ExtractionStatus),
    ),
    _gauge(
        "openviking_in_doubt_batches",
        "Batches whose outcome is unknown.",
        GaugeMode.LIVEMAX,
    ),
    _gauge(
        "openviking_pending_writes",
        "Messages that wait in this process for delivery.",
        GaugeMode.LIVESUM,
    ),
    _gauge(
        "openviking_pending_commits",
        "Sessions that wait for a commit; told by the holder of the sweeper lock.",
        GaugeMode.LIVEMAX,
    ),
    _gauge(
        "openviking_oldest_pending_seconds",
        "Age of the oldest thing that waits; told by the holder of the sweeper lock.",
        GaugeMode.LIVEMAX,
    ),
    _counter(
        "openviking_state_errors_total",
        "Troubles with the state on disk, by kind.",
        Label.of("reason", StateErrorReason),
    ),
    _gauge(
        "openviking_state_persistent",
        "1 when state can be written, 0 when writing waits because it cannot.",
        GaugeMode.LIVEMIN,
        initial=1.0,
        survives_fork=True,
    ),
    # -- reading
    _histogram(
        "openviking_search_results",
        "Hits kept of an answered search.",
        HITS,
        Label.of("operation", [Operation.SEARCH]),
    ),
    _histogram(
        "openviking_injection_chars",
        "Characters of memory handed to the agent's prompt.",
        CHARACTERS,
    ),
    _counter(
        "openviking_hits_rejected_total",
        "Hits thrown away because they lay outside what the user may see.",
    ),
    _counter(
        "openviking_stale_reads_total",
        "Reads answered from an earlier good answer.",
    ),
    # -- health
    _gauge(
        "openviking_up",
        "1 when the server answers, 0 when a breaker is open, an auth hold stands or the last 3 "
        "attempts failed, NaN before the first attempt.",
        GaugeMode.LIVEMIN,
        initial=float("nan"),
        survives_fork=True,
    ),
    _counter(
        "openviking_pool_healed_total",
        "Poisoned connection pools that were replaced.",
    ),
    _counter(
        "openviking_sink_errors_total",
        "Events a sink failed to take, and listeners that raised.",
        Label.of("sink", SinkName),
    ),
    _counter(
        "openviking_canary_runs_total",
        "Steps of the looping check.",
        Label.of("step", CanaryStep),
        Label.of("outcome", CanaryOutcome),
    ),
    _gauge(
        "openviking_canary_last_success_timestamp_seconds",
        "When the looping check last came round, in Unix time; 0 before the first time.",
        GaugeMode.MAX,
        survives_fork=True,
    ),
    _gauge(
        "openviking_client_info",
        "Always 1; version of this client and the server profile it speaks.",
        GaugeMode.MAX,
        Label.of("version", [VERSION]),
        Label.of("server_profile", ServerProfile),
        initial=None,
        survives_fork=True,
    ),
)

CATALOGUE: Mapping[str, Metric] = MappingProxyType({metric.name: metric for metric in _ROWS})
"""Every metric by its name, in the order of the page."""

if __name__ == "__main__":
    from resilient_ov_observability.metrics_document import document

    print(document(CATALOGUE.values()), end="")
