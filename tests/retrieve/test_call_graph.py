"""The call graph of a library: edges by scope, import and type, by name, and through files.

Seen to fail when a call by name was marked certain.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from lookfar.errors import InvalidArgument, NotFound
from lookfar.library import Library
from lookfar.model import RelatedEntry, RelatedKind
from sample_files import write_files

pytestmark = pytest.mark.usefixtures("own_home")

SETTINGS = {"embed.provider": "hash", "index.workers": 1, "git.history": False}
FILES = {
    "src/fleet/__init__.py": "from .ships import Ship as Ship\nfrom .ships import moor\n",
    "src/fleet/hull.py": "class Hull:\n    def float(self):\n        return 1\n",
    "src/fleet/ships.py": (
        "import json\n\nfrom .hull import Hull\n\n\n"
        "class Ship(Hull):\n"
        "    def load(self, crate):\n"
        "        self.float()\n"
        "        return self.stow(crate)\n\n"
        "    def stow(self, crate):\n"
        "        json.loads(crate)\n"
        "        return crate\n\n\n"
        "class Barge:\n"
        "    def load(self, crate):\n"
        "        return crate\n\n\n"
        "def moor(ship: Ship):\n"
        "    ship.load(1)\n\n\n"
        "def loads(text):\n"
        "    return text\n"
    ),
    "src/harbour.py": (
        "from fleet import Ship, moor as tie_up\n\n\n"
        "def open_harbour(thing):\n"
        "    ship = Ship()\n"
        "    tie_up(ship)\n"
        "    thing.load(2)\n\n\n"
        "open_harbour(None)\n"
    ),
    "tests/test_harbour.py": (
        "import harbour\n\n\ndef test_it_opens():\n    harbour.open_harbour(None)\n"
    ),
    "web/cart.ts": (
        "import total from './sum';\nimport * as tools from './tools';\n"
        "export class Cart {\n  private tool: tools.Tool;\n"
        "  pay(): number { this.tool.use(); return total([]); }\n}\n"
    ),
    "web/sum.ts": "export default function sum(list: number[]) { return list.length; }\n",
    "web/tools.ts": "export class Tool { use() { return 1; } }\n",
    "go.mod": "module example.org/port\n\ngo 1.22\n",
    "dock/dock.go": (
        'package dock\n\nimport "example.org/port/crane"\n\n'
        "func Lift() {\n\tc := crane.New()\n\tc.Raise()\n\thelp()\n}\n"
    ),
    "dock/help.go": "package dock\n\nfunc help() {}\n",
    "crane/crane.go": (
        "package crane\n\ntype Crane struct{}\n\nfunc New() *Crane { return &Crane{} }\n\n"
        "func (c *Crane) Raise() {}\n"
    ),
}


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    folder = write_files(tmp_path / "port", FILES)
    with Library.open(folder, index_dir=tmp_path / "index", settings=SETTINGS) as library:
        library.index()
        yield library


def list_calls(
    library: Library, target: str, direction: str = "callers", depth: int = 1
) -> dict[str, bool]:
    """Return the names of callers or callees, and whether they are certain."""
    graph = library.call_graph(target, direction=direction, depth=depth)  # type: ignore[arg-type]
    return {f"{node.uri.rpartition('/')[2]}:{node.name}": node.certain for node in graph.nodes}


def entries(library: Library, target: str, kind: RelatedKind) -> list[RelatedEntry]:
    return list(library.related(target, kinds=(kind,), limit=50).entries)


def test_an_import_through_a_package_and_an_alias_is_certain(library: Library) -> None:
    assert list_calls(library, "moor") == {"harbour.py:open_harbour": True}


def test_a_typed_parameter_is_certain_and_an_unknown_one_is_by_name(library: Library) -> None:
    assert list_calls(library, "Ship.load") == {
        "ships.py:moor": True,
        "harbour.py:open_harbour": False,
    }
    # The same call may mean the other method of this name.
    assert list_calls(library, "Barge.load") == {"harbour.py:open_harbour": False}


def test_methods_of_the_object_and_of_its_parents_are_certain(library: Library) -> None:
    callees = list_calls(library, "Ship.load", "callees")
    assert callees == {"hull.py:Hull.float": True, "ships.py:Ship.stow": True}


def test_a_call_into_another_package_reaches_nothing_here(library: Library) -> None:
    assert list_calls(library, "loads") == {}
    assert list_calls(library, "Ship.stow", "callees") == {}


def test_a_class_is_called_where_it_is_created(library: Library) -> None:
    assert list_calls(library, "Ship") == {"harbour.py:open_harbour": True}


def test_code_outside_of_functions_calls_too(library: Library) -> None:
    assert list_calls(library, "open_harbour") == {
        "harbour.py:": True,
        "test_harbour.py:test_it_opens": True,
    }


def test_default_exports_namespaces_and_fields_of_typescript(library: Library) -> None:
    assert list_calls(library, "sum") == {"cart.ts:Cart.pay": True}
    assert list_calls(library, "Tool.use") == {"cart.ts:Cart.pay": True}


def test_packages_of_go_are_folders(library: Library) -> None:
    assert list_calls(library, "dock/dock.go#Lift", "callees") == {
        "crane.go:New": True,
        "crane.go:Crane.Raise": True,
        "help.go:help": True,
    }


def test_impact_is_transitive_and_follows_only_what_is_unambiguous(library: Library) -> None:
    impact = {(e.title, e.depth, e.certain) for e in entries(library, "Ship.stow", "impact")}
    assert impact == {
        ("Ship.load", 1, True),
        ("moor", 2, True),
        ("open_harbour", 3, True),
    }
    graph = library.call_graph("Ship.stow", depth=5)
    assert [node.name for node in graph.nodes][-2:] == ["", "test_it_opens"]
    by_name = {node.name: graph.nodes[node.parent].name for node in graph.nodes if node.depth > 1}
    assert by_name["moor"] == "Ship.load"
    assert by_name["test_it_opens"] == "open_harbour"


def test_the_tests_that_reach_a_function_are_listed(library: Library) -> None:
    (entry,) = entries(library, "Ship.stow", "tests")
    assert (entry.uri, entry.title, entry.relation) == (
        "tests/test_harbour.py",
        "test_it_opens",
        "tests",
    )
    assert entry.context == "harbour.open_harbour(None)"


def test_a_changed_file_changes_its_calls_only(library: Library, tmp_path: Path) -> None:
    path = tmp_path / "port/src/harbour.py"
    path.write_text("from fleet import Ship\n\n\ndef close(ship: Ship):\n    ship.stow(1)\n")
    library.index()
    assert list_calls(library, "Ship.stow") == {
        "ships.py:Ship.load": True,
        "harbour.py:close": True,
    }
    assert list_calls(library, "moor") == {}


def test_files_without_stored_facts_are_parsed_when_asked(library: Library, tmp_path: Path) -> None:
    before = list_calls(library, "Ship.load", depth=4)
    (catalogue,) = library.index_dir.glob("epoch-*/catalogue.db")
    with closing(sqlite3.connect(catalogue)) as connection, connection:
        connection.execute("DELETE FROM calls")
    index = tmp_path / "index"
    with Library.open(tmp_path / "port", index_dir=index, settings=SETTINGS) as again:
        assert list_calls(again, "Ship.load", depth=4) == before != {}


def test_a_name_is_never_refused(library: Library) -> None:
    several = library.related("load")
    assert {entry.heading_path for entry in several.entries} == {
        ("Ship", "load"),
        ("Barge", "load"),
    }
    assert "2 definitions" in several.incomplete[0].detail
    unknown = library.related("open_harbor")
    assert [entry.heading_path for entry in unknown.entries] == [("open_harbour",)]
    assert library.related("nothing_like_it_at_all").entries == ()
    # A path is not a name.
    with pytest.raises(NotFound):
        library.related("nothing/like.md")


def test_a_graph_needs_a_definition_and_bounds(library: Library) -> None:
    with pytest.raises(InvalidArgument):
        library.call_graph("src/harbour.py")
    with pytest.raises(NotFound, match="open_harbor"):
        library.call_graph("open_harbor")
    with pytest.raises(InvalidArgument):
        library.call_graph("moor", depth=0)
    graph = library.call_graph("Ship.stow", depth=5, limit=2)
    assert (len(graph.nodes), graph.complete) == (2, False)


def test_a_definition_shows_its_callers_by_default(library: Library) -> None:
    kinds = {entry.kind for entry in library.related("moor").entries}
    assert {"definitions", "callers", "callees"} <= kinds
