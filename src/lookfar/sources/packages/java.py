"""Packages of a Java project: dependencies of ``pom.xml`` whose sources Maven has downloaded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from lookfar.sources.packages.package import Package, read_data

_DEPENDENCY: Final = re.compile(r"<dependency>((?:(?!<dependency>).)*?)</dependency>", re.S)
_PART: Final = re.compile(r"[\w.+-]+")
_GRADLE: Final = re.compile(r"""['"]([\w.-]+):([\w.-]+):([\w.+-]+)['"]""")


def find_packages(project: Path, maven_home: Path) -> Iterator[Package]:
    """Yield the dependencies that have an archive of their sources in the local repository."""
    for group, artifact, version in _read_dependencies(project):
        folder = maven_home.joinpath(*group.split("."), artifact, version)
        sources = folder / f"{artifact}-{version}-sources.jar"
        if sources.is_file():
            yield Package("maven", f"{group}.{artifact}", version, str(sources), direct=True)


def _read_dependencies(project: Path) -> Iterator[tuple[str, str, str]]:
    pom = read_data(project / "pom.xml").decode("utf-8", "replace")
    for match in _DEPENDENCY.finditer(pom):
        values = [_read_element(match[1], name) for name in ("groupId", "artifactId", "version")]
        if all(map(_PART.fullmatch, values)) and ".." not in values:
            yield values[0], values[1], values[2]
    for name in ("build.gradle", "build.gradle.kts"):
        for found in _GRADLE.finditer(read_data(project / name).decode("utf-8", "replace")):
            yield found[1], found[2], found[3]


def _read_element(text: str, name: str) -> str:
    match = re.search(rf"<{name}>\s*([^<\s]+)\s*</{name}>", text)
    return match[1] if match else ""
