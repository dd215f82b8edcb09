"""The JSON that scripts rely on: one plain object for each kind of result.

``docs/json.md`` describes the keys. Within a major version keys are added, never renamed or
removed. A key is present even if its value is empty, except ``explanation``, which is there only
if it was requested.
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
"""The span of something that is gone or has no single place."""


def combine(shapes: list[Json]) -> Json:
    """Return the shape of one folder as it is, and those of several in one object."""
    return shapes[0] if len(shapes) == 1 else {"collections": shapes}


def answer(result: Answer, *, explain: bool = False) -> Json:
    """The result of ``lookfar search --json``."""
    return {
        "query": result.query,
        "mode": result.mode,
        "hits": [hit(item, explain=explain) for item in result.hits],
        "generation": result.generation,
        "generations": dict(result.generations),
        "took_ms": round(result.took_ms, 3),
        "incomplete": incomplete(result.incomplete),
        "documents": [_listed(document) for document in result.documents],
        "total": result.total,
    }


def listing(page: Listing) -> Json:
    """Return the documents that match the filters."""
    return {
        "documents": [_listed(document) for document in page.documents],
        "total": page.total,
        "generations": dict(page.generations),
        "incomplete": incomplete(page.incomplete),
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


def hit(item: Hit, *, explain: bool = False) -> Json:
    shape: Json = {
        "collection": item.collection,
        "uri": item.uri,
        "title": item.title,
        "heading_path": list(item.heading_path),
        **_span(item.span),
        "sha256": item.sha256,
        "lane": item.lane,
        "score": item.score,
        "text": item.text,
        "truncated": item.truncated,
        "state": item.state,
        "chunk_id": item.chunk_id,
        "stale": list(item.stale),
        "comment": item.comment,
        "also": [
            {
                "collection": copy.collection,
                "uri": copy.uri,
                **_span(copy.span),
                "sha256": copy.sha256,
                "state": copy.state,
                "by": copy.by,
            }
            for copy in item.also
        ],
        "also_more": item.also_more,
        "focus": [_span(span) for span in item.focus],
    }
    if explain:
        shape["explanation"] = _contributions(item.explanation)
    return shape


def _contributions(explanation: Sequence[Contribution]) -> list[Json]:
    return [
        {"stage": part.stage, "value": float(part.value), "note": part.note} for part in explanation
    ]


def matches(result: Matches) -> Json:
    """The result of ``lookfar search --mode literal --json``, and of ``--mode regex``."""
    return {
        "pattern": result.pattern,
        "mode": result.mode,
        "case": result.case,
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
            for file in result.files
        ],
        "matches": result.matches,
        "matched_files": result.matched_files,
        "offset": result.offset,
        "generations": dict(result.generations),
        "took_ms": round(result.took_ms, 3),
        "incomplete": incomplete(result.incomplete),
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


def report(result: IndexReport, index_dir: str) -> Json:
    """The result of ``lookfar index --json``."""
    return {
        "collection": result.collection,
        "root": result.root,
        "index_dir": index_dir,
        "generation": result.generation,
        "added": result.added,
        "changed": result.changed,
        "removed": result.removed,
        "unchanged": result.unchanged,
        "chunks_embedded": result.chunks_embedded,
        "failures": _failures(result.failures),
        "skipped": dict(result.skipped),
        "skipped_examples": {why: list(uris) for why, uris in result.skipped_examples.items()},
        "seconds": round(result.seconds, 3),
        "text_bytes": result.text_bytes,
        "masked": result.masked,
        "masked_examples": list(result.masked_examples),
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
    symbols = {symbol.section: symbol for symbol in tree.symbols}
    return {
        "collection": tree.collection,
        "uri": tree.uri,
        "title": tree.title,
        "language": tree.language,
        "lines": tree.lines,
        "tags": list(tree.tags),
        "sections": [_section(section, symbols.get(section.ordinal)) for section in tree.sections],
    }


def ruling(decision: Ruling) -> Json:
    """The result of ``lookfar why --json``."""
    return {
        "collection": decision.collection,
        "uri": decision.uri,
        "admitted": decision.admitted,
        "reason": decision.reason,
        "rule": decision.rule,
        "place": decision.place,
        "decided": decision.decided,
        "indexed": decision.indexed,
    }


def why_not(result: WhyNot) -> Json:
    """The result of ``lookfar why --query --json``."""
    return {
        "query": result.query,
        "uri": result.uri,
        "verdict": result.verdict,
        "detail": result.detail,
        "rank": result.rank,
        "of": result.of,
        "score": result.score,
        "needed": result.needed,
        "explanation": _contributions(result.explanation),
    }


def related(result: Related) -> Json:
    """The result of ``lookfar related --json``."""
    return {
        "collection": result.collection,
        "uri": result.uri,
        "title": result.title,
        "heading_path": list(result.heading_path),
        "entries": [
            {
                "kind": entry.kind,
                "uri": entry.uri,
                "title": entry.title,
                "target": entry.target,
                "resolved": entry.resolved,
                "relation": entry.relation,
                "count": entry.count,
                "score": entry.score,
                "anchor": entry.anchor,
                "heading_path": list(entry.heading_path),
                "line": entry.line,
                "text": entry.text,
                "context": entry.context,
                **({"collection": entry.collection} if entry.collection else {}),
            }
            for entry in result.entries
        ],
        "totals": dict(result.totals),
        "generation": result.generation,
        "incomplete": incomplete(result.incomplete),
    }


def verified(results: Sequence[Verified]) -> Json:
    """The result of ``lookfar verify --json``."""
    return {
        "sound": not any(result.left for result in results),
        "collections": [asdict(result) for result in results],
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
    """Return the tokens of answers, and those of the files they cite."""
    if sums is None:
        return None
    return {
        "answers": sums.answers,
        "tokens": sums.tokens,
        "document_tokens": sums.document_tokens,
    }


def _vector_pass(vectors: VectorPass | None) -> Json | None:
    """Return how the nearest vectors are found."""
    if vectors is None:
        return None
    return {
        "rows": vectors.rows,
        "method": vectors.method,
        "kept": vectors.kept,
        "recall": vectors.recall,
        "sample": vectors.sample,
    }


def snapshots(generations: Iterable[GenerationInfo], held: int | None) -> Json:
    """The result of ``lookfar snapshots list --json``."""
    return {
        "held": held,
        "snapshots": [_generation(generation) for generation in generations],
    }


def snapshot(now: GenerationInfo, held: int | None) -> Json:
    """The result of ``lookfar snapshots rollback``, ``pin`` and ``unpin`` with ``--json``."""
    return {
        "held": held,
        "snapshot": _generation(now),
    }


def diff(result: GenerationDiff) -> Json:
    """The result of ``lookfar snapshots diff --json``."""
    return {
        "older": result.older,
        "newer": result.newer,
        "added": list(result.added),
        "removed": list(result.removed),
        "changed": [
            {
                "uri": document.uri,
                "sections_added": [list(path) for path in document.added],
                "sections_removed": [list(path) for path in document.removed],
                "sections_changed": [list(path) for path in document.changed],
            }
            for document in result.changed
        ],
    }


def pruned(result: Pruned) -> Json:
    """The result of ``lookfar snapshots prune --json``."""
    return {
        "generations_purged": result.generations,
        "documents_purged": result.documents,
        "kept": list(result.kept),
    }


def _generation(generation: GenerationInfo) -> Json:
    return {
        "generation": generation.number,
        "created_at": generation.created_at,
        "active": generation.active,
        "pinned": generation.pinned,
        "documents": generation.counts.documents,
        "sections": generation.counts.sections,
        "chunks": generation.counts.chunks,
        "links": generation.counts.links,
        "content": generation.content,
        "model": generation.model,
        "model_fingerprint": generation.model_fingerprint,
        "added": generation.added,
        "changed": generation.changed,
        "removed": generation.removed,
        "failed": generation.failures,
        "seconds": generation.seconds,
    }


def edited(result: EditResult) -> Json:
    """The result of ``lookfar doc`` and ``lookfar undo`` with ``--json``."""
    return {
        "transaction": result.transaction,
        "dry_run": result.dry_run,
        "indexed": result.indexed,
        "documents": [
            {
                "collection": document.collection,
                "uri": document.uri,
                "action": document.action,
                "before": document.before,
                "after": document.after,
                "heading_path": list(document.heading_path),
                **(_NOWHERE if document.span is None else _span(document.span)),
                "section_sha256": document.section_sha256,
                "diff": document.diff,
            }
            for document in result.documents
        ],
        "links": [
            {
                "uri": link.uri,
                "line": link.line,
                "written": link.written,
                "anchor": link.anchor,
                "heading_path": list(link.heading_path),
                "becomes": link.becomes,
                "rewritten": link.rewritten,
            }
            for link in result.links
        ],
        "violations": [violation(item) for item in result.violations],
        "warnings": list(result.warnings),
    }


def validation(result: Validation) -> Json:
    """The result of ``lookfar doc validate --json`` for one document."""
    return {
        "collection": result.collection,
        "uri": result.uri,
        "ok": result.ok,
        "sha256": result.sha256,
        "violations": [violation(item) for item in result.violations],
    }


def violation(item: Violation) -> Json:
    return {
        "uri": item.uri,
        "rule": item.rule,
        "message": item.message,
        "start_line": item.start_line,
        "end_line": item.end_line,
        "suggested_fix": item.suggested_fix,
        "fixable": item.fixable,
    }


def undoable(steps: Iterable[UndoStep]) -> Json:
    """The result of ``lookfar undo --list --json``."""
    return {
        "steps": [
            {
                "transaction": step.transaction,
                "collection": step.collection,
                "uris": list(step.uris),
                "at": step.at,
            }
            for step in steps
        ]
    }


def watched(finished: Pass) -> Json:
    """One line of ``lookfar watch --json``."""
    report: IndexReport | None = finished.result
    return {
        "generation": report.generation if report else None,
        "added": report.added if report else 0,
        "changed": report.changed if report else 0,
        "removed": report.removed if report else 0,
        "only": None if finished.work.only is None else sorted(finished.work.only),
        "seconds": round(finished.seconds, 3),
        "failed": finished.error,
    }


def watcher(state: Watching | None) -> Json | None:
    return None if state is None else asdict(state)


def error(raised: LookfarError) -> Json:
    """Return what any command prints with ``--json`` when it fails."""
    return {"error": raised.as_dict()}


def _span(span: Span) -> Json:
    return {
        "start": span.start,
        "end": span.end,
        "start_line": span.start_line,
        "end_line": span.end_line,
    }


def similar(chunk: Similar) -> Json:
    """Return a chunk that is similar to a text; without ``score`` if none was measured."""
    shape = asdict(chunk)
    if chunk.score is None:
        del shape["score"]
    return shape


def incomplete(notes: Iterable[Incomplete]) -> list[Json]:
    return [
        {"reason": note.reason, "detail": note.detail, "uris": list(note.uris)} for note in notes
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
    return [
        {"uri": failure.uri, "code": failure.code, "message": failure.message}
        for failure in failures
    ]
