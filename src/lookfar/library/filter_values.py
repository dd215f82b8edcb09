"""What the documents of a library can be filtered by: their tags and properties, with counts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from lookfar.common.properties import OWN_KEYS, TAGS_KEY
from lookfar.library.members import Members
from lookfar.model import PropertyValues, TagCount

if TYPE_CHECKING:
    from lookfar.collections.collection import Collection
    from lookfar.ports import PropertyRecord

_MOST_VALUES: Final = 12
_MOST_CACHED: Final = 200
"""Values of one property that are remembered for each collection."""
_MOST_PROPERTIES: Final = 200


@dataclass(slots=True)
class _Property:
    """What is known about one property of one collection."""

    names: Counter[str] = field(default_factory=Counter)
    types: set[str] = field(default_factory=set)
    documents: int = 0
    distinct: int = 0
    values: dict[str, tuple[str, int]] = field(default_factory=dict)
    """By case-folded value: the value as first written, and its number of documents."""


@dataclass(slots=True)
class _Vocabulary:
    properties: dict[str, _Property] = field(default_factory=dict)
    tags: dict[str, TagCount] = field(default_factory=dict)
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
    by_key: dict[str, list[_Property]] = defaultdict(list)
    for vocabulary in _read_all(members):
        for key, known in vocabulary.properties.items():
            by_key[key].append(known)
    merged = [_merge(parts) for parts in by_key.values()]
    merged.sort(key=lambda item: (-item.documents, item.name))
    return tuple(merged[:_MOST_PROPERTIES])


def _merge(parts: Sequence[_Property]) -> PropertyValues:
    names: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    written: dict[str, str] = {}
    for part in parts:
        names.update(part.names)
        for folded, (value, count) in part.values.items():
            written.setdefault(folded, value)
            counts[folded] += count
    frequent = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_MOST_VALUES]
    return PropertyValues(
        name=max(names, key=lambda name: (names[name], name)),
        types=tuple(sorted({kind for part in parts for kind in part.types})),
        documents=sum(part.documents for part in parts),
        # Values that several collections share count once for each of them.
        distinct=max(len(counts), *(part.distinct for part in parts)),
        values=tuple((written[folded], count) for folded, count in frequent),
    )


def _read_all(members: Members) -> Iterable[_Vocabulary]:
    collections: Mapping[str, Collection] = {
        **members.folders, **members.memories(), **members.databases()
    }  # fmt: skip
    return [_read(collection) for collection in collections.values() if collection.indexed]


def _read(collection: Collection) -> _Vocabulary:
    def look() -> _Vocabulary:
        with collection.store.snapshot() as snapshot:
            return snapshot.cached("vocabulary", lambda: _summarise(snapshot.properties()))

    return collection.healing.run(look)


def _summarise(records: Iterable[PropertyRecord]) -> _Vocabulary:
    vocabulary = _Vocabulary()
    tagged: dict[str, set[int]] = defaultdict(set)
    spelled: dict[str, str] = {}
    holders: dict[str, set[int]] = defaultdict(set)
    having: dict[tuple[str, str], set[int]] = defaultdict(set)
    written: dict[tuple[str, str], str] = {}
    for record in records:
        if record.key == TAGS_KEY:
            tagged[record.folded].add(record.document)
            spelled.setdefault(record.folded, record.value)
        if record.key.startswith(OWN_KEYS):
            continue
        known = vocabulary.properties.setdefault(record.key, _Property())
        known.names[record.name] += 1
        known.types.add(record.kind)
        holders[record.key].add(record.document)
        having[record.key, record.folded].add(record.document)
        written.setdefault((record.key, record.folded), record.value)
    counts: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for (key, folded), documents in having.items():
        counts[key].append((-len(documents), folded))
    for key, known in vocabulary.properties.items():
        known.documents, known.distinct = len(holders[key]), len(counts[key])
        for count, folded in sorted(counts[key])[:_MOST_CACHED]:
            known.values[folded] = (written[key, folded], -count)
    vocabulary.tags = _count_tags(tagged, spelled)
    return vocabulary


def _count_tags(tagged: Mapping[str, set[int]], spelled: Mapping[str, str]) -> dict[str, TagCount]:
    """Count each tag and each of the tags that it is below: ``a/b`` counts for ``a``."""
    names = dict(spelled)
    below: dict[str, set[int]] = defaultdict(set)
    for folded, documents in tagged.items():
        parts, written = folded.split("/"), spelled[folded].split("/")
        for depth in range(1, len(parts) + 1):
            above = "/".join(parts[:depth])
            below[above] |= documents
            names.setdefault(above, "/".join(written[:depth]))
    return {
        folded: TagCount(names[folded], len(documents), len(tagged.get(folded, ())))
        for folded, documents in below.items()
    }
