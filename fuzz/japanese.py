"""The splitter for text without spaces: pieces rejoin to the text, and none is too large.

Takes: two bytes for the size and the overlap, and the bytes of a text. Gives: the pieces.
Refuses: nothing, as the splitter.
"""

from __future__ import annotations

from fuzz.common import Target
from lookfar.text.chunk.sentences import Piece, split_sentences


def _parts(data: bytes) -> tuple[str, int, int]:
    size = 1 + (data[0] if data else 0) * 3
    overlap = (data[1] if len(data) > 1 else 0) % size
    # Overlap near the size makes a piece for each character, which no setting allows for long.
    return data[2:].decode("utf-8", "replace"), size, min(overlap, size // 2)


def work(data: bytes) -> tuple[str, int, int, list[Piece]]:
    text, size, overlap = _parts(data)
    return text, size, overlap, split_sentences(text, size, overlap)


def check(_: bytes, result: tuple[str, int, int, list[Piece]]) -> None:
    text, size, overlap, found = result
    assert "".join(text[start + repeated : end] for start, end, repeated in found) == text
    for start, end, repeated in found:
        assert 0 <= repeated <= overlap
        assert start + repeated < end <= start + size


TARGET = Target(
    work,
    check,
    # Small pieces with much overlap are many: no promise is about less, and files are read once.
    limit=0.3,
    words=(
        "。", "！", "？", "｡", "．", "」", "』", "（", "\u3000", "か\u3099", "ｶﾞ", "👩\u200d💻",
        "🇯🇵", "❤\ufe0f", "\r\n", "\n\n", ". ", "3.14", "葛\U000e0100", "犬は走る。", "\u0301",
    ),
)  # fmt: skip
