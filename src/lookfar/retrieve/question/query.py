"""How a question is written: its kind, its quoted phrases, and what it does not want.

Takes: the text of a question. Gives: the same question without its syntax, the phrases that
must occur, the words that must not, and the kind of question it is. Refuses: to see syntax
in what people paste. The whole of it:

- ``"two words"``: these words, beside each other. The opening quote stands after a space or
  at the beginning, so that the quotes of ``print("x")`` are text.
- ``-"two words"`` or ``NOT word``: not with these. ``NOT`` among other capitals is SQL.
- ``-word`` at the end of a few words: perhaps the same. An option of a command looks so too;
  which it is, the corpus says: where a text writes ``-word``, it is an option. Anywhere else,
  and before fewer than three letters or before anything but letters, a dash is a dash.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from lookfar.retrieve.question.file_names import extract_path
from lookfar.store.keywords.analyser import names_in, terms_of
from lookfar.text.parse.formats import parser_for

if TYPE_CHECKING:
    from lookfar.retrieve.ranking import QuestionKind

_QUOTED = re.compile(
    r"""(?:^|(?<=\s))(?P<no>-|NOT\s+)?(?:"(?P<plain>[^"]+)"|“(?P<curly>[^“”]+)”)(?=$|[\s,.;:?!)])"""
)
_NOT = re.compile(r"(?<=\s)NOT\s+(?P<word>[^\W\d_]+(?:[-_'][^\W\d_]+)*)(?=$|\s)")
_DASHED = re.compile(r"(?<=\s)-(?P<word>[^\W\d_]{3,})(?=(?:\s+-[^\W\d_]{3,})*\s*$)")
_CAPITALS = re.compile(r"\b[A-Z]{2,}\s*$")

_ERROR = re.compile(
    r"\b(?:[A-Z]\w*)?(?:Error|Exception|Warning|Fault)\b|\bTraceback\b"
    r"|(?i:\bpanic:|\bsegfault\b|\b(?:error|fatal|warning|failed|errno|err)\b\s*[:\[(]"
    r"|\b(?:error|exit|status) code \d+|\b(?:command|module|file) not found\b"
    r"|\bno such file\b|\bpermission denied\b"
    r"|^(?:could not|cannot|can't|unable to|failed to) \w+[^?]*: )"
)
_ASKING = frozenset(
    "how what why when where which who whose can could does do did is are should would will"
    " was were has have may must".split()
)
_FEW = 8
"""Words outside of quotes beside which there may be syntax: who writes more has pasted a text."""
_SHORT = 3
"""Words: so few, none of which asks, are a term that is looked up."""


class Question(NamedTuple):
    """A question, and what its writing says beside its words."""

    text: str
    """Without the syntax: the words to search for."""
    phrases: tuple[str, ...]
    without: tuple[str, ...]
    dashed: tuple[str, ...]
    """Words after a dash: not wanted, unless they are options that some text writes so."""
    kind: QuestionKind


def parse_question(text: str) -> Question:
    """Read the syntax of a question; where nothing else is left, it has none."""
    phrases: list[str] = []
    without: list[str] = []
    dashed: list[str] = []

    def quoted(found: re.Match[str]) -> str:
        inside = (found["plain"] or found["curly"]).strip()
        if not terms_of(inside):
            return found[0]
        (without if found["no"] else phrases).append(inside)
        return " " if found["no"] else inside

    def refused(found: re.Match[str]) -> str:
        shouting = _CAPITALS.search(found.string[: found.start()])
        if shouting or (found["word"].isupper() and len(found["word"]) > 1):
            return found[0]
        without.append(found["word"])
        return " "

    def optional(found: re.Match[str]) -> str:
        dashed.append(found["word"])
        return " "

    outside = _QUOTED.sub(" ", text)
    if len(outside.split()) > _FEW or _ERROR.search(outside):
        return Question(text, (), (), (), classify_question(text))
    bare = _QUOTED.sub(quoted, text)
    bare = _NOT.sub(refused, bare)
    if len(bare.split()) <= _FEW:
        bare = _DASHED.sub(optional, bare)
    if not (phrases or without or dashed):
        return Question(text, (), (), (), classify_question(text))
    bare = " ".join(bare.split())
    if not terms_of(bare):  # Nothing is wanted: then it is no syntax.
        return Question(text, (), (), (), classify_question(text))
    kind: QuestionKind = "phrase" if bare in phrases else classify_question(bare)
    return Question(bare, tuple(phrases), tuple(without), tuple(dashed), kind)


def classify_question(text: str) -> QuestionKind:
    """What sort of thing a question is; in doubt, a question."""
    words = text.split()
    if len(words) == 1:
        if _is_path(text):
            return "path"
        if _is_name(text):
            return "identifier"
    elif _ERROR.search(text):
        return "error"
    asks = text.rstrip().endswith(("?", "？")) or any(w.lower() in _ASKING for w in words)
    return "phrase" if len(words) <= _SHORT and not asks and text.isascii() else "question"


def _is_path(text: str) -> bool:
    """Whether it is written as the name of a file is: with a slash, or a format's ending."""
    path = extract_path(text)
    return bool(path) and "://" not in path and ("/" in path or parser_for(path) is not None)


def _is_name(text: str) -> bool:
    """Whether it is one identifier: that has a spelling, and no meaning to be near to."""
    return bool(names_in(text)) and not text.strip().replace("-", "").islower()
