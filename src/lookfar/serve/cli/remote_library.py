"""A library in the daemon, asked from a command line: the same questions, without the start.

Takes: the folders and settings of a command. Gives: the answers of the daemon that runs, as
the same objects. Refuses: to start one; where none runs, the caller opens the library itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lookfar import errors
from lookfar.errors import IOFailed, LookfarError
from lookfar.model import Answer, Filters, Matches, Outline, Reading, Related, Status
from lookfar.serve.daemon.endpoint import Connection, find, make_request
from lookfar.serve.daemon.plain import from_plain, to_plain


class RemoteLibrary:
    """What a command asks of a library, asked of the daemon."""

    def __init__(self, connection: Connection) -> None:
        self._socket = connection.socket
        self._received = connection.early
        self._known: dict[str, Any] | None = None

    @classmethod
    def find(
        cls, paths: Sequence[str], index_dir: str | None, settings: Mapping[str, Any]
    ) -> RemoteLibrary | None:
        """The library in a daemon of this build, if one runs."""
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
        if self._known is None:
            self._known = dict(self._ask("about", {}))
        return self._known

    def search(self, query: str, *, filters: Filters, on_progress: Any, **given: Any) -> Answer:
        asked = {"query": query, "filters": to_plain(filters), **given}
        return from_plain(Answer, self._ask("search", asked, on_progress))

    def grep(self, pattern: str, *, filters: Filters, on_progress: Any, **given: Any) -> Matches:
        asked = {"pattern": pattern, "filters": to_plain(filters), **given}
        return from_plain(Matches, self._ask("grep", asked, on_progress))

    def read(self, target: str) -> Reading:
        return from_plain(Reading, self._ask("read", {"target": target}))

    def outline(self, uri: str) -> Outline:
        return from_plain(Outline, self._ask("outline", {"uri": uri}))

    def related(self, target: str, **given: Any) -> Related:
        return from_plain(Related, self._ask("related", {"target": target, **given}))

    def statuses(self) -> tuple[Status, ...]:
        return tuple(from_plain(Status, each) for each in self._ask("statuses", {}))

    def delete(self) -> tuple[str, ...]:
        return tuple(self._ask("delete", {}))

    def close(self) -> None:
        self._socket.close()

    def _ask(
        self,
        method: str,
        arguments: Mapping[str, Any],
        on_progress: Callable[[Any], None] | None = None,
    ) -> Any:
        asked = {"method": method, "arguments": dict(arguments)}
        try:
            self._socket.sendall(json.dumps(asked).encode() + b"\n")
            while True:
                shape = json.loads(self._line())
                if "error" in shape:
                    raise _raised(shape["error"])
                if "progress" not in shape:
                    return shape["result"]
                if on_progress is not None:
                    from lookfar.index.progress import Progress

                    on_progress(Progress(*shape["progress"]))
        except OSError as error:
            raise IOFailed(
                "The daemon ended before it answered.",
                hint="Ask again, or without it: --set serve.daemon=false.",
                developer=str(error),
            ) from error

    def _line(self) -> bytes:
        while b"\n" not in self._received:
            chunk = self._socket.recv(1 << 20)
            if not chunk:
                raise ConnectionResetError("it hung up")
            self._received += chunk
        line, _, self._received = self._received.partition(b"\n")
        return line


def _raised(shape: Mapping[str, Any]) -> LookfarError:
    """The error that the daemon met, of the type that it has there."""
    kinds = {
        kind.code: kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, LookfarError)
    }
    return kinds.get(shape["code"], LookfarError)(
        shape["message"],
        hint=shape["hint"],
        developer=shape["developer"],
        details=shape["details"],
    )
