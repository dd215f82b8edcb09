"""The facade: what a program does with Lookfar, and the only place that wires parts together.

Takes: a folder. Gives: an index of it, cited answers, and documents by section.
Refuses: what the typed errors of :mod:`lookfar.errors` name, always with the next
step.

A ``Library`` may be shared by threads; from async code call it through
``asyncio.to_thread``.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Any

from lookfar import config
from lookfar.errors import InvalidArgument, IOFailed, ModelUnavailable, NotFound
from lookfar.index import freshness
from lookfar.index.recipe import epoch_fingerprint, policy_from
from lookfar.model import (
    Answer,
    Counts,
    Document,
    Filters,
    Incomplete,
    IndexReport,
    Mode,
    Outline,
    Reading,
    Status,
)
from lookfar.parse.formats import parser_for
from lookfar.parse.text import normalise
from lookfar.retrieve.target import locate, parse_target
from lookfar.sources.confine import Refused, Root
from lookfar.store.collection import CollectionStore

if TYPE_CHECKING:
    from lookfar.index.build import Build, OnProgress
    from lookfar.ports import Embedder, Snapshot
    from lookfar.sources.walk import Walk


class Library:
    """One folder's index. Open it with :meth:`open`, best in a ``with`` statement."""

    def __init__(self, root: Root, settings: config.Settings) -> None:
        self.root = root
        self.settings = settings
        name = Path(root.path).name or "root"
        key = sha256(root.path.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "folder"
        self.collection = name
        self._store = CollectionStore(Path(settings.index.dir) / f"{slug}-{key}")
        self._walk: Walk | None = None
        self._without_model = ""
        self._building = Lock()

    @classmethod
    def open(
        cls,
        path: str | Path = ".",
        *,
        index_dir: str | Path | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> Library:
        """Open the library of a folder; nothing is read or written yet.

        ``settings`` are dotted keys, as in the settings reference, and win over
        every file and variable.
        """
        shown = Path(path).expanduser()
        explicit = dict(settings or {})
        if index_dir is not None:
            explicit["index.dir"] = str(Path(index_dir).expanduser().absolute())
        root = Root.open(shown)
        resolved = config.load(Path(root.path), explicit)
        if resolved.sources.allow_hard_links:
            root = Root.open(shown, allow_hard_links=True)
        return cls(root, resolved)

    # -- the index ---------------------------------------------------------

    @property
    def indexed(self) -> bool:
        """Whether there is a finished index to search."""
        return self._store.exists

    @property
    def index_dir(self) -> Path:
        """The folder that holds this library's index."""
        return self._store.folder

    def index(
        self,
        *,
        rebuild: bool = False,
        on_progress: OnProgress | None = None,
        wait_seconds: float = 0.0,
    ) -> IndexReport:
        """Make the index true to the disk: what changed is read, with ``rebuild`` everything."""
        with self._building:
            before = None if rebuild else self._walk
            report, self._walk = self._build(on_progress).run(
                before=before, rebuild=rebuild, wait_seconds=wait_seconds
            )
        return report

    def _build(self, on_progress: OnProgress | None = None) -> Build:
        from lookfar.index.build import Build

        return Build(
            self.root, self.collection, self._store, self.settings, self._embedder, on_progress
        )

    @cached_property
    def _embedder(self) -> Embedder | None:
        """The model; without the default one, words alone have to do."""
        from lookfar.embed.providers import open_embedder

        try:
            return open_embedder(self.settings.embed)
        except ModelUnavailable as missing:
            if self.settings.origin.get("embed.provider", "default") != "default":
                raise
            self._without_model = missing.message
            return None

    # -- asking ------------------------------------------------------------

    def search(
        self,
        query: str,
        *,
        mode: Mode | None = None,
        top_k: int | None = None,
        filters: Filters | None = None,
        explain: bool = False,
        as_of: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> Answer:
        """The best cited spans for a question. A folder never indexed is indexed first."""
        from lookfar.retrieve.plan import make_plan
        from lookfar.retrieve.search import search

        started = time.perf_counter()
        chosen = self.settings.search
        plan = make_plan(
            query,
            mode=mode or chosen.mode,  # type: ignore[arg-type]
            top_k=chosen.top_k if top_k is None else top_k,
            filters=filters or Filters(),
            embedder=self._embedder,
        )
        notes = self._freshen(on_progress) if as_of is None else []
        with self._store.snapshot(as_of) as snapshot:
            hits, stale = search(
                plan,
                snapshot,
                chosen,
                self._readable,
                collection=self.collection,
                explain=explain,
            )
            notes += _failed(snapshot)
            if self._without_model:
                notes.append(Incomplete("no_model", f"{self._without_model} Words only."))
            generation = snapshot.generation
        took = (time.perf_counter() - started) * 1000
        return Answer(query, plan.mode, tuple(hits), generation, took, (*notes, *stale))

    def _freshen(self, on_progress: OnProgress | None) -> list[Incomplete]:
        """Index what was never indexed, bring a few changed files up to date, admit the rest."""
        if not self._store.exists:
            self.index(on_progress=on_progress, wait_seconds=600.0)
            return []
        fingerprint = epoch_fingerprint(self.settings, self._embedder)
        if self._store.fingerprint() != fingerprint:
            self.index(on_progress=on_progress, wait_seconds=600.0)
            return []
        with self._store.snapshot() as snapshot:
            if snapshot.size() > freshness.MOST_CHECKED:
                return [freshness.UNCHECKED]
            known, left_out = snapshot.known(), snapshot.left_out()
        with self._building:
            found = freshness.ensure(
                self.root,
                policy_from(self.settings),
                known,
                left_out,
                lambda walked: self._build().run(before=walked),
                self._walk,
            )
            self._walk = found.walk
        return found.notes()

    def _readable(self, uri: str) -> str | None:
        """The same for citing: one file that the disk refuses must not cost the whole answer."""
        try:
            return self._source(uri)
        except IOFailed:
            return None

    def _source(self, uri: str) -> str | None:
        """A document's normalised text as the disk has it now."""
        try:
            raw, _ = self.root.read(uri, self.settings.sources.max_file_bytes)
        except Refused:
            return None
        return normalise(raw)[0]

    # -- reading -----------------------------------------------------------

    def read(self, target: str) -> Reading:
        """A document (``URI``), a section (``URI#Heading``) or lines (``URI:10-20``)."""
        _refuse_half_characters(target)
        with self._store.snapshot() as snapshot:
            wanted = parse_target(target, exists=snapshot.document(target) is not None)
            document, state = self._current(snapshot, wanted.uri)
        path, span = locate(document, wanted)
        text = document.text[span.start : span.end]
        return Reading(
            collection=self.collection,
            uri=document.uri,
            title=document.title,
            heading_path=path,
            span=span,
            sha256=sha256(text.encode("utf-8")).hexdigest(),
            text=text,
            state="same" if state else "changed",
        )

    def outline(self, uri: str) -> Outline:
        """The heading tree of a document."""
        _refuse_half_characters(uri)
        with self._store.snapshot() as snapshot:
            document, _ = self._current(snapshot, uri)
        return Outline(
            collection=self.collection,
            uri=document.uri,
            title=document.title,
            language=document.language,
            lines=document.text.count("\n"),
            tags=document.tags,
            sections=tuple(section for section in document.sections if section.level),
        )

    def _current(self, snapshot: Snapshot, uri: str) -> tuple[Document, bool]:
        """A document parsed from the disk, and whether it is the one that was indexed."""
        known = snapshot.document(uri)
        text = self._source(uri) if known else None
        parse = parser_for(uri)
        if known is None or text is None or parse is None:
            near = get_close_matches(uri, snapshot.uris(), n=3, cutoff=0.4)
            raise NotFound(
                f"There is no document {uri!r} in this index.",
                hint=f"Nearest: {', '.join(near)}." if near else "Give its path below the folder.",
                details={"candidates": near},
            )
        same = sha256(text.encode("utf-8")).digest() == known["text_sha"]
        return parse(uri, text), same

    def status(self, *, check: bool = True) -> Status:
        """What is indexed; with ``check`` the disk is compared with it."""
        embedder = self._embedder
        about: dict[str, Any] = {
            "collection": self.collection,
            "root": self.root.path,
            "index_dir": str(self._store.folder),
            "model": embedder.name if embedder else "none",
            "dimensions": embedder.dimensions if embedder else 0,
        }
        if not self._store.exists:
            return Status(
                **about, indexed=False, generation=0, generations=(), created_at="",
                counts=Counts(), current=False, disk_bytes=0, failures=(), stale=(), stale_count=0,
            )  # fmt: skip
        kept = self._store.generations()
        with self._store.snapshot() as snapshot:
            counts, failures = snapshot.counts(), tuple(snapshot.failures())
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
            current=self._store.fingerprint() == epoch_fingerprint(self.settings, embedder),
            disk_bytes=self._store.disk_bytes(),
            failures=failures,
            stale=stale[:100],
            stale_count=len(stale),
        )

    def verify(self) -> list[str]:
        """Check every stored text, span, vector and keyword file; gives what is damaged."""
        return [f"{each.artefact}: {each.detail}" for each in self._store.verify()]

    # -- leaving -----------------------------------------------------------

    def close(self) -> None:
        """Let go of the index files."""
        self._store.close()

    def __enter__(self) -> Library:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _refuse_half_characters(name: str) -> None:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidArgument(
            "That name holds half of a character.", hint="Send valid Unicode text."
        ) from error


def _failed(snapshot: Snapshot) -> list[Incomplete]:
    failures = snapshot.failures()
    if not failures:
        return []
    detail = f"{len(failures):,} files could not be read: see lookfar status"
    return [Incomplete("failed", detail, tuple(failure.uri for failure in failures[:100]))]
