"""Memories as a collection: found beside documents, led by links both ways, marked when stale."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lookfar.collections.read_documents import contains
from lookfar.errors import InvalidArgument, NotFound
from lookfar.library import Library
from lookfar.model import Filters

DAY_NS = 86_400 * 10**9


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    (root / "guide.md").write_text("# Guide\n\nHow connections are kept alive.\n", encoding="utf-8")
    (root / "src" / "server.py").write_text("def serve():\n    return 1\n", encoding="utf-8")
    return root


def opened(*roots: Path, **more: Any) -> Library:
    base = roots[0].parent
    settings = {"embed.provider": "hash", "index.workers": 1, "memory.dir": str(base / "memory")}
    return Library.open(*roots, index_dir=base / "index", settings=settings | more)


@pytest.fixture
def library(project: Path) -> Iterator[Library]:
    with opened(project) as found:
        yield found


def older(path: Path, days: float) -> None:
    """Let a file have been written some days ago."""
    when = time.time_ns() - int(days * DAY_NS)
    os.utime(path, ns=(when, when))


def links(library: Library, uri: str) -> list[tuple[str, str, bool]]:
    found = library.related(uri, kinds=["links"], collection="project@memory")
    return [(each.target, each.uri, each.resolved) for each in found.entries]


def mentioning(library: Library, uri: str) -> list[str]:
    found = library.related(uri, kinds=["memories"])
    assert found.totals["memories"] == len(found.entries)
    assert all(each.collection == "project@memory" for each in found.entries)
    return [each.uri for each in found.entries]


# --- one answer -----------------------------------------------------------------------------------


def test_memories_answer_beside_documents_and_say_so(library: Library) -> None:
    library.remember("We retry connections three times.", title="Retries", tags=["net"])
    found = library.search("connections", memories=True)
    lanes = {hit.uri: (hit.collection, hit.lane) for hit in found.hits}
    assert lanes["retries.md"] == ("project@memory", "memory")
    assert lanes["guide.md"] == ("project", "docs")
    assert set(found.generations) == {"project", "project@memory"}
    only = library.search("connections", filters=Filters(lanes=("memory",)))
    assert [hit.uri for hit in only.hits] == ["retries.md"]
    without = library.search("connections", filters=Filters(lanes=("docs",)), memories=True)
    assert {hit.lane for hit in without.hits} == {"docs"}
    assert {hit.lane for hit in library.search("connections").hits} == {"docs"}


def test_without_memories_nothing_is_written_and_nothing_asked(
    library: Library, project: Path
) -> None:
    assert library.memories() == {}
    assert library.search("connections", memories=True).hits
    found = library.search("connections", filters=Filters(lanes=("memory",)))
    assert found.hits == ()
    assert [note.reason for note in found.incomplete] == ["no_memory"]
    assert not (project.parent / "memory").exists()


def test_memories_are_read_by_address_and_kept_true(library: Library) -> None:
    name, made = library.remember("First version.", title="Note")
    assert library.search("version", memories=True).hits
    library.notebook().update(made.name, "Second version, quite different.")
    hit = library.search("quite different", filters=Filters(lanes=("memory",))).hits[0]
    assert "Second" in hit.text
    read = library.read(f"lookfar://{name}/{made.name}")
    assert (read.collection, read.state) == ("project@memory", "same")
    library.notebook().delete(made.name)
    assert not library.search("version", filters=Filters(lanes=("memory",))).hits
    with pytest.raises(NotFound):
        library.read(made.name, collection="project@memory")


def test_tags_and_types_filter_memories(library: Library) -> None:
    for tag in ("a", "b"):
        library.remember(f"A note on connections, {tag}.", title=tag, tags=[tag])
    found = library.search("connections", filters=Filters(lanes=("memory",), tags=("a",)))
    assert [hit.uri for hit in found.hits] == ["a.md"]


def test_broken_memories_are_found_all_the_same(library: Library) -> None:
    library.remember("seed")
    folder = library.notebook().folder
    (folder / "broken.md").write_bytes(b"---\ntags: [\n---\nzebra crossing\xff\n")
    (folder / "plain.md").write_text("zebra without front matter", encoding="utf-8")
    (folder / "script.py").write_text("zebra = 1", encoding="utf-8")
    found = library.search("zebra", filters=Filters(lanes=("memory",)))
    assert {hit.uri for hit in found.hits} == {"broken.md", "plain.md"}


def test_recent_memories_count_more(library: Library) -> None:
    """As by the spec: times 1.2 within seven days, by what the memory says of itself."""
    library.remember("seed")
    folder = library.notebook().folder
    now = datetime.now(UTC)
    for name, days in (("old", 8), ("new", 6)):
        made = (now - timedelta(days=days)).isoformat()
        text = f"---\ncreated_at: {made}\n---\n\nzebra crossing rules\n"
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    lane = Filters(lanes=("memory",))
    found = library.search("zebra crossing", filters=lane, explain=True)
    scores = {hit.uri: hit.score for hit in found.hits}
    assert scores["new.md"] == pytest.approx(1.2 * scores["old.md"], rel=1e-3)
    steps = {hit.uri: [each.stage for each in hit.explanation] for hit in found.hits}
    assert "recent" in steps["new.md"]
    assert "recent" not in steps["old.md"]
    again = opened(Path(library.folder().root.path),
                   **{"memory.recent_days": 30, "memory.recent_factor": 2.0})  # fmt: skip
    with again:
        both = {hit.uri: hit.score for hit in again.search("zebra crossing", filters=lane).hits}
    assert both["old.md"] == pytest.approx(2 * scores["old.md"], rel=1e-3)


# --- links both ways ------------------------------------------------------------------------------


def test_a_memory_knows_its_documents_and_they_know_it(library: Library) -> None:
    _, made = library.remember(
        "Refactor the loop in [[src/server.py]] before [the guide](guide.md) is rewritten.",
        title="Loop", type="plan",
    )  # fmt: skip
    library.index()
    assert mentioning(library, "src/server.py") == [made.name]
    assert mentioning(library, "guide.md") == [made.name]
    (entry,) = library.related("src/server.py", kinds=["memories"]).entries
    assert entry.relation == "refactors"
    assert "Refactor the loop in src/server.py before" in entry.context
    assert (entry.line, entry.resolved, entry.title) == (11, True, "Loop")
    assert links(library, made.name) == [
        ("src/server.py", "src/server.py", True),
        ("guide.md", "guide.md", True),
    ]
    found = library.related(made.name, kinds=["links"], collection="project@memory")
    assert {each.collection for each in found.entries} == {"project"}


def test_ghosts_resolve_when_they_appear_and_return_when_it_goes(
    library: Library, project: Path
) -> None:
    """Nobody writes the memory again; the document alone makes the difference."""
    _, made = library.remember("It will be told in [[docs/later.md]].", title="Soon")
    library.index()
    assert links(library, made.name) == [("docs/later.md", "", False)]
    with pytest.raises(NotFound):
        library.related("docs/later.md", kinds=["memories"])
    entries, total = library.mentions("docs/later.md")
    assert (total, [each.resolved for each in entries]) == (1, [False])
    later = project / "docs" / "later.md"
    later.parent.mkdir()
    later.write_text("# Later\n", encoding="utf-8")
    library.index()
    assert mentioning(library, "docs/later.md") == [made.name]
    assert links(library, made.name) == [("docs/later.md", "docs/later.md", True)]
    later.unlink()
    library.index()
    assert links(library, made.name) == [("docs/later.md", "", False)]


def test_a_memory_that_appears_is_known_to_the_document(library: Library) -> None:
    library.index()
    assert library.mentions("guide.md") == ([], 0)
    library.remember("seed")
    assert mentioning(library, "guide.md") == []
    by_hand = library.notebook().folder / "hand.md"
    by_hand.write_text("See [[guide]].\n", encoding="utf-8")
    assert mentioning(library, "guide.md") == ["hand.md"]
    by_hand.unlink()
    assert mentioning(library, "guide.md") == []


def test_a_link_means_a_memory_before_it_means_a_document(library: Library) -> None:
    """And of two documents of one name the one that the graph of the folder would choose."""
    library.remember("The first.", title="Guide")
    library.remember("As the [[Guide]] says.", title="Second")
    library.remember("As [[guide.md]] says, and [[src/guide.md]].", title="Third")
    library.index()
    assert mentioning(library, "guide.md") == []
    assert library.mentions("src/guide.md")[1] == 1


def test_about_links_to_whatever_read_takes(library: Library) -> None:
    library.index()
    cite = "lookfar://project/guide.md?chars=0-5&sha256=0123456789abcdef"
    _, made = library.remember("Text.", about=["src/server.py:1-2", "guide.md#Guide", cite])
    assert made.text.endswith(
        "About: [[src/server.py|src/server.py:1-2]], [[guide.md#Guide]], [[guide.md]]"
    )
    assert mentioning(library, "src/server.py") == [made.name]
    (entry,) = library.related("guide.md", kinds=["memories"]).entries
    assert (entry.count, entry.anchor) == (2, "Guide")
    assert entry.context.startswith("Text.")
    with pytest.raises(InvalidArgument):
        library.remember("Text.", about=["x\ny"])


def test_odd_names_can_be_linked(library: Library, project: Path) -> None:
    (project / "a [b] #1.md").write_text("# Odd\n", encoding="utf-8")
    library.index()
    library.remember("Text.", about=["lookfar://project/a%20%5Bb%5D%20%231.md"])
    assert library.mentions("a [b] #1.md")[1] == 1


# --- stale ----------------------------------------------------------------------------------------


def stale(library: Library, query: str = "connections") -> tuple[str, ...]:
    (hit,) = library.search(query, filters=Filters(lanes=("memory",))).hits
    return hit.stale


def test_what_changed_since_marks_a_memory(library: Library, project: Path) -> None:
    library.index()
    library.remember("Connections: see [[guide.md]] and [[src/server.py]].", title="N")
    assert stale(library) == ()
    (project / "guide.md").write_text("# Guide\n\nOtherwise.\n", encoding="utf-8")
    assert stale(library) == ("guide.md",)
    (project / "src" / "server.py").unlink()
    assert set(stale(library)) == {"guide.md", "src/server.py"}
    library.index()
    assert set(stale(library)) == {"guide.md", "src/server.py"}
    library.notebook().append("n", "Seen the new [[guide.md]] about connections.")
    assert stale(library) == ("src/server.py",)
    library.notebook().update("n", "Connections are told in [[guide.md]] alone.")
    assert stale(library) == ()


def test_a_document_that_was_only_touched_is_not_changed(library: Library, project: Path) -> None:
    """A clone has new times and old texts: the hash that was kept decides."""
    library.index()
    library.remember("Connections: see [[guide.md]].", title="N")
    older(library.notebook().folder / "n.md", 1)
    assert stale(library) == ()


def test_without_a_hash_the_time_decides(library: Library, project: Path) -> None:
    library.remember("seed", title="seed")
    library.notebook().delete("seed")
    hand = library.notebook().folder / "hand.md"
    hand.write_text("Connections as in [[guide.md]].\n", encoding="utf-8")
    older(project / "guide.md", 2)
    older(hand, 1)
    library.index()
    assert stale(library) == ()
    older(hand, 3)
    assert stale(library) == ("guide.md",)


# --- where they lie -------------------------------------------------------------------------------


def test_memories_of_the_user_serve_every_project(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "readme.md").write_text(f"# {name}\n", encoding="utf-8")
    one, two = tmp_path / "one", tmp_path / "two"
    with opened(one, **{"memory.scope": "user"}) as library:
        library.index()
        name, _ = library.remember("Connections: [[readme.md]].", title="Mine")
        assert name == "user@memory"
    (one / "readme.md").write_text("# Changed\n", encoding="utf-8")
    (two / "readme.md").write_text("# Another, newer than the memory\n", encoding="utf-8")
    with opened(two, **{"memory.scope": "user"}) as library:
        (hit,) = library.search("connections", filters=Filters(lanes=("memory",))).hits
        assert (hit.collection, hit.stale) == ("user@memory", ())
    with opened(one, two, **{"memory.scope": "user"}) as library:
        assert list(library.memories()) == ["user@memory"]
        (hit,) = library.search("connections", filters=Filters(lanes=("memory",))).hits
        assert hit.stale == ("readme.md",)


def test_each_project_has_its_own(tmp_path: Path) -> None:
    """Also in the project itself, where they are no documents of it."""
    settings = {"embed.provider": "hash", "index.workers": 1, "memory.in_project": True}
    for name in ("one", "two"):
        root = tmp_path / name
        root.mkdir()
        with Library.open(root, index_dir=tmp_path / "index", settings=settings) as library:
            library.remember(f"Connections of {name}.", title="Note")
            found = library.search("connections", memories=True).hits
            assert [(hit.lane, hit.collection) for hit in found] == [("memory", f"{name}@memory")]
            assert name in found[0].text
            assert (root / ".lookfar" / "memory" / "note.md").exists()


def test_a_project_cannot_choose_where_memories_lie(project: Path) -> None:
    """Protects against a clone that has an agent write, or read, somewhere else."""
    for line in ('dir = "/tmp"', 'scope = "user"', "in_project = true"):
        (project / "lookfar.toml").write_text(f"[memory]\n{line}\n", encoding="utf-8")
        with pytest.raises(InvalidArgument, match="project's own file"):
            opened(project)


def test_memories_are_followed_with_their_folder(library: Library) -> None:
    library.index()
    library.remember("seed")
    memories = library.memories()["project@memory"]
    assert memories.watching() is None
    library.watch()
    assert library.drain(30)
    assert library.memories()["project@memory"] is memories
    assert memories.watching() is not None
    library.notebook().create("A zebra in the hall.", name="zebra")
    assert memories.following.drain(30)
    assert contains(memories, "zebra.md")
    library.unwatch()
    assert memories.watching() is None


@pytest.mark.usefixtures("own_home")
def test_each_memory_is_found_at_once_where_memories_lie_unless_told_otherwise(
    project: Path,
) -> None:
    """That is in the folder of indexes, of which the watcher tells nothing but this."""
    settings = {"embed.provider": "hash", "index.workers": 1}
    with Library.open(project, settings=settings) as library:
        library.index()
        library.watch()
        for number in range(5):
            library.remember(f"The word is quagga{number}.")
            found = library.search(f"quagga{number}", filters=Filters(lanes=("memory",)))
            assert found.incomplete == ()
            assert f"quagga{number}" in found.hits[0].text
            memories = library.memories()["project@memory"]
            # From now on nothing but the watcher says that there is more.
            assert memories.following.drain(60)


def test_the_status_tells_of_memories(library: Library) -> None:
    library.index()
    assert [each.collection for each in library.statuses()] == ["project"]
    library.remember("seed")
    library.search("seed", memories=True)
    assert [each.collection for each in library.statuses()] == ["project", "project@memory"]


def test_what_was_just_remembered_can_be_read_at_once(library: Library) -> None:
    """The address that ``remember`` gives must work before anybody searched."""
    for text in ("first", "second"):
        name, made = library.remember(text)
        assert text in library.read(f"lookfar://{name}/{made.name}").text
        assert library.outline(made.name, collection=name).uri == made.name


def test_a_folder_of_memories_can_be_a_library_of_its_own(library: Library, tmp_path: Path) -> None:
    """Protects the lane: one index must not be written in two ways."""
    library.remember("Connections.", title="Note")
    folder = library.notebook().folder
    with opened(folder) as plain:
        assert [hit.lane for hit in plain.search("connections").hits] == ["docs"]
    found = library.search("connections", filters=Filters(lanes=("memory",)))
    assert [hit.lane for hit in found.hits] == ["memory"]


def test_a_folder_that_went_and_came_back_is_read_anew(library: Library) -> None:
    library.index()
    library.remember("A zebra.", title="one")
    lane = Filters(lanes=("memory",))
    assert library.search("zebra", filters=lane).hits
    folder = library.notebook().folder
    shutil.rmtree(folder)
    assert library.search("zebra", filters=lane).hits == ()
    assert library.search("connections", memories=True).hits
    library.remember("Another zebra.", title="two")
    assert [hit.uri for hit in library.search("zebra", filters=lane).hits] == ["two.md"]


def test_memories_that_cannot_be_read_cost_nobody_the_rest(library: Library) -> None:
    library.notebook().create("Connections.", title="one")  # It is not compared with others.
    memories = library.memories()["project@memory"]
    (memories.index_dir).parent.mkdir(parents=True, exist_ok=True)
    memories.index_dir.write_text("in the way", encoding="utf-8")
    found = library.search("connections", memories=True)
    assert [hit.uri for hit in found.hits] == ["guide.md"]
    assert [note.reason for note in found.incomplete] == ["no_memory"]


def visible(library: Library, **filters: Any) -> set[str]:
    """Return the memories that are answers, the same whether searched, listed or matched."""
    wanted = Filters(lanes=("memory",), **filters)
    found = {hit.uri for hit in library.search("keys rotate", filters=wanted).hits}
    listed = {document.uri for document in library.list_documents(wanted).documents}
    matched = {file.uri for file in library.grep("rotate", filters=wanted).files}
    assert found == listed == matched
    return found


def test_a_superseded_memory_is_hidden_until_it_is_asked_for(library: Library) -> None:
    """Fails if the older one still answers, or if deleting the newer one does not undo that."""
    library.remember("Signing keys rotate every 90 days.", title="Keys")
    name, newer = library.remember(
        "Signing keys rotate every 60 days.", title="Keys now", supersedes=["keys"],
        valid_since="2026-11-01",
    )  # fmt: skip
    assert (newer.supersedes, newer.valid_since) == (("keys.md",), "2026-11-01")
    assert visible(library) == {"keys-now.md"}
    assert visible(library, superseded=True) == {"keys-now.md", "keys.md"}
    assert visible(library, where=("has:file.superseded",)) == {"keys.md"}
    assert library.read("keys.md", collection=name).warnings == ("superseded by keys-now.md",)
    notebook = library.notebook()
    assert notebook.read("keys").superseded_by == "keys-now.md"
    assert notebook.read("keys-now").superseded_by == ""
    notebook.delete("keys-now")
    assert visible(library) == {"keys.md"}
    notebook.restore("keys-now")
    assert visible(library) == {"keys-now.md"}


def test_two_that_supersede_each_other_hide_nothing(library: Library) -> None:
    library.remember("Keys rotate in March.", title="A")
    folder = library.notebook().folder
    (folder / "b.md").write_text('---\nsupersedes: "[[a]]"\n---\nKeys rotate in May.\n')
    assert visible(library) == {"b.md"}
    (folder / "a.md").write_text("---\nsupersedes: [b]\n---\nKeys rotate in March.\n")
    assert visible(library) == {"a.md", "b.md"}


def test_a_loop_of_memories_hides_none_of_them_and_is_pointed_out(library: Library) -> None:
    """Fails if only loops of two are known, or if a memory outside of the loop is shown, too."""
    for title in ("A", "B", "C", "D"):
        library.remember(f"Keys rotate, says {title}.", title=title)
    notebook = library.notebook()
    loop = {"a": "b", "b": "c", "c": "a"}
    for name, other in loop.items():
        (notebook.folder / f"{name}.md").write_text(
            f"---\nsupersedes: [{other}, d]\n---\nKeys rotate, says {name}.\n"
        )
    assert visible(library) == {"a.md", "b.md", "c.md"}
    warning = "a.md, b.md, c.md supersede each other in a loop, so that none of them is hidden"
    assert notebook.append("b", "Really.").warnings == (warning,)
    assert notebook.read("c").warnings == (warning,)
    assert notebook.read("d").warnings == ()
    assert {memory.superseded_by for memory in notebook.memories() if memory.name != "d.md"} == {""}
    notebook.delete("c")
    assert visible(library) == {"a.md"}
    assert notebook.restore("c").warnings == (warning,)
    _, newer = library.remember("Keys rotate now.", title="New", supersedes=["a"])
    assert newer.warnings == ()
    assert visible(library) == {"b.md", "c.md", "new.md"}


def test_an_unknown_memory_cannot_be_superseded(library: Library) -> None:
    library.remember("seed")
    with pytest.raises(NotFound, match="no memory 'gone"):
        library.remember("Text.", title="New", supersedes=["gone"])
    with pytest.raises(InvalidArgument, match="is not a date"):
        library.remember("Text.", title="New", valid_since="soon")
    assert [memory.name for memory in library.notebook().memories()] == ["seed.md"]


def test_what_a_new_memory_may_contradict_is_named(project: Path) -> None:
    """With the bundled model; fails if everything, or the superseded one, is named."""
    with opened(project, **{"embed.provider": "static"}) as library:
        _, first = library.remember(
            "We met on Monday. Signing keys are rotated every 90 days.", title="Keys"
        )
        assert first.near == ()
        _, other = library.remember("The frontend is written in React.", title="Frontend")
        assert other.near == ()
        _, newer = library.remember("Signing keys rotate every 60 days.", title="Now")
        assert [near.name for near in newer.near] == ["keys.md"]
        assert newer.near[0].sentence == "Signing keys are rotated every 90 days."
        _, last = library.remember(
            "Keys for signing are rotated monthly.", title="Last", supersedes=["now", "keys"]
        )
        assert last.near == ()
