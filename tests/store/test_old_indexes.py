"""Indexes of every earlier format: they open or are rebuilt, and answer correctly either way.

What is indexed can be read again; inserted documents exist nowhere else, so those are kept.
Seen to fail with a program that refused whatever format was not its own.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from harness import report
from lookfar.collections.folder import Folder
from lookfar.library import Library
from lookfar.model import Filters
from lookfar.store.catalogue.migrations import FORMAT

OLD = Path(__file__).parent / "old_indexes"
SETTINGS = {"embed.provider": "hash", "index.workers": 1}
INDEXES = sorted(path.name for path in OLD.glob("format-*.tar.xz"))
DATABASES = sorted(path.name for path in OLD.glob("documents-*.tar.xz"))

pytestmark = pytest.mark.usefixtures("own_home")


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """The files that the kept indexes were made from."""
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "guide.md").write_text(
        "---\ntags: [ops]\n---\n\n# Guide\n\nHow to begin; see [the keys](keys.md).\n\n"
        "## Install\n\nUnpack the archive in the harbour.\n"
    )
    (folder / "keys.md").write_text(
        "# Keys\n\nThe signing key rotates every sixty days. Back to [the guide](guide.md).\n"
    )
    (folder / "rotate.py").write_text('def rotate(key):\n    """Rotate a key."""\n    return key\n')
    return folder


def unpack(archive: str, into: Path) -> None:
    with tarfile.open(OLD / archive) as packed:
        if hasattr(tarfile, "data_filter"):
            packed.extractall(into, filter="data")
        else:  # Debian 12 has 3.11.2, which does not know filters.
            packed.extractall(into)


def placed(archive: str, docs: Path, tmp_path: Path) -> Path:
    """Put the old index where the library expects that of ``docs``; return the index folder."""
    index = tmp_path / "index"
    with Library.open(docs, index_dir=index, settings=SETTINGS) as library:
        folder = library.index_dir
    folder.mkdir(parents=True, exist_ok=True)
    unpack(archive, folder)
    return index


def answers(library: Library) -> dict[str, list[tuple[str, str]]]:
    """Return the hits and their passages."""
    return {
        query: sorted((hit.uri, hit.text) for hit in library.search(query, top_k=10).hits)
        for query in ("signing key rotates", "unpack the archive", "rotate")
    }


@pytest.mark.parametrize("archive", INDEXES)
def test_an_old_index_answers_like_a_new_one(archive: str, docs: Path, tmp_path: Path) -> None:
    index = placed(archive, docs, tmp_path)
    with Library.open(docs, index_dir=tmp_path / "fresh", settings=SETTINGS) as fresh:
        fresh.index()
        right = answers(fresh)
    with Library.open(docs, index_dir=index, settings=SETTINGS) as library:
        first = library.search("signing key rotates", top_k=10)
        assert "damaged" not in str(first.incomplete)
        assert {hit.uri for hit in first.hits} >= {"keys.md"}
        assert all("sixty" in hit.text for hit in first.hits if hit.uri == "keys.md")
        library.index(wait_seconds=60)
        assert answers(library) == right
        assert library.verify() == []
        assert [entry.uri for entry in library.related("keys.md").entries if entry.uri] != []
        (docs / "new.md").write_text("# New\n\nA quagga in the harbour.\n")
        assert {hit.uri for hit in library.search("quagga", mode="keyword").hits} == {"new.md"}
        # What is only old is not damaged, although the keywords had other fields before format 4.
        assert library.status().damage == ""
        assert not list(library.index_dir.glob("damaged-*"))
    report(f"upgrade of {archive.removesuffix('.tar.xz')}", trials=1)


@pytest.mark.parametrize("archive", INDEXES)
def test_an_old_index_answers_while_a_new_one_is_built(
    archive: str, docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a server, which builds the new one in the background."""
    index = placed(archive, docs, tmp_path)
    monkeypatch.setattr(Folder, "start_index", lambda _: None)
    monkeypatch.setattr(Folder, "catch_up", lambda *_: None)
    with Library.open(docs, index_dir=index, settings=SETTINGS) as library:
        library.watch()
        answer = library.search("unpack the archive", top_k=1)
        assert [hit.uri for hit in answer.hits] == ["guide.md"]
        assert [note.reason for note in answer.incomplete] == ["rebuilding"]
        # Before format 7, properties and tags are read from the stored front matter.
        for filters in (Filters(tags=("OPS",)), Filters(where=("tags=ops",))):
            hits = library.search("unpack the archive", filters=filters).hits
            assert {hit.uri for hit in hits} == {"guide.md"}
        assert not list(library.index_dir.glob("damaged-*"))


