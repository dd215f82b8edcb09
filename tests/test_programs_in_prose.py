"""Code blocks in Markdown, searched by their language.

Proved by mutation: these tests fail if passages are not narrowed to their programs, if programs of
another language are admitted, or if words of the prose find a program.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lookfar.library import Library
from lookfar.model import Filters

GUIDE = """# Guide

## Users

Prose about giraffes comes first, and about how users are looked up.

```python
def getUserById(user_id):
    return store.find(user_id)
```

Between them stands prose about giraffes, too.

```python
def deleteUser(user_id):
    store.drop(user_id)
```

```sh
curl -X POST http://localhost/users
```

    an indented block without a language
"""
NOTES = "# Notes\n\ngetUserById is only talked about here, and so is deleteUser.\n"
PYTHON = Filters(languages=("python",))


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "guide.md").write_text(GUIDE)
    (folder / "notes.md").write_text(NOTES)
    (folder / "users.py").write_text("def rename_user(user_id):\n    return user_id\n")
    settings = {"embed.provider": "hash"}
    with Library.open(folder, index_dir=tmp_path / "indexes", settings=settings) as library:
        library.index()
        yield library


@pytest.mark.parametrize("mode", ["hybrid", "keyword"])
@pytest.mark.parametrize("query", ["getUserById", "find user by id", "store find"])
def test_program_is_found_and_cited_on_its_own(library: Library, query: str, mode: str) -> None:
    hits = library.search(query, mode=mode, filters=PYTHON).hits  # type: ignore[arg-type]
    hit = next(hit for hit in hits if hit.uri == "guide.md")
    assert hit.text == "```python\ndef getUserById(user_id):\n    return store.find(user_id)\n```\n"
    assert (hit.span.start_line, hit.span.end_line) == (7, 10)
    assert GUIDE[hit.span.start : hit.span.end] == hit.text
    assert hit.heading_path[0] == "Guide"
    assert hit.state == "same"
    assert library.read(f"guide.md:{hit.span.start_line}-{hit.span.end_line}").text == hit.text


def test_programs_of_a_page_are_separate_hits(library: Library) -> None:
    deleted = library.search("drop deleteUser", filters=PYTHON).hits
    assert deleted[0].text.startswith("```python\ndef deleteUser")
    both = library.search("user_id", mode="keyword", filters=PYTHON).hits
    assert sorted(hit.text.split("(")[0].split()[-1] for hit in both) == [
        *("deleteUser", "getUserById", "rename_user"),
    ]
    assert {hit.uri for hit in both} == {"guide.md", "users.py"}, "and code is found as ever"
    one = library.search(
        "user_id", mode="keyword", filters=Filters(languages=("python",), uris=("guide.md",))
    ).hits
    assert len(one) == 2


def test_language_is_that_of_the_block(library: Library) -> None:
    (shell,) = library.search("users", mode="keyword", filters=Filters(languages=("bash",))).hits
    assert shell.text == "```sh\ncurl -X POST http://localhost/users\n```\n"
    assert not library.search("users", filters=Filters(languages=("haskell",))).hits


def test_prose_around_a_program_does_not_find_it(library: Library) -> None:
    assert library.search("giraffes", mode="keyword").hits
    assert not library.search("giraffes", mode="keyword", filters=PYTHON).hits


def test_page_in_the_requested_language_is_not_split(library: Library) -> None:
    hit = library.search("giraffes", filters=Filters(languages=("markdown",))).hits[0]
    assert "Between them stands prose" in hit.text


def test_edited_program_is_found(library: Library, tmp_path: Path) -> None:
    file = tmp_path / "docs" / "guide.md"
    file.write_text(GUIDE.replace("store.find", "store.fetch"))
    hit = library.search("store fetch", filters=PYTHON).hits[0]
    assert "store.fetch" in hit.text
    assert hit.state == "same"


def test_without_a_language_passages_are_unchanged(library: Library) -> None:
    hit = library.search("getUserById", mode="keyword").hits[0]
    assert hit.text != "```python\ndef getUserById(user_id):\n    return store.find(user_id)\n```\n"


def test_a_program_that_hardly_fits_is_shown_with_low_confidence(tmp_path: Path) -> None:
    """Seen to fail with a damaged index: a program has no number of a document in the index."""
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "guide.md").write_text(GUIDE)
    for number in range(200):  # Among few documents, hardly anything is doubted.
        (folder / f"{number}.md").write_text(f"# Parcel {number}\n\nIt weighs {number} grams.\n")
    with Library.open(folder, index_dir=tmp_path / "indexes") as library:
        answer = library.search(
            "prose on how penguins breed in antarctic winter storms", filters=PYTHON
        )
    assert answer.confidence == "low"
    assert [hit.text.splitlines()[0] for hit in answer.hits] == ["```python", "```python"]
