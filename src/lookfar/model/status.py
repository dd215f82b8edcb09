"""The state of an index: passes, generations, health and counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from lookfar.model.files import Failure


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What one indexing pass found and did."""

    collection: str
    root: str
    generation: int
    added: int
    changed: int
    removed: int
    unchanged: int
    chunks_embedded: int
    failures: tuple[Failure, ...]
    skipped: Mapping[str, int]
    """How many entries stayed out, by reason."""
    skipped_examples: Mapping[str, tuple[str, ...]]
    """The first few of each reason."""
    seconds: float
    text_bytes: int
    masked: int = 0
    """How many of the files that were read have passages that are masked as secrets."""
    masked_examples: tuple[str, ...] = ()
    """The first few of them."""


@dataclass(frozen=True, slots=True)
class Counts:
    """How much a generation holds."""

    documents: int = 0
    sections: int = 0
    chunks: int = 0
    links: int = 0


@dataclass(frozen=True, slots=True)
class GenerationInfo:
    """One kept state of an index, and what its manifest says of it."""

    number: int
    created_at: str
    active: bool
    """It is the one that questions are answered from."""
    pinned: bool
    """Retention leaves it alone."""
    counts: Counts
    content: str
    """A hash over every document's URI and text: equal for equal libraries."""
    model: str
    model_fingerprint: str
    added: int
    changed: int
    removed: int
    failures: int
    seconds: float


@dataclass(frozen=True, slots=True)
class DocumentChange:
    """A document that two generations have with different texts, and where they differ.

    Sections are named by their heading path, and compared by their own text: that
    up to the next heading. The text before the first heading has an empty path.
    """

    uri: str
    added: tuple[tuple[str, ...], ...]
    removed: tuple[tuple[str, ...], ...]
    changed: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class GenerationDiff:
    """What one generation has that another has not."""

    older: int
    newer: int
    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[DocumentChange, ...]


@dataclass(frozen=True, slots=True)
class Pruned:
    """What retention let go of."""

    generations: int
    documents: int
    """Versions of documents that no kept generation shows."""
    kept: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Watching:
    """How the keeper of a collection is doing."""

    running: bool = False
    healthy: bool = False
    reason: str = ""
    """Why changes may be missed; empty when none will be."""
    strategy: str = ""
    queued: int = 0
    """Names of files and folders that changed and are not indexed yet."""
    everything: bool = False
    """A comparison of the whole folder is due: names do not say what changed."""
    last_error: str = ""
    last_pass: str = ""
    passes: int = 0


@dataclass(frozen=True, slots=True)
class VectorPass:
    """How the nearest vectors are found among all."""

    rows: int
    method: Literal["exact", "coarse"]
    """Every vector is compared, or those that their bits put forward."""
    kept: int
    """How many are compared with a question."""
    recall: float | None = None
    """The share of the true ten nearest that are found, measured on a sample of stored vectors
    when the index last grew; None where all are compared or nothing was measured yet."""
    sample: int = 0


@dataclass(frozen=True, slots=True)
class Damage:
    """One thing in an index that is not as it was written."""

    artefact: str
    """``catalogue``, ``texts``, ``vectors``, ``keywords`` or ``signatures``; ``beside`` for the
    small files beside the index, and ``index`` where it cannot be opened."""
    detail: str


@dataclass(frozen=True, slots=True)
class Salvaged:
    """What a repair saved of a database whose own rows were damaged."""

    saved: int
    """Documents that fit their hashes, and are in the new epoch."""
    lost: int
    """Documents of which no intact copy was found, as far as their number is known."""
    lost_ids: tuple[str, ...]
    """Their names, as far as they are known; at most a hundred."""
    kept_aside: str
    """Where the damaged files are. Nothing but deleting documents removes them."""


@dataclass(frozen=True, slots=True)
class Verified:
    """What checking every row and file of one index against its hash came to."""

    collection: str
    index_dir: str
    found: tuple[Damage, ...]
    repaired: bool = False
    """Whether something was damaged, was made anew and is sound now."""
    left: tuple[Damage, ...] = ()
    """What is damaged still."""
    salvaged: Salvaged | None = None
    """What was saved of inserted documents that were damaged themselves."""


@dataclass(frozen=True, slots=True)
class Receipts:
    """What answers cost whoever read them, and what the files they cite would have cost."""

    answers: int = 0
    tokens: int = 0
    document_tokens: int = 0

    def __add__(self, other: Receipts) -> Receipts:
        return Receipts(
            self.answers + other.answers,
            self.tokens + other.tokens,
            self.document_tokens + other.document_tokens,
        )


@dataclass(frozen=True, slots=True)
class Status:
    """What is indexed, where, and how well."""

    collection: str
    root: str
    index_dir: str
    indexed: bool
    generation: int
    generations: tuple[int, ...]
    created_at: str
    held: int | None
    """The generation that a roll-back holds the index at, until it is indexed again."""
    counts: Counts
    model: str
    dimensions: int
    current: bool
    """The index was made with the settings now in force."""
    disk_bytes: int
    damage: str
    """When and how the index was last found damaged and built anew; empty if never."""
    failures: tuple[Failure, ...]
    stale: tuple[str, ...]
    """Files that were added, changed or removed since; at most a hundred are named."""
    stale_count: int
    watcher: Watching | None = None
    """None where nobody watches in this process."""
    vectors: VectorPass | None = None
    """None where there are no vectors."""
    receipts: Receipts | None = None
    """Of the answers given to agents; None where none are counted."""
