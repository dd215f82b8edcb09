"""On which index a configuration is measured: never on one that it would change."""

from __future__ import annotations

from pathlib import Path

import pytest

from lookfar import Library
from lookfar.errors import InvalidArgument
from lookfar.evaluate import Configuration, Judged, Relevant, evaluate, open_configuration

SETTINGS = {"embed.provider": "hash", "chunk.merge_small": False, "chunk.min_tokens": 0}
QUESTION = Judged("q", "until spring", (Relevant("fruit.md"),))


def state(folder: Path) -> dict[str, bytes]:
    """Every file of an index that says what is served."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name in ("CURRENT", "vectors.f16", "catalogue.db")
    }


@pytest.mark.parametrize(
    ("changed", "own"),
    [
        ({}, False),
        ({"search.mode": "keyword"}, False),
        ({"search.vector_weight": 0.9, "search.boosts": False}, False),
        ({"chunk.max_tokens": 64}, True),
        ({"embed.provider": "none"}, True),
        ({"sources.exclude": ["roads.md"]}, True),
    ],
)
def test_the_users_index_is_not_changed(
    library: Library, folder: Path, tmp_path: Path, changed: dict[str, object], own: bool
) -> None:
    library.close()
    before = state(tmp_path / "indexes")
    assert before
    configuration = Configuration("x", {**SETTINGS, **changed})
    with open_configuration(
        [folder], configuration, elsewhere=tmp_path / "away", index_dir=tmp_path / "indexes"
    ) as measured:
        results = evaluate(measured, [QUESTION])
        assert measured.index_dir.is_relative_to(tmp_path / ("away" if own else "indexes"))
    assert results.queries[0].rank
    assert (tmp_path / "away").exists() is own
    after = state(tmp_path / "indexes")
    assert list(after) == list(before)
    assert {name: after[name] for name in after if "catalogue" not in name} == {
        name: before[name] for name in before if "catalogue" not in name
    }
    with Library.open(folder, index_dir=tmp_path / "indexes", settings=SETTINGS) as again:
        status = again.status(check=False)
        assert (status.generation, status.current, status.counts.documents) == (1, True, 4)


def test_a_folder_never_indexed_is_indexed_as_for_a_search(folder: Path, tmp_path: Path) -> None:
    configuration = Configuration("x", SETTINGS)
    with open_configuration(
        [folder], configuration, elsewhere=tmp_path / "away", index_dir=tmp_path / "indexes"
    ) as measured:
        evaluate(measured, [QUESTION])
    with Library.open(folder, index_dir=tmp_path / "indexes", settings=SETTINGS) as again:
        assert again.indexed


def test_an_index_elsewhere_serves_again(folder: Path, library: Library, tmp_path: Path) -> None:
    places = []
    for mode in ("keyword", "hybrid"):
        settings = {**SETTINGS, "chunk.max_tokens": 64, "search.mode": mode}
        with open_configuration(
            [folder],
            Configuration(mode, settings),
            elsewhere=tmp_path,
            index_dir=tmp_path / "indexes",
        ) as measured:
            evaluate(measured, [QUESTION])
            places.append(measured.index_dir)
            assert measured.status(check=False).generations == (1,)
    assert places[0] == places[1]


def test_generations_need_the_index_that_has_them(
    folder: Path, library: Library, tmp_path: Path
) -> None:
    with (
        pytest.raises(InvalidArgument, match="Generation 1 was not made with the settings of 'x'"),
        open_configuration(
            [folder],
            Configuration("x", {**SETTINGS, "chunk.max_tokens": 64}, as_of=1),
            elsewhere=tmp_path,
            index_dir=tmp_path / "indexes",
        ),
    ):
        raise AssertionError("it was open_configuration")


def test_all_questions_see_the_same_state(folder: Path, library: Library, tmp_path: Path) -> None:
    """What changes meanwhile is not looked at: the first question saw the disk."""
    with open_configuration(
        [folder], Configuration("x", SETTINGS), elsewhere=tmp_path, index_dir=tmp_path / "indexes"
    ) as measured:
        evaluate(measured, [QUESTION])
        (folder / "fruit.md").write_text("# Other\n")
        assert evaluate(measured, [QUESTION]).generations == {"farm": 1}
