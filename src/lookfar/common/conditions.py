"""Parse conditions on properties: ``status=active``, ``due<2026-12-01``, ``has:aliases``.

A value is compared by the type of the property: as a number with numbers, as a day, week or month
with dates, and otherwise as text without regard to case.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Final, Literal, NamedTuple, get_args

from lookfar.common.periods import local_now, parse_period, to_wall_seconds
from lookfar.common.properties import PropertyKind, fold_key, fold_value, read_link
from lookfar.errors import InvalidArgument

Operator = Literal["=", "!=", "<", "<=", ">", ">=", "has", "missing"]

_HINT: Final = (
    "Write status=active, due<2026-12-01, has:aliases or missing:due."
    " The operators are = != < <= > >=."
)
_LONGEST: Final = 1_000
_MOST: Final = 50
_PRESENCE: Final = re.compile(r"\s*(-?)(has|missing):(.*)", re.DOTALL)
_COMPARISON: Final = re.compile(
    r'\s*(?:"([^"]*)"|([^"=<>!][^=<>!]*?))\s*(==|!=|<=|>=|=|<|>)(.*)', re.DOTALL
)
_NUMBER: Final = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?")


class Condition(NamedTuple):
    """A condition on one property, with every way in which its value can be read."""

    key: str
    operator: Operator
    text: str = ""
    """The value case-folded; of a link, its target."""
    number: float | None = None
    start: float | None = None
    end: float | None = None
    """The period that the value names, in seconds since 1970 on the clock."""
    quoted: bool = False
    """A value in quotes is compared as text, even if it looks like a number or a date."""

    @property
    def kinds(self) -> frozenset[PropertyKind]:
        """The types of properties that its value can be compared with."""
        kinds: set[PropertyKind] = set()
        plain = self.number is None and self.start is None
        if self.operator in ("=", "!="):
            kinds |= {"text", "link", "boolean"}
        elif self.quoted or plain:
            kinds |= {"text", "link"}
        if self.number is not None or (self.quoted and self.operator in ("=", "!=")):
            kinds.add("number")
        if self.start is not None:
            kinds |= {"date", "datetime"}
        return frozenset(kinds)


def parse_conditions(where: Iterable[str], now: datetime | None = None) -> tuple[Condition, ...]:
    """Parse conditions; raise ``InvalidArgument`` that says what to write.

    Words such as ``today`` are read at ``now``, a local time without a zone.
    """
    if isinstance(where, str):
        raise InvalidArgument(
            "where must be a list, not a string.", hint="Pass a list of conditions."
        )
    conditions = list(where)
    if len(conditions) > _MOST:
        raise InvalidArgument(
            f"There are {len(conditions)} conditions.", hint=f"Pass at most {_MOST}."
        )
    now = now or local_now()
    return tuple(_parse(condition, now) for condition in conditions)


def _parse(text: str, now: datetime) -> Condition:
    if not str(text).strip():
        raise InvalidArgument("A condition is empty.", hint=_HINT)
    shown = f"{text[:80]}…" if len(text) > 80 else text
    if len(text) > _LONGEST:
        raise InvalidArgument(
            f"The condition {shown!r} is longer than {_LONGEST:,} characters.", hint=_HINT
        )
    if match := _PRESENCE.fullmatch(text):
        key = fold_key(match[3].strip().strip('"'))
        if not key:
            raise InvalidArgument(f"The condition {shown!r} names no property.", hint=_HINT)
        has = (match[2] == "has") != bool(match[1])
        return Condition(key, "has" if has else "missing")
    match = _COMPARISON.fullmatch(text)
    if match is None:
        raise _explain_malformed(text.strip(), shown)
    key = fold_key(match[1] if match[1] is not None else match[2])
    if not key:
        raise InvalidArgument(f"The condition {shown!r} names no property.", hint=_HINT)
    operator = "=" if match[3] == "==" else match[3]
    assert operator in get_args(Operator)
    return _read_value(key, operator, match[4].strip(), shown, now)  # type: ignore[arg-type]


def _explain_malformed(text: str, shown: str) -> InvalidArgument:
    """Return the error for a condition without a property or without an operator."""
    if text[0] in "=<>!":
        return InvalidArgument(f"The condition {shown!r} names no property.", hint=_HINT)
    hint = _HINT
    if re.fullmatch(r"[\w .-]+", text):
        hint = f"Write has:{text}, missing:{text} or {text}=VALUE."
    return InvalidArgument(f"The condition {shown!r} has no operator.", hint=hint)


def _read_value(key: str, operator: Operator, value: str, shown: str, now: datetime) -> Condition:
    if not value:
        raise InvalidArgument(
            f"The condition {shown!r} has no value.",
            hint=f"Write {key}{operator}VALUE, or missing:{key} for documents without it.",
        )
    if value[0] in "=<>!":
        raise InvalidArgument(f"The condition {shown!r} has two operators.", hint=_HINT)
    if value[0] in "\"'":
        if len(value) < 2 or value[-1] != value[0]:
            raise InvalidArgument(
                f"The quote in {shown!r} is not closed.", hint=f'Write {key}{operator}"VALUE".'
            )
        # A date in quotes is compared with dates, too: a shell user may quote every value.
        condition = Condition(key, operator, _fold(value[1:-1]), quoted=True)
        return _with_period(condition, value[1:-1], now)
    number = float(value) if _NUMBER.fullmatch(value) else None
    return _with_period(Condition(key, operator, _fold(value), number), value, now)


def _fold(value: str) -> str:
    return fold_value(read_link(value) or value)


def _with_period(condition: Condition, value: str, now: datetime) -> Condition:
    period = parse_period(value, now)
    if period is None:
        return condition
    start, end = to_wall_seconds(period.start), to_wall_seconds(period.end)
    return condition._replace(start=start, end=end)
