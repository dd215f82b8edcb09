"""A folder as people have it: a PDF, notes, old encodings, a picture and an archive.

Seen to fail when an answer extracted again, when a new version of an extractor read every file,
when a changed PDF was reported as the same, and when the walk forgot what it skipped.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from click.testing import Result

from lookfar.collections.rulings import list_skipped
from lookfar.errors import InvalidArgument, NotFound
from lookfar.index.extraction import Extraction
from lookfar.library import Library
from lookfar.model import Edit
from lookfar.ports import StoredDocument
from lookfar.retrieve.locate.address import format_citation
from lookfar.text import normalise
from lookfar.text.extract import formats
from text.extract.made_office import make_docx, make_epub, make_pptx, make_xlsx, shape
from text.extract.made_pdf import column, make_pdf

SETTINGS = {"embed.provider": "hash", "index.workers": 1, "git.history": False}

pytestmark = pytest.mark.usefixtures("own_home")


def contract(days: str = "ninety") -> bytes:
    first = column(50, 750, "Lease agreement", size=24, font="F2")
    first += column(50, 700, "The tenant pays the rent on the third working day of each month.")
    second = column(50, 750, "Termination", size=24, font="F2")
    second += column(50, 700, f"Either party may end the lease with a notice of {days} days.")
    return make_pdf(first, second, title="Lease")


def refuse_to_extract(*_: object) -> None:
    raise AssertionError("extracted again")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "papers"
    folder.mkdir()
    (folder / "contract.pdf").write_bytes(contract())
    (folder / "notes.md").write_text("# Notes\n\nCall the landlord about the heating.\n")
    (folder / "alt.txt").write_bytes("Der Schlüssel liegt bei Frau Jäger.\n".encode("cp1252"))
    (folder / "LICENSE").write_text("Permission is granted to everyone.\n")
    (folder / "photo.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    (folder / "cut.pdf").write_bytes(contract()[:200])
    (folder / "data.xyz").write_bytes(bytes(range(256)) * 4)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("inside.txt", "inside")
    (folder / "old.zip").write_bytes(packed.getvalue())
    return folder


OFFICE = {
    "plan.docx": make_docx(
        "<w:p><w:r><w:t>The walrus moves into the new office in spring.</w:t></w:r></w:p>"
    ),
    "talk.pptx": make_pptx(
        (shape("title", "Welcome") + shape("body", "A short tour"), ""),
        (shape("title", "Numbers") + shape("body", "Sales of marmalade doubled."), "Pause here."),
    ),
    "plan.xlsx": make_xlsx(
        Budget=[["Item", "Cost"], ["Chairs", 1200], ["Trombone", 800]], Notes=[["Only a draft"]]
    ),
}


def test_office_documents_are_cited_by_slide_and_range(library: Library, root: Path) -> None:
    for name, data in OFFICE.items():
        (root / name).write_bytes(data)
    expected = {
        "walrus office spring": ("plan.docx", ""),
        "sales of marmalade": ("talk.pptx", "slide=2"),
        "cost of the trombone": ("plan.xlsx", "Budget!A1:B3"),
    }
    for question, place in expected.items():
        (hit,) = library.search(question, mode="keyword", top_k=1).hits
        assert (hit.uri, hit.place, hit.state, hit.extracted) == (*place, "same", True)
    assert "marmalade" in library.read("talk.pptx#slide=2").text
    assert "tour" not in library.read("talk.pptx#slide=2").text
    costs = library.read("plan.xlsx#Budget!A2:B3").text
    assert ("Trombone" in costs, "draft" in costs) == (True, False)
    assert library.status().counts.documents == 7
    with pytest.raises(NotFound, match="slide=9"):
        library.read("talk.pptx#slide=9")


@pytest.fixture
def library(root: Path, tmp_path: Path) -> Iterator[Library]:
    with Library.open(root, index_dir=tmp_path / "index", settings=SETTINGS) as opened:
        yield opened


def test_an_answer_comes_from_the_pdf_with_its_page(library: Library) -> None:
    (hit,) = library.search("notice to end the lease", top_k=1).hits
    assert (hit.uri, hit.place, hit.state, hit.extracted) == (
        "contract.pdf",
        "page=2",
        "same",
        True,
    )
    assert "ninety days" in hit.text
    reading = library.read("contract.pdf#page=2")
    assert reading.places == ("page=2",)
    assert hit.text in reading.text
    assert "rent" not in reading.text
    assert library.read("contract.pdf#Termination").places == ("page=2",)
    assert library.read("contract.pdf#page=1-2").text == library.read("contract.pdf").text
    cited = library.read(format_citation(hit.collection, hit.uri, hit.span, hit.sha256))
    assert (cited.text, cited.state) == (hit.text, "same")
    assert sha256(cited.text.encode()).hexdigest() == hit.sha256


def test_a_passage_over_two_pages_is_cited_by_the_page_that_answers(
    library: Library, root: Path
) -> None:
    pages = ("Pilots are paid by the fathom.", "A quagga may not board a pilot boat.")
    (root / "rules.pdf").write_bytes(make_pdf(*(column(50, 700, line) for line in pages)))
    for focus in (False, True):
        (hit,) = library.search("may a quagga board", top_k=1, focus=focus).hits
        assert hit.places == ("page=1", "page=2")
        assert hit.place == "page=2"
        (hit,) = library.search("how are pilots paid", top_k=1, focus=focus).hits
        assert hit.place == "page=1"


def costs() -> bytes:
    """A sheet of two ranges that only its last row tells apart from many others."""
    rows: list[list[str | float]] = [
        [f"Chair {at}", "Vendor", "March", 100 + at] for at in range(2, 62)
    ]
    head: list[str | float] = ["Item", "Vendor", "Month", "Cost"]
    return make_xlsx(Costs=[head, *rows, ["Firewall", "Palisade", "May", 4711]])


def test_the_row_that_answers_is_shown_with_its_range_and_header(
    run: Callable[..., Result], root: Path
) -> None:
    (root / "costs.xlsx").write_bytes(costs())
    asked = ("search", "what did the firewall cost", root, "--glob", "*.xlsx")
    lines = run(*asked).stdout.split("\n")
    assert lines[0].startswith("1. costs.xlsx#Costs!A41:D62  ")
    shown = [line.split("  ")[-1].strip() for line in lines if "|" in line]
    assert (shown[0], shown[-1]) == (
        "| Item | Vendor | Month | Cost |",
        "| Firewall | Palisade | May | 4711 |",
    )
    listed = run(*asked, "--map").stdout
    assert "#Costs!A41:D62" in listed
    assert "| Firewall | Palisade | May | 4711 |" in listed
    assert "| Item | Vendor | Month | Cost |" in listed
    (hit,) = json.loads(run(*asked, "--json").stdout)["hits"]
    assert hit["places"] == ["Costs!A1:D40", "Costs!A41:D62"]
    first = hit["focus"][0]
    assert "4711" in hit["text"][first["start"] - hit["start"] : first["end"] - hit["start"]]


def test_lines_and_outline_name_the_pages(library: Library) -> None:
    (file,) = library.grep("notice of ninety").files
    assert [(line.place, line.state) for line in file.lines] == [("page=2", "same")]
    outline = library.outline("contract.pdf")
    places = [outline.place_at(section.span.start_line) for section in outline.sections]
    assert places == ["page=1", "page=2"]
    assert [label for _, label in outline.places] == ["page=1", "page=2"]


def test_an_unchanged_file_is_not_extracted_for_an_answer(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.index()
    monkeypatch.setattr(Extraction, "extract", refuse_to_extract)
    assert library.search("notice to end the lease", top_k=1).hits[0].state == "same"
    assert library.read("contract.pdf#page=1").state == "same"
    assert library.grep("ninety").files


def test_a_changed_file_is_reported_or_extracted_again(
    library: Library, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.index()
    (root / "contract.pdf").write_bytes(contract("sixty"))
    monkeypatch.setattr(library.folder(), "freshen", list)
    with monkeypatch.context() as answering:
        answering.setattr(Extraction, "extract", refuse_to_extract)
        (hit,) = library.search("notice to end the lease", top_k=1).hits
    assert (hit.state, "ninety" in hit.text) == ("changed", True)
    reading = library.read("contract.pdf#page=2")
    assert (reading.state, "sixty days" in reading.text) == ("changed", True)
    cited = library.read(format_citation(hit.collection, hit.uri, hit.span, hit.sha256))
    assert cited.state == "changed"
    monkeypatch.undo()
    (hit,) = library.search("notice to end the lease", top_k=1).hits
    assert (hit.state, hit.place, "sixty" in hit.text) == ("same", "page=2", True)
    (root / "contract.pdf").unlink()
    monkeypatch.setattr(library.folder(), "freshen", list)
    assert library.search("notice to end the lease", top_k=1).hits[0].state == "gone"


def test_a_new_version_of_an_extractor_reads_only_its_files(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = library.index()
    assert before.added == 4
    row = formats._BY_EXTENSION[".pdf"]
    monkeypatch.setitem(formats._BY_EXTENSION, ".pdf", row._replace(version=row.version + 1))
    after = library.index()
    assert (after.changed, after.unchanged, after.chunks_embedded) == (1, 3, 0)
    assert library.index().unchanged == 4


def test_what_a_text_depends_on_is_part_of_its_version(
    library: Library, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mail contains any format, a book contains HTML; a new decoder reads everything again."""
    (root / "a.eml").write_bytes(b"Subject: Hello\n\nThe quay is closed.\n")
    assert library.index().added == 5
    row = formats._BY_EXTENSION[".html"]
    book = formats.version_of(formats._BY_EXTENSION[".epub"])
    monkeypatch.setitem(formats._BY_EXTENSION, ".html", row._replace(version=row.version + 1))
    assert formats.version_of(formats._BY_EXTENSION[".epub"]) == book + 1
    after = library.index()
    assert (after.changed, after.unchanged) == (1, 4)
    monkeypatch.setattr("lookfar.index.recipe.ENCODINGS", normalise.VERSION + 1)
    library.close()
    with Library.open(root, index_dir=tmp_path / "index", settings=SETTINGS) as reopened:
        assert reopened.index().added == 5


