"""The route of the web page that returns a picture, and the names of the pictures of a folder.

Pictures are requested with POST like all data, so they need the token, too. The page draws their
bytes itself: no other page can show them, and a document cannot make the browser load anything.
"""

from __future__ import annotations

import threading
import time
from typing import Annotated, Final

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from lookfar.collections.file_collection import Files
from lookfar.collections.pictures import list_pictures, read_picture
from lookfar.serve.http import rest
from lookfar.serve.http.visits import get_visit
from lookfar.serve.http.web.collection_input import CollectionInput
from lookfar.serve.tools.tool import Call, Result, Session, Tool

PATH: Final = "/api/picture"
_NAMES: Final = "web.pictures"
_LOCK: Final = threading.Lock()
_LISTED_SECONDS: Final = 30.0
"""How long a list of pictures is used before the folder is walked again."""
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; sandbox; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Disposition": "attachment",
    "X-Content-Type-Options": "nosniff",
}


class PictureInput(CollectionInput):
    path: Annotated[str, Field(min_length=1, max_length=4096, description="Below the folder")]


def _picture(session: Session, given: PictureInput, _: Call) -> Result:
    library = session.library
    name = given.choose_collection(library)
    picture = read_picture(library.folder(name), given.path)
    return Result({"type": picture.media_type, "content": picture.data}, "")


TOOL: Final = Tool(
    "picture", "A picture in the folder: PNG, JPEG, GIF, WebP or AVIF.", PictureInput, _picture
)


async def serve_picture(request: Request, caller: rest.Tools) -> Response:
    arguments = await rest.read_arguments(request)
    call = rest.HttpCall()
    result = await caller.run(
        "api/picture",
        arguments,
        get_visit(request.scope),
        call,
        lambda: TOOL.run(caller.session, arguments, call),
    )
    return Response(result.data["content"], media_type=result.data["type"], headers=_HEADERS)


class PictureNames:
    """Finds the pictures of a folder by file name; lists the folder only when needed."""

    def __init__(self, session: Session, collection: str, folder: Files | None) -> None:
        self._memory = session.memory
        self._collection = collection
        self._folder = folder

    def find(self, target: str) -> str:
        """Return the path of a picture with this name, wherever it is; empty if there is none."""
        if self._folder is None or not target:
            return ""
        return self._list().get(target.replace("\\", "/").rpartition("/")[2].lower(), "")

    def _list(self) -> dict[str, str]:
        with _LOCK:
            lists: dict[str, tuple[float, dict[str, str]]] = self._memory.setdefault(_NAMES, {})
            listed_at, names = lists.get(self._collection, (0.0, {}))
        if self._folder is None or time.monotonic() - listed_at < _LISTED_SECONDS:
            return names
        names = list_pictures(self._folder)
        with _LOCK:
            lists[self._collection] = (time.monotonic(), names)
        return names
