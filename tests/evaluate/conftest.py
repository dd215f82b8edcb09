"""A small corpus with a real index, isolated from the user's configuration."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lookfar import Library

SETTINGS = {"embed.provider": "hash", "chunk.merge_small": False, "chunk.min_tokens": 0}
"""Each section is a chunk of its own."""

FILES = {
    "fruit.md": """# Fruit

Baskets arrive before dawn from the southern orchards every market morning.

## Apples

Apples keep in cool cellars until spring when the crates run empty.

## Pears

Pears soften quickly and travel badly over cobbled market roads.
""",
    "tools.md": """# Tools

Ladders and crates belong inside the barn before dawn.

## Ladders

Inspect every rung of a wooden ladder before anyone climbs into orchards.

## Storage

Cool cellars protect wooden handles until spring.
""",
    "roads.md": """# Roads

Cobbled roads lead from the barn towards the southern market.

## Winter

Snow closes the roads until spring and nobody climbs to the orchards.
""",
    "shelf.py": '''"""Shelves."""


class Shelf:
    """Holds crates in the order of their arrival."""

    def put(self, crate):
        """Keep a wooden thing until somebody asks for it again."""
        self.crates.append(crate)

    def bare(self):
        return not self.crates
''',
}


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir()
    for variable in [name for name in os.environ if name.startswith(("LOOKFAR_", "XDG_"))]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("LOOKFAR_QUALITY_ENABLED", "off")  # See tests/conftest.py.
    for variable in ("HOME", "USERPROFILE", "LOCALAPPDATA", "APPDATA"):
        monkeypatch.setenv(variable, str(home))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / "farm" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path / "farm"


@pytest.fixture
def library(folder: Path, tmp_path: Path) -> Iterator[Library]:
    with Library.open(folder, index_dir=tmp_path / "indexes", settings=SETTINGS) as library:
        library.index()
        yield library
