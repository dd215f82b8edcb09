"""Parse a day, week, month, year or time, also in words such as ``last week``, to a period.

The calendar is that of the caller: a period has local times without a zone, unless a zone was
written. ``now`` is an argument, so the same words and the same time always give the same period.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import Final, NamedTuple

_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTHS: Final = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september",
    "october", "november", "december",
)  # fmt: skip
_DAY: Final = timedelta(days=1)
_LAST: Final = datetime.fromisoformat("9999-12-31T23:59:59.999999")
_UNITS: Final = {
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": _DAY,
    "week": timedelta(weeks=1),
}
"""Units of a fixed length; months and years are counted in the calendar."""
_SHORT_UNITS: Final = {"h": "hour", "d": "day", "w": "week", "m": "month", "y": "year"}
_LONGEST_TEXT: Final = 60

_LEADING: Final = re.compile(r"(?:(?:since|after|before|until|from|on|in|at|the|of)\s+)+")
_MONTH: Final = re.compile(r"(\d{4})-(\d{2})")
_ISO_WEEK: Final = re.compile(r"(\d{4})-?w(\d{1,2})")
_AGO: Final = re.compile(r"(\d{1,5}|an?)\s+(minute|hour|day|week|month|year)s?\s+ago")
_SHORT_AGO: Final = re.compile(r"(\d{1,5})\s?([hdwmy])(?:\s+ago)?")
_PAST: Final = re.compile(
    r"(?:last|past|previous)\s+(\d{1,5})\s+(minute|hour|day|week|month|year)s?"
)
_RELATIVE: Final = re.compile(r"(this|last|past|previous|next)\s+(\w+)")
_DAY_MONTH: Final = re.compile(r"(\d{1,2})(?:st|nd|rd|th)?\.?\s+([a-z]+)(?:,?\s+(\d{4}))?")
_MONTH_DAY: Final = re.compile(r"([a-z]+)\.?\s+(\d{1,2})(?:st|nd|rd|th)?(?:,?\s+(\d{4}))?")
_MONTH_YEAR: Final = re.compile(r"([a-z]+)\.?(?:,?\s+(\d{4}))?")


class Period(NamedTuple):
    """The times from ``start`` on and before ``end``."""

    start: datetime
    end: datetime


def local_now() -> datetime:
    """Return the time on the local clock, without a zone."""
    return datetime.now(UTC).astimezone().replace(tzinfo=None)


def parse_period(text: str, now: datetime) -> Period | None:
    """Return the period that a text names, or None. ``now`` is a local time without a zone."""
    words = " ".join(text[: _LONGEST_TEXT + 1].casefold().split())
    if not words or len(words) > _LONGEST_TEXT:
        return None
    try:
        exact = _parse_iso(words, text.strip())
        if exact is not None:
            return exact
        plain = _LEADING.sub("", words, count=1) if _LEADING.match(words) else words
        return _parse_words(plain, now) or _parse_iso(plain, plain)
    except (ValueError, OverflowError):
        return None  # February 30, week 60, or a year outside of the calendar.


def to_wall_seconds(moment: datetime) -> float:
    """Return seconds since 1970 on the clock as written; a time with a zone counts in UTC."""
    aware = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    return aware.timestamp()


def _parse_iso(words: str, text: str) -> Period | None:
    if re.fullmatch(r"\d{4}", words):
        return _year(int(words))
    if match := _MONTH.fullmatch(words):
        return _month(int(match[1]), int(match[2]))
    if match := _ISO_WEEK.fullmatch(words):
        monday = date.fromisocalendar(int(match[1]), int(match[2]), 1)
        return _days(monday, 7)
    if not text[:4].isdigit():
        return None
    if re.fullmatch(r"\d{8}", words):
        return None  # A number, not a date; `20261116` may be a version.
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.time() == datetime.min.time() and ":" not in text and moment.tzinfo is None:
        return _days(moment.date(), 1)
    length = timedelta(seconds=1) if text.count(":") > 1 + ("+" in text) else timedelta(minutes=1)
    return Period(moment, moment + length)


def _parse_words(words: str, now: datetime) -> Period | None:
    today = now.date()
    near = {"today": 0, "yesterday": -1, "tomorrow": 1}
    if words in near:
        return _days(today + near[words] * _DAY, 1)
    if words == "now":
        return Period(now, now + timedelta(seconds=1))
    weekday = _find_name(words, _WEEKDAYS)
    if weekday is not None:
        return _days(today - (today.weekday() - weekday) % 7 * _DAY, 1)
    return _parse_ago(words, now) or _parse_relative(words, today) or _parse_named(words, today)


def _parse_ago(words: str, now: datetime) -> Period | None:
    """Parse ``3 days ago``, ``2w`` and ``last 7 days``."""
    match = _AGO.fullmatch(words)
    short = _SHORT_AGO.fullmatch(words)
    if match or short:
        count, unit = match.groups() if match else (short[1], _SHORT_UNITS[short[2]])  # type: ignore[index]
        start = _step_back(now, 1 if count in ("a", "an") else int(count), unit)
        if unit in ("minute", "hour"):
            return Period(start, start + _UNITS[unit])
        return _days(start.date(), 1)
    if match := _PAST.fullmatch(words):
        start = _step_back(now, int(match[1]), match[2])
        if match[2] not in ("minute", "hour"):
            start = datetime.combine(start.date(), datetime.min.time())
        return Period(start, now)
    return None


def _step_back(now: datetime, count: int, unit: str) -> datetime:
    if unit in _UNITS:
        return now - count * _UNITS[unit]
    year, month = divmod(now.year * 12 + now.month - 1 - count * (12 if unit == "year" else 1), 12)
    last_day = (_month(year, month + 1).end - _DAY).day
    return now.replace(year=year, month=month + 1, day=min(now.day, last_day))


def _parse_relative(words: str, today: date) -> Period | None:
    """Parse ``this week``, ``last Monday`` and ``next month``."""
    match = _RELATIVE.fullmatch(words)
    if match is None:
        return None
    step = {"this": 0, "next": 1}.get(match[1], -1)
    unit = match[2]
    weekday = _find_name(unit, _WEEKDAYS)
    if weekday is not None:
        behind = (today.weekday() - weekday) % 7
        if step < 0:
            return _days(today - (behind or 7) * _DAY, 1)
        ahead = (weekday - today.weekday()) % 7
        return _days(today + (ahead if step == 0 else ahead or 7) * _DAY, 1)
    if unit == "week":
        return _days(today - today.weekday() * _DAY + step * 7 * _DAY, 7)
    if unit == "month":
        year, month = divmod(today.year * 12 + today.month - 1 + step, 12)
        return _month(year, month + 1)
    if unit == "quarter":
        year, quarter = divmod(today.year * 4 + (today.month - 1) // 3 + step, 4)
        return Period(_month(year, quarter * 3 + 1).start, _month(year, quarter * 3 + 3).end)
    if unit == "year":
        return _year(today.year + step)
    return _days(today + step * _DAY, 1) if unit == "day" else None


def _parse_named(words: str, today: date) -> Period | None:
    """Parse ``16 November 2026``, ``Nov 16`` and ``November``; without a year, the latest one."""
    for pattern, day_at, month_at in ((_DAY_MONTH, 1, 2), (_MONTH_DAY, 2, 1)):
        match = pattern.fullmatch(words)
        month = _find_name(match[month_at], _MONTHS) if match else None
        if match is not None and month is not None:
            day = int(match[day_at])
            if match[3]:
                return _days(date(int(match[3]), month + 1, day), 1)
            named = date(today.year, month + 1, day)
            return _days(named if named <= today else named.replace(year=today.year - 1), 1)
    match = _MONTH_YEAR.fullmatch(words)
    month = _find_name(match[1], _MONTHS) if match else None
    if match is None or month is None:
        return None
    year = int(match[2]) if match[2] else today.year - (month + 1 > today.month)
    return _month(year, month + 1)


def _find_name(word: str, names: tuple[str, ...]) -> int | None:
    """Return the index of a name that a word is, or that it abbreviates to three letters."""
    short = word.removesuffix(".")
    short = "sep" if short == "sept" else short
    return next((number for number, name in enumerate(names) if short in (name, name[:3])), None)


def _midnight(year: int, month: int, day: int) -> datetime:
    return datetime.combine(date(year, month, day), datetime.min.time())


def _days(first: date, count: int) -> Period:
    start = _midnight(first.year, first.month, first.day)
    last = date.max.toordinal() - first.toordinal()
    return Period(start, start + count * _DAY if count <= last else _LAST)


def _month(year: int, month: int) -> Period:
    start = _midnight(year, month, 1)
    if (year, month) == (date.max.year, date.max.month):
        return Period(start, _LAST)
    return Period(start, _midnight(year + month // 12, month % 12 + 1, 1))


def _year(year: int) -> Period:
    return Period(_month(year, 1).start, _month(year, 12).end)
