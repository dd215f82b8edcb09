"""Where links lead: by path, by name, to missing documents; and communities."""

from __future__ import annotations

import random
import sqlite3
import unicodedata
from contextlib import closing
from pathlib import Path

import pytest

from lookfar.errors import NotIndexed
from lookfar.store.catalogue.communities import louvain
from lookfar.store.catalogue.graph import Graph
from lookfar.store.catalogue.link_names import link_name, list_names
from lookfar.store.sqlite.snapshot import EpochSnapshot
from processor_time import processor_time_below
from store.shelf import Elsewhere, Shelf, change_row, rows_of

PAGES = {
    "index.md": "# Home\n",
    "guide.md": "# The Guide\n",
    "guide/README.md": "# Guide, the folder\n",
    "docs/setup.md": "# Setup\n",
    "docs/api/_index.md": "# API\n",
    "docs/api/errors.md": "# Errors\n",
    "docs/v1.2.md": "# Release\n",
    "docs/two words.md": "# Spaces\n",
    "docs/saved.html.md": "# Saved from a site\n",
    "docs/café.md": "# Coffee\n",
    "docs/設定.md": "# 設定\n",
    "src/main.txt": "main\n",
}


def leads(shelf: Shelf, source: str, generation: int | None = None) -> list[str]:
    """Return the target of each link of a document; a missing one in brackets, as written."""
    with shelf.store.snapshot(generation) as snapshot:
        return [edge.target or f"({edge.written})" for edge in snapshot.links_from(source)]


def linked_from(shelf: Shelf, uri: str, generation: int | None = None) -> list[str]:
    with shelf.store.snapshot(generation) as snapshot:
        return [edge.source for edge in snapshot.links_to(uri)]


def both_ways(shelf: Shelf) -> None:
    """Check that backlinks are exactly the reverse of links."""
    with shelf.store.snapshot() as snapshot:
        forth = [edge for uri in snapshot.uris() for edge in snapshot.links_from(uri)]
        back = [edge for uri in snapshot.uris() for edge in snapshot.links_to(uri)]
    assert sorted(edge for edge in forth if edge.target) == sorted(back)


# --- paths ------------------------------------------------------------------------------------


PATHS = [
    ("docs/x.md", "setup.md", "docs/setup.md"),
    ("docs/x.md", "setup", "docs/setup.md"),
    ("docs/x.md", "setup.html", "docs/setup.md"),
    ("docs/x.md", "./setup.md#linux", "docs/setup.md"),
    ("docs/x.md", "setup.md?plain=1#L3", "docs/setup.md"),
    ("docs/x.md", "../guide.md", "guide.md"),
    ("docs/x.md", "api/../../docs/setup.md", "docs/setup.md"),
    ("docs/x.md", "api/", "docs/api/_index.md"),
    ("docs/x.md", "api", "docs/api/_index.md"),
    ("docs/x.md", "v1.2", "docs/v1.2.md"),
    ("docs/x.md", "saved", "docs/saved.html.md"),
    ("docs/x.md", "/docs/saved/", "docs/saved.html.md"),
    ("docs/x.md", "saved.html", "docs/saved.html.md"),
    ("docs/x.md", "saved.html.md", "docs/saved.html.md"),
    ("docs/x.md", "saved.md", "(saved.md)"),
    ("docs/x.md", "two%20words.md", "docs/two words.md"),
    ("docs/x.md", "caf%C3%A9.md", "docs/café.md"),
    ("docs/x.md", "設定.md", "docs/設定.md"),
    ("docs/x.md", "SETUP.md", "docs/setup.md"),
    ("docs/x.md", "/guide.md", "guide.md"),
    ("docs/x.md", "/docs/setup", "docs/setup.md"),
    ("docs/x.md", "docs/setup.md", "docs/setup.md"),  # From the root, as Obsidian writes it.
    ("docs/x.md", "../src/main.txt", "src/main.txt"),
    ("x.md", ".", "index.md"),
    ("docs/x.md", "..", "index.md"),
    ("docs/x.md", "/", "index.md"),
    ("docs/api/x.md", "..", "(..)"),
    ("x.md", "guide", "guide.md"),
    ("x.md", "guide/", "guide/README.md"),
    ("x.md", "guide/index.md", "(guide/index.md)"),
    ("x.md", "setup.md", "(setup.md)"),  # One word alone is not looked for elsewhere.
    ("docs/x.md", "errors.md", "(errors.md)"),
    ("docs/x.md", "setup.rst", "(setup.rst)"),
    ("docs/x.md", "main.py", "(main.py)"),
    ("docs/x.md", "../../docs/setup.md", "(../../docs/setup.md)"),
    ("docs/x.md", "../../../etc/setup.md", "(../../../etc/setup.md)"),
]


