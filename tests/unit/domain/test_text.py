import base64
import random
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resilient_ov.domain.text import (
    CUT_MARKER,
    clean,
    cut,
    replace_surrogates,
    utc_instant,
    without_blocks,
    without_payloads,
)

ANY_TEXT = st.text(
    st.one_of(
        st.characters(),
        st.sampled_from(["\ud83d", "\ude00", "\0", "\x85", "\x9b", "\n", "\u200d", "\u0301"]),
    )
)
BLOB = base64.b64encode(random.Random(7).randbytes(900)).decode()


class TestClean:
    @pytest.mark.parametrize(
        ("raw", "cleaned"),
        [
            ("price \ud83d ok", "price \ufffd ok"),
            ("\udc8dfine", "\ufffdfine"),
            ("real \U0001f600", "real \U0001f600"),
            ("joined \ud83d\ude00", "joined \U0001f600"),
            ("\ud83d\ud83d\ude00\ude00", "\ufffd\U0001f600\ufffd"),
            ("a\0b", "ab"),
            ("\0\0", ""),
            ("tab\tnl\r\nbell\x07", "tab\tnl\r\nbell"),
            ("del\x7f csi\x9b nel\x85", "del csi nel\x85"),
            ("Â © é\x80\x81", "Â © é"),
            ("\ud83d\0\ude00", "\ufffd\ufffd"),
        ],
    )
    def test_known_texts(self, raw, cleaned):
        assert clean(raw) == cleaned

    def test_a_clean_text_is_returned_as_it_is(self):
        for text in ("", "plain\ttext\r\n", "Â © 记忆 \U0001f600\u2028"):
            assert clean(text) is text
            assert replace_surrogates(text) is text

    def test_replacing_surrogates_leaves_controls(self):
        assert replace_surrogates("\0\ud83d\x9b") == "\0\ufffd\x9b"

    @given(ANY_TEXT)
    def test_the_result_can_be_sent_and_is_stable(self, text):
        cleaned = clean(text)
        cleaned.encode("utf-8")
        assert clean(cleaned) == cleaned
        kept = [c for c in cleaned if ord(c) < 32 or 127 <= ord(c) < 160]
        assert set(kept) <= {"\t", "\n", "\r", "\x85"}
        expected = [c for c in text if not (ord(c) < 32 or 127 <= ord(c) < 160 or c > "\ud7ff")]
        assert [c for c in cleaned if "\x20" <= c <= "\ud7ff" and c not in kept] == expected


class TestWithoutBlocks:
    @pytest.mark.parametrize(
        ("raw", "words"),
        [
            ("<uploaded_files>\n- /mnt/user-data/uploads/a.csv\n</uploaded_files>", ""),
            ("<uploaded_files>\n- b.pdf\n</uploaded_files>\n\nTotal?", "\n\nTotal?"),
            ("Sum\n<Current_Uploads>\n- p.pdf\n</Current_Uploads>", "Sum\n"),
            ("a <MEMORY kind='x'>secret</memory > b", "a  b"),
            ("a<memory>1</memory>b<memory>2</memory>c", "abc"),
            ("<memory>1<uploaded_files>2</memory>3", "3"),
            ("<memory>x</memory>y</memory>", "y</memory>"),
        ],
    )
    def test_blocks_are_removed(self, raw, words):
        assert without_blocks(raw) == words

    @pytest.mark.parametrize(
        "text",
        [
            "no tag",
            "a < b > c",
            "the <memory> tag",
            "</memory> then <memory>",
            "<memory/> and <memorybank>x</memorybank>",
            "<system>x</system>",
        ],
    )
    def test_everything_else_is_text(self, text):
        assert without_blocks(text) is text

    def test_an_unclosed_tag_does_not_hide_a_whole_block(self):
        text = "<memory> is a tag; <uploaded_files>x</uploaded_files> done"
        assert without_blocks(text) == "<memory> is a tag;  done"


class TestWithoutPayloads:
    @pytest.mark.parametrize(
        ("raw", "rest"),
        [
            ("Here ![x](data:image/png;base64,AAAA) done", "Here [image] done"),
            ("![a b](<data:image/gif;base64,R0lG==> 'title') x", "[image] x"),
            ("see data:image/png;base64,AAAA, done", "see [image] done"),
            ('<img src="DATA:Image/GIF;Base64,R0lG=">', '<img src="[image]">'),
            ("data:application/pdf;name=a.pdf;base64,JVBERi0=", "[data]"),
            ("data:;base64,QUJD", "[data]"),
            ("data:text/html;charset=utf-8,%3Ch1%3E x", "[data] x"),
            ("data:image/png;base64,AAAA，这是", "[image]，这是"),
            ("data:foo data:image/png;base64,AAAA", "data:foo [image]"),
        ],
    )
    def test_data_uris_become_a_marker(self, raw, rest):
        assert without_payloads(raw) == rest

    def test_a_huge_uri_becomes_a_short_marker(self):
        text = "Here ![x](data:image/png;base64," + "A" * 4_000_000 + ") done"
        assert without_payloads(text) == "Here [image] done"

    @pytest.mark.parametrize(
        "text",
        [
            "the data: see below",
            "data:,x",
            "data:12/13, as agreed",
            "metadata:image/png,x",
            "![alt](https://example.org/x.png)",
            "![x]([image]) as written",
        ],
    )
    def test_words_about_data_stay(self, text):
        assert without_payloads(text) is text

    def test_bare_base64_becomes_a_marker(self):
        wrapped = base64.encodebytes(random.Random(7).randbytes(900)).decode()
        assert without_payloads(f"key {BLOB} end") == "key [data] end"
        assert without_payloads(f"key\n{wrapped}\nend") == "key\n[data]\n\nend"
        assert without_payloads(wrapped.replace("\n", "\r\n").strip()) == "[data]"

    @given(st.integers(0, 600), st.integers(0, 600))
    def test_the_shortest_run_is_found_anywhere(self, before, after):
        run = BLOB[:512]
        text = f"{'b ' * before}{run}{' a' * after}"
        assert without_payloads(text) == text.replace(run, "[data]")

    @pytest.mark.parametrize(
        "text",
        [
            "x" * 20000,
            "0123456789abcdef" * 100,
            BLOB[:511] + " " + BLOB[:511],
            BLOB[:80] + " prose " * 100,
            "/usr/lib/Python3" * 60,
            "记忆" * 600,
        ],
    )
    def test_other_long_runs_stay(self, text):
        assert without_payloads(text) == text

    @given(ANY_TEXT)
    def test_ordinary_text_is_untouched(self, text):
        assert without_payloads(text) is text


