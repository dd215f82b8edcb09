"""Read what one source file contributes to the call graph, with one query over its syntax tree."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from lookfar.model import CallFacts, CallSite, CodeSymbol, Document, Section, Symbol
from lookfar.text.parse.calls.call_rules import (
    CALL_RULES,
    CallRules,
    find_default_export,
    read_imports,
)
from lookfar.text.parse.calls.scopes import (
    CONTAINERS,
    NAME,
    OWN,
    PARENT,
    UNKNOWN,
    Captured,
    Scopes,
    Sections,
    bind_parameters,
    bind_variables,
    simplify,
    simplify_type,
)
from lookfar.text.parse.comments import compile_query
from lookfar.text.parse.languages import Language, find_language
from lookfar.text.parse.syntax_tree import parse_tree

if TYPE_CHECKING:
    from tree_sitter import Tree


_WORD = re.compile(r"[\w$]")
_PARENTS = re.compile(r"(?:\bextends|\bimplements|(?<!:):(?!:)|<|\bwith)\s+(.*)$", re.DOTALL)
_ARGUMENTS = re.compile(r"\[[^\[\]]*\]|<[^<>]*>|\([^()]*\)")
_BETWEEN = re.compile(r",|\bimplements\b|\bextends\b|\bwith\b")
_ACCESS = re.compile(r"\b(?:public|private|protected|virtual)\b")
_PARENT = re.compile(r"[\w$.:\\]+")
_LONGEST_CALLEE = 1_000
"""In a chain of calls, each call contains the one before it."""
_MOST_CALLS = 20_000
_LAST_NAME = re.compile(r"(?:\.|->|::)\s*([^\W\d][\w$]*)\s*$")
_ROLES = ("callee", "direct", "function", "class", "bind", "parameter", "import", "default")


def find_calls(document: Document) -> CallFacts | None:
    """Return the facts of one source file; None without a grammar, or if it was not parsed."""
    rules = CALL_RULES.get(document.language)
    language = find_language(document.language)
    tree = parse_tree(language, document.text) if rules and language else None
    if rules is None or language is None or tree is None:
        return None
    nodes = _find_nodes(tree, language)
    sections = Sections(document)
    scopes = Scopes(nodes["function"], nodes["class"], sections)
    bind_parameters(nodes["parameter"], rules, scopes)
    bind_variables(nodes["bind"], document.language, rules, scopes)
    if exported := find_default_export(nodes["default"]):
        scopes.set_default(exported)
    return CallFacts(
        language=document.language,
        symbols=tuple(read_symbols(document)),
        calls=read_sites(nodes["callee"], nodes["direct"], rules, scopes, sections),
        imports=read_imports(nodes["import"], rules.read_import),
        variables=scopes.list_variables(),
    )


def _find_nodes(tree: Tree, language: Language) -> Mapping[str, list[Captured]]:
    """Return the nodes that the call graph needs, by their role and in the order of the text."""
    import tree_sitter

    patterns = _list_patterns(language.language)
    query = compile_query(language.grammar, " ".join(pattern for _, pattern in patterns))
    # Not ``captures``: it returns the nodes in the order of their memory addresses.
    matches = tree_sitter.QueryCursor(query).matches(tree.root_node)
    nodes: dict[str, list[Captured]] = {role: [] for role in _ROLES}
    append = [nodes[role].append for role, _ in patterns]
    for number, captured in matches:
        append[number](captured)
    return nodes


@cache
def _list_patterns(language: str) -> Sequence[tuple[str, str]]:
    """Return the patterns of a query, each with the role of the nodes that it finds."""
    rules = CALL_RULES[language]
    patterns: list[tuple[str, str]] = []
    for kind, name in (*rules.calls.items(), *rules.creations.items()):
        patterns.append(("callee", f"({kind} {_child(name)} @at)"))
    patterns += [("callee", pattern) for pattern in rules.decorators]
    for kind, (receiver, name) in rules.direct.items():
        patterns.append(("direct", f"({kind} {receiver}: (_) @receiver {name}: (_) @at)"))
        patterns.append(("direct", f"({kind} !{receiver} {name}: (_) @at)"))
    patterns += [("function", f"({kind}) @at") for kind in rules.functions]
    patterns += [("class", f"({kind}) @at") for kind in rules.classes]
    for kind, bound in rules.bindings.items():
        patterns.append(("bind", f"({kind} {_child(bound.name)} @name) @at"))
    patterns += [("parameter", pattern) for pattern in rules.parameters]
    patterns += [("import", pattern) for pattern in rules.imports]
    patterns += [("default", rules.default)] if rules.default else []
    return patterns


def _child(name: str) -> str:
    """Return the pattern of a field or, without a name, of the first child."""
    return f"{name}: (_)" if name else ". (_)"


def read_symbols(document: Document) -> Iterator[CodeSymbol]:
    """Yield every definition of a document."""
    text, sections, symbols = document.text, document.sections, document.symbols
    scripted = document.language in ("typescript", "tsx")
    for number, symbol in enumerate(symbols):
        after = symbols[number + 1] if number + 1 < len(symbols) else None
        section = sections[symbol.section]
        declared = _is_overload(symbol) or (
            scripted
            and after is not None
            and after.name == symbol.name
            and sections[after.section].parent == section.parent
        )
        start = section.span.start
        yield CodeSymbol(
            section=symbol.section,
            parent=section.parent,
            title=section.title,
            kind=symbol.kind,
            line=section.span.start_line
            + text.count("\n", start, _find_name(text, symbol, section)),
            end_line=section.span.end_line,
            returns=simplify_type(symbol.returns) if symbol.returns else "",
            bases=_read_bases(symbol) if symbol.kind in CONTAINERS else (),
            marks=("p" if _is_property(symbol) else "")
            + ("o" if declared else "")
            + ("t" if "test" in symbol.tags else ""),
        )


def _find_name(text: str, symbol: Symbol, section: Section) -> int:
    """Return the offset of a definition's name, not of the same word in a comment above it."""
    start, end = section.span.start, max(section.body, section.span.start + 1)
    before = symbol.signature.partition(symbol.name)[0]
    at = text.find(before + symbol.name, start, end) if before else -1
    if at >= 0:
        return at + len(before)
    at = text.find(symbol.name, start, end)
    while at >= 0 and not _is_word(text, at, min(at + len(symbol.name), end), end):
        at = text.find(symbol.name, at + 1, end)
    return at if at >= 0 else start


