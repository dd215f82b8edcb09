"""Passages that contain a part of the question word for word come first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lookfar.library import Library
from lookfar.model import Answer, Filters
from lookfar.retrieve.retrievers import verbatim

pytestmark = pytest.mark.usefixtures("own_home")

HASH = {"embed.provider": "hash", "index.workers": 1}
MESSAGE = "no number is assigned for"
WRITER = f'''def warn(kind, label):
    """Say that something is missing."""
    logger.warning("{MESSAGE} %s: %s", kind, label)
'''


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "figures.py").write_text("import logging\n\n\n" + "x = 1\n" * 40 + WRITER)
    for number in range(60):
        (folder / f"number{number}.md").write_text(
            f"# Assigned number {number}\n\nA number is what is assigned. For no one is it the same"
            " number: assigned numbers are numbers for assigned parts.\n\n"
            "It is what it is, all the same, and nobody minds.\n"
        )
    with Library.open(folder, index_dir=tmp_path / "index", settings=HASH) as opened:
        yield opened


@pytest.mark.parametrize(
    "question",
    [
        MESSAGE,
        f"WARNING: {MESSAGE} figure: fig-one",
        f"why does it say `{MESSAGE}`",
        MESSAGE.upper(),
    ],
)
def test_source_of_a_message_comes_first(library: Library, question: str) -> None:
    """Fails without the stage: the words are common, and the file that writes them is long."""
    assert library.search(question).hits[0].uri == "figures.py"
    hit = library.search(question, explain=True).hits[0]
    assert "word for word" in {step.stage for step in hit.explanation}


def test_matches_are_read_once_and_again_after_an_edit(
    library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen to fail with texts that are kept by their document instead of their content."""

    def note_extent(answer: Answer) -> str:
        steps = [step for hit in answer.hits[:1] for step in hit.explanation]
        return " ".join(step.note for step in steps if step.stage == "word for word")

    verbatim.RECENT_TEXTS.clear()
    read: list[str] = []
    normalise = verbatim._normalise

    def note(text: str) -> str:
        read.append(text)
        return normalise(text)

    monkeypatch.setattr(verbatim, "_normalise", note)
    for _ in range(2):
        assert "100%" in note_extent(library.search(MESSAGE, explain=True))
        assert len([text for text in read if "logger" in text]) == 1
    path = tmp_path / "docs" / "figures.py"
    path.write_text(path.read_text().replace(MESSAGE, "no number was assigned for"))
    library.index()
    assert "100%" not in note_extent(library.search(MESSAGE, explain=True))


def test_common_phrase_boosts_nothing(library: Library) -> None:
    """Fails if a common phrase counts as a quotation."""
    answer = library.search("it is what it is all the same", explain=True)
    assert "word for word" not in {s.stage for hit in answer.hits for s in hit.explanation}


def test_filters_apply_to_verbatim_matches(library: Library) -> None:
    for filters in (Filters(glob="number*.md"), Filters(prefix="number")):
        answer = library.search(MESSAGE, filters=filters)
        assert answer.hits
        assert "figures.py" not in {hit.uri for hit in answer.hits}


def test_boosts_can_be_switched_off(library: Library) -> None:
    from dataclasses import replace

    tuned = replace(library.settings.search, boosts=False)
    answer = library.search(MESSAGE, tuned=tuned, explain=True)
    assert "word for word" not in {s.stage for hit in answer.hits for s in hit.explanation}
