"""The facade over real folders: fresh answers, honest notes, exact citations, shared by threads."""

from __future__ import annotations

import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest

from lookfar.errors import (
    Ambiguous,
    IndexTooNew,
    InvalidArgument,
    InvalidConfig,
    NotFound,
    NotIndexed,
)
from lookfar.freshness import disk
from lookfar.library import Library
from lookfar.model import Answer, Filters, Mode

pytestmark = pytest.mark.usefixtures("own_home")

HASH = {"embed.provider": "hash", "index.workers": 1}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    (folder / "guide.md").write_text("# Guide\n\n## Setup\n\ninstall it\n\n## Use\n\nrun zebra\n")
    (folder / "notes.md").write_text("# Notes\n\ngiraffe facts\n")
    return folder


@pytest.fixture
def library(root: Path, tmp_path: Path) -> Iterator[Library]:
    with Library.open(root, index_dir=tmp_path / "index", settings=HASH) as opened:
        yield opened


def found(library: Library, query: str, **more: object) -> set[str]:
    answer = library.search(query, mode="keyword", **more)  # type: ignore[arg-type]
    return {hit.uri for hit in answer.hits}


# --- freshness --------------------------------------------------------------------------------


def test_a_folder_never_indexed_is_indexed_by_its_first_question(library: Library) -> None:
    assert not library.indexed
    assert found(library, "zebra") == {"guide.md"}
    assert library.indexed
    assert library.status().generation == 1


def test_answers_follow_the_disk_without_being_told(library: Library, root: Path) -> None:
    """Seen to fail when ``_freshen`` did nothing."""
    assert found(library, "zebra") == {"guide.md"}
    (root / "guide.md").write_text("# Guide\n\nrun ocelot\n")
    assert found(library, "zebra") == set()
    assert found(library, "ocelot") == {"guide.md"}
    (root / "sub").mkdir()
    (root / "sub" / "new.md").write_text("walrus\n")
    assert found(library, "walrus") == {"sub/new.md"}
    (root / "sub" / "new.md").rename(root / "renamed.md")
    assert found(library, "walrus") == {"renamed.md"}
    (root / "renamed.md").unlink()
    assert found(library, "walrus") == set()
    answer = library.search("ocelot", mode="keyword")
    assert (answer.incomplete, answer.generation) == ((), library.status().generation)


def test_many_changes_are_named_and_not_waited_for(library: Library, root: Path) -> None:
    library.index()
    for number in range(50):
        (root / f"{number}.md").write_text(f"okapi {number}\n")
    answer = library.search("okapi", mode="keyword")
    assert answer.hits == ()
    (note,) = answer.incomplete
    assert note.reason == "stale"
    assert len(note.uris) == 50
    assert library.status().stale_count == 50
    library.index()
    assert len(found(library, "okapi", top_k=50)) == 50


def test_a_folder_too_large_to_compare_says_so(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "MOST_CHECKED", 1)
    monkeypatch.setattr(disk, "BUDGET_SECONDS", -1.0)
    settings = {**HASH, "index.max_auto_files": 1}
    with Library.open(root, index_dir=tmp_path / "index", settings=settings) as library:
        library.index()
        (root / "late.md").write_text("okapi\n")
        answer = library.search("okapi", mode="keyword")
    assert [note.reason for note in answer.incomplete] == ["unchecked"]
    assert answer.hits == ()


def test_while_another_writes_the_answer_is_old_and_says_so(library: Library, root: Path) -> None:
    library.index()
    (root / "late.md").write_text("okapi\n")
    with library.folder().store.writer("other", 64, about={}, retain=3):
        answer = library.search("giraffe", mode="keyword")
        assert [hit.uri for hit in answer.hits] == ["notes.md"]
        assert [(note.reason, note.uris) for note in answer.incomplete] == [("stale", ("late.md",))]
    assert found(library, "okapi") == {"late.md"}


