"""Find what a document says about code: names, files, options and settings written as code.

Takes a parsed document; returns claims in the order of its text. Text about the past is skipped:
change logs, upgrade guides, and sentences that say that something was removed or renamed.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from textwrap import dedent
from typing import Final

from lookfar.common.lines import Lines
from lookfar.model import Block, Claim, ClaimKind, Document
from lookfar.text.parse.example_claims import (
    FILE,
    OPTION,
    Use,
    find_program,
    read_commands,
    read_python,
)
from lookfar.text.parse.languages import language_of_fence
from lookfar.text.parse.object_directives import read_directives
from lookfar.text.parse.past_text import PastText, is_about_the_past

_SPAN: Final = re.compile(
    r"(?P<role>:(?:[\w.+-]+:)?(?P<kind>[\w-]+):)?"
    r"(?<!`)(?P<ticks>`{1,2})(?!`)(?P<text>[^`\n]{2,120}?)(?<!`)(?P=ticks)(?!`)(?!_)(?!\]\(\w+://)"
)
_ROLES: Final = frozenset(
    "func function meth method class attr attribute exc data const mod obj any option file".split()
)
_SYMBOL: Final = re.compile(r"~?\.?[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*(?:\(\))?")
_CALL: Final = re.compile(r"([A-Za-z_][\w.]*)\((.*)\)")
_KEYWORD: Final = re.compile(r"(?:^|,)\s*([A-Za-z_]\w*)\s*=(?!=)")
_SETTING: Final = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
_RELATIVE: Final = re.compile(r"(?!\w+:|//|/|#)[\w@./ -]+\.[A-Za-z][A-Za-z0-9]{0,4}")
_INCLUDES: Final = re.compile(
    r"^[ \t]*\.\. (?:literalinclude|include|image|figure)::[ \t]*(\.?[\w@.-][\w@./-]*\.\w{1,5})",
    re.MULTILINE,
)
_FENCE: Final = re.compile(r"[ \t]*(?:`{3,}|~{3,}|\.\. |:[\w-]+:)")
_DISTINCT: Final = re.compile(r"_|[a-z][A-Z]|[A-Z][a-z]+[A-Z]|\(\)$|\.")


def find_claims(document: Document) -> list[Claim]:
    """Return what a document names as code, in order."""
    if is_about_the_past(document.uri):
        return []
    return list(_Reader(document).read())


class _Reader:
    """Reads the claims of one document."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._lines = Lines(document.text)
        self._blocks = [b for b in document.blocks if b.kind in ("fence", "indented", "html")]
        self._ends = [block.end for block in self._blocks]
        self._past = PastText(document)

    def read(self) -> Iterator[Claim]:
        for block in self._blocks:
            if block.kind != "html" and not self._past.covers(block.start):
                yield from self._read_example(block)
        text = self._document.text
        yield from self._read_links()
        if self._document.language == "rst":
            for kind, name, line, call, is_full in read_directives(text):
                yield self._claim(kind, name, line, call, is_full=is_full)
        for match in _SPAN.finditer(text, self._document.body):
            start = match.start("text")
            if self._in_block(start) or self._past.covers(start):
                continue
            line = self._lines.line_of(start)
            for kind, name, call in self._classify(match):
                yield Claim(kind, name, line, start, call)

    def _classify(self, match: re.Match[str]) -> Iterator[tuple[ClaimKind, str, str]]:
        """Yield what one code span names."""
        role, text = match["kind"], match["text"].strip()
        if role is not None:
            if role not in _ROLES:
                return
            target = re.search(r"<([^<>]+)>\s*$", text)
            text = (target[1] if target else text).strip()
        elif self._document.language == "rst" and match["ticks"] == "`":
            return  # A title or a link, not code.
        options = OPTION.findall(text)
        if options:
            program = "" if text.startswith("-") else find_program(text)
            yield from (("option", option, program) for option in options)
        elif _SETTING.fullmatch(text):
            yield "setting", text, ""
        elif FILE.fullmatch(text) and "//" not in text:
            yield "file", text, ""
        elif _SYMBOL.fullmatch(text):
            if role is not None or _DISTINCT.search(text.lstrip("~.")):
                yield "symbol", text.lstrip("~.").removesuffix("()"), ""
        elif (call := _CALL.fullmatch(text)) is not None:
            yield "symbol", call[1], ""
            inside = re.sub(r"\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\}|\"[^\"]*\"|'[^']*'", "", call[2])
            for keyword in _KEYWORD.finditer(inside):
                yield "parameter", keyword[1], call[1]

    def _read_links(self) -> Iterator[Claim]:
        """Yield the files that links, images and inclusions refer to."""
        for link in self._document.links:
            # A target without an ending is a page of a site, which need not be a file.
            if (
                link.kind in ("link", "image", "embed")
                and _RELATIVE.fullmatch(link.target)
                and not self._past.covers(link.start)
            ):
                yield Claim("file", link.target, self._lines.line_of(link.start), link.start)
        if self._document.language == "rst":
            for match in _INCLUDES.finditer(self._document.text):
                yield self._claim("file", match[1], self._lines.line_of(match.start(1)))

    def _read_example(self, block: Block) -> Iterator[Claim]:
        """Yield what a program or a list of commands uses."""
        program, first = self._example(block)
        language = language_of_fence(block.language) if block.language else ""
        uses: list[Use] = []
        if language in ("", "python", "pycon", "default"):
            uses.extend(read_python(program))
        if language in ("", "bash", "text", "console"):
            uses.extend(read_commands(program, is_shell=language == "bash"))
        for kind, name, line, call in uses:
            yield self._claim(kind, name, first + line, call, is_full=kind == "import")

    def _example(self, block: Block) -> tuple[str, int]:
        """Return the program in a block without its fence or indentation, and its first line."""
        lines = self._document.text[block.start : block.end].split("\n")
        first = self._lines.line_of(block.start)
        while lines and (not lines[0].strip() or _FENCE.match(lines[0])):
            del lines[0]
            first += 1
        while lines and (not lines[-1].strip() or _FENCE.match(lines[-1])):
            del lines[-1]
        return dedent("\n".join(lines)), first

    def _claim(
        self, kind: ClaimKind, name: str, line: int, call: str = "", *, is_full: bool = False
    ) -> Claim:
        return Claim(kind, name, line, self._lines.start_of(line), call, is_full)

    def _in_block(self, offset: int) -> bool:
        number = bisect_right(self._ends, offset)
        return number < len(self._blocks) and self._blocks[number].start <= offset
