"""What is refused, and how: wrong shapes, addresses of others, ids and bodies that do not fit."""

from collections.abc import Iterator

import httpx
import pytest

from resilient_ov.embedded.app import routes_of
from resilient_ov.settings.server import ServerProfile
from tests.integration.namespace_world import TOPOLOGIES, As, make_accounts, running

OK, SHAPE, FOREIGN = 200, 400, 403
# A search of (ua, aa) below an address, in the order ff, ft, tf, tt.
TARGETS = {
    "viking://user/ua/memories": (OK, OK, SHAPE, SHAPE),
    "viking://user/ua/agent/aa/memories": (SHAPE, SHAPE, OK, OK),
    "viking://user/ua/agent/ab/memories": (SHAPE, SHAPE, FOREIGN, FOREIGN),
    "viking://user/ub/memories": (FOREIGN, FOREIGN, SHAPE, SHAPE),
    "viking://user/ub/agent/aa/memories": (SHAPE, SHAPE, FOREIGN, FOREIGN),
    "viking://user/ua2/agent/aa/memories": (SHAPE, SHAPE, FOREIGN, FOREIGN),
    "viking://agent/aa/memories": (OK, SHAPE, OK, SHAPE),
    "viking://agent/aa/user/ua/memories": (SHAPE, OK, SHAPE, OK),
    "viking://agent/aa/user/ub/memories": (SHAPE, FOREIGN, SHAPE, FOREIGN),
    "viking://agent/ab/memories": (FOREIGN, SHAPE, FOREIGN, SHAPE),
    "viking://agent/ab/user/ua/memories": (SHAPE, FOREIGN, SHAPE, FOREIGN),
    "viking://agent/aa/user/ua/user/ub": (SHAPE, OK, SHAPE, OK),
    "viking://user/ua/agent/aa/agent/ab": (SHAPE, SHAPE, OK, OK),
    "viking://user/ua/skills/aa": (OK, OK, SHAPE, SHAPE),
    "viking://user/memories": (OK, OK, OK, OK),
    "viking://agent/skills": (OK, OK, OK, OK),
    "viking://resources": (OK, OK, OK, OK),
    "viking://session": (OK, OK, OK, OK),
    "viking://~/memories": (SHAPE,) * 4,
    "viking://sessions/s1": (SHAPE,) * 4,
    "viking://skills": (SHAPE,) * 4,
    "viking://": (SHAPE,) * 4,
    "viking://user/%75a/memories": (SHAPE,) * 4,
    "viking://user/%/memories": (SHAPE,) * 4,
    "viking://user//memories": (SHAPE,) * 4,
    "viking://user/ua/../ub/memories": (FOREIGN,) * 4,
    "https://user/ua/memories": (SHAPE,) * 4,
    "user/ua/memories": (SHAPE,) * 4,
    "viking://USER/ua/memories": (SHAPE,) * 4,
}


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with running(tmp_path_factory.mktemp("refusals")) as client:
        make_accounts(client)
        yield client


@pytest.mark.parametrize(
    ("account", "uri", "status"),
    [
        (account, uri, answers[column])
        for uri, answers in TARGETS.items()
        for column, account in enumerate(TOPOLOGIES)
    ],
)
def test_a_target_is_searched_or_refused_for_its_shape_or_its_owner(
    http: httpx.Client, account: str, uri: str, status: int
) -> None:
    me = As(http, account, "ua", "aa")
    answer = me.find(target_uri=uri)
    assert answer.status_code == status, answer.text
    listed = me.find(target_uri=["viking://user/memories", uri])
    assert listed.status_code == status
    both = me.ask("POST", "/search/search", json={"query": "x", "target_uri": uri})
    assert both.status_code == status
    if status == SHAPE:
        assert answer.json()["error"]["code"] == "INVALID_URI"
        assert me.write(f"{uri}/x.md", "x").status_code in {SHAPE, FOREIGN}
    if status == FOREIGN:
        assert answer.json()["error"]["code"] == "PERMISSION_DENIED"
        assert me.write(f"{uri}/x.md", "x").status_code == FOREIGN


@pytest.mark.parametrize("account", TOPOLOGIES)
def test_a_message_without_role_id_is_filled_not_refused(http: httpx.Client, account: str) -> None:
    me = As(http, account, "ua", "aa")
    answer = me.say(
        "plain", {"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}
    )
    assert answer.status_code == 200
    told = me.result("GET", "/sessions/plain")
    assert (told["participant_user_ids"], told["participant_agent_ids"]) == (["ua"], ["aa"])


@pytest.mark.parametrize("account", TOPOLOGIES)
def test_a_refusal_names_the_shape_that_fits(http: httpx.Client, account: str) -> None:
    me = As(http, account, "ua", "aa")
    by_agent, by_user = TOPOLOGIES[account]
    wrong_user = "viking://user/ua/memories" if by_agent else "viking://user/ua/agent/aa/memories"
    fits = "user/<user>/agent/<agent>/" if by_agent else "user/<user>/"
    assert fits in me.find(target_uri=wrong_user).json()["error"]["message"]
    wrong_agent = "viking://agent/aa/memories" if by_user else "viking://agent/aa/user/ua/memories"
    fits = "agent/<agent>/user/<user>/" if by_user else "agent/<agent>/"
    assert fits in me.find(target_uri=wrong_agent).json()["error"]["message"]


@pytest.mark.parametrize(
    "body",
    [{}, {"uri": "viking://user/profile.md"}, {"uri": 1, "content": "x"}, {"content": "x"}],
)
def test_a_write_needs_an_address_and_a_text(http: httpx.Client, body: dict[str, object]) -> None:
    assert As(http, "acme-ff", "ua").ask("POST", "/content/write", json=body).status_code == 400


def test_a_text_that_cannot_be_stored_is_refused(http: httpx.Client) -> None:
    me = As(http, "acme-ff", "ua", "aa")
    raw = b'{"uri": "viking://user/profile.md", "content": "\\ud800"}'
    refused = me.http.post(
        "/api/v1/content/write",
        content=raw,
        headers=me.headers | {"Content-Type": "application/json"},
    )
    assert refused.status_code == 400
    assert me.write("viking://user/memories/x/\u2028.md", "x").status_code == 400


@pytest.mark.parametrize("path", ["/content/write", "/fs/tree"])
def test_the_added_routes_are_not_on_profile_0_5(path: str) -> None:
    paths = {getattr(route, "path", "") for route in routes_of(ServerProfile.V0_5)}
    assert f"/api/v1{path}" not in paths
