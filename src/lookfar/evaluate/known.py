"""Questions made from the corpus itself, for which the answer is known because they came from it.

Takes: an indexed library. Gives: judged questions of up to four kinds, the same for the same
corpus and seed:

- ``heading``: the headings above a section, for that section;
- ``opening``: the first sentence of a page, for the page;
- ``sentence``: a sentence from further down, for its page;
- ``docstring``: the first sentence of what documents a definition, for that definition.

From sentences are taken the words that would give the page away at once: those of its title,
headings and path, and those that no other page has. Refuses: a corpus without a sentence.

The questions use the words of their answers, as people seldom do. Their figures tell two
configurations apart on one corpus; they do not say how well people's own questions fare, and
they flatter the search by words.
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
from lookfar.text.parse.languages import language_of

if TYPE_CHECKING:
    from lookfar.index.progress import OnProgress
    from lookfar.library import Library
    from lookfar.model import Page, PageInfo

COUNT = 200
KINDS = ("heading", "opening", "sentence", "docstring")
_PAGES_COUNTED = 1000
"""Pages whose words are counted to tell which are common; more would take long to read."""
_MOST_CHARACTERS = 300
_FEWEST_WORDS = 4
_TELLING = 4
"""Letters from which a word says something about a topic."""

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])")
_NO_PROSE = re.compile(r"(?: {4}|\t)|\s*(?:#|\||>|[-*+] |\d+[.)] |<|\.\. |:::|\{[{%]|={3}|-{3}|\[)")
_FENCE = re.compile(r"\s*(?:```|~~~)")
_LINK = re.compile(r"!?\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])|\[\[(?:[^\]|]*\|)?([^\]]*)\]\]")
_MARKUP = re.compile(r"[*_`]+(?=\w)|(?<=\w)[*_`]+|`|\{\{.*?\}\}|<[^>]*>")
_UNFIT = re.compile(r"[>→#{<]|^\s*$")
"""No address could hold it, or it is markup that something else would replace."""


class _Item(NamedTuple):
    """A document to take questions from."""

    collection: str
    info: PageInfo
    name: str
    """Its URI, or its address where there are several collections."""


def known_items(
    library: Library,
    *,
    count: int = COUNT,
    seed: int = 0,
    on_progress: OnProgress | None = None,
) -> list[Judged]:
    """Up to ``count`` questions, as evenly from all kinds as the corpus allows."""
    if count < 1:
        raise InvalidArgument(f"{count} questions cannot be made.", hint="Ask for at least 1.")
    several = len(library.collections) > 1
    items = [
        _Item(name, info, format_address(name, info.uri) if several else info.uri)
        for name in library.collections
        for info in library.pages(collection=name, on_progress=on_progress)[0]
    ]
    documents = [each for each in items if not _is_code(each)]
    pages = _Reader(library)
    counts = _counted(documents, pages, seed)
    makers: dict[str, Iterator[Judged]] = {
        "heading": _headings(documents, seed),
        "opening": _sentences("opening", documents, pages, counts, seed),
        "sentence": _sentences("sentence", documents, pages, counts, seed),
        "docstring": _docstrings(library, [each for each in items if _is_code(each)], seed),
    }
    made: dict[str, list[Judged]] = {kind: [] for kind in KINDS}
    asked: set[str] = set()
    while makers and sum(map(len, made.values())) < count:
        for kind in [kind for kind in KINDS if kind in makers]:
            each = next((one for one in makers[kind] if one.query not in asked), None)
            if each is None:
                del makers[kind]
            elif sum(map(len, made.values())) < count:
                asked.add(each.query)
                made[kind].append(each)
    if not asked:
        raise InvalidArgument(
            "No question can be made from this folder: it has no headings and no sentences.",
            hint="Write questions yourself, and name their file.",
        )
    return [each for kind in KINDS for each in made[kind]]


def _is_code(item: _Item) -> bool:
    return language_of(item.info.uri) is not None


def _shuffled(items: Sequence[_Item], seed: int, kind: str) -> list[_Item]:
    """In an order that only seed and names decide: a new document moves no other."""

    def key(item: _Item) -> bytes:
        return blake2b(f"{seed}\0{kind}\0{item.name}".encode(), digest_size=16).digest()

    return sorted(items, key=key)


def _number(seed: int, *about: str) -> int:
    digest = blake2b("\0".join((str(seed), *about)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big")


class _Counts(NamedTuple):
    """In how many pages each term and each sentence stands."""

    terms: Counter[str]
    sentences: Counter[str]


class _Reader:
    """Pages as they are indexed, each read once."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._generations = {
            name: library.status(collection=name, check=False).generation
            for name in library.collections
        }
        self._prose: dict[str, list[str]] = {}

    def prose(self, item: _Item) -> list[str]:
        """The sentences of a page, in order, without headings, code, tables and lists."""
        if item.name not in self._prose:
            page = self._library.page(
                item.info.uri,
                collection=item.collection,
                as_of=self._generations[item.collection],
            )
            self._prose[item.name] = _prose(page)
        return self._prose[item.name]


