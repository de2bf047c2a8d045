"""What the embedded server needs to know, checked once at start.

No I/O here: the data directory is made when the server opens it.
"""

from dataclasses import dataclass, field
from pathlib import Path

from resilient_ov.settings.server import AuthMode, ServerProfile


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedSettings:
    """Settings of one embedded server.

    Attributes:
        data_dir: folder of the database; two servers must not share one.
        profile: the wire it speaks; a folder keeps the one it was made with. Default "0.5".
        auth: how callers are identified. Default trusted.
        root_key: the server's key; required for `trusted` and `api_key`, refused for `dev`.
        extraction_delay_s: how long one extraction takes at least, 0..3600. A real server takes
            10 to 12 s; tests use the delay to look at a task that is still running.

    """

    data_dir: Path
    profile: ServerProfile = ServerProfile.V0_5
    auth: AuthMode = AuthMode.TRUSTED
    root_key: str | None = field(default=None, repr=False)
    extraction_delay_s: float = 0.0

    def __post_init__(self) -> None:
        if self.auth is AuthMode.DEV and self.root_key is not None:
            raise ValueError("root_key: must be absent with auth 'dev', where no key is checked")
        if self.auth is not AuthMode.DEV and not self.root_key:
            raise ValueError(
                f"root_key: required with auth '{self.auth.value}'; "
                "give any non-empty key, or use auth 'dev' on localhost"
            )
        if not 0.0 <= self.extraction_delay_s <= 3600.0:
            raise ValueError("extraction_delay_s: must be 0..3600 seconds")
