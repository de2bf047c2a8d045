import gc

from resilient_ov.adapters import forked
from resilient_ov.adapters.forked import renew_after_fork


class Thing:
    def __init__(self, log: list[str]) -> None:
        self.log = log
        renew_after_fork(self)

    def renew(self) -> None:
        self.log.append("renewed")


def test_living_things_are_renewed_and_forgotten_ones_are_not() -> None:
    log: list[str] = []
    others = set(forked._known)
    living = Thing(log)
    Thing(log)
    gc.collect()
    assert set(forked._known) - others == {living}
    for thing in set(forked._known) - others:
        thing.renew()
    assert log == ["renewed"]
