"""Derived data is rebuilt from stored texts, and stored texts from the sources."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lookfar.collections import healing
from lookfar.errors import IndexCorrupt
from lookfar.library import Library
from lookfar.ports import StoredDocument
from lookfar.store.catalogue import rows
from lookfar.store.health.repair import repair
from lookfar.store.keywords.keyword_index import KEYWORDS, LISTING
from waiting import wait_for

pytestmark = pytest.mark.usefixtures("own_home")

SETTINGS = {"embed.provider": "hash", "index.workers": 1, "git.history": False}
ULID = "01HZZZZZZZZZZZZZZZZZZZZZZ"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    for number in range(12):
        (folder / f"{number}.md").write_text(
            f"---\ntags: [t{number}]\n---\n# Page {number}\n\nzebra{number} text\n\n"
            f"## Part\n\n```\ncode_{number}()\n```\n\n[[{number + 1}]]\n"
        )
    (folder / "a.py").write_text('def load(path):\n    """Read it."""\n    return path\n')
    return folder


@pytest.fixture
def library(root: Path, tmp_path: Path) -> Iterator[Library]:
    """Three generations, one of them pinned."""
    settings = {**SETTINGS, "documents.dir": str(tmp_path / "documents")}
    with Library.open(root, index_dir=tmp_path / "index", settings=settings) as opened:
        opened.index()
        (root / "1.md").write_text("# Other\n\ngiraffe\n")
        opened.index()
        opened.pin(1)
        (root / "2.md").unlink()
        opened.index()
        yield opened


def epoch(library: Library) -> Path:
    (found,) = library.index_dir.glob("epoch-*")
    return found


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 4
    beside = path.with_name(f"{path.name}.new")
    beside.write_bytes(data)
    os.replace(beside, path)


def spoil(library: Library, what: str) -> None:
    library.close()
    place = epoch(library)
    vectors = place / "vectors.f16"
    match what:
        case "a vector":
            flip(vectors, 64 + 5)
        case "the header":
            flip(vectors, 3)
        case "a cut":
            vectors.write_bytes(vectors.read_bytes()[:100])
        case "no vectors":
            vectors.unlink()
        case "keywords":
            flip(max((place / KEYWORDS).glob("*.words"), key=lambda each: each.stat().st_size), 9)
        case "meta":
            (place / KEYWORDS / LISTING).write_bytes(b"{}")
        case "no keywords":
            shutil.rmtree(place / KEYWORDS)
        case "the pointer":
            (library.index_dir / "CURRENT").write_bytes(b"epoch-7")
        case "garbage":
            (library.index_dir / "CURRENT").write_bytes(b"\0\0\0")


def told(library: Library) -> list[tuple[str, str]]:
    questions = ("zebra3 text", "load a path", "giraffe", "code_7")
    return [(hit.uri, hit.text) for question in questions for hit in library.search(question).hits]


DERIVED = (
    *("a vector", "the header", "a cut", "no vectors", "keywords", "meta", "no keywords"),
    *("the pointer", "garbage"),
)


@pytest.mark.parametrize("what", DERIVED)
def test_derived_data_is_rebuilt_and_no_generation_is_lost(library: Library, what: str) -> None:
    """Seen to fail (one generation was left, and the pin was gone) when everything was rebuilt."""
    before, kept = told(library), library.snapshots()
    spoil(library, what)
    (done, *_) = library.verified(repair=True)
    assert done.found
    assert done.repaired
    assert done.left == ()
    assert library.snapshots() == kept
    assert told(library) == before
    (earlier,) = [hit.uri for hit in library.search("zebra2", mode="keyword", as_of=1).hits][:1]
    assert earlier == "2.md"
    assert library.status().damage
    assert library.index().generation == kept[-1].number


@pytest.mark.parametrize("what", ["a cut", "keywords", "no keywords", "the pointer"])
def test_a_search_repairs_the_index_and_says_so(library: Library, what: str) -> None:
    before, kept = told(library), library.snapshots()
    spoil(library, what)
    answer = library.search("zebra3 text")
    assert [note.reason for note in answer.incomplete] == ["healed"]
    assert told(library) == before
    assert library.snapshots() == kept


def change(library: Library, *statements: str) -> None:
    """Damage rows behind the store's back, as a flipped bit does."""
    library.close()
    with closing(sqlite3.connect(epoch(library) / "catalogue.db")) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


