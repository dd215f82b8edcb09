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
    "callers",
    "callees",
    "impact",
    "tests",
    "commits",
    "memories",
]
USUAL_KINDS: tuple[RelatedKind, ...] = ("links", "backlinks", "similar", "community")
"""What is related to a document, unless other kinds are asked for."""
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
    """A document related to another, and how."""

    kind: RelatedKind
    uri: str
    """Empty if the link target does not exist."""
    title: str
    target: str
    """For a link, its target as written."""
    resolved: bool
    """Whether the document exists."""
    relation: Relation | None
    """Kind of the first link; None without links."""
    count: int
    """Number of links."""
    score: float
    """Comparable only within one kind."""
    anchor: str
    """Heading or block that the first link points to."""
    heading_path: tuple[str, ...]
    """Headings above the first link or above the similar passage."""
    line: int
    """Line of the first link or of the passage, in the document that contains it; or 0."""
    text: str
    """Text of the first link."""
    context: str
    """About a hundred characters around it, or the start of the passage."""
    collection: str = ""
    """Its collection, if it differs from that of the queried document."""
    certain: bool | None = None
    """In the call graph: whether scope, imports or types lead to it, or only its name."""
    depth: int = 0
    """In the call graph: number of calls between it and the queried definition."""


@dataclass(frozen=True, slots=True)
class Related:
    """What is related to a document or a part of it, by kind and then best first."""

    collection: str
    uri: str
    title: str
    heading_path: tuple[str, ...]
    """Heading path of the queried section; empty for a whole document."""
    entries: tuple[RelatedEntry, ...]
    totals: Mapping[RelatedKind, int]
    """Number of each requested kind; ``entries`` may have fewer."""
    generation: int
    incomplete: tuple[Incomplete, ...] = ()


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A document in a link graph for display."""

    uri: str
    title: str
    community: int
    """Number of its community; 0 is the largest."""
    links: int
    """Number of documents linked with it, shown or not."""


@dataclass(frozen=True, slots=True)
class Community:
    """Documents that are linked more with each other than with the rest."""

    number: int
    size: int
    title: str
    """Title of its most linked document."""
    uri: str


@dataclass(frozen=True, slots=True)
class LinkGraph:
    """The part of a collection's link graph that is small enough to draw."""

    collection: str
    generation: int
    nodes: tuple[GraphNode, ...]
    edges: tuple[tuple[int, int], ...]
    """Pairs of positions in ``nodes``."""
    communities: tuple[Community, ...]
    """Largest first, including those without a document in ``nodes``."""
    documents: int
    """Number of documents with links, shown or not."""
