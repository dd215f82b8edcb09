"""Search the collections of a library: select them, plan, open snapshots, rank, and heal."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from lookfar.common.caller import check_cancelled
from lookfar.common.garbage import collecting_seldom
from lookfar.common.skip_reasons import PARTLY, UNREAD
from lookfar.errors import InvalidArgument, ModelUnavailable, NotFound
from lookfar.library.asking import (
    Scope,
    ask_sources,
    explain_empty,
    note_unsearched,
    select_collections,
)
from lookfar.library.members import Members, is_memories, is_outside
from lookfar.model import (
    Answer,
    Case,
    Filters,
    Hit,
    Incomplete,
    Listed,
    Listing,
    Matches,
    Mode,
    WhyNot,
)
from lookfar.retrieve.question.intent import asks_for_history
from lookfar.retrieve.ranking import Results, Source

if TYPE_CHECKING:
    from lookfar.collections.collection import Collection
    from lookfar.config import SearchSettings
    from lookfar.ports import Facts
    from lookfar.retrieve.grep.matching_lines import GrepResult
    from lookfar.retrieve.ranking import Plan
    from lookfar.retrieve.search import SearchFunction

ANY_WORDS: Final = "*"
"""A query without words, for callers that want documents and not passages."""
_MOST_FROM_PACKAGES: Final = 3
"""Passages of packages in the answer to a question that did not ask for packages."""


@dataclass(frozen=True, slots=True)
class Question:
    """A query and how it is to be answered."""

    text: str
    mode: Mode | None = None
    top_k: int | None = None
    hypothesis: str = ""
    explain: bool = False
    focus: bool = False
    tuned: SearchSettings | None = None
    """Replaces the ``[search]`` settings."""
    answering: SearchFunction | None = None
    """Replaces the way from candidates to cited hits."""
    units: int = 0
    """How many definitions and sections to rank by themselves."""

    def settings(self, members: Members) -> SearchSettings:
        return self.tuned or members.settings.search


def search(members: Members, question: Question, scope: Scope) -> Answer:
    started = time.perf_counter()
    if scope.filters and not str(question.text).strip() and not question.hypothesis:
        # Without words, the documents that the filters admit are the answer.
        limit = question.settings(members).top_k if question.top_k is None else question.top_k
        listing = list_documents(members, scope, limit, 0, newest_first=True)
        took = (time.perf_counter() - started) * 1000
        return Answer(
            question.text, "keyword", (), listing.generations, took, listing.incomplete,
            listing.documents, listing.total,
        )  # fmt: skip
    members.settle()
    settings, filters = question.settings(members), scope.filters
    scope, selected, planned = _prepare(members, question, scope)

    def look(sources: Sequence[Source], notes: list[Incomplete]) -> Results:
        if not sources:
            return Results([], [])
        rank = question.answering or _usual_answering(settings, filters)
        results = rank(sources, settings, question.explain)
        hits = [_describe(members, hit, selected[hit.collection]) for hit in results.hits]
        for hit in hits:
            selected[hit.collection].embedding.note_hits([hit.uri])
        if not hits and not results.listed:
            notes += explain_empty(members, filters, sources)
        if results.confidence == "low" or not (hits or results.listed):
            notes += note_unsearched(sources, filters, UNREAD | {PARTLY})
        return results._replace(hits=hits)

    with collecting_seldom():
        results, generations, notes = ask_sources(members, selected, planned.by_name, scope, look)
    hits = (*results.hits, *_find_in_packages(members, question, scope, results))
    missing = {c.without_model for c in selected.values() if c.without_model}
    without_model = [
        Incomplete("no_model", f"{message} Words only.")
        for message in sorted(missing.union(planned.unavailable))
    ]
    mode = planned.mode
    if mode == "hybrid" and not any(collection.embedder for collection in selected.values()):
        mode = "keyword"  # Without a model, only the words were searched.
    took = (time.perf_counter() - started) * 1000
    return Answer(
        question.text, mode, hits, generations, took, (*notes, *results.notes, *without_model),
        confidence=results.confidence, units=tuple(results.units),
    )  # fmt: skip


def _prepare(
    members: Members, question: Question, scope: Scope
) -> tuple[Scope, Mapping[str, Collection], _Planned]:
    """Return the scope with what the question adds to it, the collections to ask, and plans."""
    settings = question.settings(members)
    history = scope.commits and asks_for_history(question.text)
    scope = replace(scope, history=history, question=question.text)
    selected = select_collections(members, scope)
    if question.hypothesis and not settings.hypothesis:
        raise InvalidArgument(
            "Searching by hypothesis is turned off.",
            hint="Ask without one, or set search.hypothesis to true.",
        )
    if scope.filters.lanes == ("deps",) and not scope.collections:
        question = replace(question, text=members.drop_package_name(question.text))
    # Without a collection to ask, the question is still checked, with the model of a folder.
    planned = _plan(question, settings, scope.filters, selected or members.first_folder())
    return scope, selected, planned


def _find_in_packages(
    members: Members, question: Question, scope: Scope, results: Results
) -> list[Hit]:
    """Return passages of packages that a usual question names, in places that are left over.

    The hits of the project stay as they are. Packages take part once the project has them
    indexed.
    """
    usual = scope.sources and scope.as_of is None and not (scope.collections or scope.filters)
    wanted = question.settings(members).top_k if question.top_k is None else question.top_k
    free = min(wanted - len(results.hits), _MOST_FROM_PACKAGES)
    if not usual or free <= 0 or question.answering is not None:
        return []
    named = members.named_packages(question.text)
    if not named:
        return []
    within = Scope(tuple(named), Filters())
    answer = search(members, replace(question, top_k=free, hypothesis=""), within)
    return [] if answer.confidence == "low" else list(answer.hits)


@dataclass(frozen=True, slots=True)
class _Planned:
    """The plans of a question, one for each model."""

    mode: Mode
    by_name: Mapping[str, Plan]
    unavailable: Sequence[str]
    """Messages of models that did not answer."""


def _plan(
    question: Question,
    settings: SearchSettings,
    filters: Filters,
    selected: Mapping[str, Collection],
) -> _Planned:
    """Plan a question for each collection; those with the same model share a plan."""
    from lookfar.retrieve.question.plan import make_plan

    mode = question.mode or settings.mode
    make = partial(
        make_plan,
        question.text,
        mode=mode,  # type: ignore[arg-type]
        top_k=settings.top_k if question.top_k is None else question.top_k,
        filters=filters,
    )
    by_model: dict[str, Plan] = {}
    improved: dict[str, Plan] = {}
    by_name: dict[str, Plan] = {}
    unavailable: list[str] = []
    any_model = any(collection.embedder for collection in selected.values())
    if not selected:
        by_model[""] = make(embedder=None, hypothesis=question.hypothesis)
    for name, collection in selected.items():
        embedder = collection.embedder
        model = embedder.fingerprint if embedder else ""
        if model not in by_model:
            # A collection without a model is searched by words if others have one.
            hypothesis = question.hypothesis if embedder or not any_model else ""
            try:
                by_model[model] = make(embedder=embedder, hypothesis=hypothesis)
            except ModelUnavailable as error:
                # If a service does not answer, search by words.
                if embedder is None or mode == "vector":
                    raise
                by_model[model] = make(embedder=None)
                unavailable.append(error.message)
        plan = by_model[model]
        if plan.vector is not None and collection.has_second_vectors():
            if model not in improved:
                improved[model] = _add_quality(plan, collection, question.hypothesis)
            plan = improved[model]
        by_name[name] = replace(plan, focus=question.focus, units=question.units)
    return _Planned(next(iter(by_model.values())).mode, by_name, unavailable)


def _add_quality(plan: Plan, collection: Collection, hypothesis: str) -> Plan:
    """Return the plan with the vector of the second model; without it if that model fails."""
    from lookfar.retrieve.question.plan import add_quality

    model = collection.second_model
    if model is None:
        return plan
    try:
        plan = add_quality(plan, model, hypothesis)
        collection.without_second_model = ""
    except ModelUnavailable as error:
        collection.drop_second_model(error.message)
    return plan


def _usual_answering(settings: SearchSettings, filters: Filters) -> SearchFunction:
    from lookfar.library.compat import choose_scoring
    from lookfar.retrieve.search import search

    score = choose_scoring(settings)
    # Where code is not asked for, its comments may answer; otherwise they are in the code.
    if settings.comments and "docs" in filters.lanes and "code" not in filters.lanes:
        from lookfar.retrieve.comments import search_with_comments

        return partial(search_with_comments, score=score)
    return partial(search, score=score)


def _describe(members: Members, hit: Hit, collection: Collection) -> Hit:
    """Add to a memory what changed since it was written, to a document what it names that is
    gone, and to a part of an outside source where it comes from."""
    if is_outside(collection):
        return replace(hit, origin=collection.origin_of(hit.uri))
    folder = members.folders.get(hit.collection)
    if folder is not None and hit.lane == "docs":
        drift = folder.drift_marks.find(hit.uri, hit.text)
        return replace(hit, drift=drift) if drift else hit
    if not is_memories(collection):
        return hit
    return replace(hit, stale=collection.changed_since(members.homes(hit.collection), hit.uri))


def list_documents(
    members: Members, scope: Scope, limit: int, offset: int, *, newest_first: bool = False
) -> Listing:
    """List the documents that pass the filters, by collection and URI, or the newest first."""
    from lookfar.retrieve.question.admission import resolve_globs
    from lookfar.retrieve.question.plan import make_plan

    if type(offset) is not int or offset < 0:
        raise InvalidArgument(f"offset is {offset!r}.", hint="Pass a whole number from 0.")
    members.settle()
    scope = replace(scope, question=ANY_WORDS)
    selected = select_collections(members, scope)
    plan = make_plan(ANY_WORDS, mode="keyword", top_k=limit, filters=scope.filters, embedder=None)

    def look(sources: Sequence[Source], notes: list[Incomplete]) -> tuple[tuple[Listed, ...], int]:
        admitted: list[tuple[Source, Facts]] = []
        for source in sources:
            passing = source.snapshot.admitting(resolve_globs(source.plan.filters, source.snapshot))
            passing = sorted(passing, key=lambda facts: (_newest_commit(facts), facts.uri))
            admitted += [(source, facts) for facts in passing]
        if newest_first:
            admitted.sort(key=lambda entry: -entry[1].time_ns)
        if sources and not admitted:
            notes += explain_empty(members, scope.filters, sources)
            notes += note_unsearched(sources, scope.filters, UNREAD | {PARTLY})
        page = admitted[offset : offset + limit]
        lines: dict[str, Mapping[int, int]] = {}
        for source in sources:
            wanted = [facts.document for owner, facts in page if owner is source]
            lines[source.collection] = source.snapshot.line_counts(wanted) if wanted else {}
        documents = tuple(
            Listed(
                source.collection,
                facts.uri,
                facts.title,
                facts.lane,
                facts.language,
                facts.modified_ns,
                facts.tags,
                facts.size,
                lines[source.collection].get(facts.document, 0),
                facts.day,
            )
            for source, facts in page
        )
        return documents, len(admitted)

    plans = dict.fromkeys(selected, plan)
    (documents, total), generations, notes = ask_sources(members, selected, plans, scope, look)
    return Listing(documents, total, generations, tuple(notes))


def _newest_commit(facts: Facts) -> int:
    return -facts.modified_ns if facts.lane == "commits" else 0


def explain_absence(members: Members, question: Question, scope: Scope, uri: str) -> WhyNot:
    """Return why a document is, or is not, among the hits of a question."""
    from lookfar.library.compat import choose_scoring
    from lookfar.retrieve.why_not import explain_absence

    members.settle()
    settings = question.settings(members)
    scope, selected, planned = _prepare(members, question, scope)

    def look(sources: Sequence[Source], notes: list[Incomplete]) -> WhyNot:
        if not sources:
            raise NotFound(
                f"There is no collection to ask: {notes[-1].detail}.",
                hint="Ask with other filters.",
            )
        return explain_absence(sources, settings, uri, choose_scoring(settings))

    return ask_sources(members, selected, planned.by_name, scope, look)[0]


def grep(
    members: Members,
    pattern: str,
    scope: Scope,
    *,
    regex: bool,
    case: Case,
    whole_words: bool,
    context: int | tuple[int, int],
    max_matches_per_file: int,
    limit: int,
    offset: int,
) -> Matches:
    from lookfar.retrieve.grep.matcher import make_matcher
    from lookfar.retrieve.grep.matching_lines import grep, make_limits
    from lookfar.retrieve.question.plan import make_line_plan

    started = time.perf_counter()
    matcher = make_matcher(pattern, regex=regex, case=case, whole_words=whole_words)
    window = make_limits(offset, limit, max_matches_per_file, context)
    plan = make_line_plan(pattern, scope.filters)
    members.settle()
    selected = select_collections(members, scope)

    def look(sources: Sequence[Source], notes: list[Incomplete]) -> GrepResult:
        result = grep(sources, matcher, window, check_cancelled)
        if not result.matches and sources:
            notes += explain_empty(members, scope.filters, sources)
        notes += note_unsearched(sources, scope.filters, UNREAD)
        return result

    plans = dict.fromkeys(selected, plan)
    result, generations, notes = ask_sources(members, selected, plans, scope, look)
    return Matches(
        pattern=pattern,
        mode="regex" if regex else "literal",
        case=matcher.case,
        files=tuple(result.files),
        matches=result.matches,
        matched_files=result.matched_files,
        offset=offset,
        generations=generations,
        took_ms=(time.perf_counter() - started) * 1000,
        incomplete=(*notes, *result.notes),
    )
