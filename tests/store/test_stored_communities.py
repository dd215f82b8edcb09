"""Communities are stored when links change, reused until then, and deterministic."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

import pytest

from lookfar.library import Library
from lookfar.model import RelatedKind
from lookfar.store.catalogue import graph
from lookfar.store.catalogue.link_names import Candidates, LinkTarget, Origin
from lookfar.store.sqlite import write_session
from store.shelf import Shelf, change_row, rows_of

COMMUNITY: tuple[RelatedKind, ...] = ("community",)

PAGES = {
    "a.md": "# A\n\n[b](b.md) [c](c.md)\n",
    "b.md": "# B\n\n[c](c.md)\n",
    "c.md": "# C\n\nnothing\n",
    "x.md": "# X\n\n[y](y.md)\n",
    "y.md": "# Y\n\nnothing\n",
    "alone.md": "# Alone\n\nnothing\n",
    "z.md": "# Z\n\n[[Lonely]]\n",
}


def groups(shelf: Shelf, generation: int | None = None) -> set[frozenset[str]]:
    with shelf.store.snapshot(generation) as snapshot:
        found = snapshot.communities(snapshot.uris())
    together: dict[int, set[str]] = {}
    for uri, community in found.items():
        together.setdefault(community, set()).add(uri)
    return {frozenset(each) for each in together.values()}


def is_stored(shelf: Shelf, generation: int | None = None) -> bool:
    """Whether the stored communities are valid for this generation."""
    with shelf.store.snapshot(generation) as snapshot:
        return graph.stored_communities(snapshot._connection, snapshot.generation) is not None  # type: ignore[attr-defined]


APART = {frozenset({"a.md", "b.md", "c.md"}), frozenset({"x.md", "y.md"})}


def test_a_build_stores_the_communities_of_its_links(shelf: Shelf) -> None:
    shelf.write(PAGES)
    assert is_stored(shelf)
    assert groups(shelf) == APART
    stored = {uri for uri, _ in rows_of(shelf, "SELECT uri, community FROM communities")}
    assert stored == {"a.md", "b.md", "c.md", "x.md", "y.md"}


def test_a_first_build_stores_communities_of_any_size(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_session, "_LINKS_PER_CHANGE", 0)
    shelf.write(PAGES)
    assert is_stored(shelf)


def test_changed_text_keeps_stored_communities(shelf: Shelf) -> None:
    """Caught: keeping them by document, whose number changes with every edit."""
    shelf.write(PAGES)
    # A mark behind the store's back shows whether the rows were written again.
    change_row(shelf, "UPDATE communities SET community = 77 WHERE uri IN ('x.md', 'y.md')")
    shelf.write({"x.md": "# X\n\nOther words, and again [why](y.md)\n"})
    assert is_stored(shelf)
    with shelf.store.snapshot() as snapshot:
        assert snapshot.communities({"x.md", "y.md", "alone.md"}) == {"x.md": 77, "y.md": 77}


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        ({"x.md": "# X\n"}, {frozenset({"a.md", "b.md", "c.md"})}),
        ({"y.md": None}, {frozenset({"a.md", "b.md", "c.md"})}),
        ({"alone.md": "# Alone\n\n[x](x.md)\n"},
         {frozenset({"a.md", "b.md", "c.md"}), frozenset({"x.md", "y.md", "alone.md"})}),
        # A title is a name that links look for.
        ({"alone.md": "# Lonely\n"}, {*APART, frozenset({"z.md", "alone.md"})}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("quick", [True, False])
def test_changed_links_change_stored_communities(
    shelf: Shelf,
    monkeypatch: pytest.MonkeyPatch,
    edit: dict[str, str | None],
    expected: set[frozenset[str]],
    quick: bool,
) -> None:
    """The answer is the same whether the session stored them or they are computed on request."""
    first = shelf.write(PAGES)
    if not quick:
        monkeypatch.setattr(write_session, "_LINKS_PER_CHANGE", 0)
    shelf.write(edit)
    assert is_stored(shelf) is quick
    assert groups(shelf) == expected
    # The generation before it has its own still.
    assert groups(shelf, first) == APART


def test_a_new_page_may_resolve_an_old_link(shelf: Shelf) -> None:
    shelf.write({"a.md": "# A\n\n[b](b.md)\n"})
    assert groups(shelf) == set()
    shelf.write({"b.md": "# B\n"})
    assert groups(shelf) == {frozenset({"a.md", "b.md"})}


def test_a_rollback_uses_communities_of_the_older_links(shelf: Shelf) -> None:
    """Caught: taking what was stored for a generation that the next write drops."""
    first = shelf.write(PAGES)
    shelf.write({"x.md": "# X\n\n[a](a.md) [b](b.md) [c](c.md)\n", "y.md": None})
    joined = groups(shelf)
    assert joined != APART
    shelf.store.roll_back(first)
    assert groups(shelf) == APART
    shelf.write({"c.md": "# C\n\nOther words.\n"})
    assert groups(shelf) == APART


def test_erased_documents_leave_no_community_row(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf.write(PAGES)
    monkeypatch.setattr(write_session, "_LINKS_PER_CHANGE", 0)
    with shelf.session() as writer:
        writer.erase(["x.md"])
        writer.activate({})
    assert rows_of(shelf, "SELECT uri FROM communities WHERE uri = 'x.md'") == []
    assert groups(shelf) == {frozenset({"a.md", "b.md", "c.md"})}


def test_a_large_collection_computes_communities_on_request(shelf: Shelf) -> None:
    """A session of one document computes at most a thousand links."""
    links = " ".join(f"[t](t{number}.md)" for number in range(40))
    pages = {f"s{number}.md": f"# S{number}\n\n{links}\n" for number in range(30)}
    shelf.write(pages)
    assert is_stored(shelf)
    shelf.write({"s0.md": "# S0\n\n[s1](s1.md)\n"})
    assert not is_stored(shelf)
    assert groups(shelf) == {frozenset({"s0.md", "s1.md"})}
    shelf.write({"s0.md": "# S0\n\n[s2](s2.md)\n", "s9.md": "# S9\n"})
    assert is_stored(shelf)
    assert groups(shelf) == {frozenset({"s0.md", "s2.md"})}


def test_communities_do_not_depend_on_history(tmp_path: Path) -> None:
    """Including their numbers: built at once, in another order, or edit by edit."""
    chance = random.Random(7)
    pages = {
        f"p{number:02}.md": f"# P{number}\n\n"
        + " ".join(f"[o](p{chance.randrange(40):02}.md)" for _ in range(3))
        + "\n"
        for number in range(40)
    }
    found: list[dict[str, int]] = []
    for order in (sorted(pages), sorted(pages, reverse=True)):
        shelf = Shelf(tmp_path / f"index{len(found)}")
        with closing(shelf.store):
            if found:
                for uri in order[:20]:
                    shelf.write({uri: "# Something else\n\n[x](p01.md)\n"})
                for uri in order:
                    shelf.write({uri: pages[uri]})
            else:
                shelf.write({uri: pages[uri] for uri in order})
            with shelf.store.snapshot() as snapshot:
                found.append(snapshot.communities(pages))
    assert found[0] == found[1]
    assert len(set(found[0].values())) > 1


def test_leads_respect_sources_and_targets(shelf: Shelf) -> None:
    more = {"d.md": "# D\n\n[a](a.md) [gone](gone.md) [d](d.md)\n", "sub/c.md": "# Other\n"}
    shelf.write({**PAGES, **more})
    with shelf.store.snapshot() as snapshot:
        number = {uri: snapshot.chunks(uri)[0].document for uri in snapshot.uris()}
        uris = {document: uri for uri, document in number.items()}

        def told(sources: list[str], among: list[str] | None = None) -> list[tuple[str, str]]:
            wanted = None if among is None else {number[each] for each in among}
            leads = snapshot.leads([number[source] for source in sources], wanted)
            return [(uris[lead.source], uris[lead.target]) for lead in leads]

        assert told(["a.md", "d.md"]) == [("a.md", "b.md"), ("a.md", "c.md"), ("d.md", "a.md")]
        assert told(["a.md", "d.md"], ["c.md", "x.md"]) == [("a.md", "c.md")]
        assert told(["alone.md"]) == []
        assert told(["a.md"], []) == []
        assert told(["a.md"], ["sub/c.md"]) == []  # Which has the name, and is not meant.


def test_leads_follow_a_change(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    """Links are resolved once in a generation, and again in the next.

    Seen to fail with links that stay resolved, and with a question for some documents that decides
    about links to others.
    """
    resolved: list[str] = []
    resolve = Candidates.resolve

    def note(self: Candidates, origin: Origin, kind: str, target: str) -> LinkTarget | None:
        resolved.append(target)
        return resolve(self, origin, kind, target)

    shelf.write({"a.md": "# A\n\n[b](b.md) [c](c.md)\n", "b.md": "# B\n", "c.md": "# C\n"})
    monkeypatch.setattr(Candidates, "resolve", note)

    def lead(among: list[str] | None) -> list[str]:
        with shelf.store.snapshot() as snapshot:
            number = {uri: snapshot.chunks(uri)[0].document for uri in snapshot.uris()}
            uris = {document: uri for uri, document in number.items()}
            wanted = None if among is None else {number[uri] for uri in among}
            return [uris[lead.target] for lead in snapshot.leads([number["a.md"]], wanted)]

    assert lead(["b.md"]) == ["b.md"]
    assert resolved == ["b.md"]
    assert lead(["c.md"]) == ["c.md"]
    assert lead(["b.md", "c.md"]) == lead(None) == ["b.md", "c.md"]
    assert resolved == ["b.md", "c.md"]
    shelf.write({"b.md": None})
    assert lead(["c.md"]) == lead(None) == ["c.md"]
    shelf.write({"b.md": "# B is back\n"})
    assert lead(["b.md"]) == ["b.md"]


def test_a_pass_stores_them_only_for_a_ranking_that_reads_them(tmp_path: Path) -> None:
    """Seen to fail when every pass stored them."""
    root = tmp_path / "root"
    root.mkdir()
    for uri, text in PAGES.items():
        (root / uri).write_text(text)
    found = []
    for wanted in (False, True):
        settings = {"embed.provider": "hash", "search.communities": wanted}
        with Library.open(root, index_dir=tmp_path / f"{wanted}", settings=settings) as library:
            library.index()
            with library.folder().store.snapshot() as snapshot:
                connection = snapshot._connection  # type: ignore[attr-defined]
                stored = graph.stored_communities(connection, snapshot.generation)
            assert (stored is not None) == wanted
            found.append(library.related("a.md", kinds=COMMUNITY).entries)
    assert found[0] == found[1]
    assert {entry.uri for entry in found[0]} == {"b.md", "c.md"}
