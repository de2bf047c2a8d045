"""Order inside a session: what the processes accepted in one order is stored in that order.

Source: the last rule of section 5.5 of the design of the write path. A later turn through another
process may overtake a hand-over that waits, so a pair counts only when every process that was
given the later message had been given the earlier one before.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence

from resilient_ov_chaos.checkers.owed import accepted
from resilient_ov_chaos.history import Call, Operation
from resilient_ov_chaos.verdict import Finding, Run, Status

NAME = "order"


def check(run: Run) -> Iterator[Finding]:
    """Look in each conversation for messages that stand the wrong way round."""
    by_thread: dict[str, list[Operation]] = defaultdict(list)
    for write in accepted(run.history):
        if write.thread is not None:
            by_thread[write.thread].append(write)
    pairs, wrong = 0, list[str]()
    for thread, writes in by_thread.items():
        stored = run.ledger.of_thread(thread)
        place = {mark: n for n, mark in reversed(list(enumerate(stored)))}
        given = _order_given(writes)
        present = [mark for mark in _conversation(writes) if mark in place]
        for earlier, later in itertools.combinations(present, 2):
            if all(_before(order, earlier, later) for order in given.values() if later in order):
                pairs += 1
                if place[earlier] > place[later]:
                    wrong.append(f"{later} before {earlier}")
    yield Finding(
        checker=NAME,
        call=Call.ADD,
        status=Status.RED if wrong else Status.GREEN if pairs else Status.UNKNOWN,
        text=f"stored out of order: {'; '.join(wrong[:3])} ({len(wrong)} in all)"
        if wrong
        else ("" if pairs else "no two messages of one conversation were stored"),
        measured={"ordered_pairs": pairs, "out_of_order": len(wrong)},
    )


def _conversation(writes: Sequence[Operation]) -> list[str]:
    """Return all messages of a conversation in their own order, which their marks tell."""
    return sorted({mark for write in writes for mark in write.presented}, key=_number)


def _number(mark: str) -> tuple[str, int]:
    """Order by turn; the user's word comes before the answer."""
    return mark[:-1], "ha".index(mark[-1])


def _order_given(writes: Sequence[Operation]) -> dict[int, dict[str, int]]:
    """Return for each process when it was first given each message."""
    given: dict[int, dict[str, int]] = defaultdict(dict)
    for write in writes:
        order = given[write.process]
        for mark in write.presented:
            order.setdefault(mark, len(order))
    return given


def _before(order: dict[str, int], earlier: str, later: str) -> bool:
    return earlier in order and order[earlier] < order[later]
