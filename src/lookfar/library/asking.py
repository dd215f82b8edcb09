"""What every query needs: which collections to ask, their snapshots, and healing on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from lookfar.collections.passes import Closing
from lookfar.common.properties import SUPERSEDED_KEY
from lookfar.common.skip_reasons import explain_reason, summarise
from lookfar.common.waiting_sources import describe_waiting
from lookfar.errors import (
    IndexBusy,
    InvalidArgument,
    IOFailed,
    LookfarError,
    NotFound,
    how_many,
)
from lookfar.library.members import Members, is_history, is_memories
from lookfar.library.named_sources import list_waiting
from lookfar.library.package_versions import find_asked_versions
from lookfar.model import Filters, Incomplete
from lookfar.sources.globs import glob_matcher

if TYPE_CHECKING:
    from lookfar.collections.collection import Collection
    from lookfar.collections.commits import Commits
    from lookfar.ports import Reranker
    from lookfar.retrieve.ranking import Plan, Source

MISSING_REASON: Final = {"commits": "no_history", "memory": "no_memory", "outside": "no_source"}
PACKAGE_PATIENCE: Final = 20.0
"""Seconds that a question about packages waits for those that were never indexed."""
_MAX_NAMED: Final = 5
"""Missing paths that an empty answer explains."""
_NOT_SKIPPED: Final = frozenset(("gone", "no_parser", "not_included"))
"""Reasons of a ruling that apply to paths that do not exist, too."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Scope:
    """Which collections a query is for."""

    collections: Sequence[str]
    """Their names; none means those that the filters and flags ask for."""
    filters: Filters
    as_of: int | None = None
    commits: bool = False
    """Whether indexed commits are asked in addition to everything else."""
    memories: bool = False
    """Whether memories are asked in addition to everything else."""
    sources: bool = False
    """Whether sources that were added are asked in addition to everything else."""
    history: bool = False
    """Whether the query is about what happened, so that commits are indexed for it."""
    question: str = ""
    """The words of the query, which may name packages."""


def select_collections(members: Members, scope: Scope) -> Mapping[str, Collection]:
    if isinstance(scope.collections, str):
        raise InvalidArgument("collections is a str.", hint="Pass a tuple of names.")
    if scope.collections:
        selected: Mapping[str, Collection] = {
            name: members.find(name) for name in scope.collections
        }
    else:
        selected = _select_by_filters(members, scope)
    if scope.as_of is not None and len(selected) > 1:
        raise InvalidArgument(
            "as_of names a generation, and each collection counts its own.",
            hint=f"Name one collection: {', '.join(selected)}.",
        )
    return selected


def _select_by_filters(members: Members, scope: Scope) -> Mapping[str, Collection]:
    filters, lanes, current = scope.filters, scope.filters.lanes, scope.as_of is None
    others: dict[str, Collection] = {}
    if "memory" in lanes or (scope.memories and current and not lanes):
        others |= members.memories()
    if "documents" in lanes:
        others |= members.databases()
    readable = not lanes or not {"docs", "code"}.isdisjoint(lanes)
    if "sources" in lanes or (scope.sources and current and readable):
        others |= members.added_sources()
    if "deps" in lanes:
        others |= members.packages_for(scope.question, PACKAGE_PATIENCE)[0]
        for name in find_asked_versions(members, scope.question)[0].values():
            others[name] = members.outside(name)
    if lanes and set(lanes) <= {"memory", "documents", "sources", "deps"}:
        return others
    histories: Mapping[str, Commits] = {}
    only_commits = bool(filters.authors or filters.touches or filters.branch)
    if only_commits or "commits" in lanes:
        histories = members.histories()
        if filters.branch and len(histories) > 1:
            histories = {n: c for n, c in histories.items() if c.has_branch(filters.branch)}
    elif scope.commits and current and not lanes:
        histories = members.histories(look=scope.history)
        if not scope.history:
            histories = {n: c for n, c in histories.items() if c.was_indexed}
    folders = {} if only_commits or set(lanes) == {"commits"} else members.folders
    return {**folders, **histories, **others}


