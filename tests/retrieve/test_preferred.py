"""A name resolves as a reader would choose, and is ambiguous only between different things."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from lookfar import Library
from lookfar.errors import Ambiguous
from lookfar.model import Reading

FILES: Mapping[str, str] = {
    "include/shelf.h": (
        "class Shelf {\n public:\n  Shelf();\n  int Put(int a);\n};\nint shelf_open(int a);\n"
    ),
    "src/shelf.cc": (
        '#include "shelf.h"\nShelf::Shelf() {\n}\nint Shelf::Put(int a) { return a; }\n'
        "int shelf_open(int a) {\n  return a;\n}\nint Row::Put2() {\n  return 1;\n}\n"
    ),
    "src/lib.rs": "pub struct Store;\nimpl Store {\n  fn a() {}\n}\nimpl Store {\n  fn b() {}\n}\n",
    "src/Sql.cs": "namespace N\n{\n    public partial class Sql\n    {\n        int A;\n    }\n}\n",
    "src/Sql.Async.cs": "namespace N\n{\n    partial class Sql\n    {\n        int B;\n    }\n}\n",
    "src/app.py": (
        "from typing import overload\n\n\n@overload\ndef load(a: int) -> int: ...\n"
        "@overload\ndef load(a: str) -> str: ...\ndef load(a):\n    return a\n\n\n"
        "def outer():\n    def inner():\n        pass\n\n\ndef shared():\n    pass\n\n\n"
        "class Box:\n    def size(self):\n        return 1\n"
    ),
    "src/other.py": (
        "class Lid:\n    def size(self):\n        return 2\n\n\ndef inner():\n    pass\n"
    ),
    "tests/test_app.py": "def shared():\n    assert True\n",
    ".github/ci.yml": "load: 1\nonly_data: 2\n",
    "src/attr.rb": "class Cup\n  attr_reader :height, :width\nend\n",
    "src/m.h": "#define ONE 1\n#define TWO 2\n#define THREE 3\n",
}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    folder = tmp_path_factory.mktemp("preferred")
    for name, text in FILES.items():
        path: Path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    library = Library.open(
        folder, index_dir=tmp_path_factory.mktemp("index"), settings={"embed.provider": "none"}
    )
    library.index()
    return library


def place(reading: Reading) -> str:
    return f"{reading.uri}:{reading.span.start_line}-{reading.span.end_line}"


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("shelf_open", "src/shelf.cc:5-7"),  # The definition, not the declaration.
        ("Shelf.Put", "src/shelf.cc:4-4"),
        ("Shelf", "include/shelf.h:1-5"),  # The class, not its constructor.
        ("Store", "src/lib.rs:1-1"),  # The struct, not its implementations.
        ("load", "src/app.py:8-9"),  # The function, not an overload, and not a key of a file.
        ("shared", "src/app.py:17-18"),  # The code, not its test.
        ("inner", "src/other.py:6-7"),  # The function of the module, not a local one.
        ("Sql", "src/Sql.cs:3-6"),  # The main part of a partial class.
        ("only_data", ".github/ci.yml:2-2"),
        ("width", "src/attr.rb:2-2"),  # The whole line that defines two names.
        ("width=", "src/attr.rb:2-2"),
        ("TWO", "src/m.h:2-2"),
        ("src/app.py#load", "src/app.py:8-9"),
    ],
)
def test_a_name_leads_where_a_reader_would_go(library: Library, name: str, wanted: str) -> None:
    """Seen to fail for each name with its preference removed from ``choose``."""
    assert place(library.read(name)) == wanted


def test_a_partial_class_lists_its_other_parts(library: Library) -> None:
    assert library.read("Sql").also == ("src/Sql.Async.cs:3-6 (N.Sql)",)


def test_different_things_with_one_name_are_ambiguous(library: Library) -> None:
    with pytest.raises(Ambiguous) as raised:
        library.read("size")
    assert raised.value.details["candidates"] == [
        "src/app.py:22-23 (Box.size)",
        "src/other.py:2-3 (Lid.size)",
    ]


def test_a_line_with_two_definitions_is_read_whole(library: Library) -> None:
    assert library.read("width").text == "  attr_reader :height, :width\n"
