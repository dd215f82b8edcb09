"""Definitions that grammars show in an unusual way, each recorded with its own lines."""

from __future__ import annotations

import pytest

from lookfar.text.parse.source_code import parse


def recorded(uri: str, text: str) -> list[tuple[str, str, int, int]]:
    document = parse(uri, text)
    return [
        (symbol.kind, symbol.name, section.span.start_line, section.span.end_line)
        for symbol in document.symbols
        for section in (document.sections[symbol.section],)
    ]


def test_a_define_ends_with_its_line() -> None:
    """Seen to fail with the next directive read as a comment: TWO had the lines of THREE."""
    text = "#define ONE 1\n#define TWO 2 // two\n#define THREE 3\n#define ADD(a) \\\n    (a + 1)\n"
    assert recorded("a.c", text) == [
        ("constant", "ONE", 1, 1),
        ("constant", "TWO", 2, 2),
        ("constant", "THREE", 3, 3),
        ("macro", "ADD", 4, 5),
    ]


@pytest.mark.parametrize(
    "head",
    [
        "class LIB_EXPORT Env {",
        "class LIB_EXPORT Env : public Base {",
        "class LIB_API(1) Env final {",
        "struct LIB_EXPORT Env\n{",
    ],
)
def test_a_class_with_an_export_macro_is_recorded_with_its_members(head: str) -> None:
    """Seen to fail with the macro left in: the class was read as a function without a name."""
    text = f"namespace lib {{\n{head}\n public:\n  void Open();\n}};\n}}  // namespace lib\n"
    result = parse("env.h", text)
    assert ("lib", "Env") in [section.path for section in result.sections]
    assert ("lib", "Env", "Open") in [section.path for section in result.sections]
    assert result.text == text


def test_macros_that_are_not_exports_stay() -> None:
    """A forward declaration and a variable of a type are left as they are."""
    assert recorded("a.cc", "class Env;\nstruct POINT p = {1, 2};\n") == [("constant", "p", 2, 2)]


def test_the_members_of_go_groups_are_recorded_one_by_one() -> None:
    """Seen to fail with groups skipped, as they were."""
    text = (
        "package a\n\nconst (\n\tFirst = iota\n\t// Second comes then.\n\tSecond\n)\n\n"
        "var (\n\ttable = 1\n)\n\nvar alone = 2\n"
    )
    assert recorded("a.go", text) == [
        ("constant", "First", 4, 4),
        ("constant", "Second", 5, 6),
        ("constant", "table", 10, 10),
        ("constant", "alone", 13, 13),
    ]


def test_values_that_a_script_exports_are_recorded_and_re_exports_are_not() -> None:
    """Seen to fail with functions alone recorded, and with every export treated as a definition."""
    text = (
        "exports.limit = 10;\nmodule.exports.words = ['a'];\nexports.Router = Router;\n"
        "exports.parse = require('x');\nexports.run = function () {};\n"
    )
    assert recorded("a.js", text) == [
        ("constant", "limit", 1, 1),
        ("constant", "words", 2, 2),
        ("function", "run", 5, 5),
    ]


def test_a_constant_pointer_is_called_by_its_name() -> None:
    """Seen to fail with ``const`` as part of the name."""
    text = 'static const char *const names[] = {"a"};\n'
    assert recorded("a.c", text) == [("constant", "names", 1, 1)]
