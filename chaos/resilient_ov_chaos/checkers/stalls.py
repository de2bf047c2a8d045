"""The event loop is never blocked: its stalls minus what the machine took from them.

The machine took the time the loop's thread waited for a processor, or the time an idle loop of
the same process stood still meanwhile, whichever is longer; and a loop may wait once more for a
thread that waits itself, as long as the idle loop has been seen to wait about this time.
"""

from collections.abc import Iterator

from resilient_ov_chaos.history import Loop, Stall
from resilient_ov_chaos.verdict import Finding, Run, Status

NAME = "event_loop"
BOUND_S = 0.05


def check(run: Run) -> Iterator[Finding]:
    """Look at each stall of the loops under traffic."""
    stalls = run.history.of(Stall)
    own = [
        each.length_s
        - max(
            each.queued_s,
            run.history.noise_s(each.process, each.at_s - each.length_s, each.at_s),
        )
        - run.history.hiccup_s(each.process, each.at_s - each.length_s, each.at_s)
        for each in stalls
        if each.loop is Loop.TRAFFIC
    ]
    long = [length_s for length_s in own if length_s > BOUND_S]
    watched = any(each.loop is Loop.CONTROL for each in stalls)
    yield Finding(
        checker=NAME,
        call=None,
        status=Status.RED if long else Status.GREEN if watched else Status.UNKNOWN,
        text=f"{len(long)} stalls, the longest {max(long):.3f} s"
        if long
        else ("" if watched else "the control loop has told nothing"),
        measured={"stalls": len(long), "longest_stall_s": max(own, default=0.0)},
    )
