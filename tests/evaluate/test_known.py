"""Questions made from a corpus: the same every time, answerable, and not given away."""

from __future__ import annotations

from pathlib import Path

import pytest

from lookfar import Library
from lookfar.errors import InvalidArgument
from lookfar.evaluate import Judged, evaluate, known_items
from lookfar.evaluate.known import _extract_prose
from lookfar.model import Page, PageChunk


def by_kind(made: list[Judged]) -> dict[str, list[Judged]]:
    return {
        kind: [question for question in made if question.category == kind]
        for kind in dict.fromkeys(question.category for question in made)
    }


def test_each_kind_of_question(library: Library) -> None:
    made = by_kind(known_items(library))
    assert list(made) == ["heading", "opening", "sentence", "docstring"]
    assert {len(made[kind]) for kind in ("heading", "opening", "sentence")} == {3}
    assert {question.relevant[0].target.partition("#")[0] for question in made["heading"]} == {
        "fruit.md",
        "roads.md",
        "tools.md",
    }
    assert all(len(question.relevant) == 1 for kind in made for question in made[kind])


def test_a_heading_question_targets_its_section(library: Library) -> None:
    (winter,) = [
        question
        for question in known_items(library)
        if question.category == "heading" and "roads" in question.id
    ]  # fmt: skip
    assert winter.query == "Roads Winter"
    assert winter.relevant[0].target == "roads.md#Roads > Winter"


def test_a_docstring_question_targets_its_definition(library: Library) -> None:
    (made,) = by_kind(known_items(library))["docstring"]
    assert made.relevant[0].target in ("shelf.py#Shelf", "shelf.py#Shelf > put")
    # Neither the name of what is looked for nor that of its file is in the question.
    words = made.query.lower().split()
    assert "shelf" not in words
    assert "put" not in words


def test_words_that_give_the_page_away_are_removed(library: Library) -> None:
    made = {question.id: question.query for question in known_items(library)}
    # "Ladders and crates belong inside the barn before dawn.": a heading says Ladders, and no
    # other page says belong or inside. What is left are enough words that others have too.
    assert made["opening: tools.md"] == "and crates the barn before dawn"
    # "Cobbled roads lead from the barn towards the southern market.": the page is called Roads.
    assert "roads" not in made["opening: roads.md"].lower()


def test_rare_words_stay_in_a_small_corpus(tmp_path: Path) -> None:
    (tmp_path / "lone").mkdir()
    (tmp_path / "lone" / "only.md").write_text("# Only\n\nQuartz glimmers beneath silent water.\n")
    with Library.open(
        tmp_path / "lone", index_dir=tmp_path / "i", settings={"embed.provider": "hash"}
    ) as library:
        made = known_items(library)
    assert [question.query for question in made] == ["Quartz glimmers beneath silent water"]


def test_every_question_can_be_answered(library: Library) -> None:
    made = known_items(library)
    results = evaluate(library, made)
    assert results.missing == ()
    assert results.mean("recall") > 0.9
    assert list(results.categories()) == ["docstring", "heading", "opening", "sentence"]


def test_questions_depend_on_corpus_and_seed_alone(library: Library, folder: Path) -> None:
    first = known_items(library, seed=1)
    assert first == known_items(library, seed=1)
    assert {seed: known_items(library, seed=seed) for seed in range(8)}[1] == first
    assert any(known_items(library, seed=seed) != first for seed in range(2, 8))
    with Library.open(
        folder, index_dir=folder.parent / "again", settings={"embed.provider": "hash"}
    ) as again:
        assert known_items(again, seed=1) == first


def test_a_new_document_moves_no_other_heading(library: Library, folder: Path) -> None:
    before = by_kind(known_items(library))["heading"]
    (folder / "wells.md").write_text("# Wells\n\n## Deep water\n\nDig until it is wet.\n")
    library.index()
    after = by_kind(known_items(library))["heading"]
    assert [question for question in after if "wells" not in question.id] == before
    assert len(after) == len(before) + 1


@pytest.mark.parametrize("count", [1, 2, 5, 7])
def test_the_count_is_spread_evenly(library: Library, count: int) -> None:
    made = known_items(library, count=count)
    assert len(made) == count
    sizes = [len(question) for kind, question in by_kind(made).items() if kind != "docstring"]
    assert max(sizes) - min(sizes) <= 1


def test_headings_of_several_pages_are_not_used(library: Library, folder: Path) -> None:
    for name in ("x.md", "y.md"):
        (folder / name).write_text("# Common heading\n\n## Shared part\n\nText.\n")
    library.index()
    made = by_kind(known_items(library))["heading"]
    assert not [question for question in made if "ommon" in question.query]


@pytest.mark.parametrize(
    "text",
    [
        "# Lonely headline words\n\nText.\n",
        '# Page\n\n## {{% heading "options" %}}\n\nText.\n',
        "# Page\n\n## Menu > Settings pane\n\nText.\n",
    ],
)
def test_headings_that_do_not_identify_a_section(library: Library, folder: Path, text: str) -> None:
    (folder / "x.md").write_text(text)
    library.index()
    made = known_items(library)
    assert made
    assert not [question for question in made if question.id.startswith("heading: x.md")]


def test_sentences_of_several_pages_are_not_used(library: Library, folder: Path) -> None:
    for name in ("x.md", "y.md"):
        (folder / name).write_text(f"# {name}\n\nSubscribe below before spring orchards bloom.\n")
    library.index()
    made = known_items(library)
    assert made
    assert not [question for question in made if question.query.startswith("Subscribe")]


def test_several_folders_are_told_apart(tmp_path: Path) -> None:
    for name, thing in (("north", "snow"), ("south", "sand")):
        (tmp_path / name).mkdir()
        text = f"# The {thing}\n\nSome {thing} covers every field around this village.\n"
        (tmp_path / name / "a.md").write_text(text)
    with Library.open(
        tmp_path / "north", tmp_path / "south",
        index_dir=tmp_path / "i", settings={"embed.provider": "hash"},
    ) as library:  # fmt: skip
        made = known_items(library)
        targets = {question.relevant[0].target for question in made}
        assert "lookfar://north/a.md" in targets | {t.partition("#")[0] for t in targets}
        assert evaluate(library, made).missing == ()


def test_a_folder_without_sentences_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "a.md").write_text("x\n")
    with (
        Library.open(
            tmp_path / "bare", index_dir=tmp_path / "i", settings={"embed.provider": "hash"}
        ) as library,
        pytest.raises(InvalidArgument, match="No question can be made"),
    ):
        known_items(library)


def test_a_count_below_one_is_rejected(library: Library) -> None:
    with pytest.raises(InvalidArgument):
        known_items(library, count=0)


def test_prose_excludes_code_tables_and_lists() -> None:
    text = """---
title: x
---
# Title
Right below. And more!

| a | b |

- a list

```sh
code here

more code
```

    indented code

Under
-----
See [the *guide*](g.md) and [[page|a page]], `now`.

日本語の文です。次の文です。
"""
    start = text.index("# Title")
    page = Page("c", "a.md", text, 0, (), (PageChunk("i", (), 1, start, len(text)),))
    assert _extract_prose(page) == [
        "Right below.",
        "And more!",
        "See the guide and a page, now.",
        "日本語の文です。",
        "次の文です。",
    ]
