import copy
import json
from datetime import datetime
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resilient_ov.domain.messages import Message, Role, SkipReason, conversation

HIDE = {"hide_from_ui": True}
ANSWER = {
    "version": 1,
    "kind": "human_input_response",
    "source": "ask_clarification",
    "request_id": "r1",
    "response_kind": "text",
    "value": "Berlin",
}


def msg(kind, content, message_id=None, **fields):
    """A message as the host's own classes show it: attributes, all of them present."""
    fields = {"additional_kwargs": {}, "name": None, **fields}
    return SimpleNamespace(type=kind, content=content, id=message_id, **fields)


def human(content, message_id=None, **fields):
    return msg("human", content, message_id, **fields)


def ai(content, message_id=None, **fields):
    return msg("ai", content, message_id, **{"tool_calls": [], **fields})


def texts(*messages, keep_hidden=None):
    return [message.text for message in conversation(messages, keep_hidden).messages]


def skipped(*messages, keep_hidden=None):
    read = conversation(messages, keep_hidden)
    assert read.messages == ()
    return read.skipped


class TestWhoSpeaks:
    def test_user_words_and_answers_in_order(self):
        read = conversation([human("hi", "h1"), ai("hello", "a1"), human("bye"), ai("ciao", "")])
        assert read.messages == (
            Message(role=Role.USER, text="hi", host_id="h1"),
            Message(role=Role.ASSISTANT, text="hello", host_id="a1"),
            Message(role=Role.USER, text="bye"),
            Message(role=Role.ASSISTANT, text="ciao"),
        )
        assert read.skipped == {}
        assert [message.role for message in read.messages[:2]] == ["user", "assistant"]

    def test_dicts_and_openai_roles(self):
        read = conversation(
            [
                {"type": "human", "id": "d1", "content": "dict message"},
                {"role": "user", "content": "openai style"},
                {"role": "assistant", "content": "answer", "id": 7},
                {"role": "assistant", "content": "", "tool_calls": [{"id": "c"}]},
                {"role": "system", "content": "rules"},
            ]
        )
        assert [(m.role, m.text, m.host_id) for m in read.messages] == [
            ("user", "dict message", "d1"),
            ("user", "openai style", None),
            ("assistant", "answer", None),
        ]
        assert read.skipped == {SkipReason.TOOL_CALL: 1, SkipReason.OTHER_ROLE: 1}

    def test_other_roles_and_chunks_are_skipped(self):
        assert skipped(
            msg("system", "prompt"),
            msg("tool", "output", name="ask_clarification", tool_call_id="c1"),
            msg("remove", ""),
            {"type": "chat", "role": "x", "content": "?"},
            msg("AIMessageChunk", "par", tool_calls=[]),
            msg("HumanMessageChunk", "par"),
        ) == {SkipReason.OTHER_ROLE: 4, SkipReason.CHUNK: 2}

    def test_a_tool_round_trip_leaves_question_and_answer(self):
        call = [{"id": "c1", "name": "w", "args": {"city": "Oslo"}}]
        read = conversation(
            [
                human("weather?", "h1"),
                ai("", "a1", tool_calls=call),
                ai("let me look", "a1b", tool_calls=call),
                ai("raw", "a1c", additional_kwargs={"tool_calls": call}),
                msg("tool", '{"t":3}', "t1"),
                ai("3 degrees", "a2"),
                ai("", "a3"),
                ai("   ", "a4"),
            ]
        )
        assert [message.text for message in read.messages] == ["weather?", "3 degrees"]
        assert read.skipped == {
            SkipReason.TOOL_CALL: 3,
            SkipReason.OTHER_ROLE: 1,
            SkipReason.EMPTY: 2,
        }

    def test_only_the_assistant_calls_tools(self):
        assert texts(human("x", tool_calls=[1], additional_kwargs={"tool_calls": [1]})) == ["x"]

    def test_summaries_are_skipped(self):
        summary = {"lc_source": "summarization"}
        assert skipped(human("Summary", additional_kwargs=summary)) == {SkipReason.SUMMARY: 1}


