"""All packages that a project uses, whatever its languages are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lookfar.config import child_environment
from lookfar.sources.packages import go, java, node, python, rust
from lookfar.sources.packages.package import Package

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
        *node.find_packages(project),
        *rust.find_packages(project, cargo),
        *go.find_packages(project, module_cache),
        *java.find_packages(project, home / ".m2" / "repository"),
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
            yield from node.list_files(package)
        case "crates":
            yield from rust.list_files(package)
        case "go":
            yield from go.list_files(package)
        case "maven":
            return  # Its sources are in an archive.
