"""What one source file contributes to the call graph."""

from __future__ import annotations

import pytest

import code_samples
from lookfar.model import CallFacts
from lookfar.text.parse.calls.call_rules import CALL_RULES
from lookfar.text.parse.calls.extract import find_calls
from lookfar.text.parse.calls.facts import decode_facts, encode_facts
from lookfar.text.parse.calls.scopes import simplify, simplify_type
from lookfar.text.parse.source_code import parse

PYTHON = """\
import os.path
import fleet.ships as ships
from .deck import Crate as Box, stow

HOLD = Box()

def load(crate: 'Box', other, *rest):
    crate.lift()
    other.lift()
    stow(crate)
    other()
    ships.Barge().moor()
    local = ships.Barge(
        1,
        2,
    )
    local.moor()
    HOLD.lift()
    for each in rest:
        each.lift()

class Ship(ships.Hull):
    def __init__(self, box: Box):
        self.box = box

    def sail(self):
        self.turn()
        super().sail()
        self.box.lift()
"""


def facts_of(uri: str, text: str) -> CallFacts:
    facts = find_calls(parse(uri, text))
    assert facts is not None
    return facts


def sites(uri: str, text: str) -> list[tuple[int, str, str]]:
    return [(call.line, call.receiver, call.name) for call in facts_of(uri, text).calls]


def test_calls_of_a_python_file_name_what_is_before_them() -> None:
    expected = {
        (8, "Box()", "lift"),  # The type of a parameter.
        (9, "?", "lift"),
        (10, "", "stow"),
        (12, "ships.Barge()", "moor"),
        (17, "ships.Barge()", "moor"),  # The value of a variable.
        (18, "HOLD", "lift"),
        (20, "?", "lift"),
        (27, "@", "turn"),
        (28, "^", "sail"),
        (29, "@.box", "lift"),
    }
    found = set(sites("ship.py", PYTHON))
    assert expected <= found
    # Nobody can tell what a parameter calls.
    assert not [site for site in found if site[2] == "other"]


def test_imports_and_attributes_of_a_python_file() -> None:
    facts = facts_of("ship.py", PYTHON)
    assert set(facts.imports) == {
        ("os", "os", ""),
        ("ships", "fleet.ships", ""),
        ("Box", ".deck", "Crate"),
        ("stow", ".deck", "stow"),
    }
    ship = next(symbol for symbol in facts.symbols if symbol.title == "Ship")
    assert ship.bases == ("ships.Hull",)
    # The attribute has the type of the parameter that it is set to.
    assert facts.variables[ship.section] == {"box": "Box()"}
    assert facts.variables[-1] == {"HOLD": "Box()"}


