"""When each alert fires and when it is silent: series, minute by minute, and what is expected.

Rule: a firing case lies above its limits by less than twice and is told before twice its `for`,
so that a doubled limit or a doubled `for` turns it silent.
"""

from dataclasses import dataclass, field

WHERE = 'job="resilient-ov",instance="gw:1"'
CALLS = "openviking_calls_total"
LATE = "openviking_deadline_overshoot_seconds"


@dataclass(frozen=True)
class Case:
    """`series` in promtool's notation, a value a minute; `fires` = labels of the alert.

    `says` is its description, `summary` its summary: given once for each alert.
    """

    alert: str
    about: str
    series: dict[str, str]
    at: str
    fires: dict[str, str] | None = None
    summary: str = ""
    says: str = ""
    window: str = ""
    every: str = "1m"
    labels: dict[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return f"{self.alert}-{self.window}" if self.window else self.alert


def one(name: str, values: str, **labels: str) -> dict[str, str]:
    told = "".join(f',{label}="{value}"' for label, value in labels.items())
    return {f"{name}{{{WHERE}{told}}}": values}


def recalls(per_minute: float, failing: float, minutes: int) -> dict[str, str]:
    """Steady traffic from the first minute on, a share of it failing."""
    good, bad = per_minute * (1 - failing), per_minute * failing
    return one(CALLS, f"0+{good:.6g}x{minutes}", call="get_context", outcome="ok") | one(
        CALLS, f"0+{bad:.6g}x{minutes}", call="search", outcome="degraded_unavailable"
    )


GATEWAY = {"job": "resilient-ov", "instance": "gw:1"}
JOB = {"job": "resilient-ov"}
FAST, SLOW = "OpenVikingRecallBudgetBurnsFast", "OpenVikingRecallBudgetBurnsSlowly"
BURNS = "Recalls of resilient-ov fail too often"
H, D = 60, 1440

BURNING = [
    Case(
        FAST,
        "a tenth of 90 calls an hour fails",
        recalls(1.5, 0.1, 3 * H),
        "2h",
        JOB,
        BURNS,
        "10% of the recalls of the last 1h were degraded; the objective allows 0.5%. At 14.4"
        " times that speed the error budget of 30 days lasts 2.1 days.",
        window="1h",
    ),
    Case(FAST, "all fail, after its time", recalls(100, 1, 10), "4m", JOB, window="1h"),
    Case(FAST, "all fail, before its time", recalls(100, 1, 10), "2m", window="1h"),
    Case(FAST, "10 calls an hour, all fail", recalls(10 / 60, 1, 3 * H), "2h", window="1h"),
    Case(FAST, "half the speed", recalls(10, 0.036, 3 * H), "2h", window="1h"),
    Case(
        FAST,
        "4 % of 90 calls an hour fail",
        recalls(1.5, 0.04, 13 * H),
        "12h",
        JOB,
        BURNS,
        "4% of the recalls of the last 6h were degraded; the objective allows 0.5%. At 6 times"
        " that speed the error budget of 30 days lasts 5 days.",
        window="6h",
        every="5m",
    ),
    Case(FAST, "all fail, after its time", recalls(100, 1, 60), "20m", JOB, window="6h"),
    Case(
        FAST,
        "10 calls an hour, one in ten fails",
        recalls(10 / 60, 0.1, 13 * H),
        "12h",
        window="6h",
        every="5m",
    ),
    Case(
        SLOW,
        "2 % of 9 calls an hour fail",
        recalls(0.15, 0.02, 27 * H),
        "26h",
        JOB,
        BURNS,
        "2% of the recalls of the last 1d were degraded; the objective allows 0.5%. At 3 times"
        " that speed the error budget of 30 days lasts 10 days.",
        window="1d",
        every="30m",
    ),
    Case(SLOW, "all fail, after its time", recalls(100, 1, 2 * H), "1h30m", JOB, window="1d"),
    Case(
        SLOW,
        "4 calls an hour, one in ten fails",
        recalls(4 / 60, 0.1, 27 * H),
        "26h",
        window="1d",
        every="30m",
    ),
    Case(
        SLOW,
        "0.8 % of 9 calls an hour fail",
        recalls(0.15, 0.008, 76 * H),
        "75h",
        JOB,
        BURNS,
        "0.8% of the recalls of the last 3d were degraded; the objective allows 0.5%. At 1 times"
        " that speed the error budget of 30 days lasts 30 days.",
        window="3d",
        every="30m",
    ),
    Case(
        SLOW,
        "all fail, after its time",
        recalls(100, 1, 5 * H),
        "4h",
        JOB,
        window="3d",
        every="5m",
    ),
    Case(
        SLOW,
        "30 days at four fifths of the budget",
        recalls(1, 0.004, 30 * D),
        "720h",
        window="3d",
        every="1h",
    ),
]
REASON = {**GATEWAY, "reason": "unavailable"}
CASES = [
    *BURNING,
    Case(
        "OpenVikingBreakerOpen",
        "open for a minute",
        one("openviking_breaker_state", "2x10", group="recall"),
        "1m",
        {**GATEWAY, "group": "recall"},
        "The recall breaker of resilient-ov on gw:1 is open",
        "OpenViking has failed long enough that recall requests are no longer sent (state 2: 2"
        " open, 1 probing). Agents go on without what that group does; it recovers without a"
        " restart.",
    ),
    Case(
        "OpenVikingBreakerOpen",
        "probing counts as open",
        one("openviking_breaker_state", "2 1 2 1", group="recall"),
        "3m",
        {**GATEWAY, "group": "recall"},
    ),
    Case(
        "OpenVikingBreakerOpen",
        "open for a moment",
        one("openviking_breaker_state", "0 2 0 0", group="recall"),
        "3m",
    ),
    Case(
        "OpenVikingAuthHold",
        "three refusals",
        one("openviking_attempts_total", "0 0 0 3 3 3 3", operation="search", outcome="auth")
        | one("openviking_refused_total", "0x10", group="recall", reason="auth_hold"),
        "5m",
        GATEWAY,
        "OpenViking refuses the key of resilient-ov on gw:1",
        "3 requests in 5 minutes were refused for their key or held back because of it. Put a"
        " valid key where the configuration says; it is picked up without a restart.",
    ),
    Case(
        "OpenVikingAuthHold",
        "two refusals and then success",
        one("openviking_attempts_total", "0 0 0 2 2 2 2", operation="search", outcome="auth")
        | one("openviking_refused_total", "0x10", group="recall", reason="auth_hold"),
        "5m",
    ),
    Case(
        "OpenVikingDegraded",
        "7 of 100 calls in 10 minutes",
        one("openviking_degraded_total", "0+0.7x40", reason="unavailable")
        | one(CALLS, "0+10x40", call="get_context", outcome="ok"),
        "30m",
        REASON,
        "Agents of resilient-ov on gw:1 go on without memory",
        "7% of the calls of 10 minutes went on without memory, reason unavailable.",
    ),
    Case(
        "OpenVikingDegraded",
        "a tenth, after its time",
        one("openviking_degraded_total", "0+10x40", reason="unavailable")
        | one(CALLS, "0+100x40", call="add", outcome="ok"),
        "4m",
        REASON,
    ),
    Case(
        "OpenVikingDegraded",
        "10 calls an hour, all of them",
        one("openviking_degraded_total", "0+0.1667x90", reason="unavailable")
        | one(CALLS, "0+0.1667x90", call="get_context", outcome="degraded_unavailable"),
        "1h",
    ),
    Case(
        "OpenVikingRecallSlow",
        "a tenth takes 1 to 2 s",
        one(f"{'openviking_call_duration_seconds'}_bucket", "0+9x40", call="search", le="1.0")
        | one("openviking_call_duration_seconds_bucket", "0+10x40", call="search", le="2.0")
        | one("openviking_call_duration_seconds_bucket", "0+10x40", call="search", le="+Inf"),
        "15m",
        {**GATEWAY, "call": "search"},
        "Recalls of resilient-ov on gw:1 are slow",
        "One in twenty search calls takes more than 1.5s; the agent's user waits that long for"
        " each answer.",
    ),
    Case(
        "OpenVikingRecallSlow",
        "nobody waits longer than 1 s",
        one("openviking_call_duration_seconds_bucket", "0+10x40", call="search", le="1.0")
        | one("openviking_call_duration_seconds_bucket", "0+10x40", call="search", le="+Inf"),
        "30m",
    ),
    Case(
        "OpenVikingRetryAmplification",
        "150 attempts for 140 requests",
        one("openviking_attempts_total", "0+15x40", operation="search", outcome="ok")
        | one("openviking_requests_total", "0+14x40", operation="search", status="ok"),
        "30m",
        GATEWAY,
        "resilient-ov on gw:1 retries a lot",
        "1.07 attempts for each request over 10 minutes. Part of the requests fail at first; the"
        " retry budget keeps this below 1.1.",
    ),
    Case(
        "OpenVikingRetryAmplification",
        "the same with much traffic, after its time",
        one("openviking_attempts_total", "0+1500x40", operation="search", outcome="ok")
        | one("openviking_requests_total", "0+1400x40", operation="search", status="ok"),
        "15m",
        GATEWAY,
    ),
    Case(
        "OpenVikingRetryAmplification",
        "10 calls an hour, each tried twice",
        one("openviking_attempts_total", "0+0.333x90", operation="search", outcome="ok")
        | one("openviking_requests_total", "0+0.1667x90", operation="search", status="ok"),
        "1h",
    ),
    Case(
        "OpenVikingRetryAmplification",
        "what was refused is no request",
        one("openviking_attempts_total", "0+20x40", operation="search", outcome="ok")
        | one("openviking_requests_total", "0+20x40", operation="search", status="ok")
        | one("openviking_requests_total", "0+90x40", operation="search", status="refused"),
        "30m",
    ),
    Case(
        "OpenVikingWritesLate",
        "400 s",
        one("openviking_oldest_pending_seconds", "400x10"),
        "1m",
        GATEWAY,
        "Writes of resilient-ov on gw:1 wait too long",
        "The oldest has waited for 6m 40s; promised is 300 s. What waits is in the memory of the"
        " process: do not restart it.",
    ),
    Case(
        "OpenVikingWritesLate",
        "200 s",
        one("openviking_oldest_pending_seconds", "200x10"),
        "5m",
    ),
    Case(
        "OpenVikingWritesDropped",
        "the queue was full",
        one("openviking_messages_dropped_total", "0 0 3 3 3", reason="queue_full"),
        "4m",
        {**GATEWAY, "reason": "queue_full"},
        "resilient-ov on gw:1 gave up messages",
        "About 3 messages in 10 minutes were given up, reason queue_full. They are not in memory"
        " and will not be.",
    ),
    Case(
        "OpenVikingWritesDropped",
        "an operator switched memory off",
        one("openviking_messages_dropped_total", "0 0 3 3 3", reason="disabled"),
        "4m",
    ),
    Case(
        "OpenVikingDuplicated",
        "two messages",
        one("openviking_messages_total", "0 0 2 2 2", result="duplicated"),
        "4m",
        GATEWAY,
        "Messages of resilient-ov on gw:1 are stored twice",
        "About 2 messages in an hour were found twice on the server: it applied a write long"
        " after its connection was closed.",
    ),
    Case(
        "OpenVikingDuplicated",
        "found after doubt is not twice",
        one("openviking_messages_total", "0 0 2 2 2", result="reconciled"),
        "4m",
    ),
    Case(
        "OpenVikingExtractionFailed",
        "three tasks",
        one("openviking_extraction_tasks_total", "0 1 2 3 3", status="failed"),
        "4m",
        GATEWAY,
        "OpenViking makes no memories of the sessions of resilient-ov on gw:1",
        "About 3 extraction tasks in an hour failed or expired. The messages are stored; no"
        " memory was made of them.",
    ),
    Case(
        "OpenVikingExtractionFailed",
        "one failed, many are done",
        one("openviking_extraction_tasks_total", "0 1 1 1 1", status="failed")
        | one("openviking_extraction_tasks_total", "0+9x5", status="completed"),
        "4m",
    ),
    Case(
        "OpenVikingCanaryLate",
        "rounds fail since it came round",
        one("openviking_canary_last_success_timestamp_seconds", "60x40")
        | one("openviking_canary_runs_total", "1+1x40", step="recall", outcome="failed"),
        "17m",
        GATEWAY,
        "The canary of resilient-ov on gw:1 does not come round",
        "It last came round 16m 0s ago. What is written is not stored, not extracted or not"
        " found again, whatever /health says.",
    ),
    Case(
        "OpenVikingCanaryLate",
        "never since the probe began; promtool's clock begins in 1970, so never is before it",
        one("openviking_canary_last_success_timestamp_seconds", "-2000000000x40")
        | one("openviking_canary_runs_total", "0x12 1x28", step="write", outcome="failed"),
        "20m",
        GATEWAY,
        "The canary of resilient-ov on gw:1 does not come round",
        "It has not come round since the probe began. What is written is not stored, not"
        " extracted or not found again, whatever /health says.",
    ),
    Case(
        "OpenVikingCanaryLate",
        "one round failed",
        one("openviking_canary_last_success_timestamp_seconds", "0x12 720x30")
        | one("openviking_canary_runs_total", "1x40", step="recall", outcome="ok"),
        "13m",
    ),
    Case(
        "OpenVikingCanaryLate",
        "a gateway without a probe",
        one("openviking_canary_last_success_timestamp_seconds", "0x40")
        | one("openviking_canary_runs_total", "0x40", step="recall", outcome="ok"),
        "30m",
    ),
    Case(
        "OpenVikingStateNotPersistent",
        "for a minute",
        one("openviking_state_persistent", "0x10"),
        "1m",
        GATEWAY,
        "resilient-ov on gw:1 cannot write its state",
        "The state folder cannot be written, so no message is sent: what was sent could not be"
        " remembered. Messages wait in memory.",
    ),
    Case(
        "OpenVikingStateNotPersistent",
        "for a moment",
        one("openviking_state_persistent", "1 0 1 1"),
        "3m",
    ),
    Case(
        "OpenVikingDeadlineOvershoot",
        "2 of 100 calls return 0.1 to 0.25 s late",
        one(f"{LATE}_bucket", "0+14.7x40", call="add", le="0.1")
        | one(f"{LATE}_bucket", "0+15x40", call="add", le="0.25")
        | one(f"{LATE}_bucket", "0+15x40", call="add", le="+Inf")
        | one(f"{LATE}_count", "0+15x40", call="add"),
        "30m",
        GATEWAY,
        "Calls of resilient-ov on gw:1 return after their deadline",
        "One call in a hundred returns more than 175ms after its deadline. The process or its"
        " machine is short of processor time.",
    ),
    Case(
        "OpenVikingDeadlineOvershoot",
        "the same with much traffic, after its time",
        one(f"{LATE}_bucket", "0+980x40", call="add", le="0.1")
        | one(f"{LATE}_bucket", "0+1000x40", call="add", le="0.25")
        | one(f"{LATE}_bucket", "0+1000x40", call="add", le="+Inf")
        | one(f"{LATE}_count", "0+1000x40", call="add"),
        "15m",
        GATEWAY,
    ),
    Case(
        "OpenVikingDeadlineOvershoot",
        "10 calls an hour, one of them late",
        one(f"{LATE}_bucket", "0+0.15x90", call="add", le="0.1")
        | one(f"{LATE}_bucket", "0+0.1667x90", call="add", le="0.25")
        | one(f"{LATE}_bucket", "0+0.1667x90", call="add", le="+Inf")
        | one(f"{LATE}_count", "0+0.1667x90", call="add"),
        "1h",
    ),
    Case(
        "OpenVikingTargetDown",
        "not scraped",
        one("up", "0x10"),
        "2m",
        GATEWAY,
        "No metrics of resilient-ov gw:1",
        "Prometheus cannot scrape it, or knows no such target: every other alert about it is"
        " blind.",
    ),
    Case("OpenVikingTargetDown", "no such target", {'up{job="other"}': "1x10"}, "3m", JOB),
    Case("OpenVikingTargetDown", "scraped", one("up", "1x10"), "5m"),
]
