"""The cache of a generation's results is bounded, whatever the filters.

Seen to fail with scopes of all generations kept until there were 64 of them.
"""

from __future__ import annotations

from functools import partial

from lookfar.model import Filters
from lookfar.store.catalogue import remembered
from lookfar.store.catalogue.remembered import Remembered, State
from lookfar.store.catalogue.scope import Scope

FIRST = State(1, 0)


class Asked:
    """Resolve filters to this many documents, and count the calls."""

    def __init__(self, documents: int) -> None:
        self.scope = Scope(frozenset(range(documents)), None)
        self.times = 0

    def __call__(self, filters: Filters) -> Scope:
        self.times += 1
        return self.scope


def of(number: int) -> Filters:
    return Filters(prefix=f"part{number}/")


def test_a_scope_is_resolved_once() -> None:
    kept, asked = Remembered(), Asked(3)
    assert kept.scope(FIRST, of(1), asked) is kept.scope(FIRST, of(1), asked)
    assert asked.times == 1


def test_scopes_of_an_earlier_generation_are_dropped() -> None:
    kept, asked = Remembered(), Asked(3)
    for state in (FIRST, State(2, 0), FIRST):
        kept.scope(state, of(1), asked)
    assert asked.times == 3


def test_results_from_before_times_changed_are_dropped() -> None:
    """Seen to fail with the generation alone as the key."""
    kept, asked = Remembered(), Asked(3)
    for moves in (0, 1, 1):
        kept.scope(State(1, moves), of(1), asked)
    assert asked.times == 2
    assert [kept.cached(State(1, moves), "one", partial(int, moves)) for moves in (0, 1)] == [0, 1]


def test_the_oldest_scopes_are_dropped_first() -> None:
    kept, asked = Remembered(), Asked(1)
    for number in range(remembered._SCOPES + 1):
        kept.scope(FIRST, of(number), asked)
    before = asked.times
    kept.scope(FIRST, of(1), asked)
    assert asked.times == before
    kept.scope(FIRST, of(0), asked)
    assert asked.times == before + 1


def test_few_wide_scopes_are_cached() -> None:
    kept, asked = Remembered(), Asked(remembered._DOCUMENTS // 2)
    for number in range(3):
        kept.scope(FIRST, of(number), asked)
    for number in (2, 1):
        kept.scope(FIRST, of(number), asked)
    assert asked.times == 3
    kept.scope(FIRST, of(0), asked)
    assert asked.times == 4


def test_the_last_scope_is_cached_however_wide() -> None:
    kept, asked = Remembered(), Asked(remembered._DOCUMENTS + 1)
    for _ in range(2):
        kept.scope(FIRST, of(0), asked)
    assert asked.times == 1
