"""Reads a session back from the server, beside the product: plain requests, plain JSON.

Rule: nothing of the backend is used but the hashed ids, so that what it did is seen by other eyes.
"""

import json
from typing import Any, cast

import httpx

from resilient_ov.domain.namespace import (
    archive_messages_uri,
    archive_number,
    session_history_uri,
    session_messages_uri,
)
from resilient_ov_manager.demo.conversation import Talk, Words
from resilient_ov_manager.demo.names import ACCOUNT, Names

_TIMEOUT_S = 5.0


class Reader:
    """Asks the server what it holds of a thread."""

    def __init__(self, url: str, key: str, names: Names) -> None:
        self._client = httpx.Client(
            base_url=url,
            timeout=_TIMEOUT_S,
            trust_env=False,
            headers={"X-API-Key": key, "X-OpenViking-Account": ACCOUNT},
        )
        self._names = names

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def total(self, talk: Talk) -> int:
        """Return how many messages the session was ever given."""
        found = self._get(talk, f"/api/v1/sessions/{self._names.session(talk)}")
        return 0 if found is None else int(found["total_message_count"])

    def messages(self, talk: Talk) -> list[Words]:
        """Return every stored message in order: the archives, oldest first, then the live ones."""
        session, shared = self._names.session(talk), self._names.shared_sessions
        numbers = self._archives(talk, session)
        while True:
            places = [archive_messages_uri(session, number, shared=shared) for number in numbers]
            lines: list[str] = []
            for place in (*places, session_messages_uri(session, shared=shared)):
                text = self._get(talk, "/api/v1/content/read", uri=place)
                lines += str(text or "").splitlines()
            # A commit moves live messages into a new archive, also between two of our requests.
            before, numbers = numbers, self._archives(talk, session)
            if numbers == before:
                return [_words(json.loads(line)) for line in lines if line.strip()]

    def _archives(self, talk: Talk, session: str) -> list[int]:
        place = session_history_uri(session, shared=self._names.shared_sessions)
        listed = self._get(talk, "/api/v1/fs/ls", uri=place)
        return sorted(
            number
            for entry in cast("list[dict[str, Any]]", listed or [])
            if (number := archive_number(str(entry["uri"]))) is not None
        )

    def _get(self, talk: Talk, path: str, **query: str) -> Any:
        answer = self._client.get(path, params=query, headers=self._names.headers(talk))
        if answer.status_code == 404:
            return None
        return answer.raise_for_status().json()["result"]


def _words(stored: dict[str, Any]) -> Words:
    return stored["role"], "\n".join(part.get("text", "") for part in stored["parts"])
