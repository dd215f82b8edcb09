"""Several folders in one library: each its own index, one ranked answer, nothing mixed up."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from lookfar.errors import Ambiguous, InvalidArgument, NotFound
from lookfar.library import Library
from lookfar.serve.cli.main import cli

pytestmark = pytest.mark.usefixtures("own_home")

HASH = {"embed.provider": "hash", "index.workers": 1}


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """Many pages, some of which speak of zebras in passing."""
    folder = tmp_path / "docs"
    folder.mkdir()
    for number in range(200):
        more = "A zebra stands by, among many other animals of the plain.\n" * (number < 20)
        (folder / f"page{number}.md").write_text(f"# Page {number}\n\nplain words here\n{more}")
    (folder / "both.md").write_text("# Both\n\nfrom docs\n")
    return folder


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "plan.md").write_text("# Plan\n\nThe zebra.\n\n## Next\n\nokapi\n")
    (folder / "both.md").write_text("# Both\n\nfrom notes\n")
    return folder


@pytest.fixture
def library(docs: Path, notes: Path, tmp_path: Path) -> Iterator[Library]:
    with Library.open(docs, notes, index_dir=tmp_path / "index", settings=HASH) as opened:
        yield opened


def test_one_question_is_answered_from_all_folders(library: Library) -> None:
    answer = library.search("from", mode="keyword", top_k=10)
    assert {(hit.collection, hit.uri) for hit in answer.hits} == {
        ("docs", "both.md"), ("notes", "both.md"),
    }  # fmt: skip
    assert {hit.text.strip().split()[-1] for hit in answer.hits} == {"docs", "notes"}
    assert answer.generations == {"docs": 1, "notes": 1}
    assert answer.generation == 0


def test_a_small_folder_is_not_drowned_by_a_large_one(library: Library) -> None:
    """Seen to fail with each folder's own word statistics: two notes make every word common."""
    first = library.search("zebra", mode="keyword").hits[0]
    assert (first.collection, first.uri) == ("notes", "plan.md")


def test_alone_or_named_a_folder_answers_the_same(library: Library, docs: Path) -> None:
    """Sharing statistics must not change what one folder alone would say."""
    named = library.search("zebra", collections=["docs"]).hits
    with Library.open(
        docs, index_dir=library.folder("docs").index_dir.parent, settings=HASH
    ) as one:
        alone = one.search("zebra").hits
    assert [(h.uri, h.score) for h in named] == [(h.uri, h.score) for h in alone]
    assert named[0].collection == "docs"


def test_neighbours_of_two_folders_are_not_merged(library: Library) -> None:
    """Both folders number their documents from one; their passages stay apart."""
    hits = library.search("both", mode="keyword").hits
    assert [hit.uri for hit in hits].count("both.md") == 2
    assert all(hit.state == "same" for hit in hits)


def test_what_concerns_one_collection_has_to_name_it(library: Library) -> None:
    with pytest.raises(InvalidArgument, match="2 collections") as raised:
        library.index()
    assert raised.value.details["candidates"] == ["docs", "notes"]
    assert library.index(collection="notes").added == 2
    assert library.status(collection="notes").counts.documents == 2
    with pytest.raises(InvalidArgument, match="'nots'"):
        library.status(collection="nots")
    with pytest.raises(InvalidArgument, match="generation"):
        library.search("zebra", as_of=1)
    assert library.search("zebra", as_of=1, collections=["notes"]).generation == 1


def test_a_document_is_read_from_the_folder_that_has_it(library: Library) -> None:
    library.search("zebra")
    assert library.read("plan.md#Next").collection == "notes"
    assert library.read("both.md", collection="docs").text.endswith("from docs\n")
    assert library.read("lookfar://notes/both.md:3").text == "from notes\n"
    assert library.outline("plan.md").collection == "notes"
    with pytest.raises(Ambiguous) as raised:
        library.read("both.md")
    assert raised.value.details["candidates"] == ["docs", "notes"]
    with pytest.raises(NotFound, match="No collection"):
        library.read("nowhere.md")
    for broken in ("lookfar://notes", "lookfar://notes/"):
        with pytest.raises(InvalidArgument):
            library.read(broken)


