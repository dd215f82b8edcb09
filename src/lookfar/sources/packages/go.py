"""Packages of a Go project: the modules of ``go.mod`` that are in the module cache."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from lookfar.sources.packages.package import Package, read_data, walk_package

_REQUIRED: Final = re.compile(
    r"\s*(?:require\s+)?([a-z0-9][\w.~-]*(?:\.[a-z]+)(?:/[\w.~-]+)*)\s+(v[\w.+-]+)\s*(//.*)?"
)
_LONGEST_LINE: Final = 1_000
"""Characters; matching takes time that grows with the square of them."""
_UPPER: Final = re.compile(r"[A-Z]")


def find_packages(project: Path, module_cache: Path) -> Iterator[Package]:
    """Yield the modules that the project requires and that were downloaded."""
    text = read_data(project / "go.mod").decode("utf-8", "replace")
    lines = (line for line in text.splitlines() if len(line) <= _LONGEST_LINE)
    for match in filter(None, map(_REQUIRED.fullmatch, lines)):
        name, version, comment = match[1], match[2], match[3] or ""
        if ".." in name.split("/"):
            continue  # It would lead to other folders of this machine.
        place = module_cache / f"{_escape(name)}@{_escape(version)}"
        if place.is_dir():
            yield Package(
                "go", name, version, str(place), "indirect" not in comment,
                (name.rpartition("/")[2],),
            )  # fmt: skip


def list_files(package: Package) -> Iterator[tuple[str, Path]]:
    for uri, path in walk_package(Path(package.place), endings=(".go",)):
        if not uri.endswith("_test.go") and "internal" not in uri.split("/"):
            yield uri, path


def _escape(text: str) -> str:
    """Return a name as the module cache writes it, for disks that ignore case."""
    return _UPPER.sub(lambda letter: f"!{letter[0].lower()}", text)
