"""The static files of the web page, and the security headers for them.

Each file has a route of its own, and the content security policy lets only these files run. They
hold no user data and need no token: a browser has none before it has loaded the page.
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
    # The browser asks each time whether its copy is current, which costs few bytes.
    "Cache-Control": "no-cache",
}
_INDEX: Final = "index.html"
_MEDIA_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_PREFIX: Final = "/web/"


@cache
def page() -> Mapping[str, bytes]:
    """Return the content of every file by the path it is served at."""
    folder = files("lookfar.serve.http.web") / "page"
    contents = {file.name: file.read_bytes() for file in folder.iterdir()}
    known = {
        name: body for name, body in contents.items() if name.rpartition(".")[2] in _MEDIA_TYPES
    }
    return {_path(name): known[name] for name in sorted(known)}


def file_routes() -> list[Route]:
    return [Route(path, _serve(path, body)) for path, body in page().items()]


def paths() -> frozenset[str]:
    """Return the paths of the files, which need no token."""
    return frozenset(page())


def _path(name: str) -> str:
    return "/" if name == _INDEX else f"{_PREFIX}{name}"


def _serve(path: str, body: bytes) -> Callable[[Request], Awaitable[Response]]:
    media_type = _MEDIA_TYPES["html" if path == "/" else path.rpartition(".")[2]]
    etag = f'"{sha256(body).hexdigest()[:32]}"'
    headers = {**HEADERS, "ETag": etag}

    async def serve(request: Request) -> Response:
        if request.headers.get("if-none-match") == etag:
            return Response(status_code=304, headers=headers)
        return Response(body, headers=headers, media_type=media_type)

    return serve
