"""Packages of a Node project: what is in its ``node_modules``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lookfar.common.folders import list_folder
from lookfar.sources.packages.package import Package, read_json, read_table, walk_package

_KINDS = ("dependencies", "devDependencies", "peerDependencies", "optionalDependencies")


def find_packages(project: Path) -> Iterator[Package]:
    """Yield the installed packages."""
    described = read_json(project / "package.json")
    direct = {name for kind in _KINDS for name in read_table(described.get(kind))}
    top = project / "node_modules"
    folders = [
        folder
        for entry in list_folder(top)
        if not entry.name.startswith(".")
        for folder in (list_folder(entry) if entry.name.startswith("@") else [entry])
    ]
    for folder in folders:
        data = read_json(folder / "package.json")
        name, version = data.get("name"), data.get("version")
        if isinstance(name, str) and isinstance(version, str) and name and version:
            # A package manager may link the folder to its store.
            yield Package("npm", name, version, str(folder.resolve()), direct=name in direct)


def list_files(package: Package) -> Iterator[tuple[str, Path]]:
    """Yield URI and path of the files that are read: types, or the sources where there are none."""
    root = Path(package.place)
    typed = list(walk_package(root, endings=(".d.ts", ".d.mts", ".d.cts")))
    if any(uri.endswith((".d.ts", ".d.mts", ".d.cts")) for uri, _ in typed):
        yield from typed
        return
    for uri, path in walk_package(root, endings=(".js", ".mjs", ".cjs")):
        built = uri.split("/")[0] in ("dist", "build", "umd", "min") or ".min." in uri
        if not built:
            yield uri, path