@pytest.mark.parametrize(
    ("uri", "text", "expected"),
    [
        ("a.ts", "import d, {b as c} from './x';\nfunction f(q: Foo) { q.g(); c(); d(); }",
         {("Foo()", "g"), ("", "c"), ("", "d")}),
        ("a.js", "class A { m() { this.n(); } }\nconst x = new A();\nx.m();",
         {("@", "n"), ("x", "m")}),
        ("a.go", "package a\nfunc (t *T) m() { t.n(); q := NewT(); q.n(); fmt.Println() }",
         {("T()", "n"), ("NewT()", "n"), ("", "NewT"), ("fmt", "Println")}),
        ("A.java", "class A { Foo f; void m(Bar b) { b.x(); f.y(); n(); this.n(); new Foo(); } }",
         {("Bar()", "x"), ("f", "y"), ("", "n"), ("@", "n"), ("", "Foo")}),
        ("a.rs", "impl T { fn m(&self, x: &Foo) { self.n(); x.g(); Foo::new(); k(); } }",
         {("@", "n"), ("Foo()", "g"), ("Foo", "new"), ("", "k")}),
        ("a.c", "int f(struct foo *x) { x->h(2); return k(); }", {("foo()", "h"), ("", "k")}),
        ("a.cpp", "void A::m(Foo& x) { k(); this->n(); x.g(); N::w(); }",
         {("", "k"), ("@", "n"), ("Foo()", "g"), ("N", "w")}),
        ("a.cs", "class A { void M(Bar b) { b.X(); this.N(); Q(); } }",
         {("Bar()", "X"), ("@", "N"), ("", "Q")}),
        ("a.rb", "class A\n def m(x)\n  n(1)\n  self.k\n  x.g\n end\nend",
         {("", "n"), ("@", "k"), ("?", "g")}),
        ("a.php", "<?php class A { function m(Foo $x) { $this->n(); $x->g(); A::w(); k(); } }",
         {("@", "n"), ("A", "w"), ("", "k")}),
        ("a.lua", "function M.f(x)\n m.g(1)\n k()\nend", {("m", "g"), ("", "k")}),
        ("a.sh", "f() { g 1; }\nf 2", {("", "g"), ("", "f")}),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 8 else "",
)  # fmt: skip
def test_calls_in_other_languages(uri: str, text: str, expected: set[tuple[str, str]]) -> None:
    assert expected <= {(receiver, name) for _, receiver, name in sites(uri, text)}


EXACT = {
    "a.ts": (
        ("import { b as c } from './x'; // Grüße\n"
        "export default class A {\n"
        "  size: Foo;\n"
        "  m(q: Bar, { r }: any) {\n"
        "    const z = new Foo(q.g());\n"
        "    z.h(); r(); r.i(); c(); this.size.j();\n"
        "    let w; w = build(); w\n      .k();\n"
        "  }\n"
        "}\n"
        "const top = c();\n"),
        {(5, "", "Foo"), (5, "Bar()", "g"), (6, "Foo()", "h"), (6, "?", "i"), (6, "", "c"),
         (6, "@.size", "j"), (7, "", "build"), (8, "?", "k"), (11, "", "c")},
        (("c", "./x", "b"),),
        {"default": "A", "top": "c()", "size": "Foo()"},
    ),
    "A.java": (
        ("import java.util.List;\nimport a.Foo;\n"
        "class A extends B {\n"
        "  Foo f = new Foo();\n"
        "  void m(Bar b) { b.x().y(); f.z(); n(); super.m(b); List.of(b); }\n"
        "}\n"),
        {(4, "", "Foo"), (5, "Bar()", "x"), (5, "Bar().x()", "y"), (5, "f", "z"), (5, "", "n"),
         (5, "^", "m"), (5, "List", "of")},
        (("List", "java.util", "List"), ("Foo", "a", "Foo")),
        {"f": "Foo()"},
    ),
    "a.py": (
        ("from b import é, y\nimport c\n"
        "@y\nclass A:\n"
        "    def m(self, p: é, q):\n"
        "        with c.open() as h: h.r()\n"
        "        p.s(); q.t(); self.u(); self.v = p; (x := y())\n"),
        {(3, "", "y"), (6, "c", "open"), (6, "?", "r"), (7, "é()", "s"), (7, "?", "t"),
         (7, "@", "u"), (7, "", "y")},
        (("é", "b", "é"), ("y", "b", "y"), ("c", "c", "")),
        {"v": "é()"},
    ),
    "a.cc": (
        ("struct S { int go(); };\n"
        "void f(S* s, int n) {\n  S t;\n  auto u = new S();\n"
        "  s->go(); t.go(); u->go(); ns::k(); h();\n}\n"),
        {(4, "", "S"), (5, "S()", "go"), (5, "ns", "k"), (5, "", "h")},
        (),
        {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("uri", EXACT)
def test_all_facts_of_a_file(uri: str) -> None:
    """Nothing is lost and nothing is added, in no role that a node can have."""
    text, calls, imports, variables = EXACT[uri]
    facts = facts_of(uri, text)
    assert {(call.line, call.receiver, call.name) for call in facts.calls} == calls
    assert facts.imports == imports
    merged = {name: value for names in facts.variables.values() for name, value in names.items()}
    assert merged == variables


def test_facts_are_in_the_order_of_the_text() -> None:
    """The last of two imports of a name counts, and an assignment before a declaration does not."""
    names = [f"name{number}" for number in range(300)]
    text = "".join(f"import {{ {name} }} from './{name}';\n" for name in names)
    text += "".join(f"function f{n}() {{ x{n} = a(); let x{n}; x{n}.b(); }}\n" for n in names)
    facts = facts_of("a.ts", text)
    assert [name for name, _, _ in facts.imports] == names
    assert {call.receiver for call in facts.calls if call.name == "b"} == {"?"}


def test_every_grammar_accepts_its_query() -> None:
    for language in CALL_RULES:
        ending = {"python": "py", "javascript": "js", "typescript": "ts", "rust": "rs",
                  "csharp": "cs", "kotlin": "kt", "ruby": "rb", "elixir": "ex",
                  "bash": "sh"}.get(language, language)  # fmt: skip
        assert find_calls(parse(f"a.{ending}", "x\n")) is not None


def test_facts_survive_storage_and_damage_is_noticed() -> None:
    for name, text in vars(code_samples).items():
        if name.isupper() and isinstance(text, str):
            for ending in ("py", "js", "ts", "go", "java", "rs", "c", "cpp", "cs"):
                facts = find_calls(parse(f"a.{ending}", text))
                if facts is not None and (facts.symbols or facts.calls):
                    assert decode_facts(encode_facts(facts)) == facts
    data = encode_facts(facts_of("ship.py", PYTHON))
    for at in range(len(data)):
        spoiled = data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :]
        assert decode_facts(spoiled) in (None, facts_of("ship.py", PYTHON))
    assert decode_facts(b"") is None


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("a.b", "a.b"),
        ("self", "@"),
        ("self.x.y", "@.x.y"),
        ("super()", "^"),
        ("Foo(1, (2), [3])", "Foo()"),
        ("a[0].b", "?"),
        ("await f(x)", "f()"),
        ("x if y else z", "?"),
        ("f(" + "1, " * 500 + ")", "f()"),
    ],
)
def test_an_expression_is_reduced_to_a_path(written: str, expected: str) -> None:
    assert simplify(written, CALL_RULES["python"]) == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("Foo", "Foo()"),
        ("'a.Foo'", "a.Foo()"),
        ("Foo | None", "Foo()"),
        ("t.Optional[Foo]", "Foo()"),
        ("list[Foo]", "list()"),
        ("Foo | Bar", "?"),
        ("&mut Foo<'a>", "Foo()"),
        ("*pkg.Foo", "pkg.Foo()"),
    ],
)
def test_a_type_is_reduced_to_a_class(written: str, expected: str) -> None:
    assert simplify_type(written) == expected
