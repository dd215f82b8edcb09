"""The syntax of a question: read into a plan, or refused with a typed error.

Takes: the bytes of a question. Gives: the question as read and its plan. Refuses: what
``make_plan`` refuses, as a ``LookfarError``.
"""

from __future__ import annotations

from typing import Any

from fuzz.common import Target
from lookfar.embed.hashed import HashedEmbedder
from lookfar.errors import LookfarError
from lookfar.model import Filters
from lookfar.retrieve.question.plan import make_plan
from lookfar.retrieve.question.query import Question, parse_question
from lookfar.store.keywords.analyser import terms_of


def work(data: bytes) -> tuple[str, Question, tuple[Any, ...], list[str]]:
    text = data.decode("utf-8", "surrogatepass" if len(data) % 2 else "replace")
    plan = make_plan(text, mode="hybrid", top_k=5, filters=Filters(), embedder=HashedEmbedder(8))
    vector = None if plan.vector is None else plan.vector.tobytes()
    known = (plan.text, plan.terms, plan.names, plan.filters, plan.kind, plan.dashed, vector)
    return text, parse_question(text), known, list(terms_of(text))


def check(_: bytes, result: tuple[str, Question, tuple[Any, ...], list[str]]) -> None:
    text, question, plan, terms = result
    assert question.kind in ("identifier", "path", "error", "phrase", "question")
    assert question.text.strip()
    for phrase in (*question.phrases, *question.without):
        assert phrase.strip()
        assert phrase in text
    for word in question.dashed:
        assert f"-{word}" in text
    if not (question.phrases or question.without or question.dashed):
        assert question.text == text
    assert plan[0] == question.text
    assert len(plan[1]) <= 256
    assert all(term and not term.isspace() for term in terms)


TARGET = Target(
    work,
    check,
    size=10_000,
    refusals=(LookfarError, UnicodeDecodeError),
    words=(
        '"', "“", "”", "-", " -word", "NOT ", " NOT x", '-"', "how ", "?", "？", "Error:", "()",
        "/", ".py", "::", "getUserById", "snake_case", "1.0.21", "設定", "か\u3099", "ｶﾞ",
        "👩\u200d💻", "\u0301", "\0", "\n", " ", "\u3000",
    ),
)  # fmt: skip
