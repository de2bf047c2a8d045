"""Cuts a text into search terms and says how much two sets of terms have in common.

No I/O here. Words for scripts with spaces, single characters and pairs for Chinese, Japanese and
Korean, where SQLite's own tokenizers find no two-character word.
"""

import math
import re
import unicodedata
from collections.abc import Set as AbstractSet
from typing import Final

UNRELATED: Final = 0.5
"""Score of a text that shares nothing with the query, as on the wire ((1 + cosine) / 2)."""

_SPAN: Final = 0.499
_CATEGORY_WEIGHT: Final = 0.3
_WORD: Final = re.compile(r"[^\W_]+")
_CJK: Final = re.compile(
    "[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af\U00020000-\U0003ffff]+"
)
_ENGLISH_STOP_WORDS: Final = """
a an and are as at be been but by can did do does for from had has have how i if in into is it its
me my of on or our s should so t that the their them there they this to was we were what when where
which who will with would you your
"""
_STOP_WORDS: Final = frozenset(_ENGLISH_STOP_WORDS.split()) | frozenset(
    "的了是我你他她它在和与吗呢吧啊也都就很这那们什么"
)
_CATEGORY_WORDS: Final[dict[str, frozenset[str]]] = {
    "preferences": frozenset({"preference", "prefer", "like", "偏好", "喜欢", "喜好"}),
    "entities": frozenset({"entity", "entitie", "fact", "project", "实体", "项目", "事实"}),
    "events": frozenset({"event", "plan", "decision", "事件", "计划", "决定"}),
    "profile": frozenset({"profile", "background", "资料", "画像", "背景"}),
}


def terms(text: str) -> frozenset[str]:
    """The distinct terms of a text: folded, without stop words, plural `s` dropped."""
    found: set[str] = set()
    for word in _WORD.findall(unicodedata.normalize("NFKC", text).casefold()):
        position = 0
        for run in _CJK.finditer(word):
            found.add(_stem(word[position : run.start()]))
            found.update(run[0])
            found.update(map("".join, zip(run[0], run[0][1:], strict=False)))
            position = run.end()
        found.add(_stem(word[position:]))
    return frozenset(found - _STOP_WORDS - {""})


def score(query: AbstractSet[str], document: AbstractSet[str], category: str) -> float:
    """How related a memory is to a query: `UNRELATED` for not at all, else above it and below 1.

    A query that names the memory's category is related to all of the category, as it would be
    for an embedding; but nothing is related to a text without words.
    """
    if not document:
        return UNRELATED
    common = len(query & document)
    cosine = common / math.sqrt(len(query) * len(document)) if common else 0.0
    named = _CATEGORY_WEIGHT if query & _CATEGORY_WORDS.get(category, frozenset()) else 0.0
    return UNRELATED + _SPAN * (1.0 - (1.0 - cosine) * (1.0 - named))


def named_categories(query: AbstractSet[str]) -> list[str]:
    """The categories that a query names."""
    return [name for name, words in _CATEGORY_WORDS.items() if query & words]


def _stem(word: str) -> str:
    long_plural = len(word) > 3 and word.endswith("s") and not word.endswith("ss")
    return word[:-1] if long_plural and word.isascii() else word
