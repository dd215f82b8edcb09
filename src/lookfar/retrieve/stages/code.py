"""Rank code by names: of its file, its folder and what it defines.

A question about a thing asks for the place that defines it, and a file is named after its content.
Further passages of the same file are demoted.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from lookfar.ports import Definition, Place
from lookfar.retrieve.question.names import BETWEEN_NAMES
from lookfar.retrieve.ranking import Candidate, Plan, Ranking, Stage
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

Defined = Mapping[Candidate, Sequence["Definition"]]
"""The definitions that begin in each chunk."""
Reader = Callable[[Sequence[Candidate]], Defined]
"""Returns the definitions in chunks; called once for all of them, since it reads the store."""
Judge = Callable[[Ranking, Defined], Ranking]


def boost_file_names(ranking: Ranking) -> Ranking:
    """Boost code in a file, or below a folder, that the question names."""
    if not has_code(ranking):
        return ranking
    scorer = _NameScorer(ranking)
    lifts: dict[tuple[int, int], tuple[float, float]] = {}
    for candidate in ranking.candidates:
        if candidate.place.lane == "code" and candidate.document not in lifts:
            share = 1 / IN_PACKAGES if candidate.source in ranking.packages else 1.0
            lifts[candidate.document] = (
                share * scorer.score_file(candidate.place.uri),
                share * scorer.score_folder(candidate.place.uri),
            )
    none = (0.0, 0.0)
    files = [lifts.get(candidate.document, none)[0] for candidate in ranking.candidates]
    folders = [lifts.get(candidate.document, none)[1] for candidate in ranking.candidates]
    ranking = ranking.add_step("file name", files, _note_name("its file"), whole_document=True)
    return ranking.add_step("folder", folders, _note_name("its folder"), whole_document=True)


def judge_definitions(read: Reader, judges: Sequence[Judge]) -> Stage:
    """Apply all judges to the definitions in the chunks, which are read once."""

    def judge(ranking: Ranking) -> Ranking:
        if not judges or not has_code(ranking):
            return ranking
        # Read all of them: a chunk far behind may be all that is left once tests are demoted.
        defined = read(
            [candidate for candidate in ranking.candidates if candidate.place.lane == "code"]
        )
        for apply in judges:
            ranking = apply(ranking, defined)
        return ranking

    return judge


def boost_definitions(ranking: Ranking, defined: Defined) -> Ranking:
    """Boost code that defines something the question names."""
    scorer = _NameScorer(ranking)
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
    if not has_code(ranking):
        return ranking
    files: dict[tuple[int, int], list[int]] = defaultdict(list)
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


def has_code(ranking: Ranking) -> bool:
    return "code" in ranking.candidates.kinds


def _note_name(part: str) -> Callable[[Candidate], str]:
    return lambda _: f"the question names {part}"
