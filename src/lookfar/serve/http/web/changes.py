"""The routes of the history view: generations, what changed, earlier texts, and rollback."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Final

from pydantic import Field

from lookfar.collections.versions import choose_version, too_old
from lookfar.common.hidden_characters import flags
from lookfar.edit.work import make_diff
from lookfar.errors import InvalidArgument, NotFound
from lookfar.library import Library
from lookfar.model import DocumentVersion, Filters, GenerationInfo
from lookfar.serve.http.web.collection_input import CollectionInput
from lookfar.serve.show import json_shapes
from lookfar.serve.tools.dates import end_of, format_time, moment
from lookfar.serve.tools.tool import Call, Json, Result, Session, Tool

_WAIT_SECONDS: Final = 10.0
"""How long a rollback waits for another writer."""
_MOST_COMMITS: Final = 100
_TEXT_CHARS: Final = 400_000
"""How much of an earlier text the page shows."""

_Number = Annotated[int, Field(ge=1, le=2**53)]


def _generations(session: Session, given: CollectionInput, _: Call) -> Result:
    library = session.library
    name = given.choose_collection(library)
    generations = _list(library, name)
    return Result(
        {"collection": name, **json_shapes.snapshots(generations, library.folder(name).held)}, ""
    )


def _list(library: Library, name: str) -> tuple[GenerationInfo, ...]:
    return library.snapshots(collection=name) if library.folder(name).indexed else ()


class DiffInput(CollectionInput):
    older: _Number
    newer: _Number


def _diff(session: Session, given: DiffInput, _: Call) -> Result:
    library = session.library
    name = given.choose_collection(library)
    diff = library.diff(given.older, given.newer, collection=name)
    return Result({"collection": name, **json_shapes.diff(diff)}, "")


class ChangesInput(CollectionInput):
    since: Annotated[
        str, Field(min_length=1, max_length=60, description="A date, or words: since Monday")
    ]


def _changes(session: Session, given: ChangesInput, _: Call) -> Result:
    """Compare the state at a time with the active generation, and list later commits."""
    library = session.library
    name = given.choose_collection(library)
    since = moment(given.since, "since")
    if since is None:
        raise InvalidArgument("since is empty.", hint="For example: Monday, or 2026-01-31.")
    generations = _list(library, name)
    active = next((generation for generation in generations if generation.active), None)
    earlier = [
        generation for generation in generations if _to_nanoseconds(generation.created_at) < since
    ]
    later = [
        generation for generation in generations if _to_nanoseconds(generation.created_at) >= since
    ]
    # If no generation is that old, use the oldest one that is kept.
    base = earlier[-1] if earlier else next(iter(generations), None)
    data: Json = {
        "collection": name,
        "since": format_time(since),
        "base": base.number if base else None,
        "base_created_at": base.created_at if base else "",
        "complete": bool(earlier) or not generations,
        "generations": [generation.number for generation in later],
        "diff": None,
        **_commits(library, name, since),
    }
    if base is not None and active is not None and base.number < active.number:
        diff = library.diff(base.number, active.number, collection=name)
        data["diff"] = json_shapes.diff(diff)
    return Result(data, "")


def _to_nanoseconds(created_at: str) -> int:
    return int(datetime.fromisoformat(created_at).timestamp() * 10**9)


def _commits(library: Library, name: str, since: int) -> Json:
    """Return the later commits of a folder, if its history is indexed."""
    histories = library.histories(look=False)
    indexed = [key for key, commits in histories.items() if commits.indexed]
    if not any(key.partition("@")[0] == name for key in indexed):
        return {"commits": [], "commits_indexed": False}
    commits, _ = library.history(filters=Filters(after=since), limit=_MOST_COMMITS)
    own = [commit for commit in commits if commit.collection.partition("@")[0] == name]
    return {"commits": json_shapes.plain(own), "commits_indexed": True}


class EarlierInput(CollectionInput):
    uri: Annotated[str, Field(min_length=1)]
    generation: Annotated[
        int, Field(ge=0, le=2**53, description="0 is the one before the current text")
    ] = 0
    when: Annotated[
        str, Field(max_length=60, description="Instead of a generation: the text at this time")
    ] = ""


def _earlier(session: Session, given: EarlierInput, _: Call) -> Result:
    """Return an earlier text of a document, what changed since, and every text that is kept."""
    library = session.library
    name = given.choose_collection(library)
    versions = library.versions(given.uri, collection=name)
    chosen = _choose_version(versions, given)
    then = library.page(given.uri, collection=name, as_of=chosen.newest).text[:_TEXT_CHARS]
    index = library.folder(name).settings.index
    now = ""  # It may have been removed.
    if versions[-1].active:
        now = library.page(given.uri, collection=name).text[:_TEXT_CHARS]
    data = {
        "collection": name,
        "uri": given.uri,
        "title": chosen.title,
        "versions": json_shapes.plain(versions),
        "kept_since": min(item.created_at for item in _list(library, name)),
        "retained": {"days": index.retain_days, "generations": index.retain_generations},
        "generation": chosen.newest,
        "text": then,
        "truncated": max(len(then), len(now)) >= _TEXT_CHARS,
        "flags": flags(then),
        "diff": make_diff(given.uri, _end_line(then), _end_line(now)),
    }
    return Result(data, "")


def _choose_version(versions: Sequence[DocumentVersion], given: EarlierInput) -> DocumentVersion:
    """Return the version that was asked for; by default the one before the current text."""
    if given.when:
        before = end_of(given.when, "when") or 0
        chosen = choose_version(versions, before)
        if chosen is None:
            raise too_old(given.uri, before, versions[0])
        return chosen
    if given.generation:
        for version in versions:
            if version.oldest <= given.generation <= version.newest:
                return version
        raise NotFound(
            f"{given.uri} is not in generation {given.generation}.",
            hint="Choose one of the versions that are kept.",
        )
    earlier = [version for version in versions if not version.active]
    return earlier[-1] if earlier else versions[-1]


def _end_line(text: str) -> str:
    """Return a text that ends with a line break, as the comparison of lines expects."""
    return text if text.endswith("\n") or not text else f"{text}\n"


class RollBackInput(CollectionInput):
    generation: _Number
    confirm: bool = False


def _roll_back(session: Session, given: RollBackInput, call: Call) -> Result:
    library = session.library
    name = given.choose_collection(library)
    if not given.confirm and not call.confirm(
        f"Answer from generation {given.generation} of {name} until it is indexed again?"
    ):
        raise InvalidArgument("Nothing was changed.", hint="Confirm to go ahead.")
    snapshot = library.roll_back(given.generation, collection=name, wait_seconds=_WAIT_SECONDS)
    return Result(
        {"collection": name, **json_shapes.snapshot(snapshot, library.folder(name).held)}, ""
    )


ROWS: Sequence[Tool] = (
    Tool(
        "generations", "The stored generations of an index.", CollectionInput, _generations,
    ),
    Tool("diff", "What changed from one generation to another.", DiffInput, _diff),
    Tool(
        "changes",
        "What changed since a time, in generations and commits.",
        ChangesInput, _changes,
    ),
    Tool(
        "earlier",
        "An earlier text of a document, and what changed since.",
        EarlierInput, _earlier,
    ),
    Tool(
        "rollback",
        "Answer from an earlier generation until the folder is indexed again. Asks first.",
        RollBackInput, _roll_back, read_only=False, destructive=True,
    ),
)  # fmt: skip
