"""What the gate's changes are called as events.

Rule: one event each; holds of one identity alone are not told, because they name a person.
"""

from collections.abc import Iterable, Iterator

from resilient_ov import events
from resilient_ov.policy.breaker import Transition
from resilient_ov.policy.refusals import Change


def told(changes: Iterable[Change], now_s: float) -> Iterator[events.Event]:
    """Yield one event per change that an operator hears of."""
    for change in changes:
        if isinstance(change, Transition):
            yield events.BreakerChanged(
                group=change.group,
                from_state=change.from_state,
                to_state=change.to_state,
                open_s=_left_s(change.open_until_s, now_s) or None,
            )
        elif change.identity is None:
            yield events.HoldChanged(
                group=change.group, kind=change.kind, hold_s=_left_s(change.until_s, now_s)
            )


def _left_s(until_s: float | None, now_s: float) -> float:
    return 0.0 if until_s is None else max(0.0, until_s - now_s)
