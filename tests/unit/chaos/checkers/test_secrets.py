from resilient_ov_chaos.verdict import Status
from tests.unit.chaos.story import Story

SECRETS = "secrets"


def written(**texts: str) -> Story:
    story = Story()
    story.texts = texts
    story.canaries = {"the key": "key-5711", "user 0": "alice@example"}
    return story


def test_harmless_words_are_green() -> None:
    said = written(log="search df_1234", spans="search").say(SECRETS)
    assert said.status is Status.GREEN
    assert said.measured["sinks"] == 2


def test_a_canary_anywhere_is_red_and_told_without_its_word() -> None:
    said = written(log="search", spans="sent key-5711").say(SECRETS)
    assert said.status is Status.RED
    assert "the key in spans" in said.text
    assert "key-5711" not in said.text


def test_silence_proves_nothing() -> None:
    assert written(log="").status(SECRETS) is Status.UNKNOWN
    nothing_to_find = written(log="search")
    nothing_to_find.canaries = {}
    assert nothing_to_find.status(SECRETS) is Status.UNKNOWN