def test_folders_of_one_name_are_told_apart(tmp_path: Path) -> None:
    for owner in ("ann", "bob"):
        (tmp_path / owner / "docs").mkdir(parents=True)
        (tmp_path / owner / "docs" / "a.md").write_text(f"# A\n\nzebra of {owner}\n")
    twins = [tmp_path / owner / "docs" for owner in ("ann", "bob")]
    with Library.open(*twins, index_dir=tmp_path / "index", settings=HASH) as library:
        assert library.collections == ("ann/docs", "bob/docs")
        hits = library.search("zebra").hits
        assert sorted(hit.collection for hit in hits) == ["ann/docs", "bob/docs"]
        assert "bob" in library.read("lookfar://bob%2Fdocs/a.md").text


def test_the_same_folder_twice_is_one(docs: Path, tmp_path: Path) -> None:
    again = docs.parent / "notes" / ".." / "docs"
    (tmp_path / "notes").mkdir()
    with Library.open(docs, again, index_dir=tmp_path / "index", settings=HASH) as library:
        assert library.collections == ("docs",)


def test_damage_in_one_folder_is_healed_there_alone(library: Library) -> None:
    library.search("zebra")
    catalogue = next(library.folder("notes").index_dir.glob("*/catalogue.db"))
    untouched = sorted(library.folder("docs").index_dir.rglob("*"))
    with catalogue.open("r+b") as file:
        file.write(b"not a database at all" * 400)
    catalogue.with_name("catalogue.db-wal").unlink(missing_ok=True)
    library.folder("notes").store.close()
    answer = library.search("zebra")
    assert [note.reason for note in answer.incomplete] == ["healed"]
    assert answer.hits[0].uri == "plan.md"
    assert sorted(library.folder("docs").index_dir.rglob("*")) == untouched


def test_both_are_followed(library: Library, docs: Path, notes: Path) -> None:
    library.watch()
    assert library.drain(30.0)
    (docs / "new.md").write_text("# New\n\nquagga\n")
    (notes / "new.md").write_text("# New\n\nquagga, too\n")
    assert library.drain(30.0)
    hits = library.search("quagga", mode="keyword").hits
    assert sorted(hit.collection for hit in hits) == ["docs", "notes"]
    library.unwatch()
    assert library.watching(collection="docs") is None


def test_a_changed_file_of_one_folder_is_named_with_it(library: Library, notes: Path) -> None:
    library.search("zebra")
    number = library.folder("notes").status().generation
    (notes / "plan.md").write_text("# Plan\n\nquagga\n")
    library.index(collection="notes")
    library.folder("notes").generations.roll_back(number)
    notes_said = [note.detail for note in library.search("zebra").incomplete]
    assert notes_said
    assert notes_said[0].startswith("notes: the index is held")


def test_the_command_line_takes_several_folders(docs: Path, notes: Path, tmp_path: Path) -> None:
    def ask(*arguments: object) -> dict[str, object]:
        given = [str(each) for each in arguments]
        fixed = ["--json", "--index-dir", str(tmp_path / "ix"), "--set", "embed.provider=hash"]
        result = CliRunner().invoke(cli, [*given, *fixed])
        assert result.exit_code == 0, result.output
        shape: dict[str, object] = json.loads(result.stdout)
        return shape

    indexed = ask("index", docs, notes)["collections"]
    assert [each["collection"] for each in indexed] == ["docs", "notes"]  # type: ignore[attr-defined]
    found = ask("search", "zebra", docs, notes)
    assert found["hits"][0]["collection"] == "notes"  # type: ignore[index]
    assert found["generations"] == {"docs": 1, "notes": 1}
    told = ask("status", docs, notes)["collections"]
    assert [each["documents"] for each in told] == [201, 2]  # type: ignore[attr-defined]
    assert ask("status", notes)["documents"] == 2
