"""All packages that a project uses, whatever its languages are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from lookfar.common.folders import list_folder
from lookfar.config import child_environment
from lookfar.sources.packages import python
from lookfar.sources.packages.package import (
    Package,
    read_data,
    read_json,
    read_table,
    read_toml,
    walk_package,
)

_STAMPED = (
    "pyproject.toml", "requirements.txt", "package.json", "package-lock.json", "Cargo.lock",
    "Cargo.toml", "go.mod", "go.sum", "pom.xml", "build.gradle", "build.gradle.kts", "uv.lock",
    "poetry.lock", "yarn.lock", "pnpm-lock.yaml", "node_modules", "node_modules/.package-lock.json",
    "node_modules/.yarn-integrity", "node_modules/.modules.yaml",
)  # fmt: skip


def find_all(project: Path) -> list[Package]:
    """Return the installed packages, those that the project names first."""
    environment = child_environment({})
    home = Path.home()
    cargo = Path(environment.get("CARGO_HOME") or home / ".cargo")
    go_path = Path(environment.get("GOPATH") or home / "go")
    module_cache = Path(environment.get("GOMODCACHE") or go_path / "pkg" / "mod")
    found = [
        *python.find_packages(project),
        *_find_node_packages(project),
        *_find_rust_packages(project, cargo),
        *_find_go_packages(project, module_cache),
        *_find_java_packages(project, home / ".m2" / "repository"),
    ]
    unique = {package.full_name: package for package in reversed(found)}
    return sorted(unique.values(), key=lambda package: (not package.direct, package.full_name))


def compute_stamp(project: Path) -> tuple[tuple[str, int], ...]:
    """Return a value that changes when packages may have been installed or removed."""
    paths = [project / name for name in _STAMPED]
    paths += python.find_site_packages(project)
    stamps: list[tuple[str, int]] = []
    for path in paths:
        try:
            stamps.append((str(path), path.stat().st_mtime_ns))
        except OSError:
            continue
    return tuple(stamps)


def list_files(package: Package) -> Iterator[tuple[str, Path]]:
    """Yield URI and path of the files of a package that are read."""
    match package.registry:
        case "pypi":
            yield from python.list_files(package)
        case "npm":
            yield from _list_node_files(package)
        case "crates":
            yield from _list_rust_files(package)
        case "go":
            yield from _list_go_files(package)
        case "maven":
            return  # Its sources are in an archive.


# -- Node: what is in ``node_modules`` -----------------------------------------------

_NODE_KINDS: Final = ("dependencies", "devDependencies", "peerDependencies", "optionalDependencies")


_TYPES: Final = (".d.ts", ".d.mts", ".d.cts")
"""Endings of types, the usual one first; others are the same types for other module systems."""
_FOR_OLD_COMPILERS: Final = re.compile(r"(?:^|/)ts\d+\.\d+/")


def _find_node_packages(project: Path) -> Iterator[Package]:
    """Yield the installed packages."""
    described = read_json(project / "package.json")
    direct = {name for kind in _NODE_KINDS for name in read_table(described.get(kind))}
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
            yield Package("npm", name, version, place, name in direct, _find_typed_package(name))


def _list_node_files(package: Package) -> Iterator[tuple[str, Path]]:
    """Yield URI and path of the files that are read: types, or the sources where there are none."""
    root = Path(package.place)
    typed = list(walk_package(root, endings=_TYPES))
    if package.name.startswith("@types/"):
        # Their generated READMEs only list files and authors, and would match the names in them.
        typed = [(uri, path) for uri, path in typed if uri.lower() != "readme.md"]
    if any(uri.endswith(_TYPES) for uri, _ in typed):
        uris = {uri for uri, _ in typed}
        yield from ((uri, path) for uri, path in typed if not _is_copy_of_types(uri, uris))
        return
    for uri, path in walk_package(root, endings=(".js", ".mjs", ".cjs")):
        built = uri.split("/")[0] in ("dist", "build", "umd", "min") or ".min." in uri
        if not built:
            yield uri, path


def _find_typed_package(name: str) -> tuple[str, ...]:
    """Return the package whose types a package of DefinitelyTyped has."""
    prefix, _, typed = name.partition("/")
    if prefix != "@types" or not typed:
        return ()
    scope, scoped, rest = typed.partition("__")
    return (f"@{scope}/{rest}" if scoped else typed,)


def _is_copy_of_types(uri: str, uris: set[str]) -> bool:
    """Return whether a file has the types of another one, for another module system or compiler."""
    ending = next((ending for ending in _TYPES if uri.endswith(ending)), "")
    if not ending:
        return False
    usual = _FOR_OLD_COMPILERS.sub("", uri)
    stem = uri.removesuffix(ending)
    preferred = _TYPES[: _TYPES.index(ending)]
    return (usual != uri and usual in uris) or any(stem + other in uris for other in preferred)


# -- Rust: the packages of ``Cargo.lock`` whose sources cargo has downloaded ---------

_CRATE_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")
_CRATE_VERSION: Final = re.compile(r"\d[\w.+-]*")
_RUST_KINDS: Final = ("dependencies", "dev-dependencies", "build-dependencies")


def _find_rust_packages(project: Path, cargo_home: Path) -> Iterator[Package]:
    """Yield the locked packages that are in the registry's folder of cargo."""
    locked = read_toml(project / "Cargo.lock").get("package")
    if not isinstance(locked, list):
        return
    direct = _read_cargo_names(project)
    registries = list_folder(cargo_home / "registry" / "src")
    for entry in map(read_table, locked):
        name, version = str(entry.get("name", "")), str(entry.get("version", ""))
        if not _CRATE_NAME.fullmatch(name) or not _CRATE_VERSION.fullmatch(version):
            continue  # A path would lead to other folders of this machine.
        folders = (registry / f"{name}-{version}" for registry in registries)
        place = next((folder for folder in folders if folder.is_dir()), None)
        if entry.get("source") and place is not None:
            yield Package(
                "crates", name, version, str(place), name in direct, (name.replace("-", "_"),)
            )


