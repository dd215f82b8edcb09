"""Rank code by names: of its file, its folder and what it defines.

A question about a thing asks for the place that defines it, and a file is named after its content.
Further passages of the same file are demoted, and so are tests, examples and generated code, and
what packages keep for themselves or outgrew.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final

from lookfar.ports import Definition, Place
from lookfar.retrieve.locate.file_names import find_inner_folder, is_marginal, is_test
from lookfar.retrieve.question.intent import asks_about_tests
from lookfar.retrieve.question.names import BETWEEN_NAMES
from lookfar.retrieve.ranking import Candidate, Document, Plan, Ranking
from lookfar.store.keywords.analyser import names_in, terms_of

FILE_NAME = 0.4
"""Boost for a file named after what is asked for."""
EXACT_FILE = 0.25
FOLDER_NAME = 0.25
DEFINITION = 0.08
EXACT_DEFINITION = 0.25
IN_PACKAGES = 2.0
"""In packages, names of definitions count this many times as much, and names of files and folders
so much less: people use its definitions and seldom see its files."""
CROWDING = 0.5
"""Factor for the second passage of a file; squared for the third, and so on."""
_NAME_ITSELF = 0.5
"""Share of a file's boost that does not depend on how much of the question it names."""

_IDENTIFIER = re.compile(r"[A-Za-z_$][\w$]*(?:(?:\.|::|#|->)[A-Za-z_$][\w$]*)*")
_COMPOUND = re.compile(r"[a-z][A-Z]|_|\d|\.|::|#|->")
ASIDE: Final = 0.5
"""Factor for tests."""
MARGINAL: Final = 0.7
"""Factor for examples, declarations, generated code, and what packages keep or leave behind."""
_TESTS_IN_ISSUES: Final = 0.8
_PROSE_IN_ISSUES: Final = 0.7
_WORD: Final = re.compile(r"\w+")
_DEPTH: Final = 20
"""Candidates that are looked at: their texts have to be read."""
_ABOUT: Final = re.compile(r"(?i)\bdeprecat")
_DEPRECATED: Final = re.compile(
    r"(?im)^\W*@(?:\w+\.)*deprecated\b|#\[deprecated|^\s*deprecated\(|\.\. deprecated::"
    r"|^\W*deprecated[:.]\s|\b(?:function|method|class|type|property|attribute|api)"
    r" (?:has been|is) deprecated"
)
"""Marks of a definition in the conventions of Python, JavaScript, Rust, Java and Go."""
_PARAMETERS: Final = re.compile(r"(?m):param\b|^\s*(?:Parameters|Args|Arguments)\b|^\s*\* @param\b")
"""What is deprecated after this is a parameter."""


def boost_file_names(ranking: Ranking) -> Ranking:
    """Boost code in a file, or below a folder, that the question names."""
    scorer = _NameScorer(ranking)
    lifts: dict[Document, tuple[float, float]] = {}
    for candidate in ranking.candidates:
        if candidate.place.lane == "code" and candidate.document not in lifts:
            share = 1 / IN_PACKAGES if candidate.source in ranking.packages else 1.0
            lifts[candidate.document] = (
                share * scorer.score_file(candidate.place.uri),
                share * scorer.score_folder(candidate.place.uri),
            )
    none = (0.0, 0.0)
    files = [lifts.get(document, none)[0] for document in ranking.candidates.documents]
    folders = [lifts.get(document, none)[1] for document in ranking.candidates.documents]
    ranking = ranking.add_step(
        "file name", files, lambda _: "the question names its file", whole_document=True
    )
    return ranking.add_step(
        "folder", folders, lambda _: "the question names its folder", whole_document=True
    )


def read_definitions(
    ranking: Ranking, candidates: Sequence[Candidate]
) -> dict[Candidate, list[Definition]]:
    """Return the definitions that begin in each of these chunks; one call reads them all."""
    definitions: dict[Candidate, list[Definition]] = {}
    for number, source in enumerate(ranking.sources):
        here = [candidate for candidate in candidates if candidate.source == number]
        documents = sorted({candidate.place.document for candidate in here})
        all_of = source.snapshot.definitions(documents)
        for candidate in here:
            place = candidate.place
            definitions[candidate] = [
                definition
                for definition in all_of.get(place.document, ())
                if place.start <= definition.start < place.end
            ]
    return definitions


def boost_definitions(ranking: Ranking) -> Ranking:
    """Boost code that defines something the question names."""
    scorer = _NameScorer(ranking)
    # All of them: a chunk far behind may be all that is left once tests are demoted.
    defined = read_definitions(ranking, [c for c in ranking.candidates if c.place.lane == "code"])
    best_names: dict[Place, str] = {}
    added = []
    for candidate in ranking.candidates:
        scored = (
            (scorer.score_definition(definition.name), definition.name)
            for definition in defined.get(candidate, ())
        )
        amount, name = max(scored, default=(0.0, ""))
        added.append(amount * (IN_PACKAGES if candidate.source in ranking.packages else 1.0))
        best_names[candidate.place] = name
    return ranking.add_step("definition", added, lambda c: f"it defines {best_names[c.place]}")


def demote_repeats(ranking: Ranking) -> Ranking:
    """Halve the score of each further chunk of the same file; the best chunk counts in full."""
    files: dict[Document, list[int]] = defaultdict(list)
    for at in ranking.order():
        if ranking.candidates[at].place.lane == "code":
            files[ranking.candidates[at].document].append(at)
    added = [0.0] * len(ranking.candidates)
    for chunks in files.values():
        for behind, at in enumerate(chunks):
            added[at] = (CROWDING**behind - 1) * ranking.scores[at]
    # Not part of the chunk's own score, so that equally good neighbours still merge.
    return ranking.add_step("crowding", added, lambda _: "its file has a better passage",
                            whole_document=True)  # fmt: skip


