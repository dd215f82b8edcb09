"""Call the library of a running daemon, which saves a command the start-up time.

It never starts a daemon; if none runs, the command opens the library itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from lookfar import errors
from lookfar.common.caller import Progress, report_progress
from lookfar.errors import IOFailed, LookfarError
from lookfar.model import (
    Answer,
    CallGraph,
    CallRoute,
    Filters,
    Matches,
    Outline,
    Reading,
    Related,
    Status,
)
from lookfar.serve.daemon.endpoint import Connection, find, make_request
from lookfar.serve.daemon.plain import from_plain, to_plain


class RemoteLibrary:
    """The methods of a library that commands need, sent to the daemon."""

    def __init__(self, connection: Connection) -> None:
        self._socket = connection.socket
        self._received = connection.early
        self._about_cache: dict[str, Any] | None = None

    @classmethod
    def find(
        cls, paths: Sequence[str], index_dir: str | None, settings: Mapping[str, Any]
    ) -> RemoteLibrary | None:
        """Return the library in a daemon of this build, or None if no daemon runs."""
        options = {"index_dir": index_dir or "", "settings": dict(settings)}
        connection = find(make_request("call", paths, options))
        return None if connection is None else cls(connection)

    @property
    def collections(self) -> tuple[str, ...]:
        return tuple(self._about["collections"])

    @property
    def indexed(self) -> bool:
        return bool(self._about["indexed"])

    @property
    def _about(self) -> dict[str, Any]:
        if self._about_cache is None:
            self._about_cache = dict(self._call("about", {}))
        return self._about_cache

    def search(self, query: str, *, filters: Filters, **given: Any) -> Answer:
        arguments = {"query": query, "filters": to_plain(filters), **given}
        return from_plain(Answer, self._call("search", arguments))

    def grep(self, pattern: str, *, filters: Filters, **given: Any) -> Matches:
        arguments = {"pattern": pattern, "filters": to_plain(filters), **given}
        return from_plain(Matches, self._call("grep", arguments))

    def read(self, target: str) -> Reading:
        return from_plain(Reading, self._call("read", {"target": target}))

    def outline(self, uri: str) -> Outline:
        return from_plain(Outline, self._call("outline", {"uri": uri}))

    def related(self, target: str, **given: Any) -> Related:
        return from_plain(Related, self._call("related", {"target": target, **given}))

    def call_graph(self, target: str, **given: Any) -> CallGraph:
        return from_plain(CallGraph, self._call("call_graph", {"target": target, **given}))

    def call_route(self, source: str, target: str) -> CallRoute:
        shape = self._call("call_route", {"source": source, "target": target})
        return from_plain(CallRoute, shape)

    def statuses(self) -> tuple[Status, ...]:
        return tuple(from_plain(Status, shape) for shape in self._call("statuses", {}))

    def delete(self) -> tuple[str, ...]:
        return tuple(self._call("delete", {}))

    def close(self) -> None:
        self._socket.close()

    def _call(
        self,
        method: str,
        arguments: Mapping[str, Any],
    ) -> Any:
        request = {"method": method, "arguments": dict(arguments)}
        try:
            self._socket.sendall(json.dumps(request).encode() + b"\n")
            while True:
                response = json.loads(self._read_line())
                if "error" in response:
                    raise _rebuild_error(response["error"])
                if "progress" not in response:
                    return response["result"]
                report_progress(Progress(*response["progress"]))
        except OSError as error:
            raise IOFailed(
                "The daemon ended before it answered.",
                hint="Try again, or without the daemon: --set serve.daemon=false.",
                developer=str(error),
            ) from error

    def _read_line(self) -> bytes:
        while b"\n" not in self._received:
            chunk = self._socket.recv(1 << 20)
            if not chunk:
                raise ConnectionResetError("the daemon closed the connection")
            self._received += chunk
        line, _, self._received = self._received.partition(b"\n")
        return line


def _rebuild_error(shape: Mapping[str, Any]) -> LookfarError:
    """Return the daemon's error as an exception of the same type."""
    classes = {
        value.code: value
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, LookfarError)
    }
    return classes.get(shape["code"], LookfarError)(
        shape["message"],
        hint=shape["hint"],
        developer=shape["developer"],
        details=shape["details"],
    )
