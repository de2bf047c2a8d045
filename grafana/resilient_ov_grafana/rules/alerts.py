"""Every other alert: what a server does to us, what becomes of writes, our own health.

No I/O here.
"""

from typing import Final

from resilient_ov_grafana.promql import READS, WRITES
from resilient_ov_grafana.rules.alert import Alert, Severity
from resilient_ov_grafana.rules.burning import burning
from resilient_ov_grafana.rules.recording import P95
from resilient_ov_grafana.targets import CANARY_LATE_S, Targets

_OVERVIEW: Final = "resilient-ov-overview"
_RESILIENCE: Final = "resilient-ov-resilience"
_DELIVERY: Final = "resilient-ov-delivery"
_WHERE: Final = "{{ $labels.job }} on {{ $labels.instance }}"


def alerts(targets: Targets) -> list[Alert]:
    """Return all alerts."""
    return [*burning(targets), *_server(targets), *_writes(targets), *_ourselves(targets)]


def _increase(metric: str, span: str, by: str = "job, instance") -> str:
    return f"sum by ({by}) (increase({metric}[{span}]))"


def _server(targets: Targets) -> list[Alert]:
    five, ten = targets.span(300), targets.span(600)
    attempts = _increase("openviking_attempts_total", ten)
    sent = _increase('openviking_requests_total{status!="refused"}', ten)
    chosen = f'call=~"{READS}|{WRITES}"'
    calls = _increase(f"openviking_calls_total{{{chosen}}}", ten)
    refused = 'openviking_attempts_total{outcome="auth"}'
    held = 'openviking_refused_total{reason="auth_hold"}'
    degraded = _increase("openviking_degraded_total", ten, "job, instance, reason")
    return [
        Alert(
            name="OpenVikingBreakerOpen",
            severity=Severity.CRITICAL,
            summary=f"The {{{{ $labels.group }}}} breaker of {_WHERE} is open",
            description="OpenViking has failed long enough that {{ $labels.group }} requests are"
            " no longer sent (state {{ $value }}: 2 open, 1 probing). Agents go on without what"
            " that group does; it recovers without a restart.",
            board=_RESILIENCE,
            expr="max by (job, instance, group) (openviking_breaker_state) > 0",
            for_s=60,
            keep_s=60,
        ),
        Alert(
            name="OpenVikingAuthHold",
            severity=Severity.CRITICAL,
            summary=f"OpenViking refuses the key of {_WHERE}",
            description='{{ printf "%.0f" $value }} requests in 5 minutes were refused for their'
            " key or held back because of it. Put a valid key where the configuration says; it is"
            " picked up without a restart.",
            board=_RESILIENCE,
            expr=(f"{_increase(refused, five)}\n+ {_increase(held, five)}\n> $limits[requests]\n"),
            limits={"requests": 2},
        ),
        Alert(
            name="OpenVikingDegraded",
            severity=Severity.WARNING,
            summary=f"Agents of {_WHERE} go on without memory",
            description="{{ $value | humanizePercentage }} of the calls of 10 minutes went on"
            " without memory, reason {{ $labels.reason }}.",
            board=_OVERVIEW,
            expr=(
                f"{degraded}\n/ ignoring(reason) group_left ()\n{calls}\n> $limits[share]\n"
                f"and {degraded} >= $limits[calls]\n"
            ),
            limits={"share": 0.05, "calls": 5},
            for_s=120,
        ),
        Alert(
            name="OpenVikingRecallSlow",
            severity=Severity.WARNING,
            summary=f"Recalls of {_WHERE} are slow",
            description="One in twenty {{ $labels.call }} calls takes more than"
            " {{ $value | humanizeDuration }}; the agent's user waits that long for each answer.",
            board="resilient-ov-side-by-side",
            expr=f'{P95}{{call=~"{READS}"}} > $limits[seconds]',
            limits={"seconds": 1.0},
            for_s=600,
        ),
        Alert(
            name="OpenVikingRetryAmplification",
            severity=Severity.WARNING,
            summary=f"{_WHERE} retries a lot",
            description='{{ printf "%.2f" $value }} attempts for each request over 10 minutes.'
            " Part of the requests fail at first; the retry budget keeps this below 1.1.",
            board=_RESILIENCE,
            expr=(
                f"{attempts}\n/ {sent}\n> $limits[attempts_per_request]\n"
                f"and {attempts} >= $limits[attempts]\n"
            ),
            limits={"attempts_per_request": 1.05, "attempts": 100},
            for_s=600,
        ),
    ]


