"""Settings of the way to the server: identity, trust, phase timeouts (`_s` = seconds).

No I/O and no validation here: values are checked once, where the configuration comes in.
"""

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from resilient_ov.settings.knob import Knob, Section

DEFAULT_ACCOUNT = "default"


class AuthMode(StrEnum):
    """How the server is told who is asking."""

    TRUSTED = "trusted"
    API_KEY = "api_key"
    DEV = "dev"


class ServerProfile(StrEnum):
    """Which server contract is spoken."""

    V0_5 = "0.5"
    NAMESPACE = "namespace"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class AuthSettings(Section):
    """Who we are to the server, and where the key comes from.

    `api_key_file` wins over the default of `api_key_env`; naming a variable of your own beside a
    file is refused.
    """

    mode: Annotated[
        AuthMode, Knob("How requests are authenticated; `dev` for localhost only.", key="auth_mode")
    ] = AuthMode.TRUSTED
    account: Annotated[
        str | None,
        Knob(
            "OpenViking account, the outer tenant boundary. Part of every hashed id.",
            accepts="1..255 of A-Z a-z 0-9 _ . @ -; required when auth_mode is trusted",
            key="account",
            private=True,
        ),
    ] = None
    owner_user_id: Annotated[
        str | None,
        Knob(
            "The one user served in `api_key` mode; others are refused.",
            accepts="text; required when auth_mode is api_key",
            key="owner_user_id",
            private=True,
        ),
    ] = None
    api_key_env: Annotated[
        str,
        Knob(
            "NAME of the environment variable that holds the key, never the key itself; or set"
            " NAME_FILE to a file that holds it.",
            accepts="a variable name",
            key="api_key_env",
            private=True,
        ),
    ] = "OPENVIKING_API_KEY"
    api_key_file: Annotated[
        Path | None,
        Knob(
            "File that holds the key; wins over the default api_key_env; re-read when it changes.",
            accepts="a readable file, or null",
            key="api_key_file",
            private=True,
        ),
    ] = None
    api_key_shared_agents: Annotated[
        bool,
        Knob(
            "`api_key` mode: serve named agents too, all sharing the owner's memory.",
            key="api_key_shared_agents",
        ),
    ] = False
    require_authenticated_user: Annotated[
        bool,
        Knob(
            'Refuse the user id "default" of a host without login.',
            key="require_authenticated_user",
        ),
    ] = False
    account_alias: Annotated[
        str | None,
        Knob(
            "Name of the account in logs and events; null = `acct_` and 8 hex digits.",
            accepts="1..64 of A-Z a-z 0-9 _ . -, or null",
            key="account_alias",
        ),
    ] = None

    @property
    def scope_account(self) -> str:
        """Account as it enters the hashed ids: OpenViking's own default when none is set."""
        return self.account or DEFAULT_ACCOUNT

    @property
    def alias(self) -> str:
        """Name of the account that may be logged."""
        if self.account_alias is not None:
            return self.account_alias
        digest = hashlib.sha256(self.scope_account.encode("utf-8", "surrogatepass")).hexdigest()
        return f"acct_{digest[:8]}"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class NamespaceSettings(Section):
    """The account-level policy, for `server_profile: namespace`."""

    isolate_user_scope_by_agent: Annotated[
        bool, Knob("User memories are kept apart per agent.")
    ] = False
    isolate_agent_scope_by_user: Annotated[
        bool, Knob("Agent memories are kept apart per user.")
    ] = False
    search_agent_scope: Annotated[
        bool, Knob("Reads search the agent's memories besides the user's.")
    ] = False


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TlsSettings(Section):
    """Trust and client certificates. There is no switch that turns verification off."""

    ca_file: Annotated[
        Path | None,
        Knob(
            "CA bundle (PEM); null = the system's.",
            accepts="a readable file, or null",
            private=True,
        ),
    ] = None
    client_cert_file: Annotated[
        Path | None,
        Knob("Client certificate (PEM).", accepts="a readable file, or null", private=True),
    ] = None
    client_key_file: Annotated[
        Path | None,
        Knob(
            "Key of the client certificate (PEM).", accepts="a readable file, or null", private=True
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TimeoutSettings(Section):
    """Longest time of one phase of one attempt; never beyond what the deadline leaves."""

    connect_s: Annotated[
        float,
        Knob("DNS, connect and TLS of one attempt.", 0.05, 120, key="connect_timeout_seconds"),
    ] = 2.0
    read_s: Annotated[
        float, Knob("Wait for the next bytes of a reply.", 0.05, 120, key="read_timeout_seconds")
    ] = 10.0
    write_s: Annotated[
        float,
        Knob("Wait for the socket to take bytes.", 0.05, 120, key="write_timeout_seconds"),
    ] = 10.0
    pool_s: Annotated[
        float, Knob("Wait for a free connection.", 0.05, 120, key="pool_timeout_seconds")
    ] = 2.0
