import sqlite3
from typing import Any

import pytest

from resilient_ov.domain.namespace import VikingUri
from resilient_ov.embedded import files, search
from resilient_ov.embedded.auth import Caller, Role
from resilient_ov.embedded.bodies import Find
from resilient_ov.embedded.errors import ApiError
from resilient_ov.embedded.layout_home import HomeLayout

SHELF = HomeLayout().shelf(Caller(Role.USER, "acme", "alice"))
HOME = VikingUri(("user", "alice", "memories"))
TEXTS = {
    "preferences/user/a.md": "User prefers concise technical explanations.",
    "preferences/user/b.md": "User likes green tea.",
    "preferences/user/c.md": "我喜欢简洁的技术解释。",
    "entities/facts/d.md": "Project Alpha uses Python.",
}


@pytest.fixture
def memories(db: sqlite3.Connection) -> sqlite3.Connection:
    for path, text in TEXTS.items():
        tags = [f"memory_type={path.split('/')[0]}"]
        files.write(db, SHELF, HOME.child(*path.split("/")), text, tags)
    files.renew_notes(db, SHELF, [HOME.child(*path.split("/")) for path in TEXTS])
    return db


def _run(db: sqlite3.Connection, plan: search.Plan) -> dict[str, Any]:
    return search.run(db, SHELF, plan, lambda _: search.MEMORY)


def _names(db: sqlite3.Connection, query: str, *roots: VikingUri, **fields: object) -> list[str]:
    body = Find.model_validate({"query": query, "level": 2, **fields})
    result = _run(db, search.check(body, list(roots) or [HOME]))
    assert result["total"] == len(result["memories"])
    return [hit["uri"].split("/")[-1] for hit in result["memories"]]


def test_the_best_hit_comes_first_and_the_threshold_is_strict(memories: sqlite3.Connection) -> None:
    assert _names(memories, "concise explanations", score_threshold=0.5) == ["a.md"]
    assert _names(memories, "concise explanations")[0] == "a.md"
    assert len(_names(memories, "concise explanations", score_threshold=0.49)) == 4


def test_two_chinese_characters_find_their_memory(memories: sqlite3.Connection) -> None:
    assert _names(memories, "解释", score_threshold=0.55) == ["c.md"]


def test_a_query_of_stop_words_is_related_to_nothing(memories: sqlite3.Connection) -> None:
    assert _names(memories, "what is it", score_threshold=0.5) == []


def test_a_query_that_names_a_category_finds_it(memories: sqlite3.Connection) -> None:
    assert _names(memories, "preferences", score_threshold=0.55) == ["a.md", "b.md", "c.md"]


def test_targets_bound_the_search_and_overlap_harmlessly(memories: sqlite3.Connection) -> None:
    roots = [HOME.child("preferences"), HOME, HOME.child("preferences", "user", "b.md")]
    assert sorted(_names(memories, "x", *roots)) == ["a.md", "b.md", "c.md", "d.md"]
    assert _names(memories, "x", HOME.child("entities")) == ["d.md"]


def test_limits_levels_and_tags_filter(memories: sqlite3.Connection) -> None:
    assert len(_names(memories, "x", limit=2)) == 2
    assert len(_names(memories, "x", limit=9, node_limit=1)) == 1
    assert ".abstract.md" in _names(memories, "x", level=None, limit=99)
    assert _names(memories, "x", level=[2], tags=["memory_type=entities"]) == ["d.md"]
    assert _names(memories, "x", context_type=["resource"]) == []
    assert len(_names(memories, "x", context_type="")) == 4


def test_content_comes_on_request(memories: sqlite3.Connection) -> None:
    body = Find(query="tea", level=2, limit=1, read_content=True)
    (hit,) = _run(memories, search.check(body, [HOME]))["memories"]
    assert hit["content"] == hit["abstract"] == "User likes green tea."


def test_a_very_long_query_is_cut_not_refused(memories: sqlite3.Connection) -> None:
    words = " ".join(f"w{number}" for number in range(5000))
    assert _names(memories, words, score_threshold=0.5) == []


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"query": " "}, 400),
        ({"query": "\ud800"}, 400),
        ({"query": "x", "tags": ["a=b=c"]}, 400),
        ({"query": "x", "context_type": "zzz"}, 400),
        ({"query": "x", "filter": {}}, 501),
        ({"query": "x", "since": "2h"}, 501),
    ],
)
def test_what_is_refused(fields: dict[str, object], status: int) -> None:
    with pytest.raises(ApiError) as caught:
        search.check(Find.model_validate(fields), [HOME])
    assert caught.value.status == status
