import itertools

from hypothesis import given
from hypothesis import strategies as st

from resilient_ov.domain.alignment import align, align_head, align_head_first, interleave

short = st.lists(st.sampled_from("abc"), max_size=6)
unique = st.lists(st.sampled_from("abcdefgh"), max_size=8, unique=True)


def is_subsequence(part: list[str], whole: list[str]) -> bool:
    rest = iter(whole)
    return all(token in rest for token in part)


def longest_matches(presented: list[str], window: list[str]) -> set[tuple[int, ...]]:
    """Which presented tokens each longest common subsequence uses, by trying all."""
    for size in range(len(presented), -1, -1):
        found = {
            chosen
            for chosen in itertools.combinations(range(len(presented)), size)
            if is_subsequence([presented[at] for at in chosen], window)
        }
        if found:
            return found
    raise AssertionError


def matched(matches: list[int | None]) -> tuple[int, ...]:
    return tuple(at for at, match in enumerate(matches) if match is not None)


@given(short, short)
def test_align_takes_a_longest_common_subsequence_with_the_earliest_presented(
    presented: list[str], window: list[str]
) -> None:
    matches = align(presented, window)

    taken = [match for match in matches if match is not None]
    assert taken == sorted(set(taken))
    assert all(presented[at] == window[m] for at, m in enumerate(matches) if m is not None)
    assert matched(matches) == min(longest_matches(presented, window))


@given(short, short)
def test_align_is_deterministic(presented: list[str], window: list[str]) -> None:
    assert align(presented, window) == align(tuple(presented), tuple(window))


def test_align_matches_new_messages_at_the_end_to_nothing() -> None:
    assert align(["ok", "1", "ok", "2"], ["ok", "1"]) == [0, 1, None, None]


@given(short, short)
def test_head_is_the_longest_that_is_a_part_of_the_window(
    presented: list[str], window: list[str]
) -> None:
    matches = align_head(presented, window)

    head = next(n for n in range(len(presented), -1, -1) if is_subsequence(presented[:n], window))
    assert matched(matches) == tuple(range(head))
    assert matches == align_head_first(presented[:head], window) + [None] * (len(presented) - head)


@given(short, short)
def test_head_first_matches_the_longest_head_and_the_longest_of_the_rest(
    presented: list[str], window: list[str]
) -> None:
    matches = align_head_first(presented, window)

    heads = range(len(presented), -1, -1)
    head = next(n for n in heads if is_subsequence(presented[:n], window))
    assert None not in matches[:head]
    assert matches[head : head + 1] in ([], [None])
    used = (matches[head - 1] or 0) + 1 if head else 0
    assert matched(matches[head:]) == min(longest_matches(presented[head:], window[used:]))
    taken = [match for match in matches if match is not None]
    assert taken == sorted(set(taken))


def test_head_first_takes_no_new_repetition_for_what_is_known() -> None:
    window = ["a", "b", "c", "d"]

    assert align(["d", "a", "b"], window) == [None, 0, 1]
    assert align_head_first(["d", "a", "b"], window) == [3, None, None]


@given(unique, unique)
def test_interleave_holds_every_token_once_in_the_order_of_the_newer(
    old: list[str], new: list[str]
) -> None:
    woven = interleave(old, new)

    assert sorted(woven) == sorted({*old, *new})
    assert [token for token in woven if token in new] == new
    kept = [token for token in old if token not in new]
    assert [token for token in woven if token in kept] == kept


@given(unique)
def test_interleave_of_a_part_changes_nothing(whole: list[str]) -> None:
    assert interleave(whole, whole[1::2]) == tuple(whole)


def test_interleave_puts_what_only_the_newer_has_next_to_its_neighbour() -> None:
    assert interleave("abd", "bcd") == tuple("abcd")
    assert interleave("abde", "bc") == tuple("abcde")
    assert interleave("bd", "ab") == tuple("abd")


def test_interleave_of_lists_with_nothing_in_common_keeps_the_older_first() -> None:
    assert interleave("abc", "xy") == tuple("abcxy")
    assert interleave("", "xy") == tuple("xy")
