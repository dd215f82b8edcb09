"""Read documents of a library: find the collection that a target names, and its neighbours."""

from __future__ import annotations

import re
from collections.abc import Collection as Several
from contextlib import suppress
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from lookfar.collections import call_graphs, embeds, read_documents
from lookfar.collections.passes import PATIENCE
from lookfar.errors import Ambiguous, InvalidArgument, NotFound, NotIndexed, RepositoryRefused
from lookfar.library.asking import (
    MISSING_REASON,
    PACKAGE_PATIENCE,
    explain_skipped,
    name_collection,
)
from lookfar.library.members import Members, is_history, is_memories
from lookfar.library.package_versions import (
    Comparison,
    compare,
    name_comparison,
    parse_comparison,
    write_report,
)
from lookfar.model import (
    CallDirection,
    CallGraph,
    CallRoute,
    CommitInfo,
    Embed,
    Filters,
    Incomplete,
    LinkGraph,
    Listed,
    Outline,
    Reading,
    Related,
    RelatedEntry,
    RelatedKind,
    Span,
    Target,
)
from lookfar.retrieve.locate.address import SCHEME, format_lines, parse_address
from lookfar.retrieve.locate.file_names import find_inner_folder, find_major_version
from lookfar.retrieve.locate.resolve import is_link
from lookfar.retrieve.locate.symbols import is_symbol_name
from lookfar.retrieve.locate.target import parse_target

if TYPE_CHECKING:
    from lookfar.collections.commits import Commits
    from lookfar.collections.outside.collection import Outside

_FULL_NAME: Final = re.compile(
    r"((?:@[\w.-]+/)?[^\W\d][\w-]*)(?:\.|::)([^\W\d][\w$]*(?:(?:\.|::)[^\W\d][\w$]*)*)"
)
"""A package and a name in it. Its end may look like that of a file: ``requests.Response.json``."""
_LONGEST_NAME: Final = 300
_SHOWN: Final = 5
"""Definitions that an error lists."""
_HASH: Final = re.compile(r"[0-9a-f]{7,64}(?=[#:]|$)")


def read(members: Members, target: str, collection: str, before: int | None = None) -> Reading:
    if before is not None:
        return _read_before(members, target, collection, before)
    compared = parse_comparison(target)
    if compared is not None:
        if not target.startswith(SCHEME):  # A document may be called like that.
            with suppress(NotFound, NotIndexed):
                name, wanted = resolve(members, target, collection)
                return read_documents.read(members.find(name), wanted, name=name)
        return _read_changes(members, compared)
    name, wanted = "", ""
    try:
        name, wanted = resolve(members, target, collection)
        reading = read_documents.read(members.find(name), wanted, name=name)
        return _mark_superseded(members, reading)
    except (NotFound, NotIndexed) as error:
        # Without a name, no folder has it.
        is_ours = not name or name in members.folders
        if name in members.folders and isinstance(wanted, str):
            inherited = call_graphs.find_inherited(members.find(name), wanted)
            if inherited is not None:
                return read_documents.read(members.find(name), inherited, name=name)
        found = _read_from_package(members, target) if is_ours else None
        if found is not None:
            return found
        if not name or isinstance(error, NotIndexed):
            raise
        uri = wanted.uri if isinstance(wanted, Target) else parse_target(wanted, False).uri
        reason = explain_skipped(members, uri) if name in members.folders else ""
        if not reason:
            raise
        hint = f"It is not indexed{reason}."
        raise NotFound(error.message, hint=hint, details=error.details) from error


def _read_changes(members: Members, compared: Comparison) -> Reading:
    """Return what changed between two versions of a package as a text."""
    changes = compare(members, compared, PACKAGE_PATIENCE)
    text = write_report(changes)
    return Reading(
        collection=changes.newer_source,
        uri=name_comparison(changes),
        title=name_comparison(changes),
        heading_path=(),
        span=Span(0, len(text), 1, text.count("\n")),
        sha256=sha256(text.encode()).hexdigest(),
        text=text,
        state="same",
    )


def _outline_changes(reading: Reading) -> Outline:
    from lookfar.text.parse.formats import text_parser_for

    document = text_parser_for("report.md")("report.md", reading.text)
    return Outline(
        collection=reading.collection,
        uri=reading.uri,
        title=reading.title,
        language="markdown",
        lines=reading.span.end_line,
        tags=(),
        sections=tuple(section for section in document.sections if section.level),
    )


