"""The compose file and the provisioning: valid, pinned, healthchecked, and they fit together."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import yaml
from typer.testing import CliRunner

from grafana.tests.expressions import GRAFANA, SHIPPED
from resilient_ov_manager.cli import app
from resilient_ov_manager.commands import check_loop
from resilient_ov_manager.host_config import parse_config

CHAOS = GRAFANA.parent / "chaos"
FILE = CHAOS / "compose.yaml"
COMPOSE = yaml.safe_load(FILE.read_text("utf-8"))
SERVICES = COMPOSE["services"]
MADE_BY_THE_USER = {CHAOS / "ov.conf"}


def read(name: str):
    return yaml.safe_load((SHIPPED / name).read_text("utf-8"))


def valid(path: Path) -> bool:
    program = Path(sys.executable).with_name("check-jsonschema")
    command = [program, "--builtin-schema", "vendor.compose-spec", path]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_it_is_a_compose_file() -> None:
    assert valid(FILE)


def test_what_is_no_compose_file_is_refused(tmp_path) -> None:
    other = tmp_path / "compose.yaml"
    other.write_text(FILE.read_text("utf-8").replace("healthcheck:", "healthchecks:", 1))
    assert not valid(other)


def test_every_image_is_pinned_and_every_service_has_a_healthcheck() -> None:
    tags = {name: service["image"].rpartition(":")[2] for name, service in SERVICES.items()}
    assert all(any(digit.isdigit() for digit in tag) and "." in tag for tag in tags.values())
    assert all("test" in service["healthcheck"] for service in SERVICES.values())


def test_ports_are_on_loopback_only() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def mounts() -> list[tuple[Path, str]]:
    told = [volume for service in SERVICES.values() for volume in service.get("volumes", [])]
    split = [volume.split(":") for volume in told if volume.startswith(".")]
    return [((CHAOS / source).resolve(), target) for source, target, *_ in split]


def test_what_is_mounted_exists() -> None:
    assert [
        path for path, _ in mounts() if not path.exists() and path not in MADE_BY_THE_USER
    ] == []


def test_grafana_finds_the_dashboards_where_they_are_mounted() -> None:
    (provider,) = read("grafana/provisioning/dashboards/resilient-ov.yml")["providers"]
    assert dict(map(reversed, mounts()))[provider["options"]["path"]] == SHIPPED / "dashboards"


def test_addresses_are_services_of_the_file() -> None:
    prometheus = read("prometheus/prometheus.yml")
    jobs = [*prometheus["scrape_configs"], *prometheus["alerting"]["alertmanagers"]]
    asked = [
        address for job in jobs for found in job["static_configs"] for address in found["targets"]
    ]
    (source,) = read("grafana/provisioning/datasources/resilient-ov.yml")["datasources"]
    asked.append(source["url"].removeprefix("http://"))
    assert {address.partition(":")[0] for address in asked} <= SERVICES.keys()


def test_the_probe_shows_its_metrics_where_prometheus_asks(monkeypatch) -> None:
    asked = {}
    monkeypatch.setattr(check_loop, "check_loop", lambda *words, **named: asked.update(named))
    line = SERVICES["probe"]["command"][-1].partition("exec resilient-ov ")[2]
    ended = CliRunner().invoke(app, shlex.split(line), catch_exceptions=False)
    assert ended.exit_code == 0
    assert asked == {"host": "0.0.0.0", "port": 9464}
    assert f"probe:{asked['port']}" in (SHIPPED / "prometheus" / "prometheus.yml").read_text()


def test_the_agents_configuration_is_accepted(monkeypatch) -> None:
    settings = parse_config(json.loads(COMPOSE["configs"]["agent"]["content"]))
    assert settings.metrics.port == 9464
