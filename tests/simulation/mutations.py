"""Faults put into the product on purpose; the simulation must find each.

Rule: a mutation is a context that breaks one rule of the write path or the policy and mends it.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from resilient_ov.domain import settlement
from resilient_ov.domain.watermark import InDoubt, ReadBack
from resilient_ov.policy.breaker import Breaker
from resilient_ov.policy.permits import Permit
from resilient_ov.testing import memory_store
from resilient_ov.usecases import settle, writer

Mutation = Callable[[], AbstractContextManager[Any]]


@contextmanager
def no_intent_record() -> Iterator[None]:
    """The intent is never written down."""
    save = memory_store._MemoryUnit.save

    def forgetful(self: Any, watermark: Any) -> None:
        save(self, replace(watermark, in_doubt=None))

    with patch.object(memory_store._MemoryUnit, "save", forgetful):
        yield


@contextmanager
def absence_believed_at_first_look() -> Iterator[None]:
    """One answered look without the digests is taken as proof."""

    def hasty(doubt: InDoubt, look: Any, *, owner: str, settle_s: float) -> Any:
        seen = ReadBack(owner=owner, absent_looks=1, last_absent_end_s=float("-inf"))
        return settlement.judge(replace(doubt, read_back=seen), look, owner=owner, settle_s=0.0)

    with patch.object(settle, "judge", hasty):
        yield


@contextmanager
def unanswered_looks_ignored() -> Iterator[None]:
    """A look that was not answered leaves the settle clock running."""

    def deaf(doubt: InDoubt, *, owner: str) -> ReadBack:
        return doubt.read_back if doubt.read_back is not None else ReadBack(owner=owner)

    with patch.object(settle, "unanswered", deaf):
        yield


@contextmanager
def rekeyed_ids_ignored() -> Iterator[None]:
    """``X__user`` is another message than ``X``."""
    from resilient_ov.domain import presentation

    plain = presentation.fingerprint

    def blind(session_id: str, message: Any) -> Any:
        found = plain(session_id, message)
        return found if found.numbered else replace(found, older=(), newer=None, token=found.exact)

    with patch.object(presentation, "fingerprint", blind):
        yield


@contextmanager
def dropped_probe_lease() -> Iterator[None]:
    """A probe that was broken off keeps its place for ever."""
    enter = Breaker.enter

    def for_ever(self: Breaker, now_s: float, lease_until_s: float) -> Any:
        return enter(self, now_s, float("inf"))

    with (
        patch.object(Breaker, "enter", for_ever),
        patch.object(Permit, "cancel", lambda self: None),
    ):
        yield


@contextmanager
def lost_wake_up() -> Iterator[None]:
    """The writer does not tell the background that something came in."""
    init = writer.Writer.__init__

    def quiet(self: Any, **given: Any) -> None:
        init(self, **{**given, "wake": lambda: None})

    with patch.object(writer.Writer, "__init__", quiet):
        yield


MUTATIONS: dict[str, Mutation] = {
    "no_intent_record": no_intent_record,
    "absence_believed_at_first_look": absence_believed_at_first_look,
    "unanswered_looks_ignored": unanswered_looks_ignored,
    "rekeyed_ids_ignored": rekeyed_ids_ignored,
    "dropped_probe_lease": dropped_probe_lease,
    "lost_wake_up": lost_wake_up,
}
