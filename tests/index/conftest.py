"""A folder and a library over it, with the deterministic embedder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lookfar.library import Library


@pytest.fixture(autouse=True)
def in_own_home(own_home: None) -> None:
    """For every test of this room."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.fixture
def library(root: Path, tmp_path: Path) -> Iterator[Library]:
    settings = {"embed.provider": "hash", "index.workers": 1, "chunk.min_tokens": 0}
    with Library.open(root, index_dir=tmp_path / "index", settings=settings) as opened:
        yield opened
