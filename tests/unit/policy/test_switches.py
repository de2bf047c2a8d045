import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resilient_ov.policy.rules import OPERATION_GROUPS, Group
from resilient_ov.policy.switches import (
    ALIASES,
    NOTHING_SWITCHED,
    Mode,
    SwitchError,
    Switches,
    format_switches,
    parse_switches,
)


def modes(switches: Switches, now_s: float = 0.0) -> dict[Group, Mode]:
    return {group: switches.mode(group, now_s) for group in OPERATION_GROUPS}


def test_nothing_is_switched_at_first() -> None:
    assert set(modes(NOTHING_SWITCHED).values()) == {Mode.NORMAL}
    assert not NOTHING_SWITCHED.disabled(0.0)
    assert NOTHING_SWITCHED.until_s(Group.RECALL) is None


@pytest.mark.parametrize("name", ALIASES)
def test_name_stands_for_its_groups(name: str) -> None:
    switches = NOTHING_SWITCHED.switched(name, Mode.FORCED_OPEN, now_s=0.0)
    switched = {group for group, mode in modes(switches).items() if mode is Mode.FORCED_OPEN}
    assert switched == set(ALIASES[name])


def test_read_and_write_make_up_all() -> None:
    assert {*ALIASES["read"], *ALIASES["write"]} == set(ALIASES["all"]) == set(OPERATION_GROUPS)


def test_switching_leaves_the_old_snapshot_alone() -> None:
    NOTHING_SWITCHED.switched("all", Mode.DISABLED, now_s=0.0)
    assert set(modes(NOTHING_SWITCHED).values()) == {Mode.NORMAL}


def test_later_switch_of_a_part_wins() -> None:
    switches = NOTHING_SWITCHED.switched("all", Mode.FORCED_OPEN, now_s=0.0).switched(
        "read", Mode.NORMAL, now_s=0.0
    )
    assert switches.mode(Group.RECALL, 0.0) is Mode.NORMAL
    assert switches.mode(Group.COMMIT, 0.0) is Mode.FORCED_OPEN


def test_switch_ends_by_itself() -> None:
    switches = NOTHING_SWITCHED.switched("commit", Mode.SHADOW, now_s=10.0, for_s=5.0)
    assert switches.mode(Group.COMMIT, 14.999) is Mode.SHADOW
    assert switches.until_s(Group.COMMIT) == 15.0
    assert switches.mode(Group.COMMIT, 15.0) is Mode.NORMAL


def test_disabled_is_for_all_at_once() -> None:
    switches = NOTHING_SWITCHED.switched("all", Mode.DISABLED, now_s=0.0, for_s=60.0)
    assert switches.disabled(59.0)
    assert not switches.disabled(60.0)
    assert not NOTHING_SWITCHED.switched("all", Mode.FORCED_OPEN, now_s=0.0).disabled(0.0)


@pytest.mark.parametrize("name", sorted(set(ALIASES) - {"all"}))
def test_disabling_a_part_is_refused(name: str) -> None:
    with pytest.raises(SwitchError, match="all groups together"):
        NOTHING_SWITCHED.switched(name, Mode.DISABLED, now_s=0.0)


def test_a_part_cannot_leave_disabled() -> None:
    switches = NOTHING_SWITCHED.switched("all", Mode.DISABLED, now_s=0.0)
    with pytest.raises(SwitchError, match="switch all to normal"):
        switches.switched("recall", Mode.NORMAL, now_s=0.0)
    assert not switches.switched("all", Mode.NORMAL, now_s=0.0).disabled(0.0)


def test_unknown_group_is_refused_with_the_known_ones() -> None:
    with pytest.raises(SwitchError, match="recall, append, commit, session, read, write, all"):
        NOTHING_SWITCHED.switched("host", Mode.SHADOW, now_s=0.0)


