"""Answers scored: what counts as found, at which rank, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from math import log2
from pathlib import Path
from typing import Any

import pytest

from lookfar import Hit, Library, Span
from lookfar.errors import InvalidArgument, NotFound
from lookfar.evaluate import Judged, Relevant, evaluate
from lookfar.evaluate.measure import TargetSpan, hash_question, ranked_targets, unindexed_place
from lookfar.model import Filters

SETTINGS = {"embed.provider": "hash", "chunk.merge_small": False, "chunk.min_tokens": 0}


def judged(query: str, *relevant: str | tuple[str, float], **more: Any) -> Judged:
    targets = [Relevant(*item) if isinstance(item, tuple) else Relevant(item) for item in relevant]
    return Judged(more.pop("id", query), query, tuple(targets), **more)


def one(library: Library, *about: Any, k: int = 10, as_of: int | None = None, **more: Any) -> Any:
    """How one question is scored by words alone, which is easy to foresee."""
    results = evaluate(library, [judged(*about, **more)], k=k, mode="keyword", as_of=as_of)
    return results.queries[0]


# --- ranks, worked out by hand ----------------------------------------------------------------


def hit(uri: str, start: int = 0, end: int = 10, collection: str = "c") -> Hit:
    return Hit(
        collection, uri, "", (), Span(start, end, 1, 1), "", "docs", 1.0, "", False, "same", ""
    )


def place(
    target: str, uri: str, span: tuple[int, int] | None = None, where: str = "c"
) -> TargetSpan:
    return TargetSpan(target, where, uri, Span(*span, 1, 1) if span else None)


def names(ranked: list[str]) -> str:
    return "".join("." if item.startswith("\0") else item for item in ranked)


@pytest.mark.parametrize(
    ("places", "hits", "ranked"),
    [
        # Documents: each at its best passage, and others of it take no rank.
        ([place("A", "a")], [hit("a")], "A"),
        ([place("A", "a")], [hit("x"), hit("x"), hit("a")], ".A"),
        ([place("A", "a"), place("B", "b")], [hit("b"), hit("x"), hit("b"), hit("a")], "B.A"),
        ([place("A", "a", where="d")], [hit("a")], "."),
        ([place("A", "a", where="")], [hit("a", collection="d")], "A"),
        # Passages: as they come, and a target counts once.
        ([place("A", "a", (0, 10))], [hit("a", 10, 20), hit("a", 5, 8), hit("a", 0, 4)], ".A."),
        ([place("A", "a", (5, 15))], [hit("a", 0, 6)], "A"),
        ([place("A", "a", (5, 15))], [hit("a", 0, 5), hit("a", 15, 16)], ".."),
        # One passage that touches two targets takes two ranks.
        ([place("A", "a", (0, 5)), place("B", "a", (5, 10))], [hit("x"), hit("a")], ".AB"),
        # A document among passages is reached by any passage of it.
        ([place("A", "a"), place("B", "b", (0, 5))], [hit("a"), hit("a"), hit("b")], "A.B"),
        ([place("A", "a")], [], ""),
    ],
)
def test_ranks(places: list[TargetSpan], hits: list[Hit], ranked: str) -> None:
    assert names(ranked_targets(places, hits)) == ranked


@pytest.mark.parametrize(
    ("gone", "ranked"),
    [
        ("x.md#Gone", "..A"),
        ("x.md:90-99", "..A"),
        ("lookfar://c/x.md#Gone", "..A"),
        ("gone.md", ".A"),
    ],
)
def test_a_missing_part_stays_a_part(gone: str, ranked: str) -> None:
    """Whether the index has it must not change what the other targets are ranked among."""
    targets = [unindexed_place(gone), place("A", "a.md")]
    assert names(ranked_targets(targets, [hit("x.md"), hit("x.md"), hit("a.md")])) == ranked


# --- asked of a real index --------------------------------------------------------------------


@pytest.mark.parametrize(
    "target",
    [
        "fruit.md",
        "fruit",
        "fruit.md#Apples",
        "fruit.md#Fruit > Apples",
        "fruit.md#apples",
        "fruit.md:7",
        "fruit.md:5-7",
        "lookfar://farm/fruit.md",
        "lookfar://farm/fruit.md#Apples",
    ],
)
def test_targets_are_named_as_elsewhere(library: Library, target: str) -> None:
    results = one(library, "apples", target)
    assert (results.rank, results.missing) == (1, ())
    assert results.scores == {"ndcg": 1.0, "mrr": 1.0, "recall": 1.0, "success": 1.0}
    assert results.found[0].startswith("fruit.md:")


def test_definitions_are_targets(library: Library) -> None:
    assert one(library, "wooden thing somebody asks", "shelf.py#Shelf.put").rank == 1
    results = one(library, "wooden thing somebody asks", "shelf.py#Shelf.gone", "shelf.py")
    assert results.missing == ("shelf.py#Shelf.gone",)


def test_another_section_of_the_right_page_does_not_count(library: Library) -> None:
    results = one(library, "pears soften quickly", "fruit.md#Apples", k=1)
    assert results.rank == 0
    assert set(results.scores.values()) == {0.0}
    assert one(library, "pears soften quickly", "fruit.md", k=1).rank == 1


def test_scores_of_two_pages(library: Library) -> None:
    """Only tools.md speaks of rungs, and roads.md does not: it is not found at all."""
    results = one(library, "rung", "tools.md", "roads.md")
    assert results.rank == 1
    assert results.scores["recall"] == 0.5
    assert results.scores["ndcg"] == pytest.approx(1 / (1 + 1 / log2(3)))


def test_grades_count(library: Library) -> None:
    results = one(library, "rung", ("tools.md", 1.0), ("roads.md", 3.0))
    assert results.scores["ndcg"] == pytest.approx(1 / (3 + 1 / log2(3)))


def test_filters_are_applied(library: Library) -> None:
    assert one(library, "spring", "roads.md", filters=Filters(uris=("roads.md",))).rank == 1
    assert one(library, "spring", "roads.md", filters=Filters(uris=("fruit.md",))).rank == 0


def test_results_say_what_was_measured(library: Library) -> None:
    progress: list[tuple[int, int]] = []
    questions = [judged("apples", "fruit.md", category="x"), judged("snow", "fruit.md")]
    results = evaluate(
        library, questions, k=3, label="mine", settings={"a": 1},
        on_question=lambda asked, count: progress.append((asked, count)),
    )  # fmt: skip
    assert (results.label, results.k, results.mode, results.model) == ("mine", 3, "hybrid", "hash")
    assert results.generations == {"farm": 1}
    assert results.settings == {"a": 1}
    assert [item.id for item in results.queries] == ["apples", "snow"]
    assert [item.category for item in results.queries] == ["x", ""]
    assert all(item.took_ms > 0 for item in results.queries)
    assert progress == [(1, 2), (2, 2)]


def test_it_is_the_same_every_time(library: Library) -> None:
    questions = [judged(item, "fruit.md") for item in ("apples", "until spring", "the barn")]

    def scores() -> list[Any]:
        return [
            (item.scores, item.found, item.mark) for item in evaluate(library, questions).queries
        ]

    assert scores() == scores()


def test_targets_missing_from_the_index_are_reported(library: Library) -> None:
    questions = [judged("apples", "fruit.md", "gone.md"), judged("pears", "fruit.md#Plums")]
    results = evaluate(library, questions)
    assert results.missing == ("gone.md", "fruit.md#Plums")
    assert results.queries[0].scores["recall"] == 0.5
    assert results.queries[1].rank == 0


def test_incomplete_answers_are_reported(folder: Path, library: Library, tmp_path: Path) -> None:
    for number in range(3):
        (folder / f"new-{number}.md").write_text("# New\n\nUnread.\n")
    settings = {**SETTINGS, "index.max_auto_files": 0}
    with Library.open(folder, index_dir=tmp_path / "indexes", settings=settings) as other:
        (note,) = evaluate(other, [judged("apples", "fruit.md")]).notes
    assert "3" in note
    assert evaluate(library, [judged("apples", "fruit.md")]).notes == ()


def test_questions_about_another_folder_are_refused(library: Library) -> None:
    with pytest.raises(NotFound, match=r"'a\.md', for example"):
        evaluate(library, [judged("apples", "a.md"), judged("pears", "b.md#X")])


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (judged("apples", "fruit.md:9-2", place="q.jsonl, line 4"), "q.jsonl, line 4: Lines 9-2"),
        (judged("apples", "twice.md#Same"), "the question 'apples': 2 sections"),
        (judged("x" * 50_001, "fruit.md", id="long"), "the question 'long': "),
        (judged("apples", "lookfar://farm"), "the question 'apples': "),
    ],
)
def test_a_bad_question_is_named(
    library: Library, folder: Path, question: Judged, message: str
) -> None:
    (folder / "twice.md").write_text("# A\n\n## Same\n\none\n\n# B\n\n## Same\n\ntwo\n")
    library.index()
    with pytest.raises(InvalidArgument) as caught:
        evaluate(library, [question])
    assert caught.value.message.startswith(message)


@pytest.mark.parametrize("k", [0, 1001])
def test_k_has_limits(library: Library, k: int) -> None:
    with pytest.raises(InvalidArgument, match="k is"):
        evaluate(library, [judged("apples", "fruit.md")], k=k)


def test_no_questions_are_rejected(library: Library) -> None:
    with pytest.raises(InvalidArgument, match="no questions"):
        evaluate(library, [])


def test_an_earlier_generation_is_asked(library: Library, folder: Path) -> None:
    (folder / "fruit.md").write_text("# Fruit\n\n## Plums\n\nNothing but plums.\n")
    assert library.index().generation == 2
    assert one(library, "apples", "fruit.md#Apples", "fruit.md", as_of=1).missing == ()
    now = one(library, "apples", "fruit.md#Apples", "fruit.md")
    assert now.missing == ("fruit.md#Apples",)
    assert now.rank == 0


def test_several_folders(tmp_path: Path) -> None:
    for name in ("north", "south"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.md").write_text(f"# A\n\nThe {name} wind blows.\n")
    with Library.open(
        tmp_path / "north", tmp_path / "south",
        index_dir=tmp_path / "i", settings={"embed.provider": "hash"},
    ) as library:  # fmt: skip
        assert one(library, "south wind", "lookfar://south/a.md").rank == 1
        assert one(library, "south wind", "lookfar://north/a.md").rank == 2
        # Without a collection either will do.
        assert one(library, "south wind", "a.md").rank == 1


def test_commits_can_be_judged(repository: Callable[..., Any], tmp_path: Path) -> None:
    made = repository("farm-history")
    wanted = made.commit("Mend the ladder", {"a.md": "# A\n\nladder\n"})
    made.commit("Paint the barn", {"b.md": "# B\n\nbarn\n"})
    with Library.open(
        made.path, index_dir=tmp_path / "i", settings={"embed.provider": "hash"}
    ) as library:
        results = one(library, "mend ladder", wanted, filters=Filters(lanes=("commits",)))
    assert (results.rank, results.missing) == (1, ())


def test_the_hash_covers_all_judgements() -> None:
    base = judged("apples", "fruit.md", "x.md")
    same = judged("apples", "x.md", "fruit.md", category="other")
    assert hash_question(base) == hash_question(same)
    others = [
        judged("apples", "fruit.md"),
        judged("apple", "fruit.md", "x.md", id="apples"),
        judged("apples", "fruit.md", "x.md", id="2"),
        judged("apples", ("fruit.md", 2.0), "x.md"),
        judged("apples", "fruit.md", "x.md", filters=Filters(glob="*")),
    ]
    assert len({hash_question(item) for item in [base, *others]}) == 6
