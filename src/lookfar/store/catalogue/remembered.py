"""Cache results computed from the latest generation of a collection, within one process."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar, cast

from lookfar.common.conditions import parse_conditions
from lookfar.store.catalogue import graph

if TYPE_CHECKING:
    from sqlite3 import Connection

    from lookfar.common.conditions import Condition
    from lookfar.model import Filters
    from lookfar.store.catalogue.graph import Graph
    from lookfar.store.catalogue.scope import Scope

T = TypeVar("T")

_SCOPES = 64
_DOCUMENTS = 500_000
"""The most documents in all cached scopes together, at about 70 bytes each."""


class State(NamedTuple):
    """The generation and the count of in-place changes that a cached result was computed from."""

    generation: int
    moves: int
    """How often document times changed in place: a file that is touched, or rewritten with the
    same text, does not make a new generation."""


_ScopeKey: TypeAlias = "tuple[State, Filters, tuple[Condition, ...]]"


class Remembered:
    """A cache of scopes, the link graph, and other results of one generation."""

    def __init__(self) -> None:
        self._scopes: dict[_ScopeKey, Scope] = {}
        self._graphs: dict[int, Graph] = {}
        self._cache: tuple[State, dict[str, object]] = (State(0, 0), {})

    def scope(self, state: State, filters: Filters, resolve: Callable[[Filters], Scope]) -> Scope:
        """Return what the filters admit; cached for the next page of the same query."""
        # The conditions as well: `due<today` means another day tomorrow.
        key = (state, filters, parse_conditions(filters.where))
        scope = self._scopes.get(key)
        if scope is None:
            scope = resolve(filters)
            self._scopes = _trim({**self._scopes, key: scope}, state)
        return scope

    def graph(self, connection: Connection, generation: int) -> Graph:
        """Return the link graph of a generation, built on first use."""
        cached = self._graphs.get(generation)
        if cached is None:
            communities = graph.stored_communities(connection, generation)
            cached = graph.build_graph(connection, generation, communities)
            self._graphs = {generation: cached}
        return cached

    def cached(self, state: State, name: str, make: Callable[[], T]) -> T:
        """Return the named result of a state, computed once; results of other states go."""
        cache = self._cache  # Read once: another thread may replace it for another state.
        if cache[0] != state:
            cache = self._cache = (state, {})
        results = cache[1]
        if name not in results:
            results[name] = make()
        return cast(T, results[name])


def _trim(scopes: dict[_ScopeKey, Scope], state: State) -> dict[_ScopeKey, Scope]:
    """Keep the latest scopes of this state, and at least the very last."""
    current = [(key, scope) for key, scope in scopes.items() if key[0] == state]
    latest = current[-_SCOPES:]
    while len(latest) > 1 and sum(len(scope.documents) for _, scope in latest) > _DOCUMENTS:
        del latest[0]
    return dict(latest)
