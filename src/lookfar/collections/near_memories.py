"""Find memories that a new one may contradict: those with a sentence close to one of its own.

Whether two sentences contradict each other is for the reader to decide; close in meaning is all
that a model of embeddings can tell.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from lookfar.edit.memory_file import Memory, NearMemory
from lookfar.model import Filters
from lookfar.ports import Embedder, Snapshot

CLOSE: Final = 0.45
"""The least cosine of two sentences, for the bundled model: of twenty pairs of contradicting
statements on one subject 90% are closer, and of 760 pairs on different subjects none."""
_CANDIDATES: Final = 10
_MOST_SENTENCES: Final = 40
_MOST_NAMED: Final = 3
_SENTENCE: Final = re.compile(r"(?<=[.!?。！？])\s+|\n+")
_LEAST_LETTERS: Final = 8


def find_near_memories(
    memory: Memory, snapshot: Snapshot, embedder: Embedder, skipped: Collection[str]
) -> tuple[NearMemory, ...]:
    """Return the nearest memories, nearest first; without those in ``skipped``."""
    own = _split(memory.text)
    if not own:
        return ()
    vectors = embedder.embed(own)
    candidates: dict[str, str] = {}
    hits = snapshot.vector_search(
        embedder.embed([memory.text])[0], _CANDIDATES + len(skipped), Filters()
    )
    for place, _ in hits:
        text = snapshot.text(place.uri) if place.uri not in skipped else None
        if text is not None and len(candidates) < _CANDIDATES:
            candidates.setdefault(place.uri, text[place.start : place.end])
    near = []
    for uri, text in candidates.items():
        sentences = _split(text)
        if not sentences:
            continue
        similarities = (embedder.embed(sentences) @ vectors.T).max(axis=1)
        best = int(similarities.argmax())
        if similarities[best] >= CLOSE:
            title = str((snapshot.document(uri) or {}).get("title") or uri)
            similarity = round(float(similarities[best]), 3)
            near.append(NearMemory(uri, title, sentences[best], similarity))
    near.sort(key=lambda item: (-item.similarity, item.name))
    return tuple(near[:_MOST_NAMED])


def _split(text: str) -> list[str]:
    parts = (part.strip(" #*->") for part in _SENTENCE.split(text))
    sentences = [part for part in parts if sum(map(str.isalpha, part)) >= _LEAST_LETTERS]
    return sentences[:_MOST_SENTENCES]
