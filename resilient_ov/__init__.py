"""resilient-ov: memory over an OpenViking server that stays healthy when the server does not.

Rule: its names load late, because everything else in the package imports this module first and
most of it needs no HTTP.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from resilient_ov.client import AsyncClient, Client
    from resilient_ov.domain.errors import OpenVikingError
    from resilient_ov.settings import Settings

__all__ = ["AsyncClient", "Client", "OpenVikingError", "Settings"]


def __getattr__(name: str) -> object:
    if name in {"AsyncClient", "Client"}:
        from resilient_ov import client

        return getattr(client, name)
    if name == "OpenVikingError":
        from resilient_ov.domain.errors import OpenVikingError

        return OpenVikingError
    if name == "Settings":
        from resilient_ov.settings import Settings

        return Settings
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
