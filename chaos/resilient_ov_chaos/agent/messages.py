"""Messages as the host hands them over, each with a mark inside.

Pure. The words avoid everything an extraction would take for worth remembering, so that a read
always gives the persona's first memory and nothing else.
"""

from types import SimpleNamespace
from typing import Any, Final

from resilient_ov_chaos.agent.job import Persona, Talk

QUERY: Final = "preferred explanations"
"""What reads ask for; its words are those of the first memory."""


def message(mark: str) -> Any:
    """Return the message of a mark, the same every time."""
    if mark.endswith("h"):
        text = f"Tell me the next part of {mark}, please."
        kind = "human"
    else:
        text = f"Here comes the next part: {mark}. Shall it go on?"
        kind = "ai"
    return SimpleNamespace(
        type=kind, content=text, id=mark, name=None, additional_kwargs={}, tool_calls=[]
    )


_TOPICS: Final = ("weather", "music", "history", "gardening", "railways", "cooking")
_DETAIL: Final = " with a short word on where it was read and who has checked it"


def first_words(persona: Persona) -> list[Any]:
    """Return the turn that leaves the persona's first memories.

    Several long ones, so that the answer to a read is long enough to be cut, dripped and slowed.
    """
    return [
        SimpleNamespace(
            type="human",
            content="\n".join(
                f"I prefer {persona.seed} explanations of {topic}{_DETAIL * 4}."
                for topic in _TOPICS
            ),
            id=persona.seed,
            name=None,
            additional_kwargs={},
            tool_calls=[],
        )
    ]


def turn_marks(talk: Talk, turn: int) -> tuple[str, str]:
    """Return the marks of a turn: what the user says and the answer."""
    return f"{talk.thread}n{turn:04d}h", f"{talk.thread}n{turn:04d}a"
