"""Convert dates and times, also in words, to the nanoseconds that filters compare."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from lookfar.common.periods import Period, local_now, parse_period
from lookfar.errors import InvalidArgument

_LATEST: Final = 2**63 - 1
"""The largest time that an index can store, in the year 2262."""


def is_between(created_at: str, after: int | None, before: int | None) -> bool:
    """Return whether a time in ISO format is in a window of nanoseconds."""
    created = datetime.fromisoformat(created_at)
    aware = created if created.tzinfo else created.replace(tzinfo=UTC)
    nanoseconds = int(aware.timestamp() * 10**9)
    return (after is None or nanoseconds >= after) and (before is None or nanoseconds < before)


def format_time(nanoseconds: int) -> str:
    """Return a time in ISO format; empty for 0, which means that it is not known."""
    return datetime.fromtimestamp(nanoseconds // 10**9, UTC).isoformat() if nanoseconds else ""


def moment(text: str, name: str, now: datetime | None = None) -> int | None:
    """Return when a day, week or month begins, in nanoseconds; None for an empty text.

    ``text`` is a date or time, or words such as ``last week``. A time without a zone
    is local. ``name`` is the option or argument, for the error.
    """
    return _to_nanoseconds(_parse(text, name, now).start) if text.strip() else None


def end_of(text: str, name: str, now: datetime | None = None) -> int | None:
    """Return when a day, week or month ends, in nanoseconds; None for an empty text."""
    return _to_nanoseconds(_parse(text, name, now).end) if text.strip() else None


def _parse(text: str, name: str, now: datetime | None) -> Period:
    period = parse_period(text, now or local_now())
    if period is None:
        raise InvalidArgument(
            f"{name} is not a date: {text[:40]!r}.",
            hint="Use a date such as 2026-01-31, 2026-01 or 2026-W05, or words such as yesterday,"
            " monday, last week or 3 days ago.",
        )
    return period


def _to_nanoseconds(time: datetime) -> int:
    try:
        seconds = time.timestamp()
    except (OverflowError, ValueError, OSError):  # Local time cannot express the year 1.
        seconds = time.replace(tzinfo=UTC).timestamp()
    return max(-_LATEST, min(int(seconds) * 10**9, _LATEST))