ROWS = (
    "UPDATE documents SET title = 'Wrong' WHERE uri = '7.md'",
    "UPDATE chunks SET path = 'Wrong' WHERE document = (SELECT id FROM documents WHERE uri='7.md')",
    "UPDATE texts SET body = x'00' WHERE sha = (SELECT text_sha FROM documents WHERE uri = '7.md')",
    "DELETE FROM sections WHERE document = (SELECT id FROM documents WHERE uri = '7.md')",
    "UPDATE documents SET uri = '7.mx' WHERE uri = '7.md'",
    "DELETE FROM documents WHERE uri = '7.md'",
    "DELETE FROM checks WHERE document = (SELECT id FROM documents WHERE uri = '7.md')",
    "INSERT INTO communities VALUES ('7.md', 99)",
    "INSERT INTO left_out VALUES ('x', 0, 'b', 'c', 1, 2, 3, 4, 1)",
)


@pytest.mark.parametrize("statement", ROWS)
def test_only_damaged_documents_are_read_again(library: Library, statement: str) -> None:
    """Seen to fail (one generation was left) when any damage of a row meant a new epoch."""
    before, kept = told(library), library.snapshots()
    change(library, statement)
    (done, *_) = library.verified(repair=True)
    assert done.found
    assert done.repaired, done.left
    assert told(library) == before
    assert {generation.number for generation in kept} <= {
        snapshot.number for snapshot in library.snapshots()
    }
    (early,) = library.search("zebra2", mode="keyword", as_of=1).hits[:1]
    assert early.uri == "2.md"
    assert library.verify() == []


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE meta SET value = '99' WHERE key = 'last_key'",
        "UPDATE generations SET manifest = '{}' WHERE number = 2",
        "DROP TABLE tags",
    ],
)
def test_a_badly_damaged_catalogue_is_rebuilt_from_the_sources(
    library: Library, statement: str
) -> None:
    before = told(library)
    change(library, statement)
    (done, *_) = library.verified(repair=True)
    assert done.repaired
    assert told(library) == before
    assert len(library.snapshots()) == 1


def test_a_text_that_a_search_finds_damaged_is_read_again(library: Library) -> None:
    before, kept = told(library), library.snapshots()
    change(library, ROWS[2])
    page = library.page("7.md")
    assert "zebra7" in page.text
    assert told(library) == before
    assert {generation.number for generation in kept} <= {
        snapshot.number for snapshot in library.snapshots()
    }


