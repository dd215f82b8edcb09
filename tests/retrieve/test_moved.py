"""A citation of a text that stands twice is found again where it was, not at its twin."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from lookfar.common.target import Target
from lookfar.library import Library
from lookfar.retrieve.locate.moved import find_moved
from lookfar.retrieve.locate.target import check_citation
from lookfar.text.parse.markdown import parse

TWINS = "# A\n\n## Linux\n\n### Install\n\nRun make.\n\n## Windows\n\n### Install\n\nRun make.\n"


@pytest.mark.parametrize(
    ("start", "now", "before", "found"),
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
def test_the_same_in_turn_and_otherwise_the_nearest(
    start: int, now: str, before: str | None, found: int
) -> None:
    assert find_moved("ab", start, now, before) == found


def test_a_row_of_one_sign_takes_no_time() -> None:
    """Seen to run for as long as it was let with places looked for at every sign."""
    row = "=" * 400_000
    assert find_moved("=" * 100_000, 1, row + "!", row) == 0


def test_nothing_stands_nowhere() -> None:
    assert find_moved("", 3, "abc", "abcdef") == -1


@pytest.mark.parametrize("indexed", [True, False])
def test_a_citation_of_twins_means_the_same_one(indexed: bool) -> None:
    """Seen to fail with the first that was found: the other section was cited."""
    cited = parse("a.md", TWINS).sections[-1].span
    digest = sha256(TWINS[cited.start : cited.end].encode()).hexdigest()
    target = Target("a.md", chars=(cited.start, cited.end), sha256=digest[:16])
    now = parse("a.md", "Intro line.\n\n" + TWINS)
    path, span, state = check_citation(now, target, TWINS if indexed else None)
    assert (path, state) == (("A", "Windows", "Install"), "moved")
    assert span.start == cited.start + len("Intro line.\n\n")


@pytest.mark.usefixtures("own_home")
def test_a_hit_of_twins_means_the_same_one(tmp_path: Path) -> None:
    """Seen to fail with the first that was found: both hits had the place of one."""
    said = "Run gnumake now. " * 60
    text = (
        f"# A\n\n## Linux\n\n### Install\n\n{said}\n\n## Windows\n\n{'Windows words. ' * 100}\n\n"
    )
    text += f"### Install\n\n{said}\n"
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
    assert {each.state for each in after} == {"moved"}
    moved = [each.span.start - len("Intro.\n\n") for each in after]
    assert moved == [each.span.start for each in before]
