"""Packages of a Python project: what its virtual environment contains."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from email.parser import BytesHeaderParser
from pathlib import Path
from typing import Final

from lookfar.common.folders import list_folder
from lookfar.sources.packages.package import (
    MOST_FILES,
    Package,
    is_document,
    is_skipped,
    read_data,
    read_table,
    read_toml,
)

_ENVIRONMENTS: Final = (".venv", "venv", "env", ".env")
_REQUIREMENT: Final = re.compile(r"\s*([A-Za-z0-9][\w.-]*)")
_OWN_NAMES: Final = frozenset(("pip", "setuptools", "wheel"))


def find_packages(project: Path) -> Iterator[Package]:
    """Yield the packages of the project's environment."""
    direct = _read_direct(project)
    for packages in find_site_packages(project):
        for info in list_folder(packages, "*.dist-info"):
            headers = BytesHeaderParser().parsebytes(read_data(info / "METADATA"))
            name, version = str(headers["Name"] or ""), str(headers["Version"] or "")
            if not name or not version or normalise(name) in _OWN_NAMES:
                continue
            if not (info / "RECORD").is_file():
                continue  # It is being installed, or another program manages it.
            yield Package(
                "pypi",
                normalise(name),
                version,
                str(packages),
                direct=normalise(name) in direct,
                imports=_find_imports(info),
                record=str(info / "RECORD"),
            )


def list_files(package: Package) -> Iterator[tuple[str, Path]]:
    """Yield URI and path of the files that are read; type stubs instead of what they describe."""
    packages, info = Path(package.place), Path(package.record).parent
    uris = [row[0] for row in _read_record(info) if row and not row[0].startswith(("..", "/"))]
    stubs = {uri[:-1] for uri in uris if uri.endswith(".pyi")}
    count = 0
    for uri in sorted(uris):
        name = uri.rpartition("/")[2]
        is_source = uri.endswith((".py", ".pyi")) and uri not in stubs
        if (is_source or is_document(name)) and not is_skipped(uri):
            count += 1
            if count > MOST_FILES:
                return
            yield uri, packages / uri
    yield "README.md", info / "METADATA"


def normalise(name: str) -> str:
    """Return the name of a package as the registry compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def find_site_packages(project: Path) -> Iterator[Path]:
    for name in _ENVIRONMENTS:
        environment = project / name
        if not (environment / "pyvenv.cfg").is_file():
            continue
        libraries = [*list_folder(environment / "lib", "python*"), environment / "Lib"]
        for library in libraries:
            if (library / "site-packages").is_dir():
                yield library / "site-packages"
        return


def _read_record(info: Path) -> list[list[str]]:
    text = read_data(info / "RECORD").decode("utf-8", "replace")
    try:
        return list(csv.reader(io.StringIO(text)))
    except csv.Error:
        return []


def _find_imports(info: Path) -> tuple[str, ...]:
    """Return the modules and packages at the top that a distribution installs."""
    tops: dict[str, None] = {}
    for row in _read_record(info):
        head, slash, _ = row[0].partition("/") if row else ("", "", "")
        name = head if slash else head.removesuffix(".py")
        if name.isidentifier() and (slash or head.endswith(".py")):
            tops[name] = None
    return tuple(tops)


def _read_direct(project: Path) -> frozenset[str]:
    """Return the names of the packages that the project itself asks for."""
    data = read_toml(project / "pyproject.toml")
    described = read_table(data.get("project"))
    named = described.get("dependencies")
    lines: list[object] = list(named) if isinstance(named, list) else []
    for group in read_table(described.get("optional-dependencies")).values():
        lines += group if isinstance(group, list) else []
    for group in read_table(data.get("dependency-groups")).values():
        lines += group if isinstance(group, list) else []
    poetry = read_table(read_table(data.get("tool")).get("poetry"))
    lines += read_table(poetry.get("dependencies"))
    for group in read_table(poetry.get("group")).values():
        lines += read_table(read_table(group).get("dependencies"))
    for file in list_folder(project, "requirements*.txt"):
        lines += read_data(file).decode("utf-8", "replace").splitlines()
    matches = (_REQUIREMENT.match(line) for line in lines if isinstance(line, str))
    return frozenset(normalise(match[1]) for match in matches if match)
