"""Source files: summaries, calls and the call graph, and documentation that names what is gone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from lookfar.model.answers import Incomplete
from lookfar.model.documents import SymbolKind, Visibility


@dataclass(frozen=True, slots=True)
class LineCounts:
    """Every line is code, blank or a comment; docstrings are comments."""

    total: int
    code: int
    blank: int
    comments: int


@dataclass(frozen=True, slots=True)
class FunctionSummary:
    """A function or method with its complexity."""

    name: str
    kind: SymbolKind
    start_line: int
    end_line: int
    signature: str
    docstring: str
    is_async: bool
    is_exported: bool
    param_count: int
    complexity: int
    """Cyclomatic complexity, without that of nested functions."""
    nesting: int
    """Maximum nesting of control structures."""
    parent: str = ""
    visibility: Visibility = ""
    decorators: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClassSummary:
    """A class, interface, struct, trait or enum."""

    name: str
    kind: SymbolKind
    start_line: int
    end_line: int
    signature: str
    docstring: str
    is_exported: bool
    methods: tuple[str, ...]
    """Names, in file order."""


@dataclass(frozen=True, slots=True)
class ImportSummary:
    source: str
    specifiers: tuple[str, ...]
    line: int


@dataclass(frozen=True, slots=True)
class ExportSummary:
    name: str
    kind: SymbolKind


@dataclass(frozen=True, slots=True)
class Complexity:
    cyclomatic: int
    """Decision points, plus one for each function (at least one)."""
    max_nesting: int
    average: float
    """Average over its functions; 0 without functions."""
    decision_points: int
    score: int
    """0 to 100; higher is simpler."""


@dataclass(frozen=True, slots=True)
class FileSummary:
    """A summary of a source file."""

    uri: str
    language: str
    lines: LineCounts
    functions: tuple[FunctionSummary, ...]
    classes: tuple[ClassSummary, ...]
    imports: tuple[ImportSummary, ...]
    exports: tuple[ExportSummary, ...]
    complexity: Complexity
    size: int
    """Size of the normalised text in bytes."""
    full_support: bool
    """Whether imports, exports and metrics are supported, and the grammar parsed all of it."""


class CallSite(NamedTuple):
    """A call as it is written."""

    section: int
    """Ordinal of the innermost section around it, or -1."""
    line: int
    name: str
    """Name of what is called."""
    receiver: str
    """What is before the name: ``a.b``, ``Foo()`` for an object of that class, ``@`` for the
    object whose method calls, ``^`` for its parent class, ``?`` if unknown; or empty."""


class CodeSymbol(NamedTuple):
    """A definition, with what is needed to resolve calls to it."""

    section: int
    parent: int
    """Ordinal of the section around it, or -1."""
    title: str
    """As in the outline: the name, or ``Owner.name`` if it is defined outside its owner."""
    kind: str
    line: int
    end_line: int
    returns: str
    """Simplified type of its result; for a property also of its value."""
    bases: tuple[str, ...]
    """Parent classes, as written."""
    marks: str
    """``p`` for a property, ``o`` for an overload without a body of its own, ``t`` for a test."""


@dataclass(frozen=True, slots=True)
class CallFacts:
    """Everything that one source file contributes to the call graph."""

    language: str
    symbols: tuple[CodeSymbol, ...] = ()
    calls: tuple[CallSite, ...] = ()
    imports: tuple[tuple[str, str, str], ...] = ()
    """The name here, the module, and the name there; ``*`` binds every name of the module."""
    variables: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    """By section of a class, or -1 for the file: names and the expressions they stand for."""


CallDirection = Literal["callers", "callees"]


@dataclass(frozen=True, slots=True)
class CallNode:
    """A definition in a call graph, and how it was reached."""

    uri: str
    name: str
    """Full name; empty for code outside of any definition."""
    kind: str
    line: int
    """Line of its definition; 1 for code outside of any definition."""
    end_line: int
    depth: int
    """Number of calls between it and the definition that was asked about."""
    parent: int
    """Position of the node it was reached from; -1 for the definition that was asked about."""
    calls: tuple[int, ...]
    """Lines of the calls, in the file of the caller."""
    certain: bool
    """Whether scope, imports or types lead to it; if not, only the name does."""
    test: bool
    """Whether it is a test."""


@dataclass(frozen=True, slots=True)
class CallGraph:
    """The callers or callees of a definition, nearest first."""

    collection: str
    generation: int
    direction: CallDirection
    uri: str
    name: str
    kind: str
    line: int
    end_line: int
    nodes: tuple[CallNode, ...]
    depth: int
    """How many calls away was searched."""
    complete: bool
    """False if there are more nodes within this depth."""
    incomplete: tuple[Incomplete, ...] = ()


RouteLink = Literal["call", "override", "mention", "name"]
"""What leads from a definition to the next: a call that the index resolved, a method that overrides
the called one, a mention without a call, or a call of which only the name is known."""


@dataclass(frozen=True, slots=True)
class CallStep:
    """A definition on the way from one to another."""

    uri: str
    name: str
    kind: str
    line: int
    end_line: int
    signature: str
    """The line of its definition."""
    link: RouteLink | None
    """What leads to the next definition; None for the last one."""
    calls: tuple[int, ...]
    """Lines that lead there; none for an override."""
    call: str
    """The first of these lines."""
    namesakes: int
    """If only the name of the next definition is known: how many definitions have it."""


@dataclass(frozen=True, slots=True)
class CallRoute:
    """How a definition reaches another by calls."""

    collection: str
    generation: int
    source: str
    target: str
    steps: tuple[CallStep, ...]
    """From the first definition to the last; empty if no way was found."""
    complete: bool
    """Whether the index resolved every call on the way."""
    searched_all: bool
    """Whether everything that the first one reaches was looked at."""
    reverse: bool
    """Whether no way was found, but there is one from the target to the source."""
    callers: tuple[CallNode, ...] = ()
    """If no way was found: what certainly calls the target, without tests."""
    mentions: tuple[tuple[str, int], ...] = ()
    """If no way was found: documents, without tests, that mention it, and the first line."""
    incomplete: tuple[Incomplete, ...] = ()


ClaimKind = Literal["symbol", "import", "file", "option", "setting", "parameter"]


@dataclass(frozen=True, slots=True)
class Claim:
    """Something that a document names as code."""

    kind: ClaimKind
    name: str
    """As written, without decoration: ``Flask.run``, ``docs/setup.md``, ``--reload``."""
    line: int
    start: int
    """Offset of the code span."""
    call: str = ""
    """For a parameter, the function it is passed to; for an option, the command, if it is known."""
    is_full: bool = False
    """Whether the name is known to begin with its package, as in an import."""


@dataclass(frozen=True, slots=True)
class Drift:
    """A place in a document that names something which is gone or has changed since."""

    uri: str
    line: int
    heading_path: tuple[str, ...]
    kind: ClaimKind
    name: str
    state: Literal["gone", "moved", "changed"]
    was: str
    """File in which it last was defined, or the file itself."""
    now: str
    """Where a file was moved to; otherwise empty."""
    commit: str
    """Commit that removed it."""
    removed_at: int
    """Time of that commit, in seconds since 1970."""
    touched_at: int
    """Time of the last change of the line, in seconds since 1970."""
    text: str
    """The line of the document."""


@dataclass(frozen=True, slots=True)
class DriftReport:
    """Every drift that was found in the documentation of a collection."""

    collection: str
    generation: int
    documents: int
    """Number of documents that were checked."""
    claims: int
    """Number of names in them."""
    drifts: tuple[Drift, ...]
    incomplete: tuple[Incomplete, ...] = ()