class TestHidden:
    def test_what_the_host_hid_is_skipped(self):
        read = conversation(
            [
                human("<todo_reminder>", "r1", additional_kwargs=HIDE),
                human("<memory>- tea</memory>", "h1__memory", additional_kwargs=HIDE),
                ai("hidden answer", "a0", additional_kwargs={"hide_from_ui": "yes"}),
                human("I moved to Oslo", "h1", additional_kwargs={"hide_from_ui": False}),
            ]
        )
        assert [message.text for message in read.messages] == ["I moved to Oslo"]
        assert read.skipped == {SkipReason.HIDDEN: 3}

    def test_a_hidden_clarification_answer_keeps_its_value(self):
        fields = {**HIDE, "human_input_response": ANSWER}
        wordy = human("For your clarification, my answer is: Berlin", additional_kwargs=fields)
        assert texts(wordy) == ["Berlin"]
        assert texts(wordy, keep_hidden=lambda extra: True) == ["Berlin"]
        option = {**ANSWER, "response_kind": "option", "option_id": "o1", "value": "B"}
        fields = {**HIDE, "human_input_response": option, "original_user_content": "wordy"}
        assert texts(human("wordy", additional_kwargs=fields)) == ["B"]

    def test_a_visible_clarification_answer_keeps_its_value_too(self):
        extra = {"human_input_response": ANSWER}
        assert texts(human("wordy", additional_kwargs=extra)) == ["Berlin"]

    @pytest.mark.parametrize(
        "answer",
        [
            None,
            "Berlin",
            {"version": 2, "value": "x"},
            {**ANSWER, "version": 2},
            {**ANSWER, "kind": "other"},
            {**ANSWER, "response_kind": "form"},
            {**ANSWER, "response_kind": ["text"]},
            {**ANSWER, "value": " "},
            {**ANSWER, "value": 7},
        ],
        ids=repr,
    )
    def test_a_malformed_hidden_answer_is_not_remembered(self, answer):
        extra = {**HIDE, "human_input_response": answer}
        assert texts(human("x", additional_kwargs=extra)) == []

    def test_the_hook_decides_and_only_true_keeps(self):
        message = human("words", additional_kwargs={**HIDE, "mark": 1})
        assert texts(message, keep_hidden=lambda extra: extra["mark"] == 1) == ["words"]
        assert texts(message, keep_hidden=lambda extra: 1) == []
        answer = human("x", additional_kwargs={**HIDE, "human_input_response": ANSWER})
        assert texts(answer, keep_hidden=lambda extra: False) == []

    def test_the_hook_is_asked_about_hidden_messages_only(self):
        asked = []
        texts(human("a"), human("b", additional_kwargs=HIDE), keep_hidden=asked.append)
        assert asked == [HIDE]

    def test_a_hook_that_raises_keeps_nothing(self):
        answer = human("x", additional_kwargs={**HIDE, "human_input_response": ANSWER})

        def broken(extra):
            raise RuntimeError("broken")

        assert skipped(answer, keep_hidden=broken) == {SkipReason.HIDDEN: 1}


