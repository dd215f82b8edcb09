"""What is known about an installed package, and which of its files are read."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from lookfar.common.folders import scan_folder

Registry = Literal["pypi", "npm", "crates", "go", "maven"]

_SKIPPED_FOLDERS: Final = frozenset(
    (
        *("tests", "test", "testing", "__tests__", "_tests", "testdata", "fixtures", "benches"),
        *("_vendor", "vendor", "vendored", "node_modules", "__pycache__", ".git", ".github"),
        *("examples", "example", "benchmarks", "benchmark", "third_party"),
    )
)
_DOCUMENT: Final = re.compile(
    r"(?i)(?:readme|changelog|changes|history|news|release[-_]?notes|migration|upgrad\w*|api"
    r"|usage|guide|tutorial|getting[-_ ]?started|faq)(?:[-_.]\w+)*"
)
_PROSE: Final = frozenset((".md", ".rst", ".txt", ".markdown", ""))
MOST_FILES: Final = 3_000
_LARGEST_DATA: Final = 20_000_000


@dataclass(frozen=True, slots=True)
class Package:
    """One version of a package on this machine."""

    registry: Registry
    name: str
    version: str
    place: str
    """The folder it is installed in, or the archive of its sources."""
    direct: bool = False
    """Whether the project names it, and not only another package."""
    imports: tuple[str, ...] = ()
    """The names under which code uses it, if they differ from its own."""
    record: str = ""
    """A file that lists what was installed, where there is one."""

    @property
    def full_name(self) -> str:
        return f"{self.name}-{self.version}@{self.registry}"


def is_document(name: str) -> bool:
    """Return whether a file is documentation that packages usually contain."""
    stem, ending = os.path.splitext(name)
    return ending.lower() in _PROSE and _DOCUMENT.fullmatch(stem) is not None


def is_skipped(uri: str) -> bool:
    """Return whether a file of a package belongs to its tests, examples or copies of others."""
    return not _SKIPPED_FOLDERS.isdisjoint(part.lower() for part in uri.split("/")[:-1])


def walk_package(root: Path, *, endings: tuple[str, ...]) -> Iterator[tuple[str, Path]]:
    """Yield URI and path of the files of a package that are read, by name.

    ``endings`` are those of source files. Documentation is read at the top and in ``doc`` folders.
    """
    waiting, count = [""], 0
    while waiting and count < MOST_FILES:
        folder = waiting.pop()
        entries = sorted(scan_folder(root / folder), key=lambda entry: entry.name)
        for entry in entries:
            uri = f"{folder}/{entry.name}".lstrip("/")
            if entry.is_dir(follow_symlinks=False):
                if not is_skipped(f"{uri}/_"):
                    waiting.append(uri)
                continue
            if not entry.is_file(follow_symlinks=False) or count >= MOST_FILES:
                continue
            in_docs = uri.split("/")[0].lower() in ("docs", "doc")
            is_prose = uri.lower().endswith((".md", ".rst", ".markdown"))
            if entry.name.endswith(endings) or is_document(entry.name) or (in_docs and is_prose):
                count += 1
                yield uri, Path(entry.path)


def read_data(path: Path) -> bytes:
    """Return the bytes of a file about packages; empty if it is missing, odd or too large."""
    try:
        if path.stat().st_size > _LARGEST_DATA:
            return b""
        return path.read_bytes()
    except OSError:
        return b""


def read_toml(path: Path) -> dict[str, Any]:
    """Return the contents of a TOML file; empty if it is missing or damaged."""
    import tomllib

    try:
        return tomllib.loads(read_data(path).decode("utf-8"))
    except (ValueError, RecursionError):
        return {}


def read_json(path: Path) -> dict[str, Any]:
    """Return the object of a JSON file; empty if it is missing or damaged."""
    import json

    try:
        value = json.loads(read_data(path) or b"{}")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def read_table(value: Any) -> dict[str, Any]:
    """Return a value as a table; empty if it is something else."""
    return value if isinstance(value, dict) else {}
