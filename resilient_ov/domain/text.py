"""Cleaning and cutting of text: what any memory text goes through before it is stored or shown.

Pure. Every function returns its argument unchanged (the same object) when there is nothing to do,
takes time linear in the length of the text, and works on any `str`, well formed or not.
"""

import re
import unicodedata
from datetime import UTC, datetime
from typing import Final

CUT_MARKER: Final = "\n[truncated]"
"""Stands at the end of a text that was cut."""

# C0 except tab, line feed and carriage return; DEL; C1 except NEL, which is a line break.
_CONTROL_BYTES: Final = bytes([*range(9), 11, 12, *range(14, 32), 127])
_C1_BYTES: Final = re.compile(b"(?:\xc2[\x80-\x84\x86-\x9f])+")
_SURROGATE_PAIR: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_SURROGATES: Final = re.compile("[\ud800-\udfff]+")

_BLOCK_TAG: Final = re.compile(
    r"<(/?)(memory|current_uploads|uploaded_files)(?:\s[^<>]{0,512})?>", re.ASCII | re.IGNORECASE
)

_IMAGE_MARKER: Final = "[image]"
_DATA_MARKER: Final = "[data]"
_DATA_URI: Final = re.compile(
    r"(?<![A-Za-z0-9])(?i:data):"
    r"((?i:image|audio|video|application|text|font|model)/[\w.+/;=-]{0,200}+"
    r"|[\w.+/;=-]{0,200}?;(?i:base64)),"
    r"[\w!#$%&*+,./:;=?@\\^`{|}~-]*+",
    re.ASCII,
)
_MARKDOWN_IMAGE: Final = re.compile(r"!\[[^\]\n]{0,200}+\]\(<?\[image\][^)\n]{0,200}+\)")
_BASE64_LINE: Final = r"[A-Za-z0-9+/]{60,}+"
_BASE64: Final = re.compile(
    rf"(?<![A-Za-z0-9+/]){_BASE64_LINE}(?:\r?\n{_BASE64_LINE})*+"
    r"(?:\r?\n[A-Za-z0-9+/]{1,59}={1,2}|={0,2})"
)
_MIN_BASE64_CHARS: Final = 512
_BASE64_SAMPLE_CHARS: Final = 2048
_MIN_BASE64_ALPHABET: Final = 40
"""More than lower-case letters, digits, `+` and `/` together: no word, path or hex dump has it."""

_ZERO_WIDTH_JOINER: Final = "\u200d"
_REGIONAL_INDICATORS: Final = "".join(map(chr, range(0x1F1E6, 0x1F200)))
_VIRAMA_CLASS: Final = 9
_MAX_GRAPHEME_CHARS: Final = 256


