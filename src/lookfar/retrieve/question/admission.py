"""Resolve the globs of filters, and say why a glob or a condition matches nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from difflib import get_close_matches
from typing import Final

from lookfar.common.conditions import Condition, parse_conditions
from lookfar.common.properties import OWN_KEYS
from lookfar.errors import InvalidPattern, how_many
from lookfar.model import Filters, Incomplete
from lookfar.ports import Snapshot
from lookfar.retrieve.ranking import Source
from lookfar.sources.globs import BETWEEN, glob_matcher

_SHOWN: Final = 3
_KINDS: Final = {
    "boolean": ("true or false", "true"),
    "date": ("dates", "2026-12-01"),
    "datetime": ("dates", "2026-12-01"),
    "link": ("links", '"NAME"'),
    "number": ("numbers", "5"),
    "text": ("text", '"TEXT"'),
}
"""The plural and an example of each type of property."""


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
    detail = f"no indexed path matches the glob {filters.glob.replace(BETWEEN, ', ')}"
    if filters.prefix:
        detail += f" below {filters.prefix}"
    for other in _suggest_globs(filters.glob) if BETWEEN not in filters.glob else ():
        try:
            number = sum(map(glob_matcher(other), uris))
        except InvalidPattern:
            continue
        if number:
            detail += f"; {other} matches {how_many(number, 'path')}"
            break
    return [Incomplete("no_path_matches", detail)]


def note_unmatched_conditions(filters: Filters, sources: Sequence[Source]) -> list[Incomplete]:
    """Return notes on conditions that no document can meet: a property that does not exist, or
    whose values cannot be compared with the given one."""
    conditions = [
        condition
        for condition in parse_conditions(filters.where)
        if condition.operator not in ("!=", "missing") and not condition.key.startswith(OWN_KEYS)
    ]
    if not conditions:
        return []
    known: dict[str, set[str]] = {}
    for source in sources:
        for key, some in source.snapshot.property_kinds().items():
            known.setdefault(key, set()).update(some)
    notes = []
    for condition in conditions:
        kinds = known.get(condition.key, set())
        if not kinds:
            near = get_close_matches(condition.key, known, n=_SHOWN)
            detail = f"no document has the property {condition.key}"
            detail += f"; nearest: {', '.join(near)}" if near else ""
            notes.append(Incomplete("no_property", detail))
        elif condition.operator != "has" and not condition.kinds & kinds:
            notes.append(Incomplete("not_comparable", _explain_kinds(condition, kinds)))
    return notes


def _explain_kinds(condition: Condition, kinds: Set[str]) -> str:
    """Return which types the values of a property have, and what can be compared with them."""
    plurals, examples = zip(*(_KINDS[kind] for kind in sorted(kinds)), strict=True)
    values = " and ".join(dict.fromkeys(plurals))
    example = f"{condition.key}{condition.operator}{examples[0]}"
    if "boolean" in kinds:
        example = f"{condition.key}=true"
    return (
        f"the values of {condition.key} are {values}, which {condition.text!r} does not compare"
        f" with; write {example}"
    )


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