class TestWords:
    def test_blocks_keep_text_only(self):
        content = [
            "b",
            {"type": "text", "text": None},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            {"type": "text", "text": "a"},
            {"type": "input_audio"},
            {"text": "untyped"},
            7,
            None,
        ]
        assert texts(human(content)) == ["b\na"]
        answer = [
            {"type": "thinking", "thinking": "SECRET7"},
            {"type": "reasoning", "text": "SECRET8"},
            {"type": "text", "text": "answer"},
            {"type": "tool_use", "id": "1", "name": "f", "input": {}},
        ]
        assert texts(ai(answer)) == ["answer"]
        assert texts(human(("a", {"type": "text", "text": "b"}))) == ["a\nb"]

    def test_inline_reasoning_before_an_answer_is_dropped(self):
        assert texts(ai("<think>SECRET\n7</think>\n\nanswer")) == ["answer"]
        assert texts(ai(" <THINKING>a</THINKING> <think>b</think> answer")) == ["answer"]
        assert texts(ai("the <think>x</think> tag")) == ["the <think>x</think> tag"]
        assert texts(human("<think>x</think> y")) == ["<think>x</think> y"]
        assert skipped(ai("<think>only</think>")) == {SkipReason.EMPTY: 1}

    def test_uploads_and_echoed_memory_are_removed(self):
        assert texts(
            human("<uploaded_files>\n- /mnt/user-data/uploads/a.csv\n</uploaded_files>"),
            human("<uploaded_files>\n- b.pdf\n</uploaded_files>\n\nWhat is the total?"),
            human("Summarise\n<Current_Uploads>\n- /mnt/x.pdf\n</Current_Uploads>"),
            human([{"type": "text", "text": "<current_uploads>x</current_uploads>"}, "words"]),
            ai("<memory>- likes tea</memory>You like tea"),
            human("<mem\0ory>x</memory>y"),
        ) == ["What is the total?", "Summarise", "words", "You like tea", "y"]

    @pytest.mark.parametrize(
        "upload",
        [
            human("<uploaded_files>\n- a.csv\n</uploaded_files>"),
            human([{"type": "text", "text": "<Current_Uploads>a.csv</Current_Uploads>"}]),
            human(
                "<current_uploads>a</current_uploads>",
                additional_kwargs={"original_user_content": ""},
            ),
        ],
        ids=["older tag", "block", "no own words"],
    )
    def test_answer_to_files_alone_goes_with_them(self, upload):
        thread = [
            human("hello"),
            ai("hi"),
            upload,
            ai("", tool_calls=[{"id": "c1"}]),
            ai("Received a.csv"),
            human("reminder", additional_kwargs=HIDE),
            ai("It has 3 rows"),
            human("What is the total?"),
            ai("42"),
        ]
        assert texts(*thread) == ["hello", "hi", "What is the total?", "42"]
        assert conversation(thread).skipped[SkipReason.UPLOADS] == 3

    def test_answer_to_a_picture_alone_is_kept(self):
        picture = human([{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}])
        assert texts(picture, ai("a cat")) == ["a cat"]
        assert skipped(picture) == {SkipReason.EMPTY: 1}

    def test_the_users_own_text_is_preferred(self):
        extra = {"original_user_content": "own words", "files": [{"filename": "a.pdf"}]}
        assert texts(human("<current_uploads>x</current_uploads>own", additional_kwargs=extra)) == [
            "own words"
        ]
        assert texts(human("as sent", additional_kwargs={"original_user_content": None})) == [
            "as sent"
        ]
        assert texts(ai("answer", additional_kwargs={"original_user_content": "q"})) == ["answer"]
        assert texts(human("upload only", additional_kwargs={"original_user_content": ""})) == []

    def test_texts_are_cleaned_and_trimmed(self):
        assert texts(
            human("price \ud83d ok"),
            ai("\udc8dfine"),
            human("real \U0001f600"),
            human("a\0b"),
            ai("\0\0"),
            human("\n tab\tnl\nbell\x07 \u2028"),
        ) == ["price \ufffd ok", "\ufffdfine", "real \U0001f600", "ab", "tab\tnl\nbell"]

    def test_embedded_files_become_a_marker(self):
        picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA" * 1000}}
        assert texts(
            human([{"type": "text", "text": "see"}, picture]),
            ai("Here ![x](data:image/png;base64," + "A" * 4_000_000 + ") done"),
        ) == ["see", "Here [image] done"]

    def test_a_long_text_is_not_cut_here(self):
        assert texts(human("x" * 50_000)) == ["x" * 50_000]


