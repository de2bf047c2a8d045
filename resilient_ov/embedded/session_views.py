"""Sessions as replies and their own metadata file show them.

Functions take the open connection and run inside the caller's transaction.
"""

import json
import sqlite3

from resilient_ov.embedded import sessions
from resilient_ov.embedded.errors import Json

_NO_TOKENS = {
    "prompt_tokens": 0,
    "completion_tokens": 0,
    "total_tokens": 0,
    "cached_tokens": 0,
    "reasoning_tokens": 0,
}


def summary(row: sqlite3.Row, uri: str, user: Json) -> Json:
    """What creation answers."""
    return {
        "session_id": row["session_id"],
        "uri": uri,
        "user": user,
        "auto_commit_policy": None,
        "memory_extraction_config": json.loads(row["extraction_config"]),
    }


def metadata(db: sqlite3.Connection, row: sqlite3.Row, uri: str, user: Json) -> Json:
    """The session's metadata; `message_count` counts live messages, `total_message_count` all."""
    extracted = {"total": row["memories"]}
    if row["memories"]:
        extracted["memory_write"] = row["memories"]
    return {
        "session_id": row["session_id"],
        "created_at": row["created_at"],
        "updated_at": row["updated_at"],
        "created_by_account_id": row["account"],
        "created_by_user_id": row["created_by"],
        "message_count": sessions.live_count(db, row["id"]),
        "commit_count": row["commits"],
        "memories_extracted": extracted,
        "last_commit_at": row["last_commit_at"],
        "llm_token_usage": dict(_NO_TOKENS),
        "embedding_token_usage": {"total_tokens": 0},
        "pending_tokens": row["pending_tokens"],
        "keep_recent_count": row["keep_recent"],
        "retention_mode": "",
        "keep_recent_turn_count": 0,
        "retained_message_token_budget": 0,
        "min_raw_tail_steps": 1,
        "memory_policy": json.loads(row["policy"]),
        "last_message_at": row["last_message_at"],
        "last_auto_commit_at": "",
        "last_idle_commit_accepted_at": "",
        "total_message_count": row["total_messages"],
    } | summary(row, uri, user)


def participants(row: sqlite3.Row) -> Json:
    """Who takes part in an account-wide session: for showing, not for access."""
    found = sessions.participants(row)
    return {
        "participant_user_ids": list(found.user_ids),
        "participant_agent_ids": list(found.agent_ids),
    }


def meta_file(db: sqlite3.Connection, row: sqlite3.Row) -> str:
    """The text of an account-wide session's `.meta.json`."""
    meta = {
        "session_id": row["session_id"],
        "created_by_user_id": row["created_by"],
        "created_at": row["created_at"],
        "updated_at": row["updated_at"],
        **participants(row),
        "message_count": sessions.live_count(db, row["id"]),
        "total_message_count": row["total_messages"],
        "commit_count": row["commits"],
    }
    return json.dumps(meta, ensure_ascii=False, indent=2)
