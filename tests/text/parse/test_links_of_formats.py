"""Links and labels of reStructuredText, MyST, AsciiDoc and Org, as written.

Seen to fail: roles read inside literals, labels with a URL taken as labels, Antora names read as
paths, and anchors of the same document taken for labels of another.
"""

from __future__ import annotations

import pytest

from lookfar.model import Document
from lookfar.text.parse.markdown import parse
from lookfar.text.parse.plaintext import parse_asciidoc, parse_org, parse_rst
from processor_time import processor_time_below


def targets(document: Document) -> list[tuple[str, str, str]]:
    for link in document.links:
        assert document.text[link.start : link.end].strip(), link
    assert list(document.links) == sorted(document.links, key=lambda link: link.start)
    return [(link.kind, link.target, link.anchor) for link in document.links]


RST = r"""
.. _Intro Part:

Title
=====

.. _with\:colon:
.. _`quoted: name`:
.. _url: https://example.org/
.. _below:
   https://example.org/
.. __: https://example.org/

See :ref:`intro part`, :ref:`shown as <Other
Label>`, :doc:`setup`, :doc:`the guide </guide/index>`, :std:ref:`x`, :any:`a/b` and
`text <other.rst#part>`_, `site <https://example.org>`__, `alias <name_>`_.
Not ``:ref:`literal` `` or ``a :ref:`literal` `` nor
:class:`Flask`, :ref:`genindex` or :func:`~a.b`.

.. code-block:: rst

   .. _in code:

   :ref:`in code`

.. toctree::
   :maxdepth: 2
   :caption: Parts

   install
   The guide <guide/index>
   self
   https://example.org/
   parts/*

.. include:: ../CHANGES.rst

.. figure:: a.png
   :name: fig one
"""


def test_rst() -> None:
    document = parse_rst("docs/a.rst", RST)
    assert targets(document) == [
        ("label", "intro part", ""),
        ("label", "Other Label", ""),
        ("document", "setup", ""),
        ("document", "/guide/index", ""),
        ("label", "x", ""),
        ("document", "a/b", ""),
        ("link", "other.rst", "part"),
        ("document", "install", ""),
        ("document", "guide/index", ""),
        ("document", "../CHANGES.rst", ""),
    ]
    assert document.labels == ("Intro Part", "with:colon", "quoted: name", "fig one")
    assert [link.text for link in document.links][1:4] == ["shown as", "", "the guide"]


MYST = """\
# First part

(own label)=
## Second

{ref}`own label`, {ref}`shown <other>`, {doc}`setup`, [x](#second), [y](#elsewhere), [z](file.md).
Code: `{ref}` and `no`, ``{ref}`literal` ``.

```{toctree}
:maxdepth: 1

install
Guide <guide/index>
```

```python
{ref}`in code`
(not a label)=
```
"""


def test_myst() -> None:
    document = parse("a.md", MYST)
    assert targets(document) == [
        ("label", "own label", ""),
        ("label", "other", ""),
        ("document", "setup", ""),
        ("link", "", "second"),
        ("label", "#elsewhere", ""),
        ("link", "file.md", ""),
        ("document", "install", ""),
        ("document", "guide/index", ""),
    ]
    assert document.labels == ("own label",)


def test_markdown_that_is_not_myst_is_as_before() -> None:
    document = parse("a.md", "# A\n\n[y](#elsewhere) `{ref}` and `b`\n\n```{r}\nx\n```\n")
    assert targets(document) == [("link", "", "elsewhere")]
    assert document.labels == ()


ASCIIDOC = r"""= Title
:base: other/place

[[first]]
== Part one

[#second.role]
== Part two

xref:guide.adoc#install[Install], xref:{base}/x.adoc[X], <<first>>, <<_part_two,Two>>,
<<far away label,there>>, xref:second[here], xref:#first[], link:files/a.txt[file],
link:https://example.org/[site], xref:{unknown}.adoc[no], \xref:not.adoc[], <<dir/page#part,P>>.

----
xref:code.adoc[] <<code>>
----

include::parts/one.adoc[leveloffset=1]
"""


