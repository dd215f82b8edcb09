"""Syntax of questions: phrases, exclusions, and what only looks like syntax."""

from __future__ import annotations

import pytest

from lookfar.retrieve.question.query import classify_question, parse_question
from lookfar.retrieve.ranking import QuestionKind


@pytest.mark.parametrize(
    ("text", "words", "phrases"),
    [
        ('"drain node" quickly', "drain node quickly", ("drain node",)),
        ("an “immutable map”", "an immutable map", ("immutable map",)),
        ("what is an “immutable map”?", "what is an “immutable map”?", ()),
        ('how to use "with open" here', 'how to use "with open" here', ()),
        ('the meaning of "drain" in a node', 'the meaning of "drain" in a node', ()),
        ('"one two" "three"', "one two three", ("one two", "three")),
        ('print("hello world")', 'print("hello world")', ()),
        ('a "lonely quote', 'a "lonely quote', ()),
        ('say "!!!" twice', 'say "!!!" twice', ()),
        ('5" disk and 3" disk', '5" disk and 3" disk', ()),
    ],
)
def test_quoted_phrases(text: str, words: str, phrases: tuple[str, ...]) -> None:
    question = parse_question(text)
    assert (question.text, question.phrases, question.without) == (words, phrases, ())


@pytest.mark.parametrize(
    ("text", "words", "without"),
    [
        ('jaguar -"sports car"', "jaguar", ("sports car",)),
        ('jaguar -"car" speed', "jaguar speed", ("car",)),
        ("pods NOT windows", "pods", ("windows",)),
        ('pods NOT "windows nodes"', "pods", ("windows nodes",)),
        ("column IS NOT NULL", "column IS NOT NULL", ()),
        ("CREATE TABLE IF NOT exists", "CREATE TABLE IF NOT exists", ()),
        ("x NOT NULL", "x NOT NULL", ()),
        ("NOT gates", "NOT gates", ()),
        ("why not windows", "why not windows", ()),
        ("how do NOT gates work", "how do NOT gates work", ()),
        ("do NOT remove this", "do NOT remove this", ()),
        ('-"nothing else"', '-"nothing else"', ()),
    ],
)
def test_exclusions(text: str, words: str, without: tuple[str, ...]) -> None:
    question = parse_question(text)
    assert (question.text, question.without, question.phrases) == (words, without, ())


@pytest.mark.parametrize(
    ("text", "dashed"),
    [
        ("python -snake", ("snake",)),
        ("python -snake -monty", ("snake", "monty")),
        ("java -jar", ("jar",)),
        ("-jar option", ()),
        ("grep -r folder", ()),
        ("ls -la", ()),
        ("gcc -O2", ()),
        ("find . --name", ()),
        ("e-mail", ()),
        ("read - write", ()),
        ("range 3 -5", ()),
        ("run java -jar here", ()),
        ("set -key=value", ()),
        ("it is a shorthand for all of the properties that end in -color", ()),
    ],
)
def test_dash_is_syntax_only_before_a_last_word(text: str, dashed: tuple[str, ...]) -> None:
    question = parse_question(text)
    assert question.dashed == dashed
    assert dashed or question.text == text


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("getUserById", "identifier"),
        ("HTTP2Frame", "identifier"),
        ("src/app/main.py", "path"),
        ("main.py", "path"),
        ("https://example.org/a", "phrase"),
        ("TypeError: x is not a function", "error"),
        ("fatal: not a git repository", "error"),
        ("bash: foo: command not found", "error"),
        ("default value", "phrase"),
        ("drain node", "phrase"),
        ("how do I drain a node", "question"),
        ("is it safe?", "question"),
        ("rotate the keys of a whole cluster", "question"),
        ("設定方法", "question"),
    ],
)
def test_kind_of_question(text: str, kind: QuestionKind) -> None:
    assert classify_question(text) == kind


def test_quoted_question_is_a_phrase() -> None:
    assert parse_question('"how to be or not to be a node"').kind == "phrase"
    assert parse_question('where is "drain node" explained').kind == "question"
