"""Which panel moves in which phase of the live run; all others only have to show data.

Rule: a panel that no fault of this run can move is not listed; it must still return series.
"""

from dataclasses import dataclass

from grafana.tests.live.stage import FULL_DISK, HEALED, NO_KEY, OUTAGE, RESETS, SWITCHED

UP, DOWN = "up", "down"


@dataclass(frozen=True)
class Moves:
    """Between calm and a phase the highest value rises, or the lowest falls.

    `legend` is a regular expression of label values: only series that have one count.
    """

    board: str
    panel: str
    phases: tuple[str, ...]
    way: str = UP
    series: str = ""


OVERVIEW, RESILIENCE = "resilient-ov-overview", "resilient-ov-resilience"
DELIVERY, SIDES = "resilient-ov-delivery", "resilient-ov-side-by-side"
LATER = (OUTAGE, HEALED)
MOVES = (
    Moves(OVERVIEW, "OpenViking", (OUTAGE,), DOWN),
    Moves(OVERVIEW, "Recalls answered", (OUTAGE,), DOWN),
    Moves(OVERVIEW, "Error budget left", LATER, DOWN),
    Moves(OVERVIEW, "Oldest waiting write", LATER),
    Moves(OVERVIEW, "Messages given up", LATER),
    Moves(OVERVIEW, "Recalls by outcome", (OUTAGE,), series="degraded_.*"),
    Moves(OVERVIEW, "Writes by outcome", (OUTAGE,), series="pending"),
    Moves(OVERVIEW, "Calls without memory by reason", (OUTAGE,)),
    Moves(OVERVIEW, "Time the agent waited for a recall", (OUTAGE,)),
    Moves(OVERVIEW, "Recalls answered (5 min)", (OUTAGE,), DOWN),
    Moves(OVERVIEW, "Speed at which the error budget burns", (OUTAGE,)),
    Moves(RESILIENCE, "Breakers", (OUTAGE,)),
    Moves(RESILIENCE, "Switches", (SWITCHED,)),
    Moves(RESILIENCE, "Breakers opening", (OUTAGE,)),
    Moves(RESILIENCE, "Requests never sent, by reason", (OUTAGE,), series="open"),
    Moves(RESILIENCE, "Auth failures and auth holds", (NO_KEY,)),
    Moves(RESILIENCE, "Since an operation last succeeded", (OUTAGE,), series="search"),
    Moves(RESILIENCE, "Attempts by outcome", (OUTAGE,), series="timeout"),
    Moves(RESILIENCE, "Operations by status", (OUTAGE,), series="refused"),
    Moves(RESILIENCE, "Attempts for each request", (RESETS,)),
    Moves(RESILIENCE, "Retries by reason", (RESETS,)),
    Moves(RESILIENCE, "Time of an operation", (OUTAGE,)),
    Moves(DELIVERY, "Found stored after doubt", LATER),
    Moves(DELIVERY, "Given up", LATER),
    Moves(DELIVERY, "State on disk", (FULL_DISK,), DOWN),
    Moves(DELIVERY, "Batches in doubt", (OUTAGE,)),
    Moves(DELIVERY, "Messages waiting", (OUTAGE,)),
    Moves(DELIVERY, "Age of the oldest", LATER),
    Moves(DELIVERY, "Messages by result", LATER, series="dropped|reconciled"),
    Moves(DELIVERY, "Messages given up, by reason", LATER, series="queue_full"),
    Moves(DELIVERY, "Doubt settled by reading back", LATER, series="present"),
    Moves(DELIVERY, "Trouble with state on disk", (FULL_DISK,), series="unwritable"),
    Moves(SIDES, "Attempts sent and requests served", (OUTAGE,), DOWN),
    Moves(SIDES, "Failures, client and server", (OUTAGE,)),
)
