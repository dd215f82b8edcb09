"""The JSON that scripts rely on: one plain object for each kind of result.

Takes: the frozen data of :mod:`lookfar.model`. Gives: dicts whose keys are
described in ``docs/json.md``; keys are added, never renamed or removed, within
a major version. Refuses: to leave out a key because it is empty, apart from
``explanation``, which is there exactly when it was asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lookfar.collections.similar import Similar
    from lookfar.errors import LookfarError
    from lookfar.index.keeper import Pass
    from lookfar.model import (
        Answer,
        Contribution,
        EditResult,
        Failure,
        GenerationDiff,
        GenerationInfo,
        Hit,
        Incomplete,
        IndexReport,
        Listed,
        Listing,
        MatchedLine,
        Matches,
        Outline,
        Pruned,
        Reading,
        Receipts,
        Related,
        Ruling,
        Section,
        Span,
        Status,
        Symbol,
        UndoStep,
        Validation,
        VectorPass,
        Verified,
        Violation,
        Watching,
        WhyNot,
    )

Json = dict[str, Any]

_NOWHERE: Json = {"start": None, "end": None, "start_line": None, "end_line": None}
"""Of what is gone, or was not one part."""


def together(shapes: list[Json]) -> Json:
    """What a command says of one folder as it is, and of several in one object."""
    return shapes[0] if len(shapes) == 1 else {"collections": shapes}


def answer(found: Answer, *, explain: bool = False) -> Json:
    """The result of ``lookfar search --json``."""
    return {
        "query": found.query,
        "mode": found.mode,
        "hits": [hit(each, explain=explain) for each in found.hits],
        "generation": found.generation,
        "generations": dict(found.generations),
        "took_ms": round(found.took_ms, 3),
        "incomplete": incomplete(found.incomplete),
        "documents": [_listed(document) for document in found.documents],
        "total": found.total,
    }


def listing(found: Listing) -> Json:
    """The documents that filters admit."""
    return {
        "documents": [_listed(document) for document in found.documents],
        "total": found.total,
        "generations": dict(found.generations),
        "incomplete": incomplete(found.incomplete),
    }


def _listed(document: Listed) -> Json:
    return {
        "collection": document.collection,
        "uri": document.uri,
        "title": document.title,
        "lane": document.lane,
        "language": document.language,
        "modified_ns": document.modified_ns,
        "tags": list(document.tags),
        "size": document.size,
        "lines": document.lines,
    }


def hit(found: Hit, *, explain: bool = False) -> Json:
    shape: Json = {
        "collection": found.collection,
        "uri": found.uri,
        "title": found.title,
        "heading_path": list(found.heading_path),
        **_span(found.span),
        "sha256": found.sha256,
        "lane": found.lane,
        "score": found.score,
        "text": found.text,
        "truncated": found.truncated,
        "state": found.state,
        "chunk_id": found.chunk_id,
        "stale": list(found.stale),
        "comment": found.comment,
        "also": [
            {
                "collection": each.collection,
                "uri": each.uri,
                **_span(each.span),
                "sha256": each.sha256,
                "state": each.state,
                "by": each.by,
            }
            for each in found.also
        ],
        "also_more": found.also_more,
        "focus": [_span(span) for span in found.focus],
    }
    if explain:
        shape["explanation"] = _contributions(found.explanation)
    return shape


def _contributions(explanation: Sequence[Contribution]) -> list[Json]:
    return [
        {"stage": each.stage, "value": float(each.value), "note": each.note} for each in explanation
    ]


def matches(found: Matches) -> Json:
    """The result of ``lookfar search --mode literal --json``, and of ``--mode regex``."""
    return {
        "pattern": found.pattern,
        "mode": found.mode,
        "case": found.case,
        "files": [
            {
                "collection": file.collection,
                "uri": file.uri,
                "title": file.title,
                "lane": file.lane,
                "language": file.language,
                "count": file.count,
                "lines": [_matched_line(line) for line in file.lines],
            }
            for file in found.files
        ],
        "matches": found.matches,
        "matched_files": found.matched_files,
        "offset": found.offset,
        "generations": dict(found.generations),
        "took_ms": round(found.took_ms, 3),
        "incomplete": incomplete(found.incomplete),
    }


def _matched_line(line: MatchedLine) -> Json:
    return {
        "number": line.number,
        "text": line.text,
        "column": line.column,
        "spans": [list(span) for span in line.spans],
        "heading_path": list(line.heading_path),
        **_span(line.span),
        "sha256": line.sha256,
        "state": line.state,
        "before": list(line.before),
        "after": list(line.after),
        "truncated": line.truncated,
    }


def report(done: IndexReport, index_dir: str) -> Json:
    """The result of ``lookfar index --json``."""
    return {
        "collection": done.collection,
        "root": done.root,
        "index_dir": index_dir,
        "generation": done.generation,
        "added": done.added,
        "changed": done.changed,
        "removed": done.removed,
        "unchanged": done.unchanged,
        "chunks_embedded": done.chunks_embedded,
        "failures": _failures(done.failures),
        "skipped": dict(done.skipped),
        "skipped_examples": {why: list(uris) for why, uris in done.skipped_examples.items()},
        "seconds": round(done.seconds, 3),
        "text_bytes": done.text_bytes,
        "masked": done.masked,
        "masked_examples": list(done.masked_examples),
    }


def reading(read: Reading) -> Json:
    """The result of ``lookfar read --json``."""
    return {
        "collection": read.collection,
        "uri": read.uri,
        "title": read.title,
        "heading_path": list(read.heading_path),
        **_span(read.span),
        "sha256": read.sha256,
        "text": read.text,
        "state": read.state,
    }


def outline(tree: Outline) -> Json:
    """The result of ``lookfar outline --json``."""
    symbols = {each.section: each for each in tree.symbols}
    return {
        "collection": tree.collection,
        "uri": tree.uri,
        "title": tree.title,
        "language": tree.language,
        "lines": tree.lines,
        "tags": list(tree.tags),
        "sections": [_section(each, symbols.get(each.ordinal)) for each in tree.sections],
    }


def ruling(found: Ruling) -> Json:
    """The result of ``lookfar why --json``."""
    return {
        "collection": found.collection,
        "uri": found.uri,
        "admitted": found.admitted,
        "reason": found.reason,
        "rule": found.rule,
        "place": found.place,
        "decided": found.decided,
        "indexed": found.indexed,
    }


def why_not(found: WhyNot) -> Json:
    """The result of ``lookfar why --query --json``."""
    return {
        "query": found.query,
        "uri": found.uri,
        "verdict": found.verdict,
        "detail": found.detail,
        "rank": found.rank,
        "of": found.of,
        "score": found.score,
        "needed": found.needed,
        "explanation": _contributions(found.explanation),
    }


def related(found: Related) -> Json:
    """The result of ``lookfar related --json``."""
    return {
        "collection": found.collection,
        "uri": found.uri,
        "title": found.title,
        "heading_path": list(found.heading_path),
        "entries": [
            {
                "kind": each.kind,
                "uri": each.uri,
                "title": each.title,
                "target": each.target,
                "resolved": each.resolved,
                "relation": each.relation,
                "count": each.count,
                "score": each.score,
                "anchor": each.anchor,
                "heading_path": list(each.heading_path),
                "line": each.line,
                "text": each.text,
                "context": each.context,
                **({"collection": each.collection} if each.collection else {}),
            }
            for each in found.entries
        ],
        "totals": dict(found.totals),
        "generation": found.generation,
        "incomplete": incomplete(found.incomplete),
    }


def verified(found: Sequence[Verified]) -> Json:
    """The result of ``lookfar verify --json``."""
    return {
        "sound": not any(each.left for each in found),
        "collections": [asdict(each) for each in found],
    }


def status(state: Status) -> Json:
    """The result of ``lookfar status --json``."""
    return {
        "collection": state.collection,
        "root": state.root,
        "index_dir": state.index_dir,
        "indexed": state.indexed,
        "generation": state.generation,
        "generations": list(state.generations),
        "created_at": state.created_at,
        "held": state.held,
        "documents": state.counts.documents,
        "sections": state.counts.sections,
        "chunks": state.counts.chunks,
        "links": state.counts.links,
        "model": state.model,
        "dimensions": state.dimensions,
        "current": state.current,
        "disk_bytes": state.disk_bytes,
        "damage": state.damage,
        "failures": _failures(state.failures),
        "stale": list(state.stale),
        "stale_count": state.stale_count,
        "watcher": watcher(state.watcher),
        "vectors": _vector_pass(state.vectors),
        "receipts": _receipts(state.receipts),
    }


def _receipts(sums: Receipts | None) -> Json | None:
    """What answers cost, and what the files they cite would have."""
    if sums is None:
        return None
    return {
        "answers": sums.answers,
        "tokens": sums.tokens,
        "document_tokens": sums.document_tokens,
    }


def _vector_pass(told: VectorPass | None) -> Json | None:
    """How the nearest vectors are found."""
    if told is None:
        return None
    return {
        "rows": told.rows,
        "method": told.method,
        "kept": told.kept,
        "recall": told.recall,
        "sample": told.sample,
    }


def snapshots(kept: Iterable[GenerationInfo], held: int | None) -> Json:
    """The result of ``lookfar snapshots list --json``."""
    return {
        "held": held,
        "snapshots": [_generation(each) for each in kept],
    }


def snapshot(now: GenerationInfo, held: int | None) -> Json:
    """The result of ``lookfar snapshots rollback``, ``pin`` and ``unpin`` with ``--json``."""
    return {
        "held": held,
        "snapshot": _generation(now),
    }


def diff(found: GenerationDiff) -> Json:
    """The result of ``lookfar snapshots diff --json``."""
    return {
        "older": found.older,
        "newer": found.newer,
        "added": list(found.added),
        "removed": list(found.removed),
        "changed": [
            {
                "uri": each.uri,
                "sections_added": [list(path) for path in each.added],
                "sections_removed": [list(path) for path in each.removed],
                "sections_changed": [list(path) for path in each.changed],
            }
            for each in found.changed
        ],
    }


def pruned(went: Pruned) -> Json:
    """The result of ``lookfar snapshots prune --json``."""
    return {
        "generations_purged": went.generations,
        "documents_purged": went.documents,
        "kept": list(went.kept),
    }


def _generation(each: GenerationInfo) -> Json:
    return {
        "generation": each.number,
        "created_at": each.created_at,
        "active": each.active,
        "pinned": each.pinned,
        "documents": each.counts.documents,
        "sections": each.counts.sections,
        "chunks": each.counts.chunks,
        "links": each.counts.links,
        "content": each.content,
        "model": each.model,
        "model_fingerprint": each.model_fingerprint,
        "added": each.added,
        "changed": each.changed,
        "removed": each.removed,
        "failed": each.failures,
        "seconds": each.seconds,
    }


def edited(done: EditResult) -> Json:
    """The result of ``lookfar doc`` and ``lookfar undo`` with ``--json``."""
    return {
        "transaction": done.transaction,
        "dry_run": done.dry_run,
        "indexed": done.indexed,
        "documents": [
            {
                "collection": each.collection,
                "uri": each.uri,
                "action": each.action,
                "before": each.before,
                "after": each.after,
                "heading_path": list(each.heading_path),
                **(_NOWHERE if each.span is None else _span(each.span)),
                "section_sha256": each.section_sha256,
                "diff": each.diff,
            }
            for each in done.documents
        ],
        "links": [
            {
                "uri": each.uri,
                "line": each.line,
                "written": each.written,
                "anchor": each.anchor,
                "heading_path": list(each.heading_path),
                "becomes": each.becomes,
                "rewritten": each.rewritten,
            }
            for each in done.links
        ],
        "violations": [violation(each) for each in done.violations],
        "warnings": list(done.warnings),
    }


def validation(found: Validation) -> Json:
    """The result of ``lookfar doc validate --json`` for one document."""
    return {
        "collection": found.collection,
        "uri": found.uri,
        "ok": found.ok,
        "sha256": found.sha256,
        "violations": [violation(each) for each in found.violations],
    }


def violation(found: Violation) -> Json:
    return {
        "uri": found.uri,
        "rule": found.rule,
        "message": found.message,
        "start_line": found.start_line,
        "end_line": found.end_line,
        "suggested_fix": found.suggested_fix,
        "fixable": found.fixable,
    }


def undoable(steps: Iterable[UndoStep]) -> Json:
    """The result of ``lookfar undo --list --json``."""
    return {
        "steps": [
            {
                "transaction": each.transaction,
                "collection": each.collection,
                "uris": list(each.uris),
                "at": each.at,
            }
            for each in steps
        ]
    }


def watched(each: Pass) -> Json:
    """One line of ``lookfar watch --json``."""
    done: IndexReport | None = each.result
    return {
        "generation": done.generation if done else None,
        "added": done.added if done else 0,
        "changed": done.changed if done else 0,
        "removed": done.removed if done else 0,
        "only": None if each.work.only is None else sorted(each.work.only),
        "seconds": round(each.seconds, 3),
        "failed": each.error,
    }


def watcher(state: Watching | None) -> Json | None:
    return None if state is None else asdict(state)


def error(raised: LookfarError) -> Json:
    """What any command prints with ``--json`` when it fails."""
    return {"error": raised.as_dict()}


def _span(span: Span) -> Json:
    return {
        "start": span.start,
        "end": span.end,
        "start_line": span.start_line,
        "end_line": span.end_line,
    }


def similar(chunk: Similar) -> Json:
    """A chunk that is near to a text; without a distance where none was measured."""
    shape = asdict(chunk)
    if chunk.score is None:
        del shape["score"]
    return shape


def incomplete(notes: Iterable[Incomplete]) -> list[Json]:
    return [
        {"reason": each.reason, "detail": each.detail, "uris": list(each.uris)} for each in notes
    ]


def _section(section: Section, symbol: Symbol | None) -> Json:
    return {
        "level": section.level,
        "title": section.title,
        "heading_path": list(section.path),
        **_span(section.span),
        "kind": symbol.kind if symbol else "",
        "signature": symbol.signature if symbol else "",
    }


def _failures(failures: Iterable[Failure]) -> list[Json]:
    return [{"uri": each.uri, "code": each.code, "message": each.message} for each in failures]
