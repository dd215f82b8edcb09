"""Parse regular expressions in the syntax of ripgrep (Rust's regex crate).

RE2 cannot use such an expression as it is: its character classes and boundaries know ASCII only,
its negated classes match line breaks, and it lacks nested classes. Look-around and back references
cannot be matched in linear time and are rejected, and so are line breaks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, NoReturn

from lookfar.errors import InvalidArgument
from lookfar.retrieve.grep.character_classes import (
    LAST_CODE_POINT,
    NEWLINE,
    POSIX_CLASSES,
    ClassMembers,
    invert,
)

LONGEST: Final = 10_000
_DEEPEST: Final = 100
_MOST_REPEATS: Final = 1_000

Boundary = Literal["line_start", "line_end", "word", "not_word", "word_start", "word_end"]
"""``word_start`` and ``word_end`` only require that no word continues before or after."""


@dataclass(frozen=True, slots=True)
class Char:
    char: str
    fold: bool = False


@dataclass(frozen=True, slots=True)
class CharSet:
    """One character of a set that never contains the line break."""

    source: str
    """The set in RE2 syntax."""
    fold: bool = False
    few: str = ""
    """Its characters, if they are few and have no named class."""


@dataclass(frozen=True, slots=True)
class Assertion:
    kind: Boundary


@dataclass(frozen=True, slots=True)
class Sequence:
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several, the first preferred."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """``most`` is ``None`` if there is no limit."""

    part: Node
    least: int
    most: int | None
    greedy: bool = True


Node = Char | CharSet | Assertion | Sequence | Choice | Repeat

# Rust's classes without the line break. RE2 has no category for Alphabetic, so it is written as
# letters, letter numbers, marks, and the letters among the symbols.
_DIGIT: Final = r"\p{Nd}"
_SPACE: Final = (
    r"\t\x0b-\r \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}"
)
_WORD: Final = (
    r"\p{L}\p{Nl}\p{M}\p{Nd}\p{Pc}\x{200c}\x{200d}\x{24b6}-\x{24e9}\x{1f130}-\x{1f149}"
    r"\x{1f150}-\x{1f169}\x{1f170}-\x{1f189}"
)
WORD_CHARACTER: Final = f"[{_WORD}]"
_CLASSES: Final = {"d": _DIGIT, "s": _SPACE, "w": _WORD}
_CATEGORIES: Final = {
    "letter": "L", "lowercaseletter": "Ll", "uppercaseletter": "Lu", "titlecaseletter": "Lt",
    "modifierletter": "Lm", "otherletter": "Lo", "mark": "M", "nonspacingmark": "Mn",
    "spacingmark": "Mc", "enclosingmark": "Me", "number": "N", "decimalnumber": "Nd",
    "letternumber": "Nl", "othernumber": "No", "punctuation": "P", "connectorpunctuation": "Pc",
    "dashpunctuation": "Pd", "openpunctuation": "Ps", "closepunctuation": "Pe",
    "initialpunctuation": "Pi", "finalpunctuation": "Pf", "otherpunctuation": "Po",
    "symbol": "S", "mathsymbol": "Sm", "currencysymbol": "Sc", "modifiersymbol": "Sk",
    "othersymbol": "So", "separator": "Z", "spaceseparator": "Zs", "lineseparator": "Zl",
    "paragraphseparator": "Zp", "other": "C", "control": "Cc", "format": "Cf",
    "privateuse": "Co",
}  # fmt: skip
_ESCAPED: Final = {"a": "\a", "f": "\f", "t": "\t", "r": "\r", "v": "\v"}
_HEX_DIGITS: Final = {"x": 2, "u": 4, "U": 8}


@dataclass(frozen=True, slots=True)
class Flags:
    """The flags that ``(?i)`` and the like turn on and off."""

    fold: bool = False
    lazy: bool = False
    spaced: bool = False


@dataclass(slots=True)
class Parsed:
    """A parsed expression, and what smart case needs to know."""

    node: Node
    has_upper: bool
    """Whether it contains an upper-case literal."""
    has_literal: bool


def parse(pattern: str, *, fold: bool = False) -> Parsed:
    """Parse an expression; with ``fold`` as if it began with ``(?i)``."""
    if len(pattern) > LONGEST:
        raise InvalidArgument(
            f"The expression has {len(pattern):,} characters.", hint=f"Use at most {LONGEST:,}."
        )
    reader = _Reader(pattern)
    node, _ = reader.choice(Flags(fold=fold), depth=0)
    if reader.at < len(pattern):
        reader.fail("a ')' has no '(' before it", "Escape it: \\)")
    return Parsed(node, reader.has_upper, reader.has_literal)


@dataclass(slots=True)
class _Reader:
    text: str
    at: int = 0
    has_upper: bool = False
    has_literal: bool = False

    def fail(self, why: str, hint: str, at: int | None = None) -> NoReturn:
        place = self.at if at is None else at
        raise InvalidArgument(
            f"The expression is not valid at character {place + 1}: {why}.",
            hint=hint,
            details={"position": place, "pattern": self.text},
        )

    def peek(self, length: int = 1) -> str:
        return self.text[self.at : self.at + length]

    def take(self, expected: str) -> bool:
        if self.text.startswith(expected, self.at):
            self.at += len(expected)
            return True
        return False

    # -- structure ---------------------------------------------------------

    def choice(self, flags: Flags, depth: int) -> tuple[Node, Flags]:
        """Parse alternatives up to the end or a ``)``, and return the flags in effect there."""
        if depth > _DEEPEST:
            self.fail("its groups are nested too deeply", f"Nest at most {_DEEPEST}.")
        branches: list[Node] = []
        while True:
            branch, flags = self._sequence(flags, depth)
            branches.append(branch)
            if not self.take("|"):
                break
        return (branches[0] if len(branches) == 1 else Choice(tuple(branches))), flags

    def _sequence(self, flags: Flags, depth: int) -> tuple[Node, Flags]:
        parts: list[Node] = []
        while (char := self.peek()) and char not in "|)":
            if flags.spaced and self._skip_blank():
                continue
            if char in "*+?":
                self.fail(f"{char!r} has nothing to repeat", f"Escape it: \\{char}")
            if char == "{":
                self.fail("'{' has nothing to repeat", "Escape it: \\{")
            if char == "(":
                node, flags = self._group(flags, depth)
            else:
                node = self._atom(flags)
            if node is not None:
                parts.append(self._repeated(node, flags))
        return (parts[0] if len(parts) == 1 else Sequence(tuple(parts))), flags

    def _skip_blank(self) -> bool:
        """Skip white space and comments, which ``(?x)`` ignores."""
        if self.peek().isspace():
            self.at += 1
            return True
        if self.peek() == "#":
            end = self.text.find("\n", self.at)
            self.at = len(self.text) if end < 0 else end + 1
            return True
        return False

    def _repeated(self, node: Node, flags: Flags) -> Node:
        while True:
            while flags.spaced and self._skip_blank():
                pass
            char = self.peek()
            if not char or char not in "*+?{":
                return node
            self.at += 1
            if char == "{":
                least, most = self._counts()
            else:
                least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}[char]
            node = Repeat(node, least, most, greedy=self.take("?") == flags.lazy)

    def _counts(self) -> tuple[int, int | None]:
        start = self.at - 1
        end = self.text.find("}", self.at)
        low, comma, high = self.text[self.at : max(end, self.at)].partition(",")
        low, high = low.strip(), high.strip()
        if end < 0 or not low.isdecimal() or (high and not high.isdecimal()):
            self.fail("'{' does not begin a repetition such as {2} or {2,5}", "Escape it: \\{",
                      start)  # fmt: skip
        least = int(low[:9])
        most = int(high[:9]) if high else None if comma else least
        if max(least, most or 0) > _MOST_REPEATS:
            self.fail("it repeats too often", f"Repeat at most {_MOST_REPEATS:,} times.", start)
        if most is not None and most < least:
            self.fail("the smaller number of a repetition comes first", "Swap them.", start)
        self.at = end + 1
        return least, most

    def _group(self, flags: Flags, depth: int) -> tuple[Node | None, Flags]:
        start = self.at
        self.at += 1
        inner = flags
        if self.take("?"):
            for mark in ("=", "!", "<=", "<!", ">"):
                if self.take(mark):
                    self.fail(
                        f"'(?{mark}' is not supported, because it cannot be matched in linear time",
                        "Search for the main part and filter the result, or use a plain group.",
                        start,
                    )
            if self.take("P<") or self.take("<"):
                end = self.text.find(">", self.at)
                if end <= self.at:
                    self.fail("the name of a group is missing or not closed", "Write (?P<name>...)",
                              start)  # fmt: skip
                self.at = end + 1
            elif self.take("P=") or self.take("P>"):
                self.fail("back references are not supported", "Repeat the part itself.", start)
            else:
                inner, alone = self._flags(flags, start)
                if alone:
                    return None, inner
        node, _ = self.choice(inner, depth + 1)
        if not self.take(")"):
            self.fail("this '(' is never closed", "Close it, or escape it: \\(", start)
        # A sequence of its own, so that a following repetition applies to all of it.
        return Sequence((node,)), flags

    def _flags(self, flags: Flags, start: int) -> tuple[Flags, bool]:
        """Parse flags such as ``i-x`` up to ``:`` or ``)``; the latter applies to the rest of the
        group."""
        fold, lazy, spaced, on = flags.fold, flags.lazy, flags.spaced, True
        while True:
            char = self.peek()
            self.at += 1
            if char == "i":
                fold = on
            elif char == "U":
                lazy = on
            elif char == "x":
                spaced = on
            elif char == "-" and on:
                on = False
            elif char == "u" and not on:
                self.fail("Unicode cannot be turned off", "Remove -u.", start)
            elif char and char in "msuR":
                pass  # Lines are matched one by one, and Unicode is always on.
            elif char and char in ":)":
                return Flags(fold, lazy, spaced), char == ")"
            else:
                self.fail(f"'(?' is followed by {char!r}, which is not a flag",
                          "Flags: i, m, s, U, x. A group that is not captured: (?:...)",
                          start)  # fmt: skip

    # -- single characters ---------------------------------------------------

    def _atom(self, flags: Flags) -> Node:
        char = self.peek()
        self.at += 1
        if char == ".":
            return CharSet(r"[^\n]")
        if char == "^":
            return Assertion("line_start")
        if char == "$":
            return Assertion("line_end")
        if char == "[":
            return self._bracketed(flags)
        if char == "\\":
            return self._escape(flags)
        return self._literal(char, flags)

    def _literal(self, char: str, flags: Flags) -> Node:
        if char == "\n":
            self.fail("a line break cannot match, since lines are matched one by one",
                      "Search for one of the lines.", self.at - 1)  # fmt: skip
        self._note(char)
        return Char(char, flags.fold and char.lower() != char.upper())

    def _note(self, char: str) -> None:
        self.has_literal = True
        self.has_upper |= char.isupper()

    def _escape(self, flags: Flags) -> Node:
        start = self.at - 1
        char = self.peek()
        if char in ("A", "z", "b", "B"):
            self.at += 1
            kinds: dict[str, Boundary] = {
                "A": "line_start", "z": "line_end", "b": "word", "B": "not_word"
            }  # fmt: skip
            if char == "b" and self.peek() == "{":
                self.fail(r"\b{...} is not supported", r"Use \b.", start)
            return Assertion(kinds[char])
        known = self._class_escape(start)
        if known is not None:
            return CharSet(f"[{known}]" if known[0] != "^" else f"[{known}\\n]", flags.fold)
        return self._literal(self._escaped_char(start), flags)

    def _class_escape(self, start: int) -> str | None:
        r"""Return ``\d`` and the like as members of an RE2 class, with ``^`` first if negated."""
        char = self.peek()
        if char and char in "dswDSW":
            self.at += 1
            negated = "^" if char.isupper() else ""
            return negated + _CLASSES[char.lower()]
        if char and char in "pP":
            self.at += 1
            name = self._property_name(start)
            inverted = (char == "P") != name.startswith("^")
            return ("^" if inverted else "") + self._property(name.lstrip("^"), start)
        return None

    def _property_name(self, start: int) -> str:
        if not self.take("{"):
            name = self.peek()
            self.at += 1
            if not name.isalpha():
                self.fail(r"\p needs a name", r"Write \pL or \p{Greek}.", start)
            return name
        end = self.text.find("}", self.at)
        name = self.text[self.at : max(end, self.at)]
        if end < 0 or not name.strip("^"):
            self.fail(r"\p{ needs a name and a closing brace", r"Write \p{Greek}.", start)
        self.at = end + 1
        return name

    def _property(self, name: str, start: int) -> str:
        for sign in ("!=", "=", ":"):
            if sign in name:
                kind, _, name = name.partition(sign)
                if sign == "!=" or kind.lower() not in ("gc", "sc", "script", "general_category"):
                    self.fail(rf"\p{{{kind}{sign}...}} is not supported",
                              r"Use a category (\p{Lu}) or a script (\p{Greek}).",
                              start)  # fmt: skip
        plain = "".join(char for char in name.lower() if char.isalnum())
        if plain in ("any", "ascii"):
            return r"\x00-\x09\x0b-\x7f" + (r"\x80-\x{10ffff}" if plain == "any" else "")
        if plain in ("alphabetic", "alpha"):
            self.fail(r"\p{Alphabetic} is not supported", r"Use \pL or \w.", start)
        if not name.replace("_", "").replace(" ", "").isalnum() or not name.isascii():
            self.fail(rf"\p{{{name}}} is not a category or script", r"Write \p{Greek}.", start)
        category = _CATEGORIES.get(plain)
        if category is None:
            short = len(plain) <= 2
            category = plain.capitalize() if short else "_".join(
                part.capitalize() for part in name.replace(" ", "_").split("_")
            )  # fmt: skip
        return rf"\p{{{category}}}"

    def _escaped_char(self, start: int) -> str:
        """Return the character that a backslash sequence stands for."""
        char = self.peek()
        self.at += 1
        if char in _ESCAPED:
            return _ESCAPED[char]
        if char in _HEX_DIGITS:
            return self._hex(_HEX_DIGITS[char], start)
        if char == "n":
            self.fail("a line break cannot match, since lines are matched one by one",
                      "Search for one of the lines.", start)  # fmt: skip
        if char.isdecimal():
            self.fail("back references are not supported", "Repeat the part itself.", start)
        if not char:
            self.fail("it ends in a lone backslash", "Escape the backslash: \\\\", start)
        if char.isalnum() or not char.isascii() or char in "<>":
            self.fail(f"\\{char} has no meaning", f"Write {char} without the backslash.", start)
        return char

    def _hex(self, digits: int, start: int) -> str:
        if self.take("{"):
            end = self.text.find("}", self.at)
            written, after = self.text[self.at : max(end, self.at)], end + 1
        else:
            written, after = self.peek(digits), self.at + digits
            if len(written) < digits:
                written = ""
        try:
            value = int(written, 16) if written.isalnum() else -1
        except ValueError:
            value = -1
        if not 0 <= value <= LAST_CODE_POINT or 0xD800 <= value <= 0xDFFF:
            self.fail("this is not a code point", r"Write \x41 or \x{1F600}.", start)
        self.at = after
        if value == NEWLINE:
            self.fail("a line break cannot match, since lines are matched one by one",
                      "Search for one of the lines.", start)  # fmt: skip
        return chr(value)

    # -- classes -------------------------------------------------------------

    def _bracketed(self, flags: Flags) -> Node:
        start = self.at - 1
        negated, members = self._class(flags.fold, depth=0)
        source = members.to_re2(negated)
        if not source:
            self.fail("a line break cannot match, since lines are matched one by one",
                      "Search for one of the lines.", start)  # fmt: skip
        return CharSet(source, flags.fold, "" if negated else members.list_few())

    def _class(self, fold: bool, depth: int) -> tuple[bool, ClassMembers]:
        """Parse a class after its ``[``; return whether it is negated, and its members."""
        start = self.at - 1
        if depth > _DEEPEST:
            self.fail("its classes are nested too deeply", f"Nest at most {_DEEPEST}.", start)
        negated = self.take("^")
        members = ClassMembers(fold)
        first = True
        while self.peek() != "]" or first:
            if not self.peek():
                self.fail("this '[' is never closed", "Close it, or escape it: \\[", start)
            operation = self.peek(2)
            if operation in ("&&", "--", "~~") and not first:
                self.at += 2
                other = ClassMembers(fold)
                self._rest_of_class(other, depth, start)
                return negated, members.combine(operation, other)
            first = False
            self._member(members, depth)
        self.at += 1
        return negated, members

    def _rest_of_class(self, members: ClassMembers, depth: int, start: int) -> None:
        """Parse the operand of ``&&`` and the like, up to the end of the class."""
        while self.peek() != "]":
            if not self.peek():
                self.fail("this '[' is never closed", "Close it, or escape it: \\[", start)
            if self.peek(2) in ("&&", "--", "~~"):
                self.fail("several operations in one class are not supported",
                          "Put brackets around the first.")  # fmt: skip
            self._member(members, depth)
        self.at += 1

    def _member(self, members: ClassMembers, depth: int) -> None:
        start = self.at
        if self.take("[:"):
            end = self.text.find(":]", self.at)
            name = self.text[self.at : max(end, self.at)]
            ranges = POSIX_CLASSES.get(name.lstrip("^"))
            if ranges is not None:
                self.at = end + 2
                members.ranges += invert(ranges) if name.startswith("^") else ranges
                return
            self.at = start
        if self.take("["):
            negated, inner = self._class(members.fold, depth + 1)
            if negated:
                members.ranges += invert(inner.expand())
            else:
                members.ranges += inner.ranges
                members.sources += inner.sources
            return
        low = self._class_char(members)
        if low is None:
            return
        if self.peek() == "-" and self.peek(2) not in ("-]", "--", "-"):
            self.at += 1
            high = self._class_char(None)
            if high is None or high < low:
                self.fail(
                    "this range is in the wrong order", "Write the smaller character first.", start
                )
            members.ranges.append((ord(low), ord(high)))
        else:
            members.ranges.append((ord(low), ord(low)))

    def _class_char(self, members: ClassMembers | None) -> str | None:
        """Parse one character of a class; return ``None`` if it was a class, which is added."""
        start = self.at
        char = self.peek()
        self.at += 1
        if char != "\\":
            self._note(char)
            return char
        if self.take("n"):
            return "\n"  # It matches nothing, but a class may contain it: [^\n].
        known = self._class_escape(start)
        if known is None:
            char = self._escaped_char(start)
            self._note(char)
            return char
        if members is not None:
            members.sources.append(known)
        return None


def to_re2(node: Node, *, boundaries: bool = True) -> str:
    """Convert an expression to RE2 syntax, for ``(?m)``.

    Without ``boundaries`` word boundaries are dropped, so the result matches at least these lines.
    """
    if isinstance(node, Char):
        source = rf"\x{{{ord(node.char):x}}}" if not node.char.isalnum() else node.char
        return f"(?i:{source})" if node.fold else source
    if isinstance(node, CharSet):
        return f"(?i:{node.source})" if node.fold else node.source
    if isinstance(node, Assertion):
        if not boundaries and node.kind not in ("line_start", "line_end"):
            return "(?:)"
        return {"line_start": "^", "line_end": "$", "not_word": r"\B"}.get(node.kind, r"\b")
    if isinstance(node, Sequence):
        return "(?:" + "".join(to_re2(part, boundaries=boundaries) for part in node.parts) + ")"
    if isinstance(node, Choice):
        return "(?:" + "|".join(to_re2(part, boundaries=boundaries) for part in node.parts) + ")"
    inner = to_re2(node.part, boundaries=boundaries)
    most = "" if node.most is None else str(node.most)
    return f"(?:{inner}){{{node.least},{most}}}{'' if node.greedy else '?'}"


def has_boundary(node: Node) -> bool:
    if isinstance(node, Assertion):
        return node.kind not in ("line_start", "line_end")
    if isinstance(node, Repeat):
        return has_boundary(node.part)
    return isinstance(node, Sequence | Choice) and any(map(has_boundary, node.parts))


def is_between_words(node: Node) -> bool:
    """Return whether every match certainly begins and ends with a word character."""
    return _has_word_edge(node, 0) and _has_word_edge(node, -1)


def _has_word_edge(node: Node, side: Literal[0, -1]) -> bool:
    if isinstance(node, Char):
        return node.char.isalnum() or node.char == "_"
    if isinstance(node, CharSet):
        named = node.source in (WORD_CHARACTER, f"[{_DIGIT}]")
        return named or (node.few != "" and all(c.isalnum() or c == "_" for c in node.few))
    if isinstance(node, Repeat):
        return node.least > 0 and _has_word_edge(node.part, side)
    if isinstance(node, Choice):
        return all(_has_word_edge(part, side) for part in node.parts)
    if isinstance(node, Sequence):
        return bool(node.parts) and _has_word_edge(node.parts[side], side)
    return False
