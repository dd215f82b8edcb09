"""Filters without words list documents of every kind of collection."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from lookfar.errors import InvalidArgument
from lookfar.library import Library
from lookfar.model import Filters
from lookfar.serve.cli.main import cli

pytestmark = pytest.mark.usefixtures("own_home")

Make = Callable[..., Any]


@pytest.fixture
def project(repository: Make) -> Path:
    made = repository("project")
    made.commit("Add the guide", {"guide.md": "# Guide\n\nHow boats moor.\n\n#harbour\n"})
    files = {
        "src/boat.py": "def moor():\n    return 1\n",
        "src/deep/sail.py": "def reef():\n    return 2\n",
        "notes/plan.md": "---\ntags: [harbour]\n---\n# Plan\n\nPaint the boat, not the zebra.\n",
        "empty.md": "",
    }
    made.commit("Add boats", files)
    return Path(made.path)


@pytest.fixture
def library(project: Path, tmp_path: Path) -> Iterator[Library]:
    settings = {
        "embed.provider": "hash",
        "index.workers": 1,
        "git.cool_down_seconds": 0,
        "memory.dir": str(tmp_path / "memory"),
        "documents.dir": str(tmp_path / "db"),
    }
    with Library.open(project, index_dir=tmp_path / "index", settings=settings) as opened:
        yield opened


def uris(library: Library, **filters: Any) -> list[str]:
    return [document.uri for document in library.list_documents(Filters(**filters)).documents]


def test_all_documents_are_listed_by_uri(library: Library) -> None:
    listing = library.list_documents()
    everything = ["empty.md", "guide.md", "notes/plan.md", "src/boat.py", "src/deep/sail.py"]
    assert [document.uri for document in listing.documents] == everything
    assert listing.total == 5
    assert listing.generations == {"project": 1}


def test_filters_admit_what_a_search_could_find(library: Library) -> None:
    """Fails if globs are not resolved, or if exclusions are ignored."""
    assert uris(library, prefix="src/") == ["src/boat.py", "src/deep/sail.py"]
    assert uris(library, glob="src/*.py") == ["src/boat.py"]
    assert uris(library, glob="*.nothing") == []
    assert uris(library, lanes=("code",)) == ["src/boat.py", "src/deep/sail.py"]
    assert uris(library, languages=("python",)) == ["src/boat.py", "src/deep/sail.py"]
    assert uris(library, tags=("harbour",)) == ["guide.md", "notes/plan.md"]
    assert uris(library, heading="Plan") == ["notes/plan.md"]
    assert uris(library, phrases=("the boat",)) == ["notes/plan.md"]
    assert uris(library, tags=("harbour",), without=("zebra",)) == ["guide.md"]
    assert uris(library, uris=("empty.md",)) == ["empty.md"]


def test_listing_has_title_kind_size_and_time(library: Library) -> None:
    (listing,) = library.list_documents(Filters(uris=("src/boat.py",))).documents
    assert (listing.collection, listing.lane, listing.language) == ("project", "code", "python")
    assert (listing.size, listing.lines) == (len("def moor():\n    return 1\n"), 2)
    assert listing.modified_ns > 10**18
    guide = library.list_documents(Filters(uris=("guide.md",))).documents[0]
    assert (guide.title, guide.tags, guide.lines) == ("Guide", ("harbour",), 5)


def test_listing_is_paged(library: Library) -> None:
    """Fails if the limit is applied before the offset."""
    pages = [library.list_documents(limit=2, offset=offset) for offset in (0, 2, 4, 6)]
    assert [len(page.documents) for page in pages] == [2, 2, 1, 0]
    assert {page.total for page in pages} == {5}
    listed = [document.uri for page in pages for document in page.documents]
    assert listed == [document.uri for document in library.list_documents().documents]


def test_search_without_words_lists_documents(library: Library, project: Path) -> None:
    """Used to fail: the query was rejected as empty. Fails if the oldest come first."""
    os.utime(project / "src/deep/sail.py", (1_500_000_000, 1_500_000_000))
    os.utime(project / "src/boat.py", (1_600_000_000, 1_600_000_000))
    answer = library.search("  ", filters=Filters(lanes=("code",)), top_k=1)
    assert answer.hits == ()
    assert [document.uri for document in answer.documents] == ["src/boat.py"]
    assert answer.total == 2
    assert answer.generations == {"project": 1}


def test_search_without_words_and_filters_is_rejected(library: Library) -> None:
    with pytest.raises(InvalidArgument, match="empty"):
        library.search(" ")
    with pytest.raises(InvalidArgument, match="empty"):
        library.search("", filters=Filters())


def test_commits_are_listed_newest_first(library: Library, repository: Make) -> None:
    """Fails if commits are sorted by hash."""
    later = [f"Change {number}" for number in range(6)]
    made = repository("project")
    for number, title in enumerate(later):
        made.commit(title, second=1_900_000_000 + number)
    listing = library.list_documents(Filters(lanes=("commits",)))
    titles = [document.title for document in listing.documents]
    assert titles == [*reversed(later), "Add boats", "Add the guide"]
    touched = library.list_documents(Filters(touches="src/*.py"))
    assert [document.title for document in touched.documents] == ["Add boats"]
    assert all(document.collection.endswith("@git") for document in touched.documents)


def test_memories_and_inserted_documents_are_listed_if_asked_for(
    library: Library,
) -> None:
    library.remember("We retry three times.", title="Retries", tags=["net"])
    library.database().insert("Inserted words about boats.")
    remembered = library.list_documents(Filters(lanes=("memory",)))
    assert [(d.uri, d.lane) for d in remembered.documents] == [("retries.md", "memory")]
    inserted = library.list_documents(Filters(lanes=("documents",)))
    assert [document.lane for document in inserted.documents] == ["documents"]
    beside = library.list_documents(memories=True)
    assert "retries.md" in [document.uri for document in beside.documents]


def test_missing_memories_are_noted(library: Library) -> None:
    listing = library.list_documents(Filters(lanes=("memory",)))
    assert listing.documents == ()
    assert [note.reason for note in listing.incomplete] == ["no_memory"]


def test_listing_is_as_up_to_date_as_a_search(library: Library, project: Path) -> None:
    """Fails if the list reads the store without checking the disk."""
    assert "new.md" not in uris(library)
    (project / "new.md").write_text("# New\n", encoding="utf-8")
    assert "new.md" in uris(library)


@pytest.mark.parametrize("given", [{"limit": 0}, {"limit": 10_000}, {"offset": -1}])
def test_limits_are_checked(library: Library, given: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        library.list_documents(**given)


def test_command_prints_the_listing(project: Path, tmp_path: Path) -> None:
    """Fails with "Nothing found" for documents without hits."""
    given = ["--index-dir", str(tmp_path / "index"), "--set", "embed.provider=hash"]
    ran = CliRunner().invoke(cli, ["search", "", str(project), *given, "--glob", "src/**"])
    assert ran.exit_code == 0, ran.output
    assert "src/boat.py" in ran.output
    assert "2 of 2 documents" in ran.output
    assert "Nothing found" not in ran.output
