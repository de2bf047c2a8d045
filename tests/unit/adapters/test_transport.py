"""What the transports decide before and around the sockets; with networks that do nothing."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import httpcore
import httpx
import pytest

from resilient_ov.adapters import transport, transport_errors
from resilient_ov.adapters.quiet import mute_own_requests
from resilient_ov.adapters.resolver import Resolver
from resilient_ov.adapters.tls import TlsContexts
from resilient_ov.adapters.transport import (
    DEADLINE,
    WIRE,
    AsyncDeadlineTransport,
    DeadlineTransport,
)
from resilient_ov.adapters.wire_attempt import WireAttempt, entered
from resilient_ov.settings import LimitSettings, TlsSettings


def never(host: str, _port: int) -> Sequence[tuple[Any, ...]]:
    pytest.fail(f"{host} was looked up")


def clock() -> float:
    return 100.0


def arguments() -> dict[str, Any]:
    return {
        "limits": LimitSettings(),
        "tls": TlsContexts(TlsSettings()),
        "on_healed": lambda: None,
        "resolver": Resolver(lookup=never),
        "now": clock,
    }


def request(deadline_s: float) -> httpx.Request:
    return httpx.Request("GET", "http://secret.internal/x", extensions={DEADLINE: deadline_s})


def test_spent_deadline_touches_nothing_and_is_on_record() -> None:
    found = request(100.0)
    with pytest.raises(httpx.ConnectTimeout):
        DeadlineTransport(**arguments()).handle_request(found)
    record = found.extensions[WIRE]
    assert isinstance(record, WireAttempt)
    assert (record.sent, record.expired) == (False, True)


def test_spent_deadline_touches_nothing_on_a_loop() -> None:
    found = request(99.0)

    async def scenario() -> None:
        await AsyncDeadlineTransport(**arguments()).handle_async_request(found)

    with pytest.raises(httpx.ConnectTimeout):
        asyncio.run(scenario())
    assert not found.extensions[WIRE].sent


@pytest.mark.parametrize("raised", list(transport_errors.NAMES), ids=lambda kind: kind.__name__)
def test_errors_change_their_name_and_lose_their_text(raised: type[Exception]) -> None:
    with (
        pytest.raises(httpx.TransportError) as caught,
        transport_errors.named(request(200.0)),
    ):
        raise raised("connect to 10.0.0.7:1933 failed")
    assert type(caught.value) is transport_errors.NAMES[raised]
    assert "10.0.0.7" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_every_error_of_the_library_has_a_name() -> None:
    ours_only = {"ConnectionNotAvailable", "ProxyError", "UnsupportedProtocol"}
    abstract = {"TimeoutException", "NetworkError", "ProtocolError"}
    known = {kind.__name__ for kind in transport_errors.NAMES}
    exported = {
        name
        for name in httpcore.__all__
        if isinstance(getattr(httpcore, name), type)
        and issubclass(getattr(httpcore, name), Exception)
    }
    assert exported - ours_only - abstract <= known


def test_placeholder_trusts_nobody() -> None:
    assert transport._placeholder_context().get_ca_certs() == []
    assert transport._placeholder_context().check_hostname


def test_library_records_are_dropped_only_inside_our_attempts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    mute_own_requests()
    mute_own_requests()
    log = logging.getLogger("httpcore.connection")
    with caplog.at_level(logging.DEBUG):
        log.debug("the host's own")
        with entered(WireAttempt(1.0, clock)):
            log.debug("ours")
    assert [record.getMessage() for record in caplog.records] == ["the host's own"]
    assert len([f for f in log.filters if type(f).__name__ == "_NotOurs"]) == 1
