"""Find the names that a question asks for, and recognise lines that define them.

A word is a name if it is written as one (``getUser``, ``get_user``, ``User.get``, ``get()``), or if
it is the only one left without the words of "where is ... defined".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from lookfar.retrieve.ranking import Plan
from lookfar.store.keywords.analyser import LONGEST_TERM, terms_of

_MOST_NAMES: Final = 4
"""Names in one question; a text with more was pasted and is not about each of them."""

_JOINT = r"(?:\.|::|#|->)"
_NAME: Final = re.compile(
    rf"(?P<quoted>`)?(?P<name>[$@]?[^\W\d][\w$]*(?:{_JOINT}[^\W\d][\w$]*)*[?!]?)"
    r"(?P<called>\(\))?(?(quoted)[^`\s]*`|)"
)
BETWEEN_NAMES: Final = re.compile(_JOINT)
_COMPOUND: Final = re.compile(
    rf"[a-z\d][A-Z]|[^\W_]_+[^\W_]|^_+[^\W_]|[A-Z]{{2}}[a-z]{{2}}|{_JOINT}"
)
_ABBREVIATION: Final = re.compile(r"(?:^|\.)\w(?:\.|$)|^(?:e\.g|i\.e|vs|etc)\b")
_ASKS_FOR_NAME: Final = frozenset(
    terms_of(
        "what where which how when why who is are was do does did the a an of in to it this that"
        " defined define definition declared declaration implemented implementation located work"
        " works mean means meaning source code function method class struct type constant macro"
        " variable symbol interface trait enum module find show explain for called named"
    )
)
"""Words around a name in a question that asks for nothing but the name."""
_VERBATIM: Final = re.compile(
    r"(?<![\w-])(?P<flag>--[A-Za-z][\w-]+)|(?P<mark>[\"`])(?P<text>[^\"`\n]{3,200})(?P=mark)"
    r"|“(?P<message>[^”\n]{3,200})”"
)
"""A flag, or a text in quotes."""
_KIND = r"(?:(?:method|function|property|attribute|field)\s+)?"
_TYPE = r"(?:[^\W\d]\w*\.)*[A-Z]\w+"
_MEMBER_AFTER: Final = re.compile(
    rf"(?<![\w.])(?P<owner>{_TYPE})(?:['’]s)?\s+{_KIND}(?=(?P<member>[^\W\d]\w+)(?![\w.]))"
)
"""A type and its member: ``Session get``, ``Session's get``."""
_MEMBER_BEFORE: Final = re.compile(
    rf"(?<![\w.])(?P<member>[^\W\d]\w+)(?:\(\))?\s+{_KIND}(?:of|on)\s+(?:(?:the|a|an)\s+)?"
    rf"(?:[a-z][\w-]*\s+)?(?P<owner>{_TYPE})"
)
"""A member and its type: ``get of a requests Session``."""

_DEFINES: Final = (
    r"(?:\b(?:def|class|function\*?|func|fun|fn|struct|enum|union|interface|trait|type|typedef|"
    r"const|constexpr|let|var|val|static|macro|module|namespace|record|protocol|object|sub|proc|"
    r"defp?|defmacro|defmodule|alias|export)|\#[ \t]*define|macro_rules!)[ \t]+"
    r"(?:[\w*&<>\[\]:.]+[ \t]+)?[*&]?"
)


class Name(NamedTuple):
    """A name in a question."""

    parts: tuple[str, ...]
    """Outermost first; the last part is what is defined."""
    alone: bool
    """Whether the question is nothing but this name."""
    sure: bool
    """Whether it cannot be an English word."""

    @property
    def last(self) -> str:
        return self.parts[-1]

    @property
    def terms(self) -> list[str]:
        """The index terms for this name: the whole name, or its parts if the name is too long."""
        terms = terms_of(self.last)
        return terms if len(self.last) > LONGEST_TERM else terms[:1]


def find_names(plan: Plan) -> tuple[Name, ...]:
    """Return the names that a question asks for; none if there are too many."""
    written = list(_NAME.finditer(plan.text))
    words = [m for m in written if not _ASKS_FOR_NAME.issuperset(terms_of(m[0]))]
    words = words if len(written) > 1 else written
    alone = len(words) == 1
    names = dict.fromkeys(name for match in words for name in _read_name(match, alone=alone))
    return tuple(names) if len(names) <= _MOST_NAMES else ()


def find_verbatim(question: str) -> str:
    """Return the first flag or quoted message in a question, or an empty text.

    A quoted word is a name, and quotes around a whole question mean nothing.
    """
    for match in _VERBATIM.finditer(question):
        text = match["flag"] or match["text"] or match["message"]
        if (match["flag"] or " " in text) and match.span() != (0, len(question)):
            return text
    return ""


def find_members(plan: Plan) -> tuple[Name, ...]:
    """Return the members of types that a question may ask for, such as ``Session get``.

    Many of them are just two words: only those that are defined with exactly these names count.
    """
    matches = (
        match
        for pattern in (_MEMBER_AFTER, _MEMBER_BEFORE)
        for match in pattern.finditer(plan.text)
        if _ASKS_FOR_NAME.isdisjoint(terms_of(f"{match['owner']} {match['member']}"))
    )
    members = dict.fromkeys(
        Name((*match["owner"].split("."), match["member"]), alone=False, sure=True)
        for match in matches
    )
    return tuple(members) if len(members) <= _MOST_NAMES else ()


def _read_name(match: re.Match[str], *, alone: bool) -> Iterable[Name]:
    written = match["name"].lstrip("@")
    if _ABBREVIATION.search(written):
        return
    parts = tuple(part for part in BETWEEN_NAMES.split(written) if part)
    marked = match["quoted"] is not None or match["called"] is not None
    sure = marked or _COMPOUND.search(written) is not None
    if parts and len(parts[-1]) > 1 and (alone or sure):
        yield Name(parts, alone, sure)


def compile_definition_pattern(name: str, *, with_body: bool) -> re.Pattern[str]:
    """Return a pattern for lines that seem to define a name.

    With ``with_body`` only a function with a body matches. Otherwise also the name after a keyword
    such as ``class``, and a line that begins with the name and assigns or lists it.
    """
    named = rf"{re.escape(name)}(?![\w$])"
    body = rf"^[A-Za-z_][^\n;={{}}()]*\b{named}[ \t]*\([^;{{}}]{{0,400}}\)\s*\{{"
    if with_body:
        return re.compile(body, re.MULTILINE)
    return re.compile(
        rf"{body}|^[^\n]*?{_DEFINES}{named}|^[ \t]*{named}"
        r"(?:[ \t]*(?:[,:]?=(?!=)|:(?!:)|,?[ \t]*(?://[^\n]*)?$|\([^()\n]*\)[ \t]*\{)"
        r"|[ \t]+[\w.*\[\]]+[ \t]*=(?!=))",
        re.MULTILINE,
    )
