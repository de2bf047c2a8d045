"""Search over files: full-text candidates, scored, filtered and cut to the limit.

Functions take the open connection and run inside the caller's transaction.
"""

import json
import sqlite3
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, cast

from resilient_ov.domain.namespace import MEMORIES, VikingUri
from resilient_ov.embedded import files
from resilient_ov.embedded.bodies import Find
from resilient_ov.embedded.errors import Json, invalid_argument, unimplemented
from resilient_ov.embedded.files import Shelf
from resilient_ov.embedded.terms import UNRELATED, named_categories, score, terms

MEMORY, RESOURCE, SKILL = _CONTEXT_TYPES = ("memory", "resource", "skill")
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
    types: AbstractSet[str]
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
        types=frozenset(_context_types(body.context_type)),
        reads_content=body.read_content,
    )


def run(
    db: sqlite3.Connection, shelf: Shelf, plan: Plan, type_of: Callable[[VikingUri], str]
) -> Json:
    """The result of a search: sorted by score, at most `limit` hits of the wanted types."""
    hits = _hits(db, shelf, plan, type_of)
    lists = {
        name: [hit for hit in hits if hit["context_type"] == kind]
        for name, kind in (("memories", MEMORY), ("resources", RESOURCE), ("skills", SKILL))
    }
    return lists | {"total": len(hits)}


def _hits(
    db: sqlite3.Connection, shelf: Shelf, plan: Plan, type_of: Callable[[VikingUri], str]
) -> list[Json]:
    query = frozenset(sorted(terms(plan.query))[:_MAX_QUERY_TERMS])
    takes_unrelated = plan.threshold is None or plan.threshold < UNRELATED
    takes_all = takes_unrelated or bool(named_categories(query))
    scored: dict[str, tuple[float, sqlite3.Row]] = {}
    for root in plan.roots:
        rows = (
            files.everything(db, shelf, root)
            if takes_all
            else files.matching(db, shelf, root, query)
        )
        for row in filter(plan.wants, rows):
            if type_of(files.uri_of(row)) in plan.types:
                document = frozenset(row["tokens"].split())
                scored[row["path"]] = (score(query, document, category_of(row)), row)
    ranked = sorted(scored.values(), key=lambda hit: (-hit[0], -hit[1]["level"], hit[1]["path"]))
    above = [hit for hit in ranked if plan.threshold is None or hit[0] > plan.threshold]
    return [
        _view(row, value, plan, type_of(files.uri_of(row))) for value, row in above[: plan.limit]
    ]


def category_of(row: sqlite3.Row) -> str:
    """The first segment after `memories/`; `profile.md` is `profile`."""
    segments = files.uri_of(row).segments
    if MEMORIES not in segments:
        return segments[-1].removesuffix(".md")
    below = segments[segments.index(MEMORIES) + 1 :]
    return below[0].removesuffix(".md") if below else ""


def _view(row: sqlite3.Row, value: float, plan: Plan, context_type: str) -> Json:
    hit = files.view(row, context_type) | {"score": value}
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