def _read_from_package(members: Members, target: str) -> Reading | None:
    """Read a definition of an installed package by its full name, such as requests.Session.get.

    Asking for one enables the packages of the project. None if it is not one of theirs.
    """
    match = _FULL_NAME.fullmatch(target) if len(target) <= _LONGEST_NAME else None
    if match is None:
        return None
    top, parts = match[1], match[2].replace("::", ".").split(".")
    for packages in members.packages().values():
        chosen = [package for package in packages.find() if top in (package.name, *package.imports)]
        if not chosen or not packages.enable():
            continue
        packages.prepare(PACKAGE_PATIENCE, chosen)
        for name, outside in packages.open(chosen).items():
            for start in range(len(parts)):
                with suppress(NotFound):
                    return _read_in_modules(
                        outside, ".".join(parts[start:]), (top, *parts[:start]), name
                    )
    return None


def _read_in_modules(outside: Outside, target: str, modules: tuple[str, ...], name: str) -> Reading:
    """Read a definition; of several, the one in the modules that were named, or the public one."""
    try:
        return read_documents.read(outside, target, name=name)
    except Ambiguous as error:
        places = [str(place).partition(" ")[0] for place in error.details.get("candidates", ())]
        within = [place for place in places if _is_within(place, modules)] or places
        major = find_major_version(name) or 0
        public = [place for place in within if not find_inner_folder(place, major)] or within
        if len(public) == 1:
            return read_documents.read(outside, public[0], name=name)
        addresses = [format_lines(name, place) for place in public]
        more = f"; and {len(public) - _SHOWN} more" if len(public) > _SHOWN else ""
        raise Ambiguous(
            f"{len(public)} definitions in {name} are called {target!r}.",
            hint=f"Read one of them: {'; '.join(addresses[:_SHOWN])}{more}.",
            details={"candidates": addresses},
        ) from error


def _is_within(place: str, modules: tuple[str, ...]) -> bool:
    """Return whether a file belongs to modules; the files of a crate are below ``src``."""
    path, top = place.rpartition(".")[0].removeprefix("src/").split("/"), modules[0]
    inner = list(modules[1:])
    if path[:1] == [top]:
        return path[1 : len(modules)] == inner
    return bool(inner) and path[: len(inner)] == inner


def _read_before(members: Members, target: str, collection: str, before: int) -> Reading:
    from lookfar.collections.versions import read_before

    if type(before) is not int:
        raise InvalidArgument(
            f"before must be a time in nanoseconds since 1970, not {before!r:.60}.",
            hint="Pass an int, such as int(datetime(2026, 1, 31).timestamp()) * 10**9.",
        )
    name, wanted = resolve(members, target, collection)
    member = members.find(name)
    return member.run_healed(lambda: read_before(member, wanted, before, name=name))


def _mark_superseded(members: Members, reading: Reading) -> Reading:
    """Add to a memory by which one it is superseded."""
    collection = members.find(reading.collection)
    if not is_memories(collection) or not collection.indexed:
        return reading
    newer = collection.find_superseding(reading.uri)
    if not newer:
        return reading
    return replace(reading, warnings=(*reading.warnings, f"superseded by {newer}"))


def read_embeds(members: Members, reading: Reading) -> tuple[Embed, ...]:
    collection = members.find(reading.collection)
    return embeds.list_embeds(collection, reading, name=reading.collection)


def outline(members: Members, uri: str, collection: str) -> Outline:
    if (compared := parse_comparison(uri)) is not None:
        with suppress(NotFound, NotIndexed):
            name, wanted = resolve(members, uri, collection)
            return read_documents.outline(members.find(name), wanted, name=name)
        return _outline_changes(_read_changes(members, compared))
    name, wanted = resolve(members, uri, collection)
    return read_documents.outline(members.find(name), wanted, name=name)


def resolve(members: Members, target: str, collection: str) -> tuple[str, str | Target]:
    """Return the collection that a target names, and the target inside it."""
    if target.startswith(SCHEME):
        name, wanted = parse_address(target)
        members.refresh_memories(name)
        return name, wanted
    if members.is_companion_name(collection):
        if members.is_database_name(collection):
            return collection, target
        companion = members.find(collection)
        if is_history(companion):
            return collection, _expand_hash(companion, target)
        if is_memories(companion):
            companion.refresh()
        return collection, target
    if not collection and _HASH.match(target):
        for name, commits in members.histories(look=False).items():
            expanded = _expand_hash(commits, target)
            if read_documents.contains(commits, expanded):
                return name, expanded
    if collection or len(members.folders) == 1:
        members.folder(collection)
        return collection or members.only_name, target
    return _find_folder(members, target), target


