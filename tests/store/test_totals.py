"""Totals are updated from changes and equal a full count."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from lookfar.store.catalogue import generations, rows
from store.shelf import Shelf

KEYS = ("documents", "sections", "chunks", "links", "content")


def told(shelf: Shelf) -> dict[str, object]:
    with shelf.store.snapshot() as snapshot:
        return {key: snapshot.manifest()[key] for key in KEYS}


def counted(shelf: Shelf) -> dict[str, object]:
    """Count every row again."""
    with shelf.store.snapshot() as snapshot:
        found = generations.compute_totals(snapshot._connection)  # type: ignore[attr-defined]
        joined = rows.count_rows(snapshot._connection, snapshot.generation)  # type: ignore[attr-defined]
        assert snapshot.counts() == joined
        assert (found["documents"], found["sections"], found["chunks"], found["links"]) == (
            joined.documents,
            joined.sections,
            joined.chunks,
            joined.links,
        )
    return {key: found[key] for key in KEYS}


@pytest.mark.parametrize("seed", range(6))
def test_totals_after_many_edits_equal_a_recount(shelf: Shelf, seed: int) -> None:
    """Protects against totals that drift from the stored rows."""
    chance = random.Random(seed)
    there: dict[str, str] = {}
    for step in range(14):
        texts: dict[str, str | None] = {}
        for _ in range(chance.randint(1, 4)):
            uri = f"{chance.randint(0, 9)}.md"
            if there.get(uri) and chance.random() < 0.3:
                texts[uri] = None
            else:
                body = f"# A\n\n[b]({chance.randint(0, 9)}.md) word{chance.random()}\n"
                texts[uri] = body * chance.randint(1, 3)
        shelf.write(texts)
        there.update({uri: text or "" for uri, text in texts.items()})
        assert told(shelf) == counted(shelf), step
        if chance.random() < 0.25 and len(shelf.store.generations()) > 1:
            shelf.store.roll_back(shelf.store.generations()[-2].number)
            assert told(shelf)["content"]


def test_erased_documents_are_not_counted(shelf: Shelf) -> None:
    """Protects against counting rows that are gone."""
    shelf.write({"a.md": "# A\n\none\n", "b.md": "# B\n\ntwo\n"})
    shelf.write({"a.md": "# A\n\nthree\n"})
    with shelf.session() as session:
        session.erase(["a.md"])
        session.activate({})
    assert told(shelf) == counted(shelf)
    assert told(shelf)["documents"] == 1


def test_equal_documents_have_equal_content_hashes(shelf: Shelf, tmp_path: Path) -> None:
    """Protects against a content hash that depends on history."""
    other = Shelf(tmp_path / "other")
    shelf.write({"a.md": "one\n", "b.md": "two\n"})
    other.write({"b.md": "other\n", "c.md": "three\n"})
    other.write({"b.md": "two\n", "c.md": None, "a.md": "one\n"})
    assert told(shelf)["content"] == told(other)["content"]
    other.write({"a.md": "two\n", "b.md": "one\n"})
    assert told(shelf)["content"] != told(other)["content"]
    other.store.close()


def told_of_all(shelf: Shelf) -> dict[int, list[object]]:
    return {
        generation.number: [generation.manifest[key] for key in KEYS]
        for generation in shelf.store.generations()
    }


@pytest.mark.parametrize("dead", [False, True])
def test_erased_documents_are_counted_in_no_generation(
    shelf: Shelf, tmp_path: Path, dead: bool
) -> None:
    """Seen to fail when the totals of older generations stayed as they were recorded, and when
    those of the newest one were added to with the erased still in them."""
    shelf.write({"a.md": "# A\n\n[b](b.md) one\n", "b.md": "# B\n\ntwo\n"})
    shelf.write({"a.md": "# A\n\nthree\n", "c.md": "# C\n\nfour\n"})
    with shelf.session() as session:
        shelf.fill(session, {"a.md": "# A\n\nfive\n"})
        session.erase(["a.md", "c.md", "a.md", "never.md"], dead=dead)
        session.activate({})
    assert told(shelf) == counted(shelf)
    without = Shelf(tmp_path / "other")
    without.write({"b.md": "# B\n\ntwo\n"})
    without.write({} if not dead else {"c.md": "# C\n\nfour\n"})
    without.write({} if not dead else {"a.md": "# A\n\nfive\n"})
    assert told_of_all(shelf) == told_of_all(without)
    without.store.close()
