"""Replaces what looks like a secret before a text is stored, as the wire does.

No I/O here. Read-back text may therefore differ from what was sent: clients compare ids.
"""

import base64
import hashlib
import re

_SECRET = re.compile(
    r"(?i)\b(api[_-]?key|access[_-]?token|auth[_-]?token|token|secret|passwd|password)"
    r"(\s*[=:]\s*)([^\s,;\"']{6,})"
)


def redact(text: str, session_id: str) -> str:
    """Put a placeholder in place of each value that follows a name such as `api_key=`."""

    def placeholder(match: re.Match[str]) -> str:
        digest = hashlib.sha256(f"{session_id}\0{match[3]}".encode()).digest()
        mark = base64.urlsafe_b64encode(digest[:6]).decode()
        return f"{match[1]}{match[2]}{{{{ov_privacy:session:{session_id}:{mark}}}}}"

    return _SECRET.sub(placeholder, text)
