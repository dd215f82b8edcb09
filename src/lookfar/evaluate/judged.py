"""Read judged questions: each with the documents that should be found for it.

A file has one JSON object per line, with optional ``id``, ``category`` and ``filters``:

    {"query": "undo a release", "relevant": ["releases.md#Roll back", {"uri": "x.md", "grade": 2}]}

The ``queries.jsonl`` of a question set with a ``qrels.tsv`` next to it is also accepted.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, get_args

from lookfar.errors import InvalidArgument, NotFound, from_os_error
from lookfar.model import Filters, Kind

QRELS = "qrels.tsv"
_KEYS = {"id", "_id", "query", "text", "relevant", "category", "filters"}
_TEXT_FILTERS = ("prefix", "glob", "heading", "touches", "branch")
_LIST_FILTERS = {
    "uris": "uris",
    "tags": "tags",
    "kinds": "kinds",
    "languages": "languages",
    "authors": "authors",
}
_MAX_BYTES = 256_000_000
_EXAMPLE = '{"query": "undo a release", "relevant": ["releases.md#Roll back"]}'


@dataclass(frozen=True, slots=True)
class Relevant:
    """Something that should be found, addressed as in ``lookfar read``, and its grade."""

    target: str
    grade: float = 1.0


@dataclass(frozen=True, slots=True)
class Judged:
    """A question, and what should be found for it."""

    id: str
    query: str
    relevant: tuple[Relevant, ...]
    category: str = ""
    filters: Filters = field(default_factory=Filters)
    place: str = ""
    """The file and line it was read from, for error messages."""


class _BadLine(Exception):
    """What is wrong with a line, and what to do."""

    def __init__(self, message: str, hint: str = f"Write lines like this: {_EXAMPLE}") -> None:
        super().__init__(message)
        self.hint = hint


def read_judged(path: str | Path) -> list[Judged]:
    path = Path(path)
    gains: dict[str, dict[str, float]] | None = None
    questions: dict[str, Judged] = {}
    for number, line in _read_lines(path):
        try:
            record = _parse_object(line)
            if "relevant" not in record and gains is None:
                gains = _read_qrels(path.with_name(QRELS))
            question = _parse_question(record, gains or {}, f"{path.name}, line {number}")
            if question.id in questions:
                raise _BadLine(
                    f"duplicate id {question.id!r} (first: {questions[question.id].place})",
                    'Give each question a unique "id"; without one, its text is its id.',
                )
        except _BadLine as error:
            _reject(path, number, error)
        questions[question.id] = question
    if not questions:
        raise InvalidArgument(
            f"{path.name} contains no questions.", hint=f"Write lines like this: {_EXAMPLE}"
        )
    return list(questions.values())


def format_questions(questions: Iterable[Judged]) -> str:
    """Write questions as lines that :func:`read_judged` reads."""
    return "".join(
        json.dumps(_question_as_json(question), ensure_ascii=False) + "\n" for question in questions
    )


def filters_as_json(filters: Filters) -> dict[str, Any]:
    """Return the filters that are set, under their names in a file."""
    record: dict[str, Any] = {key: getattr(filters, key) for key in _TEXT_FILTERS}
    record |= {key: list(getattr(filters, name)) for key, name in _LIST_FILTERS.items()}
    return {key: value for key, value in record.items() if value}


def _question_as_json(question: Judged) -> dict[str, Any]:
    record: dict[str, Any] = {"id": question.id, "query": question.query}
    record["relevant"] = [
        item.target if item.grade == 1 else {"uri": item.target, "grade": item.grade}
        for item in question.relevant
    ]
    if question.category:
        record["category"] = question.category
    if question.filters:
        record["filters"] = filters_as_json(question.filters)
    return record


def _read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not blank, with their numbers."""
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise InvalidArgument(
                f"{path.name} is larger than {_MAX_BYTES // 1_000_000} MB.",
                hint="Split it into several files.",
            )
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError as error:
        raise NotFound(
            f"There is no file or folder {str(path)!r}.",
            hint="Name a file of questions, or a folder to generate questions from.",
        ) from error
    except UnicodeDecodeError as error:
        number = error.object[: error.start].count(b"\n") + 1
        raise InvalidArgument(
            f"{path.name}, line {number}: this is not UTF-8.", hint="Save the file as UTF-8."
        ) from error
    except OSError as error:
        raise from_os_error(error, f"reading {path.name}") from error
    # splitlines would also split at characters that may occur inside a JSON string.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield number, line.rstrip("\r")


