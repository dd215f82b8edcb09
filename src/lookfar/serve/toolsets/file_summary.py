"""Render a file's summary in the shape that Search MCP's clients know.

If the lists or docstrings are cut to fit its token budget, ``truncated`` says so, and
``nextCursor`` is where the lists continue.
"""

from __future__ import annotations

from typing import Final

from lookfar.model import ClassSummary, FileSummary, FunctionSummary
from lookfar.serve.tools.tool import LONGEST_TIME, Json
from lookfar.serve.toolsets.single import fit_to_budget

_MOST_TOKENS: Final = 4_000
"""The token budget. A summary replaces its file, so it must be much shorter than a large file."""
_MOST_METHODS: Final = 100
"""Methods of one class; all of them are among the functions."""


def render_summary(
    summary: FileSummary, took_ms: float, *, complexity: bool, docstrings: bool, cursor: int = 0
) -> Json:
    """Render a summary from a cursor on, optionally with complexity measures and docstrings."""
    functions, classes = summary.functions[cursor:], summary.classes[cursor:]
    imports, exports = summary.imports[cursor:], summary.exports[cursor:]
    lists = (functions, classes, imports, exports)
    rows = max(map(len, lists))
    texts = [function.docstring for function in functions]
    texts += [cls.docstring for cls in classes]
    longest = max(map(len, texts), default=0)

    def render(limit: int, chars: int) -> Json:
        more = any(len(items) > limit for items in lists)
        cut = more or (docstrings and chars < longest)
        shape: Json = {
            "path": summary.uri,
            "language": summary.language,
            "lines": {
                "total": summary.lines.total,
                "code": summary.lines.code,
                "blank": summary.lines.blank,
                "comments": summary.lines.comments,
            },
            "functions": [
                _render_function(function, complexity, docstrings, chars)
                for function in functions[:limit]
            ],
            "classes": [_render_class(cls, docstrings, chars) for cls in classes[:limit]],
            "imports": [
                {"source": entry.source, "specifiers": list(entry.specifiers)}
                for entry in imports[:limit]
            ],
            "exports": [{"name": export.name, "type": export.kind} for export in exports[:limit]],
        }
        if complexity:
            shape["complexity"] = {
                "cyclomatic": summary.complexity.cyclomatic,
                "maxNesting": summary.complexity.max_nesting,
                "avgFunctionComplexity": round(summary.complexity.average, 2),
                "decisionPoints": summary.complexity.decision_points,
                "score": summary.complexity.score,
            }
        shape |= {
            "size": summary.size,
            "extractionTimeMs": LONGEST_TIME,
            "fullSupport": summary.full_support,
        }
        if more:
            shape["nextCursor"] = cursor + max(limit, 1)
        return {**shape, "truncated": True} if cut else shape

    shape = fit_to_budget(rows, longest, render, _MOST_TOKENS)
    shape["extractionTimeMs"] = round(took_ms, 1)
    return shape


def _render_function(
    function: FunctionSummary, complexity: bool, docstrings: bool, chars: int
) -> Json:
    shape: Json = {
        "name": function.name,
        "type": function.kind,
        "startLine": function.start_line,
        "endLine": function.end_line,
        "signature": function.signature,
    }
    if docstrings:
        shape["docstring"] = function.docstring[:chars]
    shape |= {
        "isAsync": function.is_async,
        "isExported": function.is_exported,
        "paramCount": function.param_count,
    }
    if complexity:
        shape |= {"complexity": function.complexity, "nestingDepth": function.nesting}
    return shape


def _render_class(cls: ClassSummary, docstrings: bool, chars: int) -> Json:
    shape: Json = {
        "name": cls.name,
        "type": cls.kind,
        "startLine": cls.start_line,
        "endLine": cls.end_line,
        "signature": cls.signature,
    }
    if docstrings:
        shape["docstring"] = cls.docstring[:chars]
    methods = list(cls.methods[:_MOST_METHODS])
    if len(cls.methods) > _MOST_METHODS:
        shape["moreMethods"] = len(cls.methods) - _MOST_METHODS
    return {**shape, "isExported": cls.is_exported, "methods": methods}
