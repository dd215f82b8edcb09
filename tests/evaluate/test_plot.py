"""The SVG is well formed, deterministic, accurate and harmless."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from lookfar.evaluate.compare import compare
from lookfar.evaluate.metrics import METRICS
from lookfar.evaluate.plot import html, svg
from lookfar.evaluate.results import Results, Scored

NAME = "{http://www.w3.org/2000/svg}"


def results(values: list[float], label: str = "mine", query: str = "query") -> Results:
    queries = tuple(
        Scored(str(at), f"{query} {at}", "", str(at), dict.fromkeys(METRICS, value), 1, 1.0, ())
        for at, value in enumerate(values)
    )
    return Results(label, 10, "hybrid", "hash", {}, queries)


def bars(text: str, colour: str) -> list[float]:
    """The lengths of the bars of a colour, whichever way they point."""
    found = [
        each for each in ElementTree.fromstring(text).iter(f"{NAME}rect")
        if each.get("fill") == colour
    ]  # fmt: skip
    return [float(each.get("width", "")) for each in found]


def heights(text: str, colour: str) -> list[float]:
    found = ElementTree.fromstring(text).iter(f"{NAME}rect")
    return [float(each.get("height", "")) for each in found if each.get("fill") == colour]


BLUE, GREEN, RED = "#2f6fb0", "#3a8f5c", "#c0504d"


def test_a_bar_for_each_metric_is_as_long_as_its_mean() -> None:
    # The first is the key to the colours; then the metrics, then the questions.
    widths = bars(svg([results([0.5, 0.5])]), BLUE)[1:5]
    assert widths == pytest.approx([(760 - 110 - 60) / 2] * 4)


def test_a_bar_for_each_question() -> None:
    shown = heights(svg([results([1.0, 0.25, 0.5])]), BLUE)[5:]
    assert shown == pytest.approx([200, 100, 50])


def test_changes_point_up_and_down() -> None:
    before, after = results([0.5, 0.5, 0.5, 0.5]), results([1.0, 0.0, 0.5, 0.75])
    text = svg([after, before], compare(after, before))
    assert heights(text, GREEN) == pytest.approx([50, 25])
    # What did not change is a bar of no height.
    assert heights(text, RED) == pytest.approx([0, 50])
    assert "2 better, 1 worse, 1 equal" in text


def test_many_questions_are_thinned_out() -> None:
    text = svg([results([0.5] * 1500)])
    assert len(heights(text, BLUE)) == 5 + 500
    assert "one in 3 of 1500 questions" in text


def test_it_is_the_same_every_time() -> None:
    before, after = results([0.5, 0.1, 0.9]), results([0.1, 0.5, 1.0])
    drawn = {svg([after, before], compare(after, before)) for _ in range(3)}
    assert len(drawn) == 1


def test_hostile_texts_stay_text() -> None:
    evil = "</text><script>alert(1)</script>\x00\x1b[31m\ud800 & \"'"
    made = results([0.5], label=evil, query=evil)
    for text in (svg([made]), html([made])):
        assert "<script" not in text
        assert "\x00" not in text
        assert "\x1b" not in text
        text.encode("utf-8")
    tree = ElementTree.fromstring(svg([made]))
    assert {each.tag.removeprefix(NAME) for each in tree.iter()} <= {
        "svg", "rect", "line", "text", "title",
    }  # fmt: skip


def test_the_html_page_contains_the_svg() -> None:
    made = results([0.5])
    page = html([made])
    assert page.startswith("<!doctype html>")
    assert svg([made]) in page
