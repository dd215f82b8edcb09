"""Files that another process replaces under the same name, and texts that are written twice."""

from __future__ import annotations

import tracemalloc

import pytest

from lookfar.index.extraction import Content
from lookfar.index.prepare import Prepared, Stages, make_maker, prepare
from lookfar.index.words import Words
from lookfar.model import Fingerprint
from lookfar.ports import Maker, StoredDocument
from lookfar.store.catalogue import generations, rows
from lookfar.store.catalogue.remembered import Remembered, State
from lookfar.store.keywords.keyword_index import describe_damage, read_listing
from lookfar.store.sqlite.store import CollectionStore
from lookfar.store.sqlite.write_session import EpochWriter
from store.shelf import SIZES, Shelf, change_row, epoch_folder, rows_of

TEXTS: dict[str, str | None] = {
    f"{number}.md": f"# Page {number}\n\nmark{number} kiln\n" for number in range(6)
}


def maker(shelf: Shelf) -> Maker:
    def prepared(stored: StoredDocument) -> Prepared | None:
        result = prepare(
            stored.uri,
            Content(stored.text, b""),
            Fingerprint(0, 0, 0, 0),
            settled=True,
            stages=Stages(SIZES, Words(shelf.embedder)),
        )
        return result if isinstance(result, Prepared) else None

    return make_maker(shelf.fingerprint, prepared, shelf.embedder, sources=True)


@pytest.fixture
def other(shelf: Shelf) -> Shelf:
    """The same collection, as another process has opened it."""
    shelf.write(TEXTS)
    opened = Shelf(CollectionStore(shelf.store.folder))
    assert opened.found("kiln")
    return opened


def test_a_deleted_and_recreated_index_is_reopened(shelf: Shelf, other: Shelf) -> None:
    """Protects against answers from files that were removed, as the new ones have their names."""
    shelf.store.delete()
    shelf.write({"new.md": "# New\n\nglaze\n"})
    assert other.everything().keys() == {"new.md"}
    assert other.found("glaze") == ["new.md"]
    other.write({"more.md": "# More\n\nglaze\n"})
    assert sorted(shelf.found("glaze")) == ["more.md", "new.md"]
    assert not shelf.store.verify()
    other.store.close()


def test_a_rebuilt_index_is_reopened(shelf: Shelf, other: Shelf) -> None:
    """Protects against a process that keeps using files that another one found damaged."""
    shelf.store.set_aside("a test")
    shelf.write({"new.md": "# New\n\nglaze\n"})
    assert other.everything().keys() == {"new.md"}
    assert other.found("glaze") == ["new.md"]
    other.store.close()


