"""Find what a document says about code: names, files, options and settings written as code.

Takes a parsed document; returns claims in the order of its text: what its examples use, what
Sphinx directives document, and code spans. Text about the past is skipped: change logs, upgrade
guides, and sentences that say that something was removed or renamed.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from itertools import repeat
from textwrap import dedent
from typing import Final, NamedTuple
from warnings import catch_warnings, simplefilter

from lookfar.common.lines import Lines, inside_of
from lookfar.model import Block, Claim, ClaimKind, Document
from lookfar.text.parse.languages import language_of_fence

OPTION: Final = re.compile(r"(?<![\w-])--[a-z][a-z0-9]*(?:[-.][a-z0-9]+)*(?![\w-])")
FILE: Final = re.compile(
    r"(?<![\w@./:~$-])(?:\./|\.\./)*[\w@.-]+(?:/[\w@.-]+)+\.[A-Za-z][A-Za-z0-9]{0,4}(?![\w/-])"
)
_PROMPT: Final = re.compile(r"[ \t]*(?:\$|%|\(\w+\) ?\$)[ \t]+")
_DOCTEST: Final = re.compile(r"[ \t]*(?:>>>|\.\.\.)(?: |$)")
_SEPARATOR: Final = re.compile(r"\|\|?|&&|;")
_STARTER: Final = re.compile(
    r"\w+=\S*|sudo|env|npx|run|exec|uv|uvx|poetry|pipenv|bundle|python[\d.]*|py|-m|--"
)
_COMMENT: Final = re.compile(r"(?:^|\s)#.*")
_DIRECTIVE: Final = re.compile(
    r"^(?P<indent>[ \t]*)\.\. (?:py:)?(?P<kind>module|currentmodule|auto(?:module|class|function"
    r"|method|attribute|data|exception|decorator)|class|function|method|exception|attribute|data"
    r"|staticmethod|classmethod|decorator|coroutinefunction|coroutinemethod)::[ \t]*"
    r"(?:async[ \t]+|class[ \t]+)?(?P<name>[A-Za-z_][\w.]*)(?P<open>\()?"
)
_FIELD: Final = re.compile(r"^(?P<indent>[ \t]+):(?:param|parameter|arg|keyword)\s+(?:[^:]*\s)?"
                           r"\*{0,2}(?P<name>[A-Za-z_]\w*):")  # fmt: skip
_OTHER: Final = re.compile(r"^(?P<indent>[ \t]*)\.\. [\w:-]+::")
_CALLABLE: Final = ("class", "function", "method", "exception")
_MOST_LINES: Final = 40
"""The most lines of one signature."""
_PAST_FILES: Final = re.compile(
    r"(^|/)(change(s|log)?|history|news|release[-_ ]?notes?|releases?|whats?[-_ ]?new|migrat\w*|"
    r"upgrad\w*|blog|archive|adrs?|rfcs?|seps?|peps?|proposals?|roadmap|"
    r"authors|credits|contributors|thanks|_?posts)([-_./\d]|$)",
    re.IGNORECASE,
)
_PAST_HEADINGS: Final = re.compile(
    r"change ?log|release|deprecat|removed?\b|removal|upgrad|migrat|histor|what'?s new|"
    r"^v(ersion)? ?\d|^\d+\.\d+",
    re.IGNORECASE,
)
_PAST_WORDS: Final = re.compile(
    r"\b(removed?|removing|removal|renamed?|deprecat\w*|obsolete|no longer|replaced|formerly|"
    r"previously|used to (?:be|have|exist|work|live|return|support)|legacy|older|prior to|"
    r"dropped|discontinued|superseded|earlier|"
    r"not (?:yet )?(?:available|supported|implemented)|does(?: not|n't) exist|third[- ]party|"
    r"any ?more|in the past|originally|lower than|backwards?[- ]compatib\w*|proposes?|proposal|"
    r"before (?:version )?v?\d|until (?:version )?v?\d|in (?:version )?v?\d+\.\d+)",
    re.IGNORECASE,
)
_PAST_DIRECTIVE: Final = re.compile(
    r"^[ \t]*(?:\.\.|:{3,}|`{3,}|!!!)[ \t]*\{?(version(?:added|changed|removed)|deprecated)\b"
)
_ITEM: Final = re.compile(r"^[ \t]*(?:[-*+]|\d+[.)]|#\.)[ \t]+|^[ \t]*\|", re.MULTILINE)
"""The start of a list item, or of a row of a table."""
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
    return list(_ClaimReader(document).read())


class _ClaimReader:
    """Reads the claims of one document."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._lines = Lines(document.text)
        self._blocks = [b for b in document.blocks if b.kind in ("fence", "indented", "html")]
        self._in_block = inside_of((block.start, block.end) for block in self._blocks)
        self._past = PastText(document)

    def read(self) -> Iterator[Claim]:
        for block in self._blocks:
            if block.kind != "html" and not self._past.covers(block.start):
                yield from self._read_example(block)
        text = self._document.text
        yield from self._read_links()
        if self._document.language == "rst":
            yield from map(self._claim, read_directives(text), repeat(1))
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
                line = self._lines.line_of(match.start(1))
                yield self._claim(Named("file", match[1], 0), line)

    def _read_example(self, block: Block) -> Iterator[Claim]:
        """Yield what a program or a list of commands uses."""
        program, first = self._example(block)
        language = language_of_fence(block.language) if block.language else ""
        if language in ("", "python", "pycon", "default"):
            yield from map(self._claim, read_python(program), repeat(first))
        if language in ("", "bash", "text", "console"):
            is_shell = language == "bash"
            commands = read_commands(program, is_shell=is_shell)
            yield from map(self._claim, commands, repeat(first))

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

    def _claim(self, named: Named, first: int) -> Claim:
        """Return the claim of a line; ``first`` is the number of the line that counts as 0."""
        line = first + named.line
        start = self._lines.start_of(line)
        return Claim(named.kind, named.name, line, start, named.call, named.is_full)


