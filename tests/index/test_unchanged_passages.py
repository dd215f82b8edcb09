"""Passages that an edit does not change are not read again, and count as in a fresh index."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from index.visible_state import SETTINGS
from lookfar.index.words import Read, Words
from lookfar.library import Library
from lookfar.model import Filters
from lookfar.store.keywords.fields import FIELDS, PAGE_FIELDS

VOCABULARY = tuple(f"{first}{second}" for first in "bdgklmnrt" for second in ("ala", "ebe", "oro"))


def make_sections(chance: random.Random, count: int) -> list[str]:
    """Return sections that are too large to share a chunk."""
    return [
        f"## {chance.choice(VOCABULARY)}\n\n{' '.join(chance.choices(VOCABULARY, k=150))} ^id{at}\n"
        for at in range(count)
    ]


def scores(library: Library) -> dict[Any, Any]:
    """Return the score of every chunk and document for every word in every field."""
    with library.folder().store.snapshot() as snapshot:
        found: dict[Any, Any] = {}
        for word in VOCABULARY:
            for field in FIELDS:
                hits = snapshot.keyword_search([word], {field: 1.0}, 1000, Filters())
                found[word, field] = sorted((at.uri, at.start, score) for at, score in hits)
            for field in PAGE_FIELDS:
                pages = snapshot.page_search([word], {field: 1.0}, 1000, Filters())
                found[word, field] = sorted(score for _, score in pages)
        return found


def test_an_edit_reads_only_what_it_changes(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen to fail when the hashes of passages were lost in a merge of segments."""
    sections = make_sections(random.Random(1), 60)
    page = root / "page.md"
    page.write_text("".join(sections))
    read: list[int] = []
    original = Words.read

    def count(words: Words, text: str) -> Read:
        read.append(len(text))
        return original(words, text)

    monkeypatch.setattr(Words, "read", count)
    with Library.open(root, index_dir=tmp_path / "index", settings=SETTINGS) as library:
        library.index()
        assert sum(read) > 40_000
        for number in range(6):
            sections[number * 9] += f"One more sentence about zebra{number}.\n"
            page.write_text("".join(sections))
            read.clear()
            report = library.index()
            assert report.chunks_embedded <= 3
            assert sum(read) < 4_000
            best = library.search(f"zebra{number}", mode="keyword").hits[0]
            assert f"zebra{number}" in best.text


def write_page(before: str, words: str) -> str:
    """Return passages of words, the second of which is code if ``before`` is a paragraph."""
    return f"{before} {words}\n\n    {words} here\n\n" + f"{words} there\n\n" * 5


BODY = "".join(make_sections(random.Random(2), 3))
WORDS = " ".join(random.Random(3).choices(VOCABULARY, k=120))
CHANGES = {
    "a section": (BODY, BODY + "## New\n\nAnother bala.\n"),
    "the order": (BODY, "".join(reversed(make_sections(random.Random(2), 3)))),
    "a copy": (BODY, BODY + BODY),
    "tags": (f"---\ntags: [bala]\n---\n{BODY}", f"---\ntags: [dala]\n---\n{BODY}"),
    "a heading that is the title": (
        f"---\ntitle: bala\n---\n# bala\n\n{BODY}",
        f"---\ntitle: bala\n---\n{BODY}",
    ),
    "code to the text of a list": (write_page("One", WORDS), write_page("- One", WORDS)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_copied_terms_equal_those_of_a_fresh_index(root: Path, tmp_path: Path, change: str) -> None:
    """Seen to fail when the hash of a passage left out its headings, its tags or what is code."""
    with Library.open(root, index_dir=tmp_path / "index", settings=SETTINGS) as library:
        for number, text in enumerate((*CHANGES[change], *CHANGES[change])):
            (root / "page.md").write_text(text)
            library.index()
            with Library.open(root, index_dir=tmp_path / f"{number}", settings=SETTINGS) as fresh:
                fresh.index()
                assert scores(library) == scores(fresh)
        assert library.verify() == []
