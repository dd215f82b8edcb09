"""Are files of the usual tools found, and is every citation where it says?

    python bench/formats.py [--keep FOLDER] [--only pdf-chromium ...] [--pages 1000]

Writes a manual of fourteen facts, two of them in Japanese and Arabic, and converts it with
pandoc, LibreOffice and Chromium to every format that Lookfar extracts. Each file is indexed alone,
and one question is asked for each fact. A second program then reads the place that the hit names
(pdftotext the page, pandoc the document, Python the slide, sheet, cell or message), and every line
of the passage, or every cell of a table, must be in its text. Tools that are not installed are
skipped and named. At the end 1,000 pages of PDF are extracted, for the time and memory they take,
and all files together are searched, and the same texts as Markdown, for the time of an answer.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import random
import re
import shutil
import statistics
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from email import message_from_bytes, policy
from email.message import EmailMessage
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

FACTS = (
    ("Berths", "How long may a ferry stay at the north quay?",
     "A ferry may stay at the north quay for ninety minutes."),
    ("Dredging", "What does dredging of the basin cost?",
     "Dredging of the inner basin costs forty thousand crowns per year."),
    ("Pilots", "From which length is a pilot compulsory?",
     "A pilot is compulsory for vessels longer than eighty metres."),
    ("Cranes", "What load can the old crane lift?",
     "The old gantry crane lifts at most twelve tonnes."),
    ("Ice", "Who decides when the ice channel is closed?",
     "The ice warden alone decides when the winter channel is closed."),
    ("Waste", "Where is oily bilge water delivered?",
     "Oily bilge water is delivered to the yellow tank behind shed four."),
    ("Lights", "What does the green leading light show?",
     "The green leading light shows that the lock is open."),
    ("Fees", "When are harbour dues paid?",
     "Harbour dues are paid within fourteen days of arrival."),
    ("Fire", "Where is the foam extinguisher?",
     "The foam extinguisher hangs beside the pump house door."),
    ("Customs", "How early must customs be notified?",
     "Customs must be notified six hours before arrival from abroad."),
    ("Divers", "Which flag is hoisted during diving work?",
     "During diving work the blue and white flag is hoisted."),
    ("Archive", "How long are logbooks stored?",
     "Logbooks are stored in the archive for thirty years."),
    ("水深", "北岸壁の水深は何メートルですか",
     "北岸壁の水深は毎年測定され、現在は十二メートルです。"),
    ("الرسوم", "متى تدفع الرسوم السنوية", "تدفع الرسوم السنوية في شهر يناير من كل عام."),
)  # fmt: skip
FILLER = (
    "harbour keeper office timber season weather report member evening morning village railway"
    " bridge signal window painter garden market council engine barrel copper lantern anchor"
    " gravel schedule inspection"
).split()
PAGES_PER_FACT = 8
"""Paragraphs between facts, so that they are on different pages."""
SPEED_ROUNDS = 20
"""How often all questions are asked for the time of an answer."""

Second = Callable[[Path, str], str]
"""Reads a file, or one place of it, with another program."""


@dataclass(frozen=True)
class Made:
    """A file to ask about: how a second program reads it, and which facts it has."""

    name: str
    path: Path
    second: Second
    facts: tuple[tuple[str, str, str], ...] = FACTS
    has_places: bool = True


def filler(chance: random.Random, words: int) -> str:
    return " ".join(chance.choices(FILLER, k=words)).capitalize() + "."


def manual(paragraphs: int) -> str:
    """The facts as Markdown, each in a section of its own among other text."""
    chance = random.Random(7)
    parts = ["---\ntitle: Harbour manual\n---\n"]
    for title, _, fact in FACTS:
        parts.append(f"## {title}\n")
        parts += [filler(chance, 60) + "\n" for _ in range(paragraphs // 2)]
        parts.append(fact + "\n")
        parts += [filler(chance, 60) + "\n" for _ in range(paragraphs - paragraphs // 2)]
    return "\n".join(parts)


def make(path: Path, *command: str) -> Path:
    """Run a command that makes a file, unless an earlier run kept it."""
    if not path.exists():
        run(*command)
    return path


def run(*command: str) -> bytes:
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr.decode(errors='replace')[-500:]}")
    return done.stdout


# --- files ------------------------------------------------------------------------------------


def make_documents(folder: Path) -> list[Made]:
    """Documents by pandoc, and what LibreOffice makes of them."""
    source = folder / "manual.md"
    source.write_text(manual(2), encoding="utf-8")
    made = []
    for ending in ("docx", "odt", "epub", "rtf", "html", "tex", "ipynb"):
        path = folder / f"manual.{ending}"
        make(path, "pandoc", "-s", str(source), "-o", str(path))
        made.append(Made(f"{ending}-pandoc", path, pandoc_text, has_places=ending == "epub"))
    slides = folder / "manual.pptx"
    make(slides, "pandoc", str(write_slides(folder)), "-o", str(slides), "--slide-level=2")
    made.append(Made("pptx-pandoc", slides, slide_text))
    if shutil.which("soffice"):
        long = folder / "long.md"
        long.write_text(manual(PAGES_PER_FACT), encoding="utf-8")
        make(folder / "long.docx", "pandoc", "-s", str(long), "-o", str(folder / "long.docx"))
        for origin, ending in (("long.docx", "pdf"), ("manual.docx", "rtf"), ("manual.docx", "odt"),
                               ("manual.odt", "docx"), ("manual.pptx", "odp")):  # fmt: skip
            out = folder / f"office-{origin.rpartition('.')[2]}"
            path = out / f"{origin.partition('.')[0]}.{ending}"
            make(path, "soffice", "--headless", "--convert-to", ending, "--outdir", str(out),
                 str(folder / origin))  # fmt: skip
            second = {"pdf": pdf_text, "odp": odp_text}.get(ending, pandoc_text)
            made.append(
                Made(f"{ending}-libreoffice", path, second, has_places=second != pandoc_text)
            )
    return made


def write_slides(folder: Path) -> Path:
    source = folder / "slides.md"
    chance = random.Random(7)
    parts = [
        f"## {title}\n\n- {fact}\n- {filler(chance, 8)}\n\n::: notes\n{filler(chance, 9)}\n:::\n"
        for title, _, fact in FACTS
    ]
    source.write_text("\n".join(parts), encoding="utf-8")
    return source


def make_pages(folder: Path, pages: int) -> Path:
    """So many pages in two columns, printed by Chromium."""
    chance = random.Random(3)
    body = "".join(
        f"<section><h2>Chapter {number}</h2>"
        + "".join(f"<p>{filler(chance, 62)}</p>" for _ in range(7))
        + "</section>"
        for number in range(1, pages + 1)
    )
    return print_pdf(folder / "pages.pdf", f"<title>Pages</title>{body}", "section")


def print_pdf(path: Path, body: str, page: str) -> Path:
    """Print HTML in two hyphenated columns."""
    style = (
        "@page{size:A4;margin:2cm}body{font:10pt serif}"
        f"{page}{{break-after:page;column-count:2;text-align:justify;hyphens:auto}}"
    )
    page_file = path.with_suffix(".print.html")
    page_file.write_text(
        f"<html lang=en><meta charset=utf-8><style>{style}</style>{body}</html>", encoding="utf-8"
    )
    make(path, "chromium", "--headless", "--no-sandbox", "--disable-gpu",
         f"--print-to-pdf={path}", str(page_file))  # fmt: skip
    page_file.unlink()
    return path


def make_printed(folder: Path) -> list[Made]:
    chance = random.Random(7)
    body = "<title>Harbour manual</title>"
    for title, _, fact in FACTS:
        way = " dir=rtl" if title == "الرسوم" else ""
        body += f"<section><h2>{title}</h2><p>{filler(chance, 200)}</p><p{way}>{fact}</p>"
        body += f"<p>{filler(chance, 150)}</p></section>"
    path = print_pdf(folder / "printed.pdf", body, "section")
    tables = print_pdf(folder / "tables.pdf", make_tables(chance), "aside")
    return [Made("pdf-chromium", path, pdf_text), Made("pdf-tables", tables, pdf_text)]


def make_tables(chance: random.Random) -> str:
    """A table on each page, one of its rows with a fact."""
    body = "<title>Register</title><style>table{break-after:page}td,th{padding:2pt 9pt}</style>"
    for title, _, fact in FACTS:
        rows = [(chance.choice(FILLER), filler(chance, 6)) for _ in range(12)]
        rows.insert(chance.randrange(12), (title, fact))
        cells = "".join(f"<tr><td>{n}<td>{a}<td>{b}</tr>" for n, (a, b) in enumerate(rows, 1))
        body += f"<table><tr><th>Number<th>Topic<th>Rule</tr>{cells}</table>"
    return body


def make_sheets(folder: Path) -> list[Made]:
    """One table, the facts in rows far from each other, as CSV and by LibreOffice."""
    chance = random.Random(7)
    path = folder / "register.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["Number", "Topic", "Rule", "Remark"])
        number = 0
        for title, _, fact in FACTS:
            for _ in range(30):
                number += 1
                rows.writerow([number, chance.choice(FILLER), filler(chance, 5), ""])
            number += 1
            rows.writerow([number, title, fact, filler(chance, 3)])
    made = [Made("csv", path, cells_text)]
    if shutil.which("soffice"):
        for ending in ("xlsx", "ods", "xls"):
            book = folder / f"register.{ending}"
            make(book, "soffice", "--headless", "--infilter=CSV:44,34,76", "--convert-to", ending,
                 "--outdir", str(folder), str(path))  # fmt: skip
            made.append(Made(f"{ending}-libreoffice", book, sheet_text))
    return made


def make_others(folder: Path) -> list[Made]:
    """Mail, a mailbox, subtitles and a notebook."""
    chance = random.Random(7)
    messages = []
    for title, _, fact in FACTS:
        message = EmailMessage()
        message["From"], message["To"], message["Subject"] = "a@example.org", "b@example.org", title
        message.set_content(f"{filler(chance, 30)}\n\n{fact}\n\n{filler(chance, 30)}\n")
        messages.append(message)
    mailbox = folder / "box.mbox"
    mailbox.write_bytes(b"".join(b"From a Mon\n" + m.as_bytes() + b"\n" for m in messages))
    outer = EmailMessage()
    outer["From"], outer["To"], outer["Subject"] = "a@example.org", "b@example.org", "Rules"
    outer.set_content("All rules are attached.\n")
    for (title, _, fact), _ in zip(FACTS, messages, strict=True):
        text = f"<h1>{title}</h1><p>{filler(chance, 30)}</p><p>{fact}</p>"
        outer.add_attachment(text, subtype="html", filename=f"{title}.html")
    mail = folder / "rules.eml"
    mail.write_bytes(outer.as_bytes())
    cues = []
    for number, (_, _, fact) in enumerate(FACTS):
        clock = f"00:{number:02}:"
        cues.append(f"{number + 1}\n{clock}01,000 --> {clock}05,000\n{fact}\n")
    subtitles = folder / "talk.srt"
    subtitles.write_text("\n".join(cues), encoding="utf-8")
    cells = []
    for title, _, fact in FACTS:
        cells.append({"cell_type": "markdown", "metadata": {}, "source": f"## {title}\n\n{fact}"})
        cells.append({"cell_type": "code", "metadata": {}, "execution_count": 1, "outputs": [],
                      "source": f"depth = {chance.randrange(99)}"})  # fmt: skip
    notebook = folder / "rules.ipynb"
    notebook.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4,
                                    "nbformat_minor": 5}))  # fmt: skip
    return [
        Made("mbox", mailbox, mailbox_text), Made("eml", mail, mail_text),
        Made("srt", subtitles, subtitle_text), Made("ipynb", notebook, notebook_text),
    ]  # fmt: skip


# --- second programs --------------------------------------------------------------------------


def numbered(place: str) -> int:
    return int(place.partition("=")[2])


def pdf_text(path: Path, place: str) -> str:
    """The page in both orders that pdftotext has.

    Its own reading order mixes lines of two columns. The order of the file (``-raw``) keeps columns
    apart, but reverses right-to-left text.
    """
    page = str(numbered(place))
    return "".join(
        run("pdftotext", *order, "-f", page, "-l", page, str(path), "-").decode()
        for order in ((), ("-raw",))
    )


def pandoc_text(path: Path, _: str) -> str:
    kind = {".tex": "latex", ".md": "markdown"}.get(path.suffix, path.suffix[1:])
    text = run("pandoc", "-f", kind, "-t", "plain", "--wrap=none", str(path)).decode()
    # The title is metadata for pandoc.
    return f"Harbour manual {text}"


def slide_text(path: Path, place: str) -> str:
    with zipfile.ZipFile(path) as archive:
        number = numbered(place)
        names = [f"ppt/slides/slide{number}.xml", f"ppt/notesSlides/notesSlide{number}.xml"]
        relations = archive.read(f"ppt/slides/_rels/slide{number}.xml.rels").decode()
        notes = re.findall(r"notesSlides/(\w+\.xml)", relations)
        names = [names[0], *(f"ppt/notesSlides/{name}" for name in notes)]
        texts = [" ".join(ElementTree.fromstring(archive.read(name)).itertext()) for name in names]
    return "Notes ".join(texts)


def odp_text(path: Path, place: str) -> str:
    with zipfile.ZipFile(path) as archive:
        root = ElementTree.fromstring(archive.read("content.xml"))
    pages = [item for item in root.iter() if item.tag.endswith("drawing:1.0}page")]
    return "Notes " + " ".join(pages[numbered(place) - 1].itertext())


def rows_of(text: str, place: str) -> str:
    """The header and the rows that a range names."""
    first, last = (int(number) for number in re.findall(r"[A-Z]+(\d+)", place)[-2:])
    rows = list(csv.reader(io.StringIO(text)))
    return " ".join(" ".join(row) for row in [rows[0], *rows[first - 1 : last]])


def cells_text(path: Path, place: str) -> str:
    return rows_of(path.read_text(encoding="utf-8"), place)


@cache
def sheet_values(path: Path) -> str:
    with TemporaryDirectory() as name:
        run("soffice", "--headless", "--convert-to", "csv:Text - txt - csv (StarCalc):44,34,76",
            "--outdir", name, str(path))  # fmt: skip
        return next(Path(name).glob("*.csv")).read_text(encoding="utf-8")


def sheet_text(path: Path, place: str) -> str:
    return "register " + rows_of(sheet_values(path), place)


def message_text(message: EmailMessage) -> str:
    parts = [str(message["Subject"]), f"From: {message['From']} To: {message['To']}"]
    parts += [
        f"Attachment: {part.get_filename()} {part.get_content()}"
        for part in message.walk()
        if part.get_content_maintype() == "text"
    ]
    return re.sub(r"<[^>]+>", " ", " ".join(parts))


def mailbox_text(path: Path, place: str) -> str:
    messages = path.read_bytes().split(b"From a Mon\n")
    return message_text(message_from_bytes(messages[numbered(place)], policy=policy.default))


def mail_text(path: Path, place: str) -> str:
    message = message_from_bytes(path.read_bytes(), policy=policy.default)
    leaves = [part for part in message.walk() if part.get_content_maintype() == "text"]
    part = leaves[numbered(place) - 1]
    text = f"Attachment: {part.get_filename()} " + re.sub(r"<[^>]+>", " ", part.get_content())
    return text if numbered(place) > 1 else f"Rules {message_text(message)}"


def subtitle_text(path: Path, place: str) -> str:
    cues = path.read_text(encoding="utf-8").split("\n\n")
    return " ".join(cue for cue in cues if f"{place[5:]}," in cue.split("-->")[0])


def notebook_text(path: Path, place: str) -> str:
    cell = json.loads(path.read_text(encoding="utf-8"))["cells"][numbered(place) - 1]
    return "python " + cell["source"]


# --- measuring --------------------------------------------------------------------------------


def letters(text: str) -> str:
    """Only letters and digits, without case: programs differ in the rest."""
    return "".join(letter for letter in text.casefold() if letter.isalnum())


def visible(line: str) -> str:
    """A line of a passage as it is shown: links by their text, no ids of headings."""
    line = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line)
    return re.sub(r"\{#[^}]*\}$|^\[\^\w+\]: ", "", line)


def ask(made: Made, folder: Path) -> tuple[int, int, int, list[str]]:
    """Index one file alone; return how many facts were found, at the right place, and faults."""
    from lookfar.library import Library

    root = folder / "asked" / made.name
    root.mkdir(parents=True)
    shutil.copy(made.path, root / made.path.name)
    good = placed = 0
    faults = []
    texts: dict[str, str] = {}
    index = folder / "indexes" / made.name
    with Library.open(root, index_dir=index, settings={"git.history": False}) as library:
        library.index()
        for title, question, fact in made.facts:
            hits = library.search(question, top_k=1).hits
            if not hits or letters(fact) not in letters(hits[0].text):
                faults.append(f"{title}: not in the first hit")
                continue
            good += 1
            hit = hits[0]
            if made.has_places and not hit.place:
                faults.append(f"{title}: the hit names no place")
                continue
            where = hit.places if made.has_places else ("",)
            for place in where:
                if place not in texts:
                    texts[place] = letters(made.second(made.path, place))
            everything = "".join(texts[place] for place in where)
            missing = [
                part
                for line in hit.text.splitlines()
                for part in (line.split("|") if line.startswith("| ") else [line])
                if letters(visible(part)) not in everything
            ]
            if missing:
                faults.append(f"{title}: not at {where}: {missing[0][:80]!r}")
            else:
                placed += 1
    return len(made.facts), good, placed, faults


def measure_pages(path: Path) -> None:
    """Extract a long PDF in a process of its own; print its time and memory."""
    program = (
        "import re, resource, sys, time\n"
        "from lookfar.text.extract.formats import extract, extractor_for\n"
        "data = open(sys.argv[1], 'rb').read()\n"
        "started = time.process_time()\n"
        "result = extract(extractor_for('a.pdf'), data)\n"
        "spent = time.process_time() - started\n"
        # On Linux the usage of a process starts with the peak of the one that started it.
        "peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024\n"
        "if sys.platform == 'linux':\n"
        "    status = open('/proc/self/status').read()\n"
        "    peak = int(re.search(r'VmHWM:\\s+(\\d+)', status)[1]) // 1024\n"
        "print(f'{len(result.places):,} pages, {len(result.text):,} characters: '\n"
        "      f'{spent:.1f} CPU s, {peak} MB')\n"
    )
    print("PDF:", run(sys.executable, "-c", program, str(path)).decode().strip())


def measure_speed(files: list[Made], folder: Path) -> None:
    """Search all files together, then the same texts as Markdown; print the median times."""
    from lookfar.library import Library
    from lookfar.text.extract.formats import extract, extractor_for

    roots = {name: folder / "asked" / f"all-{name}" for name in ("mixed", "markdown")}
    for root in roots.values():
        root.mkdir(parents=True)
    for made in files:
        row = extractor_for(made.path.name)
        assert row is not None
        shutil.copy(made.path, roots["mixed"] / f"{made.name}{made.path.suffix}")
        text = extract(row, made.path.read_bytes()).text
        (roots["markdown"] / f"{made.name}.md").write_text(text, encoding="utf-8")
    times: dict[str, list[float]] = {name: [] for name in roots}
    libraries = {
        name: Library.open(root, index_dir=folder / "indexes" / f"all-{name}",
                           settings={"git.history": False})
        for name, root in roots.items()
    }  # fmt: skip
    for library in libraries.values():
        library.index()
    for _ in range(SPEED_ROUNDS):
        for _, question, _ in FACTS:
            for name, library in libraries.items():
                started = time.perf_counter()
                library.search(question, top_k=5)
                times[name].append(time.perf_counter() - started)
    for library in libraries.values():
        library.close()
    medians = {name: statistics.median(spent) * 1000 for name, spent in times.items()}
    print(f"{len(files)} files: an answer takes {medians['mixed']:.1f} ms, from the same texts as"
          f" Markdown {medians['markdown']:.1f} ms (median of {len(times['mixed'])})")  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--keep", type=Path, help="a folder for the files that are made")
    parser.add_argument("--only", nargs="*", default=[], help="names of formats, as printed")
    parser.add_argument("--pages", type=int, default=1_000, help="of the long PDF; 0 for none")
    given = parser.parse_args()
    missing = [tool for tool in ("pandoc", "pdftotext", "soffice", "chromium")
               if not shutil.which(tool)]  # fmt: skip
    if missing:
        print("not installed, so less is measured:", ", ".join(missing))
    with TemporaryDirectory() as temporary:
        folder = given.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(folder / "asked", ignore_errors=True)
        shutil.rmtree(folder / "indexes", ignore_errors=True)
        files = make_others(folder) + make_sheets(folder)
        files += make_documents(folder) if "pandoc" not in missing else []
        files += make_printed(folder) if "chromium" not in missing else []
        bad = 0
        for made in files:
            if given.only and made.name not in given.only:
                continue
            started = time.perf_counter()
            asked, good, placed, faults = ask(made, folder)
            spent = time.perf_counter() - started
            print(f"{made.name:18} {asked} questions, {good} found, {placed} where the hit says"
                  f"  ({spent:.1f} s)", flush=True)  # fmt: skip
            for fault in faults:
                print("    ", fault)
            bad += len(faults)
        if given.pages and "chromium" not in missing:
            long = make_pages(folder, given.pages)
            measure_pages(long)
            files.append(Made("pages", long, pdf_text))
        if not given.only:
            measure_speed(files, folder)
    print("all citations hold" if not bad else f"{bad} faults")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
