"""Count documents by the values that filters offer: kind, collection, folder, language, tag, age.

Folders and nested tags are trees, of which the most frequent branches are returned.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from lookfar.model import Listed
from lookfar.ports import Facts

_MAX_VALUES: Final = 12
"""Values of one facet, and branches of one branch."""
_MAX_TAGS: Final = 24
_TAG_DEPTH: Final = 4
_FOLDER_DEPTH: Final = 2
_DAY: Final = 86_400
AGES: Final = (("day", _DAY), ("week", 7 * _DAY), ("month", 31 * _DAY), ("year", 366 * _DAY))
"""Ages of a change by name, and their limits in seconds."""


@dataclass(frozen=True, slots=True)
class Facet:
    """A value of a filter, how many documents have it, and the values below it."""

    value: str
    count: int
    below: tuple[Facet, ...] = ()

    def as_json(self) -> dict[str, Any]:
        shape: dict[str, Any] = {"value": self.value, "count": self.count}
        if self.below:
            shape["below"] = [facet.as_json() for facet in self.below]
        return shape


Facets = Mapping[str, Sequence[Facet]]


@dataclass(frozen=True, slots=True)
class FacetValues:
    """The values of one document for each filter."""

    lane: str
    uri: str
    language: str
    modified_ns: int
    tags: Sequence[str] = ()
    collection: str = ""

    @classmethod
    def of(cls, facts: Facts | Listed, collection: str) -> FacetValues:
        return cls(facts.lane, facts.uri, facts.language, facts.modified_ns, facts.tags, collection)


def facets_as_json(facets: Facets | None) -> dict[str, Any]:
    return {name: [facet.as_json() for facet in values] for name, values in (facets or {}).items()}


def count_facets(documents: Iterable[FacetValues], prefix: str = "") -> Facets:
    """Count documents by each filter, most frequent first.

    Folders are those below ``prefix``; a folder that contains all documents is skipped.
    """
    kinds: Counter[str] = Counter()
    collections: Counter[str] = Counter()
    languages: Counter[str] = Counter()
    tags: Counter[str] = Counter()
    spelling: dict[str, str] = {}
    ages: Counter[str] = Counter()
    uris: list[str] = []
    now = datetime.now(UTC).timestamp()
    for document in documents:
        kinds[document.lane] += 1
        collections[document.collection] += 1
        languages[document.language] += 1
        if document.tags:
            tags.update(_expand_tags(document.tags, spelling))
        if document.lane != "commits":
            uris.append(document.uri)
        age = now - document.modified_ns / 1e9
        ages.update(name for name, seconds in AGES if age <= seconds)
    return {
        "lane": _most_frequent(kinds),
        "collection": _most_frequent(collections),
        "path": _count_folders(uris, prefix),
        "language": _most_frequent(languages),
        "tag": _nest(tags, "/", _TAG_DEPTH)[:_MAX_TAGS],
        "age": [Facet(name, ages[name]) for name, _ in AGES if ages[name]],
    }


def _expand_tags(tags: Sequence[str], spelling: dict[str, str]) -> set[str]:
    """Return the tags of a document with those they are nested in: a filter finds both.

    Case does not matter, so a tag is spelled as it was first, which ``spelling`` remembers.
    """
    expanded: set[str] = set()
    for tag in tags:
        above = ""
        for part in tag.strip("#/").split("/"):
            above = f"{above}/{part}" if above else part
            above = spelling.setdefault(above.casefold(), above)
            expanded.add(above)
    return expanded


def _nest(counts: Counter[str], sign: str, depth: int) -> list[Facet]:
    """Return values as a tree: ``a/b`` is below ``a``."""
    children: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for value, count in counts.items():
        children[value.rpartition(sign)[0]][value] = count

    def build(value: str, count: int, levels: int) -> Facet:
        below = _most_frequent(children[value]) if levels > 1 and value in children else []
        return Facet(value, count, tuple(build(f.value, f.count, levels - 1) for f in below))

    top = _most_frequent(children[""], _MAX_TAGS)
    return [build(facet.value, facet.count, depth) for facet in top]


def _count_folders(uris: Sequence[str], prefix: str) -> list[Facet]:
    """Count documents per folder below ``prefix``, or below the only folder that has them all."""
    inside = [uri[len(prefix) :] for uri in uris if uri.startswith(prefix)]
    while True:
        folders = _count_first(inside)
        if len(folders) != 1 or folders.total() < len(uris):
            break
        [only] = folders
        prefix += only
        inside = [path[len(only) :] for path in inside]
    return _list_folders(inside, folders, prefix, _FOLDER_DEPTH)


def _list_folders(
    paths: Sequence[str], folders: Counter[str], prefix: str, depth: int
) -> list[Facet]:
    facets = []
    for facet in _most_frequent(folders):
        below: list[Facet] = []
        if depth > 1:
            inside = [path[len(facet.value) :] for path in paths if path.startswith(facet.value)]
            name = prefix + facet.value
            below = _list_folders(inside, _count_first(inside), name, depth - 1)
        facets.append(Facet(prefix + facet.value, facet.count, tuple(below)))
    return facets


def _count_first(paths: Iterable[str]) -> Counter[str]:
    """Count paths by their first folder."""
    return Counter(f"{first}/" for first, sign, _ in (p.partition("/") for p in paths) if sign)


def _most_frequent(counts: Counter[str], most: int = _MAX_VALUES) -> list[Facet]:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [Facet(*item) for item in ordered if item[0]][:most]
