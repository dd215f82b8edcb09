"""The second model: a small transformer whose vectors improve on those of the bundled table.

Its folder has ``model.onnx``, ``tokenizer.json`` and ``model.json``; usually it is the bundled one,
``embed/bundled/quality``. It reads English and code; other texts keep the vectors of the first
model.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from heapq import heapify, heappop, heappush
from itertools import groupby
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, get_args
from unicodedata import category
from weakref import WeakValueDictionary

import numpy as np

from lookfar.common.cores import map_on_two_cores
from lookfar.config import EmbedSettings
from lookfar.embed import hub
from lookfar.embed.card import Card, Pooling
from lookfar.embed.local import TokenCache
from lookfar.embed.onnx import Encoded, OnnxEmbedder, pool
from lookfar.embed.providers import MODEL
from lookfar.errors import ModelUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray
    from tokenizers import Tokenizer


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
_PRETOKENS = re.compile(
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
TOKENIZER, CARD = "tokenizer.json", "model.json"
_VERSION: Final = "quality 1"
"""Increase whenever the same files would give other vectors."""
_REINSTALL: Final = (
    "Install Lookfar again: pip install --force-reinstall lookfar, or set quality.enabled to off."
)
_MOST_TOKENS: Final = 8192
_WORDS = re.compile(r"[^\W\d_]+")
_FOREIGN = re.compile("[^\\W\\d_\u0000-\u024f\u1e00-\u1eff]")
"""Letters outside the Latin alphabet."""
_MOST_FOREIGN: Final = 0.2
_SAMPLED: Final = 2000
_LEAST_PER_TOKEN: Final = 1.5
"""Letters per token below which the model spells the words instead of knowing them."""
# A model is released when the last collection that uses it rests.
_opened: WeakValueDictionary[Path, QualityModel] = WeakValueDictionary()
_lock = Lock()


class BytePairs:
    """Splits words into pieces, and remembers those of short words. Thread-safe."""

    def __init__(self, about: Mapping[str, Any]) -> None:
        # Not a method of its own: what refers to itself is released late.
        self._words = TokenCache(_Splitter(about["model"]["vocab"], about["model"]["merges"]))
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
            else b"".join(map(self._words.__getitem__, _PRETOKENS.findall(part)))
            for at, part in enumerate(parts)
        )


class _Splitter:
    """Splits one word into pieces."""

    def __init__(self, ids: Mapping[str, int], merges: Sequence[tuple[str, str]]) -> None:
        self._of_byte = [ids[letter] for letter in _spell_bytes()]
        self._ranks = {ids[a] << _HALF | ids[b]: rank for rank, (a, b) in enumerate(merges)}
        self._joined = [ids[a + b] for a, b in merges]

    def __call__(self, word: str) -> bytes:
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


class QualityModel(OnnxEmbedder):
    """The second model. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        # Each batch is computed by one thread: several threads for one batch cost more in all.
        self._settings = EmbedSettings(device="cpu", threads=1)
        self._folder = folder
        self._model = str(folder)
        missing = [name for name in (CARD, MODEL, TOKENIZER) if not (folder / name).is_file()]
        if missing:
            raise ModelUnavailable(
                f"The second model is incomplete: {folder} has no {' and no '.join(missing)}.",
                hint=_REINSTALL,
                details={"path": str(folder)},
            )
        self._about = _read_about(folder / CARD)
        self._file = folder / MODEL
        self._files = [self._file]
        self._card = _make_card(self._about, folder)
        self._loading = Lock()

    @property
    def name(self) -> str:
        return str(self._about.get("name") or self._folder.name)

    @cached_property
    def fingerprint(self) -> str:
        stated = self._about.get("fingerprint")
        if not stated:
            stated = hash_files(self._folder)
        how = f"{_VERSION}; {stated}; {self._card}"
        return f"{self.name}:{self.dimensions}:{sha256(how.encode()).hexdigest()[:16]}"

    @property
    def _is_int8(self) -> bool:
        return True

    @property
    def _must_quantise(self) -> bool:
        return False

    @property
    def folder(self) -> Path:
        return self._folder

    def load(self) -> None:
        """Load weights and tokenizer now."""
        self.embed_query("loaded")

    def reads(self, text: str) -> bool:
        """Return whether the text is in a script and in words that the model knows."""
        if text.isascii():
            return _WORDS.search(text) is not None
        words = _WORDS.findall(text[:_SAMPLED])
        letters = sum(map(len, words))
        # Only words are counted: the many marks and numbers of code and tables are tokens, too.
        known = " ".join(words)
        if not letters or len(_FOREIGN.findall(known)) > _MOST_FOREIGN * letters:
            return False
        return letters >= _LEAST_PER_TOKEN * self.count_tokens(known)

    def count_tokens(self, text: str) -> int:
        return super().count_tokens(text) if self._pairs is None else self._pairs.count(text)

    # -- loaded on first use, when the folder may have been replaced ---------

    @property
    def is_current(self) -> bool:
        """Whether the folder still describes the model that was opened."""
        try:
            return _read_about(self._folder / CARD) == self._about
        except ModelUnavailable:
            return False

    def _require_current(self) -> None:
        """Refuse files of another version: their vectors must not get this one's fingerprint."""
        if not self.is_current:
            raise ModelUnavailable(
                "The second model was replaced after this process had opened it.",
                hint="The new one is opened in a minute. Until then the first model answers alone.",
                details={"path": str(self._folder)},
            )

    def _load_session(self) -> tuple[Any, list[str], str]:
        session = super()._load_session()
        self._require_current()
        return session

    @cached_property
    def _pairs(self) -> BytePairs | None:
        try:
            pairs = read_byte_pairs(self._folder / TOKENIZER)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise self._unusable(f"its tokenizer cannot be read ({error})") from error
        self._require_current()
        return pairs

    def _encode(self, texts: Sequence[str]) -> Encoded:
        if self._pairs is None:
            return super()._encode(texts)
        return [self._pairs.encode(text, self.max_tokens) for text in texts]

    def _run_all(self, run: Callable[[list[int]], None], some: Iterator[list[int]]) -> None:
        first, *others = some
        map_on_two_cores(run, (first, *others)) if others else run(first)

    def _read_tokenizer(self) -> Tokenizer:
        tokenizer = super()._read_tokenizer()
        self._require_current()
        return tokenizer

    def _run(self, encoded: Encoded) -> NDArray[np.float32]:
        states, mask = self._infer(encoded)
        vectors = pool(states.astype(np.float32, copy=False), mask, self._card.pooling)
        if vectors.shape[1] < self.dimensions or not np.isfinite(vectors).all():
            raise self._unusable(f"it returns vectors of {vectors.shape[1]} dimensions, or NaN")
        return vectors[:, : self.dimensions]

    def _unusable(self, reason: str) -> ModelUnavailable:
        return ModelUnavailable(
            f"The second model {self.name} cannot be used: {reason}.",
            hint=_REINSTALL,
            details={"path": str(self._file)},
        )


