"""What a summary of a source file consists of."""

from __future__ import annotations

from dataclasses import dataclass

from lookfar.model.documents import SymbolKind, Visibility


@dataclass(frozen=True, slots=True)
class LineCounts:
    """Every line is one of code, blank and comments; docstrings are comments."""

    total: int
    code: int
    blank: int
    comments: int


@dataclass(frozen=True, slots=True)
class FunctionSummary:
    """A function or method, and how hard it is to follow."""

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
    """Cyclomatic: one more than the decision points that no function inside it has."""
    nesting: int
    """How deep control structures stand in one another."""
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
    """Names, in the order of the file."""


@dataclass(frozen=True, slots=True)
class ImportSummary:
    """What a file takes from elsewhere."""

    source: str
    specifiers: tuple[str, ...]
    line: int


@dataclass(frozen=True, slots=True)
class ExportSummary:
    """What a file offers."""

    name: str
    kind: SymbolKind


@dataclass(frozen=True, slots=True)
class Complexity:
    """How hard a file is to follow."""

    cyclomatic: int
    """Decision points, and one for each function (at least one)."""
    max_nesting: int
    average: float
    """Of its functions; 0 where it has none."""
    decision_points: int
    score: int
    """0 to 100, higher is simpler."""


@dataclass(frozen=True, slots=True)
class FileSummary:
    """What is in a source file, for whoever does not want to read it."""

    uri: str
    language: str
    lines: LineCounts
    functions: tuple[FunctionSummary, ...]
    classes: tuple[ClassSummary, ...]
    imports: tuple[ImportSummary, ...]
    exports: tuple[ExportSummary, ...]
    complexity: Complexity
    size: int
    """Bytes of the normalised text."""
    full_support: bool
    """Imports, exports and metrics are known for its language."""
