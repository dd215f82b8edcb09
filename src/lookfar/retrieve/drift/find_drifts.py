"""Find names in documents that the code no longer has, with the commit that removed them.

Precision matters more than recall. A name counts as gone only if it is nowhere in the current code,
if it was once defined in code of this repository that is not a test, and if the line in the
document is older than the commit that removed the name.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from lookfar.common.lines import Lines
from lookfar.model import Claim, Document, Drift
from lookfar.ports import Snapshot
from lookfar.retrieve.drift.vocabulary import Vocabulary, is_product
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
from lookfar.text.parse.languages import detect_language

_LONGEST_LINE: Final = 200
_MODIFIERS: Final = (
    r"^(?P<indent>\s*)(?:export\s+|default\s+|public\s+|private\s+|protected\s+|static\s+|async\s+"
    r"|pub\s+|abstract\s+|final\s+|inline\s+|#\s*)*"
)
_DECLARES: Final = (
    r"(?:(?:def|class|function|func|fn|type|struct|enum|interface|trait|module|define|fun|const|let"
    r"|var|val)\s+(?:\([^()]*\)\s*)?{name}\b|{name}\s*\([^()]*\)\s*\{{\s*$)"
)
_ASSIGNS: Final = r"(?P<owner>self\.|this\.|exports\.|cls\.)?{name}\s*(?::[^=]+)?=(?!=)"


class _Evidence(NamedTuple):
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


def find_drifts(
    snapshot: Snapshot, repository: Repository, prefix: str = "", inside: str = ""
) -> Checked:
    """Return the drifts of all documentation in a repository.

    ``prefix`` is the folder's path in the repository, and ``inside`` the repository's path in the
    folder; one of them is empty.
    """
    tree = _Tree(prefix, inside)
    claimed = list(_read_claims(snapshot, tree))
    tip = find_head(repository)
    number = sum(len(claims) for _, claims in claimed)
    if not tip:
        return Checked(len(claimed), number, [])
    vocabulary = Vocabulary(snapshot)
    paths = list_paths(repository, tip)
    lost = find_lost_paths(repository, tip)
    suspects = [
        (document, claim, word)
        for document, claims in claimed
        for claim in claims
        if (word := _suspect(claim, document, vocabulary, paths, lost, tree)) is not None
    ]
    removed = _find_removals(repository, tip, suspects, vocabulary)
    drifts: list[Drift] = []
    for document, claim, word in suspects:
        evidence = (
            _as_evidence(word, lost[word])
            if claim.kind == "file"
            else removed.get((claim.kind, word))
        )
        if evidence is not None:
            drifts.append(_make_drift(document, claim, evidence))
    return Checked(len(claimed), number, list(_only_older(repository, tip, tree, drifts)))


class _Tree(NamedTuple):
    """How the paths of a folder and of a repository correspond."""

    prefix: str
    inside: str

    def path_of(self, uri: str) -> str | None:
        """Return the path of a document in the repository; None if it is outside."""
        if not self.inside:
            return posixpath.join(self.prefix, uri)
        within = uri.startswith(f"{self.inside}/")
        return uri.removeprefix(f"{self.inside}/") if within else None


def _read_claims(snapshot: Snapshot, tree: _Tree) -> Iterator[tuple[Document, list[Claim]]]:
    listed = sorted(snapshot.cached("listed", snapshot.facts), key=lambda facts: facts.uri)
    for facts in listed:
        if facts.lane == "docs" and tree.path_of(facts.uri) is not None:
            text = snapshot.text(facts.uri) or ""
            document = text_parser_for(facts.uri)(facts.uri, text)
            yield document, find_claims(document)


def _suspect(
    claim: Claim,
    document: Document,
    vocabulary: Vocabulary,
    paths: frozenset[str],
    lost: Mapping[str, LostPath],
    tree: _Tree,
) -> str | None:
    """Return what to look for in the history if a claim may be wrong; None if it is right."""
    if claim.kind == "file":
        return _find_lost(claim.name, document.uri, paths, lost, tree)
    if claim.kind == "option":
        return None if vocabulary.has_option(claim.name) else claim.name
    if claim.kind == "setting":
        return None if vocabulary.has(claim.name) else claim.name
    if claim.kind == "parameter":
        known = vocabulary.parameters(claim.call)
        gone = known is not None and claim.name not in known[1]
        return f"{claim.call} {claim.name}" if gone else None
    last = claim.name.rpartition(".")[2]
    if "." in claim.name and vocabulary.lacks(claim.name) is not None:
        return claim.name
    if claim.kind == "import":
        return None  # The module is from another package, or the name still exists.
    if vocabulary.has(last) or vocabulary.is_foreign(claim.name) or len(last) < 4:
        return None
    return last


def _find_lost(
    name: str, uri: str, paths: frozenset[str], lost: Mapping[str, LostPath], tree: _Tree
) -> str | None:
    """Return the deleted path that a document names, relative to its folder or to the root."""
    plain = name.removeprefix("./")
    if any(path == plain or path.endswith(f"/{plain}") for path in paths):
        return None
    folder = posixpath.dirname(tree.path_of(uri) or "")
    beside = posixpath.normpath(posixpath.join(folder, name))
    for path in (beside, posixpath.join(tree.prefix, plain), plain):
        if path in lost and path not in paths:
            return path
    return None


def _as_evidence(path: str, lost: LostPath) -> _Evidence:
    return _Evidence(lost.commit, lost.time, path, lost.moved_to)


# --- history -------------------------------------------------------------------------------------


def _find_removals(
    repository: Repository,
    tip: str,
    suspects: Sequence[tuple[Document, Claim, str]],
    vocabulary: Vocabulary,
) -> dict[tuple[str, str], _Evidence]:
    """Return the newest commit that removed the definition of each suspect."""
    wanted: dict[str, set[str]] = {}
    for _, claim, word in suspects:
        if claim.kind != "file":
            last = word.rpartition(" ")[2].rpartition(".")[2]
            wanted.setdefault(last, set()).add(f"{claim.kind} {word}")
    if not wanted:
        return {}
    words = sorted(wanted)
    any_word = re.compile(rf"(?<![A-Za-z0-9_])({'|'.join(map(re.escape, words))})(?![A-Za-z0-9_])")
    evidence: dict[tuple[str, str], _Evidence] = {}
    decided: set[str] = set()
    for line in find_removed_lines(repository, tip, words):
        if not _is_code(line.path):
            continue
        for word in {match[1] for match in any_word.finditer(line.text)}:
            for entry in wanted[word] - decided:
                kind, _, name = entry.partition(" ")
                if not _defined(kind, name, line, vocabulary):
                    continue
                # Only the newest removal counts: older ones are moves.
                decided.add(entry)
                if not vocabulary.may_inherit(line.path, line.text):
                    evidence[kind, name] = _Evidence(line.commit, line.time, line.path)
    return evidence


def _is_code(path: str) -> bool:
    language = detect_language(path)
    if language is None or language.category != "program":
        return False
    return is_product(path)


def _defined(kind: str, name: str, line: RemovedLine, vocabulary: Vocabulary) -> bool:
    """Whether a removed line defined what a document names."""
    text, claimed = line.text, name
    if kind == "option":
        return re.search(rf"[\"'`]{re.escape(name)}[\"'`=\s,/]", text) is not None
    if kind == "parameter":
        function, _, parameter = name.partition(" ")
        known = vocabulary.parameters(function)
        if known is None or not _is_same_file(line.path, known[0]):
            return False
        return re.search(rf"(?:[(,]|^)\s*{re.escape(parameter)}\s*(?:[:=,)]|$)", text) is not None
    if "." in name:
        lacking = vocabulary.lacks(name)
        if lacking is None or not any(_is_same_file(line.path, uri) for uri in lacking.files):
            return False
        # A package re-exports what it imports.
        name = lacking.member
        if re.search(rf"\bimport\b.*\b{re.escape(name)}\b|^\s+{re.escape(name)},?\s*$", text):
            return True
    if kind == "setting" and re.search(rf"[\"']{re.escape(name)}[\"']", text):
        return True
    return _declares(name, text, member="." in claimed or kind == "setting")


def _declares(name: str, text: str, *, member: bool) -> bool:
    """Whether a line defines a name; an indented assignment may only set a local variable."""
    escaped = re.escape(name)
    if re.match(_MODIFIERS + _DECLARES.format(name=escaped), text):
        return True
    match = re.match(_MODIFIERS + _ASSIGNS.format(name=escaped), text)
    return match is not None and (member or bool(match["owner"]) or not match["indent"])


def _is_same_file(path: str, uri: str) -> bool:
    """Whether a path in the history is this file, which may have been in another folder."""
    *folders, last = path.split("/")
    *own_folders, own_last = uri.split("/")
    return last == own_last and (not folders or folders[-1:] == own_folders[-1:])


def _only_older(
    repository: Repository, tip: str, tree: _Tree, drifts: Iterable[Drift]
) -> Iterator[Drift]:
    """Yield the drifts whose line is older than the commit that removed what it names."""
    blamed: dict[str, list[tuple[int, str]]] = {}
    for drift in drifts:
        if drift.uri not in blamed:
            path = tree.path_of(drift.uri) or drift.uri
            blamed[drift.uri] = [(b.time, b.text) for b in blame_lines(repository, tip, path)]
        same = [
            (abs(number - drift.line), time)
            for number, (time, text) in enumerate(blamed[drift.uri], 1)
            if text.strip() == drift.text.strip()
        ]
        if same:
            touched = min(same)[1]
            if touched < drift.removed_at:
                text = drift.text.strip()[:_LONGEST_LINE]
                yield replace(drift, touched_at=touched, text=text)


def _make_drift(document: Document, claim: Claim, evidence: _Evidence) -> Drift:
    lines = Lines(document.text)
    state = "moved" if evidence.moved_to else "changed" if claim.kind == "parameter" else "gone"
    return Drift(
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
        touched_at=0,
        text=document.text[lines.start_of(claim.line) :].partition("\n")[0],
    )
