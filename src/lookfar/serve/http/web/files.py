"""The files of the page, as they lie beside this module, and what browsers are told of them.

Takes: nothing but the package itself. Gives: a route for each file, with a policy under which
nothing runs but our own files. Refuses: any other name; there is no path to walk out by.

The files say nothing about anybody's documents, so they are served without a token: a browser
cannot send one before it has a page to ask for it. What the page asks for needs one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
    " img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": _POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    # Each time the browser asks whether its copy is still the one, and is told so in few bytes.
    "Cache-Control": "no-cache",
}
_INDEX: Final = "index.html"
_KINDS: Final = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_BELOW: Final = "/web/"


@cache
def page() -> Mapping[str, bytes]:
    """Every file of the page by the path that it is served at."""
    folder = files("lookfar.serve.http.web") / "page"
    found = {each.name: each.read_bytes() for each in folder.iterdir()}
    known = {name: body for name, body in found.items() if name.rpartition(".")[2] in _KINDS}
    return {_path(name): known[name] for name in sorted(known)}


def routes() -> list[Route]:
    """A route for each file."""
    return [Route(path, _serve(path, body)) for path, body in page().items()]


def paths() -> frozenset[str]:
    """Where the files are: what may be had without a token."""
    return frozenset(page())


def _path(name: str) -> str:
    return "/" if name == _INDEX else f"{_BELOW}{name}"


def _serve(path: str, body: bytes) -> Callable[[Request], Awaitable[Response]]:
    """What answers with one file."""
    kind = _KINDS["html" if path == "/" else path.rpartition(".")[2]]
    mark = f'"{sha256(body).hexdigest()[:32]}"'
    headers = {**HEADERS, "ETag": mark}

    async def serve(request: Request) -> Response:
        if request.headers.get("if-none-match") == mark:
            return Response(status_code=304, headers=headers)
        return Response(body, headers=headers, media_type=kind)

    return serve
