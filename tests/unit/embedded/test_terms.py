import pytest
from hypothesis import given
from hypothesis import strategies as st

from resilient_ov.embedded.terms import UNRELATED, named_categories, score, terms


def test_words_are_folded_and_lose_their_plural() -> None:
    assert terms("The Explanations, EXPLANATION; class") == {"explanation", "class"}


def test_chinese_gives_characters_and_pairs() -> None:
    assert terms("技术解释") == {"技", "术", "解", "释", "技术", "术解", "解释"}


def test_mixed_script_splits_at_the_border() -> None:
    assert {"python", "项", "目", "项目"} <= terms("Python项目abc")
    assert "abc" in terms("Python项目abc")


@given(st.text(), st.text(), st.sampled_from(["preferences", "entities", "other"]))
def test_scores_stay_between_unrelated_and_one(query: str, text: str, category: str) -> None:
    value = score(terms(query), terms(text), category)
    assert UNRELATED <= value < 1.0
    related = terms(query) & terms(text) or category in named_categories(terms(query))
    assert (value > UNRELATED) == bool(related and terms(text))


def test_more_in_common_scores_higher() -> None:
    query = terms("concise technical explanations")
    near = score(query, terms("User prefers concise technical explanations."), "preferences")
    far = score(query, terms("User prefers technical books."), "preferences")
    assert near > far > UNRELATED


@pytest.mark.parametrize("query", ["what are my preferences", "用户的偏好"])
def test_a_query_may_name_a_category(query: str) -> None:
    assert named_categories(terms(query)) == ["preferences"]
    assert score(terms(query), terms("User hates ash."), "preferences") > 0.6
