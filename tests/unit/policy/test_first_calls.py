from resilient_ov.policy.first_calls import FirstCalls


def test_at_most_three_in_a_row_are_forgiven() -> None:
    calls = FirstCalls()
    assert [calls.forgives(f"df_{number}") for number in range(5)] == [
        True,
        True,
        True,
        False,
        False,
    ]


def test_known_identity_is_not_forgiven() -> None:
    calls = FirstCalls()
    calls.answered("df_1")
    calls.answered("df_1")
    assert not calls.forgives("df_1")
    assert calls.forgives("df_2")


def test_any_answer_ends_the_row() -> None:
    calls = FirstCalls()
    for _ in range(3):
        calls.forgives("df_1")
    assert not calls.forgives("df_1")
    calls.answered("df_2")
    assert calls.forgives("df_1")


def test_remembers_a_bounded_number_of_identities() -> None:
    calls = FirstCalls()
    for number in range(10_001):
        calls.answered(f"df_{number}")
    assert calls.forgives("df_0")
    assert not calls.forgives("df_10000")