@pytest.mark.parametrize("archive", INDEXES)
def test_two_processes_can_read_an_old_index(archive: str, docs: Path, tmp_path: Path) -> None:
    """One migrates or rebuilds while the other searches."""
    index = placed(archive, docs, tmp_path)
    with (
        Library.open(docs, index_dir=index, settings=SETTINGS) as one,
        Library.open(docs, index_dir=index, settings=SETTINGS) as two,
    ):
        for library in (one, two, one, two):
            found = library.search("unpack the archive", top_k=1).hits
            assert [hit.uri for hit in found] == ["guide.md"]
        one.index(wait_seconds=60)
        assert answers(two) == answers(one)


@pytest.mark.parametrize("archive", DATABASES)
def test_no_inserted_document_is_lost(archive: str, docs: Path, tmp_path: Path) -> None:
    unpack(archive, tmp_path / "documents" / "texts")
    settings = {**SETTINGS, "documents.dir": str(tmp_path / "documents")}
    with Library.open(docs, index_dir=tmp_path / "index", settings=settings) as library:
        texts = library.database("texts")
        found, _ = library.find_similar("zebras drink at dawn", database="texts", top_k=1)
        assert [match.text.strip() for match in found] == ["Zebras drink at dawn by the harbour."]
        assert texts.status().counts.documents == 3
        made = texts.insert("A quagga joins them.", {})
        assert texts.status().counts.documents == 4
        texts.delete(made.doc_id)
        assert texts.status().counts.documents == 3
        held = sorted(line for line in texts.export_lines())
        assert len(held) == 3
        assert all(any(each in line for line in held) for each in ("Zebras", "sixty", "設定"))
    assert not list((tmp_path / "documents").rglob("damaged-*"))
    report(f"upgrade of {archive.removesuffix('.tar.xz')}", trials=1, note="nothing lost")


@pytest.mark.parametrize("archive", DATABASES)
def test_erasing_from_an_old_database_leaves_no_earlier_keywords(
    archive: str, docs: Path, tmp_path: Path
) -> None:
    """Seen to fail: they have the words of the erased document, and only a rebuild removed them."""
    unpack(archive, tmp_path / "documents" / "texts")
    settings = {**SETTINGS, "documents.dir": str(tmp_path / "documents")}
    with Library.open(docs, index_dir=tmp_path / "index", settings=settings) as library:
        texts = library.database("texts")
        (line,) = (line for line in texts.export_lines() if "Zebras" in line)
        texts.delete(json.loads(line)["doc_id"])
        assert not list((tmp_path / "documents").rglob("keywords"))
        assert len(list(texts.export_lines())) == 2
        found, _ = library.find_similar("signing key", database="texts", top_k=1)
        assert "signing key" in found[0].text


def test_every_earlier_format_has_a_sample() -> None:
    kept = {int(name.removeprefix("format-").removesuffix(".tar.xz")) for name in INDEXES}
    # 3 and 4 came in one step.
    assert kept | {3} >= set(range(1, FORMAT))
    # Databases came with format 4.
    databases = {
        int(name.removeprefix("documents-format-").removesuffix(".tar.xz")) for name in DATABASES
    }
    assert databases >= set(range(4, FORMAT))