def test_extracted_text_survives_verification_and_a_rebuild(library: Library) -> None:
    library.index()
    assert library.verify() == []
    hits = library.search("notice to end the lease", top_k=1).hits
    library.index(rebuild=True)
    assert library.search("notice to end the lease", top_k=1).hits == hits


PAGE = b"<!doctype html><html><body><h1>Otters</h1><p>Otters hold hands.</p></body></html>"
TEMPLATE = b'<div *ngIf="otter">\n  <p>{{ otter.name }} the otter</p>\n</div>\n'
SHELL = b'<!doctype html>\n<html><body><div id="otter-root"></div></body></html>\n'


def test_html_is_read_as_a_page_or_as_source(library: Library, root: Path) -> None:
    """A template is part of a program: its tags and its lines are what an agent edits."""
    (root / "page.html").write_bytes(PAGE)
    (root / "card.component.html").write_bytes(TEMPLATE)
    (root / "index.html").write_bytes(SHELL)
    hits = {hit.uri: hit for hit in library.search("otter", mode="keyword", top_k=9).hits}
    assert hits["page.html"].extracted
    assert "<p>" not in hits["page.html"].text
    for name, raw in (("card.component.html", TEMPLATE), ("index.html", SHELL)):
        reading = library.read(name)
        assert (reading.text.encode(), reading.extracted, reading.state) == (raw, False, "same")
        assert library.outline(name).language == "html"
    (file,) = library.grep("*ngIf").files
    assert [(line.number, line.state) for line in file.lines] == [(1, "same")]
    assert "read as source" in library.read("index.html").warnings[0]
    assert library.verify() == []
    assert library.index().unchanged == 7


