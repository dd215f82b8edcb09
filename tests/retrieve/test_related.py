"""Related documents of every kind, on real files and a real index."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lookfar import Library
from lookfar.errors import Ambiguous, InvalidArgument, NotFound, NotIndexed
from lookfar.model import RelatedEntry
from lookfar.retrieve.neighbours.related import KINDS, classify_link

Write = Callable[..., None]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    return folder


@pytest.fixture
def write(root: Path) -> Write:
    """Write files by name; ``None`` removes one."""

    def write(texts: dict[str, str | None]) -> None:
        for name, text in texts.items():
            path = root / name
            if text is None:
                path.unlink()
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    return write


def opened(*roots: Path) -> Library:
    index_dir = roots[0].parent / "indexes"
    return Library.open(*roots, index_dir=index_dir, settings={"embed.provider": "hash"})


@pytest.fixture
def library(root: Path) -> Iterator[Library]:
    with opened(root) as library:
        yield library


def entries(library: Library, target: str, kind: str, **more: object) -> list[RelatedEntry]:
    result = library.related(target, kinds=(kind,), **more)  # type: ignore[arg-type]
    assert {entry.kind for entry in result.entries} <= {kind}
    return list(result.entries)


def uris(library: Library, target: str, kind: str, **more: object) -> list[str]:
    return [entry.uri for entry in entries(library, target, kind, **more)]


# --- links and backlinks ------------------------------------------------------------------------


def test_link_reports_its_position_and_text(write: Write, library: Library) -> None:
    """An agent decides by line, text and context whether to follow a link."""
    write(
        {
            "a.md": "# A\n\nFirst paragraph.\n\n## Steps\n\nBefore you begin, read"
            " [the\n*long* guide](b.md#Install) with care.\n\nNext paragraph.\n",
            "b.md": "# Bee\n\nback to [[a|the start]]\n",
        }
    )
    library.index()
    (there,) = entries(library, "a.md", "links")
    assert there == RelatedEntry(
        kind="links", uri="b.md", title="Bee", target="b.md", resolved=True, relation="links_to",
        count=1, score=1.0, anchor="Install", heading_path=("A", "Steps"), line=7,
        text="the long guide", context="Before you begin, read the long guide with care.",
    )  # fmt: skip
    (back,) = entries(library, "b.md", "backlinks")
    assert (back.uri, back.title, back.line, back.context) == ("a.md", "A", 7, there.context)
    assert (back.target, back.anchor, back.heading_path) == ("b.md", "Install", ("A", "Steps"))


def test_context_is_short_and_ends_at_words(write: Write, library: Library) -> None:
    write({"a.md": f"{'before ' * 60}[[b]]{' behind' * 60}\n", "b.md": "b\n"})
    library.index()
    (entry,) = entries(library, "b.md", "backlinks")
    assert 90 < len(entry.context) < 110
    assert set(entry.context.strip("…").split()) == {"before", "b", "behind"}


def test_several_links_to_one_document_are_one_entry(write: Write, library: Library) -> None:
    """A page that is linked on every line must not crowd out the others."""
    many = "[[b]] [x](b.md) [y](B.md#z)\n" * 50
    write(
        {
            "a.md": f"[[c]]\n{many}[[d]] [[D]] [[Ghost]] [[ghost]]\n",
            "b.md": "b\n",
            "c.md": "[[b]]\n",
            "d.md": "d\n",
        }
    )
    library.index()
    result = library.related("a.md", kinds=["links"], limit=2)
    assert [(entry.uri, entry.count, entry.line) for entry in result.entries] == [
        ("c.md", 1, 1),
        ("b.md", 150, 2),
    ]
    assert result.totals == {"links": 4}
    *_, ghost = entries(library, "a.md", "links")
    assert (ghost.uri, ghost.target, ghost.resolved, ghost.count) == ("", "Ghost", False, 2)
    # Most links first.
    assert [(entry.uri, entry.score) for entry in entries(library, "b.md", "backlinks")] == [
        ("a.md", 150.0),
        ("c.md", 1.0),
    ]


def test_broken_link_resolves_when_the_file_appears(write: Write, library: Library) -> None:
    """Right after a save, and again after the file is gone; no other file is touched."""
    write({"a.md": "see [[Later Notes]]\n"})
    library.index()
    assert uris(library, "a.md", "links") == [""]
    write({"deep/later notes.md": "# Later\n"})
    assert uris(library, "a.md", "links") == ["deep/later notes.md"]
    assert uris(library, "deep/later notes.md", "backlinks") == ["a.md"]
    write({"deep/later notes.md": None})
    assert uris(library, "a.md", "links") == [""]


def test_earlier_generation_has_its_own_links(write: Write, library: Library) -> None:
    write({"a.md": "[[b]]\n", "b.md": "b\n"})
    first = library.index().generation
    write({"a.md": "nothing\n"})
    second = library.index().generation
    assert uris(library, "b.md", "backlinks", as_of=first) == ["a.md"]
    assert uris(library, "b.md", "backlinks", as_of=second) == []
    assert library.related("b.md", as_of=first).generation == first
    library.roll_back(first)
    pinned = library.related("b.md")
    assert [entry.uri for entry in pinned.entries if entry.kind == "backlinks"] == ["a.md"]
    assert [note.reason for note in pinned.incomplete] == ["held"]


def test_section_has_only_its_own_links(write: Write, library: Library) -> None:
    write(
        {
            "a.md": "[[zero]]\n\n# One\n\n[[b]]\n\n## Inner\n\n[[c]]\n\n# Two\n\n[[d]]\n",
            **{f"{name}.md": f"{name}\n" for name in ("b", "c", "d", "zero")},
        }
    )
    library.index()
    assert uris(library, "a.md", "links") == ["zero.md", "b.md", "c.md", "d.md"]
    assert uris(library, "a.md#One", "links") == ["b.md", "c.md"]
    assert uris(library, "a.md#One > Inner", "links") == ["c.md"]
    assert uris(library, "a.md:11-99", "links") == ["d.md"]
    assert library.related("a.md#Inner").heading_path == ("One", "Inner")
    assert uris(library, "lookfar://notes/a.md#Two", "links") == ["d.md"]


def test_names_that_need_encoding(write: Write, library: Library) -> None:
    write(
        {
            "x.md": "[a](%E8%A8%AD%E5%AE%9A%20(2).md) [b](<two words.md>) [[設定 (2)]]\n"
            "[c](100%25.md)\n",
            "設定 (2).md": "# 設定\n",
            "two words.md": "2\n",
            "100%.md": "%\n",
        }
    )
    library.index()
    result = [(entry.uri, entry.count) for entry in entries(library, "x.md", "links")]
    assert result == [("設定 (2).md", 2), ("two words.md", 1), ("100%.md", 1)]


def test_links_do_not_leave_their_folder(write: Write, root: Path) -> None:
    """A document in another root is a broken link, even if both are open."""
    write({"a.md": "[x](../other/b.md) [y](../secret.md) [z](../../../etc/passwd)\n"})
    other = root.parent / "other"
    other.mkdir()
    (other / "b.md").write_text("[back](../notes/a.md)\n")
    (root.parent / "secret.md").write_text("hidden\n")
    with opened(root, other) as library:
        for name in library.collections:
            library.index(collection=name)
        result = library.related("a.md")
        links = [entry for entry in result.entries if entry.kind == "links"]
        assert [entry.resolved for entry in links] == [False, False, False]
        assert result.collection == "notes"
        assert uris(library, "b.md", "backlinks") == []
        with pytest.raises(InvalidArgument):
            library.related("a.md", collection="nobody")
        (other / "a.md").write_text("twin\n")
        library.index(collection="other")
        with pytest.raises(Ambiguous):
            library.related("a.md")
        assert library.related("a.md", collection="other").collection == "other"


# --- similar and community ----------------------------------------------------------------------


def test_similar_documents_are_others_and_best_first(write: Write, library: Library) -> None:
    fish = "salmon trout river water fishing rod bait"
    write(
        {
            "fish.md": f"# One\n\n{fish}\n\n# Two\n\nstars planets orbit telescope moon\n",
            "near.md": f"# Near\n\n{fish} boat\n",
            "half.md": "# Half\n\nriver water swimming pool\n",
            "sky.md": "# Sky\n\nstars planets orbit telescope moon comet\n",
            **{f"filler{number}.md": f"invoice ledger {number} tax\n" for number in range(30)},
        }
    )
    library.index()
    whole = entries(library, "fish.md", "similar", limit=3)
    assert {entry.uri for entry in whole[:2]} == {"near.md", "sky.md"}
    assert [entry.score for entry in whole] == sorted(
        (entry.score for entry in whole), reverse=True
    )
    assert uris(library, "fish.md#One", "similar", limit=1) == ["near.md"]
    assert uris(library, "fish.md#Two", "similar", limit=1) == ["sky.md"]
    (best,) = entries(library, "fish.md#Two", "similar", limit=1)
    assert (best.line, best.heading_path, best.relation, best.count) == (1, ("Sky",), None, 0)
    assert best.context.startswith("# Sky stars planets")
    everyone = uris(library, "fish.md", "similar", limit=1000)
    assert len(everyone) == len(set(everyone)) == 33
    assert "fish.md" not in everyone


def test_long_document_finds_other_similar_ones(write: Write, library: Library) -> None:
    """Its own passages are nearest, and there are more of them than are fetched."""
    fish = "salmon trout river water fishing rod bait " * 40
    write(
        {
            "long.md": "".join(f"# Part {number}\n\n{fish}\n\n" for number in range(60)),
            "other.md": "# Other\n\nledger\n",
        }
    )
    library.index()
    assert library.status().counts.chunks > 40
    assert uris(library, "long.md", "similar", limit=1) == ["other.md"]


def test_without_a_model_nothing_is_similar(write: Write, root: Path) -> None:
    write({"a.md": "[[b]]\n", "b.md": "b\n"})
    with Library.open(
        root, index_dir=root.parent / "i", settings={"embed.provider": "none"}
    ) as library:
        library.index()
        result = library.related("a.md")
        assert result.totals == {"links": 1, "backlinks": 0, "similar": 0, "community": 1}


def test_community_is_not_the_whole_folder(write: Write, library: Library) -> None:
    groups = {"red": 6, "blue": 6}
    write(
        {
            f"{group}{at}.md": " ".join(f"[[{group}{other}]]" for other in range(size))
            for group, size in groups.items()
            for at in range(size)
        }
    )
    write({"red0.md": "[[red1]] [[blue0]]\n", "alone.md": "x\n"})
    library.index()
    assert sorted(uris(library, "red3.md", "community")) == [
        f"red{at}.md" for at in range(6) if at != 3
    ]
    assert library.related("red3.md", limit=2).totals["community"] == 5
    assert uris(library, "alone.md", "community") == []


# --- asking -------------------------------------------------------------------------------------


def test_kinds_have_one_order_and_are_optional(write: Write, library: Library) -> None:
    write({"a.md": "[[b]]\n", "b.md": "[[a]]\n"})
    library.index()
    result = library.related("a.md", kinds=("community", "links"))
    assert [entry.kind for entry in result.entries] == ["links", "community"]
    assert list(result.totals) == ["links", "community"]
    everything = library.related("a.md")
    assert list(everything.totals) == list(KINDS)
    assert everything == library.related("a.md")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"kinds": ("friends",)}, "Unknown kind of relation: 'friends'"),
        ({"kinds": ()}, "kinds is empty"),
        ({"kinds": "links"}, "kinds is a str"),
        ({"limit": 0}, "limit is 0"),
    ],
)
def test_invalid_arguments_are_rejected(
    more: dict[str, object], message: str, write: Write, library: Library
) -> None:
    write({"a.md": "a\n"})
    library.index()
    with pytest.raises(InvalidArgument, match=message):
        library.related("a.md", **more)  # type: ignore[arg-type]


def test_missing_targets_are_not_found(write: Write, library: Library) -> None:
    write({"guide.md": "# Guide\n"})
    with pytest.raises(NotIndexed):
        library.related("guide.md")
    library.index()
    with pytest.raises(NotFound, match=r"There is no document 'gide\.md'") as refusal:
        library.related("gide.md")
    assert refusal.value.details["candidates"] == ["guide.md"]
    with pytest.raises(NotFound, match="no section"):
        library.related("guide.md#Absent")
    with pytest.raises(InvalidArgument):
        library.related("a\udce9.md")


@pytest.mark.parametrize(
    ("kind", "uri", "headings", "relation"),
    [
        ("link", "a.md", ("A", "Intro"), "links_to"),
        ("link", "a.md", (), "links_to"),
        ("wikilink", "a.md", ("A", "See also"), "related"),
        ("link", "a.md", ("A", "See Also", "Books"), "related"),
        ("link", "a.md", ("Related pages",), "related"),
        ("link", "a.md", ("Relatedness",), "links_to"),
        ("link", "a.md", ("Implementation",), "implements"),
        ("link", "a.md", ("See also", "Implementation notes"), "implements"),
        ("link", "tests/a.md", (), "tests"),
        ("link", "x/test_a.md", (), "tests"),
        ("link", "x/a.spec.md", (), "tests"),
        ("link", "contests/a.md", (), "links_to"),
        ("link", "latest_a.md", (), "links_to"),
        ("embed", "tests/a.md", ("See also",), "transclusion"),
    ],
)
def test_position_of_a_link_decides_its_relation(
    kind: str, uri: str, headings: tuple[str, ...], relation: str
) -> None:
    assert classify_link(kind, uri, headings) == relation  # type: ignore[arg-type]
