"""`resilient-ov check` on profile namespace: the configured policy must be the account's."""

from pathlib import Path

import pytest

from resilient_ov_manager.preflight import State, Step, preflight
from tests.integration.namespace_world import ROOT_KEY, TOPOLOGIES, make_accounts, running

SWITCHES = ("isolate_user_scope_by_agent", "isolate_agent_scope_by_user")


@pytest.mark.parametrize("told", TOPOLOGIES.values(), ids=TOPOLOGIES)
def test_a_policy_is_compared_and_a_difference_is_named(
    tmp_path: Path, told: tuple[bool, bool]
) -> None:
    with running(tmp_path / "server") as http:
        make_accounts(http)
        for account, actual in TOPOLOGIES.items():
            policy = "".join(
                f"  {name}: {str(value).lower()}\n"
                for name, value in zip(SWITCHES, told, strict=True)
            )
            config = tmp_path / "config.yaml"
            config.write_text(
                f"base_url: {http.base_url}\naccount: {account}\nserver_profile: namespace\n"
                f"storage_path: {tmp_path / 'storage'}\nnamespace:\n{policy}"
            )
            steps = {
                step.name: step for step in preflight(config, {"OPENVIKING_API_KEY": ROOT_KEY})
            }
            wrong = [
                name
                for name, mine, theirs in zip(SWITCHES, told, actual, strict=True)
                if mine != theirs
            ]
            _judge(steps, wrong)


def _judge(steps: dict[str, Step], wrong: list[str]) -> None:
    step = steps["policy"]
    if not wrong:
        assert (step.state, steps["find"].state) == (State.OK, State.OK)
        return
    assert (step.state, int(step.code)) == (State.FAILED, 3)
    assert [name for name in SWITCHES if name in step.found] == wrong
    assert steps["find"].state is State.SKIPPED
