"""Ranking of code, on cases small enough to compute by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest

from lookfar.config import SearchSettings
from lookfar.model import Lane
from lookfar.ports import Definition, Place
from lookfar.retrieve.locate.file_names import find_major_version
from lookfar.retrieve.ranking import Candidate, Ranking
from lookfar.retrieve.stages import code
from lookfar.retrieve.stages.fuse import fuse_by_score
from lookfar.store.keywords.analyser import terms_of

MakePlace = Callable[..., Place]
MakeRanking = Callable[..., Ranking]


@pytest.fixture
def rank_files(make_place: MakePlace, make_ranking: MakeRanking) -> Callable[..., Ranking]:
    """Return a ranking of one chunk of code per file, all with the same score."""

    def rank_files(query: str, *uris: str, score: float = 0.5, lane: Lane = "code") -> Ranking:
        candidates = [
            Candidate(make_place(at, document=at, uri=uri)._replace(lane=lane), 1.0, 1.0, 0.5)
            for at, uri in enumerate(uris, 1)
        ]
        ranking = make_ranking(candidates, [score] * len(candidates))
        plan = replace(ranking.plan, text=query, terms=tuple(terms_of(query)))
        return replace(ranking, plan=plan)

    return rank_files


def first(ranking: Ranking) -> str:
    return ranking.candidates[ranking.order()[0]].place.uri


def test_file_named_after_question_comes_first(rank_files: Callable[..., Ranking]) -> None:
    ranked = code.boost_file_names(
        rank_files("json reader", "a/writer.py", "b/json_reader.py", "c/json.py")
    )
    assert first(ranked) == "b/json_reader.py"
    lifts = [score - 0.5 for score in ranked.scores]
    assert lifts[0] == 0
    # Its whole name matches, and covers the whole question.
    assert lifts[1] == pytest.approx(code.FILE_NAME)
    # Its whole name matches, and covers half of the question.
    assert lifts[2] == pytest.approx(code.FILE_NAME * 0.75)


def test_rare_word_counts_more_than_common_one(rank_files: Callable[..., Ranking]) -> None:
    ranking = replace(
        rank_files("json reader", "json.py", "reader.py"), rarity={"json": 1, "reader": 3}
    )
    ranked = code.boost_file_names(ranking)
    assert first(ranked) == "reader.py"
    assert ranked.scores[0] - 0.5 == pytest.approx(code.FILE_NAME * (0.5 + 0.5 * 0.25))


def test_identifier_matches_file_of_that_name(rank_files: Callable[..., Ranking]) -> None:
    ranking = rank_files("JsonReader", "JsonReaderTest.java", "JsonReader.java")
    ranked = code.boost_file_names(ranking)
    assert first(ranked) == "JsonReader.java"
    assert ranked.scores[1] - ranked.scores[0] >= code.EXACT_FILE


def test_named_folder_boosts_files_below_it(rank_files: Callable[..., Ranking]) -> None:
    ranked = code.boost_file_names(rank_files("unix sockets", "win/io.c", "unix/io.c"))
    assert first(ranked) == "unix/io.c"
    assert ranked.scores[1] - 0.5 == pytest.approx(code.FOLDER_NAME / 2)


class Defining:
    """A source whose files define these names."""

    def __init__(self, ranking: Ranking, names: Mapping[str, Sequence[str]]) -> None:
        self.asked: list[Sequence[int]] = []
        self._names = {c.place.document: names.get(c.place.uri, ()) for c in ranking.candidates}

    @property
    def snapshot(self) -> Defining:
        return self

    def definitions(self, documents: Sequence[int]) -> dict[int, list[Definition]]:
        self.asked.append(documents)
        return {
            document: [Definition(0, name, "function", False) for name in self._names[document]]
            for document in documents
        }


def add_definitions(ranking: Ranking, names: Mapping[str, Sequence[str]]) -> Ranking:
    source = Defining(ranking, names)
    return replace(ranking, sources=[source])  # type: ignore[list-item]


def test_definition_comes_before_mention(rank_files: Callable[..., Ranking]) -> None:
    names = {"a.py": ["helper"], "b.py": ["other", "parse_args"]}
    ranked = add_definitions(rank_files("parse_args", "a.py", "b.py"), names)
    ranked = code.boost_definitions(ranked)
    assert first(ranked) == "b.py"
    assert ranked.scores[1] - 0.5 == pytest.approx(code.EXACT_DEFINITION)
    assert ranked.explain(1)[-1].note == "it defines parse_args"
    half = add_definitions(rank_files("parse them", "a.py", "b.py"), names)
    # Half of its name matches, and covers half of the question.
    assert code.boost_definitions(half).scores[1] - 0.5 == pytest.approx(code.DEFINITION / 4)


def test_in_packages_definitions_count_more_than_files(
    rank_files: Callable[..., Ranking],
) -> None:
    """People use the definitions of a package and seldom see its files."""
    names = {"types.py": ["convert"], "core.py": ["choice_type"]}
    ranking = add_definitions(rank_files("choice type", "types.py", "core.py"), names)
    assert first(code.boost_definitions(code.boost_file_names(ranking))) == "types.py"
    package = replace(ranking, packages={0: 8})
    assert first(code.boost_definitions(code.boost_file_names(package))) == "core.py"


@pytest.mark.parametrize(
    ("query", "major", "first_uri"),
    [
        ("validate a field", 2, "pydantic/fields.py"),
        ("validate a field in v1 _internal", 2, "pydantic/v1/fields.py"),
        # A folder of the current version is not an earlier API.
        ("validate a field _internal", 1, "pydantic/v1/fields.py"),
        ("validate a field", None, "pydantic/v1/fields.py"),
    ],
)
def test_inner_and_earlier_code_of_a_package_is_demoted(
    rank_files: Callable[..., Ranking], query: str, major: int | None, first_uri: str
) -> None:
    uris = ("pydantic/v1/fields.py", "pydantic/_internal/fields.py", "pydantic/fields.py")
    ranking = rank_files(query, *uris)
    ranking = replace(ranking, scores=(0.6, 0.55, 0.5))
    if major is not None:
        ranking = replace(ranking, packages={0: major})
    assert first(code.demote_inner_code(ranking)) == first_uri


@pytest.mark.parametrize(
    ("collection", "major"),
    [
        ("zod-4.6.7@npm", 4),
        ("@types/express-5.0.6@npm", 5),
        ("requests-2.31.0+0a1b2c3d@pypi", 2),
        ("example.org/x-v3.1.0@go", 3),
        ("clap-4.0.0-rc.1@crates", 4),
        ("docs@source", None),
        ("manual-2.1@source", None),
    ],
)
def test_major_version_of_a_package(collection: str, major: int | None) -> None:
    assert find_major_version(collection) == major


def test_definitions_of_all_code_are_read_once(
    make_place: MakePlace, make_ranking: MakeRanking
) -> None:
    """Fails with a limit: tests that are demoted later kept other chunks from being read."""
    candidates = [
        Candidate(make_place(at, document=at, uri=f"{at}.py")._replace(lane="code"), 1, 1, 0)
        for at in range(1, 101)
    ]
    prose = Candidate(make_place(101, document=101), 1, 1, 0)
    scores = [at / 100 for at in range(101)]
    ranking = make_ranking([*candidates, prose], scores, top_k=1)
    source = Defining(ranking, {})
    code.boost_definitions(replace(ranking, sources=[source]))  # type: ignore[list-item]
    assert source.asked == [list(range(1, 101))]


@pytest.mark.parametrize(
    ("uri", "counts"),
    [
        ("src/core.py", 1.0),
        ("tests/core.py", code.ASIDE),
        ("pkg/core_test.go", code.ASIDE),
        ("src/CoreTest.java", code.ASIDE),
        ("web/core.spec.ts", code.ASIDE),
        ("src/contest.py", 1.0),
        ("lib/testing.py", 1.0),
        ("types/core.d.ts", code.MARGINAL),
        ("examples/core.py", code.MARGINAL),
        ("examples/tests/core.py", code.ASIDE * code.MARGINAL),
    ],
)
def test_tests_and_marginal_files_are_demoted(
    rank_files: Callable[..., Ranking], uri: str, counts: float
) -> None:
    assert code.demote_aside(rank_files("core", uri)).scores[0] == pytest.approx(0.5 * counts)


def test_tests_are_not_demoted_if_asked_for(rank_files: Callable[..., Ranking]) -> None:
    assert code.demote_aside(rank_files("core test", "tests/core.py")).scores == (0.5,)


def test_further_passages_of_a_file_are_demoted(
    make_place: MakePlace, make_ranking: MakeRanking
) -> None:
    places = [
        make_place(1, document=1, uri="a.py", start=0),
        make_place(2, document=1, uri="a.py", start=500),
        make_place(3, document=1, uri="a.py", start=900),
        make_place(4, document=2, uri="b.py"),
    ]
    candidates = [Candidate(place._replace(lane="code"), 1, 1, 0) for place in places]
    ranked = code.demote_repeats(make_ranking(candidates, [0.8, 0.9, 0.7, 0.5]))
    assert ranked.scores == pytest.approx((0.4, 0.9, 0.175, 0.5))
    assert [ranked.candidates[at].place.key for at in ranked.order()] == [2, 4, 1, 3]
    # Crowding is not part of a chunk's own score, so equally good chunks still merge.
    assert sum(added[0] for added in ranked.own_steps()) == pytest.approx(0.8)


def test_prose_is_not_changed(rank_files: Callable[..., Ranking]) -> None:
    prose = rank_files("json reader", "tests/json_reader.md", "b.md", lane="docs")
    for stage in (
        code.boost_file_names,
        code.boost_definitions,
        code.demote_aside,
        code.demote_inner_code,
        code.demote_repeats,
    ):
        assert stage(prose).scores == prose.scores


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("Application", {"application"}),
        ("how commands are structured", set()),
        ("how Cobra handles flags", {"cobra"}),
        ("what does getUserById do", {"getuserbyid"}),
        ("where is Context.invoke called", {"context", "invoke"}),
        ("std::vector growth", {"std", "vector"}),
        ("parse_args defaults", {"parse_args"}),
    ],
)
def test_identifiers_are_recognised(
    rank_files: Callable[..., Ranking], query: str, names: set[str]
) -> None:
    assert code.find_identifiers(rank_files(query, "a.py").plan) == names


def test_file_is_scored_by_its_best_chunks_together(
    make_place: MakePlace, make_ranking: MakeRanking
) -> None:
    """Two good chunks of one file beat a single one, and the length of the file costs nothing."""
    places = [
        make_place(1, document=1, uri="a.py"),
        make_place(2, document=1, uri="a.py", start=500),
        make_place(3, document=2, uri="b.py"),
    ]
    candidates = [
        Candidate(place._replace(lane="code"), keyword, page, 0.0)
        for place, keyword, page in zip(places, (4.0, 4.0, 4.0), (1.0, 1.0, 9.0), strict=True)
    ]
    ranking = make_ranking(candidates, mode="keyword", vector=None)
    fused = fuse_by_score(ranking)
    # 0.625 for the chunk, and up to 0.375 for its file, relative to the best file.
    assert fused.scores == pytest.approx((1.0, 1.0, 0.625 + 0.375 / 2))


def test_vectors_count_more_for_code_than_for_prose(
    make_place: MakePlace, make_ranking: MakeRanking
) -> None:
    def near(lane: Lane) -> float:
        candidates = [
            Candidate(make_place(1, document=1)._replace(lane=lane), 1.0, 1.0, 0.1),
            Candidate(make_place(2, document=2)._replace(lane=lane), 0.0, 0.0, 0.9),
        ]
        settings = SearchSettings(vector_weight=0.25, keyword_weight=0.75)
        return fuse_by_score(make_ranking(candidates, settings=settings)).scores[1]

    assert near("docs") == pytest.approx(0.25)
    assert near("code") == pytest.approx(0.8 * 0.625 + 0.375)
