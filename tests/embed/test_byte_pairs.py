"""The tokenizer of the second model gives the same IDs as the library ``tokenizers``."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lookfar.embed.providers import BUNDLED_QUALITY
from lookfar.embed.quality import TOKENIZER, BytePairs, read_byte_pairs

tokenizers = pytest.importorskip("tokenizers")

PATH = BUNDLED_QUALITY / TOKENIZER
LIMIT = 256
AMOUNT = int(os.environ.get("TOKENIZER_TEXTS", "3000"))
"""More: TOKENIZER_TEXTS=1000000 TOKENIZER_SETS=FOLDER pytest tests/embed/test_byte_pairs.py"""
SETS = os.environ.get("TOKENIZER_SETS", "")
REAL = Path(__file__).parents[2] / "docs"
MARKS = ("<s>", "</s>", "<pad>", "<unk>", "<mask>", " <mask>", "<mask", "s>", "<", "<s><s>")
SPACES = (
    *" \t\n\v\f\r\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2000\u2003\u200a\u200b\u2028\u2029\u202f\u205f",
    *("\u3000", "\ufeff", "\u180e", "  ", "\r\n", "\n\n  ", " " * 40),
)
PIECES = (
    *("'s", "'S", "'ll", "'ve", "'re", "don't", "''t", "_", "__init__", "a_b", "getUserById", "$x"),
    *("0", "12345", "3.14", "½", "²³", "Ⅻ", "٣٤", "一二三", "〇", "1a2b", "x1²y"),
    *("\x00", "\x00\x00a", "\x7f", "\u200d", "\ufffd", "\uffff", "\U0010ffff"),
    *(
        "é",
        "e\u0301",
        "a\u0300\u0301\u0302",
        "क्षि",
        "ไทย",
        "한국어",
        "ᄒ\u1161ᆫ",
        "العربية",
        "עברית",
    ),
    *("日本語", "カタカナ", "ﾊﾝｶｸ", "漢字かな交じり", "Ελλάδα", "Кириллица", "ქართული", "አማርኛ"),
    *(
        "👩‍👩‍👧‍👦",
        "🏳️‍🌈",
        "👍🏽",
        "🇯🇵",
        "☃️",
        "…",
        "—",
        "“q”",
        "→",
        "≤",
        "\U0001d54f",
        "\U00010d40",
        "\U0002ebf0",
    ),
)
BLOCKS = [(0, 0x80), (0, 0x250), (0x300, 0x600), (0x900, 0x1200), (0x2000, 0x2C00),
          (0x3000, 0xA000), (0xA000, 0xD800), (0xE000, 0x10000), (0x10000, 0x20000),
          (0x1F000, 0x1FB00), (0x20000, 0x110000)]  # fmt: skip

Encode = Callable[[str], list[int]]


@pytest.fixture(scope="module")
def reference() -> Encode:
    tokenizer = tokenizers.Tokenizer.from_file(str(PATH))
    tokenizer.no_padding()
    tokenizer.enable_truncation(LIMIT)
    return lambda text: list(tokenizer.encode(text).ids)


@pytest.fixture(scope="module")
def pairs() -> BytePairs:
    found = read_byte_pairs(PATH)
    assert found is not None
    return found


def generate(chance: random.Random) -> str:
    """Compose a text of words, spaces, marks and characters of some block, or a long word."""
    kind = chance.random()
    if kind < 0.02:
        return chance.choice(("a", "ab", "xyz0", "é", "漢", "\x00", " ", "'s")) * chance.randrange(
            900
        )
    if kind < 0.04:
        return "".join(
            chance.choices("abcdefghijklmnopqrstuvwxyzABC0123/+=", k=chance.randrange(3000))
        )
    first, last = chance.choice(BLOCKS)
    parts = []
    for _ in range(chance.randrange(1, 30)):
        source = chance.random()
        if source < 0.3:
            parts.append(chance.choice(PIECES))
        elif source < 0.5:
            parts.append(chance.choice(SPACES))
        elif source < 0.55:
            parts.append(chance.choice(MARKS))
        else:
            parts.append("".join(pick(chance, first, last) for _ in range(chance.randrange(1, 9))))
    return "".join(parts)


def pick(chance: random.Random, first: int, last: int) -> str:
    code = chance.randrange(first, last)
    return "?" if 0xD800 <= code < 0xE000 else chr(code)


def windows(chance: random.Random) -> Iterator[str]:
    """Windows of real texts: the documentation, or the corpora of question sets."""
    if SETS:
        paths = [path for path in sorted(Path(SETS).glob("*/corpus.jsonl")) if path.is_file()]
        lines = [line for path in paths for line in path.open(encoding="utf-8")]
        read = [str(json.loads(line).get("text", "")) for line in chance.sample(lines, 20_000)]
    else:
        read = [path.read_text("utf-8") for path in sorted(REAL.rglob("*.md"))]
    while True:
        text = chance.choice(read)
        at = chance.randrange(max(1, len(text)))
        yield text[at : at + chance.choice((40, 300, 1500))]


def test_the_ids_are_those_of_the_reference(reference: Encode, pairs: BytePairs) -> None:
    """Run with a million texts: none differed."""
    chance = random.Random(7)
    real = windows(chance)
    for number in range(AMOUNT):
        text = next(real) if number % 2 else generate(chance)
        assert pairs.encode(text, LIMIT).tolist() == reference(text), ascii(text)
