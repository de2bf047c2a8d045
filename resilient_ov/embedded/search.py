"""Search over memory files: full-text candidates, scored, filtered and cut to the limit.

Functions take the open connection and run inside the caller's transaction.
"""

import json
import sqlite3
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, cast

from resilient_ov.domain.namespace import VikingUri
from resilient_ov.embedded import files
from resilient_ov.embedded.bodies import Find
from resilient_ov.embedded.errors import Json, invalid_argument, unimplemented
from resilient_ov.embedded.terms import UNRELATED, named_categories, score, terms

_CONTEXT_TYPES = ("memory", "resource", "skill")
_MAX_QUERY_TERMS = 256


@dataclass(frozen=True, slots=True)
class Plan:
    """A checked search request.

    Attributes:
        roots: only what lies below one of these is found.
        threshold: hits score strictly above it; None = no threshold.
        levels: allowed levels; None = all.

    """

    query: str
    roots: list[VikingUri]
    limit: int
    threshold: float | None
    levels: AbstractSet[int] | None
    tags: AbstractSet[str]
    wants_memories: bool
    reads_content: bool

    def wants(self, row: sqlite3.Row) -> bool:
        """Whether a file passes the filters of level and tags."""
        if self.levels is not None and row["level"] not in self.levels:
            return False
        return not self.tags or self.tags <= frozenset(json.loads(row["tags"]))


def check(body: Find, roots: list[VikingUri]) -> Plan:
    """Check the request; 400 for what the wire refuses, 501 for what is not here."""
    for name in ("filter", "since", "until", "time_field", "image_url"):
        if getattr(body, name) is not None:
            raise unimplemented(f"Search field '{name}'")
    if not body.query.strip():
        raise invalid_argument(
            "Search query or image_url must not be empty unless a filter is provided."
        )
    if any("\ud800" <= char <= "\udfff" for char in body.query):
        raise invalid_argument("Search query must contain valid Unicode text.")
    for tag in body.tags or []:
        if tag.count("=") != 1:
            raise invalid_argument(f"invalid search tag '{tag}': expected strict k=v format")
    return Plan(
        query=body.query,
        roots=roots,
        limit=body.node_limit if body.node_limit is not None else body.limit,
        threshold=body.score_threshold,
        levels=_levels(body.level),
        tags=frozenset(body.tags or []),
        wants_memories="memory" in _context_types(body.context_type),
        reads_content=body.read_content,
    )


def run(db: sqlite3.Connection, account: str, plan: Plan) -> Json:
    """The result of a search: sorted by score, at most `limit` hits."""
    hits = _hits(db, account, plan) if plan.wants_memories else []
    return {"memories": hits, "resources": [], "skills": [], "total": len(hits)}


def _hits(db: sqlite3.Connection, account: str, plan: Plan) -> list[Json]:
    query = frozenset(sorted(terms(plan.query))[:_MAX_QUERY_TERMS])
    takes_unrelated = plan.threshold is None or plan.threshold < UNRELATED
    takes_all = takes_unrelated or bool(named_categories(query))
    scored: dict[str, tuple[float, sqlite3.Row]] = {}
    for root in plan.roots:
        rows = (
            files.below(db, account, root)
            if takes_all
            else files.matching(db, account, root, query)
        )
        for row in filter(plan.wants, rows):
            document = frozenset(row["tokens"].split())
            scored[row["path"]] = (score(query, document, category_of(row["path"])), row)
    ranked = sorted(scored.values(), key=lambda hit: (-hit[0], -hit[1]["level"], hit[1]["path"]))
    above = [hit for hit in ranked if plan.threshold is None or hit[0] > plan.threshold]
    return [_view(row, value, plan) for value, row in above[: plan.limit]]


def category_of(path: str) -> str:
    """The first segment after `memories/`; `profile.md` is `profile`."""
    segments = path.split("/")
    below = segments[segments.index("memories") + 1 :]
    return below[0].removesuffix(".md") if below else ""


def _view(row: sqlite3.Row, value: float, plan: Plan) -> Json:
    hit = files.view(row) | {"score": value}
    return hit | {"content": row["content"]} if plan.reads_content else hit


def _levels(level: Any) -> AbstractSet[int] | None:
    """The wanted levels; what is no level is ignored, as on the wire."""
    candidates = cast(list[object], level) if isinstance(level, list) else [level]
    levels = frozenset(each for each in candidates if type(each) is int)
    return levels or None


def _context_types(value: str | list[str] | None) -> list[str]:
    if value is None or value == "":
        return list(_CONTEXT_TYPES)
    types = [value] if isinstance(value, str) else value
    if not set(types) <= set(_CONTEXT_TYPES):
        raise invalid_argument(f"context_type must be one or more of: {', '.join(_CONTEXT_TYPES)}")
    return types
