"""What toolsets in other systems' shapes share: texts that say something, paths, a budget, notes.

Takes: a library of one folder or several, and results on their way out. Gives: paths that stay
unique and lead back, results that cost what they may, and one key, ``note``, for what a shape
has no place for. Refuses: blank texts, and paths that leave the folder.

With several folders a path begins with the name of its collection: ``docs/guide/a.md``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from lookfar.common.hidden_characters import flags
from lookfar.errors import NotFound, OutsideRoot
from lookfar.library import Library
from lookfar.model import Incomplete
from lookfar.retrieve.answer.pack import cut, tokens
from lookfar.serve.show.printable import safe_name
from lookfar.serve.tools.tool import MOST_TOKENS, Json

WHOLE: Final = 10**9
"""Characters of an excerpt: chunks are given whole, as far as the budget goes."""

_FOR_NOTES = 400
_WORTH_READING = 100
_MOST_NAMED = 5
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
"""Of the years 1 and 9999: a disk may claim others, and dates cannot."""


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("it is blank")
    return text


Filled = Annotated[str, Field(min_length=1), AfterValidator(_not_blank)]
"""A text with something in it."""
NotBlank = Annotated[str, AfterValidator(_not_blank)]
"""The same, for shapes that promise a text and no more."""


# --- paths --------------------------------------------------------------------------------------


def relaxed(path: str) -> str:
    """A path without the ``./`` or ``/`` that some put before it."""
    return path.removeprefix("./").lstrip("/")


def shown(library: Library, collection: str, uri: str) -> str:
    """A document's path as this library's callers know it."""
    return uri if len(library.collections) == 1 else f"{collection}/{uri}"


def owner_of(library: Library, path: str) -> tuple[str, str]:
    """The collection that a path begins with, or none, and the rest of the path."""
    if len(library.collections) == 1:
        return library.collection, path
    having = [name for name in library.collections if path.startswith(f"{name}/")]
    owner = max(having, key=len, default="")
    return owner, path[len(owner) + 1 :] if owner else path


def located(library: Library, path: str) -> tuple[str, str]:
    """The collection and the URI that a path means."""
    owner, uri = owner_of(library, relaxed(path))
    if ".." in uri.split("/"):
        raise OutsideRoot(
            f"{path!r} leaves the folder.", hint="Give a path below it, without '..'."
        )
    if not owner:
        raise NotFound(f"No folder here has {path!r}.", hint=begin_with(library))
    return owner, uri


def begin_with(library: Library) -> str:
    return f"Paths here begin with one of: {', '.join(library.collections)}."


def when(modified_ns: int) -> str:
    """A time of change in ISO form, to the second."""
    second = min(max(modified_ns // 10**9, _FIRST_SECOND), _LAST_SECOND)
    return datetime.fromtimestamp(second, UTC).isoformat().replace("+00:00", "Z")


# --- what a result may cost, and what it has to admit -------------------------------------------


def cost(shape: object) -> int:
    """Tokens of a shape as it is sent."""
    return tokens(json.dumps(shape, ensure_ascii=False, separators=(",", ":")))


def fit(shape: Json, key: str, text: str = "", *, narrow: str) -> list[str]:
    """Shorten the list at ``key`` until all of ``shape`` costs no more than a result may.

    The last item kept may be cut at its ``text``, and then says ``truncated``. Gives what
    has to be said of it; ``narrow`` is how to get at the rest.
    """
    items: list[Json] = shape[key]
    kept: list[Json] = []
    shape[key] = kept
    room = MOST_TOKENS - _FOR_NOTES - cost(shape)
    for item in items:
        price = cost(item) + 1
        if price > room:
            if text and room >= _WORTH_READING:
                kept.append(_cut(item, text, room))
            break
        kept.append(item)
        room -= price
    left = len(items) - len(kept)
    if not left and not (kept and kept[-1].get("truncated")):
        return []
    last = " The last one is cut." if kept and kept[-1].get("truncated") else ""
    given = f"{len(kept)} of {len(items)} {key} are given, as many as fit."
    return [f"{given}{last} {narrow}"]


def fit_text(shape: Json, text: str, *, narrow: str) -> list[str]:
    """The same for a shape that has one long text."""
    if cost(shape) <= MOST_TOKENS - _FOR_NOTES:
        return []
    whole = len(shape[text])
    shape.update(_cut(shape, text, MOST_TOKENS - _FOR_NOTES))
    return [f"The first {len(shape[text]):,} of {whole:,} characters are given. {narrow}"]


def _cut(item: Json, text: str, room: int) -> Json:
    shorter = {**item, "truncated": True}
    most = room
    while cost(shorter) > room and most:
        # Escapes make a text longer than it looks, so the first guess may be too much.
        shorter[text] = cut(item[text], most)
        most = most * 9 // 10
    return shorter


def admitted(notes: Iterable[Incomplete]) -> list[str]:
    """What an answer may be missing, in words."""
    return [safe_name(f"Incomplete ({each.reason}): {each.detail}.") for each in notes]


def flagged(texts: Sequence[tuple[str, str]]) -> list[str]:
    """Which of these named texts hold characters that show something else than they are."""
    found = [
        safe_name(f"{name} contains {' and '.join(flags(text))} characters.")
        for name, text in texts
        if flags(text)
    ]
    return list(dict.fromkeys(found))[:_MOST_NAMED]


def noted(shape: Json, notes: Sequence[str]) -> Json:
    """The shape, with a note where there is something to say."""
    if notes:
        shape["note"] = cut(" ".join(notes), _FOR_NOTES - 20)
    return shape
