import math

from hypothesis import given, settings
from hypothesis import strategies as st

from resilient_ov.domain.namespace import HomeView
from resilient_ov.domain.recall import ServerHit, injection_text, select
from resilient_ov.domain.recall_report import Fate, Judged, Limits, explain, sweep

MINE = HomeView(user="me")
RETURNED = {Fate.INJECTED, Fate.TOO_LONG, Fate.NO_ROOM}
LIMITS = Limits(score_threshold=0.55, top_k=3, max_chars=256, max_item_chars=64)


def hit(name: str, text: str, score: float, **more: int) -> ServerHit:
    uri = name if "://" in name else f"viking://user/me/memories/{name}"
    return ServerHit(uri=uri, text=text, score=score, **more)


def fates(*hits: ServerHit, limits: Limits = LIMITS, category: str | None = None) -> list[str]:
    categories = None if category is None else (category,)
    return [
        one.fate.value for one in explain(hits, view=MINE, limits=limits, categories=categories)
    ]


def test_the_best_hits_above_the_threshold_are_injected() -> None:
    assert fates(hit("events/a.md", "a", 0.9), hit("events/b.md", "b", 0.56)) == ["injected"] * 2


def test_a_hit_on_the_threshold_is_below_it() -> None:
    assert fates(hit("events/a.md", "a", 0.55)) == ["below_threshold"]


def test_more_hits_than_asked_for_are_beyond() -> None:
    hits = [hit(f"events/{n}.md", f"text {n}", 0.9 - n / 100) for n in range(5)]
    assert fates(*hits) == ["injected"] * 3 + ["beyond_top_k"] * 2


def test_a_long_entry_is_told_from_a_full_prompt() -> None:
    assert fates(hit("events/a.md", "x" * 60, 0.9)) == ["too_long"]
    full = Limits(score_threshold=0.5, top_k=100, max_chars=64, max_item_chars=64)
    hits = [hit(f"events/{n}.md", f"text number {n}", 0.9 - n / 100) for n in range(3)]
    assert fates(*hits, limits=full) == ["injected", "no_room", "no_room"]


def test_what_is_empty_once_cleaned_has_no_line() -> None:
    assert fates(hit("events/a.md", "##", 0.9)) == ["no_room"]


def test_a_repeat_is_not_a_second_hit() -> None:
    first, repeat = hit("events/a.md", "same  text", 0.9), hit("events/b.md", "same text", 0.8)
    assert fates(first, repeat) == ["injected", "repeated"]
    assert fates(hit("events/a.md", "worse", 0.7), hit("events/a.md", "better", 0.8)) == [
        "injected",
        "repeated",
    ]


def test_other_categories_are_told_when_one_was_asked_for() -> None:
    hits = [hit("events/a.md", "a", 0.9), hit("preferences/b.md", "b", 0.8)]
    assert fates(*hits, category="preferences") == ["other_category", "injected"]


def test_notes_and_blanks_are_no_memories() -> None:
    assert (
        fates(
            hit("events/.overview.md", "notes", 0.9),
            hit("events/x", "a directory", 0.8, level=1),
            hit("events/y.md", "  ", 0.7),
        )
        == ["not_a_memory"] * 3
    )


def test_what_is_not_the_callers_is_counted_and_not_told() -> None:
    foreign = hit("viking://user/other/memories/events/a.md", "secret", 0.99)
    judged = explain([foreign], view=MINE, limits=LIMITS)
    assert judged == (Judged(fate=Fate.NOT_OWN, score=0.99, hit=None),)
    assert "secret" not in repr(judged)


def test_a_score_that_is_no_number_comes_last() -> None:
    judged = explain(
        [hit("events/a.md", "a", math.nan), hit("viking://x/y", "b", math.nan)],
        view=MINE,
        limits=LIMITS,
    )
    assert [one.score for one in judged] == [0.0, 0.0]


def test_a_sweep_counts_what_each_threshold_would_give() -> None:
    hits = [hit(f"events/{n}.md", f"text {n}", 0.9 - n / 10) for n in range(5)]
    hits.append(hit("viking://user/other/memories/events/a.md", "secret", 0.99))
    judged = explain(hits, view=MINE, limits=LIMITS)
    points = sweep(judged, [0.0, 0.65, 0.95], LIMITS)
    assert [(p.above, p.returned) for p in points] == [(5, 3), (3, 3), (0, 0)]
    assert points[2].injection_chars == 0
    assert points[1].injection_chars == points[0].injection_chars > 0


TEXTS = st.one_of(st.sampled_from(["a", "b", "a ", "##", "", "x" * 70]), st.text(max_size=70))
HITS = st.lists(
    st.builds(
        hit,
        name=st.sampled_from(
            [
                *("events/a.md", "events/b.md", "preferences/c.md", "profile.md"),
                *("events/.overview.md", "viking://user/other/memories/events/x.md", "junk://x"),
            ]
        ),
        text=TEXTS,
        score=st.sampled_from([0.5, 0.55, 0.6, 0.7, 0.7, math.nan]),
    ),
    max_size=8,
)


@settings(deadline=None)
@given(HITS, st.sampled_from([None, "events"]), st.integers(1, 4), st.integers(60, 256))
def test_the_reasons_agree_with_what_is_really_returned_and_injected(
    hits: list[ServerHit], category: str | None, top_k: int, max_chars: int
) -> None:
    limits = Limits(score_threshold=0.55, top_k=top_k, max_chars=max_chars, max_item_chars=64)
    categories = None if category is None else (category,)
    judged = explain(hits, view=MINE, limits=limits, categories=categories)
    assert len(judged) == len(hits)
    really = select(
        hits, view=MINE, categories=categories, score_threshold=limits.score_threshold, limit=top_k
    ).hits
    injected = [one.hit for one in judged if one.fate is Fate.INJECTED and one.hit is not None]
    returned = [one.hit for one in judged if one.fate in RETURNED]
    assert returned == list(really)
    text = injection_text(really, max_chars=max_chars, max_item_chars=64)
    assert injection_text(injected, max_chars=max_chars, max_item_chars=64) == text
    assert len(injected) == max(0, len(text.splitlines()) - 2)
