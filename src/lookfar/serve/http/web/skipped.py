"""The route that lists every skipped file of a folder with its reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from lookfar.collections.rulings import list_skipped
from lookfar.common.skip_reasons import describe_group, explain_reason, sort_reasons
from lookfar.serve.http.web.collection_input import CollectionInput
from lookfar.serve.tools.tool import Call, Result, Session, Tool


class SkippedInput(CollectionInput):
    reason: Annotated[str, Field(description="Only files that are skipped for this reason")] = ""
    offset: Annotated[int, Field(ge=0)] = 0
    limit: Annotated[int, Field(ge=1, le=1000)] = 200


def _skipped(session: Session, given: SkippedInput, _: Call) -> Result:
    library = session.library
    name = given.choose_collection(library)
    entries = list_skipped(library.folder(name))
    counts = Counter(entry.reason for entry in entries)
    wanted = [entry for entry in entries if not given.reason or entry.reason == given.reason]
    data = {
        "collection": name,
        "total": len(wanted),
        "offset": given.offset,
        "reasons": [
            {"reason": reason, "label": describe_group(reason), "count": counts[reason]}
            for reason in sort_reasons(counts)
        ],
        "files": [
            {
                "uri": entry.uri,
                "reason": entry.reason,
                "why": explain_reason(entry.reason, entry.uri),
                "detail": entry.detail,
            }
            for entry in wanted[given.offset : given.offset + given.limit]
        ],
    }
    return Result(data, "")


ROWS: Sequence[Tool] = (
    Tool("skipped", "Every skipped file, with the reason.", SkippedInput, _skipped),
)
