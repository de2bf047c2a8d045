import pytest

from resilient_ov.embedded.privacy import redact


@pytest.mark.parametrize(
    "text", ["api_key=abcdef123", "my Password: hunter2secret", "access-token = abcdefgh"]
)
def test_what_follows_a_secret_name_is_replaced(text: str) -> None:
    redacted = redact(text, "s1")
    assert "{{ov_privacy:session:s1:" in redacted
    assert not any(secret in redacted for secret in ("abcdef", "hunter2"))


@pytest.mark.parametrize("text", ["the token is short", "password: x", "a@b.co", ""])
def test_other_text_stays(text: str) -> None:
    assert redact(text, "s1") == text


def test_the_same_secret_has_the_same_mark_within_a_session_only() -> None:
    assert redact("token=abcdefgh", "s1") == redact("token=abcdefgh", "s1")
    assert redact("token=abcdefgh", "s1")[-10:] != redact("token=abcdefgh", "s2")[-10:]
