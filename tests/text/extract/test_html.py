"""HTML: the main text as Markdown, without navigation, with ids of headings."""

from __future__ import annotations

import pytest

from lookfar.text.extract.extracted import CannotExtract, Extracted
from lookfar.text.extract.formats import extract, extractor_for
from lookfar.text.parse.markdown import parse


def extract_html(page: str | bytes) -> Extracted:
    row = extractor_for("docs/index.html")
    assert row is not None
    return extract(row, page.encode() if isinstance(page, str) else page)


def test_the_main_text_without_navigation_and_scripts() -> None:
    result = extract_html("""
        <!doctype html><title>Fees &amp; rules</title><style>p { color: red }</style>
        <header><a href=/>Home</a> <a href=/b>Blog</a></header>
        <nav><ul><li><a href=/x>Elsewhere</a></ul></nav>
        <main><h1>Harbour fees</h1><script>track()</script>
        <p>A ferry pays <b>900</b>\n crowns,<br>see <a href="rules.html#late fee">the rules</a>.
        <p hidden>secret<p aria-hidden=true>icon</main><footer>Copyright</footer>""")
    assert result.text == (
        "# Harbour fees\n\nA ferry pays 900 crowns,\nsee [the rules](<rules.html#late fee>).\n"
    )
    assert result.title == "Fees & rules"


def test_blocks_keep_their_structure() -> None:
    text = extract_html("""
        <h2 id=setup>Set up</h2>
        <ul><li>One<ul><li>Inner <code>x_y</code></ul><li><p>Two</p><p>more</p></ul>
        <ol><li>First<li>Second</ol>
        <div class="highlight-python"><pre><span>def</span> f():\n    return "```"\n</pre></div>
        <dl><dt>Term<dd>Meaning</dl>
        <table><caption>Depths</caption>
        <tr><th>Quay<th colspan=2>Depth<tr><td rowspan=2>North<td>12<td>a|b<tr><td>9<td>c</table>
        """).text
    assert text == (
        "## Set up {#setup}\n\n- One\n  - Inner `x_y`\n- Two\n\nmore\n\n1. First\n2. Second\n\n"
        '````python\ndef f():\n    return "```"\n````\n\nTerm\n\n- Meaning\n\nDepths\n\n'
        "| Quay | Depth |  |\n|---|---|---|\n| North | 12 | a\\|b |\n| North | 9 | c |\n"
    )


def test_ids_and_titles_of_headings_survive_the_parser() -> None:
    result = extract_html("""
        <section id=init><h2>The <code>__init__</code> method<a class=headerlink href=#init>¶</a>
        </h2></section><h2 id="list-of-t">List&lt;T&gt; of *args</h2><h3 id=plain-title>Plain title
        </h3>""")
    assert result.text.splitlines()[0].endswith("{#init}")
    titles = [section.title for section in parse("a.md", result.text).sections]
    assert titles == ["The __init__ method", "List<T> of *args", "Plain title"]
    assert "{#plain-title}" not in result.text  # The id follows from the title.


def test_text_does_not_become_structure() -> None:
    lines = "# no heading<br>```<br>&gt; no quote<br>---<br>| a | b |<br>|---|---|<br>    indented"
    result = extract_html(f"<p>{lines}</p><p>after</p>")
    document = parse("a.md", result.text)
    assert not document.blocks
    assert not [section for section in document.sections if section.title]


def test_a_page_without_main_keeps_its_heading_and_drops_link_lists() -> None:
    links = "".join(f"<li><a href={n}>Page number {n}</a>" for n in range(9))
    result = extract_html(f"""<body><div class=sidebar><ul>{links}</ul></div>
        <header><h1>Title</h1></header><div class=sidebar>A box with prose.</div>
        <footer>Imprint</footer><article><p>Words.</p><footer>By Åsa</footer></article>
        <article>More.</article>
        <table role=presentation><tr><td><p>In a layout table</table></body>""")
    assert "Page number" not in result.text
    assert "Imprint" not in result.text
    for words in ("# Title", "A box with prose.", "Words.", "By Åsa", "In a layout table"):
        assert words in result.text
    only_links = extract_html(f"<body><nav><ul>{links}</ul></nav></body>")
    assert "[Page number 3](3)" in only_links.text


@pytest.mark.parametrize(
    "page",
    [
        '<meta charset="shift_jis"><p>港湾の水深</p>'.encode("shift_jis"),
        '<meta http-equiv=content-type content="text/html; charset=euc-jp"><p>港湾の水深'.encode(
            "euc-jp"
        ),
        "<p>港湾の水深".encode("utf-16"),
        "<p>港湾の水深".encode(),
        '<?xml version="1.0" encoding="utf-8"?><html><body>港湾の水深</body></html>'.encode(),
    ],
)
def test_declared_encodings_are_used(page: bytes) -> None:
    result = extract_html(page)
    assert result.text == "港湾の水深\n"
    assert not result.warnings


def test_a_guessed_encoding_is_reported() -> None:
    result = extract_html("<meta charset=base64><p>Gebühr 5 €".encode("cp1252"))
    assert result.text == "Gebühr 5 €\n"
    assert "windows-1252" in result.warnings[0]


@pytest.mark.parametrize(
    ("page", "code"),
    [
        ("", "no_text"),
        ("<body><script>render()</script></body>", "no_text"),
        ("<div>" * 50_000, "damaged"),
    ],
)
def test_what_cannot_be_read_has_a_reason(page: str, code: str) -> None:
    with pytest.raises(CannotExtract) as caught:
        extract_html(page)
    assert caught.value.code == code


@pytest.mark.parametrize("tags", ["<ul><li>", "<b>", "<table><tr><td>", "<div>", "<a><p>"])
def test_deep_nesting_keeps_the_text(tags: str) -> None:
    assert "needle" in extract_html(tags * 900 + "needle").text
