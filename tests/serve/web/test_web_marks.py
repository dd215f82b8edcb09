"""Which words of a text are marked."""

from __future__ import annotations

import pytest

from lookfar.serve.http.web.marks import find_marks, marked_terms


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
