"""Plan edits on the documents as they are on disk now, and write them as one transaction.

Several edits of one document are applied one after the other. The result has a diff for each
document, the links that break, and new violations of the heading rules; a dry run stops there.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from lookfar.common.lines import Lines
from lookfar.edit import rules, sections
from lookfar.edit.document_files import MAX_BYTES
from lookfar.edit.headings import check_title
from lookfar.edit.place import NamedPart, find
from lookfar.edit.relink import Backlinks, find_broken_links
from lookfar.edit.rename_document import LinkIndex, NoLinks, find_new_uri, plan_rename
from lookfar.edit.templates import Templates
from lookfar.edit.transaction import Transactions, Write
from lookfar.edit.work import CONTROL_CHARACTERS, Work, Workspace, hash_text, make_diff
from lookfar.errors import Conflict, InvalidArgument, NotFound
from lookfar.model import (
    Document,
    Edit,
    EditAction,
    EditedDocument,
    EditResult,
    Span,
    Target,
    UndoStep,
    Validation,
    Violation,
)
from lookfar.sources.confine import Root, components
from lookfar.sources.folder.policy import Policy
from lookfar.text.normalise import normalise
from lookfar.text.parse.markdown import parse

_DIGEST: Final = re.compile(r"[0-9a-f]{16,64}")
_ON_LINE: Final = re.compile(r"first on line \d+\.$")
_MAX_EDITS: Final = 100


class Editor:
    """Edits the documents of one root. Holds nothing open between calls."""

    def __init__(
        self,
        root: Root,
        policy: Policy,
        folder: Path,
        *,
        resolve: Callable[[Edit], Target] = lambda edit: Target(edit.target),
        collection: str = "",
        single_h1: bool = False,
        templates: str = "",
        backlinks: Backlinks = lambda _: (),
        links: LinkIndex | None = None,
        unsure: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        """``folder`` stores the transactions, and ``resolve`` parses the target of an edit.

        ``unsure`` says why ``backlinks`` may not know all links; it is empty if it does.
        """
        self._policy = policy
        self._resolve = resolve
        self._collection = collection
        self._single_h1 = single_h1
        self._templates = Templates(root, templates)
        self._backlinks = backlinks
        self._links = links or NoLinks()
        self._unsure = unsure
        self._clock = clock
        self.transactions = Transactions(root, folder, clock=clock)

    def edit(
        self, edits: Sequence[Edit], *, dry_run: bool = False, rewrite_links: bool = False
    ) -> EditResult:
        """Make all edits or none; a dry run only returns what they would change."""
        if not 0 < len(edits) <= _MAX_EDITS:
            raise InvalidArgument(
                f"There are {len(edits)} edits.", hint=f"Send 1 to {_MAX_EDITS} at a time."
            )
        resolved = [(edit, self._resolve(edit)) for edit in edits]
        renames = any(_renames_document(edit, target) for edit, target in resolved)
        if renames and len(edits) > 1:
            raise InvalidArgument(
                "Renaming or moving a document cannot be combined with other edits.",
                hint="Send it alone.",
            )
        plan = self._plan_rename if renames else self._plan
        if dry_run:
            return plan(resolved, rewrite_links)[0]
        with self.transactions.alone():
            result, writes = plan(resolved, rewrite_links)
            number = self.transactions.commit(writes) if writes else 0
        return replace(result, transaction=number, dry_run=False)

    def undo(self, uri: str, *, dry_run: bool = False) -> EditResult:
        """Undo the last transaction that changed a document, in all its documents."""
        if dry_run:
            return self._plan_undo(uri)[0]
        with self.transactions.alone():
            result, writes = self._plan_undo(uri)
            number = self.transactions.commit(writes)
        return replace(result, transaction=number, dry_run=False)

    def validate(self, target: str, *, single_h1: bool | None = None) -> Validation:
        space = self._workspace()
        uri = self._resolve(Edit("fix", target)).uri
        space.check_editable(uri, exists=True)
        document = parse(uri, space.shape(uri, space.documents.read(uri)).text)
        single = self._single_h1 if single_h1 is None else single_h1
        violations = rules.find_violations(document, single_h1=single)
        return Validation(self._collection, uri, violations, hash_text(document.text))

    def undoable(self) -> list[UndoStep]:
        return [
            UndoStep(step.number, self._collection, tuple(d.uri for d in step.documents), step.at)
            for step in self.transactions.steps.list_steps()
        ]

    def _workspace(self) -> Workspace:
        return Workspace(self._policy, self.transactions.documents)

    # -- planning --------------------------------------------------------------------

    def _plan(
        self, edits: Sequence[tuple[Edit, Target]], rewrite_links: bool
    ) -> tuple[EditResult, list[Write]]:
        space = self._workspace()
        for edit, target in edits:
            if edit.op == "create":
                self._create(space, edit, target.uri)
            else:
                self._apply(space, space.open(target.uri), edit, target)
        works = space.works
        warnings = [warning for work in works.values() for warning in self._warnings(work)]
        links = find_broken_links(space, self._backlinks, rewrite_links)
        if self._unsure and any(work.moves_headings for work in works.values()):
            warnings.append(f"Links from other documents may be missing here: {self._unsure}.")
        violations = [
            violation
            for work in works.values()
            if work.edited
            for violation in self._new_violations(work)
        ]
        result = EditResult(
            transaction=0,
            dry_run=True,
            documents=tuple(self._describe(work) for work in works.values()),
            links=tuple(links),
            violations=tuple(violations),
            warnings=tuple(warnings),
        )
        changed = [work for work in works.values() if work.old != work.raw]
        return result, [Write(work.uri, work.old, work.raw) for work in changed]

    def _plan_rename(
        self, edits: Sequence[tuple[Edit, Target]], _: bool
    ) -> tuple[EditResult, list[Write]]:
        """Plan to give a document another path; links to it always follow."""
        ((edit, target),) = edits
        space = self._workspace()
        work = space.open(target.uri)
        _check_expected(work, find(work.now, Target(target.uri)), edit.expected)
        new = _find_new_uri(edit, target.uri)
        if new == target.uri:
            result = EditResult(0, True, (self._describe(work),))
            return result, []
        space.check_editable(new)
        _check_new_name(new)
        if self._read_existing(space, new) is not None:
            raise Conflict(
                f"{new!r} already exists.",
                hint="Nothing was changed. Choose another name.",
                details={"uri": new},
            )
        space.documents.check_creatable(new)
        mode = space.documents.mode_of(target.uri)
        rename = plan_rename(space, work, new, self._links, keep_alias=edit.keep_alias)
        others = [other for other in space.works.values() if other is not work]
        warnings = list(rename.warnings)
        if self._unsure:
            warnings.append(f"Links from other documents may be missing here: {self._unsure}.")
        result = EditResult(
            transaction=0,
            dry_run=True,
            documents=(
                self._describe(work, moved_from=target.uri),
                *(self._describe(other) for other in others),
            ),
            links=tuple(rename.links),
            warnings=tuple(warnings),
        )
        changed = [other for other in others if other.old != other.raw]
        return result, [
            Write(new, None, work.raw, mode),
            *(Write(other.uri, other.old, other.raw) for other in changed),
            Write(target.uri, work.old, None),
        ]

    def _apply(self, space: Workspace, work: Work, edit: Edit, target: Target) -> None:
        document = work.now
        place = find(document, target, edit.path)
        _check_expected(work, place, edit.expected)
        draft = self._draft(document, place, edit)
        shape = space.shape(work.uri, work.raw)
        raw = shape.apply(draft.changes) if draft.changes else work.raw
        if shape.secrets:
            shape.check_no_mask(work.uri, raw)
        text = space.shape(work.uri, raw).text
        if len(raw) > MAX_BYTES:
            raise InvalidArgument(
                f"{work.uri!r} would grow beyond {MAX_BYTES >> 20} MiB.", hint="Write less text."
            )
        result = sections.verify(document, draft, text)
        work.lost += [document.text[link.start : link.end] for link in result.lost]
        work.raw, work.now = raw, result.document
        work.became = {
            first: result.became[then]
            for first, then in work.became.items()
            if then in result.became
        }
        work.place = None
        if result.section is not None:
            span = result.section.span
            work.place = result.section.path, (span.start, span.end)
        elif draft.span is not None:
            start, end = draft.span
            work.place = (), (min(start, len(text)), min(end, len(text)))

    def _draft(self, document: Document, place: NamedPart, edit: Edit) -> sections.Draft:
        if edit.op == "replace":
            return sections.replace(document, place, edit.text, whole=edit.whole)
        if edit.op == "append":
            return sections.append(document, place, edit.text)
        if edit.op == "insert":
            return sections.insert(
                document, place, edit.heading, edit.text, edit.level, edit.position
            )
        if edit.op == "move":
            neighbour = find(document, Target(document.uri), edit.to).section if edit.to else None
            return sections.move(document, place, neighbour, edit.position)
        if edit.op == "rename":
            return sections.rename(document, place, edit.heading)
        if edit.op == "delete":
            return sections.delete(document, place)
        if edit.op == "fix":
            return rules.draft_fix(document, single_h1=self._single_h1)
        raise InvalidArgument(
            f"There is no operation {edit.op!r}.",
            hint="Use create, replace, append, insert, move, rename, delete or fix.",
        )

    def _create(self, space: Workspace, edit: Edit, uri: str) -> None:
        title = check_title(edit.heading)
        space.check_editable(uri)
        if uri in space.works:
            raise InvalidArgument(
                f"{uri!r} is already edited in this transaction.",
                hint="Create it once, before other edits of it.",
            )
        day = datetime.fromtimestamp(self._clock(), UTC).date().isoformat()
        text = self._templates.render(edit.template, title.written, day)
        body = sections.tidy(edit.text)
        text = f"{normalise(text.encode())[0].rstrip()}\n" + (f"\n{body}\n" if body else "")
        old = self._read_existing(space, uri)
        if old is None:
            _check_new_name(uri)
            space.documents.check_creatable(uri)
            first = parse(uri, "")
        else:
            first = self._check_overwrite(space, edit, uri, old, text)
        raw = text.encode()
        now = parse(uri, space.shape(uri, raw).text)
        headings = [section for section in now.sections if section.level]
        titles = {section.title: section.ordinal for section in reversed(headings)}
        became = {s.ordinal: titles[s.title] for s in first.sections if s.title in titles}
        space.works[uri] = Work(uri, old, raw, first, now, became, ((), (0, len(text))))

    def _read_existing(self, space: Workspace, uri: str) -> bytes | None:
        try:
            return space.documents.read_writable(uri)
        except NotFound:
            return None

    def _check_overwrite(
        self, space: Workspace, edit: Edit, uri: str, old: bytes, text: str
    ) -> Document:
        """Return the document that ``create`` would replace, if that is allowed."""
        shape = space.shape(uri, old)
        if shape.secrets:
            shape.check_no_mask(uri, text.encode())
        document = parse(uri, shape.text)
        if not edit.overwrite:
            raise Conflict(
                f"{uri!r} already exists.",
                hint="Choose another name, replace its text, or allow overwriting.",
                details={"uri": uri, "actual": hash_text(document.text)},
            )
        work = Work(uri, old, old, document, document, {})
        _check_expected(work, find(document, Target(uri)), edit.expected)
        return document

    # -- undo ------------------------------------------------------------------------

    def _plan_undo(self, uri: str) -> tuple[EditResult, list[Write]]:
        step = self.transactions.last_step(uri)
        if step is None:  # It may be the name of a note.
            step = self.transactions.last_step(self._resolve(Edit("fix", uri)).uri)
        if step is None:
            steps = self.transactions.steps.list_steps()
            uris = sorted({document.uri for step in steps for document in step.documents})
            raise NotFound(
                f"There is no edit of {uri!r} to undo.",
                hint=f"Edits of these can be undone: {', '.join(uris[:5])}."
                if uris
                else "No edit in this folder can be undone. Name the document that was edited.",
                details={"uri": uri, "candidates": uris[:10]},
            )
        space = self._workspace()
        for document in step.documents:
            # A rename also changes canvases, which are not edited otherwise.
            space.check_admitted(document.uri)
        writes = self.transactions.plan_undo(step)
        documents = tuple(self._describe_undo(space, write) for write in writes)
        return EditResult(transaction=0, dry_run=True, documents=documents), writes

    def _describe_undo(self, space: Workspace, write: Write) -> EditedDocument:
        before = None if write.old is None else space.masked(write.uri, write.old)
        after = None if write.new is None else space.masked(write.uri, write.new)
        actions: Mapping[tuple[bool, bool], EditAction] = {
            (True, False): "created",
            (False, True): "removed",
        }
        return EditedDocument(
            collection=self._collection,
            uri=write.uri,
            action=actions.get((before is None, after is None), "changed"),
            before="" if before is None else hash_text(before),
            after="" if after is None else hash_text(after),
            diff=make_diff(write.uri, before, after),
        )

    # -- results ---------------------------------------------------------------------

    def _describe(self, work: Work, moved_from: str = "") -> EditedDocument:
        before, after = work.first.text, work.now.text
        action: EditAction = "changed" if work.old != work.raw else "unchanged"
        action = "moved" if moved_from else action
        path: tuple[str, ...] = ()
        span: Span | None = None
        if work.place is not None:
            path, (start, end) = work.place
            span = Lines(after).span(start, end)
        return EditedDocument(
            collection=self._collection,
            uri=work.uri,
            action="created" if work.old is None else action,
            before="" if work.old is None else hash_text(before),
            after=hash_text(after),
            diff=make_diff(work.uri, None if work.old is None else before, after, moved_from),
            heading_path=path,
            span=span,
            section_sha256=hash_text(after[span.start : span.end]) if span else "",
            moved_from=moved_from,
        )

    def _new_violations(self, work: Work) -> list[Violation]:
        before = rules.find_violations(work.first, single_h1=self._single_h1)
        known = Counter(map(_violation_key, before))
        new: list[Violation] = []
        for violation in rules.find_violations(work.now, single_h1=self._single_h1):
            if known[_violation_key(violation)] > 0:
                known[_violation_key(violation)] -= 1
            else:
                new.append(violation)
        return new

    def _warnings(self, work: Work) -> list[str]:
        limit = self._policy.max_file_bytes
        warnings = []
        if len(work.raw) > limit:
            size = f"{len(work.raw):,} bytes, more than sources.max_file_bytes ({limit:,})"
            warnings.append(f"{work.uri} has {size}, so it is not searched.")
        if work.lost:
            links = ", ".join(dict.fromkeys(work.lost))
            warnings.append(
                f"The definition of {links} in {work.uri} was removed, so it is not a link now."
            )
        return warnings


def _check_expected(work: Work, place: NamedPart, expected: str) -> None:
    """Raise ``Conflict`` unless the document or the part has the hash that the caller read."""
    if not expected:
        return
    wanted = expected.lower()
    if not _DIGEST.fullmatch(wanted):
        raise InvalidArgument(
            f"{expected[:80]!r} is not a hash.",
            hint="Pass the sha256 that read returned, or at least its first 16 digits.",
        )
    text = work.now.text
    part = text[place.span.start : place.span.end]
    hashes = [hash_text(part), hash_text(text), hash_text(work.first.text)]
    if not any(value.startswith(wanted) for value in hashes):
        raise Conflict(
            f"{work.uri!r} was changed since it was read.",
            hint="Nothing was changed. Read it again and repeat the edit on the current text.",
            details={
                "uri": work.uri,
                "expected": expected,
                "part": hashes[0],
                "actual": hashes[1],
            },
        )


def _renames_document(edit: Edit, target: Target) -> bool:
    """Whether an edit renames or moves a whole document, and not a section of it."""
    part = target.heading or target.lines or target.chars or edit.path
    return edit.op in ("rename", "move") and not part


def _find_new_uri(edit: Edit, uri: str) -> str:
    if edit.op == "rename":
        return find_new_uri(uri, edit.heading, folder=False)
    return find_new_uri(
        uri, edit.to if isinstance(edit.to, str) else "/".join(edit.to), folder=True
    )


def _violation_key(violation: Violation) -> tuple[str, str]:
    """Identify a violation without its line numbers, which an edit may shift."""
    return violation.rule, _ON_LINE.sub("", violation.message)


def _check_new_name(uri: str) -> None:
    """Raise for names that are hard to type; existing documents may have any name."""
    for part in components(uri):
        if CONTROL_CHARACTERS.search(part) or part != part.strip() or len(part.encode()) > 200:
            raise InvalidArgument(
                f"{uri[:200]!r} is not a valid name for a new document.",
                hint="Remove control characters and leading or trailing spaces, and use at most "
                "200 bytes for each part.",
                details={"uri": uri},
            )
