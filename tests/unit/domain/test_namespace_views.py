"""What a client searches, and which hits of a reply it may show."""

import pytest

from resilient_ov.domain.namespace import (
    AccountView,
    HitRefusal,
    HomeView,
    NamespacePolicy,
    VisibleHit,
    judge_hits,
    memories_uri,
)

ME = "df_1dda69000a9a7414133f19c3ca5f167397825b4e"
MINE, ANYBODY = HomeView(user=ME), HomeView(user=None)
PREFERENCE = f"viking://user/{ME}/memories/preferences/user/short_answers.md"


def test_a_home_is_searched_by_its_own_name() -> None:
    assert MINE.targets(None) == ("viking://~/memories",)
    assert MINE.targets("preferences") == ("viking://~/memories/preferences",)


@pytest.mark.parametrize("category", ["", "Preferences", "a/b", "..", "喜好", "a b"])
def test_a_category_is_one_plain_segment(category: str) -> None:
    with pytest.raises(ValueError, match="category must consist of"):
        memories_uri(category)


def test_own_memory_is_visible_and_the_user_is_hidden() -> None:
    assert judge_hits([PREFERENCE], MINE) == [
        VisibleHit(
            uri="viking://~/memories/preferences/user/short_answers.md", category="preferences"
        )
    ]


@pytest.mark.parametrize(
    ("below", "category"),
    [
        ("profile.md", "profile"),
        ("entities/facts/x.md", "entities"),
        ("notes.md/x.md", None),
        ("Events/x.md", None),
        ("喜好/x.md", None),
    ],
)
def test_category_is_the_first_segment_below_memories(below: str, category: str | None) -> None:
    (hit,) = judge_hits([f"viking://user/{ME}/memories/{below}"], MINE)
    assert isinstance(hit, VisibleHit)
    assert hit.category == category


@pytest.mark.parametrize(
    ("uri", "refusal"),
    [
        (f"viking://user/{ME}0/memories/preferences/x.md", HitRefusal.OUTSIDE),
        (f"viking://user/{ME[:-1]}/memories/preferences/x.md", HitRefusal.OUTSIDE),
        (f"viking://user/{ME.upper()}/memories/preferences/x.md", HitRefusal.OUTSIDE),
        (f"viking://user/{ME}/peers/bob/memories/preferences/x.md", HitRefusal.OUTSIDE),
        (f"viking://user/{ME}/memories2/x.md", HitRefusal.OUTSIDE),
        (f"viking://user/{ME}/memories", HitRefusal.OUTSIDE),
        (f"viking://user/{ME}/sessions/s/messages.jsonl", HitRefusal.OUTSIDE),
        (f"viking://{ME}/memories/preferences/x.md", HitRefusal.OUTSIDE),
        ("viking://resources/x.md", HitRefusal.OUTSIDE),
        ("viking://~/memories/preferences/x.md", HitRefusal.OUTSIDE),
        ("viking://", HitRefusal.OUTSIDE),
        (f"viking://user/{ME}/memories/../../bob/memories/x.md", HitRefusal.MALFORMED),
        (f"viking://user/{ME}/memories/%2e%2e/x.md", HitRefusal.MALFORMED),
        (f"file:///user/{ME}/memories/preferences/x.md", HitRefusal.MALFORMED),
        (f"viking://user/{ME}/memories/preferences/.overview.md", HitRefusal.DIRECTORY_NOTE),
        (f"viking://user/{ME}/memories/.abstract.md", HitRefusal.DIRECTORY_NOTE),
    ],
)
def test_everything_else_is_refused(uri: str, refusal: HitRefusal) -> None:
    assert judge_hits([uri, PREFERENCE], MINE)[0] is refusal


def test_an_unknown_own_user_is_one_user_per_reply() -> None:
    second = f"viking://user/{ME}/memories/profile.md"
    hits = judge_hits([PREFERENCE, "viking://resources/x", second], ANYBODY)
    assert [type(hit) for hit in hits] == [VisibleHit, HitRefusal, VisibleHit]


def test_two_users_in_a_reply_hide_all_of_it_while_the_own_user_is_unknown() -> None:
    other = "viking://user/bob/memories/profile.md"
    assert judge_hits([PREFERENCE, other, "x"], ANYBODY) == [
        HitRefusal.AMBIGUOUS_USER,
        HitRefusal.AMBIGUOUS_USER,
        HitRefusal.MALFORMED,
    ]


def test_an_empty_reply_has_no_verdicts() -> None:
    assert judge_hits([], ANYBODY) == []


# -- profile namespace ------------------------------------------------------------------------

