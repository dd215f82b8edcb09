"""The source files of one generation, as the call graph sees them.

The facts of a file are its definitions, imports and calls. They are read from the index, and a file
whose facts are missing or damaged is parsed again.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, NamedTuple

from lookfar.model import CallFacts, CallSite, CodeSymbol, Filters
from lookfar.ports import Snapshot
from lookfar.store.keywords.signatures import fold
from lookfar.text.parse.calls.call_rules import CALL_RULES
from lookfar.text.parse.calls.facts import decode_facts

CONTAINERS: Final = frozenset(("class", "interface", "struct", "trait", "impl", "enum", "module"))
_MOST_FILES: Final = 4_000
"""The most files whose facts are kept in memory."""
_PARTS: Final = re.compile(r"\.prototype\.|::|[.#]")
_FAMILIES: Final = {
    "javascript": "script", "typescript": "script", "tsx": "script", "c": "c", "cpp": "c",
    "java": "jvm", "kotlin": "jvm", "scala": "jvm",
}  # fmt: skip


_TEST_FILE: Final = re.compile(
    r"(^|/)(tests?/|test_[^/]*$|[^/]*[._-](test|spec)s?\.[^/]+$)", re.IGNORECASE
)


def is_test_file(uri: str) -> bool:
    """Whether a path has one of the usual names of test files."""
    return _TEST_FILE.search(uri) is not None


class Place(NamedTuple):
    """A definition: its document and the ordinal of its section."""

    document: int
    section: int


def split_title(title: str) -> tuple[str, str]:
    """Split a title into the owner, which may be empty, and the name."""
    parts = _PARTS.split(title)
    return ".".join(parts[:-1]), parts[-1]


def language_family(language: str) -> str:
    """Return the family of a language: languages in one family can call each other."""
    return _FAMILIES.get(language, language)


class CodeFile:
    """One source file: its facts, and its definitions by name."""

    def __init__(self, document: int, uri: str, facts: CallFacts) -> None:
        self.document = document
        self.uri = uri
        self.folder = uri.rpartition("/")[0]
        self.facts = facts
        self.language = facts.language
        self.symbols = {symbol.section: symbol for symbol in facts.symbols}

    @cached_property
    def children(self) -> Mapping[int, Mapping[str, list[CodeSymbol]]]:
        """Definitions by enclosing section and name; the section is -1 at the top level."""
        children: dict[int, dict[str, list[CodeSymbol]]] = defaultdict(dict)
        for symbol in self.facts.symbols:
            parent = symbol.parent if symbol.parent in self.symbols else -1
            children[parent].setdefault(symbol.title, []).append(symbol)
        return children

    @cached_property
    def owned(self) -> Mapping[tuple[str, str], list[CodeSymbol]]:
        """Methods that are defined outside their type, by owner and name."""
        owned: dict[tuple[str, str], list[CodeSymbol]] = defaultdict(list)
        for symbol in self.facts.symbols:
            owner, name = split_title(symbol.title)
            if owner:
                owned[owner, name].append(symbol)
        return owned

    @cached_property
    def calls_in(self) -> Mapping[int, Sequence[CallSite]]:
        """The calls by the section that they are in."""
        calls: dict[int, list[CallSite]] = defaultdict(list)
        for call in self.facts.calls:
            calls[call.section].append(call)
        return calls

    def list_inside(self, section: int) -> list[int]:
        """Return a section and the definitions inside it; they follow it in the file."""
        inside = [section]
        if section >= 0:
            known = {section}
            for other, symbol in self.symbols.items():
                if symbol.parent in known:
                    known.add(other)
                    inside.append(other)
        return inside

    @cached_property
    def imports(self) -> Mapping[str, tuple[str, str]]:
        """The module and the original name of each import, by the name that this file uses."""
        return {bound: (module, name) for bound, module, name in self.facts.imports}

    @cached_property
    def star_imports(self) -> Sequence[str]:
        return [module for bound, module, _ in self.facts.imports if bound == "*"]

    def path_of(self, section: int) -> str:
        """Return the full name of a definition."""
        titles: list[str] = []
        while section in self.symbols:
            titles.append(self.symbols[section].title)
            section = self.symbols[section].parent
        return ".".join(reversed(titles))


class CodeFiles:
    """All source files of a snapshot, read when they are needed."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        listed = snapshot.cached("listed", snapshot.facts)
        self._listed = {facts.document: facts for facts in listed if facts.lane == "code"}
        self.documents = {facts.uri: facts.document for facts in self._listed.values()}
        self._files: dict[int, CodeFile] = snapshot.cached("code files", dict)

    def uri_of(self, document: int) -> str:
        return self._listed[document].uri

    def language_of(self, document: int) -> str:
        return self._listed[document].language

    def file(self, document: int) -> CodeFile:
        """Return one file."""
        if document not in self._files:
            self._load([document])
        return self._files[document]

    def files_with(self, word: str) -> Iterator[CodeFile]:
        """Yield the files that may contain a word, sorted by URI."""
        documents = [
            document
            for document in self._snapshot.documents_with(fold(word.encode()), Filters())
            if document in self._listed
        ]
        documents.sort(key=self.uri_of)
        for start in range(0, len(documents), 500):
            some = documents[start : start + 500]
            self._load([document for document in some if document not in self._files])
            # Another question may have emptied the cache in the meantime.
            yield from [self.file(document) for document in some]

    def named(self, name: str) -> Sequence[Place]:
        """Return every definition with this name, without its owner, whose calls are known."""
        places = self._by_name.get(name, ())
        return [place for place in places if self.language_of(place.document) in CALL_RULES]

    @cached_property
    def _by_name(self) -> Mapping[str, Sequence[Place]]:
        return self._snapshot.cached("symbols by name", self._index_names)

    @property
    def names(self) -> Sequence[str]:
        """Every name that is defined somewhere."""
        return list(self._by_name)

    def _index_names(self) -> Mapping[str, Sequence[Place]]:
        names: dict[str, list[Place]] = defaultdict(list)
        for document, section, title in self._snapshot.symbols():
            if document in self._listed:
                names[split_title(title)[1]].append(Place(document, section))
        return names

    def text(self, uri: str) -> str:
        return self._snapshot.text(uri) or ""

    def _load(self, documents: Sequence[int]) -> None:
        if len(self._files) + len(documents) > _MOST_FILES:
            self._files.clear()
        stored = self._snapshot.call_facts(documents)
        for document in documents:
            facts = decode_facts(stored[document]) if document in stored else None
            self._files[document] = CodeFile(
                document, self.uri_of(document), facts or self._parse(document)
            )

    def _parse(self, document: int) -> CallFacts:
        """Parse a file whose stored facts cannot be used, and return its facts."""
        from lookfar.text.parse.calls.extract import find_calls
        from lookfar.text.parse.formats import text_parser_for

        uri = self.uri_of(document)
        text = self._snapshot.text(uri) or ""
        return find_calls(text_parser_for(uri, as_source=True)(uri, text)) or CallFacts(
            self.language_of(document)
        )
