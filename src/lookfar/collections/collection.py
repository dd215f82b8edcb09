"""What every collection can do, whatever it is an index of: be asked, be read, go back.

Takes: a store, settings, and from each kind how it is indexed and freshened. Gives: pinned
snapshots for questions, documents, earlier states, healing of damage. Refuses: to know where
documents come from, and to rank.
"""

from __future__ import annotations

import re
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Collection as Several
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import cached_property, partial
from hashlib import sha256
from heapq import nlargest
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeVar
from unicodedata import normalize

from lookfar.common.target import Target
from lookfar.common.turns import TURNS
from lookfar.errors import (
    IndexBusy,
    IndexCorrupt,
    IndexHeld,
    InvalidArgument,
    IOFailed,
    LookfarError,
    ModelUnavailable,
    NotFound,
    how_many,
    wrong_dimensions,
)
from lookfar.model import (
    Counts,
    Damage,
    Document,
    GenerationDiff,
    GenerationInfo,
    Incomplete,
    IndexReport,
    LinkGraph,
    Listed,
    Outline,
    Page,
    PageChunk,
    PageInfo,
    Pruned,
    Reading,
    Related,
    RelatedKind,
    Salvaged,
    Span,
    State,
    Status,
    Verified,
    Watching,
    display_path,
)
from lookfar.retrieve.locate.notes import is_link, resolve_note
from lookfar.retrieve.locate.symbols import find_definitions, find_only_definition
from lookfar.retrieve.locate.target import check_citation, locate, parse_target
from lookfar.retrieve.neighbours.drawing import draw_graph
from lookfar.retrieve.neighbours.related import KINDS, SYMBOL_KINDS, Part, find_related
from lookfar.store.opening import Store, open_store
from lookfar.text.parse.formats import parser_for

if TYPE_CHECKING:
    from lookfar.config import Settings
    from lookfar.index.keeper import Keeper
    from lookfar.index.progress import OnProgress, Progress
    from lookfar.model import Section
    from lookfar.ports import Embedder, Place, Snapshot
    from lookfar.retrieve.ranking import Plan
    from lookfar.store.catalogue.generations import Generation
    from lookfar.store.health.repair import Maker
    from lookfar.store.shared.snapshot import StoredSnapshot

PATIENCE: Final = 600.0
"""Seconds that a question waits for another process to build what it needs."""

REBUILD_PATIENCE: Final = 10.0
"""Seconds that a question waits in a server for an index that is built anew, before it says so."""

ASK_AGAIN: Final = 0.1
"""Seconds of waiting after which whoever waits is asked whether it still wants to."""

KEEPER_PATIENCE: Final = 5.0
"""Seconds that the keeper waits for another writer before it tries again later."""

_LONGEST_REPORT = 2_000
"""Characters of what is kept of a damage."""

_LONGEST_NAME = 300
"""Characters of a name that others are compared with: comparing takes time."""

_MOST_COMPARED = 300
"""URIs that one is compared with letter by letter."""
_LETTERS = 60
"""At the end of a URI, by which these are chosen."""
_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")

T = TypeVar("T")


Kind = Literal["files", "commits", "memory", "documents"]


class Closing(Exception):
    """Ends a pass in the background, because nobody will be there for what it makes."""


