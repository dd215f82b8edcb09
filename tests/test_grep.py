"""Library.grep: every matching line of the index, with valid citations."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import harness
from lookfar.common.caller import called_by
from lookfar.errors import InvalidArgument
from lookfar.library import Library
from lookfar.model import FileMatches, Filters
from lookfar.retrieve.locate.address import format_citation
from lookfar.serve.cli.main import cli

pytestmark = pytest.mark.usefixtures("own_home")

HASH = {"embed.provider": "hash", "index.workers": 1}
GUIDE = """# Guide

Start the engine.

## Setup

Run the setup; the engine needs oil.
The engine is red.

```python
def engine(): return "engine"
```

## End

Stop.
"""
FILES = {
    "guide.md": GUIDE.encode(),
    "windows.md": b"# Windows\r\n\r\nan engine\r\nends here\r\n",
    "marked.md": b"\xef\xbb\xbfengine first\n",
    "open.md": b"no line break at the end: engine",
    "empty.md": b"",
    "src/engine.py": b"class Engine:\n    def start(self):\n        return 'engine'\n",
    "deep/er/note.md": "# Größe\n\nENGINE und Motor: é engine é engine\n".encode(),
    "long.txt": ("x" * 3_000 + "engine" + "y" * 3_000 + "\n").encode(),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, data in FILES.items():
        path = tmp_path / "docs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return tmp_path / "docs"


@pytest.fixture
def library(folder: Path, tmp_path: Path) -> Iterator[Library]:
    with Library.open(folder, index_dir=tmp_path / "index", settings=HASH) as opened:
        yield opened


def by_uri(files: tuple[FileMatches, ...]) -> dict[str, list[int]]:
    return {file.uri: [line.number for line in file.lines] for file in files}


def test_lines_are_found_with_any_line_ending(library: Library) -> None:
    matches = library.grep("engine")
    assert by_uri(matches.files) == {
        "deep/er/note.md": [3],
        "guide.md": [3, 7, 8, 11],
        "long.txt": [1],
        "marked.md": [1],
        "open.md": [1],
        "src/engine.py": [3],
        "windows.md": [3],
    }
    assert (matches.matches, matches.matched_files) == (10, 7)
    assert (matches.mode, matches.case, matches.offset) == ("literal", "sensitive", 0)
    assert matches.incomplete == ()


def test_lines_are_valid_citations(library: Library) -> None:
    """Fails if spans count bytes."""
    for file in library.grep("engine").files:
        for line in file.lines:
            address = format_citation(file.collection, file.uri, line.span, line.sha256)
            reading = library.read(address)
            assert reading.state == line.state == "same"
            assert reading.sha256 == line.sha256
            assert reading.text.rstrip("\n")[line.column :].startswith(line.text)
            for start, end in line.spans:
                assert line.text[start - line.column : end - line.column] == "engine"
            assert library.read(f"{file.uri}:{line.number}").text == reading.text


def test_line_numbers_are_right_after_multibyte_characters(library: Library, folder: Path) -> None:
    """Fails if offsets count bytes."""
    (folder / "wide.txt").write_text("é" * 60 + "\n" + "x\n" * 20 + "motor\n" + "y\n" * 40)
    assert by_uri(library.grep("motor").files) == {"wide.txt": [22]}


def test_lines_report_headings_and_definitions(library: Library) -> None:
    matches = {file.uri: file for file in library.grep("engine").files}
    assert [line.heading_path for line in matches["guide.md"].lines] == [
        ("Guide",), ("Guide", "Setup"), ("Guide", "Setup"), ("Guide", "Setup"),
    ]  # fmt: skip
    (line,) = matches["src/engine.py"].lines
    assert line.heading_path[-1].endswith("start")
    assert (matches["src/engine.py"].lane, matches["src/engine.py"].language) == ("code", "python")


def test_context_is_shown_once(library: Library) -> None:
    (file,) = library.grep("engine", filters=Filters(uris=("guide.md",)), context=2).files
    printed: list[int] = []
    for line in file.lines:
        first = line.number - len(line.before)
        printed += range(first, line.number + len(line.after) + 1)
    assert printed == sorted(set(printed))
    assert printed == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]
    (file,) = library.grep("Stop", context=(1, 0)).files
    assert (file.lines[0].before, file.lines[0].after) == (("",), ())


def test_long_line_is_cut_around_its_match(library: Library) -> None:
    (file,) = library.grep("engine", filters=Filters(uris=("long.txt",))).files
    (line,) = file.lines
    assert line.truncated
    assert line.spans == ((3_000, 3_006),)
    assert "engine" in line.text
    assert len(line.text) == 500


def test_pages_and_counts(library: Library) -> None:
    whole = library.grep("engine")
    paged = [
        file for at in range(0, 8, 2) for file in library.grep("engine", limit=2, offset=at).files
    ]
    assert paged == list(whole.files)
    counts = library.grep("engine", max_matches_per_file=0)
    assert [(file.uri, file.count) for file in counts.files] == [
        (file.uri, len(file.lines)) for file in whole.files
    ]
    assert all(file.lines == () for file in counts.files)
    (file,) = library.grep("engine", max_matches_per_file=1, filters=Filters(prefix="guide")).files
    assert (file.count, len(file.lines)) == (4, 1)


def test_case_words_and_expressions(library: Library) -> None:
    only = Filters(prefix="deep/")
    assert library.grep("engine", case="insensitive", filters=only).files[0].lines[0].spans == (
        (0, 6), (20, 26), (29, 35),
    )  # fmt: skip
    assert library.grep("ENGINE", case="smart", filters=only).matches == 1
    assert library.grep("engin", whole_words=True).matches == 0
    assert library.grep(r"^def \w+\(", regex=True).matches == 1
    assert library.grep(r"é\b", regex=True, filters=only).files[0].lines[0].spans == (
        (18, 19), (27, 28),
    )  # fmt: skip
    assert library.grep("größe", case="insensitive").matches == 1
    assert by_uri(library.grep("^$", regex=True, filters=Filters(prefix="guide")).files) == {
        "guide.md": [2, 4, 6, 9, 13, 15]
    }


def test_filters_are_applied(library: Library) -> None:
    def lines(**filters: object) -> dict[str, list[int]]:
        return by_uri(library.grep("engine", filters=Filters(**filters)).files)  # type: ignore[arg-type]

    assert lines(heading="Setup") == {"guide.md": [7, 8, 11]}
    assert lines(lanes=("code",)) == {"src/engine.py": [3]}
    assert lines(languages=("python",)) == {"guide.md": [11], "src/engine.py": [3]}
    assert lines(glob="deep/**") == {"deep/er/note.md": [3]}
    assert lines(heading="Setup", languages=("python",)) == {"guide.md": [11]}


def test_unmatched_glob_gets_a_suggestion(library: Library) -> None:
    """Fails if the answer is empty without a note."""
    for answer in (
        library.grep("engine", filters=Filters(glob="deep/*.md")),
        library.search("engine", filters=Filters(glob="deep/*.md")),
    ):
        (note,) = [note for note in answer.incomplete if note.reason == "no_path_matches"]
        assert "deep/*.md" in note.detail
        assert "deep/**/*.md matches 1 path" in note.detail
    quiet = library.grep("no such text", filters=Filters(glob="deep/**"))
    assert quiet.incomplete == ()
    (note,) = library.grep("engine", filters=Filters(glob="src")).incomplete
    assert "src/** matches 1 path" in note.detail


def test_changed_lines_are_reported(library: Library, folder: Path) -> None:
    generation = library.index().generation
    (folder / "guide.md").write_text("# New\n\n" + GUIDE.replace("is red", "is blue"))
    (folder / "open.md").unlink()
    matches = {file.uri: file for file in library.grep("engine", as_of=generation).files}
    assert [line.state for line in matches["guide.md"].lines] == [
        "moved",
        "moved",
        "changed",
        "moved",
    ]
    assert [line.number for line in matches["guide.md"].lines][:2] == [5, 9]
    assert matches["open.md"].lines[0].state == "gone"
    fresh = library.grep("engine is", as_of=None)
    assert [line.text for file in fresh.files for line in file.lines] == ["The engine is blue."]


def test_earlier_generations_can_be_searched(library: Library, folder: Path) -> None:
    before = library.index().generation
    (folder / "guide.md").write_text("# Guide\n\nturbine\n")
    library.index()
    assert library.grep("Start the engine", as_of=before).matches == 1
    assert library.grep("Start the engine").matches == 0


@pytest.mark.parametrize(
    "given",
    [{"limit": 0}, {"offset": -1}, {"context": 101}, {"context": (0, -1)}, {"limit": True},
     {"max_matches_per_file": -1}, {"pattern": ""}, {"pattern": "("}, {"filters": "x"},
     {"case": "loud"}],
)  # fmt: skip
def test_wrong_arguments_are_rejected(library: Library, given: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument) as caught:
        library.grep(**{"pattern": "x", "regex": True, **given})  # type: ignore[arg-type]
    assert caught.value.hint


def test_grep_can_be_cancelled(library: Library) -> None:
    class Stop(Exception):
        pass

    def stop() -> None:
        raise Stop

    library.index()
    with called_by(check=stop), pytest.raises(Stop):
        library.grep("engine")


def test_commits_are_searched_with_the_folder(library: Library, folder: Path) -> None:
    run = ["git", "-c", "user.name=A", "-c", "user.email=a@b.c", "-C", str(folder)]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "Tune the engine"]):
        subprocess.run([*run, *command], check=True, capture_output=True)
    library.index(collection="docs@git")
    matches = library.grep("Tune the engine", commits=True)
    assert [file.collection for file in matches.files] == ["docs@git"]
    assert library.grep("Tune the engine").matches == 0


LINE = st.text("ab éßK\u212aſ日\t.", max_size=10)


FILE = st.tuples(
    st.lists(LINE, max_size=6), st.sampled_from(["\n", "\r\n"]), st.booleans(), st.booleans()
)
"""Lines, their line ending, whether a byte-order mark comes first, and whether the last line ends.
"""


@settings(max_examples=harness.amount(15, 300), deadline=None)
@given(
    files=st.lists(FILE, min_size=1, max_size=6),
    pattern=st.text("ab éKſ日.", min_size=1, max_size=4),
    fold=st.booleans(),
)
def test_lines_match_the_files(
    tmp_path_factory: pytest.TempPathFactory,
    files: list[tuple[list[str], str, bool, bool]],
    pattern: str,
    fold: bool,
) -> None:
    """With any line ending, with or without a byte-order mark and a last line break."""
    folder = tmp_path_factory.mktemp("docs")
    expected: dict[str, list[int]] = {}
    wanted = re.compile(re.escape(pattern), re.IGNORECASE if fold else re.NOFLAG)
    for number, (lines, end, marked, closed) in enumerate(files):
        text = end.join(lines) + (end if closed else "")
        (folder / f"f{number}.txt").write_bytes(b"\xef\xbb\xbf" * marked + text.encode())
        matching = [at for at, line in enumerate(lines, start=1) if wanted.search(line)]
        if matching:
            expected[f"f{number}.txt"] = matching
    with Library.open(
        folder, index_dir=folder.parent / f"{folder.name}-index", settings=HASH
    ) as library:
        case = "insensitive" if fold else "sensitive"
        assert by_uri(library.grep(pattern, case=case).files) == expected  # type: ignore[arg-type]
    shutil.rmtree(folder)
    shutil.rmtree(folder.parent / f"{folder.name}-index")


# -- on the command line --------------------------------------------------------


def run(folder: Path, tmp_path: Path, *options: str) -> str:
    arguments = ["search", *options, str(folder), "--index-dir", str(tmp_path / "index")]
    done = CliRunner().invoke(cli, [*arguments, "--set", "embed.provider=hash"])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_command_prints_lines_paths_and_counts(folder: Path, tmp_path: Path) -> None:
    printed = run(folder, tmp_path, "engine", "--mode", "literal", "-C", "1")
    assert "guide.md\n   Guide\n" in printed
    assert "       3  Start the engine.\n" in printed
    assert "10 lines in 7 documents" in printed
    paths = run(folder, tmp_path, "engine", "--mode", "literal", "--paths")
    assert paths.splitlines()[:2] == ["deep/er/note.md", "guide.md"]
    counts = run(folder, tmp_path, "ENGINE", "--mode", "regex", "--count", "--case", "insensitive")
    assert "guide.md:4" in counts.splitlines()
    nothing = run(folder, tmp_path, "engin", "--mode", "literal", "--words")
    assert "No line matches." in nothing


def test_command_prints_json(folder: Path, tmp_path: Path) -> None:
    output = json.loads(run(folder, tmp_path, r"engine\.$", "--mode", "regex", "--json"))
    assert (output["matches"], output["matched_files"], output["mode"]) == (1, 1, "regex")
    (file,) = output["files"]
    (line,) = file["lines"]
    assert (file["uri"], line["number"], line["spans"]) == ("guide.md", 3, [[10, 17]])
    assert {"start", "end", "sha256", "state", "heading_path", "before", "after"} <= line.keys()


CODE = "the alarm code of the shed is 4711"


def test_large_texts_are_searched_and_large_data_by_lines(folder: Path, tmp_path: Path) -> None:
    """Questions search all of a large text, but only the beginning of large data."""
    day = "A quiet day at the harbour, with boats and ropes and nothing to report.\n\n"
    half = day * 10_000
    (folder / "chat.md").write_text(f"{half}{CODE}\n\n{half}")
    rows = "".join(f'{{"row": {number}, "boat": "dinghy"}},\n' for number in range(50_000))
    (folder / "dump.json").write_text(f'[{{"fleet": "armada"}},\n{rows}"{CODE}"]\n')
    (folder / "app.min.js").write_text(f"/* armada */\n{'boat();' * 200_000}\n//{CODE}\n")
    with Library.open(folder, index_dir=tmp_path / "index", settings=HASH) as library:
        report = library.index()
        assert (report.failures, report.skipped["partly"]) == ((), 2)
        matches = library.grep(CODE)
        assert by_uri(matches.files) == {
            "app.min.js": [3], "chat.md": [20_001], "dump.json": [50_002]
        }  # fmt: skip
        assert not matches.incomplete
        assert library.search(CODE, mode="keyword").hits[0].span.start_line <= 20_001
        counts = {uri: len(library.read(uri).text) for uri in ("chat.md", "dump.json")}
        assert min(counts.values()) > 1 << 20
        assert report.chunks_embedded < 1_500
        assert {hit.uri for hit in library.search("armada", mode="keyword").hits} == {
            "app.min.js",
            "dump.json",
        }
        (note,) = library.search("zeppelin", mode="keyword").incomplete
        assert (note.reason, note.uris) == ("not_searched", ("app.min.js", "dump.json"))
        assert library.why("dump.json").admitted
        assert library.verify() == []


def test_files_that_were_too_large_to_search_are_named(folder: Path, tmp_path: Path) -> None:
    (folder / "chat.md").write_text("x" * 9_000 + CODE)
    settings = {**HASH, "sources.max_file_bytes": 8_000}
    with Library.open(folder, index_dir=tmp_path / "index", settings=settings) as library:
        library.index()
        for answer in (library.grep(CODE), library.grep("engine"), library.search("zeppelin")):
            (note,) = [note for note in answer.incomplete if note.reason == "not_searched"]
            assert note.uris == ("chat.md",)
            assert str(note) == (
                "Incomplete (not_searched): 1 file too large to be searched completely: chat.md"
            )
        assert not library.grep("engine", filters=Filters(prefix="guide")).incomplete
        assert not library.grep("engine", filters=Filters(uris=("guide.md",))).incomplete
        assert not library.grep("engine", filters=Filters(glob="*.py")).incomplete
        assert not library.search("engine oil", mode="keyword").incomplete
        assert library.status().skipped["too_large"] == 1
    # Another limit admits it without anything else having changed.
    with Library.open(folder, index_dir=tmp_path / "index", settings=HASH) as library:
        assert library.grep(CODE).matched_files == 1
