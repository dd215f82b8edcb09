"""Find names in documents that the code no longer has, with the commit that removed them.

Precision matters more than recall. A name counts as gone only if it is nowhere in the current code,
if it was once defined in code of this repository that is not a test, and if the line in the
document is older than the commit that removed the name.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from lookfar.common.lines import Lines
from lookfar.model import Claim, Document, Drift
from lookfar.ports import Snapshot
from lookfar.retrieve.drift.evidence import (
    Evidence,
    Target,
    find_endings,
    find_lost_module,
    find_removals,
)
from lookfar.retrieve.drift.foreign_names import ForeignNames
from lookfar.retrieve.drift.vocabulary import Vocabulary
from lookfar.retrieve.locate.sections import find_path
from lookfar.sources.git.history import list_paths
from lookfar.sources.git.removals import LostPath, blame_lines, find_head, find_lost_paths
from lookfar.sources.git.repositories import Repository
from lookfar.text.parse.claims import find_claims
from lookfar.text.parse.formats import text_parser_for

_LONGEST_LINE: Final = 200


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
    for document, claim, target in suspects:
        evidence = removed.get(target) if isinstance(target, Target) else target
        if evidence is not None and not foreign.has_taken_over(document.uri, evidence.path):
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


class _Judge:
    """Decides which claims may be wrong, by the current code and the lost paths."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        paths: frozenset[str],
        lost: Mapping[str, LostPath],
        tree: _Tree,
        foreign: ForeignNames,
    ) -> None:
        self._foreign = foreign
        self._vocabulary = vocabulary
        self._paths = paths
        self._lost = lost
        self._tree = tree

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


def _make_drift(document: Document, claim: Claim, evidence: Evidence) -> Drift:
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
