"""A folder of files as a collection: indexed, kept true to the disk, and read.

Takes: a root and its settings. Gives: passes, snapshots to search in, documents as the
disk has them now, earlier states, and a keeper that follows the disk. Refuses: to rank;
which collections a question is asked of, and how their answers meet, is the library's
business.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import cached_property, partial
from hashlib import sha256
from itertools import count
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, TypeVar

from lookfar import config
from lookfar.errors import (
    IndexBusy,
    IndexCorrupt,
    InvalidArgument,
    IOFailed,
    LookfarError,
    ModelUnavailable,
    NotFound,
)
from lookfar.index import freshness
from lookfar.index.recipe import epoch_fingerprint, policy_from
from lookfar.model import (
    Counts,
    Document,
    GenerationDiff,
    GenerationInfo,
    Incomplete,
    IndexReport,
    Outline,
    Page,
    PageChunk,
    PageInfo,
    Pruned,
    Reading,
    Related,
    RelatedKind,
    Span,
    State,
    Status,
    Watching,
    shown_path,
)
from lookfar.parse.formats import parser_for
from lookfar.parse.text import normalise
from lookfar.retrieve.related import KINDS, Part, related
from lookfar.retrieve.target import Target, check_citation, locate, parse_target
from lookfar.sources.confine import Refused, Root
from lookfar.store.collection import CollectionStore

if TYPE_CHECKING:
    from lookfar.index.build import Build, OnProgress, Progress
    from lookfar.index.keeper import Keeper, Pass
    from lookfar.index.strategies import Work
    from lookfar.model import Section
    from lookfar.ports import Embedder, Place, Snapshot
    from lookfar.retrieve.ranking import Plan
    from lookfar.sources.walk import Walk
    from lookfar.store.epoch import EpochSnapshot
    from lookfar.store.generations import Generation


_PATIENCE = 600.0
"""Seconds that a question waits for another process to build what it needs."""

_KEEPER_PATIENCE = 5.0
"""Seconds that the keeper waits for another writer before it tries again later."""

_QUICK = 5.0
"""Seconds that a question waits for the keeper to index what just changed."""

T = TypeVar("T")


class _Closing(Exception):
    """Ends a pass in the background, because nobody will be there for what it makes."""


class Folder:
    """One folder and its index. May be shared by threads."""

    def __init__(
        self,
        root: Root,
        settings: config.Settings,
        resolve: Callable[[], config.Settings] | None = None,
        settings_files: tuple[Path, ...] = (),
    ) -> None:
        """``resolve`` gives the settings anew when one of ``settings_files`` was edited."""
        self.root = root
        self.settings = settings
        self._resolve = resolve or (lambda: settings)
        self._settings_files = settings_files
        self._settled = _stamps(settings_files)
        self._settling = Lock()
        self._watched_as: tuple[Any, ...] | None = None
        self._watch_again = False
        name = Path(root.path).name or "root"
        key = sha256(root.path.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "folder"
        self.name = name
        self._store = CollectionStore(Path(settings.index.dir) / f"{slug}-{key}")
        self._walk: Walk | None = None
        self._without_model = ""
        self._building = Lock()
        self._began = ""
        self._background: Thread | None = None
        self._closing = False
        self.failure: LookfarError | None = None
        """Why the last pass here failed; None once one succeeded."""
        self._keeper: Keeper | None = None
        self._watching = Lock()
        self.watch_wanted: bool | None = None
        """Whether somebody asked to follow the folder, or not to; None where nobody did."""
        self._searches = count()
        self._generation = 0
        self.on_activated: list[Callable[[int, int], None]] = []
        """Told after each pass here that made a generation: the number of the one before it,
        0 where that is not known, and its own."""

    @classmethod
    def open(
        cls,
        path: str | Path = ".",
        *,
        index_dir: str | Path | None = None,
        settings: Mapping[str, Any] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Folder:
        """A folder with its settings; nothing is read or written yet.

        ``settings`` are dotted keys, as in the settings reference, and win over
        every file and variable. ``environ`` stands in for the variables of this process.
        """
        shown = Path(path).expanduser()
        explicit = dict(settings or {})
        if index_dir is not None:
            explicit["index.dir"] = str(Path(index_dir).expanduser().absolute())
        root = Root.open(shown)
        resolve = partial(config.load, Path(root.path), explicit, environ)
        files = config.files_for(Path(root.path), environ)
        resolved = resolve()
        if resolved.sources.allow_hard_links:
            root = Root.open(shown, allow_hard_links=True)
        return cls(root, resolved, resolve, files)

    def _settle(self) -> None:
        """Take over settings that were edited since; where the index lies stays as it was."""
        stamps = _stamps(self._settings_files)
        if stamps == self._settled:
            return
        with self._settling:
            before, after = self.settings, self._resolve()
            self._settled = stamps
            after = replace(after, index=replace(after.index, dir=before.index.dir))
            if after == before:
                return
            if after.embed != before.embed:
                self.__dict__.pop("embedder", None)
            self.settings, self._walk = after, None
            # Not here: this may be the keeper's own thread.
            self._watch_again = self._watched_as is not None

    # -- the index ---------------------------------------------------------

    @property
    def indexed(self) -> bool:
        """Whether there is a finished index to search."""
        return self._store.exists

    @property
    def index_dir(self) -> Path:
        """The folder that holds its index."""
        return self._store.folder

    def index(
        self,
        *,
        rebuild: bool = False,
        only: Collection[str] | None = None,
        on_progress: OnProgress | None = None,
        wait_seconds: float = 0.0,
        many: bool = False,
    ) -> IndexReport:
        """Make the index true to the disk: what changed is read, with ``rebuild`` everything.

        ``only`` names the documents to look at. Another writer means ``IndexBusy``, after
        ``wait_seconds``. A damaged index is set aside and built anew. ``many`` lets in more
        files than ``sources.max_files``.
        """
        with self._building:
            return self._index(
                rebuild=rebuild,
                only=only,
                on_progress=on_progress,
                wait_seconds=wait_seconds,
                many=many,
            )

    def _index(self, *, wait_seconds: float, **how: Any) -> IndexReport:
        before = None if how["rebuild"] else self._walk
        run = partial(self._pass, before, wait_seconds=wait_seconds, **how)
        try:
            return run()
        except IndexCorrupt as damage:
            self._store.set_aside(damage.developer, wait_seconds=wait_seconds)
            return run()

    def start_index(self, *, rebuild: bool = False, only: Collection[str] | None = None) -> None:
        """The same in the background. A pass under way, here or elsewhere, is ``IndexBusy``."""
        self._take_building()
        try:
            self._store.refuse_busy()
            self._began = _now()
            how = {"rebuild": rebuild, "only": only}
            self._background = Thread(
                target=self._in_background, kwargs=how, name="lookfar-index", daemon=True
            )
            self._background.start()
        except BaseException:
            self._began = ""
            self._building.release()
            raise

    def _in_background(self, **how: Any) -> None:
        def go_on(_: Progress) -> None:
            if self._closing:
                raise _Closing

        try:
            self._index(on_progress=go_on, wait_seconds=_PATIENCE, **how)
        except LookfarError as error:
            self.failure = error
        except _Closing:
            pass  # What was done so far is kept for the next build, where that is worth it.
        except Exception as error:
            self.failure = LookfarError(
                "Indexing failed.",
                hint="Index the folder again.",
                developer=f"{type(error).__name__}: {error}",
            )
        finally:
            self._began = ""
            self._building.release()

    def _take_building(self) -> None:
        """The lock on building, or ``IndexBusy``; whoever only looks at the disk is waited for."""
        while not self._building.acquire(timeout=0.05):
            if self._began:
                raise IndexBusy(
                    "This index is being built.",
                    hint="Wait for it to finish and try again; searching works meanwhile.",
                    developer=f"a pass began at {self._began}",
                    details={"since": self._began},
                )

    @property
    def building_since(self) -> str:
        """When the pass that is under way here began, in ISO form; empty where none is."""
        return self._began

    def delete(self, *, wait_seconds: float = 0.0) -> None:
        """Stop following the disk and remove the index. The sources are not touched."""
        from lookfar.index.strategies import DIRTY_FILE

        wanted = self.watch_wanted
        self.unwatch()
        # That was for the deletion; a new index may be followed, unless somebody minds.
        self.watch_wanted = False if wanted is False else None
        self._take_building()
        try:
            self._store.delete((DIRTY_FILE,), wait_seconds)
            self._walk, self._generation, self.failure = None, 0, None
        finally:
            self._building.release()

    def _pass(
        self, before: Walk | None, *, on_progress: OnProgress | None = None, **how: Any
    ) -> IndexReport:
        """One pass, for whoever holds the lock on building."""
        self._began = _now()
        try:
            report, self._walk = self._build(on_progress).run(before=before, **how)
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

    def _build(self, on_progress: OnProgress | None = None) -> Build:
        from lookfar.index.build import Build

        return Build(self.root, self.name, self._store, self.settings, self.embedder, on_progress)

    # -- what could be indexed ---------------------------------------------------

    def extent(self, prefix: str = "") -> Mapping[str, int]:
        """The files that a pass over everything would read, by URI, and their bytes."""
        from lookfar.sources.walk import walk

        self._walk = found = walk(self.root, policy_from(self.settings), before=self._walk)
        return {
            each.uri: each.fingerprint.size
            for each in found.files
            if each.uri.startswith(prefix) and parser_for(each.uri) is not None
        }

    def why_not(self, uri: str) -> str:
        """The word for why a file is not indexed (``symlink``, ``gone``, ``ignored``, ...).

        Empty for one that is; ``OutsideRoot`` for a path that leaves the folder.
        """
        from lookfar.sources.walk import verdict_on

        try:
            self.root.read(uri, self.settings.sources.max_file_bytes)
        except Refused as refusal:
            return refusal.reason
        verdict = verdict_on(self.root, policy_from(self.settings), uri)
        if verdict is not None:
            return verdict.reason
        return "" if parser_for(uri) is not None else "no_parser"

    @cached_property
    def embedder(self) -> Embedder | None:
        """The model; without the default one, words alone have to do."""
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
    ) -> Iterator[tuple[EpochSnapshot, list[Incomplete]]]:
        """A generation to answer from, as fresh as it can quickly be, and what it may lack."""
        notes = self._freshen(on_progress) if as_of is None else []
        with self._store.snapshot(as_of) as snapshot:
            if plan.vector is not None:
                self._refuse_other_model(snapshot)
            held = _held(snapshot) if as_of is None else []
            yield snapshot, [*held, *notes, *_failed(snapshot)]

    def holds(self, damage: IndexCorrupt) -> bool:
        """Whether it is this collection's index that is damaged."""
        return Path(damage.details.get("path", "")).is_relative_to(self._store.folder)

    def heal(self, damage: IndexCorrupt, on_progress: OnProgress | None = None) -> Incomplete:
        """Set a damaged index aside and build it anew; gives what answers have to say of it."""
        try:
            self._store.set_aside(damage.developer, wait_seconds=_PATIENCE)
        except IOFailed:
            # Nothing here can be written, so nothing can be healed either.
            raise damage from None
        self.index(on_progress=on_progress, wait_seconds=_PATIENCE)
        detail = f"the index was damaged and has been rebuilt: {damage.developer}"
        return Incomplete("healed", detail)

    def _healing(self, ask: Callable[[], T]) -> T:
        """Ask; if the index turns out damaged, heal it and ask once more."""
        try:
            return ask()
        except IndexCorrupt as damage:
            self.heal(damage)
            return ask()

    def _freshen(self, on_progress: OnProgress | None) -> list[Incomplete]:
        """Index what was never indexed, bring a few changed files up to date, admit the rest."""
        self._settle()
        if self._watch_again and self._watched_as is not None:
            self._watch_again = False
            self._follow(*self._watched_as)
        if not self._store.exists:
            self.index(on_progress=on_progress, wait_seconds=_PATIENCE)
            return []
        if self._store.held() is not None:
            return []
        fingerprint = epoch_fingerprint(self.settings, self.embedder)
        if self._store.fingerprint() != fingerprint:
            self.index(on_progress=on_progress, wait_seconds=_PATIENCE)
            return []
        kept = self._kept()
        if kept is not None:
            return kept
        with self._store.snapshot() as snapshot:
            # As recorded when it was made: counting takes a millisecond for 15,000 documents.
            if snapshot.manifest().get("documents", 0) > freshness.MOST_CHECKED:
                return [freshness.FOLLOWING if self._followed() else freshness.UNCHECKED]
            if next(self._searches) % self.settings.index.check_every_searches:
                return [freshness.NOT_THIS_TIME]
            known, left_out = snapshot.known(), snapshot.left_out()
        with self._building:
            found = freshness.ensure(
                self.root,
                policy_from(self.settings),
                known,
                left_out,
                lambda walked: self._pass(walked, let_go=False),
                self._walk,
                # Whoever waits for commits wants to be told, not indexed.
                0 if self._strategy() == "git" else self.settings.index.max_auto_files,
            )
            self._walk = found.walk
        return found.notes()

    # -- following the disk --------------------------------------------------

    def watch(
        self,
        strategy: str | None = None,
        debounce_ms: int | None = None,
        on_pass: Callable[[Pass], None] | None = None,
    ) -> None:
        """Follow the folder in the background; again, to change strategy or pause.

        What is not given is taken from the settings; nothing outlives this library.
        """
        keeper = self._keeper
        if keeper is not None and debounce_ms is None and on_pass is None:
            from lookfar.index.strategies import checked_strategy

            chosen = self.settings.watch.strategy if strategy is None else strategy
            keeper.switch(checked_strategy(chosen))
            return
        self._follow(strategy, debounce_ms, on_pass)

    def _follow(
        self,
        strategy: str | None,
        debounce_ms: int | None,
        on_pass: Callable[[Pass], None] | None,
    ) -> None:
        from lookfar.index import strategies
        from lookfar.index.keeper import Keeper
        from lookfar.sources.watch import FolderWatcher

        chosen = self.settings.watch
        how = strategies.checked_strategy(chosen.strategy if strategy is None else strategy)
        pause = strategies.checked_debounce(
            chosen.debounce_ms if debounce_ms is None else debounce_ms
        )
        with self._watching:
            self.watch_wanted = True
            self._watched_as = (strategy, debounce_ms, on_pass)
            self._let_keeper_go()
            self._keeper = Keeper(
                FolderWatcher(
                    self.root,
                    policy_from(self.settings),
                    pause,
                    apart=str(Path(self.settings.index.dir).resolve()),
                ),
                strategies.Dirty(self._store.folder),
                self._catch_up,
                strategy=how,
                head=partial(strategies.head_of, self.root),
                reconcile_seconds=chosen.reconcile_seconds,
                on_pass=on_pass,
            )
            self._keeper.start()

    def unwatch(self) -> None:
        """Stop following, after the pass that is under way."""
        with self._watching:
            self.watch_wanted = False
            self._watched_as = None
            self._let_keeper_go()

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

    def _catch_up(self, work: Work) -> IndexReport:
        """The keeper's pass: what is dirty, and never over a roll-back that someone chose."""
        self._settle()
        with self._building:
            return self._pass(
                self._walk, only=work.only, let_go=False, wait_seconds=_KEEPER_PATIENCE
            )

    def _strategy(self) -> str:
        keeper = self._keeper
        return keeper.strategy if keeper is not None else ""

    def _followed(self) -> bool:
        state = self.watching()
        return state is not None and state.healthy

    def _kept(self) -> list[Incomplete] | None:
        """What the keeper knows of the disk; None where it has to be looked at."""
        keeper = self._keeper
        if keeper is None:
            return None
        dirty = keeper.pending()
        few = dirty is not None and len(dirty) <= self.settings.index.max_auto_files
        waits = keeper.strategy == "lazy" or (keeper.strategy == "realtime" and few)
        if waits and dirty != frozenset():
            keeper.drain(_QUICK, "search")
            left = keeper.pending()
            # What came after the question was asked is not its business.
            dirty = left if left is None or dirty is None else left & dirty
        return None if dirty is None else freshness.stale_notes(sorted(dirty))

    def _refuse_other_model(self, snapshot: EpochSnapshot) -> None:
        """Vectors of two models have nothing to say to each other."""
        made_by = snapshot.manifest()
        wanted = self.embedder.fingerprint if self.embedder else ""
        if made_by.get("model_fingerprint", wanted) != wanted:
            raise InvalidArgument(
                f"Generation {snapshot.generation} was made with the model {made_by['model']},"
                " and the settings name another.",
                hint="Search it by words (--mode keyword), name the settings it was made with,"
                " or index with these: lookfar index PATH.",
            )

    def readable(self, uri: str) -> str | None:
        """A document's text for citing: one that the disk refuses must not cost the answer."""
        try:
            return self.source(uri)
        except IOFailed:
            return None

    def source(self, uri: str) -> str | None:
        """A document's normalised text as the disk has it now."""
        try:
            raw, _ = self.root.read(uri, self.settings.sources.max_file_bytes)
        except Refused:
            return None
        return normalise(raw)[0]

    # -- reading -----------------------------------------------------------

    def read(self, target: str | Target, *, collection: str = "") -> Reading:
        """A document, a part of it, or a citation checked against the disk."""
        _refuse_half_characters(target if isinstance(target, str) else target.uri)

        def look() -> tuple[Target, Document, bool, str | None]:
            with self._store.snapshot() as snapshot:
                wanted = target
                if isinstance(wanted, str):
                    wanted = parse_target(wanted, exists=snapshot.document(wanted) is not None)
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
                exists = snapshot.document(target) is not None
                return exists or snapshot.document(parse_target(target, False).uri) is not None

        return self._store.exists and self._healing(look)

    def outline(self, uri: str, *, collection: str = "") -> Outline:
        """The heading tree of a document."""
        _refuse_half_characters(uri)

        def look() -> Document:
            with self._store.snapshot() as snapshot:
                return self._current(snapshot, uri)[0]

        document = self._healing(look)
        return Outline(
            collection=collection or self.name,
            uri=document.uri,
            title=document.title,
            language=document.language,
            lines=document.text.count("\n"),
            tags=document.tags,
            sections=tuple(section for section in document.sections if section.level),
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
                    raise _unknown(snapshot, uri)
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
        kinds: Collection[RelatedKind] = KINDS,
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
                wanted = target
                if isinstance(wanted, str):
                    wanted = parse_target(wanted, exists=snapshot.document(wanted) is not None)
                known = snapshot.document(wanted.uri)
                if known is None:
                    raise _unknown(snapshot, wanted.uri)
                path, part = _part(snapshot, wanted)
                entries, totals = related(snapshot, part, kinds, limit)
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

    def _current(self, snapshot: Snapshot, uri: str) -> tuple[Document, bool]:
        """A document parsed from the disk, and whether it is the one that was indexed."""
        known = snapshot.document(uri)
        text = self.source(uri) if known else None
        parse = parser_for(uri)
        if known is None or text is None or parse is None:
            if known is not None and text is None:
                raise NotFound(
                    f"{uri!r} is gone from the disk since it was indexed.",
                    hint="Search shows the text that was indexed; lookfar index forgets it.",
                )
            raise _unknown(snapshot, uri)
        same = sha256(text.encode("utf-8")).digest() == known["text_sha"]
        return parse(uri, text), same

    def status(self, *, collection: str = "", check: bool = True) -> Status:
        """What is indexed; with ``check`` the disk is compared with it."""
        embedder = self.embedder
        about: dict[str, Any] = {
            "collection": collection or self.name,
            "root": self.root.path,
            "index_dir": str(self._store.folder),
            "model": embedder.name if embedder else "none",
            "dimensions": embedder.dimensions if embedder else 0,
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
            held = snapshot.held()
            generation, known = snapshot.generation, snapshot.known()
            left_out = snapshot.left_out()
        stale: tuple[str, ...] = ()
        if check:
            from lookfar.sources.walk import walk

            self._walk = walk(self.root, policy_from(self.settings), before=self._walk)
            _, stale = freshness.differences(self._walk, known, left_out)
        return Status(
            **about,
            indexed=True,
            generation=generation,
            generations=tuple(each.number for each in kept),
            created_at=next((g.created_at for g in kept if g.number == generation), ""),
            counts=counts,
            held=held,
            current=self._store.fingerprint() == epoch_fingerprint(self.settings, embedder),
            disk_bytes=self._store.disk_bytes(),
            damage=self._store.damage(),
            failures=failures,
            stale=stale[:100],
            stale_count=len(stale),
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
        """Check every stored text, span, vector and keyword file; gives what is damaged."""
        return [f"{each.artefact}: {each.detail}" for each in self._store.verify()]

    # -- leaving -----------------------------------------------------------

    def rest(self) -> None:
        """Let go of what a question can load again: the model and what was read of the index."""
        self.__dict__.pop("embedder", None)
        self._walk = None
        self._store.close()

    def close(self) -> None:
        """Stop following the disk and building, and let go of the index files."""
        self._closing = True
        self.unwatch()
        if self._background is not None:
            self._background.join()
        self._store.close()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _stamps(files: tuple[Path, ...]) -> tuple[tuple[int, int, int] | None, ...]:
    """What the disk says of some files, to notice that one was edited, made or removed."""

    def stamp(path: Path) -> tuple[int, int, int] | None:
        try:
            info = path.stat(follow_symlinks=False)
        except OSError:
            return None
        return info.st_mtime_ns, info.st_size, info.st_ino

    return tuple(map(stamp, files))


def _refuse_half_characters(name: str) -> None:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidArgument(
            "That name holds half of a character.", hint="Send valid Unicode text."
        ) from error


def _refuse_kinds(kinds: Collection[str]) -> None:
    if isinstance(kinds, str):
        raise InvalidArgument("kinds is a str.", hint="Pass a tuple of kinds.")
    unknown = sorted(set(kinds).difference(KINDS))
    if unknown or not kinds:
        raise InvalidArgument(
            f"{unknown[0]!r} is no kind of relation." if unknown else "No kind was asked for.",
            hint=f"Kinds: {', '.join(KINDS)}.",
            details={"candidates": list(KINDS)},
        )


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
    return path, Part(wanted.uri, span.start, span.end)


def _unknown(snapshot: Snapshot, uri: str) -> NotFound:
    near = get_close_matches(uri, snapshot.uris(), n=3, cutoff=0.4)
    return NotFound(
        f"There is no document {uri!r} in this index.",
        hint=f"Nearest: {', '.join(near)}." if near else "Give its path below the folder.",
        details={"candidates": near},
    )


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
            heading_path=shown_path(place.path, place.part, place.parts),
            level=level,
            start=start,
            end=place.end,
        )


def _held(snapshot: EpochSnapshot) -> list[Incomplete]:
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
    detail = f"{len(failures):,} files could not be read: see lookfar status"
    return [Incomplete("failed", detail, tuple(failure.uri for failure in failures[:100]))]
