"""The summary of a file, field by field, in every language with full support."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from code_samples import FULL
from lookfar.model import ClassSummary, FileSummary, FunctionSummary, LineCounts
from lookfar.text.parse.summary import summarise


class Wanted(NamedTuple):
    functions: dict[str, tuple[int, int, int]]
    """Parameters, complexity and nesting by name."""
    classes: dict[str, tuple[str, tuple[str, ...]]]
    """Kind and methods by name."""
    imports: list[tuple[str, tuple[str, ...]]]
    exports: set[tuple[str, str]]
    decision_points: int
    max_nesting: int
    comments: int


WANTED: dict[str, Wanted] = {
    "python": Wanted(
        {"tally": (2, 5, 2), "empty": (0, 1, 0), "_put": (1, 3, 2)},
        {"Shelf": ("class", ("empty", "_put"))},
        [("__future__", ("annotations",)), ("os.path", ()),
         ("collections", ("Counter", "defaultdict"))],
        {("LIMIT", "constant"), ("tally", "function"), ("Shelf", "class")},
        6, 2, 6,
    ),
    "javascript": Wanted(
        {"add": (2, 4, 1), "empty": (0, 1, 0), "put": (1, 3, 2), "later": (1, 1, 0)},
        {"Shelf": ("class", ("empty", "put"))},
        [("node:fs", ("fs", "readFile")), ("node:path", ("join",))],
        {("add", "function"), ("later", "function"), ("Rack", "class")},
        5, 2, 2,
    ),
    "typescript": Wanted(
        {"login": (2, 3, 1), "open": (1, 1, 0), "drop": (1, 2, 0)},
        {"Answer": ("interface", ()), "Colour": ("enum", ()),
         "Store": ("class", ("open", "drop"))},
        [("./types", ("User",))],
        {("Answer", "interface"), ("Colour", "enum"), ("Pair", "type"), ("login", "function"),
         ("Store", "class")},
        3, 1, 1,
    ),
    "tsx": Wanted(
        {"Counter": (1, 2, 0)}, {}, [("react", ("useState",))], {("Counter", "function")}, 1, 0, 1,
    ),
    "go": Wanted(
        {"Put": (3, 4, 2), "grow": (1, 1, 0)},
        {"Shelf": ("struct", ("Put",))},
        [("fmt", ()), ("strings", ("str",))],
        {("Limit", "constant"), ("Shelf", "struct"), ("Put", "method")},
        3, 2, 3,
    ),
    "java": Wanted(
        {"Shelf": (1, 1, 0), "put": (2, 4, 2), "drop": (0, 1, 0)},
        {"Shelf": ("class", ("Shelf", "put")), "Store": ("interface", ("drop",)),
         "Colour": ("enum", ())},
        [("java.util", ("List",)), ("java.lang.Math", ("max",)), ("java.io", ("*",))],
        {("Shelf", "class")},
        3, 2, 2,
    ),
    "rust": Wanted(
        {"drop": (0, 1, 0), "put": (1, 5, 1), "grow": (0, 2, 1)},
        {"Shelf": ("struct", ("put", "grow")), "Store": ("trait", ("drop",)),
         "Colour": ("enum", ())},
        [("std::collections", ("HashMap", "HashSet")), ("std::fmt", ("Display",))],
        {("LIMIT", "constant"), ("Shelf", "struct"), ("Store", "trait")},
        5, 1, 3,
    ),
    "c": Wanted(
        {"TWICE": (1, 1, 0), "shelf_put": (2, 5, 2), "hidden": (0, 1, 0)},
        {"shelf_t": ("struct", ()), "shelf": ("struct", ()), "colour": ("enum", ())},
        [("stdio.h", ()), ("shelf.h", ())],
        {("LIMIT", "constant"), ("TWICE", "macro"), ("shelf_t", "struct"), ("colour", "enum"),
         ("shelf_put", "function")},
        4, 2, 2,
    ),
    "cpp": Wanted(
        {"Shelf": (0, 1, 0), "count": (1, 2, 0), "put": (2, 5, 2), "twice": (1, 1, 0)},
        {"Shelf": ("class", ("Shelf", "count", "put")), "Pair": ("struct", ()),
         "Colour": ("enum", ())},
        [("vector", ()), ("base.hpp", ())],
        {("books", "module"), ("Shelf", "class"), ("Pair", "struct"), ("Colour", "enum"),
         ("put", "method"), ("twice", "function")},
        5, 2, 2,
    ),
    "csharp": Wanted(
        {"Shelf": (1, 1, 0), "Put": (2, 6, 2), "Drop": (0, 1, 0)},
        {"Shelf": ("class", ("Shelf", "Put")), "IStore": ("interface", ("Drop",)),
         "Colour": ("enum", ()), "Point": ("struct", ())},
        [("System", ()), ("System.Math", ()),
         ("System.Collections.Generic.Dictionary<string, int>", ("Map",))],
        {("Shelf", "class")},
        5, 2, 2,
    ),
}  # fmt: skip


@pytest.mark.parametrize("language", FULL)
def test_the_summary_of_a_file(language: str) -> None:
    """Every field of the schema, on a file whose figures were counted by hand."""
    uri, text = FULL[language]
    result, wanted = summarise(uri, text), WANTED[language]
    assert result.uri == uri
    assert result.language == language
    assert result.full_support
    assert result.size == len(text.encode())
    assert {
        function.name: (function.param_count, function.complexity, function.nesting)
        for function in result.functions
    } == wanted.functions
    assert {each.name: (each.kind, each.methods) for each in result.classes} == wanted.classes
    assert [(item.source, item.specifiers) for item in result.imports] == wanted.imports
    assert {(item.name, item.kind) for item in result.exports} == wanted.exports
    assert result.complexity.decision_points == wanted.decision_points
    assert result.complexity.max_nesting == wanted.max_nesting
    counted = [function.complexity for function in result.functions]
    assert result.complexity.average == round(sum(counted) / len(counted), 2)
    assert result.complexity.cyclomatic == wanted.decision_points + len(counted)
    assert 0 <= result.complexity.score <= 100
    lines = text.split("\n")[:-1]
    assert result.lines.total == len(lines)
    assert result.lines.blank == sum(not line.strip() for line in lines)
    assert result.lines.comments == wanted.comments
    assert result.lines.code == result.lines.total - result.lines.blank - result.lines.comments
    items: list[FunctionSummary | ClassSummary] = [*result.functions, *result.classes]
    for item in items:
        assert item.name in "\n".join(lines[item.start_line - 1 : item.end_line])
        assert item.signature
    for entry in result.imports:
        assert entry.source.split("<")[0].split("::")[0] in lines[entry.line - 1]


def of(uri: str, text: str) -> FileSummary:
    return summarise(uri, text)


def test_a_function_says_whether_it_is_async_and_exported() -> None:
    result = {function.name: function for function in of(*FULL["typescript"]).functions}
    assert result["login"].is_async
    assert result["login"].is_exported
    assert not result["drop"].is_async
    assert not result["drop"].is_exported
    assert result["drop"].parent == "Store"
    assert result["login"].docstring == "Signs a user in."


def test_a_simpler_file_has_a_better_score() -> None:
    """The score falls with complexity, nesting and density, and never leaves its range."""
    simple = "def f(x):\n    return x\n"
    tangled = "def f(x):\n" + "".join(
        f"{'    ' * depth}if x > {depth} and x:\n" for depth in range(1, 12)
    )
    tangled += "    " * 12 + "return x\n"
    assert of("a.py", simple).complexity.score == 100
    assert 0 <= of("a.py", tangled).complexity.score < 40
    assert of("a.py", tangled).complexity.max_nesting == 11


def test_a_line_with_code_beside_a_comment_is_code() -> None:
    text = "/* a */ int b;\nint c; // d\n// e\n/* f\n\n g */\n"
    assert of("a.c", text).lines == LineCounts(total=6, code=2, blank=1, comments=3)


def test_else_if_does_not_add_a_level() -> None:
    text = "function f(x) {\n  if (x) {\n  } else if (y) {\n  } else if (z) {\n  }\n}\n"
    result = of("a.js", text)
    assert result.complexity.max_nesting == 1
    assert result.functions[0].complexity == 4


def test_names_in_all_are_exported() -> None:
    text = "__all__ = ['f', '_g']\n\ndef f(): pass\n\ndef _g(): pass\n\ndef h(): pass\n"
    assert [(item.name, item.kind) for item in of("a.py", text).exports] == [
        ("f", "function"),
        ("_g", "function"),
    ]


def test_exports_of_scripts_in_all_their_forms() -> None:
    text = (
        "function a() {}\nmodule.exports = { a, b: 1 };\nexports.c = function () {};\n"
        'export * from "./d";\nexport default class E {}\n'
    )
    assert {item.name for item in of("a.js", text).exports} == {"a", "b", "c", "* from ./d", "E"}


@pytest.mark.parametrize("uri", ["a.py", "a.js", "a.zig", "a.yaml", "a.nix"])
def test_an_empty_file_has_an_empty_summary(uri: str) -> None:
    result = of(uri, "")
    assert result.lines.total == result.size == len(result.functions) == 0
    assert result.complexity.score == 100


def test_a_language_without_full_support_says_so() -> None:
    result = of("a.rb", "def a\n  1 if x\nend\n")
    assert not result.full_support
    assert [function.name for function in result.functions] == ["a"]
    assert result.imports == ()
    assert result.exports == ()
