"""Find names in documents that the code no longer has, with the commit that removed them.

Precision matters more than recall. A name counts as gone only if it is nowhere in the current code,
if it was once defined in code of this repository that is not a test, and if the line in the
document is older than the commit that removed the name.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from lookfar.common.lines import Lines
from lookfar.model import Claim, Document, Drift
from lookfar.ports import Snapshot
from lookfar.retrieve.drift.vocabulary import ForeignNames, Vocabulary, is_product
from lookfar.retrieve.locate.sections import find_path
from lookfar.sources.git.history import list_paths
from lookfar.sources.git.removals import (
    LostPath,
    RemovedLine,
    blame_lines,
    find_head,
    find_lost_paths,
    find_removed_lines,
)
from lookfar.sources.git.repositories import Repository
from lookfar.text.parse.claims import find_claims
from lookfar.text.parse.formats import text_parser_for
from lookfar.text.parse.languages import Language, detect_language

_LONGEST_LINE: Final = 200
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


class Checked(NamedTuple):
    """The result of a check."""

    documents: int
    claims: int
    drifts: list[Drift]


@dataclass(frozen=True, slots=True)
class _Tree:
    """How the paths of a folder and of a repository correspond."""

    prefix: str
    inside: str

    def path_of(self, uri: str) -> str | None:
        """Return the path of a document in the repository; None if it is outside."""
        if not self.inside:
            return posixpath.join(self.prefix, uri)
        within = uri.startswith(f"{self.inside}/")
        return uri.removeprefix(f"{self.inside}/") if within else None


def find_drifts(
    snapshot: Snapshot, repository: Repository, prefix: str = "", inside: str = ""
) -> Checked:
    """Return the drifts of all documentation in a repository.

    ``prefix`` is the folder's path in the repository, and ``inside`` the repository's path in the
    folder; one of them is empty.
    """
    tree = _Tree(prefix, inside)
    claimed: list[tuple[Document, list[Claim]]] = []
    for facts in sorted(snapshot.cached("listed", snapshot.facts), key=lambda facts: facts.uri):
        if facts.lane == "docs" and tree.path_of(facts.uri) is not None:
            parse = text_parser_for(facts.uri)
            document = parse(facts.uri, snapshot.text(facts.uri) or "")
            claimed.append((document, find_claims(document)))
    tip = find_head(repository)
    number = sum(len(claims) for _, claims in claimed)
    if not tip:
        return Checked(len(claimed), number, [])
    vocabulary = Vocabulary(snapshot)
    paths = list_paths(repository, tip)
    lost = find_lost_paths(repository, tip)
    foreign = ForeignNames(vocabulary, lost, claimed)
    judge = _Judge(vocabulary, paths, lost, tree, foreign)
    suspects = [
        (document, claim, target)
        for document, claims in claimed
        for claim in claims
        if (target := judge.suspect(claim, document.uri)) is not None
    ]
    targets = {target for _, _, target in suspects if isinstance(target, Target)}
    endings = find_endings((*paths, *lost))
    removed = find_removals(repository, tip, targets, vocabulary, endings)
    drifts: list[Drift] = []
    blamed: dict[str, list[tuple[int, str]]] = {}
    for document, claim, target in suspects:
        evidence = removed.get(target) if isinstance(target, Target) else target
        if evidence is None or foreign.has_taken_over(document.uri, evidence.path):
            continue
        if document.uri not in blamed:
            path = tree.path_of(document.uri) or document.uri
            blamed[document.uri] = [(b.time, b.text) for b in blame_lines(repository, tip, path)]
        lines = Lines(document.text)
        text = document.text[lines.start_of(claim.line) :].partition("\n")[0].strip()
        same = [
            (abs(at - claim.line), time)
            for at, (time, written) in enumerate(blamed[document.uri], 1)
            if written.strip() == text
        ]
        # Only a line that is older than the commit can be about what it removed.
        if not same or min(same)[1] >= evidence.time:
            continue
        state = "moved" if evidence.moved_to else "changed" if claim.kind == "parameter" else "gone"
        drifts.append(
            Drift(
                uri=document.uri,
                line=claim.line,
                heading_path=find_path(document.sections, claim.start),
                kind=claim.kind,
                name=claim.name,
                state=state,  # type: ignore[arg-type]  # One of the three.
                was=evidence.path,
                now=evidence.moved_to,
                commit=evidence.commit,
                removed_at=evidence.time,
                touched_at=min(same)[1],
                text=text[:_LONGEST_LINE],
            )
        )
    return Checked(len(claimed), number, drifts)


@dataclass(frozen=True, slots=True)
class _Judge:
    """Decides which claims may be wrong, by the current code and the lost paths."""

    _vocabulary: Vocabulary
    _paths: frozenset[str]
    _lost: Mapping[str, LostPath]
    _tree: _Tree
    _foreign: ForeignNames

    def suspect(self, claim: Claim, uri: str) -> Target | Evidence | None:
        """Return the proof that a claim is wrong or what to look for, or None if it is right."""
        name, vocabulary = claim.name, self._vocabulary
        if claim.kind == "file":
            return self._find_lost(name, uri)
        if claim.kind == "option":
            if claim.call and not vocabulary.is_own_program(claim.call):
                return None
            return None if vocabulary.has_option(name) else Target("option", name)
        if claim.kind == "setting":
            return None if vocabulary.has(name) else Target("setting", name)
        if claim.kind == "parameter":
            known = vocabulary.parameters(claim.call)
            gone = known is not None and name not in known[1]
            return Target("parameter", f"{claim.call} {name}") if gone else None
        if self._foreign.has(claim):
            return None
        lacking = vocabulary.lacks(name) if "." in name else None
        if lacking is not None:
            module = find_lost_module(lacking.files, lacking.member, self._lost)
            if module is not None and module[0] not in self._paths:
                return Evidence(module[1].commit, module[1].time, module[0])
            if lacking.is_last:
                return Target("symbol", name)
        last = name.rpartition(".")[2]
        if claim.kind == "import":
            return None  # The module is from another package, or the name still exists.
        if vocabulary.has(last) or vocabulary.is_foreign(name) or len(last) < 4:
            return None
        return Target("symbol", last)

    def _find_lost(self, name: str, uri: str) -> Evidence | None:
        """Return the deleted path that a document names, relative to its folder or to the root."""
        plain = name.removeprefix("./")
        if any(path == plain or path.endswith(f"/{plain}") for path in self._paths):
            return None
        folder = posixpath.dirname(self._tree.path_of(uri) or "")
        beside = posixpath.normpath(posixpath.join(folder, name))
        for path in (beside, posixpath.join(self._tree.prefix, plain), plain):
            if path in self._lost and path not in self._paths:
                lost = self._lost[path]
                return Evidence(lost.commit, lost.time, path, lost.moved_to)
        return None


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
