"""Dates as people write them, in the nanoseconds that filters compare.

Takes: an ISO date or time. Gives: nanoseconds since 1970, within what a store can hold. Refuses
(``InvalidArgument``): anything else.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from lookfar.errors import InvalidArgument

_LATEST: Final = 2**63 - 1
"""Nanoseconds that an index can tell apart end in the year 2262."""


def moment(text: str, name: str) -> int | None:
    """An ISO date or time in nanoseconds; without a zone it is meant as UTC."""
    if not text:
        return None
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidArgument(
            f"{name} is no date: {text[:40]!r}.", hint="Write it like 2026-01-31, or with a time."
        ) from None
    since = int((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()) * 10**9
    return max(-_LATEST, min(since, _LATEST))