def test_asciidoc() -> None:
    document = parse_asciidoc("docs/a.adoc", ASCIIDOC)
    assert targets(document) == [
        ("link", "./guide.adoc", "install"),
        ("link", "./other/place/x.adoc", ""),
        ("link", "", "first"),
        ("link", "", "_part_two"),
        ("label", "far away label", ""),
        ("link", "", "second"),
        ("link", "", "first"),
        ("link", "files/a.txt", ""),
        ("link", "https://example.org/", ""),
        ("link", "./dir/page.adoc", "part"),
        ("link", "./parts/one.adoc", ""),
    ]
    assert document.labels == ("first", "second")


@pytest.mark.parametrize(
    ("written", "target"),
    [
        ("other.adoc", "../other.adoc"),
        ("./near.adoc", "./near.adoc"),
        ("cli:index.adoc", "../../../cli/pages/index.adoc"),
        ("cli:sub/index.adoc#x", "../../../cli/pages/sub/index.adoc"),
        ("2.0@cli:index.adoc", "../../../cli/pages/index.adoc"),
        ("component:cli:index.adoc", None),
        ("component::index.adoc", None),
    ],
)
def test_a_page_of_antora_is_named_by_its_module(written: str, target: str | None) -> None:
    document = parse_asciidoc("docs/modules/api/pages/deep/a.adoc", f"xref:{written}[]\n")
    assert [link.target for link in document.links] == ([target] if target else [])


def test_a_partial_of_antora() -> None:
    text = "include::partial$a.adoc[]\ninclude::cli:example$b.rb[]\n"
    document = parse_asciidoc("modules/api/pages/a.adoc", text)
    assert [link.target for link in document.links] == [
        "../partials/a.adoc",
        "../../cli/examples/b.rb",
    ]


ORG = """\
:PROPERTIES:
:ID: 1234-abcd
:END:
* Heading one
[[file:other.org][Other]], [[file:sub/x.org::*Their heading][T]], [[./near.org]], [[#custom]],
[[*Heading one][up]], [[id:9999-ffff][far]], [[https://example.org][site]], [[target]],
[[file:/etc/passwd]], [[file:picture.png]], =[[file:verbatim.org]]=.
#+INCLUDE: "parts/one.org" :lines "1-3"
#+begin_src org
[[file:code.org]]
#+end_src
"""


def test_org() -> None:
    document = parse_org("a.org", ORG)
    assert targets(document) == [
        ("link", "./other.org", ""),
        ("link", "./sub/x.org", "Their heading"),
        ("link", "./near.org", ""),
        ("link", "", "custom"),
        ("link", "", "Heading one"),
        ("label", "9999-ffff", ""),
        ("link", "https://example.org", ""),
        ("link", "", "target"),
        ("image", "./picture.png", ""),
        ("link", "./parts/one.org", ""),
    ]
    assert document.labels == ("1234-abcd",)


@pytest.mark.parametrize(
    "piece",
    [
        *("``", ":ref:`", ":ref:`a <", ".. _a", "`a <", ".. toctree::\n\n   ", "{ref}`", "(a)="),
        *("xref:a[", "<<a,", "[[", "[[a][", "[#a", "anchor:", ":ID: ", "[id=", "`", " <"),
        *("-xref:", "[[a,", "-link:a", "{doc}`a ", "include::"),
    ],
)
def test_time_is_linear(piece: str) -> None:
    """A hundred kilobytes of one unfinished piece of markup."""
    text = piece * (100_000 // len(piece)) + "\n"
    with processor_time_below(4):
        for suffix, read in (("rst", parse_rst), ("adoc", parse_asciidoc), ("org", parse_org)):
            read(f"a.{suffix}", text)
        parse("a.md", text)
