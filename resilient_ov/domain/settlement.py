"""When a batch in doubt counts as stored, and when as lost.

Rule: pure; presence is believed at once, absence only after two answered looks, the second
beginning at least the settle time after the first ended. A look that was not answered starts
that clock again: a server that was stopped may still hold the original.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from resilient_ov.domain.watermark import InDoubt, ReadBack

MAX_UNUSABLE_LOOKS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A read-back that was answered in full.

    ``seen`` counts our digests from where the batch should begin, ``foreign_lines`` the lines
    without our mark there; ``before`` counts the digests before that place, where the batch stands
    if the server lost something older. ``gone`` = the server has no such session (any more).
    ``exact`` = that place is known, so nothing older is in ``seen``.
    """

    total: int
    live: int
    newest_archive: int
    began_s: float
    ended_s: float
    seen: Mapping[str, int] = field(default_factory=dict[str, int])
    before: Mapping[str, int] = field(default_factory=dict[str, int])
    foreign_lines: int = 0
    gone: bool = False
    exact: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """The doubt is over: these digests are stored, the others are absent for good."""

    present: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StillInDoubt:
    """Look again, not before ``look_again_s`` (monotonic)."""

    read_back: ReadBack
    look_again_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknowable:
    """The server answers but its answers cannot be understood; the batch is not sent again."""


def judge(doubt: InDoubt, look: Look, *, owner: str, settle_s: float) -> Settled | StillInDoubt:
    """Return what an answered look means for the batch in doubt."""
    present = tuple(d for d in doubt.digests if d in look.seen or d in look.before)
    if len(present) == len(doubt.digests):
        return Settled(present=present)
    before = _mine(doubt.read_back, owner)
    if before.absent_looks >= 1 and look.began_s >= before.last_absent_end_s + settle_s:
        return Settled(present=present)
    if before.absent_looks >= 1:
        # Too early to count: the clock of the first look goes on.
        return StillInDoubt(read_back=before, look_again_s=before.last_absent_end_s + settle_s)
    counted = replace(before, absent_looks=1, last_absent_end_s=look.ended_s)
    return StillInDoubt(read_back=counted, look_again_s=look.ended_s + settle_s)


def unanswered(doubt: InDoubt, *, owner: str) -> ReadBack:
    """Return the read-back after a look that timed out, failed or was refused."""
    return replace(_mine(doubt.read_back, owner), absent_looks=0, last_absent_end_s=0.0)


def unusable(doubt: InDoubt, *, owner: str) -> ReadBack | Unknowable:
    """Return the read-back after a look whose content could not be understood."""
    mine = _mine(doubt.read_back, owner)
    looks = mine.unusable_looks + 1
    if looks >= MAX_UNUSABLE_LOOKS:
        return Unknowable()
    return replace(mine, unusable_looks=looks, absent_looks=0, last_absent_end_s=0.0)


def may_look_s(doubt: InDoubt, *, owner: str, settle_s: float) -> float:
    """Return the earliest monotonic time at which a further look can tell more."""
    mine = _mine(doubt.read_back, owner)
    return mine.last_absent_end_s + settle_s if mine.absent_looks else 0.0


@dataclass(frozen=True, slots=True)
class Findings:
    """What a look shows beside the batch: our digests stored again, and lines that are not ours."""

    duplicated: int
    foreign: int


def findings(look: Look, doubt: InDoubt, submitted: tuple[str, ...]) -> Findings:
    """Count surplus copies of our digests, and lines that this installation never wrote.

    Behind ``doubt.live_before`` only the batch and ``doubt.explained`` may stand, once each, and
    not before it as well; a
    digest that was submitted earlier is a late original, one that nobody here knows is foreign.
    A look that is not exact shows older lines too, whose digests may have left the window.
    """
    expected = {*doubt.digests, *doubt.explained}
    earlier = set(submitted) - expected
    duplicated = 0
    foreign = look.foreign_lines
    for digest, count in look.seen.items():
        if digest in expected:
            duplicated += count - 1 + look.before.get(digest, 0)
        elif digest in earlier:
            duplicated += count if look.exact else count - 1
        elif look.exact:
            foreign += count
    return Findings(duplicated=duplicated, foreign=foreign)


def _mine(read_back: ReadBack | None, owner: str) -> ReadBack:
    return (
        read_back if read_back is not None and read_back.owner == owner else ReadBack(owner=owner)
    )
