"""What is worth remembering of a collection's generations while a process runs.

Takes: what was made of a generation. Gives: it again, without making it twice. Refuses: to keep
what is of an earlier generation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar, cast

from lookfar.store import graph

if TYPE_CHECKING:
    from lookfar.model import Filters
    from lookfar.store.graph import Graph
    from lookfar.store.scope import Scope
    from lookfar.store.sql import Connection

T = TypeVar("T")

_SCOPES = 64
_DOCUMENTS = 500_000
"""Of all scopes together; some 70 bytes each."""


class Remembered:
    """Scopes, the link graph, and whatever else is made once for each generation."""

    def __init__(self) -> None:
        self._scopes: dict[tuple[int, Filters], Scope] = {}
        self._graphs: dict[int, Graph] = {}
        self._kept: tuple[int, dict[str, object]] = (0, {})

    def scope(
        self, generation: int, filters: Filters, resolved: Callable[[Filters], Scope]
    ) -> Scope:
        """What filters admit, remembered for the next page of the same query."""
        asked = (generation, filters)
        found = self._scopes.get(asked)
        if found is None:
            found = resolved(filters)
            self._scopes = _bounded({**self._scopes, asked: found}, generation)
        return found

    def graph(self, connection: Connection, generation: int) -> Graph:
        """The whole link graph of a generation, made when it is first asked for."""
        found = self._graphs.get(generation)
        if found is None:
            stored = graph.stored_communities(connection, generation)
            found = graph.graph_of(connection, generation, stored)
            self._graphs = {generation: found}
        return found

    def kept(self, generation: int, name: str, make: Callable[[], T]) -> T:
        """What was made of a generation, made once; that of an earlier one is forgotten."""
        kept = self._kept  # Once: another thread may ask for another generation meanwhile.
        if kept[0] != generation:
            kept = self._kept = (generation, {})
        made = kept[1]
        if name not in made:
            made[name] = make()
        return cast(T, made[name])


def _bounded(
    scopes: dict[tuple[int, Filters], Scope], generation: int
) -> dict[tuple[int, Filters], Scope]:
    """The last ones of this generation, and the very last in any case."""
    here = [(asked, scope) for asked, scope in scopes.items() if asked[0] == generation]
    kept = here[-_SCOPES:]
    while len(kept) > 1 and sum(len(scope.documents) for _, scope in kept) > _DOCUMENTS:
        del kept[0]
    return dict(kept)
