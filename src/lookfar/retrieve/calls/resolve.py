"""Find the definitions that a call reaches, by scope, import and the types that the code states.

A result is certain if these rules lead to a definition. Otherwise every definition that the name
could mean is a result by name. A call that provably leaves the repository has no result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple

from lookfar.model import CallSite, CodeSymbol
from lookfar.retrieve.calls.code_files import (
    CONTAINERS,
    CodeFile,
    CodeFiles,
    Place,
    language_family,
    split_title,
)
from lookfar.retrieve.calls.modules import Modules
from lookfar.text.parse.calls.call_rules import CALL_RULES

_DEEPEST: Final = 16
_MOST_NAMED: Final = 40
"""A name with more definitions than this is not matched by name."""
_GLOBAL: Final = frozenset(("c", "cpp"))
"""Languages in which a function that is defined once can be called from every file."""
_SAME_FOLDER: Final = frozenset(("go", "java", "kotlin", "scala"))
"""Languages in which the files of a folder see each other without imports."""
_CLOSED: Final = frozenset(("python", "go", "rust"))
"""Languages whose bare names are not matched by name: a file defines or imports what it uses."""
_FUNCTIONS: Final = frozenset(("function", "method", "macro"))

Kind = Literal["module", "class", "object", "parent", "function", "outside", "unknown"]


class Value(NamedTuple):
    """What an expression stands for."""

    kind: Kind
    places: tuple[Place, ...] = ()
    """The files of a module; for other kinds, one definition."""


UNKNOWN: Final = Value("unknown")
_OUTSIDE: Final = Value("outside")


class Reached(NamedTuple):
    """The definitions that a call reaches."""

    places: tuple[Place, ...]
    certain: bool


_NOTHING: Final = Reached((), False)


class Resolver:
    """Resolves the calls of one snapshot."""

    def __init__(self, files: CodeFiles) -> None:
        self.files = files
        self._modules = Modules(files)

    def resolve(self, file: CodeFile, call: CallSite) -> Reached:
        """Return what a call reaches."""
        if not call.receiver:
            return self._resolve_bare(file, call)
        if call.receiver.startswith("?"):
            return self._by_name(file, call.name, member=True)
        value = self._evaluate(file, call.section, call.receiver, 0)
        if value.kind == "outside":
            return _NOTHING
        if value.kind == "unknown":
            return self._by_name(file, call.name, member=True)
        places, is_open = self._find_member(value, call.name, 0)
        if places:
            return Reached(places, certain=self._is_one(places))
        return self._by_name(file, call.name, member=True) if is_open else _NOTHING

    def resolve_mention(
        self, file: CodeFile, section: int, receiver: str, name: str
    ) -> tuple[Place, ...]:
        """Return what a name certainly stands for where it is not called."""
        if not receiver:
            return self._look_up(file, section, name, 0)[0]
        return self._find_member(self._evaluate(file, section, receiver, 0), name, 0)[0]

    def find_member(self, owner: Place, name: str) -> tuple[Place, ...]:
        """Return the definitions of a member of a class, also of an inherited one."""
        return self._find_member(Value("class", (owner,)), name, 0)[0]

    def list_ancestors(self, place: Place) -> list[Place]:
        """Return a class and its parents; an unknown one has section -1."""
        return list(self._list_classes(Value("class", (place,)), 0))

    def _is_one(self, places: Sequence[Place]) -> bool:
        """Whether these places define one thing, as overloads and conditional definitions do."""
        return len({(place.document, self._symbol(place).parent) for place in places}) == 1

    def _symbol(self, place: Place) -> CodeSymbol:
        return self.files.file(place.document).symbols[place.section]

    # -- bare names --

    def _resolve_bare(self, file: CodeFile, call: CallSite) -> Reached:
        places, outside = self._look_up(file, call.section, call.name, 0)
        if places:
            return Reached(places, certain=self._is_one(places))
        if outside or (file.language in _CLOSED and not file.star_imports):
            return _NOTHING
        named = self._by_name(file, call.name, member=False)
        alone = len(named.places) == 1 and file.language in _GLOBAL
        return Reached(named.places, certain=alone)

    def _look_up(
        self, file: CodeFile, section: int, name: str, depth: int
    ) -> tuple[tuple[Place, ...], bool]:
        """Return the definitions of a bare name, and whether it is certainly from elsewhere."""
        around = section
        implicit = CALL_RULES[file.language].implicit
        while around >= 0 and around in file.symbols:
            symbol = file.symbols[around]
            if symbol.kind not in CONTAINERS or symbol.kind == "module":
                if inner := file.children.get(around, {}).get(name):
                    return self._make_places(file, inner), False
            elif implicit:
                owner = Value("object", (Place(file.document, around),))
                if members := self._find_member(owner, name, depth + 1)[0]:
                    return members, False
            around = symbol.parent
        if implicit and section in file.symbols:
            value = self._find_owner(file, section)
            if value.kind == "object" and (found := self._find_member(value, name, depth + 1)[0]):
                return found, False
        return self._look_up_top(file, name, depth)

    def _look_up_top(self, file: CodeFile, name: str, depth: int) -> tuple[tuple[Place, ...], bool]:
        """Return the definitions of a name at the top level of a file; see :meth:`_look_up`."""
        if own := file.children.get(-1, {}).get(name):
            return self._make_places(file, own), False
        if depth > _DEEPEST:
            return (), False
        if name in file.imports:
            return self._look_up_import(file, *file.imports[name], depth + 1)
        for module in file.star_imports:
            for document in self._modules.find(file, module):
                found, _ = self._look_up_top(self.files.file(document), name, depth + 1)
                if found:
                    return found, False
        if file.language in _SAME_FOLDER:
            return self._look_up_folder(file, name), False
        return (), False

    def _look_up_import(
        self, file: CodeFile, module: str, name: str, depth: int
    ) -> tuple[tuple[Place, ...], bool]:
        """Return the definitions that an import binds, also if the module only re-exports them."""
        for document in self._modules.find(file, module) if name else ():
            other = self.files.file(document)
            found, _ = self._look_up_top(other, name, depth)
            if not found and name == "default":
                exported = other.facts.variables.get(-1, {}).get(name, "")
                found, _ = self._look_up_top(other, exported, depth) if exported else ((), False)
            if found:
                return found, False
        value = self._import(file, module, name, depth)
        return (value.places, False) if value.kind in ("class", "function") else ((), True)

    def _look_up_folder(self, file: CodeFile, name: str) -> tuple[Place, ...]:
        """Return the top-level definitions of a name in the files of the same folder."""
        places = [
            place
            for place in self.files.named(name)
            if self.files.uri_of(place.document).rpartition("/")[0] == file.folder
            and language_family(self.files.language_of(place.document))
            == language_family(file.language)
            and self._symbol(place).parent not in self.files.file(place.document).symbols
            and self._symbol(place).title == name
        ]
        return tuple(places)

    def _make_places(self, file: CodeFile, symbols: Sequence[CodeSymbol]) -> tuple[Place, ...]:
        """Return the places of definitions, or of declarations if there are no definitions."""
        real = [s for s in symbols if s.kind != "impl" and "o" not in s.marks] or symbols
        return tuple(Place(file.document, symbol.section) for symbol in real)

    # -- imports --

    def _import(self, file: CodeFile, module: str, name: str, depth: int) -> Value:
        """Return what an import binds."""
        if not name:
            documents = self._modules.find(file, module)
            return as_module(documents) if documents else _OUTSIDE
        documents = self._modules.find(file, module)
        for document in documents:
            value = self._find_exported(self.files.file(document), name, depth)
            if value.kind != "unknown":
                return value
        # ``from package import module`` and ``import a.b.C``: the name is a file of its own.
        separator = "/" if file.language in ("javascript", "typescript", "tsx") else "."
        separator = "::" if file.language == "rust" else separator
        joined = f"{module}{name}" if module.endswith(".") else f"{module}{separator}{name}"
        nested = self._modules.find(file, joined)
        if nested and file.language in ("java", "kotlin", "scala", "csharp", "php"):
            return self._find_exported(self.files.file(nested[0]), name, depth)
        if nested:
            return as_module(nested)
        return UNKNOWN if documents else _OUTSIDE

    def _find_exported(self, file: CodeFile, name: str, depth: int) -> Value:
        """Return the value of a name in another module, also if that module only re-exports it."""
        if depth > _DEEPEST:
            return UNKNOWN
        own = file.children.get(-1, {}).get(name)
        if own:
            first = self._make_places(file, own)[0]
            return self._value_of(file, file.symbols[first.section], depth)
        if name in file.imports:
            module, there = file.imports[name]
            return self._import(file, module, there, depth + 1)
        if submodule := self._modules.find_submodule(file, name):
            return as_module(submodule)
        for module in file.star_imports:
            for document in self._modules.find(file, module):
                value = self._find_exported(self.files.file(document), name, depth + 1)
                if value.kind != "unknown":
                    return value
        expression = file.facts.variables.get(-1, {}).get(name)
        return self._evaluate(file, -1, expression, depth + 1) if expression else UNKNOWN

    # -- expressions --

    def _evaluate(self, file: CodeFile, section: int, path: str, depth: int) -> Value:
        """Return what a path such as ``a.b().c`` stands for."""
        if depth > _DEEPEST:
            return UNKNOWN
        head, *rest = path.split(".")
        value = self._evaluate_head(file, section, head, depth)
        for part in rest:
            if value.kind in ("unknown", "outside"):
                return value
            value = self._attribute(value, part.removesuffix("()"), depth + 1)
            if part.endswith("()"):
                value = self._call(value, depth + 1)
        return value

    def _evaluate_head(self, file: CodeFile, section: int, head: str, depth: int) -> Value:
        if head in ("@", "^"):
            owner = self._find_owner(file, section)
            return Value("parent", owner.places) if head == "^" and owner.places else owner
        name = head.removesuffix("()")
        value = self._name_value(file, section, name, depth)
        return self._call(value, depth) if head != name else value

    def _name_value(self, file: CodeFile, section: int, name: str, depth: int) -> Value:
        places, outside = self._look_up(file, section, name, depth + 1)
        if places:
            return self._value_of(
                self.files.file(places[0].document), self._symbol(places[0]), depth + 1
            )
        if name in file.imports:
            module, there = file.imports[name]
            return self._import(file, module, there, depth + 1)
        for around in (*self._around(file, section), -1):
            expression = file.facts.variables.get(around, {}).get(name)
            if expression and (around < 0 or CALL_RULES[file.language].implicit):
                return self._evaluate(file, around, expression, depth + 1)
        if outside:
            return _OUTSIDE
        if file.language in ("python", "javascript", "typescript", "tsx", "go"):
            return UNKNOWN
        return self._only_class(file, name)

    def _around(self, file: CodeFile, section: int) -> Iterator[int]:
        while section in file.symbols:
            yield section
            section = file.symbols[section].parent

    def _only_class(self, file: CodeFile, name: str) -> Value:
        """Return the type with this name, if the repository has exactly one."""
        family = language_family(file.language)
        places = [
            place
            for place in self.files.named(name)
            if language_family(self.files.language_of(place.document)) == family
            and self._symbol(place).kind in CONTAINERS - {"impl"}
        ]
        return Value("class", (places[0],)) if len(places) == 1 else UNKNOWN

    def _value_of(self, file: CodeFile, symbol: CodeSymbol, depth: int) -> Value:
        """Return the value of a definition."""
        place = Place(file.document, symbol.section)
        if symbol.kind in CONTAINERS:
            return Value("class", (place,))
        if symbol.kind in _FUNCTIONS:
            return Value("function", (place,))
        parent = symbol.parent if symbol.parent in file.symbols else -1
        expression = file.facts.variables.get(parent, {}).get(split_title(symbol.title)[1])
        if expression and depth <= _DEEPEST:
            value = self._evaluate(file, parent, expression, depth + 1)
            if value.kind not in ("unknown", "outside"):
                return value
        return Value("function", (place,))

    def _call(self, value: Value, depth: int) -> Value:
        """Return the result of calling a value."""
        if value.kind == "class":
            return Value("object", value.places)
        if value.kind in ("unknown", "outside"):
            return value
        if value.kind != "function":
            return UNKNOWN
        file = self.files.file(value.places[0].document)
        symbol = self._symbol(value.places[0])
        if symbol.returns in ("Self()", "this()", "typing.Self()", "t.Self()", "te.Self()"):
            return self._find_owner(file, symbol.section)
        if not symbol.returns or symbol.returns == "?":
            return UNKNOWN
        return self._evaluate(file, symbol.parent, symbol.returns, depth + 1)

    def _attribute(self, value: Value, name: str, depth: int) -> Value:
        """Return an attribute of a value."""
        if depth > _DEEPEST:
            return UNKNOWN
        if value.kind == "module":
            values = [
                self._find_exported(self.files.file(place.document), name, depth)
                for place in value.places
            ]
            return next((value for value in values if value.kind != "unknown"), UNKNOWN)
        if value.kind not in ("class", "object", "parent"):
            return UNKNOWN
        places, _ = self._find_member(value, name, depth)
        if places:
            file, symbol = self.files.file(places[0].document), self._symbol(places[0])
            if "p" in symbol.marks:
                return self._call(Value("function", (places[0],)), depth + 1)
            return self._value_of(file, symbol, depth)
        for place in self._list_classes(value, depth):
            file = self.files.file(place.document)
            expression = file.facts.variables.get(place.section, {}).get(name)
            if expression:
                return self._evaluate(file, place.section, expression, depth + 1)
        return UNKNOWN

    # -- classes --

    def _find_owner(self, file: CodeFile, section: int) -> Value:
        """Return an object of the type to which a method belongs."""
        for around in self._around(file, section):
            symbol = file.symbols[around]
            if symbol.kind in CONTAINERS and symbol.kind != "module":
                return Value("object", (Place(file.document, around),))
            owner = split_title(symbol.title)[0]
            if owner:
                value = self._name_value(file, -1, owner.rpartition(".")[2], 0)
                if value.kind == "unknown":
                    value = self._only_class(file, owner.rpartition(".")[2])
                return Value("object", value.places) if value.kind == "class" else UNKNOWN
        return UNKNOWN

    def _find_member(self, value: Value, name: str, depth: int) -> tuple[tuple[Place, ...], bool]:
        """Return the definitions of a member, and whether it may be defined somewhere unknown."""
        if value.kind == "module":
            for place in value.places:
                exported = self._find_exported(self.files.file(place.document), name, depth + 1)
                if exported.kind in ("class", "function", "object"):
                    own = self.files.file(place.document).children.get(-1, {}).get(name)
                    if own:
                        return self._make_places(self.files.file(place.document), own), False
                    return exported.places, False
            return (), False
        if value.kind not in ("class", "object", "parent"):
            return (), value.kind == "unknown"
        is_open = False
        for place in self._list_classes(value, depth):
            if place.section < 0:
                is_open = True
                continue
            if found := self._own_members(place, name):
                return found, False
        # It may be an attribute with an unknown value, or be inherited from another package.
        return (), is_open or value.kind == "object"

    def _own_members(self, place: Place, name: str) -> tuple[Place, ...]:
        file = self.files.file(place.document)
        symbol = self._symbol(place)
        type_name = split_title(symbol.title)[1]
        own = list(file.children.get(place.section, {}).get(name, ()))
        own += file.owned.get((type_name, name), ())
        if not own and file.language in ("rust", "swift", "csharp", "kotlin"):
            same = [
                other.section
                for other in file.facts.symbols
                if other.title == symbol.title and other.section != place.section
            ]
            own = [
                member for other in same for member in file.children.get(other, {}).get(name, ())
            ]
        if own:
            return self._make_places(file, own)
        if file.language not in ("go", "c", "cpp"):
            return ()
        return tuple(
            candidate
            for candidate in self.files.named(name)
            if split_title(self._symbol(candidate).title)[0].rpartition(".")[2] == type_name
            and (
                file.language != "go"
                or self.files.uri_of(candidate.document).rpartition("/")[0] == file.folder
            )
        )

    def _list_classes(self, value: Value, depth: int) -> Iterator[Place]:
        """Yield a class and its parents; an unknown parent is a place with section -1."""
        waiting = list(value.places)
        seen = set(waiting)
        first = value.kind != "parent"
        while waiting:
            place = waiting.pop(0)
            if first:
                yield place
            first = True
            file = self.files.file(place.document)
            for base in self._symbol(place).bases:
                if base.rpartition(".")[2] in ("object", "Generic", "Protocol", "ABC"):
                    continue
                parent = self._evaluate(file, self._symbol(place).parent, base, depth + 2)
                if parent.kind != "class":
                    yield Place(place.document, -1)
                elif parent.places[0] not in seen:
                    seen.add(parent.places[0])
                    waiting.append(parent.places[0])

    # -- by name --

    def _by_name(self, file: CodeFile, name: str, *, member: bool) -> Reached:
        """Return every definition a name could mean; for a member, only those inside a type."""
        family = language_family(file.language)
        places = []
        for place in self.files.named(name):
            if language_family(self.files.language_of(place.document)) != family:
                continue
            other = self.files.file(place.document)
            symbol = self._symbol(place)
            parent = other.symbols.get(symbol.parent)
            owner = split_title(symbol.title)[0]
            inside = bool(owner) or (parent is not None and parent.kind in CONTAINERS)
            loose = family == "script" or file.language in ("lua", "ruby", "elixir")
            if inside == member or (loose and member):
                places.append(place)
        return Reached(tuple(places), False) if len(places) <= _MOST_NAMED else _NOTHING


def as_module(documents: Sequence[int]) -> Value:
    return Value("module", tuple(Place(document, -1) for document in documents))