def open_sources(
    members: Members,
    selected: Mapping[str, Collection],
    plans: Mapping[str, Plan],
    scope: Scope,
    stack: ExitStack,
) -> tuple[list[Source], list[Incomplete]]:
    """Open a snapshot of each collection until ``stack`` is closed.

    Return the sources, and notes on what may be missing. A collection that cannot be read is
    noted, unless it is the only one or a folder.
    """
    from lookfar.retrieve.ranking import Source

    notes: list[Incomplete] = []
    sources: list[Source] = []
    rebuilding: LookfarError | None = None
    for name, collection in selected.items():
        # The plan is read once: other settings may be chosen meanwhile.
        plan = plans[name]
        if is_memories(collection):
            plan = _hide_superseded(plan)
        context = collection.open_snapshot(plan, scope.as_of)
        try:
            plan, snapshot, own_notes = stack.enter_context(context)
        except (IOFailed, IndexBusy, NotFound) as error:
            is_rebuilt = bool(error.details.get("rebuilding"))
            if len(selected) == 1 or (name in members.folders and not is_rebuilt):
                raise
            rebuilding = error if is_rebuilt else rebuilding
            missing = MISSING_REASON.get(collection.kind, "no_documents")
            reason = "rebuilding" if is_rebuilt else missing
            notes.append(Incomplete(reason, f"{name}: {error.message}"))
            continue
        aside = is_history(collection) and not scope.filters.lanes
        reader = collection.citation_reader(snapshot)
        rerank = partial(_open_reranker, members)
        sources.append(Source(name, plan, snapshot, reader, aside, collection.recent, rerank))
        notes += own_notes if len(selected) == 1 else name_collection(name, own_notes)
    if not sources and rebuilding is not None:
        raise rebuilding
    if "deps" in scope.filters.lanes:
        notes += _note_missing_packages(members, scope)
        notes += find_asked_versions(members, scope.question)[1]
    if not sources:
        notes.append(_note_nothing_selected(members, scope.filters))
    return sources, notes


def _note_missing_packages(members: Members, scope: Scope) -> list[Incomplete]:
    """Return a note if packages that a question is about are not indexed yet."""
    missing = members.packages_for(scope.question)[1]
    if not missing:
        return []
    detail = f"{how_many(missing, 'package')} not indexed yet; to index all: lookfar deps"
    return [Incomplete("rebuilding", detail)]


def _hide_superseded(plan: Plan) -> Plan:
    """Return a plan without the memories that another one supersedes, unless they are wanted."""
    filters = plan.filters
    if filters.superseded or any(SUPERSEDED_KEY in text.casefold() for text in filters.where):
        return plan
    where = (*filters.where, f"missing:{SUPERSEDED_KEY}")
    return replace(plan, filters=replace(filters, where=where))


def _open_reranker(members: Members) -> Reranker:
    from lookfar.embed.onnx import open_reranker

    settings = members.settings
    return open_reranker(settings.embed, settings.search.rerank_model)


def _note_nothing_selected(members: Members, filters: Filters) -> Incomplete:
    """Return the note that says why no collection could be asked."""
    if "documents" in filters.lanes:
        return Incomplete("no_documents", "no documents have been inserted yet")
    if "deps" in filters.lanes and members.settings.outside.packages == "off":
        return Incomplete("no_source", "packages are turned off (outside.packages)")
    if "deps" in filters.lanes:
        detail = "no installed packages were found: lookfar looks for .venv, node_modules,"
        return Incomplete("no_source", f"{detail} Cargo.lock, go.mod and pom.xml")
    if "sources" in filters.lanes:
        waiting = describe_waiting([named.source.name for named in list_waiting(members)])
        detail = waiting or "no source was added for this folder: lookfar add ORIGIN"
        return Incomplete("no_source", detail)
    if filters.lanes == ("memory",):
        return Incomplete("no_memory", "there are no memories yet")
    detail = "no git repository was found at, above or below the folder"
    if not members.settings.git.history:
        detail = "indexing of git history is turned off (git.history)"
    return Incomplete("no_history", detail)


