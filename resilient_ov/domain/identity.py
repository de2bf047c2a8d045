"""Who a memory belongs to: scopes, and the hashed ids the server sees instead of names.

Pure. The algorithms are frozen for ever: another hash is another, empty memory. Ids are not
Unicode-normalised, so memory follows the id string; the raw id never appears in an error.
"""

import base64
import hashlib
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from resilient_ov.domain.errors import OpenVikingScopeError

NAMESPACE: Final = "deerflow-openviking-v1"
ACCOUNT_NAMESPACE: Final = "deerflow-openviking-ns-v1"
DEFAULT_AGENT: Final = "__default__"
"""Agent scope of a call without an agent name; no agent may take this name."""

MAX_USER_ID_CHARS: Final = 1024
"""No user directory issues longer ids (an e-mail address ends at 254); a longer one is a fault."""
MAX_THREAD_ID_CHARS: Final = 16384
"""Only bounds the work: thread ids are free text of the host and are hashed whole."""

_AGENT_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_LABEL_CHARS: Final = 12
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True, repr=False)
class Scope:
    """Whose memory: made by `scope`, which checks the parts.

    `repr` shows nothing, because a user id is personal data and ends up in tracebacks.
    """

    account: str
    user_id: str
    agent: str

    def __repr__(self) -> str:
        return "Scope(...)"


def scope(account: str, user_id: object, agent_name: object) -> Scope:
    """Check who is asking and return the scope.

    Args:
        account: the configured account; empty where the mode has none.
        user_id: 1..1024 characters, not only white space.
        agent_name: None = no agent, else `[A-Za-z0-9_-]{1,64}`, lower-cased.

    Raises:
        OpenVikingScopeError: a part is missing or malformed. Its `problem` is one of a handful of
            fixed sentences that name the field and never the value.

    """
    return Scope(account, _user(user_id), _agent(agent_name))


def _user(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise OpenVikingScopeError(
            "user_id is missing or blank; the host must pass the id of the signed-in user"
        )
    if len(value) > MAX_USER_ID_CHARS:
        raise OpenVikingScopeError(
            f"user_id is longer than {MAX_USER_ID_CHARS} characters; "
            "the host must pass the id of the signed-in user"
        )
    return value


def _agent(value: object) -> str:
    if value is None:
        return DEFAULT_AGENT
    # Matched before lower-casing: the Kelvin sign, for one, would turn into an ASCII letter.
    if not isinstance(value, str) or _AGENT_NAME.fullmatch(value) is None:
        raise OpenVikingScopeError(
            "agent_name must be 1 to 64 of the characters a-z, 0-9, '_' and '-'; rename the agent"
        )
    agent = value.lower()
    if agent == DEFAULT_AGENT:
        raise OpenVikingScopeError(
            f"agent_name must not be {DEFAULT_AGENT}, which stands for no agent; rename the agent"
        )
    return agent


def escape_join(*fields: str) -> bytes:
    r"""Join fields so that different field lists always give different bytes.

    Each field is escaped (`\x01` -> `\x01\x01`, `\0` -> `\x01\x02`) and encoded as UTF-8 with
    surrogates passed; the separator `\0` therefore never occurs inside a field.
    """
    return "\0".join(
        [field.replace("\x01", "\x01\x01").replace("\0", "\x01\x02") for field in fields]
    ).encode("utf-8", "surrogatepass")


def openviking_user(owner: Scope) -> str:
    """The server's user on profile 0.5: `df_` + 40 hex, one for each agent of a user."""
    return _user_id_of(NAMESPACE, owner.account, owner.user_id, owner.agent)


def namespace_user(account: str, user_id: str) -> str:
    """The server's user on profile namespace: `df_` + 40 hex, whatever the agent."""
    return _user_id_of(ACCOUNT_NAMESPACE, account, user_id)


def _user_id_of(*fields: str) -> str:
    return "df_" + hashlib.sha256(escape_join(*fields)).hexdigest()[:40]


def session_id(owner: Scope, thread_id: object) -> str:
    """The server's session of a thread: `df_` + 52 characters of `[a-z2-7]`.

    Raises:
        OpenVikingScopeError: `thread_id` is no string, blank or above 16384 characters.

    """
    if not isinstance(thread_id, str) or not thread_id.strip():
        raise OpenVikingScopeError(
            "thread_id is missing or blank; the host must pass the id of the conversation"
        )
    if len(thread_id) > MAX_THREAD_ID_CHARS:
        raise OpenVikingScopeError(
            f"thread_id is longer than {MAX_THREAD_ID_CHARS} characters; "
            "the host must pass the id of the conversation"
        )
    joined = escape_join(NAMESPACE, owner.account, owner.user_id, owner.agent, thread_id)
    digest = base64.b32encode(hashlib.sha256(joined).digest())
    return "df_" + digest.decode("ascii").rstrip("=").lower()


def server_id(base_url: str) -> str:
    """A stable id of a server's address, 32 hex; state made with another server has another.

    The scheme, the default port and trailing slashes do not count, nor does the case of the host.
    `base_url` is a checked absolute http(s) URL.
    """
    url = urlsplit(base_url)
    host = url.hostname or ""
    port = url.port
    place = host if port in (None, _DEFAULT_PORTS.get(url.scheme)) else f"{host} {port}"
    return hashlib.sha256(escape_join(place, url.path.rstrip("/"))).hexdigest()[:32]


def user_hash(hashed_user: str) -> str:
    """Label of a user for logs and traces: 12 hex, the head of an id made here."""
    return _label(hashed_user)


def session_hash(hashed_session: str) -> str:
    """Label of a session for logs and traces: 12 of `[a-z2-7]`, the head of an id made here."""
    return _label(hashed_session)


def _label(hashed: str) -> str:
    return hashed.removeprefix("df_")[:_LABEL_CHARS]
