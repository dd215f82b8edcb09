"""The facade: what a program does with Lookfar, and the only place that wires parts together.

Takes: one folder or several. Gives: an index of each, cited answers from all of them
together, and documents by section. Refuses: what the typed errors of
:mod:`lookfar.errors` name, always with the next step.

What concerns one collection (indexing, its status, its earlier states) takes
``collection``, its name, which is needed only where there are several.

A ``Library`` may be shared by threads; from async code call it through
``asyncio.to_thread``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from lookfar.collections.folder import Folder
from lookfar.errors import Ambiguous, IndexCorrupt, InvalidArgument, NotFound
from lookfar.model import (
    Answer,
    Filters,
    GenerationDiff,
    GenerationInfo,
    Hit,
    Incomplete,
    IndexReport,
    Mode,
    Outline,
    Page,
    PageInfo,
    Pruned,
    Reading,
    Related,
    RelatedKind,
    Status,
    Watching,
)
from lookfar.retrieve.address import SCHEME, parse_address
from lookfar.retrieve.related import KINDS

if TYPE_CHECKING:
    from lookfar.config import SearchSettings, Settings
    from lookfar.index.build import OnProgress
    from lookfar.index.keeper import Pass
    from lookfar.retrieve.ranking import Plan
    from lookfar.retrieve.shares import Answering
    from lookfar.retrieve.target import Target


class Library:
    """Folders that are searched together. Open it with :meth:`open`, best in a ``with``."""

    def __init__(self, folders: Sequence[Folder]) -> None:
        """Over folders that are open already; ``close`` closes them."""
        self._folders = dict(zip(_names(folders), folders, strict=True))

    @classmethod
    def open(
        cls,
        *paths: str | Path,
        index_dir: str | Path | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> Library:
        """Open the library of some folders, or of this one; nothing is read or written yet.

        ``settings`` are dotted keys, as in the settings reference, and win over
        every file and variable.
        """
        opened: dict[str, Folder] = {}
        for path in paths or (".",):
            folder = Folder.open(path, index_dir=index_dir, settings=settings)
            opened.setdefault(folder.root.path, folder)
        return cls(tuple(opened.values()))

    # -- its collections ----------------------------------------------------

    @property
    def collections(self) -> tuple[str, ...]:
        """The names of the collections, in the order in which they were given."""
        return tuple(self._folders)

    def folder(self, collection: str = "") -> Folder:
        """A collection by its name; without one, the only one."""
        if collection in self._folders:
            return self._folders[collection]
        names = ", ".join(self._folders)
        if collection:
            raise InvalidArgument(
                f"There is no collection {collection!r} here.",
                hint=f"Collections: {names}.",
                details={"candidates": list(self._folders)},
            )
        if len(self._folders) > 1:
            raise InvalidArgument(
                f"This library has {len(self._folders)} collections, and none was named.",
                hint=f"Name one: {names}.",
                details={"candidates": list(self._folders)},
            )
        return next(iter(self._folders.values()))

    def _named(self, collections: Sequence[str]) -> dict[str, Folder]:
        if isinstance(collections, str):
            raise InvalidArgument("collections is a str.", hint="Pass a tuple of names.")
        return {name: self.folder(name) for name in collections} or self._folders

    @property
    def collection(self) -> str:
        """The name of the only collection."""
        self.folder()
        return self.collections[0]

    @property
    def settings(self) -> Settings:
        """The settings that questions are answered with: those of the first folder."""
        return next(iter(self._folders.values())).settings

    @property
    def indexed(self) -> bool:
        """Whether every folder has a finished index to search."""
        return all(folder.indexed for folder in self._folders.values())

    @property
    def index_dir(self) -> Path:
        """The folder that holds the index of the only collection."""
        return self.folder().index_dir

    # -- the index ---------------------------------------------------------

    def index(
        self,
        *,
        collection: str = "",
        rebuild: bool = False,
        only: Collection[str] | None = None,
        on_progress: OnProgress | None = None,
        wait_seconds: float = 0.0,
    ) -> IndexReport:
        """Make the index true to the disk: what changed is read, with ``rebuild`` everything.

        ``only`` names the documents to look at. Another writer means ``IndexBusy``, after
        ``wait_seconds``. A damaged index is set aside and built anew.
        """
        return self.folder(collection).index(
            rebuild=rebuild, only=only, on_progress=on_progress, wait_seconds=wait_seconds
        )

    def status(self, *, collection: str = "", check: bool = True) -> Status:
        """What is indexed; with ``check`` the disk is compared with it."""
        folder = self.folder(collection)
        return folder.status(collection=collection or self.collection, check=check)

    def statuses(self) -> tuple[Status, ...]:
        """The status of every collection."""
        return tuple(folder.status(collection=name) for name, folder in self._folders.items())

    def verify(self, *, collection: str = "") -> list[str]:
        """Check every stored text, span, vector and keyword file; gives what is damaged."""
        return self.folder(collection).verify()

    # -- asking ------------------------------------------------------------

    def search(
        self,
        query: str,
        *,
        mode: Mode | None = None,
        top_k: int | None = None,
        filters: Filters | None = None,
        collections: Sequence[str] = (),
        explain: bool = False,
        as_of: int | None = None,
        tuned: SearchSettings | None = None,
        answering: Answering | None = None,
        on_progress: OnProgress | None = None,
    ) -> Answer:
        """The best cited spans for a question, from all collections or those named.

        A folder never indexed is indexed first. ``as_of`` is a generation, and so needs
        one collection. ``tuned`` replaces the ``[search]`` settings for this question, and
        ``answering`` the way from its candidates to cited hits.
        """
        from lookfar.retrieve.plan import make_plan
        from lookfar.retrieve.search import Source, search

        started = time.perf_counter()
        chosen = tuned or self.settings.search
        asked = self._named(collections)
        if as_of is not None and len(asked) > 1:
            raise InvalidArgument(
                "as_of names a generation, and each collection counts its own.",
                hint=f"Name one collection: {', '.join(asked)}.",
            )
        plans: dict[str, Plan] = {}
        for folder in asked.values():
            model = folder.embedder.fingerprint if folder.embedder else ""
            if model not in plans:
                plans[model] = make_plan(
                    query,
                    mode=mode or chosen.mode,  # type: ignore[arg-type]
                    top_k=chosen.top_k if top_k is None else top_k,
                    filters=filters or Filters(),
                    embedder=folder.embedder,
                )

        def answer() -> tuple[list[Hit], list[Incomplete], dict[str, int]]:
            notes: list[Incomplete] = []
            sources: list[Source] = []
            with ExitStack() as pinned:
                for name, folder in asked.items():
                    plan = plans[folder.embedder.fingerprint if folder.embedder else ""]
                    snapshot, said = pinned.enter_context(folder.asked(plan, as_of, on_progress))
                    sources.append(Source(name, plan, snapshot, folder.readable))
                    notes += said if len(asked) == 1 else _of(name, said)
                hits, stale = (answering or search)(sources, chosen, explain)
                generations = {each.collection: each.snapshot.generation for each in sources}
            return hits, [*notes, *stale], generations

        (hits, notes, generations), healed = self._healing(answer, asked, on_progress)
        notes = [*healed, *notes]
        for missing in sorted({f.without_model for f in asked.values() if f.without_model}):
            notes.append(Incomplete("no_model", f"{missing} Words only."))
        took = (time.perf_counter() - started) * 1000
        plan = next(iter(plans.values()))
        return Answer(query, plan.mode, tuple(hits), generations, took, tuple(notes))

    def _healing(
        self,
        ask: Callable[[], Any],
        asked: Mapping[str, Folder],
        on_progress: OnProgress | None,
    ) -> tuple[Any, list[Incomplete]]:
        """Ask; each collection that turns out damaged is rebuilt, once, and asked again."""
        healed: list[Incomplete] = []
        left = list(asked.values())
        while True:
            try:
                return ask(), healed
            except IndexCorrupt as damage:
                culprit = next((each for each in left if each.holds(damage)), None)
                if culprit is None:
                    raise
                left.remove(culprit)
                healed.append(culprit.heal(damage, on_progress))

    # -- reading -----------------------------------------------------------

    def read(self, target: str, *, collection: str = "") -> Reading:
        """A document (``URI``), a section (``URI#Heading``), lines (``URI:10-20``), or the same
        with their collection as an address (``lookfar://COLLECTION/URI``). A citation is an
        address too; it is checked, and ``state`` says whether it still holds.
        """
        name, wanted = self._addressed(target, collection)
        return self._folders[name].read(wanted, collection=name)

    def outline(self, uri: str, *, collection: str = "") -> Outline:
        """The heading tree of a document."""
        name, wanted = self._addressed(uri, collection)
        uri = wanted if isinstance(wanted, str) else wanted.uri
        return self._folders[name].outline(uri, collection=name)

    def page(
        self,
        uri: str,
        *,
        collection: str = "",
        as_of: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> Page:
        """A document as it is indexed, whole and cut into its chunks; ``as_of`` a generation,
        or as fresh as a search would have it."""
        folder = self.folder(collection)
        name = collection or self.collection
        return folder.page(uri, as_of=as_of, collection=name, on_progress=on_progress)

    def pages(
        self, *, collection: str = "", on_progress: OnProgress | None = None
    ) -> tuple[list[PageInfo], list[Incomplete]]:
        """Every document of a collection that has text, by URI, and what may be missing."""
        return self.folder(collection).pages(on_progress)

    def related(
        self,
        target: str,
        *,
        kinds: Collection[RelatedKind] = KINDS,
        limit: int = 10,
        as_of: int | None = None,
        collection: str = "",
    ) -> Related:
        """What has to do with a document or a part of it: anything that :meth:`read` takes.

        ``links`` are those it has (of a part, those inside it), ``backlinks`` the documents
        that link to it, ``similar`` those nearest in meaning, ``community`` those that are
        linked among each other. At most ``limit`` of each; ``totals`` says how many there are.
        """
        name, wanted = self._addressed(target, collection)
        return self._folders[name].related(
            wanted, kinds=kinds, limit=limit, as_of=as_of, collection=name
        )

    def _addressed(self, target: str, collection: str) -> tuple[str, str | Target]:
        """The collection that a target means, and the target inside it."""
        if target.startswith(SCHEME):
            name, wanted = parse_address(target)
            self.folder(name)
            return name, wanted
        if collection or len(self._folders) == 1:
            self.folder(collection)
            return collection or self.collection, target
        having = [name for name, folder in self._folders.items() if folder.has(target)]
        if len(having) > 1:
            raise Ambiguous(
                f"{len(having)} collections have {target!r}.",
                hint=f"Name one of them: {', '.join(having)}.",
                details={"candidates": having},
            )
        if not having:
            raise NotFound(
                f"No collection has {target!r}.",
                hint=f"Collections: {', '.join(self._folders)}.",
                details={"candidates": []},
            )
        return having[0], target

    # -- following the disk --------------------------------------------------

    def watch(
        self,
        strategy: str | None = None,
        debounce_ms: int | None = None,
        on_pass: Callable[[Pass], None] | None = None,
    ) -> None:
        """Follow the folders in the background; again, to change strategy or pause.

        What is not given is taken from the settings; nothing outlives this library.
        """
        for folder in self._folders.values():
            folder.watch(strategy, debounce_ms, on_pass)

    def unwatch(self) -> None:
        """Stop following, after the passes that are under way."""
        for folder in self._folders.values():
            folder.unwatch()

    def drain(self, timeout: float = 10.0) -> bool:
        """While watching: index what changed so far; False if that failed or took too long."""
        deadline = time.monotonic() + timeout
        done = True
        for folder in self._folders.values():
            done &= folder.drain(deadline - time.monotonic())
        return done

    def watching(self, *, collection: str = "") -> Watching | None:
        """How following goes; None where this library does not follow."""
        return self.folder(collection).watching()

    # -- earlier states ----------------------------------------------------

    def snapshots(self, *, collection: str = "") -> tuple[GenerationInfo, ...]:
        """Every kept generation with its manifest, the oldest first."""
        return self.folder(collection).snapshots()

    @property
    def held(self) -> int | None:
        """The generation that a roll-back holds the only collection at; indexing lets go."""
        return self.folder().held

    def diff(self, older: int, newer: int, *, collection: str = "") -> GenerationDiff:
        """The documents and sections that changed from one kept generation to another."""
        return self.folder(collection).diff(older, newer)

    def roll_back(
        self, number: int, *, collection: str = "", wait_seconds: float = 0.0
    ) -> GenerationInfo:
        """Answer from a kept generation, at once and everywhere, until :meth:`index` is called.

        Until then it can be rolled forward too; the newest generation is not held.
        """
        return self.folder(collection).roll_back(number, wait_seconds=wait_seconds)

    def pin(
        self, number: int, *, collection: str = "", wait_seconds: float = 0.0
    ) -> GenerationInfo:
        """Keep a generation whatever retention says."""
        return self.folder(collection).pin(number, wait_seconds=wait_seconds)

    def unpin(
        self, number: int, *, collection: str = "", wait_seconds: float = 0.0
    ) -> GenerationInfo:
        """Leave a generation to retention again, which comes with the next one."""
        return self.folder(collection).unpin(number, wait_seconds=wait_seconds)

    def prune(
        self, keep: int | None = None, *, collection: str = "", wait_seconds: float = 0.0
    ) -> Pruned:
        """Keep the newest ``keep`` generations (by the settings), the pinned and the serving."""
        return self.folder(collection).prune(keep, wait_seconds=wait_seconds)

    # -- leaving -----------------------------------------------------------

    def close(self) -> None:
        """Stop following the disk, and let go of the index files."""
        for folder in self._folders.values():
            folder.close()

    def __enter__(self) -> Library:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _names(folders: Sequence[Folder]) -> list[str]:
    """The name of each folder; where two are called the same, with folders above it."""
    paths = [Path(folder.root.path).parts for folder in folders]
    depth = [1] * len(paths)
    while True:
        names = ["/".join(path[-n:]) for path, n in zip(paths, depth, strict=True)]
        twins = [at for at, name in enumerate(names) if names.count(name) > 1]
        deeper = [at for at in twins if depth[at] < len(paths[at])]
        if not deeper:
            return [name.lstrip("/") or "root" for name in names]
        for at in deeper:
            depth[at] += 1


def _of(collection: str, notes: Sequence[Incomplete]) -> list[Incomplete]:
    """The same notes, saying which of several collections they are about."""
    return [Incomplete(each.reason, f"{collection}: {each.detail}", each.uris) for each in notes]
