"""What each language's definitions say of themselves."""

from __future__ import annotations

from typing import Any

import pytest

from code_samples import FULL, HEURISTIC, STRUCTURAL
from lookfar.model import Document, Symbol
from lookfar.text.parse.comments import find_comments
from lookfar.text.parse.formats import CODE_FORMATS, FORMATS, detect_format, parser_for
from lookfar.text.parse.grammars import RULES
from lookfar.text.parse.languages import LANGUAGES
from lookfar.text.parse.source_code import parse
from lookfar.text.parse.syntax_tree import _is_shallow


def of(language: str) -> Document:
    return parse(*FULL[language])


def symbol(document: Document, name: str, kind: str = "") -> Symbol:
    return next(
        symbol for symbol in document.symbols if symbol.name == name and kind in ("", symbol.kind)
    )


WANTED: list[tuple[str, str, dict[str, Any]]] = [
    ("python", "tally", {
        "kind": "function",
        "signature": "async def tally(words: list[str], *, limit: int = 3) -> dict[str, int]",
        "docstring": "Count the words.\n\nTwice if need be.", "decorators": ("@cached",),
        "tags": ("async", "export"), "visibility": "public",
        "parameters": ("words: list[str]", "limit: int = 3"), "returns": "dict[str, int]",
    }),
    ("python", "Shelf", {"kind": "class", "docstring": "Holds books.", "tags": ("export",)}),
    ("python", "empty", {"kind": "method", "parent": "Shelf", "parent_kind": "class",
                         "decorators": ("@staticmethod",), "returns": "Shelf"}),
    ("python", "_put", {"visibility": "private", "parameters": ("book",)}),
    ("python", "LIMIT", {"kind": "constant", "signature": "LIMIT = 10"}),
    ("javascript", "add", {
        "kind": "function", "signature": "async function add(left, right = 1)",
        "docstring": "Adds two numbers.", "tags": ("async", "export"),
        "parameters": ("left", "right = 1"),
    }),
    ("javascript", "empty", {"kind": "method", "parent": "Shelf", "tags": ("static",)}),
    ("javascript", "later", {"kind": "function", "parameters": ("task",)}),
    ("typescript", "login", {
        "signature": "async function login(email: string, password: string): Promise<User>",
        "docstring": "Signs a user in.", "tags": ("async", "export"), "returns": "Promise<User>",
        "parameters": ("email: string", "password: string"),
    }),
    ("typescript", "Answer", {"kind": "interface", "generics": ("T",)}),
    ("typescript", "Colour", {"kind": "enum"}),
    ("typescript", "Pair", {"kind": "type"}),
    ("typescript", "Store", {"kind": "class", "tags": ("abstract", "export")}),
    ("typescript", "open", {"visibility": "protected", "tags": ("static",), "generics": ("K",)}),
    ("typescript", "drop", {"visibility": "private", "returns": "boolean"}),
    ("tsx", "Counter", {"kind": "function", "docstring": "Shows a number.",
                        "returns": "JSX.Element"}),
    ("go", "Put", {
        "kind": "method", "parent": "Shelf", "docstring": "Put adds books.",
        "visibility": "public", "returns": "(int, error)",
        "parameters": ("first string", "second string", "more ...string"),
    }),
    ("go", "Shelf", {"kind": "struct", "docstring": "Shelf holds books."}),
    ("go", "grow", {"kind": "function", "visibility": "private", "tags": ()}),
    ("go", "Limit", {"kind": "constant", "signature": "const Limit = 10"}),
    ("java", "Shelf", {"kind": "class", "decorators": ("@Deprecated",), "generics": ("T",),
                       "visibility": "public", "docstring": "Holds books."}),
    ("java", "put", {"kind": "method", "visibility": "protected", "tags": ("static",),
                     "returns": "List<K>", "parameters": ("K book", "int... more"),
                     "signature": "protected static <K> List<K> put(K book, int... more)"}),
    ("java", "Store", {"kind": "interface"}),
    ("java", "Colour", {"kind": "enum"}),
    ("rust", "put", {"kind": "method", "parent": "Shelf", "parent_kind": "impl",
                     "visibility": "public", "tags": ("async",), "docstring": "Adds a book.",
                     "parameters": ("book: &str",), "returns": "Option<usize>"}),
    ("rust", "Shelf", {"kind": "struct", "decorators": ("#[derive(Debug)]",), "generics": ("T",)}),
    ("rust", "Store", {"kind": "trait"}),
    ("rust", "grow", {"visibility": "private"}),
    ("c", "shelf_put", {"kind": "function", "docstring": "Adds a book.", "returns": "int",
                        "parameters": ("shelf_t *shelf", "const char *title"),
                        "tags": ("export",)}),
    ("c", "hidden", {"tags": ("static",), "visibility": "private", "parameters": (),
                     "returns": "char*"}),
    ("c", "shelf_t", {"kind": "struct", "docstring": "Holds books."}),
    ("c", "TWICE", {"kind": "macro", "parameters": ("x",)}),
    ("c", "LIMIT", {"kind": "constant"}),
    ("cpp", "Shelf", {"kind": "class", "docstring": "Holds books.", "parent": "books",
                      "generics": ("typename T",)}),
    ("cpp", "count", {"kind": "method", "tags": ("static",), "parameters": ("const T& of",)}),
    ("cpp", "put", {"kind": "method", "docstring": "Adds a book.", "returns": "int",
                    "parameters": ("int book", "char* title")}),
    ("cpp", "twice", {"returns": "T", "generics": ("class T",)}),
    ("csharp", "Put", {"kind": "method", "visibility": "public", "tags": ("static", "async"),
                       "docstring": "Adds a book.", "decorators": ('[Obsolete("old")]',),
                       "parameters": ("string book", "int times = 1"), "returns": "Task<int>",
                       "signature": "public static async Task<int> Put(string book, int times = 1)",
                       }),
    ("csharp", "Shelf", {"kind": "class", "docstring": "Holds books.", "generics": ("T",)}),
    ("csharp", "IStore", {"kind": "interface"}),
    ("csharp", "Point", {"kind": "struct"}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("language", "name", "wanted"), WANTED, ids=[f"{item[0]} {item[1]}" for item in WANTED]
)
def test_definitions_have_kind_and_signature(
    language: str, name: str, wanted: dict[str, Any]
) -> None:
    """Each field that ranking and summaries read, in each language."""
    result = symbol(of(language), name, wanted.get("kind", ""))
    assert {field: getattr(result, field) for field in wanted} == wanted


@pytest.mark.parametrize("language", FULL)
def test_sections_are_exact_and_nested(language: str) -> None:
    """A section contains its decorators and comments, and is inside its parent."""
    document = of(language)
    assert document.lane == "code"
    assert document.language == language
    for section in document.sections:
        assert 0 <= section.span.start < section.span.end <= len(document.text)
        assert section.span.start <= section.body <= section.span.end
        if section.parent >= 0:
            parent = document.sections[section.parent]
            assert parent.span.start <= section.span.start
            assert section.span.end <= parent.span.end
            assert section.path == (*parent.path, section.title)
            assert section.level == parent.level + 1
    for symbol in document.symbols:
        span = document.sections[symbol.section].span
        text = document.text[span.start : span.end]
        assert text.endswith(("\n", "}", ";"))
        for decorator in symbol.decorators:
            assert decorator in text


def test_a_section_begins_with_the_comment_above_it() -> None:
    """A function includes its documentation, and nothing before that."""
    text = "int a; // of a\n\n// Stray.\n\n// Adds.\n// More.\nint add(int x) { return x; } // t\n"
    document = parse("a.c", text)
    span = document.sections[symbol(document, "add").section].span
    assert text[span.start : span.end] == text[text.index("// Adds.") :]
    assert symbol(document, "add").docstring == "Adds.\nMore."
    text = "int a; // of a\nint add(int x) { return x; }\n"
    document = parse("a.c", text)
    span = document.sections[symbol(document, "add").section].span
    assert text[span.start : span.end].startswith("int add")
    assert symbol(document, "add").docstring == ""


@pytest.mark.parametrize("language", STRUCTURAL)
def test_other_grammars_find_definitions(language: str) -> None:
    uri, text, names = STRUCTURAL[language]
    document = parse(uri, text)
    assert document.language == language
    assert {symbol.name for symbol in document.symbols} == names
    documented = [symbol.docstring for symbol in document.symbols if symbol.name.endswith("hello")]
    assert documented in (["Says hi."], [""])
    assert documented == ["Says hi."] or language == "scala"


@pytest.mark.parametrize("language", HEURISTIC)
def test_line_rules_find_definitions(language: str) -> None:
    uri, text, names = HEURISTIC[language]
    document = parse(uri, text)
    assert document.language == language
    assert {symbol.name for symbol in document.symbols} == names


@pytest.mark.parametrize("language", FULL)
def test_broken_syntax_keeps_intact_definitions(language: str) -> None:
    """A file that is being edited is still searched by what it defines."""
    uri, text = FULL[language]
    document = parse(uri, text + "\n}}} def class ((( {{{ \n")
    whole = {symbol.name for symbol in parse(uri, text).symbols}
    result = {symbol.name for symbol in document.symbols}
    assert len(result & whole) >= len(whole) / 2
    assert document.text.startswith(text)


def test_cpp_headers_are_distinguished_from_c() -> None:
    assert parse("a.h", "namespace a { class B { int c; }; }\n").language == "cpp"
    assert parse("a.h", "struct b { int c; };\n").language == "c"


@pytest.mark.parametrize(
    ("uri", "language"),
    [("src/Dockerfile", "dockerfile"), ("Dockerfile.dev", "dockerfile"), ("Makefile", "make"),
     ("CMakeLists.txt", "cmake"), ("Gemfile", "ruby"), ("A.PY", "python"), ("x.d.ts", "typescript"),
     ("notes.txt", "text"), ("a.md", "markdown")],
)  # fmt: skip
def test_a_file_is_read_by_its_name(uri: str, language: str) -> None:
    result = detect_format(uri)
    assert result is not None
    assert result.language == language


def test_every_language_is_named_once_and_can_be_read() -> None:
    endings = [ending for item in (*FORMATS, *CODE_FORMATS) for ending in item.extensions]
    assert len(endings) == len(set(endings))
    words = [item.language for item in (*FORMATS, *CODE_FORMATS)]
    assert len(words) == len(set(words))
    for item in LANGUAGES:
        assert (item.tier in ("full", "structural")) == bool(item.grammar)
        assert not item.grammar or item.language in RULES
        uri = f"a{item.extensions[0]}" if item.extensions else item.names[0]
        parse_one = parser_for(uri)
        assert parse_one is not None
        assert parse_one(uri, "x\n").language == item.language


@pytest.mark.parametrize("language", FULL)
def test_comments_are_exact_slices(language: str) -> None:
    """What is cited as a comment must be one, delimiters and all."""
    document = of(language)
    result = find_comments(document)
    texts = [document.text[item.span.start : item.span.end] for item in result]
    opening = ("#", '"""') if language == "python" else ("//", "/*")
    assert all(text.startswith(opening) for text in texts)
    assert all(text == text.strip() for text in texts)
    said = " ".join(texts)
    for symbol in document.symbols:
        assert symbol.docstring.split("\n")[0] in said
    for item in result:
        if item.section >= 0:
            section = document.sections[item.section].span
            assert section.start <= item.span.start < section.end


def test_a_string_that_looks_like_a_comment_is_not_one() -> None:
    document = parse("a.js", 'const url = "http://x"; // real\nconst b = `/* no */`;\n')
    texts = [document.text[e.span.start : e.span.end] for e in find_comments(document)]
    assert texts == ["// real"]


def test_neighbouring_comments_are_one() -> None:
    document = parse("a.py", "# one\n# two\n\n# three\nx = 1  # four\n# five\n")
    texts = [document.text[e.span.start : e.span.end] for e in find_comments(document)]
    assert texts == ["# one\n# two", "# three", "# four", "# five"]


@pytest.mark.parametrize("inside", ["", "[]{}", "(" * 9 + ")" * 9])
@pytest.mark.parametrize("before", ["", "))}", "()" * 500])
def test_brackets_may_be_nested_two_hundred_deep(before: str, inside: str) -> None:
    deep = inside.count("(") or 1 if inside else 0
    for closing in ("", "]"):
        for depth, shallow in ((200 - deep, True), (201 - deep, False)):
            text = before + "{" * depth + inside + closing * depth
            assert _is_shallow(text.encode()) is shallow
