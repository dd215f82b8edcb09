"""Filters narrow the search itself: every answer equals a full ranking that was filtered after.

The oracle knows nothing of keyword indexes: it takes what an unfiltered search with
room for the whole corpus gives, drops what the filters forbid, and cuts.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lookfar.model import Filters, Fingerprint
from lookfar.ports import CollectionSnapshot, Place
from lookfar.store.sqlite.snapshot import EpochSnapshot
from store.shelf import Shelf, pages, words

VOCABULARY = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heron")
FOLDERS = ("docs/", "docs/100%_done/", "docs/100x_done/", 'it\'s "quoted"/', "日本語/設定 é/", "")
EVERYTHING = 10_000


def corpus(chance: random.Random, size: int) -> dict[str, str]:
    texts = {}
    for number in range(size):
        words = [chance.choice(VOCABULARY) for _ in range(chance.randint(1, 40))]
        tags = chance.sample(("red", "green", "blue"), chance.randint(0, 2))
        front = f"---\ntags: [{', '.join(tags)}]\n---\n" if tags else ""
        heading = chance.choice(("Setup", "Usage", "Ärger"))
        ending = chance.choice((".md", ".txt"))
        uri = f"{chance.choice(FOLDERS)}{number}{ending}"
        texts[uri] = f"{front}# {heading} {number}\n\n{' '.join(words)}\n\n## More\n\n{words[0]}\n"
    return texts


def allowed(shelf_tags: dict[str, set[str]], place: Place, filters: Filters) -> bool:
    return (
        place.uri.startswith(filters.prefix)
        and (not filters.uris or place.uri in filters.uris)
        and set(filters.tags) <= shelf_tags[place.uri]
        and (not filters.lanes or place.lane in filters.lanes)
        and filters.heading.casefold() in " > ".join(place.path).casefold()
    )


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    """Two hundred documents with dead versions among them, so that over-fetching is needed."""
    chance = random.Random(4)
    shelf = Shelf(tmp_path_factory.mktemp("filters") / "index")
    texts = corpus(chance, 200)
    shelf.write({uri: text.replace("amber", "amber amber amber") for uri, text in texts.items()})
    shelf.write(dict(list(texts.items())[:150]))
    yield shelf
    shelf.store.close()


def tags_of(snapshot: CollectionSnapshot) -> dict[str, set[str]]:
    found = {}
    for uri in snapshot.uris():
        document = snapshot.document(uri)
        assert document is not None
        found[uri] = set(document["tags"])
    return found


def random_filters(chance: random.Random, uris: list[str]) -> Filters:
    return Filters(
        prefix=chance.choice(("", "", *FOLDERS, "docs/100%", "docs/1__", "日本語/設", "nowhere/")),
        uris=tuple(chance.sample(uris, 7)) if chance.random() < 0.3 else (),
        tags=tuple(chance.sample(("red", "green", "none"), chance.choice((0, 0, 1)))),
        lanes=chance.choice(((), (), ("docs",), ("code",), ("docs", "code"))),
        heading=chance.choice(("", "", "setup", "MORE", "ärger", "no such")),
    )


def same(
    found: Sequence[tuple[object, float]], wanted: Sequence[tuple[object, float]], limit: int
) -> None:
    """Compare scores in order, and members except for ties at the cut."""
    cut = wanted[:limit]
    assert [round(score, 4) for _, score in found] == [round(score, 4) for _, score in cut]
    if cut:
        edge = round(cut[-1][1], 4)
        sure = {name for name, score in cut if round(score, 4) > edge}
        assert sure <= {name for name, _ in found}
        assert {name for name, _ in found} <= {n for n, score in wanted if round(score, 4) >= edge}
    assert len({name for name, _ in found}) == len(found)


@pytest.mark.parametrize("seed", range(60))
def test_filtered_results_equal_the_filtered_full_ranking(library: Shelf, seed: int) -> None:
    """Seen to fail when hits were filtered after the cut, and when ``LIKE`` matched prefixes."""
    chance = random.Random(seed)
    with library.store.snapshot() as snapshot:
        tags = tags_of(snapshot)
        filters = random_filters(chance, list(tags))
        query = " ".join(chance.sample(VOCABULARY, 2))
        limit = chance.choice((1, 5, 20, EVERYTHING))
        wanted = [
            (place.key, score)
            for place, score in words(snapshot, query, EVERYTHING)
            if allowed(tags, place, filters)
        ]
        kept = words(snapshot, query, limit, **_as_dict(filters))
        same([(place.key, score) for place, score in kept], wanted, limit)

        vector = library.embedder.embed([query])[0]
        near = [
            (place.key, score)
            for place, score in snapshot.vector_search(vector, EVERYTHING, Filters())
            if allowed(tags, place, filters)
        ]
        found = snapshot.vector_search(vector, limit, filters)
        same([(place.key, score) for place, score in found], near, limit)

        if not filters.heading:
            uri_of = {snapshot.document(uri)["id"]: uri for uri in tags}  # type: ignore[index]
            place_of = {place.uri: place for place, _ in words(snapshot, query, EVERYTHING)}
            whole = [
                (document, score)
                for document, score in pages(snapshot, query, EVERYTHING)
                if allowed(tags, place_of[uri_of[document]], filters)
            ]
            same(pages(snapshot, query, limit, **_as_dict(filters)), whole, limit)


def _as_dict(filters: Filters) -> dict[str, Any]:
    return {name: getattr(filters, name) for name in ("prefix", "uris", "tags", "lanes", "heading")}


def test_vector_search_is_exact(library: Shelf) -> None:
    """Every live chunk's score equals numpy's, and the order is theirs.

    Seen to fail when the last row was left out of the scan.
    """
    vector = library.embedder.embed(["amber delta fjord"])[0]
    with library.store.snapshot() as snapshot:
        found = snapshot.vector_search(vector, EVERYTHING, Filters())
        live = snapshot.counts().chunks
        assert len(found) == live
        assert isinstance(snapshot, EpochSnapshot)
        stored = np.asarray(snapshot._rows, dtype=np.float64)
        half = vector.astype(np.float16).astype(np.float64)
        for place, score in found:
            assert place.vector is not None
            assert score == pytest.approx(stored[place.vector] @ half, abs=1e-4)
        scores = [score for _, score in found]
        assert scores == sorted(scores, reverse=True)
        places = [place for place, _ in found]
        assert snapshot.vector_scores(vector, places) == pytest.approx(scores, abs=1e-6)


def test_vectors_come_in_the_order_of_their_places(library: Shelf) -> None:
    vector = library.embedder.embed(["amber delta fjord"])[0]
    with library.store.snapshot() as snapshot:
        found = snapshot.vector_search(vector, 20, Filters())
        places = [place for place, _ in found][::-1]
        bare = places[3]._replace(vector=None)
        rows = snapshot.vectors([*places[:3], bare, *places[4:]])
        assert rows.shape == (len(places), len(vector))
        assert not rows[3].any()
        scores = [score for _, score in found][::-1]
        assert (rows @ vector)[4:] == pytest.approx(scores[4:], abs=2e-3)
        assert (rows @ vector)[:3] == pytest.approx(scores[:3], abs=2e-3)
        assert len(snapshot.vectors([])) == 0


@pytest.mark.parametrize(
    ("prefix", "count"),
    [("docs/100%_done/", 3), ("docs/100%", 3), ("docs/1", 5), ("it's \"q", 1), ("日本語/設", 1)],
)
def test_prefixes_are_literal(tmp_path: Path, prefix: str, count: int) -> None:
    shelf = Shelf(tmp_path / "index")
    names = [
        "docs/100%_done/1.md", "docs/100%_done/2.md", "docs/100%_done/3.md",
        "docs/100x_done/1.md", "docs/100xxdone/1.md", "it's \"q\"/1.md", "日本語/設定 é/1.md",
    ]  # fmt: skip
    shelf.write(dict.fromkeys(names, "amber\n"))
    assert len(shelf.found("amber", prefix=prefix)) == count
    with shelf.store.snapshot() as snapshot:
        assert len(snapshot.uris(prefix)) == count
    shelf.store.close()


def test_no_match_gives_an_empty_result(library: Shelf, tmp_path: Path) -> None:
    with library.store.snapshot() as snapshot:
        assert words(snapshot, "zebra") == []
        assert words(snapshot, "amber", prefix="nowhere/") == []
        assert words(snapshot, "amber", heading="no such heading") == []
        assert pages(snapshot, "zebra") == []
        assert snapshot.best_of_each(["amber"], {"body": 1.0}, [], Filters()) == []
        assert snapshot.page_scores(["amber"], {"page": 1.0}, []) == {}
        vector = library.embedder.embed(["amber"])[0]
        assert snapshot.vector_search(vector, 5, Filters(prefix="nowhere/")) == []
        assert snapshot.vector_scores(vector, []) == []


def test_an_index_without_documents_answers(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "index")
    shelf.write({})
    with shelf.store.snapshot() as snapshot:
        assert words(snapshot, "amber") == []
        assert snapshot.vector_search(shelf.embedder.embed(["amber"])[0], 5, Filters()) == []
        assert snapshot.uris() == []
    assert shelf.store.verify() == []
    shelf.store.close()


def test_filters_see_times_that_changed_within_a_generation(tmp_path: Path) -> None:
    """Protects long-lived readers: a file that was touched makes no new generation. Seen to fail
    with what is remembered by the generation alone, and with moves that nobody recorded."""
    shelf, reader = Shelf(tmp_path / "index"), Shelf(tmp_path / "index")
    shelf.write({"a.md": "crimson tea\n", "b.md": "crimson sea\n"})

    def seen() -> tuple[list[str], list[int]]:
        with reader.store.snapshot() as snapshot:
            listed = snapshot.cached("listed", snapshot.facts)
            found = words(snapshot, "crimson", after=1000)
            return [place.uri for place, _ in found], sorted(each.modified_ns for each in listed)

    assert seen() == ([], [1, 1])
    for times, expected in enumerate((2000, 2000, 1), start=1):
        with shelf.session() as session:
            session.touch(1, Fingerprint(12, expected, times, 1), settled=True)
            assert session.commit_touches() == 1
        assert seen() == (["a.md"] if expected > 1 else [], [1, expected])
    reader.store.close()
    shelf.store.close()


def test_settling_a_file_keeps_the_cache(tmp_path: Path) -> None:
    """Protects against dropping the cache twice for each edit. Seen to fail with
    moves that every touch recorded."""
    shelf = Shelf(tmp_path / "index")
    shelf.write({"a.md": "crimson tea\n"})
    made: list[int] = []
    for ctime in (7, 8):
        with shelf.session() as session:
            session.touch(1, Fingerprint(12, 1, ctime, 1), settled=True)
            session.commit_touches()
        with shelf.store.snapshot() as snapshot:
            snapshot.cached("one", lambda at=ctime: made.append(at))  # type: ignore[misc]
    assert made == [7]
    shelf.store.close()
