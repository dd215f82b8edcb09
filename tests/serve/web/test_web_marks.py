"""Which words are marked, and which part of a long text is shown."""

from __future__ import annotations

import pytest

from lookfar.serve.http.web.marks import best_window, find_marks, marked_terms
from lookfar.serve.http.web.result_pages import FacetValues, count


@pytest.mark.parametrize(
    ("query", "text", "wanted"),
    [
        ("harbour", "The harbour, THE HARBOUR.", ["harbour", "HARBOUR"]),
        ("how do I roll back", "Roll back, then rolled back", ["Roll back", "rolled back"]),
        ("user by id", "getUserById(user_id)", ["getUserById", "user_id"]),
        ("the", "the end", ["the"]),
        ("設定", "設定ファイル", ["設定ファイル"]),
        ("harbour", "nothing here", []),
        ("<b>", "<b> and b", ["b", "b"]),
    ],
)
def test_words_of_the_question_are_marked(query: str, text: str, wanted: list[str]) -> None:
    spans = find_marks(text, marked_terms(query))
    assert [text[start:end] for start, end in spans] == wanted


def test_function_words_are_marked_only_where_there_are_no_others() -> None:
    assert find_marks("how the harbour is", marked_terms("how is the harbour")) == [(8, 15)]


def test_the_window_holds_the_most_marks_and_cuts_between_words() -> None:
    text = "far away " * 60 + "\nthe lamp and the harbour and the lamp\n" + "far away " * 60
    spans = find_marks(text, marked_terms("lamp harbour"))
    start, end = best_window(text, spans, 120)
    assert text[start:end].startswith("the lamp and the harbour and the lamp")
    assert end - start <= 120
    assert text[end - 1] in " \n"
    assert best_window("short", [], 120) == (0, 5)
    assert best_window("x" * 500, [], 120) == (0, 120)


def test_facets_are_counted_below_the_folder() -> None:
    found = [
        FacetValues("docs", "a/b/one.md", "markdown", 0, ("x", "y")),
        FacetValues("docs", "a/b/two.md", "markdown", 0, ("x",)),
        FacetValues("code", "a/c.py", "python", 0),
        FacetValues("commits", "f00d", "", 0),
    ]
    whole = count(found)
    assert whole["lane"] == [("docs", 2), ("code", 1), ("commits", 1)]
    assert whole["path"] == [("a/b/", 2)]  # All are below a/, which would narrow nothing.
    assert whole["language"] == [("markdown", 2), ("python", 1)]
    assert whole["tag"] == [("x", 2), ("y", 1)]
    assert whole["age"] == []
    assert count(found, "a/")["path"] == [("a/b/", 2)]
    assert count([*found, FacetValues("docs", "d/e.md", "", 0)])["path"] == [("a/", 3), ("d/", 1)]
