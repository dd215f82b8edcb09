"""Find the sentences of a passage, or lines of code, that answer a question best.

A sentence is scored by the share of the question's words in it and its neighbours, and the best few
by meaning as well if the model is fast. On 246 questions with known answers the first sentence is
right in 73%; without neighbours and meaning in 68%.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from lookfar.common.lines import TABLE_RULE
from lookfar.common.recent import RecentValues
from lookfar.ports import Embedder
from lookfar.retrieve.question.names import compile_definition_pattern, find_names
from lookfar.retrieve.ranking import Ranking
from lookfar.store.keywords.analyser import analyse

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SENTENCES = 3
"""Sentences returned per passage."""
_NEIGHBOUR = 0.2
"""Weight of the words in a neighbouring sentence. A header row is a neighbour of all its rows, and
has the same weight itself: it names what a row says."""
_MEANING = 0.4
"""Weight of the cosine, relative to the share of the question's words."""
_COMPARED = 6
"""Sentences with the best word scores that are compared by meaning."""
_HEADING = 0.5
"""Factor for a heading: it is shown above the passage anyway."""
_MOST_SENTENCES = 200
"""Limit of sentences per passage."""
_DECIDING = 8
"""Lines returned per definition."""
_DECISIVE = 1.5
"""Factor for a line that decides something."""
_COMMENT = 0.3
"""Factor for a comment or a further line of documentation."""
_COMMENTED: Final = re.compile(r"\s*(?:#(?!\s*(?:if|define|include))|//|/\*|\*\s|--\s)")
_DOCUMENTATION: Final = re.compile(r"(\"{3}|'{3}).*?\1", re.DOTALL)
_AGAIN = 0.3
"""Factor for a word that a chosen line has."""
_DECIDES: Final = re.compile(
    r"\b(?:if|elif|else|unless|when|case|switch|match|while|for|raise|throw|return|assert|panic"
    r"|except|catch)\b|(?<![=!<>])=(?!=)|\w\("
)
"""A line that decides something: a condition, an error, a result, an assignment or a call."""
_MOST_BYTES: Final = 16 << 20
_BYTES_PER_CHARACTER: Final = 3
_BYTES_PER_SENTENCE: Final = 250
"""What an excerpt takes in the cache."""

# A line break inside a paragraph is white space. It ends a sentence after a blank line, and before
# a list item, a heading, a table row, a quotation or a fence. A heading is one line.
_BLOCK_END = re.compile(
    r"\n(?=[ \t]*(?:\n|[-*+][ \t]|\d{1,9}[.)][ \t]|#{1,6}[ \t]|\||>|```|~~~))|(?<=\n)\n"
    r"|^[ \t]*#{1,6}[ \t][^\n]*\n",
    re.M,
)
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]*_`]{0,3}[ \t\n]+(?=\S)|(?<=[。！？])")
_MAIL_HEAD = re.compile(r"\s*(?:(?:From|To|Cc|Date): [^\n]*\s*){2,}")
"""Says who wrote, and not what."""
_FENCE = re.compile(r"[ \t]*(?:```|~~~)")
# Three letters or digits: less is not worth showing.
_LETTERS = re.compile(r"(?:[^\W_][\W_]*){3}")


class Sentence(NamedTuple):
    """The offsets of a sentence in its passage."""

    start: int
    end: int
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class FocusQuery:
    """The parts of a question that sentences are scored by."""

    weights: Mapping[str, float]
    """Weight of each word; they add up to 1."""
    vector: NDArray[np.float32] | None = None
    embedder: Embedder | None = None
    names: tuple[str, ...] = ()
    """The name, if the question asks for nothing else: the line that defines it answers best."""

    @classmethod
    def from_ranking(cls, ranking: Ranking) -> FocusQuery:
        plan = ranking.plan
        rarity = {term: ranking.rarity.get(term, 0.0) for term in plan.terms}
        total = sum(rarity.values())
        weights = {term: weight / total for term, weight in rarity.items()} if total else {}
        names = tuple(name.last for name in find_names(plan) if name.alone)
        if plan.embedder is None or not plan.embedder.quick or plan.vector is None:
            return cls(weights, names=names)
        return cls(weights, plan.vector, plan.embedder, names)


class Excerpt(NamedTuple):
    """A text in which sentences, or lines of code, are looked for."""

    text: str
    code: bool
    definition: bool = False
    """Whether it is a whole definition, of which the lines that decide are looked for."""


