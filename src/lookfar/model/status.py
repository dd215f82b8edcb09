"""The state of an index: passes, generations, health and counts, and of the files on disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """File metadata from ``stat``, to detect changes without reading the file."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file that may be indexed."""

    uri: str
    fingerprint: Fingerprint


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file or folder that is not indexed, and why."""

    uri: str
    reason: str
    """A stable identifier: ``denied``, ``secret``, ``excluded``, ``ignored``, ``symlink``, ..."""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Ruling:
    """Whether a path may be indexed, and the rule that decides it."""

    uri: str
    admitted: bool
    reason: str
    """As in ``Skipped``; for admitted paths ``admitted``, ``included``, ``not_ignored`` or, if
    passages are hidden, ``masked``."""
    rule: str
    """The rule as written, or the state of the file; empty if no rule applies."""
    place: str
    """Where the rule is defined: a file and line, a setting, or ``built in``."""
    decided: str
    """The path that the rule matched: the one asked for, or a folder above it."""
    indexed: bool = False
    """Whether it is in the index now."""
    collection: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """A file that could not be indexed; its earlier version, if any, is still searched."""

    uri: str
    code: str
    message: str


_KEPT_SESSIONS: Final = 10


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What an indexing pass did."""

    collection: str
    root: str
    generation: int
    added: int = 0
    changed: int = 0
    removed: int = 0
    unchanged: int = 0
    chunks_embedded: int = 0
    failures: tuple[Failure, ...] = ()
    skipped: Mapping[str, int] = field(default_factory=dict)
    """Number of skipped entries, by reason."""
    skipped_examples: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The first few skipped entries, by reason."""
    seconds: float = 0.0
    text_bytes: int = 0
    masked: int = 0
    """Number of files with passages that are masked as secrets."""
    masked_examples: tuple[str, ...] = ()
    """The first few of these files."""
    warned: int = 0
    """Number of files whose text may not be exact, such as files in a guessed encoding."""
    warned_examples: Mapping[str, str] = field(default_factory=dict)
    """The first few of these files, with the reason."""


@dataclass(frozen=True, slots=True)
class Counts:
    """The size of a generation."""

    documents: int = 0
    sections: int = 0
    chunks: int = 0
    links: int = 0


@dataclass(frozen=True, slots=True)
class GenerationInfo:
    """A retained generation of an index, described by its manifest."""

    number: int
    created_at: str
    active: bool
    """Whether it is the one that is searched."""
    pinned: bool
    """Whether it is exempt from pruning."""
    counts: Counts
    content: str
    """Hash of every document's URI and text: equal for equal contents."""
    model: str
    model_fingerprint: str
    added: int
    changed: int
    removed: int
    failures: int
    seconds: float


@dataclass(frozen=True, slots=True)
class DocumentChange:
    """A document whose text differs between two generations, and the sections that differ.

    Sections are identified by their heading path and compared by their own text, up to the next
    heading. The text before the first heading has an empty path.
    """

    uri: str
    added: tuple[tuple[str, ...], ...]
    removed: tuple[tuple[str, ...], ...]
    changed: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class GenerationDiff:
    """The differences between two generations."""

    older: int
    newer: int
    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[DocumentChange, ...]


@dataclass(frozen=True, slots=True)
class Pruned:
    """What pruning removed."""

    generations: int
    documents: int
    """Versions of documents that no retained generation contains."""
    kept: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Watching:
    """The state of a collection's file watcher."""

    running: bool = False
    healthy: bool = False
    reason: str = ""
    """Why changes may be missed; empty if the watcher is healthy."""
    strategy: str = ""
    queued: int = 0
    """Number of changed files and folders that are not indexed yet."""
    everything: bool = False
    """Whether the whole folder must be compared, because the changed names are not known."""
    last_error: str = ""
    last_pass: str = ""
    passes: int = 0


@dataclass(frozen=True, slots=True)
class VectorPass:
    """How the nearest vectors are searched."""

    rows: int
    method: Literal["exact", "coarse"]
    """``exact``: every vector is compared. ``coarse``: codes preselect candidates."""
    kept: int
    """Number of vectors compared with a query."""
    recall: float | None = None
    """Recall of the true ten nearest, measured on a sample of stored vectors when the index last
    grew; None if all vectors are compared or nothing was measured yet."""
    sample: int = 0


