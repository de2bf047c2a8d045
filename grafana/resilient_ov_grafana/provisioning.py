"""What surrounds dashboards and rules: Grafana's provisioning, Prometheus, Alertmanager.

No I/O here.
"""

from typing import Any, Final

from resilient_ov_grafana.targets import Targets

_CONSEQUENCES: Final = (
    "OpenVikingDegraded",
    "OpenVikingRecallSlow",
    "OpenVikingRecallBudgetBurnsSlowly",
    "OpenVikingDeadlineOvershoot",
    "OpenVikingRetryAmplification",
    "OpenVikingWritesLate",
    "OpenVikingCanaryLate",
)
"""What an open breaker explains; nobody needs to hear of it twice."""


def datasource() -> dict[str, Any]:
    """Return Grafana's data source; a dot of a trace leads to the source with uid ``tempo``."""
    return {
        "apiVersion": 1,
        "datasources": [
            {
                "name": "Prometheus",
                "uid": "prometheus",
                "type": "prometheus",
                "access": "proxy",
                "url": "http://prometheus:9090",
                "isDefault": True,
                "jsonData": {
                    "httpMethod": "POST",
                    "timeInterval": "15s",
                    "exemplarTraceIdDestinations": [
                        {"name": "trace_id", "datasourceUid": "tempo"},
                    ],
                },
            }
        ],
    }


def dashboard_provider() -> dict[str, Any]:
    """Return where Grafana finds the dashboards."""
    return {
        "apiVersion": 1,
        "providers": [
            {
                "name": "resilient-ov",
                "folder": "resilient-ov",
                "type": "file",
                "disableDeletion": True,
                "allowUiUpdates": False,
                "options": {"path": "/etc/grafana/resilient-ov/dashboards"},
            }
        ],
    }


def prometheus(targets: Targets) -> dict[str, Any]:
    """Return a Prometheus configuration; put your own addresses in."""
    return {
        "global": {"scrape_interval": "15s", "evaluation_interval": "15s"},
        "rule_files": ["rules/*.yml"],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": ["alertmanager:9093"]}]}]},
        "scrape_configs": [
            {
                "job_name": targets.job,
                "static_configs": [{"targets": ["agent:9464", "probe:9464"]}],
            },
            {"job_name": "openviking", "static_configs": [{"targets": ["server:1933"]}]},
        ],
    }


def alertmanager(targets: Targets) -> dict[str, Any]:
    """Return an Alertmanager configuration: who hears of what, and what silences what."""
    to = [{"url": targets.webhook_url, "send_resolved": True}]
    return {
        "route": {
            "receiver": "ticket",
            "group_by": ["alertname", "job"],
            "group_wait": targets.span(30),
            "group_interval": targets.span(300),
            "repeat_interval": "4h",
            "routes": [{"receiver": "page", "matchers": ['severity="critical"']}],
        },
        "receivers": [
            {"name": "page", "webhook_configs": to},
            {"name": "ticket", "webhook_configs": to},
        ],
        "inhibit_rules": [
            {
                "source_matchers": ['alertname="OpenVikingTargetDown"'],
                "target_matchers": [
                    'alertname=~"OpenViking.+"',
                    'alertname!="OpenVikingTargetDown"',
                ],
                "equal": ["job", "instance"],
            },
            {
                "source_matchers": ['alertname="OpenVikingBreakerOpen"'],
                "target_matchers": [f'alertname=~"{"|".join(_CONSEQUENCES)}"'],
                "equal": ["job"],
            },
        ],
    }
