"""Numbered states: what is visible in which, what is shared, what is purged and when."""

from __future__ import annotations

import zlib

import pytest

from lookfar.errors import InvalidArgument
from lookfar.model import Filters, Fingerprint
from lookfar.ports import LeftOut
from store.shelf import Shelf, change_row, pages, rows_of, serving_epoch, words

DISK = Fingerprint(1, 2, 3, 4)


def keyword_entries(shelf: Shelf) -> int:
    shelf.found("anything")
    return serving_epoch(shelf).keywords.view.live([], 1 << 40).statistics([]).entries


def test_documents_are_stored_listed_and_removed(shelf: Shelf) -> None:
    assert shelf.write({"a.md": "# A\n\nalpha\n", "b.md": "# B\n\nbeta\n"}) == 1
    with shelf.session() as session:
        assert sorted(session.known()) == ["a.md", "b.md"]
    assert shelf.write({"b.md": None, "c.md": "gamma\n"}) == 2
    assert shelf.everything() == {"a.md": "# A\n\nalpha\n", "c.md": "gamma\n"}
    assert shelf.found("beta") == []
    with shelf.store.snapshot() as snapshot:
        assert snapshot.document("b.md") is None
        assert snapshot.text("b.md") is None
        assert snapshot.sections("b.md") == []
        assert snapshot.counts().documents == 2


def test_touching_makes_no_new_generation(shelf: Shelf) -> None:
    shelf.write({"a.md": "alpha\n"})
    with shelf.session() as session:
        session.touch(session.known()["a.md"].document, DISK, False)
        session.leave_out([LeftOut("x.md", True, "GONE", "it went", DISK, False)])
        assert session.commit_touches() == 1
    with shelf.session() as session:
        known = session.known()["a.md"]
    assert (known.fingerprint, known.settled) == (DISK, False)
    with shelf.store.snapshot() as snapshot:
        assert snapshot.generation == 1
        assert [failure.uri for failure in snapshot.failures()] == ["x.md"]


def test_an_older_generation_still_shows_its_own_text(shelf: Shelf) -> None:
    """Seen to fail when ``ALIVE`` did not look at ``died``."""
    shelf.write({"a.md": "the colour was crimson\n", "gone.md": "crimson too\n"})
    shelf.write({"a.md": "the colour was turquoise\n", "gone.md": None})
    with shelf.store.snapshot(1) as old, shelf.store.snapshot(2) as new:
        assert old.text("a.md") == "the colour was crimson\n"
        assert {place.uri for place, _ in words(old, "crimson")} == {"a.md", "gone.md"}
        assert words(old, "turquoise") == []
        assert pages(old, "turquoise") == []
        assert old.uris() == ["a.md", "gone.md"]
        assert words(new, "crimson") == []
        assert pages(new, "crimson") == []
        assert [place.uri for place, _ in words(new, "turquoise")] == ["a.md"]
        query = shelf.embedder.embed(["crimson turquoise colour"])[0]
        for snapshot, ids in ((old, {1, 2}), (new, {3})):
            near = snapshot.vector_search(query, 10, Filters())
            assert {place.document for place, _ in near} == ids


def test_a_missing_generation_is_refused_with_the_kept_ones(shelf: Shelf) -> None:
    for number in range(5):
        shelf.write({"a.md": f"text {number}\n"})
    with pytest.raises(InvalidArgument) as raised, shelf.store.snapshot(1):
        pass
    assert "3, 4, 5" in raised.value.hint
    assert [generation.number for generation in shelf.store.generations()] == [3, 4, 5]


def test_versions_in_no_kept_generation_are_purged(shelf: Shelf) -> None:
    """Rows, texts and keyword entries go; what is retained or pinned stays.

    Seen to fail when ``purge`` left ``texts`` alone, and when graves were never emptied.
    """
    shelf.write({"a.md": "zero secretword\n", "b.md": "stays\n"})
    shelf.write({"a.md": "one\n"})
    change_row(shelf, "UPDATE generations SET pinned = 1 WHERE number = 2")
    for number in range(3, 8):
        shelf.write({"a.md": f"round {number}\n"})
    kept = [generation.number for generation in shelf.store.generations()]
    assert kept == [2, 5, 6, 7]
    for number, text in ((2, "one\n"), (5, "round 5\n"), (7, "round 7\n")):
        with shelf.store.snapshot(number) as snapshot:
            assert snapshot.text("a.md") == text
            assert snapshot.text("b.md") == "stays\n"
    assert rows_of(shelf, "SELECT count(*) FROM documents") == [(5,)]
    assert rows_of(shelf, "SELECT count(*) FROM texts") == [(5,)]
    assert rows_of(shelf, "SELECT count(DISTINCT document) FROM chunks") == [(5,)]
    shelf.write({"b.md": "stays\n\nand grows\n"})
    graves = rows_of(shelf, "SELECT count(*) FROM graves")[0][0]
    chunks = rows_of(shelf, "SELECT count(*) FROM chunks")[0][0]
    assert isinstance(graves, int)
    assert keyword_entries(shelf) == chunks + graves
    assert shelf.store.verify() == []


