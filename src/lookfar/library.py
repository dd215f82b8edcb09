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

import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeGuard
from urllib.parse import quote

from lookfar.collections.collection import PATIENCE, Closing
from lookfar.collections.folder import Folder
from lookfar.common.target import Target
from lookfar.errors import (
    Ambiguous,
    IndexBusy,
    IndexCorrupt,
    InvalidArgument,
    IOFailed,
    LookfarError,
    ModelUnavailable,
    NotFound,
    RepositoryRefused,
    RootNotFound,
)
from lookfar.model import (
    Answer,
    Case,
    CommitInfo,
    Edit,
    EditResult,
    Filters,
    GenerationDiff,
    GenerationInfo,
    Hit,
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
    Pruned,
    Reading,
    Related,
    RelatedEntry,
    RelatedKind,
    Ruling,
    Status,
    UndoStep,
    Validation,
    Verified,
    Watching,
    WhyNot,
)
from lookfar.retrieve.locate.address import SCHEME, parse_address
from lookfar.retrieve.locate.target import parse_target
from lookfar.retrieve.neighbours.mentions import ABOUT
from lookfar.retrieve.neighbours.related import KINDS
from lookfar.retrieve.question.intent import asks_for_history

if TYPE_CHECKING:
    from lookfar.collections.collection import Collection as AnyCollection
    from lookfar.collections.commits import Commits
    from lookfar.collections.databases import Documents, Similar
    from lookfar.collections.memories import Memories
    from lookfar.config import SearchSettings, Settings
    from lookfar.edit.memories import MemoryFolder
    from lookfar.edit.memory_file import Memory
    from lookfar.index.keeper import Pass
    from lookfar.index.progress import OnProgress
    from lookfar.ports import Reranker
    from lookfar.retrieve.fixed_shares import SearchFunction
    from lookfar.retrieve.grep.matching_lines import GrepResult
    from lookfar.retrieve.ranking import Plan, Source


_HISTORY: Final = "@git"
"""Ends the name of a collection of commits."""
_MEMORY: Final = "@memory"
"""Ends the name of a collection of memories."""
_DOCUMENTS: Final = "@documents"
"""Ends the name of a collection of inserted documents."""
_MISSING: Final = {"commits": "no_history", "memory": "no_memory"}
_NAMED_MISSING: Final = 5
"""Paths asked for that are not indexed, of which it is said why."""
_NOT_SKIPPED: Final = frozenset(("gone", "no_parser", "not_included"))
"""Reasons of a ruling that a path which does not exist may have, too."""
_ANY_WORDS: Final = "*"
"""A question without a word, for those who ask for documents and not for passages."""
_HASH: Final = re.compile(r"[0-9a-f]{7,64}(?=[#:]|$)")