def demote_aside(ranking: Ranking) -> Ranking:
    """Demote tests behind the code they test, and marginal files behind the rest."""
    wanted = asks_about_tests(ranking.plan)
    weights: dict[str, float] = {}
    for candidate in ranking.candidates:
        uri = candidate.place.uri
        if candidate.place.lane == "code" and uri not in weights:
            factor = 1.0 if wanted or not is_test(uri) else ASIDE
            weights[uri] = factor * MARGINAL if is_marginal(uri) else factor
    added = [
        (weights[candidate.place.uri] - 1) * score if candidate.place.lane == "code" else 0.0
        for candidate, score in zip(ranking.candidates, ranking.scores, strict=True)
    ]
    return ranking.add_step(
        "aside", added, lambda c: f"factor {weights[c.place.uri]:g}", whole_document=True
    )


def demote_inner_code(ranking: Ranking) -> Ranking:
    """Demote what a package keeps for itself, and its earlier API, behind its public API.

    A folder that the question names is not demoted.
    """
    words = frozenset(_WORD.findall(ranking.plan.text.lower()))
    inner: dict[Document, bool] = {}
    for candidate in ranking.candidates:
        major = ranking.packages.get(candidate.source)
        if major is not None and candidate.place.lane == "code":
            folder = find_inner_folder(candidate.place.uri, major)
            inner[candidate.document] = bool(folder) and folder.strip("_") not in words
    added = [
        (MARGINAL - 1) * score if inner.get(document) else 0.0
        for document, score in zip(ranking.candidates.documents, ranking.scores, strict=True)
    ]
    return ranking.add_step("inner", added, lambda _: f"factor {MARGINAL:g}", whole_document=True)


def demote_deprecated(ranking: Ranking) -> Ranking:
    """Demote chunks of packages in which every definition is deprecated."""
    if _ABOUT.search(ranking.plan.text):
        return ranking
    added = [0.0] * len(ranking.candidates)
    chunks = [(ranking.candidates[at], at) for at in ranking.order()[:_DEPTH]]
    chunks = [
        (c, at) for c, at in chunks if c.source in ranking.packages and c.place.lane == "code"
    ]
    defined = read_definitions(ranking, [candidate for candidate, _ in chunks])
    for candidate, at in chunks:
        starts = sorted(definition.start for definition in defined.get(candidate, ()))
        place = candidate.place
        text = ranking.sources[candidate.source].snapshot.text(place.uri) or "" if starts else ""
        deprecated = [
            _DEPRECATED.search(_PARAMETERS.split(text[start:end], maxsplit=1)[0])
            for start, end in pairwise([*starts, place.end])
        ]
        if deprecated and all(deprecated):
            added[at] = (MARGINAL - 1) * ranking.scores[at]
    return ranking.add_step("deprecated", added, lambda _: f"factor {MARGINAL:g}")


def put_code_first(ranking: Ranking) -> Ranking:
    """Lower tests and prose behind the code: a pasted issue is about the code to change."""

    def weigh(candidate: Candidate) -> float:
        if candidate.place.lane != "code":
            return _PROSE_IN_ISSUES
        return _TESTS_IN_ISSUES if is_test(candidate.place.uri) else 1.0

    added = [
        (weigh(candidate) - 1) * score
        for candidate, score in zip(ranking.candidates, ranking.scores, strict=True)
    ]
    return ranking.add_step(
        "code first", added, lambda c: f"factor {weigh(c):g}", whole_document=True
    )


class _NameScorer:
    """Scores names against the words of a question."""

    def __init__(self, ranking: Ranking) -> None:
        plan = ranking.plan
        self._terms = frozenset(plan.terms)
        self._rarity = {term: ranking.rarity.get(term, 1.0) for term in plan.terms}
        self._all = sum(self._rarity.values()) or 1.0
        self._identifiers = find_identifiers(plan)

    def score_file(self, uri: str) -> float:
        name = uri.rpartition("/")[2]
        stem = name.rpartition(".")[0] or name
        words = _split_name(stem)
        hit = words & self._terms
        lift = 0.0
        if hit:
            weight = _NAME_ITSELF + (1 - _NAME_ITSELF) * self._share(hit)
            lift = FILE_NAME * len(hit) / len(words) * weight
        return lift + (EXACT_FILE if stem.lower() in self._identifiers else 0.0)

    def score_folder(self, uri: str) -> float:
        return FOLDER_NAME * self._share(_split_name(uri.rpartition("/")[0]) & self._terms)

    def score_definition(self, name: str) -> float:
        if name.lower() in self._identifiers:
            return EXACT_DEFINITION
        words = _split_name(name)
        hit = words & self._terms
        return DEFINITION * len(hit) / len(words) * self._share(hit) if hit else 0.0

    def _share(self, terms: frozenset[str]) -> float:
        """Return the share of the question that these terms make up; rare terms weigh more."""
        # In the order of the question, since the order of a sum changes its last digits.
        return sum([value for term, value in self._rarity.items() if term in terms]) / self._all


@lru_cache(maxsize=16_384)
def _split_name(name: str) -> frozenset[str]:
    """Return the words in a name, without the name itself; cached, since names recur."""
    return frozenset(terms_of(name)).difference(names_in(name))


def find_identifiers(plan: Plan) -> frozenset[str]:
    """Return the parts of all identifiers in a question, in lower case."""
    words = _IDENTIFIER.findall(plan.text)
    alone = len(plan.text.split()) == 1
    return frozenset(
        part.lower()
        for at, word in enumerate(words)
        if alone or _COMPOUND.search(word) or (at and word[0].isupper())
        for part in BETWEEN_NAMES.split(word)
        if len(part) > 1
    )
