"""Toxiproxy's toxics as typed values, in seconds and bytes.

Rule: no I/O here; conversion to the wire's units happens in ``attributes``.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar


class Stream(StrEnum):
    """Which way a toxic works: UPSTREAM = requests, DOWNSTREAM = answers."""

    UPSTREAM = "upstream"
    DOWNSTREAM = "downstream"


@dataclass(frozen=True, slots=True, kw_only=True)
class Toxic:
    """What all toxics have.

    Attributes:
        stream: the server's own default is DOWNSTREAM, so it is always sent.
        toxicity: share of *connections* (not requests) that are hit, in (0, 1]; drawn once for
            each connection, so a share needs many fresh connections.

    """

    kind: ClassVar[str]
    holds: ClassVar[bool] = False
    """Whether Toxiproxy waits for a toxic of this kind to see its data through when it is removed:
    for ever when the receiver has left meanwhile, and new connections wait with it.
    """
    stream: Stream = Stream.DOWNSTREAM
    toxicity: float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 < self.toxicity <= 1.0:
            raise ValueError("toxicity: must be above 0 and at most 1; 0 is not quite a no-op")

    @property
    def name(self) -> str:
        """The name on the server; one toxic of a kind for each stream."""
        return f"{self.kind}_{self.stream.value}"

    def attributes(self) -> dict[str, int]:
        """Return the attributes in the wire's units."""
        return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency(Toxic):
    """Delays each piece of data by ``latency_s`` +- ``jitter_s``; accepting is never slowed."""

    kind: ClassVar[str] = "latency"
    latency_s: float
    jitter_s: float = 0.0

    def attributes(self) -> dict[str, int]:
        """Return milliseconds."""
        return {"latency": _ms(self.latency_s), "jitter": _ms(self.jitter_s)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bandwidth(Toxic):
    """Lets ``kb_per_s`` kilobytes through a second; 0 stalls."""

    kind: ClassVar[str] = "bandwidth"
    holds: ClassVar[bool] = True
    kb_per_s: int

    def attributes(self) -> dict[str, int]:
        """Return kilobytes per second."""
        return {"rate": self.kb_per_s}


@dataclass(frozen=True, slots=True, kw_only=True)
class Slicer(Toxic):
    """Cuts data into pieces of about ``average_bytes`` and waits ``delay_s`` between them."""

    kind: ClassVar[str] = "slicer"
    holds: ClassVar[bool] = True
    average_bytes: int
    variation_bytes: int = 0
    delay_s: float

    def attributes(self) -> dict[str, int]:
        """Return bytes and microseconds: the one toxic whose delay is not in milliseconds."""
        return {
            "average_size": self.average_bytes,
            "size_variation": self.variation_bytes,
            "delay": round(self.delay_s * 1_000_000),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeout(Toxic):
    """Lets nothing through; closes the connection ``after_s`` later, never when that is None."""

    kind: ClassVar[str] = "timeout"
    after_s: float | None = None

    def attributes(self) -> dict[str, int]:
        """Return milliseconds; the wire's 0 means never."""
        return {"timeout": 0 if self.after_s is None else max(1, _ms(self.after_s))}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetPeer(Toxic):
    """Resets a connection ``after_s`` after its first data."""

    kind: ClassVar[str] = "reset_peer"
    after_s: float = 0.0

    def attributes(self) -> dict[str, int]:
        """Return milliseconds."""
        return {"timeout": _ms(self.after_s)}


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitData(Toxic):
    """Closes a connection once ``limit_bytes`` went through."""

    kind: ClassVar[str] = "limit_data"
    limit_bytes: int

    def attributes(self) -> dict[str, int]:
        """Return bytes."""
        return {"bytes": self.limit_bytes}


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowClose(Toxic):
    """Delays the end of a connection by ``delay_s``."""

    kind: ClassVar[str] = "slow_close"
    delay_s: float

    def attributes(self) -> dict[str, int]:
        """Return milliseconds."""
        return {"delay": _ms(self.delay_s)}


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