def test_other_settings_make_another_index_and_generations_go_on(
    library: Library, root: Path, tmp_path: Path
) -> None:
    library.index()
    settings = {**HASH, "chunk.max_tokens": 32, "chunk.hard_max_tokens": 64, "chunk.min_tokens": 0}
    with Library.open(root, index_dir=tmp_path / "index", settings=settings) as other:
        assert not other.status().current
        assert found(other, "zebra") == {"guide.md"}
        assert other.status().current
        assert other.status().generation == 2
    assert not library.status().current


def test_a_past_generation_can_be_asked(library: Library, root: Path) -> None:
    library.index()
    (root / "notes.md").write_text("# Notes\n\nokapi facts\n")
    library.index()
    (hit,) = library.search("giraffe", mode="keyword", as_of=1).hits
    assert hit.text.endswith("giraffe facts\n")
    assert hit.state == "changed"
    assert found(library, "giraffe") == set()
    with pytest.raises(InvalidArgument) as raised:
        library.search("giraffe", as_of=99)
    assert "1, 2" in raised.value.hint


def _lose(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def _scribble(path: Path) -> None:
    target = path / "segments.json" if path.is_dir() else path
    target.write_bytes(b"nonsense" * 40)


@pytest.mark.parametrize("hurt", [_lose, _scribble])
@pytest.mark.parametrize("name", ["words", "catalogue.db", "vectors.f16"])
@pytest.mark.parametrize("act", ["search", "index", "read", "outline"])
def test_damage_is_set_aside_reported_and_mended(
    library: Library,
    name: str,
    hurt: Callable[[Path], None],
    act: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What is derived is made anew in its place. Seen to fail when the damaged epoch was removed
    instead of renamed.
    """
    library.index()
    library.close()
    (epoch,) = library.index_dir.glob("epoch-*")
    hurt(epoch / name)
    assert library.verify() != []
    if act == "search":
        answer = library.search("zebra")
        assert [note.reason for note in answer.incomplete] == ["healed"]
        assert "is damaged" in caplog.text
    elif act == "index":
        library.index()
    else:
        getattr(library, act)("notes.md")
    assert found(library, "zebra") == {"guide.md"}
    assert library.verify() == []
    assert library.status().damage
    aside = [f"damaged-{epoch.name}"] if name == "catalogue.db" else []
    assert [path.name for path in library.index_dir.glob("damaged-*")] == aside
    assert library.search("zebra").incomplete == ()


def test_a_pointer_to_nowhere_is_mended_too(library: Library) -> None:
    library.index()
    library.close()
    (library.index_dir / "CURRENT").write_text("../..")
    assert [note.reason for note in library.search("zebra").incomplete] == ["healed"]
    assert found(library, "zebra") == {"guide.md"}


def test_an_index_of_a_newer_lookfar_is_never_set_aside(library: Library) -> None:
    library.index()
    library.close()
    (epoch,) = library.index_dir.glob("epoch-*")
    with closing(sqlite3.connect(epoch / "catalogue.db")) as connection:
        connection.execute("PRAGMA user_version=999")
        connection.execute("UPDATE meta SET value = '999' WHERE key = 'format'")
        connection.commit()
    for act in (lambda: library.search("zebra"), library.index, lambda: library.read("notes.md")):
        with pytest.raises(IndexTooNew, match="newer"):
            act()
    assert epoch.is_dir()


# --- reading ----------------------------------------------------------------------------------


def test_documents_sections_and_lines_are_read_from_the_disk(library: Library, root: Path) -> None:
    library.index()
    assert library.read("notes.md").text == "# Notes\n\ngiraffe facts\n"
    section = library.read("guide.md#Setup")
    assert section.text == "## Setup\n\ninstall it\n\n"
    assert (section.span.start_line, section.heading_path) == (3, ("Guide", "Setup"))
    assert library.read("guide.md:7-9").text == "## Use\n\nrun zebra\n"
    assert library.read("notes.md").state == "same"
    (root / "notes.md").write_text("# Notes\n\nchanged\n")
    changed = library.read("notes.md")
    assert (changed.text, changed.state) == ("# Notes\n\nchanged\n", "changed")
    assert changed.sha256 == sha256(changed.text.encode()).hexdigest()


def test_names_that_nobody_has_come_with_those_that_are_near(library: Library, root: Path) -> None:
    with pytest.raises(NotIndexed):
        library.read("guide.md")
    (root / "guide.md").write_text("# Guide\n\n## Setup\n\none\n\n# Other\n\n## Setup\n\ntwo\n")
    library.index()
    with pytest.raises(NotFound) as raised:
        library.read("guide.txt")
    assert "guide.md" in raised.value.details["candidates"]
    with pytest.raises(NotFound) as raised:
        library.read("guide.md#Setups")
    assert raised.value.details["candidates"]
    with pytest.raises(Ambiguous) as ambiguous:
        library.read("guide.md#Setup")
    assert len(ambiguous.value.details["candidates"]) == 2
    with pytest.raises(NotFound):
        library.read("guide.md:500")
    with pytest.raises(NotFound):
        library.outline("../outside.md")


def test_an_outline_is_the_heading_tree(library: Library) -> None:
    library.index()
    outline = library.outline("guide.md")
    assert [(each.level, each.title) for each in outline.sections] == [
        (1, "Guide"), (2, "Setup"), (2, "Use"),
    ]  # fmt: skip
    assert (outline.title, outline.lines) == ("Guide", 9)


def test_status_tells_what_is_there(library: Library, root: Path) -> None:
    before = library.status()
    assert (before.indexed, before.generation, before.disk_bytes) == (False, 0, 0)
    library.index()
    after = library.status()
    assert (after.indexed, after.generation, after.generations) == (True, 1, (1,))
    assert after.counts.documents == 2
    assert after.disk_bytes > 0
    assert after.current
    (root / "late.md").write_text("text\n")
    assert library.status().stale == ("late.md",)
    assert library.status(check=False).stale == ()


# --- citations --------------------------------------------------------------------------------


def normalised(raw: bytes) -> str:
    """Written again from the promise, not from the code that keeps it."""
    text = raw.decode("utf-16") if raw[:2] == b"\xff\xfe" else raw.decode("utf-8-sig")
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return lines if lines.endswith("\n") or not lines else lines + "\n"


def verified(answer: Answer, root: Path) -> int:
    """Check every cited span against the file itself; gives how many there were."""
    for hit in answer.hits:
        text = normalised((root / hit.uri).read_bytes())
        cited = text[hit.span.start : hit.span.end]
        assert sha256(cited.encode()).hexdigest() == hit.sha256
        assert cited.startswith(hit.text)
        assert hit.state == "same"
        assert text.count("\n", 0, hit.span.start) + 1 == hit.span.start_line
        assert text.count("\n", 0, hit.span.end - 1) + 1 == hit.span.end_line
    return len(answer.hits)


def test_every_cited_span_is_in_the_file(library: Library, root: Path) -> None:
    """Seen to fail when excerpts were cut out of the text as it is before normalisation."""

    def body(name: str) -> str:
        return "\n\n".join(f"## Ä{n} 設定\n\npanda 🐼 çedilla {name} {n}" for n in range(8))

    (root / "unix.md").write_text(body("tux"))
    (root / "windows.md").write_bytes(body("clippy").replace("\n", "\r\n").encode("utf-8-sig"))
    (root / "mac.md").write_bytes(body("clarus").replace("\n", "\r").encode())
    (root / "wide.md").write_bytes(b"\xff\xfe" + body("two").encode("utf-16-le"))
    (root / "plain.txt").write_text("panda\f\x0b\x85\u2028 no newline at the end")
    library.index()
    for mode in ("keyword", "vector", "hybrid"):
        answer = library.search("panda çedilla", mode=mode, top_k=50)
        assert verified(answer, root) >= 4
    assert found(library, "panda") == {"unix.md", "windows.md", "mac.md", "wide.md", "plain.txt"}


def test_filters_hold_in_every_mode(library: Library, root: Path) -> None:
    (root / "sub").mkdir()
    (root / "sub" / "a.md").write_text("# A\n\nzebra\n")
    library.index()
    for mode in ("keyword", "vector", "hybrid"):
        answer = library.search("zebra", mode=mode, filters=Filters(prefix="sub/"))
        assert {hit.uri for hit in answer.hits} == {"sub/a.md"}


# --- threads ----------------------------------------------------------------------------------


def test_a_library_is_shared_by_threads_while_it_changes(library: Library, root: Path) -> None:
    """Eight threads ask while one edits and indexes: no error, and every citation is exact.

    Seen to fail when threads borrowed one connection at the same time.
    """
    for number in range(20):
        (root / f"{number}.md").write_text(f"# Page {number}\n\nlemur text {number}\n")
    library.index()
    problems: list[BaseException] = []
    over = threading.Event()

    def ask() -> None:
        try:
            for _ in range(20):
                answer = library.search("lemur text")
                assert answer.hits
                for hit in answer.hits:
                    if hit.state == "same" and not hit.truncated:
                        assert sha256(hit.text.encode()).hexdigest() == hit.sha256
        except BaseException as error:
            problems.append(error)

    def edit() -> None:
        try:
            number = 0
            while not over.is_set():
                number += 1
                (root / f"{number % 20}.md").write_text(f"# New {number}\n\nlemur text {number}\n")
                library.index(wait_seconds=5.0)
                time.sleep(0.005)
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    editor = threading.Thread(target=edit)
    for thread in (editor, *threads):
        thread.start()
    for thread in threads:
        thread.join()
    over.set()
    editor.join()
    assert problems == []
    library.index()
    assert verified(library.search("lemur text", top_k=50), root) > 10
    assert library.verify() == []


@pytest.mark.parametrize("heading", ["API keys", "api KEYS", "Keys > API", "Rotation"])
def test_a_heading_inside_a_joined_chunk_is_found(tmp_path: Path, heading: str) -> None:
    """Seen to fail: matching the chunk's own path, which names only what its parts share."""
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "keys.md").write_text(
        "# Keys\n\nAll of them.\n\n## API keys\n\nLong ones.\n\n### Rotation\n\nEach year.\n"
    )
    (folder / "other.md").write_text("# Other\n\nKeys and rotation of crops.\n")
    settings = {"embed.provider": "hash"}
    with Library.open(folder, index_dir=tmp_path / "index", settings=settings) as library:
        modes: tuple[Mode, ...] = ("keyword", "vector", "hybrid")
        for mode in modes:
            found = library.search("rotation of keys", mode=mode, filters=Filters(heading=heading))
            assert {hit.uri for hit in found.hits} == {"keys.md"}
        assert library.search("rotation", filters=Filters(heading="Absent")).hits == ()


def test_clones_and_other_chunk_sizes_share_their_vectors(tmp_path: Path) -> None:
    """Seen to fail: with ``Siblings.vectors`` giving nothing."""
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    for number in range(5):
        (here / f"{number}.md").write_text(f"# Page {number}\n\n{'some words ' * 60}{number}\n")
    shutil.copytree(here, there)
    index, settings = tmp_path / "index", {"embed.provider": "hash"}
    with Library.open(here, index_dir=index, settings=settings) as first:
        assert first.index().chunks_embedded == 5
    with Library.open(there, index_dir=index, settings=settings) as clone:
        assert clone.index().chunks_embedded == 0
        assert clone.verify() == []
        hits = clone.search("some words of page 3", mode="vector").hits
        assert {hit.uri for hit in hits} == {f"{number}.md" for number in range(5)}
    larger = settings | {"chunk.max_tokens": 900}
    with Library.open(there, index_dir=index, settings=larger) as again:
        assert again.index().chunks_embedded == 0
    (index / next(index.iterdir()).name / "CURRENT").write_text("nonsense")
    with Library.open(there, index_dir=index, settings=settings) as other:
        assert other.index().added == 5
        assert other.verify() == []


def test_the_name_of_a_file_finds_it(tmp_path: Path) -> None:
    """Seen to fail: when only titles and texts were indexed."""
    folder = tmp_path / "docs"
    (folder / "guides").mkdir(parents=True)
    (folder / "guides" / "safely-drain-node.md").write_text("# Maintenance\n\nMove the work.\n")
    (folder / "other.md").write_text("# Other\n\nNothing to do with it.\n")
    with Library.open(folder, index_dir=tmp_path / "i", settings={"embed.provider": "hash"}) as it:
        for name in ("safely-drain-node", "safely-drain-node.md", "guides/safely-drain-node.md"):
            assert it.search(name, mode="keyword").hits[0].uri == "guides/safely-drain-node.md"


def test_a_known_name_beats_its_parts_and_an_unknown_one_is_sought_by_them(tmp_path: Path) -> None:
    """Seen to fail: with equal weights the page full of parts came first."""
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "exact.md").write_text(
        "# Calls\n\n" + "filler words here " * 60 + "listNamespacedPod\n"
    )
    (folder / "parts.md").write_text("# List a pod\n\n" + "list pod namespaced " * 20)
    for number in range(20):
        (folder / f"{number}.md").write_text(f"# Page {number}\n\nlist of things {number}\n")
    with Library.open(folder, index_dir=tmp_path / "i", settings={"embed.provider": "hash"}) as it:
        assert it.search("listNamespacedPod").hits[0].uri == "exact.md"
        assert it.search("podNamespacedList", mode="keyword").hits[0].uri == "parts.md"
        assert it.search("qwertyuiop", mode="keyword").hits == ()


