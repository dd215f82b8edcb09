"""Find what a document says about code: names, files, options and settings written as code.

Takes a parsed document; returns claims in the order of its text. Text about the past is skipped:
change logs, upgrade guides, and sentences that say that something was removed or renamed.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from textwrap import dedent
from typing import Final
from warnings import catch_warnings, simplefilter

from lookfar.common.lines import Lines
from lookfar.model import Block, Claim, ClaimKind, Document
from lookfar.text.parse.languages import language_of_fence

_PAST_FILES: Final = re.compile(
    r"(^|/)(change(s|log)?|history|news|release[-_ ]?notes?|releases?|whats?[-_ ]?new|migrat\w*|"
    r"upgrad\w*|blog|archive|adrs?|rfcs?|seps?|peps?|proposals?|roadmap)([-_./\d]|$)",
    re.IGNORECASE,
)
_PAST_HEADINGS: Final = re.compile(
    r"change ?log|release|deprecat|removed?\b|removal|upgrad|migrat|histor|what'?s new|"
    r"^v(ersion)? ?\d|^\d+\.\d+",
    re.IGNORECASE,
)
_PAST_WORDS: Final = re.compile(
    r"\b(removed?|removing|removal|renamed?|deprecat\w*|obsolete|no longer|replaced|formerly|"
    r"previously|used to|legacy|older|prior to|dropped|discontinued|superseded|earlier|"
    r"not (?:yet )?(?:available|supported|implemented)|does(?: not|n't) exist|third[- ]party|"
    r"any ?more|in the past|originally|lower than|compatib\w*|proposes?|proposal|"
    r"before (?:version )?v?\d|until (?:version )?v?\d|in (?:version )?v?\d+\.\d+|since v?\d)",
    re.IGNORECASE,
)
_PAST_DIRECTIVE: Final = re.compile(
    r"^[ \t]*(?:\.\.|:{3,}|`{3,}|!!!)[ \t]*\{?(version(?:added|changed|removed)|deprecated)\b"
)
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
_OPTION: Final = re.compile(r"--[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
_SETTING: Final = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
_FILE: Final = re.compile(r"(?:\./|\.\./)*[\w@.-]+(?:/[\w@.-]+)+\.[A-Za-z][A-Za-z0-9]{0,4}")
_DIRECTIVE: Final = re.compile(
    r"^[ \t]*\.\. (?:py:)?(?P<kind>module|currentmodule|auto(?:module|class|function|method"
    r"|attribute|data|exception|decorator))::[ \t]*(?P<name>[\w.]+)",
    re.MULTILINE,
)
_FENCE: Final = re.compile(r"[ \t]*(?:`{3,}|~{3,}|\.\. |:[\w-]+:)")
_DISTINCT: Final = re.compile(r"_|[a-z][A-Z]|[A-Z][a-z]+[A-Z]|\(\)$|\.")


def is_about_the_past(uri: str) -> bool:
    """Whether a whole document is a record of changes, or says how to upgrade."""
    return _PAST_FILES.search(uri) is not None


def find_claims(document: Document) -> list[Claim]:
    """Return what a document names as code, in order."""
    if is_about_the_past(document.uri):
        return []
    return list(_Reader(document).read())


def _called_name(callee: ast.expr, imported: Mapping[str, str]) -> str:
    """Return the full name of what a call calls, if an import of the example binds it."""
    names: list[str] = []
    while isinstance(callee, ast.Attribute):
        names.append(callee.attr)
        callee = callee.value
    if not isinstance(callee, ast.Name) or callee.id not in imported:
        return ""
    return ".".join((imported[callee.id], *reversed(names)))


class _Reader:
    """Reads the claims of one document."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._lines = Lines(document.text)
        self._blocks = [b for b in document.blocks if b.kind in ("fence", "indented", "html")]
        self._ends = [block.end for block in self._blocks]
        self._starts = [section.span.start for section in document.sections]

    def read(self) -> Iterator[Claim]:
        for block in self._blocks:
            if block.kind != "html" and not self._is_past(block.start):
                yield from self._read_program(block)
        text = self._document.text
        if self._document.language == "rst":
            yield from self._read_directives()
        for match in _SPAN.finditer(text, self._document.body):
            start = match.start("text")
            if self._in_block(start) or self._is_past(start):
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
        if _OPTION.fullmatch(text):
            yield "option", text, ""
        elif _SETTING.fullmatch(text):
            yield "setting", text, ""
        elif _FILE.fullmatch(text) and "//" not in text:
            yield "file", text, ""
        elif _SYMBOL.fullmatch(text):
            if role is not None or _DISTINCT.search(text.lstrip("~.")):
                yield "symbol", text.lstrip("~.").removesuffix("()"), ""
        elif (call := _CALL.fullmatch(text)) is not None:
            yield "symbol", call[1], ""
            inside = re.sub(r"\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\}|\"[^\"]*\"|'[^']*'", "", call[2])
            for keyword in _KEYWORD.finditer(inside):
                yield "parameter", keyword[1], call[1]

    def _read_directives(self) -> Iterator[Claim]:
        """Yield what directives such as ``autofunction`` take from the code."""
        module = ""
        for match in _DIRECTIVE.finditer(self._document.text):
            kind, name = match["kind"], match["name"].strip()
            if kind in ("module", "currentmodule", "automodule"):
                module = name
            line = self._lines.line_of(match.start("name"))
            if kind.startswith("auto"):
                full = f"{module}.{name}" if module and kind != "automodule" else name
                if not module or not name.startswith(f"{module.partition('.')[0]}."):
                    name = full
                yield self._claim("symbol", name.partition("(")[0], line)

    def _read_program(self, block: Block) -> Iterator[Claim]:
        """Yield the imports of a Python example, and the keywords of calls of what it imports."""
        if block.language and language_of_fence(block.language) != "python":
            return
        body, first = self._example(block)
        try:
            with catch_warnings():
                simplefilter("ignore")
                tree = ast.parse(body)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return
        imported: dict[str, str] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    name = f"{node.module}.{alias.name}"
                    imported[alias.asname or alias.name] = name
                    if alias.name != "*":
                        yield self._claim("import", name, first + alias.lineno - 1)
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    imported[alias.asname or alias.name] = alias.name
        for node in ast.walk(tree):
            called = _called_name(node.func, imported) if isinstance(node, ast.Call) else ""
            if called and isinstance(node, ast.Call):
                for keyword in node.keywords:
                    if keyword.arg:
                        line = first + keyword.lineno - 1
                        yield self._claim("parameter", keyword.arg, line, called)

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

    def _claim(self, kind: ClaimKind, name: str, line: int, call: str = "") -> Claim:
        return Claim(kind, name, line, self._lines.start_of(line), call)

    def _in_block(self, offset: int) -> bool:
        number = bisect_right(self._ends, offset)
        return number < len(self._blocks) and self._blocks[number].start <= offset

    def _is_past(self, offset: int) -> bool:
        """Whether the paragraph or the headings around an offset are about the past."""
        number = bisect_right(self._starts, offset) - 1
        if number >= 0 and any(
            _PAST_HEADINGS.search(title) for title in self._document.sections[number].path
        ):
            return True
        text = self._document.text
        start = max(text.rfind("\n\n", 0, offset) + 2, 0) if "\n\n" in text[:offset] else 0
        end = text.find("\n\n", offset)
        paragraph = text[start : end if end >= 0 else len(text)]
        if _PAST_WORDS.search(paragraph):
            return True
        return self._in_past_directive(start)

    def _in_past_directive(self, start: int) -> bool:
        """Whether the paragraph belongs to a directive such as ``versionchanged``."""
        text = self._document.text
        first = text[start:].partition("\n")[0]
        if _PAST_DIRECTIVE.match(first):
            return True
        indent = len(first) - len(first.lstrip())
        before = text[:start].rstrip("\n").split("\n")[-12:]
        for line in reversed(before if indent else []):
            if line.strip() and len(line) - len(line.lstrip()) < indent:
                return _PAST_DIRECTIVE.match(line) is not None
        return False
