"""Every recorded answer of OpenViking 0.5.2 on a route the client uses is understood."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest

from resilient_ov.adapters import replies
from resilient_ov.adapters.wire_attempt import WireAttempt
from resilient_ov.domain.exchange import (
    AddMessages,
    Answer,
    Command,
    CommitSession,
    CreateSession,
    Evidence,
    Failure,
    FailureKind,
    GetSession,
    GetTask,
    Health,
    Identity,
    ListArchives,
    ListTasks,
    ReadMessages,
    Search,
    Success,
    WireMessage,
)

FIXTURES = Path(__file__).parent / "fixtures"
ME = Identity(user="df_me")
_MESSAGE = WireMessage(role="user", content="x", source_ids=())

ROUTES: list[tuple[str, Command]] = [
    (r"GET /health", Health(identity=ME)),
    (r"POST /api/v1/sessions", CreateSession(identity=ME, session_id="s", memory_types=())),
    (r"GET /api/v1/sessions/[^/?]+(\?.*)?", GetSession(identity=ME, session_id="s")),
    (
        r"POST /api/v1/sessions/[^/]+/messages/batch",
        AddMessages(identity=ME, session_id="s", messages=(_MESSAGE,) * 100),
    ),
    (r"POST /api/v1/sessions/[^/]+/commit", CommitSession(identity=ME, session_id="s")),
    (
        r"POST /api/v1/search/find",
        Search(identity=ME, query="q", targets=("x",), limit=8, score_threshold=0.5),
    ),
    (r"GET /api/v1/tasks/[^/?]+", GetTask(identity=ME, task_id="t")),
    (r"GET /api/v1/tasks\?(?!pagination).*", ListTasks(identity=ME, session_id="s")),
    (
        r"GET /api/v1/content/read\?uri=.*messages\.jsonl.*",
        ReadMessages(identity=ME, session_id="s", archive=None, offset=0, limit=50),
    ),
    (r"GET /api/v1/fs/ls\?uri=.*history", ListArchives(identity=ME, session_id="s")),
]


def recorded() -> list[tuple[str, Command, dict[str, Any]]]:
    found: list[tuple[str, Command, dict[str, Any]]] = []
    for path in sorted(FIXTURES.glob("*.json")):
        exchange = json.loads(path.read_text())
        request, response = exchange.get("request"), exchange.get("response")
        if not request or "__truncated__" in str(response):
            continue
        line = f"{request['method']} {request['path']}"
        for pattern, command in ROUTES:
            if re.fullmatch(pattern, line):
                found.append((path.stem, command, response))
                break
    return found


RECORDED = recorded()


def read(command: Command, response: dict[str, Any]) -> Answer:
    body = json.dumps(response["body"]).encode()
    headers = httpx.Headers(response["headers"])
    attempt = WireAttempt(10.0, lambda: 1.0)
    attempt.note_write()
    attempt.note_read(body)
    return replies.answered(command, response["status"], headers, body, attempt)


@pytest.mark.parametrize(
    ("command", "response"),
    [pytest.param(command, response, id=name) for name, command, response in RECORDED],
)
def test_recorded_answer_is_understood(command: Command, response: dict[str, Any]) -> None:
    answer = read(command, response)
    if response["status"] < 300:
        assert isinstance(answer, Success)
        return
    assert isinstance(answer, Failure)
    assert answer.enveloped
    assert answer.code == response["body"]["error"]["code"]
    assert answer.evidence is Evidence.ANSWERED
    assert answer.kind is not FailureKind.PROTOCOL
    assert answer.provider_fault == ("upstream_" in json.dumps(response["body"]))


def test_every_route_of_the_client_was_recorded() -> None:
    counts = Counter(type(command).__name__ for _, command, _ in RECORDED)
    assert set(counts) == {type(command).__name__ for _, command in ROUTES}
    assert sum(counts.values()) > 150


def test_embedders_rejected_key_is_an_outage_and_not_our_auth() -> None:
    (response,) = [found for name, _, found in RECORDED if name == "fault_embed401_find"]
    (command,) = [command for _, command in ROUTES if isinstance(command, Search)]
    answer = read(command, response)
    assert isinstance(answer, Failure)
    assert (answer.kind, answer.provider_fault) == (FailureKind.SERVER_ERROR, True)


def test_server_names_the_message_it_refused() -> None:
    (response,) = [found for name, _, found in RECORDED if name == "batch_one_bad_rejects_all"]
    (command,) = [command for _, command in ROUTES if isinstance(command, AddMessages)]
    answer = read(command, response)
    assert isinstance(answer, Failure)
    assert answer.invalid_indices == (1,)
