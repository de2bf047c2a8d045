from resilient_ov.testing.workers import ManualWorkers


def test_work_runs_in_order_and_only_when_told() -> None:
    workers = ManualWorkers()
    ran: list[int] = []
    for number in range(3):
        assert workers.submit(lambda n=number: ran.append(n), lambda result, error: None)
    assert (ran, workers.waiting()) == ([], 3)
    assert workers.run_one() is True
    assert (ran, workers.waiting()) == ([0], 2)
    workers.run_all()
    assert ran == [0, 1, 2]
    assert workers.run_one() is False
