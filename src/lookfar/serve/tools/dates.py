"""Convert ISO dates and times to the nanoseconds that filters compare."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from lookfar.errors import InvalidArgument

_LATEST: Final = 2**63 - 1
"""The largest time that an index can store, in the year 2262."""


def moment(text: str, name: str) -> int | None:
    """Convert an ISO date or time to nanoseconds; without a time zone it is UTC."""
    if not text:
        return None
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidArgument(
            f"{name} is not a date: {text[:40]!r}.",
            hint="Write it like 2026-01-31, or with a time.",
        ) from None
    since = int((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()) * 10**9
    return max(-_LATEST, min(since, _LATEST))
