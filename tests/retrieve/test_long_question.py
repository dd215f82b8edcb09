"""Long questions: their title, and that it is asked beside the whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from lookfar.library import Library
from lookfar.retrieve.question.long_question import find_title

pytestmark = pytest.mark.usefixtures("own_home")

HASH = {"embed.provider": "hash", "index.workers": 1}
LONG = "It happens now and then, and we do not know why it does. " * 8


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("short question", ""),
        (f"# Locks are never released\n\n{LONG}", "Locks are never released"),
        (f"**Crash on start**\n{LONG}", "Crash on start"),
        (f"It fails. Then more.\n{LONG}", "It fails."),
        (LONG, ""),
        (LONG * 3, "It happens now and then, and we do not know why it does."),
        (
            f"Traceback (most recent call last):\n{LONG}\nKeyError: 'name'\nsee above\n",
            "KeyError: 'name'",
        ),
    ],
)
def test_title_of_a_long_question(text: str, title: str) -> None:
    assert find_title(text) == title


def test_a_title_counts_beside_the_whole(tmp_path: Path) -> None:
    """Seen to fail when only the whole text was asked: a page with its filler words came first."""
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "locks.md").write_text("# Locks\n\nHow locks are released.\n", encoding="utf-8")
    for n in range(9):
        (folder / f"noise{n}.md").write_text(f"# Noise {n}\n\n{LONG}\n", encoding="utf-8")
    issue = f"Locks are never released\n\n{LONG}{LONG}"
    with Library.open(folder, index_dir=tmp_path / "index", settings=HASH) as library:
        hits = library.search(issue, explain=True).hits
    assert "locks.md" in [hit.uri for hit in hits[:2]]
    assert {"whole text", "title"} <= {step.stage for hit in hits for step in hit.explanation}


def test_a_pasted_log_of_fifty_thousand_characters_is_answered(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# Queue\n\nThe queue overflows.\n", encoding="utf-8")
    log = "The queue overflows\n" + "worker 7 waits for the queue\n" * 1_700
    with Library.open(tmp_path, index_dir=tmp_path / "index", settings=HASH) as library:
        assert library.search(log[:50_000]).hits[0].uri == "a.md"