def test_a_deleted_and_purged_document_leaves_no_text_in_any_row(shelf: Shelf) -> None:
    shelf.write({"a.md": "# Passphrase\n\nxyzzy plugh [[Secretlink]]\n", "b.md": "one\n"})
    shelf.write({"a.md": None})
    for number in range(3):
        shelf.write({"b.md": f"two {number}\n"})
    for table in ("documents", "sections", "chunks", "links", "tags", "texts"):
        for row in rows_of(shelf, f"SELECT * FROM {table}"):
            plain = [
                zlib.decompress(value) if table == "texts" and index == 2 else value
                for index, value in enumerate(row)
            ]
            for value in plain:
                text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
                assert "xyzzy" not in text
                assert "Passphrase" not in text
                assert "Secretlink" not in text
    shelf.write({"b.md": "three\n"})
    assert shelf.found("xyzzy") == []
    every = serving_epoch(shelf).keywords.view.live([], 1 << 40)
    assert every.search(["xyzzy"], {"body": 1.0}, 10) == []


def test_graves_survive_a_session_that_only_touches(shelf: Shelf) -> None:
    """Seen to fail when a touch-only session emptied the graves without a keyword commit.

    The entries of the purged document then stay for ever, and ``verify`` says so.
    """
    shelf.retain = 1
    shelf.write({"a.md": "alpha\n", "b.md": "beta\n"})
    shelf.write({"b.md": None})
    assert rows_of(shelf, "SELECT * FROM graves") == [(2,)]
    with shelf.session() as session:
        session.commit_touches()
    assert rows_of(shelf, "SELECT * FROM graves") == [(2,)]
    shelf.write({"c.md": "gamma\n"})
    assert rows_of(shelf, "SELECT * FROM graves") == []
    assert shelf.store.verify() == []
    with shelf.store.snapshot() as snapshot:
        assert pages(snapshot, "beta") == []


def test_numbers_are_never_assigned_twice(shelf: Shelf) -> None:
    """Seen to fail when the next number was one more than the highest still stored."""
    shelf.retain = 1
    shelf.write({"a.md": "alpha\n", "z.md": "# Z\n\nzeta\n"})
    shelf.write({"z.md": None})
    shelf.write({"n.md": "# N\n\nnu\n"})
    assert rows_of(shelf, "SELECT id FROM documents WHERE uri = 'n.md'") == [(3,)]
    ((key,),) = rows_of(shelf, "SELECT min(key) FROM chunks WHERE document = 3")
    assert isinstance(key, int)
    assert key > 2


def test_equal_texts_share_one_text_and_one_vector(shelf: Shelf) -> None:
    body = "# Same\n\nthe very same words\n"
    shelf.write({"a.md": body, "b.md": body})
    shelf.write({"c.md": body, "d.md": "# Other\n\ndifferent\n"})
    assert rows_of(shelf, "SELECT count(*) FROM texts") == [(2,)]
    assert rows_of(shelf, "SELECT count(DISTINCT vector) FROM chunks") == rows_of(
        shelf, "SELECT count(*) FROM embeddings"
    )
    shared = rows_of(
        shelf,
        "SELECT count(DISTINCT vector) FROM chunks c JOIN documents d ON d.id = c.document"
        " WHERE d.uri IN ('a.md', 'b.md', 'c.md') AND c.ordinal = 0",
    )
    assert shared == [(1,)]
    assert len(shelf.embedder.embedded) == len(set(shelf.embedder.embedded))


def test_contents_without_a_vector_are_missing(shelf: Shelf) -> None:
    with shelf.session() as session:
        version = shelf.version("a.md", "alpha\n", session)
        contents = [row[1] for row in version.chunks]
        assert session.missing(contents) == set(contents)
        session.put(version)
        assert session.missing([*contents, b"other"]) == {b"other"}
        session.activate({})
    with shelf.session() as session:
        assert session.missing([*contents, b"other"]) == {b"other"}
    assert shelf.write({"a.md": "alpha\n"}) == 2