class TestCreatedAt:
    def test_an_instant_is_taken_from_either_place(self):
        read = conversation(
            [
                human("a", additional_kwargs={"created_at": "2026-01-01T12:00:00+02:00"}),
                human("b", created_at="2026-01-01T10:00:00Z"),
                {"type": "human", "content": "c", "created_at": "2026-01-01T10:00:00Z"},
                human(
                    "d",
                    additional_kwargs={"created_at": "yesterday"},
                    created_at="2026-01-01T10:00:00Z",
                ),
            ]
        )
        assert {message.created_at for message in read.messages} == {"2026-01-01T10:00:00+00:00"}

    @pytest.mark.parametrize(
        "value",
        ["yesterday", "2026-01-01", datetime(2026, 1, 1), 1.5, None],  # noqa: DTZ001 - naive
    )
    def test_anything_else_is_left_out(self, value):
        message = human("x", created_at=value, additional_kwargs={"created_at": value})
        assert conversation([message]).messages == (Message(role=Role.USER, text="x"),)


class Hostile:
    """Raises from every attribute but its type."""

    type = "human"

    def __getattr__(self, name):
        raise RuntimeError(name)


class NoBool:
    def __bool__(self):
        raise RuntimeError("no")


class TestOddObjects:
    def test_nothing_raises_and_everything_is_counted(self):
        read = conversation(
            [
                None,
                42,
                "human",
                [],
                Hostile(),
                msg(7, "x"),
                human({"k": 1}),
                human(b"bytes"),
                ai(float("inf")),
                human("x", additional_kwargs={"hide_from_ui": NoBool()}),
                ai("x", tool_calls=NoBool()),
                ai(None),
                human([]),
                {},
                human("b'bytes'"),
            ]
        )
        assert [message.text for message in read.messages] == ["b'bytes'"]
        assert read.skipped == {SkipReason.UNREADABLE: 12, SkipReason.EMPTY: 2}

    @pytest.mark.parametrize("extra", [None, [], "x", 7, {"n": float("nan")}])
    def test_odd_additional_fields_are_ignored(self, extra):
        assert texts(human("x", additional_kwargs=extra)) == ["x"]

    def test_a_message_may_lack_every_optional_field(self):
        assert texts(SimpleNamespace(type="ai", content="x")) == ["x"]
        assert texts(SimpleNamespace(role="user", content="x")) == ["x"]

    def test_nothing_of_the_host_is_changed(self):
        def meddle(extra):
            extra["seen"] = True
            return True

        answer = {**HIDE, "human_input_response": dict(ANSWER)}
        messages = [
            {"type": "human", "content": ["a", {"type": "text", "text": "b\0"}], "id": "h"},
            {"type": "human", "content": "x", "additional_kwargs": answer},
        ]
        before = copy.deepcopy(messages)
        assert texts(*messages, keep_hidden=meddle) == ["a\nb", "Berlin"]
        assert messages == before

    JSON = st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=4) | st.just("text"),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["type", "text", "value"]), inner, max_size=3)
        ),
        max_leaves=6,
    )

    @given(
        st.lists(
            st.fixed_dictionaries(
                {"type": st.sampled_from(["human", "ai", "tool", "AIMessageChunk", None, 3])},
                optional={
                    "role": JSON,
                    "content": JSON | st.text(),
                    "id": JSON,
                    "tool_calls": JSON,
                    "created_at": JSON,
                    "additional_kwargs": st.dictionaries(
                        st.sampled_from(
                            [
                                "hide_from_ui",
                                "human_input_response",
                                "original_user_content",
                                "lc_source",
                            ]
                        ),
                        JSON,
                    ),
                },
            ),
            max_size=4,
        )
    )
    def test_any_message_is_kept_or_counted(self, messages):
        read = conversation(messages)
        assert len(read.messages) + sum(read.skipped.values()) == len(messages)
        as_objects = conversation(SimpleNamespace(**fields) for fields in messages)
        assert as_objects == read
        for message in read.messages:
            assert message.text
            assert message.text == message.text.strip()
            json.dumps(message.text, ensure_ascii=False).encode("utf-8")
