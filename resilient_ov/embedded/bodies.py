"""Request bodies: their fields, limits and how a mismatch is told.

No I/O here. Unknown fields are ignored on session routes and refused on search routes, as on the
wire; every mismatch is 400 with `details.validation_errors`, never 422.
"""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, TypeVar, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    ValidationError,
    field_validator,
    model_validator,
)

from resilient_ov.domain.namespace import MAX_ROLE_ID_CHARS
from resilient_ov.embedded.auth import check_peer
from resilient_ov.embedded.errors import ApiError, Json, invalid_argument, invalid_fields

MAX_BATCH = 100
_MAX_TEXT_CHARS = 4 * 1024 * 1024
_MAX_REQUEST_CHARS = 16 * 1024 * 1024

Model = TypeVar("Model", bound=BaseModel)


class _Body(BaseModel):
    model_config = ConfigDict(extra="ignore")

    telemetry: bool | dict[str, Any] = False


class _Participants(_Body):
    """Who may take part: asked for here it is refused, never silently ignored."""

    acl: Any = None
    participant_user_ids: Any = None
    participant_agent_ids: Any = None


class SessionCreate(_Participants):
    """POST /sessions."""

    session_id: str | None = None
    memory_policy: dict[str, Any] | None = None
    auto_commit_policy: dict[str, Any] | None = None
    memory_extraction_config: dict[str, Any] | None = None


class SessionConfig(_Participants):
    """PATCH /sessions/{id}/config."""

    auto_commit_policy: dict[str, Any] | None = None
    memory_extraction_config: dict[str, Any] | None = None


class AnyMessage(_Body):
    """One message: `content` or `parts`, where `parts` wins."""

    role: str
    content: str | None = None
    parts: list[dict[str, Any]] | None = None
    created_at: str | None = None
    turn_id: str | None = None
    message_kind: Literal["user_query", "assistant_step", "tool_transport", "checkpoint"] | None = (
        None
    )
    source_message_ids: list[str] | None = None

    @model_validator(mode="after")
    def _has_text(self) -> Self:
        if self.content is None and self.parts is None:
            raise ValueError("Either 'content' or 'parts' must be provided")
        return self


class Message(AnyMessage):
    """A message of profile 0.5; the peer said it when not the user itself."""

    peer_id: str | None = None

    @field_validator("peer_id")
    @classmethod
    def _peer(cls, value: str | None) -> str | None:
        if value is None:
            return None
        try:
            return check_peer(value)
        except ApiError as refusal:
            raise ValueError(refusal.message) from None


class RoleMessage(AnyMessage):
    """A message of profile namespace; `role_id` names who said it, empty = it was left out."""

    role_id: Annotated[str, Field(min_length=1, max_length=MAX_ROLE_ID_CHARS)] = ""


class MessageBatch(_Body):
    """POST /sessions/{id}/messages/batch."""

    messages: list[Message] = Field(max_length=MAX_BATCH)


class RoleMessageBatch(_Body):
    """The same on profile namespace."""

    messages: list[RoleMessage] = Field(max_length=MAX_BATCH)


class Commit(_Body):
    """POST /sessions/{id}/commit."""

    keep_recent_count: Annotated[int, Field(ge=0, le=10_000)] = 0


class Find(_Body):
    """POST /search/find."""

    model_config = ConfigDict(extra="forbid")

    query: str = ""
    target_uri: str | list[str] = ""
    context_type: str | list[str] | None = None
    limit: Annotated[int, Field(ge=1)] = 10
    node_limit: Annotated[int, Field(ge=1)] | None = None
    score_threshold: float | None = None
    level: Any = None
    tags: list[str] | None = None
    read_content: bool = False
    include_provenance: bool = False
    filter: dict[str, Any] | None = None
    since: str | None = None
    until: str | None = None
    time_field: str | None = None
    image_url: str | None = None


class Search(Find):
    """POST /search/search: `Find` plus the session it belongs to."""

    session_id: str | None = None
    search_type: str | None = None
    mode: str | None = None


class AccountCreate(_Body):
    """POST /admin/accounts."""

    account_id: str
    admin_user_id: str


class NamespaceAccountCreate(AccountCreate):
    """The same on profile namespace: with the policy, which never changes afterwards."""

    isolate_user_scope_by_agent: StrictBool = False
    isolate_agent_scope_by_user: StrictBool = False


class UserCreate(_Body):
    """POST /admin/accounts/{account}/users."""

    user_id: str
    role: Literal["user", "admin"] = "user"


class UriBody(_Body):
    """POST /content/reindex and /system/consistency."""

    uri: str


class Write(UriBody):
    """POST /content/write."""

    content: str


class ContextQuery(BaseModel):
    """GET /sessions/{id}/context."""

    token_budget: Annotated[int, Field(ge=1)] = 128_000


class TaskQuery(BaseModel):
    """GET /tasks."""

    task_type: str | None = None
    resource_id: str | None = None
    status: str | None = None
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    pagination: str | None = None
    cursor: str | None = None


class ReadQuery(BaseModel):
    """GET /content/read; `limit` -1 = to the end. Both count lines."""

    uri: str
    offset: Annotated[int, Field(ge=0)] = 0
    limit: Annotated[int, Field(ge=-1)] = -1


class UriQuery(BaseModel):
    """The other routes that take an address in the query."""

    uri: str
    recursive: bool = False
    node_limit: int | None = None


def parse_json(body: bytes, content_type: str) -> Any:
    """The body as JSON; of another content type it stays bytes, which no model accepts."""
    if not body:
        return {}
    if "json" not in content_type:
        return body
    try:
        return json.loads(body)
    except UnicodeDecodeError:
        raise ApiError(400, "INVALID_ARGUMENT", "There was an error parsing the body") from None
    except json.JSONDecodeError as error:
        fault = {
            "loc": ["body", str(error.pos)],
            "message": "JSON decode error",
            "type": "json_invalid",
        }
        raise invalid_fields([fault]) from None


def parse(model: type[Model], value: Any, place: str = "body") -> Model:
    """Match a value with its model, or raise 400 telling every mismatch."""
    try:
        return model.model_validate(value, from_attributes=True)
    except ValidationError as error:
        faults: list[Json] = [
            {
                "loc": [place, *map(str, fault["loc"])],
                "message": fault["msg"],
                "type": fault["type"],
            }
            for fault in error.errors(include_url=False, include_context=False)
        ]
        raise invalid_fields(faults) from None


def parse_query(model: type[Model], query: Mapping[str, str]) -> Model:
    """Match a query string with its model."""
    return parse(model, dict(query), "query")


def check_texts(value: Any) -> None:
    """Raise 400 for texts the storage refuses: too long, or without a UTF-8 form."""
    total = 0
    for text in _texts(value):
        total += len(text)
        if len(text) > _MAX_TEXT_CHARS or total > _MAX_REQUEST_CHARS:
            raise invalid_argument("Session privacy text limit exceeded")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise invalid_argument(str(error)) from None


def _texts(value: Any) -> list[str]:
    match value:
        case str():
            return [value]
        case dict():
            return _texts(list(cast(Json, value).values()))
        case list():
            return [text for item in cast(list[object], value) for text in _texts(item)]
        case _:
            return []
