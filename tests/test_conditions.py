"""Conditions on properties are parsed as written, and a malformed one says what to write."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookfar.common.conditions import Condition, parse_conditions
from lookfar.common.properties import fold_key, fold_value
from lookfar.errors import InvalidArgument

NOW = datetime.fromisoformat("2026-11-18T20:30:00")


def parse(text: str) -> Condition:
    (condition,) = parse_conditions([text], NOW)
    return condition


def seconds(day: str) -> float:
    return datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp()


def test_every_way_to_read_a_value() -> None:
    assert parse("status=Active") == Condition("status", "=", "active")
    assert parse("Due Date <= 3.5") == Condition("due-date", "<=", "3.5", 3.5)
    assert parse('"due=x" != b') == Condition("due=x", "!=", "b")
    assert parse('n="5"') == Condition("n", "=", "5", quoted=True)
    assert parse("up=[[Home Page|home]]") == Condition("up", "=", "home page")
    assert parse("status==active") == parse("status=active")
    due = Condition("due", "<", "2026-12", None, seconds("2026-12-01"), seconds("2027-01-01"))
    assert parse("due<2026-12") == due
    assert parse("due>'last week'")[4:6] == (seconds("2026-11-09"), seconds("2026-11-16"))
    year = parse("year=2026")
    assert (year.number, year.start) == (2026.0, seconds("2026-01-01"))


def test_presence() -> None:
    assert parse("has:aliases") == parse("-missing:Aliases") == Condition("aliases", "has")
    assert parse("missing:due") == parse("-has:due") == Condition("due", "missing")
    assert parse('has:"Due Date"') == Condition("due-date", "has")


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("status", "has no operator", "has:status, missing:status or status=VALUE"),
        ("status:active", "has no operator", "status=active"),
        ("status=", "has no value", "missing:status"),
        ("=active", "names no property", "status=active"),
        (" <5", "names no property", "status=active"),
        ("has:", "names no property", "has:aliases"),
        ('""=x', "names no property", "status=active"),
        ("due=>2026", "two operators", "= != < <= > >="),
        ('name="x', "not closed", 'name="VALUE"'),
        ("  ", "is empty", "has:aliases"),
        ("a=" + "x" * 2_000, "longer than 1,000", "status=active"),
    ],
)
def test_a_malformed_condition_says_what_to_write(text: str, message: str, hint: str) -> None:
    with pytest.raises(InvalidArgument, match=message) as refused:
        parse(text)
    assert hint in refused.value.hint


def test_conditions_are_a_list_of_limited_length() -> None:
    with pytest.raises(InvalidArgument, match="must be a list"):
        parse_conditions("status=active")
    with pytest.raises(InvalidArgument, match="51 conditions"):
        parse_conditions(["a=b"] * 51)


names = st.text(
    st.characters(exclude_characters='"=<>!', exclude_categories=["Cs", "Cc"]), min_size=1
)


@given(
    names.filter(lambda name: fold_key(name) and ":" not in name),
    st.sampled_from(("=", "!=", "<", "<=", ">", ">=")),
    st.text(st.characters(exclude_characters='"', exclude_categories=["Cs"]), max_size=50),
)
def test_a_quoted_condition_is_read_back(name: str, operator: str, value: str) -> None:
    """Fails if a quote, an operator or a space inside of quotes is read as syntax."""
    condition = parse(f'"{name}" {operator} "{value}"')
    assert condition.key == fold_key(name)
    assert condition.operator == operator
    if "[[" not in value:
        assert condition.text == fold_value(value)


@given(st.text(max_size=60))
def test_any_text_is_a_condition_or_a_typed_error(text: str) -> None:
    try:
        condition = parse(text)
    except InvalidArgument as error:
        condition = None
        hint = error.hint
    assert condition.key if condition else hint
