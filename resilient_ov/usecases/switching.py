"""Puts switches in force and tells of every change, also of those that end by themselves.

Rule: one immutable snapshot at a time; a standing switch is told again every hour.
"""

import threading
from collections.abc import Callable

from resilient_ov import events
from resilient_ov.domain.ports import Clock
from resilient_ov.policy.permits import Gate
from resilient_ov.policy.refusals import Change
from resilient_ov.policy.rules import OPERATION_GROUPS, Group
from resilient_ov.policy.switches import Mode, Switches

_REMIND_S = 3600.0


class Switching:
    """The switches of one process. Safe from any thread; never blocks."""

    def __init__(
        self,
        *,
        gate: Gate,
        sink: events.EventSink,
        clock: Clock,
        on_changes: Callable[[tuple[Change, ...]], None],
        on_change: Callable[[], None],
    ) -> None:
        self._gate = gate
        self._sink = sink
        self._clock = clock
        self._on_changes = on_changes
        self._on_change = on_change
        self._lock = threading.Lock()
        self._told = dict.fromkeys(OPERATION_GROUPS, Mode.NORMAL)
        self._since_s: dict[Group, float] = {}
        self._reminded_s: dict[Group, float] = {}

    def switch(self, name: str, mode: Mode, *, for_s: float | None = None) -> None:
        """Switch a group of this process (see ``ALIASES``), for a while or until further notice.

        Raises:
            SwitchError: a name, mode or time that cannot be.

        """
        now_s = self._clock.monotonic_s()
        self.put(self._gate.switches.switched(name, mode, now_s=now_s, for_s=for_s))

    def put(self, switches: Switches) -> None:
        """Put a whole snapshot in force."""
        self._on_changes(self._gate.set_switches(switches, self._clock.monotonic_s()))
        self.look()

    def look(self) -> None:
        """Tell what changed since the last look, and remind of what stands without an end."""
        now_s = self._clock.monotonic_s()
        switches = self._gate.switches
        changed = False
        with self._lock:
            for group in OPERATION_GROUPS:
                mode, until_s = switches.mode(group, now_s), switches.until_s(group)
                if mode is not self._told[group]:
                    self._told[group] = mode
                    self._since_s[group] = self._reminded_s[group] = now_s
                    changed = True
                    for_s = None if until_s is None else max(0.0, until_s - now_s)
                    self._sink.emit(
                        events.SwitchChanged(
                            group=group, mode=mode, for_s=None if mode is Mode.NORMAL else for_s
                        )
                    )
                elif (
                    mode is not Mode.NORMAL
                    and until_s is None
                    and now_s - self._reminded_s[group] >= _REMIND_S
                ):
                    self._reminded_s[group] = now_s
                    self._sink.emit(
                        events.SwitchStanding(
                            group=group, mode=mode, since_s=now_s - self._since_s[group]
                        )
                    )
        if changed:
            self._on_change()
