"""Packages of a Node project: what is in its ``node_modules``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from lookfar.common.folders import list_folder
from lookfar.sources.packages.package import Package, read_json, read_table, walk_package

_KINDS = ("dependencies", "devDependencies", "peerDependencies", "optionalDependencies")


_TYPES = (".d.ts", ".d.mts", ".d.cts")
"""Endings of types, the usual one first; others are the same types for other module systems."""
_FOR_OLD_COMPILERS = re.compile(r"(?:^|/)ts\d+\.\d+/")


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
            place = str(folder.resolve())
            yield Package("npm", name, version, place, name in direct, _find_typed(name))


def list_files(package: Package) -> Iterator[tuple[str, Path]]:
    """Yield URI and path of the files that are read: types, or the sources where there are none."""
    root = Path(package.place)
    typed = list(walk_package(root, endings=_TYPES))
    if package.name.startswith("@types/"):
        # Their generated READMEs only list files and authors, and would match the names in them.
        typed = [(uri, path) for uri, path in typed if uri.lower() != "readme.md"]
    if any(uri.endswith(_TYPES) for uri, _ in typed):
        uris = {uri for uri, _ in typed}
        yield from ((uri, path) for uri, path in typed if not _is_copy(uri, uris))
        return
    for uri, path in walk_package(root, endings=(".js", ".mjs", ".cjs")):
        built = uri.split("/")[0] in ("dist", "build", "umd", "min") or ".min." in uri
        if not built:
            yield uri, path


def _find_typed(name: str) -> tuple[str, ...]:
    """Return the package whose types a package of DefinitelyTyped has."""
    prefix, _, typed = name.partition("/")
    if prefix != "@types" or not typed:
        return ()
    scope, scoped, rest = typed.partition("__")
    return (f"@{scope}/{rest}" if scoped else typed,)


def _is_copy(uri: str, uris: set[str]) -> bool:
    """Return whether a file has the types of another one, for another module system or compiler."""
    ending = next((ending for ending in _TYPES if uri.endswith(ending)), "")
    if not ending:
        return False
    usual = _FOR_OLD_COMPILERS.sub("", uri)
    stem = uri.removesuffix(ending)
    preferred = _TYPES[: _TYPES.index(ending)]
    return (usual != uri and usual in uris) or any(stem + other in uris for other in preferred)
