"""What filters let into an answer, and what to say where they let in nothing.

Takes: filters and snapshots. Gives: filters that stores understand, and a note with a better
glob where no path matches the one asked for. Refuses: to widen a filter by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lookfar.errors import InvalidPattern, how_many
from lookfar.model import Incomplete
from lookfar.sources.globs import glob_matcher

if TYPE_CHECKING:
    from lookfar.model import Filters
    from lookfar.ports import Snapshot
    from lookfar.retrieve.ranking import Source


def resolve_globs(filters: Filters, snapshot: Snapshot) -> Filters:
    """Spell globs out as the URIs they match: stores know names, not patterns."""
    if filters.touches:
        touches = glob_matcher(filters.touches)
        targets = [each for each in snapshot.targets() if touches(each)]
        found = [uri for uri, _, _ in snapshot.linking(targets)]
        wanted = frozenset(filters.uris)
        uris = tuple(uri for uri in found if not wanted or uri in wanted)
        filters = replace(filters, touches="", uris=uris or ("\0",))
    if not filters.glob:
        return filters
    matches = glob_matcher(filters.glob)
    wanted = frozenset(filters.uris)
    uris = tuple(
        uri
        for uri in snapshot.uris(filters.prefix)
        if matches(uri) and (not wanted or uri in wanted)
    )
    # A name no document has keeps an empty match from meaning "everything".
    return replace(filters, glob="", uris=uris or ("\0",))


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
    for other in _suggest_globs(filters.glob):
        try:
            number = sum(map(glob_matcher(other), uris))
        except InvalidPattern:
            continue
        if number:
            detail += f"; {other} matches {how_many(number, 'path')}"
            break
    return [Incomplete("no_path_matches", detail)]


def _suggest_globs(glob: str) -> Iterator[str]:
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
