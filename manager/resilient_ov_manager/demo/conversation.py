"""What is said in the demo, in messages shaped like DeerFlow's, and what of it is worth keeping.

Pure. Each turn says beside its messages which words must end up in memory, so that the result can
be compared with what was meant and not with what our own filter thinks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

Words = tuple[str, str]
"""Role on the server and text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostMessage:
    """A message with the attributes of the host's messages."""

    type: str
    content: str
    id: str
    name: str | None = None
    additional_kwargs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    tool_calls: Sequence[Mapping[str, Any]] = ()


class Turn(NamedTuple):
    """What a turn adds to its thread, what is kept of that, and what is special about it."""

    messages: tuple[HostMessage, ...]
    kept: tuple[Words, ...]
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """One thread: whose it is and its turns before and during the outage."""

    user: str
    agent: str | None
    thread: str
    before: tuple[Turn, ...]
    during: tuple[Turn, ...]
    query: str
    """A question whose answer is in the turns before the outage."""
    mark: str
    """Words of that answer that nobody else's memory holds."""

    @property
    def speaker(self) -> str:
        """Who talks to whom."""
        return f"{self.user} ({self.agent or 'lead'})"

    def kept(self) -> list[Words]:
        """Return everything that memory must hold at the end, in order."""
        return [words for turn in (*self.before, *self.during) for words in turn.kept]


FORBIDDEN: Final = (
    "<memory>", "<current_uploads>", "<system-reminder>", "DB_PASSWORD", "roadmap.pdf",
    "Which strategy",
)  # fmt: skip
"""Pieces of hidden, tool and upload text; none of them may ever reach the server."""


def keep_hidden(extra: Mapping[str, object]) -> bool:
    """Stand in for the host's hook: a hidden message is real if it answers a question."""
    answer = extra.get("human_input_response")
    return isinstance(answer, dict)


def _user(message_id: str, text: str, **extra: Any) -> HostMessage:
    return HostMessage(type="human", content=text, id=message_id, additional_kwargs=extra)


def _ai(message_id: str, text: str) -> HostMessage:
    return HostMessage(type="ai", content=text, id=message_id)


def _calls(message_id: str, tool: str, **arguments: Any) -> HostMessage:
    call = {"name": tool, "args": arguments, "id": f"call-{message_id}"}
    return HostMessage(type="ai", content="", id=message_id, tool_calls=(call,))


def _tool(message_id: str, tool: str, text: str) -> HostMessage:
    return HostMessage(type="tool", content=text, id=message_id, name=tool)


def _plain(number: int, question: str, answer: str) -> Turn:
    return Turn(
        (_user(f"h{number}", question), _ai(f"a{number}", answer)),
        (("user", question), ("assistant", answer)),
    )


def _first(question: str, answer: str, note: str) -> Turn:
    """Return a thread's first turn: the host injects a reminder and what memory gave it."""
    hidden = {"hide_from_ui": True, "dynamic_context_reminder": True}
    return Turn(
        (
            HostMessage(
                type="system",
                content="<system-reminder>Today is 2026-02-03.</system-reminder>",
                id="h1",
                additional_kwargs={**hidden, "reminder_date": "2026-02-03"},
            ),
            _user("h1__memory", "<memory>\n(what was known before)\n</memory>", **hidden),
            _user("h1__user", question),
            _ai("a1", answer),
        ),
        (("user", question), ("assistant", answer)),
        note,
    )


def _upload() -> Turn:
    question = "Please read the roadmap. Remember that the budget review is in Room 7."
    answer = "I read it: three milestones. And the budget review is in Room 7."
    block = (
        "<current_uploads>\n- roadmap.pdf (/mnt/user-data/uploads/roadmap.pdf)\n"
        "</current_uploads>\n\n"
    )
    return Turn(
        (
            _user("h2", block + question, files=[{"filename": "roadmap.pdf"}]),
            _calls("c2", "read_file", path="/mnt/user-data/uploads/roadmap.pdf"),
            _tool("t2", "read_file", "Milestone 1 ... DB_PASSWORD=hunter2 ... " + "row " * 400),
            _ai("a2", answer),
        ),
        (("user", question), ("assistant", answer)),
        "uploads block, tool call, result",
    )


def _question() -> Turn:
    request = "Set up the deployment of Falcon."
    return Turn(
        (
            _user("h3", request),
            _calls("c3", "ask_clarification", question="Which strategy?"),
            _tool("t3", "ask_clarification", "Which strategy: rolling or blue-green?"),
        ),
        (("user", request),),
        "ends with a question to the user",
    )


def _clarified() -> Turn:
    value = "I prefer blue-green deployments."
    answer = "Blue-green it is; the plan is ready."
    response = {
        "version": 1,
        "kind": "human_input_response",
        "source": "ask_clarification",
        "request_id": "call-c3",
        "response_kind": "text",
        "value": value,
    }
    return Turn(
        (
            _user("h4", "(hidden)", hide_from_ui=True, human_input_response=response),
            _ai("a4", answer),
        ),
        (("user", value), ("assistant", answer)),
        "the answer: hidden, but real",
    )


ALICE: Final = Talk(
    user="alice",
    agent=None,
    thread="planning",
    before=(
        _first(
            "I prefer concise technical explanations. Our project Falcon runs on PostgreSQL 16.",
            "Noted: short and technical, and Falcon on PostgreSQL 16.",
            "hidden reminder, injected <memory>",
        ),
        _upload(),
        _question(),
        _clarified(),
    ),
    during=(
        _plain(5, "I also like tests that read like a story.", "Then I will write them so."),
        Turn(
            (_user("h6", "We decided to launch Falcon in May."),),
            (("user", "We decided to launch Falcon in May."),),
        ),
        _plain(7, "Draft the launch checklist.", "Here is the checklist: ten points."),
    ),
    query="how should explanations be written",
    mark="concise technical",
)

RESEARCHER: Final = Talk(
    user="alice",
    agent="researcher",
    thread="papers",
    before=(
        _first(
            "我喜欢用中文讨论论文。我们的项目使用 Rust 编写。",
            "好的，我会用中文讨论论文。",
            "the same, in Chinese",
        ),
    ),
    during=(_plain(2, "我决定下周提交论文。", "好的，下周提交。"),),
    query="用什么语言讨论论文",
    mark="用中文讨论论文",
)

BOB: Final = Talk(
    user="bob",
    agent=None,
    thread="planning",
    before=(
        _first(
            "I hate long meetings. I live in Lisbon.",
            "Short meetings then, and Lisbon time.",
            "the same",
        ),
    ),
    during=(_plain(2, "I love written decisions.", "I will write every decision down."),),
    query="what does the user think about meetings",
    mark="long meetings",
)

TALKS: Final = (ALICE, RESEARCHER, BOB)
