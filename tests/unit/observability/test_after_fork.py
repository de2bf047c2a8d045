import gc
import os

from resilient_ov_observability import after_fork


class Thing:
    def __init__(self):
        self.renewed = 0

    def renew_after_fork(self):
        self.renewed += 1


def test_a_watched_thing_is_renewed_in_a_child():
    thing = Thing()
    after_fork.renew_in_children(thing)
    child = os.fork()
    if child == 0:
        os._exit(0 if thing.renewed == 1 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert thing.renewed == 0
    after_fork._renew_all()
    assert thing.renewed == 1


def test_watching_keeps_nothing_alive():
    after_fork.renew_in_children(Thing())
    gc.collect()
    assert not any(isinstance(thing, Thing) for thing in after_fork._watched)
