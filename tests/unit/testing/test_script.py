"""Which rule speaks of which request."""

import pytest

from resilient_ov.testing.fake_wire import FakeRequest
from resilient_ov.testing.script import Route, Rule, route_of


def request(method: str = "GET", path: str = "/", **query: str) -> FakeRequest:
    return FakeRequest(method=method, path=path, query=query, headers={}, body=b"")


@pytest.mark.parametrize(
    ("found", "route"),
    [
        (request(path="/health"), "health"),
        (request(path="/ready"), "ready"),
        (request("POST", "/api/v1/sessions"), "ensure"),
        (request(path="/api/v1/sessions/s", auto_create="true"), "ensure"),
        (request(path="/api/v1/sessions/s"), "session"),
        (request("POST", "/api/v1/sessions/s/messages/batch"), "batch"),
        (request("POST", "/api/v1/sessions/s/commit"), "commit"),
        (request(path="/api/v1/tasks"), "tasks"),
        (request(path="/api/v1/tasks/t"), "tasks"),
        (request("POST", "/api/v1/search/find"), "find"),
        (request("POST", "/api/v1/search/search"), "find"),
        (request(path="/api/v1/content/read"), "content"),
        (request(path="/api/v1/fs/ls"), "list"),
        (request(path="/other"), "any"),
    ],
)
def test_routes(found: FakeRequest, route: Route) -> None:
    assert route_of(found) == route


@pytest.mark.parametrize(
    ("nth", "counts"),
    [
        (None, [1, 2, 3, 4, 5]),
        ("2", [2]),
        ("1-3", [1, 2, 3]),
        ("4+", [4, 5]),
    ],
)
def test_rule_speaks_of_the_nth_request(nth: str | None, counts: list[int]) -> None:
    rule = Rule(on="find", do="hang", nth=nth)
    assert [count for count in range(1, 6) if rule.matches(request(), count)] == counts


def test_rule_may_have_a_condition() -> None:
    rule = Rule(on="any", do="hang", when=lambda found: found.path == "/a")
    assert rule.matches(request(path="/a"), 1)
    assert not rule.matches(request(path="/b"), 1)
