"""Pages, slides, ranges and cells of an extracted text."""

from __future__ import annotations

import pytest

from lookfar.model import Places
from lookfar.retrieve.locate.places import describe_missing, find_place, list_places, warn_of_more

PAGES: Places = ((0, "page=1"), (100, "page=2"), (100, "page=3"), (250, "page=4"))
"""Page 2 has no text."""
SHEETS: Places = (
    (0, "Budget!A1:F40"),
    (80, "Budget!A41:F60"),
    (120, "Q1 plan!A1:B9"),
    (150, "Q1 plan!D1:E9"),
)


@pytest.mark.parametrize(
    ("start", "end", "labels"),
    [
        (0, 1, ("page=1",)),
        (0, 100, ("page=1",)),
        (99, 101, ("page=1", "page=3")),
        (100, 250, ("page=3",)),
        (249, 9999, ("page=3", "page=4")),
        (0, 9999, ("page=1", "page=3", "page=4")),
    ],
)
def test_a_passage_names_the_places_that_it_is_from(
    start: int, end: int, labels: tuple[str, ...]
) -> None:
    assert list_places(PAGES, start, end) == labels
    assert list_places((), start, end) == ()


@pytest.mark.parametrize(
    ("wanted", "span"),
    [
        ("page=1", (0, 100)),
        ("Page 1", (0, 100)),
        ("page=2", (100, 100)),
        ("page=3", (100, 250)),
        ("page=1-3", (0, 250)),
        ("page=3-99", (100, 400)),
        ("page=4", (250, 400)),
        ("page=5", None),
        ("slide=1", None),
        ("Introduction", None),
    ],
)
def test_a_page_is_found_by_its_number(wanted: str, span: tuple[int, int] | None) -> None:
    assert find_place(PAGES, wanted, 400) == span


def test_a_csv_file_has_cells_without_a_sheet() -> None:
    places: Places = ((0, "A1:F40"), (90, "A41:F60"))
    assert find_place(places, "B50", 120) == (90, 120)
    assert find_place(places, "A1:F41", 120) == (0, 120)


@pytest.mark.parametrize(
    ("wanted", "span"),
    [
        ("Budget!A1:F40", (0, 80)),
        ("budget!B2", (0, 80)),
        ("Budget!A1:F20", (0, 80)),
        ("Budget!$A$39:$F$41", (0, 120)),
        ("Budget!A99:F120", None),
        ("Q1 plan!A1:B2", (120, 150)),
        ("'Q1 plan'!E3", (150, 200)),
        ("Q1 plan!C1:C9", None),
        ("Other!A1", None),
    ],
)
def test_cells_are_found_in_the_parts_of_their_sheet(
    wanted: str, span: tuple[int, int] | None
) -> None:
    assert find_place(SHEETS, wanted, 200) == span


@pytest.mark.parametrize(
    ("places", "wanted", "instead"),
    [
        (PAGES, "page=5", "It has page=1 to page=4."),
        (PAGES[:1], "slide 2", "It has page=1."),
        (SHEETS, "Budget!A99:F120", "It has Budget!A1:F40 to Q1 plan!D1:E9."),
        (PAGES, "Introduction", ""),
        ((), "page=5", ""),
    ],
)
def test_a_missing_page_or_range_is_answered_with_those_there_are(
    places: Places, wanted: str, instead: str
) -> None:
    assert describe_missing(places, wanted) == instead


def test_a_range_that_holds_more_cells_than_asked_for_says_so() -> None:
    labels = ("Budget!A1:F40",)
    (warning,) = warn_of_more(SHEETS, "Budget!A1:F20", labels)
    assert "Budget!A1:F40" in warning
    assert warn_of_more(SHEETS, "Budget!A1:F40", labels) == ()
    assert warn_of_more(PAGES, "page=3", ("page=3",)) == ()
    assert warn_of_more((), "a1", ()) == ()