def test_the_title_of_a_file_survives_a_repair(library: Library, root: Path) -> None:
    body = column(50, 700, "Nothing but a paragraph about kestrels and their nests in towers.")
    (root / "untitled.pdf").write_bytes(make_pdf(body, title="Quarterly falconry"))
    (hit, *_) = library.search("quarterly falconry", mode="keyword").hits
    assert (hit.uri, hit.title) == ("untitled.pdf", "Quarterly falconry")
    maker = library.folder().make_maker()
    with library.folder().store.snapshot() as snapshot:
        row = snapshot.version("untitled.pdf")
        text = snapshot.text("untitled.pdf")
    assert row is not None
    assert text is not None
    made = maker.make(StoredDocument("untitled.pdf", row.metadata, text))
    assert made is not None
    assert made.streams[0][0].split()[0] == "quarter"


def test_a_heading_of_a_part_is_not_the_title_of_the_file(library: Library, root: Path) -> None:
    (root / "memo.pdf").write_bytes(
        make_pdf(column(50, 750, "Contents", size=24, font="F2") + column(50, 700, "One kestrel."))
    )
    (root / "board.canvas").write_text(
        json.dumps({"nodes": [{"id": "a", "type": "text", "text": "# Shelf\n\nTwo ospreys."}]})
    )
    (root / "book.epub").write_bytes(make_epub())
    library.index()
    titles = {row.uri: row.title for row in library.listed()}
    assert titles["memo.pdf"] == titles["board.canvas"] == ""
    assert (titles["book.epub"], titles["contract.pdf"]) == ("Tides", "Lease")


