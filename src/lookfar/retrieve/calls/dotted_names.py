"""Find what a dotted Python name stands for, and how much of it exists."""

from __future__ import annotations

from collections.abc import Sequence

from lookfar.model import CallFacts
from lookfar.retrieve.calls.code_files import CodeFile, Place, is_test_file
from lookfar.retrieve.calls.resolve import UNKNOWN, Resolver, Value, as_module


class DottedNames(Resolver):
    """Resolves names such as ``package.module.Class.method`` without the imports of a file."""

    def follow(self, dotted: str) -> tuple[Value, tuple[str, ...]]:
        """Resolve as much of a dotted Python name as exists; return the result and the other parts.

        The name must begin with a module, or with a class that only one file defines.
        """
        parts = dotted.split(".")
        nowhere = CodeFile(-1, "", CallFacts("python"))
        value, rest = UNKNOWN, parts
        for number in range(len(parts), 0, -1):
            documents = self._modules.find(nowhere, ".".join(parts[:number]))
            # A single word that is not a package, such as ``app``, may be a variable.
            alone = number == 1 and not self._is_package(documents)
            if documents and not alone:
                value, rest = as_module(documents), parts[number:]
                break
        else:
            places = [
                place
                for place in self.files.named(parts[0])
                if self.files.language_of(place.document) == "python"
                and not is_test_file(self.files.uri_of(place.document))
            ]
            if len(places) == 1 and self._symbol(places[0]).kind == "class":
                value, rest = Value("class", (places[0],)), parts[1:]
        while rest and value.kind in ("module", "class"):
            inner = self._attribute(value, rest[0], 0)
            if inner.kind in ("unknown", "outside"):
                break
            value, rest = inner, rest[1:]
        return value, tuple(rest)

    def _is_package(self, documents: Sequence[int]) -> bool:
        return any(self.files.uri_of(document).endswith("/__init__.py") for document in documents)

    def is_submodule(self, file: CodeFile, name: str) -> bool:
        """Whether a package has a module with this name."""
        return bool(self._modules.find_submodule(file, name))

    def has_unknown_parents(self, file: CodeFile) -> bool:
        """Whether a class of a file has a parent that is not in the repository."""
        classes = (symbol for symbol in file.facts.symbols if symbol.kind == "class")
        return any(
            place.section < 0
            for symbol in classes
            for place in self._list_classes(
                Value("class", (Place(file.document, symbol.section),)), 0
            )
        )

    def list_files(self, value: Value) -> tuple[CodeFile, ...] | None:
        """Return the files that define the members of a module or class; None if uncertain."""
        places = list(value.places if value.kind == "module" else self._list_classes(value, 0))
        files = tuple(self.files.file(place.document) for place in places)
        if value.kind == "module":
            return None if any(file.star_imports for file in files) else files
        is_open = any(place.section < 0 for place in places)
        return None if is_open or value.kind != "class" else files
