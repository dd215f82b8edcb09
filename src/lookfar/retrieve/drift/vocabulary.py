"""Collect every word of the current code, to find out what is certainly not in it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property
from typing import Final, NamedTuple

from lookfar.ports import Snapshot
from lookfar.retrieve.calls.code_files import CodeFiles, Place, is_test_file
from lookfar.retrieve.calls.dotted_names import DottedNames
from lookfar.text.parse.formats import text_parser_for

_WORD: Final = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*")
_OPTION: Final = re.compile(rb"--[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
_BESIDE: Final = re.compile(
    r"(^|/)(docs?|examples?|samples?|demos?|docs_src|benchmarks?|testsuites?|testing)/",
    re.IGNORECASE,
)
_BATCH: Final = 200


def is_product(uri: str) -> bool:
    """Whether a path is not that of a test, an example or documentation."""
    return not is_test_file(uri) and _BESIDE.search(uri) is None


class Lacking(NamedTuple):
    """A member that a module or class does not have."""

    member: str
    files: frozenset[str]
    """URIs of the files that would define it."""


class Vocabulary:
    """The words and options in the source code of a snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._files = CodeFiles(snapshot)
        self._names = DottedNames(self._files)
        words: set[bytes] = set()
        options: set[bytes] = set()
        documents = sorted(self._files.documents.values())
        for start in range(0, len(documents), _BATCH):
            for _, text in snapshot.texts(documents[start : start + _BATCH]):
                words.update(_WORD.findall(text))
                options.update(_OPTION.findall(text))
        self._words = frozenset(word.decode("ascii") for word in words)
        self._options = frozenset(option.decode("ascii") for option in options)

    def has(self, word: str) -> bool:
        return word in self._words

    def has_option(self, option: str) -> bool:
        # Programs often build options from names: ``--no-color`` from ``no_color``.
        name = option.lstrip("-")
        parts = {name.replace("-", "_"), name.replace("-", "_").removeprefix("no_")}
        joined = re.sub(r"-(\w)", lambda match: match[1].upper(), name)
        return option in self._options or not self._words.isdisjoint((*parts, joined))

    def is_foreign(self, name: str) -> bool:
        """Whether the first part of a dotted name is a package that is not in this repository."""
        head, dot, _ = name.partition(".")
        return bool(dot) and head in self._foreign

    @cached_property
    def _foreign(self) -> frozenset[str]:
        own = {part for uri in self._files.documents for part in _parts_of(uri)}
        imported: set[str] = set()
        for document in self._files.documents.values():
            for bound, module, _ in self._files.file(document).facts.imports:
                if not module.startswith("."):
                    root = re.split(r"[./:]", module)[0]
                    imported.update((root, *((bound,) if root not in own else ())))
        return frozenset(imported - own)

    def may_inherit(self, uri: str, line: str) -> bool:
        """Whether a method that was in a file may now come from a class of another package."""
        document = self._files.documents.get(uri)
        if document is None or not line[:1].isspace():
            return False
        return self._names.has_unknown_parents(self._files.file(document))

    def lacks(self, dotted: str) -> Lacking | None:
        """Return the member that a module or class lacks, or None if it has it or may have it."""
        value, rest = self._names.follow(dotted)
        if len(rest) != 1 or value.kind not in ("module", "class"):
            return None
        files = self._names.list_files(value)
        if files is None:
            return None
        word = re.compile(rf"(?<![A-Za-z0-9_])(?:{re.escape(rest[0])}|__getattr__)(?![A-Za-z0-9_])")
        if any(word.search(self._files.text(file.uri)) for file in files):
            return None
        if any(self._names.is_submodule(file, rest[0]) for file in files):
            return None
        return Lacking(rest[0], frozenset(file.uri for file in files))

    def parameters(self, dotted: str) -> tuple[str, frozenset[str]] | None:
        """Return the file and the parameters of a Python function, or of a class.

        None if the function is not known, or if it accepts any keyword.
        """
        value, rest = self._names.follow(dotted)
        if rest or len(value.places) != 1 or value.kind not in ("class", "function"):
            return None
        place = value.places[0]
        if value.kind == "class":
            own = self._files.file(place.document).children.get(place.section, {})
            if len(own.get("__init__", ())) != 1 or "__new__" in own:
                return None
            place = Place(place.document, own["__init__"][0].section)
        uri = self._files.uri_of(place.document)
        document = text_parser_for(uri)(uri, self._files.text(uri))
        symbol = next((s for s in document.symbols if s.section == place.section), None)
        if symbol is None or symbol.kind not in ("function", "method") or symbol.decorators:
            return None
        if any(parameter.startswith("**") for parameter in symbol.parameters):
            return None
        return uri, frozenset(re.split(r"[:=\s]", p.lstrip("*"))[0] for p in symbol.parameters)


def _parts_of(uri: str) -> Iterable[str]:
    """Return the names under which a file can be imported: its own and those of its folders."""
    *folders, last = uri.split("/")
    return (*folders, last.partition(".")[0])