def _reject(path: Path, number: int, error: _BadLine) -> NoReturn:
    raise InvalidArgument(
        f"{path.name}, line {number}: {error}.",
        hint=error.hint,
        details={"path": str(path), "line": number},
    ) from error


def _parse_object(line: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _BadLine(f"this is not JSON ({getattr(error, 'msg', 'nested too deep')})") from error
    if not isinstance(record, dict):
        raise _BadLine("this is not a JSON object")
    unknown = sorted(set(record) - _KEYS)
    if unknown and "relevant" in record:
        raise _BadLine(f"unknown key {unknown[0]!r}", f"Keys: {', '.join(sorted(_KEYS))}.")
    return record


def _parse_question(
    record: dict[str, Any], gains: dict[str, dict[str, float]], place: str
) -> Judged:
    query = _check_text(record.get("query", record.get("text")), "the query")
    name = record.get("id", record.get("_id"))
    if isinstance(name, int) and not isinstance(name, bool):
        name = str(name)
    name = query if name is None else _check_text(name, "the id")
    if "relevant" in record:
        relevant = _parse_relevant(record["relevant"])
    else:
        relevant = tuple(Relevant(uri, gain) for uri, gain in gains.get(name, {}).items())
        if not relevant:
            raise _BadLine(f'no "relevant", and {QRELS} has no line for {name!r}')
    category = record.get("category", "")
    if not isinstance(category, str):
        raise _BadLine("the category must be a string")
    return Judged(name, query, relevant, category, _parse_filters(record.get("filters")), place)


def _check_text(value: object, name: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _BadLine(f"{name} must be a non-empty string")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise _BadLine(f"{name} contains a lone surrogate")
    return value


def _parse_relevant(value: object) -> tuple[Relevant, ...]:
    if not isinstance(value, list):
        raise _BadLine('"relevant" must be a list')
    items: dict[str, Relevant] = {}
    for item in value:
        target, grade = item, 1.0
        if isinstance(item, dict):
            if set(item) - {"uri", "grade"}:
                raise _BadLine('an object in "relevant" may have only "uri" and "grade"')
            target, grade = item.get("uri"), _check_grade(item.get("grade", 1))
        target = _check_text(target, 'every entry of "relevant"')
        if target in items:
            raise _BadLine(f'{target!r} is twice in "relevant"')
        if grade > 0:
            items[target] = Relevant(target, grade)
    if not items:
        raise _BadLine('"relevant" has no entry with a grade above 0')
    return tuple(items.values())


def _check_grade(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _BadLine("a grade must be a number")
    if not 0 <= value <= 1_000 or math.isnan(value):
        raise _BadLine("a grade must be between 0 and 1000")
    return float(value)


def _parse_filters(value: object) -> Filters:
    if value is None:
        return Filters()
    names = ", ".join((*_TEXT_FILTERS, *_LIST_FILTERS))
    if not isinstance(value, dict):
        raise _BadLine('"filters" must be an object', f"Filters: {names}.")
    filters: dict[str, Any] = {}
    for key, item in value.items():
        if key in _TEXT_FILTERS:
            filters[key] = _check_text(item, f"the filter {key}")
        elif key in _LIST_FILTERS:
            if not isinstance(item, list):
                raise _BadLine(f"the filter {key} must be a list")
            texts = tuple(_check_text(text, f"every entry of the filter {key}") for text in item)
            filters[_LIST_FILTERS[key]] = texts
        else:
            raise _BadLine(f"unknown filter {key!r}", f"Filters: {names}.")
    unknown = sorted(set(filters.get("kinds", ())) - set(get_args(Kind)))
    if unknown:
        raise _BadLine(f"unknown kind {unknown[0]!r}", f"Kinds: {', '.join(get_args(Kind))}.")
    return Filters(**filters)


def _read_qrels(path: Path) -> dict[str, dict[str, float]]:
    """Read the gain of each document for each question of a question set."""
    if not path.is_file():
        raise _BadLine(f'no "relevant", and there is no {QRELS} next to the file')
    gains: dict[str, dict[str, float]] = {}
    for number, line in _read_lines(path):
        try:
            columns = line.split("\t")
            if len(columns) != 3:
                raise _BadLine("expected three columns: question, document, gain", "Use tabs.")
            try:
                gain = float(columns[2])
            except ValueError:
                raise _BadLine(f"the gain {columns[2]!r} is not a number") from None
            if _check_grade(gain) > 0:
                gains.setdefault(columns[0], {})[columns[1]] = gain
        except _BadLine as error:
            _reject(path, number, error)
    return gains