class Collection(ABC):
    """One corpus and its index. May be shared by threads."""

    kind: ClassVar[Kind]
    """What it is a collection of; tells them apart without importing them all."""

    def __init__(self, name: str, settings: Settings, store: Store) -> None:
        self.name = name
        self.settings = settings
        self._store = store
        self._without_model = ""
        self._building = Lock()
        self._began = ""
        self._closing = False
        self.progress: Progress | None = None
        """How far the pass that is under way here has come, where that is known."""
        self.failure: LookfarError | None = None
        """Why the last pass here failed; None once one succeeded."""
        self._keeper: Keeper | None = None
        self._watching = Lock()
        self._generation = 0
        self.on_activated: list[Callable[[int, int], None]] = []
        """Told after each pass here that made a generation: the number of the one before it,
        0 where that is not known, and its own."""

    # -- what each kind does its own way ---------------------------------------

    @abstractmethod
    def index(
        self,
        *,
        rebuild: bool = False,
        only: Several[str] | None = None,
        on_progress: OnProgress | None = None,
        wait_seconds: float = 0.0,
    ) -> IndexReport:
        """Make the index true to its source."""

    @abstractmethod
    def source(self, uri: str) -> str | None:
        """A document's normalised text as its source has it now."""

    @abstractmethod
    def status(self, *, collection: str = "", check: bool = True) -> Status:
        """What is indexed; with ``check`` the source is compared with it."""

    @abstractmethod
    def _freshen(self, on_progress: OnProgress | None) -> list[Incomplete]:
        """Bring the index up to date as far as that is quick; gives what is left to admit."""

    @abstractmethod
    def _current(self, snapshot: Snapshot, uri: str) -> tuple[Document, bool]:
        """A document as its source has it now, and whether it is the one that was indexed."""

    # -- the index ---------------------------------------------------------

    @property
    def indexed(self) -> bool:
        """Whether there is a finished index to search."""
        return self._store.exists

    @property
    def place(self) -> str:
        """Where its index lies, for people: a folder, or a server and a name there."""
        return self._store.place

    @property
    def begun(self) -> bool:
        """Whether there is anything of an index, finished or not."""
        return self._store.present

    @property
    def index_dir(self) -> Path:
        """The folder that holds its index."""
        return self._store.folder

    def _take_building(self) -> None:
        """The lock on building, or ``IndexBusy``; whoever only looks at the disk is waited for."""
        with TURNS.step_aside():
            while not self._building.acquire(timeout=0.05):
                if self._began:
                    raise IndexBusy(
                        "This index is being built.",
                        hint="Wait for it to finish and try again; searching works meanwhile.",
                        developer=f"a pass began at {self._began}",
                        details={"since": self._began},
                    )

    @contextmanager
    def _held(self, on_progress: OnProgress | None, lock: Lock | None = None) -> Iterator[None]:
        """A lock, that on building unless told otherwise, for as long as the caller wants it."""
        lock = lock or self._building
        self._await(lock, on_progress)
        try:
            yield
        finally:
            lock.release()
            TURNS.settle()

    def _await(
        self, lock: Lock, on_progress: OnProgress | None, patience: float = float("inf")
    ) -> bool:
        """Take a lock; gives whether it was free before patience was at an end.

        A call that has to wait gives its turn back, and settles that after it released the lock.
        """
        if lock.acquire(blocking=False):
            return True
        deadline = time.monotonic() + patience
        with TURNS.step_aside():
            while not (taken := lock.acquire(timeout=ASK_AGAIN)):
                if time.monotonic() >= deadline:
                    break
                self._still_wanted(on_progress)
        if not taken:
            TURNS.settle()
        return taken

    def _still_wanted(self, on_progress: OnProgress | None) -> None:
        """Tell a call that waits how far others are. Raises where it was given up meanwhile: a
        pass may take minutes, and whoever has left must not keep a thread for so long."""
        if on_progress is not None:
            from lookfar.index.progress import Progress

            on_progress(self.progress or Progress(0, 0, 0, 0))

    def _when_free(
        self, write: Callable[[float], T], wait_seconds: float, on_progress: OnProgress | None
    ) -> T:
        """What a writer gives that is told how long it may wait for other processes; it waits
        in small pieces, as long as the caller wants it."""
        deadline = time.monotonic() + wait_seconds
        while True:
            left = max(0.0, deadline - time.monotonic())
            try:
                return write(min(left, ASK_AGAIN))
            except IndexBusy as busy:
                begun = self.progress is not None
                if begun or not left or isinstance(busy, IndexHeld):
                    raise
            self._still_wanted(on_progress)

    @property
    def building_since(self) -> str:
        """When the pass that is under way here began, in ISO form; empty where none is."""
        return self._began

    def _remove_index(self, wait_seconds: float) -> None:
        """Remove all that was made of the source, which is not touched."""
        from lookfar.collections.receipts import RECEIPTS_FILE, RECEIPTS_LOCK
        from lookfar.index.strategies import DIRTY_FILE, SEEN_FILE

        self._take_building()
        try:
            beside = (DIRTY_FILE, SEEN_FILE, RECEIPTS_FILE, RECEIPTS_LOCK)
            self._store.delete(beside, wait_seconds)
            self._generation, self.failure = 0, None
        finally:
            self._building.release()

    def _passed(self, run: Callable[[], IndexReport]) -> IndexReport:
        """One pass, for whoever holds the lock on building."""
        self._began = now()
        try:
            with TURNS.index():
                report = run()
        except LookfarError as error:
            if not isinstance(error, IndexBusy):
                self.failure = error
            raise
        finally:
            self._began = ""
        self.failure = None
        older, self._generation = self._generation, report.generation
        if report.generation != older:
            for tell in self.on_activated:
                tell(older, report.generation)
        return report

    @cached_property
    def embedder(self) -> Embedder | None:
        """The model; without the default one, words alone have to do."""
        return self._open_embedder()

    def _open_embedder(self) -> Embedder | None:
        from lookfar.embed.providers import open_embedder

        try:
            return open_embedder(self.settings.embed)
        except ModelUnavailable as missing:
            if self.settings.origin.get("embed.provider", "default") != "default":
                raise
            self._without_model = missing.message
            return None

    # -- what a question needs -------------------------------------------------

    @property
    def without_model(self) -> str:
        """Why there is no model although nobody said so; empty when all is as wished."""
        return self._without_model

    @contextmanager
    def asked(
        self, plan: Plan, as_of: int | None, on_progress: OnProgress | None
    ) -> Iterator[tuple[StoredSnapshot, list[Incomplete]]]:
        """A generation to answer from, as fresh as it can quickly be, and what it may lack."""
        notes = self._freshen(on_progress) if as_of is None else []
        with self._store.snapshot(as_of) as snapshot:
            if plan.vector is not None and not self._fits(snapshot):
                if as_of is not None or plan.mode == "vector":
                    raise self._other_model(snapshot)
                made_by = snapshot.manifest().get("model", "another")
                detail = f"the index is that of the model {made_by}, and the settings name another"
                notes = [*notes, Incomplete("no_model", f"{detail}. Words only.")]
            elif plan.vector is not None:
                self._refuse_other_length(plan, snapshot)
            held = _held(snapshot) if as_of is None else []
            yield snapshot, [*held, *notes, *_failed(snapshot)]

    def fitted(self, plan: Plan, snapshot: StoredSnapshot) -> Plan:
        """The plan for this snapshot: without a vector where its own are of another model."""
        if plan.vector is None or self._fits(snapshot):
            return plan
        return replace(plan, vector=None)

    def holds(self, damage: IndexCorrupt) -> bool:
        """Whether it is this collection's index that is damaged."""
        return Path(damage.details.get("path", "")).is_relative_to(self._store.folder)

    def heal(self, damage: IndexCorrupt, on_progress: OnProgress | None = None) -> Incomplete:
        """Set a damaged index aside and build it anew; gives what answers have to say of it."""
        if self.settings.store.read_only:
            raise damage
        try:
            gone = self._remade(damage, on_progress)
            if gone is not None:
                lacking = self._read_again(gone, on_progress) if gone else ""
                detail = f"what was damaged of the index has been mended{lacking}"
                return Incomplete("healed", f"{detail}: {damage.developer}", tuple(gone[:100]))
            self._store.set_aside(damage.developer, wait_seconds=PATIENCE)
        except IOFailed:
            # Nothing here can be written, so nothing can be healed either.
            raise damage from None
        how = self._build_anew(on_progress)
        return Incomplete("healed", f"the index was damaged and {how}: {damage.developer}")

    def _build_anew(self, on_progress: OnProgress | None) -> str:
        """Build what was set aside; gives what answers have to say of it."""
        self.index(on_progress=on_progress, wait_seconds=PATIENCE)
        return "has been rebuilt"

    def _ready(  # noqa: B027  # Most have nothing to wait for.
        self, patience: float, on_progress: OnProgress | None = None
    ) -> None:
        """Wait for an index that is built anew in the background, where that is done."""

    def _remade(
        self, damage: IndexCorrupt, on_progress: OnProgress | None = None
    ) -> list[str] | None:
        """Mend the index where it is, history and all; gives the documents that it lacks for it,
        or ``None`` where that cannot be done."""
        maker = self._maker()
        if maker is None:
            return None
        repair = partial(self._store.repair, maker, damage.developer)
        return self._when_free(repair, PATIENCE, on_progress)

    def _read_again(self, gone: list[str], on_progress: OnProgress | None) -> str:
        """Index documents again that were dropped; gives what answers have to say of them."""
        if self.held is not None:
            return f", but for {len(gone):,} documents that it lacks until it is indexed again"
        self.index(only=gone, on_progress=on_progress, wait_seconds=PATIENCE)
        return f", and {len(gone):,} documents have been read again"

    def _maker(self) -> Maker | None:
        """How that is done, for collections that know."""
        return None

    def _healing(self, ask: Callable[[], T]) -> T:
        """Ask; if the index turns out damaged, heal it and ask once more."""
        self._ready(REBUILD_PATIENCE)
        try:
            return ask()
        except IndexCorrupt as damage:
            self.heal(damage)
        except (LookfarError, Closing, MemoryError):
            raise
        except Exception as error:
            damage_behind = self.suspected(error)
            if damage_behind is None:
                raise
            self.heal(damage_behind)
        self._ready(REBUILD_PATIENCE)
        return ask()

    def suspected(self, error: Exception) -> IndexCorrupt | None:
        """The damage behind an exception that nobody expected: rows that do not fit each other
        end in any kind of them. ``None`` where everything stored is as it was written."""
        try:
            found = self._store.verify() if self._store.exists else []
        except LookfarError:
            return None
        if not found:
            return None
        told = f"{type(error).__name__}: {error}; {found[0].artefact}: {found[0].detail}"
        return self._damaged(told)

    def _fits(self, snapshot: StoredSnapshot) -> bool:
        """Whether the model made its vectors: those of two have nothing to say to each other."""
        wanted = self.embedder.fingerprint if self.embedder else ""
        return bool(snapshot.manifest().get("model_fingerprint", wanted) == wanted)

    def _other_model(self, snapshot: StoredSnapshot) -> InvalidArgument:
        return InvalidArgument(
            f"Generation {snapshot.generation} was made with the model"
            f" {snapshot.manifest()['model']}, and the settings name another.",
            hint="Search it by words (--mode keyword), name the settings it was made with,"
            " or index with these: lookfar index PATH.",
        )

    def _refuse_other_length(self, plan: Plan, snapshot: StoredSnapshot) -> None:
        """A service may have another model under the old name, which no fingerprint shows."""
        assert plan.vector is not None
        found = int(plan.vector.shape[-1])
        if found != snapshot.dimensions:
            raise wrong_dimensions(found, snapshot.dimensions)

    def reader(self, snapshot: Snapshot) -> Callable[[str], str | None]:
        """What citations are checked against: the source, or in a process that has none the
        generation that is asked."""
        return snapshot.text if self.settings.store.read_only else self.readable

    def readable(self, uri: str) -> str | None:
        """A document's text for citing: one that the disk refuses must not cost the answer."""
        try:
            return self.source(uri)
        except IOFailed:
            return None

    # -- following its source ----------------------------------------------------

    def drain(self, timeout: float = 10.0) -> bool:
        """While watching: index what changed so far; False if that failed or took too long."""
        keeper = self._keeper
        return keeper is not None and keeper.drain(timeout)

    def watching(self) -> Watching | None:
        """How following goes; None where this library does not follow."""
        keeper = self._keeper
        return keeper.state() if keeper is not None else None

    def _let_keeper_go(self) -> None:
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.stop()

    def _strategy(self) -> str:
        keeper = self._keeper
        return keeper.strategy if keeper is not None else ""

    # -- reading -----------------------------------------------------------

    def read(self, target: str | Target, *, collection: str = "") -> Reading:
        """A document, a part of it, or a citation checked against the disk."""
        _refuse_half_characters(target if isinstance(target, str) else target.uri)

        def look() -> tuple[Target, Document, bool, str | None]:
            with self._store.snapshot() as snapshot:
                wanted = _meant(snapshot, target)
                indexed = snapshot.text(wanted.uri) if wanted.chars else None
                return wanted, *self._current(snapshot, wanted.uri), indexed

        try:
            wanted, document, same, indexed = self._healing(look)
        except NotFound:
            if isinstance(target, str) or target.chars is None:
                raise
            start, end = target.chars
            return Reading(collection or self.name, target.uri, "", (), Span(start, end, 0, 0),
                           sha256(b"").hexdigest(), "", "gone")  # fmt: skip
        state: State = "same" if same else "changed"
        if wanted.chars:
            path, span, state = check_citation(document, wanted, indexed)
        else:
            path, span = locate(document, wanted)
        text = document.text[span.start : span.end]
        return Reading(
            collection=collection or self.name,
            uri=document.uri,
            title=document.title,
            heading_path=path,
            span=span,
            sha256=sha256(text.encode("utf-8")).hexdigest(),
            text=text,
            state=state,
        )

    def documents(self, prefix: str = "") -> list[tuple[str, str]]:
        """URI and title of every indexed document whose URI starts with ``prefix``."""

        def look() -> list[tuple[str, str]]:
            with self._store.snapshot() as snapshot:
                return snapshot.titles(prefix)

        return self._healing(look) if self._store.exists else []

    def has(self, target: str) -> bool:
        """Whether a target means a document of this collection."""
        _refuse_half_characters(target)

        def look() -> bool:
            with self._store.snapshot() as snapshot:
                known = partial(_knows, snapshot)
                uri = parse_target(target, False, known).uri
                return known(target) or known(uri) or resolve_note(snapshot, target) is not None

        return self._store.exists and self._healing(look)

    def defines(self, name: str) -> bool:
        """Whether code of this collection defines something that is called so."""
        _refuse_half_characters(name)

        def look() -> bool:
            with self._store.snapshot() as snapshot:
                return bool(find_definitions(snapshot, name))

        return self._store.exists and self._healing(look)

    def outline(self, uri: str, *, collection: str = "") -> Outline:
        """The heading tree of a document, or what a source file defines."""
        _refuse_half_characters(uri)

        def look() -> Document:
            with self._store.snapshot() as snapshot:
                return self._current(snapshot, spelt(snapshot, uri))[0]

        document = self._healing(look)
        return Outline(
            collection=collection or self.name,
            uri=document.uri,
            title=document.title,
            language=document.language,
            lines=document.text.count("\n"),
            tags=document.tags,
            sections=tuple(section for section in document.sections if section.level),
            symbols=document.symbols,
        )

    def page(
        self,
        uri: str,
        *,
        as_of: int | None = None,
        collection: str = "",
        on_progress: OnProgress | None = None,
    ) -> Page:
        """A document as it is indexed, as fresh as a search would have it; or as it was."""
        _refuse_half_characters(uri)

        def look() -> Page:
            notes = self._freshen(on_progress) if as_of is None else []
            with self._store.snapshot(as_of) as snapshot:
                known, text = snapshot.document(uri), snapshot.text(uri)
                if known is None or text is None:
                    raise unknown(snapshot, uri)
                sections = tuple(snapshot.sections(uri))
                return Page(
                    collection=collection or self.name,
                    uri=uri,
                    text=text,
                    modified_ns=known["mtime_ns"],
                    sections=sections,
                    chunks=tuple(_chunks(snapshot.chunks(uri), sections)),
                    incomplete=tuple(notes),
                )

        return self._healing(look)

    def pages(
        self, on_progress: OnProgress | None = None
    ) -> tuple[list[PageInfo], list[Incomplete]]:
        """Every document that has text, by URI, and what may be missing from the list."""

        def look() -> tuple[list[PageInfo], list[Incomplete]]:
            notes = self._freshen(on_progress)
            with self._store.snapshot() as snapshot:
                return snapshot.pages(), notes

        return self._healing(look)

    def related(
        self,
        target: str | Target,
        *,
        kinds: Several[RelatedKind] = KINDS,
        limit: int = 10,
        as_of: int | None = None,
        collection: str = "",
    ) -> Related:
        """What links where from a document or a part of it, what links to it, what is like it,
        and what belongs to the same community of links; at most ``limit`` of each kind.
        """
        _refuse_half_characters(target if isinstance(target, str) else target.uri)
        _refuse_kinds(kinds)
        if limit < 1:
            raise InvalidArgument(f"{limit} entries cannot be given.", hint="Ask for 1 or more.")

        def look() -> Related:
            notes = self._freshen(None) if as_of is None and self._store.exists else []
            with self._store.snapshot(as_of) as snapshot:
                wanted = _meant(snapshot, target)
                known = snapshot.document(wanted.uri)
                if known is None:
                    raise unknown(snapshot, wanted.uri)
                path, part = _part(snapshot, wanted)
                asked = (*kinds, *SYMBOL_KINDS) if part.name and set(KINDS) <= set(kinds) else kinds
                entries, totals = find_related(snapshot, part, asked, limit)
                return Related(
                    collection=collection or self.name,
                    uri=wanted.uri,
                    title=known["title"],
                    heading_path=path,
                    entries=tuple(entries),
                    totals=totals,
                    generation=snapshot.generation,
                    incomplete=(*(_held(snapshot) if as_of is None else ()), *notes),
                )

        return self._healing(look)

    def listed(self, *, collection: str = "") -> list[Listed]:
        """Every indexed document, by URI; nothing is indexed for it."""

        def look() -> list[Listed]:
            with self._store.snapshot() as snapshot:
                name = collection or self.name
                found = snapshot.cached("listed", snapshot.facts)
                made = (
                    Listed(name, f.uri, f.title, f.lane, f.language, f.modified_ns, f.tags)
                    for f in found
                )
                return sorted(made, key=lambda each: each.uri)

        return self._healing(look) if self._store.exists else []

    def graph(
        self,
        *,
        most: int = 300,
        around: str = "",
        community: int | None = None,
        collection: str = "",
    ) -> LinkGraph:
        """The best linked documents, those near to one (``around``) or those of a community."""
        _refuse_half_characters(around)

        def look() -> LinkGraph:
            with self._store.snapshot() as snapshot:
                if around and snapshot.document(around) is None:
                    raise unknown(snapshot, around)
                return draw_graph(
                    snapshot.graph(),
                    most,
                    around,
                    community,
                    collection=collection or self.name,
                    generation=snapshot.generation,
                )

        return self._healing(look)

    def _status(
        self,
        collection: str,
        root: str,
        fingerprint: str,
        stale_in: Callable[[StoredSnapshot], tuple[str, ...]] | None,
    ) -> Status:
        embedder = self.embedder
        about: dict[str, Any] = {
            "collection": collection or self.name,
            "root": root,
            "index_dir": self._store.place,
            "model": embedder.name if embedder else "none",
            "dimensions": _dimensions(embedder),
            "watcher": self.watching(),
        }
        if not self._store.exists:
            return Status(
                **about, indexed=False, generation=0, generations=(), created_at="",
                held=None, counts=Counts(), current=False, disk_bytes=0,
                damage=self._store.damage(), failures=(), stale=(), stale_count=0,
            )  # fmt: skip
        kept = self._store.generations()
        with self._store.snapshot() as snapshot:
            counts, failures = snapshot.counts(), tuple(snapshot.failures())
            held, generation = snapshot.held(), snapshot.generation
            vectors = snapshot.vector_pass() if about["dimensions"] else None
            stale = stale_in(snapshot) if stale_in is not None else ()
        return Status(
            **about,
            indexed=True,
            generation=generation,
            generations=tuple(each.number for each in kept),
            created_at=next((g.created_at for g in kept if g.number == generation), ""),
            counts=counts,
            held=held,
            current=self._store.fingerprint() == fingerprint,
            disk_bytes=self._store.disk_bytes(),
            damage=self._store.damage(),
            failures=failures,
            stale=stale[:100],
            stale_count=len(stale),
            vectors=vectors,
        )

    # -- earlier states ----------------------------------------------------

    def snapshots(self) -> tuple[GenerationInfo, ...]:
        """Every kept generation with its manifest, the oldest first."""
        active, kept = self._store.history()
        return tuple(_info(each, active) for each in kept)

    @property
    def held(self) -> int | None:
        """The generation that a roll-back holds the index at; indexing lets go of it."""
        return self._store.held() if self._store.exists else None

    def diff(self, older: int, newer: int) -> GenerationDiff:
        """The documents and sections that changed from one kept generation to another."""
        return self._store.diff(older, newer)

    def roll_back(self, number: int, *, wait_seconds: float = 0.0) -> GenerationInfo:
        """Answer from a kept generation, at once and everywhere, until :meth:`index` is called.

        Until then it can be rolled forward too; the newest generation is not held.
        """
        self._store.roll_back(number, wait_seconds=wait_seconds)
        return self._snapshot(number)

    def pin(self, number: int, *, wait_seconds: float = 0.0) -> GenerationInfo:
        """Keep a generation whatever retention says."""
        self._store.pin(number, wait_seconds=wait_seconds)
        return self._snapshot(number)

    def unpin(self, number: int, *, wait_seconds: float = 0.0) -> GenerationInfo:
        """Leave a generation to retention again, which comes with the next one."""
        self._store.unpin(number, wait_seconds=wait_seconds)
        return self._snapshot(number)

    def prune(self, keep: int | None = None, *, wait_seconds: float = 0.0) -> Pruned:
        """Keep the newest ``keep`` generations (by the settings), the pinned and the serving."""
        most = self.settings.index.retain_generations if keep is None else keep
        went, documents = self._store.prune(most, wait_seconds=wait_seconds)
        return Pruned(went, documents, tuple(each.number for each in self._store.generations()))

    def _snapshot(self, number: int) -> GenerationInfo:
        return next(each for each in self.snapshots() if each.number == number)

    def verify(self) -> list[str]:
        """Check every stored row, text, span, vector and file; gives what is damaged."""
        return [f"{each.artefact}: {each.detail}" for each in self._store.verify()]

    def verified(
        self,
        *,
        repair: bool = False,
        collection: str = "",
        on_step: Callable[[str], None] | None = None,
        on_progress: OnProgress | None = None,
    ) -> Verified:
        """The same as data; with ``repair`` what is damaged is made anew from the sources."""
        found = tuple(self._store.verify(on_step))
        left, where, salvaged = found, str(self._store.folder), None
        if repair and found:
            with suppress(IndexCorrupt):  # Beyond repair: what is left says how.
                salvaged = self._repair(found, on_progress)
            left = tuple(self._store.verify(on_step))
        repaired = bool(found) and not left
        return Verified(collection or self.name, where, found, repaired, left, salvaged)

    def _repair(self, found: Several[Damage], on_progress: OnProgress | None) -> Salvaged | None:
        """Make what is damaged anew; gives what was saved where there was nothing to make it of."""
        within = [each for each in found if each.artefact != "beside"]
        if within:
            told = "; ".join(f"{each.artefact}: {each.detail}" for each in within)
            self.heal(self._damaged(told), on_progress)
            self._ready(PATIENCE, on_progress)
        about = {"root": self._made_of, "collection": self.name}
        self._store.mend_beside(about, wait_seconds=PATIENCE)
        return None

    def _damaged(self, told: str) -> IndexCorrupt:
        return IndexCorrupt(
            "The index is damaged.",
            hint="Rebuild it from the sources: lookfar index PATH --rebuild.",
            developer=told[:_LONGEST_REPORT],
            details={"path": str(self._store.folder)},
        )

    @property
    def _made_of(self) -> str:
        """Where what it is an index of lies."""
        return str(self._store.folder)

    # -- leaving -----------------------------------------------------------

    @property
    def awake(self) -> bool:
        """Whether it holds what :meth:`rest` lets go of."""
        return "embedder" in self.__dict__

    def rest(self) -> None:
        """Let go of what a question can load again: the model and what was read of the index."""
        self.__dict__.pop("embedder", None)
        self._store.close()


