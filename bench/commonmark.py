"""Compare our Markdown outline with the examples of the CommonMark and GFM specifications.

Run by hand: ``python bench/commonmark.py DIR``, where DIR holds ``spec.json`` and
``gfm_spec.json`` (lists of ``{"example", "markdown", "html"}``). For every example the
headings (level and text) and the code blocks (kind-free, in order, with their text) of
our document are compared with the expected HTML. Prints each disagreement and the
totals; the exit status is 1 if there is any.

Two things are the same on both sides by rule, not by exception:
- headings inside a block quote or a list item open no section, so they are left out;
- headings and code blocks that the example wrote as raw HTML are HTML to us as well.

Front matter and wikilinks are no part of CommonMark; the examples run with them on all the same.
"""

from __future__ import annotations

import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from lookfar.model import Document
from lookfar.text.normalise import normalise
from lookfar.text.parse.markdown import parse

SPECIFICATIONS = ("spec.json", "gfm_spec.json")
HEADINGS = {f"h{level}": level for level in range(1, 7)}

Code = tuple[bool, list[str]]
"""Whether the lines are still between their fences, and the lines."""

FENCE = re.compile(r"[\s>*+-]*(?:\d+[.)]\s*)?(?:`{3,}|~{3,})")
PREFIX = re.compile(r"[\s>*+-]*(?:\d+[.)])?\s*$")


class ExpectedOutline(HTMLParser):
    """Headings and code blocks of the HTML that the specification expects."""

    def __init__(self, markdown: str) -> None:
        super().__init__(convert_charrefs=True)
        self.headings: list[tuple[int, str]] = []
        self.code: list[str] = []
        self._markdown = markdown
        self._containers = 0
        self._heading = ""
        self._in_pre = False
        self._gathered: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("blockquote", "li"):
            self._containers += 1
        elif (self.get_starttag_text() or "") in self._markdown:
            return
        elif tag in HEADINGS:
            self._heading, self._gathered = tag, []
        elif tag == "pre":
            self._in_pre, self._gathered = True, []

    def handle_endtag(self, tag: str) -> None:
        if tag in ("blockquote", "li"):
            self._containers -= 1
        elif tag == self._heading:
            if not self._containers:
                title = " ".join("".join(self._gathered).split())
                self.headings.append((HEADINGS[tag], title))
            self._heading = ""
        elif tag == "pre" and self._in_pre:
            self.code.append("".join(self._gathered))
            self._in_pre = False

    def handle_data(self, data: str) -> None:
        if self._heading or self._in_pre:
            self._gathered.append(data)

    def code_lines(self) -> list[list[str]]:
        return [code.removesuffix("\n").split("\n") if code else [] for code in self.code]


def reported_headings(document: Document) -> list[tuple[int, str]]:
    return [(section.level, section.title) for section in document.sections if section.level]


def reported_code(document: Document) -> list[Code]:
    return [
        (
            block.kind == "fence",
            document.text[block.start : block.end].removesuffix("\n").split("\n"),
        )
        for block in document.blocks
        if block.kind in ("fence", "indented")
    ]


def same_code(ours: Code, expected: list[str]) -> bool:
    """Whether whole source lines hold exactly the expected lines of code.

    A block's span is whole lines, so ours still carry the fence lines, quote
    marks and indents. Without those, every line must be equal.
    """
    fenced, lines = ours
    if fenced:
        if not FENCE.match(lines[0]):
            return False
        lines = lines[1:]
        # The end of the text or of a container closes a fence as well as a closing line.
        if len(lines) == len(expected) + 1 and FENCE.match(lines[-1]):
            lines = lines[:-1]
    return len(lines) == len(expected) and all(map(same_line, lines, expected))


def same_line(ours: str, expected: str) -> bool:
    """Equal but for a prefix of quote marks, list marks and indentation."""
    ours, expected = ours.expandtabs(4), expected.expandtabs(4)
    return ours.endswith(expected) and bool(PREFIX.match(ours[: len(ours) - len(expected)]))


def compare(example: dict[str, Any]) -> list[str]:
    markdown = example["markdown"]
    text, _ = normalise(markdown.encode())
    document = parse("example.md", text)
    expectation = ExpectedOutline(markdown)
    expectation.feed(example["html"])
    expectation.close()
    headings, code = reported_headings(document), reported_code(document)
    problems = []
    if headings != expectation.headings:
        problems.append(f"headings {headings} instead of {expectation.headings}")
    expected_code = expectation.code_lines()
    if len(code) != len(expected_code) or not all(map(same_code, code, expected_code)):
        problems.append(f"code blocks {code} instead of {expected_code}")
    return problems


def main(folder: Path) -> int:
    disagreements = 0
    for name in SPECIFICATIONS:
        examples = json.loads((folder / name).read_text(encoding="utf-8"))
        agreed = 0
        for example in examples:
            problems = compare(example)
            agreed += not problems
            for problem in problems:
                print(f"{name} example {example['example']}: {problem}")
                print(f"    {example['markdown']!r}")
        with_headings = sum(bool(re.search("<h[1-6]", example["html"])) for example in examples)
        with_code = sum("<pre" in example["html"] for example in examples)
        print(
            f"{name}: {agreed} of {len(examples)} examples agree "
            f"({with_headings} expect headings, {with_code} expect code blocks)"
        )
        disagreements += len(examples) - agreed
    return 1 if disagreements else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1])))