# --- settings that are edited while the library is open -----------------------------------------


def test_an_edited_settings_file_holds_at_once(library: Library, root: Path) -> None:
    """A server runs for days; nobody should have to restart it to exclude a folder."""
    assert found(library, "giraffe") == {"notes.md"}
    (root / "lookfar.toml").write_text('[sources]\nexclude = ["notes.md"]\n')
    assert found(library, "giraffe") == set()
    (root / "lookfar.toml").write_text('[sources]\nexlude = ["notes.md"]\n')
    with pytest.raises(InvalidConfig, match="exlude"):
        library.search("giraffe")
    (root / "lookfar.toml").unlink()
    assert found(library, "giraffe") == {"notes.md"}


def test_an_edited_settings_file_holds_while_following(library: Library, root: Path) -> None:
    """The watcher judges by the old rules until it is made anew."""
    (root / "lookfar.toml").write_text('[sources]\nexclude = ["drafts"]\n')
    (root / "drafts").mkdir()
    library.watch()
    assert library.drain(20.0)
    (root / "drafts" / "new.md").write_text("# New\n\nquagga\n")
    assert found(library, "quagga") == set()
    (root / "lookfar.toml").unlink()
    assert found(library, "quagga") == {"drafts/new.md"}
    (root / "drafts" / "new.md").write_text("# New\n\nokapi\n")
    assert found(library, "okapi") == {"drafts/new.md"}


def test_a_resting_folder_keeps_no_caches_and_answers_as_before(library: Library) -> None:
    """Seen to fail where the memory of analysed words was kept."""
    from lookfar.store.keywords import analyser
    from lookfar.store.sqlite.snapshot import RECENT

    before = library.search("zebra giraffe")
    assert analyser._expansions
    library.folder().rest()
    assert not analyser._expansions
    assert analyser._part_term.cache_info().currsize == 0
    assert not RECENT._texts
    after = library.search("zebra giraffe")
    assert [hit.text for hit in after.hits] == [hit.text for hit in before.hits]
