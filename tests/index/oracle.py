"""Answers by brute force: what a search of a small library must find, from its texts alone.

Takes: a library; for its ranking one with a single generation, so that nothing dead is counted.
Gives: nothing, or an assertion that fails. Refuses: nothing. Of the product
it takes where chunks begin and end, and the words the analyser makes of a text; matching, BM25
and nearness are worked out here.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from itertools import pairwise, permutations
from typing import Any

import numpy as np
import pytest

from lookfar.library import Library
from lookfar.model import Filters
from lookfar.store.keywords.analyser import analyse

_K1, _B = 1.2, 0.75
_ALL = 10_000
_BOTH = {"body": 1.0, "code": 1.0}


def _step(number: int) -> int:
    """A length as stored in one byte: exact when small, then increasingly coarse."""
    bits, shift = number & 7, (number >> 3) - 1
    return bits if shift < 0 else (bits | 8) << shift


_LENGTHS = [*range(24), *(24 + _step(number) for number in range(232))]


def check_answers(library: Library, words: tuple[str, ...], *, ranking: bool) -> None:
    """Check words, pairs of words, ranking and nearness against the texts."""
    embedder = library.folder().embedder
    with library.folder().store.snapshot() as snapshot:
        places = [place for uri in snapshot.uris() for place in snapshot.chunks(uri)]
        texts = {uri: text for uri in snapshot.uris() if (text := snapshot.text(uri)) is not None}
        parts = {place.key: texts[place.uri][place.start : place.end] for place in places}
        terms = {key: analyse(text).split() for key, text in parts.items()}
        for word in words:
            found = snapshot.keyword_search([word], _BOTH, _ALL, Filters())
            assert {at.key for at, _ in found} == {key for key in terms if word in terms[key]}
        for one, other in permutations(words, 2):
            held = set(snapshot.holding(f"{one} {other}", Filters()))
            beside = {key for key in terms if (one, other) in pairwise(terms[key])}
            # Beside each other may also be what stands on both sides of a block of code.
            prose = {key for key, text in parts.items() if "```" not in text}
            assert held & prose == beside & prose
        if ranking:
            _check_ranking(snapshot, places, terms, words)
        _check_nearness(snapshot, embedder, places, words)


def _check_ranking(snapshot: Any, places: Any, terms: Any, words: tuple[str, ...]) -> None:
    """Compute BM25 over whole documents, each of which is in the entry of its first chunk."""
    pages: dict[int, list[str]] = {}
    for place in places:
        pages.setdefault(place.document, []).extend(terms[place.key])
    entries = len(places)
    average = sum(map(len, pages.values())) / entries if entries else 0.0
    for word in words:
        having = {document: page.count(word) for document, page in pages.items() if word in page}
        rare = math.log(1 + (entries - len(having) + 0.5) / (len(having) + 0.5))
        expected = {}
        for document, count in having.items():
            length = _LENGTHS[bisect_right(_LENGTHS, len(pages[document])) - 1]
            norm = _K1 * (1 - _B + _B * length / average)
            expected[document] = rare * count * (_K1 + 1) / (count + norm)
        found = dict(snapshot.page_search([word], {"page": 1.0}, _ALL, Filters()))
        assert found == pytest.approx(expected, rel=1e-4)


def _check_nearness(snapshot: Any, embedder: Any, places: Any, words: tuple[str, ...]) -> None:
    if not places:
        return
    rows = np.asarray(snapshot.vectors(places), dtype=np.float64)
    query = embedder.embed([" ".join(words[:2])])[0]
    exact = rows @ query.astype(np.float16).astype(np.float64)
    found = {at.key: score for at, score in snapshot.vector_search(query, _ALL, Filters())}
    for place, score in zip(places, exact, strict=True):
        if place.key in found:
            assert found[place.key] == pytest.approx(score, abs=1e-3)
        else:
            assert not rows[places.index(place)].any(), "only what has no words is left out"
    best = [score for _, score in snapshot.vector_search(query, 3, Filters())]
    assert best == pytest.approx(sorted(found.values(), reverse=True)[:3], abs=1e-6)
