"""Questions and what should be found for them, from a file.

Takes: JSON lines, one question each:

    {"query": "undo a release", "relevant": ["releases.md#Roll back", {"uri": "x.md", "grade": 2}]}

with ``id``, ``category`` and ``filters`` where they are wanted; or the ``queries.jsonl`` of a
question set ({_id, text}) that has its ``qrels.tsv`` (question, document, gain) beside it.
Gives: the questions in their order. Refuses (``InvalidArgument``, with the line): what is no
such file, a key it does not know, a question without anything to find, an id that comes twice.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, get_args

from lookfar.errors import InvalidArgument, NotFound, from_os_error
from lookfar.model import Filters, Lane

QRELS = "qrels.tsv"
_KEYS = {"id", "_id", "query", "text", "relevant", "category", "filters"}
_TEXT_FILTERS = ("prefix", "glob", "heading", "touches", "branch")
_LIST_FILTERS = {
    "uris": "uris",
    "tags": "tags",
    "kinds": "lanes",
    "languages": "languages",
    "authors": "authors",
}
_MOST_BYTES = 256_000_000
_EXAMPLE = '{"query": "undo a release", "relevant": ["releases.md#Roll back"]}'


@dataclass(frozen=True, slots=True)
class Relevant:
    """Something that should be found, as ``lookfar read`` names it, and what it is worth."""

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
    """Where it was read, for whoever has to mend it."""


class _Bad(Exception):
    """What is wrong with a line, and the next step."""

    def __init__(self, message: str, hint: str = f"Write lines like this: {_EXAMPLE}") -> None:
        super().__init__(message)
        self.hint = hint


def read_judged(path: str | Path) -> list[Judged]:
    """Every question of a file."""
    path = Path(path)
    gains: dict[str, dict[str, float]] | None = None
    found: dict[str, Judged] = {}
    for number, line in _lines(path):
        try:
            given = _object(line)
            if "relevant" not in given and gains is None:
                gains = _qrels(path.with_name(QRELS))
            each = _judged(given, gains or {}, f"{path.name}, line {number}")
            if each.id in found:
                raise _Bad(
                    f"the id {each.id!r} comes twice (before: {found[each.id].place})",
                    'Give each question an "id" of its own; without one its text is its id.',
                )
        except _Bad as bad:
            _refuse(path, number, bad)
        found[each.id] = each
    if not found:
        raise InvalidArgument(
            f"{path.name} holds no question.", hint=f"Write lines like this: {_EXAMPLE}"
        )
    return list(found.values())


def written(judged: Iterable[Judged]) -> str:
    """Questions as the lines that :func:`read_judged` takes."""
    return "".join(json.dumps(_shape(each), ensure_ascii=False) + "\n" for each in judged)


def shape_of_filters(filters: Filters) -> dict[str, Any]:
    """Filters as they stand in a file: those that filter."""
    shape: dict[str, Any] = {key: getattr(filters, key) for key in _TEXT_FILTERS}
    shape |= {key: list(getattr(filters, name)) for key, name in _LIST_FILTERS.items()}
    return {key: value for key, value in shape.items() if value}


def _shape(each: Judged) -> dict[str, Any]:
    shape: dict[str, Any] = {"id": each.id, "query": each.query}
    shape["relevant"] = [
        one.target if one.grade == 1 else {"uri": one.target, "grade": one.grade}
        for one in each.relevant
    ]
    if each.category:
        shape["category"] = each.category
    if each.filters:
        shape["filters"] = shape_of_filters(each.filters)
    return shape


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Each line that is not blank, with its number."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise InvalidArgument(
                f"{path.name} is larger than {_MOST_BYTES // 1_000_000} MB.",
                hint="Split it into several files.",
            )
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError as error:
        raise NotFound(
            f"There is no file {str(path)!r}.", hint="Name a file of judged questions."
        ) from error
    except UnicodeDecodeError as error:
        wrong = error.object[: error.start].count(b"\n") + 1
        raise InvalidArgument(
            f"{path.name}, line {wrong}: this is not UTF-8.", hint="Save the file as UTF-8."
        ) from error
    except OSError as error:
        raise from_os_error(error, f"reading {path.name}") from error
    # Not splitlines: a JSON text may hold the other characters that end a line there.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield number, line.rstrip("\r")


def _refuse(path: Path, number: int, bad: _Bad) -> NoReturn:
    raise InvalidArgument(
        f"{path.name}, line {number}: {bad}.",
        hint=bad.hint,
        details={"path": str(path), "line": number},
    ) from bad


def _object(line: str) -> dict[str, Any]:
    try:
        given = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _Bad(f"this is not JSON ({getattr(error, 'msg', 'nested too deep')})") from error
    if not isinstance(given, dict):
        raise _Bad("this is not a JSON object")
    unknown = sorted(set(given) - _KEYS)
    if unknown and "relevant" in given:
        raise _Bad(f"there is no key {unknown[0]!r}", f"Keys: {', '.join(sorted(_KEYS))}.")
    return given


def _judged(given: dict[str, Any], gains: dict[str, dict[str, float]], place: str) -> Judged:
    query = _text(given.get("query", given.get("text")), "the query")
    name = given.get("id", given.get("_id"))
    if isinstance(name, int) and not isinstance(name, bool):
        name = str(name)
    name = query if name is None else _text(name, "the id")
    if "relevant" in given:
        relevant = _relevant(given["relevant"])
    else:
        relevant = tuple(Relevant(uri, gain) for uri, gain in gains.get(name, {}).items())
        if not relevant:
            raise _Bad(f"nothing is relevant to it, and {QRELS} has no line for {name!r}")
    category = given.get("category", "")
    if not isinstance(category, str):
        raise _Bad("the category is no text")
    return Judged(name, query, relevant, category, _filters(given.get("filters")), place)


def _text(value: object, what: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _Bad(f"{what} is missing, empty or no text")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise _Bad(f"{what} holds half a character")
    return value


def _relevant(given: object) -> tuple[Relevant, ...]:
    if not isinstance(given, list):
        raise _Bad("relevant is no list")
    found: dict[str, Relevant] = {}
    for each in given:
        target, grade = each, 1.0
        if isinstance(each, dict):
            if set(each) - {"uri", "grade"}:
                raise _Bad("what is relevant has a uri and a grade, and nothing else")
            target, grade = each.get("uri"), _grade(each.get("grade", 1))
        target = _text(target, "what is relevant")
        if target in found:
            raise _Bad(f"{target!r} is relevant twice")
        if grade > 0:
            found[target] = Relevant(target, grade)
    if not found:
        raise _Bad("nothing is relevant to it")
    return tuple(found.values())


def _grade(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _Bad("a grade is no number")
    if not 0 <= value <= 1_000 or math.isnan(value):
        raise _Bad("a grade is not between 0 and 1000")
    return float(value)


def _filters(given: object) -> Filters:
    if given is None:
        return Filters()
    known = ", ".join((*_TEXT_FILTERS, *_LIST_FILTERS))
    if not isinstance(given, dict):
        raise _Bad("the filters are no object", f"Filters: {known}.")
    chosen: dict[str, Any] = {}
    for key, value in given.items():
        if key in _TEXT_FILTERS:
            chosen[key] = _text(value, f"the filter {key}")
        elif key in _LIST_FILTERS:
            if not isinstance(value, list):
                raise _Bad(f"the filter {key} is no list")
            chosen[_LIST_FILTERS[key]] = tuple(_text(one, f"the filter {key}") for one in value)
        else:
            raise _Bad(f"there is no filter {key!r}", f"Filters: {known}.")
    wrong = sorted(set(chosen.get("lanes", ())) - set(get_args(Lane)))
    if wrong:
        raise _Bad(f"there is no kind {wrong[0]!r}", f"Kinds: {', '.join(get_args(Lane))}.")
    return Filters(**chosen)


def _qrels(path: Path) -> dict[str, dict[str, float]]:
    """The gain of each document for each question of a question set."""
    if not path.is_file():
        raise _Bad(f"nothing is relevant to it, and there is no {QRELS} beside the file")
    found: dict[str, dict[str, float]] = {}
    for number, line in _lines(path):
        try:
            columns = line.split("\t")
            if len(columns) != 3:
                raise _Bad("these are not three columns: question, document, gain", "Use tabs.")
            try:
                gain = float(columns[2])
            except ValueError:
                raise _Bad(f"{columns[2]!r} is no gain", "Write a number.") from None
            if _grade(gain) > 0:
                found.setdefault(columns[0], {})[columns[1]] = gain
        except _Bad as bad:
            _refuse(path, number, bad)
    return found
