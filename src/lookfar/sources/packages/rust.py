"""Packages of a Rust project: those of ``Cargo.lock`` whose sources cargo has downloaded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from lookfar.common.folders import list_folder
from lookfar.sources.packages.package import Package, read_table, read_toml, walk_package

_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")
_VERSION: Final = re.compile(r"\d[\w.+-]*")
_KINDS = ("dependencies", "dev-dependencies", "build-dependencies")


def find_packages(project: Path, cargo_home: Path) -> Iterator[Package]:
    """Yield the locked packages that are in the registry's folder of cargo."""
    locked = read_toml(project / "Cargo.lock").get("package")
    if not isinstance(locked, list):
        return
    direct = _read_direct(project)
    registries = list_folder(cargo_home / "registry" / "src")
    for entry in map(read_table, locked):
        name, version = str(entry.get("name", "")), str(entry.get("version", ""))
        if not _NAME.fullmatch(name) or not _VERSION.fullmatch(version):
            continue  # A path would lead to other folders of this machine.
        folders = (registry / f"{name}-{version}" for registry in registries)
        place = next((folder for folder in folders if folder.is_dir()), None)
        if entry.get("source") and place is not None:
            yield Package(
                "crates", name, version, str(place), name in direct, (name.replace("-", "_"),)
            )


def list_files(package: Package) -> Iterator[tuple[str, Path]]:
    yield from walk_package(Path(package.place), endings=(".rs",))


def _read_direct(project: Path) -> frozenset[str]:
    manifest = read_toml(project / "Cargo.toml")
    tables = [manifest, read_table(manifest.get("workspace"))]
    tables += map(read_table, read_table(manifest.get("target")).values())
    names: set[str] = set()
    for table in tables:
        for kind in _KINDS:
            for name, wanted in read_table(table.get(kind)).items():
                names.add(str(read_table(wanted).get("package", name)))
    return frozenset(names)
