"""Make questions from the corpus itself, so that their answers are known.

A question is the headings above a section, the first or a later sentence of a page, or the first
sentence of a docstring, without the words that would give the page away. The same corpus and seed
give the same questions. They use the words of their answers, which real questions seldom do, so
their scores only compare two configurations, and favour keyword search.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from lookfar.errors import InvalidArgument, LookfarError
from lookfar.evaluate.judged import Judged, Relevant
from lookfar.retrieve.locate.address import format_address
from lookfar.store.keywords.analyser import has_cjk, terms_of
from lookfar.text.parse.languages import detect_language

if TYPE_CHECKING:
    from lookfar.library import Library
    from lookfar.model import Page, PageInfo

COUNT = 200
KINDS = ("heading", "opening", "sentence", "docstring")
_PAGES_COUNTED = 1000
"""Pages whose words are counted to find common ones; more would take too long."""
_MAX_CHARACTERS = 300
_MIN_WORDS = 4
_MIN_LETTERS = 4
"""Shorter words say little about a topic."""

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])")
_MARKED = re.compile(r"(?: {4}|\t)|\s*(?:#|\||>|[-*+] |\d+[.)] |<|\.\. |:::|\{[{%]|={3}|-{3}|\[)")
_FENCE = re.compile(r"\s*(?:```|~~~)")
_LINK = re.compile(r"!?\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])|\[\[(?:[^\]|]*\|)?([^\]]*)\]\]")
_MARKUP = re.compile(r"[*_`]+(?=\w)|(?<=\w)[*_`]+|`|\{\{.*?\}\}|<[^>]*>")
_UNUSABLE = re.compile(r"[>→#{<]|^\s*$")
"""An address cannot contain it, or it is template markup."""


class _Item(NamedTuple):
    """A document to make questions from."""

    collection: str
    info: PageInfo
    name: str
    """Its URI, or its address where there are several collections."""


def known_items(
    library: Library,
    *,
    count: int = COUNT,
    seed: int = 0,
) -> list[Judged]:
    """Make up to ``count`` questions, spread evenly over the kinds as far as possible."""
    if count < 1:
        raise InvalidArgument(f"Cannot make {count} questions.", hint="Ask for at least 1.")
    several = len(library.collections) > 1
    items = [
        _Item(name, info, format_address(name, info.uri) if several else info.uri)
        for name in library.collections
        for info in library.pages(collection=name)[0]
    ]
    documents = [item for item in items if not _is_code(item)]
    code = [item for item in items if _is_code(item)]
    pages = _PageReader(library)
    counts = _count_words(documents, pages, seed)
    makers: dict[str, Iterator[Judged]] = {
        "heading": _make_from_headings(documents, seed),
        "opening": _make_from_sentences("opening", documents, pages, counts, seed),
        "sentence": _make_from_sentences("sentence", documents, pages, counts, seed),
        "docstring": _make_from_docstrings(library, code, seed),
    }
    questions: dict[str, list[Judged]] = {kind: [] for kind in KINDS}
    queries: set[str] = set()
    while makers and len(queries) < count:
        for kind in [kind for kind in KINDS if kind in makers]:
            question = next((made for made in makers[kind] if made.query not in queries), None)
            if question is None:
                del makers[kind]
            elif len(queries) < count:
                queries.add(question.query)
                questions[kind].append(question)
    if not queries:
        raise InvalidArgument(
            "No question can be made from this folder: it has no headings and no sentences.",
            hint="Write a file of judged questions and name it.",
        )
    return [question for kind in KINDS for question in questions[kind]]


def _is_code(item: _Item) -> bool:
    return detect_language(item.info.uri) is not None


def _shuffle(items: Sequence[_Item], seed: int, kind: str) -> list[_Item]:
    """Order items by a hash of seed and name, so that a new document does not move others."""

    def key(item: _Item) -> bytes:
        return blake2b(f"{seed}\0{kind}\0{item.name}".encode(), digest_size=16).digest()

    return sorted(items, key=key)


def _hash(seed: int, *parts: str) -> int:
    digest = blake2b("\0".join((str(seed), *parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big")


class _Counts(NamedTuple):
    """Number of pages that contain each term and each sentence."""

    terms: Counter[str]
    sentences: Counter[str]


class _PageReader:
    """Reads pages as they are indexed, each once."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._generations = {
            name: library.status(collection=name, check=False).generation
            for name in library.collections
        }
        self._prose: dict[str, list[str]] = {}

    def prose(self, item: _Item) -> list[str]:
        """Return the sentences of a page, in order, without headings, code, tables and lists."""
        if item.name not in self._prose:
            page = self._library.page(
                item.info.uri,
                collection=item.collection,
                as_of=self._generations[item.collection],
            )
            self._prose[item.name] = _extract_prose(page)
        return self._prose[item.name]


