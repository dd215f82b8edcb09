"""What every store promises: the embedded one and a real PostgreSQL server, by one suite."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, tzinfo
from itertools import pairwise
from threading import Event, Thread, current_thread
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

from lookfar.errors import (
    IndexBusy,
    IndexHeld,
    InvalidArgument,
    ModelUnavailable,
    NotIndexed,
)
from lookfar.index.extraction import Content
from lookfar.index.prepare import Prepared, Stages, embed, prepare
from lookfar.index.words import Words
from lookfar.model import Filters, Fingerprint
from lookfar.ports import EVERYTHING, AllOf, CollectionSnapshot, LeftOut, QualityQuery
from lookfar.retrieve.locate.places import stored_places
from lookfar.store.catalogue.scope import resolve
from lookfar.store.keywords.analyser import terms_of
from lookfar.store.sqlite.store import CollectionStore
from store.contract.pgserver import Open
from store.shelf import PAGE_WEIGHTS, SIZES, WEIGHTS, Shelf, pages, words
from waiting import DEADLINE

if TYPE_CHECKING:
    from sqlite3 import Connection

GUIDE = """---
tags: [howto, fast]
aliases: [Handbook]
---
# Guide

Start the crimson engine before the tea is cold.

## Setup

Run the setup script; the WebAssembly module is loaded first.

```python
def start_engine(): return crimson
```

## Teardown

