import json

from resilient_ov.embedded.bodies import Message
from resilient_ov.embedded.lines import Said, keep_newest, store_form, text_of, tokens_of


def _stored(**fields: object) -> dict[str, object]:
    line, _ = store_form(Said(Message.model_validate({"role": "user", **fields})), "s")
    stored: dict[str, object] = json.loads(line)
    return stored


def test_marks_of_the_client_are_kept_and_its_ids_are_not() -> None:
    stored = _stored(content="x", id="mine", role_id="r", source_message_ids=["h1", "df1-0"])
    assert stored["source_message_ids"] == ["h1", "df1-0"]
    assert stored["id"] != "mine"
    assert "role_id" not in stored


def test_parts_win_over_content_and_unknown_parts_become_text() -> None:
    stored = _stored(content="x", parts=[{"type": "bogus"}, {"type": ["odd"]}, {"type": "text"}])
    assert text_of(stored) == "{'type': 'bogus'}\n{'type': ['odd']}\n"


def test_secrets_are_replaced_in_every_part() -> None:
    tool = {"type": "tool", "tool_input": {"q": ["password=hunter2secret"], "n": 1}}
    assert "hunter2secret" not in json.dumps(_stored(parts=[tool]))


def test_a_line_is_one_line() -> None:
    line, _ = store_form(Said(Message(role="user", content="a\nb\u2028c\x00😀")), "s")
    assert "\n" not in line
    assert text_of(json.loads(line)) == "a\nb\u2028c\x00😀"


def test_tokens_are_estimated_like_the_wire() -> None:
    assert [tokens_of(text) for text in ("", "   ", "hi", "Understood.", "中文")] == [0, 1, 1, 3, 2]


def test_the_newest_messages_that_fit_are_kept() -> None:
    messages = [({"id": str(n), "parts": [{"type": "text", "text": "abcdefgh"}]}, 2) for n in "123"]
    assert [message["id"] for message in keep_newest(messages, 5)] == ["2", "3"]
    (cut,) = keep_newest(messages, 1)
    assert text_of(cut) == "efgh"
    assert keep_newest([], 1) == []
