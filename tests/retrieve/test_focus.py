"""Choosing sentences by their words, their neighbours' words, and meaning."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lookfar.embed.hashed import HashedEmbedder
from lookfar.library import Library
from lookfar.retrieve.answer import focus
from lookfar.retrieve.answer.focus import (
    Excerpt,
    FocusQuery,
    Sentence,
    find_best_sentences,
    find_in_each,
    split_lines,
    split_sentences,
)

PROSE = (
    "# Title\n\nFirst sentence here. Second one\nwraps here! Third.\n- item one\n- item two. More."
    "\n\n```py\nx = 1234\ny = call()\n```\n\nAfter code.\n| a12 | b |\n"
)


def test_prose_is_split_into_sentences() -> None:
    assert [PROSE[one.start : one.end] for one in split_sentences(PROSE)] == [
        "# Title", "First sentence here.", "Second one\nwraps here!", "Third.", "- item one",
        "- item two.", "More.", "x = 1234", "y = call()", "After code.", "| a12 | b |",
    ]  # fmt: skip


def test_code_is_split_into_lines() -> None:
    code = "def f():\n    return 1\n\n\n}\n"
    assert [code[one.start : one.end] for one in split_lines(code)] == ["def f():", "    return 1"]


def best(text: str, weights: dict[str, float], *, code: bool = False) -> str:
    one = find_best_sentences(text, FocusQuery(weights), code=code)[0]
    return text[one.start : one.end]


def test_sentence_with_significant_words_is_first() -> None:
    text = "Keys are used. The signing key rotates every ninety days. Days are long."
    assert best(text, {"rotate": 0.6, "key": 0.3, "day": 0.1}) == (
        "The signing key rotates every ninety days."
    )


def test_neighbours_decide_between_equals() -> None:
    """Fails if neighbours are ignored."""
    text = "Rotation matters. Nothing here. Keys exist. The key rotates. Every ninety days, a day."
    assert best(text, {"rotat": 0.4, "day": 0.6}).startswith("Every ninety days")


def test_heading_ranks_below_its_section() -> None:
    assert best("# Rotate keys\n\nTo rotate keys, run it.\n", {"rotat": 0.5, "key": 0.5}) == (
        "To rotate keys, run it."
    )


def test_paragraph_directly_under_its_heading_is_a_sentence_of_its_own() -> None:
    text = "# Keys\nTo rotate keys, run it.\n## Other\nNothing.\n"
    assert [text[one.start : one.end] for one in split_sentences(text)] == [
        "# Keys", "To rotate keys, run it.", "## Other", "Nothing.",
    ]  # fmt: skip
    assert best(text, {"rotat": 0.3, "key": 0.7}) == "To rotate keys, run it."


def test_head_of_a_mail_ranks_below_what_it_says() -> None:
    mail = "From: Anna Berg <anna@example.org>\nDate: Mon, 2 Mar 2026\n\nThe roof costs 14,300.\n"
    assert best(mail, {"anna": 0.4, "berg": 0.2, "cost": 0.4}) == "The roof costs 14,300."
    assert best(mail, {"berg": 1.0}).startswith("From: Anna Berg")


@pytest.mark.parametrize("weights", [{"cost": 0.9, "firewal": 0.1}, {"cost": 0.1, "firewal": 0.9}])
def test_row_of_a_table_is_above_the_header_that_names_its_columns(
    weights: dict[str, float],
) -> None:
    """Fails if a row counts only the row before it as its neighbour."""
    table = "| Item | Cost |\n|---|---|\n| Chair | 20 |\n| Lamp | 30 |\n| Firewall | 4711 |\n"
    assert best(f"Sales.\n\n{table}\nThe end.\n", weights) == "| Firewall | 4711 |"
    assert best(f"{table}\n{table}", {"cost": 1.0}) == "| Item | Cost |"


def test_first_sentence_is_returned_if_no_word_matches() -> None:
    assert best("One thing. Another thing.", {"absent": 1.0}) == "One thing."
    assert find_best_sentences("", FocusQuery({}), code=False) == []


def test_meaning_decides_if_no_word_matches() -> None:
    embedder = HashedEmbedder()
    text = "Lanterns glow. Boats sail on the water. Trees grow."
    asked = FocusQuery({"absent": 1.0}, embedder.embed(["Trees grow."])[0], embedder)
    one = find_best_sentences(text, asked, code=False)[0]
    assert text[one.start : one.end] == "Trees grow."


def test_excerpts_together_give_the_same_as_one_by_one() -> None:
    """Fails if a cosine is taken for a sentence of another excerpt."""
    embedder = HashedEmbedder()
    vector = embedder.embed(["Trees grow near boats."])[0]
    asked = FocusQuery({"tree": 0.5, "boat": 0.5}, vector, embedder, ("sail",))
    excerpts = [
        Excerpt("Lanterns glow. Boats sail. Trees grow.", code=False),
        Excerpt("def sail():\n    boat = tree()\n    return boat\n", code=True),
        Excerpt("", code=False),
        Excerpt("Nothing here. Nothing there. Near boats, trees grow.", code=False),
        Excerpt("tree = 1\nboats = trees\n", code=True),
    ]
    alone = [find_best_sentences(text, asked, code=code) for text, code, _ in excerpts]
    assert find_in_each(excerpts, asked) == alone
    assert [len(best) for best in alone] == [3, 3, 0, 3, 2]


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    lines = "\n\n".join(f"Paragraph {number} is about nothing." for number in range(9))
    text = f"# Guide\n\n{lines}\n\nTo revert a release, tag the last good commit.\n"
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "guide.md").write_text(text, encoding="utf-8")
    settings = {"embed.provider": "hash", "index.workers": 1}
    with Library.open(
        tmp_path / "docs", index_dir=tmp_path / "index", settings=settings
    ) as library:
        yield library


def test_hit_reports_where_its_answer_is(library: Library, tmp_path: Path) -> None:
    text = (tmp_path / "docs" / "guide.md").read_text(encoding="utf-8")
    [hit] = library.search("how to revert a release", focus=True).hits
    first = hit.focus[0]
    assert text[first.start : first.end] == "To revert a release, tag the last good commit."
    assert first.start_line == first.end_line == text.count("\n")
    assert hit.document_chars == len(text)


def test_focus_is_not_computed_unless_asked_for(library: Library) -> None:
    assert library.search("how to revert a release").hits[0].focus == ()


def test_sentences_are_split_once_and_scored_for_each_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Seen to fail with sentences that keep the scores of the question before."""
    text = "Cats purr softly at night. Dogs bark loudly in the morning. Birds sing all day."
    splits: list[str] = []

    def note(given: str) -> list[Sentence]:
        splits.append(given)
        return split_sentences(given)

    monkeypatch.setattr(focus, "split_sentences", note)
    focus.forget_sentences()
    for words, first in (("cat", "Cats"), ("dog", "Dogs"), ("bird", "Birds"), ("cat", "Cats")):
        best = find_best_sentences(text, FocusQuery({words: 1.0}), code=False)
        assert text[best[0].start :].startswith(first)
    assert splits == [text]
    find_best_sentences(text, FocusQuery({"cat": 1.0}), code=True)  # Lines are split otherwise.
    assert find_best_sentences(text + " ", FocusQuery({"cat": 1.0}), code=False)
    assert splits == [text, text + " "]
