"""What became of every hit of a search, and why: the way to choose the threshold and the caps.

Pure. What is returned and injected is decided by `recall` alone; this module only finds the
reason for what is missing there.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from resilient_ov.domain.namespace import HitRefusal, View, judge_hits
from resilient_ov.domain.recall import (
    MEMORY_LEVEL,
    MemoryHit,
    ServerHit,
    injection_text,
    select,
)

_NO_CAP: Final = 10**9


class Fate(StrEnum):
    """What became of a hit. The first three are returned by ``search``."""

    INJECTED = "injected"
    TOO_LONG = "too_long"
    """Returned, not injected: its line is longer than the cap of one entry."""
    NO_ROOM = "no_room"
    """Returned, not injected: the cap of the whole text was reached, or its line is there already
    or empty once it is cleaned."""
    BEYOND_TOP_K = "beyond_top_k"
    BELOW_THRESHOLD = "below_threshold"
    REPEATED = "repeated"
    """Its address or text was there already, with a better score."""
    OTHER_CATEGORY = "other_category"
    NOT_A_MEMORY = "not_a_memory"
    """The note of a directory, or a blank text."""
    NOT_OWN = "not_own"
    """It does not lie in the caller's own memories; its text and address are not told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What cuts: the threshold (strict), the number of hits, and the caps of the injection."""

    score_threshold: float
    top_k: int
    max_chars: int
    max_item_chars: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A hit and its fate. ``hit`` None = it is not the caller's to see."""

    fate: Fate
    score: float
    hit: MemoryHit | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """What one threshold would give: hits above it, how many are returned, how much is injected."""

    score_threshold: float
    above: int
    returned: int
    injection_chars: int


def explain(
    hits: Sequence[ServerHit],
    *,
    view: View,
    limits: Limits,
    categories: Collection[str] | None = None,
) -> tuple[Judged, ...]:
    """Tell the fate of every hit of ONE reply, best score first.

    The reply should have been asked for without a threshold and with the largest limit, or what
    the server cut is not in it.
    """
    wanted = select(hits, view=view, categories=categories).hits
    others = [hit for hit in select(hits, view=view).hits if hit not in wanted]
    above = [hit for hit in wanted if hit.score > limits.score_threshold]
    returned = above[: limits.top_k]
    judged = [Judged(fate=Fate.OTHER_CATEGORY, score=hit.score, hit=hit) for hit in others]
    for place, hit in enumerate(wanted):
        if place < len(returned):
            fate = _injected(returned, place, limits)
        else:
            fate = Fate.BEYOND_TOP_K if place < len(above) else Fate.BELOW_THRESHOLD
        judged.append(Judged(fate=fate, score=hit.score, hit=hit))
    judged += _left_out(hits, view, [*wanted, *others])
    return tuple(sorted(judged, key=lambda one: -one.score))


def sweep(judged: Sequence[Judged], thresholds: Sequence[float], limits: Limits) -> list[Point]:
    """Return what each threshold would give for the same reply, caps as they are."""
    asked = [
        one.hit for one in judged if one.hit is not None and one.fate is not Fate.OTHER_CATEGORY
    ]
    points: list[Point] = []
    for threshold in thresholds:
        above = [hit for hit in asked if hit.score > threshold]
        returned = above[: limits.top_k]
        points.append(
            Point(
                score_threshold=threshold,
                above=len(above),
                returned=len(returned),
                injection_chars=len(_text(returned, limits)),
            )
        )
    return points


def _injected(returned: Sequence[MemoryHit], place: int, limits: Limits) -> Fate:
    # Lines are added best first, each whole or not at all, so a hit is in the text exactly when
    # the text with it is longer than the text without it.
    if len(_text(returned[: place + 1], limits)) > len(_text(returned[:place], limits)):
        return Fate.INJECTED
    alone = [returned[place]]
    fits = injection_text(alone, max_chars=_NO_CAP, max_item_chars=limits.max_item_chars)
    is_too_long = not fits and injection_text(alone, max_chars=_NO_CAP, max_item_chars=_NO_CAP)
    return Fate.TOO_LONG if is_too_long else Fate.NO_ROOM


def _text(hits: Sequence[MemoryHit], limits: Limits) -> str:
    return injection_text(hits, max_chars=limits.max_chars, max_item_chars=limits.max_item_chars)


def _left_out(hits: Sequence[ServerHit], view: View, selected: Sequence[MemoryHit]) -> list[Judged]:
    """Return the hits that `select` dropped for what they are."""
    left: list[Judged] = []
    unclaimed = {hit.uri: hit for hit in selected}
    for hit, verdict in zip(hits, judge_hits([hit.uri for hit in hits], view), strict=True):
        score = hit.score if math.isfinite(hit.score) else 0.0
        if isinstance(verdict, HitRefusal):
            is_note = verdict is HitRefusal.DIRECTORY_NOTE
            fate = Fate.NOT_A_MEMORY if is_note else Fate.NOT_OWN
            left.append(Judged(fate=fate, score=score, hit=None))
        elif hit.level not in {None, MEMORY_LEVEL} or not hit.text.strip():
            left.append(Judged(fate=Fate.NOT_A_MEMORY, score=score, hit=None))
        elif verdict.uri in unclaimed and unclaimed[verdict.uri].score == score:
            del unclaimed[verdict.uri]
        else:
            left.append(Judged(fate=Fate.REPEATED, score=score, hit=None))
    return left