@dataclass(frozen=True, slots=True)
class QualityStatus:
    """The progress of the second model with the passages of a collection."""

    model: str
    dimensions: int
    embedded: int
    """Passages that have a vector of the second model."""
    unreadable: int
    """Passages in a language that the model does not know; they keep the first model's vector."""
    total: int
    working: bool = False
    """Whether this process is embedding passages of this collection."""
    paused: str = ""
    """Why it waits; empty if it does not."""
    per_second: float = 0.0
    """Passages embedded per second recently; 0 if none are being embedded."""
    failure: str = ""
    """Why passages cannot be embedded; empty if they can."""


@dataclass(frozen=True, slots=True)
class Damage:
    """One damaged part of an index."""

    artefact: str
    """``catalogue``, ``texts``, ``vectors``, ``keywords``, ``signatures`` or ``second vectors``;
    ``beside`` for the small files next to the index, ``index`` if it cannot be opened."""
    detail: str


@dataclass(frozen=True, slots=True)
class Salvaged:
    """What a repair recovered from a database whose documents were damaged."""

    saved: int
    """Number of documents that match their hashes and were recovered."""
    lost: int
    """Number of documents without an intact copy, as far as known."""
    lost_ids: tuple[str, ...]
    """Their IDs, as far as known; at most a hundred."""
    kept_aside: str
    """Path of the damaged files. They are kept until documents are deleted."""


@dataclass(frozen=True, slots=True)
class Verified:
    """The result of checking every row and file of an index against its hash."""

    collection: str
    index_dir: str
    found: tuple[Damage, ...]
    repaired: bool = False
    """Whether damage was found and repaired."""
    left: tuple[Damage, ...] = ()
    """Damage that could not be repaired."""
    salvaged: Salvaged | None = None
    """What was recovered of damaged inserted documents."""


@dataclass(frozen=True, slots=True)
class SessionReceipt:
    """What one client session has asked for."""

    session: str
    """Its identifier."""
    client: str
    """The name of the program, as it introduced itself."""
    started_at: str
    calls: int
    tokens: int
    """The tokens of the results of all calls."""


@dataclass(frozen=True, slots=True)
class Receipts:
    """Tokens in answers given to agents, and in the whole documents that these answers cite."""

    answers: int = 0
    tokens: int = 0
    document_tokens: int = 0
    sessions: tuple[SessionReceipt, ...] = ()
    """The latest client sessions, the one with the last call at the end."""

    def __add__(self, other: Receipts) -> Receipts:
        sessions = {receipt.session: receipt for receipt in self.sessions}
        for added in other.sessions:
            known = sessions.pop(added.session, None)
            sessions[added.session] = (
                added
                if known is None
                else replace(
                    known, calls=known.calls + added.calls, tokens=known.tokens + added.tokens
                )
            )
        return Receipts(
            self.answers + other.answers,
            self.tokens + other.tokens,
            self.document_tokens + other.document_tokens,
            tuple(sessions.values())[-_KEPT_SESSIONS:],
        )


@dataclass(frozen=True, slots=True)
class Status:
    """The status of a collection's index."""

    collection: str
    root: str
    index_dir: str
    indexed: bool
    generation: int
    generations: tuple[int, ...]
    created_at: str
    held: int | None
    """The generation the index was rolled back to, until the next indexing pass."""
    counts: Counts
    model: str
    dimensions: int
    current: bool
    """Whether the index was built with the current settings."""
    disk_bytes: int
    damage: str
    """When and how the index was last found damaged and rebuilt; empty if never."""
    failures: tuple[Failure, ...]
    stale: tuple[str, ...]
    """Files that were added, changed or removed since; at most a hundred."""
    stale_count: int
    watcher: Watching | None = None
    """None if this process does not watch the folder."""
    vectors: VectorPass | None = None
    """None without vectors."""
    quality: QualityStatus | None = None
    """None without a second model."""
    receipts: Receipts | None = None
    """None if answers are not counted."""
    skipped: Mapping[str, int] = field(default_factory=dict)
    """Number of skipped entries, by reason."""
    skipped_examples: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """A few skipped entries, by reason."""
    packages: int | None = None
    """How many packages of the project are indexed; None if they are not asked for."""
    named_sources: tuple[str, ...] = ()
    """Sources that the folder's ``lookfar.toml`` names and the user has not confirmed."""
