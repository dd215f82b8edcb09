"""Sources outside the folder: added, searched, read, pinned and removed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from lookfar.errors import IndexReadOnly, InvalidArgument, NotFound
from lookfar.library import Library
from lookfar.model import Filters
from lookfar.serve.cli.main import cli

pytestmark = pytest.mark.usefixtures("own_home")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "boats.md").write_text("# Boats\n\nA boat moors in the harbour.\n", encoding="utf-8")
    return folder


@pytest.fixture
def reference(tmp_path: Path) -> Path:
    folder = tmp_path / "reference"
    folder.mkdir()
    text = "# Lamps\n\nThe lighthouse lamp turns every twelve seconds.\n"
    (folder / "lamps.md").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def library(project: Path) -> Iterator[Library]:
    with Library.open(project, settings={"embed.provider": "hash"}) as opened:
        yield opened


def test_an_added_folder_is_searched_read_and_cited(library: Library, reference: Path) -> None:
    change = library.outside.add(str(reference))
    assert change.source.name == "reference@source"
    answer = library.search("lighthouse lamp", sources=True)
    hit = answer.hits[0]
    assert (hit.collection, hit.uri, hit.state) == ("reference@source", "lamps.md", "same")
    assert hit.origin == str(reference)
    assert "twelve" in library.read("lookfar://reference@source/lamps.md").text
    # It is not asked by those who did not ask for it, such as the tools of other systems.
    assert {hit.collection for hit in library.search("lighthouse lamp").hits} <= {"project"}


def test_a_question_of_kind_sources_asks_them_alone(library: Library, reference: Path) -> None:
    note = library.search("lamp", filters=Filters(kinds=("sources",))).incomplete[0]
    assert note.reason == "no_source"
    library.outside.add(str(reference))
    (reference / "harbour.md").write_text("# Harbour\n\nThe harbour is deep.\n", encoding="utf-8")
    answer = library.search("harbour", filters=Filters(kinds=("sources",)))
    assert {hit.collection for hit in answer.hits} == {"reference@source"}
    assert answer.hits[0].uri == "harbour.md"


def test_a_source_belongs_to_the_folder_it_was_added_for(
    library: Library, reference: Path, tmp_path: Path
) -> None:
    library.outside.add(str(reference))
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.md").write_text("# A\n\nNothing.\n", encoding="utf-8")
    with Library.open(other, settings={"embed.provider": "hash"}) as elsewhere:
        hits = elsewhere.search("lighthouse lamp", sources=True).hits
        assert {hit.collection for hit in hits} <= {"other"}
        elsewhere.outside.add(str(reference))
        found = elsewhere.search("lighthouse lamp", sources=True).hits[0]
        assert found.collection == "reference@source"
    # Both folders have it now.
    assert library.search("lighthouse lamp", sources=True).hits[0].uri == "lamps.md"


def test_a_source_is_read_only(library: Library, reference: Path) -> None:
    library.outside.add(str(reference))
    collection = library._members.outside("reference@source")
    with pytest.raises(IndexReadOnly, match="read-only"):
        collection.editor()


def test_removing_leaves_a_folder_elsewhere_alone(library: Library, reference: Path) -> None:
    library.outside.add(str(reference))
    place = library._members.outside("reference@source").index_dir
    assert place.exists()
    library.outside.remove("reference")
    assert (reference / "lamps.md").exists()
    assert library.outside.list_all() == ()
    assert not (place / "CURRENT").exists()
    with pytest.raises(NotFound):
        library.outside.remove("reference")


def test_a_name_means_one_origin(library: Library, reference: Path, tmp_path: Path) -> None:
    library.outside.add(str(reference), name="docs")
    with pytest.raises(InvalidArgument, match="already the name"):
        library.outside.add(str(tmp_path), name="docs")
    with pytest.raises(InvalidArgument, match="There is no"):
        library.outside.add(str(tmp_path / "nowhere"))
    with pytest.raises(InvalidArgument, match="not an address"):
        library.outside.add("ftp://example.org/x")


def test_a_pinned_source_is_not_updated(library: Library, reference: Path) -> None:
    library.outside.add(str(reference))
    library.outside.pin("reference")
    assert library.outside.update() == []
    with pytest.raises(InvalidArgument, match="pinned"):
        library.outside.update(["reference"])
    library.outside.pin("reference", pinned=False)
    assert [change.source.name for change in library.outside.update()] == ["reference@source"]


def test_the_commands(project: Path, reference: Path) -> None:
    run = CliRunner()
    settings = ["--set", "embed.provider=hash"]
    added = run.invoke(cli, ["add", str(reference), str(project), "--json", *settings])
    assert json.loads(added.output)["changes"][0]["source"]["name"] == "reference@source"
    listed = run.invoke(cli, ["sources", "--json", *settings])
    assert [row["name"] for row in json.loads(listed.output)["sources"]] == ["reference@source"]
    searched = run.invoke(cli, ["search", "lamp turns", str(project), *settings])
    assert "reference@source: lamps.md" in searched.output
    assert f"from {reference}" in searched.output
    removed = run.invoke(cli, ["sources", "remove", "reference", "--yes", *settings])
    assert removed.exit_code == 0
    assert "no sources yet" in run.invoke(cli, ["sources", *settings]).output