Stop the engine. See [notes](notes.md) and [[Other]].
"""
NOTES = "# Notes\n\nThe engine is crimson. Tea and engine oil are different things.\n"
OTHER = "# Other\n\nNothing about machines, only [the guide](guide.md) and amber fjords.\n"
TEXTS = {"guide.md": GUIDE, "notes.md": NOTES, "sub/other.md": OTHER}


@pytest.fixture
def filled(shelf: Shelf) -> Shelf:
    shelf.write(TEXTS)
    return shelf


@pytest.fixture
def asked(filled: Shelf) -> Iterator[CollectionSnapshot]:
    with filled.store.snapshot() as snapshot:
        yield snapshot


# -- writing and reading -----------------------------------------------------------


def test_reading_before_indexing_raises_not_indexed(shelf: Shelf) -> None:
    assert not shelf.store.exists
    assert shelf.store.about() == {}
    assert shelf.store.damage() == ""
    for ask in (shelf.everything, shelf.store.generations, shelf.store.fingerprint):
        with pytest.raises(NotIndexed) as raised:
            ask()
        assert "lookfar index" in raised.value.hint
    with pytest.raises(NotIndexed):
        shelf.store.roll_back(1)
    assert not shelf.store.exists, "nothing is made by asking"


def test_documents_read_back_as_written(filled: Shelf, asked: CollectionSnapshot) -> None:
    assert filled.everything() == TEXTS
    assert filled.store.fingerprint() == "one"
    assert filled.store.about() == {"root": "/nowhere"}
    assert filled.store.disk_bytes() > 100
    assert asked.generation == 1
    assert asked.size() == 3
    known = asked.document("guide.md")
    assert known is not None
    assert (known["title"], known["tags"]) == ("Guide", ["fast", "howto"])
    assert known["aliases"] == ["Handbook"]
    assert [each.title for each in asked.sections("guide.md") if each.level] == [
        "Guide",
        "Setup",
        "Teardown",
    ]
    assert [page.uri for page in asked.pages()] == sorted(TEXTS)
    assert asked.uris("sub/") == ["sub/other.md"]
    assert asked.titles() == [
        ("guide.md", "Guide"),
        ("notes.md", "Notes"),
        ("sub/other.md", "Other"),
    ]
    assert asked.document("nothing.md") is None
    assert asked.text("nothing.md") is None
    counts = asked.counts()
    assert (counts.documents, counts.links) == (3, 3)
    assert counts.chunks == sum(len(asked.chunks(uri)) for uri in TEXTS)
    manifest = asked.manifest()
    assert (manifest["documents"], manifest["chunks"]) == (3, counts.chunks)
    assert len({place.key for uri in TEXTS for place in asked.chunks(uri)}) == counts.chunks
    assert {each.uri: each.tags for each in asked.facts()}["guide.md"] == ("fast", "howto")


def test_odd_names_and_texts_survive(shelf: Shelf) -> None:
    """Everything that SQL treats specially: placeholders, quotes, percent signs, patterns."""
    texts = {
        "100%_? :g 'x' \"y\".md": "# It's 100 % :name ? $1 \\ %s\n\nplain words\n",
        "日本語/ファイル.md": "# 見出し\n\n本文です。検索できます。\n",
        "Ünïcode.md": "# É\n\nnaïve café 😀\n",
        "empty.md": "",
    }
    shelf.write(texts)
    assert shelf.everything() == texts
    with shelf.store.snapshot() as snapshot:
        assert snapshot.uris("100%_? :g 'x'") == ["100%_? :g 'x' \"y\".md"]
        found = snapshot.document("100%_? :g 'x' \"y\".md")
        assert found is not None
        assert found["title"] == "It's 100 % :name ? $1 \\ %s"
        assert [each.uri for each in snapshot.ending_in("ファイル", Filters())] == [
            "日本語/ファイル.md"
        ]
    assert shelf.found("café") == ["Ünïcode.md"]
    assert shelf.found("検索") == ["日本語/ファイル.md"]
    assert shelf.store.verify() == []


def test_metadata_may_contain_nul(shelf: Shelf) -> None:
    """Seen to fail when the server extracted the programs from the metadata."""
    with shelf.session() as session:
        version = shelf.version("guide.md", GUIDE, session)
        told = json.loads(version.metadata)
        version.metadata = json.dumps({**told, "odd": "a\0b"}, sort_keys=True)
        session.put(version)
        session.activate({})
    assert shelf.found("crimson", languages=("python",)) == ["guide.md"]
    assert shelf.found("crimson", languages=("rust",)) == []
    with shelf.store.snapshot() as snapshot:
        known = snapshot.document("guide.md")
        assert known is not None
        assert known["odd"] == "a\0b"


def test_a_language_filter_does_not_list_all_documents(shelf: Shelf) -> None:
    """Seen to fail with the documents listed in the statement."""
    program = "```python\nstart_engine()\n```\n"
    shelf.write({f"{n}.md": f"# N{n}\n\n{program}" for n in range(400)})
    asked: list[str] = []

    class Noted:
        def __init__(self, connection: Any) -> None:
            self._connection = connection

        def execute(self, sql: str, *values: Any) -> Any:
            asked.append(sql)
            return self._connection.execute(sql, *values)

    with shelf.store.snapshot() as snapshot:
        noted = cast("Connection", Noted(snapshot._connection))  # type: ignore[attr-defined]
        found = resolve(noted, snapshot.generation, Filters(languages=("python",), prefix="1"))
    assert len(found.documents) == len(found.blocks) == 111
    assert asked
    assert max(map(len, asked)) < 500


def test_long_titles_are_found_by_their_beginning(shelf: Shelf) -> None:
    """Titles and tags that no key of a server's index can hold.

    Seen to fail with names as long as titles, and with all tags: the server takes no such row; and
    with the links' names, or what they mean, not cut alike: they led nowhere.
    """
    chance = random.Random(7)
    title = "".join(chance.choices("abcdefghijklmnopqrstuvwxyzäöüßéèñç日本語見出索引", k=6000))
    alias = "".join(chance.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=5000))
    texts = {
        "long.md": f"---\naliases: [{alias}]\ntags: [short, {alias[1:]}]\n---\n"
        f"# {title}\n\ncrimson #{alias}\n",
        "by-title.md": f"# A\n\n[[{title}]]\n",
        "by-alias.md": f"# B\n\n[[{alias.upper()}]]\n",
        "elsewhere.md": f"# C\n\n[[{title[1:]}]]\n",
    }
    shelf.write(texts)
    with shelf.store.snapshot() as snapshot:
        assert {edge.source for edge in snapshot.links_to("long.md")} == {
            "by-title.md",
            "by-alias.md",
        }
        known = snapshot.document("long.md")
        assert known is not None
        assert known["title"] == title, "nothing but what is compared is cut"
        assert known["tags"] == ["short"]
    assert shelf.store.verify() == []


def test_an_abandoned_session_leaves_nothing(filled: Shelf) -> None:
    def stopped(rebuild: bool) -> None:
        with filled.session(rebuild=rebuild) as session:
            filled.fill(session, {"notes.md": "# New\n", "guide.md": None})
            raise RuntimeError("in the middle")

    for rebuild in (False, True):
        with pytest.raises(RuntimeError):
            stopped(rebuild)
        assert filled.everything() == TEXTS
    assert filled.found("crimson engine")[0] in TEXTS
    assert filled.store.verify() == []
    assert filled.write({"notes.md": "# New\n"}) == 2


def test_a_session_is_invisible_until_it_is_activated(filled: Shelf, opened: Open) -> None:
    reader = Shelf(opened())
    with filled.session() as session:
        filled.fill(session, {"notes.md": "# New\n\nsilver\n", "guide.md": None})
        assert reader.everything() == TEXTS
        assert reader.found("silver") == []
        session.activate({})
        assert session.activated
    assert reader.found("silver") == ["notes.md"]
    assert "guide.md" not in reader.everything()


def test_file_fingerprints_are_stored(filled: Shelf) -> None:
    left = LeftOut("big.bin", True, "TOO_LARGE", "too large", Fingerprint(9, 8, 7, 6), True)
    with filled.session() as session:
        known = session.known()
        assert set(known) == set(TEXTS)
        assert known["guide.md"].fingerprint == Fingerprint(len(GUIDE.encode()), 1, 1, 1)
        assert set(session.known(["notes.md", "no.md"])) == {"notes.md"}
        session.touch(known["guide.md"].document, Fingerprint(1, 2, 3, 4), settled=False)
        session.leave_out([left, left])
        assert session.commit_touches() == 1
    with filled.store.snapshot() as snapshot:
        assert snapshot.known()["guide.md"].fingerprint == Fingerprint(1, 2, 3, 4)
        assert not snapshot.known()["guide.md"].settled
        assert snapshot.left_out() == {"big.bin": left}
        assert snapshot.left_out(["big.bin", "no.md"]) == {"big.bin": left}
        assert snapshot.left_out(["no.md"]) == snapshot.left_out([]) == {}
        assert [each.code for each in snapshot.failures()] == ["TOO_LARGE"]
        assert snapshot.generation == 1


def test_an_extracted_text_has_its_places_and_its_extractor(shelf: Shelf) -> None:
    refused = LeftOut("b.pdf", False, "damaged", "cut", Fingerprint(9, 8, 7, 6), True, "pdf 1")
    content = Content(
        "# Page\n\nsilver\n", b"\1" * 32, extractor="pdf 1", places=((0, "page=1"), (9, "page=2"))
    )
    with shelf.session() as session:
        prepared = prepare(
            "a.pdf", content, Fingerprint(1, 1, 1, 1), settled=True,
            stages=Stages(SIZES, Words(shelf.embedder)),
        )  # fmt: skip
        assert isinstance(prepared, Prepared)
        embed([prepared], shelf.embedder, session.missing)
        session.put(prepared.version)
        session.put(shelf.version("a.md", "# Plain\n", session))
        session.leave_out([refused])
        session.activate({})
    with shelf.store.snapshot() as snapshot:
        known = snapshot.known()
        assert (known["a.pdf"].extractor, known["a.md"].extractor) == ("pdf 1", "")
        assert known["a.pdf"].raw_sha == b"\1" * 32
        assert stored_places(snapshot, "a.pdf") == ((0, "page=1"), (9, "page=2"))
        assert stored_places(snapshot, "a.md") == ()
        assert snapshot.left_out() == {"b.pdf": refused}
        copied = snapshot.version("a.pdf")
        assert copied is not None
        assert json.loads(copied.metadata) == json.loads(prepared.version.metadata)


def test_equal_texts_share_one_vector(shelf: Shelf) -> None:
    shelf.write({"a.md": "# T\n\nthe same words\n", "b.md": "# T\n\nthe same words\n"})
    with shelf.store.snapshot() as snapshot:
        one, other = snapshot.chunks("a.md")[0], snapshot.chunks("b.md")[0]
        assert one.vector == other.vector
    with shelf.session() as session:
        version = shelf.version("c.md", "# T\n\nthe same words\n", session)
        assert version.embedded == {}, "it is there already"
        session.put(version)
        assert session.embedded == 0
        session.activate({})


def test_a_model_with_other_vectors_is_refused(filled: Shelf) -> None:
    def put() -> None:
        with filled.session() as session:
            version = filled.version("new.md", "# New\n\nwords\n", session)
            version.embedded = {name: vector[:-2] for name, vector in version.embedded.items()}
            session.put(version)

    with pytest.raises(ModelUnavailable):
        put()
    assert filled.everything() == TEXTS


# -- generations ---------------------------------------------------------------------


def test_generations_are_kept_and_purged(shelf: Shelf) -> None:
    said = dict(enumerate(("amber", "birch", "crimson", "delta", "ember"), 1))
    for number, word in said.items():
        assert shelf.write({"a.md": f"# A\n\n{word} text\n"}) == number
    assert [each.number for each in shelf.store.generations()] == [3, 4, 5]
    for number in (3, 4, 5):
        with shelf.store.snapshot(number) as snapshot:
            assert snapshot.text("a.md") == f"# A\n\n{said[number]} text\n"
            assert [place.uri for place, _ in words(snapshot, said[number])] == ["a.md"]
            assert words(snapshot, "amber") == []
    with pytest.raises(InvalidArgument) as raised, shelf.store.snapshot(1):
        pass
    assert raised.value.details["kept"] == [3, 4, 5]
    shelf.write({"b.md": "# B\n"})
    with shelf.store.snapshot() as snapshot:
        assert not snapshot.knows("amber"), "purged words leave the index with the next commit"
        assert snapshot.knows("ember")
    assert shelf.store.verify() == []


def test_a_rollback_shows_the_older_state_until_the_next_write(shelf: Shelf, opened: Open) -> None:
    shelf.write({"a.md": "# A\n\nfirst\n"})
    shelf.write({"a.md": "# A\n\nsecond\n", "b.md": "# B\n"})
    other = Shelf(opened())
    shelf.store.roll_back(1)
    assert other.everything() == {"a.md": "# A\n\nfirst\n"}
    assert other.found("second") == []
    assert other.store.held() == 1
    assert other.store.history()[0] == 1
    with (
        pytest.raises(IndexHeld),
        other.store.writer("one", other.embedder.dimensions, about={}, retain=3, let_go=False),
    ):
        pass
    shelf.store.roll_back(2)
    assert other.store.held() is None
    assert other.found("second") == ["a.md"]
    shelf.store.roll_back(1)
    assert shelf.write({"c.md": "# C\n"}) == 3, "numbers are never given out twice"
    assert set(other.everything()) == {"a.md", "c.md"}
    assert other.found("second") == []
    assert shelf.store.verify() == []


def test_pins_and_pruning(shelf: Shelf) -> None:
    for number in range(1, 4):
        shelf.write({"a.md": f"# A\n\nword{number}\n"})
    shelf.store.pin(1)
    shelf.write({"a.md": "# A\n\nword4\n"})
    assert [each.number for each in shelf.store.generations()] == [1, 2, 3, 4]
    assert shelf.store.prune(1) == (2, 2)
    assert [(each.number, each.pinned) for each in shelf.store.generations()] == [
        (1, True),
        (4, False),
    ]
    shelf.store.pin(1, pinned=False)
    assert shelf.store.prune(1) == (1, 1)
    assert shelf.store.verify() == []
    with pytest.raises(InvalidArgument):
        shelf.store.prune(0)
    with pytest.raises(InvalidArgument):
        shelf.store.pin(77)


def test_a_write_does_not_drop_a_pinned_generation(shelf: Shelf) -> None:
    shelf.write({"a.md": "# A\n"})
    shelf.write({"a.md": "# B\n"})
    shelf.store.pin(2)
    shelf.store.roll_back(1)
    with pytest.raises(IndexHeld):
        shelf.write({"c.md": "# C\n"})
    assert shelf.store.held() == 1


def test_a_rebuild_does_not_drop_a_pinned_generation(shelf: Shelf) -> None:
    """Seen to fail before: a new index replaced it with all generations."""
    shelf.write({"a.md": "# A\n"})
    shelf.write({"a.md": "# B\n"})
    shelf.store.pin(1)
    with pytest.raises(IndexHeld) as refused:
        shelf.write({"a.md": "# B\n"}, rebuild=True)
    assert refused.value.details == {"pinned": [1]}
    assert [each.number for each in shelf.store.generations()] == [1, 2]
    shelf.store.pin(1, pinned=False)
    assert shelf.write({"a.md": "# B\n"}, rebuild=True) == 3


def test_a_diff_lists_documents_and_sections(shelf: Shelf) -> None:
    shelf.write({"a.md": "# A\n\n## One\n\nx\n\n## Two\n\ny\n", "gone.md": "# G\n"})
    shelf.write({"a.md": "# A\n\n## One\n\nchanged\n\n## Three\n\ny\n", "gone.md": None,
                 "new.md": "# N\n"})  # fmt: skip
    found = shelf.store.diff(1, 2)
    assert (found.added, found.removed) == (("new.md",), ("gone.md",))
    (change,) = found.changed
    assert change.uri == "a.md"
    assert ("A", "One") in change.changed
    assert change.added == (("A", "Three"),)
    assert change.removed == (("A", "Two"),)


def test_another_fingerprint_is_built_apart_and_takes_over(filled: Shelf, opened: Open) -> None:
    changed = Shelf(opened(), fingerprint="two")
    with changed.session() as session:
        assert session.fresh
        assert session.known() == {}
        changed.fill(session, {"a.md": "# New\n\nsilver\n"})
        assert filled.everything() == TEXTS
        session.activate({})
    assert filled.everything() == {"a.md": "# New\n\nsilver\n"}
    assert filled.store.fingerprint() == "two"
    assert [each.number for each in filled.store.generations()] == [2], "numbers only grow"
    assert filled.found("crimson") == []


def test_a_build_continues_from_its_checkpoint(filled: Shelf, opened: Open) -> None:
    changed = Shelf(opened(), fingerprint="two")

    def stopped() -> None:
        with changed.session() as session:
            changed.fill(session, {"guide.md": GUIDE})
            session.checkpoint()
            changed.fill(session, {"lost.md": "# Lost\n"})
            raise RuntimeError("stopped")

    with pytest.raises(RuntimeError):
        stopped()
    assert filled.everything() == TEXTS
    with changed.session() as session:
        assert session.resumed
        assert set(session.known()) == {"guide.md"}
        changed.fill(session, {"notes.md": NOTES})
        assert session.activate({}) == 2
    assert set(filled.everything()) == {"guide.md", "notes.md"}
    assert filled.found("crimson engine")
    assert filled.store.verify() == []


# -- one writer, many readers ----------------------------------------------------------


def test_a_second_writer_is_refused_or_waits(filled: Shelf, opened: Open) -> None:
    other = Shelf(opened())
    with filled.session() as session:
        filled.fill(session, {"x.md": "# X\n"})
        with pytest.raises(IndexBusy), other.session():
            pass
        for change in (
            lambda: other.store.roll_back(1),
            lambda: other.store.refuse_busy(),
            lambda: other.store.set_aside("no"),
            lambda: other.store.delete(),
            lambda: other.store.erase(["x.md"], {}, retain=3),
        ):
            with pytest.raises(IndexBusy):
                change()
        done = Event()

        def wait() -> None:
            with other.session(wait=30.0) as waiting:
                other.fill(waiting, {"y.md": "# Y\n"})
                waiting.activate({})
            done.set()

        thread = Thread(target=wait)
        thread.start()
        assert not done.wait(0.2)
        session.activate({})
    thread.join(DEADLINE)
    assert done.is_set()
    assert {"x.md", "y.md"} <= set(filled.everything())
    other.store.refuse_busy()


def test_a_snapshot_keeps_its_state(filled: Shelf, opened: Open) -> None:
    """Activating, purging, rebuilding and deleting do not change an open snapshot."""
    writer = Shelf(opened(), retain=1)
    with filled.store.snapshot() as snapshot:
        before = [place.uri for place, _ in words(snapshot, "crimson engine")]
        for number in range(3):
            writer.write({"guide.md": f"# Gone {number}\n", "notes.md": None})
        writer.write({"z.md": "# Z\n"}, rebuild=True)
        assert snapshot.text("notes.md") == NOTES
        assert snapshot.uris() == sorted(TEXTS)
        assert [place.uri for place, _ in words(snapshot, "crimson engine")] == before
        vector = filled.embedder.embed_query("crimson engine")
        assert len(snapshot.vector_search(vector, 50, Filters())) == snapshot.counts().chunks
    assert set(filled.everything()) == {"z.md"}


def test_readers_never_see_a_mix(shelf: Shelf, opened: Open) -> None:
    """Every document contains the number of its generation, so two numbers mean a mix."""

    def state(number: int) -> dict[str, str | None]:
        return {f"{n}.md": f"# D{n}\n\nround{number} common words\n" for n in range(4)}

    shelf.write(state(0))
    stop = Event()
    wrong: list[object] = []

    def read() -> None:
        reader = Shelf(opened())
        try:
            while not stop.is_set():
                with reader.store.snapshot() as snapshot:
                    texts = {snapshot.text(uri) for uri in snapshot.uris()}
                    said = {(text or "").split("round")[1].split()[0] for text in texts}
                    hits = words(snapshot, "common")
                    if len(said) != 1 or len(hits) != 4:
                        wrong.append((said, len(hits)))
        except BaseException as error:
            wrong.append(error)

    threads = [Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number in range(1, 13):
        shelf.write(state(number), rebuild=number % 5 == 0)
    stop.set()
    for thread in threads:
        thread.join(DEADLINE)
    assert wrong == []


# -- words -----------------------------------------------------------------------------


def test_keyword_hits_are_ranked(asked: CollectionSnapshot) -> None:
    assert words(asked, "crimson engine")[0][0].uri in ("notes.md", "guide.md")
    assert words(asked, "zebra") == []
    assert words(asked, "crimson", 1)[0][1] == max(score for _, score in words(asked, "crimson"))
    named = asked.statistics(["crimson", "zebra"])
    chunks = asked.counts().chunks
    # None for whole documents: BM25 compares the length of a text with the mean of all entries.
    assert named.entries == chunks
    assert named.frequency["body", "zebra"] == 0
    assert named.frequency["page", "crimson"] == 2
    assert asked.knows("crimson")
    assert not asked.knows("zebra")
    assert ("fjord", 1) in asked.vocabulary("fj")
    assert asked.vocabulary("", 2)[0][1] >= asked.vocabulary("", 2)[1][1]
    assert len(asked.vocabulary("", 2)) == 2


def test_shared_statistics_change_term_weights(asked: CollectionSnapshot) -> None:
    before = dict(asked.page_search(["crimson"], PAGE_WEIGHTS, 5, Filters()))
    own = asked.statistics(["crimson"])
    asked.score_with(own._replace(entries=own.entries * 100))
    after = dict(asked.page_search(["crimson"], PAGE_WEIGHTS, 5, Filters()))
    assert after.keys() == before.keys()
    assert all(after[key] > 2 * before[key] for key in before)


def test_a_phrase_needs_adjacent_words(asked: CollectionSnapshot) -> None:
    def holding(phrase: str, **filters: object) -> set[str]:
        keys = asked.holding(phrase, Filters(**filters))  # type: ignore[arg-type]
        every = {place.key: place.uri for uri in TEXTS for place in asked.chunks(uri)}
        return {every[key] for key in keys}

    assert holding("crimson engine") == {"guide.md"}
    assert holding("engine crimson") == set()
    assert holding("engine oil") == {"notes.md"}
    assert holding("web assembly") == {"guide.md"}, "a name may be written as one"
    assert holding("engine", prefix="notes") == {"notes.md"}
    found = words(asked, "engine", phrases=("engine oil",))
    assert {place.uri for place, _ in found} == {"notes.md"}
    found = words(asked, "engine", without=("oil",))
    assert {place.uri for place, _ in found} == {"guide.md"}


def test_pairs_and_wordings_of_chunks(asked: CollectionSnapshot) -> None:
    places = [place for uri in TEXTS for place in asked.chunks(uri)]
    (crimson, engine) = terms_of("crimson engine")
    pairs = asked.adjoining([(crimson, engine, 1), (engine, crimson, 2)], places)
    held = {(place.uri, pairs[place.key]) for place in places if place.key in pairs}
    assert held == {("guide.md", 1), ("guide.md", 2), ("notes.md", 2)}, "the code has a gap"
    worth = asked.wording([{crimson: 1.0, engine: 0.5}, {"oil": 0.25}], places)
    assert max(worth.values()) == pytest.approx(1.25)
    assert {round(each, 3) for each in worth.values()} <= {0.5, 1.0, 1.25}
    assert asked.adjoining([], places) == {}
    assert asked.wording([], places) == {}


def test_the_best_chunk_of_each_document(asked: CollectionSnapshot) -> None:
    documents = [each.document for each in asked.facts()]
    best = asked.best_of_each(terms_of("teardown engine"), WEIGHTS, documents, Filters())
    chosen = {place.uri: (place, score) for place, score in best}
    assert set(chosen) == set(TEXTS)
    assert chosen["guide.md"][0].path[-1] == "Teardown"
    assert chosen["sub/other.md"][1] == 0.0
    scores = asked.page_scores(terms_of("engine"), PAGE_WEIGHTS, documents)
    assert len(scores) == 2
    assert scores == dict(asked.page_search(terms_of("engine"), PAGE_WEIGHTS, 9, Filters()))


# -- filters, exactly ----------------------------------------------------------------------


_WORDS = "amber birch crimson delta ember fjord garnet harbor indigo jasmine".split()
_CASES: list[dict[str, Any]] = [
    {"prefix": "a/"},
    {"tags": ("odd",)},
    {"lanes": ("code",)},
    {"languages": ("python",)},
    {"heading": "Second"},
    {"uris": ("a/1.md", "b/4.md", "a/9.md")},
    {"phrases": ("amber birch",)},
    {"without": ("crimson",)},
    {"prefix": "b/", "tags": ("odd",), "heading": "First"},
    {"prefix": "nowhere/"},
]


def test_filtered_answers_are_the_full_ranking_filtered(shelf: Shelf) -> None:
    chance = random.Random(7)
    texts: dict[str, str | None] = {}
    for number in range(60):
        said = [" ".join(chance.choices(_WORDS, k=14)) for _ in range(2)]
        tag = "---\ntags: [odd]\n---\n" if number % 2 else ""
        texts[f"{'ab'[number % 2 == 0]}/{number}.md"] = (
            f"{tag}# First {number}\n\n{said[0]}\n\n## Second\n\n{said[1]}\n"
        )
    texts["c/tool.py"] = "def amber_birch():\n    '''crimson delta'''\n    return 1\n"
    shelf.write(texts)
    vector = shelf.embedder.embed_query("amber birch ember")
    with shelf.store.snapshot() as snapshot:
        every = words(snapshot, "amber birch ember", 1000)
        near = snapshot.vector_search(vector, 1000, Filters())
        assert len(near) == snapshot.counts().chunks
        for case in _CASES:
            filters = Filters(**case)
            admitted = {
                place.key for uri in snapshot.uris() for place in snapshot.admitted(uri, filters)
            }
            for limit in (3, 1000):
                found = words(snapshot, "amber birch ember", limit, **case)
                wanted = [(place, score) for place, score in every if place.key in admitted]
                assert [each for _, each in found] == pytest.approx(
                    [each for _, each in wanted[:limit]]
                ), case
                assert {place.key for place, _ in found} <= admitted
                closest = snapshot.vector_search(vector, limit, filters)
                assert [each for _, each in closest] == pytest.approx(
                    [each for place, each in near if place.key in admitted][:limit], abs=1e-3
                ), case
            documents = {place.document for place in snapshot.chunks("c/tool.py")}
            if case == {"lanes": ("code",)}:
                assert {key for key, _ in pages(snapshot, "amber", **case)} == documents


# -- vectors ---------------------------------------------------------------------------------


def test_vectors_are_those_that_were_written(filled: Shelf, asked: CollectionSnapshot) -> None:
    places = [place for uri in TEXTS for place in asked.chunks(uri)]
    stored = asked.vectors(places)
    assert stored.shape == (len(places), filled.embedder.dimensions)
    assert np.linalg.norm(stored, axis=1) == pytest.approx(np.ones(len(places)), abs=0.01)
    query = filled.embedder.embed_query("crimson engine")
    half = query.astype(np.float16).astype(np.float32)
    assert asked.vector_scores(query, places) == pytest.approx(list(stored @ half), abs=1e-3)
    best = asked.vector_search(query, 3, Filters())
    assert [score for _, score in best] == pytest.approx(
        sorted(stored @ half, reverse=True)[:3], abs=1e-3
    )
    bare = places[0]._replace(vector=None)
    assert asked.vector_scores(query, [bare]) == [0.0]
    assert not asked.vectors([bare]).any()
    assert asked.dimensions == filled.embedder.dimensions
    centre = asked.centre("notes.md")
    assert centre is not None
    assert float(np.linalg.norm(centre)) == pytest.approx(1.0, abs=1e-3)
    assert asked.centre("nothing.md") is None
    told = asked.vector_pass()
    assert (told.method, told.rows) == ("exact", len({place.vector for place in places}))


def embed_with_second_model(shelf: Shelf) -> int:
    """Store a vector of a second model for each chunk that has none: its first letters."""
    with shelf.store.quality_writer("letters", 4) as writer:
        documents = [document.number for document in writer.list_documents()]
        passages = writer.read(documents, lambda place, text: text[place.start : place.end])
        vectors = [
            np.frombuffer(passage.text.encode()[:4].ljust(4), dtype=np.uint8).astype("<f2")
            for passage in passages
        ]
        writer.put(
            [(passage, vector.tobytes()) for passage, vector in zip(passages, vectors, strict=True)]
        )
        return len(passages)


def test_vectors_of_a_second_model_are_filled_in(filled: Shelf) -> None:
    assert not filled.store.has_quality("letters", 4)
    added = embed_with_second_model(filled)
    assert added > 3
    assert embed_with_second_model(filled) == 0, "they are there already"
    query = QualityQuery("letters", np.array([1, 0, 0, 0], dtype=np.float32))

    def score() -> dict[tuple[str, int], float | None]:
        with filled.store.snapshot() as snapshot:
            places = [place for uri in snapshot.uris() for place in snapshot.chunks(uri)]
            scores = snapshot.quality_scores(query, places)
            assert len(snapshot.quality_search(query, 50, Filters())) == sum(
                value is not None for value in scores
            )
            keys = [(place.uri, place.start) for place in places]
            return dict(zip(keys, scores, strict=True))

    before = score()
    assert filled.store.has_quality("letters", 4)
    assert all(
        value == ord(TEXTS[uri][start:].lstrip()[0]) for (uri, start), value in before.items()
    )
    filled.write(TEXTS, rebuild=True)
    assert score() == before, "a rebuilt index takes them over"
    assert embed_with_second_model(filled) == 0
    filled.store.erase(["notes.md"], {}, retain=3)
    assert score() == {key: value for key, value in before.items() if key[0] != "notes.md"}
    filled.write({"new.md": "# New\n\nQuite new.\n"})
    assert embed_with_second_model(filled) == 1
    assert score()["new.md", 0] == ord("#")
    assert filled.store.verify() == []


# -- links -----------------------------------------------------------------------------------


def test_links_resolve_to_documents(asked: CollectionSnapshot) -> None:
    assert [(edge.target, edge.kind) for edge in asked.links_from("guide.md")] == [
        ("notes.md", "link"),
        ("sub/other.md", "wikilink"),
    ]
    assert [edge.source for edge in asked.links_to("notes.md")] == ["guide.md"]
    assert set(asked.targets("guide.md")) == {"notes.md", "Other"}
    assert asked.linking(["notes.md"])[0][0] == "guide.md"
    assert [(name, edge.source) for name, edge in asked.links_named(["notes"])] == [
        ("notes", "guide.md")
    ]
    assert asked.resolve_links([("notes", "link", "notes.md")])["notes", "link", "notes.md"] == (
        "notes.md",
        "Notes",
    )
    ids = {each.uri: each.document for each in asked.facts()}
    leads = asked.leads([ids["guide.md"]])
    assert {each.target for each in leads} == {ids["notes.md"], ids["sub/other.md"]}
    assert asked.leads([ids["guide.md"]], [ids["notes.md"]])[0].target == ids["notes.md"]
    assert asked.leads([ids["guide.md"]], []) == []
    start = leads[0].start
    guide = ids["guide.md"]
    assert asked.leads([guide], None, {guide: [(start, start + 1)]}) == leads[:1]
    assert asked.leads([guide], None, {guide: [(start - 1, start)]}) == []


def test_communities_follow_links(shelf: Shelf) -> None:
    def clique(name: str) -> dict[str, str]:
        others = " ".join(f"[x]({name}{n}.md)" for n in range(4))
        return {f"{name}{n}.md": f"# {name}{n}\n\n{others}\n" for n in range(4)}

    shelf.write({**clique("a"), **clique("b"), "alone.md": "# Alone\n"})
    with shelf.store.snapshot() as snapshot:
        found = snapshot.communities(snapshot.uris())
        assert "alone.md" not in found
        assert len({found[f"a{n}.md"] for n in range(4)}) == 1
        assert found["a0.md"] != found["b0.md"]
        assert {each.uri for each in snapshot.community("a0.md")} == {f"a{n}.md" for n in (1, 2, 3)}
        drawn = snapshot.graph()
        assert len(drawn.uris) == 9
    shelf.write({"b0.md": "# b0\n\n[x](a0.md) [x](a1.md) [x](a2.md) [x](a3.md)\n", "b1.md": None,
                 "b2.md": None, "b3.md": None})  # fmt: skip
    with shelf.store.snapshot() as snapshot:
        found = snapshot.communities(snapshot.uris())
        assert len(set(found.values())) == 1


def test_code_is_found_by_its_names(shelf: Shelf) -> None:
    shelf.write(
        {"tool.py": "class Engine:\n    def start(self):\n        return 1\n", "a.md": "# A\n"}
    )
    with shelf.store.snapshot() as snapshot:
        assert snapshot.has_code()
        assert snapshot.has_code_in("python")
        assert not snapshot.has_code_in("rust")
        assert [uri for uri, _ in snapshot.defining("START")] == ["tool.py"]
        assert snapshot.defining("art") == []
        assert snapshot.defining("a name that is longer than every one of them") == []
        (document,) = {place.document for place in snapshot.chunks("tool.py")}
        told = {each.name: each.kind for each in snapshot.definitions([document])[document]}
        assert told["Engine"] == "class"
        assert [each.uri for each in snapshot.ending_in("TOOL.py", Filters())] == ["tool.py"]


# -- leaving -----------------------------------------------------------------------------------


def test_erasing_leaves_no_term_in_any_generation(shelf: Shelf) -> None:
    shelf.write({"a.md": "# A\n\nxyzzyfirst common\n", "b.md": "# B\n\ncommon\n"})
    shelf.write({"a.md": "# A\n\nxyzzysecond common\n"})
    shelf.write({"c.md": "# C\n\ncommon\n"})
    went = shelf.store.erase(["a.md"], {}, retain=3)
    assert went == 1
    assert set(shelf.everything()) == {"b.md", "c.md"}
    for each in shelf.store.generations():
        with shelf.store.snapshot(each.number) as snapshot:
            assert "a.md" not in snapshot.uris()
            assert not snapshot.knows("xyzzyfirst")
            assert not snapshot.knows("xyzzysecond")
    assert shelf.store.verify() == []
    shelf.store.finish_erasing()
    assert {each.uri for each in shelf.store.written()} == {"b.md", "c.md"}
    assert shelf.write({"a.md": "# A\n\nback again\n"}) == 5


def test_an_interrupted_erasure_is_not_damage(shelf: Shelf) -> None:
    shelf.write({"a.md": "# A\n\nxyzzyfirst\n", "b.md": "# B\n\ncommon\n"})
    with shelf.session() as session:
        session.erase(["a.md"])
        session.activate({})
    assert shelf.store.verify() == []
    shelf.store.finish_erasing()
    assert shelf.store.verify() == []
    assert set(shelf.everything()) == {"b.md"}


def test_the_last_of_two_texts_in_one_session_wins(shelf: Shelf) -> None:
    for _ in range(2):
        with shelf.session() as session:
            shelf.fill(session, {"a.md": "# A\n\none\n", "b.md": "# B\n\none\n"})
            shelf.fill(session, {"a.md": "# A\n\ntwo\n", "b.md": None})
            session.activate({})
        assert shelf.everything() == {"a.md": "# A\n\ntwo\n"}
        assert shelf.found("one") == []
        assert shelf.store.verify() == []


def test_an_index_is_rebuilt_after_deleting_or_setting_aside(filled: Shelf) -> None:
    filled.store.set_aside("a test said so")
    assert not filled.store.exists
    assert "a test said so" in filled.store.damage()
    with pytest.raises(IndexBusy, match="is being rebuilt") as busy, filled.store.snapshot():
        pass
    assert busy.value.details["rebuilding"] is True
    filled.write(TEXTS)
    assert filled.everything() == TEXTS
    filled.store.delete()
    assert not filled.store.exists
    with pytest.raises(NotIndexed), filled.store.snapshot():
        pass
    filled.store.delete()
    filled.write({"a.md": "# A\n"})
    assert filled.found("crimson") == []


def test_an_index_that_was_rebuilt_meanwhile_is_not_set_aside(
    filled: Shelf, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two front ends find the same damage: one rebuilds while the other waits for the lock.

    Seen to fail without a look at what serves once the lock is held.
    """
    other, waiting = Shelf(opened()), Event()
    assert other.everything() == TEXTS
    plain = time.sleep

    def slept(seconds: float) -> None:
        if current_thread() is late:
            waiting.set()
        plain(seconds)

    def set_aside() -> None:
        other.store.set_aside("found by the other", wait_seconds=30.0)

    late = Thread(target=set_aside)
    monkeypatch.setattr(time, "sleep", slept)
    with filled.session(rebuild=True) as session:
        late.start()
        assert waiting.wait(DEADLINE)
        filled.fill(session, {"new.md": "# New\n\nsilver\n"})
        session.activate({})
    late.join(DEADLINE)
    assert not late.is_alive()
    assert filled.everything() == {"new.md": "# New\n\nsilver\n"}
    assert other.found("silver") == ["new.md"]
    assert other.store.damage() == ""


