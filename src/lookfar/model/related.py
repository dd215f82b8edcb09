"""Related documents and the link graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from lookfar.model.answers import Incomplete

RelatedKind = Literal[
    "links",
    "backlinks",
    "similar",
    "community",
    "definitions",
    "mentions",
    "commits",
    "memories",
]
Relation = Literal[
    "links_to",
    "transclusion",
    "implements",
    "tests",
    "related",
    "mentions",
    "plans",
    "refactors",
]


@dataclass(frozen=True, slots=True)
class RelatedEntry:
    """A document that has to do with another, and how."""

    kind: RelatedKind
    uri: str
    """Empty where a link leads to what is not there: a ghost, until it appears."""
    title: str
    target: str
    """For a link, its target as it is written."""
    resolved: bool
    """Whether there is such a document."""
    relation: Relation | None
    """What kind of link the first one is; none where nothing is linked."""
    count: int
    """How many links there are; 0 where nothing is linked."""
    score: float
    """Comparable within one kind only."""
    anchor: str
    """The heading or block that the first link points to."""
    heading_path: tuple[str, ...]
    """The headings above the first link, or above the passage that is similar."""
    line: int
    """Where the first link or the passage stands, in the document that has it; or 0."""
    text: str
    """What the first link reads like."""
    context: str
    """About a hundred characters around it, or the beginning of the passage."""
    collection: str = ""
    """Where it stands, if not beside the document that was asked about."""


@dataclass(frozen=True, slots=True)
class Related:
    """What has to do with one document or a part of it, by kind and then the best first."""

    collection: str
    uri: str
    title: str
    heading_path: tuple[str, ...]
    """Of the section that was asked about; empty for a whole document."""
    entries: tuple[RelatedEntry, ...]
    totals: Mapping[RelatedKind, int]
    """How many there are of each kind that was asked for; entries may be fewer."""
    generation: int
    incomplete: tuple[Incomplete, ...] = ()


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A document of a drawn graph."""

    uri: str
    title: str
    community: int
    """Equal numbers belong together; 0 is the largest community."""
    links: int
    """How many documents it is linked with, drawn or not."""


@dataclass(frozen=True, slots=True)
class Community:
    """Documents that are linked among each other more than with others."""

    number: int
    size: int
    title: str
    """Of its most linked document."""
    uri: str


@dataclass(frozen=True, slots=True)
class LinkGraph:
    """As much of a collection's link graph as can be drawn."""

    collection: str
    generation: int
    nodes: tuple[GraphNode, ...]
    edges: tuple[tuple[int, int], ...]
    """Pairs of places in ``nodes``."""
    communities: tuple[Community, ...]
    """The largest first; also those of which no document is drawn."""
    documents: int
    """How many documents have links, drawn or not."""
