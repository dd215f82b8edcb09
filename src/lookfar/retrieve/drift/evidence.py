"""Find the commits that removed what documents name, in the history of the code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from lookfar.retrieve.drift.vocabulary import Vocabulary, is_product
from lookfar.sources.git.removals import LostPath, RemovedLine, find_removed_lines
from lookfar.sources.git.repositories import Repository
from lookfar.text.parse.languages import Language, detect_language

_MODIFIERS: Final = (
    r"^(?P<indent>\s*)(?:export\s+|default\s+|public\s+|private\s+|protected\s+|static\s+|async\s+"
    r"|pub(?:\(\w+\))?\s+|abstract\s+|final\s+|inline\s+|readonly\s+|#\s*(?=define))*"
)
_DECLARES: Final = (
    r"(?:(?:def|class|function\*?|func|fn|type|struct|enum|interface|trait|module|define|fun|const"
    r"|let|var|val|macro_rules!)\s+(?:\([^()]*\)\s*|self\.)?{name}\b|{name}\s*\([^()]*\)\s*\{{\s*$)"
)
_ASSIGNS: Final = (
    r"(?P<owner>self\.|this\.|exports\.|cls\.|\w+\.prototype\.)?{name}\s*(?::[^=]+)?=(?!=)"
)
_TAKES: Final = (
    r"\b(?:def|function|func|fn|fun)\b[^()]*\((?:[^()]|\([^()]*\))*?(?<![\w.]){name}\s*[:=,)]"
)
_KEY: Final = r"(?:[\"'`]{name}(?:,\w+)*[\"'`]|^\s*{name}\??:\s|(?<!:):{name}\b)"

_DISTINCT: Final = re.compile(r"[A-Za-z0-9]_[A-Za-z0-9]|[a-z0-9][A-Z]")
"""A quoted word of another form is often only text."""


class Target(NamedTuple):
    """Something whose removal is looked for in the history."""

    kind: str
    name: str
    """For a parameter, the function and the parameter with a space between."""

    @property
    def word(self) -> str:
        """Return the longest word of the name's last part, which every removed line contains."""
        last = self.name.rpartition(" ")[2]
        if self.kind != "option":
            return last.rpartition(".")[2]
        return max(re.split(r"[-.]+", last), key=len)


class Evidence(NamedTuple):
    """The commit and path that show that something was removed."""

    commit: str
    time: int
    path: str
    moved_to: str = ""


def find_removals(
    repository: Repository,
    tip: str,
    targets: Iterable[Target],
    vocabulary: Vocabulary,
    endings: Iterable[str],
) -> dict[Target, Evidence]:
    """Return the newest commit that removed the definition of each target.

    ``endings`` are those of the source files that the repository has or had.
    """
    wanted: dict[str, set[Target]] = {}
    for target in targets:
        wanted.setdefault(target.word, set()).add(target)
    evidence: dict[Target, Evidence] = {}
    if not wanted or not endings:
        return evidence
    decided: set[Target] = set()
    for line in find_removed_lines(repository, tip, wanted, endings):
        if is_source(line.path) and not _is_comment(line):
            for word in set(re.findall(r"[A-Za-z_]\w*", line.text)) & wanted.keys():
                for target in wanted[word] - decided:
                    if defines(target, line, vocabulary):
                        # Only the newest removal counts: older ones are moves.
                        decided.add(target)
                        if not vocabulary.may_inherit(line.path, line.text):
                            evidence[target] = Evidence(line.commit, line.time, line.path)
    return evidence


def find_endings(paths: Iterable[str]) -> frozenset[str]:
    """Return the endings of the source files among the paths."""
    return frozenset(
        "." + path.rpartition(".")[2] if "." in path.rpartition("/")[2] else path.rpartition("/")[2]
        for path in paths
        if is_source(path)
    )


def is_source(path: str) -> bool:
    """Whether a path is a program that is neither a test, an example nor documentation."""
    return _program(path) is not None and is_product(path)


def _program(path: str) -> Language | None:
    language = detect_language(path)
    return language if language is not None and language.category == "program" else None


def _is_comment(line: RemovedLine) -> bool:
    language = _program(line.path)
    text = line.text.lstrip()
    if language is None or not text.startswith((*language.line_comment, "/*", "* ")):
        return False
    return not text.startswith("#define")


def find_lost_module(
    places: Iterable[str], member: str, lost: Mapping[str, LostPath]
) -> tuple[str, LostPath] | None:
    """Return the deleted file of a module that was in one of these packages."""
    for uri in places:
        folder, _, last = uri.rpartition("/")
        if last == "__init__.py":
            start = f"{folder}/{member}" if folder else member
            for path in (f"{start}.py", f"{start}/__init__.py"):
                if path in lost:
                    return path, lost[path]
    return None


def defines(target: Target, line: RemovedLine, vocabulary: Vocabulary) -> bool:
    """Whether a removed line defined what a document names."""
    text, name = line.text, target.name
    if target.kind == "option":
        plain = re.escape(name.lstrip("-"))
        return re.search(rf"[\"'`](?:--)?{plain}(?:[\"'`=\s,/]|$)", text) is not None
    if target.kind == "parameter":
        function, _, parameter = name.partition(" ")
        known = vocabulary.parameters(function)
        if known is None or not _is_same_file(line.path, known[0]):
            return False
        return re.search(rf"(?:[(,]|^)\s*{re.escape(parameter)}\s*(?:[:=,)]|$)", text) is not None
    lacking = vocabulary.lacks(name) if "." in name else None
    if "." in name:
        if lacking is None or not any(_is_same_file(line.path, uri) for uri in lacking.files):
            return False
        # A package re-exports what it imports.
        name = lacking.member
        if re.search(rf"\bimport\b.*\b{re.escape(name)}\b|^\s+{re.escape(name)},?\s*$", text):
            return True
    elif _DISTINCT.search(name) and re.search(_KEY.format(name=re.escape(name)), text):
        return True
    return _declares(name, text, member=lacking is not None or target.kind == "setting")


def _declares(name: str, text: str, *, member: bool) -> bool:
    """Whether a line defines a name; an indented assignment may only set a local variable."""
    escaped = re.escape(name)
    if re.match(_MODIFIERS + _DECLARES.format(name=escaped), text):
        return True
    if not member and re.search(_TAKES.format(name=escaped), text):
        return True
    match = re.match(_MODIFIERS + _ASSIGNS.format(name=escaped), text)
    return match is not None and (member or bool(match["owner"]) or not match["indent"])


def _is_same_file(path: str, uri: str) -> bool:
    """Whether a path in the history is this file, which may have been in another folder."""
    *folders, last = path.split("/")
    *own_folders, own_last = uri.split("/")
    return last == own_last and (not folders or folders[-1:] == own_folders[-1:])