class _Scored(NamedTuple):
    """The sentences of an excerpt, with their scores by words."""

    excerpt: Excerpt
    sentences: Sequence[Sentence]
    scores: Sequence[float]
    order: list[int]
    """Positions of the sentences, best first; with a model, only those that it compares."""


def find_best_sentences(text: str, asked: FocusQuery, *, code: bool) -> list[Sentence]:
    """Return the sentences of ``text`` that answer best, best first."""
    return find_in_each([Excerpt(text, code)], asked)[0]


def find_in_each(excerpts: Sequence[Excerpt], asked: FocusQuery) -> list[list[Sentence]]:
    """Return for each excerpt the sentences that answer best, best first.

    All are embedded together, because calling a model takes longer than a few sentences do.
    """
    weights = [(f" {term} ", weight) for term, weight in asked.weights.items()]
    scored = [
        _score_by_words(excerpt, asked, weights) for excerpt in excerpts if not excerpt.definition
    ]
    if asked.embedder is not None:
        for code in (False, True):
            _sort_by_meaning([one for one in scored if one.excerpt.code is code], asked, code)
    others = iter(scored)
    return [
        _find_deciding(excerpt.text, weights) if excerpt.definition
        else _choose_sentences(next(others), asked)
        for excerpt in excerpts
    ]  # fmt: skip


def _choose_sentences(scored: _Scored, asked: FocusQuery) -> list[Sentence]:
    """Return the best sentences, after the lines that define what the question names."""
    (text, code, _), sentences, _, order = scored
    defining = _find_defining(text, sentences, asked.names) if code else []
    best = [sentences[at] for at in order[: SENTENCES + len(defining)]]
    return list(dict.fromkeys((*defining, *best)))[:SENTENCES]


def _find_deciding(text: str, weights: Sequence[tuple[str, float]]) -> list[Sentence]:
    """Return the lines of a definition that carry the question's words, best first.

    Lines that decide something count more, and words that a better line has count less.
    """
    carried = []
    documentation = find_documentation(text)
    for line in split_lines(text):
        terms = f" {analyse(text[line.start : line.end])} "
        own = [(term, weight) for term, weight in weights if term in terms]
        if own:
            factor = _DECISIVE if _DECIDES.search(text, line.start, line.end) else 1.0
            commented = _COMMENTED.match(text, line.start, line.end)
            if commented or any(low < line.start < high for low, high in documentation):
                factor = _COMMENT
            carried.append((line, own, factor))
    chosen: list[Sentence] = []
    known: set[str] = set()
    while carried and len(chosen) < _DECIDING:
        worth = [
            factor * sum(weight * (_AGAIN if term in known else 1.0) for term, weight in own)
            for _, own, factor in carried
        ]
        line, own, _ = carried.pop(worth.index(max(worth)))
        chosen.append(line)
        known.update(term for term, _ in own)
    return chosen


def find_documentation(text: str) -> list[tuple[int, int]]:
    """Return where texts in triple quotes begin and end."""
    return [match.span() for match in _DOCUMENTATION.finditer(text)]


class _Split(NamedTuple):
    """The sentences of an excerpt, and the terms of each, every one between spaces."""

    sentences: Sequence[Sentence]
    terms: Sequence[str]
    above: Sequence[int]
    """For each the sentence before it, or for a row of a table its header row; -1 at the end."""


_recent: Final[RecentValues[Excerpt, _Split]] = RecentValues(_MOST_BYTES)
"""By the whole text, so that none is ever stale: pages of one topic are cited again and again."""


def forget_sentences() -> None:
    """Release what was split lately."""
    _recent.clear()


def _split(excerpt: Excerpt) -> _Split:
    """Split an excerpt into sentences, or code into lines, and analyse their words."""
    known = _recent.get(excerpt)
    if known is not None:
        return known
    text, code, _ = excerpt
    sentences = (split_lines(text) if code else split_sentences(text))[:_MOST_SENTENCES]
    terms = [f" {analyse(text[start:end])} " for start, end, _ in sentences]
    split = _Split(sentences, terms, _list_above(text, sentences))
    _recent.add(
        excerpt, split, _BYTES_PER_CHARACTER * len(text) + _BYTES_PER_SENTENCE * len(sentences)
    )
    return split


def _list_above(text: str, sentences: Sequence[Sentence]) -> list[int]:
    """Return for each sentence the one before it, or for a row of a table its header row."""
    above: list[int] = []
    header = -1
    for at, sentence in enumerate(sentences):
        is_row = text.startswith("|", sentence.start)
        above.append(header if is_row and header >= 0 else at - 1)
        if not is_row or sentence.weight < 1:
            header = at if is_row else -1
    return [*above, -1]