def _extract_prose(page: Page) -> list[str]:
    body = page.text[page.chunks[0].start :] if page.chunks else ""
    sentences: list[str] = []
    fenced = False
    for paragraph in re.split(r"\n\s*\n", body):
        fences = sum(1 for line in paragraph.split("\n") if _FENCE.match(line))
        in_fence, fenced = fenced, fenced ^ bool(fences % 2)
        lines = paragraph.strip("\n").split("\n")
        # A heading may directly precede its text.
        while lines and lines[0].lstrip().startswith("#"):
            del lines[0]
        if in_fence or fences or not lines or _MARKED.match(lines[0]):
            continue
        if len(lines) > 1 and re.fullmatch(r"\s*[=\-~^]{3,}\s*", lines[1]):
            lines = lines[2:]  # An underlined heading.
        text = _LINK.sub(lambda match: match[1] or match[2] or "", " ".join(lines))
        text = " ".join(_MARKUP.sub("", text).split())
        sentences += [part.strip() for part in _SENTENCE_END.split(text) if part.strip()]
    return sentences


def _count_words(items: Sequence[_Item], pages: _PageReader, seed: int) -> _Counts:
    counts = _Counts(Counter(), Counter())
    for item in islice(_shuffle(items, seed, "count"), _PAGES_COUNTED):
        sentences = pages.prose(item)
        counts.terms.update(set(terms_of(" ".join(sentences))))
        counts.sentences.update(set(sentences))
    return counts


def _make_from_headings(items: Sequence[_Item], seed: int) -> Iterator[Judged]:
    occurrences = Counter(_fold(path) for item in items for path in item.info.headings)
    for item in _shuffle(items, seed, "heading"):
        paths = [
            path
            for path in item.info.headings
            if path != (item.info.heading,)  # This would ask for the page, not for a section.
            and occurrences[_fold(path)] == 1
            and not any(_UNUSABLE.search(title) for title in path)
            and len(_topic_terms(" ".join(path))) >= 2
        ]
        if paths and "#" not in item.info.uri:
            path = paths[_hash(seed, "heading", item.name) % len(paths)]
            query = " ".join(" ".join(path).split())
            yield _question("heading", query, f"{item.name}#{' > '.join(path)}")


def _make_from_sentences(
    kind: str, items: Sequence[_Item], pages: _PageReader, counts: _Counts, seed: int
) -> Iterator[Judged]:
    for item in _shuffle(items, seed, kind):
        sentences = pages.prose(item)
        sentences = sentences[:1] if kind == "opening" else sentences[1:]
        names = {
            *terms_of(item.info.uri),
            *(term for path in item.info.headings for title in path for term in terms_of(title)),
        }
        first = _hash(seed, kind, item.name) % (len(sentences) or 1)
        for sentence in sentences[first:] + sentences[:first]:
            query = _remove_giveaways(sentence, names, counts.terms)
            # A sentence of several pages does not identify one.
            if query and counts.sentences[sentence] <= 1:
                yield _question(kind, query, item.name)
                break


def _make_from_docstrings(library: Library, items: Sequence[_Item], seed: int) -> Iterator[Judged]:
    for item in _shuffle(items, seed, "docstring"):
        try:
            outline = library.outline(item.info.uri, collection=item.collection)
        except LookfarError:
            continue  # It was removed or changed since it was indexed.
        sections = {section.ordinal: section for section in outline.sections}
        occurrences = Counter(_fold(section.path) for section in outline.sections)
        documented = [
            (sections[symbol.section].path, symbol.docstring)
            for symbol in outline.symbols
            if symbol.docstring and occurrences[_fold(sections[symbol.section].path)] == 1
        ]
        first = _hash(seed, "docstring", item.name) % (len(documented) or 1)
        for path, docstring in documented[first:] + documented[:first]:
            sentence = _SENTENCE_END.split(" ".join(docstring.split()))[0]
            names = set(terms_of(" ".join((item.info.uri, *path))))
            query = _remove_giveaways(sentence, names, None)
            if query and not any(_UNUSABLE.search(name) for name in path):
                yield _question("docstring", query, f"{item.name}#{' > '.join(path)}")
                break


def _remove_giveaways(sentence: str, names: set[str], page_counts: Counter[str] | None) -> str:
    """Remove the words that give the page away; return "" if too little is left."""
    sentence = sentence[:_MAX_CHARACTERS]
    if has_cjk(sentence):  # Its words are not separated by spaces.
        return sentence if len(sentence) >= 2 * _MIN_WORDS else ""
    words = [word for word in sentence.split() if not names.intersection(terms_of(word))]
    if page_counts is not None:
        shared = [word for word in words if _on_several_pages(word, page_counts)]
        # In a small corpus hardly any word occurs twice; then unique words are kept.
        words = shared if len(_topic_terms(" ".join(shared))) >= _MIN_WORDS else words
    query = " ".join(words).strip(" .,;:!?-–—()\"'")
    return query if len(_topic_terms(query)) >= _MIN_WORDS else ""


def _on_several_pages(word: str, page_counts: Counter[str]) -> bool:
    return all(page_counts[term] != 1 for term in terms_of(word))


def _topic_terms(text: str) -> list[str]:
    return [term for term in terms_of(text) if len(term) >= _MIN_LETTERS or has_cjk(term)]


def _fold(path: Sequence[str]) -> tuple[str, ...]:
    return tuple(" ".join(title.casefold().split()) for title in path)


def _question(kind: str, query: str, target: str) -> Judged:
    return Judged(f"{kind}: {target}", query, (Relevant(target),), kind)
