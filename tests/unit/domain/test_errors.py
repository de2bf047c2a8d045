import pickle

from resilient_ov.domain.errors import OpenVikingError, OpenVikingTimeoutError


def test_an_error_tells_its_sentence_and_the_closed_fields_that_are_set() -> None:
    error = OpenVikingTimeoutError("the call's time was spent", operation="search", status=504)
    assert str(error) == "the call's time was spent (operation=search, status=504)"
    assert str(OpenVikingError("nothing more")) == "nothing more"
    assert error.retryable is True


def test_an_error_survives_pickling_with_the_same_fields_and_no_others() -> None:
    error = OpenVikingTimeoutError("late", operation="search", request_id="r1", retryable=False)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is OpenVikingTimeoutError
    assert str(again) == str(error)
    assert vars(again) == vars(error)
