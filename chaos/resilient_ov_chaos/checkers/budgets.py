"""No call outlasts its budget, whatever the network does; a hand-over does not wait at all.

What an idle event loop of the same process lost in the same time is the machine's and is taken
off; so is as much as it has lost at once about this time.
"""

from collections.abc import Iterator

from resilient_ov_chaos.history import Call, Colour, Operation
from resilient_ov_chaos.knobs import Knobs
from resilient_ov_chaos.verdict import Finding, Run, Status

NAME = "budgets"
SLACK_S = 0.1
"""A call may be this much late; the bench holds the product to a quarter of it, undisturbed."""
HAND_OVER_S = 0.05
"""``add_nowait`` on an event loop does no I/O."""


def check(run: Run) -> Iterator[Finding]:
    """Measure every call that ended."""
    for call in (Call.GET_CONTEXT, Call.SEARCH, Call.ADD, Call.ADD_NOWAIT):
        over = [
            (_late_s(run, each), each)
            for each in run.history.calls(call)
            if each.ended_s is not None
        ]
        worst_s = max((late_s for late_s, _ in over), default=float("nan"))
        late = [each for late_s, each in over if late_s > SLACK_S]
        yield Finding(
            checker=NAME,
            call=call,
            status=Status.RED if late else Status.GREEN if over else Status.UNKNOWN,
            text=f"{len(late)} calls were late, the worst by {worst_s:.3f} s"
            if late
            else ("" if over else "no call ended"),
            measured={"calls_ended": len(over), "late": len(late), "worst_late_s": worst_s},
        )


def budget_s(knobs: Knobs, operation: Operation) -> float:
    """Return what a call may take."""
    if operation.call is Call.ADD_NOWAIT and operation.colour is Colour.ASYNC:
        return HAND_OVER_S
    return {
        Call.GET_CONTEXT: knobs.get_context_s,
        Call.SEARCH: knobs.search_s,
        Call.ADD: knobs.add_s,
        Call.ADD_NOWAIT: knobs.add_s,
        Call.WARM: knobs.warm_s,
        Call.FLUSH: knobs.flush_s,
    }[operation.call]


def _late_s(run: Run, operation: Operation) -> float:
    took_s = operation.took_s
    when = operation.process, operation.began_s, operation.began_s + took_s
    machine_s = run.history.noise_s(*when) + run.history.hiccup_s(*when)
    return took_s - machine_s - budget_s(run.knobs, operation)
