"""A citation of a repeated text is found again at the same occurrence."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from lookfar.library import Library
from lookfar.model import Target
from lookfar.retrieve.locate.sections import find_moved
from lookfar.retrieve.locate.target import check_citation
from lookfar.text.parse.markdown import parse

TWINS = "# A\n\n## Linux\n\n### Install\n\nRun make.\n\n## Windows\n\n### Install\n\nRun make.\n"


@pytest.mark.parametrize(
    ("start", "now", "before", "expected"),
    [
        (4, "xx ab ab", " ab ab", 6),
        (1, "xx ab ab", " ab ab", 3),
        (4, "xx ab", " ab ab", 3),
        (1, "ab ab ab", " ab ab", 0),
        (4, "ab ab ab", None, 3),
        (4, "nothing", " ab ab", -1),
        (9, "aaaa", "aaaaaaaaaaab", -1),
    ],
)
def test_same_occurrence_or_else_the_nearest(
    start: int, now: str, before: str | None, expected: int
) -> None:
    assert find_moved("ab", start, now, before) == expected


def test_repeated_character_is_fast() -> None:
    """Ran without end when occurrences were searched at every character."""
    row = "=" * 400_000
    assert find_moved("=" * 100_000, 1, row + "!", row) == 0


def test_empty_text_is_not_found() -> None:
    assert find_moved("", 3, "abc", "abcdef") == -1


@pytest.mark.parametrize("indexed", [True, False])
def test_citation_of_repeated_text_keeps_its_occurrence(indexed: bool) -> None:
    """Fails if the first occurrence wins: the other section was cited."""
    cited = parse("a.md", TWINS).sections[-1].span
    digest = sha256(TWINS[cited.start : cited.end].encode()).hexdigest()
    target = Target("a.md", chars=(cited.start, cited.end), sha256=digest[:16])
    now = parse("a.md", "Intro line.\n\n" + TWINS)
    path, span, state = check_citation(now, target, TWINS if indexed else None)
    assert (path, state) == (("A", "Windows", "Install"), "moved")
    assert span.start == cited.start + len("Intro line.\n\n")


@pytest.mark.usefixtures("own_home")
def test_hit_in_repeated_text_keeps_its_occurrence(tmp_path: Path) -> None:
    """Fails if the first occurrence wins: both hits had the same position."""
    paragraph = "Run gnumake now. " * 60
    other = "Windows words. " * 100
    text = f"# A\n\n## Linux\n\n### Install\n\n{paragraph}\n\n## Windows\n\n{other}\n\n"
    text += f"### Install\n\n{paragraph}\n"
    root = tmp_path / "root"
    root.mkdir()
    (root / "twins.md").write_text(text)
    settings = {
        "embed.provider": "hash",
        "index.max_auto_files": 0,
        "search.dedup_exact": False,
        "search.merge_gap": 0,
    }
    with Library.open(root, index_dir=tmp_path / "index", settings=settings) as library:
        library.index()
        before = library.search("gnumake", mode="keyword").hits
        (root / "twins.md").write_text("Intro.\n\n" + text)
        after = library.search("gnumake", mode="keyword").hits
    assert len(before) == 2
    assert {hit.state for hit in after} == {"moved"}
    moved = [hit.span.start - len("Intro.\n\n") for hit in after]
    assert moved == [hit.span.start for hit in before]