def led(shelf: Shelf, pages: dict[str, str], links: list[tuple[str, str]]) -> list[str]:
    """Return where each link leads; all links of a source are in one document."""
    for source, link in links:
        pages[source] = pages.get(source, "") + f"See {link}.\n\n"
    shelf.write(pages)
    found = {source: iter(leads(shelf, source)) for source, _ in links}
    both_ways(shelf)
    return [next(found[source]) for source, _ in links]


@pytest.fixture(scope="module")
def by_path(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    links = [(source, f"[this]({written})") for source, written, _ in PATHS]
    shelf = Shelf(tmp_path_factory.mktemp("paths") / "index")
    with closing(shelf.store):
        return led(shelf, dict(PAGES), links)


@pytest.mark.parametrize(("at", "case"), list(enumerate(PATHS)), ids=str)
def test_a_path_leads_to_its_file_or_nowhere(
    at: int, case: tuple[str, str, str], by_path: list[str]
) -> None:
    """Full paths are never guessed, and every usual spelling of a page works."""
    assert by_path[at] == case[2]


def test_external_links_are_not_edges(shelf: Shelf) -> None:
    """Web addresses would otherwise flood the graph."""
    elsewhere = ("https://example.com/guide.md", "mailto:guide", "//example.com/guide", "#guide")
    text = "".join(f"[this]({each}) " for each in elsewhere) + "[[https://example.com/guide]]\n"
    shelf.write({"guide.md": "# Guide\n", "x.md": text})
    assert leads(shelf, "x.md") == []
    assert linked_from(shelf, "guide.md") == []


def test_missing_pictures_are_omitted_but_missing_notes_are_listed(shelf: Shelf) -> None:
    shelf.write({"x.md": "![a](b.png) ![[c.jpg]] ![[Later]] [d](e.png)\n"})
    assert leads(shelf, "x.md") == ["(Later)", "(e.png)"]


def test_a_site_may_be_in_a_subfolder(shelf: Shelf) -> None:
    """Sites write addresses from their own root, sometimes after a language or prefix."""
    shelf.write(
        {
            "content/en/docs/pods.md": "[a](/docs/nodes/) [b](/docs/absent/) [c](/nodes)\n",
            "content/en/docs/nodes/_index.md": "# Nodes\n",
            "content/de/docs/nodes/_index.md": "# Knoten\n",
            "content/de/docs/pods.md": "[a](/docs/nodes/)\n",
            "files/en-us/web/css/index.md": "[b](/en-US/docs/Web/HTML#top)\n",
            "files/en-us/web/html/index.md": "[a](/en-US/docs/Web/CSS) [b](/a/b/c/Web/CSS)\n",
        }
    )
    assert leads(shelf, "content/en/docs/pods.md") == [
        "content/en/docs/nodes/_index.md",
        "(/docs/absent/)",
        "content/en/docs/nodes/_index.md",
    ]
    assert leads(shelf, "content/de/docs/pods.md") == ["content/de/docs/nodes/_index.md"]
    assert leads(shelf, "files/en-us/web/css/index.md") == ["files/en-us/web/html/index.md"]
    assert leads(shelf, "files/en-us/web/html/index.md") == [
        "files/en-us/web/css/index.md",
        "(/a/b/c/Web/CSS)",
    ]
    both_ways(shelf)


def test_a_vault_may_be_in_a_subfolder(shelf: Shelf) -> None:
    shelf.write(
        {"vault/notes/one.md": "[two](notes/two.md) [x](two/three.md)", "vault/notes/two.md": "2\n"}
    )
    assert leads(shelf, "vault/notes/one.md") == ["vault/notes/two.md", "(two/three.md)"]


def test_composed_and_decomposed_names_match(shelf: Shelf) -> None:
    """macOS writes file names decomposed, people write links composed."""
    stored = unicodedata.normalize("NFD", "Café Ångström.md")
    shelf.write({stored: "# x\n", "x.md": "[[café ångström]] [a](Caf%C3%A9%20Ångström.md)\n"})
    assert leads(shelf, "x.md") == [stored, stored]


# --- names ------------------------------------------------------------------------------------


NAMES = [
    ("Note", "b/Note.md"),
    ("note", "b/Note.md"),
    ("note.md", "b/Note.md"),
    ("Note#Part", "b/Note.md"),
    ("Note|shown", "b/Note.md"),
    ("a/deep/note", "a/deep/note.md"),
    ("deep/note", "a/deep/note.md"),
    ("/b/note", "b/Note.md"),
    ("/note", "(/note)"),
    ("eep/note", "(eep/note)"),
    ("../a/deep/note", "a/deep/note.md"),
    ("Handle", "named.md"),
    ("other  HANDLE", "named.md"),
    ("A Title: with more", "named.md"),
    ("TCP/IP", "net.md"),
    ("folder", "folder/index.md"),
    ("note.rst", "(note.rst)"),
    ("Nobody", "(Nobody)"),
]


def test_a_wikilink_matches_path_name_alias_and_title(shelf: Shelf) -> None:
    """Every way to name a note, and some that only look like one."""
    pages = {
        "a/deep/note.md": "deeper\n",
        "b/Note.md": "nearer\n",
        "named.md": "---\naliases: [Handle, Other Handle]\n---\n# A title: with more\n",
        "net.md": "# TCP/IP\n",
        "folder/index.md": "# x\n",
    }
    found = led(shelf, pages, [("folder/from.md", f"[[{written}]]") for written, _ in NAMES])
    assert dict(zip([written for written, _ in NAMES], found, strict=True)) == dict(NAMES)


def test_the_target_nearest_to_the_root_wins(shelf: Shelf) -> None:
    """Ambiguity is resolved the same way in any order of indexing."""
    order = ["z/note.md", "a/b/note.md", "y/note.md", "from.md", "y/NOTE.md"]
    for seed in range(4):
        random.Random(seed).shuffle(order)
        texts = {uri: "[[note]] [[NOTE]]\n" if uri == "from.md" else "# x\n" for uri in order}
        shelf.write(texts, rebuild=True)
        assert leads(shelf, "from.md") == ["y/note.md", "y/NOTE.md"]


def test_file_names_win_over_aliases_and_aliases_over_titles(shelf: Shelf) -> None:
    shelf.write(
        {
            "x.md": "[[Plan]]\n",
            "a.md": "# Plan\n",
            "b.md": "---\naliases: plan\n---\n",
            "far/away/plan.md": "",
        }
    )
    assert leads(shelf, "x.md") == ["far/away/plan.md"]
    shelf.write({"far/away/plan.md": None})
    assert leads(shelf, "x.md") == ["b.md"]
    shelf.write({"b.md": None})
    assert leads(shelf, "x.md") == ["a.md"]


def test_titles_and_aliases_are_for_wikilinks_only(shelf: Shelf) -> None:
    shelf.write({"a.md": "---\naliases: plan\n---\n# Plot\n", "x.md": "[a](plan) [b](Plot.md)\n"})
    assert leads(shelf, "x.md") == ["(plan)", "(Plot.md)"]


def test_a_document_is_not_linked_with_itself(shelf: Shelf) -> None:
    shelf.write({"a.md": "[[a]] [x](a.md) [y](#z) [[#z]] [[b]]\n", "b.md": "[[a]] [[b]]\n"})
    assert leads(shelf, "a.md") == ["b.md"]
    assert linked_from(shelf, "a.md") == ["b.md"]


# --- generations ------------------------------------------------------------------------------


def test_a_missing_target_appears_and_disappears(shelf: Shelf) -> None:
    """The linking document is not written again: its links are resolved on request."""
    first = shelf.write({"a.md": "[[Later]] and [too](sub/later.md)\n"})
    second = shelf.write({"sub/later.md": "# Now\n"})
    third = shelf.write({"sub/later.md": None})
    ghosts, there = ["(Later)", "(sub/later.md)"], ["sub/later.md", "sub/later.md"]
    assert [leads(shelf, "a.md", each) for each in (first, second, third)] == [
        ghosts, there, ghosts,
    ]  # fmt: skip
    assert linked_from(shelf, "sub/later.md", second) == ["a.md", "a.md"]
    assert linked_from(shelf, "sub/later.md", third) == []


def test_a_rename_breaks_paths_and_keeps_names(shelf: Shelf) -> None:
    before = shelf.write({"a.md": "[[Topic]] [x](topic.md)\n", "topic.md": "# T\n"})
    after = shelf.write({"topic.md": None, "moved/topic.md": "# T\n"})
    assert leads(shelf, "a.md", before) == ["topic.md", "topic.md"]
    assert leads(shelf, "a.md", after) == ["moved/topic.md", "(topic.md)"]
    assert linked_from(shelf, "moved/topic.md") == ["a.md"]


def test_links_belong_to_their_version(shelf: Shelf) -> None:
    old = shelf.write({"a.md": "[[b]]\n", "b.md": "b\n", "c.md": "c\n"})
    shelf.write({"a.md": "[[c]]\n"})
    assert (linked_from(shelf, "b.md", old), linked_from(shelf, "b.md")) == (["a.md"], [])
    assert (linked_from(shelf, "c.md", old), linked_from(shelf, "c.md")) == ([], ["a.md"])
    with shelf.store.snapshot(old) as before, shelf.store.snapshot() as now:
        assert [each.uri for each in before.community("a.md")] == ["b.md"]
        assert [each.uri for each in now.community("a.md")] == ["c.md"]


def test_names_are_purged_with_their_version(shelf: Shelf) -> None:
    """Purged documents would otherwise leave names behind for ever."""
    shelf.retain = 1
    for number in range(4):
        shelf.write({"a.md": f"# Title {number}\n\n[[b{number}]]\n"})
    assert rows_of(shelf, "SELECT name FROM names ORDER BY name") == [("a",), ("title 3",)]
    assert rows_of(shelf, "SELECT name FROM links") == [("b3",)]


def test_an_index_without_names_asks_for_reindexing(shelf: Shelf) -> None:
    """An older format still serves; only link queries are refused."""
    shelf.write({"a.md": "[[b]]\n", "b.md": "b\n"})
    change_row(shelf, "DROP INDEX links_by_name")
    change_row(shelf, "ALTER TABLE links DROP COLUMN name")
    change_row(shelf, "DROP TABLE names")
    change_row(shelf, "DELETE FROM meta WHERE key = 'format'")
    change_row(shelf, "PRAGMA user_version=1")
    shelf.store.close()
    with shelf.store.snapshot() as snapshot:
        assert snapshot.text("a.md") == "[[b]]\n"
        for ask in (snapshot.links_from, snapshot.links_to, snapshot.community):
            with pytest.raises(NotIndexed, match="older Lookfar"):
                ask("a.md")


# --- size -------------------------------------------------------------------------------------


def test_ten_thousand_links_in_one_file(shelf: Shelf) -> None:
    links = "\n".join(f"[[n{number % 100}]] [x](n{number}.md)" for number in range(5_000))
    shelf.write({"hub.md": links, **{f"n{number}.md": "x\n" for number in range(100)}})
    with processor_time_below(10):
        found = leads(shelf, "hub.md")
        assert len(found) == 10_000
        assert sum(not match.startswith("(") for match in found) == 5_100
        assert len(linked_from(shelf, "n7.md")) == 51


def test_links_are_found_by_an_index(shelf: Shelf) -> None:
    """Without the index, finding the links to one page would scan all links."""
    shelf.write({"a.md": "[[b]]\n", "b.md": "b\n"})
    (plan,) = rows_of(
        shelf,
        "EXPLAIN QUERY PLAN SELECT document FROM links l WHERE l.name = 'b' AND l.name != ''",
    )
    assert "links_by_name" in str(plan)
    asked: list[str] = []
    with shelf.store.snapshot() as snapshot:
        assert isinstance(snapshot, EpochSnapshot)
        assert isinstance(snapshot._connection, sqlite3.Connection)
        snapshot._connection.set_trace_callback(asked.append)
        snapshot.links_to("b.md")
        snapshot._connection.set_trace_callback(None)
        (statement,) = [each for each in asked if "FROM links" in each]
        used = snapshot._connection.execute(f"EXPLAIN QUERY PLAN {statement}").fetchall()
    assert any("links_by_name" in str(row) for row in used)


# --- communities --------------------------------------------------------------------------------


def clique(start: int, size: int) -> list[tuple[int, int, float]]:
    return [
        (one, other, 1.0)
        for one in range(start, start + size)
        for other in range(one + 1, start + size)
    ]


def test_cliques_are_communities_and_isolated_nodes_their_own() -> None:
    bridged = [*clique(0, 6), *clique(6, 6), *clique(12, 6), (5, 6, 1.0), (11, 12, 1.0)]
    assert louvain(20, bridged) == [0] * 6 + [1] * 6 + [2] * 6 + [3, 4]
    assert louvain(0, []) == []
    assert louvain(2, []) == [0, 1]


def test_a_ring_of_cliques_needs_more_than_one_level() -> None:
    """Groups of groups merge: 64 pairs on a ring make fewer communities than pairs."""
    ring = [(at, (at + 1) % 128, 5.0 if at % 2 == 0 else 1.0) for at in range(128)]
    found = louvain(128, ring)
    assert all(found[at] == found[at + 1] for at in range(0, 128, 2))
    assert 4 < len(set(found)) < 40


def test_weights_decide() -> None:
    assert louvain(4, [(0, 1, 9.0), (1, 2, 1.0), (2, 3, 9.0)]) == [0, 0, 1, 1]


def test_communities_are_deterministic(shelf: Shelf, elsewhere: Elsewhere) -> None:
    """Neither the order of indexing nor the hash seed of the process matters."""
    chosen = random.Random(5)
    texts = {
        f"{group}/{number}.md": "".join(
            f"[[{group}/{chosen.randrange(12)}]] " for _ in range(4)
        ) + f"[[{chosen.randrange(5)}/0]]"
        for group in range(5)
        for number in range(12)
    }  # fmt: skip
    shelf.write(texts)

    def communities(store: Shelf) -> list[list[str]]:
        with store.store.snapshot() as snapshot:
            return [[each.uri for each in snapshot.community(uri)] for uri in sorted(texts)]

    found = communities(shelf)
    assert all("0/" in uri for uri in found[0])
    other = Shelf(shelf.store.folder.parent / "other")
    other.write(dict(sorted(texts.items(), reverse=True)))
    assert communities(other) == found
    other.store.close()
    program = """
    from pathlib import Path
    from shelf import Shelf
    with Shelf(Path(sys.argv[1])).store.snapshot() as snapshot:
        print([[each.uri for each in snapshot.community(uri)] for uri in sorted(snapshot.uris())])
    """
    assert elsewhere(program, shelf.store.folder).stdout.strip() == str(found)


def test_the_closest_members_come_first(shelf: Shelf) -> None:
    """In a cycle, neighbours come before nodes two steps away; an isolated node has no members."""
    shelf.write(
        {
            **{f"{at}.md": f"[[{(at + 1) % 5}]]\n" for at in range(5)},
            "alone.md": "x\n",
        }
    )
    with shelf.store.snapshot() as snapshot:
        members = snapshot.community("0.md")
        assert snapshot.community("alone.md") == []
        assert snapshot.community("absent.md") == []
    near = [member.uri for member in members if member.closeness >= 1]
    assert set(near) <= {"1.md", "4.md"}
    assert near == [each.uri for each in members[: len(near)]]
    assert all(each.links == 2 for each in members)


def test_a_shared_neighbour_counts_more_with_fewer_links() -> None:
    """A page that links to everything brings no pages closer."""
    uris = ["a", "b", "c", "d1", "d2", "d3", "hub", "x"]
    edges = ["a x", "x d3", "a hub", "hub b", "hub c", "hub d1", "hub d2", "b c", "a d2"]
    neighbours: list[list[int]] = [[] for _ in uris]
    for edge in edges:
        one, other = (uris.index(each) for each in edge.split())
        neighbours[one].append(other)
        neighbours[other].append(one)
    members = Graph(uris, [""] * 8, neighbours, [0] * 8).around("a")
    # Who is linked, and those with a common neighbour first; whom x knows; whom the hub knows.
    assert [member.uri for member in members] == ["hub", "d2", "x", "d3", "b", "c", "d1"]


def test_mean_vectors(shelf: Shelf) -> None:
    """The mean of a section uses only its own chunks."""
    shelf.write({"a.md": "# One\n\nred apples\n\n# Two\n\nblue whales\n", "empty.md": ""})
    with shelf.store.snapshot() as snapshot:
        text = snapshot.text("a.md") or ""
        half = text.index("# Two")
        first, second = snapshot.centre("a.md", 0, half), snapshot.centre("a.md", half)
        whole = snapshot.centre("a.md")
        assert first is not None
        assert second is not None
        assert whole is not None
        assert abs(float(whole @ whole) - 1) < 1e-3
        assert float(first @ second) < 0.9
        assert abs(float(whole @ first) - float(whole @ second)) < 1e-3
        assert snapshot.centre("absent.md") is None


# --- the grammar of names -------------------------------------------------------------------------


def test_a_link_and_its_target_share_a_name() -> None:
    assert link_name("a/x.md", "link", "../B/Index.md") == "b"
    assert link_name("a/x.md", "link", "index.md") == "a"
    assert link_name("x.md", "link", "./") == "/"
    assert link_name("x.md", "wikilink", "a/Index") == "index"
    assert link_name("x.md", "link", "https://example.com/b") == ""
    assert {name for name, _, _ in list_names("B/index.md", "TCP/IP", ["Bee"])} == {
        "b", "index", "ip", "bee",
    }  # fmt: skip
    assert {name for name, _, _ in list_names("index.md", "", [])} == {"/", "index"}


@pytest.mark.parametrize("uri", [".md", "a/.md", "a.b/c", "x.MD", "…/—.md", "a//b.md"])
def test_odd_paths_have_names(uri: str, tmp_path: Path) -> None:
    assert all(name for name, _, _ in list_names(uri, " / ", ["", "/"]))
