"""Edits of documents: asked for, planned on what the disk has now, and written together.

Takes: edits with the part of a document that each means. Gives: what they change, as diffs,
with the links they mislead; written as one transaction unless it is a dry run. Refuses: what
is not Markdown, what the rules of the folder keep out, a document or part that is not what
was expected, and any text that would change how the rest of a document reads.

Several edits of one document are made one after the other, each on what the one before left.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from difflib import unified_diff
from hashlib import sha256
from pathlib import Path
from posixpath import dirname, join, normpath
from typing import Final, NamedTuple

from lookfar.common.lines import Lines
from lookfar.edit import rules, sections
from lookfar.edit.anchors import Pointing, called, pointing, retitled, rewritten
from lookfar.edit.headings import checked_title
from lookfar.edit.place import Place, Where, find
from lookfar.edit.shape import Change, Shape
from lookfar.edit.templates import rendered
from lookfar.edit.transaction import MOST_BYTES, Transactions, Write
from lookfar.errors import Conflict, InvalidArgument, LookfarError, NotFound, PermissionDenied
from lookfar.model import (
    Document,
    Edit,
    EditAction,
    EditedDocument,
    EditResult,
    Link,
    LinkChange,
    Span,
    UndoStep,
    Validation,
    Violation,
)
from lookfar.sources.confine import Refused, Root, close_folder, components
from lookfar.sources.folder.policy import Policy
from lookfar.sources.folder.walk import verdict_on
from lookfar.store.catalogue.link_names import fold
from lookfar.text.normalise import normalise
from lookfar.text.parse.formats import format_of
from lookfar.text.parse.markdown import parse

_DIGEST: Final = re.compile(r"[0-9a-f]{16,64}")
_UNSPEAKABLE: Final = re.compile(r"[\x00-\x1f\x7f\u2028\u2029]")
_ON_LINE: Final = re.compile(r"first on line \d+\.$")
_MOST_EDITS: Final = 100
_MOST_COMPARED: Final = 4_000
_CONTEXT: Final = 3
_MOST_TEMPLATE_BYTES: Final = 1 << 20


class Asked(NamedTuple):
    """An edit, and what its target was found to mean."""

    edit: Edit
    uri: str
    where: Where


@dataclass(slots=True)
class _Work:
    """A document while it is edited."""

    uri: str
    old: bytes | None
    raw: bytes
    first: Document
    """As it was before the transaction."""
    now: Document
    became: dict[int, int]
    """The number that each of its first headings has now."""
    place: tuple[tuple[str, ...], tuple[int, int]] | None = None
    """Headings and offsets of what was edited last."""
    edited: bool = field(default=True)
    """False for a document of which only links are rewritten."""
    lost: list[str] = field(default_factory=list)
    """Links, as they stand, whose definition went with what was edited."""


class Editor:
    """Edits the documents of one root. Holds nothing open between calls."""

    def __init__(
        self,
        root: Root,
        policy: Policy,
        folder: Path,
        *,
        collection: str = "",
        single_h1: bool = False,
        templates: str = "",
        linking: Callable[[str], Iterable[tuple[str, str, str]]] = lambda _: (),
        unsure: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        """``folder`` is where transactions are kept. ``linking`` says of a document which others
        link to it: the source's URI, the kind of link and its target as it is written; ``unsure``
        says why it may not know of all.
        """
        self._root = root
        self._policy = policy
        self._collection = collection
        self._single_h1 = single_h1
        self._templates = templates
        self._linking = linking
        self._unsure = unsure
        self._clock = clock
        self.transactions = Transactions(root, folder, clock=clock)

    # -- asked from outside --------------------------------------------------------

    def edit(
        self, asked: Sequence[Asked], *, dry_run: bool = False, rewrite_links: bool = False
    ) -> EditResult:
        """Make some edits, all or none; or say what they would change."""
        if not 0 < len(asked) <= _MOST_EDITS:
            raise InvalidArgument(
                f"There are {len(asked)} edits.", hint=f"Give 1 to {_MOST_EDITS} at a time."
            )
        if dry_run:
            return self._planned(asked, rewrite_links)[0]
        with self.transactions.alone():
            result, writes = self._planned(asked, rewrite_links)
            number = self.transactions.commit(writes) if writes else 0
        return _as_done(result, number)

    def undo(self, uri: str, *, dry_run: bool = False) -> EditResult:
        """Take the last transaction back that changed a document, with all it changed."""
        if dry_run:
            return self._taken_back(uri)[0]
        with self.transactions.alone():
            result, writes = self._taken_back(uri)
            number = self.transactions.commit(writes)
        return _as_done(result, number)

    def validate(self, uri: str, *, single_h1: bool | None = None) -> Validation:
        """What the rules say about a document."""
        self._refuse_kept_out(uri)
        document = parse(uri, self._shape(uri, self.transactions.look(uri)).text)
        found = rules.violations(document, single_h1=self._on(single_h1))
        return Validation(self._collection, uri, found, _sha(document.text))

    def undoable(self) -> list[UndoStep]:
        """The transactions that are kept, the newest first."""
        return [
            UndoStep(s.number, self._collection, tuple(each.uri for each in s.documents), s.at)
            for s in self.transactions.steps()
        ]

    def _on(self, single_h1: bool | None) -> bool:
        return self._single_h1 if single_h1 is None else single_h1

    # -- planning --------------------------------------------------------------------

    def _planned(
        self, asked: Sequence[Asked], rewrite_links: bool
    ) -> tuple[EditResult, list[Write]]:
        works: dict[str, _Work] = {}
        for each in asked:
            if each.edit.op == "create":
                self._create(each, works)
            else:
                work = works.get(each.uri) or self._work(each.uri)
                works[each.uri] = work
                self._apply(work, each)
        warnings = [warning for work in works.values() for warning in self._warnings(work)]
        links = self._mislead(works, rewrite_links)
        if self._unsure and any(map(_leads_elsewhere, works.values())):
            warnings.append(f"Links to it from other documents may be missed: {self._unsure}.")
        broken = [
            violation
            for work in works.values()
            if work.edited
            for violation in self._new_violations(work)
        ]
        changed = [work for work in works.values() if work.old != work.raw]
        result = EditResult(
            transaction=0,
            dry_run=True,
            documents=tuple(self._shown(work) for work in works.values()),
            links=tuple(links),
            violations=tuple(broken),
            warnings=tuple(warnings),
        )
        return result, [Write(work.uri, work.old, work.raw) for work in changed]

    def _apply(self, work: _Work, asked: Asked) -> None:
        document, edit = work.now, asked.edit
        place = find(document, asked.where)
        self._refuse_unexpected(work, place, edit.expected)
        draft = self._draft(document, place, edit)
        shape = self._shape(work.uri, work.raw)
        raw = shape.changed(draft.changes) if draft.changes else work.raw
        if shape.secrets:
            shape.refuse_mask(work.uri, raw)
        text = self._shape(work.uri, raw).text
        if len(raw) > MOST_BYTES:
            raise InvalidArgument(
                f"{work.uri!r} would grow beyond {MOST_BYTES >> 20} MiB.", hint="Write less."
            )
        result = sections.verified(document, draft, text)
        work.lost += [document.text[each.start : each.end] for each in result.lost]
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

    def _draft(self, document: Document, place: Place, edit: Edit) -> sections.Draft:
        if edit.op == "replace":
            return sections.replace(document, place, edit.text, whole=edit.whole)
        if edit.op == "append":
            return sections.append(document, place, edit.text)
        if edit.op == "insert":
            return sections.insert(
                document, place, edit.heading, edit.text, edit.level, edit.position
            )
        if edit.op == "move":
            there = find(document, Where(path=edit.to)).section if edit.to else None
            return sections.move(document, place, there, edit.position)
        if edit.op == "rename":
            return sections.rename(document, place, edit.heading)
        if edit.op == "delete":
            return sections.delete(document, place)
        if edit.op == "fix":
            return rules.mended(document, single_h1=self._single_h1)
        raise InvalidArgument(
            f"There is no operation {edit.op!r}.",
            hint="Use create, replace, append, insert, move, rename, delete or fix.",
        )

    def _create(self, asked: Asked, works: dict[str, _Work]) -> None:
        uri, edit = asked.uri, asked.edit
        title = checked_title(edit.heading)
        self._refuse_kept_out(uri)
        if uri in works:
            raise InvalidArgument(
                f"{uri!r} is edited in this transaction already.", hint="Create it first, once."
            )
        day = datetime.fromtimestamp(self._clock(), UTC).date().isoformat()
        text = rendered(edit.template, title.written, day, self._template, self._template_names())
        body = sections.tidied(edit.text)
        text = f"{normalise(text.encode())[0].rstrip()}\n" + (f"\n{body}\n" if body else "")
        old = self._existing(uri)
        if old is None:
            _refuse_bad_name(uri)
            self.transactions.refuse_no_room(uri)
            first = parse(uri, "")
        else:
            shape = self._shape(uri, old)
            if shape.secrets:
                shape.refuse_mask(uri, text.encode())
            first = parse(uri, shape.text)
            whole = find(first, Where())
            if not edit.overwrite:
                raise Conflict(
                    f"There is a document {uri!r} already.",
                    hint="Choose another name, replace what it says, or say that it may be "
                    "overwritten.",
                    details={"uri": uri, "actual": _sha(first.text)},
                )
            self._refuse_unexpected(_Work(uri, old, old, first, first, {}), whole, edit.expected)
        raw = text.encode()
        now = parse(uri, self._shape(uri, raw).text)
        made = [each for each in now.sections if each.level]
        titles = {each.title: each.ordinal for each in reversed(made)}
        became = {s.ordinal: titles[s.title] for s in first.sections if s.title in titles}
        works[uri] = _Work(uri, old, raw, first, now, became, ((), (0, len(text))))

    def _mislead(self, works: dict[str, _Work], rewrite: bool) -> list[LinkChange]:
        """The links that the edits leave pointing elsewhere; rewritten if that is asked for."""
        found: list[LinkChange] = []
        for work in list(works.values()):
            if not _leads_elsewhere(work):
                continue
            sources: dict[str, set[tuple[str, str]]] = {work.uri: set()}
            for source, kind, target in self._linking(work.uri):
                sources.setdefault(source, set()).add((kind, target))
            for source, meaning in sources.items():
                found += self._in_source(works, work, source, meaning, rewrite)
        return found

    def _in_source(
        self,
        works: dict[str, _Work],
        work: _Work,
        source: str,
        meaning: set[tuple[str, str]],
        rewrite: bool,
    ) -> list[LinkChange]:
        holder = works.get(source)
        try:
            if holder is None:
                holder = self._work(source)
                holder.edited = False
        except LookfarError:
            # A linking document that cannot be written is still reported, if it can be read.
            rewrite, text = False, self._readable(source)
            if text is None:
                return []
            document = parse(source, text)
            holder = _Work(source, None, b"", document, document, {}, edited=False)
        document = holder.now
        own = source == work.uri
        links = [
            link
            for link in document.links
            if (link.kind, link.target) in meaning or (own and _means_itself(work.uri, link))
        ]
        misled = list(pointing(links, work.first, work.now, work.became))
        mended: set[int] = set()
        if misled and rewrite:
            mended = self._rewrite(works, holder, misled)
        lines = Lines(document.text)
        title = [] if own else self._by_title(works, work, holder, meaning, rewrite)
        return title + [
            LinkChange(
                uri=source,
                line=lines.line_of(each.link.start),
                written=document.text[each.link.start : each.link.end],
                anchor=each.link.anchor,
                heading_path=each.section.path,
                becomes=each.becomes,
                rewritten=each.link.start in mended,
            )
            for each in misled
        ]

    def _by_title(
        self,
        works: dict[str, _Work],
        work: _Work,
        holder: _Work,
        meaning: set[tuple[str, str]],
        rewrite: bool,
    ) -> list[LinkChange]:
        """Links that call a document by a title that it has no longer."""
        before, after = work.first.title, work.now.title
        stem = work.uri.rpartition("/")[2].rpartition(".")[0]
        names = {fold(each) for each in (stem, after, *work.now.aliases)}
        document = holder.now
        meant = [each for each in document.links if (each.kind, each.target) in meaning]
        links = called(meant, before) if fold(before) not in names else []
        speakable = after if after and not set(after) & set("[]|#^") else ""
        changes = retitled(document, links, speakable) if links and rewrite and speakable else ()
        if changes:
            self._change_links(works, holder, changes)
        lines = Lines(document.text)
        return [
            LinkChange(
                uri=holder.uri,
                line=lines.line_of(each.start),
                written=document.text[each.start : each.end],
                anchor="",
                heading_path=(before,),
                becomes=speakable,
                rewritten=bool(changes),
            )
            for each in links
        ]

    def _rewrite(
        self, works: dict[str, _Work], holder: _Work, misled: Sequence[Pointing]
    ) -> set[int]:
        changes, mended = rewritten(holder.now, misled)
        if changes:
            self._change_links(works, holder, changes)
        return mended

    def _change_links(
        self, works: dict[str, _Work], holder: _Work, changes: Sequence[Change]
    ) -> None:
        shape = self._shape(holder.uri, holder.raw)
        raw = shape.changed(changes)
        shape.refuse_mask(holder.uri, raw)
        before, holder.raw = holder.now, raw
        holder.now = parse(holder.uri, self._shape(holder.uri, raw).text)
        works[holder.uri] = holder
        if holder.place is not None:
            path, (start, end) = holder.place
            moved = _moved(changes, start), _moved(changes, end)
            at = next((s for s in before.sections if s.path == path and path), None)
            path = holder.now.sections[at.ordinal].path if at is not None else path
            holder.place = path, moved

    # -- reading -----------------------------------------------------------------------

    def _shape(self, uri: str, raw: bytes) -> Shape:
        return Shape(uri, raw, self._policy.secrets)

    def _masked(self, uri: str, raw: bytes) -> str:
        return self._policy.secrets.masked(uri, normalise(raw)[0]).text

    def _work(self, uri: str) -> _Work:
        self._refuse_kept_out(uri)
        raw = self.transactions.read(uri)
        document = parse(uri, self._shape(uri, raw).text)
        same = {section.ordinal: section.ordinal for section in document.sections}
        return _Work(uri, raw, raw, document, document, same)

    def _readable(self, uri: str) -> str | None:
        try:
            return self._masked(uri, self._root.read(uri, MOST_BYTES)[0])
        except (Refused, LookfarError):
            return None  # What cannot be read has no links that anybody could follow.

    def _existing(self, uri: str) -> bytes | None:
        try:
            return self.transactions.read(uri)
        except NotFound:
            return None

    def _refuse_kept_out(self, uri: str) -> None:
        """No document that a walk would leave out is written to, whoever asks."""
        components(uri)
        found = format_of(uri)
        if found is None or found.language != "markdown":
            raise InvalidArgument(
                f"{uri!r} is no Markdown by its name.",
                hint="Documents that end in .md are edited by section.",
                details={"uri": uri, "reason": "format"},
            )
        verdict = verdict_on(self._root, self._policy, uri)
        if verdict is not None:
            raise PermissionDenied(
                f"{uri!r} is kept out by the rule {verdict.rule!r} ({verdict.reason}).",
                hint="What is not indexed is not edited; change the rule if it should be.",
                details={"uri": uri, "reason": verdict.reason},
            )

    def _refuse_unexpected(self, work: _Work, place: Place, expected: str) -> None:
        """The document or the part must be what whoever edits it has read."""
        if not expected:
            return
        wanted = expected.lower()
        if not _DIGEST.fullmatch(wanted):
            raise InvalidArgument(
                f"{expected[:80]!r} is not a hash.",
                hint="Pass the sha256 that read gave, or at least 16 digits of it.",
            )
        text = work.now.text
        part = text[place.span.start : place.span.end]
        known = [_sha(part), _sha(text), _sha(work.first.text)]
        if not any(each.startswith(wanted) for each in known):
            raise Conflict(
                f"{work.uri!r} is not what was expected: it was changed since it was read.",
                hint="Nothing was changed. Read it again, and repeat the edit on what it says now.",
                details={
                    "uri": work.uri,
                    "expected": expected,
                    "part": known[0],
                    "actual": known[1],
                },
            )

    # -- templates -----------------------------------------------------------------------

    def _template(self, name: str) -> str | None:
        if not self._templates or name not in self._template_names():
            return None
        try:
            raw, _ = self._root.read(f"{self._templates}/{name}.md", _MOST_TEMPLATE_BYTES)
        except Refused as refusal:
            raise InvalidArgument(
                f"The template {name!r} cannot be read ({refusal.reason}).",
                hint="Make it a plain file of at most 1 MiB.",
            ) from refusal
        return normalise(raw)[0]

    def _template_names(self) -> list[str]:
        if not self._templates:
            return []
        try:
            handle = self._root.open_folder(self._templates)
        except (Refused, OSError):
            return []
        try:
            return sorted(n.removesuffix(".md") for n in os.listdir(handle) if n.endswith(".md"))
        finally:
            close_folder(handle)

    # -- results ---------------------------------------------------------------------------

    def _shown(self, work: _Work) -> EditedDocument:
        before, after = work.first.text, work.now.text
        action: EditAction = "changed" if work.old != work.raw else "unchanged"
        path: tuple[str, ...] = ()
        span: Span | None = None
        if work.place is not None:
            path, (start, end) = work.place
            span = Lines(after).span(start, end)
        return EditedDocument(
            collection=self._collection,
            uri=work.uri,
            action="created" if work.old is None else action,
            before="" if work.old is None else _sha(before),
            after=_sha(after),
            diff=diff_of(work.uri, None if work.old is None else before, after),
            heading_path=path,
            span=span,
            section_sha256=_sha(after[span.start : span.end]) if span else "",
        )

    def _new_violations(self, work: _Work) -> list[Violation]:
        known = rules.violations(work.first, single_h1=self._single_h1)
        had = Counter(map(_without_lines, known))
        found: list[Violation] = []
        for each in rules.violations(work.now, single_h1=self._single_h1):
            if had[_without_lines(each)] > 0:
                had[_without_lines(each)] -= 1
            else:
                found.append(each)
        return found

    def _warnings(self, work: _Work) -> list[str]:
        most = self._policy.max_file_bytes
        found = []
        if len(work.raw) > most:
            size = f"{len(work.raw):,} bytes, more than sources.max_file_bytes ({most:,})"
            found.append(f"{work.uri} has {size}, so it is not searched.")
        if work.lost:
            which = ", ".join(dict.fromkeys(work.lost))
            found.append(f"The definition of {which} in {work.uri} is gone, so it is no link now.")
        return found

    def _taken_back(self, uri: str) -> tuple[EditResult, list[Write]]:
        step = self.transactions.last(uri)
        if step is None:
            known = sorted(
                {each.uri for one in self.transactions.steps() for each in one.documents}
            )
            raise NotFound(
                f"No edit of {uri!r} is kept that could be taken back.",
                hint=f"There are some of: {', '.join(known[:5])}." if known else "None is kept.",
                details={"uri": uri, "candidates": known[:10]},
            )
        for each in step.documents:
            self._refuse_kept_out(each.uri)
        writes = self.transactions.undoing(step)
        documents = tuple(self._undone(each) for each in writes)
        return EditResult(transaction=0, dry_run=True, documents=documents), writes

    def _undone(self, write: Write) -> EditedDocument:
        before = None if write.old is None else self._masked(write.uri, write.old)
        after = None if write.new is None else self._masked(write.uri, write.new)
        actions: Mapping[tuple[bool, bool], EditAction] = {
            (True, False): "created",
            (False, True): "removed",
        }
        return EditedDocument(
            collection=self._collection,
            uri=write.uri,
            action=actions.get((before is None, after is None), "changed"),
            before="" if before is None else _sha(before),
            after="" if after is None else _sha(after),
            diff=diff_of(write.uri, before, after),
        )


def diff_of(uri: str, before: str | None, after: str | None) -> str:
    """What changed, as a unified diff; of long texts only the part that differs is compared."""
    old, new = ([f"{line}\n" for line in (text or "").split("\n")[:-1]] for text in (before, after))
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    if start == len(old) == len(new):
        return ""
    same = 0
    while same < min(len(old), len(new)) - start and old[-1 - same] == new[-1 - same]:
        same += 1
    first = max(0, start - _CONTEXT)
    one = old[first : len(old) - same + min(same, _CONTEXT)]
    other = new[first : len(new) - same + min(same, _CONTEXT)]
    name = _UNSPEAKABLE.sub("\ufffd", uri)
    heads = (f"--- {f'a/{name}' if before is not None else '/dev/null'}\n"
             f"+++ {f'b/{name}' if after is not None else '/dev/null'}\n")  # fmt: skip
    if max(len(one), len(other)) > _MOST_COMPARED:
        hunk = f"@@ -{first + 1},{len(one)} +{first + 1},{len(other)} @@\n"
        return heads + hunk + "".join(f"-{line}" for line in one) + "".join(f"+{x}" for x in other)
    lines = list(unified_diff(one, other, n=_CONTEXT))[2:]
    return heads + "".join(_numbered(line, first) for line in lines)


_HUNK: Final = re.compile(r"@@ -(\d+)((?:,\d+)?) \+(\d+)((?:,\d+)?) @@\n")


def _numbered(line: str, before: int) -> str:
    """A line of a diff whose texts began some lines further down."""
    match = _HUNK.fullmatch(line)
    if match is None:
        return line
    old, new = int(match[1]) + before, int(match[3]) + before
    return f"@@ -{old}{match[2]} +{new}{match[4]} @@\n"


def _as_done(result: EditResult, number: int) -> EditResult:
    return EditResult(
        number, False, result.documents, result.links, result.violations, result.warnings
    )


def _outline(document: Document) -> list[tuple[int, str]]:
    return [(each.level, each.title) for each in document.sections if each.level]


def _without_lines(violation: Violation) -> tuple[str, str]:
    """What a violation is, wherever in its document it stands by now."""
    return violation.rule, _ON_LINE.sub("", violation.message)


def _leads_elsewhere(work: _Work) -> bool:
    """Whether links to headings of a document may mean others now, or none."""
    stays = all(first == now for first, now in work.became.items())
    return work.old is not None and not (stays and _outline(work.first) == _outline(work.now))


def _means_itself(uri: str, link: Link) -> bool:
    """Whether a link of a document leads into that document."""
    if not link.target:
        return True
    if link.kind in ("wikilink", "embed"):
        stem = uri.rpartition("/")[2].rpartition(".")[0]
        return link.target.casefold() == stem.casefold()
    return normpath(join(dirname(uri), link.target)) == uri


def _moved(changes: Sequence[Change], offset: int) -> int:
    """Where an offset of a text is after changes that do not hold it."""
    before = [change for change in changes if change.end <= offset]
    return offset + sum(sections.length(c.pieces) - (c.end - c.start) for c in before)


def _refuse_bad_name(uri: str) -> None:
    """New names are ones that everybody can type; old ones are taken as they are."""
    for part in components(uri):
        if _UNSPEAKABLE.search(part) or part != part.strip() or len(part.encode()) > 200:
            raise InvalidArgument(
                f"{uri[:200]!r} is no good name for a new document.",
                hint="Leave out control characters and spaces around names, and stay below "
                "200 bytes.",
                details={"uri": uri},
            )


def _sha(text: str) -> str:
    return sha256(text.encode("utf-8")).hexdigest()
