"""The address of the server, as the configuration may give it.

Pure. Errors never repeat the address: it may carry a password.
"""

import ipaddress
import re
from urllib.parse import SplitResult, urlsplit

_HOST_NAME = re.compile(r"[A-Za-z0-9._-]+")


def checked_base_url(text: str) -> str:
    """Return the address without trailing slashes.

    Raises:
        ValueError: not an absolute http(s) URL, or one with user-info, query or fragment.

    """
    problem = _problem(text)
    if problem is not None:
        raise ValueError(
            f"{problem} (value not shown). Write it like https://openviking.internal:1933"
        )
    return text.rstrip("/")


def is_plain_http(base_url: str) -> bool:
    """Whether a checked address is not encrypted."""
    return urlsplit(base_url).scheme == "http"


def is_localhost(base_url: str) -> bool:
    """Whether a checked address names this machine: `localhost` or a loopback address."""
    host = urlsplit(base_url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _problem(text: str) -> str | None:
    if not all("!" <= character <= "~" for character in text) or "\\" in text:
        return "must be printable ASCII without spaces or backslashes"
    parts = _split(text)
    if parts is None or parts.scheme not in ("http", "https") or not parts.netloc:
        return "must be an absolute http or https URL with a valid host and port"
    if "@" in parts.netloc:
        return "must not carry user-info; the key comes from api_key_env or api_key_file"
    if "?" in text or "#" in text:
        return "must not carry a query or fragment"
    if not _is_host(parts):
        return "must name a valid host"
    return None


def _split(text: str) -> SplitResult | None:
    """Parts of a URL; None when brackets or port are malformed."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return None
    return None if port == 0 or parts.netloc.endswith(":") else parts


def _is_host(parts: SplitResult) -> bool:
    host = parts.hostname or ""
    if not parts.netloc.startswith("["):
        return _HOST_NAME.fullmatch(host) is not None
    # What `urlsplit` checks inside brackets differs between Python versions.
    try:
        return ipaddress.IPv6Address(host).scope_id is None
    except ValueError:
        return False
