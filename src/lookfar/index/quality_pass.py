"""Embed the passages of a collection with the second model, the newest documents first.

A pass reads a few documents at a time, embeds their passages together and stores the vectors, so
that it can be stopped or killed at any moment and loses at most one batch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from lookfar.ports import (
    LackingDocument,
    Place,
    QualityPassage,
    QualityWriter,
    SecondModel,
    Store,
)
from lookfar.text.chunk.identity import heading_context

Encoded = bytes | None
"""A float16 vector; None for a text that the model does not read."""
Encode = Callable[[Sequence[str]], list[Encoded]]
OnBatch = Callable[[int], None]
"""Called with the number of passages that were just dealt with; may raise to stop the pass."""
Prefer = Callable[[Sequence[LackingDocument]], Sequence[LackingDocument]]
"""Puts documents in the order in which they are embedded."""

_PATH_WORDS = re.compile(r"[\w.]+")
BATCH = 128
"""Passages that are embedded and stored together; texts of like length share a run."""
_DOCUMENTS_AT_ONCE = 32


def compose_passage(place: Place, text: str) -> str:
    """Return the text of a chunk that the second model embeds: its headings or path, then itself.

    It depends on nothing but what the content name of the chunk covers.
    """
    passage = text[place.start : place.end].strip()
    if place.lane == "code":
        return "\n".join((" ".join(_PATH_WORDS.findall(place.uri)), " ".join(place.path), passage))
    if place.lane == "documents":
        return passage
    context = heading_context(place.title, place.path)
    return f"{context}\n{passage}" if context else passage


def encode_texts(model: SecondModel, texts: Sequence[str]) -> list[Encoded]:
    """Return a float16 vector for each text; None for one that the model does not read."""
    encoded: list[Encoded] = [None] * len(texts)
    readable = [at for at, text in enumerate(texts) if model.reads(text)]
    vectors = model.embed([texts[at] for at in readable]).astype("<f2")
    for at, vector in zip(readable, vectors, strict=True):
        encoded[at] = vector.tobytes() if vector.any() else None
    return encoded


def run_quality_pass(
    store: Store,
    model: SecondModel,
    *,
    encode: Encode | None = None,
    on_batch: OnBatch | None = None,
    prefer: Prefer | None = None,
    most: int | None = None,
) -> int:
    """Embed passages that lack a vector, all or about ``most``; return how many were dealt with.

    ``encode`` replaces the model's own function, for example by that of another process.
    """
    done = 0
    with store.quality_writer(model.fingerprint, model.dimensions) as writer:
        for batch in _iterate_batches(writer, prefer):
            texts = [passage.text for passage in batch]
            encoded = encode(texts) if encode is not None else encode_texts(model, texts)
            writer.put(list(zip(batch, encoded, strict=True)))
            done += len(batch)
            if on_batch is not None:
                on_batch(len(batch))
            if most is not None and done >= most:
                break
    return done


def _iterate_batches(
    writer: QualityWriter, prefer: Prefer | None
) -> Iterator[list[QualityPassage]]:
    documents: Sequence[LackingDocument] = writer.list_documents()
    if prefer is not None:
        documents = prefer(documents)
    waiting: list[QualityPassage] = []
    begun: set[int] = set()
    for first in range(0, len(documents), _DOCUMENTS_AT_ONCE):
        some = [document.number for document in documents[first : first + _DOCUMENTS_AT_ONCE]]
        passages = writer.read(some, compose_passage)
        # Documents with equal passages share their vectors.
        waiting += [passage for passage in passages if passage.row not in begun]
        begun.update(passage.row for passage in passages)
        while len(waiting) >= BATCH:
            yield waiting[:BATCH]
            waiting = waiting[BATCH:]
    if waiting:
        yield waiting
