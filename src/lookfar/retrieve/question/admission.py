"""Resolve the globs of filters, and suggest a better glob if no path matches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from lookfar.errors import InvalidPattern, how_many
from lookfar.model import Filters, Incomplete
from lookfar.ports import Snapshot
from lookfar.retrieve.ranking import Source
from lookfar.sources.globs import glob_matcher


def resolve_globs(filters: Filters, snapshot: Snapshot) -> Filters:
    """Replace globs by the URIs that match them: stores do not know patterns."""
    if filters.touches:
        touches = glob_matcher(filters.touches)
        targets = [target for target in snapshot.targets() if touches(target)]
        linking = [uri for uri, _, _ in snapshot.linking(targets)]
        wanted = frozenset(filters.uris)
        uris = tuple(uri for uri in linking if not wanted or uri in wanted)
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
    # An impossible URI, since an empty tuple would admit every document.
    return replace(filters, glob="", uris=uris or ("\0",))


def note_unmatched_glob(filters: Filters, sources: Sequence[Source]) -> list[Incomplete]:
    """Return a note if no indexed path matches the glob, with a glob that would match."""
    if not filters.glob:
        return []
    uris = [uri for source in sources for uri in source.snapshot.uris(filters.prefix)]
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
    """Yield globs that the user may have intended."""
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
