"""Segments of the keyword index find and count what a walk over the texts does.

With more terms than two bytes can number, merges of several segments, removed documents, and
documents that are dead in the generation that is asked about.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from lookfar.store.keywords import keyword_index, segment_writer
from lookfar.store.keywords.keyword_index import KeywordIndex
from lookfar.store.keywords.live_keywords import LiveKeywords

_TERMS = 150_000
_DOCUMENTS = 4_500
_LAST = _DOCUMENTS - 10


class Stored(NamedTuple):
    first_key: int
    bodies: list[list[str]]


@pytest.fixture(scope="module")
def written(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[KeywordIndex, Mapping[int, Stored], set[int]]:
    """An index of several merged segments, the documents that count, and those that are dead."""
    chance = random.Random(3)
    rare = [f"w{number}" for number in range(_TERMS)]
    chance.shuffle(rare)
    documents: dict[int, Stored] = {}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(keyword_index, "_MOST_BUFFERED", 60_000)
        patched.setattr(segment_writer, "_AT_ONCE", 20_000)
        index = KeywordIndex(tmp_path_factory.mktemp("words"), create=True)
        index.open_writer(0)
        key = 0
        for document in range(1, _DOCUMENTS + 1):
            bodies = [
                [rare.pop() if rare and place % 3 else f"c{chance.randrange(20)}"
                 for place in range(chance.randrange(20, 45))]
                for _ in range(chance.randrange(1, 3))
            ]  # fmt: skip
            bodies[0] += ["often"] * (300 if document % 100 == 0 else 1)
            entries = [("heading", "", " ".join(body), "code") for body in bodies]
            index.add(key, document, (f"title{document % 7}", "", "", "", ""), entries)
            documents[document] = Stored(key, bodies)
            key += len(bodies)
        index.commit()
        index.close_writer()
        removed = set(chance.sample(sorted(documents), _DOCUMENTS // 3))
        index.open_writer(_DOCUMENTS)
        index.remove_documents(removed)
        index.commit()
        index.close_writer()
    dead = set(chance.sample(sorted(documents.keys() - removed), 200))
    counting = {
        number: stored
        for number, stored in documents.items()
        if number not in removed and number not in dead and number <= _LAST
    }
    return index, counting, dead


@pytest.fixture(scope="module")
def live(written: tuple[KeywordIndex, Mapping[int, Stored], set[int]]) -> LiveKeywords:
    index, _, dead = written
    (segment,) = index.view.segments
    assert 1 << 16 < segment.term_count < _TERMS, "terms of removed documents are gone"
    assert not index.view.removed
    return index.view.live(dead, _LAST)


@pytest.fixture(scope="module")
def counting(
    written: tuple[KeywordIndex, Mapping[int, Stored], set[int]],
) -> Mapping[int, Stored]:
    return written[1]


def test_phrases_are_found_where_they_are(
    live: LiveKeywords, counting: Mapping[int, Stored]
) -> None:
    """Seen to fail when only the lower bytes of term numbers were compared."""
    chance = random.Random(4)
    keys: dict[tuple[str, str], set[int]] = {}
    for first_key, bodies in counting.values():
        for key, body in enumerate(bodies, first_key):
            for pair in pairwise(body):
                keys.setdefault(pair, set()).add(key)
    for pair in [*chance.sample(sorted(keys), 300), ("c1", "c2"), ("c3", "often")]:
        assert live.holding(pair) == sorted(keys.get(pair, ()))
    assert live.holding(("c1", "c2"), most=1) == live.holding(("c1", "c2"))[:1]


def test_what_counts_is_counted_exactly(live: LiveKeywords, counting: Mapping[int, Stored]) -> None:
    texts = [body for stored in counting.values() for body in stored.bodies]
    known = live.statistics(["c3", "often", "title2", "nowhere"])
    assert known.entries == len(texts)
    assert known.frequency["body", "c3"] == sum("c3" in body for body in texts)
    assert known.frequency["page", "often"] == len(counting)
    assert known.frequency["title", "title2"] == sum(number % 7 == 2 for number in counting)
    assert known.frequency["body", "nowhere"] == 0
    pages = [{word for body in stored.bodies for word in body} for stored in counting.values()]
    words = Counter(word for page in pages for word in page) + Counter({"code": len(pages)})
    assert dict(live.vocabulary()) == dict(words)
    common = sorted(words.items(), key=lambda entry: (-entry[1], entry[0]))
    assert live.vocabulary(most=15) == common[:15]


def test_a_word_that_occurs_very_often_is_scored_by_how_often(
    live: LiveKeywords, counting: Mapping[int, Stored]
) -> None:
    """Seen to fail with one byte for it: 300 times and 44 times would be the same."""
    best = live.search(["often"], {"body": 1.0}, 5)
    many = {stored.first_key for number, stored in counting.items() if number % 100 == 0}
    assert {key for key, _ in best} <= many


def test_a_long_pass_leaves_few_segments_of_a_bounded_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen to fail when the small rest of a pass kept its other parts from being merged."""
    monkeypatch.setattr(keyword_index, "_MOST_BUFFERED", 100)
    for most, expected in ((10_000, 1), (1_000, 3)):
        monkeypatch.setattr(keyword_index, "_MOST_MERGED", most)
        index = KeywordIndex(tmp_path / f"words{most}", create=True)
        index.open_writer(0)
        for document in range(1, 205):
            body = " ".join(f"w{document % 9}" for _ in range(12))
            index.add(document, document, ("", "", "", "", ""), [("", "", body, "")])
        index.commit()
        index.close_writer()
        segments = index.view.segments
        assert len(segments) == expected
        assert all(segment.token_count <= most for segment in segments)
        assert index.view.live([], 1 << 40).statistics(["w3"]).frequency["body", "w3"] == 23
