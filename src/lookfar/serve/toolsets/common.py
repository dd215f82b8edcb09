"""Helpers shared by the toolsets of other systems: paths, the token budget and notes.

With several folders a path begins with the name of its collection: ``docs/guide/a.md``. One extra
key, ``note``, holds everything for which the other system's results have no field.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Final, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field

from lookfar.common.hidden_characters import flags
from lookfar.errors import InvalidArgument, NotFound, OutsideRoot
from lookfar.library import Library
from lookfar.model import Answer, Incomplete
from lookfar.retrieve.answer.pack import cut, tokens
from lookfar.serve.show.printable import safe_name
from lookfar.serve.tools.tool import MOST_TOKENS, Json

T = TypeVar("T")

UNLIMITED: Final = 10**9
"""An excerpt length, in characters, that no chunk reaches: only the token budget limits texts."""

_TOKENS_PER_HIT = 4_000
"""Tokens that a result may have for each hit that the client asks for."""
_NOTE_TOKENS = 400
_MIN_CUT_TOKENS = 100
_MAX_FLAGGED = 5
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
"""The range of ``datetime``, years 1 to 9999; file systems can report times outside it."""


def _check_not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("it must not be blank")
    return text


Filled = Annotated[str, Field(min_length=1), AfterValidator(_check_not_blank)]
"""A text that is not blank."""
NotBlank = Annotated[str, AfterValidator(_check_not_blank)]
"""A text that is not blank, without a minimum length in the schema."""


def _to_whole(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


WHOLE: Final = BeforeValidator(_to_whole)
"""Accepts an integer that is written as ``3.0``. In a type, write it after the limits."""


# --- paths --------------------------------------------------------------------------------------


def trim_path(path: str) -> str:
    """Remove a leading ``./`` or ``/``."""
    return path.removeprefix("./").lstrip("/")


def display_path(library: Library, collection: str, uri: str) -> str:
    """Return a document's path, with its collection where the library has several."""
    return uri if len(library.collections) == 1 else f"{collection}/{uri}"


def split_collection(library: Library, path: str) -> tuple[str, str]:
    """Split a path into its collection, empty if it names none, and the rest."""
    if len(library.collections) == 1:
        return library.collection, path
    matching = [name for name in library.collections if path.startswith(f"{name}/")]
    owner = max(matching, key=len, default="")
    return owner, path[len(owner) + 1 :] if owner else path


def resolve_path(library: Library, path: str) -> tuple[str, str]:
    """Return the collection and the URI of a path."""
    owner, uri = split_collection(library, trim_path(path))
    if ".." in uri.split("/"):
        raise OutsideRoot(
            f"{path!r} leaves the folder.", hint="Give a path below it, without '..'."
        )
    if not owner:
        raise NotFound(f"No folder here has {path!r}.", hint=suggest_prefixes(library))
    return owner, uri


def suggest_prefixes(library: Library) -> str:
    return f"Paths here begin with one of: {', '.join(library.collections)}."


def format_time(modified_ns: int) -> str:
    """Return a modification time in ISO format, to the second."""
    second = min(max(modified_ns // 10**9, _FIRST_SECOND), _LAST_SECOND)
    return datetime.fromtimestamp(second, UTC).isoformat().replace("+00:00", "Z")


def search_and_look_up(
    search: Callable[[], Answer], look_up: Callable[[Answer], T]
) -> tuple[Answer, T]:
    """Return an answer, and the result of ``look_up`` in the generation that gave it."""
    answer = search()
    try:
        return answer, look_up(answer)
    except InvalidArgument:
        # A rebuild has just replaced that generation: search the new one.
        answer = search()
        return answer, look_up(answer)


# --- token budget and notes ---------------------------------------------------------------------


def count_tokens(shape: object) -> int:
    """Count the tokens of a result as it is sent."""
    return tokens(json.dumps(shape, ensure_ascii=False, separators=(",", ":")))


def count_budget(hits: int) -> int:
    """Return the token budget of a result for which a client asks for this many hits.

    The usual budget holds five long hits. A client that asks for a hundred can read them.
    """
    return max(MOST_TOKENS, hits * _TOKENS_PER_HIT)


def fit_list(
    shape: Json, key: str, text: str = "", *, narrow: str, most: int = MOST_TOKENS
) -> list[str]:
    """Shorten the list at ``key`` until ``shape`` fits the token budget ``most``.

    The last item may have its ``text`` cut and is then marked ``truncated``. Return the notes
    that say so; ``narrow`` tells the caller how to get the rest.
    """
    items: list[Json] = shape[key]
    fitting: list[Json] = []
    shape[key] = fitting
    room = most - _NOTE_TOKENS - count_tokens(shape)
    for item in items:
        price = count_tokens(item) + 1
        if price > room:
            if text and room >= _MIN_CUT_TOKENS:
                fitting.append(_cut_text(item, text, room))
            break
        fitting.append(item)
        room -= price
    truncated = bool(fitting and fitting[-1].get("truncated"))
    if len(fitting) == len(items) and not truncated:
        return []
    last = " The last one is cut." if truncated else ""
    return [f"{len(fitting)} of {len(items)} {key} are given, as many as fit.{last} {narrow}"]


def fit_text(shape: Json, text: str, *, narrow: str) -> list[str]:
    """Do the same for a shape with one long text."""
    if count_tokens(shape) <= MOST_TOKENS - _NOTE_TOKENS:
        return []
    length = len(shape[text])
    shape.update(_cut_text(shape, text, MOST_TOKENS - _NOTE_TOKENS))
    return [f"The first {len(shape[text]):,} of {length:,} characters are given. {narrow}"]


def _cut_text(item: Json, text: str, room: int) -> Json:
    shorter = {**item, "truncated": True}
    limit = room
    while count_tokens(shorter) > room and limit:
        # JSON escapes make a text longer, so the first guess may still be too long.
        shorter[text] = cut(item[text], limit)
        limit = limit * 9 // 10
    return shorter


def describe_gaps(notes: Iterable[Incomplete]) -> list[str]:
    """Describe what an answer may be missing."""
    return [safe_name(f"{note}.") for note in notes]


def describe_hidden_characters(texts: Sequence[tuple[str, str]]) -> list[str]:
    """Say which of these named texts contain invisible or misleading characters."""
    warnings = [
        safe_name(f"{name} contains {' and '.join(flags(text))} characters.")
        for name, text in texts
        if flags(text)
    ]
    return list(dict.fromkeys(warnings))[:_MAX_FLAGGED]


def add_note(shape: Json, notes: Sequence[str]) -> Json:
    """Add the notes, if any, to the shape and return it."""
    if notes:
        shape["note"] = cut(" ".join(notes), _NOTE_TOKENS - 20)
    return shape