def _find_folder(members: Members, target: str) -> str:
    """Return the only folder in which a target means something, by the order of precedence."""
    meanings = {
        name: meaning
        for name, folder in members.folders.items()
        if (meaning := read_documents.find_meaning(folder, target)) is not None
    }
    best = min(meanings.values(), default=None)
    names = [name for name, meaning in meanings.items() if meaning == best]
    if len(names) > 1:
        raise Ambiguous(
            f"{len(names)} collections have {target!r}.",
            hint=f"Name one of them: {', '.join(names)}.",
            details={"candidates": names},
        )
    if not names:
        raise NotFound(
            f"No collection has {target!r}.",
            hint=f"Collections: {', '.join(members.folders)}.",
            details={"candidates": []},
        )
    return names[0]


def _expand_hash(commits: Commits, target: str) -> str:
    """Return a target in a history with the abbreviated hash at its start in full."""
    prefix = _HASH.match(target)
    if prefix is None:
        return target
    return (commits.expand_hash(prefix[0]) or prefix[0]) + target[prefix.end() :]


# -- neighbours ------------------------------------------------------------------------------------


def find_related(
    members: Members,
    target: str,
    kinds: Several[RelatedKind],
    limit: int,
    as_of: int | None,
    collection: str,
) -> Related:
    """Return links, similar documents, commits and memories of a document or a part of it."""
    try:
        name, wanted = resolve(members, target, collection)
    except NotFound:
        if not is_symbol_name(target):
            raise
        # Similar names are listed instead, from the first folder.
        name, wanted = next(iter(members.folders)), target
    asked = kinds
    if not isinstance(kinds, str) and kinds:
        # Memories are added below, and a collection must be asked for at least one kind.
        asked = tuple(kind for kind in kinds if kind != "memories") or ("commits",)
    source = members.find(name)
    find = partial(
        read_documents.find_related, source, kinds=asked, limit=limit, as_of=as_of, name=name
    )
    related = find(wanted)
    if not related.uri and isinstance(wanted, str):
        inherited = call_graphs.find_inherited(source, wanted)
        related = find(inherited) if inherited is not None else related
    related = _resolve_outgoing_links(members, name, related)
    if "memories" in kinds:
        entries, total = find_mentions(members, related.uri, limit, name)
        if members.memories():
            related = _add_entries(related, "memories", entries, total)
    return _add_commits(members, name, related, limit) if "commits" in kinds else related


def draw_graph(
    members: Members,
    most: int,
    around: str,
    depth: int | None,
    community: int | None,
    collection: str,
) -> LinkGraph:
    """Return linked documents, by default those with the most links."""
    name, center = collection or members.only_name, None
    if around:
        name, center = resolve(members, around, name)
    return read_documents.draw_graph(
        members.find(name),
        most=most,
        around=center,
        depth=depth,
        community=community,
        name=name,
    )


def find_calls(
    members: Members,
    target: str,
    direction: CallDirection,
    depth: int,
    limit: int,
    collection: str,
) -> CallGraph:
    """Return the callers or callees of a definition."""
    name, wanted = resolve(members, target, collection)
    return call_graphs.find_calls(
        members.find(name), wanted, direction, depth=depth, limit=limit, name=name
    )


def find_route(members: Members, source: str, target: str, collection: str) -> CallRoute:
    """Return how one definition reaches another, in the same collection."""
    name, wanted = resolve(members, source, collection)
    return call_graphs.find_route(members.find(name), wanted, target, name=name)


def _add_entries(
    related: Related, kind: RelatedKind, entries: list[RelatedEntry], total: int
) -> Related:
    return replace(
        related,
        entries=(*related.entries, *entries),
        totals={**related.totals, kind: total},
    )


