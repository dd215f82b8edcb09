"""Parse a question: quoted phrases, exclusions, its kind, and the title and paths of a long one.

- ``"two words"``: these words, next to each other. The quotes in ``print("x")`` are plain text.
- ``-"two words"`` or ``NOT word``: exclude these. ``NOT`` among other capitals is SQL.
- ``-word`` at the end of a few words: exclude it, unless some text in the corpus writes ``-word``,
  as an option of a command. Elsewhere a dash is plain text.

A sentence has no syntax: there quotes mark a name or a message, which lifts passages that contain
it, and capital NOT is a word. Long questions and error messages were probably pasted, and have none
either.

In a pasted issue or log the few words that matter are lost among many, so its title is asked beside
the whole: on issues of public repositories, the file to change was among the first ten for 81 %
instead of 75 %. Asking for its names and error lines as well was no better.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

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

LONG: Final = 300
"""Characters from which a question of several lines is long."""
_LONG_LINE: Final = 1000
"""The same for a question of one line."""
_LONGEST_TITLE: Final = 200
_LONGEST_PATH: Final = 300
_MARKUP: Final = re.compile(r"^[#>*\s-]+|[*_`\s]+$")
_SENTENCE_END: Final = re.compile(r"(?<=[.!?。！？])\s")
_LIKE_A_PATH: Final = re.compile(r"[\w.@~+/\\-]+")
_INNERMOST_FIRST: Final = re.compile(r"^\s*at .*:\d+", re.MULTILINE)
"""A frame of a stack trace of Java, JavaScript or .NET; those of Python end with the innermost."""
_TRACEBACK: Final = re.compile(r"^(?:Traceback\b|Stack trace\b|.*most recent call)", re.IGNORECASE)


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

    plain = Question(text, (), (), (), classify_question(text))
    outside = _QUOTED.sub(" ", text)
    words = outside.lower().split()
    # A sentence, as opposed to a list of words.
    is_sentence = (
        outside.rstrip().endswith(("?", "？", "."))
        or not _ASKING.isdisjoint(words)
        or sum(word in _SENTENCE_WORDS for word in words) >= _SENTENCE_LEAST
    )
    if len(words) > _FEW or is_sentence or _ERROR.search(outside):
        return plain
    bare = _QUOTED.sub(take_phrase, text)
    bare = _NOT.sub(take_exclusion, bare)
    if len(bare.split()) <= _FEW:
        bare = _DASHED.sub(take_dashed, bare)
    bare = " ".join(bare.split())
    # If everything is excluded, it was not meant as syntax.
    if not (phrases or without or dashed) or not terms_of(bare):
        return plain
    kind: QuestionKind = "phrase" if bare in phrases else classify_question(bare)
    return Question(bare, tuple(phrases), tuple(without), tuple(dashed), kind)


def classify_question(text: str) -> QuestionKind:
    words = text.split()
    if len(words) == 1:
        path = extract_path(text)
        if path and "://" not in path and ("/" in path or parser_for(path) is not None):
            return "path"
        if names_in(text) and not text.strip().replace("-", "").islower():
            return "identifier"
    elif _ERROR.search(text):
        return "error"
    asks = text.rstrip().endswith(("?", "？")) or any(w.lower() in _ASKING for w in words)
    return "phrase" if len(words) <= _SHORT and not asks and text.isascii() else "question"


def find_title(text: str) -> str:
    """Return the title of a long question, or the error that a log ends with; else nothing."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(text) < (LONG if len(lines) > 1 else _LONG_LINE):
        return ""
    title = lines[0]
    if _TRACEBACK.match(title):
        title = next((line for line in reversed(lines[1:]) if _ERROR.search(line)), title)
    return _SENTENCE_END.split(_MARKUP.sub("", title))[0][:_LONGEST_TITLE].strip()


def list_paths(text: str) -> list[str]:
    """Return the paths of files in a text, in its order and with repeats."""
    names = (match[0].strip(".") for match in _LIKE_A_PATH.finditer(text) if "." in match[0])
    paths = (name.replace("\\", "/").lstrip("./") for name in names if len(name) < _LONGEST_PATH)
    return [path for path in paths if parser_for(path) is not None]


def find_origin(text: str, paths: Sequence[str]) -> str:
    """Return the path of the innermost frame of a stack trace."""
    if not paths:
        return ""
    return paths[0] if _INNERMOST_FIRST.search(text) else paths[-1]
