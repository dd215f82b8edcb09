"""Extract LaTeX: sections, text, lists, tables, verbatim code, links; formulas as they are.

Commands are not expanded and no other file is read. Unknown commands are replaced with their
arguments.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

from lookfar.text.extract.decoding import decode
from lookfar.text.extract.extracted import Extracted, Limits
from lookfar.text.extract.writer import Writer, join_words, link

_LEVELS = {
    "part": 1, "chapter": 1, "section": 2, "subsection": 3, "subsubsection": 4, "paragraph": 5,
    "subparagraph": 6, "frametitle": 3,
}  # fmt: skip
_CODE = (
    "verbatim", "verbatim*", "lstlisting", "minted", "Verbatim", "alltt", "comment", "Highlighting",
)  # fmt: skip
_FORMULAS = ("equation", "align", "gather", "multline", "eqnarray", "displaymath", "math")
_LISTS = ("itemize", "enumerate", "description")
_TABLES = ("tabular", "tabular*", "tabularx", "longtable", "array")
_DROPPED = frozenset(
    "label index vspace hspace pagestyle thispagestyle usepackage documentclass bibliographystyle"
    " setlength setcounter addtolength newcommand renewcommand providecommand input include"
    " includegraphics graphicspath hypersetup geometry rule vskip hskip linespread fontsize"
    " selectfont newenvironment newtheorem theoremstyle pagenumbering addcontentsline markboth"
    " phantomsection cline cmidrule multirow resizebox scalebox color definecolor".split()
)
"""Commands whose arguments are not text."""
_ACCENTS = {
    "'": "\u0301", "`": "\u0300", "^": "\u0302", '"': "\u0308", "~": "\u0303", "=": "\u0304",
    ".": "\u0307", "c": "\u0327", "v": "\u030c", "u": "\u0306", "H": "\u030b", "k": "\u0328",
    "r": "\u030a",
}  # fmt: skip
_LETTERS = {
    "ss": "ß", "ae": "æ", "AE": "Æ", "oe": "œ", "OE": "Œ", "o": "ø", "O": "Ø", "aa": "å",
    "AA": "Å", "l": "ł", "L": "Ł", "i": "i", "j": "j", "ldots": "…", "dots": "…", "LaTeX": "LaTeX",
    "TeX": "TeX", "textbackslash": "\\", "textasciitilde": "~", "S": "§", "P": "¶", "euro": "€",
    "pounds": "£", "copyright": "©", "quad": " ", "qquad": " ", "par": "\n\n", "newline": "\n",
    "linebreak": "\n", "textendash": "–", "textemdash": "—", "textbar": "|", "today": "",
    "textgreater": ">", "textless": "<", "textquotesingle": "'", "textasciigrave": "`",
}  # fmt: skip
_TOKEN = re.compile(
    r"\\begin[ \t]*\{([^{}\n]{1,60})\}|\\end[ \t]*\{([^{}\n]{1,60})\}|\\([A-Za-z@]+)\*?[ \t]*"
    r"|\\([^A-Za-z])|(\$\$?)|([{}])|(\n[ \t]*\n\s*)|([~&])|([^\\${}~&\n]+|\n)"
)
_COMMENT = re.compile(r"(?<!\\)((?:\\\\)*)%.*?(?:\n[ \t]*|$)")
_MOST_ARGUMENTS = 6


def extract_latex(data: bytes, limits: Limits) -> Extracted:
    """Extract the body of a LaTeX file; without ``\\begin{document}`` all of it."""
    source, warnings = decode(data)
    source = source.replace("\r\n", "\n").replace("\r", "\n")
    writer = Writer(limits)
    writer.warnings += warnings
    reader = _Reader(writer, source)
    title = reader.find_argument("title")
    begin = source.find("\\begin{document}")
    if title:
        writer.heading(1, title)
    reader.read(begin + len("\\begin{document}") if begin >= 0 else 0)
    return writer.finish(title)


class _Reader:
    def __init__(self, writer: Writer, source: str) -> None:
        self._writer = writer
        self._source = source
        self._parts: list[str] = []
        self._lists: list[str] = []
        self._counts: list[int] = []
        self._in_item = False
        self._closings = _match_brackets(source)
        self._unclosed: set[str] = set()
        """Environments without an end after the current position."""

    def find_argument(self, name: str) -> str:
        """Return the first argument of a command as plain text."""
        match = re.search(rf"\\{name}[ \t]*(?=[{{\[])", self._source)
        if match is None:
            return ""
        _, arguments = self._arguments(match.end(), 1)
        return join_words(_plain(arguments[-1])) if arguments else ""

    def read(self, position: int) -> None:
        """Read the source from a position to the end of the document."""
        source = self._source
        while position < len(source) and not self._writer.full:
            if source[position] == "%":  # An escaped one was read together with its backslash.
                position = self._skip_comment(position)
                continue
            match = _TOKEN.match(source, position)
            if match is None:
                position += 1
                continue
            begin, end, command, symbol, dollar, _, blank, special, text = match.groups()
            position = match.end()
            if begin is not None:
                position = self._begin(begin, position)
            elif end is not None:
                if end == "document":
                    break
                self._end(end)
            elif command is not None:
                position = self._command(command, position)
            elif symbol is not None:
                position = self._symbol(symbol, position)
            elif dollar is not None:
                position = self._formula(dollar, position)
            elif blank is not None:
                self._flush()
            elif special is not None:
                self._parts.append(" ")
            elif text is not None:
                position = self._text(text, position)
        self._flush()

    def _skip_comment(self, position: int) -> int:
        """Return the position after a comment, its line break and the indentation that follows."""
        end = self._source.find("\n", position)
        if end < 0:
            return len(self._source)
        following = re.compile(r"\n[ \t]*").match(self._source, end)
        after = following.end() if following else end
        # A blank line after the comment still ends the paragraph.
        return end if self._source[after : after + 1] == "\n" else after

    def _text(self, text: str, position: int) -> int:
        """Add text up to a comment."""
        mark = text.find("%")
        if mark >= 0:
            position -= len(text) - mark
            text = text[:mark]
        text = text.replace("``", "“").replace("''", "”").replace("---", "—").replace("--", "–")
        self._parts.append(text)
        return position

    def _symbol(self, symbol: str, position: int) -> int:
        if symbol == "\\":
            self._parts.append("\n")
            option = re.compile(r"\*?[ \t]*(?:\[[^\]\n]{0,40}\])?").match(self._source, position)
            return option.end() if option else position
        if symbol in "[(":
            closing = "\\]" if symbol == "[" else "\\)"
            return self._verbatim_formula(closing, position, symbol == "[")
        if symbol in _ACCENTS:
            end, arguments = self._arguments(position, 1)
            letter = _plain(arguments[0]) if arguments else self._source[position : position + 1]
            self._parts.append(_accent(letter, symbol))
            return end if arguments else position + 1
        self._parts.append("" if symbol in "-/!" else " " if symbol in " ,;:>\n" else symbol)
        return position

    def _formula(self, dollar: str, position: int) -> int:
        return self._verbatim_formula(dollar, position, dollar == "$$")

    def _verbatim_formula(self, closing: str, position: int, display: bool) -> int:
        """Write a formula as its source."""
        end = self._source.find(closing, position, position + _LONGEST_ARGUMENT)
        if end < 0 or "\n\n" in self._source[position:end]:
            self._parts.append(closing if closing[0] == "$" else "")
            return position
        formula = self._source[position:end]
        if display:
            self._flush()
            self._writer.code(formula, "latex")
        else:
            self._parts.append(f"${formula}$")
        return end + len(closing)

    def _begin(self, name: str, position: int) -> int:
        bare = name.rstrip("*")
        if name in _CODE or bare in _FORMULAS:
            return self._verbatim(name, position)
        if bare in _TABLES:
            return self._table(name, position)
        if bare in _LISTS:
            self._flush()
            self._lists.append(bare)
            self._counts.append(0)
        elif bare not in ("document", "center", "quote"):
            self._flush()
        option = re.compile(r"[ \t]*\[[^\]]{0,200}\]").match(self._source, position)
        position = option.end() if option else position
        if bare == "frame":
            end, arguments = self._arguments(position, 1)
            if arguments:
                self._writer.heading(3, _plain(arguments[0]))
                return end
        elif bare in ("minipage", "multicols", "figure", "wrapfigure", "thebibliography"):
            return self._arguments(position, 1)[0]
        return position

    def _end(self, name: str) -> None:
        self._flush()
        if name.rstrip("*") in _LISTS and self._lists:
            self._lists.pop()
            self._counts.pop()
        self._in_item = False

    def _verbatim(self, name: str, position: int) -> int:
        """Write an environment as code, and return the position after it."""
        self._flush()
        end, after = self._find_end(name, position)
        if end < 0:
            return position
        body = self._source[position:end]
        options = re.match(r"[ \t]*(?:\[([^\]]{0,500})\])?(?:\{([^{}\n]{0,40})\})?[ \t]*\n?", body)
        language = "latex" if name.rstrip("*") in _FORMULAS else ""
        if options and name in ("lstlisting", "minted", "Verbatim"):
            body = body[options.end() :]
            word = re.search(r"language=\{?([\w+#]+)", options[1] or "")
            language = word[1].lower() if word else options[2] or ""
        if name == "Highlighting":  # Written by pandoc: every word is in a command.
            body = _plain(re.sub(r"^\[[^\]]*\]", "", body))
        if name != "comment":
            self._writer.code(body, language)
        return after

    def _table(self, name: str, position: int) -> int:
        end, after = self._find_end(name, position)
        if end < 0:
            return position
        self._flush()
        count = 2 if name in ("tabular*", "tabularx") else 1
        start = min(end, self._arguments(position, count)[0])
        body = _COMMENT.sub(r"\1", self._source[start:end])
        body = re.sub(r"\\(?:hline|toprule|midrule|bottomrule|endhead|endfirsthead)\b", "", body)
        rows = []
        for row in re.split(r"\\\\(?:\[[^\]\n]{0,20}\])?|\\tabularnewline", body):
            cells = [join_words(_plain(cell)) for cell in re.split(r"(?<!\\)&", row)]
            if any(cells):
                rows.append(cells)
        self._writer.table(rows)
        return after

    def _find_end(self, name: str, position: int) -> tuple[int, int]:
        """Return where the end of an environment starts and stops, or -1 and -1."""
        closing = f"\\end{{{name}}}"
        end = -1 if name in self._unclosed else self._source.find(closing, position)
        if end < 0:
            self._unclosed.add(name)  # Searching again each time would take quadratic time.
            return -1, -1
        return end, end + len(closing)

    def _command(self, name: str, position: int) -> int:
        if name in _LEVELS:
            end, arguments = self._arguments(position, 1)
            self._flush()
            self._writer.heading(_LEVELS[name], _plain(arguments[-1]) if arguments else "")
            return end
        if name == "item":
            return self._item(position)
        if name in ("href", "url"):
            end, arguments = self._arguments(position, 2 if name == "href" else 1)
            if name == "href" and len(arguments) == 2:
                self._parts.append(link(join_words(_plain(arguments[1])), arguments[0].strip()))
            else:
                self._parts += arguments[:1]
            return end
        if name in ("verb", "lstinline"):
            return self._inline_code(position)
        if name in _ACCENTS and len(name) == 1:
            end, arguments = self._arguments(position, 1)
            letter = _plain(arguments[0]) if arguments else self._source[position : position + 1]
            self._parts.append(_accent(letter, name))
            return end if arguments else position + 1
        if name == "footnote":
            end, arguments = self._arguments(position, 1)
            self._parts.append(f" ({_plain(arguments[-1])})" if arguments else "")
            return end
        if name == "hypertarget":
            return self._arguments(position, 1)[0]
        if name in ("def", "let"):
            defined = re.compile(r"\\[A-Za-z@]+[#\d=\\A-Za-z@]*").match(self._source, position)
            return self._arguments(defined.end() if defined else position, 1)[0]
        if name in _DROPPED or name in ("title", "author", "date"):
            return self._arguments(position, _MOST_ARGUMENTS)[0]
        if name == "par":
            self._flush()
        else:
            self._parts.append(_LETTERS.get(name, ""))
            option = re.compile(r"\[[^\]\n]{0,80}\](?=\{)").match(self._source, position)
            position = option.end() if option else position
        return position

    def _item(self, position: int) -> int:
        self._flush()
        self._in_item = bool(self._lists)
        if self._counts:
            self._counts[-1] += 1
        label = re.compile(r"[ \t]*\[([^\]\n]{0,200})\]").match(self._source, position)
        if label is None:
            return position
        self._parts.append(f"{_plain(label[1])}: ")
        return label.end()

    def _inline_code(self, position: int) -> int:
        mark = self._source[position : position + 1]
        mark = {"{": "}"}.get(mark, mark)
        furthest = position + _LONGEST_ARGUMENT
        end = self._source.find(mark, position + 1, furthest) if mark.strip() else -1
        if end < 0 or self._source.find("\n", position, end) >= 0:
            return position
        code = self._source[position + 1 : end]
        self._parts.append(f"`{code}`" if "`" not in code else code)
        return end + 1

    def _arguments(self, position: int, most: int) -> tuple[int, list[str]]:
        """Return the position after the arguments of a command, and the arguments in braces."""
        arguments: list[str] = []
        source = self._source
        space = re.compile(r"[ \t]*\n?[ \t]*")
        while len(arguments) < most:
            match = space.match(source, position)
            start = match.end() if match else position
            opening = source[start : start + 1]
            if opening not in ("{", "["):
                break
            end = self._closings.get(start)
            if end is None:
                break
            if opening == "{":
                arguments.append(source[start + 1 : end])
            position = end + 1
        return position, arguments

    def _flush(self) -> None:
        text = re.sub(r"[ \t]+", " ", "".join(self._parts))
        self._parts = []
        text = re.sub(r" ?\n ?", "\n", text).strip()
        if not text:
            return
        if self._in_item and self._lists:
            numbered = self._lists[-1] == "enumerate"
            marker = f"{self._counts[-1]}." if numbered else "-"
            self._writer.item(len(self._lists) - 1, text, marker)
            self._in_item = False
        else:
            self._writer.paragraph(text)


_LONGEST_ARGUMENT = 20_000


def _match_brackets(source: str) -> dict[int, int]:
    """Return the position of the closing bracket for each opening one that has it nearby.

    A square bracket is closed by the next one that is outside of braces opened after it.
    """
    closings: dict[int, int] = {}
    braces: list[int] = []
    squares: list[list[int]] = [[]]
    """Open square brackets, for each open brace and outside of them."""
    for match in re.finditer(r"\\.|[{}\[\]]", source, re.DOTALL):
        mark, position = match[0], match.start()
        if mark == "{":
            braces.append(position)
            squares.append([])
        elif mark == "}":
            squares.pop()
            opened = [braces.pop()] if braces else []
            squares = squares or [[]]
        elif mark == "[":
            squares[-1].append(position)
        elif mark == "]":
            opened, squares[-1] = squares[-1], []
        if mark in "}]":
            closings.update(
                (start, position) for start in opened if position - start < _LONGEST_ARGUMENT
            )
    return closings


def _accent(letter: str, mark: str) -> str:
    letter = letter or " "
    return unicodedata.normalize("NFC", letter[0] + _ACCENTS[mark]) + letter[1:]


def _replace_command(match: re.Match[str]) -> str:
    if match[1] in _DROPPED:
        return "\0"
    return _LETTERS.get(match[1], "")


def _plain(text: str) -> str:
    """Return a short argument without commands and braces."""
    replace: Callable[[re.Match[str]], str] = lambda match: _accent(match[2], match[1])  # noqa: E731
    text = re.sub(r"\\href\{([^{}]*)\}\{([^{}]*)\}", r"\2", text)
    text = re.sub(r"\\(['`^\"~=.])\{?([A-Za-z])\}?", replace, text)
    text = re.sub(r"\\([A-Za-z@]+)\*?[ \t]*", _replace_command, text)
    text = re.sub("\0(?:\\[[^\\]]{0,200}\\])*(?:\\{[^{}]*\\})*", "", text)
    text = re.sub(r"\\([^A-Za-z])", lambda match: "\n" if match[1] == "\\" else match[1], text)
    return re.sub(r"[{}]", "", text).replace("~", " ")
