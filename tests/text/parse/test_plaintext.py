"""Outlines of plain text, reStructuredText, AsciiDoc, Org and LaTeX."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookfar.model import Document
from lookfar.ports import Parser
from lookfar.text.parse.formats import FORMATS, parser_for
from lookfar.text.parse.plaintext import (
    parse_asciidoc,
    parse_latex,
    parse_org,
    parse_rst,
    parse_text,
)
from processor_time import processor_time_below

examples = settings(max_examples=150, deadline=None, derandomize=True)


def outline(document: Document) -> list[tuple[int, str]]:
    return [(section.level, section.title) for section in document.sections]


def code(document: Document) -> list[tuple[str, str]]:
    return [(block.language, document.text[block.start : block.end]) for block in document.blocks]


def test_plain_text_is_one_section() -> None:
    document = parse_text("a.txt", "# not a heading\n\nTitle\n=====\n")
    assert outline(document) == [(0, "")]
    assert document.sections[0].span.end == len(document.text)
    assert (document.title, document.language, document.lane) == ("", "text", "docs")
    assert parse_text("a.txt", " \n").sections == ()


def test_rst_levels_follow_the_order_of_adornments() -> None:
    text = """\
=====
Title
=====

Chapter
=======

Section
-------

Other chapter
=============
body
"""
    document = parse_rst("a.rst", text)
    assert outline(document) == [
        (1, "Title"),
        (2, "Chapter"),
        (3, "Section"),
        (2, "Other chapter"),
    ]
    chapter = document.sections[1]
    assert text[chapter.span.start : chapter.body] == "Chapter\n=======\n"
    assert chapter.path == ("Title", "Chapter")
    assert document.title == "Title"


@pytest.mark.parametrize(
    "text",
    [
        "Long title\n===\n",
        "prose\nTitle\n=====\n",
        "Example::\n\n    Title\n    =====\n\n    x\n",
        ".. code-block:: rst\n\n   Title\n   =====\n",
        "before\n\n-----\n\nafter\n",
        "  Indented\n==========\n",
        "=====  =====\nA      B\n=====  =====\n",
        "漢字\n===\n",
    ],
)
def test_rst_text_that_is_not_a_title(text: str) -> None:
    assert outline(parse_rst("a.rst", text)) == [(0, "")]


def test_rst_titles_in_any_script() -> None:
    assert outline(parse_rst("a.rst", "漢字\n====\n")) == [(1, "漢字")]
    assert outline(parse_rst("a.rst", "e\u0301te\u0301\n---\n")) == [(1, "e\u0301te\u0301")]


def test_rst_code() -> None:
    text = "See::\n\n  a\n\n  b\n\nend\n\n.. code-block:: Python\n\n   x = 1\n"
    assert code(parse_rst("a.rst", text)) == [
        ("", "  a\n\n  b\n"),
        ("python", ".. code-block:: Python\n\n   x = 1\n"),
    ]


def test_asciidoc() -> None:
    text = """\
= Book

[source,Ruby]
----
== not a heading
----

== Chapter one

....
=== nor this
....

////
=== nor a comment
////

====
an example block
====

===no space
"""
    document = parse_asciidoc("a.adoc", text)
    assert outline(document) == [(1, "Book"), (2, "Chapter one")]
    assert code(document) == [
        ("ruby", "----\n== not a heading\n----\n"),
        ("", "....\n=== nor this\n....\n"),
    ]


def test_an_unclosed_asciidoc_block_hides_nothing() -> None:
    assert outline(parse_asciidoc("a.adoc", "----\n== A\n")) == [(0, ""), (2, "A")]


def test_org() -> None:
    text = """\
