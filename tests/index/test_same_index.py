"""The same files give the same index, byte for byte, in every build."""

from __future__ import annotations

import sqlite3
from hashlib import sha256
from pathlib import Path

import pytest

from lookfar.index import build
from lookfar.index.prepare import CheckpointTimer
from lookfar.library import Library

TIMED = {"generations", "seals", "settled", "state"}
"""Tables and columns that depend on the time: when a generation was made and how long it took,
whether a file was written just before, and hashes of these."""
FOLDERS = ("guide", "reference", "source")


def fill(root: Path) -> None:
    for folder in FOLDERS:
        (root / folder).mkdir()
        for number in range(12):
            others = " ".join(f"[{at}](page{at}.md)" for at in range(number % 5))
            (root / folder / f"page{number}.md").write_text(
                f"---\ntags: [t{number % 3}]\n---\n# Page {number}\n\nWords café {folder}"
                f" getUserById{number}. {others}\n\n```py\nx = {number}\n```\n## Two\n\nShared.\n"
            )
    (root / "source" / "program.py").write_text("def run(path):\n    return open(path).read()\n")


def index(root: Path, folder: Path, workers: int) -> dict[str, str]:
    """Build an index from nothing, and return a hash of each part of it."""
    with Library.open(root, index_dir=folder, settings={"index.workers": workers}) as library:
        library.index()
    (catalogue,) = folder.glob("*/epoch-*/catalogue.db")
    parts: dict[str, str] = {}
    connection = sqlite3.connect(catalogue)
    for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'"):
        if table not in TIMED:
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            compared = ", ".join(name for name in columns if name not in TIMED)
            rows = connection.execute(f"SELECT {compared} FROM {table}").fetchall()
            parts[table] = sha256(repr(rows).encode()).hexdigest()
    connection.close()
    for path in catalogue.parent.rglob("*"):
        if path.is_file() and path.name != catalogue.name:
            parts[path.name] = sha256(path.read_bytes()).hexdigest()
    return parts


def test_every_build_makes_the_same_index(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "_WORTH_PROCESSES", 0)
    monkeypatch.setattr(build, "_BATCH_FILES", 5)
    # How many checkpoints there are, and so the segments of an index, depends on the time.
    monkeypatch.setattr(CheckpointTimer, "run_if_due", lambda *_: None)
    fill(root)
    first = index(root, tmp_path / "first", workers=2)
    assert {"documents", "chunks", "links", "embeddings", "segments.json", "vectors.f16"} <= set(
        first
    )
    assert index(root, tmp_path / "second", workers=2) == first
    assert index(root, tmp_path / "alone", workers=1) == first
