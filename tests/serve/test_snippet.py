"""Snippets read like text: no markup, and the answering sentence first."""

from __future__ import annotations

import re

import pytest

from lookfar.serve.show.snippet import make_snippet, strip_markup
from processor_time import processor_time_below


@pytest.mark.parametrize(
    ("written", "reads"),
    [
        ("# Head **bold**\n\nText.", "Head bold · Text."),
        ("Setext\n======\n\nText.", "Setext Text."),
        ("---\ntitle: x\ntags: [a]\n---\nText.", "Text."),
        ("a [link](x.md), [one](u(v) 't') and [two][ref].\n[ref]: https://x.y",
         "a link, one and two."),
        ("[[Note]], [[Note|alias]], [[Note#Part]], [[Note#^id]] ![[pic.png]]",
         "Note, alias, Note > Part, Note > id pic.png"),
        ("![alt](a.png) [![b](c.png)](d) <https://x.y/z>", "alt b https://x.y/z"),
        ("*a* _b_ **c** __d__ ***e*** ~~f~~ ==g== `h_i*j*`", "a b c d e f g h_i*j*"),
        ("snake_case_name, 2 * 3 * 4, a*b*c and \\*stars\\*",
         "snake_case_name, 2 * 3 * 4, a*b*c and *stars*"),
        ("- one\n- [x] two\n3. three", "one · two · three"),
        ("| a | b |\n|---|:-:|\n| 1 | **2** |", "a · b · 1 · 2"),
        ("> [!tip] Title\n> said", "Title said"),
        ("<b>x</b> &amp; a < b <!-- no --> %%no%% <script>no()</script>", "x & a < b"),
        ("A note[^1]. ^block\n\n[^1]: Its foot.", "A note. Its foot."),
        ("```py\nx = **kw\n```\n{{< note >}}after", "x = **kw after"),
        ("Dashes - and a rule\n\n***\n\nend", "Dashes - and a rule end"),
    ],
)  # fmt: skip
def test_markup_is_removed_and_words_stay(written: str, reads: str) -> None:
    assert strip_markup(written, "markdown") == reads


def test_other_formats_keep_their_signs() -> None:
    assert strip_markup("def f(**kw):\n    return [kw]", "python") == "def f(**kw): return [kw]"
    assert strip_markup("<p>a &lt; <b>b</b></p><style>p{}</style>", "html") == "a < b"
    assert strip_markup("<p>a</p>", "text") == "<p>a</p>"


def test_the_answering_sentence_is_in_front() -> None:
    text = "# Lamp\n\nIt burns **whale oil**. Its [keeper](k.md) reads. " + "And so on. " * 60
    start = text.index("Its")
    snippet = make_snippet(text, "markdown", 80, (start, start + len("Its [keeper](k.md) reads.")))
    assert snippet.text.startswith("Its keeper reads. And so on.")
    assert snippet.text[: snippet.answer] == "Its keeper reads."
    assert re.search(r"(And|so|on\.)…$", snippet.text)
    assert len(snippet.text) <= 81
    assert make_snippet("Short.", "markdown", 80) == ("Short.", 0)


def test_a_cut_text_ends_between_words_also_after_much_markup() -> None:
    text = "[a](" + "x" * 120 + ")" + " word" * 40
    assert make_snippet(text, "markdown", 80).text.endswith("word…")


@pytest.mark.parametrize("mark", ["[", "[[", "![", "<", "<a ", "`", "**", "_", "*", "&", "|",
                                  "> ", "{{<", "[a](", "==", "[^", "\\", "%%", "<!--",
                                  "<style>"])  # fmt: skip
def test_hostile_markup_is_quick(mark: str) -> None:
    texts = [mark * 2000, (mark + "\n") * 2000, "---\n" + (mark + " ") * 2000]
    with processor_time_below(0.5):
        for text in texts:
            make_snippet(text, "markdown", 280, (0, 500))
