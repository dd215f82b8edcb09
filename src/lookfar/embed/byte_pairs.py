"""The tokenizer of the second model: text to words, words to bytes, bytes to pairs of pieces.

Takes: a ``tokenizer.json`` of byte-level pair encoding, and texts. Gives: the IDs that the library
``tokenizers`` gives, without that library. Other kinds of tokenizers are left to it.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import groupby
from pathlib import Path
from typing import Any, Final
from unicodedata import category

from lookfar.embed.tokens import TokenCache

_SPACES: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
# What Unicode 16 has and the Unicode of some supported Python has not.
_NEW_LETTERS: Final = (
    "\u1c89-\u1c8a\ua7cb-\ua7cd\ua7da-\ua7dc\U000105c0-\U000105f3\U00010d4a-\U00010d65"
    "\U00010d6f-\U00010d85\U00010ec2-\U00010ec4\U0001123f-\U00011240\U00011380-\U00011389\U0001138b"
    "\U0001138e\U00011390-\U000113b5\U000113b7\U000113d1\U000113d3\U00011bc0-\U00011be0\U00011f02"
    "\U00011f04-\U00011f10\U00011f12-\U00011f33\U0001342f\U00013441-\U00013446"
    "\U00013460-\U000143fa\U00016100-\U0001611d\U00016d40-\U00016d6c\U00018cff\U0001b132\U0001b155"
    "\U0001df25-\U0001df2a\U0001e030-\U0001e06d\U0001e4d0-\U0001e4eb\U0001e5d0-\U0001e5ed\U0001e5f0"
    "\U0002b739\U0002ebf0-\U0002ee5d\U00031350-\U000323af"
)
_NEW_NUMBERS: Final = (
    "\U00010d40-\U00010d49\U000116d0-\U000116e3\U00011bf0-\U00011bf9\U00011f50-\U00011f59"
    "\U00016130-\U00016139\U00016d70-\U00016d79\U0001ccf0-\U0001ccf9\U0001d2c0-\U0001d2d3"
    "\U0001e4f0-\U0001e4f9\U0001e5f1-\U0001e5fa"
)
_NEW: Final = _NEW_LETTERS + _NEW_NUMBERS
_WORDS = re.compile(
    rf"'(?:[stmd]|re|ve|ll)| ?(?:[^\W_]+|[{_NEW}])+| ?(?:[^\w{_SPACES}{_NEW}]+|_)+"
    rf"|[{_SPACES}]+(?![^{_SPACES}])|[{_SPACES}]+"
)
_ALPHANUMERIC = re.compile(rf" ?(?:[^\W_]|[{_NEW}])")
_IS_NEW_NUMBER = re.compile(f"[{_NEW_NUMBERS}]")
_PLAIN: Final = {
    "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
    "end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
}  # fmt: skip
_BY_BYTES: Final = {
    "type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True
}  # fmt: skip
_MARKED: Final = {"id", "content", "lstrip", "special"}
"""What may differ between tokens that a text can name."""
_HALF: Final = 16


class BytePairs(TokenCache):
    """Splits words into pieces, and remembers those of short words. Thread-safe."""

    def __init__(self, about: Mapping[str, Any]) -> None:
        super().__init__()
        ids: Mapping[str, int] = about["model"]["vocab"]
        merges: Sequence[tuple[str, str]] = about["model"]["merges"]
        self._of_byte = [ids[letter] for letter in _spell_bytes()]
        self._ranks = {ids[a] << _HALF | ids[b]: rank for rank, (a, b) in enumerate(merges)}
        self._joined = [ids[a + b] for a, b in merges]
        # The longest of those that begin at the same place counts.
        marks = sorted(about["added_tokens"], key=lambda mark: -len(mark["content"]))
        self._marks = {mark["content"]: mark for mark in marks}
        self._find_marks = re.compile(f"({'|'.join(map(re.escape, self._marks))})")
        ends = about["post_processor"]
        self._ends = (_pack([ends["cls"][1]]), _pack([ends["sep"][1]]))

    def encode(self, text: str, limit: int) -> array[int]:
        """Return the IDs of a text with those of its start and end, ``limit`` at most."""
        start, end = self._ends
        return array("H", start + self._encode(text)[: 2 * (limit - 2)] + end)

    def count(self, text: str) -> int:
        """Return the number of tokens in a text, without start and end."""
        return len(self._encode(text)) // 2

    def _encode(self, text: str) -> bytes:
        parts = self._find_marks.split(text)
        for at in range(1, len(parts), 2):
            if self._marks[parts[at]]["lstrip"]:
                parts[at - 1] = parts[at - 1].rstrip(_SPACES)
        return b"".join(
            _pack([self._marks[part]["id"]])
            if at % 2
            else b"".join(map(self.__getitem__, _WORDS.findall(part)))
            for at, part in enumerate(parts)
        )

    def tokenize(self, word: str) -> bytes:
        runs = [word]
        if _ALPHANUMERIC.match(word):
            # Letters and numbers are apart; a space belongs to what follows it.
            body = word.removeprefix(" ")
            runs = ["".join(run) for _, run in groupby(body, _is_number)]
            runs[0] = word[: len(word) - len(body)] + runs[0]
        return b"".join(_pack(self._merge(run.encode("utf-8", "replace"))) for run in runs)

    def _merge(self, run: bytes) -> list[int]:
        """Join neighbours: the pair that was learnt first, and of equal pairs the leftmost."""
        ids = [self._of_byte[byte] for byte in run]
        ids.append(-1)  # The neighbour of the last one and, as number -1, of the first.
        before, after = list(range(-1, len(run))), list(range(1, len(run) + 1))

        def rank_at(at: int) -> int | None:
            return self._ranks.get(ids[at] << _HALF | ids[after[at]])

        known = [(rank, at) for at in range(len(run)) if (rank := rank_at(at)) is not None]
        heapify(known)
        while known:
            rank, at = heappop(known)
            if rank_at(at) != rank:
                continue  # One of the two has been joined to something else.
            following = after[at]
            ids[at], ids[following] = self._joined[rank], -1
            after[at] = after[following]
            before[after[at]] = at
            for changed in (before[at], at):
                found = rank_at(changed)
                if found is not None:
                    heappush(known, (found, changed))
        return [number for number in ids if number >= 0]


def read_byte_pairs(path: Path) -> BytePairs | None:
    """Read a ``tokenizer.json``; return None if it is of another kind."""
    about = json.loads(path.read_text("utf-8"))
    model = {k: v for k, v in about["model"].items() if k not in ("vocab", "merges")}
    marks = [value for mark in about["added_tokens"] for key, value in mark.items()
             if key not in _MARKED]  # fmt: skip
    ends = about["post_processor"] or {}
    known = (
        (model, about["pre_tokenizer"], about["normalizer"]) == (_PLAIN, _BY_BYTES, None)
        and not any(marks)
        and ends.get("type") == "RobertaProcessing"
        and len(about["model"]["vocab"]) < 1 << _HALF
    )
    return BytePairs(about) if known else None


def _spell_bytes() -> list[str]:
    """Return the letter that stands for each byte in the vocabulary: itself if it is printable."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = iter(range(256, 512))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


def _is_number(character: str) -> bool:
    return category(character)[0] == "N" or _IS_NEW_NUMBER.match(character) is not None


def _pack(ids: Sequence[int]) -> bytes:
    return array("H", ids).tobytes()
