"""The routes for sources from elsewhere: list, add, update, pin and remove them.

All but the list need permission to write. Over HTTP only addresses can be added: a client must not
name folders of the machine that the server runs on.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Final

from pydantic import Field

from lookfar.errors import InvalidArgument
from lookfar.library import Library
from lookfar.model import NamedStatus, OutsideSource
from lookfar.serve.http.web.source_jobs import get_jobs
from lookfar.serve.show import json_shapes
from lookfar.serve.tools.tool import Call, Input, Json, Result, Session, Tool

_ADDRESS: Final = re.compile(r"(?:git\+)?https?://[^\s/]+\S*")
_MOST_NAMES: Final = 100


class NoInput(Input):
    pass


def _sources(session: Session, _given: NoInput, _: Call) -> Result:
    outside = session.library.outside
    data = {
        "sources": [_describe(session.library, source) for source in outside.list_all()],
        "named": [_describe_named(status) for status in outside.list_named()],
        "may_change": outside.may_change,
        "job": get_jobs(session).describe() if outside.may_change else None,
    }
    return Result(data, "")


def _describe(library: Library, source: OutsideSource) -> Json:
    shape: Json = json_shapes.plain(source)
    del shape["named"]
    return {**shape, "state": library.outside.judge(source)}


def _describe_named(status: NamedStatus) -> Json:
    return {**json_shapes.plain(status.source), "state": status.state, "previous": status.previous}


class AddInput(Input):
    origin: Annotated[
        str,
        Field(max_length=2_000, description="https://HOST/PATH/ or git+https://HOST/PATH@TAG"),
    ] = ""
    named: Annotated[
        str,
        Field(
            max_length=100,
            description="Instead: an entry of the project's lookfar.toml. With an origin as well,"
            " it is fetched only if the entry still names that",
        ),
    ] = ""
    name: Annotated[str, Field(max_length=100, description="What to call it")] = ""
    only_page: bool = False
    everywhere: Annotated[bool, Field(description="Search it from every folder")] = False
    confirm: bool = False


def _add(session: Session, given: AddInput, call: Call) -> Result:
    library = session.library
    library.outside.require_changes()
    if not given.origin and not given.named:
        raise InvalidArgument(
            "Send an origin, or the name of an entry of lookfar.toml.",
            hint='For example {"origin": "https://docs.example.org/", "confirm": true}.',
        )
    status = library.outside.get_named(given.named) if given.named else None
    origin = status.source.origin if status is not None else given.origin
    if given.origin and given.origin != origin:
        raise InvalidArgument(
            f"The entry {given.named} of lookfar.toml has changed: it names {origin} now.",
            hint="Look at the new address, and confirm again.",
        )
    if status is None and not _ADDRESS.fullmatch(origin):
        raise InvalidArgument(
            "Only addresses can be added over HTTP.",
            hint="Use https://HOST/PATH/, or lookfar add on the machine of the server.",
        )
    if not given.confirm and not call.confirm(f"Fetch {origin} over the network?"):
        raise InvalidArgument("Nothing was fetched.", hint="Confirm to go ahead.")
    jobs = get_jobs(session)
    if status is not None:
        entry = status
        jobs.start(
            session,
            entry.source.name,
            lambda report: [library.outside.add_named(entry, on_fetch=report)],
        )
    else:
        jobs.start(
            session,
            origin,
            lambda report: [
                library.outside.add(
                    origin,
                    name=given.name,
                    everywhere=given.everywhere,
                    options={"only_page": True} if given.only_page else {},
                    on_fetch=report,
                )
            ],
        )
    return Result({"job": jobs.describe()}, "")


class UpdateInput(Input):
    names: Annotated[
        list[str], Field(max_length=_MOST_NAMES, description="None means all that are not pinned")
    ] = []


def _update(session: Session, given: UpdateInput, _: Call) -> Result:
    outside = session.library.outside
    outside.require_changes()
    for name in given.names:
        outside.get(name)
    jobs = get_jobs(session)
    jobs.start(
        session,
        ", ".join(given.names) or "all sources",
        lambda report: outside.update(given.names, on_fetch=report),
    )
    return Result({"job": jobs.describe()}, "")


def _stop(session: Session, _given: NoInput, _: Call) -> Result:
    session.library.outside.require_changes()
    jobs = get_jobs(session)
    return Result({"stopped": jobs.stop(), "job": jobs.describe()}, "")


class PinInput(Input):
    name: Annotated[str, Field(max_length=200)]
    pinned: bool = True


def _pin(session: Session, given: PinInput, _: Call) -> Result:
    source = session.library.outside.pin(given.name, pinned=given.pinned)
    return Result({"source": _describe(session.library, source)}, "")


class RemoveInput(Input):
    name: Annotated[str, Field(max_length=200)]
    confirm: bool = False


def _remove(session: Session, given: RemoveInput, call: Call) -> Result:
    library = session.library
    library.outside.require_changes()
    source = library.outside.get(given.name)
    if not given.confirm and not call.confirm(f"Delete what was fetched of {source.name}?"):
        raise InvalidArgument("Nothing was removed.", hint="Confirm to go ahead.")
    library.outside.remove(given.name)
    return Result({"removed": source.name}, "")


ROWS: Sequence[Tool] = (
    Tool(
        "sources",
        "Sources from elsewhere: what is known, from where, when, how large, and what is stale.",
        NoInput, _sources, light=True,
    ),
    Tool(
        "source_add",
        "Fetch a site or repository, or a source that lookfar.toml names. Asks first; runs in the"
        " background, and /api/events reports it.",
        AddInput, _add, read_only=False, light=True,
    ),
    Tool(
        "source_update",
        "Fetch what changed in sources. Runs in the background, and /api/events reports it.",
        UpdateInput, _update, read_only=False, light=True,
    ),
    Tool("source_stop", "Stop the running fetch.", NoInput, _stop, read_only=False, light=True),
    Tool(
        "source_pin",
        "Keep a source as it is when others are updated, or release it.",
        PinInput, _pin, read_only=False, light=True,
    ),
    Tool(
        "source_remove",
        "Delete what was fetched of a source, and its index. Asks first.",
        RemoveInput, _remove, read_only=False, destructive=True,
    ),
)  # fmt: skip
