"""The arguments of routes that answer from one collection."""

from __future__ import annotations

from lookfar.library import Library
from lookfar.serve.tools.tool import Input


class CollectionInput(Input):
    collection: str = ""

    def choose_collection(self, library: Library) -> str:
        """Return the given name, or else the name of the first collection."""
        return self.collection or next(iter(library.collections), "")
