"""Parse the syntax of a question: quoted phrases, exclusions, and the kind of question.

- ``"two words"``: these words, next to each other. The quotes in ``print("x")`` are plain text.
- ``-"two words"`` or ``NOT word``: exclude these. ``NOT`` among other capitals is SQL.
- ``-word`` at the end of a few words: exclude it, unless some text in the corpus writes ``-word``,
  as an option of a command. Elsewhere a dash is plain text.

A sentence has no syntax: there quotes mark a name or a message, which lifts passages that contain
it, and capital NOT is a word. Long questions and error messages were probably pasted, and have none
either.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from lookfar.retrieve.locate.file_names import extract_path
from lookfar.retrieve.ranking import QuestionKind
from lookfar.store.keywords.analyser import names_in, terms_of
from lookfar.text.parse.formats import parser_for

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
_SENTENCE_WORDS = frozenset(
    "a an the of to in on for from with by at as it its this that these those and or but if i we"
    " you my our your they their there be been".split()
)
_SENTENCE_LEAST = 2
"""A sentence has at least so many of these words; a list of words seldom has one."""
_FEW = 8
"""Words outside of quotes; a question with more was pasted and has no syntax."""
_SHORT = 3
"""Words; a question with at most so many, none of them a question word, is a phrase."""


class Question(NamedTuple):
    text: str
    """The words to search for, without the syntax."""
    phrases: tuple[str, ...]
    without: tuple[str, ...]
    dashed: tuple[str, ...]
    """Words after a dash: excluded, unless the corpus shows that they are options."""
    kind: QuestionKind


def parse_question(text: str) -> Question:
    """Parse the syntax of a question, or treat all of it as text if no words would be left."""
    phrases: list[str] = []
    without: list[str] = []
    dashed: list[str] = []

    def take_phrase(match: re.Match[str]) -> str:
        inside = (match["plain"] or match["curly"]).strip()
        if not terms_of(inside):
            return match[0]
        (without if match["no"] else phrases).append(inside)
        return " " if match["no"] else inside

    def take_exclusion(match: re.Match[str]) -> str:
        shouting = _CAPITALS.search(match.string[: match.start()])
        if shouting or (match["word"].isupper() and len(match["word"]) > 1):
            return match[0]
        without.append(match["word"])
        return " "

    def take_dashed(match: re.Match[str]) -> str:
        dashed.append(match["word"])
        return " "

    outside = _QUOTED.sub(" ", text)
    if len(outside.split()) > _FEW or _is_sentence(outside) or _ERROR.search(outside):
        return Question(text, (), (), (), classify_question(text))
    bare = _QUOTED.sub(take_phrase, text)
    bare = _NOT.sub(take_exclusion, bare)
    if len(bare.split()) <= _FEW:
        bare = _DASHED.sub(take_dashed, bare)
    if not (phrases or without or dashed):
        return Question(text, (), (), (), classify_question(text))
    bare = " ".join(bare.split())
    if not terms_of(bare):  # Everything is excluded, so it was not meant as syntax.
        return Question(text, (), (), (), classify_question(text))
    kind: QuestionKind = "phrase" if bare in phrases else classify_question(bare)
    return Question(bare, tuple(phrases), tuple(without), tuple(dashed), kind)


def is_error(text: str) -> bool:
    """Return whether a text looks like an error message."""
    return _ERROR.search(text) is not None


def _is_sentence(text: str) -> bool:
    """Return whether a text reads like a sentence, as opposed to a list of words."""
    words = text.lower().split()
    if text.rstrip().endswith(("?", "？", ".")) or not _ASKING.isdisjoint(words):
        return True
    return sum(word in _SENTENCE_WORDS for word in words) >= _SENTENCE_LEAST


def classify_question(text: str) -> QuestionKind:
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
    """Return whether a text looks like a path: it has a slash or a known file extension."""
    path = extract_path(text)
    return bool(path) and "://" not in path and ("/" in path or parser_for(path) is not None)


def _is_name(text: str) -> bool:
    return bool(names_in(text)) and not text.strip().replace("-", "").islower()