def _resolve_outgoing_links(members: Members, name: str, related: Related) -> Related:
    """Resolve the links of a memory into the folders that it is about."""
    memories = members.find(name)
    if not is_memories(memories):
        return related
    entries = list(related.entries)
    for home in members.homes(name):
        links = memories.outgoing_links(home, related.uri)
        home_name = next(n for n, folder in members.folders.items() if folder is home)
        for at, entry in enumerate(entries):
            if entry.kind == "links" and not entry.resolved and entry.target in links:
                uri, title = links[entry.target]
                entries[at] = replace(
                    entry, uri=uri, title=title, resolved=True, collection=home_name
                )
    return replace(related, entries=tuple(entries))


def find_mentions(
    members: Members, uri: str, limit: int, collection: str
) -> tuple[list[RelatedEntry], int]:
    home = members.folders.get(collection or members.only_name)
    mentions: list[RelatedEntry] = []
    total = 0
    for name, memories in members.memories().items() if home is not None else ():
        if home is None or home not in members.homes(name):
            continue
        if not home.indexed:
            home.index(wait_seconds=PATIENCE)
        entries, number = memories.find_mentions(home, uri, limit)
        mentions += (replace(entry, collection=name) for entry in entries)
        total += number
    return mentions[:limit], total


def _add_commits(members: Members, name: str, related: Related, limit: int) -> Related:
    """Add the commits that changed the document, the latest first."""
    from lookfar.index.commit_document import format_time

    folder = members.folders.get(name)
    if folder is None:
        return related
    entries: list[RelatedEntry] = []
    total = 0
    file = f"{folder.root.path}/{related.uri}"
    for history_name, history in members.histories(look=False).items():
        path = history.path_in_repository(file)
        commits, number = history.commits_touching(path, limit) if path else ([], 0)
        total += number
        entries += (
            RelatedEntry(
                kind="commits", uri=uri, title=title, target=path, resolved=True,
                relation=None, count=0, score=when / 1e9, anchor="", heading_path=(), line=0,
                text="", context=format_time(when // 10**9), collection=history_name,
            )
            for uri, title, when in commits
        )  # fmt: skip
    return _add_entries(related, "commits", entries[:limit], total)


# -- lists -----------------------------------------------------------------------------------------


def list_indexed(members: Members) -> list[Listed]:
    collections = {**members.folders, **members.histories(look=False), **members.memories()}
    return [
        document
        for name, collection in collections.items()
        for document in read_documents.list_indexed(collection, name=name)
    ]


def latest_commits(
    members: Members, filters: Filters, limit: int
) -> tuple[tuple[CommitInfo, ...], tuple[Incomplete, ...]]:
    from lookfar.retrieve.question.plan import check_filters

    check_filters(filters)
    if not 1 <= limit <= 10_000:
        raise InvalidArgument(f"limit is {limit}.", hint="Choose 1 to 10,000.")
    commits: list[CommitInfo] = []
    notes: list[Incomplete] = []
    histories = require_histories(members)
    for name, history in histories.items():
        try:
            latest, own_notes = history.latest(filters, limit)
        except RepositoryRefused as error:
            # A repository that must not be read does not hide the others.
            if len(histories) == 1:
                raise
            latest, own_notes = [], [Incomplete(MISSING_REASON["commits"], error.message)]
        commits += (replace(commit, collection=name) for commit in latest)
        notes += name_collection(name, own_notes)
    commits.sort(key=lambda commit: commit.committed_at, reverse=True)
    return tuple(commits[:limit]), tuple(notes)


def resolve_touched_note(members: Members, filters: Filters) -> Filters:
    """Return filters that name the path of a note in its repository, in place of a link to it."""
    # Filters of a wrong type are refused later, with the rest of the question.
    if not is_link(getattr(filters, "touches", "")):
        return filters
    name, wanted = resolve(members, filters.touches, "")
    uri = read_documents.find_uri(members.find(name), wanted)
    file = f"{members.folders[name].root.path}/{uri}"
    paths = (history.path_in_repository(file) for history in members.histories().values())
    path = next((path for path in paths if path), uri)
    return replace(filters, touches="/" + re.sub(r"([\\*?\[\]{}!,])", r"\\\1", path))


def require_histories(members: Members) -> dict[str, Commits]:
    """Return the commits of each repository; raise ``NotFound`` if there is none."""
    histories = members.histories()
    if not histories:
        raise NotFound(
            "No git repository was found at, above or below the folder.",
            hint="Name a folder inside a repository. If this folder is inside one, check that the"
            " setting git.history is on.",
        )
    return histories