@pytest.mark.parametrize("for_s", [0.0, -1.0, math.inf, math.nan])
def test_length_that_is_none_is_refused(for_s: float) -> None:
    with pytest.raises(SwitchError, match="positive number of seconds"):
        NOTHING_SWITCHED.switched("all", Mode.SHADOW, now_s=0.0, for_s=for_s)


_PART_MODES = [mode for mode in Mode if mode is not Mode.DISABLED]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(sorted(set(ALIASES) - {"all"})),
            st.sampled_from(_PART_MODES),
            st.none() | st.floats(1.0, 1e6),
        ),
        max_size=6,
    ),
    st.floats(0, 1e6),
    st.floats(1e6, 2e9),
)
def test_file_read_by_another_process_says_the_same(
    steps: list[tuple[str, Mode, float | None]], now_s: float, other_now_s: float
) -> None:
    switches = NOTHING_SWITCHED
    for name, mode, for_s in steps:
        switches = switches.switched(name, mode, now_s=now_s, for_s=for_s)
    text = format_switches(switches, now_s=now_s, wall_s=1.8e9)
    read = parse_switches(text, now_s=other_now_s, wall_s=1.8e9 + 0.5)
    assert modes(read, other_now_s) == modes(switches, now_s + 0.5)
    for group in read.by_group:
        written_s, read_s = switches.until_s(group), read.until_s(group)
        assert (written_s is None) == (read_s is None)
        if written_s is not None and read_s is not None:
            assert read_s - other_now_s == pytest.approx(written_s - now_s - 0.5, abs=1e-3)


def test_ended_switch_is_not_written_and_not_read() -> None:
    switches = NOTHING_SWITCHED.switched("all", Mode.SHADOW, now_s=0.0, for_s=10.0)
    assert json.loads(format_switches(switches, now_s=10.0, wall_s=1e9))["switches"] == {}
    text = format_switches(switches, now_s=5.0, wall_s=1e9)
    assert parse_switches(text, now_s=0.0, wall_s=1e9 + 5.0) == NOTHING_SWITCHED


def one(entry: object, name: str = "recall") -> str:
    return json.dumps({"schema_version": 1, "switches": {name: entry}})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[" * 20_000, "not JSON"),
        (" " * 70_000, "longer than"),
        ("[]", "schema_version"),
        ('{"switches": {}}', "schema_version"),
        ('{"schema_version": 2, "switches": {}}', "schema_version"),
        ('{"schema_version": 1}', "table of switches"),
        ('{"schema_version": 1, "switches": []}', "table of switches"),
        (one("shadow"), "no table of mode and until"),
        (one({}), "unknown mode"),
        (one({"mode": "fast"}), "unknown mode"),
        (one({"mode": ["shadow"]}), "unknown mode"),
        (one({"mode": "shadow"}, "host"), "unknown group"),
        (one({"mode": "shadow"}, "read"), "unknown group"),
        (one({"mode": "shadow", "until": "noon"}), "not a time"),
        (one({"mode": "shadow", "until": True}), "not a time"),
        (one({"mode": "shadow", "until": -1}), "not a time"),
        (one({"mode": "shadow", "until": math.nan}), "not a time"),
        (one({"mode": "shadow", "until": math.inf}), "not a time"),
        (one({"mode": "shadow", "until": 10**400}), "not a time"),
        (one({"mode": "disabled"}), "for all of them"),
    ],
)
def test_bad_file_is_refused_whole(text: str, problem: str) -> None:
    with pytest.raises(SwitchError, match=problem):
        parse_switches(text, now_s=0.0, wall_s=1e9)


@given(
    st.text(max_size=60)
    | st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda v: (
            st.lists(v, max_size=3)
            | st.dictionaries(
                st.sampled_from(["schema_version", "switches", "recall", "mode", "until"]),
                v,
                max_size=4,
            )
        ),
    ).map(json.dumps)
)
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found = parse_switches(text, now_s=0.0, wall_s=1e9)
    except SwitchError:
        return
    assert isinstance(found, Switches)
