import gc

from resilient_ov.adapters import forks
from resilient_ov.adapters.forks import reset_after_fork


class Thing:
    def __init__(self, log: list[str]) -> None:
        self.log = log
        reset_after_fork(self)

    def reset_in_child(self) -> None:
        self.log.append("reset")


def test_living_things_are_reset_and_forgotten_ones_are_not() -> None:
    log: list[str] = []
    others = set(forks._aware)
    living = Thing(log)
    Thing(log)
    gc.collect()
    assert set(forks._aware) - others == {living}
    for thing in set(forks._aware) - others:
        thing.reset_in_child()
    assert log == ["reset"]