class TestCut:
    GRAPHEMES = (
        "\U0001f468\u200d\U0001f469\u200d\U0001f467",
        "e\u0301\u0323",
        "\u2764\ufe0f\u200d\U0001f525",
        "\U0001f44d\U0001f3fd",
        "\U0001f1e9\U0001f1ea",
        "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
        "\u1112\u1161\u11ab",
        "\ud55c\u11ab",
        "\u0915\u094d\u0937\u093f",
        "\u0627\u200c",
        "\uff76\uff9e",
        "\r\n",
        "1\ufe0f\u20e3",
    )

    @pytest.mark.parametrize("grapheme", GRAPHEMES, ids=ascii)
    @pytest.mark.parametrize("before", ["ab", "\u8a18\u61b6", "\U0001f1e9\U0001f1ea", "\u200bx"])
    def test_a_grapheme_is_whole_or_absent(self, grapheme, before):
        text = before + grapheme + "yz"
        for max_chars in range(len(before), len(text)):
            kept = cut(text, max_chars).removesuffix(CUT_MARKER)
            whole = max_chars >= len(before + grapheme)
            assert kept == (text[:max_chars] if whole else before)

    def test_a_text_within_the_limit_is_returned_as_it_is(self):
        text = "x" * 20000
        assert cut(text, 20000) is text

    def test_a_huge_text_with_an_emoji_at_the_cut(self):
        text = "x" * 19999 + self.GRAPHEMES[0] + "y" * 10_485_760
        assert cut(text, 20000) == "x" * 19999 + CUT_MARKER

    def test_flags_are_counted_from_the_start_of_their_run(self):
        flags = "\U0001f1e9\U0001f1ea" * 3
        assert cut("a" + flags, 4) == "a" + flags[:2] + CUT_MARKER
        assert cut("a" + flags, 5) == "a" + flags[:4] + CUT_MARKER

    def test_plain_neighbours_are_an_edge(self):
        assert cut("\u8a18\u61b6\u5f8c", 2) == "\u8a18\u61b6" + CUT_MARKER
        assert cut("\ud55c\uae00a", 1) == "\ud55c" + CUT_MARKER
        assert cut("\u0915\u094d a", 2) == "\u0915\u094d" + CUT_MARKER

    def test_an_endless_grapheme_is_cut_at_the_limit(self):
        text = "a" + "\u0301" * 5000
        assert cut(text, 1000) == text[:1000] + CUT_MARKER
        assert cut("\u0301" * 9, 3) == "\u0301" * 3 + CUT_MARKER

    @given(ANY_TEXT, st.integers(1, 40))
    def test_never_above_the_limit_and_always_a_prefix(self, text, max_chars):
        result = cut(text, max_chars)
        if len(text) <= max_chars:
            assert result == text
            return
        kept = result.removesuffix(CUT_MARKER)
        assert result == kept + CUT_MARKER
        assert 1 <= len(kept) <= max_chars
        assert text.startswith(kept)


class TestUtcInstant:
    @pytest.mark.parametrize(
        ("value", "instant"),
        [
            ("2026-01-01T10:00:00Z", "2026-01-01T10:00:00+00:00"),
            ("2026-01-01T12:00:00.5+02:00", "2026-01-01T10:00:00.500000+00:00"),
            (datetime(2026, 1, 1, 10, tzinfo=UTC), "2026-01-01T10:00:00+00:00"),
            (
                datetime(2026, 1, 1, 0, 30, tzinfo=timezone(timedelta(hours=1))),
                "2025-12-31T23:30:00+00:00",
            ),
        ],
    )
    def test_an_instant_is_given_in_utc(self, value, instant):
        assert utc_instant(value) == instant

    @pytest.mark.parametrize(
        "value",
        [
            "yesterday",
            "",
            "2026-01-01",
            "2026-01-01T10:00:00",
            "2026-13-01T10:00:00Z",
            "0001-01-01T00:00:00+14:00",
            "\ud83d",
            datetime(2026, 1, 1),  # noqa: DTZ001 - the naive one is the case
            1767225600,
            float("nan"),
            None,
        ],
    )
    def test_anything_else_is_none(self, value):
        assert utc_instant(value) is None
