"""What is worth remembering of a collection's generations while a process runs.

Takes: what was made of a generation. Gives: it again, without making it twice. Refuses: to keep
what is of an earlier generation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

from lookfar.store.catalogue import graph

if TYPE_CHECKING:
    from lookfar.model import Filters
    from lookfar.store.catalogue.graph import Graph
    from lookfar.store.catalogue.scope import Scope
    from lookfar.store.ground.sql import Connection

T = TypeVar("T")

_SCOPES = 64
_DOCUMENTS = 500_000
"""Of all scopes together; some 70 bytes each."""


class State(NamedTuple):
    """What was made of one may be used for the same again."""

    generation: int
    moves: int
    """How often times of documents have changed in place: a file that was touched, or written
    anew with the same text, makes no generation."""


class Remembered:
    """Scopes, the link graph, and whatever else is made once for each generation."""

    def __init__(self) -> None:
        self._scopes: dict[tuple[State, Filters], Scope] = {}
        self._graphs: dict[int, Graph] = {}
        self._kept: tuple[State, dict[str, object]] = (State(0, 0), {})

    def scope(self, state: State, filters: Filters, resolved: Callable[[Filters], Scope]) -> Scope:
        """What filters admit, remembered for the next page of the same query."""
        asked = (state, filters)
        found = self._scopes.get(asked)
        if found is None:
            found = resolved(filters)
            self._scopes = _bounded({**self._scopes, asked: found}, state)
        return found

    def graph(self, connection: Connection, generation: int) -> Graph:
        """The whole link graph of a generation, made when it is first asked for."""
        found = self._graphs.get(generation)
        if found is None:
            stored = graph.stored_communities(connection, generation)
            found = graph.build_graph(connection, generation, stored)
            self._graphs = {generation: found}
        return found

    def kept(self, state: State, name: str, make: Callable[[], T]) -> T:
        """What was made of a state, made once; that of an earlier one is forgotten."""
        kept = self._kept  # Once: another thread may ask for another state meanwhile.
        if kept[0] != state:
            kept = self._kept = (state, {})
        made = kept[1]
        if name not in made:
            made[name] = make()
        return cast(T, made[name])


def _bounded(
    scopes: dict[tuple[State, Filters], Scope], state: State
) -> dict[tuple[State, Filters], Scope]:
    """The last ones of this state, and the very last in any case."""
    here = [(asked, scope) for asked, scope in scopes.items() if asked[0] == state]
    kept = here[-_SCOPES:]
    while len(kept) > 1 and sum(len(scope.documents) for _, scope in kept) > _DOCUMENTS:
        del kept[0]
    return dict(kept)
