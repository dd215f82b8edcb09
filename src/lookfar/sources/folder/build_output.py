"""Decide whether a folder with a name like ``target`` or ``vendor`` contains build output.

The name alone is not enough: a manual may have a page in ``event/target/``. The evidence is a build
file beside the folder, or a file inside it that only a tool writes. Folders that git ignores need
no other evidence, because the ignore rules already skip them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from lookfar.errors import LookfarError
from lookfar.sources.confine import Handle, Refused, Root, close_folder, lstat_in, open_child
from lookfar.sources.secrets.screen import fold_name

Evidence = Callable[[str], str]
"""Returns why the folder with this URI is build output; empty if there is no evidence."""

_CACHE_TAG: Final = "CACHEDIR.TAG"
"""Written by cargo, pytest and others into folders that can be rebuilt (bford.info/cachedir)."""

_GRADLE: Final = (
    "build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts",
)  # fmt: skip
_NODE: Final = ("package.json",)
_PYTHON: Final = ("setup.py", "setup.cfg", "pyproject.toml")
_DOTNET: Final = ("*.csproj", "*.fsproj", "*.vbproj")

_BESIDE: Final[Mapping[str, tuple[str, ...]]] = {
    "target": ("cargo.toml", "pom.xml", "build.sbt", "project.clj"),
    "vendor": ("go.mod", "go.work", "composer.json", "gemfile", "cargo.toml"),
    "build": (
        *(*_NODE, *_GRADLE, *_PYTHON, "cmakelists.txt", "meson.build", "pubspec.yaml"),
        "build.xml",
    ),
    "dist": (*_NODE, *_PYTHON, "bower.json"),
    "out": (*_NODE, *_GRADLE, "tsconfig.json", "cmakelists.txt", "foundry.toml", ".gn"),
    "bin": (*_DOTNET, ".classpath"),
    "obj": _DOTNET,
    "coverage": (*_NODE, "composer.json"),
    "venv": (),
}
"""The build files, in lower case, beside which a folder with this name is build output."""

_INSIDE: Final[Mapping[str, tuple[str, ...]]] = {
    "target": (".rustc_info.json",),
    "vendor": ("modules.txt", "autoload.php"),
    "build": ("CMakeCache.txt", "build.ninja", "doctrees"),
    "out": ("build.ninja",),
    "coverage": ("lcov.info", "lcov-report", "coverage-final.json"),
    "venv": ("pyvenv.cfg",),
}
"""Files that only a tool writes into such a folder; ``CACHEDIR.TAG`` counts in all of them."""

_USUALLY_OUTPUT: Final = frozenset("target vendor build dist out coverage venv".split())

_CONTAINS: Final = "contains "

_PATTERNS: Final = tuple({name[1:] for names in _BESIDE.values() for name in names if "*" in name})
_BUILD_FILES: Final = frozenset(name for names in _BESIDE.values() for name in names)
_MARKS: Final = frozenset(
    (_CACHE_TAG.lower(), *(name.lower() for names in _INSIDE.values() for name in names))
)


def output_name(name: str) -> str:
    """Return the folded name of a folder that may be build output; empty for other names."""
    key = fold_name(name).rstrip(". ")
    return key if key in _BESIDE else ""


def presume_output(uri: str) -> str:
    """Judge a folder by its name alone, where its files cannot be examined, as in old commits."""
    return "by name" if output_name(uri.rpartition("/")[2]) in _USUALLY_OUTPUT else ""


def is_build_file(name: str) -> bool:
    """Whether a file with this name can be evidence for a folder beside it."""
    key = name.lower()
    return key in _BUILD_FILES or key.endswith(_PATTERNS)


def is_output_mark(name: str) -> bool:
    """Whether a file with this name can be evidence for the folder that contains it."""
    return name.lower() in _MARKS


def is_mark_rule(rule: str) -> bool:
    """Whether a rule skips a folder because of a file inside it."""
    return rule.partition("/ ")[2].startswith(_CONTAINS)


def gather_evidence(handle: Handle, names: Iterable[str]) -> Evidence:
    """Return a function that judges the folders in one open folder with these entries."""
    present: dict[str, str] = {}

    def explain(uri: str) -> str:
        name = uri.rpartition("/")[2]
        if not present:
            present.update((entry.lower(), entry) for entry in names)
        return _find_beside(output_name(name), present) or find_mark(handle, name)

    return explain


def _find_beside(key: str, present: Mapping[str, str]) -> str:
    for wanted in _BESIDE.get(key, ()):
        if wanted in present:
            return f"beside {present[wanted]}"
        if wanted.startswith("*"):
            for lowered, entry in present.items():
                if lowered.endswith(wanted[1:]):
                    return f"beside {entry}"
    return ""


def find_mark(handle: Handle, name: str) -> str:
    """Return the file inside a folder that shows that it is build output; empty if none does."""
    try:
        inner = open_child(handle, name)
    except OSError:  # It does not exist, is not a folder, or cannot be read.
        return ""
    try:
        for mark in (_CACHE_TAG, *_INSIDE.get(output_name(name), ())):
            try:
                lstat_in(inner, mark)
            except OSError:
                continue
            return f"{_CONTAINS}{mark}"
    finally:
        close_folder(inner)
    return ""


def find_evidence(root: Root, uri: str) -> str:
    """Return why a folder below a root is build output; empty if there is no evidence.

    The folder itself may no longer exist: a build file beside it is enough.
    """
    parent, _, name = uri.rpartition("/")
    if not output_name(name):
        return ""
    try:
        handle = root.open_folder(parent)
    except (Refused, LookfarError, OSError):
        return ""
    try:
        return gather_evidence(handle, os.listdir(handle))(uri)
    except OSError:
        return ""
    finally:
        close_folder(handle)


def list_outputs(root: Root, uri: str) -> list[str]:
    """Return the subfolders of a folder that have a usual name of build output."""
    try:
        names = os.listdir(os.path.join(root.path, uri))
    except OSError:
        return []
    prefix = f"{uri}/" if uri else ""
    return [prefix + name for name in names if output_name(name)]
