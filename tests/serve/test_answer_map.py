"""The short answer: documents, their places, and the lines that answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from lookfar.model import Hit, Span, Unit
from lookfar.retrieve.answer.pack import tokens
from lookfar.serve.show.answer_map import Drawn, draw_paths, draw_question, name_document


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


def unit(uri: str, name: str, line: int, *, lane: str = "code", score: float = 1.0) -> Unit:
    """A definition, or a section in a document."""
    span = Span(100 * line, 100 * line + 50, line, line + 4)
    kind = "function" if lane == "code" else "section"
    return Unit("docs", uri, tuple(name.split(".")), kind, lane, span, score, line)  # type: ignore[arg-type]


def lay_out(
    hits: Sequence[Hit],
    *units: Unit,
    budget: int = 800,
    limit: int = 0,
    seen: set[tuple[str, str, int]] | None = None,
) -> Drawn:
    """The map of hits, which are sections, and of what is only named."""
    own = [
        Unit(each.collection, each.uri, each.path, "section", each.lane, each.span, each.score)
        for each in hits
    ]
    known = seen if seen is not None else set()
    return draw_question(hits, [*own, *units], budget, limit, known, named)


def drawn(*hits: Hit, budget: int = 800) -> str:
    return lay_out(hits, budget=budget).text


def named(item: Hit | Unit) -> str:
    return item.uri if isinstance(item, Unit) else name_document(item, several=False)


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


def test_what_follows_the_best_places_is_only_named() -> None:
    hits = [hit(f"{number}.md", LONG, focus="Line 7 of the text.") for number in range(5)]
    code = unit("src/a.py", "Session.get", 12), unit("src/a.py", "Session.put", 30)
    found = lay_out(hits, *code, budget=650)
    assert [shown.hit.uri for shown in found.shown] == ["0.md", "1.md", "2.md"]
    assert found.text.endswith(
        "3.md  Heading:1\n4.md  Heading:1\nsrc/a.py  Session.get:12, .put:30"
    )
    assert found.reached == 7


def test_further_names_of_a_shown_document_are_below_its_places() -> None:
    found = lay_out([hit("a.md", "Some words.\n")], unit("a.md", "Guide.Limits", 40, lane="docs"))
    assert found.text == "a.md\n  1 Heading\n    1| Some words.\n  also Guide > Limits:40"


def test_names_end_where_the_budget_ends() -> None:
    units = [unit(f"src/module_{number}.py", "a_function_with_a_name", 9) for number in range(99)]
    found = lay_out([], *units, budget=200)
    assert 8 <= len(found.named) == found.reached < 24
    assert tokens(found.text) <= 200


@pytest.mark.parametrize("budget", [100, 300, 800, 3_000, 10_000])
def test_a_budget_is_kept(budget: int) -> None:
    hits = [
        hit(f"{number}.md", LONG * 3, score=1 - number / 100, focus="Line 7 of the text.")
        for number in range(20)
    ]
    found = lay_out(hits, budget=budget)
    assert found.shown
    assert tokens(found.text) <= budget * 1.05
    assert tokens(found.text) >= min(budget, 400) * 0.4


def test_a_larger_budget_shows_more_lines() -> None:
    one = hit("a.md", LONG, focus="Line 20 of the text.")
    assert drawn(one, budget=3_000).count("\n") > 1.5 * drawn(one, budget=150).count("\n")


def test_a_larger_budget_shows_more_places() -> None:
    hits = [hit(f"{number}.md", LONG, focus="Line 7 of the text.") for number in range(20)]
    assert len(lay_out(hits, budget=1_500).shown) > 10


def test_paths_alone() -> None:
    units = [unit("a.md", "A", 1), unit("a.md", "B", 50), unit("b.md", "C", 1)]
    assert draw_paths(units, 800, named).text == "a.md:1-5,50-54\nb.md:1-5"


def test_several_questions_repeat_nothing() -> None:
    one = hit("a.md", LONG, focus="Line 20 of the text.")
    other = hit("a.md", "Further words.\n", line=60)
    seen: set[tuple[str, str, int]] = set()
    assert "Line 20 of the text." in lay_out([one], seen=seen).text
    second = lay_out([one, other], seen=seen).text
    assert second == "a.md\n  60 Heading\n    60| Further words.\n  also Heading:20"


@pytest.mark.parametrize("budget", [120, 800])
def test_each_question_shows_its_own_line_of_a_place(budget: int) -> None:
    """Seen to fail when a place that an earlier question showed was only named."""
    seen: set[tuple[str, str, int]] = set()
    lay_out([hit("a.md", LONG, focus="Line 9 of the text.")], seen=seen, budget=60)
    second = lay_out([hit("a.md", LONG, focus="Line 30 of the text.")], seen=seen, budget=budget)
    assert "30| Line 30 of the text." in second.text
    assert "Line 9 of the text." not in second.text


def test_a_limit_counts_hits() -> None:
    hits = [hit(f"{number}.md", "A text.\n", score=1 - number / 2) for number in range(3)]
    found = lay_out(hits, limit=2)
    assert [shown.hit.uri for shown in found.shown] == ["0.md", "1.md"]
    assert (found.named, found.reached) == ([], 2)


def test_the_shown_part_of_each_hit_is_reported() -> None:
    [shown] = lay_out([hit("a.md", LONG, focus="Line 20 of the text.")]).shown
    assert "Line 20 of the text." in shown.excerpt
    assert all(line in LONG for line in shown.excerpt.split("\n"))


def test_a_document_cannot_forge_a_line_of_ours() -> None:
    """Seen to fail with lines of documents shown without their indent."""
    text = "Good.\x0bother.md\u2028evil.md\nother.md\n\x1b[2Jkeys.md\n"
    shown = drawn(hit("a.md", text, focus="Good."))
    assert [line for line in shown.split("\n") if not line.startswith(" ")] == ["a.md"]
    assert not set("\x0b\x1b\u2028") & set(shown)


def test_long_prose_is_wrapped_around_the_answer() -> None:
    line = "word " * 200 + "the answer is 42. " + "word " * 200
    shown = drawn(hit("a.md", line + "\n", focus="the answer is 42."), budget=300)
    assert "…the answer is 42." in shown
    assert 400 < len(shown) < 700
    assert max(map(len, shown.split("\n"))) < 130
    code = drawn(replace(hit("a.py", line + "\n", focus="the answer is 42."), lane="code"))
    assert "the answer is 42." in code
    assert code.count("\n") == 2


def test_a_title_is_shown_where_the_path_does_not_say_it() -> None:
    one = hit("guide/assign-pods-nodes.md", "Text.\n")
    assert named(replace(one, title="Assign Pods Nodes")) == "guide/assign-pods-nodes.md"
    assert named(replace(one, title="Scheduling")) == "guide/assign-pods-nodes.md  Scheduling"
    assert named(replace(one, state="changed")).endswith("(changed on disk)")


BODY = "".join(f"    step_{number}()\n" for number in range(30))


def define(text: str, focus: str, budget: int) -> str:
    """The map of one definition, which is named on its second line."""
    one = replace(hit("a.py", text, focus=focus), lane="code")
    definition = Unit("docs", "a.py", ("Outer", "run"), "method", "code", one.span, 1.0, 2)
    return draw_question([one], [definition], budget, 0, set(), named).text


def test_a_definition_is_shown_by_its_name_and_the_lines_that_decide() -> None:
    text = f"    @cached\n    def run():\n{BODY}"
    assert define(text, "    step_20()", 25) == (
        "a.py\n  1-32 Outer.run\n    2|     def run():\n    23|     step_20()"
    )
    assert "    22|     step_19()\n    23|     step_20()\n    24|" in define(
        text, "    step_20()", 200
    )


def test_a_short_definition_is_shown_whole() -> None:
    text = "@cached\ndef run():\n\n    check(value)\n    return keep(value)\n"
    assert define(text, "    check(value)", 400) == (
        "a.py\n  1-5 Outer.run\n    1| @cached\n    2| def run():\n    4|     check(value)\n"
        "    5|     return keep(value)"
    )


def test_documentation_of_a_short_definition_is_shown_by_its_first_line() -> None:
    text = 'def run():\n    """Check it.\n\n    Then keep it.\n    """\n    return keep(check())\n'
    assert define(text, "    return keep(check())", 400) == (
        'a.py\n  1-6 Outer.run\n    1| def run():\n    2|     """Check it.\n'
        "    6|     return keep(check())"
    )


def test_long_addresses_are_shortened() -> None:
    line = "See [the page](https://example.org/a/very/long/address?with=much#more) for it.\n"
    assert "See [the page](https://example.org/…) for it." in drawn(hit("a.md", line))