class Named(NamedTuple):
    """Something that a line of an example uses, or that a directive documents."""

    kind: ClaimKind
    name: str
    line: int
    """Counted from 0."""
    call: str = ""
    is_full: bool = False
    """Whether it is said which module the name is in."""


def read_python(program: str) -> Iterator[Named]:
    """Yield the imports of a Python example, and the keywords of calls of what it imports."""
    lines = program.split("\n")
    if any(line.lstrip().startswith(">>>") for line in lines):
        # Blank lines in place of the output.
        lines = [_DOCTEST.sub("", line) if _DOCTEST.match(line) else "" for line in lines]
    try:
        with catch_warnings():
            simplefilter("ignore")
            tree = ast.parse("\n".join(lines))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    imported: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                imported[alias.asname or alias.name] = name
                if alias.name != "*":
                    yield Named("import", name, alias.lineno - 1, is_full=True)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                imported[alias.asname or alias.name] = alias.name
                if "." in alias.name:
                    yield Named("import", alias.name, alias.lineno - 1, is_full=True)
    for node in ast.walk(tree):
        called = _called_name(node.func, imported) if isinstance(node, ast.Call) else ""
        if called and isinstance(node, ast.Call):
            for keyword in node.keywords:
                if keyword.arg:
                    yield Named("parameter", keyword.arg, keyword.lineno - 1, called)


def _called_name(callee: ast.expr, imported: Mapping[str, str]) -> str:
    """Return the full name of what a call calls, if an import of the example binds it."""
    names: list[str] = []
    while isinstance(callee, ast.Attribute):
        names.append(callee.attr)
        callee = callee.value
    if not isinstance(callee, ast.Name) or callee.id not in imported:
        return ""
    return ".".join((imported[callee.id], *reversed(names)))


def read_commands(program: str, *, is_shell: bool) -> Iterator[Named]:
    """Yield the options and files in the commands of a shell example, with the command of each.

    Lines without a prompt are commands only in a shell example that has no prompt at all; otherwise
    they are output.
    """
    lines = program.split("\n")
    has_prompts = any(_PROMPT.match(line) for line in lines)
    command, continued = "", False
    for number, line in enumerate(lines):
        if not (continued or _PROMPT.match(line) or (is_shell and not has_prompts)):
            continue
        text = _COMMENT.sub("", _PROMPT.sub("", line, count=1))
        for part in _SEPARATOR.split(text):
            command = command if continued else find_program(part)
            continued = False
            yield from (
                Named("option", match[0], number, command) for match in OPTION.finditer(part)
            )
            yield from (Named("file", match[0], number) for match in FILE.finditer(part))
        continued = line.rstrip().endswith("\\")


def find_program(command: str) -> str:
    """Return the program that a command runs, without what starts it such as ``python -m``."""
    words = (word for word in command.split() if not _STARTER.fullmatch(word))
    return next(words, "")


