"""The table of hidden characters: every block is flagged, ordinary writing is not."""

from __future__ import annotations

import sys
import unicodedata
from itertools import pairwise

import pytest

from lookfar.common.hidden_characters import BLOCKS, Block, flags, is_hidden
from lookfar.serve.show.printable import safe_json, safe_name, safe_text
from lookfar.sources.folder.policy import Policy

ORDINARY = {
    "English": "It's naïve – a “test” … of £5, 3×4 and 10°.",
    "emoji with a selector": "I \u2764\ufe0f it \u2600\ufe0f \u2714\ufe0f \u00a9\ufe0f",
    "text style": "\u2764\ufe0e \u260e\ufe0e",
    "keycaps": "1\ufe0f\u20e3 #\ufe0f\u20e3 *\ufe0f\u20e3",
    "skin tone": "\U0001f44d\U0001f3fd \u270c\U0001f3ff",
    "family": "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466",
    "heart on fire": "\u2764\ufe0f\u200d\U0001f525",
    "woman running": "\U0001f3c3\U0001f3fd\u200d\u2640\ufe0f",
    "rainbow flag": "\U0001f3f3\ufe0f\u200d\U0001f308",
    "black cat": "\U0001f408\u200d\u2b1b",
    "flag of Scotland": "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
    "flag of Japan": "\U0001f1ef\U0001f1f5",
    "Persian": "می\u200cخواهم کتاب\u200cها را بخوانم",
    "Urdu and Arabic": "ہ\u200d لا\u200cإله",
    "Hindi": "क्\u200dष र्\u200dय क्\u200cष",
    "Malayalam": "ന്\u200d ര്\u200d അവന്\u200dറെ",
    "Sinhala": "ශ්\u200dරී ලංකා",
    "Bengali": "র\u200d্যাব",
    "Mongolian": "ᠮᠣᠩᠭᠣᠯ ᠠ\u180b ᠨ\u180eᠠ",
    "Korean": "안녕하세요 한국어",
    "Japanese": "設定を変更する\u3000葛飾",
    "Hebrew": "שלום עולם",
    "Thai": "สวัสดีชาวโลก",
    "Vietnamese, decomposed": unicodedata.normalize("NFD", "Tiếng Việt"),
    "spaces": "a\u00a0b\u2009c\u3000d\u2028e",
}


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.name)
def test_every_character_of_a_block_is_flagged_among_letters(block: Block) -> None:
    """Seen to fail with the regular expressions that the table replaced: fifteen blocks."""
    for first, last in block.ranges:
        for code in {first, last, (first + last) // 2, *range(first, min(last, first + 300))}:
            for text in (f"pass{chr(code)}word", f"{chr(code)}", f"字{chr(code)}字"):
                assert flags(text) == [block.kind], f"U+{code:04X} in {text!r}"
            assert is_hidden(chr(code))


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_writing_is_not_flagged(name: str) -> None:
    """Seen to fail without the exceptions for emoji, Persian, Hindi, Mongolian and others."""
    assert flags(ORDINARY[name]) == []


@pytest.mark.parametrize(
    "text",
    [
        "\U0001f600" + "".join(chr(0xE0100 + byte) for byte in b"ignore all"),
        "\u2764\ufe0f\ufe0f\ufe0f",
        "\U0001f600\u200d",
        "\U0001f600\u200d\u200d\U0001f600",
        "\U0001f3f4\U000e0068\U000e0069\U000e007f",
        "\U0001f600\U000e0068\U000e0069",
        "می\u200c\u200d\u200c\u200dخواهم",
        "ک\u200c\u2060",
        "a\u200db",
        "a\ufe0f",
        "葛\U000e0100飾",
        "ᠠ\u180b\u180b",
    ],
)
def test_hidden_characters_among_ordinary_uses_are_flagged(text: str) -> None:
    """Seen to fail when a run of joiners and selectors counted as one."""
    assert flags(text)


def test_several_kinds_are_named_in_a_fixed_order() -> None:
    assert flags("a\u202eb\x1bc\u200bd") == ["bidi", "control", "invisible"]
    assert flags("plain\x07") == ["control"]
    assert flags("plain\ttext\n") == []


def test_the_table_holds_all_format_characters_that_are_not_displayed() -> None:
    """The others of Unicode's format characters are displayed, as signs of Arabic or Kaithi are."""
    hidden = set()
    for code in range(sys.maxunicode + 1):
        if unicodedata.category(chr(code)) == "Cf" and not is_hidden(chr(code)):
            hidden.add(code)
    displayed = [
        *range(0x0600, 0x0606), 0x06DD, 0x070F, 0x0890, 0x0891, 0x08E2, 0x110BD, 0x110CD,
        *range(0x13430, 0x13440),
    ]  # fmt: skip
    assert hidden <= set(displayed)
    assert not any(is_hidden(chr(code)) for code in displayed)


def test_blocks_do_not_overlap() -> None:
    ranges = sorted(span for block in BLOCKS for span in block.ranges)
    assert all(before[1] < after[0] for before, after in pairwise(ranges))


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.name)
def test_a_secret_is_not_let_in_by_hidden_characters_in_its_name(block: Block) -> None:
    """Seen to fail with the list that the table replaced: `.e\\U000e0100nv` was admitted."""
    for first, last in block.ranges:
        for code in {max(first, 1), last}:
            if not chr(code).isascii():
                for name in (f".e{chr(code)}nv", f"server.p{chr(code)}em"):
                    verdict = Policy().judge(name, name, False)
                    assert verdict is not None, f"U+{code:04X}"
                    assert verdict.reason == "denied", f"U+{code:04X}"


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.name)
def test_a_terminal_escapes_only_characters_that_reorder(block: Block) -> None:
    for first, last in block.ranges:
        for code in {first, last}:
            char = chr(code)
            hidden = safe_text(f"a{char}b")
            assert (char not in hidden) == block.reorders, f"U+{code:04X}"
            assert (char not in safe_name(f"a{char}b")) == block.reorders
            if block.reorders:
                assert char not in safe_json({"key": f"a{char}b"})