def _is_word(text: str, start: int, stop: int, end: int) -> bool:
    """Whether no letter or digit is next to ``text[start:stop]``; ``text`` ends at ``end``."""
    return not (start > 0 and _WORD.match(text, start - 1)) and not _WORD.match(text, stop, end)


def _is_overload(symbol: Symbol) -> bool:
    return bool(symbol.decorators) and any("overload" in mark for mark in symbol.decorators)


def _is_property(symbol: Symbol) -> bool:
    if "getter" in symbol.tags:
        return True
    return bool(symbol.decorators) and any("property" in mark for mark in symbol.decorators)


def _read_bases(symbol: Symbol) -> tuple[str, ...]:
    """Return the parents of a class, from its signature."""
    after = symbol.signature.partition(symbol.name)[2].lstrip()
    if after.startswith("("):
        listed = after[1:].rpartition(")")[0]
        if ":" in after.rpartition(")")[2]:  # Kotlin: parameters, then the parents.
            listed = after.rpartition(")")[2].partition(":")[2]
    else:
        match = _PARENTS.search(after)
        listed = match[1] if match else ""
    listed = _ARGUMENTS.sub("", listed)
    names = _BETWEEN.split(listed)
    cleaned = (_ACCESS.sub("", name).strip() for name in names)
    return tuple(
        name.replace("::", ".").replace("\\", ".").strip(".")
        for name in cleaned
        if _PARENT.fullmatch(name)
    )


class _Called(NamedTuple):
    """What a call names."""

    name: str
    receiver: str
    """A path, or empty."""
    lines: int
    """How many lines below the start of the call its name is."""
    is_local: bool
    """Whether it starts with a name that a function of the file binds."""


