"""Passages of an answer: duplicates, sections and reranking. Every text is verified on disk."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from lookfar.library import Library
from lookfar.model import Hit

pytestmark = pytest.mark.usefixtures("own_home")

Open = Callable[..., Library]

COPY = "# Guide\n\nThe zebra sleeps standing.\n"
SECTIONS = (
    "# Zoo\n\nAll about the zoo.\n\n"
    "## Zebras\n\nStripes and such.\n\n"
    "### Food\n\n" + "Hay and quinces. " * 12 + "\n\n"
    "### Sleep\n\n" + "They sleep standing. " * 12 + "\n\n"
    "## Lions\n\n" + "They roar. " * 40 + "\n"
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.fixture
def opened(root: Path, tmp_path: Path) -> Iterator[Open]:
    """Open the folder; changes are noticed but not indexed."""
    with ExitStack() as stack:

        def opened(**search: Any) -> Library:
            settings = {
                "embed.provider": "hash",
                "index.workers": 1,
                "index.max_auto_files": 0,
                "chunk.max_tokens": 60,
                "chunk.min_tokens": 0,
                "search.boosts": False,
            }
            settings |= {f"search.{key}": value for key, value in search.items()}
            library = Library.open(root, index_dir=tmp_path / "index", settings=settings)
            return stack.enter_context(library)

        yield opened


def exact(root: Path, hit: Hit) -> bool:
    """Return whether the cited text is at the cited place on disk."""
    text = (root / hit.uri).read_text()[hit.span.start : hit.span.end]
    lines = (text.count("\n") + hit.span.start_line) - text.endswith("\n")
    same = sha256(text.encode()).hexdigest() == hit.sha256 and lines == hit.span.end_line
    return same and hit.text == text and not hit.truncated


# --- copies -----------------------------------------------------------------------------------


def test_copies_are_one_hit_that_lists_the_others(root: Path, opened: Open) -> None:
    for name in ("b.md", "a.md", "c.md"):
        (root / name).write_text(COPY)
    (root / "d.md").write_text("# Other\n\nA zebra is no horse.\n")
    answer = opened().search("zebra sleeps", explain=True)
    first = answer.hits[0]
    assert [hit.uri for hit in answer.hits] == ["a.md", "d.md"]
    assert [duplicate.uri for duplicate in first.also] == ["b.md", "c.md"]
    assert {
        (duplicate.sha256, duplicate.span, duplicate.by, duplicate.state)
        for duplicate in first.also
    } == {(first.sha256, first.span, "text", "same")}
    assert any("2 duplicates" in step.note for step in first.explanation)
    total = sum(step.value for step in first.explanation)
    assert total == pytest.approx(first.score, abs=1e-5)


def test_copies_can_be_shown_separately(root: Path, opened: Open) -> None:
    for name in ("a.md", "b.md"):
        (root / name).write_text(COPY)
    answer = opened(dedup_exact=False).search("zebra sleeps")
    assert [(hit.uri, hit.also) for hit in answer.hits] == [("a.md", ()), ("b.md", ())]


def test_many_copies_are_counted(root: Path, opened: Open) -> None:
    for number in range(9):
        (root / f"{number}.md").write_text(COPY)
    (hit,) = opened().search("zebra sleeps").hits
    assert [duplicate.uri for duplicate in hit.also] == ["1.md", "2.md", "3.md", "4.md", "5.md"]
    assert hit.also_more == 3


def test_changed_copy_is_cited_as_changed(root: Path, opened: Open) -> None:
    """Fails if the state of the hit is used for its copies."""
    for name in ("a.md", "b.md", "c.md", "d.md"):
        (root / name).write_text(COPY)
    library = opened()
    library.index()
    (root / "b.md").write_text("# Guide\n\nSomething else.\n")
    (root / "c.md").write_text("New.\n\n" + COPY)
    (root / "d.md").unlink()
    answer = library.search("zebra sleeps")
    (hit,) = answer.hits
    assert (hit.uri, hit.state) == ("a.md", "same")
    states = {duplicate.uri: (duplicate.state, duplicate.span.start) for duplicate in hit.also}
    assert states == {"b.md": ("changed", 0), "c.md": ("moved", 6), "d.md": ("gone", 0)}
    named = {uri for note in answer.incomplete for uri in note.uris}
    assert {"b.md", "c.md", "d.md"} <= named


def test_nearly_equal_texts_can_be_folded_by_words(root: Path, opened: Open) -> None:
    long = "The zebra sleeps standing in the shade of a tree near the river every day. "
    (root / "a.md").write_text(f"{long * 2}One.\n")
    (root / "b.md").write_text(f"{long * 2}Two.\n")
    assert len(opened().search("zebra").hits) == 2
    (hit,) = opened(dedup_ngram=True).search("zebra").hits
    (other,) = hit.also
    assert other.by == "words"
    assert other.sha256 == sha256((root / other.uri).read_bytes()).hexdigest() != hit.sha256


def test_equal_meanings_can_be_folded_by_vectors(root: Path, opened: Open) -> None:
    (root / "a.md").write_text("zebra sleeps standing here\n")
    (root / "b.md").write_text("Standing here sleeps: zebra!\n")  # The same words, other trigrams.
    assert len(opened(dedup_ngram=True).search("zebra").hits) == 2
    (hit,) = opened(dedup_semantic=True).search("zebra").hits
    assert [duplicate.by for duplicate in hit.also] == ["meaning"]


def test_mmr_puts_dissimilar_hits_first(root: Path, opened: Open) -> None:
    (root / "a.md").write_text("zebra zebra sleeps standing here now\n")
    (root / "b.md").write_text("zebra zebra sleeps standing here then\n")
    (root / "c.md").write_text("a zebra eats grass leaves bark and more things of many kinds\n")
    assert [hit.uri for hit in opened().search("zebra").hits][2] == "c.md"
    answer = opened(mmr=True, mmr_lambda=0.3).search("zebra", explain=True)
    assert [hit.uri for hit in answer.hits][1] == "c.md"
    assert "mmr" in [step.stage for step in answer.hits[2].explanation]


def test_hits_far_below_the_best_can_be_dropped(root: Path, opened: Open) -> None:
    (root / "a.md").write_text("zebra sleeps standing\n")
    (root / "b.md").write_text("a lion sleeps, and many other things are said of it here\n")
    scores = [hit.score for hit in opened().search("zebra sleeps standing").hits]
    assert len(scores) == 2
    share = scores[1] / scores[0]
    assert len(opened(min_confidence=share - 0.01).search("zebra sleeps standing").hits) == 2
    assert len(opened(min_confidence=share + 0.01).search("zebra sleeps standing").hits) == 1


# --- sections ---------------------------------------------------------------------------------


def test_hit_is_widened_to_its_section(root: Path, opened: Open) -> None:
    (root / "zoo.md").write_text(SECTIONS)
    narrow = opened(merge_gap=0).search("quinces").hits[0]
    wide = opened(merge_gap=0, parents=True).search("quinces", explain=True).hits[0]
    assert narrow.text == SECTIONS[SECTIONS.index("### Food") : SECTIONS.index("### Sleep")]
    assert wide.text == SECTIONS[SECTIONS.index("## Zebras") : SECTIONS.index("## Lions")]
    assert exact(root, wide)
    assert wide.heading_path == wide.path == ("Zoo", "Zebras")
    assert (wide.part, wide.parts) == (1, 1)
    assert wide.score == narrow.score
    assert any(step.stage == "parent" for step in wide.explanation)


@pytest.mark.parametrize("limit", ["parent_max_chars", "max_excerpt_chars"])
def test_too_long_section_does_not_widen(root: Path, opened: Open, limit: str) -> None:
    (root / "zoo.md").write_text(SECTIONS)
    narrow = opened(merge_gap=0).search("quinces").hits[0]
    wide = opened(merge_gap=0, parents=True, **{limit: len(narrow.text)})
    assert wide.search("quinces").hits[0].span == narrow.span


def test_text_of_a_better_hit_is_not_cited_twice(root: Path, opened: Open) -> None:
    (root / "zoo.md").write_text(SECTIONS)
    narrow = opened(per_document=0, merge_gap=0).search("they sleep standing quinces hay").hits
    wide = opened(per_document=0, merge_gap=0, parents=True, parent_max_chars=5000)
    hits = wide.search("they sleep standing quinces hay").hits
    assert len(hits) < len(narrow)
    spans = sorted((hit.span.start, hit.span.end) for hit in hits)
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    assert all(exact(root, hit) for hit in hits)


def test_widened_hit_is_verified_as_a_whole(root: Path, opened: Open) -> None:
    """Fails if only the matching chunk is verified."""
    (root / "zoo.md").write_text(SECTIONS)
    library = opened(merge_gap=0, parents=True)
    before = library.search("quinces").hits[0]
    offset = before.text.index("quinces")
    place = before.span.start + before.text.rindex("a")
    assert place - before.span.start > offset
    (root / "zoo.md").write_text(SECTIONS[:place] + "A" + SECTIONS[place + 1 :])
    after = library.search("quinces").hits[0]
    assert (after.text, after.state) == (before.text, "changed")
    (root / "zoo.md").write_text("New.\n\n" + SECTIONS)
    moved = library.search("quinces").hits[0]
    assert (moved.state, moved.span.start) == ("moved", before.span.start + 6)
    assert exact(root, moved)


def test_merged_hit_is_verified_as_a_whole(root: Path, opened: Open) -> None:
    (root / "long.md").write_text("zebra " * 60 + "\n\n" + "zebra " * 60 + "\n")
    library = opened()
    (before,) = library.search("zebra").hits
    assert exact(root, before)
    text = (root / "long.md").read_text()
    (root / "long.md").write_text(text[:-3] + "X\n\n")
    (after,) = library.search("zebra").hits
    assert (after.text, after.state) == (before.text, "changed")


# --- reranking ------------------------------------------------------------------------------------


def test_best_hits_are_reranked_by_a_model(root: Path, opened: Open, tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    import tiny_cross_encoder

    words = ("zebra", "sleeps", "standing")
    model = tiny_cross_encoder.write(tmp_path / "tiny", words)
    (root / "a.md").write_text("zebra\n")
    (root / "b.md").write_text("a zebra that sleeps, standing, among very many other things\n")
    (root / "c.md").write_text("zebra zebra zebra zebra\n")
    question = "zebra sleeps standing"
    assert opened().search(question, mode="vector").hits[0].uri != "c.md"
    library = opened(rerank=True, rerank_model=str(model), rerank_top=3)
    answer = library.search(question, mode="vector", explain=True)
    # Four shared words give 2, three give 1, and one gives -1.
    assert [hit.uri for hit in answer.hits] == ["c.md", "b.md", "a.md"]
    assert [hit.score for hit in answer.hits] == pytest.approx(
        [0.880797, 0.731059, 0.268941], abs=1e-5
    )
    assert answer.incomplete == ()
    for hit in answer.hits:
        assert sum(step.value for step in hit.explanation) == pytest.approx(hit.score, abs=1e-5)


def test_without_a_reranker_the_answer_is_the_usual_one(
    root: Path, opened: Open, tmp_path: Path
) -> None:
    (root / "a.md").write_text("zebra\n")
    (root / "b.md").write_text("another zebra of some length\n")
    usual = opened().search("zebra").hits
    answer = opened(rerank=True, rerank_model=str(tmp_path / "nowhere")).search("zebra")
    assert answer.hits == usual
    assert [note.reason for note in answer.incomplete] == ["no_reranker"]


# --- all options ----------------------------------------------------------------------------------

EVERYTHING: dict[str, Any] = {
    "dedup_ngram": True,
    "dedup_semantic": True,
    "semantic_threshold": 0.97,
    "mmr": True,
    "parents": True,
    "min_confidence": 0.05,
}


def fill(root: Path) -> None:
    for number in range(30):
        words = " ".join(f"word{(number * each) % 17}" for each in range(1, 25))
        (root / f"{number:02}.md").write_text(f"# Page {number % 7}\n\nzebra {words}\n")
    (root / "zoo.md").write_text(SECTIONS)


def test_all_options_work_without_vectors(root: Path, tmp_path: Path) -> None:
    fill(root)
    for number in range(30):  # A word that all pages have would count for nothing.
        (root / f"other{number:02}.md").write_text(f"# Other\n\nA horse with number {number}.\n")
    settings = {"embed.provider": "none", "index.workers": 1}
    settings |= {f"search.{key}": value for key, value in EVERYTHING.items()}
    with Library.open(root, index_dir=tmp_path / "bare", settings=settings) as library:
        hits = library.search("zebra word3 sleep").hits
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True)
    assert len(hits) == 10


def test_larger_top_k_begins_with_the_same_hits(root: Path, opened: Open) -> None:
    """Fails if near copies are folded only up to ``top_k``: twenty hits were more than fifty."""
    fill(root)
    library = opened(**EVERYTHING)
    many = library.search("zebra word3 sleep", top_k=50).hits
    assert len(many) == 20
    for count in (1, 5, 10, 18, 20):
        few = library.search("zebra word3 sleep", top_k=count).hits
        assert [(hit.uri, hit.span) for hit in few] == [(hit.uri, hit.span) for hit in many[:count]]


def test_answers_are_the_same_in_every_process(root: Path, tmp_path: Path) -> None:
    fill(root)
    script = (
        "import sys, json\n"
        "from dataclasses import replace\n"
        "from lookfar.library import Library\n"
        "from lookfar.serve.show.json_shapes import answer\n"
        "root, index, settings = sys.argv[1:]\n"
        "with Library.open(root, index_dir=index, settings=json.loads(settings)) as library:\n"
        "    found = library.search('zebra word3 sleep', top_k=20, explain=True)\n"
        "    print(json.dumps(answer(replace(found, took_ms=0.0), explain=True)))\n"
    )
    settings = {"embed.provider": "hash", "index.workers": 1}
    settings |= {f"search.{key}": value for key, value in EVERYTHING.items()}
    answers = [
        subprocess.run(
            [sys.executable, "-c", script, str(root), str(tmp_path / name), json.dumps(settings)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            timeout=120,
        ).stdout
        for name, seed in (("one", "1"), ("one", "2"), ("two", "3"))
    ]
    assert answers[0]
    assert answers[0] == answers[1] == answers[2]