def open_quality_model(folder: Path) -> QualityModel:
    """Return the second model of a folder, the same for all collections.

    After an upgrade, the new model is returned.
    """
    with _lock:
        model = _opened.get(folder)
        if model is None or not model.is_current:
            model = _opened[folder] = QualityModel(folder)
        return model


def hash_files(folder: Path) -> str:
    """Return the hash of weights and tokenizer that ``model.json`` states as ``fingerprint``."""
    digest = sha256()
    for name in (MODEL, TOKENIZER):
        digest.update(hub.hash_file(folder / name, sha256()).encode())
    return digest.hexdigest()[:32]


def _read_about(path: Path) -> dict[str, Any]:
    try:
        about = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise _invalid(path, f"it cannot be read ({error})") from error
    if not isinstance(about, dict):
        raise _invalid(path, "it must contain an object")
    return about


def _make_card(about: dict[str, Any], folder: Path) -> Card:
    path = folder / CARD
    dimensions, pooling = about.get("dimensions"), about.get("pooling", "mean")
    tokens, pad = about.get("max_tokens", 256), about.get("pad", 0)
    if type(dimensions) is not int or not 1 <= dimensions <= 4096:
        raise _invalid(path, "dimensions must be a number from 1 to 4096")
    if pooling not in get_args(Pooling):
        raise _invalid(path, f"pooling must be one of {', '.join(get_args(Pooling))}")
    if type(tokens) is not int or not 8 <= tokens <= _MOST_TOKENS:
        raise _invalid(path, f"max_tokens must be a number from 8 to {_MOST_TOKENS}")
    if type(pad) is not int or pad < 0:
        raise _invalid(path, "pad must be the number of a token")
    return Card(
        pooling=pooling,
        dimensions=dimensions,
        max_tokens=tokens,
        limit=tokens,
        pad=pad,
        query_prefix=str(about.get("query_prefix") or ""),
        passage_prefix=str(about.get("passage_prefix") or ""),
        needs="",
    )


def _invalid(path: Path, why: str) -> ModelUnavailable:
    return ModelUnavailable(
        f"{path} does not describe a model: {why}.",
        hint=_REINSTALL,
        details={"path": str(path)},
    )
