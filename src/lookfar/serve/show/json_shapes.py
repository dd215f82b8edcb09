"""The JSON that scripts rely on: one plain object for each kind of result.

``docs/json.md`` describes the keys. Within a major version keys are added, never renamed or
removed, and a key is present even if its value is empty.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from lookfar import model
    from lookfar.errors import LookfarError
    from lookfar.freshness.keeper import Pass
    from lookfar.library.similar import Similar
    from lookfar.retrieve.grep.find_in_text import Found

Json = dict[str, Any]

INLINED: Final = ("span", "counts")
"""Fields that hold a dataclass whose keys become keys of the enclosing object."""
NOT_IN_HITS: Final = frozenset(
    "explanation path part parts focus_path focus_lines document_chars uses".split()
)
"""Fields of a hit that only the text for people and agents needs."""
_ATOMS: Final = frozenset((str, int, float, bool, NoneType))
"""Types of values that need no conversion to JSON."""
_NOWHERE: Json = {"start": None, "end": None, "start_line": None, "end_line": None}
"""The span of something that is gone or has no single place."""


def plain(value: Any) -> Any:
    """Convert a dataclass, and the dataclasses in it, to JSON objects with a key for each field."""
    if type(value) in _ATOMS:
        return value
    if is_dataclass(value):
        return _plain_fields(value)
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def _plain_fields(value: Any, without: Container[str] = ()) -> Json:
    """Convert a dataclass as ``plain`` does, without some of its fields."""
    shape: Json = {}
    for name in _field_names(value if isinstance(value, type) else type(value)):
        if name in without:
            continue
        item = getattr(value, name)
        if name in INLINED:
            shape |= _NOWHERE if item is None else plain(item)
        else:
            shape[name] = item if type(item) in _ATOMS else plain(item)
    return shape


@cache
def _field_names(kind: type) -> tuple[str, ...]:
    """Return the fields of a dataclass; cached, because an answer has hundreds of values."""
    return tuple(field.name for field in fields(kind))


def combine(shapes: list[Json]) -> Json:
    """Return the object of one folder unchanged, or one object with those of several."""
    return shapes[0] if len(shapes) == 1 else {"collections": shapes}


def answer(result: model.Answer, *, explain: bool = False) -> Json:
    """The result of ``lookfar search --json``."""
    return {
        "query": result.query,
        "mode": result.mode,
        "hits": [hit(item, explain=explain) for item in result.hits],
        "generation": result.generation,
        "generations": dict(result.generations),
        "took_ms": round(result.took_ms, 3),
        "incomplete": incomplete(result.incomplete),
        "documents": plain(result.documents),
        "total": result.total,
        "confidence": result.confidence,
        "units": plain(result.units),
    }


def hit(item: model.Hit, *, explain: bool = False) -> Json:
    shape = _plain_fields(item, NOT_IN_HITS)
    if explain:
        shape["explanation"] = _contributions(item.explanation)
    for name in ("drift", "origin"):
        if not shape[name]:
            del shape[name]
    return shape


def _contributions(explanation: Sequence[model.Contribution]) -> list[Json]:
    return [{**plain(part), "value": float(part.value)} for part in explanation]


def matches(result: model.Matches) -> Json:
    """The result of ``lookfar search --mode literal --json``, and of ``--mode regex``."""
    return {**plain(result), "took_ms": round(result.took_ms, 3)}


def report(result: model.IndexReport, index_dir: str) -> Json:
    """The result of ``lookfar index --json``."""
    start = {"collection": result.collection, "root": result.root, "index_dir": index_dir}
    return {**start, **plain(result), "seconds": round(result.seconds, 3)}


def reading(read: model.Reading) -> Json:
    """The result of ``lookfar read --json``."""
    return dict(plain(read))


def reading_with_embeds(read: model.Reading, parts: Iterable[model.Embed]) -> Json:
    """The result of ``lookfar read --embeds --json``."""
    return {**reading(read), "embeds": embeds(parts)}


def found(read: model.Reading, parts: Found) -> Json:
    """The result of ``lookfar read --find --json``."""
    shape = {**reading(read), "text": parts.text}
    return {**shape, "matches": parts.matches, "left": list(parts.left)}


def embeds(parts: Iterable[model.Embed]) -> list[Json]:
    """The embeds of a text, each with what it embeds itself."""
    return [_embed(part) for part in parts]


def _embed(embed: model.Embed) -> Json:
    from lookfar.retrieve.locate.address import format_citation

    part = embed.reading
    cite = format_citation(part.collection, part.uri, part.span, part.sha256) if part else ""
    return {
        "start": embed.start,
        "end": embed.end,
        "written": embed.written,
        "problem": embed.problem,
        "cite": cite,
        "reading": None if part is None else reading(part),
        "embeds": [_embed(inner) for inner in embed.embeds],
    }


def outline(tree: model.Outline) -> Json:
    """The result of ``lookfar outline --json``."""
    symbols = {symbol.section: symbol for symbol in tree.symbols}
    return {
        "collection": tree.collection,
        "uri": tree.uri,
        "title": tree.title,
        "language": tree.language,
        "lines": tree.lines,
        "tags": list(tree.tags),
        "sections": [
            {
                **_section(section, symbols.get(section.ordinal)),
                "place": tree.place_at(section.span.start_line),
            }
            for section in tree.sections
        ],
        "places": [{"start_line": line, "place": label} for line, label in tree.places],
    }


def _section(section: model.Section, symbol: model.Symbol | None) -> Json:
    return {
        "level": section.level,
        "title": section.title,
        "heading_path": list(section.path),
        **plain(section.span),
        "kind": symbol.kind if symbol else "",
        "signature": symbol.signature if symbol else "",
    }


def ruling(decision: model.Ruling) -> Json:
    """The result of ``lookfar why --json``."""
    return {"collection": decision.collection, **plain(decision)}


def why_not(result: model.WhyNot) -> Json:
    """The result of ``lookfar why --query --json``."""
    return {**plain(result), "explanation": _contributions(result.explanation)}


def related(result: model.Related) -> Json:
    """The result of ``lookfar related --json``; entries name other collections."""
    shape: Json = plain(result)
    for entry in shape["entries"]:
        if not entry["collection"]:
            del entry["collection"]
        if entry["certain"] is None:
            del entry["certain"], entry["depth"]
    return shape


def drift(report: model.DriftReport) -> Json:
    """The result of ``lookfar drift --json``."""
    return dict(plain(report))


def properties(items: Sequence[model.PropertyValues]) -> list[Json]:
    """The list in ``lookfar properties --json``."""
    return [
        {**plain(item), "values": [{"value": v, "count": n} for v, n in item.values]}
        for item in items
    ]


def call_graph(result: model.CallGraph) -> Json:
    """The result of ``lookfar graph --json``."""
    return dict(plain(result))


def call_route(result: model.CallRoute) -> Json:
    """The result of ``lookfar graph --to --json``."""
    return dict(plain(result))


def verified(results: Sequence[model.Verified]) -> Json:
    """The result of ``lookfar verify --json``."""
    return {"sound": not any(result.left for result in results), "collections": plain(results)}


def status(state: model.Status) -> Json:
    return dict(plain(state))


def statuses(states: Iterable[model.Status]) -> Json:
    """The result of ``lookfar status --json``.

    Search MCP's scripts read the last two counts; with several collections, they are those
    of the first folder.
    """
    shapes = [
        {
            **status(state),
            "totalFiles": state.counts.documents,
            "totalChunks": state.counts.chunks,
        }
        for state in states
    ]
    return combine(shapes) | {key: shapes[0][key] for key in ("totalFiles", "totalChunks")}


def skipped(collection: str, entries: Sequence[model.Skipped]) -> Json:
    """The result of ``lookfar status --skipped --json``."""
    return {"collection": collection, "skipped": plain(entries)}


def history(
    commits: Iterable[model.CommitInfo],
    hits: Iterable[model.Hit],
    notes: Iterable[model.Incomplete],
    query: str,
) -> Json:
    """The result of ``lookfar history --json``; the commits that match a query have a passage."""
    shapes = [plain(commit) for commit in commits]
    for shape, hit in zip(shapes, hits, strict=False):
        shape |= {"score": hit.score, "text": hit.text}
    return {"query": query, "commits": shapes, "incomplete": incomplete(notes)}


def snapshots(generations: Iterable[model.GenerationInfo], held: int | None) -> Json:
    """The result of ``lookfar snapshots list --json``."""
    return {"held": held, "snapshots": [_generation(generation) for generation in generations]}


def snapshot(now: model.GenerationInfo, held: int | None) -> Json:
    """The result of ``lookfar snapshots rollback``, ``pin`` and ``unpin`` with ``--json``."""
    return {"held": held, "snapshot": _generation(now)}


def _generation(generation: model.GenerationInfo) -> Json:
    renamed = {"number": "generation", "failures": "failed"}
    return {renamed.get(key, key): value for key, value in plain(generation).items()}


def diff(result: model.GenerationDiff) -> Json:
    """The result of ``lookfar snapshots diff --json``."""
    shape: Json = plain(result)
    for document in shape["changed"]:
        for key in ("added", "removed", "changed"):
            document[f"sections_{key}"] = document.pop(key)
    return shape


def pruned(result: model.Pruned) -> Json:
    """The result of ``lookfar snapshots prune --json``."""
    return {
        "generations_purged": result.generations,
        "documents_purged": result.documents,
        "kept": list(result.kept),
    }


def edited(result: model.EditResult) -> Json:
    """The result of ``lookfar doc`` and ``lookfar undo`` with ``--json``."""
    documents = plain(result.documents)
    for document in documents:
        document["diff"] = document.pop("diff")  # Last, because it is long.
    return {
        "transaction": result.transaction,
        "dry_run": result.dry_run,
        "indexed": result.indexed,
        "documents": documents,
        "links": plain(result.links),
        "violations": [violation(item) for item in result.violations],
        "warnings": list(result.warnings),
    }


def validation(result: model.Validation) -> Json:
    return {
        "collection": result.collection,
        "uri": result.uri,
        "ok": result.ok,
        "sha256": result.sha256,
        "violations": [violation(item) for item in result.violations],
    }


def validations(results: Iterable[model.Validation]) -> Json:
    """The result of ``lookfar doc validate --json``."""
    return {"documents": [validation(result) for result in results]}


def violation(item: model.Violation) -> Json:
    return {"uri": item.uri, **plain(item)}


def undoable(steps: Iterable[model.UndoStep]) -> Json:
    """The result of ``lookfar undo --list --json``."""
    return {"steps": [plain(step) for step in steps]}


def watched(finished: Pass) -> Json:
    """One line of ``lookfar watch --json``."""
    report: model.IndexReport | None = finished.result
    return {
        "generation": report.generation if report else None,
        "added": report.added if report else 0,
        "changed": report.changed if report else 0,
        "removed": report.removed if report else 0,
        "only": None if finished.work.only is None else sorted(finished.work.only),
        "seconds": round(finished.seconds, 3),
        "failed": finished.error,
    }


def error(raised: LookfarError) -> Json:
    """What any command prints with ``--json`` when it fails."""
    return {"error": raised.as_dict()}


def similar(chunk: Similar) -> Json:
    """A chunk that is similar to a text; without ``score`` if none was measured."""
    shape: Json = plain(chunk)
    if chunk.score is None:
        del shape["score"]
    return shape


def incomplete(notes: Iterable[model.Incomplete]) -> list[Json]:
    return [plain(note) for note in notes]
