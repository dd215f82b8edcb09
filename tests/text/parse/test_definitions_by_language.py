"""What each language defines, with the lines of each definition, and what is not a definition."""

from __future__ import annotations

from pathlib import Path

import pytest

import lookfar
from lookfar.text.parse.languages import detect_language
from lookfar.text.parse.source_code import parse
from lookfar.text.parse.summary import summarise
from lookfar.text.parse.syntax_tree import parse_tree

Recorded = dict[str, tuple[str, int, int]]
PYTHON = detect_language("a.py") or pytest.fail("Python is not a language")


def record(uri: str, text: str) -> Recorded:
    """Return kind, first and last line of each definition by its path."""
    document = parse(uri, text)
    spans = {section.ordinal: section for section in document.sections}
    return {
        ".".join(spans[symbol.section].path): (
            symbol.kind,
            spans[symbol.section].span.start_line,
            spans[symbol.section].span.end_line,
        )
        for symbol in document.symbols
    }


CASES: dict[str, tuple[str, str, Recorded]] = {
    "macros with and without a value": (
        "a.h",
        "#ifndef A_H\n#define A_H\n#define ONE 1\n/* two */\n#define TWO(x) \\\n  (x)\n#endif\n",
        {"A_H": ("constant", 2, 2), "ONE": ("constant", 3, 3), "TWO": ("macro", 4, 6)},
    ),
    "a macro does not take the lines of the next": (
        "a.hpp",
        (
            "LIB_EXPORT int open(int a) LIB_NOTHROW;\n"
            "#define EXPECT_EQ(a, b) \\\n  EXPECT_TWO(a, b)\n"
            "#define EXPECT_NE(a, b) \\\n  EXPECT_TWO(a, b)\n"
        ),
        {
            "open": ("function", 1, 1),
            "EXPECT_EQ": ("macro", 2, 3),
            "EXPECT_NE": ("macro", 4, 5),
        },
    ),
    "types in a class, and conversions": (
        "a.cc",
        (
            "class Shelf {\n  struct Row {\n    int x;\n  };\n  enum Side { LEFT };\n"
            "  operator bool() const { return true; }\n};\n"
            "template <> struct hash<Shelf> {\n  int y;\n};\n"
        ),
        {
            "Shelf": ("class", 1, 7),
            "Shelf.Row": ("struct", 2, 4),
            "Shelf.Side": ("enum", 5, 5),
            "Shelf.operator bool": ("method", 6, 6),
            "hash": ("struct", 8, 10),
        },
    ),
    "macros around declarations": (
        "a.cc",
        (
            "FMT_BEGIN_NAMESPACE\nclass LOCKABLE Lock {\n public:\n"
            "  void Hold() EXCLUSIVE_LOCK() { hold(); }\n"
            "  API_CONSTEXPR auto size() const -> int { return 1; }\n};\nFMT_END_NAMESPACE\n"
        ),
        {
            "Lock": ("class", 2, 6),
            "Lock.Hold": ("method", 4, 4),
            "Lock.size": ("method", 5, 5),
        },
    ),
    "variables, and a struct with two names": (
        "a.c",
        (
            "static int count;\nextern int elsewhere;\nint first = 1, second = 2;\n"
            "typedef struct node_s {\n  int a;\n} node;\nint (fetch)(int a);\n"
        ),
        {
            "count": ("constant", 1, 1),
            "first": ("constant", 3, 3),
            "second": ("constant", 3, 3),
            "node": ("struct", 4, 6),
            "node.node_s": ("struct", 4, 6),
            "fetch": ("function", 7, 7),
        },
    ),
    "only types are local definitions in C++": (
        "a.cc",
        "int run() {\n  struct Step { int x; };\n  Shelf shelf(Row());\n  using Rows = int;\n}\n",
        {
            "run": ("function", 1, 5),
            "run.Step": ("struct", 2, 2),
            "run.Rows": ("type", 4, 4),
        },
    ),
    "groups and interfaces": (
        "a.go",
        (
            "package a\n\nconst (\n\tOne, Two = 1, 2\n\tThree = 3\n)\n\nvar left, right int\n\n"
            "type Reader interface {\n\tRead(p []byte) int\n}\n"
        ),
        {
            "One": ("constant", 4, 4),
            "Two": ("constant", 4, 4),
            "Three": ("constant", 5, 5),
            "left": ("constant", 8, 8),
            "right": ("constant", 8, 8),
            "Reader": ("interface", 10, 12),
            "Reader.Read": ("method", 11, 11),
        },
    ),
    "properties, events and constants": (
        "a.cs",
        (
            "class Shelf {\n    public int Size { get; set; }\n    event Action Moved;\n"
            "    const int Most = 1;\n    int hidden;\n    int Twice(int x) {\n"
            "        int Add(int y) => y;\n        return Add(x);\n    }\n}\n"
        ),
        {
            "Shelf": ("class", 1, 10),
            "Shelf.Size": ("other", 2, 2),
            "Shelf.Moved": ("other", 3, 3),
            "Shelf.Most": ("constant", 4, 4),
            "Shelf.Twice": ("method", 6, 9),
            "Shelf.Twice.Add": ("function", 7, 7),
        },
    ),
    "constants, and an enumerator with members": (
        "A.java",
        (
            "enum Case {\n  UPPER {\n    String apply() { return null; }\n  },\n  LOWER;\n"
            "  static final int MOST = 1;\n  int size;\n}\n"
        ),
        {
            "Case": ("enum", 1, 8),
            "Case.UPPER": ("class", 2, 4),
            "Case.UPPER.apply": ("method", 3, 3),
            "Case.MOST": ("constant", 6, 6),
        },
    ),
    "exports, prototypes and defined properties": (
        "a.js",
        (
            "const fs = require('fs');\nconst net = require('net').isIP;\n"
            "module.exports = function create() {};\nexports.limit = 3;\n"
            "Shelf.prototype.put = function () {};\nShelf.prototype = {\n  drop() {},\n};\n"
            "defineGetter(req, 'query', function query() {\n  return 1;\n});\n"
            "Object.defineProperty(app, 'router', {\n  get: function getrouter() {},\n});\n"
        ),
        {
            "create": ("function", 3, 3),
            "limit": ("constant", 4, 4),
            "Shelf.put": ("method", 5, 5),
            "Shelf": ("impl", 6, 8),
            "Shelf.drop": ("method", 7, 7),
            "req.query": ("method", 9, 11),
            "app.router": ("method", 12, 14),
            "app.router.getrouter": ("method", 13, 13),
        },
    ),
    "callbacks define functions and no constants": (
        "a.js",
        (
            "describe('x', function () {\n  var app = make();\n  app.use(function handle() {});\n"
            "  function help() {}\n});\n(function () {\n  var inModule = 1;\n})();\n"
            "const a = 1,\n  b = 2;\nconst { c, d: e } = load();\n"
        ),
        {
            "handle": ("function", 3, 3),
            "help": ("function", 4, 4),
            "inModule": ("constant", 7, 7),
            "a": ("constant", 9, 9),
            "b": ("constant", 10, 10),
            "c": ("constant", 11, 11),
            "e": ("constant", 11, 11),
        },
    ),
    "components": (
        "a.tsx",
        (
            "export const Button = React.forwardRef((props, ref) => {\n  return <b />;\n});\n"
            "export const Icon = memo(function Icon() {\n  return null;\n});\n"
            "export default () => {\n  return 1;\n};\n"
        ),
        {
            "Button": ("function", 1, 3),
            "Icon": ("function", 4, 6),
            "Icon.Icon": ("function", 4, 6),
            "default": ("function", 7, 9),
        },
    ),
    "members, conditions and inner functions": (
        "a.py",
        (
            "class Shelf:\n    most = 3\n    size: int\n\n    def put(self):\n        def help():\n"
            "            pass\n\nif A:\n    def run(): ...\nelse:\n    x = y = 1\n"
        ),
        {
            "Shelf": ("class", 1, 7),
            "Shelf.most": ("constant", 2, 2),
            "Shelf.put": ("method", 5, 7),
            "Shelf.put.help": ("function", 6, 7),
            "run": ("function", 10, 10),
            "x": ("constant", 12, 12),
            "y": ("constant", 12, 12),
        },
    ),
    "attributes, aliases and defined methods": (
        "a.rb",
        (
            "module Rack::Handler\n  MOST = 1\n  attr_reader :name, :size\n"
            "  alias_method :old, :new\n"
            "  define_method(:calc) { |x| x }\n  Row = Struct.new(:a) do\n    def full; end\n"
            "  end\nend\n"
            "describe 'x' do\n  class Inner; end\nend\n"
        ),
        {
            "Rack.Handler": ("module", 1, 9),
            "Rack.Handler.MOST": ("constant", 2, 2),
            "Rack.Handler.name": ("method", 3, 3),
            "Rack.Handler.size": ("method", 3, 3),
            "Rack.Handler.old": ("method", 4, 4),
            "Rack.Handler.calc": ("method", 5, 5),
            "Rack.Handler.Row": ("class", 6, 8),
            "Rack.Handler.Row.full": ("method", 7, 7),
            "Inner": ("class", 11, 11),
        },
    ),
    "constants of PHP": (
        "a.php",
        "<?php\ndefine('LIMIT', 1);\nclass A {\n    const ONE = 1, TWO = 2;\n    public $z;\n}\n",
        {
            "LIMIT": ("constant", 2, 2),
            "A": ("class", 3, 6),
            "A.ONE": ("constant", 4, 4),
            "A.TWO": ("constant", 4, 4),
        },
    ),
    "functions of Lua in tables and functions": (
        "a.lua",
        (
            "local M = {\n  open = function() end,\n}\nfunction M:close()\n"
            "  local function help() end\n  local t = { inner = function() end }\nend\n"
        ),
        {
            "M": ("constant", 1, 3),
            "M.open": ("function", 2, 2),
            "M.close": ("function", 4, 7),
            "M.close.help": ("function", 5, 5),
            "M.close.inner": ("function", 6, 6),
        },
    ),
    "properties and aliases of Kotlin": (
        "a.kt",
        (
            "typealias Flags = Short\n\nclass Shelf(private val size: Int, other: Int) {\n"
            "  val most = 1\n  fun put() {\n    fun help() {}\n  }\n}\n"
        ),
        {
            "Flags": ("type", 1, 1),
            "Shelf": ("class", 3, 8),
            "Shelf.size": ("constant", 3, 3),
            "Shelf.most": ("constant", 4, 4),
            "Shelf.put": ("method", 5, 7),
            "Shelf.put.help": ("function", 6, 6),
        },
    ),
    "constants and inner functions of Rust": (
        "a.rs",
        "struct A;\nimpl A {\n  const MOST: u8 = 1;\n  fn run() {\n    fn help() {}\n  }\n}\n",
        {
            "A": ("impl", 2, 7),
            "A.MOST": ("constant", 3, 3),
            "A.run": ("method", 4, 6),
            "A.run.help": ("function", 5, 5),
        },
    ),
    "members of Swift and Scala": (
        "a.swift",
        "protocol P {\n  func run() -> Int\n}\nstruct S {\n  let a = 1\n}\n",
        {
            "P": ("interface", 1, 3),
            "P.run": ("method", 2, 2),
            "S": ("struct", 4, 6),
            "S.a": ("constant", 5, 5),
        },
    ),
    "a type that a function of Zig returns": (
        "a.zig",
        "fn List(comptime T: type) type {\n  return struct {\n    fn put() void {}\n  };\n}\n",
        {"List": ("function", 1, 5), "List.put": ("function", 3, 3)},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_a_file_defines(case: str) -> None:
    """Seen to fail without ``nested``, ``members``, ``closures`` and the macros of C."""
    uri, text, wanted = CASES[case]
    assert record(uri, text) == wanted


@pytest.mark.parametrize(
    ("first", "language"),
    [
        ("#!/usr/bin/env python3", "python"),
        ("#!/usr/bin/env -S python3.11 -u", "python"),
        ("#! /bin/sh -e", "bash"),
        ("#!/usr/local/bin/node", "javascript"),
        ("#!/usr/bin/unknown", "text"),
        ("no script", "text"),
    ],
)
def test_a_script_without_an_extension_is_read_by_its_interpreter(
    first: str, language: str
) -> None:
    """Seen to fail without ``detect_interpreter``."""
    assert parse("tools/run", f"{first}\nx = 1\n").language == language


def test_a_reference_is_not_a_decision() -> None:
    """Seen to fail with every ``&&`` counted: the function had a complexity of 3."""
    text = "int take(A&& a, B&& b) {\n  return a && b;\n}\n"
    (function,) = summarise("a.cc", text).functions
    assert function.complexity == 2


def test_a_summary_of_rust_lists_nested_imports_and_macros() -> None:
    text = (
        "use std::{fmt, io::{self, Read as R}, a::b};\nmacro_rules! twice { () => {} }\n"
        "fn f() { let g = || 1; }\n"
    )
    summary = summarise("a.rs", text)
    assert [(entry.source, entry.specifiers) for entry in summary.imports] == [
        ("std", ("fmt",)),
        ("std::io", ("self", "Read as R")),
        ("std::a", ("b",)),
    ]
    assert [(function.name, function.kind) for function in summary.functions] == [
        ("twice", "macro"),
        ("f", "function"),
    ]
    assert summary.functions[1].complexity == 1


def test_a_summary_says_where_the_grammar_gave_up() -> None:
    good = "int f(void) {\n  return 1;\n}\n"
    broken = "int g(void) {\n" + "  case ) ] ; if ( { of while [ (\n" * 12 + good
    assert summarise("a.c", good).full_support
    assert not summarise("a.c", broken).full_support


def test_no_code_asks_a_node_for_its_lines() -> None:
    """tree-sitter 0.26.0 frees the numbers of ``start_point`` twice, and the process crashes."""
    source = Path(lookfar.__file__).parent
    users = [
        path.name
        for path in source.rglob("*.py")
        if ".start_point" in (text := path.read_text("utf-8")) or ".end_point" in text
    ]
    assert users == []


@pytest.mark.parametrize("head", [0, 100, 400])
def test_text_that_repeats_itself_is_not_parsed_as_a_program(head: int) -> None:
    """Only the start is compressed first; here it decides nothing."""
    program = "".join(f"def name_{number}(): return {number * 7919}\n" for number in range(head))
    assert parse_tree(PYTHON, program + "x = [1, 2, 3]\n" * 40_000) is None
    assert parse_tree(PYTHON, program + "x = [1, 2, 3]\n" * 20) is not None