def _score_by_words(
    excerpt: Excerpt, asked: FocusQuery, weights: Sequence[tuple[str, float]]
) -> _Scored:
    """Score each sentence by the share of the question's words in it and its neighbours.

    ``weights`` has the words of the question between spaces.
    """
    sentences, terms, above = _split(excerpt)
    # In the order of the question, since the order of a sum changes its last digits.
    own = [sum([weight for term, weight in weights if term in here]) for here in terms]
    own.append(0.0)  # What is above the first.
    below = [own[at + 1] if above[at + 1] == at else 0.0 for at in range(len(sentences))]
    scores = [
        (own[at] + _NEIGHBOUR * (own[above[at]] + below[at])) * sentence.weight
        for at, sentence in enumerate(sentences)
    ]
    order = sorted(range(len(sentences)), key=scores.__getitem__, reverse=True)
    # If no word matches, meaning alone decides.
    if order and asked.embedder is not None and scores[order[0]]:
        del order[_COMPARED:]
    return _Scored(excerpt, sentences, scores, order)


def _sort_by_meaning(scored: Sequence[_Scored], asked: FocusQuery, code: bool) -> None:
    """Sort the sentences of these excerpts by their words and by their meaning."""
    vector, embedder = asked.vector, asked.embedder
    texts = [
        one.excerpt.text[one.sentences[at].start : one.sentences[at].end]
        for one in scored
        for at in one.order
    ]
    if not texts or vector is None or embedder is None:
        return
    rows = embedder.embed_code(texts) if code else embedder.embed(texts)
    if vector.ndim == 2:  # Two models, whose vectors share no dimension.
        vector = vector.sum(axis=0)
    cosines = iter((rows @ vector).tolist())
    for _, _, scores, order in scored:
        nearness = dict(zip(order, cosines, strict=False))
        order.sort(key=lambda at: (-scores[at] - _MEANING * nearness[at], at))


def _find_defining(
    text: str, sentences: Sequence[Sentence], names: Sequence[str]
) -> list[Sentence]:
    """Return the lines that define one of the names."""
    starts = [
        match.end() - 1
        for name in names
        for match in [compile_definition_pattern(name, with_body=False).search(text)]
        if match is not None
    ]
    return [
        sentence
        for start in starts
        for sentence in sentences
        if sentence.start <= text.rfind("\n", 0, start) + 1 <= sentence.end
    ]


def split_lines(text: str) -> list[Sentence]:
    """Return every line with enough letters."""
    lines: list[Sentence] = []
    start = 0
    for line in text.split("\n"):
        if _says_something(line):
            lines.append(Sentence(start, start + len(line)))
        start += len(line) + 1
    return lines


def split_sentences(text: str) -> list[Sentence]:
    """Return the sentences of prose; list items, table rows and lines of code count as such."""
    sentences: list[Sentence] = []
    fenced = False
    ends = [*(match.end() for match in _BLOCK_END.finditer(text)), len(text)]
    for start, end in zip([0, *ends], ends, strict=False):
        block = text[start:end]
        fence = _FENCE.match(block) is not None
        if fence or fenced:
            sentences += [
                Sentence(start + line.start, start + line.end)
                for line in split_lines(block)
                if not _FENCE.match(block, line.start)
            ]
            fenced = fenced != fence
        else:
            weight = _HEADING if block.lstrip().startswith("#") else 1.0
            if TABLE_RULE.match(text, end) or _MAIL_HEAD.fullmatch(block):
                weight = _NEIGHBOUR
            sentences += _split_block(block, start, weight)
    return sentences


def _split_block(block: str, offset: int, weight: float) -> list[Sentence]:
    """Return the sentences of one paragraph, list item or heading."""
    cuts = [*(match.end() for match in _SENTENCE_END.finditer(block)), len(block)]
    sentences = []
    for start, end in zip([0, *cuts], cuts, strict=False):
        piece = block[start:end]
        if _says_something(piece):
            first = offset + start + len(piece) - len(piece.lstrip())
            last = offset + start + len(piece.rstrip())
            sentences.append(Sentence(first, last, weight))
    return sentences


def _says_something(piece: str) -> bool:
    first = piece[:3]  # Usually a word, which does not need a regex.
    return (len(first) == 3 and first.isalnum()) or _LETTERS.search(piece) is not None