#+title: x
* TODO [#A] First  :work:home:
** Second
#+BEGIN_SRC Python :results output
* not a heading
#+end_src
#+begin_quote
* nor this
#+end_quote
******** Deep
*bold* text
"""
    document = parse_org("a.org", text)
    assert outline(document) == [(0, ""), (1, "First"), (2, "Second"), (6, "Deep")]
    assert code(document) == [
        ("python", "#+BEGIN_SRC Python :results output\n* not a heading\n#+end_src\n")
    ]
    assert document.title == "First"


def test_an_unclosed_org_block_hides_nothing() -> None:
    assert outline(parse_org("a.org", "#+begin_src c\n* A\n")) == [(0, ""), (1, "A")]


@pytest.mark.parametrize(
    ("uri", "language"),
    [
        ("a/b.md", "markdown"),
        ("README.MD", "markdown"),
        ("a.markdown", "markdown"),
        ("a.mdx", "markdown"),
        ("a.b.txt", "text"),
        ("a.TEXT", "text"),
        ("a.rst", "rst"),
        ("a.adoc", "asciidoc"),
        ("a.asc", "asciidoc"),
        ("a.org", "org"),
    ],
)
def test_format_by_extension(uri: str, language: str) -> None:
    parser = parser_for(uri)
    assert parser is not None
    assert parser(uri, "x\n").language == language


@pytest.mark.parametrize("uri", ["a.bin", "md", ".md", "a.md/b", "a.", "py", ".py", ""])
def test_unknown_formats(uri: str) -> None:
    assert parser_for(uri) is None


def test_no_extension_is_claimed_twice() -> None:
    extensions = [extension for entry in FORMATS for extension in entry.extensions]
    assert len(extensions) == len(set(extensions))
    for entry in FORMATS:
        parse = parser_for(f"a{entry.extensions[0]}")
        assert parse is not None
        assert parse("a", "x\n").language == entry.language


HOSTILE = ["* a" + " " * 200_000 + "b\n", "* " + "[#A] " * 5_000 + "\n", "a::\n\n" * 20_000,
           "a::\n" + "  b::\n" * 20_000, "=\n" * 50_000, "----\n" * 50_001,
           "#+begin_a\n" * 50_000, "= " * 100_000 + "\n"]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_is_read_quickly(text: str) -> None:
    with processor_time_below(3):
        for parse in (parse_text, parse_rst, parse_asciidoc, parse_org):
            parse("a", text)


line = st.sampled_from(
    ["", "Title", "=====", "-----", "== A", "* B", "----", "....", "x::", "   y", "漢字", "====",
     "#+begin_src c", "#+end_src", ".. code:: c", "////", "```", "[source,c]", "\x0b", "=", "*"]
)  # fmt: skip


@examples
@given(
    st.sampled_from([parse_rst, parse_asciidoc, parse_org]),
    st.lists(line, max_size=30).map("\n".join) | st.text(max_size=80),
)
def test_any_text_has_a_sound_outline(parse: Parser, text: str) -> None:
    text = text.replace("\r", "") + "\n"
    document = parse("a", text)
    for section in document.sections:
        assert 0 <= section.level <= 6
        head = text[section.span.start : section.body]
        assert section.title in " ".join(head.split())
        assert section.level == 0 or head.endswith("\n")
    for block in document.blocks:
        assert 0 <= block.start < block.end <= len(text)
        assert text[block.end - 1] == "\n"
        assert not any(block.start < s.span.start < block.end for s in document.sections)


def test_latex_is_its_source_by_sections() -> None:
    text = r"""\documentclass{article}\title{On \emph{Tides} \& more\thanks{x}}
% \section{Not this}
\begin{document}\maketitle
Before.
\section[short]{Ebb \& \textbf{flow {again}}}\label{sec:ebb} % a comment
It rises 5\% on the coast, see \href{https://example.org/a}{the \emph{survey}} and \url{b.html}.
\subsection*{Springs} Text on the same line.
\begin{lstlisting}[language=Python]
\section{In code}
\end{lstlisting}
% \section{Gone}
\begin{frame}{Slides}
\begin{minted}{c}
int x;
\end{minted}
\section{never closed
\end{document}
"""
    document = parse_latex("a.tex", text)
    assert outline(document) == [(0, ""), (2, "Ebb & flow again"), (3, "Springs"), (3, "Slides")]
    assert document.title == "On Tides & more"
    assert text[document.body :].startswith("Before.")
    springs = document.sections[2]
    assert text[springs.body : springs.span.end].startswith(" Text on the same line.")
    assert [language for language, _ in code(document)] == ["python", "c"]
    assert "In code" in code(document)[0][1]
    links = [(link.target, link.text) for link in document.links]
    assert links == [("https://example.org/a", "the survey"), ("b.html", "")]
    assert document.text == text
