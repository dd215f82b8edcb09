"""What programs may rely on: the names of the package, and that threads may share a library."""

from __future__ import annotations

import asyncio
import shutil
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import pytest

import lookfar
from python_programs import run_python

NAMES = [
    "Answer", "Edit", "Filters", "GenerationDiff", "GenerationInfo", "Hit", "IndexReport",
    "Library", "LookfarError", "Outline", "Reading", "Related", "Span", "Status", "__version__",
]  # fmt: skip
HANDBOOK = Path(__file__).parent.parent / "examples" / "handbook"


@pytest.fixture
def library(tmp_path: Path) -> Iterator[lookfar.Library]:
    shutil.copytree(HANDBOOK, tmp_path / "handbook")
    with lookfar.Library.open(
        tmp_path / "handbook",
        index_dir=tmp_path / "indexes",
        settings={"embed.provider": "hash"},
    ) as library:
        yield library


def test_the_names_are_pinned() -> None:
    assert sorted(lookfar.__all__) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_each_name_can_be_imported(name: str) -> None:
    assert getattr(lookfar, name) is not None


def test_other_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="Librarian"):
        lookfar.Librarian  # noqa: B018


def test_the_version_is_that_of_the_package() -> None:
    """It is read from the package when a wheel is built, so there is no second place."""
    text = (HANDBOOK.parent.parent / "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(text)
    assert "version" not in project["project"]
    assert project["project"]["dynamic"] == ["version"]
    source = HANDBOOK.parent.parent / project["tool"]["hatch"]["version"]["path"]
    assert f'\n__version__ = "{lookfar.__version__}"\n' in source.read_text(encoding="utf-8")


def test_importing_the_package_is_instant() -> None:
    program = "import sys, lookfar; print(*sys.modules)"
    modules = run_python(program).stdout.split()
    assert not {"numpy", "click", "lookfar.library"} & set(modules)


def test_results_are_frozen(library: lookfar.Library) -> None:
    answer = library.search("keys")
    assert isinstance(answer, lookfar.Answer)
    assert isinstance(answer.hits[0], lookfar.Hit)
    assert isinstance(answer.hits[0].span, lookfar.Span)
    with pytest.raises(FrozenInstanceError):
        answer.hits[0].uri = "other"  # type: ignore[misc]


def test_lane_is_an_alias_of_kind(library: lookfar.Library) -> None:
    filters = lookfar.Filters(kinds=("docs",))
    assert filters == lookfar.Filters(lanes=("docs",))
    assert filters.kinds == filters.lanes == ("docs",)
    # mypy knows only the fields, and `kinds` is an argument without a field.
    coded = replace(filters, kinds=("code",))  # type: ignore[call-arg]
    assert coded == replace(filters, lanes=("code",))
    assert not replace(filters, lanes=())
    assert {hit.kind for hit in library.search("release", filters=filters).hits} == {"docs"}
    assert not library.search("release", filters=lookfar.Filters(kinds=("commits",))).hits


def test_each_call_returns_the_documented_type(library: lookfar.Library) -> None:
    assert not library.indexed
    assert isinstance(library.index(), lookfar.IndexReport)
    assert library.indexed
    assert isinstance(library.read("onboarding.md"), lookfar.Reading)
    assert isinstance(library.outline("onboarding.md"), lookfar.Outline)
    assert isinstance(library.related("onboarding.md"), lookfar.Related)
    assert isinstance(library.status(), lookfar.Status)
    with pytest.raises(lookfar.LookfarError):
        library.read("absent.md")


def test_an_edit_needs_only_public_names(library: lookfar.Library) -> None:
    edit = lookfar.Edit("append", "onboarding.md", text="One more line.")
    result = library.edit(edit, dry_run=True)
    assert result.dry_run
    assert [document.uri for document in result.documents] == ["onboarding.md"]


QUESTIONS = ("signing key", "first week", "undo a migration", "ship a release") * 8


def test_threads_may_share_a_library(library: lookfar.Library) -> None:
    library.index()
    alone = [[hit.chunk_id for hit in library.search(thread).hits] for thread in QUESTIONS]
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(library.search, QUESTIONS))
    assert [[hit.chunk_id for hit in answer.hits] for answer in answers] == alone


def test_threads_may_start_on_a_folder_never_indexed(library: lookfar.Library) -> None:
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(library.search, QUESTIONS[:8]))
    assert all(answer.hits for answer in answers)


def test_threads_may_index_while_others_search(library: lookfar.Library, tmp_path: Path) -> None:
    library.index()

    def change(number: int) -> None:
        (tmp_path / "handbook" / f"new-{number}.md").write_text(f"# New {number}\n\nsigning key\n")
        library.index(wait_seconds=30)

    with ThreadPoolExecutor(6) as threads:
        changes = [threads.submit(change, number) for number in range(4)]
        answers = list(threads.map(library.search, QUESTIONS))
        for thread in changes:
            thread.result()
    assert all(answer.hits for answer in answers)
    assert library.status().counts.documents == 8


def test_async_code_calls_it_through_threads(library: lookfar.Library) -> None:
    async def ask() -> list[lookfar.Answer]:
        return await asyncio.gather(
            *(asyncio.to_thread(library.search, question) for question in QUESTIONS[:8])
        )

    assert [answer.hits[0].uri for answer in asyncio.run(ask())[:2]] == [
        "security/keys.md",
        "onboarding.md",
    ]