def _list_rust_files(package: Package) -> Iterator[tuple[str, Path]]:
    yield from walk_package(Path(package.place), endings=(".rs",))


def _read_cargo_names(project: Path) -> frozenset[str]:
    manifest = read_toml(project / "Cargo.toml")
    tables = [manifest, read_table(manifest.get("workspace"))]
    tables += map(read_table, read_table(manifest.get("target")).values())
    names: set[str] = set()
    for table in tables:
        for kind in _RUST_KINDS:
            for name, wanted in read_table(table.get(kind)).items():
                names.add(str(read_table(wanted).get("package", name)))
    return frozenset(names)


# -- Go: the modules of ``go.mod`` that are in the module cache ----------------------

_GO_REQUIRED: Final = re.compile(
    r"\s*(?:require\s+)?([a-z0-9][\w.~-]*(?:\.[a-z]+)(?:/[\w.~-]+)*)\s+(v[\w.+-]+)\s*(//.*)?"
)
_LONGEST_LINE: Final = 1_000
"""Characters; matching takes time that grows with the square of them."""
_UPPER: Final = re.compile(r"[A-Z]")


def _find_go_packages(project: Path, module_cache: Path) -> Iterator[Package]:
    """Yield the modules that the project requires and that were downloaded."""
    text = read_data(project / "go.mod").decode("utf-8", "replace")
    lines = (line for line in text.splitlines() if len(line) <= _LONGEST_LINE)
    for match in filter(None, map(_GO_REQUIRED.fullmatch, lines)):
        name, version, comment = match[1], match[2], match[3] or ""
        if ".." in name.split("/"):
            continue  # It would lead to other folders of this machine.
        place = module_cache / f"{_escape_module(name)}@{_escape_module(version)}"
        if place.is_dir():
            yield Package(
                "go", name, version, str(place), "indirect" not in comment,
                (name.rpartition("/")[2],),
            )  # fmt: skip


def _list_go_files(package: Package) -> Iterator[tuple[str, Path]]:
    for uri, path in walk_package(Path(package.place), endings=(".go",)):
        if not uri.endswith("_test.go") and "internal" not in uri.split("/"):
            yield uri, path


def _escape_module(text: str) -> str:
    """Return a name as the module cache writes it, for disks that ignore case."""
    return _UPPER.sub(lambda letter: f"!{letter[0].lower()}", text)


# -- Java: dependencies of ``pom.xml`` whose sources Maven has downloaded ------------

_DEPENDENCY: Final = re.compile(r"<dependency>((?:(?!<dependency>).)*?)</dependency>", re.S)
_MAVEN_PART: Final = re.compile(r"[\w.+-]+")
_GRADLE: Final = re.compile(r"""['"]([\w.-]+):([\w.-]+):([\w.+-]+)['"]""")


def _find_java_packages(project: Path, maven_home: Path) -> Iterator[Package]:
    """Yield the dependencies that have an archive of their sources in the local repository."""
    for group, artifact, version in _read_maven_dependencies(project):
        folder = maven_home.joinpath(*group.split("."), artifact, version)
        sources = folder / f"{artifact}-{version}-sources.jar"
        if sources.is_file():
            yield Package("maven", f"{group}.{artifact}", version, str(sources), direct=True)


def _read_maven_dependencies(project: Path) -> Iterator[tuple[str, str, str]]:
    pom = read_data(project / "pom.xml").decode("utf-8", "replace")
    for match in _DEPENDENCY.finditer(pom):
        values = [_read_element(match[1], name) for name in ("groupId", "artifactId", "version")]
        if all(map(_MAVEN_PART.fullmatch, values)) and ".." not in values:
            yield values[0], values[1], values[2]
    for name in ("build.gradle", "build.gradle.kts"):
        for found in _GRADLE.finditer(read_data(project / name).decode("utf-8", "replace")):
            yield found[1], found[2], found[3]


def _read_element(text: str, name: str) -> str:
    match = re.search(rf"<{name}>\s*([^<\s]+)\s*</{name}>", text)
    return match[1] if match else ""
