"""An OpenViking-compatible server for development, demo and contract tests. Not for production.

Needs the extra `server` (starlette, uvicorn).
"""

from resilient_ov.embedded.app import create_app
from resilient_ov.embedded.serve import EmbeddedServer, serve
from resilient_ov.embedded.settings import EmbeddedSettings

__all__ = ["EmbeddedServer", "EmbeddedSettings", "create_app", "serve"]
