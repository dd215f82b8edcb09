"""One long document or many commits do not fill an answer.

Seen to fail with a factor of 1 (all ten hits from one page), with a limit of three hits for each
document (a filter for one document left seven of ten places empty), and without the limit for
commits (nine of ten).
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lookfar.library import Library
from lookfar.model import Filters
from lookfar.retrieve.answer.diversify import spread_commits, spread_documents
from retrieve.passage_maker import passage

pytestmark = pytest.mark.usefixtures("own_home")

HASH = {"embed.provider": "hash", "index.workers": 1, "chunk.merge_small": False}


def test_each_further_passage_of_a_document_counts_less() -> None:
    ranked = [
        passage("long.md", score, start=at * 100) for at, score in enumerate((1.0, 0.98, 0.96))
    ]
    ranked.append(passage("other.md", 0.9, document=2))
    spread = spread_documents(ranked, 0.9)
    assert [hit.place.uri for hit in spread] == ["long.md", "other.md", "long.md", "long.md"]
    assert [round(hit.score, 3) for hit in spread] == [1.0, 0.9, 0.882, 0.778]
    assert spread[2].steps[-1].note == "passage 2 of its document"


def test_at_most_three_of_ten_are_commits() -> None:
    commits = [passage(f"c{at}", 1.0 - at / 100, lane="commits") for at in range(12)]
    pages = [passage(f"p{at}.md", 0.5 - at / 100, document=at) for at in range(20)]
    kinds = [hit.place.lane for hit in spread_commits([*commits, *pages])]
    assert [kinds[at : at + 10].count("commits") for at in (0, 10)] == [3, 3]
    assert kinds.count("commits") == 12


def test_commits_alone_are_all_shown() -> None:
    commits = [passage(f"c{at}", 1.0 - at / 100, lane="commits") for at in range(12)]
    assert spread_commits(commits) == commits


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    folder = tmp_path / "pages"
    folder.mkdir()
    between = "Unrelated sentences stand between the parts, so that they stay apart. " * 5
    parts = (
        f"## Part {n}\n\nThe glacier moves and glacier ice melts {n}.\n\n## Next {n}\n\n{between}\n"
        for n in range(30)
    )
    long = "\n".join(parts)
    (folder / "long.md").write_text(f"# Glacier\n\n{long}", encoding="utf-8")
    for n in range(9):
        text = f"# Page {n}\n\nA valley below the glacier, with other words about it.\n"
        (folder / f"page{n}.md").write_text(text, encoding="utf-8")
    return folder


def test_a_long_page_leaves_room_for_others(pages: Path) -> None:
    with Library.open(pages, index_dir=pages.parent / "index", settings=HASH) as library:
        shown = [hit.uri for hit in library.search("glacier", mode="keyword").hits]
        crowded = [
            hit.uri
            for hit in library.search(
                "glacier", mode="keyword", filters=Filters(uris=("long.md",)), top_k=20
            ).hits
        ]
    assert len(set(shown)) >= 5
    assert crowded == ["long.md"] * 20


def test_questions_about_the_present_are_not_answered_by_commits_alone(tmp_path: Path) -> None:
    folder = tmp_path / "repository"
    folder.mkdir()
    git = ["git", "-c", "user.name=A", "-c", "user.email=a@example.org", "-C", str(folder)]
    subprocess.run([*git, "init", "-q"], check=True)
    for n in range(12):
        text = f"# Retry {n}\n\nHow the retry limit works, part {n}.\n"
        (folder / f"retry{n}.md").write_text(text, encoding="utf-8")
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "-qm", f"Raise the retry limit {n}"], check=True)
    with Library.open(folder, index_dir=tmp_path / "index", settings=HASH) as library:
        library.index()
        for commits in library.histories().values():
            commits.index()
        now = library.search("retry limit", mode="keyword", commits=True).hits
        then = library.search("who changed the retry limit", mode="keyword", commits=True).hits
    assert [hit.lane for hit in now].count("commits") <= 3
    assert [hit.lane for hit in then[:3]] == ["commits"] * 3
