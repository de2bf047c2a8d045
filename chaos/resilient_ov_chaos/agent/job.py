"""What a process of the product is told to do; passed as one line of JSON.

No I/O here.
"""

from typing import Annotated

from pydantic import Field, TypeAdapter
from pydantic.dataclasses import dataclass

from resilient_ov_chaos.history import Colour


@dataclass(frozen=True, kw_only=True)
class Persona:
    """One owner of memory: a user, and perhaps a custom agent of that user."""

    number: int
    user: str
    agent: str | None
    seed: str
    """Mark of what this memory holds from the start."""


@dataclass(frozen=True, kw_only=True)
class Talk:
    """One conversation.

    Attributes:
        thread: its id, which is also the head of its messages' marks.
        messages: marks the host has checkpointed, oldest first.
        next_turn: number of the next turn.

    """

    persona: int
    thread: str
    number: int
    colour: Colour
    messages: tuple[str, ...] = ()
    next_turn: int = 1


@dataclass(frozen=True, kw_only=True)
class Job:
    """Everything one process needs.

    Attributes:
        config: the product's ``backend_config``.
        think_s: what the model takes for an answer, on average.
        mutant: name of the switch to turn off in the product, None = none.
        connects_to: port whose connections are counted.

    """

    process: int
    run: str
    seed: int
    config: dict[str, object]
    personas: tuple[Persona, ...]
    talks: tuple[Talk, ...]
    think_s: Annotated[float, Field(gt=0)]
    connects_to: int
    mutant: str | None = None


JOB: TypeAdapter[Job] = TypeAdapter(Job)
