"""Where labels and documents of Sphinx, AsciiDoc and Org projects lead.

Seen to fail: labels of another project, an absolute path taken from the root of the collection, the
first of several equally near labels, and labels shared between formats.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from store.shelf import Shelf
from store.test_graph import both_ways, leads, linked_from

PROJECT = {
    "docs/conf.py": "project = 'one'\n",
    "docs/index.rst": "Home\n====\n\n.. toctree::\n\n   quickstart\n   patterns/index\n",
    "docs/quickstart.rst": ".. _Start Here:\n\nQuick\n=====\n",
    "docs/quickstart.html": "<p>rendered</p>",
    "docs/patterns/index.rst": "Patterns\n========\n",
    "docs/patterns/quickstart.rst": "Another\n=======\n",
    "docs/myst.md": "(in-markdown)=\n# M\n",
    "other/conf.py": "project = 'two'\n",
    "other/quickstart.rst": ".. _start here:\n.. _only there:\n\nQ\n=\n",
    "other/index.rst": "Other\n=====\n",
    "quickstart.rst": "Root\n====\n",
    "book/a.adoc": "[[shared]]\n== A\n",
    "book/b.adoc": "[[unique]]\n== B\n\n[[twice]]\n== T\n",
    "book/c.adoc": "[[twice]]\n== C\n",
    "notes/one.org": "* One\n:PROPERTIES:\n:ID: abc-1\n:END:\n",
}

LINKS = [
    ("docs/x.rst", ":ref:`start here`", "docs/quickstart.rst"),
    ("docs/x.rst", ":ref:`START  here`", "docs/quickstart.rst"),
    ("other/x.rst", ":ref:`start here`", "other/quickstart.rst"),
    ("docs/deep/x.rst", ":ref:`start here`", "docs/quickstart.rst"),
    ("docs/x.rst", ":ref:`only there`", "(only there)"),
    ("docs/x.rst", ":ref:`in-markdown`", "docs/myst.md"),
    ("docs/x.rst", ":ref:`quickstart`", "(quickstart)"),
    ("docs/x.rst", ":ref:`shared`", "(shared)"),
    ("docs/x.rst", ":doc:`quickstart`", "docs/quickstart.rst"),
    ("docs/patterns/x.rst", ":doc:`quickstart`", "docs/patterns/quickstart.rst"),
    ("docs/patterns/x.rst", ":doc:`/quickstart`", "docs/quickstart.rst"),
    ("docs/patterns/x.rst", ":doc:`../quickstart`", "docs/quickstart.rst"),
    ("docs/patterns/x.rst", ":doc:`/index`", "docs/index.rst"),
    ("docs/patterns/x.rst", ":doc:`/patterns/index`", "docs/patterns/index.rst"),
    ("docs/patterns/x.rst", ":doc:`/patterns`", "(/patterns)"),
    ("docs/x.rst", ":doc:`absent`", "(absent)"),
    ("docs/x.md", "{doc}`quickstart` ", "docs/quickstart.rst"),
    ("docs/x.md", "{ref}`start here`", "docs/quickstart.rst"),
    ("docs/x.md", "{ref}`start here` [t](in-markdown)", "docs/quickstart.rst docs/myst.md"),
    ("docs/x.md", "{doc}`index` [t](#in-markdown)", "docs/index.rst docs/myst.md"),
    ("docs/x.md", "{doc}`index` [t](#nowhere)", "docs/index.rst"),
    ("x.md", "[t](in-markdown)", "(in-markdown)"),
    ("x.rst", ":ref:`unique`", "(unique)"),
    ("book/x.adoc", "<<unique>>", "book/b.adoc"),
    ("book/x.adoc", "<<twice>>", "(twice)"),
    ("book/x.adoc", "xref:a.adoc#shared[]", "book/a.adoc"),
    ("book/x.adoc", "xref:absent.adoc[]", "(./absent.adoc)"),
    ("book/x.adoc", "<<start here>>", "(start here)"),
    ("notes/sub/x.org", "[[id:abc-1][One]]", "notes/one.org"),
    ("notes/sub/x.org", "[[file:../one.org::*One]]", "notes/one.org"),
    ("notes/sub/x.org", "[[file:one.org]]", "(./one.org)"),
]


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    pages: dict[str, str | None] = dict(PROJECT)
    for number, (source, text, _) in enumerate(LINKS):
        pages[_page(source, number)] = text + "\n"
    shelf = Shelf(tmp_path_factory.mktemp("shelf"))
    shelf.write(pages)
    return shelf


def _page(source: str, number: int) -> str:
    stem, _, ending = source.rpartition(".")
    return f"{stem}{number}.{ending}"


@pytest.mark.parametrize(
    ("number", "link"), list(enumerate(LINKS)), ids=lambda value: str(value)[:60]
)
def test_where_a_link_leads(shelf: Shelf, number: int, link: tuple[str, str, str]) -> None:
    source, _, target = link
    assert " ".join(leads(shelf, _page(source, number))) == target


def test_backlinks_are_the_reverse(shelf: Shelf) -> None:
    both_ways(shelf)
    assert "docs/index.rst" in linked_from(shelf, "docs/quickstart.rst")


def test_without_a_project_file_the_nearest_root_counts(tmp_path: Path) -> None:
    """The file may be excluded from the index."""
    shelf = Shelf(tmp_path)
    pages: dict[str, str | None] = {
        uri: text for uri, text in PROJECT.items() if not uri.endswith("conf.py")
    }
    pages["docs/patterns/x.rst"] = ":doc:`/patterns/index` :ref:`start here`\n"
    shelf.write(pages)
    assert leads(shelf, "docs/patterns/x.rst") == ["docs/patterns/index.rst", "docs/quickstart.rst"]


def test_a_label_that_moves_takes_its_links_along(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    shelf.write({"a.rst": ":ref:`there`\n", "b.rst": ".. _there:\n\nB\n=\n"})
    assert leads(shelf, "a.rst") == ["b.rst"]
    shelf.write({"b.rst": "B\n=\n", "c.rst": ".. _there:\n\nC\n=\n"})
    assert leads(shelf, "a.rst") == ["c.rst"]
    shelf.write({"c.rst": None})
    assert leads(shelf, "a.rst") == ["(there)"]
