"""What went wrong with a request, and what to do about it, in words for an operator.

No I/O here. No sentence holds a key, an address, a header or a body.
"""

from collections.abc import Mapping
from typing import Final

from resilient_ov.domain.exchange import Failure, FailureKind
from resilient_ov.settings import AuthMode

_AUTH: Final = "the key or the identity was refused"
_AUTH_ADVICE: Final[Mapping[AuthMode, str]] = {
    AuthMode.TRUSTED: "In trusted mode the key must be the server's root key",
    AuthMode.API_KEY: "In api_key mode the key must be the user's own, never the root key",
    AuthMode.DEV: "The server wants a key: set auth_mode to the mode it runs in",
}
_WHY: Final[Mapping[FailureKind, tuple[str, str]]] = {
    FailureKind.CONNECT: (
        "no connection",
        "Is the server up, and does base_url name it as seen from here (DNS, port, firewall)?",
    ),
    FailureKind.TLS: (
        "TLS failed",
        "Check the certificate's names and dates, tls.ca_file, and the client certificate if the"
        " server wants one",
    ),
    FailureKind.TIMEOUT: (
        "no answer in time",
        "Look at the load and the log of the server, or for something that swallows packets",
    ),
    FailureKind.RESET: (
        "the connection was cut before an answer",
        "Look in the log of the server, and of a proxy if there is one",
    ),
    FailureKind.PROTOCOL: (
        "the answer is not OpenViking's",
        "base_url must lead to the OpenViking server itself, not to a login page or a proxy's"
        " error page",
    ),
    FailureKind.RATE_LIMITED: (
        "too many requests",
        "Wait, or raise the limit of the server or of its model provider",
    ),
    FailureKind.SERVER_ERROR: (
        "the server failed",
        "Look in the log of the server: its models or its storage may be away",
    ),
    FailureKind.CLIENT_ERROR: (
        "the request was refused",
        "Check the account, and whether the server's version is a supported one",
    ),
    FailureKind.SATURATED: ("this process has no connection left", "Try again"),
}


def failure_words(
    failure: Failure, mode: AuthMode, *, budget_s: float, budget_key: str
) -> tuple[str, str]:
    """Return what was found and what to do; ``budget_key`` names the setting of the deadline."""
    found, advice = _why(failure, mode)
    facts = [str(failure.status)] if failure.status is not None else []
    if failure.code is not None:
        facts.append(failure.code)
    if failure.kind is FailureKind.TIMEOUT:
        facts.append(f"{budget_s:g} s")
        advice += f"; a server that is only slow needs more {budget_key}"
    told = f" ({', '.join(facts)})" if facts else ""
    return f"{found}{told}", advice


def _why(failure: Failure, mode: AuthMode) -> tuple[str, str]:
    if failure.provider_fault:
        return _WHY[failure.kind][0], "Its model provider fails: see its quota, key and status"
    if failure.status is not None and failure.status >= 400 and not failure.enveloped:
        # OpenViking words every refusal in its own envelope.
        return (
            "refused, but not by OpenViking itself",
            "Look at what answers at base_url: a proxy, a gateway or another service",
        )
    return (_AUTH, _AUTH_ADVICE[mode]) if failure.kind is FailureKind.AUTH else _WHY[failure.kind]