def test_repaired_keywords_are_reopened(shelf: Shelf, other: Shelf) -> None:
    """Protects against a process that waits forever for the stamp of the old keywords."""
    for number in range(8):
        shelf.write({"0.md": f"# Page 0\n\nround{number} kiln\n"})
    assert other.found("round7") == ["0.md"]
    path = max(epoch_folder(shelf).glob("words/*.words"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 8
    path.write_bytes(data)
    assert shelf.store.verify()
    assert shelf.store.repair(maker(shelf), "a test") == []
    shelf.write({"new.md": "# New\n\nglaze\n"})
    assert other.found("glaze") == ["new.md"]
    other.write({"more.md": "# More\n\nglaze\n"})
    assert sorted(other.found("glaze")) == ["more.md", "new.md"]
    assert not other.store.verify()
    other.store.close()


def test_documents_dropped_by_a_repair_are_not_counted(shelf: Shelf) -> None:
    """Protects against totals that still count documents whose rows are gone."""
    shelf.write(TEXTS)
    change_row(shelf, "UPDATE documents SET title = 'other' WHERE uri IN ('1.md', '2.md')")
    assert shelf.store.repair(maker(shelf), "a test") == ["1.md", "2.md"]
    with shelf.store.snapshot() as snapshot:
        assert snapshot.counts() == rows.count_rows(snapshot._connection, snapshot.generation)  # type: ignore[attr-defined]
    shelf.write({uri: TEXTS[uri] for uri in ("1.md", "2.md")})
    with shelf.store.snapshot() as snapshot:
        told, counted = snapshot.manifest(), generations.compute_totals(snapshot._connection)  # type: ignore[attr-defined]
        assert {key: told[key] for key in counted} == counted
        assert told["documents"] == len(TEXTS)


@pytest.mark.parametrize("first", [True, False], ids=["first build", "later"])
def test_the_last_text_of_a_session_counts(shelf: Shelf, first: bool) -> None:
    """Protects against two live versions of one document."""
    if not first:
        shelf.write({"a.md": "# A\n\nold\n", "b.md": "# B\n\nold\n"})
    with shelf.session() as session:
        shelf.fill(session, {"a.md": "# A\n\none\n", "b.md": "# B\n\none\n"})
        assert set(session.known()) == {"a.md", "b.md"}
        shelf.fill(session, {"a.md": "# A\n\ntwo\n"})
        session.remove("b.md")
        session.activate({})
    assert shelf.everything() == {"a.md": "# A\n\ntwo\n"}
    assert shelf.found("one") == []
    assert not shelf.store.verify()
    assert rows_of(shelf, "SELECT count(*) FROM documents WHERE died IS NULL") == [(1,)]


def test_kept_vectors_may_be_empty(shelf: Shelf) -> None:
    """Protects against reporting an intact index as damaged because it was once empty."""
    for model in ("first", "second"):
        shelf.fingerprint = model
        with shelf.store.writer(
            model, shelf.embedder.dimensions, model=model, about={}, retain=2
        ) as session:
            session.activate({})
    assert list(shelf.store.folder.glob("kept-*"))
    assert not shelf.store.verify()


def test_results_of_two_generations_are_not_mixed() -> None:
    """Protects against a thread that requests another generation in between."""
    remembered = Remembered()

    class Asked(State):
        """Compare while the other thread makes a request."""

        def __ne__(self, other: object) -> bool:
            remembered.cached(State(6, 0), "other", lambda: "of 6")
            return tuple(self) != other

    remembered.cached(State(5, 0), "first", lambda: "of 5")
    assert remembered.cached(Asked(5, 0), "name", lambda: "of 5") == "of 5"
    assert remembered.cached(State(6, 0), "name", lambda: "of 6") == "of 6"


def test_a_large_keyword_file_is_checked_in_little_memory(shelf: Shelf) -> None:
    """Protects against a check whose memory grows with the number of words."""
    shelf.write(TEXTS)
    path = max(epoch_folder(shelf).glob("words/*.words"))
    (listed,) = read_listing(path.parent).segments
    assert describe_damage(path, listed) == ""
    with path.open("r+b") as file:
        file.truncate(40_000_000)
    tracemalloc.start()
    try:
        assert describe_damage(path, listed._replace(size=40_000_000)) == "its checksum differs"
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_unused_vectors_of_a_sibling_are_committed_completely(shelf: Shelf) -> None:
    """Of documents that were not stored after all. Seen to fail (the first rows of the next
    session were named by contents of this one) when only what was recorded was committed."""
    shelf.write(TEXTS)

    class Sibling:
        def vectors(self, contents: set[bytes]) -> dict[bytes, bytes]:
            row = bytes(range(256))[: shelf.embedder.dimensions] * 2
            return dict.fromkeys(contents, row)

    with shelf.session() as session:
        assert isinstance(session, EpochWriter)
        session._siblings = Sibling()  # type: ignore[assignment]
        assert session.missing([bytes([number]) * 32 for number in range(9)]) == set()
        session._inserts.flush()  # As it happens by itself after some hundred.
        session.commit_touches()
    assert not shelf.store.verify()
    shelf.write({"more.md": "# More\n\nglaze\n"})
    assert not shelf.store.verify()
    assert shelf.found("glaze") == ["more.md"]


def test_a_grave_of_a_live_document_is_not_sealed(shelf: Shelf) -> None:
    """Protects against a page that is there and never found again: whoever writes next removes
    what stands in the keyword index of what is in a grave. Seen to fail with graves that were
    sealed as they were."""
    shelf.write(TEXTS)
    (live,) = rows_of(shelf, "SELECT id FROM documents WHERE uri = '1.md'")
    change_row(shelf, "INSERT INTO graves VALUES (?)", live)
    assert shelf.store.verify()
    assert shelf.store.repair(maker(shelf), "a test") == []
    assert not shelf.store.verify()
    shelf.write({"new.md": "# New\n\nglaze\n"})
    assert not shelf.store.verify()
    assert "1.md" in shelf.found("kiln")
