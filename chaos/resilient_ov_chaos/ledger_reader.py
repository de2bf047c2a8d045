"""Reads what the server holds, straight from it and with the root key: the referee's view.

Rule: never through the broken network, never from anything the product says. Sessions are found
by listing, so one that nobody knows is found too.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import httpx

from resilient_ov.domain.identity import openviking_user, scope, session_id
from resilient_ov.domain.namespace import (
    archive_messages_uri,
    archive_number,
    session_history_uri,
    session_messages_uri,
)
from resilient_ov_chaos.agent.job import Persona
from resilient_ov_chaos.ledger import Ledger, Shelf
from resilient_ov_chaos.marks import marks_in

_PAGE: Final = 500
_PAUSES_S: Final = (0.2, 0.5, 1.0, 2.0)
_TIMEOUT_S: Final = 30.0


class LedgerError(OSError):
    """The server does not let its administrator read what it holds."""


class LedgerReader:
    """Reads one server's sessions of the personas. Not thread-safe."""

    def __init__(
        self, address: str, *, key: str, account: str, personas: Sequence[Persona]
    ) -> None:
        self._http = httpx.Client(
            base_url=f"http://{address}/api/v1", timeout=_TIMEOUT_S, trust_env=False
        )
        self._key = key
        self._account = account
        self._personas = personas
        self._archives: dict[tuple[str, int], tuple[str, ...]] = {}

    def read(self, threads: Mapping[str, int], *, known: frozenset[str]) -> Ledger:
        """Return what is there now.

        Args:
            threads: conversation -> its persona, for all conversations of this run.
            known: session ids of earlier runs, which are left alone.

        """
        shelves: list[Shelf] = []
        for persona in self._personas:
            ours = {
                self.session_of(persona, thread): thread
                for thread, number in threads.items()
                if number == persona.number
            }
            for session in self._sessions(persona):
                if session not in known:
                    marks = tuple(self._marks(persona, session))
                    shelves.append(
                        Shelf(persona=persona.number, thread=ours.get(session), marks=marks)
                    )
        return Ledger(shelves=tuple(shelves))

    def total(self, persona: int, thread: str) -> int:
        """Return how many messages a conversation has on the server; cheap."""
        owner = self._personas[persona]
        session = self.session_of(owner, thread)
        found = self._get(owner, f"/sessions/{session}", {})
        return 0 if found is None else int(found["total_message_count"])

    def sessions(self) -> frozenset[str]:
        """Return the ids of all sessions of all personas."""
        return frozenset(
            session for persona in self._personas for session in self._sessions(persona)
        )

    def session_of(self, persona: Persona, thread: str) -> str:
        """Return the server's id of a conversation."""
        return session_id(scope(self._account, persona.user, persona.agent), thread)

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def _sessions(self, persona: Persona) -> list[str]:
        listed: list[dict[str, Any]] = self._get(persona, "/sessions", {}) or []
        return sorted(str(each["session_id"]) for each in listed)

    def _marks(self, persona: Persona, session: str) -> Iterator[str]:
        # The live messages first: a commit in between shows them twice rather than never, and
        # what was read of an archive before is not read again.
        live = tuple(self._file(persona, session_messages_uri(session)))
        asked = {"uri": session_history_uri(session)}
        listed: list[dict[str, Any]] = self._get(persona, "/fs/ls", asked) or []
        numbers = (archive_number(str(each["uri"])) for each in listed)
        for number in sorted(number for number in numbers if number is not None):
            place = session, number
            if place not in self._archives:
                self._archives[place] = tuple(
                    self._file(persona, archive_messages_uri(session, number))
                )
            yield from self._archives[place]
        yield from live

    def _file(self, persona: Persona, uri: str) -> Iterator[str]:
        offset = 0
        while True:
            asked: dict[str, Any] = {"uri": uri, "offset": offset, "limit": _PAGE}
            text = self._get(persona, "/content/read", asked) or ""
            lines = [line for line in text.splitlines() if line.strip()]
            for line in lines:
                yield from dict.fromkeys(marks_in(json.dumps(json.loads(line).get("parts", line))))
            if len(lines) < _PAGE:
                return
            offset += len(lines)

    def _get(self, persona: Persona, path: str, query: Mapping[str, Any]) -> Any:
        owner = scope(self._account, persona.user, persona.agent)
        headers = {
            "X-API-Key": self._key,
            "X-OpenViking-Account": self._account,
            "X-OpenViking-User": openviking_user(owner),
        }
        pauses_s = iter(_PAUSES_S)
        while True:
            answer = self._http.get(path, params=dict(query), headers=headers)
            if answer.status_code == 404:
                return None
            if answer.is_success:
                return answer.json()["result"]
            # OpenViking 0.5.2 answers 400 while it rewrites a session's file.
            pause_s = next(pauses_s, None)
            if pause_s is None:
                raise LedgerError(f"the server answered {answer.status_code} to the referee")
            time.sleep(pause_s)
