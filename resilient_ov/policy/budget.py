"""Bounds what retries add to the load: at most one retry for ten calls, and a small reserve.

No I/O and no clock here; not thread-safe by itself.
"""

RESERVE = 10
"""Retries that may be made before any call has paid for them."""

_TENTHS = 10
"""Counted in tenths of a retry, in whole numbers: ten calls pay for exactly one retry."""


class RetryBudget:
    """A token bucket: each admitted first attempt pays a tenth of a retry.

    Over its whole life attempts <= 1.10 x calls + RESERVE. It holds RESERVE retries at most, so
    that hours of good calls do not pay for a storm.
    """

    __slots__ = ("_tenths",)

    def __init__(self) -> None:
        self._tenths = RESERVE * _TENTHS

    def pay_in(self) -> None:
        """Note an admitted first attempt."""
        if self._tenths < RESERVE * _TENTHS:
            self._tenths += 1

    def allows(self) -> bool:
        """Tell whether a retry can be paid."""
        return self._tenths >= _TENTHS

    def pay_out(self) -> None:
        """Pay for a retry; only after `allows`."""
        self._tenths -= _TENTHS

    def refund(self) -> None:
        """Undo one `pay_out` whose attempt was never made."""
        self._tenths = min(RESERVE * _TENTHS, self._tenths + _TENTHS)