def test_verify_finds_nothing_after_many_changes(shelf: Shelf) -> None:
    chance = random.Random(3)
    for _ in range(25):
        uri = f"{chance.randrange(6)}.md"
        known = shelf.everything() if shelf.store.exists else {}
        gone = uri in known and chance.random() < 0.3
        text = f"# T\n\n{' '.join(chance.choices(_WORDS, k=12))}\n"
        shelf.write({uri: None if gone else text})
    assert shelf.store.verify() == []
    with shelf.store.snapshot() as snapshot:
        every = dict.fromkeys(_WORDS, 0)
        for uri in snapshot.uris():
            for word in {*(snapshot.text(uri) or "").split()} & {*_WORDS}:
                every[word] += 1
        for word, count in every.items():
            assert len(pages(snapshot, word)) == count, word


def test_a_word_that_was_removed_is_not_known(shelf: Shelf) -> None:
    """Seen to fail on both stores, where entries of earlier generations counted."""
    shelf.retain = 2
    for number in range(40):
        shelf.write({f"{number}.md": f"# Page {number}\n\ncommon words\n"})
    shelf.write(
        {f"{number}.md": f"---\ntags: [beryl]\n---\nzinc {number}\n" for number in range(9)}
    )
    last = shelf.write({"9.md": "amber\n"})
    shelf.write({f"{number}.md": "plain\n" for number in range(10)})
    asked = ("zinc", "amber", "beryl", "common", "plain", "never")
    with shelf.store.snapshot() as snapshot:
        assert snapshot.known_terms(asked) == {"common", "plain"}
        assert not snapshot.knows("zinc")
    with shelf.store.snapshot(last) as snapshot:
        assert snapshot.known_terms(asked) == {"zinc", "amber", "beryl", "common"}
    for number in range(3):  # Their entries are deleted now, but still in the files.
        shelf.write({"other.md": f"other {number}\n"})
    with shelf.store.snapshot() as snapshot:
        assert snapshot.known_terms(asked) == {"common", "plain"}


