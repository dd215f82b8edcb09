"""What the documents of a library can be filtered by: their tags and properties, with counts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lookfar.library.members import Members
from lookfar.model import PropertyValues, TagCount

if TYPE_CHECKING:
    from lookfar.collections.collection import Collection
    from lookfar.ports import PropertyCount, Snapshot, TaggedDocuments

_MOST_VALUES: Final = 12
MOST_COUNTED: Final = 200
"""Values of one property that are counted in each collection."""
_MOST_PROPERTIES: Final = 200


@dataclass(frozen=True, slots=True)
class _Vocabulary:
    properties: Sequence[PropertyCount]
    tags: Mapping[str, TagCount]
    """By case-folded tag."""


def list_tags(members: Members) -> tuple[TagCount, ...]:
    merged: dict[str, TagCount] = {}
    for vocabulary in _read_all(members):
        for folded, count in vocabulary.tags.items():
            known = merged.get(folded, TagCount(count.tag, 0, 0))
            merged[folded] = TagCount(
                known.tag, known.documents + count.documents, known.own + count.own
            )
    return tuple(merged[folded] for folded in sorted(merged))


def list_properties(members: Members) -> tuple[PropertyValues, ...]:
    return merge_properties(vocabulary.properties for vocabulary in _read_all(members))


def merge_properties(counted: Iterable[Sequence[PropertyCount]]) -> tuple[PropertyValues, ...]:
    """Return the properties of several collections as one list, most frequent first."""
    by_key: dict[str, list[PropertyCount]] = defaultdict(list)
    for properties in counted:
        for known in properties:
            by_key[known.key].append(known)
    merged = [_merge(parts) for parts in by_key.values()]
    merged.sort(key=lambda item: (-item.documents, item.name))
    return tuple(merged[:_MOST_PROPERTIES])


def _merge(parts: Sequence[PropertyCount]) -> PropertyValues:
    names: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    written: dict[str, str] = {}
    for part in parts:
        names[part.name] += part.documents
        for value in part.values:
            written.setdefault(value.folded, value.value)
            counts[value.folded] += value.documents
    frequent = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_MOST_VALUES]
    return PropertyValues(
        name=max(names, key=lambda name: (names[name], name)),
        types=tuple(sorted({kind for part in parts for kind in part.kinds})),
        documents=sum(part.documents for part in parts),
        # Values that several collections share count once for each of them.
        distinct=max(len(counts), *(part.distinct for part in parts)),
        values=tuple((written[folded], count) for folded, count in frequent),
    )


def _read_all(members: Members) -> Iterable[_Vocabulary]:
    collections: Mapping[str, Collection] = {
        **members.folders, **members.memories(), **members.databases()
    }  # fmt: skip
    return [_read(collection) for collection in collections.values() if collection.was_indexed]


def _read(collection: Collection) -> _Vocabulary:
    def look(snapshot: Snapshot) -> _Vocabulary:
        return snapshot.cached("vocabulary", lambda: _summarise(snapshot))

    return collection.ask(look)


def _summarise(snapshot: Snapshot) -> _Vocabulary:
    return _Vocabulary(snapshot.count_properties(MOST_COUNTED), _count_tags(snapshot.list_tagged()))


def _count_tags(tagged: Iterable[TaggedDocuments]) -> dict[str, TagCount]:
    """Count each tag and each of the tags that it is below: ``a/b`` counts for ``a``."""
    own = {tag.folded: tag for tag in tagged}
    names = {tag.folded: tag.tag for tag in own.values()}
    below: dict[str, set[int]] = defaultdict(set)
    for tag in own.values():
        parts, written = tag.folded.split("/"), tag.tag.split("/")
        for depth in range(1, len(parts) + 1):
            above = "/".join(parts[:depth])
            below[above] |= tag.documents
            names.setdefault(above, "/".join(written[:depth]))
    return {
        folded: TagCount(
            names[folded], len(documents), len(own[folded].documents) if folded in own else 0
        )
        for folded, documents in below.items()
    }
