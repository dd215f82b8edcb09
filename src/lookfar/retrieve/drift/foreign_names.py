"""Find out which names the documents themselves take from other packages.

Code is often moved to a package of its own and documented as before. Its names are then no longer
in the repository, but the text is right.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath

from lookfar.model import Claim, Document
from lookfar.retrieve.drift.vocabulary import Vocabulary, is_product, parts_of


class ForeignNames:
    """The names that imports and module directives in documents take from other packages."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        lost: Iterable[str],
        claimed: Iterable[tuple[Document, Iterable[Claim]]],
    ) -> None:
        former = (part for path in lost if is_product(path) for part in parts_of(path))
        self._own = vocabulary.own_modules.union(former)
        self._names: set[str] = set()
        self._modules: dict[str, set[str]] = {}
        for document, claims in claimed:
            for claim in claims:
                if self._is_foreign(claim):
                    *modules, name = claim.name.split(".")
                    self._names.add(name)
                    self._modules.setdefault(document.uri, set()).update(modules[1:], (name,))

    def _is_foreign(self, claim: Claim) -> bool:
        head, dot, _ = claim.name.partition(".")
        return claim.is_full and bool(dot) and head not in self._own

    def has(self, claim: Claim) -> bool:
        """Whether a claim names something of another package."""
        parts = claim.name.split(".")
        return self._is_foreign(claim) or not self._names.isdisjoint((parts[0], parts[-1]))

    def has_taken_over(self, uri: str, path: str) -> bool:
        """Whether a document is about a foreign module with the name of a removed file or folder.

        An example is ``sphinxcontrib.websupport``, which was ``sphinx/websupport``.
        """
        modules = self._modules.get(uri, set())
        return not modules.isdisjoint((*PurePosixPath(path).parent.parts, PurePosixPath(path).stem))
