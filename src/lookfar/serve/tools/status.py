"""The tool ``status``: what is indexed, and how up to date it is."""

from __future__ import annotations

from collections.abc import Sequence

from lookfar.common.skip_reasons import summarise
from lookfar.common.waiting_sources import describe_waiting
from lookfar.errors import how_many
from lookfar.model import Status
from lookfar.serve.show import json_shapes
from lookfar.serve.show.printable import safe_name
from lookfar.serve.show.render import describe_quality, describe_receipts, describe_sessions
from lookfar.serve.tools.output_schemas import STATE
from lookfar.serve.tools.tool import Call, Input, Result, Session, Tool, bounded

_MOST_NAMED = 100
_MOST_EXAMPLES = 3
_MOST_COUNTED = 12
"""Tags and properties that the text names; the data has more."""


class StatusInput(Input):
    pass


def _status(session: Session, _given: StatusInput, _: Call) -> Result:
    states = session.library.statuses()
    lines = []
    for state in states:
        if not state.indexed:
            lines.append(f"{state.collection}: not indexed yet; the first search does it")
            lines += _list_waiting(state)
            continue
        watched = state.watcher is not None and state.watcher.healthy
        parts = [
            how_many(state.counts.documents, "document"),
            how_many(state.counts.chunks, "chunk"),
            f"generation {state.generation}",
            "watched" if watched else "not watched",
            *([f"{state.stale_count:,} stale"] if state.stale_count else []),
            *([f"{len(state.failures):,} failed"] if state.failures else []),
            *(
                [f"{how_many(state.packages, 'package')} (kind deps)"]
                if state.packages is not None
                else []
            ),
            *([f"held at {state.held}"] if state.held is not None else []),
            *(
                [describe_receipts(state.receipts)]
                if state.receipts and state.receipts.answers
                else []
            ),
        ]
        lines.append(f"{state.collection}: {', '.join(parts)}")
        lines += [f"  session {line}" for line in describe_sessions(state.receipts)]
        if state.quality is not None:
            lines.append(f"  second model {describe_quality(state.quality)}")
        if skipped := summarise(state.skipped, state.skipped_examples, _MOST_EXAMPLES):
            lines.append(f"  skipped: {skipped}")
        lines += _list_waiting(state)
    shapes = [json_shapes.status(state) for state in states]
    tags = sorted(session.library.tags(), key=lambda count: (-count.documents, count.tag))
    properties = session.library.properties()
    if tags:
        lines.append("tags: " + _list_counts([(tag.tag, tag.documents) for tag in tags]))
    if properties:
        names = [(item.name, item.documents) for item in properties]
        lines.append("properties: " + _list_counts(names))

    def show(most: int) -> Result:
        named = [
            {**shape, "failures": shape["failures"][:most], "stale": shape["stale"][:most]}
            for shape in shapes
        ]
        data = {
            "collections": named,
            "tags": json_shapes.plain(tags[:most]),
            "properties": [item.name for item in properties[:most]],
        }
        return Result(data, "\n".join(map(safe_name, lines)))

    return bounded(show, _MOST_NAMED)


def _list_waiting(state: Status) -> list[str]:
    """Return a line on the sources that the folder names and the user has not confirmed."""
    waiting = describe_waiting(state.named_sources)
    return [f"  {waiting}"] if waiting else []


def _list_counts(counts: Sequence[tuple[str, int]]) -> str:
    shown = ", ".join(f"{name} ({count:,})" for name, count in counts[:_MOST_COUNTED])
    rest = len(counts) - _MOST_COUNTED
    return f"{shown}, and {rest:,} more" if rest > 0 else shown


STATUS = Tool(
    "status",
    "What is indexed, how up to date, and what failed.",
    StatusInput,
    _status,
    light=True,
    lean=True,
    title="Index status",
    output_schema=STATE,
)