FF, FT, TF, TT = (
    NamespacePolicy(isolate_user_scope_by_agent=user, isolate_agent_scope_by_user=agent)
    for user, agent in ((False, False), (False, True), (True, False), (True, True))
)
NAMES = {FF: "FF", FT: "FT", TF: "TF", TT: "TT"}
USER_ROOTS = {FF: "user/me", FT: "user/me", TF: "user/me/agent/ai", TT: "user/me/agent/ai"}
AGENT_ROOTS = {FF: "agent/ai", FT: "agent/ai/user/me", TF: "agent/ai", TT: "agent/ai/user/me"}


def view(policy: NamespacePolicy, *, user: str | None = "me", agent_scope: bool = True):  # type: ignore[no-untyped-def]
    return AccountView(policy=policy, user=user, agent="ai", agent_scope=agent_scope)


@pytest.mark.parametrize("policy", NAMES, ids=NAMES.get)
def test_an_account_is_searched_at_its_canonical_roots(policy: NamespacePolicy) -> None:
    user, agent = f"viking://{USER_ROOTS[policy]}", f"viking://{AGENT_ROOTS[policy]}"
    alone = view(policy, agent_scope=False)
    assert alone.targets(None) == (f"{user}/memories", f"{user}/profile.md")
    assert alone.targets("events") == (f"{user}/memories/events",)
    assert alone.targets("profile") == (f"{user}/profile.md",)
    both = view(policy)
    assert both.targets(None) == (*alone.targets(None), f"{agent}/memories")
    assert both.targets("cases") == (f"{user}/memories/cases", f"{agent}/memories/cases")
    assert both.targets("profile") == (f"{user}/profile.md",)
    with pytest.raises(ValueError, match="category must consist of"):
        both.targets("../x")


def test_an_unknown_user_searches_by_short_addresses() -> None:
    assert view(TT, user=None).targets(None) == (
        "viking://user/memories",
        "viking://user/profile.md",
        "viking://agent/memories",
    )


@pytest.mark.parametrize("policy", NAMES, ids=NAMES.get)
def test_own_hits_are_shown_short(policy: NamespacePolicy) -> None:
    user, agent = f"viking://{USER_ROOTS[policy]}", f"viking://{AGENT_ROOTS[policy]}"
    hits = [
        f"{user}/memories/preferences/user/tea.md",
        f"{user}/profile.md",
        f"{agent}/memories/cases/x.md",
    ]
    shown = [
        VisibleHit("viking://user/memories/preferences/user/tea.md", "preferences"),
        VisibleHit("viking://user/profile.md", "profile"),
        VisibleHit("viking://agent/memories/cases/x.md", "cases"),
    ]
    assert judge_hits(hits, view(policy)) == shown
    assert judge_hits(hits, view(policy, user=None)) == shown
    assert judge_hits(hits, view(policy, agent_scope=False)) == [*shown[:2], HitRefusal.OUTSIDE]


REFUSED = {
    FF: ["user/me2/memories/x.md", "agent/ai2/memories/x.md", "user/me/agent/ai/memories/x.md"],
    FT: ["agent/ai/user/you/memories/x.md", "agent/ai/memories/x.md", "user/m_/memories/x.md"],
    TF: ["user/me/agent/ai2/memories/x.md", "user/me/memories/x.md", "user/me/profile.md"],
    TT: ["user/you/agent/ai/memories/x.md", "agent/ai/user/you/memories/x.md", "agent/ai/x.md"],
}


@pytest.mark.parametrize("policy", NAMES, ids=NAMES.get)
def test_hits_beyond_the_policy_are_refused(policy: NamespacePolicy) -> None:
    user = f"viking://{USER_ROOTS[policy]}"
    hits = [
        *(f"viking://{path}" for path in REFUSED[policy]),
        f"{user}/notes.md",
        f"{user}/memories",
        f"viking://{AGENT_ROOTS[policy]}/skills/s.md",
        "viking://session/s1/messages.jsonl",
        "viking://resources/x.md",
        "viking://~/memories/x.md",
        "viking://",
    ]
    assert set(judge_hits(hits, view(policy))) == {HitRefusal.OUTSIDE}
    assert judge_hits([f"{user}/memories/.overview.md"], view(policy)) == [
        HitRefusal.DIRECTORY_NOTE
    ]
    assert judge_hits(["viking://user/me/../you"], view(policy)) == [HitRefusal.MALFORMED]


def test_two_users_in_an_accounts_reply_hide_all_of_it_while_the_own_user_is_unknown() -> None:
    hits = ["viking://user/me/profile.md", "viking://user/you/profile.md"]
    assert judge_hits(hits, view(FF, user=None)) == [HitRefusal.AMBIGUOUS_USER] * 2
    shared = [hits[0], "viking://agent/ai/memories/cases/x.md"]
    assert all(isinstance(hit, VisibleHit) for hit in judge_hits(shared, view(FF, user=None)))