class Library:
    """Folders that are searched together. Open it with :meth:`open`, best in a ``with``."""

    def __init__(self, folders: Sequence[Folder]) -> None:
        """Over folders that are open already; ``close`` closes them."""
        self._folders = dict(zip(_names(folders), folders, strict=True))
        self._only: frozenset[str] | None = None

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

    def only(self, names: Sequence[str]) -> Library:
        """The same for somebody who may reach these collections alone: folders with their
        histories and memories, ``NAME@documents``, ``user@memory``, and ``FOLDER@git`` where the
        repository begins above the folder."""
        folders = {name: each for name, each in self._folders.items() if name in names}
        if not folders:
            raise NotFound(
                "There is no folder here that your token reaches.",
                hint="Ask for a token for one of them: lookfar tokens add NAME --collection FOLDER",
            )
        made = Library(())
        made._folders, made._only = folders, frozenset(names)
        return made

    def _reaches(self, name: str) -> bool:
        return self._only is None or name in self._only

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

    def histories(self, *, look: bool = True) -> dict[str, Commits]:
        """The commits of each repository, by name: ``FOLDER@git`` for the one that a folder is
        or lies in; with ``look``, which takes a walk, also those below it.
        """
        found: dict[str, Commits] = {}
        stores: set[Path] = set()
        for name, folder in self._folders.items():
            for uri, commits in folder.histories(look=look).items():
                known = f"{name}/{uri}{_HISTORY}" if uri else f"{name}{_HISTORY}"
                # One that begins above the folder tells of other folders, too.
                wider = not uri and Path(commits.repository.top) != Path(folder.root.path)
                if commits.index_dir in stores or (wider and not self._reaches(known)):
                    continue
                stores.add(commits.index_dir)
                found[known] = commits
        return found

    def memories(self) -> dict[str, Memories]:
        """What is remembered, by name: ``FOLDER@memory`` of each folder that something is
        remembered of, or ``user@memory`` where memories are the user's.
        """
        found: dict[str, Memories] = {}
        for name, folder in self._folders.items():
            memories = folder.memories()
            if memories is not None:
                shared = folder.settings.memory.scope == "user"
                if not shared or self._reaches(f"user{_MEMORY}"):
                    found.setdefault(f"{'user' if shared else name}{_MEMORY}", memories)
        return found

    def database(self, name: str = "") -> Documents:
        """A database of inserted documents, there or not; without a name, the usual one."""
        if not self._reaches(f"{name or 'vectors'}{_DOCUMENTS}"):
            raise NotFound(
                "There is no such database that your token reaches.",
                hint=f"Ask for a token with --collection {name or 'vectors'}{_DOCUMENTS}",
            )
        return next(iter(self._folders.values())).database(name or "vectors")

    def databases(self) -> dict[str, Documents]:
        """The databases of inserted documents that there are, by name: ``NAME@documents``."""
        from lookfar.collections.databases import databases_of

        names = [
            name for name in databases_of(self.settings) if self._reaches(f"{name}{_DOCUMENTS}")
        ]
        return {f"{name}{_DOCUMENTS}": self.database(name) for name in names}

    def find_similar(
        self,
        text: str,
        *,
        database: str = "",
        top_k: int | None = None,
        having: Mapping[str, Any] | None = None,
        on_progress: OnProgress | None = None,
    ) -> tuple[list[Similar], tuple[Incomplete, ...]]:
        """The inserted chunks nearest to a text, with their cosine distance, and what may be
        missing; only of documents whose metadata has the values of ``having``.

        The usual database need not be there yet, any other must. A model that fails now is an
        error; without one, words find chunks that have no distance.
        """
        from lookfar.collections.databases import (
            Measured,
            filter_tags,
            found_in,
            nearest,
            settings_for,
        )

        asked, filters = self.database(database), Filters(tags=filter_tags(having or {}))
        if not database and not asked.exists:
            return [], ()
        started, measured = time.perf_counter(), Measured()
        answer = self.search(
            text,
            top_k=top_k,
            filters=filters,
            collections=(asked.name,),
            tuned=settings_for(self.settings.search),
            answering=partial(nearest, measured=measured),
            on_progress=on_progress,
        )
        missing = [note for note in answer.incomplete if note.reason == "no_model"]
        if missing and asked.embedder is not None and not measured.by_meaning:
            raise ModelUnavailable(
                "The embedding model failed, so no distance can be measured.",
                hint="Try again, or look for the words with a search.",
                developer=missing[0].detail,
            )
        return found_in(asked, answer.hits, started, measured), answer.incomplete

    def _homes(self, name: str) -> list[Folder]:
        """The folders that a collection of memories is about."""
        owner = self._folders.get(name.removesuffix(_MEMORY))
        return [owner] if owner is not None else list(self._folders.values())

    def _collection(self, name: str = "") -> AnyCollection:
        """A folder, a history, memories or inserted documents by their name; without one, the
        only folder."""
        if name.endswith(_DOCUMENTS) and name not in self._folders:
            return self.database(name.removesuffix(_DOCUMENTS)).present()
        if name.endswith(_MEMORY) and name not in self._folders:
            remembered = self.memories().get(name)
            if remembered is not None:
                return remembered
        if name.endswith(_HISTORY) and name not in self._folders:
            found = self.histories(look=False).get(name) or self.histories().get(name)
            if found is not None:
                return found
        return self.folder(name)

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
        return self._collection(collection).index(
            rebuild=rebuild, only=only, on_progress=on_progress, wait_seconds=wait_seconds
        )

    def first_index(self, *, on_progress: OnProgress | None = None) -> None:
        """Index the folders that never were, as a search does before it answers."""
        for folder in self._folders.values():
            folder.first_index(on_progress)

    def status(self, *, collection: str = "", check: bool = True) -> Status:
        """What is indexed; with ``check`` the disk is compared with it."""
        found = self._collection(collection)
        return found.status(collection=collection or self.collection, check=check)

    def statuses(self) -> tuple[Status, ...]:
        """The status of every folder, of its history and memories where they are indexed, and of
        repositories whose history is refused."""
        histories = self.histories(look=False)
        refused = {n: each for n, each in histories.items() if each.refusal() is not None}
        others: dict[str, AnyCollection] = {**histories, **self.memories()}
        known = {n: each for n, each in others.items() if each.indexed or n in refused}
        return tuple(
            each.status(collection=name) for name, each in {**self._folders, **known}.items()
        )

    def verify(self, *, collection: str = "") -> list[str]:
        """Check every stored row, text, span, vector and file; gives what is damaged."""
        return self._collection(collection).verify()

    def verified(
        self,
        *,
        repair: bool = False,
        on_step: Callable[[str, str], None] | None = None,
        on_progress: OnProgress | None = None,
    ) -> tuple[Verified, ...]:
        """The same for every index of this library, each with what is damaged in it; with
        ``repair`` that is made anew from the sources. ``on_step`` is told the collection and
        what is checked of it.
        """
        others = {**self.histories(look=False), **self.memories(), **self.databases()}
        every = {**self._folders, **others}
        indexed = {n: each for n, each in every.items() if each.indexed}
        found: list[Verified] = []
        # Databases belong to no folder: they are checked wherever the command is run.
        for name, each in (indexed or self._folders).items():
            tell = partial(on_step, name) if on_step is not None else None
            found.append(
                each.verified(repair=repair, collection=name, on_step=tell, on_progress=on_progress)
            )
        return tuple(found)

    def why_not(self, query: str, uri: str, **how: Any) -> WhyNot:
        """Why a document is, or is not, among the hits for a question; ``how`` as in ``search``."""
        from lookfar.retrieve.why_not import explain_absence

        found: list[WhyNot] = []

        def follow(
            sources: Sequence[Source], settings: SearchSettings, _: bool
        ) -> tuple[list[Hit], list[Incomplete]]:
            found.append(explain_absence(sources, settings, uri))
            return [], []

        self.search(query, **{**how, "answering": follow})
        return found[-1]

    def why(self, path: str, *, collection: str = "") -> Ruling:
        """Which rule admits or refuses a path below a folder, and where that rule stands."""
        name = collection or self.collection
        return replace(self.folder(name).why(path), collection=name)

    # -- asking ------------------------------------------------------------

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
        focus: bool = False,
        on_progress: OnProgress | None = None,
    ) -> Answer:
        """The best cited spans for a question, from all collections or those named.

        With a ``hypothesis``, what the answer might say, meaning is that of the hypothesis.
        A folder never indexed is indexed first. ``as_of`` is a generation, and so needs
        one collection. ``tuned`` replaces the ``[search]`` settings for this question, and
        ``answering`` the way from its candidates to cited hits.

        Commits are asked when ``filters`` name their lane, an author, a branch or a path they
        touch, and are indexed first if they never were; with ``commits`` also beside everything
        else, where they are indexed already or the question is about what happened. Memories are
        asked when ``filters`` name their lane, and with ``memories`` beside everything else.

        With ``focus``, each hit says which of its sentences answer best. Without words, but with
        filters, the answer has the documents that these admit, and no hits.
        """
        from lookfar.retrieve.question.plan import make_plan
        from lookfar.retrieve.search import search

        started = time.perf_counter()
        if filters and not str(query).strip() and not hypothesis:
            listing = self.list_documents(
                filters,
                limit=(tuned or self.settings.search).top_k if top_k is None else top_k,
                collections=collections,
                as_of=as_of,
                commits=commits,
                memories=memories,
                on_progress=on_progress,
            )
            took = (time.perf_counter() - started) * 1000
            return Answer(query, "keyword", (), listing.generations, took, listing.incomplete,
                          listing.documents, listing.total)  # fmt: skip
        for each in self._folders.values():
            each.settle()  # Else the question would be put to the model of the old settings.
        chosen = tuned or self.settings.search
        filters = filters or Filters()
        beside = commits and as_of is None
        asked = self._asked(
            collections,
            filters,
            beside,
            memories and as_of is None,
            history=beside and asks_for_history(query),
        )
        _refuse_several(asked, as_of)
        if hypothesis and not chosen.hypothesis:
            raise InvalidArgument(
                "Searching by hypothesis is turned off.",
                hint="Ask without one, or set search.hypothesis to true.",
            )
        modelled = any(folder.embedder for folder in asked.values())
        plans: dict[str, Plan] = {}
        away: list[str] = []
        plan_of: dict[str, Plan] = {}
        for name, folder in (asked or dict(list(self._folders.items())[:1])).items():
            model = folder.embedder.fingerprint if folder.embedder else ""
            if model not in plans:
                planned = partial(
                    make_plan,
                    query,
                    mode=mode or chosen.mode,  # type: ignore[arg-type]
                    top_k=chosen.top_k if top_k is None else top_k,
                    filters=filters,
                )
                # One without a model among others that have one is asked by its words.
                meant = hypothesis if folder.embedder or not modelled else ""
                try:
                    plans[model] = planned(embedder=folder.embedder, hypothesis=meant)
                except ModelUnavailable as error:
                    # A service may be away; by words there is an answer all the same.
                    if folder.embedder is None or (mode or chosen.mode) == "vector":
                        raise
                    plans[model] = planned(embedder=None)
                    away.append(error.message)
            plan_of[name] = replace(plans[model], focus=focus)

        def answer() -> tuple[list[Hit], list[Incomplete], dict[str, int]]:
            with ExitStack() as pinned:
                sources, notes = self._sources(asked, plan_of, filters, as_of, pinned, on_progress)
                if not sources:
                    return [], notes, {}
                usual = search
                # Comments belong into the answer unless code does: there they stand in it.
                if chosen.comments and "docs" in filters.lanes and "code" not in filters.lanes:
                    from lookfar.retrieve.comments import search_with_comments as usual
                hits, stale = (answering or usual)(sources, chosen, explain)
                generations = {each.collection: each.snapshot.generation for each in sources}
                hits = [self._aged(hit, asked[hit.collection]) for hit in hits]
                if not hits:
                    notes += self._why_nothing(filters, sources)
            return hits, [*notes, *stale], generations

        (hits, notes, generations), healed = self._healing(answer, asked, on_progress)
        notes = [*healed, *notes]
        unable = {f.without_model for f in asked.values() if f.without_model}
        for missing in sorted(unable.union(away)):
            notes.append(Incomplete("no_model", f"{missing} Words only."))
        took = (time.perf_counter() - started) * 1000
        answered = next(iter(plans.values())).mode
        if answered == "hybrid" and not any(each.embedder for each in asked.values()):
            answered = "keyword"  # Where there is no model, half of it was never asked.
        return Answer(query, answered, tuple(hits), generations, took, tuple(notes))

    def record_answer(self, collection: str, tokens: int, document_tokens: int) -> None:
        """Count an answer that somebody was given: its tokens, and those of the files it cites."""
        folder = self._folders.get(collection) or next(iter(self._folders.values()))
        folder.receipts.add(tokens, document_tokens)

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
        on_progress: OnProgress | None = None,
    ) -> Matches:
        """Every line that holds a text or, with ``regex``, matches an expression, as ripgrep
        finds them: lines are matched one by one, and case counts unless ``case`` says otherwise
        (``smart``: it counts where the pattern has an upper-case letter).

        Documents come by collection and URI: ``limit`` of them from ``offset`` on, with at most
        ``max_matches_per_file`` lines each (0: counts alone) and ``context`` lines around, or
        before and after. Counts are of all that match. Expressions have the syntax of ripgrep;
        look-around and back references are refused, so that time stays linear.

        ``filters``, ``collections``, ``as_of``, ``commits`` and ``memories`` as in :meth:`search`.
        """
        from lookfar.retrieve.grep.matcher import make_matcher
        from lookfar.retrieve.grep.matching_lines import grep, make_limits
        from lookfar.retrieve.question.plan import make_line_plan

        started = time.perf_counter()
        matcher = make_matcher(pattern, regex=regex, case=case, whole_words=whole_words)
        shown = make_limits(offset, limit, max_matches_per_file, context)
        filters = filters or Filters()
        plan = make_line_plan(pattern, filters)
        for folder in self._folders.values():
            folder.settle()
        beside = as_of is None
        asked = self._asked(
            collections, filters, commits and beside, memories and beside, history=False
        )
        _refuse_several(asked, as_of)

        def answer() -> tuple[GrepResult, list[Incomplete], dict[str, int]]:
            with ExitStack() as pinned:
                plans = dict.fromkeys(asked, plan)
                sources, notes = self._sources(asked, plans, filters, as_of, pinned, on_progress)
                found = grep(sources, matcher, shown, _pausing(on_progress))
                if not found.matches and sources:
                    notes += self._why_nothing(filters, sources)
                return found, notes, {one.collection: one.snapshot.generation for one in sources}

        (found, notes, generations), healed = self._healing(answer, asked, on_progress)
        return Matches(
            pattern=pattern,
            mode="regex" if regex else "literal",
            case=matcher.case,
            files=tuple(found.files),
            matches=found.matches,
            matched_files=found.matched_files,
            offset=offset,
            generations=generations,
            took_ms=(time.perf_counter() - started) * 1000,
            incomplete=(*healed, *notes, *found.notes),
        )

    def _sources(
        self,
        asked: Mapping[str, AnyCollection],
        plan_of: Mapping[str, Plan],
        filters: Filters,
        as_of: int | None,
        pinned: ExitStack,
        on_progress: OnProgress | None,
    ) -> tuple[list[Source], list[Incomplete]]:
        """A snapshot of each collection that is asked, until ``pinned`` is left, and what may be
        missing; no source where there is nothing to ask."""
        from lookfar.retrieve.ranking import Source

        notes: list[Incomplete] = []
        sources: list[Source] = []
        rebuilding: LookfarError | None = None
        for name, folder in asked.items():
            plan = plan_of[name]  # As it was: another may be chosen meanwhile.
            try:
                if _is_history(folder):
                    plan = replace(plan, filters=folder.narrowed(plan.filters))
                context = folder.asked(plan, as_of, on_progress)
                snapshot, said = pinned.enter_context(context)
                plan = folder.fitted(plan, snapshot)
            except (IOFailed, IndexBusy, NotFound) as error:
                # What cannot be read beside the folders costs nobody the rest, nor
                # does a folder whose index is being rebuilt.
                anew = bool(error.details.get("rebuilding"))
                if len(asked) == 1 or (name in self._folders and not anew):
                    raise
                rebuilding = error if anew else rebuilding
                missing = _MISSING.get(folder.kind, "no_documents")
                reason = "rebuilding" if anew else missing
                notes.append(Incomplete(reason, f"{name}: {error.message}"))
                continue
            aside = _is_history(folder) and not filters.lanes
            recent = folder.recent if _is_memory(folder) else None
            read = folder.reader(snapshot)
            sources.append(Source(name, plan, snapshot, read, aside, recent, self._reranker))
            notes += said if len(asked) == 1 else _of(name, said)
        if not sources and rebuilding is not None:
            raise rebuilding
        if not sources:
            notes.append(_nothing_to_ask(filters))
        return sources, notes

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
        on_progress: OnProgress | None = None,
    ) -> Listing:
        """The documents that filters admit, by collection and URI; commits, the latest first.

        The collections asked, and how up to date they are, are those of a search with the same
        filters. ``limit`` may be as large as ``search.top_k``.
        """
        from lookfar.retrieve.retrievers.listing import list_admitted

        _refuse_bad_offset(offset)
        documents: list[Listed] = []
        total = 0

        def gather(
            sources: Sequence[Source], _settings: SearchSettings, _explain: bool
        ) -> tuple[list[Hit], list[Incomplete]]:
            nonlocal total
            documents[:], total = list_admitted(sources, limit, offset)
            return [], []

        answer = self.search(
            _ANY_WORDS,
            mode="keyword",
            top_k=limit,
            filters=filters,
            collections=collections,
            as_of=as_of,
            answering=gather,
            commits=commits,
            memories=memories,
            on_progress=on_progress,
        )
        return Listing(tuple(documents), total, answer.generations, answer.incomplete)

    def _why_nothing(self, filters: Filters, sources: Sequence[Source]) -> list[Incomplete]:
        """What to say of an empty answer: nothing is indexed, or no path is what was asked for."""
        from lookfar.retrieve.question.admission import note_unmatched_glob

        if not any(source.snapshot.counts().documents for source in sources):
            detail = "No files were indexed. lookfar status lists the skipped files and why"
            return [Incomplete("no_documents", detail)]
        asked = [filters.prefix, *filters.uris]
        missing = [
            path
            for path in asked
            if path and not any(source.snapshot.uris(path) for source in sources)
        ]
        notes = [
            Incomplete(
                "no_path_matches", f"no indexed path begins with {path}{self._skipped(path)}"
            )
            for path in missing[:_NAMED_MISSING]
        ]
        return [*notes, *note_unmatched_glob(filters, sources)]

    def _skipped(self, path: str) -> str:
        """Why a path that exists is not indexed, to be added to a sentence; or nothing."""
        for folder in self._folders.values():
            try:
                ruling = folder.why(path)
            except LookfarError:
                continue
            if not ruling.admitted and ruling.reason not in _NOT_SKIPPED:
                rule = f" by the rule {ruling.rule}" if ruling.rule else ""
                return f": {ruling.decided} is skipped ({ruling.reason}{rule})"
        return ""

    def _asked(
        self,
        collections: Sequence[str],
        filters: Filters,
        commits: bool,
        memories: bool,
        *,
        history: bool,
    ) -> Mapping[str, AnyCollection]:
        """The collections that a question is for."""
        if isinstance(collections, str):
            raise InvalidArgument("collections is a str.", hint="Pass a tuple of names.")
        if collections:
            return {name: self._collection(name) for name in collections}
        remembered: dict[str, AnyCollection] = {}
        if "memory" in filters.lanes or (memories and not filters.lanes):
            remembered |= self.memories()
        if "documents" in filters.lanes:
            remembered |= self.databases()
        if filters.lanes and set(filters.lanes) <= {"memory", "documents"}:
            return remembered
        return {**self._asked_beside(filters, commits, history), **remembered}

    def _asked_beside(
        self, filters: Filters, commits: bool, history: bool
    ) -> Mapping[str, AnyCollection]:
        """The same without memories."""
        of_commits = filters.authors or filters.touches or filters.branch
        if of_commits or "commits" in filters.lanes:
            found = self.histories()
            if filters.branch and len(found) > 1:
                found = {n: each for n, each in found.items() if each.has_branch(filters.branch)}
            others = not of_commits and set(filters.lanes) != {"commits"}
            return {**(self._folders if others else {}), **found}
        if not commits or filters.lanes:
            return self._folders
        if history:  # Who asks when or why something changed has to be told.
            return {**self._folders, **self.histories()}
        known = {n: each for n, each in self.histories(look=False).items() if each.indexed}
        return {**self._folders, **known}

    def _aged(self, hit: Hit, found: AnyCollection) -> Hit:
        """A hit that says, if it is a memory, what changed since it was written."""
        if not _is_memory(found):
            return hit
        return replace(hit, stale=found.changed_since(self._homes(hit.collection), hit.uri))

    def _reranker(self) -> Reranker:
        """The model that reads question and text together, where the settings ask for it."""
        from lookfar.embed.reranker import open_reranker

        return open_reranker(self.settings.embed, self.settings.search.rerank_model)

    def _healing(
        self,
        ask: Callable[[], Any],
        asked: Mapping[str, AnyCollection],
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
            except (LookfarError, Closing, MemoryError):
                raise
            except Exception as error:
                behind = ((each, each.suspected(error)) for each in left)
                found = next(((each, why) for each, why in behind if why is not None), None)
                if found is None:
                    raise
                left.remove(found[0])
                healed.append(found[0].heal(found[1], on_progress))

    # -- reading -----------------------------------------------------------

    def read(self, target: str, *, collection: str = "") -> Reading:
        """A document (``URI``), a section (``URI#Heading``), lines (``URI:10-20``), or the same
        with their collection as an address (``lookfar://COLLECTION/URI``). A citation is an
        address too; it is checked, and ``state`` says whether it still holds. What source code
        defines is read by its name: ``URI#Outer.inner``, or ``Outer.inner`` wherever it stands.
        """
        name, wanted = self._addressed(target, collection)
        try:
            return self._collection(name).read(wanted, collection=name)
        except NotFound as error:
            uri = wanted.uri if isinstance(wanted, Target) else parse_target(wanted, False).uri
            why = self._skipped(uri) if name in self._folders else ""
            if not why:
                raise
            raise NotFound(
                error.message, hint=f"It is not indexed{why}.", details=error.details
            ) from error

    def outline(self, uri: str, *, collection: str = "") -> Outline:
        """The heading tree of a document."""
        name, wanted = self._addressed(uri, collection)
        uri = wanted if isinstance(wanted, str) else wanted.uri
        return self._collection(name).outline(uri, collection=name)

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
        found = self._collection(collection)
        name = collection or self.collection
        return found.page(uri, as_of=as_of, collection=name, on_progress=on_progress)

    def pages(
        self, *, collection: str = "", on_progress: OnProgress | None = None
    ) -> tuple[list[PageInfo], list[Incomplete]]:
        """Every document of a collection that has text, by URI, and what may be missing."""
        return self._collection(collection).pages(on_progress)

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
        linked among each other. ``commits`` are those that changed it, where the history is
        indexed, and ``memories`` those that link to it. At most ``limit`` of each; ``totals``
        says how many there are.
        """
        name, wanted = self._addressed(target, collection)
        asked = kinds
        if not isinstance(kinds, str) and kinds:
            # Those are added here, and a collection must be asked for something.
            asked = tuple(each for each in kinds if each != "memories") or ("commits",)
        found = self._collection(name).related(
            wanted, kinds=asked, limit=limit, as_of=as_of, collection=name
        )
        found = self._led_out(name, found)
        if "memories" in kinds:
            entries, total = self.mentions(found.uri, limit=limit, collection=name)
        if "memories" in kinds and self.memories():
            found = replace(
                found,
                entries=(*found.entries, *entries),
                totals={**found.totals, "memories": total},
            )
        return self._with_commits(name, found, limit) if "commits" in kinds else found

    def listed(self) -> list[Listed]:
        """Every indexed document of the folders, and of their memories and histories where these
        are indexed; nothing is indexed for it."""
        others = {**self.histories(look=False), **self.memories()}
        every = {**self._folders, **others}
        return [each for name, found in every.items() for each in found.listed(collection=name)]

    def graph(
        self,
        *,
        most: int = 300,
        around: str = "",
        community: int | None = None,
        collection: str = "",
    ) -> LinkGraph:
        """At most so many documents with the links between them, and their communities.

        Without more, those with the most links; with ``around``, a URI, those nearest to it; with
        ``community`` those of that one.
        """
        if not 1 <= most <= 5000:
            raise InvalidArgument(f"most is {most}.", hint="Choose 1 to 5,000.")
        name = collection or self.collection
        return self._collection(name).graph(
            most=most, around=around, community=community, collection=name
        )

    def history(
        self,
        *,
        filters: Filters | None = None,
        limit: int = 20,
        on_progress: OnProgress | None = None,
    ) -> tuple[tuple[CommitInfo, ...], tuple[Incomplete, ...]]:
        """The newest commits of all repositories, and what may be missing. They are indexed
        first if they never were."""
        if not 1 <= limit <= 10_000:
            raise InvalidArgument(f"limit is {limit}.", hint="Choose 1 to 10,000.")
        found: list[CommitInfo] = []
        notes: list[Incomplete] = []
        repositories = self._repositories()
        for name, commits in repositories.items():
            try:
                some, said = commits.latest(filters or Filters(), limit, on_progress)
            except RepositoryRefused as error:
                # One that must not be read costs nobody the history of the others.
                if len(repositories) == 1:
                    raise
                some, said = [], [Incomplete(_MISSING["commits"], error.message)]
            found += (replace(each, collection=name) for each in some)
            notes += _of(name, said)
        found.sort(key=lambda each: each.committed_at, reverse=True)
        return tuple(found[:limit]), tuple(notes)

    def commit(self, name: str, uri: str) -> CommitInfo:
        """What is known of a commit of the collection ``name``."""
        return replace(self._repositories()[name].about(uri), collection=name)

    def _repositories(self) -> dict[str, Commits]:
        found = self.histories()
        if not found:
            raise NotFound(
                "No git repository was found at, above or below the folder.",
                hint="Name a folder of one; git.history may also be turned off.",
            )
        return found

    def delete(self, *, wait_seconds: float = 0.0) -> tuple[str, ...]:
        """Remove the indexes of the folders, with those of their commits and memories; gives
        where they lay. What they were made of stays: files, repositories, memories."""
        gone: list[str] = []
        for each in self.deletable():
            if each.begun:
                gone.append(each.place)
                each.delete(wait_seconds=wait_seconds)
        return tuple(gone)

    def deletable(self) -> list[Folder | Commits]:
        """The collections that :meth:`delete` removes the indexes of."""
        # Memories of the user are those of other folders, too.
        own = [each for name, each in self.memories().items() if name != f"user{_MEMORY}"]
        try:
            histories = self.histories()
        except RootNotFound:  # An index can be removed after what it was made of.
            histories = self.histories(look=False)
        return [*self._folders.values(), *histories.values(), *own]

    def mentions(
        self, uri: str, *, limit: int = 10, collection: str = ""
    ) -> tuple[list[RelatedEntry], int]:
        """The memories that link to a document, which need not be there, and how many do."""
        name = collection or self.collection
        home = self._folders.get(name)
        found: list[RelatedEntry] = []
        total = 0
        for known, memories in self.memories().items() if home is not None else ():
            if home is None or home not in self._homes(known):
                continue
            if not home.indexed:
                home.index(wait_seconds=PATIENCE)
            entries, number = memories.mentioning(home, uri, limit)
            found += (replace(each, collection=known) for each in entries)
            total += number
        return found[:limit], total

    def _led_out(self, name: str, found: Related) -> Related:
        """The same, where the links of a memory lead into the folders that it is about."""
        memories = self._collection(name)
        if not _is_memory(memories):
            return found
        entries = list(found.entries)
        for home in self._homes(name):
            there = memories.led_out(home, found.uri)
            known = next(known for known, each in self._folders.items() if each is home)
            for at, each in enumerate(entries):
                if each.kind == "links" and not each.resolved and each.target in there:
                    uri, title = there[each.target]
                    entries[at] = replace(
                        each, uri=uri, title=title, resolved=True, collection=known
                    )
        return replace(found, entries=tuple(entries))

    # -- editing ---------------------------------------------------------------

    def edit(
        self,
        edits: Edit | Sequence[Edit],
        *,
        dry_run: bool = False,
        rewrite_links: bool = False,
        collection: str = "",
    ) -> EditResult:
        """Change Markdown documents of one folder by section, all or none.

        Each edit may say what it expects (``expected``, the hash of a :meth:`read`); anything
        else is a ``Conflict``, and nothing is written. A dry run gives the same diffs and writes
        nothing. Links to headings that the edits rename, move or remove are reported, and with
        ``rewrite_links`` changed in the same transaction. What is written is searched at once.
        """
        asked = [edits] if isinstance(edits, Edit) else list(edits)
        name = ""
        for each in asked:
            _refuse_no_text(each)
            found = self._edited_in(each.target, collection, new=each.op == "create")
            if name and found != name:
                raise InvalidArgument(
                    f"These edits are of two collections, {name} and {found}.",
                    hint="Edit each by itself: a transaction is of one folder.",
                )
            name = found
        return self.folder(name).edit(
            asked, dry_run=dry_run, rewrite_links=rewrite_links, collection=name
        )

    def undo(self, target: str, *, dry_run: bool = False, collection: str = "") -> EditResult:
        """Take back the last transaction that changed a document, with all that it changed.

        Refused with ``Conflict`` where one of its documents was changed since. An undo is a
        transaction too: taking that back makes the edit again.
        """
        uri = parse_address(target)[1].uri if target.startswith(SCHEME) else target
        name = collection
        if not name and not target.startswith(SCHEME) and len(self._folders) > 1:
            # The document may be gone, so that only those who edited it know of it.
            having = {step.collection for step in self.undoable() if uri in step.uris}
            name = having.pop() if len(having) == 1 else ""
        name = self._edited_in(target, name, new=True)
        return self.folder(name).undo(uri, dry_run=dry_run, collection=name)

    def undoable(self, *, collection: str = "") -> list[UndoStep]:
        """The transactions that can be taken back, of one folder or of all, the newest first."""
        names = [collection] if collection else list(self._folders)
        found = [step for name in names for step in self.folder(name).undoable(collection=name)]
        return sorted(found, key=lambda step: step.at, reverse=True)

    def validate(
        self, target: str, *, collection: str = "", single_h1: bool | None = None
    ) -> Validation:
        """What the rules for headings say about a document; ``single_h1`` is by the settings."""
        name = self._edited_in(target, collection)
        uri = parse_address(target)[1].uri if target.startswith(SCHEME) else target
        return self.folder(name).validate(uri, single_h1=single_h1, collection=name)

    def _edited_in(self, target: str, collection: str, *, new: bool = False) -> str:
        """The folder whose document is to be edited; a new one has to say where it belongs."""
        if target.startswith(SCHEME):
            collection = parse_address(target)[0]
        apart = collection.endswith((_HISTORY, _MEMORY, _DOCUMENTS))
        if apart and collection not in self._folders:
            raise InvalidArgument(
                f"Documents of {collection!r} are not edited by section.",
                hint="Edit a document of a folder; memories have commands of their own.",
            )
        if collection or len(self._folders) == 1 or new:
            self.folder(collection)
            return collection or self.collection
        return self._addressed(target, "")[0]

    # -- remembering -----------------------------------------------------------

    def notebook(self, *, collection: str = "") -> MemoryFolder:
        """The memories of a folder as files, to be read and written; of the first where several
        are open and none is named."""
        from lookfar.collections.memories import notebook

        owner = self.folder(collection or self.collections[0])
        shared = owner.settings.memory.scope == "user"
        if shared and not self._reaches(f"user{_MEMORY}"):
            raise NotFound(
                "There are no memories that your token reaches.",
                hint=f"Ask for a token with --collection user{_MEMORY}",
            )
        return notebook(owner, list(self._folders.values()) if shared else [owner])

    def remember(
        self,
        text: str,
        *,
        title: str = "",
        type: str = "fact",
        tags: Sequence[str] = (),
        about: Sequence[str] = (),
        author: str = "",
    ) -> tuple[str, Memory]:
        """Keep a text as a memory, in a file that is called after its title; gives also the
        collection that it is found in.

        ``about`` names documents or parts of them, in any way that :meth:`read` takes; the
        memory links to them.
        """
        if isinstance(about, str):
            raise InvalidArgument("about is a str.", hint="Pass a tuple of URIs.")
        meant = [_about(each) for each in about]
        named = [name for name, _ in meant if name in self._folders]
        owner = named[0] if named else self.collections[0]
        links = ", ".join(link for _, link in meant)
        whole = f"{text.rstrip()}\n\n{ABOUT}{links}" if links and text.strip() else text
        made = self.notebook(collection=owner).create(
            whole, title=title, type=type, tags=tags, author=author
        )
        shared = self._folders[owner].settings.memory.scope == "user"
        return f"{'user' if shared else owner}{_MEMORY}", made

    def _with_commits(self, name: str, found: Related, limit: int) -> Related:
        """The same with the commits that shaped the document, the latest first."""
        from lookfar.index.commit_document import format_time

        folder = self._folders.get(name)
        if folder is None:
            return found
        entries: list[RelatedEntry] = []
        total = 0
        file = f"{folder.root.path}/{found.uri}"
        for known, commits in self.histories(look=False).items():
            path = commits.path_of(file)
            having, number = commits.touching(path, limit) if path else ([], 0)
            total += number
            entries += (
                RelatedEntry(
                    kind="commits", uri=uri, title=title, target=path, resolved=True,
                    relation=None, count=0, score=when / 1e9, anchor="", heading_path=(), line=0,
                    text="", context=format_time(when // 10**9), collection=known,
                )
                for uri, title, when in having
            )  # fmt: skip
        return replace(
            found,
            entries=(*found.entries, *entries[:limit]),
            totals={**found.totals, "commits": total},
        )

    def _addressed(self, target: str, collection: str) -> tuple[str, str | Target]:
        """The collection that a target means, and the target inside it."""
        if target.startswith(SCHEME):
            name, wanted = parse_address(target)
            self._refresh_memories(name)
            return name, wanted
        if collection.endswith(_DOCUMENTS) and collection not in self._folders:
            return collection, target
        if collection.endswith(_MEMORY) and self._refresh_memories(collection):
            return collection, target
        if collection.endswith(_HISTORY) and _is_history(self._collection(collection)):
            return collection, self._whole(collection, target)
        if not collection and _HASH.match(target):
            for name in self.histories(look=False):
                whole = self._whole(name, target)
                if self._collection(name).has(whole):
                    return name, whole
        if collection or len(self._folders) == 1:
            self.folder(collection)
            return collection or self.collection, target
        having = [name for name, folder in self._folders.items() if folder.has(target)]
        if not having:
            having = [name for name, folder in self._folders.items() if folder.defines(target)]
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

    def _refresh_memories(self, name: str) -> bool:
        """Whether these are memories; then what was just written is indexed, as there are few."""
        found = self._collection(name)
        if _is_memory(found):
            found.refresh()
            return True
        return False

    def _whole(self, name: str, target: str) -> str:
        """A target inside a history, with the hash that it begins with in full."""
        commits = self._collection(name)
        begun = _HASH.match(target)
        if begun is None or not _is_history(commits):
            return target
        return (commits.full(begun[0]) or begun[0]) + target[begun.end() :]

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
        return self._collection(collection).snapshots()

    @property
    def held(self) -> int | None:
        """The generation that a roll-back holds the only collection at; indexing lets go."""
        return self.folder().held

    def diff(self, older: int, newer: int, *, collection: str = "") -> GenerationDiff:
        """The documents and sections that changed from one kept generation to another."""
        return self._collection(collection).diff(older, newer)

    def roll_back(
        self, number: int, *, collection: str = "", wait_seconds: float = 0.0
    ) -> GenerationInfo:
        """Answer from a kept generation, at once and everywhere, until :meth:`index` is called.

        Until then it can be rolled forward too; the newest generation is not held.
        """
        return self._collection(collection).roll_back(number, wait_seconds=wait_seconds)

    def pin(
        self, number: int, *, collection: str = "", wait_seconds: float = 0.0
    ) -> GenerationInfo:
        """Keep a generation whatever retention says."""
        return self._collection(collection).pin(number, wait_seconds=wait_seconds)

    def unpin(
        self, number: int, *, collection: str = "", wait_seconds: float = 0.0
    ) -> GenerationInfo:
        """Leave a generation to retention again, which comes with the next one."""
        return self._collection(collection).unpin(number, wait_seconds=wait_seconds)

    def prune(
        self, keep: int | None = None, *, collection: str = "", wait_seconds: float = 0.0
    ) -> Pruned:
        """Keep the newest ``keep`` generations (by the settings), the pinned and the serving."""
        return self._collection(collection).prune(keep, wait_seconds=wait_seconds)

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


def _refuse_bad_offset(offset: object) -> None:
    if not isinstance(offset, int) or isinstance(offset, bool) or offset < 0:
        raise InvalidArgument(f"offset is {offset!r}.", hint="Pass a whole number from 0.")


def _refuse_no_text(edit: Edit) -> None:
    """Before anything is read: None in place of a text is a mistake that says so."""
    for name in ("target", "text", "heading", "template", "expected"):
        if not isinstance(getattr(edit, name), str):
            raise InvalidArgument(
                f"The {name} of this edit is no text.",
                hint=f"Give {name} as a str, or leave it out where there is none.",
            )


def _about(target: str) -> tuple[str, str]:
    """The collection that an address names, or none, and a link to what a target means."""
    name = ""
    if target.startswith(SCHEME):
        name, wanted = parse_address(target)
    else:
        wanted = parse_target(target, exists=False)
    if not wanted.uri.strip() or "\n" in target:
        raise InvalidArgument(f"{target[:100]!r} names no document.", hint="Give its URI.")
    place = f"{wanted.uri}#{wanted.heading}" if wanted.heading else wanted.uri
    lines = f"|{wanted.uri}:{wanted.lines[0]}-{wanted.lines[1]}" if wanted.lines else ""
    if set(wanted.uri) & set("[]|#\\") or set(wanted.heading) & set("[]|"):
        return name, f"[{quote(wanted.uri)}](<{quote(wanted.uri)}>)"
    return name, f"[[{place}{lines}]]"


def _refuse_several(asked: Mapping[str, AnyCollection], as_of: int | None) -> None:
    if as_of is not None and len(asked) > 1:
        raise InvalidArgument(
            "as_of names a generation, and each collection counts its own.",
            hint=f"Name one collection: {', '.join(asked)}.",
        )


def _nothing_to_ask(filters: Filters) -> Incomplete:
    """Why no collection could be asked."""
    if "documents" in filters.lanes:
        return Incomplete("no_documents", "no documents have been inserted yet")
    if filters.lanes == ("memory",):
        return Incomplete("no_memory", "nothing is remembered yet")
    detail = "no git repository was found at, above or below the folder"
    return Incomplete("no_history", detail)


def _pausing(on_progress: OnProgress | None) -> Callable[[], None]:
    """A chance to stop for whoever reports progress: nothing is indexed, so nothing is counted."""
    from lookfar.index.progress import Progress

    def pause() -> None:
        if on_progress is not None:
            on_progress(Progress(0, 0, 0, 0))

    return pause


def _of(collection: str, notes: Sequence[Incomplete]) -> list[Incomplete]:
    """The same notes, saying which of several collections they are about."""
    return [Incomplete(each.reason, f"{collection}: {each.detail}", each.uris) for each in notes]


def _is_history(found: AnyCollection | None) -> TypeGuard[Commits]:
    return found is not None and found.kind == "commits"


def _is_memory(found: AnyCollection | None) -> TypeGuard[Memories]:
    return found is not None and found.kind == "memory"
