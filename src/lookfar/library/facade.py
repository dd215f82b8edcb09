"""``Library``: open folders and databases, and search, read and edit them.

Errors are those of :mod:`lookfar.errors`, each with a hint. Methods for one collection take its
name as ``collection``, which may be omitted if there is only one. A ``Library`` may be shared by
threads; call it from async code through ``asyncio.to_thread``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from lookfar import config
from lookfar.collections.databases import Databases, Documents
from lookfar.collections.folder import Folder
from lookfar.collections.outside.opened import OutsideSources
from lookfar.common.caller import called_by
from lookfar.common.lazy import LazyModule
from lookfar.errors import InvalidArgument
from lookfar.library import searching
from lookfar.library.asking import Scope
from lookfar.library.members import Members, name_folders
from lookfar.library.searching import Question
from lookfar.model import (
    USUAL_KINDS,
    Answer,
    CallDirection,
    CallGraph,
    CallRoute,
    Case,
    CommitInfo,
    DocumentVersion,
    DriftReport,
    Edit,
    EditResult,
    Embed,
    Filters,
    GenerationDiff,
    GenerationInfo,
    Incomplete,
    IndexReport,
    LinkGraph,
    Listed,
    Listing,
    Matches,
    Mode,
    Outline,
    Page,
    PageInfo,
    PropertyValues,
    Pruned,
    Reading,
    Receipts,
    Related,
    RelatedEntry,
    RelatedKind,
    Ruling,
    SessionReceipt,
    Status,
    TagCount,
    UndoStep,
    Validation,
    Verified,
    Watching,
    WhyNot,
)

if TYPE_CHECKING:
    from lookfar.collections import read_documents as collection_reading
    from lookfar.collections import rulings
    from lookfar.collections.commits import Commits
    from lookfar.collections.file_collection import Files
    from lookfar.collections.memories import Memories
    from lookfar.common.caller import OnProgress
    from lookfar.config import SearchSettings, Settings
    from lookfar.edit.memories import MemoryFolder
    from lookfar.edit.memory_file import Memory
    from lookfar.freshness.keeper import Pass
    from lookfar.library import edit_documents, filter_values, reading, upkeep
    from lookfar.library import reading as part_reading
    from lookfar.library.outside import SourceManager
    from lookfar.library.similar import Similar
    from lookfar.retrieve.search import SearchFunction
else:  # A search needs none of them, and imports are most of the time of one command.
    collection_reading = LazyModule("lookfar.collections.read_documents")
    rulings = LazyModule("lookfar.collections.rulings")
    edit_documents = LazyModule("lookfar.library.edit_documents")
    filter_values = LazyModule("lookfar.library.filter_values")
    reading = part_reading = LazyModule("lookfar.library.reading")
    upkeep = LazyModule("lookfar.library.upkeep")


class Library:
    """Folders and databases that are searched together. Open it with :meth:`open`."""

    def __init__(self, folders: Sequence[Folder], databases: Databases | None = None) -> None:
        """Use open folders and databases; ``close`` closes them.

        Databases use the settings and the model of the first folder unless they are given.
        """
        if databases is None:
            first = folders[0]
            databases = Databases(lambda: first.settings, lambda: first.embedder)
        named = dict(zip(name_folders(folders), folders, strict=True))
        self._outside = _share_outside(folders, databases)
        self._members = Members(named, databases, self._outside)
        for folder in folders:
            folder.followers.append(partial(self._outside.follow_packages, folder.root.path))

    @classmethod
    def open(
        cls,
        *paths: str | Path,
        index_dir: str | Path | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> Library:
        """Open a library of some folders, or of the current one; nothing is read or written yet.

        ``settings`` are dotted keys, as in the settings reference, and override every file and
        variable.
        """
        folders: dict[str, Folder] = {}
        for path in paths or (".",):
            folder = Folder.open(path, index_dir=index_dir, settings=settings)
            folders.setdefault(folder.root.path, folder)
        return cls(tuple(folders.values()))

    @classmethod
    def open_databases(
        cls,
        project: str | Path | None = None,
        *,
        settings: Mapping[str, Any] | None = None,
    ) -> Library:
        """Open a library of databases alone, with the settings of a project or of the user."""
        root = None if project is None else Path(project).expanduser().resolve()
        loaded = config.load(root, dict(settings or {}))
        return cls((), Databases(lambda: loaded))

    def only(self, names: Sequence[str]) -> Library:
        """Return the library for a caller that may reach these collections alone.

        A folder includes its histories and memories. ``NAME@documents``, ``user@memory``, and
        ``FOLDER@git`` of a repository that begins above the folder must be named.
        """
        restricted = Library.__new__(Library)
        restricted._outside = self._outside
        restricted._members = self._members.restrict(names)
        return restricted

    # -- collections -------------------------------------------------------------

    @property
    def collections(self) -> tuple[str, ...]:
        """The names of the folders, in the order in which they were opened."""
        return tuple(self._members.folders)

    @property
    def collection(self) -> str:
        """The name of the only folder."""
        return self._members.only_name

    @property
    def settings(self) -> Settings:
        """The settings for queries: those of the first folder."""
        return self._members.settings

    @property
    def indexed(self) -> bool:
        """Whether every folder has a finished index to search."""
        return all(folder.indexed for folder in self._members.folders.values())

    @property
    def index_dir(self) -> Path:
        """The folder that contains the index of the only collection."""
        return self.folder().index_dir

    @property
    def held(self) -> int | None:
        """The generation that a roll-back holds the only collection at; indexing releases it."""
        return self.folder().held

    def folder(self, collection: str = "") -> Folder:
        """Return a folder by its name, or the only one."""
        return self._members.folder(collection)

    def histories(self, *, look: bool = True) -> dict[str, Commits]:
        """Return the commits of each repository; ``FOLDER@git`` is the one containing a folder.

        With ``look``, which takes a walk, also those below it.
        """
        return self._members.histories(look=look)

    def memories(self) -> dict[str, Memories]:
        """Return the memories by name: ``FOLDER@memory``, or ``user@memory`` for the user's."""
        return self._members.memories()

    def database(self, name: str = "") -> Documents:
        """Return a database of inserted documents, which need not exist."""
        return self._members.database(name)

    def databases(self) -> dict[str, Documents]:
        """Return the existing databases of inserted documents by name: ``NAME@documents``."""
        return self._members.databases()

    @property
    def outside(self) -> SourceManager:
        """The sources outside the folders: add, update, pin and remove them."""
        from lookfar.library.outside import SourceManager

        return SourceManager(self._members, self._outside)

    # -- the index ---------------------------------------------------------------

    def index(
        self,
        *,
        collection: str = "",
        rebuild: bool = False,
        only: Collection[str] | None = None,
        on_progress: OnProgress | None = None,
        wait_seconds: float = 0.0,
    ) -> IndexReport:
        """Read what changed on the disk, or everything with ``rebuild``.

        ``only`` names the documents to look at. Raises ``IndexBusy`` if another process is still
        writing after ``wait_seconds``. A damaged index is set aside and rebuilt.
        """
        with called_by(on_progress=on_progress):
            return self._members.find(collection).index(
                rebuild=rebuild, only=only, wait_seconds=wait_seconds
            )

    def first_index(self) -> None:
        """Index the folders that were never indexed, as a search does before it answers."""
        for folder in self._members.folders.values():
            folder.first_index()

    def freshen(self) -> dict[str, tuple[Incomplete, ...]] | None:
        """Bring every index up to date as a search does, for processes that only read them.

        Return what may still be missing, by the place of the index; None if a folder was never
        indexed.
        """
        return upkeep.freshen_indexed(self._members)

    def status(self, *, collection: str = "", check: bool = True) -> Status:
        """Return what is indexed; with ``check``, compare the disk with it."""
        member = self._members.find(collection)
        return member.status(collection=collection or self.collection, check=check)

    def statuses(self) -> tuple[Status, ...]:
        """Return the status of every folder, of indexed histories and memories, and of
        repositories that may not be read."""
        return upkeep.list_statuses(self._members)

    def verify(self, *, collection: str = "") -> list[str]:
        """Check every stored row, text, span, vector and file, and return the damage."""
        damage = self._members.find(collection).store.verify()
        return [f"{entry.artefact}: {entry.detail}" for entry in damage]

    def verified(
        self,
        *,
        repair: bool = False,
        on_step: Callable[[str, str], None] | None = None,
        on_progress: OnProgress | None = None,
    ) -> tuple[Verified, ...]:
        """Check every index of this library; with ``repair``, fix the damage from the sources.

        ``on_step`` is called with the collection and what is being checked.
        """
        with called_by(on_progress=on_progress):
            return upkeep.verify_all(self._members, repair=repair, on_step=on_step)

    def why(self, path: str, *, collection: str = "") -> Ruling:
        """Return which rule admits or refuses a path below a folder, and where that rule is."""
        name = collection or self.collection
        return replace(rulings.explain_path(self.folder(name), path), collection=name)

    def delete(self, *, wait_seconds: float = 0.0) -> tuple[str, ...]:
        """Delete the indexes of the folders, their commits and memories; return where they were.

        Files, repositories and memories are not touched.
        """
        return upkeep.delete_indexes(self._members, wait_seconds)

    def deletable(self) -> list[Files | Commits]:
        """Return the collections whose indexes :meth:`delete` removes."""
        return upkeep.list_deletable(self._members)

    # -- searching ---------------------------------------------------------------

    def search(
        self,
        query: str,
        *,
        mode: Mode | None = None,
        top_k: int | None = None,
        filters: Filters | None = None,
        collections: Sequence[str] = (),
        hypothesis: str = "",
        explain: bool = False,
        as_of: int | None = None,
        tuned: SearchSettings | None = None,
        answering: SearchFunction | None = None,
        commits: bool = False,
        memories: bool = False,
        sources: bool = False,
        focus: bool = False,
        units: int = 0,
        on_progress: OnProgress | None = None,
    ) -> Answer:
        """Return the best cited passages for a query, from all collections or those named.

        A ``hypothesis``, a possible answer, replaces the query in the search by meaning. A folder
        that was never indexed is indexed first. ``as_of`` is a generation and needs one
        collection. ``tuned`` replaces the ``[search]`` settings, and ``answering`` the way from
        candidates to cited hits.

        Commits are searched if ``filters`` name their kind, an author, a branch or a path they
        touch, and are indexed first if they never were. With ``commits`` they are also searched
        in addition to everything else, if they are indexed or the query is about what happened.
        Memories are searched if ``filters`` name their kind, and with ``memories`` in addition;
        so are ``sources`` that were added for the folders.

        With ``focus``, each hit says which of its sentences answer best. With ``units``, passages
        of code are whole definitions, ranked by themselves, and the answer also names that many
        definitions and sections. A query without words but with filters returns the documents that
        these admit, and no hits.
        """
        question = Question(query, mode, top_k, hypothesis, explain, focus, tuned, answering, units)
        scope = self._make_scope(collections, filters, as_of, commits, memories, sources)
        with called_by(on_progress=on_progress):
            return searching.search(self._members, question, scope)

    def list_documents(
        self,
        filters: Filters | None = None,
        *,
        limit: int = 50,
        offset: int = 0,
        collections: Sequence[str] = (),
        as_of: int | None = None,
        commits: bool = False,
        memories: bool = False,
        sources: bool = False,
        newest_first: bool = False,
    ) -> Listing:
        """Return the documents that filters admit, by collection and URI; the latest commits first.

        With ``newest_first``, the latest of all collections come first; a note that is about a
        day counts by that day.

        The same collections are asked, and brought up to date, as in a search with these filters.
        ``limit`` may be as large as ``search.top_k``.
        """
        scope = self._make_scope(collections, filters, as_of, commits, memories, sources)
        return searching.list_documents(
            self._members, scope, limit, offset, newest_first=newest_first
        )

    def why_not(
        self,
        query: str,
        uri: str,
        *,
        mode: Mode | None = None,
        top_k: int | None = None,
        filters: Filters | None = None,
        collections: Sequence[str] = (),
        hypothesis: str = "",
        as_of: int | None = None,
        tuned: SearchSettings | None = None,
        commits: bool = False,
        memories: bool = False,
        sources: bool = False,
        focus: bool = False,
        units: int = 0,
    ) -> WhyNot:
        """Return why a document is, or is not, among the hits of :meth:`search`."""
        question = Question(query, mode, top_k, hypothesis, focus=focus, tuned=tuned, units=units)
        scope = self._make_scope(collections, filters, as_of, commits, memories, sources)
        return searching.explain_absence(self._members, question, scope, uri)

    def find_similar(
        self,
        text: str,
        *,
        database: str = "",
        top_k: int | None = None,
        having: Mapping[str, Any] | None = None,
        order: Literal["vector", "hybrid"] | None = None,
    ) -> tuple[list[Similar], tuple[Incomplete, ...]]:
        """Return the inserted chunks nearest to a text, with their cosine distance, and notes on
        what may be missing; only from documents whose metadata has the values of ``having``.

        ``order`` is ``vector`` for exactly the nearest chunks, or ``hybrid`` for those found by
        words, too; by default the setting ``documents.order`` decides, and ``auto`` is hybrid. The
        default database need not exist, any other must. A model that fails is an error; without a
        model, ``hybrid`` finds chunks by words, and they have no distance.
        """
        from lookfar.library.similar import find_similar

        return find_similar(
            self._members,
            text,
            database=database,
            top_k=top_k,
            having=having,
            order=order or ("vector" if self.settings.documents.order == "vector" else "hybrid"),
        )

    def grep(
        self,
        pattern: str,
        *,
        regex: bool = False,
        case: Case = "sensitive",
        whole_words: bool = False,
        filters: Filters | None = None,
        collections: Sequence[str] = (),
        context: int | tuple[int, int] = 0,
        max_matches_per_file: int = 20,
        limit: int = 50,
        offset: int = 0,
        as_of: int | None = None,
        commits: bool = False,
        memories: bool = False,
        sources: bool = False,
    ) -> Matches:
        """Return every line that contains a text or, with ``regex``, matches an expression.

        Lines are matched one by one, as by ripgrep. ``case`` may be ``smart``: case-sensitive if
        the pattern has an upper-case letter. Documents are ordered by collection and URI:
        ``limit`` of them from ``offset`` on, each with at most ``max_matches_per_file`` lines (0:
        counts alone) and ``context`` lines around, or before and after. Counts include all
        matches. Look-around and back references are refused, so that time stays linear.

        ``filters``, ``collections``, ``as_of``, ``commits``, ``memories`` and ``sources`` as in
        :meth:`search`.
        """
        return searching.grep(
            self._members,
            pattern,
            self._make_scope(collections, filters, as_of, commits, memories, sources),
            regex=regex,
            case=case,
            whole_words=whole_words,
            context=context,
            max_matches_per_file=max_matches_per_file,
            limit=limit,
            offset=offset,
        )

    def drift(self, *, collection: str = "", on_progress: OnProgress | None = None) -> DriftReport:
        """Return the places in documentation that name what the code no longer has.

        The history of the repository says what was once there. Later hits with such a place have
        it in ``drift``.
        """
        from lookfar.library.upkeep import check_drift

        with called_by(on_progress=on_progress):
            return check_drift(self._members, collection)

    def record_answer(self, collection: str, tokens: int, document_tokens: int) -> None:
        """Count an answer that was given: its tokens, and those of the files it cites."""
        folders = self._members.folders
        folder = folders.get(collection) or next(iter(folders.values()), None)
        if folder is not None:
            folder.receipts.add(Receipts(1, tokens, document_tokens))

    def record_call(self, receipt: SessionReceipt) -> None:
        """Add calls of a client session to the receipts of the first folder."""
        folder = next(iter(self._members.folders.values()), None)
        if folder is not None:
            folder.receipts.add(Receipts(sessions=(receipt,)))

    def _make_scope(
        self,
        collections: Sequence[str],
        filters: Filters | None,
        as_of: int | None,
        commits: bool,
        memories: bool,
        sources: bool,
    ) -> Scope:
        wanted = filters or Filters()
        if getattr(wanted, "touches", ""):
            wanted = reading.resolve_touched_note(self._members, wanted)
        return Scope(collections, wanted, as_of, commits, memories, sources)

    # -- reading -----------------------------------------------------------------

    def read(self, target: str, *, collection: str = "", before: int | None = None) -> Reading:
        """Return a document (``URI``), a section (``URI#Heading``) or lines (``URI:10-20``).

        An address (``lookfar://COLLECTION/URI``) names the collection as well. A citation is an
        address too; it is checked, and ``state`` says whether it still holds. A definition in
        source code is read by its name: ``URI#Outer.inner``, or ``Outer.inner`` anywhere. A note
        is read by its file name, alias or title, or by a ``[[link]]`` to it or to a part of it;
        ``Note#^id`` is a block. :mod:`lookfar.retrieve.locate.resolve` has the order in which a
        target is understood. Raises ``Ambiguous`` if several documents have the name.

        With ``before``, a time in nanoseconds, return the text that was indexed before it;
        ``state`` says whether the document changed since. Raises ``NotFound`` if it is not kept.
        """
        return reading.read(self._members, target, collection, before)

    def embeds(self, reading: Reading) -> tuple[Embed, ...]:
        """Return what a text that was read embeds with ``![[Note]]``, each part with its own span
        and hash; up to three levels deep. What cannot be shown is named with the problem."""
        return part_reading.read_embeds(self._members, reading)

    def outline(self, uri: str, *, collection: str = "") -> Outline:
        """Return the heading tree of a document, named as for :meth:`read`."""
        return reading.outline(self._members, uri, collection)

    def page(
        self,
        uri: str,
        *,
        collection: str = "",
        as_of: int | None = None,
    ) -> Page:
        """Return a document as it is indexed, with its chunks, now or in a generation."""
        member = self._members.find(collection)
        name = collection or self.collection
        return collection_reading.read_page(member, uri, as_of=as_of, name=name)

    def versions(self, uri: str, *, collection: str = "") -> list[DocumentVersion]:
        """Return the texts that a document had in the kept generations, the oldest first.

        Read one with :meth:`page` and ``as_of``.
        """
        from lookfar.collections.versions import list_versions

        member = self._members.find(collection)
        return member.run_healed(partial(list_versions, member, uri))

    def pages(self, *, collection: str = "") -> tuple[list[PageInfo], list[Incomplete]]:
        """Return every document that has text, by URI, and notes on what may be missing."""
        return collection_reading.list_pages(self._members.find(collection))

    def related(
        self,
        target: str,
        *,
        kinds: Collection[RelatedKind] = USUAL_KINDS,
        limit: int = 10,
        as_of: int | None = None,
        collection: str = "",
    ) -> Related:
        """Return what is related to a document or a part of it: anything that :meth:`read` takes.

        ``links`` are those it contains, ``backlinks`` the documents that link to it, ``similar``
        those nearest in meaning, ``community`` those that link among each other, ``commits``
        those that changed it, if the history is indexed, and ``memories`` those that link to it.
        For a definition in source code there are ``definitions``, ``mentions``, ``callers``,
        ``callees``, ``impact`` (everything that reaches it in up to three calls) and ``tests``.
        At most ``limit`` of each; ``totals`` says how many there are. If a name is unknown or
        has several definitions, the definitions that it can mean are listed.
        """
        return reading.find_related(self._members, target, kinds, limit, as_of, collection)

    def link_targets(self, uri: str, *, collection: str = "") -> dict[str, str]:
        """Return the URIs of all documents that a document links to, by the target as written."""
        return collection_reading.link_targets(self._members.find(collection), uri)

    def call_graph(
        self,
        target: str,
        *,
        direction: CallDirection = "callers",
        depth: int = 3,
        limit: int = 200,
        collection: str = "",
    ) -> CallGraph:
        """Return what calls a definition, or what it calls, up to ``depth`` calls away.

        Nodes are nearest first; ``certain`` says whether scope, imports or types lead to one, or
        only its name.
        """
        return reading.find_calls(self._members, target, direction, depth, limit, collection)

    def call_route(self, source: str, target: str, *, collection: str = "") -> CallRoute:
        """Return how a definition or source file reaches another: each definition on the way, and
        the line that leads to the next one.

        ``complete`` says whether the index resolved each call. A link that it cannot prove is an
        override, a mention without a call, or a call of which only the name is known.
        """
        return reading.find_route(self._members, source, target, collection)

    def mentions(
        self, uri: str, *, limit: int = 10, collection: str = ""
    ) -> tuple[list[RelatedEntry], int]:
        """Return the memories that link to a document, which need not exist, and their number."""
        return reading.find_mentions(self._members, uri, limit, collection)

    def properties(self) -> tuple[PropertyValues, ...]:
        """Return the properties that indexed documents have, with their most frequent values."""
        return filter_values.list_properties(self._members)

    def tags(self) -> tuple[TagCount, ...]:
        """Return the tags of indexed documents; a tag counts the documents below it, too."""
        return filter_values.list_tags(self._members)

    def listed(self) -> list[Listed]:
        """Return every indexed document of the folders, their memories and their histories,
        without indexing anything."""
        return reading.list_indexed(self._members)

    def graph(
        self,
        *,
        most: int = 300,
        around: str = "",
        depth: int | None = None,
        community: int | None = None,
        collection: str = "",
    ) -> LinkGraph:
        """Return at most ``most`` documents with the links between them, and their communities.

        By default those with the most links; with ``around``, a document, the nearest to it, at
        most ``depth`` links away; with ``community``, those of that one.
        """
        if not 1 <= most <= 5000:
            raise InvalidArgument(f"most is {most}.", hint="Choose 1 to 5,000.")
        if depth is not None and depth < 1:
            raise InvalidArgument(f"depth is {depth}.", hint="Choose 1 or more.")
        return reading.draw_graph(self._members, most, around, depth, community, collection)

    def history(
        self,
        *,
        filters: Filters | None = None,
        limit: int = 20,
    ) -> tuple[tuple[CommitInfo, ...], tuple[Incomplete, ...]]:
        """Return the newest commits of all repositories, and notes on what may be missing.

        They are indexed first if they never were. ``filters.touches`` may be a ``[[link]]``: then
        those that changed this note.
        """
        wanted = reading.resolve_touched_note(self._members, filters or Filters())
        return reading.latest_commits(self._members, wanted, limit)

    def commit(self, name: str, uri: str) -> CommitInfo:
        """Return author, time and title of a commit of the collection ``name``."""
        return replace(
            reading.require_histories(self._members)[name].describe(uri), collection=name
        )

    # -- editing -----------------------------------------------------------------

    def edit(
        self,
        edits: Edit | Sequence[Edit],
        *,
        dry_run: bool = False,
        rewrite_links: bool = False,
        collection: str = "",
    ) -> EditResult:
        """Change Markdown documents of one folder by section, all or none.

        An edit may name the hash it expects (``expected``, from :meth:`read`); any other raises
        ``Conflict``, and nothing is written. A dry run returns the same diffs and writes nothing.
        Links to headings that the edits rename, move or remove are reported, and with
        ``rewrite_links`` changed in the same transaction. What is written can be searched at once.
        """
        return edit_documents.edit(
            self._members,
            edits,
            dry_run=dry_run,
            rewrite_links=rewrite_links,
            collection=collection,
        )

    def undo(self, target: str, *, dry_run: bool = False, collection: str = "") -> EditResult:
        """Undo the last transaction that changed a document, with everything it changed.

        Raises ``Conflict`` if one of its documents was changed since. An undo is a transaction
        too: undoing that repeats the edit.
        """
        return edit_documents.undo(self._members, target, dry_run=dry_run, collection=collection)

    def undoable(self, *, collection: str = "") -> list[UndoStep]:
        """Return the transactions of one folder or of all that can be undone, newest first."""
        return edit_documents.list_undoable(self._members, collection)

    def validate(
        self, target: str, *, collection: str = "", single_h1: bool | None = None
    ) -> Validation:
        """Check a document against the rules for headings; ``single_h1`` overrides the setting."""
        return edit_documents.validate(
            self._members, target, collection=collection, single_h1=single_h1
        )

    def notebook(self, *, collection: str = "") -> MemoryFolder:
        """Return the memories of a folder as files, by default those of the first folder."""
        return edit_documents.open_notebook(self._members, collection)

    def remember(
        self,
        text: str,
        *,
        title: str = "",
        type: str = "fact",
        tags: Sequence[str] = (),
        about: Sequence[str] = (),
        author: str = "",
        supersedes: Sequence[str] = (),
        valid_since: str = "",
    ) -> tuple[str, Memory]:
        """Store a text as a memory, in a file named after its title; return the collection, too.

        ``about`` names documents or parts of them, as for :meth:`read`; the memory links to them.
        Memories that it ``supersedes`` are kept, and hidden from answers. The result names the
        nearest memories, which it may contradict.
        """
        return edit_documents.remember(
            self._members, text, title=title, type=type, tags=tags, about=about, author=author,
            supersedes=supersedes, valid_since=valid_since,
        )  # fmt: skip

    # -- following the disk ------------------------------------------------------

    def watch(
        self,
        strategy: str | None = None,
        debounce_ms: int | None = None,
        on_pass: Callable[[Pass], None] | None = None,
    ) -> None:
        """Follow the folders in the background; call again to change strategy or pause.

        Defaults come from the settings. Closing the library ends it.
        """
        for folder in self._members.folders.values():
            folder.watch(strategy, debounce_ms, on_pass)

    def unwatch(self) -> None:
        """Stop following, after the running passes."""
        for folder in self._members.folders.values():
            folder.unwatch()

    def drain(self, timeout: float = 10.0) -> bool:
        """Index what changed so far, while watching; return False if that failed or took longer
        than ``timeout``."""
        deadline = time.monotonic() + timeout
        done = True
        for folder in self._members.folders.values():
            done &= folder.following.drain(deadline - time.monotonic())
        return done

    def watching(self, *, collection: str = "") -> Watching | None:
        """Return how following goes; None if this library does not follow the folder."""
        return self.folder(collection).watching()

    # -- generations -------------------------------------------------------------

    def snapshots(self, *, collection: str = "") -> tuple[GenerationInfo, ...]:
        """Return every kept generation with its manifest, the oldest first."""
        return self._members.find(collection).generations.list()

    def diff(self, older: int, newer: int, *, collection: str = "") -> GenerationDiff:
        """Return the documents and sections that changed between two kept generations."""
        return self._members.find(collection).store.diff(older, newer)

    def roll_back(
        self, number: int, *, collection: str = "", wait_seconds: float = 0.0
    ) -> GenerationInfo:
        """Answer from a kept generation, in every process, until :meth:`index` is called.

        Until then it can be rolled forward too; the newest generation is not held.
        """
        generations = self._members.find(collection).generations
        return generations.roll_back(number, wait_seconds=wait_seconds)

    def pin(
        self, number: int, *, collection: str = "", wait_seconds: float = 0.0
    ) -> GenerationInfo:
        """Keep a generation regardless of retention."""
        return self._members.find(collection).generations.pin(number, wait_seconds=wait_seconds)

    def unpin(
        self, number: int, *, collection: str = "", wait_seconds: float = 0.0
    ) -> GenerationInfo:
        """Let retention remove a generation again, with the next pass."""
        return self._members.find(collection).generations.unpin(number, wait_seconds=wait_seconds)

    def prune(
        self, keep: int | None = None, *, collection: str = "", wait_seconds: float = 0.0
    ) -> Pruned:
        """Keep the newest ``keep`` generations (by the settings), the pinned and the active."""
        member = self._members.find(collection)
        most = member.settings.index.retain_generations if keep is None else keep
        return member.generations.prune(most, wait_seconds=wait_seconds)

    # -- closing -----------------------------------------------------------------

    def close(self) -> None:
        """Stop following the disk, and close the index files."""
        self._members.close()

    def __enter__(self) -> Library:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _share_outside(folders: Sequence[Folder], databases: Databases) -> OutsideSources:
    """Return the outside sources for some folders, which lend them their model."""
    if not folders:
        return OutsideSources(
            lambda: databases.settings, lambda: databases.settings, databases.load_model
        )
    first = folders[0]
    return OutsideSources(
        lambda: first.settings, lambda: first.load_user_settings(), lambda: first.embedder
    )
