"""``python -m resilient_ov_grafana.generate``: writes everything that is shipped.

Rule: the same targets give the same bytes; tests compare them with what is committed.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from resilient_ov_grafana.dashboards.delivery import delivery
from resilient_ov_grafana.dashboards.frame import Board
from resilient_ov_grafana.dashboards.overview import overview
from resilient_ov_grafana.dashboards.resilience import resilience
from resilient_ov_grafana.dashboards.side_by_side import side_by_side
from resilient_ov_grafana.provisioning import (
    alertmanager,
    dashboard_provider,
    datasource,
    prometheus,
)
from resilient_ov_grafana.rules.alerts import alerts
from resilient_ov_grafana.rules.recording import recording_rules
from resilient_ov_grafana.targets import Targets

SHIPPED: Final = Path(__file__).parent / "shipped"
_HEAD: Final = "# Made by resilient_ov_grafana; change its code or export with other options.\n"


def boards(targets: Targets) -> tuple[Board, ...]:
    """Return every dashboard."""
    return overview(targets), resilience(), delivery(targets), side_by_side()


def files(targets: Targets) -> Mapping[str, str]:
    """Return every file: path below the folder -> text."""
    recording = {"groups": [{"name": "resilient-ov.recording", "rules": recording_rules(targets)}]}
    alerting = {
        "groups": [
            {
                "name": "resilient-ov.alerts",
                "rules": [alert.rule(targets) for alert in alerts(targets)],
            }
        ]
    }
    dashboards = {f"dashboards/{board.uid}.json": board.json() for board in boards(targets)}
    return {
        **dashboards,
        "prometheus/rules/resilient-ov-recording.yml": in_yaml(recording),
        "prometheus/rules/resilient-ov-alerts.yml": in_yaml(alerting),
        "prometheus/prometheus.yml": in_yaml(prometheus(targets)),
        "alertmanager/alertmanager.yml": in_yaml(alertmanager(targets)),
        "grafana/provisioning/datasources/resilient-ov.yml": in_yaml(datasource()),
        "grafana/provisioning/dashboards/resilient-ov.yml": in_yaml(dashboard_provider()),
    }


def write(made: Mapping[str, str], folder: Path) -> None:
    """Write files below a folder, which is made when missing."""
    for name, text in made.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


_YAML: Any = yaml
"""Its types are partly unknown."""


class _Dumper(yaml.SafeDumper):
    """Writes a text of several lines as one, and never an alias."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - no alias, whatever it is
        return True


def _text(dumper: Any, text: str) -> Any:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def in_yaml(data: object) -> str:
    """Return data as YAML under the notice of where it is from."""
    body: str = _YAML.dump(data, Dumper=_Dumper, sort_keys=False, width=10_000, allow_unicode=True)
    return _HEAD + body


if __name__ == "__main__":
    write(files(Targets()), SHIPPED)
