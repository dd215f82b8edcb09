"""Collect every word of the current code, to find out what is certainly not in it.

Also find out which names the documents take from other packages: code is often moved to a package
of its own and documented as before. Its names are then no longer in the repository, but the text is
right.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, cached_property
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from lookfar.model import Claim, Document
from lookfar.ports import Snapshot
from lookfar.retrieve.calls.code_files import CodeFiles, Place, is_test_file
from lookfar.retrieve.calls.dotted_names import DottedNames
from lookfar.text.parse.formats import text_parser_for

_WORD: Final = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*")
_DASHED: Final = re.compile(rb"(?<![a-z0-9])[a-z][a-z0-9]*(?:[-.][a-z0-9]+)+")
_BESIDE: Final = re.compile(
    r"(^|/)(docs?|examples?|samples?|demos?|docs_src|benchmarks?|testsuites?|testing|"
    r"vendor|third[-_]?party|node_modules|fixtures)/",
    re.IGNORECASE,
)
_PROGRAM: Final = re.compile(
    r"/([\w-]+)/__(?:init|main)__\.py$|/(?:bin|scripts)/([\w-]+)[^/]*$|/cmd/([\w-]+)/"
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
    is_last: bool
    """Whether it is the last part of the name."""


class Vocabulary:
    """The words and options in the source code of a snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._files = CodeFiles(snapshot)
        self._names = DottedNames(self._files)
        # The same names are asked for again for every removed line.
        self.lacks = cache(self._lacks)
        self.parameters = cache(self._parameters)
        self._parse = cache(self._parse_file)
        words: set[bytes] = set()
        options: set[bytes] = set()
        documents = sorted(self._files.documents.values())
        for start in range(0, len(documents), _BATCH):
            for _, text in snapshot.texts(documents[start : start + _BATCH]):
                words.update(_WORD.findall(text))
                options.update(_DASHED.findall(text))
        self._words = frozenset(word.decode("ascii") for word in words)
        self._options = frozenset(option.decode("ascii") for option in options)

    def has(self, word: str) -> bool:
        return word in self._words

    def has_option(self, option: str) -> bool:
        # Programs often build options from names: ``--no-color`` from ``no_color``.
        name = option.lstrip("-")
        parts = {name.replace("-", "_"), name.replace("-", "_").removeprefix("no_")}
        joined = re.sub(r"-(\w)", lambda match: match[1].upper(), name)
        return name in self._options or not self._words.isdisjoint((*parts, joined))

    def is_foreign(self, name: str) -> bool:
        """Whether the first part of a dotted name is a package that is not in this repository."""
        head, dot, _ = name.partition(".")
        return bool(dot) and head in self._foreign

    @cached_property
    def own_modules(self) -> frozenset[str]:
        """The names under which the files of this repository can be imported."""
        return frozenset(part for uri in self._files.documents for part in parts_of(uri))

    def is_own_program(self, command: str) -> bool:
        """Whether a command may be one that this repository installs."""
        program = command.rpartition("/")[2].partition(".")[0]
        return not self._programs.isdisjoint((program, re.split(r"[-_]", program)[0]))

    @cached_property
    def _programs(self) -> frozenset[str]:
        """Python packages, and what is in the usual folders of programs."""
        return frozenset(
            name
            for uri in self._files.documents
            if is_product(uri)
            for match in (_PROGRAM.search(f"/{uri}"),)
            if match is not None
            for name in match.groups()
            if name
        )

    @cached_property
    def _foreign(self) -> frozenset[str]:
        own = self.own_modules
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

    def _lacks(self, dotted: str) -> Lacking | None:
        """Return the member that a module or class lacks, or None if it has it or may have it."""
        value, rest = self._names.follow(dotted)
        is_last = len(rest) == 1
        if (
            not rest
            or value.kind not in ("module", "class")
            or not (is_last or value.kind == "module")
        ):
            return None
        files = self._names.list_files(value)
        if files is None:
            return None
        word = re.compile(rf"(?<![A-Za-z0-9_])(?:{re.escape(rest[0])}|__getattr__)(?![A-Za-z0-9_])")
        if any(word.search(self._files.text(file.uri)) for file in files):
            return None
        if any(self._names.is_submodule(file, rest[0]) for file in files):
            return None
        return Lacking(rest[0], frozenset(file.uri for file in files), is_last)

    def _parameters(self, dotted: str) -> tuple[str, frozenset[str]] | None:
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
        symbol = next((s for s in self._parse(uri).symbols if s.section == place.section), None)
        if symbol is None or symbol.kind not in ("function", "method") or symbol.decorators:
            return None
        if any(parameter.startswith("**") for parameter in symbol.parameters):
            return None
        return uri, frozenset(re.split(r"[:=\s]", p.lstrip("*"))[0] for p in symbol.parameters)

    def _parse_file(self, uri: str) -> Document:
        return text_parser_for(uri)(uri, self._files.text(uri))


def parts_of(uri: str) -> Iterable[str]:
    """Return the names under which a file can be imported: its own and those of its folders."""
    *folders, last = uri.split("/")
    return (*folders, last.partition(".")[0])


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