def test_a_phrase_is_rare_whatever_earlier_generations_have(shelf: Shelf) -> None:
    """Seen to fail on both stores: earlier versions made a phrase common."""
    shelf.retain = 9
    for number in range(8):
        shelf.write({f"{name}.md": f"crimson engine {number}\n" for name in "abc"})
    with shelf.store.snapshot() as snapshot:
        few, many = (
            snapshot.few_holding(["crimson engine", "never said"], most, Filters())
            for most in (3, 2)
        )
        assert few[0] is not None
        assert sorted(place.uri for place in few[0]) == ["a.md", "b.md", "c.md"]
        assert few[1] == []
        assert many == [None, []]


# -- the same answers ---------------------------------------------------------------------------


def test_both_stores_give_the_same_scores(
    opened: Open, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The embedded store is the reference: the same hits, the same scores."""
    texts = _make_pages(random.Random(11))
    with ExitStack() as stack:
        shelves = [Shelf(opened()), Shelf(CollectionStore(tmp_path_factory.mktemp("measure")))]
        snapshots = []
        for shelf in shelves:
            shelf.write(texts)
            snapshots.append(stack.enter_context(shelf.store.snapshot()))
        for question in ("amber", "crimson delta", "jasmine indigo harbor amber", "ember birch"):
            for limit in (5, 200):
                here, there = (words(each, question, limit) for each in snapshots)
                assert [score for _, score in here] == [score for _, score in there]
                own, reference = (pages(each, question, limit) for each in snapshots)
                assert [score for _, score in own] == [score for _, score in reference]
        for shelf in shelves:
            shelf.store.close()


def test_scores_depend_on_live_documents_only(
    opened: Open, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """After twenty rounds of change and reverse everything is found as in a fresh index.

    Seen to fail in the embedded store when entries of other generations counted in its statistics.
    """
    chance = random.Random(12)
    texts = _make_pages(chance)
    worn = Shelf(opened())
    worn.write(texts)
    for _ in range(20):
        changed = chance.sample(sorted(texts), 25)
        worn.write(dict(zip(changed, _make_pages(chance).values(), strict=False)))
        gone = changed[:5]
        worn.write(dict.fromkeys(gone))
        worn.write({uri: texts[uri] for uri in changed})
    fresh = Shelf(CollectionStore(tmp_path_factory.mktemp("fresh")))
    fresh.write(texts)
    assert _ask_everything(worn) == _ask_everything(fresh)
    assert worn.store.verify() == []
    worn.store.close()
    fresh.store.close()


def _make_pages(chance: random.Random) -> dict[str, str | None]:
    texts: dict[str, str | None] = {}
    for number in range(120):
        said = " ".join(chance.choices(_WORDS, weights=range(1, 11), k=chance.randrange(5, 120)))
        code = "```py\nember_birch = crimsonDelta\n```\n" if number % 7 == 0 else ""
        tag, title, folder = (chance.choice(_WORDS) for _ in range(3))
        texts[f"{folder}/{number}.md"] = f"---\ntags: [{tag}]\n---\n# {title}\n\n{said}\n\n{code}"
    return texts


def _ask_everything(shelf: Shelf) -> list[object]:
    """Return what keyword queries of every kind report, by names that do not depend on the past."""
    with shelf.store.snapshot() as snapshot:
        uris = {each.document: each.uri for each in snapshot.facts()}
        answers: list[object] = [snapshot.vocabulary(), snapshot.vocabulary("e", 3)]
        for question in ("amber", "crimson delta", "jasmine indigo harbor amber", "ember birch"):
            terms = terms_of(question)
            found = words(snapshot, question, 40)
            places = [place for place, _ in found]
            pairs = [(left, right, 1) for left, right in pairwise(terms)]
            best = snapshot.best_of_each(terms, WEIGHTS, sorted(uris), Filters())
            answers += [
                [(place.uri, place.start, score) for place, score in found],
                sorted((uris[document], score) for document, score in pages(snapshot, question)),
                sorted((place.uri, place.start, score) for place, score in best),
                sorted(
                    (place.uri, place.start, snapshot.adjoining(pairs, [place]) != {})
                    for place in places
                ),
                sorted(
                    (place.uri, place.start, *snapshot.wording([{terms[0]: 1.0}], [place]).values())
                    for place in places
                ),
                sorted(
                    (place.uri, place.start)
                    for some in snapshot.few_holding([question], 500, Filters())
                    for place in some or ()
                ),
                snapshot.statistics(terms),
                snapshot.known_terms([*terms, "never"]),
            ]
        return answers


# -- search by line --------------------------------------------------------------


def test_documents_that_may_contain_a_text_are_returned_with_their_texts(
    asked: CollectionSnapshot,
) -> None:
    """All that contain it are among them, in every store; filtered documents are not."""
    for need in (EVERYTHING, b"crimson", AllOf((b"engine", b"tea"))):
        numbers = asked.documents_with(need, Filters())
        texts = {
            each.uri: dict(asked.texts(numbers))[each.document] for each in asked.facts(numbers)
        }
        assert {"guide.md", "notes.md"} <= texts.keys() <= TEXTS.keys()
        assert all(texts[uri] == TEXTS[uri].encode() for uri in texts)
    admitted = asked.documents_with(b"crimson", Filters(prefix="notes"))
    assert [each.uri for each in asked.facts(admitted)] == ["notes.md"]
    assert asked.documents_with(b"crimson", Filters(uris=("nowhere.md",))) == []


def test_filters_admit_parts_of_a_document(asked: CollectionSnapshot) -> None:
    guide = next(each.document for each in asked.facts() if each.uri == "guide.md")
    setup, end = GUIDE.index("## Setup"), GUIDE.index("## Teardown")
    program = GUIDE.index("```python")

    def parts(**filters: Any) -> list[tuple[int, int]] | None:
        return asked.admitted_parts(guide, Filters(**filters))

    assert parts() is None
    assert parts(prefix="guide") is None
    assert parts(heading="Setup") == [(setup, end)]
    ((start, stop),) = parts(languages=("python",)) or []
    assert start == program
    assert GUIDE[start:stop].rstrip().endswith("```")
    assert parts(heading="Teardown", languages=("python",)) == []
    held = parts(phrases=("crimson engine",))
    assert held is not None
    assert all("crimson engine" in GUIDE[first:last] for first, last in held)


NOTE = """---
status: Active
due: 2026-12-01
rank: 7
seen: [Ada, "[[Bob]]"]
zero: "a\\0b"
tags: [Work/Deep]
---
# Note

mood:: calm
"""


@pytest.mark.parametrize(
    ("filters", "admits"),
    [
        (Filters(where=("status=active",)), True),
        (Filters(where=("status!=done",)), True),
        (Filters(where=("status!=active",)), False),
        (Filters(where=("absent!=active",)), True),
        (Filters(where=("seen>a", "mood<='calm'")), True),
        (Filters(where=("due<2026-12-02", "rank>=7", "seen=bob", "mood=CALM")), True),
        (Filters(where=("due<2026-12-01",)), False),
        (Filters(where=("missing:status",)), False),
        (Filters(where=("has:zero",)), True),
        (Filters(tags=("work",)), True),
        (Filters(tags=("wor",)), False),
    ],
)
def test_every_store_compares_properties(shelf: Shelf, filters: Filters, admits: bool) -> None:
    shelf.write({**TEXTS, "note.md": NOTE, "2026-11-10.md": "# Day\n\nStandup.\n"})
    with shelf.store.snapshot() as snapshot:
        assert ("note.md" in {facts.uri for facts in snapshot.admitting(filters)}) is admits
        days = {facts.uri: facts.day for facts in snapshot.facts()}
        assert (days["2026-11-10.md"], days["note.md"]) == ("2026-11-10", "")
        assert snapshot.property_kinds()["due"] == {"date"}
        counts = {count.key: count for count in snapshot.count_properties(1)}
        assert counts["seen"][3:5] == (1, 2)
        assert [value[1:] for value in counts["status"].values] == [("Active", 1)]
        numbers = {facts.uri: facts.document for facts in snapshot.facts()}
        own = {count.key: count for count in snapshot.count_properties(1, [numbers["note.md"]])}
        assert (own["status"], "aliases" in counts, "aliases" in own) == (
            counts["status"], True, False,
        )  # fmt: skip
        assert snapshot.count_properties(1, [numbers["2026-11-10.md"]]) == []
        assert snapshot.count_properties(1, []) == []
        assert ("work/deep", "Work/Deep") in {tag[:2] for tag in snapshot.list_tagged()}
        version = snapshot.version("note.md")
        assert version is not None
        assert ("rank", "rank", "number", "7", "7", 7.0) in version.properties


def test_the_last_generation_of_each_of_the_past_days_stays(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails if days are not counted, if a day keeps its first generation, or if all days count."""
    now = datetime(2026, 11, 1, 9, tzinfo=UTC)

    class Clock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            assert tz is UTC
            return now

    for module in ("catalogue.generations", "sqlite.write_session"):
        monkeypatch.setattr(f"lookfar.store.{module}.datetime", Clock)
    shelf.retain = 1
    for day in range(1, 6):
        for hour in (9, 17):
            now = datetime(2026, 11, day, hour, tzinfo=UTC)
            with shelf.session() as session:
                session.retain_days = 3
                shelf.fill(session, {"a.md": f"# A\n\nday {day} hour {hour}\n"})
                session.activate({})
    kept = shelf.store.generations()
    assert [g.created_at[:13] for g in kept] == ["2026-11-03T17", "2026-11-04T17", "2026-11-05T17"]
    with shelf.store.snapshot(kept[0].number) as snapshot:
        assert snapshot.text("a.md") == "# A\n\nday 3 hour 17\n"
    shelf.write({"a.md": "# A\n\nno days\n"})
    assert len(shelf.store.generations()) == 1
