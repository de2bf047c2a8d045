"""TLS contexts: built once, re-read only when it can help, never without verification."""

import asyncio
import os
import ssl
import time
from pathlib import Path

import pytest
import trustme

from resilient_ov.adapters.tls import TlsContexts, TlsFilesError
from resilient_ov.settings import TlsSettings

SOON_S = 10.0


def until_s() -> float:
    return time.monotonic() + SOON_S


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def ca_file(tmp_path: Path, authority: trustme.CA) -> Path:
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return path


def touch(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    os.utime(path, ns=(1, 1))


def test_verification_is_on() -> None:
    context = TlsContexts(TlsSettings()).context(until_s())
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname


def test_the_private_ca_is_the_only_one_trusted(ca_file: Path) -> None:
    context = TlsContexts(TlsSettings(ca_file=ca_file)).context(until_s())
    assert len(context.get_ca_certs()) == 1


def test_the_context_is_built_once(ca_file: Path) -> None:
    contexts = TlsContexts(TlsSettings(ca_file=ca_file))
    assert contexts.context(until_s()) is contexts.context(0.0)


def test_rotated_files_are_read_after_a_failed_handshake(ca_file: Path) -> None:
    contexts = TlsContexts(TlsSettings(ca_file=ca_file))
    first = contexts.context(until_s())
    touch(ca_file, trustme.CA().cert_pem.bytes())
    assert contexts.context(until_s()) is first
    contexts.handshake_failed()
    second = contexts.context(until_s())
    assert second is not first
    assert second.get_ca_certs() != first.get_ca_certs()


def test_a_failed_handshake_alone_builds_nothing(ca_file: Path) -> None:
    contexts = TlsContexts(TlsSettings(ca_file=ca_file))
    first = contexts.context(until_s())
    contexts.handshake_failed()
    assert contexts.context(until_s()) is first
    assert contexts.context(0.0) is first


def test_a_file_that_vanished_counts_as_changed(ca_file: Path) -> None:
    contexts = TlsContexts(TlsSettings(ca_file=ca_file))
    contexts.context(until_s())
    ca_file.unlink()
    contexts.handshake_failed()
    with pytest.raises(TlsFilesError, match=r"tls.ca_file"):
        contexts.context(until_s())


def test_a_missing_file_is_named_by_its_setting(tmp_path: Path) -> None:
    contexts = TlsContexts(TlsSettings(ca_file=tmp_path / "secret-name.pem"))
    with pytest.raises(TlsFilesError) as caught:
        contexts.context(until_s())
    assert str(caught.value) == "tls.ca_file: cannot be used. Mount a readable PEM file"


def test_a_mended_file_is_read_without_a_restart(tmp_path: Path, ca_file: Path) -> None:
    late = tmp_path / "late.pem"
    contexts = TlsContexts(TlsSettings(ca_file=late))
    with pytest.raises(TlsFilesError):
        contexts.context(until_s())
    late.write_bytes(ca_file.read_bytes())
    assert contexts.context(until_s()).get_ca_certs()


def test_a_client_certificate_is_loaded(tmp_path: Path, authority: trustme.CA) -> None:
    pair = authority.issue_cert("client@example.org")
    certificate, key = tmp_path / "client.pem", tmp_path / "client.key"
    pair.cert_chain_pems[0].write_to_path(str(certificate))
    pair.private_key_pem.write_to_path(str(key))
    TlsContexts(TlsSettings(client_cert_file=certificate, client_key_file=key)).context(until_s())


def test_a_bad_client_certificate_is_named_by_its_settings(tmp_path: Path) -> None:
    certificate = tmp_path / "client.pem"
    certificate.write_text("no certificate")
    contexts = TlsContexts(TlsSettings(client_cert_file=certificate))
    with pytest.raises(TlsFilesError, match=r"tls.client_cert_file or tls.client_key_file"):
        contexts.context(until_s())


def test_the_loop_gets_the_same_context(ca_file: Path) -> None:
    contexts = TlsContexts(TlsSettings(ca_file=ca_file))

    async def twice() -> tuple[ssl.SSLContext, ssl.SSLContext]:
        return await contexts.context_async(until_s()), await contexts.context_async(0.0)

    first, second = asyncio.run(twice())
    assert first is second


def test_files_that_hang_cost_the_callers_time_only(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.pem"
    os.mkfifo(pipe)
    contexts = TlsContexts(TlsSettings(ca_file=pipe))
    with pytest.raises(TimeoutError):
        contexts.context(time.monotonic() + 0.01)

    async def wait() -> None:
        await contexts.context_async(time.monotonic() + 0.01)

    with pytest.raises(TimeoutError):
        asyncio.run(wait())
    contexts.renew()  # a child does not wait for the parent's thread; here the slot stays taken
    descriptor = os.open(pipe, os.O_RDWR)
    os.close(descriptor)
