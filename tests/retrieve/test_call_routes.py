"""How one definition reaches another: by calls, and by what the index cannot prove.

Seen to fail when a link by name counted as proven.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lookfar.errors import Ambiguous, InvalidArgument, NotFound
from lookfar.library import Library
from lookfar.model import CallRoute
from sample_files import write_files

pytestmark = pytest.mark.usefixtures("own_home")

SETTINGS = {"embed.provider": "hash", "index.workers": 1, "git.history": False}
FILES = {
    "src/ledger.py": (
        "import sys\n\n\n"
        "class Ledger:\n"
        "    def post(self, amount):\n"
        "        self._store(amount)\n\n"
        "    def report(self):\n"
        "        return self.total + 1\n\n"
        "    def _store(self, amount):\n"
        "        raise NotImplementedError\n\n"
        "    @property\n"
        "    def total(self):\n"
        "        return add_up(self)\n\n\n"
        "class PaperLedger(Ledger):\n"
        "    def _store(self, amount):\n"
        "        write_down(amount)\n\n\n"
        "def write_down(amount):\n"
        "    return amount\n\n\n"
        "def add_up(ledger):\n"
        "    return 0\n\n\n"
        "if sys.platform == 'win32':\n"
        "    def open_book():\n"
        "        pass\n"
        "else:\n"
        "    def open_book():\n"
        "        return write_down(0)\n"
    ),
    "src/batch.py": (
        "from ledger import Ledger\nfrom jobs import later\n\n\n"
        "def run_month(ledger: Ledger):\n"
        "    for invoice in (1, 2):\n"
        "        pay(invoice, ledger)\n"
        "    ledger.post(0)\n\n\n"
        "def pay(invoice, ledger: Ledger):\n"
        '    """Never call retry here."""\n'
        "    return ledger.post(invoice)\n\n\n"
        "def schedule():\n"
        "    later(retry)\n\n\n"
        "def retry():\n"
        "    finish()\n\n\n"
        "def finish():\n"
        "    pass\n\n\n"
        "def audit(ledger, box):\n"
        "    ledger.close()\n"
        "    box.close()\n"
    ),
    # Keys of data have names, but no calls.
    "settings.yml": "close: 1\nretry: 2\n",
    "src/pump.c": (
        "struct pump { int level; };\n\nvoid drain(struct pump *p) { p->close(); p->retry = 1; }\n"
    ),
    "src/jobs.py": "def later(work):\n    work()\n",
    "src/closing.py": (
        "class BigLedger:\n    def close(self):\n        seal()\n\n\n"
        "class Door:\n    def close(self):\n        slam()\n\n\n"
        "def seal():\n    pass\n\n\ndef slam():\n    pass\n"
    ),
    "tests/test_batch.py": (
        "from batch import finish, run_month\n\n\n"
        "def hurry():\n    finish()\n\n\n"
        "def test_a_month():\n    run_month(None)\n    hurry()\n"
    ),
}


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    folder = write_files(tmp_path / "books", FILES)
    with Library.open(folder, index_dir=tmp_path / "index", settings=SETTINGS) as library:
        library.index()
        yield library


def links(route: CallRoute) -> list[tuple[str, str | None, tuple[int, ...]]]:
    return [(step.name, step.link, step.calls) for step in route.steps]


def test_calls_that_are_resolved_make_a_complete_way(library: Library) -> None:
    route = library.call_route("run_month", "write_down")
    assert not route.complete
    route = library.call_route("run_month", "Ledger._store")
    assert links(route) == [
        ("run_month", "call", (8,)),
        ("Ledger.post", "call", (6,)),
        ("Ledger._store", None, ()),
    ]
    assert route.complete
    assert route.steps[0].call == "ledger.post(0)"
    assert route.steps[1].signature == "def post(self, amount):"


def test_a_property_is_called_without_parentheses(library: Library) -> None:
    route = library.call_route("Ledger.report", "add_up")
    assert links(route)[:2] == [("Ledger.report", "call", (9,)), ("Ledger.total", "call", (16,))]
    assert route.complete


def test_an_overriding_method_is_not_proven(library: Library) -> None:
    route = library.call_route("Ledger.post", "write_down")
    assert [(name, link) for name, link, _ in links(route)] == [
        ("Ledger.post", "call"),
        ("Ledger._store", "override"),
        ("PaperLedger._store", "call"),
        ("write_down", None),
    ]
    assert not route.complete


def test_a_function_that_is_passed_on_is_mentioned(library: Library) -> None:
    route = library.call_route("schedule", "finish")
    assert links(route) == [
        ("schedule", "mention", (17,)),
        ("retry", "call", (21,)),
        ("finish", None, ()),
    ]
    # Words of a docstring are no mention.
    assert library.call_route("pay", "finish").steps == ()


def test_a_call_by_name_prefers_the_class_that_resembles_the_object(library: Library) -> None:
    route = library.call_route("audit", "seal")
    assert links(route)[0] == ("audit", "name", (29,))
    assert route.steps[0].namesakes == 2
    assert not route.complete


def test_a_way_does_not_lead_through_tests(library: Library) -> None:
    route = library.call_route("run_month", "finish")
    assert (route.steps, route.searched_all, route.reverse) == ((), True, False)
    assert [(node.uri, node.name) for node in route.callers] == [("src/batch.py", "retry")]
    assert library.call_route("test_a_month", "finish").complete


def test_the_way_back_is_named(library: Library) -> None:
    assert library.call_route("Ledger._store", "run_month").reverse


def test_names_in_data_are_no_calls(library: Library) -> None:
    """Seen to fail with a KeyError: a key of YAML has the name of a method."""
    assert library.call_route("drain", "seal").steps == ()


def test_whole_classes_and_files_reach_each_other(library: Library) -> None:
    route = library.call_route("src/batch.py", "Ledger")
    assert [step.name for step in route.steps] == ["run_month", "Ledger.post"]
    assert library.call_route("src/ledger.py#open_book", "write_down").complete


def test_a_class_has_what_it_inherits(library: Library) -> None:
    """Seen to fail: the way from a subclass began only at its own methods."""
    assert [step.name for step in library.call_route("PaperLedger", "add_up").steps] == [
        "Ledger.total", "add_up",
    ]  # fmt: skip
    route = library.call_route("PaperLedger.report", "add_up")
    assert (route.source, len(route.steps)) == ("PaperLedger.report", 3)
    for ask in (lambda: library.call_route("PaperLedger.sing", "add_up"),
                lambda: library.read("PaperLedger.sing")):  # fmt: skip
        with pytest.raises(NotFound):
            ask()


def test_an_inherited_method_is_read_by_the_name_of_the_subclass(library: Library) -> None:
    reading = library.read("PaperLedger.report")
    assert (reading.uri, reading.heading_path) == ("src/ledger.py", ("Ledger", "report"))
    assert reading.text.startswith("    def report(self):")
    related = library.related("PaperLedger.report")
    assert (related.uri, related.heading_path) == (reading.uri, reading.heading_path)
    assert related.entries == library.related("src/ledger.py#Ledger.report").entries
    assert library.related("PaperLedger.sing").uri == ""


def test_what_is_not_a_definition_is_refused(library: Library) -> None:
    with pytest.raises(InvalidArgument, match="not a definition"):
        library.call_route("src/batch.py:1-3", "pay")
    with pytest.raises(Ambiguous):
        library.call_route("audit", "close")
    with pytest.raises(NotFound):
        library.call_route("audit", "nothing_like_it")
