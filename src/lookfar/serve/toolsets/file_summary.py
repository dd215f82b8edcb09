"""The shape of a file's summary, as Search MCP's clients know it.

Takes: a ``FileSummary`` and what is wished for. Gives: a JSON object that a reader can bear.
Refuses: to leave things out in silence; where a list had to be cut, ``truncated`` says so.
"""

from __future__ import annotations

from lookfar.model import ClassSummary, FileSummary, FunctionSummary
from lookfar.serve.tools.tool import Json
from lookfar.serve.toolsets.single import fitting


def summary_shape(
    found: FileSummary, took_ms: float, *, complexity: bool, docstrings: bool
) -> Json:
    """The summary with or without measures of complexity and documentation."""
    lists = (found.functions, found.classes, found.imports, found.exports)
    rows = max(map(len, lists))
    texts = [each.docstring for each in found.functions]
    texts += [each.docstring for each in found.classes]
    longest = max(map(len, texts), default=0)

    def render(most: int, chars: int) -> Json:
        cut = any(len(each) > most for each in lists) or (docstrings and chars < longest)
        shape: Json = {
            "path": found.uri,
            "language": found.language,
            "lines": {
                "total": found.lines.total,
                "code": found.lines.code,
                "blank": found.lines.blank,
                "comments": found.lines.comments,
            },
            "functions": [
                _function(each, complexity, docstrings, chars) for each in found.functions[:most]
            ],
            "classes": [_class(each, docstrings, chars) for each in found.classes[:most]],
            "imports": [
                {"source": each.source, "specifiers": list(each.specifiers)}
                for each in found.imports[:most]
            ],
            "exports": [{"name": each.name, "type": each.kind} for each in found.exports[:most]],
        }
        if complexity:
            shape["complexity"] = {
                "cyclomatic": found.complexity.cyclomatic,
                "maxNesting": found.complexity.max_nesting,
                "avgFunctionComplexity": round(found.complexity.average, 2),
                "decisionPoints": found.complexity.decision_points,
                "score": found.complexity.score,
            }
        shape |= {
            "size": found.size,
            "extractionTimeMs": round(took_ms, 1),
            "fullSupport": found.full_support,
        }
        return {**shape, "truncated": True} if cut else shape

    return fitting(rows, longest, render)


def _function(each: FunctionSummary, complexity: bool, docstrings: bool, chars: int) -> Json:
    shape: Json = {
        "name": each.name,
        "type": each.kind,
        "startLine": each.start_line,
        "endLine": each.end_line,
        "signature": each.signature,
    }
    if docstrings:
        shape["docstring"] = each.docstring[:chars]
    shape |= {
        "isAsync": each.is_async,
        "isExported": each.is_exported,
        "paramCount": each.param_count,
    }
    if complexity:
        shape |= {"complexity": each.complexity, "nestingDepth": each.nesting}
    return shape


def _class(each: ClassSummary, docstrings: bool, chars: int) -> Json:
    shape: Json = {
        "name": each.name,
        "type": each.kind,
        "startLine": each.start_line,
        "endLine": each.end_line,
        "signature": each.signature,
    }
    if docstrings:
        shape["docstring"] = each.docstring[:chars]
    return {**shape, "isExported": each.is_exported, "methods": list(each.methods)}