def read_sites(
    callees: Iterable[Captured],
    direct: Iterable[Captured],
    rules: CallRules,
    scopes: Scopes,
    sections: Sections,
) -> tuple[CallSite, ...]:
    """Return the calls of a file by line: of expressions, and those with a separate name."""
    reader = _SiteReader(rules, scopes, sections)
    reader.read_callees(callees)
    reader.read_direct(direct)
    by_line = sorted(reader.sites, key=itemgetter(1))
    return tuple(map(CallSite._make, by_line[:_MOST_CALLS]))


class _SiteReader:
    """Collects the calls of one file."""

    def __init__(self, rules: CallRules, scopes: Scopes, sections: Sections) -> None:
        self.sites: dict[tuple[int, int, str, str], None] = {}
        """Section, line, name and receiver of every call; a dictionary keeps the order."""
        self._rules = rules
        self._scopes = scopes
        self._sections = sections

    def read_callees(self, matches: Iterable[Captured]) -> None:
        """Read calls whose callee is one expression, such as ``shelf.put``."""
        known: dict[bytes, _Called | None] = {}
        for match in matches:
            node = match["at"][0]
            raw = node.text or b""
            if raw in known:
                called = known[raw]
            else:
                called = self._split(raw.decode("utf-8", "replace"))
                if len(raw) <= _LONGEST_CALLEE:
                    known[raw] = called
            if called is not None:
                self._add(called, node.start_byte)

    def read_direct(self, matches: Iterable[Captured]) -> None:
        """Read calls whose receiver and name are separate nodes."""
        known: dict[tuple[bytes, bytes], _Called | None] = {}
        for match in matches:
            node, before = match["at"][0], match.get("receiver")
            key = (node.text or b"", (before[0].text or b"") if before else b"")
            if key in known:
                called = known[key]
            else:
                name, written = (raw.decode("utf-8", "replace") for raw in key)
                called = self._make(name, simplify(written, self._rules) if before else "", 0)
                if len(key[1]) <= _LONGEST_CALLEE:
                    known[key] = called
            if called is not None:
                self._add(called, node.start_byte)

    def _add(self, called: _Called, start: int) -> None:
        name, receiver, lines, is_local = called
        if is_local:
            name, receiver = self._substitute(name, receiver, start)
        if name:
            # The name is at the end of a chain that may begin lines above.
            line = self._sections.find_line(start) + lines
            self.sites[self._sections.find(start), line, name, receiver] = None

    def _split(self, written: str) -> _Called | None:
        """Split a called expression into receiver and name; None if it has no name."""
        if len(written) > _LONGEST_CALLEE:  # A long chain: only its last name is of use.
            written = "?." + written[-80:].rpartition(".")[2]
        path = simplify(written, self._rules)
        if path == UNKNOWN:
            tail = _LAST_NAME.search(written)
            if tail is None:
                return None
            path = f"?.{tail[1]}"
        receiver, _, name = path.rpartition(".")
        if path in (OWN, PARENT):
            receiver, name = path, "constructor"
        if name.endswith("()"):
            return None
        return self._make(name, receiver, written.count("\n"))

    def _make(self, name: str, receiver: str, lines: int) -> _Called | None:
        name = name.strip("$@")
        if not NAME.fullmatch(name):
            return None
        head = receiver.partition(".")[0].removesuffix("()") if receiver else name
        return _Called(name, receiver, lines, self._scopes.is_local(head))

    def _substitute(self, name: str, receiver: str, start: int) -> tuple[str, str]:
        """Replace a local name by what it stands for; the result is empty if that is not known."""
        scopes = self._scopes
        scope = scopes.find(start)
        if receiver:
            return name, scopes.substitute(receiver, scope)
        value = scopes.look_up(name, scope)
        if value is None:
            return name, ""
        path = scopes.substitute(value, scope, 1) if value != UNKNOWN else UNKNOWN
        if path == UNKNOWN or path.endswith("()") or path in (OWN, PARENT):
            return "", ""  # A parameter or a computed value: which function it is, is not known.
        receiver, _, name = path.rpartition(".")
        return name, receiver