def _writes(targets: Targets) -> list[Alert]:
    ten, hour = targets.span(600), targets.span(3_600)
    dropped = 'openviking_messages_dropped_total{reason!~"disabled|purged"}'
    duplicated = 'openviking_messages_total{result="duplicated"}'
    failed = 'openviking_extraction_tasks_total{status=~"failed|expired"}'
    last = "openviking_canary_last_success_timestamp_seconds"
    return [
        Alert(
            name="OpenVikingWritesLate",
            severity=Severity.CRITICAL,
            summary=f"Writes of {_WHERE} wait too long",
            description="The oldest has waited for {{ $value | humanizeDuration }}; promised is"
            f" {targets.delivery_seconds:g} s. What waits is in the memory of the process: do not"
            " restart it.",
            board=_DELIVERY,
            expr="max by (job, instance) (openviking_oldest_pending_seconds) > $limits[seconds]",
            limits={"seconds": targets.delivery_seconds / targets.faster},
            for_s=60,
        ),
        Alert(
            name="OpenVikingWritesDropped",
            severity=Severity.CRITICAL,
            summary=f"{_WHERE} gave up messages",
            description='About {{ printf "%.0f" $value }} messages in 10 minutes were given up,'
            " reason {{ $labels.reason }}. They are not in memory and will not be.",
            board=_DELIVERY,
            expr=f"{_increase(dropped, ten, 'job, instance, reason')} > 0",
        ),
        Alert(
            name="OpenVikingDuplicated",
            severity=Severity.WARNING,
            summary=f"Messages of {_WHERE} are stored twice",
            description='About {{ printf "%.0f" $value }} messages in an hour were found twice on'
            " the server: it applied a write long after its connection was closed.",
            board=_DELIVERY,
            expr=f"{_increase(duplicated, hour)} > 0",
        ),
        Alert(
            name="OpenVikingExtractionFailed",
            severity=Severity.WARNING,
            summary=f"OpenViking makes no memories of the sessions of {_WHERE}",
            description='About {{ printf "%.0f" $value }} extraction tasks in an hour failed or'
            " expired. The messages are stored; no memory was made of them.",
            board=_DELIVERY,
            expr=f"{_increase(failed, hour)} > $limits[tasks]",
            limits={"tasks": 2},
        ),
        Alert(
            name="OpenVikingCanaryLate",
            severity=Severity.CRITICAL,
            summary=f"The canary of {_WHERE} does not come round",
            description="{{ if gt $value 1e9 }}It has not come round since the probe began"
            "{{ else }}It last came round {{ $value | humanizeDuration }} ago{{ end }}. What is"
            " written is not stored, not extracted or not found again, whatever /health says.",
            board=_OVERVIEW,
            # A gateway's page has the series too, but no runs.
            expr=(
                f"time() - max by (job, instance) ({last}) > $limits[seconds]\n"
                "and sum by (job, instance) (openviking_canary_runs_total) > 0\n"
            ),
            limits={"seconds": CANARY_LATE_S / targets.faster},
            # A probe that was restarted has forgotten its last success; a round takes minutes.
            for_s=300,
        ),
        Alert(
            name="OpenVikingStateNotPersistent",
            severity=Severity.CRITICAL,
            summary=f"{_WHERE} cannot write its state",
            description="The state folder cannot be written, so no message is sent: what was sent"
            " could not be remembered. Messages wait in memory.",
            board=_DELIVERY,
            expr="min by (job, instance) (openviking_state_persistent) == 0",
            for_s=60,
        ),
    ]


def _ourselves(targets: Targets) -> list[Alert]:
    ten = targets.span(600)
    late = "openviking_deadline_overshoot_seconds"
    rate = f"sum by (job, instance, le) (rate({late}_bucket[{ten}]))"
    up = f'up{{job="{targets.job}"}}'
    return [
        Alert(
            name="OpenVikingDeadlineOvershoot",
            severity=Severity.WARNING,
            summary=f"Calls of {_WHERE} return after their deadline",
            description="One call in a hundred returns more than {{ $value | humanizeDuration }}"
            " after its deadline. The process or its machine is short of processor time.",
            board=_OVERVIEW,
            expr=(
                f"histogram_quantile(0.99, {rate}) > $limits[seconds]\n"
                f"and {_increase(f'{late}_count', ten)} >= $limits[calls]\n"
            ),
            limits={"seconds": 0.1, "calls": 100},
            for_s=600,
        ),
        Alert(
            name="OpenVikingTargetDown",
            severity=Severity.CRITICAL,
            summary="No metrics of {{ $labels.job }} {{ $labels.instance }}",
            description="Prometheus cannot scrape it, or knows no such target: every other alert"
            " about it is blind.",
            board=_OVERVIEW,
            expr=f"{up} == 0 or absent({up})",
            for_s=120,
        ),
    ]
