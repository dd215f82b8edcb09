"""Long questions: their title, and that it is asked beside the whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from lookfar.library import Library
from lookfar.retrieve.question.query import find_origin, find_title, list_paths
from lookfar.retrieve.stages.boost import match_path

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


PYTHON_TRACE = """
Traceback (most recent call last):
  File "/usr/lib/python3.12/site-packages/shop/views.py", line 3, in show
  File "/usr/lib/python3.12/site-packages/shop/store/locks.py", line 9, in release
KeyError: 7
"""
NODE_TRACE = """
TypeError: x is not a function
    at release (C:\\app\\shop\\locks.js:9:5)
    at show (C:\\app\\shop\\views.js:3:1)
"""


def test_files_of_a_stack_trace() -> None:
    paths = list_paths(PYTHON_TRACE)
    assert [path.rpartition("/")[2] for path in paths] == ["views.py", "locks.py"]
    assert find_origin(PYTHON_TRACE, paths).endswith("store/locks.py")
    paths = list_paths(NODE_TRACE)
    assert find_origin(NODE_TRACE, paths) == "app/shop/locks.js"
    assert list_paths("It is 3.5 times slower, i.e. not good.") == []


def test_a_path_of_another_machine_is_matched_by_its_end() -> None:
    uris = [
        "src/shop/locks.py",
        "shop/store/locks.py",
        "a/__init__.py",
        "b/__init__.py",
        "__init__.py",
    ]
    assert match_path("usr/lib/shop/store/locks.py", uris) == ["shop/store/locks.py"]
    assert match_path("elsewhere/locks.py", uris) == uris[:2]
    assert match_path("x/__init__.py", uris) == []
    assert match_path("gone.py", uris) == []


def test_a_pasted_issue_finds_the_file_that_its_trace_ends_in(tmp_path: Path) -> None:
    """Seen to fail without the boost for named files (the test has more of the words), and without
    the factors for tests and prose."""
    folder = tmp_path / "repository"
    words = "A customer released the lock of a basket twice. " * 6
    files = {
        "shop/store/locks.py": "def release(number):\n    del _held[number]\n",
        "shop/views.py": "def show(request):\n    return release(request.number)\n",
        "tests/test_locks.py": '"""A lock released twice."""\n\nrelease(7)\nrelease(7)\n',
        "docs/guide.md": "# Basket\n\nThe customer fills a basket, and a lock keeps it.\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    issue = f"Error when a lock is released\n\n{words}\n{PYTHON_TRACE}"
    with Library.open(folder, index_dir=tmp_path / "index", settings=HASH) as library:
        hits = library.search(issue, explain=True).hits
    assert hits[0].uri == "shop/store/locks.py"
    stages = {hit.uri: {step.stage for step in hit.explanation} for hit in hits}
    assert "named" in stages["shop/store/locks.py"]
    lowered = {uri for uri in stages if "code first" in stages[uri]}
    assert lowered == {"docs/guide.md", "tests/test_locks.py"}
