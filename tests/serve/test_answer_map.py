"""The short answer: documents, their places, and the lines that answer."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Literal

import pytest

from harness import amount
from lookfar.model import Hit, Span
from lookfar.retrieve.answer.pack import tokens
from lookfar.retrieve.ranking import Rated
from lookfar.serve.show.answer_map import Question, draw_map, find_showable, name_document


def hit(uri: str, text: str, *, score: float = 1.0, line: int = 1, focus: str = "") -> Hit:
    """A hit whose best sentence is ``focus``."""
    span = Span(100 * line, 100 * line + len(text), line, line + text.rstrip("\n").count("\n"))
    spans: tuple[Span, ...] = ()
    if focus:
        at = text.index(focus)
        first = line + text.count("\n", 0, at)
        start = span.start + at
        spans = (Span(start, start + len(focus), first, first + focus.count("\n")),)
    return Hit(
        collection="docs", uri=uri, title="", heading_path=("Heading",), path=("Heading",),
        span=span, sha256="", lane="docs", score=score, text=text, truncated=False, state="same",
        chunk_id=f"{uri}{line}", focus=spans, document_chars=4 * len(text),
    )  # fmt: skip


def drawn(*hits: Hit, budget: int = 800, **more: object) -> str:
    return draw_map([Question("q", hits)], budget, describe=named, **more).text  # type: ignore[arg-type]


def named(found: Hit) -> str:
    return name_document(found, several=False)


LONG = "".join(f"Line {number} of the text.\n" for number in range(1, 41))


def test_the_first_places_show_the_lines_around_the_answer() -> None:
    text = drawn(hit("a.md", LONG, focus="Line 20 of the text."), budget=200)
    assert text.startswith("a.md\n  1-40 Heading\n")
    assert "    20| Line 20 of the text." in text
    assert "    18| Line 18 of the text." in text
    assert "Line 1 of" not in text
    assert "Line 39" not in text


def test_places_of_one_document_are_below_one_name() -> None:
    text = drawn(
        hit("a.md", LONG, focus="Line 3 of the text."),
        hit("b.md", "Other.\n", score=0.9),
        hit("a.md", "Further.\n", score=0.8, line=60),
    )
    assert [line for line in text.split("\n") if not line.startswith(" ")] == ["a.md", "b.md"]
    assert "  60 Heading\n    60| Further." in text


def test_later_places_show_their_best_sentence() -> None:
    hits = [
        hit(f"{number}.md", LONG, score=1 - number / 100, focus="Line 7 of the text.")
        for number in range(6)
    ]
    text = drawn(*hits, budget=120)
    assert "5.md\n  1-40 Heading | 7: Line 7 of the text." in text


def test_the_map_ends_where_the_score_drops() -> None:
    scores = {"a.md": 5.0, "b.md": 1.0, "c.md": 0.9, "d.md": 0.7, "e.md": 0.6}
    hits = [hit(uri, "A text.\n", score=score) for uri, score in scores.items()]
    found = draw_map([Question("q", hits)], 800, describe=named)
    assert found.documents == (4,), "the lead of the first says nothing about the others"
    assert found.more, "what is behind the drop comes with the cursor"
    following = draw_map([Question("q", hits)], 800, skip=(4,), describe=named)
    assert following.text.startswith("e.md")
    assert not following.more


@pytest.mark.parametrize("budget", [100, 300, 800, 3_000, 10_000])
def test_a_budget_is_kept(budget: int) -> None:
    hits = [
        hit(f"{number}.md", LONG * 3, score=1 - number / 100, focus="Line 7 of the text.")
        for number in range(20)
    ]
    found = draw_map([Question("q", hits)], budget, describe=named)
    assert found.documents[0] >= 1
    assert tokens(found.text) <= budget * 1.05
    assert tokens(found.text) >= min(budget, 400) * 0.4


def test_a_larger_budget_shows_more_lines() -> None:
    one = hit("a.md", LONG, focus="Line 20 of the text.")
    assert drawn(one, budget=3_000).count("\n") > 1.5 * drawn(one, budget=150).count("\n")


def test_paths_alone() -> None:
    text = drawn(
        hit("a.md", LONG), hit("a.md", "x y z\n", line=50), hit("b.md", "Z.\n"), paths=True
    )
    assert text == "a.md:1-40,50\nb.md:1"


def test_several_questions_repeat_nothing() -> None:
    one = hit("a.md", LONG, focus="Line 20 of the text.")
    other = hit("a.md", "Further words.\n", line=60)
    found = draw_map(
        [Question("first?", [one]), Question("second?", [one, other]), Question("third?", [])],
        2_000,
        describe=named,
    )
    assert found.text.count("Line 20 of the text.") == 1
    assert "[2] second?\na.md (above)\n  60 Heading\n    60| Further words." in found.text
    assert "[3] third?\nNothing found." in found.text
    assert found.documents == (1, 1, 0)


def test_a_limit_counts_hits() -> None:
    hits = [hit(f"{number}.md", "A text.\n", score=1 - number / 2) for number in range(3)]
    found = draw_map([Question("q", hits)], 800, limit=2, describe=named)
    assert [place.hit.uri for place in found.shown[0]] == ["0.md", "1.md"]
    assert found.more


def test_the_shown_part_of_each_hit_is_reported() -> None:
    found = draw_map(
        [Question("q", [hit("a.md", LONG, focus="Line 20 of the text.")])], 800, describe=named
    )
    [[shown]] = found.shown
    assert "Line 20 of the text." in shown.excerpt
    assert all(line in LONG for line in shown.excerpt.split("\n"))


def test_a_document_cannot_forge_a_line_of_ours() -> None:
    """Seen to fail with lines of documents shown without their indent."""
    text = "Good.\x0bother.md\u2028evil.md\nother.md\n\x1b[2Jkeys.md\n"
    shown = drawn(hit("a.md", text, focus="Good."))
    assert [line for line in shown.split("\n") if not line.startswith(" ")] == ["a.md"]
    assert not set("\x0b\x1b\u2028") & set(shown)


def test_a_long_line_is_cut_around_the_answer() -> None:
    line = "word " * 200 + "the answer is 42. " + "word " * 200
    shown = drawn(hit("a.md", line + "\n", focus="the answer is 42."))
    assert "the answer is 42." in shown
    assert len(shown) < 400


def test_a_title_is_shown_where_the_path_does_not_say_it() -> None:
    one = hit("guide/assign-pods-nodes.md", "Text.\n")
    assert named(replace(one, title="Assign Pods Nodes")) == "guide/assign-pods-nodes.md"
    assert named(replace(one, title="Scheduling")) == "guide/assign-pods-nodes.md  Scheduling"
    assert named(replace(one, state="changed")).endswith("(changed on disk)")


def test_the_definition_around_the_answer_is_shown() -> None:
    body = "".join(f"    step_{number}()\n" for number in range(30))
    code = replace(hit("a.py", f"def outer():\n{body}", focus="    step_20()"), lane="code")
    assert "    1| def outer():\n" in drawn(code, budget=150)
    ended = f"def outer():\n    pass\n\nvalue = 1\n{body}"
    other = replace(hit("a.py", ended, focus="    step_20()"), lane="code")
    assert "def outer" not in drawn(other, budget=150)


def test_a_short_definition_is_shown_whole_among_several_questions() -> None:
    text = (
        "import os\n\n\ndef put(value):\n    check(value)\n    return keep(value)\n\n\nLAST = 1\n"
    )
    one = replace(hit("a.py", text, focus="    check(value)"), lane="code", focus_lines=(4, 6))
    found = draw_map([Question("a", [one]), Question("b", [])], 400, describe=named)
    assert (
        "    4| def put(value):\n    5|     check(value)\n    6|     return keep(value)\n"
        in found.text
    )
    long = replace(one, focus_lines=(1, 60))
    text = draw_map([Question("a", [long]), Question("b", [])], 400, describe=named).text
    assert "    5|     check(value)" in text
    assert "LAST" not in text


def test_the_best_page_is_shown_beside_code_that_crowds_it_out() -> None:
    code = [
        replace(hit(f"{n}.py", "x = 1\ny = 2\n", score=5 - n / 10), lane="code") for n in range(9)
    ]
    page = hit("page.md", "The answer.\n", score=1.0)
    assert "page.md" in drawn(*code, page)
    assert "page.md" not in drawn(*code, page, limit=5)


def test_long_addresses_are_shortened() -> None:
    line = "See [the page](https://example.org/a/very/long/address?with=much#more) for it.\n"
    assert "See [the page](https://example.org/…) for it." in drawn(hit("a.md", line))


def test_only_hits_that_were_announced_are_shown() -> None:
    """Seen to fail without the best document of each kind, and with one document fewer."""
    spared = 0
    for seed in range(amount(300, 10_000)):
        chosen = random.Random(seed)
        lanes: tuple[Literal["docs", "code", "commits"], ...] = ("docs", "code", "commits")
        kinds = {f"{number}.md": chosen.choice(lanes[: 1 + seed % 3]) for number in range(20)}
        scores = sorted((chosen.random() ** 2 for _ in range(25)), reverse=True)
        hits = []
        for number, score in enumerate(scores):
            uri = chosen.choice(list(kinds))
            text = "word " * chosen.randint(1, 60) + "\n"
            made = hit(uri, text, score=round(score, 6), line=1 + 40 * number)
            hits.append(replace(made, lane=kinds[uri]))
        budget = chosen.choice((100, 400, 950, 3_000))
        rated = [Rated(each.collection, each.uri, each.lane, each.score) for each in hits]
        announced = find_showable(rated, budget)
        spared += len(hits) - len(announced)
        for smaller in (budget, budget // 2):
            answer_map = draw_map([Question("q", hits)], smaller, describe=named)
            shown = {hits.index(place.hit) for place in answer_map.shown[0]}
            assert shown <= announced, seed
    assert spared
