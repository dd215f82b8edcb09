"""A folder and a library over it, with the deterministic embedder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lookfar.library import Library


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's configuration and nobody's indexes."""
    for variable in [name for name in os.environ if name.startswith(("LOOKFAR_", "XDG_"))]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


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