def replace_surrogates(text: str) -> str:
    """Join surrogate pairs to the character they mean, and turn lone ones into U+FFFD."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        text = _SURROGATE_PAIR.sub(_joined_pair, text)
        return _SURROGATES.sub(lambda found: "\ufffd" * len(found[0]), text)
    return text


def _joined_pair(found: re.Match[str]) -> str:
    return found[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def clean(text: str) -> str:
    r"""Replace lone surrogates and remove control characters.

    Removed are C0 except `\t`, `\n` and `\r`, DEL, and C1 except U+0085 (a line break): they mean
    nothing in a memory, some databases refuse NUL and terminals obey the others.
    """
    try:
        raw = text.encode("utf-8")
    except UnicodeEncodeError:
        text = replace_surrogates(text)
        raw = text.encode("utf-8")
    # Deleting bytes is ten times faster than searching a character class.
    kept = raw.translate(None, _CONTROL_BYTES)
    if b"\xc2" in kept:
        kept = _C1_BYTES.sub(b"", kept)
    return text if len(kept) == len(raw) else kept.decode("utf-8")


def without_blocks(text: str) -> str:
    """Remove what the host wrapped around the words: `<memory>` and uploads blocks, in any case.

    Both spellings of the uploads tag count (`current_uploads`, `uploaded_files`), anywhere in the
    text. A block ends at its first closing tag; an opening tag that is never closed is text.
    """
    if "<" not in text:
        return text
    tags = [(tag[2].lower(), bool(tag[1]), tag) for tag in _BLOCK_TAG.finditer(text)]
    last_close = {name: tag.start() for name, closing, tag in tags if closing}
    kept: list[str] = []
    resume, inside = 0, None
    for name, closing, tag in tags:
        if inside is None and not closing and tag.start() < last_close.get(name, -1):
            kept.append(text[resume : tag.start()])
            inside = name
        elif closing and name == inside:
            resume, inside = tag.end(), None
    return "".join([*kept, text[resume:]]) if kept else text


def without_payloads(text: str) -> str:
    """Replace embedded files by a short marker: `[image]` or `[data]`.

    Replaced are `data:` URIs (a Markdown image around one goes with it) and runs of at least 512
    characters of base64, in one line or wrapped.
    """
    if ":" in text and ("ata:" in text or "ATA:" in text):
        replaced = _DATA_URI.sub(_uri_marker, text)
        text = text if replaced == text else _MARKDOWN_IMAGE.sub(_IMAGE_MARKER, replaced)
    if _may_hold_base64(text):
        text = _BASE64.sub(_base64_marker, text)
    return text


def _uri_marker(found: re.Match[str]) -> str:
    return _IMAGE_MARKER if found[1].lower().startswith("image/") else _DATA_MARKER


def _may_hold_base64(text: str) -> bool:
    # A run of 512 covers at least one aligned stretch of 256 whole; prose has a space in each.
    step = _MIN_BASE64_CHARS // 2
    for start in range(0, len(text) - step + 1, step):
        if text.find(" ", start, start + step) < 0 and text[start : start + step].isascii():
            return True
    return False


def _base64_marker(found: re.Match[str]) -> str:
    run = found[0]
    if len(run) < _MIN_BASE64_CHARS:
        return run
    return _DATA_MARKER if len(set(run[:_BASE64_SAMPLE_CHARS])) >= _MIN_BASE64_ALPHABET else run


def cut(text: str, max_chars: int) -> str:
    """Cut a longer text to at most `max_chars` (>= 1) characters and append `CUT_MARKER`.

    The cut never falls inside a grapheme (emoji sequence, flag, letter with marks, Hangul
    syllable), unless one is longer than 256 characters or than the whole limit.
    """
    if len(text) <= max_chars:
        return text
    for end in range(max_chars, max(0, max_chars - _MAX_GRAPHEME_CHARS), -1):
        if _is_grapheme_edge(text, end):
            return text[:end] + CUT_MARKER
    return text[:max_chars] + CUT_MARKER


def _is_grapheme_edge(text: str, at: int) -> bool:
    """Tell whether a cut between `text[at - 1]` and `text[at]` leaves both sides whole.

    The rules of Unicode's UAX #29 in a form that needs no tables beyond the standard library's;
    where those are missing it errs on the side of no edge.
    """
    before, after = text[at - 1], text[at]
    if before.isascii() and after.isascii():
        return (before, after) != ("\r", "\n")
    if before == _ZERO_WIDTH_JOINER or _extends(after):
        return False
    if before in _REGIONAL_INDICATORS and after in _REGIONAL_INDICATORS:
        head = text[:at]
        return (len(head) - len(head.rstrip(_REGIONAL_INDICATORS))) % 2 == 0
    if unicodedata.combining(before) == _VIRAMA_CLASS and unicodedata.category(after) == "Lo":
        return False
    return not (_is_hangul(before) and _is_hangul_jamo(after))


def _extends(char: str) -> bool:
    return (
        char == _ZERO_WIDTH_JOINER
        or char == "\u200c"
        or "\U0001f3fb" <= char <= "\U0001f3ff"  # skin tones
        or "\U000e0020" <= char <= "\U000e007f"  # tags: the flags of England, Scotland, Wales
        or char in "\uff9e\uff9f"  # half-width voicing marks
        or unicodedata.category(char) in {"Mn", "Me", "Mc"}
    )


def _is_hangul_jamo(char: str) -> bool:
    return (
        "\u1100" <= char <= "\u11ff" or "\ua960" <= char <= "\ua97c" or "\ud7b0" <= char <= "\ud7fb"
    )


def _is_hangul(char: str) -> bool:
    return _is_hangul_jamo(char) or "\uac00" <= char <= "\ud7a3"


def utc_instant(value: object) -> str | None:
    """The ISO-8601 instant in UTC that a string or an aware `datetime` means, else None.

    A time without an offset is no instant. The server fails a whole archive on a time it cannot
    parse, so nothing doubtful passes.
    """
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
        if not isinstance(moment, datetime) or moment.utcoffset() is None:
            return None
        return moment.astimezone(UTC).isoformat()
    except (ValueError, OverflowError):
        return None
