"""Settings of what is remembered and recalled, and where its state is kept.

No I/O and no validation here: values are checked once, where the configuration comes in.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from resilient_ov.settings.knob import Knob, Section

_MIB = 1024 * 1024
_GIB = 1024 * _MIB

DEFAULT_INJECTION_QUERY = (
    "user profile preferences important entities events ongoing goals constraints"
    " and prior decisions"
)


class StateKind(StrEnum):
    """Where the state of the sessions is kept."""

    FILE = "file"
    POSTGRESQL = "postgresql"


class OutboxKind(StrEnum):
    """Where waiting writes are kept."""

    MEMORY = "memory"
    SQLITE = "sqlite"
    POSTGRESQL = "postgresql"


class InjectionMode(StrEnum):
    """Whether recalled memory reaches the prompt."""

    ON = "on"
    MEASURE = "measure"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RetrievalSettings(Section):
    """What is asked for, and how much of it reaches the prompt."""

    top_k: Annotated[int, Knob("Hits asked for when the caller names no number.", 1, 100)] = 8
    score_threshold: Annotated[
        float, Knob("Lowest score of a hit; 0.5 means unrelated on 0.5.2.", 0, 1)
    ] = 0.55
    max_injection_chars: Annotated[
        int, Knob("Cap of the injected text, in characters.", 256, 100_000)
    ] = 12_000
    max_item_chars: Annotated[int, Knob("Cap of one entry, in characters.", 32, 20_000)] = 1_000
    injection_query: Annotated[
        str,
        Knob(
            "Query of `get_context` when the host passes none.",
            accepts="text that is not blank",
            private=True,
        ),
    ] = DEFAULT_INJECTION_QUERY


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SessionSettings(Section):
    """How sessions are committed, extracted and settled."""

    wait_for_extraction: Annotated[
        bool,
        Knob("`add` waits for the extraction; needs budgets.add_seconds >= 15."),
    ] = False
    memory_types: Annotated[
        tuple[str, ...] | None,
        Knob(
            "Memory types the server may extract; null = the server's own choice.",
            accepts="a non-empty list of distinct names of a-z 0-9 _ -, or null",
        ),
    ] = None
    settle_s: Annotated[
        float, Knob("Time between the two looks that prove a batch absent.", 0.5, 300)
    ] = 5.0
    commit_min_messages: Annotated[
        int, Knob("Commit when this many messages wait for one.", 1, 1_000)
    ] = 1
    commit_min_s: Annotated[
        float, Knob("Commit at most this often; the sweeper commits the rest.", 0, 3_600)
    ] = 0.0


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MessageSettings(Section):
    """How large what is sent may be."""

    max_message_chars: Annotated[
        int, Knob("A longer text is cut, with a marker.", 256, 1_000_000)
    ] = 20_000
    max_batch_bytes: Annotated[
        int,
        Knob(
            "A larger batch is split.",
            16_384,
            16_777_216,
            accepts="16384..16777216, at least 6 x messages.max_message_chars + 4096",
        ),
    ] = _MIB


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class WatermarkSettings(Section):
    """What a session remembers of what was sent."""

    window: Annotated[int, Knob("Message digests remembered per session.", 16, 10_000)] = 512


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class StateSettings(Section):
    """Where the state of the sessions lives."""

    kind: Annotated[StateKind, Knob("Store of the session state.")] = StateKind.FILE
    dsn_env: Annotated[
        str | None,
        Knob(
            "NAME of the environment variable that holds the DSN of the store.",
            accepts="a variable name, or null",
            private=True,
        ),
    ] = None
    retention_days: Annotated[
        int, Knob("State of an untouched session is removed after this; 0 = keep.", 0, 3_650)
    ] = 0


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class OutboxSettings(Section):
    """Where waiting writes live. A durable kind keeps undelivered text on disk."""

    kind: Annotated[OutboxKind, Knob("Store of waiting writes.")] = OutboxKind.MEMORY
    max_bytes: Annotated[int, Knob("Durable kinds: text kept, in bytes.", _MIB, 100 * _GIB)] = (
        256 * _MIB
    )
    max_age_hours: Annotated[int, Knob("Durable kinds: longest wait, in hours.", 1, 8_760)] = 168


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class InjectionSettings(Section):
    """Whether recalled memory reaches the prompt."""

    mode: Annotated[
        InjectionMode,
        Knob("`measure`: `get_context` recalls and measures, and injects nothing."),
    ] = InjectionMode.ON
    percent: Annotated[
        float,
        Knob(
            "Share of users, drawn by their hash, that get an injection;"
            " the others as with `measure`.",
            0,
            100,
        ),
    ] = 100.0