def test_other_encodings_are_cited_and_doubted(library: Library) -> None:
    report = library.index()
    assert (report.warned, "windows-1252" in report.warned_examples["alt.txt"]) == (1, True)
    (hit,) = library.search("Schlüssel Frau Jäger", mode="keyword", top_k=1).hits
    assert (hit.uri, hit.state, hit.text) == (
        "alt.txt",
        "same",
        "Der Schlüssel liegt bei Frau Jäger.\n",
    )
    assert "windows-1252" in library.read("alt.txt").warnings[0]


def test_what_is_skipped_is_named(library: Library) -> None:
    report = library.index()
    assert report.skipped == {"binary": 3, "damaged": 1}
    assert set(report.skipped_examples["binary"]) == {"photo.png", "old.zip", "data.xyz"}
    assert report.skipped_examples["damaged"] == ("cut.pdf",)
    status = library.status()
    assert (status.skipped, status.stale_count) == (report.skipped, 0)
    assert status.skipped_examples == report.skipped_examples
    entries = {entry.uri: entry.reason for entry in list_skipped(library.folder())}
    assert entries == {
        "cut.pdf": "damaged",
        "data.xyz": "binary",
        "old.zip": "binary",
        "photo.png": "binary",
    }
    for uri, words in (("photo.png", "an image"), ("cut.pdf", "damaged"), ("old.zip", "archive")):
        with pytest.raises(NotFound) as refusal:
            library.read(uri)
        assert words in refusal.value.hint
    assert library.why("cut.pdf").reason == "damaged"
    assert library.why("contract.pdf").admitted
    # A file that was skipped is not read again until it changes.
    assert library.index().skipped == report.skipped


def test_a_folder_without_any_text_says_why_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    folder.mkdir()
    (folder / "photo.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    with Library.open(folder, index_dir=tmp_path / "index", settings=SETTINGS) as library:
        (note,) = library.search("anything").incomplete
    assert note.reason == "no_documents"
    assert "photo.png (image)" in note.detail


def test_an_extracted_file_cannot_be_edited(library: Library) -> None:
    with pytest.raises(InvalidArgument, match="extracted from a file of the format PDF"):
        library.edit([Edit("append", "contract.pdf", text="more")])


def test_a_new_user_tries_the_command_line(run: Callable[..., Result], root: Path) -> None:
    done = run("search", "notice to end the lease", str(root))
    assert "contract.pdf#page=2" in done.stdout
    status = run("status", str(root)).stdout
    assert "photo.png (image)" in status
    assert "old.zip (archive)" in status
    assert "binary" not in status
    listed = json.loads(run("status", str(root), "--skipped", "--json").stdout)
    assert [entry["uri"] for entry in listed["skipped"]] == [
        "cut.pdf",
        "data.xyz",
        "old.zip",
        "photo.png",
    ]
    assert "cut.pdf" in run("status", str(root), "--skipped").stdout
    assert "Termination" in run("read", "contract.pdf#page=2", str(root)).stdout
    letter = run("read", "alt.txt", str(root))
    assert letter.stdout == "Der Schlüssel liegt bei Frau Jäger.\n"
    assert "windows-1252" in letter.stderr