def _dimensions(embedder: Embedder | None) -> int:
    """How long vectors are; 0 without a model, and where a service does not say so now."""
    try:
        return embedder.dimensions if embedder else 0
    except ModelUnavailable:
        return 0


def store_of(name: str, source: str, settings: Settings) -> Store:
    """The store of what lies at ``source``; ``name`` is for whoever looks at the folders."""
    key = sha256(source.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "folder"
    return open_store(Path(settings.index.dir) / f"{slug}-{key}", settings)


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _refuse_half_characters(name: str) -> None:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidArgument(
            "That name holds half of a character.", hint="Send valid Unicode text."
        ) from error


def _refuse_kinds(kinds: Several[str]) -> None:
    if isinstance(kinds, str):
        raise InvalidArgument("kinds is a str.", hint="Pass a tuple of kinds.")
    known = (*KINDS, *SYMBOL_KINDS, "commits")
    unknown = sorted(set(kinds).difference(known))
    if unknown or not kinds:
        raise InvalidArgument(
            f"{unknown[0]!r} is no kind of relation." if unknown else "No kind was asked for.",
            hint=f"Kinds: {', '.join(known)}.",
            details={"candidates": list(known)},
        )


def _meant(snapshot: Snapshot, target: str | Target) -> Target:
    """A target taken apart. What is not a URI may be the name of a definition or of a note."""
    if not isinstance(target, str):
        return target
    if is_link(target):
        return resolve_note(snapshot, target) or Target(target)
    whole = spelt(snapshot, target)
    is_document = snapshot.document(whole) is not None
    wanted = parse_target(whole, is_document, partial(_knows, snapshot))
    wanted = replace(wanted, uri=spelt(snapshot, wanted.uri))
    if snapshot.document(wanted.uri) is None:
        found = find_only_definition(snapshot, target)
        if found is not None:
            return Target(found.uri, " > ".join(found.section.path))
        return resolve_note(snapshot, target) or wanted
    return wanted


def _part(snapshot: Snapshot, wanted: Target) -> tuple[tuple[str, ...], Part]:
    """What a target means in the indexed text, which is the one whose links are known."""
    parse = parser_for(wanted.uri)
    if parse is None or not (wanted.heading or wanted.lines or wanted.chars):
        return (), Part(wanted.uri)
    document = parse(wanted.uri, snapshot.text(wanted.uri) or "")
    if wanted.chars:
        path, span, _ = check_citation(document, wanted, document.text)
    else:
        path, span = locate(document, wanted)
    name = ".".join(path) if wanted.heading and document.lane == "code" else ""
    return path, Part(wanted.uri, span.start, span.end, name)


def stored(snapshot: Snapshot, uri: str) -> Document:
    """A document of which nothing is known but what is stored, so that it cannot have changed."""
    known, text = snapshot.document(uri), snapshot.text(uri)
    if known is None or text is None:
        raise unknown(snapshot, uri)
    return Document(
        uri=uri,
        text=text,
        title=known["title"],
        lane=known["lane"],
        language=known["language"],
        body=0,
        sections=tuple(snapshot.sections(uri)),
        tags=tuple(known["tags"]),
    )


def _knows(snapshot: Snapshot, uri: str) -> bool:
    """Whether a URI, however it is spelt, is that of a document."""
    return snapshot.document(spelt(snapshot, uri)) is not None


def spelt(snapshot: Snapshot, uri: str) -> str:
    """A URI as the index has it: macOS names files in another Unicode form than people type."""
    if uri.isascii() or snapshot.document(uri) is not None:
        return uri
    plain = normalize("NFC", uri)
    same = [each for each in snapshot.uris() if normalize("NFC", each) == plain]
    return same[0] if len(same) == 1 else uri


def unknown(snapshot: Snapshot, uri: str) -> NotFound:
    some = _alike(uri, snapshot.uris())
    named = [each for each in some if _HASH.fullmatch(each) is None]
    near = get_close_matches(uri[:_LONGEST_NAME], named, n=3, cutoff=0.4)
    # Hashes that look alike have nothing to do with each other.
    plain = "Give its path below the folder." if named or not some else "Give its whole hash."
    return NotFound(
        f"There is no document {uri!r} in this index.",
        hint=f"Nearest: {', '.join(near)}." if near else plain,
        details={"candidates": near},
    )


def _alike(uri: str, known: list[str]) -> list[str]:
    """The URIs worth comparing with one: those with the most of its letters in a row, since
    comparing every one takes seconds where there are many."""
    if len(known) <= _MOST_COMPARED:
        return known
    end = uri[-_LETTERS:]
    rows = {end[at : at + 3] for at in range(max(1, len(end) - 2))}

    def shared(each: str) -> tuple[int, int]:
        return sum(map(each.__contains__, rows)), -abs(len(each) - len(uri))

    return nlargest(_MOST_COMPARED, known, key=shared)


def _chunks(places: Iterable[Place], sections: Iterable[Section]) -> Iterator[PageChunk]:
    named = defaultdict(list)
    for section in sections:
        named[section.path].append(section)
    for place in places:
        start = place.start + place.overlap
        # Small sections share a chunk under the heading they have in common: of several that
        # are called so, the one that it stands in.
        called = named[place.path] if place.path else []
        here = (each for each in called if each.span.start < place.end and start < each.span.end)
        level = next(here, called[0]).level if called else 0
        yield PageChunk(
            id=place.id.hex(),
            heading_path=display_path(place.path, place.part, place.parts),
            level=level,
            start=start,
            end=place.end,
        )


def _held(snapshot: StoredSnapshot) -> list[Incomplete]:
    number = snapshot.held()
    if number is None:
        return []
    detail = (
        f"the index is held at generation {number} since a roll-back, whatever the disk says;"
        " to let go of it, run: lookfar index"
    )
    return [Incomplete("held", detail)]


def _info(kept: Generation, active: int) -> GenerationInfo:
    told = kept.manifest
    return GenerationInfo(
        number=kept.number,
        created_at=kept.created_at,
        active=kept.number == active,
        pinned=kept.pinned,
        counts=Counts(
            told.get("documents", 0),
            told.get("sections", 0),
            told.get("chunks", 0),
            told.get("links", 0),
        ),
        content=told.get("content", ""),
        model=told.get("model", ""),
        model_fingerprint=told.get("model_fingerprint", ""),
        added=told.get("added", 0),
        changed=told.get("changed", 0),
        removed=told.get("removed", 0),
        failures=told.get("failures", 0),
        seconds=told.get("seconds", 0.0),
    )


def _failed(snapshot: Snapshot) -> list[Incomplete]:
    failures = snapshot.failures()
    if not failures:
        return []
    detail = f"{how_many(len(failures), 'file')} could not be read: see lookfar status"
    return [Incomplete("failed", detail, tuple(failure.uri for failure in failures[:100]))]
