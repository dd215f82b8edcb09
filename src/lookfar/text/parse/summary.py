"""Summarise a source file: definitions, imports, exports and metrics.

A decision point is a branch, a loop, a case, a handler, or a logical operator that may skip its
right side. The score starts at 100 and loses up to 40 for the average complexity of functions (4
for each above 1), up to 30 for nesting (5 for each level beyond 2), and up to 30 for density (1
for each decision per hundred lines of code beyond ten).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from lookfar import model
from lookfar.common.lines import Lines
from lookfar.text.normalise import ByteOffsets
from lookfar.text.parse.comments import compile_query, find_comments
from lookfar.text.parse.grammars.rules import node_text, one_line
from lookfar.text.parse.languages import find_language
from lookfar.text.parse.source_code import parse
from lookfar.text.parse.syntax_tree import gives_up, parse_tree

if TYPE_CHECKING:
    from tree_sitter import Node, Tree

_CLASSES = frozenset(("class", "interface", "struct", "trait", "enum"))
_FUNCTIONS = frozenset(("function", "method"))
_LISTED = frozenset(("function", "method", "macro"))
_LONGEST_ERROR = 200
"""A grammar gave up on a file if it could not parse so many bytes at once."""
_STRING = re.compile(r"[\"'`]([^\"'`]*)[\"'`]")
_NAME = re.compile(r"[\w$]+")


class _Metrics(NamedTuple):
    nests: tuple[str, ...]
    """Control structures: a decision, and a deeper level for what is inside."""
    decides: tuple[str, ...]
    """Decisions without a deeper level."""
    tokens: tuple[str, ...]
    imports: tuple[str, ...]
    exports: tuple[str, ...] = ()


_LOGIC = ("&&", "||")
_SCRIPT = _Metrics(
    ("if_statement", "for_statement", "for_in_statement", "while_statement", "do_statement",
     "switch_case", "catch_clause"),
    ("ternary_expression",),
    (*_LOGIC, "??"),
    ("import_statement", "variable_declarator"),
    ("export_statement", "assignment_expression"),
)  # fmt: skip
_C = _Metrics(
    ("if_statement", "for_statement", "while_statement", "do_statement", "case_statement"),
    ("conditional_expression",),
    _LOGIC,
    ("preproc_include",),
)
_METRICS: dict[str, _Metrics] = {
    "javascript": _SCRIPT,
    "typescript": _SCRIPT,
    "tsx": _SCRIPT,
    "python": _Metrics(
        ("if_statement", "for_statement", "while_statement", "except_clause", "case_clause"),
        ("elif_clause", "conditional_expression", "boolean_operator", "for_in_clause",
         "if_clause"),
        (),
        ("import_statement", "import_from_statement", "future_import_statement"),
        ("assignment",),
    ),
    "go": _Metrics(
        ("if_statement", "for_statement", "expression_case", "type_case", "communication_case"),
        (),
        _LOGIC,
        ("import_spec",),
    ),
    "java": _Metrics(
        ("if_statement", "for_statement", "enhanced_for_statement", "while_statement",
         "do_statement", "catch_clause"),
        ("ternary_expression", "switch_label"),
        _LOGIC,
        ("import_declaration",),
    ),
    "rust": _Metrics(
        ("if_expression", "for_expression", "while_expression", "loop_expression", "match_arm"),
        (),
        _LOGIC,
        ("use_declaration",),
    ),
    "c": _C,
    "cpp": _C._replace(
        nests=(*_C.nests, "for_range_loop", "catch_clause"), imports=("preproc_include",)
    ),
    "csharp": _Metrics(
        ("if_statement", "for_statement", "foreach_statement", "while_statement", "do_statement",
         "switch_section", "catch_clause"),
        ("conditional_expression", "switch_expression_arm"),
        (*_LOGIC, "??"),
        ("using_directive",),
    ),
}  # fmt: skip


def summarise(uri: str, text: str) -> model.FileSummary:
    document = parse(uri, text)
    language = find_language(document.language)
    tree = parse_tree(language, text) if language else None
    remarks = find_comments(document, tree)
    lines = _line_counts(text, remarks)
    metrics = _METRICS.get(document.language)
    full = tree is not None and metrics is not None and not gives_up(tree, _LONGEST_ERROR)
    measured = _Measured(document)
    imports: tuple[model.ImportSummary, ...] = ()
    exports: list[model.ExportSummary] = [
        model.ExportSummary(symbol.name, symbol.kind)
        for symbol in document.symbols
        if "export" in symbol.tags and symbol.kind != "impl"
    ]
    if language is not None and tree is not None and metrics is not None:
        nodes = _capture_nodes(language.grammar, metrics, tree)
        char, line_of = ByteOffsets(text).char, Lines(text).line_of
        measured.read(nodes)
        imports = tuple(
            entry
            for node in nodes["import"]
            for entry in _imports(document.language, node, line_of(char(node.start_byte)))
        )
        exports = _with_clauses(document, exports, nodes["export"])
    exported = {export.name for export in exports}
    functions = tuple(
        replace(one, is_exported=True) if one.name in exported and not one.parent else one
        for one in measured.functions()
    )
    return model.FileSummary(
        uri=uri,
        language=document.language,
        lines=lines,
        functions=functions,
        classes=tuple(
            replace(one, is_exported=True) if one.name in exported else one
            for one in _classes(document)
        ),
        imports=imports,
        exports=tuple(dict.fromkeys(exports)),
        complexity=_complexity(functions, measured, lines),
        size=len(text.encode("utf-8")),
        full_support=full or (metrics is not None and not text.strip()),
    )


def _capture_nodes(grammar: str, metrics: _Metrics, tree: Tree) -> dict[str, list[Node]]:
    import tree_sitter

    source = " ".join(
        (
            *(f"({kind}) @nest" for kind in metrics.nests),
            *(f"({kind}) @decide" for kind in metrics.decides),
            # Elsewhere ``&&`` is a reference and ``||`` the parameters of a closure.
            *(f'(binary_expression "{token}" @decide)' for token in metrics.tokens),
            *(f"({kind}) @import" for kind in metrics.imports),
            *(f"({kind}) @export" for kind in metrics.exports),
        )
    )
    captured = tree_sitter.QueryCursor(compile_query(grammar, source)).captures(tree.root_node)
    return {
        name: sorted(captured.get(name, ()), key=lambda node: (node.start_byte, -node.end_byte))
        for name in ("nest", "decide", "import", "export")
    }


# --- metrics -------------------------------------------------------------------------------------


class _Measured:
    """Counts decisions and nesting, each for the innermost function around it."""

    def __init__(self, document: model.Document) -> None:
        self._document = document
        self._functions = [symbol for symbol in document.symbols if symbol.kind in _LISTED]
        spans = [document.sections[symbol.section].span for symbol in self._functions]
        self._starts = [span.start for span in spans]
        self._ends = [span.end for span in spans]
        self._decisions = [0] * len(spans)
        self._nesting = [0] * len(spans)
        self.decision_points = 0
        self.max_nesting = 0

    def read(self, nodes: dict[str, list[Node]]) -> None:
        char = ByteOffsets(self._document.text).char
        around: list[tuple[int, int]] = []
        for node in nodes["nest"]:
            at = self._function_at(char(node.start_byte))
            self._decide(at, _alternatives(node))
            while around and around[-1][0] <= node.start_byte:
                around.pop()
            if _is_chained(node):
                continue
            around.append((node.end_byte, at))
            depth = sum(1 for _, function in around if function == at)
            self.max_nesting = max(self.max_nesting, depth)
            if at >= 0:
                self._nesting[at] = max(self._nesting[at], depth)
        for node in nodes["decide"]:
            if node.type == "switch_label" and node_text(node).startswith("default"):
                continue
            self._decide(self._function_at(char(node.start_byte)), 1)

    def functions(self) -> Iterable[model.FunctionSummary]:
        for number, symbol in enumerate(self._functions):
            span = self._document.sections[symbol.section].span
            yield model.FunctionSummary(
                name=symbol.name,
                kind=symbol.kind,
                start_line=span.start_line,
                end_line=span.end_line,
                signature=symbol.signature,
                docstring=symbol.docstring,
                is_async="async" in symbol.tags,
                is_exported="export" in symbol.tags,
                param_count=len(symbol.parameters),
                complexity=1 + self._decisions[number],
                nesting=self._nesting[number],
                parent=symbol.parent,
                visibility=symbol.visibility,
                decorators=symbol.decorators,
            )

    def _decide(self, function: int, count: int) -> None:
        self.decision_points += count
        if function >= 0:
            self._decisions[function] += count

    def _function_at(self, offset: int) -> int:
        at = bisect_right(self._starts, offset) - 1
        while at >= 0 and self._ends[at] <= offset:
            at -= 1
        return at


def _is_chained(node: Node) -> bool:
    """Whether an ``else if`` continues an ``if`` at the same level."""
    parent = node.parent
    if parent is None or not node.type.startswith("if_"):
        return False
    return parent.type == "else_clause" or parent.type == node.type


def _alternatives(node: Node) -> int:
    """Return how many decisions a case adds: none for a default."""
    if node.type in ("case_statement", "switch_section", "case_clause"):
        head = node_text(node)[:40]
        return 0 if head.startswith(("default", "case _:")) else 1
    return 1


def _complexity(
    functions: Sequence[model.FunctionSummary], measured: _Measured, lines: model.LineCounts
) -> model.Complexity:
    total = sum(function.complexity for function in functions)
    average = total / len(functions) if functions else 0.0
    density = 100 * measured.decision_points / max(1, lines.code)
    lost = min(40.0, 4 * max(0.0, average - 1))
    lost += min(30.0, 5.0 * max(0, measured.max_nesting - 2))
    lost += min(30.0, max(0.0, density - 10))
    return model.Complexity(
        cyclomatic=measured.decision_points + max(1, len(functions)),
        max_nesting=measured.max_nesting,
        average=round(average, 2),
        decision_points=measured.decision_points,
        score=round(100 - lost),
    )


def _line_counts(text: str, remarks: Sequence[model.Comment]) -> model.LineCounts:
    total = code = blank = comment = 0
    at = 0
    offset = 0
    for line in text.split("\n")[:-1]:
        total += 1
        start, offset = offset, offset + len(line) + 1
        bare = line.strip()
        if not bare:
            blank += 1
            continue
        first = start + len(line) - len(line.lstrip())
        last = start + len(line.rstrip())
        while at < len(remarks) and remarks[at].span.end <= first:
            at += 1
        inside = at < len(remarks) and remarks[at].span.start <= first
        if inside and remarks[at].span.end >= last:
            comment += 1
        else:
            code += 1
    return model.LineCounts(total, code, blank, comment)


# --- definitions ---------------------------------------------------------------------------------


def _classes(document: model.Document) -> Iterable[model.ClassSummary]:
    members: dict[int, list[str]] = {}
    for symbol in document.symbols:
        if symbol.kind in _FUNCTIONS:
            parent = document.sections[symbol.section].parent
            members.setdefault(parent, []).append(symbol.name)
    owned: dict[str, list[str]] = {}
    for symbol in document.symbols:
        section = document.sections[symbol.section]
        if symbol.kind == "impl":
            owned.setdefault(symbol.name, []).extend(members.get(section.ordinal, ()))
        elif symbol.kind == "method" and symbol.parent and section.title != symbol.name:
            owned.setdefault(symbol.parent, []).append(symbol.name)
    for symbol in document.symbols:
        if symbol.kind not in _CLASSES:
            continue
        span = document.sections[symbol.section].span
        yield model.ClassSummary(
            name=symbol.name,
            kind=symbol.kind,
            start_line=span.start_line,
            end_line=span.end_line,
            signature=symbol.signature,
            docstring=symbol.docstring,
            is_exported="export" in symbol.tags,
            methods=(*members.get(symbol.section, ()), *owned.get(symbol.name, ())),
        )


def _with_clauses(
    document: model.Document, exports: list[model.ExportSummary], nodes: Sequence[Node]
) -> list[model.ExportSummary]:
    """Add the exports that name a definition elsewhere in the file."""
    defined: dict[str, model.Symbol] = {}
    for symbol in document.symbols:
        defined.setdefault(symbol.name, symbol)

    def entry(name: str, local: str = "") -> model.ExportSummary:
        symbol = defined.get(local or name)
        return model.ExportSummary(name, symbol.kind if symbol else "other")

    if document.language == "python":
        for node in nodes:
            if node_text(node.child_by_field_name("left")) == "__all__":
                return [entry(name) for name in _STRING.findall(node_text(node))]
        return [export for export in exports if export.name != "__all__"]
    result = list(exports)
    for node in nodes:
        text = node_text(node)
        if node.type == "assignment_expression":
            if text.startswith("module.exports") and (braced := _BRACED.search(text[:4_000])):
                result = [export for export in result if export.name != "module.exports"]
                names = (part.split(":")[0].strip() for part in braced[1].split(","))
                result += [entry(name) for name in names if _NAME.fullmatch(name)]
            continue
        if clause := _EXPORT_CLAUSE.match(text):
            for part in clause[1].split(","):
                words = [word for word in part.split() if word != "type"]
                if words:
                    result.append(entry(words[-1], words[0]))
        elif star := _EXPORT_STAR.match(text):
            result.append(model.ExportSummary(star[1] or f"* from {star[2]}", "module"))
        elif (default := _EXPORT_DEFAULT.match(text)) and default[1] not in defined:
            result.append(model.ExportSummary("default", "other"))
    return result


_BRACED = re.compile(r"=\s*\{([^{}]*)\}\s*$", re.DOTALL)
_EXPORT_CLAUSE = re.compile(r"export\s+(?:type\s+)?\{([^}]*)\}")
_EXPORT_STAR = re.compile(r"export\s+\*(?:\s+as\s+([\w$]+))?\s+from\s+[\"']([^\"']*)")
_EXPORT_DEFAULT = re.compile(
    r"export\s+default\s+(?:async\s+)?(?:function\*?\s+|class\s+)?([\w$]*)"
)


# --- imports -------------------------------------------------------------------------------------


def _imports(language: str, node: Node, line: int) -> list[model.ImportSummary]:
    text = node_text(node)
    reader = _READERS[language]
    return [model.ImportSummary(source, tuple(names), line) for source, names in reader(text)]


_Imports = list[tuple[str, list[str]]]


def _script_imports(text: str) -> _Imports:
    if text.startswith("import"):
        quoted = _STRING.findall(text)
        if not quoted:
            return []
        clause = text[len("import") : text.rfind("from")] if " from" in text else ""
        return [(quoted[-1], _script_names(clause))]
    required = _REQUIRE.search(text[:2_000])
    if required is None:
        return []
    return [(required[1], _script_names(text.partition("=")[0]))]


_REQUIRE = re.compile(r"^[^=]*=\s*(?:await\s+)?(?:require|import)\(\s*[\"']([^\"']+)[\"']\s*\)")


def _script_names(clause: str) -> list[str]:
    names = []
    for part in clause.replace("{", ",").replace("}", ",").split(","):
        words = [word for word in part.split() if word not in ("type", "typeof")]
        if words:
            names.append(" ".join(words) if words[0] == "*" else words[0].split(":")[0])
    return names


def _python_imports(text: str) -> _Imports:
    text = re.sub(r"#[^\n]*", "", text)
    if text.startswith("import"):
        return [
            (part.split(" as ")[0].strip(), [])
            for part in text.removeprefix("import").split(",")
            if part.strip()
        ]
    source, _, names = text.removeprefix("from").partition("import")
    listed = [part.split(" as ")[0].strip() for part in names.strip(" ()\n\\").split(",")]
    return [(source.strip(), [name for name in listed if name])]


def _go_imports(text: str) -> _Imports:
    quoted = _STRING.findall(text)
    alias = text[: re.search(r"[\"`]", text).start()].split() if quoted else []  # type: ignore[union-attr]
    return [(quoted[0], alias)] if quoted else []


def _java_imports(text: str) -> _Imports:
    written = text.removeprefix("import").strip().rstrip(";").strip()
    source, _, name = written.removeprefix("static ").strip().rpartition(".")
    return [(source or name, [name] if source else [])]


def _rust_imports(text: str) -> _Imports:
    written = one_line(text, 4_000).partition("use ")[2].rstrip(";").strip()
    return _rust_paths(written, "")


def _rust_paths(written: str, outer: str, depth: int = 0) -> _Imports:
    """Return the imports of a path, which may end in a list of further paths in braces."""
    prefix, brace, listed = written.partition("{")
    if not brace or depth == _DEEPEST_USE:
        source, _, name = written.rpartition("::")
        source = "::".join(filter(None, (outer, source)))
        return [(source or name, [name] if source else [])]
    outer = "::".join(filter(None, (outer, prefix.strip().removesuffix("::"))))
    imports: _Imports = []
    names: list[str] = []
    for part in _split_outside_braces(listed[: listed.rfind("}")]):
        if "::" in part or "{" in part:
            imports += _rust_paths(part, outer, depth + 1)
        else:
            names.append(part)
    return [(outer, names), *imports] if names else imports


def _split_outside_braces(text: str) -> list[str]:
    """Split a list at the commas that are not in braces."""
    parts, depth = [""], 0
    for character in text:
        depth += (character == "{") - (character == "}")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


_DEEPEST_USE = 16


def _c_imports(text: str) -> _Imports:
    source = text.removeprefix("#").strip().removeprefix("include").strip()
    return [(source.split("//")[0].strip().strip('<>"'), [])]


def _csharp_imports(text: str) -> _Imports:
    written = text.removeprefix("global ").removeprefix("using").strip().rstrip(";").strip()
    alias, equals, source = written.partition("=")
    if equals:
        return [(source.strip(), [alias.strip()])]
    return [(written.removeprefix("static ").strip(), [])]


_READERS = {
    "javascript": _script_imports, "typescript": _script_imports, "tsx": _script_imports,
    "python": _python_imports, "go": _go_imports, "java": _java_imports, "rust": _rust_imports,
    "c": _c_imports, "cpp": _c_imports, "csharp": _csharp_imports,
}  # fmt: skip