def test_an_unexpected_error_where_rows_are_read_is_checked_for_damage(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that do not fit each other, such as those of a table and of its index, end in whatever
    exception. Seen to fail with the KeyError."""
    change(library, ROWS[0])
    read = rows.live_text
    failures = iter([KeyError("7")])

    def read_text(*given: Any) -> Any:
        for failure in failures:
            raise failure
        return read(*given)

    monkeypatch.setattr(rows, "live_text", read_text)
    assert "zebra7" in library.page("7.md").text
    assert library.verify() == []
    assert "KeyError: '7'" in library.status(check=False).damage


def test_an_error_of_ranking_is_not_damage(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen to fail when every exception meant a rebuild, and when it had the index checked."""
    kept = library.snapshots()

    def mistaken(*_: object, **__: object) -> None:
        raise KeyError("of ranking")

    with monkeypatch.context() as patched:
        patched.setattr("lookfar.retrieve.search.choose_confidently", mistaken)
        patched.setattr(type(library.folder().store), "verify", mistaken)
        with pytest.raises(KeyError, match="of ranking"):
            library.search("zebra7")
    assert library.snapshots() == kept
    assert not library.status(check=False).damage


def test_a_follower_answers_from_the_sound_parts_meanwhile(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And says which documents are missing. Seen to fail when the question waited for the pass."""
    library.watch()
    assert library.drain(30)
    folder = library.folder()
    with closing(sqlite3.connect(epoch(library) / "catalogue.db")) as connection:
        connection.execute(ROWS[2])
        connection.commit()
    started: list[object] = []
    monkeypatch.setattr(folder, "start_index", lambda **how: started.append(how["only"]))
    note = folder.heal(IndexCorrupt("x", hint="y", developer="a text"))
    assert started == [["7.md"]]
    assert note.reason == "healed"
    assert note.uris == ("7.md",)
    assert "are being read again" in note.detail
    library.unwatch()


def test_verify_changes_nothing(library: Library) -> None:
    spoil(library, "a vector")
    (done, *_) = library.verified()
    assert done.found == done.left != ()
    assert not done.repaired
    assert library.verify() != []


def test_vectors_of_another_model_are_not_patched(library: Library, root: Path) -> None:
    spoil(library, "a vector")
    settings = {**SETTINGS, "embed.code_provider": "hash"}
    with Library.open(root, index_dir=library.index_dir.parent, settings=settings) as other:
        (done, *_) = other.verified(repair=True)
        assert done.repaired
        assert len(other.snapshots()) == 1  # It was rebuilt.


def test_an_epoch_is_repaired_only_with_its_own_fingerprint(library: Library) -> None:
    """Another model may give vectors of the same length, and nothing else would tell them apart.

    Seen to fail (a row of the other model was written) when fingerprints were not compared.
    """
    own = library.folder().make_maker()
    spoil(library, "a vector")
    vectors = epoch(library) / "vectors.f16"
    damaged = vectors.read_bytes()

    def negated(
        documents: Sequence[StoredDocument], wanted: Collection[bytes]
    ) -> dict[bytes, bytes]:
        made = own.make_vectors(documents, wanted)
        return {name: (-np.frombuffer(row, "<f2")).tobytes() for name, row in made.items()}

    other = own._replace(fingerprint="of another model", make_vectors=negated)
    assert repair(epoch(library), other) is None
    assert vectors.read_bytes() == damaged
    assert repair(epoch(library), own) == []
    assert vectors.read_bytes() != damaged
    assert library.verify() == []


# --- inserted documents -----------------------------------------------------------------------


@pytest.mark.parametrize("what", ["vectors.f16", KEYWORDS, "CURRENT"])
def test_a_database_is_repaired_without_a_source(library: Library, what: str) -> None:
    database = library.database("notes")
    database.create()
    for number in range(4):
        database.insert(f"zebra{number} in a note.", {"title": "N"}, doc_id=f"{ULID}{number}")
    before = list(database.entries())
    database.rest()
    (place,) = database.index_dir.glob("epoch-*")
    if what == "vectors.f16":
        flip(place / what, 70)
    elif what == KEYWORDS:
        shutil.rmtree(place / what)
    else:
        (database.index_dir / what).write_bytes(b"epocX-1")
    done = {report.collection: report for report in library.verified(repair=True)}[
        "notes@documents"
    ]
    assert done.found
    assert done.repaired
    assert list(database.entries()) == before
    hits, _ = library.find_similar("zebra2 in a note", database="notes")
    assert hits


def test_documents_without_a_source_are_left_as_they_are(library: Library) -> None:
    database = library.database("notes")
    database.create()
    database.insert("zebra in a note", {}, doc_id=f"{ULID}1")
    database.rest()
    (place,) = database.index_dir.glob("epoch-*")
    (place / "documents.log").unlink()
    with (place / "catalogue.db").open("r+b") as file:
        file.truncate(6000)
    size = (place / "catalogue.db").stat().st_size
    done = {report.collection: report for report in library.verified(repair=True)}[
        "notes@documents"
    ]
    assert done.left
    assert not done.repaired
    assert (place / "catalogue.db").stat().st_size == size
    with pytest.raises(IndexCorrupt):
        list(database.entries())


def test_a_database_returns_no_document_under_a_wrong_name(library: Library) -> None:
    """An export may be all that is left of it. Seen to fail (it was exported so)."""
    database = library.database("notes")
    database.create()
    database.insert("zebra in a note", {}, doc_id=f"{ULID}1")
    database.rest()
    (place,) = database.index_dir.glob("epoch-*")
    with closing(sqlite3.connect(place / "catalogue.db")) as connection:
        connection.execute("UPDATE documents SET uri = ?", (f"{ULID}2",))
        connection.commit()
    with pytest.raises(IndexCorrupt):
        list(database.entries())


# --- while a folder is followed ---------------------------------------------------------------


def test_a_follower_checks_and_repairs_its_folder(
    library: Library, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No search touches the damage. Seen to fail without the daily check."""
    monkeypatch.setattr(healing, "FIRST_SECONDS", 0.0)
    spoil(library, "a vector")
    with Library.open(root, index_dir=library.index_dir.parent, settings=SETTINGS) as follower:
        follower.watch()
        (root / "new.md").write_text("# New\n\ntext\n")
        wait_for(lambda: follower.status(check=False).damage)
        follower.unwatch()
        assert "vectors" in follower.status(check=False).damage
        assert follower.verify() == []
