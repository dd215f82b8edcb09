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


def of(language: str) -> Document:
    return parse(*FULL[language])


def symbol(document: Document, name: str, kind: str = "") -> Symbol:
    return next(each for each in document.symbols if each.name == name and kind in ("", each.kind))


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
    ("language", "name", "wanted"), WANTED, ids=[f"{each[0]} {each[1]}" for each in WANTED]
)
def test_a_definition_says_what_it_is(language: str, name: str, wanted: dict[str, Any]) -> None:
    """Each field that ranking and summaries read, in each language."""
    found = symbol(of(language), name, wanted.get("kind", ""))
    assert {field: getattr(found, field) for field in wanted} == wanted


@pytest.mark.parametrize("language", FULL)
def test_sections_are_exact_and_nested(language: str) -> None:
    """A section holds its decorators and comments, and lies inside its parent."""
    document = of(language)
    assert document.lane == "code"
    assert document.language == language
    for each in document.sections:
        assert 0 <= each.span.start < each.span.end <= len(document.text)
        assert each.span.start <= each.body <= each.span.end
        if each.parent >= 0:
            parent = document.sections[each.parent]
            assert parent.span.start <= each.span.start
            assert each.span.end <= parent.span.end
            assert each.path == (*parent.path, each.title)
            assert each.level == parent.level + 1
    for each in document.symbols:
        span = document.sections[each.section].span
        text = document.text[span.start : span.end]
        assert text.endswith(("\n", "}", ";"))
        for decorator in each.decorators:
            assert decorator in text


def test_a_section_begins_with_the_comment_above_it() -> None:
    """Whoever reads a function wants its documentation too, and not what stands before."""
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
    assert {each.name for each in document.symbols} == names
    documented = [each.docstring for each in document.symbols if each.name.endswith("hello")]
    assert documented in (["Says hi."], [""])
    assert documented == ["Says hi."] or language == "scala"


@pytest.mark.parametrize("language", HEURISTIC)
def test_line_rules_find_definitions(language: str) -> None:
    uri, text, names = HEURISTIC[language]
    document = parse(uri, text)
    assert document.language == language
    assert {each.name for each in document.symbols} == names


@pytest.mark.parametrize("language", FULL)
def test_broken_syntax_keeps_what_is_whole(language: str) -> None:
    """A file that is being edited is still searched by what it defines."""
    uri, text = FULL[language]
    document = parse(uri, text + "\n}}} def class ((( {{{ \n")
    whole = {each.name for each in parse(uri, text).symbols}
    found = {each.name for each in document.symbols}
    assert len(found & whole) >= len(whole) / 2
    assert document.text.startswith(text)


def test_a_header_of_cpp_is_told_from_one_of_c() -> None:
    assert parse("a.h", "namespace a { class B { int c; }; }\n").language == "cpp"
    assert parse("a.h", "struct b { int c; };\n").language == "c"


@pytest.mark.parametrize(
    ("uri", "language"),
    [("src/Dockerfile", "dockerfile"), ("Dockerfile.dev", "dockerfile"), ("Makefile", "make"),
     ("CMakeLists.txt", "cmake"), ("Gemfile", "ruby"), ("A.PY", "python"), ("x.d.ts", "typescript"),
     ("notes.txt", "text"), ("a.md", "markdown")],
)  # fmt: skip
def test_a_file_is_read_by_its_name(uri: str, language: str) -> None:
    found = detect_format(uri)
    assert found is not None
    assert found.language == language


def test_every_language_is_named_once_and_can_be_read() -> None:
    endings = [ending for each in (*FORMATS, *CODE_FORMATS) for ending in each.extensions]
    assert len(endings) == len(set(endings))
    words = [each.language for each in (*FORMATS, *CODE_FORMATS)]
    assert len(words) == len(set(words))
    for each in LANGUAGES:
        assert (each.tier in ("full", "structural")) == bool(each.grammar)
        assert not each.grammar or each.language in RULES
        uri = f"a{each.extensions[0]}" if each.extensions else each.names[0]
        parse_one = parser_for(uri)
        assert parse_one is not None
        assert parse_one(uri, "x\n").language == each.language


@pytest.mark.parametrize("language", FULL)
def test_comments_are_exact_slices(language: str) -> None:
    """What is cited as a comment must be one, delimiters and all."""
    document = of(language)
    found = find_comments(document)
    texts = [document.text[each.span.start : each.span.end] for each in found]
    opening = ("#", '"""') if language == "python" else ("//", "/*")
    assert all(each.startswith(opening) for each in texts)
    assert all(each == each.strip() for each in texts)
    said = " ".join(texts)
    for each in document.symbols:
        assert each.docstring.split("\n")[0] in said
    for each in found:
        if each.section >= 0:
            section = document.sections[each.section].span
            assert section.start <= each.span.start < section.end


def test_a_string_that_looks_like_a_comment_is_none() -> None:
    document = parse("a.js", 'const url = "http://x"; // real\nconst b = `/* no */`;\n')
    texts = [document.text[e.span.start : e.span.end] for e in find_comments(document)]
    assert texts == ["// real"]


def test_neighbouring_comments_are_one() -> None:
    document = parse("a.py", "# one\n# two\n\n# three\nx = 1  # four\n# five\n")
    texts = [document.text[e.span.start : e.span.end] for e in find_comments(document)]
    assert texts == ["# one\n# two", "# three", "# four", "# five"]
