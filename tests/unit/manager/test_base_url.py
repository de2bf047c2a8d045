import pytest

from resilient_ov_manager.base_url import checked_base_url, is_localhost, is_plain_http


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("http://openviking:1933", "http://openviking:1933"),
        ("https://ov.example/", "https://ov.example"),
        ("https://ov.example/base/path//", "https://ov.example/base/path"),
        ("http://127.0.0.1:1933", "http://127.0.0.1:1933"),
        ("http://[::1]:1933/", "http://[::1]:1933"),
        ("HTTPS://OV.example", "HTTPS://OV.example"),
        ("http://docker_compose_name", "http://docker_compose_name"),
        ("http://ov.example:65535", "http://ov.example:65535"),
    ],
)
def test_absolute_address_is_kept_without_trailing_slash(text: str, kept: str) -> None:
    assert checked_base_url(text) == kept


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "absolute http or https"),
        ("ov.example", "absolute http or https"),
        ("//ov.example", "absolute http or https"),
        ("/path", "absolute http or https"),
        ("ov.example:1933", "absolute http or https"),
        ("ftp://ov.example", "absolute http or https"),
        ("unix:///run/ov.sock", "absolute http or https"),
        ("http:ov.example", "absolute http or https"),
        ("http://", "absolute http or https"),
        ("http:///path", "absolute http or https"),
        ("http://ov.example:", "absolute http or https"),
        ("http://ov.example:0", "absolute http or https"),
        ("http://ov.example:65536", "absolute http or https"),
        ("http://ov.example:port", "absolute http or https"),
        ("http://[::1", "valid host"),
        ("http://[x]", "valid host"),
        ("http://[v1.fe]", "valid host"),
        ("http://a[::1]", "valid host"),
        ("http://:1933", "valid host"),
        ("http://ov%2eexample", "valid host"),
        ("http://ov,example", "valid host"),
        ("http://[fe80::1%25eth0]", "valid host"),
        ("http://bob:SECRET@ov.example", "user-info"),
        ("http://bob@ov.example", "user-info"),
        ("http://@ov.example", "user-info"),
        ("http://ov.example?token=SECRET", "query or fragment"),
        ("http://ov.example?", "query or fragment"),
        ("http://ov.example/#SECRET", "query or fragment"),
        ("http://ov.example#", "query or fragment"),
        (" http://ov.example", "printable ASCII"),
        ("http://ov.example\n", "printable ASCII"),
        ("http://ov .example", "printable ASCII"),
        ("http://öv.example", "printable ASCII"),
        ("http://ov.example\\@evil", "printable ASCII"),
    ],
)
def test_any_other_address_is_refused_and_not_repeated(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as caught:
        checked_base_url(text)
    message = str(caught.value)
    assert "SECRET" not in message
    assert "ov.example" not in message
    assert "value not shown" in message
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost",
        "http://LOCALHOST:1",
        "http://127.0.0.1",
        "http://127.8.9.1",
        "https://[::1]:9",
    ],
)
def test_loopback_is_localhost(url: str) -> None:
    assert is_localhost(url)


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost.example",
        "http://my-localhost",
        "http://10.0.0.1",
        "http://0.0.0.0",
        "http://127.0.0.1.example",
        "http://[::2]",
        "http://128.0.0.1",
        "http:",
    ],
)
def test_everything_else_is_not_localhost(url: str) -> None:
    assert not is_localhost(url)


def test_plain_http_is_told_by_the_scheme() -> None:
    assert is_plain_http("http://x")
    assert is_plain_http("HTTP://x")
    assert not is_plain_http("https://x")
