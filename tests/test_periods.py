"""Dates and words for dates name the same period for the same time, whatever the machine."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookfar.common.periods import Period, parse_period
from lookfar.errors import InvalidArgument
from lookfar.serve.tools.dates import moment

NOW = datetime.fromisoformat("2026-11-18T20:30:00")
"""A Wednesday."""


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("2026-11-16", "2026-11-16", "2026-11-17"),
        ("2026-11", "2026-11-01", "2026-12-01"),
        ("2026-12", "2026-12-01", "2027-01-01"),
        ("2026", "2026-01-01", "2027-01-01"),
        ("2026-W46", "2026-11-09", "2026-11-16"),
        ("2026-11-16T10:00", "2026-11-16T10:00", "2026-11-16T10:01"),
        ("2026-11-16 10:00:05", "2026-11-16T10:00:05", "2026-11-16T10:00:06"),
        ("today", "2026-11-18", "2026-11-19"),
        ("Yesterday", "2026-11-17", "2026-11-18"),
        ("tomorrow", "2026-11-19", "2026-11-20"),
        ("wednesday", "2026-11-18", "2026-11-19"),
        ("since Monday", "2026-11-16", "2026-11-17"),
        ("thu", "2026-11-12", "2026-11-13"),
        ("last wednesday", "2026-11-11", "2026-11-12"),
        ("next wednesday", "2026-11-25", "2026-11-26"),
        ("this friday", "2026-11-20", "2026-11-21"),
        ("this week", "2026-11-16", "2026-11-23"),
        ("in the last week", "2026-11-09", "2026-11-16"),
        ("next month", "2026-12-01", "2027-01-01"),
        ("last month", "2026-10-01", "2026-11-01"),
        ("last quarter", "2026-07-01", "2026-10-01"),
        ("last year", "2025-01-01", "2026-01-01"),
        ("3 days ago", "2026-11-15", "2026-11-16"),
        ("a week ago", "2026-11-11", "2026-11-12"),
        ("2w", "2026-11-04", "2026-11-05"),
        ("an hour ago", "2026-11-18T19:30", "2026-11-18T20:30"),
        ("past 7 days", "2026-11-11", "2026-11-18T20:30"),
        ("9 months ago", "2026-02-18", "2026-02-19"),
        ("3 May", "2026-05-03", "2026-05-04"),
        ("Dec 3", "2025-12-03", "2025-12-04"),
        ("16th November 2024", "2024-11-16", "2024-11-17"),
        ("December", "2025-12-01", "2026-01-01"),
        ("sept. 2025", "2025-09-01", "2025-10-01"),
        ("9999-12-31", "9999-12-31", "9999-12-31T23:59:59.999999"),
    ],
)
def test_period(text: str, start: str, end: str) -> None:
    assert parse_period(text, NOW) == Period(*map(datetime.fromisoformat, (start, end)))


@pytest.mark.parametrize(
    "text",
    ["", " ", "2026-02-30", "2026-13", "2026-W60", "20261116", "active", "99999 years ago",
     "may 40", "last", "last thing", "x" * 500, "2026-11-16 garbage", "0 B.C.", "-5"],
)  # fmt: skip
def test_not_a_period(text: str) -> None:
    assert parse_period(text, NOW) is None


@given(st.text(max_size=70))
def test_no_text_raises(text: str) -> None:
    period = parse_period(text, NOW)
    assert period is None or period.start < period.end


def test_the_end_of_a_short_month_stays_in_it() -> None:
    """Fails if the day is carried over, which has no 31 February."""
    now = datetime.fromisoformat("2026-03-31T12:00:00")
    assert parse_period("1 month ago", now) == parse_period("2026-02-28", now)
    leap = datetime.fromisoformat("2024-02-29T12:00:00")
    assert parse_period("a year ago", leap) == parse_period("2023-02-28", leap)


@contextmanager
def clock(zone: str) -> Iterator[None]:
    before = os.environ.get("TZ")
    os.environ["TZ"] = zone
    time.tzset()
    try:
        yield
    finally:
        if before is None:
            del os.environ["TZ"]
        else:
            os.environ["TZ"] = before
        time.tzset()


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="needs a clock that a test can set")
def test_a_moment_is_local_unless_it_names_a_zone() -> None:
    hour = 3600 * 10**9
    with clock("UTC"):
        utc = moment("2026-11-18", "after")
        assert utc is not None
        assert moment("2026-11-18T00:00:00+02:00", "after") == utc - 2 * hour
    with clock("EST5"):
        assert moment("2026-11-18", "after") == utc + 5 * hour
        assert moment("today", "after", NOW) == utc + 5 * hour
        assert moment("2026-11-18T00:00:00Z", "after") == utc


def test_a_refused_date_says_what_to_write() -> None:
    with pytest.raises(InvalidArgument, match="--after is not a date: 'soon'") as refused:
        moment("soon", "--after")
    assert "last week" in refused.value.hint
    assert moment("  ", "--after") is None