def _prose(page: Page) -> list[str]:
    body = page.text[page.chunks[0].start :] if page.chunks else ""
    sentences: list[str] = []
    fenced = False
    for paragraph in re.split(r"\n\s*\n", body):
        fences = sum(1 for line in paragraph.split("\n") if _FENCE.match(line))
        was, fenced = fenced, fenced ^ bool(fences % 2)
        lines = paragraph.strip("\n").split("\n")
        # A heading may stand right above its text.
        while lines and lines[0].lstrip().startswith("#"):
            del lines[0]
        if was or fences or not lines or _NO_PROSE.match(lines[0]):
            continue
        if len(lines) > 1 and re.fullmatch(r"\s*[=\-~^]{3,}\s*", lines[1]):
            lines = lines[2:]  # A heading that is underlined.
        text = _LINK.sub(lambda match: match[1] or match[2] or "", " ".join(lines))
        text = " ".join(_MARKUP.sub("", text).split())
        sentences += [each.strip() for each in _SENTENCE_END.split(text) if each.strip()]
    return sentences


def _counted(items: Sequence[_Item], pages: _Reader, seed: int) -> _Counts:
    found = _Counts(Counter(), Counter())
    for item in islice(_shuffled(items, seed, "count"), _PAGES_COUNTED):
        sentences = pages.prose(item)
        found.terms.update(set(terms_of(" ".join(sentences))))
        found.sentences.update(set(sentences))
    return found


def _headings(items: Sequence[_Item], seed: int) -> Iterator[Judged]:
    said = Counter(_folded(path) for item in items for path in item.info.headings)
    for item in _shuffled(items, seed, "heading"):
        paths = [
            path
            for path in item.info.headings
            if path != (item.info.heading,)  # That asks for the page, not for a section.
            and said[_folded(path)] == 1
            and not any(_UNFIT.search(title) for title in path)
            and len(_telling(" ".join(path))) >= 2
        ]
        if paths and "#" not in item.info.uri:
            path = paths[_number(seed, "heading", item.name) % len(paths)]
            query = " ".join(" ".join(path).split())
            yield _judged("heading", query, f"{item.name}#{' > '.join(path)}")


def _sentences(
    kind: str, items: Sequence[_Item], pages: _Reader, counts: _Counts, seed: int
) -> Iterator[Judged]:
    for item in _shuffled(items, seed, kind):
        sentences = pages.prose(item)
        sentences = sentences[:1] if kind == "opening" else sentences[1:]
        named = {
            *terms_of(item.info.uri),
            *(term for path in item.info.headings for title in path for term in terms_of(title)),
        }
        first = _number(seed, kind, item.name) % (len(sentences) or 1)
        for sentence in sentences[first:] + sentences[:first]:
            query = _without(sentence, named, counts.terms)
            # What several pages say asks for none of them.
            if query and counts.sentences[sentence] <= 1:
                yield _judged(kind, query, item.name)
                break


def _docstrings(library: Library, items: Sequence[_Item], seed: int) -> Iterator[Judged]:
    for item in _shuffled(items, seed, "docstring"):
        try:
            outline = library.outline(item.info.uri, collection=item.collection)
        except LookfarError:
            continue  # It went or changed since it was indexed: others will do.
        sections = {section.ordinal: section for section in outline.sections}
        called = Counter(_folded(section.path) for section in outline.sections)
        documented = [
            (sections[symbol.section].path, symbol.docstring)
            for symbol in outline.symbols
            if symbol.docstring and called[_folded(sections[symbol.section].path)] == 1
        ]
        first = _number(seed, "docstring", item.name) % (len(documented) or 1)
        for path, docstring in documented[first:] + documented[:first]:
            sentence = _SENTENCE_END.split(" ".join(docstring.split()))[0]
            query = _without(sentence, set(terms_of(" ".join((item.info.uri, *path)))), None)
            if query and not any(_UNFIT.search(name) for name in path):
                yield _judged("docstring", query, f"{item.name}#{' > '.join(path)}")
                break


def _without(sentence: str, named: set[str], found_in: Counter[str] | None) -> str:
    """A sentence without the words that give its page away; empty where too little is left."""
    sentence = sentence[:_MOST_CHARACTERS]
    if has_cjk(sentence):  # No spaces say where a word ends.
        return sentence if len(sentence) >= 2 * _FEWEST_WORDS else ""
    words = [word for word in sentence.split() if not named.intersection(terms_of(word))]
    if found_in is not None:
        shared = [word for word in words if _shared(word, found_in)]
        # In a small corpus hardly a word stands twice: then the sentence stays as it is.
        words = shared if len(_telling(" ".join(shared))) >= _FEWEST_WORDS else words
    query = " ".join(words).strip(" .,;:!?-–—()\"'")
    return query if len(_telling(query)) >= _FEWEST_WORDS else ""


def _shared(word: str, found_in: Counter[str]) -> bool:
    return all(found_in[term] != 1 for term in terms_of(word))


def _telling(text: str) -> list[str]:
    return [term for term in terms_of(text) if len(term) >= _TELLING or has_cjk(term)]


def _folded(path: Sequence[str]) -> tuple[str, ...]:
    return tuple(" ".join(title.casefold().split()) for title in path)


def _judged(kind: str, query: str, target: str) -> Judged:
    return Judged(f"{kind}: {target}", query, (Relevant(target),), kind)