def read_directives(text: str) -> Iterator[Named]:
    """Yield the symbols and parameters in the order of the text."""
    lines = text.split("\n")
    module = ""
    around: list[tuple[int, str]] = []
    """Directives that contain the current line: indentation and full name, empty if unknown."""
    for number, line in enumerate(lines):
        if not line.strip():
            continue
        indent = len(line) - len(line.lstrip())
        while around and around[-1][0] >= indent:
            around.pop()
        match = _DIRECTIVE.match(line)
        if match is None:
            field = _FIELD.match(line)
            if field is not None and around and around[-1][1]:
                yield Named("parameter", field["name"], number, around[-1][1])
            elif _OTHER.match(line):
                around.append((indent, ""))
            continue
        kind, name = match["kind"], match["name"].rstrip(".")
        if kind in ("module", "currentmodule", "automodule"):
            module = "" if name == "None" else name
            if kind == "automodule":
                yield Named("symbol", name, number, is_full=True)
            continue
        full = _qualify(name, module, around)
        around.append((indent, full if kind.endswith(_CALLABLE) else ""))
        if kind.startswith("auto") or "." in full:
            yield Named("symbol", full, number, is_full=bool(module))
        if match["open"] and not kind.startswith("auto"):
            for parameter, line_number in _read_signature(lines, number, match.end()):
                yield Named("parameter", parameter, line_number, full)


def _qualify(name: str, module: str, around: list[tuple[int, str]]) -> str:
    """Return the full name of what a directive documents."""
    outer = next((full for _, full in reversed(around) if full), "")
    if outer and "." not in name:
        return f"{outer}.{name}"
    if not module or name.startswith(f"{module.partition('.')[0]}."):
        return name
    return f"{module}.{name}"


def _read_signature(lines: list[str], number: int, column: int) -> Iterator[tuple[str, int]]:
    """Yield the parameters of a signature with their lines, if its brackets close."""
    depth, current = 1, ""
    parameters: list[tuple[str, int]] = []
    for line_number in range(number, min(number + _MOST_LINES, len(lines))):
        for letter in lines[line_number][column:]:
            # Square brackets around a parameter mark it as optional; others belong to a type.
            nested = depth > 1 or ":" in current or "=" in current
            if letter in "({" or (letter == "[" and nested):
                depth += 1
            elif letter in ")}" or (letter == "]" and depth > 1):
                depth -= 1
            if depth == 0 or (depth == 1 and letter == ","):
                name = re.match(r"[\s\[\]]*\*{0,2}([A-Za-z_]\w*)", current)
                if name is not None and name[1] not in ("self", "cls"):
                    parameters.append((name[1], line_number))
                current = ""
            else:
                current += letter
            if depth == 0:
                yield from parameters
                return
        column = 0


def is_about_the_past(uri: str) -> bool:
    """Whether a whole document is a record of changes, or says how to upgrade."""
    return _PAST_FILES.search(uri) is not None


class PastText:
    """Tells which parts of a document are about the past."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._starts = [section.span.start for section in document.sections]

    def covers(self, offset: int) -> bool:
        """Whether the headings, the paragraph or the list item around an offset say so."""
        number = bisect_right(self._starts, offset) - 1
        if number >= 0 and any(
            _PAST_HEADINGS.search(title) for title in self._document.sections[number].path
        ):
            return True
        text = self._document.text
        start = text.rfind("\n\n", 0, offset) + 2 if "\n\n" in text[:offset] else 0
        end = text.find("\n\n", offset)
        paragraph = text[start : end if end >= 0 else len(text)]
        if any(_PAST_WORDS.search(part) for part in self._narrow(paragraph, start, offset)):
            return True
        return self._in_directive(start)

    def _narrow(self, paragraph: str, start: int, offset: int) -> tuple[str, ...]:
        """Return the list item around an offset and what introduces the list, or the paragraph."""
        items = [match.start() for match in _ITEM.finditer(paragraph)]
        if not items:
            return (paragraph,)
        place = offset - start
        number = bisect_right(items, place) - 1
        lead = paragraph[: items[0]]
        if not lead.strip():
            before = self._document.text[:start].rstrip()
            lead = before[before.rfind("\n\n") + 1 :] if before.endswith(":") else ""
        if number < 0:
            return (lead,)
        end = items[number + 1] if number + 1 < len(items) else len(paragraph)
        return lead, paragraph[items[number] : end]

    def _in_directive(self, start: int) -> bool:
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
