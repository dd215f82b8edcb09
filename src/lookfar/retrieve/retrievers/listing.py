"""List the documents that pass the filters, by collection and URI, or the newest first."""

from __future__ import annotations

from collections.abc import Sequence

from lookfar.model import Listed
from lookfar.ports import Facts
from lookfar.retrieve.question.admission import resolve_globs
from lookfar.retrieve.ranking import Source


def list_admitted(
    sources: Sequence[Source], limit: int, offset: int, newest_first: bool = False
) -> tuple[list[Listed], int]:
    """Return ``limit`` of the documents that pass, from ``offset`` on, and their total."""
    admitted = [
        (source, facts)
        for source in sources
        for facts in sorted(
            source.snapshot.admitting(resolve_globs(source.plan.filters, source.snapshot)),
            key=_sort_key,
        )
    ]
    if newest_first:
        admitted.sort(key=lambda entry: -entry[1].time_ns)
    page = admitted[offset : offset + limit]
    lines: dict[tuple[str, int], int] = {}
    for source in sources:
        wanted = [facts.document for owner, facts in page if owner is source]
        counted = source.snapshot.line_counts(wanted) if wanted else {}
        lines.update(((source.collection, number), count) for number, count in counted.items())
    return [
        Listed(
            source.collection,
            facts.uri,
            facts.title,
            facts.lane,
            facts.language,
            facts.modified_ns,
            facts.tags,
            facts.size,
            lines.get((source.collection, facts.document), 0),
            facts.day,
        )
        for source, facts in page
    ], len(admitted)


def _sort_key(facts: Facts) -> tuple[int, str]:
    return (-facts.modified_ns if facts.lane == "commits" else 0, facts.uri)
