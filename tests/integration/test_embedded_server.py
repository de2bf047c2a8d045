"""The embedded server as a thread of this process."""

import http.client
import logging
import time
from pathlib import Path

import httpx
import pytest

from resilient_ov.embedded import EmbeddedServer, EmbeddedSettings, serve

IDENTITY = {
    "X-API-Key": "root-key",
    "X-OpenViking-Account": "acme",
    "X-OpenViking-User": "alice",
}


def _settings(data_dir: Path) -> EmbeddedSettings:
    return EmbeddedSettings(data_dir=data_dir, root_key="root-key")


def test_it_restarts_on_its_port_with_its_data(tmp_path: Path) -> None:
    server = EmbeddedServer(_settings(tmp_path))
    with pytest.raises(RuntimeError, match="no port yet"):
        _ = server.url
    server.start()
    url = server.url
    with httpx.Client(base_url=url, headers=IDENTITY) as client:
        client.get("/api/v1/sessions/s1?auto_create=true").raise_for_status()
        server.stop()
        server.stop()
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{url}/health")
        server.start()
        assert server.url == url
        assert httpx.get(f"{url}/api/v1/sessions/s1", headers=IDENTITY).status_code == 200
        with pytest.raises(RuntimeError, match="is running"):
            server.start()
    server.stop()


def test_a_taken_port_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    with EmbeddedServer(_settings(tmp_path / "a")) as first:
        port = int(first.url.rsplit(":", 1)[1])
        second = EmbeddedServer(_settings(tmp_path / "b"), port=port)
        with pytest.raises(OSError, match="in use"):
            second.start()
        second.stop()


def test_a_taken_folder_is_told(tmp_path: Path) -> None:
    with EmbeddedServer(_settings(tmp_path)):
        second = EmbeddedServer(_settings(tmp_path))
        with pytest.raises(RuntimeError, match="did not start"):
            second.start()


def test_it_says_that_it_is_not_for_production(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING), EmbeddedServer(_settings(tmp_path)):
        assert "NOT FOR PRODUCTION" in caplog.text
    assert "root-key" not in caplog.text


def test_serve_checks_its_settings_first(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="root_key"):
        serve(data_dir=tmp_path / "never-made")
    assert not (tmp_path / "never-made").exists()


def test_a_connection_cut_inside_a_body_stores_nothing(tmp_path: Path) -> None:
    with EmbeddedServer(_settings(tmp_path)) as server:
        body = b'{"messages": [{"role": "user", "content": "half"}]}'
        connection = http.client.HTTPConnection(server.url.removeprefix("http://"))
        connection.putrequest("POST", "/api/v1/sessions/s1/messages/batch")
        for name, value in IDENTITY.items():
            connection.putheader(name, value)
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", str(len(body) + 1))
        connection.endheaders(body)
        connection.close()
        time.sleep(0.1)
        session = httpx.get(f"{server.url}/api/v1/sessions/s1", headers=IDENTITY)
        assert session.status_code == 404


def test_a_batch_of_two_is_answered_without_delay(tmp_path: Path) -> None:
    """Not a benchmark: 40 ms would be the pause of delayed acknowledgements."""
    said = {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}
    durations_s: list[float] = []
    with (
        EmbeddedServer(_settings(tmp_path)) as server,
        httpx.Client(base_url=server.url, headers=IDENTITY) as client,
    ):
        for _ in range(30):
            started_s = time.perf_counter()
            client.post("/api/v1/sessions/s1/messages/batch", json=said).raise_for_status()
            durations_s.append(time.perf_counter() - started_s)
    assert sorted(durations_s)[5] < 0.03
