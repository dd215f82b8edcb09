"""Summaries of source files."""

from __future__ import annotations

from dataclasses import dataclass

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
