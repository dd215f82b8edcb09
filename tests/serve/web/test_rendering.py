"""Documents become trees of known nodes, with exact offsets and without losing a character."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pyromark
import pytest
from pyromark import Options

import harness
from lookfar.serve.http.web.rendering.highlight import CLASSES, highlight
from lookfar.serve.http.web.rendering.markdown_tree import render_markdown
from lookfar.serve.http.web.rendering.nodes import KINDS, Node, text_of, walk_nodes
from lookfar.text.parse.languages import LANGUAGES

DETAILS = {
    "heading": {"level"}, "list": {"first"}, "item": {"done"}, "callout": {"type", "fold"},
    "code_block": {"language"}, "table": {"align"}, "row": {"head"}, "footnote": {"number"},
    "reference": {"number"}, "math": {"display"}, "tag": {"name"}, "details": {"open"},
    "link": {"href", "address"}, "picture": {"href", "address", "width"},
    "embed": {"href", "address", "width"},
}  # fmt: skip


def check(text: str) -> list[Node]:
    """Render a text, and check what holds for every tree."""
    nodes, references = render_markdown(text)
    for node in walk_nodes(nodes):
        kind, start, end = node[:3]
        assert kind in KINDS, node
        assert 0 <= start <= end <= len(text), node
        if kind == "t":
            assert len(node) == 3 or (len(node) == 4 and isinstance(node[3], str))
        else:
            assert isinstance(node[3], list)
            assert set(node[4] if len(node) > 4 else {}) <= DETAILS.get(kind, set()), node
    written = [id(node[4]) for node in walk_nodes(nodes) if len(node) > 4]
    assert {id(reference.details) for reference in references} <= set(written)
    return nodes


def shape(nodes: Sequence[Node], text: str) -> list[Any]:
    """Nodes as nested lists of kinds and texts, which are easy to compare."""
    return [
        text_of([node], text) if node[0] == "t" else [node[0], *shape(node[3], text)]
        for node in nodes
    ]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("# A *b*\n", [["heading", "A ", ["emphasis", "b"]]]),
        ("# A {#id}\n", [["heading", "A"]]),
        ("a `` b`c `` &amp; \\*\n", [["paragraph", "a ", ["code", "b`c"], " ", "&", " ", "*"]]),
        ("~~a~~ **b** ==c==\n",
         [["paragraph", ["deleted", "a"], " ", ["strong", "b"], " ", ["marked", "c"]]]),
        ("- [x] a\n- b\n", [["list", ["item", "a"], ["item", "b"]]]),
        ("|a|b|\n|-|-:|\n|c|`d`|\n",
         [["table", ["row", ["cell", "a"], ["cell", "b"]],
           ["row", ["cell", "c"], ["cell", ["code", "d"]]]]]),
        ("> q\n", [["quote", ["paragraph", "q"]]]),
        ("> [!note] T *i*\n> b\n",
         [["callout", ["title", "T ", ["emphasis", "i"]], ["paragraph", "b"]]]),
        ("> [!WARNING]\n> b\n", [["callout", ["paragraph", "b"]]]),
        ("> [!tip]-\n> b\n", [["callout", ["paragraph", "b"]]]),
        ("```py\nx\n```\n", [["code_block", "x\n"]]),
        ("a[^1]\n\n[^1]: n\n",
         [["paragraph", "a", ["reference"]], ["footnote", ["paragraph", "n"]]]),
        ("$a_1$ $$b$$\n", [["paragraph", ["math", "a_1"], " ", ["math", "b"]]]),
        ("a #x/y b #1\n", [["paragraph", "a ", ["tag", "#x/y"], " b #1"]]),
        ("Status:: open\nand more\n",
         [["paragraph", ["field", "Status::"], " open", ["break"], "and more"]]),
        ("see [due:: now] std::map a\n",
         [["paragraph", "see [", ["field", "due::"], " now] std::map a"]]),
        ("text ^id\n", [["paragraph", "text ", ["block_id", "^id"]]]),
        ("a\\\nb  \nc\n", [["paragraph", "a", ["break"], "b", ["break"], "c"]]),
        ("<kbd>K</kbd> <b>un\n", [["paragraph", ["keyboard", "K"], " ", ["html", "<b>"], "un"]]),
        ("x <span style='a'>y</span>\n",
         [["paragraph", "x ", ["html", "<span style='a'>"], "y", ["html", "</span>"]]]),
        ("<b onclick='x'>y</b>\n",
         [["paragraph", ["html", "<b onclick='x'>"], "y", ["html", "</b>"]]]),
        ("<details>\n<summary>s</summary>\n\na\n\n</details>\n",
         [["details", ["summary", "s"], ["paragraph", "a"]]]),
        ("<details>\n\na\n", [["html_block", "<details>"], ["paragraph", "a"]]),
        ("<script>\nalert(1)\n</script>\n",
         [["html_block", "<script>\n", "alert(1)\n", "</script>\n"]]),
        ("---\na: 1\n---\nb\n", [["paragraph", "b"]]),
        ("a\n\n---\n", [["paragraph", "a"], ["rule"]]),
        ("see https://a.b/c_(d). x\n",
         [["paragraph", "see ", ["link", "https://a.b/c_(d)"], ". x"]]),
        ("![[n#h]] [[m|alias]] ![[p.png|30]]\n",
         [["paragraph", ["embed", "n#h"], " ", ["link", "alias"], " ", ["picture"]]]),
    ],
)  # fmt: skip
def test_every_kind_of_node(text: str, wanted: list[Any]) -> None:
    assert shape(check(text), text) == wanted


def test_details_of_nodes() -> None:
    text = (
        "3. a\n\n![[p.png|30]] <img src='q.png' width=50> [x](https://a.b 't') [y](mailto:c@d.e)\n"
        "[z](javascript:alert(1)) [w](data:text/html,x) [v](//evil.example)\n\n"
        "> [!tip]- T\n\n- [ ] a\n- [X] b\n"
    )
    nodes = list(walk_nodes(check(text)))
    assert next(n[4] for n in nodes if n[0] == "list") == {"first": 3}
    assert [n[4] for n in nodes if n[0] == "picture"] == [{"width": 30}, {"width": 50}]
    assert [n[4] for n in nodes if n[0] == "link"] == [
        {"href": "https://a.b"}, {"address": "mailto:c@d.e"},
        {"address": "javascript:alert(1)"}, {"address": "data:text/html,x"},
        {"address": "//evil.example"},
    ]  # fmt: skip
    assert [n[4] for n in nodes if n[0] == "callout"] == [{"type": "tip", "fold": "-"}]
    assert [n[4:] for n in nodes if n[0] == "item"][1:] == [[{"done": False}], [{"done": True}]]


def test_links_are_reported_as_the_index_knows_them() -> None:
    text = "[a](b%20c.md#d%20e) [[N#H|x]] ![i](p.png) ![[E]] [r][1] [s](#here)\n\n[1]: f.md\n"
    references = render_markdown(text).references
    assert [reference[:3] for reference in references] == [
        ("link", "b c.md", "d e"), ("wikilink", "N", "H"), ("image", "p.png", ""),
        ("embed", "E", ""), ("link", "f.md", ""), ("link", "", "here"),
    ]  # fmt: skip


def test_offsets_count_characters_in_every_script() -> None:
    text = "---\ntitle: 🚢\n---\n# 設定 *🚢*\n\n> ßé `🚢` [[ö]] #日本\n"
    nodes = list(walk_nodes(check(text)))
    for kind, source in {
        "emphasis": "*🚢*",
        "code": "`🚢`",
        "link": "[[ö]]",
        "tag": "#日本",
    }.items():
        [node] = [node for node in nodes if node[0] == kind]
        assert text[node[1] : node[2]] == source


# --- nothing is lost, nothing breaks ------------------------------------------------------------

PIECES = (
    *("# ", "## ", "> ", "- ", "1. ", "- [ ] ", "    ", "\t", "| a | b |\n|-|-|\n", "```\n"),
    *("*", "**", "_", "`", "``", "[", "](", ")", "![", "[[", "]]", "![[", "|", "\n", "\n\n"),
    *("  \n", "~~~py\n"),
    *("<b>", "</b>", "<kbd>", "</kbd>", "<details>\n", "</details>\n", "<summary>", "</summary>"),
    *("<script>", "<img src=x onerror=y>", "<!--", "-->", "<", ">", "&amp;", "&#0;", "\\", "$"),
    *("[^1]", "[^1]: ", "#tag", "==", "::", "key:: ", " ^id", "https://a.b/", "[!note] "),
    *("[1]: x\n", "$$"),
    *("word", "a b", "é", "🚢", "設定", "\u202e", "\x00", "\u2028", "---\n", "===\n", "%%", "~~"),
)  # fmt: skip
_PLAIN = pyromark.Markdown(
    options=Options.ENABLE_TABLES
    | Options.ENABLE_FOOTNOTES
    | Options.ENABLE_STRIKETHROUGH
    | Options.ENABLE_TASKLISTS
    | Options.ENABLE_GFM
    | Options.ENABLE_WIKILINKS
    | Options.ENABLE_MATH
)


def spoken(text: str) -> list[str]:
    """Every text that the parser reports, in order, whatever becomes of it."""
    events: Any = _PLAIN.events_with_range(text)
    texts = []
    for event, _ in events:
        if isinstance(event, dict):
            ((name, data),) = event.items()
            if name in ("Text", "Code", "InlineMath", "DisplayMath"):
                texts.append(data)
    return texts


def test_every_character_of_commonmark_is_shown() -> None:
    """Seen to fail when the text before the end of a cell was dropped."""
    text = (
        "# One *two* `three`\n\nFour\nfive &copy; \\* six [seven](x) ![eight](y) <https://nine>\n\n"
        "> ten\n> > eleven\n\n- twelve\n\n  thirteen\n- fourteen\n\n"
        "| fifteen | six\\|teen |\n|-|-|\n| **17** | `eigh\\|teen` |\n\n    nineteen\n\n"
        "```x\ntwenty\n```\n\nlast ^ one = two :: three # four\n"
    )
    shown = text_of(check(text), text)
    assert "".join(shown.split()) == "".join("".join(spoken(text)).split())


def test_random_markdown_never_fails_and_keeps_its_words() -> None:
    """Seen to fail when a tag that was left open swallowed what followed it."""
    trials = harness.amount(1_500, 60_000)
    for seed in range(trials):
        rng = random.Random(seed)
        text = "".join(rng.choice(PIECES) for _ in range(rng.randint(1, 40)))
        nodes = check(text)
        shown = text_of(nodes, text)
        for word in ("word", "🚢", "設定"):
            # What begins with a rule may be front matter.
            wanted = 0 if text.startswith("---") else sum(p.count(word) for p in spoken(text))
            assert shown.count(word) >= wanted, (seed, text)
    harness.report("rendering random Markdown", trials=trials)


@pytest.mark.parametrize(
    "text",
    [">" * 20_000 + " deep", "*a" * 50_000, "[" * 50_000, "- " * 5_000 + "x", "<b>" * 20_000,
     "`a` " * 100_000, "![" * 20_000, "| a " * 20_000 + "\n" + "|-" * 20_000, "#t " * 100_000,
     "==" * 100_000, "https://" * 50_000, "a:: " * 50_000, "<details>\n\n" * 3_000],
)  # fmt: skip
def test_hostile_texts_are_bounded(text: str) -> None:
    """Seen to fail without the limits: a tree of 200,000 nodes, and one 20,000 levels deep."""
    nodes = check(text)
    assert sum(1 for _ in walk_nodes(nodes)) < 200_000
    waiting = [(node, 1) for node in nodes]
    while waiting:
        node, depth = waiting.pop()
        assert depth < 60
        waiting += [(child, depth + 1) for child in (node[3] if node[0] != "t" else [])]


# --- colours ------------------------------------------------------------------------------------


def coloured(text: str, language: str) -> list[tuple[str, str]]:
    return [(text[start:end], kind) for start, end, kind in highlight(text, language)]


def test_code_is_coloured_by_its_grammar() -> None:
    text = '# é\n@wrap\ndef put(a: int) -> str:\n    return f"x{a.go(1)}y"  # 設定\n'
    assert coloured(text, "python") == [
        ("# é", "c"), ("@wrap", "a"), ("def", "k"), ("put", "f"), ("return", "k"), ('f"x', "s"),
        ("go", "f"), ("1", "n"), ('y"', "s"), ("# 設定", "c"),
    ]  # fmt: skip


def test_a_fence_may_use_another_name_of_a_language() -> None:
    assert ("const", "k") in coloured("const a = 'b'\n", "js")
    assert coloured("words\n", "no-such-language") == []


def test_code_without_a_grammar_is_coloured_by_its_signs() -> None:
    text = "# note\nname: 'x'\ncount: 3\nready: true\n"
    assert coloured(text, "yaml") == [
        ("# note", "c"), ("name", "a"), ("'x'", "s"), ("count", "a"), ("3", "n"), ("ready", "a"),
        ("true", "n"),
    ]  # fmt: skip
    assert ("SELECT", "k") in coloured("SELECT a FROM b -- c\n", "sql")


def test_tokens_of_every_language_are_in_order_and_known() -> None:
    sample = (
        '// a \'b\n# c\n/* d\n*/ function go(x) { return "é" + `f${x}` + 1.5; }\n'
        '<a href=\'b\'>c</a>\n-- x\nclass A:\n  key: value\n"""\nend\n'
    )
    for language in LANGUAGES:
        for text in (sample, sample * 40, "\"'`/*<!--", "🚢" * 50 + sample):
            tokens = highlight(text, language.language)
            ends = [0, *(end for _, end, _ in tokens)]
            for at, (start, end, kind) in enumerate(tokens):
                assert ends[at] <= start < end <= len(text), (language.language, tokens)
                assert kind in CLASSES
