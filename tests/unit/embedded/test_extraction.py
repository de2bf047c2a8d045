import pytest

from resilient_ov.embedded.extraction import Memory, extract, merge_profile
from resilient_ov.embedded.sessions import MEMORY_TYPES


def _said(text: str, **fields: object) -> dict[str, object]:
    parts = [{"type": "text", "text": text}]
    return {"role": "user", "parts": parts, "created_at": "2026-01-01T00:00:00Z"} | fields


def _found(text: str) -> list[tuple[str, str]]:
    return [(m.category, m.text) for m in extract([_said(text)], types=MEMORY_TYPES)]


@pytest.mark.parametrize(
    ("text", "memory"),
    [
        (
            "I prefer concise technical explanations.",
            ("preferences", "User prefers concise technical explanations."),
        ),
        ("Well, I really don't like jargon!", ("preferences", "User does not like jargon.")),
        ("I also hate ash", ("preferences", "User hates ash.")),
        ("My name is Bob", ("profile", "User's name is Bob.")),
        ("I'm a data engineer.", ("profile", "User is a data engineer.")),
        ("I work at Acme", ("profile", "User works at Acme.")),
        ("I study physics", ("profile", "User studies physics.")),
        ("we decided to use Kafka", ("events", "We decided to use Kafka.")),
        ("The launch is on Monday", ("events", "The launch is on Monday.")),
        ("Project Alpha uses Python 3.12.", ("entities", "Project Alpha uses Python 3.12.")),
        ("Please remember that the key hangs left", ("entities", "The key hangs left.")),
        ("我喜欢简洁的技术解释。", ("preferences", "我喜欢简洁的技术解释。")),
        ("我不喜欢长篇大论", ("preferences", "我不喜欢长篇大论。")),
        ("我叫小明", ("profile", "我叫小明。")),
        ("我住在上海！", ("profile", "我住在上海。")),
        ("我们决定下周上线", ("events", "我们决定下周上线。")),
        ("阿尔法项目使用 Python", ("entities", "阿尔法项目使用 Python。")),
        ("请记住：钥匙在左边", ("entities", "钥匙在左边。")),
    ],
)
def test_one_sentence_is_remembered(text: str, memory: tuple[str, str]) -> None:
    assert _found(text) == [memory]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ok",
        "What is the weather like?",
        "note 0",
        "今天天气怎么样".replace("今天", ""),
        "x" * 500,
    ],
)
def test_small_talk_is_not_remembered(text: str) -> None:
    assert _found(text) == []


def test_every_sentence_counts_and_none_twice() -> None:
    text = "Hi. I prefer tea. Project Alpha uses Python 3.12. I prefer tea."
    assert [category for category, _ in _found(text)] == ["preferences", "entities"]


def test_only_users_and_only_wanted_types_count() -> None:
    messages = [_said("I like tea", role="assistant"), _said("I like oak"), _said("My name is X")]
    assert extract(messages, types=["profile"]) == [Memory("profile", "User's name is X.")]


def test_what_a_peer_said_is_the_peers() -> None:
    (memory,) = extract([_said("I like boats", peer_id="bob")], types=MEMORY_TYPES)
    assert memory.peer == "bob"
    assert memory.segments == ("preferences", "bob", "likes_boats.md")


def test_a_time_that_is_none_fails_the_archive() -> None:
    with pytest.raises(ValueError, match="isoformat"):
        extract([_said("I like tea", created_at="yesterday")], types=MEMORY_TYPES)


def test_file_names_are_readable_and_distinct() -> None:
    def name(text: str) -> str:
        return Memory("preferences", text).segments[-1]

    assert name("User likes C.") == "likes_c.md"
    assert name("User likes C++.") != "likes_c.md"
    assert name("User likes " + "a " * 80 + "x.") != name("User likes " + "a " * 80 + "y.")
    assert len(name("User likes " + "a " * 200)) < 80
    assert Memory("profile", "x").segments == ("profile.md",)
    assert Memory("events", "We met.").segments == ("events", "notes", "we_met.md")


def test_the_profile_collects_lines_once() -> None:
    profile = merge_profile(merge_profile("", "User is a cook."), "User lives in Rome.")
    assert merge_profile(profile, "User is a cook.") == "User is a cook.\nUser lives in Rome."