def name_collection(name: str, notes: Sequence[Incomplete]) -> list[Incomplete]:
    """Return the notes with the name of the collection they are about."""
    return [Incomplete(note.reason, f"{name}: {note.detail}", note.uris) for note in notes]


def ask_sources(
    members: Members,
    selected: Mapping[str, Collection],
    plans: Mapping[str, Plan],
    scope: Scope,
    look: Callable[[Sequence[Source], list[Incomplete]], T],
) -> tuple[T, dict[str, int], list[Incomplete]]:
    """Open a snapshot of each collection, and return what ``look`` finds in them.

    Return their generations and the notes too, to which ``look`` may add. Each collection that
    turns out to be damaged is healed, once, and everything is asked again.
    """
    healed: list[Incomplete] = []
    candidates = list(selected.values())
    while True:
        try:
            with ExitStack() as stack:
                sources, notes = open_sources(members, selected, plans, scope, stack)
                found = look(sources, notes)
                generations = {source.collection: source.snapshot.generation for source in sources}
                return found, generations, [*healed, *notes]
        except (Closing, MemoryError):
            raise
        except Exception as error:
            for collection in candidates:
                damage = collection.find_damage(error)
                if damage is not None:
                    break
            else:
                raise
        candidates.remove(collection)
        healed.append(collection.heal(damage))


def explain_empty(
    members: Members, filters: Filters, sources: Sequence[Source]
) -> list[Incomplete]:
    """Return notes for an empty answer: nothing is indexed, or a filter matches nothing."""
    from lookfar.retrieve.question.admission import note_unmatched_conditions, note_unmatched_glob

    if not any(source.snapshot.counts().documents for source in sources):
        return [Incomplete("no_documents", _explain_nothing_indexed(members))]
    missing = [
        path
        for path in (filters.prefix, *filters.uris)
        if path and not any(source.snapshot.uris(path) for source in sources)
    ]
    notes = [
        Incomplete(
            "no_path_matches", f"no indexed path begins with {path}{explain_skipped(members, path)}"
        )
        for path in missing[:_MAX_NAMED]
    ]
    return [
        *notes,
        *note_unmatched_glob(filters, sources),
        *note_unmatched_conditions(filters, sources),
    ]


def _explain_nothing_indexed(members: Members) -> str:
    """Return that nothing is indexed, and the files that were skipped."""
    skipped = [folder.summarise_skipped() for folder in members.folders.values()]
    parts = [summarise(files.counts, files.examples, _MAX_NAMED) for files in skipped]
    named = "; ".join(filter(None, parts))
    why = f" Skipped: {named}." if named else ""
    return f"No files were indexed.{why} lookfar status --skipped lists all skipped files and why"


def note_unsearched(
    sources: Sequence[Source], filters: Filters, codes: frozenset[str]
) -> list[Incomplete]:
    """Return a note on the files with these codes that the filters admit."""
    matches = glob_matcher(filters.glob) if filters.glob else bool
    uris = [
        uri
        for source in sources
        for uri, entry in source.snapshot.left_out().items()
        if entry.code in codes and uri.startswith(filters.prefix) and matches(uri)
        and (not filters.uris or uri in filters.uris)
    ]  # fmt: skip
    named = tuple(uris[:_MAX_NAMED])
    what = f"{how_many(len(uris), 'file')} too large to be searched completely"
    return [Incomplete("not_searched", f"{what}: {', '.join(named)}", named)] if uris else []


def explain_skipped(members: Members, path: str) -> str:
    """Return why an existing path is skipped, to end a sentence; empty if it is not."""
    from lookfar.collections.rulings import explain_path

    for folder in members.folders.values():
        try:
            ruling = explain_path(folder, path)
        except LookfarError:
            continue
        if not ruling.admitted and ruling.reason not in _NOT_SKIPPED:
            why = explain_reason(ruling.reason, ruling.decided)
            rule = f": {ruling.rule}" if ruling.rule else ""
            return f": {ruling.decided} is skipped ({ruling.reason}{rule}): {why}"
    return ""
