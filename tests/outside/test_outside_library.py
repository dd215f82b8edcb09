"""Sources outside the folder: added, searched, read, pinned and removed."""

from __future__ import annotations

import json
import os
import time
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from lookfar.collections.outside.shelf import Shelf
from lookfar.errors import IndexReadOnly, InvalidArgument, NotFound
from lookfar.library import Library
from lookfar.model import Filters, OutsideSource
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
    with pytest.raises(InvalidArgument, match="does not exist"):
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
    updated = run.invoke(cli, ["update", "reference", *settings])
    assert updated.stdout == "reference@source: 1 file\n"
    searched = run.invoke(cli, ["search", "lamp turns", str(project), *settings])
    assert "reference@source: lamps.md" in searched.output
    assert f"from {reference}" in searched.output
    removed = run.invoke(cli, ["sources", "remove", "reference", "--yes", *settings])
    assert removed.exit_code == 0
    assert "no sources yet" in run.invoke(cli, ["sources", *settings]).output


def test_the_list_says_what_is_stale(library: Library, reference: Path, tmp_path: Path) -> None:
    """By what this machine knows: nothing is asked over the network."""
    judge = library.outside.judge
    folder = library.outside.add(str(reference)).source
    assert judge(folder) == ""
    assert judge(replace(folder, pinned=True)) == "pinned"
    archive = tmp_path / "manual.zip"
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("keys.md", "# Keys\n")
    added = library.outside.add(str(archive)).source
    os.utime(archive, (0, 0))
    assert judge(added) == ""
    later = time.time() + 60
    os.utime(archive, (later, later))
    assert judge(added) == "stale: its archive has changed"
    archive.unlink()
    assert judge(added) == "origin is gone"
    old = OutsideSource("x@source", "site", "https://host/", fetched="2020-01-01T00:00:00")
    assert judge(old).startswith("stale: fetched ")
    assert judge(replace(old, kind="package")) == ""


def test_a_search_does_not_wait_for_a_source_that_is_being_replaced(
    library: Library, project: Path, tmp_path: Path
) -> None:
    with zipfile.ZipFile(tmp_path / "manual.zip", "w") as archive:
        archive.writestr("lamps.md", "# Lamps\n\nThe lamp turns.\n")
    library.outside.add(str(tmp_path / "manual.zip"))
    (place,) = (tmp_path / "home").rglob("manual-source-*/record.json")
    shelf = Shelf(place.parent.parent)
    settings = {"embed.provider": "hash"}
    with Library.open(project, settings=settings) as other, shelf.writing("manual@source"):
        (place.parent / "next.json").write_bytes(b"being written")
        for opened in (library, other):  # One has the source open, and one has not.
            hits = opened.search("lamp turns", sources=True).hits
            assert hits[0].collection == "manual@source"


def test_a_source_that_cannot_be_opened_does_not_hide_the_others(
    project: Path, reference: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"embed.provider": "hash"}
    with zipfile.ZipFile(tmp_path / "manual.zip", "w") as archive:
        archive.writestr("lamps.md", "# Lamps\n\nThe lamp turns.\n")
    with Library.open(project, settings=settings) as library:
        library.outside.add(str(reference))
        library.outside.add(str(tmp_path / "manual.zip"))
    (record,) = (tmp_path / "home").rglob("manual-source-*/record.json")
    (record.parent / "next.json").write_bytes(b"interrupted")
    (record.parent / "writer.lock").unlink()
    (record.parent / "writer.lock").mkdir()  # So that it cannot be finished.
    with Library.open(project, settings=settings) as library:
        hits = library.search("lamp turns", sources=True).hits
        assert hits[0].collection == "reference@source"
    assert "manual@source cannot be searched" in caplog.text


def test_an_update_keeps_what_others_changed_meanwhile(
    library: Library, project: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for name in ("a", "b", "c"):
        with zipfile.ZipFile(tmp_path / f"{name}.zip", "w") as archive:
            archive.writestr("lamps.md", "# Lamps\n")
        library.outside.add(str(tmp_path / f"{name}.zip"))
    changed = False

    def change(_what: str, _done: int, _total: int) -> None:
        nonlocal changed
        if not changed:
            changed = True
            with Library.open(other, settings={"embed.provider": "hash"}) as second:
                second.outside.pin("b")
                second.outside.remove("c")

    notes = {change.source.name: change.notes for change in library.outside.update(on_fetch=change)}
    assert changed
    assert notes["b@source"] == ("not updated: b@source is pinned.",)
    assert "There is no source" in notes["c@source"][0]
    assert [(s.name, s.pinned) for s in library.outside.list_all()] == [
        ("a@source", False),
        ("b@source", True),
    ]


def test_a_name_that_is_not_known_leaves_nothing(library: Library, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        library.outside.pin("nothing")
    assert not list((tmp_path / "home").rglob("nothing-*"))


def test_a_path_below_the_home_is_understood(library: Library, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir(exist_ok=True)
    with zipfile.ZipFile(tmp_path / "home" / "manual.zip", "w") as archive:
        archive.writestr("lamps.md", "# Lamps\n")
    change = library.outside.add("~/manual.zip")
    assert (change.source.kind, change.added) == ("archive", ("lamps.md",))
