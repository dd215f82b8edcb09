"""Where each system keeps its configuration."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Literal, NamedTuple

from lookfar.config.folders import FOREIGN_FILES, home_folder

MSRL_FILE, RAGDOCS_FILE, PYPROJECT_FILE, ANVIL_FILE = FOREIGN_FILES
ENV_FILE: Final = ".env"
_HASH_LENGTHS: Final = (32, 16)
"""Digits of the hash in the name of Search MCP's folder, now and in its older versions."""


class Place(NamedTuple):
    """A file that may contain the configuration of a system."""

    path: Path
    layer: Literal["user", "project", "environment"]
    root: Path | None = None
    """For a file that came with a folder: that folder."""


def find_places(
    system: str, root: Path | None, env: Mapping[str, str], cwd: Path | None
) -> list[Place]:
    """Return the files of a system, weakest first, whether or not they exist."""
    finders = {
        "anvil": lambda: _anvil(root, cwd),
        "document-db": lambda: _document_db(root, cwd),
        "msrl": lambda: _in_project(root, MSRL_FILE),
        "ragdocs": lambda: _ragdocs(root, env),
        "search-mcp": lambda: _search_mcp(root, env),
    }
    return list(finders[system]())


def search_mcp_folder(root: Path, env: Mapping[str, str]) -> Path:
    """Return the folder in which Search MCP keeps its configuration of a project."""
    digest = hashlib.sha256(os.fsencode(os.path.abspath(root))).hexdigest()
    return _search_mcp_home(env) / "indexes" / digest[: _HASH_LENGTHS[0]]


def _search_mcp_home(env: Mapping[str, str]) -> Path:
    return home_folder(env) / ".mcp" / "search"


def _search_mcp(root: Path | None, env: Mapping[str, str]) -> Iterator[Place]:
    yield Place(_search_mcp_home(env) / "config.json", "user")
    if root is not None:
        current = search_mcp_folder(root, env)
        shortened = [current.with_name(current.name[:length]) for length in _HASH_LENGTHS]
        for folder in reversed(shortened):
            yield Place(folder / "config.json", "user")


def _ragdocs(root: Path | None, env: Mapping[str, str]) -> Iterator[Place]:
    folder = env.get("XDG_CONFIG_HOME", "")
    config_home = Path(folder) if os.path.isabs(folder) else home_folder(env) / ".config"
    yield Place(config_home / "mcp-markdown-ragdocs" / "config.toml", "user")
    yield from _in_project(root, PYPROJECT_FILE)
    yield from _in_project(root, RAGDOCS_FILE)


def _anvil(root: Path | None, cwd: Path | None) -> Iterator[Place]:
    """Its file is beside the documents, or where its command is started."""
    for folder in dict.fromkeys((cwd, root)):
        yield from _in_project(folder, ANVIL_FILE)


def _document_db(root: Path | None, cwd: Path | None) -> Iterator[Place]:
    """A ``.env`` file chooses a service, so one inside a folder that is served is not read."""
    if cwd is not None and (root is None or not cwd.resolve().is_relative_to(root.resolve())):
        yield Place(cwd / ENV_FILE, "environment")


def _in_project(root: Path | None, name: str) -> Iterator[Place]:
    if root is not None:
        yield Place(root / name, "project", root)
