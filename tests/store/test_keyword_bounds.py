"""Queries among few entries cost little in a large index, and find what an unbounded one finds."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from lookfar.model import Filters
from lookfar.store.keywords import live_keywords
from lookfar.store.keywords.analyser import analyse
from store.shelf import Shelf

WORDS = ("amber", "bison", "cedar", "delta", "ember", "fjord", "grove")
WEIGHTS = {"headings": 0.25, "body": 1.0}


def make_texts() -> dict[str, list[str]]:
    chance = random.Random(5)
    return {
        f"{number}.md": chance.choices(WORDS, weights=(30, 20, 12, 10, 8, 6, 6), k=20)
        for number in range(120)
    }


def test_pairs_are_found_however_common_their_words_are(
    shelf: Shelf,
) -> None:
    """Protects against pairs of another passage, or across two fields of one."""
    texts = make_texts()
    shelf.write({uri: f"# Note\n\n{' '.join(words)}\n" for uri, words in texts.items()})
    pairs = [(left, right, 1) for left, right in (WORDS[:2], WORDS[1:3], WORDS[3:5], WORDS[5:7])]
    analysed = [(analyse(left), analyse(right), step) for left, right, step in pairs]
    with shelf.store.snapshot() as snapshot:
        places = {uri: snapshot.chunks(uri)[0] for uri in list(texts)[::3]}
        reported = snapshot.adjoining(analysed, list(places.values()))
        scored = snapshot.best_of_each(
            [analyse(WORDS[2]), analyse(WORDS[5])],
            WEIGHTS,
            [place.document for place in places.values()],
            Filters(),
        )
    expected = {
        place.key: sum(
            1 << at for at, pair in enumerate(pairs) if pair[:2] in set(pairwise(texts[uri]))
        )
        for uri, place in places.items()
    }
    assert reported == {key: bits for key, bits in expected.items() if bits}
    assert len(set(reported.values())) > 4, "the texts differ in what they contain"
    having = {place.uri for place, score in scored if score > 0}
    assert having == {uri for uri in places if {WORDS[2], WORDS[5]} & set(texts[uri])}


def test_phrases_are_reported_in_their_order(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    """Protects against the chunks of another phrase, and against few that stand for many."""
    texts = make_texts()
    shelf.write({uri: f"# Note\n\n{' '.join(words)}\n" for uri, words in texts.items()})
    phrases = [" ".join(WORDS[at : at + 2]) for at in range(6)] + ["", "nowhere else"]
    counts = [
        sum(phrase.split() in map(list, pairwise(words)) for words in texts.values())
        for phrase in phrases
    ]
    most = sorted(counts)[4]
    reported = []
    for at_once in (10_000, 7):
        monkeypatch.setattr(live_keywords, "_AT_ONCE", at_once)
        with shelf.store.snapshot() as snapshot:
            reported.append(snapshot.few_holding(phrases, most, Filters()))
    assert reported[0] == reported[1]
    assert [None if places is None else len(places) for places in reported[1]] == [
        count if count <= most else None for count in counts
    ]
    assert None in reported[1]
