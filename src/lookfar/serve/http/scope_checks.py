"""Refuse calls that would change what the token of a request may only read.

Takes a tool, its arguments and the request. Raises ``ScopeTooSmall``, whose header tells a client
which scope to ask its user for (step-up), before the tool runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from lookfar.errors import InvalidArgument
from lookfar.retrieve.locate.address import SCHEME, parse_address
from lookfar.serve.http.grants import Grant
from lookfar.serve.http.statuses import ScopeTooSmall
from lookfar.serve.http.visits import Visit
from lookfar.serve.tools.tool import Session, Tool

_COLLECTION: Final = "collection"


def changes_something(tool: Tool) -> bool:
    return tool.writes or not tool.read_only


def check_scope(
    name: str, tool: Tool, arguments: Any, visit: Visit | None, session: Session
) -> None:
    """Refuse a tool that changes anything, even an index, that the token may only read."""
    grant = visit.grant if visit is not None else None
    if grant is None or not grant.reads_more or not changes_something(tool):
        return
    if not grant.may_write:
        raise _refuse(f"{name} makes changes, and this token is read-only.", grant)
    for collection in _find_read_only(arguments, grant, session):
        message = f"{name} makes changes, and this token may only read {collection!r}."
        raise _refuse(message, grant, collection)


def limit_reach(tool: Tool, visit: Visit | None) -> None:
    """Limit the current task to the collections that this tool may use with the token."""
    if visit is not None and visit.grant is not None:
        visit.grant.limit_reach(changes=changes_something(tool))


def _refuse(message: str, grant: Grant, collection: str = "") -> ScopeTooSmall:
    help_to_write = grant.explain_write(collection)
    error = ScopeTooSmall(message, hint=help_to_write.hint)
    error.challenge = help_to_write.challenge
    return error


def _find_read_only(arguments: Any, grant: Grant, session: Session) -> Iterator[str]:
    """Yield the folders named in arguments that the token may read but not change."""
    # The library shows only what the token may read: names of other folders are not revealed.
    readable = session.library.collections
    for name in _find_collections(arguments):
        folder = name.partition("@")[0]
        if folder in readable and not {name, folder} & set(grant.writable):
            yield folder


def _find_collections(arguments: Any, key: str = "") -> Iterator[str]:
    """Yield the collections that arguments name: in addresses, or as ``collection``."""
    if isinstance(arguments, Mapping):
        for inner, value in arguments.items():
            yield from _find_collections(value, inner)
    elif isinstance(arguments, list):
        for value in arguments:
            yield from _find_collections(value, key)
    elif isinstance(arguments, str) and key == _COLLECTION:
        yield arguments
    elif isinstance(arguments, str) and arguments.startswith(SCHEME):
        try:
            yield parse_address(arguments)[0]
        except InvalidArgument:
            return  # The tool reports the error.
