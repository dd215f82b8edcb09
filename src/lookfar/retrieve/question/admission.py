"""What filters let into an answer, and what to say where they let in nothing.

Takes: filters and snapshots. Gives: filters that stores understand, and a note with a better
glob where no path matches the one asked for. Refuses: to widen a filter by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from lookfar.errors import InvalidPattern, how_many
from lookfar.model import Incomplete
from lookfar.retrieve.retrievers.candidates import without_glob as spell_globs
from lookfar.sources.globs import glob_matcher

__all__ = ["note_unmatched_glob", "spell_globs"]

if TYPE_CHECKING:
    from lookfar.model import Filters
    from lookfar.retrieve.answer.excerpt import Source


def note_unmatched_glob(filters: Filters, sources: Sequence[Source]) -> list[Incomplete]:
    """Say that no indexed path matches the glob, where that is so, and which one would."""
    if not filters.glob:
        return []
    uris = [uri for each in sources for uri in each.snapshot.uris(filters.prefix)]
    matches = glob_matcher(filters.glob)
    if any(map(matches, uris)):
        return []
    detail = f"no indexed path matches the glob {filters.glob}"
    if filters.prefix:
        detail += f" below {filters.prefix}"
    for other in _wider(filters.glob):
        try:
            number = sum(map(glob_matcher(other), uris))
        except InvalidPattern:
            continue
        if number:
            detail += f"; {other} matches {how_many(number, 'path')}"
            break
    return [Incomplete("no_path_matches", detail)]


def _wider(glob: str) -> Iterator[str]:
    """What somebody who wrote this glob may have meant."""
    plain = glob.removeprefix("./").strip("/")
    if plain != glob:
        yield plain
    if not plain.endswith("**"):
        yield f"{plain}/**"
    if "/*" in plain and "/**" not in plain:
        yield plain.replace("/*", "/**/*", 1)
    yield f"**/{plain}"
    yield f"**/{plain}/**"
    name = plain.rpartition("/")[2]
    if name.strip("*"):
        yield f"**/{name}"
