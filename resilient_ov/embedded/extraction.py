"""Finds what is worth remembering in what a user said: fixed rules, no model.

Pure: the same messages give the same memories. English and Chinese sentences; only the words of
users count, never the assistant's.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from resilient_ov.embedded.errors import Json
from resilient_ov.embedded.lines import text_of

_MAX_SENTENCE_CHARS: Final = 400
_MAX_SLUG_CHARS: Final = 60
_SENTENCE: Final = re.compile(r"[^.!?。！？；;\n]+(?:\.(?=\d)[^.!?。！？；;\n]+)*")

_LIKING: Final = re.compile(
    r"(?i)\bI (?:really |also |still |usually |always |generally |strongly )*"
    r"(?P<verb>prefer|like|love|enjoy|hate|dislike|favou?r|(?:do not|don't|don’t) like) "
    r"(?P<what>\S.*)"
)
_NAME: Final = re.compile(r"(?i)\b(?:my name is|call me) (?P<what>\S.*)")
_BEING: Final = re.compile(
    r"\bI(?: am|'m|’m) (?P<what>(?:a|an|the|from|based in|responsible for) \S.*)"
)
_DOING: Final = re.compile(r"(?i)\bI (?P<verb>work|live|study|teach) (?P<what>\S.*)")
_EVENT: Final = re.compile(
    r"(?i)\b(?:I|we) (?P<what>(?:will|plan to|are going to|decided|agreed|finished|shipped|"
    r"released|started|launched|met|moved|booked) \S.*)"
)
_DATED: Final = re.compile(
    r"(?i)\b(?:meeting|deadline|release|launch|trip|interview|exam)\b.*"
    r"\b(?:today|tomorrow|yesterday|on \w+day|next \w+|in \w+|\d{4}-\d{2}-\d{2})\b"
)
_FACT: Final = re.compile(
    r"^(?:The |Our |My )?(?:[Pp]roject |[Tt]eam |[Cc]ompany )?[A-Z][\w.-]*(?: [A-Z][\w.-]*)* "
    r"(?:uses|runs on|depends on|is built with|is written in|is hosted on|belongs to) \S.*"
)
_NOTE: Final = re.compile(r"(?i)^(?:please )?(?:remember|note)(?: that|:) (?P<what>\S.*)")

_ZH_NOTE: Final = re.compile(r"^(?:请)?(?:记住|记下|记得)[，,：:]?(?P<what>.+)")
_ZH_LIKING: Final = re.compile(r"我.{0,4}?(?:喜欢|偏好|偏爱|讨厌|习惯|爱|倾向)")
_ZH_PROFILE: Final = re.compile(
    r"我(?:叫|的名字|是一?[名位个]|住在|来自|在.{1,20}(?:工作|上学|读书))"
)
_ZH_EVENT: Final = re.compile(
    r"(?:昨天|今天|明天|下周|上周|下个?月|计划|决定|会议|截止|完成了|上线)"
)
_ZH_FACT: Final = re.compile(
    r"(?:项目|系统|团队|公司|服务).{0,30}(?:使用|采用|基于|运行在|依赖|属于)"
)

_THIRD_PERSON: Final = {
    "do not like": "does not like",
    "don't like": "does not like",
    "don’t like": "does not like",
    "study": "studies",
    "teach": "teaches",
}


@dataclass(frozen=True, slots=True)
class Memory:
    """One thing worth remembering.

    Attributes:
        category: preferences, entities, events or profile.
        text: one sentence.
        peer: who said it when not the user itself.

    """

    category: str
    text: str
    peer: str | None = None

    @property
    def segments(self) -> tuple[str, ...]:
        """Where it goes below `memories/`; the same sentence always goes to the same file."""
        match self.category:
            case "profile":
                return ("profile.md",)
            case "preferences":
                return ("preferences", self.peer or "user", f"{_slug(self.text)}.md")
            case "entities":
                return ("entities", "facts", f"{_slug(self.text)}.md")
            case _:
                return (self.category, "notes", f"{_slug(self.text)}.md")


def extract(messages: Iterable[Json], *, types: Iterable[str]) -> list[Memory]:
    """The memories of some stored messages, of the given types only, in order, without repeats.

    Raises:
        ValueError: a message's `created_at` is no ISO time. As on the wire the whole archive
            fails then.

    """
    wanted = frozenset(types)
    found: dict[Memory, None] = {}
    for message in messages:
        datetime.fromisoformat(message["created_at"])
        if message["role"] != "user":
            continue
        for sentence in _SENTENCE.findall(text_of(message)):
            memory = _judge(sentence.strip(), message.get("peer_id"))
            if memory is not None and memory.category in wanted:
                found[memory] = None
    return list(found)


def merge_profile(old: str, addition: str) -> str:
    """The profile is one file: a line per sentence, each once."""
    lines = [line for line in old.split("\n") if line]
    return "\n".join(lines if addition in lines else [*lines, addition])


def _judge(sentence: str, peer: str | None) -> Memory | None:
    if not 2 < len(sentence) <= _MAX_SENTENCE_CHARS:
        return None
    return next((Memory(category, text, peer) for category, text in _readings(sentence)), None)


def _readings(sentence: str) -> Iterator[tuple[str, str]]:
    """Every rule that fits, the most telling first."""
    if match := _NOTE.match(sentence):
        yield "entities", f"{_capital(match['what'])}."
    if match := _ZH_NOTE.match(sentence):
        yield "entities", f"{match['what'].strip()}。"
    if match := _LIKING.search(sentence):
        yield "preferences", f"User {_third_person(match['verb'])} {match['what']}."
    if match := _NAME.search(sentence):
        yield "profile", f"User's name is {match['what']}."
    if match := _BEING.search(sentence):
        yield "profile", f"User is {match['what']}."
    if match := _DOING.search(sentence):
        yield "profile", f"User {_third_person(match['verb'])} {match['what']}."
    if match := _EVENT.search(sentence):
        yield "events", f"{_capital(sentence)}."
    if _DATED.search(sentence):
        yield "events", f"{_capital(sentence)}."
    if _FACT.match(sentence):
        yield "entities", f"{sentence}."
    for category, rule in (
        ("preferences", _ZH_LIKING),
        ("profile", _ZH_PROFILE),
        ("events", _ZH_EVENT),
        ("entities", _ZH_FACT),
    ):
        if rule.search(sentence):
            yield category, f"{sentence}。"


def _third_person(verb: str) -> str:
    lower = verb.lower()
    return _THIRD_PERSON.get(lower, f"{lower}s")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _slug(text: str) -> str:
    """A file name: readable, and different for sentences that differ in more than case."""
    body = text.casefold().removeprefix("user ").rstrip(".。")
    words = re.findall(r"[^\W_]+", body)
    name = "_".join(words)
    if " ".join(words) == body and len(name) <= _MAX_SLUG_CHARS:
        return name
    mark = hashlib.sha256(body.encode()).hexdigest()[:8]
    return f"{name[:_MAX_SLUG_CHARS]}_{mark}"
