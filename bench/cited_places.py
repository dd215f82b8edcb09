"""Question sets whose answers are places and not documents, for ``bench/quality.py``.

``spans``: five long flat texts, and questions with the characters that answer them. Scored is the
share of these characters in the hits, together with the size of the hits.

``issues_to_files``: public issues, and the files that their fix changed. The whole issue is pasted;
scored is the rank of the first of these files. It needs the repository of each issue at its commit,
as a folder named after the id of the issue.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lookfar import Hit, Library

_HITS = 5
_TOKENS = 2_000
_CHARS_PER_TOKEN = 4
_LONGEST_QUESTION = 50_000


def read_questions(source: Path) -> list[dict[str, Any]]:
    lines = (source / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def measure_spans(source: Path, work: Path, settings: dict[str, object], most: int | None) -> str:
    """Return the recall of characters in five hits, and in hits of 2,000 tokens in all."""
    five: list[tuple[float, float]] = []
    bounded: list[tuple[float, float]] = []
    with Library.open(source / "corpus", index_dir=work / "spans", settings=settings) as library:
        for question in read_questions(source)[:most]:
            hits = library.search(question["text"], top_k=20).hits
            fitting = list(_take(hits, _TOKENS * _CHARS_PER_TOKEN))
            five.append((_recall(question, hits[:_HITS]), _tokens(hits[:_HITS])))
            bounded.append((_recall(question, fitting), _tokens(fitting)))
    return "\n".join(
        f"spans: {name}: recall {_mean(values, 0):.4f}, {_mean(values, 1):,.0f} tokens"
        for name, values in (("five hits", five), ("hits of 2,000 tokens", bounded))
    )


def measure_issues(
    source: Path, repositories: Path, settings: dict[str, object], most: int | None
) -> str:
    """Return how often a file of the fix comes first, and how often among ten hits."""
    ranks: list[int] = []
    among_ten: list[bool] = []
    for issue in read_questions(source)[:most]:
        with Library.open(repositories / issue["_id"], settings=settings) as library:
            hits = library.search(issue["text"][:_LONGEST_QUESTION], top_k=40).hits
        files = list(dict.fromkeys(hit.uri for hit in hits))
        ranks.append(next((at for at, uri in enumerate(files, 1) if uri in issue["files"]), 99))
        among_ten.append(any(hit.uri in issue["files"] for hit in hits[:10]))
    count = len(ranks)
    shares = [sum(rank <= depth for rank in ranks) / count for depth in (1, 5, 10)]
    return (
        "issues_to_files: hit@1 {:.3f}, hit@5 {:.3f}, hit@10 {:.3f}".format(*shares)
        + f", among ten passages {sum(among_ten) / count:.3f}"
    )


def _take(hits: tuple[Hit, ...], limit: int) -> Iterator[Hit]:
    """Yield the first hits that fit into so many characters."""
    used = 0
    for hit in hits:
        used += hit.span.end - hit.span.start
        if used > limit:
            return
        yield hit


def _recall(question: dict[str, Any], hits: tuple[Hit, ...] | list[Hit]) -> float:
    wanted = {at for start, end in question["spans"] for at in range(start, end)}
    shown = {
        at
        for hit in hits
        if hit.uri == question["file"]
        for at in range(hit.span.start, hit.span.end)
    }
    return len(wanted & shown) / len(wanted)


def _tokens(hits: tuple[Hit, ...] | list[Hit]) -> float:
    return sum(hit.span.end - hit.span.start for hit in hits) / _CHARS_PER_TOKEN


def _mean(rows: list[tuple[float, float]], column: int) -> float:
    return sum(row[column] for row in rows) / len(rows)
